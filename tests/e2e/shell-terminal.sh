#!/bin/bash
# shellcheck disable=SC2034,SC2317 # for lib.sh; called by check
# The shell on a terminal, driven by tmux: typing, completion, history, stopping, and a window that
# changes its size; screens are compared. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
need script
. "${top_srcdir:?}/tests/e2e/tmux.bash"

mkdir -p "$tmp/root/data/deep" "$tmp/root/döner" "$tmp/root/odd" "$tmp/here/sub"
echo one >"$tmp/root/data/one.dat"
echo two >"$tmp/root/data/two.dat"
echo blank >"$tmp/root/with blank"
echo three >"$tmp/root/three"
echo quotes >"$tmp/root/qu\"o\"te"
echo slash >"$tmp/root/sl\\ash"
echo dash >"$tmp/root/odd/-n"
random "$tmp/root/big" 40000000
echo local >"$tmp/here/local.txt"
start_server d --root "$tmp/root" --anonymous rw
run rftp ls --accept-new "$url/"

prompt="127.0.0.1:/>"

# ---- typing ----

begin 80 24 "rftp $url"
check_last "a prompt" "$prompt" || finish
line pwd
screen_is() { [ "$(screen)" = "$1" ]; }
check "a command, and its answer" patience 10 screen_is "$prompt pwd
/
$prompt"
line 'cd data'
check_last "the prompt says where it is" "127.0.0.1:/data>"
line 'cd ..'
clear_screen
line 'nonsense'
check_shows "what is wrong is said" 'rftp: there is no command "nonsense" (help lists them)'
check_last "and it goes on" "$prompt"

# ---- completion ----

clear_screen
keys -l 'pw'
keys Tab
check_last "of a command" "$prompt pwd"
clear_screen
keys -l 'ls da'
keys Tab
check_last "of a directory there" "$prompt ls data/"
keys Tab
check_shows "what there is to choose from" 'deep/    one.dat  two.dat'
check_last "and the line once more" "$prompt ls data/"
keys -l 'o'
keys Tab
check_last "of a file there" "$prompt ls data/one.dat"
keys Enter
check_shows "which is the file" ' data/one.dat'
clear_screen
keys -l 'get wi'
keys Tab
check_last "of a name with a blank" "$prompt get \"with blank\""
clear_screen
keys -l 'get qu'
keys Tab
check_last "of one with quotes" "$prompt get \"qu\\\"o\\\"te\""
keys Enter
check "which is the file" patience 10 same "$tmp/root/qu\"o\"te" "$tmp/here/qu\"o\"te"
clear_screen
keys -l 'get sl'
keys Tab
check_last "of one with a backslash" "$prompt get \"sl\\\\ash\""
clear_screen
keys -l 'cd odd'
keys Enter
check_last "a directory" "127.0.0.1:/odd>"
keys -l 'get '
keys Tab
check_last "of one that would be an option" "127.0.0.1:/odd> get ./-n"
keys Enter
check "which is the file, too" patience 10 same "$tmp/root/odd/-n" "$tmp/here/-n"
line 'cd ..'
clear_screen
keys -l 'ls d'
keys Tab
keys -l 'ö'
keys Tab
check_last "of one that is not ASCII" "$prompt ls döner/"
clear_screen
keys -l 'put lo'
keys Tab
check_last "of a name here" "$prompt put local.txt"
clear_screen
keys -l 'cd '
keys Tab Tab
check_shows "cd offers directories" 'data/'
check "and no files" not shows 'three'
clear_screen
keys -l 'get --transp'
keys Tab
keys -l 'rd'
keys Tab
check_last "of an option, and its value" "$prompt get --transport rdma"
clear_screen
keys -l 'set transp'
keys Tab
keys -l 't'
keys Tab
check_last "of what is set" "$prompt set transport tcp"
clear_screen

# ---- ^C ----

keys -l 'half a li'
keys C-c
check_last "at the prompt it drops the line" "$prompt"
clear_screen
line 'get --rate 3M big'
check_shows "a transfer shows how far it is" '/s'
sleep 1
keys C-c
check_shows "it stops the transfer" 'rftp: interrupted; the same command resumes the transfer'
check_last "and not the shell" "$prompt"
line 'pwd'
check_last "the session is there" "$prompt"
line 'get big'
check_last "and the transfer goes on" "$prompt"
check "to its end" patience 20 same "$tmp/root/big" "$tmp/here/big"
clear_screen
line 'mget data/*.dat'
check_shows "a question" 'mget one.dat (yes, no, all, quit)?'
keys C-c
check_last "it leaves, too" "$prompt"
check "with nothing copied" test ! -e "$tmp/here/one.dat"
clear_screen
line 'mget data/*.dat'
check_shows "once more" 'mget one.dat (yes, no, all, quit)?'
keys C-d
check_last "the end of what is typed leaves it" "$prompt"
clear_screen
line '!sleep 30'
sleep 0.5
keys C-c
check_last "it ends a program of the system's, too" "$prompt"
clear_screen
line '!trap "echo not me" INT; sleep 0.6; sleep 0.6; echo over'
sleep 0.3
keys C-c
sleep 0.1
keys C-c
check_shows "one that goes on is waited for, however often" 'over'
check_last "by the shell" "$prompt"

# ---- questions ----

rm -f "$tmp/here/"*.dat
clear_screen
line 'mget data/*.dat'
check_shows "mget asks" 'mget one.dat (yes, no, all, quit)?'
line '?'
check_shows "and explains" 'yes or Enter copies it, no passes it over'
line n
check_shows "about each" 'mget two.dat (yes, no, all, quit)?'
line y
check_last "and is done" "$prompt"
check "what was said yes to is there" patience 10 same "$tmp/root/data/two.dat" "$tmp/here/two.dat"
check "and nothing else" test ! -e "$tmp/here/one.dat"
clear_screen
line 'mget w*'
check_shows "of a name as it is" 'mget with blank (yes, no, all, quit)?'
line n
check_last "and is done" "$prompt"
line 'prompt off'
line 'mget data/*.dat'
check "unless it is told not to" patience 10 same "$tmp/root/data/one.dat" "$tmp/here/one.dat"

# ---- windows ----

clear_screen
line 'cd data/deep'
check_last "a wide one" "127.0.0.1:/data/deep>"
keys -l 'half a li'
check_last "with half a line" "127.0.0.1:/data/deep> half a li"
terminal resize-window -x 70 -y 24
sleep 0.3
keys -l 'ne'
check_last "stands there once when it is narrower" "127.0.0.1:/data/deep> half a line"
terminal resize-window -x 20 -y 10
sleep 0.3
clear_screen
line 'pwd'
check_last "20 columns" "deep>"
check_shows "with what was asked for" '/data/deep'
terminal resize-window -x 8 -y 6
sleep 0.3
clear_screen
check_last "eight" ">"
terminal resize-window -x 80 -y 24
sleep 0.3
clear_screen
check_last "and wide again" "127.0.0.1:/data/deep>"

# ---- ^Z ----

clear_screen
begin 80 24 "bash --norc -i"
clear_screen
line 'PS1="outside> "'
check_last "a shell with jobs" "outside>"
line "rftp $url"
check_last "and ours in it" "$prompt"
clear_screen
keys -l 'ls da'
check_last "half a line" "$prompt ls da"
keys C-z
check_last "^Z leaves for a while" "outside>"
clear_screen
line 'echo el"se"where'
check_shows "other things are done" 'elsewhere'
clear_screen
line fg
check_last "fg: the line is there again" "$prompt ls da"
keys Tab
check_last "and is edited" "$prompt ls data/"
clear_screen
line pwd
check_shows "and goes on" '/'
line 'cd data'
check_last "with what follows" "127.0.0.1:/data>"
line quit
check_last "to the end" "outside>"

# ---- terminals that can do nothing ----

for name in dumb '' unknown-terminal; do
	what="TERM=$name"
	begin 80 24 "TERM=$name script -qc 'rftp $url' $tmp/raw"
	check_last "$what: a prompt" "$prompt"
	line 'ls -1 data'
	check_shows "$what: a command" 'two.dat'
	keys -l 'cd datx'
	keys BSpace
	line a
	check_last "$what: a letter is taken back" "127.0.0.1:/data>"
	keys -l 'half a li'
	check_last "$what: what is typed is shown" "127.0.0.1:/data> half a li"
	keys C-c # it also drops the input that the terminal has not given to the program yet
	check_last "$what: ^C drops the line" "127.0.0.1:/data>"
	line 'stat one.dat'
	check_shows "$what: and nothing else" 'modified'
	keys C-d
	check_shows "$what: ^D leaves" 'status 0'
	check "$what: no escapes" not grep -qa "$(printf '\033')" "$tmp/raw"
	# Nor a line that is written over.
	[ "$name" = unknown-terminal ] ||
		check "$what: what is typed stands there once" test "$(grep -ac 'cd dat' "$tmp/raw")" = 1
done
begin 80 24 "rftp $url"
check_last "a prompt" "$prompt"

# ---- names that obey no terminal ----

mkdir "$tmp/root/evil"
echo x >"$tmp/root/evil/$(printf 'a\033[31mb\a')"
line 'cd /evil'
clear_screen
keys -l 'ls '
keys Tab
check_shows "completion shows no escapes" 'a\x1b[31mb\x07'
clear_screen
line 'ls -1'
check_shows "nor does ls" 'a\x1b[31mb\x07'
line 'cd /'

# ---- history, and the end ----

line 'size three'
check_shows "a command" '6       three'
keys -l 'quit'
keys Enter
check_last "quit" "status 0"
mode=$(stat -c %a "$tmp/home/.local/state/rftp/history")
check "what was typed is kept for its owner alone" test "$mode" = 600
begin 80 24 "rftp $url"
check_last "another day" "$prompt"
keys Up
check_last "the last one" "$prompt quit"
keys Up
check_last "and the one before" "$prompt size three"
clear_screen
keys C-d
check_last "the end of what is typed" "status 0"
begin 80 24 "rftp rftp://127.0.0.1:1"
check_shows "a server that is not there" 'rftp: '
check_last "leaves the shell" "rftp>"
line "open $url"
check_last "to open another" "$prompt"
terminal send-keys C-d
begin 80 24 "rftp $url"
check_last "once more" "$prompt"
served=$(children "${servers[0]}" | head -n 1)
line 'cd data'
check_last "somewhere" "127.0.0.1:/data>"
kill -KILL "$served"
sleep 1.2
line 'ls -1'
check_shows "the server's session went: another is there" 'one.dat'
pid=$(pgrep -f "^rftp $url\$" | tail -n 1)
kill -TERM "$pid"
check_last "SIGTERM" "status 4"
terminal kill-server
finish
