#!/bin/bash
# shellcheck disable=SC2034,SC2317 # for lib.sh; check calls them
# rftpd run by root is three kinds of processes (docs/TRUST.md): the user of each, its rights, its
# open files and its secrets; and the others when one of them is killed. TAP.
. "${top_srcdir:?}/tests/e2e/lib.sh"
. "$lib/processes.bash"
. "$lib/call-in.bash"
is_root || skip_all "only root's rftpd has more than one process"
need python3 openssl curl

mkdir -p "$tmp/root/in"
chmod 755 "$tmp" "$tmp/root"
chown $session_user "$tmp/root/in"
random "$tmp/big" 3000000
cp "$tmp/big" "$tmp/root/big"
echo secret >"$tmp/root/closed"
chmod 600 "$tmp/root/closed"
hash=$(echo s3cret-of-alice | rftpd --hash-password)
echo "alice:$hash:$tmp/root:/:rw" >"$tmp/users"
chmod 600 "$tmp/users"

run rftpd --listen 127.0.0.1:0 --root "$tmp/root" --anonymous ro --state "$tmp/s" --user no-such-user
check "a user who is not there is said" status_is 3
check "by name" grep -q 'no user "no-such-user"' "$tmp/err"
run rftpd --listen 127.0.0.1:0 --root "$tmp/root" --anonymous ro --state "$tmp/s" --user root
check "strangers do not talk to root" status_is 3
run rftpd --listen 127.0.0.1:0 --root "$tmp/root" --anonymous ro --state "$tmp/s" --user nobody --files-user no-such
check "nor are files served as nobody in particular" status_is 3
check "and it says what to do" grep -q -- '--files-user' "$tmp/err"
run rftpd --listen 127.0.0.1:0 --root "$tmp/root" --anonymous ro --state "$tmp/s" --user nobody --files-user root
check "as root only by name" status_is 3
run rftpd --listen 127.0.0.1:0 --root "$tmp/root" --anonymous ro --state "$tmp/s" --user nobody --files-user nobody
check "and strangers are others" status_is 3
mkdir -p "$tmp/s/empty"
: >"$tmp/s/empty/left here"
run rftpd --listen 127.0.0.1:0 --root "$tmp/root" --anonymous ro --state "$tmp/s" "${processes[@]}"
check "a root for strangers that is not empty is none" status_is 3
check "and what is in it is said" grep -q 's/empty is not empty: there is "left here" in it' "$tmp/err"
rm -r "$tmp/s/empty"

start_server d --root "$tmp/root" --anonymous rw --users "$tmp/users"
check "it starts" test -s "$tmp/d.port"

# The monitor, which may do what root may. The log and standard input; certificate and key, which
# it has not read; and what it listens on.
monitor_opens() { # KIND=N...
	opens "$server" /dev/null=1 "$tmp/d.log=2" /memfd:certificate=1 "$@"
}
kinds "$server" | comment
check "the monitor is root, filtered by nothing, in the system's root" is_roots "$server"
check "with root's capabilities" test "$(field "$server" CapEff)" = "$(field $$ CapEff)"
check "open: nothing but the log, the sealed key and one socket" monitor_opens socket=1
check "which listens" test "$(ss -Htlnp "sport = :$port" | grep -c "pid=$server,")" = 1

# ---- their users ----

hold a
check "a client is greeted" grep -qx 220 "$tmp/a.out"
check "by one process" patience 10 one_with_uid "$front_uid"
front=$(with_uid "$front_uid")
has_no_rights "a preauth process" "$front" "$tmp/d.state/empty"
kinds "$front" | comment
check "open: its client, and a pipe and a socket to the monitor" has_open "$front" anon_inode=1 pipe=1 socket=2
check "the monitor's: the other ends" monitor_opens pipe=1 socket=2

check "the login" test "$(tell a "login anonymous x")" = "230"
check "makes a session" patience 10 one_with_uid "$session_uid"
session=$(with_uid "$session_uid")
check "of the user for files" all_four "$session" Uid "$session_uid"
check "with his group" all_four "$session" Gid "$(id -g $session_user)"
check "and groups" test "$(field "$session" Groups | xargs)" = "$(id -G $session_user | xargs -n1 | sort -n | xargs)"
check "no capability" no_capabilities "$session"
check "nor by programs" test "$(field "$session" NoNewPrivs)" = 1
check "nobody of the same user can trace it" nobody_traces "$session"
if rftpd --version | grep -q '+seccomp'; then
	check "its calls are filtered" filtered "$session"
else
	skip "its calls are filtered" "built without libseccomp"
fi
check "its root is the system's" test "$(readlink "/proc/$session/root")" = /
check "no core of it" limit_is "$session" "Max core file size" 0
bounded() { # PID: its limit of locked memory is at most half of the machine's memory, and a little
	local most
	most=$(awk '/^Max locked memory/ {print $(NF-1)}' "/proc/$1/limits")
	[ "$most" != unlimited ] &&
		[ "$most" -le $(($(awk '/^MemTotal/ {print $2}' /proc/meminfo) * 512 + (64 << 20))) ]
}
check "nor can it lock all memory" bounded "$session"
check "its terminal is none of the server's" test "$(ps -o tty= -p "$session" | tr -d " ")" = "?"
kinds "$session" | comment
check "open: two sockets to its preauth process, a pipe and a socket to the monitor, and its root" \
	has_open "$session" "$(readlink -f "$tmp/root")=1" pipe=1 socket=3
check "the monitor's: a pipe from each, and a socket for replies to the session" monitor_opens pipe=2 socket=2

# ---- their rights ----

if ! can_call; then
	skip "calls of front and session" "$why"
else
	hold z
	stranger=$(with_uid "$front_uid" | grep -vx "$front")
	check "a front opens no socket" test "$(call_in "$stranger" 41 2 1 0)" = -1
	check "nor a file" test "$(call_in "$stranger" 257 -100 / 0 0)" = -1
	check "a session does" test "$(call_in "$session" 41 2 1 0)" -gt 2
	call_in "$stranger" 135 0x400000 # personality(2)
	check "what a front's filter does not know is its end" patience 20 \
		grep -q "process $stranger died of signal 31" "$tmp/d.log"
	eval "exec ${to[z]}<&-"
fi

# ---- their secrets ----

# The scalar of the server's key, in either order of bytes, and passwords.
python3 "$lib/in-memory.py" key "$tmp/d.state/key.pem" >"$tmp/scalar"
check "the front has the key" holds "$front" "$tmp/scalar"
check "the session has it not" lacks "$session" "$tmp/scalar"
check "the monitor has it not" lacks "$server" "$tmp/scalar"
hold b
check "alice logs in" test "$(tell b "login alice s3cret-of-alice")" = "230"
printf 's3cret-of-alice' >"$tmp/password"
check "the client knows her password" holds "${client[b]}" "$tmp/password"
# Her front has read it: it is hers alone, and ends with her connection.
check "the monitor does not" lacks "$server" "$tmp/password"
for p in "$front" $(with_uid "$session_uid"); do
	check "nor process $p" lacks "$p" "$tmp/password"
done
leave b

# ---- their work ----

alone() { [ "$(children "$server" | wc -w)" = 2 ]; } # those of the first
check "with her go her processes" patience 60 alone
check "what the user may read is read" test "$(tell a "get big")" = 226
check "what he may not is not" test "$(tell a "get closed")" = 550
check "what he may write is written" test "$(tell a "put in/up 100000")" = 226
check "and is his" test "$(stat -c %U "$tmp/root/in/up")" = $session_user
check "elsewhere not" test "$(tell a "put up 10")" = 553
check "lists" test "$(tell a list)" = 226
check "a command that needs no data" test "$(tell a "do PWD")" = 257
check "no second login" test "$(tell a "do USER alice")" = 503
check "and no second TLS" test "$(tell a "do AUTH TLS")" = 503
put "$tmp/big" "$url/in/bulk"
check "bulk puts" status_is 0
check "what was sent" same "$tmp/big" "$tmp/root/in/bulk"
get "$url/big" "$tmp/got"
check "and gets" same "$tmp/big" "$tmp/got"
put --prot clear "$tmp/big" "$url/in/bulk2"
check "by other protection, too" same "$tmp/big" "$tmp/root/in/bulk2"
put --transport tcp "$tmp/big" "rftp://alice@127.0.0.1:$port/x" --netrc "$tmp/none"
check "without a password none is let in" status_is 3
printf 'machine 127.0.0.1 login alice password s3cret-of-alice\n' >"$tmp/netrc"
chmod 600 "$tmp/netrc"
put --netrc "$tmp/netrc" "$tmp/big" "rftp://alice@127.0.0.1:$port/in/hers"
check "with one she is" same "$tmp/big" "$tmp/root/in/hers"

hold c
check "a wrong password" test "$(tell c "login alice wrong")" = 530
check "and another" test "$(tell c "login nobody-there s3cret-of-alice")" = 530
check "one that is too long" test "$(tell c "login alice $(printf '%01500d' 0)")" = 530
check "leave the way to the right one" test "$(tell c "login alice s3cret-of-alice")" = 230
leave c
check "all of them are in the log" test "$(grep -c 'login of .* refused' "$tmp/d.log")" -ge 2

# Many at once, with TLS on data connections. One curl would resume sessions of others of its
# control connections.
run_stdin xargs -P 30 -I % curl -sk --ssl-reqd -o "$tmp/many.%" "ftp://127.0.0.1:$port/big" < <(seq 100)
check "a hundred downloads at once" status_is 0
all_same() {
	local i
	for i in $(seq 100); do
		same "$tmp/big" "$tmp/many.$i" || return
	done
}
check "all whole" all_same
rm -f "$tmp"/many.*

# ---- when one of them is ended ----

hold d
check "another has logged in" test "$(tell d "login anonymous x")" = 230
fronts=$(with_uid "$front_uid") sessions=$(with_uid "$session_uid")
check "there are two of each" test "$(wc -w <<<"$fronts $sessions")" = 4
other=$(grep -vx "$session" <<<"$sessions")
kill -KILL "$other"
only() { [ "$(with_uid "$front_uid") $(with_uid "$session_uid")" = "$front $session" ]; }
check "a session that is killed takes its front with it" patience 20 only
check "its client sees the end" test "$(tell d "do NOOP")" = gone
check "the others do not" test "$(tell a "do NOOP")" = 200
check "it is in the log" grep -q "process $other died of signal 9" "$tmp/d.log"
leave d
hold e
check "a third has logged in" test "$(tell e "login anonymous x")" = 230
other=$(with_uid "$front_uid" | grep -vx "$front")
kill -SYS "$other"
check "a front that a filter ends takes its session with it" patience 20 only
check "its client sees it" test "$(tell e "do NOOP")" = gone
check "the log names the place of the refused call's number" \
	grep -q "process $other: its filter refused .*journalctl -k -g type=1326" "$tmp/d.log"
leave e
check "no process waits to be reaped" test -z "$(ps -o pid= --ppid "$server" -o stat= | grep ' Z')"
check "the monitor has only the pipes and the socket of the first" monitor_opens pipe=2 socket=2
check "the first goes on" test "$(tell a "get big")" = 226
leave a
check "at last none is left" patience 10 no_children "$server"
check "the monitor has open what it had" monitor_opens socket=1
check "it stops well" stops_well

# ---- the stop, in the middle of a transfer ----

start_server e --root "$tmp/root" --anonymous rw
run_put() { exec rftp put -q --accept-new --rate 1M --block 64K "$tmp/big" "$url/in/late"; }
run_put &
putter=$!
others+=("$putter")
moving() { grep -q 'files are written' "$tmp/e.log"; }
check "a transfer is under way" patience 20 moving
kill "$server"
wait $putter
check "it is not cut by a stop" same "$tmp/big" "$tmp/root/in/late"
check "which comes then" patience 20 gone "$server"

# ---- inherited files ----

# starts_without NAME COMMAND...: start the monitor with a file open that is not for it
starts_without() {
	local what=$1
	shift
	as_server=("$@")
	exec 77<"$tmp/big"
	start_server g --root "$tmp/root" --anonymous ro
	exec 77<&-
	as_server=()
	check "$what: it serves" test -s "$tmp/g.port"
	check "$what: what else was open is not" not test -e "/proc/$server/fd/77"
	stop_server
}
refuse=(python3 "$lib/refusing.py" 436) # close_range(2)
check "who is started like that has it open" test -n "$(bash -c 'readlink /proc/$$/fd/77' 77<"$tmp/big")"
starts_without "as ever"
if "${refuse[@]}" true; then
	starts_without "where closing all at once is refused" "${refuse[@]}"
else
	skip "where closing all at once is refused" "there can be no filters here"
fi

# ---- the monitor's limits ----

echo "bob:$hash:$tmp/root:/:ro" >>"$tmp/users"
start_server f --root "$tmp/root" --anonymous ro --users "$tmp/users" --max-per-user 1 --memory-budget 8M
mkdir -m 700 "$tmp/shut"
echo "dora:$hash:$tmp/shut:/:ro" >>"$tmp/users"
echo "erin:$hash:$tmp/root:/:ro:$(id -nu "$front_uid")" >>"$tmp/users"
python3 "$lib/ftp-say.py" "$port" "USER erin" "PASS s3cret-of-alice" PWD >"$tmp/said" 2>&1
check "nobody is served as the fronts' user" not grep -q '257' "$tmp/said"
check "as the log says" grep -q 'is the user of the preauth processes' "$tmp/f.log"
python3 "$lib/ftp-say.py" "$port" "USER dora" "PASS s3cret-of-alice" PWD >"$tmp/said" 2>&1
check "whose root cannot be entered is told so" grep -q '530 Your directory .* cannot be entered' "$tmp/said"
check "but not where it is" not grep -q "$tmp" "$tmp/said"
check "and is not let in" not grep -q '257' "$tmp/said"
check "the log says where, as an error" grep -q "error: session of dora from .*: root $tmp/shut: " "$tmp/f.log"
hold g
check "one session of alice" test "$(tell g "login alice s3cret-of-alice")" = 230
session=$(with_uid "$session_uid")
locked=$(awk '/^Max locked memory/ {print $(NF-1)}' "/proc/$session/limits")
check "which may lock its share, and what is beside it" test "$locked" != unlimited -a "$locked" -le $((80 << 20))
hold h
check "not another: later" test "$(tell h "login alice s3cret-of-alice")" = 421
check "it is in the log" grep -q 'refused: too many sessions of alice' "$tmp/f.log"
hold i
check "but one of bob" test "$(tell i "login bob s3cret-of-alice")" = 230
leave g
check "when alice has gone" patience 20 one_with_uid "$session_uid"
hold j
check "she may come again" test "$(tell j "login alice s3cret-of-alice")" = 230
no_session() { [ -z "$(with_uid "$session_uid")" ]; }
# shellcheck disable=SC2046 # two
kill -KILL $(with_uid "$session_uid")
check "those who are killed" patience 20 no_session
leave h
leave i
leave j
check "nobody is left" patience 20 no_children "$server"
hold k
check "do not count any more" test "$(tell k "login alice s3cret-of-alice")" = 230
leave k
check "nor is anybody after that" patience 20 no_children "$server"
check "that server stops well" stops_well

start_server m --root "$tmp/root" --anonymous ro --users "$tmp/users"
for n in $(seq 12); do hold "m$n"; done
for n in $(seq 12); do echo "login alice wrong$n" >&"${to[m$n]}"; done
all_told() { [ "$(cat "$tmp"/m*.out | grep -c '^[54]..$')" -ge 12 ]; }
check "a dozen wrong passwords at once" patience 60 all_told
for n in $(seq 12); do leave "m$n"; done
hold o
check "cost a host that it is not heard for a while" test "$(tell o "login bob s3cret-of-alice")" = 421
check "which the log says" grep -q 'refused: too many wrong passwords' "$tmp/m.log"
leave o
stop_server

# ---- messages at the start ----

mkdir -m 755 "$tmp/theirs"
start_server t --root "$tmp/theirs" --anonymous rw
stop_server
check "a root that the files' user cannot write is told of at the start" \
	grep -q "warning: root $tmp/theirs: user .* cannot write there: Permission denied (chown " "$tmp/t.log"
chown $session_user "$tmp/theirs"
start_server u --root "$tmp/theirs" --anonymous rw
stop_server
check "one that the user may write is no news" not grep -q 'cannot write there' "$tmp/u.log"
finish
