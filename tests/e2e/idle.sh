#!/bin/bash
# --idle-timeout: a client that does nothing for so long gets a reply and is disconnected; an active
# one stays. TAP.
. "${top_srcdir:?}/tests/e2e/lib.sh"
. "$lib/numbered.bash"
three_processes
need python3

mkdir "$tmp/root"
random "$tmp/file" 3000000
truncate -s 200M "$tmp/root/big" # more than buffers take
start_server d --root "$tmp/root" --anonymous rw --plain --idle-timeout 3s
numbered "$lib/idle-client.py" "$port" 3 "$tmp/root"

# A bulk transfer is no silence, however long it takes.
run rftp put --accept-new -q --rate 300K "$tmp/file" "$url/slow"
check "a transfer that takes longer" status_is 0
check "has come whole" same "$tmp/file" "$tmp/root/slow"

# While the source has nothing to give, the ticker wakes up 20 times a second; 200 times before.
ticks() {
	local task
	for task in /proc/"$client"/task/*; do
		! grep -qx ticker "$task/comm" || awk '/^voluntary/ { print $2 }' "$task/status"
	done
}
has_ticker() { [ -n "$(ticks)" ]; }
sleep 4 | rftp put -q - "$url/silent" &
client=$!
check "a transfer from a silent pipe has a ticker" patience 3 has_ticker
sleep 1
before=$(ticks)
sleep 1
after=$(ticks)
check "it wakes up at times" test "$after" -gt "$before"
check "but seldom" test $((after - before)) -lt 80
wait "$client"
check "the transfer ends well" test $? = 0

check "nobody is left" patience 30 no_children "$server"
check "the log says who did nothing" grep -q 'no command came in time' "$tmp/d.log"
check "the server ends well" stops_well
finish
