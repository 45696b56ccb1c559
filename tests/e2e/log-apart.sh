#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034,SC2317 # for lib.sh; check calls them
# Messages of rftpd's three processes arrive in the system's log, and in the journal, which only the
# monitor has open. TAP.
. "$(dirname "$0")/own-etc.bash" # for its namespace of mounts
. "${top_srcdir:?}/tests/e2e/lib.sh"
. "$lib/processes.bash"
need python3

mkdir "$tmp/root" "$tmp/dev"
chmod 755 "$tmp" "$tmp/root"
random "$tmp/root/file" 100000
hash=$(echo s3cret | rftpd --hash-password)
echo "alice:$hash:$tmp/root:/:ro" >"$tmp/users"
chmod 600 "$tmp/users"

# A client whose actions are all logged: a wrong password, the right one, a file.
in_log() { grep -Eq "$1" "$log"; }
visit() { # HEAD: how each line begins
	local head=$1 level=$2 p lines
	hold "$level"
	check "$level: a wrong password" test "$(tell "$level" "login alice wrong")" = 530
	check "$level: and the right one" test "$(tell "$level" "login alice s3cret")" = 230
	check "$level: makes a session" patience 10 one_with_uid "$session_uid"
	check "$level: a file is got" test "$(tell "$level" "get file")" = 226
	for p in $(with_uid "$front_uid") $(with_uid "$session_uid"); do
		sanitized || check "$level: process $p has no log open, but its sockets and its pipe" \
			test -z "$(kinds "$p" | tr ' ' '\n' | grep -Ev "^(/dev/null|socket|pipe|anon_inode|$tmp/root)=|^\$")"
	done
	leave "$level"
	check "$level: who listens is in the log" patience 20 in_log "^$head.*listening on 127\.0\.0\.1:"
	check "$level: what the auth process's child says" patience 20 in_log \
		"$head.*login of \"alice\" from 127\.0\.0\.1:[0-9]+ refused"
	check "$level: who has logged in" patience 20 in_log "$head.*login of alice from 127\.0\.0\.1:[0-9]+ \("
	check "$level: what the session says" patience 20 in_log \
		"$head.*RETR \"/file\" by alice from 127\.0\.0\.1:[0-9]+: 100000 bytes"
	check "$level: each line is whole" not grep -Evq '^<[0-9]+>' "$log"
	check "$level: and once there" test "$(grep -c 'RETR "/file"' "$log")" = 1
}

# ---- the journal: a stream with the inode that the service manager names ----

log=$tmp/journal
: >"$log"
start_journal() {
	JOURNAL_STREAM=$(stat -c %d:%i "$log") exec rftpd --listen 127.0.0.1:0 --state "$tmp/j.state" \
		--port-file "$tmp/j.port" "${processes[@]}" --config /dev/null --root "$tmp/root" \
		--users "$tmp/users" --log journal </dev/null >/dev/null 2>>"$log"
}
start_journal &
server=$!
servers+=("$server")
patience 20 server_is_up j
port=$(head -n 1 "$tmp/j.port")
visit '<[0-9]>' journal
check "a warning has the level of one" in_log '^<4>.*login of "alice" from .* refused'
check "and a login that of one" in_log '^<6>.*login of alice from '
check "the server ends well" stops_well

# ---- the system's log: a socket of ours at /dev/log ----

cat >"$tmp/syslog.py" <<'END'
import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1])
out = open(sys.argv[2], "wb", buffering=0)
while True:
    out.write(s.recv(65536) + b"\n")
END
if ! mount -t tmpfs none "$tmp/dev"; then
	skip "the system's log" "there can be no /dev of its own here"
	finish
fi
mounts+=("$tmp/dev")
for f in null urandom zero; do
	touch "$tmp/dev/$f"
	mount --bind "/dev/$f" "$tmp/dev/$f"
done
ln -s /proc/self/fd "$tmp/dev/fd"
mount --rbind "$tmp/dev" /dev
mounts=(/dev "${mounts[@]}")
log=$tmp/syslog
python3 "$tmp/syslog.py" /dev/log "$log" &
others+=($!)
patience 20 test -e "$log"
start_server s --config /dev/null --root "$tmp/root" --users "$tmp/users" --log syslog
visit '<[0-9]+>' syslog
# 88 is LOG_FTP, to which 4 is LOG_WARNING, 6 LOG_INFO.
check "as what FTP servers say, a warning" in_log '^<92>.*rftpd\[[0-9]+\]: .*login of "alice" from .* refused'
check "and what is none" in_log '^<94>.*rftpd\[[0-9]+\]: .*login of alice from '
check "that server ends well, too" stops_well
finish
