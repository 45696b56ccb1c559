# shellcheck shell=bash disable=SC2034,SC2154 # for who sources this; say, die, build: its
# SPDX-License-Identifier: Apache-2.0
# What bench/iser and bench/spread share: a guest of two nodes, in it targets on each node and
# an initiator, which is the same guest, with their disks. Sourced.

LC_ALL=C
export LC_ALL
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd) || exit 1

# numbers WORD...: each is one, from 1 on
numbers() {
	local number
	for number; do
		case $number in *[!0-9]* | 0* | '') die "'$number': a number from 1 on" ;; esac
	done
}

# find_build GIVEN: build, where the programs are
find_build() {
	build=$1
	if [ -z "$build" ]; then
		for build in . "${top_builddir:-.}" "$here/.." "$here/../build"; do
			[ -x "$build/rftp-iser" ] && break
		done
	fi
	[ -x "$build/rftpd" ] && [ -x "$build/rftp-iser" ] && build=$(cd "$build" && pwd) ||
		die "no rftp-iser${1:+ in $1}: build first, or --build DIR"
}

# in_guest MEMORY OUT ARGUMENT...: on the host the script again, with these, in a guest; OUT is a
# directory for what is to stay, or empty. In the guest, and only there, it comes back.
in_guest() {
	local memory=$1 out=$2 seen=$build status
	shift 2
	[ ! -e /vm/environment ] || return 0
	case $build in /tmp/* | /run/* | /dev/shm/*) seen=/host$build ;; esac
	"$here/../tests/vm/run" --nodes 2 --cpus 2 --nics 2 --topology cards --memory "$memory" \
		--timeout 7200 ${out:+--logs "$out"} -- \
		"$0" "$@" --build "$seen" ${out:+--out /logs}
	status=$?
	[ $status != 77 ] || say "no guest here: scripts/deps vm"
	exit $status
}

# guest_up MODULE...: modules, tools, and a name for the initiator; work is a directory in memory
guest_up() {
	local tool
	PATH=$build:$PATH
	for tool in iscsiadm iscsid numactl python3; do
		command -v "$tool" >/dev/null || die "no $tool here: scripts/deps vm"
	done
	modprobe -a target_core_mod iscsi_target_mod ib_isert ib_iser iscsi_tcp sd_mod "$@" ||
		die "this kernel has no iSER"
	work=$(mktemp -d -p /dev/shm) || exit 1
	export RFTP_ISER_STATE=$work/iser
	export XDG_CONFIG_HOME=/nonexistent HOME=$work # nobody's rftp.conf
	mkdir -p /etc/iscsi /run/lock
	echo "InitiatorName=iqn.2026-01.org.example:bench" >/etc/iscsi/initiatorname.iscsi
}

# serve NAME TRANSPORT PORT ARGUMENT...: a target on each node with the back stores of these
# arguments of rftp-iser plan
serve() {
	local name=$1 transport=$2 port=$3
	shift 3
	rftp-iser plan --name "$name" --iqn iqn.2026-01.org.example --open --node 0,1 \
		--mounts "$work/mounts" --portal "0=10.0.0.1:$port" --portal "1=10.0.0.2:$port" \
		"$@" 2>"$work/errors" >"$work/$name.json" || die "plan: $(head -n 1 "$work/errors")"
	[ "$transport" = iser ] || sed -i 's/"iser": *true/"iser": false/' "$work/$name.json"
	rftp-iser apply "$work/$name.json" >"$work/apply" 2>"$work/errors" ||
		die "apply: $(head -n 1 "$work/errors")"
}

# log_in NAME TRANSPORT ARGUMENT...: to both targets; disks are theirs, by node. libiscsi may
# answer iscsid while it has not done with its question, and refuse the next one then ("Login/Text
# in progress"): where processors wait for each other that is common, so it is tried again.
log_in() {
	local name=$1 transport=$2 try
	shift 2
	for try in 1 2 3 4 5 6; do
		if rftp-iser login --plan "$work/$name.json" --transport "$transport" --json "$@" \
			>"$work/login" 2>"$work/errors"; then
			mapfile -t disks < <(python3 -c '
import json, sys
for disk in sorted(json.load(sys.stdin)["disks"], key=lambda disk: disk["target"]):
    print(disk["device"] if disk["device"][0] == "/" else "/dev/" + disk["device"])' <"$work/login")
			return
		fi
	done
	die "login: $(tail -n 1 "$work/errors")"
}
