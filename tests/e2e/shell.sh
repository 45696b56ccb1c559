#!/bin/bash
# shellcheck disable=SC2034 # limit is for lib.sh
# The shell's commands, from a file, from -c and from standard input: their effects, their errors,
# and the end of a script. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
need python3

limit=30
mkdir -p "$tmp/root/d/deep" "$tmp/root/other" "$tmp/here/sub" "$tmp/elsewhere"
echo hello >"$tmp/root/f1"
echo 'with a blank' >"$tmp/root/a b"
echo one >"$tmp/root/d/one.dat"
echo two >"$tmp/root/d/two.dat"
echo star >"$tmp/root/d/*"
echo hidden >"$tmp/root/d/.hidden.dat"
random "$tmp/root/big" 5000000
start_server d --root "$tmp/root" --anonymous rw
there=$url
start_server other --root "$tmp/elsewhere" --anonymous rw
elsewhere=$url
cd "$tmp/here" || exit 99
run rftp ls --accept-new "$there/"
run rftp ls --accept-new "$elsewhere/"
host=${there#rftp://}

# commands TEXT [OPTION...]: on the server
commands() { local text=$1; shift; run rftp -c "$text" "$@" "$there"; }
says() { [ "$(cat "$tmp/out")" = "$1" ]; }
ends() { [ "$status" -eq "$1" ] && grep -qF -e "$2" "$tmp/err"; }

# ---- where it is ----

commands 'pwd'
check "it begins in the home there" says /
commands 'cd d; pwd; cd deep/..; pwd; cd ../other; pwd; cd -; pwd; cd; pwd; cd ~/d; pwd'
check "cd, by every kind of path" says $'/d\n/d\n/other\n/d\n/\n/d'
run rftp -c pwd "$there/d/deep"
check "the URL's directory" says /d/deep
mkdir "$tmp/root/letters" && touch "$tmp/root/letters/ä"
for locale in C C.UTF-8; do
	LC_ALL=$locale commands 'ls -1 letters/?'
	check "? matches a character in the locale $locale" says letters/ä
done
rm -r "$tmp/root/letters"
commands "lcd sub; lpwd; lcd; lpwd; lcd ~; lpwd"
check "lcd" says "$tmp/here/sub
$tmp/home
$tmp/home"
commands 'cd f1'
check "a file is no directory" ends 1 'f1: Not a directory'
commands 'cd nowhere; pwd'
check "one that is not there" ends 1 'No such file'
check "the next command is not run" says ''
commands 'lcd nowhere'
check "nor here" ends 1 'nowhere: No such file or directory'
commands 'cd -'
check "nowhere to go back to" ends 1 'no directory to go back to'
commands '!pwd'
check "the system's shell" says "$tmp/here"
commands '!exit 3'
check "its failure" status_is 1
commands '!kill -PIPE $$; echo it lives'
check "it has signals as programs expect them" says ''

# ---- servers ----

run rftp -c 'pwd'
check "no server is open" ends 3 'no server is open'
run rftp -c 'ls'
check "for no command" ends 3 'no server is open'
run rftp -c "open ${host%:*} ${host##*:}; pwd"
check "open HOST PORT" says /
run rftp -c "open $host"
check "host:path is for ssh, as everywhere" not status_is 0
run rftp -c "open $there/d; pwd; open $elsewhere; put $tmp/root/f1 x; ls -1; open $there; get f1 f1.here; ls -1 d"
check "several, one after the other" says $'/d\nx\n*\n.hidden.dat\ndeep\none.dat\ntwo.dat'
check "the file there" same "$tmp/root/f1" "$tmp/elsewhere/x"
check "the file here" same "$tmp/root/f1" f1.here
commands "get $elsewhere/x y"
check "a URL of another server" same "$tmp/root/f1" y
commands 'close; pwd'
check "close" ends 3 'no server is open'
commands 'open nohost.invalid; pwd'
check "a host that is not known" ends 3 'nohost.invalid is not known'
commands 'open a/b:c'
check "no URL" status_is 2

# ---- files there ----

commands 'ls'
cp "$tmp/out" "$tmp/ls"
run rftp ls "$there/"
check "ls is rftp ls" cmp -s "$tmp/out" "$tmp/ls"
commands 'ls -1 d/*.dat'
check "a pattern" says $'d/one.dat\nd/two.dat'
commands 'ls -1 */[ot]?o.dat'
check "in every component" says d/two.dat
commands "cd d; ls -1 '*' \\*"
check "one that is quoted is a name" says $'*\n*'
commands "ls -1 f1 /f1 ./d/../f1 ~/f1 $there/f1"
check "files have the names by which they were asked for" says "f1
/f1
./d/../f1
~/f1
$there/f1"
commands 'ls -l f1; dir f1; ls /f1'
check "with all there is to know, too" test "$(sed 's/.* //' "$tmp/out" | tr '\n' ' ')" = 'f1 f1 /f1 '
commands 'ls -1 d f1'
check "and directories" test "$(head -n 1 "$tmp/out")" = d:
commands 'ls --json f1'
check "in JSON it is the whole path" grep -q '"name": *"/f1"' "$tmp/out"
commands 'cd d; hash one.dat'
sed "s,  ,  $tmp/root/d/," "$tmp/out" >"$tmp/sums"
check "digests are such as sha256sum checks" sha256sum --quiet -c "$tmp/sums"

# Commands that people type from habit.
touch -d 2001-01-01 "$tmp/root/d/two.dat"
commands 'ls d'
cp "$tmp/out" "$tmp/ls"
commands 'ls -la d'
check "ls -la shows what is hidden, as ls does" cmp -s "$tmp/out" "$tmp/ls"
commands 'ls -al1 d'
check "and -1" says $'*\n.hidden.dat\ndeep\none.dat\ntwo.dat'
commands 'ls -lh big'
check "-lh: sizes for people" grep -q ' 4.8 MiB .* big$' "$tmp/out"
commands 'ls -1t d; ls -1tr d'
check "-t: the oldest is the last" test "$(sed -n 5p "$tmp/out")" = two.dat
check "-tr: the first" test "$(sed -n 6p "$tmp/out")" = two.dat
commands 'ls -1S; ls -1rS'
check "-S: the biggest is the first" test "$(head -n 1 "$tmp/out")" = big
check "-rS: the last" test "$(tail -n 1 "$tmp/out")" = big
commands 'ls -ld d'
check "-ld: the directory itself" test "$(grep -c '^d.* d$' "$tmp/out")" = 1
mkdir -p "$tmp/root/tree/a/b" "$tmp/root/tree/c"
touch "$tmp/root/tree/a/b/f" "$tmp/root/tree/g"
commands 'ls -1R tree'
check "-R: all below" says $'tree:\na\nc\ng\ntree/a:\nb\ntree/a/b:\nf\ntree/c:'
commands 'cd tree; ls -R --json'
check "-R in JSON: paths" test "$(grep -o '"name": *"[^"]*"' "$tmp/out" | tr -d ' ' | tr '\n' ' ')" = \
	'"name":"/tree/a" "name":"/tree/c" "name":"/tree/g" "name":"/tree/a/b" "name":"/tree/a/b/f" '
rm -r "$tmp/root/tree"
commands 'ls -F d'
check "what there is not is said plainly" ends 2 'there is no option -F'
commands 'get -l f1'
check "and what another command has" ends 2 'get does not take -l'
commands 'ls -h'
check "-h alone is for help" grep -q '^usage: ls' "$tmp/out"
run rftp ls -la1 "$there/d"
check "rftp ls, too" says $'*\n.hidden.dat\ndeep\none.dat\ntwo.dat'
commands 'ls nothing*'
check "nothing fits" ends 1 'no file on the server matches nothing*'
commands 'size f1 "a b"'
check "size" says $'6\tf1\n13\ta b'
commands 'size d'
check "of a directory" ends 1 'not a file with a size'
commands 'stat f1'
check "stat" grep -q 'size  *6 ' "$tmp/out"
commands 'hash f1'
check "hash" says "$(sha256sum <"$tmp/root/f1" | cut -d' ' -f1)  f1"
commands 'hash'
check "which is not ftp's" ends 2 'set progress'
commands 'mkdir new "new two"; mkdir -p p/q/r; rmdir new; mv "new two" p/n; rename f1 f2; ls -1 p; mv f2 f1'
check "mkdir, rmdir and mv" says $'n\nq'
check "what mv did is undone" test -f "$tmp/root/f1" -a ! -e "$tmp/root/new"
commands 'rmdir p'
check "rmdir leaves what is in it" ends 1 'not empty'
commands 'chmod 600 f1 "a b"'
check "chmod" test "$(stat -c %a "$tmp/root/f1" "$tmp/root/a b" | tr '\n' ' ')" = "600 600 "
commands 'chmod 999 f1'
check "no mode" ends 2 'from 0 to 7777, not "999"'
commands 'rm p'
check "rm leaves directories" ends 1 'is a directory (rm -r removes'
commands 'rm -r p'
check "unless with -r" test ! -e "$tmp/root/p"
commands 'cd d; put ../here/f1.here x1; put ../here/f1.here x2; mdelete x?; ls -1' --quiet
check "mdelete" test ! -e "$tmp/root/d/x1" -a ! -e "$tmp/root/d/x2"

# rm must remove exactly the files that its pattern matches.
tree() { (cd "$tmp/root/rm" && find . ! -name . | sort | tr '\n' ' '); }
mkdir -p "$tmp/root/rm/d1" "$tmp/root/rm/d2/only" "$tmp/root/rm/*" "$tmp/root/rm/~"
echo x | tee "$tmp/root/precious" "$tmp/root/rm/d1/x1" "$tmp/root/rm/d2/x2" "$tmp/root/rm/*/x3" \
	"$tmp/root/rm/~/x4" "$tmp/root/rm/file" >"$tmp/root/rm/~/precious"
ln -s file "$tmp/root/rm/link"
commands "cd rm; rm '*'/x?"
check "a quoted wildcard stays one beside others" test "$(tree)" = './* ./d1 ./d1/x1 ./d2 ./d2/only ./d2/x2 ./file ./link ./~ ./~/precious ./~/x4 '
commands 'cd rm; rm */precious'
check "a name ~ is not the home" test -e "$tmp/root/precious" -a ! -e "$tmp/root/rm/~/precious"
commands "cd rm; ls -1 '~'; ls -1 ~/rm/~; cd '~'; pwd"
check "nor is one that is quoted" says $'x4\nx4\n/rm/~'
commands 'cd rm; ls -1 */x?'
check "what is no directory does not hinder a pattern" says $'d1/x1\nd2/x2\n~/x4'
commands 'cd rm; ls -1 */only'
check "nor one that has no such name" status_is 0
commands 'cd rm; ls -1 */nowhere'
check "none has" ends 1 'no file on the server matches */nowhere'
commands 'cd rm/d1; rm -r ""; pwd'
check "an empty word is nothing" ends 1 'an empty word names no file'
check "and removes nothing" test -e "$tmp/root/rm/d1/x1"
commands 'cd ""'
check "nor is it a directory" ends 1 'an empty word'
commands 'cd rm; rm -r */'
check "a pattern with / is for directories" test "$(tree)" = './file ./link '
rm -rf "${tmp:?}/root/rm" "$tmp/root/precious"

# ---- copies ----

rm -f f1.here y
lcd=$tmp/here
commands 'get f1; get "a b" renamed; cd d; get *.dat; lcd sub; get one.dat' -q
check "get" same "$tmp/root/f1" f1
check "to another name" same "$tmp/root/a b" renamed
check "a pattern's" same "$tmp/root/d/two.dat" two.dat
check "not what is hidden" test ! -e .hidden.dat
check "into the directory here" same "$tmp/root/d/one.dat" sub/one.dat
commands 'put f1; cd other; put renamed; put *.dat; put f1 ../d/deep/f3; mput sub two.dat -r' -q
check "put to the directory there" same renamed "$tmp/root/other/renamed"
check "a pattern's, there" same two.dat "$tmp/root/other/two.dat"
check "to another name, there" same f1 "$tmp/root/d/deep/f3"
check "a directory" same sub/one.dat "$tmp/root/other/sub/one.dat"
rm -rf "${lcd:?}"/*
commands 'mget d/*.dat f1 "a b"' -q
check "mget" test "$(ls "$lcd" | tr '\n' ' ')" = 'a b f1 one.dat two.dat '
commands 'get -r d tree; reget big' -q
check "a tree" same "$tmp/root/d/deep/f3" tree/deep/f3
check "reget" same "$tmp/root/big" big
echo colon >'c:d'
commands 'put c:d' -q
check "a local name with a colon" same 'c:d' "$tmp/root/c:d"
mkdir odd
echo dash >odd/-
echo null >odd/null:
echo zero >odd/zero:5
commands 'lcd odd; put *' -q
check "a pattern finds files, whatever else their names mean" status_is 0
for name in - null: zero:5; do
	check "so it does $name" same "odd/$name" "$tmp/root/$name"
done
commands 'put nothing*'
check "nothing here fits" ends 1 'no file here matches nothing*'
commands 'get f1 | tr a-z A-Z' -q
check "get to a program" says HELLO
commands 'ls -1 d | sort -r | head -n 1' -q
check "and ls" says two.dat
commands 'get big | head -c 10 >/dev/null'
check "a program that has enough" status_is 0
check "is nothing to speak of" test ! -s "$tmp/err"
commands $'get big | true\nls -R | head -n 1\nhash big | true\npwd'
check "by whatever it is fed" test "$(tail -n 1 "$tmp/out")" = / -a ! -s "$tmp/err"
commands 'get nowhere | cat' -q
check "a failure in front of it" ends 1 'nowhere'
commands 'get f1 | exit 3' -q
check "and its own" status_is 1
commands 'ls |'
check "no program" ends 2 '| needs a command'

# ---- options ----

commands 'set channels 2; set skip-existing; set; unset channels; set'
check "set and unset" says $'channels 2\nskip-existing\nskip-existing'
commands 'set overwrite; set update; set'
check "of several that exclude each other the last" says update
commands 'set channels many'
check "a bad value" ends 2 'channels: must be a number from 1 to 256, not "many"'
commands 'set channels'
check "none" ends 2 'channels: needs a value'
commands 'set json maybe'
check "one that is neither yes nor no" ends 2 'json: must be yes or no, not "maybe"'
commands 'set json yes; set json no; set; pwd'
check "the last holds" says $'{"event":"set","option":"json","value":"no"}\njson no\n/'
mkdir -p "$HOME/.config/rftp"
echo 'quiet = yes' >"$HOME/.config/rftp/rftp.conf"
commands 'set quiet no; get f1 loud'
check "also over rftp.conf" grep -q '1 file' "$tmp/err"
rm "$HOME/.config/rftp/rftp.conf"
commands 'set help'
check "what cannot be set" ends 2 'there is no option help to set'
commands 'set channels 3; set json; get big big2'
check "it holds for what comes" grep -q '"channels": *3' "$tmp/out"
commands 'get --channels 2 big big3; get big big4' --json --channels 1
check "a command's own comes first" test "$(grep -o '"channels": *[0-9]' "$tmp/out" | tr -d ' ' | tr '\n' ,)" = '"channels":2,"channels":1,'
commands 'ls --channels 2'
check "not for all commands" ends 2 'ls does not take --channels'
commands 'pwd; lpwd; status; size f1; set' --json
check "all in JSON" python3 -c 'import json, sys
assert [json.loads(l)["event"] for l in open(sys.argv[1])] == ["pwd", "lpwd", "status", "size"]' "$tmp/out"
# Each command has its event.
events() {
	python3 -c 'import json, sys
print(" ".join(json.loads(l)["event"] for l in open(sys.argv[1])))' "$tmp/out"
}
field() { # EVENT KEY: its values
	python3 -c 'import json, sys
print(" ".join(str(e[sys.argv[3]]) for e in map(json.loads, open(sys.argv[1])) if e["event"] == sys.argv[2]))' "$tmp/out" "$1" "$2"
}
run rftp --json -c "open $there/d; user ftp; cd d; cd; mkdir j; mkd -p j/k; chmod 700 j; rename j/k j/l; rmdir j/l
rm -r j; lcd tree; lpwd; pwd; set channels 2; set; unset channels; status; prompt off; ascii; help get; ls d/deep
stat f1; size f1; hash f1; get f1; mget f1; put f1 g1; delete g1; bench --size 1M; close; quit"
check "every command has an event" test "$(events | sed -E 's/ (progress|interval)//g')" = \
	"open user cd cd mkdir mkdir chmod mv rmdir rm lcd lpwd pwd set set unset status prompt binary help \
entry stat size hash started summary started summary started summary rm started summary close quit"
check "and no line that is none" status_is 0
check "which says what it did" test "$(field rm path)$(field mv path)$(field mv to)$(field chmod mode)$(field lcd path)" = \
	"/j /g1/j/k/j/l700$tmp/here/tree"
check "where it went" test "$(field cd path)$(field open url)$(field close path)" = "/d /$there/d/"
run rftp --json -c help
check "help in JSON has all" test "$(field help command | wc -w)" -ge 28
run rftp rm --json "$there/nowhere"
check "what has failed has none" test "$status" -eq 1 -a ! -s "$tmp/out"
commands $'set known-hosts \xff; set' --json
check "a value that is no text" python3 -c 'import json, sys
assert [json.loads(l)["option"] for l in open(sys.argv[1])] == ["known-hosts"] * 2' "$tmp/out"
cp "$tmp/root/f1" "$tmp/root/odd"$'\xfd'
mkdir odd$'\xfd'
commands $'mkdir odd\xff; mv odd\xff odd\xfe; cd odd\xfe; pwd; cd ..; chmod 700 odd\xfe
rmdir odd\xfe; size odd\xfd; rm odd\xfd; lcd odd\xfd; lpwd; status; set ca \xfd' --json
rmdir odd$'\xfd'
check "names that are no text can be told apart" python3 -c 'import json, sys
got = [(e["event"], key, e.get(key + "_hex", "?")[-2:]) for e in map(json.loads, open(sys.argv[1]))
       for key in e if "\ufffd" in str(e[key])]
want = [("mkdir", "path", "ff"), ("mv", "path", "ff"), ("mv", "to", "fe"), ("cd", "path", "fe"),
        ("pwd", "path", "fe"), ("chmod", "path", "fe"), ("rmdir", "path", "fe"),
        ("size", "path", "fd"), ("rm", "path", "fd"), ("lcd", "path", "fd"),
        ("lpwd", "path", "fd"), ("status", "directory", "fd"), ("set", "value", "fd")]
assert got == want, got' "$tmp/out"
mkdir -p "$HOME/.config/rftp"
echo 'json = on' >"$HOME/.config/rftp/rftp.conf"
commands 'pwd; ls'
rm "$HOME/.config/rftp/rftp.conf"
check "from rftp.conf it is for all" test "$(grep -vc '^{' "$tmp/out")" = 0
commands 'ls --version'
check "what is rftp's own" ends 2 'ls does not take --version'
commands 'help get'
check "is not in the help of a command" test "$(grep -c -e '--version' -e '--config' "$tmp/out")" = 0
commands 'binary; bin; ascii; prompt; prompt off'
check "what ftp needs" status_is 0
check "is not talked about" says ''

# ---- scripts ----

cat >"$tmp/script" <<'SCRIPT'
# a comment
pwd; pwd   # and another

cd \
  d
pwd
SCRIPT
run rftp -b "$tmp/script" "$there"
check "a script" says $'/\n/\n/d'
printf 'pwd\r\nfoo\npwd\n' >"$tmp/script"
run rftp -b "$tmp/script" "$there"
check "ends where it fails" ends 2 'script:2: ended here'
check "and not behind it" says /
run rftp -k -b "$tmp/script" "$there"
check "-k goes on" says $'/\n/'
check "and ends with the failure" ends 2 'script:2'
run rftp -k -c 'ls nothing; cd nowhere; foo; pwd' "$there"
check "with the worst" status_is 2
run rftp -b "$tmp/nowhere" "$there"
check "a script that is not there" ends 2 'cannot be read'
run rftp -b "$tmp/script" -c pwd "$there"
check "-b and -c" ends 2 'exclude each other'
printf 'pwd\ncd d\nquit\npwd\n' >"$tmp/script"
rftp "$there" <"$tmp/script" >"$tmp/out" 2>"$tmp/err"
status=$?
check "standard input" says /
check "quit" status_is 0
printf 'put - x\n' | rftp "$there" >"$tmp/out" 2>"$tmp/err"
status=$?
check "which is not data then" ends 1 'the commands come from standard input'
printf 'mput - x\n' | rftp "$there" >"$tmp/out" 2>"$tmp/err"
status=$?
check "for mput, too" ends 1 'the commands come from standard input'
{ echo '!cat >eaten'; seq 3000 | sed 's/^/# /'; echo '!echo reached'; } | rftp "$there" >"$tmp/out" 2>"$tmp/err"
status=$?
check "programs do not read the commands" test "$(cat "$tmp/out")" = reached -a ! -s eaten
printf 'pwd\rcd nowhere\n' >"$tmp/script"
run rftp -b "$tmp/script" "$there"
check "a CR within a line" ends 2 'the line contains a NUL or a CR'
printf 'pwd\0cd nowhere\npwd\n' >"$tmp/script"
run rftp -b "$tmp/script" "$there"
check "a NUL" ends 2 'script:1: ended here'
printf 'lcd /\\\\\npwd\n' >"$tmp/script"
run rftp -b "$tmp/script" "$there"
check "a backslash that is taken as it is joins no lines" ends 1 'script:1'
printf 'pwd; cd d; pwd' >"$tmp/script"
run rftp -b "$tmp/script" "$there"
check "no end of the last line" says $'/\n/d'
rftp </dev/null >"$tmp/out" 2>"$tmp/err"
status=$?
check "with nothing in it" status_is 0
check "no prompt" says ''
run rftp -c "get 'f1" "$there"
check "a quote that is not closed" ends 2 "the quote ' is not closed"
run rftp -c 'nonsense' "$there"
check "no such command" ends 2 'there is no command "nonsense"'
run rftp -c 'sync' "$there"
check "one that is a command outside the shell" ends 2 'there is no command "sync" (use !rftp sync)'
run rftp dtn.example.org
check "a host where a command would stand" ends 2 'a server is rftp://dtn.example.org)'
run rftp rftp://somebody:word@127.0.0.1/
check "a URL that is none there" ends 2 'a password in a URL shows'
run rftp "$there/d" one.dat
check "words behind it" ends 2 "$there/d must be the only word"
run rftp -c 'get' "$there"
check "too few words" ends 2 'usage: get [-r] NAME [LOCAL]'
run rftp -c $'\033[31m' "$there"
check "no escapes to the terminal" test "$(LC_ALL=C grep -c $'\033' "$tmp/err")" = 0

# ---- help ----

run rftp -c help
cp "$tmp/out" "$tmp/help"
lacks=
for name in open user close cd pwd lcd lpwd ls get put mget mput bench stat size hash mkdir rmdir rm \
	mv chmod set unset status prompt help quit; do
	grep -q "^  $name " "$tmp/help" || lacks="$lacks $name"
	run rftp -c "help $name"
	grep -q "^usage: $name" "$tmp/out" || lacks="$lacks help-$name"
done
check "help knows every command" test -z "$lacks"
for name in dir bye exit mkd recv send reget reput delete rename cwd dele; do
	run rftp -c "help $name"
	check "$name, too" grep -q 'Also called' "$tmp/out"
done

# ---- a server that comes and goes ----

mkfifo "$tmp/pipe"
rftp -k "$there" <"$tmp/pipe" >"$tmp/out" 2>"$tmp/err" &
shell=$!
others+=("$shell")
exec 5>"$tmp/pipe"
echo 'cd d
pwd' >&5
check "a shell that waits" patience 10 grep -q /d "$tmp/out"
session=$(children "${servers[0]}" | head -n 1)
kill -KILL "$session"
sleep 1.2
echo 'ls -1 deep
pwd
quit' >&5
exec 5>&-
wait "$shell"
status=$?
check "its server's session ended: it connects again" status_is 0
check "in the same directory" says $'/d\nf3\n/d'

finish
