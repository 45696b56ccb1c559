#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# LIO changed item by item, as rftp-iser's apply does, on a real kernel: back stores of each kind with
# their memory on the node, targets, portals with iSER, secrets. After a change that fails, its
# items are as they were before. Also the items that host.py reads from it. TAP.

# shellcheck disable=SC2034 # for guest.sh
vm_options="--nodes 2 --nics 1"
. "${top_srcdir:?}/tests/vm/guest.sh"

need numactl losetup mkfs.ext4 iscsiadm targetctl /usr/bin/python3
items=$top_srcdir/tests/support/iser-items
/usr/bin/python3 -c 'import rtslib_fb' 2>/dev/null || skip_all "no rtslib"
rdma_topology self 0 0 || skip_all "the guest's kernel has no RDMA"
modprobe -a target_core_mod target_core_file target_core_iblock iscsi_target_mod ib_isert ib_iser \
	sd_mod loop ext4 || skip_all "the guest's kernel has no LIO"
# CHAP over iSER is a race where several processors are emulated, see tests/vm/iser-login.sh.
echo 0 >/sys/devices/system/cpu/cpu1/online
lio=/sys/kernel/config/target
mountpoint -q /sys/kernel/config || mount -t configfs configfs /sys/kernel/config
mkdir -p $lio/iscsi
I=iqn.2026-01.org.test:node1 C=iqn.2026-01.org.test:ini
tpg=$lio/iscsi/$I/tpgt_1
mkdir -p /run/lock

# ---- asking, and looking ----

PATH=$top_builddir:$PATH
coproc W { exec "$items" 2>"$tmp/items.err"; }
items_pid=$W_PID
others+=("$items_pid")
# ask REQUEST: in $tmp/err the answer. Not in $ran, for it may be a secret.
ask() {
	ran=${1%%,*} status=0
	: >"$tmp/err"
	echo "$1" >&"${W[1]}"
	read -t 120 -r answer <&"${W[0]}" || status=124
	echo "$answer" >"$tmp/err"
}
well() { [ "$status" = 0 ] && [ "$answer" = '{"ok": true}' ]; }
# works NAME REQUEST
works() { ask "$2"; check "$1" well; known=; }

# LIO's configuration without its counters and without attributes that this test does not set. rtslib
# chooses random names for links.
snapshot() {
	{ find $lio -name '*statistics' -prune -o -type l -printf '%h %l\n' -o -printf '%p\n'
	grep -ars --exclude-dir='*statistics' --exclude-dir=alua --exclude-dir=pr --exclude=info '' $lio; } | sort
}
# Is it in $tmp/before? Empty: no.
known=
unchanged() { snapshot | diff "$tmp/before" - | comment >"$tmp/diff"; ! grep . "$tmp/diff"; }
said_no() { [ "$status" = 0 ] && [[ $answer == '{"error": '* ]] && grep -Eqi -e "$1" <<<"$answer"; }
said_no_and_unchanged() { said_no "$1" && unchanged; }
# refused NAME TEXT REQUEST: it fails with TEXT, and LIO is unchanged
refused() {
	[ -n "$known" ] || snapshot >"$tmp/before"
	known=yes
	ask "$3"
	check "refused: $1" said_no_and_unchanged "$2"
}
is() { [ "$(cat "$1")" = "$2" ]; }
# pages FILE: in megabytes on node 0 and on node 1
pages() {
	python3 -c 'import mmap, re, sys
f = open(sys.argv[1], "rb")
m = mmap.mmap(f.fileno(), 0, mmap.MAP_SHARED, mmap.PROT_READ)
sum(m[i] for i in range(0, len(m), 4096))
line = next(l for l in open("/proc/self/numa_maps") if sys.argv[1] in l)
on = dict(re.findall(r" N(\d)=(\d+)", line))
print(*(int(on.get(n, 0)) // 256 for n in "01"))' "$1"
}
pages_are() { [ "$(pages "$1")" = "$2" ]; }
free_of() { sed -n 's/.*MemFree: *\([0-9]*\) kB/\1/p' "/sys/devices/system/node/node$1/meminfo"; }
# like EXPRESSION: a Python expression holds for the items that were read: r has all, one() those of
# this target by kind, without their first two words, and saved has the saved configuration
like() {
	"$items" --read >"$tmp/read" || return
	python3 -c 'import json, sys
r = {tuple(key): value for key, value in json.load(open(sys.argv[1]))}
one = lambda kind: {k[2:]: v for k, v in r.items() if k[:2] == (kind, "'$I'")}
saved = json.load(open(sys.argv[3])) if len(sys.argv) > 3 else None
sys.exit(not eval("(" + sys.argv[2] + ")"))' "$tmp/read" "$@"
}

# ---- a file in a tmpfs ----

node=1 # of new objects
# change [KEY, VALUE]...
change() {
	local IFS=,
	echo "{\"items\": [$*], \"node\": $node}"
}
# store PLUGIN NAME PATH SIZE WRITE_BACK [SERIAL]
store() {
	echo "[[\"store\", \"$1\", \"$2\"], {\"path\": \"$3\", \"size\": $4, \"write_back\": $5," \
		"\"serial\": \"${6:-}\"}]"
}
file() { echo "[[\"file\", \"$1\"], $2]"; }
# with_file NAME PATH SIZE WRITE_BACK [SERIAL]: and its back store
with_file() { change "$(file "$2" "$3")" "$(store fileio "$@")"; }
alone() { change "$(store "$@")"; }
serial=11111111-2222-3333-4444-555555555555
MB=$((1 << 20))
for k in 0 1; do
	mkdir "/ram$k"
	mount -t tmpfs -o "size=24m$([ $k = 1 ] || echo ,mpol=bind:0)" tmpfs "/ram$k"
	mounts+=("/ram$k")
done
node=0
works "fileio, on one node" "$(with_file d0 /ram0/disk.img $((16 * MB)) true $serial)"
check "all pages are on node 0" pages_are /ram0/disk.img "16 0"
node=1
works "fileio, on the other" "$(with_file d1 /ram1/disk.img $((16 * MB)) false)"
check "all pages are on node 1" pages_are /ram1/disk.img "0 16"
check "for nobody else to read" test "$(stat -c %a /ram1/disk.img)" = 600
check "written back" grep -q 'Mode: Buffered-WCE' $lio/core/fileio_0/d0/info
check "and initiators know" is $lio/core/fileio_0/d0/attrib/emulate_write_cache 1
check "written through" grep -q 'Mode: O_DSYNC' $lio/core/fileio_1/d1/info
check "and initiators know" is $lio/core/fileio_1/d1/attrib/emulate_write_cache 0
check "its serial" grep -q $serial $lio/core/fileio_0/d0/wwn/vpd_unit_serial

refused "twice" "exists" "$(with_file d0 /ram1/other.img $MB true)"
check "no file was made" test ! -e /ram1/other.img
refused "more than the tmpfs has" "/ram1/big.img, .*No space left" "$(with_file big /ram1/big.img $((16 * MB)) true)"
check "nothing of the file is left" test "$(ls -A /ram1)" = disk.img
check "nor of its space" test "$(df --output=used -m /ram1 | tail -n 1)" -eq 16
refused "a file that another has" "in use by the back store fileio/d1" "$(alone fileio d2 /ram1/disk.img $((16 * MB)) true)"
random /ram0/kept "$MB"
cp /ram0/kept "$tmp/kept"
refused "a file of another size" "$MB bytes and not $((2 * MB))" "$(alone fileio d2 /ram0/kept $((2 * MB)) true)"
refused "a directory" "not a regular file" "$(alone fileio d2 /ram0 $MB true)"
refused "no directory" "No such file" "$(with_file d2 /nowhere/x $MB true)"
refused "a name that LIO has not" "spaces" "$(with_file 'd 2' /ram1/new $MB true)"
check "the file of one that failed is gone" test ! -e /ram1/new
ln -s /ram0/stranger /ram0/link
refused "a link in its place" "symbolic links" "$(with_file d2 /ram0/link $MB true)"
check "which is not followed" test ! -e /ram0/stranger
rm /ram0/link
works "a file that is there" "$(alone fileio d2 /ram0/kept $MB true)"
check "has what it had" same /ram0/kept "$tmp/kept"
works "a file on no tmpfs" "$(with_file d3 /root/disk.img $MB false)"
check "has its space" test "$(stat -c %b /root/disk.img)" -ge $((MB / 512))

# ---- a device, and memory ----

truncate -s 16M "$tmp/loop"
loop=$(losetup -f --show "$tmp/loop")
refused "a file that a loop device has" "in use by $loop" "$(alone fileio d4 "$tmp/loop" $((16 * MB)) true)"
mkfs.ext4 -q "$loop" && mount -t ext4 "$loop" /mnt
refused "a mounted device" "$loop.* in use" "$(alone iblock b0 "$loop" 0 false)"
umount /mnt
refused "a file for a device" "block device" "$(alone iblock b0 /ram0/kept 0 false)"
works "a device" "$(alone iblock b0 "$loop" 0 false)"
refused "one that another has" "in use" "$(alone iblock b1 "$loop" 0 false)"
check "what is read of it" like 'r["store", "iblock", "b0"]["bytes"] == 16 << 20 and r["store", "iblock", "b0"]["path"] == "'"$loop"'"'

before0=$(free_of 0) before1=$(free_of 1)
works "a ramdisk" "$(alone rd_mcp r0 "" $((64 * MB)) false)"
took0=$((before0 - $(free_of 0))) took1=$((before1 - $(free_of 1)))
echo "# 65536 KiB of ramdisk: node 0 has $took0 KiB less, node 1 $took1"
check "its memory is on its node" test "$took1" -gt 60000 -a "$took0" -lt 30000
node=-1

# ---- a target ----

# q KIND KEY... VALUE: of the target
q() {
	local key="\"$1\", \"$I\"" word
	for word in "${@:2:$#-2}"; do [[ $word =~ ^[0-9]+$ ]] && key+=", $word" || key+=", \"$word\""; done
	change "[[$key], ${*: -1}]"
}
create='{"whole": true, "open": false}'
refused "a name that is no IQN" "not valid" "$(change "[[\"target\", \"nobody\"], $create]")"
refused "a name that rtslib writes otherwise" "is not how LIO writes it" \
	"$(change "[[\"target\", \"iqn.2026-01.org.test:BIG\"], $create]")"
works "a target" "$(q target "$create")"
check "disabled" is "$tpg/enable" 0
check "without a portal" test -z "$(ls "$tpg/np")"
refused "twice" "already exists" "$(q target "$create")"
works "an initiator" "$(q acl $C '{}')"
works "a LUN" "$(q lun 0 '["fileio", "d0"]')"
works "another" "$(q lun 3 '["iblock", "b0"]')"
works "another initiator" "$(q acl ${C}2 '{}')"
check "each has each" like 'sorted(one("mapped")) == [("'$C'", 0), ("'$C'", 3), ("'${C}2'", 0), ("'${C}2'", 3)]'
refused "a LUN twice" "already exists" "$(q lun 0 '["fileio", "d1"]')"
refused "a LUN of nothing" "fileio.*none|none.*exist" "$(q lun 1 '["fileio", "none"]')"
refused "an initiator twice" "already exists" "$(q acl $C '{}')"
refused "an initiator of no name" "not valid" "$(q acl nobody '{}')"
mount -t tmpfs -o ro none "$tpg/acls/${C}2"
known=
refused "a LUN, half of whose mappings fail" "read-only" "$(q lun 5 '["fileio", "d1"]')"
umount "$tpg/acls/${C}2"
known=
refused "a back store that is used" "is LUN 0 of $I" "$(change '[["store", "fileio", "d0"], null]')"
refused "another target's" "iqn.2026-01.org.test:other" \
	"$(change '[["enabled", "iqn.2026-01.org.test:other"], true]')"

# ---- portals ----

works "a portal with iSER" "$(q portal 10.0.0.1 3260 true)"
check "which the kernel has" is "$tpg/np/10.0.0.1:3260/iser" 1
ip addr add fd00::1/64 dev eth0 nodad
works "one of IPv6, without" "$(q portal fd00::1 3261 false)"
refused "twice" "already exists" "$(q portal fd00::1 3261 false)"
refused "iSER on an address that nobody has" "Cannot assign requested address" "$(q portal 10.0.0.9 3260 true)"
refused "iSER on an address without RDMA" "Cannot assign requested address" "$(q portal 127.0.0.1 3260 true)"
works "one gone" "$(q portal fd00::1 3261 null)"
check "and not the other" like 'one("portal") == {("10.0.0.1", 3260): True}'

# ---- secrets ----

printf 'secret-of-initiator' >"$tmp/pattern"
secret=$(cat "$tmp/pattern")
auth() { q auth $C "[\"$1\", \"$2\", \"$3\", \"$4\"]"; }
works "secrets" "$(auth in "$secret" out secret-of-target)"
check "which the kernel has" is "$tpg/acls/$C/auth/password" "$secret"
check "both ways" is "$tpg/acls/$C/auth/password_mutual" secret-of-target
# $$ has it in its memory, and in no argument.
secret_is_nowhere() { ! grep -alF -f "$tmp/pattern" /proc/[0-9]*/cmdline /proc/[0-9]*/environ "$tmp/items.err"; }
check "in nobody's arguments or environment" secret_is_nowhere
# Attributes that can be read and not written
known=
mount --bind /proc/version "$tpg/acls/$C/auth/password_mutual"
refused "secrets, half of which fail" "error|denied|not permitted|invalid" "$(auth new new-secret-12 new2 new-secret-34)"
check "without a word of them" not grep -q new-secret "$tmp/err"
umount "$tpg/acls/$C/auth/password_mutual"
known=
works "no secrets" "$(auth "" "" "" "")"
check "none are there" like 'set(map(tuple, one("auth").values())) == {("", "", "", "")}'
works "and again" "$(auth in "$secret" out secret-of-target)"

# ---- attributes ----

works "a target's attribute" "$(q target-attribute authentication 1)"
check "is set" is "$tpg/attrib/authentication" 1
refused "one that there is not" "no attribute nosuch" "$(q target-attribute nosuch 1)"
refused "a value that there is not" "Invalid argument" "$(q target-attribute authentication 7)"
works "a back store's" "$(change '[["store-attribute", "fileio", "d0", "emulate_tpu"], 1]')"
refused "one that a used one keeps" "Invalid argument" "$(change '[["store-attribute", "fileio", "d0", "block_size"], 4096]')"
works "enabled" "$(q enabled true)"
check "is so" is "$tpg/enable" 1
if [ -e $lio/iscsi/cpus_allowed_list ]; then
	works "CPUs" "$(change '[["cpus"], "1"]')"
	check "are so" is $lio/iscsi/cpus_allowed_list 1
	refused "no list of CPUs" "Invalid argument" "$(change '[["cpus"], "one"]')"
	ask "$(change '[["cpus"], "0"]')" # the other one is off
else
	refused "no CPUs in this kernel" "cpus_allowed_list" "$(change '[["cpus"], "1"]')"
fi

# ---- an initiator ----

echo "InitiatorName=$C" >/etc/iscsi/initiatorname.iscsi
# In a group of its own: it ends all of its group with itself.
setsid iscsid -f >"$tmp/iscsid.log" 2>&1 &
others+=($!)
node() { iscsiadm -m node -T $I -p 10.0.0.1:3260 "$@"; }
patience 10 iscsiadm -m node -T $I -p 10.0.0.1:3260 -I iser -o new >/dev/null 2>&1
for pair in authmethod=CHAP username=in "password=$secret" username_in=out password_in=secret-of-target; do
	node -o update -n "node.session.auth.${pair%%=*}" -v "${pair#*=}"
done
# The emulated machine may be slow.
node -o update -n 'node.conn[0].timeo.login_timeout' -v 60
run iscsiadm -m node -T $I -p 10.0.0.1:3260 --login
check "logs in with its secret, over iSER" status_is 0
check "its session is seen" like '[(a["logged_in"], "LOGGED_IN" in a["session"])
	for _, a in sorted(one("acl").items())] == [(True, True), (False, False)]'

# ---- saved ----

save() { echo "{\"save\": \"$1\", \"targets\": [\"$I\"], \"stores\": [$2]}"; }
two='["fileio", "d0"], ["iblock", "b0"]'
mkdir -m 700 "$tmp/saved"
works "saved" "$(save "$tmp/saved/lio.json" "$two")"
check "for nobody else to read" test "$(stat -c %a "$tmp/saved/lio.json")" = 600
check "nothing beside it" test "$(ls -A "$tmp/saved")" = lio.json
check "what is in it is what is read" like '
	{s["name"]: (s["dev"], s["wwn"]) for s in saved["storage_objects"]} ==
		{k[2]: (s["path"], s["serial"]) for k, s in r.items() if k[0] == "store" and k[2] in ("d0", "b0")}
	and [x["wwn"] for x in saved["targets"]] == ["'$I'"]
	and {(p["ip_address"], p["port"]): p["iser"] for p in saved["targets"][0]["tpgs"][0]["portals"]} ==
		one("portal") == {("10.0.0.1", 3260): True}
	and {(x["index"],): x["storage_object"].split("/")[-1] for x in saved["targets"][0]["tpgs"][0]["luns"]} ==
		{lun: store[1] for lun, store in one("lun").items()} == {(0,): "d0", (3,): "b0"}
	and sorted((a["node_wwn"], m["index"]) for a in saved["targets"][0]["tpgs"][0]["node_acls"]
		for m in a["mapped_luns"]) == sorted(one("mapped"))' "$tmp/saved/lio.json"
/usr/bin/python3 -c 'import json, rtslib_fb
print(json.dumps(rtslib_fb.RTSRoot().dump()))' >"$tmp/all" 2>/dev/null
check "it is the part of rtslib's own" /usr/bin/python3 -c 'import json, sys
ours, all = (json.load(open(f)) for f in sys.argv[1:])
assert ours["targets"] == all["targets"]
assert ours["storage_objects"] == [s for n in ("d0", "b0") for s in all["storage_objects"] if s["name"] == n]
assert len(all["storage_objects"]) == 6' "$tmp/saved/lio.json" "$tmp/all"
refused "saved, with what is not there" "none not found" "$(save "$tmp/saved/lio.json" '["rd_mcp", "none"]')"
refused "saved nowhere" "No such file" "$(save /nowhere/lio.json "$two")"
check "nothing beside it" test "$(ls -A "$tmp/saved")" = lio.json

# ---- and taken away ----

run iscsiadm -m node -T $I -p 10.0.0.1:3260 --logout
check "logged out" status_is 0
mount -t tmpfs none "$tpg/np/10.0.0.1:3260"
snapshot | grep -v /np/ >"$tmp/target"
ask "$(q target null)"
check "refused: a target, half of which cannot go" said_no busy
again() { snapshot | grep -v /np/ | diff "$tmp/target" - | comment >"$tmp/diff"; ! grep . "$tmp/diff"; }
# The mount hides the portal from rtslib, too.
check "which has its LUNs, initiators and secrets again" again
umount "$tpg/np/10.0.0.1:3260" 2>/dev/null
# Seen as ever, but not to be removed: all in it goes, and then it does not.
mount --bind "$tpg" "$tpg"
known=
refused "a target, of which all but itself can go" busy "$(q target null)"
umount "$tpg"
known=
check "its portal takes iSER again" is "$tpg/np/10.0.0.1:3260/iser" 1
check "it is enabled again" is "$tpg/enable" 1
works "a LUN gone" "$(q lun 3 null)"
check "with its mappings" like 'sorted(one("mapped")) == [("'$C'", 0), ("'${C}2'", 0)]'
works "an initiator gone" "$(q acl ${C}2 null)"
# Objects as a killed process leaves them
mkdir "$tpg/lun/lun_7" "$tpg/acls/$C/lun_6"
works "a LUN gone that was never finished" "$(q lun 7 null)"
mkdir "$tpg/lun/lun_7"
works "the target gone, with what it has" "$(q target null)"
refused "twice" "$I" "$(q target null)"
no_store() { change "[[\"store\", \"${1%/*}\", \"${1#*/}\"], null]"; }
for one in fileio/d0 fileio/d1 fileio/d2 fileio/d3 iblock/b0 rd_mcp/r0; do
	works "$one gone" "$(no_store $one)"
done
[ ! -e $lio/iscsi/cpus_allowed_list ] || ask "$(change '[["cpus"], "0-1"]')"
check "files stay" same /ram0/kept "$tmp/kept"

run targetctl restore "$tmp/saved/lio.json"
check "restored from what was saved" status_is 0
check "with iSER" is "$tpg/np/10.0.0.1:3260/iser" 1
check "and the secrets" is "$tpg/acls/$C/auth/password" "$secret"
check "and both LUNs" like '{lun: store[1] for lun, store in one("lun").items()} == {(0,): "d0", (3,): "b0"}'
works "the target gone" "$(q target null)"
for one in fileio/d0 iblock/b0; do
	works "$one gone" "$(no_store $one)"
done

check "the system's own saved configuration was not touched" test ! -e /etc/rtslib-fb-target/saveconfig.json
comment <"$tmp/items.err"
check "nothing was said beside the answers" test ! -s "$tmp/items.err"
losetup -d "$loop"
finish
