#!/bin/bash
# rftp with vsftpd: lists by LIST, times by MDTM, TLS sessions that data connections must have in
# common with the control connection. Anonymous, since others need PAM. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
. "$lib/foreign.bash"
need openssl diff
is_root || skip_all "vsftpd needs root"
# scripts/deps unpacks it there: as a package it would put other servers out.
vsftpd=$(PATH=$PATH:/usr/sbin:/usr/local/lib/rftp-test/usr/sbin command -v vsftpd) ||
	skip_all "vsftpd is missing"

foreign_cert
# The home of the user that anonymous is must be there: daemon has one everywhere.
disk=$tmp/vs/root/d
mkdir -p "$disk" "$tmp/vs/empty"
chmod 755 "$tmp/vs" "$tmp/vs/root"
chmod 777 "$disk"
export keeps="times"

serve() { # NAME [LINE...]: with these lines besides
	local name=$1
	shift
	port=$(foreign_port)
	cat >"$tmp/vs/$name.conf" <<END
listen=YES
listen_address=127.0.0.1
listen_port=$port
background=NO
anonymous_enable=YES
local_enable=NO
no_anon_password=YES
anon_root=$tmp/vs/root
ftp_username=daemon
nopriv_user=nobody
write_enable=YES
anon_upload_enable=YES
anon_mkdir_write_enable=YES
anon_other_write_enable=YES
anon_umask=022
anon_world_readable_only=NO
secure_chroot_dir=$tmp/vs/empty
seccomp_sandbox=NO
xferlog_enable=YES
log_ftp_protocol=YES
vsftpd_log_file=$tmp/foreign-vsftpd.log
rsa_cert_file=$tmp/cert.pem
ssl_enable=YES
allow_anon_ssl=YES
force_anon_data_ssl=YES
require_ssl_reuse=YES
ssl_ciphers=HIGH
END
	printf '%s\n' "$@" >>"$tmp/vs/$name.conf"
	foreign_start "$port" "${with[@]}" "$vsftpd" "$tmp/vs/$name.conf"
	url=ftp://127.0.0.1:$port/d
}
with=()

serve main
run rftp ls --accept-new -v "$url/"
check "ls of an empty directory" status_is 0
foreign_all
check "it has been asked for lists" grep -q '"LIST -a"' "$tmp/foreign-vsftpd.log"
check "it has REST" grep -q 'command: .*"REST [1-9]' "$tmp/foreign-vsftpd.log"
check "no MLSD was tried" not grep -q 'MLSD\|MLST' "$tmp/foreign-vsftpd.log"
run rftp hash "$url/one/big"
check "no digests there" fails_with 1 'computes no digests'
ln -s big "$disk/one/link"
ln -s sub "$disk/one/dirlink"
get -r "$url/one" "$tmp/links"
check "a link is got as one" test "$(readlink "$tmp/links/link")" = big
get -r --follow "$url/one" "$tmp/followed"
check "--follow gets what it leads to" same "$disk/one/big" "$tmp/followed/link"
check "directories, too" same "$disk/one/sub/deeper/file" "$tmp/followed/dirlink/deeper/file"
get "$url/one/link" "$tmp/named"
check "so does one that is named" same "$disk/one/big" "$tmp/named"
chmod 750 "$disk/one/empty"
chown daemon "$disk/one/empty"
get -r "$url/one/empty" "$tmp/top"
check "the mode of a directory that was named" test "$(mode_of "$tmp/top")" = 750
mkdir "$disk/outside"
random "$disk/outside/kept" 1000
chmod 777 "$disk/outside"
ln -s ../outside "$disk/one/outlink"
run rftp rm -r "$url/one"
check "rm -r of a tree with links" test "$status" -eq 0 -a ! -e "$disk/one"
check "leaves what they lead to" test -e "$disk/outside/kept"

# libcurl does not enter the directory of its last CWD again.
printf 'mkdir was\nput %s was\nrm -r was\nstat was\n' "$tmp/many/1" >"$tmp/commands"
run rftp -b "$tmp/commands" "$url"
check "a directory that was removed is known to be gone" status_is 1
check "by its name" told '/d/was: No such file'
stop_server

serve limited max_per_ip=2
foreign_limited
stop_server

# Many servers have TLS 1.2. The session must be the control connection's there, too.
printf '[openssl_init]\nssl_conf = s\n[s]\nsystem_default = d\n[d]\nMaxProtocol = TLSv1.2\n' |
	sed '1iopenssl_conf = openssl_init\n' >"$tmp/tls12.cnf"
with=(env "OPENSSL_CONF=$tmp/tls12.cnf")
serve old
run rftp ls --accept-new -v "$url/"
check "TLS 1.2" told 'TLSv1\.2'
get -r --json "$url/many" "$tmp/old"
check "files over it" same_content "$tmp/many" "$tmp/old"
check "are private" test "$(summary prot)" = private
stop_server
with=()

serve implicit implicit_ssl=YES
url=ftps://127.0.0.1:$port/d
run rftp ls --accept-new "$url/"
check "ftps://" status_is 0
get "$url/many/1" "$tmp/implicit"
check "a file" same "$tmp/many/1" "$tmp/implicit"
stop_server

serve plain ssl_enable=NO
run rftp ls "$url/"
check "without TLS" fails_with 3 'offers no TLS.*--plain'
get --plain "$url/many/1" "$tmp/plain"
check "by that name" same "$tmp/many/1" "$tmp/plain"
stop_server

finish
