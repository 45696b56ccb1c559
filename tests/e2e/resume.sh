#!/bin/bash
# shellcheck disable=SC2034 # ran, status and limit are for lib.sh
# A put and a get that are interrupted go on with what is down, whatever block size, number of channels,
# transport and protection either attempt has. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
need python3

limit=60
size=30000000
mkdir -p "$tmp/root" "$tmp/here"
random "$tmp/big" $size
ln "$tmp/big" "$tmp/root/from"
start_server main --root "$tmp/root" --anonymous rw --prot-min clear
run rftp ls --accept-new "$url/"

# Runs of at least a third of the file are in the journal.
recorded() { # DIRECTORY
	local journal
	journal=$(find "$1" -name '.rftp-*.j')
	[ -n "$journal" ] && python3 -c 'import struct, sys
data = open(sys.argv[1], "rb").read()[64:]
print(sum(struct.unpack(">QI", data[i:i + 12])[1] for i in range(0, len(data) - 31, 32)))' "$journal" |
		{ read -r n && [ "$n" -gt $((size / 3)) ]; }
}

# goes_on put|get FIRST SECOND: FIRST and SECOND are options
goes_on() {
	local dir=$1 first second to what="$1, $2, then $3" client
	read -ra first <<<"$2"
	read -ra second <<<"$3"
	if [ "$dir" = put ]; then
		to=$tmp/root/to command=(rftp put -q --json "$tmp/big" "$url/to/f")
	else
		to=$tmp/here command=(rftp get -q --json "$url/from" "$tmp/here/f")
	fi
	rm -rf "$to" && mkdir "$to"
	# By itself a shell has its background jobs ignore SIGINT.
	python3 -c 'import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execvp(sys.argv[1], sys.argv[1:])' "${command[@]}" --rate 10M "${first[@]}" >"$tmp/out" 2>"$tmp/err" </dev/null &
	client=$!
	others+=("$client")
	ran="${command[*]} ${first[*]}"
	check "$what: a third is down" patience 30 recorded "$to"
	kill -INT "$client"
	wait "$client"
	status=$?
	check "$what: it is interrupted" status_is 4
	run "${command[@]}" "${second[@]}"
	check "$what: it completes" status_is 0
	check "$what: the same bytes" same "$tmp/big" "$to/f"
	check "$what: a third or more is not sent again" test "$(summary resumed)" -gt $((size / 3))
	check "$what: nothing else is there" no_parts "$to"
}
goes_on put "--block 64K" "--block 1M --channels 3 --prot clear"
goes_on put "--block 1M --prot clear" "--block 64K --channels 2"
goes_on put "--block 4M" "--block 100K --prot safe"
goes_on put "--block 256K --channels 1" ""
goes_on get "--block 1M" "--block 64K --prot clear"
goes_on get "--block 100K --channels 3" "--block 1M"
finish
