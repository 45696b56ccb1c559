#!/bin/bash
# rftp-numa topo, on this machine and on descriptions of others. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
skip_with_sanitizers
need python3

# machine NAME: described by tests/unit/sysfs, into $tmp/NAME
machine() { "$lib/make-sysfs" "$top_srcdir/tests/unit/sysfs/$1" "$tmp/$1"; }
# topo OPTION...: its output is in $tmp/out
topo() { run rftp-numa topo "$@"; }
# is EXPRESSION: of Python, over the JSON m that it printed
is() {
	python3 -c 'import json, sys
m = json.load(open(sys.argv[1]))
names = lambda node, kind: [d["name"] for d in node[kind]]
sys.exit(not eval(sys.argv[2]))' "$tmp/out" "$1"
}

topo
check "this machine" status_is 0
check "has a node with CPUs" grep -q 'CPUs  *[0-9]' "$tmp/out"
topo --json
check "this machine, for programs" status_is 0
check "nodes, and what has none" is 'len(m["nodes"]) >= 1 and "lo" in names(m["unknown"], "network")'
check "memory of all nodes" is '0 < sum(n["memory_free"] for n in m["nodes"]) <= sum(n["memory"] for n in m["nodes"])'

machine two
topo --sysfs "$tmp/two"
check "two nodes" status_is 0
check "nothing on standard error" test ! -s "$tmp/err"
cat >"$tmp/want" <<'END'
node 0
    CPUs     0-7,16-23
    memory   128 MiB, 64.0 MiB free
    distance 0: 10, 1: 21
    network  ens1f0 100 Gbit/s
    RDMA     mlx5_0
    disks    md0 2.0 GiB (nodes 0-1), nvme0n1 1.0 GiB
node 1
    CPUs     8-15,24-31
    memory   256 MiB, 1.0 MiB free; in huge pages 2.0 GiB, 1.0 GiB free
    distance 0: 21, 1: 10
    network  bond1, br1, ens2f0, ens2f0.100, ens3, eth0
    RDMA     mlx5_1, rxe0, siw0
    disks    md0 2.0 GiB (nodes 0-1), sdc 4.0 KiB
no node, or not known
    network  bond0, ens4, lo, snake, tail
    RDMA     rxe1
    disks    sdd 4.0 KiB, sde 4.0 KiB, sdf 4.0 KiB
END
check "what is where" diff "$tmp/want" "$tmp/out"
topo --sysfs "$tmp/two" --json
check "the same for programs" is '[names(n, "rdma") for n in m["nodes"]] == [["mlx5_0"], ["mlx5_1", "rxe0", "siw0"]]'
check "speed and size" is 'm["nodes"][0]["network"] == [{"name": "ens1f0", "mbps": 100000}] and m["nodes"][0]["disks"][1]["bytes"] == 1 << 30'
check "a disk on two" is 'm["nodes"][1]["disks"][0] == {"name": "md0", "bytes": 2 << 30, "nodes": "0-1"}'
check "which interfaces an RDMA device has" is '[d["interfaces"] for n in m["nodes"] for d in n["rdma"]] == [["ens1f0"], ["ens2f0"], [], ["bond1"]]'
check "room is what is free or the page cache's" is '[n["memory_room"] >= n["memory_free"] for n in m["nodes"]] == [True, True]'
topo --sysfs "$tmp/two" --json --at /dev/nvme0n1p1 --at /dev/md0 --at /dev/none --at /srv/x
check "the nodes of paths" is '[x["nodes"] for x in m["at"]] == ["0", "0-1", "", ""]'
check "and that nothing is there" is '[x.get("absent", "") for x in m["at"]] == ["", "", "no block device of this name exists there", ""]'
topo --at / --at "$tmp/none"
check "of this machine's" grep -q '^/: n' "$tmp/out"
check "one that is not there" grep -qx "$tmp/none: No such file or directory" "$tmp/out"
RFTP_SYSFS=$tmp/two topo
check "by the environment" diff "$tmp/want" "$tmp/out"

rm "$tmp/two/devices/system/node/node1/meminfo"
topo --sysfs "$tmp/two"
check "memory that is not told" grep -q '^    memory   not known$' "$tmp/out"

mkdir "$tmp/two/class/net/"$'\e[31mred'
topo --sysfs "$tmp/two"
check "a name with control characters is no command to the terminal" grep -qF '  \x1b[31mred, bond0,' "$tmp/out"
rmdir "$tmp/two/class/net/"$'\e[31mred'
mkdir "$tmp/two/class/net/"$'\xffx'
topo --sysfs "$tmp/two" --json --at $'/srv/\xff'
check "bytes that are no UTF-8 are replaced" is '"\ufffdx" in names(m["unknown"], "network") and m["at"][0]["path"] == "/srv/\ufffd"'
rmdir "$tmp/two/class/net/"$'\xffx'

# As firmware numbers them that deals them out in turn.
cpus=$(seq -s, 1 2 255)
echo "$cpus" >"$tmp/two/devices/system/node/node1/cpulist"
topo --sysfs "$tmp/two"
check "a long list of CPUs is shown whole" grep -qx "    CPUs     $cpus" "$tmp/out"

machine four
topo --sysfs "$tmp/four" --json
check "nodes with gaps" is '[n["id"] for n in m["nodes"]] == [0, 2, 3, 4]'
check "one has memory only" is 'm["nodes"][3]["cpus"] == ""'
check "distances in their order" is 'm["nodes"][0]["distances"] == [10, 21, 31, 17]'

# ---- iSCSI by the routes ----

# Another machine: its sysfs, and its cards' names in a network namespace of our own.
# routed ROUTE...: each "card destination", and then topo
routed() {
	run unshare --mount --net "$BASH" -e -c '
		for card in ens1f0 ens2f0; do
			ip link add "$card" type veth peer name "$card.far"
			ip link set "$card" up
			ip link set "$card.far" up
		done
		mount --bind "$1" /sys
		shift
		for route in "$@"; do ip route add "${route#* }" dev "${route% *}"; done
		rftp-numa topo --json' bash "$tmp/routes" "$@"
}
disks_on() { is "[[d for d in names(n, 'disks') if d[:2] == 'sd'] for n in m['nodes'] + [m['unknown']]] == $1"; }
if is_root && command -v ip >/dev/null && unshare --mount --net true 2>/dev/null; then
	"$lib/make-sysfs" "$top_srcdir/tests/unit/sysfs/two" "$tmp/routes"
	routed "ens1f0 198.51.100.0/24" "ens2f0 2001:db8::/64"
	check "routes to two targets" status_is 0
	check "a disk is where the card is that the route to its target goes by" disks_on '[["sdd", "sde"], ["sdc", "sde"], ["sdf"]]'
	routed "ens2f0 198.51.100.0/24"
	check "with no way to one of its targets nothing is said" disks_on '[[], ["sdc", "sdd"], ["sde", "sdf"]]'
	routed
	check "without routes nothing is known" disks_on '[[], ["sdc"], ["sdd", "sde", "sdf"]]'
else
	skip "iSCSI by the routes" "no network of our own"
fi

topo --sysfs ""
check "no name of a sysfs" test "$status" -eq 1 -a "$(cat "$tmp/err")" = 'rftp-numa: "": No such file or directory'
topo --sysfs "$tmp/nowhere"
check "a sysfs that there is not" test "$status" -eq 1 -a "$(grep -c 'rftp-numa: .*nowhere: No such file' "$tmp/err")" -eq 1
for wrong in "" nonsense "topo more" "topo --nonsense" "topo --sysfs"; do
	# shellcheck disable=SC2086 # words
	run rftp-numa $wrong
	check "misused: \"$wrong\"" test "$status" -eq 2 -a "$(wc -l <"$tmp/err")" -eq 1 -a ! -s "$tmp/out"
done
# says WORDS: of the command line, on standard error
says() { grep -qF -- "rftp-numa: $1" "$tmp/err"; }
topo --nonsense
check "which option there is not" says 'there is no option --nonsense (rftp-numa topo --help lists them)'
topo --sysf x
check "a name that is cut" test "$status" -eq 1
topo --sisfs x
check "a name that is nearly right" says 'there is no option --sisfs (did you mean --sysfs?)'
run rftp-numa measure --t 1
check "a name that two options begin with" says '--t is the beginning of several options: --target, --threads'
topo --json -xy
check "or which letter" says 'there is no option -x (rftp-numa topo --help lists them'
topo --sysfs
check "which lacks its value" says '--sysfs needs a value (DIR)'
topo --json=yes
check "which has one too many" says '--json takes no value'
topo --help=topo
check "as help has" says '--help takes no value'
run rftp-numa affinity --r 3
check "which is not one alone" says '--r is the beginning of several options: --runs, --remote-node'
run rftp-numa --help
check "help" test "$status" -eq 0 -a "$(grep -c topo "$tmp/out")" -ge 1
run rftp-numa topo --help
check "a command's help" test "$status" -eq 0 -a "$(grep -c -e '--sysfs DIR' "$tmp/out")" -eq 1
for words in topo "topo --json" "topo --help" --help --version; do
	run sh -c "rftp-numa $words >/dev/full"
	check "output that cannot be written: $words" test "$status" -eq 1 -a "$(grep -c 'No space' "$tmp/err")" -eq 1
done
finish
