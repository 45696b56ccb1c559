#!/bin/bash
# shellcheck disable=SC2034 # ran, status and url are for lib.sh
# A control connection on which a bit is flipped, by relay.py: in the TLS handshake or in the midst of
# a transfer, in either direction. rftp connects again and completes, as after a lost connection;
# where each connection is damaged it ends after --retries attempts. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
need python3

limit=60
mkdir -p "$tmp/root/from" "$tmp/tree"
# Entries of some 60 KB cross the control connection.
for i in $(seq 600); do echo "$i" >"$tmp/tree/$(printf 'a-name-of-some-length-%040d' "$i")"; done
cp -a "$tmp/tree" "$tmp/root/from/tree"
start_server main --root "$tmp/root" --anonymous rw
mkfifo "$tmp/hold"
exec 7<>"$tmp/hold"
relays=0

# damaged COUNT:DIRECTION:OFFSET: a relay; its url is $url
damaged() {
	relays=$((relays + 1))
	"$lib/relay.py" "$port" "$tmp/said" "$tmp/relay.$relays" "$1" <"$tmp/hold" &
	others+=($!)
	patience 10 test -s "$tmp/relay.$relays"
	url=rftp://127.0.0.1:$(cat "$tmp/relay.$relays")
}
again() { grep -q 'trying again' "$tmp/err"; }

# completes WHERE DIRECTION:OFFSET: put and get past one damaged connection
completes() {
	rm -rf "$tmp/root/to" "$tmp/here"
	damaged "1:$2"
	run rftp put -r --accept-new --prot safe "$tmp/tree" "$url/to"
	check "put, $1, $2: it completes" status_is 0
	check "put, $1, $2: by another connection" again
	check "put, $1, $2: the same tree" same_trees "$tmp/tree" "$tmp/root/to"
	damaged "1:$2"
	run rftp get -r --accept-new --prot safe "$url/from/tree" "$tmp/here"
	check "get, $1, $2: it completes" status_is 0
	check "get, $1, $2: by another connection" again
	check "get, $1, $2: the same tree" same_trees "$tmp/tree" "$tmp/here"
}

# The lines before TLS are shorter than 40 bytes up and 90 down; a hello has more than 200.
for at in up:80 up:200 down:140 down:500; do completes "in the handshake" $at; done
rm -rf "$tmp/root/to"
damaged 1:up:9000
run rftp put -r --accept-new --prot safe "$tmp/tree" "$url/to"
check "put, among the entries: it completes" status_is 0
check "put, among the entries: by another connection" again
check "put, among the entries: the same tree" same_trees "$tmp/tree" "$tmp/root/to"
damaged 1:down:9000
run rftp get -r --accept-new --prot safe "$url/from/tree" "$tmp/here.2"
check "get, among the entries: it completes" status_is 0
check "get, among the entries: by another connection" again
check "get, among the entries: the same tree" same_trees "$tmp/tree" "$tmp/here.2"

damaged 99:up:200
run rftp put -r --accept-new --retries 2 "$tmp/tree" "$url/never"
check "each handshake damaged: it ends" status_is 3
check "each handshake damaged: after one more attempt" test "$(grep -c 'trying again' "$tmp/err")" -eq 1
damaged 99:up:9000
run rftp put -r --accept-new --retries 2 "$tmp/tree" "$url/never"
check "each transfer damaged: it ends" status_is 4
check "each transfer damaged: after --retries attempts" test "$(grep -c 'trying again' "$tmp/err")" -eq 2
# No damage, and no reason to come again: a host that speaks no FTP.
python3 -c 'import socket, sys
s = socket.create_server(("127.0.0.1", 0))
print(s.getsockname()[1], flush=True)
while True:
    c = s.accept()[0]
    c.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
    c.close()' >"$tmp/ssh.port" &
others+=($!)
patience 10 test -s "$tmp/ssh.port"
run rftp put -r --accept-new "$tmp/tree" "rftp://127.0.0.1:$(cat "$tmp/ssh.port")/never"
check "a host without FTP: it ends" fails_with 3 'is an SSH server'
check "a host without FTP: at once" not again
finish
