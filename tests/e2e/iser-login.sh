#!/bin/bash
# rftp-iser login and logout as far as they come without a kernel that has iSCSI: one line for
# each thing that is wrong, and nothing done. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
skip_with_sanitizers

export RFTP_ISER_STATE=$tmp/state
login() { run "${as_root[@]}" rftp-iser login "$@"; }
logout() { run "${as_root[@]}" rftp-iser logout "$@"; }
# one_line N TEXT: status N and one line with TEXT
one_line() {
	status_is "$1" && [ "$(wc -l <"$tmp/err")" -eq 1 ] && [ ! -s "$tmp/out" ] &&
		grep -q '^rftp-iser: ' "$tmp/err" && grep -qe "$2" "$tmp/err"
}

# ---- the command line ----

login
check "nowhere to log in to" one_line 2 'addresses, or --plan'
login --transport udp 10.0.0.1
check "no such transport" one_line 2 'must be iser or tcp, not "udp"'
login --stripe raid5 10.0.0.1
check "no such stripe" one_line 2 'must be md or lvm, not "raid5"'
login --chunk 96K 10.0.0.1
check "a chunk that is no power of two" one_line 2 'power of two'
login --chunk 1K 10.0.0.1
check "a chunk that is too small" one_line 2 'from 4.0 KiB'
login --wait 0 10.0.0.1
check "no patience at all" one_line 2 'from 1'
login --user me 10.0.0.1
check "a user without a secret" one_line 2 '--user and --secret-file'
login --user me --secret-file x --mutual-user you 10.0.0.1
check "one half of mutual CHAP" one_line 2 '--mutual-user and --mutual-secret-file'
login --mutual-user you --mutual-secret-file x 10.0.0.1
check "mutual CHAP alone" one_line 2 'needs --user'
login --user me --secret-file x --plan "$tmp/plan"
check "a plan's secrets and others" one_line 2 'of its own'
login --target 'Not An IQN' 10.0.0.1
check "no target's name" one_line 2 'iSCSI name'
logout
check "out of nothing" one_line 2 '--all'
for command in login logout; do
	run rftp-iser $command --help
	check "$command --help" test "$status" -eq 0 -a "$(grep -c -e '--plan FILE' "$tmp/out")" -eq 1
done

for word in 10.0.0.1:0 10.0.0.1:x '[fd00::1' ''; do
	login "$word"
	check "no address: \"$word\"" one_line 2 'is not an ADDRESS'
	logout "$word"
	check "nor for a logout: \"$word\"" one_line 2 'is not an ADDRESS'
done
login --user $'me\nnode.startup = automatic' --secret-file "$tmp/secret" 10.0.0.1
check "a user that would be two lines of a record" one_line 2 'control character'

# ---- options ----

if ! may_be_root; then
	skip "what is given" "nobody here is root"
	finish
fi
login no-such-host.invalid
check "a name that does not resolve" one_line 1 'no-such-host.invalid is neither an address nor'
echo topmost-secret >"$tmp/secret"
chmod 644 "$tmp/secret"
login --user me --secret-file "$tmp/secret" 10.0.0.1
check "a secret for all to read" one_line 1 'chmod 600'
check "is not told" not grep -q topmost "$tmp/err"
chmod 600 "$tmp/secret"
login --user me --secret-file "$tmp/none" 10.0.0.1
check "a secret that is not there" one_line 1 'No such file'
: >"$tmp/empty"
chmod 600 "$tmp/empty"
login --user me --secret-file "$tmp/empty" 10.0.0.1
check "an empty one" one_line 1 'is empty'
login --plan "$tmp/none"
check "no plan" one_line 1 'none: No such file'
login --json --plan "$tmp/none"
check "for programs" test "$(cat "$tmp/out")" = "{\"error\":\"$tmp/none: No such file or directory\"}"
echo '{}' >"$tmp/plan"
login --plan "$tmp/plan"
check "a plan that is none" one_line 2 'is not a plan'

# ---- this host ----

# The tools' own names, in a place with nothing else.
mkdir "$tmp/bin"
ln -s "$(command -v rftp-iser)" "$tmp/bin"
run "${as_root[@]}" env PATH="$tmp/bin" rftp-iser login 10.0.0.1
check "no iscsiadm" one_line 1 'iscsiadm is not in PATH: install open-iscsi'
run "${as_root[@]}" env PATH="$tmp/bin" rftp-iser logout --all
check "nor for a logout" one_line 1 'iscsiadm is not in PATH: install open-iscsi'
run "${as_root[@]}" env PATH="$tmp/bin" rftp-iser logout --all --json
check "for programs, too" grep -q '^{"error":"iscsiadm is not in PATH.*"}$' "$tmp/out"

# One that is found, but fails.
cat >"$tmp/bin/iscsiadm" <<'END'
#!/bin/sh
case $* in --version) exit 0 ;; esac
echo "iscsiadm: $*: no luck" >&2
exit 6
END
chmod +x "$tmp/bin/iscsiadm"
PATH=$tmp/bin:$PATH
mkdir -p "$tmp/state/initiator"
echo '{"rftp-iser-login": 1, "sessions": "x", "stripes": []}' >"$tmp/state/initiator/login.json"
logout --all
check "what is kept is damaged" one_line 1 'login.json is damaged'
rm "$tmp/state/initiator/login.json"
logout --all
check "logged in to nothing" test "$status" -eq 0 -a "$(cat "$tmp/out")" = "nothing to log out of"
logout --all --json
check "for programs" test "$(cat "$tmp/out")" = '{"targets":[],"stripes":[]}'
exec 7>"$tmp/state/initiator/login.lock"
if flock -n 7; then
	logout --all
	check "one at a time" one_line 1 'another login or logout is at work'
	logout --all --lock-wait 1
	check "also after a wait" one_line 1 'another login or logout is at work'
	flock -u 7
	flock "$tmp/state/initiator/login.lock" sh -c 'echo >"$1"; sleep 1' sh "$tmp/held" 7>&- &
	holder=$!
	patience 10 test -e "$tmp/held"
	logout --all --lock-wait 60
	check "one that ends meanwhile" test "$status" -eq 0 -a "$(cat "$tmp/out")" = "nothing to log out of"
	wait $holder
fi
exec 7>&-

# ---- killed ----

# Its login continues, and no other begins meanwhile; a daemon that it had to start is not part of
# it.
cat >"$tmp/bin/iscsiadm" <<END
#!/bin/sh
case \$* in *delete*) ;; *) exit 0 ;; esac
echo \$\$ >"$tmp/deleting"
while [ ! -e "$tmp/go-on" ]; do sleep 0.1; done
END
cat >"$tmp/bin/iscsid" <<END
#!/bin/sh
/usr/bin/python3 - <<'PY' >"$tmp/daemon" 2>&1 &
import socket, time
s = socket.socket(socket.AF_UNIX)
s.bind("\0ISCSIADM_ABSTRACT_NAMESPACE")
s.listen()
time.sleep(600)
PY
echo \$! >"$tmp/daemon.pid"
END
ln -s iscsid "$tmp/bin/systemctl"
chmod +x "$tmp/bin/iscsid"
mkdir "$tmp/sys"
export RFTP_SYSFS=$tmp/sys
cat >"$tmp/state/initiator/login.json" <<'END'
{ "rftp-iser-login": 1, "stripes": [], "sessions": [ { "target": "iqn.2026-01.org.test:a",
  "address": "192.0.2.1", "port": 3260, "tag": 1, "transport": "tcp", "record": true } ] }
END
free_again() { flock -n "$tmp/state/initiator/login.lock" true; }
# unshare becomes it, so that this is its number, too
"${as_root[@]}" rftp-iser logout --all >"$tmp/killed" 2>&1 &
killed=$!
check "a logout is at work" patience 10 test -s "$tmp/deleting"
[ ! -s "$tmp/daemon.pid" ] || others+=("$(cat "$tmp/daemon.pid")")
kill -KILL "$killed"
wait "$killed" 2>/dev/null
logout --all
check "killed, it leaves the lock to what it has begun" one_line 1 \
	"that is gone (process $killed) still [a-z ,]*iscsiadm, "
: >"$tmp/go-on"
check "until that has ended" patience 10 free_again
logout --all
check "and then it is done again" test "$status $(cat "$tmp/out")" = "0 logged out of iqn.2026-01.org.test:a"
unset RFTP_SYSFS

if is_root; then
	chmod 700 "$tmp"
	ran_as=("${as_other[@]}")
	if [ "${#ran_as[@]}" -gt 0 ]; then
		chmod 755 "$tmp"
		chmod -R go+rX "$tmp/bin"
		run "${as_other[@]}" env PATH="$PATH" rftp-iser login --plan "$tmp/none"
		check "without privileges" one_line 1 'login needs root: use sudo'
		run "${as_other[@]}" env PATH="$PATH" rftp-iser logout --all
		check "nor out" one_line 1 'logout needs root: use sudo'
	fi
fi
# With the kernel's module the address is tried, and does not answer; without it the error names the
# module.
if is_root && [ -e /etc/iscsi/initiatorname.iscsi ]; then
	login --transport tcp --wait 1 127.0.0.1:1
	check "nobody there" one_line 1 'iscsi_tcp\|127.0.0.1:1\|iscsid'
fi
finish
