#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# RETR on a data connection in clear, where the kernel sends the file by itself
# (sendfile), and where it will not. To the server another address is another host. TAP.
. "${top_srcdir:?}/tests/e2e/lib.sh"

need curl python3

mkdir "$tmp/root"
random "$tmp/root/big" 20000000
: >"$tmp/root/empty"
printf 'one\ntwo\n' >"$tmp/root/text"
truncate -s 3M "$tmp/root/sparse"
printf 'x' | dd of="$tmp/root/sparse" bs=1 seek=2000000 conv=notrunc status=none

serve() { # NAME [FAULTS]
	export RFTP_FAULT=${2:-}
	start_server "$1" --root "$tmp/root" --anonymous ro --plain
	unset RFTP_FAULT
	url=ftp://127.0.0.1:$port
}

# fetch NAME OPTION...: by curl into $tmp/back
elsewhere=127.0.0.2
fetch() {
	local name=$1
	shift
	rm -f "$tmp/back"
	run curl -sS --interface "$elsewhere" --max-time 50 -o "$tmp/back" "$@" "$url/$name"
}
arrives() { [ "$status" -eq 0 ] && same "$tmp/root/$1" "$tmp/back"; }

# client: Python after a preamble that logs in, in clear
client() {
	cat >"$tmp/client.py" <<'PYTHON'
import ftplib, io, os, socket, sys, time
class Client(ftplib.FTP):
    def makepasv(self):
        return ftplib.parse229(self.sendcmd('EPSV'), self.sock.getpeername())
f = Client(timeout=30, source_address=('127.0.0.2', 0))
f.connect('127.0.0.1', int(sys.argv[1]))
f.login()
f.voidcmd('TYPE I')
root = sys.argv[2]
big = open(root + '/big', 'rb').read()
def small_pipe(name):
    """A connection that takes next to nothing until it is read."""
    host, port = f.makepasv()
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.bind(('127.0.0.2', 0))
    s.connect((host, port))
    f.putcmd('RETR ' + name)
    assert f.getmultiline().startswith('150')
    return s
def rest_of(s):
    return b''.join(iter(lambda: s.recv(1 << 20), b''))
PYTHON
	cat >>"$tmp/client.py"
}
client_runs() { run python3 "$tmp/client.py" "$port" "$tmp/root"; status_is 0; }

# ---- as it should be ----

serve right
fetch big
check "a file" arrives big
fetch empty
check "an empty one" arrives empty
fetch sparse
check "one with holes" arrives sparse
head -c 12345678 "$tmp/root/big" >"$tmp/back"
run curl -sS --interface "$elsewhere" --max-time 50 -C - -o "$tmp/back" "$url/big"
check "curl resumes a download" arrives big

client <<'PYTHON'
for rest in 0, 1, 4095, 1 << 20, len(big) - 1, len(big):
    got = io.BytesIO()
    assert f.retrbinary('RETR big', got.write, rest=rest).startswith('226')
    assert got.getvalue() == big[rest:], rest
try:
    f.retrbinary('RETR big', None, rest=len(big) + 1)
    sys.exit('REST beyond the end was taken')
except ftplib.error_perm as e:
    assert str(e).startswith('554'), e
lines = []
f.retrlines('RETR text', lines.append)
assert lines == ['one', 'two'], lines
f.voidcmd('TYPE A')
c = f.transfercmd('RETR text')
assert rest_of(c) == b'one\r\ntwo\r\n'
c.close()
f.voidresp()
f.quit()
PYTHON
check "REST from anywhere; TYPE A still changes line ends" client_runs

client <<'PYTHON'
s = small_pipe('big')
time.sleep(0.5)      # all buffers are full by now: the server sleeps
f.putcmd('ABOR')
assert f.getmultiline().startswith('426')
assert f.getmultiline().startswith('226')
got = rest_of(s)
assert len(got) < len(big) and big.startswith(got)
s.close()
# A command that comes meanwhile waits, and a slow reader gets all of it.
s = small_pipe('big')
f.putcmd('PWD')
time.sleep(0.6)
assert rest_of(s) == big
assert f.getmultiline().startswith('226')
assert f.getmultiline().startswith('257')
s.close()
s = small_pipe('big')
s.recv(100)
s.close()            # with bytes unread: a reset
assert f.getmultiline().startswith('426')
assert f.voidcmd('NOOP').startswith('200')
f.quit()
PYTHON
check "ABOR while nothing moves; a slow reader; one that goes away" client_runs

client <<'PYTHON'
with open(root + '/shrinks', 'wb') as w:
    w.write(big)
s = small_pipe('shrinks')
os.truncate(root + '/shrinks', len(big) // 2)
got = rest_of(s)
assert len(got) <= len(big) and got[:len(big) // 2] == big[:len(big) // 2]
assert f.getmultiline().startswith('226')
s.close()
f.quit()
PYTHON
check "a file that shrinks meanwhile ends where it ends" client_runs
check "the log has it" grep -q 'RETR "/big" by anonymous from .*: 20000000 bytes in .* ok$' \
	"$tmp/right.log"
check "the server ends well" stops_well

# ---- where the kernel will not ----

need_faults # also to show below where sendfile is not used
for fault in EINVAL ENOSYS EINVAL:after=3; do
	serve "without" "sendfile:$fault"
	fetch big
	check "sendfile:$fault: read and written instead" arrives big
	fetch big -r 5000000-
	check "sendfile:$fault: the rest of it" \
		cmp -s "$tmp/back" <(tail -c +5000001 "$tmp/root/big")
	check "sendfile:$fault: the server ends well" stops_well
done

# ---- that it is used at all, and where not ----

serve fails "sendfile:EIO:after=3"
fetch big
check "an error of the file's in the middle fails it" not arrives big
check "and the log says so" grep -Eq 'RETR "/big" .*(error|EIO)' "$tmp/fails.log"
fetch big --ssl-reqd -k
check "by TLS there is no sendfile" arrives big
fetch big -B
check "nor for TYPE A" status_is 0
elsewhere=127.0.0.1
fetch big
check "nor within one host" arrives big
check "the server ends well" stops_well

finish
