# shellcheck shell=bash disable=SC2034 # the sourcing script uses them
# SPDX-License-Identifier: Apache-2.0
# Shared by the tests of faults: a server with a file, and transfers that take long enough to be
# disturbed. Sourced after guest.sh.

# serve ADDRESS BYTES OPTION...: a server that can be reached there. So many bytes are here, $tmp/big,
# and there, $url/from.
serve() {
	head -c "$2" /dev/urandom >"$tmp/big"
	open_server main 0.0.0.0 "${@:3}"
	root=$tmp/main.root
	url=rftp://$1:$port
	cp "$tmp/big" "$root/from"
	run rftp ls --accept-new "$url/"
}

# words put|get OPTION...: set command, and target, the file that it will make
file=big # the file that is put
card=rxe_v0 # begin counts its packets for under_way
words() {
	local way=$1
	shift
	rm -f "$root/to" "$tmp/back"
	if [ "$way" = put ]; then
		command=(rftp put "$@" "$tmp/$file" "$url/to")
		target=$root/to
	else
		command=(rftp get "$@" "$url/from" "$tmp/back")
		target=$tmp/back
	fi
}

# begin put|get OPTION...: in the background, a second for each MiB; under_way waits until some
# of it has gone, end for its end
begin() {
	local way=$1
	shift
	words "$way" --prot clear --block 64K --rate 1M --json "$@"
	ran="${command[*]}"
	before=$(carried "$card")
	"${command[@]}" </dev/null >"$tmp/out" 2>"$tmp/err" &
	client=$!
}
end() {
	wait "$client"
	status=$?
}

is_whole() { cmp -s "$tmp/$file" "$target"; }
whole_or_absent() { [ ! -e "$target" ] || is_whole; }
is_absent() { [ ! -e "$target" ]; }
sessions_gone() { no_children "$server"; }
