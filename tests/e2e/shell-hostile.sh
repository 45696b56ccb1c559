#!/bin/bash
# shellcheck disable=SC2034 # for lib.sh
# A server that lists names with "/" or "..", empty names, or terminal control sequences
# (phony-ftp.py): every command that lists refuses them, and shows them escaped. And a server that
# withdraws a permission. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
need script
. "${top_srcdir:?}/tests/e2e/tmux.bash"

limit=30
. "${top_srcdir:?}/tests/e2e/phony-ftp.bash"
escape=$(printf '\033')
no_escapes() { ! LC_ALL=C grep -q "$escape" "$@"; }
nothing_here() { [ -z "$(ls -A "$tmp/here")" ] && [ ! -e "$tmp/stolen" ] && [ ! -e /tmp/rftp-stolen ]; }
declare -A lists=([slash]='a/b' [dotdot]='..' [dot]='.' [climb]='../../stolen' [absolute]='/tmp/rftp-stolen')

run rftp ls --plain "$url/d"
check "an honest list" test "$status" -eq 0 -a "$(wc -l <"$tmp/out")" -eq 2
for dir in "${!lists[@]}"; do
	what="\"${lists[$dir]}\""
	text="lists an invalid file name: \"${lists[$dir]}\""
	run rftp ls --plain "$url/$dir"
	check "$what: ls" test "$status" -eq 3 -a ! -s "$tmp/out"
	check "$what: it is told" grep -qF -e "$text" "$tmp/err"
	run rftp --plain -k -c "cd $dir; ls; ls *; size *; rm *; pwd" "$url"
	check "$what: ls, patterns and rm" test "$(grep -cF -e "$text" "$tmp/err")" -eq 4
	check "$what: and the shell goes on" test "$(cat "$tmp/out")" = "/$dir"
	run rftp --plain -c "mget $dir/*" "$url"
	check "$what: mget" test "$status" -eq 3
	run rftp --plain -c "get -r $dir" "$url"
	check "$what: get -r" test "$status" -ge 1 -a "$status" -le 3
	run rftp --plain -c "mget -r */*" "$url"
	check "$what: mget of all" test "$status" -eq 3
	check "$what: nothing is written" nothing_here
done
what="no name at all"
run rftp ls --plain "$url/empty"
check "$what: ls" test "$status" -eq 3 -a ! -s "$tmp/out"
check "$what: it is told" grep -q 'sent an invalid line of a listing' "$tmp/err"
run rftp --plain -c "mget empty/*" "$url"
check "$what: mget" test "$status" -eq 3
run rftp --plain -c "cd escape; ls -1 *31m*; mget *31m*" "$url"
check "escapes: not in what is said" no_escapes "$tmp/err"
run rftp --plain --json -c "ls escape; ls link" "$url"
check "escapes: JSON has them in letters" no_escapes "$tmp/out" "$tmp/err"
touch "$tmp/phony/outline"
run rftp ls --plain "$url/d"
check "a server that cannot list in its reply: ls" test "$status" -eq 3 -a ! -s "$tmp/out"
check "a server that cannot list in its reply: it is told" \
	grep -q 'cannot list in its reply (OPTS INLINE MLSD), as rftpd can' "$tmp/err"
rm "$tmp/phony/outline"
check "nothing has been removed" not grep -q -e DELE -e RMD "$tmp/phony/said"

# ---- on a terminal ----

prompt="127.0.0.1:/>"
# Its output is kept.
begin 120 24 "script -qc 'rftp --plain $url' $tmp/raw"
check_last "a prompt" "$prompt"
for dir in "${!lists[@]}"; do
	clear_screen
	keys -l "ls $dir/"
	keys Tab
	check_shows "completion: \"${lists[$dir]}\": it is told" "an invalid file name: \"${lists[$dir]}\""
	check_last "completion: \"${lists[$dir]}\": nothing is put in" "$prompt ls $dir/"
done
shown='\x1b]0;owned\x07\x1b[31mred'
clear_screen
keys -l 'ls escape/'
keys Tab
check_shows "completion: escapes in letters" "$shown"
clear_screen
line 'ls escape'
check_shows "ls: escapes in letters" "$shown"
clear_screen
line 'ls -1 escape/*'
check_shows "a pattern: escapes in letters" "$shown"
clear_screen
line 'ls link'
check_shows "ls: the target of a link in letters" "to -> ${shown/;/,}"
clear_screen
line 'stat escape/*'
check_shows "stat: escapes in letters" "$shown"
clear_screen
line 'mget escape/*'
check_shows "mget: escapes in letters" "mget $shown (yes, no, all, quit)?"
line n
check_shows "mget: and the next" 'mget good (yes, no, all, quit)?'
line n
check_last "and goes on" "$prompt"
clear_screen
line 'rm escape/*red'
check_shows "a failure: answered" 'rftp: 127.0.0.1 answers 502'
line quit
check_shows "the end" 'status 0'
terminal kill-server
check "what was sent is known" grep -qaF -e "$shown" "$tmp/raw"
check "and none of it obeyed" not grep -qaF -e "${escape}]0;owned" -e "${escape}[31m" "$tmp/raw"

# ---- a server that changes its mind ----

: >"$tmp/phony/said"
run rftp --plain -c "cd d; !echo NOOP >$tmp/phony/leave; touch $tmp/phony/refuse
!sleep 0.4
ls *.dat" "$url"
check "a login that is refused on the way to a pattern: 3" status_is 3
check "which is what is told" grep -q 'refuses the login' "$tmp/err"
rm "$tmp/phony/refuse"
run rftp --plain -c "cd d; !sleep 0.4
ls -1 *.dat" "$url"
check "one that is not: it connects again, to the same directory" \
	test "$(tr '\n' ' ' <"$tmp/out")" = "one.dat two.dat "

exec 7>&-
finish
