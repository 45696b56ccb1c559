# shellcheck shell=bash
# shellcheck disable=SC2034 # the sourcing script uses them
# Behind lib.sh: phony-ftp.py runs until the script ends. Sets phony (its directory), port, full (a
# port that takes no connections) and url; the script is in $tmp/here then.

need python3
phony=$tmp/phony
mkdir -p "$tmp/here" "$phony"
mkfifo "$tmp/hold"
"$lib/phony-ftp.py" "$phony" <"$tmp/hold" 2>/dev/null &
others+=($!)
exec 7>"$tmp/hold"
patience 20 test -s "$phony/port" || skip_all "python cannot listen"
read -r port full <"$phony/port"
url=rftp://127.0.0.1:$port
cd "$tmp/here" || exit 99
