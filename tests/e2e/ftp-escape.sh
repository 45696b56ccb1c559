#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A hostile FTP client does not get out of the root by any command, also while another process
# changes links; and it gets a reply to every command. TAP.
. "${top_srcdir:?}/tests/e2e/lib.sh"
three_processes
. "$lib/numbered.bash"

need python3

mkdir -p "$tmp/root/d" "$tmp/outside/outside-dir"
echo file >"$tmp/root/file"
echo secret-of-outside >"$tmp/outside/secret"
echo linked >"$tmp/outside/linked"
chmod 640 "$tmp/outside/secret"

start_server main --root "$tmp/root" --anonymous rw --plain
numbered "$lib/ftp-escape-client.py" "$port" "$tmp"
check "nothing outside has changed" grep -qx secret-of-outside "$tmp/outside/secret"
check "no reply that the table does not have" not grep -F 'is not a reply to' "$tmp/main.log"
check "no session has died" not grep -Eqi 'signal|killed|crash' "$tmp/main.log"
check "the server ends well" stops_well
finish
