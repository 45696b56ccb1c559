#!/bin/bash
# shellcheck disable=SC2034,SC2317 # for lib.sh; check calls them
# Settings are read anew by a server of several processes: what may not change. TAP.
. "${top_srcdir:?}/tests/e2e/lib.sh"
. "$lib/processes.bash"
is_root || skip_all "only root's rftpd has more than one process"
need python3

mkdir "$tmp/root"
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

finish
