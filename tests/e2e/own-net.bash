# shellcheck shell=bash
# Sourced before lib.sh: the script runs once more, in a network namespace of its own, or is
# skipped.

if [ -z "${RFTP_OWN_NET:-}" ]; then
	if [ "$(id -u)" -ne 0 ] || ! command -v ip >/dev/null || ! unshare -n true 2>/dev/null; then
		echo "1..0 # SKIP needs root, ip and network namespaces"
		exit 0
	fi
	RFTP_OWN_NET=1 exec unshare -n "$BASH" "$0"
fi
ip link set lo up
