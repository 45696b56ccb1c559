#!/bin/bash
# shellcheck disable=SC2034 # faults.bash and lib.sh use them
# A network that fails, see faults.bash. TAP.

# shellcheck source=faults.bash
. "${top_srcdir:?}/tests/e2e/faults.bash"

for dir in put get; do
	for side in sink source; do
		while IFS='|' read -r rule options; do
			faulty "$dir" "$rule"
			# shellcheck disable=SC2086
			move big --channels 3 $options
			check "$dir, $rule at the $side $options: whole" status_is 0
			check "$dir, $rule at the $side $options: as it was" same "$tmp/big" "$target"
			case $side,$rule in
			*,cut*|sink,corrupt*) check "$dir, $rule at the $side: it is told" test "$(summary channels_lost)" -gt 0 ;;
			esac
		done <<-'RULES'
			corrupt:after=10M:count=2|
			corrupt:after=10M:count=1|--prot clear
			corrupt-head:after=10M:count=2|--prot clear
			corrupt:rate=0.02:count=2|--prot safe --block 256K
			cut:after=20M:count=1|
			cut:after=20M:count=2|
			send:ECONNRESET:after=1K:count=1|
			recv:ECONNRESET:after=1K:count=1|
			stall:rate=0.01|
		RULES
		faulty "$dir" "cut:after=20M"
		move big --channels 2 --retries 0
		check "$dir, all channels cut at the $side: it goes on in-band" status_is 0
		check "$dir, all channels cut at the $side: it is told" test "$(summary fell_back)" = True
		check "$dir, all channels cut at the $side: as it was" same "$tmp/big" "$target"
		faulty "$dir" "cut:after=20M"
		limit=12
		move big --channels 2 --retries 0 --transport tcp
		limit=40
		check "$dir, all channels cut at the $side: it ends" test "$status" -eq 4
		check "$dir, all channels cut at the $side: old or new" either
		patience 10 no_children "$server"
		completes "$dir, all channels cut at the $side"
		check "$dir, all channels cut at the $side: it is the new one" same "$tmp/big" "$target"
	done
	side=sink
	if [ "$dir" = get ]; then side=source; fi
	faulty "$dir" "accept:ECONNABORTED:count=1"
	move big --channels 2
	check "$dir, a channel is not accepted: it ends" test "$status" -ne 124
	completes "$dir, a channel is not accepted"
done
# With more than 1 GiB to go the client comes again, for data channels.
{ cat "$tmp/big"; head -c 1100M /dev/zero; } >"$tmp/huge"
ln "$tmp/huge" "$tmp/root/from/huge"
for dir in put get; do
	side=source # the client's, so that a cut that it has made is not made again
	if [ "$dir" = get ]; then side=sink; fi
	faulty "$dir" "cut:after=40M:count=2"
	target=$(dirname "$target")/huge
	move huge --channels 2
	check "$dir, all channels cut, much to go: whole" status_is 0
	check "$dir, all channels cut, much to go: as it was" same "$tmp/huge" "$target"
	check "$dir, all channels cut, much to go: it came again" test "$(summary retries)" -eq 1
	check "$dir, all channels cut, much to go: and went on" test "$(summary resumed)" -gt 0
	all=$(stat -c %s "$tmp/huge")
	check "$dir, all channels cut, much to go: bytes of both attempts" test $(($(summary bytes) + $(summary resumed))) -ge "$all"
	check "$dir, all channels cut, much to go: one file" test "$(summary files)/$(summary skipped)" = 1/0
	check "$dir, all channels cut, much to go: the second between is counted" python3 -c 'import sys; sys.exit(float(sys.argv[1]) < 1)' "$(summary seconds)"
	check "$dir, all channels cut, much to go: by data channels" test "$(summary fell_back)" = False
done
rm "$tmp/huge" "$tmp/root/from/huge" "$target" "$tmp/root/to/huge"

# A client that cannot connect its channels goes in-band.
rules=connect:ECONNREFUSED
for dir in put get; do
	faulty "$dir" "connect:ECONNREFUSED:after=1"
	side=source
	if [ "$dir" = get ]; then side=sink; fi
	move big
	check "$dir, no data channel: it goes in-band" test "$(summary transport)" = inband -o "$(summary transport)" = in-band
	check "$dir, no data channel: as it was" same "$tmp/big" "$target"
done

faults_end
