#!/bin/bash
# rftp sync: differences only, --delete and its limits, the trash, the plan; rsync is the judge. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
need python3 rsync

mkdir "$tmp/root" "$tmp/place"
start_server d --root "$tmp/root" --anonymous rw --third-party all

seed=${RFTP_TEST_SEED:-$RANDOM}
echo "# seed $seed"
# shellcheck disable=SC2034 # run uses it
limit=600
run "$lib/sync-judge.py" "$seed" "${RFTP_TEST_TREES:-100}" "$tmp/place" "$url" "$tmp/root"
comment <"$tmp/out"
check "random trees become what rsync -aH --delete makes of them" status_is 0

# ---- each option, by each command ----
fresh() {
	chmod -R u+rwx "$tmp/here" 2>/dev/null
	rm -rf "$tmp/here" "$tmp/root/"*
	mkdir -p "$tmp/here/src/sub" "$tmp/here/to/sub" "$tmp/here/to/gone/deep"
	echo new >"$tmp/here/src/a"
	echo same >"$tmp/here/src/sub/b"
	cp -a "$tmp/here/src/sub/b" "$tmp/here/to/sub/b"
	echo 12345 >"$tmp/here/to/old"
	echo 1 >"$tmp/here/to/gone/1"
	echo 2 >"$tmp/here/to/gone/deep/2"
	cp -a "$tmp/here/src" "$tmp/here/to" "$tmp/root/"
}
# move put|get|cp OPTION...: sync src/ to to; made is the destination
move() {
	case $1 in
	put) run rftp sync --accept-new "${@:2}" "$tmp/here/src/" "$url/to"; made=$tmp/root/to ;;
	get) run rftp sync --accept-new "${@:2}" "$url/src/" "$tmp/here/to"; made=$tmp/here/to ;;
	cp) run rftp sync --accept-new "${@:2}" "$url/src/" "$url/to"; made=$tmp/root/to ;;
	esac
}
names() { (cd "$made" && find . -mindepth 1 -printf '%P\n' | LC_ALL=C sort | tr '\n' ' '); }
is() { [ "$(names)" = "$1" ] || { names | comment; false; }; }
all="a gone gone/1 gone/deep gone/deep/2 old sub sub/b "
untouched="gone gone/1 gone/deep gone/deep/2 old sub sub/b "
says() { grep -q -e "$1" "$tmp/err" || { comment <"$tmp/err"; false; }; }
linked_or_said() {
	cmp -s "$made/sub/l" "$tmp/here/src/gone" ||
		says 'to/sub/l: the file it is a hard link to was not written$'
}
for way in put get cp; do
	fresh
	move $way
	check "$way: without --delete all stays" is "$all"
	check "$way: the summary counts" says '1 file, 1 left alone$'
	fresh
	move $way --delete --dry-run
	check "$way --dry-run: the plan" test "$(sed "s,$tmp/here,,; s,^/*\(src/\|to/\),," "$tmp/out" | LC_ALL=C sort)" = \
		"$(printf '%s\n' 'a (4 B)' 'gone/, removed' 'gone/1 (2 B), removed' 'gone/deep/, removed' \
			'gone/deep/2 (2 B), removed' 'old (6 B), removed' \
			'to copy: 1 file, 4 B; attributes to correct: 0 files; to remove: 5 names, 10 B; to leave alone: 1 file' | LC_ALL=C sort)"
	check "$way --dry-run: nothing changes" is "$untouched"
	move $way --delete --dry-run --json
	check "$way --dry-run --json: the plan" python3 - "$tmp/out" <<-'END'
		import json, sys
		events = [json.loads(line) for line in open(sys.argv[1])]
		last = events[-1]
		assert last["plan_files"] == 1 and last["plan_bytes"] == 4, last
		assert last["removed"] == 5 and last["removed_bytes"] == 10, last
		assert sorted(e["path"].split("to/")[-1] for e in events if e["event"] == "removed") == \
			["gone/", "gone/1", "gone/deep/", "gone/deep/2", "old"], events
	END
	chmod 600 "$tmp/here/src/sub/b" "$tmp/root/src/sub/b"
	move $way --dry-run
	check "$way --dry-run: attributes" grep -q 'sub/b (5 B), attributes corrected$' "$tmp/out"
	check "$way --dry-run: and their total" grep -q 'attributes to correct: 1 file;' "$tmp/out"
	move $way -v --delete
	check "$way --delete" is "a sub sub/b "
	check "$way -v --delete: each name" says 'gone/deep/, removed$'
	check "$way --delete: the summary" says '1 file, 1 corrected, 5 removed$'
	check "$way: the mode is corrected" test "$(stat -c %a "$made/sub/b")" = 600
	move $way --delete -q
	check "$way: again, quietly" test ! -s "$tmp/out" -a ! -s "$tmp/err"
	fresh
	move $way --delete --max-delete 4
	check "$way --max-delete: too many names" status_is 1
	check "$way --max-delete: the reason" says 'would remove 5 names, more than --max-delete 4: none was removed'
	check "$way --max-delete: but the file is there" is "$all"
	move $way --delete --max-delete 5
	check "$way --max-delete: enough" is "a sub sub/b "
	fresh
	move $way --delete --trash .trash
	check "$way --trash" test "$(cd "$made/.trash"/* && find . -type f | LC_ALL=C sort | tr '\n' ' ')" = "./gone/1 ./gone/deep/2 ./old "
	check "$way --trash: the rest" test "$(cd "$made" && echo *)" = "a sub"
	echo more >"$made/more"
	move $way --delete --trash .trash
	check "$way --trash: it stays, the new one goes" test "$(cat "$made"/.trash/*/more)" = more
	check "$way --trash: what was in it, too" test -f "$(echo "$made"/.trash/*/gone/deep/2)"
	# The trash may be written in other ways, or be below a name that goes.
	fresh
	move $way --delete --trash gone/.//t
	check "$way --trash below an extra directory" test "$(cd "$made" && find . -type f | sed 's,t/[^/]*,t/TIME,' | LC_ALL=C sort | tr '\n' ' ')" = \
		"./a ./gone/t/TIME/gone/1 ./gone/t/TIME/gone/deep/2 ./gone/t/TIME/old ./sub/b "
	echo more >"$made/more"
	move $way --delete --exclude none --trash ./gone/t/
	check "$way --trash: written in another way: exit status" status_is 0
	check "$way --trash: written in another way" test "$(find "$made" -type f | wc -l)" = 6
	fresh
	ln -s nowhere "$made/dangling"
	cp -P "$made/dangling" "$tmp/here/src/"
	cp -P "$made/dangling" "$tmp/root/src/"
	move $way --delete --trash dangling
	check "$way --trash that is no directory: exit status" status_is 1
	check "$way --trash that is no directory: nothing is lost" test -f "$made/gone/deep/2" -a -f "$made/old"
	fresh
	move $way --delete --exclude deep --exclude sub
	check "$way --exclude: excluded names stay" is "a gone gone/deep gone/deep/2 sub sub/b "
	move $way --delete --exclude deep --exclude sub --delete-excluded
	check "$way --delete-excluded" is "a "
	fresh
	touch -d 2001-01-01 "$tmp/here/src/a" "$tmp/root/src/a"
	echo mine >"$tmp/here/to/a"
	echo mine >"$tmp/root/to/a"
	move $way --delete --newer-than 1d
	check "$way --newer-than: a file that is left out is not removed" is "a sub sub/b "
	check "$way --newer-than: nor replaced" test "$(cat "$made/a")" = mine
	fresh
	rm -rf "$tmp/here/src/"* "$tmp/root/src/"*
	move $way --delete
	check "$way: an empty source is refused" status_is 1
	check "$way: with the reason" says 'the source is empty.*--force does it'
	check "$way: and nothing is removed" is "$untouched"
	move $way --delete --dry-run
	check "$way: also in a dry run" status_is 1
	move $way --delete --force
	check "$way --force" is ""
	fresh
	rm "$tmp/here/src/a" "$tmp/root/src/a"
	mkfifo "$tmp/here/src/old" "$tmp/root/src/old"
	move $way --delete
	check "$way: the name of a pipe at the source is kept" is "old sub sub/b "
	fresh
	rm -rf "$tmp/here/src/a" "$tmp/root/src/a"
	ln -s nowhere "$tmp/here/src/a"
	cp -a "$tmp/here/src/a" "$tmp/root/src/a"
	mkdir "$tmp/here/src/old" "$tmp/root/src/old"
	echo in >"$tmp/here/src/old/in"
	cp "$tmp/here/src/old/in" "$tmp/root/src/old/in"
	echo file >"$tmp/here/src/gone"
	cp "$tmp/here/src/gone" "$tmp/root/src/gone"
	mkdir -p "$tmp/here/to/a/x" "$tmp/root/to/a/x"
	move $way
	check "$way: other types are in the way" status_is 1
	move $way --delete
	check "$way --delete: they are replaced" is "a gone old old/in sub sub/b "
	check "$way --delete: exit status" status_is 0
	check "$way --delete: by a link" test -L "$made/a"
	fresh
	for at in here root; do
		echo file >"$tmp/$at/src/gone"
		ln "$tmp/$at/src/gone" "$tmp/$at/src/sub/l"
	done
	move $way --delete --exclude 2 -v
	check "$way --exclude: a directory that stays is not replaced" status_is 1
	check "$way --exclude: the reason" says 'to/gone: cannot be replaced, because names in it stay'
	check "$way --exclude: its name is not left alone" not grep -q 'gone (.*left alone' "$tmp/err"
	# The first name of the two is written, by the order of the directory.
	check "$way --exclude: no other name of the file is forgotten" linked_or_said
	fresh
	printf x >"$made/.rftp-0123456789abcdef0123456789abcdef"
	move $way --delete
	check "$way: unfinished files of others are kept" test -f "$made/.rftp-0123456789abcdef0123456789abcdef"
done

# ---- a source that cannot be read whole ----
if is_root; then
	as=(setpriv --reuid nobody --clear-groups)
	chmod 755 "$tmp"
else
	as=()
fi
fresh
mkdir "$tmp/here/src/closed" "$tmp/here/src/sub/secret" "$tmp/root/to/closed" "$tmp/root/to/sub/x"
echo 1 >"$tmp/root/to/closed/1"
chmod 0 "$tmp/here/src/closed"
chmod 711 "$tmp/here/src/sub/secret"
chmod -R a+rwX "$tmp/root"
! is_root || chmod a+rX "$tmp/here" "$tmp/here/src"
HOME=$tmp run "${as[@]}" rftp sync --accept-new --delete "$tmp/here/src/" "$url/to"
made=$tmp/root/to
check "a closed directory: exit status" status_is 1
check "a closed directory: nothing is removed" is \
	"a closed closed/1 gone gone/1 gone/deep gone/deep/2 old sub sub/b sub/secret sub/x "
check "a closed directory: that is said" says 'nothing was removed, because not everything went well'
HOME=$tmp run "${as[@]}" rftp sync --accept-new --delete --force "$tmp/here/src/" "$url/to"
check "a closed directory, --force: the others are cleaned" is "a closed closed/1 sub sub/b sub/secret "

# A file that cannot be read does not replace a directory.
fresh
chmod -R a+rwX "$tmp/root"
echo secret >"$tmp/here/src/gone"
chmod 0 "$tmp/here/src/gone"
HOME=$tmp run "${as[@]}" rftp sync --accept-new --delete "$tmp/here/src/" "$url/to"
check "an unreadable file over a directory: exit status" status_is 1
check "an unreadable file over a directory: it stays" is "$all"
rm -f "$tmp/here/src/gone"
rm -f "$tmp/root/to/old"
mkdir -m 0 "$tmp/here/src/old"
echo kept >"$tmp/root/to/old"
HOME=$tmp run "${as[@]}" rftp sync --accept-new --delete --force "$tmp/here/src/" "$url/to"
check "an unreadable directory over a file, --force: it stays" test "$(cat "$tmp/root/to/old")" = kept
chmod 755 "$tmp/here/src/old"
# In rftp.conf, limits are for the runs with --delete.
printf 'trash .t\nmax-delete 5\n' >"$tmp/conf"
run rftp sync --accept-new -q --config "$tmp/conf" "$tmp/here/src/sub/" "$url/to/sub"
check "trash in rftp.conf without --delete" status_is 0

# ---- words that make no sense ----
bad() { # TEXT WORD...
	run rftp sync --accept-new "${@:2}"
	check "$1: exit status" status_is 2
	check "$1: said" says "$1"
	check "$1: in one line" test "$(wc -l <"$tmp/err")" = 1
}
fresh
bad 'is not on a server: write rftp://' "$tmp/here/src/" "$tmp/here/to"
bad 'need --delete' --trash x "$tmp/here/src/" "$url/to"
bad 'takes no --files-from' --files-from /dev/null "$tmp/here/src/" "$url/to"
bad 'without \.\.' --delete --trash ../x "$tmp/here/src/" "$url/to"
bad 'usage: rftp sync' "$tmp/here/src/"
bad 'write SOURCE/ to make DESTINATION the same' --delete "$tmp/here/src" "$url/to"
run rftp put --accept-new --delete "$tmp/here/src/" "$url/to"
check "put --delete names sync" says 'rftp sync'
check "after all of this nothing has changed" is "$untouched"

# ---- one host: inside itself ----
for way in put get; do
	fresh
	cp -a "$tmp/root/src" "$tmp/root/before"
	mkdir "$tmp/root/src/in" "$tmp/root/before/in"
	case $way in
	put) run rftp sync --accept-new --delete "$tmp/root/src/" "$url/src/in" ;;
	get) run rftp sync --accept-new --delete "$url/src/" "$tmp/root/src/in" ;;
	esac
	check "$way: a destination inside the source" status_is 1
	check "$way: a destination inside the source: said" says 'the destination is inside the source'
	check "$way: a destination inside the source: nothing changes" diff -r "$tmp/root/src" "$tmp/root/before"
	rm -r "$tmp/root/src/in" "$tmp/root/before/in"
	case $way in
	put) run rftp sync --accept-new --delete "$tmp/root/src/sub/" "$url/src" ;;
	get) run rftp sync --accept-new --delete "$url/src/sub/" "$tmp/root/src" ;;
	esac
	check "$way: a source inside the destination" says "the source is inside the destination"
	check "$way: a source inside the destination: nothing changes" diff -r "$tmp/root/src" "$tmp/root/before"
done

# ---- --checksum, hard links and the plan ----
mkdir "$tmp/here/hl"
echo hello >"$tmp/here/hl/a"
ln "$tmp/here/hl/a" "$tmp/here/hl/b"
run rftp sync --accept-new "$tmp/here/hl/" "$url/hl"
run rftp sync --accept-new --checksum --dry-run "$tmp/here/hl/" "$url/hl"
check "--checksum: the plan for hard links that are there" grep -q '^to copy: 0 files' "$tmp/out"
rm "$tmp/root/hl/a"
cp "$tmp/root/hl/b" "$tmp/root/hl/a"
run rftp sync --accept-new --checksum --dry-run "$tmp/here/hl/" "$url/hl"
check "--checksum: the plan for names that are not linked" grep -q '/hl/a ' "$tmp/out"
run rftp sync --accept-new --checksum "$tmp/here/hl/" "$url/hl"
check "--checksum: they are linked" test "$tmp/root/hl/a" -ef "$tmp/root/hl/b"

# ---- links in the plan, and in put ----
ln -s a "$tmp/here/hl/s"
run rftp sync --accept-new --dry-run "$tmp/here/hl/" "$url/new"
check "the plan: names of one file are one file, links are none" grep -q '^to copy: 1 file, 6 B;' "$tmp/out"
for policy in skip-same update; do
	rm -rf "$tmp/root/one" "$tmp/one"
	mkdir "$tmp/one"
	echo 1 >"$tmp/one/a"
	touch -d '2 days ago' "$tmp/one/a"
	run rftp put -rq "$tmp/one/" "$url/one"
	ln "$tmp/one/a" "$tmp/one/b"
	chmod 600 "$tmp/one/a"
	run rftp put -rq "--$policy" "$tmp/one/" "$url/one"
	check "put --$policy: attributes of a further name are corrected" test \
		"$(stat -c %a "$tmp/root/one/a" "$tmp/root/one/b" | tr '\n' ' ')" = "600 600 "
done

# ---- rights ----
stop_server
start_server e --root "$tmp/root" --anonymous upload --third-party all
made=$tmp/root/to
run rftp sync --accept-new --delete "$tmp/here/src/" "$url/to"
check "an account that may only upload: refused" status_is 1
check "an account that may only upload: nothing changes" is "$untouched"

# A user without root's rights removes its own directories, also those that it may not list.
if [ ${#as_other[@]} -gt 0 ]; then
	own=$tmp/own
	fresh_own() {
		rm -rf "$own"
		mkdir -p "$own/to/closed/in"
		echo x >"$own/to/closed/in/file"
		mkdir "$own/to/locked"
		chmod 0 "$own/to/closed"
		chmod 500 "$own/to/locked"
		chown -R 65534:65534 "$own"
	}
	stop_server
	start_server f --root "$tmp/here" --anonymous ro
	chmod 755 "$tmp" "$tmp/here"
	as_user() { run "${as_other[@]}" env "HOME=$own" rftp sync --accept-new --known-hosts "$own/kh" --delete "$@" "$url/src/" "$own/to"; }
	fresh_own
	as_user --dry-run
	check "a dry run, without rights: exit status" status_is 0
	check "a dry run, without rights" grep -q 'to remove: [1-9]' "$tmp/out"
	as_user --max-delete 100
	check "--max-delete, without rights: exit status" status_is 0
	check "--max-delete, without rights: nothing is said" test ! -s "$tmp/err" -o "$(grep -c 'cannot be' "$tmp/err")" -eq 0
	check "--max-delete, without rights: closed directories are removed" test "$(ls -A "$own/to" | tr '\n' ' ')" = "a sub "
fi

finish
