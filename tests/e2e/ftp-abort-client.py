#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Commands during a transfer: ABOR in all its encodings, STAT, QUIT and others.

ftp-abort-client.py PORT clear|tls ROOT"""
import os
import socket
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from raw_ftp import Raw  # noqa: E402

port, tls, root = int(sys.argv[1]), sys.argv[2] == 'tls', sys.argv[3]
IP, DM, IAC = b'\xf4', b'\xf2', b'\xff'


def attempt(what, run):
    bad = None
    try:
        run()
    except Exception as e:  # any exception is a finding of this test
        bad = '%s: %r' % (type(e).__name__, e)
        print('# ' + bad)
    print('%s %s, %s' % ('not ok' if bad else 'ok', what, 'TLS' if tls else 'in clear'), flush=True)


def connect(prot='P'):
    c = Raw(port, tls=tls, login=('anonymous', 'x@'), prot=prot)
    c.must('TYPE I', 200)
    return c


def plain(c):
    c.send('ABOR')


def telnet(c):
    c.sock.sendall(IAC + IP + IAC + DM + b'ABOR\r\n')


def urgent_mark(c):
    """RFC 959 §4.1.3 and RFC 1123 §4.1.2.6: the data mark is urgent."""
    c.sock.sendall(IAC + IP + IAC)
    c.sock.send(DM, socket.MSG_OOB)
    c.sock.sendall(b'ABOR\r\n')


def urgent_iac(c):
    """Like BSD's ftp: the IAC before the mark is urgent."""
    c.sock.sendall(IAC + IP)
    c.sock.send(IAC, socket.MSG_OOB)
    c.sock.sendall(DM + b'ABOR\r\n')


def urgent_all(c):
    c.sock.send(IAC + IP + IAC + DM, socket.MSG_OOB)
    c.sock.sendall(b'ABOR\r\n')


# Urgent data is a feature of TCP; TLS records cannot carry it.
WAYS = [plain, telnet] + ([] if tls else [urgent_mark, urgent_iac, urgent_all])


def small(c, command, how='EPSV'):
    """Opens the data connection of command; its small buffer stalls the server until it is read."""
    conn = socket.socket()
    conn.settimeout(60)
    conn.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    conn.connect(c.passive(how))
    c.must(command, 150)
    return c.wrap(conn)


def aborted(c, conn):
    c.expect_reply(426)
    c.expect_reply(226)
    conn.close()
    c.must('PWD', 257)
    c.must('RETR big', 425)  # the data connection is gone


def downloads(way, command):
    def run():
        c = connect()
        for how in ('EPSV', 'PASV'):
            conn = small(c, command, how)
            assert conn.recv(10)
            way(c)
            aborted(c, conn)
        assert b'small' in c.get('NLST small')
    return run


def before_bytes(way, command):
    """ABOR while the server waits for the data connection."""
    def run():
        c = connect()
        c.passive()
        c.send(command)
        way(c)
        c.expect_reply(426)
        c.expect_reply(226)
        c.must('PWD', 257)
    return run


def uploads(way, command, left):
    def run():
        c = connect()
        conn = c.open(command)
        conn.sendall(b'x' * 100000)
        way(c)
        aborted(c, conn)
        name = command.split()[1]
        got = c.ask('SIZE ' + name)
        assert (got[0] == 213) == left, got
        if left:
            c.must('DELE ' + name, 250)
        assert not [n for n in os.listdir(root) if n.startswith('.rftp-')]
    return run


def idle():
    c = connect()
    for way in WAYS:
        way(c)
        c.expect_reply(226)
    c.passive()
    c.must('ABOR', 226)
    c.must('RETR big', 425)


def late():
    """After the last byte, ABOR does the same as without a transfer."""
    c = connect()
    assert c.get('RETR small') == b'small\n'
    c.must('ABOR', 226)
    c.must('PWD', 257)


def progress():
    c = connect()
    conn = small(c, 'RETR big')
    assert conn.recv(10)
    last = -1
    for _ in range(3):
        text = c.must('STAT', 211)[0].split()
        assert text[1] == b'RETR:' and text[3] == b'bytes', text
        moved = int(text[2])
        assert last <= moved < os.path.getsize(root + '/big'), (last, moved)
        last = moved
        conn.recv(1000)
    assert last > 0
    c.take(conn)
    c.close_data(conn)
    c.expect_reply(226)
    conn = c.open('STOR up')
    conn.sendall(b'x' * 100000)
    # The server may still have unread bytes.
    while int(c.must('STAT', 211)[0].split()[2]) < 100000:
        pass
    plain(c)
    aborted(c, conn)
    c.passive()
    c.send('RETR small')
    c.must('STAT', 211)
    plain(c)
    c.expect_reply(426)
    c.expect_reply(226)


def waiting():
    """Other commands wait for the end of the transfer, in order."""
    c = connect()
    conn = small(c, 'RETR big')
    c.send('PWD')
    c.send('STAT small')
    c.send('NOOP')
    data = c.take(conn)
    c.close_data(conn)
    assert len(data) == os.path.getsize(root + '/big')
    for code in (226, 257, 213, 200):
        c.expect_reply(code)


def leaving():
    """QUIT waits, too, and then closes the connection (RFC 959 §4.1.1)."""
    for shut in (False, True):
        c = connect()
        conn = c.open('STOR quit')
        conn.sendall(b'a' * 100000)
        c.send('QUIT')
        if shut and not tls:
            c.sock.shutdown(socket.SHUT_WR)
        conn.sendall(b'b' * 100000)
        c.close_data(conn)
        c.expect_reply(226)
        c.expect_reply(221)
        try:
            c.line()
            raise AssertionError('it is still there')
        except (EOFError, OSError):
            pass
        with open(root + '/quit', 'rb') as f:
            assert f.read() == b'a' * 100000 + b'b' * 100000
        os.unlink(root + '/quit')


def lost():
    """The end of the control connection without QUIT acts like ABOR."""
    c = connect()
    conn = c.open('STOR lost')
    conn.sendall(b'a' * 100000)
    c.sock.close()
    try:
        while conn.recv(1):
            pass
    except OSError:
        pass
    conn.close()
    look = connect()
    look.must('SIZE lost', 550)


for way in WAYS:
    name = way.__name__.replace('_', ' ')
    # The names make the listings big enough.
    for command in ('RETR big', 'LIST many', 'NLST many', 'MLSD many'):
        attempt('ABOR (%s) during %s' % (name, command), downloads(way, command))
    attempt('ABOR (%s) before the data connection' % name, before_bytes(way, 'RETR big'))
    attempt('ABOR (%s) during STOR' % name, uploads(way, 'STOR part', False))
    attempt('ABOR (%s) during APPE' % name, uploads(way, 'APPE part', True))
attempt('ABOR when nothing is under way', idle)
attempt('ABOR after the end', late)
attempt('STAT tells how far it is', progress)
attempt('other commands wait', waiting)
attempt('QUIT waits', leaving)
attempt('a lost control connection', lost)
