#!/bin/bash
# The units of systemd: it understands them, they are installed below the prefix, and what they call
# is where they say. What they do is for the guest's test, tests/vm/iser-boot.sh. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"

# ---- as installed ----

units=$(sed -n 's/^systemdsystemunitdir = //p' "$top_builddir/Makefile")
if [ "$units" = no ]; then
	skip "installed" "configured without"
else
	run env -u MAKEFLAGS -u MFLAGS make -s -C "$top_builddir" DESTDIR="$tmp/root" \
		install-systemdsystemunitDATA
	check "installed below DESTDIR" status_is 0
	find "$tmp/root" -type f | comment
	check "units to serve, to end that at shutdown, and to use" test "$(find "$tmp/root" -path '*/system/rftp-iser*@.service' -type f | wc -l)" -eq 3
	check "with the programs' directory" not grep -r '@bindir@' "$tmp/root"
fi

# ---- as understood ----

for unit in rftp-iser rftp-iser-shutdown rftp-iser-login; do
	sed "s,@bindir@,$top_builddir," "$top_srcdir/systemd/$unit@.service.in" >"$tmp/$unit@store.service"
done
for unit in rftp-iser:3 rftp-iser-shutdown:1 rftp-iser-login:2; do
	calls=${unit#*:}
	unit=${unit%:*}
	if command -v systemd-analyze >/dev/null; then
		run env SYSTEMD_UNIT_PATH="$tmp:" systemd-analyze verify --man=no "$tmp/$unit@store.service"
		check "$unit: systemd understands it" test "$status" -eq 0 -a ! -s "$tmp/err"
	else
		skip "$unit: systemd understands it" "no systemd-analyze here"
	fi
	# The tmpfs would be seen by nobody else.
	check "$unit: its mounts are the host's" not grep -Eq '^(Private(Tmp|Devices|Mounts|IPC)|Protect|ReadOnly|ReadWrite|Inaccessible|Bind|TemporaryFile|Mount|Root|Dynamic)' "$tmp/$unit@store.service"
	grep -Eo "$top_builddir/rftp-iser [a-z]+( --[a-z-]+( [0-9]+)?)*" "$tmp/$unit@store.service" | sort -u >"$tmp/calls"
	check "$unit: calls rftp-iser" test "$(wc -l <"$tmp/calls")" -eq "$calls"
	check "$unit: which waits for another" not grep -qv -e ' --lock-wait [1-9]' "$tmp/calls"
	while read -r _ command options; do
		run rftp-iser "$command" --help
		check "$unit: rftp-iser $command" status_is 0
		for option in ${options//[0-9]/}; do
			check "$unit: rftp-iser $command $option" grep -q -e " $option " "$tmp/out"
		done
	done <"$tmp/calls"
done

# ---- the plan's name is the unit's ----

echo '{"rftp-iser-plan": 1, "name": "one", "targets": [
	{"iqn": "iqn.2026-01.org.example:disk", "open": true,
	"portals": [{"address": "127.0.0.1", "iser": false}], "luns": [{"name": "ram",
	"kind": "ramdisk", "size": 1048576, "serial": "00000000-0000-4000-8000-000000000001"}]}]}' >"$tmp/two.json"
if may_be_root; then
	run "${as_root[@]}" rftp-iser apply --name two --state "$tmp/state" "$tmp/two.json"
	check "a plan of another name is refused" status_is 2
	check "in one line" test "$(grep -c 'two.json: the plan is called one, not two' "$tmp/err")" -eq "$(wc -l <"$tmp/err")"
	check "and nothing is kept" test ! -e "$tmp/state"
else
	skip "a plan of another name is refused" "nobody here is root"
fi
finish
