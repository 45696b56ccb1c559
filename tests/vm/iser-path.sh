#!/bin/bash
# The whole way: targets on two nodes planned, applied, verified; logged in to, made into
# filesystems; a tree put onto them and got back over RDMA, by an rftpd with its threads on the
# node of the session's card; and all of it taken down. TAP.

# shellcheck disable=SC2034 # for guest.sh
vm_options="--nodes 2 --nics 2 --memory 4096 --topology cards"
. "${top_srcdir:?}/tests/vm/guest.sh"

need numactl iscsiadm iscsid mkfs.xfs python3
export RFTP_ISER_STATE=$tmp/state
modprobe -a target_core_mod iscsi_target_mod ib_isert ib_iser xfs 2>/dev/null ||
	skip_all "the guest's kernel has no iSER"
limit=60
lio=/sys/kernel/config/target
iqn=iqn.2026-01.org.example:store-node
front=iqn.2026-01.org.example:front
# An initiator that has never been used.
rm -rf /etc/iscsi/nodes /etc/iscsi/send_targets /var/lib/iscsi/*
mkdir -p /etc/iscsi /run/lock
echo "InitiatorName=$front" >/etc/iscsi/initiatorname.iscsi

has() { grep -qe "$1" "$tmp/out"; }
shown() { cat "$tmp/out" "$tmp/err" | comment; }
sessions() { ls /sys/class/iscsi_session 2>/dev/null | wc -l; }
records() { find /etc/iscsi/nodes /var/lib/iscsi -type f 2>/dev/null | wc -l; }
# The places where rftp-iser may leave nothing
snapshot() {
	find $lio \( -type d -o -type l \) | sort
	cat /proc/mounts
	grep . /proc/irq/*/smp_affinity_list
}
# rtslib has the kernel load all plugins.
modprobe -a target_core_file target_core_iblock target_core_pscsi
mountpoint -q /sys/kernel/config || mount -t configfs configfs /sys/kernel/config
mkdir -p $lio/iscsi
snapshot >"$tmp/before"
nothing_stays() {
	snapshot | diff "$tmp/before" - | comment | grep . && return 1
	[ "$(sessions) $(records)" = "0 0" ] && [ ! -e "$tmp/iser" ]
}

# ---- the storage host ----

cat >"$tmp/store.conf" <<END
[plan]
name = store
iqn = iqn.2026-01.org.example
secrets = $tmp/secrets
mounts = $tmp/iser

[node *]
tmpfs = 320M
write = back

[initiator $front]
chap-secret = generate
mutual-secret = generate
END
run rftp-iser plan --out "$tmp/store.json" "$tmp/store.conf"
shown
check "planned" status_is 0
check "that it is written back is said aloud" grep -q 'write-back' "$tmp/err"
check "a target behind the card of each node" python3 -c '
import json, sys
plan = json.load(open(sys.argv[1]))
sys.exit([(t["node"], t["portals"][0]["netdev"], t["portals"][0]["address"]) for t in plan["targets"]] !=
	 [(0, "eth0", "10.0.0.1"), (1, "eth1", "10.0.0.2")])' "$tmp/store.json"
run rftp-iser apply "$tmp/store.json"
check "applied" status_is 0
applied() { find $lio \( -type d -o -type l \) -printf '%p %i %l\n' | sort; }
applied >"$tmp/applied"
run rftp-iser apply "$tmp/store.json"
check "applied again: nothing to change" has 'there is nothing to change$'
check "and nothing is changed" same "$tmp/applied" <(applied)
run rftp-iser verify
check "verified" status_is 0
check "not a line is wrong or unseen" not has '^WRONG\|^UNSEEN'
for k in 0 1; do
	check "node $k: all pages of its LUN" has "^ok *back store store-node$k-disk0: where it is: pages 320 MiB on node $k\$"
	check "node $k: its own card" has "^ok *portal 10.0.0.$((k + 1)) port 3260 of $iqn$k: eth$k is a card of node $k"
	check "node $k: iSER" has "^ok *portal 10.0.0.$((k + 1)) port 3260 of $iqn$k: is with iSER"
done

# ---- the front end ----

run rftp-iser login --plan "$tmp/store.json" --tune --mkfs
shown
check "logged in, with filesystems" status_is 0 || finish
# disk K: the one of target K, as login has printed it
disk() { awk -v iqn="$iqn$1" '/^\/dev/ { dev = $1 } index($0, iqn) { print dev; exit }' "$tmp/out"; }
mkdir "$tmp/root" "$tmp/root/0" "$tmp/root/1"
# Packets to 10.0.0.1 leave by eth1, on node 1, and packets to 10.0.0.2 by eth0.
for k in 0 1; do
	check "target $k: by the card of the other node" has "card     eth$((1 - k)), node $((1 - k))"
	check "target $k: mounted" mount -o noatime "$(disk $k)" "$tmp/root/$k"
	mounts+=("$tmp/root/$k")
done

# ---- data ----

"$lib/make-tree" "$tmp/tree" names deep empty sizes times links hardlinks
rm "$tmp/tree/links/long" # XFS has shorter ones
rftpd --one-process --listen 10.0.0.2:0 --root "$tmp/root" --anonymous rw --state "$tmp/d.state" \
	--port-file "$tmp/d.port" -v </dev/null >>"$tmp/d.log" 2>&1 &
server=$!
servers+=("$server")
patience 20 server_is_up d
url=rftp://10.0.0.2:$(head -n 1 "$tmp/d.port")
for k in 0 1; do
	: >"$tmp/d.log"
	put -r --transport rdma "$tmp/tree" "$url/$k/tree"
	check "a tree is put onto $k" status_is 0
	check "by threads on the node of its session's card" grep -q "files are written by .* on CPUs $((1 - k))\$" "$tmp/d.log"
	check "it is there" same_trees "$tmp/tree" "$tmp/root/$k/tree"
	: >"$tmp/d.log"
	get -r --transport rdma "$url/$k/tree" "$tmp/back$k"
	check "and got back" status_is 0
	check "as it was" same_trees "$tmp/tree" "$tmp/back$k"
	check "by threads there, too" grep -q "files are read by .* on CPUs $((1 - k))\$" "$tmp/d.log"
done

# It lasts as long as the commands beside it, each of which takes seconds here.
before=$(carried rxe_eth0)
until [ -e "$tmp/enough" ]; do
	head -c 131072 /dev/urandom
	sleep 0.2
done | tee "$tmp/big" |
	rftp put -q --accept-new --transport rdma - "$url/0/big" 2>"$tmp/busy" &
client=$!
check "a transfer is under way" under_way rxe_eth0
run rftp-iser status
check "status, while it is" status_is 0
shown
check "who is logged in is shown" has "initiator  $front: logged in from 10.0.0"
check "and where pages are" has 'store-node1-disk0, tmpfs .*: pages 320 MiB on node 1$'
run rftp-iser verify
check "all is as it should be, while it is" status_is 0
run rftp-iser remove
check "no remove, while somebody is logged in" test "$status" -eq 1 -a -n "$(grep 'logged in' "$tmp/err")"
run rftp-iser logout --all
check "no logout, while it is mounted" grep -q "is mounted on $tmp/root" "$tmp/err"
check "the transfer goes on" not gone $client
: >"$tmp/enough"
wait $client
check "to its end" test $? -eq 0
check "with all its bytes" same "$tmp/big" "$tmp/root/0/big"

# ---- down ----

check "the server ends" stops_well
umount "$tmp/root/0" "$tmp/root/1"
mounts=()
run rftp-iser logout --all
check "logged out" status_is 0
run rftp-iser remove
check "removed" status_is 0
check "nothing stays" nothing_stays
check "of RDMA, either" nothing_left
finish
