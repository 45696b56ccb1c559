#!/bin/bash
# shellcheck disable=SC2317 # check calls them
# docs/coming-from.md: the right column names no option and no command that is not there. Options
# of other programs get advice. TAP.

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

# advises WORDS TEXT: the options of another program are wrong, and the error has TEXT
advises() {
	# shellcheck disable=SC2086 # several words
	run rftp $1 here rftp://127.0.0.1:1/
	check "$1" fails_with 2 "$2"
}
advises 'put -n' 'no option -n \(use --dry-run\)'
advises 'put --bwlimit=10m' 'no option --bwlimit \(use --rate\)'
advises 'put -z' 'no option -z \(rftp does not compress'
advises 'put -avz' 'no option -z \(rftp does not compress'
advises 'put --compress' 'no option --compress \(rftp does not compress'
advises 'put -C' 'no option -C \(rftp does not compress'
advises 'put -rP' 'no option -P \(rftp shows progress'
advises 'put -p' 'put does not take -p: rftp keeps times'
advises 'put -l 8000' 'put does not take -l: --rate'
advises 'put --delete' 'does not take --delete: rftp sync --delete removes'
advises 'stat -p' 'stat does not take -p \(rftp stat --help'
advises 'put --xatrs' 'did you mean --xattrs'
advises 'put --limit-rate=1m' 'no option --limit-rate \(use --rate\)'
run rftp snc here rftp://127.0.0.1:1/
check "a command that is nearly right" fails_with 2 'did you mean sync\?'
finish
