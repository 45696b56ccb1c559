#!/bin/bash
# shellcheck disable=SC2034,SC2317 # for lib.sh; check calls them
# Five hundred idle sessions, and sixty-four transfers at once, by three processes: the cost of a
# session, that two processors serve all, and that nothing is left of them. TAP.
. "${top_srcdir:?}/tests/e2e/lib.sh"
. "$lib/crowd.bash"
is_root || skip_all "only root's rftpd has more than one process"
need python3 taskset

front_user=nobody session_user=daemon
processes=(--user "$front_user" --files-user "$session_user")
many=500 moving=64
# Those of sanitizers take fifty times the memory, and valgrind's the time.
if sanitized || [ "$slow" -gt 1 ]; then
	many=20 moving=6
fi

mkdir "$tmp/root" "$tmp/from"
chown $session_user "$tmp/root"
for i in $(seq $moving); do random "$tmp/from/f$i" 2000000; done
# On two processors, though there may be more.
as_server=(taskset -c "$(python3 -c 'import os; print(*sorted(os.sched_getaffinity(0))[:2], sep=",")')")
start_server d --root "$tmp/root" --anonymous rw --max-sessions $((many + 100)) \
	--max-per-host $((many + 100)) --memory-budget 1G --login-timeout 1h
fds() { find "/proc/$server/fd" -type l | wc -l; }
fds_before=$(fds)
crowd "$tmp/from"

# ---- idle sessions ----

# The cost of the first sessions includes the memory that all share.
more=$((many - 5))
ask idle 5
ask cost "$server"
before=$answer
ask strangers $more
check "$many are greeted" answers $more
ask cost "$server"
stranger=$(((answer - before) / more))
ask login
check "all log in" answers $more
comment <"$tmp/crowd.err"
[ "$answer" = "$more" ] || grep -v -e debug -e "login of" "$tmp/d.log" | tail -n 5 | comment
ask cost "$server"
cost=$(((answer - before) / more))
comment <<<"a stranger takes $stranger kB, an idle session $cost kB"
if sanitized || [ "$slow" -gt 1 ]; then
	skip "an idle session takes less than 3 MB" "not what it is without other tools"
else
	check "an idle session takes less than 3 MB" test "$cost" -gt 100 -a "$cost" -lt 3000
fi
# kB, the highest first
stacks() {
	local p
	for p in $(children "$server"); do
		sed -n '/\[stack\]$/,/^VmFlags/s/^Rss: *\([0-9]*\) kB/\1/p' "/proc/$p/smaps"
	done | sort -n | tail -n 1
}
comment <<<"the largest stack: $(stacks) kB"
if sanitized; then
	skip "hardly any of it for their stacks" "sanitizers need more"
else
	check "hardly any of it for their stacks" test "$(stacks)" -lt 128
fi

# ---- some of them busy ----

for i in $(seq $moving); do ask put "f$i" --block 64K --ack written; done >/dev/null
under_way() { [ "$(grep -c 'files are written by' "$tmp/d.log")" -eq $moving ]; }
check "$moving more begin a transfer" patience 120 under_way
check "none of which can have ended" not grep -q ' by anonymous from .*: ok' "$tmp/d.log"
ask noop
check "all who are idle are answered meanwhile" answers $many
ask move "$server" 6
check "and while all of them move" answers $many
check "none of which has ended" not grep -q ' by anonymous from .*: ok' "$tmp/d.log"
ask finish
check "all transfers end well" answers $moving
all_same() {
	local i
	for i in $(seq $moving); do
		same "$tmp/from/f$i" "$tmp/root/f$i" || return
	done
}
check "with what was sent" all_same
ask noop
check "who was idle is there still" answers $many

# ---- and gone ----

crowd_leaves
check "no process stays" patience 60 no_children "$server"
check "nor a descriptor of the monitor's" test "$(fds)" = "$fds_before"
check "nothing was wrong" not grep -Eq ' (error|warning): ' "$tmp/d.log"
check "it stops well" stops_well
finish
