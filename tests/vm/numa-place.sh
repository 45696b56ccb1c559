#!/bin/bash
# Two NUMA nodes with two cards each: the pool, the threads and the queues of each path are on its
# card's node, on both sides; then with options, with a full node and in a cpuset. TAP.

# shellcheck disable=SC2034,SC2054 # for guest.sh and lib.sh; lists with commas
vm_options="--nodes 2 --cpus 4 --nics 4"
. "${top_srcdir:?}/tests/vm/guest.sh"

rdma_modules || skip_all "the guest's kernel has no RDMA"
rdma_cards eth0 eth1 10.0.0.1 10.0.0.2 # on node 0, as PCI's buses come
rdma_cards eth2 eth3 10.1.0.1 10.1.0.2 # on node 1
for node in 0 1; do
	mkdir "$tmp/t$node"
	mount -t tmpfs -o "size=512m,mpol=bind:$node" none "$tmp/t$node"
	mounts+=("$tmp/t$node")
	head -c 1048576 /dev/urandom >"$tmp/t$node/small"
	head -c 160M /dev/zero >"$tmp/t$node/big" # more than all pools hold
done
open_server main 0.0.0.0 --nic eth1,eth3
root=$tmp/main.root
mount -t tmpfs -o "size=512m,mpol=bind:0" none "$root"
mounts+=("$root")
url=rftp://10.0.0.2:$port
# Slow enough to be looked at.
crawl=(--accept-new -v --prot clear --block 64K --rate 500K --retries 0)
both=(--transport rdma --nic eth0,eth2)

# begin COMMAND...: a transfer in the background; once it runs, where it is: $tmp/here, $tmp/there
begin() {
	"$@" >"$tmp/out" 2>"$tmp/err" &
	client=$!
	patience 30 running
	look || comment <"$tmp/err"
}
look() { python3 "$top_srcdir/tests/vm/where.py" "$client" "$tmp/here" "$(session)" "$tmp/there"; }
session() { ps -o pid= --ppid "$server" | tail -n 1 | tr -d ' '; }
running() { has_threads "$client" && has_threads "$(session)"; }
has_threads() {
	[ -n "$1" ] && grep -qs '^receiver\|^sender' /proc/"$1"/task/*/comm &&
		grep -qs '^read[0-9]\|^write[0-9]' /proc/"$1"/task/*/comm
}
stop() { kill -TERM "$client"; wait "$client"; patience 10 no_session; }
no_session() { [ -z "$(session)" ]; }

# cpus FILE NAME: of all threads with that name, sorted
cpus() { awk -v name="^$2" '$1 == "thread" && $2 ~ name { print $3 }' "$1" | sort -u | paste -sd ' '; }
# on SIDE NAME CPUS: threads with that name run there. A thread has its name before its processors.
on() {
	look
	[ "$(cpus "$tmp/$1" "$2")" = "$3" ]
}
# all_on FILE NODE: there is memory bound to it, and none of that is elsewhere
all_on() { awk -v node="$2" '$1 == "memory" && $2 == node && $3 > 60 && $4 == 0 { ok = 1 } END { exit !ok }' "$1"; }
# bound FILE: the nodes that memory is bound to
bound() { awk '$1 == "memory" { print $2 }' "$1" | paste -sd ' '; }
is() { [ "$1" = "$2" ] || { echo "# $1, not $2"; return 1; }; }

# ---- by the cards ----

begin rftp put "${crawl[@]}" "${both[@]}" "$tmp/t1/big" "$url/big"
for side in here there; do
	check "$side: a pool on each node" is "$(bound "$tmp/$side")" "0 1"
	check "$side: all of node 0's is there" all_on "$tmp/$side" 0
	check "$side: all of node 1's is there" all_on "$tmp/$side" 1
done
check "the client's threads are by its cards" patience 10 on here sender "0-1 2-3"
check "the server's by its own" patience 10 on there receiver "0-1 2-3"
check "the readers are by the storage" patience 10 on here read "2-3"
check "the writers by theirs" patience 10 on there write "0-1"
stop
check "-v says it of the readers" grep -q 'files are read by 2 threads on CPUs 2-3' "$tmp/err"
check "and of node 0" grep -q 'path 0: eth0 (10.0.0.1) on node 0; threads on CPUs 0-1; pool of .*, 100 % of its pages on node 0' "$tmp/err"
check "of node 1" grep -q 'path 1: eth2 (10.1.0.1) on node 1; threads on CPUs 2-3; pool of .*, 100 % of its pages on node 1' "$tmp/err"
check "the server's log, too" grep -q 'path 1: eth3 (10.1.0.2) on node 1; threads on CPUs 2-3; pool of .*, 100 % of its pages on node 1' "$tmp/main.log"

cp "$tmp/t0/big" "$root/big"
begin rftp get "${crawl[@]}" "${both[@]}" --op read --prot private "$url/big" "$tmp/t1/back"
check "a get by READ, encrypted: the client's pools" all_on "$tmp/here" 1
check "the server's" all_on "$tmp/there" 0
check "the client's receivers" patience 10 on here receiver "0-1 2-3"
check "the writers" patience 10 on here write "2-3"
check "the server's readers" patience 10 on there read "0-1"
stop

# ---- by options ----

begin rftp put "${crawl[@]}" "${both[@]}" --numa node:1 "$tmp/t0/big" "$url/a"
check "--numa node:1: memory" is "$(bound "$tmp/here")" "1"
check "all of it" all_on "$tmp/here" 1
check "and threads" is "$(cpus "$tmp/here" 'sender|read')" "2-3"
check "the server is its own master" is "$(bound "$tmp/there")" "0 1"
stop
begin rftp put "${crawl[@]}" "${both[@]}" --numa storage "$tmp/t1/big" "$url/a"
check "--numa storage: memory" is "$(bound "$tmp/here")" "1"
check "and threads" is "$(cpus "$tmp/here" 'sender|read')" "2-3"
stop
begin rftp put "${crawl[@]}" "${both[@]}" --numa off "$tmp/t1/big" "$url/a"
check "--numa off: no memory is bound" is "$(bound "$tmp/here")" ""
check "nor any thread" is "$(cpus "$tmp/here" 'sender|read')" "0-3"
stop
begin rftp put "${crawl[@]}" "${both[@]}" --nic-node eth0=1,eth2=any "$tmp/t1/big" "$url/a"
check "--nic-node: memory" is "$(bound "$tmp/here")" "1"
check "none is where it cannot be" not grep -q 'cannot be put' "$tmp/err"
check "and threads" patience 10 on here sender "0-3 2-3"
stop
begin rftp put "${crawl[@]}" "${both[@]}" --pin cores --readers 2 "$tmp/t1/big" "$url/b"
check "--pin cores: the cards' threads have one each" patience 10 on here sender "0 2"
check "and the readers" patience 10 on here read "2 3"
stop
begin rftp put "${crawl[@]}" --transport tcp --nic eth0,eth2 "$tmp/t1/big" "$url/a"
filled() { look && all_on "$tmp/here" 0; } # block by block
check "by TCP: memory on the card's node" patience 10 filled
check "and its thread" is "$(cpus "$tmp/here" sender | grep -o '^0-1')" "0-1"
stop
check "which is said at the end" grep -q 'path 0: 100 % of its pages on node 0, as far as its pool was used' "$tmp/err"

run rftp put --numa node:7 "$tmp/t1/big" "$url/a"
check "a node that there is not" test "$status" -eq 2 -a "$(grep -c 'there is no node 7' "$tmp/err")" -eq 1
run rftp put --nic-node eth0:1 "$tmp/t1/big" "$url/a"
check "a list that is none" test "$status" -eq 2

# ---- a cpuset ----

mkdir -p "$tmp/cg"
mount -t cgroup2 none "$tmp/cg"
mounts+=("$tmp/cg")
echo +cpuset >"$tmp/cg/cgroup.subtree_control"
mkdir "$tmp/cg/some"
echo 2-3 >"$tmp/cg/some/cpuset.cpus"
within() { echo "$BASHPID" >"$tmp/cg/some/cgroup.procs" && exec "$@"; } # in the background
begin within rftp put "${crawl[@]}" "${both[@]}" "$tmp/t1/big" "$url/a"
check "without node 0's CPUs: its memory" all_on "$tmp/here" 0
check "its thread is on node 1" patience 10 on here sender "2-3"
stop
check "with a word" grep -q 'node 0 has no CPU that may be used here: threads run on node 1' "$tmp/err"
echo 1 >"$tmp/cg/some/cpuset.mems"
begin within rftp put "${crawl[@]}" "${both[@]}" "$tmp/t1/big" "$url/a"
check "without node 0's memory: node 1's pool" all_on "$tmp/here" 1
stop
check "with a warning" grep -q 'warning: memory cannot be put on node 0: it may not be used here (cpuset)' "$tmp/err"

# ---- a node that is full ----

run rftp-numa model --target 1 --size 2M --copies 2 --rounds 5 --save "$tmp/model.json"
check "a model of this machine" status_is 0
free_mib() { awk '/MemFree/ { print int($4 / 1024) }' /sys/devices/system/node/node1/meminfo; }
mount -o remount,size=3g "$tmp/t1"
echo 1 >/proc/sys/vm/drop_caches # which would make room
fill() { dd if=/dev/zero bs=1M count="$1" status=none >>"$tmp/t1/fill"; }
all_fits() { grep -q 'path 1: .*, 100 % of its pages on node 1' "$tmp/err"; }
fill $(($(free_mib) - 48))
begin rftp put "${crawl[@]}" "${both[@]}" "$tmp/t1/big" "$url/a"
# The amount that the kernel reserves varies.
for _ in 1 2 3 4 5 6; do
	all_fits || break
	comment <<<"node 1 has $(free_mib) MiB left, which was enough"
	stop
	fill 4
	begin rftp put "${crawl[@]}" "${both[@]}" "$tmp/t1/big" "$url/a"
done
check "node 1 is full: a warning" patience 5 grep -q 'warning: node 1 has not .* to spare: some of the blocks may be on others' "$tmp/err"
check "node 0 is not" all_on "$tmp/here" 0
check "and node 1 is asked first all the same" is "$(bound "$tmp/here")" "0 1"
check "-v says how much is elsewhere" grep -q 'path 1: .*, [0-9.]* % of its pages on node 1' "$tmp/err"
check "which is not all" not all_fits
check "threads stay" patience 10 on here sender "0-1 2-3"
stop
# Emulated nodes are all alike, which the model finds: each is as good as the other.
begin env RFTP_NUMA_MODEL="$tmp/model.json" rftp put "${crawl[@]}" "${both[@]}" "$tmp/t1/big" "$url/c"
check "by the model another node is as near" grep -q 'warning: node 1 has not .* to spare: blocks are on node 0, which is as near' "$tmp/err"
check "both pools are there" is "$(bound "$tmp/here")" 0
stop
rm "$tmp/t1/fill"

# ---- several cards ----

run rftp put --accept-new -v "${both[@]}" --prot clear "$tmp/t1/small" "$url/whole"
check "all arrives" cmp "$tmp/t1/small" "$root/whole"

# From storage of no known node all paths are alike.
open_server plain 0.0.0.0 --nic eth1,eth3
mkdir "$tmp/plain.root/tree"
for i in 1 2 3 4; do head -c 6M /dev/urandom >"$tmp/plain.root/tree/$i"; done
one=$(counter rxe_eth1 sent_pkts)
two=$(counter rxe_eth3 sent_pkts)
run rftp get -r --accept-new -v "${both[@]}" --prot clear "rftp://10.0.0.2:$port/tree" "$tmp/t0/tree"
check "several files by both cards at once" test "$status" -eq 0 -a "$(grep -c 'path 1: eth2' "$tmp/err")" -ge 1
check "are the same" diff -r "$tmp/plain.root/tree" "$tmp/t0/tree"
check "node 0's card had its part" test $(($(counter rxe_eth1 sent_pkts) - one)) -gt 1000
check "and node 1's" test $(($(counter rxe_eth3 sent_pkts) - two)) -gt 1000

# Cards of 20 Mbit/s, so that they are the bottleneck and not the emulated processors; files on
# node 1.
for nic in eth0 eth2; do tc qdisc replace dev $nic root netem limit 100000 rate 20mbit; done
sent() { cat "/sys/class/net/$1/statistics/tx_bytes"; }
crosses() { # FILE OPTION...: KiB that went by node 0's card
	local before
	before=$(sent eth0)
	run rftp put --accept-new -v --prot clear --transport tcp --nic eth0,eth2 --block 64K --inflight 6 \
		"${@:2}" "$tmp/t1/$1" "rftp://10.0.0.2:$port/$1$RANDOM"
	kib=$((($(sent eth0) - before) / 1024))
}
head -c 12M /dev/urandom >"$tmp/t1/some"
# On a busy host a few seconds measure little.
for _ in 1 2 3 4; do cat "$tmp/t1/some"; done >"$tmp/t1/long"
crosses some --numa-balance 100
check "blocks stay on their storage's node" test "$status" -eq 0 -a $kib -lt 500
crosses long --numa-interval 500ms
check "when that is full they go by the others, too" test "$status" -eq 0 -a $kib -gt 6000
check "with a word" grep -q 'one node.s links are much fuller: blocks go by the paths of all nodes' "$tmp/err"
crosses long --numa-interval 500ms --nic-node eth2=any
check "also when they go by a card of no known node at first" test "$status" -eq 0 -a $kib -gt 3000
for nic in eth0 eth2; do tc qdisc del dev $nic root; done
check "nothing stays" patience 10 nothing_left
finish
