#!/bin/sh
# Run each fuzz target once over its seeds and over an empty input, and compare the seeds with
# those that make-seeds writes today.
# $fuzz_targets comes from the Makefile.

# Word splitting is meant: it is a list of paths without blanks.
# shellcheck disable=SC2086
set -- ${fuzz_targets:-}
if [ $# -eq 0 ]; then
	echo "1..0 # SKIP no fuzz targets"
	exit 0
fi

# libFuzzer reads regular files only, so not /dev/null.
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
empty=$tmp/empty
: >"$empty"

echo "1..$(($# + 1))"
n=0
corpus=$(cd "${top_srcdir:?}/tests/fuzz/corpus" && pwd) || exit 99
for target do
	n=$((n + 1))
	name=${target##*/fuzz-}
	seeds=$corpus/$name
	[ -d "$seeds" ] || seeds=$empty
	if find "$seeds" "$empty" -type f -exec "${top_builddir:?}/$target" {} + >&2; then
		echo "ok $n - $name"
	else
		echo "not ok $n - $name"
	fi
done

# The corpus may hold more: inputs of old defects, and seeds of targets that this build lacks.
mkdir "$tmp/seeds"
if "${top_builddir:?}/tests/fuzz/make-seeds" "$tmp/seeds" >&2 &&
	stale=$(cd "$tmp/seeds" && find . -type f | LC_ALL=C sort | while IFS= read -r seed; do
		cmp -s "$seed" "$corpus/$seed" || echo "$seed"
	done) && [ -z "$stale" ]; then
	echo "ok $((n + 1)) - the seeds are those of make-seeds"
else
	echo "not ok $((n + 1)) - the seeds are those of make-seeds"
	echo "${stale:-make-seeds failed}" | sed 's/^/# stale: /'
	echo "# tests/fuzz/make-seeds tests/fuzz/corpus writes them anew"
fi
