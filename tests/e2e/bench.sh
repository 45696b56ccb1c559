#!/bin/bash
# shellcheck disable=SC2034 # limit is for lib.sh
# rftp bench: one direction, the other, and both at once in one session. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
need python3

mkdir "$tmp/root"
start_server d --root "$tmp/root" --anonymous rw

# is EXPRESSION: of Python, over what the last run said: its summary s, its agreements all
is() {
	python3 -c 'import json, sys
events = [json.loads(l) for l in open(sys.argv[1])]
s, all = events[-1], [e for e in events if e["event"] == "started"]
sys.exit(not eval(sys.argv[2]))' "$tmp/out" "$1"
}
ways='s["ways"]["put"]["bytes"] == s["ways"]["get"]["bytes"] == 314572800'
# logins: how many there have been
logins() { grep -c 'info: login of' "$tmp/d.log"; }
# bench OPTION...: with its number of logins in new
bench() {
	local before
	before=$(logins)
	run rftp bench --accept-new --json --size 300M "$@" "$url"
	new=$(($(logins) - before))
}

for way in put get; do
	bench "--$way"
	check "$way" status_is 0
	check "$way: all of it" is 's["bytes"] == 314572800'
	check "$way: nothing else" is "list(s['ways']) == ['$way']"
done

for how in private safe clear; do
	bench --both --prot $how
	check "both at once, $how" status_is 0
	check "$how: all of each" is "$ways"
	check "$how: the sum" is 's["bytes"] == 629145600'
	check "$how: agreed as asked, each way" is "sorted((e['way'], e['prot']) for e in all) == [('get', '$how'), ('put', '$how')]"
	check "$how: at the same time" is 's["seconds"] < .9 * (s["ways"]["put"]["seconds"] + s["ways"]["get"]["seconds"])'
	check "$how: in one session" test "$new" -eq 1
done
bench --both --memory 64M
check "the memory is shared" is 'len(all) == 2 and max(e["pool_" + w] for e in all for w in ("source", "sink")) <= 32 << 20'

# Through the control connection alone, each in its lane.
RFTP_FAULT_TRANSPORT='connect:ECONNREFUSED:after=1' bench --both
check "in-band, both at once" status_is 0
check "in-band" is 's["transport"] == "in-band"'
check "in-band: all of each" is "$ways"
check "in-band: in one session" test "$new" -eq 1

# A channel less costs nothing.
RFTP_FAULT_TRANSPORT='cut:after=50M:count=1' bench --both --channels 3
check "a channel is cut" status_is 0
check "a channel is lost, once" is 's["channels_lost"] == 1'
check "all of each all the same" is "$ways"

# stopped SIGNAL WHOM: in the middle of both
session() { children "$server"; }
begin_both() {
	: >"$tmp/out" # what the one before has said is no sign of this one
	rftp bench --accept-new --both --time 60 "$url" >"$tmp/out" 2>"$tmp/err" </dev/null &
	client=$!
	others+=("$client")
	patience 20 grep -q ' s ' "$tmp/out"
}
ended_with() { # STATUS
	patience 10 gone "$client" || return 1
	wait "$client"
	status=$?
	[ "$status" -eq "$1" ]
}
begin_both
kill -TERM "$client"
check "stopped: 4" ended_with 4
check "stopped: each way says so" test "$(grep -c 'interrupted' "$tmp/err")" -eq 2
check "the server is through, too" patience 10 no_children "$server"
begin_both
kill -KILL "$(session)"
check "the session is killed: 4" ended_with 4
check "each way says so" test "$(grep -c 'closed the connection' "$tmp/err")" -eq 2
begin_both
kill -STOP "$(session)"
sleep 0.5
kill -TERM "$client"
check "a server that stands still is left" ended_with 4
kill -CONT "$(session)"
check "and is through once it goes on" patience 10 no_children "$server"

check "the server ends well" stops_well
finish
