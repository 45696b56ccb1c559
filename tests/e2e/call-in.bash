# shellcheck shell=bash
# shellcheck disable=SC2034 # why is the sourcing script uses them, after lib.sh
# System calls in processes of rftpd, as an attacker's code would make them there.

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
