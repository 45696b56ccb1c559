#!/bin/bash
# shellcheck disable=SC2034 # limit is for lib.sh
# Clients that follow the protocol up to a point, and then send invalid messages
# (phony-client.py): no session dies, hangs or writes outside its root, and the others
# continue. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
need python3 setsid ps

limit=15
mkdir "$tmp/root" "$tmp/outside" "$tmp/here"
echo secret >"$tmp/outside/secret"
random "$tmp/root/good-source" 3000000
random "$tmp/big" 40000000

start_server d --root "$tmp/root" --anonymous rw --plain
# A session has this much, of which it needs a tenth.
sanitized || prlimit --pid "$server" --as=$((3 << 30))
# Another client, all the while.
rftp put -q --accept-new --rate 8M "$tmp/big" "$url/other" 2>"$tmp/other.err" &
other=$!
others=("$other")

python3 "$lib/phony-client.py" "$port" "$tmp/outside" >"$tmp/clients" 2>"$tmp/err"
check "the phony client ran" test $? -eq 0 -a "$(wc -l <"$tmp/clients")" -gt 170
while IFS= read -r line; do
	ran=$line status=
	check "server: $line" test "${line% bad}" = "$line"
done <"$tmp/clients"
wait "$other"
check "another session went on" test $? -eq 0
check "with what it had to do" same "$tmp/big" "$tmp/root/other"
others=()
check "nothing was written outside" test "$(find "$tmp/outside" | wc -l)" -eq 2 -a "$(cat "$tmp/outside/secret")" = secret
check "the root holds nothing strange" test -z "$(find "$tmp/root" -mindepth 1 -maxdepth 1 ! -name 'evil*' ! -name other ! -name good-source)"
check "a dry run keeps no path for each of its directories" grep -qx 'entry_deep_dry: done' "$tmp/clients"
check "open directories have a bound" grep -q 'entry_dirs: abort.*directories are open' "$tmp/clients"
check "ended ones that others are in count as open" grep -q 'entry_chain: abort.*directories are open' "$tmp/clients"
check "nested directories have a bound" test "$(find "$tmp/root" -type d -name d | wc -l)" -eq 4096
check "no half files" test ! -s "$tmp/root/evil/whole" -o "$(cat "$tmp/root/evil/whole" 2>/dev/null)" = 0123456789
check "all sessions have ended" patience 45 no_children "$server"
check "none of them died" not grep -q 'died of signal' "$tmp/d.log"
check "the log has no raw escapes" not grep -q "$(printf '\033')" "$tmp/d.log"
check "no line of it was made by a client" not grep -q '^fake' "$tmp/d.log"
put "$tmp/big" "$url/after"
check "the server works" same "$tmp/big" "$tmp/root/after"
check "the server ends well" stops_well
finish
