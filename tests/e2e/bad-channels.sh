#!/bin/bash
# shellcheck disable=SC2034 # limit is for lib.sh
# Data channels on which blocks and credits are lost, repeated, swapped, damaged or held back, by
# channel-proxy.py; and slow ones, which must live. E2E_CHANNEL_ROUNDS=50 takes an hour. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
need python3

seed=${E2E_SEED:-$RANDOM}
rounds=${E2E_CHANNEL_ROUNDS:-1}
RANDOM=$seed
echo "# E2E_SEED=$seed"
limit=60
mkdir -p "$tmp/far"
random "$tmp/big" 12000000
cp "$tmp/big" "$tmp/far/big"
export CHANNEL_PROXY_DONE=$tmp/done

# bad DIR NAME WAY NTH WHICH: one transfer
bad() {
	local dir=$1 levels=(clear safe private) prot
	shift
	prot=${levels[RANDOM % 3]}
	: >"$CHANNEL_PROXY_DONE"
	rm -f "$tmp/far/put" "$tmp/got"
	set -- --ssh "$top_srcdir/tests/support/channel-proxy.py $1 $2 $3 $RANDOM $4" \
		--rftpd-path "$(command -v rftpd)" \
		--stall 1s --connect-timeout 2s --channels 2 --block 256K --inflight 4 --prot "$prot"
	case $dir in
	put) run rftp put "$@" "$tmp/big" "127.0.0.1:$tmp/far/put" ;;
	get) run rftp get "$@" "127.0.0.1:$tmp/far/big" "$tmp/got" ;;
	esac
	what="$dir, $prot"
	target=$([ "$dir" = put ] && echo "$tmp/far/put" || echo "$tmp/got")
}

for ((round = 0; round < rounds; round++)); do
	for dir in put get; do
		for way in block credit; do
			for fault in drop dup swap flip stall; do
				nth=$((RANDOM % 4))
				bad "$dir" "$fault" "$way" "$nth" one
				check "$what: $fault of $way $nth: it ends well" status_is 0
				check "$what: $fault of $way $nth: as it was" same "$tmp/big" "$target"
				check "$what: $fault of $way $nth: it happened" test -s "$CHANNEL_PROXY_DONE"
			done
			bad "$dir" stall "$way" $((RANDOM % 4)) all
			check "$what: all stall at a $way: it ends well" status_is 0
			check "$what: all stall at a $way: as it was" same "$tmp/big" "$target"
			check "$what: all stall at a $way: it goes on in-band" grep -q 'rest goes over the control' "$tmp/err"
		done
		for way in hello answer; do
			for fault in drop dup flip stall; do
				bad "$dir" "$fault" "$way" 0 one
				check "$what: $fault of $way: it ends well" status_is 0
				check "$what: $fault of $way: as it was" same "$tmp/big" "$target"
				check "$what: $fault of $way: it happened" test -s "$CHANNEL_PROXY_DONE"
			done
		done
	done
done

# A channel that is slow and alive.
start_server good --root "$tmp/far" --anonymous rw --stall 1s
slow_reader() { rftp get -v --accept-new --stall 1s "$url/big" - 2>"$tmp/err" | { sleep 3; cat >"$tmp/got"; }; }
rm -f "$tmp/got"
slow_reader
check "a reader that takes nothing for long: all comes" same "$tmp/big" "$tmp/got"
check "a reader that takes nothing for long: no channel is lost" not grep -q 'is lost' "$tmp/err"
rm -f "$tmp/far/put"
run rftp put -v --accept-new --stall 1s --channels 2 --rate 4M "$tmp/big" "$url/put"
check "a low rate: all comes" same "$tmp/big" "$tmp/far/put"
check "a low rate: no channel is lost" not grep -q 'is lost' "$tmp/err"
check "the server ends well" stops_well
finish
