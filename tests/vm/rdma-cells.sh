#!/bin/bash
# Put and get over RDMA, pairwise over operation, protection, block size, queue pairs and
# address family, on one device that talks to itself, on a veth pair and on two cards: every
# byte is compared, and the devices' counters show that it was RDMA that carried it. TAP.

# shellcheck disable=SC2034 # for guest.sh and lib.sh
vm_options="--nodes 2 --timeout 900"
. "${top_srcdir:?}/tests/vm/guest.sh"

rdma_modules || skip_all "the guest's kernel has no RDMA"
rdma_self eth0 10.3.0.1
ip addr add fd00:3::1/64 dev eth0 nodad
rdma_veth v0 v1 10.0.0.1 10.0.0.2
sleep 1 # for the GIDs of the address that came later

head -c 8388608 /dev/urandom >"$tmp/big"
mkdir -p "$tmp/tree/a/b" && for i in $(seq 150); do head -c $((i * 37)) "$tmp/big" >"$tmp/tree/a/$i"; done
ln -s 7 "$tmp/tree/a/link"
ln "$tmp/tree/a/9" "$tmp/tree/a/b/nine"

open_server v4 0.0.0.0
port4=$port root4=$tmp/v4.root
open_server v6 '[::]'
port6=$port root6=$tmp/v6.root

packets() { cat /sys/class/infiniband/*/ports/1/hw_counters/sent_pkts | awk '{ n += $1 } END { print n }'; }

# cell HOST OP PROT BLOCK CHANNELS
cell() {
	local host=$1 op=$2 prot=$3 block=$4 channels=$5 root=$root4 before what
	local to=rftp://$host:$port4
	case $host in '['*) root=$root6 to=rftp://$host:$port6 ;; esac
	local options=(--accept-new --transport rdma --op "$op" --prot "$prot" --block "$block"
		--channels "$channels" --ack written -q)
	what="$host $op $prot $block x$channels"
	before=$(packets)
	run rftp put "${options[@]}" "$tmp/big" "$to/big"
	check "put $what" status_is 0
	check "put $what: the same" cmp "$tmp/big" "$root/big"
	run rftp get "${options[@]}" "$to/big" "$tmp/back"
	check "get $what" status_is 0
	check "get $what: the same" cmp "$tmp/big" "$tmp/back"
	check "it was RDMA" test $(($(packets) - before)) -gt 4000
	rm -f "$root/big" "$tmp/back"
}

cell 10.3.0.1 write clear 256K 2
cell 10.3.0.1 read private 1M 1
cell 10.0.0.2 write private 64K 4
cell 10.0.0.2 read clear 256K 8
cell 10.0.0.2 write safe 1M 2
cell 10.3.0.1 read safe 64K 3
cell '[fd00:3::1]' write clear 4M 1
cell '[fd00:3::1]' read private 256K 2

for op in write read; do
	run rftp put -r --accept-new --transport rdma --op $op -q "$tmp/tree" "rftp://10.0.0.2:$port4/tree-$op"
	check "a tree, $op" status_is 0
	check "a tree, $op: the same" "$lib/compare-trees" "$tmp/tree" "$root4/tree-$op"
	run rftp get -r --accept-new --transport rdma --op $op -q "rftp://10.0.0.2:$port4/tree-$op" "$tmp/back-$op"
	check "a tree back, $op" status_is 0
	check "a tree back, $op: the same" "$lib/compare-trees" "$tmp/tree" "$tmp/back-$op"
done

for dev in rxe_eth0 rxe_v0 rxe_v1; do
	check "$dev: nobody had to wait for a receive" test "$(counter $dev rcvd_rnr_err send_rnr_err retry_rnr_exceeded_err)" = 0
done
check "no queue pair, memory region, completion queue or domain is left" patience 10 nothing_left
finish
