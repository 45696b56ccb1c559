#!/bin/bash
# Trees that are hard to copy, there and back, compared in everything. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
need python3 setsid

src=$tmp/src
"$lib/make-tree" "$src" || skip_all "the filesystem of $tmp cannot hold such a tree"
mkdir "$tmp/root" "$tmp/back"
start_server d --root "$tmp/root" --anonymous rw

check "compare-trees finds no difference where there is none" same_trees --owner "$src" "$src"

# A comparer that sees nothing would let all of this pass.
"$lib/make-tree" "$tmp/small" names sizes times hardlinks sparse
sees() { # NAME COMMAND: run in a copy
	cp -a --sparse=always "$tmp/small" "$tmp/copy"
	(cd "$tmp/copy" && eval "$2")
	check "compare-trees sees $1" not same_trees "$tmp/small" "$tmp/copy"
	rm -rf "$tmp/copy"
}
sees "a byte" 't=$(stat -c %y sizes/big) && printf x | dd of=sizes/big bs=1 seek=9999999 conv=notrunc 2>/dev/null && touch -d "$t" sizes/big'
sees "a time" 'touch -h -d "1969-12-31 23:59:59.999999998 UTC" times/t-1'
sees "a mode" 'chmod u+s sizes/1'
sees "a name" 'mv names/-- names/---'
sees "a link that was cut" 'cp -p hardlinks/small3 x && mv x hardlinks/small3'
sees "a hole that was filled" 't=$(stat -c %y sparse/middle) && cp --sparse=never sparse/middle x && cat x >sparse/middle && rm x && touch -d "$t" sparse/middle'
sees "a directory's time" 'touch -d @5 times'
sees "what is allocated and not written" 'fallocate -n -l 40M sparse/end'

# there NAME OPTION...: put, compared
there() {
	local what=$1
	shift
	put -r "$@" "$src" "$url/tree"
	check "put $what" status_is 0 && check "put $what: all of it, as it was" \
		same_trees "$src" "$tmp/root/tree"
}
# back NAME OPTION...: get, compared
back() {
	local what=$1
	shift
	get -r "$@" "$url/tree" "$tmp/back/tree"
	check "get $what" status_is 0 && check "get $what: all of it, as it was" \
		same_trees "$src" "$tmp/back/tree"
}

no_special_bits() { ! find "$1" ! -type l -perm /7000 | comment | grep .; }
has_special_bits() { find "$1" ! -type l -perm /7000 | grep -q .; }
check "there are set-id and sticky bits" has_special_bits "$src"
there "by default"
check "nothing but the tree is left" no_parts "$tmp/root"
check "without their owner set-id and sticky bits do not go" no_special_bits "$tmp/root"
rm -rf "$tmp/back/tree"
chmod u+s,g+s,+t "$tmp/root/tree/modes"/{file755,dir755}
back "by default"
check "nor do they come" no_special_bits "$tmp/back"
chmod a-s,-t "$tmp/root/tree/modes"/{file755,dir755}
check "nothing but the tree is left here, either" no_parts "$tmp/back"

there "again, over what is there" --prot clear --ack written
back "again, over what is there" --prot clear --ack written
rm -rf "$tmp/back/tree" "$tmp/root/tree"

# The many files are of no use for the following tests.
rm -rf "$src/many" && mkdir "$src/many"
there "in small blocks" --block 64K --channels 3 --ack received
back "in small blocks" --block 64K --channels 3 --ack received
rm -rf "$tmp/back/tree" "$tmp/root/tree"

there "by io_uring" --prot safe --io uring
back "by io_uring, past the cache, read back" --io uring --direct on --ack verified
rm -rf "$tmp/back/tree" "$tmp/root/tree"

there "by posix, past the cache, one reader" --io posix --direct on --readers 1 --ack verified
back "by posix, one writer, no parts" --io posix --writers 1 --no-resume
rm -rf "$tmp/back/tree"

# Special files are left out with a message; naming one is an error.
"$lib/make-tree" "$tmp/odd" special >/dev/null
n=$(find "$tmp/odd" ! -type f ! -type d -printf x | wc -c)
named() { [ "$(grep -c ': warning: .*: not a file, directory or link: left out$' "$tmp/err")" -eq "$n" ]; }
counted() { grep -q ": warning: $n names on the server, .*: left out\$" "$tmp/err"; }
run rftp put -r --accept-new --json "$tmp/odd/" "$url/odd/"
check "put a tree with pipes and sockets" status_is 0
check "each is named" named
check "and counted" [ "$(summary left_out)" = "$n" ]
check "the rest of it is there" same_trees --no-special "$tmp/odd" "$tmp/root/odd"
cp -a "$tmp/odd" "$tmp/root/odd2"
run rftp get -r --accept-new --json "$url/odd2/" "$tmp/odd2/"
check "get such a tree" status_is 0
check "what is left out is told by its number" counted
check "and counted" [ "$(summary left_out)" = "$n" ]
check "the rest of it came" same_trees --no-special "$tmp/odd" "$tmp/odd2"
put "$tmp/odd/special/fifo" "$url/odd/"
check "a pipe cannot be put" fails_with 1 'fifo: not a file, directory or link$'

# Not all of it is in the way of names on FTP lines.
run rftp ls -1 -0 "$url/tree/names"
check "ls -0 names every file" status_is 0
find "$src/names" -mindepth 1 -maxdepth 1 -printf '%f\0' | LC_ALL=C sort -z >"$tmp/names"
LC_ALL=C sort -z "$tmp/out" >"$tmp/listed"
check "and each as it is" same "$tmp/names" "$tmp/listed"

missing=$("$lib/make-tree" "$tmp/attributes" attributes)
if [[ $missing == *user.* ]]; then
	skip "extended attributes" "the filesystem of $tmp has none"
else
	cp -a "$tmp/attributes" "$tmp/copy"
	python3 -c 'import os, sys; os.removexattr(sys.argv[1], "user.none")' \
		"$tmp/copy/attributes/dir"
	check "compare-trees sees a missing attribute" not same_trees --xattrs \
		"$tmp/attributes" "$tmp/copy"
	owner=()
	is_root && owner=(--owner)
	put -r --xattrs "${owner[@]}" "$tmp/attributes" "$url/attributes"
	check "put --xattrs" status_is 0
	check "put --xattrs: attributes and ACLs, too" same_trees --xattrs "${owner[@]}" \
		"$tmp/attributes" "$tmp/root/attributes"
	get -r --xattrs "${owner[@]}" "$url/attributes" "$tmp/back/attributes"
	check "get --xattrs" status_is 0
	check "get --xattrs: attributes and ACLs, too" same_trees --xattrs "${owner[@]}" \
		"$tmp/attributes" "$tmp/back/attributes"
fi

if is_root; then
	chown -h 12345:54321 "$src/links/dangling" "$src/names/-rf" "$src/empty/d"
	put -r -a "$src" "$url/tree"
	check "put -a" status_is 0
	check "put -a: set-id and sticky bits, too" has_special_bits "$tmp/root"
	check "put -a: owners, too" same_trees --owner "$src" "$tmp/root/tree"
	get -r -a "$url/tree" "$tmp/back/tree"
	check "get -a" status_is 0
	check "get -a: owners, too" same_trees --owner "$src" "$tmp/back/tree"
else
	skip "owners" "only root can give files away"
fi

check "the server ends well" stops_well
finish
