#!/bin/bash
# The units of rftp-iser, run by systemd: three starts of one host. After each start its targets are
# there again, and so is the disk that it gets from itself as an initiator. The first start ends with
# a shutdown while an initiator, which kept the unit from being stopped, is logged in; the second
# with a power cut. At the second start the initiator is too early, and logs in later by itself. TAP.

if [ -z "${RFTP_GUEST:-}" ]; then
	stage=$(mktemp -d "${TMPDIR:-/tmp}/rftp-iser-boot.XXXXXX") || exit 99
	trap 'rm -rf "$stage"' EXIT
	PATH=$PATH:/usr/sbin:/sbin
	truncate -s 256M "$stage/disk" && mkfs.ext4 -q -L srv "$stage/disk" &&
		truncate -s 64M "$stage/late" && mkfs.ext4 -q -L scratch "$stage/late" &&
		env -u MAKEFLAGS -u MFLAGS make -s -C "${top_builddir:?}" DESTDIR="$stage/root" \
			install >"$stage/log" 2>&1 || { cat "$stage/log" >&2; exit 99; }
	# One processor: CHAP over iSER is a race where several are emulated, see tests/vm/iser-login.sh.
	# shellcheck disable=SC2034 # for guest.sh
	vm_options="--systemd --cpus 1 --nics 1 --topology self --disk $stage/disk --disk $stage/late --env stage=/host$stage"
fi
# shellcheck disable=SC2034 # for guest.sh
vm_boots=3
. "${top_srcdir:?}/tests/vm/guest.sh"

need iscsiadm iscsid numactl udevadm mkfs.ext4
/usr/bin/python3 -c 'import rtslib_fb' 2>/dev/null || skip_all "rtslib is missing"
PATH=${PATH#*:} # the installed ones
# shellcheck disable=SC2034 # for lib.sh
limit=120
me=iqn.2026-01.org.example:me
plan=/etc/rftp-iser/store.json
unit=rftp-iser@store.service
early=/etc/rftp-iser/store.login
group=/sys/kernel/config/target/iscsi/iqn.2026-01.org.example:store-node0/tpgt_1
memory=$(echo /run/rftp-iser/*/disk.img)
# A name that systemctl shows in quotes.
far='far\x2doff.mount'

has() { grep -q -e "$1" "$tmp/out"; }
told() { grep -q -e "$1" "$tmp/err"; }
said() { journalctl --no-pager -o cat "$@" >"$tmp/said"; }
has_said() { grep -q -e "$1" "$tmp/said" || { tail -n 12 "$tmp/said" | comment; false; }; }
active() { systemctl -q is-active "$1" || { systemctl --no-pager -l status "$1" | comment; false; }; }
served() { [ "$(cat $group/enable $group/np/10.0.0.1:3260/iser 2>/dev/null | xargs)" = "1 1" ]; }
substate() { systemctl show --value -p SubState "$1"; }
# drop_in UNIT LINE...: in its section [Service]
drop_in() {
	mkdir -p "/etc/systemd/system/$1.d"
	printf '%s\n' '[Service]' "${@:2}" >"/etc/systemd/system/$1.d/test.conf"
}
# login_comes Before|After: the unit of the login is ordered so relative to the unit of the targets
login_comes() {
	cat >/etc/systemd/system/rftp-iser-login@store.service.d/test.conf <<-END
		[Unit]
		$1=$unit rtslib-fb-targetctl.service
		[Service]
		Environment="LOGIN=--tune --wait 120"
		RestartSec=5
	END
}
sessions() { ls /sys/class/iscsi_session 2>/dev/null | wc -l; }
# After such a failure the later checks would only repeat it.
or_end() { "$@" || finish; }
right() { run rftp-iser verify store && { [ "$status" -eq 0 ] || { grep WRONG "$tmp/out" | comment; false; }; }; }

# ---- the first start: all is made ----

if [ "$VM_BOOT" = 1 ]; then
	cp -a "$stage/root/." /
	mkdir -p /srv /scratch /far-off /aside
	echo 'LABEL=srv /srv ext4 defaults 0 0' >>/etc/fstab
	echo 'LABEL=scratch /scratch ext4 nofail,x-systemd.before=rtslib-fb-targetctl.service 0 0' >>/etc/fstab
	echo "InitiatorName=$me" >/etc/iscsi/initiatorname.iscsi
	systemctl daemon-reload
	check "the unit is found where make install puts it" systemctl -q cat $unit
	check "disks for files" systemctl start srv.mount scratch.mount
	run rftp-iser plan --name store --iqn iqn.2026-01.org.example --node 0 --tmpfs 16M \
		--file /srv/disk.img:64M --write back --initiator $me --chap generate --out $plan
	or_end check "a plan with memory and a file" status_is 0
	run systemctl enable --now $unit
	check "enabled, and started" status_is 0
	or_end check "active" active $unit
	check "it serves by iSER" served
	check "all is as planned" right
	memory=$(echo /run/rftp-iser/*/disk.img)
	check "the host sees the tmpfs" test -s "$memory"
	echo remembered | dd of="$memory" conv=notrunc status=none

	sed 's/10.0.0.1/10.0.0.2/' $plan >/etc/rftp-iser/other.json
	run systemctl start rftp-iser@other
	said -u rftp-iser@other
	check "a unit of another name than the plan's fails" status_is 1
	check "and says why" has_said 'the plan is called store, not other'
	check "and is not tried again" test "$(substate rftp-iser@other)" = failed
	rm /etc/rftp-iser/other.json

	/usr/bin/python3 -c 'import json, sys
p = json.load(open(sys.argv[1]))
p["targets"][0]["luns"].append({"lun": 9, "name": "ram", "kind": "ramdisk", "size": 1 << 20,
	"serial": "00000000-0000-4000-8000-000000000001"})
json.dump(p, open(sys.argv[1], "w"))' $plan
	run rftp-iser plan --name more --iqn iqn.2026-01.org.example --node 0 --ramdisk 1M \
		--file /scratch/disk.img:4M --open --portal 0=10.0.0.1:3261 --out /etc/rftp-iser/more.json
	sed -i 's/10.0.0.1/10.0.0.7/' /etc/rftp-iser/more.json
	drop_in rftp-iser@more.service RestartSec=5
	printf '%s\n' '[Unit]' RequiresMountsFor=/scratch >/etc/systemd/system/rftp-iser@more.service.d/scratch.conf
	run systemctl enable --now rftp-iser@more
	check "another plan, whose address is not there yet" test "$status" -eq 1 -a "$(substate rftp-iser@more)" = auto-restart
	ip address add 10.0.0.7/24 dev eth0
	check "is up once that is" patience 10 systemctl -q is-active rftp-iser@more
	drop_in rftp-iser@more.service "ExecStartPre=-ip address add 10.0.0.7/24 dev eth0"
	run systemctl reload $unit
	check "reloaded with a LUN more" test "$status" -eq 0 -a -e $group/lun/lun_9
	check "what memory held is there" grep -q remembered "$memory"

	drop_in $unit "ExecStartPre=-/bin/sh -c \"$(command -v rftp-iser) status store >/run/before; rm -f $early\""
	mkdir -p /etc/systemd/system/rftp-iser-login@store.service.d
	login_comes After
	run systemctl enable --now rftp-iser-login@store
	check "the initiator's unit" status_is 0
	said -u rftp-iser-login@store
	comment <"$tmp/said"
	or_end check "logs in" active rftp-iser-login@store
	disk=$(awk '/^\/dev/ { at = $1 } /^ *disk +64/ { print at }' "$tmp/said")
	run mkfs.ext4 -q -L far "$disk"
	check "a filesystem on the file's LUN" status_is 0
	requires=x-systemd.requires=rftp-iser-login@store.service
	echo "LABEL=far /far-off ext4 _netdev,nofail,$requires 0 0" >>/etc/fstab
	echo "LABEL=far /aside ext4 _netdev,noauto,$requires 0 0" >>/etc/fstab
	systemctl daemon-reload
	check "mounted" systemctl start "$far"
	echo kept >/far-off/first
	systemctl stop "$far"
	# A oneshot service is not active after its run, as a service that was stopped.
	printf '%s\n' '[Service]' Type=oneshot 'ExecStart=/bin/sh -c "echo >>/run/counted"' >/etc/systemd/system/count.service
	mkdir -p /etc/systemd/system/remote-fs.target.wants
	ln -s ../count.service /etc/systemd/system/remote-fs.target.wants/

	systemctl stop $unit
	said -u $unit
	check "while somebody is logged in it is not stopped" served
	check "which is said" has_said "$me is logged in"
	check "and what to do" has_said "store: what is there of it is served on .* systemctl start rftp-iser@store "
	run systemctl start $unit
	check "started again, nothing changes" grep -q remembered "$memory"
	# By targetcli, say: it has the target, too, and a directory in /run that will not be there.
	mkdir -p /etc/rtslib-fb-target
	targetctl save >"$tmp/out" 2>&1
	check "the distribution saves it, too" grep -q store-node0 /etc/rtslib-fb-target/saveconfig.json
	ln -sf /lib/systemd/system/rtslib-fb-targetctl.service /etc/systemd/system/multi-user.target.wants/
	run rftp-iser plan --name old --iqn iqn.2026-01.org.example --node 0 --ramdisk 1M --open \
		--portal 0=10.0.0.1:3262 --out /etc/rftp-iser/old.json
	# Started before there was the unit for the shutdown.
	grep -v rftp-iser-shutdown "$(systemctl show --value -p FragmentPath rftp-iser@old)" >/etc/systemd/system/rftp-iser@old.service
	run systemctl start rftp-iser@old
	rm /etc/systemd/system/rftp-iser@old.service
	systemctl daemon-reload
	check "a plan that an older unit has begun" test "$status" -eq 0 -a "$(systemctl is-active rftp-iser@old rftp-iser-shutdown@old | xargs)" = "active inactive"
	# So that nothing is left to be flushed through a session that is ended at the other side.
	for one in /sys/class/iscsi_session/*/device/target*/*/delete; do echo 1 >"$one"; done
	# Until then: an initiator that is not shut down first.
	mkdir -p /run/systemd/system/rftp-iser-login@store.service.d
	printf '[Service]\nExecStop=\n' >/run/systemd/system/rftp-iser-login@store.service.d/stay.conf
	systemctl daemon-reload
	check "somebody is logged in at the end" test "$(sessions)" -eq 1
	systemctl stop $unit
	check "once more it is not stopped, which the unit takes for failed" test "$(substate $unit)" = failed
	check "and all is served on" served
	# Until then, for iscsid tries for three times as long.
	login_comes Before
	echo 'LOGIN="--tune --wait 2"' >$early
	finish
fi

# ---- the second and the third: it is there again ----

said -u $unit -b
comment <"$tmp/said"
or_end check "up by itself" active $unit
check "it serves by iSER" served
check "all is as planned" right
check "another plan is up, too, though both began at the same time" active rftp-iser@more
check "memory is there" test -s "$memory"
check "what it held is gone" not grep -q remembered "$memory"
check "which it has said" has_said 'node0-disk0: its data is gone'
check "and so had status" grep -q 'before this host was restarted: the data of tmpfs and ramdisks is gone' /run/before
patience 120 systemctl -q is-active rftp-iser-login@store
check "the initiator has logged in" active rftp-iser-login@store
check "and its disk is mounted" patience 10 systemctl -q is-active "$far"
check "with what was written" grep -q kept /far-off/first
check "but not what is not mounted by itself" not systemctl -q is-active aside.mount
check "nor is anything else started once more" test "$(wc -l </run/counted)" -eq 1

if [ "$VM_BOOT" = 2 ]; then
	said -u rtslib-fb-targetctl -b
	comment <"$tmp/said"
	rm /etc/systemd/system/multi-user.target.wants/rtslib-fb-targetctl.service
	said -u rftp-iser-shutdown@store -b -1
	comment <"$tmp/said"
	check "the initiator has not kept the host from shutting down" has_said '^store is removed'
	said -u rftp-iser@more -b -1
	check "the other plan has gone, too" has_said '^more is removed, in'
	said -u rftp-iser-shutdown@more -b -1
	check "so that nothing was left to do later" has_said '^more is removed; nothing of it was there any more'
	check "which is no failure" has_said 'Deactivated successfully'
	said -u scratch.mount -b -1
	check "before its file's filesystem was unmounted" has_said '^Unmounted scratch.mount'
	said -u rftp-iser@old -b -1
	check "and what the older unit had begun" has_said '^old is removed, in'
	check "the file's disk was unmounted" test -z "$(journalctl -q -b -1 -u srv.mount -p err --no-pager)"
	said -u rftp-iser-login@store -u "$far" -b
	comment <"$tmp/said"
	check "the initiator has tried before there was a target" has_said '^Failed to start rftp-iser-login@store'
	check "and the mount has waited for it" has_said '^Dependency failed for far.*mount'
	login_comes After
	echo remembered | dd of="$memory" conv=notrunc status=none
	sync
	echo kept >/far-off/second
	sync -f /far-off/second
	cut_power
	finish
fi

check "what the initiator had flushed was kept" grep -q kept /far-off/second
run systemctl stop rftp-iser-login@store
check "unmounted, and logged out" test "$(sessions)" -eq 0
run systemctl start rftp-iser-login@store
check "logged in by hand" status_is 0
check "it is mounted again" patience 10 systemctl -q is-active "$far"
check "and nothing else" test "$(systemctl is-active aside.mount)" = inactive -a "$(wc -l </run/counted)" -eq 1
run systemctl stop "$far" rftp-iser-login@store
check "unmounted, and logged out once more" test "$(sessions)" -eq 0
run systemctl stop $unit
check "stopped" test "$status" -eq 0 -a "$(systemctl is-active $unit)" = inactive
check "no target is left" test ! -e $group
check "nor a mount" not grep -q /run/rftp-iser /proc/mounts
check "nor a plan" test "$(rftp-iser status store 2>&1 >/dev/null | wc -l)" -eq 1
check "the file is there" test -s /srv/disk.img
finish
