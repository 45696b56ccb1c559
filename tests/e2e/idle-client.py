#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A client that is idle for longer than --idle-timeout, in every possible state.

idle-client.py PORT SECONDS ROOT: the server's time-out, and its root"""
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from raw_ftp import Raw  # noqa: E402

port, seconds, root = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]


def attempt(what, run):
    try:
        run()
        print('ok -', what, flush=True)
    except (AssertionError, EOFError, OSError) as e:
        print('#', repr(e))
        print('not ok -', what, flush=True)


def connect(tls):
    return Raw(port, tls=tls, login=('anonymous', 'x'))


def ends(c):
    """Only a correct end of the connection follows."""
    try:
        line = c.line()
        raise AssertionError(line)
    except (EOFError, ConnectionError):
        pass


def silence(tls):
    c = connect(tls)
    begun = time.monotonic()
    c.expect_reply(421)
    assert time.monotonic() - begun > seconds * 0.9
    ends(c)


def kept(tls):
    c = connect(tls)
    end = time.monotonic() + 3 * seconds
    while time.monotonic() < end:
        c.must('NOOP', 200)
        time.sleep(seconds / 4)
    c.must('PWD', 257)
    c.must('QUIT', 221)


def unread(tls):
    """A download that is not read."""
    c = connect(tls)
    conn = c.open('RETR big')
    assert c.reply()[0] in (425, 426, 451)
    conn.close()
    c.must('NOOP', 200)
    c.must('QUIT', 221)


def unsent(tls):
    """A stalled upload leaves no file."""
    c = connect(tls)
    conn = c.open('STOR half')
    conn.sendall(b'a' * 100000)
    assert c.reply()[0] in (425, 426, 451)
    conn.close()
    c.must('SIZE half', 550)
    c.must('QUIT', 221)
    assert not [n for n in os.listdir(root) if 'half' in n or n.startswith('.rftp')], os.listdir(root)


def nobody_connects(tls):
    """A data port without a connection."""
    c = connect(tls)
    c.passive()
    c.send('RETR big')
    got = c.reply()[0]
    assert got in (425, 150), got
    if got == 150:
        assert c.reply()[0] in (425, 426)
    c.must('QUIT', 221)


for tls, how in ((False, 'in clear'), (True, 'TLS')):
    attempt('silence after the login, ' + how, lambda: silence(tls))
    attempt('a command now and then, ' + how, lambda: kept(tls))
    attempt('a download that is not read, ' + how, lambda: unread(tls))
    attempt('an upload that stands still, ' + how, lambda: unsent(tls))
    attempt('a data port that nobody comes to, ' + how, lambda: nobody_connects(tls))
