#!/bin/bash
# shellcheck disable=SC2034,SC2317 # for lib.sh; check calls them
# One of rftpd's processes is somebody else's by now: a front, or a gate and the session that it
# becomes (tests/support/phony-*.c). The others, which are real, stay or end only what is concerned;
# nothing stays open, no process stays. TAP.
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

# ---- a front ----

start_phony front

# front CASE: what it tells is in $told
front() {
	local said
	mark front
	told=
	exec {line}<>"/dev/tcp/127.0.0.1/$port"
	echo "$1" >&"$line"
	while IFS= read -r -t $((60 * slow)) -u "$line" said; do
		told+=$said/
		[ "$said" != "done" ] || break
	done
}
hang_up() { exec {line}>&-; }
# settle: what the monitor has open when a connection has been and gone
settle() {
	patience 20 no_children "$server"
	at_first=$(open_files "$server")
}
front session-noop
hang_up
settle

for name in ask-short ask-long ask-huge ask-unended ask-with-one ask-with-many ask-thrice ask-always; do
	front $name
	# Some are done before the monitor looks.
	check "$name: the front is ended" patience 20 in_log 'front of .*nothing that it may: ended'
	hang_up
	over $name
done

# tells CASE LINES: and is not the monitor's business
tells() {
	front "$1"
	check "$1: $2" test "$told" = "$2/done/"
	hang_up
	over "$1"
	check "$1: nobody is ended" not in_log ': ended'
}
tells ask-nothing "monitor -32"
front ask-unread
check "an answer that is not read hurts nobody" test "$told" = "done/"
hang_up
over ask-unread
front leave-monitor
hang_up
over leave-monitor
# What is passed to the monitor may be slow to close: others do not wait for that.
for name in ask-lingering log-lingering; do
	front $name
	lingers=$line
	check "$name: it is sent" test "$told" = "done/"
	front session-noop
	check "$name: another is served meanwhile" test "$told" = "gate 0 0/session 200/done/"
	hang_up
	over $name
	exec {lingers}>&-
done
tells session-noop "gate 0 0/session 200"
tells gate-short "gate 0 -71"
tells gate-long "gate 0 -71"
tells gate-unended "gate 0 -71"
tells gate-with-many "gate 0 -71"
tells gate-twice "gate 0 0"
tells gate-another "gate 0 -71"
check "who logs in must be whom the monitor counts" grep -q 'a login without an end' "$tmp/front.log"
tells gate-other-name "gate 0 0"
for name in gate-left gate-silent; do
	front $name
	check "$name: there is a gate" test "$told" = "done/"
	hang_up
	over $name
done
tells handed-short "gate 0 0/session ended"
tells handed-bad "gate 0 0/session ended"
tells handed-with-many "gate 0 0/session ended"
tells session-odd "gate 0 0/session ended"
tells session-empty "gate 0 0/session ended"
tells session-huge "gate 0 0/session ended"
tells session-unasked "gate 0 0/session 200"
tells session-flood "gate 0 0"

front session-with-many
check "session-with-many: it is served" test "$told" = "gate 0 0/session 200/done/"
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
check "no process has died of anything else" nothing_dies front
check "that server stops well" stops_well

# Of one account there is one session, whatever the name it is asked for by.
start_phony front --max-per-user 1
front session-noop
good=$line
check "an account is in use" test "$told" = "gate 0 0/session 200/done/"
for name in gate-twice gate-other-name gate-another; do
	front $name
	case $name in
	gate-another) check "$name: nobody is let in" test "$told" = "gate 0 -71/done/" ;;
	*) check "$name: it is in use" test "$told" = "gate 0 -11/done/" ;;
	esac
	hang_up
	check "$name: its processes end" patience 20 two_are_left
done
check "it is counted by its own name" grep -q 'refused: too many sessions of anonymous' "$tmp/front.log"
exec {good}>&-
check "then it is free" patience 20 no_children "$server"
front gate-other-name
check "and has one session again" test "$told" = "gate 0 0/done/"
hang_up
check "that server stops well, too" stops_well

# ---- a gate, and a session ----

start_phony gate

hold first
tell first "login good x" >/dev/null
leave first
settle

for name in report-short report-long report-unended report-with-many report-odd report-twice report-always; do
	mark gate
	hold $name
	code=$(tell $name "login $name x")
	check "$name: nobody is let in ($code)" test "$code" != 230
	check "$name: the gate is ended" patience 20 in_log 'session of .*nothing that it may: ended'
	leave $name
	over $name
done

for name in answer-short answer-long answer-with-many answer-without answer-unended answer-odd answer-nothing; do
	hold $name
	code=$(tell $name "login $name x")
	check "$name: nobody is let in ($code)" test "$code" != 230
	leave $name
	over $name
done

# front_files: how many a front has, when its session has done what it does
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
	mark gate
	hold $name
	check "$name: it has logged in" test "$(tell $name "login $name x")" = 230
	check "$name: its front carries on" test "$(tell $name "do NOOP")" = 200
	check "$name: with as many descriptors as any" patience 10 as_usual
	case $name in
	guard-always | guard-kinds | control-with-many)
		check "$name: there is nothing to complain of" not in_log 'asks for what it cannot have'
		;;
	*) check "$name: which says so" in_log 'asks for what it cannot have' ;;
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

# Who talks or asks without end has to wait, and the log does not grow with it.
for name in log-always lend-always; do
	mark gate
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
	check "$name: nobody is ended" not in_log ': ended'
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
check "no other has died of anything else" nothing_dies gate
check "no process waits to be reaped" test -z "$(ps -o pid= --ppid "$server" -o stat= | grep ' Z')"
check "and the last one" stops_well
finish
