# shellcheck shell=bash
# shellcheck disable=SC2034 # some are the sourcing script uses them
# Shared by the end-to-end tests: a throw-away directory, TAP lines, servers, and commands
# without a terminal and with a time limit. Sourced, not run:
#
#	. "${top_srcdir:?}/tests/e2e/lib.sh"
#
# It sets $tmp, an empty directory that is removed at the end with all servers that
# start_server started; each script ends with finish.

set -u
export LC_ALL=C.UTF-8 LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1

lib=${top_srcdir:?}/tests/e2e

# ---- TAP ----

tests=0
failed=0

skip_all() { # WHY
	[ ! -s "${tmp:-}/unknown" ] || finish
	echo "1..0 # SKIP $*"
	exit 0
}

# For tests of scripts, texts and Python programs.
skip_with_sanitizers() {
	! rftp --version | grep -q '+asan' || skip_all "a build with sanitizers would only repeat it"
}

need() { # COMMAND...: programs that this script cannot do without
	local c
	for c in "$@"; do
		command -v "$c" >/dev/null || skip_all "$c is missing"
	done
}

# Fault injection (src/util/fault.h) is in test builds only.
no_faults="without fault injection (configure --enable-faults)"
has_faults() { rftp --version | grep -q '[+]faults'; }
# The rest of the script needs it.
need_faults() {
	! has_faults || return 0
	[ "$tests" -gt 0 ] || skip_all "$no_faults"
	skip "the rest" "$no_faults"
	finish
}

comment() { # reads text
	cut -c 1-400 | sed 's/^/# /'
}

# check NAME COMMAND...: a test; COMMAND's status decides. $todo, when set, is the reason
# why this test, and not the next one, is known to fail.
todo=
check() {
	local what=$1 mark=${todo:+ # TODO $todo} reason=$todo
	shift
	todo=
	tests=$((tests + 1))
	# Some known failures are races, which do not show every time.
	if "$@"; then
		echo "ok $tests - $what"
		return 0
	fi
	echo "not ok $tests - $what$mark"
	[ -n "$reason" ] || failed=$((failed + 1))
	show
	return 1
}

# Show the last command and its messages, for a failed check.
show() {
	[ -n "${ran:-}" ] || return
	echo "# ran: ${ran:0:300}; status $status"
	head -n 12 "$tmp/err" 2>/dev/null | comment
	[ "${#servers[@]}" -eq 0 ] || ls -t "$tmp"/*.log | head -n 1 | xargs tail -n 6 | comment
}

# A program with a sanitizer traces itself, and keeps freed memory.
sanitized() { rftpd --version | grep -Eq '[+](asan|tsan|msan)'; }

skip() { # NAME WHY
	tests=$((tests + 1))
	echo "ok $tests - $1 # SKIP $2"
}

# A program that is not there may be a reason to skip something. A function of ours that is not
# there is a mistake, for another script has it, and must not look like such a reason.
command_not_found_handle() {
	echo "$1: no such command, in ${FUNCNAME[1]:-$0}" >&2
	! sed -n 's/^[[:space:]]*\([[:alnum:]_]*\)() .*/\1/p' "$lib"/*.sh "$lib"/*.bash |
		grep -qxF -e "$1" || echo "${FUNCNAME[1]:-$0}: $1" >>"$tmp/unknown"
	return 127
}

functions_are_there() {
	[ ! -s "$tmp/unknown" ] || ! comment <"$tmp/unknown"
}

finish() {
	stop_all
	[ ! -s "$tmp/unknown" ] || check "each function of this script is there" functions_are_there
	check "no sanitizer and no valgrind has found anything" no_reports
	echo "1..$tests"
	exit 0
}

# ---- a temporary directory, and the clean-up ----

tmp=$(mktemp -d "${TMPDIR:-/tmp}/rftp-e2e.XXXXXX") || exit 99
chmod 755 "$tmp"
mounts=()
servers=()
others=()

# is_foreign PID: the process lacks the mark of tests/run. It belongs to another test, and has got
# the number of one of our processes that has ended. False without tests/run, if the mark is
# unreadable, and for children of this script: sshd overwrites its environment.
is_foreign() {
	[ -n "${RFTP_TEST_RUN:-}" ] && [ "$(ps -o ppid= -p "$1" | tr -d ' ')" != $$ ] &&
		grep -qsz . "/proc/$1/environ" &&
		! grep -qsz "^RFTP_TEST_RUN=$RFTP_TEST_RUN\$" "/proc/$1/environ"
}

stop_all() {
	local p ours=()
	for p in "${servers[@]}" "${others[@]}"; do
		is_foreign "$p" || ours+=("$p")
	done
	for p in "${ours[@]}"; do
		kill "$p" 2>/dev/null && kill -CONT "$p" 2>/dev/null
	done
	for p in "${ours[@]}"; do
		patience 10 gone "$p" || kill -KILL "$p" 2>/dev/null
	done
	servers=() others=()
}

cleanup() {
	local p
	stop_all
	for p in "${mounts[@]}"; do
		umount -l "$p"
	done
	chmod -R u+rwx "$tmp" 2>/dev/null
	rm -rf "$tmp"
}
trap cleanup EXIT
trap 'exit 99' HUP INT TERM

export HOME=$tmp/home
mkdir "$HOME"
unset XDG_CONFIG_HOME XDG_STATE_HOME RFTP_FAULT
. "$lib/reports.sh"
# A program under E2E_UNDER takes several times as long.
slow=${E2E_SLOW:-1}

is_root() { [ "$(id -u)" -eq 0 ]; }

# It does nothing, after SIGSTOP or because a debugger holds it.
stands_still() { [[ $(ps -o stat= -p "$1") == [Tt]* ]]; } # PID

# patience SECONDS COMMAND...: until it succeeds
patience() {
	local end=$(($(date +%s) + $1 * slow))
	shift
	until "$@"; do
		[ "$(date +%s)" -lt "$end" ] || return 1
		sleep 0.05
	done
}

gone() { # PID: no process, or one that only waits to be reaped by us
	local state
	state=$(ps -o stat= -p "$1" 2>/dev/null) || return 0
	[[ $state == Z* ]]
}

# children PID: a server's sessions
children() { ps -o pid= --ppid "$1" | tr -d ' '; }
no_children() { [ -z "$(children "$1")" ]; }

not() { ! "$@"; }

# ---- servers ----

# start_server NAME OPTION...: sets server (its pid), port and url; its log is
# $tmp/NAME.log. as_server, set before, may hold a command to run it under.
as_server=()
# Options for rftpd run by root. Tests check files as their owner, so one process has all rights,
# unless a test, or E2E_SEPARATE, asks for three: then the session is root without capabilities.
processes=(--one-process)
three_processes() { processes=(--user nobody --files-user root --allow-root); }
[ -z "${E2E_SEPARATE-}" ] || three_processes
start_server() {
	local name=$1
	shift
	rm -f "$tmp/$name.port"
	${as_server[@]+"${as_server[@]}"} rftpd --listen 127.0.0.1:0 --state "$tmp/$name.state" \
		--port-file "$tmp/$name.port" -v "${processes[@]}" "$@" \
		</dev/null >>"$tmp/$name.log" 2>&1 &
	server=$!
	servers+=("$server")
	patience 20 server_is_up "$name" || :
	port=$(head -n 1 "$tmp/$name.port" 2>/dev/null)
	url=rftp://127.0.0.1:$port
}
server_is_up() { [ -s "$tmp/$1.port" ] || gone "$server"; }

# stop_server [PID]: as an administrator would; its exit status
stop_server() {
	local pid=${1:-$server} left=() p
	for p in "${servers[@]}"; do
		[ "$p" = "$pid" ] || left+=("$p")
	done
	servers=("${left[@]}")
	kill "$pid" 2>/dev/null
	patience 15 gone "$pid" || kill -KILL "$pid"
	wait "$pid"
}

# stops_well [PID]: it ends with status 0, and nothing was wrong until then
stops_well() { stop_server "$@" && no_reports; }

# ---- commands ----

# run COMMAND...: without terminal and input, not longer than $limit seconds. Sets status
# (124: it hung); output is in $tmp/out and $tmp/err.
limit=60
run() {
	ran="$*"
	setsid --wait timeout -k 5 $((limit * slow)) "$@" </dev/null >"$tmp/out" 2>"$tmp/err"
	status=$?
}
# The same with standard input as it is.
run_stdin() {
	ran="$*"
	setsid --wait timeout -k 5 $((limit * slow)) "$@" >"$tmp/out" 2>"$tmp/err"
	status=$?
}

# put and get as they are used here; a server that is not known yet is trusted quietly.
put() { run rftp put -q --accept-new "$@"; }
get() { run rftp get -q --accept-new "$@"; }

# status_is N: the last command's
status_is() { [ "$status" -eq "$1" ]; }

# said TEXT: one line on standard error, from rftp, with TEXT (grep -E) in it, that is
# more than a number
said() {
	if [ "$(wc -l <"$tmp/err")" -ne 1 ] || ! grep -q '^rftp: ' "$tmp/err"; then
		echo "# not one line of rftp's"
		return 1
	fi
	if grep -Eqi '(errno|error|code) -?[0-9]+$' "$tmp/err"; then
		echo "# only a number"
		return 1
	fi
	grep -Eqi -e "$1" "$tmp/err"
}

# A failure in one go: status N and one line with TEXT.
fails_with() { # N TEXT
	status_is "$1" && said "$2"
}

# summary KEY: of the last command's --json
summary() {
	python3 -c '
import json, sys
for line in open(sys.argv[1], errors="replace"):
    e = json.loads(line)
    if e.get("event") == "summary":
        print(e.get(sys.argv[2]))' "$tmp/out" "$1"
}

# ---- files ----

same() { cmp -s -- "$1" "$2"; }
# no_parts DIR...: nothing half-done is left in them
no_parts() { ! find "$@" -name '.rftp-*' | comment | grep .; }
same_trees() { "$lib/compare-trees" "$@" | comment; return "${PIPESTATUS[0]}"; }

# random FILE SIZE
random() { head -c "$2" /dev/urandom >"$1"; }

# as_root COMMAND...: as root, if need be of a user namespace, where may_be_root
as_root=()
is_root || as_root=(unshare -r --)
may_be_root() { "${as_root[@]}" true 2>/dev/null; }

# as_other COMMAND...: as an unprivileged user, if we are root and if other users can reach the
# programs and the files of a test
as_other=(setpriv --reuid=65534 --regid=65534 --clear-groups --)
if ! is_root || ! "${as_other[@]}" test -x "$(command -v rftp)" -a -x "${tmp%/*}" 2>/dev/null; then
	as_other=()
fi
