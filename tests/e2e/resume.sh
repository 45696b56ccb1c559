#!/bin/bash
# shellcheck disable=SC2034 # ran, status and limit are for lib.sh
# An interrupted put or get resumes with the blocks on disk, for any block size, number of channels,
# transport and protection of the two attempts. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
need python3

limit=60
size=30000000
mkdir -p "$tmp/root" "$tmp/here" "$tmp/sink"
random "$tmp/big" $size
ln "$tmp/big" "$tmp/root/from"
start_server sink --root "$tmp/sink" --anonymous rw --third-party all
sink_url=$url
run rftp ls --accept-new "$url/"
start_server main --root "$tmp/root" --anonymous rw --prot-min clear --third-party all
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

# interruptible COMMAND...: begin it; its process is $client
interruptible() {
	# The last command's words, which a look at these files would take for this one's.
	: >"$tmp/out"
	: >"$tmp/err"
	# By itself a shell has its background jobs ignore SIGINT.
	python3 -c 'import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execvp(sys.argv[1], sys.argv[1:])' "$@" >"$tmp/out" 2>"$tmp/err" </dev/null &
	client=$!
	others+=("$client")
}
advises() { grep -q 'same command resumes the transfer' "$tmp/out" "$tmp/err"; }

# goes_on put|get|cp FIRST SECOND [FAULT]: FIRST and SECOND are options; the second command has
# FAULT
goes_on() {
	local dir=$1 first second to what="$1, $2, then $3${4:+ with $4}"
	read -ra first <<<"$2"
	read -ra second <<<"$3"
	case $dir in
	put) to=$tmp/root/to command=(rftp put -q --json "$tmp/big" "$url/to/f") ;;
	get) to=$tmp/here command=(rftp get -q --json "$url/from" "$tmp/here/f") ;;
	cp) to=$tmp/sink/to command=(rftp cp -q --json "$url/from" "$sink_url/to/f") ;;
	esac
	rm -rf "$to" && mkdir "$to"
	interruptible "${command[@]}" --rate 10M "${first[@]}"
	ran="${command[*]} ${first[*]}"
	check "$what: a third is down" patience 30 recorded "$to"
	kill -INT "$client"
	wait "$client"
	status=$?
	check "$what: it is interrupted" status_is 4
	check "$what: the advice is to go on" advises
	run env ${4:+"RFTP_FAULT=$4"} "${command[@]}" "${second[@]}"
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
no_way=connect:ECONNREFUSED:after=1 # but for the control connection
ways="put get"
has_faults || { skip "no data channel" "$no_faults"; ways=; }
for dir in $ways; do
	goes_on $dir "--transport tcp" "--channels 1" $no_way
	check "$dir: over the control connection" test "$(summary transport)" = in-band
done

size=6000000
random "$tmp/big" $size
goes_on put "--rate 2M --block 256K" ""
goes_on get "--rate 2M --block 256K" ""
goes_on cp "--rate 2M --block 256K" "--block 1M"

# No journal is written of small files, and none with --no-resume.
random "$tmp/small" 3000000
ln "$tmp/small" "$tmp/root/small"
moves() { grep -q 'path 0\|progress' "$tmp/err" "$tmp/out"; }
afresh() { # NAME COMMAND...
	local what=$1
	shift
	ran="$*"
	interruptible "$@" -v --json --rate 300K
	check "$what: it moves data" patience 30 moves
	kill -INT "$client"
	wait "$client"
	status=$?
	check "$what: it is interrupted" status_is 4
	check "$what: there is no advice to go on" not advises
}
afresh "put, a small file" rftp put "$tmp/small" "$url/s"
afresh "get, a small file" rftp get "$url/small" "$tmp/here/s"
afresh "cp, a small file" rftp cp "$url/small" "$sink_url/s"
afresh "put --no-resume" rftp put --no-resume "$tmp/big" "$url/s"
afresh "get --no-resume" rftp get --no-resume "$url/from" "$tmp/here/s"
afresh "cp --no-resume" rftp cp --no-resume "$url/from" "$sink_url/s"
finish
