#!/bin/bash
# rftp-iser apply and remove, killed after each step: the next run continues from there to the end,
# and leaves no object that rftp-iser does not know. TAP.

# shellcheck disable=SC2034 # for guest.sh
vm_options="--nodes 2 --nics 2 --topology cards"
. "${top_srcdir:?}/tests/vm/guest.sh"
. "$top_srcdir/tests/vm/iser.bash"

# run, without the messages of this shell about killed processes
quietly() { { run "$@"; } 2>/dev/null; }
# to_the_end COMMAND...: run it again and again, each time killed after its first steps, until no
# step is left. Sets runs. status may name no foreign object afterwards.
to_the_end() {
	runs=0
	while [ $runs -lt 60 ]; do
		quietly "$@"
		[ "$status" -eq 137 ] || break
		runs=$((runs + 1))
	done
}
plan one.json one "$(target 0 "$who" "$(tmpfs 0 0 4)")"

export RFTP_FAULT_ISER=kept:SIGKILL
quietly rftp-iser apply "$tmp/one.json"
check "killed before its first step" status_is 137
check "it has done nothing" unchanged
export RFTP_FAULT_ISER=after:SIGKILL
to_the_end rftp-iser apply "$tmp/one.json"
unset RFTP_FAULT_ISER
check "killed after each step, it arrives" status_is 0
check "with as many as there are" test "$runs" -gt 12
comment <<<"$runs steps"
check "all is there" test "$(attribute node0 enable)$(attribute node0 np/10.0.0.1:3260/iser)$(attribute node0 acls/$me/auth/password)" = 11a-secret-of-mine
check "the initiator has its LUN" test -e "$lio/iscsi/iqn.2026-01.org.example:node0/tpgt_1/acls/$me/lun_0"
snapshot >"$tmp/applied"
apply "$tmp/one.json"
check "nothing is to be changed" has 'there is nothing to change$'
snapshot >"$tmp/now"
check "and nothing is" same "$tmp/applied" "$tmp/now"

export RFTP_FAULT_ISER=after:SIGKILL:after=1
to_the_end rftp-iser remove one
unset RFTP_FAULT_ISER
check "removed, killed after every second step" status_is 0
check "with as many as there are" test "$runs" -gt 4
check "nothing is left" nothing_of_ours
check "theirs is as it was" unchanged
check "interrupts are where they were" same "$tmp/irqs" <(irqs)

# Another plan, or none, after a kill in the midst of it.
RFTP_FAULT_ISER=before:SIGKILL:after=9 quietly rftp-iser apply "$tmp/one.json"
check "killed with half of it done" status_is 137
plan one.json one "$(target 1 "$who" "$(tmpfs 1 0 4)")"
RFTP_FAULT_ISER=kept:SIGKILL quietly rftp-iser apply --destroy-data "$tmp/one.json"
check "then another plan, killed too" status_is 137
remove
check "removed" status_is 0
check "of neither is anything left" nothing_of_ours
check "theirs is as it was" unchanged

# Another program makes an object at the place that the killed run's plan would have used.
plan one.json one "$(target 0 "$who" "{\"lun\": 0, \"name\": \"f\", \"kind\": \"file\", \"size\": 1048576, \"path\": \"$tmp/files/f\", \"serial\": \"00000000-0000-4000-8000-000000000077\"}")"
RFTP_FAULT_ISER=kept:SIGKILL quietly rftp-iser apply "$tmp/one.json"
check "killed before its first step" status_is 137
mkdir "$tmp/files"
echo theirs >"$tmp/files/f"
remove one --destroy-data
check "removed" status_is 0
check "what somebody has made meanwhile stays" grep -q theirs "$tmp/files/f"
rm -r "$tmp/files"
check "nothing else is left" nothing_of_ours

# A tmpfs that is bound to a node by now, with a file that keeps to another: it was made while the
# mount said so.
plan one.json one "$(target 0 "$who" "$(tmpfs 0 0 4)")"
RFTP_FAULT_ISER=after:SIGKILL:after=2 quietly rftp-iser apply "$tmp/one.json"
disk=$tmp/iser/node0-disk0
check "killed with its tmpfs mounted" mountpoint -q "$disk"
options=$(awk -v dir="$disk" '$2 == dir { print $4 }' /proc/mounts)
mount -o "remount,${options/bind:0/bind:1}" "$disk"
head -c 1M /dev/urandom >"$disk/disk.img"
mount -o "remount,$options" "$disk"
apply "$tmp/one.json"
check "pages that are elsewhere" grep -q 'disk.img: 4.0 MiB of it are on other nodes than 0' "$tmp/err"
check "are a failure" status_is 1
check "which is taken back" test "$(stat -c %s "$disk/disk.img")" -eq 1048576
remove
check "nothing is left" nothing_of_ours

# On SIGTERM it undoes its own changes.
RFTP_FAULT_ISER=after:SIGTERM:after=6 run rftp-iser apply "$tmp/one.json"
check "told to end" status_is 143
check "it says so" grep -q 'stopped by a signal' "$tmp/err"
check "and takes back what it did" unchanged
check "all of it" nothing_of_ours
finish
