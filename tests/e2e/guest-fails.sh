#!/bin/bash
# tests/vm/run, when there is no guest to be had or it is ended: it says so and leaves nothing. With
# a machine that only waits in QEMU's place. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
skip_with_sanitizers
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

# The arguments of QEMU.
run "${guest[@]}" --nodes 2 --cpus 3 "$tmp/bin/script"
check "three processors are not shared out evenly" test "$status" -eq 2 -a -s "$tmp/err"
run "${guest[@]}" --env NAME "$tmp/bin/script"
check "a variable without a value" test "$status" -eq 2 -a -s "$tmp/err"
run "${guest[@]}" --disk "$tmp/nowhere" "$tmp/bin/script"
check "no such disk" test "$status" -eq 2 -a -s "$tmp/err" -a ! -e "$tmp/nowhere"
run "${guest[@]}" --keep "$tmp/nowhere" "$tmp/bin/script"
check "nor one to keep what is written" test "$status" -eq 2 -a -s "$tmp/err" -a ! -e "$tmp/nowhere"
run "${guest[@]}" --systemd --terminal
check "systemd on a terminal" test "$status" -eq 2 -a -s "$tmp/err"
stand_in qemu-system-x86_64 'printf "%s\n" "$@" >"'"$tmp/machine"'"'
: >"$tmp/e,f"
run "${guest[@]}" --logs "$tmp/a,b" --wire "listen:$tmp/c,d" --disk "$tmp/e,f" "$tmp/bin/script"
check "a directory with a comma" grep -q "path=.*/a,,b,security" "$tmp/machine"
check "a socket with one" grep -q "addr.path=.*/c,,d\$" "$tmp/machine"
check "a disk with one" grep -q "file=.*/e,,f\$" "$tmp/machine"
rm "$tmp/machine"

# QEMU's own death: once more, but not when the guest may have done something.
# shellcheck disable=SC2016 # expanded in there
died=('[[ $* =~ id=vm,path=([^ ]*),security ]] && shared=${BASH_REMATCH[1]}'
	'echo >>"'"$tmp/machine"'"' 'kill -SEGV $$')
starts() { wc -l <"$tmp/machine"; }
stand_in qemu-system-x86_64 "${died[@]::2}" '[ "$(wc -l <"'"$tmp/machine"'")" = 2 ] || kill -SEGV $$' \
	'echo 5 >"$shared/status"'
run "${guest[@]}" "$tmp/bin/script"
check "a machine that crashes is started again" test "$status/$(starts)" = 5/2
check "which is said" grep -q 'QEMU crashed' "$tmp/err"
rm "$tmp/machine"
# One that stands still, and then does not.
stand_in qemu-system-x86_64 "${died[@]::2}" '[ "$(wc -l <"'"$tmp/machine"'")" = 2 ] || exec sleep 60' \
	'echo 6 >"$shared/status"'
run env VM_BOOT_SECONDS=2 "${guest[@]}" "$tmp/bin/script"
check "a machine that hangs is started again, too" test "$status/$(starts)" = 6/2
check "which is said" grep -q 'QEMU hung' "$tmp/err"
rm "$tmp/machine"
stand_in qemu-system-x86_64 "${died[@]}"
run "${guest[@]}" "$tmp/bin/script"
check "but once" test "$status/$(starts)" = 125/2
rm "$tmp/machine"
stand_in qemu-system-x86_64 "${died[0]}" ': >"$shared/begun"' "${died[@]:1}"
run "${guest[@]}" "$tmp/bin/script"
check "and not when the guest had begun" test "$status/$(starts)" = 125/1
rm "$tmp/machine"

# A machine that takes its time to end, and writes into the directory that it shares with run.
# shellcheck disable=SC2016 # expanded in there
stand_in qemu-system-x86_64 '[[ $* =~ id=vm,path=([^ ]*),security ]] && shared=${BASH_REMATCH[1]}' \
	'trap "sleep 1; : >\"$shared/last\"; exit 1" TERM' \
	'echo $$ >"'"$tmp/machine"'"' 'while :; do sleep 0.1; done'
"${guest[@]}" "$tmp/bin/script" >"$tmp/out" 2>"$tmp/err" &
runner=$!
check "a guest is there" patience 20 test -s "$tmp/machine"
kill -TERM $runner
wait $runner
status=$?
check "it can be ended" status_is 143
check "and is gone then" gone "$(cat "$tmp/machine")"
check "with all that was made for it" test -z "$(ls -A "$tmp/temp")"

finish
