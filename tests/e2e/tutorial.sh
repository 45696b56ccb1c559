#!/bin/bash
# shellcheck disable=SC2034,SC2317 # for lib.sh; check calls them
# The manual's tutorial, typed word for word into two terminals, prints the manual's output; and the
# options, sections and files that the manual names exist. TAP.

# In a network of its own port 7321 is free, and there are no cards.
if [ -z "${TUTORIAL_NET:-}" ]; then
	if [ "$(id -u)" -eq 0 ] && unshare -n true 2>/dev/null; then
		TUTORIAL_NET=own exec unshare -n -- "$BASH" "$0"
	fi
	export TUTORIAL_NET=shared
fi
. "${top_srcdir:?}/tests/e2e/lib.sh"
need tmux python3
rftp --version | grep -q '+edit' || skip_all "built without libedit"

lo_up() {
	python3 -c '
import fcntl, socket, struct
s = socket.socket()
fcntl.ioctl(s, 0x8914, struct.pack("16sH14x", b"lo", 0x49))'
}
port_is_free() {
	python3 -c '
import socket
socket.create_server(("127.0.0.1", 7321))' 2>/dev/null
}
[ "$TUTORIAL_NET" = shared ] || lo_up || skip_all "no network here"
port_is_free || skip_all "port 7321 is taken"

manual=$top_srcdir/docs/manual.md

# ---- the other host, of ssh ----

# The host "dtn" is this host, by an sshd and a configuration of ours.
ssh_dtn() {
	local sshd port
	sshd=$(PATH=$PATH:/usr/sbin:/usr/local/sbin command -v sshd) || return
	command -v ssh ssh-keygen >/dev/null || return
	mkdir -m 700 "$tmp/ssh" "$tmp/bin" "$tmp/dtn"
	ssh-keygen -q -t ed25519 -N '' -f "$tmp/ssh/host" &&
		ssh-keygen -q -t ed25519 -N '' -f "$tmp/ssh/user" || return
	port=$(python3 -c '
import socket
print(socket.create_server(("127.0.0.1", 0)).getsockname()[1])')
	cat >"$tmp/ssh/sshd_config" <<-CONFIG
		Port $port
		ListenAddress 127.0.0.1
		HostKey $tmp/ssh/host
		AuthorizedKeysFile $tmp/ssh/user.pub
		PidFile none
		StrictModes no
		UsePAM no
		PermitRootLogin yes
		PrintMotd no
		SetEnv HOME=$tmp/dtn PATH=$PATH ASAN_OPTIONS=$ASAN_OPTIONS TSAN_OPTIONS=$TSAN_OPTIONS UBSAN_OPTIONS=$UBSAN_OPTIONS
	CONFIG
	cat >"$tmp/ssh/config" <<-CONFIG
		Host dtn
			HostName 127.0.0.1
			Port $port
			User $(id -un)
			IdentityFile $tmp/ssh/user
			IdentitiesOnly yes
			UserKnownHostsFile $tmp/ssh/known
			StrictHostKeyChecking accept-new
			LogLevel ERROR
	CONFIG
	printf '#!/bin/sh\nexec %s -F %s "$@"\n' "$(command -v ssh)" "$tmp/ssh/config" >"$tmp/bin/ssh"
	chmod 755 "$tmp/bin/ssh"
	if is_root; then mkdir -p /run/sshd; fi
	"$sshd" -D -f "$tmp/ssh/sshd_config" -E "$tmp/sshd.log" &
	others+=($!)
	patience 10 "$tmp/bin/ssh" dtn true 2>/dev/null
}
leave_out=()
if ! ssh_dtn; then
	leave_out=("With nothing but ssh")
	skip "with nothing but ssh" "no sshd can be had here"
fi

# The tutorial is for an unprivileged user, with a server of one process.
mkdir -p "$tmp/bin"
printf '#!/bin/sh\nexec %s --one-process "$@"\n' "$(command -v rftpd)" >"$tmp/bin/rftpd"
chmod 755 "$tmp/bin/rftpd"

# ---- the terminals ----

umask 022
user_shell() { # PROMPT
	cat >"$tmp/$1.sh" <<-SHELL
		cd "\$HOME" || exit
		export PATH="$tmp/bin:\$PATH" TERM=screen PS1='$1 ' PS2='> '
		unset HISTFILE PROMPT_COMMAND
		exec bash --noprofile --norc -i
	SHELL
	echo "exec bash '$tmp/$1.sh'"
}
run tmux -S "$tmp/tmux" -f /dev/null new-session -d -x 160 -y 50 "$(user_shell '$')"
status_is 0 || skip_all "tmux does not run here: $(head -n 1 "$tmp/err")"
others+=("$(tmux -S "$tmp/tmux" display-message -p '#{pid}')")
run tmux -S "$tmp/tmux" new-window -d -t :1 "$(user_shell 'server$')"

# ---- the tutorial ----

# typed GUIDE: type it into the terminals; the results of its blocks are in $tmp/typed
typed() {
	ran="the tutorial, typed"
	"$lib/type-guide.py" "$1" "$tmp/tmux" ${leave_out[@]+"${leave_out[@]}"} >"$tmp/typed" 2>"$tmp/err"
	status=$?
	sed -n '/^not ok /,$p' "$tmp/typed" >"$tmp/wrong"
	grep '^ok ' "$tmp/typed" >"$tmp/right"
}
typed "$manual"
while read -r _ name; do
	check "$name" true
done <"$tmp/right"
check "all of it prints what it says" test "$status" -eq 0 || comment <"$tmp/wrong"
check "which are many blocks" test "$(wc -l <"$tmp/right")" -ge 15
check "and leaves nothing in its place" test ! -e "$tmp/home/tour"

# ---- would it have been seen? ----

cat >"$tmp/wrong.md" <<'WRONG'
# Right
```
$ echo one; echo two
one
two
```
# Wrong
```
$ echo one; echo two
one
three
```
WRONG
GUIDE_PATIENCE=2 typed "$tmp/wrong.md"
check "what is not printed" grep -qxF 'not ok Wrong: $ echo one; echo two' "$tmp/wrong"

# like TEXT TEXT: the guide's output fits the real one
like() {
	printf '%b\n' "$1" >"$tmp/expected"
	printf '%b\n' "$2" >"$tmp/seen"
	"$lib/type-guide.py" --like "$tmp/expected" "$tmp/seen"
}
k=$(printf '%043d' 1) l=$(printf '%043d' 2)
check "times and rates are alike" like "1.2 MiB in 0.02 s, 58.9 MiB/s, 1 file" "1.2 MiB in 71.30 s, 8 B/s, 1 file"
check "bytes are not" not like "1.2 MiB in 0.02 s, 58.9 MiB/s, 1 file" "1.3 MiB in 0.02 s, 58.9 MiB/s, 1 file"
check "nor files" not like "1.2 MiB in 0.02 s, 58.9 MiB/s, 1 file" "1.2 MiB in 0.02 s, 58.9 MiB/s, 2 files"
a="d/1 (23.3 KiB), left alone" b="d/2 (1 B)"
check "files of a dry run come in any order" like "$a\\n$b\\n2 files" "$b\\n$a\\n2 files"
check "each of them once" not like "$a\\n$b" "$a\\n$a"
check "other lines in theirs" not like "a\\nb" "b\\na"
check "nor is a line less" not like "a\nb" "a"
check "or more" not like "a" "a\nb"
check "... is any lines" like "a\n...\nb" "a\nc\nd\nb"
check "or none" like "a\n...\nb" "a\nb"
check "but not the one behind them" not like "a\n...\nb" "a\nc"
check "another key" like "SHA256:$k" "SHA256:$l"
check "is the same all over" not like "SHA256:$k\nSHA256:$k" "SHA256:$k\nSHA256:$l"
check "a size in a list" not like "-rw-r--r--  1  2  10 2026-01-15 09:31 a" "-rw-r--r--  1  2  11 2026-01-15 09:31 a"
check "or a mode" not like "-rw-r--r--  1  2  10 2026-01-15 09:31 a" "-rw-------  1  2  10 2026-01-15 09:31 a"
check "an owner may be" like "-rw-r--r--  1  2  10 2026-01-15 09:31 a" "-rw-r--r--  1000  1000  10 2027-01-15 09:31 a"

# ---- names in the whole manual ----

of_manual() { "$lib/read-guide.py" "$manual" "$@"; }
nothing() {
	"$@" >"$tmp/out" && test ! -s "$tmp/out" || { comment <"$tmp/out"; return 1; }
}
mkdir "$tmp/help"
while read -r program; do
	# shellcheck disable=SC2086 # a program, and its command
	$program --help >"$tmp/help/$program"
done < <(of_manual programs)
check "it uses programs" test "$(find "$tmp/help" -size +0 | wc -l)" -ge 6
check "all options are there, and their values" nothing of_manual options "$tmp/help"
check "messages are as they are said" nothing of_manual texts "$top_srcdir/src"
check "manual pages and files are there" nothing of_manual links "$top_srcdir"
sed 's/--skip-same/--skip-sane/; s/--prot private/--prot privat/; s/the login of/a login of/; s/coming-from/going-to/' \
	"$manual" >"$tmp/misspelt.md"
manual=$tmp/misspelt.md
of_manual options "$tmp/help" >"$tmp/wrong"
check "an option that is not there is found" grep -q -e '--skip-sane' "$tmp/wrong"
check "and a value" grep -qx -e 'rftp bench: --prot privat' "$tmp/wrong"
check "and a message" test "$(of_manual texts "$top_srcdir/src")" = "refuses a login of"
check "and a page" grep -qx going-to.md <(of_manual links "$top_srcdir")

# Its configuration and its script are understood.
manual=$top_srcdir/docs/manual.md
of_manual file '~'/.config/rftp/rftp.conf >"$tmp/rftp.conf"
check "its configuration" test "$(wc -l <"$tmp/rftp.conf")" -ge 3
start_server d --root "$tmp/home" --anonymous rw
mkdir -p "$tmp/data/run7/raw" "$tmp/data/run7/results" "$tmp/home/archive"
echo raw >"$tmp/data/run7/raw/a"
of_manual file nightly | sed "s|rftp://alice@dtn.example.org|$url|; s|/data/|$tmp/data/|" >"$tmp/nightly"
run rftp --accept-new --config "$tmp/rftp.conf" -q -b "$tmp/nightly"
check "its script" status_is 0
check "copies" same "$tmp/data/run7/raw/a" "$tmp/home/archive/raw/a"
finish
