# shellcheck shell=bash disable=SC2034,SC2154 # the test uses them; tmp and top_srcdir are lib.sh's
# SPDX-License-Identifier: Apache-2.0
# Shared by the tests of rftp-iser's targets: plans, a target of another program, and checks of LIO's
# configuration. Sourced after guest.sh, in a guest of two nodes and the topology "cards".

. "$top_srcdir/tests/e2e/iser-looks.bash"

for program in numactl losetup; do
	command -v $program >/dev/null || skip_all "$program is missing"
done
export RFTP_ISER_STATE=$tmp/state
limit=30
lio=/sys/kernel/config/target
me=iqn.2026-01.org.example:me
you=iqn.2026-01.org.example:you

printf 'a-secret-of-mine\n' >"$tmp/secret"
printf 'a-secret-of-the-target\n' >"$tmp/mutual"
chmod 600 "$tmp/secret" "$tmp/mutual"

# ---- plans ----

chap="\"chap\": {\"user\": \"me\", \"secret-file\": \"$tmp/secret\"}"
mutual="\"mutual-chap\": {\"user\": \"it\", \"secret-file\": \"$tmp/mutual\"}"
# tmpfs NODE LUN MIB: a store on a node
tmpfs() {
	echo "{\"lun\": $2, \"name\": \"node$1-disk$2\", \"kind\": \"tmpfs\", \"node\": $1,
	\"size\": $(($3 << 20)), \"path\": \"$tmp/iser/node$1-disk$2\", \"write-back\": true,
	\"serial\": \"00000000-0000-4000-8000-0000000000$1$2\"}"
}
# target NODE INITIATORS LUNS [ADDRESS]: without initiators it is open
target() {
	local who=${2:+\"initiators\": [$2]}
	echo "{\"node\": $1, \"iqn\": \"iqn.2026-01.org.example:node$1\",
	\"portals\": [{\"address\": \"${4:-10.0.0.$(($1 + 1))}\", \"netdev\": \"eth$1\"}],
	${who:-\"open\": true}, \"luns\": [$3]}"
}
who="{\"name\": \"$me\", $chap, $mutual}"
# plan FILE NAME TARGETS
plan() { echo "{\"rftp-iser-plan\": 1, \"name\": \"$2\", \"targets\": [$3]}" >"$tmp/$1"; }

plan two.json two "$(target 0 "$who" "$(tmpfs 0 0 16)"), $(target 1 "$who" "$(tmpfs 1 0 16)")"

# ---- looking ----

apply() { run rftp-iser apply "$@"; }
remove() { run rftp-iser remove "$@"; }
# LIO's configuration: each directory with its inode, each link with its target.
snapshot() {
	find $lio \( -type d -o -type l \) -printf '%p %i %l\n' | sort
	cat $lio/iscsi/cpus_allowed_list
	grep rftp-iser /proc/mounts
}
# nothing_of_ours: no target, store, mount or file
nothing_of_ours() {
	snapshot >"$tmp/now"
	! grep -e node -e rftp-iser "$tmp/now" | comment | grep . && [ ! -e "$tmp/iser" ] &&
		[ -z "$(find "$tmp/state" -type f ! -name lock)" ]
}
# one_line TEXT: the command failed, with one line that has TEXT
one_line() { status_is 1 && [ "$(wc -l <"$tmp/err")" -eq 1 ] && grep -qe "$1" "$tmp/err"; }
unchanged() {
	snapshot >"$tmp/now"
	diff "$tmp/before" "$tmp/now" | comment | grep . && return 1
	return 0
}
attribute() { cat "$lio/iscsi/iqn.2026-01.org.example:$1/tpgt_1/$2"; }

# A target of another program, which rftp-iser may not touch
modprobe -a target_core_mod iscsi_target_mod
mountpoint -q /sys/kernel/config || mount -t configfs configfs /sys/kernel/config
mkdir -p $lio/core/rd_mcp_77/theirs $lio/iscsi
echo rd_pages=256 >$lio/core/rd_mcp_77/theirs/control
echo 1 >$lio/core/rd_mcp_77/theirs/enable
theirs=$lio/iscsi/iqn.2026-01.org.example:theirs/tpgt_1
mkdir -p "$theirs/lun/lun_0" "$theirs/np/10.0.0.1:3277"
ln -s $lio/core/rd_mcp_77/theirs "$theirs/lun/lun_0/theirs"
echo 1 >"$theirs/enable"
snapshot >"$tmp/before"
# The CPUs of all interrupts
irqs() { grep . /proc/irq/*/smp_affinity_list; }
irqs >"$tmp/irqs"

