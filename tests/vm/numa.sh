#!/bin/bash
# Two NUMA nodes with a card on each: rftp-numa sees them, and memory and threads are on the nodes
# that were chosen. TAP.

# shellcheck disable=SC2034 # for guest.sh
vm_options="--nodes 2 --cpus 4 --nics 2"
. "${top_srcdir:?}/tests/vm/guest.sh"

# virtio's interfaces are children of the device that has the node.
run rftp-numa topo --json
check "topo" status_is 0
is() {
	python3 -c 'import json, sys
m = json.load(open(sys.argv[1]))
a, b = m["nodes"]
names = lambda node, kind: [d["name"] for d in node[kind]]
sys.exit(not eval(sys.argv[2]))' "$tmp/out" "$1"
}
check "two nodes with two CPUs each" is 'a["cpus"] == "0-1" and b["cpus"] == "2-3"'
check "half of the memory each" is 'min(a["memory"], b["memory"]) > 1 << 30'
check "the kernel's distances" is 'a["distances"] == [10, 21] and b["distances"] == [21, 10]'
check "a card on each" is 'names(a, "network") == ["eth0"] and names(b, "network") == ["eth1"]'
check "lo on none" is '"lo" in names(m["unknown"], "network")'

if rdma_modules; then
	rdma_cards eth0 eth1 10.0.0.1 10.0.0.2
	run rftp-numa topo --json
	check "a soft device is where its card is" is 'names(a, "rdma") == ["rxe_eth0"] and names(b, "rdma") == ["rxe_eth1"]'
	run rftp-iser plan --name s --iqn iqn.2026-01.org.example --tmpfs 64M --open
	check "storage of each node is planned for the node's own card" python3 -c 'import json, sys
of = lambda t: (t["luns"][0]["node"], t["portals"][0]["netdev"], t["portals"][0]["address"], t["portals"][0]["iser"])
sys.exit([of(t) for t in json.load(open(sys.argv[1]))["targets"]] != [(0, "eth0", "10.0.0.1", True), (1, "eth1", "10.0.0.2", True)])' "$tmp/out"
	check "and by nothing from node to node" not grep -q 'node to node\|does not suffice' "$tmp/err"
	open_server main 0.0.0.0
	check "the server says where its cards are" grep -q 'data goes by eth1 (10.0.0.2) on node 1, RDMA' "$tmp/main.log"
	random "$tmp/file" 1000000
	run rftp put -v --accept-new --transport rdma --prot clear "$tmp/file" "rftp://10.0.0.2:$port/file"
	check "a put from card to card" status_is 0
	check "and the client those of both sides" grep -q 'path 0: eth0 (10.0.0.1) on node 0 - eth1 (10.0.0.2) on node 1' "$tmp/err"
fi

for node in 0 1; do
	mkdir "$tmp/t$node"
	mount -t tmpfs -o "size=64m,mpol=bind:$node" none "$tmp/t$node"
	mounts+=("$tmp/t$node")
	run env TMPDIR="$tmp/t$node" TEST_NODES="$node" "$top_builddir/tests/unit/test-device"
	check "a file of node $node's memory" status_is 0
done

# The unit tests, where there is another node to put things on.
for unit in test-topo test-place; do
	run "$top_builddir/tests/unit/$unit"
	check "$unit" status_is 0
	check "$unit: nothing was left out" not grep -qi skip "$tmp/out" "$tmp/err"
done

finish
