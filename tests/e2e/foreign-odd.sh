#!/bin/bash
# rftp with FTP servers that are old, odd, or up to something. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
. "$lib/foreign.bash"
need diff

disk=$tmp/disk
mkdir -p "$disk/dir/sub"
random "$disk/dir/file" 5000000
random "$disk/dir/sub/x y" 1000
mkdir "$tmp/twin"
random "$tmp/twin/file" 5000000
touch -r "$disk/dir/file" "$tmp/twin/file"

odd() { # ODDITY...: sets port and url
	[ "${#servers[@]}" -eq 0 ] || stop_server
	rm -f "$tmp/port"
	: >"$tmp/asked"
	python3 "$lib/foreign-phony.py" "$tmp/port" "$disk" "$@" </dev/null 2>"$tmp/asked" &
	server=$!
	servers+=("$server")
	patience 20 test -s "$tmp/port"
	port=$(cat "$tmp/port")
	url=ftp://127.0.0.1:$port
}
asked() { grep -q -- "$1" "$tmp/asked"; }
getp() { run rftp get -q --plain "$@"; }
# slower SECONDS: so long at least the last command's --json says that it took
slower() {
	awk -v s="$(summary seconds)" -v least="$1" 'BEGIN { exit !(s >= least) }' && return
	summary seconds | comment
	return 1
}
putp() { run rftp put -q --plain "$@"; }

odd
getp -r "$url/dir" "$tmp/one"
check "one that is not odd" same_content "$disk/dir" "$tmp/one"
run rftp put --plain -q "$tmp/one/file" "$url/put"
check "put" same "$tmp/one/file" "$disk/put"

odd list
getp -r "$url/dir" "$tmp/list"
check "without FEAT" same_content "$disk/dir" "$tmp/list"
check "by a plain LIST" asked '^LIST$'
check "with the time that MDTM tells" test "$(time_of "$tmp/list/file")" = 1718463845
run rftp stat --plain -q "$url/dir/file"
check "stat" grep -q '5000000' "$tmp/out"
run rftp stat --plain -q "$url/dir/no"
check "stat of what is not there" fails_with 1 'dir/no: No such file'
run rftp ls -1 --plain -q "$url/%2Fdir"
check "an absolute path" printed sub

odd dos
getp -r "$url/dir" "$tmp/dos"
check "lists as DOS has them" same_content "$disk/dir" "$tmp/dos"

odd no-epsv
getp -r "$url/dir" "$tmp/pasv"
check "PASV, and an address that is not believed" same_content "$disk/dir" "$tmp/pasv"
check "EPSV was refused once in a session" test "$(grep -c EPSV "$tmp/asked")" -le \
	"$(grep -c USER "$tmp/asked")"

# A signal is not kept waiting by a data connection that is not to be had.
odd crowded
# shellcheck disable=SC2034 # lib.sh tells it
ran="rftp get, a data port that does not answer"
env --default-signal=INT rftp get -q --plain --connect-timeout 60s "$url/dir/file" "$tmp/full" \
	</dev/null >"$tmp/out" 2>"$tmp/err" &
client=$!
patience 20 asked '^crowded$'
kill -INT "$client"
check "^C while a data connection is made" patience 15 gone "$client"
wait "$client"
status=$?
check "is an interrupt" status_is 4

# FEAT lists MLST, but there is none.
mkdir "$disk/wide"
for i in 1 2 3 4 5 6; do
	mkdir "$disk/wide/$i"
	printf '%s\n' "$i" >"$disk/wide/$i/file"
done
odd nul
run rftp get -r --plain "$url/wide" "$tmp/wide"
check "a name with a NUL is refused, not cut" grep -q 'a name that contains a NUL' "$tmp/err"
check "and the transfer fails" test "$status" -ne 0 -a ! -e "$tmp/wide/a"
rm -rf "$tmp/wide"
for how in mlsd-500 mlsd-501 mlsd-502 mlsd-504 'mlsd-502 mlst-502' mlst-500; do
	# shellcheck disable=SC2086 # words
	odd $how
	run rftp get -r --plain "$url/wide" "$tmp/wide"
	check "a server that has no machine listings ($how)" same_content "$disk/wide" "$tmp/wide"
	check "said once" test "$(grep -c 'offers machine listings' "$tmp/err")" = 1
	for refused in $how; do
		refused=${refused%-*}
		check "$refused is asked once in a session" test "$(grep -ci "^$refused " "$tmp/asked")" -ge 1 -a \
			"$(grep -ci "^$refused " "$tmp/asked")" -le "$(grep -c '^USER ' "$tmp/asked")"
	done
	rm -r "$tmp/wide"
	run rftp --plain -c 'ls -1; cd wide; ls -1' "$url"
	check "in the shell, too" test "$status" -eq 0 -a \
		"$(grep -c 'offers machine listings' "$tmp/err")" = 1
done
odd mlsd-550
run rftp ls --plain -q "$url/wide"
check "what is refused for another reason is" fails_with 1 'answers 550'

# A low rate holds from the first byte on.
random "$tmp/few" 30000
odd
putp --json --rate 10K "$tmp/few" "$url/few"
check "put keeps to a low rate" slower 2.5
getp --json --rate 10K "$url/few" "$tmp/few.back"
check "get, too" slower 2.5
check "the same" same "$tmp/few" "$tmp/few.back"
odd
signal=TERM killed "asked ^got\$" rftp put -q --plain --rate 10K "$tmp/one/file" "$url/slow"
check "of a big file no more goes at once" patience 20 asked '^took [1-9]'
check "than a low rate lets" test "$(sed -n 's/^took //p' "$tmp/asked" | tail -n 1)" -lt 500000
rm -f "$disk"/.rftp-*

# Attributes that the server cannot keep are reported once for each server.
odd
first=$server
also=$url
servers=()
odd
servers+=("$first")
run rftp --plain -c "put $tmp/one/file a; put $tmp/one/file b; open $also; put $tmp/one/file c; \
put $tmp/one/file d; open $url; put $tmp/one/file e" "$url"
check "what is not kept, of two servers" test "$status" -eq 0 -a \
	"$(grep -c 'does not keep permission bits' "$tmp/err")" = 2 -a \
	"$(grep -c 'does not keep modification times' "$tmp/err")" = 2
rm "$disk"/[abcde]

# Options in rftp.conf that do not apply to this server are ignored.
odd
echo 'channels = 64' >"$tmp/conf"
getp --config "$tmp/conf" "$url/dir/file" "$tmp/channels"
check "many channels in a file of defaults" status_is 0
getp --channels 64 "$url/dir/file" "$tmp/channels"
check "many that are asked for" fails_with 2 'at most 32'

for how in mlsd list; do
	mkdir -p "$tmp/names$how/in"
	printf 'good\n' >"$disk/dir/good"
	odd names "$how"
	getp -r "$url/dir" "$tmp/names$how/in/x"
	check "names that lead elsewhere ($how)" fails_with 1 'lists an invalid file name'
	check "nothing came of them" test "$(find "$tmp/names$how" | sort | tr '\n' ' ')" = \
		"$tmp/names$how $tmp/names$how/in $tmp/names$how/in/x "
	run rftp rm -r --plain -q "$url/dir"
	check "and nothing is removed by them" test "$status" -ne 0 -a -e "$disk/dir/file"
	run rftp --plain -q -c 'cd dir; mget *' "$url"
	check "nor found by a pattern" test "$status" -ne 0
	odd control "$how"
	getp -r "$url/dir" "$tmp/names$how/in/x"
	check "names with control characters ($how): they fail" status_is 1
	check "the other one is there" test "$(find "$tmp/names$how/in/x" | sort | tr '\n' ' ')" = \
		"$tmp/names$how/in/x $tmp/names$how/in/x/good "
	check "nothing reaches the terminal" not grep -q "$(printf '\033')" "$tmp/err"
	check "each is told" test "$(grep -c 'no file here may be called' "$tmp/err")" -eq 2
done
rm "$disk/dir/good"

for how in short long local-error; do
	odd "$how"
	getp --retries 0 "$url/dir/file" "$tmp/$how"
	check "$how: fails" status_is 1
	check "$how: nothing stays" test ! -e "$tmp/$how"
	check "$how: no part of it, either" no_parts "$tmp"
done
odd short
getp --retries 0 "$url/dir/file" "$tmp/short"
check "which is told" said 'sent 2500000 bytes .* had 5000000'

odd aborted
getp --retries 0 "$url/dir/file" "$tmp/aborted"
check "aborted: fails" fails_with 1 '426 gone'
check "but what came is kept for the next time" has_journal "$tmp"
odd
getp --json "$url/dir/file" "$tmp/aborted"
check "which goes on with it" test "$(summary resumed)" -ge 1048576
check "the same" same "$disk/dir/file" "$tmp/aborted"

odd cut
getp --json "$url/dir/file" "$tmp/cut"
check "a lost connection: all the same" same "$disk/dir/file" "$tmp/cut"
check "it was connected again" test "$(summary retries)" -ge 1
check "and gone on with" asked '^REST [1-9]'
rm "$tmp/cut"
odd cut
getp --retries 0 "$url/dir/file" "$tmp/cut"
check "not with --retries 0" fails_with 4 'closed the connection|cut|Broken pipe'

mkdir "$disk/other"
random "$disk/other/file" 5000000
odd replaced
getp --json "$url/other/file" "$tmp/replaced"
check "a file that was replaced meanwhile" same "$disk/other/file" "$tmp/replaced"
check "not gone on with" not asked '^REST [1-9]'
mkdir "$tmp/touched"
odd touched
getp "$url/other/file" "$tmp/touched/"
check "one that changes while it is read" fails_with 1 'changed while being read'
check "nothing of it stays" test -z "$(ls -A "$tmp/touched")"
odd touched
getp "$url/other/file" -
check "to standard output, too" fails_with 1 'changed while being read'

odd no-rest
putp "$tmp/one/file" "$url/norest"
check "without REST" same "$tmp/one/file" "$disk/norest"

odd no-replace
putp "$tmp/one/sub/x y" "$url/put"
check "a server that does not replace" same "$tmp/one/sub/x y" "$disk/put"
check "no part stays" no_parts "$disk"

odd no-rename
putp "$tmp/one/file" "$url/put"
check "one that does not rename keeps what it has" same "$tmp/one/sub/x y" "$disk/put"
rm -f "$disk"/.rftp-*
putp "$tmp/one/file" "$url/fresh"
check "one that does not rename" fails_with 1 '--inplace'
putp --inplace "$tmp/one/file" "$url/fresh"
check "--inplace" same "$tmp/one/file" "$disk/fresh"
rm -f "$disk"/.rftp-*

odd full
putp "$tmp/one/file" "$url/toobig"
check "a full disk" fails_with 1 'no room'
check "no file" test ! -e "$disk/toobig"

odd loses
putp --retries 0 "$tmp/one/file" "$url/lost"
check "one that loses bytes" fails_with 1 'took 5000000 bytes and has 2500000'
check "no file, no part" test ! -e "$disk/lost" -a -z "$(find "$disk" -name '.rftp-*')"

# A pipe cannot be read twice: the rest of its bytes must not become the whole file.
for how in cut-store cut-end; do
	odd "$how"
	run_stdin rftp put -q --plain - "$url/$how" < <(cat "$tmp/one/file")
	check "$how: a pipe is not sent again" fails_with 1 'standard input cannot be sent again'
	check "$how: no file" test ! -e "$disk/$how"
	rm -f "$disk"/.rftp-*
	odd "$how"
	putp --json "$tmp/one/file" "$url/$how"
	check "$how: a file is" same "$tmp/one/file" "$disk/$how"
	check "$how: its bytes are counted once" test "$(summary bytes)" = 5000000
	check "$how: and none were there before" test "$(summary resumed)" = 0
	rm -f "$disk/$how"
done
odd cut
getp "$url/dir/file" -
check "nor is what went to standard output" test "$status" -ne 0 -a "$status" -ne 3
check "it is the file's beginning" cmp -n "$(stat -c %s "$tmp/out")" "$tmp/out" "$disk/dir/file"
check "and no more" test "$(stat -c %s "$tmp/out")" -le 2500000
run rftp --plain -q -c "get dir/file |cat >$tmp/piped" "$url"
check "nor what went down a pipe" test "$status" -ne 0
check "it is the file's beginning, too" cmp -n "$(stat -c %s "$tmp/piped")" "$tmp/piped" \
	"$disk/dir/file"

# part: of the file one/file there is a part there, as a put has left it that was cut
part() {
	odd cut-store
	putp --retries 0 "$tmp/one/file" "$url/resumed"
	has_part "$disk" 1500000 || comment <"$tmp/err"
}
part_bytes() { stat -c %s "$disk"/.rftp-*.put; }
all() { odd "$@" && putp --json "$tmp/one/file" "$url/resumed"; }

part
bytes=$(part_bytes)
all
check "a part is gone on with" same "$tmp/one/file" "$disk/resumed"
check "but its end is not trusted" test "$(summary resumed)" = $((bytes - 1048576))
check "which is nobody's part" no_parts "$disk"
part
all no-rest
check "what APPE makes of it is seen" same "$tmp/one/file" "$disk/resumed"
check "and sent anew" test "$(summary resumed)" = 0
part
all digest-fails
check "a digest that fails is not one that fits" test "$(summary resumed)" = 0
check "the same" same "$tmp/one/file" "$disk/resumed"
part
all size-once
check "a part that nobody knows the size of" fails_with 1 'cannot tell the size of its part'
check "stays" has_part "$disk" 4000000
rm -f "$disk"/.rftp-* "$disk/resumed"
touch -r "$tmp/one/file" "$tmp/twin/file"
part
putp --retries 0 "$tmp/twin/file" "$url/resumed"
check "another file of that name, size and time" same "$tmp/twin/file" "$disk/resumed"
rm -f "$disk"/.rftp-* "$disk/resumed"
odd no-rename
putp "$tmp/one/file" "$url/resumed"
for name in "$disk"/.rftp-*; do
	printf x | dd of="$name" bs=1 seek=4999998 conv=notrunc 2>/dev/null
done
all
check "a whole part's end is not trusted, either" same "$tmp/one/file" "$disk/resumed"
check "though its beginning is" test "$(summary resumed)" = $((5000000 - 1048576))
rm -f "$disk"/.rftp-* "$disk/resumed"
odd store-451
putp "$tmp/one/file" "$url/resumed"
check "a server that says 451" fails_with 1 '451 disk'
check "keeps the part" has_part "$disk" 2400000
putp --json "$tmp/one/file" "$url/resumed"
check "which is gone on with" test "$(summary resumed)" = $((2500000 - 1048576))
check "to the same" same "$tmp/one/file" "$disk/resumed"

odd
putp "$tmp/one/sub/x y" "$url/small"
putp "$tmp/one/sub/x y" "$url/small"
check "what is not gone on with has a part of its own each time" \
	test "$(grep '^STOR' "$tmp/asked" | sort -u | wc -l)" -eq 2

mkdir "$tmp/over" "$disk/over"
cp "$tmp/one/file" "$tmp/over/"
mkdir -p "$disk/over/file"
echo kept >"$disk/over/file/in it"
odd
putp "$tmp/over/file" "$url/over/"
check "a directory is not replaced" fails_with 1 'cannot be replaced by a file'
check "nor moved" test -e "$disk/over/file/in it"
check "no part stays" no_parts "$disk/over"
rm -r "$disk/over/file"
cp "$tmp/one/sub/x y" "$disk/over/file"
odd strands
putp "$tmp/over/file" "$url/over/"
old=$(echo "$disk"/over/.rftp-*.old)
check "one that cannot rename back" fails_with 1 "the old file is now on the server as .*${old##*/}"
check "it does" same "$tmp/one/sub/x y" "$old"
getp -r "$url/over" "$tmp/over.back"
check "which is no file of its own" no_parts "$tmp/over.back"
rm "$disk"/over/.rftp-*.put
odd loses
putp "$tmp/over/file" "$url/over/"
check "the next run puts it back first" same "$tmp/one/sub/x y" "$disk/over/file"
cp "$disk/over/file" "$old"
odd no-replace
putp "$tmp/over/file" "$url/over/"
check "and then the new one gets its name" same "$tmp/one/file" "$disk/over/file"
check "nothing else stays" no_parts "$disk/over"

# A stack that no thread can have.
huge=$((1 << 47))
if (ulimit -s $huge && rftp --version) >"$tmp/out" 2>&1; then
	(ulimit -s $huge && putp "$tmp/one/file" "$url/threads"; exit "$status")
	status=$?
	check "without a thread nothing is done" fails_with 1 'cannot start a thread'
	check "no file" test ! -e "$disk/threads"
else
	skip "without a thread nothing is done" "no such limit can be set"
fi

odd no-size
getp "$url/dir/file" "$tmp/nosize"
check "neither SIZE nor MDTM" same "$disk/dir/file" "$tmp/nosize"

# Lists tell days: it may be newer than a file of that noon, but not than one a week later.
odd list no-size
printf 'old\n' >"$tmp/update"
touch -d '2024-06-15 12:00:00 UTC' "$tmp/update"
getp --update "$url/other/file" "$tmp/update"
check "--update by a time that is about right" same "$disk/other/file" "$tmp/update"
printf 'new\n' >"$tmp/update"
touch -d '2024-06-22 12:00:00 UTC' "$tmp/update"
getp --update "$url/other/file" "$tmp/update"
check "what is surely newer stays" grep -qx new "$tmp/update"

mkdir "$disk/dash"
printf 'one\n' >"$disk/dash/-a"
printf 'two\n' >"$disk/dash/other"
odd list dash-a
getp -r "$url/dash" "$tmp/dash"
check "a file called -a hides no others" same_content "$disk/dash" "$tmp/dash"
rm "$disk/dash/other"
getp -r "$url/dash" "$tmp/dash1"
check "nor itself" same_content "$disk/dash" "$tmp/dash1"

mkdir "$disk/links"
for i in 1 2 3; do
	printf '%s\n' "$i" >"$disk/links/$i"
done
ln -s 1 "$disk/links/zlink"
odd links
getp -r --follow --json "$url/links" "$tmp/links"
check "a connection lost amid links" same "$disk/links/1" "$tmp/links/zlink"
check "each file is got once" test "$(summary files)" = 4 -a "$(grep -c RETR "$tmp/asked")" = 4
odd links
getp "$url/links/zlink" "$tmp/zlink"
check "amid what was named" same "$disk/links/1" "$tmp/zlink"

# Nothing tells that these are links, nor that they are one directory.
mkdir "$disk/loop"
printf 'x\n' >"$disk/loop/file"
ln -s . "$disk/loop/again"
odd
getp -r "$url/loop" "$tmp/loop"
check "a link that leads in a circle" fails_with 1 'again: has the same list as .* in a circle'
check "soon ends" test "$(find "$tmp/loop" -name file | wc -l)" -le 5
check "with what there is" same "$disk/loop/file" "$tmp/loop/file"

odd denied
mkdir "$disk/tree" "$disk/outside"
printf 'x\n' >"$disk/outside/kept"
ln -s ../outside "$disk/tree/link"
run rftp rm -r --plain -q "$url/tree"
check "what may be a link, and does not go" fails_with 1 'tree/link: .*Permission denied'
check "is not emptied" test -e "$disk/outside/kept"

odd vms
getp "$url/dir/file" "$tmp/vms"
check "paths without slashes" fails_with 3 'no paths with slashes'

# rftpd is an FTP server, too.
stop_server
start_server main --root "$disk" --anonymous rw
url=ftp://127.0.0.1:$port
put -r "$tmp/one" "$url/rftpd"
check "an rftpd by ftp://: put" same_content "$tmp/one" "$disk/rftpd"
get -r --json "$url/rftpd" "$tmp/rftpd"
check "get" same_content "$tmp/one" "$tmp/rftpd"
check "by FTP" test "$(summary transport)" = ftp

odd nothing
getp --connect-timeout 1s "$url/dir/file" "$tmp/nothing"
check "one that does not answer" fails_with 3 'did not answer in time'

finish
