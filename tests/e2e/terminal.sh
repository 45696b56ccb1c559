#!/bin/bash
# shellcheck disable=SC2034,SC2154,SC2317 # lib.sh knows them
# The terminal: questions, passwords, the progress line; and the messages without a
# terminal. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
need python3 setsid

export TERM=xterm
mkdir "$tmp/root" "$tmp/here" "$tmp/many"
random "$tmp/file" 100000
random "$tmp/big" 40000000
for i in {1..40}; do random "$tmp/many/$i" 500000; done
printf 'alice:%s:%s:/:rw\n' "$(echo 'r1ght' | rftpd --hash-password)" "$tmp/root" >"$tmp/users"
chmod 600 "$tmp/users"
start_server d --root "$tmp/root" --anonymous rw --users "$tmp/users"
pin=$(sed -n 's/.*certificate \(SHA256:[^ ]*\).*/\1/p' "$tmp/d.log" | head -n 1)

# on_terminal [-w COLUMNS] [WHEN ACTION]... -- COMMAND...: see on-terminal; the output is in
# $tmp/t, $tmp/t.screen and so on
on_terminal() {
	local width=()
	if [ "$1" = -w ]; then
		width=(-w "$2")
		shift 2
	fi
	ran="${*: -6} on a terminal"
	"$lib/on-terminal" "${width[@]}" "$tmp/t" "$@" 2>"$tmp/err"
	status=$?
}
sees() { grep -Eq -e "$1" "$tmp/t.screen" || { comment <"$tmp/t.screen" && return 1; }; }
sees_not() { ! grep -E -e "$1" "$tmp/t.screen" | comment | grep .; }
lines() { wc -l <"$tmp/t.screen"; }
# no_codes FILE...: neither escape sequences nor lines that are drawn over
no_codes() { ! LC_ALL=C grep -l "$(printf '[\033\r]')" "$@" | comment | grep .; }
no_escapes() { ! LC_ALL=C grep -l "$(printf '\033')" "$@" | comment | grep .; }

# ---- an unknown server ----

known=$tmp/hosts
put=(rftp put -q --known-hosts "$known" "$tmp/file" "$url/f")
on_terminal 'yes, no' 'send:no\n' -- "${put[@]}"
check "an unknown server, answered no: 3" status_is 3
check "nothing is remembered" test ! -e "$known"
check "nothing is sent" test ! -e "$tmp/root/f"
check "the key is shown with the question" grep -qF "  $pin" "$tmp/t"
check "whose name is shown" sees "127.0.0.1:$port is not known yet"
check "it says how it can be trusted" sees '--accept-new'
on_terminal 'yes, no' 'send:\x04' -- "${put[@]}"
check "no answer at all: 3" status_is 3
on_terminal 'yes, no' 'send:\x03' -- "${put[@]}"
check "^C: 4" status_is 4
check "is told on a line of its own" sees '^rftp: interrupted$'
on_terminal 'yes, no' 'send:y\n' 'type yes or no' 'send:\n' 'type yes or no' 'send:no\n' -- "${put[@]}"
check "only yes and no are answers" status_is 3
check "nothing is remembered" test ! -e "$known"
on_terminal 'yes, no' 'send:perhaps\n' 'type yes or no' 'send:yes\n' -- "${put[@]}"
check "at last answered yes" status_is 0
check "it is remembered" grep -qxF "127.0.0.1:$port $pin" "$known"
check "and sent" same "$tmp/file" "$tmp/root/f"
on_terminal -- "${put[@]}"
check "the second time" status_is 0
check "there is no question" test ! -s "$tmp/t"
rm "$known"
# Standard input and output are the data's: the terminal itself is asked.
on_terminal 'yes, no' 'send:yes\n' -- sh -c "rftp put -q --known-hosts '$known' - '$url/piped' <'$tmp/file'"
check "standard input is a file: the terminal is asked" status_is 0
check "and the file is sent, not the answer" same "$tmp/file" "$tmp/root/piped"
rm "$known"
on_terminal 'yes, no' 'send:yes\n' -- sh -c "rftp get -q --known-hosts '$known' '$url/piped' - >'$tmp/piped' 2>'$tmp/piped.err'"
check "standard output and error are files: the terminal is asked" status_is 0
check "and not in the file" same "$tmp/file" "$tmp/piped"
rm "$known"
on_terminal -- rftp put -q --accept-new --known-hosts "$known" "$tmp/file" "$url/f"
check "--accept-new: no question" test "$status" -eq 0 -a "$(grep -c 'yes, no' "$tmp/t")" -eq 0
echo "127.0.0.1:$port SHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" >"$known"
on_terminal -- "${put[@]}"
check "a changed key: 3" status_is 3
check "no question would help" sees_not 'yes, no'
check "both keys are shown" test "$(grep -cF -e "$pin" -e 'SHA256:AAAAA' "$tmp/t")" -eq 2
check "and what has happened" sees 'HAS CHANGED'
rm "$known"
on_terminal 'yes, no' 'send:yes\n' -- rftp put -q "$tmp/file" "$url/f"
check "remembered for all that follows" test "$status" -eq 0 -a -s "$HOME/.config/rftp/known_hosts"

# ---- a password ----

alice=rftp://alice@127.0.0.1:$port
shows_nothing_of() { ! grep -F -e "$1" "$tmp/t" | comment | grep .; }
on_terminal 'Password of alice at 127.0.0.1: $' 'send:r1ght\n' -- rftp put -q "$tmp/file" "$alice/asked"
check "the right password" status_is 0
check "is not shown" shows_nothing_of r1ght
check "the file is there" same "$tmp/file" "$tmp/root/asked"
on_terminal 'Password of alice.*: $' 'send:r1ght\n' -- rftp bench --both --size 1M "$alice/"
check "two sessions" status_is 0
check "for which it is asked once" test "$(grep -c 'Password of' "$tmp/t")" -eq 1
on_terminal 'Password.*: $' 'send:wr0ng\n' 'Password.*: $' 'send:r1ght\n' -- rftp put -q "$tmp/file" "$alice/asked2"
check "a wrong one, then the right one" status_is 0
check "neither is shown" shows_nothing_of wr0ng
on_terminal 'Password.*: $' 'send:wr0ng\n' 'Password.*: $' 'send:wr0ng\n' 'Password.*: $' 'send:wr0ng\n' -- \
	rftp put -q "$tmp/file" "$alice/refused"
check "three wrong ones: 3" status_is 3
check "said once" test "$(grep -c 'refuses the login of alice' "$tmp/t")" -eq 1
check "and no file" test ! -e "$tmp/root/refused"
if rftp --version | grep -q '+curl'; then
	# rftpd is an FTP server, too.
	ftp=(rftp ls -1 "ftp://alice@127.0.0.1:$port/asked")
	on_terminal 'Password of alice.*: $' 'send:wr0ng\n' 'Password.*: $' 'send:wr1ng\n' \
		'Password.*: $' 'send:r1ght\n' -- "${ftp[@]}"
	check "ftp://: two wrong ones, then the right one" \
		test "$status" -eq 0 -a "$(tail -n 1 "$tmp/t.screen")" = asked
	check "none is shown" shows_nothing_of wr1ng
	on_terminal 'Password.*: $' 'send:wr0ng\n' 'Password.*: $' 'send:wr0ng\n' \
		'Password.*: $' 'send:wr0ng\n' -- "${ftp[@]}"
	check "ftp://: three wrong ones: 3" status_is 3
	check "ftp://: said once" test "$(grep -c 'refuses the login of alice' "$tmp/t")" -eq 1
	echo "machine 127.0.0.1 login alice password wr0ng" >"$HOME/.netrc"
	chmod 600 "$HOME/.netrc"
	for scheme in ftp rftp; do
		run rftp ls -1 "$scheme://alice@127.0.0.1:$port/asked"
		check "$scheme://: a wrong one without a terminal: 3 at once" \
			fails_with 3 'refuses the login of alice'
		on_terminal 'Password.*: $' 'send:r1ght\n' -- \
			rftp ls -1 "$scheme://alice@127.0.0.1:$port/asked"
		check "$scheme://: a wrong one in the netrc, then the right one" status_is 0
	done
	rm "$HOME/.netrc"
fi
on_terminal 'Password.*: $' 'send:hal\x03' -- sh -c "trap : INT; rftp put -q '$tmp/file' '$alice/refused'; s=\$?; stty -a; exit \$s"
check "^C at the question: 4" status_is 4
check "the terminal echoes again" sees '(^|[ ;])echo( |;|$)'
on_terminal 'Password.*: $' 'send:r1ght\n' -- sh -c "rftp ls -1 '$alice/'; stty -a"
check "and so it does when all went well" sees '(^|[ ;])echo( |;|$)'
on_terminal -- setsid --wait rftp put -q "$tmp/file" "$alice/refused"
check "no terminal to ask on: 3" status_is 3
check "and it says what is missing" sees 'password.*alice'

# ---- the progress line ----

rate=(--rate 30M)
on_terminal -- rftp put "${rate[@]}" "$tmp/big" "$url/p"
check "a transfer on a terminal" status_is 0
drawn=$(LC_ALL=C grep -ao "$(printf '\r')[ 0-9]*%" "$tmp/t" | wc -l)
check "the line is drawn again and again" test "$drawn" -ge 4
check "with bytes, rate and time" grep -aEq '[0-9.]+ MiB of 38.1 MiB +[0-9.]+ MiB/s +0:0[0-9] left' "$tmp/t"
check "it fits" test "$(cat "$tmp/t.widest")" -le 79 -a "$(cat "$tmp/t.widest")" -gt 40
check "at the end a summary is all that stands there" sees '^38.1 MiB in .* s, .* MiB/s, 1 file, held back by rate \([0-9]* %\)$'
check "nothing of the line is left" test "$(lines)" -eq 1
if has_faults; then
	RFTP_FAULT=send:SIGKILL:after=30M:count=1 rftp put -q "$tmp/big" "$url/broken" 2>/dev/null
	on_terminal -- rftp put --rate 4M "$tmp/big" "$url/broken"
	check "one that goes on where it was broken off" test "$status" -eq 0 -a "$(grep -c 'were there already' "$tmp/t.screen")" -eq 1
	check "shows the rate of what is carried" test "$(LC_ALL=C grep -aoE '[0-9.]+ MiB  +[0-9.]+ MiB/s' "$tmp/t" |
		awk '$3 > most { most = $3 } END { print most + 0 }' | tee "$tmp/most" | cut -d. -f1)" -le 20
	comment <"$tmp/most"
else
	skip "a transfer that was broken off" "$no_faults"
fi
on_terminal -- rftp -c 'get --rate 30M p | wc -c' "$url/"
check "down a pipe of the shell" test "$status" -eq 0 -a "$(grep -c '^40000000' "$tmp/t.screen")" -eq 1
check "nothing is drawn where a pager may be" no_codes <(tr -d '\r' <"$tmp/t")
on_terminal -- rftp -c 'get --rate 30M --progress always p | wc -c' "$url/"
check "unless that is wanted" grep -aq '[0-9]%' "$tmp/t"
for width in 50 33 20 8 3; do
	on_terminal -w $width -- rftp put "${rate[@]}" "$tmp/big" "$url/p"
	check "$width columns: it fits" test "$status" -eq 0 -a "$(cat "$tmp/t.widest")" -lt "$width"
	check "$width columns: nothing of it is left" sees_not '[0-9]%|left|sink'
done
on_terminal '[0-9]%' columns:30 -- rftp put "${rate[@]}" "$tmp/big" "$url/p"
check "a window that gets smaller: it fits" test "$status" -eq 0 -a "$(cat "$tmp/t.narrow")" -lt 30 -a \
	"$(cat "$tmp/t.narrow")" -gt 3
on_terminal -w 30 '[0-9]%' columns:100 -- rftp put "${rate[@]}" "$tmp/big" "$url/p"
check "a window that grows: it is used" test "$status" -eq 0 -a "$(cat "$tmp/t.narrow")" -gt 50
on_terminal -w 200 -- rftp get -v -r "${rate[@]}" --accept-new "$url/" "$tmp/here/all"
check "log lines in between" status_is 0
check "are whole, and alone on their lines" test "$(grep -c '^rftp: .*/all/[a-z0-9]* ([0-9.]* [KM]iB)$' "$tmp/t.screen")" -ge 4
check "and the progress line was there" test "$(cat "$tmp/t.widest")" -gt 40
check "nothing of it is left" sees_not '% |left  '
(cd "$tmp/many" && sha256sum -- *) >"$tmp/sums"
on_terminal -- rftp put "${rate[@]}" -r "$tmp/many" "$url/many"
check "a tree" grep -aEq '[0-9]+ files' "$tmp/t"
on_terminal -- rftp verify "$tmp/sums" "$tmp/many" "$url/many"
check "verify: the files that are done, of both trees" grep -aEq '[0-9]+ of 80 files' "$tmp/t"
check "nothing of it is left" test "$status" -eq 0 -a "$(grep -c ' of ' "$tmp/t.screen")" -eq 0
for options in "--progress never" -q --json; do
	# shellcheck disable=SC2086
	on_terminal -- rftp hash -r $options "$url/many"
	check "hash $options: no such line" test "$status" -eq 0 -a "$(grep -ac ' of ' "$tmp/t")" -eq 0
done
on_terminal '[0-9]%' 'send:\x03' -- rftp put "${rate[@]}" "$tmp/big" "$url/stopped"
check "^C: 4" status_is 4
check "it is told in the place of the line" sees '^rftp: interrupted; the same command resumes the transfer$'
check "nothing of it is left" sees_not '[0-9]%'
on_terminal -- rftp put "${rate[@]}" "$tmp/big" "$url/missing/x"
check "an error" status_is 1
check "is a line of its own" sees '^rftp: .*missing/x: .*No such file'
for options in "--progress never" -q "--progress never --json" "-q --progress always"; do
	# shellcheck disable=SC2086
	on_terminal -- rftp put "${rate[@]}" $options "$tmp/big" "$url/p"
	check "$options: no line" test "$status" -eq 0 -a "$(cat "$tmp/t.widest")" -eq 0
	check "$options: no escape sequences" no_escapes "$tmp/t"
done
TERM=dumb on_terminal -- rftp put "${rate[@]}" "$tmp/big" "$url/p"
check "TERM=dumb: no escape sequences" no_escapes "$tmp/t"
on_terminal -- sh -c "rftp get ${rate[*]} '$url/p' - | cat >'$tmp/piped'"
check "standard output is a pipe: the line is on the terminal" test "$(cat "$tmp/t.widest")" -gt 40
check "and the data in the pipe" same "$tmp/big" "$tmp/piped"
on_terminal -- sh -c "rftp put ${rate[*]} -v '$tmp/big' '$url/p' 2>'$tmp/log'"
check "standard error is a file: nothing on the terminal" test ! -s "$tmp/t"
check "and no codes in the file" no_codes "$tmp/log"
check "nor a progress line" not grep -q '[0-9]%' "$tmp/log"
# A name cannot do anything to the terminal.
evil=$(printf 'a\033[31mb\r\007\nc')
cp "$tmp/file" "$tmp/root/$evil"
on_terminal -- rftp ls "$url/"
check "ls: a name full of control characters" no_escapes "$tmp/t"
on_terminal -- rftp get -v "$url/a%1b%5b31mb%0d%07%0ac" "$tmp/here/"
check "get -v: a name full of control characters" test "$status" -eq 0 -a -e "$tmp/here/$evil"
check "is shown without them" not grep -aq "$(printf '\033\\[31m')" "$tmp/t"
rm "$tmp/root/$evil"

# ---- no terminal ----

run rftp put "${rate[@]}" "$tmp/big" "$url/p"
check "no terminal: a summary" grep -q '^38.1 MiB in .*, 1 file, held back by rate ([0-9]* %)$' "$tmp/err"
check "on standard error, and nothing else" test "$status" -eq 0 -a ! -s "$tmp/out" -a "$(wc -l <"$tmp/err")" -eq 1
for options in -q "--progress never" "-q --progress always"; do
	# shellcheck disable=SC2086
	run rftp put "${rate[@]}" $options "$tmp/big" "$url/p"
	check "$options: silence" test "$status" -eq 0 -a ! -s "$tmp/out" -a ! -s "$tmp/err"
done
run rftp put "${rate[@]}" -v "$tmp/big" "$url/p"
check "-v: lines" test "$(grep -c '^rftp: ' "$tmp/err")" -ge 3
check "with a summary" grep -q '^38.1 MiB in .*, 1 file, held back by rate ([0-9]* %)$' "$tmp/err"
check "without codes" no_codes "$tmp/err" "$tmp/out"
run rftp put --rate 3300K "$tmp/big" "$url/p"
check "what takes long: a line now and then" test "$(grep -c '^ *[0-9]*%  .* left  .*$' "$tmp/err")" -eq 1
check "without codes" no_codes "$tmp/err" "$tmp/out"
check "and a summary" test "$(tail -n 1 "$tmp/err" | grep -c '^38.1 MiB in .*, 1 file, held back by rate ([0-9]* %)$')" -eq 1
run rftp bench --time 2 "$url"
check "bench: a line per second and what it came to" test "$(wc -l <"$tmp/out")" -ge 3
check "without codes" no_codes "$tmp/err" "$tmp/out"
for c in "ls $url/" "stat $url/p" "hash $url/p" "--help" "put --help" "--version"; do
	# shellcheck disable=SC2086
	run rftp $c
	check "rftp $c: without codes" no_codes "$tmp/err" "$tmp/out"
done

# ---- standard output is the same terminal ----

# halting: sessions stand still most of the time, so that progress is shown between files
halting() {
	local p
	while :; do
		for p in $(children "$server"); do kill -STOP "$p"; done
		sleep 0.3
		for p in $(children "$server"); do kill -CONT "$p"; done
		sleep 0.01
	done 2>/dev/null
}
mkdir "$tmp/thousands"
touch "$tmp/thousands/file"{1..5000}
halting &
halter=$!
others+=("$halter")
on_terminal -- rftp put -r --dry-run "$tmp/thousands" "$url/"
check "--dry-run" status_is 0
check "shows how far it is" grep -q ' of [0-9.]* [KM]*i*B' "$tmp/t"
check "tells of each file" test "$(grep -c 'file[0-9]* (0 B)$' "$tmp/t.screen")" -eq 5000
check "on a line of its own" sees_not '/s .*file[0-9]'
on_terminal -w 200 -- rftp put -r --json --progress always --dry-run "$tmp/thousands" "$url/"
check "so does --json" test "$(grep -c '^{"event":"file".*}$' "$tmp/t.screen")" -eq 5001
kill "$halter"
for p in $(children "$server"); do kill -CONT "$p"; done 2>/dev/null

check "the server ends well" stops_well
finish
