#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# rftpd run by root as three kinds of processes, over RDMA: sessions of users who have no rights
# register their pools; who they are, what they lock, and what is left when one is killed. TAP.

# shellcheck disable=SC2034,SC2317 # for guest.sh and lib.sh; called by check
vm_options="--nics 1 --timeout 600"
. "${top_srcdir:?}/tests/vm/guest.sh"
. "$lib/certs.bash"

rdma_modules || skip_all "the guest's kernel has no RDMA"
rdma_self eth0 10.3.0.1

# ---- four who may come, each in his own way ----

files_user=daemon
files_uid=$(id -u $files_user)
processes=(--user nobody --files-user "$files_user")
chmod 755 "$tmp"
mkdir -p "$tmp/s.root/alice" "$tmp/srv/carol" "$tmp/srv/dora"
useradd -M -d "$tmp/s.root/alice" -s /bin/bash -u 5001 alice 2>/dev/null
echo "alice:by-pam" | chpasswd
{ make_ca ca && make_cert dora /CN=dora ca; } || skip_all "openssl makes no certificates"
umask 022
cat >"$tmp/users" <<USERS
carol:$(echo by-file | rftpd --hash-password):$tmp/srv/carol::rw
dora:*:$tmp/srv/dora::rw
USERS
echo "$(pin_of dora) dora" >"$tmp/map"
chmod 600 "$tmp/users" "$tmp/map"
logins=(--users "$tmp/users" --certificates "$tmp/map")
if rftpd --version | grep -q '[+]pam'; then
	cp "$top_builddir/pam.d/rftpd" /etc/pam.d/rftpd
	logins+=(--pam)
fi
chown -R "$files_user" "$tmp/srv" "$tmp/s.root"
chown alice "$tmp/s.root/alice"
for who in "alice by-pam" "carol by-file"; do
	printf 'machine 10.3.0.1 login %s password %s\n' $who
done >"$tmp/netrc"
chmod 600 "$tmp/netrc"
head -c 6000000 /dev/urandom >"$tmp/file"

memory=8388608 # of a session's pool, in bytes
open_server s 10.3.0.1 --memory $memory "${logins[@]}"

# there_and_back NAME URL FILE OWNER OPTION...: FILE is where the server has it
there_and_back() {
	local what=$1 url=$2 at=$3 owner=$4
	shift 4
	run rftp put -v --accept-new --transport rdma --netrc "$tmp/netrc" "$@" "$tmp/file" "$url"
	check "$what puts over RDMA" status_is 0
	check "$what: what was sent" cmp "$tmp/file" "$at"
	check "$what: it is his" test "$(stat -c %U "$at")" = "$owner"
	run rftp get --transport rdma --op read --netrc "$tmp/netrc" "$@" "$url" "$tmp/back"
	check "$what gets" status_is 0
	check "$what: the same" cmp "$tmp/file" "$tmp/back"
	rm -f "$tmp/back"
}
at=10.3.0.1:$port
there_and_back anonymous "rftp://anonymous@$at/one" "$tmp/s.root/one" $files_user
there_and_back "a user of the file" "rftp://carol@$at/two" "$tmp/srv/carol/two" $files_user
there_and_back "a certificate's" "rftp://dora@$at/three" "$tmp/srv/dora/three" $files_user \
	--cert "$tmp/dora.pem" --key "$tmp/dora.key"
if rftpd --version | grep -q '[+]pam'; then
	there_and_back "a user of the system" "rftp://alice@$at/~/four" "$tmp/s.root/alice/four" alice
else
	skip "a user of the system" "this build has no PAM"
fi

# ---- one that is under way ----

# begin NAME RATE: a trickle, to look at: its client, and its session, which has pinned its pool
begin() {
	sessions >"$tmp/before"
	rftp put -q --transport rdma --rate "$2" "$tmp/file" "rftp://anonymous@$at/$1" >"$tmp/$1.out" 2>&1 &
	client=$!
	others+=("$client")
	session=
	patience 60 has_session
	patience 60 locks "$session"
}
sessions() {
	local p
	for p in $(children "$server"); do
		[ "$(of "$p" Uid | cut -f 1)" != "$files_uid" ] || echo "$p"
	done
}
has_session() {
	session=$(sessions | grep -vxFf "$tmp/before") && [ "$(wc -w <<<"$session")" -eq 1 ]
}
of() { sed -n "s/^$2:[[:space:]]*//p" "/proc/$1/status" 2>/dev/null; }
pinned() { of "$1" VmPin | awk '{ print $1 * 1024 }'; } # what verbs have pinned, in bytes
locks() { [ "$(pinned "$1")" -gt 0 ]; }
most() { awk '/^Max locked memory/ { print $5 }' "/proc/$1/limits"; }
opens() { find "/proc/$1/fd" -lname '/dev/infiniband/*' | grep -q .; }

# Slow enough for a slow machine to look at it, and not waited for.
begin looked 40K
check "the session is nobody's in particular" test "$(of "$session" Uid)" = \
	"$(printf '%s\t%s\t%s\t%s' $files_uid $files_uid $files_uid $files_uid)"
check "without capabilities" test "$(of "$session" CapEff)$(of "$session" CapPrm)" = \
	00000000000000000000000000000000
check "nor new ones" test "$(of "$session" NoNewPrivs)" = 1
if rftpd --version | grep -q '+seccomp'; then
	check "with its system calls filtered" test "$(of "$session" Seccomp)" = 2
else
	skip "with its system calls filtered" "built without libseccomp"
fi
check "it has the network card open" opens "$session"
check "it has pinned its pool" test "$(pinned "$session")" -ge 1048576
comment <<<"pinned: $(pinned "$session") bytes of at most $(most "$session")"
check "which is what it was given, and queues" test "$(pinned "$session")" -le $((memory + (4 << 20)))
check "it can lock no more than its limit" test "$(most "$session")" -le $((2 * memory + (64 << 20)))
for p in $(children "$server"); do
	[ "$p" = "$session" ] || front=$p
done
check "its front has no card" not opens "$front"
check "and locks nothing" test "$(most "$front"):$(pinned "$front")" = 0:0
check "nor has the monitor" not opens "$server"
kill "$client"
wait "$client"
alone() { [ -z "$(children "$server")" ]; }
check "when its client has gone it goes" patience 30 alone

# ---- one is killed, while another goes on ----

begin trickle 200K
first=$session first_client=$client
begin other 300K
other=$client
check "two are under way" test -d "/proc/$first" -a -d "/proc/$session" -a "$first" != "$session"
kill -KILL "$first"
wait "$other"
check "the other's transfer comes to its end" test $? -eq 0
check "whole" cmp "$tmp/file" "$tmp/s.root/other"
wait "$first_client"
check "who has lost his session comes back" test $? -eq 0
check "and has it whole" cmp "$tmp/file" "$tmp/s.root/trickle"
check "the log tells of the first" grep -q "process $first .*\(signal 9\|SIGKILL\)" "$tmp/s.log"
check "no process is left" patience 30 alone
check "nothing of RDMA is left" patience 30 nothing_left
there_and_back "who comes next" "rftp://anonymous@$at/next" "$tmp/s.root/next" $files_user

# ---- memory that is lent for a transfer ----

stop_server
beside=$((64 << 20)) # of each session's limit, rftpd's own
budget=$((32 << 20))
mkdir "$tmp/b.root"
chown "$files_user" "$tmp/b.root"
open_server b 10.3.0.1 --memory-budget $budget
at=10.3.0.1:$port
run rftp ls -q --accept-new "rftp://anonymous@$at/"
begin trickle 500K
comment <<<"pinned: $(pinned "$session") bytes of at most $(most "$session")"
check "the limit is raised for a transfer" test "$(most "$session")" -gt $beside
check "by what the budget has, at most" test "$(most "$session")" -le $((beside + 2 * budget))
check "and it has pinned a pool" test "$(pinned "$session")" -ge 1048576
wait "$client"
check "which is good for a transfer" test $? -eq 0
check "of all of it" cmp "$tmp/file" "$tmp/b.root/trickle"
check "and all is given back" patience 30 nothing_left

finish
