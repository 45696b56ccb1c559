#!/bin/bash
# shellcheck disable=SC2034 # limit is for lib.sh
# rftp bench: one direction, the other, and both at once in two sessions. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
need python3

mkdir "$tmp/root"
start_server d --root "$tmp/root" --anonymous rw

# is EXPRESSION: a Python expression over the events of the last run: its summary s, its agreements
# all
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
	check "$how: in two sessions" test "$new" -eq 2
done
bench --both --memory 64M
check "the memory is shared" is 'len(all) == 2 and max(e["pool_" + w] for e in all for w in ("source", "sink")) <= 32 << 20'

if has_faults; then
	# Each through its control connection alone.
	RFTP_FAULT='connect:ECONNREFUSED:after=2' bench --both
	check "in-band, both at once" status_is 0
	check "in-band" is 's["transport"] == "in-band"'
	check "in-band: all of each" is "$ways"
	check "in-band: in two sessions" test "$new" -eq 2

	# A channel less costs nothing.
	RFTP_FAULT='cut:after=50M:count=1' bench --both --channels 3
	check "a channel is cut" status_is 0
	check "a channel is lost, once" is 's["channels_lost"] == 1'
	check "all of each all the same" is "$ways"
else
	skip "channels that fail" "$no_faults"
fi

# stopped SIGNAL PID: in the middle of both
sessions() { children "$server"; }
# signal_sessions SIGNAL: to both of them
signal_sessions() {
	local pids
	mapfile -t pids < <(sessions)
	[ ${#pids[@]} -eq 2 ] && kill "-$1" "${pids[@]}"
}
begin_both() {
	: >"$tmp/out" # the output of the last run is no sign of this one
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
check "both sessions are killed" signal_sessions KILL
check "the sessions are gone: 4" ended_with 4
check "each way says so" test "$(grep -c 'closed the connection' "$tmp/err")" -eq 2
begin_both
check "both sessions are stopped" signal_sessions STOP
sleep 0.5
kill -TERM "$client"
check "a server that stands still is left" ended_with 4
signal_sessions CONT
check "and is through once it goes on" patience 10 no_children "$server"

# One direction is lost: the other one ends well.
: >"$tmp/out"
rftp bench --accept-new --both --json --time 5 "$url" >"$tmp/out" 2>"$tmp/err" </dev/null &
client=$!
others+=("$client")
patience 20 grep -q '"interval"' "$tmp/out"
kill -KILL "$(sessions | head -n 1)"
check "one of the sessions is killed: 4" ended_with 4
check "one direction says so" test "$(grep -Ec '^rftp: (put|get): .*closed the connection' "$tmp/err")" -eq 1
check "the other one took its time" is 's["seconds"] > 4'
check "the sum is its bytes" is 's["bytes"] > 0 and s["bytes"] in [w["bytes"] for w in s["ways"].values()]'
check "the server ends well" stops_well

# ---- a server with room for one session ----

start_server one --root "$tmp/root" --anonymous rw --max-per-host 1
run rftp ls -q --accept-new "$url/" # its key is known then
patience 20 no_children "$server"   # that session must not count
run rftp bench --both --json --size 1M "$url"
check "no second session: 3" fails_with 3 '^rftp: --both needs a second session: 127.0.0.1 answers 421 Too many sessions from your host'
check "nothing has begun" test "$(grep -c started "$tmp/out")" -eq 0
check "the summary says why" is 's["exit"] == 3 and "second session" in s["error"]'
patience 20 no_children "$server"
run rftp bench --size 1M "$url"
check "one direction has a session" status_is 0
check "this server ends well, too" stops_well
finish
