#!/bin/bash
# shellcheck disable=SC2034,SC2317 # some are for lib.sh; some are called by check
# Two writers of one file. The second waits for a session that has lost its client; it does not
# disturb a live one; and other files do not wait. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
need python3 setsid

limit=60
mkdir "$tmp/root" "$tmp/here" "$tmp/src"
for i in 1 2 3 4; do random "$tmp/src/big$i" 60000000; done
for i in {1..50}; do random "$tmp/src/small$i" $((i * 3000)); done
random "$tmp/little" 1000
start_server d --root "$tmp/root" --anonymous rw
run rftp ls --accept-new "$url/"

# begin RATE WORD...: a transfer that has got some way, in the background: $first
begin() {
	local rate=$1
	shift
	rftp "$@" -q --rate "$rate" </dev/null >"$tmp/first" 2>&1 &
	first=$!
	others+=("$first")
	sleep 1
}
said_waiting() { grep -q 'another session holds it' "$@"; }

# ---- one that was killed ----

for options in "" "--no-resume" "--ack written" "--inplace"; do
	for source in src/big1 little; do
		# A small file in place is not waited for: it is opened when its bytes are there.
		[ "$options $source" != "--inplace little" ] || continue
		# The target exists and is replaced: that is the conflict.
		cp "$tmp/little" "$tmp/root/f"
		# shellcheck disable=SC2086
		begin 20M put "$tmp/src/big1" "$url/f" $options
		# Its session still has to learn of it.
		session=$(children "$server" | head -n 1)
		kill -STOP "$session"
		kill -KILL "$first"
		wait "$first" 2>/dev/null
		(sleep 2 && kill -CONT "$session") &
		others+=($!)
		# shellcheck disable=SC2086
		run rftp put -q $options "$tmp/$source" "$url/f"
		check "put of ${source#src/} $options after one of big1 was killed" status_is 0
		check "it is there" same "$tmp/$source" "$tmp/root/f"
		wait "${others[-1]}"
		patience 10 no_children "$server"
		check "nothing is left" no_parts "$tmp/root"
	done
done
check "the log says who waits" said_waiting "$tmp/d.log"

# ---- one that the network has taken away ----

begin 20M put "$tmp/src/big1" "$url/gone"
gone=$first
kill -STOP "$gone"
(
	ran='rftp put, while another client is frozen'
	rftp put -q --json "$tmp/src/big1" "$url/gone" >"$tmp/gone.out" 2>"$tmp/gone.err"
	echo $? >"$tmp/gone.status"
) &
waiter=$!
others+=("$waiter")

# ---- ones that are alive ----

mkdir "$tmp/root/to"
for i in 1 2 3 4; do
	rftp put -q --rate 3M "$tmp/src/big$i" "$url/to/" </dev/null 2>"$tmp/err.$i" &
	alive[i]=$!
	others+=($!)
done
sleep 1
setsid timeout "$limit" rftp put -q "$tmp"/src/* "$url/to/" </dev/null >"$tmp/out" 2>"$tmp/err" &
second=$!
others+=("$second")
small_ones() { for i in {1..50}; do same "$tmp/src/small$i" "$tmp/root/to/small$i" || return; done; }
check "files that nobody holds do not wait for those that are held" patience 4 small_ones
check "while these are waited for" kill -0 "$second"
wait "$second"
status=$?
ran="the second writer"
check "but not for long: 1" status_is 1
check "a line for each" test "$(grep -c 'to/big[1-4]: another transfer is writing it' "$tmp/err")" -eq 4 -a \
	"$(wc -l <"$tmp/err")" -eq 4
check "the first writers were at it all the time" kill -0 "${alive[@]}"
for i in 1 2 3 4; do
	wait "${alive[i]}"
	check "it ends well" test $? -eq 0
	check "with all of it" same "$tmp/src/big$i" "$tmp/root/to/big$i"
done

# The same on this side.
begin 4M get "$url/to/big1" "$tmp/here/f"
run rftp get -v "$url/to/big1" "$tmp/here/f"
check "a second get of one file: 1" status_is 1
check "-v says that it waits" said_waiting "$tmp/err"
check "and why it does not any more" grep -q 'here/f: another transfer is writing it' "$tmp/err"
wait "$first"
check "the first one ends well" test $? -eq 0
check "with all of it" same "$tmp/src/big1" "$tmp/here/f"

patience 60 gone "$waiter"
ran="the put while another client was frozen"
cp "$tmp/gone.err" "$tmp/err"
status=$(cat "$tmp/gone.status")
check "$ran" status_is 0
cp "$tmp/gone.out" "$tmp/out"
check "goes on where that was" test "$(summary resumed)" -gt 0
check "all of it is there" same "$tmp/src/big1" "$tmp/root/gone"
check "nothing is left" no_parts "$tmp/root" "$tmp/here"
kill -CONT "$gone"
kill -KILL "$gone"
wait "$gone" 2>/dev/null
others=()
check "the server ends well" stops_well
finish
