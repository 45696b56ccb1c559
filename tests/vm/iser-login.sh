#!/bin/bash
# rftp-iser login and logout: two targets, each behind a card of its own, over Soft-RoCE; CHAP,
# striping, and data that must not be lost. TAP.

# shellcheck disable=SC2034 # for guest.sh
vm_options="--nodes 2 --nics 2"
. "${top_srcdir:?}/tests/vm/guest.sh"

need iscsiadm iscsid mdadm mkfs.xfs
/usr/bin/python3 -c 'import rtslib_fb' 2>/dev/null || skip_all "rtslib is missing"
rdma_modules || skip_all "the guest's kernel has no RDMA"
modprobe -a target_core_mod iscsi_target_mod ib_isert ib_iser iscsi_tcp raid0 xfs 2>/dev/null ||
	skip_all "the guest's kernel has no iSER"

# libiscsi hands an answer of the target's to iscsid before it is done with the question. Where
# processors are emulated and wait for each other, iscsid's next question often comes in between,
# and is refused ("Login/Text in progress"). CHAP asks most: the test uses it once over iSER, and the
# stripes do without.
echo 0 >/sys/devices/system/cpu/cpu1/online

iqn=iqn.2026-01.org.test:node
host=iqn.2026-01.org.test:ini
export RFTP_ISER_STATE=$tmp/state
limit=120

# ---- the storage host, which is this one, too ----

rdma_self eth0 10.0.0.1
rdma_self eth1 10.0.1.1
ip addr add fd00::1/64 dev eth0 nodad
# An initiator that has never been used.
rm -rf /etc/iscsi/nodes /etc/iscsi/send_targets /etc/iscsi/static /var/lib/iscsi/*
mkdir -p /etc/iscsi /run/lock
echo "InitiatorName=$host" >/etc/iscsi/initiatorname.iscsi
(
	umask 077
	echo topmost-secret-0 >"$tmp/secret"
	echo returned-secret-1 >"$tmp/mutual"
	echo not-that-secret-2 >"$tmp/wrong"
)
cat >"$tmp/target.py" <<'END'
import sys, rtslib_fb as r
iqn, host, secret, mutual = sys.argv[1:]
r.RTSRoot()
for k, addresses in enumerate((["10.0.0.1", "[fd00::1]"], ["10.0.1.1"])):
    store = r.RDMCPStorageObject("disk%d" % k, size=320 << 20,
                                 wwn="4d2f8f2e-0000-4000-8000-00000000000%d" % k)
    tpg = r.TPG(r.Target(r.FabricModule("iscsi"), iqn + str(k)), 1)
    tpg.set_attribute("authentication", 1)
    lun = r.LUN(tpg, 0, store)
    for a in addresses:
        r.NetworkPortal(tpg, a, 3260).iser = a[0] != "["
    acl = r.NodeACL(tpg, host)
    r.MappedLUN(acl, 0, lun)
    acl.chap_userid, acl.chap_password = "front", open(secret).readline().strip()
    acl.chap_mutual_userid, acl.chap_mutual_password = "back", open(mutual).readline().strip()
    tpg.enable = True
END
/usr/bin/python3 "$tmp/target.py" $iqn $host "$tmp/secret" "$tmp/mutual" 2>&1 | comment
chap=", \"chap\": { \"user\": \"front\", \"secret-file\": \"$tmp/secret\" },
	\"mutual-chap\": { \"user\": \"back\", \"secret-file\": \"$tmp/mutual\" }"
target() { # K ADDRESS INITIATOR CHAP SERIAL
	cat <<END
{ "iqn": "$iqn$1", "portals": [{ "address": "$2" }],
  "initiators": [{ "name": "$3"$4 }],
  "luns": [{ "lun": 0, "name": "disk$1", "kind": "ramdisk", "size": 335544320,
             "serial": "$5-0000-4000-8000-00000000000$1" }] }
END
}
plan() { # INITIATOR [CHAP [SERIAL]]
	echo "{ \"rftp-iser-plan\": 1, \"name\": \"two\", \"targets\": ["
	target 0 10.0.0.1 "$1" "${2:-}" 4d2f8f2e
	echo ,
	target 1 10.0.1.1 "$1" "${2:-}" "${3:-4d2f8f2e}"
	echo "] }"
}
plan $host "$chap" >"$tmp/plan"
plan iqn.2026-01.org.test:other "$chap" >"$tmp/plan-other"
plan $host "" >"$tmp/plan-open"
plan $host "" 00000000 >"$tmp/plan-serial"
authentication() { # 0|1
	for k in 0 1; do echo "$1" >/sys/kernel/config/target/iscsi/$iqn$k/tpgt_1/attrib/authentication; done
}

# ---- checks ----

login() { run rftp-iser login "$@"; }
logout() { run rftp-iser logout "$@"; }
sessions() { ls /sys/class/iscsi_session 2>/dev/null | wc -l; }
records() { find /etc/iscsi/nodes /var/lib/iscsi -type f 2>/dev/null | wc -l; }
arrays() { grep -c '^md' /proc/mdstat; }
nothing_stays() { [ "$(sessions) $(records) $(arrays)" = "0 0 0" ]; }
fails() { # TEXT
	status_is 1 && [ "$(grep -vc 'started open-iscsi' "$tmp/err")" = 1 ] && grep -qe "$1" "$tmp/err"
}
has() { grep -qe "$1" "$tmp/out"; }

# ---- CHAP ----

login --transport tcp --user front --secret-file "$tmp/wrong" 10.0.0.1
check "a wrong secret is told in a line" fails "$iqn""0 at 10.0.0.1:3260: CHAP failed"
check "and nothing stays of it" nothing_stays
login --transport tcp --user front --secret-file "$tmp/secret" --mutual-user back --mutual-secret-file "$tmp/wrong" 10.0.1.1
check "a target that proves nothing is not believed" fails "$iqn""1 at 10.0.1.1:3260: .*CHAP failed"
check "and nothing stays of it" nothing_stays
# The target hangs up behind its answer, and RDMA may tell of that first.
login --wait 1 --user front --secret-file "$tmp/wrong" 10.0.0.1
comment <"$tmp/err"
check "nor does a wrong secret get in by iSER" fails "$iqn""0 at 10.0.0.1:3260: "
check "and nothing stays of it" nothing_stays
login --plan "$tmp/plan-other"
check "a plan for another host: both are named" fails "plan-other.*two.*$host"

# ---- by the plan, tuned; no secret can be seen ----

cat "$tmp/secret" "$tmp/mutual" >"$tmp/secrets"
while :; do grep -laf "$tmp/secrets" /proc/[0-9]*/cmdline /proc/[0-9]*/environ; sleep 0.1; done >>"$tmp/seen" 2>/dev/null &
watcher=$!
others+=("$watcher")
bash -c 'sleep 1000; :' "$(cat "$tmp/secret")" &
control=$!
check "a secret in arguments would be seen" patience 10 test -s "$tmp/seen"
kill $control
before=$(carried rxe_eth1)
login --plan "$tmp/plan" --tune
kill $watcher
comment <"$tmp/out"
comment <"$tmp/err"
check "login by the plan" status_is 0 || {
	dmesg | tail -n 20 | comment
	finish
}
check "two sessions" test "$(sessions)" = 2
check "by iSER" test "$(cat /sys/class/iscsi_session/*/device/../scsi_host/*/proc_name | sort -u)" = iscsi_iser
check "which has gone by the other card, too" test "$(($(carried rxe_eth1) - before))" -gt 20
check "secrets were in no arguments and no environment" not grep -v "^/proc/$control/" "$tmp/seen"
check "records are root's alone" test "$(find /etc/iscsi/nodes /var/lib/iscsi/nodes -type f -perm 0600 2>/dev/null | wc -l)" = 2
check "what is kept has no secret" not grep -rqf "$tmp/secrets" "$RFTP_ISER_STATE"
check "portal and transport are shown" has 'portal   10.0.0.1:3260 by iser$'
check "and the card with its node" has 'card     eth1, node 1'
check "and how to mount it there" has 'mount    numactl --cpunodebind=1 mount -o noatime /dev/'
disk=$(sed -n 's,^\(/dev/[^ ]*\).*,\1,p' "$tmp/out" | head -n 1)
queue=/sys/class/block/${disk##*/}
check "tuned" test "$(cat "$queue/queue/read_ahead_kb" "$queue/device/queue_depth" "$queue/queue/rq_affinity" | xargs)" = "4096 64 2"
check "the scheduler" grep -qF '[none]' "$queue/queue/scheduler"
check "old and new are told" has "tuned ${disk##*/}: read_ahead_kb 128 -> 4096"
check "no setting has failed" test ! -s "$tmp/err"
ids=$(echo /sys/class/iscsi_session/*)
login --plan "$tmp/plan" --json
check "once more: no change" test "$status $(echo /sys/class/iscsi_session/*)" = "0 $ids"
check "but the same for programs" python3 -c '
import json, sys
m = json.load(open(sys.argv[1]))
sys.exit([(d["target"][-1], d["transport"], d["new"], d["bytes"], d["nodes"]) for d in m["disks"]] !=
         [("0", "iser", False, 320 << 20, "0"), ("1", "iser", False, 320 << 20, "1")])' "$tmp/out"
login --transport tcp --plan "$tmp/plan"
check "no other transport beside it" fails "over iser and not tcp"
login --plan "$tmp/plan-serial"
check "another disk than the plan's is named" fails "LUN 0 of ${iqn}1 has the serial 4d2f8f2e-.*, and the plan says 00000000-"
check "and sessions that were there stay" test "$(echo /sys/class/iscsi_session/*)" = "$ids"

# ---- a stripe ----

login --plan "$tmp/plan" --stripe md --chunk 64K --mkfs
comment <"$tmp/out"
check "a stripe with a filesystem" status_is 0
stripe=$(sed -n 's,^\(/dev/md[^ ]*\)$,\1,p' "$tmp/out")
check "mounted" mount "$stripe" /mnt
check "which knows the stripe's geometry" eval "xfs_info /mnt | grep -q 'sunit=16 *swidth=32 blks'"
random "$tmp/file" 20000000
before=$(carried rxe_eth1)
cp "$tmp/file" /mnt/file && sync -f /mnt/file
check "written through both cards" has_carried rxe_eth1
logout --all
check "no logout while it is mounted" fails "is mounted on /mnt: umount"
check "all sessions are there" test "$(sessions)" = 2
umount /mnt
# shellcheck disable=SC2217 # to have it open
sleep 1000 <"$stripe" &
others+=($!)
logout --target ${iqn}0
check "nor while a program has it open" fails "is open in sleep (pid $!)"
kill $!
wait $! 2>/dev/null
logout --all
check "logout" status_is 0
check "nothing stays" nothing_stays
logout --all --json
check "once more: nothing to do" test "$status $(cat "$tmp/out")" = '0 {"targets":[],"stripes":[]}'

authentication 0
plan=(--plan "$tmp/plan-open")
modprobe loop
# Another program opens a disk as soon as it appears, as udev may.
{
	until [ -b /dev/sda ]; do sleep 0.05; done
	losetup --find --show /dev/sda >"$tmp/loop"
} &
taking=$!
login "${plan[@]}" --mkfs --stripe md
check "no filesystem over one that is there" grep -q 'holds data (xfs)' "$tmp/err"
wait $taking
check "a disk that somebody has by then is kept" grep -q "not taken back: /dev/sda is part of $(cat "$tmp/loop")" "$tmp/err"
check "the rest of what that run has done is taken back" test "$(sessions) $(records) $(arrays)" = "1 1 0"
logout --all
check "nor does logout take it" fails "/dev/sda is part of $(cat "$tmp/loop")"
losetup -d "$(cat "$tmp/loop")"
logout --all
check "until it is given back" nothing_stays
login "${plan[@]}" --mkfs --keep
check "nor on a disk of the stripe" grep -q 'holds data (linux_raid_member)' "$tmp/err"
check "with --keep the sessions stay" test "$status $(sessions)" = "1 2"
login "${plan[@]}" --stripe md --json
check "the stripe is put together again" grep -q '"path":"[^"]*","new":false' "$tmp/out"
stripe=$(sed -n 's/.*"path":"\(\/dev\/md[^"]*\)".*/\1/p' "$tmp/out")
mount "$stripe" /mnt
check "with its data" cmp /mnt/file "$tmp/file"
theirs=(iscsiadm -m node -T "${iqn}0" -p '[fd00::1]:3260' -I default)
"${theirs[@]}" -o new >"$tmp/theirs" 2>&1
"${theirs[@]}" --login >>"$tmp/theirs" 2>&1
check "somebody else's session with one of the targets" test "$(sessions)" = 3
logout --target ${iqn}0
check "does not hide what is mounted on ours" fails "is mounted on /mnt: umount"
umount /mnt
loop=$(losetup --find --show "$stripe")
logout 10.0.0.1 10.0.1.1
check "nor may a loop device have it" fails "is part of $loop"
losetup -d "$loop"
logout 10.0.0.1 10.0.1.1
check "logout by addresses" status_is 0
check "theirs stays" test "$(sessions) $(records)" = "1 1"
"${theirs[@]}" --logout >>"$tmp/theirs" 2>&1
"${theirs[@]}" -o delete >>"$tmp/theirs" 2>&1
check "nothing else does" nothing_stays

# ---- TCP, and LVM ----

login --transport tcp '[fd00::1]'
comment <"$tmp/out"
check "over TCP to an address of IPv6" has 'portal   \[fd00::1\]:3260 by tcp'
# As a login leaves it that is killed while it writes the record.
record=$(find /etc/iscsi/nodes /var/lib/iscsi -type f 2>/dev/null)
cp -p "$record" "$record.ab12cd"
logout --target ${iqn}0
check "and out, with a record that was half made" nothing_stays
# A signal while iscsid is on its way.
tc qdisc add dev lo root netem delay 200ms
rftp-iser login --transport tcp "${plan[@]}" --target ${iqn}0 >"$tmp/interrupted" 2>&1 &
interrupted=$!
patience 10 pgrep -f 'iscsiadm.*--login' >"$tmp/pid"
kill -TERM $interrupted
tc qdisc del dev lo root
wait $interrupted
comment <"$tmp/interrupted"
check "a login that is interrupted" grep -q 'stopped by a signal' "$tmp/interrupted"
settled() { # by when it would have come
	for _ in {1..8}; do
		nothing_stays || return 1
		sleep 0.1
	done
}
check "leaves nothing that comes later" settled
login --wait 1 '[fd00::1]'
comment <"$tmp/err"
check "a portal without iSER is no TCP in disguise" fails 'does no iSER'
check "and nothing stays" nothing_stays
if command -v lvcreate >/dev/null && modprobe dm-mod 2>/dev/null; then
	lvm=(--transport tcp --stripe lvm 10.0.0.1 10.0.1.1)
	login "${lvm[@]}" --keep
	check "no LVM over md" grep -q 'holds data (linux_raid_member)' "$tmp/err"
	login "${lvm[@]}" --yes --mkfs
	comment <"$tmp/out"
	comment <"$tmp/err"
	check "LVM instead, when told to" status_is 0
	stripe=$(sed -n 's,^\(/dev/rftp[^ ]*\)$,\1,p' "$tmp/out")
	check "mounted" mount "$stripe" /mnt
	logout --all
	check "no logout while it is mounted" fails "is mounted on /mnt: umount"
	umount /mnt
	logout --all
	check "logout" status_is 0
	check "nothing stays" test "$(nothing_stays; echo $?) $(ls /dev/rftp-iser 2>/dev/null)" = "0 "
	login "${lvm[@]}"
	check "and again" mount "$stripe" /mnt
	umount /mnt
	logout --all
	check "out" nothing_stays
else
	skip "LVM" "no lvm2 or no device-mapper here"
fi

# ---- killed while it made a stripe ----

# A login that was killed in the middle: an array with one of its disks, a group without its volume
mkdir "$tmp/cut"
cat >"$tmp/cut/mdadm" <<END
#!/bin/bash
PATH=$PATH
[ "\$1" = --create ] || exec mdadm "\$@"
exec >>"$tmp/cut/log" 2>&1
[ -e "$tmp/cut/whole" ] || kill -KILL \$PPID
mdadm "\$@"
[ ! -e "$tmp/cut/whole" ] || exec kill -KILL \$PPID
mdadm --stop "\$2"
mdadm --zero-superblock "\${@: -1}"
sleep 10
END
printf '#!/bin/sh\nkill -KILL $PPID\n' >"$tmp/cut/lvcreate"
chmod +x "$tmp"/cut/*
killed() { # ARGUMENTS: of a login that does not end
	PATH=$tmp/cut:$PATH run rftp-iser login --transport tcp "$@"
}
let_go() { flock -n "$RFTP_ISER_STATE/initiator/login.lock" true; }
superblocks() { mdadm --examine /dev/sd? 2>/dev/null | grep -c 'Array UUID'; }
killed "${plan[@]}" --stripe md --yes
check "a login that is killed while mdadm is at work" status_is 137
logout --all
check "has another wait for mdadm" fails 'that is gone .* still [a-z ,]*.*mdadm'
check "until that has ended" patience 30 let_go
check "it has left a half" test "$(superblocks)" = 1
login --transport tcp "${plan[@]}" --stripe md
comment <"$tmp/err"
check "which the next one takes down" grep -q 'took down the md stripe rftp-two' "$tmp/err"
check "and makes anew" test "$status $(superblocks)" = "0 2"
logout --all
check "out" nothing_stays
touch "$tmp/cut/whole"
killed "${plan[@]}" --stripe md
check "an array that is there is not made again" test "$status $(superblocks)" = "0 2"
mdadm --stop /dev/md/rftp-two >"$tmp/out" 2>&1
wipefs --quiet --all /dev/sd?
killed "${plan[@]}" --stripe md
check "one that was made whole when login was killed" test "$status $(superblocks) $(arrays)" = "137 2 1"
logout --all
check "is known" test "$status $(nothing_stays; echo $?)" = "0 0"
login --transport tcp "${plan[@]}" --stripe md --json
check "and stays" grep -q '"path":"[^"]*","new":false' "$tmp/out"
logout --all
if command -v lvcreate >/dev/null && modprobe dm-mod 2>/dev/null; then
	killed "${plan[@]}" --stripe lvm --yes
	check "killed while LVM is at work" test "$status $(vgs --noheadings -o vg_name,lv_count 2>/dev/null | xargs)" = "137 rftp-two 0"
	logout --all
	comment <"$tmp/err"
	check "logout takes down the half" grep -q 'took down the lvm stripe rftp-two' "$tmp/err"
	check "and logs out" nothing_stays
	login --transport tcp "${plan[@]}" --mkfs
	check "nothing is left on the disks" status_is 0
	logout --all
else
	skip "LVM" "no lvm2 or no device-mapper here"
fi

# ---- a disk that comes when the session is there already ----

cat >"$tmp/mapped.py" <<'END'
import sys, rtslib_fb as r
iqn, host, on = sys.argv[1:]
tpg = r.TPG(r.Target(r.FabricModule("iscsi"), iqn), 1)
acl = r.NodeACL(tpg, host)
if on == "on":
    r.MappedLUN(acl, 0, r.LUN(tpg, 0))
else:
    for m in list(acl.mapped_luns):
        m.delete()
END
mapped() { /usr/bin/python3 "$tmp/mapped.py" ${iqn}1 $host "$1" 2>&1 | comment; }
authentication 0
mapped off
rftp-iser login --transport tcp "${plan[@]}" --target ${iqn}1 --wait 100 >"$tmp/out" 2>"$tmp/err" &
late=$!
there() { [ "$(sessions)" = 1 ]; }
patience 20 there
sleep 1
check "a target without a disk is waited for" kill -0 $late
mapped on
wait $late
status=$?
comment <"$tmp/err"
check "until it has one" test "$status $(grep -c '^/dev/sd' "$tmp/out")" = "0 1"
logout --all

# ---- after a restart, which leaves only the records of the sessions and our state ----

authentication 0
login --transport tcp 10.0.0.1
iscsiadm -m node -u >"$tmp/out" 2>&1
check "a record without its session" test "$(sessions) $(records)" = "0 1"
cp -p "$tmp/secret" "$tmp/same"
login --transport tcp --user front --secret-file "$tmp/secret" --mutual-user back --mutual-secret-file "$tmp/same" 10.0.0.1
check "a login that does not begin" status_is 1
check "leaves the record, and knows it" test "$(records) $(grep -c ${iqn}0 "$RFTP_ISER_STATE/initiator/login.json")" = "1 1"
logout --all
check "so that logout takes it away" nothing_stays
finish
