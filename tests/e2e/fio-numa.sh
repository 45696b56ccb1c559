#!/bin/bash
# shellcheck disable=SC2034 # limit is for lib.sh
# scripts/fio-numa: its runs, its report, and the devices that it refuses to overwrite. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
skip_with_sanitizers
need python3 fio numactl rftp-numa
numactl --hardware >/dev/null 2>&1 || skip_all "no NUMA policies here"
limit=200

mkdir "$tmp/a" "$tmp/b"
nodes=(--node "$tmp/a=0" --node "$tmp/b=0")
small=(--op "write,read" --block 64K --jobs 2 --rounds 2 --seconds 1 --size 4M --buffered)
bound() { run "$top_srcdir/scripts/fio-numa" "$@"; }
failed() { test "$status" -eq 1 && test "$(grep -c . "$tmp/err")" -eq 1 && grep -q -e "$1" "$tmp/err"; }
# is EXPRESSION: of Python, over the JSON j, its rows, and the lines of the CSV
is() {
	python3 -c 'import csv, json, sys
j = json.load(open(sys.argv[1]))
rows, lines = j["rows"], list(csv.DictReader(open(sys.argv[2])))
sys.exit(not eval(sys.argv[3]))' "$tmp/out.json" "$tmp/runs.csv" "$1"
}

bound --set pair="$tmp/a,$tmp/b" --set one="$tmp/a" "${nodes[@]}" "${small[@]}" \
	--csv "$tmp/runs.csv" --json "$tmp/out.json"
check "two sets" test "$status" -eq 0
check "a line per set, operation, block and number of jobs" test "$(grep -Ec '^(pair|one) +(write|read) +64K +2 ' "$tmp/out")" -eq 4
check "each bound and not, twice" is 'len(lines) == 16 and len({(l["set"], l["placement"], l["op"], l["round"]) for l in lines}) == 16'
check "medians of what was measured" is 'all(r["bound"] == sum(int(l["bytes_per_second"]) for l in lines if (l["set"], l["op"], l["placement"]) == (r["set"], r["op"], "bound")) / 2 for r in rows)'
check "something was" is 'all(int(l["bytes_per_second"]) > 0 for l in lines)'
check "nothing stays" test -z "$(find "$tmp/a" "$tmp/b" -type f)"

# Recorded runs are not measured again.
cp "$tmp/runs.csv" "$tmp/before"
sed -i '$d' "$tmp/runs.csv"
bound --set pair="$tmp/a,$tmp/b" --set one="$tmp/a" "${nodes[@]}" "${small[@]}" \
	--csv "$tmp/runs.csv" --json "$tmp/out.json"
check "gone on with" test "$status" -eq 0
check "one run was missing" is 'len(lines) == 16'
check "the rest is as it was" same <(head -n -1 "$tmp/before") <(head -n -1 "$tmp/runs.csv")

if command -v gnuplot >/dev/null; then
	for kind in svg png; do
		bound --set pair="$tmp/a,$tmp/b" --set one="$tmp/a" "${nodes[@]}" "${small[@]}" \
			--csv "$tmp/runs.csv" --plot "$tmp/plot.$kind"
		check "a plot, $kind" test "$status" -eq 0 -a -s "$tmp/plot.$kind"
	done
	check "with the sets' names" grep -q 'pair, bound, 2 jobs' "$tmp/plot.svg"
else
	skip "a plot" "no gnuplot here"
fi

# fio as it is called, bound and not.
mkdir "$tmp/bin"
fio=$(command -v fio)
cat >"$tmp/bin/fio" <<EOF
#!/bin/sh
echo "\$(numactl --show | sed -n 's/^membind: *//p') \$*" >>"$tmp/calls"
exec $fio "\$@"
EOF
cat >"$tmp/bin/numactl" <<EOF
#!/bin/sh
case \$1 in --show) ;; *) echo "numactl \$*" >>"$tmp/calls" ;; esac
exec $(command -v numactl) "\$@"
EOF
chmod +x "$tmp/bin/fio" "$tmp/bin/numactl"
PATH=$tmp/bin:$PATH bound "$tmp/a" "${nodes[@]}" --op read --block 4K --jobs 1 --rounds 1 \
	--seconds 1 --size 1M --buffered
check "with shims" test "$status" -eq 0
check "numactl on the node, once of two" test "$(grep -c '^numactl --cpunodebind=0 --membind=0 fio ' "$tmp/calls")" -eq 1
check "two of fio" test "$(grep -Ec '^0.*--rw=read --bs=4096 --numjobs=1' "$tmp/calls")" -eq 2

# One that keeps all processors busy before it begins to measure.
cat >"$tmp/bin/fio" <<EOF
#!/bin/bash
for ((k = 0; k < $(nproc); k++)); do timeout 3 sh -c 'while :; do :; done' & done
wait
exec $fio "\$@"
EOF
PATH=$tmp/bin:$PATH bound "$tmp/a" "${nodes[@]}" --op read --block 4K --jobs 1 --rounds 1 \
	--seconds 1 --size 1M --buffered --csv "$tmp/busy.csv"
check "processors are used for no longer than it takes" awk -F , -v most=$(($(nproc) * 100 + 5)) \
	'NR > 1 && $8 > most { exit 1 }' "$tmp/busy.csv"

# ---- errors ----

bound
check "no target" test "$status" -eq 2
bound "$tmp/a" --block 3X
check "no size" test "$status" -eq 2
bound "$tmp/a" --size 64K --jobs 8
check "less than a block for each job" test "$status" -eq 2
bound "$tmp/a" --plot "$tmp/x.gif"
check "no picture of this kind" test "$status" -eq 2
bound "$tmp/nowhere"
check "no such target" failed 'nowhere: No such file'
bound /dev/null
check "neither device nor directory" failed '/dev/null: neither a block device nor a directory'
bound "$tmp/a" --node "$tmp/a=99"
check "no such node" failed 'there is no node 99 here'
echo "a,b" >"$tmp/other.csv"
bound "$tmp/a" "${nodes[@]}" --csv "$tmp/other.csv"
check "somebody else's file" failed 'other.csv: is there, and is not of scripts/fio-numa'
check "is left alone" test "$(cat "$tmp/other.csv")" = a,b
bound "$tmp/a" "${nodes[@]}" --engine nonsense --size 16M --quick
check "a fio that fails" failed 'fio failed'
check "nothing stays of it" test -z "$(ls "$tmp/a")"

truncate -s 16M "$tmp/image"
if is_root && loop=$(losetup -f --show "$tmp/image" 2>/dev/null); then
	# The loop device ends with the last process that has it open, however this script ends.
	exec 7<"$loop"
	losetup -d "$loop"
	cat >"$tmp/bin/rftp-numa" <<-EOF
		#!/bin/sh
		echo '{"nodes": [{"id": 98, "disks": [{"name": "${loop##*/}"}]}, {"id": 0, "disks": [{"name": "${loop##*/}"}]}]}'
	EOF
	chmod +x "$tmp/bin/rftp-numa"
	PATH=$tmp/bin:$PATH bound "$loop" "${small[@]}"
	check "a stripe is on all nodes of its disks" failed 'there is no node 98 here'
	bound "$loop" --node "$loop=0" "${small[@]}"
	check "a device is not written unasked" failed 'destroys what is on it; --destroy-data'
	mkfs.ext4 -q "$loop" && mkdir "$tmp/mnt" && mount "$loop" "$tmp/mnt"
	bound "$loop" --node "$loop=0" "${small[@]}" --destroy-data
	check "nor while it is mounted" failed 'is in use, or cannot be written'
	umount "$tmp/mnt"
	bound "$loop" --node "$loop=0" "${small[@]}" --op read
	check "read it may be" test "$status" -eq 0
	check "and holds what it held" test "$(blkid -o value -s TYPE "$loop")" = ext4
	bound "$loop" --node "$loop=0" "${small[@]}" --op write --destroy-data
	check "written when that was said" test "$status" -eq 0
else
	skip "a device" "no loop device here"
fi
finish
