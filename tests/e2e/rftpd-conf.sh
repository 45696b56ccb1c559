#!/bin/bash
# shellcheck disable=SC2034,SC2154,SC2317 # lib.sh knows them
# rftpd.conf: the example, --check-config and --show-config, settings read anew under a transfer,
# allowed hosts, and the destinations of the log. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
need setsid python3 openssl

limit=30
conf=$tmp/rftpd.conf
example=$top_srcdir/docs/rftpd.conf
mkdir "$tmp/root" "$tmp/drop"
random "$tmp/root/file" 100000

# ---- the example ----

# The lines with "#" and no blank: all defaults.
sed -n 's/^#\([a-z]\)/\1/p' "$example" >"$conf"
rftpd --users x --show-config >"$tmp/default"
check "the settings are shown" test "$(wc -l <"$tmp/default")" -ge 45
rftpd --users x --show-config --config "$conf" 2>"$tmp/err" >"$tmp/shown"
check "the example's defaults are the real ones" same "$tmp/default" "$tmp/shown"
check "it has every setting" same <(sed -n 's/ .*//; /^\[/q; /./p' "$tmp/default" | LC_ALL=C sort -u) \
	<(sed 's/ .*//' "$conf" | LC_ALL=C sort -u)
sed -n '/^# ---- Sections/,$ s/^# \(\[\|[a-z-]* [^ ]*$\)/\1/p' "$example" >"$conf"
rftpd --users x --config "$conf" --show-config >"$tmp/out" 2>"$tmp/err"
check "its sections can be used" same <(grep -c '^\[' "$conf") \
	<(grep -v anonymous "$tmp/out" | grep -c '^\[' | python3 -c 'print(int(input()) + 1)')

# Every setting is in rftpd.conf(5), and in no other shape.
man=$top_srcdir/man/rftpd.conf.5
sed -n '/^\.Sh KEYS/,/^\.Sh SECTIONS/ s/^\.It Cm \([a-z-]*\).*/\1/p' "$man" | LC_ALL=C sort >"$tmp/man"
check "rftpd.conf(5) has every setting" same "$tmp/man" \
	<(sed -n 's/ .*//; /^\[/q; /./p' "$tmp/default" | LC_ALL=C sort -u)
sed -n '/^\.Sh EXAMPLES/,/^\.Ed/ { /^\./!p }' "$man" >"$conf"
run rftpd --config "$conf" --show-config
check "and its example is right" grep -q '^rights nodelete$' "$tmp/out"

# ---- errors, and weak settings ----

cat >"$conf" <<END
root $tmp/nothing
listen 7321
[user bob]
rights all
[what]
END
run rftpd --check-config --config "$conf"
check "all that is wrong is said" test "$status:$(wc -l <"$tmp/err")" = 2:4
check "also what is missing" grep -q '^rftpd: no account could log in' "$tmp/err"
for line in "2: listen: " "4: rights: " "5: there is no section"; do
	check "with its line: $line" grep -q "^rftpd: $conf:$line" "$tmp/err"
done
printf 'root %s\nusers %s\n\nanonymous rw\nplain yes\ntls-min 1.2\ntls-ciphers nonsense\n' \
	"$tmp/nothing" "$tmp/users" >"$conf"
printf '[user bob]\nsystem-user no-such-user\n' >>"$conf"
echo 'alice:nohash:::rw' >"$tmp/users"
echo 'wrong' >>"$tmp/users"
chmod 644 "$tmp/users"
chmod 666 "$conf"
run rftpd --check-config --config "$conf" --state "$tmp/state"
check "what is not there is said, too" status_is 2
check "a root" grep -q "^rftpd: $conf:1: root: $tmp/nothing: No such file" "$tmp/err"
check "users" grep -q "^rftpd: $conf:2: users: $tmp/users:2: " "$tmp/err"
check "ciphers" grep -q "cipher.*nonsense" "$tmp/err"
check "a system user" grep -q '\[user bob\]: its system user is missing' "$tmp/err"
check "and what is weak" test "$(grep -c 'warning: ' "$tmp/err")" -ge 6
check "hashes that others read" grep -q "^rftpd: warning: $conf:2: users: others can read" "$tmp/err"
check "a file that others write" grep -q "^rftpd: warning: $conf: others can write" "$tmp/err"
check "plain" grep -q "^rftpd: warning: $conf:5: plain: " "$tmp/err"
check "no certificate was made" test ! -e "$tmp/state"
chmod 600 "$conf" "$tmp/users"
echo 'alice:nohash:::rw' >"$tmp/users"
printf 'root %s\nusers %s\nprot-min private\nfiles-user daemon\n' "$tmp/root" "$tmp/users" >"$conf"
! is_root || chown daemon "$tmp/root"
run rftpd --check-config --config "$conf" --state "$tmp/state"
check "all is well" status_is 0
check "without a word of warning" test ! -s "$tmp/err"
check "which it says" grep -qx "$conf: no errors" "$tmp/out"
if is_root; then
	mkdir -m 755 "$tmp/theirs" "$tmp/others"
	printf 'alice:nohash:%s:/:rw\nbob:nohash:%s:/:ro\ncarol:nohash:%s:/:rw:nobody\n' \
		"$tmp/theirs" "$tmp/theirs" "$tmp/others" >"$tmp/users"
	run rftpd --check-config --config "$conf" --state "$tmp/state"
	check "an account's root that --files-user cannot write is a warning" status_is 0
	check "one for each such account" test "$(grep -c "warning: root .*cannot write there" "$tmp/err"):$(
		grep -c "warning: root $tmp/theirs: user" "$tmp/err")" = 1:1
	echo 'alice:nohash:::rw' >"$tmp/users"
	chown root "$tmp/root"
else
	skip "roots that --files-user cannot write" "only root's rftpd has such a user"
fi
run rftpd --check-config --config "$conf" --state "$tmp/state" --metrics-file "$tmp/nowhere/m.prom"
check "a metrics file in a directory that is not there" grep -q 'metrics-file: No such file' "$tmp/err"
run rftpd --check-config --config "$tmp/nowhere"
check "no file" grep -q "$tmp/nowhere: cannot be read: No such file" "$tmp/err"
run rftpd --config "$conf" --stdio
check "passwords are not for --stdio" status_is 2
run rftpd --config "$conf" --certificate "$tmp/c.pem"
check "a certificate without a key" grep -q -- '--certificate needs --key' "$tmp/err"

# ---- TLS ----

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost \
	-keyout "$tmp/key.pem" -out "$tmp/cert.pem" 2>/dev/null
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=other \
	-keyout "$tmp/other-key.pem" -out "$tmp/other.pem" 2>/dev/null
chmod 600 "$tmp"/*key.pem

# hands PORT OPTION...: does openssl shake hands, and get an answer after that?
hands() {
	local p=$1
	shift
	printf 'QUIT\r\n' | timeout $((20 * slow)) openssl s_client -ign_eof -starttls ftp \
		-connect "127.0.0.1:$p" "$@" >"$tmp/tls" 2>&1
	grep -q '221 Goodbye' "$tmp/tls"
}

echo 'subject "CN=localhost" alice' >"$tmp/map"
echo "alice:$(echo word | rftpd --hash-password):$tmp/root::ro" >"$tmp/tls-users"
chmod 600 "$tmp/map" "$tmp/tls-users"
printf 'root %s\nanonymous ro\nusers %s\ncertificate %s\nkey %s\nca %s\ncertificates %s\n' \
	"$tmp/root" "$tmp/tls-users" "$tmp/cert.pem" "$tmp/key.pem" "$tmp/cert.pem" "$tmp/map" >"$conf"
start_server t --config "$conf"
check "a certificate of one's own" hands "$port" -tls1_3
check "is shown" grep -q 'CN *= *localhost' "$tmp/tls"
check "clients are asked for theirs" grep -q 'Requested Signature Algorithms' "$tmp/tls"
check "TLS 1.2 is refused" not hands "$port" -tls1_2
check "one that is signed by the CA will do" hands "$port" -cert "$tmp/cert.pem" -key "$tmp/key.pem"
check "another is asked for a password, as who has none" hands "$port" \
	-cert "$tmp/other.pem" -key "$tmp/other-key.pem"
check "it stops" stops_well
start_server t2 --config "$conf" --ca "$tmp/other.pem" --tls-min 1.2 \
	--tls-ciphers TLS_CHACHA20_POLY1305_SHA256:ECDHE-ECDSA-AES256-GCM-SHA384
check "TLS 1.2 by its name" hands "$port" -tls1_2
check "with the cipher" grep -q 'Cipher is ECDHE-ECDSA-AES256-GCM-SHA384' "$tmp/tls"
check "and 1.3 with that" hands "$port"
check "which was said" grep -q 'Cipher is TLS_CHACHA20_POLY1305_SHA256' "$tmp/tls"
check "it stops, too" stops_well

# ---- allowed hosts ----

# greeting PORT [ADDRESS]: the first line that a server on that address says
greeting() {
	python3 - "$1" "${2:-127.0.0.1}" <<'END'
import socket, sys
s = socket.create_connection((sys.argv[2], int(sys.argv[1])), 20, (sys.argv[2], 0))
print(s.makefile().readline()[:3])
END
}
greets() { [ "$(greeting "$1" "${3:-}")" = "$2" ]; }

# ---- rights ----

# In one process and, for root, in three: rights and umask go from one to the other there.
rights_and_modes() {
	echo 'put' >"$tmp/put"
	echo "eve:$(echo word | rftpd --hash-password):$tmp/drop::upload" >"$tmp/users"
	printf 'anonymous ro\nroot %s\nusers %s\n[anonymous]\nroot %s\n' "$tmp/root" "$tmp/users" \
		"$tmp/root" >"$conf"
	start_server u --config "$conf" --prot-min clear
	printf 'machine 127.0.0.1 login eve password word\n' >"$tmp/netrc"
	chmod 600 "$tmp/netrc"
	eve=(rftp put -q --accept-new --netrc "$tmp/netrc")
	run "${eve[@]}" "$tmp/put" "rftp://eve@127.0.0.1:$port/put"
	check "a drop box takes" status_is 0
	check "what is put" same "$tmp/put" "$tmp/drop/put"
	run "${eve[@]}" --overwrite "$conf" "rftp://eve@127.0.0.1:$port/put"
	check "but not in place of that" same "$tmp/put" "$tmp/drop/put"
	run rftp get -q --netrc "$tmp/netrc" "rftp://eve@127.0.0.1:$port/put" "$tmp/got"
	check "gives nothing" fails_with 1 'may only upload|[Pp]ermission denied'
	run rftp ls --netrc "$tmp/netrc" "rftp://eve@127.0.0.1:$port/"
	check "and lists nothing" not status_is 0
	printf '[user eve]\nrights ro\n' >>"$conf"
	kill -HUP "$server"
	patience 20 grep -q 'settings read anew' "$tmp/u.log"
	run rftp get -q --netrc "$tmp/netrc" "rftp://eve@127.0.0.1:$port/put" "$tmp/got"
	check "unless rftpd.conf has her read" same "$tmp/put" "$tmp/got"
	check "it has stopped" stops_well

	# ---- modes ----

	printf 'anonymous rw\nroot %s\nusers %s\numask 027\n[user eve]\nrights rw\numask 007\n' \
		"$tmp/root" "$tmp/users" >"$conf"
	start_server m --config "$conf" --prot-min clear --plain
	mode_is() { [ "$(stat -c %a "$1")" = "$2" ]; } # FILE MODE
	run "${eve[@]}" --no-modes "$tmp/put" "rftp://eve@127.0.0.1:$port/in-bulk"
	check "an account's umask" mode_is "$tmp/drop/in-bulk" 660
	stored() { # USER PASSWORD: as FTP has it
		python3 - "$port" "$@" <<'END'
import ftplib, io, sys
f = ftplib.FTP()
f.connect('127.0.0.1', int(sys.argv[1]), 20)
f.login(*sys.argv[2:])
f.storbinary('STOR stored', io.BytesIO(b'x'))
f.storbinary('APPE appended', io.BytesIO(b'x'))
f.mkd('made')
f.quit()
END
	}
	check "she stores" stored eve word
	check "with it, too" mode_is "$tmp/drop/stored" 660
	check "appends" mode_is "$tmp/drop/appended" 660
	check "and makes directories" mode_is "$tmp/drop/made" 770
	check "others do" stored anonymous x
	check "with that of all" mode_is "$tmp/root/stored" 640
	check "of directories, too" mode_is "$tmp/root/made" 750
	check "and it ends" stops_well
}
rights_and_modes
if is_root; then
	rm -rf "${tmp:?}"/drop/* "$tmp/root"/{stored,appended,made} "$tmp/got"
	kept=("${processes[@]}")
	three_processes
	rights_and_modes
	processes=("${kept[@]}")
fi

# ---- anew ----

write_conf() { # LINE...
	printf 'root %s\nanonymous rw\nport-file %s\nlog %s\n' "$tmp/root" "$tmp/r.port" "$tmp/r.file" >"$conf"
	printf '%s\n' "$@" >>"$conf"
}
anew() { # TEXT: have it read; until the log says TEXT once more
	local before
	before=$(grep -c "$1" "$tmp/r.file")
	kill -HUP "$server"
	patience 20 more_than "$before" "$1"
}
more_than() { [ "$(grep -c "$2" "$tmp/r.file")" -gt "$1" ]; }

write_conf
rftpd --one-process --config "$conf" --listen 127.0.0.1:0 --state "$tmp/r.state" </dev/null >"$tmp/r.log" 2>&1 &
server=$!
servers+=("$server")
patience 20 test -s "$tmp/r.port"
port=$(cat "$tmp/r.port")
check "the log is in its file" patience 20 grep -q "listening on 127.0.0.1:$port" "$tmp/r.file"
check "with the mode that it should have" test "$(stat -c %a "$tmp/r.file")" = 640

# A transfer that ends when we say so.
random "$tmp/long" 3000000
mkfifo "$tmp/fifo"
rftp put -q --accept-new - "rftp://127.0.0.1:$port/long" <"$tmp/fifo" &
putting=$!
others+=("$putting")
exec 7>"$tmp/fifo"
head -c 1000000 "$tmp/long" >&7
check "it is served" patience 20 not no_children "$server"
session=$(children "$server")

write_conf 'refuse 127.0.0.0/8'
check "settings are read anew" anew 'settings read anew'
check "and hold" greets "$port" 421
check "which is logged" patience 20 grep -q 'connection from 127.0.0.1:[0-9]* refused: its address' "$tmp/r.file"
write_conf 'refuse 127.0.0.0/8' 'allow 127.0.0.1'
check "again" anew 'settings read anew'
check "now this one may" greets "$port" 220

write_conf 'nonsense 1' 'umask 9'
check "a bad file" anew 'the settings stay as they were'
check "is told of" grep -q "$conf:5: there is no setting \"nonsense\"" "$tmp/r.file"
check "and all of it" grep -q "$conf:6: umask: " "$tmp/r.file"
check "and changes nothing" greets "$port" 220
write_conf 'certificate /nonexistent' 'key /nonexistent'
check "nor does a certificate that is not there" anew 'the settings stay as they were'
check "as little" greets "$port" 220

mv "$tmp/r.file" "$tmp/r.file.1"
write_conf 'max-per-host 1'
kill -HUP "$server"
check "the log file is opened anew" patience 20 grep -q 'settings read anew' "$tmp/r.file"
check "a limit holds" greets "$port" 421
check "the session is the same" test "$(children "$server")" = "$session"
tail -c +1000001 "$tmp/long" >&7
exec 7>&-
wait "$putting"
status=$?
check "the transfer ends well" status_is 0
check "and is whole" same "$tmp/root/long" "$tmp/long"
check "the session wrote where it began" patience 20 grep -q 'put "/long"' "$tmp/r.file.1"
patience 20 no_children "$server"
check "it stops in good order" stops_well

# listeners: in the file now
first=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.2", 0)); print(s.getsockname()[1])')
: >"$tmp/r.file"
write_conf "listen 127.0.0.1:0" "listen 127.0.0.2:$first"
rm -f "$tmp/r.port"
rftpd --one-process --config "$conf" --state "$tmp/r.state" </dev/null >"$tmp/r.log" 2>&1 &
server=$!
servers+=("$server")
patience 20 test -s "$tmp/r.port"
port=$(head -n 1 "$tmp/r.port")
check "two addresses" greets "$first" 220 127.0.0.2
write_conf "listen 127.0.0.1:0" "listen 127.0.0.3:0"
check "read anew" anew 'settings read anew'
check "one stays" test "$(head -n 1 "$tmp/r.port")" = "$port"
check "and answers" greets "$port" 220
check "one has gone" not greets "$first" 220 127.0.0.2
check "one has come" greets "$(tail -n 1 "$tmp/r.port")" 220 127.0.0.3
write_conf "listen 127.0.0.1:0" "listen 192.0.2.254:1"
check "one that cannot be had" anew 'the settings stay as they were'
check "leaves those that were" greets "$(tail -n 1 "$tmp/r.port")" 220 127.0.0.3
check "all of them" greets "$port" 220
check "it stops at the end" stops_well

# ---- JSON ----

bad=$'a"\n\\\x1b[2J\xff{}'
cp "$tmp/root/file" "$tmp/root/$bad"
start_server j --root "$tmp/root" --anonymous ro --log "$tmp/json" --log-format json
get "rftp://127.0.0.1:$port/$(printf %s "$bad" | python3 -c \
	'import sys, urllib.parse; print(urllib.parse.quote(sys.stdin.buffer.read()))')" "$tmp/got.bad"
check "a file with a bad name" same "$tmp/root/file" "$tmp/got.bad"
check "and the end" stops_well
cat >"$tmp/judge.py" <<'END'
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1], "rb").read().split(b"\n")[:-1]]
for line in lines:
    assert {"time", "level", "pid", "ident", "message"} <= set(line), line
done = [line for line in lines if line.get("event") == "transfer"]
assert len(done) == 1, done
done = done[0]
assert bytes.fromhex(done["path_hex"]) == sys.argv[2].encode("utf-8", "surrogateescape"), done
assert done["bytes"] == 100000 and done["seconds"] > 0 and done["result"] == "ok", done
assert done["user"] == "anonymous" and done["peer"].startswith("127.0.0.1:"), done
assert [line["result"] for line in lines if line.get("event") == "login"] == ["ok"]
END
check "each line is JSON, with what it is about" python3 "$tmp/judge.py" "$tmp/json" "/$bad"

# ---- syslog ----

# A namespace of its own, where /dev/log is a socket of ours.
cat >"$tmp/syslog.py" <<'END'
import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1])
open(sys.argv[2], "w").close()
out = open(sys.argv[3], "wb", buffering=0)
while True:
    out.write(s.recv(65536) + b"\n")
END
cat >"$tmp/syslog.sh" <<'END'
set -e
mount -t tmpfs none "$1/dev"
for f in null urandom zero; do touch "$1/dev/$f"; mount --bind "/dev/$f" "$1/dev/$f"; done
mount --rbind "$1/dev" /dev
python3 "$1/syslog.py" /dev/log "$1/syslog.up" "$1/syslog.out" &
listener=$!
for _ in $(seq 200); do [ ! -e "$1/syslog.up" ] || break; sleep 0.1; done
shift
rftpd --one-process "$@" </dev/null >/dev/null 2>&1 &
trap 'kill $!' TERM
wait $! || wait $!
kill $listener
END
mkdir "$tmp/dev"
space=(unshare -m --)
is_root || space=(unshare -r -m --)
if ! "${space[@]}" mount -t tmpfs none "$tmp/dev" 2>/dev/null; then
	skip "the system's log" "there can be no namespace of mounts here"
else
	rm -f "$tmp/s.port"
	"${space[@]}" sh "$tmp/syslog.sh" "$tmp" --listen 127.0.0.1:0 --state "$tmp/s.state" \
		--port-file "$tmp/s.port" --root "$tmp/root" --anonymous ro --log syslog &
	server=$!
	servers+=("$server")
	patience 20 test -s "$tmp/s.port"
	check "it is up" greets "$(head -n 1 "$tmp/s.port")" 220
	# 11 is LOG_FTP, 6 LOG_INFO.
	check "the system's log has it" patience 20 grep -Eq \
		'^<94>.* rftpd\[[0-9]+\]: listening on 127\.0\.0\.1:' "$tmp/syslog.out"
	stop_server
fi
finish
