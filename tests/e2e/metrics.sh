#!/bin/bash
# shellcheck disable=SC2034,SC2317 # for lib.sh; check calls them
# --metrics-file: a parser of Prometheus reads it whole at any time, and its counters have the values
# of the logins and transfers that took place. TAP.
. "${top_srcdir:?}/tests/e2e/lib.sh"
need curl
python=python3
$python -c 'import prometheus_client' 2>/dev/null || python=/usr/bin/python3
$python -c 'import prometheus_client' 2>/dev/null || skip_all "python3-prometheus-client is missing"

cat >"$tmp/parse" <<'END'
# parse FILE [NAME]: check the rules of promtool; print the samples whose names begin with NAME
import re, sys
from prometheus_client.parser import text_string_to_metric_families as parse
text = open(sys.argv[1]).read()
assert text.endswith("\n"), "the last line is not whole"
for f in parse(text):
    assert re.fullmatch("rftpd_[a-z_]+", f.name) and f.documentation, f.name
    assert f.type in ("counter", "gauge"), f
    for s in f.samples:
        assert (f.type == "counter") == s.name.endswith("_total"), s
        assert s.value >= 0
        labels = ",".join(f"{k}={v}" for k, v in s.labels.items())
        if s.name.startswith("rftpd_" + (sys.argv[2] if len(sys.argv) > 2 else " ")):
            print(f"{s.name[6:]}{{{labels}}} {s.value:.0f}")
names = re.findall("^# TYPE ([^ ]+)", text, re.M)
assert len(set(names)) == len(names) and names == re.findall("^# HELP ([^ ]+)", text, re.M)
END
parse() { "$python" "$tmp/parse" "$@"; }
prom=$tmp/metrics/rftpd.prom
value() { [ "$(parse "$prom" "${1%%{*}" 2>"$tmp/why" | grep -c -Fx -- "$1")" -eq 1 ]; } # LINE
# value_soon LINE: the file is written every 15 s
value_soon() { patience 40 value "$1"; }

mkdir "$tmp/root" "$tmp/metrics"
chmod 777 "$tmp/root"
random "$tmp/big" 300000
random "$tmp/root/there" 50000
chmod 644 "$tmp/root/there"
echo "alice:$(echo s3cret | rftpd --hash-password):$tmp/root:/:rw" >"$tmp/users"
chmod 600 "$tmp/users"
printf 'machine 127.0.0.1 login alice password s3cret\n' >"$tmp/netrc"
printf 'machine 127.0.0.1 login alice password wrong\n' >"$tmp/wrong"
chmod 600 "$tmp/netrc" "$tmp/wrong"

# ---- a file that cannot be written ----

run rftpd --listen 127.0.0.1:0 --root "$tmp/root" --anonymous ro --state "$tmp/s" "${processes[@]}" \
	--metrics-file "$tmp/nowhere/rftpd.prom" --port-file "$tmp/port"
check "without the directory rftpd does not start" status_is 3
check "it says why" test "$(grep -c "metrics file.*nowhere.*No such file or directory" "$tmp/err")" = 1
check "no port file says that rftpd is ready" test ! -e "$tmp/port"
ln -s /dev/null "$tmp/null"
run rftpd --listen 127.0.0.1:0 --root "$tmp/nothing" --anonymous ro --metrics-file "$tmp/null"
check "a device stays" test -c /dev/null

# ---- what it counts ----

# Reads the file all the time, to find one that is not whole.
watch_file() {
	while [ -e "$tmp/watching" ]; do
		[ ! -e "$prom" ] || parse "$prom" >/dev/null 2>>"$tmp/broken" || echo "broken" >>"$tmp/broken"
		sleep 0.1
	done
}

counts() { # NAME OPTION...
	local name=$1 before
	shift
	rm -f "$prom" "$tmp/root/big" "$tmp/root/up"
	: >"$tmp/watching"
	watch_file &
	before=$(date +%s)
	start_server "$name" --root "$tmp/root" --anonymous rw --users "$tmp/users" --plain \
		--prot-min clear --metrics-file "$prom" "$@"
	check "$name: it is there at the start" test -s "$prom"
	check "for all to read" test "$(stat -c %a "$prom")" = 644
	check "as a parser wants it" parse "$prom"
	check "with the version" grep -qF "rftpd_build_info{version=\"$(rftpd --version | sed -n 's/^rftpd //p')\"} 1" "$prom"
	check "and the start" test "$(parse "$prom" start_time | sed 's/.* //')" -ge "$before"

	put --netrc "$tmp/netrc" --transport tcp "$tmp/big" "rftp://alice@127.0.0.1:$port/big"
	check "a put" status_is 0
	get "$url/there" "$tmp/got"
	get "$url/there" "$tmp/got2"
	check "two gets" status_is 0
	get "$url/nothing" "$tmp/nothing"
	check "a get of nothing" not status_is 0
	run rftp ls --accept-new --netrc "$tmp/wrong" "rftp://alice@127.0.0.1:$port/"
	check "a refused login" status_is 3
	run curl -sS "ftp://127.0.0.1:$port/there" -o "$tmp/got3"
	check "a RETR" status_is 0
	run curl -sS -T "$tmp/got3" "ftp://127.0.0.1:$port/up"
	check "a STOR" status_is 0
	run curl -sS "ftp://127.0.0.1:$port/nothing" -o "$tmp/nothing"
	check "a RETR of nothing" not status_is 0

	check "bytes received" value_soon 'transfer_bytes_total{direction=received,transport=tcp} 300000'
	check "by FTP" value_soon 'transfer_bytes_total{direction=received,transport=ftp} 50000'
	check "bytes sent" value_soon 'transfer_bytes_total{direction=sent,transport=tcp} 100000'
	check "by FTP, too" value_soon 'transfer_bytes_total{direction=sent,transport=ftp} 50000'
	check "files received" value_soon 'transfer_files_total{direction=received,transport=tcp} 1'
	check "files sent" value_soon 'transfer_files_total{direction=sent,transport=tcp} 2'
	check "a failed file" value_soon 'files_failed_total{direction=sent} 1'
	check "a refused login" value_soon 'logins_refused_total{cause=password} 1'
	check "logins" value_soon 'logins_total{method=users} 1'
	check "of anonymous" value_soon 'logins_total{method=anonymous} 6'
	check "under TLS" value_soon 'sessions_total{security=tls} 4'
	check "in clear" value_soon 'sessions_total{security=clear} 3'
	check "no session now" value_soon 'sessions{security=tls} 0'
	check "no connection" value_soon 'connections{} 0'

	# A transfer that runs, and then dies with its client.
	mkfifo "$tmp/fifo.$name"
	rftp put -q --accept-new --transport tcp - "$url/dies" <"$tmp/fifo.$name" 2>/dev/null &
	others+=($!)
	exec 7>"$tmp/fifo.$name"
	head -c 100000 /dev/urandom >&7
	check "a transfer that runs" value_soon 'transfers{direction=received} 1'
	kill -KILL "${others[-1]}"
	exec 7>&-
	check "is counted when its client has died" value_soon 'transfer_failures_total{cause=connection} 1'
	check "and runs no more" value_soon 'transfers{direction=received} 0'
	check "stop" stops_well
	rm "$tmp/watching"
	wait %watch_file 2>/dev/null
	check "each read found a whole file" test ! -s "$tmp/broken"
	check "nothing is left beside it" test "$(ls "$tmp/metrics")" = rftpd.prom
}
counts one
if is_root; then
	three_processes
	counts three
	check "the session's bytes come through the monitor" value 'transfer_bytes_total{direction=sent,transport=tcp} 100000'
fi

# ---- a rolling restart, and other settings ----

start_server r --root "$tmp/root" --anonymous ro --metrics-file "$prom"
get "$url/there" "$tmp/got4"
check "a get" value_soon 'transfers_total{direction=sent,transport=tcp} 1'
started=$(parse "$prom" start_time)
sleep 1
kill -USR2 "$server"
check "the next rftpd" patience 20 gone "$server"
next=$(sed -n 's/.*the next rftpd, process \([0-9]*\), serves.*/\1/p' "$tmp/r.log")
servers+=("$next")
check "has another start time" not test "$(parse "$prom" start_time)" = "$started"
check "with which its counters begin" value 'transfers_total{direction=sent,transport=tcp} 0'
get "$url/there" "$tmp/got5"
kill "$next"
check "it ends" patience 20 gone "$next"
check "and writes the file a last time" value 'transfers_total{direction=sent,transport=tcp} 1'
if command -v promtool >/dev/null; then
	run bash -c 'promtool check metrics <"$1"' . "$prom"
	check "promtool has nothing to say" test "$status" -eq 0 -a ! -s "$tmp/out" -a ! -s "$tmp/err"
else
	skip "promtool check metrics" "it is missing"
fi
finish
