#!/bin/sh
# rftpd as an FTP server for other people's clients: curl, Python's ftplib, lftp. TAP.

set -u

if ! command -v curl >/dev/null || ! command -v python3 >/dev/null; then
	echo "1..0 # SKIP curl or python3 is missing"
	exit 0
fi

tmp=$(mktemp -d) || exit 1
server=
stop_server() {
	[ -z "$server" ] || kill "$server" 2>/dev/null
	[ -z "$server" ] || wait "$server"
	server=
}
trap 'stop_server; rm -rf "$tmp"' EXIT
. "${top_srcdir:?}/tests/e2e/reports.sh"

n=0
# ok STATUS DESCRIPTION
ok() {
	n=$((n + 1))
	if [ "$1" -eq 0 ]; then
		echo "ok $n - $2"
	else
		echo "not ok $n - $2"
		sed 's/^/# /' "$tmp/log" "$tmp/out" 2>/dev/null | tail -30
	fi
}
# check DESCRIPTION COMMAND...
check() {
	description=$1
	shift
	"$@"
	ok $? "$description"
}
skip() {
	n=$((n + 1))
	echo "ok $n - $1 # SKIP $2"
}

# start_server OPTION...: sets server and port
start_server() {
	rm -f "$tmp/port"
	rftpd --one-process --listen 127.0.0.1:0 --state "$tmp/state" --root "$tmp/root" \
		--port-file "$tmp/port" -v "$@" 2>>"$tmp/log" &
	server=$!
	tries=0
	while [ ! -s "$tmp/port" ] && [ $tries -lt 100 ] && kill -0 "$server" 2>/dev/null; do
		sleep 0.1
		tries=$((tries + 1))
	done
	port=$(head -n 1 "$tmp/port")
}

ftp() { # CURL-OPTION...
	curl -sS --ssl-reqd -k --max-time 60 "$@" >"$tmp/out" 2>&1
}

mkdir "$tmp/root"
head -c 5000000 /dev/urandom >"$tmp/big"
printf 'one\ntwo\r\nthree' >"$tmp/text"
: >"$tmp/empty"
hash=$(echo 's3cret' | rftpd --hash-password)
printf 'alice:%s::/home:rw\nbob:%s:::ro\n' "$hash" "$hash" >"$tmp/users"
mkdir "$tmp/root/home"

start_server --anonymous rw --users "$tmp/users"
url=ftp://127.0.0.1:$port

# --- curl ---

ftp -T "$tmp/big" "$url/new/dir/big" --ftp-create-dirs && cmp -s "$tmp/big" "$tmp/root/new/dir/big"
ok $? "curl uploads, making directories"
check "an upload has mode 0644" test "$(stat -c %a "$tmp/root/new/dir/big")" = 644
curl -sS --ssl-reqd -k "$url/new/dir/big" | cmp -s - "$tmp/big"
ok $? "curl downloads"
head -c 1234567 "$tmp/big" >"$tmp/part"
ftp -C - -o "$tmp/part" "$url/new/dir/big" && cmp -s "$tmp/part" "$tmp/big"
ok $? "curl resumes a download"
ftp -T "$tmp/empty" "$url/empty" && [ -f "$tmp/root/empty" ] && [ ! -s "$tmp/root/empty" ]
ok $? "an empty file"
curl -sS --ssl-reqd -k -X MLSD "$url/new/dir/" >"$tmp/out" 2>&1 &&
	grep -q '^type=file;size=5000000;.* big' "$tmp/out"
ok $? "curl lists by MLSD"
ftp -Q "-RNFR new/dir/big" -Q "-RNTO moved" -Q "-MKD made" -Q "-SITE CHMOD 600 moved" "$url/empty" &&
	cmp -s "$tmp/big" "$tmp/root/moved" && [ -d "$tmp/root/made" ] &&
	[ "$(stat -c %a "$tmp/root/moved")" = 600 ]
ok $? "rename, MKD, SITE CHMOD"
ftp "$url/nope"
status=$?
check "a missing file is told" test "$status" -eq 78
ftp --user alice:wrong "$url/"
status=$?
check "a wrong password is refused" test "$status" -eq 67
ftp --user alice:s3cret -T "$tmp/text" "$url/mine" && cmp -s "$tmp/text" "$tmp/root/home/mine"
ok $? "a user of the users file, in his home"
ftp --user bob:s3cret -T "$tmp/text" "$url/his"
status=$?
check "a read-only user cannot upload" test "$status" -ne 0 -a ! -e "$tmp/root/his"
curl -sS "$url/" >"$tmp/out" 2>&1
status=$?
check "no login without TLS" test "$status" -eq 67

# --- ftplib, by EPSV also on IPv4 ---

cat >"$tmp/client.py" <<'PYTHON'
import ftplib, io, socket, ssl, sys
from ftplib_tls import FTP_TLS
class Client(FTP_TLS):
    def makepasv(self):
        host, port = ftplib.parse229(self.sendcmd('EPSV'), self.sock.getpeername())
        return host, port
def connect():
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    f = Client(context=context, timeout=30)
    f.connect('127.0.0.1', int(sys.argv[1]))
    f.login()
    f.prot_p()
    return f
PYTHON

run_python() { # reads the script from stdin
	cat "$tmp/client.py" - >"$tmp/run.py"
	PYTHONPATH=${top_srcdir:?}/tests/e2e python3 "$tmp/run.py" "$port" >"$tmp/out" 2>&1
}

run_python <<'PYTHON'
f = connect()
data = bytes(range(256)) * 5000
f.storbinary('STOR py.bin', io.BytesIO(data))
assert f.size('py.bin') == len(data)
got = io.BytesIO()
f.retrbinary('RETR py.bin', got.write, rest=1000)
assert got.getvalue() == data[1000:]
f.storbinary('STOR py.bin', io.BytesIO(b'END'), rest=len(data))
assert f.size('py.bin') == len(data) + 3
lines = []
f.storlines('STOR py.txt', io.BytesIO(b'a\nb\n'))
f.retrlines('RETR py.txt', lines.append)
assert lines == ['a', 'b'], lines
names = dict(f.mlsd('/', facts=['size']))
assert names['py.txt']['size'] == '4', names
f.mkd('py'); f.cwd('py'); assert f.pwd() == '/py'; f.cwd('..'); f.rmd('py')
f.rename('py.txt', 'py2.txt'); f.delete('py2.txt')
assert 'UTF8' in f.sendcmd('FEAT')
f.quit()
PYTHON
ok $? "ftplib: upload, resume both ways, TYPE A, list, rename, delete"

run_python <<'PYTHON'
f = connect()
f.voidcmd('TYPE I')
conn = f.transfercmd('STOR cut')
conn.sendall(b'x' * 100000)
socket.socket.close(conn)  # the socket alone: no close_notify
try:
    f.voidresp()
    sys.exit('an upload that was cut was taken')
except ftplib.error_temp as e:
    assert str(e).startswith('426'), e
f.quit()
PYTHON
ok $? "an upload over TLS without close_notify gets 426"
check "and leaves nothing" test ! -e "$tmp/root/cut" -a -z "$(find "$tmp/root" -name '.rftp-*')"

run_python <<'PYTHON'
f = connect()
f.voidcmd('TYPE I')
conn = f.transfercmd('RETR moved')
f.putcmd('ABOR')
assert f.getmultiline().startswith('426')
assert f.getmultiline().startswith('226')
conn.close()
f.voidcmd('NOOP')
conn = f.transfercmd('STOR aborted')
conn.sendall(b'x' * 100000)
f.putcmd('ABOR')
assert f.getmultiline().startswith('426')
assert f.getmultiline().startswith('226')
conn.close()
try:
    f.size('aborted')
    sys.exit('an aborted upload is there')
except ftplib.error_perm:
    pass
# A command that comes during a transfer waits for its end.
conn = f.transfercmd('RETR moved')
f.putcmd('PWD')
n = 0
while True:
    b = conn.recv(65536)
    if not b: break
    n += len(b)
conn.unwrap()
conn.close()
assert n == 5000000, n
assert f.getmultiline().startswith('226')
assert f.getmultiline().startswith('257')
f.quit()
PYTHON
ok $? "ABOR ends a download and an upload; another command waits"

run_python <<'PYTHON'
f = connect()
host, port = f.makepasv()
stranger = socket.create_connection((host, port), source_address=('127.0.0.2', 0))
conn = socket.create_connection((host, port))
f.putcmd('MLSD')
assert stranger.recv(1) == b''
assert f.getmultiline().startswith('150')
conn = f.context.wrap_socket(conn, session=f.sock.session)
assert b'py.bin' in conn.recv(65536)
PYTHON
ok $? "a data connection from another address is turned away"

# --- lftp ---

if command -v lftp >/dev/null; then
	lftp -c "set ssl:verify-certificate no; set ftp:ssl-force yes; set ftp:prefer-epsv yes;
		set net:max-retries 1; set net:timeout 10; set ftp:use-mlsd yes;
		open -u alice,s3cret -p $port 127.0.0.1; put $tmp/big -o lftp.bin; get lftp.bin -o $tmp/back;
		cls -1; mv lftp.bin lftp2.bin; rm lftp2.bin" >"$tmp/out" 2>&1 &&
		cmp -s "$tmp/big" "$tmp/back" && grep -q '^lftp.bin' "$tmp/out" &&
		[ ! -e "$tmp/root/home/lftp2.bin" ]
	ok $? "lftp uploads, downloads, lists, renames, deletes"
else
	skip "lftp" "it is missing"
fi

# --- the stop ---

cat "$tmp/client.py" - >"$tmp/run.py" <<'PYTHON'
f = connect()
f.voidcmd('TYPE I')
conn = f.transfercmd('STOR last')
print('running', flush=True)
sys.stdin.readline()
conn.sendall(b'y' * 1000000)
conn.unwrap()
conn.close()
assert f.voidresp().startswith('226')
assert f.getmultiline().startswith('421')
PYTHON
mkfifo "$tmp/go"
PYTHONPATH=${top_srcdir:?}/tests/e2e python3 "$tmp/run.py" "$port" <"$tmp/go" >"$tmp/out" 2>&1 &
client=$!
exec 9>"$tmp/go"
tries=0
while ! grep -q running "$tmp/out" && [ $tries -lt 100 ]; do
	sleep 0.1
	tries=$((tries + 1))
done
kill "$server"
sleep 0.5
curl -sS --max-time 5 "$url/" >/dev/null 2>&1
status=$?
check "a server that is stopping takes no connection" test "$status" -eq 7
echo go >&9
exec 9>&-
wait "$client"
ok $? "the transfer under way is finished first"
wait "$server"
ok $? "and then the server ends with status 0"
server=
check "the file is whole" test "$(stat -c %s "$tmp/root/last")" = 1000000

grep -q 'login of alice from 127.0.0.1:' "$tmp/log" &&
	grep -q 'login of "alice" .* refused' "$tmp/log" &&
	grep -q 'STOR "/new/dir/big" by anonymous from .*: 5000000 bytes in .* ok$' "$tmp/log"
ok $? "the log tells who logged in and what went by"

# --- starting ---

rftpd --nonsense 2>"$tmp/out"
status=$?
check "a wrong option: status 2" test "$status" -eq 2
rftpd --one-process --listen 192.0.2.1:7 --root "$tmp" --anonymous ro --state "$tmp/state" 2>"$tmp/out"
status=$?
check "an address that is not here: status 3" test "$status" -eq 3
chmod 644 "$tmp/state/key.pem"
rftpd --one-process --listen 127.0.0.1:0 --root "$tmp" --anonymous ro --state "$tmp/state" 2>"$tmp/out"
[ $? -eq 3 ] && grep -q 'others can read it' "$tmp/out"
ok $? "a key that others may read: status 3"

no_reports
ok $? "no sanitizer and no valgrind has found anything"

echo "1..$n"
