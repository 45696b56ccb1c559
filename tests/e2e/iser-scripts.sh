#!/bin/bash
# scripts/iser-target.sh and iser-initiator.sh: their errors, and that they pass on rftp-iser's
# messages. The guest's test, tests/vm/iser-scripts.sh, has their work. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
skip_with_sanitizers
. "$top_srcdir/tests/e2e/iser-looks.bash"
export RFTP_ISER_STATE=$tmp/state
me=iqn.2026-01.org.example:me

target() { run "$top_srcdir/scripts/iser-target.sh" "$@"; }
initiator() { run "$top_srcdir/scripts/iser-initiator.sh" "$@"; }
# fails STATUS TEXT: with one line
fails() { status_is "$1" && [ "$(wc -l <"$tmp/err")" -eq 1 ] && [ ! -s "$tmp/out" ] && grep -qF -e "$2" "$tmp/err"; }

for script in target initiator; do
	$script --help
	check "$script: --help" test "$status" -eq 0 -a ! -s "$tmp/err"
	check "$script: tells its options" grep -q '^  --down ' "$tmp/out"
	check "$script: all of its text" test "$(tail -n 1 "$tmp/out" | grep -c 'wrong arguments\.$')" -eq 1
	$script --nonsense
	check "$script: an unknown option" fails 2 "'--nonsense' is not known"
done
target
check "target: no size" fails 2 "--size: how much"
target --size
check "target: a size without a value" fails 2 "--size needs a value"
target --size 1G
check "target: nobody who may log in" fails 2 "--initiator: name the hosts that may log in"
target --size 1G --initiator $me --force
check "target: --force is for --down" fails 2 "--force goes with --down"
target --down --size 1G
check "target: --down takes no size" fails 2 "--down takes --name and --force alone"
initiator
check "initiator: no address" fails 2 "an address of the storage host, or --plan?"
initiator --mount
check "initiator: a directory is missing" fails 2 "--mount needs a value"
initiator --down --mkfs
check "initiator: --down makes no filesystem" fails 2 "--down takes --mount"
if is_root; then
	target --down --name nowhere
	check "target: rftp-iser is called" status_is 1
	check "target: what it says comes through" grep -q '^rftp-iser: ' "$tmp/err"
	initiator --plan "$tmp/nowhere.json"
	check "initiator: what rftp-iser says comes through" fails 1 "nowhere.json: No such file"
fi

# ---- only its own mounts ----

# In a mount namespace and with a utab of its own
mkdir "$tmp/mnt" "$tmp/mnt/1" "$tmp/mnt/2"
apart() { run unshare -m "$@"; }
is_root || apart() { run unshare -rm "$@"; }
apart mount -t tmpfs none /run
if [ "$status" -eq 0 ]; then
	# shellcheck disable=SC2016 # for the shell in there
	apart bash -c 'mount -t tmpfs none /run && mount -t tmpfs none "$1/1" &&
		mount -t tmpfs -o noatime,x-rftp-iser none "$1/2" || exit 99
		"$2" --down --mount "$1"
		grep -c " $1/[12] " /proc/mounts
		! mountpoint "$1/1"' bash "$tmp/mnt" "$top_srcdir/scripts/iser-initiator.sh"
	check "initiator: what others have mounted stays" test "$status" -eq 1 -a "$(tail -n 2 "$tmp/out" | head -n 1)" = 1
else
	skip "initiator: what others have mounted stays" "no mounts of one's own"
fi

# ---- the names that are there ----

if is_root; then
	without_rtslib # so that nothing can be applied
	like=(--name s --tcp)
	run rftp-iser plan "${like[@]}" --tmpfs 1M --initiator $me --chap generate \
		--secrets "$tmp/etc" --iqn iqn.2020-01.org.example --out "$tmp/s.json"
	if [ "$status" -eq 0 ]; then
		mv "$tmp/s.json" "$tmp/etc"
		target "${like[@]}" --dir "$tmp/etc" --size 1M --initiator $me
		check "target: in another month it is the same plan" test "$status" -eq 1 -a "$(grep -c 'is another plan' "$tmp/err")" -eq 0
		check "target: which is what is to be applied" grep -q "^rftp-iser: rtslib is missing, which changes LIO" "$tmp/err"
		target "${like[@]}" --dir "$tmp/etc" --size 1M --initiator $me --iqn iqn.2020-02.org.example
		check "target: but not by another name" grep -q 's.json is another plan' "$tmp/err"
	else
		skip "target: in another month it is the same plan" "no card to plan for"
	fi
	unset PYTHONPATH
fi

# Found beside it, as where the source was built in place.
mkdir -p "$tmp/tree/scripts"
cp "$top_srcdir"/scripts/iser-*.sh "$top_srcdir/scripts/iser.bash" "$tmp/tree/scripts"
run env PATH=/usr/bin:/bin "$tmp/tree/scripts/iser-target.sh" --down
check "no rftp-iser" fails 1 "there is no rftp-iser"
ln -s "$(command -v rftp-iser)" "$tmp/tree/rftp-iser"
run env PATH=/usr/bin:/bin "$tmp/tree/scripts/iser-target.sh" --down --name nowhere
check "found in the tree" grep -q '^rftp-iser: ' "$tmp/err"
finish
