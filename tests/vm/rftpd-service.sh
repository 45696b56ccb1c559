#!/bin/bash
# shellcheck disable=SC2034 # before, ran, status: for lib.sh and guest.sh
# rftpd as systemd runs it: installed, with its users and directories made, from within the unit's
# sandbox. Users of the system and of the file move data by RDMA; the service has its settings read
# anew, is replaced in the middle of a transfer, and stopped in another. TAP.

if [ -z "${RFTP_GUEST:-}" ]; then
	stage=$(mktemp -d "${TMPDIR:-/tmp}/rftpd-service.XXXXXX") || exit 99
	trap 'rm -rf "$stage"' EXIT
	env -u MAKEFLAGS -u MFLAGS make -s -C "${top_builddir:?}" DESTDIR="$stage/root" \
		install-strip >"$stage/log" 2>&1 || { cat "$stage/log" >&2; exit 99; }
	vm_options="--systemd --nics 1 --topology self --env stage=/host$stage"
fi
. "${top_srcdir:?}/tests/vm/guest.sh"

rftpd --version | grep -q '[+]pam' || skip_all "this build has no PAM"
need systemd-sysusers systemd-tmpfiles useradd openssl
PATH=${PATH#*:} # the installed ones
limit=120
conf=/usr/local/etc/rftpd.conf
url=10.0.0.1:7321

said() { journalctl --no-pager -q -o cat -b -u rftpd >"$tmp/said"; }
has_said() { said; grep -Eq -e "$1" "$tmp/said" || { tail -n 12 "$tmp/said" | comment; false; }; }
active() { systemctl -q is-active rftpd || { systemctl --no-pager -l status rftpd | comment; false; }; }
main_pid() { systemctl show --value -p MainPID rftpd; }
field() { sed -n "s/^$2:[[:space:]]*//p" "/proc/$1/status"; }
refuses() { ! (exec 3<>"/dev/tcp/10.0.0.1/7321") 2>/dev/null; }
or_end() { "$@" || finish; }

cp -a "$stage/root/." /
cp "$(find /usr/local/share/doc -path '*/examples/pam.d/rftpd')" /etc/pam.d/rftpd
# The host's own are not those of the test.
sed -i '/^\(rftpd\|ftp\):/d' /etc/passwd /etc/group /etc/shadow /etc/gshadow
systemd-sysusers rftpd.conf
systemd-tmpfiles --create rftpd.conf
run id rftpd ftp
check "users are made" status_is 0
check "and directories" test "$(stat -c %U:%a /var/lib/rftpd /var/lib/rftpd/empty | xargs)" = "root:700 root:555"
# As systemd-user-sessions does at the end of the start; the guest does not have it.
rm -f /run/nologin
useradd -m -s /bin/bash -p "$(openssl passwd -6 right)" alice
mkdir -p /srv/ftp
chown ftp /srv/ftp
echo "bulk:$(echo right | rftpd --hash-password):/srv/ftp::rw" >/usr/local/etc/rftpd.users
chmod 600 /usr/local/etc/rftpd.users
right() {
	printf '%s\n' 'pam yes' 'users /usr/local/etc/rftpd.users' 'anonymous ro' "$@" '[anonymous]' \
		'root /srv/ftp' >$conf
}
right
for user in alice bulk; do echo "machine 10.0.0.1 login $user password right"; done >"$HOME/.netrc"
chmod 600 "$HOME/.netrc"
random "$tmp/file" 2000000
random "$tmp/big" 4000000
random "$tmp/late" 17000000 # a part of it is kept

# ---- the start ----

systemctl daemon-reload
run systemctl start rftpd
or_end check "it starts" status_is 0
or_end check "and is active" active
check "systemd has its status" test "$(systemctl show --value -p StatusText rftpd)" = "sessions: 0"
first=$(main_pid)
check "in a sandbox" test "$(field "$first" NoNewPrivs):$(field "$first" Seccomp)" = 1:2
check "with few capabilities" test "$(($(field "$first" CapBnd | sed s/^/0x/) & (1 << 21)))" -eq 0
check "unauthenticated clients are served as rftpd" has_said 'unauthenticated clients are served as rftpd, in /var/lib/rftpd/empty'
check "the card is seen" has_said 'data goes by eth0 .*RDMA'

# ---- users' files, by RDMA ----

# puts USER PATH FILE OWNER: by RDMA, and it is the user's; gets USER PATH: the same back
puts() {
	before=$(carried rxe_eth0)
	put --transport rdma --prot clear --block 256K "$tmp/file" "rftp://$1@$url$2"
	check "$1 puts" status_is 0
	check "$1: by RDMA" has_carried rxe_eth0
	check "$1: the same" same "$tmp/file" "$3"
	check "$1: his own" test "$(stat -c %U "$3")" = "$4"
}
gets() {
	before=$(carried rxe_eth0)
	get --transport rdma --prot clear --block 256K "rftp://$1@$url$2" "$tmp/back.$1"
	check "$1 gets" status_is 0
	check "$1: by RDMA again" has_carried rxe_eth0
	check "$1: the same again" same "$tmp/file" "$tmp/back.$1"
}
puts bulk /file /srv/ftp/file ftp
puts alice /~/file /home/alice/file alice
gets alice /~/file
mkdir -p "$tmp/tree/sub"
chmod 2750 "$tmp/tree/sub"
run rftp -k -q -c "put -r $tmp/tree /usr/local/; put -r $tmp/tree /tmp/" "rftp://alice@$url/"
check "a tree, to where the host sees it" test "$(stat -c %U:%a /tmp/tree/sub)" = alice:750
check "and not where she may not" not test -e /usr/local/tree

# ---- settings ----

right 'max-sessions 20'
run systemctl reload rftpd
check "settings are read anew" status_is 0
check "as the log says" patience 20 has_said 'settings read anew'
right 'max-sessions many'
run systemctl reload rftpd
check "wrong ones make the reload fail" status_is 1
check "with the line" has_said "rftpd.conf:4: max-sessions"
check "it goes on" active
check "as it was" test "$(main_pid)" = "$first"
systemctl kill -s HUP --kill-whom=main rftpd
status_says() { systemctl show --value -p StatusText rftpd | grep -q "$1"; }
check "who does not ask first finds it in the status" patience 20 status_says 'settings stay as they were: .*max-sessions'
right
systemctl reload rftpd

# ---- the next one, in the middle of a transfer ----

# begin FILE NAME: a put by RDMA that stops after 2 MB, until end
begin() {
	before=$(carried rxe_eth0)
	rm -f "$tmp/go"
	{
		head -c 2000000 "$1"
		until [ -e "$tmp/go" ]; do sleep 0.2; done
		tail -c +2000001 "$1"
	} | rftp put -q --transport rdma --prot clear --block 64K --retries 0 \
		- "rftp://alice@$url/~/$2" >"$tmp/out" 2>"$tmp/err" &
	client=$! ran="put $2"
	others+=("$client")
	patience 20 moves
}
moves() { [ $(($(carried rxe_eth0) - before)) -gt 200 ]; } # packets of 4 KiB
end() {
	: >"$tmp/go"
	wait $client
	status=$?
}
begin "$tmp/big" rolled
systemctl kill -s USR2 --kill-whom=main rftpd
replaced() { [ "$(main_pid)" != "$first" ]; }
check "another is the main process" patience 30 replaced
second=$(main_pid)
check "the unit is active" active
before=$(carried rxe_eth0)
put --transport rdma --prot clear "$tmp/file" "rftp://bulk@$url/meanwhile"
check "it serves" status_is 0
check "the same" same "$tmp/file" /srv/ftp/meanwhile
check "the one before is there" not gone "$first"
check "in the status, too" status_says 'before the restart: 1'
end
check "the transfer ends well" status_is 0
check "with all bytes" same "$tmp/big" /home/alice/rolled
check "and then the one before" patience 30 gone "$first"
check "which the log has" has_said "the next rftpd, process $second, serves from now on"
check "systemd knows whose child it is" not has_said 'not our child'
check "active" active

# ---- killed: there again ----

systemctl kill -s KILL --kill-whom=main rftpd
again() { [ "$(main_pid)" != "$second" ] && [ "$(main_pid)" != 0 ] && systemctl -q is-active rftpd; }
check "killed, it is started again" patience 30 again

# ---- stopped ----

begin "$tmp/big" stopped
systemctl --no-block stop rftpd
check "nobody else gets in" patience 30 refuses
check "the transfer is waited for" test "$(systemctl show --value -p ActiveState rftpd)" = deactivating
end
check "which ends well" status_is 0
check "with all bytes" same "$tmp/big" /home/alice/stopped
inactive() { [ "$(systemctl is-active rftpd)" = inactive ]; }
check "then it is stopped" patience 30 inactive
check "well" test "$(systemctl show --value -p Result rftpd)" = success

mkdir -p /run/systemd/system/rftpd.service.d
printf '[Service]\nTimeoutStopSec=2\n' >/run/systemd/system/rftpd.service.d/short.conf
systemctl daemon-reload
systemctl start rftpd
# After a second the journal has more than its head: the next put can resume.
is_noted() { find /home/alice -name '.rftp-*.j' -size +64c | grep -q .; }
rftp put -q --transport rdma --prot clear --block 64K --rate 1M --retries 0 \
	"$tmp/late" "rftp://alice@$url/~/late" </dev/null >"$tmp/out" 2>"$tmp/err" &
client=$! ran="put late"
others+=("$client")
patience 20 is_noted
kill -STOP $client
systemctl stop rftpd
check "what does not end in time is ended" test "$(systemctl show --value -p Result rftpd)" = timeout
kill -KILL $client
wait $client 2>/dev/null
check "a part stays" test -n "$(find /home/alice -name '.rftp-*' -size +0)"

# ---- when the first client comes ----

systemctl reset-failed rftpd
systemctl start rftpd.socket
check "only its socket is there" test "$(systemctl is-active rftpd rftpd.socket | xargs)" = "inactive active"
run rftp put --json --transport rdma --prot clear --block 64K "$tmp/late" "rftp://alice@$url/~/late"
check "a client has it started" status_is 0
check "and goes on with the part" test "$(summary resumed)" -gt 0
check "the same" same "$tmp/late" /home/alice/late
check "no part stays" no_parts /home/alice
check "the socket is systemd's" has_said 'listening on 0.0.0.0:7321, as it was given'
systemctl stop rftpd.socket rftpd
check "stopped" inactive
check "nothing is left" patience 10 nothing_left
finish
