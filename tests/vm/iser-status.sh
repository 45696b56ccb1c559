#!/bin/bash
# rftp-iser status and verify, with the kernel's target on two nodes: what is as it should be is
# ok, and of what is broken each is named, with the way to mend it. TAP.

# shellcheck disable=SC2034 # for guest.sh
vm_options="--nodes 2 --cpus 4 --nics 2 --topology cards"
. "${top_srcdir:?}/tests/vm/guest.sh"

. "$top_srcdir/tests/vm/iser-verify.bash"

verify
check "nothing to verify" status_is 1
check "that is said" grep -q 'no plan was applied here' "$tmp/err"
run rftp-iser apply "$tmp/plan"
check "applied" status_is 0

# Somebody else's target.
mkdir -p "$lio/iscsi/iqn.2026-01.org.example:theirs/tpgt_1"

# ---- all is well ----

verify
comment <"$tmp/out"
check "all is as it was applied" all_ok
for k in 0 1; do
	check "pages of node $k's LUN" has "^ok *back store node$k-disk0 of $iqn$k: its pages: 16.0 MiB on node $k$"
	check "its card" has "^ok *portal 10.0.0.$((k + 1)) port 3260 of $iqn$k: eth$k is a card of node $k$"
done
verify --json two
check "for programs" is 'm["right"] and m["plans"][0]["wrong"] == 0 and len(m["plans"][0]["findings"]) > 25'
verify nobody
check "no such plan" status_is 1

status
comment <"$tmp/out"
check "status" status_is 0
check "a target" has "^target ${iqn}0 for node 0: enabled$"
check "a portal" has 'portal     10.0.0.2 port 3260, iSER; eth1 of node 1, RDMA device rxe_eth1, [0-9]* interrupts on CPUs'
check "nobody is logged in" has "initiator  $me: not logged in"
check "a LUN" has "LUN 0      node1-disk0, tmpfs $tmp/iser/node1/disk.img, 16.0 MiB, write-back: pages 16.0 MiB on node 1$"
check "threads" has '^    iscsi_np  *[1-9] threads may run on CPUs 0-3 of nodes 0-1, last on'
check "what is not ours" has '^not ours: target iqn.2026-01.org.example:theirs, disabled, 0 portals, 0 LUNs, 0 sessions$'
status --json
check "for programs" is '[t["luns"][0]["pages"]["nodes"] for t in m["plans"][0]["targets"]] == [{"0": 1 << 24}, {"1": 1 << 24}]'
check "what is not ours, too" is '[o["iqn"] for o in m["others"]] == ["iqn.2026-01.org.example:theirs"] and m["unseen"] == []'
status two
check "one plan: not what others have" not has 'not ours'

chmod 755 "$tmp"
run setpriv --reuid=65534 --regid=65534 --clear-groups env PATH="$PATH" rftp-iser status
comment <"$tmp/out"
check "not as root" status_is 0
check "what that did not see" has '^not seen: which plans were applied: .*Permission denied; root may see it$'
check "whose a target is, it does not know" has "^whose is not known: target ${iqn}1, enabled"

# ---- one thing after the other is broken ----

echo 0 >"$(group 0)/np/10.0.0.1:3260/iser"
verify
check "iSER off" only "portal 10.0.0.1 port 3260 of ${iqn}0: iSER is off" 'apply the plan again'
apply

rmdir "$(group 1)/np/10.0.0.2:3260"
verify
check "a portal that is gone" only "portal 10.0.0.2 port 3260 of ${iqn}1: is not there" 'apply the plan again'

no_lun
apply
verify
check "apply mends it, and a LUN that was gone" all_ok

no_lun
verify
check "a LUN that is gone" only "back store node1-disk0 of ${iqn}1: LUN 0 is not there" 'apply the plan again'

echo 0 >"$(group 0)/attrib/authentication"
apply
echo 0 >"$(group 0)/attrib/authentication"
verify
check "authentication off" only "target ${iqn}0: authentication is off" 'apply the plan again'
echo 1 >"$(group 0)/attrib/authentication"

echo 0,2 >$lio/iscsi/cpus_allowed_list
verify
check "other CPUs" only 'cpus_allowed_list is 0,2, and should be 0-3' 'apply the plan again'
apply
verify
check "and apply sets them right" all_ok

mkdir "$(group 1)/acls/$me.more"
verify
check "somebody who was not planned" only "lets the initiator $me.more in" "targetcli /iscsi/${iqn}1/tpg1/acls delete $me.more"
rmdir "$(group 1)/acls/$me.more"

# elsewhere NODE: the first MiB of node 1's file is made anew, under another policy
file=$tmp/iser/node1/disk.img
elsewhere() {
	numactl --length=1m --file="$file" --membind="$1" &&
		fallocate -p -o 0 -l 1M "$file" &&
		dd if=/dev/zero of="$file" bs=1M count=1 conv=notrunc status=none
}
elsewhere 0
verify
check "pages elsewhere" only "back store node1-disk0 of ${iqn}1: pages are where they should not be: 1.0 MiB on node 0, 15.0 MiB on node 1" 'save what it holds'
status
check "status tells where" has 'pages 1.0 MiB on node 0, 15.0 MiB on node 1'
elsewhere 1
verify
check "all is well again" all_ok

cp "$tmp/state/two.json" "$tmp/kept"
sed -i 's/"boot": *"[^"]*"/"boot": "another"/' "$tmp/state/two.json"
verify
check "the host was started again" only 'plan two: this host was started again since it was applied' 'apply the plan again'
cp "$tmp/kept" "$tmp/state/two.json"

run rftp-iser remove two
check "removed" status_is 0

finish
