#!/bin/bash
# rftp plan-shards, --shard-list, finish-shards: a data set by several transfers at the same time, with
# files that are cut into ranges. TAP.
# shellcheck disable=SC2034,SC2317 # for lib.sh; check calls them

. "${top_srcdir:?}/tests/e2e/lib.sh"
need python3

mkdir "$tmp/root" "$tmp/here"
start_server d --root "$tmp/root" --anonymous rw
limit=300

# A file is cut from 2 GiB on. These have data only at some places.
islands() { # FILE MIB PLACE...
	truncate -s "$2M" "$1"
	for at in "${@:3}"; do
		head -c 300001 /dev/urandom | dd of="$1" bs=1M seek="$at" conv=notrunc status=none
	done
}
src=$tmp/src
mkdir -p "$src/d/deep" "$src/none"
islands "$src/big" 3000 0 5 900 999 1000 1001 1600 1999 2500 2999
islands "$src/d/big two" 2050 3 1030 2049
truncate -s 2100M "$src/hole"
for i in {1..120}; do random "$src/d/f$i" $((i * 700)); done
random "$src/d/deep/$(printf 'new\nline')" 5000
: >"$src/empty"
ln -s f1 "$src/d/link"
ln "$src/d/f2" "$src/d/other"
chmod 640 "$src/d/f3"
touch -d '2021-02-03 04:05:06.789' "$src/d/f4" "$src/d/deep"

lists() { cat "$1"/shard-????.jsonl "$1/split.jsonl" "$1/plan.json"; }
results() { cat "$1"/shard-????.result.jsonl; }
done_items() { results "$1" | grep -c '"event":"done".*}$'; }
plan() { # DIR OPTION...
	rm -rf "${tmp:?}/$1"
	run rftp plan-shards --accept-new --out "$tmp/$1" "${@:2}"
}
# copies put|get DIR: all lists at the same time
copies() {
	local list jobs=() j
	all=0
	for list in "$tmp/$2"/shard-????.jsonl; do
		rftp "$1" -q --shard-list "$list" >>"$tmp/out" 2>>"$tmp/err" &
		jobs+=($!)
	done
	for j in "${jobs[@]}"; do wait "$j" || all=$?; done
	return "$all"
}
finish_shards() { run rftp finish-shards -q "$tmp/$1" "${@:2}"; }
# Each file that is at the destination is whole.
nothing_half() { ! diff -rq --no-dereference "$src" "$tmp/root/to" | grep -E '^(Files?|Symbolic links) ' | comment | grep .; }

# ---- the plan ----

plan a -a "$src" "$url/to" --shards 2
check "plan-shards" status_is 0
check "it says how even the lists are" grep -q '^2 shards .* 3 of them cut .* more work' "$tmp/out"
check "the bytes of all lists are equal within 10 %" python3 - "$tmp/a/plan.json" <<'END'
import json, sys
shards = [s["bytes"] + s["pieces"] * (128 << 10) for s in json.load(open(sys.argv[1]))["shards"]]
sys.exit(max(shards) > 1.1 * sum(shards) / len(shards))
END
check "nothing was copied" test ! -e "$tmp/root/to"
plan b -a "$src" "$url/to" --shards 2
check "the same input gives the same lists" same <(lists "$tmp/a") <(lists "$tmp/b")
run rftp plan-shards --out "$tmp/a" --shards 2 -a "$src" "$url/to"
check "a directory that is in use is refused" fails_with 2 'not an empty directory'
check "and is left alone" same <(lists "$tmp/a") <(lists "$tmp/b")

# ---- put ----

check "all lists at the same time" copies put a
check "what is cut is not there yet" test ! -e "$tmp/root/to/big" -a ! -e "$tmp/root/to/d/big two"
check "small files are" same "$src/d/f7" "$tmp/root/to/d/f7"
before=$(done_items "$tmp/a")
check "each item has a result" test "$before" -eq "$(sed 1d -s "$tmp/a"/shard-????.jsonl | wc -l)"
run rftp put --json --shard-list "$tmp/a/shard-0001.jsonl"
check "a list that is done: nothing moves" test "$status" -eq 0 -a "$(done_items "$tmp/a")" -eq "$before"
finish_shards a --manifest "$tmp/m"
check "finish-shards" status_is 0
check "the trees are equal" same_trees "$src" "$tmp/root/to"
check "holes are holes" test "$(stat -c %b "$tmp/root/to/big")" -lt 100000
check "no parts are left" no_parts "$tmp/root/to"
# One of the two names of a file is not listed.
for name in d/f2 d/other; do grep -q "  $name\$" "$tmp/m" || rm "$tmp/root/to/$name"; done
run rftp verify -q --alg CRC32C "$tmp/m" "$tmp/root/to"
check "the manifest is that of the whole files" status_is 0
finish_shards a --manifest "$tmp/m2"
check "a second time" test "$status" -eq 0 -a -s "$tmp/m2"
check "the manifest is the same" same "$tmp/m" "$tmp/m2"

# ---- get, and the options of a plan ----

plan g -a --exclude 'f1*' --delete "$url/to/" "$tmp/here/got" --shards 3
check "a plan to get" status_is 0
mkdir "$tmp/here/got" && : >"$tmp/here/got/surplus"
check "its lists" copies get g
check "--delete waits" test -e "$tmp/here/got/surplus"
finish_shards g
check "and finishes" status_is 0
check "--delete" test ! -e "$tmp/here/got/surplus"
check "--exclude" test -z "$(find "$tmp/here/got" -name 'f1*')" -a -e "$tmp/here/got/d/f2"
check "a big file is whole" same "$src/big" "$tmp/here/got/big"
check "no parts are left" no_parts "$tmp/here/got"
touch "$tmp/root/to/d/f5"
plan u -a --update "$url/to/" "$tmp/here/got" --shards 2
check "--update: only what is newer" test "$(sed 1d -s "$tmp/u"/shard-????.jsonl | wc -l)" -eq 33

# ---- killed at any point ----

rm -rf "$tmp/root/to" && plan k -a "$src/" "$url/to/" --shards 2
for i in {1..12}; do
	rftp put -q --rate 300M --shard-list "$tmp/k/shard-000$((i % 2 + 1)).jsonl" 2>/dev/null &
	task=$!
	others=("$task")
	sleep "0.0$((i % 10))" && sleep "0.$((i % 4))"
	kill -KILL "$task" 2>/dev/null
	wait "$task"
	check "killed $i: nothing half is there" nothing_half
done
others=()
check "run again" copies put k
check "nothing was copied twice" test "$(done_items "$tmp/k")" -eq "$(sed 1d -s "$tmp/k"/shard-????.jsonl | wc -l)"
for i in 0.02 0.06 joined; do
	rftp finish-shards -q "$tmp/k" 2>/dev/null &
	task=$!
	if [ $i = joined ]; then
		patience 20 grep -q '"done"' "$tmp/k/split.result.jsonl"
	else
		sleep $i
	fi
	kill -KILL "$task" 2>/dev/null
	wait "$task"
	check "finish-shards, killed: nothing half is there" nothing_half
done
: >"$tmp/k/split.result.jsonl" # as if it was killed before it could write a line
finish_shards k
check "finish-shards after kills" status_is 0
check "it finds the joined files" test "$(grep -c '"done"' "$tmp/k/split.result.jsonl")" = 3
check "the trees are equal" same_trees "$src" "$tmp/root/to"
check "no parts are left" no_parts "$tmp/root/to"

# ---- not all is there ----

rm -rf "$tmp/root/to" && plan n -a "$src/" "$url/to/" --shards 2
run rftp put -q --shard-list "$tmp/n/shard-0001.jsonl"
check "one of two lists" status_is 0
finish_shards n
check "finish-shards refuses" status_is 1
check "it names the list, and the command" grep -q "shard 2: .* missing (rftp put --shard-list $tmp/n/shard-0002.jsonl" "$tmp/err"
check "nothing has got its name" test ! -e "$tmp/root/to/big"
rftp put -q --rate 1M --shard-list "$tmp/n/shard-0002.jsonl" 2>/dev/null &
others=($!)
sleep 0.5
run rftp put -q --shard-list "$tmp/n/shard-0002.jsonl"
check "a second rftp for a list is refused" fails_with 1 'another rftp is copying it'
finish_shards n
check "finish-shards, too, while one runs" fails_with 1 'another rftp is copying it'
kill "${others[0]}" && wait "${others[0]}"
others=()
cp "$tmp/a/shard-0001.jsonl" "$tmp/n/shard-0002.jsonl"
run rftp put -q --shard-list "$tmp/n/shard-0002.jsonl"
check "the list of another plan is refused" fails_with 2 'another plan'
run rftp get -q --shard-list "$tmp/n/shard-0001.jsonl"
check "a plan to put is not for get" fails_with 2 'the plan is for rftp put'
echo nonsense >>"$tmp/n/shard-0001.jsonl"
run rftp put -q --shard-list "$tmp/n/shard-0001.jsonl"
check "a line that is none is refused" test "$status" -ne 0
run rftp put -q --shard-list "$tmp/none/shard-0001.jsonl"
check "a plan that is not there" fails_with 1 'not a plan'
run rftp put -q --shard-list "$tmp/n/shard-0001.jsonl" "$src" "$url/"
check "words with --shard-list are refused" fails_with 2 'the plan names source'

# A source that changes between.
rm -rf "$tmp/root/to" && plan c -a "$src/" "$url/to/" --shards 2
cp -a "$src/d/f9" "$tmp/f9"
echo changed >"$src/d/f9"
check "a file that has changed since the plan" not copies put c
check "is named" grep -q 'd/f9: has changed since the plan' "$tmp/err"
finish_shards c
check "and is missing" test "$status" -eq 1
rm "$src/d/f9" && cp -a "$tmp/f9" "$src/d/f9"
check "it is as it was: the lists" copies put c
finish_shards c
check "and finish-shards end well" status_is 0
check "the trees are equal" same_trees "$src" "$tmp/root/to"
check "a file that has changed leaves no part" no_parts "$tmp/root/to"

# A source that changes after the lists.
plan l -a "$src/" "$url/to/" --shards 2
check "the lists" copies put l
echo changed >"$src/d/f9" && echo new >"$src/d/new"
finish_shards l --manifest "$tmp/ml"
check "a change after the lists" status_is 1
check "is named" test "$(grep -c 'copied by finish-shards: it is new, or has changed since the plan' "$tmp/err")" = 2
for name in d/f2 d/other; do grep -q "  $name\$" "$tmp/ml" || mv "$tmp/root/to/$name" "$tmp/kept"; done
run rftp verify -q --alg CRC32C "$tmp/ml" "$tmp/root/to"
check "the manifest is that of the new files" status_is 0
finish_shards l
check "then all is done" status_is 0
rm "$src/d/f9" "$src/d/new" && cp -a "$tmp/f9" "$src/d/f9"

# ---- options of a plan ----

for option in --overwrite --checksum; do
	rm -rf "$tmp/root/to" && plan v -a $option "$src/" "$url/to/" --shards 2
	check "$option: the lists" copies put v
	finish_shards v
	check "finish-shards copies nothing again" test "$status:$(wc -l <"$tmp/v/split.result.jsonl")" = 0:3
done
for option in --update --skip-existing; do
	rm -rf "$tmp/root/to" && plan v -a $option "$src/" "$url/to/" --shards 2
	mkdir -p "$tmp/root/to/d" && echo mine >"$tmp/root/to/d/f7"
	check "$option: the lists" copies put v
	finish_shards v --manifest "$tmp/mv"
	check "finish-shards" status_is 0
	check "a file that came after the plan stays" test "$(cat "$tmp/root/to/d/f7")" = mine
	check "and is not in the manifest" not grep -q 'd/f7$' "$tmp/mv"
done

# Owner and attributes of a joined file do not come from a later correction.
cp -a --sparse=always "$src/hole" "$tmp/hole"
color() { python3 -c 'import os, sys; print(os.getxattr(sys.argv[1], "user.color").decode())' "$1"; }
python3 -c 'import os, sys; os.setxattr(sys.argv[1], "user.color", b"red")' "$src/hole" 2>/dev/null
if is_root; then chown 12:34 "$src/hole"; fi
touch -r "$tmp/hole" "$src/hole"
rm -rf "$tmp/root/to" && plan v -a --skip-existing "$src/" "$url/to/" --shards 2
check "--skip-existing: the lists" copies put v
echo mine >"$tmp/root/to/big"
run rftp finish-shards "$tmp/v"
check "finish-shards" status_is 0
check "owner and mode" test "$(stat -c %u:%g:%a "$tmp/root/to/hole")" = "$(stat -c %u:%g:%a "$src/hole")"
if color "$src/hole" >/dev/null 2>&1; then
	check "extended attributes" test "$(color "$tmp/root/to/hole")" = red
else
	skip "extended attributes" "this filesystem has none"
fi
check "a file that came before the join stays" test "$(cat "$tmp/root/to/big")" = mine
check "it is named" grep -q 'to/big: exists, and may not be replaced' "$tmp/err"
check "its part is removed" no_parts "$tmp/root/to"
finish_shards v
check "it stays so" test "$status:$(cat "$tmp/root/to/big")" = 0:mine
# For --update a file that is not older stays; here it comes before one of the lists, or after them.
for option in --update --skip-existing; do
	for when in between after; do
		rm -rf "$tmp/root/to" && plan v -a $option "$src/big" "$url/to/" --shards 2
		run rftp put -q --shard-list "$tmp/v/shard-0001.jsonl"
		[ $when = after ] || echo mine >"$tmp/root/to/big"
		run rftp put -q --shard-list "$tmp/v/shard-0002.jsonl"
		[ $when = between ] || echo mine >"$tmp/root/to/big"
		check "$option: the lists, and a file that comes $when" status_is 0
		finish_shards v
		check "it stays" test "$status:$(cat "$tmp/root/to/big")" = 0:mine
		check "no part does" no_parts "$tmp/root/to"
	done
done
rm -rf "$tmp/root/to" && plan v -a --update "$src/big" "$url/to/" --shards 2
check "--update: the lists" copies put v
echo old >"$tmp/root/to/big" && touch -d 2001-01-01 "$tmp/root/to/big"
finish_shards v
check "the ranges replace an older file" status_is 0
check "as it is" same "$src/big" "$tmp/root/to/big"
mv "$tmp/hole" "$src/hole"

# Rules and times are those of the plan.
rm -rf "$tmp/root/to" && mkdir -p "$tmp/root/to" "$tmp/rules.src" && : >"$tmp/root/to/kept"
cp "$src/d/f1" "$tmp/rules.src/kept"
cp "$src/d/f1" "$tmp/rules.src/f"
echo '- kept' | rftp plan-shards -q -a --delete --filter-from - --newer-than 9999d "$tmp/rules.src/" "$url/to/" --shards 1 --out "$tmp/y"
check "rules from standard input" test -e "$tmp/y/plan.json"
check "an age becomes a time" grep -q '"--newer-than=@[0-9]*"' "$tmp/y/plan.json"
check "its list" copies put y
finish_shards y </dev/null
check "the rules hold at the end" test "$status:$(stat -c %s "$tmp/root/to/kept"):$(cd "$tmp/root/to" && echo *)" = "0:0:f kept"
echo changed >"$tmp/rules.src/f"
rm -rf "$tmp/y" && plan y -a --delete "$tmp/rules.src/" "$url/to/" --shards 1
echo again >"$tmp/rules.src/f"
run rftp put --shard-list "$tmp/y/shard-0001.jsonl"
check "a list of a plan with --delete that fails" status_is 1
check "says nothing of removals" not grep -q 'nothing was removed' "$tmp/err"
run rftp put --dry-run --shard-list "$tmp/v/shard-0001.jsonl"
check "an option of the plan with --shard-list" fails_with 2 'dry-run is an option of plan-shards'
echo '- f1*' >"$tmp/rules"
rm -rf "$tmp/root/to" "$tmp/x"
(cd "$tmp" && exec rftp plan-shards -q --filter-from rules -a src/ "$url/to/" --shards 1 --out x)
finish_shards x --incomplete
check "a file of an option is found from another directory" status_is 0

# ---- the files of a plan ----

for mask in 022 077; do
	rm -rf "$tmp/root/to" "$tmp/x"
	(umask $mask && exec rftp plan-shards -q -a "$src/d/deep" "$url/to" --shards 1 --out "$tmp/x")
	(umask $mask && exec rftp put -q --shard-list "$tmp/x/shard-0001.jsonl")
	check "umask $mask: no one else writes to a plan" test -z "$(find "$tmp/x" -perm /022)"
	check "umask $mask: is kept" test "$(stat -c %a "$tmp/x" "$tmp/x/plan.json" "$tmp/x/shard-0001.result.jsonl" | xargs)" = \
		"$([ $mask = 077 ] && echo 700 600 600 || echo 755 644 644)"
done
rm -rf "$tmp/x" && mkdir -m 2770 "$tmp/x"
run rftp plan-shards -q "$tmp/missing" "$url/to" --shards 1 --out "$tmp/x"
check "a plan that fails leaves nothing" test "$status:$(ls -A "$tmp/x")" = 1:
run rftp plan-shards -q "$src/d/deep" "$url/to" --shards 1 --out "$tmp/x"
check "a directory that exists keeps its mode" test "$status:$(stat -c %a "$tmp/x")" = 0:2770
run rftp plan-shards -q "$src/d" "$url/to" --shards 1 --out "$src/d/x"
check "a plan within its data is refused" fails_with 2 'must be outside'
check "and leaves nothing" test ! -e "$src/d/x"

# ---- names in URLs ----

# whole SOURCE DESTINATION: the lists and finish-shards use the same places
whole() {
	local command=put
	[[ $1 == rftp:* ]] && command="get"
	plan x -a "$1" "$2" --shards 2
	[ "$status" = 0 ] && copies "$command" x && finish_shards x && [ "$status" = 0 ] &&
		not grep -q 'copied by finish' "$tmp/err"
}
rm -rf "$tmp/root/to"
mkdir "$tmp/50%41" && echo 1 >"$tmp/50%41/a b"
check "a name with a percent sign" whole "$tmp/50%41" "$url/in%20it/"
check "arrives" test "$(find "$tmp/root" -name 'a b')" = "$tmp/root/in it/50%41/a b"
check "get from an encoded URL" whole "$url/in%20it/50%2541" "$tmp/here/"
check "arrives" test "$(cat "$tmp/here/50%41/a b")" = 1
check "get of a file" whole "$url/in%20it/50%2541/a%20b" "$tmp/here/"
check "arrives" test "$(cat "$tmp/here/a b")" = 1
ln -s "50%41/a b" "$tmp/root/in it/link"
check "of a link to a file" whole "$url/in%20it/link" "$tmp/here/"
check "arrives" test "$(cat "$tmp/here/link")" = 1
plan x -a "$url/in%20it/50%2541/a%20b" "$tmp/here/name" --shards 2
check "get of a file to a name" fails_with 2 'needs a directory'
check "a URL without a path" whole "$tmp/50%41" "$url"
check "arrives" test "$(cat "$tmp/root/50%41/a b")" = 1
check "a local name like a list of hosts" whole "$url/in%20it/50%2541/" "$tmp/here/o[2-1]/"
check "arrives" test "$(cat "$tmp/here/o[2-1]/a b")" = 1
rm -rf "$tmp/root/50%41" "$tmp/root/in it" "$tmp/here"

# ---- few files, no files ----

mkdir "$tmp/few" "$tmp/no" && echo 1 >"$tmp/few/1" && echo 2 >"$tmp/few/2"
plan f "$tmp/few/" "$url/few" --shards 5
check "more lists than files" status_is 0
check "the lists" copies put f
finish_shards f
check "finish" test "$status" -eq 0 -a "$(ls "$tmp/root/few")" = "$(ls "$tmp/few")"
plan e "$tmp/no/" "$url/no" --shards 2
check "an empty source" status_is 0
check "its lists" copies put e
finish_shards e
check "become an empty directory" test "$status" -eq 0 -a -d "$tmp/root/no"
plan o "$src/big" "$url/one/" --shards 2
check "one file" status_is 0
check "its lists" copies put o
finish_shards o
check "it is whole" same "$src/big" "$tmp/root/one/big"
plan x "$src" "$tmp/here" --shards 2
check "without a server" fails_with 2 'one of the two must be a server'
plan x "$src/big" "$url/name" --shards 2
check "one file, another name" fails_with 2 'needs a directory'
for option in --no-times --dry-run --inplace; do
	plan x $option "$src" "$url/to" --shards 2
	check "$option is refused" fails_with 2 "$option"
done
mkdir "$tmp/huge" && truncate -s $((512 << 30 | 1)) "$tmp/huge/f"
plan h "$tmp/huge/" "$url/huge/" --shards 512
check "at most 512 ranges" test "$status:$(sed 1d -s "$tmp/h"/shard-????.jsonl | wc -l)" = 0:512
rm -r "$tmp/huge"
plan x "$src" "$url/to"
check "without --shards" fails_with 2 'shards N'
plan x --alg MD5 "$src" "$url/to" --shards 2
check "another digest" fails_with 2 'only CRC32C'
plan x -a --delete "$src" "$url/to" --shards 2
check "--delete without a slash" fails_with 2 'delete'
plan x -a "$tmp/nothing" "$url/to" --shards 2
check "a source that is not there" status_is 1
plan x -a "$src" rftp://127.0.0.1:1/to --shards 2
check "a server that is not there" status_is 3

# ---- several servers of one filesystem ----

one=$server first=$port
start_server e --listen "127.0.0.2:$first" --root "$tmp/root" --anonymous rw
rm -rf "$tmp/root/to"
plan s -a "$src" "rftp://127.0.0.[1-2]:$first/to" --shards 4
check "a plan for two servers" status_is 0
run rftp ls -q --accept-new "rftp://127.0.0.2:$first/"
was=$(grep -c 'info: put' "$tmp/d.log")
check "its lists" copies put s
check "each server has got two" test "$(grep -c 'info: put' "$tmp/e.log"):$(($(grep -c 'info: put' "$tmp/d.log") - was))" = 2:2
finish_shards s
check "finish-shards" status_is 0
check "the trees are equal" same_trees "$src" "$tmp/root/to"
check "that server ends well" stops_well
server=$one port=$first url=rftp://127.0.0.1:$first
rm -rf "$tmp/root/to"
plan s -a "$src" "rftp://127.0.0.[1-2]:$first/to" --shards 2
run rftp put --shard-list "$tmp/s/shard-0002.jsonl"
check "one that does not answer is left out, with a warning" test "$status" -eq 0 -a \
	"$(grep -c '127.0.0.2 .*: this server is left out$' "$tmp/err")" -eq 1
plan x "$src" "rftp://127.0.0.[2-1]:$first/to" --shards 2
check "a list of servers that is none" fails_with 2 'not a list of hosts'

# ---- a part with ranges, and other writers ----

rm -rf "$tmp/root/to" && plan w "$src/big" "$url/to/" --shards 2
run rftp put -q --shard-list "$tmp/w/shard-0001.jsonl"
check "one range of two" status_is 0
random "$tmp/other" 50000000
touch -r "$src/big" "$tmp/other"
run rftp put -q "$tmp/other" "$url/to/big"
check "another file of this name" same "$tmp/other" "$tmp/root/to/big"
check "the other list" copies put w
check "that file stays until the end" same "$tmp/other" "$tmp/root/to/big"
run rftp rm -q -r --parts "$url/to"
check "rm --parts removes ranges" no_parts "$tmp/root/to"
finish_shards w
check "finish-shards fails" status_is 1
check "it says that they are lost" grep -q ' 550 /to/big: its ranges are missing' "$tmp/err"
check "it says how to copy them again" grep -q "the ranges of 1 file must be copied again (rftp put --shard-list" "$tmp/err"
check "and the other file stays" same "$tmp/other" "$tmp/root/to/big"
finish_shards w
check "then they are missing" grep -q ': 2 items are missing: nothing is changed' "$tmp/err"
check "the lists copy them again" copies put w
chmod 600 "$tmp/root/to/big"
finish_shards w
check "the file is joined" same "$src/big" "$tmp/root/to/big"
check "with its mode" test "$(stat -c %a "$tmp/root/to/big")" = "$(stat -c %a "$src/big")"
check "no parts are left" no_parts "$tmp/root/to"

# Not all ranges are there: this host copies the file.
rm -rf "$tmp/root/to" && plan i "$src/big" "$url/to/" --shards 2
run rftp put -q --shard-list "$tmp/i/shard-0002.jsonl"
run rftp finish-shards "$tmp/i" --incomplete --manifest "$tmp/mi"
check "finish-shards --incomplete" status_is 0
check "it names the missing item" grep -q 'big: bytes 0+[0-9]* are not copied .shard 1' "$tmp/err"
check "it copies the file" same "$src/big" "$tmp/root/to/big"
check "the part is given up" no_parts "$tmp/root/to"
check "the manifest has it" grep -q '  big$' "$tmp/mi"
finish_shards i
check "then nothing is missing" status_is 0
run rftp put -q --shard-list "$tmp/i/shard-0001.jsonl"
check "its list copies nothing more" test "$status:$(cd "$tmp/root/to" && ls -A)" = 0:big

# No list was run: there is no directory of the file, nor a part.
mkdir "$tmp/deep" && cp -a --sparse=always "$src/hole" "$tmp/deep/hole"
rm -rf "$tmp/root/to" && plan i -a "$tmp/deep" "$url/to/new/" --shards 2
finish_shards i --incomplete
check "finish-shards --incomplete without a list" status_is 0
check "copies all" same_trees "$tmp/deep" "$tmp/root/to/new/deep"

# A connection that is cut: items that are done are not written again.
rm -rf "$tmp/root/to" && plan q "$src/big" "$url/to/" --shards 3
cat "$tmp/q"/shard-000[23].jsonl | grep '"path"' >>"$tmp/q/shard-0001.jsonl"
: >"$tmp/q/shard-0001.result.jsonl"
rftp put --progress never --rate 1M --block 256K --shard-list "$tmp/q/shard-0001.jsonl" 2>"$tmp/err" &
others=($!)
patience 10 grep -q '"event":"done"' "$tmp/q/shard-0001.result.jsonl"
mapfile -t cut < <(children "$server")
kill -KILL "${cut[@]}"
has_session() { test -n "$(children "$server")"; }
patience 10 has_session
sleep 0.3
check "a cut connection is made again" grep -q again "$tmp/err"
kill -KILL "${others[0]}"
wait "${others[0]}"
others=()
run rftp put -q --shard-list "$tmp/q/shard-0001.jsonl"
check "killed then, and run again" status_is 0
finish_shards q --incomplete
check "no range is lost" not grep -q 'copied again' "$tmp/err"
check "the file is whole" same "$src/big" "$tmp/root/to/big"
ftp() { python3 "$lib/ftp-say.py" "$port" "$@"; }
set=00112233445566778899aabbccddeeff
join() { ftp "USER anonymous" "PASS x" "SITE JOIN $*" 2>&1; }
check "SITE JOIN without ranges" grep -q ' 501' <(join "5 0 0 $set  to/x")
check "without a set" grep -q ' 501' <(join "5 0 0 5:00000000 to/x")
check "of too many ranges" grep -q ' 501' <(join "513 0 0 $set $(printf '1:00000000,%.0s' {1..512})1:00000000 to/x")
printf abcdef >"$tmp/root/six"
check "of ranges that are not the whole file" grep -q ' 550 .*do not cover' <(join "6 0 0 $set 1:$(rftp hash -q --alg CRC32C "$url/six" | cut -d' ' -f1) six")
check "of nothing" grep -q ' 550' <(join "5 0 0 $set 5:00000000 to/x")
check "of a path that leads out" grep -q ' 550' <(join "5 0 0 $set 5:00000000 ../x")
check "of a part" grep -q ' 5[0-9][0-9]' <(join "5 0 0 $set 5:00000000 to/.rftp-00112233445566778899aabbccddeeff")
check "the server ends well" stops_well
start_server up --root "$tmp/root" --anonymous upload
echo secret >"$tmp/root/secret"
touch -d @5 "$tmp/root/secret"
check "an account that may not read learns nothing of a file" grep -q ' 550 /secret: its ranges are missing' <(join "7 6 0 $set 7:00000000 secret")
check "but that it has the size and the time" grep -q ' 200' <(join "7 5 0 $set 7:00000000 secret")
check "the server ends well" stops_well
start_server ro --root "$tmp/root" --anonymous ro
check "an account that may not write" grep -q ' 550' <(join "5 0 0 $set 5:00000000 to/x")
check "the server ends well" stops_well
finish
