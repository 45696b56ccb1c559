#!/bin/bash
# shellcheck disable=SC2034 # limit is for lib.sh
# The round trips that puts and gets of small files take over a long path. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
need python3
need_faults # the programs see a long path

limit=60
mkdir -p "$tmp/root"
random "$tmp/small" 1024
random "$tmp/small2" 100000
start_server main --root "$tmp/root" --anonymous rw
run rftp ls --accept-new "$url/"
"$top_srcdir/tests/support/delay-proxy.py" 0.150 "$port" "$tmp/proxy" &
others+=($!)
check "there is a long way" patience 10 test -s "$tmp/proxy"
far=rftp://127.0.0.1:$(cat "$tmp/proxy")
run rftp ls --accept-new "$far/" # the key is known from here on

# takes MOST COMMAND...: its round trips, with that of the TCP connection, which this way does not
# delay. A busy machine may cut one message into two: of three tries one counts.
takes() {
	local most=$1
	shift
	for _ in 1 2 3; do
		rm -f "$tmp/proxy.trips"
		run env RFTP_FAULT=far "$@"
		trips=$(($(cat "$tmp/proxy.trips") + 1))
		echo "# $trips round trips: ${*:1:6}"
		[ "$status" = 0 ] && [ "$trips" -le "$most" ] && return
	done
	return 1
}
check "a put of one small file takes 7" takes 7 rftp put -q "$tmp/small" "$far/one"
check "it is there" same "$tmp/small" "$tmp/root/one"
check "the server knows that it has ended well" patience 10 grep -q 'put "/one".* 1024 bytes.*: ok' "$tmp/main.log"
# Over the control connection, which alone has the long way here.
started() { grep -q '"transport": *"'"$1" "$tmp/out"; }
check "so does a get" takes 7 rftp get --json "$far/one" "$tmp/one"
check "of what is there" same "$tmp/small" "$tmp/one"
check "without data channels" started in-band
check "and without a warning" test ! -s "$tmp/err"
mkdir "$tmp/root/tree"
cp "$tmp/small" "$tmp/root/tree/"
run env RFTP_FAULT=far rftp get -r --json "$far/tree" "$tmp/"
check "a tree may be big" started tcp
run env RFTP_FAULT=far rftp get --json --channels 2 "$far/one" "$tmp/one"
check "channels that were asked for are used" started tcp
run env RFTP_FAULT=far rftp get --json --tos cs1 "$far/one" "$tmp/one"
check "so they are with a type of service" started tcp
rm -r "$tmp/root/tree"
check "one in a session" takes 9 rftp -q -c "put $tmp/small two" "$far/"
check "another one in the same session takes 3 more" takes $((trips + 3)) \
	rftp -q -c "put $tmp/small two; put $tmp/small2 three" "$far/"
check "both are there" same "$tmp/small" "$tmp/root/two"
check "as they are here" same "$tmp/small2" "$tmp/root/three"
check "a get in a session" takes 9 rftp -q -c "get two $tmp/two" "$far/"
check "another one takes 3 more" takes $((trips + 3)) \
	rftp -q -c "get two $tmp/two; get three $tmp/three" "$far/"
check "what it got" same "$tmp/small2" "$tmp/three"
touch "$tmp/root/old.1" "$tmp/root/old.2"
check "a pattern behind one finds its names" takes $((trips + 4)) \
	rftp -q -c "put $tmp/small two; rm old.*; ls -1" "$far/"
check "and they are gone, and nothing else is" test "$(echo "$tmp"/root/*)" = "$tmp/root/one $tmp/root/three $tmp/root/two"
check "and each answer is the right one's" test "$(tr -d '\n' <"$tmp/out")" = "onethreetwo"
check "one in a session" takes 9 rftp -q -c "put $tmp/small two" "$far/"
check "a command behind two takes 1" takes $((trips + 4)) \
	rftp -q -c "put $tmp/small four; put $tmp/small2 five; size five" "$far/"
check "and has its own answer" test "$(cat "$tmp/out")" = "100000	five"
mkdir "$tmp/both"
check "a get of two small files" takes 7 rftp get -q "$far/two" "$far/three" "$tmp/both/"

# Sessions, which may do little, may choose how they send.
start_server reno --root "$tmp/root" --anonymous rw --congestion reno
run rftp ls --accept-new "$url/"
run env RFTP_FAULT=far rftp get --json "$url/two" "$tmp/got"
check "a server with --congestion" status_is 0
check "sends by a stream" started tcp
check "uses it" not grep -q 'congestion control' "$tmp/reno.log"
finish
