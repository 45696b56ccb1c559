# shellcheck shell=bash disable=SC2034,SC2154 # for who sources this; tmp, top_srcdir: lib.sh's
# SPDX-License-Identifier: Apache-2.0
# What the tests of rftp-iser's status and verify share: a plan of two nodes, and looks at what is
# said of it. Sourced after guest.sh, in a guest of two nodes and the topology "cards".

for program in numactl iscsiadm; do
	command -v $program >/dev/null || skip_all "$program is missing"
done
export RFTP_ISER_LIO=$top_srcdir/src/iser_setup/rftp-iser-lio RFTP_ISER_STATE=$tmp/state
slow=20
lio=/sys/kernel/config/target
iqn=iqn.2026-01.org.example:node
me=iqn.2026-01.org.example:me
printf 'a-secret-of-mine\n' >"$tmp/secret"
chmod 600 "$tmp/secret"

# ---- a plan: to node 0's target one initiator may log in, by CHAP; node 1's is open ----

# tmpfs NODE: a store
tmpfs() {
	echo "{\"lun\": 0, \"name\": \"node$1-disk0\", \"kind\": \"tmpfs\", \"node\": $1,
	\"size\": 16777216, \"path\": \"$tmp/iser/node$1\", \"write-back\": true,
	\"serial\": \"00000000-0000-4000-8000-00000000000$1\"}"
}
# target NODE WHO
target() {
	echo "{\"node\": $1, \"iqn\": \"$iqn$1\", $2, \"luns\": [$(tmpfs "$1")],
	\"portals\": [{\"address\": \"10.0.0.$(($1 + 1))\", \"netdev\": \"eth$1\"}]}"
}
chap="\"chap\": {\"user\": \"me\", \"secret-file\": \"$tmp/secret\"}"
who="\"initiators\": [{\"name\": \"$me\", $chap}]"
echo "{\"rftp-iser-plan\": 1, \"name\": \"two\",
\"targets\": [$(target 0 "$who"), $(target 1 '"open": true')]}" >"$tmp/plan"

# ---- looking ----

verify() { run rftp-iser verify "$@"; }
status() { run rftp-iser status "$@"; }
has() { grep -q -e "$1" "$tmp/out"; }
wrongs() { grep -c '^WRONG' "$tmp/out"; }
all_ok() { status_is 0 && [ "$(wrongs)" = 0 ] && has '^ok' && not has '^UNSEEN'; }
# only WHAT MEND: the one thing that is wrong, and how to mend it
only() {
	status_is 1 && [ "$(wrongs)" = 1 ] && not has '^UNSEEN' && has "^WRONG.*$1.* -> .*$2" && return
	comment <"$tmp/out"
	return 1
}
apply() { rftp-iser apply "$tmp/plan" >"$tmp/applied" 2>&1 || comment <"$tmp/applied"; }
# is EXPRESSION: of Python, over the JSON m that it printed
is() {
	python3 -c 'import json, sys
m = json.load(open(sys.argv[1]))
sys.exit(not eval(sys.argv[2]))' "$tmp/out" "$1"
}
group() { echo "$lio/iscsi/$iqn$1/tpgt_1"; }
# of node 1's target
no_lun() {
	find "$(group 1)/lun/lun_0" -maxdepth 1 -type l -delete
	rmdir "$(group 1)/lun/lun_0"
}
