#!/bin/bash
# shellcheck disable=SC2034 # status and ran are for lib.sh
# rftp cp: from a server to another, with the client in a third network namespace. TAP.

. "${top_srcdir:?}/tests/e2e/own-net.bash"
. "${top_srcdir:?}/tests/e2e/lib.sh"
need openssl python3

# Here is the client. Its networks with the source (10.8.1) and the sink (10.8.2) are not joined;
# the two have one of their own (10.8.3).
declare -A space
for host in source sink; do
	unshare -n sleep 900 &
	others+=($!)
	space[$host]=$!
	patience 10 test "$(readlink "/proc/$!/ns/net")" != "$(readlink /proc/self/ns/net)"
done
at() { # HOST COMMAND...
	local pid=${space[$1]}
	shift
	nsenter -t "$pid" -n "$@"
}
wire() { # NETWORK HOST-OR-NOTHING ADDRESS HOST ADDRESS
	local near=(ip) pid=$$
	[ -z "$2" ] || { near=(at "$2" ip); pid=${space[$2]}; }
	ip link add "w$1" netns "$pid" type veth peer name "w$1" netns "${space[$4]}" ||
		skip_all "no virtual network cards here"
	"${near[@]}" addr add "10.8.$1.$3/24" dev "w$1"
	"${near[@]}" link set "w$1" up
	at "$4" ip addr add "10.8.$1.$5/24" dev "w$1"
	at "$4" ip link set "w$1" up
}
wire 1 '' 1 source 2
wire 2 '' 1 sink 3
wire 3 source 2 sink 3
for host in source sink; do at $host ip link set lo up; done
join() { at source ip route add 10.8.2.0/24 via 10.8.3.3; }
join
a=rftp://10.8.1.2 b=rftp://10.8.2.3

declare -A pid
serve() { # HOST ADDRESS OPTION...
	local host=$1 addr=$2
	shift 2
	rm -f "$tmp/$host.port"
	nsenter -t "${space[$host]}" -n rftpd --one-process --listen "$addr:7321" --root "$tmp/$host" --state "$tmp/$host.state" \
		--port-file "$tmp/$host.port" -v "$@" </dev/null >>"$tmp/$host.log" 2>&1 &
	pid[$host]=$!
	servers+=("$!")
	patience 20 test -s "$tmp/$host.port"
}
mkdir "$tmp/source" "$tmp/sink"
serve source 10.8.1.2 --anonymous ro --third-party all
serve sink 10.8.2.3 --anonymous rw --third-party all
copy() { run rftp cp -q --accept-new "$@"; }
idle() { no_children "${pid[source]}" && no_children "${pid[sink]}"; }
bytes_here() { awk '$1 ~ /^w[12]:$/ { n += $2 + $10 } END { print n }' /proc/net/dev; }

# ---- a file, a tree ----

random "$tmp/source/big" 30000000
before=$(bytes_here)
copy "$a/big" "$b/big"
check "a file" status_is 0
check "is the same there" same "$tmp/source/big" "$tmp/sink/big"
check "has its time" test "$(stat -c %Y "$tmp/source/big")" = "$(stat -c %Y "$tmp/sink/big")"
check "has not come by here" test $(($(bytes_here) - before)) -lt 1000000
check "nobody is left at work" patience 10 idle

"$lib/make-tree" "$tmp/source/tree"
copy -r "$a/tree" "$b/"
check "a tree, with all kinds of names" status_is 0
check "is the same there" same_trees "$tmp/source/tree" "$tmp/sink/tree"
copy -r "$a/tree/" "$b/contents"
check "its contents" same_trees "$tmp/source/tree" "$tmp/sink/contents"

mkdir "$tmp/source/few"
for i in 1 2 3; do echo "$i" >"$tmp/source/few/$i"; done
mkdir "$tmp/sink/into"
copy "$a/few/1" "$a/few/2" "$b/into/"
check "several files, into a directory" test "$(cat "$tmp/sink/into/"*)" = $'1\n2'
copy "$a/few/1" "$a/few/2" "$b/into/x"
check "which must be one" fails_with 2 'need a directory'
printf '2\n3\n' >"$tmp/list"
copy --files-from "$tmp/list" "$a/few" "$b/listed"
check "those of a list" status_is 0
check "and no others" test "$(ls "$tmp/sink/listed")" = $'2\n3'

run rftp cp --dry-run --accept-new -r "$a/few" "$b/dry"
check "a dry run" status_is 0
check "says what it would do" grep -q 'few/2' "$tmp/out"
check "and does nothing" not test -e "$tmp/sink/dry"
echo changed >"$tmp/sink/into/1"
copy --skip-existing "$a/few/1" "$b/into/"
check "what exists is left alone when asked" test "$(cat "$tmp/sink/into/1")" = changed

# ---- in the shell, one session with each ----

logins() { cat "$tmp/source.log" "$tmp/sink.log" | grep -c 'login of'; }
logins=$(logins)
run rftp --accept-new -c "cd few; cp 1 $b/shell1; cp [23] $b/into/; pwd; cp nix $b/x; ls" -k "$a/"
check "cp in the shell, one that fails among them" status_is 1
check "a file" same "$tmp/source/few/1" "$tmp/sink/shell1"
check "a pattern" test "$(cat "$tmp/sink/into/3")" = 3
check "the session goes on" grep -q ' 3$' "$tmp/out"
check "it is one with each" test $(($(logins) - logins)) -eq 2

# ---- its messages ----

for prot in clear safe private; do
	copy --json --prot $prot "$a/big" "$b/$prot"
	check "by --prot $prot" status_is 0
	check "so it is said" test "$(summary prot) $(summary transport)" = "$prot tcp"
	check "the same" same "$tmp/source/big" "$tmp/sink/$prot"
done
check "the bytes" test "$(summary bytes)" = 30000000
check "the channels' bytes make more than that" python3 -c "
import sys; sys.exit(sum($(summary channels)) < 30000000)"
copy --json --rate 15M "$a/big" "$b/slow"
both_tell() {
	grep '"progress"' "$tmp/out" | grep -q '"at":"sink"' &&
		grep '"progress"' "$tmp/out" | grep -qv '"at":"sink"'
}
check "both tell how far it is" both_tell
copy --json --ack verified --block 1M --channels 3 "$a/big" "$b/wishes"
check "what is wished for is agreed" grep -q '"ack":"verified".*"channels":3,.*"block":1048576' "$tmp/out"
run rftp cp --accept-new --progress always "$a/big" "$b/shown"
check "people see it, too" grep -Eq '28\.6 MiB in .*1 file' "$tmp/err"

# ---- failures at each end ----

copy "$a/nix" "$b/x"
check "a file that is not there" fails_with 1 '10.8.1.2: /nix: No such file'
copy "$a/few" "$b/x"
check "a directory without -r" status_is 1
copy "$a/big" "$b/no/such/dir"
check "a directory that is not there" status_is 1
check "is the sink's complaint" grep -q 'no/such' "$tmp/err"
copy "$a/big" "$tmp/here"
check "to here" fails_with 2 'is on a server: rftp get copies from there'
copy "$tmp/list" "$b/x"
check "from here" fails_with 2 'is not on a server: rftp put copies to there'
copy "$a/big" "$b/big" "$a/x"
check "from two servers" fails_with 2 'another server'
copy "$a/big"
check "no destination" fails_with 2 'both URLs'
copy "$a/big" rftp://10.8.2.3:9/x
check "a sink that does not answer" fails_with 3 '10\.8\.2\.3 port 9: Connection refused|refused'
at source ip route del 10.8.2.0/24
copy --connect-timeout 2s "$a/big" "$b/x"
check "a sink that the source has no way to" status_is 3
check "says which of the three it is" said '10\.8\.1\.2 cannot reach 10\.8\.2\.3: .*(unreachable|timed out|No route)'
check "nobody is left at work" patience 10 idle
join
copy "$b/big" "$a/x"
check "a sink that may only be read" fails_with 1 '10\.8\.1\.2.*may only read'
check "nobody is left at work" patience 10 idle

# ---- rights ----

kill "${pid[source]}"
patience 15 gone "${pid[source]}"
serve source 10.8.1.2 --anonymous ro
copy "$a/big" "$b/x"
check "anonymous may not have it sent elsewhere unless told" fails_with 1 \
	'10\.8\.1\.2.*anonymous may not copy to another server'
kill "${pid[source]}"
patience 15 gone "${pid[source]}"
serve source 10.8.1.2 --anonymous ro --third-party off
copy "$a/big" "$b/x"
check "nobody may" fails_with 3 '10\.8\.1\.2 does not copy from server to server'
kill "${pid[source]}"
patience 15 gone "${pid[source]}"

# A user at each server; neither server may get the password of the other.
echo "ann:$(echo one-password | rftpd --hash-password 2>/dev/null):::rw" >"$tmp/users.source"
echo "bob:$(echo two-password | rftpd --hash-password 2>/dev/null):::rw" >"$tmp/users.sink"
chmod 600 "$tmp"/users.*
kill "${pid[sink]}"
patience 15 gone "${pid[sink]}"
serve source 10.8.1.2 --users "$tmp/users.source"
serve sink 10.8.2.3 --users "$tmp/users.sink"
printf 'machine 10.8.1.2 login ann password one-password\nmachine 10.8.2.3 login bob password two-password\n' >"$HOME/.netrc"
chmod 600 "$HOME/.netrc"
copy "$a/few/3" "$b/users"
check "users with passwords" status_is 0
check "copy" same "$tmp/source/few/3" "$tmp/sink/users"
rm "$HOME/.netrc"

# ---- interrupted copies ----

for p in "${pid[@]}"; do kill "$p"; done
for p in "${pid[@]}"; do patience 15 gone "$p"; done
serve source 10.8.1.2 --anonymous rw --third-party all
serve sink 10.8.2.3 --anonymous rw
random "$tmp/source/long" 120000000

begin() { # NAME OPTION...: in the background, until some of it is there
	local name=$1
	shift
	ran="rftp cp long $name, and it is broken off"
	# A shell's background commands ignore SIGINT.
	env --default-signal=INT rftp cp --json --accept-new --rate 10M "$@" "$a/long" "$b/$name" \
		</dev/null >"$tmp/out" 2>"$tmp/err" &
	client=$!
	patience 30 part_has 12000000
}
part_has() { # BYTES
	local part
	part=$(find "$tmp/sink" -maxdepth 1 -name '.rftp-*' -size +1M 2>/dev/null | head -n 1)
	[ -n "$part" ] && [ "$(du -B1 "$part" | cut -f1)" -ge "$1" ]
}
ended() { wait "$client"; status=$?; }

begin int
kill -INT "$client"
ended
check "an interrupt ends it, resumable" status_is 4
check "so it is said" grep -q 'the same command resumes the transfer' "$tmp/err"
check "both servers stop" patience 10 idle
check "nothing half-done has its name" not test -e "$tmp/sink/int"
copy --json "$a/long" "$b/int"
check "the same command" status_is 0
check "goes on from there" test "$(summary resumed)" -ge 8000000
check "to the end" same "$tmp/source/long" "$tmp/sink/int"

begin kill
kill -KILL "$client"
wait "$client" 2>/dev/null
check "both servers stop when the client is gone" patience 15 idle
rm -f "$tmp"/sink/.rftp-*

declare -A names=([source]=10.8.1.2 [sink]=10.8.2.3)
for host in source sink; do
	begin "$host"
	kill -KILL "$(children "${pid[$host]}")"
	ended
	check "when the $host's session dies, it is tried again" status_is 0
	check "so it is said" grep -q '"event":"retry"' "$tmp/out"
	check "with its name" grep -q "${names[$host]}.*trying again" "$tmp/err"
	check "to the end" same "$tmp/source/long" "$tmp/sink/$host"
	check "nobody is left at work" patience 10 idle
	# The part of the broken attempt has become the file.
	check "and no part" no_parts "$tmp/sink"
done

begin cut --retries 0
at source ip link set w3 down
at source ip route flush 10.8.2.0/24 2>/dev/null
kill -INT "$client"
ended
check "an interrupt while the two have lost each other" status_is 4
check "both servers stop" patience 40 idle

# A door that is open, and a client that waits, do not keep a server from its end.
at source ip link set w3 down
ran="rftp cp, the sink out of reach"
rftp cp --connect-timeout 50s "$a/long" "$b/never" </dev/null >"$tmp/out" 2>"$tmp/err" &
client=$!
door_is_open() { at sink ss -Hltn | grep -qv :7321; }
patience 10 door_is_open
kill "${pid[sink]}"
check "a server that is to end shuts its door" patience 10 gone "${pid[sink]}"
kill -KILL "$client"
wait "$client" 2>/dev/null
check "and the other is free again" patience 15 no_children "${pid[source]}"
at source ip link set w3 up
at source ip addr add 10.8.3.2/24 dev w3 2>/dev/null
join
rm -f "$tmp"/sink/.rftp-*

# ---- a stolen token ----

for p in "${pid[@]}"; do kill "$p"; done
for p in "${pid[@]}"; do patience 15 gone "$p"; done
for k in mine other; do
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=x \
		-keyout "$tmp/$k.key" -out "$tmp/$k.crt" 2>/dev/null
	cat "$tmp/$k.key" "$tmp/$k.crt" >"$tmp/$k.pem"
done
start_server thief --root "$tmp/sink" --anonymous rw --plain --third-party all
echo secret >"$tmp/sink/secret"
python3 "$lib/third-thief.py" "$port" "$tmp" </dev/null >"$tmp/thief" 2>&1
ran="third-thief.py"
status=$?
tell() { comment <"$tmp/thief"; }
thief() { # NAME HOW
	grep -Eqx "$1: $2" "$tmp/thief" || { tell; return 1; }
}
check "the key, or the token, of somebody else" thief strangers "\['shut out'\] then 550"
check "another path" thief 'another path' '550 The token is for another destination; .* 451'
check "a path below it" thief 'a path below' '550 The token is for another destination; .* 451'
check "a get" thief 'a get' '550 The token is for putting something here; .* 451'
check "a bench" thief 'a bench' '550 The token is for putting something here; .* 451'
check "a copy that replaces differently" thief 'a replacing copy' '550 The token is for another kind of copy; .* 451'
check "one with more" thief attributes '550 The token is for another kind of copy; .* 451'
check "another command" thief 'no bulk' '71 451'
check "a source that dribbles stays no longer than the client" thief dribble ends
check "a sink does not have us look for services" thief 'bounce to a service' \
	'the server wants data at its own address, port 25, which it may not choose; 451'
check "nor at other hosts" thief 'bounce to a host' \
	'the server wants data at 192\.0\.2\.1 port 40000, which it may not choose; 451'
check "the token goes to nobody but the sink's key" thief 'sink has another key' \
	'1 127.0.0.1 port [0-9]* has another key than the other server; None'
check "a door is at no service's port" thief 'low port' closed
check "nor may it take for ever to get there" thief 'too long' 501
check "a sink that says nothing holds us no longer than the client" thief 'gone while shaking' ends
check "the token twice" thief twice '150, shut out, shut out; 451'
check "too late" thief late '1 s, the other server did not come to, 451, shut out'
check "no client has it open for long" thief long '60 s, 4'
check "a client that goes shuts it" thief gone shut
check "a crowd before it" thief crowd 550
check "requests that make no sense" thief malformed '\[200, 501.*\]'
check "what cannot be private is refused" thief 'without tls, private' 522
check "nothing else" not grep -q 'bad$' "$tmp/thief"
check "the server is well" stops_well

finish
