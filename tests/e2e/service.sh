#!/bin/bash
# shellcheck disable=SC2034,SC2317 # for lib.sh; check calls them
# rftpd under a service manager: the sockets that it gets, its notifications, its stop, its reload,
# and its replacement by the next one without a lost connection. The manager is
# tests/e2e/service-manager.py; systemd itself is for the guest's test, tests/vm/rftpd-service.sh.
# TAP.
. "${top_srcdir:?}/tests/e2e/lib.sh"
need python3

! is_root || three_processes
as=(python3 "$lib/service-manager.py")
mkdir "$tmp/root"
chmod 777 "$tmp/root"
random "$tmp/big" 4000000
cp "$tmp/big" "$tmp/root/"
printf 'root %s\nanonymous rw\n' "$tmp/root" >"$tmp/conf"
printf 'root %s\nanonymous maybe\n' "$tmp/root" >"$tmp/bad"
served=(--config "$tmp/conf")

# manager NAME SOCKET: from now on rftpd notifies it; $told has the notifications
manager() {
	told=$tmp/$1.told
	"${as[@]}" manager "$2" "$told" &
	others+=($!)
	patience 20 test -e "$told"
	export NOTIFY_SOCKET=$2
}
has_told() { grep -Eq -e "$1" "$told" || { comment <"$told"; false; }; }
soon_told() { patience 30 grep -Eq -e "$1" "$told" || { comment <"$told"; false; }; }
has_logged() { grep -Eq -e "$2" "$tmp/$1.log"; }
soon_logged() { patience 30 has_logged "$@"; }
greets() { [ "$(timeout 20 bash -c "exec 3<>/dev/tcp/$1/$2 && head -c 3 <&3" 2>/dev/null)" = 220 ]; }
refuses() { ! (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
counted() { wc -l <"$tmp/knock.count"; }
counts_up() { [ "$(counted)" -ge "$1" ]; }

# begin_put NAME, begin_get NAME: a transfer that stands still in its middle, until end_transfer
begin_put() { begin send put "$tmp/big" "$url/$1"; }
begin_get() {
	mkdir -p "$tmp/to"
	begin recv get "$url/big" "$tmp/to/$1"
}
begin() { # POINT COMMAND ARGUMENT...
	ran="${*:2}"
	RFTP_FAULT=$1:SIGSTOP:after=2M:count=1 rftp "$2" -q --accept-new --retries 0 \
		--block 64K "${@:3}" </dev/null >"$tmp/out" 2>"$tmp/err" &
	client=$!
	others+=("$client")
	patience 30 stands_still "$client"
}
end_transfer() {
	kill -CONT "$client"
	wait "$client"
	status=$?
}
# The former server: not our child.
ends() { patience 30 gone "$1"; }

# ---- sockets that are given ----

six=$(python3 -c 'import socket
try:
    socket.create_server(("::1", 0), family=socket.AF_INET6)
    print("6")
except OSError: pass')
as_server=("${as[@]}" listen 4 ${six:+"$six"} --)
start_server given "${served[@]}"
check "given sockets are listened on" greets 127.0.0.1 "$port"
check "which is said" has_logged given "listening on 127.0.0.1:$port, as it was given"
check "and that --listen is not used" has_logged given 'rftpd.*--listen: not used'
check "no other socket is" test "$(wc -l <"$tmp/given.port")" -eq $((1 + ${#six}))
if [ -n "$six" ]; then
	check "of IPv6, too" greets ::1 "$(tail -n 1 "$tmp/given.port")"
else
	skip "of IPv6, too" "there is no IPv6 here"
fi
sed -i 's/rw/ro/' "$tmp/conf"
rm "$tmp/given.port"
kill -HUP "$server"
check "settings read anew" soon_logged given 'settings read anew'
check "write the port file again" grep -qx "$port" "$tmp/given.port"
check "leave them as they are" greets 127.0.0.1 "$port"
sed -i 's/ro$/rw/' "$tmp/conf"
check "it stops well" stops_well

if [ -n "$six" ]; then
	as_server=("${as[@]}" listen dual --)
	start_server dual "${served[@]}"
	put "$tmp/big" "$url/dual"
	check "IPv4 by a socket of both is IPv4" status_is 0
	check "in the log, too" has_logged dual '127\.0\.0\.1:[0-9]'
	check "and nowhere within IPv6" not has_logged dual '::ffff'
	stop_server
else
	skip "IPv4 by a socket of both is IPv4" "there is no IPv6 here"
fi

as_server=("${as[@]}" listen other 4 --)
start_server other "${served[@]}"
check "what another process was given is not ours" not has_logged other 'as it was given'
check "and --listen is used" greets 127.0.0.1 "$port"
stop_server
as_server=()

refused() { # NAME TEXT DESCRIPTOR...
	run "${as[@]}" listen "${@:3}" -- rftpd "${served[@]}" --state "$tmp/s" "${processes[@]}"
	check "$1" status_is 3
	check "it says so" grep -q "$2" "$tmp/err"
}
refused "no UDP" 'descriptor 3 (udp) is no TCP socket' udp
refused "no Unix socket, also as the second" 'descriptor 4 (unix) is no TCP socket' 4 unix
refused "a socket that does not listen" 'descriptor 3 (idle) is a connection, or nothing yet' idle
refused "what is no socket" 'descriptor 3 (pipe) is no socket' pipe
COUNT=5 refused "one that is not there" 'descriptor 4 is not open' 4
COUNT=x refused "no number" 'LISTEN_FDS=x' 4
COUNT=1000 refused "too many" 'LISTEN_FDS=1000' 4

# ---- notifications ----

manager abstract "@rftpd-test-$$"
start_server abstract "${served[@]}"
check "by an abstract socket, too" soon_told "^$server READY=1"
stop_server
NOTIFY_SOCKET=vsock:2:1 start_server strange "${served[@]}"
check "a socket that is none is said" has_logged strange 'NOTIFY_SOCKET=vsock:2:1'
check "and it serves" greets 127.0.0.1 "$port"
stop_server

manager main "$tmp/notify"
start_server main "${served[@]}"
check "READY" soon_told "^$server READY=1$"
check "with a status" has_told "^$server STATUS=sessions: 0$"
check "at first" test "$(head -n 1 "$told")" = "$server READY=1"
exec {held}<>"/dev/tcp/127.0.0.1/$port"
check "a session is counted" soon_told "^$server STATUS=sessions: 1$"
kill -HUP "$server"
check "RELOADING" soon_told "^$server RELOADING=1$"
check "since when" soon_told "^$server MONOTONIC_USEC=[0-9]+$"
ready() { [ "$(grep -c ' READY=1$' "$told")" -eq "$1" ]; }
check "READY again" patience 20 ready 2
check "in this order" test "$(sed -n 's/^[0-9]* \(READY\|RELOADING\|MONOTONIC_USEC\)=.*/\1/p' "$told" | xargs)" = \
	"READY RELOADING MONOTONIC_USEC READY"
cp "$tmp/bad" "$tmp/conf"
run rftpd --check-config "${served[@]}"
check "wrong settings are refused before, as systemctl reload does" status_is 2
kill -HUP "$server"
check "and said to be wrong" soon_told "^$server STATUS=sessions: 1; the settings stay as they were: .*conf:2: .*maybe"
check "in the log, too" has_logged main 'conf:2: anonymous'
check "READY it is" patience 20 ready 3
check "and serves" greets 127.0.0.1 "$port"
printf 'root %s\nanonymous rw\n' "$tmp/root" >"$tmp/conf"
kill -HUP "$server"
check "right again, nothing is said of it" patience 20 ready 4
check "any more" not grep -q 'stay as' <(tail -n 1 "$told")
exec {held}>&-

# ---- stopped in the middle ----

need_faults # they hold a transfer in its middle

begin_put stopped
check "a transfer is under way" stands_still "$client"
kill "$server"
check "STOPPING" soon_told "^$server STOPPING=1$"
check "says for whom" soon_told "^$server STATUS=stopping; sessions that finish their work: 1$"
check "nobody else gets in" patience 20 refuses "$port"
check "it waits" not gone "$server"
end_transfer
check "the transfer ends well" status_is 0
check "with all bytes" same "$tmp/big" "$tmp/root/stopped"
check "and then the server does" ends "$server"
wait "$server"
check "as it should" test $? -eq 0

# ---- the next one ----

# In a place of its own, so that another can be put there.
mkdir "$tmp/bin"
cp "$(command -v rftpd)" "$tmp/bin/next"
put_program() { cp "$1" "$tmp/bin/new" && chmod 755 "$tmp/bin/new" && mv "$tmp/bin/new" "$tmp/bin/rftpd"; }
put_program "$tmp/bin/next"
as_server=(bash -c 'program=$0; shift; exec "$program" "$@"' "$tmp/bin/rftpd")
# Of eight sockets the first four stay, so that the line has the place of the others.
listens_on() { printf 'listen 127.0.0.%d:0\n' "$@" | cat "$tmp/conf" - >"$tmp/many"; }
listens_on 1 2 3 4 5 6 7 8
(
	unset NOTIFY_SOCKET
	exec "${as_server[@]}" rftpd --config "$tmp/many" --state "$tmp/many.state" --port-file "$tmp/many.port" \
		-v "${processes[@]}" </dev/null >"$tmp/many.log" 2>&1
) &
server=$!
servers+=("$server")
ports_are() { [ "$(wc -l 2>/dev/null <"$tmp/many.port")" = "$1" ]; }
check "eight sockets" patience 30 ports_are 8
listens_on 5 6 7 8
kill -HUP "$server"
check "of which four are left" patience 30 ports_are 4
rm "$tmp/bin/rftpd"
kill -USR2 "$server"
check "no program for these" soon_logged many 'the next rftpd has ended before it was ready: this one continues'
check "is said, too" has_logged many 'the next rftpd cannot start: .*bin/rftpd: No such file'
put_program "$tmp/bin/next"
kill -USR2 "$server"
check "a program" soon_logged many 'the next rftpd, process [0-9]+, serves from now on'
next=$(sed -n 's/.*the next rftpd, process \([0-9]*\), serves.*/\1/p' "$tmp/many.log")
others+=("$next")
check "serves instead" ends "$server"
check "the four" ports_are 4
n=5
while read -r p; do
	check "at 127.0.0.$n" greets 127.0.0.$n "$p"
	n=$((n + 1))
done <"$tmp/many.port"
kill "$next"
check "until it ends" ends "$next"

: >"$told"
start_server roll "${served[@]}"
first=$server
check "it is ready" soon_told "^$first READY=1$"

attempts=0
fails() { # NAME TEXT: the next one does not start
	attempts=$((attempts + 1))
	kill -USR2 "$server"
	check "$1: said" patience 30 logged_times "$attempts" 'the next rftpd has ended before it was ready: this one continues'
	check "$1: why" has_logged roll "$2"
	check "$1: it serves on" greets 127.0.0.1 "$port"
}
logged_times() { [ "$(grep -c -e "$2" "$tmp/roll.log")" -eq "$1" ]; }
cp "$tmp/bad" "$tmp/conf"
fails "wrong settings" 'the next rftpd cannot start: .*conf:2: .*maybe'
printf 'root %s\nanonymous rw\n' "$tmp/root" >"$tmp/conf"
mv "$tmp/root" "$tmp/elsewhere"
fails "no root" 'the next rftpd cannot start: root .*No such file'
mv "$tmp/elsewhere" "$tmp/root"
rm "$tmp/bin/rftpd"
fails "no program" 'the next rftpd cannot start: .*bin/rftpd: No such file'
printf '#!/bin/sh\nexit 1\n' >"$tmp/script"
put_program "$tmp/script"
fails "another program" 'starting the next rftpd'
check "no MAINPID was told" not has_told MAINPID
printf '#!/bin/sh\nexec sleep 86399\n' >"$tmp/script"
put_program "$tmp/script"
kill -USR2 "$server"
sleeps() { pgrep -f '^sleep 86399$' >"$tmp/sleeper" && [ -z "$(children "$server")" ]; }
check "one that is never ready" patience 20 sleeps
fails "and a second signal: killed" 'before the next rftpd was ready: killed it'
put_program "$tmp/bin/next"

# One at rest, one in the middle of a transfer, and others that come and go.
mkfifo "$tmp/held.in"
exec {held}<>"$tmp/held.in"
python3 "$lib/ftp-held.py" "$port" <&"$held" >"$tmp/held.out" 2>&1 &
others+=($!)
tell() { # COMMAND: the code of the reply
	local before
	before=$(wc -l <"$tmp/held.out")
	echo "$1" >&"$held"
	patience 60 has_lines $((before + 1))
	tail -n 1 "$tmp/held.out"
}
has_lines() { [ "$(wc -l <"$tmp/held.out")" -ge "$1" ]; }
patience 30 has_lines 1
check "a session" test "$(tell 'login anonymous x')" = 230
: >"$tmp/knock.count"
"${as[@]}" knock "$port" "$tmp/knock" 2>"$tmp/knock.err" &
knocking=$!
others+=("$knocking")
check "others knock" patience 60 counts_up 20
# From here to its end there are less than the 30 seconds after which the server gives it up.
begin_get rolled
check "a transfer" stands_still "$client"
kill -USR2 "$first"
check "the next one serves" soon_told "^$first MAINPID=[0-9]+$"
second=$(sed -n 's/.* MAINPID=//p' "$told")
others+=("$second")
check "as it says itself" soon_told "^$second READY=1$"
check "and that the one before has sessions" soon_told "^$second STATUS=sessions: [0-9]+, before the restart: 2$"
end_transfer
check "the transfer ends well" status_is 0
check "with all bytes" same "$tmp/big" "$tmp/to/rolled"
check "the one before waits for the other" not gone "$first"
check "others knock on" patience 120 counts_up $(($(counted) + 200))
: >"$tmp/knock.end"
wait "$knocking"
read -r greeted missed <"$tmp/knock"
comment <<<"greeted: $greeted, missed: $missed"
head -n 5 "$tmp/knock.err" | comment
check "200 and more are greeted" test "$greeted" -ge 220
check "and none is lost" test "$missed" -eq 0
check "it is the next one's parent no more" test "$(ps -o ppid= -p "$second" | xargs)" != "$first"
check "what it listens on is the same" same <(sort "$tmp/roll.port") <(echo "$port")

listens() { # PID
	local inode
	inode=$(awk -v port="$(printf ':%04X' "$port")" 'index($2, port) && $4 == "0A" {print $10}' /proc/net/tcp)
	[ -n "$(find "/proc/$1/fd" -lname "socket:\\[$inode\\]" 2>/dev/null)" ]
}
check "the next one listens" listens "$second"
check "the one before does not" not listens "$first"
check "the session goes on" test "$(tell 'get big')" = 226
patience 20 no_children "$second"
exec {a}<>"/dev/tcp/127.0.0.1/$port"
has_children() { [ "$(children "$1" | wc -l)" -eq "$2" ]; }
check "who comes is the next one's" patience 20 has_children "$second" 1
echo 'max-sessions 3' >>"$tmp/conf"
kill -HUP "$second"
check "its settings can be read anew" patience 20 logged_times 1 'settings read anew'
exec {b}<>"/dev/tcp/127.0.0.1/$port"
check "as many as there may be with those before" patience 20 has_children "$second" 2
check "and no more" not greets 127.0.0.1 "$port"
exec {a}>&- {b}>&-
check "they leave" patience 20 no_children "$second"

# Once more, while the first is there.
kill -USR2 "$second"
check "a third" soon_told "^$second MAINPID=[0-9]+$"
third=$(sed -n "s/^$second MAINPID=//p" "$told")
others+=("$third")
check "knows of the first's session" soon_told "^$third STATUS=sessions: 0, before the restart: 1$"
check "so that the second stays" not gone "$second"
kill -HUP "$second"
reloaded() { grep -q "^$third RELOADING=1" "$told"; }
check "what the second is told to read is for the third" patience 20 reloaded
check "the session still goes on" test "$(tell 'list')" = 226

# The last stop is for all of them.
kill "$third"
check "stopped" soon_told "^$third STOPPING=1$"
check "with the session of the first" ends "$first"
check "the second" ends "$second"
check "and the third" ends "$third"
check "nobody listens" refuses "$port"
wait "$first"
check "as it should" test $? -eq 0
echo end >&"$held"
exec {held}>&-

# A transfer that began before the restart ends before the service does.
: >"$told"
start_server twice "${served[@]}"
first=$server
begin_put after
kill -USR2 "$first"
check "one more" soon_told "^$first MAINPID=[0-9]+$"
second=$(sed -n 's/.* MAINPID=//p' "$told")
others+=("$second")
soon_told "^$second STATUS=sessions: 0, before the restart: 1$"
kill "$second"
check "stopped with a transfer of the one before" soon_told "^$second STATUS=stopping; sessions that finish their work: 1$"
check "nobody gets in" patience 20 refuses "$port"
check "it waits for it" not gone "$second"
end_transfer
check "which ends well" status_is 0
check "with all bytes" same "$tmp/big" "$tmp/root/after"
check "then the one before does" ends "$first"
check "and it" ends "$second"

# A stop while the settings are read: they are a pipe, and its writer delays the reading.
: >"$told"
start_server reading "${served[@]}"
mv "$tmp/conf" "$tmp/conf.kept"
mkfifo "$tmp/conf"
kill -HUP "$server"
check "the settings are being read" soon_told "^$server RELOADING=1$"
exec {a}>"$tmp/conf"
kill "$server"
cat "$tmp/conf.kept" >&"$a"
exec {a}>&-
check "it stops all the same" ends "$server"
mv "$tmp/conf.kept" "$tmp/conf"

# To all processes of the service, as systemctl kill does by default.
start_server all "${served[@]}"
exec {a}<>"/dev/tcp/127.0.0.1/$port"
patience 20 has_children "$server" 1
session=$(children "$server")
kill -USR2 "$session"
check "sessions do not mind the signal" greets 127.0.0.1 "$port"
check "nor do they end" not gone "$session"
exec {a}>&-
stop_server
as_server=()
finish
