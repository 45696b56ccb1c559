# Both ends of rftp's protocol, written from rftp-protocol(7) alone: enough to send valid and
# invalid messages. For the other phony-*.py.
import hashlib, hmac, os, re, socket, struct, sys, threading

# The version of this source tree; everything else here comes from the manual page.
MAJOR, MINOR = (
    int(re.search(rf'^#define BULK_{part} (\d+)$', header, re.M).group(1))
    for header in [open(os.path.join(os.path.dirname(__file__), '../../src/proto/bulk.h')).read()]
    for part in ('MAJOR', 'MINOR'))

AGREE, ENTRIES, VERDICTS, RUNS, SIZES, FAILED, DONE, SENT, BEAT, ABORT, SUMMARY, END, DATA, \
    CREDIT, KEPT, READY = range(1, 17)
WALKED = 129
FEATURES = b'recursive,modes,times,owner,xattrs,follow,inplace,several,resume,hardlinks,sparse,' \
    b'dry-run,mkdirs,into,sequential,again'


def bulk_feature(major=MAJOR, minor=MINOR, features=FEATURES):
    """The FEAT line of the bulk mode."""
    return b' BULK %d.%d %s\r\n' % (major, minor, features)


FILE, DIR, LINK, HARD, DIREND = range(1, 6)
ASK, NOSIZE, TOP, SPARSE, CONTENTS, LINKED = 1, 2, 4, 8, 16, 64
TCP, INBAND = 1, 4
RECURSIVE, MODES, TIMES, RESUME, HARDLINKS, HOLES, DRY_RUN = 1, 2, 4, 256, 512, 1024, 2048
LABEL = b'rftp client channel', b'rftp server channel'


def crc32c_table():
    t = []
    for i in range(256):
        for _ in range(8):
            i = i >> 1 ^ (0x82f63b78 if i & 1 else 0)
        t.append(i)
    return t


TABLE = crc32c_table()


def crc32c(data):
    c = 0xffffffff
    for b in data:
        c = TABLE[(c ^ b) & 255] ^ c >> 8
    return c ^ 0xffffffff


def message(*credits, sequence=0, channel=0, magic=0x52465443):
    """An unencrypted list of credits; each is (block number, status)."""
    m = struct.pack('>IHHQ', magic, channel, len(credits), sequence) + \
        b''.join(struct.pack('>QII', number, 0, status) for number, status in credits)
    return m + struct.pack('>I', crc32c(m)) + bytes(12)


def s8(b):
    return struct.pack('>B', len(b)) + b


def s16z(b):
    return struct.pack('>H', len(b)) + b + b'\0'


def s32(b):
    return struct.pack('>I', len(b)) + b


def s32z(b):
    return struct.pack('>I', len(b)) + b + b'\0'


def sized(b):
    return struct.pack('>I', len(b)) + b


def hkdf(key, salt, info):
    prk = hmac.new(salt or bytes(32), key, hashlib.sha256).digest()
    return hmac.new(prk, info + b'\1', hashlib.sha256).digest()


def proof(token, label, c, s, session, channel):
    return hmac.new(token, label + c + s + struct.pack('>QHI', session, channel, 0),
                    hashlib.sha256).digest()


def token_of(master, c, s, session):
    key = hkdf(master, c + s, b'rftp bulk session' + struct.pack('>Q', session))
    return hkdf(key, b'', b'rftp channel token')


def offer(transports=TCP | INBAND, prot=0, ack=1, channels=1, block=65536, inflight=16,
          memory=64 << 20, rest=b''):
    return sized(struct.pack('>BBBBBBHQIIHHIQQI', transports, 1, prot, ack, 0, 0, 2, memory,
                             block, block, channels, 256, inflight, 0, memory, 0) + rest)


def agreement(transport=INBAND, prot=0, ack=1, crc=1, paths=1, channels=1, block=65536,
              inflight=16, source=20, sink=16, ahead=65536):
    return sized(struct.pack('>BBBBBBHHHIIIII', transport, 1, prot, ack, crc, 0, paths,
                             channels, 0, block, inflight, source, sink, ahead))


def frame(kind, payload=b'', length=None, flags=0, zero=0):
    return struct.pack('>BBHI', kind, flags, zero,
                       len(payload) if length is None else length) + payload


def entry(kind, id, name=b'x', parent=0, flags=0, mode=0o644, size=0, ns=0, tail=b'',
          attrs=b'', length=None, z=b'\0'):
    if kind == DIREND:
        body = struct.pack('>BBHQ', kind, flags, 0, id)
    else:
        body = struct.pack('>BBHQQIIIqIQ', kind, flags, 0, id, parent, mode, 0, 0, 1500000000,
                           ns, size) + struct.pack('>H', len(name)) + name + z + tail
        body += struct.pack('>I', len(attrs)) + attrs
    return struct.pack('>I', len(body) if length is None else length) + body


def counts(entries=0, files=0, failed=0, skipped=0, size=0, blocks=0):
    return struct.pack('>11Q', entries, files, failed, skipped, size, blocks, 0, 0, 0, 0, 0)


def failure(id=0, code=5, text=b'because', length=None):
    return struct.pack('>QII', id, code, len(text) if length is None else length) + text


def block(number, extents, crc=None, magic=0x52465442, version=1, prot=0, count=None, size=None,
          nonce=0, key=0, tail=bytes(12)):
    """extents: (id, offset, data) or (id, offset, length, data)"""
    table = data = b''
    for e in extents:
        length = e[2] if len(e) == 4 else len(e[2])
        table += struct.pack('>QQI', e[0], e[1], length)
        data += e[-1]

    def head(c):
        return struct.pack('>IBBHQIIQI', magic, version, prot,
                           len(extents) if count is None else count, number,
                           len(data) if size is None else size, key, nonce, c) + tail + bytes(16)
    if crc is None:
        crc = crc32c(head(0) + table + data)
    return head(crc) + table + data


def bad_names(climb, absolute):
    """Names that are invalid in an entry. The two arguments are paths that must not be written."""
    return {'dotdot': b'..', 'dot': b'.', 'empty': b'', 'slash': b'a/b', 'climb': climb,
            'absolute': absolute, 'nul': b'a\0b', 'long': b'x' * 256}


def listen(file, talkers):
    """Listens on a port of 127.0.0.1 for each function, and calls it with each connection; for None
    no connection is accepted. Writes "NAME PORT" lines to file when all are ready; runs until
    standard input ends."""
    def accept(listener, talk):
        while True:
            threading.Thread(target=talk, args=(listener.accept()[0],), daemon=True).start()

    listeners = []
    with open(file + '.new', 'w') as out:
        for name, talk in talkers.items():
            s = socket.create_server(('127.0.0.1', 0))
            listeners.append(s)
            out.write(f'{name} {s.getsockname()[1]}\n')
            if talk:
                threading.Thread(target=accept, args=(s, talk), daemon=True).start()
    os.rename(file + '.new', file)
    sys.stdin.read()


class Stream:
    def __init__(self, sock, timeout=10):
        self.s = sock
        self.s.settimeout(timeout)
        self.buf = b''

    def send(self, data):
        self.s.sendall(data)

    def exactly(self, n):
        while len(self.buf) < n:
            got = self.s.recv(65536)
            if not got:
                raise EOFError
            self.buf += got
        out, self.buf = self.buf[:n], self.buf[n:]
        return out

    def line(self):
        while b'\n' not in self.buf:
            got = self.s.recv(65536)
            if not got:
                raise EOFError
            self.buf += got
        out, self.buf = self.buf.split(b'\n', 1)
        return out.rstrip(b'\r')

    def reply(self):
        """Returns code and text of a reply with any number of lines."""
        first = text = self.line()
        while text[3:4] == b'-' or not text[:3] == first[:3]:
            text = self.line()
        return int(first[:3]), first

    def frame(self):
        kind, flags, zero, n = struct.unpack('>BBHI', self.exactly(8))
        return kind, self.exactly(n)

    def frames_until(self, *kinds):
        """Returns the first frame of these kinds; ABORT raises an exception."""
        while True:
            kind, payload = self.frame()
            if kind in kinds:
                return kind, payload
            if kind == ABORT:
                raise ConnectionAbortedError(payload[12:])
            if kind == END:
                raise EOFError

    def drain(self):
        """Reads until the other side closes."""
        try:
            while self.s.recv(65536):
                pass
        except OSError:
            pass

    def close(self):
        self.s.close()


class BulkClient(Stream):
    """A client for puts and gets, which can send any message."""

    def __init__(self, port, login=True):
        super().__init__(socket.create_connection(('127.0.0.1', port)))
        self.data = []
        if login:
            self.reply()
            for line in b'USER anonymous', b'PASS x':
                self.send(line + b'\r\n')
                code = self.reply()[0]
            assert code == 230, code

    def request(self, op=0, base=b'evil/', sources=(), flags=RECURSIVE | MODES | TIMES,
                major=MAJOR, policy=0, has_key=1, off=None, tail=b'', nsources=None):
        self.nonce, self.master = os.urandom(32), os.urandom(32)
        return struct.pack('>HHBBBBIQQQ', major, MINOR, op, policy, has_key, 0, flags, 0, 0, 0) + \
            self.nonce + (self.master if has_key else bytes(32)) + s32(base) + \
            struct.pack('>I', len(sources) if nsources is None else nsources) + \
            b''.join(map(s32, sources)) + (offer() if off is None else off) + tail

    def bulk(self, body=None, **kw):
        body = self.request(**kw) if body is None else body
        self.send(b'BULK %d\r\n' % len(body) + body)
        return self.reply()

    def agreed(self, **kw):
        code, text = self.bulk(**kw)
        assert code == 150, text
        kind, p = self.frame()
        assert kind == AGREE, (kind, p)
        self.session, = struct.unpack('>Q', p[4:12])
        self.server_nonce = p[12:44]
        agr = 48 + struct.unpack('>I', p[44:48])[0]
        off = agr + 4 + struct.unpack('>I', p[agr:agr + 4])[0]
        n, = struct.unpack('>I', p[off:off + 4])
        self.port = struct.unpack('>H', p[off + 4:off + 6])[0] if n else None
        self.token = token_of(self.master, self.nonce, self.server_nonce, self.session)
        return self

    def hello(self, channel=0, session=None, token=None, label=LABEL[0], magic=0x52465448,
              major=MAJOR):
        session = self.session if session is None else session
        p = proof(token or self.token, label, self.nonce, self.server_nonce, self.session,
                  channel & 0xffff)
        return struct.pack('>IHHQ', magic, major, channel, session) + p + bytes(8)

    def channel(self, hello=None):
        d = Stream(socket.create_connection(('127.0.0.1', self.port)))
        self.data.append(d)
        d.send(self.hello() if hello is None else hello)
        return d

    def begin(self, **kw):
        self.agreed(**kw)
        self.d = self.channel()
        got = self.d.exactly(56)
        want = proof(self.token, LABEL[1], self.nonce, self.server_nonce, self.session, 0)
        assert got[16:48] == want, 'the proof of the server is wrong'
        self.send(frame(READY, bytes([TCP])))
        return self

    def entries(self, *e):
        self.send(frame(ENTRIES, b''.join(e)))

    def finish(self, entries, blocks=0):
        """Ends the transfer normally; returns the code of the reply."""
        self.d.close()
        self.send(frame(SENT, counts(entries=entries, blocks=blocks)))
        self.frames_until(SUMMARY)
        self.send(frame(SUMMARY, counts()) + frame(END))
        self.frames_until(END)
        return self.reply()[0]

    def ends(self):
        """Returns the outcome: an ABORT or a closed connection is right."""
        try:
            while True:
                kind, p = self.frame()
                if kind == ABORT:
                    self.send(frame(SUMMARY, counts()) + frame(END))
                    self.frames_until(END)
                    return 'abort: %s; %d' % (ascii(p[16:116].decode('utf8', 'replace')),
                                              self.reply()[0])
                if kind == END:
                    return 'end bad'
        except EOFError:
            return 'closed'
        except ConnectionError:
            return 'reset'
        except TimeoutError:
            return 'silence bad'

    def close(self):
        for d in self.data:
            d.close()
        super().close()
