#!/bin/bash
# A production build has no trace of fault injection: no symbol, no name of a point or of the
# environment variable. A build with --enable-faults shows that this test finds them. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
need nm strings

# The names of points that are no common words.
mapfile -t names < <(grep -oE '"[a-z]+-[a-z]+"' "$top_srcdir/src/util/fault.c" | tr -d '"' | sort -u)
names+=(RFTP_FAULT faults_on faults_set fault_strike fault_shorten)
check "there are points to look for" test "${#names[@]}" -gt 10

found_in() { # PROGRAM: those names that are in it
	local program
	program=$(command -v "$1") && strings -a "$program" >"$tmp/strings" && [ -s "$tmp/strings" ] ||
		echo "$1 cannot be read"
	nm -a "$program" >>"$tmp/strings" 2>/dev/null # nothing when it is stripped
	grep -oF "${names[@]/#/-e}" "$tmp/strings" | sort -u
}
finds_none() { ! found_in "$1" | comment | grep .; }
finds_all() { [ "$(found_in "$1" | wc -l)" -eq "${#names[@]}" ]; }

echo data >"$tmp/file"
if has_faults; then
	for program in rftp rftpd; do
		check "$program: it is found in a test build" finds_all $program
		run env RFTP_FAULT=nonsense $program --version
		check "$program: rules that are not valid end it" status_is 2
	done
else
	for program in rftp rftpd rftp-numa; do
		check "$program: nothing is found" finds_none $program
	done
	export RFTP_FAULT="nonsense;open:EACCES;read:EIO;connect:ECONNREFUSED"
	start_server main --root "$tmp" --anonymous ro
	get "$url/file" "$tmp/back"
	check "rules have no effect" status_is 0
	check "the file is the same" same "$tmp/file" "$tmp/back"
	unset RFTP_FAULT
fi
finish
