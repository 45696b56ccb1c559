#!/bin/bash
# scripts/quickstart with the programs just built and a small file: it compares, it cleans
# up, and it notices when something is wrong. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
need find numfmt python3 setsid
skip_with_sanitizers

# shellcheck disable=SC2034 # of lib.sh: seconds that a command may take
limit=600
tree=$top_srcdir/tests # small: for runs that need no certain tree
export TMPDIR=$tmp/place
mkdir "$TMPDIR"

quickstart() { run "$top_srcdir/scripts/quickstart" "$@"; }
printed() { grep -Eq -e "$1" "$tmp/out"; }
# Nothing runs that has our directory in its arguments, and nothing lies there.
no_trace() {
	! grep -lsa "$TMPDIR/rftp-quick[s]tart" /proc/[0-9]*/cmdline | comment | grep . &&
		! find "$TMPDIR" -mindepth 1 | comment | grep .
}

# fake RFTP RFTPD: a build of these two scripts; $rftp and $rftpd are the real ones.
export rftp rftpd
rftp=$(command -v rftp)
rftpd=$(command -v rftpd)
fake() {
	mkdir -p "$tmp/fake"
	printf '#!/bin/sh\n%s\n' "$1" >"$tmp/fake/rftp"
	printf '#!/bin/sh\n%s\n' "$2" >"$tmp/fake/rftpd"
	chmod +x "$tmp/fake/rftp" "$tmp/fake/rftpd"
}

quickstart --build "${top_builddir:?}" --size 64M
check "it ends well" status_is 0
check "it shows four rates" [ "$(grep -Ec '^  (put|get) (file|tree) ( +[0-9.]+){4}' "$tmp/out")" = 4 ]
check "it says first what it needs" test "$(head -n 1 "$tmp/out" | grep -c 'takes a few minutes.*room')" = 1
check "it says what was compared" printed 'same there and back'
check "it leaves nothing" no_trace
if command -v rsync >/dev/null; then
	quickstart --build "${top_builddir:?}" --size 1M --tree "$tree" --peers
	check "--peers: exit status" status_is 0
	check "--peers: the ratios" printed '^rsync daemon +[0-9.]+ .* 1\.00( |$)'
	check "--peers leaves nothing" no_trace
fi

on_terminal() { # COMMAND...
	run env TERM=xterm python3 -c 'import os, pty, sys
sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))' "$@"
}
# shellcheck disable=SC2016
fake 'exec "$rftp" "$@" --rate 32M' 'exec "$rftpd" "$@"'
on_terminal "$top_srcdir/scripts/quickstart" --build "$tmp/fake" --size 64M --tree "$tree"
check "on a terminal it ends well, too" status_is 0
check "and shows rftp's progress" printed '[0-9]% +[0-9.]+ [KM]iB of 64[.0]* MiB'
check "and the same rates" [ "$(grep -Ec '(put|get) (file|tree) ( +[0-9.]+){4}' "$tmp/out")" = 4 ]
check "and leaves nothing" no_trace

# shellcheck disable=SC2016
fake '"$rftp" "$@" && case $1 in get) for f; do :; done; echo >>"$f" ;; esac' 'exec "$rftpd" "$@"'
quickstart --build "$tmp/fake" --size 1M --tree "$tree"
check "a file that came back different: status 1" [ "$status" = 1 ]
check "and it says so" grep -q 'came back: what arrived is not what was sent' "$tmp/err"
check "and leaves nothing" no_trace

# shellcheck disable=SC2016
fake '"$rftp" "$@" && case "$*" in get*/tree) for f; do :; done
	find "$f" -type f -name "*.h" | head -n 1 | while read -r x; do chmod 711 "$x"; done ;; esac' \
	'exec "$rftpd" "$@"'
quickstart --build "$tmp/fake" --size 1M --tree "$tree" --keep
check "a mode that came back different: status 1" [ "$status" = 1 ]
kept=$(sed -n 's/^The files are in //p' "$tmp/out")
check "--keep keeps the files" test -s "${kept:-none}/root/big"
rm -rf "${kept:?}"
check "and nothing else" no_trace

# shellcheck disable=SC2016
fake '"$rftp" "$@" && case "$*" in get*/tree) for f; do :; done
	rm "$f/odd/first"; cp -p "$f/odd/-rf/second" "$f/odd/first"
	touch -r "$(dirname "$f")/odd" "$f/odd" ;; esac' 'exec "$rftpd" "$@"'
quickstart --build "$tmp/fake" --size 1M --tree "$tree"
check "a hard link that came back as a file: status 1" [ "$status" = 1 ]
check "and it says so" grep -q 'came back: a hard link' "$tmp/err"
check "and leaves nothing" no_trace

fake 'exit 0' 'echo cannot >&2; exit 3'
quickstart --build "$tmp/fake" --size 1M --tree "$tree"
check "a server that does not start: status 1" [ "$status" = 1 ]
check "and it says so" grep -q 'rftpd did not start' "$tmp/err"
check "and leaves nothing" no_trace

# shellcheck disable=SC2016
fake 'exec sleep 60' 'exec "$rftpd" "$@"'
"$top_srcdir/scripts/quickstart" --build "$tmp/fake" --size 1M --tree "$tree" </dev/null >"$tmp/out" 2>"$tmp/err" &
pid=$!
others+=("$pid")
check "it gets to the first leg" patience 120 printed 'seconds'
kill "$pid"
wait "$pid"
check "SIGTERM there: status 143" [ $? = 143 ]
check "and it leaves nothing" no_trace

quickstart --size much
check "a size that is none: status 2" [ "$status" = 2 ]
quickstart --size 1M --tree "$tmp/none"
check "a tree that does not exist: status 1" [ "$status" = 1 ]
check "and it says so" grep -q 'no tree of files.*/none' "$tmp/err"
check "before it builds" not printed '^Building in'
quickstart --nonsense
check "an unknown option: status 2" [ "$status" = 2 ]
quickstart --help
check "--help" printed '--build DIR'

finish
