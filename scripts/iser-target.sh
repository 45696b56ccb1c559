#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A storage host in a line: of the memory of each NUMA node a tmpfs bound to it (mpol=bind), served
# by iSER as a target of its own, through the network card of that node.
#
#   scripts/iser-target.sh --size SIZE --initiator IQN [OPTION...]
#   scripts/iser-target.sh --down [--name NAME] [--force]
#
#   --size SIZE      of each node's tmpfs: 16G
#   --initiator IQN  a host that may log in, as its /etc/iscsi/initiatorname.iscsi has it; may be
#                    repeated. Each gets a CHAP secret
#   --name NAME      of the plan (the host's)
#   --iqn PREFIX     prefix of the targets' names: iqn.2026-01.org.example; by default as in the
#                    existing plan, else made of this month and the host's domain
#   --node LIST      only these nodes
#   --tcp            plain iSCSI where no card has RDMA
#   --dir DIR        where plan and secrets are: /etc/rftp-iser
#   --down           remove all targets, and the data in memory; plan and secrets stay
#   --force          also while initiators are logged in
#   --help           this text
#
# The plan is DIR/NAME.json: rftp-iser applies and verifies it. The last line of the output is the
# command to run on the other host. rftp-iser(8) itself can do more (disks, files, other addresses).
# Status: 0; 1 when it failed; 2 for wrong arguments.

set -u

. "$(dirname "${BASH_SOURCE[0]}")/iser.bash" || exit 1
dir=/etc/rftp-iser
size='' name='' iqn='' down='' force=()
words=() initiators=()

while [ $# -gt 0 ]; do
	case $1 in
	--size | --initiator | --name | --iqn | --node | --dir) [ $# -gt 1 ] || wrong "$1 needs a value" ;;
	esac
	case $1 in
	--size) size=$2; shift ;;
	--initiator) initiators+=("$2"); shift ;;
	--name) name=$2; shift ;;
	--iqn) iqn=$2; shift ;;
	--node) words+=("$1" "$2"); shift ;;
	--dir) dir=$2; shift ;;
	--tcp) words+=("$1") ;;
	--down) down=1 ;;
	--force) force=(--force) ;;
	-h | --help) usage; exit 0 ;;
	*) wrong "'$1' is not known" ;;
	esac
	shift
done

find_iser

[ -n "$name" ] || { name=$(uname -n) && name=${name%%.*}; }

if [ -n "$down" ]; then
	[ ${#words[@]} -eq 0 ] && [ ${#initiators[@]} -eq 0 ] && [ -z "$size$iqn" ] ||
		wrong "--down takes --name and --force alone"
	"$iser" remove "${force[@]}" "$name"
	exit
fi

[ -n "$size" ] || wrong "--size: how much of each node's memory?"
[ ${#initiators[@]} -gt 0 ] || wrong "--initiator: name the hosts that may log in"
[ ${#force[@]} -eq 0 ] || wrong "--force goes with --down"
[ "$(id -u)" -eq 0 ] || die "run as root"

# Changes that an administrator made to the plan must not be lost.
(umask 077 && mkdir -p "$dir") || exit 1
dir=$(cd "$dir" && pwd) || exit 1
plan=$dir/$name.json
# Nor are the targets to be others, which hold nothing, because it is another month.
[ -n "$iqn" ] || [ ! -e "$plan" ] ||
	iqn=$(sed -n 's/.*"iqn": *"\(iqn\.[^":]*\):.*/\1/p' "$plan" | head -n 1)
[ -z "$iqn" ] || words+=(--iqn "$iqn")
new=$(mktemp "$dir/.plan.XXXXXX") || exit 1
trap 'rm -f "$new"' EXIT
"$iser" plan --name "$name" --tmpfs "$size" --policy bind --chap generate --secrets "$dir" \
	"${initiators[@]/#/--initiator=}" "${words[@]}" --force --out "$new" || exit 1
if [ -e "$plan" ] && ! cmp -s "$new" "$plan"; then
	die "$plan is another plan: apply that one (rftp-iser apply $plan), remove it, or take another --name"
fi
# A plan that cannot be applied is not one to stay.
"$iser" apply "$new" || exit 1
mv "$new" "$plan" || exit 1
status=0
"$iser" verify "$name" || status=1

echo
for initiator in "${initiators[@]}"; do
	echo "On the host of $initiator, as root:"
	from=root@$(uname -n):$dir/$name
	echo "mkdir -p -m 700 $dir && scp -p '$from.json' '$from.$initiator.chap' $dir/ && scripts/iser-initiator.sh --plan $plan --mkfs --mount /mnt"
done
exit $status
