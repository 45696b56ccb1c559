# shellcheck shell=bash disable=SC2034 # slow, port: lib.sh and the test use them
# SPDX-License-Identifier: Apache-2.0
# A test that runs in the guest begins with
#
#	vm_options="--nodes 2"            # for tests/vm/run, may be empty
#	. "${top_srcdir:?}/tests/vm/guest.sh"
#
# On the host this line starts the guest with the script and exits with its status. In the guest it
# sets PATH to this build's programs, sources tests/e2e/lib.sh and tests/vm/net.sh, and returns.
# With vm_boots=N the guest starts N times on the same disk, until a test fails; VM_BOOT is the number
# of the start. The script calls finish each time; cut_power before it cuts the guest's power there.

if [ -z "${RFTP_GUEST:-}" ]; then
	if ! "${top_builddir:?}/rftp" --version | grep -q '+rdma'; then
		echo "1..0 # SKIP built without RDMA"
		exit 0
	fi
	seen_in_guest() {
		local path
		path=$(realpath -- "$1") || exit 1
		case $path in
		/tmp/* | /run/* | /dev/shm/*) echo "/host$path" ;;
		*) echo "$path" ;;
		esac
	}
	# guest OPTION... -- ARGUMENT...
	guest() {
		# shellcheck disable=SC2086,SC2154 # words; the test sets them
		"$top_srcdir/tests/vm/run" $vm_options --env RFTP_GUEST=1 \
			--env "VM_LIMIT=${RFTP_TEST_LIMIT:-600}" \
			--env "top_srcdir=$(seen_in_guest "$top_srcdir")" \
			--env "top_builddir=$(seen_in_guest "$top_builddir")" "$@"
	}
	# The lines of several guests are those of one test.
	one_test() {
		local line n=0 skipped=
		while IFS= read -r line; do
			case $line in
			"1..0 # SKIP"*) skipped=1 ;;
			1..[1-9]*) continue ;;
			esac
			if [[ $line =~ ^((not )?ok )[0-9]+(.*) ]]; then
				n=$((n + 1))
				line=${BASH_REMATCH[1]}$n${BASH_REMATCH[3]}
			fi
			printf '%s\n' "$line"
		done
		[ -n "$skipped" ] || [ $n -eq 0 ] || echo "1..$n"
	}
	# guests N ARGUMENT...: one after another, until a test fails
	guests() (
		kept=$(mktemp "${TMPDIR:-/tmp}/rftp-vm-keep.XXXXXX") || exit 1
		trap 'rm -f "$kept" "$kept.out"' EXIT
		trap 'exit 143' INT TERM HUP
		truncate -s 4G "$kept" && mkfs.ext4 -q "$kept" || exit 1
		for ((boot = 1, ended = 0; boot <= $1 && ended == 0; boot++)); do
			echo "# start $boot"
			guest --keep "$kept" --env "VM_BOOT=$boot" -- "${@:2}" | tee "$kept.out"
			ended=${PIPESTATUS[0]}
			! grep -q -e '^not ok' -e '^1\.\.0' "$kept.out" || break
		done > >(one_test)
		wait $!
		exit "$ended"
	)
	PATH=$PATH:/usr/sbin:/sbin
	if [ -n "${vm_boots:-}" ]; then
		guests "$vm_boots" "$0" "$@"
	else
		guest -- "$0" "$@"
	fi
	status=$?
	if [ "$status" = 77 ]; then
		echo "1..0 # SKIP no QEMU or no Debian kernel here"
		exit 0
	fi
	exit "$status"
fi

PATH=$top_builddir:$PATH
TMPDIR=/dev/shm
. "$top_srcdir/tests/e2e/lib.sh"
. "$top_srcdir/tests/vm/net.sh"

# The guest is to end without being shut down, when the script has: nothing more is written.
cut_power() { : >/run/rftp-vm-cut; }

# Emulated processors are slow.
slow=5

# Show where a test hangs, before its guest is ended: the threads of the programs, the RDMA
# resources and the last lines of the test's files.
show_hang() {
	local pid task
	echo "the guest ends in $((VM_LIMIT / 10)) s; now:"
	for pid in $(pgrep rftp); do
		for task in "/proc/$pid"/task/*; do
			echo "$task $(cat "$task/comm"): $(head -n 4 "$task/stack" | xargs)"
		done
	done
	rdma resource show qp
	rdma resource show cm_id
	grep -E 'CPU|NET|TASKLET' /proc/softirqs
	dmesg | tail -n 5
	tail -n 15 "$tmp/err" "$tmp"/*.log
}
(sleep $((VM_LIMIT * 9 / 10)); show_hang 2>&1 | sed 's/^/# /') &

# As lib.sh has it; Python takes a second to start here.
summary() {
	sed -n '/"event": *"summary"/s/.*"'"$1"'": *"\{0,1\}\([^",}]*\).*/\1/p' "$tmp/out" |
		sed 's/^true$/True/; s/^false$/False/'
}

# counter DEV NAME...: sum of hardware counters of an RDMA device
counter() {
	local dev=$1 name sum=0
	shift
	for name; do
		sum=$((sum + $(cat "/sys/class/infiniband/$dev/ports/1/hw_counters/$name")))
	done
	echo "$sum"
}

# carried DEV: packets that an RDMA device has sent and received
carried() { counter "$1" sent_pkts rcvd_pkts; }
# under_way DEV: half a megabyte has gone since before=$(carried DEV). Waits for it.
under_way() { patience 10 has_carried "$1"; }
has_carried() { [ $(($(carried "$1") - before)) -gt 120 ]; }

# leftovers: RDMA resources that belong to programs (the kernel, which has no pid, has its own
# queue pair and completion queue for each device)
leftovers() {
	local kind
	for kind in qp mr cq pd cm_id; do
		rdma resource show $kind | grep -c ' pid [0-9]'
	done
}
nothing_left() { [ "$(leftovers | sort -u)" = 0 ]; }

# open_server NAME ADDRESS OPTION...: as start_server, for clients on other addresses than loopback; its
# root is $tmp/NAME.root
open_server() {
	local name=$1 address=$2
	shift 2
	mkdir -p "$tmp/$name.root"
	rm -f "$tmp/$name.port"
	${as_server[@]+"${as_server[@]}"} rftpd "${processes[@]}" --listen "$address:0" \
		--root "$tmp/$name.root" --anonymous rw --state "$tmp/$name.state" \
		--port-file "$tmp/$name.port" -v "$@" </dev/null >>"$tmp/$name.log" 2>&1 &
	server=$!
	servers+=("$server")
	patience 20 server_is_up "$name"
	port=$(head -n 1 "$tmp/$name.port")
}
