#!/bin/bash
# shellcheck disable=SC2034 # for lib.sh
# Sources that are written, replaced or get other attributes while they are read, with the time of
# modification set back each time: the copy is the present source, or there is none. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
need python3

limit=60
mkdir "$tmp/root" "$tmp/here" "$tmp/sink"
start_server sink --root "$tmp/sink" --anonymous rw --third-party all
sink_url=$url
start_server d --root "$tmp/root" --anonymous rw --third-party all
run rftp ls --accept-new "$url/"
run rftp ls --accept-new "$sink_url/"

# moves put|get|cp OPTION...: a file of 6 MB, in six seconds, in the background
moves() {
	local dir=$1
	shift
	case $dir in
	put) from=$tmp/here to=$tmp/root ;;
	get) from=$tmp/root to=$tmp/here ;;
	cp) from=$tmp/root to=$tmp/sink ;;
	esac
	rm -f "$to/to" "$from/file"
	random "$from/file" 6000000
	touch -d '2026-01-02 03:04:05' "$from/file"
	echo old >"$to/to"
	case $dir in
	put) words=(rftp put "$from/file" "$url/to") ;;
	get) words=(rftp get "$url/file" "$to/to") ;;
	cp) words=(rftp cp "$url/file" "$sink_url/to") ;;
	esac
	words+=(--json --rate 1M --block 64K --inflight 4 --overwrite "$@")
	: >"$tmp/out" # the background job empties it only once it runs
	"${words[@]}" </dev/null >"$tmp/out" 2>"$tmp/err" &
	client=$!
	others=("$client")
	check "$dir: it moves" patience 20 grep -q '"bytes":[0-9]\{6\}' "$tmp/out"
	# The source stands still, so that the change is made before it is at the end.
	pausing=$client
	[ "$dir" = put ] || pausing=$(children "$server")
	# shellcheck disable=SC2086 # each a process
	kill -STOP $pausing
}
# shellcheck disable=SC2086
ended() { kill -CONT $pausing; wait "$client"; status=$?; others=(); ran="${words[*]}"; }
restored() { touch -r "$tmp/stamp" "$1"; }
# In the part that has been sent already, and in the rest.
rewrite() {
	printf 'changed' | dd of="$1" bs=1 seek=1000 conv=notrunc status=none
	printf 'changed' | dd of="$1" bs=1 seek=5900000 conv=notrunc status=none
	restored "$1"
}
map() {
	python3 -c 'import mmap, sys
with open(sys.argv[1], "r+b") as f, mmap.mmap(f.fileno(), 0) as m:
    m[1000:1007] = m[-1000:-993] = b"changed"
    m.flush()' "$1"
	restored "$1"
}
replace() {
	cp "$1" "$1.new"
	rewrite "$1.new"
	mv "$1.new" "$1"
}

same_as_one_of() { cmp -s "$1" "$2" || cmp -s "$1" "$3"; }

for dir in put get cp; do
	for change in rewrite map chmod link; do
		moves $dir
		touch -r "$from/file" "$tmp/stamp"
		case $change in
		chmod) chmod 600 "$from/file" ;;
		link) ln "$from/file" "$from/other" && rm "$from/other" ;;
		*) $change "$from/file" ;;
		esac
		ended
		check "$dir, $change: it ends well" status_is 0
		check "$dir, $change: what arrives is what there is" same "$from/file" "$to/to"
		check "$dir, $change: it was read again" grep -q 'changed while being read; trying again' "$tmp/err"
		check "$dir, $change: it was compared, not sent again" test "$(summary resumed)" -gt 1000000
		check "$dir, $change: and no error was told" not grep -q 'run again\|file_failed' "$tmp/err" "$tmp/out"
		check "$dir, $change: nothing failed in the end" test "$(summary failed)/$(summary files)" = 0/1
		check "$dir, $change: nothing is left" no_parts "$to"
	done
	moves $dir --skip-same --manifest "$tmp/list"
	touch -r "$from/file" "$tmp/stamp"
	rewrite "$from/file"
	ended
	check "$dir, with a manifest: it ends well" status_is 0
	check "$dir, with a manifest: it is complete" test "$(cut -d' ' -f1 "$tmp/list")" = "$(sha256sum <"$to/to" | cut -d' ' -f1)"
	moves $dir --retries 0
	touch -r "$from/file" "$tmp/stamp"
	rewrite "$from/file"
	ended
	check "$dir, no attempt again: it fails" status_is 1
	check "$dir, no attempt again: the old file stays" test "$(cat "$to/to")" = old
	run "${words[@]}"
	check "$dir: the same command sends what is new" same "$from/file" "$to/to"
	moves $dir
	touch -r "$from/file" "$tmp/stamp"
	cp "$from/file" "$tmp/was"
	replace "$from/file"
	ended
	check "$dir, replaced: it is one of both" same_as_one_of "$to/to" "$tmp/was" "$from/file"
done

# The walk has looked for its holes; one of them is filled before it is opened.
mkdir "$tmp/here/tree" "$tmp/root/tree"
random "$tmp/here/tree/1-big" 4000000 # less than files that the sink is asked about
random "$tmp/here/tree/2-holes" 65536
truncate -s 8M "$tmp/here/tree/2-holes"
touch -r "$tmp/here/tree/2-holes" "$tmp/stamp"
: >"$tmp/out"
rftp put --json --rate 1M --block 64K --inflight 4 --readers 1 --sort none \
	"$tmp/here/tree/1-big" "$tmp/here/tree/2-holes" "$url/tree/" \
	</dev/null >"$tmp/out" 2>"$tmp/err" &
client=$!
others=("$client")
words=("put of a sparse file")
check "put, a tree: it moves" patience 20 grep -q '"bytes":[0-9]\{6\}' "$tmp/out"
pausing=$client
kill -STOP "$client"
printf 'changed' | dd of="$tmp/here/tree/2-holes" bs=1 seek=4M conv=notrunc status=none
restored "$tmp/here/tree/2-holes"
ended
check "put, a hole is filled: it ends well" status_is 0
check "put, a hole is filled: what arrives is what there is" \
	same "$tmp/here/tree/2-holes" "$tmp/root/tree/2-holes"
check "put, a hole is filled: it was read again" grep -q 'changed while being read; trying again' "$tmp/err"

# Another process holds a lease: open(2) fails with EAGAIN, which does not mean that the file
# changed.
for size in 1000 6000000; do
	random "$tmp/here/leased" $size
	: >"$tmp/held"
	python3 -c 'import fcntl, os, signal, sys, time
signal.signal(signal.SIGIO, signal.SIG_IGN)
fd = os.open(sys.argv[1], os.O_RDWR)
fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print("held", flush=True)
time.sleep(60)' "$tmp/here/leased" >"$tmp/held" 2>/dev/null &
	holder=$!
	others=("$holder")
	if patience 5 test -s "$tmp/held"; then
		run rftp put -q "$tmp/here/leased" "$url/leased"
		check "put, a leased file of $size bytes: it fails" fails_with 1 'leased.*busy'
		check "put, a leased file of $size bytes: at once" not grep -q 'trying again' "$tmp/err"
	else
		skip "a leased file of $size bytes" "no lease can be had on this filesystem"
	fi
	kill "$holder" 2>/dev/null
	wait "$holder" 2>/dev/null
	others=()
done

check "the server ends well" stops_well
finish
