#!/bin/bash
# The RDMA device is removed under a transfer, at the client's end and at the server's: it is
# let go at once, the rest goes over the control connection, or a word says why not. TAP.

# shellcheck disable=SC2034 # for guest.sh and lib.sh
vm_options=""
. "${top_srcdir:?}/tests/vm/guest.sh"
. "$top_srcdir/tests/vm/faults.bash"

rdma_modules || skip_all "the guest's kernel has no RDMA"
rdma_veth v0 v1 10.0.0.1 10.0.0.2
serve 10.0.0.2 6291456

# remove DEV WAY OPTION...: in the midst of a put or get; seconds: how long it took
remove() {
	local dev=$1 way=$2 begun
	shift 2
	begin "$way" --retries 0 --channels 2 "$@"
	under_way rxe_v0
	begun=$SECONDS
	timeout 20 rdma link delete "rxe_$dev"
	seconds=$((SECONDS - begun))
	[ -z "${missed:-}" ] || { patience 12 grep -q "$missed" "$tmp/err" && rdma_rxe "$dev"; }
	gone_meanwhile=
	kill -0 "$client" 2>/dev/null || gone_meanwhile=1
	end
	rdma link show "rxe_$dev/1" >/dev/null 2>&1 || rdma_rxe "$dev"
}

for what in "v0 put write" "v0 get read" "v1 put read" "v1 get write"; do
	read -r dev way op <<<"$what"
	remove "$dev" "$way" --op "$op"
	check "$what: the device is let go within 5 s" test "$seconds" -le 5
	check "$what: while the transfer goes on" test -z "$gone_meanwhile"
	check "$what: it ends" status_is 0
	check "$what: the same bytes" is_whole
	# On this side only: when the sink leaves, the source sees an idle channel end in good order.
	[ "$dev" = v1 ] ||
		check "$what: the summary tells of lost channels" test "$(summary channels_lost)" = 2
	check "$what: and that the rest went in-band" test "$(summary fell_back)" = True
	check "$what: a word is said" grep -q 'no data channel is left' "$tmp/err"
	[ "$dev" = v1 ] || check "$what: and of the device" grep -q 'is being removed' "$tmp/err"
done
check "the server's log tells of its device" grep -q 'is being removed' "$tmp/main.log"

remove v0 put --transport rdma
check "nothing but RDMA is allowed: the device is let go within 5 s" test "$seconds" -le 5
check "nothing but RDMA is allowed: status 3 or 4" test "$status" = 3 -o "$status" = 4
check "nothing but RDMA is allowed: it says why" grep -q 'is being removed' "$tmp/err"
check "nothing under the name" is_absent
words put --transport rdma --retries 0 -q
run "${command[@]}"
check "with a new device the next run ends" status_is 0
check "with the same bytes" is_whole

# From here on the device comes back when rftp has missed it.
missed='no RDMA card.*trying again'
remove v0 put --transport rdma --retries 5
check "the device is back while rftp tries again: the transfer ends" status_is 0
check "with the same bytes" is_whole
check "it was not there when it tried first" \
	grep -q "$missed" "$tmp/err"

check "the sessions end" patience 20 sessions_gone
check "no resources are left" patience 10 nothing_left
finish
