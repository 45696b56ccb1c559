#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Commands of FTP clients in the middle of a transfer: ABOR, with and without Telnet's signals and
# urgent data, STAT, QUIT. TAP.
. "${top_srcdir:?}/tests/e2e/lib.sh"
three_processes
. "$lib/numbered.bash"

need python3

# More data than socket buffers hold: a listing needs as many names.
mkdir -p "$tmp/root/many"
random "$tmp/root/big" 20000000
echo small >"$tmp/root/small"
(cd "$tmp/root/many" && python3 -c '
for i in range(30000):
    open("%05d-%s" % (i, "x" * 240), "w").close()')

start_server main --root "$tmp/root" --anonymous rw --plain
numbered "$lib/ftp-abort-client.py" "$port" clear "$tmp/root"
numbered "$lib/ftp-abort-client.py" "$port" tls "$tmp/root"
check "no parts are left" no_parts "$tmp/root"
check "no reply that the table does not have" not grep -F 'is not a reply to' "$tmp/main.log"
check "no session is left" patience 20 no_children "$server"
check "the server ends well" stops_well
finish
