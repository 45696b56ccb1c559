#!/bin/bash
# shellcheck disable=SC2034 # ran and status are for lib.sh
# Servers that follow the protocol up to a point, and then send invalid messages
# (phony-server.py): rftp ends with an error, in time, and writes nothing outside its
# destination. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
need python3 setsid

limit=15
mkfifo "$tmp/hold"
"$lib/phony-server.py" "$tmp/phony" <"$tmp/hold" 2>/dev/null &
others+=($!)
exec 7>"$tmp/hold"
patience 10 test -s "$tmp/phony" || skip_all "python cannot listen"
random "$tmp/source" 3000000
mkdir "$tmp/here"
options=(-q --plain --prot clear --channels 1 --block 64K --inflight 16 --memory 64M --connect-timeout 3s)
# meet DIRECTION NAME PORT: its result, to be looked at when all have ended
meet() {
	local words out=$tmp/met/$1.$2
	mkdir -p "$out/here/in" && echo old >"$out/here/in/x" && mkdir "$out/here/in/d"
	case $1 in
	put) words=(put "${options[@]}" --retries 0 "$tmp/source" "rftp://127.0.0.1:$3/x") ;;
	get) words=(get -r "${options[@]}" --retries 0 "rftp://127.0.0.1:$3/x" "$out/here/in/") ;;
	both) words=(bench --both --time 1 "${options[@]}" --connect-timeout 6s "rftp://127.0.0.1:$3") ;;
	esac
	setsid --wait timeout -k 2 "$limit" rftp "${words[@]}" </dev/null >"$out/out" 2>"$out/err"
	echo $? >"$out/status"
}
# ways GET [PUT]: the error of each direction, in any order
answer="waiting for the server's answer" begin="waiting for the other side to begin"
refuses='the server refuses: 550 no' closed='the other side closed the connection'
# second WHY: there is no second session, and nothing is begun
second() { echo "^rftp: --both needs a second session: $1"; }
ways() { echo "^rftp: get: $1\$|^rftp: put: ${2:-$1}\$"; }
major=$(sed -n 's/^#define BULK_MAJOR //p' "$top_srcdir/src/proto/bulk.h")
minor=$(sed -n 's/^#define BULK_MINOR //p' "$top_srcdir/src/proto/bulk.h")
# meant NAME: print the error (grep -E) that the client must have reported for this case
meant() {
	case $1 in
	line_refused) echo 'refuses: 550 .x1b\[31mno' ;;
	line_226) echo 'refuses: 226 done already' ;;
	line_flood | line_many) echo "server's answer: Message too long" ;;
	line_nul) echo "server's answer: Invalid" ;;
	line_random) echo "server's answer|refuses" ;;
	line_close) echo "server's answer: Broken pipe" ;;
	feat_none) echo 'is not rftpd, or has no bulk mode' ;;
	feat_number | feat_word) echo 'speaks version 1\.0 |1\.0 does not have: ' ;;
	feat_major) echo "speaks version $((major + 1))\.$minor " ;;
	feat_huge) echo 'speaks version|does not have' ;;
	feat_lacks) echo "$major\.$((minor + 1)) does not have: modes;" ;;
	agree_major) echo "speaks version $((major + 1))\.$minor " ;;
	agree_random) echo 'speaks version|cannot take' ;;
	agree_frame_4G) echo 'to begin: Message too long' ;;
	agree_abort) echo '\?\[31mno\?fake: line\?' ;;
	agree_no_port) echo 'names no data port' ;;
	agree_port_name) echo 'names "www\.example\.org" as a data address' ;;
	agree_4G | agree_short | agree_offer_* | agree_ports_* | agree_port_0)
		echo "cannot decode the server's agreement" ;;
	agree_*) echo 'agreement does not follow from both offers' ;;
	data_wrong_proof | data_own_proof) echo 'its proof is wrong' ;;
	data_random) echo 'does not speak this protocol' ;;
	data_major) echo 'another version of this protocol' ;;
	data_close) echo 'in-band it is' ;;
	get_entry_id_2) echo 'type 2 .*not expected' ;;
	get_entry_*) echo 'type 2 .*malformed' ;;
	get_link_then_dir) echo 'd/out: cannot make the directory: Not a directory' ;;
	get_failed_text) echo 'here/in/x: on the server: \?\[31mno\?rftp: fake line' ;;
	get_crc | get_frame_block_offset | get_frame_block_prot) echo 'a block came damaged' ;;
	get_cut) echo 'closed the connection' ;;
	get_frame_block_twice | get_blocks_twice) echo 'a block holds bytes 0\+5 of .*here/in/x twice' ;;
	get_frame_abort) echo 'on the server: \?\[31mbad\?fake: line' ;;
	get_frame_4G) echo 'control connection: Message too long' ;;
	get_frame_block_number) echo 'number 1125899906842624 is too far ahead' ;;
	get_frame_block_outside) echo 'bytes 5\+10 of entry 1, which has none there' ;;
	get_frame_block_*) echo 'type 13 .*malformed' ;;
	get_frame_verdicts) echo 'type 3 .*not expected' ;;
	get_frame_done) echo 'type 7 .*not expected' ;;
	get_frame_sizes) echo 'type 5 .*not expected' ;;
	get_frame_kept) echo 'type 15 .*not expected' ;;
	get_frame_failed) echo 'type 6 .*malformed' ;;
	get_frame_sent) echo 'ended before it sent all that it announced' ;;
	get_frame_end | put_end) echo 'ended the transfer without its summary' ;;
	*_summary_and_end) echo 'type 11 .*not expected' ;;
	get_frame_* | put_unknown) echo 'control connection: Bad message' ;;
	put_entries) echo 'type 2 .*not expected' ;;
	put_verdicts*) echo 'type 3 .*malformed' ;;
	put_runs*) echo 'type 4 .*malformed' ;;
	put_done_*) echo 'type 7 .*malformed' ;;
	put_credit) echo 'type 14 .*not expected' ;;
	put_credit_*) echo 'type 14 .*malformed' ;;
	put_abort) echo 'on the server: no\?\[0m room\?fake: line' ;;
	put_failed) echo 'on the server: no room\?rftp: fake line' ;;
	put_refuses_blocks) echo 'refused 1000 blocks one after another' ;;
	both_refused) second '127.0.0.1 answers 421 one is enough' ;;
	both_login) second '127.0.0.1 refuses the login of anonymous: not again' ;;
	both_silent) second '127.0.0.1 port [0-9]+ took the connection but sent nothing' ;;
	both_gone) second '127.0.0.1 port [0-9]+ closed the connection without sending anything' ;;
	both_refuse) ways "$refuses" ;;
	both_close) ways "$answer: Broken pipe" ;;
	both_one_closes) ways "$refuses" "$answer: Broken pipe" ;;
	both_4G) ways "$begin: Message too long" ;;
	both_one_4G) ways "$begin: Message too long" "$refuses" ;;
	both_cut) ways "$closed" ;;
	both_one_cut) ways "$closed" "$refuses" ;;
	esac
}
mkdir "$tmp/met"
pids=()
while read -r name at; do
	for dir in put get both; do
		case $name in
		silent_*) continue ;;
		both_*) [ $dir = both ] || continue ;;
		put_*) [ $dir = put ] || continue ;;
		get_*) [ $dir = get ] || continue ;;
		*) [ $dir != both ] || continue ;;
		esac
		meet $dir "$name" "$at" &
		pids+=($!)
		# Some at once: they wait more than they work.
		[ ${#pids[@]} -lt 16 ] || { wait "${pids[@]}"; pids=(); }
	done
done <"$tmp/phony"
[ ${#pids[@]} -eq 0 ] || wait "${pids[@]}"
for out in "$tmp/met"/*; do
	name=${out##*/}
	status=$(cat "$out/status")
	cp "$out/err" "$tmp/err"
	ran=$name
	check "client: $name: an error, in time" test "$status" -ge 1 -a "$status" -le 4
	check "client: $name: said in a line or two, without escapes" \
		test "$(wc -l <"$out/err")" -ge 1 -a "$(wc -l <"$out/err")" -le 3 -a \
		"$(grep -vc '^rftp: ' "$out/err")" -eq 0 -a "$(LC_ALL=C grep -c "$(printf '\033')" "$out/err")" -eq 0
	check "client: $name: for the reason that is meant" grep -Eq -e "$(meant "${name#*.}")" "$out/err"
	case $name in
	both.both_refused | both.both_login | both.both_silent | both.both_gone) ;;
	both.*) check "client: $name: for that reason only" test \
		"$(grep -Ec '^rftp: (get|put): ' "$out/err")" -eq 2 -a \
		"$(grep -E '^rftp: (get|put): ' "$out/err" | grep -Evc -e "$(meant "${name#*.}")")" -eq 0 ;;
	esac
	check "client: $name: nothing outside, nothing half" test "$(tr -d "\0" <"$out/here/in/x")" = old -a \
		-z "$(find "$out/here" -mindepth 1 ! -name in ! -name x ! -name d ! -name out)" -a ! -e "$out/here/stolen"
done

# One signal ends a client that waits for a silent server.
patient=(-q --plain --prot clear --channels 1 --block 64K --inflight 16 --memory 64M --connect-timeout 60s)
is_rftp() { [ "$(cat "/proc/$1/comm" 2>/dev/null)" = rftp ]; }
# stopped SIGNAL DIRECTION NAME PORT
stopped() {
	local words what="$2 from a server that is silent_$3: SIG$1"
	if [ "$2" = put ]; then words=("$tmp/source" "rftp://127.0.0.1:$4/x"); else
		words=(-r "rftp://127.0.0.1:$4/x" "$tmp/here/stopped/"); fi
	ran="rftp $2 ${patient[*]} ${words[*]}"
	# A shell has its background jobs ignore SIGINT.
	python3 -c 'import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execvp(sys.argv[1], sys.argv[1:])' rftp "$2" "${patient[@]}" "${words[@]}" </dev/null >"$tmp/out" 2>"$tmp/err" &
	others+=($!)
	patience 20 is_rftp "${others[-1]}" # python ignores SIGINT, too, until it is told
	sleep 0.7
	kill "-$1" "${others[-1]}"
	check "$what: it ends" patience 5 gone "${others[-1]}"
	kill -KILL "${others[-1]}" 2>/dev/null
	wait "${others[-1]}"
	status=$?
	check "$what: 4, and a line" fails_with 4 'interrupted'
}
while read -r name at; do
	case $name in
	silent_closing) stopped TERM get closing "$at" ;;
	silent_*)
		stopped TERM put "${name#silent_}" "$at"
		stopped INT get "${name#silent_}" "$at"
		;;
	esac
done <"$tmp/phony"

exec 7>&-
finish
