#!/bin/bash
# shellcheck disable=SC2317 # lib.sh calls them
# The manual's advice on tuning: that its commands are commands, that those which any machine
# can carry out print something, and that the others are understood where they are installed.
# TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"

page=$top_srcdir/man/rftp-tuning.7

# text: print the page as it is shown
text() { sed 's/\\&//g; s/\\e/\\/g' "$page"; }
# lines MARK: the commands that follow this prompt
lines() { text | sed -n "s/^\.Dl $1 //p"; }

lines '\$' >"$tmp/checks"
lines '#' >"$tmp/changes"
check "there are commands that check" test -s "$tmp/checks"
check "and commands that change" test -s "$tmp/changes"
check "each part has a command that checks it" test -z "$(text |
	awk '/^\.Sh / { if (part != "" && part !~ /NAME$/ && !n) print part; part = $0; n = 0 } /^\.Dl \$ / { n++ }')"
if command -v mandoc >/dev/null; then
	mandoc -T ascii -O width=200 "$page" | sed -n 's/^ *\$ //p' >"$tmp/shown"
	check "they are shown as they are written" diff "$tmp/checks" "$tmp/shown"
else
	skip "they are shown as they are written" "there is no mandoc here"
fi
check "all are the shell's language" bash -n "$tmp/checks"
check "so are those that change" bash -n "$tmp/changes"

# ---- this machine's names in place of the manual's ----

a_disk=$(compgen -G '/sys/block/*/queue/scheduler' | cut -d / -f 4 | head -n 1)
an_irq=$(find /proc/irq -mindepth 1 -maxdepth 1 -name '[1-9]*' -printf '%f\n' | head -n 1)
mkdir "$tmp/root"
start_server d --root "$tmp/root" --anonymous rw
run rftp ls --accept-new "$url/"
check "a server" status_is 0

# here COMMAND: the same for this machine, not longer than it must be, and nothing of it goes
# anywhere else
here() {
	sed "s|rftp://dtn2|$url|; s|dtn2|127.0.0.1|; s|ens1f0|lo|g; s|node1/|node0/|g
		s|nvme0n1|${a_disk:-none}|g; s|/irq/96|/irq/${an_irq:-0}|; s|/data|$tmp|g
		s|--time 10|--time 1|; /--time/!s|rftp bench|& --time 1|" <<<"$1"
}

# ---- commands for any machine ----

# needs FILE: a file that exists only in kernels with the feature
needs() {
	[ "$1" = - ] || compgen -G "$1" >/dev/null
}

# works COMMAND: it is in the manual, and prints something
works() {
	grep -qxF -- "$1" "$tmp/checks" || {
		echo "# not in the manual"
		return 1
	}
	run bash -c "$(here "$1")"
	[ "$status" -eq 0 ] && [ -s "$tmp/out" ]
}

# One per line: the required file, the program, the command.
while read -r file program command; do
	if ! command -v "$program" >/dev/null; then
		skip "$command" "there is no $program here"
	elif ! needs "$file"; then
		skip "$command" "there is no $file here"
	else
		check "$command" works "$command"
	fi
	echo "$command" >>"$tmp/done"
done <<'END'
- rftp rftp bench --both --time 10 rftp://dtn2
- rftp rftp bench -v rftp://dtn2
- rftp-numa rftp-numa topo
/proc/irq/[1-9]* cat cat /proc/irq/96/effective_affinity_list
- bash ulimit -H -l
- pgrep grep locked /proc/$(pgrep -ox rftpd)/limits
/sys/devices/system/node/node0/hugepages cat cat /sys/devices/system/node/node1/hugepages/*-2048kB/free*
/sys/kernel/mm/transparent_hugepage cat cat /sys/kernel/mm/transparent_hugepage/enabled
/proc/sys/kernel/numa_balancing sysctl sysctl kernel.numa_balancing
/sys/devices/system/node/node0 sysctl sysctl vm.zone_reclaim_mode
/sys/devices/system/cpu/cpu0/cpufreq cat cat /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor
/sys/devices/system/cpu/cpu0/cpuidle grep grep . /sys/devices/system/cpu/cpu0/cpuidle/*/{latency,disable}
- ip ip link show dev ens1f0
- sysctl sysctl net.ipv4.tcp_rmem net.ipv4.tcp_wmem
- grep grep . /proc/sys/net/ipv4/tcp_*congestion_control
- tc tc qdisc show dev ens1f0
- ss ss -tin dst dtn2
- cat cat /proc/cmdline
- findmnt findmnt -no FSTYPE,OPTIONS --target /data
/sys/block/*/queue/scheduler cat cat /sys/block/nvme0n1/queue/scheduler
/sys/block/*/queue/scheduler cat cat /sys/block/nvme0n1/queue/read_ahead_kb
END

# ---- commands that need a card, or an optional program ----

# understood COMMAND: it may fail, but not because that program has no such option. Of a
# pipeline it is the first command.
understood() {
	local command
	command=$(here "$1")
	limit=5 run bash -c "${command%%|*}"
	[[ $1 != rftp* ]] || [ "$status" -ne 2 ] || return 1
	! grep -Eiq '^usage|unknown option|is unknown|unrecognized|invalid option|bad command' \
		"$tmp/out" "$tmp/err"
}

# check_options COMMAND: of rftp-numa. Its measurements take long: --help behind the options checks
# them without measuring
check_options() {
	run bash -c "$1 --help"
	check "understood: $1" status_is 0
}

grep -vxFf "$tmp/done" "$tmp/checks" >"$tmp/rest"
check "there are others" test -s "$tmp/rest"
while read -r command; do
	if [[ $command == rftp-numa* ]]; then
		check_options "$command"
	elif command -v "${command%% *}" >/dev/null; then
		check "understood: $command" understood "$command"
	else
		skip "understood: $command" "there is no ${command%% *} here"
	fi
done <"$tmp/rest"
while read -r command; do
	[[ $command != rftp-numa* ]] || check_options "$command"
done <"$tmp/changes"

# ---- the script for irqbalance ----

text | sed -n '\|^#!/bin/sh$|,/^\.Ed$/{/^\.Ed$/!p}' >"$tmp/policy"
run sh "$tmp/policy" /sys/bus/pci/devices/0000:41:00.1 96
check "the card's interrupts are left alone" test "$status" -eq 0 -a "$(cat "$tmp/out")" = ban=true
run sh "$tmp/policy" /sys/bus/pci/devices/0000:42:00.0 97
check "others are not" test "$status" -eq 0 -a ! -s "$tmp/out"
finish
