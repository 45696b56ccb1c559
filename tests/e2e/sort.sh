#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Files on a rotating disk are read in the order in which they lie there. TAP.
. "${top_srcdir:?}/tests/e2e/lib.sh"

need python3
order() { python3 "$lib/disk-order.py" "$@"; }

files=600
loop=
# The device must not stay when its filesystem is gone.
detach() {
	cleanup
	[ -z "$loop" ] || patience 10 losetup -d "$loop"
}

because() { # WHY not
	why=$*
	return 1
}

# A filesystem on a loop device that says it rotates. Why not is in $why.
make_disk() {
	local img=$tmp/disk.img sys
	is_root || because "only root can mount" || return
	truncate -s 256M "$img"
	mkfs.ext4 -q -F "$img" >"$tmp/err" 2>&1 || because "no ext4 can be made" || return
	loop=$(losetup --find --show "$img" 2>/dev/null) || because "no loop device" || return
	trap detach EXIT
	sys=/sys/block/${loop#/dev/}/queue/rotational
	{ echo 1 >"$sys"; } 2>/dev/null
	[ "$(cat "$sys")" = 1 ] || because "$sys cannot be set" || return
	mkdir "$tmp/disk"
	mount "$loop" "$tmp/disk" 2>/dev/null || because "it cannot be mounted" || return
	mounts+=("$tmp/disk")
}

rotates() { echo "$1" >"/sys/block/${loop#/dev/}/queue/rotational"; }

mkdir "$tmp/root"
start_server here --root "$tmp/root" --anonymous rw

# put_watched DIR OPTION...: sets reads, back and turns; one reader, so that there is one
# order. A rate keeps it from reading each file as soon as it is found.
put_watched() {
	local dir=$1
	shift
	sync -f "$dir"
	rm -rf "$tmp/root/to"
	run python3 "$lib/disk-order.py" watch "$dir" rftp put -v -r --accept-new --readers 1 \
		--block 64K --rate 3M --prot clear --ack received "$@" "$dir/" "$url/to"
	read -r _ reads _ back _ turns < <(grep '^reads ' "$tmp/out")
	: "${reads:=0}" "${back:=0}" "${turns:=0}"
	comment <<<"$reads files, $back lie before the one before, $turns turns to another"
}

sent_well() { status_is 0 && same_trees "$dir" "$tmp/root/to" && [ "$reads" -eq "$files" ]; }
# The first few may be read before the others are known.
in_order() { [ "$back" -le 8 ]; }
says_so() { grep -q 'in the order in which they lie' "$tmp/err"; }
says_rotating() { grep -q 'a rotating disk: ' "$tmp/err"; }

# ---- on request, wherever the filesystem tells ----

dir=$tmp/any
mkdir "$dir"
if order place "$dir"; then
	order shuffle "$dir" "$files"
	put_watched "$dir" --sort none
	check "--sort none: all is sent" sent_well
	check "it goes by the directories" not in_order
	check "nothing is said of an order" not says_so
	put_watched "$dir" --sort physical
	check "--sort physical: all is sent" sent_well
	check "it goes by the places on the disk" in_order
	check "-v says so" says_so
	put_watched "$dir" --sort physical --skip-existing
	check "files that wait for a verdict are sorted, too" in_order
	echo "sort = physical" >"$tmp/conf"
	put_watched "$dir" --config "$tmp/conf"
	check "rftp.conf can say it" says_so
else
	skip "--sort physical" "the filesystem of $tmp does not tell where files lie"
fi

# ---- by itself ----

why=
if make_disk; then
	dir=$tmp/disk/tree
	mkdir "$dir"
	order shuffle "$dir" "$files"
	put_watched "$dir"
	check "from a rotating disk: all is sent" sent_well
	check "in the order of the disk" in_order
	check "and -v says so" says_rotating
	put_watched "$dir" --sort none
	check "but not with --sort none" not in_order
	rotates 0
	put_watched "$dir"
	check "nor from one that does not rotate" not in_order
	check "of which nothing is said" not says_so
	rotates 1
	# Two readers and two files: together at one of them, or each at its own.
	mkdir "$tmp/disk/two"
	random "$tmp/disk/two/a" 3M # below the size from which files wait for an answer of the sink
	random "$tmp/disk/two/b" 3M
	put_watched "$tmp/disk/two" --readers 2 --rate 20M
	check "two readers are together at one file of a rotating disk" [ "$turns" -le 8 ]
	rotates 0
	put_watched "$tmp/disk/two" --readers 2 --rate 20M
	check "and each at its own where nothing rotates" [ "$turns" -gt 20 ]
	rotates 1

	# The trees above are too small to measure a disk. This one is not; a loop device has no heads.
	mkdir "$tmp/disk/far"
	for i in 1 2 3 4 5 6; do random "$tmp/disk/far/$i" 20M; done
	sync -f "$tmp/disk"
	run rftp put -vv --accept-new -r "$tmp/disk/far/" "$url/far"
	check "a disk that only says that it rotates: all is sent" same_trees "$tmp/disk/far" "$tmp/root/far"
	took=$(sed -n 's/.*reads of 1[0-9] distant places took \([0-9]*\) us.*/\1/p' "$tmp/err" | head -n 1)
	comment <<<"a distant place takes ${took:-?} us"
	check "its reads are timed, once" test "$(grep -c 'distant places took' "$tmp/err")" = 1
	if [ "${took:-1500}" -lt 1500 ]; then
		check "it is no rotating disk" not says_rotating
	else
		skip "it is no rotating disk" "this machine is too slow just now"
	fi

	start_server disk --root "$tmp/disk" --anonymous ro
	get -r --prot clear "$url/tree/" "$tmp/back"
	check "a server's rotating disk: all arrives" same_trees "$dir" "$tmp/back"
	check "its log says so" grep -q 'a rotating disk: ' "$tmp/disk.log"
	check "the server ends well" stops_well
else
	skip "a rotating disk" "$why"
fi

check "no part is left" no_parts "$tmp/root"
finish
