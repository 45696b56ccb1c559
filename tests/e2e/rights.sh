#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The rights of an account: the table of rftpd(8), by every FTP command and every kind
# of bulk entry. TAP.
. "${top_srcdir:?}/tests/e2e/lib.sh"
three_processes
. "$lib/numbered.bash"

need python3

for right in ro rw nodelete upload; do
	mkdir "$tmp/$right"
	start_server "$right" --root "$tmp/$right" --anonymous "$right" --plain --prot-min clear
	numbered "$lib/rights-client.py" "$port" "$tmp/$right" "$right"
	check "$right: no session has died" not grep -Eqi 'signal|killed|crash' "$tmp/$right.log"
	check "$right: the server ends well" stops_well
done
finish
