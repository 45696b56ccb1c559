#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The replies to every command in every state, in clear and under TLS; and that none has a code
# which the table of commands does not have. TAP.
. "${top_srcdir:?}/tests/e2e/lib.sh"
three_processes
. "$lib/numbered.bash"

need python3

mkdir -p "$tmp/root/d"
printf 'text\n' >"$tmp/root/f"
hash=$(echo secret | rftpd --hash-password)
printf 'alice:%s:::rw\nbob:%s:::ro\n' "$hash" "$hash" >"$tmp/users"
chmod 600 "$tmp/users"

codes() { # clear|tls
	numbered "$lib/ftp-codes-client.py" "$port" "$port6" "$1"
}

# Not every machine has an IPv6 address of its own.
listen6=()
if python3 -c 'import socket; socket.socket(socket.AF_INET6).bind(("::1", 0))' 2>/dev/null; then
	listen6=(--listen '[::1]:0')
fi
start_server main ${listen6[@]+"${listen6[@]}"} --root "$tmp/root" --anonymous rw --users "$tmp/users" \
	--plain --active
port6=$(sed -n 2p "$tmp/main.port")
port6=${port6:-0}
codes clear
codes tls
check "no reply that the table does not have" not grep -F 'is not a reply to' "$tmp/main.log"
check "the server ends well" stops_well

# As it is without options.
start_server plain --root "$tmp/root" --anonymous rw
check "what is refused without --active, and without TLS" python3 - "$lib" "$port" <<'PYTHON'
import sys
sys.path.insert(0, sys.argv[1])
from raw_ftp import Raw
c = Raw(int(sys.argv[2]))
c.must('USER anonymous', 530)
c.must('PASS x', 503)
c.must('PWD', 530)
c = Raw(int(sys.argv[2]), tls=True, login=('anonymous', 'x'))
c.must('PORT 127,0,0,1,100,1', 502)
c.must('EPRT |1|127.0.0.1|2000|', 502)
c.must('EPRT nonsense', 502)
assert not any(b'EPRT' in line for line in c.must('FEAT', 211))
c.must('PASV', 227)
c.must('EPSV', 229)
PYTHON
check "the server ends well" stops_well

start_server private --root "$tmp/root" --anonymous rw --prot-min private --active
check "what is refused in clear when data must be private" python3 - "$lib" "$port" <<'PYTHON'
import sys
sys.path.insert(0, sys.argv[1])
from raw_ftp import Raw
c = Raw(int(sys.argv[2]), tls=True, login=('anonymous', 'x'), prot='C')
for command in ('RETR f', 'STOR x', 'APPE x', 'LIST', 'NLST', 'MLSD'):
    c.passive()
    c.must(command, 521)
c.must('PROT P', 200)
c.prot = 'P'
assert c.get('RETR f') == b'text\r\n'
PYTHON
check "no reply that the table does not have" not grep -F 'is not a reply to' "$tmp"/*.log
finish
