# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# RDMA networks inside one guest; to be sourced by scripts that tests/vm/run starts.
#
# Soft-RoCE (rdma_rxe) of Linux 6.1 works in the first network namespace only, so both ends
# live in it, and policy routing sends what goes from one address of the guest to another
# out of the card of the one and in by that of the other.
#
#   rdma_modules                   load what is needed, lift the sockets' limits
#   rdma_self DEV ADDR             DEV with ADDR and rxe_DEV: both ends on one device. Its
#                                  packets stay inside rxe: no netem, no netdev counters
#   rdma_veth A B ADDRA ADDRB      a new veth pair, rxe_A and rxe_B
#   rdma_cards A B ADDRA ADDRB     two cards of the guest on one wire, the same way
#   rdma_delay MS DEV...           each DEV sends MS later; MS may be a fraction; more words
#                                  of netem after the first, in quotes: '10 loss 1%'
# ADDR may be IPv4 or IPv6 (rdma_self only), without a prefix length. MTU (9000) may be set before.

rdma_modules() {
	modprobe -a rdma_rxe rdma_ucm ib_uverbs veth sch_netem || return
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

# wire FROM TO FROM_ADDR TO_ADDR: what goes to TO_ADDR leaves by FROM.
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
		# What comes in by a card is for us, whatever the routes say.
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

# rdma_wire_again A B ADDRA ADDRB: what the kernel forgot while A or B was down
rdma_wire_again() {
	local table
	for table in $(seq 100 $((rdma_table - 1))); do
		ip route show table "$table" 2>/dev/null | grep -q . && continue
		case $(ip rule show | grep "lookup $table\$") in
		*"to $4 "*) ip route add "$4" dev "$1" src "$3" table "$table" ;;
		*"to $3 "*) ip route add "$3" dev "$2" src "$4" table "$table" ;;
		esac
	done
	ip neigh replace "$4" lladdr "$(cat "/sys/class/net/$2/address")" dev "$1" nud permanent
	ip neigh replace "$3" lladdr "$(cat "/sys/class/net/$1/address")" dev "$2" nud permanent
}
