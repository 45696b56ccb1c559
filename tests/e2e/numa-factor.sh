#!/bin/bash
# rftp-numa factor where it cannot be measured: it says so, and why. TAP.
#
# With counters of coherency traffic and several nodes there is nothing to see here; on two nodes
# tests/vm/numa-affinity.sh counts something else in their place.

. "${top_srcdir:?}/tests/e2e/lib.sh"
skip_with_sanitizers
need python3

factor() { run rftp-numa factor "$@"; }
is() {
	python3 -c 'import json, sys
m = json.load(open(sys.argv[1]))
sys.exit(not eval(sys.argv[2]))' "$tmp/out" "$1"
}
# one_line TEXT (grep -E): on standard error, of rftp-numa's
one_line() { [ "$(wc -l <"$tmp/err")" -eq 1 ] && grep -Eq "^rftp-numa: .*$1" "$tmp/err"; }
failed() { [ "$status" -eq 1 ] && [ ! -s "$tmp/out" ] && one_line "$1"; }

# Machines of one node and of two, with other counting units than this one.
for name in one two; do
	"$lib/make-sysfs" "$top_srcdir/tests/unit/sysfs/$name" "$tmp/$name"
done

export RFTP_SYSFS=$tmp/one
factor
check "one node" failed 'not measurable here: there is one NUMA node, so that no memory is remote'
factor --json
check "one node, for programs: still a failure" test "$status" -eq 1
check "that it is not, and why" is 'm["measurable"] is False and "one NUMA node" in m["reasons"][0]'
check "what is missing, each with its reason" is 'all(set(x) == {"event", "why"} and x["event"] and x["why"] for x in m["missing"]) and "snoops" in [x["event"] for x in m["missing"]]'
check "and a word for people" one_line 'not measurable here'

# This machine.
unset RFTP_SYSFS
factor --json --size 1M --runs 1
if [ "$status" -eq 0 ]; then
	skip "no counters" "this machine has them"
else
	cp "$tmp/out" "$tmp/why"
	factor
	check "this machine" failed 'not measurable here: '
	while read -r event; do
		check "$event is named" grep -q -- "$event" "$tmp/err"
	done < <(python3 -c 'import json, sys
for x in json.load(open(sys.argv[1]))["missing"]: print(x["event"])' "$tmp/why")
fi

# An event named by the user, on nodes that do not exist. It counts no snoops, but any x86 kernel
# counts it for privileged users.
msr=/sys/bus/event_source/devices/msr
if [ -r "$msr/events/tsc" ] && is_root && [ ! -d /sys/devices/system/node/node1 ]; then
	copy=$tmp/two/bus/event_source/devices/msr
	mkdir -p "$copy/events" "$copy/format"
	for file in type events/tsc format/event; do
		cat "$msr/$file" >"$copy/$file"
	done
	export RFTP_SYSFS=$tmp/two
	factor --snoop-event msr/tsc/ --size 1M --runs 1
	check "memory that we may not have" failed 'not measurable here: only one node has CPUs and memory that this process may use$'
	if [ "${#as_other[@]}" -gt 0 ] && [ "$(cat /proc/sys/kernel/perf_event_paranoid)" -ge 1 ]; then
		run "${as_other[@]}" "$(command -v rftp-numa)" factor --snoop-event msr/tsc/
		check "what is not allowed" failed 'nothing counts coherency traffic .msr/tsc/: not allowed .kernel.perf_event_paranoid is [0-9]'
	fi
	unset RFTP_SYSFS
else
	skip "an event of one's own" "no msr/tsc/, not root, or several nodes"
fi
factor --snoop-event none/event=1/
check "no such PMU" failed 'there is no PMU none'
factor --snoop-event nonsense
check "no event" failed '"nonsense" is not an event'
factor --json --snoop-event nonsense
check "nor with --json" failed '"nonsense" is not an event'

for wrong in more --nonsense "--runs 0" "--runs 101" "--size 1K" "--link-width" "--link-width 0" \
	"--link-width wide"; do
	# shellcheck disable=SC2086 # words
	factor $wrong
	check "misused: \"$wrong\"" test "$status" -eq 2 -a "$(wc -l <"$tmp/err")" -eq 1 -a ! -s "$tmp/out"
done
factor --help
check "help" test "$status" -eq 0 -a "$(grep -c -e '--link-width RATE' "$tmp/out")" -eq 1
if [ -w /dev/full ]; then
	run sh -c "RFTP_SYSFS=$tmp/one rftp-numa factor --json >/dev/full"
	check "output that cannot be written" test "$status" -eq 1 -a "$(grep -c 'No space' "$tmp/err")" -eq 1
fi
finish
