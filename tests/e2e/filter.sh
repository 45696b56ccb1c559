#!/bin/bash
# --exclude, --include, --filter-from and the limits on size, age and filesystem; rsync is the
# judge of the patterns. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
need python3 rsync
. "${top_srcdir:?}/tests/e2e/foreign.bash"

mkdir "$tmp/root" "$tmp/place"
start_server d --root "$tmp/root" --anonymous rw --third-party all

seed=${RFTP_TEST_SEED:-$RANDOM}
echo "# seed $seed"
# shellcheck disable=SC2034 # run uses it
limit=600
run "$lib/filter-judge.py" "$seed" 300 "$tmp/place" "$url" "$tmp/root"
comment <"$tmp/out"
check "300 random lists of patterns choose what rsync chooses" status_is 0

# ---- each option, by each command ----
fresh() {
	rm -rf "$tmp/src" "$tmp/to" "$tmp/root/"*
	mkdir -p "$tmp/src/keep/cache" "$tmp/src/closed" "$tmp/src/deep/er"
	for f in a.o b.c keep/c.o keep/cache/d.c deep/er/e.c closed/f; do echo "$f" >"$tmp/src/$f"; done
	truncate -s 5000 "$tmp/src/keep/big"
	touch -d '2020-01-01' "$tmp/src/b.c"
	cp -a "$tmp/src" "$tmp/root/src"
	mkdir "$tmp/to"
}
names() { (cd "$1" && find . -mindepth 1 -printf '%P\n' | LC_ALL=C sort | tr '\n' ' '); }
move() { # put, get or cp, OPTION...
	case $1 in
	put) put -r "${@:2}" "$tmp/src" "$url/to/"; made=$tmp/root/to ;;
	get) get -r "${@:2}" "$url/src" "$tmp/to/"; made=$tmp/to ;;
	cp) run rftp cp -q --accept-new -r "${@:2}" "$url/src" "$url/to/"; made=$tmp/root/to ;;
	esac
}
chose() { # NAMES
	status_is 0 && [ "$(names "$made")" = "$1" ] && return
	names "$made" | comment
	return 1
}
for way in put get cp; do
	fresh
	move $way --exclude '*.o' --exclude cache/ --exclude deep --exclude closed/f
	check "$way --exclude" chose "src src/b.c src/closed src/keep src/keep/big "
	fresh
	move $way --include '*/' --include '*.c' --exclude '*'
	check "$way --include" chose \
		"src src/b.c src/closed src/deep src/deep/er src/deep/er/e.c src/keep src/keep/cache src/keep/cache/d.c "
	fresh
	printf '# comment\n\n- *.o\n+ /src/keep/***\nexclude /src/*/*\n' >"$tmp/rules"
	move $way --filter-from "$tmp/rules"
	check "$way --filter-from" chose \
		"src src/b.c src/closed src/deep src/keep src/keep/big src/keep/cache src/keep/cache/d.c "
	fresh
	move $way --max-size 4K --exclude deep --exclude closed
	check "$way --max-size" chose "src src/a.o src/b.c src/keep src/keep/c.o src/keep/cache src/keep/cache/d.c "
	fresh
	move $way --min-size 1000
	check "$way --min-size" chose "src src/closed src/deep src/deep/er src/keep src/keep/big src/keep/cache "
	fresh
	move $way --newer-than 36h --exclude '?eep' --exclude closed
	check "$way --newer-than" chose "src src/a.o "
	fresh
	printf 'keep/c.o\nkeep/cache/d.c\nb.c\ndeep/er/e.c\n' >"$tmp/list"
	case $way in
	put) put --files-from "$tmp/list" --exclude cache --exclude '/b.*' "$tmp/src" "$url/to/" ;;
	get) get --files-from "$tmp/list" --exclude cache --exclude '/b.*' "$url/src" "$tmp/to" ;;
	cp) run rftp cp -q --accept-new --files-from "$tmp/list" --exclude cache --exclude '/b.*' \
		"$url/src" "$url/to/" ;;
	esac
	check "$way --files-from" chose "deep deep/er deep/er/e.c keep keep/c.o "
done

# An excluded directory is not entered, so it causes no error.
if is_root; then
	as=(setpriv --reuid nobody --clear-groups)
else
	as=()
fi
fresh
chmod 0 "$tmp/src/closed"
chmod 755 "$tmp"
run "${as[@]}" env HOME="$tmp/place" rftp put -q --accept-new --known-hosts "$tmp/to/known" -r \
	"$tmp/src" "$url/to/"
check "a directory that is closed is an error" not status_is 0
chmod 777 "$tmp/to"
run "${as[@]}" env HOME="$tmp/place" rftp put -q --accept-new --known-hosts "$tmp/to/known" -r \
	--exclude closed "$tmp/src" "$url/to/"
check "an excluded one is not" status_is 0

# A directory that cannot be opened, because its parent has no search permission: the walk goes on.
if is_root; then
	fresh
	mkdir -p "$tmp/src/listed/closed"
	chmod 444 "$tmp/src/listed"
	chmod 777 "$tmp/to"
	run "${as[@]}" env HOME="$tmp/place" rftp put -q --accept-new \
		--known-hosts "$tmp/to/known" -r --exclude listed/closed "$tmp/src" "$url/to/"
	check "nor is one that cannot be opened" status_is 0
	check "and all others are sent" test "$(names "$tmp/root/to/src" | wc -w)" = 13
fi

# ---- --one-file-system ----
if is_root && unshare -m true 2>/dev/null; then
	fresh
	# shellcheck disable=SC2016
	run unshare -m bash -c 'mount -t tmpfs none "$1/keep" && touch "$1/keep/elsewhere" &&
		rftp put -q --accept-new -rx "$1" "$2/to/"' - "$tmp/src" "$url"
	check "--one-file-system: the directory itself, but not its content" test \
		"$(names "$tmp/root/to/src/keep")" = "" -a -d "$tmp/root/to/src/keep"
	check "and all else" test -f "$tmp/root/to/src/deep/er/e.c"
else
	skip "--one-file-system" "no mount is possible here"
fi

# ---- ls, rm ----
fresh
run rftp ls -R1 --accept-new --exclude '*.o' --exclude keep/cache "$url/src"
check "ls -R --exclude" test "$(grep -c '\.o$\|cache\|d.c' "$tmp/out")" = 0
check "lists the others" grep -qx e.c "$tmp/out"

run rftp rm -r --accept-new --exclude '*.o' --exclude keep/cache "$url/src"
check "rm -r --exclude" status_is 0
check "keeps what is excluded, with its directories" test "$(names "$tmp/root")" = \
	"src src/a.o src/keep src/keep/c.o src/keep/cache src/keep/cache/d.c "

# ---- other servers ----
if python3 -c 'import pyftpdlib' 2>/dev/null; then
	mkdir "$tmp/phony"
	port=$(foreign_port)
	foreign_start "$port" python3 -m pyftpdlib -w -i 127.0.0.1 -p "$port" -d "$tmp/phony"
	ftp=ftp://127.0.0.1:$port
	fresh
	run rftp put -q --plain -r --exclude '*.o' --exclude cache/ --max-size 4K "$tmp/src" "$ftp/"
	made=$tmp/phony
	check "put to another server" chose "src src/b.c src/closed src/closed/f src/deep src/deep/er src/deep/er/e.c src/keep "
	run rftp get -q --plain -r --exclude /src/keep --exclude er/ "$ftp/src" "$tmp/to/"
	made=$tmp/to
	check "get from another server" chose "src src/b.c src/closed src/closed/f src/deep "
	printf 'src/b.c\nsrc/deep/er/e.c\n' >"$tmp/list"
	rm -rf "$tmp/to/"*
	run rftp get -q --plain --files-from "$tmp/list" --exclude deep "$ftp/" "$tmp/to"
	check "with --files-from" chose "src src/b.c "
	run rftp get -q --plain -rx "$ftp/src" "$tmp/to"
	check "it cannot tell filesystems apart" fails_with 2 "one-file-system"
else
	skip "other servers" "no pyftpdlib"
fi

# Rules from a pipe are read once only.
fresh
printf -- '- *.o\n' | run_stdin rftp put -q --accept-new -r --filter-from - "$tmp/src" "$url/to/"
check "--filter-from -" test -e "$tmp/root/to/src/b.c" -a ! -e "$tmp/root/to/src/a.o"
fresh
printf -- '- *.o\r\n- keep\r\n' >"$tmp/rules"
put -r --filter-from "$tmp/rules" "$tmp/src" "$url/to/"
check "--filter-from with CRLF" test -e "$tmp/root/to/src/b.c" -a ! -e "$tmp/root/to/src/a.o" -a \
	! -e "$tmp/root/to/src/keep"
printf 'b.c\r\n' >"$tmp/rules"
put -r --files-from "$tmp/rules" "$tmp/src" "$url/listed"
check "--files-from, too" test "$status" -eq 0 -a -e "$tmp/root/listed/b.c"
put -r --exclude run7/keep "$tmp/src" "$url/run7"
get -r --exclude run7/keep "$url/run7" "$tmp/to/"
check "a path begins with the last name of the argument" test ! -e "$tmp/to/run7/keep" -a \
	-e "$tmp/to/run7/b.c"
run rftp rm -r --accept-new --exclude run7/keep "$url/run7"
check "also with rm" test "$(names "$tmp/root/run7")" = \
	"keep keep/big keep/c.o keep/cache keep/cache/d.c "
run rftp rm -r --accept-new --exclude '*.o' "$url/src/a.o" "$url/src/b.c"
check "a named file, too" test -e "$tmp/root/src/a.o" -a ! -e "$tmp/root/src/b.c"
fresh
for dots in src/keep/.. src/keep/. src/.. ..; do
	run rftp rm -r --exclude '*.none' "$url/$dots"
	check "rm -r $dots" fails_with 1 'is not removed: name the files in it'
	run rftp -c "rm -r $dots" "$url"
	check "in the shell, too" fails_with 1 'is not removed: name the files in it'
done
check "nothing was removed" diff -r "$tmp/src" "$tmp/root/src"

# ---- bad input ----
put -r --exclude 'a[b' "$tmp/src" "$url/x/"
check "a pattern that does not close" fails_with 2 '--exclude: "\[" without its "\]"'
put -r --exclude '' "$tmp/src" "$url/x/"
check "an empty pattern" fails_with 2 "exclude: must not be empty"
printf -- '- ok\nbad line\n' >"$tmp/rules"
put -r --filter-from "$tmp/rules" "$tmp/src" "$url/x/"
check "a bad line has its number" fails_with 2 "rules:2: \"bad line\""
put -r --filter-from "$tmp/nowhere" "$tmp/src" "$url/x/"
check "a file that is not there" fails_with 2 "nowhere: cannot be read"
put -r --newer-than yesterday "$tmp/src" "$url/x/"
check "a time that is none" fails_with 2 "newer-than: must be a time"
for ((i = 0; i < 4097; i++)); do echo "- f$i"; done >"$tmp/rules"
put -r --filter-from "$tmp/rules" "$tmp/src" "$url/x/"
check "too many rules" fails_with 2 "at most 4096 patterns"
check "nothing was changed" not test -e "$tmp/root/x"

finish
