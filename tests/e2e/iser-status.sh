#!/bin/bash
# rftp-iser status and verify, of a target in a directory that looks like configfs. The guest's test
# has the kernel's configfs. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
skip_with_sanitizers
. "$top_srcdir/tests/e2e/iser-looks.bash"
need python3

iqn=iqn.2026-01.org.example:disk
me=iqn.2026-01.org.example:me
serial=00000000-0000-4000-8000-000000000001
export RFTP_ISER_STATE=$tmp/state RFTP_CONFIGFS=$tmp/configfs RFTP_PROC=$tmp/proc
lio=$RFTP_CONFIGFS/target
group=$lio/iscsi/$iqn/tpgt_1
ram=$tmp/ram
boot=$(cat /proc/sys/kernel/random/boot_id)

printf 'a-secret-of-mine\n' >"$tmp/secret"
chmod 600 "$tmp/secret"

# put FILE TEXT: below configfs
put() {
	mkdir -p "$(dirname "$lio/$1")"
	printf '%s\n' "$2" >"$lio/$1"
}
# link DIR TO
link() {
	mkdir -p "$1"
	ln -sfn "$2" "$1/0123456789"
}

plan() {
	echo "{\"rftp-iser-plan\": 1, \"name\": \"one\", \"cpus\": \"any\", \"targets\": [
	{\"node\": 0, \"iqn\": \"$iqn\",
	\"portals\": [{\"address\": \"127.0.0.1\", \"iser\": false}],
	\"initiators\": [{\"name\": \"$me\",
		\"chap\": {\"user\": \"me\", \"secret-file\": \"$tmp/secret\"}}],
	\"luns\": [{\"lun\": 0, \"name\": \"disk\", \"kind\": \"tmpfs\", \"node\": 0,
		\"policy\": \"prefer\", \"size\": 2097152, \"path\": \"$ram\",
		\"write-back\": true, \"serial\": \"$serial\",
		\"attributes\": {\"emulate_tpu\": 1}}]}]}"
}
# state BOOT [applying]
state() {
	mkdir -p "$RFTP_ISER_STATE"
	echo "{\"rftp-iser-state\": 1, \"boot\": \"$1\", \"${2:-applied}\": $(plan)}" \
		>"$RFTP_ISER_STATE/one.json"
}

make_all() {
	local store=core/fileio_0/disk target=iscsi/$iqn/tpgt_1 acl=iscsi/$iqn/tpgt_1/acls/$me
	rm -rf "$RFTP_CONFIGFS"
	put $store/enable 1
	put $store/udev_path "$ram/disk.img"
	put $store/info "Status: ACTIVATED  Max Queue Depth: 0  SectorSize: 512  HwMaxSectors: 16384
        TCM FILEIO ID: 0        File: $ram/disk.img  Size: 2097152  Mode: Buffered-WCE Async: 0"
	put $store/attrib/emulate_tpu 1
	put $store/attrib/emulate_write_cache 1
	put $store/wwn/vpd_unit_serial "T10 VPD Unit Serial Number: $serial"
	put iscsi/cpus_allowed_list 0-7
	put $target/enable 1
	put $target/attrib/authentication 1
	put $target/attrib/generate_node_acls 0
	put $target/attrib/cache_dynamic_acls 0
	put $target/attrib/demo_mode_write_protect 1
	put $target/np/127.0.0.1:3260/iser 0
	put $target/dynamic_sessions ""
	: >"$group/dynamic_sessions"
	link "$group/lun/lun_0" "$lio/$store"
	put "$acl/auth/userid" me
	put "$acl/auth/password" a-secret-of-mine
	put "$acl/auth/userid_mutual" NULL
	put "$acl/auth/password_mutual" NULL
	put "$acl/info" "No active iSCSI Session for Initiator Endpoint: $me"
	link "$group/acls/$me/lun_0" "$group/lun/lun_0"
	mkdir -p "$RFTP_PROC/self"
	echo "41 28 0:35 / $ram rw - tmpfs rftp-iser rw,size=2048k,mpol=prefer:0" \
		>"$RFTP_PROC/self/mountinfo"
	state "$boot"
}

# A tmpfs of the host's, when it has one: pages are looked for in no other.
if [ "$(stat -f -c %T /dev/shm 2>/dev/null)" = tmpfs ] && ram=$(mktemp -d /dev/shm/rftp-e2e.XXXXXX); then
	trap 'cleanup; rm -rf "$ram"' EXIT
	pages='where it is: pages 2.0 MiB on node'
else
	mkdir -p "$ram"
	pages=''
fi
dd if=/dev/urandom of="$ram/disk.img" bs=1M count=2 status=none

# ---- nothing ----

status
check "no plan" has '^no plan was applied here$'
verify
check "nothing to verify" status_is 1
check "that is said" grep -q 'no plan was applied here' "$tmp/err"
status none
check "no such plan" grep -q 'none: no such plan was applied here' "$tmp/err"

# ---- all well ----

make_all
status
comment <"$tmp/out"
check "status" status_is 0
check "the plan" has '^plan one: applied$'
check "the target" has "^target $iqn for node 0: enabled$"
check "the portal" has 'portal     127.0.0.1 port 3260, TCP alone; lo of no node that is known, no RDMA device$'
check "the initiator" has "initiator  $me: not logged in$"
check "the LUN" has "LUN 0      disk, .*$ram/disk.img, 2.0 MiB, write-back: "
check "the threads' CPUs" has '^threads of all iSCSI targets of this host, CPUs allowed: 0-7$'
status --json
check "for programs" is 'm["lio"] and m["plans"][0]["applied"] and [l["bytes"] for t in m["plans"][0]["targets"] for l in t["luns"]] == [2 << 20]'
check "no secret in it" not has a-secret

if [ -n "$pages" ] && rftp-numa --version 2>/dev/null | grep -q '+numa'; then
	verify
	comment <"$tmp/out"
	check "all is as it was applied" all_ok
	check "pages" has "$pages"
	check "a line that sums up" has '^plan one: [0-9]* looked at, 0 wrong, 0 not seen$'
	verify --json one
	check "for programs" is 'm["right"] and all(f["judged"] == "ok" and f["mend"] is None for p in m["plans"] for f in p["findings"])'

	# ---- one thing after the other is wrong ----

	printf 'a-secret-of-others\n' >"$tmp/secret"
	verify
	check "another secret" only "initiator $me at $iqn: CHAP: the secret is not that of $tmp/secret" 'apply the plan again'
	check "which is not shown" not has 'a-secret'
	printf 'a-secret-of-mine\n' >"$tmp/secret"

	put "iscsi/$iqn/tpgt_1/attrib/authentication" 0
	verify
	check "authentication off" only "authentication of target $iqn: is 0, and should be 1" 'apply the plan again'
	make_all

	rm -r "$group/np/127.0.0.1:3260"
	verify
	check "no portal" only "portal 127.0.0.1 port 3260 of $iqn: is missing" 'apply'
	make_all

	put core/fileio_0/disk/attrib/emulate_tpu 0
	verify
	check "an attribute" only 'emulate_tpu of back store disk: is 0, and should be 1' 'apply'
	make_all

	mv "$ram/disk.img" "$ram/disk.old"
	verify
	check "a file that is gone" only 'back store disk: where it is: its name is missing' 'save its data'
	mv "$ram/disk.old" "$ram/disk.img"

	: >"$RFTP_PROC/self/mountinfo"
	verify
	check "no mount" only "tmpfs at $ram: is missing" 'apply'
	make_all

	state "another-boot"
	verify
	check "an earlier boot" only 'this host was restarted since it was applied' 'its tmpfs and ramdisks begin empty'
	state "$boot" applying
	verify --json
	check "an apply that was killed" is 'not m["right"] and [f["check"] for f in m["plans"][0]["findings"] if f["judged"] == "wrong"] == ["unfinished"]'
	make_all

	mkdir "$lio/iscsi/$iqn/tpgt_2"
	verify
	check "a portal group nobody planned" only "target $iqn/tpg2: is not planned" "targetcli /iscsi/$iqn delete 2"
	make_all
else
	skip "verify" "no tmpfs in /dev/shm, or no libnuma in the build"
fi

# ---- a device that has changed its name ----

disk=$(find /dev -maxdepth 1 -type b 2>/dev/null | head -n 1)
if [ -n "$disk" ]; then
	rm -r "$lio/core/fileio_0/disk" "$group/lun/lun_0"
	put core/iblock_0/disk/enable 1
	put core/iblock_0/disk/udev_path "$disk"
	link "$group/lun/lun_0" "$lio/core/iblock_0/disk"
	of_lio() {
		put core/iblock_0/disk/info "Status: ACTIVATED
        iBlock device: x  UDEV PATH: $disk  readonly: 0
        Major: $1 Minor: $2  CLAIMED: IBLOCK"
		status --json
	}
	of_lio "$(stat -c %Hr "$disk")" "$(stat -c %Lr "$disk")"
	check "a device under its name" is 'm["plans"][0]["targets"][0]["luns"][0]["where"] == "device"'
	of_lio 8 250
	check "another one that has the name now" is 'm["plans"][0]["targets"][0]["luns"][0]["where"] == "gone" and "another device now" in m["plans"][0]["targets"][0]["luns"][0]["why"]'
	make_all
else
	skip "another device" "there is no block device here"
fi

# ---- others' ----

mkdir -p "$lio/iscsi/iqn.2026-01.org.example:theirs/tpgt_1"
status
check "what is not ours" has '^not ours: target iqn.2026-01.org.example:theirs, disabled, 0 portals, 0 LUNs, 0 sessions$'
echo nonsense >"$RFTP_ISER_STATE/two.json"
status
check "a damaged state hides nothing" has '^plan one: applied$'
check "and is said" has '^not seen: the plan two: '
check "whose the rest is, nobody knows" has '^of an unknown owner: target iqn.2026-01.org.example:theirs'
verify
check "nor is all well" status_is 1

finish
