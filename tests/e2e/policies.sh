#!/bin/bash
# Policies for existing files, --dry-run and --files-from, for put and get alike. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
need python3 setsid

mkdir "$tmp/root"
start_server d --root "$tmp/root" --anonymous rw

# fresh: $src with files, $dst with an older, a newer and an equally old one, made for
# both directions; move DIR OPTION...: src to dst.
fresh() {
	rm -rf "$tmp/root/"* "$tmp/src" "$tmp/dst"
	mkdir -p "$tmp/src/sub" "$tmp/dst/sub"
	for f in older newer equal absent sub/older sub/absent; do
		echo "new $f" >"$tmp/src/$f"
		touch -d '2020-01-01 12:00:00.5' "$tmp/src/$f"
	done
	random "$tmp/src/big" 20000000
	touch -d '2020-01-01 12:00:00.5' "$tmp/src/big"
	for f in older newer equal sub/older big; do echo old >"$tmp/dst/$f"; done
	touch -d '2019-01-01' "$tmp/dst/older" "$tmp/dst/sub/older"
	touch -d '2021-01-01' "$tmp/dst/newer" "$tmp/dst/big"
	touch -d '2020-01-01 12:00:00.5' "$tmp/dst/equal"
	ln -s nowhere "$tmp/src/link"
	ln -s elsewhere "$tmp/dst/link"
	if [ "$1" = put ]; then mv "$tmp/dst" "$tmp/root/"; dst=$tmp/root/dst; else
		cp -a "$tmp/src" "$tmp/root/"; dst=$tmp/dst; fi
}
move() {
	local dir=$1
	shift
	if [ "$dir" = put ]; then put -r "$@" "$tmp/src" "$url/dst"; else get -r "$@" "$url/src" "$tmp/dst"; fi
}
is_new() { same "$tmp/src/$1" "$dst/$1"; }
is_old() { [ "$(cat "$dst/$1")" = old ]; }

for dir in put get; do
	fresh $dir
	cp -a "$dst" "$tmp/before"
	move $dir --dry-run
	check "$dir --dry-run" status_is 0
	check "$dir --dry-run changes nothing" same_trees "$tmp/before" "$dst"
	rm -rf "$tmp/before"

	move $dir
	check "$dir overwrites" status_is 0
	check "$dir overwrites all" same_trees "$tmp/src" "$dst"

	fresh $dir
	move $dir --skip-existing
	check "$dir --skip-existing" status_is 0
	for f in older newer equal sub/older big; do check "leaves $f" is_old $f; done
	for f in absent sub/absent; do check "sends $f" is_new $f; done
	check "leaves the link" test "$(readlink "$dst/link")" = elsewhere

	# Equal files with another time, or other attributes, are corrected and not sent.
	fresh $dir
	for f in newer equal sub/older big; do cp "$tmp/src/$f" "$dst/$f"; done
	chmod 600 "$dst/equal"
	head -c 20000000 /dev/zero >"$dst/big"
	: >"$tmp/src/empty" && : >"$dst/empty"
	touch -d 2018-01-01 "$tmp/src/empty"
	[ $dir = put ] || cp -a "$tmp/src/empty" "$tmp/root/src/"
	inode=$(stat -c %i "$dst/newer")
	if setfattr -n user.new -v 1 "$tmp/src/equal" 2>/dev/null; then
		[ $dir = put ] || setfattr -n user.new -v 1 "$tmp/root/src/equal"
		setfattr -n user.old -v 1 "$dst/equal"
	fi
	move $dir --checksum --dry-run --json --xattrs -v
	check "$dir --checksum --dry-run" status_is 0
	check "$dir --checksum --dry-run leaves equal files" test "$(summary skipped)" = 4
	check "and changes nothing" test "$dst/newer" -nt "$tmp/src/newer"
	move $dir --checksum --json --xattrs -v
	check "$dir --checksum" status_is 0
	check "leaves what is equal" test "$(summary skipped)" = 4
	check "sends the others" test "$(summary files)" = 4
	if [ $dir = put ]; then from=$tmp/src; else from=$tmp/root/src; fi
	check "is as the source is" same_trees "$from" "$dst"
	check "an equal file is not replaced" test "$(stat -c %i "$dst/newer")" = "$inode"
	move $dir --checksum --json --xattrs -v
	check "does nothing when it is done again" test "$(summary files)" = 0
	if getfattr -n user.new "$tmp/src/equal" >/dev/null 2>&1; then
		check "gives the attributes" getfattr -n user.new "$dst/equal"
		check "and takes away others" not getfattr -n user.old "$dst/equal"
		for d in "$dst" "$tmp/src"; do setfattr -x user.new "$d/equal"; done
		[ $dir = put ] || setfattr -x user.new "$tmp/root/src/equal"
		move $dir --skip-same --xattrs
		setfattr -n user.new -v 2 "$dst/equal"
		move $dir --skip-same --xattrs
		check "$dir --skip-same --xattrs corrects attributes" not getfattr -n user.new "$dst/equal"
	else
		skip "attributes" "the filesystem has none"
	fi

	# Files that are one hole, and hard links.
	fresh $dir
	truncate -s 100M "$tmp/src/hole" "$tmp/src/hole2"
	ln "$tmp/src/equal" "$tmp/src/equal2"
	[ $dir = put ] || { rm -rf "$tmp/root/src" && cp -a "$tmp/src" "$tmp/root/"; }
	cp -a "$tmp/src/." "$dst"
	rm "$dst/hole2" && echo x >"$dst/hole2" && truncate -s 100M "$dst/hole2"
	move $dir --checksum --dry-run
	check "$dir --checksum --dry-run of holes and hard links" status_is 0
	move $dir --checksum
	check "$dir --checksum of holes and hard links" status_is 0
	check "they are the same" same_trees "$tmp/src" "$dst"

	# -a: everything, as far as this account may.
	fresh $dir
	rm -rf "${dst:?}"
	chmod 2750 "$tmp/src/sub"
	chmod 4711 "$tmp/src/equal"
	setfattr -n user.x -v 1 "$tmp/src/equal" 2>/dev/null
	! is_root || chown 12345:54321 "$tmp/src/older" "$tmp/src/sub"
	[ $dir = put ] || { rm -rf "$tmp/root/src" && cp -a "$tmp/src" "$tmp/root/"; }
	if [ $dir = put ]; then put -a "$tmp/src" "$url/dst"; else get -a "$url/src" "$tmp/dst"; fi
	check "$dir -a" status_is 0
	check "$dir -a keeps all" same_trees --owner --xattrs "$tmp/src" "$dst"
	if [ $dir = get ] && is_root; then
		chmod 711 "$tmp"
		mkdir -m 777 "$tmp/open"
		run setpriv --reuid nobody --regid nogroup --clear-groups env HOME="$tmp/open" \
			rftp get -q --accept-new -a "$url/src" "$tmp/open/dst"
		check "-a by another account leaves out what it may not set" status_is 0
		check "it owns the files" test "$(stat -c %U:%a "$tmp/open/dst/older")" = \
			"nobody:$(stat -c %a "$tmp/src/older")"
		check "without set-id bits" test "$(stat -c %a "$tmp/open/dst/equal")" = 711
		check "--owner fails there" not setpriv --reuid nobody --regid nogroup --clear-groups \
			env HOME="$tmp/open" rftp get -q --accept-new --owner "$url/src/older" \
			"$tmp/open/owner" 2>"$tmp/err"
	fi

	fresh $dir
	move $dir --update --json -v
	check "$dir --update" status_is 0
	check "and says how many it left" test "$(summary skipped)" -ge 3
	for f in newer equal big; do check "leaves $f" is_old $f; done
	for f in older sub/older absent sub/absent; do check "sends $f" is_new $f; done
	move $dir --update --overwrite
	check "$dir: the last policy counts" is_new newer

	# Times that are not kept are newer at once.
	fresh $dir
	move $dir --no-times --no-modes
	check "$dir --no-times" test "$dst/older" -nt "$tmp/src/older"
	chmod 640 "$dst/older"
	move $dir --no-modes
	check "$dir --no-modes: the mode of what is replaced" test "$(stat -c %a "$dst/older")" = 640

	# ---- --files-from ----
	fresh $dir
	mkdir -p "$tmp/src/x/y" && echo deep >"$tmp/src/x/y/z" && echo lf >"$tmp/src/x/new"$'\n'line
	[ $dir = put ] || cp -a "$tmp/src/x" "$tmp/root/src/"
	rm -rf "${dst:?}/"*
	printf 'older\n./sub//absent\nx/y/z\n\nx/y/z\n' >"$tmp/list"
	move $dir --files-from "$tmp/list"
	check "$dir --files-from" status_is 0
	check "these and no more" test "$(cd "$dst" && find . -type f | sort | xargs)" = "./older ./sub/absent ./x/y/z"
	check "with what is in them" same "$tmp/src/x/y/z" "$dst/x/y/z"
	printf 'x/new\nline\0older\0' >"$tmp/list0"
	move $dir -0 --files-from "$tmp/list0"
	check "$dir -0 --files-from" status_is 0
	check "a name with a newline" test -f "$dst/x/new"$'\n'line
	rm -rf "${dst:?}/"*
	if [ $dir = put ]; then
		run_stdin rftp put -q --files-from - "$tmp/src" "$url/dst" <"$tmp/list"
	else
		run_stdin rftp get -q --files-from - "$url/src" "$tmp/dst" <"$tmp/list"
	fi
	check "$dir --files-from -" status_is 0
	check "these and no more" test "$(cd "$dst" && find . -type f | sort | xargs)" = "./older ./sub/absent ./x/y/z"
	rm -rf "${dst:?}/"*
	printf 'older\nmissing\nsub/absent\n' >"$tmp/list"
	move $dir --files-from "$tmp/list"
	check "$dir --files-from with one that is missing" fails_with 1 'missing.*No such file'
	check "the others are there" test "$(cd "$dst" && find . -type f | sort | xargs)" = "./older ./sub/absent"
	printf '../secret\n' >"$tmp/list"
	move $dir --files-from "$tmp/list"
	check "$dir --files-from does not climb" status_is 2
	: >"$tmp/list"
	move $dir --files-from "$tmp/list"
	check "$dir --files-from with nothing in it" status_is 0
	printf 'sub\n' >"$tmp/list"
	move $dir --files-from "$tmp/list"
	check "$dir --files-from with a directory" test -f "$dst/sub/older"
	move $dir --files-from "$tmp/nolist"
	check "$dir --files-from without the list" status_is 2
	# More than one request, or one frame, holds.
	rm -rf "${dst:?}/"* "$tmp/root/src" "$tmp/src" && mkdir -p "$tmp/src/many"
	(cd "$tmp/src/many" && seq -f "$(printf 'n%.0s' {1..200})%g" 6000 | xargs touch)
	[ $dir = put ] || cp -a "$tmp/src" "$tmp/root/"
	(cd "$tmp/src" && find . -type f) >"$tmp/list"
	move $dir --files-from "$tmp/list"
	check "$dir --files-from of 6000 long names" status_is 0
	check "all of them" test "$(find "$dst/many" -type f | wc -l)" -eq 6000
done

# A list that names more directories than a source keeps open; the first one comes again at its end.
if ! sanitized && [ "$slow" -eq 1 ]; then
	mkdir "$tmp/wide"
	python3 -c 'import os, sys
for i in range(66000):
    os.mkdir("%s/%d" % (sys.argv[1], i))
    open("%s/%d/f" % (sys.argv[1], i), "w").close()
    print("%d/f" % i)
open(sys.argv[1] + "/0/g", "w").close()
print("0/g")' "$tmp/wide" >"$tmp/names"
	limit=200 run rftp put -q --ack written --files-from "$tmp/names" "$tmp/wide" "$url/wide"
	check "a list of 66,000 directories" status_is 0
	check "all its files are there" test "$(find "$tmp/root/wide" -type f | wc -l)" -eq 66001
fi

# ---- the attributes of unchanged files ----

# A file that comes while its name is being copied is not replaced.
random "$tmp/slow" 3000000
rftp put -q --accept-new --skip-existing --rate 1M --block 64K "$tmp/slow" "$url/slow" 2>"$tmp/err" &
others=($!)
sleep 1
echo mine >"$tmp/root/slow"
wait "${others[0]}"
status=$? others=()
check "a file that comes meanwhile is an error" fails_with 1 'exists, and may not be replaced'
check "and stays" test "$(cat "$tmp/root/slow")" = mine

mode_is() { [ "$(stat -c %a "$dst/equal")" = "$1" ]; }
# alike: the destination has the same file, with another mode
alike() { cp -p "$tmp/src/equal" "$dst/equal" && chmod 604 "$dst/equal"; }
for dir in put get; do
	fresh $dir
	if [ $dir = put ]; then chmod 640 "$tmp/src/equal"; else chmod 640 "$tmp/root/src/equal"; fi
	for option in --skip-same --update; do
		alike
		move $dir $option --dry-run
		check "$dir $option --dry-run: the mode stays" mode_is 604
		move $dir $option --json
		check "$dir $option: the mode is corrected" mode_is 640
		check "$dir $option: and the file left alone" test "$(summary failed)" -eq 0 -a "$(summary skipped)" -ge 1
		alike
		move $dir $option --no-modes
		check "$dir $option --no-modes: the mode stays" mode_is 604
	done
	alike
	move $dir --skip-existing
	check "$dir --skip-existing: the mode stays" mode_is 604
	if is_root; then
		alike
		if [ $dir = put ]; then chown 12:34 "$tmp/src/equal"; else chown 12:34 "$tmp/root/src/equal"; fi
		move $dir --skip-same -a
		check "$dir --skip-same -a: the owner is corrected" test "$(stat -c %u:%g:%a "$dst/equal")" = 12:34:640
	fi
done
fresh put
chmod 640 "$tmp/src/equal"
alike
start_server keeps --root "$tmp/root" --anonymous nodelete
put -r --skip-same "$tmp/src" "$url/dst"
check "an account that may not change what exists: the mode stays" mode_is 604
mkdir "$tmp/many" "$tmp/root/many"
for n in $(seq 300); do echo "new $n" >"$tmp/many/$n"; done
for n in $(seq 2 300); do echo "old" >"$tmp/root/many/$n"; done
put -r --json "$tmp/many/" "$url/many"
check "such an account, files that exist: they fail" status_is 1
check "such an account: each by itself" test "$(summary failed)/$(summary files)" = 299/1
check "such an account: only the new file is sent" test "$(summary bytes)" = 6
check "such an account: the others stay" test "$(cat "$tmp/root/many/"* | sort -u | tr '\n' ' ')" = "new 1 old "
put -r --json --dry-run "$tmp/many/" "$url/many"
check "such an account, --dry-run: it says so" test "$status/$(summary failed)" = 1/300
run rftp put -q - "$url/piped" <"$tmp/src/equal"
check "such an account, a pipe to a new name" status_is 0
run rftp put -q - "$url/piped" <"$tmp/src/equal"
check "such an account, a pipe to a name that is taken" fails_with 1 'exists, and may not be replaced'
stop_server
# shellcheck disable=SC2034 # stops_well reads it
server=${servers[0]}

check "the server ends well" stops_well
finish
