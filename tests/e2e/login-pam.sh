#!/bin/bash
# shellcheck disable=SC2034 # some are for lib.sh
# rftpd --pam, run by root: users that PAM and the shipped service accept or refuse, and the user of
# the session. In an /etc of its own. TAP.

. "$(dirname "$0")/own-etc.bash"
. "${top_srcdir:?}/tests/e2e/lib.sh"
# Root must not be let in here, also where another test has to.
[ -z "${E2E_SEPARATE-}" ] || processes=(--user nobody --files-user daemon)
. "$lib/certs.bash"
. "$lib/numbered.bash"
need python3 openssl setsid ps
rftpd --version | grep -q '[+]pam' || skip_all "this build has no PAM"
[ -e /etc/pam.d/common-auth ] || [ -e /etc/pam.d/password-auth ] ||
	skip_all "this system's PAM has no common service"
[ -r "${top_builddir:?}/pam.d/rftpd" ] || skip_all "pam.d/rftpd has not been made"
umask 022
own_etc || skip_all "cannot mount a copy of /etc"

# ---- the users ----
hash=$(openssl passwd -6 right)
add_user alice 5001 "$hash"
add_user locked 5002 "!$hash"
add_user mustchange 5003 "$hash" /bin/sh 0
add_user noshell 5004 "$hash" /usr/sbin/nologin
add_user nofiles 5005 "$hash"
add_user gone 5006 "$hash" /bin/sh 19000 1
add_user empty 5007 ""
echo "crew:x:6001:alice" >>/etc/group
echo "late:x:6002:" >>/etc/group
echo nofiles >/etc/ftpusers
chmod 644 /etc/ftpusers
printf '/bin/sh\n/bin/bash\n' >/etc/shells
sed -i "s|^root:[^:]*:|root:$hash:|" /etc/shadow
rm -f /etc/nologin
cp "$top_builddir/pam.d/rftpd" /etc/pam.d/rftpd
chmod 755 "$tmp/homes"
netrc() { # USER PASSWORD
	rm -f "$tmp/netrc"
	printf 'machine 127.0.0.1 login %s password "%s"\n' "$1" "$2" >"$tmp/netrc"
	chmod 600 "$tmp/netrc"
}
# say COMMAND...: the replies are in $tmp/out
say() { run python3 "$lib/ftp-say.py" "$port" "$@"; }
replied() { grep -q "^[0-9.]* $1" "$tmp/out"; } # REGEX
logged() { grep -Eq "$1" "$tmp/d.log"; }

start_server d --pam

# ---- an accepted user ----
netrc alice right
random "$tmp/file" 300000
mkdir -p "$tmp/tree/sub"
random "$tmp/tree/sub/one" 5000000
chmod 640 "$tmp/tree/sub/one"
chmod 2750 "$tmp/tree/sub"
put --netrc "$tmp/netrc" -r "$tmp/tree" "$tmp/file" "rftp://alice@127.0.0.1:$port/~/"
check "alice may put" status_is 0
check "it is in her home" same "$tmp/file" "$tmp/homes/alice/file"
check "and hers" test "$(stat -c %u:%g "$tmp/homes/alice/file")" = 5001:5001
check "the tree is as it was" diff -r "$tmp/tree" "$tmp/homes/alice/tree"
check "with its modes" test "$(stat -c %a "$tmp/homes/alice/tree/sub/one")" = 640
check "the log says how she came in" logged 'login of alice from .*\(pam\)'
get --netrc "$tmp/netrc" "rftp://alice@127.0.0.1:$port/~/file" "$tmp/back"
check "and get" same "$tmp/file" "$tmp/back"
get --netrc "$tmp/netrc" "rftp://alice@127.0.0.1:$port/etc/shadow" "$tmp/shadow"
check "but not what she may not read" test "$status" -eq 1 -a ! -e "$tmp/shadow"
put --netrc "$tmp/netrc" "$tmp/file" "rftp://alice@127.0.0.1:$port/etc/hers"
check "nor write where she may not" test "$status" -ne 0 -a ! -e /etc/hers
put --netrc "$tmp/netrc" "$tmp/file" "rftp://alice@127.0.0.1:$port$tmp/homes/locked/x"
check "nor go into others' homes" test "$status" -ne 0 -a ! -e "$tmp/homes/locked/x"
say "USER alice" "PASS right" "PWD" "SITE CHMOD 600 file" "PASS right"
check "PASS is answered by 230" replied 230
check "she is at home" replied "257 .*$tmp/homes/alice\""
check "and may change her modes" test "$(stat -c %a "$tmp/homes/alice/file")" = 600
check "PASS again is superfluous" replied 202

# ---- the user of the session ----
hold() { # COMMAND...: a session that stays; its process is in $session, its client in $client
	mkfifo "$tmp/hold"
	python3 "$lib/ftp-say.py" "$port" --hold "$@" <"$tmp/hold" >"$tmp/held" 2>&1 &
	client=$!
	others+=("$client")
	exec 9>"$tmp/hold"
	rm "$tmp/hold"
	[ "$1" != --cert ] || shift 2
	patience 30 has_replies $#
	session=$(children "$server" | tail -n 1) # after its front, if it has one
}
has_replies() { [ "$(grep -c '^[0-9]' "$tmp/held")" -ge "$1" ]; }
release() {
	exec 9>&-
	patience 20 gone "$client"
	patience 20 no_children "$server"
	others=()
}
of_session() { # KEY: in /proc/PID/status
	sed -n "s/^$1:[[:space:]]*//p" "/proc/$session/status" | tr -s '\t ' ' ' | sed 's/ $//'
}
is_hers() { # GROUPS SET...: beside these, sets of capabilities that are empty
	check "the session has her user id" test "$(of_session Uid)" = "5001 5001 5001 5001"
	check "and group id" test "$(of_session Gid)" = "5001 5001 5001 5001"
	check "and groups" test "$(of_session Groups | tr ' ' '\n' | sort | tr '\n' ' ')" = "$1"
	for set in CapInh CapPrm CapEff CapAmb "${@:2}"; do
		check "no capabilities, $set" test "$(of_session $set)" = 0000000000000000
	done
}
hold "USER alice" "PASS right"
is_hers "5001 6001 "
check "who listens is root" test "$(stat -c %u "/proc/$server")" -eq 0
# Others of hers must not look into it: the server's key is in there.
as_alice=(setpriv --reuid=5001 --regid=5001 --clear-groups --)
own_environment() { "${as_alice[@]}" sh -c 'cat /proc/$$/environ' >/dev/null; }
its_environment() { "${as_alice[@]}" cat "/proc/$session/environ" >/dev/null 2>&1; }
check "she could look into a process of hers" own_environment
if sanitized; then
	skip "but not into that" "it lets itself be traced"
else
	check "but not into that" not its_environment
fi
release

# ---- refused users ----
refused() { # USER PASSWORD REASON
	say "USER $1" "PASS $2" "PWD"
	check "$3: 530" replied "530 User or password is wrong"
	check "$3: nothing more is said" not grep -q '257' "$tmp/out"
}
refused alice wrong "a wrong password"
check "the log says so" logged 'login of "alice" from .* refused: PAM, password'
refused alice "" "no password"
refused nobody-here right "somebody who is not there"
refused locked right "a locked account"
refused noshell right "a shell that is none"
check "the log says by what" logged 'login of "noshell" from .* refused: PAM, account'
refused nofiles right "one of /etc/ftpusers"
refused gone right "an account that has expired"
refused empty "" "an account without a password"
refused empty x "the same with one"
refused root right "root"
check "the log says that it was root" logged 'login of "root" from .* refused: user root is root'
refused "../alice" right "a name that is a path"
refused "-alice" right "a name that is an option"
refused alice "$(head -c 600 /dev/zero | tr '\0' x)" "a password that is too long"
say "USER mustchange" "PASS right" "PWD"
check "a password that must be changed: 530, and why" replied "530 The password has expired"
check "and no login" replied "530 .*[Ll]og"
say "USER mustchange" "PASS wrong"
check "who does not know it does not learn of that" replied "530 User or password is wrong"
netrc mustchange right
run rftp ls --accept-new --netrc "$tmp/netrc" "rftp://mustchange@127.0.0.1:$port/"
check "rftp says why" fails_with 3 'has expired'
echo "down until noon" >/etc/nologin
refused alice right "while there is /etc/nologin"
rm /etc/nologin

# The time of a refusal does not show whether a user exists.
least() { # USER: of three refusals, in halves of a second
	for _ in 1 2 3; do
		say "USER $1" "PASS wrong"
		sed -n 2p "$tmp/out"
	done | sort -n | head -n 1 | awk '{ print int($1 * 2) }'
}
exists=$(least alice)
check "a refusal takes half a second at least" test "$exists" -ge 1
check "and as long for who is not there" test "$(least nobody-here)" -eq "$exists"

check "no password is in the log" not grep -Eq 'right|PASS' "$tmp/d.log"

# ---- the PAM service ----
# A module's groups are the session's.
sed -i '/^auth/a auth optional pam_group.so' /etc/pam.d/rftpd
mkdir -p /etc/security
echo 'rftpd;*;alice;Al0000-2400;late' >>/etc/security/group.conf
hold "USER alice" "PASS right"
check "a group by pam_group" grep -qw 6002 <<<"$(of_session Groups)"
check "beside the others" grep -qw 6001 <<<"$(of_session Groups)"
release
# A module can change the user's name: the session belongs to the name that PAM returns.
echo 'auth required pam_listfile.so item=rhost sense=allow file=/etc/rftpd-hosts onerr=fail' |
	cat - "$top_builddir/pam.d/rftpd" >/etc/pam.d/rftpd
echo 192.0.2.1 >/etc/rftpd-hosts
refused alice right "a host that the service does not want"
echo 127.0.0.1 >>/etc/rftpd-hosts
say "USER alice" "PASS right"
check "one that it wants" replied 230
# It may say something, and would have failures delayed, which is our matter.
{
	echo 'auth optional pam_faildelay.so delay=120000000'
	echo 'auth optional pam_echo.so hello there'
	cat "$top_builddir/pam.d/rftpd"
} >/etc/pam.d/rftpd
say "USER alice" "PASS right"
check "what a module says is no question" replied 230
check "it is in the log" logged 'PAM: hello there'
say "USER alice" "PASS wrong"
check "a delay of PAM's is not waited for" replied 530
printf 'auth required pam_no_such_module.so\naccount required pam_permit.so\n' >/etc/pam.d/rftpd
say "USER alice" "PASS right"
check "a service that does not work lets nobody in" not replied 230
cp "$top_builddir/pam.d/rftpd" /etc/pam.d/rftpd
check "all is as before" stops_well

# ---- a root for all ----
start_server r --pam --root "$tmp/homes" --users "$tmp/users" 2>/dev/null
check "a users file that is not there: it does not start" patience 10 gone "$server"
cat >"$tmp/users" <<USERS
locked:$(echo other | rftpd --hash-password):$tmp/homes/alice:/:ro
as:$(echo other | rftpd --hash-password):$tmp/homes::rw:alice
USERS
chmod 600 "$tmp/users"
start_server r --pam --root "$tmp/homes" --users "$tmp/users"
say "USER alice" "PASS right" "PWD" "CWD /../../etc" "MLST /"
check "the home is below it" replied '257 "/alice"'
check "and nothing above" replied 550
say "USER locked" "PASS right"
check "whom the users file has PAM is not asked for" replied 530
say "USER locked" "PASS other" "PWD"
check "but the file" replied '257 "/"'
hold "USER as" "PASS other" "PWD"
check "a user of the file who is one of the system" grep -q '257 "/"' "$tmp/held"
check "has his user id" test "$(of_session Uid)" = "5001 5001 5001 5001"
release

stop_server

# ---- certificates of users of the system ----
: >"$tmp/map"
chmod 600 "$tmp/map"
for name in alice noshell mustchange locked root; do
	make_cert $name /CN=$name
	cat "$tmp/$name.pem" "$tmp/$name.key" >"$tmp/$name.both"
	echo "$(pin_of $name) $name" >>"$tmp/map"
done
start_server c --pam --certificates "$tmp/map"
hold --cert "$tmp/alice.both" "USER alice"
check "a certificate does for a user of the system" grep -q ' 232 ' "$tmp/held"
check "whose the session is" test "$(of_session Uid)" = "5001 5001 5001 5001"
check "with her groups" grep -qw 6001 <<<"$(of_session Groups)"
release
say --cert "$tmp/alice.both" "USER locked" "PASS right"
check "not for another" replied 331
check "nor does it help a password" replied 530
say --cert "$tmp/noshell.both" "USER noshell"
check "nor for whom the service refuses" replied 331
check "the log says why" grep -q 'login of "noshell" from .* refused: PAM, account' "$tmp/c.log"
say --cert "$tmp/mustchange.both" "USER mustchange"
check "who must change his password is told so" replied "530 The password has expired"
say --cert "$tmp/root.both" "USER root"
check "nor for root" replied 331

stop_server

# ---- secrets that PAM's modules have read ----
# With three processes the password check is none of the processes that stay.
processes=(--user nobody --files-user daemon)
start_server t --pam
hold "USER alice" "PASS right"
check "by three processes she comes in as well" grep -q ' 230 ' "$tmp/held"
is_hers "5001 6001 " CapBnd
printf '%s' "$hash" >"$tmp/hash"
knows() { python3 "$lib/in-memory.py" find "$1" "$tmp/hash"; }
for p in "$server" $(children "$server"); do
	if sanitized; then
		skip "no hash of the system's in process $p" "too much memory to look at"
	else
		check "no hash of the system's in process $p" test "$(knows "$p")" = "not found"
	fi
done
release
cp /etc/pam.d/rftpd "$tmp/pam.kept"
sed -i '/^auth/a auth optional pam_group.so' /etc/pam.d/rftpd
hold "USER alice" "PASS right"
is_hers "5001 6001 6002 " CapBnd
release
cp "$tmp/pam.kept" /etc/pam.d/rftpd

# ---- not reachable with the root "/" ----
# The session, its preauth process and the monitor are in /proc, with their open files and memory.
hold "USER alice" "PASS right"
front=
for p in $(children "$server"); do
	[ "$(stat -c %u "/proc/$p")" = 5001 ] || front=$p
done
others_of_server=("$server" "$front" "$session")
numbered "$lib/ftp-proc-client.py" "$port" alice right "$tmp/homes/alice" "${others_of_server[@]}"
netrc alice right
put --netrc "$tmp/netrc" "$tmp/file" "rftp://alice@127.0.0.1:$port/~/by-three"
check "she puts by bulk" same "$tmp/file" "$tmp/homes/alice/by-three"
check "what is hers" test "$(stat -c %u:%g "$tmp/homes/alice/by-three")" = 5001:5001
rm -f "$tmp/back"
get --netrc "$tmp/netrc" "rftp://alice@127.0.0.1:$port/~/by-three" "$tmp/back"
check "and gets" same "$tmp/file" "$tmp/back"
for p in maps status environ mem root/etc/shadow; do
	rm -rf "$tmp/of-proc"
	get --netrc "$tmp/netrc" "rftp://alice@127.0.0.1:$port/proc/self/$p" "$tmp/of-proc"
	check "nor by bulk: $p" test "$status" -ne 0 -a ! -s "$tmp/of-proc"
done
mkdir "$tmp/of-proc"
get --netrc "$tmp/netrc" -r "rftp://alice@127.0.0.1:$port/proc/self/task" "$tmp/of-proc/"
check "nor by bulk: a directory" test "$status" -ne 0 -a -z "$(find "$tmp/of-proc" -type f)"
put --netrc "$tmp/netrc" --inplace "$tmp/file" "rftp://alice@127.0.0.1:$port/proc/self/mem"
check "nor is it written to by bulk" test "$status" -ne 0
put --netrc "$tmp/netrc" "$tmp/file" "rftp://alice@127.0.0.1:$port/proc/self/cwd/$tmp/homes/alice/by-cwd"
check "nor by a link of /proc" test "$status" -ne 0 -a ! -e "$tmp/homes/alice/by-cwd"
release

# A listener that is killed takes the sessions of others along, too.
hold "USER alice" "PASS right"
kill -KILL "$server"
check "a killed listener ends the session" patience 10 gone "$session"
exec 9>&-
servers=() others=()

# ---- without root ----
if [ ${#as_other[@]} -gt 0 ]; then
	as_server=("${as_other[@]}")
	mkdir "$tmp/n.state"
	chown 65534:65534 "$tmp" "$tmp/n.state"
	start_server n --pam
	say "USER alice" "PASS right" "PWD"
	check "by another than root it lets nobody in" not replied 2[35]
	check "and the log says why" grep -Eq 'login of "alice" .*(refused|cannot become)' "$tmp/n.log"
	check "stops" stops_well
	as_server=()
else
	skip "by another than root" "programs cannot be reached by others"
fi

finish
