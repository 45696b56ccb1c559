#!/bin/bash
# The I/O model where there are two nodes, which are emulated and so cost the same: it sees no
# classes, its memory is where it should be, and its file is known again. TAP.

# shellcheck disable=SC2034 # for guest.sh
vm_options="--nodes 2 --cpus 4 --nics 0"
. "${top_srcdir:?}/tests/vm/guest.sh"

unset RFTP_NUMA_MODEL
model() { run rftp-numa model "$@"; }
has() { grep -q -e "$1" "$tmp/out"; }
fails() { status_is 1 && grep -q -e "$1" "$tmp/err"; }
# is EXPRESSION: of Python, over the JSON m that it printed
is() {
	python3 -c 'import json, sys
m = json.load(open(sys.argv[1]))
cells = [c for t in m["targets"] for c in t["write"] + t["read"]]
sys.exit(not eval(sys.argv[2]))' "$tmp/out" "$1"
}

RFTP_NUMA_MODEL=$tmp/lib/model.json model --size 8M --copies 4 --rounds 20 --install
comment <"$tmp/out"
check "measured" status_is 0
check "both nodes are targets" test "$(grep -c '^target node [01]: threads: 2, buffer of each: 8.0 MiB' "$tmp/out")" -eq 2
check "no classes, whichever way" test "$(grep -Ec '^    (write|read) classes: none: (the nodes are alike|too noisy)' "$tmp/out")" -eq 4
# Two threads with a buffer on each node and one more on their own.
check "all memory is where it should be" test "$(grep -c 'all pages of 48.0 MiB of buffers are on their nodes' "$tmp/out")" -eq 2
check "nothing was left out" test ! -s "$tmp/err"
mv "$tmp/lib/model.json" "$tmp/model.json"

model --from "$tmp/model.json" --json
check "read again" same "$tmp/out" "$tmp/model.json"
check "four cells each way, of 20 rounds" is 'len(cells) == 8 and all(c["rounds"] == 20 for c in cells)'
check "in one class" is 'all(c["class"] == 1 for c in cells)'
check "its machine" is '[(n["cpus"], n["distances"]) for n in m["nodes"]] == [("0-1", [10, 21]), ("2-3", [21, 10])]'
model --from "$tmp/model.json" --target 1 --predict 0:50,1:50 --op write
check "a prediction" has '^device write on node 1 with 0:50,1:50: [0-9.]* Gbit/s$'

# The same with other distances, other CPUs, and as it would be read on another machine.
sed 's/"distances":\[10,21\]/"distances":[10,31]/' "$tmp/model.json" >"$tmp/other.json"
model --from "$tmp/other.json"
check "another machine's distances" fails 'other.json: was made on another machine.*a distance of node 0 was 31, and is 21'
sed 's/"cpus":"2-3"/"cpus":"2-5"/' "$tmp/model.json" >"$tmp/other.json"
model --from "$tmp/other.json"
check "another machine's CPUs" fails 'node 1 had the CPUs "2-5", and has "2-3"'
"$lib/make-sysfs" "$top_srcdir/tests/unit/sysfs/four" "$tmp/four"
model --from "$tmp/model.json" --sysfs "$tmp/four"
check "another machine" fails 'it had 2 nodes, and has 4 now'

# Where this process may go: a node without CPUs for it is a source and sink, and no target.
run taskset -c 0,1 rftp-numa model --size 4M --copies 1 --rounds 5 --json
check "without node 1's CPUs" status_is 0
check "a word about it" grep -q "node 1 is not a target: none of node 1's CPUs may be used" "$tmp/err"
check "node 0 alone is a target, with both nodes' memory" is '[t["node"] for t in m["targets"]] == [0] and len(cells) == 4'
run taskset -c 0,2 rftp-numa model --target 1 --size 4M --copies 1 --rounds 5 --json
check "one CPU a node: one thread" is 'm["targets"][0]["threads"] == 1'

# Take the memory of a node away from this process by a cpuset of cgroup v2, else of v1.
confine() {
	local dir
	if mkdir -p "$tmp/cg" && mount -t cgroup2 none "$tmp/cg" 2>/dev/null; then
		mounts+=("$tmp/cg")
		echo +cpuset >"$tmp/cg/cgroup.subtree_control" || return 1
		dir=$tmp/cg/one
		mkdir -p "$dir"
		echo 0 >"$dir/cpuset.mems"
	else
		return 1
	fi
	echo "$dir"
}
if dir=$(confine) 2>/dev/null && [ -e "$dir/cpuset.mems" ]; then
	mounts+=("$tmp/cg")
	# shellcheck disable=SC2016 # expanded by the inner shell
	run sh -c 'echo $$ >"$1/cgroup.procs" && exec rftp-numa model --target 0 --size 4M --copies 1 --rounds 5 --json' sh "$dir"
	check "without node 1's memory" status_is 0
	check "it is left out, and that is said" grep -q "node 1 is left out: this process may not have node 1's memory" "$tmp/err"
	check "and node 0 is measured" is '[c["node"] for c in cells] == [0, 0]'
else
	skip "a cpuset" "no cgroup v2 with cpusets here"
fi

# The unit tests, where there is another node to bind to.
for unit in test-measure test-model-file; do
	run "$top_builddir/tests/unit/$unit"
	check "$unit" status_is 0
done

finish
