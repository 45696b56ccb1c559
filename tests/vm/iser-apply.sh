#!/bin/bash
# rftp-iser apply and remove, with the kernel's target: LIO has the objects of the plan and no
# others; a changed plan changes only the differences; a plan that fails changes nothing. TAP.

# shellcheck disable=SC2034 # for guest.sh
vm_options="--nodes 2 --nics 2 --topology cards"
. "${top_srcdir:?}/tests/vm/guest.sh"
. "$top_srcdir/tests/vm/iser.bash"
need iscsiadm

# ---- made, and made again ----

apply --dry-run "$tmp/two.json"
check "it says what it would do" status_is 0
check "and how many steps that is" has '^two: [0-9]* steps, none of which is done$'
check "and does nothing" unchanged
apply "$tmp/two.json"
comment <"$tmp/out"
check "a plan for two nodes" status_is 0
check "targets are enabled" test "$(attribute node0 enable)$(attribute node1 enable)" = 11
check "their portals are iSER's" test "$(attribute node0 np/10.0.0.1:3260/iser)$(attribute node1 np/10.0.0.2:3260/iser)" = 11
check "who logs in has to prove it" test "$(attribute node0 attrib/authentication)$(attribute node0 attrib/generate_node_acls)" = 10
check "with a secret" test "$(attribute node0 acls/$me/auth/password)" = a-secret-of-mine
check "and has proof in return" test "$(attribute node0 acls/$me/auth/password_mutual)" = a-secret-of-the-target
check "no secret is in what is said" not grep -rqe a-secret "$tmp/out" "$tmp/err" "$tmp/state/two.json"
check "and what is kept is root's" test "$(stat -c %a "$tmp/state")$(stat -c %a "$tmp/state"/*.json | sort -u)" = 700600
check "the portal is iSER's also in what targetctl gets" grep -q '"iser": true' "$tmp/state/two.lio.json"
check "threads of targets run on both nodes" test "$(cat $lio/iscsi/cpus_allowed_list)" = 0-1
# on NODE: all pages of its store, as the kernel tells a process that maps it
on() {
	python3 - "$tmp/iser/node$1-disk0/disk.img" <<'END'
import mmap, sys
f = open(sys.argv[1], "rb")
m = mmap.mmap(f.fileno(), 0, mmap.MAP_SHARED, mmap.PROT_READ)
for i in range(0, len(m), 4096):
    m[i]
for line in open("/proc/self/numa_maps"):
    if "disk.img" in line:
        print(*(w for w in line.split() if w[0] == "N" and w[1].isdigit()))
END
}
check "all pages of node 0's store are there" test "$(on 0)" = N0=4096
check "and of node 1's" test "$(on 1)" = N1=4096
snapshot >"$tmp/applied"
apply "$tmp/two.json"
check "once more: nothing to change" has '^two is applied already: there is nothing to change$'
snapshot >"$tmp/now"
check "and nothing has" same "$tmp/applied" "$tmp/now"

# ---- changed ----

more="$who, {\"name\": \"$you\", $chap}"
ram='{"lun": 5, "name": "ram", "kind": "ramdisk", "node": 0, "size": 1048576,
	"serial": "00000000-0000-4000-8000-000000000099"}'
plan two.json two "$(target 0 "$more" "$(tmpfs 0 0 16), $ram"), $(target 1 "$who" "$(tmpfs 1 0 16)")"
apply "$tmp/two.json"
check "one initiator and one LUN more" status_is 0
check "are all that changes" test "$(grep -vc '^two is applied' "$tmp/out")" -eq 4
snapshot >"$tmp/now"
check "what was there is there still" not grep -q '^<' <(diff "$tmp/applied" "$tmp/now")
check "both initiators have both LUNs" test "$(ls -d $lio/iscsi/*:node0/tpgt_1/acls/*/lun_[05] | wc -l)" -eq 4
snapshot >"$tmp/applied"
plan big.json two "$(target 0 "$more" "$(tmpfs 0 0 32), $ram"), $(target 1 "$who" "$(tmpfs 1 0 16)")"
apply "$tmp/big.json"
check "another size is refused" one_line 'node0-disk0: unmount tmpfs.*its data would be lost.*--destroy-data'
snapshot >"$tmp/now"
check "and nothing is changed" same "$tmp/applied" "$tmp/now"
apply --destroy-data "$tmp/big.json"
check "unless data may be lost, which is said" grep -q 'node0-disk0: unmount tmpfs.*: its data is lost' "$tmp/err"
check "it is as big, and on its node" test "$(on 0)" = N0=8192
check "and node 1's is what it was" test "$(on 1)" = N1=4096
remove
check "removed" status_is 0
check "what is lost with it is said" grep -q 'back store ram: its data, up to 1.0 MiB, is lost' "$tmp/err"
check "nothing is left" nothing_of_ours
check "theirs is as it was" unchanged
check "interrupts are where they were" same "$tmp/irqs" <(irqs)

# ---- not at all ----

# refused NAME TEXT OPTION...: apply fails with a line that has TEXT, and changes nothing
refused() {
	local what=$1 text=$2
	shift 2
	apply "$@"
	check "$what" one_line "$text"
	check "$what: nothing is changed" unchanged
	check "$what: nothing is left" nothing_of_ours
}
one() { plan one.json one "$(target 0 "$who" "$1" "${2:-}")"; }
one "$(tmpfs 0 0 16)" 10.0.0.9
refused "an address that is not here" 'portal 10.0.0.9 .*: this host has no such address' "$tmp/one.json"
one '{"lun": 0, "name": "b", "kind": "block", "path": "/dev/nonexistent", "serial": "00000000-0000-4000-8000-000000000001"}'
refused "a device that is not there" 'back store b: /dev/nonexistent: No such file' "$tmp/one.json"
one "$(tmpfs 0 0 1000000)"
refused "too much memory" 'need 977 GiB more of the memory of node 0' "$tmp/one.json"
one "$(tmpfs 0 0 16)"
sed 's/:node0/:theirs/' "$tmp/one.json" >"$tmp/theirs.json"
refused "a target that is somebody else's" 'target iqn.2026-01.org.example:theirs: LIO has it already' "$tmp/theirs.json"
chmod 644 "$tmp/secret"
refused "a secret that others may read" 'secret, a CHAP secret: others can read it; chmod 600' "$tmp/one.json"
rm "$tmp/secret"
refused "a secret that is not there" 'secret, a CHAP secret: No such file' "$tmp/one.json"
printf 'a-secret-of-mine\n' >"$tmp/secret"
chmod 600 "$tmp/secret"
mkdir -p /etc/modprobe.d
echo 'install target_core_iblock /bin/false' >/etc/modprobe.d/rftp-test.conf
# rtslib has the kernel load all of its plugins.
modprobe -r target_core_iblock
modprobe loop
truncate -s 8M "$tmp/disk"
loop=$(losetup --find --show "$tmp/disk")
one "{\"lun\": 0, \"name\": \"b\", \"kind\": \"block\", \"path\": \"$loop\", \"serial\": \"00000000-0000-4000-8000-000000000001\"}"
refused "a module that cannot be had" 'module target_core_iblock cannot be loaded' "$tmp/one.json"
rm /etc/modprobe.d/rftp-test.conf
one "$(tmpfs 0 0 16)"
rdma link del rxe_eth0
refused "no RDMA device" 'portal 10.0.0.1 .*: eth0 has no RDMA device' "$tmp/one.json"
rdma_rxe eth0

# In the midst of it.
python3 -c 'import socket, time
s = socket.create_server(("10.0.0.1", 3260))
print("listens", flush=True)
time.sleep(1000)' >"$tmp/listens" &
others+=($!)
patience 10 grep -q listens "$tmp/listens"
apply "$tmp/one.json"
check "a port that is taken" test "$status" -eq 1
check "is named" grep -q 'create portal 10.0.0.1 port 3260' "$tmp/err"
check "and said to be undone" grep -q 'all is as it was before' "$tmp/err"
check "which is so" unchanged
check "nothing is left of it" nothing_of_ours
stop_all
RFTP_FAULT_ISER=after:EIO:after=9 apply "$tmp/one.json"
check "a step that fails" test "$status" -eq 1
check "is undone with those before it" unchanged
check "and nothing is left of them" nothing_of_ours

# ---- open, and closed ----

modprobe -a iscsi_tcp sd_mod
mkdir -p /run/lock
echo "InitiatorName=iqn.2026-01.org.example:stranger" >/etc/iscsi/initiatorname.iscsi
# In a group of its own: it ends all of its group with itself.
setsid iscsid -f >"$tmp/iscsid.log" 2>&1 &
others+=($!)
stranger() { run iscsiadm -m node -T iqn.2026-01.org.example:node0 -p 10.0.0.1:3260 "$@"; }
plan one.json one "$(target 0 "" "$(tmpfs 0 0 4)" | sed 's/"initiators": \[\]/"open": true/')"
apply "$tmp/one.json"
check "open to anyone" status_is 0
patience 10 iscsiadm -m node -T iqn.2026-01.org.example:node0 -p 10.0.0.1:3260 -I default -o new >/dev/null 2>&1
stranger --login
check "a stranger logs in" status_is 0
plan one.json one "$(target 0 "{\"name\": \"$me\"}" "$(tmpfs 0 0 4)")"
apply "$tmp/one.json"
check "it is not closed while he is in there" one_line 'initiators that it does not name are logged in, and it has to be closed.*--force'
stranger --logout
guest=$lio/iscsi/iqn.2026-01.org.example:node0/tpgt_1/lun/lun_9
mkdir "$guest"
ln -s $lio/core/rd_mcp_77/theirs "$guest/theirs"
apply "$tmp/one.json"
check "nor while it serves what others put there" one_line 'LUN 9 of .*, back store theirs, which this plan did not make, would be gone'
rm "$guest/theirs"
rmdir "$guest"
apply "$tmp/one.json"
check "closed" status_is 0
stranger --login
check "the stranger is known no more" not status_is 0
stop_all
remove
check "nothing is left" nothing_of_ours

# ---- a block device, and a file ----

random "$tmp/data" 8388608
cat "$tmp/data" >"$loop"
one "{\"lun\": 0, \"name\": \"b\", \"kind\": \"block\", \"path\": \"$loop\", \"serial\": \"00000000-0000-4000-8000-000000000001\"},
	{\"lun\": 1, \"name\": \"f\", \"kind\": \"file\", \"size\": 1048576, \"path\": \"$tmp/files/f\", \"serial\": \"00000000-0000-4000-8000-000000000002\"}"
apply "$tmp/one.json"
check "a block device and a file" status_is 0
random "$tmp/files/f" 1048576
cp "$tmp/files/f" "$tmp/f"
remove one
check "removed" status_is 0
check "the device has its data" same "$loop" "$tmp/data"
check "the file is there, with its" same "$tmp/files/f" "$tmp/f"
apply "$tmp/one.json"
check "applied again, it is taken" same "$tmp/files/f" "$tmp/f"
remove --destroy-data
check "one that was there before is never removed" same "$tmp/files/f" "$tmp/f"
rm -r "$tmp/files"
apply "$tmp/one.json"
remove --destroy-data
check "one that was made is, when that is asked for" test "$status" -eq 0 -a ! -e "$tmp/files"
check "the device has its data still" same "$loop" "$tmp/data"
remove
check "there is nothing to remove" one_line 'no plan was applied here'
losetup -d "$loop"
check "theirs is as it was" unchanged
finish
