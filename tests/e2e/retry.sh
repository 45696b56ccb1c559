#!/bin/bash
# shellcheck disable=SC2034 # ran, status and limit are for lib.sh
# A session that is killed in the midst of an overwriting put, get or cp, which is tried again:
# files that this command has committed before are left alone, and no others, not even those of the
# same size and time. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
need python3

limit=90
mkdir -p "$tmp/root" "$tmp/sink" "$tmp/here" "$tmp"/{new,old}/{small,big}
for i in $(seq 20); do
	random "$tmp/new/small/$i" 2000
	random "$tmp/old/small/$i" 2000
done
for i in $(seq 6); do # each long enough for a part with a name
	random "$tmp/new/big/$i" 5000000
	random "$tmp/old/big/$i" 5000000
done
find "$tmp/new" "$tmp/old" -type f -exec touch -d '2026-01-02 03:04:05' {} +
cp -a "$tmp/new" "$tmp/root/from"
start_server main --root "$tmp/root" --anonymous rw --third-party all
main=$server main_url=$url
start_server other --root "$tmp/sink" --anonymous rw --third-party all
other=$server other_url=$url
run rftp ls --accept-new "$main_url/"
run rftp ls --accept-new "$other_url/"

# The files that the client has been told are committed, in the order of their names. Which of all
# these are, differs: a source on a rotating disk sends files in the order in which they lie there.
committed() { sed -n 's,^rftp: .*/\([a-z]*/[0-9]*\) ([0-9.]* [KM]iB)$,\1,p' "$tmp/err" | sort; }
# Some are committed, one is a part.
under_way() { # DESTINATION
	[ "$(committed | wc -l)" -ge 3 ] && [ -n "$(find "$1" -name '.rftp-*')" ]
}
inodes() { (cd "$1" && xargs stat -c '%n %i' <"$tmp/committed") 2>/dev/null; } # DESTINATION

# retried NAME SERVER DESTINATION COMMAND...: the session of SERVER dies once some files are
# committed and another is on its way
retried() {
	local what=$1 victim=$2 to=$3 client before
	shift 3
	rm -rf "$to" && cp -a "$tmp/old" "$to"
	ran="$*"
	timeout "$limit" "$@" -v --rate 4M >"$tmp/out" 2>"$tmp/err" </dev/null &
	client=$!
	others+=("$client")
	check "$what: it begins" patience 20 under_way "$to"
	committed >"$tmp/committed"
	before=$(inodes "$to")
	# shellcheck disable=SC2046 # each a process
	kill -KILL $(children "$victim")
	wait "$client"
	status=$?
	check "$what: it completes" status_is 0
	check "$what: by another attempt" grep -q 'trying again' "$tmp/err"
	check "$what: the same files" diff -r "$tmp/new" "$to"
	check "$what: the committed ones are left alone" test "$before" = "$(inodes "$to")"
	check "$what: nothing else is there" no_parts "$to"
}
retried put "$main" "$tmp/root/to" rftp put -r "$tmp/new/small" "$tmp/new/big" "$main_url/to/"
retried get "$main" "$tmp/here/to" rftp get -r "$main_url/from/small" "$main_url/from/big" "$tmp/here/to/"
copy=(rftp cp -r "$main_url/from/small" "$main_url/from/big" "$other_url/to/")
retried "cp, the sink" "$other" "$tmp/sink/to" "${copy[@]}"
retried "cp, the source" "$main" "$tmp/sink/to" "${copy[@]}"

run rftp cp "$main_url/none" "$other_url/none"
check "of two servers on one host an error names the port" \
	grep -q "^rftp: 127.0.0.1 port ${main_url##*:}: .*/none" "$tmp/err"
finish
