#!/bin/bash
# shellcheck disable=SC2034 # limit is for lib.sh
# Pipes and memory: -, null: and zero:SIZE. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
need python3 setsid

mkdir "$tmp/root"
start_server d --root "$tmp/root" --anonymous rw
random "$tmp/data" 30000001
: >"$tmp/empty"
printf x >"$tmp/one"

for f in data empty one; do
	for options in "" "--prot clear --block 64K --channels 4"; do
		# shellcheck disable=SC2086
		run_stdin rftp put -q --accept-new $options - "$url/$f" <"$tmp/$f"
		check "put - $options: $f" status_is 0
		check "as it was" same "$tmp/$f" "$tmp/root/$f"
		# shellcheck disable=SC2086
		run rftp get -q $options "$url/$f" -
		check "get - $options: $f" status_is 0
		check "as it was" same "$tmp/$f" "$tmp/out"
		check "no word on standard error" test ! -s "$tmp/err"
	done
done
check "no parts" no_parts "$tmp/root"

# Through real pipes, in drops.
{ for _ in {1..50}; do head -c 1000 "$tmp/data"; sleep 0.01; done; } | run_stdin rftp put -q - "$url/drops"
check "put from a slow pipe" test "$(stat -c %s "$tmp/root/drops")" -eq 50000
rftp get -q "$url/data" - | cmp -s - "$tmp/data"
check "get into a pipe" test "${PIPESTATUS[*]}" = "0 0"
limit=15
run bash -c 'rftp get -q "$1" - | head -c 100000 >"$2"; exit ${PIPESTATUS[0]}' - "$url/data" "$tmp/some"
check "a reader that goes away ends it" test "$status" -ne 0 -a "$status" -ne 124
check "without a word" test ! -s "$tmp/err"
check "with what it wanted" cmp -s -n 100000 "$tmp/some" "$tmp/data"
# A reader that stops reading, and an interrupt.
# shellcheck disable=SC2216 # sleep must not read
{
	rftp get -q "$url/data" - 2>"$tmp/err" &
	echo $! >"$tmp/getter"
	wait $!
	echo $? >"$tmp/getter.status"
} | sleep 30 &
others+=($!)
patience 10 test -s "$tmp/getter"
sleep 0.5
kill -TERM "$(cat "$tmp/getter")"
check "an interrupt ends it while its reader does not read" patience 10 test -s "$tmp/getter.status"
check "as interrupted" grep -qx 4 "$tmp/getter.status"
kill "${others[-1]}"
# A device of our own: if the program replaces it after all, no other program misses it.
if mknod "$tmp/device" c 1 3 2>/dev/null; then
	get "$url/data" "$tmp/device"
	check "a file does not replace a device" fails_with 1 'device: cannot be replaced'
	get "$url/one" "$tmp/device"
	check "a small one neither" fails_with 1 'device: cannot be replaced'
	check "which is still there" test -c "$tmp/device"
else
	skip "a device as a destination" "mknod is for root"
fi
mkfifo "$tmp/pipe" "$tmp/root/pipe"
get "$url/one" "$tmp/pipe"
check "a file does not replace a pipe" fails_with 1 'pipe: cannot be replaced'
put "$tmp/one" "$url/pipe"
check "nor on a server" fails_with 1 'pipe: cannot be replaced'
get "$url/pipe" "$tmp/x"
check "nor is a pipe a source" fails_with 1 'pipe'
rm -f "$tmp/root/pipe"
run bash -c 'rftp get -q "$1" - >/dev/full' - "$url/data"
check "a full standard output" fails_with 1 'No space'
for words in "rftp --help" "rftp put --help" "rftp --version" "rftpd --help" "rftpd --version"; do
	run bash -c "$words >/dev/full"
	check "$words is not said to have been printed" \
		test "$status" -ne 0 -a "$(grep -c 'standard output: No space' "$tmp/err")" -eq 1
done
run bash -c 'rftp put -q - "$1" <&-' - "$url/closed"
check "a closed standard input" test "$status" -ne 0 -a "$status" -ne 124
check "and no file" test ! -e "$tmp/root/closed"
run bash -c 'rftp put -q - "$1" <"$2"' - "$url/dir" "$tmp"
check "a directory as standard input" fails_with 1 'directory'
check "and no file" test ! -e "$tmp/root/dir"

# A put that is cut leaves the old file.
echo old >"$tmp/root/cut"
mkfifo "$tmp/fifo"
rftp put -q - "$url/cut" <"$tmp/fifo" 2>"$tmp/err" &
others+=($!)
exec 8>"$tmp/fifo"
head -c 3000000 "$tmp/data" >&8
kill -KILL "${others[-1]}"
wait "${others[-1]}" 2>/dev/null
exec 8>&-
check "its session ends" patience 10 no_children "$server"
check "what was in a pipe when its reader is killed is not a file" test "$(cat "$tmp/root/cut")" = old
check "and no parts" no_parts "$tmp/root"

# A sink that reads back takes so many pieces of a pipe as the agreed block allows.
head -c 3000000 "$tmp/data" >"$tmp/some"
run_stdin rftp put -q --rate 640K --inflight 4 --ack verified - "$url/some" <"$tmp/some"
check "a pipe at a low rate, read back" status_is 0
check "it is there" same "$tmp/some" "$tmp/root/some"

put zero:30000001 "$url/zeros"
check "put zero:" status_is 0
check "so many zeros" cmp -s -n 30000001 /dev/zero "$tmp/root/zeros"
check "no more" test "$(stat -c %s "$tmp/root/zeros")" -eq 30000001
put zero:0 "$url/zero0"
check "put zero:0" test -f "$tmp/root/zero0" -a ! -s "$tmp/root/zero0"
put zero:1M "$url/zero1"
check "put zero:1M" test "$(stat -c %s "$tmp/root/zero1")" -eq 1048576
get --json "$url/data" null:
check "get null:" status_is 0
check "all of it" test "$(summary bytes)" -eq 30000001
mkdir -p "$tmp/root/t/s" && cp "$tmp/one" "$tmp/root/t/a" && cp "$tmp/data" "$tmp/root/t/s/b" && ln -s a "$tmp/root/t/l"
get -r --json "$url/t" null:
check "get -r null:" status_is 0
check "all of it" test "$(summary bytes)" -eq 30000002
run rftp get -q "$url/nothing" -
check "what is not there, to standard output" fails_with 1 'No such file'
check "which stays empty" test ! -s "$tmp/out"

check "the server ends well" stops_well
finish
