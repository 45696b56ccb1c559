#!/bin/bash
# What goes wrong at the ends of an RDMA transfer: a peer killed, memory that may not be
# locked, an address that has no device. TAP.

# shellcheck disable=SC2034 # for guest.sh and lib.sh
vm_options="--timeout 900"
. "${top_srcdir:?}/tests/vm/guest.sh"

rdma_modules || skip_all "the guest's kernel has no RDMA"
rdma_veth v0 v1 10.0.0.1 10.0.0.2
head -c 16777216 /dev/urandom >"$tmp/big"
open_server main 0.0.0.0
root=$tmp/main.root
url=rftp://10.0.0.2:$port
slow_put=(rftp put --accept-new --transport rdma --prot clear --block 64K --rate 3M --retries 0 -q "$tmp/big" "$url/big")

# intact: nothing, or all of it, under the final name
whole_or_absent() { [ ! -e "$root/big" ] || cmp -s "$tmp/big" "$root/big"; }
sessions_gone() { no_children "$server"; }

# ---- peers that die ----

for op in write read; do
	rm -f "$root"/big "$root"/.rftp-*
	"${slow_put[@]}" --op $op </dev/null >/dev/null 2>&1 &
	client=$!
	sleep 3
	kill -KILL $client
	wait $client 2>/dev/null
	check "$op: the client is killed: whole or absent" whole_or_absent
	check "$op: its session ends" patience 20 sessions_gone
	check "$op: and leaves no RDMA resources" patience 10 nothing_left

	"${slow_put[@]}" --op $op </dev/null >"$tmp/out" 2>"$tmp/err" &
	client=$!
	sleep 3
	session=$(children "$server" | head -n 1)
	kill -KILL "$session"
	wait $client
	status=$? ran="put, session killed"
	check "$op: the session is killed: status 3 or 4" test "$status" = 3 -o "$status" = 4
	check "$op: whole or absent then" whole_or_absent
	check "$op: nothing is left" patience 10 nothing_left
	run rftp put --transport rdma --op $op --prot clear -q "$tmp/big" "$url/big"
	check "$op: the next run goes on and ends" status_is 0
	check "$op: with the same bytes" cmp "$tmp/big" "$root/big"
done

# ---- limits ----

run setpriv --reuid 65534 --regid 65534 --clear-groups prlimit --memlock=65536 \
	env HOME=/tmp rftp put --accept-new --transport rdma --prot clear -q "$tmp/big" "$url/limited"
check "64 KiB of memory to lock: it says what to set" grep -q 'ulimit -l' "$tmp/err"
check "and does not fall to TCP" test "$status" -ne 0
run setpriv --reuid 65534 --regid 65534 --clear-groups prlimit --memlock=65536 \
	env HOME=/tmp rftp put --accept-new --prot clear -q "$tmp/big" "$url/limited"
check "auto falls to TCP, with a word" status_is 0
check "the same bytes" cmp "$tmp/big" "$root/limited"

run rftp put --accept-new --transport rdma -q "$tmp/big" "rftp://127.0.0.1:$port/lo"
check "an address without a device: rdma ends with 3" fails_with 3 'RDMA'
run rftp put --accept-new -q "$tmp/big" "rftp://127.0.0.1:$port/lo"
check "and auto takes TCP" status_is 0

finish
