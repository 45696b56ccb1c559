#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# scripts/softroce on an ordinary card: made, used by rftp, kept over a restart, taken away. TAP.

# shellcheck disable=SC2034,SC2317 # for guest.sh; called by check
vm_options="--nics 2"
. "${top_srcdir:?}/tests/vm/guest.sh"

# The script must load the modules itself: here they are only asked for.
modprobe -n rdma_rxe rdma_ucm 2>/dev/null || skip_all "the guest's kernel has no RDMA"
ip link set eth0 up && ip addr add 10.5.0.1/24 dev eth0
ip link set eth1 up # without an address

rule=/etc/udev/rules.d/60-rftp-softroce.rules
load=/etc/modules-load.d/rftp-softroce.conf
softroce() { run "$top_srcdir/scripts/softroce" "$@"; }
printed() { grep -Eq -e "$1" "$tmp/out"; }
complains() { [ "$status" -eq "$1" ] && grep -Eq -e "$2" "$tmp/err"; }
devices() { (cd /sys/class/infiniband 2>/dev/null && echo *) | sed 's/^[*]$//'; }
there_are() { [ "$(devices)" = "$1" ]; }

# ---- refusals ----

softroce
check "without a word it tells what there is" complains 2 'softroce up'
softroce upp
check "an unknown word" complains 2 'unknown: upp'
softroce status eth0
check "a word too many" complains 2 'takes no argument'
softroce keep 'eth0"'
check "what cannot be a card's name gets into no rule" complains 2 'not a network card'
softroce up eth7
check "a card that is not there" complains 1 'no network card eth7'
run setpriv --reuid 65534 --regid 65534 --clear-groups "$top_srcdir/scripts/softroce" up eth0
check "who is not root is told so" complains 1 'run as root: sudo .* up eth0'
softroce status
check "status, before" status_is 1
check "says how to get one" printed 'no RDMA device; .* up makes one'
softroce down
check "down, before" status_is 0

module=$(modinfo -n rdma_rxe)
mv "$module" "$module.away"
softroce up
check "a kernel without rdma_rxe" complains 1 'this kernel has no rdma_rxe'
mv "$module.away" "$module"

# ---- up, and in use ----

softroce up
check "up" status_is 0
check "makes one on the card with an address only" there_are rxe_eth0
softroce up
check "up again" status_is 0
check "leaves it" printed 'eth0: has rxe_eth0 already'
softroce status
check "status" status_is 0
check "tells card, state and address" printed '^rxe_eth0: on eth0, ACTIVE, addresses 10\.5\.0\.1$'
run setpriv --reuid 65534 --regid 65534 --clear-groups prlimit --memlock=65536 \
	"$top_srcdir/scripts/softroce" status
check "status, with little memory that may be locked" status_is 1
check "says what to set" printed 'only 64 KiB of memory: put .*memlock unlimited'

head -c 4194304 /dev/urandom >"$tmp/file"
open_server main 0.0.0.0
before=$(carried rxe_eth0)
run rftp put -v --accept-new --transport rdma --prot clear "$tmp/file" "rftp://10.5.0.1:$port/file"
check "put by RDMA" status_is 0
check "the same bytes" cmp "$tmp/file" "$tmp/main.root/file"
check "-v tells the device" grep -q 'RDMA by rxe_eth0' "$tmp/err"
run rftp get --json --transport rdma --prot clear "rftp://10.5.0.1:$port/file" "$tmp/back"
check "get by RDMA" status_is 0
check "the summary says so" test "$(summary transport)" = rdma
check "the same bytes" cmp "$tmp/file" "$tmp/back"
check "the device carried both" test $(($(carried rxe_eth0) - before)) -ge 4096

# ---- down ----

softroce down eth1
check "down of a card without" printed 'eth1: has no Soft-RoCE'
softroce down eth0
check "down" status_is 0
check "takes it away" there_are ""
rdma link add somename type rxe netdev eth0
softroce down
check "down takes what has another name, too" there_are ""

# ---- kept ----

softroce keep
check "keep" status_is 0
check "makes it at once" there_are rxe_eth0
check "shows what it writes" printed 'KERNEL=="eth0", RUN\+='
softroce keep eth1
check "keep of another card: the rule is of that only" \
	test "$(grep -c 'KERNEL=="eth1"' $rule)$(grep -c 'KERNEL=="eth0"' $rule)" = 10
softroce keep
check "keep, run twice: a line for each" test "$(grep -c 'KERNEL==' $rule)" = 2
check "the modules are named" grep -qx rdma_rxe $load

# A start: the cards appear, under a name that changes later.
udevd=$(command -v /lib/systemd/systemd-udevd /usr/lib/systemd/systemd-udevd | head -n 1)
if [ -n "$udevd" ]; then
	sed -i 's/eth1/lan1/g' $rule
	softroce down
	mkdir -p /run/systemd/network
	ln -sf /dev/null /run/systemd/network/99-default.link # names of cards stay
	"$udevd" --daemon >/dev/null 2>&1
	udevadm trigger --action=add /sys/class/net/eth0 /sys/class/net/eth1
	udevadm settle
	check "the rule makes it when the card appears" patience 10 there_are rxe_eth0
	ip link set eth1 down && ip link set eth1 name lan1 && ip link set lan1 up
	udevadm settle
	check "also under a name that it gets later" patience 10 there_are "rxe_eth0 rxe_lan1"
	udevadm control --exit
else
	skip "the rule makes it when the card appears" "no udev here"
	skip "also under a name that it gets later" "no udev here"
fi

softroce forget
check "forget" status_is 0
check "leaves no file" test ! -e $rule -a ! -e $load
finish
