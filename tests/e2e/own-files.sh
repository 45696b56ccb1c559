#!/bin/bash
# shellcheck disable=SC2034 # for lib.sh
# Files that the programs write for themselves: devices stay devices, links of strangers lead nowhere,
# and state that others could replace is refused. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
need timeout

mkdir "$tmp/root" "$tmp/here"
random "$tmp/root/file" 1000
start_server d --root "$tmp/root" --anonymous rw
main=$server at=$url

# server OPTION...: start one on any port, and end it after three seconds
server() {
	run timeout 3 rftpd "${processes[@]}" --listen 127.0.0.1:0 --state "$tmp/s" --root "$tmp/root" --anonymous ro "$@"
}
# refuses TEXT: the program ended by itself, at once, with one error that has the text
refuses() { [ "$status" -ge 1 ] && [ "$status" -le 3 ] && [ "$(grep -vc ": info: " "$tmp/err")" -eq 1 ] && grep -Eq "$1" "$tmp/err"; }

# ---- devices and FIFOs ----

if is_root && mknod "$tmp/null" c 1 3 && echo >"$tmp/null"; then
	for try in 1 2; do
		run rftp get --known-hosts "$tmp/null" --accept-new "$at/file" "$tmp/here/file$try"
		check "known hosts in a device, $try: nothing is remembered" not grep -q 'known from now on' "$tmp/err"
		check "known hosts in a device, $try: it goes on" status_is 0
	done
	run rftp get --known-hosts "$tmp/null" "$at/file" "$tmp/here/file3"
	check "known hosts in a device: no advice to add a line" fails_with 3 'to trust it, use --accept-new$'
	run rftp-numa model --size 1M --copies 1 --rounds 5 --save "$tmp/null"
	check "a model into a device" status_is 0
	server --port-file "$tmp/null" --log "$tmp/null"
	check "port and log into a device" status_is 124
	check "the device stays one" test -c "$tmp/null"
	check "and nothing beside it" not ls -d "$tmp"/null.* 2>/dev/null
else
	skip "devices" "no device can be made here"
fi
mkfifo "$tmp/fifo"
server --log "$tmp/fifo"
check "a log that is a FIFO: refused at once" refuses 'log file.*fifo: cannot be written: it is neither a regular file'
server --port-file "$tmp/fifo"
check "a port file that is a FIFO" refuses 'fifo: cannot be written: it is neither a regular file'

# ---- links ----

mkdir "$tmp/dot"
ln -s dot/known "$tmp/known"
run rftp get --known-hosts "$tmp/known" --accept-new "$at/file" "$tmp/here/link"
check "known hosts behind a link: written there" test -s "$tmp/dot/known"
check "and the link stays" test -L "$tmp/known"
ln -s dot/port "$tmp/ports"
server --port-file "$tmp/ports"
check "a port file behind a link" test -s "$tmp/dot/port" -a -L "$tmp/ports"
run rftpd --port-file /dev/stdout --one-process --listen 127.0.0.1:0 --state "$tmp/s" --root "$tmp/nowhere"
check "/dev/stdout stays" test -L /dev/stdout
ln -s /proc/self/fd/1 "$tmp/out.link"
run rftp get --known-hosts "$tmp/known" "$at/file" "$tmp/out.link"
check "get does not replace a link as /dev/stdout" fails_with 2 'leads to a descriptor or a device \(- is standard output\)'
check "which stays" test -L "$tmp/out.link"

if is_root; then
	mkdir -m 1777 "$tmp/public"
	echo mine >"$tmp/mine"
	ln -s ../mine "$tmp/public/log"
	chown -h 65534 "$tmp/public/log"
	server --log "$tmp/public/log"
	check "a log behind a stranger's link" refuses 'log belongs to another user'
	server --port-file "$tmp/public/log"
	check "a port file behind a stranger's link" refuses 'log belongs to another user'
	run rftp-numa model --size 1M --copies 1 --rounds 5 --save "$tmp/public/log"
	check "a model behind a stranger's link" refuses 'log belongs to another user'
	run rftp get --known-hosts "$tmp/public/log" --accept-new "$at/file" "$tmp/here/stranger"
	check "known hosts behind a stranger's link" not grep -q 'known from now on' "$tmp/err"
	check "what the link led to is as it was" test "$(cat "$tmp/mine")" = mine
	touch "$tmp/public/theirs"
	chown 65534 "$tmp/public/theirs"
	server --log "$tmp/public/theirs"
	check "a log that a stranger has made" refuses 'public/theirs.*(another user|Permission denied)'
else
	skip "links of strangers" "only root can make them"
fi

# ---- state and keys ----

mkdir "$tmp/open" "$tmp/open/in"
chmod 777 "$tmp/open"
server --state "$tmp/open"
check "a state that others may write: refused, with the remedy" refuses "state directory.*chmod go-w .*/open"
server --state "$tmp/open/in"
check "one that others could rename" refuses "chmod go-w .*/open\\)"
cp "$tmp/d.state/cert.pem" "$tmp/d.state/key.pem" "$tmp/open/in"
server --certificate "$tmp/open/in/cert.pem" --key "$tmp/open/in/key.pem"
check "a key there" refuses "directory of the key.*chmod go-w .*/open\\)"
chmod 1777 "$tmp/open"
server --state "$tmp/open/in"
check "in a sticky directory nobody can" status_is 124
if is_root; then
	chown 65534 "$tmp/open/in"
	server --state "$tmp/open/in"
	check "a state of another user" refuses "chown root .*/open/in"
fi

server=$main
check "the server ends well" stops_well
finish
