#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Common FTP clients against rftpd: curl, lftp, Python's ftplib, ncftp, GNU inetutils' ftp and
# tnftp, by TLS where they support it. TAP.
. "${top_srcdir:?}/tests/e2e/lib.sh"
three_processes

need curl python3

mkdir -p "$tmp/root/many" "$tmp/here"
random "$tmp/big" 5000000
random "$tmp/root/big" 5000000
printf 'one\ntwo\n' >"$tmp/root/text"
for i in $(seq 100); do
	echo "$i" >"$tmp/root/many/$i"
done
# Not every machine has an IPv6 address of its own.
listen6=()
if python3 -c 'import socket; socket.socket(socket.AF_INET6).bind(("::1", 0))' 2>/dev/null; then
	listen6=(--listen '[::1]:0')
fi
start_server main ${listen6[@]+"${listen6[@]}"} --root "$tmp/root" --anonymous rw --plain --active
tls=$port
port6=$(sed -n 2p "$tmp/main.port")
url=ftp://127.0.0.1:$tls
cp "$lib/ftplib_tls.py" "$tmp/here"
cd "$tmp/here" || exit 99

# ---- curl ----

ftp() { run curl -sS --ssl-reqd -k --max-time 50 "$@"; }
# curl 7.88 (Debian 12) begins no TLS on data connections that are made to it.
clear() { run curl -sS --max-time 50 "$@"; }
is_same() { status_is 0 && same "$1" "$2"; }

for family in 4 6; do
	for way in "" --disable-epsv "-P -" "-P - --disable-eprt"; do
		base=$url
		[ $family = 4 ] || base="ftp://[::1]:$port6"
		[ $family = 4 ] || [ -n "$port6" ] || continue
		# There is nothing but EPSV and EPRT on IPv6.
		[ $family = 4 ] || [[ $way != *disable* ]] || continue
		how=ftp
		[[ $way != -P* ]] || how=clear
		# shellcheck disable=SC2086 # several words are meant
		$how $way -T "$tmp/big" "$base/up"
		check "curl ${way:-by EPSV}, IPv$family: upload" is_same "$tmp/big" "$tmp/root/up"
		# shellcheck disable=SC2086
		$how $way -o down "$base/big"
		check "download" is_same "$tmp/root/big" down
		# shellcheck disable=SC2086
		$how $way -l "$base/many/"
		check "list of names" test "$(sort -n "$tmp/out" | tr -d '\r' | sha256sum)" = \
			"$(seq 100 | sha256sum)"
		rm -f "$tmp/root/up" down
	done
done

head -c 2000000 "$tmp/root/big" >down
ftp -C - -o down "$url/big"
check "curl resumes a download" is_same "$tmp/root/big" down
head -c 2000000 "$tmp/big" >"$tmp/root/up"
ftp -C - -T "$tmp/big" "$url/up"
check "curl resumes an upload" is_same "$tmp/big" "$tmp/root/up"
printf 'END' >end
ftp -a -T end "$url/up"
cat "$tmp/big" end >both
check "curl appends" is_same both "$tmp/root/up"
ftp -r 1000-1999 -o range "$url/big"
check "curl: a range" is_same range <(tail -c +1001 "$tmp/root/big" | head -c 1000)
ftp -r -1000 -o range "$url/big"
check "curl: the end" is_same range <(tail -c 1000 "$tmp/root/big")
ftp -I "$url/text"
check "curl: size and time" grep -q '^Content-Length: 8' "$tmp/out"
ftp -B "$url/text"
check "curl: TYPE A" same "$tmp/out" "$tmp/root/text" # it takes the CR out itself
ftp "$url/"
check "curl: LIST" grep -Eq '^-rw-r--r-- +1 .* 5000000 .* big' "$tmp/out"
ftp -z "$tmp/big" "$url/text"
check "curl: MDTM, as a condition" status_is 0
ftp --ftp-method singlecwd -Q '-SITE CHMOD 640 text' -Q '-SITE UTIME 202001020304 text' "$url/text"
check "curl: SITE" test "$(stat -c '%a %y' "$tmp/root/text" | cut -c 1-14)" = '640 2020-01-02'

# ---- lftp ----

lftp_do() {
	run lftp -c "set ssl:verify-certificate no; set ftp:ssl-force yes; set net:max-retries 2;
		set net:timeout 20; set ftp:ssl-protect-data yes; $1; open -u anonymous,x -p $tls 127.0.0.1; $2"
}
mkdir -p tree/a/b "tree/with blank"
random tree/a/one 100000
echo two >tree/a/b/two
echo three >"tree/with blank/three"
: >tree/a/.hidden
ln -s a/one tree/link
ln -s a tree/dirlink
chmod 640 tree/a/one
touch -d '2021-02-03 04:05:06 UTC' tree/a/one
tree_of() { (cd "$1" && find . -printf '%P %y %l\n' | sort && find . -type f -exec sha256sum {} + | sort); }
alike() { ! diff <(tree_of "$1") <(tree_of "$2") | comment | grep .; }
same_tree() { status_is 0 && alike "$@"; }
if command -v lftp >/dev/null; then
	# FTP cannot make links: mirror -R -L sends the files that they point to.
	cp -rL tree flat
	for how in "set ftp:use-mlsd yes" "set ftp:use-mlsd no" \
		"set ftp:use-mlsd no; set ftp:prefer-epsv no" \
		"set ftp:use-mlsd no; set ftp:passive-mode no" "set ftp:use-stat-for-list yes"; do
		rm -rf "$tmp/root/tree" back
		lftp_do "$how" "mirror -R -L tree tree"
		check "lftp ($how): mirror there" same_tree flat "$tmp/root/tree"
		check "with modes and times" test \
			"$(stat -c '%a %Y' "$tmp/root/tree/a/one")" = "$(stat -c '%a %Y' tree/a/one)"
		rm -rf "$tmp/root/tree"
		cp -a tree "$tmp/root/tree"
		lftp_do "$how" "mirror tree back"
		check "and back, with links" same_tree tree back
	done
	# Without -L it would have them made, which there is no command for: they are left out,
	# neither followed nor a reason to stop.
	mkdir -p "$tmp/elsewhere"
	echo elsewhere >"$tmp/elsewhere/file"
	cp -a tree linked
	ln -s "$tmp/elsewhere" linked/out
	ln -s "$tmp/elsewhere/file" linked/a/out-file
	ln -s nowhere linked/dangling
	cp -a linked bare
	find bare -type l -delete
	rm -rf "$tmp/root/tree"
	lftp_do "" "mirror -R linked tree"
	check "lftp: mirror -R of links: all else is there" alike bare "$tmp/root/tree"
	check "each link is said not to be" test "$(grep -c '504 SITE knows only' "$tmp/err")" = 5
	check "with modes and times" test \
		"$(stat -c '%a %Y' "$tmp/root/tree/a/one")" = "$(stat -c '%a %Y' linked/a/one)"
	check "and nothing of where they lead" not grep -rq elsewhere "$tmp/root/tree"
	lftp_do "" "mirror -R linked tree"
	check "nor is it when that is done again" alike bare "$tmp/root/tree"
	lftp_do "" "put $tmp/big -o l; get l -o l.back; cls -1; mv l l2; rm l2; mkdir ld; rmdir ld; \
		chmod 600 text; find many; du -s many; glob rm -f none*; put -c $tmp/big -o l3; \
		get -c l3 -o l3.back; pget -n 4 l3 -o l3.p; rm l3"
	check "lftp: put, get, pget, mv, rm, mkdir, rmdir, chmod, find, du" is_same "$tmp/big" l3.p
	check "and both came back" cmp -s l.back l3.back
	rm -rf "$tmp/root/tree"
else
	skip "lftp" "it is missing"
fi

# ---- ftplib ----

cat >everything.py <<'PYTHON'
import ftplib, io, ssl, sys
from ftplib_tls import FTP_TLS
port, kind, host = int(sys.argv[1]), sys.argv[2], sys.argv[3]
def connect(passive=True):
    if kind == 'clear':
        f = ftplib.FTP(timeout=50)
    else:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        f = FTP_TLS(context=context, timeout=50)
    f.connect(host, port)
    assert f.getwelcome().startswith('220')
    f.login()
    if kind == 'tls':
        f.prot_p()
    elif kind == 'prot_c':
        f.prot_p()  # with PBSZ, which prot_c() leaves out
        f.prot_c()
    f.set_pasv(passive)
    return f
def lines(run, *args):
    got = []
    run(*args, got.append)
    return got
for passive in (True, False):
    f = connect(passive)
    data = bytes(range(256)) * 4000
    assert f.storbinary('STOR p', io.BytesIO(data)).startswith('226')
    assert f.size('p') == len(data)
    got = io.BytesIO()
    assert f.retrbinary('RETR p', got.write).startswith('226')
    assert got.getvalue() == data
    got = io.BytesIO()
    f.retrbinary('RETR p', got.write, rest=len(data) - 5)
    assert got.getvalue() == data[-5:]
    f.storbinary('STOR p', io.BytesIO(b'END'), rest=len(data))
    assert f.size('p') == len(data) + 3
    f.storbinary('APPE p', io.BytesIO(b'AGAIN'))
    assert f.size('p') == len(data) + 8
    f.storlines('STOR t', io.BytesIO(b'a\nb\n'))
    assert lines(f.retrlines, 'RETR t') == ['a', 'b']
    assert sorted(n for n in f.nlst() if n in 'pt') == ['p', 't']
    assert f.nlst('many')[0].startswith('many/')
    assert len(f.nlst('many/1*')) == 12
    assert len(lines(f.dir, 'many')) == 100
    assert any(line.startswith('-rw') and line.endswith(' t') for line in lines(f.dir))
    facts = dict(f.mlsd(facts=['type', 'size', 'modify']))
    assert facts['t']['size'] == '4' and facts['many']['type'] == 'dir'
    assert len(dict(f.mlsd('many'))) == 100
    assert f.mkd('quo"te') == '/quo"te'
    f.cwd('quo"te')
    assert f.pwd() == '/quo"te'
    f.cwd('..')
    assert f.pwd() == '/'
    f.rmd('quo"te')
    f.rename('t', 'u')
    f.voidcmd('OPTS MLST type;size;modify;UNIX.mode;')
    assert f.voidcmd('MDTM u').startswith('213 ')
    assert f.sendcmd('MFMT 20200203040506 u').startswith('213')
    assert f.sendcmd('MDTM u') == '213 20200203040506'
    assert f.sendcmd('SITE UTIME 202101020304 u').startswith('200')
    assert f.sendcmd('MDTM u') == '213 20210102030400'
    assert f.sendcmd('SITE UTIME u 20210102030405 20220102030405 20210102030405 UTC').startswith('200')
    assert f.sendcmd('MDTM u') == '213 20220102030405'
    assert f.sendcmd('SITE CHMOD 600 u').startswith('200')
    assert 'UNIX.mode=0600' in f.sendcmd('MLST u')
    assert f.sendcmd('HASH u').startswith('213 SHA-256 0-3 ')
    assert '1 root' not in f.sendcmd('STAT u') and ' u\n' in f.sendcmd('STAT u')
    assert f.sendcmd('STAT').startswith('211-')
    for command, code in (('SYST', '215'), ('NOOP', '200'), ('HELP', '214'), ('FEAT', '211'),
                          ('OPTS UTF8 ON', '200'), ('TYPE I', '200'), ('MODE S', '200'),
                          ('STRU F', '200'), ('ALLO 100', '202'), ('HELP STOR', '214')):
        assert f.sendcmd(command).startswith(code), command
    conn = f.transfercmd('RETR big')
    conn.recv(10)
    f.sock.sendall(b'\xff\xf4\xff\xf2ABOR\r\n')
    assert f.getmultiline()[:3] in ('426', '226')
    if kind == 'clear':
        conn.close()
        assert f.getmultiline()[:3] == '226'
    else:
        conn.close()
        f.getmultiline()
    f.delete('u')
    f.delete('p')
    if kind == 'tls':
        assert f.sock.session is not None
    try:
        f.delete('p')
        sys.exit('it is still there')
    except ftplib.error_perm as e:
        assert str(e).startswith('550')
    assert f.quit().startswith('221')
PYTHON
for kind in clear prot_c tls; do
	run python3 everything.py "$tls" $kind 127.0.0.1
	check "ftplib, $kind: every command" status_is 0
	if [ -n "$port6" ]; then # by EPSV and EPRT
		run python3 everything.py "$port6" $kind ::1
		check "ftplib, $kind: every command, IPv6" status_is 0
	else
		skip "ftplib, $kind: every command, IPv6" "there is no ::1"
	fi
done

# As it comes it does not resume the session on data connections, which is told.
cat >stock.py <<'PYTHON'
import ftplib, io, ssl, sys
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.check_hostname = False
context.verify_mode = ssl.CERT_NONE
f = ftplib.FTP_TLS(context=context, timeout=50)
f.connect('127.0.0.1', int(sys.argv[1]))
f.login()
f.prot_p()
got = io.BytesIO()
try:
    f.retrbinary('RETR text', got.write)
except (OSError, ssl.SSLError):
    print(f.getmultiline())
except ftplib.Error as refused:
    print(refused)
print(len(got.getvalue()), 'bytes')
PYTHON
run python3 stock.py "$tls"
check "ftplib without the session is refused, with the option's name" \
	grep -q '^522 .*tls-data in rftpd.conf' "$tmp/out"
check "and gets nothing" grep -qx '0 bytes' "$tmp/out"
check "the log names the setting" grep -q '"tls-data any" in rftpd.conf' "$tmp/main.log"
main=$server
start_server lax --root "$tmp/root" --anonymous ro --tls-data any
run python3 stock.py "$port"
check "with which it is served" grep -qx '8 bytes' "$tmp/out"
check "by a server that ends well" stops_well
server=$main

# ---- ncftp, which knows no TLS ----

if command -v ncftpget >/dev/null; then
	for way in -E -F; do # active, passive
		run ncftpput $way -V -P "$tls" -m -R 127.0.0.1 nc tree/a
		check "ncftpput $way -R" same tree/a/one "$tmp/root/nc/a/one"
		rm -rf nc-back
		mkdir nc-back
		run ncftpget $way -V -P "$tls" -R 127.0.0.1 nc-back nc/a
		check "ncftpget $way -R" diff -r tree/a nc-back/a
		check "with the time" test "$(stat -c %Y nc-back/a/one)" = "$(stat -c %Y tree/a/one)"
		rm -rf "$tmp/root/nc"
	done
	run ncftpls -P "$tls" "ftp://127.0.0.1/many/"
	check "ncftpls" test "$(tr -s ' \n' '\n\n' <"$tmp/out" | grep -c .)" -eq 100
	run ncftpls -l -P "$tls" ftp://127.0.0.1/
	check "ncftpls -l" grep -Eq '^-rw-r--r-- .* 5000000 .* big$' "$tmp/out"
	head -c 1000000 "$tmp/root/big" >part
	cp part big
	run ncftpget -V -z -P "$tls" 127.0.0.1 . big
	check "ncftpget goes on" is_same "$tmp/root/big" big
	# ncftpput -z of Debian 12 sends REST with an offset, and then the file from its beginning.
	run ncftpput -V -A -P "$tls" 127.0.0.1 / end
	run ncftpput -V -A -P "$tls" 127.0.0.1 / end
	check "ncftpput appends" test "$(cat "$tmp/root/end")" = ENDEND
	rm -f "$tmp/root/end"
else
	skip "ncftp" "it is missing"
fi

# ---- the two that are called ftp ----

cat >script <<'SCRIPT'
user anonymous x
binary
cd many
get 7 got.7
cd ..
mkdir idir
cd idir
put script
rename script renamed
append end renamed
size renamed
modtime renamed
chmod 640 renamed
ls
nlist
pwd
cdup
mget many/9*
get nothing
reget big part
system
status
rhelp STOR
ascii
get text text.ascii
quit
SCRIPT
interactive() { # NAME COMMAND...: with the script as its input
	local name=$1
	shift
	rm -rf "$tmp/root/idir" "$name"
	mkdir -p "$name/many"
	cp script end part "$name"
	(cd "$name" && run_stdin "$@" 127.0.0.1 "$tls" <script)
	check "$name: get in a directory" same "$tmp/root/many/7" "$name/got.7"
	check "put, rename, append" same "$tmp/root/idir/renamed" <(cat script end)
	check "chmod" test "$(stat -c %a "$tmp/root/idir/renamed")" = 640
	check "mget with a pattern" test "$(find "$name/many" -name '9*' -size +0 | wc -l)" -eq 11
	check "reget" same "$tmp/root/big" "$name/part"
	check "ascii" same "$tmp/root/text" "$name/text.ascii"
	check "ls" grep -Eq '^-rw-.* renamed' "$tmp/out"
}
if command -v inetutils-ftp >/dev/null; then
	interactive inetutils-passive inetutils-ftp -n -v -i -p
	interactive inetutils-active inetutils-ftp -n -v -i -A
else
	skip "inetutils-ftp" "it is missing"
fi
if command -v tnftp >/dev/null; then
	interactive tnftp-passive tnftp -n -v -i -p
	interactive tnftp-active tnftp -n -v -i -A
	run tnftp -o fetched "ftp://127.0.0.1:$tls/big"
	check "tnftp of a URL" is_same "$tmp/root/big" fetched
else
	skip "tnftp" "it is missing"
fi

check "no parts are left" no_parts "$tmp/root"
check "no reply that the table does not have" not grep -F 'is not a reply to' "$tmp/main.log"
check "the server ends well" stops_well

# ---- uploads that break, and are resumed ----

start_server broken --root "$tmp/root" --anonymous rw
url=ftp://127.0.0.1:$port
# When much of it has been sent, the client is killed, and closes nothing in order.
has_sent() { # PID BYTES: of $tmp/big, which it has open
	local fd pos=0
	fd=$(find "/proc/$1/fd" -lname "$tmp/big" 2>/dev/null | head -n 1)
	[ -z "$fd" ] || pos=$(awk '/^pos:/ {print $2}' "/proc/$1/fdinfo/${fd##*/}" 2>/dev/null)
	[ "${pos:-0}" -ge "$2" ]
}
is_longer() { [ "$(stat -c %s "$1")" -gt "$2" ]; } # FILE BYTES
break_off() { # NAME CONDITION... -- COMMAND...
	local what=$1 condition=()
	shift
	while [ "$1" != -- ]; do
		condition+=("$1")
		shift
	done
	shift
	"$@" </dev/null >/dev/null 2>&1 &
	breaking=$!
	others+=("$breaking")
	check "$what: under way" patience 30 "${condition[@]/PID/$breaking}"
	kill -KILL "$breaking"
	wait "$breaking" 2>/dev/null
	check "$what: it is over" patience 30 no_children "$server"
}
slowly=(curl -sS --ssl-reqd -k --limit-rate 200k)

# From the beginning: a file is whole or absent, so there is nothing to resume.
break_off "curl is killed" has_sent PID 1000000 -- "${slowly[@]}" -T "$tmp/big" "$url/broken"
check "nothing has the name" test ! -e "$tmp/root/broken"
check "nor is there a part" no_parts "$tmp/root"
check "the log says that it failed" grep -q 'STOR "/broken" .* bytes in .*: ' "$tmp/broken.log"
check "and not that it was well" not grep -q 'STOR "/broken" .*: ok$' "$tmp/broken.log"
ftp -C - -T "$tmp/big" "$url/broken"
check "curl -C - begins anew" is_same "$tmp/big" "$tmp/root/broken"
echo before >"$tmp/root/broken"
break_off "curl is killed, over a file" has_sent PID 1000000 -- "${slowly[@]}" -T "$tmp/big" "$url/broken"
check "which stays as it was" test "$(cat "$tmp/root/broken")" = before

# Appending to an existing file: the received bytes stay, and the next upload continues behind them.
head -c 1000000 "$tmp/big" >"$tmp/root/broken"
break_off "curl -C - is killed" is_longer "$tmp/root/broken" 1300000 -- \
	"${slowly[@]}" -C - -T "$tmp/big" "$url/broken"
came=$(stat -c %s "$tmp/root/broken")
check "what has come is there, and right" cmp -s -n "$came" "$tmp/big" "$tmp/root/broken"
check "and is not all" test "$came" -lt 5000000
ftp -C - -T "$tmp/big" "$url/broken"
check "curl -C - goes on" is_same "$tmp/big" "$tmp/root/broken"
went_on() { # VERB BYTES: the last upload sent no more than the missing bytes
	tail -n 5 "$tmp/broken.log" | grep -q "$1 \"/broken\" .*: $2 bytes in .*: ok\$"
}
check "from there" patience 20 went_on APPE $((5000000 - came))
if command -v lftp >/dev/null; then
	head -c 1000000 "$tmp/big" >"$tmp/root/broken"
	lftp_put="set ssl:verify-certificate no; set ftp:ssl-force yes; set ftp:ssl-protect-data yes;
		open -u anonymous,x -p $port 127.0.0.1; put -c $tmp/big -o broken"
	break_off "lftp's put -c is killed" is_longer "$tmp/root/broken" 1300000 -- \
		lftp -c "set net:limit-rate 200000; $lftp_put"
	came=$(stat -c %s "$tmp/root/broken")
	check "what has come is there" cmp -s -n "$came" "$tmp/big" "$tmp/root/broken"
	run lftp -c "$lftp_put"
	check "and goes on" is_same "$tmp/big" "$tmp/root/broken"
	check "from there" patience 20 went_on STOR $((5000000 - came))
else
	skip "lftp's put -c" "it is missing"
fi
rm -f "$tmp/root/broken"
check "that server ends well" stops_well

# ---- a hundred at once ----

# Each is slow enough that the first is not done before the last has begun. Curl reads up to 1.6 MB
# at a time, however slow it is told to be, and looks at its rate between: that is why they are
# bigger. It tries nothing again.
mkdir "$tmp/root/hundred" "$tmp/root/crowd" "$tmp/here/crowd"
for i in $(seq 100); do
	random "$tmp/root/hundred/$i" 3000000
done
fronts() { ps -o uid= --ppid "$server" | grep -cw "$(id -u nobody)"; }
sessions() { # of those that have logged in; where there is one process, of all
	if is_root; then
		echo $(($(children "$server" | wc -w) - $(fronts)))
	else
		children "$server" | wc -w
	fi
}
connections() { find "/proc/$1/fd" -lname 'socket:*' 2>/dev/null | wc -l; } # PID
rate=$((60000 / slow))
! sanitized || rate=$((rate / 2))
all_are_there() { # CURL: or it is gone
	local sockets sessions
	sockets=$(connections "$1") sessions=$(sessions)
	[ "$sockets" -le "$most_sockets" ] || most_sockets=$sockets
	[ "$sessions" -le "$most" ] || most=$sessions
	were_there || gone "$1"
}
were_there() { [ "$most" -ge 100 ]; }
hundred() { # NAME CURL-OPTION...: sets status
	local what=$1 curl
	shift
	most=0 most_sockets=0
	curl -sS --no-progress-meter --ssl-reqd -k --max-time 500 \
		--parallel --parallel-immediate --parallel-max 100 --limit-rate "$rate" "$@" </dev/null >"$tmp/out" 2>"$tmp/err" &
	curl=$!
	others+=("$curl")
	patience 300 all_are_there "$curl"
	echo "# $most sessions, $most_sockets sockets of curl"
	check "$what: 100 are served at once" were_there
	wait "$curl"
	# shellcheck disable=SC2034 # for status_is
	status=$?
	check "$what: all end well" status_is 0
}
same_hundred() { # DIR: each has its content, and there is no other file
	local i
	for i in $(seq 100); do
		same "$1/$i" "$tmp/root/hundred/$i" || return 1
	done
}
# With several control connections of one process curl resumes the session of any of them.
start_server crowd --root "$tmp/root" --anonymous rw --max-sessions 250 --max-per-host 250 \
	--tls-data any
url=ftp://127.0.0.1:$port
hundred "curl gets" -o "$tmp/here/crowd/#1" "$url/hundred/[1-100]"
check "each of them is the same" same_hundred "$tmp/here/crowd"
hundred "curl puts" -T "$tmp/here/crowd/[1-100]" "$url/crowd/"
check "each of them is the same there" same_hundred "$tmp/root/crowd"
check "and none is there twice, or half" test "$(find "$tmp/root/crowd" -mindepth 1 | wc -l)" = 100
check "none was refused" not grep -Eq 'too many|refused' "$tmp/crowd.log"
check "that server ends well, too" stops_well

start_server strict --root "$tmp/root" --anonymous ro
run curl -sS --max-time 20 "ftp://127.0.0.1:$port/text"
check "curl in clear is refused by default" status_is 67
check "the log says what to set" patience 10 grep -q 'refused a login without TLS (lftp: .*ssl-allow-anonymous yes; curl' \
	"$tmp/strict.log"
ftp "ftp://127.0.0.1:$port/text"
check "and by TLS is not" is_same "$tmp/out" "$tmp/root/text"
if command -v lftp >/dev/null; then
	run lftp -c "set ssl:verify-certificate no; set ftp:ssl-allow-anonymous yes; set net:max-retries 2;
		cd ftp://127.0.0.1:$port/ && cat text"
	check "nor lftp, with what the log names" is_same "$tmp/out" "$tmp/root/text"
else
	skip "lftp by TLS as anonymous" "it is missing"
fi
finish
