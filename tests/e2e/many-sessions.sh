#!/bin/bash
# shellcheck disable=SC2034,SC2317 # for lib.sh; check calls them
# Sessions in a row, each with a login over TLS, a put and a get: the server keeps no descriptor, no
# memory, no thread and no process of them, nor does one shell of rftp that connects as often. TAP.
# E2E_SESSIONS=10000 takes half an hour.

. "${top_srcdir:?}/tests/e2e/lib.sh"
need python3

sessions=${E2E_SESSIONS:-100}
growth=$((400 + sessions / 20)) # kB
! sanitized || growth=250000 # freed memory is kept for a while
limit=7200
mkdir "$tmp/root" "$tmp/here"
random "$tmp/file" 20000
if is_root; then three_processes; fi
start_server main --root "$tmp/root" --anonymous rw
run rftp put -q --accept-new "$tmp/file" "$url/file"

fds() { find "/proc/$1/fd" -type l | wc -l; }
# "descriptors threads kB" of a process
state() { echo "$(fds "$1") $(find "/proc/$1/task" -mindepth 1 -maxdepth 1 | wc -l) $(awk '/^VmRSS/ { print $2 }' "/proc/$1/status")"; }
# no_more BEFORE AFTER: as many descriptors and threads, and hardly more memory
no_more() {
	local b a
	read -ra b <<<"$1"
	read -ra a <<<"$2"
	[ "${a[0]}" -le "${b[0]}" ] && [ "${a[1]}" -le "${b[1]}" ] && [ $((a[2] - b[2])) -le "$growth" ]
}

# some N: sessions, two at a time
failures=$tmp/failures
some() {
	# shellcheck disable=SC2016 # of the inner shell
	seq "$1" | xargs -P 2 -I@ sh -c 'rftp put -q "$1" "$2/to@" && rftp get -q "$2/to@" "$3/@" &&
		cmp -s "$1" "$3/@" && rm "$3/@" "$4/to@" || echo @ >>"$5"' sh "$tmp/file" "$url" "$tmp/here" "$tmp/root" "$failures"
}
some 10
patience 20 no_children "$server"
before=$(state "$server")
some $((sessions / 2))
check "$sessions sessions: all transfers are whole" test ! -s "$failures"
check "no process stays" patience 20 no_children "$server"
after=$(state "$server")
comment <<<"the server's descriptors, threads, kB: $before before, $after after $sessions sessions"
check "no descriptor, thread or memory of the server's stays" no_more "$before" "$after"

# One process of the client, as many connections.
lines() { # N
	local i
	for i in $(seq "$1"); do
		printf 'open %s\nput %s to\nget to %s\nclose\n' "$url" "$tmp/file" "$tmp/here/back"
	done
}
# rftp closes its pipe to a new child only after the child's exec: wait for that before counting.
# shellcheck disable=SC2016 # for the shell of the shell
{
	lines 10
	echo '!sleep 1; ls /proc/$PPID/fd | wc -l; ls /proc/$PPID/task | wc -l; grep VmRSS /proc/$PPID/status | tr -dc "0-9\\n"'
	lines $((sessions / 2))
	echo '!sleep 1; ls /proc/$PPID/fd | wc -l; ls /proc/$PPID/task | wc -l; grep VmRSS /proc/$PPID/status | tr -dc "0-9\\n"'
} >"$tmp/script"
run rftp -q -b "$tmp/script"
check "a shell with $((sessions / 2)) connections" status_is 0
grep -E '^ *[0-9]+$' "$tmp/out" | tr '\n' ' ' >"$tmp/numbers"
read -ra n <"$tmp/numbers"
before="${n[*]:0:3}" after="${n[*]:3:3}"
comment <<<"the shell's descriptors, threads, kB: $before before, $after after"
check "no descriptor, thread or memory of its own stays" no_more "$before" "$after"
check "the last file is whole" same "$tmp/file" "$tmp/here/back"
check "the server ends well" stops_well
finish
