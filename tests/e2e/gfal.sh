#!/bin/bash
# shellcheck disable=SC2154 # of lib.sh
# gfal2's programs and its Python binding, with the plugin for rftp:// URLs. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
. "$lib/certs.bash"
need openssl
plugin=${top_builddir:?}/libgfal_plugin_rftp.so
[ -e "$plugin" ] || skip_all "without the plugin (configure --with-gfal2)"
sanitized && skip_all "gfal2's programs are not built with the sanitizer"
need gfal-ls gfal-copy gfal-sum
/usr/bin/python3 -c "import gfal2, gfal2_util" 2>/dev/null || skip_all "without python3-gfal2"
dir=$(pkg-config --variable=libdir gfal2)/gfal2-plugins
[ -e "$dir/libgfal_plugin_file.so" ] || skip_all "without gfal2's plugin for files"
cd "$tmp" || exit 1

# No other plugins, and no other settings.
mkdir plugins conf one two
ln -s "$dir/libgfal_plugin_file.so" "$plugin" plugins/
cat >conf/rftp_plugin.conf <<-END
	[RFTP PLUGIN]
	KNOWN_HOSTS=$tmp/known
	ACCEPT_NEW=yes
	NETRC=/dev/null
END
export GFAL_PYTHONBIN=/usr/bin/python3
export GFAL_PLUGIN_DIR=$tmp/plugins GFAL_CONFIG_DIR=$tmp/conf LD_LIBRARY_PATH=$top_builddir
gfal() { # COMMAND ARGUMENT...
	local command=$1
	shift
	run "gfal-$command" "$@"
	[ "$status" -eq 0 ] || { comment <out; comment <err; return 1; }
}
prints() { gfal "${@:2}" && grep -q -- "$1" out; }
refused() { # TEXT COMMAND ARGUMENT...
	run "gfal-$2" "${@:3}"
	if [ "$status" -eq 0 ] || ! grep -q -- "$1" err out; then
		comment <err
		return 1
	fi
}
python() {
	run /usr/bin/python3 "$lib/gfal-binding.py" "$@"
	[ "$status" -eq 0 ] || { comment <out; comment <err; return 1; }
}

random big 20000000
base64 big >text
echo hello >small
mkdir -p tree/a/b
cp small tree/a/b/c
cp big tree/big
hash=$(echo secret-of-alice | rftpd --hash-password)
printf 'alice:%s:%s/one:/:rw\n' "$hash" "$tmp" >users
chmod 600 users
{ make_ca ca && make_cert alice /CN=alice ca; } || skip_all "openssl makes no certificates"
echo 'subject "CN=alice" alice' >map
chmod 600 map
start_server one --root "$tmp/one" --anonymous rw --users "$tmp/users" --third-party all \
	--certificates "$tmp/map" --ca "$tmp/ca.pem"
a=$url first=$server
start_server two --root "$tmp/two" --anonymous rw --third-party all
b=$url
file=file://$tmp

# ---- names ----

check "gfal-mkdir" gfal mkdir "$a/d"
check "with parents" gfal mkdir -p "$a/d/e/f"
check "a name that exists" refused 'File exists' mkdir "$a/d"
check "gfal-copy to the server" gfal copy "$file/small" "$a/small"
check "the same file" same small one/small
check "gfal-ls" prints '^small$' ls "$a/"
check "gfal-ls -l" prints ' 6 .*small' ls -l "$a/"
check "gfal-stat" prints 'Size: 6' stat "$a/small"
check "gfal-stat of no file" refused 'No such file' stat "$a/nope"
check "gfal-rename" gfal rename "$a/small" "$a/d/a%20b"
check "the name is decoded" test -e 'one/d/a b'
check "back" gfal rename "$a/d/a%20b" "$a/small"
check "gfal-chmod" gfal chmod 600 "$a/small"
check "the mode" test "$(stat -c %a one/small)" = 600
check "gfal-sum ADLER32" prints ' 084b021f$' sum "$a/small" ADLER32
check "gfal-sum MD5" prints ' b1946ac92492d2347c6235b4d2611184$' sum "$a/small" MD5
check "gfal-sum CRC32C" prints ' 353dd8be$' sum "$a/small" CRC32C
check "gfal-sum SHA256" prints " $(sha256sum <small | cut -d' ' -f1)$" sum "$a/small" SHA256
check "gfal-cat" prints '^hello$' cat "$a/small"
check "gfal-xattr" prints unusedsize xattr "$a/" spacetoken
check "gfal-save" eval 'gfal-save "$a/saved" <small && same small one/saved'
check "gfal-rm" gfal rm "$a/saved"
check "gfal-rm of no file" refused MISSING rm "$a/saved"
check "gfal-rm -r" gfal rm -r "$a/d"
check "nothing is left" test ! -e one/d

# ---- copies ----

check "with digests" gfal copy --checksum ADLER32 --checksum-mode both "$file/big" "$a/big"
check "it is the same" same big one/big
check "a file that exists" refused 'exists' copy "$file/big" "$a/big"
check "is replaced with -f" gfal copy -f "$file/small" "$a/big"
check "by the other" same small one/big
gfal copy -f "$file/big" "$a/big"
check "from the server" gfal copy --checksum MD5 "$a/big" "$file/back"
check "is the same" same big back
check "no parent" refused 'No such file' copy "$file/small" "$a/p/q/small"
check "with -p" gfal copy -p "$file/small" "$a/p/q/small"
check "from server to server" gfal copy --checksum SHA256 "$a/big" "$b/big"
check "is the same there" same big two/big
check "a tree" gfal copy -r "$file/tree" "$a/tree"
check "is the same there" diff -r tree one/tree
check "a tree back" gfal copy -r "$a/tree" "$file/tree-back"
check "is the same here" diff -r tree tree-back
check "a tree between servers" gfal copy -r "$a/tree" "$b/tree"
check "is the same there" diff -r tree two/tree

# ---- Python ----

mkdir -p one/d/x
check "copy with callbacks" python copy "$file/big" "$a/py/big"
check "the same from server to server" python copy "$a/big" "$b/py/big"
check "and back" python copy "$b/py/big" "$file/py/back"
check "files: write, read, seek" python files "$a/written" "$tmp/text"
check "the same file" same text one/written
random other 20000000
cp big one/replaced
check "a file that is replaced while it is read" \
	python replaced "$a/replaced" one/replaced other
cp small one/kept
run /usr/bin/python3 "$lib/gfal-binding.py" killed "$a/kept" "$a/never"
check "a writer is killed" status_is 137
head -c 4000000 /dev/urandom >four
check "a setting that changes" python settings "$file/four" "$a/four"
check "errors" python errors "$a" rftp://127.0.0.1:1
check "access" python access "$a"
for i in {0..19}; do cp small "one/bulk-$i"; done
check "several files removed at once" python bulk "$a"
check "space" python space "$a/"
# gfal2's default, a proxy, does not replace the certificate of a URL.
make_cert other /CN=nobody ca
(umask 077 && cat other.pem other.key >proxy)
X509_USER_PROXY=$tmp/proxy check "a certificate" python certificate "$a/" alice "$tmp/alice.pem" "$tmp/alice.key"
check "user and password" python password "$a/" alice secret-of-alice
check "no unfinished file" no_parts two
echo "RATE=5M" >>conf/rftp_plugin.conf
mv one/big one/large
for ends in "$file/big $a" "$a/large $file" "$a/large $b"; do
	read -r from to <<<"$ends"
	check "cancelled: $from to $to" python cancel "$from" "$to/cancelled"
	check "out of time: $from to $to" python timeout "$from" "$to/late"
done
check "the servers end well" stops_well
stop_server "$first"
check "a file that was not closed leaves the old one" same small one/kept
check "or none" test ! -e one/never
finish
