#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What changes LIO for rftp-iser, told line by line, on a real kernel: back stores of each kind with
# their memory on the node, targets, portals with iSER, secrets; each request that fails leaves
# things as they were. What lio_read() reads of it. TAP.

# shellcheck disable=SC2034 # for guest.sh
vm_options="--nodes 2 --nics 1"
. "${top_srcdir:?}/tests/vm/guest.sh"

need numactl losetup mkfs.ext4 iscsiadm targetctl /usr/bin/python3
hands=$top_srcdir/src/iser_setup/rftp-iser-lio
"$hands" --check 2>/dev/null || skip_all "no rtslib"
rdma_topology self 0 0 || skip_all "the guest's kernel has no RDMA"
modprobe -a target_core_mod target_core_file target_core_iblock iscsi_target_mod ib_isert ib_iser \
	sd_mod loop ext4 || skip_all "the guest's kernel has no LIO"
lio=/sys/kernel/config/target
mkdir -p $lio
mkdir -p /run/lock

# ---- asking, and looking ----

coproc W { exec numactl --membind=1 --cpunodebind=1 "$hands" 2>"$tmp/hands.err"; }
hands_pid=$W_PID
others+=("$hands_pid")
# ask REQUEST: in $tmp/out the answer. Not in $ran, for it may be a secret.
ask() {
	ran=${1%%,*} status=0
	: >"$tmp/err"
	echo "$1" >&"${W[1]}"
	read -t 120 -r answer <&"${W[0]}" || status=124
	echo "$answer" >"$tmp/err"
}
well() { [ "$status" = 0 ] && [ "$answer" = '{"ok": true}' ]; }
# works WHAT REQUEST
works() { ask "$2"; check "$1" well; known=; }

# What LIO is, without what it counts, and what nobody sets here.
snapshot() {
	{ find $lio -name '*statistics' -prune -o -printf '%p %l\n'
	grep -ars --exclude-dir='*statistics' --exclude-dir=alua --exclude-dir=pr --exclude=info '' $lio; } | sort
}
# Is it in $tmp/before? Empty: no.
known=
unchanged() { snapshot | diff "$tmp/before" - | comment >"$tmp/diff"; ! grep . "$tmp/diff"; }
said_no() { [ "$status" = 0 ] && [[ $answer == '{"error": '* ]] && grep -Eqi -e "$1" <<<"$answer"; }
said_no_and_unchanged() { said_no "$1" && unchanged; }
# refused WHAT TEXT REQUEST: it says no with TEXT, and LIO is what it was
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
# like EXPRESSION: of Python, over what lio_read() reads, as r
like() {
	"$top_builddir/tests/support/iser-system" >"$tmp/read" || return
	python3 -c 'import json, sys
r = json.load(open(sys.argv[1]))
stores = {s["plugin"] + "/" + s["name"]: s for s in r["stores"]}
t = {t["iqn"]: t for t in r["targets"]}
saved = json.load(open(sys.argv[3])) if len(sys.argv) > 3 else None
sys.exit(not eval("(" + sys.argv[2] + ")"))' "$tmp/read" "$@"
}

I=iqn.2026-01.org.test:node1 C=iqn.2026-01.org.test:ini
tpg=$lio/iscsi/$I/tpgt_1
snapshot >"$tmp/empty"

# ---- requests that are none ----

refused "no JSON" "no JSON" 'nonsense'
refused "no object" 'no \\"do' '[1]'
refused "nothing to do" 'no \\"do' '{"iqn": "x"}'
refused "unknown" "nobody knows" '{"do": "format-disk"}'
refused "a member less" 'initiator.* is missing' "{\"do\": \"create-acl\", \"iqn\": \"$I\"}"
refused "a member more" 'has no .*lun' "{\"do\": \"create-target\", \"iqn\": \"$I\", \"lun\": 1}"
refused "a number for a name" 'iqn.* is not' '{"do": "create-target", "iqn": 7}'
refused "a path for a name" 'iqn.* is not' '{"do": "create-target", "iqn": "../../x"}'

# ---- a file in a tmpfs ----

# store PLUGIN NAME PATH SIZE WRITE_BACK [SERIAL]
store() {
	echo "{\"do\": \"create-store\", \"plugin\": \"$1\", \"name\": \"$2\", \"path\": \"$3\"," \
		"\"size\": $4, \"write-back\": $5, \"serial\": \"${6:-}\"}"
}
serial=11111111-2222-3333-4444-555555555555
MB=$((1 << 20))
for k in 0 1; do
	mkdir "/ram$k"
	mount -t tmpfs -o "size=24m$([ $k = 1 ] || echo ,mpol=bind:0)" tmpfs "/ram$k"
	mounts+=("/ram$k")
done
works "fileio, by the tmpfs's node" "$(store fileio d0 /ram0/disk.img $((16 * MB)) true $serial)"
check "all pages are on node 0" pages_are /ram0/disk.img "16 0"
works "fileio, by numactl's node" "$(store fileio d1 /ram1/disk.img $((16 * MB)) false)"
check "all pages are on node 1" pages_are /ram1/disk.img "0 16"
check "for nobody else to read" test "$(stat -c %a /ram1/disk.img)" = 600
check "written back" grep -q 'Mode: Buffered-WCE' $lio/core/fileio_0/d0/info
check "and initiators know" is $lio/core/fileio_0/d0/attrib/emulate_write_cache 1
check "written through" grep -q 'Mode: O_DSYNC' $lio/core/fileio_1/d1/info
check "and initiators know" is $lio/core/fileio_1/d1/attrib/emulate_write_cache 0
check "its serial" grep -q $serial $lio/core/fileio_0/d0/wwn/vpd_unit_serial

refused "twice" "there already" "$(store fileio d0 /ram0/other.img $MB true)"
check "no file was made" test ! -e /ram0/other.img
refused "more than the tmpfs has" "/ram1/big.img, .*No space left" "$(store fileio big /ram1/big.img $((16 * MB)) true)"
check "nothing of the file is left" test "$(ls -A /ram1)" = disk.img
check "nor of its space" test "$(df --output=used -m /ram1 | tail -n 1)" -eq 16
refused "a file that another has" "in use by the back store fileio/d1" "$(store fileio d2 /ram1/disk.img $((16 * MB)) true)"
random /ram0/kept "$MB"
cp /ram0/kept "$tmp/kept"
refused "a file of another size" "$MB bytes and not $((2 * MB))" "$(store fileio d2 /ram0/kept $((2 * MB)) true)"
refused "a comma" "comma" "$(store fileio d2 /ram0/a,b $MB true)"
refused "no absolute path" "does not begin with" "$(store fileio d2 kept $MB true)"
refused "a directory" "no regular file" "$(store fileio d2 /ram0 $MB true)"
refused "no directory" "No such file" "$(store fileio d2 /nowhere/x $MB true)"
refused "no size" "needs a size" "$(store fileio d2 /ram0/x 0 true)"
# rtslib's own check comes when the file is there already.
refused "a name that LIO has not" "spaces" "$(store fileio 'd 2' /ram0/new $MB true)"
check "the file of one that failed is gone" test ! -e /ram0/new
works "a file that is there" "$(store fileio d2 /ram0/kept $MB true)"
check "has what it had" same /ram0/kept "$tmp/kept"
works "a file on no tmpfs" "$(store fileio d3 /root/disk.img $MB false)"
check "has its space" test "$(stat -c %b /root/disk.img)" -ge $((MB / 512))

# ---- a device, and memory ----

truncate -s 16M "$tmp/loop"
loop=$(losetup -f --show "$tmp/loop")
refused "a file that a loop device has" "in use by $loop" "$(store fileio d4 "$tmp/loop" $((16 * MB)) true)"
mkfs.ext4 -q "$loop" && mount -t ext4 "$loop" /mnt
refused "a mounted device" "$loop: is mounted, or in use" "$(store iblock b0 "$loop" 0 true)"
umount /mnt
refused "write-through where the device has a cache" "volatile write cache" "$(store iblock b0 "$loop" 0 false)"
refused "a device of another size" "16777216 bytes and not 1048576" "$(store iblock b0 "$loop" $MB true)"
refused "a file for a device" "no block device" "$(store iblock b0 /ram0/kept 0 true)"
works "a device" "$(store iblock b0 "$loop" 0 true)"
refused "one that another has" "in use" "$(store iblock b1 "$loop" 0 true)"
truncate -s 16M "$tmp/loop2"
loop2=$(losetup -f --show "$tmp/loop2")
echo "write through" >"/sys/block/${loop2#/dev/}/queue/write_cache"
works "a device without a cache" "$(store iblock b1 "$loop2" $((16 * MB)) false)"
check "what is read of them" like '[stores["iblock/" + n]["write-back"] for n in ("b0", "b1")] == [True, False]
	and stores["iblock/b0"]["size"] == 16 << 20'

refused "half a page" "pages of 4096" "$(store rd_mcp r0 "" 6144 false)"
before0=$(free_of 0) before1=$(free_of 1)
works "a ramdisk" "$(store rd_mcp r0 "" $((64 * MB)) false)"
took0=$((before0 - $(free_of 0))) took1=$((before1 - $(free_of 1)))
echo "# 65536 KiB of ramdisk: node 0 has $took0 KiB less, node 1 $took1"
check "its memory is on numactl's node" test "$took1" -gt 60000 -a "$took0" -lt 30000

# ---- a target ----

q() { echo "{\"do\": \"$1\", \"iqn\": \"$I\"${2:+, $2}}"; }
refused "a name that is no IQN" "not valid" '{"do": "create-target", "iqn": "nobody"}'
refused "a name that rtslib writes otherwise" "is not how LIO writes it" \
	'{"do": "create-target", "iqn": "iqn.2026-01.org.test:BIG"}'
works "a target" "$(q create-target)"
check "disabled" is "$tpg/enable" 0
check "without a portal" test -z "$(ls "$tpg/np")"
refused "twice" "already exists" "$(q create-target)"
works "an initiator" "$(q create-acl "\"initiator\": \"$C\"")"
works "a LUN" "$(q create-lun '"lun": 0, "plugin": "fileio", "store": "d0"')"
works "another" "$(q create-lun '"lun": 3, "plugin": "iblock", "store": "b0"')"
works "another initiator" "$(q create-acl "\"initiator\": \"${C}2\"")"
check "each has each" like 't["'$I'"]["initiators"][0]["luns"] == t["'$I'"]["initiators"][1]["luns"] == [0, 3]'
refused "a LUN twice" "already exists" "$(q create-lun '"lun": 0, "plugin": "fileio", "store": "d1"')"
refused "a LUN of nothing" "no back store fileio/none" "$(q create-lun '"lun": 1, "plugin": "fileio", "store": "none"')"
refused "an initiator twice" "already exists" "$(q create-acl "\"initiator\": \"$C\"")"
refused "an initiator of no name" "not valid" "$(q create-acl '"initiator": "nobody"')"
known=
mkdir "$tpg/acls/${C}2/lun_5"
refused "a LUN, half of whose mappings fail" "already exists" "$(q create-lun '"lun": 5, "plugin": "fileio", "store": "d1"')"
rmdir "$tpg/acls/${C}2/lun_5"
known=
refused "a back store that is used" "is LUN 0 of $I" '{"do": "delete-store", "plugin": "fileio", "name": "d0"}'
refused "another target's" "no target iqn.2026-01.org.test:other" \
	'{"do": "enable-target", "iqn": "iqn.2026-01.org.test:other", "enabled": true}'

# ---- portals ----

portal() { echo "\"address\": \"$1\", \"port\": $2"; }
works "a portal with iSER" "$(q create-portal "$(portal 10.0.0.1 3260), \"iser\": true")"
check "which the kernel has" is "$tpg/np/10.0.0.1:3260/iser" 1
ip addr add fd00::1/64 dev eth0 nodad
works "one of IPv6, without" "$(q create-portal "$(portal fd00::1 3261), \"iser\": false")"
refused "twice, written otherwise" "there already" "$(q create-portal "$(portal fd00:0:0::1 3261), \"iser\": false")"
refused "iSER on an address that nobody has" "Cannot assign requested address" "$(q create-portal "$(portal 10.0.0.9 3260), \"iser\": true")"
refused "iSER on an address without RDMA" "Cannot assign requested address" "$(q create-portal "$(portal 127.0.0.1 3260), \"iser\": true")"
refused "no address" "no IP address" "$(q create-portal "$(portal localhost 3260), \"iser\": false")"
refused "one that is not there" "there is none" "$(q delete-portal "$(portal 10.0.0.1 3261)")"
works "one gone" "$(q delete-portal "$(portal fd00:0::1 3261)")"

# ---- secrets ----

printf 'secret-of-initiator' >"$tmp/pattern"
secret=$(cat "$tmp/pattern")
auth() { q set-auth "\"initiator\": \"$C\", \"user\": \"$1\", \"secret\": \"$2\", \"mutual-user\": \"$3\", \"mutual-secret\": \"$4\""; }
works "secrets" "$(auth in "$secret" out secret-of-target)"
check "which the kernel has" is "$tpg/acls/$C/auth/password" "$secret"
check "both ways" is "$tpg/acls/$C/auth/password_mutual" secret-of-target
# $$ has it in its memory, and in no argument.
secret_is_nowhere() { ! grep -alF -f "$tmp/pattern" /proc/[0-9]*/cmdline /proc/[0-9]*/environ "$tmp/hands.err"; }
check "in nobody's arguments or environment" secret_is_nowhere
for bad in "in:" ":$secret" "in:NULLsecret" "in: $secret" "in:$(printf 'x%.0s' {1..256})"; do
	refused "a user and secret like ${bad:0:12}" "secret" "$(auth "${bad%%:*}" "${bad#*:}" "" "")"
	check "and does not tell it" not grep -qF -f "$tmp/pattern" "$tmp/err"
done
# What is read of it cannot be written to.
known=
mount --bind /proc/version "$tpg/acls/$C/auth/password_mutual"
refused "secrets, half of which fail" "error|denied|not permitted|invalid" "$(auth new new-secret-12 new2 new-secret-34)"
check "without a word of them" not grep -q new-secret "$tmp/err"
umount "$tpg/acls/$C/auth/password_mutual"
known=
works "no secrets" "$(auth "" "" "" "")"
check "none are there" like 'not any(i[k] for i in t["'$I'"]["initiators"]
	for k in ("user", "secret", "mutual-user", "mutual-secret"))'
works "and again" "$(auth in "$secret" out secret-of-target)"

# ---- attributes ----

works "a target's attribute" "$(q set-target-attribute '"attribute": "authentication", "value": 1')"
check "is set" is "$tpg/attrib/authentication" 1
refused "one that there is not" "no attribute nosuch" "$(q set-target-attribute '"attribute": "nosuch", "value": 1')"
refused "a value that there is not" "Invalid argument" "$(q set-target-attribute '"attribute": "authentication", "value": 7')"
works "a back store's" '{"do": "set-store-attribute", "plugin": "fileio", "name": "d0", "attribute": "emulate_tpu", "value": 1}'
refused "one that a used one keeps" "Invalid argument" '{"do": "set-store-attribute", "plugin": "fileio", "name": "d0", "attribute": "block_size", "value": 4096}'
works "enabled" "$(q enable-target '"enabled": true')"
check "is so" is "$tpg/enable" 1
if [ -e $lio/iscsi/cpus_allowed_list ]; then
	works "CPUs" '{"do": "set-cpus", "list": "1"}'
	check "are so" is $lio/iscsi/cpus_allowed_list 1
	refused "no list of CPUs" "Invalid argument" '{"do": "set-cpus", "list": "one"}'
else
	refused "no CPUs in this kernel" "no cpus_allowed_list" '{"do": "set-cpus", "list": "1"}'
fi

# ---- it is killed, politely ----

kill -TERM "$hands_pid"; kill -INT "$hands_pid"; kill -HUP "$hands_pid"
refused "and goes on" "nobody knows" '{"do": "nothing"}'

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
run iscsiadm -m node -T $I -p 10.0.0.1:3260 --login
check "logs in with its secret, over iSER" status_is 0
check "its session is seen" like '[(i["logged-in"], "LOGGED_IN" in i["session"]) for i in sorted(t["'$I'"]["initiators"],
	key=lambda i: i["initiator"])] == [(True, True), (False, False)]'

# ---- saved ----

save() { echo "{\"do\": \"save\", \"file\": \"$1\", \"iqns\": [\"$I\"], \"stores\": [$2]}"; }
two='{"plugin": "fileio", "name": "d0"}, {"plugin": "iblock", "name": "b0"}'
mkdir -m 700 "$tmp/saved"
works "saved" "$(save "$tmp/saved/lio.json" "$two")"
check "for nobody else to read" test "$(stat -c %a "$tmp/saved/lio.json")" = 600
check "nothing beside it" test "$(ls -A "$tmp/saved")" = lio.json
check "what is in it is what lio_read() reads" like '
	{s["name"]: (s["dev"], s["wwn"]) for s in saved["storage_objects"]} ==
		{n: (stores[k]["path"], stores[k]["serial"]) for k, n in (("fileio/d0", "d0"), ("iblock/b0", "b0"))}
	and [x["wwn"] for x in saved["targets"]] == ["'$I'"]
	and [(p["ip_address"], p["port"], p["iser"]) for p in saved["targets"][0]["tpgs"][0]["portals"]] ==
		[(p["address"], p["port"], p["iser"]) for p in t["'$I'"]["portals"]] == [("10.0.0.1", 3260, True)]
	and {x["index"]: x["storage_object"].split("/")[-1] for x in saved["targets"][0]["tpgs"][0]["luns"]} ==
		{x["lun"]: x["store"] for x in t["'$I'"]["luns"]} == {0: "d0", 3: "b0"}
	and {a["node_wwn"]: sorted(m["tpg_lun"] for m in a["mapped_luns"]) for a in saved["targets"][0]["tpgs"][0]["node_acls"]} ==
		{a["initiator"]: a["luns"] for a in t["'$I'"]["initiators"]}' "$tmp/saved/lio.json"
/usr/bin/python3 -c 'import json, rtslib_fb
print(json.dumps(rtslib_fb.RTSRoot().dump()))' >"$tmp/all" 2>/dev/null
check "it is the part of rtslib's own" /usr/bin/python3 -c 'import json, sys
ours, all = (json.load(open(f)) for f in sys.argv[1:])
assert ours["targets"] == all["targets"]
assert ours["storage_objects"] == [s for n in ("d0", "b0") for s in all["storage_objects"] if s["name"] == n]
assert len(all["storage_objects"]) == 7' "$tmp/saved/lio.json" "$tmp/all"
refused "saved, with what is not there" "no back store rd_mcp/none" "$(save "$tmp/saved/lio.json" '{"plugin": "rd_mcp", "name": "none"}')"
refused "saved nowhere" "No such file" "$(save /nowhere/lio.json "$two")"
check "nothing beside it" test "$(ls -A "$tmp/saved")" = lio.json

# ---- and taken away ----

run iscsiadm -m node -T $I -p 10.0.0.1:3260 --logout
check "logged out" status_is 0
mount -t tmpfs none "$tpg/np/10.0.0.1:3260"
snapshot | grep -v /np/ >"$tmp/target"
ask "$(q delete-target)"
check "refused: a target, half of which cannot go" said_no busy
again() { snapshot | grep -v /np/ | diff "$tmp/target" - | comment >"$tmp/diff"; ! grep . "$tmp/diff"; }
# The mount hides the portal from rtslib, too.
check "which has its LUNs, initiators and secrets again" again
umount "$tpg/np/10.0.0.1:3260" 2>/dev/null
# Seen as ever, but not to be removed: all in it goes, and then it does not.
mount --bind "$tpg" "$tpg"
known=
refused "a target, of which all but itself can go" busy "$(q delete-target)"
umount "$tpg"
known=
check "its portal takes iSER again" is "$tpg/np/10.0.0.1:3260/iser" 1
check "it is enabled again" is "$tpg/enable" 1
works "a LUN gone" "$(q delete-lun '"lun": 3')"
check "with its mappings" like 'all(i["luns"] == [0] for i in t["'$I'"]["initiators"])'
works "an initiator gone" "$(q delete-acl "\"initiator\": \"${C}2\"")"
# As who was killed in the middle leaves them.
mkdir "$tpg/lun/lun_7" "$tpg/acls/$C/lun_6"
works "a LUN gone that was never finished" "$(q delete-lun '"lun": 7')"
mkdir "$tpg/lun/lun_7"
works "the target gone, with what it has" "$(q delete-target)"
refused "twice" "no target" "$(q delete-target)"
for one in fileio/d0 fileio/d1 fileio/d2 fileio/d3 iblock/b0 iblock/b1 rd_mcp/r0; do
	works "$one gone" "{\"do\": \"delete-store\", \"plugin\": \"${one%/*}\", \"name\": \"${one#*/}\"}"
done
[ ! -e $lio/iscsi/cpus_allowed_list ] || ask '{"do": "set-cpus", "list": "0-1"}'
check "files stay" same /ram0/kept "$tmp/kept"

run targetctl restore "$tmp/saved/lio.json"
check "restored from what was saved" status_is 0
check "with iSER" is "$tpg/np/10.0.0.1:3260/iser" 1
check "and the secrets" is "$tpg/acls/$C/auth/password" "$secret"
check "and both LUNs" like '{x["lun"]: x["store"] for x in t["'$I'"]["luns"]} == {0: "d0", 3: "b0"}'
works "the target gone" "$(q delete-target)"
for one in fileio/d0 iblock/b0; do
	works "$one gone" "{\"do\": \"delete-store\", \"plugin\": \"${one%/*}\", \"name\": \"${one#*/}\"}"
done

check "the system's own saved configuration was not touched" test ! -e /etc/rtslib-fb-target/saveconfig.json
end=${W[1]}
exec {end}>&-
check "it ends with its input" patience 10 gone "$hands_pid"
check "and had nothing to complain of" test ! -s "$tmp/hands.err"
losetup -d "$loop" "$loop2"
finish
