#!/bin/bash
# shellcheck disable=SC2317 # check calls them
# The guide "An end-to-end system": its commands have existing options, its plans are those of a
# recorded storage host, its transfers and its configuration work on loopback, and its quotations
# and references exist. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
skip_with_sanitizers
need python3
unset RFTP_SYSFS

guide=$top_srcdir/docs/end-to-end.md
of_guide() { "$lib/read-guide.py" "$guide" "$@"; }
# nothing COMMAND...: it prints nothing; each line that it prints is an error in the guide
nothing() {
	local out status
	out=$("$@")
	status=$?
	[ -z "$out" ] || comment <<<"$out"
	[ "$status" -eq 0 ] && [ -z "$out" ]
}
has_command() { grep -qxF -- "$1" "$tmp/commands" || ! echo "# not in the guide: $1"; }

of_guide commands | cut -d ' ' -f 3- >"$tmp/commands"
check "it has commands" test "$(wc -l <"$tmp/commands")" -gt 30
check "all are the shell's language" bash -n "$tmp/commands"

# ---- options, messages, references ----

mkdir "$tmp/help"
# help_of PROGRAM [COMMAND]: its help, where read-guide.py looks for it
help_of() {
	local program=$1
	[[ $program != scripts/* ]] || program=$top_srcdir/$program
	run "$program" "${@:2}" --help
	cp "$tmp/out" "$tmp/help/$(tr / _ <<<"$*")"
	status_is 0
}
while read -r program command; do
	check "there is $program${command:+ $command}" help_of "$program" ${command:+"$command"}
done < <(of_guide programs)
check "all options are there, and their values" nothing of_guide options "$tmp/help"
sed 's/--stripe md/--strip md/; s/--transport rdma/--transport rmda/; s/--data-ports/--dataports/
	s/--set iser=/--sets iser=/; s/--ack verified/--ack verify/; s/LOGIN="--tune/LOGIN="--tun/' \
	"$guide" >"$tmp/misspelt.md"
"$lib/read-guide.py" "$tmp/misspelt.md" options "$tmp/help" >"$tmp/wrong"
for wrong in 'rftp-iser login: --strip' 'rftp-iser login: --tun' '--transport rmda' \
	'rftpd: --dataports' 'scripts/fio-numa: --sets' '--ack verify'; do
	check "one misspelt is seen: $wrong" grep -qxF -e "$wrong" "$tmp/wrong"
done
check "what it quotes of messages is what is said" nothing of_guide texts "$top_srcdir/src"
sed 's/`is in use: mounted/`is used: mounted/' "$guide" >"$tmp/misspelt.md"
"$lib/read-guide.py" "$tmp/misspelt.md" texts "$top_srcdir/src" >"$tmp/wrong"
check "which is looked at" grep -q 'is used: mounted' "$tmp/wrong"
check "what it refers to is there" nothing of_guide links "$top_srcdir"

# ---- plans, of the storage host that it shows ----

host=$tmp/host
"$lib/make-sysfs" "$top_srcdir/tests/unit/sysfs/storage" "$host"
printf '%s\n' 'ens1f0 192.0.2.1' 'ens2f0 192.0.2.65' >"$tmp/addresses"
mkdir -m 700 "$tmp/etc" "$tmp/etc/rftp-iser"
for name in store1 mem1; do
	of_guide file "/etc/rftp-iser/$name.ini" >"$tmp/etc/rftp-iser/$name.ini"
done

# there COMMAND: run it as on that host, with $tmp/etc for /etc; its output is in $tmp/said
there() {
	local command=$1 more=
	has_command "$command" || return
	case $command in
	*--check*) ;;
	*" plan "*) more="--sysfs $host --addresses $tmp/addresses --secrets /etc/rftp-iser" ;;
	*) more="--sysfs $host" ;;
	esac
	run bash -c "$(sed "s|/etc/rftp-iser|$tmp&|g" <<<"$command $more")"
	sed "s|$tmp/etc|/etc|" "$tmp/out" "$tmp/err" >"$tmp/said"
	status_is 0
}
# same_as_shown COMMAND: its output is the guide's
same_as_shown() {
	there "$1" && of_guide output "$1" >"$tmp/shown" && diff "$tmp/shown" "$tmp/said"
}

check "what is where" same_as_shown "rftp-numa topo"
by_file="rftp-iser plan --out /etc/rftp-iser/store1.json /etc/rftp-iser/store1.ini"
by_options=$(grep '^rftp-iser plan --name mem1 ' "$tmp/commands")
check "a plan by the file" same_as_shown "$by_file"
check "is good" there "rftp-iser plan --check /etc/rftp-iser/store1.json"
check "a plan by options" same_as_shown "$by_options"
for name in store1 mem1; do
	check "$name: portals as in the guide's table" python3 -c '
import json, sys
got = [(t["node"], [(p["address"], p["netdev"], p["iser"]) for p in t["portals"]], len(t["luns"]))
       for t in json.load(open(sys.argv[1]))["targets"]]
sys.exit([g[:2] for g in got] != [(0, [("192.0.2.1", "ens1f0", True)]),
                                  (1, [("192.0.2.65", "ens2f0", True)])])' \
		"$tmp/etc/rftp-iser/$name.json"
done
cat "$tmp/etc/rftp-iser"/*:dtn1.* >"$tmp/secrets"
check "two secrets of each" test "$(sort -u "$tmp/secrets" | wc -l)" -eq 4
check "are in no plan" not grep -qFf "$tmp/secrets" "$tmp/etc/rftp-iser"/*.json
stat -c %a "$tmp/etc/rftp-iser"/*:dtn1.* >"$tmp/modes"
check "and their owner's alone" test "$(xargs <"$tmp/modes")" = "600 600 600 600"

# ---- rftpd as its unit starts it, and transfers, on loopback ----

mkdir -p "$tmp/data/alice/run42" "$tmp/here/run42"
random "$tmp/data/alice/run42/a.h5" 3000000
line=$(grep '^echo "alice:' "$tmp/commands")
run_stdin bash -c "$(sed "s|/etc/rftpd|$tmp&|; s|:/data|:$tmp/data|" <<<"$line")" <<<"a good one"
check "a user" status_is 0
chmod 600 "$tmp/etc/rftpd.users"

of_guide file /etc/systemd/system/rftpd.service | sed -n '/^ExecStart=/,/[^\\]$/p' |
	sed 's/^ExecStart=[^ ]* //; s/\\$//' | xargs >"$tmp/words"
check "the unit marks packets, and names a card" grep -q -e '--nic ens3f0 --tos af31' "$tmp/words"
read -ra words < <(sed "s|/etc/rftpd|$tmp&|; s|--state [^ ]*||; s|--listen [^ ]*||; s|ens3f0|lo|" \
	"$tmp/words")
start_server d "${words[@]}"
check "rftpd starts so" test -s "$tmp/d.port"
says() { grep -q " info: $1" "$tmp/d.log"; }
check "it logs its key" says 'certificate SHA256:'
check "and where it listens" says 'listening on 127.0.0.1:'

# Its configuration, for this server.
key=$(sed -n 's/.*certificate \(SHA256:.*\)/\1/p' "$tmp/d.log")
of_guide file /etc/rftp.known_hosts |
	sed "s|dtn1.example.org:7321 SHA256:.*|127.0.0.1:$port $key|" >"$tmp/known"
of_guide file /etc/rftp.conf | sed "s|\[host .*\]|[host 127.0.0.1]|; s|ens3f0|lo|
	s|/etc/rftp.known_hosts|$tmp/known|" >"$tmp/rftp.conf"
echo "machine 127.0.0.1 login alice password \"a good one\"" >"$tmp/home/.netrc"
chmod 600 "$tmp/home/.netrc"
run rftp ls --config "$tmp/rftp.conf" "rftp://alice@127.0.0.1:$port/"
check "rftp.conf and known hosts" status_is 0 || comment <"$tmp/err"
sed 's/^transport/transports/' "$tmp/rftp.conf" >"$tmp/wrong.conf"
run rftp ls --config "$tmp/wrong.conf" "rftp://alice@127.0.0.1:$port/"
check "of which every word is looked at" status_is 2
sed 's/transport rdma/transport tcp/' "$tmp/rftp.conf" >"$tmp/tcp.conf"
if [ -e /dev/infiniband/rdma_cm ]; then
	skip "without RDMA it ends with status 3" "there is RDMA here"
else
	run rftp put --config "$tmp/rftp.conf" "$tmp/known" "rftp://alice@127.0.0.1:$port/"
	check "without RDMA it ends with status 3" test "$status" -eq 3
fi

# here COMMAND: the same between this host and itself, with less data. Its sources are in
# $tmp/here: on one host the two sites' directories would be one.
here() {
	has_command "$1" || return
	run bash -c "$(sed "s|dtn2.example.org|127.0.0.1:$port|; s|zero:100G|zero:10M|
		s| /data/alice| $tmp/here|; s|--time 10|--time 1|
		s|^rftp [a-z]*|& --config $tmp/tcp.conf|" <<<"$1")"
	status_is 0
}
cp "$tmp/data/alice/run42/a.h5" "$tmp/here/run42"
mkdir "$tmp/data/alice/run43"
cp "$tmp/here/run42/a.h5" "$tmp/data/alice/run43"
grep '^rftp ' "$tmp/commands" | grep -v -e --version >"$tmp/transfers"
check "there are transfers" test "$(wc -l <"$tmp/transfers")" -ge 7
while read -r command; do
	check "$command" here "$command"
	case $command in
	*--json*) check "its summary" grep -q '"fell_back":false,"retries":0,.*}$' "$tmp/out" ;;
	*" hash "*) check "the digest" test "$(cut -c 1-64 "$tmp/out")" = \
		"$(sha256sum <"$tmp/here/run42/a.h5" | cut -c 1-64)" ;;
	esac
done <"$tmp/transfers"
check "what was put" same_trees "$tmp/here/run42" "$tmp/data/alice/run42"
check "what was got" same_trees "$tmp/data/alice/run43" "$tmp/here/run43"
check "no zeros are left" test ! -e "$tmp/data/alice/zeros"

# ---- files for systemd ----

# Systemd understands it, with a program in place of ours.
unit() {
	of_guide file /etc/systemd/system/rftpd.service |
		sed "s|/usr/local/bin/[^ ]*|$(command -v true)|" >"$tmp/rftpd.service"
	run systemd-analyze verify --man=no "$tmp/rftpd.service"
	! grep -q rftpd.service "$tmp/err"
}
if command -v systemd-analyze >/dev/null; then
	check "rftpd's unit" unit
else
	skip "rftpd's unit" "there is no systemd-analyze here"
fi
of_guide file /etc/fstab | grep -v '^#' >"$tmp/fstab"
check "a line of fstab has six fields" test "$(wc -w <"$tmp/fstab")" -eq 6
check "which waits for the unit" grep -q '[,]x-systemd.requires=rftp-iser-login@store1.service ' "$tmp/fstab"
finish
