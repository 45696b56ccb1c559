#!/bin/bash
# shellcheck disable=SC2034 # limit is for lib.sh
# Trees that are copied to a place inside themselves, on one machine. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
need setsid

limit=30
put() { run rftp put -q --accept-new --ack written "$@"; }
get() { run rftp get -q --accept-new --ack written "$@"; }
mkdir "$tmp/root"
start_server d --root "$tmp/root" --anonymous rw

# fresh: a tree that takes a while to walk, so that copies are there before the walk is over
fresh() {
	rm -rf "$tmp/root/"* "$tmp/by" && mkdir -p "$tmp/root/a/b/old" "$tmp/root/a/z/y"
	for i in {1..100}; do
		mkdir "$tmp/root/a/z/$i" && echo "$i" >"$tmp/root/a/z/$i/f"
	done
	echo top >"$tmp/root/a/file"
	echo kept >"$tmp/root/a/b/old/file"
	(cd "$tmp/root/a" && find . | LC_ALL=C sort) >"$tmp/before"
	ln -s root "$tmp/by"
}
# copied DIR [NAME]: it holds the files of a as they were before, without those below NAME
copied() {
	(cd "$1" && find . ${2:+-path "./$2" -prune -o} -print | LC_ALL=C sort) >"$tmp/after"
	grep -v "^\./${2:-/}\(/\|\$\)" "$tmp/before" | diff - "$tmp/after" | comment
	return "${PIPESTATUS[1]}"
}
itself='a/b/a: a directory is not copied into itself'

for dir in put get; do
	for by in root by; do
		fresh
		if [ $dir = put ]; then put -r "$tmp/$by/a" "$url/a/b/"; else
			get -r "$url/a" "$tmp/$by/a/b/"; fi
		check "$dir into itself, $by" fails_with 1 "$itself"
		check "$dir into itself, $by: all but the copy is copied" copied "$tmp/root/a/b/a"

		# Again: now the copy of the first run exists already.
		if [ $dir = put ]; then put -r "$tmp/$by/a" "$url/a/b/"; else
			get -r "$url/a" "$tmp/$by/a/b/"; fi
		check "$dir into itself again, $by" fails_with 1 "$itself"
		check "$dir into itself again, $by: no copy of the copy" copied "$tmp/root/a/b/a"
	done

	fresh
	if [ $dir = put ]; then put -r "$tmp/root/a/" "$url/a/b/"; else
		get -r "$url/a/" "$tmp/root/a/b/"; fi
	check "$dir of contents into itself" fails_with 1 'a/b: a directory is not copied into'
	rm -r "$tmp/root/a/b/old" # was there
	check "$dir of contents into itself: all but b" copied "$tmp/root/a/b" b

	fresh
	if [ $dir = put ]; then put -r "$tmp/root/a" "$url/"; else get -r "$url/a" "$tmp/root/"; fi
	check "$dir onto itself" fails_with 1 'the same directory'
	check "$dir onto itself: all is as it was" copied "$tmp/root/a"

	# One of several, and not the first.
	fresh
	mkdir "$tmp/root/c" && echo c >"$tmp/root/c/c"
	if [ $dir = put ]; then put -r "$tmp/root/c" "$tmp/root/a" "$url/a/b/"; else
		get -r "$url/c" "$url/a" "$tmp/root/a/b/"; fi
	check "$dir of several" status_is 1
	check "$dir of several: each is left out of the other" test ! -e "$tmp/root/a/b/a/b/c" -a \
		! -e "$tmp/root/a/b/a/b/a" -a -e "$tmp/root/a/b/c/c"

	fresh
	printf 'b\nfile\n' >"$tmp/list"
	if [ $dir = put ]; then put -r --files-from "$tmp/list" "$tmp/root/a" "$url/a/b"; else
		get -r --files-from "$tmp/list" "$url/a" "$tmp/root/a/b"; fi
	check "$dir --files-from" fails_with 1 'a/b/b: a directory is not copied into itself'
	check "$dir --files-from: no copy of the copy" test -e "$tmp/root/a/b/b/old/file" -a \
		! -e "$tmp/root/a/b/b/b"

	fresh
	if [ $dir = put ]; then put -r "$tmp/root/a/z" "$url/new/"; else
		get -r "$url/a/z" "$tmp/root/new/"; fi
	check "$dir beside itself" status_is 0
done

# With sync it is refused, and nothing changes.
for option in "" --delete --dry-run; do
	fresh
	for to in new new/er/; do
		# shellcheck disable=SC2086
		run rftp sync -q --accept-new $option "$tmp/root/a/" "$url/a/$to"
		check "sync $option to $to in the source" status_is 1
		check "sync $option: nothing changes" copied "$tmp/root/a"
	done
done

# By another mount, too.
fresh
mkdir "$tmp/mnt"
if is_root && mount --bind "$tmp/root/a" "$tmp/mnt" 2>/dev/null; then
	mounts+=("$tmp/mnt")
	put -r "$tmp/mnt" "$url/a/b/"
	check "put by a bind mount" fails_with 1 'mnt/b/mnt: a directory is not copied into itself'
	check "put by a bind mount: all but the copy" copied "$tmp/root/a/b/mnt"
else
	skip "put by a bind mount" "mounts are not for us"
fi

check "the server ends well" stops_well
finish
