# shellcheck shell=bash
# Sourced before lib.sh: the script runs once more, in a mount namespace of its own, where own_etc
# gives it an /etc that it may change; or is skipped.

if [ -z "${RFTP_OWN_ETC:-}" ]; then
	if [ "$(id -u)" -ne 0 ] || ! unshare -m --propagation private true 2>/dev/null; then
		echo "1..0 # SKIP needs root and mount namespaces"
		exit 0
	fi
	RFTP_OWN_ETC=1 exec unshare -m --propagation private "$BASH" "$0"
fi

# own_etc: a copy of /etc is /etc, for this script and its children. After lib.sh.
own_etc() {
	cp -a /etc "$tmp/etc" && mount --bind "$tmp/etc" /etc && mounts+=(/etc)
}

# add_user NAME UID HASH [SHELL [LASTCHANGE [EXPIRES]]]: of the system, with a group of its own;
# days as in shadow(5)
add_user() {
	local home=$tmp/homes/$1
	mkdir -p "$home"
	chown "$2:$2" "$home"
	chmod 700 "$home"
	echo "$1:x:$2:$2::$home:${4:-/bin/sh}" >>/etc/passwd
	echo "$1:x:$2:" >>/etc/group
	echo "$1:$3:${5:-19000}:0:99999:7::${6:-}:" >>/etc/shadow
}
