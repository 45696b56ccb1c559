#!/bin/bash
# The stage that held a transfer back, in the summary, the progress, --json and --stats. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
need python3

mkdir "$tmp/root"
start_server d --root "$tmp/root" --anonymous rw
random "$tmp/file" 40000000
cp "$tmp/file" "$tmp/root/file"
chmod a+r "$tmp/root/file"
# mostly STAGE: it has the largest share of the summary, and all of them together are 1
mostly() {
	python3 - "$tmp/events" "$1" <<'END'
import json, sys
last = [json.loads(line) for line in open(sys.argv[1])][-1]
stages = last["stages"]
print(stages)
assert max(stages, key=stages.get) == sys.argv[2] and abs(sum(stages.values()) - 1) < .01
END
}
held() { mostly "$1" >"$tmp/stages" 2>&1 || { comment <"$tmp/stages"; false; }; }

run rftp put --accept-new --rate 20M "$tmp/file" "$url/to"
check "the rate: the summary says so" grep -qE ', held back by rate \([0-9]+ %\)$' "$tmp/err"
run rftp put --json --rate 20M "$tmp/file" "$url/to"
cp "$tmp/out" "$tmp/events"
check "the rate: --json" held rate
# shellcheck disable=SC2016
run bash -c 'for i in {1..10}; do head -c 1000000 "$1"; sleep .15; done | rftp put --json - "$2"' . "$tmp/file" "$url/slow"
cp "$tmp/out" "$tmp/events"
check "a source that delivers slowly" held source_storage
# shellcheck disable=SC2016
run bash -c 'rftp get --stats "$1" - | { while head -c 2000000 | grep -q .; do sleep .1; done; }' . "$url/file"
check "a sink that takes slowly" grep -qE ', held back by sink storage \([0-9]+ %\)$' "$tmp/err"
check "--stats: its line" grep -qE '^  +[5-9][0-9]\.[0-9] % sink storage$' "$tmp/err"
for what in 'files +1 copied' 'bytes +40000000 sent' 'processor time per GB ' 'transport +tcp' \
	'blocks +[1-9]' 'round trip ' 'channels ' 'attempts +1$' 'held back by '; do
	check "--stats: $what" grep -qE "^  $what" "$tmp/err"
done
run rftp put -q "$tmp/file" "$url/to"
check "-q: nothing" test ! -s "$tmp/err"

finish
