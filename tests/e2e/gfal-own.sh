#!/bin/bash
# shellcheck disable=SC2034,SC2154 # of and for lib.sh
# gfal2's own functional tests, with rftp:// URLs. GFAL2_SOURCE is a source tree of gfal2, of the
# version that is installed. TAP.
#
# Left out: tests of other protocols (tape, tokens, SRM), of attributes that are set, and of the total
# and used space of a storage, which AVBL does not tell.

. "${top_srcdir:?}/tests/e2e/lib.sh"
[ -n "${GFAL2_SOURCE:-}" ] || skip_all "GFAL2_SOURCE names no source tree of gfal2"
need g++ pkg-config
pkg-config --exists gfal2 gfal_transfer json-c && [ -e /usr/include/gtest/gtest.h ] ||
	skip_all "without libgfal2-dev, libjson-c-dev, libgtest-dev"
plugin=${top_builddir:?}/libgfal_plugin_rftp.so
[ -e "$plugin" ] || skip_all "without the plugin (configure --with-gfal2)"
sanitized && skip_all "gfal2 is not built with the sanitizer"
source=$(realpath "$GFAL2_SOURCE")
cd "$tmp" || exit 1

# ---- build ----

read -ra flags < <(pkg-config --cflags gfal2 gfal_transfer glib-2.0 json-c)
read -ra libs < <(pkg-config --libs gfal2 gfal_transfer glib-2.0 json-c)
flags+=(-w "-I$source/src" "-I$source/test" "-I$source/src/posix" "-I$source/src/utils" "-I$source/src/core")
# Their list of the protocols with copies between servers does not have this one.
sed 's/^    \/\/ If SRM involved, let.*/    if (!g_strcmp0(uri1->scheme, "rftp") \&\& !g_strcmp0(uri2->scheme, "rftp")) { expect = 1; goto done_expect; }\n&/' \
	"$source/test/common/gfal_lib_test.c" >lib_test.c
limit=120 run gcc "${flags[@]}" "-I$source/test/common" -c lib_test.c -o lib_test.o
check "their library" status_is 0
limit=120 run g++ -std=c++14 "${flags[@]}" -c "$source/test/common/gfal_gtest_asserts.cpp" -o asserts.o
check "their assertions" status_is 0
own() { # NAME ARGUMENT...
	if [ ! -x "$1" ]; then
		limit=200 run g++ -std=c++14 "${flags[@]}" "$source/test/functional/$1.cpp" lib_test.o \
			asserts.o "${libs[@]}" -lgtest -lpthread -o "$1"
	fi
	limit=200 run "./$1" "${@:2}"
	[ "$status" -eq 0 ] && grep -q '^\[  PASSED  \]\|canceled normally' out || { comment <out; return 1; }
}

# ---- run ----

mkdir plugins conf one two local
ln -s "$(pkg-config --variable=libdir gfal2)/gfal2-plugins/libgfal_plugin_file.so" "$plugin" plugins/
printf '[RFTP PLUGIN]\nKNOWN_HOSTS=%s/known\nACCEPT_NEW=yes\nNETRC=/dev/null\n' "$tmp" >conf/rftp_plugin.conf
export GFAL_PLUGIN_DIR=$tmp/plugins GFAL_CONFIG_DIR=$tmp/conf LD_LIBRARY_PATH=$top_builddir
# One test wants a refusal, which root does not get.
chmod 1777 "$tmp"
chmod 777 one
as_server=("${as_other[@]}")
start_server one --root "$tmp/one" --anonymous rw --third-party all
as_server=()
a=$url first=$server
refusals=()
[ ${#as_other[@]} -gt 0 ] || ! is_root || refusals=(--gtest_filter=-RmDirTest.RmDirNestedEACCESS)
start_server two --root "$tmp/two" --anonymous rw --third-party all
b=$url here=file://$tmp/local
for name in del rename access stat mkdir_full readdir_full xattr; do
	check "$name" own "gfal_test_$name" "$a"
done
check "rmdir_full" own gfal_test_rmdir_full "$a" "${refusals[@]}"
check "chmod" own gfal_test_chmod "$a" 0565 060 360 767
for size in 1 4578 100000; do check "read and write $size" own gfal_test_rw_full "$a" "$size"; done
check "read in order" own gfal_test_rw_seq "$a" 100 4560
check "seek" own gfal_test_rw_seek "$a" 100 4560
for alg in MD5 ADLER32; do check "$alg" own gfal_test_checksum "$a" "$alg"; done
check "POSIX" own gfal_test_posix "$a" --gtest_filter=-PosixTest.Xattr
check "space" own gfal_test_space "$a" --gtest_filter=-SpaceTest.SpaceInfo
for ends in "$here $a" "$a $here" "$a $b"; do
	read -r from to <<<"$ends"
	for name in '' _mkdir _replace _checksum _checksum_user; do
		check "copy$name $from $to" own "gfalt_test_copy_file$name" "$from" "$to"
	done
	check "copy_bulk $from $to" own gfalt_test_copy_bulk "$from" "$to"
done
# They cancel after 30 s.
random large 60000000
cp large one/
echo RATE=1M >>conf/rftp_plugin.conf
for ends in "file://$tmp/large $a/c" "$a/large $here/c" "$a/large $b/c"; do
	read -r from to <<<"$ends"
	check "cancel $from $to" own gfalt_test_copy_file_cancel "$from" "$to"
done
check "the server ends well" stops_well
server=$first
check "the server ends well" stops_well
finish
