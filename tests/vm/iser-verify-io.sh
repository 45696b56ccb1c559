#!/bin/bash
# rftp-iser status and verify while an initiator is logged in, and verify --io: a pattern through
# iSER sessions of the same host, of which nothing is left. TAP.

# shellcheck disable=SC2034 # for guest.sh
vm_options="--nodes 2 --cpus 4 --nics 2 --topology cards"
. "${top_srcdir:?}/tests/vm/guest.sh"
. "$top_srcdir/tests/vm/iser-verify.bash"

run rftp-iser apply "$tmp/plan"
check "applied" status_is 0

# ---- while somebody is logged in ----

mkdir -p /etc/iscsi /run/lock
echo "InitiatorName=$me" >/etc/iscsi/initiatorname.iscsi
modprobe -a ib_iser sd_mod
# In a group of its own: it ends all of its group with itself.
setsid iscsid -f >"$tmp/iscsid.log" 2>&1 &
others+=($!)
session=(iscsiadm -m node -T "${iqn}0" -p 10.0.0.1:3260 -I iser)
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
check "its thread, too" has 'iscsi_ttx of 1 connection is within it'
"${session[@]}" --logout >"$tmp/login" 2>&1

# ---- a pattern through iSER ----

verify --io
grep 'MiB written' "$tmp/out" | comment
comment <"$tmp/err"
check "a pattern through each portal" all_ok
for k in 0 1; do
	check "by iSER, node $k" has "^ok *portal 10.0.0.$((k + 1)) port 3260 of $iqn$k: 64 MiB written at .*iB/s, read at .*iB/s, the same, by iscsi_iser, on node $k$"
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
patience 3 logged_in
kill -KILL $io
check "a test is killed" logged_in
verify --io --json
comment <"$tmp/out"
check "the next one takes away what is left" is 'm["right"] and [(i["node"], i["transport"], i["bytes"]) for i in m["plans"][0]["io"]] == [(0, "iscsi_iser", 64 << 20), (1, "iscsi_iser", 64 << 20)]'
check "and leaves nothing" nothing_of_it

# ---- unit tests, where there is another node, and swap space ----

modprobe brd rd_nr=1 rd_size=32768 && mkswap /dev/ram0 >"$tmp/swap" && swapon /dev/ram0
run "$top_builddir/tests/unit/test-iser-where"
check "test-iser-where" status_is 0
check "none of it was skipped" not grep -qi skip "$tmp/out" "$tmp/err"

run rftp-iser remove two
check "removed" status_is 0

finish
