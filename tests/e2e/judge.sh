#!/bin/bash
# shellcheck disable=SC2034,SC2317 # for lib.sh; check calls them
# A stranger's certificate is read by a process of its own that has no rights by then: a debugger
# stops it where the reading begins, and it is looked at; then it dies, lies, or never comes to an
# end. TAP.
. "${top_srcdir:?}/tests/e2e/lib.sh"
. "$lib/processes.bash"
. "$lib/certs.bash"
is_root || skip_all "only root's rftpd has more than one process"
need python3 openssl gdb

mark=alice-$RANDOM$RANDOM$RANDOM
mkdir "$tmp/root"
chmod 755 "$tmp" "$tmp/root"
{ make_ca ca && make_cert alice "/CN=$mark" ca; } || skip_all "openssl makes no certificates"
cat "$tmp/alice.pem" "$tmp/alice.key" >"$tmp/both.pem"
printf 'alice:*:%s:/:ro\n' "$tmp/root" >"$tmp/users"
printf 'subject "CN=%s" alice\n' "$mark" >"$tmp/map"
chmod 600 "$tmp/users" "$tmp/map"
ours=(--users "$tmp/users" --certificates "$tmp/map" --ca "$tmp/ca.pem" --root "$tmp/root" --anonymous ro)

# ---- a debugger ----

# From the monitor it follows the second process that is made, which is an auth process, and from
# there each that is made, to the one that reads the certificate.
cat >"$tmp/follow" <<GDB
set confirm off
set pagination off
set follow-fork-mode parent
set detach-on-fork on
catch fork
shell touch $tmp/ready
continue
continue
delete
set follow-fork-mode child
break tls_proof_check
continue
shell touch $tmp/reached
shell until [ -e $tmp/go ]; do sleep 0.1; done
source $tmp/then
detach
GDB
# stop_judge [COMMAND...]: a client logs in, and its judge stands still; go has gdb do COMMANDs, and
# leave
stop_judge() {
	rm -f "$tmp/ready" "$tmp/reached" "$tmp/go"
	: >"$tmp/then"
	[ $# = 0 ] || printf '%s\n' "$@" >"$tmp/then"
	DEBUGINFOD_URLS='' gdb -nx -batch -p "$server" -x "$tmp/follow" </dev/null >"$tmp/gdb.out" 2>&1 &
	gdb=$!
	others+=("$gdb")
	patience 60 test -e "$tmp/ready" || return
	[ "$(field "$server" TracerPid)" = "$gdb" ] || return
	python3 "$lib/ftp-say.py" "$port" --timeout 600 --cert "$tmp/both.pem" "USER alice" PWD \
		>"$tmp/said" 2>&1 &
	client=$!
	others+=("$client")
	patience 60 test -e "$tmp/reached" || comment <"$tmp/gdb.out"
	judge=$(traced)
}
descendants() { # PID
	local p
	for p in $(children "$1"); do
		echo "$p"
		descendants "$p"
	done
}
traced() {
	local p
	for p in $(descendants "$server"); do
		[ "$(field "$p" TracerPid)" != "$gdb" ] || echo "$p"
	done
}
go() {
	touch "$tmp/go"
	wait "$gdb"
	wait "$client"
}
replied() { grep -q "^[0-9.]* $1" "$tmp/said"; } # REGEX
logged() { grep -q "$1" "$tmp/d.log"; }

# ---- its user ----

start_server d "${ours[@]}" --login-timeout 10m
if ! stop_judge; then
	stop_server
	skip_all "a debugger may not look at processes here"
fi
check "there is a process that reads it" test -n "$judge"
check "nobody has let the client in yet" test ! -s "$tmp/said"
parent=$(field "$judge" PPid)
check "it is no child of the monitor's" test "$parent" != "$server"
check "its parent is root's, and waits" all_four "$parent" Uid 0
has_no_rights "the judge" "$judge" "$tmp/d.state/empty"
kinds "$judge" | comment
check "open: nothing but where its word goes" has_open "$judge" pipe=1

# ---- its secrets ----

printf '%s' "$mark" >"$tmp/mark"
python3 "$lib/in-memory.py" key "$tmp/d.state/key.pem" >"$tmp/scalar"
sed -n 2p "$tmp/d.state/key.pem" | tr -d '\n' >"$tmp/pem"
check "the front has the server's key" holds "$(with_uid "$front_uid")" "$tmp/scalar"
check "the judge has what the client has shown" holds "$judge" "$tmp/mark"
check "but not the key" lacks "$judge" "$tmp/scalar"
check "nor what is in its file" lacks "$judge" "$tmp/pem"
go
check "its word is enough: alice is let in" replied 232
check "and served" replied 257
check "nothing of it is left" patience 20 no_children "$server"

# ---- its rights over other processes ----

stop_judge "signal SIGABRT"
check "another judge dies" test -n "$judge"
go
check "nobody is let in" not replied '2[35][27]'
check "its client is told" replied '4'
check "the log says so" logged 'the child process died of signal 6'
check "it is gone" patience 20 no_children "$server"

if [ "$(uname -m)" = x86_64 ]; then
	stop_judge return 'set $rax = 0'
	check "one says yes, and not to whom" test -n "$judge"
	go
	check "nobody is let in for that" not replied '2[35][27]'
	check "which the log says" logged 'the result of the certificate check'
	check "nothing is left" patience 20 no_children "$server"
else
	skip "one says yes, and not to whom" "for another processor"
fi
check "the server is as before" stops_well

# One that never ends.
start_server d "${ours[@]}" --login-timeout $((20 * slow))s
stop_judge "shell kill -STOP \$(cat $tmp/judge)"
check "a third will not come to an end" test -n "$judge"
echo "$judge" >"$tmp/judge"
touch "$tmp/go"
wait "$gdb"
run python3 "$lib/ftp-say.py" "$port" "USER anonymous" "PASS x" PWD
check "others are served meanwhile" grep -q '^[0-9.]* 257' "$tmp/out"
check "it is ended" patience 60 gone "$judge"
check "by the monitor" patience 10 logged 'the check of a login from .* takes too long: killed'
wait "$client"
check "its client is told to come later" replied 421
check "nothing of that is left" patience 30 no_children "$server"
check "the server stops well" stops_well
finish
