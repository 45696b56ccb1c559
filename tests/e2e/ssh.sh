#!/bin/bash
# shellcheck disable=SC2034 # limit is for lib.sh
# host:path through a real sshd with keys of its own; and transfers when data ports
# cannot be reached. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
need python3 setsid ssh ssh-keygen
PATH=$PATH:/usr/sbin:/usr/local/sbin
need sshd
sshd=$(command -v sshd)
rftpd=$(command -v rftpd)

limit=40
mkdir -p "$tmp/ssh" "$tmp/far" "$tmp/near" "$tmp/bin"
chmod 700 "$tmp/ssh"
ssh-keygen -q -t ed25519 -N '' -f "$tmp/ssh/host" && ssh-keygen -q -t ed25519 -N '' -f "$tmp/ssh/user" ||
	skip_all "ssh-keygen does not work here"
cp "$tmp/ssh/user.pub" "$tmp/ssh/authorized"
ssh_port=$(python3 -c '
import socket
s = socket.create_server(("127.0.0.1", 0))
print(s.getsockname()[1])')
cat >"$tmp/ssh/sshd_config" <<CONFIG
Port $ssh_port
ListenAddress 127.0.0.1
HostKey $tmp/ssh/host
AuthorizedKeysFile $tmp/ssh/authorized
PidFile $tmp/ssh/pid
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin yes
PrintMotd no
LogLevel VERBOSE
CONFIG
cat >"$tmp/ssh/config" <<CONFIG
Host far
	HostName 127.0.0.1
	Port $ssh_port
	User $(id -un)
	IdentityFile $tmp/ssh/user
	IdentitiesOnly yes
	UserKnownHostsFile $tmp/ssh/known
	StrictHostKeyChecking accept-new
	LogLevel ERROR
Host strange
	HostName 127.0.0.1
	Port $ssh_port
	IdentityFile $tmp/ssh/host
	IdentitiesOnly yes
	BatchMode yes
	UserKnownHostsFile $tmp/ssh/known
	StrictHostKeyChecking accept-new
	LogLevel ERROR
CONFIG
[ ! -d /run/sshd ] && is_root && mkdir -p /run/sshd
"$sshd" -D -f "$tmp/ssh/sshd_config" -E "$tmp/sshd.log" &
others+=($!)
ssh_up() { ssh -F "$tmp/ssh/config" far true 2>/dev/null; }
patience 10 ssh_up || { comment <"$tmp/sshd.log"; skip_all "no sshd can be had here"; }

# A script, so that rftpd is found by an absolute path and options can be given to it.
options=
wrap() { # OPTION...: for the rftpd at the other end
	cat >"$tmp/bin/rftpd" <<WRAP
#!/bin/sh
export ASAN_OPTIONS='$ASAN_OPTIONS' TSAN_OPTIONS='$TSAN_OPTIONS' UBSAN_OPTIONS='$UBSAN_OPTIONS'
exec $rftpd "\$@" $*
WRAP
	chmod 755 "$tmp/bin/rftpd"
}
wrap
ssh=(--ssh "ssh -F $tmp/ssh/config" --rftpd-path "$tmp/bin/rftpd")

random "$tmp/file" 40000000
"$lib/make-tree" "$tmp/tree" names links hardlinks sizes empty

run rftp put -q --json "${ssh[@]}" "$tmp/file" "far:$tmp/far/file"
check "put file host:path" status_is 0
check "as it was" same "$tmp/file" "$tmp/far/file"
check "with data channels beside ssh" test "$(summary transport)" = tcp
check "private" test "$(summary prot)" = private
run rftp get -q "${ssh[@]}" "far:$tmp/far/file" "$tmp/near/file"
check "get host:path file" status_is 0
check "as it was" same "$tmp/file" "$tmp/near/file"
run rftp put -q -r "${ssh[@]}" "$tmp/tree" "far:$tmp/far/tree"
check "put -r dir host:path" status_is 0
check "as it was" same_trees "$tmp/tree" "$tmp/far/tree"
run rftp get -q -r "${ssh[@]}" "ssh://far$tmp/far/tree" "$tmp/near/tree"
check "get -r ssh://host/path" status_is 0
check "as it was" same_trees "$tmp/tree" "$tmp/near/tree"
run rftp ls -1 "${ssh[@]}" "far:$tmp/far"
check "ls host:path" test "$status" -eq 0 -a "$(sort "$tmp/out" | xargs)" = "file tree"
run_stdin rftp put -q "${ssh[@]}" - "far:$tmp/far/stdin" <"$tmp/file"
check "put - host:path" same "$tmp/file" "$tmp/far/stdin"
run rftp get -q "${ssh[@]}" "far:$tmp/far/stdin" -
check "get host:path -" same "$tmp/file" "$tmp/out"
run rftp rm -q "${ssh[@]}" "far:$tmp/far/stdin"
check "rm host:path" test "$status" -eq 0 -a ! -e "$tmp/far/stdin"
run rftp put -q --prot clear "${ssh[@]}" "$tmp/file" "far:$tmp/far/clear"
check "put --prot clear" same "$tmp/file" "$tmp/far/clear"

# ---- from one to another, without a daemon at either ----
mkdir "$tmp/third"
run rftp cp -q --json "${ssh[@]}" "far:$tmp/far/file" "far:$tmp/third/file"
check "cp host:path host:path" status_is 0
check "as it was" same "$tmp/file" "$tmp/third/file"
check "private" test "$(summary prot) $(summary transport)" = "private tcp"
run rftp cp -q -r "${ssh[@]}" "far:$tmp/far/tree" "far:$tmp/third/"
check "cp -r" status_is 0
check "as it was" same_trees "$tmp/tree" "$tmp/third/tree"
run rftp cp -q "${ssh[@]}" "far:$tmp/far/nothing" "far:$tmp/third/x"
check "a file that is not there: 1" fails_with 1 'far/nothing: No such file'

# ---- both ways, each by an ssh of its own ----
cat >"$tmp/bin/counted" <<COUNTED
#!/bin/sh
case " \$* " in *" -G "*) ;; *) echo >>"$tmp/ssh/runs" ;; esac
exec ssh -F "$tmp/ssh/config" "\$@"
COUNTED
chmod 755 "$tmp/bin/counted"
run rftp bench --both --size 20M --json --ssh "$tmp/bin/counted" --rftpd-path "$tmp/bin/rftpd" far:
check "bench --both host:" status_is 0
check "all of both" test "$(summary bytes)" -eq 41943040
check "two runs of ssh" test "$(wc -l <"$tmp/ssh/runs")" -eq 2

# ---- the home directory ----
at_home=$(ssh -F "$tmp/ssh/config" far pwd)
run rftp ls -1 "${ssh[@]}" far:
check "host: is the home directory" status_is 0
run rftp stat "${ssh[@]}" "far:${tmp#"$at_home"/}/far/file"
if [ "${tmp#"$at_home"/}" != "$tmp" ]; then check "a relative path begins there" status_is 0; fi

# ---- errors ----
run rftp put -q --ssh "ssh -F $tmp/ssh/config" --rftpd-path "$tmp/bin/nothing" "$tmp/file" "far:$tmp/far/x"
check "no rftpd at the other end: 3" status_is 3
check "what was tried and what to do" grep -q -- "--rftpd-path\|nothing" "$tmp/err"
check "in few lines" test "$(wc -l <"$tmp/err")" -le 3
run rftp put -q "${ssh[@]}" "$tmp/file" "strange:$tmp/far/x"
check "ssh does not let us in: 3" status_is 3
check "ssh's own words" grep -q 'Permission denied' "$tmp/err"
run rftp put -q "${ssh[@]}" "$tmp/file" "no-such-host.invalid:$tmp/far/x"
check "no such host: 3" status_is 3
run rftp put -q --ssh "$tmp/bin/nossh" "$tmp/file" "far:x"
check "no ssh: 3" status_is 3
check "and it is told" grep -q nossh "$tmp/err"
cat >"$tmp/bin/noisy" <<NOISY
#!/bin/sh
echo "Welcome to far!"
exec $rftpd "\$@"
NOISY
chmod 755 "$tmp/bin/noisy"
run rftp put -q --ssh "ssh -F $tmp/ssh/config" --rftpd-path "$tmp/bin/noisy" "$tmp/file" "far:$tmp/far/x"
check "a login script that prints: 3" status_is 3
check "and it is told" grep -qi 'login script\|Welcome' "$tmp/err"
run rftp put -q "${ssh[@]}" "$tmp/file" "far:$tmp/missing/x"
check "a directory that is missing: 1" fails_with 1 'missing/x.*No such file'
check "no file by any of them" test ! -e "$tmp/far/x"

# ---- no data ports ----
taken=$(python3 -c '
import socket
s = socket.create_server(("127.0.0.1", 0))
print(s.getsockname()[1])')
python3 -c '
import socket, sys, time
s = socket.create_server(("0.0.0.0", int(sys.argv[1])))
t = None
try:
    t = socket.create_server(("::", int(sys.argv[1])), family=socket.AF_INET6)
except OSError:
    pass
time.sleep(300)' "$taken" &
others+=($!)
sleep 0.5
wrap --data-ports "$taken-$taken"
run rftp put -q --json "${ssh[@]}" "$tmp/file" "far:$tmp/far/inband"
check "no data port is free: in-band" status_is 0
check "as it was" same "$tmp/file" "$tmp/far/inband"
wrap

# A server behind a firewall that drops or rejects its data ports, in a network of its own.
if is_root && command -v ip >/dev/null && unshare -n true 2>/dev/null; then
	name=rftp$$
	if ip netns add $name 2>/dev/null && ip link add v$name type veth peer name w$name 2>/dev/null &&
		ip link set w$name netns $name && ip addr add 10.213.77.1/30 dev v$name && ip link set v$name up &&
		ip netns exec $name ip addr add 10.213.77.2/30 dev w$name && ip netns exec $name ip link set w$name up; then
		mkdir "$tmp/netns"
		ip netns exec $name rftpd --one-process --listen 10.213.77.2:7321 --root "$tmp/netns" --anonymous rw -v \
			--data-ports 7400-7400 --state "$tmp/netns.state" 2>"$tmp/netns.log" &
		others+=($!)
		far_up() { run rftp ls -q --accept-new --connect-timeout 1s rftp://10.213.77.2/; [ "$status" -eq 0 ]; }
		patience 10 far_up
		# A route to nowhere for the data port alone needs a firewall; without one, ip rules
		# do.
		if ip rule add to 10.213.77.2 ipproto tcp dport 7400 unreachable 2>/dev/null; then
			for options in "" "--prot clear"; do
				# shellcheck disable=SC2086
				run rftp put --json $options "$tmp/file" rftp://10.213.77.2/inband
				check "data ports that cannot be reached $options: in-band" status_is 0
				check "as it was" same "$tmp/file" "$tmp/netns/inband"
				check "with a warning" grep -q 'warning.*control connection' "$tmp/err"
				# shellcheck disable=SC2086
				run rftp get -q $options rftp://10.213.77.2/inband "$tmp/near/inband"
				check "get in-band $options" status_is 0
				check "as it was" same "$tmp/file" "$tmp/near/inband"
			done
			run rftp put -r -q "$tmp/tree" rftp://10.213.77.2/tree
			check "a tree in-band" status_is 0
			check "as it was" same_trees "$tmp/tree" "$tmp/netns/tree"
			run rftp put -q --transport tcp "$tmp/file" rftp://10.213.77.2/x
			check "but not when tcp is asked for" test "$status" -ne 0 -a ! -e "$tmp/netns/x"
			ip rule del to 10.213.77.2 ipproto tcp dport 7400 unreachable
		else
			skip "in-band" "ip has no rules by port here"
		fi
	else
		skip "in-band" "no virtual network here"
	fi
	ip link del v$name 2>/dev/null
	ip netns del $name 2>/dev/null
else
	skip "in-band" "needs root and network namespaces"
fi

no_rftpd() { ! pgrep -f "^$rftpd --stdio" >/dev/null; }
check "no rftpd is left at the other end" patience 10 no_rftpd
finish
