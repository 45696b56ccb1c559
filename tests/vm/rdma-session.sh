#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# rftpd run by root as three kinds of processes, over RDMA: sessions of unprivileged users register
# their pools. Checks their identity, their locked memory and memory budget, the limits on sessions,
# and the resources that are left when one is killed. TAP.

# shellcheck disable=SC2034,SC2317 # for guest.sh and lib.sh; called by check
vm_options="--nics 1 --cpus 2"
. "${top_srcdir:?}/tests/vm/guest.sh"
. "$lib/certs.bash"
. "$lib/memory-group.bash"

rdma_modules || skip_all "the guest's kernel has no RDMA"
rdma_self eth0 10.3.0.1

# ---- four accounts with different ways to log in ----

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

# ---- doctor, which reads this kernel's RDMA devices at both ends ----

run rftp doctor --json --time 300ms --accept-new --netrc "$tmp/netrc" "rftp://carol@10.3.0.1:$port/"
says() { grep -Eq -e "\"verdict\":\"$3\",\"where\":\"$1\",\"check\":\"$2\",\"text\":\"$4" "$tmp/out"; }
check "doctor: nothing is wrong" status_is 0
check "the client's device" says here RDMA ok '[a-z0-9_]+ port 1 is active, RoCE v2 on eth0'
check "the server's, which its session cannot see" says there RDMA ok '[a-z0-9_]+ port 1 is active, RoCE v2 on eth0'
check "data goes over RDMA" says path 'data ports' ok 'reachable, over rdma'
check "the server's locked memory" says there memlock 'ok|warning' '.*[0-9.]+ [KMG]iB|no limit'
comment <"$tmp/out"

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

# begin /PATH RATE [USER UID]: a trickle, to look at: its client, and its session, which has pinned its
# pool
of_uid=$files_uid
begin() {
	of_uid=${4:-$files_uid}
	sessions >"$tmp/before"
	rftp put -q --transport rdma --rate "$2" --netrc "$tmp/netrc" "$tmp/file" \
		"rftp://${3:-anonymous}@$at$1" >"$tmp/begun.out" 2>&1 &
	client=$!
	others+=("$client")
	session=
	patience 60 has_session
	patience 60 locks "$session"
}
sessions() {
	local all
	mapfile -t all < <(children "$server")
	all=("${all[@]/#//proc/}")
	grep -ls "^Uid:[[:space:]]${of_uid}[[:space:]]" "${all[@]/%//status}" | tr -dc '0-9\n'
}
has_session() {
	session=$(sessions | grep -vxFf "$tmp/before") && [ "$(wc -w <<<"$session")" -eq 1 ]
}
of() { sed -n "s/^$2:[[:space:]]*//p" "/proc/$1/status" 2>/dev/null; }
pinned() { of "$1" VmPin | awk '{ print $1 * 1024 }'; } # memory that verbs have pinned, in bytes
locks() { [ "$(pinned "$1")" -gt 0 ]; }
most() { awk '/^Max locked memory/ { print $5 }' "/proc/$1/limits"; }
opens() { find "/proc/$1/fd" -lname '/dev/infiniband/*' | grep -q .; }

# is_of NAME: the user of the session has that name
is_of() {
	local set uid gid
	uid=$(id -u "$1") gid=$(id -g "$1")
	check "the session is $1's" test "$(of "$session" Uid)" = "$(printf '%s\t%s\t%s\t%s' "$uid" "$uid" "$uid" "$uid")"
	check "and of his group" test "$(of "$session" Gid)" = "$(printf '%s\t%s\t%s\t%s' "$gid" "$gid" "$gid" "$gid")"
	check "and groups" test "$(of "$session" Groups | xargs)" = "$(id -G "$1" | xargs -n 1 | sort -n | xargs)"
	for set in CapInh CapPrm CapEff CapBnd CapAmb; do
		check "without capabilities: $set" test "$(of "$session" $set)" = 0000000000000000
	done
	check "nor new ones" test "$(of "$session" NoNewPrivs)" = 1
	if rftpd --version | grep -q '+seccomp'; then
		check "with its system calls filtered" test "$(of "$session" Seccomp)" = 2
	else
		skip "with its system calls filtered" "built without libseccomp"
	fi
}
alone() { [ -z "$(children "$server")" ]; }

if rftpd --version | grep -q '[+]pam'; then
	groupadd -g 6001 crew 2>/dev/null
	usermod -a -G crew alice
	begin "/~/looked" 40K alice 5001
	is_of alice
	kill "$client"
	wait "$client"
	check "when her client has gone it goes" patience 30 alone
else
	skip "a system user's" "this build has no PAM"
fi

# Slow enough for a slow machine to look at it, and not waited for.
begin /looked 40K
is_of "$files_user"
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
check "when its client has gone it goes" patience 30 alone

# ---- one is killed, another continues ----

# hold NAME USER: a put that has its memory, and waits for the rest of the file; or that is refused
declare -A client_of session_of input_of
hold() {
	local input
	sessions >"$tmp/before"
	mkfifo "$tmp/$1.in"
	(
		# Or those before would not come to their end.
		for input in "${input_of[@]}"; do exec {input}>&-; done
		exec rftp put -q --transport rdma --retries 0 --netrc "$tmp/netrc" - "rftp://$2@$at/$1"
	) <"$tmp/$1.in" >"$tmp/$1.out" 2>&1 &
	client_of[$1]=$! session=
	others+=($!)
	exec {input}>"$tmp/$1.in"
	input_of[$1]=$input
	head -c 1000000 "$tmp/file" 2>/dev/null 1>&"$input"
	patience 60 holds "$1"
	session_of[$1]=$session
}
holds() { gone "${client_of[$1]}" || { has_session && locks "$session"; }; }
# let_go NAME: the rest comes; its status
let_go() {
	local input=${input_of[$1]}
	tail -c +1000001 "$tmp/file" 2>/dev/null 1>&"$input"
	end "$1"
}
end() {
	local input=${input_of[$1]}
	exec {input}>&-
	unset "input_of[$1]"
	wait "${client_of[$1]}"
	status=$? ran="put of $1"
	cp "$tmp/$1.out" "$tmp/err"
}

hold other anonymous
other=$session
begin /trickle 500K
first=$session first_client=$client
check "two are under way" test -d "/proc/$first" -a -d "/proc/$other" -a "$first" != "$other"
kill -KILL "$first"
let_go other
check "the other's transfer comes to its end" status_is 0
check "whole" cmp "$tmp/file" "$tmp/s.root/other"
wait "$first_client"
check "who has lost his session comes back" test $? -eq 0
check "and has it whole" cmp "$tmp/file" "$tmp/s.root/trickle"
check "the log tells of the first" grep -q "process $first .*\(signal 9\|SIGKILL\)" "$tmp/s.log"
check "no process is left" patience 30 alone
check "nothing of RDMA is left" patience 30 nothing_left
there_and_back "who comes next" "rftp://anonymous@$at/next" "$tmp/s.root/next" $files_user

# ---- one that may lock less than its pool ----

hold beside anonymous
sessions >"$tmp/before"
mkfifo "$tmp/typed"
(
	input=${input_of[beside]}
	exec {input}>&-
	exec rftp -k -q --retries 0 "rftp://anonymous@$at/"
) <"$tmp/typed" >"$tmp/less.out" 2>&1 &
less=$!
others+=("$less")
exec 9>"$tmp/typed"
echo pwd >&9
session=
check "one has logged in" patience 60 has_session
prlimit --pid "$session" --memlock=300000:300000
echo "put --transport rdma $tmp/file /less" >&9
echo "put $tmp/file /less-by-tcp" >&9
exec 9>&-
wait $less
status=$?
cp "$tmp/less.out" "$tmp/err"
check "who wants RDMA and may lock too little fails" test $status -ne 0 -a ! -e "$tmp/s.root/less"
check "and is told of memory" grep -Eqi 'memory|RDMA' "$tmp/less.out"
comment <"$tmp/less.out"
check "the log says what to do" grep -q 'no RDMA: too little memory may be locked, the limit is 292 KiB: set "ulimit -l' "$tmp/s.log"
check "who does not want it has TCP instead" cmp "$tmp/file" "$tmp/s.root/less-by-tcp"
check "and has no RDMA" not grep -q "rftpd.$session.: .* RDMA by" "$tmp/s.log"
let_go beside
check "another's transfer by RDMA has gone on" status_is 0
check "to its end" cmp "$tmp/file" "$tmp/s.root/beside"

# ---- memory that is lent for transfers ----

stop_server
beside=$((64 << 20)) # of each session's limit, rftpd's own
budget=$((6 << 20))
mkdir "$tmp/b.root"
chown "$files_user" "$tmp/b.root"
: >"$tmp/b.conf"
open_server b 10.3.0.1 --listen 127.0.0.1:0 --config "$tmp/b.conf" --memory-budget $budget "${logins[@]}"
at=10.3.0.1:$port
by_another_way=127.0.0.1:$(tail -n 1 "$tmp/b.port")
run rftp ls -q --accept-new "rftp://anonymous@$at/"
lent() { echo $((($(most "$1") - beside) / 2)); }
# The shares of all sessions are within the budget, and each has pinned at most its share and its
# queues.
within_budget() {
	local p sum=0 each
	for p in $(sessions); do
		each=$(lent "$p")
		sum=$((sum + each))
		comment <<<"session $p: lent $each, pinned $(pinned "$p")"
		[ "$(pinned "$p")" -le $((each + (1 << 20))) ] || return
	done
	[ $sum -gt 0 ] && [ $sum -le $budget ]
}
for part in one two three four five six; do
	hold $part anonymous
	! gone "${client_of[$part]}" || break
	check "$part: the limit is raised for a transfer" test "$(most "$session")" -gt $beside
	check "$part: it has pinned a pool" test "$(pinned "$session")" -ge $((1 << 17))
done
check "one user gets parts of it, until there are none" test $part = three
end $part
check "who comes then is to come again" status_is 3
check "and told so" grep -q 'memory for transfers is in use; try again later' "$tmp/$part.out"
check "all of them have not more than there is" within_budget
hold his carol
check "another user has a part" not gone "${client_of[his]}"
check "with which all have not more than there is" within_budget

# ---- more than may come, meanwhile ----

# limits SETTING...: from now on
limits() {
	reread=$(grep -c 'settings read anew' "$tmp/b.log")
	printf '%s\n' "$@" >"$tmp/b.conf"
	kill -HUP "$server"
	patience 30 is_reread
}
is_reread() { [ "$(grep -c 'settings read anew' "$tmp/b.log")" -gt "$reread" ]; }
later() { status_is 3 && grep -q 'try again later' "$tmp/err"; }
list() { run rftp ls -q --accept-new --netrc "$tmp/netrc" "rftp://$1/"; }
limits 'max-sessions 3'
list "anonymous@$at"
check "not one session more than may be" later
limits 'max-per-host 3'
list "anonymous@$at"
check "nor of a host" later
list "anonymous@$by_another_way"
check "from another one it can be" status_is 0
limits 'max-per-user 1'
list "carol@$at"
check "nor of a user" later
list "anonymous@$at"
check "whoever that is" later
limits 'max-sessions 100'

# ---- sessions that end in the middle ----

has_of() { # PID: things of RDMA
	local kind
	for kind in qp mr cq pd cm_id; do
		rdma resource show $kind
	done | grep -c " pid $1 "
}
has_none() { [ "$(has_of "$1")" -eq 0 ]; }
# ends_by HOW NAME COMMAND...: the session of NAME, by COMMAND and its pid
ends_by() {
	local how=$1 name=$2 doomed=${session_of[$2]}
	shift 2
	check "$how: it has something of RDMA" not has_none "$doomed"
	"$@" "$doomed"
	check "$how: the session ends" patience 60 gone "$doomed"
	end "$name"
	check "$how: its client fails" test "$status" -ne 0 -a -s "$tmp/$name.out"
	check "$how: nothing has its name" test ! -e "$tmp/b.root/$name"
	check "$how: nothing of RDMA is left of it" patience 30 has_none "$doomed"
	check "$how: the log has the signal" grep -q "process $doomed died of signal" "$tmp/b.log"
}
by_signal() { kill "-$1" "$2"; }
# The pages of a file in memory count as the memory of the session that writes it.
by_want() {
	echo "$1" >"$group/cgroup.procs"
	tail -c +1000001 "$tmp/file" 2>/dev/null 1>&"${input_of[again]}"
}
ends_by SIGKILL one by_signal KILL
hold again anonymous
check "its part is the next one's" not gone "${client_of[again]}"
check "and not more than there is" within_budget
ends_by SIGSYS two by_signal SYS
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
if memory_group 2097152; then
	ends_by "no memory" again by_want
else
	end again
	skip "no memory" "the guest's kernel has no groups"
fi
let_go his
check "who was there all the while ends well" status_is 0
check "with all of it" cmp "$tmp/file" "$tmp/srv/carol/his"
check "and all is given back" patience 30 nothing_left
check "nobody is left" patience 30 alone

finish
