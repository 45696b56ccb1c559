# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# RDMA networks inside one guest; to be sourced by scripts that tests/vm/run starts.
#
# Soft-RoCE (rdma_rxe) of Linux 6.1 works in the first network namespace only, so both ends
# live in it. Policy routing sends packets between two addresses of the guest out of the card of
# the one and in by the card of the other.
#
#   rdma_modules                   load what is needed, lift the sockets' limits
#   rdma_self DEV ADDR             DEV with ADDR and rxe_DEV: both ends on one device. Its
#                                  packets stay inside rxe: no netem, no netdev counters
#   rdma_veth A B ADDRA ADDRB      a new veth pair, rxe_A and rxe_B
#   rdma_cards A B ADDRA ADDRB     two cards of the guest on one wire, the same way
#   rdma_cable A B ADDRA ADDRB     a veth pair for each end and a bridge between them, so that
#                                  a plug can be pulled: a card that is set down loses its
#                                  routes, and in rdma_rxe of 6.1 a packet of rdma_cm without
#                                  a route stops queue pair 1 until the device is made anew
#   rdma_pull A, rdma_plug A       then: A has no carrier, and has it again; where
#                                  rdma_keeps_unplugged
#   rdma_cut DEV..., rdma_join DEV...      RoCE's packets get lost, all others pass
#   rdma_delay MS DEV...           each DEV sends MS later; MS may be a fraction; more words
#                                  of netem after the first, in quotes: '10 loss 1%'
# ADDR may be IPv4 or IPv6 (rdma_self only), without a prefix length. MTU (9000) may be set before.

rdma_modules() {
	modprobe -a rdma_rxe rdma_ucm ib_uverbs veth bridge sch_netem sch_prio cls_u32 || return
	echo 100000 >/proc/sys/net/core/netdev_max_backlog
	local end
	for end in rmem wmem; do
		echo 268435456 >/proc/sys/net/core/${end}_max
		echo "4096 1048576 268435456" >/proc/sys/net/ipv4/tcp_$end
	done
}

# up DEV ADDR
rdma_up() {
	ip link set "$1" mtu "${MTU:-9000}" up
	case $2 in
	*:*) ip addr add "$2/64" dev "$1" nodad ;;
	*) ip addr add "$2/24" dev "$1" ;;
	esac
}

# rxe DEV: a device, and its GIDs, which appear a moment later.
rdma_rxe() {
	rdma link add "rxe_$1" type rxe netdev "$1" || return
	local i
	for ((i = 0; i < 50; i++)); do
		grep -qsv '^fe80\|^0000:0000:0000:0000:0000:0000:0000:0000' \
			"/sys/class/infiniband/rxe_$1/ports/1/gids/"[0-3] && return
		sleep 0.1
	done
	echo "rxe_$1 has no GID" >&2
	return 1
}

rdma_self() {
	rdma_up "$1" "$2" && rdma_rxe "$1"
}

rdma_veth() {
	ip link add "$1" type veth peer name "$2" && rdma_cards "$@"
}

# Tables 100, 101, ... hold one route each.
rdma_table=100

# wire FROM TO FROM_ADDR TO_ADDR: packets to TO_ADDR leave by FROM.
rdma_wire() {
	ip rule add pref 20 to "$4" lookup $rdma_table
	ip route add "$4" dev "$1" src "$3" table $rdma_table
	ip neigh replace "$4" lladdr "$(cat "/sys/class/net/$2/address")" dev "$1" nud permanent
	rdma_table=$((rdma_table + 1))
}

rdma_cards() {
	local a=$1 b=$2 addr_a=$3 addr_b=$4 one conf=/proc/sys/net/ipv4/conf
	rdma_up "$a" "$addr_a"
	rdma_up "$b" "$addr_b"
	echo 1 >$conf/all/arp_ignore
	echo 2 >$conf/all/arp_announce
	echo 0 >$conf/all/rp_filter
	for one in "$a" "$b"; do
		echo 1 >"$conf/$one/accept_local"
		echo 0 >"$conf/$one/rp_filter"
		# Packets that arrive by a card are local, in spite of the routes below.
		ip rule add pref 10 iif "$one" lookup local
	done
	# Our own addresses are looked up after the wires below, not before everything.
	ip rule show | grep -q '^200:' ||
		{ ip rule add pref 200 lookup local && ip rule del pref 0 lookup local; }
	rdma_wire "$a" "$b" "$addr_a" "$addr_b"
	rdma_wire "$b" "$a" "$addr_b" "$addr_a"
	rdma_rxe "$a" && rdma_rxe "$b"
}

rdma_delay() {
	local how=$1 dev
	shift
	set -- "${how%% *}" "${how#"${how%% *}"}" "$@"
	local ms=$1 more=$2
	shift 2
	for dev; do
		# shellcheck disable=SC2086 # words
		tc qdisc replace dev "$dev" root netem limit 100000 delay "${ms}ms" $more
	done
}

rdma_cable() {
	local end
	ip link add "$1$2" type bridge && ip link set "$1$2" mtu "${MTU:-9000}" up || return
	for end in "$1" "$2"; do
		ip link add "$end" type veth peer name "far.$end" || return
		ip link set "far.$end" mtu "${MTU:-9000}" master "$1$2" up
	done
	rdma_cards "$@"
}
# Without a queue, Soft-RoCE of 6.1 learns that a card without carrier refuses its packet, and sends it
# again at once: in a loop within ibv_post_send() that lets nothing else run on its processor, not even
# the work by which the kernel notices the carrier.
rdma_pull() {
	! tc qdisc show dev "$1" root | grep -q noqueue ||
		tc qdisc add dev "$1" root pfifo limit 100000
	ip link set "far.$1" down
}
rdma_plug() { ip link set "far.$1" up; }

# Soft-RoCE of this kernel keeps its queue pairs when a plug is pulled. In Linux 6.12 a packet that the
# card refuses ends its queue pair, also the one of rdma_cm, which hears no more until the device is
# made anew; cards of hardware send it again.
rdma_keeps_unplugged() { [[ $(uname -r) == 6.1[.-]* ]]; }
rdma_unplugged_why() { echo "Soft-RoCE of Linux $(uname -r) ends queue pairs of a card without carrier"; }

rdma_cut() {
	local dev
	for dev; do
		tc qdisc replace dev "$dev" root handle 1: prio
		tc qdisc add dev "$dev" parent 1:3 netem loss 100%
		tc filter add dev "$dev" parent 1: protocol ip u32 match ip dport 4791 0xffff flowid 1:3
	done
}
rdma_join() {
	local dev
	for dev; do
		tc qdisc del dev "$dev" root
	done
}

# rdma_topology KIND MS LOSS: as tests/vm/run --help tells; vm_far: we are the one that connects
rdma_topology() {
	local devs
	rdma_modules || return
	case $1 in
	self) devs=() && rdma_self eth0 10.0.0.1 ;;
	guest) devs=(eth0) && rdma_self eth0 "10.0.0.$((1 + ${vm_far:-0}))" ;;
	veth | cable) devs=(v0 v1) && "rdma_$1" v0 v1 10.0.0.1 10.0.0.2 ;;
	cards) devs=(eth0 eth1) && rdma_cards eth0 eth1 10.0.0.1 10.0.0.2 ;;
	esac || { echo "tests/vm: the topology $1 cannot be had"; return 1; }
	[ "$2:$3" = 0:0 ] || rdma_delay "$2 loss $3%" "${devs[@]}"
}
