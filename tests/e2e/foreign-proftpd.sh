#!/bin/bash
# rftp with proftpd: machine listings, MFMT, digests, TLS 1.2 and 1.3 with sessions in common. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
. "$lib/foreign.bash"
need openssl diff
is_root || skip_all "proftpd needs root"
# scripts/deps unpacks it there: as a package it would put other servers out.
own=/usr/local/lib/rftp-test
proftpd=$(PATH=$PATH:/usr/sbin:$own/usr/sbin command -v proftpd) || skip_all "proftpd is missing"
modules=
for dir in lib lib64 libexec; do
	[ -e "${proftpd%/sbin/*}/$dir/proftpd/mod_tls.so" ] && modules=${proftpd%/sbin/*}/$dir/proftpd
done
[ -n "$modules" ] || skip_all "proftpd's mod_tls is missing"
# Since Debian 13 some that were part of the program are modules.
load=
for module in ls xfer delay tls digest; do
	[ ! -e "$modules/mod_$module.so" ] || load+="LoadModule mod_$module.c"$'\n'
done

foreign_cert
disk=$tmp/pf/root/d
mkdir -p "$disk"
chown -R nobody "$tmp/pf/root"
export keeps="modes times dirtimes"
printf 'joe:%s:%s:%s::%s:/bin/sh\n' "$(openssl passwd -6 secret)" "$(id -u nobody)" \
	"$(id -g nobody)" "$tmp/pf/root" >"$tmp/pf/passwd"
printf 'g:x:%s:\n' "$(id -g nobody)" >"$tmp/pf/group"
chmod 600 "$tmp/pf/passwd"
printf 'machine 127.0.0.1 login joe password secret\n' >"$HOME/.netrc"
chmod 600 "$HOME/.netrc"

serve() { # NAME LINE...
	local name=$1
	shift
	port=$(foreign_port)
	cat >"$tmp/pf/$name.conf" <<END
ModulePath $modules
$load
ServerName test
ServerType standalone
DefaultAddress 127.0.0.1
SocketBindTight on
UseIPv6 off
Port $port
PidFile $tmp/pf/$name.pid
ScoreboardFile $tmp/pf/$name.score
DelayEngine off
User nobody
Group $(id -gn nobody)
AuthOrder mod_auth_file.c
AuthUserFile $tmp/pf/passwd
AuthGroupFile $tmp/pf/group
RequireValidShell off
UseFtpUsers off
AllowOverwrite on
WtmpLog off
TransferLog none
SystemLog $tmp/pf/$name.sys
LogFormat said "%P %r %s"
ExtendedLog $tmp/pf/$name.said ALL said
TLSLog $tmp/pf/$name.tls
TLSRSACertificateFile $tmp/crt.pem
TLSRSACertificateKeyFile $tmp/key.pem
TLSVerifyClient off
END
	printf '%s\n' "$@" >>"$tmp/pf/$name.conf"
	foreign_start "$port" "$proftpd" -n -c "$tmp/pf/$name.conf"
	url=ftp://127.0.0.1:$port/d
}
tls=('TLSEngine on' 'TLSRequired on')

serve main "${tls[@]}" 'AllowStoreRestart on'
run rftp ls --accept-new -v "$url/"
check "ls of an empty directory" status_is 0
foreign_all
check "it has been asked for machine listings" grep -q ' MLSD ' "$tmp/pf/main.said"
check "it has REST" grep -q ' REST [1-9]' "$tmp/pf/main.said"
check "sessions are used again" grep -q 'reused TLS session for data' "$tmp/pf/main.tls"
check "always" not grep -qi 'not reused\|did not reuse' "$tmp/pf/main.tls"
check "what was there of a part was compared" grep -qE ' (XSHA|HASH)' "$tmp/pf/main.said"
run rftp hash "$url/many/1"
check "hash" printed "$(sha256sum <"$tmp/many/1" | cut -d ' ' -f 1)  d/many/1"
run rftp hash --alg MD5 "$url/many/1"
check "hash --alg" printed "$(md5sum <"$tmp/many/1" | cut -d ' ' -f 1)  d/many/1"
run rftp hash --alg XXH128 "$url/many/1"
check "hash it has not" fails_with 1 'computes no XXH128'

# A part that is not the file's beginning, though its name says so.
random "$tmp/spoilt" 24000000
killed "has_part $disk 1500000" rftp put -q --rate "$slowly" "$tmp/spoilt" "$url/spoilt"
for part in "$disk"/.rftp-*; do
	printf x | dd of="$part" bs=1 seek=1000 conv=notrunc 2>/dev/null
done
put --json "$tmp/spoilt" "$url/spoilt"
check "a part that is not right is not gone on with" test "$(summary resumed)" = 0
check "and the file is" same "$tmp/spoilt" "$disk/spoilt"
stop_server

serve old "${tls[@]}" 'TLSProtocol TLSv1.2' 'MaxClientsPerHost 2'
foreign_limited
check "TLS 1.2" told 'TLSv1\.2'
check "its sessions are used again" grep -q 'reused TLS session for data' "$tmp/pf/old.tls"

# Without AllowStoreRestart the server cannot resume; the file arrives whole all the same.
killed "has_part $disk 1500000" rftp put -q --rate "$slowly" "$tmp/spoilt" "$url/again"
put "$tmp/spoilt" "$url/again"
check "a server that goes on with nothing" same "$tmp/spoilt" "$disk/again"
check "no part stays" no_parts "$disk"
stop_server

serve plain
run rftp ls "$url/"
check "without TLS" fails_with 3 'offers no TLS.*--plain'
run rftp ls --plain "$url/"
check "no password in clear" fails_with 3 'plain-password'
check "it has not crossed" not grep -q ' PASS' "$tmp/pf/plain.said"
get --plain --plain-password "$url/many/1" "$tmp/plain"
check "unless told to" same "$tmp/many/1" "$tmp/plain"
stop_server

finish
