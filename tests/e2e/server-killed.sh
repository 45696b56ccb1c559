#!/bin/bash
# shellcheck disable=SC2034,SC2317 # for lib.sh; check calls them
# A session ends in the middle of a transfer, in each way that the system has: SIGKILL, a filter of
# system calls, no memory left. Its client notices at once, no half file has its name, the other
# transfers continue, and the monitor is as before. TAP.
if [ -w /dev/shm ]; then
	TMPDIR=/dev/shm # a group's limit of memory counts files that are there
fi
. "${top_srcdir:?}/tests/e2e/lib.sh"
. "$lib/memory-group.bash"
. "$lib/call-in.bash"
is_root || skip_all "only root's rftpd has more than one process"
need python3 curl

session_user=daemon
processes=(--user nobody --files-user "$session_user")
mkdir "$tmp/root"
chown "$session_user" "$tmp/root"
random "$tmp/big" 24000000
cp "$tmp/big" "$tmp/root/there"
start_server d --root "$tmp/root" --anonymous rw
run rftp ls --accept-new "$url/"
patience 10 no_children "$server"

# The monitor's open files and shared memory
monitor_has() {
	find "/proc/$server/fd" -mindepth 1 -printf '%l\n' | sed 's/:\[.*//' | sort | uniq -c
	grep -c -e /dev/shm -e memfd "/proc/$server/maps"
}
monitor_has >"$tmp/at-first"
as_at_first() { monitor_has | cmp -s - "$tmp/at-first"; }
shared() { awk 'END { print NR }' /proc/sysvipc/shm; }
shared_at_first=$(shared)

sessions() {
	local p
	for p in $(children "$server"); do
		! grep -qs "^Uid:.$(id -u $session_user)" "/proc/$p/status" || echo "$p"
	done
}
n_sessions() { [ "$(sessions | wc -l)" = "$1" ]; }

# begin NAME put|get|upload RATE: a transfer in the background
declare -A client
begin() {
	local name=$1
	case $2 in
	put) rftp put -q --block 64K --rate "$3" --retries 0 "$tmp/big" "$url/$name" ;;
	get) rftp get -q --block 64K --rate "$3" --retries 0 "$url/there" "$tmp/$name" ;;
	upload) curl -sSk --ssl-reqd --limit-rate "$3" -T "$tmp/big" "ftp://127.0.0.1:$port/$name" ;;
	esac </dev/null >"$tmp/$name.out" 2>"$tmp/$name.err" &
	client[$name]=$!
	others+=($!)
}
has_part() { find "$tmp/root" "$tmp" -maxdepth 1 -name '.rftp-*' ! -name '*.j' -size +100k | grep -q .; }

# by_kill SIGNAL PID
by_kill() { kill "-$1" "$2"; }

# one HOW NAME SIGNAL COMMAND...: the session of a transfer NAME ends by COMMAND and its pid
one() {
	local how=$1 what=$2 signal=$3 began doomed other log
	shift 3
	rm -f "$tmp/doomed" "$tmp/root/doomed"
	begin doomed "$what" 100K
	patience 30 n_sessions 1
	doomed=$(sessions)
	begin other put 3M
	patience 30 n_sessions 2
	other=$(sessions | grep -vx "$doomed")
	check "$how, $what: both are under way" patience 30 moves
	log=$(wc -l <"$tmp/d.log")
	"$@" "$doomed"
	check "$how, $what: the session ends" patience 30 gone "$doomed"
	began=$(date +%s)
	check "$how, $what: its client ends" patience 20 gone "${client[doomed]}"
	check "$how, $what: at once" test $(($(date +%s) - began)) -le $((8 * slow))
	wait "${client[doomed]}"
	status=$? ran="$how, $what"
	check "$how, $what: not well ($status)" test $status -ne 0
	check "$how, $what: and says so" test -s "$tmp/doomed.err"
	check "$how, $what: no file has its name" test ! -e "$tmp/root/doomed" -a ! -e "$tmp/doomed"
	check "$how, $what: the log names the signal" patience 10 log_has "$log" \
		"session process $doomed died of signal $(kill -l "$signal") "
	check "$how, $what: the monitor is there" not gone "$server"
	wait "${client[other]}"
	check "$how, $what: the other goes on, and ends well" test $? = 0
	check "$how, $what: with all of it" same "$tmp/big" "$tmp/root/other"
	check "$how, $what: then no process is left" patience 20 no_children "$server"
	check "$how, $what: the monitor has what it had" patience 5 as_at_first
	check "$how, $what: nor is there memory of theirs" test "$(shared)" = "$shared_at_first"
	rm -f "$tmp/root/other" "$tmp"/.rftp-* "$tmp/root"/.rftp-*
}
moves() { [ "$(sent)" -gt 200000 ]; }
# Bytes that the doomed session has read from or written to anything.
sent() { awk '/^[rw]char/ { n += $2 } END { print n + 0 }' "/proc/$doomed/io"; }
log_has() { tail -n "+$(($1 + 1))" "$tmp/d.log" | grep -q -e "$2"; }

for what in put get upload; do
	one SIGKILL $what KILL by_kill KILL
done
one SIGSYS put SYS by_kill SYS

# ---- a system call that its filter does not know how to forgive ----

by_call() { call_in "$1" 135 0x400000; } # personality(2)
if ! can_call; then
	skip "a forbidden call" "$why"
else
	one "a forbidden call" put SYS by_call
	check "the log has its number, or says where it is" log_has 0 \
		"process [0-9]*: its filter refused \(system call 135 (personality)\|a system call; the kernel\)"
	one "a forbidden call" get SYS by_call
fi

# ---- no memory left ----

# The pages of a file in memory count as the memory of the session that writes it, and cannot be
# freed.
by_oom() { echo "$1" >"$group/cgroup.procs"; }
if [ "${tmp#/dev/shm/}" = "$tmp" ]; then
	skip "no memory" "no file system in memory here"
elif ! memory_group 2097152; then
	skip "no memory" "no control group can be given a limit of memory here"
else
	one "no memory" put KILL by_oom
fi
put "$tmp/big" "$url/doomed"
check "the same command then completes" status_is 0
check "all of it" same "$tmp/big" "$tmp/root/doomed"
check "it stops well" stops_well
finish
