#!/bin/bash
# shellcheck disable=SC2034,SC2317 # for lib.sh; check calls them
# A server of several processes reads its settings again: settings that may not change, and
# processes that do not answer. TAP.
. "${top_srcdir:?}/tests/e2e/lib.sh"
. "$lib/processes.bash"
is_root || skip_all "only root's rftpd has more than one process"
need python3

mkdir "$tmp/root" "$tmp/far"
chmod 755 "$tmp" "$tmp/root"
conf=$tmp/rftpd.conf
ours=("${processes[@]}")
processes=()
write_conf() { printf '%s\n' 'anonymous ro' "$@" >"$conf"; }
write_three() { write_conf "user $front_user" "files-user $session_user" "$@"; }
times() { [ "$(grep -c "$1" "$tmp/$name.log")" = "$2" ]; } # TEXT N: so often in the log
begin() { # NAME
	name=$1
	start_server "$name" --config "$conf"
}
is_three() { one_with_uid "$front_uid" && one_with_uid "$session_uid"; }
served() {
	run python3 "$lib/ftp-say.py" "$port" "USER anonymous" "PASS x" PWD
	grep -q '^[0-9.]* 257' "$tmp/out"
}

# ---- one process, or three ----

write_three "root $tmp/root"
begin three
hold a
check "one logs in" test "$(tell a "login anonymous x")" = 230
check "and has processes of his own" patience 10 is_three
leave a
check "which go" patience 20 no_children "$server"
write_three "root $tmp/root" 'one-process yes'
kill -HUP "$server"
check "that it is to be one is refused" patience 20 times 'settings stay as they were' 1
check "by name" times 'one-process cannot be changed' 1
hold b
check "the next logs in" test "$(tell b "login anonymous x")" = 230
check "and has processes as well" patience 10 is_three
leave b
write_three "root $tmp/root" 'max-per-host 7'
kill -HUP "$server"
check "all else may change" patience 20 times 'settings read anew' 1
check "that server stops well" stops_well

write_three "root $tmp/root" 'one-process yes'
begin one
check "one process serves" served
write_three "root $tmp/root"
kill -HUP "$server"
check "that it is to be three is refused" patience 20 times 'settings stay as they were' 1
check "by name" times 'one-process cannot be changed' 1
check "it serves as before" served
check "that one stops well, too" stops_well

# ---- a file system that does not answer ----

python3 "$lib/mute-fs.py" "$tmp/far" </dev/null >"$tmp/mute.out" 2>&1 &
mute=$!
others+=("$mute")
is_mounted() { grep -q mounted "$tmp/mute.out" || gone "$mute"; }
patience 20 is_mounted
if gone "$mute"; then
	skip "a root that does not answer" "$(cat "$tmp/mute.out")"
	finish
fi
mounts+=("$tmp/far")
write_three "root $tmp/root"
begin far
hold c
check "somebody is there" test "$(tell c "login anonymous x")" = 230
write_three "root $tmp/far"
kill -HUP "$server"
check "who is there is served while a root does not answer" test "$(tell c "get no-file")" = 550
check "which is given up" patience 60 times 'root, users and certificates: it takes too long' 1
check "all stays as it was" patience 10 times 'settings stay as they were' 1
leave c
check "new ones are served" served
check "nobody waits for it any more" patience 20 no_children "$server"
check "it stops well" stops_well
finish
