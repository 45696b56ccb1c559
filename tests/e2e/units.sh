#!/bin/bash
# The units of systemd: systemd accepts them, they are installed below the prefix, and the programs
# that they start are at their paths; likewise rftpd's users and directories. The guest's tests,
# tests/vm/iser-boot.sh and tests/vm/rftpd-service.sh, run them. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"

# ---- as installed ----

units=$(sed -n 's/^systemdsystemunitdir = //p' "$top_builddir/Makefile")
if [ "$units" = no ]; then
	skip "installed" "configured without"
else
	make_units() { run env -u MAKEFLAGS -u MFLAGS make -s -C "$top_builddir" DESTDIR="$tmp/root" "$@"; }
	make_units install-systemdsystemunitDATA install-sysusersDATA install-tmpfilesDATA
	check "installed below DESTDIR" status_is 0
	find "$tmp/root" -type f | comment
	check "units to serve, to end that at shutdown, and to use" test "$(find "$tmp/root" -path '*/system/rftp-iser*@.service' -type f | wc -l)" -eq 3
	check "rftpd as a service" test "$(find "$tmp/root" -path '*/system/rftpd.s*' -type f | wc -l)" -eq 2
	check "its users" test "$(find "$tmp/root" -path '*/sysusers.d/rftpd.conf' | wc -l)" -eq 1
	check "its directories" test "$(find "$tmp/root" -path '*/tmpfiles.d/rftpd.conf' | wc -l)" -eq 1
	check "with the programs' directory" not grep -r '@bindir@' "$tmp/root"
	make_units uninstall-systemdsystemunitDATA uninstall-sysusersDATA uninstall-tmpfilesDATA
	check "and away again" test "$status" -eq 0 -a -z "$(find "$tmp/root" -type f)"
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
	# In a private namespace no other process would see the tmpfs.
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

# ---- rftpd ----

sed "s,@bindir@,$top_builddir," "$top_srcdir/systemd/rftpd.service.in" >"$tmp/rftpd.service"
cp "$top_srcdir/systemd/rftpd.socket" "$tmp/"
if command -v systemd-analyze >/dev/null; then
	run env SYSTEMD_UNIT_PATH="$tmp:" systemd-analyze verify --man=no "$tmp/rftpd.service" "$tmp/rftpd.socket"
	check "rftpd: systemd understands it" test "$status" -eq 0 -a ! -s "$tmp/err"
	# In tenths; 10 is a service without any of it, 9.6.
	run systemd-analyze security --offline=true --threshold=40 "$tmp/rftpd.service"
	tail -n 1 "$tmp/out" | comment
	check "rftpd: it may do no more than it needs" status_is 0
else
	skip "rftpd: systemd understands it" "no systemd-analyze here"
	skip "rftpd: it may do no more than it needs" "no systemd-analyze here"
fi
has_line() { grep -Eqx -e "$1" "$tmp/rftpd.service"; }
# Without these it would have no network cards, no users' files, or be stopped by one session.
for word in PrivateDevices ProtectHome PrivateTmp PrivateUsers PrivateNetwork DynamicUser User \
	RestrictSUIDSGID; do
	check "rftpd: no $word" not has_line "$word=.*"
done
check "rftpd: files outside of the system's can be written" not has_line 'ProtectSystem=strict'
check "rftpd: memory may be locked" has_line 'LimitMEMLOCK=infinity'
check "rftpd: a session's end is not the service's" has_line 'OOMPolicy=continue'
check "rftpd: sessions end what they are doing" has_line 'KillMode=mixed'
check "rftpd: only the monitor speaks for it" has_line 'NotifyAccess=main'
check "rftpd: settings are checked before a reload" has_line "ExecReload=$top_builddir/rftpd --check-config .*"
mkdir "$tmp/served"
run rftpd --check-config --root "$tmp/served" --anonymous ro --state "$tmp/state"
check "rftpd: as it can" status_is 0
check "rftpd: the socket is on its port" test "$(sed -n 's/^ListenStream=//p' "$tmp/rftpd.socket" | xargs)" = \
	"$(rftpd --show-config --root "$tmp/served" --anonymous ro | sed -n 's/^listen //p' | xargs)"

default() { rftpd --show-config --root "$tmp/served" --anonymous ro | sed -n "s/^$1 //p"; }
users=$(sed -n 's/^u  *\([a-z]*\) .*/\1/p' "$top_srcdir/systemd/sysusers.d/rftpd.conf" | xargs)
check "rftpd: users for its defaults" test "$users" = "$(default user) $(default files-user)"
if is_root && command -v systemd-sysusers >/dev/null && command -v systemd-tmpfiles >/dev/null; then
	mkdir -p "$tmp/host/etc"
	run systemd-sysusers --root="$tmp/host" "$top_srcdir/systemd/sysusers.d/rftpd.conf"
	check "rftpd: systemd makes the users" test "$(grep -Ec '^(rftpd|ftp):' "$tmp/host/etc/passwd")" -eq 2
	check "rftpd: who cannot log in elsewhere" test "$(grep -E '^(rftpd|ftp):' "$tmp/host/etc/passwd" | grep -c 'nologin$')" -eq 2
	echo 'root:x:0:0::/root:/bin/sh' >>"$tmp/host/etc/passwd"
	echo 'root:x:0:' >>"$tmp/host/etc/group"
	run systemd-tmpfiles --create --root="$tmp/host" "$top_srcdir/systemd/tmpfiles.d/rftpd.conf"
	check "rftpd: and the directories" test "$(cd "$tmp/host/var/lib" && stat -c %u:%a rftpd rftpd/empty | xargs)" = "0:700 0:555"
else
	skip "rftpd: systemd makes the users" "no root here, or no systemd"
fi

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
