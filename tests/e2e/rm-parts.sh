#!/bin/bash
# shellcheck disable=SC2034,SC2317 # for lib.sh; check calls them
# rftp rm -v and --dry-run name what goes; rftp rm --parts, and rftpd --parts-age: unfinished files
# go, those of a running transfer and everything else stays. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"

limit=60
mkdir -p "$tmp/root/a/b" "$tmp/here"
random "$tmp/big" 20000000
random "$tmp/small" 1000
start_server d --root "$tmp/root" --anonymous rw --plain
run rftp ls --accept-new "$url/"
hash=.rftp-0123456789abcdef0123456789abcdef

# left DIR: the part, journal and temporary of a transfer that was killed, and names that look
# nearly like them.
left() {
	echo part >"$1/$hash"
	echo journal >"$1/$hash.j"
	ln -sfn nowhere "$1/$hash.l"
	echo old >"$1/$hash.put.old"
	echo mine >"$1/.rftp-notes"
	echo mine >"$1/${hash}0"
	ln -sfn nowhere "$1/link"
}
# has N DIR: so many of the three are in DIR
has() { [ "$(find "$2" -maxdepth 1 -name "$hash" -o -maxdepth 1 -name "$hash.[jl]" | wc -l)" -eq "$1" ]; }
others_stay() {
	[ "$(cat "$1/.rftp-notes" "$1/${hash}0" "$1/$hash.put.old")" = $'mine\nmine\nold' ] && [ -L "$1/link" ]
}
# running: a transfer into a/b that takes its time
running() {
	rftp put -q --accept-new --rate 300K "$tmp/big" "$url/a/b/big" </dev/null >/dev/null 2>&1 &
	mover=$!
	others=("$mover")
	patience 20 find_held
}
find_held() { held=$(find "$tmp/root/a/b" -name '.rftp-*.j' ! -name "$hash*") && [ -n "$held" ]; }

for where in server here; do
	dir=$tmp/root/a
	left "$dir"
	left "$dir/b"
	check "$where: a transfer runs" running
	[ $where = server ] && place=$url/a || place=$dir
	run rftp rm -v --parts "$place"
	check "$where: status" status_is 0
	check "$where: those in the directory go" has 0 "$dir"
	check "$where: each is named" test "$(grep -c "removed .*$hash" "$tmp/err")" -eq 3
	check "$where: those below stay" has 3 "$dir/b"
	run rftp rm -r --parts --json "$place"
	check "$where, -r: status" status_is 0
	check "$where, -r: those below go" has 0 "$dir/b"
	check "$where, -r: as events" test "$(grep -c '"event":"rm","path":".*/b/.*"' "$tmp/out")" -eq 3
	check "$where, -r: of a running transfer it says why they stay" \
		test "$(grep -c 'stays: another transfer is writing it' "$tmp/err")" -eq 2
	check "$where, -r: and they do" test -s "$held" -a -s "${held%.j}"
	check "$where, -r: other files stay" others_stay "$dir"
	check "$where, -r: other files below stay" others_stay "$dir/b"
	kill "$mover"
	wait "$mover"
	others=()
	patience 20 no_children "$server"
	check "$where: the interrupted transfer has left something" test -s "$held"
	run rftp rm -r --parts "$place"
	check "$where: its status" status_is 0
	check "$where: its part and journal go" test ! -e "$held" -a ! -e "${held%.j}"
	run rftp rm --parts "$place/nowhere"
	check "$where: a directory that is missing" fails_with 1 'nowhere.*No such file or directory'
done

# Of another user: the lock cannot be taken, and so nothing tells of a running transfer.
if [ ${#as_other[@]} -gt 0 ]; then
	chmod 755 "$tmp"
	mkdir -m 777 "$tmp/shared"
	left "$tmp/shared"
	chmod 600 "$tmp/shared/$hash" "$tmp/shared/$hash.j"
	run "${as_other[@]}" env HOME="$tmp/shared" rftp rm --parts "$tmp/shared"
	check "another user's: status" status_is 1
	check "another user's: it says why" grep -q "$hash: Permission denied" "$tmp/err"
	check "another user's: they stay" has 3 "$tmp/shared"
	run rftp rm --parts "$tmp/shared"
	check "another user's: root removes them" has 0 "$tmp/shared"
else
	skip "parts of another user" "root and setpriv are needed, and others must get here"
fi

left "$tmp/root/a/b"
run rftp -q -c "cd a; rm -r --parts ." "$url/"
check "in the shell" status_is 0
check "in the shell: they go" has 0 "$tmp/root/a/b"
run rftp -q -c "help rm" "$url/"
check "in the shell: its help tells of it" grep -q -e '--parts\] NAME' "$tmp/out"
run rftp rm --parts "$url/a" "$tmp/root/a"
check "directories here and there in one command" fails_with 2 'a command each'

echo put >"$tmp/root/a/$hash.put"
left "$tmp/root/a"
run rftp rm --parts --plain "ftp://127.0.0.1:$port/a"
check "another server: status" status_is 0
check "another server: they go" has 0 "$tmp/root/a"
check "another server: its parts, too" test ! -e "$tmp/root/a/$hash.put"
check "another server: a file that was moved aside stays" others_stay "$tmp/root/a"

# ---- rm -v and --dry-run ----

tree=$tmp/root/tree
names=$'tree\ntree/one\ntree/sub\ntree/sub/deep\ntree/sub/deep/x\ntree/sub/link'
# names_are FILE: the names in FILE, with words before them
names_are() { [ "$(sed 's/^rftp: removed //; s,^/*,,' "$1" | LC_ALL=C sort)" = "$names" ]; }
for at in "$url" "ftp://127.0.0.1:$port"; do
	mkdir -p "$tree/sub/deep"
	touch "$tree/one" "$tree/sub/deep/x"
	ln -s ../.. "$tree/sub/link"
	find "$tmp/root" >"$tmp/before"
	run rftp rm --plain -q -r --dry-run "$at/tree"
	check "$at: --dry-run and -q" test "$status" -eq 0 -a ! -s "$tmp/out"
	run rftp rm --plain -r --dry-run "$at/tree"
	check "$at: --dry-run" status_is 0
	check "$at: names all" names_are "$tmp/out"
	run rftp rm --plain --dry-run "$at/tree/one"
	check "$at: and one file" grep -qx '/*tree/one' "$tmp/out"
	run rftp rm --plain --dry-run "$at/tree"
	check "$at: a directory without -r" fails_with 1 'rm -r removes'
	run rftp rm --plain --dry-run "$at/nothing"
	check "$at: a name that is not there" status_is 1
	run rftp rm --plain -r --dry-run --json "$at/tree"
	check "$at: as events" test "$(grep -c '"event":"rm","path":"/*tree' "$tmp/out")" -eq 6
	run rftp rm --plain --dry-run --parts "$at/tree"
	check "$at: not with --parts" test "$status" -eq 2
	check "$at: nothing is removed" diff "$tmp/before" <(find "$tmp/root")
	run rftp rm --plain -rv "$at/tree"
	check "$at: -v" status_is 0
	grep removed "$tmp/err" >"$tmp/names"
	check "$at: names all, too" names_are "$tmp/names"
	check "$at: which are gone" test ! -e "$tree" -a -e "$tmp/root/a"
done

left "$tmp/root/a"
start_server keep --root "$tmp/root" --anonymous nodelete
run rftp rm --accept-new --parts "$url/a"
check "an account that may not delete" status_is 1
check "an account that may not delete: it is told" grep -q 'may not change existing files' "$tmp/err"
check "an account that may not delete: they stay" has 3 "$tmp/root/a"
stop_server

# By their age: a file that is written there has them removed.
start_server aged --root "$tmp/root" --anonymous rw --plain --parts-age 6s
rm -rf "$tmp/root/a"
for way in rftp ftp; do
	mkdir -p "$tmp/root/a/b"
	left "$tmp/root/a"
	check "age, $way: a transfer runs" running
	sleep 7
	left "$tmp/root/a/b"
	if [ $way = rftp ]; then
		run rftp put -q --accept-new "$tmp/small" "$url/a/b/"
	else
		run rftp put -q --plain "$tmp/small" "ftp://127.0.0.1:$port/a/b/"
	fi
	check "age, $way: status" status_is 0
	check "age, $way: the young stay" has 3 "$tmp/root/a/b"
	check "age, $way: so do those of another directory" has 3 "$tmp/root/a"
	sleep 7
	if [ $way = rftp ]; then
		run rftp put -q "$tmp/small" "$tmp/big" "$url/a/b/"
	else
		run rftp put -q --plain "$tmp/small" "ftp://127.0.0.1:$port/a/b/"
	fi
	check "age, $way: the old go" has 0 "$tmp/root/a/b"
	check "age, $way: the log names them" grep -q "b/$hash.j: removed; its transfer had written nothing for" "$tmp/aged.log"
	check "age, $way: those of a running transfer stay" test -s "${held%.j}"
	check "age, $way: other files stay" others_stay "$tmp/root/a/b"
	kill "$mover"
	wait "$mover"
	others=()
	patience 20 no_children "$server"
	rm -rf "$tmp/root/a"
done
stop_server
run rftpd --parts-age 0 --root "$tmp/root" --anonymous rw
check "no age" grep -q 'must be a time from 1s to 36500d, or never, not' "$tmp/err"
server=${servers[0]}

check "the server ends well" stops_well
finish
