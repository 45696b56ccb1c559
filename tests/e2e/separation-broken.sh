#!/bin/bash
# shellcheck disable=SC2034,SC2317 # for lib.sh; check calls them
# An attacker has taken over one of rftpd's processes: a preauth process, or an auth process and the
# session that it becomes (tests/support/phony-*.c). The other, real processes survive or end only
# the concerned connection; no file stays open, no process stays. TAP.
. "${top_srcdir:?}/tests/e2e/lib.sh"
. "$lib/processes.bash"
is_root || skip_all "only root's rftpd has more than one process"
need python3

mkdir "$tmp/root" "$tmp/bin"
chmod 755 "$tmp/root"
# start_phony KIND OPTION...: a server with that process taken over
start_phony() {
	local kind=$1
	shift
	ln -sf "$(realpath "$top_builddir/tests/support/phony-$kind")" "$tmp/bin/rftpd"
	[ -x "$tmp/bin/rftpd" ] || skip_all "tests/support/phony-$kind is not built"
	PATH=$tmp/bin:$PATH start_server "$kind" --root "$tmp/root" --anonymous rw --memory-budget 8M "$@"
	check "rftpd with another $kind starts" test -s "$tmp/$kind.port"
}

open_files() { find "/proc/$1/fd" -mindepth 1 2>/dev/null | wc -l; }
as_at_first() { [ "$(open_files "$server")" = "$at_first" ]; }
# over CASE: of its processes and descriptors nothing is left
over() {
	check "$1: its processes end" patience 20 no_children "$server"
	check "$1: the monitor has closed what it had" patience 5 as_at_first
}
# in_log TEXT: since mark
mark() { marked=$(wc -l <"$tmp/$1.log") marked_of=$1; }
in_log() { tail -n "+$((marked + 1))" "$tmp/$marked_of.log" | grep -q -e "$1"; }
nothing_dies() { ! grep 'died of signal [^9]' "$tmp/$1.log" | comment | grep .; }

# ---- a preauth process ----

start_phony preauth

# front CASE: its messages are in $told
front() {
	local said
	mark preauth
	told=
	exec {line}<>"/dev/tcp/127.0.0.1/$port"
	echo "$1" >&"$line"
	while IFS= read -r -t $((60 * slow)) -u "$line" said; do
		told+=$said/
		[ "$said" != "done" ] || break
	done
}
hang_up() { exec {line}>&-; }
# settle: print the monitor's open files after a connection has ended
settle() {
	patience 20 no_children "$server"
	at_first=$(open_files "$server")
}
front session-noop
hang_up
settle

for name in ask-short ask-long ask-huge ask-unended ask-report ask-memory ask-odd ask-thrice ask-always; do
	front $name
	# Some are done before the monitor looks.
	check "$name: the preauth process is killed" patience 20 \
		in_log 'preauth process of .* sent a request that is not allowed: killed'
	hang_up
	over $name
done

# tells CASE LINES: and is not the monitor's business
tells() {
	front "$1"
	check "$1: $2" test "$told" = "$2/done/"
	hang_up
	over "$1"
	check "$1: no process is killed" not in_log ': killed'
}
tells ask-nothing "monitor -32"
# ENOTSOCK of the pipe, EPIPE of the socket.
tells ask-with-one "descriptors -88 -32"
tells ask-with-many "descriptors -88 -32"
front ask-unread
check "an answer that is not read hurts nobody" test "$told" = "done/"
hang_up
over ask-unread
front leave-monitor
hang_up
over leave-monitor
# A descriptor that is slow to close does not reach the monitor, so other clients do not wait for it.
for name in ask-lingering log-lingering; do
	front $name
	lingers=$line
	check "$name: the process has tried" test "$told" = "done/"
	front session-noop
	check "$name: another is served meanwhile" test "$told" = "auth 0 0/session 200/done/"
	hang_up
	over $name
	exec {lingers}>&-
done
tells session-noop "auth 0 0/session 200"
tells auth-short "auth 0 -71"
tells auth-long "auth 0 -71"
tells auth-unended "auth 0 -71"
tells auth-with-many "auth 0 -71"
tells auth-twice "auth 0 0"
tells auth-another "auth 0 -71"
check "the credentials must be of the user that the monitor counts" grep -q 'malformed credentials, or those of another user' "$tmp/preauth.log"
tells auth-other-name "auth 0 0"
for name in auth-left auth-silent; do
	front $name
	check "$name: there is an auth process" test "$told" = "done/"
	hang_up
	over $name
done
tells handed-short "auth 0 0/session ended"
tells handed-bad "auth 0 0/session ended"
tells handed-with-many "auth 0 0/session ended"
tells session-odd "auth 0 0/session ended"
tells session-empty "auth 0 0/session ended"
tells session-huge "auth 0 0/session ended"
tells session-unasked "auth 0 0/session 200"
tells session-flood "auth 0 0"

front session-with-many
check "session-with-many: it is served" test "$told" = "auth 0 0/session 200/done/"
most=0
for p in $(children "$server"); do
	n=$(open_files "$p")
	[ "$n" -le "$most" ] || most=$n
done
check "session-with-many: and keeps no descriptor that came" test "$most" -lt 15
hang_up
over session-with-many

# Two at once, of which one is not served.
front session-noop
good=$line
front ask-short
hang_up
two_are_left() { [ "$(children "$server" | wc -w)" = 2 ]; }
check "who does nothing of the kind is served on" patience 20 two_are_left
exec {good}>&-
over "both"
check "no process has died of anything else" nothing_dies preauth
check "that server stops well" stops_well

# One account has one session, by any of its names.
start_phony preauth --max-per-user 1
front session-noop
good=$line
check "an account is in use" test "$told" = "auth 0 0/session 200/done/"
for name in auth-twice auth-other-name auth-another; do
	front $name
	case $name in
	auth-another) check "$name: nobody is let in" test "$told" = "auth 0 -71/done/" ;;
	*) check "$name: it is in use" test "$told" = "auth 0 -11/done/" ;;
	esac
	hang_up
	check "$name: its processes end" patience 20 two_are_left
done
check "it is counted by its own name" grep -q 'refused: too many sessions of anonymous' "$tmp/preauth.log"
exec {good}>&-
check "then it is free" patience 20 no_children "$server"
front auth-other-name
check "and has one session again" test "$told" = "auth 0 0/done/"
hang_up
check "that server stops well, too" stops_well

# ---- an auth process, and a session ----

start_phony auth

hold first
tell first "login good x" >/dev/null
leave first
settle

for name in report-short report-long report-unended report-odd report-twice report-always report-login report-memory; do
	mark auth
	hold $name
	code=$(tell $name "login $name x")
	check "$name: nobody is let in ($code)" test "$code" != 230
	check "$name: the auth process is killed" patience 20 \
		in_log 'session of .* sent a request that is not allowed: killed'
	leave $name
	over $name
done

mark auth
hold report-with-many
code=$(tell report-with-many "login report-with-many x")
check "report-with-many: nobody is let in ($code)" test "$code" != 230
check "report-with-many: no descriptor can be sent" patience 20 in_log 'descriptors -88 -32'
leave report-with-many
over report-with-many

for name in answer-short answer-long answer-with-many answer-without answer-unended answer-odd answer-nothing; do
	hold $name
	code=$(tell $name "login $name x")
	check "$name: nobody is let in ($code)" test "$code" != 230
	leave $name
	over $name
done

# front_files: print the number of open files of a preauth process after its session's work
front_files() {
	local p
	for p in $(with_uid "$front_uid"); do
		open_files "$p"
	done
}
hold good
check "a session as ours is served" test "$(tell good "login good x")" = 230
check "in what it says" test "$(tell good "do NOOP")" = 200
usual=$(front_files)
as_usual() { [ "$(front_files)" = "$usual" ]; }
leave good
over good

for name in guard-short guard-long guard-odd guard-without guard-with-many guard-always guard-kinds control-with-many; do
	mark auth
	hold $name
	check "$name: it has logged in" test "$(tell $name "login $name x")" = 230
	check "$name: its front carries on" test "$(tell $name "do NOOP")" = 200
	check "$name: with as many descriptors as any" patience 10 as_usual
	case $name in
	guard-always | guard-kinds | control-with-many)
		check "$name: there is nothing to complain of" not in_log 'sent a request that is not allowed'
		;;
	*) check "$name: which says so" in_log 'sent a request that is not allowed' ;;
	esac
	leave $name
	over $name
done

for name in control-odd control-empty control-huge; do
	hold $name
	tell $name "login $name x" >/dev/null
	check "$name: the client sees the end" test "$(tell $name "do NOOP")" = gone
	over $name
	leave $name
done

# A process that logs or asks without end has to wait, and the log does not grow.
for name in log-always lend-always; do
	mark auth
	hold $name
	echo "login $name x" >&"${to[$name]}"
	hold beside
	check "$name: meanwhile another is served" test "$(tell beside "login good x")" = 230
	leave beside
	check "$name: it comes to an end" patience 60 has_more "$tmp/$name.out" 1
	check "$name: but was made to wait" test "$(tail -n 1 "$tmp/$name.out")" = 230
	check "$name: and goes on" test "$(tell $name "do NOOP")" = 200
	leave $name
	over $name
	check "$name: no process is killed" not in_log ': killed'
done

# One that reads no answers keeps its own front, no other.
hold deaf
echo "login guard-unread x" >&"${to[deaf]}"
hold good
check "while a session reads nothing another is served" test "$(tell good "login good x")" = 230
check "as ever" test "$(tell good "do NOOP")" = 200
leave good
kill "${client[deaf]}"
for p in $(children "$server"); do
	all_four "$p" Uid "$front_uid" || kill -KILL "$p" 2>/dev/null
done
over "the deaf one"
check "no other has died of anything else" nothing_dies auth
check "no process waits to be reaped" test -z "$(ps -o pid= --ppid "$server" -o stat= | grep ' Z')"
check "and the last one" stops_well
finish
