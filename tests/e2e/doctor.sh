#!/bin/bash
# shellcheck disable=SC2034 # status is for lib.sh
# rftp doctor: each check of this end, of a server and of the path, its verdict and its remedy. TAP.
. "${top_srcdir:?}/tests/e2e/lib.sh"
need python3

# verdict WHERE CHECK VERDICT [TEXT]: one line of the last --json has these; TEXT is in its text and
# remedy. VERDICT and TEXT are regular expressions.
verdict() {
	python3 - "$tmp/out" "$@" <<'END'
import json, re, sys
where, check, verdict, text = (sys.argv[2:] + [''])[:4]
events = [json.loads(line) for line in open(sys.argv[1])]
found = [e for e in events if e.get('where') == where and e.get('check') == check]
if not any(re.fullmatch(verdict, e['verdict']) and re.search(text, e['text'] + ' ## ' + e.get('remedy', '')) for e in found):
    print(f'# wanted {where} {check} {verdict} {text}; is {found}')
    sys.exit(1)
END
}
doctor() { run rftp doctor --time 200ms --json "$@"; }
# counts: the summary counts the lines
counts() {
	python3 - "$tmp/out" <<'END'
import collections, json, sys
*events, summary = [json.loads(line) for line in open(sys.argv[1])]
n = collections.Counter(e['verdict'] for e in events)
assert summary['event'] == 'summary' and all(summary[w] == n[w] for w in ('ok', 'unknown', 'warning', 'wrong')), summary
assert all(e['text'] for e in events)
assert all(e['verdict'] in ('warning', 'wrong') for e in events if 'remedy' in e), events
END
}

# ---- this end ----

mkdir "$tmp/here"
cd "$tmp/here" || exit 1
doctor
check "this end" status_is 0
check "the summary counts" counts
for c in RDMA memlock memory "huge pages" CPU ARP TCP congestion storage; do
	check "there is a line for $c" grep -q "\"where\":\"here\",\"check\":\"$c\"" "$tmp/out"
done
check "the storage is measured" verdict here storage ok '^\.: .*, writes [1-9].*/s, reads [1-9].*/s'
check "and nothing is left of that" test -z "$(ls -A "$tmp/here")"
run rftp doctor
check "as text, aligned" grep -Eq '^(ok|unknown|warning) +here   storage     \.: ' "$tmp/out"
check "with a total" grep -Eq '^[0-9]+ ok, [0-9]+ unknown, [0-9]+ warnings?, 0 wrong$' "$tmp/out"
doctor "$tmp/none"
check "a directory that does not exist" verdict here storage wrong 'No such file'
run rftp doctor --badly
check "a wrong option" fails_with 2 'badly'
run rftp doctor "$tmp" "$tmp"
check "two directories" fails_with 2 'the second word must be the URL of a server'

# ---- a machine with all faults, and one without ----

# machine NAME LINE...: two nodes, with these files of sysfs, too
machine() {
	local name=$1
	shift
	{ cat "$top_srcdir/tests/unit/sysfs/two" && printf '%s\n' "$@"; } >"$tmp/$name.txt"
	"$lib/make-sysfs" "$tmp/$name.txt" "$tmp/$name"
}
# proc NAME BUFFER CONGESTION ALLOWED ARP
proc() {
	local net=$tmp/$1.proc/sys/net/ipv4 dev
	mkdir -p "$net/conf/all"
	echo "4096 131072 $2" | tee "$net/tcp_rmem" >"$net/tcp_wmem"
	echo "$3" >"$net/tcp_congestion_control"
	echo "$4" >"$net/tcp_allowed_congestion_control"
	echo "$5" | tee "$net/conf/all/arp_ignore" >"$net/conf/all/rp_filter"
	echo 2 >"$net/conf/all/arp_announce"
}
bad_port=devices/pci0000:00/0000:00:02.0/0000:03:00.0/infiniband/mlx5_0/ports/1
other_port=devices/pci0000:80/0000:80:02.0/0000:83:00.0/infiniband/mlx5_1/ports/1
card=devices/pci0000:00/0000:00:02.0/0000:03:00.0/net/ens1f0
gid=0000:0000:0000:0000:0000:ffff:c000:0201
none=0000:0000:0000:0000:0000:0000:0000:0000
machine bad "$bad_port/state = 1: DOWN" "$bad_port/gids/0 = $gid" "$bad_port/gid_attrs/ndevs/0 = ens1f0" \
	"$other_port/state = 4: ACTIVE" "$other_port/gids/0 = $none" \
	'devices/system/cpu/cpu0/cpufreq/scaling_governor = powersave' \
	'devices/system/cpu/cpu9/cpufreq/scaling_governor = performance' \
	'kernel/mm/transparent_hugepage/enabled = always madvise [never]' \
	'devices/virtual/net/snake/operstate = up' 'devices/virtual/net/snake/mtu = 1500'
rm -r "$tmp/bad/devices/system/node/node1/hugepages"
proc bad 1000000 cubic 'reno cubic' 0
machine good "$bad_port/state = 4: ACTIVE" "$bad_port/rate = 100 Gb/sec (4X EDR)" \
	"$bad_port/gids/0 = $none" "$bad_port/gids/1 = $gid" "$bad_port/gid_attrs/types/1 = RoCE v2" \
	"$bad_port/gid_attrs/ndevs/1 = ens1f0" "$other_port/state = 4: ACTIVE" "$other_port/gids/0 = $gid" \
	"$other_port/gid_attrs/types/0 = IB/RoCE v1" "$card/operstate = up" "$card/mtu = 9000" \
	'devices/system/cpu/cpu0/cpufreq/scaling_governor = performance'
proc good 268435456 bbr 'reno cubic bbr' 1
on() { RFTP_SYSFS=$tmp/$1 RFTP_PROC=$tmp/$1.proc doctor "${@:2}"; }

on bad
check "warnings alone are no failure, wrong lines are" status_is 1
check "a port that is down" verdict here RDMA warning 'mlx5_0 port 1 is not active: 1: DOWN ## .*ip link set dev ens1f0 up'
check "a port without an address" verdict here RDMA wrong 'mlx5_1 port 1 has no address \(GID\) ## ip address add'
check "processors that save power" verdict here CPU warning '1 of 32 CPUs save power \(powersave\) ## cpupower '
check "no huge pages" verdict here 'huge pages' warning 'none .* ## sysctl -w vm.nr_hugepages='
check "small buffers" verdict here TCP warning 'at most 977 KiB, .* ## sysctl -w net.ipv4.tcp_rmem="4096 131072 4194304"'
check "a card on an unknown node" verdict here card warning 'snake: .*NUMA node is not known ## --nic-node snake='
check "cubic is good enough for a short path" verdict here congestion ok cubic
on good
check "a good machine" status_is 0
check "an active port" verdict here RDMA ok 'mlx5_0 port 1 is active, RoCE v2 on ens1f0, 100 Gb/sec \(4X EDR\), node 0'
check "RoCE v1 only" verdict here RDMA warning 'mlx5_1 port 1 has RoCE v1 only.* ## cma_roce_mode -d mlx5_1 -p 1 -m 2'
check "fast processors" verdict here CPU ok '32 CPUs, governor performance'
check "reserved huge pages" verdict here 'huge pages' ok '6.0 MiB are reserved'
check "large buffers" verdict here TCP ok '256 MiB'
check "the card" verdict here card ok 'ens1f0: 100000 Mbit/s, MTU 9000, node 0'
run env RFTP_SYSFS="$tmp/bad" RFTP_PROC="$tmp/bad.proc" rftp doctor -q
check "-q leaves out the good lines" test -s "$tmp/out" -a "$(grep -c '^\(ok\|unknown\)' "$tmp/out")" -eq 0
on bad -q
check "also with --json" test "$(grep -c '"verdict":"\(ok\|unknown\)"' "$tmp/out")" -eq 0 -a "$(grep -c '"verdict"' "$tmp/out")" -gt 0
if [ ${#as_other[@]} -gt 0 ]; then
	chmod 777 "$tmp/here"
	chmod -R a+rX "$tmp"
	locked() { RFTP_SYSFS=$tmp/good run "${as_other[@]}" bash -c 'ulimit -l 8192; exec rftp doctor --json'; }
	locked
	check "little locked memory, with RDMA" verdict here memlock warning 'only 8.0 MiB of the .* for blocks ## ulimit -l unlimited'
	run "${as_other[@]}" rftp doctor
	check "without rights" status_is 0
fi
if is_root && unshare -n true 2>/dev/null && command -v ip >/dev/null; then
	# Two cards in one subnet.
	cards='ip link add c1 type veth peer name c2 && ip link set c1 up && ip link set c2 up &&
		mount -t sysfs own /sys && ip addr add 192.0.2.1/24 dev c1 && ip addr add 192.0.2.2/24 dev c2 &&'
	run unshare -nm bash -c "$cards exec rftp doctor --json"
	check "two cards in one subnet" verdict here ARP warning 'c1 and c2 are in one subnet.* ## sysctl -w net.ipv4.conf.all.arp_ignore=1'
	cp -r "$tmp/good.proc" "$tmp/arp.proc"
	echo 2 >"$tmp/arp.proc/sys/net/ipv4/conf/all/rp_filter"
	run unshare -nm bash -c "$cards RFTP_PROC=$tmp/arp.proc exec rftp doctor --json"
	check "each answers for itself" verdict here ARP ok 'cards in one subnet answer for themselves only'
fi

# ---- a server ----

mkdir -p "$tmp/root/dir"
echo x >"$tmp/root/dir/file"
chmod -R 777 "$tmp/root"
hash=$(echo s3cret | rftpd --hash-password)
echo "alice:$hash:$tmp/root:/:rw
bob:$hash:$tmp/root:/:ro" >"$tmp/users"
chmod 600 "$tmp/users"
for user in alice bob; do echo "machine 127.0.0.1 login $user password s3cret"; done >"$tmp/netrc"
chmod 600 "$tmp/netrc"
login=(--accept-new --netrc "$tmp/netrc")

both_ends() {
	start_server "$1" --root "$tmp/root" --anonymous ro --users "$tmp/users"
	doctor "${login[@]}" "rftp://alice@127.0.0.1:$port/dir/"
	check "$1: a server" status_is 0
	check "the summary counts" counts
	for c in name port login RTT version clock MTU put get "data ports"; do
		check "the path's $c is good" verdict path "$c" ok
	done
	check "its memory is looked at" grep -q '"where":"path","check":"memory"' "$tmp/out"
	for c in RDMA memlock memory "huge pages" CPU ARP TCP congestion counters storage; do
		check "the server's $c is looked at" grep -q "\"where\":\"there\",\"check\":\"$c\"" "$tmp/out"
	done
	check "its storage is measured" verdict there storage '(ok|warning)' '^/dir/: .*(writes|reads) [1-9]'
	check "and nothing is left of that" test "$(ls -A "$tmp/root/dir")" = file
	doctor "${login[@]}" "rftp://alice@127.0.0.1:$port/dir/file"
	check "a file: its directory is measured" grep -q '"where":"there","check":"storage","text":"/dir/file: [^"]*/s' "$tmp/out"
	doctor "${login[@]}" "rftp://bob@127.0.0.1:$port/"
	check "an account that may not write" verdict there storage unknown 'this account may not write'
	doctor --accept-new "rftp://127.0.0.1:$port/"
	check "anonymous: the path only" verdict there facts unknown '550 Anonymous'
	check "is measured" verdict path put ok
	if has_faults; then # the third connection of this client is for data
		RFTP_FAULT=connect:ECONNREFUSED:after=2 doctor "${login[@]}" "rftp://alice@127.0.0.1:$port/"
		check "data ports behind a firewall" verdict path 'data ports' wrong 'over the control connection ## there: rftpd --data-ports'
		check "are a failure" status_is 1
	fi
	run rftp status "${login[@]}" "rftp://alice@127.0.0.1:$port/"
	check "the server is well" status_is 0
}
both_ends one
check "stop" stops_well
if is_root; then
	three_processes
	both_ends three
	for i in {1..8}; do
		rftp doctor --time 200ms --json "${login[@]}" "rftp://alice@127.0.0.1:$port/" >"$tmp/many.$i" 2>&1 &
		many[i]=$!
	done
	for i in {1..8}; do
		wait "${many[i]}" || echo "# $i ended with $?"
		grep -q '"where":"there","check":"storage"' "$tmp/many.$i" || comment <"$tmp/many.$i"
	done >"$tmp/bad-ones"
	check "eight at once" test ! -s "$tmp/bad-ones"
	comment <"$tmp/bad-ones"
	check "stop" stops_well
fi

# ---- bad input, and claims of a server ----

doctor --accept-new rftp://127.0.0.1:1/
check "a closed port" verdict path port wrong 'connect.* ## there: systemctl start rftpd'
check "is a failure" status_is 1
check "this end is checked all the same" verdict here memory ok
doctor --accept-new rftp://no-such-host.invalid/
check "an unknown name" verdict path name wrong 'no-such-host.invalid: .* ## getent hosts'
python3 -c '
import socket, sys
s = socket.create_server(("127.0.0.1", 0))
open(sys.argv[1], "w").write(str(s.getsockname()[1]) + "\n")
while True:
    c = s.accept()[0]
    c.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")' "$tmp/ssh.port" &
others+=($!)
patience 10 test -s "$tmp/ssh.port"
doctor --accept-new "rftp://127.0.0.1:$(cat "$tmp/ssh.port")/"
check "a port that speaks something else" verdict path login wrong 'SSH'
check "is a failure, too" status_is 1

start_server plain --root "$tmp/root" --users "$tmp/users" --plain --prot-min clear
relays=0
# claims OLD NEW...
claims() {
	rm -f "$tmp/relay.port"
	mkfifo "$tmp/hold.$((++relays))"
	"$lib/relay.py" "$port" /dev/null "$tmp/relay.port" 0:up:0 "$@" <"$tmp/hold.$relays" &
	others+=($!)
	exec 9>"$tmp/hold.$relays"
	patience 10 test -s "$tmp/relay.port"
	doctor --plain --plain-password --netrc "$tmp/netrc" --prot clear --transport tcp \
		"rftp://alice@127.0.0.1:$(cat "$tmp/relay.port")/"
}
claims '"time":[0-9.]*' '"time":1000000000.5'
check "a wrong clock" verdict path clock warning 'is [0-9.]* s behind.* ## chronyc'
claims '"version":"[^"]*"' '"version":"0.0.1"'
check "another version" verdict path version warning ', 0.0.1 there'
claims '"mtu":65535' '"mtu":1280'
check "another MTU" verdict path MTU '(ok|warning)' '1280 in'
claims '"fact":"host"' '"fact":"card","name":"x","mbps":-5,"mtu":true,"addresses":[1,"2/x","1.2.3.4/99"],"counters":7' \
	'"fact":"tcp"' '"fact":"rdma","device":["x"],"gids":"g","state":3' '"fact":"limits"' '"fact":8' \
	'"fact":"storage","kind":"[^"]*"' '"fact":"storage","kind":"\\\\u001b[31mred\\\\nline"'
check "claims that make no sense are no harm" test "$status" -le 1
check "the summary counts" counts
check "nor are terminal sequences" not grep -q $'\033' "$tmp/out"
claims '"fact":"host"' '"fact":"rdma","device":"x;reboot","port":"1","state":"DOWN","gids":[{"card":"$(reboot)","type":"","gid":"1"}]}\n {"fact":"host"'
check "no command of a server gets into a remedy" verdict there RDMA warning 'x;reboot port 1 .* ## rdma link show DEVICE/1; ip link set dev CARD up$'
claims ' \{"fact":"tcp".*\}' ' {"fact":"tcp",'
check "claims that are no JSON" verdict there facts unknown 'is not a fact'
check "the server is well" stops_well
finish
