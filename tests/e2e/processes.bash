# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # the sourcing script uses them, after lib.sh
# Shared by the tests of rftpd's three processes: clients that keep their connections, the kind of
# each process of a server, its open files, its memory. They are started as root.

# Users that every system has.
front_user=nobody session_user=daemon
front_uid=$(id -u $front_user) session_uid=$(id -u $session_user)
processes=(--user "$front_user" --files-user "$session_user")

# Clients that execute commands, and keep their connections.
declare -A client to
hold() { # NAME
	rm -f "$tmp/$1.in"
	mkfifo "$tmp/$1.in"
	: >"$tmp/$1.out"
	exec {fd}<>"$tmp/$1.in"
	python3 "$lib/ftp-held.py" "$port" <&"$fd" >"$tmp/$1.out" 2>&1 &
	client[$1]=$! to[$1]=$fd
	others+=($!)
	patience 20 has_more "$tmp/$1.out" 0
}
tell() { # NAME COMMAND: the code of the reply
	local before
	before=$(wc -l <"$tmp/$1.out")
	echo "$2" >&"${to[$1]}"
	patience 60 has_more "$tmp/$1.out" "$before"
	tail -n 1 "$tmp/$1.out"
}
has_more() { [ "$(wc -l <"$1")" -gt "$2" ]; }
leave() { # NAME
	tell "$1" "end" >/dev/null
	wait "${client[$1]}"
	eval "exec ${to[$1]}<&-"
}

field() { sed -n "s/^$2:[[:space:]]*//p" "/proc/$1/status"; }
all_four() { [ "$(field "$1" "$2")" = "$(printf '%s\t%s\t%s\t%s' "$3" "$3" "$3" "$3")" ]; }
no_capabilities() {
	local c
	for c in CapInh CapPrm CapEff CapBnd CapAmb; do
		[ "$(field "$1" $c)" = 0000000000000000 ] || return
	done
}
nobody_traces() { sanitized || [ "$(stat -c %u "/proc/$1/mem")" = 0 ]; } # not dumpable: proc(5)
# By more filters than the test itself has, perhaps from its container.
filtered() { [ "$(field "$1" Seccomp)" = 2 ] && [ "$(field "$1" Seccomp_filters)" -gt "$(field $$ Seccomp_filters)" ]; }
# at_most PID LIMIT N
at_most() {
	local now
	now=$(awk -v n="$2" 'index($0, n) == 1 {print $(NF-1)}' "/proc/$1/limits")
	[ "${now:-unlimited}" != unlimited ] && [ "$now" -le "$3" ]
}
limit_is() { [ "$(awk -v n="$2" 'index($0, n) == 1 {print $(NF-1)}' "/proc/$1/limits")" = "$3" ]; }
# kinds PID: print its open files
kinds() {
	find "/proc/$1/fd" -type l -printf '%l\n' | sed 's/:\[.*//' | sort | uniq -c |
		awk '{print $2 "=" $1}' | LC_ALL=C sort | tr '\n' ' '
}
# has_open PID KIND=N...: these and nothing else but standard input, output and error, which lead
# nowhere
has_open() {
	local p=$1 standard=(/dev/null=3)
	shift
	! sanitized || standard=(/dev/null=1 "$(readlink "/proc/$p/fd/2")=2")
	[ "$(kinds "$p")" = "$(printf '%s\n' "${standard[@]}" "$@" | LC_ALL=C sort | tr '\n' ' ')" ]
}
opens() { # PID KIND=N...: these and nothing else at all
	local p=$1
	shift
	[ "$(kinds "$p")" = "$(printf '%s\n' "$@" | LC_ALL=C sort | tr '\n' ' ')" ]
}
# is_roots PID: a process of root that reads no bytes of unauthenticated clients (docs/TRUST.md)
is_roots() { # PID
	all_four "$1" Uid 0 && all_four "$1" Gid 0 && [ "$(field "$1" CapEff)" = "$(field $$ CapEff)" ] &&
		[ "$(field "$1" Seccomp)" = "$(field $$ Seccomp)" ] &&
		[ "$(field "$1" NoNewPrivs)" = "$(field $$ NoNewPrivs)" ] &&
		[ "$(readlink "/proc/$1/root")" = / ]
}
# has_no_rights NAME PID EMPTY: checks of the process that reads the bytes of unauthenticated
# clients, as in docs/TRUST.md; EMPTY is the root that it should have
has_no_rights() {
	local name=$1 pid=$2 empty=$3
	check "$name is the user for that" all_four "$pid" Uid "$front_uid"
	check "$name: with his group" all_four "$pid" Gid "$(id -g $front_user)"
	check "$name: and groups" test "$(field "$pid" Groups | xargs)" = "$(id -G $front_user)"
	check "$name: no capability, and none to be had" no_capabilities "$pid"
	check "$name: nor by other programs" test "$(field "$pid" NoNewPrivs)" = 1
	check "$name: its root is empty" test -z "$(find "/proc/$pid/root/" -mindepth 1 2>&1)"
	check "$name: and the one of the state" test "$(readlink "/proc/$pid/root")" = "$(readlink -f "$empty")"
	check "$name: where nobody can write" test "$(stat -c %u:%a "$empty")" = 0:555
	check "$name: nobody can trace it" nobody_traces "$pid"
	if rftpd --version | grep -q '+seccomp'; then
		check "$name: system calls are filtered" filtered "$pid"
	else
		skip "$name: system calls are filtered" "built without libseccomp"
	fi
	check "$name: few files" limit_is "$pid" "Max open files" 64
	check "$name: no locked memory" limit_is "$pid" "Max locked memory" 0
	check "$name: no core" limit_is "$pid" "Max core file size" 0
	if sanitized; then
		skip "$name: little memory" "a sanitizer takes terabytes"
	else
		check "$name: little memory" at_most "$pid" "Max address space" $((256 << 20))
	fi
	# 256 is the value of max-sessions.
	check "$name: not all the threads there are" \
		test "$(awk '/^Max processes/ {print $(NF-2)}' "/proc/$pid/limits")" -le $((16 * 256 + 1024))
}
with_uid() { # UID: those of the server's children that are its
	local p
	for p in $(children "$server"); do
		! all_four "$p" Uid "$1" 2>/dev/null || echo "$p"
	done
}
one_with_uid() { [ "$(with_uid "$1" | wc -w)" = 1 ]; }

# Whether the content of FILE is in the memory of process PID.
holds() { [ "$(python3 "$lib/in-memory.py" find "$1" "$2")" = found ]; } # PID FILE
lacks() { [ "$(python3 "$lib/in-memory.py" find "$1" "$2")" = "not found" ]; }
if sanitized; then # terabytes of it, and freed memory is kept
	holds() { true; }
	lacks() { true; }
fi
