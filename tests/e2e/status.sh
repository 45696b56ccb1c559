#!/bin/bash
# shellcheck disable=SC2016,SC2034,SC2317 # for lib.sh; check calls them
# rftp status: users see their own running transfers, those of --admin see all. TAP.
. "${top_srcdir:?}/tests/e2e/lib.sh"
need python3 curl

mkdir -p "$tmp/root/dir"
chmod -R 777 "$tmp/root"
random "$tmp/root/big" 100000000
chmod 644 "$tmp/root/big"
hash=$(echo s3cret | rftpd --hash-password)
for user in alice bob root2; do echo "$user:$hash:$tmp/root:/:rw"; done >"$tmp/users"
chmod 600 "$tmp/users"
for user in alice bob root2; do
	printf 'machine 127.0.0.1 login %s password s3cret\n' "$user" >"$tmp/$user.netrc"
	chmod 600 "$tmp/$user.netrc"
done

# status_of USER OPTION...
status_of() {
	local user=$1
	shift
	run rftp status --accept-new --netrc "$tmp/$user.netrc" "$@" "rftp://$user@127.0.0.1:$port"
}
sees() { # USER PATH...: exactly these
	local user=$1
	shift
	status_of "$user" --json
	[ "$status" -eq 0 ] && [ "$(python3 -c '
import json, sys
for line in open(sys.argv[1]):
    e = json.loads(line)
    assert e["event"] == "transfer", e
    print(e["path"])' "$tmp/out" | sort)" = "$(printf '%s\n' "$@")" ]
}
member() { python3 -c 'import json, sys; print(json.loads(open(sys.argv[1]).readline())[sys.argv[2]])' "$tmp/out" "$1"; }
# A put of standard input that runs until its pipe is closed.
put_slowly() { # USER PATH DESCRIPTOR
	mkfifo "$tmp/fifo.$name.$1"
	rftp put -q --accept-new --netrc "$tmp/$1.netrc" --transport tcp - "rftp://$1@127.0.0.1:$port$2" \
		<"$tmp/fifo.$name.$1" &
	others+=($!)
	eval "exec $3>\"$tmp/fifo.$name.$1\""
	head -c 5000000 /dev/zero >&"$3"
}

shows() {
	name=$1
	rm -rf "$tmp"/root/dir/*
	start_server "$name" --root "$tmp/root" --anonymous ro --users "$tmp/users" --admin x,root2 --plain \
		--prot-min clear
	check "$name: nothing runs" sees alice
	put_slowly alice '/dir/one' 7
	put_slowly bob '/dir/two é"\x' 8
	check "alice sees her transfer" patience 20 sees alice /dir/one
	check "which is a put" test "$(member direction)" = received
	check "by her" test "$(member user)" = alice
	has_bytes() { sees alice /dir/one && [ "$(member bytes)" -gt 0 ]; }
	check "its bytes grow" patience 20 has_bytes
	check "by TCP" test "$(member transport)" = tcp
	began=$(member start)
	check "it began just now" test $(($(date +%s) - began)) -lt 60
	check "bob sees his" patience 20 sees bob '/dir/two é"\x'
	check "an administrator sees both" sees root2 /dir/one '/dir/two é"\x'
	status_of root2
	check "as text" grep -Eq '^alice +received +[0-9.]+ .*20[0-9-]* [0-9:]* +/dir/one$' "$tmp/out"
	run rftp status --accept-new --json "$url"
	check "anonymous sees none" test "$status" -eq 0 -a ! -s "$tmp/out"
	run rftp -c transfers --accept-new --json --netrc "$tmp/alice.netrc" "rftp://alice@127.0.0.1:$port"
	check "in the shell" grep -q '"path": *"/dir/one"' "$tmp/out"

	curl -sS --limit-rate 200000 "ftp://127.0.0.1:$port/big" -o "$tmp/got" &
	others+=($!)
	sees_get() {
		run rftp status --accept-new --json "$url"
		[ "$(member path 2>/dev/null)" = /big ] && [ "$(member direction)" = sent ] && [ "$(member transport)" = ftp ]
	}
	check "a RETR of anonymous" patience 20 sees_get
	check "not for alice" sees alice /dir/one
	kill "${others[-1]}"

	exec 7>&- 8>&-
	check "in the end there are none" patience 20 sees root2
	check "the file is there" test "$(stat -c %s "$tmp/root/dir/one")" = 5000000
	check "stop" stops_well
}
shows one
if is_root; then
	three_processes
	shows three
fi

printf '#!/bin/sh\nfor last; do :; done\nexec sh -c "$last"\n' >"$tmp/ssh"
chmod +x "$tmp/ssh"
run rftp status --ssh "$tmp/ssh" host:/
check "over ssh there is no server to ask" fails_with 1 'serves this session only'
finish
