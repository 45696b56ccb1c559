#!/bin/bash
# Errors of rftp-iser's commands before they begin: status, message, and JSON. Those of plan, login
# and logout are in iser-plan.sh and iser-login.sh. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
skip_with_sanitizers
. "$top_srcdir/tests/e2e/iser-looks.bash"
need python3

# This host is not changed, also if root runs this: the configuration directory does not exist.
export RFTP_ISER_STATE=$tmp/state RFTP_CONFIGFS=$tmp/configfs
without_rtslib

# iser WORD...
iser() { run "${as_root[@]}" rftp-iser "$@"; }
# one_line STATUS TEXT: and nothing for programs
one_line() {
	status_is "$1" && [ "$(wc -l <"$tmp/err")" -eq 1 ] && [ ! -s "$tmp/out" ] &&
		grep -qe "^rftp-iser: .*$2" "$tmp/err"
}
# says TEXT: one line to people, and the same to programs
says() {
	status_is 1 && [ "$(wc -l <"$tmp/err")" -eq 1 ] && [ "$(wc -l <"$tmp/out")" -eq 1 ] &&
		grep -qe "$1" "$tmp/err" && error=$(cut -d ' ' -f 2- "$tmp/err") is 'm["error"] == os.environ["error"]'
}

# ---- the command line ----

for command in status verify remove; do
	for name in '' a/b ../x .x two.lio; do
		run rftp-iser $command "$name"
		check "$command: no plan's name: \"$name\"" one_line 2 "not a plan's name"
	done
	run rftp-iser $command one two
	check "$command: too many words" one_line 2 'too many words: two'
	run rftp-iser $command --nonsense
	check "$command: no such option" one_line 2 'there is no option'
done
run rftp-iser apply
check "apply: no plan" one_line 2 'apply needs PLAN'
run rftp-iser apply --name a/b "$tmp/plan"
check "apply: no plan's name" one_line 2 "not a plan's name"

# ---- privileges ----

if [ "${#as_other[@]}" -gt 0 ]; then
	mkdir -m 700 "$tmp/state"
	for words in "apply $tmp/none" "apply --dry-run $tmp/none" remove "remove one"; do
		# shellcheck disable=SC2086 # words
		run "${as_other[@]}" rftp-iser $words
		check "root's alone: ${words%%/*}" one_line 1 "${words%% *} needs root: use sudo"
	done
	run "${as_other[@]}" rftp-iser verify --io
	check "root's alone: verify --io" one_line 1 'verify --io needs root: use sudo'
	run "${as_other[@]}" rftp-iser remove --json
	check "for programs" says 'use sudo'
	run "${as_other[@]}" rftp-iser status one
	check "what is kept is root's, too" one_line 1 'one.json: Permission denied; use sudo'
	rmdir "$tmp/state"
else
	skip "root's alone" "there is nobody else here"
fi
if ! may_be_root; then
	skip "what is not there" "nobody here is root"
	finish
fi

# ---- missing files and programs ----

iser apply --json "$tmp/none"
check "a plan's file" says 'none: No such file'
check "its plan has no name yet" is 'm["name"] is None and m["steps"] == [] and m["undone"] is False'
printf '\0\0' >"$tmp/nul"
run rftp-iser apply "$tmp/nul"
check "a plan that is not a text has the status of a wrong one" one_line 2 'nul contains a NUL'
iser remove --json
check "a plan to remove" says 'no plan was applied here'
iser status --json one
check "a plan's status" says 'one: no such plan'
iser verify --json one
check "a plan to verify" says 'one: no such plan'
check "which is not right" is 'm["right"] is False and m["plans"] == []'
iser verify --json
check "or any" says 'no plan was applied here'
for words in "status --json" "status --json one" "apply --json $tmp/none" "logout --all --json"; do
	run "${as_root[@]}" sh -c "rftp-iser $words >/dev/full"
	check "and cannot be written, in one line: ${words%%/*}" test "$status" -eq 1 -a "$(wc -l <"$tmp/err")" -eq 1
done
run "${as_root[@]}" sh -c "rftp-iser verify --json >/dev/full"
check "nor is the cause forgotten over it" test "$status $(wc -l <"$tmp/err") $(grep -c 'no plan was applied here' "$tmp/err")" = "1 1 1"
mkdir -p "$tmp/state"
chmod 700 "$tmp/state"
echo nonsense >"$tmp/state/one.json"
iser status --json one
check "what is kept is damaged" says 'one.json'

# ---- conflicts ----

cat >"$tmp/plan" <<END
{"rftp-iser-plan": 1, "name": "p", "cpus": "any", "targets": [{"node": 0, "iqn": "iqn.2026-01.org.example:t",
"portals": [{"address": "192.0.2.1", "iser": false}],
"initiators": [{"name": "iqn.2026-01.org.example:me", "chap": {"user": "me", "secret-file": "$tmp/secret"}}],
"luns": [{"name": "b", "kind": "block", "path": "/dev/no-such-device",
	"serial": "00000000-0000-4000-8000-000000000001"},
	{"lun": 1, "name": "d", "kind": "ramdisk", "node": 0, "size": 1125899906842624,
	"serial": "00000000-0000-4000-8000-000000000002"}]}]}
END
rm "$tmp/state/one.json"
iser apply --json "$tmp/plan"
comment <"$tmp/err"
check "apply refuses" status_is 1
for text in 'rtslib is missing, which changes LIO: install' "portal 192.0.2.1 of iqn.2026-01.org.example:t: this host has no such address" 'secret, a CHAP secret: No such file' 'back store b: /dev/no-such-device: No such file' 'of the memory of'; do
	check "and names at once: $text" grep -q "^rftp-iser: .*$text" "$tmp/err"
done
check "each in its line" test "$(sort -u "$tmp/err" | wc -l)" -eq "$(wc -l <"$tmp/err")"
check "for programs, too" is 'len(m["problems"]) >= 5 and "nothing was changed; problems: " in m["error"]'
check "nothing is done" is 'm["steps"] == [] and not m["undone"]'
check "nor kept" test ! -e "$tmp/state/p.json"
finish
