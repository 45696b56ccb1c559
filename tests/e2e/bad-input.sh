#!/bin/bash
# shellcheck disable=SC2034 # todo, limit and as_server are for lib.sh
# Bad input gets one clear line and a documented exit status; nothing is lost, nothing is
# half-visible, and nothing hangs. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
need python3 setsid

limit=20
mkdir "$tmp/root" "$tmp/here"
chmod 777 "$tmp/root" "$tmp/here"
printf 'old\n' >"$tmp/old"
random "$tmp/file" 100000
random "$tmp/big" 40000000
# How to send it so that it takes two seconds, and little of it is read before it is sent.
slowly=(--rate 20M --block 64K --inflight 8)

# clean NAME: it is not there, under this name or as a part
absent() { [ ! -e "$1" ] && [ ! -L "$1" ] && no_parts "$(dirname "$1")"; }
# intact FILE: still the old one
intact() { same "$tmp/old" "$1"; }

# ---- the wrong place ----

run rftp put -q --accept-new --connect-timeout 1s "$tmp/file" rftp://192.0.2.1/x
check "a host that is not there" fails_with 3 '192.0.2.1'
run rftp get -q --accept-new --connect-timeout 2s rftp://no-such-host.invalid/x "$tmp/here/x"
check "a host without an address" fails_with 3 'no-such-host.invalid'
check "and no file" absent "$tmp/here/x"
run rftp put -q --accept-new "$tmp/file" rftp://127.0.0.1:1/x
check "a port where nobody listens" fails_with 3 'refused'

mkfifo "$tmp/hold"
"$lib/phony-speakers.py" "$tmp/speakers" <"$tmp/hold" 2>/dev/null &
others+=($!)
exec 7>"$tmp/hold"
patience 10 test -s "$tmp/speakers" || skip_all "python cannot listen"
# other NAME TEXT: put and get to a port where NAME speaks end with 3 and TEXT
other() {
	local at
	at=$(sed -n "s/^$1 //p" "$tmp/speakers")
	run rftp put -q --accept-new --connect-timeout 1s "$tmp/file" "rftp://127.0.0.1:$at/x"
	check "$1 at the port: put" fails_with 3 "$2"
	run rftp get -q --accept-new --connect-timeout 1s "rftp://127.0.0.1:$at/x" "$tmp/here/x"
	check "$1 at the port: get" fails_with 3 "$2"
}
other http 'rftpd|port'
other ssh 'SSH server'
other silence 'sent nothing'
other closes 'closed'
other binary 'does not speak FTP'
other endless 'does not speak FTP'
other lines '127.0.0.1'
other number '127.0.0.1'
other nul '127.0.0.1'
other busy 'Too many sessions'
other plain 'TLS'
other no_tls '127.0.0.1'
other injects 'clear'
other dribbles '127.0.0.1'
other stuck '127.0.0.1'
other preliminary 'did not answer in time'
other preliminaries 'replies without end'
other slow_lines 'did not answer in time'
check "no file by any of them" absent "$tmp/here/x"

# ---- the wrong one ----

hash=$(echo right | rftpd --hash-password)
printf 'alice:%s:%s:/:rw\n' "$hash" "$tmp/root" >"$tmp/users"
start_server d --root "$tmp/root" --anonymous rw --users "$tmp/users"
anonymous=$url
alice=rftp://alice@127.0.0.1:$port
netrc() { # PASSWORD
	printf 'machine 127.0.0.1 login alice password %s\n' "$1" >"$tmp/netrc"
	chmod 600 "$tmp/netrc"
}
netrc wrong
put --netrc "$tmp/netrc" "$tmp/file" "$alice/f"
check "a wrong password" fails_with 3 "refuses the login of alice.*with the password in $tmp/netrc"
check "and no file" absent "$tmp/root/f"
netrc right
put --netrc "$tmp/netrc" "$tmp/file" "$alice/f"
check "the right one" status_is 0
put "$tmp/file" "$alice/f"
check "no password, and nobody to ask" fails_with 3 'password for alice.*netrc'
put "$tmp/file" "rftp://nobody@127.0.0.1:$port/f"
check "nobody's password" fails_with 3 'nobody'
put "$tmp/file" "rftp://alice:right@127.0.0.1:$port/f"
check "a password in the URL is a matter of usage" status_is 2
rm -f "$tmp/root/f"

echo "127.0.0.1:$port SHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" >"$tmp/hosts"
run rftp put -q --accept-new --known-hosts "$tmp/hosts" "$tmp/file" "$anonymous/f"
check "a changed key, even with --accept-new: 3" status_is 3
check "and it is told" grep -q 'HAS CHANGED' "$tmp/err"
check "with what to do" grep -q "sed -i 1d $tmp/hosts" "$tmp/err"
check "and no file" absent "$tmp/root/f"

url=$anonymous

# ---- the wrong file ----

put "$tmp/nothing" "$url/f"
check "a source that is not there: put" fails_with 1 "^rftp: $tmp/nothing: No such file"
get "$url/nothing" "$tmp/here/f"
check "a source that is not there: get" fails_with 1 'on the server: /nothing: No such file'
check "and no file" absent "$tmp/here/f"
mkdir "$tmp/root/into"
put "$tmp/file" "$tmp/nothing" "$tmp/old" "$url/into/"
check "one of several is not there" fails_with 1 'nothing.*No such file'
check "the others are" same "$tmp/old" "$tmp/root/into/old"
get "$url/into/file" "$url/into/nothing" "$url/into/old" "$tmp/here/into/"
check "one of several is not there: get" fails_with 1 'nothing.*No such file'
check "the others are" same "$tmp/old" "$tmp/here/into/old"
put "$tmp/root" "$url/f"
check "a directory without -r" fails_with 1 '-r'
put /dev/null "$url/f"
check "a device is no file" fails_with 1 '/dev/null'
check "and no file" absent "$tmp/root/f"

mkdir -p "$tmp/tree/a" "$tmp/tree/c/d"
for i in 1 2 3 4 5 6 7 8 9; do
	random "$tmp/tree/a/$i" 50000
	random "$tmp/tree/c/d/$i" 3000000
done
cp -a "$tmp/tree" "$tmp/unreadable"
chmod 0 "$tmp/unreadable/a/5" "$tmp/unreadable/c/d/5"
if ! is_root || [ ${#as_other[@]} -gt 0 ]; then
	[ ${#as_other[@]} -eq 0 ] || chown -R 65534:65534 "$tmp/unreadable"
	mkdir -m 777 "$tmp/otherhome"
	run "${as_other[@]}" env HOME="$tmp/otherhome" rftp put -q --accept-new -r "$tmp/unreadable" "$url/t"
	check "unreadable files in a tree" status_is 1
	check "one line for each" test "$(grep -c '/5: .*Permission denied' "$tmp/err")" -eq 2 -a \
		"$(wc -l <"$tmp/err")" -eq 2
	rm -f "$tmp/unreadable/a/5" "$tmp/unreadable/c/d/5"
	check "they are not there" test ! -e "$tmp/root/t/a/5" -a ! -e "$tmp/root/t/c/d/5"
	check "all others are" diff -r "$tmp/unreadable" "$tmp/root/t"

	chmod 0 "$tmp/unreadable/c/d"
	run "${as_other[@]}" env HOME="$tmp/otherhome" rftp put -q --accept-new -r "$tmp/unreadable" "$url/t2"
	check "an unreadable directory" fails_with 1 'c/d: .*Permission denied'
	check "the rest is there" diff -r "$tmp/unreadable/a" "$tmp/root/t2/a"
	chmod 755 "$tmp/unreadable/c/d"

	# The same on the server's side.
	mkdir "$tmp/oroot"
	cp -a "$tmp/unreadable" "$tmp/oroot/t"
	chmod 0 "$tmp/oroot/t/a/6" "$tmp/oroot/t/c/d/6"
	mkdir "$tmp/oroot/closed"
	chmod 777 "$tmp/oroot" "$tmp/oroot/closed"
	chmod 1777 "$tmp"
	as_server=("${as_other[@]}")
	start_server other --root "$tmp/oroot" --anonymous rw
	as_server=()
	[ ${#as_other[@]} -eq 0 ] || chown -R 65534:65534 "$tmp/oroot/t"
	get -r "$url/t" "$tmp/here/t"
	check "unreadable files in a tree: get" status_is 1
	check "one line for each: get" test "$(grep -c '/6: .*Permission denied' "$tmp/err")" -eq 2 -a \
		"$(wc -l <"$tmp/err")" -eq 2
	check "they are not there: get" test ! -e "$tmp/here/t/a/6" -a ! -e "$tmp/here/t/c/d/6"
	rm -f "$tmp/oroot/t/a/6" "$tmp/oroot/t/c/d/6"
	check "all others are: get" diff -r "$tmp/oroot/t" "$tmp/here/t"

	# ---- a directory that nothing can be written to ----
	cp "$tmp/old" "$tmp/oroot/closed/f"
	chmod 555 "$tmp/oroot/closed"
	put "$tmp/file" "$url/closed/f"
	check "a directory that cannot be written to" fails_with 1 'closed/f.*Permission denied'
	check "the old file is there" intact "$tmp/oroot/closed/f"
	put "$tmp/big" "$url/closed/g"
	check "and for a big one" fails_with 1 'closed/g.*Permission denied'
	put -r "$tmp/tree" "$url/closed/tree"
	check "and for a tree: a line, not one for each file" fails_with 1 'tree.*Permission denied'
	chmod 755 "$tmp/oroot/closed"

	# A directory that rftp itself has made read-only is written to again by the same command.
	mkdir -p "$tmp/locked/dir"
	cp "$tmp/old" "$tmp/locked/dir/f"
	chmod 555 "$tmp/locked/dir"
	put -r "$tmp/locked" "$url/locked"
	check "a tree with a read-only directory" status_is 0
	chmod 755 "$tmp/locked/dir"
	cp "$tmp/file" "$tmp/locked/dir/f"
	chmod 555 "$tmp/locked/dir"
	put -r "$tmp/locked" "$url/locked"
	check "and again, as its owner" status_is 0
	chmod 755 "$tmp/oroot/locked/dir"
	stop_server
	url=$anonymous
else
	skip "unreadable files" "root reads all, and others have no setpriv, or may not come here"
fi

# ---- no room ----

if is_root && mkdir "$tmp/root/little" "$tmp/here/little" &&
	mount -t tmpfs -o size=12m tmpfs "$tmp/root/little" 2>/dev/null; then
	mounts+=("$tmp/root/little")
	mount -t tmpfs -o size=12m tmpfs "$tmp/here/little"
	mounts+=("$tmp/here/little")
	cp "$tmp/old" "$tmp/root/little/big"
	cp "$tmp/old" "$tmp/here/little/big"
	for options in "" "--no-resume" "--io uring" "--io posix --ack written" "--direct on"; do
		# shellcheck disable=SC2086
		put $options "$tmp/big" "$url/little/big"
		check "no space for put $options" fails_with 1 'on the server: /little/big.*No space left'
		check "the old file is there" intact "$tmp/root/little/big"
	done
	put "$tmp/big" "$url/little/new"
	check "no space for a new file" fails_with 1 'little/new.*No space left'
	check "which is not there" absent "$tmp/root/little/new"
	cp "$tmp/big" "$tmp/root/big"
	for options in "" "--no-resume"; do
		# shellcheck disable=SC2086
		get $options "$url/big" "$tmp/here/little/big"
		check "no space for get $options" fails_with 1 "^rftp: $tmp/here/little/big.*No space left"
		check "the old file is there" intact "$tmp/here/little/big"
	done
	check "and no parts" no_parts "$tmp/here/little" "$tmp/root/little"
	head -c 8000000 "$tmp/big" | dd of="$tmp/root/little/filler" 2>/dev/null
	put -r "$tmp/tree" "$url/little/tree"
	check "no space for a tree" status_is 1
	find "$tmp/root/little/tree" -type f -printf '%P\n' >"$tmp/list"
	bad=0
	while read -r f; do
		same "$tmp/tree/$f" "$tmp/root/little/tree/$f" || bad=1
	done <"$tmp/list"
	check "what is there of it is whole" test "$bad" -eq 0
	check "something is" test -s "$tmp/list"
	check "and no parts" no_parts "$tmp/root/little"
	rm -f "$tmp/root/little/filler"
	mount -o remount,size=60m "$tmp/root/little"
	put -r "$tmp/tree" "$url/little/tree"
	check "when there is room the same command completes" status_is 0
	check "with all of it" diff -r "$tmp/tree" "$tmp/root/little/tree"

	# ---- read-only ----
	mount -o remount,ro "$tmp/root/little"
	put "$tmp/file" "$url/little/big"
	check "a read-only filesystem" fails_with 1 'little/big.*Read-only'
	check "the old file is there" intact "$tmp/root/little/big"
	put -r "$tmp/tree" "$url/little/tree2"
	check "a tree to a read-only filesystem: one line" fails_with 1 'tree2.*Read-only'
	put "$tmp/big" "$url/little/f"
	check "a big file to a read-only filesystem" fails_with 1 'little/f.*Read-only'
	mount -o remount,ro "$tmp/here/little"
	get "$url/big" "$tmp/here/little/big"
	check "a read-only filesystem: get" fails_with 1 'little/big.*Read-only'
else
	skip "no space, read-only filesystem" "no mount here"
fi

start_server ro --root "$tmp/root" --anonymous ro
cp "$tmp/old" "$tmp/root/kept"
put "$tmp/file" "$url/kept"
check "a read-only account" fails_with 1 'may only read'
check "the old file is there" intact "$tmp/root/kept"
put -r "$tmp/tree" "$url/kept2"
check "a tree to a read-only account" fails_with 1 'may only read'
for c in "mkdir $url/d" "rm $url/kept" "mv $url/kept $url/kept3"; do
	# shellcheck disable=SC2086
	run rftp $c
	check "a read-only account: ${c%% *}" fails_with 1 ''
done
check "the old file is there" intact "$tmp/root/kept"
get "$url/kept" "$tmp/here/kept"
check "reading is possible" status_is 0
stop_server
url=$anonymous

# ---- a name that is taken, or cannot be ----

mkdir -p "$tmp/root/dir/file" "$tmp/here/dir/file"
put "$tmp/file" "$url/dir"
check "a directory has the name of a file" fails_with 1 'dir/file.*(is a directory|cannot be replaced)'
get "$url/into/file" "$tmp/here/dir"
check "a directory has the name of a file: get" fails_with 1 'dir/file.*(is a directory|cannot be replaced)'
check "and nothing is left" no_parts "$tmp/root/dir" "$tmp/here/dir"
cp "$tmp/old" "$tmp/root/plain"
cp "$tmp/old" "$tmp/here/plain"
put -r "$tmp/tree" "$url/plain"
check "a tree to the name of a file" fails_with 1 'plain'
get -r "$url/into" "$tmp/here/plain"
check "a tree to the name of a file: get" fails_with 1 'plain'
put "$tmp/file" "$url/plain/"
check "a file into a file" fails_with 1 'plain'
put "$tmp/file" "$url/plain/x"
check "a file below a file" fails_with 1 'plain/x.*Not a directory'
check "the old file is there" intact "$tmp/root/plain"
check "the old file is there: get" intact "$tmp/here/plain"
mkdir -p "$tmp/root/mixed/a/7" "$tmp/root/mixed/c"
cp "$tmp/old" "$tmp/root/mixed/c/d"
put -r "$tmp/tree" "$url/mixed"
check "a tree where names are taken otherwise" status_is 1
check "the file is told" grep -q 'a/7' "$tmp/err"
check "the directory is told" grep -q 'mixed/c/d' "$tmp/err"
check "what is below it is not told one by one" test "$(wc -l <"$tmp/err")" -eq 2
check "the directory that is in the way stays" test -d "$tmp/root/mixed/a/7"
check "the file that is in the way stays" intact "$tmp/root/mixed/c/d"
check "the rest is there" same "$tmp/tree/a/8" "$tmp/root/mixed/a/8"
put "$tmp/file" "$url/missing/x"
check "a directory that is missing" fails_with 1 'on the server: .*missing/x.*No such file'
run rftp mkdir "$url/missing/x/y"
check "a directory that is missing: mkdir" fails_with 1 'missing/x/y: No such file.*-p makes'
run rftp bench "ftp://127.0.0.1:$port/"
check "a bench by ftp://" fails_with 2 'ftp://127.0.0.1:.*needs an rftpd'
put "$tmp/file" "$url/../../../../../escape"
check "nothing goes outside of the root" test ! -e "$tmp/escape" -a ! -e /escape
rm -f "$tmp/root/escape"

long=$(printf 'x%.0s' {1..256})
put "$tmp/file" "$url/$long"
check "a name of 256 bytes" fails_with 1 'name too long'
get "$url/into/file" "$tmp/here/$long"
check "a name of 256 bytes: get" fails_with 1 'name too long'
get "$url/$long" "$tmp/here/f"
check "a source of 256 bytes" fails_with 1 'name too long'
path=$(printf 'dir/%.0s' {1..2000})
put "$tmp/file" "$url/${path}x"
check "a path of 8000 bytes" fails_with 1 '(name too long|No such file)'
get "$url/into/file" "$tmp/here/${path}x"
check "a path of 8000 bytes: get" fails_with 1 '(name too long|No such file)'
put "$tmp/file" "$url/a%00b"
check "a NUL in a name" status_is 2
check "nothing is left" no_parts "$tmp/here" "$tmp/root"

# ---- loops ----

# With --follow links to files are copied as files; all others stay links, so that there is
# no end to be missed.
mkdir -p "$tmp/loop/sub"
cp "$tmp/old" "$tmp/loop/sub/f"
ln -s .. "$tmp/loop/sub/up"
ln -s self "$tmp/loop/self"
ln -s gone "$tmp/loop/dangling"
ln -s sub/f "$tmp/loop/link"
put -r --follow "$tmp/loop" "$url/loop"
check "a link to itself" fails_with 1 'self: .*levels of symbolic links'
check "a link to a file becomes one" same "$tmp/old" "$tmp/root/loop/link"
check "and is none" test ! -L "$tmp/root/loop/link"
check "a loop of directories is a link" test -L "$tmp/root/loop/sub/up"
check "a link to nothing is one" test -L "$tmp/root/loop/dangling"
check "the rest is there" same "$tmp/old" "$tmp/root/loop/sub/f"
cp -a "$tmp/loop" "$tmp/root/loop2"
ln -s ../../old "$tmp/root/loop2/outside"
ln -s "$tmp/old" "$tmp/root/loop2/absolute"
ln -s "$tmp/root/loop2/sub/f" "$tmp/root/loop2/inside"
get -r --follow "$url/loop2" "$tmp/here/loop"
check "a link to itself: get" status_is 1
check "is told" grep -q 'self: .*levels of symbolic links' "$tmp/err"
check "a link to a file becomes one: get" same "$tmp/old" "$tmp/here/loop/link"
check "one that is absolute, too" same "$tmp/old" "$tmp/here/loop/inside"
check "what is outside of the root is not read" not same "$tmp/old" "$tmp/here/loop/outside"
check "in neither way" not same "$tmp/old" "$tmp/here/loop/absolute"
put -r "$tmp/loop" "$url/loop3"
check "without --follow they are links" status_is 0
check "all of them" test -L "$tmp/root/loop3/link" -a -L "$tmp/root/loop3/self"

# ---- a file that changes ----

# meanwhile CODE FILE POINT COMMAND...: run it, and while it stands still in its middle, python CODE
# with FILE open as f
meanwhile() {
	local client
	ran="${*:4}"
	RFTP_FAULT=$3:SIGSTOP:after=2M:count=1 "${@:4}" </dev/null >"$tmp/out" 2>"$tmp/err" &
	client=$!
	others+=("$client")
	check "in the middle of it" patience 30 stands_still "$client"
	python3 -c "
import os, sys
f = open(sys.argv[1], 'r+b')
$1" "$2"
	kill -CONT "$client"
	wait "$client"
	status=$?
}

# changes NAME CODE: put and get of a file that CODE changes under way
changes() {
	local dir what=$1 code=$2
	for dir in put get; do
		cp "$tmp/old" "$tmp/root/changed"
		cp "$tmp/old" "$tmp/here/changed"
		if [ $dir = put ]; then
			cp "$tmp/big" "$tmp/put.src"
			meanwhile "$code" "$tmp/put.src" send \
				rftp put -q --accept-new "${slowly[@]}" "$tmp/put.src" "$url/changed"
		else
			cp "$tmp/big" "$tmp/root/get.src"
			meanwhile "$code" "$tmp/root/get.src" recv \
				rftp get -q --accept-new "${slowly[@]}" "$url/get.src" "$tmp/here/changed"
		fi
		check "a file that $what: $dir" fails_with 1 'changed while'
		check "the old file is there: $dir" intact "$tmp/root/changed"
		check "the old file is here: $dir" intact "$tmp/here/changed"
	done
}
if has_faults; then
	changes shrinks 'f.truncate(3000000)'
	changes grows 'f.seek(0, 2); f.write(b"x" * 100000)'
	changes "is written to" 'f.seek(39000000); f.write(b"x" * 1000)'
	check "no parts of them" no_parts "$tmp/root" "$tmp/here"
else
	skip "a file that changes" "$no_faults"
fi

cp -a "$tmp/tree" "$tmp/growing"
python3 -c '
import sys, time
end = time.time() + 3
while time.time() < end:
    for n in "3", "6":
        open(sys.argv[1] + "/a/" + n, "ab").write(b"more")
    open(sys.argv[1] + "/c/d/3", "ab").write(b"more")
    time.sleep(0.001)' "$tmp/growing" &
others+=($!)
put "${slowly[@]}" -r "$tmp/growing" "$url/growing"
check "files that grow in a tree" status_is 1
check "are told" test "$(grep -c 'changed while' "$tmp/err")" -ge 1
bad=0
while read -r f; do
	[ -e "$tmp/root/growing/$f" ] || continue
	cmp -s -n "$(stat -c %s "$tmp/root/growing/$f")" "$tmp/growing/$f" "$tmp/root/growing/$f" || bad=1
done < <(cd "$tmp/growing" && find . -type f)
check "what is there is a beginning of them" test $bad -eq 0
check "the rest is there" same "$tmp/tree/c/d/7" "$tmp/root/growing/c/d/7"
wait "${others[-1]}"

# ---- usage ----

for words in "put" "get" "put $tmp/file" "put $tmp/file $url/x --nonsense" "nonsense" \
	"put $tmp/file $tmp/old $url/x" "put --prot nonsense $tmp/file $url/x" \
	"put --block 1 $tmp/file $url/x" "get $url/a $url/b $tmp/here/c" \
	"put $tmp/file rftp://127.0.0.1:99999/x" "put $tmp/file rftp:///x" "put null: $url/x" \
	"get zero:5 $tmp/here/x" "put - $url/" "get $url/a $url/b -" "put $url/a $url/b" \
	"put --op read $tmp/file ftp://127.0.0.1/x" "get --block 1M ftps://127.0.0.1/x $tmp/here/x" \
	"bench ftp://127.0.0.1/"; do
	# shellcheck disable=SC2086
	run rftp $words
	check "usage: rftp ${words//$tmp/}" status_is 2
done
run rftp get "$url/a" ftp://127.0.0.1/b
check "usage: get between servers" fails_with 2 \
	'ftp://127.0.0.1/b is on a server: rftp cp copies between.* get both, add ./'
run rftp get "$url/a" "$url/b" host:c
check "usage: get of three without a destination" fails_with 2 'get all, add ./'
for words in "" "--anonymous ro" "--root $tmp" "--root $tmp --anonymous maybe" "nonsense" \
	"--nonsense" "--root $tmp --anonymous ro --listen localhost:7321" \
	"--root $tmp --anonymous ro --data-ports 5" "--root $tmp --anonymous ro --data-ports 9-8" \
	"--root $tmp --anonymous ro --prot-min most" "--root $tmp --anonymous ro --memory 1023K" \
	"--root $tmp --anonymous ro --numa-interval 99ms" "--root $tmp --anonymous ro --numa-interval 61m" \
	"--stdio --listen 127.0.0.1:0" "--stdio --users $tmp/users" "--stdio --anonymous ro"; do
	# shellcheck disable=SC2086
	run rftpd $words
	check "usage: rftpd ${words//$tmp/}" status_is 2
done

exec 7>&-
check "the server ends well" stops_well
finish
