# shellcheck shell=bash disable=SC2154 # the sourcing script uses them; tmp: lib.sh's
# SPDX-License-Identifier: Apache-2.0
# Shared by the tests of rftp-iser's status and verify, here and in the guest: checks of their
# output. Sourced after lib.sh.

# No rtslib can be imported by programs that run after it.
without_rtslib() {
	mkdir -p "$tmp/python"
	for module in rtslib_fb rtslib; do echo 'raise ImportError' >"$tmp/python/$module.py"; done
	export PYTHONPATH=$tmp/python
}
verify() { run rftp-iser verify "$@"; }
status() { run rftp-iser status "$@"; }
has() { grep -q -e "$1" "$tmp/out"; }
wrongs() { grep -c '^WRONG' "$tmp/out"; }
all_ok() { status_is 0 && [ "$(wrongs)" = 0 ] && has '^ok' && not has '^UNSEEN'; }
# only NAME MEND: the only problem, and its remedy
only() {
	status_is 1 && [ "$(wrongs)" = 1 ] && not has '^UNSEEN' && has "^WRONG.*$1.* -> .*$2" && return
	comment <"$tmp/out"
	return 1
}
# is EXPRESSION: of Python, over the JSON m that it printed
is() {
	python3 -c 'import json, os, sys
m = json.load(open(sys.argv[1]))
sys.exit(not eval(sys.argv[2]))' "$tmp/out" "$1"
}
