#!/bin/bash
# shellcheck disable=SC2154 # of lib.sh
# librftp.so, used by a program: names, files, streams, copies, cancellation, errors; and what the
# library exports and refers to. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
. "$lib/certs.bash"
need openssl pgrep
lib_dir=${top_builddir:?}
program=$lib_dir/tests/support/api-test
[ -x "$program" ] || skip_all "without tests/support/api-test"
cd "$tmp" || exit 1

random big 20000000
echo hello >small
"$lib/make-tree" tree deep empty modes times links hardlinks sparse || skip_all "no tree"
mkdir one two ro
cp small ro/file
api() { # SCENARIO URL...: tells what is wrong
	run "$program" "$@"
	[ "$status" -eq 0 ] || { comment <out; comment <err; return 1; }
	[ ! -s err ] || { comment <err; return 1; }
}

# ---- what the library is ----

exported() { nm -D --defined-only "$lib_dir/librftp.so" | awk '$2 != "A" { print $3 }' | sort; }
listed() { sed -n 's/^\t\(rftp_[a-z_]*\);$/\1@@LIBRFTP_1.0/p' "$top_srcdir/src/api/librftp.map" | sort; }
declared() { grep -v ^typedef "$top_srcdir/src/api/rftp.h" | grep -o '^[a-z].*rftp_[a-z_]*(' | grep -o 'rftp_[a-z_]*($' | tr -d '(' | sort -u | sed 's/$/@@LIBRFTP_1.0/'; }
documented() { sed -n 's/^\.Fn \(rftp_[a-z_]*\) .*/\1@@LIBRFTP_1.0/p' "$top_srcdir/man/librftp.3" | sort -u; }
refers_to() { nm -D --undefined-only "$lib_dir/librftp.so" | awk '{ sub(/@.*/, "", $2); print $2 }'; }
agree() { diff <("$1") <("$2") | comment; return "${PIPESTATUS[0]}"; }
# No exit, handlers, umask, working directory, environment; no stream of the process. The functions
# signal, _exit and execvp are for ssh: a child calls them between fork and exec.
refers_to_nothing_global() {
	! refers_to | grep -Ex 'exit|quick_exit|sigaction|umask|f?chdir|setenv|putenv|setlocale|stdout|stderr|_?_?(printf|vprintf)(_chk)?|puts|fputs|putchar|fprintf|perror|openlog|json_set_alloc_funcs|daemon|atexit|pthread_cancel' | comment | grep .
}
if command -v nm >/dev/null; then
	check "it exports what the map lists, with versions" agree exported listed
	check "and the header declares" agree exported declared
	if ! sanitized; then
		check "it does not refer to functions that change or end the process" refers_to_nothing_global
	fi
fi
check "the manual has all functions" agree exported documented
check "a C++ compiler accepts the header" eval \
	'! command -v g++ >/dev/null || echo "#include <rftp.h>" | g++ -x c++ -Wall -Werror -fsyntax-only -I "$top_srcdir/src/api" -'

# ---- one server ----

hash=$(echo secret-of-alice | rftpd --hash-password)
printf 'alice:%s:%s/one:/:rw\n' "$hash" "$tmp" >users
chmod 600 users
{ make_ca ca && make_ca other && make_cert alice /CN=alice ca && make_cert strange /CN=alice other; } ||
	skip_all "openssl makes no certificates"
echo 'subject "CN=alice" alice' >map
chmod 600 map
start_server main --root "$tmp/one" --anonymous rw --users "$tmp/users" --certificates "$tmp/map" \
	--ca "$tmp/ca.pem"
mkdir one/names
ln -s 'a b%20c' one/names/link
ln -s loop one/names/loop
check "names" api names "$url/names"
check "files and trees" api files "$url/"
check "a tree there and back" same_trees tree tree-back
check "streams and ranges" api streams "$url/"
check "the bytes of a pipe" eval '[ "$(stat -c %s one/stream)" = 1000000 ]'
check "three transfers at once" api at-once "$url/"
check "cancelled, and out of time" api cancel "$url/"
check "logins and keys" api logins "$url/"
check "logins by certificate" api certificate "$url/"
# The program's umask is 027.
check "modes follow the umask where they are not kept" test "$(stat -c %a p/q)" = 750
check "and are exact where they are" test "$(stat -c %a p/q/big)" = 644
check "no part is left behind" no_parts one
check "the server ends well" stops_well

start_server ro --root "$tmp/ro" --anonymous ro
check "refused" api rights "$url/"
check "the server ends well" stops_well

# ---- two servers ----

start_server one --root "$tmp/one" --anonymous rw --third-party all
a=$url first=$server
start_server two --root "$tmp/two" --anonymous rw --third-party all
check "from server to server" api copy "$a/" "$url/"
check "the same tree" same_trees tree tree-third
check "the server ends well" stops_well
check "a server that dies" api loss "$a/" "$first"

# ---- the example ----

if command -v cc >/dev/null && ! sanitized; then
	start_server example --root "$tmp/one" --anonymous rw
	check "the example compiles" run cc -std=c11 -D_POSIX_C_SOURCE=200809L -Wall -Wextra -Werror \
		-I "$top_srcdir/src/api" -o example "$top_srcdir/docs/librftp-example.c" \
		-L "$lib_dir" -lrftp -lpthread
	export RFTP_EXAMPLE_ACCEPT_NEW=yes LD_LIBRARY_PATH=$lib_dir HOME=$tmp
	check "it puts a file" run ./example put big "$url/example"
	check "and prints its digest" grep -q "20000000 bytes, SHA-256 $(sha256sum <big | cut -d' ' -f1)" out
	run ./example get "$url/example" example-back
	check "it gets a file" same big example-back
	run ./example get "$url/nope" nope
	check "it tells what is wrong" grep -q '^not copied: .*/nope: No such file or directory$' err
	unset LD_LIBRARY_PATH
	check "the server ends well" stops_well
fi
finish
