#!/bin/sh
# Run each fuzz target once over its seeds and over an empty input.
# $fuzz_targets comes from the Makefile.

# Word splitting is meant: it is a list of paths without blanks.
# shellcheck disable=SC2086
set -- ${fuzz_targets:-}
if [ $# -eq 0 ]; then
	echo "1..0 # SKIP no fuzz targets"
	exit 0
fi

# libFuzzer reads regular files only, so not /dev/null.
empty=$(mktemp) || exit 99
trap 'rm -f "$empty"' EXIT

echo "1..$#"
n=0
for target do
	n=$((n + 1))
	name=${target##*/fuzz-}
	seeds=${top_srcdir:?}/tests/fuzz/corpus/$name
	[ -d "$seeds" ] || seeds=$empty
	if find "$seeds" "$empty" -type f -exec "${top_builddir:?}/$target" {} + >&2; then
		echo "ok $n - $name"
	else
		echo "not ok $n - $name"
	fi
done
