#!/bin/bash
# shellcheck disable=SC2034,SC2317 # for lib.sh; check calls them
# The log of rftpd's three processes: the monitor alone has it open, and names the process of each
# line. TAP.
. "${top_srcdir:?}/tests/e2e/lib.sh"
. "$lib/processes.bash"
is_root || skip_all "only root's rftpd has more than one process"
need python3

mkdir "$tmp/root"
chmod 755 "$tmp" "$tmp/root"
random "$tmp/root/big" 200000
log=$tmp/the.log

# value KEY LINE...: of a line of the log
value() {
	local key=$1
	shift
	python3 -c 'import json, sys; print(json.loads(sys.argv[2])[sys.argv[1]])' "$key" "$*"
}
line_with() { grep -- "$1" "$log" | tail -n 1; }
shows() { grep -qs -- "$1" "$log"; }

start_server d --root "$tmp/root" --anonymous ro --log "$log" --log-format json
hold a
hold b
check "two clients log in" test "$(tell a "login anonymous x") $(tell b "login anonymous x")" = "230 230"
four() { [ "$(children "$server" | wc -w)" = 4 ]; }
check "which makes four processes" patience 10 four
for p in $(children "$server"); do kinds "$p" | comment; done

# ---- open files ----

for p in $(with_uid "$front_uid"); do
	# To its client, and two to its session.
	check "a preauth process has three sockets and a pipe, and no more" has_open "$p" pipe=1 socket=3
done
for p in $(with_uid "$session_uid"); do
	# Two to its preauth process, and one for the monitor's replies.
	check "a session has these, and its root" has_open "$p" "$(readlink -f "$tmp/root")=1" pipe=1 socket=3
done
has_log() { find "/proc/$1/fd" -lname "$log*" | grep -q .; }
check "the monitor has the log" has_log "$server"
# Sockets and pipes by their numbers: no process can read or write for another. A pipe has two ends.
those() { # KIND
	local p
	for p in "$server" $(children "$server"); do
		find "/proc/$p/fd" -lname "$1:*" -printf '%l\n' | sort -u
	done
}
check "sockets are counted" test "$(those socket | wc -l)" = $((1 + 2 * 3 + 2 * 3 + 2))
check "and none is open twice" test -z "$(those socket | sort | uniq -d)"
check "each process has a pipe to the monitor" test "$(those pipe | sort | uniq -d | wc -l)" = 4
check "which only these two have" test "$(those pipe | wc -l)" = 8

# ---- the process of each line ----

session=$(with_uid "$session_uid" | head -n 1)
check "a file is fetched" test "$(tell a "get big")" = 226
check "and by the other" test "$(tell b "get big")" = 226
both() { [ "$(grep -c '"event": *"transfer"' "$log")" = 2 ]; }
check "both are in the log" patience 10 both
line=$(line_with '"transfer"')
check "with the number of bytes" test "$(value bytes "$line")" = 200000
check "who it was" test "$(value user "$line")" = anonymous
check "the pid of the session" grep -qw "$(value pid "$line")" <<<"$(with_uid "$session_uid")"
check "and an address" grep -q '^127.0.0.1:[0-9]*$' <<<"$(value peer "$line")"
check "a line that says it not of itself has it, too" test -n "$(value peer "$(line_with 'connection from')")"
valid() { python3 -c 'import json, sys; [json.loads(l) for l in open(sys.argv[1])]' "$log"; }
check "all lines are JSON" valid

# ---- the log goes elsewhere ----

mv "$log" "$log.1"
kill -HUP "$server"
anew() { shows 'settings read anew'; }
check "it is opened anew" patience 20 anew
check "for sessions that run, too" test "$(tell a "get big")" = 226
transferred() { shows '"event": *"transfer"'; }
check "which say it there" patience 10 transferred
leave a
leave b
check "they end" patience 20 no_children "$server"
check "the server stops well" stops_well

# ---- the last words ----

start_server e --root "$tmp/root" --anonymous ro --log "$log.text"
hold c
check "a third logs in" test "$(tell c "login anonymous x")" = 230
session=$(with_uid "$session_uid")
leave c
check "it ends" patience 20 no_children "$server"
check "its last words are there" grep -q "rftpd\[$session\]: .*127.0.0.1:[0-9]*: the client closed" "$log.text"
stop_server
finish
