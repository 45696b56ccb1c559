#!/bin/bash
# bench/iser and bench/spread: their output, and the errors that they report before any guest
# starts. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
skip_with_sanitizers
need python3

# A guest that says how it was asked for, and is not started.
mkdir -p "$tmp/tree/tests/vm" "$tmp/tree/bench"
cp "$top_srcdir"/bench/{iser,spread,iser.bash} "$tmp/tree/bench/"
printf '#!/bin/sh\necho "guest $*"\nexit 5\n' >"$tmp/tree/tests/vm/run"
chmod +x "$tmp/tree/tests/vm/run"
unset VM_NODES
measure() { run "$tmp/tree/bench/$bench" --build "$top_builddir" "$@"; }
refuses() { # TEXT ARGUMENT...
	local text=$1
	shift
	measure "$@"
	check "$bench: $text" one_line "$text"
}
one_line() { [ "$status" -eq 1 ] && [ ! -s "$tmp/out" ] && [ "$(grep -c . "$tmp/err")" -eq 1 ] && grep -qFe "$1" "$tmp/err"; }
asked() { grep -qe "$1" "$tmp/out"; }
# Each option of its text is one that it takes.
known() {
	local option
	for option in $(grep -Eo '^ *--[a-z-]+' "$tmp/help"); do
		case $option in --help) continue ;; esac
		run "$tmp/tree/bench/$bench" "$option"
		one_line "$option needs a value" || return 1
	done
}

benches=(iser spread)
for bench in "${benches[@]}"; do
	run "$top_srcdir/bench/$bench" --help
	cp "$tmp/out" "$tmp/help"
	check "$bench: --help" status_is 0
	check "$bench: it says what is emulated" grep -q 'emulated' "$tmp/help"
	check "$bench: and nothing that is not its text" not grep -Eq '^(set|#)' "$tmp/help"
	check "$bench: its options are there" known
	refuses "unknown argument '--nonsense'" --nonsense 1
	refuses "'0': a number from 1 on" --rounds 0
	refuses "'three': a number from 1 on" --rounds three
	run "$tmp/tree/bench/$bench" --build "$tmp"
	check "$bench: no build there" one_line "no rftp-iser in $tmp: build first"
	measure --rounds 7 --out "$tmp/results"
	check "$bench: a guest of two nodes, whose status is its own" test "$status" -eq 5
	check "$bench: with two cards" asked '^guest --nodes 2 .*--nics 2 --topology cards'
	check "$bench: in which it runs with the same arguments" asked "/bench/$bench .*--rounds 7"
	check "$bench: what is to stay is the host's" asked "--logs $tmp/results .*--out /logs$"
done

bench=iser
refuses "--sizes: '64X' is no size" --sizes 4M,64X
refuses "'0': a number from 1 on" --threads 1,0
refuses "--ops: write, read or both" --ops trim
bench=spread
refuses "--parts: 'disk' is neither memory nor limited" --parts memory,disk
refuses "--shapes: 'tree' is none of" --shapes tree
refuses "--files: an even number" --files 3
finish
