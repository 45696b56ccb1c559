#!/bin/bash
# rftp with pyftpdlib: machine listings, TLS or not, by a password. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
. "$lib/foreign.bash"
need openssl diff

# Debian's packages are for Debian's own Python.
python=
for p in python3 /usr/bin/python3; do
	"$p" -c 'import pyftpdlib.handlers, OpenSSL' 2>/dev/null && python=$p && break
done
[ -n "$python" ] || skip_all "pyftpdlib or pyOpenSSL is missing"

foreign_cert
disk=$tmp/disk
mkdir "$disk"
export keeps="times"
printf 'machine 127.0.0.1 login joe password secret\n' >"$HOME/.netrc"
chmod 600 "$HOME/.netrc"

serve() { # OPTION...: sets port and url
	rm -f "$tmp/port"
	"$python" "$lib/foreign-server.py" "$tmp/port" "$disk" "$tmp/cert.pem" "$@" \
		</dev/null >>"$tmp/foreign.log" 2>&1 &
	server=$!
	servers+=("$server")
	patience 20 test -s "$tmp/port"
	port=$(cat "$tmp/port")
	url=ftp://joe@127.0.0.1:$port
}

serve --tls
run rftp ls "$url/"
check "an unknown key is not trusted" fails_with 3 'is not known'
run rftp ls --accept-new "$url/"
check "unless it may be" status_is 0
foreign_all
# Its lists follow links: they are directories there.
mkdir -p "$disk/outside" "$disk/linked/sub"
random "$disk/outside/kept" 1000
ln -s ../outside "$disk/linked/link"
ln -s ../../outside "$disk/linked/sub/link"
run rftp rm -r "$url/linked"
check "rm -r of a tree with links" test "$status" -eq 0 -a ! -e "$disk/linked"
check "leaves what they lead to" test -e "$disk/outside/kept"
mkdir -p "$disk/loop/in"
random "$disk/loop/in/file" 1000
ln -s .. "$disk/loop/in/again"
chmod 750 "$disk/loop"
touch -d '2020-01-02 03:04:05' "$disk/loop/in" "$disk/loop"
get -r "$url/loop" "$tmp/loop"
check "a link that leads in a circle" fails_with 1 'in/again: a link that leads to a directory'
check "is not gone into" test "$(find "$tmp/loop" -name file)" = "$tmp/loop/in/file"
check "the mode of what was named" test "$(mode_of "$tmp/loop")" = 750
check "its time" test "$(time_of "$tmp/loop")" = 1577934245
run rftp hash "$url/one/big"
check "no digests there" fails_with 1 'computes no digests'
run rftp ls --plain "$url/"
check "no password in clear" fails_with 3 'is not sent to .* in clear'
run rftp ls --plain --plain-password "$url/"
check "a server that wants TLS" fails_with 3 '550 |SSL|TLS'

# The certificate's path is relative, and the directory here changes between two connections.
mkdir "$tmp/elsewhere"
cp "$tmp/cert.pem" "$tmp/client.pem"
printf 'ls -1 one\nlcd %s\nls -1 one\nget one/big %s\n' "$tmp/elsewhere" "$tmp/by-cert" >"$tmp/commands"
run env -C "$tmp" rftp --cert client.pem -b "$tmp/commands" "$url"
check "a client's certificate by a relative path, after lcd" status_is 0
check "the file" same "$tmp/tree/big" "$tmp/by-cert"

# Through an HTTP proxy
python3 "$lib/connect-proxy.py" "$tmp/proxy.port" "$tmp/proxy.log" &
others+=("$!")
patience 20 test -s "$tmp/proxy.port"
run env "ftp_proxy=http://127.0.0.1:$(cat "$tmp/proxy.port")" rftp get "$url/one/big" "$tmp/by-proxy"
check "a proxy that tunnels" status_is 0
check "the file" same "$tmp/tree/big" "$tmp/by-proxy"
check "by the proxy, control and data" test "$(grep -c '^CONNECT 127.0.0.1:' "$tmp/proxy.log")" -ge 2

# The key is another one from now on.
cp "$HOME/.config/rftp/known_hosts" "$tmp/known" 2>/dev/null || find "$HOME" -name known_hosts \
	-exec cp {} "$tmp/known" \;
sed -i 's/SHA256:./SHA256:-/' "$tmp/known"
run rftp ls --known-hosts "$tmp/known" "$url/"
check "a key that has changed is refused" status_is 3
run rftp ls --ca "$tmp/crt.pem" "$url/"
check "--ca" status_is 0
stop_server

# A data connection that ends at another key.
mkdir "$tmp/other"
openssl req -x509 -newkey rsa:2048 -nodes -keyout "$tmp/other/key.pem" -out "$tmp/other/crt.pem" \
	-days 30 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1 2>/dev/null
cat "$tmp/other/crt.pem" "$tmp/other/key.pem" >"$tmp/other/cert.pem"
cat "$tmp/crt.pem" "$tmp/other/crt.pem" >"$tmp/both.pem"
serve --tls --data-cert "$tmp/other/cert.pem"
run rftp ls -q --accept-new "$url/one"
check "a data connection with another key is refused" fails_with 3 'another key than the control'
run rftp ls --ca "$tmp/both.pem" "$url/one"
check "by --ca, too" fails_with 3 'another key than the control'
run rftp get -r --ca "$tmp/both.pem" --retries 0 "$url/one" "$tmp/otherkey"
check "and no file is got by it" test "$status" -ne 0 -a -z "$(find "$tmp/otherkey" -type f)"
run rftp stat "$url/one/big"
check "the control connection is right" status_is 0
stop_server

serve --tls --per-ip 2
foreign_limited
stop_server

serve --tls --no-prot
run rftp ls --accept-new -q "$url/"
check "a server that does not protect data" fails_with 3 'does not protect data'
run rftp ls --accept-new --prot clear "$url/one/"
check "unless that is asked for" status_is 0
get --prot clear --json "$url/one/big" "$tmp/clear"
check "files, too" same "$tmp/tree/big" "$tmp/clear"
check "and said" test "$(summary prot)" = clear
stop_server

serve --implicit
url=ftps://joe@127.0.0.1:$port
run rftp ls --accept-new "$url/"
check "ftps://" status_is 0
get "$url/one/big" "$tmp/implicit"
check "a file" same "$tmp/tree/big" "$tmp/implicit"
run rftp ls --plain "$url/"
check "ftps:// and --plain" fails_with 3 'always uses TLS'
run rftp ls --accept-new "ftp://joe@127.0.0.1:$port/"
check "ftp:// at that port" status_is 3
stop_server

serve
run rftp ls "$url/"
check "a server without TLS" fails_with 3 'offers no TLS'
run rftp ls --plain "$url/"
check "--plain sends no password" fails_with 3 'plain-password'
run rftp ls -1 --plain --plain-password "$url/"
check "unless told to" printed one
get --plain --json "ftp://anonymous@127.0.0.1:$port/one/big" "$tmp/plain"
check "anonymous in clear" same "$tmp/tree/big" "$tmp/plain"
check "which is said" test "$(summary prot)" = clear
printf 'machine 127.0.0.1 login joe password wrong\n' >"$HOME/.netrc"
run rftp ls --plain --plain-password "$url/"
check "a wrong password" fails_with 3 'refuses the login of joe'
printf 'machine 127.0.0.1 login joe password secret\n' >"$HOME/.netrc"

# A server that goes away between two commands, and one in the middle.
cat >"$tmp/commands" <<END
cd one
!kill -KILL $server; while kill -0 $server 2>/dev/null; do sleep 0.1; done
!"$python" "$lib/foreign-server.py" "$tmp/port2" "$disk" "$tmp/cert.pem" --port $port </dev/null >>"$tmp/foreign.log" 2>&1 & until [ -s "$tmp/port2" ]; do sleep 0.1; done; echo \$! >"$tmp/second"
ls -1 sub
END
run rftp --plain --plain-password -b "$tmp/commands" "$url"
check "it is reconnected" status_is 0
check "in the same directory" printed deeper
others+=("$(cat "$tmp/second")")

finish
