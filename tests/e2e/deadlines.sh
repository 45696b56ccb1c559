#!/bin/bash
# shellcheck disable=SC2317 # check calls them
# Deadlines of the processes before login that do not end by themselves: a password check that
# hangs, a preauth process that is stopped, and both when the server ends. TAP.
. "$(dirname "$0")/own-etc.bash"
. "${top_srcdir:?}/tests/e2e/lib.sh"
. "$lib/processes.bash"
need python3
rftpd --version | grep -q '[+]pam' || skip_all "this build has no PAM"
own_etc || skip_all "cannot mount a copy of /etc"

# A password that is never right nor wrong: the program that PAM asks does not come back.
add_user alice 5001 '*'
cat >"$tmp/ask" <<PROGRAM
#!/bin/sh
echo \$PPID \$\$ >>"$tmp/asked"
exec sleep 1000
PROGRAM
chmod 755 "$tmp/ask" "$tmp"
: >"$tmp/asked"
echo "auth required pam_exec.so $tmp/ask" >/etc/pam.d/rftpd
mkdir "$tmp/root"
chmod 755 "$tmp/root"
echo hello >"$tmp/root/hello"

start_server d --pam --anonymous ro --root "$tmp/root" --login-timeout 3s
asks() { [ "$(wc -l <"$tmp/asked")" -ge "$1" ]; }
# A program that PAM runs has a session of its own, and stays as long as it likes.
nobody_asks() {
	local asks program all=0
	while read -r asks program; do
		gone "$asks" || all=1
		[ $all = 1 ] || kill "$program" 2>/dev/null
	done <"$tmp/asked"
	return $all
}
served() {
	run python3 "$lib/ftp-say.py" "$port" "USER anonymous" "PASS x" "PWD"
	grep -q "^[0-9.]* 257" "$tmp/out"
}
not_served() { [ -z "$(with_uid "$session_uid")" ]; }
logged() { grep -q "$1" "$tmp/d.log"; }

hold a
echo "login alice right" >&"${to[a]}"
check "the program is asked" patience 20 asks 1
check "others log in meanwhile, and are served" served
check "a check that hangs is ended" patience 30 logged 'the check of a login from .* takes too long: killed'
check "and the process that made it" patience 10 nobody_asks
check "its client is told" patience 20 has_more "$tmp/a.out" 1
check "to come again later" test "$(tail -n 1 "$tmp/a.out")" = 421
check "nothing of it is left" patience 30 no_children "$server"

hold b
check "one more stranger" patience 10 one_with_uid "$front_uid"
front=$(with_uid "$front_uid")
kill -STOP "$front"
check "a preauth process that stands still is ended" patience 40 gone "$front"
check "and the log says so" logged 'its preauth process takes too long: killed'
check "nothing of that is left" patience 30 no_children "$server"
check "and others are served" served

# The users and rights of these processes (docs/TRUST.md): the auth process, and its child that asks
# PAM
start_server w --pam --anonymous ro --root "$tmp/root" --login-timeout 60s
: >"$tmp/asked"
hold e
echo "login alice right" >&"${to[e]}"
check "it is asked by another server" patience 20 asks 1
read -r child program <"$tmp/asked"
gate=$(ps -o ppid= -p "$child" | tr -d ' ')
front=$(with_uid "$front_uid")
parent_of() { ps -o ppid= -p "$1" | tr -d ' '; }
kinds "$gate" | comment
kinds "$child" | comment
check "the child's parent is no child of the preauth process, but of the monitor" \
	test "$(parent_of "$gate"):$(parent_of "$front")" = "$server:$server"
check "it and the auth process are others" test "$gate" != "$front" -a "$gate" != "$server"
check "the auth process is root" is_roots "$gate"
check "so is its child" is_roots "$child"
check "open in it: sockets to preauth process and monitor, pipes to monitor and child, and the key unread" \
	has_open "$gate" /memfd:certificate=1 pipe=2 socket=2
check "open in its child: not the key" has_open "$child" pipe=3 socket=2
check "open in what PAM runs: no line of theirs" test -z "$(find "/proc/$program/fd" -lname 'socket:*')"
monitors_pipes=$(find "/proc/$server/fd" -lname 'pipe:*' -printf '%l\n')
check "nor a pipe of the monitor's" test -z "$(find "/proc/$program/fd" -lname 'pipe:*' -printf '%l\n' |
	grep -Fx "$monitors_pipes")"
check "nor the key" test -z "$(find "/proc/$program/fd" -lname '/memfd:*')"
kill "$program"
check "when PAM has ended, the client is answered" patience 20 has_more "$tmp/e.out" 1
check "and not let in" grep -qx '[45]..' <<<"$(tail -n 1 "$tmp/e.out")"
check "auth process and child are gone" patience 20 gone "$gate"
leave e
check "nothing of them is left" patience 20 no_children "$server"
check "that server stops well" stops_well
server=${servers[0]} port=$(head -n 1 "$tmp/d.port")

# All of it at once, and the server is to end.
: >"$tmp/asked"
hold c
hold d
echo "login alice right" >&"${to[d]}"
check "again it is asked" patience 20 asks 1
for p in $(with_uid "$front_uid"); do
	kill -STOP "$p"
done
check "a server that is told to does not wait for them" stops_well
check "nor leaves anything" nobody_asks

# The same with a client that has been served.
start_server e --anonymous ro --root "$tmp/root"
hold e
check "somebody logs in" test "$(tell e "login anonymous x")" = 230
front=$(with_uid "$front_uid")
kill -STOP "$front"
kill "$server"
check "his session ends at the server's" patience 20 not_served
check "his front has some time left to tell him the rest" not gone "$front"
check "but not as much as ever" patience 80 gone "$front"
check "so that the server ends" patience 20 gone "$server"
finish
