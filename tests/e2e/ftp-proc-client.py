#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An account with root "/" tries to read and write in /proc: each command is refused before any
data moves, also through links.

ftp-proc-client.py PORT USER PASSWORD DIR PID...: the account may make links in DIR; PID is another
process of the server. Prints TAP lines without numbers."""
import os
import socket
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from raw_ftp import Raw  # noqa: E402

port, user, password, home = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
OF_PROCESS = ('mem', 'environ', 'fd', 'fd/0', 'fd/2', 'fdinfo/0', 'root/etc/shadow', 'root/etc/passwd',
              'root' + home + '/file', 'cwd', 'maps', 'exe', 'status', 'task', 'comm', 'oom_score_adj', '')
WORDS = ('SIZE', 'MDTM', 'MLST', 'HASH', 'CWD', 'DELE', 'MKD', 'RMD', 'RMDA', 'RNFR',
         'SITE CHMOD 600', 'SITE CHMOD 777', 'SITE UTIME 202001010101', 'MFMT 20200101000000')
DATA = ('RETR', 'STOR', 'APPE', 'LIST', 'NLST', 'MLSD', 'LIST -R')


def refused(c, word, path, rest=0):
    if rest:
        c.must('REST %d' % rest, 350)
    got = c.ask('%s %s' % (word, path))
    assert got[0] >= 400, (word, path, rest, got)


def refused_data(c, word, path, rest=0):
    conn = socket.create_connection(c.passive())
    refused(c, word, path, rest)
    conn.settimeout(60)
    try:
        assert c.take(conn) == b'', (word, path)
    except ConnectionResetError:
        pass  # the server has not accepted it, which is also right
    conn.close()


def attempt(c, path, named=False):
    """named: the path is listed by a directory outside /proc, so some commands may report it."""
    bad = None
    try:
        for word in WORDS:
            if not named or word not in ('MLST', 'RNFR'):
                refused(c, word, path)
        for word in DATA:
            refused_data(c, word, path)
        refused_data(c, 'RETR', path, 4096)
        refused_data(c, 'STOR', path, 4096)
        c.must('RNFR file', 350)
        refused(c, 'RNTO', path)
        stat = c.ask('STAT ' + path)
        assert stat[0] >= 400, stat
    except Exception as e:  # any exception is a finding of this test
        bad = '%s: %r' % (type(e).__name__, e)
        print('# ' + bad)
    print('%s nothing of %s' % ('not ok' if bad else 'ok', path), flush=True)
    return not bad


def connect():
    c = Raw(port, tls=True, login=(user, password))
    c.must('TYPE I', 200)
    return c


c = connect()
paths = ['/proc/%s/%s' % (who, what) for who in ['self', 'thread-self'] + sys.argv[5:]
         for what in OF_PROCESS]
paths += ['//proc//self/../self/maps', '/proc/version', '/proc/./uptime', '/dev/fd/0']
os.symlink('/proc/self', home + '/to-self')
os.symlink('/proc/self/mem', home + '/to-mem')
os.symlink('../../../../../../../../../../proc/self/root' + home, home + '/by-root')
paths += [home + '/to-self/maps', home + '/to-self/environ', home + '/to-self/fd/0',
          home + '/by-root/file']
for path in paths:
    if not attempt(c, path):
        c = connect()
for path in ('/proc', '/proc/', '/proc/.'):
    if not attempt(c, path, True):
        c = connect()
# Commands may report and remove the link itself.
for word in ('SIZE', 'CWD', 'HASH', 'SITE CHMOD 600', 'MFMT 20200101000000'):
    refused(c, word, home + '/to-mem')
for word in ('RETR', 'APPE'):
    refused_data(c, word, home + '/to-mem')
for name in ('to-mem', 'to-self', 'by-root'):
    c.must('DELE %s/%s' % (home, name), 250)
print('ok links to it are not followed, and can be removed')
c.must('MLST /', 250)
names = c.get('NLST /').split()
assert b'/etc' in names or b'etc' in names, names
print('ok all else is there')
