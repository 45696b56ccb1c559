#!/usr/bin/env python3
# phony-server.py FILE: servers without TLS, for rftp --plain --prot clear --channels 1
# --block 64K --inflight 16 --memory 64M, one port for each kind of misbehaviour, with
# "NAME PORT" lines in FILE when all are ready; ends when its standard input does. The client
# chooses the direction of the data: NAME begins with put_ or get_ where it matters.
import itertools, os, socket, struct, sys, threading, time
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from phony import *

cases = {}
good = b'0123456789'


class Server(Stream):
    def line_of(self, verb):
        while True:
            got = self.line()
            if got.upper().startswith(verb):
                return got
            if got.upper().startswith(b'BULK'):
                raise EOFError
            self.send(b'500 what?\r\n')

    def greet(self, feat=bulk_feature()):
        self.send(b'220 phony\r\n')
        while True:
            got = self.line().upper()
            if got.startswith(b'BULK'):
                self.body = self.exactly(int(got.split()[1]))
                self.nonce, self.master = self.body[36:68], self.body[68:100]
                return self
            if got.startswith(b'USER'):
                self.send(b'331 and?\r\n')
            elif got.startswith(b'PASS'):
                self.send(b'230 in\r\n')
            elif got.startswith(b'FEAT'):
                self.send(b'211-f\r\n' + feat + b'211 end\r\n')
            else:
                self.send(b'200 fine\r\n')

    def agree(self, agr=None, off=None, ports=b'\0\0\0\0', major=MAJOR, session=5):
        self.server_nonce, self.session = os.urandom(32), session
        self.send(b'150 frames\r\n' + frame(AGREE, struct.pack('>HHQ', major, MINOR, session) +
                  self.server_nonce + (agreement() if agr is None else agr) +
                  (offer(transports=INBAND) if off is None else off) + ports))
        return self

    def begin(self):
        """Runs an in-band session up to the first frame of the transfer."""
        self.greet().agree()
        kind, p = self.frame()
        assert kind == READY and p == bytes([INBAND]), (kind, p)
        return self

    def entries(self, *e):
        self.send(frame(ENTRIES, b''.join(e)))


def case(name):
    def deco(fn):
        cases[name] = fn
        return fn
    return deco


def lines(name, data):
    @case('line_' + name)
    def _(c):
        c.greet()
        c.send(data)
        c.drain()


lines('refused', b'550 \x1b[31mno\x1b[0m\r\n')
lines('flood', b'550-x' + b'y' * 2000000 + b'\r\n')
lines('many', b'550-a\r\n' + b'and more\r\n' * 300000)
lines('nul', b'150 a\0b\r\n')
lines('random', os.urandom(3000) + b'\r\n')
lines('226', b'226 done already\r\n')


@case('line_close')
def _(c):
    c.greet()
    c.s.shutdown(socket.SHUT_RDWR)


def agrees(name, **kw):
    @case('agree_' + name)
    def _(c):
        c.greet().agree(**kw)
        c.drain()


def features(name, line):
    """A FEAT line after which the client must not send BULK."""
    @case('feat_' + name)
    def _(c):
        c.greet(feat=line).send(b'550 BULK was said\r\n')
        c.drain()


features('none', b'')
features('number', b' BULK 1\r\n')
features('word', b' BULK later\r\n')
features('major', bulk_feature(major=MAJOR + 1))
features('huge', bulk_feature(major=10**30, features=b'x,' * 2000))
features('lacks', bulk_feature(minor=MINOR + 1, features=FEATURES.replace(b'modes,', b'modest,')))
agrees('major', major=MAJOR + 1)
agrees('block', agr=agreement(block=131072))
agrees('block_0', agr=agreement(block=0))
agrees('inflight', agr=agreement(inflight=60000, sink=60000, source=60016))
agrees('paths', agr=agreement(paths=65535))
agrees('channels', agr=agreement(channels=256))
agrees('transport', agr=agreement(transport=2))
agrees('transport_7', agr=agreement(transport=7))
agrees('no_crc', agr=agreement(crc=0))
agrees('short', agr=sized(b'123'))
agrees('4G', agr=b'\xff\xff\xff\xff' + agreement()[4:])
agrees('offer_4G', off=b'\xff\xff\xff\xff')
agrees('offer_empty', off=sized(b''))
agrees('ports_17', ports=b'\0\0\0\x11' + b'\0\1\0' * 17)
agrees('ports_4G', ports=b'\xff\xff\xff\xff')
tcp = dict(agr=agreement(transport=TCP), off=offer())
agrees('no_port', **tcp)
agrees('port_0', ports=b'\0\0\0\1\0\0\0', **tcp)
agrees('port_name', ports=b'\0\0\0\1\0\1' + s8(b'www.example.org'), **tcp)


@case('agree_random')
def _(c):
    c.greet()
    c.send(b'150 frames\r\n' + frame(AGREE, os.urandom(500)))
    c.drain()


@case('agree_frame_4G')
def _(c):
    c.greet()
    c.send(b'150 frames\r\n' + frame(AGREE, b'', length=2**32 - 1) + bytes(100000))
    c.drain()


@case('agree_abort')
def _(c):
    c.greet()
    c.send(b'150 frames\r\n' + frame(ABORT, failure(0, 28, b'\x1b[31mno\nfake: line\xff')) + frame(END))
    c.frames_until(END)
    c.send(b'451 no\r\n')
    c.drain()


def data(name, answer, then=lambda c: None):
    """A data listener with its own answer to hellos; then: the following messages on the control
    connection."""
    @case('data_' + name)
    def _(c):
        s = socket.create_server(('127.0.0.1', 0))

        def serve():
            while True:
                d = Stream(s.accept()[0])
                try:
                    d.send(answer(c, d.exactly(56)))
                    d.drain()
                except (EOFError, OSError):
                    pass
                d.close()
        threading.Thread(target=serve, daemon=True).start()
        c.greet().agree(ports=b'\0\0\0\1' + struct.pack('>H', s.getsockname()[1]) + b'\0', **tcp)
        then(c)
        c.drain()


def goes_inband(c):
    """The client falls back to in-band, as if the data port were unreachable; the server ends it
    there."""
    kind, p = c.frame()
    assert kind == READY and p == bytes([INBAND]), (kind, p)
    c.send(frame(ABORT, failure(0, 5, b'in-band it is')) + frame(SUMMARY, counts()) + frame(END) +
           b'451 it failed\r\n')


data('wrong_proof', lambda c, h: h[:16] + os.urandom(32) + h[48:])
data('own_proof', lambda c, h: h)
data('random', lambda c, h: os.urandom(56))
data('close', lambda c, h: b'', goes_inband)
data('major', lambda c, h: h[:4] + struct.pack('>H', MAJOR + 1) + h[6:])


def get(name):
    """The server is the source, in-band. The transfer must fail."""
    def deco(fn):
        @case('get_' + name)
        def _(c):
            c.begin()
            fn(c)
            c.drain()
        return fn
    return deco


def bad_entry(name, *e):
    @get('entry_' + name)
    def _(c): c.entries(*e)


for what, n in bad_names(b'../stolen', b'/tmp/rftp-stolen').items():
    bad_entry('name_' + what, entry(FILE, 1, n, flags=TOP, size=0))
    bad_entry('dir_' + what, entry(DIR, 1, n, flags=TOP), entry(FILE, 2, b'x', parent=1))
    bad_entry('inside_' + what, entry(DIR, 1, b'd', flags=TOP), entry(FILE, 2, n, parent=1))
bad_entry('id_2', entry(FILE, 2, flags=TOP))
bad_entry('parent', entry(FILE, 1, parent=5))
bad_entry('half', entry(FILE, 1)[:9])
bad_entry('4G', entry(FILE, 1, length=2**32 - 1))


@get('link_then_dir')
def _(c):
    c.entries(entry(DIR, 1, b'd', flags=TOP), entry(LINK, 2, b'out', parent=1, tail=s32z(b'../..')),
              entry(DIR, 3, b'out', parent=1), entry(FILE, 4, b'stolen', parent=3, size=10))
    c.send(frame(DATA, block(0, [(4, 0, good)])))
    time.sleep(1)
    c.send(frame(ABORT, failure()) + frame(SUMMARY, counts()) + frame(END) + b'451 it failed\r\n')


def bad_frame(name, *frames):
    @get('frame_' + name)
    def _(c):
        c.entries(entry(FILE, 1, b'x', flags=TOP, size=10))
        c.send(b''.join(frames))


bad_frame('unknown', frame(99))
bad_frame('4G', frame(BEAT, b'', length=2**32 - 1))
bad_frame('flags', frame(BEAT, counts(), flags=7))
bad_frame('verdicts', frame(VERDICTS, struct.pack('>QB', 1, 1)))
bad_frame('done', frame(DONE, struct.pack('>QQ', 1, 1)))
bad_frame('sizes', frame(SIZES, struct.pack('>QQ', 1, 2**63)))
bad_frame('kept', frame(KEPT, struct.pack('>QQ', 1, 2**63)))
bad_frame('sent', frame(SENT, counts(entries=5)))
bad_frame('failed', frame(FAILED, failure(1, length=2**32 - 1)))
bad_frame('summary_and_end', frame(SUMMARY, counts()), frame(END), b'226 all is well\r\n')
bad_frame('end', frame(END), b'226 all is well\r\n')
bad_frame('abort', frame(ABORT, failure(0, 5, b'\x1b[31mbad\nfake: line\r\n\xff')), frame(SUMMARY, counts()),
          frame(END), b'451 it failed\r\n')
bad_frame('lines', b'226 all is well\r\n')
for name, b in {'outside': block(0, [(1, 5, good)]), 'offset': block(0, [(1, 2**64 - 2, good)]),
                'number': block(2**50, [(1, 0, good)]), 'magic': block(0, [(1, 0, good)], magic=7),
                'size': block(0, [(1, 0, good)], size=2**32 - 1), 'prot': block(0, [(1, 0, good)], prot=1),
                'random': os.urandom(1000), 'over': block(0, [(1, 0, bytes(70000))])}.items():
    bad_frame('block_' + name, frame(DATA, b))


# Two copies of the first half do not complete a file.
bad_frame('block_twice', frame(DATA, block(0, [(1, 0, good[:5]), (1, 0, good[:5])])))


@get('blocks_twice')
def _(c):
    c.entries(entry(FILE, 1, b'x', flags=TOP, size=10))
    c.send(frame(DATA, block(0, [(1, 0, good[:5])])))
    c.frames_until(CREDIT)
    c.send(frame(DATA, block(1, [(1, 0, good[:5])])))


@get('failed_text')
def _(c):
    """The transfer succeeds except for one file; the failure's text imitates other messages."""
    c.entries(entry(FILE, 1, b'x', flags=TOP, size=10))
    c.send(frame(FAILED, failure(1, 13, b'\x1b[31mno\nrftp: fake line\xff\0')) + frame(SENT, counts(entries=1)))
    c.frames_until(SUMMARY)
    c.send(frame(SUMMARY, counts(entries=1, failed=1)) + frame(END))
    c.frames_until(END)
    c.send(b'226 well\r\n')


@get('crc')
def _(c):
    c.entries(entry(FILE, 1, b'x', flags=TOP, size=10))
    for _ in range(200):
        c.send(frame(DATA, block(0, [(1, 0, good)], crc=1)))
        c.frames_until(CREDIT)


@get('cut')
def _(c):
    c.entries(entry(FILE, 1, b'x', flags=TOP, size=1000000))
    c.send(frame(DATA, block(0, [(1, 0, DATA_64K)])))
    time.sleep(0.3)
    c.s.shutdown(socket.SHUT_RDWR)


DATA_64K = bytes(65536)


def put(name):
    """The server is the sink, in-band."""
    def deco(fn):
        @case('put_' + name)
        def _(c):
            c.begin()
            c.frames_until(ENTRIES)
            fn(c)
            c.drain()
        return fn
    return deco


def bad_sink(name, *frames):
    @put(name)
    def _(c): c.send(b''.join(frames))


def credit(p, status, sequence):
    """A credit for the block in a DATA frame."""
    return frame(CREDIT, message((struct.unpack('>Q', p[8:16])[0], status), sequence=sequence))


bad_sink('entries', frame(ENTRIES, entry(FILE, 1)))
bad_sink('verdicts', frame(VERDICTS, struct.pack('>QB', 1, 9)))
bad_sink('verdicts_half', frame(VERDICTS, b'123'))
bad_sink('runs', frame(RUNS, struct.pack('>QQ', 1, 0)))
bad_sink('runs_0', frame(RUNS, struct.pack('>QQI', 1, 0, 0) + bytes(16)))
bad_sink('done_unknown', frame(DONE, struct.pack('>QQ', 500, 600)))
bad_sink('done_wrong', frame(DONE, struct.pack('>QQ', 9, 1)))
bad_sink('done_all', frame(DONE, struct.pack('>QQ', 0, 2**64 - 1)))
bad_sink('credit', frame(CREDIT, message((7777, 0))))
bad_sink('credit_4G', frame(CREDIT, message()[:6] + b'\377\377' + message()[8:]))
bad_sink('credit_magic', frame(CREDIT, message(magic=1)))
bad_sink('unknown', frame(77))
bad_sink('summary_and_end', frame(SUMMARY, counts()), frame(END), b'226 all is well\r\n')
bad_sink('end', frame(END), b'226 all is well\r\n')
bad_sink('abort', frame(ABORT, failure(0, 28, b'no\x1b[0m room\nfake: line')), frame(SUMMARY, counts()), frame(END),
         b'451 it failed\r\n')


@put('failed')
def _(c):
    c.send(frame(FAILED, failure(1, 28, b'no room\nrftp: fake line')) + frame(DONE, struct.pack('>QQ', 1, 1)))
    for sequence in itertools.count():
        kind, p = c.frames_until(DATA, SENT)
        if kind == SENT:
            break
        c.send(credit(p, 0, sequence))
    c.send(frame(SUMMARY, counts(entries=1, failed=1)) + frame(END))
    c.frames_until(END)
    c.send(b'226 well\r\n')


@put('refuses_blocks')
def _(c):
    """Refuses every block again and again."""
    for sequence in itertools.count():
        p = c.frames_until(DATA)[1]
        c.send(credit(p, 74, sequence))


def both(name, *speakers):
    """For bench --both, which opens two sessions: the behaviour of each, in order."""
    turns = itertools.cycle(speakers)

    @case('both_' + name)
    def _(c): next(turns)(c)


def says(data):
    """Sends a greeting, and answers BULK with data."""
    def speaker(c):
        c.greet().send(data)
        c.drain()
    return speaker


def denies(c):
    c.send(b'220 phony\r\n')
    while True:
        c.send(b'331 and?\r\n' if c.line().startswith(b'USER') else b'530 not again\r\n')


def cut(c):
    c.begin()
    c.s.shutdown(socket.SHUT_RDWR)


NO, LONG = says(b'550 no\r\n'), says(b'150 frames\r\n' + frame(AGREE, length=2**32 - 1))
both('refused', Server.greet, lambda c: c.send(b'421 one is enough\r\n'))
both('login', Server.greet, denies)
both('silent', Server.greet, Stream.drain)
both('gone', Server.greet, lambda c: None)
both('refuse', NO, NO)
both('close', Server.greet, Server.greet)
both('one_closes', Server.greet, NO)
both('4G', LONG, LONG)
both('one_4G', NO, LONG)
both('cut', cut, cut)
both('one_cut', NO, cut)


def silent(name):
    """Becomes silent at some point, for tests of a stop during a wait."""
    def deco(fn):
        @case('silent_' + name)
        def _(c):
            fn(c)
            c.drain()
        return fn
    return deco


@silent('greeting')
def _(c): pass


@silent('login')
def _(c): c.send(b'220 phony\r\n')


@silent('answer')
def _(c): c.greet()


@silent('agree')
def _(c):
    c.greet()
    c.send(b'150 frames\r\n')


@silent('data')
def _(c):
    s = socket.create_server(('127.0.0.1', 0))
    c.greet().agree(ports=b'\0\0\0\1' + struct.pack('>H', s.getsockname()[1]) + b'\0', **tcp)
    c.drain()
    s.close()


@silent('transfer')
def _(c): c.begin()


@silent('closing')
def _(c):
    """Sends everything except the line after the last frame."""
    c.begin()
    c.send(frame(SENT, counts()))
    c.frames_until(SUMMARY)
    c.send(frame(SUMMARY, counts()) + frame(END))


def talk(fn):
    def one(s):
        c = Server(s, 20)
        try:
            fn(c)
        except (EOFError, OSError, AssertionError):
            pass
        c.close()
    return one


listen(sys.argv[1], {name: talk(fn) for name, fn in cases.items()})
