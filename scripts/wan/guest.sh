#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# In the guest of tests/vm: a pair of network devices with Soft-RoCE on each, and the sweep between
# them. scripts/wan-loopback --guest starts it there.
#
#	wan/guest.sh ARGUMENT...     of scripts/wan-loopback

here=$(cd "$(dirname "$0")/.." && pwd) || exit 1
. "$here/../tests/vm/net.sh"

rdma_modules || { echo "scripts/wan-loopback: the guest's kernel has no RDMA" >&2; exit 1; }
ip link add v0 type veth peer name v1 || exit 1
for dev in v0 v1; do
	ip link set "$dev" mtu 9000 up || exit 1
done
# Their addresses come with the loop.
for dev in v0 v1; do
	rdma link add "rxe_$dev" type rxe netdev "$dev" || exit 1
done
export HOME=/root XDG_CONFIG_HOME=/nonexistent
exec "$here/wan-loopback" --loop v0,v1 "$@"
