# shellcheck shell=bash
# shellcheck disable=SC2034 # limit is for lib.sh
# For faults-storage.sh and faults-transport.sh: storage or the network fails on purpose
# (util/fault.h), on either side. A failed file is reported and absent, a fault that can be
# bridged is bridged, and the next run completes.

. "${top_srcdir:?}/tests/e2e/lib.sh"
need python3 setsid
need_faults

limit=40
mkdir "$tmp/root" "$tmp/here" "$tmp/tree"
random "$tmp/big" 60000000
echo old >"$tmp/old"
for i in {1..40}; do head -c $((i * 3000)) "$tmp/big" >"$tmp/tree/$i"; done
ln "$tmp/big" "$tmp/tree/big"
mkdir "$tmp/root/from" && cp "$tmp/big" "$tmp/root/from/big" && cp -a "$tmp/tree" "$tmp/root/from/tree"
start_server good --root "$tmp/root" --anonymous rw
good=$url
run rftp ls --accept-new "$good/"

# faulty DIR RULES: the direction and the rules of the next move; target is the file in which
# a big one arrives, with an old one in place.
faulty() {
	dir=$1 rules=$2
	rm -rf "$tmp/root/to" "$tmp/here/to" && mkdir "$tmp/root/to" "$tmp/here/to"
	if [ "$1" = put ]; then target=$tmp/root/to/big; else target=$tmp/here/to/big; fi
	cp "$tmp/old" "$target"
}
# move NAME OPTION...: transfer it with the fault on the side of SIDE (sink or source)
move() {
	local what=$1 faults=()
	shift
	if { [ "$dir" = put ] && [ "$side" = source ]; } || { [ "$dir" = get ] && [ "$side" = sink ]; }; then
		faults=(env "RFTP_FAULT=$rules")
		url=$good
	else
		as_server=(env "RFTP_FAULT=$rules")
		start_server bad --root "$tmp/root" --anonymous rw
		as_server=()
		run rftp ls --accept-new "$url/"
	fi
	if [ "$dir" = put ]; then
		run "${faults[@]}" rftp put -r -q --json "$@" "$tmp/$what" "$url/to/$what"
	else
		run "${faults[@]}" rftp get -r -q --json "$@" "$url/from/$what" "$tmp/here/to/$what"
	fi
	[ "$url" = "$good" ] || stop_server
	# The command for the next run.
	if [ "$dir" = put ]; then again=(rftp put -r -q --json "$tmp/$what" "$good/to/$what"); else
		again=(rftp get -r -q --json "$good/from/$what" "$tmp/here/to/$what"); fi
}
either() { same "$tmp/old" "$target" || same "$tmp/big" "$target"; }
whole() { [ -z "$(diff -r "$tmp/tree" "$(dirname "$target")/tree" 2>&1)" ]; }
# The files of a tree that exist are whole.
no_short() {
	local f
	for f in "$(dirname "$target")"/tree/*; do
		[ ! -e "$f" ] || same "$tmp/tree/${f##*/}" "$f" || return 1
	done
}
completes() {
	run "${again[@]}"
	check "$1: the next run completes" status_is 0
	check "$1: nothing is left" no_parts "$(dirname "$target")"
}
# The end of both scripts
faults_end() {
	run env "RFTP_FAULT=nonsense" rftp ls "$good/"
	check "rules that are not understood end the program" status_is 2
	server=${servers[0]}
	check "the server ends well" stops_well
	finish
}
