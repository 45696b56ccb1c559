#!/bin/bash
# A path over queue pairs with a fault at every point that can inject one: sends and receives that
# fail, channels that are cut, blocks that arrive damaged, threads that are late, accesses to memory
# of the peer that is not granted. The blocks of a lost channel are sent again by others, duplicates
# are dropped, and all files are whole. TAP.

# shellcheck disable=SC2034 # for guest.sh and lib.sh
vm_options=""
. "${top_srcdir:?}/tests/vm/guest.sh"
. "$top_srcdir/tests/vm/faults.bash"
need_faults

rdma_modules || skip_all "the guest's kernel has no RDMA"
rdma_self eth0 10.3.0.1
serve 10.3.0.1 4194304 --stall 3s
card=rxe_eth0

# faulty RULE WAY OP OPTION...: a put or get with the fault in its client; target is its file
faulty() {
	local rule=$1 way=$2 op=$3
	shift 3
	words "$way" --transport rdma --op "$op" --block 64K --channels 3 --ack written \
		--retries 0 --json "$@"
	run env "RFTP_FAULT=$rule" "${command[@]}"
}

# Two blocks of one channel may be hit before the first of them is looked at: as many channels
# are lost as are named.
named() { grep -o 'data channel [0-9]* is lost' "$tmp/err" | sort -u | wc -l; }
# The server finds it; its client may see a channel end in good order.
refused() { grep -c 'damaged or forged' "$tmp/main.log"; }
one_or_two() { [ "$(named)" -ge 1 ] && [ "$(named)" -le 2 ] && [ "$(summary channels_lost)" = "$(named)" ]; }

# Sides that a rule is for: a put's client is the source, a get's the sink.
while read -r rule ways ops lost; do
	for way in ${ways//,/ }; do
		for op in ${ops//,/ }; do
			before=$(refused)
			faulty "$rule" "$way" "$op" --prot clear
			check "$way, $op, $rule: it ends" status_is 0
			check "$way, $op, $rule: whole" is_whole
			case $lost in
			none) check "$way, $op, $rule: no channel is lost" test "$(summary channels_lost)" -eq 0 ;;
			any) check "$way, $op, $rule: one at most is lost" test "$(summary channels_lost)" -le 1 ;;
			server) check "$way, $op, $rule: the server refuses it" test "$(refused)" -gt "$before" ;;
			1-2) check "$way, $op, $rule: one or two are lost, as named" one_or_two ;;
			*) check "$way, $op, $rule: $lost are lost" test "$(summary channels_lost)" -eq "$lost" ;;
			esac
		done
	done
done <<-'RULES'
	corrupt:after=1M:count=1 get write,read 1
	corrupt-head:after=1M:count=2 get write,read 1-2
	cut:after=30:count=1 put,get write,read 1
	cut:count=1 get write 1
	cut:after=200K:count=2 get write 2
	cut:after=1M:count=2 get write,read 2
	send:ECONNRESET:after=1K:count=1 get write,read 1
	send:ECONNRESET:after=100K:count=2 put write 2
	send:ECONNRESET:after=200:count=1 put read 1
	recv:ECONNRESET:after=400:count=1 put,get write 1
	recv:ECONNRESET:after=400:count=1 put,get read 1
	stall:rate=0.05 put,get write,read none
	wrong-key:after=1M:count=1 put write 1
	wrong-key:after=1M:count=2 get read 1-2
	wrong-place:after=1M:count=2 put write 1-2
	wrong-place:after=1M:count=1 get read 1
	flip-message:after=300:count=1 get,put read server
	flip-message:after=100:count=1 get write server
	lose-message:after=300:count=1 get,put read any
	lose-message:count=1 get write none
	repeat-message:after=300:count=1 get,put read server
	repeat-message:after=100:count=1 get write server
RULES

for op in write read; do
	faulty corrupt:after=1M:count=1 get $op --prot private
	check "$op, a sealed block is damaged: whole" is_whole
	check "$op, a sealed block is damaged: its channel is lost" test "$(summary channels_lost)" -eq 1
done

# Queue pairs that live, and bring no credits or announcements any more.
for what in "get write" "get read" "put read"; do
	faulty lose-message:after=300 "${what% *}" "${what#* }" --prot clear --transport auto --stall 3s
	check "$what, no message comes: it goes on in-band" status_is 0
	check "$what, no message comes: whole" is_whole
	check "$what, no message comes: the summary says so" test "$(summary fell_back)" = True
done

# A side that is stopped for longer than a channel may be silent, and continued
for what in "put write client" "put read server" "get write server" "get read client"; do
	read -r way op side <<<"$what"
	begin "$way" --op "$op" --stall 3s
	under_way "$card"
	if [ "$side" = client ]; then stopped=$client; else stopped=$(children "$server"); fi
	# shellcheck disable=SC2086 # each a process
	kill -STOP $stopped
	sleep 8
	# shellcheck disable=SC2086
	kill -CONT $stopped
	end
	check "$what stands still for 8 s: it ends" status_is 0
	check "$what stands still for 8 s: whole" is_whole
done

# No channel is left: the data goes over the control connection if that is allowed.
for what in "put write" "get read"; do
	faulty cut:after=20 "${what% *}" "${what#* }" --prot clear --transport auto
	check "$what, all are cut: it goes on in-band" status_is 0
	check "$what, all are cut: whole" is_whole
	check "$what, all are cut: the summary says so" test "$(summary fell_back)" = True
	faulty cut:after=20 "${what% *}" "${what#* }" --prot clear
	check "$what, all are cut, RDMA only: status 4" status_is 4
	check "$what, all are cut, RDMA only: nothing under the name" is_absent
done

faulty connect:ECONNREFUSED:after=1 put write --prot clear
check "no connection, RDMA only: status 3" fails_with 3 'RDMA connections on rxe_eth0'
faulty connect:ECONNREFUSED:after=1 put write --prot clear --transport auto
check "no connection: TCP" status_is 0
check "no connection: with a word" grep -q 'data goes by TCP' "$tmp/err"
check "no connection: whole" is_whole

check "no session is left" patience 20 sessions_gone
check "no resources are left" patience 10 nothing_left
finish
