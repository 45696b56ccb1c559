#!/bin/bash
# shellcheck disable=SC2034 # status is for lib.sh
# ^C while the shell waits for a server that has become silent (phony-ftp.py): it ends the command
# at once, in any wait, and the shell continues in the same directory; a second one leaves the
# shell. Scripts and rftp's own commands end. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
. "${top_srcdir:?}/tests/e2e/tmux.bash"

. "${top_srcdir:?}/tests/e2e/phony-ftp.bash"

said() { grep -qxF "$1" "$phony/said"; }
# mute VERB...: to these there is no answer from now on
mute() { : >"$phony/said"; printf '%s\n' "$@" >"$phony/mute.new" && mv "$phony/mute.new" "$phony/mute"; }
answers() { : >"$phony/mute"; }
prompt="127.0.0.1:/d>"
stops=0
# asked_in_vain VERB
asked_in_vain() { check "$1: the server is silent" patience 20 said "mute $2"; }
is_stopped() { # NAME PROMPT
	stops=$((stops + 1))
	keys C-c
	check_shows "$1: ^C ends it" 'rftp: interrupted'
	check_last "$1: and not the shell" "$2"
	answers
}
# stops_in VERB COMMAND: ^C while the server owes the answer to VERB
stops_in() {
	clear_screen
	mute "$1"
	line "$2"
	asked_in_vain "$2" "$1"
	is_stopped "$2 ($1)" "$prompt"
	clear_screen
	line pwd
	check_shows "$2 ($1): the directory is the same" '/d'
	clear_screen
	line 'ls -1'
	check_shows "$2 ($1): and the server is there again" 'two.dat'
}

begin 80 24 "rftp --plain --connect-timeout 10m $url/d"
check_last "a prompt" "$prompt" || finish
stops_in MLSD 'ls'
stops_in MLST 'cd /slash'
stops_in MLSD 'ls *.dat'
stops_in MLSD 'mget *.dat'
stops_in MLST 'size one.dat two.dat'
stops_in DELE 'rm one.dat two.dat'
check "of several none is asked for behind it" test "$(grep -cx DELE "$phony/said")" = 1
stops_in RNTO 'mv one.dat three.dat'
stops_in HASH 'hash one.dat'
sleep 0.4 # a connection that was used just now is not asked
stops_in NOOP 'ls'
stops_in DATA 'ls'

clear_screen
mute MLSD
keys -l 'ls on'
keys Tab
asked_in_vain "completion" MLSD
keys C-c
check_last "completion: ^C ends it, and drops the line" "$prompt"
answers
clear_screen
keys -l 'ls on'
keys Tab
check_last "completion: it works again" "$prompt ls one.dat"
clear_screen

# ---- while it connects ----

for verb in GREETING USER PASS FEAT PWD MLST; do
	line close
	clear_screen
	check_last "none is open" "rftp>"
	mute "$verb"
	line "open $url/slash"
	asked_in_vain "open" "$verb"
	# With the login the server is open, if not the directory.
	prompt="rftp>"
	if [ "$verb" = MLST ]; then prompt="127.0.0.1:/>"; fi
	is_stopped "open ($verb)" "$prompt"
done
line 'cd d'
check_last "it is open" "127.0.0.1:/d>"
prompt="127.0.0.1:/d>"
clear_screen
line "open rftp://127.0.0.1:$full/"
# Nothing tells that it connects but that it is not done.
sleep 1
is_stopped "open (nobody takes the connection)" "$prompt"
begin 80 24 "rftp"
check_last "a shell" "rftp>"
mute TLS
line "open $url/d"
asked_in_vain "open" TLS
is_stopped "open (TLS)" "rftp>"
line "open --plain rftp://somebody@127.0.0.1:$port/"
check_shows "a password is not sent in clear" 'in clear'
mute GREETING
begin 80 24 "rftp --plain $url/d"
asked_in_vain "rftp URL" GREETING
is_stopped "rftp URL" "rftp>"
line "open $url/d"
check_last "which can be opened now" "$prompt"

# ---- names ----

# A host with a name server that does not answer.
echo 'nameserver 127.0.0.1' >"$tmp/resolv.conf"
echo 'hosts: dns' >"$tmp/nsswitch.conf"
cat >"$tmp/alone" <<ALONE
ip link set lo up && mount --bind "$tmp/resolv.conf" /etc/resolv.conf &&
	mount --bind "$tmp/nsswitch.conf" /etc/nsswitch.conf || exit
python3 -c 'import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("127.0.0.1", 53))
open("$tmp/names", "w")
while s.recv(1000): open("$tmp/asked", "w")' &
until [ -e "$tmp/names" ]; do kill -0 \$! || exit; sleep 0.1; done
"\$@"
status=\$?
kill \$!
exit \$status
ALONE
what="a name that is looked up"
run unshare -rmn bash "$tmp/alone" true
if status_is 0; then
	rm -f "$tmp/names"
	begin 80 24 "unshare -rmn bash '$tmp/alone' rftp"
	check_last "a shell" "rftp>"
	line 'open rftp://slow.example.org/'
	check "$what: the name server is silent" patience 20 test -e "$tmp/asked"
	is_stopped "$what" "rftp>"
	line quit
	check_shows "$what: quit leaves it, too" 'status 0'
else
	skip "$what" "no name server can be put up here"
fi

# ---- ssh ----

cat >"$tmp/patient" <<SSH
case " \$* " in *" -G "*) exit 0 ;; esac
echo \$\$ >"$tmp/ssh.pid"
exec sleep 600
SSH
cat >"$tmp/deaf" <<SSH
case " \$* " in *" -G "*) exit 0 ;; esac
trap '' TERM
echo \$\$ >"$tmp/ssh.pid"
while :; do sleep 600 & wait; done
SSH
begin 80 24 "rftp --ssh 'sh $tmp/patient'"
check_last "a shell" "rftp>"
line 'open somewhere:'
check "ssh: it runs" patience 20 test -s "$tmp/ssh.pid"
is_stopped "ssh" "rftp>"
check "ssh: it has ended" patience 5 gone "$(cat "$tmp/ssh.pid")"
rm "$tmp/ssh.pid"
begin 80 24 "rftp --ssh 'sh $tmp/deaf'"
check_last "a shell" "rftp>"
line 'open somewhere:'
check "ssh that does not end: it runs" patience 20 test -s "$tmp/ssh.pid"
keys C-c
sleep 0.3
keys C-c
check_shows "ssh that does not end: the second ^C leaves" 'status 4'
kill -KILL "$(cat "$tmp/ssh.pid")"
terminal kill-server

# ---- without a terminal ----

is_rftp() { [ "$(cat "/proc/$1/comm" 2>/dev/null)" = rftp ]; }
# ends_by_signal NAME WORD...: with standard input as it is
ends_by_signal() {
	local what=$1
	shift
	ran="rftp $*"
	mute MLST
	# A shell has its background jobs ignore SIGINT.
	python3 -c 'import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execvp(sys.argv[1], sys.argv[1:])' rftp "$@" <&0 >"$tmp/out" 2>"$tmp/err" &
	others+=($!)
	asked_in_vain "$what" MLST
	kill -INT "${others[-1]}"
	check "$what: SIGINT ends it" patience 10 gone "${others[-1]}"
	wait "${others[-1]}"
	status=$?
	check "$what: 4, and a line" test "$status" -eq 4 -a "$(cat "$tmp/err")" = "rftp: interrupted"
	answers
}
# interrupted_in NAME COMMANDS: a ^C goes to rftp and to the program that it waits for
interrupted_in() {
	ran="rftp -k -c '$2'"
	run python3 -c 'import os, signal, subprocess, sys, time
ready = sys.argv[1]
p = subprocess.Popen(sys.argv[2:], start_new_session=True,
                     preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
while not os.path.exists(ready) and p.poll() is None:
    time.sleep(0.05)
os.unlink(ready)
os.killpg(p.pid, signal.SIGINT)
sys.exit(p.wait(20))' "$tmp/ready" rftp -k -c "$2" </dev/null
	check "$1: 4, and a line" test "$status" -eq 4 -a "$(cat "$tmp/err")" = "rftp: interrupted"
	check "$1: with -k, too, none comes behind it" test ! -s "$tmp/out"
}
interrupted_in "a program of the system's" "!touch $tmp/ready; exec sleep 30
lpwd"
interrupted_in "one behind a pipe" "help | cat >$tmp/help; touch $tmp/ready; exec sleep 30
lpwd"
ends_by_signal "rftp ls" ls --plain "$url/d" </dev/null
ends_by_signal "a command of -c" --plain -c 'cd d; pwd' "$url" </dev/null
check "none comes behind it" test ! -s "$tmp/out"
ends_by_signal "a script" --plain "$url" <<'SCRIPT'
cd d
pwd
SCRIPT
check "nor there" test ! -s "$tmp/out"

exec 7>&-
finish
