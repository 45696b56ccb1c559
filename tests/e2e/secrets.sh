#!/bin/bash
# shellcheck disable=SC2034,SC2317 # for lib.sh; check calls them
# What rftpd's three processes know of passwords, and of the server's key. TAP.
. "${top_srcdir:?}/tests/e2e/lib.sh"
. "$lib/processes.bash"
is_root || skip_all "only root's rftpd has more than one process"
need python3 openssl

mkdir "$tmp/root"
chmod 755 "$tmp" "$tmp/root"
echo content >"$tmp/root/file"

# ---- hashes ----

# 400 users, whose hashes have something in common that nothing else has, before and behind alice.
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

none_knows() { # WHAT FILE: none of the server's processes, in which a client is logged in
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

# What is read anew is read apart as well.
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
finish
