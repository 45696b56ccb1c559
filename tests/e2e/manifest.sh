#!/bin/bash
# --manifest, and rftp verify and rftp hash -r: digests of what was moved. The judges are the
# programs that make such lists. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
need python3

mkdir "$tmp/root" "$tmp/src" "$tmp/src/sub"
start_server d --root "$tmp/root" --anonymous rw --third-party all
# Sizes around those of blocks, holes, hard links, and names that must be escaped.
for size in 0 1 65535 65536 65537 200000 4194304 5000001; do
	head -c $size /dev/urandom >"$tmp/src/f$size"
done
truncate -s 3M "$tmp/src/hole"
truncate -s 9M "$tmp/src/sparse"
printf data | dd of="$tmp/src/sparse" bs=1 seek=4000000 conv=notrunc 2>/dev/null
printf more | dd of="$tmp/src/sparse" bs=1 seek=8000000 conv=notrunc 2>/dev/null
ln "$tmp/src/f200000" "$tmp/src/sub/link"
ln "$tmp/src/f0" "$tmp/src/sub/link0"
printf x >"$tmp/src/new
line"
printf y >"$tmp/src/back\\slash"
ln -s f1 "$tmp/src/symlink"
files=$(find "$tmp/src" -type f -printf x | wc -c)
lists() { [ "$(cut -c 67- "$tmp/m" | tr "\n" " ")" = "$1 " ] || { comment <"$tmp/m"; false; }; }
lists_all() { [ "$(wc -l <"$tmp/m")" = "$1" ] || { comment <"$tmp/m"; false; }; }
accepts() { (cd "$2" && "$1" --quiet -c "$tmp/m") >"$tmp/sums" 2>&1 || { comment <"$tmp/sums"; false; }; }

# Many readers, few small blocks: blocks of one file are read out of order.
small=(--accept-new --block 64K --readers 6 --ack written)
for round in 1 2 3; do
	rm -rf "$tmp/root/"* "$tmp/here" "$tmp/m"
	run rftp put -q -r "${small[@]}" --inflight $((round * 4)) --manifest "$tmp/m" "$tmp/src/" "$url/to"
	check "put: all files are in it, $round" lists_all "$files"
	check "put: sha256sum accepts it at the source, $round" accepts sha256sum "$tmp/src"
	check "put: and at the destination, $round" accepts sha256sum "$tmp/root/to"
	run rftp get -q -r "${small[@]}" --manifest "$tmp/m" --alg MD5 "$url/to" "$tmp/here/"
	check "get: all files are in it, $round" lists_all "$files"
	check "get: md5sum accepts it, $round" accepts md5sum "$tmp/here"
	run rftp cp -q -r --block 64K --manifest "$tmp/m" --alg SHA-512 "$url/to" "$url/copy"
	check "cp: all files are in it, $round" lists_all "$files"
	check "cp: sha512sum accepts it, $round" accepts sha512sum "$tmp/root/copy"
done
run rftp put -q -r --manifest "$tmp/m" "$tmp/src" "$url/in/"
check "put into a directory" accepts sha256sum "$tmp/root/in"
run rftp put -q -r --manifest "$tmp/m" --alg Adler-32 "$tmp/src/" "$url/adler"
check "Adler-32" python3 - "$tmp/m" "$tmp/src" <<'END'
import os, sys, zlib
for line in open(sys.argv[1]):
    if not line.startswith("\\"):
        digest, name = line.rstrip("\n").split("  ", 1)
        assert f"{zlib.adler32(open(os.path.join(sys.argv[2], name), 'rb').read()):08x}" == digest, line
END
if command -v xxh128sum >/dev/null; then
	run rftp put -q -r --manifest "$tmp/m" --alg xxh128 "$tmp/src/" "$url/xxh"
	grep -v '^\\' "$tmp/m" >"$tmp/m2"
	check "xxh128sum accepts it" sh -c 'cd "$1" && xxh128sum --quiet -c "$2"' . "$tmp/src" "$tmp/m2"
fi
run rftp put -q -r --manifest "$tmp/m.jsonl" --alg CRC32C "$tmp/src/" "$url/json"
check "JSON: path, size, time and digest" python3 - "$tmp/m.jsonl" "$tmp/src" "$files" <<'END'
import json, os, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
assert len(lines) == int(sys.argv[3])
for o in lines:
    st = os.stat(os.path.join(sys.argv[2], o["path"]))
    assert (o["size"], o["mtime"] * 10**9 + o["mtime_ns"]) == (st.st_size, st.st_mtime_ns), o
    assert o["alg"] == "CRC32C" and len(o["digest"]) == 8, o
END
# shellcheck disable=SC2016
run bash -c 'head -c 300000 "$1" | rftp put -q --manifest - - "$2"' . "$tmp/src/f4194304" "$url/piped"
check "from a pipe, to standard output" grep -qx "$(head -c 300000 "$tmp/src/f4194304" | sha256sum | cut -c 1-64)  piped" "$tmp/out"

# Interrupted and run again: parts are resumed, and the list is complete.
rm -rf "$tmp/root/"* "$tmp/m"
head -c 40000000 /dev/urandom >"$tmp/src/big"
"rftp" put -q -r --accept-new --rate 20M --manifest "$tmp/m" "$tmp/src/" "$url/to" 2>/dev/null &
pid=$!
sleep 1
kill -9 $pid
wait $pid 2>/dev/null
check "killed: no manifest" test ! -e "$tmp/m"
# Until then it may still write files that have come.
check "killed: its session ends" patience 30 no_children "$server"
run rftp put -q -r --manifest "$tmp/m" "$tmp/src/" "$url/to"
check "again: all files are in it" lists_all $((files + 1))
check "again: sha256sum accepts it" accepts sha256sum "$tmp/root/to"
echo changed >"$tmp/src/f1"
run rftp sync -q --manifest "$tmp/m" "$tmp/src/" "$url/to"
check "sync: only what was copied" lists "f1"
run rftp sync -q --manifest "$tmp/m" "$tmp/src/" "$url/to"
check "sync: nothing was copied: the old manifest stays" lists "f1"

# ---- verify ----
run rftp put -q -r --manifest "$tmp/m" "$tmp/src/" "$url/to"
counts() { grep -qx "$1" "$tmp/err" || { comment <"$tmp/err"; false; }; }
run rftp verify "$tmp/m" "$tmp/src" "$url/to"
check "verify: here and there" status_is 0
check "verify: the counts" counts "$((2 * files + 2)) the same, 0 different, 0 missing, 0 extra"
printf z >>"$tmp/root/to/f65536"
rm "$tmp/root/to/new
line"
touch "$tmp/root/to/sub/surplus"
run rftp verify "$tmp/m" "$url/to"
check "verify: differences: exit status" status_is 1
LC_ALL=C sort "$tmp/out" >"$tmp/sorted"
check "verify: differences: each" diff "$tmp/sorted" - <<'END'
different: f65536
extra: sub/surplus
missing: new\x0aline
END
run rftp verify --json "$tmp/m" "$url/to"
check "verify --json" test "$(grep -c '"event":"\(different\|extra\|missing\|verified\)"' "$tmp/out")" = 4
run rftp verify "$tmp/m.jsonl" "$tmp/src"
check "verify: a list of JSON lines" grep -q 'f1$' "$tmp/out"
# shellcheck disable=SC2016
run bash -c 'cd "$1" && sha1sum f0 sub/link | rftp verify -q - .' . "$tmp/src"
check "verify: a list of sha1sum" test "$(grep -c '^extra:' "$tmp/out")" = $((files - 1))
bad() { # LINE TEXT
	printf '%s\n' "$1" >"$tmp/bad"
	run rftp verify "$tmp/bad" "$tmp/src"
	check "verify: $2: exit status" status_is 2
	check "verify: $2" grep -q "$2" "$tmp/err"
}
zero=0000000000000000000000000000000000000000
bad "$zero  a
x" 'bad:2: not a line'
bad "$zero  ../a" 'bad:1: the path is not below'
bad "$zero  a/../../b" 'bad:1: the path is not below'
bad "$zero  /etc/passwd" 'bad:1: the path is not below'
bad "\\$zero  a\\x" 'bad:1: not a line'
bad "$zero  a
$zero  ./a" '"a" is listed twice'
bad '{"path":"a","alg":"none","digest":"00"}' 'bad:1: not a line'
run rftp verify "$tmp/none" "$tmp/src"
check "verify: no such list" fails_with 2 'none: cannot be read: No such file'
run rftp verify "$tmp/src" "$url/to"
check "verify: two trees" fails_with 2 'src is not a manifest: rftp sync --checksum --dry-run compares two trees'
run rftp verify "$tmp/m" "$tmp/none"
check "verify: no such directory" status_is 1

# ---- hash -r ----
accepts_out() { cp "$tmp/out" "$tmp/m" && accepts sha256sum "$tmp/root/to"; }
run rftp hash -r "$url/to"
check "hash -r: every file" test "$(wc -l <"$tmp/out")" = $((files + 1))
sed 's,  /to/,  ,' "$tmp/out" >"$tmp/m"
check "hash -r: sha256sum accepts it" accepts sha256sum "$tmp/root/to"
run rftp hash -r "$url/to/"
check "hash -r of DIR/: paths below it" accepts_out
run rftp hash -r --exclude 'sub/' --exclude 'f*' "$url/to"
check "hash -r --exclude" test "$(wc -l <"$tmp/out")" = 4

# ---- a lost connection ----
if has_faults; then
	mkdir "$tmp/big"
	random "$tmp/big/file" 60000000
	for i in 1 2 3; do echo $i >"$tmp/big/$i"; done
	lost() { # OPTION...: the first attempt loses its data channels
		rm -rf "$tmp/root/lost" "$tmp/m10"
		run env RFTP_FAULT=cut:after=20M:count=2 rftp put -q -r --channels 2 --transport tcp \
			--manifest "$tmp/m10" "$@" "$tmp/big/" "$url/lost"
	}
	lost
	check "a lost connection: exit status" status_is 0
	check "a lost connection: the list is complete" test "$(wc -l <"$tmp/m10")" = 4
	lost --skip-same
	check "a lost connection, --skip-same: exit status" status_is 1
	check "a lost connection, --skip-same: what may be missing" grep -q 'may lack files: a connection was lost' "$tmp/err"
fi

# ---- bad input ----
run rftp put -q -r --manifest "$tmp/none/m" "$tmp/src/" "$url/x"
check "a manifest in no directory: exit status" status_is 1
check "a manifest in no directory: nothing is copied" test ! -e "$tmp/root/x"
mkfifo "$tmp/pipe"
run rftp put -q -r --manifest "$tmp/pipe" "$tmp/src/" "$url/x"
check "a manifest does not replace a pipe" test -p "$tmp/pipe"
run rftp put -q -r --manifest "$tmp/m9" --alg none "$tmp/src/" "$url/x"
check "a digest that does not exist: exit status" status_is 2
check "a digest that does not exist" grep -q 'no such digest' "$tmp/err"
run rftp put -q -r --manifest "$tmp/m9" --dry-run "$tmp/src/" "$url/x"
check "a dry run has none: exit status" status_is 2
check "a dry run has none" grep -q -e '--dry-run copies nothing' "$tmp/err"

cp "$tmp/m.jsonl" "$tmp/old"
run rftp put -q -r --manifest "$tmp/old" "$tmp/src/" rftp://127.0.0.1:1/x
check "a transfer that does not begin keeps the old list" cmp "$tmp/old" "$tmp/m.jsonl"
run rftp put -q -r --manifest "$tmp/src/list" "$tmp/src/" "$url/self"
check "a list inside the source does not list itself" test "$(grep -c 'rftp-\|list' "$tmp/src/list")" = 0
run rftp get -q -r --manifest "$tmp/m9" "$url/to" null:
check "null: has none" fails_with 2 'null: keeps no files'
run rftp put -q -r --json --manifest - "$tmp/src/" "$url/x"
check "--json and a list on standard output" fails_with 2 'standard output is used'
head -c 32 /dev/zero | tr '\0' 0 >"$tmp/wrong"
printf '%s  f1\n' "$(head -c 40 /dev/zero | tr '\0' 0)" >"$tmp/wrong"
run rftp verify --alg MD5 "$tmp/wrong" "$tmp/src"
check "a digest of another length" fails_with 2 'wrong:1: not a line'
if is_root; then
	mkdir -m 0 "$tmp/src/closed"
	chmod a+rx "$tmp" "$tmp/src"
	HOME=$tmp run setpriv --reuid nobody --clear-groups rftp verify "$tmp/m" "$tmp/src"
	check "a directory that cannot be read: exit status" status_is 1
	check "a directory that cannot be read: said" grep -q 'closed: Permission denied' "$tmp/err"
fi

finish
