# shellcheck shell=bash
# shellcheck disable=SC2034 # limit is for lib.sh
# For client-dies.sh and server-dies.sh, which set $victim and source this. The victim is killed at
# any instant of a put and of a get: there is the old file or the new one, never a mixture; the same
# command then resumes and completes, and leaves neither parts nor processes.

# In memory where there is some, for it is not the disk that is tested.
if [ -w /dev/shm ] && [ "$(df -Pk /dev/shm | awk 'END { print $4 }')" -gt 1500000 ]; then
	TMPDIR=/dev/shm
fi
. "${top_srcdir:?}/tests/e2e/lib.sh"
need python3 setsid ps

# A longer search for a fault: E2E_ROUNDS=100 tests/e2e/server-dies.sh
rounds=${E2E_ROUNDS:-8}
limit=40
mkdir "$tmp/root" "$tmp/here" "$tmp/src"
start_server d --root "$tmp/root" --anonymous rw
run rftp ls --accept-new "$url/"

# Files without holes, every page of which is another one, and a rate at which they take
# half a second.
rate=(--rate 160M)
python3 - "$tmp/src/new" "$tmp/old" <<'PYTHON'
import os, sys
for name, seed, size in ((sys.argv[1], 1, 96), (sys.argv[2], 2, 40)):
    with open(name, 'wb') as f:
        for mib in range(size):
            f.write(b''.join((seed << 56 | mib << 20 | k).to_bytes(8, 'big') * 512
                             for k in range(256)))
PYTHON
mkdir "$tmp/src/tree"
for i in {1..30}; do
	mkdir "$tmp/src/tree/$i"
	for k in {1..20}; do head -c $((i * k * 50)) "$tmp/src/new" >"$tmp/src/tree/$i/$k"; done
done
head -c 32000000 "$tmp/src/new" >"$tmp/src/tree/big"

# words DIR KIND: set source and destination of a transfer, and its command
words() { # put|get file|tree
	local name=new
	[ "$2" = file ] || name=tree
	if [ "$1" = put ]; then
		from=$tmp/src/$name to=$tmp/root/to
		command=(rftp put -q --json -r "$tmp/src/$name" "$url/to/$name")
	else
		from=$tmp/root/from/$name to=$tmp/here/to
		command=(rftp get -q --json -r "$url/from/$name" "$tmp/here/to/$name")
	fi
	into=$to/$name
}

# The files with the final names are old or new.
file_is_either() {
	if same "$from" "$into"; then
		how=new
	elif same "$tmp/old" "$into"; then
		how=old
	else
		echo "# $into is neither: $(stat -c %s "$into" 2>&1)"
		return 1
	fi
}
tree_is_either() {
	local f bad=0 n=0
	while IFS= read -r f; do
		n=$((n + 1))
		[ ! -e "$into/$f" ] || same "$from/$f" "$into/$f" ||
			{ [ "$f" = big ] && same "$tmp/old" "$into/$f"; } ||
			{ bad=1; echo "# $f: $(stat -c %s "$into/$f")"; }
	done < <(cd "$into" && find . -type f ! -name '.rftp-*' -printf '%P\n')
	how=$n
	return $bad
}
complete() { diff -r "$from" "$into" >/dev/null; }

sessions_gone() { patience 10 no_children "$server"; }
client_gone() { patience 10 gone "$client"; }

# kill_it client|server put|get file|tree SECONDS
kill_it() {
	local victim=$1 dir=$2 kind=$3 delay=$4 what child ended
	what="$victim killed after $delay s of a $dir of a $kind"
	words "$dir" "$kind"
	rm -rf "$to" && mkdir "$to"
	if [ "$kind" = file ]; then cp "$tmp/old" "$into"; else mkdir "$into" && cp "$tmp/old" "$into/big"; fi
	if [ "$victim" = server ]; then command+=(--retries 0); fi
	"${command[@]}" "${rate[@]}" </dev/null >"$tmp/out" 2>"$tmp/err" &
	client=$!
	others=("$client")
	sleep "$delay"
	ended=no
	if [ "$victim" = client ]; then
		kill -KILL "$client" 2>/dev/null || ended=yes
	else
		child=$(children "$server" | head -n 1)
		if [ -n "$child" ]; then kill -KILL "$child" 2>/dev/null || ended=yes; else ended=yes; fi
	fi
	check "$what: the client ends" client_gone
	wait "$client"
	status=$?
	ran="${command[*]}"
	others=()
	check "$what: the session ends" sessions_gone
	if [ "$victim" = server ] && [ "$ended" = no ]; then
		check "$what: status 4, 3 or, at the very end, 0" test "$status" -eq 4 -o "$status" -eq 3 -o "$status" -eq 0
	fi
	if [ "$victim" = server ] && [ "$status" -ne 0 ]; then
		check "$what: one line" said ''
	fi
	check "$what: old or new" "${kind}_is_either"
	# The same command again.
	had=$(find "$to" -name '.rftp-*' ! -name '*.j' -printf '%b\n' | awk '{ n += $1 } END { print n * 512 + 0 }')
	run "${command[@]}"
	check "$what: the same command completes" status_is 0
	check "$what: all is there" complete
	check "$what: nothing is left" no_parts "$to"
	resumed=$(summary resumed)
	echo "# it was $how; $had bytes of parts, $resumed resumed"
	if [ "$kind" = file ] && [ "${resumed:-0}" -gt 0 ]; then resumes=$((resumes + 1)); fi
	if [ "$kind" = file ] && [ "$had" -gt 0 ]; then parts=$((parts + 1)); fi
}

# The time of a transfer that is not killed
mkdir "$tmp/root/from" && ln "$tmp/src/new" "$tmp/root/from/new" && cp -a "$tmp/src/tree" "$tmp/root/from/tree"
for dir in put get; do
	for kind in file tree; do
		words $dir $kind
		rm -rf "$to" && mkdir "$to"
		began=$(date +%s%N)
		run "${command[@]}" "${rate[@]}"
		took=$((($(date +%s%N) - began) / 1000000))
		resumes=0
		parts=0
		# A busy machine may have been faster or slower at first than it is now: then more
		# of them, until one was in the midst of it.
		for ((i = 0; i < rounds || (resumes == 0 && i < 4 * rounds); i++)); do
			[ $kind = file ] || [ $i -lt $rounds ] || break
			# In each eighth, somewhere.
			at=$(((took * (i % rounds) + RANDOM % took) / rounds + 5))
			kill_it "$victim" $dir $kind "$((at / 1000)).$(printf %03d $((at % 1000)))"
		done
		echo "# $victim $dir $kind: $took ms; $parts parts, $resumes resumed"
		if [ $kind = file ]; then
			check "$victim, $dir: one at least goes on where it was" test "$resumes" -gt 0
		fi
	done
done

# The session that has lost its client still locks the part for a moment: a client that comes
# again at once waits for it.
if [ "$victim" = client ]; then
	words put file
	for ((i = 0; i < 3; i++)); do
		rm -rf "$to" && mkdir "$to"
		"${command[@]}" "${rate[@]}" </dev/null >/dev/null 2>&1 &
		client=$!
		sleep 0.3
		kill -KILL "$client"
		wait "$client"
		run "${command[@]}"
		check "the same command right after the kill completes" status_is 0
		sessions_gone
	done
fi

check "the server ends well" stops_well
finish
