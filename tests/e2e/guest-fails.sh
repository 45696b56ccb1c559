#!/bin/bash
# tests/vm/run, when there is no guest to be had or it is ended: it says so and leaves nothing. With
# a machine that only waits in QEMU's place. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
PATH=$PATH:/usr/sbin:/sbin
compgen -G '/boot/vmlinuz-*-amd64' >/dev/null && [ -x /bin/busybox ] &&
	modprobe=$(command -v modprobe) && command -v cpio >/dev/null || skip_all "no guests here"

mkdir "$tmp/bin" "$tmp/temp"
# stand_in NAME LINE...: the program of that name
stand_in() {
	printf '%s\n' '#!/bin/bash' "${@:2}" >"$tmp/bin/$1"
	chmod +x "$tmp/bin/$1"
}
guest=(env PATH="$tmp/bin:$PATH" XDG_CACHE_HOME="$tmp/cache" TMPDIR="$tmp/temp"
	"$top_srcdir/tests/vm/run")
stand_in qemu-system-x86_64 'exec sleep 20'
stand_in script 'exit 0'

stand_in modprobe "case \"\$*\" in *overlay*) exit 1 ;; esac" "exec $modprobe \"\$@\""
run "${guest[@]}" --timeout 2 "$tmp/bin/script"
[ "$status" -ne 77 ] || skip_all "no modules for any kernel in /boot"
check "a module is missing" status_is 2
check "which is said" grep -q 'cannot make the initramfs' "$tmp/err"
check "no half of an initramfs is kept" test -z "$(find "$tmp/cache" -type f)"
check "nor anything else" test -z "$(ls -A "$tmp/temp")"
rm "$tmp/bin/modprobe"

finish
