#!/bin/bash
# rftp-iser status and verify, with the kernel's target on two nodes: objects that match the plan are
# ok, each broken one is named with its remedy; and verify writes a pattern through real iSER
# sessions, and leaves nothing. TAP.

# shellcheck disable=SC2034 # for guest.sh
vm_options="--nodes 2 --cpus 4 --nics 2 --topology cards"
. "${top_srcdir:?}/tests/vm/guest.sh"
. "$top_srcdir/tests/vm/iser.bash"

need iscsiadm iscsid
iqn=iqn.2026-01.org.example:node
group() { echo "$lio/iscsi/$iqn$1/tpgt_1"; }
mend='apply the plan again'
# To node 0's target one initiator may log in, by CHAP; node 1's is open.
plan two.json two "$(target 0 "$who" "$(tmpfs 0 0 16)"), $(target 1 "" "$(tmpfs 1 0 16)")"

verify
check "nothing to verify" status_is 1
check "that is said" grep -q 'no plan was applied here' "$tmp/err"
apply "$tmp/two.json"
check "applied" status_is 0

# ---- all is well ----

verify
comment <"$tmp/out"
check "all is as it was applied" all_ok
for k in 0 1; do
	check "pages of node $k's LUN" has "^ok *back store node$k-disk0: where it is: pages 16.0 MiB on node $k$"
	check "its card" has "^ok *portal 10.0.0.$((k + 1)) port 3260 of $iqn$k: eth$k is a card of node $k"
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
check "a LUN" has "LUN 0      node1-disk0, tmpfs $tmp/iser/node1-disk0/disk.img, 16.0 MiB, write-back: pages 16.0 MiB on node 1$"
check "threads" has '^    iscsi_np  *[1-9] threads may run on CPUs 0-3 of nodes 0-1, last on'
check "what is not ours" has '^not ours: target iqn.2026-01.org.example:theirs, enabled, 1 portals, 1 LUNs, 0 sessions$'
status --json
check "for programs" is '[t["luns"][0]["pages"]["nodes"] for t in m["plans"][0]["targets"]] == [{"0": 1 << 24}, {"1": 1 << 24}]'
check "what is not ours, too" is '[o["iqn"] for o in m["others"]] == ["iqn.2026-01.org.example:theirs"] and m["unseen"] == []'
status two
check "one plan: not what others have" not has 'not ours'

chmod 755 "$tmp"
run setpriv --reuid=65534 --regid=65534 --clear-groups env PATH="$PATH" rftp-iser status
comment <"$tmp/out"
check "not as root" status_is 0
check "what that did not see" has '^not seen: which plans were applied: .*Permission denied; use sudo$'
check "whose a target is, it does not know" has "^of an unknown owner: target ${iqn}1, enabled"

# ---- one thing after the other is broken ----

echo 0 >"$(group 0)/np/10.0.0.1:3260/iser"
verify
check "iSER off" only "portal 10.0.0.1 port 3260 of ${iqn}0: is without iSER" "$mend"
echo 1 >"$(group 0)/np/10.0.0.1:3260/iser"

echo 0 >"$(group 0)/attrib/authentication"
verify
check "authentication off" only "authentication of target ${iqn}0: is 0, and should be 1" "$mend"
echo 1 >"$(group 0)/attrib/authentication"

mkdir "$(group 1)/acls/$me.more"
verify
check "somebody who was not planned" only "initiator $me.more at ${iqn}1: is not planned" "targetcli /iscsi/${iqn}1/tpg1/acls delete $me.more"
rmdir "$(group 1)/acls/$me.more"

mkdir "$(group 0)/acls/$me/lun_5"
ln -s "$(group 0)/lun/lun_0" "$(group 0)/acls/$me/lun_5/moved"
verify
check "a LUN under another's number" only "LUN 5 for $me at ${iqn}0: is LUN 0 of the target, and not planned" "delete mapped_lun5"
rm "$(group 0)/acls/$me/lun_5/moved"
rmdir "$(group 0)/acls/$me/lun_5"

echo 0,2 >$lio/iscsi/cpus_allowed_list
verify
check "other CPUs" only 'threads of all iSCSI targets of this host: is on CPUs 0,2, and should be on CPUs 0-3' "$mend"
echo 0-3 >$lio/iscsi/cpus_allowed_list

find "$(group 1)/lun/lun_0" -maxdepth 1 -type l -delete
rmdir "$(group 1)/lun/lun_0"
verify
check "a LUN that is gone" only "LUN 0 of ${iqn}1: is missing" "$mend"

rmdir "$(group 1)/np/10.0.0.2:3260"
echo 0,2 >$lio/iscsi/cpus_allowed_list
verify
check "a portal that is gone, too" has "^WRONG.*portal 10.0.0.2 port 3260 of ${iqn}1: is missing.* -> .*$mend"
check "three things are wrong" test "$(wrongs)" = 3
apply "$tmp/two.json"
verify
check "apply mends all of it" all_ok

# elsewhere NODE: the first MiB of node 1's file is made anew, under another policy
file=$tmp/iser/node1-disk0/disk.img
elsewhere() {
	numactl --length=1m --file="$file" --membind="$1" &&
		fallocate -p -o 0 -l 1M "$file" &&
		dd if=/dev/zero of="$file" bs=1M count=1 conv=notrunc status=none
}
elsewhere 0
verify
check "pages elsewhere" only "back store node1-disk0: where it is: pages 1.0 MiB on node 0, 15.0 MiB on node 1, and all should be on node 1" 'save its data'
status
check "status tells where" has 'pages 1.0 MiB on node 0, 15.0 MiB on node 1'
elsewhere 1
verify
check "all is well again" all_ok

cp "$tmp/state/two.json" "$tmp/kept"
sed -i 's/"boot": *"[^"]*"/"boot": "another"/' "$tmp/state/two.json"
verify
check "the host was started again" only 'plan two: this host was restarted since it was applied' "$mend"
cp "$tmp/kept" "$tmp/state/two.json"

# ---- while an initiator is logged in ----

mkdir -p /etc/iscsi /run/lock
echo "InitiatorName=$me" >/etc/iscsi/initiatorname.iscsi
modprobe -a ib_iser iscsi_tcp sd_mod
# In a group of its own: it ends all of its group with itself.
setsid iscsid -f >"$tmp/iscsid.log" 2>&1 &
others+=($!)
session=(iscsiadm -m node -T "${iqn}0" -p 10.0.0.1:3260 -I default)
log_in() {
	"${session[@]}" -o new &&
		"${session[@]}" -o update -n node.session.auth.authmethod -v CHAP &&
		"${session[@]}" -o update -n node.session.auth.username -v me &&
		"${session[@]}" -o update -n node.session.auth.password -v a-secret-of-mine &&
		"${session[@]}" --login
}
patience 3 log_in >"$tmp/login" 2>&1
status
comment <"$tmp/out"
check "who is logged in" has "initiator  $me: logged in from 10.0.0"
check "the connection's threads" has '^    iscsi_ttx  *1 thread may run on'
verify
check "and all is well" all_ok
check "its thread, too" has "^ok *threads of all iSCSI targets of this host: iscsi_ttx [0-9]* may run on CPUs"
"${session[@]}" --logout >"$tmp/login" 2>&1

# ---- a pattern through iSER ----

limit=60
verify --io
grep 'MiB written' "$tmp/out" | comment
comment <"$tmp/err"
check "a pattern through each portal" all_ok
for k in 0 1; do
	check "by iSER, node $k" has "^ok *portal 10.0.0.$((k + 1)) port 3260 of $iqn$k: 64 MiB written at .*iB/s, read at .*iB/s, the same, by iser, on node $k$"
done
nothing_of_it() {
	not ls $lio/iscsi/*verify-io* $lio/core/*/*verify-io* >/dev/null 2>&1 &&
		not ls -d /sys/class/iscsi_session/* >/dev/null 2>&1 &&
		not grep -rqs rftp-io /etc/iscsi /var/lib/iscsi
}
check "nothing of it is left" nothing_of_it

rftp-iser verify --io >"$tmp/io" 2>&1 &
io=$!
logged_in() { grep -qs verify-io /sys/class/iscsi_session/*/targetname; }
patience 10 logged_in
kill -KILL $io
check "a test is killed" logged_in
verify --io --json
comment <"$tmp/err"
check "the next one takes away what is left" is 'm["right"] and [(i["node"], i["transport"], i["bytes"]) for i in m["plans"][0]["io"]] == [(0, "iser", 64 << 20), (1, "iser", 64 << 20)]'
check "and leaves nothing" nothing_of_it

# ---- pages, where there is another node, and swap space ----

modprobe brd rd_nr=1 rd_size=32768 && mkswap /dev/ram0 >"$tmp/swap" && swapon /dev/ram0
run env PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 -m pytest -q -rs -p no:cacheprovider \
	"$top_srcdir/tests/py/test_placement.py"
check "test_placement.py" status_is 0
check "none of it was skipped" not grep -qi skip "$tmp/out" "$tmp/err"

remove two
check "removed" status_is 0
check "theirs is as it was" unchanged

finish
