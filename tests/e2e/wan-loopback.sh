#!/bin/bash
# shellcheck disable=SC2034,SC2054,SC2317 # limit is for lib.sh; lists by commas; called by check
# scripts/wan-loopback: its measurements and files, that it continues a sweep, its recommendations,
# and that it undoes the settings of --loop. By TCP; RDMA is in tests/vm/wan-loopback.sh. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
skip_with_sanitizers
need python3 rftp rftpd
limit=300

mkdir "$tmp/root" "$tmp/T"
export TMPDIR=$tmp/T
cd "$tmp" || exit 99
start_server d --root "$tmp/root" --anonymous rw
nowhere=rftp://127.0.0.1:1
wan() { run "$top_srcdir/scripts/wan-loopback" "$@"; }
small=(--op tcp --login --accept-new --seconds 1 --size 2M --repeat 1)
# is EXPRESSION: a Python expression over the JSON j of $out, its cells by their settings, and lines
# of CSV
out=$tmp/sweep
is() {
	python3 -c '
import csv, json, os, statistics, sys
out = sys.argv[1]
j = json.load(open(out + "/results.json"))
lines = list(csv.DictReader(open(out + "/runs.csv")))
ok = [l for l in lines if l["status"] == "ok"]
bad = [l for l in lines if l["status"] == "failed"]
sys.exit(not eval(sys.argv[2]))' "$out" "$1"
}
lines() { tail -n +2 "$out/runs.csv" | wc -l; }
complains() { [ "$status" -eq "$1" ] && grep -qF -e "$2" "$tmp/err"; }
printed() { grep -q -e "$1" "$tmp/out"; }

# ---- a sweep, of which one URL leads nowhere ----

wan "${small[@]}" --block 64K,1M --channels 2 --direction put,get --out "$out" "$nowhere" "$url/some/where/"
sweep=("${small[@]}" --block 64K,1M --channels 2 --direction put,get --out "$out" "$nowhere" "$url/some/where/")
check "a sweep of two URLs, status" status_is 3
check "a line for each of 24 runs" is 'len(lines) == 24 and len({tuple(l[k] for k in ("path", "tool", "kind", "direction", "block")) for l in lines}) == 24'
check "those of one came through" is 'len(ok) == 12 and all("some/where" in l["path"] for l in ok)'
check "with what they moved" is 'all(float(l["bytes_per_second"]) > 0 and float(l["seconds"]) > 0 and float(l["rtt_ms"]) > 0 for l in ok)'
check "files whole" is 'all(int(l["bytes"]) == 2 << 20 for l in ok if l["kind"] == "file") and sum(l["kind"] == "file" for l in ok) == 6'
check "with what was agreed" is 'all((l["agreed_transport"], l["agreed_channels"], int(l["agreed_block"])) == ("tcp", "2", {"64K": 65536, "1M": 1 << 20}[l["block"]]) for l in ok if l["tool"] == "rftp")'
check "the others say why, each" is 'len(bad) == 12 and all("refused" in l["error"] and l["exit"] == "3" and not l["bytes_per_second"] for l in bad)'
check "as the table does" printed 'connection refused'
check "JSON: medians are of the lines" is 'all(c["bytes_per_second"] == statistics.median(float(l["bytes_per_second"]) for l in ok if all(l[k] == c[k] for k in ("path", "tool", "kind", "op", "direction", "block", "channels", "inflight"))) for c in j["cells"] if c["runs"])'
check "JSON: errors" is 'sum(len(c["errors"]) for c in j["cells"]) == 12'
check "processor time" is 'all(c["cpu_seconds_per_gb"] > 0 for c in j["cells"] if c["runs"] and c["kind"] == "memory")'
check "no ratio to what was not measured" is 'all(l["to_verbs"] is None and l["to_iperf3"] is None for l in j["table"])'
check "which it says" printed "$url/some/where/: iperf3 not measured: nothing runs there for us: --peer-ssh"
check "nothing is left there" test -z "$(find "$tmp/root" -type f)"
check "nor here" test -z "$(ls "$TMPDIR")"
if command -v gnuplot >/dev/null; then
	for name in block-memory channels-memory block-file channels-file; do
		check "$name, as SVG" grep -q 'put tcp' "$out/$name.svg"
		check "$name, as PNG" test "$(head -c 4 "$out/$name.png" | tail -c 3)" = PNG
	done
	check "its axes say what they are" grep -q 'block size' "$out/block-memory.svg"
	check "and the legend" grep -q '2 channels' "$out/block-memory.svg"
else
	skip "plots" "no gnuplot here"
fi

# ---- its recommendation is a file that rftp reads ----

conf=$(grep -l '^\[host 127' "$out"/*.conf)
check "one section" test "$(grep -c '' <<<"$conf")" -eq 1
check "it was tried" printed 'Tried: .* with 2 channels'
rftp_agrees() {
	run rftp bench --config "$conf" --accept-new --json --time 1 "$url/" || return 1
	python3 -c '
import json, sys
section = dict(l.split(None, 1) for l in open(sys.argv[2]) if l[0] not in "#[")
started = json.loads(open(sys.argv[1]).readline())
sizes = {"64K": 65536, "1M": 1 << 20}
sys.exit((started["transport"], started["channels"], started["block"]) !=
    (section["transport"].strip(), int(section["channels"]), sizes[section["block"].strip()]))' "$tmp/out" "$conf"
}
check "rftp agrees on what it says" rftp_agrees
check "without one where nothing came through" grep -q 'nothing to recommend' "$out"/rftp-127.0.0.1-1-*.conf
check "it says what was measured" grep -qx '# Measured with --prot clear' "$conf"

# ---- going on ----

cp "$out/runs.csv" "$tmp/before"
{ head -n -3 "$tmp/before"; printf 'rftp://127.0.0.1:1,rftp,mem'; } >"$out/runs.csv"
wan "${sweep[@]}"
check "gone on with, where a line was torn" test "$(lines)" -eq 24
check "what was there stays" same <(head -n -3 "$tmp/before") <(head -n 22 "$out/runs.csv")
check "three runs were made" test "$(grep -c '^[0-9]* of 24: ' "$tmp/err")" -eq 3

cp "$out/runs.csv" "$tmp/before"
wan "${sweep[@]}" --block 64K
check "other settings are refused" complains 1 'other settings (block was ["64K", "1M"])'
check "what is there is left alone" same "$tmp/before" "$out/runs.csv"
echo a,b >"$out/runs.csv"
wan "${sweep[@]}"
check "somebody else's file" complains 1 'is not of scripts/wan-loopback'
check "is left alone, too" test "$(cat "$out/runs.csv")" = a,b
printf 'a,b\nc' >"$out/runs.csv"
wan "${sweep[@]}"
check "also without an end of line" test "$status:$(tail -n 1 "$out/runs.csv")" = 1:c
damaged() { # SED-SCRIPT: of its last line
	sed "\$ $1" "$tmp/before" >"$out/runs.csv"
	wan --report --no-plots --out "$out"
	complains 1 'a damaged line' && not grep -q Traceback "$tmp/err"
}
check "a rate that is none" damaged 's/,ok,.*/,ok,0,1,1,fast,,,,,,,,/'
check "no rate" damaged 's/,ok,.*/,ok,0,1,1,,,,,,,,,/'
check "too many columns" damaged 's/$/,more/'
check "bytes that are no text" damaged 's/tcp/\xff/'
check "zeros, as a crash leaves them" damaged 's/tcp/t\x00p/'

out=$tmp/sweep2
two=("${small[@]}" --kind memory --block 64K --channels 1,2 --direction put --seconds 2 --no-defaults --no-plots --out "$out" "$url")
two_there() { [ -s "$out/runs.csv" ] && [ "$(lines)" -ge 1 ]; }
"$top_srcdir/scripts/wan-loopback" "${two[@]}" </dev/null >"$tmp/first" 2>&1 &
others+=($!)
patience 30 two_there
kill -INT $!
wait $!
check "^C" test $? -eq 130
check "what to do then is said" grep -q 'interrupted; the same command goes on' "$tmp/first"
check "nothing of it runs on" not pgrep -f "rftp bench .*:$port"
cp "$out/runs.csv" "$tmp/before"
check "a run was missing" test "$(lines)" -eq 1
wan "${two[@]}"
check "gone on with" status_is 0
check "the first run is that of before" same "$tmp/before" <(head -n 2 "$out/runs.csv")
check "none is missing" is 'sorted(l["channels"] for l in ok) == ["1", "2"]'
wan "${two[@]}" --repeat 2
check "another round" is 'sorted(l["channels"] + l["round"] for l in ok) == ["10", "11", "20", "21"]'

sed -i '$s/,ok,/,failed,/' "$out/runs.csv"
wan "${two[@]}" --repeat 2
check "what has failed stays so" test "$status:$(lines)" = 3:4
wan "${two[@]}" --repeat 2 --retry-failed
check "until that is asked for" test "$status:$(lines)" = 0:5
check "then the later line counts" is 'all(c["runs"] == 2 and not c["errors"] for c in j["cells"])'

# ---- medians, ratios and the recommended setting, of numbers that are known ----

out=$tmp/known
mkdir "$out"
echo '{"settings": {}, "facts": {"hosts": {"95 ms": "dtn.example.org"}}}' >"$out/settings.json"
python3 - "$out/runs.csv" <<'PY'
import csv, sys
sys.path.insert(0, __import__("os").environ["top_srcdir"] + "/scripts")
from wan.cells import FIELDS
w = csv.DictWriter(open(sys.argv[1], "w"), FIELDS)
w.writeheader()
def runs(tool, op, block, channels, inflight, rates, kind="memory"):
    for n, rate in enumerate(rates):
        w.writerow(dict.fromkeys(FIELDS, "") | dict(
            path="95 ms", tool=tool, kind=kind, op=op, direction="put", block=block,
            channels=channels, inflight=inflight, round=n, rtt_ms="95.1", status="ok", exit="0",
            bytes=10 ** 9, seconds=1, bytes_per_second=rate * 10 ** 6, cpu_here=1, cpu_there=2,
            agreed_channels=channels, agreed_inflight="" if inflight == "auto" else inflight, agreed_block={"1M": 1 << 20, "4M": 4 << 20}.get(block, "")))
runs("rftp", "write", "1M", 1, 16, [50, 60, 55])
runs("rftp", "write", "1M", 4, 16, [96, 97, 90])
runs("rftp", "write", "4M", 4, 16, [98, 99, 97])
runs("rftp", "write", "4M", 8, 64, [100, 101, 99])
runs("rftp", "read", "4M", 8, 64, [80, 80, 80])
runs("rftp", "write", "1M", 4, 16, [40, 41, 42], "file")
runs("rftp", "write", "4M", 4, 16, [41, 42, 43], "file")
runs("rftp", "write", "4M", 8, 64, [41, 42, 43], "file")
runs("verbs", "write", "4M", 8, "auto", [125, 202, 66])
runs("verbs", "write", "1M", 8, "auto", [100, 100, 100])
PY
wan --report --out "$out" --no-plots
check "known numbers" status_is 0
check "medians" is '[l["bytes_per_second"] for l in j["table"] if l["setting"] == "rftp"] == [100e6, 80e6, 42e6]'
check "ratios are within a round" is '[round(l["to_verbs"], 3) for l in j["table"] if l["setting"] == "rftp" and l["op"] == "write"][0] == 0.8'
check "CPU seconds per GB" is 'all(l["cpu_seconds_per_gb"] == 3 for l in j["table"])'
check "fewest channels, then least in flight, near the best" printed '^    block 1M'
check "of the settings within 5 %" same <(grep -v '^#' "$out/95-ms.conf") <(printf '[host dtn.example.org]\nop write\nchannels 4\nblock 1M\ninflight 16\n')
python3 - "$out/runs.csv" <<'PY'
import csv, sys
lines = list(csv.DictReader(open(sys.argv[1])))
bad = next(l for l in lines if (l["block"], l["channels"], l["kind"]) == ("1M", "4", "memory"))
w = csv.DictWriter(open(sys.argv[1], "a"), list(bad))
w.writerow(bad | {"round": 3, "status": "failed", "bytes_per_second": "", "error": "gone"})
PY
wan --report --out "$out" --no-plots
check "what fails at times is not recommended" same <(grep -v '^#' "$out/95-ms.conf") <(printf '[host dtn.example.org]\nop write\nchannels 4\nblock 4M\ninflight 16\n')
check "nothing is said to be a compromise" not grep -q compromise "$out/95-ms.conf"
sed -i '/,file,/s/,4[1-3]000000,/,10000000,/; /,file,.*,4M,8,/s/,10000000,/,20000000,/; /,file,.*,4M,4,/s/,10000000,/,18000000,/' "$out/runs.csv"
wan --report --out "$out" --no-plots --within 12
check "within 12 % of both" not grep -q compromise "$out/95-ms.conf"
sed -i '/,memory,.*,4M,8,/s/,\(100\|101\|99\)000000,/,60000000,/; /,file,.*,4M,4,/s/,18000000,/,15000000,/' "$out/runs.csv"
wan --report --out "$out" --no-plots
check "best of neither: a compromise, which says so" grep -q 'within 5 % of the best compromise, which has 0.75 of' "$out/95-ms.conf"
sed -i '/,file,/s/,\(10\|15\|20\)000000,/,42000000,/; /,memory,.*,4M,8,/s/,60000000,/,100000000,/' "$out/runs.csv"
wan --report --out "$out" --no-plots --within 0.5
check "nearer to the best" same <(grep -v '^#' "$out/95-ms.conf") <(printf '[host dtn.example.org]\nop write\nchannels 8\nblock 4M\ninflight 64\n')

# ---- small things ----

so() { # EXPRESSION of Python
	python3 -c 'import sys
sys.path.insert(0, sys.argv[1])
sys.dont_write_bytecode = True
from wan.ends import Path
from wan.runs import ack_timeout
sys.exit(not eval(sys.argv[2]))' "$top_srcdir/scripts" "$1"
}
names() { # of the sections of URLs
	python3 -c 'import importlib.machinery, importlib.util, os, sys
sys.path.insert(0, sys.argv[1])
loader = importlib.machinery.SourceFileLoader("w", sys.argv[1] + "/wan-loopback")
w = importlib.util.module_from_spec(importlib.util.spec_from_loader("w", loader))
sys.dont_write_bytecode = True
loader.exec_module(w)
names = [w.conf_name("d", url) for url in sys.argv[2:]]
sys.exit(len(set(names)) < len(names) or any(len(os.path.basename(n)) > 255 for n in names))' "$top_srcdir/scripts" "$@"
}
check "URLs that differ in a sign have a section each" names rftp://h/a/b rftp://h/a-b rftp://h:1 rftp://h-1
check "also a long one" names "rftp://h/$(printf '%0300d' 1)"
check "the root of a host by ssh is not its home" so '[Path(u, u, []).file("f") for u in ("h:/", "h:", "h:d/", "ssh://h/d/", "rftp://h/")] == ["h:/f", "h:f", "h:d/f", "ssh://h/d/f", "rftp://h/f"]'
check "perftest's time-out: round trips" so '[ack_timeout(t, 0) for t in (None, 0, 95, 1e6)] == [14, 14, 17, 22]'
check "and what is queued" so '4.096e-3 * 2 ** ack_timeout(95, 1340) >= 380 + 1340 and ack_timeout(0, 1e9) == 22'

# ---- a server's host where programs can be started ----

mkdir "$tmp/bin"
printf '#!/bin/sh\nfor word; do :; done\necho "$word" >>"%s/asked"\nexec sh -c "$word"\n' "$tmp" >"$tmp/bin/ssh"
chmod +x "$tmp/bin/ssh"
if command -v iperf3 >/dev/null; then
	out=$tmp/sweep3
	PATH=$tmp/bin:$PATH wan "${small[@]}" --kind memory --block 1M --channels 2 --direction put,get --no-plots --peer-ssh there --out "$out" "$url"
	check "with --peer-ssh" status_is 0
	check "iperf3 is started there" grep -q '^timeout [0-9]* iperf3 -s -1' "$tmp/asked"
	check "and compared with" is 'all(l["to_iperf3"] > 0 for l in j["table"]) and sum(l["tool"] == "iperf3" for l in ok) == 2'
	check "in the same round" is 'all(abs(l["to_iperf3"] - l["bytes_per_second"] / next(m["bytes_per_second"] for m in j["table"] if m["setting"] == "iperf3" and m["direction"] == l["direction"])) < 1e-9 for l in j["table"])'
	check "perftest is not, by TCP" printed 'verbs not measured: no operation of RDMA'
else
	skip "with --peer-ssh" "no iperf3 here"
fi

# ---- both ends on this host ----

# In a network namespace of its own, with its own view of sysfs.
cat >"$tmp/loop.sh" <<'SH'
mount -t sysfs sysfs /sys && ip link set lo up && ip link add w0 type veth peer name w1 &&
	ip link set w0 up && ip addr add 10.9.0.1/24 dev w0 || exit 77
state() {
	ip rule show
	# The kernel marks routes as linkdown some time after the link has gone.
	ip -4 route show table all | sed 's/ linkdown//' | sort
	ip -4 addr show | grep inet
	ip -4 neigh show | grep PERMANENT
	ip -o link show up | sed 's/:.*//'
	(cd /proc/sys/net/ipv4/conf && grep . */arp_ignore */arp_announce */rp_filter */accept_local)
}
state >"$2.before"
"$1" "$2"
echo $? >"$2.status"
state >"$2.after"
SH
in_namespace() { run unshare -rnm bash "$tmp/loop.sh" "$@"; }
loop=("$top_srcdir/scripts/wan-loopback" --loop w0,w1 --op tcp --seconds 1 --repeat 1 --kind memory --block 1M --channels 1 --direction put --no-plots)
as_script() { printf '%s\n' '#!/bin/bash' "$2" >"$tmp/$1" && chmod +x "$tmp/$1"; }
as_script whole "${loop[*]} --out \$1.out; s=\$?; cat /sys/class/net/w1/statistics/rx_bytes >\$1.bytes; exit \$s"
as_script served "${loop[*]/#memory/file} --size 1M --server-dir \$1.dir --out \$1.out & until pgrep --ns \$\$ --nslist net -af 'rftpd .*--listen 198.18.95.2' >\$1.rftpd; do sleep 0.1; done; wait \$!"
as_script stopped "${loop[*]} --seconds 60 --out \$1.out & until grep -q . \$1.out/undo.sh && [ -n \"\$(ip rule show pref 3)\" ]; do sleep 0.1; done; kill -TERM \$!; wait \$!"
as_script killed "${loop[*]} --seconds 60 --out \$1.out & until [ -n \"\$(ip rule show pref 3)\" ] && pgrep --ns \$\$ --nslist net -f 'rftp bench .*198.18.95.2' >/dev/null; do sleep 0.1; done
kill -KILL \$!; wait \$! 2>/dev/null; ${loop[*]} --seconds 60 --out \$1.out 2>\$1.second
until ! pgrep --ns \$\$ --nslist net -f 'rftp.* .*198.18.95.2' >/dev/null; do sleep 0.1; done; sh \$1.out/undo.sh"
# Settings of another namespace, or from before the last start, have ended with it.
mkdir "$tmp/l1.out" && printf '# another\nexit 1\n' >"$tmp/l1.out/undo.sh"
in_namespace "$tmp/whole" "$tmp/l1"
if [ "$status" -eq 77 ] || [ ! -e "$tmp/l1.status" ]; then
	skip "--loop" "no network namespaces of our own here"
else
	out=$tmp/l1.out
	check "--loop" test "$(cat "$tmp/l1.status")" -eq 0 -o "$(cat "$tmp/l1.status")" -eq 3
	check "its bytes went from card to card" test "$(cat "$tmp/l1.bytes")" -gt "$(awk -F , 'NR > 1 { s += $13 } END { printf "%d", s }' "$out/runs.csv")"
	check "what it set is taken back" same "$tmp/l1.before" "$tmp/l1.after"
	check "no notes of it are left" not test -e "$out/undo.sh"
	mkdir "$tmp/l4.dir" && echo mine >"$tmp/l4.dir/mine"
	in_namespace "$tmp/served" "$tmp/l4"
	check "--loop with files, into a directory that is there" grep -q ',rftp,file,tcp,put,.*,ok,' "$tmp/l4.out/runs.csv"
	check "which is not what strangers are let into" grep -q -F -e "--root $tmp/l4.dir/wan-loopback." "$tmp/l4.rftpd"
	check "and only that is left" test "$(ls "$tmp/l4.dir")" = mine
	in_namespace "$tmp/stopped" "$tmp/l2"
	check "--loop, ended by a signal" test "$(cat "$tmp/l2.status")" -eq 143
	check "takes all back, too" same "$tmp/l2.before" "$tmp/l2.after"
	in_namespace "$tmp/killed" "$tmp/l3"
	check "--loop, killed: the next one tells" grep -q 'an earlier sweep was killed .* sh .*undo.sh' "$tmp/l3.second"
	check "what takes all back" test "$(cat "$tmp/l3.status")" -eq 0
	check "that it does" same "$tmp/l3.before" "$tmp/l3.after"
fi

# ---- errors ----

wrong() { # TEXT ARGUMENT...
	local text=$1
	shift
	wan --out "$tmp/wrong" "$@"
	check "wrong: $text" complains 2 "$text"
}
wrong 'one of: URL'
wrong 'one of: URL' --guest "$url"
wrong 'is no URL of a server' http://host/
wrong 'the same URL twice' "$url" "$url"
wrong 'from 64K to 64M' --block 32K "$url"
wrong 'is no size' --block 1X "$url"
wrong 'from 1 to 256' --channels 257 "$url"
wrong 'is no number from 1' --channels 0 "$url"
wrong 'from 2 blocks' --inflight 1 "$url"
wrong 'with blocks of a size' --block auto --inflight 64M "$url"
wrong 'none of: write, read, tcp' --op send "$url"
wrong 'with --loop or --guest only' --rtt 10 "$url"
wrong 'is no round trip' --rtt -1 --guest
wrong 'is not CARD,CARD' --loop eth0
wrong 'two cards, not twice' --loop eth0,eth0
wrong 'with --prot clear' --crc off --prot safe "$url"
wrong 'from memory to memory only' --kind file --direction both "$url"
wrong '--quick or --paper' --quick --paper "$url"
wrong 'is no URL of a server' --quick -- -oProxyCommand=x:/
wrong 'is no URL of a server' "$url/"$'\x1b[31m'
wrong 'a URL names its directory' --server-dir "$tmp" "$url"
wrong 'a host, not an option' --peer-ssh=-oProxyCommand=x "$url"
check "nothing is made of it" not test -e "$tmp/wrong"
wan --loop nosuch0,nosuch1 --op tcp --out "$tmp/wrong"
check "no such card" complains 1 'no network card nosuch0'
wan --build "$tmp" --out "$tmp/wrong2" "$url"
check "no such build" complains 1 "no rftp and rftpd in $tmp: build first"
wan --report --out "$tmp/none"
check "a report of nothing" complains 1 'No such file'
wan --guest --dry-run --out "$tmp/wrong2"
check "--guest: what an emulated machine can do" printed '^162 cells, 3 rounds, about [0-9]\{2,3\} minutes'
wan --guest --dry-run --block 1M --channels 2 --inflight auto
check "but for what is given" test "$(grep -c 'rftp, .*block 1M, channels 2, inflight auto' "$tmp/out")" -eq 12
wan --paper --loop a,b --dry-run --out "$tmp/wrong2"
check "--dry-run" status_is 0
check "the paper's cells" test "$(grep -c '^a-b: rftp, memory, \(write\|read\), put, block .*, channels .*, inflight auto$' "$tmp/out")" -eq 120
check "from 64K to 32M, by 1 to 32" printed 'block 32M, channels 32,'
check "makes nothing" not test -e "$tmp/wrong2"
wan --help
check "--help" printed '--paper'
finish
