#!/bin/bash
# docs/coming-from.md: the right column names no option and no command that is not there. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"

page=$top_srcdir/docs/coming-from.md
run rftp --help
cp "$tmp/out" "$tmp/help"
run rftp -c help
cp "$tmp/out" "$tmp/shell"
sed -n 's/^  \([a-z]*\) .*/\1/p' "$tmp/shell" | while read -r name; do rftp -c "help $name"; done |
	sed -n 's/^Also called: //p; s/^usage: \([a-z]*\).*/\1/p' | tr ' ' '\n' >"$tmp/names"

# The right column's words in ``, and for "the same" the left one's.
awk -F ' \\| ' '/^\| / && !/^\| ---/ {
	gsub(/\\\|/, "", $0)
	right = $2; if (right ~ /^the same/) right = right " " $1
	print right
}' "$page" | grep -o '`[^`]*`' | tr -d '`' >"$tmp/said"
check "there is something to look at" test "$(wc -l <"$tmp/said")" -gt 60
lacks=
while read -r option; do
	grep -qE -e "(^| )$option( |\$)" "$tmp/help" || lacks="$lacks $option"
done < <(grep -oE -e '--[a-z-]+' "$tmp/said" | sort -u)
check "options that are there${lacks:+, but$lacks}" test -z "$lacks"
lacks=
while read -r word; do
	grep -qxF -e "$word" "$tmp/names" || lacks="$lacks $word"
done < <(grep -xE '[a-z]+' "$tmp/said" | grep -vxE 'machine|login|password|macdef|sendport' | sort -u)
check "commands of the shell that are there${lacks:+, but$lacks}" test -z "$lacks"
lacks=
while read -r word; do
	grep -qE "^  $word " "$tmp/help" || lacks="$lacks $word"
done < <(grep -oE '^(tar c x +)?rftp [a-z]+ ' "$tmp/said" | sed 's/.*rftp //; s/ $//' | sort -u)
check "commands of rftp that are there${lacks:+, but$lacks}" test -z "$lacks"
finish
