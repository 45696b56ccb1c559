#!/bin/bash
# shellcheck disable=SC2034 # faults.bash and lib.sh use them
# Storage that fails, see faults.bash. TAP.

# Files in memory are never synced, so a fault of a sync needs a disk: /tmp is often a tmpfs.
in_memory() { [ "$(stat -f -c %T "${TMPDIR:-/tmp}")" = tmpfs ]; }
! in_memory || export TMPDIR=/var/tmp
# shellcheck source=faults.bash
. "${top_srcdir:?}/tests/e2e/faults.bash"
! in_memory || skip_all "/tmp and /var/tmp are in memory: give TMPDIR a directory on a disk"

for dir in put get; do
	side=sink
	while IFS='|' read -r rule text options; do
		faulty "$dir" "$rule"
		# shellcheck disable=SC2086
		move big $options
		check "$dir, $rule $options" fails_with 1 "big.*$text"
		check "$dir, $rule: the old file is there" same "$tmp/old" "$target"
		completes "$dir, $rule"
		check "$dir, $rule: it is the new one" same "$tmp/big" "$target"
	done <<-'RULES'
		write:ENOSPC:after=20M|No space left|
		write:ENOSPC:after=20M|No space left|--io uring
		write:EIO:after=50M|Input/output|--no-resume
		write:EDQUOT:after=1M|quota|
		rename:EIO|Input/output|
		commit:EIO|Input/output|--ack written
		sync:EIO|Input/output|
		open:EACCES:count=2|Permission|--no-resume
	RULES
	faulty "$dir" "journal:EIO"
	move big
	check "$dir, journal:EIO: only a later run could miss it" status_is 0
	check "$dir, journal:EIO: as it was" same "$tmp/big" "$target"
	faulty "$dir" "short-write:rate=0.5"
	move big
	check "$dir, short writes: whole all the same" status_is 0
	check "$dir, short writes: as it was" same "$tmp/big" "$target"
	for rule in "write:ENOSPC:after=300K:count=3" "rename:EIO:rate=0.3" "sync:EIO:rate=0.2:seed=5" \
		"open:EMFILE:rate=0.1" "mkdir:EROFS"; do
		faulty "$dir" "$rule"
		move tree
		check "$dir of a tree, $rule" status_is 1
		check "$dir of a tree, $rule: what is there is whole" no_short
		completes "$dir of a tree, $rule"
		check "$dir of a tree, $rule: all is there" whole
	done
	side=source
	faulty "$dir" "read:EIO:after=20M"
	move big
	check "$dir, read:EIO" fails_with 1 'big.*Input/output'
	check "$dir, read:EIO: the old file is there" same "$tmp/old" "$target"
	completes "$dir, read:EIO"
	faulty "$dir" "read:EIO:rate=0.2"
	move tree
	check "$dir of a tree, read:EIO" status_is 1
	check "$dir of a tree, read:EIO: what is there is whole" no_short
	completes "$dir of a tree, read:EIO"
	check "$dir of a tree, read:EIO: all is there" whole
	faulty "$dir" "short-read:rate=0.5"
	move big
	check "$dir, short reads: whole all the same" status_is 0
	check "$dir, short reads: as it was" same "$tmp/big" "$target"
done

# ---- fewer descriptors than files ----

# A file that is written keeps its descriptor until it is synced and has its name.
mkdir "$tmp/many" "$tmp/few"
for i in $(seq 3000); do echo "$i" >"$tmp/many/$i"; done
as_server=(prlimit --nofile=128)
start_server few --root "$tmp/few" --anonymous rw
as_server=()
run rftp put -q -r --accept-new "$tmp/many" "$url/to"
check "put of 3,000 files with 128 descriptors" status_is 0
check "all are there" diff -r "$tmp/many" "$tmp/few/to"
run prlimit --nofile=128 rftp get -q -r "$url/to" "$tmp/back"
check "get of 3,000 files with 128 descriptors" status_is 0
check "all are back" diff -r "$tmp/many" "$tmp/back"

faults_end
