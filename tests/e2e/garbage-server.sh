#!/bin/bash
# shellcheck disable=SC2034 # ran and status are for lib.sh
# Servers that speak the protocol up to a point, and then say what they should not
# (phony-server.py): rftp ends with an error, in time, and writes nothing where it should
# not. TAP.

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
options=(-q --plain --prot clear --channels 1 --block 64K --inflight 16 --memory 64M --retries 0 --connect-timeout 3s)
# meet DIRECTION NAME PORT: its result, to be looked at when all have ended
meet() {
	local words out=$tmp/met/$1.$2
	mkdir -p "$out/here/in" && echo old >"$out/here/in/x" && mkdir "$out/here/in/d"
	case $1 in
	put) words=(put "${options[@]}" "$tmp/source" "rftp://127.0.0.1:$3/x") ;;
	get) words=(get -r "${options[@]}" "rftp://127.0.0.1:$3/x" "$out/here/in/") ;;
	both) words=(bench --both --time 1 "${options[@]}" "rftp://127.0.0.1:$3") ;;
	esac
	setsid --wait timeout -k 2 "$limit" rftp "${words[@]}" </dev/null >"$out/out" 2>"$out/err"
	echo $? >"$out/status"
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
	check "client: $name: nothing outside, nothing half" test "$(cat "$out/here/in/x")" = old -a \
		-z "$(find "$out/here" -mindepth 1 ! -name in ! -name x ! -name d ! -name out)" -a ! -e "$out/here/stolen"
done

# Who waits for a server that says nothing more can be ended, by one signal.
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
