# shellcheck shell=bash
# shellcheck disable=SC2034 # for lib.sh
# A crowd of clients (crowd.py) and requests to it. Sourced after lib.sh.

# crowd DIR: of the server that was started last
crowd() {
	coproc crowd_of { exec python3 "$lib/crowd.py" "$port" "$1" 2>"$tmp/crowd.err"; }
	# shellcheck disable=SC2154 # of coproc
	others+=("$crowd_of_PID")
	exec {crowd_to}>&"${crowd_of[1]}"- {crowd_from}<&"${crowd_of[0]}"-
}

# ask WORD...: put its answer into $answer, and print it
ask() {
	answer=
	ran="crowd: $*" status=0
	echo "$*" >&"$crowd_to" && read -r -t $((300 * slow)) answer <&"$crowd_from"
	echo "# $*: $answer"
}

crowd_leaves() {
	ask leave
	exec {crowd_to}>&- {crowd_from}<&-
	wait "$crowd_of_PID" 2>/dev/null
}

answers() { [ "$answer" = "$1" ]; }
