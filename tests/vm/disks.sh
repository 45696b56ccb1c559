#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A disk that says that it rotates is timed: with reads of 8 ms it is treated as rotating, without a
# delay it is not. A filesystem that ignores case keeps the names that the source writes in other
# letters. A slow network is the stage that holds a transfer back. TAP.

# shellcheck disable=SC2034,SC2154 # for guest.sh; set there
vm_options=""
. "${top_srcdir:?}/tests/vm/guest.sh"

modprobe -a loop dm_delay || skip_all "the guest's kernel has no delayed disks"
truncate -s 128M "$tmp/disk.img"
mkfs.ext4 -q -F "$tmp/disk.img"
loop=$(losetup --find --show "$tmp/disk.img")
echo 1 >"/sys/block/${loop#/dev/}/queue/rotational"
mkdir "$tmp/disk" "$tmp/root"
start_server here --root "$tmp/root" --anonymous rw

put_from() { # DEVICE NAME: sets took
	check "$2: it is mounted" mount "$1" "$tmp/disk"
	[ -d "$tmp/disk/far" ] || {
		mkdir "$tmp/disk/far"
		for i in 1 2 3 4 5 6; do random "$tmp/disk/far/$i" 12M; done
	}
	run rftp put -vv --accept-new --prot clear -r "$tmp/disk/far/" "$url/$2"
	check "$2: all is sent" same_trees "$tmp/disk/far" "$tmp/root/$2"
	umount "$tmp/disk"
	took=$(sed -n 's/.* distant places took \([0-9]*\) us.*/\1/p' "$tmp/err")
	comment <<<"$2: a distant place takes ${took:-?} us"
}
says_rotating() { grep -q 'a rotating disk: files are read one at a time' "$tmp/err"; }

put_from "$loop" fast
# The emulated machine may be too slow itself.
if [ "${took:-0}" -lt 1500 ]; then
	check "fast: it does not rotate" not says_rotating
else
	check "fast: it is as slow as one that rotates" says_rotating
fi

echo "0 $(blockdev --getsz "$loop") delay $loop 0 8 $loop 0 0" | dmsetup create --noudevsync slow
put_from "/dev/$(dmsetup info -c --noheadings -o blkdevname slow)" slow
check "slow: its reads take the time of a seek" test "${took:-0}" -ge 8000
check "slow: it rotates" says_rotating
dmsetup remove slow

mkfs.ext4 -q -F -O casefold "$loop"
mkdir -p "$tmp/src/Sub"
for i in README Sub/Straße Sub/plain; do echo "$i" >"$tmp/src/$i"; done
if mount "$loop" "$tmp/disk" && mkdir "$tmp/disk/to" && chattr +F "$tmp/disk/to"; then
	mkdir "$tmp/disk/to/sub"
	for i in readme sub/STRAßE extra sub/Extra; do echo old >"$tmp/disk/to/$i"; done
	run rftp sync --accept-new --delete "$url/src/" "$tmp/disk/to"
	check "a source that is not there" not status_is 0
	mv "$tmp/src" "$tmp/root/src"
	run rftp sync --delete "$url/src/" "$tmp/disk/to"
	check "ignoring case: exit status" status_is 0
	check "ignoring case: the new content is not removed" cat "$tmp/disk/to/README" "$tmp/disk/to/Sub/Straße"
	check "ignoring case: it is the source's" test "$(cat "$tmp/disk/to/README" "$tmp/disk/to/Sub/Straße" "$tmp/disk/to/Sub/plain")" = \
		"$(cat "$tmp/root/src/README" "$tmp/root/src/Sub/Straße" "$tmp/root/src/Sub/plain")"
	check "ignoring case: extra names are removed" test ! -e "$tmp/disk/to/extra" -a ! -e "$tmp/disk/to/sub/Extra"
	umount "$tmp/disk"
else
	skip "ignoring case" "the guest's kernel has no ext4 that ignores case"
fi
losetup -d "$loop"

if modprobe sch_tbf 2>/dev/null && tc qdisc add dev lo root tbf rate 80mbit burst 128kb latency 200ms; then
	random "$tmp/file" 20M
	run rftp put --accept-new --json --prot clear "$tmp/file" "$url/through"
	check "a slow network: it arrives" same "$tmp/file" "$tmp/root/through"
	check "a slow network holds the transfer back" python3 -c 'import json, sys
stages = [json.loads(line) for line in open(sys.argv[1])][-1]["stages"]
print("#", stages)
sys.exit(max(stages, key=stages.get) != "network")' "$tmp/out"
	tc qdisc del dev lo root
else
	skip "a slow network" "the guest's kernel limits no rate"
fi
finish
