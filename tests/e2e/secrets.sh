#!/bin/bash
# shellcheck disable=SC2034,SC2317 # for lib.sh; check calls them
# Passwords and the server's key in the memory of rftpd's three processes. TAP.
. "${top_srcdir:?}/tests/e2e/lib.sh"
. "$lib/processes.bash"
is_root || skip_all "only root's rftpd has more than one process"
need python3 openssl

mkdir "$tmp/root"
chmod 755 "$tmp" "$tmp/root"
echo content >"$tmp/root/file"

# ---- hashes ----

# 400 users before and behind alice, with a common mark in their hashes that no other data has.
mark=Qm9ndXNNYXJrT2ZUaGVzZUhhc2hlcw
fake() { # FROM TO
	for i in $(seq "$1" "$2"); do
		printf 'user%d:scrypt$15$8$1$c2FsdHNhbHRzYWx0%04d$%s%04d:%s:/:rw\n' "$i" "$i" $mark "$i" "$tmp/root"
	done
}
password=s3cret-of-alice-$RANDOM$RANDOM$RANDOM
hash=$(echo "$password" | rftpd --hash-password)
{ fake 1 200 && echo "alice:$hash:$tmp/root:/:ro" && fake 201 399; } >"$tmp/users"
printf '%s' $mark >"$tmp/mark"
printf '%s' "$hash" >"$tmp/hash"
printf '%s' "$password" >"$tmp/password"
chmod 600 "$tmp/users"
check "there are 400 users" test "$(wc -l <"$tmp/users")" = 400

none_knows() { # NAME FILE: no process of the server has it in memory, with a client logged in
	local p
	for p in "$server" $(children "$server"); do
		check "no $1 in $(ps -o user= -p "$p")'s process" lacks "$p" "$2"
	done
}
know_nothing() {
	none_knows "hash of others" "$tmp/mark"
	none_knows "hash of the user" "$tmp/hash"
	none_knows password "$tmp/password"
}
two_processes() { [ "$(children "$server" | wc -w)" = 2 ]; }

start_server d --root "$tmp/root" --users "$tmp/users" --config /dev/null
hold a
check "a wrong password" test "$(tell a "login alice wrong")" = 530
check "and the right one" test "$(tell a "login alice $password")" = 230
check "make a front and a session" patience 10 two_processes
know_nothing
leave a
check "which go" patience 20 no_children "$server"

# The users file is read in a child again after SIGHUP.
kill -HUP "$server"
anew() { grep -q 'settings read anew' "$tmp/d.log"; }
check "the settings are read anew" patience 20 anew
hold b
check "she comes again" test "$(tell b "login alice $password")" = 230
check "as before" patience 10 two_processes
know_nothing
leave b

echo "carol:hash:$tmp/root:/:all" >>"$tmp/users"
kill -HUP "$server"
named() { grep -q 'users:401: rights "all" are not' "$tmp/d.log"; }
check "a wrong line is still named" patience 20 named
check "which is no reason to stop" test "$(grep -c 'settings stay as they were' "$tmp/d.log")" = 1
stop_server
run rftpd --listen 127.0.0.1:0 --root "$tmp/root" --users "$tmp/users" --state "$tmp/s" "${processes[@]}"
check "but one not to start" status_is 3
check "and it is named there, too" grep -q 'users:401: rights "all" are not' "$tmp/err"

# ---- other connections of a host ----

# A name that nothing else has, in all that is said of it: connections, a refusal, files.
mnemosyne="mnemosyne$RANDOM$RANDOM"
echo "$mnemosyne:$hash:$tmp/root:/:ro" >>"$tmp/users.other"
echo "alice:$hash:$tmp/root:/:ro" >>"$tmp/users.other"
chmod 600 "$tmp/users.other"
printf '%s' "$mnemosyne" >"$tmp/name"
# address_of NAME: of the client's socket, as in a line and as in a struct sockaddr_in
address_of() {
	python3 -c '
import re, struct, sys
port = int(re.findall(r"connection from 127\.0\.0\.1:([0-9]+)", open(sys.argv[1]).read())[-1])
open(sys.argv[2], "w").write("127.0.0.1:%d" % port)
open(sys.argv[3], "wb").write(struct.pack("=H", 2) + struct.pack("!HBBBB", port, 127, 0, 0, 1))
' "$tmp/$1.log" "$tmp/text" "$tmp/bytes"
}
know_no_other() { # PIDS WHEN: neither a stranger's process nor alice's
	local p
	for p in $1; do
		check "$2: no other's name in $(ps -o user= -p "$p")'s process" lacks "$p" "$tmp/name"
		check "$2: nor his address in a line" lacks "$p" "$tmp/text"
		check "$2: nor as it is" lacks "$p" "$tmp/bytes"
	done
}
new_children() { comm -13 <(sort <<<"$before") <(children "$server" | sort); }
# beside NAME WHEN: a client connects now
beside() {
	before=$(children "$server")
	hold "$1"
	check "$2: a stranger comes" test -n "$(new_children)"
	know_no_other "$(new_children)" "$2"
	tell "$1" "login alice $password" >/dev/null
	know_no_other "$(new_children)" "$2, who logs in"
	leave "$1"
}
for format in text json; do
	start_server $format --root "$tmp/root" --users "$tmp/users.other" --config /dev/null --log-format $format \
		--max-per-user 1 --memory-budget 8M
	hold o$format
	check "somebody has logged in, the log is $format" test "$(tell o$format "login $mnemosyne $password")" = 230
	address_of $format
	check "his process knows his name" holds "$(with_uid "$session_uid")" "$tmp/name"
	hold p$format
	check "and once more, which is refused" test "$(tell p$format "login $mnemosyne $password")" = 421
	leave p$format
	check "a file is fetched" test "$(tell o$format "get file")" = 226
	beside q$format "while he is there"
	leave o$format
	patience 20 no_children "$server"
	beside r$format "when he has gone"
	check "that server stops well" stops_well
done

# ---- the key ----

# The certificate that a client is shown.
shown() {
	openssl s_client -connect "127.0.0.1:$port" -starttls ftp </dev/null 2>/dev/null |
		openssl x509 -noout -fingerprint -sha256
}
of_file() { openssl x509 -in "$1" -noout -fingerprint -sha256; }
times() { [ "$(grep -c "$1" "$tmp/k.log")" = "$2" ]; } # TEXT N: so often in the log
has_sealed() { find "/proc/$1/fd" -lname '/memfd:*' | grep -q .; }

start_server k --root "$tmp/root" --users "$tmp/users.good" --anonymous ro --config /dev/null 2>/dev/null
check "without its users file it does not start" patience 10 gone "$server"
rm -rf "$tmp/k.state"
start_server k --root "$tmp/root" --anonymous ro --config /dev/null
first=$(of_file "$tmp/k.state/cert.pem")
check "clients are shown the certificate" test "$(shown)" = "$first"
hold c
check "one logs in" test "$(tell c "login anonymous x")" = 230
check "the monitor has something sealed" has_sealed "$server"
for p in $(children "$server"); do
	check "$(ps -o user= -p "$p") has it not open" not has_sealed "$p"
done
python3 "$lib/in-memory.py" key "$tmp/k.state/key.pem" >"$tmp/scalar"
cp "$tmp/k.state/key.pem" "$tmp/good.key"
body=$(sed -n 2p "$tmp/k.state/key.pem")
printf '%s' "$body" >"$tmp/pem"
front=$(with_uid "$front_uid") session=$(with_uid "$session_uid")
check "its front has the key" holds "$front" "$tmp/scalar"
check "but not as it stands in the file" lacks "$front" "$tmp/pem"
check "its session has it not" lacks "$session" "$tmp/scalar"
check "in no form" lacks "$session" "$tmp/pem"
check "nor has the monitor" lacks "$server" "$tmp/scalar"
check "in any form" lacks "$server" "$tmp/pem"

head -c 60 "$tmp/good.key" >"$tmp/k.state/key.pem"
check "a key that is half written is no matter" test "$(shown)" = "$first"
kill -HUP "$server"
check "it is refused when settings are read anew" patience 20 times 'settings stay as they were' 1
check "by name" grep -q 'key.pem holds no private key' "$tmp/k.log"
check "and clients are served as before" test "$(shown)" = "$first"
hold d
check "all of them" test "$(tell d "login anonymous x")" = 230
leave d
mv "$tmp/k.state/cert.pem" "$tmp/k.state/key.pem" "$tmp/"
check "also without the files" test "$(shown)" = "$first"
kill -HUP "$server"
check "a pair made anew" patience 20 times 'settings read anew' 1
check "is what clients see then" test "$(shown)" = "$(of_file "$tmp/k.state/cert.pem")"
check "and another" test "$(shown)" != "$first"
check "who was there goes on" test "$(tell c "do NOOP")" = 200
leave c
check "it stops well" stops_well

# ---- the owner of the key ----

# By --certificate and --key, and by the files in --state.
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=own \
	-keyout "$tmp/own.key" -out "$tmp/own.pem" 2>/dev/null
own=(--certificate "$tmp/own.pem" --key "$tmp/own.key")
own_key() { chown "$1" "$tmp/own.key" && chmod "$2" "$tmp/own.key"; } # OWNER MODE
try() { # rftpd, which should not get far
	limit=10 run rftpd --listen 127.0.0.1:0 --root "$tmp/root" --anonymous ro --config /dev/null \
		--state "$tmp/own.state" "${processes[@]}" "$@"
}
is_refused() { # REMEDY [STATUS]: why it does not start, in one line
	status_is "${2:-3}" && [ "$(grep -c "$1" "$tmp/err")" = 1 ]
}
for mode in 640 604 620 602 610 601 666; do
	own_key root $mode
	try "${own[@]}"
	check "a key of mode 0$mode: it does not start" is_refused "(mode 0$mode): chmod 600 $tmp/own.key"
	try "${own[@]}" --check-config
	check "nor is that a configuration" is_refused "chmod 600 $tmp/own.key" 2
done
for owner in $session_user $front_user; do
	own_key "$owner" 600
	try "${own[@]}"
	check "a key of $owner's: it does not start" is_refused "chown 0 $tmp/own.key"
	try "${own[@]}" --check-config
	check "nor is that one" is_refused "chown 0 $tmp/own.key" 2
done
own_key root 600
try "${own[@]}" --check-config
check "mended as it says" status_is 0
rm -rf "$tmp/own.state"
cp -r "$tmp/k.state" "$tmp/own.state"
chmod 640 "$tmp/own.state/key.pem"
try
check "nor does it with one of its own of mode 0640" is_refused "chmod 600 $tmp/own.state/key.pem"
chmod 600 "$tmp/own.state/key.pem"
chown $session_user "$tmp/own.state/key.pem"
try
check "nor with one of another's" is_refused "chown 0 $tmp/own.state/key.pem"

# The owner's other rights do not matter; and a running server keeps its key.
own_key root 700
start_server k --root "$tmp/root" --anonymous ro --config /dev/null "${own[@]}"
check "a key of mode 0700 will do" test "$(shown)" = "$(of_file "$tmp/own.pem")"
hold e
check "one logs in" test "$(tell e "login anonymous x")" = 230
refusals=$(grep -c 'settings stay as they were' "$tmp/k.log")
again() { # MODE NAME: SIGHUP with such a key
	kill -HUP "$server"
	refusals=$((refusals + 1))
	check "$1: it is not taken" patience 20 times 'settings stay as they were' $refusals
	check "and the log says how that is mended" grep -q "$2" "$tmp/k.log"
	check "clients are served with the one before" test "$(shown)" = "$was"
}
was=$(shown)
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=next \
	-keyout "$tmp/own.key" -out "$tmp/own.pem" 2>/dev/null
own_key root 644
again "another key, of mode 0644" "(mode 0644): chmod 600 $tmp/own.key"
own_key $session_user 600
again "of another's" "chown 0 $tmp/own.key"
own_key root 400
good=$(grep -c 'settings read anew' "$tmp/k.log")
kill -HUP "$server"
check "mended, it is" patience 20 times 'settings read anew' $((good + 1))
check "what clients see" test "$(shown)" = "$(of_file "$tmp/own.pem")"
check "who was there goes on" test "$(tell e "do NOOP")" = 200
leave e
check "it stops well again" stops_well
finish
