# shellcheck shell=bash
# A control group of our own with a limit of memory. Sourced by tests, after lib.sh.

# memory_group BYTES: a new one below ours with this limit, $group; of whichever version has memory.
# It must be empty when the test ends. 1: there can be none.
memory_group() {
	local at file
	if at=$(sed -n 's/^[0-9]*:\([^:]*,\)\?memory\(,[^:]*\)\?://p' /proc/self/cgroup) && [ -n "$at" ]; then
		group=/sys/fs/cgroup/memory$at/rftp-test-$$ file=memory.limit_in_bytes
	else
		group=/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)/rftp-test-$$ file=memory.max
	fi
	trap leave_memory_group EXIT
	mkdir "$group" 2>/dev/null && echo "$1" 2>/dev/null >"$group/$file"
}
leave_memory_group() {
	# The test's cleanup ends the processes in it.
	cleanup
	rmdir "$group" 2>/dev/null
}
