#!/bin/bash
# Failures at the ends of an RDMA transfer: a peer killed, memory that may not be locked, an
# address without a device. TAP.

# shellcheck disable=SC2034 # for guest.sh and lib.sh
vm_options=""
. "${top_srcdir:?}/tests/vm/guest.sh"
. "$top_srcdir/tests/vm/faults.bash"

rdma_modules || skip_all "the guest's kernel has no RDMA"
rdma_veth v0 v1 10.0.0.1 10.0.0.2
serve 10.0.0.2 16777216

# Of the whole file: with the part of an earlier run it would be too short to be killed in the middle.
slow_put() { # OP
	rm -f "$root"/.rftp-*
	begin put --transport rdma --op "$1" --rate 3M --retries 0
	under_way rxe_v0
}

# ---- peers that die ----

for op in write read; do
	slow_put $op
	kill -KILL "$client"
	end 2>/dev/null
	check "$op: the client is killed: whole or absent" whole_or_absent
	check "$op: its session ends" patience 20 sessions_gone
	check "$op: and leaves no RDMA resources" patience 10 nothing_left

	slow_put $op
	session=$(children "$server" | head -n 1)
	kill -KILL "$session"
	end
	check "$op: the session is killed: status 3 or 4" test "$status" = 3 -o "$status" = 4
	check "$op: whole or absent then" whole_or_absent
	check "$op: nothing is left" patience 10 nothing_left
	run rftp put --transport rdma --op $op --prot clear -q "$tmp/big" "$url/to"
	check "$op: the next run goes on and ends" status_is 0
	check "$op: with the same bytes" is_whole
done

# A session finishes its transfer when its listener has died.
for op in write read; do
	slow_put $op
	kill -KILL "$server"
	wait "$server" 2>/dev/null
	end
	check "$op: rftpd is killed: the session goes on and ends" status_is 0
	check "$op: with the same bytes" is_whole
	check "$op: and leaves no RDMA resources" patience 10 nothing_left
	open_server main 0.0.0.0
	url=rftp://10.0.0.2:$port
	run rftp ls --accept-new "$url/"
done

# ---- limits ----

# The limit of locked memory does not hold for root.
unprivileged=(setpriv --reuid 65534 --regid 65534 --clear-groups prlimit --memlock=65536
	env HOME=/tmp)
advice='limit is 64 KiB: set "ulimit -l [0-9]*", a line ".* memlock [0-9]*" in .*, or LimitMEMLOCK='

run "${unprivileged[@]}" rftp put --accept-new --transport rdma --prot clear -q \
	"$tmp/big" "$url/limited"
check "64 KiB of memory to lock, client: rdma ends with 3" status_is 3
check "it says what to set" grep -q "$advice" "$tmp/err"
run "${unprivileged[@]}" rftp put --accept-new --prot clear "$tmp/big" "$url/limited"
check "64 KiB of memory to lock, client: auto takes TCP" status_is 0
check "with a word" grep -q 'data goes by TCP' "$tmp/err"
check "and says what to set" grep -q "$advice" "$tmp/err"
check "the same bytes" cmp "$tmp/big" "$root/limited"

# Two transfers of one process share its locked memory: neither stops half-way.
few=(setpriv --reuid 65534 --regid 65534 --clear-groups prlimit --memlock=1048576 env HOME=/tmp)
run "${few[@]}" rftp bench --both --size 8M --accept-new --transport rdma --prot clear "$url"
check "1 MiB of memory to lock, both ways: rdma ends with 3" status_is 3
check "it says whose share it is" grep -q "transfer's share of the limit is 512 KiB: set" "$tmp/err"
run "${few[@]}" rftp bench --both --size 8M --accept-new --prot clear --json "$url"
check "1 MiB of memory to lock, both ways: auto takes TCP" status_is 0
check "both of them" test "$(grep -c '"transport":"tcp"' <(grep '"started"' "$tmp/out"))" = 2
run "${few[@]}" rftp bench --size 8M --accept-new --prot clear --json "$url"
check "1 MiB of memory to lock, one way: RDMA" grep -q '"transport":"rdma"' "$tmp/out"

mkdir "$tmp/poor.root" "$tmp/poor.state" && chown 65534 "$tmp/poor.root" "$tmp/poor.state"
chmod 1777 "$tmp"
as_server=("${unprivileged[@]}")
open_server poor 0.0.0.0
as_server=()
poor=rftp://10.0.0.2:$port
check "64 KiB of memory to lock, server: its log says so at the start" grep -q "$advice" "$tmp/poor.log"
run rftp put --accept-new --transport rdma --prot clear -q "$tmp/big" "$poor/limited"
check "64 KiB of memory to lock, server: rdma ends with 3" fails_with 3 'the server offers no RDMA'
check "the server's log says what to set" grep -q "$advice" "$tmp/poor.log"
run rftp put --accept-new --prot clear -q --json "$tmp/big" "$poor/limited"
check "64 KiB of memory to lock, server: auto takes TCP" status_is 0
check "as the summary says" test "$(summary transport)" = tcp
check "the same bytes" cmp "$tmp/big" "$tmp/poor.root/limited"

# ---- where no device leads ----

run rftp put --accept-new --transport rdma -q "$tmp/big" "rftp://127.0.0.1:${url##*:}/lo"
check "an address without a device: rdma ends with 3" fails_with 3 'RDMA'
run rftp put --accept-new -q "$tmp/big" "rftp://127.0.0.1:${url##*:}/lo"
check "and auto takes TCP" status_is 0
finish
