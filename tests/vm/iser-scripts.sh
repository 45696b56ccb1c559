#!/bin/bash
# scripts/iser-target.sh and iser-initiator.sh: the memory of two nodes as one striped disk, in a line
# on each side, and gone in another. Both sides are one guest. TAP.

# shellcheck disable=SC2034 # for guest.sh
vm_options="--nodes 2 --nics 2"
. "${top_srcdir:?}/tests/vm/guest.sh"

need iscsiadm iscsid numactl mdadm mkfs.xfs
/usr/bin/python3 -c 'import rtslib_fb' 2>/dev/null || skip_all "rtslib is missing"
rdma_modules || skip_all "the guest's kernel has no RDMA"
modprobe -a target_core_mod iscsi_target_mod ib_isert ib_iser raid0 xfs 2>/dev/null ||
	skip_all "the guest's kernel has no iSER"
mountpoint -q /sys/kernel/config || mount -t configfs configfs /sys/kernel/config
rdma_self eth0 10.0.0.1
rdma_self eth1 10.0.1.1

me=iqn.2026-01.org.example:me
mkdir -p /etc/iscsi /run/lock
rm -rf /etc/rftp-iser /etc/iscsi/nodes /var/lib/iscsi/*
echo "InitiatorName=$me" >/etc/iscsi/initiatorname.iscsi
export RFTP_ISER_STATE=$tmp/state
limit=200
target() { run "$top_srcdir/scripts/iser-target.sh" --name pair --iqn iqn.2026-01.org.example "$@"; }
initiator() { run "$top_srcdir/scripts/iser-initiator.sh" "$@"; }
down() { run "$top_srcdir/scripts/iser-target.sh" --down --name pair; }

target --size 320M --initiator $me
comment <"$tmp/out"
check "served" status_is 0
check "from both nodes" test "$(find /sys/kernel/config/target/iscsi -name 'iqn*pair-node*' | wc -l)" -eq 2
check "the secret is root's" test "$(stat -c %a /etc/rftp-iser /etc/rftp-iser/pair.$me.chap | xargs)" = "700 600"
line=$(tail -n 1 "$tmp/out")
check "what to run on the other host" eval '[[ $line == *"&& scripts/iser-initiator.sh --plan /etc/rftp-iser/pair.json --mkfs --mount /mnt" ]]'
# Copied over sftp, as scp does by itself, but from a server without ssh.
copy=${line%% /etc/rftp-iser/ && scripts*}
mkdir "$tmp/there"
scp() { command scp -D /usr/lib/openssh/sftp-server "$@"; }
if [ -x /usr/lib/openssh/sftp-server ]; then
	eval "${copy#*&& } '$tmp/there/'" 2>&1 | comment
	check "which copies what is needed there" test -s "$tmp/there/pair.json" -a -s "$tmp/there/pair.$me.chap"
else
	skip "which copies what is needed there" "no sftp-server"
fi
target --size 64M --initiator $me
check "no other plan over this one" grep -q 'pair.json is another plan' "$tmp/err"

# CHAP at half of the speed: see tests/vm/iser-login.sh.
echo 0 >/sys/devices/system/cpu/cpu1/online
initiator --plan /etc/rftp-iser/pair.json --stripe md --mkfs --mount /mnt/far
comment <"$tmp/out"
comment <"$tmp/err"
check "used" status_is 0
check "as one disk" grep -q "^/dev/md.* /mnt/far xfs" /proc/mounts
random "$tmp/file" 4000000
check "written" cp "$tmp/file" /mnt/far/file
check "tuned" grep -q '^tuned ' "$tmp/out"
run "$top_srcdir/scripts/iser-initiator.sh" --plan /etc/rftp-iser/pair.json --stripe md --mount /mnt/far
check "once more: it is mounted already" grep -q 'is mounted on /mnt/far already' "$tmp/out"
down
check "not taken away while it is used" grep -q "$me is logged in" "$tmp/err"
initiator --down --mount /mnt/far
check "logged out" test "$status" -eq 0 -a -z "$(ls /sys/class/iscsi_session)"
initiator --plan /etc/rftp-iser/pair.json --mount /mnt/far
check "without the stripe that is on them the disks are not mounted" status_is 1
initiator --down --plan /etc/rftp-iser/pair.json
echo 1 >/sys/devices/system/cpu/cpu1/online
down
check "taken away" status_is 0
check "nothing is left" test -z "$(find /sys/kernel/config/target/iscsi -name 'iqn*pair-node*'; grep /run/rftp-iser /proc/mounts)"
finish
