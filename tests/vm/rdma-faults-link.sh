#!/bin/bash
# A link that fails under an RDMA transfer: a plug pulled for a moment, for a while, for good;
# packets lost; RoCE's packets alone lost, with the control connection alive. A short failure is
# bridged; after a long one the transfer ends whole by another way, or fails with a message and is
# resumed. TAP.

# shellcheck disable=SC2034 # for guest.sh and lib.sh
vm_options=""
. "${top_srcdir:?}/tests/vm/guest.sh"
. "$top_srcdir/tests/vm/faults.bash"

rdma_modules || skip_all "the guest's kernel has no RDMA"
rdma_cable v0 v1 10.0.0.1 10.0.0.2
serve 10.0.0.2 6291456
head -c 16777216 /dev/urandom >"$tmp/huge" # some seconds, and parts of 4 MiB and more are kept

# retries: packets that were sent again, and requests that came after a lost one
retries() {
	echo $(($(counter rxe_v0 completer_retry_err out_of_seq_request duplicate_request) +
		$(counter rxe_v1 completer_retry_err out_of_seq_request duplicate_request)))
}

# ---- failures that the queue pairs bridge ----

unplugged_for_a_moment() { # WAY OP
	begin "$1" --transport rdma --op "$2" --retries 0
	under_way rxe_v0
	rdma_pull v0
	sleep 2
	rdma_plug v0
	end
	case="$1 $2, the plug is pulled for 2 s"
	check "$case: it goes on" status_is 0
	check "$case: by the same queue pairs" test "$(summary channels_lost)" = 0
	check "$case: the same bytes" is_whole
	check "$case: it is told of" grep -q 'by rxe_v0 port 1: the link is down' "$tmp/err"
}
if rdma_keeps_unplugged; then
	unplugged_for_a_moment put write
	unplugged_for_a_moment put read
	unplugged_for_a_moment get write
else
	skip "the plug is pulled" "$(rdma_unplugged_why)"
fi

rdma_delay '0 loss 1%' v0 v1
for op in write read; do
	resent=$(retries)
	begin put --transport rdma --op $op --retries 0 --rate 20M
	end
	check "$op, 1 % loss: it ends" status_is 0
	check "$op, 1 % loss: by the same queue pairs" test "$(summary channels_lost)" = 0
	check "$op, 1 % loss: the same bytes" is_whole
	check "$op, 1 % loss: packets were sent again" test "$(retries)" -gt "$resent"
done
rdma_join v0 v1

# ---- RoCE alone is cut: the control connection has the rest ----

for what in "put write" "put read" "get write" "get read"; do
	begin "${what% *}" --op "${what#* }" --retries 0
	under_way rxe_v0
	rdma_cut v0 v1
	end
	check "$what, RoCE is cut: the rest goes over the control connection" status_is 0
	check "$what, RoCE is cut: the same bytes" is_whole
	check "$what, RoCE is cut: the summary says so" test "$(summary fell_back)" = True
	check "$what, RoCE is cut: and how many channels were lost" test "$(summary channels_lost)" = 2
	check "$what, RoCE is cut: a word is said" grep -q 'no data channel is left' "$tmp/err"
	check "$what, RoCE is cut: no resources are left" patience 10 nothing_left
	rdma_join v0 v1
done

file=huge
begin put --transport rdma --retries 0 --rate 3M
under_way rxe_v0
rdma_cut v0 v1
end
check "RoCE is cut, nothing but RDMA is allowed: status 4" status_is 4
check "it says what to do" grep -q 'same command resumes' "$tmp/err"
check "nothing under the name" is_absent
rdma_join v0 v1
check "its session ends" patience 20 sessions_gone
begin put --transport rdma --rate 0
end
check "the next run ends" status_is 0
check "and has not sent all again" test "$(summary resumed)" -gt 0
check "the same bytes" is_whole
rm -f "$target"
begin put --transport rdma --retries 0 --rate 3M
under_way rxe_v0
rdma_cut v0 v1
end
rdma_join v0 v1
check "cut again: status 4" status_is 4
check "its session ends" patience 20 sessions_gone
begin put --transport tcp --block 256K --prot private --rate 0
end
check "the next run goes by TCP" status_is 0
check "and has not sent all again" test "$(summary resumed)" -gt 0
check "the same bytes" is_whole
file=big

# ---- longer than the queue pairs wait ----

unplugged_for_longer() {
	begin put --transport rdma --connect-timeout 3s
	under_way rxe_v0
	rdma_pull v0
	sleep 9
	rdma_plug v0
	end
	check "the plug is pulled for 9 s: it ends after another try" status_is 0
	check "it says so" grep -q 'trying again' "$tmp/err"
	check "the same bytes" is_whole

	begin get --transport rdma --retries 2 --connect-timeout 2s
	under_way rxe_v0
	rdma_pull v0
	begun=$SECONDS
	end
	check "the plug is pulled for good: status 4" status_is 4
	check "within 90 s" test $((SECONDS - begun)) -le 90
	check "nothing under the name" is_absent
	rdma_plug v0
	check "its session ends" patience 20 sessions_gone
	check "and leaves no resources" patience 10 nothing_left
	begin get --transport rdma
	end
	check "the next run ends" status_is 0
	check "the same bytes" is_whole
}
! rdma_keeps_unplugged || unplugged_for_longer

for dev in rxe_v0 rxe_v1; do
	check "$dev: nobody had to wait for a receive" test "$(counter $dev rcvd_rnr_err send_rnr_err)" = 0
done
finish
