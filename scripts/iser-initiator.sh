#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A front end in a line: logs this host in to the iSER targets of a storage host, sets the queues of
# their disks for big files, and mounts them.
#
#   scripts/iser-initiator.sh [OPTION...] ADDRESS...
#   scripts/iser-initiator.sh [OPTION...] --plan FILE
#   scripts/iser-initiator.sh --down [--mount DIR] [--plan FILE | ADDRESS...]
#
#   ADDRESS          of the storage host's cards
#   --plan FILE      the storage host's plan instead, which names addresses and secrets; the
#                    secrets are here, too, where it says
#   --user NAME, --secret-file FILE, --mutual-user NAME, --mutual-secret-file FILE
#                    CHAP when there is no plan, as rftp-iser login has it
#   --transport KIND iser, or tcp for plain iSCSI
#   --stripe KIND    one device of all disks: md or lvm
#   --mkfs           make XFS on it, or on each disk
#   --yes            --stripe and --mkfs may destroy the data on the disks
#   --mount DIR      mount it there; several disks at DIR/1, DIR/2 and so on, each by a program
#                    on the node of its card
#   --down           unmount the filesystems of this script (at DIR of --mount) and log out, of all
#                    targets when none is named
#   --help           this text
#
# rftp-iser login does all but the mounting: rftp-iser(8). Status: 0; 1 when it could not be done;
# 2 for wrong arguments.

set -u

. "$(dirname "${BASH_SOURCE[0]}")/iser.bash" || exit 1
down='' mount='' plan=''
words=() which=()

while [ $# -gt 0 ]; do
	case $1 in
	--plan | --user | --secret-file | --mutual-user | --mutual-secret-file | --transport | --stripe | --mount)
		[ $# -gt 1 ] || wrong "$1 needs a value" ;;
	esac
	case $1 in
	--plan) plan=$2; shift ;;
	--user | --secret-file | --mutual-user | --mutual-secret-file | --transport | --stripe)
		words+=("$1" "$2"); shift ;;
	--mkfs | --yes) words+=("$1") ;;
	--mount) mount=$2; shift ;;
	--down) down=1 ;;
	-h | --help) usage; exit 0 ;;
	-*) wrong "'$1' is not known" ;;
	*) which+=("$1") ;;
	esac
	shift
done

find_iser

# An option for mount(8) only: it marks the mounts of this script until they are unmounted.
mark=x-rftp-iser
is_ours() { findmnt --mtab -n -O $mark --mountpoint "$1" >/dev/null; }

[ -z "$plan" ] || which+=(--plan "$plan")

if [ -n "$down" ]; then
	[ ${#words[@]} -eq 0 ] || wrong "--down takes --mount, and --plan or addresses"
	if [ -n "$mount" ]; then
		for place in "$mount"/[0-9]* "$mount"; do
			! is_ours "$place" || umount "$place" || exit 1
		done
	fi
	[ ${#which[@]} -gt 0 ] || which=(--all)
	"$iser" logout "${which[@]}"
	exit
fi

[ ${#which[@]} -gt 0 ] || wrong "an address of the storage host, or --plan?"
[ "$(id -u)" -eq 0 ] || die "run as root"
told=$("$iser" login --tune "${words[@]}" "${which[@]}") || exit 1
printf '%s\n' "$told"
[ -n "$mount" ] || exit 0

# The commands that login names: "mount    numactl --cpunodebind=1 mount ... /dev/X DIR  (...)".
mapfile -t commands < <(sed -n 's/^ *mount *\(.* \)\{0,1\}mount -o noatime \(.*\) DIR  (.*/\1 \2/p' <<<"$told")
[ ${#commands[@]} -gt 0 ] || die "no disk to mount"
nth=0
for command in "${commands[@]}"; do
	nth=$((nth + 1))
	place=$mount
	[ ${#commands[@]} -eq 1 ] || place=$mount/$nth
	device=${command##* }
	# By number: device-mapper and mount have different names for a device.
	number=$(lsblk -dno MAJ:MIN "$device" | xargs)
	there=$(findmnt -n -o MAJ:MIN --mountpoint "$place" | xargs)
	if [ -n "$number" ] && [ "$there" = "$number" ]; then
		echo "$device is mounted on $place already"
		continue
	fi
	mkdir -p "$place" || exit 1
	# shellcheck disable=SC2086 # words
	${command% *} mount -o noatime,$mark "$device" "$place" ||
		die "$device is not mounted on $place; it is logged in to all the same"
	echo "$device is mounted on $place"
done
