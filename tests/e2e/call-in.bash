# shellcheck shell=bash
# shellcheck disable=SC2034 # why is for who sources it, after lib.sh
# System calls in processes of rftpd, as one makes them who runs his code there: by a debugger of root's.

# Can there be any? If not, $why.
can_call() {
	why=
	if ! rftpd --version | grep -q '+seccomp'; then
		why="built without libseccomp"
	elif sanitized; then
		why="sanitizers make more calls"
	elif [ "$(uname -m)" != x86_64 ] || ! command -v gdb >/dev/null; then
		why="no gdb here, or another processor"
	fi
	[ -z "$why" ]
}
# call_in PID "NUMBER, ARGUMENT...": what it gives. The debugger does not like it when that is the end
# of the process, and may end by a signal itself.
call_in() {
	{
		timeout 60 gdb -nx -batch -p "$1" -ex 'set confirm off' \
			-ex "print ((long (*)(long, ...))syscall)($2)"
	} </dev/null >"$tmp/gdb.out" 2>&1
	sed -n 's/^\$1 = //p' "$tmp/gdb.out"
}
