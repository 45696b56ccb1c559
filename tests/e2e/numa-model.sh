#!/bin/bash
# rftp-numa model: the cost of copies on this machine, and the use of another machine's model. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
skip_with_sanitizers
need python3
unset RFTP_NUMA_MODEL RFTP_SYSFS

model() { run rftp-numa model "$@"; }
# is EXPRESSION: of Python, over the JSON m that it printed
is() {
	python3 -c 'import json, sys
m = json.load(open(sys.argv[1]))
sys.exit(not eval(sys.argv[2]))' "$tmp/out" "$1"
}
# fails N TEXT: with this status and one line that has the text
fails() { status_is "$1" && [ "$(grep -c . "$tmp/err")" -eq 1 ] && grep -q -e "$2" "$tmp/err"; }
has() { grep -q -e "$1" "$tmp/out"; }
nodes=$(rftp-numa topo | grep -c ^node)
quick=(--size 4M --copies 2 --rounds 5)

# ---- this machine ----

model "${quick[@]}"
check "measured" status_is 0
check "a table with bandwidths and spreads" has '^    0  *[0-9.]*  *[0-9.]*-[0-9.]*  *1 '
if [ "$nodes" -eq 1 ]; then
	check "one node has nothing to be compared with" has 'has one node'
	check "and no classes" has 'write classes: none: there is no other node'
fi
check "not a word besides" test ! -s "$tmp/err"
model "${quick[@]}" --threads 1 --save "$tmp/kept.json" --json
check "measured and kept" status_is 0
check "for programs" is 'm["rftp_numa_model"] == 1 and all(t["threads"] == 1 and t["copies"] == 2
	and t["buffer"] == 4 << 20 for t in m["targets"])'
check "the file is the same" same "$tmp/out" "$tmp/kept.json"
check "each cell" is 'all(0 < c["low"] <= c["median"] <= c["high"] and c["rounds"] == 5
	for t in m["targets"] for c in t["write"] + t["read"])'
model --from "$tmp/kept.json" --json
check "read again" same "$tmp/out" "$tmp/kept.json"
check "nothing half-written" test "$(find "$tmp" -maxdepth 1 -name 'kept.json*' | wc -l)" -eq 1
RFTP_NUMA_MODEL=$tmp/state/rftp/model.json model "${quick[@]}" --install
check "installed, with its directory" test "$status" -eq 0 -a -s "$tmp/state/rftp/model.json"
model "${quick[@]}" --save "$tmp/nowhere/model.json"
check "a place that there is not" fails 1 'cannot be kept as .*nowhere/model.json.*No such file'
mkfifo "$tmp/fifo.png"
for where in "$tmp/fifo.png" "$tmp" "" "$tmp/kept.json/" "$tmp/"; do
	model "${quick[@]}" --save "$where"
	check "not in the place of no file: ${where##*/}" fails 1 'cannot be kept as'
	check "which is said before it is measured" test ! -s "$tmp/out"
done
RFTP_NUMA_MODEL=$tmp/fifo.png model "${quick[@]}" --install
check "nor installed there" fails 1 'cannot be kept as .*fifo.png.*File exists'
model "${quick[@]}" --plot "$tmp/fifo.png"
check "nor drawn" fails 1 'cannot be kept as .*fifo.png.*File exists'
check "what is there stays" test -p "$tmp/fifo.png"
model --target 1000 "${quick[@]}"
check "a node that there is not" fails 1 'no node 1000'
model "${quick[@]}" --predict 0:50,1000:50
check "a prediction for one" fails 1 'no prediction: there is no node 1000'
check "which is said before it is measured" test ! -s "$tmp/out"
model --threads 8000 --size 1M
check "threads that do not fit" fails 1 'fewer --threads'
model --size 1T
check "buffers that do not fit" fails 1 'smaller --size'
model --from "$tmp/none.json"
check "a model that there is not" fails 1 'none.json: No such file'
head -c 200 "$tmp/kept.json" >"$tmp/cut.json"
model --from "$tmp/cut.json"
check "a model that was cut" fails 1 'cut.json: line 1'

# A disk that is full once it has been measured.
run sh -c "(ulimit -f 0; trap '' XFSZ; rftp-numa model ${quick[*]} --save '$tmp/full.json') 2>&1 | cat"
check "a disk that is full" has 'is not saved: .*full.json: cannot be written: File too large'
check "what was measured is shown all the same" has '^    0  *[0-9.]'
check "and nothing of it stays" test "$(find "$tmp" -maxdepth 1 -name 'full.json*' | wc -l)" -eq 0

# A signal ends it, in the middle of copies that would take weeks.
rftp-numa model --size 4M --copies 1000000 --rounds 1000 --save "$tmp/late.json" >"$tmp/out" 2>"$tmp/err" &
pid=$!
others+=("$pid")
# "rftp-numa copy", a child of model.
copying() { measures=$(pgrep -P "$pid") && grep -qx copy "/proc/$measures"/task/*/comm 2>/dev/null; }
check "it copies" patience 10 copying
# The background jobs of scripts ignore SIGINT.
kill -INT "$pid" "$measures"
sleep 0.5
check "an ignored signal stays ignored" copying
kill -TERM "$pid"
check "it ends" patience 10 gone "$pid"
check "and the process that copies" patience 10 gone "$measures"
wait "$pid"
check "by the signal" test $? -eq 143
check "with a word" grep -q 'interrupted; nothing is kept' "$tmp/err"
check "and without a file" test ! -e "$tmp/late.json"

# On a terminal: a line that tells how far it is, and goes away; and Ctrl-C.
TERM=xterm "$lib/on-terminal" "$tmp/t" -- rftp-numa model "${quick[@]}"
check "progress" grep -q 'target 1 of [0-9]*, round 1 of 5' "$tmp/t"
check "that is gone at the end" not grep -q 'target 1 of' "$tmp/t.screen"
TERM=xterm "$lib/on-terminal" "$tmp/t" 'round 0 of' 'send:\x03' -- rftp-numa model --size 4M --copies 1000000 --rounds 1000
status=$?
check "Ctrl-C" test "$status" -ne 0 -a "$status" -ne 124
check "and its word" grep -q 'interrupted; nothing is kept' "$tmp/t.screen"

# ---- a published machine: eight nodes, the device on node 7, RDMA ----

eight=$top_srcdir/tests/unit/sysfs/eight
"$lib/make-sysfs" "$eight" "$tmp/eight"
write='23.2:2 23.2:2 17.0:3 17.1:3 23.3:2 23.3:2 23.3:1 23.3:1'
read='18.036:3 18.036:3 21.998:2 21.998:2 16.1:4 18.036:3 22.0:1 22.0:1'
"$lib/make-model" "$eight" 7 "$write" "$read" >"$tmp/eight.json"
published=(--from "$tmp/eight.json" --sysfs "$tmp/eight")
model "${published[@]}"
check "a model made by hand" status_is 0
check "classes of device writes" has 'write classes: 1: 6-7 (23.30); 2: 0-1,4-5 (23.25); 3: 2-3 (17.05)'
check "classes of device reads" has 'read classes: 1: 6-7 (22.00); 2: 2-3 (22.00); 3: 0-1,5 (18.04); 4: 4 (16.10)'
check "which is all there is to say" not has 'perhaps'
python3 - "$tmp/eight.json" >"$tmp/noisy.json" <<'END'
import json, sys
m = json.load(open(sys.argv[1]))
for cell in m['targets'][0]['read'][:2]:
    cell['low'], cell['high'] = int(2.2e9), int(2.6e9)
for cell in m['targets'][0]['read']:
    cell['class'] = min(cell['class'], 2) + (cell['node'] == 4)
print(json.dumps(m))
END
model --from "$tmp/noisy.json" --sysfs "$tmp/eight"
check "classes of which two may be one" has 'read classes: 1: 6-7 (22.00); 2: 0-3,5 (19.62); 3: 4 (16.10)'
check "which is said" has '^    perhaps more: between nodes 3 and 0 the gap is 18.0 %, .* spread over 14.5 %'
model "${published[@]}" --predict 2:50,0:50 --op read
check "the published prediction" has '^device read on node 7 with 2:50,0:50: 20.017 Gbit/s$'
check "that alone" not has 'device write on'
model "${published[@]}" --predict 2:50,0:50 --json
check "for programs, both ways" is '[(p["op"], round(p["bytes_per_second"] / 125e3))
	for p in m["predictions"]] == [("write", 20150), ("read", 20017)]'
model "${published[@]}" --target 7 --predict 7:100
check "its target" test "$status" -eq 0 -a "$(grep -c 22.000 "$tmp/out")" -eq 1
model "${published[@]}" --target 6
check "a target that was not measured" fails 1 'nothing of node 6'
model "${published[@]}" --predict 9:100
check "a node that was not" fails 1 'node 9 was not measured'
sed 's/"write": /"once": /' "$tmp/eight.json" >"$tmp/reads.json"
model --from "$tmp/reads.json" --sysfs "$tmp/eight" --predict 2:50,0:50
check "of a model of device reads alone those" test "$status" -eq 0 -a "$(grep -c '^device' "$tmp/out")" -eq 1
model --from "$tmp/reads.json" --sysfs "$tmp/eight" --predict 2:50,0:50 --op write
check "and none of the other" fails 1 'no prediction: no device writes were measured'
model --from "$tmp/eight.json"
check "a model of another machine" fails 1 'eight.json: was made on another machine.*measure again'
sed 's/"distances": \[10, 16/"distances": [10, 20/' "$tmp/eight.json" >"$tmp/before.json"
model --from "$tmp/before.json" --sysfs "$tmp/eight"
check "and of this before a change" fails 1 'a distance of node 0 was 20, and is 16'
sed 's/"class": 2/"class": 9/' "$tmp/eight.json" >"$tmp/wrong.json"
model --from "$tmp/wrong.json" --sysfs "$tmp/eight"
check "and one that is wrong" fails 1 'targets\[0\]: write\[0\]: "class"'

# ---- pictures ----

# picture FILE: is there, and shows something: PNG of that size, SVG with boxes and labels
picture() {
	python3 - "$1" <<'END'
import re, struct, sys, xml.dom.minidom, zlib
data = open(sys.argv[1], 'rb').read()
if sys.argv[1].endswith('.svg'):
    xml.dom.minidom.parseString(data)
    text = re.sub(r'<[^>]*>', ' ', data.decode())
    words = ['device write, Gbit/s', 'device read, Gbit/s', 'target 7: medians', '17.0', '16.1']
    sys.exit(not all(word in text for word in words))
assert data[:8] == b'\x89PNG\r\n\x1a\n'
at, body = 8, b''
while at < len(data):
    size, kind = struct.unpack('>I4s', data[at:at + 8])
    if kind == b'IHDR':
        width, height = struct.unpack('>II', data[at + 8:at + 16])
    if kind == b'IDAT':
        body += data[at + 8:at + 8 + size]
    at += size + 12
# Not blank: many different lines of pixels.
pixels = zlib.decompress(body)
lines = {pixels[i:i + len(pixels) // height] for i in range(0, len(pixels), len(pixels) // height)}
sys.exit(not (width >= 1000 and height >= 800 and len(lines) > 50))
END
}
if command -v gnuplot >/dev/null; then
	for name in "model.png" "odd ' name; touch hacked; \"\`.SVG" "|cat.svg"; do
		(cd "$tmp" && model "${published[@]}" --plot "$name")
		file=${name##*.}
		file=$tmp/picture.${file,,}
		rm -f "$file"
		cp "$tmp/$name" "$file" 2>/dev/null
		check "a picture: $name" picture "$file"
	done
	# red FILE: of the worst colour
	red() { grep -qiE 'rgb\( *224, *96, *96\)|#e06060' "$1"; }
	model "${published[@]}" --plot "$tmp/worst.svg"
	check "the slowest of them is red" red "$tmp/worst.svg"
	"$lib/make-model" "$eight" 7 "${write//17./23.}" "${write//17./23.}" >"$tmp/alike.json"
	model --from "$tmp/alike.json" --sysfs "$tmp/eight" --plot "$tmp/alike.svg"
	check "nodes that are alike, drawn" test "$status" -eq 0 -a -s "$tmp/alike.svg"
	check "are all of like colour" not red "$tmp/alike.svg"
	check "a name is no command" test ! -e "$tmp/hacked"
	model "${quick[@]}" --plot "$tmp/here.png"
	check "one of what was measured" test "$status" -eq 0 -a -s "$tmp/here.png"
	model "${published[@]}" --plot "$tmp/nowhere/x.png"
	check "where it cannot be" fails 1 'nowhere/x.png: No such file'
	check "which is said first" test ! -s "$tmp/out"
else
	skip "pictures" "gnuplot is missing"
fi
mkdir "$tmp/bin"
for program in env setsid timeout; do
	ln -s "$(command -v "$program")" "$tmp/bin"
done
ln -s "$(command -v rftp-numa)" "$tmp/bin"
run env PATH="$tmp/bin" rftp-numa model "${published[@]}" --plot "$tmp/none.svg"
check "without gnuplot" fails 1 'install the package gnuplot'
run env PATH="$tmp/bin" rftp-numa model "${quick[@]}" --plot "$tmp/none.svg"
check "which is said before it is measured" test "$status" -eq 1 -a ! -s "$tmp/out"
printf '#!/bin/sh\nprintf "\\n   ^\\nline 1: no such terminal\\n" >&2\nexit 3\n' >"$tmp/bin/gnuplot"
chmod +x "$tmp/bin/gnuplot"
ln -s /bin/sh "$tmp/bin/sh"
run env PATH="$tmp/bin" rftp-numa model "${published[@]}" --plot "$tmp/none.svg"
check "a gnuplot that cannot" fails 1 'status 3: line 1: no such terminal'
check "no picture, then" test ! -e "$tmp/none.svg"
printf '#!/bin/sh\nexit 0\n' >"$tmp/bin/gnuplot"
run env PATH="$tmp/bin" rftp-numa model "${published[@]}" --plot "$tmp/none.svg"
check "one that prints nothing" fails 1 'made no picture'
printf '#!/bin/sh\nkill -TERM $PPID\nexec sleep 60\n' >"$tmp/bin/gnuplot"
ln -s "$(command -v sleep)" "$tmp/bin/sleep"
run env PATH="$tmp/bin" rftp-numa model "${published[@]}" --plot "$tmp/none.svg"
check "a signal ends it, and gnuplot" test "$status" -eq 143 -a ! -e "$tmp/none.svg"

# ---- misused ----

for wrong in "more" "--target" "--target x" "--target -1" "--rounds 4" "--size 1K" "--size 2T" "--copies 0" \
	"--threads 0" "--plot x.gif" "--plot .png" "--predict 0:50" "--predict 0:100 --op sideways" \
	"--op read" "--sysfs /sys" "--from x --rounds 5" "--from x --save y" "--from x --install" \
	"--save x --install"; do
	# shellcheck disable=SC2086 # words
	model $wrong
	check "misused: $wrong" test "$status" -eq 2 -a "$(wc -l <"$tmp/err")" -eq 1 -a ! -s "$tmp/out"
done
model --help
check "help" test "$status" -eq 0 -a "$(grep -c -e '--predict LIST' "$tmp/out")" -eq 1
run sh -c "rftp-numa model --from '$tmp/kept.json' >/dev/full"
check "output that cannot be written" fails 1 'No space'
finish
