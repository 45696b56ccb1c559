#!/bin/bash
# shellcheck disable=SC2034 # status and ran are for lib.sh
# A control group with less memory than the machine: blocks take a quarter of it, and the copies of
# the I/O model half. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
. "$lib/memory-group.bash"
is_root || skip_all "only root makes control groups here"

memory_group 67108864 || skip_all "no control group can be given a memory limit here"

mkdir "$tmp/root"
start_server d --root "$tmp/root" --anonymous rw
random "$tmp/big" 40000000
within() { # COMMAND...: in that group
	# shellcheck disable=SC2016 # expanded by the inner shell
	run sh -c 'echo $$ >"$1/cgroup.procs" && shift && exec "$@"' sh "$group" "$@"
}
options=(-v --accept-new --prot clear --block 1M --inflight 64)
# pool: KiB of path 0's
pool() { sed -nE 's/.*path 0: .*; pool of ([0-9.]+) MiB.*/\1/p' "$tmp/err" | awk '{ print int($1 * 1024) }'; }

run rftp put "${options[@]}" "$tmp/big" "$url/a"
check "without it: as many blocks as were asked for" test "$(pool)" -ge 65536
within rftp put "${options[@]}" "$tmp/big" "$url/b"
check "with it" status_is 0
check "a quarter of its memory is for blocks" test "$(pool)" -gt 8192 -a "$(pool)" -le 16384
check "which -v says" grep -q "limited by the client's memory budget: raise its --memory to" "$tmp/err"
check "all arrives" cmp "$tmp/big" "$tmp/root/b"
within rftp put "${options[@]}" --memory 24M "$tmp/big" "$url/c"
check "--memory is obeyed all the same" test "$(pool)" -gt 16384 -a "$(pool)" -le 24576

numa() { within rftp-numa model --target 0 --threads 1 --copies 1 --rounds 5 "$@"; }
numa --size 1M
check "buffers that fit are measured with" status_is 0
numa --size 128M
check "those that do not would be the end" status_is 1
check "which is said" grep -q 'control group may have 64.0 MiB, half of it for us, and [0-9]* buffers of 128 MiB are needed' "$tmp/err"
numa
check "also of those that nobody asked for" test "$status" -eq 1 -a "$(grep -c 'control group' "$tmp/err")" -eq 1

finish
