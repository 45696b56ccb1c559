#!/bin/bash
# Put and get over RDMA, pairwise over topology, direction, operation, protection, block size
# and queue pairs: every byte is compared, and the devices' counters show that it was RDMA that
# carried it. A big file, a tree, both directions at once. TAP.

# shellcheck disable=SC2034,SC2054 # for guest.sh and lib.sh; lists with commas
vm_options="--nics 3"
. "${top_srcdir:?}/tests/vm/guest.sh"

rdma_modules || skip_all "the guest's kernel has no RDMA"
rdma_self eth0 10.3.0.1
ip addr add fd00:3::1/64 dev eth0 nodad
rdma_veth v0 v1 10.0.0.1 10.0.0.2
rdma_veth w0 w1 10.1.0.1 10.1.0.2
rdma_cards eth1 eth2 10.4.0.1 10.4.0.2
sleep 1 # for the GIDs of the address that came later

head -c 16777216 /dev/urandom >"$tmp/big"
head -c 8388608 "$tmp/big" >"$tmp/half" # emulated processors seal slowly

# Where the topologies are reached, and how.
open_server v4 0.0.0.0
port4=$port root4=$tmp/v4.root
open_server v6 '[::]'
port6=$port root6=$tmp/v6.root
open_server two 0.0.0.0 --nic v1,w1
declare -A url=(
	[self]=rftp://10.3.0.1:$port4 [self6]=rftp://[fd00:3::1]:$port6 [veth]=rftp://10.0.0.2:$port4
	[cards]=rftp://10.4.0.2:$port4 [paths]=rftp://10.0.0.2:$port)
declare -A root=([self]=$root4 [self6]=$root6 [veth]=$root4 [cards]=$root4 [paths]=$tmp/two.root)
for to in "${url[@]}"; do run rftp ls -q --accept-new "$to/"; done

packets() { cat /sys/class/infiniband/*/ports/1/hw_counters/sent_pkts | awk '{ n += $1 } END { print n }'; }
# was_rdma BYTES BEFORE: packets have gone that carry so much, of at most 4096 bytes each
was_rdma() { test $(($(packets) - $2)) -ge $(($1 / 4096)); }

# cell TOPOLOGY put|get OP PROT BLOCK CHANNELS
cell() {
	local to=${url[$1]} there=${root[$1]}/big file=$tmp/big before what="$*"
	local options=(--transport rdma --op "$3" --prot "$4" --block "$5" --channels "$6" --ack written -v)
	[ "$4" = private ] && file=$tmp/half
	[ "$1" = paths ] && options+=(--nic v0,w0)
	before=$(packets)
	if [ "$2" = put ]; then
		run rftp put "${options[@]}" "$file" "$to/big"
		check "$what" status_is 0
		check "$what: the same" cmp "$file" "$there"
	else
		cp "$file" "$there"
		run rftp get "${options[@]}" "$to/big" "$tmp/back"
		check "$what" status_is 0
		check "$what: the same" cmp "$file" "$tmp/back"
	fi
	check "$what: by RDMA" was_rdma "$(stat -c %s "$file")" "$before"
	rm -f "$there" "$tmp/back"
}

cell self put read private 4M 2
cell self put write clear 64K 8
cell self get write safe 1M 1
cell self put write safe 256K 4
cell self6 get write private 1M 8
cell self6 get read clear 64K 4
cell self6 put read safe 256K 2
cell self6 get read clear 4M 1
cell veth get write safe 4M 1
cell veth put read clear 1M 4
cell veth get write private 256K 8
cell veth get read safe 64K 2
cell cards get read clear 256K 1
cell cards put write clear 64K 2
cell cards put write private 4M 4
cell cards get read safe 1M 8
cell paths put write safe 256K 4
cell paths get read safe 1M 2
cell paths put read private 64K 1
cell paths get read clear 4M 8
check "-v says which device, GID, kind and MTU" \
	grep -Eq 'RDMA by rxe_v0 port 1: GID ::ffff:10.0.0.1 \(RoCE v2\), MTU [0-9]+' "$tmp/err"

# ---- a big file, by both operations ----

for ((i = 0; i < 16; i++)); do cat "$tmp/big"; done >"$tmp/huge"
before=$(packets)
run rftp put --transport rdma --op write --prot clear -v "$tmp/huge" "${url[veth]}/huge"
check "256 MiB by WRITE" status_is 0
check "256 MiB by WRITE: the same" cmp "$tmp/huge" "${root[veth]}/huge"
check "256 MiB by WRITE: by RDMA" was_rdma 268435456 "$before"
rm "$tmp/huge"
before=$(packets)
run rftp get --transport rdma --op read --prot clear -v "${url[veth]}/huge" "$tmp/back"
check "256 MiB by READ" status_is 0
check "256 MiB by READ: the same" cmp "$tmp/back" "${root[veth]}/huge"
check "256 MiB by READ: by RDMA" was_rdma 268435456 "$before"
rm "$tmp/back" "${root[veth]}/huge"

# ---- trees ----

mkdir -p "$tmp/tree/a/b"
for i in $(seq 150); do head -c $((i * 37)) "$tmp/big" >"$tmp/tree/a/$i"; done
ln -s 7 "$tmp/tree/a/link"
ln "$tmp/tree/a/9" "$tmp/tree/a/b/nine"
for op in write read; do
	run rftp put -r --transport rdma --op $op -q "$tmp/tree" "${url[veth]}/tree-$op"
	check "a tree, $op" status_is 0
	check "a tree, $op: the same" "$lib/compare-trees" "$tmp/tree" "${root[veth]}/tree-$op"
	run rftp get -r --transport rdma --op $op -q "${url[veth]}/tree-$op" "$tmp/back-$op"
	check "a tree back, $op" status_is 0
	check "a tree back, $op: the same" "$lib/compare-trees" "$tmp/tree" "$tmp/back-$op"
done

# ---- both directions at once ----

logins() { grep -c 'login of' "$tmp/v4.log"; }
logins=$(logins)
for op in write read; do
	run rftp bench --both --time 3 --transport rdma --op $op --prot clear --json "${url[veth]}"
	check "bench in both directions, $op" status_is 0
	check "$op: RDMA, twice" test "$(grep -c '"started","transport":"rdma"' "$tmp/out")" -eq 2
	check "$op: in two sessions" test $(($(logins) - logins)) -eq 2
	logins=$(logins)
done
cp "$tmp/big" "${root[veth]}/from"
rftp put --transport rdma --op write --prot clear -q "$tmp/big" "${url[veth]}/to" </dev/null >"$tmp/put.out" 2>&1 &
putting=$!
run rftp get --transport rdma --op read --prot clear -q "${url[veth]}/from" "$tmp/back"
check "a get beside a put" status_is 0
wait $putting
status=$?
check "a put beside a get" status_is 0
check "the one is the same" cmp "$tmp/big" "${root[veth]}/to"
check "the other, too" cmp "$tmp/big" "$tmp/back"

# ---- from one server to another ----

open_server source 10.0.0.1 --third-party all --nic v0
from=rftp://10.0.0.1:$port
open_server sink 10.0.0.2 --nic v1
into=rftp://10.0.0.2:$port
for to in "$from" "$into"; do run rftp ls -q --accept-new "$to/"; done
cp "$tmp/big" "$tmp/source.root/big"
for cell in "write clear 256K" "read private 1M" "write safe 64K"; do
	# shellcheck disable=SC2086 # words
	set -- $cell
	rm -f "$tmp/sink.root/big"
	before=$(packets)
	run rftp cp --transport rdma --op "$1" --prot "$2" --block "$3" --json "$from/big" "$into/big"
	check "cp, $cell" status_is 0
	check "cp, $cell: the same" cmp "$tmp/big" "$tmp/sink.root/big"
	check "cp, $cell: by RDMA" was_rdma 16777216 "$before"
	check "cp, $cell: so it is said" test "$(summary transport) $(summary op) $(summary prot)" = "rdma $1 $2"
done
cp -a "$tmp/tree" "$tmp/source.root/tree"
run rftp cp -r -q --transport rdma "$from/tree" "$into/"
check "cp of a tree" status_is 0
check "cp of a tree: the same" "$lib/compare-trees" "$tmp/tree" "$tmp/sink.root/tree"

# ---- huge pages ----

# Pools lie in those that are set aside, on both sides, and give them back.
pages() { awk '/^HugePages_Free/ { print $2 }' /proc/meminfo; }
echo 64 >/proc/sys/vm/nr_hugepages
all=$(pages)
rftp bench --time 3 --transport rdma --prot clear --block 1M --inflight 20 -q "${url[veth]}" \
	</dev/null >"$tmp/out" 2>"$tmp/err" &
client=$!
fewer_pages() { [ "$(pages)" -le $((all - 20)) ]; }
check "pools of 20 MiB and more take huge pages" patience 10 fewer_pages
wait $client
status=$?
check "a bench out of huge pages" status_is 0
all_pages() { [ "$(pages)" = "$all" ]; }
check "they are given back" patience 10 all_pages
echo 0 >/proc/sys/vm/nr_hugepages

# ---- the type of service ----

# Packets of this class that left by v0, the client's: rxe makes them as IP says.
modprobe -a sch_ingress cls_flower act_gact
tc qdisc add dev v0 clsact
tc filter add dev v0 egress protocol ip flower ip_tos 0xb8/0xff action ok
marked() { tc -s filter show dev v0 egress | sed -n 's/.*Sent [0-9]* bytes \([0-9]*\) pkt.*/\1/p'; }
for tos in cs0 ef; do
	run rftp put --transport rdma --prot clear --tos $tos --poll always -q "$tmp/big" \
		"${url[veth]}/marked"
	check "put --tos $tos, --poll always" status_is 0
	check "the same" cmp "$tmp/big" "${root[veth]}/marked"
	[ $tos = ef ] || check "nothing is marked that need not be" test "$(marked)" = 0
	rm -f "${root[veth]}/marked"
done
check "--tos ef marks RDMA's packets" test "$(marked)" -gt 1000

# ---- the kernel's log ----

rdma statistic show link rxe_v0/1 | tr ' ' '\n' | grep -A1 -E '^(sent_pkts|rcvd_pkts|send_rnr_err|rcvd_rnr_err)$' |
	paste -sd' ' | comment
for dev in rxe_eth0 rxe_v0 rxe_v1 rxe_w0 rxe_w1 rxe_eth1 rxe_eth2; do
	check "$dev: nobody had to wait for a receive" test "$(counter $dev rcvd_rnr_err send_rnr_err retry_rnr_exceeded_err)" = 0
done
check "no queue pair, memory region, completion queue or domain is left" patience 10 nothing_left
finish
