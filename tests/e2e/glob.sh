#!/bin/bash
# Patterns in URLs: get, ls, rm, stat and hash. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"

mkdir -p "$tmp/root/d1" "$tmp/root/d2/e"
cd "$tmp/root" || exit 99
touch a1.h5 a2.h5 'x[1].t' x1.t 'st*r' .hid d1/f d2/f d2/e/f
start_server d --root "$tmp/root" --anonymous rw

prints() { [ "$(tr '\n' ' ' <"$tmp/out.txt")" = "$1" ] || { comment <"$tmp/out.txt"; false; }; }
list() { run rftp ls -1 --accept-new "$@"; cp "$tmp/out" "$tmp/out.txt"; }
list "$url/*.h5"
check "ls with a pattern" prints "/a1.h5 /a2.h5 "
list -d "$url/d?"
check "ls -d: a directory" prints "/d1 /d2 "
list -d "$url/*/f"
check "in the middle" prints "/d1/f /d2/f "
list -d "$url/*/"
check "with a slash: directories only" prints "/d1/ /d2/ "
list "$url/x[1].t"
check "a set" prints "/x1.t "
list --no-glob "$url/x[1].t"
check "--no-glob" prints "/x[1].t "
list "$url/x%5B1%5D.t"
check "an encoded bracket stands for itself" prints "/x[1].t "
list "$url/s*%2Ar"
check "an encoded asterisk beside one that is none" prints "/st*r "
list "$url/*hid"
check "a dot at the beginning must be typed" status_is 1
list "$url/.h*"
check "as here" prints "/.hid "
list "$url/none*"
check "no match: exit status" status_is 1
check "no match: the name" grep -q '/none\*: No such file' "$tmp/err"
list "$url/none/*"
check "a directory that does not exist: exit status" status_is 1
run rftp stat --json "$url/x*"
check "stat: each match" test "$(grep -c '"event":"stat"' "$tmp/out")" = 2
run rftp hash "$url/a?.h5"
check "hash: each match" test "$(wc -l <"$tmp/out")" = 2
mkdir "$tmp/here"
cd "$tmp/here" || exit 99
run rftp get -q "$url/*.h5"
check "get into the present directory" test "$(echo *)" = "a1.h5 a2.h5"
mkdir sub
run rftp get -q -r "$url/d*" sub/
check "get -r into another one" test "$(echo sub/*/*)" = "sub/d1/f sub/d2/e sub/d2/f"
run rftp get -q "$url/a1*" one
check "one match may get another name" test -f one
run rftp get -q "$url/*.h5" two
check "several may not: exit status" status_is 2
run rftp rm -v "$url/*.h5" "$url/d2/[ef]" -r
check "rm: all matches" test "$(cd "$tmp/root" && echo *.h5 d2/*)" = "*.h5 d2/*"
check "rm: nothing else" test -f "$tmp/root/x1.t" -a -f "$tmp/root/d1/f"
check "one connection for all of it" test "$(grep -c 'connected to' "$tmp/err")" = 1

finish
