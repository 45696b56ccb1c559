#!/bin/bash
# Strangers connect to the listener of a session, with private data of their own or heard on the
# wire, changed or not. All are refused and logged, and the session continues. TAP.

# shellcheck disable=SC2034 # for guest.sh and lib.sh
vm_options=""
. "${top_srcdir:?}/tests/vm/guest.sh"
need_faults # they hold the client before a connection

stranger=$top_builddir/tests/support/rdma-stranger
[ -x "$stranger" ] || skip_all "$stranger is not built (make check does)"
rdma_modules || skip_all "the guest's kernel has no RDMA"
rdma_veth v0 v1 10.0.0.1 10.0.0.2
head -c 4194304 /dev/urandom >"$tmp/big"
open_server main 0.0.0.0
root=$tmp/main.root
url=rftp://10.0.0.2:$port
run rftp ls --accept-new "$url/"

# Listen on the wire to the private data of clients: 56 bytes in hexadecimal per line.
python3 - "$tmp/listens" >"$tmp/heard" <<'PYTHON' &
import socket, sys
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) # both ways
s.bind(("v0", 3))
open(sys.argv[1], "w").close()
while True:
    packet, where = s.recvfrom(65536)
    at = packet.find(b"RFTH")
    if where[2] == socket.PACKET_OUTGOING and at > 0:
        print(packet[at:at + 56].hex(), flush=True)
PYTHON
others+=($!)
patience 20 test -e "$tmp/listens"

# begin N OPTION...: a put that stops before its Nth connection, the control connection counted
begin() {
	local rule=connect:SIGSTOP:after=$(($1 - 1)):count=1
	shift
	ran="put, $rule"
	rm -f "$root/big"
	env "RFTP_FAULT=$rule" rftp put --transport rdma --prot clear --block 64K \
		--channels 2 --retries 0 -q "$@" "$tmp/big" "$url/big" </dev/null >"$tmp/out" 2>"$tmp/err" &
	client=$!
	others+=("$client")
	patience 10 has_stopped
	data_port=$(rdma resource show cm_id |
		sed -n 's/.*LISTEN.*src-addr 10\.0\.0\.2:\([0-9]*\).*/\1/p' | head -n 1)
}
has_stopped() { [[ $(ps -o stat= -p "$client") == T* ]]; }
has_heard() { [ -s "$tmp/heard" ]; }
end() {
	kill -CONT "$client"
	wait "$client"
	status=$?
}
# knocks HEX ANSWER
knocks() {
	local answer
	answer=$(timeout 20 "$stranger" 10.0.0.2 "$data_port" "$1" 2>"$tmp/err")
	[ "$answer" = "$2" ] || { echo "# $answer"; return 1; }
}
# changed HEX AT: with another byte there
changed() {
	local at=$((2 * $2)) byte=00
	[ "${1:at:2}" != 00 ] || byte=01
	echo "${1:0:at}$byte${1:at+2}"
}
zeros=$(printf '0%.0s' {1..112})

begin 3
check "the client has stopped between its two channels" has_stopped
check "its first words have been heard" patience 10 has_heard
hello=$(head -n 1 "$tmp/heard")
check "nothing said: refused" knocks "" refused
check "words without a meaning: refused" knocks "$zeros" refused
check "too few of them: refused" knocks "${hello:0:80}" refused
check "what was heard, again: refused" knocks "$hello" refused
check "it is told that the channel is open" \
	grep -q 'from 10.0.0.1 was refused: that channel is open' "$tmp/main.log"
check "with another channel's number: refused" knocks "$(changed "$hello" 7)" refused
check "with another session: refused" knocks "$(changed "$hello" 12)" refused
check "with another proof: refused" knocks "$(changed "$hello" 20)" refused
check "with another key of memory: refused" knocks "$(changed "$hello" 50)" refused
all_are_logged() {
	[ "$(grep -c 'RDMA connection from 10.0.0.1 was refused' "$tmp/main.log")" -eq 8 ]
}
check "all of them are in the log" all_are_logged
end
check "then the client goes on, and ends" status_is 0
check "with the same bytes" cmp "$tmp/big" "$root/big"

begin 2
check "what was heard in an earlier session: refused" knocks "$hello" refused
end
check "and that client ends, too" status_is 0
check "with the same bytes as well" cmp "$tmp/big" "$root/big"

# Once its channels are open, the session stops listening.
rm -f "$root/big"
before=$(carried rxe_v0)
rftp put --transport rdma --prot clear --block 64K --rate 1M --retries 0 -q \
	"$tmp/big" "$url/big" </dev/null >"$tmp/out" 2>"$tmp/err" &
client=$!
under_way rxe_v0
check "in mid-transfer nobody listens" test -z "$(rdma resource show cm_id | grep LISTEN)"
check "and nobody answers" knocks "$hello" nobody
wait $client
status=$?
check "the transfer does not mind" status_is 0

check "no resources are left" patience 10 nothing_left
finish
