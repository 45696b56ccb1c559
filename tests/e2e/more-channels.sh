#!/bin/bash
# shellcheck disable=SC2034 # limit is for lib.sh
# A long path by TCP begins with a few streams and opens more while that makes it faster; they are
# refused, and lost again, without harm. The path is channel-proxy.py's. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
need python3

limit=90
mkdir -p "$tmp/far"
random "$tmp/big" 60000000
cp "$tmp/big" "$tmp/far/big"
export CHANNEL_PROXY_DONE=$tmp/done

# far put|get KILOBYTES WAY WHICH OPTION...: each stream carries so many thousand bytes a second
far() {
	local dir=$1 proxy="$top_srcdir/tests/support/channel-proxy.py slow $3 $2 1 $4"
	shift 4
	: >"$CHANNEL_PROXY_DONE"
	rm -f "$tmp/far/put" "$tmp/got"
	set -- -v --json --ssh "$proxy" --rftpd-path "$(command -v rftpd)" "$@"
	case $dir in
	put) run rftp put "$@" "$tmp/big" "127.0.0.1:$tmp/far/put" ;;
	get) run rftp get "$@" "127.0.0.1:$tmp/far/big" "$tmp/got" ;;
	esac
	target=$([ "$dir" = put ] && echo "$tmp/far/put" || echo "$tmp/got")
	# Channels that were opened at first; and that carried something.
	first=$(event started channels)
	most=$(event started channels_most)
	used=$(python3 -c 'import json, sys
print(max(sum(b > 0 for b in json.loads(l).get("channels", [])) for l in open(sys.argv[1])
          if "\"summary\"" in l))' "$tmp/out")
}
event() { # NAME FIELD
	python3 -c 'import json, sys
for line in open(sys.argv[1]):
    e = json.loads(line)
    if e["event"] == sys.argv[2]:
        print(e[sys.argv[3]])
        break' "$tmp/out" "$1" "$2"
}

ways="put get"
has_faults || { skip "a path that loses" "$no_faults"; ways=; }
for dir in $ways; do
	RFTP_FAULT=lossy far "$dir" 600 none all
	check "$dir, a path that loses: it ends well" status_is 0
	check "$dir, a path that loses: as it was" same "$tmp/big" "$target"
	# At most 16 at first, for a round trip of 96 ms, which a busy host can have.
	check "$dir, a path that loses: a few at first, up to 32" test "$first" -le 16 -a "$most" = 32
	check "$dir, a path that loses: more than these" test "$used" -gt "$first"
	check "$dir, a path that loses: -v tells" \
		grep -qE '[0-9]+ channels: .* ms, 1e\+02 % (retransmitted|out of order)' "$tmp/err"

	RFTP_FAULT=lossy far "$dir" 3000 none all --channels 3
	check "$dir, --channels 3: it ends well" status_is 0
	check "$dir, --channels 3: that many" test "$first" = 3 -a "$most" = 3 -a "$used" = 3

	RFTP_FAULT=lossy far "$dir" 1000 refuse "$((first + 6))"
	check "$dir, more are refused: it ends well" status_is 0
	check "$dir, more are refused: as it was" same "$tmp/big" "$target"
	check "$dir, more are refused: no channel is lost" test "$(event summary channels_lost)" = 0
	check "$dir, more are refused: -v says so" grep -q 'no more data channels can be opened' "$tmp/err"

	RFTP_FAULT=lossy far "$dir" 1000 cut "$first"
	check "$dir, some are lost again: it ends well" status_is 0
	check "$dir, some are lost again: as it was" same "$tmp/big" "$target"
	check "$dir, some are lost again: it happened" test -s "$CHANNEL_PROXY_DONE"
	check "$dir, some are lost again: they are told" test "$(event summary channels_lost)" -gt 0
	check "$dir, some are lost again: the others go on" test "$(event summary fell_back)" = False
done

far put 3000 none all --channels 1 --block 8M
check "long blocks: progress within them is shown" python3 -c 'import json, sys
shown = [e["bytes"] for e in map(json.loads, open(sys.argv[1])) if e["event"] == "progress"]
sys.exit(shown != sorted(shown) or not any(n % (8 << 20) for n in shown if n < 59999999))' "$tmp/out"
finish
