#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attempts of a client to leave the root, and invalid names. Each gets a reply, and none succeeds.

ftp-escape-client.py PORT DIR: DIR/root is the root; DIR/outside must not be reached."""
import fcntl
import os
import random
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from raw_ftp import Raw  # noqa: E402

port, top = int(sys.argv[1]), sys.argv[2]
root, outside = top + '/root', top + '/outside'
SECRET = b'secret-of-outside'


def attempt(what, run):
    bad = None
    try:
        run()
        look()
    except Exception as e:  # any exception is a finding of this test
        bad = '%s: %r' % (type(e).__name__, e)
        print('# ' + bad)
    print('%s %s' % ('not ok' if bad else 'ok', what), flush=True)


def state():
    found = {}
    for where, dirs, files in os.walk(outside):
        for name in ['.'] + dirs + files:
            path = os.path.join(where, name)
            st = os.lstat(path)
            found[path] = (st.st_mode, st.st_size, st.st_mtime_ns, st.st_nlink)
    with open(outside + '/secret', 'rb') as f:
        found['text'] = f.read()
    return found


before = state()


def look():
    now = state()
    assert now == before, (before, now)


def connect(tls=False):
    c = Raw(port, tls=tls, login=('anonymous', 'x@'), prot='C')
    c.must('TYPE I', 200)
    return c


def said(got):
    return b'\n'.join(got[1])


# Checks a path to a file.
def all_commands(c, path, inside):
    """Sends every command that takes a path. inside: a command may succeed, but not on anything
    outside."""
    words = [b'CWD', b'SIZE', b'MDTM', b'MLST', b'STAT', b'HASH', b'MKD', b'RMD', b'RNFR',
             b'SITE CHMOD 777', b'SITE UTIME 202001010101', b'MFMT 20200101000000',
             b'MDTM 20200101000000', b'DELE', b'RMDA']
    for word in words:
        got = c.ask(word + b' ' + path)
        assert inside or got[0] >= 400, (word, path, got)
        assert SECRET not in said(got)
        c.must('CWD /', 250)
    for word in (b'RETR', b'LIST', b'NLST', b'MLSD', b'LIST -R', b'NLST -la'):
        conn = socket.create_connection(c.passive())
        got = c.ask(word + b' ' + path)
        if got[0] == 150:
            data = c.take(conn)
            assert SECRET not in data and b'secret' not in data, (word, path, data)
            assert c.reply()[0] in (226, 450, 451, 550), word
        conn.close()
    for word in (b'STOR', b'APPE'):
        conn = socket.create_connection(c.passive())
        got = c.ask(word + b' ' + path)
        if got[0] == 150:
            conn.sendall(b'overwritten')
            conn.close()
            c.reply()
        conn.close()
    c.must('RNFR /file', 350)
    c.ask(b'RNTO ' + path)
    if c.code('SIZE /file') != 213:
        c.must(b'RNFR ' + path, 350)
        c.must('RNTO /file', 250)


def dots():
    """".." stops at the root, where no outside file is visible."""
    c = connect()
    for path in ('../outside/secret', '/../outside/secret', 'd/../../outside/secret',
                 '/d/../../../outside/secret', '../' * 50 + outside.lstrip('/') + '/secret',
                 './.././../outside/secret', '..//..//outside/secret', '../outside/../outside/secret',
                 outside + '/secret', '/' + outside + '/secret', '//etc/passwd', '/etc/passwd',
                 '~/../../etc/passwd', '~root/.profile', '%2e%2e/outside/secret',
                 '/proc/self/root/etc/passwd', '/proc/self/cwd', '/proc/1/root', '/dev/sda',
                 '.../outside/secret'):
        all_commands(c, path.encode(), False)
    c.must('CWD ' + '../' * 100, 250)
    assert b'"/"' in c.must('PWD', 257)[0]
    for pattern in ('../*', '/../*', '*/../*', '../out*/*', 'd/../../*/secret', '/proc/*/root/*',
                    '*/../../../../etc/pass*', '..*', '.*/secret', '{..,d}/*'):
        for word in ('LIST', 'NLST', 'STAT'):
            if word == 'STAT':
                got = c.ask('STAT ' + pattern)
                listed = got[0] != 450 and said(got)  # the reply names the missing file
                assert not listed or (b'secret' not in listed and b'passwd' not in listed), got
                continue
            conn = socket.create_connection(c.passive())
            if c.code('%s %s' % (word, pattern)) == 150:
                data = c.take(conn)
                assert b'secret' not in data and b'passwd' not in data, (pattern, data)
                c.expect_reply(226)
            conn.close()


def links():
    """Links to outside, of any form, are not followed; they can be removed."""
    targets = {'abs': outside, 'rel': '../outside', 'deep': '../../../../../../../..' + outside,
               'file': outside + '/secret', 'relfile': '../outside/secret', 'proc': '/proc/self/root',
               'fd': '/proc/self/fd', 'cwd': '/proc/self/cwd', 'top': '/', 'up': '..',
               'twice': '../one', 'loop': 'loop'}
    os.mkdir(root + '/links')
    os.symlink(outside, root + '/one')
    c = connect()
    for name, target in targets.items():
        path = '/links/' + name
        for below in ('', '/secret', '/etc/passwd', '/../outside/secret', '/new'):
            os.symlink(target, root + path)
            # Commands on the link itself do not leave the root; nor does "..", a link to the root's
            # parent.
            all_commands(c, (path + below).encode(), below == '' or name == 'up')
            if os.path.lexists(root + path):
                os.unlink(root + path)
    os.rmdir(root + '/links')
    os.unlink(root + '/one')


def by_client():
    """No command makes a link, not even SITE SYMLINK and SITE LINK of other servers."""
    c = connect()
    for line in ('SITE SYMLINK /etc/passwd x', 'SITE LINK /etc/passwd x', 'SYMLINK /etc x',
                 'SITE EXEC ls', 'SITE CPFR /file', 'SITE CPTO /x', 'SITE CHROOT /',
                 'SITE CHMOD 777 /proc/self/mem'):
        got = c.ask(line)
        assert got[0] >= 500, (line, got)


def hard_links():
    """A hard link in the root to a file outside: an upload replaces the name and leaves the outside
    file alone."""
    os.link(outside + '/linked', root + '/hard')
    before.update(state())
    c = connect()
    c.put('STOR hard', b'new', 'EPSV')
    with open(outside + '/linked', 'rb') as f:
        assert f.read() == b'linked\n'
    assert c.get('RETR hard') == b'new'
    c.must('DELE hard', 250)
    before.update(state())


def hard_links_in_place():
    """A file does not show its other names. Commands that write in place or change attributes
    affect the file, if its permissions allow it; commands that replace or remove a name affect
    only the name."""
    other, here = outside + '/linked', root + '/hard'

    def content():
        with open(other, 'rb') as f:
            return f.read()

    os.link(other, here)
    c = connect()
    c.put('APPE hard', b'appended')
    assert content() == b'linked\nappended', content()
    c.must('REST 7', 350)
    c.put('STOR hard', b'REST')
    assert content() == b'linked\nRESTnded', content()
    c.must('SITE CHMOD 600 hard', 200)
    c.must('MFMT 20200101000000 hard', 213)
    st = os.stat(other)
    assert st.st_mode & 0o7777 == 0o600 and st.st_mtime == 1577836800, st
    # The file's permissions also apply through this name.
    c.must('SITE CHMOD 400 hard', 200)
    for restart in (0, 3):
        conn = socket.create_connection(c.passive())
        if restart:
            c.must('REST %d' % restart, 350)
        got = c.ask('STOR hard' if restart else 'APPE hard')
        assert got[0] in (550, 553), got
        conn.close()
    before.update(state())
    c.must('RNFR hard', 350)
    c.must('RNTO hard2', 250)
    c.put('STOR hard2', b'a file of its own')
    assert content() == b'linked\nRESTnded'
    before.update(state())  # it has lost one name
    c.must('SITE CHMOD 777 hard2', 200)
    for mode in ('4777', '2777', '1777', '7777'):
        got = c.ask('SITE CHMOD %s hard2' % mode)
        assert got[0] == 550 and b'cannot be set' in said(got), got
    os.chmod(here + '2', 0o6755)
    c.must('SITE CHMOD 4711 hard2', 200)
    assert os.stat(here + '2').st_mode & 0o7777 == 0o4711
    c.must('SITE CHMOD 777 hard2', 200)
    c.must('MFMT 20210101000000 hard2', 213)
    c.put('APPE hard2', b'more')
    look()
    os.link(other, here)
    before.update(state())
    c.must('DELE hard', 250)
    c.must('DELE hard2', 250)
    assert content() == b'linked\nRESTnded' and os.stat(other).st_nlink == 1
    before.update(state())


def names(tls=False):
    """Invalid names."""
    c = connect(tls)
    for size in (255, 256, 4095, 4096, 8192, 30000):
        all_commands(c, b'n' * size, size == 255)
        all_commands(c, b'd/' * (size // 2), size <= 256)
        all_commands(c, b'../' * (size // 3) + b'outside/secret', False)
    for word in (b'RETR', b'CWD', b'MKD', b'SITE CHMOD 644', b'LIST', b'STAT', b'HASH', b'USER'):
        assert c.code(word + b' ' + b'n' * 100000) == 500, word
        c.must('NOOP', 200)
    for word in (b'RETR', b'STOR', b'MKD', b'CWD', b'DELE', b'LIST', b'RNTO', b'SITE CHMOD 644'):
        assert c.code(word + b' file\0x') == 501, word
        assert c.code(word + b' \0') == 501, word
        c.must('NOOP', 200)
    c.must(b'OPTS NAMES PERCENT', 200)
    for word in (b'RETR', b'STOR', b'MKD', b'CWD', b'DELE', b'LIST', b'STAT', b'SITE CHMOD 644'):
        c.must(word + b' a%00b', 501)
        c.must(word + b' %2', 501)
        c.must(word + b' %zz', 501)
    c.must(b'CWD %2e%2e%2f%2e%2e', 250)
    assert b'"/"' in c.must('PWD', 257)[0]
    all_commands(c, b'%2e%2e/outside/secret', False)
    # Line ends in names: after OPTS the client can escape them, and each reply stays one line.
    c.must('MKD cr%0Dlf%0A200%20forged', 257)
    c.must('CWD cr%0Dlf%0A200%20forged', 250)
    c.must('CWD /', 250)
    c.must('OPTS NAMES PLAIN', 200)
    for command in ('LIST', 'NLST', 'MLSD', 'LIST -R'):
        assert b'forged' not in c.get(command), command
    assert not any(line.startswith(b'200') for line in c.must('STAT /', 212))
    c.must('OPTS NAMES PERCENT', 200)
    for command in ('LIST', 'NLST', 'MLSD', 'STAT /'):
        data = c.get(command) if command != 'STAT /' else b'\n'.join(c.must(command, 212))
        assert b'cr%0Dlf%0A200%20forged' in data, (command, data)
    c.must('RMD cr%0Dlf%0A200%20forged', 250)
    # A CR that does not end a line is not allowed in a name.
    for name in (b'a\rb', b'\rab', b'ab\r', b'a\r\0b', b'\r', b'a\r\rb'):
        there = sorted(os.listdir(root))
        c.send(b'MKD ' + name)
        code = c.reply()[0]
        assert code >= 500, (name, code)
        assert sorted(os.listdir(root)) == there, (name, os.listdir(root))
        c.must('NOOP', 200)
    # Two commands in one packet, as if in one argument.
    c.send(b'MKD x\r\nRMD x')
    c.expect_reply(257)
    c.expect_reply(250)


def telnet():
    """IAC is doubled in names, in both directions; Telnet commands are not part of a name."""
    c = connect()
    c.must(b'MKD i\xff\xffac', 257)
    assert os.path.isdir(os.fsencode(root) + b'/i\xffac')
    assert b'"/i\xffac"' in c.must(b'CWD i\xff\xffac', 250)[0] + c.must('PWD', 257)[0]
    c.must('CWD /', 250)
    assert b'i\xffac\r\n' in c.get('NLST')
    c.send(b'STAT /')
    raw = b''
    while b'\n212 ' not in raw:
        raw += c.sock.recv(65536)
    assert b'i\xff\xffac\r\n' in raw, raw
    c.must(b'RM\xff\xf1D i\xff\xffac', 250)
    c.must(b'\xff\xfb\x01\xff\xfd\x03NOOP', 200)
    c.must(b'NO\xff\xfa\x18\x00abc\xff\xf0OP', 200)
    c.must(b'NOOP \xff\xff', 501)


def swapped():
    """A directory is repeatedly exchanged with a link to outside, by rename, while commands use
    paths through it."""
    racer = subprocess.Popen([sys.executable, '-c', '''
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
root, outside = sys.argv[1:]
os.symlink(outside, root + "/swap.link")
os.mkdir(root + "/swap")
os.mkdir(root + "/swap/sub")
open(root + "/swap/secret", "w").write("harmless")
print("ready", flush=True)
while os.getppid() == int(sys.argv[3]) if len(sys.argv) > 3 else True:
    # Both names in one step (RENAME_EXCHANGE).
    if libc.renameat2(-100, (root + "/swap").encode(), -100, (root + "/swap.link").encode(), 2):
        sys.exit(os.strerror(ctypes.get_errno()))
''', root, outside], stdout=subprocess.PIPE)
    try:
        assert racer.stdout.readline() == b'ready\n'
        c = connect()
        end = time.monotonic() + 5
        rounds = refused = 0
        while time.monotonic() < end or not (refused and rounds > refused):
            got = c.ask('CWD /swap')
            assert got[0] in (250, 550), got
            rounds += 1
            refused += got[0] == 550
            for line in ('SIZE secret', 'MLST secret', 'STAT secret', 'HASH secret',
                         'SITE CHMOD 777 secret', 'MFMT 20200101000000 secret', 'SIZE ../secret',
                         'MKD made', 'RMD made', 'STAT /swap/', 'STAT /swap/*', 'SIZE sub/../secret',
                         'DELE nothing', 'RMD outside-dir', 'RNFR secret', 'RNTO renamed',
                         'RNFR renamed', 'RNTO secret'):
                got = c.ask(line)
                assert SECRET not in said(got), (line, got)
                assert line[:4] != 'STAT' or b'outside-dir' not in said(got), (line, got)
            c.must('CWD /', 250)
            conn = socket.create_connection(c.passive())
            got = c.ask('RETR /swap/secret')
            if got[0] == 150:
                data = c.take(conn)
                assert SECRET not in data, data
                assert c.reply()[0] == 226
            conn.close()
            conn = socket.create_connection(c.passive())
            got = c.ask('STOR /swap/up')
            if got[0] == 150:
                conn.sendall(b'up')
                conn.close()
                c.reply()
            conn.close()
            conn = socket.create_connection(c.passive())
            got = c.ask('LIST -R /swap/')
            if got[0] == 150:
                data = c.take(conn)
                assert b'outside-dir' not in data, data
                c.reply()
            conn.close()
            assert time.monotonic() < end + 50, (rounds, refused)
        print('# %d rounds, %d refused' % (rounds, refused))
    finally:
        racer.kill()
        racer.wait()


def swapped_last():
    """A name alternates between a link to outside and a file, while commands use it as the last
    part of a path."""
    racer = subprocess.Popen([sys.executable, '-c', '''
import os, sys
root, outside, parent = sys.argv[1:]
while os.getppid() == int(parent):
    os.symlink(outside + "/secret", root + "/next")
    os.rename(root + "/next", root + "/last")
    with open(root + "/next", "w") as f:
        f.write("harmless")
    os.rename(root + "/next", root + "/last")
''', root, outside, str(os.getpid())])
    try:
        c = connect()
        end = time.monotonic() + 3
        late = time.monotonic() + 60
        seen = set()
        words = ('APPE', 'STOR', 'REST', 'RETR', 'SITE CHMOD 777', 'MFMT 20200101000000', 'HASH',
                 'DELE', 'RNFR')
        # Every command that follows links must meet a link and a plain file; the others need not.
        both = {(w, ok) for w in words[:1] + words[2:-2] for ok in (True, False)}
        while time.monotonic() < end or not both <= seen:
            for word in words:
                if word in ('APPE', 'STOR', 'REST', 'RETR'):
                    conn = socket.create_connection(c.passive())
                    if word == 'REST':
                        c.must('REST 1', 350)
                    got = c.ask(('STOR' if word == 'REST' else word) + ' /last')
                    if got[0] == 150:
                        if word == 'RETR':
                            data = c.take(conn)
                            assert SECRET not in data, data
                        else:
                            conn.sendall(b'overwritten')
                            conn.close()
                        assert c.reply()[0] in (226, 451, 550, 553), word
                    conn.close()
                else:
                    got = c.ask(word + ' /last')
                    assert SECRET not in said(got), got
                if word == 'RNFR' and got[0] == 350:
                    c.ask('RNTO /moved')
                    if c.code('RNFR /moved') == 350:
                        c.must('RNTO /last', 250)
                seen.add((word, got[0] < 400))
                look()
            assert time.monotonic() < late, both - seen
    finally:
        racer.kill()
        racer.wait()
    for name in ('next', 'last'):
        if os.path.lexists(root + '/' + name):
            os.unlink(root + '/' + name)


def growing():
    """A link at the destination of an upload is replaced, not followed."""
    os.symlink(outside + '/secret', root + '/victim')
    c = connect()
    c.put('STOR victim', b'mine')
    assert not os.path.islink(root + '/victim')
    c.must('DELE victim', 250)
    os.symlink(outside + '/made-by-append', root + '/victim')
    conn = socket.create_connection(c.passive())
    got = c.ask('APPE victim')
    assert got[0] == 550, got
    conn.close()
    c.must('REST 1', 350)
    conn = socket.create_connection(c.passive())
    got = c.ask('STOR victim')
    assert got[0] == 553, got
    conn.close()
    c.must('DELE victim', 250)


def part_name():
    """The name of the partial file of "up", left by an interrupted upload."""
    data = top + '/data'
    with open(data, 'wb') as f:
        f.write(os.urandom(24 << 20))
    put = subprocess.Popen(['rftp', 'put', '-q', '--accept-new', '--rate', '2M', data,
                            'rftp://127.0.0.1:%d/race/up' % port])
    late = time.monotonic() + 60
    found = []
    while not found:
        assert time.monotonic() < late and put.poll() is None
        found = [n for n in os.listdir(root + '/race') if n.startswith('.rftp-') and n[-2:] != '.j']
    put.kill()
    put.wait()
    return found[0]


def swapped_parts():
    """The names of partial files, links, directories and files in use are exchanged with links to
    outside, for RFTP_SWAP_SECONDS, with the seed RFTP_SWAP_SEED."""
    seconds = float(os.environ.get('RFTP_SWAP_SECONDS', '6'))
    seed = int(os.environ.get('RFTP_SWAP_SEED', str(random.randrange(1 << 31))))
    print('# RFTP_SWAP_SEED=%d RFTP_SWAP_SECONDS=%g' % (seed, seconds))
    race, source, beside = root + '/race', top + '/source', top + '/beside'
    os.mkdir(race)
    os.mkdir(beside)
    part = part_name()
    os.makedirs(source + '/sub')
    for name in ('up', 'f', 'sub/g'):
        with open(source + '/' + name, 'w') as f:
            f.write('content')
    os.link(source + '/f', source + '/h')
    os.symlink('f', source + '/l')
    os.chmod(source + '/sub', 0o555)
    everything = [part, part + '.j', 'up', 'sub', 'f', 'h', 'l']
    try:
        # To hit the short race of a partial file, only its name is swapped at first.
        swap_during(seconds / 2, [part], beside, seed, lambda: stores(100))
        swap_during(seconds / 2, everything, beside, seed, lambda: stores(20) + bulk_puts(source))
    finally:
        subprocess.run(['rm', '-rf', race, source, beside, top + '/data'], check=True)


def swap_during(seconds, names, beside, seed, run):
    """Calls run repeatedly while these names in the directory race are swapped."""
    up = root + '/race/up'
    if os.path.lexists(up):
        os.unlink(up)  # an upload may have renamed the swapper's link to it
    with open(up, 'x'):
        pass
    swapper = subprocess.Popen([sys.executable, os.path.dirname(__file__) + '/../support/link-swapper.py',
                                outside, beside, str(seed)] + [root + '/race/' + n for n in names],
                               stdout=subprocess.PIPE)
    end = time.monotonic() + seconds
    done = 0
    try:
        assert swapper.stdout.readline() == b'ready\n'
        while time.monotonic() < end:
            done += run()
            look()
        assert swapper.poll() is None
    finally:
        swapper.kill()
        swapper.wait()
    print('# %d uploads' % done)


def stores(n):
    """Returns the number of accepted uploads by STOR, of n."""
    c = connect()
    taken = 0
    for _ in range(n):
        conn = socket.create_connection(c.passive())
        if c.code('STOR /race/up') == 150:
            conn.sendall(b'content')
            conn.close()
            c.reply()
            taken += 1
        conn.close()
    return taken


def bulk_puts(source):
    """The uploads may fail, but rftp must not crash."""
    for options in (['-r'], ['-ra', '--xattrs', '--no-resume'], ['-r', '--inplace']):
        rc = subprocess.run(['rftp', 'put', '-q', '--accept-new', '--retries', '0'] + options +
                            [source + '/', 'rftp://127.0.0.1:%d/race/' % port],
                            stderr=subprocess.DEVNULL, timeout=60).returncode
        assert 0 <= rc < 128, rc
    return 3


def part_names():
    """A client may not create, change or rename to the name of a partial file; it may remove one
    that no writer holds."""
    os.mkdir(root + '/own')
    part = '.rftp-' + '0123456789abcdef' * 2
    c = connect()
    c.must('MKD own/d', 257)
    for name in (part, part + '.j', 'd/../' + part, part + '/x'):
        for line in ('MKD', 'RMD', 'RNFR', 'RMDA', 'SITE CHMOD 777', 'SITE UTIME 202001010101',
                     'MFMT 20200101000000'):
            got = c.ask('%s /own/%s' % (line, name))
            assert got[0] == 550 and b'kept for unfinished files' in said(got), (line, got)
        for line in ('STOR', 'APPE'):
            got = c.ask('%s /own/%s' % (line, name))
            assert got[0] in (550, 553), (line, got)
        c.must('RNFR /own/d', 350)
        got = c.ask('RNTO /own/' + name)
        assert got[0] == 553, got
    os.makedirs(top + '/' + part)
    for source, where in ((top + '/' + part, '/own/'), (root + '/d', '/own/' + part)):
        done = subprocess.run(['rftp', 'put', '-qr', '--accept-new', source,
                               'rftp://127.0.0.1:%d%s' % (port, where)],
                              stderr=subprocess.PIPE, timeout=60)
        assert done.returncode and b'kept for unfinished files' in done.stderr, done
    os.rmdir(top + '/' + part)
    assert os.listdir(root + '/own') == ['d'], os.listdir(root + '/own')
    with open(root + '/own/' + part, 'w') as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        c.must('DELE /own/' + part, 450)
    c.must('DELE /own/' + part, 250)
    os.symlink(outside + '/secret', root + '/own/' + part)
    c.must('DELE /own/' + part, 250)
    c.must('RMDA /own', 250)


attempt('".." and absolute paths', dots)
attempt('links', links)
attempt('commands of other servers', by_client)
attempt('hard links', hard_links)
attempt('hard links, in place', hard_links_in_place)
attempt('names that are too long, and with NUL, CR, LF', names)
attempt('the same by TLS', lambda: names(True))
attempt('IAC', telnet)
attempt('uploads onto links', growing)
attempt('a directory that becomes a link', swapped)
attempt('a file that becomes a link', swapped_last)
attempt('names of parts', part_names)
attempt('parts, links and directories that become links', swapped_parts)
