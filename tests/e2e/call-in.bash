# shellcheck shell=bash
# shellcheck disable=SC2034 # why is for who sources it, after lib.sh
# System calls in processes of rftpd, as code makes them that an attacker runs there.

# Can there be any? If not, $why.
can_call() {
	why=
	if ! rftpd --version | grep -q '+seccomp'; then
		why="built without libseccomp"
	elif sanitized; then
		why="sanitizers make more calls"
	elif [ "$(uname -m)" != x86_64 ]; then
		why="another processor"
	fi
	[ -z "$why" ]
}
# call_in PID NUMBER ARGUMENT...: prints the call's result, nothing when it ends the process
call_in() { timeout 60 python3 "$lib/call-in.py" "$@"; }
