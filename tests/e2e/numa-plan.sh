#!/bin/bash
# rftp-numa plan: the manual's example, problems with known answers, this machine and another,
# errors in a problem, and searches that are ended. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
skip_with_sanitizers
need python3 taskset
unset RFTP_NUMA_MODEL RFTP_SYSFS

man=$top_srcdir/man/rftp-numa.1

# problem FILE FIELD...: write a problem of one node, with these fields in place of its own
problem() {
	local file=$1
	shift
	python3 -c 'import json, sys
fields = {"nodes": "[0]", "threads": "6", "data": "[100]", "disk": "[[2]]", "network": "[[1]]"}
fields.update(f.split("=", 1) for f in sys.argv[1:])
print("{", ", ".join(json.dumps(k) + ": " + v for k, v in fields.items() if v), "}")' \
		"$@" >"$tmp/$file"
}
plan() { run rftp-numa plan "$@"; }
# is EXPRESSION: of Python, over the JSON p that it printed
is() {
	python3 -c 'import json, sys
p = json.load(open(sys.argv[1]))
near = lambda a, b: abs(a - b) <= 1e-5 * abs(b)
sys.exit(not eval(sys.argv[2]))' "$tmp/out" "$1"
}
# warned TEXT: one line on standard error
warned() { [ "$(wc -l <"$tmp/err")" -eq 1 ] && grep -q -e "^rftp-numa: .*$1" "$tmp/err"; }
# fails STATUS TEXT: nothing on standard output besides
fails() { status_is "$1" && [ ! -s "$tmp/out" ] && warned "$2"; }

problem one.json
# The Python that rftp was built for, as a module path that hides SciPy shows.
mkdir "$tmp/hidden"
echo 'raise ImportError("hidden")' >"$tmp/hidden/scipy.py"
run env PYTHONPATH="$tmp/hidden" rftp-numa plan --problem "$tmp/one.json"
check "without SciPy it says what to install" fails 1 'install the package python3-scipy'
plan --problem "$tmp/one.json"
if [ "$status" -eq 1 ] && grep -q python3-scipy "$tmp/err"; then
	skip "plans" "no SciPy here"
	finish
fi

# ---- the manual's example ----

# literal N: the N-th example that is set off in the manual
literal() {
	awk -v n="$1" '/^\.Bd/ { b++; next } /^\.Ed/ { on = 0 } b == n && !on { on = 1 }
		b == n && !done { if (/^\.Ed/) done = 1; else print }' "$man"
}
literal 1 >"$tmp/problem.json"
literal 2 | tail -n +2 >"$tmp/want"
words=$(literal 2 | sed -n '1s/^\$ rftp-numa plan //p')
cd "$tmp" || exit 99
# shellcheck disable=SC2086 # words
plan $words
check "the manual's example" status_is 0
check "nothing on standard error" test ! -s "$tmp/err"
# Which of several plans that are equally good it is may differ from one HiGHS to another.
what_counts() { sed -nE 's/^(all is sent after [0-9.]+ s);.*/\1/p; /^spread evenly/p' "$1"; }
what_counts want >want.counts
what_counts out >out.counts
check "takes as long as the manual says" diff want.counts out.counts
check "which is said in two lines" test "$(wc -l <want.counts)" -eq 2
check "in the manual's words" diff <(sed -E 's/[0-9.]+/N/g' want | grep -v ^bottleneck | sort -u) <(sed -E 's/[0-9.]+/N/g' out | grep -v ^bottleneck | sort -u)
# shellcheck disable=SC2086
plan $words --json
check "the same for programs" is 'p["objective"] == "makespan" and p["proven"] and near(p["bound"], p["makespan"])'
check "all bytes, by paths and by stages" is 'sum(x["bytes"] for x in p["paths"]) == sum(x["bytes"] for x in p["disk"]) == sum(x["bytes"] for x in p["network"]) == 150 << 30'
check "no node has more threads than it has" is 'all(sum(x["threads"] for x in p["disk"] + p["network"] if x["memory"] == v) <= 8 for v in (0, 1))'
check "times are bytes by threads by bandwidth" is 'all(near(x["seconds"], x["bytes"] / x["threads"] / (2 << 30 if x["storage"] == x["memory"] else 1200 << 20)) for x in p["disk"])'
check "the end is that of the slowest path" is 'near(p["makespan"], max(x["seconds"] for x in p["paths"]))'
check "better than no plan" is 'p["makespan"] < p["spread"]["makespan"]'
makespan=$(python3 -c 'import json; print(json.load(open("out"))["makespan"])')
plan --problem problem.json --objective sum --json
check "the sum" is "p['objective'] == 'sum' and near(p['sum'], sum(x['seconds'] for x in p['paths'])) and p['makespan'] > $makespan"

# ---- known answers ----

# 100 bytes, a disk thread 2/s, a network thread 1/s, 6 threads: 2 and 4.
plan --problem one.json --objective sum --json
check "one node" is 'near(p["sum"], 25) and [x["threads"] for x in p["disk"] + p["network"]] == [2, 4]'
check "no plan: three threads each" is 'near(p["spread"]["makespan"], 100 / 3)'
problem card.json 'threads=[64]' 'network_limit=["20bit"]'
plan --problem card.json --json
check "a card's limit" is 'near(p["makespan"], 100 / 3) and p["bottlenecks"] == [{"part": "network_limit", "from": 0, "to": 0}]'
plan --problem card.json
check "is the bottleneck" grep -q '^bottleneck: the cards of network 0 (3 B/s)$' out

# Nodes that have nothing to do with each other, in each of which everything is as slow.
python3 - >alike.json <<'PY'
import json
n = 20
own = [[1e9 if i == k else 0 for k in range(n)] for i in range(n)]
print(json.dumps({"nodes": list(range(n)), "threads": 2, "data": [10**9] * n, "disk": own, "network": own,
    "disk_limit": [1e9] * n, "network_limit": [1e9] * n}))
PY
plan --problem alike.json --json
check "all bottlenecks, however many" is 'len(p["bottlenecks"]) == 4 * 20'

# ---- the machine ----

"$lib/make-sysfs" "$top_srcdir/tests/unit/sysfs/two" "$tmp/two"
cat >rates.json <<'JSON'
{ "nodes": [0, 1], "disk": [["1G", "1G"], ["1G", "1G"]], "network": [["1G", "1G"], ["1G", "1G"]] }
JSON
plan --problem rates.json --data 1:1T --sysfs two --json
check "its cards are the limit" is 'near(p["makespan"], 2**40 / 12.5e9) and {x["network"] for x in p["paths"]} == {0}'
plan --problem rates.json --data 1:1T --sysfs two
check "its CPUs are the threads" grep -q '^threads: node 0 [0-9]* of 16, node 1 [0-9]* of 16$' out
plan --problem rates.json --data 1:4096P --sysfs two --json
check "as many bytes as can be counted" is 'near(sum(x["bytes"] for x in p["paths"]), 2**62)'
plan --problem rates.json --data 1:4097P --sysfs two --json
check "and no more" fails 1 'more than 2^62'
echo 10000 >two/devices/pci0000:80/0000:80:02.0/0000:83:00.0/net/ens2f0/speed
plan --problem rates.json --data 0:1T,1:0 --sysfs two --nic ens2f0 --json
check "the card that is named" is '{x["network"] for x in p["paths"]} == {1} and near(p["makespan"], 2**40 / 1.25e9)'
echo 20000 >two/devices/virtual/net/bond1/speed
plan --problem rates.json --data 0:1T --sysfs two --json
check "all cards, those that stand on others not counted" is '{x["network"] for x in p["paths"]} == {0, 1} and near(p["makespan"], 2**40 / 13.75e9)'
# A part of ens1f0, of its speed, that would make it two.
function=two/devices/pci0000:00/0000:00:02.0/0000:03:00.1
mkdir -p "$function/net/ens1f0v0"
echo 0 >"$function/numa_node"
echo 100000 >"$function/net/ens1f0v0/speed"
ln -s ../../../0000:03:00.1 "$function/net/ens1f0v0/device"
ln -s ../0000:03:00.0 "$function/physfn"
ln -s "../../${function#two/}/net/ens1f0v0" two/class/net/ens1f0v0
plan --problem rates.json --data 0:1T --sysfs two --json
check "nor virtual functions of theirs" is 'near(p["makespan"], 2**40 / 13.75e9)'
plan --problem rates.json --data 0:1T --nic ens1f0v0 --sysfs two --json
check "but one that is named" is 'near(p["makespan"], 2**40 / 12.5e9)'
"$lib/make-sysfs" "$top_srcdir/tests/unit/sysfs/one" alone
echo 10000 >alone/devices/pci0000:00/0000:00:1c.0/0000:02:00.0/net/eth0/speed
echo '{ "nodes": [0], "disk": [["1G"]], "network": [["1G"]] }' >alone.json
for nic in "" "--nic eth0"; do
	# shellcheck disable=SC2086 # words
	plan --problem alone.json --data 0:1T --sysfs alone --json $nic
	check "the only node has the card of which no node is known $nic" is 'near(p["makespan"], 2**40 / 1.25e9)'
done
cpu=$(taskset -cp $$ | sed 's/.*: //; s/[,-].*//')
problem here.json threads= 'network_limit=[1]'
run taskset -c "$cpu" rftp-numa plan --problem here.json --data 0:1
check "threads of CPUs that are allowed, and no others" fails 1 'two threads'

# ---- the I/O model ----

description=$top_srcdir/tests/unit/sysfs/two
"$lib/make-sysfs" "$description" joint
# GB/s of a thread of eight: from 0 to 0 and 1, from 1 to 0 and 1: disks 4.5 3, 2 6; cards 5 2.5,
# 1.5 5.5. All from 1 to 0: 16.
zero=(0/8 "320:1 96:1" "288:1 192:1") one=(1/8 "160:1 352:1" "128:1 384:1")
"$lib/make-model" "$description" "${zero[@]}" "${one[@]}" >model.json
"$lib/make-model" "$description" "${zero[@]}" >zero.json
"$lib/make-model" "$description" 0/1 "${zero[@]:1}" 1/1 "${one[@]:1}" >few.json
by_model=(--sysfs joint --json)
# Three threads a node, a card that keeps up: 4 GB/s by memory 0, 3 by memory 1.
echo 400000 >joint/devices/pci0000:00/0000:00:02.0/0000:03:00.0/net/ens1f0/speed
echo '{ "nodes": [0, 1], "threads": 3 }' >three.json
plan --problem three.json --model model.json --data 1:70G "${by_model[@]}"
check "by a model, with the threads of a file" is 'near(p["makespan"], 10 * 2**30 / 1e9)'
check "its bandwidths" is '[(x["storage"], x["memory"], x["threads"]) for x in p["disk"]] == [(1, 0, 2), (1, 1, 1)] and all(near(x["seconds"], x["bytes"] / x["threads"] / (2e9 if x["memory"] == 0 else 6e9)) for x in p["disk"]) and all(near(x["seconds"], x["bytes"] / x["threads"] / (5e9 if x["memory"] == 0 else 1.5e9)) for x in p["network"])'
plan --model model.json --data 1:160G "${by_model[@]}"
check "and with the CPUs of the machine" is 'near(p["makespan"], 10 * 2**30 / 1e9) and {"part": "link_limit", "from": 1, "to": 0} in p["bottlenecks"]'
run env RFTP_NUMA_MODEL="$tmp/model.json" rftp-numa plan --data 1:160G "${by_model[@]}"
check "the model that is installed" is 'near(p["makespan"], 10 * 2**30 / 1e9)'
echo '{ "nodes": [1, 0], "threads": 3, "data": ["60G", 0], "disk": [["6G", 0], [0, 0]], "link_limit": [[null, "1G"], [null, null]] }' >wins.json
plan --problem wins.json --model model.json "${by_model[@]}"
check "what the file gives is taken, in its order" is 'near(p["makespan"], 60) and {x["memory"] for x in p["paths"]} == {1} and p["bottlenecks"][0]["part"] == "link_limit"'
plan --problem three.json --model zero.json --data 0:70G "${by_model[@]}"
check "a node that was not measured is no matter without data and cards" status_is 0
plan --model few.json --data 1:1G "${by_model[@]}"
check "a model of few threads says so" test "$status" -eq 0 -a "$(grep -c 'fewer threads than cores on node 0-1' err)" -eq 1
check "and no link holds it up" is 'all(b["part"] == "network_limit" for b in p["bottlenecks"])'

# fails_by WORDS TEXT
fails_by() {
	# shellcheck disable=SC2086 # words
	run env RFTP_NUMA_MODEL="$tmp/none.json" rftp-numa plan $1 --sysfs joint
	check "no plan: $1" fails 1 "$2"
}
fails_by '--data 1:1G' 'none.json: No such file: .*(rftp-numa model --install makes one; --model FILE takes another; '
fails_by '--model nowhere.json --data 1:1G' 'nowhere.json: No such file: .*--model FILE takes another; '
fails_by '--model problem.json --data 1:1G' 'problem.json: is not a model'
fails_by '--model zero.json --data 1:1G' 'zero.json: has no device reads of node 1, where data is: measure it, .*or give disk in a file, --problem'
echo 10000 >joint/devices/pci0000:80/0000:80:02.0/0000:83:00.0/net/ens2f0/speed
fails_by '--model zero.json --data 0:1G' 'zero.json: has no device writes of node 1, where network cards are: .*--nic, or give network in a file, --problem'
plan --model zero.json --data 0:1G --nic ens1f0 "${by_model[@]}"
check "which other cards are the way out of" is '{x["network"] for x in p["paths"]} == {0}'
sed 's/\[10, 21\]/[10, 22]/' model.json >other.json
fails_by '--model other.json --data 1:1G' 'other.json: was made on another machine.*distance of node 0 was 22'
"$lib/make-model" "$top_srcdir/tests/unit/sysfs/eight" 7 '23.2:2 23.2:2 17.0:3 17.1:3 23.3:2 23.3:2 23.3:1 23.3:1' \
	'18.036:3 18.036:3 21.998:2 21.998:2 16.1:4 18.036:3 22.0:1 22.0:1' >published.json
fails_by '--model published.json --data 7:1G' 'published.json: was made on another machine.*it had 8 nodes'
"$lib/make-sysfs" "$top_srcdir/tests/unit/sysfs/eight" published
run env RFTP_NUMA_MODEL="$tmp/none.json" rftp-numa plan --data 7:1G --sysfs published
check "no model is said before that no card tells its speed" fails 1 'there is no I/O model'
echo 40000 >published/devices/pci0000:40/0000:40:0b.0/0000:42:00.0/net/eth4/speed
echo '{ "nodes": [7, 2, 4], "threads": 4 }' >some.json
plan --problem some.json --model published.json --data 7:10G --sysfs published --json
check "some of eight nodes" is 'p["proven"] and {x["storage"] for x in p["paths"]} == {7} == {x["network"] for x in p["paths"]}'
plan --problem some.json --model published.json --data 4:10G --sysfs published
check "and one of them that was no target" fails 1 'no device reads of node 4'

# ---- errors ----

while IFS='|' read -r field text; do
	problem wrong.json "$field"
	plan --problem wrong.json
	check "wrong: ${field:0:60}" fails 1 "$text"
done <<'END_OF_WRONG'
disk=|wrong.json: disk is missing.*or --model
network=|wrong.json: network is missing.*or --model
data=|data is missing
threads=|threads is missing
nodes=|nodes must be a list
nodes=[]|nodes must be a list
nodes=[0.5]|nodes\[0\] must be a number
nodes=[0, 0]|nodes\[1\]: 0 is listed twice
nodes=[0, 1]|one entry for each node: 2, not 1
threads=[1.5]|threads\[0\] must be a number of threads
threads=100000|threads must be a number of threads
threads="6"|threads must be a number of threads
data=[-1]|data\[0\] must be bytes
data=[NaN]|data\[0\] must be bytes
data=["2000P"]|data\[0\] must be bytes
data=["1Z"]|data\[0\] must be bytes
data=[0]|no data
disk=[[1, 1]]|disk\[0\] must have one entry for each node: 1, not 2
disk=[1]|disk\[0\] must be a list
disk=[[-1]]|disk\[0\]\[0\] must be bytes per second
disk=[[1e16]]|disk\[0\]\[0\] must be bytes per second
disk=[[null]]|disk\[0\]\[0\] must be bytes per second
disk=[[0]]|data of node 0 cannot be read
disk=[[1e-9]]|less than a millionth
network=[[0]]|data of node 0 cannot leave
network_limit=[0]|data of node 0 cannot leave
network_limit=["fast"]|network_limit\[0\] must be bytes per second
link_limit=[[-1]]|link_limit\[0\]\[0\] must be bytes per second
disk_limit=[null, 1]|disk_limit must have one entry for each node: 1, not 2
threads=1|two threads
limits=[1]|no field limits
END_OF_WRONG
echo '{ "nodes": [0], "nodes": [1] }' >wrong.json
plan --problem wrong.json
check "a field that is listed twice" fails 1 'wrong.json: no JSON: "nodes" is listed twice'
echo '[]' >wrong.json
plan --problem wrong.json
check "no object" fails 1 'not an object'
plan --problem nowhere.json
check "a file that there is not" fails 1 'nowhere.json: No such file'
plan --problem rates.json --data 0:1G --sysfs nowhere
check "a sysfs that there is not" fails 1 'nowhere: No such file'
problem far.json 'nodes=[5]' threads=
plan --problem far.json --data 5:1G --sysfs two
check "a node that there is not" fails 1 'no node 5 (give the problem threads, or leave that node out)'
for json in "" --json; do
	run sh -c "rftp-numa plan --problem one.json $json >/dev/full"
	check "output that cannot be written $json" fails 1 'standard output: No space'
done

while IFS='|' read -r words text; do
	# shellcheck disable=SC2086 # words
	plan $words
	check "misused: $words" fails 2 "$text"
done <<'END_OF_MISUSED'
|--problem FILE, or by the I/O model, --data
--model model.json|--problem FILE, or by the I/O model, --data
--nic ens1f0|--problem FILE, or by the I/O model, --data
--model model.json --data 5:1G --sysfs joint|node 5 is not among
--problem one.json --objective fastest|sum or makespan, not "fastest"
--problem one.json --limit 0|--limit must be
--problem one.json --data 7:1G|node 7 is not among
--problem one.json --data 0:1G,0:1G|node 0 is listed twice
--problem one.json --data 0:much|NODE:SIZE,.* not "0:much"
--problem one.json --data 0|NODE:SIZE,.* not "0"
--problem rates.json --data 0:1G --sysfs two --nic ens9|no network interface ens9
--problem rates.json --data 0:1G --sysfs two --nic lo|the node of lo is not known
--problem rates.json --data 0:1G --sysfs two --nic ens3|ens3 does not tell its speed
--problem rates.json --data 0:1G --sysfs two --nic ens1f0,ens1f0|ens1f0 is listed twice
END_OF_MISUSED

# ---- ended ----

python3 - >eight.json <<'PY'
import json
n = range(8)
near = lambda i, k: i == k
print(json.dumps({"nodes": list(n), "threads": 16,
    "data": [int(1e11 + i * 1e9) if i < 3 else 0 for i in n],
    "disk": [[2e9 if near(i, k) else 1e9 + 7e7 * ((i * 5 + k * 3) % 7) for k in n] for i in n],
    "network": [[0 if k < 5 else 1.9e9 if near(i, k) else 9e8 + 5e7 * ((i * 3 + k * 5) % 11)
                 for k in n] for i in n]}))
PY
plan --problem eight.json --limit 1 --json
check "out of time" status_is 0
check "which is said" warned 'out of time after [0-9]* linear programmes: .*at most [0-9.]* % above'
check "a plan all the same" is 'not p["proven"] and 0 < p["bound"] < p["makespan"] and sum(x["bytes"] for x in p["paths"]) > 302.9e9'
run timeout --preserve-status -s INT 2 rftp-numa plan --problem eight.json --json
check "interrupted" status_is 0
check "which is said, too" warned 'interrupted after [0-9]* linear programmes'
check "with what was found" is 'not p["proven"] and p["bound"] < p["makespan"]'
"$lib/on-terminal" "$tmp/seen" -- rftp-numa plan --problem eight.json --limit 2
status=$?
check "on a terminal" status_is 0
check "it shows how far it is" grep -q '[1-9][0-9]* linear programmes; best [0-9.]* s, none is below [0-9.]* s' seen
check "and takes that away again" not grep -q 'linear programmes; best' seen.screen
finish
