#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every FTP command and every kind of bulk entry, with an account that has some rights, in a
directory with files of others. The commands come from HELP, the entries from bulk.h: a command
or entry without a row here fails.

rights-client.py PORT ROOT RIGHT: anonymous has RIGHT to ROOT on the server (--plain) on PORT."""
import os
import re
import shutil
import socket
import struct
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import phony  # noqa: E402
from phony import (ASK, CONTENTS, DIR, DIREND, FILE, HARD, HARDLINKS, LINK, LINKED, MODES,  # noqa: E402
                   RECURSIVE, TIMES, TOP, entry)
from raw_ftp import Raw  # noqa: E402

port, root, right = int(sys.argv[1]), sys.argv[2], sys.argv[3]
OWNER, XATTRS, INPLACE, RESUME = 8, 16, 64, 256
OVERWRITE, SAME = 0, 3
SYNC, DELETE, NAME = 1 << 19, 1, 6
SEE, CREATE, CHANGE, REFUSES = 'see', 'create', 'change', 'no right is enough'
# The table of rftpd(8).
MAY = {'ro': {SEE}, 'rw': {SEE, CREATE, CHANGE}, 'nodelete': {SEE, CREATE}, 'upload': {CREATE}}[right]
# The times that the commands and entries below set.
GIVEN_TIMES = (1500000000, 1577836800, 1577840460, 1577840461)
PART = '.rftp-' + '0123456789abcdef' * 2


def attempt(what, run):
    bad = None
    try:
        run()
    except Exception as e:  # any exception is a finding of this test
        bad = '%s: %r' % (type(e).__name__, e)
        print('# ' + bad[:1000])
    print('%s %s: %s' % ('not ok' if bad else 'ok', right, what), flush=True)


# ---- the files ----

def scene():
    shutil.rmtree(root)
    os.makedirs(root + '/theirs/sub')
    for name in ('file', 'secret', 'sub/below'):
        with open(root + '/theirs/' + name, 'w') as f:
            f.write('bytes of another')
        os.chmod(root + '/theirs/' + name, 0o640)
        os.utime(root + '/theirs/' + name, (1500000000, 1500000000))
    with open(root + '/theirs/empty', 'w'):
        pass
    os.utime(root + '/theirs/empty', (1500000000, 1500000000))
    os.symlink('file', root + '/theirs/link')
    os.mkdir(root + '/mine')
    os.chmod(root + '/theirs', 0o750)


def state():
    """The state that a client could change. A new name in a directory does not count as a change of
    that directory."""
    found = {}
    for where, dirs, files in os.walk(root + '/theirs'):
        for name in ['.'] + files:
            path = os.path.normpath(os.path.join(where, name))
            st = os.lstat(path)
            known = (st.st_mode, st.st_uid, st.st_gid, st.st_ino)
            if not os.path.isdir(path):
                known += (st.st_nlink, st.st_size, st.st_mtime_ns, st.st_ctime_ns)
            else:
                known += (st.st_mtime in GIVEN_TIMES, tuple(os.listxattr(path)))
            found[path] = known
    return found


def judge(what, before, needs, ok, appends=False, makes=0):
    """ok: the client was told of success. makes: number of new names that another right allows."""
    after = state()
    kept = all(after.get(path) == known for path, known in before.items())
    new = [path for path in after if path not in before]
    if needs not in MAY:
        assert not ok, (what, 'was done')
        assert kept and len(new) <= (makes if CREATE in MAY else 0), (what, before, after)
    else:
        assert ok, (what, 'was refused')
    if CHANGE not in MAY and not appends:
        assert kept, (what, {p: (k, after.get(p)) for p, k in before.items() if after.get(p) != k})


# ---- FTP ----

# The right that each command needs, and its arguments. None: no right; the command shows or sets
# values of the session or the client.
COMMANDS = {
    'USER': None, 'PASS': None, 'AUTH': None, 'PBSZ': None, 'PROT': None, 'FEAT': None,
    'OPTS': None, 'SYST': None, 'TYPE': None, 'MODE': None, 'STRU': None, 'ALLO': None,
    'PWD': None, 'CDUP': None, 'EPSV': None, 'PASV': None, 'PORT': None, 'EPRT': None,
    'REST': None, 'ABOR': None, 'NOOP': None, 'HELP': None, 'QUIT': None,
    'CWD': (None, ['theirs']), 'SIZE': (None, ['theirs/file']), 'MLST': (None, ['theirs/file']),
    'RETR': (SEE, ['theirs/file']), 'HASH': (SEE, ['theirs/file']),
    'MLSD': (SEE, ['theirs', '']), 'LIST': (SEE, ['theirs', '-R', 'theirs/file', 'theirs/*']),
    'NLST': (SEE, ['theirs', '-R', 'theirs/*']),
    'STOR': (CREATE, ['theirs/new']), 'APPE': (CREATE, ['theirs/new']),
    'MKD': (CREATE, ['theirs/new']), 'RMD': (CHANGE, ['theirs/sub.empty']),
    'DELE': (CHANGE, ['theirs/file', 'theirs/link']), 'RMDA': (CHANGE, ['theirs/sub', 'theirs/file']),
    'RNFR': (CHANGE, ['theirs/file', 'theirs/sub']), 'RNTO': (CHANGE, ['mine/moved']),
    'MFMT': (CHANGE, ['20200101000000 theirs/file', '20200101000000 theirs']),
    # These need another right with other arguments.
    'MDTM': (None, ['theirs/file']), 'STAT': (SEE, ['theirs', 'theirs/file']), 'SITE': (None, ['HELP']),
    'AVBL': (None, ['theirs', '']),
    'BULK': None, 'GIVE': None, 'TAKE': None,
}
MORE = [
    (CHANGE, 'STOR', 'theirs/file', 0), (CHANGE, 'STOR', 'theirs/file', 3),
    (CREATE, 'STOR', 'theirs/file', 16), (CREATE, 'APPE', 'theirs/file', 0),
    (CHANGE, 'STOR', 'theirs/link', 0),
    (CHANGE, 'MDTM', '20200101000000 theirs/file', 0), (CHANGE, 'MDTM', '20200101000000 theirs', 0),
    (CHANGE, 'SITE', 'CHMOD 0 /', 0), (CHANGE, 'SITE', 'CHMOD 600 theirs/file', 0),
    (CHANGE, 'SITE', 'CHMOD 777 theirs', 0), (CHANGE, 'SITE', 'UTIME 202001010101 theirs/file', 0),
    (CHANGE, 'SITE', 'UTIME theirs/file 20200101010101 20200101010101 20200101010101 UTC', 0),
]


def command(needs, verb, argument, rest):
    scene()
    if verb == 'RMD':
        os.mkdir(root + '/theirs/sub.empty')
    before = state()
    top = os.stat(root).st_mode
    c = Raw(port, login=('anonymous', 'x@'))
    c.must('TYPE I', 200)
    line = (verb + ' ' + argument).rstrip()
    data = None
    if verb in ('RETR', 'STOR', 'APPE', 'MLSD', 'LIST', 'NLST'):
        data = socket.create_connection(c.passive())
    if rest:
        c.must('REST %d' % rest, 350)
    if verb == 'RNTO':
        c.ask('RNFR theirs/file')
    code, text = c.ask(line)
    if code == 150:
        if verb in ('STOR', 'APPE'):
            data.sendall(b'more')
            data.close()
            code = c.reply()[0]
        else:
            got = c.take(data)
            assert SEE in MAY or not got, got
            code = c.reply()[0]
    if SEE not in MAY:
        assert not any(b'secret' in t for t in text), text
    ok = code < 400
    if code == 350 and verb == 'RNFR':
        ok = c.code('RNTO mine/moved') == 250
    if needs is None:
        assert ok, (line, code, text)
        assert state() == before, line
    else:
        appends = needs == CREATE and 'file' in argument
        judge(line, before, needs, ok, appends)
        if appends and ok:
            with open(root + '/theirs/file') as f:
                assert f.read() == 'bytes of anothermore'
        elif needs == CHANGE and ok:
            assert state() != before or os.stat(root).st_mode != top, (line, 'did nothing')
    if CHANGE not in MAY:
        assert os.stat(root).st_mode == top
    c.sock.close()
    if data:
        data.close()


def commands():
    listed = [re.match(rb' ([A-Z]+)', line)[1].decode() for line in
              Raw(port, login=('anonymous', 'x@')).must('HELP', 214) if line[:1] == b' ']
    assert len(listed) > 40, listed
    for verb in listed:
        assert verb in COMMANDS, '%s is a new command: say here what it needs' % verb
    for verb in COMMANDS:
        assert verb in listed, '%s is no command any more' % verb
    for verb, row in COMMANDS.items():
        if row:
            for argument in row[1]:
                attempt('%s %s' % (verb, argument), lambda: command(row[0], verb, argument, 0))
    for needs, verb, argument, rest in MORE:
        attempt('%s %s, from %d' % (verb, argument, rest),
                lambda: command(needs, verb, argument, rest))


# ---- bulk ----

XATTR = struct.pack('>H', 6) + b'user.x' + struct.pack('>I', 1) + b'v'


def hard(name, to):
    return entry(HARD, 2, name, flags=TOP, tail=struct.pack('>Q', to))


def link(name, target=b'elsewhere', **kw):
    return entry(LINK, 1, name, flags=TOP, tail=struct.pack('>I', len(target)) + target + b'\0', **kw)


# Kind, description, needed right, and the entries. None: it changes no existing file.
# All files are empty, so that no blocks are needed.
ENTRIES = [
    (FILE, 'a new file', CREATE, [entry(FILE, 1, b'new', flags=TOP)]),
    (FILE, 'a file that exists', CHANGE, [entry(FILE, 1, b'file', flags=TOP, mode=0o666)]),
    (FILE, 'a file over a link', CHANGE, [entry(FILE, 1, b'link', flags=TOP)]),
    (DIR, 'a new directory', CREATE, [entry(DIR, 1, b'new', flags=TOP, mode=0o700, attrs=XATTR),
                                      entry(DIREND, 1)]),
    (DIR, 'a directory that exists', None, [entry(DIR, 1, b'sub', flags=TOP, mode=0o777, attrs=XATTR),
                                            entry(DIREND, 1)]),
    (DIR, 'the destination itself', None, [entry(DIR, 1, b'x', flags=TOP | CONTENTS, mode=0o777,
                                                 attrs=XATTR), entry(DIREND, 1)]),
    (DIREND, 'a file in a directory that exists', CREATE,
     [entry(DIR, 1, b'sub', flags=TOP, mode=0), entry(FILE, 2, b'new', parent=1), entry(DIREND, 1)]),
    (LINK, 'a new link', CREATE, [link(b'new')]),
    (LINK, 'a link over a file', CHANGE, [link(b'file')]),
    (LINK, 'a link over a link', CHANGE, [link(b'link')]),
    (HARD, 'a hard link to a new file', CREATE,
     [entry(FILE, 1, b'new', flags=TOP | LINKED), hard(b'new2', 1)]),
    (HARD, 'a hard link over a file', CHANGE,
     [entry(FILE, 1, b'new', flags=TOP | LINKED), hard(b'file', 1)]),
    (HARD, 'a hard link to a file that exists', CHANGE,
     [entry(FILE, 1, b'file', flags=TOP | LINKED), hard(b'new2', 1)]),
    (HARD, 'a hard link to a file that is passed over', CHANGE,
     [entry(FILE, 1, b'empty', flags=TOP | LINKED | ASK), hard(b'new2', 1)]),
]
REFUSED = [ # to every account
    (FILE, 'a file', [entry(FILE, 1, PART.encode(), flags=TOP)]),
    (DIR, 'a directory', [entry(DIR, 1, PART.encode(), flags=TOP), entry(DIREND, 1)]),
    (LINK, 'a link', [link(PART.encode())]),
    (LINK, 'a link as a journal', [link(PART.encode() + b'.j')]),
    (HARD, 'a hard link', [entry(FILE, 1, b'new', flags=TOP | LINKED), hard(PART.encode(), 1)]),
]


def put(entries, flags, policy):
    """Returns the number of failed entries, or None if the request was refused."""
    c = phony.BulkClient(port)
    try:
        code, text = c.bulk(base=b'theirs/', flags=flags, policy=policy)
        if code != 150:
            assert code == 550 and b'Permission denied' in text, (code, text)
            return None
        c.close()
        c = phony.BulkClient(port)
        c.begin(base=b'theirs/', flags=flags, policy=policy)
        c.entries(*entries)
        c.d.close()
        c.send(phony.frame(phony.WALKED) + phony.frame(
            phony.SENT, phony.counts(entries=sum(e[4] != DIREND for e in entries))))
        p = c.frames_until(phony.SUMMARY)[1]
        c.send(phony.frame(phony.SUMMARY, phony.counts()) + phony.frame(phony.END))
        c.frames_until(phony.END)
        assert c.reply()[0] == 226
        return struct.unpack('>11Q', p[:88])[2]
    finally:
        c.close()


def bulk(needs, entries, extra, policy):
    scene()
    before = state()
    failed = put(entries, RECURSIVE | MODES | TIMES | HARDLINKS | extra, policy)
    ok = failed == 0
    if needs is None:
        assert ok == (CREATE in MAY), failed
        needs = CREATE
    if extra == INPLACE and b'link\0' in entries[0] and entries[0][4] == FILE:
        needs = REFUSES  # this policy does not replace it
    judge(entries, before, needs, ok, makes=len(entries) - 1)


def part_name(entries):
    scene()
    assert put(entries, RECURSIVE | MODES | HARDLINKS, OVERWRITE) in (None, 1)
    assert not [n for n in os.listdir(root + '/theirs') if n.startswith('.rftp-')]


def bulk_entries():
    with open(os.path.dirname(__file__) + '/../../src/proto/bulk.h') as f:
        kinds = dict(re.findall(r'\bENTRY_([A-Z_]+) = (\d+),', f.read()))
    kinds.pop('NAME')  # see removals()
    assert {int(k) for k in kinds.values()} == {e[0] for e in ENTRIES}, kinds
    for extra, name in ((0, 'put'), (OWNER | XATTRS, 'put -a --xattrs'), (INPLACE, 'put --inplace'),
                        (RESUME, 'put with parts')):
        for _, what, needs, entries in ENTRIES:
            policy = SAME if 'passed over' in what else OVERWRITE
            attempt('%s: %s' % (name, what), lambda: bulk(needs, entries, extra, policy))
    for _, what, entries in REFUSED:
        attempt('%s with the name of a part' % what, lambda: part_name(entries))


def transfers():
    scene()
    before = state()
    for op, needs in ((0, CREATE), (1, SEE)):
        c = phony.BulkClient(port)
        code, text = c.bulk(op=op, base=b'', sources=[] if op == 0 else [b'theirs/file'])
        assert (code == 150) == (needs in MAY), (op, code, text)
        assert code in (150, 550), (code, text)
        c.close()
    assert state() == before


def sync_by_hand(names):
    """rftp sync --delete of a source that says that it has these names only. Returns True if the
    request was accepted."""
    c = phony.BulkClient(port)
    try:
        fields = struct.pack('>BQ', DELETE, 2 ** 64 - 1) + phony.s32(b'')
        tail = struct.pack('>I', len(fields)) + fields
        flags = RECURSIVE | MODES | TIMES | HARDLINKS | SYNC
        code, text = c.bulk(base=b'theirs', flags=flags, policy=SAME, tail=tail)
        if code != 150:
            assert code == 550 and b'Permission denied' in text, (code, text)
            return False
        c.close()
        c = phony.BulkClient(port)
        c.begin(base=b'theirs', flags=flags, policy=SAME, tail=tail)
        c.entries(entry(DIR, 1, b'theirs', flags=TOP | CONTENTS, mode=0o750),
                  *(name_entry(1, n) for n in names), entry(DIREND, 1))
        c.d.close()
        c.send(phony.frame(phony.WALKED) + phony.frame(phony.SENT, phony.counts(entries=1)))
        c.frames_until(phony.SUMMARY)
        c.send(phony.frame(phony.SUMMARY, phony.counts()) + phony.frame(phony.END))
        c.frames_until(phony.END)
        assert c.reply()[0] in (226, 451)
        return True
    finally:
        c.close()


def name_entry(parent, name):
    body = struct.pack('>BBHQQ', NAME, 0, 0, 0, parent) + phony.s16z(name)
    return struct.pack('>I', len(body)) + body


def files_of(found):
    """Without directories: a sync may set their times before it fails."""
    return {path: known for path, known in found.items() if not os.path.isdir(path)}


def removals():
    # The last two end the transfer: a path is no name, and an empty source needs --force.
    for names, left in (((b'file', b'sub'), {'file', 'sub'}), ((b'file', b'../mine'), None), ((), None)):
        scene()
        before = files_of(state())
        try:
            accepted = sync_by_hand(names)
            assert left or not accepted, 'the transfer went well'
        except (ConnectionError, EOFError):
            assert not left, 'the transfer failed'
            accepted = True
        assert accepted == (CHANGE in MAY), accepted
        if accepted and left:
            assert set(os.listdir(root + '/theirs')) == left, os.listdir(root + '/theirs')
        else:
            assert files_of(state()) == before, (before, state())
        assert os.path.isdir(root + '/mine')


def names_elsewhere():
    """Entries of names without sync --delete are refused, and change nothing."""
    scene()
    before = state()
    c = phony.BulkClient(port)
    try:
        code, _ = c.bulk(base=b'theirs/', flags=RECURSIVE)
        c.close()
        assert (code == 150) == (CREATE in MAY), code
        if code != 150:
            return
        c = phony.BulkClient(port)
        c.begin(base=b'theirs/', flags=RECURSIVE)
        c.entries(entry(DIR, 1, b'new', flags=TOP), name_entry(1, b'file'))
        outcome = c.ends()  # not earlier: the server still removes what the transfer has made
        assert 'bad' not in outcome, outcome
    finally:
        c.close()
    assert {k: v for k, v in state().items() if '/new' not in k} == before


commands()
attempt('bulk transfers', transfers)
attempt('removals by sync', removals)
attempt('names of sync in a put', names_elsewhere)
bulk_entries()
