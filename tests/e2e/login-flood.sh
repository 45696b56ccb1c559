#!/bin/bash
# shellcheck disable=SC2034,SC2317 # for lib.sh; check calls them
# Many wrong passwords at once (flood-client.py): the server's memory has a bound, and a login from
# another host gets its turn. TAP.
. "${top_srcdir:?}/tests/e2e/lib.sh"
need python3

# Memory of one password check, and of a process besides, kB.
per_check=33500 per_connection=2000
flood=100
if sanitized || [ "$slow" -gt 1 ]; then
	flood=20 per_check=96000 per_connection=60000
fi
[[ $(ulimit -n) == unlimited || $(ulimit -n) -gt 1000 ]] || skip_all "ulimit -n is $(ulimit -n)"

mkdir "$tmp/root"
hash=$(echo s3cret | rftpd --hash-password)
echo "alice:$hash:$tmp/root:/:rw" >"$tmp/users"
chmod 600 "$tmp/users"

# serve NAME OPTION...
serve() {
	local name=$1
	shift
	start_server "$name" --plain --users "$tmp/users" --root "$tmp/root" --max-sessions 400 \
		--max-per-host 300 "$@"
}
# flood N HOSTS [early]
flood() {
	clients=$1
	limit=240 run python3 "$lib/flood-client.py" "$port" "$server" "$@"
	comment <"$tmp/out"
	[ "$status" = 0 ] || comment <"$tmp/err"
}
word() { awk -v name="$1" '$1 == name { print $2 }' "$tmp/out"; }
honest() { awk '$1 == "honest" { print int($3 + 0.99) }' "$tmp/out"; }
# answers NAME SECONDS: limits of the last flood
answers() {
	check "$1: each gets an answer" test "$(word else)" = 0
	check "$1: another host logs in" test "$(word honest)" = 230
	check "$1: within $2 s" test "$(honest)" -le $(($2 * slow))
}
# holds NAME CHECKS SECONDS: the same, with memory for so many checks at once. flood-client.py may count
# one more, if a check begins while another ends.
holds() {
	check "$1: memory for $2 checks at once, not for $clients" \
		test "$(word grown)" -lt $((($2 + 1) * per_check + clients * per_connection))
	answers "$1" "$3"
}

serve one
flood "$flood" 1
holds "one process, one host" 4 5
flood "$flood" "$flood"
holds "one process, as many hosts" 4 60
check "it stops well" stops_well

serve two --max-checks 1
flood $((flood / 5)) 1
holds "one check at once" 1 5
check "it stops well" stops_well

# A login does not wait longer than a login may take. The checks of all clients take several times as
# long.
many=$((flood < 60 ? 60 : flood))
serve three --max-checks 1 --login-timeout 3s
flood "$many" 1 early
answers "a short time for a login" 5
check "a login that waits too long is told to come again later" test "$(word later)" -gt 0
check "and the log names the option" grep -q 'refused: too many logins at once; see max-checks' "$tmp/three.log"
check "it stops well" stops_well

# left NAME: clients that close their connections while they wait for a check are not checked, but
# for those of the first second
left() {
	local before
	before=$(wrong)
	run python3 -c '
import socket, sys
crowd = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for i in range(int(sys.argv[2]))]
for sock in crowd:
    sock.recv(1000)
    sock.sendall(b"USER nobody\r\n")
    sock.recv(1000)
for sock in crowd:
    sock.sendall(b"PASS wrong\r\n")
' "$port" "$many"
	check "$1: clients that leave while they wait" status_is 0
	check "$1: their sessions end" patience 60 no_children "$server"
	check "$1: the log says so" grep -q 'the client left while its login waited' "$tmp/$name.log"
	check "$1: and few of them were checked" test $(($(wrong) - before)) -le $((many / 2))
}
wrong() { grep -c 'nobody.*refused' "$tmp/$name.log"; }
name=five
serve five --max-checks 1
left "one process"
check "it stops well" stops_well

if is_root; then
	processes=(--user nobody --files-user daemon)
	chmod 755 "$tmp/root"
	serve four
	flood "$flood" 1
	holds "three processes, one host" 4 5
	check "guesses at once are checked no faster than one after the other" \
		test "$(word refused)" -le 12
	flood "$flood" "$flood"
	holds "three processes, as many hosts" 4 60
	check "it stops well" stops_well
	name=six
	serve six --max-checks 1
	left "three processes"
	check "it stops well" stops_well
else
	skip "three processes" "only root's rftpd has them"
fi
finish
