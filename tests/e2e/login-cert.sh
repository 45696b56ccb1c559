#!/bin/bash
# shellcheck disable=SC2034 # some are the sourcing script uses them
# Clients that log in by a certificate: which one is valid for which user, by rftp and by other FTP
# clients, and at other FTP servers. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
three_processes
. "$lib/certs.bash"
. "$lib/foreign.bash"
need python3 openssl setsid

limit=30
mkdir -p "$tmp/root/a" "$tmp/root/b"
random "$tmp/file" 200000
random "$tmp/root/b/there" 3000
{ make_ca ca && make_ca strange && make_cert alice "/O=Example/CN=alice a" ca &&
	make_cert bob /CN=bob && make_cert unknown /CN=unknown ca &&
	make_cert forged "/O=Example/CN=alice a" strange && make_cert self "/O=Example/CN=alice a" &&
	make_old_cert old "/O=Example/CN=alice a" ca; } || skip_all "openssl makes no certificates"
cat >"$tmp/users" <<USERS
alice:$(echo right | rftpd --hash-password):$tmp/root/a::rw
bob:*:$tmp/root/b::ro
USERS
cat >"$tmp/map" <<MAP
# owners of the certificates
subject "CN=alice a,O=Example" alice
$(pin_of bob) bob
$(pin_of bob)	nobody-here
$(pin_of old) bob
MAP
chmod 600 "$tmp/users" "$tmp/map"
ours=(--users "$tmp/users" --certificates "$tmp/map" --ca "$tmp/ca.pem" --root "$tmp/root")

start_server d "${ours[@]}" --anonymous ro
as() { # NAME USER: options and URL for rftp
	by=(--cert "$tmp/$1.pem" --key "$tmp/$1.key")
	url=rftp://$2@127.0.0.1:$port
}
logged() { grep -q "$1" "$tmp/d.log"; }
run rftp ls --accept-new rftp://anonymous@127.0.0.1:$port/
check "without a certificate it is as ever" status_is 0

# ---- rftp ----
as alice alice
put "${by[@]}" "$tmp/file" "$url/f"
check "a certificate of the CA does for its user" status_is 0
check "the file is in her root" same "$tmp/file" "$tmp/root/a/f"
check "the log says how she came in" logged 'login of alice from .* (certificate)'
get "${by[@]}" --prot private "$url/f" "$tmp/back"
check "and back" same "$tmp/file" "$tmp/back"
as bob bob
run rftp ls -1 "${by[@]}" "$url/"
check "one that has signed itself does by its key" test "$status" -eq 0 -a "$(cat "$tmp/out")" = there
put "${by[@]}" "$tmp/file" "$url/f"
check "with the rights of the users file" fails_with 1 'only read'
cat "$tmp/bob.pem" "$tmp/bob.key" >"$tmp/both.pem"
chmod 600 "$tmp/both.pem"
run rftp ls --cert "$tmp/both.pem" "$url/"
check "certificate and key in one file" status_is 0
printf '[host 127.0.0.1]\ncert = %s\nkey = %s\n' "$tmp/bob.pem" "$tmp/bob.key" >"$tmp/rftp.conf"
run rftp ls --config "$tmp/rftp.conf" "$url/"
check "or in rftp.conf" status_is 0

# Not theirs: then it is a matter of passwords, of which there are none.
for pair in alice:bob bob:alice unknown:alice forged:alice self:alice old:alice old:bob \
	bob:nobody-here; do
	as "${pair%:*}" "${pair#*:}"
	run rftp ls "${by[@]}" "$url/"
	check "that of ${pair%:*} is not enough for ${pair#*:}" fails_with 3 'certificate is not enough'
done
check "the log says what it was" logged "login of \"bob\" .*certificate $(pin_of alice)"
check "and which is too old" logged "certificate $(pin_of old): .*valid until"
printf 'machine 127.0.0.1 login alice password right\n' >"$tmp/netrc"
chmod 600 "$tmp/netrc"
as unknown alice
run rftp ls --netrc "$tmp/netrc" "${by[@]}" "$url/"
check "a password is, besides a certificate that says nothing" status_is 0
printf 'machine 192.0.2.1 login alice password right\n' >"$tmp/netrc"
as forged alice
run rftp ls --netrc "$tmp/netrc" "${by[@]}" "$url/"
check "advice names the file of --netrc" fails_with 3 "put \"machine 127.0.0.1:$port login [a-z]* password ...\" into $tmp/netrc, or"
run rftp ls --netrc /dev/null "${by[@]}" "$url/"
check "which a device is not" fails_with 3 'there is no password for [a-z]* at 127.0.0.1: run rftp on a terminal'
as alice anonymous
run rftp ls "${by[@]}" "$url/"
check "anonymous needs none, and may have one" status_is 0

# Certificates that cannot be used.
as alice alice
chmod 644 "$tmp/alice.key"
run rftp ls "${by[@]}" "$url/"
check "a key that others may read" fails_with 3 'chmod 600'
chmod 600 "$tmp/alice.key"
run rftp ls --cert "$tmp/alice.pem" --key "$tmp/bob.key" "$url/"
check "one that does not fit" fails_with 3 'does not fit'
run rftp ls --cert "$tmp/nothing" "$url/"
check "none" fails_with 3 'nothing'
run rftp ls --key "$tmp/alice.key" "$url/"
check "a key alone" test "$status" -ne 0 -a "$(grep -c -- '--cert' "$tmp/err")" -eq 1

# ---- other clients ----
cat "$tmp/alice.pem" "$tmp/alice.key" >"$tmp/alice.both"
say() { run python3 "$lib/ftp-say.py" "$port" "$@"; }
replied() { grep -q "^[0-9.]* $1" "$tmp/out"; } # REGEX
say --cert "$tmp/alice.both" "USER bob" "USER alice" "PASS whatever" "PBSZ 0" "PROT P" "MLST f" "QUIT"
check "331 to another's name" replied 331
check "232 to one's own" replied 232
check "a password is superfluous then" replied 202
check "files" replied 250
if command -v curl >/dev/null; then
	run curl -sS -k --ssl-reqd --cert "$tmp/alice.pem" --key "$tmp/alice.key" -o "$tmp/by-curl" \
		"ftp://alice:@127.0.0.1:$port/f"
	check "curl" same "$tmp/file" "$tmp/by-curl"
else
	skip "curl" "it is missing"
fi

# ---- rftp as a client of other servers: 232, and data connections ----
as alice alice
run rftp get -q --accept-new "${by[@]}" "ftp://alice@127.0.0.1:$port/f" "$tmp/foreign"
check "232 by ftp://" status_is 0
check "the same" same "$tmp/file" "$tmp/foreign"
run rftp ls --accept-new "${by[@]}" "ftp://bob@127.0.0.1:$port/"
check "331 by ftp://, and no password" fails_with 3 'certificate is not enough'

# Changed while it runs.
sed -i '/alice/d' "$tmp/map"
as alice alice
run rftp ls "${by[@]}" "$url/"
check "a line that was removed is not valid any more" status_is 3
check "stops" stops_well

# Debian's packages are for Debian's own Python.
python=
for p in python3 /usr/bin/python3; do
	"$p" -c 'import pyftpdlib.handlers, OpenSSL' 2>/dev/null && python=$p && break
done
if [ -n "$python" ]; then
	foreign_cert
	mkdir "$tmp/disk"
	cp "$tmp/file" "$tmp/disk/f"
	"$python" "$lib/foreign-server.py" "$tmp/port" "$tmp/disk" "$tmp/cert.pem" --tls \
		--client-ca "$tmp/ca.pem" </dev/null >>"$tmp/foreign.log" 2>&1 &
	servers+=($!)
	patience 20 test -s "$tmp/port"
	url=ftp://joe@127.0.0.1:$(cat "$tmp/port")
	printf 'machine 127.0.0.1 login joe password secret\n' >"$tmp/netrc"
	run rftp ls --accept-new --netrc "$tmp/netrc" "$url/"
	check "a server that wants a certificate" status_is 3
	run rftp get -q --accept-new --netrc "$tmp/netrc" "${by[@]}" "$url/f" "$tmp/by-pyftpdlib"
	check "gets it, also on data connections" status_is 0
	check "the same" same "$tmp/file" "$tmp/by-pyftpdlib"
else
	skip "a server that wants a certificate" "no pyftpdlib"
fi

# ---- options that the server refuses to start with ----
stays_down() { # STATUS TEXT OPTION...
	local want=$1 text=$2
	shift 2
	rm -f "$tmp/x.log"
	start_server x "$@"
	patience 10 gone "$server"
	wait "$server"
	[ $? -eq "$want" ] && grep -Eq -- "$text" "$tmp/x.log"
}
others_of=(--users "$tmp/users" --root "$tmp/root")
printf '# x\nnonsense\n' >"$tmp/bad"
chmod 600 "$tmp/bad"
check "a map with a bad line" stays_down 3 'bad:2: ' "${others_of[@]}" --certificates "$tmp/bad"
printf 'subject "CN=x" alice\n' >"$tmp/bad"
check "a subject, and no CA" stays_down 3 'bad:1: .*--ca' "${others_of[@]}" \
	--certificates "$tmp/bad"
chmod 620 "$tmp/map"
check "a map that others may write" stays_down 3 'chmod go-w' "${others_of[@]}" \
	--certificates "$tmp/map"
chmod 600 "$tmp/map"
check "a CA that is not there" stays_down 3 'no-ca' "${others_of[@]}" --certificates "$tmp/map" \
	--ca "$tmp/no-ca"
check "a CA without a map" stays_down 2 '--certificates' "${others_of[@]}" --ca "$tmp/ca.pem"
check "a map without users" stays_down 2 '--users' --root "$tmp/root" --anonymous ro \
	--certificates "$tmp/map"
finish
