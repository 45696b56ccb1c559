#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# scripts/wan-loopback --quick between two devices with Soft-RoCE, 20 ms apart by netem, beside
# ib_write_bw, ib_read_bw and iperf3. TAP.

# shellcheck disable=SC2034,SC2317 # for guest.sh and lib.sh; called by check
vm_options=""
. "${top_srcdir:?}/tests/vm/guest.sh"

need ib_write_bw ib_read_bw iperf3 python3
modprobe -n rdma_rxe rdma_ucm 2>/dev/null || skip_all "the guest's kernel has no RDMA"
limit=100
out=$tmp/sweep
# The settings of the guest without the devices of the sweep
state() {
	ip rule show
	ip -4 route show table all | sort
	tc qdisc show | grep -v noqueue
}
is() {
	python3 -c '
import csv, json, sys
j = json.load(open(sys.argv[1] + "/results.json"))
lines = list(csv.DictReader(open(sys.argv[1] + "/runs.csv")))
ours = [l for l in lines if l["tool"] in ("rftp", "default")]
table = [l for l in j["table"] if l["setting"] in ("rftp", "default")]
sys.exit(not eval(sys.argv[2]))' "$out" "$1"
}

state >"$tmp/before"
run "$top_srcdir/scripts/wan/guest.sh" --quick --rtt 20 --block 256K --channels 2 --size 8M \
	--raw-inflight 8M --inflight 8M --out "$out" --no-plots --build "$top_builddir"
check "the sweep" status_is 0
check "both operations, memory and files, and rftp's own choice" is 'sorted((l["op"], l["kind"], l["tool"]) for l in ours) == sorted((op, kind, tool) for op in ("read", "write") for kind in ("file", "memory") for tool in ("default", "rftp"))'
check "all of it by RDMA" is 'all(l["agreed_transport"] == "rdma" and l["status"] == "ok" for l in ours)'
check "with what was asked for in flight" is 'all((l["agreed_channels"], l["agreed_block"], l["agreed_inflight"]) == ("2", "262144", "32") for l in ours if l["tool"] == "rftp")'
check "netem delays" is 'all(20 <= float(l["rtt_ms"]) < 200 for l in lines)'
check "the raw bandwidth of both operations" is 'sorted(l["op"] for l in lines if l["tool"] == "verbs" and float(l["bytes_per_second"]) > 0) == ["read", "write"]'
check "ratios to it, within the round" is 'all(l["to_verbs"] > 0 and abs(l["to_verbs"] * next(float(v["bytes_per_second"]) for v in lines if v["tool"] == "verbs" and v["op"] == l["op"]) / l["bytes_per_second"] - 1) < .001 for l in table)'
check "and to iperf3" is 'all(l["to_iperf3"] > 0 for l in table)'
check "processor time, of programs and of all" is 'all(l["cpu_seconds_per_gb"] > 0 and l["host_cpu_seconds_per_gb"] > 0 for l in table)'
check "a section that was tried" is 'j["facts"]["tried"]["20 ms"]["status"] == "ok" and int(j["facts"]["tried"]["20 ms"]["agreed_channels"]) == 2'
check "which is there" grep -qx '\[host 198.18.95.2\]' "$out/20-ms.conf"
check "what was set is taken back" same "$tmp/before" <(state)
check "nothing of RDMA is left" patience 10 nothing_left

# ---- no fibre ----

ip link add x0 type dummy && ip link add x1 type dummy
run "$top_srcdir/scripts/wan-loopback" --loop x0,x1 --op tcp --quick --out "$tmp/dark" --build "$top_builddir"
check "a loop that is open" test "$status" -eq 1
check "is said to be" grep -q 'nothing that x0 sends arrives at x1: is the fibre in' "$tmp/err"
run "$top_srcdir/scripts/wan-loopback" --loop x0,x1 --op write --quick --out "$tmp/dark" --build "$top_builddir"
check "cards without RDMA" grep -q 'x0 has no RDMA device: scripts/softroce up x0' "$tmp/err"
check "all is taken back then, too" same "$tmp/before" <(state)
finish
