#!/bin/bash
# --idle-timeout: who does nothing for so long is told, and gone; who does something is not. TAP.
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
check "nobody is left" patience 30 no_children "$server"
check "the log says who did nothing" grep -q 'no command came in time' "$tmp/d.log"
check "the server ends well" stops_well
finish
