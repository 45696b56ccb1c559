#!/bin/bash
# shellcheck disable=SC2034,SC2154,SC2317 # lib.sh sets, reads and calls them
# Messages about transfers: progress, the plan of a dry run, errors in a command,
# interruptions. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
need python3

mkdir "$tmp/root" "$tmp/here"
random "$tmp/root/big" 6000000
nobody=rftp://127.0.0.1:1
start_server d --root "$tmp/root" --anonymous rw

# events NAME EXPRESSION: count the events NAME of the last command's --json for which the Python
# EXPRESSION over e is true
events() {
	python3 -c '
import json, sys
print(sum(bool(eval(sys.argv[3])) for e in map(json.loads, open(sys.argv[1], errors="replace"))
          if e["event"] == sys.argv[2]))' "$tmp/out" "$@"
}

# ---- how far it is ----

get --json --rate 2M "$url/big" "$tmp/here/"
check "a get" status_is 0
check "knows on the way how much there is" \
	test "$(events progress 'e["walked"] and e["bytes"] < e["bytes_known"] == 6000000')" -ge 1
check "and that --rate holds it up" test "$(events progress 'e.get("bottleneck") == "rate"')" -ge 1
put --json --rate 2M "$tmp/root/big" "$url/p"
check "a put" status_is 0
check "knows that, too" test "$(events progress 'e.get("bottleneck") == "rate"')" -ge 1
run_stdin rftp put -q --json --rate 100M - "$url/p" < <(head -c 3000000 "$tmp/root/big" && sleep 2)
check "a rate that is not reached" test "$(events progress True)" -ge 1
check "holds nothing up" test "$(events progress 'e.get("bottleneck") == "rate"')" -eq 0

check "knows of a pipe what has come, not how much there is" \
	test "$(events progress 'e["bytes_known"] == 0 and e["bytes"] > 0')" -ge 1 -a \
	"$(events progress 'e["bytes_known"] not in (0, 3000000)')" -eq 0
main=$url
if has_faults; then
	# A sink that takes a tenth of a second for a block; the window has room for all of them.
	RFTP_FAULT=stall start_server slow --root "$tmp/root" --anonymous rw
	put --json --block 64K --channels 1 --inflight 128 --prot clear "$tmp/root/big" "$url/p"
	check "a slow sink" status_is 0
	check "is not taken for a slow source, when all has been read" \
		test "$(events progress 'e.get("bottleneck", "").split()[:1] in (["sink"], ["network"], ["credits"])')" -ge 1 -a \
		"$(events progress 'e.get("bottleneck", "").startswith("source")')" -eq 0
	stop_server
	server=${servers[0]} url=$main
else
	skip "a slow sink" "$no_faults"
fi

# ---- limits of the client's process ----

if sanitized; then
	skip "too little memory" "a sanitizer needs more"
else
	for mb in 15 20 25 30; do
		run prlimit --data=${mb}000000 rftp put -q --accept-new --retries 1 "$tmp/root/big" "$url/q$mb"
		check "too little memory, $mb MB: no attempt again, no promise" \
			test "$status" -le 1 -a "$(grep -Ec 'trying again|goes on from|resumes the transfer' "$tmp/err")" -eq 0
	done
fi

# ---- limits of the server's process ----

as_server=(prlimit --fsize=2000000)
start_server small --root "$tmp/root" --anonymous rw
as_server=()
put "$tmp/root/big" "$url/q"
check "a file beyond RLIMIT_FSIZE of the server: 1" fails_with 1 'q: .*File too large'
check "its log grows to the limit" python3 - "$(readlink "/proc/$server/fd/2")" <<'PYTHON'
import os, sys
# A sparse end, so that the next line would lie behind the limit.
os.truncate(sys.argv[1], 2_000_000)
PYTHON
run rftp ls --accept-new "$url/"
check "and it still answers" status_is 0
stop_server
server=${servers[0]} url=$main

# ---- interruptions by a signal ----

# stops WHEN COMMAND...: SIGTERM as soon as WHEN succeeds
stops() {
	local when=$1 pid
	shift
	# shellcheck disable=SC2034 # lib.sh shows it
	ran="$*"
	"$@" >"$tmp/out" 2>"$tmp/err" &
	pid=$!
	others+=("$pid")
	patience 20 "$when"
	kill "$pid"
	wait "$pid"
	status=$?
}
# A server that takes connections and says nothing.
python3 -c '
import os, socket, sys
s, kept = socket.create_server(("127.0.0.1", 0)), []
with open(sys.argv[1] + ".new", "w") as f:
    f.write(f"rftp://127.0.0.1:{s.getsockname()[1]}")
os.rename(sys.argv[1] + ".new", sys.argv[1])
while True:
    kept.append(s.accept())
    open(sys.argv[2], "w").close()' "$tmp/mute" "$tmp/called" &
others+=($!)
patience 20 test -s "$tmp/mute"
called() { test -e "$tmp/called"; }
stops called rftp put -q --json "$tmp/root/big" "$(cat "$tmp/mute")/x"
check "SIGTERM while it connects: 4" status_is 4
check "--json: a summary all the same" test "$(summary exit)" = 4
check "with the reason" test "$(summary error)" = interrupted
rm "$tmp/called"
stops called rftp bench -q --json "$(cat "$tmp/mute")"
check "bench: 4" status_is 4
check "--json: a summary all the same" test "$(summary exit)" = 4
run rftp bench --json "$nobody"
check "bench that cannot connect" test "$status" -eq 3 -a "$(summary exit)" = 3

main_server=$server main_url=$url
start_server gone --root "$tmp/root" --anonymous rw
gone_server=$server
# The server dies in the middle, and does not come back.
waits_again() {
	if grep -q '"event":"progress"' "$tmp/out"; then
		for p in $(children "$gone_server"); do kill -KILL "$gone_server" "$p"; done
	fi
	grep -q '"event":"retry"' "$tmp/out"
}
stops waits_again rftp put -q --accept-new --json --rate 1M "$tmp/root/big" "$url/gone"
check "SIGTERM while it waits to connect again: 4" status_is 4
check "--json: a summary" test "$(summary exit)" = 4
check "with the attempts there were" test "$(summary retries)" -ge 1
check "and how far it got" test "$(summary bytes)" -ge 1
server=$main_server url=$main_url

# ---- links out of the root ----

out='on the server: .*Permission denied \(it leads out of the root\)$'
ln -s /etc/passwd "$tmp/root/out"
ln -s / "$tmp/root/up"
mkdir "$tmp/root/sub"
for path in ../../etc/passwd sub/../../x up/x; do
	get -r "$url/$path" "$tmp/here/"
	check "get $path" fails_with 1 "$out"
	put "$tmp/root/big" "$url/$path"
	check "put $path" fails_with 1 "$out"
	put -r "$tmp/root/sub" "$url/$path/"
	check "put -r to $path/" fails_with 1 "$out"
done
get "$url/out" "$tmp/here/"
check "get of a link that leads out" fails_with 1 "$out"
# Whether there is a file, a directory, a device, nothing, or a place that may not be looked into.
mkdir -m 0 "$tmp/closed"
leading=(out up device gone closed)
ln -s /dev/null "$tmp/root/device"
ln -s ../nothing "$tmp/root/gone"
ln -s "$tmp/closed/x" "$tmp/root/closed"
get -r --follow "$url/" "$tmp/here/"
check "of a tree with such links, followed" status_is 1
one_answer() { # a line for each, with the same words behind the name
	[ "$(grep -cE "$out" "$tmp/err")" -eq "${#leading[@]}" ] &&
		[ "$(sed -E 's,: /(out|up|device|gone|closed): ,: ,' "$tmp/err" | sort -u | wc -l)" -eq 1 ]
}
check "one answer, whatever is there" one_answer
check "and nothing comes of them" test -z "$(cd "$tmp/here" && ls -d "${leading[@]}" 2>/dev/null)"
rm "${leading[@]/#/$tmp/root/}"

# ---- options without effect ----

run rftp put --accept-new --transport tcp --op read "$tmp/root/big" "$url/by-tcp"
check "--op by TCP: a word, and it goes on" test "$status" -eq 0 -a "$(grep -c -e '--op is for RDMA, but the data goes by tcp' "$tmp/err")" -eq 1
run rftp bench --accept-new --transport tcp --op read --size 1M "$url"
check "bench says so, too" test "$status" -eq 0 -a "$(grep -c -e '--op is for RDMA' "$tmp/err")" -eq 1
rm "$tmp/root/by-tcp"

# ---- errors in a command ----

# The error comes before any question.
if ! rftp --version | grep -q +rdma; then
	put --transport rdma "$tmp/root/big" "$nobody/x"
	check "--transport rdma where there is none" fails_with 2 '--transport rdma: this build has no RDMA'
	echo 'transport rdma' >"$tmp/conf"
	get --config "$tmp/conf" "$nobody/x" "$tmp/here/"
	check "the same in rftp.conf" fails_with 2 '--transport rdma: this build has no RDMA'
	run rftp ls -q --accept-new --config "$tmp/conf" "$url/"
	check "which other commands do not mind" status_is 0
fi

run rftp get "$tmp/root/big" "$url/x"
check "get where put was meant" fails_with 2 'is not on a server: rftp put '
run rftp put "$url/big" "$tmp/here/"
check "put where get was meant" fails_with 2 'is on a server: rftp get '
run rftp ls --ssh false rftp:/x
check "a slash too few" fails_with 3 'did you mean rftp://\?'

# ---- the summary ----

mkdir "$tmp/root/dir"
run rftp get --accept-new "$url/big" "$tmp/here/same"
run rftp get --skip-same "$url/big" "$tmp/here/same"
check "all left alone: no rate" grep -qx '0 B in [0-9.]* s, 0 files, 1 left alone' "$tmp/err"
printf 'nothing\n' >"$tmp/names"
get --files-from "$tmp/names" "$url/dir/" "$tmp/here/"
check "a name of a list is told with one slash" fails_with 1 ': /dir/nothing: No such file'

put --json "$tmp/root/big" "$url/missing/x"
check "into a missing directory: one has failed" test "$status" -eq 1 -a "$(summary failed)" = 1
run rftp ls "$url/*.dat"
check "a pattern in a URL is shown as it was given" fails_with 1 '/\*\.dat: No such file'

# ---- dry runs ----

mkdir -p "$tmp/tree/dir/empty" "$tmp/root/from" "$tmp/root/to/tree/dir"
random "$tmp/tree/file" 1000
ln "$tmp/tree/file" "$tmp/tree/dir/name"
ln -s file "$tmp/tree/dir/link"
ln -s file "$tmp/tree/kept"
ln -s old "$tmp/root/to/tree/kept"
cp -a "$tmp/tree" "$tmp/root/from/"
cp -a "$tmp/root/to" "$tmp/here/to"
# dry NAME OF TO LINES COMMAND...: it prints LINES, each below the directory TO
dry() {
	local what=$1 to=$2 wanted=$3
	shift 3
	run "$@"
	check "$what --dry-run" status_is 0
	check "$what --dry-run tells of all" test "$(sed "/^to copy: /d; s,^$to,," "$tmp/out" | sort)" = "$wanted"
}
all='/dir/
/dir/empty/
/dir/link (4 B)
/dir/name (1000 B)
/file (1000 B)
/kept (4 B)'
some='/dir/empty/
/dir/link (4 B)
/dir/name (1000 B)
/file (1000 B)
/kept (4 B), left alone'
dry put "$tmp/tree" "/
$all" rftp put --dry-run -r "$tmp/tree" "$url/new"
dry get "$tmp/here/new" "/
$all" rftp get --dry-run -r "$url/from/tree" "$tmp/here/new"
dry "put --skip-existing" "$tmp/tree" "$some" rftp put --dry-run -v --skip-existing -r "$tmp/tree" "$url/to/"
dry "get --skip-existing" "$tmp/here/to/tree" "$some" \
	rftp get --dry-run -v --skip-existing -r "$url/from/tree" "$tmp/here/to/"
run rftp put --dry-run --json -r "$tmp/tree" "$url/new"
check "a directory has no bytes" test "$(grep -c '"event":"file","bytes":0,.*/"' "$tmp/out")" -eq 3
check "nothing is made" test ! -e "$tmp/here/new" -a ! -e "$tmp/root/new" -a ! -e "$tmp/root/to/tree/dir/link"

# ---- --log-file ----
run rftp put -q -r --log-file "$tmp/log" "$tmp/tree" "$url/logged"
check "--log-file: nothing more is printed" test ! -s "$tmp/out" -a ! -s "$tmp/err"
check "--log-file: each file, with date and time" grep -qE '^[-0-9]+T[:0-9+]+ rftp\[[0-9]+\]: info: .*tree/file \(' "$tmp/log"
check "--log-file: the summary" grep -qE ' files?(, .*)?$' "$tmp/log"
run rftp put -q --log-file "$tmp/log" "$tmp/none" "$url/logged"
check "--log-file: errors go to both" test "$(grep -c 'none: No such file' "$tmp/log" "$tmp/err" | grep -c ':1$')" = 2
run rftp put -q --log-file "$tmp/none/log" "$tmp/tree/file" "$url/logged2"
check "--log-file: a directory that does not exist" grep -q 'log file: .*none/log: cannot be written: No such file' "$tmp/err"
check "--log-file: then nothing is copied" test ! -e "$tmp/root/logged2"

check "the server ends well" stops_well
finish
