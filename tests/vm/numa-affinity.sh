#!/bin/bash
# rftp-numa affinity and factor on two NUMA nodes: the four placements are measured, and fio's
# threads and buffers really are where each says. TAP.

# shellcheck disable=SC2034 # for guest.sh
vm_options="--nodes 2 --cpus 4 --nics 0"
. "${top_srcdir:?}/tests/vm/guest.sh"
need python3 fio

# is EXPRESSION: of Python, over the JSON m that it printed
is() {
	python3 -c 'import json, sys
m = json.load(open(sys.argv[1]))
p = m.get("placements")
sys.exit(not eval(sys.argv[2]))' "$tmp/out" "$1"
}

# ---- the four placements ----

# Writes, for each fio once it has ended, from the kernel's files: the CPUs and the policy of each of
# its threads, and how many pages of their buffers are on which nodes, from when both its jobs have
# buffers and, unless there is none, a policy. The buffers are its only mappings without a name of
# 3 MiB or more; neighbours are one mapping.
cat >"$tmp/watch.py" <<'END'
import glob, re, time

def text(path):
    with open(path, "rb") as f:
        return f.read().decode(errors="replace")

def look(pid):
    pages, tasks = {}, []
    for line in text(f"/proc/{pid}/numa_maps").splitlines():
        anon = re.match(r"\w+ \S+ anon=(\d+) ", line)
        if anon and int(anon[1]) >= 768:
            for node, n in re.findall(r" N(\d+)=(\d+)", line):
                pages[node] = pages.get(node, 0) + int(n)
    for task in glob.glob(f"/proc/{pid}/task/*"):
        cpus = re.search(r"Cpus_allowed_list:\t(\S+)", text(task + "/status"))[1]
        tasks.append((cpus, text(task + "/numa_maps").split(None, 2)[1]))
    return pages, tasks

best = {}
while True:
    seen = set()
    for cmdline in glob.glob("/proc/[0-9]*/cmdline"):
        pid = cmdline.split("/")[2]
        try:
            words = text(cmdline).split("\0")
            if words[0] != "fio" or not words[1].startswith("--name="):
                continue
            seen.add(pid)
            if pid in best and best[pid][0] >= 2:
                continue
            pages, tasks = look(pid)
        except (OSError, IndexError, TypeError):
            continue  # it has ended meanwhile
        bound = sum(policy.startswith("bind") for _, policy in tasks)
        if sum(pages.values()) >= 2 * 768 and bound >= best.get(pid, (0,))[0]:
            best[pid] = bound, words[1][7:], pages, tasks
    for pid in set(best) - seen:
        _, name, pages, tasks = best.pop(pid)
        for task in tasks:
            print(name, "thread", *task)
        for node, n in pages.items():
            print(name, "pages", node, n)
        print(name, "run", flush=True)
    time.sleep(0.1)
END
python3 "$tmp/watch.py" >"$tmp/seen" 2>&1 &
watch=$!
others+=("$watch")

mkdir "$tmp/disk"
run rftp-numa affinity --path "$tmp/disk" --size 16M --block 3M --jobs 2 --seconds 1 --op write \
	--device-node 1 --json
check "four placements and none" status_is 0
check "with node 1 for the device" is '[(x["name"], x["memory_node"], x["cpu_node"]) for x in p] == [("TRLCPL", 1, 1), ("TRLCPR", 1, 0), ("TRRCPL", 0, 0), ("TRRCPR", 0, 1), ("none", None, None)]'
check "all of them were measured" is 'all(len(x["runs"]) == 3 and x["bytes_per_second"] > 0 and x["p99_ns"] >= x["mean_ns"] / 2 for x in p)'
check "the remote node was found" is '(m["device_node"], m["remote_node"]) == (1, 0)'

kill "$watch"
wait "$watch"
sort "$tmp/seen" | uniq -c | comment

# placed NAME CPUS NODE: in each run that was seen, two threads had just these, which are its
# jobs; fio's own have no policy
placed() {
	local runs
	runs=$(grep -cx "$1 run" "$tmp/seen")
	[ "$runs" -ge 1 ] && [ "$(grep -cx "$1 thread $2 bind:$3" "$tmp/seen")" -eq $((2 * runs)) ] &&
		[ "$(grep -c "^$1 thread .* bind:" "$tmp/seen")" -eq $((2 * runs)) ]
}
free() { grep -qx "$1 run" "$tmp/seen" && [ -z "$(grep "^$1 thread" "$tmp/seen" | grep -v ' 0-3 default$')" ]; }
# pages_on NAME NODE: there are pages, on no other
pages_on() { [ "$(sed -n "s/^$1 pages \([0-9]*\) .*/\1/p" "$tmp/seen" | sort -u)" = "$2" ]; }
while read -r name cpus node; do
	check "$name: threads on CPUs $cpus, bound to memory of node $node" placed "$name" "$cpus" "$node"
	check "$name: every page of their buffers is there" pages_on "$name" "$node"
done <<-END
	TRLCPL 2-3 1
	TRLCPR 0-1 1
	TRRCPL 0-1 0
	TRRCPR 2-3 0
END
check "none: threads anywhere, with no policy" free none

# ---- a disk ----

truncate -s 64M "$tmp/image"
modprobe -q loop
if disk=$(losetup --show -f "$tmp/image" 2>/dev/null); then
	before=$(cksum <"$tmp/image")
	run taskset -c 0,1 rftp-numa affinity --path "$disk" --size 16M --jobs 1 --seconds 1 --device-node 0 --json
	check "a disk is read" is 'len(p) == 2 and m["size"] == 16 << 20'
	check "without the other node's CPUs that is not chosen" is 'm["remote_node"] is None'
	run rftp-numa affinity --path "$disk" --op write --device-node 0
	check "and never written" test "$status" -eq 1 -a "$(grep -c 'a disk is only read' "$tmp/err")" -eq 1
	check "it is as it was" test "$before" = "$(cksum <"$tmp/image")"
	losetup -d "$disk"
else
	skip "a disk" "no loop device in this kernel"
fi

# A named node is refused if its CPUs are not in our affinity mask.
run taskset -c 2,3 rftp-numa affinity --path "$tmp/disk" --size 4M --device-node 0
check "without the device's" test "$status" -eq 1 -a "$(grep -c 'node 0 has no CPU that this process may use' "$tmp/err")" -eq 1

# ---- factor ----

# Emulated processors count nothing of this kind; two nodes they have.
run rftp-numa factor
check "no counters" test "$status" -eq 1 -a ! -s "$tmp/out"
check "is all that is in the way" grep -q 'not measurable here: nothing counts coherency traffic (snoops: .*node-load-misses' "$tmp/err"
# The clock stands in for snoops: this shows the measurement and the computation, the figures mean
# nothing.
run rftp-numa factor --snoop-event msr/tsc/ --size 4M --runs 3 --link-width 2G --json
check "a factor of something else" status_is 0
check "of each node to each" is '[(n["cpu_node"], [c["memory_node"] for c in n["memory"]]) for n in m["nodes"]] == [(0, [0, 1]), (1, [0, 1])]'
check "traffic × latency ÷ width, of what is remote" is 'all(abs(c["factor"] - c["traffic_per_line"] * c["prefetch_ns"] / 2.147483648) < 1e-6 * c["factor"] and c["rank"] == 1 for n in m["nodes"] for c in n["memory"] if c["memory_node"] != n["cpu_node"])'
check "and of nothing else" is 'all(c["factor"] is None and c["rank"] is None and c["traffic_per_line"] > 0 for n in m["nodes"] for c in n["memory"] if c["memory_node"] == n["cpu_node"])'
check "what was counted, and was not" is '(m["traffic"], m["approximate"], m["link_bytes_per_second"]) == ("msr/tsc/", False, 2 << 30) and {x["event"] for x in m["missing"]} >= {"LLC-load-misses", "node-loads"}'
run rftp-numa factor --snoop-event msr/tsc/ --size 4M --runs 1
check "as a table" test "$(grep -cE '^[01] +local +- ' "$tmp/out")" -eq 2 -a "$(grep -cE '^[01] +[0-9.e+]+ +1 ' "$tmp/out")" -eq 2
check "without a width it is for comparison only" grep -q 'link width: not known' "$tmp/out"
run "$top_builddir/tests/unit/test-perf"
check "walks over memory of each node, counted" status_is 0
check "none left out" not grep -qi skip "$tmp/out" "$tmp/err"

finish
