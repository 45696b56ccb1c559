#!/bin/bash
# shellcheck disable=SC2034 # limit is for lib.sh
# Identity of server and client: certificate and pins, users, rights; and how the server
# stops. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
need python3 setsid openssl ps

limit=30
mkdir -p "$tmp/root/home" "$tmp/alice" "$tmp/here"
random "$tmp/file" 100000
random "$tmp/big" 60000000

# ---- the state ----
start_server d --root "$tmp/root" --anonymous rw
check "the state directory is its owner's" test "$(stat -c %a "$tmp/d.state")" = 700
check "so is the key" test "$(stat -c %a "$tmp/d.state/key.pem")" = 600
pin=$(sed -n 's/.*certificate \(SHA256:[^ ]*\).*/\1/p' "$tmp/d.log" | head -n 1)
check "the log shows the key" test -n "$pin"
check "openssl takes the certificate" openssl x509 -in "$tmp/d.state/cert.pem" -noout
known=$HOME/.config/rftp/known_hosts

# ---- pins ----
run rftp put -q "$tmp/file" "$url/f"
check "an unknown server, and nobody to ask" fails_with 3 'not known'
check "its key is shown" grep -qF "$pin" "$tmp/err"
check "it is not remembered" test ! -e "$known"
check "and no file" test ! -e "$tmp/root/f"
run rftp put --accept-new -q "$tmp/file" "$url/f"
check "--accept-new" status_is 0
check "remembers it" grep -qxF "127.0.0.1:$port $pin" "$known"
check "known_hosts is not for others to write" test "$(($(stat -c 0%a "$known") & 022))" -eq 0
run rftp put -q "$tmp/file" "$url/f"
check "and then it is known" status_is 0
check "without a word" test ! -s "$tmp/err"
run rftp put -q "$tmp/file" "rftp://localhost:$port/f"
check "by another name it is another server" status_is 3
if command -v script >/dev/null; then
	# With a terminal it asks.
	ask() { # ANSWER
		rm -f "$tmp/hosts"
		printf '%s\n' "$1" | timeout 20 script -qec "rftp put -q --known-hosts $tmp/hosts $tmp/file $url/asked" /dev/null >"$tmp/out" 2>&1
		status=$?
	}
	ask no
	check "asked and answered no" test "$status" -eq 3 -a ! -e "$tmp/root/asked"
	ask yes
	check "asked and answered yes" test "$status" -eq 0 -a -e "$tmp/root/asked"
	check "it is remembered" grep -qF "$pin" "$tmp/hosts"
else
	skip "a question on a terminal" "no script(1)"
fi
stop_server
old_port=$port

# The same key at the next start; another one is refused.
start_server d --listen "127.0.0.1:$old_port" --root "$tmp/root" --anonymous rw
run rftp ls "rftp://127.0.0.1:$old_port/"
check "the key stays over a restart" status_is 0
stop_server
mv "$tmp/d.state" "$tmp/d.was"
start_server d --listen "127.0.0.1:$old_port" --root "$tmp/root" --anonymous rw
cp "$known" "$tmp/known.was"
for options in "" "--accept-new"; do
	# shellcheck disable=SC2086
	run rftp put -q $options "$tmp/file" "rftp://127.0.0.1:$old_port/changed"
	check "a changed key $options: 3" status_is 3
	check "is told" grep -q 'HAS CHANGED' "$tmp/err"
done
check "known_hosts has not changed" same "$tmp/known.was" "$known"
check "and no file" test ! -e "$tmp/root/changed"
sed -i 1d "$known"
run rftp put -q --accept-new "$tmp/file" "rftp://127.0.0.1:$old_port/changed"
check "the old line removed: trusted again" status_is 0
cat "$tmp/known.was" >>"$known"
run rftp ls "rftp://127.0.0.1:$old_port/"
check "with two lines either key is right" status_is 0
echo "nonsense" >>"$known"
run rftp ls "rftp://127.0.0.1:$old_port/"
check "a line that makes no sense is not passed over in silence" test "$status" -ne 0 -o -s "$tmp/err"
sed -i '$d' "$known"
run rftp put -q --plain --prot clear "$tmp/file" "rftp://127.0.0.1:$old_port/plain"
check "--plain is refused by a server with TLS" status_is 3
stop_server
rm -rf "$tmp/d.state" && mv "$tmp/d.was" "$tmp/d.state"

# ---- a CA ----
ca() {
	cd "$tmp" && mkdir -m 700 ca.state &&
		openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -out ca.pem \
			-subj /CN=ca -days 2 &&
		openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.state/key.pem \
			-out csr -subj /CN=localhost &&
		printf 'subjectAltName=DNS:localhost\n' >ext &&
		openssl x509 -req -in csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 1 -extfile ext -out ca.state/cert.pem &&
		chmod 600 ca.state/key.pem
}
if (ca) >"$tmp/openssl" 2>&1; then
	start_server ca --root "$tmp/root" --anonymous rw
	run rftp ls --ca "$tmp/ca.pem" "rftp://localhost:$port/"
	check "a certificate of the CA" status_is 0
	run rftp ls --ca "$tmp/ca.pem" "rftp://127.0.0.1:$port/"
	check "for another name: 3" fails_with 3 'certificate|name|address'
	run rftp ls --ca "$tmp/d.state/cert.pem" "rftp://localhost:$port/"
	check "of another CA: 3" fails_with 3 'certificate'
	stop_server
else
	skip "a CA" "openssl cannot make one"
fi

# ---- users ----
hash=$(echo right | rftpd --hash-password)
check "a hash is scrypt's" grep -q '^\$scrypt\|scrypt' <<<"$hash"
check "the same password has another hash" test "$hash" != "$(echo right | rftpd --hash-password)"
run bash -c 'echo | rftpd --hash-password'
check "an empty password has none" status_is 2
cat >"$tmp/users" <<USERS
# name:hash:root:home:rights
alice:$hash:$tmp/alice:/:rw
bob:$hash::/home:ro
carol:$hash:::nodelete
nologin:!:::rw
USERS
chmod 600 "$tmp/users"
start_server u --root "$tmp/root" --users "$tmp/users"
at=127.0.0.1:$port
netrc() { # USER PASSWORD
	rm -f "$tmp/netrc"
	printf 'machine 127.0.0.1 login %s password %s\n' "$1" "$2" >"$tmp/netrc"
	chmod 600 "$tmp/netrc"
}
netrc alice right
put --netrc "$tmp/netrc" "$tmp/file" "rftp://$at/f"
check "alice, by the netrc's name" status_is 0
check "in her own root" same "$tmp/file" "$tmp/alice/f"
run rftp ls --netrc "$tmp/netrc" "rftp://$at/../../"
check "which she cannot leave" test "$(grep -c passwd "$tmp/out")" -eq 0
netrc bob right
get --netrc "$tmp/netrc" "rftp://bob@$at/~/" "$tmp/here/"
put --netrc "$tmp/netrc" "$tmp/file" "rftp://bob@$at/~/f"
check "bob may only read" fails_with 1 'only read'
netrc carol right
put --netrc "$tmp/netrc" "$tmp/file" "rftp://carol@$at/c"
check "carol may write" status_is 0
run rftp rm --netrc "$tmp/netrc" "rftp://carol@$at/c"
check "but not remove" status_is 1
check "it is there" test -e "$tmp/root/c"
# Without the right to delete, an existing file cannot be replaced either: small, big, links, in
# place.
mkdir -p "$tmp/tree/d" && echo small >"$tmp/tree/d/small" && random "$tmp/tree/big" 20000000
ln -s small "$tmp/tree/d/link" && ln "$tmp/tree/big" "$tmp/tree/hard"
put --netrc "$tmp/netrc" -r "$tmp/tree" "rftp://carol@$at/t"
check "carol may write a tree" status_is 0
check "it is there" diff -r --no-dereference "$tmp/tree" "$tmp/root/t"
cp -a "$tmp/tree" "$tmp/other"
echo other >"$tmp/other/d/small" && echo new >"$tmp/other/d/new" && random "$tmp/other/big" 20000000
ln -sf elsewhere "$tmp/other/d/link"
for how in "--ack synced" "--ack written" "--inplace" "--no-resume"; do
	rm -f "$tmp/root/t/d/new"
	# shellcheck disable=SC2086
	put --netrc "$tmp/netrc" $how -r "$tmp/other" "rftp://carol@$at/t"
	check "nor replace, $how" status_is 1
	check "each is told, $how" test "$(grep -c 'exists, and may not be replaced\|was not written' "$tmp/err")" -eq 4
	check "what is new is there, $how" same "$tmp/other/d/new" "$tmp/root/t/d/new"
	rm -f "$tmp/root/t/d/new"
	check "the rest is as it was, $how" diff -r --no-dereference "$tmp/tree" "$tmp/root/t"
	check "and no parts, $how" no_parts "$tmp/root/t"
done
put --netrc "$tmp/netrc" --skip-existing -r "$tmp/other" "rftp://carol@$at/t"
check "carol passes over what exists" status_is 0
for user in alice:wrong alice: nobody:right nologin:! "nologin:" "alice:right "; do
	netrc "${user%%:*}" "\"${user#*:}\""
	put --netrc "$tmp/netrc" "$tmp/file" "rftp://$at/no"
	check "login of ${user%%:*} with '${user#*:}' is refused" status_is 3
done
put "$tmp/file" "rftp://anonymous@$at/no"
check "anonymous is not let in" status_is 3
check "and no file" test ! -e "$tmp/root/no" -a ! -e "$tmp/alice/no"
netrc alice right
chmod 644 "$tmp/netrc"
put --netrc "$tmp/netrc" "$tmp/file" "rftp://$at/f2"
check "a netrc that others may read is not used" test "$status" -ne 0 -a ! -e "$tmp/alice/f2"
check "no password is in the log" not grep -q 'right' "$tmp/u.log"
# Passwords of running servers can be changed.
chmod 600 "$tmp/netrc"
sed -i '/^alice/d' "$tmp/users"
put --netrc "$tmp/netrc" "$tmp/file" "rftp://$at/f3"
check "a user who was removed is not let in any more" status_is 3
echo 'nonsense' >>"$tmp/users"
netrc carol right
run rftp ls -q --netrc "$tmp/netrc" "rftp://$at/"
check "a bad line does not lock the others out" status_is 0
stop_server
start_server bad --root "$tmp/root" --users "$tmp/users"
check "but the server does not start with it" not kill -0 "$server" 2>/dev/null
wait "$server"
check "with status 3" test $? -eq 3
check "and says the line" grep -q "users:.*form" "$tmp/bad.log"

# ---- weakest protection ----
start_server p --root "$tmp/root" --anonymous rw --prot-min private
put --json --prot clear "$tmp/file" "$url/p"
check "--prot-min private: a client that wants clear" status_is 0
check "gets private" test "$(summary prot)" = private
stop_server

# ---- the stop ----
start_server s --root "$tmp/root" --anonymous rw
rftp put -q --accept-new --rate 20M "$tmp/big" "$url/slow" 2>"$tmp/slow.err" &
slow=$!
others=("$slow")
started() { find "$tmp/root" -maxdepth 1 -name '.rftp-*' | grep -q .; }
check "a transfer is under way" patience 10 started
sleep 0.3
kill -TERM "$server"
sleep 0.5
put "$tmp/file" "$url/late"
check "a server that stops takes no new one" test "$status" -eq 3 -a ! -e "$tmp/root/late"
wait "$slow"
check "the transfer under way ends well" test $? -eq 0
check "with all of it" same "$tmp/big" "$tmp/root/slow"
patience 10 gone "$server"
wait "$server"
check "then the server ends with 0" test $? -eq 0
start_server s2 --root "$tmp/root" --anonymous rw
rftp put -q --accept-new --rate 10M --retries 0 "$tmp/big" "$url/cut" 2>"$tmp/err" &
slow=$!
others=("$slow")
cp "$tmp/file" "$tmp/root/cut"
check "a transfer is under way" patience 10 started
sleep 0.5
kill -TERM "$server"
sleep 0.5
kill -TERM "$server"
check "a second SIGTERM does not wait" patience 10 gone "$server"
wait "$slow"
check "the client is told: 4" test $? -eq 4
check "the old file is there" same "$tmp/file" "$tmp/root/cut"
servers=()
rm -f "$tmp/root"/.rftp-*
# The listener is killed: sessions end in good order.
start_server s3 --root "$tmp/root" --anonymous rw
rftp put -q --accept-new --rate 20M "$tmp/big" "$url/orphan" 2>"$tmp/err" &
slow=$!
others=("$slow")
check "a transfer is under way" patience 10 started
session=$(children "$server" | head -n 1)
kill -KILL "$server"
wait "$slow"
check "a killed listener lets the session end its transfer" test $? -eq 0
check "with all of it" same "$tmp/big" "$tmp/root/orphan"
check "and the session ends" patience 10 gone "$session"
servers=()

# Interrupting the client.
start_server i --root "$tmp/root" --anonymous rw
for sig in INT TERM HUP; do
	rm -f "$tmp/root/int"
	python3 -c '
import signal, sys, os
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execvp(sys.argv[1], sys.argv[1:])' rftp put -q --accept-new --rate 20M "$tmp/big" "$url/int" 2>"$tmp/err" &
	slow=$!
	others=("$slow")
	patience 10 started
	sleep 0.5
	kill -$sig $slow
	wait "$slow"
	check "SIG$sig: 4" test $? -eq 4
	check "SIG$sig: one line" said 'interrupted'
	check "SIG$sig: no file" test ! -e "$tmp/root/int"
	run rftp put -q --json "$tmp/big" "$url/int"
	check "SIG$sig: the next run goes on" test "$status" -eq 0 -a "$(summary resumed)" -gt 0
	check "SIG$sig: and is whole" same "$tmp/big" "$tmp/root/int"
done
# Nor does it take the server's help.
rm -f "$tmp/root/int"
rftp put -q --rate 20M "$tmp/big" "$url/int" 2>"$tmp/err" &
slow=$!
others=("$slow")
patience 10 started
sleep 0.5
session=$(children "$server" | head -n 1)
kill -STOP "$session"
sleep 0.2
kill -TERM $slow
check "SIGTERM while the server hangs: it ends" patience 6 gone "$slow"
wait "$slow"
check "4" test $? -eq 4
check "one line" said 'interrupted'
kill -CONT "$session"
run rftp put -q --json "$tmp/big" "$url/int"
check "the next run goes on" test "$status" -eq 0 -a "$(summary resumed)" -gt 0
# Or the output of the reader.
mkfifo "$tmp/fifo"
# shellcheck disable=SC2217
sleep 60 <"$tmp/fifo" &
others=($!)
rftp get -q "$url/int" - >"$tmp/fifo" 2>"$tmp/err" &
slow=$!
others+=("$slow")
sleep 0.7
kill -TERM $slow
check "SIGTERM while nobody reads standard output: it ends" patience 6 gone "$slow"
wait "$slow"
check "4" test $? -eq 4
kill "${others[0]}"
others=()

check "the server ends well" stops_well
finish
