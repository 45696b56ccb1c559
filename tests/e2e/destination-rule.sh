#!/bin/bash
# Where things go (rftp(1), SOURCES AND DESTINATIONS), for put and get alike, and again when the
# same command is run again. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
need python3 setsid

mkdir -p "$tmp/root" "$tmp/src/dir/sub"
echo one >"$tmp/src/one"
echo two >"$tmp/src/two"
echo deep >"$tmp/src/dir/sub/deep"
echo top >"$tmp/src/dir/top"
mkdir "$tmp/src/empty"
cp -a "$tmp/src" "$tmp/root/src"
start_server d --root "$tmp/root" --anonymous rw

# goes PUT-WORDS... : EXPECTED...: each source a name below src, the last word the
# destination. Twice for put and for get, each into a fresh place in which has/ and
# file (with "old" in it) exist. EXPECTED are files that must be there, all of them;
# "no" instead: it fails with status $code and nothing changes.
code=1
goes() {
	local words=() expected=() dir place again w to list
	while [ "$1" != : ]; do
		words+=("$1")
		shift
	done
	shift
	expected=("$@")
	to=${words[-1]}
	unset 'words[-1]'
	for dir in put get; do
		if [ $dir = put ]; then place=$tmp/root/to; else place=$tmp/to; fi
		rm -rf "$place" && mkdir -p "$place/has" && echo old >"$place/file"
		for again in "" " again"; do
			list=()
			for w in "${words[@]}"; do
				if [ $dir = put ]; then list+=("$tmp/src/$w"); else list+=("$url/src/$w"); fi
			done
			if [ $dir = put ]; then list+=("$url/to/$to"); else list+=("$tmp/to/$to"); fi
			run rftp $dir -q --accept-new -r "${list[@]}"
			if [ "${expected[0]}" = no ]; then
				check "$dir ${words[*]} $to: refused$again" status_is $code
				check "and nothing has changed" test "$(cd "$place" && find . | sort | xargs)" = ". ./file ./has"
			else
				check "$dir ${words[*]} $to$again" status_is 0
				check "has made ${expected[*]}, no more" test \
					"$(cd "$place" && find . -type f ! -path ./file -printf '%P\n' | sort | xargs)" = \
					"$(printf '%s\n' "${expected[@]}" | sort | xargs)"
			fi
		done
	done
}

goes one new : new
goes one new/ : new/one
goes one has : has/one
goes one has/ : has/one
goes one has/. : has/one
goes one ./has : has/one
goes one has/new : has/new
goes one '' : one
goes one two new/ : new/one new/two
goes one two has/ : has/one has/two
goes dir new : new/top new/sub/deep
goes dir new/ : new/dir/top new/dir/sub/deep
goes dir has : has/top has/sub/deep
goes dir has/ : has/dir/top has/dir/sub/deep
goes dir/ new : new/top new/sub/deep
goes dir/ new/ : new/top new/sub/deep
goes dir/ has : has/top has/sub/deep
goes dir/. has/ : has/top has/sub/deep
goes dir/sub/.. has/ : has/top has/sub/deep
goes dir one has/ : has/dir/top has/dir/sub/deep has/one
goes dir/ one has/ : has/top has/sub/deep has/one
goes one file/ : no
goes dir file : no
goes dir file/ : no
goes one two file/ : no
code=2
goes one two new : no
goes one two has : no
code=0

# A file that was there gets new contents, not a second name.
put "$tmp/src/one" "$url/to/file"
check "a file onto a file" same "$tmp/src/one" "$tmp/root/to/file"

rm -rf "$tmp/root/to" && mkdir "$tmp/root/to"
put -r "$tmp/src/empty" "$url/to/e"
check "an empty directory" test -d "$tmp/root/to/e"
put -r "$tmp/src/empty/" "$url/to/e2"
check "the contents of an empty directory" test -d "$tmp/root/to/e2"
mkdir "$tmp/elsewhere"
cd "$tmp/elsewhere" || exit 99
get -r "$url/src/dir"
check "get without a destination: here" same "$tmp/src/dir/top" "$tmp/elsewhere/dir/top"
get "$url/src/one" .
check "get to ." same "$tmp/src/one" "$tmp/elsewhere/one"
cd "$tmp/src/dir" || exit 99
put -r . "$url/to/dot/"
check "put . to a directory: its contents" same "$tmp/src/dir/top" "$tmp/root/to/dot/top"
put top "$url/to/"
check "a relative source" same "$tmp/src/dir/top" "$tmp/root/to/top"
put ./top "$url/to/a:b"
check "a colon in a destination" same "$tmp/src/dir/top" "$tmp/root/to/a:b"
get "$url/to/a:b" ./c:d
check "a colon in a local name" same "$tmp/src/dir/top" ./c:d
put top "$url/to/%41%0A%ff%25"
check "an encoded destination" test -f "$tmp/root/to/"$'A\n\xff%'
get "$url/to/%41%0a%FF%25" "$tmp/elsewhere/decoded"
check "an encoded source" same top "$tmp/elsewhere/decoded"
# Links that lead into the root are followed in paths that were named.
ln -s e "$tmp/root/to/link"
ln -s "$tmp/root/to/e" "$tmp/root/to/link2"
put top "$url/to/link"
check "a link to a directory, as a destination" same top "$tmp/root/to/e/top"
rm -f "$tmp/root/to/e/top"
put top "$url/to/link2"
check "one with an absolute name inside the root, too" same top "$tmp/root/to/e/top"
ln -s "$tmp/elsewhere" "$tmp/root/to/out"
put top "$url/to/out/stolen"
check "a link that leads out of the root" test "$status" -ne 0 -a ! -e "$tmp/elsewhere/stolen"
ln -s ../../../../../../../../etc/passwd "$tmp/root/to/passwd"
get "$url/to/passwd" "$tmp/elsewhere/passwd"
check "nor is it read" test "$status" -ne 0 -a ! -e "$tmp/elsewhere/passwd"
ln -s file2 "$tmp/root/to/l"
echo old >"$tmp/root/to/file2"
put top "$url/to/l"
check "a link where a file goes to is replaced" test ! -L "$tmp/root/to/l" -a "$(cat "$tmp/root/to/file2")" = old

# ---- mv ----

mkdir -p "$tmp/root/mv/d/sub" "$tmp/root/mv/empty"
# moved FROM TO EXPECTED: by rftp://, in the shell and by ftp://, each time from the same state
moved() {
	for way in rftp shell ftp; do
		rm -rf "$tmp/root/mv" && mkdir -p "$tmp/root/mv/d/sub" "$tmp/root/mv/empty"
		echo file >"$tmp/root/mv/f"
		echo in >"$tmp/root/mv/d/sub/in"
		case $way in
		rftp) run rftp mv --accept-new "$url/mv/$1" "$url/mv/$2" ;;
		shell) run rftp --accept-new -c "cd mv; mv '$1' '$2'" "$url" ;;
		ftp) run rftp mv -q --accept-new "${url#r}/mv/$1" "${url#r}/mv/$2" ;;
		esac
		if [ "$3" = no ]; then
			check "$way: mv $1 $2 fails" test "$status" -eq 1 -a -e "$tmp/root/mv/$1"
		else
			check "$way: mv $1 $2" test "$status" -eq 0 -a ! -e "$tmp/root/mv/$1" \
				-a -e "$tmp/root/mv/$3"
		fi
	done
}
moved f g g
moved f d d/f
moved f d/ d/f
moved f d/sub/ d/sub/f
moved f d/g d/g
moved f g/ no
moved f g/h no
moved d empty empty/d/sub/in
moved d/ empty/ empty/d/sub/in
moved d e e/sub/in
moved d e/ e/sub/in
run rftp mv --json --accept-new "$url/mv/f" "$url/mv/e/"
check "mv: where it is" grep -q '"event":"mv","path":"/mv/f","to":"/mv/e/f"' "$tmp/out"

cd / || exit 99
check "the server ends well" stops_well
finish
