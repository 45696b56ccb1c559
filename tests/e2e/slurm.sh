#!/bin/bash
# rftp-slurm with a Slurm cluster of four nodes: put, get, sync, status, cancel, retry; time limits;
# nodes, tasks and last jobs that are killed; servers that go away, full sinks. TAP.
# shellcheck disable=SC2034,SC2317,SC2154 # for lib.sh; check calls them

. "${top_srcdir:?}/tests/e2e/lib.sh"
need python3
skip_with_sanitizers
. "${top_srcdir:?}/tests/e2e/slurm.bash"

trap 'stop_cluster; cleanup' EXIT
check "a cluster of four nodes" start_cluster 4 2 || finish

# Neither the password nor the token may get into a job.
password=right-horse-$$
export SOME_TOKEN=hush-hush-$$
mkdir "$tmp/root" "$tmp/got"
printf 'alice:%s:%s:/:rw\n' "$(echo "$password" | rftpd --hash-password)" "$tmp/root" >"$tmp/users"
printf 'machine 127.0.0.1 login alice password %s\n' "$password" >"$HOME/.netrc"
chmod 600 "$HOME/.netrc"
start_server d --root "$tmp/root" --users "$tmp/users"
url=rftp://alice@127.0.0.1:$port
run rftp ls --accept-new "$url/"
src=$tmp/src
mkdir -p "$src/d" "$tmp/few" "$tmp/none"
for i in {1..400}; do random "$src/d/f$i" 50000; done
truncate -s 2200M "$src/big"
for at in 1 900 1200 2100; do
	head -c 3000000 /dev/urandom | dd of="$src/big" bs=1M seek=$at conv=notrunc status=none
done
ln -s f1 "$src/d/link"
touch -d '2021-02-03 04:05:06' "$src/d"
echo 1 >"$tmp/few/1"
echo 2 >"$tmp/few/2"

states=$tmp/states
slurm_() { # COMMAND...
	limit=240 run rftp-slurm "$1" --dir "$states" "${@:2}"
}
# begin NAME COMMAND...: without --wait; sets id
begin() {
	slurm_ "$@"
	id=$(tail -n 1 "$tmp/out")
}
# after_all ID: its jobs have ended
after_all() { patience 120 no_jobs_of "$1"; }
no_jobs_of() { [ -z "$(squeue --noheader --name="rftp-$1")" ]; }
says() { slurm_ status "$1" && grep -q "^$1  $2  " "$tmp/out"; } # ID STATE
moving() { find "$tmp/root/$1" -type f 2>/dev/null | grep -q .; } # DIR
runs() { grep -c '"event":"run"' "$states/$1/shard-$2.jsonl"; } # ID LIST
done_items() { cat "$states/$1"/plan/shard-????.result.jsonl | grep -c '"event":"done".*}$'; }
items() { sed 1d -s "$states/$1"/plan/shard-????.jsonl | wc -l; }
# complete_lists ID: the lists that are done, each with the number of its runs
complete_lists() {
	local n list
	for list in "$states/$1"/plan/shard-????.jsonl; do
		n=$((10#${list:(-10):4}))
		[ "$(sed 1d "$list" | wc -l)" -gt \
			"$(cat "${list%.jsonl}.result.jsonl" 2>/dev/null | grep -c '"event":"done".*}$')" ] ||
			echo "$n $(runs "$1" "$n")"
	done
}
# json FILE EXPRESSION: it is true of the object e in FILE
json() {
	python3 -c 'import json, sys
e = json.load(open(sys.argv[1]))
sys.exit(not eval(sys.argv[2]))' "$@"
}
# warned TEXT: in one line
warned() { [ "$(grep -c -e "$1" "$tmp/err")" -eq 1 ]; }
logs() { tail -n 4 "$states/$1"/*.log | comment; }

# ---- put ----

slurm_ put --nodes 4 -a --rate 1M "$src/" "$url/to" --wait
check "put" status_is 0
check "the report: complete, and how fast" grep -q ': complete: 401 files, .*/s$' "$tmp/out"
check "the report: the slowest list" grep -q 'slowest: list [1-4] on n[1-4], ' "$tmp/out"
check "the trees are equal" same_trees "$src" "$tmp/root/to"
check "no parts are left" no_parts "$tmp/root/to"
one=$(ls "$states")
report=$states/$one/report.json
check "four hosts, each with a rate" json "$report" \
	'len(e["hosts"]) == 4 and all(h["bytes_per_second"] > 0 for h in e["hosts"])'
check "all lists ran at the same time" json "$report" \
	'max(l["begun"] for l in e["lists"]) < min(l["begun"] + l["seconds"] for l in e["lists"])'
check "the drawing is XML" python3 -c 'import sys, xml.dom.minidom as m; m.parse(sys.argv[1])' \
	"$states/$one/rates.svg"
run rftp verify -q --alg CRC32C "$states/$one/manifest" "$src"
check "the manifest" status_is 0
check "only its user can read the state" test "$(stat -c %a "$states/$one")" = 700
slurm_ status "$one"
check "status: each list" test "$(grep -c '^  list [1-4]  ' "$tmp/out")" -eq 4
slurm_ status --json
check "status as JSON" json "$tmp/out" \
	'e["state"] == "complete" and e["done"] == e["items"] and not e["jobs"]'
check "to wait again" slurm_ wait "$one"
check "gives the same report" same "$tmp/out" "$states/$one/report.txt"

# ---- a time limit: Slurm warns between 30 and 60 seconds after the start ----

begin put --nodes 1 --time 2 -a --rate 250K "$src/d/" "$url/limit"
long=$id
check "a copy of a minute, in jobs of less" status_is 0

# ---- get, sync ----

slurm_ get --nodes 1 --tasks-per-node 2 -a "$url/to/" "$tmp/got/to" --wait
check "get by two tasks on a node" status_is 0
check "the trees are equal" same_trees "$src" "$tmp/got/to"
cp -a "$src" "$tmp/changed"
rm "$tmp/changed/d/f7"
echo new >"$tmp/changed/d/f8"
mkdir "$tmp/bin"
cat >"$tmp/bin/squeue" <<END
#!/bin/sh
echo x >>"$tmp/asked"
[ "\$(wc -l <"$tmp/asked")" -ne 2 ] || { echo "squeue: error: no answer" >&2; exit 1; }
exec $(command -v squeue) "\$@"
END
chmod +x "$tmp/bin/squeue"
PATH=$tmp/bin:$PATH slurm_ sync --nodes 2 --delete -a "$tmp/changed/" "$url/to" --wait
check "sync, with a squeue that fails once" status_is 0
check "which is told" grep -q 'squeue: .*no answer; asking again' "$tmp/err"
check "sync --delete" same_trees "$tmp/changed" "$tmp/root/to"
slurm_ put --nodes 3 -a "$tmp/few/" "$url/few" --wait
check "more hosts than files" test "$status" -eq 0 -a "$(ls "$tmp/root/few")" = "$(ls "$tmp/few")"
begin put --nodes 2 "$tmp/none/" "$url/none"
check "an empty source; without --wait the id is printed" test "$status" -eq 0 -a -d "$states/$id"
slurm_ wait "$id"
check "becomes an empty directory" test "$status" -eq 0 -a -d "$tmp/root/none"
# As if rftp-slurm had been killed while it planned.
mkdir -p "$states/halfway/plan"
sed 's/"submission": 1/"submission": 0/' "$states/$id/job.json" >"$states/halfway/job.json"
check "a state without a plan" says halfway 'not planned'
slurm_ retry halfway --wait
check "retry plans it" status_is 0

# ---- cancel, retry, and the environment of jobs ----

job_environments() { # ID
	local env
	for env in /proc/[0-9]*/environ; do
		! grep -qsz "^SLURM_JOB_NAME=rftp-$1\$" "$env" || tr '\0' '\n' 2>/dev/null <"$env"
	done
}
begin put --nodes 3 -a --rate 1M "$src/" "$url/two"
two=$id
check "it runs" patience 60 moving two
job_environments "$two" >"$tmp/env"
check "jobs have HOME" grep -qx "HOME=$HOME" "$tmp/env"
check "and no other variables of the user" not grep -q "$SOME_TOKEN\|$password" "$tmp/env"
check "no secret is in scripts, states and Slurm's files" not grep -rqs -e "$SOME_TOKEN" \
	-e "$password" "$states" "$slurm/state" "$slurm/spool"
slurm_ retry "$two"
check "retry while it runs" test "$status" -eq 1
check "is refused" warned 'jobs have not ended'
slurm_ cancel "$two"
check "cancel" status_is 0
check "its jobs have ended" no_jobs_of "$two"
check "rftp stopped in good order" grep -q '"event":"summary","exit":4' "$states/$two/shard-3.jsonl"
check "a file that is cut has not got its name" test ! -e "$tmp/root/two/big"
check "status: cancelled" says "$two" cancelled
before=$(done_items "$two")
sed -i 's/"--rate=[^"]*"/"--rate=1G"/' "$states/$two/plan/plan.json"
complete_lists "$two" >"$tmp/before"
slurm_ retry "$two" --wait
check "retry" status_is 0
check "the trees are equal" same_trees "$src" "$tmp/root/two"
check "no item was copied twice" test "$before" -gt 0 -a \
	"$(done_items "$two")" -eq "$(items "$two")"

# ---- killed: a task, slurmd, the last job ----

victim() { # KIND ID: its process, when there is one
	case $1 in
	task) patience 30 pgrep -f "^[^ ]*rftp put --shard-list $states/$2/plan/" ;;
	last) patience 60 pgrep -f "(job finish|finish-shards --manifest) $states/$2" ;;
	esac | tail -n 1
}
# SLURM_KILLS=10: each of the three ten times.
for ((i = 0; i < 3 * ${SLURM_KILLS:-2}; i++)); do
	kinds=(task slurmd last)
	kind=${kinds[i % 3]}
	rm -rf "$tmp/root/three"
	begin put --nodes 3 -a --rate 4M "$src/" "$url/three"
	[ "$kind" = last ] || patience 60 moving three
	sleep "0.$((RANDOM % 10))"
	if [ "$kind" = slurmd ]; then
		node=$(squeue --noheader --states=RUNNING --name="rftp-$id" --format=%N | tail -n 1)
		complete_lists "$id" >"$tmp/before"
		check "slurmd: is killed" kill -KILL "$(node_pid "${node#n}")"
		sleep 1
		start_node "${node#n}"
	else
		pid=$(victim "$kind" "$id")
		complete_lists "$id" >"$tmp/before"
		check "$kind: is killed" kill -KILL "$pid"
	fi
	check "$kind killed: the jobs end" after_all "$id"
	# Slurm itself has queued no list again that was complete.
	check "$kind killed: no complete list ran again" \
		test -z "$(complete_lists "$id" | comm -13 - "$tmp/before")"
	complete_lists "$id" >"$tmp/before"
	if ! says "$id" complete; then
		slurm_ retry "$id" --wait
		check "$kind killed: retry" status_is 0 || logs "$id"
	fi
	check "$kind killed: the trees are equal" same_trees "$src" "$tmp/root/three"
	check "$kind killed: no parts are left" no_parts "$tmp/root/three"
	check "$kind killed: nor after retry" \
		test -z "$(complete_lists "$id" | comm -13 - "$tmp/before")"
done

# ---- a node that dies: Slurm queues its job again ----

begin put --nodes 1 -a --rate 2M "$src/d/" "$url/node"
five=$id
patience 60 moving node
node=$(squeue --noheader --states=RUNNING --name="rftp-$five" --format=%N)
kill_node "${node#n}"

# ---- failures ----

scontrol update PartitionName=p State=DOWN
begin put --nodes 1 -a "$src/d/" "$url/changes"
cp -a "$src/d/f9" "$tmp/f9"
echo changed >"$src/d/f9"
scontrol update PartitionName=p State=UP
slurm_ wait "$id"
check "a file that has changed since the plan: not complete" status_is 1
check "it is named" grep -q 'failed: .*f9: .*changed since the plan' "$tmp/out"
check "and retry" grep -q "not done: list 1 (rftp-slurm retry $id continues)" "$tmp/out"
cp -a "$tmp/f9" "$src/d/f9"
touch -d '2021-02-03 04:05:06' "$src/d"
slurm_ retry "$id" --wait
check "it is as it was: retry" test "$status" -eq 0 -a "$(runs "$id" 1)" -eq 2
check "the trees are equal" same_trees "$src/d" "$tmp/root/changes"
scontrol update PartitionName=p State=DOWN
begin put --nodes 1 -a "$tmp/few/" "$url/changed"
echo changed >"$tmp/few/2"
scontrol update PartitionName=p State=UP
slurm_ wait "$id"
check "it stays changed: not complete" status_is 1
slurm_ retry --incomplete "$id" --wait
check "retry --incomplete ends the copy" status_is 0
check "and names the file" grep -q 'warning: 2: is not copied' "$states/$id/finish.log"
check "the report does not call it failed" grep -q 'left to the last job: .*2: .*changed' "$tmp/out"
check "the trees are equal" same_trees "$tmp/few" "$tmp/root/changed"

mkdir "$tmp/root/small"
mount -t tmpfs -o size=8M none "$tmp/root/small"
mounts+=("$tmp/root/small")
slurm_ put --nodes 1 -a "$src/d/" "$url/small/x" --wait
check "a sink without space: not complete" status_is 1
check "the reason" grep -qi 'failed: .*no space' "$tmp/out"
mount -o remount,size=100M "$tmp/root/small"
slurm_ retry "$(ls -t "$states" | head -n 1)" --wait
check "space: retry" status_is 0
check "the trees are equal" same_trees "$src/d" "$tmp/root/small/x"

begin put --nodes 1 -a "$src/" "$url/both"
four=$id
begin put --nodes 1 -a "$src/" "$url/both"
for each in "$four" "$id"; do
	after_all "$each"
	says "$each" complete || slurm_ retry "$each" --wait
	check "two copies to one directory" says "$each" complete
done
check "the trees are equal" same_trees "$src" "$tmp/root/both"

first=$server first_url=$url
start_server e --root "$tmp/root" --users "$tmp/users"
run rftp ls --accept-new "rftp://alice@127.0.0.1:$port/"
begin put --nodes 1 -a --rate 4M --retries 1 "$src/d/" "rftp://alice@127.0.0.1:$port/gone"
patience 60 moving gone
session=$(children "$server")
kill -KILL "$server" "$session"
wait "$server" 2>/dev/null
check "a server goes away" gone "$session"
slurm_ wait "$id"
check "not complete" status_is 1
check "the reason" grep -q "failed: .*127.0.0.1" "$tmp/out" || logs "$id"
start_server e --root "$tmp/root" --users "$tmp/users" --listen "127.0.0.1:$port"
slurm_ retry "$id" --wait
check "it is back: retry" status_is 0
check "the trees are equal" same_trees "$src/d" "$tmp/root/gone"
check "the server ends well" stops_well
server=$first url=$first_url

before=$(ls "$states" | wc -l)
slurm_ put --nodes 2 "$src/" rftp://127.0.0.1:1/x
check "a server that is not there" test "$status" -eq 1
check "there is no plan" warned 'there is no plan'
slurm_ put --nodes 2 --partition nonsense "$src/" "$url/to"
check "a partition that is not there" test "$status" -eq 1
check "Slurm says so" warned 'sbatch: .*partition'
slurm_ put --nodes 2
check "without words" warned 'put needs SOURCE and DESTINATION'
slurm_ put --nodes 2 --filter-from - "$src/" "$url/to"
check "rules from standard input" test "$status" -eq 2
check "say so" warned 'filter-from -: put the rules into a file'
slurm_ put "$src/" "$url/to"
check "without --nodes" test "$status" -eq 2
check "says so" warned 'nodes N is needed'
slurm_ put --nodes 2 --no-such-option "$src/" "$url/to"
check "no option of rftp" status_is 2
check "none of these leaves a state" test "$(ls "$states" | wc -l)" -eq "$before"
slurm_ status nonsense
check "a copy that is not there" status_is 1
exec 9>>"$states/$one/lock"
flock 9
slurm_ retry "$one"
check "two commands for one copy" test "$status" -eq 1
check "are refused" warned 'another rftp-slurm'
exec 9>&-

# ---- the end of those that took time ----

after_all "$five"
check "a node that died: complete" says "$five" complete || logs "$five"
check "on another host" json "$states/$five/report.json" 'len(e["hosts"]) == 2'
check "the trees are equal" same_trees "$src/d" "$tmp/root/node"
start_node "${node#n}"
after_all "$long"
check "time limits: complete, without retry" says "$long" complete || logs "$long"
check "rftp stopped in good order, and its job was queued again" test "$(runs "$long" 1)" -ge 2 -a \
	"$(($(grep -c '"event":"summary","exit":4' "$states/$long/shard-1.jsonl") + 1))" -eq \
	"$(runs "$long" 1)"
check "no item was copied twice" test "$(done_items "$long")" -eq "$(items "$long")"
check "the trees are equal" same_trees "$src/d" "$tmp/root/limit"

stop_cluster
trap cleanup EXIT
check "the server ends well" stops_well
finish
