#!/bin/bash
# Two paths in one transfer, each a pair of devices: both carry; when one goes the other takes
# its blocks. TAP.

# shellcheck disable=SC2034,SC2054 # for guest.sh and lib.sh; lists with commas
vm_options=""
. "${top_srcdir:?}/tests/vm/guest.sh"

rdma_modules || skip_all "the guest's kernel has no RDMA"
rdma_veth v0 v1 10.0.0.1 10.0.0.2
rdma_cable w0 w1 10.1.0.1 10.1.0.2
head -c 50331648 /dev/urandom >"$tmp/big"
head -c 100000 "$tmp/big" >"$tmp/file"
open_server main 0.0.0.0 --nic v1,w1
root=$tmp/main.root
url=rftp://10.0.0.2:$port
nics=(--accept-new --transport rdma --nic v0,w0)

sent() { counter rxe_$1 sent_pkts; }
declare -A before
reset() { for k in v0 v1 w0 w1; do before[$k]=$(sent $k); done; }
# The data of a sixth of the file, in packets of 4096 bytes: all that may be in flight at first is
# two thirds, and may go one way.
carried() { test $(($(sent "$1") - before[$1])) -gt 2000; }

# ---- both carry ----

for cell in "put write clear 256K" "get read private 64K" "put read safe 1M" "get write clear 1M"; do
	# shellcheck disable=SC2086 # words
	set -- $cell
	case $1:$2 in
	put:write) from=v0 from2=w0 ;;      # the devices that send the data
	put:read) from=v0 from2=w0 ;;
	*) from=v1 from2=w1 ;;
	esac
	rm -f "$tmp/back"
	[ "$1" = get ] || rm -f "$root/big"
	reset
	if [ "$1" = put ]; then
		run rftp put -v "${nics[@]}" --op "$2" --prot "$3" --block "$4" "$tmp/big" "$url/big"
		result=$root/big
	else
		run rftp get -v "${nics[@]}" --op "$2" --prot "$3" --block "$4" "$url/big" "$tmp/back"
		result=$tmp/back
	fi
	check "$cell" status_is 0
	check "$cell: the same" cmp "$tmp/big" "$result"
	check "$cell: the first path carries" carried $from
	check "$cell: the second too" carried $from2
done
check "it says which" grep -q 'path 1: w0 (10.1.0.1) - w1 (10.1.0.2)' "$tmp/err"

# ---- one goes ----

# Data is on its way by the second path.
moving() { test $(($(sent w0) + $(sent w1) - before[w0] - before[w1])) -gt 400; }

# under NAME COMMAND...: a transfer, by $op and $dir, with COMMAND in its middle
under() {
	local what=$1
	shift
	rm -f "$tmp/back"
	reset
	[ "$dir" = get ] && cp "$tmp/big" "$root/big" || rm -f "$root/big"
	if [ "$dir" = put ]; then
		set -- rftp put -v "${nics[@]}" --op "$op" --prot clear --block 64K --rate 5M --retries 0 "$tmp/big" "$url/big" -- "$@"
	else
		set -- rftp get -v "${nics[@]}" --op "$op" --prot clear --block 64K --rate 5M --retries 0 "$url/big" "$tmp/back" -- "$@"
	fi
	local command=()
	while [ "$1" != -- ]; do command+=("$1"); shift; done
	shift
	timeout 600 "${command[@]}" </dev/null >"$tmp/out" 2>"$tmp/err" &
	local client=$!
	patience 30 moving
	"$@"
	wait $client
	status=$? ran="${command[*]}"
	local result=$tmp/back
	[ "$dir" = put ] && result=$root/big
	check "$dir $op, $what: it ends well" status_is 0
	check "$dir $op, $what: the same" cmp "$tmp/big" "$result"
	check "$dir $op, $what: it is said" said_lost
	check "$dir $op, $what: not over the control connection" not grep -q 'control connection' "$tmp/err"
	check "$dir $op, $what: nothing is left" patience 15 nothing_left
}
said_lost() { grep -q 'is lost' "$tmp/err" || tail -n 40 "$tmp/main.log" | grep -q 'is lost'; }
for dir in put get; do
	for op in write read; do
		rdma_keeps_unplugged || continue
		under "the plug is pulled" rdma_pull w0
		rdma_plug w0
	done
done
rdma_keeps_unplugged || skip "the plug is pulled" "$(rdma_unplugged_why)"
dir=put op=write
under "the client's device deleted" rdma link delete rxe_w0
rdma_rxe w0
dir=get op=read
under "the server's device deleted" rdma link delete rxe_w1
rdma_rxe w1

# ---- ports of each card ----

ip addr add 10.1.0.12/24 dev w1
printf '%s\n' '[nic v1]' 'data-ports 41234-41234' \
	'[nic w1]' 'data-ports 41300-41309' 'data-address 10.1.0.12' >"$tmp/ports.conf"
open_server ports 0.0.0.0 --nic v1,w1 --config "$tmp/ports.conf"
url=rftp://10.0.0.2:$port
listens() { # ADDRESS:PORT: a session, for RDMA
	rdma resource show cm_id | grep ' state LISTEN .* comm rftpd ' | grep -q " src-addr $1 "
}
# The packets of the connecting side are lost for now.
rdma_cut v0 w0
reset
rftp put -q "${nics[@]}" --prot clear --retries 0 "$tmp/big" "$url/ports" >"$tmp/first.out" 2>&1 &
client=$!
others+=("$client")
check "data comes to the port of its card" patience 30 listens 10.0.0.2:41234
check "of each card, and at its own address" patience 30 listens 10.1.0.12:41300
run rftp put "${nics[@]}" --retries 0 "$tmp/file" "$url/taken"
check "another's cannot while that is taken" not status_is 0
check "and he is told" grep -q 'ports 41234 to 41234: Address already in use' "$tmp/err"
rdma_join v0 w0
wait $client
status=$? ran="put to the ports"
cp "$tmp/first.out" "$tmp/err"
check "the first one's comes" status_is 0
check "the same" cmp "$tmp/big" "$tmp/ports.root/ports"
check "by the first card" carried v0
check "and by the second" carried w0
check "nobody listens any more" not listens 10.0.0.2:41234
stop_server

# ---- over ssh: only sshd listens, the data goes by RDMA all the same ----

PATH=$PATH:/usr/sbin
if command -v sshd >/dev/null; then
	mkdir -p "$tmp/ssh" /run/sshd
	chmod 700 "$tmp/ssh"
	ssh-keygen -q -t ed25519 -N '' -f "$tmp/ssh/host"
	ssh-keygen -q -t ed25519 -N '' -f "$tmp/ssh/user"
	cat >"$tmp/ssh/sshd_config" <<-CONFIG
		Port 2222
		ListenAddress 10.0.0.2
		HostKey $tmp/ssh/host
		AuthorizedKeysFile $tmp/ssh/user.pub
		StrictModes no
		UsePAM no
		PermitRootLogin yes
	CONFIG
	"$(command -v sshd)" -D -f "$tmp/ssh/sshd_config" -E "$tmp/sshd.log" &
	others+=($!)
	ssh="ssh -i $tmp/ssh/user -p 2222 -o StrictHostKeyChecking=no -o UserKnownHostsFile=$tmp/ssh/known -o LogLevel=ERROR"
	ssh_up() { $ssh root@10.0.0.2 true 2>/dev/null; }
	patience 20 ssh_up || comment <"$tmp/sshd.log"
	reset
	run rftp put -v --ssh "$ssh" --rftpd-path "$(command -v rftpd)" --transport rdma --prot clear \
		"$tmp/big" "root@10.0.0.2:$tmp/ssh/big"
	check "over ssh" status_is 0
	check "over ssh: the same" cmp "$tmp/big" "$tmp/ssh/big"
	check "over ssh: by RDMA" carried v0
else
	skip "over ssh" "no sshd here"
fi
finish
