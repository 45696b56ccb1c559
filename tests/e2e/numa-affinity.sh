#!/bin/bash
# rftp-numa affinity, with the real fio, on a machine with one node: its measurements and output,
# its errors, and that it leaves nothing. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
skip_with_sanitizers
need python3 fio

small=(--size 4M --block 64K --jobs 2 --seconds 1)
mkdir "$tmp/disk"
# affinity OPTION...: its output is in $tmp/out
affinity() { run rftp-numa affinity "$@"; }
# is EXPRESSION: of Python, over the JSON m that it printed
is() {
	python3 -c 'import json, sys
m = json.load(open(sys.argv[1]))
p = m["placements"]
sys.exit(not eval(sys.argv[2]))' "$tmp/out" "$1"
}
empty() { [ -z "$(ls -A "$1")" ]; }
# failed TEXT: status 1, nothing on standard output, and TEXT (grep -E) on standard error
failed() { [ "$status" -eq 1 ] && [ ! -s "$tmp/out" ] && grep -Eq -e "$1" "$tmp/err"; }

nodes=$(rftp-numa topo --json | python3 -c 'import json, sys; print(len(json.load(sys.stdin)["nodes"]))')
[ "$nodes" = 1 ] || skip_all "this machine has several nodes; tests/vm/numa-affinity.sh is for those"
node=$(rftp-numa topo --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["nodes"][0]["id"])')

# ---- one node ----

affinity --path "$tmp/disk" "${small[@]}" --json
check "reads" status_is 0
check "one node: local, and no control" is '[x["name"] for x in p] == ["TRLCPL", "none"]'
check "and says so" grep -q 'no other node.*only the local placement can be measured, and no control' "$tmp/err"
check "where they were" is "(p[0]['memory_node'], p[0]['cpu_node']) == ($node, $node) and (p[1]['memory_node'], p[1]['cpu_node']) == (None, None)"
check "every key is there, and sound" is 'all(set(x) == {"name", "memory_node", "cpu_node", "bytes_per_second", "ratio", "deviation", "mean_ns", "p99_ns", "runs"} for x in p)'
check "three runs, and their medians" is 'all(len(x["runs"]) == 3 and all(x[k] == sorted(r[k] for r in x["runs"])[1] > 0 for k in ("bytes_per_second", "mean_ns", "p99_ns")) for x in p)'
check "their deviation" is '(lambda s: all(abs(x["deviation"] - s.stdev(v) / s.mean(v)) < 1e-9 for x in p for v in [[r["bytes_per_second"] for r in x["runs"]]]))(__import__("statistics"))'
check "and ratios" is 'p[0]["ratio"] == 1 and abs(p[1]["ratio"] - p[1]["bytes_per_second"] / p[0]["bytes_per_second"]) < 1e-9'
check "what was asked for" is "m['op'] == 'read' and (m['size'], m['block'], m['jobs'], m['seconds']) == (4 << 20, 65536, 2, 1) and m['device_node'] == $node and m['remote_node'] is None and m['path'] == '$tmp/disk'"
check "direct, or a word why not" is "m['direct'] == (not $(grep -c 'no direct I/O' "$tmp/err"))"
check "nothing stays" empty "$tmp/disk"

affinity --path "$tmp/disk" "${small[@]}" --op write --buffered
check "writes through the page cache" status_is 0
check "which is not for want of anything" not grep -q 'no direct I/O' "$tmp/err"
check "as a table" grep -Eq '^TRLCPL +node '"$node +node $node +[0-9.]+ [KMG]iB/s +1\.000 +[0-9.]+ % +[0-9.]+ us +[0-9.]+ us$" "$tmp/out"
check "and without control" grep -Eq '^none +anywhere +anywhere +[0-9.]+ [KMG]iB/s' "$tmp/out"
check "told above it" grep -q 'writes of 64.0 KiB in 4.0 MiB, page cache, 2 jobs, 3 runs of 1 s' "$tmp/out"
check "nothing stays of it" empty "$tmp/disk"

# ---- files that there are ----

# On tmpfs, which has no disk.
if [ "$(stat -f -c %T /dev/shm)" = tmpfs ] && memory=$(mktemp -d /dev/shm/rftp-e2e.XXXXXX); then
	trap 'rm -rf "$memory"; cleanup' EXIT
	random "$memory/file" 1000000
	sum=$(cksum "$memory/file")
	affinity --path "$memory/file" "${small[@]}" --json --block 4K
	check "a file is read" is 'm["size"] == 1000000'
	check "it is as it was" test "$sum" = "$(cksum "$memory/file")"
	check "in memory there is no direct I/O" is 'm["direct"] is False'
	check "and it is said" grep -q 'file: no direct I/O (the files of this filesystem are memory)' "$tmp/err"
else
	skip "a file that is memory" "no tmpfs"
fi
random "$tmp/disk/file" 1000000
sum=$(cksum "$tmp/disk/file")
affinity --path "$tmp/disk/file" "${small[@]}" --op write
check "a file is never written" failed 'file: a file that there is is only read'
check "it stays as it was" test "$sum" = "$(cksum "$tmp/disk/file")"
affinity --path "$tmp/disk/file" --size 4M --block 1M --jobs 2
check "one that is too small" failed 'file has 1000000 bytes: less than one --block'
rm "$tmp/disk/file"

# ---- errors ----

affinity --path "$tmp/nowhere" "${small[@]}"
check "no such path" failed 'nowhere: No such file or directory$'
affinity --path nowhere "${small[@]}"
check "nor a relative one" failed 'nowhere: No such file or directory$'
affinity --path /dev/null "${small[@]}"
check "neither file nor disk" failed 'null: neither a directory nor a file nor a disk'
affinity --path "$tmp/disk" --size 1P
check "a file that does not fit, at once" failed 'disk: a file of 1.0 PiB .--size. does not fit: [0-9.]+ [KMGT]?i?B are free'
check "nothing of it is there" empty "$tmp/disk"
affinity --path "$tmp/disk" --device-node 77
check "no such node" failed 'there is no node 77'
RFTP_SYSFS=$tmp/two
"$lib/make-sysfs" "$top_srcdir/tests/unit/sysfs/two" "$tmp/two"
export RFTP_SYSFS
affinity --path "$tmp/disk" "${small[@]}"
check "a disk whose node is not known" failed 'disk: which node its disk is on is not known; say with --device-node'
affinity --path "$tmp/disk" "${small[@]}" --device-node 0 --remote-node 1
if [ "$(nproc --all)" -le 8 ]; then
	check "a node without a CPU for us" failed 'node 1 has no CPU that this process may use'
fi
# A node with a CPU that we have, and memory that we have not, as a cpuset may be.
if [ "$(nproc)" -ge 2 ] && [ "$node" = 0 ]; then
	cpu=$(python3 -c 'import os; print(max(os.sched_getaffinity(0)))')
	echo "$cpu" >"$tmp/two/devices/system/node/node1/cpulist"
	affinity --path "$tmp/disk" "${small[@]}" --device-node 0 --remote-node 1
	check "a node whose memory is not for us" failed 'this process may not have memory of node 1 .cpuset, container.: '
	affinity --path "$tmp/disk" "${small[@]}" --device-node 0 --json
	check "is not chosen, either" is '[x["name"] for x in p] == ["TRLCPL", "none"]'
else
	skip "a node whose memory is not for us" "a single CPU"
fi
unset RFTP_SYSFS
if [ "${#as_other[@]}" -gt 0 ] || ! is_root; then
	mkdir "$tmp/closed"
	chmod 555 "$tmp/closed"
	chmod 755 "$tmp"
	run "${as_other[@]}" "$(command -v rftp-numa)" affinity --path "$tmp/closed" "${small[@]}"
	check "a directory that cannot be written" failed 'closed: no file of 4.0 MiB .--size. can be made in it: Permission denied'
fi
mkdir "$tmp/bin"
ln -s "$(command -v rftp-numa)" "$tmp/bin/rftp-numa"
run env PATH="$tmp/bin" rftp-numa affinity --path "$tmp/disk"
check "no fio: what to install" failed 'fio is not in PATH.*install the package fio'

# fakes BODY: a fio of ours, before the real one
fakes() {
	printf '#!/bin/sh\nPATH=%s\n%s\n' "$PATH" "$1" >"$tmp/bin/fio"
	chmod +x "$tmp/bin/fio"
}
with_fake() { run env PATH="$tmp/bin:$PATH" rftp-numa affinity --path "$tmp/disk" "${small[@]}"; }
fakes 'echo "numa_mem_policy: Build fio with libnuma-dev(el) to enable this option"'
with_fake
check "a fio without libnuma" failed 'built without libnuma'
fakes "case \$1 in --cmdhelp*) exec $(command -v fio) \"\$@\" ;; esac; echo it is broken >&2; exit 7"
with_fake
check "a fio that fails" failed 'fio failed \(TRLCPL, exit status 7\)'
check "what it said is shown" grep -q 'fio said: it is broken' "$tmp/err"
fakes "case \$1 in --cmdhelp*) exec $(command -v fio) \"\$@\" ;; esac; echo '{\"jobs\": ['"
with_fake
check "and one that says nonsense" failed "fio's output, line [0-9]+: "
check "nothing stays of any" empty "$tmp/disk"

if [ -w /dev/full ]; then
	run sh -c "rftp-numa affinity --path '$tmp/disk' ${small[*]} >/dev/full"
	check "output that cannot be written" test "$status" -eq 1 -a "$(grep -c 'No space' "$tmp/err")" -eq 1
fi

for wrong in "" "--path" "--path $tmp more" "--path $tmp --op erase" "--path $tmp --runs 2" \
	"--path $tmp --block 1000" "--path $tmp --size 1M --block 1M --jobs 2" "--path $tmp --jobs 0" \
	"--path $tmp --device-node 1 --remote-node 1" "--path $tmp --device-node x"; do
	# shellcheck disable=SC2086 # words
	affinity $wrong
	check "misused: \"${wrong//$tmp/DIR}\"" test "$status" -eq 2 -a "$(wc -l <"$tmp/err")" -eq 1 -a ! -s "$tmp/out"
done

affinity --path ''
check "misused: an empty path" test "$status" -eq 2 -a "$(grep -c 'path is missing' "$tmp/err")" -eq 1

# ---- a signal ----

# starts: start it in the background, and wait until fio runs; its pid is in $pid. A script's
# background commands ignore SIGINT, and nohup's SIGHUP; the program would inherit that.
starts() {
	setsid env --default-signal=INT,TERM,HUP rftp-numa affinity --path "$tmp/disk" --size 4M --block 64K --jobs 2 --seconds 600 \
		>"$tmp/out" 2>"$tmp/err" </dev/null &
	pid=$!
	others+=("$pid")
	patience 20 fio_runs
}
fio_runs() { fio=$(pgrep -P "$pid" -x fio) && [ "$(ls "/proc/$fio/task" | wc -l)" -gt 2 ]; }
for signal in INT TERM HUP; do
	check "a long run" starts
	kill "-$signal" "$pid"
	wait "$pid"
	status=$?
	check "SIG$signal ends it" failed 'stopped by a signal'
	check "and fio" patience 10 gone "$fio"
	check "nothing stays" empty "$tmp/disk"
done
# Not even now, for the file has no name.
check "a long run" starts
disown "$pid"
kill -KILL "$pid"
patience 10 gone "$pid"
check "SIGKILL leaves nothing, either" empty "$tmp/disk"
kill -KILL "$fio"
# While its file is still being made. Free bytes there:
room() { echo $(($(stat -f -c '%a * %S' "$tmp/disk"))); }
if [ "$(room)" -gt $((4 << 30)) ]; then
	setsid rftp-numa affinity --path "$tmp/disk" --size "$(($(room) / 2))" >"$tmp/out" 2>"$tmp/err" </dev/null &
	pid=$!
	others+=("$pid")
	being_made() { readlink /proc/"$pid"/fd/* | grep -q 'disk/.rftp-numa-.*deleted'; }
	check "a big file begins" patience 10 being_made
	kill -TERM "$pid"
	wait "$pid"
	status=$?
	check "and is given up" failed 'stopped by a signal'
else
	skip "a big file" "too little room"
fi
finish
