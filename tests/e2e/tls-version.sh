#!/bin/bash
# shellcheck disable=SC2034 # some are for lib.sh
# The TLS of rftpd as openssl(1) sees it: 1.3 and nothing before; and its key, which others must not
# be able to read. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
need openssl setsid

# The front has a context of its own, out of sealed memory.
! is_root || three_processes
mkdir "$tmp/root"
start_server d --root "$tmp/root" --anonymous ro

# client OPTION...: the result of the handshake is in $tmp/out
client() {
	ran="openssl s_client $*"
	printf 'QUIT\r\n' | timeout $((20 * slow)) openssl s_client -starttls ftp -ign_eof \
		-connect "127.0.0.1:$port" "$@" >"$tmp/out" 2>"$tmp/err"
	status=$?
}
client
check "a client that can do all versions" status_is 0
check "gets TLS 1.3" grep -Eq '^(New, )?TLSv1\.3|Protocol *: TLSv1\.3' "$tmp/out"
check "and nothing else" not grep -Eq 'TLSv1(\.[0-2])?[,:]|Protocol *: (SSL|TLSv1(\.[0-2])?$)' "$tmp/out"
check "with encryption that authenticates" grep -Eq 'Cipher is TLS_(AES|CHACHA20)' "$tmp/out"
check "it says who it is" grep -q -- '-----BEGIN CERTIFICATE-----' "$tmp/out"
check "and asks nobody else" grep -q 'No client certificate CA names sent' "$tmp/out"
for version in ssl3 tls1 tls1_1 tls1_2; do
	openssl s_client -help 2>&1 | grep -q -- "-$version " || continue
	# The client must allow old versions: its system's settings may forbid them.
	client -$version -cipher 'ALL:@SECLEVEL=0'
	if grep -q 'no protocols available' "$tmp/err"; then
		skip "-$version alone" "the client's system has it not"
		continue
	fi
	check "-$version alone is refused" test "$status" -ne 0 -a "$status" -ne 124
	check "by the server" grep -Eq 'alert (protocol version|handshake failure)|wrong version' "$tmp/err"
	check "no cipher was agreed on, $version" grep -q 'Cipher is (NONE)' "$tmp/out"
done
check "the log says why" grep -q 'does not speak TLS 1.3' "$tmp/d.log"
run rftp ls --accept-new "$url/"
check "rftp comes in after all that" status_is 0
check "stops" stops_well

# ---- the key ----
for mode in 640 604 660 700; do
	chmod $mode "$tmp/d.state/key.pem"
	rm -f "$tmp/d.log"
	start_server d --root "$tmp/root" --anonymous ro
	if [ $mode = 700 ]; then
		check "$mode is nobody else's" kill -0 "$server"
		check "stops" stops_well
		continue
	fi
	patience 10 gone "$server"
	wait "$server"
	check "a key of mode $mode: status 3" test $? -eq 3
	check "it says what to do" grep -q "key.pem: others can read it.*$mode.*chmod 600" "$tmp/d.log"
	check "it has listened nowhere" not grep -q 'listening' "$tmp/d.log"
	check "and not mended it in silence" test "$(stat -c %a "$tmp/d.state/key.pem")" = "$mode"
done
finish
