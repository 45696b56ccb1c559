#!/bin/bash
# rftp-iser plan: by a file and by options, on descriptions of other machines; its secrets; an error
# is reported in one line, and then no file is written. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
skip_with_sanitizers
need python3
unset RFTP_SYSFS
umask 022

man=$top_srcdir/man/rftp-iser.8
me=iqn.2026-01.org.example:me
"$lib/make-sysfs" "$top_srcdir/tests/unit/sysfs/two" "$tmp/two"
printf '%s\n' 'ens1f0 192.0.2.1' 'ens2f0 192.0.2.2' 'eth0 192.0.2.9' >"$tmp/addresses"

# plan OPTION...: for a machine with two nodes; its output is in $tmp/out
plan() { run rftp-iser plan --sysfs "$tmp/two" --addresses "$tmp/addresses" "$@"; }
# The same with the options that each plan needs
full() { plan --name s --iqn iqn.2026-01.org.example --secrets "$tmp/secrets" "$@"; }
# is EXPRESSION: of Python, over the plan p in $tmp/out, t its targets
is() {
	python3 -c 'import json, sys
p = json.load(open(sys.argv[1]))
t = p["targets"]
sys.exit(not eval(sys.argv[2]))' "${plan_file:-$tmp/out}" "$1"
}
# warned TEXT; told TEXT: a line on standard error
warned() { grep -q -e "^rftp-iser: warning: .*$1" "$tmp/err"; }
told() { grep -q -e "^rftp-iser: $1" "$tmp/err"; }
# fails STATUS TEXT: one line, and nothing besides
fails() {
	status_is "$1" && [ ! -s "$tmp/out" ] && [ "$(wc -l <"$tmp/err")" -eq 1 ] &&
		grep -qF -e "$2" "$tmp/err" && grep -q '^rftp-iser: ' "$tmp/err"
}

# ---- by options ----

full --tmpfs 4M --initiator "$me" --chap generate
check "a tmpfs on each node" status_is 0
check "a target per node, by the node's card" is '[(x["node"], x["portals"][0]["address"], x["portals"][0]["netdev"], x["portals"][0]["iser"], x["luns"][0]["node"]) for x in t] == [(0, "192.0.2.1", "ens1f0", True, 0), (1, "192.0.2.2", "ens2f0", True, 1)]'
check "called after plan and node" is '[x["iqn"] for x in t] == ["iqn.2026-01.org.example:s-node%d" % n for n in (0, 1)]'
check "bound to it" is 't[1]["luns"][0]["policy"] == "bind" and t[1]["luns"][0]["size"] == 4 << 20'
check "closed, by CHAP" is 'not t[0]["open"] and t[0]["initiators"][0]["chap"]["user"] == "'"$me"'"'
check "how it is written is said" told 's-node1-disk0: tmpfs .*; write-through, and forgotten'
check "nothing to warn of" not warned ''
cp "$tmp/out" "$tmp/first.json"

secret=$tmp/secrets/s.$me.chap
mode() { stat -c %a "$1"; }
check "its secret is for its owner alone" test "$(mode "$secret")" = 600 -a "$(mode "$tmp/secrets")" = 700
check "of 16 letters and digits" grep -Eqx '[A-Za-z0-9]{16}' "$secret"
check "never shown" not grep -qF -f "$secret" "$tmp/out" "$tmp/err"
cp "$secret" "$tmp/kept"
full --tmpfs 4M --initiator "$me" --chap generate
check "again the same" same "$tmp/out" "$tmp/first.json"
check "and the same secret" same "$secret" "$tmp/kept"
full --tmpfs 4M --initiator "$me" --initiator "${me}2" --chap generate --mutual-chap generate
check "that two have the same disks is warned of" warned 's-node1 lets in 2 initiators, each to all of its LUNs'
check "a secret for each initiator, each way" test "$(sort -u "$tmp/secrets"/* | wc -l)" -eq 4 -a "$(find "$tmp/secrets" -type f -perm 600 | wc -l)" -eq 4

full --node 1 --tmpfs 4M --ramdisk 1M --open --policy prefer --write back
check "one node" is '[x["node"] for x in t] == [1] and t[0]["open"] and not t[0]["initiators"]'
check "two back stores, one written back" is '[(x["lun"], x["kind"], x["write-back"]) for x in t[0]["luns"]] == [(0, "tmpfs", True), (1, "ramdisk", False)]'
check "which is warned of" warned 's-node1-disk0 is written back into memory'
check "as it is that anyone may log in" warned 's-node1 is open'
full --block /dev/nvme0n1p1 --block /dev/nvme1n1 --initiator "$me"
check "a disk is served by its node" is '[x["luns"][0]["path"] for x in t] == ["/dev/nvme0n1p1", "/dev/nvme1n1"]'
check "an initiator without CHAP is warned of" warned "s-node0 lets in any host that calls itself $me"
full --node 0 --tmpfs 1M --open --portal 0=192.0.2.1:3261 --portal 0=ens2f0
check "portals of one's own" is '[(x["address"], x["port"]) for x in t[0]["portals"]] == [("192.0.2.1", 3261), ("192.0.2.2", 3260)]'
check "on another node's card" warned 'portal 192.0.2.2 of .*: ens2f0 is a card of node 1'
full --node 0 --tmpfs 65M --open
check "too much memory" warned 'memory does not suffice: .* of node 0'
grep -v ens1f0 "$tmp/addresses" >"$tmp/one-card"
run rftp-iser plan --sysfs "$tmp/two" --addresses "$tmp/one-card" --name s --domain a.b --node 0 --tmpfs 1M --open
check "storage on a node without RDMA" is 't[0]["portals"][0]["netdev"] == "ens2f0"'
check "is never served from another in silence" warned 'ens2f0 is a card of node 1, and the target is for node 0'
echo 'eth0 192.0.2.9' >"$tmp/no-rdma"
run rftp-iser plan --sysfs "$tmp/two" --addresses "$tmp/no-rdma" --name s --domain a.b --node 1 --tmpfs 1M --open --tcp
check "nor by TCP" warned 'by plain iSCSI over TCP'
check "which it is then" is 't[0]["portals"] == [{"address": "192.0.2.9", "port": 3260, "netdev": "eth0", "iser": False}]'
run rftp-iser plan --sysfs "$tmp/two" --addresses "$tmp/no-rdma" --name s --domain a.b --node 1 --tmpfs 1M --open
check "or else not at all" fails 1 'has an RDMA device'

# ---- by a file ----

# literal SECTION: the first example that is set off in a section of the manual
literal() {
	awk -v head=".Sh $1" '$0 == head { there = 1 } there && /^\.Ed/ { exit } on { print }
		there && /^\.Bd/ { on = 1 }' "$man"
}
literal "SPEC FORMAT" >"$tmp/spec"
plan --secrets "$tmp/secrets" "$tmp/spec"
check "the manual's example" status_is 0
check "node 1 has what is for each, and its own" is '[[x["kind"] for x in y["luns"]] for y in t] == [["tmpfs"], ["tmpfs", "block", "file"]]'
check "written back there" is '[x["write-back"] for x in t[1]["luns"]] == [True, False, True]'
check "its attributes" is '[x["attributes"] for x in t[1]["luns"]] == [{"is_nonrot": 1, "emulate_tpu": 1}, {"emulate_tpu": 1}, {"emulate_tpu": 1}] and t[0]["luns"][0]["attributes"] == {"is_nonrot": 1}'
check "a portal that no interface has" warned 'portal 192.0.2.12 of .*: this host has no such address'
cp "$tmp/out" "$tmp/by-file.json"
run_stdin rftp-iser plan --sysfs "$tmp/two" --addresses "$tmp/addresses" --secrets "$tmp/secrets" - <"$tmp/spec"
check "from standard input" same "$tmp/out" "$tmp/by-file.json"
plan --secrets "$tmp/secrets" --name other --tmpfs 2M "$tmp/spec"
check "options beside it" is 'p["name"] == "other" and len(t[0]["luns"]) == 2'
cat >"$tmp/secret-spec" <<END
[plan]
name = s
domain = example.org
[node 0]
tmpfs = 4M
[initiator $me]
chap-user = me
chap-secret = $tmp/mine
END
plan "$tmp/secret-spec"
check "a secret's file that is not there yet" warned "$tmp/mine, a CHAP secret: No such file"
check "is in the plan" is 't[0]["initiators"][0]["chap"] == {"user": "me", "secret-file": "'"$tmp"'/mine"}'
echo 0123456789abcdef >"$tmp/mine"
plan "$tmp/secret-spec"
check "one that others may read" warned "others can read it"
chmod 600 "$tmp/mine"
plan "$tmp/secret-spec"
check "one that is as it should be" test "$status" -eq 0 -a "$(grep -c warning "$tmp/err")" -eq 0
check "is not shown" not grep -q 0123456789abcdef "$tmp/out" "$tmp/err"

# ---- to a file ----

full --tmpfs 4M --open --out "$tmp/plan.json"
check "to a file" test "$status" -eq 0 -a ! -s "$tmp/out"
plan_file=$tmp/plan.json
check "which holds it" is 'len(t) == 2'
cp "$tmp/plan.json" "$tmp/before.json"
full --tmpfs 8M --open --out "$tmp/plan.json"
check "which is not written over" fails 1 'exists; --force writes over it'
check "nor touched" same "$tmp/plan.json" "$tmp/before.json"
full --tmpfs 8M --open --out "$tmp/plan.json" --force
check "unless by force" is 't[0]["luns"][0]["size"] == 8 << 20'
plan_file=
full --tmpfs 4M --initiator "$me" --chap generate --secrets "$tmp/never" --out "$tmp/none/plan.json"
check "a directory that is not there" fails 1 "none/plan.json: No such file"
check "leaves no secret behind" test -z "$(find "$tmp/never" -type f)"
full --tmpfs 4M --initiator "$me" --chap generate --secrets "$tmp/never2" --out "$tmp/plan.json"
check "nor does a plan that is there" test "$status" -eq 1 -a ! -e "$tmp/never2"
chmod 644 "$secret"
full --tmpfs 4M --initiator "$me" --chap generate
check "a secret that others may read is not used" fails 1 'chmod 600 it'
chmod 600 "$secret"
mkdir "$tmp/shared" && chmod 777 "$tmp/shared"
full --tmpfs 4M --initiator "$me" --chap generate --secrets "$tmp/shared"
check "nor a directory that others may write" fails 1 'others can write it'
check "and nothing is in it" test -z "$(find "$tmp/shared" -type f)"
mkfifo -m 600 "$tmp/secrets/s.${me}3.chap"
full --tmpfs 4M --initiator "${me}3" --chap generate
check "a pipe is no secret" fails 1 'is not a file'

rm "$tmp/secrets/s.${me}3.chap"
mkfifo "$tmp/pipe"
full --tmpfs 4M --open --out "$tmp/pipe" --force
check "nor a place for a plan" fails 1 'pipe exists; --force writes over it, if it is a file'
check "and is left alone" test -p "$tmp/pipe"
full --tmpfs 4M --initiator "InitiatorName=$me"
check "a line of initiatorname.iscsi is no name" fails 2 "write the part behind its '='"
echo 'ens1f0 192.0.2.1' >"$tmp/one-address"
full --addresses "$tmp/one-address" --tmpfs 4M --open
check "a node whose card has no address is not left out in silence" warned 'left out: node 1, where no RDMA card has an address'
full --addresses "$tmp/one-address" --tmpfs 4M --open --node 0
check "but where that was asked for" not warned 'left out'

# ---- check ----

run bash -c "rftp-iser plan --sysfs '$tmp/two' --addresses '$tmp/addresses' --name s --domain a.b --tmpfs 4M --open | rftp-iser plan --check -"
check "what it makes is good" status_is 0
check "and warned of again" test "$(grep -c 's-node1 is open' "$tmp/err")" -eq 2
run rftp-iser plan --check "$tmp/first.json"
check "a file" test "$status" -eq 0 -a ! -s "$tmp/out"
check "says how it is written" told 's-node0-disk0: tmpfs'
sed 's/"size": 4194304/"size": 4194305/' "$tmp/first.json" >"$tmp/broken.json"
run rftp-iser plan --check "$tmp/broken.json"
check "a broken one" fails 1 'broken.json: targets[0].luns[0].size is not a multiple of 512 bytes'
sed 's/"policy"/"polciy"/' "$tmp/first.json" >"$tmp/broken.json"
run rftp-iser plan --check "$tmp/broken.json"
check "a member misspelt" fails 1 'broken.json: targets[0].luns[0].polciy is not known'
head -c 100 "$tmp/first.json" >"$tmp/broken.json"
run rftp-iser plan --check "$tmp/broken.json"
check "half of one" fails 1 'broken.json:'
printf '{}\0' >"$tmp/broken.json"
run rftp-iser plan --check "$tmp/broken.json"
check "with a NUL" fails 1 'contains a NUL'
cp "$tmp/broken.json" "$tmp/"$'odd\e[31m'
run rftp-iser plan --check "$tmp/"$'odd\e[31m'
check "a name with control characters is no command to the terminal" fails 1 '/odd\x1b[31m contains a NUL'
full --open "$tmp/"$'odd\e[31m'
check "nor is a file's that asks" fails 1 '/odd\x1b[31m contains a NUL'
printf '[x]\n' >"$tmp/"$'odd\e[31m'
full --open "$tmp/"$'odd\e[31m'
check "whatever is wrong with it" fails 1 '/odd\x1b[31m:1: [x] must be'
run rftp-iser plan --check "$tmp/none.json"
check "none" fails 1 'none.json: No such file'
run rftp-iser plan --check -
check "nothing on standard input" fails 1 'standard input:1:'
run rftp-iser plan --check - --open
check "it takes nothing else" fails 2 '--check takes no other option than --sysfs and --addresses'

# Edited by hand, of that machine.
edit() { # EXPRESSION: a change of the plan p
	python3 -c 'import json, sys
p = json.load(open(sys.argv[1]))
t = p["targets"]
exec(sys.argv[2])
json.dump(p, open(sys.argv[3], "w"))' "$tmp/first.json" "$1" "$tmp/edited.json"
	plan --check "$tmp/edited.json"
}
plan --check "$tmp/first.json"
check "nothing to warn of where it is for" test "$status" -eq 0 -a "$(grep -c warning "$tmp/err")" -eq 0
edit 't[0]["luns"][0]["size"] = 65 << 20'
check "more than the memory is warned of" warned 'memory does not suffice: .* of node 0'
check "and nothing else" test "$status" -eq 0 -a "$(grep -c warning "$tmp/err")" -eq 1
edit 't[0]["portals"][0]["address"] = "192.0.2.77"'
check "an address of no card" warned 'portal 192.0.2.77 of .*s-node0: this host has no such address'
edit 't[0]["portals"][0] = {"address": "192.0.2.2"}'
check "of another node's" warned 's-node0: ens2f0 is a card of node 1, and the target is for node 0: all data goes from node to node'
edit 't[0]["portals"][0]["netdev"] = "eth0"'
check "of another one than is said" warned 'portal 192.0.2.1 of .*s-node0: the address is on ens1f0, and not on eth0'
edit 't[0]["portals"][0] = {"address": "192.0.2.9"}'
check "of one without RDMA" warned 's-node0: eth0 has no RDMA device, which iSER needs'
edit 'l = t[0]["luns"][0]; l["kind"] = "block"; l["path"] = "/dev/nvme1n1"; del l["size"], l["policy"]'
check "a device of another node" warned '/dev/nvme1n1 is on node 1, and not on node 0'
edit 'l = t[0]["luns"][0]; l["kind"] = "block"; l["path"] = "/dev/nvme7n1"; del l["size"], l["policy"]'
check "one that is not there" warned '/dev/nvme7n1: no block device of this name'
run rftp-iser plan --check "$tmp/edited.json"
check "nor here" warned '/dev/nvme7n1: No such file'
edit 'for x in t: x["initiators"][0]["chap"]["secret-file"] = "'"$tmp"'/nowhere"'
check "of another machine's secrets nothing is known" not warned 'nowhere'
run rftp-iser plan --check "$tmp/edited.json"
check "but of this one's, once" test "$(grep -c 'nowhere, a CHAP secret: No such file' "$tmp/err")" -eq 1
run rftp-iser plan --name s --domain a.b --open --block /dev/no-such-device
check "a device that is not there is on no node" fails 1 '/dev/no-such-device: No such file'
printf '[node 0]\nblock = /dev/no-such-device\n' >"$tmp/absent"
run rftp-iser plan --addresses "$tmp/addresses" --tcp --name s --domain a.b --open "$tmp/absent"
check "but is planned for the node that is said" is 't[0]["luns"][0]["path"] == "/dev/no-such-device"'
check "which is warned of" warned '/dev/no-such-device: No such file'

# ---- errors ----

# refused STATUS TEXT OPTION...: of a plan that is good without OPTION...
refused() {
	local code=$1 text=$2
	shift 2
	full --tmpfs 4M --open "$@"
	check "refused with $code: $*" fails "$code" "$text"
}
# By the machine, by a file, or by the option itself
wrong() { refused 1 "$@"; }
misused() { refused 2 "$@"; }
misused '--tmpfs "big" is not a size' --tmpfs big
misused '--tmpfs "512" is not a size of 1 MiB or more' --tmpfs 512
misused '--file "/srv/x" has no size behind it, as 100G' --file /srv/x
misused '--file "/srv/x,y" has a comma' --file /srv/x,y:1G
misused '--block "nvme0n1" is not below /dev' --block nvme0n1
wrong '/dev/md0: its node is not known, or it has several' --block /dev/md0
misused '--node "x" is not a list of nodes' --node x
wrong 'there is no node 7, but 0-1' --node 7
misused '--policy "local" must be bind or prefer' --policy local
misused '--write "now" must be through or back' --write now
misused '--portal "192.0.2.1" is not a NODE=ADDRESS' --portal 192.0.2.1
misused '--portal "x" is not a node' --portal x=192.0.2.1
misused '0.0.0.0" stands for all addresses' --portal 0=0.0.0.0
misused '--portal: 192.0.2.1:0 is not an ADDRESS, ADDRESS:PORT or [IPV6]:PORT' --portal 0=192.0.2.1:0
wrong 'eth0 (192.0.2.9), for node 0, has no RDMA device' --portal 0=eth0
misused '--initiator "me" is not an iSCSI name' --initiator me
wrong 'leave out one of them' --initiator "$me"
misused '--chap needs initiators: --initiator names one' --chap generate
misused '--name "a/b" has other characters' --name a/b
misused '--name "s.lio" ends in .lio, which is for files beside' --name s.lio
misused '--iqn "org.example" is not an iSCSI name' --iqn org.example
misused '--secrets "/a b" has a comma, a blank' --secrets '/a b'
wrong 'No such file' "$tmp/nowhere"
printf '[node 0]\n\ntmpfs = big\n' >"$tmp/bad"
wrong 'bad:3: tmpfs "big" is not a size' "$tmp/bad"
plan --iqn iqn.2026-01.org.example --tmpfs 4M
check "who may log in" fails 1 'no initiator is named'
plan --name s --domain localhost --tmpfs 4M --open
check "a domain without a dot" fails 1 'has a domain without a dot'
plan --name s --domain a.b --open
check "nothing to serve" fails 1 'no storage is named'
run rftp-iser plan --sysfs "$tmp/two" --tmpfs 1M --open --name s --domain a.b
check "addresses that are not known" fails 1 'RDMA device'
echo 'ens1f0 storage1' >"$tmp/bad"
run rftp-iser plan --sysfs "$tmp/two" --addresses "$tmp/bad" --tmpfs 1M --open
check "addresses that are none" fails 1 'bad:1: "storage1" is not a numerical address'
run rftp-iser plan --sysfs "$tmp/nowhere" --tmpfs 1M --open --name s --domain a.b
check "a sysfs that there is not" fails 1 'nowhere: No such file'
plan --tmpfs 4M --nonsense
check "an option that there is not" fails 2 'there is no option'
plan one two
check "too many words" fails 2 'too many words: two'

# ---- this machine ----

run rftp-iser plan --tmpfs 1M --open --tcp --name s --domain a.b
if [ "$status" -eq 0 ]; then
	check "this machine" is 'len(t) >= 1 and t[0]["luns"][0]["size"] == 1 << 20'
else
	check "this machine, which has no card" fails 1 'network'
fi

for words in "plan --help" --help --version "plan --sysfs $tmp/two --addresses $tmp/addresses --name s --domain a.b --tmpfs 4M --open"; do
	run sh -c "rftp-iser $words >/dev/full"
	check "output that cannot be written: ${words%% --sys*}" test "$status" -eq 1 -a "$(grep -c 'No space' "$tmp/err")" -eq 1
done
run rftp-iser --version
check "its version" grep -q '^rftp-iser [0-9]' "$tmp/out"
for words in "" nonsense; do
	# shellcheck disable=SC2086 # words
	run rftp-iser $words
	check "misused: \"$words\"" fails 2 'rftp-iser --help lists commands'
done
finish
