#!/bin/bash
# shellcheck disable=SC2034,SC2317 # for lib.sh; check calls them
# --memory-budget: an idle session has no share; a transfer gets a share, or "later", and returns it
# however it ends; the limit of locked memory of a session follows its share. TAP.
. "${top_srcdir:?}/tests/e2e/lib.sh"
. "$lib/crowd.bash"
is_root || skip_all "only root's rftpd has more than one process"
need python3

front_user=nobody session_user=daemon
session_uid=$(id -u $session_user)
processes=(--user "$front_user" --files-user "$session_user")
mkdir "$tmp/root" "$tmp/from"
chown $session_user "$tmp/root"
for i in $(seq 9); do random "$tmp/from/f$i" 700000; done
random "$tmp/from/his" 700000
random "$tmp/root/big" 3000000
chmod 644 "$tmp/root/big"
hash=$(echo s3cret | rftpd --hash-password)
echo "bob:$hash:$tmp/root:/:rw" >"$tmp/users"
chmod 600 "$tmp/users"
printf 'machine 127.0.0.1 login bob password s3cret\n' >"$tmp/netrc"
chmod 600 "$tmp/netrc"

start_server d --root "$tmp/root" --anonymous rw --users "$tmp/users" --memory-budget 8M \
	--third-party all
crowd "$tmp/from"
locked() { awk '/^Max locked memory/ {print $(NF-1)}' "/proc/$1/limits"; }
# limits: RLIMIT_MEMLOCK of the sessions, the highest first
limits() {
	local p
	for p in $(children "$server"); do
		[ "$(stat -c %u "/proc/$p" 2>/dev/null)" != 0 ] || continue
		grep -q "^Uid:[[:space:]]*$session_uid" "/proc/$p/status" 2>/dev/null && locked "$p"
	done | sort -n
}
most() { limits | tail -n 1; }
beside=$((64 << 20))

# ---- idle ----

ask idle 12
check "more sessions than there are shares" answers 12
# Not in every container root may make a limit higher: then sessions have the highest at once.
raises=
(ulimit -l 1000 && ulimit -l 2000) 2>/dev/null && raises=1
if [ -n "$raises" ]; then
	check "none may lock more than it needs without a transfer" test "$(most)" = $beside
else
	highest=$((beside + (4 << 20))) own=$(ulimit -H -l)
	[ "$own" = unlimited ] || [ $((own << 10)) -gt $highest ] || highest=$((own << 10))
	check "none may lock more than a share can be" test "$(most)" = $highest
fi

# ---- one user's ----

writing() { grep -c 'files are written by' "$tmp/d.log"; }
under_way() { [ "$(writing)" -ge "$1" ]; }
refused() { grep -q 'memory for a transfer of "anonymous" .* refused' "$tmp/d.log"; }
moving=0
# Each gets a share, until one does not.
for i in $(seq 9); do
	ask put "f$i"
	one_more() { under_way $((moving + 1)) || refused; }
	patience 60 one_more
	! refused || break
	moving=$((moving + 1))
done
check "some get their share, until there is none: $moving" test "$moving" -ge 2 -a "$moving" -lt 9
[ -z "$raises" ] ||
	check "with which they may lock more" test "$(most)" -gt $beside -a "$(most)" -le $((beside + (8 << 20)))
ask status "f$i"
check "who comes then fails as one who can come again" grep -q '^3 ' <<<"$answer"
check "and is told so" grep -q 'memory for transfers is in use; try again later' <<<"$answer"
check "in one line" test "$(wc -l <"$tmp/from/f$i.said")" -eq 1
ask noop
check "who is idle is answered" answers 12
put --netrc "$tmp/netrc" "$tmp/from/his" "rftp://bob@127.0.0.1:$port/his"
check "another user has his own part" status_is 0
check "what he sent is there" same "$tmp/from/his" "$tmp/root/his"
ask finish
check "those with a share end well" answers "$moving"
check "it is what was sent" same "$tmp/from/f1" "$tmp/root/f1"

# ---- given back ----

again() { get "$url/big" "$tmp/got" && [ "$status" -eq 0 ]; }
check "then there is some again" again
check "and it was enough" same "$tmp/root/big" "$tmp/got"
run rftp -c 'get big; get big; get big; get big; get big; get big' --accept-new "$url/" -q
check "one session can have it many times" status_is 0
rm -f big
[ -z "$raises" ] || check "nobody may lock more for it" test "$(most)" = $beside
run rftp bench -q --accept-new --both --size 2M "$url/"
check "both ways of a bench have some, too" status_is 0
put "$tmp/root/big" "$url/no/such/dir/"
check "a transfer that fails" not status_is 0
put "$tmp/root/big" "$url/../../../x/"
for i in 1 2 3 4 5 6 7 8; do run rftp get -q --accept-new "$url/nothing" "$tmp/nothing"; done
check "many that fail" not status_is 0
check "have given back what they had" again

# A session that is ended has nothing more to say.
taken() {
	for i in $(seq 9); do
		before=$(($(wc -l <"$tmp/d.log") + 1))
		ask put "f$i"
		one_more() { tail -n +"$before" "$tmp/d.log" | grep -Eq 'files are written by|transfer of .* refused'; }
		patience 60 one_more
		! tail -n +"$before" "$tmp/d.log" | grep -q 'transfer of .* refused' || return 0
	done
	return 1
}
check "all is taken once more" taken
busy() { # their sessions: those that have threads
	local p
	for p in $(children "$server"); do
		grep -q "^Uid:[[:space:]]*$session_uid" "/proc/$p/status" 2>/dev/null || continue
		[ "$(awk '/^Threads:/ {print $2}' "/proc/$p/status")" -le 1 ] || echo "$p"
	done
}
killed=$(busy)
check "by sessions that work" test -n "$killed"
# shellcheck disable=SC2086 # several
kill -KILL $killed
all_gone() { [ -z "$(busy)" ]; }
check "which are killed" patience 20 all_gone
check "their shares are free" again
crowd_leaves
check "nobody is left" patience 60 no_children "$server"

# ---- between servers ----

there=$url
mkdir "$tmp/other"
chown $session_user "$tmp/other"
start_server e --root "$tmp/other" --anonymous rw --memory-budget 8M --third-party all
run rftp cp -q --accept-new "$there/big" "$url/big"
check "copies from server to server" status_is 0
check "have their shares at both" same "$tmp/root/big" "$tmp/other/big"
run rftp cp -q --accept-new "$there/big" "$url/big2"
check "and give them back" same "$tmp/root/big" "$tmp/other/big2"
stop_server
finish
