#!/bin/bash
# scripts/real-input on its smaller inputs: it finds no difference where there is none, sees
# those that are made, and cleans up. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
need find awk diff pgrep python3 setsid

# shellcheck disable=SC2034 # of lib.sh: seconds that a command may take
limit=600
mkdir "$tmp/place"
real_input() { run "$top_srcdir/scripts/real-input" --dir "$tmp/place" "$@"; }
printed() { grep -Eq -e "$1" "$tmp/out"; }
no_trace() {
	! grep -lsa "$tmp/pla[c]e/rftp" /proc/[0-9]*/cmdline | comment | grep . &&
		! find "$tmp/place" -mindepth 1 | comment | grep .
}

# fake RFTP: a build of this script and the server; $rftp is the real one.
export rftp
rftp=$(command -v rftp)
mkdir "$tmp/fake"
ln -s "$(command -v rftpd)" "$tmp/fake/rftpd"
fake() {
	printf '#!/bin/bash\n%s\n' "$1" >"$tmp/fake/rftp"
	chmod +x "$tmp/fake/rftp"
}

# The wrapper that runs the commands, and limits them.
measured() { run "$lib/measured" "$@"; }
none_runs() { ! pgrep -fx "$1" >/dev/null; }
measured --limit 50 "$tmp/took" sh -c 'exit 3'
check "a command's own status" [ "$status" = 3 ]
measured --limit 50 "$tmp/took" sh -c 'kill -KILL $$'
check "that of a signal" [ "$status" = 137 ]
measured --limit 0.3 "$tmp/took" sleep 300
check "a limit ends it" [ "$status" = 124 ]
check "in its time" awk '{ exit !($1 >= 0.3 && $1 < 30) }' "$tmp/took"
measured --limit 0.3,0.3 "$tmp/took" bash -c 'trap "" TERM; sleep 3000.31 & sleep 3000.32'
check "and one that does not mind" [ "$status" = 124 ]
check "with all of its processes" patience 10 none_runs 'sleep 3000[.]3[12]'
measured --limit 0.3,40 "$tmp/took" bash -c '(trap "" TERM; exec sleep 3000.33) & exec sleep 3000.34'
check "also when it minds, and they do not" [ "$status" = 124 ]
check "they are gone, too" patience 10 none_runs 'sleep 3000[.]3[34]'

"$lib/measured" --limit 500,1 "$tmp/took" bash -c 'trap "" TERM; sleep 3000.35' &
stubborn=$!
others+=("$stubborn")
runs() { pgrep -fx "$1" >/dev/null; }
asked_again() { ! kill "$stubborn" 2>/dev/null || gone "$stubborn"; }
check "one that minds no signal runs" patience 30 runs 'sleep 3000[.]35'
check "further signals put its end off by nothing" patience 30 asked_again
check "which takes all of it" patience 10 none_runs 'sleep 3000[.]35'

# Its caller's group is killed: the limit is still there.
setsid bash -c '"$0" --limit 3,1 "$1" sleep 3000.36; :' "$lib/measured" "$tmp/took" &
group=$!
others+=("$group")
check "one whose caller is to be killed runs" patience 30 runs 'sleep 3000[.]36'
kill -KILL -- "-$group"
check "is ended by its limit" patience 30 none_runs 'sleep 3000[.]36'

# The wrapper of the tests: a watch that outlives it would end a process that gets an old number.
run "$top_srcdir/tests/run" true "watch of $$"
check "the wrapper of the tests passes the status on" status_is 0
check "and leaves no watch" patience 5 none_runs ".*tests/run true watch of $$"

real_input --build "${top_builddir:?}" deep names special
check "it ends well" status_is 0
check "each input came back identical" [ "$(grep -c ' identical$' "$tmp/out")" = 3 ]
check "it leaves nothing" no_trace

# shellcheck disable=SC2016
fake '"$rftp" "$@" && [ "$1" = put ] || exit
find "$(dirname "${@: -2:1}")/root" -name -rf -type f -exec touch -d @1 {} +'
real_input --build "$tmp/fake" names
check "a time that is another on the server: status 1" [ "$status" = 1 ]
check "and it says which" printed " there: 'names/-rf' time .*, 1000000000$"
check "what came back with it, too" printed "back: 'names/-rf' time"
check "and leaves nothing" no_trace

# shellcheck disable=SC2016
fake '"$rftp" "$@" && [ "$1" = get ] || exit
mkfifo "${!#}/special/another"'
real_input --build "$tmp/fake" special
check "a pipe that should have been left out: status 1" [ "$status" = 1 ]
check "and it says so" printed "'special/another' is too much$"

# shellcheck disable=SC2016
fake '[ "$1" = get ] || exec "$rftp" "$@"
python3 -c "bytes(1) * (300 << 20)"; exec "$rftp" "$@"'
real_input --build "$tmp/fake" names
check "too much memory: status 1" [ "$status" = 1 ]
check "and it says how much" printed 'get: rftp took 3[0-9][0-9] MiB of memory, .* for blocks$'

fake 'exit 3'
real_input --build "$tmp/fake" deep
check "rftp that fails: status 1" [ "$status" = 1 ]
check "and it says so" printed ' put: status 3:'
check "and that nothing arrived" printed '^    there: nothing arrived$'
check "and leaves nothing" no_trace

fake 'sleep 300 & wait'
"$top_srcdir/scripts/real-input" --dir "$tmp/place" --build "$tmp/fake" names \
	</dev/null >"$tmp/out" 2>"$tmp/err" &
real=$!
others+=("$real")
waits_for_us() { grep -lsqa "$tmp/fa[k]e/rftp.put" /proc/[0-9]*/cmdline; }
check "it runs rftp put" patience 60 waits_for_us
kill "$real"
wait "$real"
check "a signal ends it" [ $? = 143 ]
check "and leaves nothing" no_trace

real_input --build "$tmp/fake" everything
check "an unknown input: status 2" [ "$status" = 2 ]
finish
