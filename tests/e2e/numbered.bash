# shellcheck shell=bash
# Behind lib.sh: tests that a script in Python says.

# numbered SCRIPT ARGUMENT...: its lines "ok NAME" and "not ok NAME" become tests of ours
numbered() {
	local line
	limit=$((400 + ${RFTP_SWAP_SECONDS:-0})) run python3 "$@"
	while read -r line; do
		case $line in
		"ok "*) check "${line#ok }" true ;;
		"not ok "*) check "${line#not ok }" false ;;
		*) echo "# ${line#\# }" ;;
		esac
	done <"$tmp/out"
	check "${1##*/} came to its end" status_is 0
}
