#!/bin/bash
# shellcheck disable=SC2317 # check calls them
# The programs' own messages, read from the sources: a condition has one wording, in one place, and
# a message has the shape PLACE: CONDITION: REASON. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
skip_with_sanitizers
need python3

messages() { "$lib/messages.py" "$@"; }
# none RULE: no message breaks it; each that does is printed with its place
none() {
	messages "$1" "$top_srcdir/src" >"$tmp/broken" || return
	[ ! -s "$tmp/broken" ] || { comment <"$tmp/broken"; return 1; }
}

messages list "$top_srcdir/src" >"$tmp/list"
check "messages are read" test "$(wc -l <"$tmp/list")" -gt 2000
check "of C" grep -q '^util/thread.c:[0-9]* err_sys cannot start a thread$' "$tmp/list"
check "with their constants" grep -q '^client/.* err_set %s is on a server: rftp get copies from there$' "$tmp/list"
check "of Python" grep -q '^python/rftp_common.py:[0-9]* Failure %s needs root: use sudo$' "$tmp/list"

check "one wording for a condition" none wording
check "in one place" none twice
check "and none that is nearly the same" none alike
check "no full stop at the end, and no capital at the beginning" none shape
check "a number agrees with its noun" none count
check "nouns, not clauses" none riddle

# ---- would it have been seen? ----

# seen COUNT RULE TEXT...: of errors with these texts, C literals, so many break the rule
seen() {
	local count=$1 rule=$2 text
	shift 2
	rm -rf "$tmp/wrong"
	mkdir "$tmp/wrong"
	{
		echo 'int f(struct err *e)' && echo '{'
		for text; do printf '\terr_set(e, -1, %s);\n' "$text"; done
		echo '}'
	} >"$tmp/wrong/wrong.c"
	messages "$rule" "$tmp/wrong" >"$tmp/found"
	[ "$(cut -d ' ' -f 1 "$tmp/found" | sort -u | wc -l)" -eq "$count" ] ||
		{ comment <"$tmp/found"; return 1; }
}
check "other wordings" seen 8 wording '"sending: out of memory"' '"%s is no directory", x' \
	'"%s is " "not a directory", x' '"RDMA: it was built without that"' '"%s went away", host' \
	'"--this requires --that"' '"%s: timed out", x' '"the file could not be read"'
check "which the table does not have" seen 0 wording '"there is no user of this name"'
check "the same text again" seen 1 twice '"no data came"' '"the file is damaged"' '"the file is damaged"' \
	'"no data" " came"' '"no more data came"'
check "one nearly the same" seen 2 alike '"there is no address to send data to"' \
	'"No address to send the data to: %s", x' '"to send data, there was no address"' \
	'"no port to send the data to"'
check "a full stop, a capital" seen 2 shape '"the file is damaged."' '"The file is damaged"' '"RDMA is off"'
check "numbers and nouns" seen 2 count '"%u files are left", n' '"%" PRIu64 " names were removed", n' \
	'"%u file%s left", n, plural(n)' '"more than %u files", MOST'
check "riddles" seen 3 riddle '"whoever wrote it, has gone"' '"somebody holds the lock"' \
	'"what is there stays"' '"that is whatsoever"'
finish
