#!/bin/bash
# shellcheck disable=SC2034 # status and ran are for lib.sh
# Several network cards in one transfer, by TCP, between two network namespaces: the pairs of
# cards, that all carry data, and transfers when one cannot be reached or disappears. TAP.

. "${top_srcdir:?}/tests/e2e/own-net.bash"
. "${top_srcdir:?}/tests/e2e/lib.sh"

unshare -n sleep 600 &
others=($!)
far=$!
patience 10 test "$(readlink /proc/$far/ns/net)" != "$(readlink /proc/self/ns/net)"
there() { nsenter -t "$far" -n "$@"; }
there ip link set lo up
for k in 1 2 3; do
	ip link add "near$k" type veth peer name "far$k" netns "$far" ||
		skip_all "no virtual network cards here"
	ip addr add "10.9.$k.1/24" dev "near$k"
	ip link set "near$k" up
	there ip addr add "10.9.$k.2/24" dev "far$k"
	there ip link set "far$k" up
done
mac2=$(there ip -br link show far2 | awk '{ print $3 }')

serve() { # OPTION...
	rm -f "$tmp/port"
	nsenter -t "$far" -n rftpd --one-process --listen 10.9.1.2:7321 --root "$tmp/root" --anonymous rw --state "$tmp/state" \
		--port-file "$tmp/port" -v "$@" </dev/null >>"$tmp/rftpd.log" 2>&1 &
	server=$!
	servers+=("$server")
	patience 20 test -s "$tmp/port"
}
mkdir "$tmp/root"
url=rftp://10.9.1.2
random "$tmp/big" 50000000

# Bytes that have gone either way by a card since the last reset.
count() { awk -v card="$1:" '$1 == card { print $2 + $10 }' /proc/net/dev; }
declare -A before
reset() { for k in 1 2 3; do before[near$k]=$(count "near$k"); done; }
carried() { # CARD: a good part of the file
	test $(($(count "$1") - before[$1])) -gt 3000000
}
carried_nothing() { test $(($(count "$1") - before[$1])) -lt 1000000; }

# ---- which are paired ----

serve
reset
run rftp put -v --accept-new "$tmp/big" "$url/one"
check "by default TCP goes the way of the control connection" status_is 0
check "the same" same "$tmp/big" "$tmp/root/one"
check "and by no other card" carried_nothing near2

reset
run rftp put -v --nic near2 "$tmp/big" "$url/one"
check "a card that only the client names, of which the server tells nothing" status_is 0
check "goes the way of the control connection" carried near1
stop_server

serve --nic far1,far2
for what in put get; do
	reset
	if [ $what = put ]; then
		run rftp put -v --nic near1,near2 "$tmp/big" "$url/two"
	else
		run rftp get -v --nic near1,near2 "$url/two" "$tmp/two"
	fi
	check "$what by two" status_is 0
	check "it says which" grep -q 'path 1: near2 (10.9.2.1) - far2 (10.9.2.2)' "$tmp/err"
	check "the first carries" carried near1
	check "the second carries" carried near2
	check "the third does not" carried_nothing near3
done
check "the same there" same "$tmp/big" "$tmp/root/two"
check "the same back" same "$tmp/big" "$tmp/two"
stop_server

serve --nic 10.9.2.2,far3
reset
run rftp put -v --nic near3,10.9.2.1 "$tmp/big" "$url/three"
check "by neither of the control connection's, named by card and address" status_is 0
check "neighbours are paired" grep -q 'path 0: near3 (10.9.3.1) - far3' "$tmp/err"
check "both" grep -q 'path 1: near2 (10.9.2.1) - far2' "$tmp/err"
check "the same" same "$tmp/big" "$tmp/root/three"
stop_server

# ---- cards that do not exist ----

serve --nic far1,nosuch,far2
check "a name that there is not is told at the server's start" grep -q -e '--nic nosuch: there is no network card' "$tmp"/*.log
run rftp put -q --nic near1,nosuch "$tmp/big" "$url/x"
check "a card of the client's that there is not" fails_with 3 'nosuch: there is no network card or address of this name; there are'
run rftp put -v --nic-node nosuch=0,lo=any "$tmp/big" "$url/x"
check "the node of a card that is not there: a warning" test "$status" -eq 0 -a "$(grep -c 'there is no network interface nosuch' "$tmp/err")" -eq 1 -a "$(grep -c 'lo: there is no' "$tmp/err")" -eq 0
run rftp put -v --nic near1,near2 "$tmp/big" "$url/four"
check "one of the server's is left out" status_is 0
check "both others are used" grep -q 'path 1: near2' "$tmp/err"
check "with a word in its log" grep -q 'nosuch' "$tmp/rftpd.log"

ip neigh replace 10.9.2.2 lladdr 02:00:00:00:00:01 dev near2 nud permanent
reset
run rftp put -v --nic near1,near2 --connect-timeout 3s "$tmp/big" "$url/five"
check "a path that leads nowhere is left out" status_is 0
check "with a warning" grep -q 'warning.*10.9.2.2.*other network cards' "$tmp/err"
check "the same" same "$tmp/big" "$tmp/root/five"
check "by the other" carried near1
ip neigh replace 10.9.2.2 lladdr "$mac2" dev near2 nud permanent

# ---- cards that disappear ----

for what in put get; do
	rm -f "$tmp/six" "$tmp/root/six"
	[ $what = put ] || cp "$tmp/big" "$tmp/root/six"
	if [ $what = put ]; then
		set -- rftp put -v --rate 20M --nic near1,near2 "$tmp/big" "$url/six"
	else
		set -- rftp get -v --rate 20M --nic near1,near2 "$url/six" "$tmp/six"
	fi
	lines=$(wc -l <"$tmp/rftpd.log")
	"$@" </dev/null >"$tmp/out" 2>"$tmp/err" &
	client=$!
	sleep 1
	# Its channels are cut as by a router that lost its table: both ends hear a reset.
	there ss -K src 10.9.2.2 >/dev/null 2>&1
	wait $client
	status=$? ran="$*"
	if tail -n +$((lines + 1)) "$tmp/rftpd.log" | cat - "$tmp/err" | grep -q 'is lost'; then
		check "$what: a path is lost in the middle: whole nevertheless" status_is 0
		check "$what: the same" cmp "$tmp/big" "$([ $what = put ] && echo "$tmp/root/six" || echo "$tmp/six")"
	else
		skip "$what: a path is lost in the middle" "sockets cannot be closed from outside here"
	fi
done

# ---- settings of one card ----

stop_server
there ip addr add 10.9.5.2/24 dev far2
ip addr add 10.9.5.1/24 dev near2
printf '[nic far2]\ndata-address 10.9.5.2\ndata-ports 7400-7400\n' >"$tmp/conf"
serve --nic far1,far2 --config "$tmp/conf"
run rftp put -v --nic near1,10.9.5.1 "$tmp/big" "$url/seven"
check "a card's own address" status_is 0
check "is that for data" grep -q 'path 1: near2 (10.9.5.1) - far2 (10.9.5.2)' "$tmp/err"
check "the same" same "$tmp/big" "$tmp/root/seven"
nsenter -t "$far" -n python3 -c 'import socket, time
s = socket.create_server(("10.9.5.2", 7400))
open("'"$tmp"'/taken", "w").close()
time.sleep(600)' &
others+=($!)
patience 20 test -e "$tmp/taken"
run rftp put -v --nic near1,10.9.5.1 "$tmp/big" "$url/eight"
check "the card's only port is taken" grep -q 'no data port free' "$tmp/err"
stop_server
printf '[nic far2]\ndata-address 10.9.5.2\ndata-ports 7400-7401\n' >"$tmp/conf"
serve --nic far1,far2 --config "$tmp/conf"
run rftp put -v --nic near1,10.9.5.1 "$tmp/big" "$url/eight"
check "until there is one more" grep -q 'path 1: near2 (10.9.5.1) - far2 (10.9.5.2)' "$tmp/err"
stop_server
printf '[nic far1]\ndata-ports 7410-7410\n[nic far2]\ndata-ports 7411-7411\n' >"$tmp/conf"
serve --plain --config "$tmp/conf"
asked() { # the port that FTP's clients are told
	python3 - <<'END'
import ftplib
f = ftplib.FTP()
f.connect('10.9.1.2', 7321, 20)
f.login('anonymous', 'x')
print(f.sendcmd('EPSV'))
END
}
check "FTP's data has those of the card of the control connection" test "$(asked | grep -o '|||[0-9]*|')" = '|||7410|'

kill "${others[@]}"
finish
