#!/usr/bin/env python3
# phony-client.py PORT OUTSIDE: sends invalid messages to an rftpd (--plain, anonymous rw) on
# 127.0.0.1, in one session each, and prints "NAME: result" for each. A result that ends in "bad" is
# an error of rftpd. OUTSIDE is a path that rftpd must not write to.
import multiprocessing, os, random, select, signal, socket, struct, sys, time
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from phony import *

PORT, OUTSIDE = int(sys.argv[1]), sys.argv[2].encode()
cases = []


def case(fn):
    cases.append(fn)
    return fn


class Client(BulkClient):
    def __init__(self, login=True):
        super().__init__(PORT, login)


# ---- lines ----

def line(data, *codes, login=False):
    c = Client(login)
    if not login:
        c.reply()
    c.send(data)
    try:
        got = c.reply()
        return str(got[0]) + ('' if got[0] in codes else ' bad')
    except EOFError:
        return 'closed'
    finally:
        c.close()


@case
def a_line_without_end():
    c = Client(False)
    c.reply()
    try:
        for _ in range(64):
            c.send(b'A' * 65536)
        c.s.settimeout(2)
        return str(c.reply()[0])
    except (EOFError, ConnectionError, TimeoutError) as e:
        return type(e).__name__
    finally:
        c.close()


for n, (data, codes, login) in {
        'random': (random.randbytes(3000) + b'\r\n', (500, 501), False),
        'tls_without_auth': (b'\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03' + bytes(600) + b'\r\n', (500, 501), False),
        'nul': (b'USER a\0b\r\n', (500, 501), False),
        'http': (b'GET / HTTP/1.0\r\n\r\n', (500,), False),
        'bulk_before_login': (b'BULK 10\r\n0123456789', (530,), False),
        'lane': (b'LANE 2\r\n', (500,), True),
        'bulk_nothing': (b'BULK\r\n', (501,), True),
        'bulk_word': (b'BULK ten\r\n', (501,), True),
        'bulk_negative': (b'BULK -1\r\n', (501,), True),
        'bulk_overflow': (b'BULK 18446744073709551617\r\n', (501, 552), True),
        'bulk_too_long': (b'BULK 4194305\r\n', (552,), True),
        'bulk_zero': (b'BULK 0\r\n', (501,), True),
        'bulk_random': (b'BULK 300\r\n' + random.randbytes(300), (501, 504), True)}.items():
    def fn(data=data, codes=codes, login=login):
        return line(data, *codes, login=login)
    fn.__name__ = n
    case(fn)


# ---- requests ----

def request(name, code, **kw):
    def fn():
        c = Client()
        body = c.request(**kw)
        if 'cut' in name:
            body = body[:-20]
        got = c.bulk(body=body)
        # The stream is still synchronized: another command works.
        c.send(b'NOOP\r\n')
        then = c.reply()[0]
        c.close()
        return f'{got[0]}, then {then}' + ('' if got[0] in code and then == 200 else ' bad')
    fn.__name__ = 'request_' + name
    case(fn)


request('major', (504,), major=MAJOR + 1)
request('flags', (504,), flags=1 << 31)
request('flags_policy', (504,), flags=1 << 31, policy=9)
request('op', (501,), op=9)
request('policy', (501,), policy=9)
request('no_key', (522,), has_key=0)
request('key_7', (501,), has_key=7)
request('nul', (501,), base=b'a\0b')
request('sources_4G', (501,), nsources=0xffffffff)
request('cut', (501,))
request('tail', (501,), tail=b'more')
request('long_path', (501,), base=b'x' * 65537)
request('no_offer', (501,), off=b'')
request('offer_4G', (501,), off=b'\xff\xff\xff\xff' + offer()[4:])
request('offer_nics', (501,), off=offer(rest=b'')[:-4] + b'\0\0\0\x11')


def unagreed(name, **kw):
    """Expects 150, and then an ABORT instead of AGREE."""
    def fn():
        c = Client()
        got = c.bulk(**kw)
        if got[0] != 150:
            c.close()
            return str(got[0])
        kind, p = c.frame()
        if kind != ABORT:
            return f'frame {kind} bad'
        c.send(frame(END))
        c.frames_until(END)
        return f'abort, {c.reply()[0]}'
    fn.__name__ = 'offer_' + name
    case(fn)


unagreed('no_transport', off=offer(transports=0))
unagreed('rdma', off=offer(transports=2))
unagreed('no_memory', off=offer(memory=0))
unagreed('little_memory', off=offer(memory=1))


# ---- before the transfer ----

def early(name):
    def deco(fn):
        def run():
            c = Client().agreed()
            fn(c)
            try:
                return c.ends()
            finally:
                c.close()
        run.__name__ = 'early_' + name
        case(run)
        return fn
    return deco


@early('ready_wrong')
def _(c): c.send(frame(READY, b'\7'))


@early('ready_empty')
def _(c): c.send(frame(READY))


@early('entries_first')
def _(c): c.entries(entry(FILE, 1, size=5))


@early('frame_4G')
def _(c): c.send(frame(READY, b'', length=0xffffffff))


@early('frame_flags')
def _(c): c.send(frame(READY, b'\1', flags=1))


@early('unknown_127')
def _(c): c.send(frame(127, b'x'))


@early('abort_garbage')
def _(c): c.send(frame(ABORT, b'\xff' * 11) + frame(END))


@early('in_lines')
def _(c): c.send(b'NOOP\r\nQUIT\r\n')


def channel(name, make, alive=False):
    """A wrong hello gets a close; the right one still works."""
    def run():
        c = Client().agreed()
        try:
            d = c.channel(make(c))
            d.s.settimeout(5)
            try:
                got = d.s.recv(100)
            except TimeoutError:
                return 'silence bad'
            except ConnectionError:
                got = b''
            if got:
                return 'answered bad'
            d = c.channel()
            d.exactly(56)
            d.close()
            c.send(frame(READY, bytes([TCP])) + frame(SENT, counts()))
            c.frames_until(SUMMARY)
            c.send(frame(SUMMARY, counts()) + frame(END))
            c.frames_until(END)
            return str(c.reply()[0])
        except (EOFError, ConnectionError) as e:
            return f'{type(e).__name__} bad'
        finally:
            c.close()
    run.__name__ = 'channel_' + name
    case(run)


channel('token', lambda c: c.hello(token=bytes(32)))
channel('label', lambda c: c.hello(label=LABEL[1]))
channel('session', lambda c: c.hello(session=1))
channel('number', lambda c: c.hello(channel=7))
channel('number_300', lambda c: c.hello(channel=300))
channel('magic', lambda c: c.hello(magic=1))
channel('major', lambda c: c.hello(major=MAJOR + 1))
channel('random', lambda c: os.urandom(56))
channel('http', lambda c: b'GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n'.ljust(56))


@case
def channel_twice():
    c = Client().agreed()
    c.channel().exactly(56)
    try:
        d = c.channel()
        d.s.settimeout(3)
        got = d.s.recv(100)
    except TimeoutError:
        got = b'?'
    except ConnectionError:  # the port may also be closed already
        got = b''
    c.close()
    return 'taken bad' if len(got) == 56 else 'not taken'


@case
def channel_dribbles():
    """A channel that sends a single byte; the right one is still accepted."""
    c = Client().agreed()
    c.channel(b'R')
    d = c.channel()
    d.s.settimeout(5)
    try:
        d.exactly(56)
        return 'fine'
    except (TimeoutError, EOFError, ConnectionError):
        return 'kept out bad'
    finally:
        c.close()


# ---- entries ----

def put(name, *, wants='', **kw):
    """fn plays the source; the expected result is an ABORT, or the end in wants."""
    def deco(fn):
        def run():
            c = Client().begin(**kw)
            try:
                got = fn(c)
                return c.ends() if got is None else got
            except ConnectionAbortedError as e:
                return 'abort: ' + ascii(str(e))
            except ConnectionError:
                return 'reset'
            except EOFError:
                return 'closed'
            finally:
                c.close()
        run.__name__ = name
        case(run)
        return fn
    return deco


def wrong_entry(name, *e):
    @put('entry_' + name)
    def _(c): c.entries(*e)


for what, n in bad_names(b'../x', OUTSIDE).items():
    wrong_entry('name_' + what, entry(FILE, 1, n, size=1))
    wrong_entry('dir_' + what, entry(DIR, 1, n))
    wrong_entry('link_' + what, entry(LINK, 1, n, tail=s32z(b'x')))
wrong_entry('name_without_nul', entry(FILE, 1, b'x', z=b'y'))
wrong_entry('id_0', entry(FILE, 0))
wrong_entry('id_5', entry(FILE, 5))
wrong_entry('id_huge', entry(FILE, 2**64 - 1))
wrong_entry('id_again', entry(DIR, 1), entry(DIR, 1, b'y'))
wrong_entry('parent_unknown', entry(FILE, 1, parent=9))
wrong_entry('parent_self', entry(DIR, 1, parent=1))
wrong_entry('parent_file', entry(FILE, 1, size=1), entry(FILE, 2, b'y', parent=1, size=1))
wrong_entry('parent_ended', entry(DIR, 1), entry(DIREND, 1), entry(FILE, 2, parent=1))
wrong_entry('end_unknown', entry(DIREND, 3))
wrong_entry('end_twice', entry(DIR, 1), entry(DIREND, 1), entry(DIREND, 1))
wrong_entry('end_file', entry(FILE, 1, size=1), entry(DIREND, 1))
wrong_entry('type_6', entry(6, 1))
wrong_entry('type_0', entry(0, 1))
wrong_entry('mode', entry(FILE, 1, mode=0o10000))
wrong_entry('ns', entry(FILE, 1, ns=10**9))
wrong_entry('size', entry(FILE, 1, size=2**63))
wrong_entry('nosize_sparse', entry(FILE, 1, flags=NOSIZE | SPARSE, tail=struct.pack('>I', 0)))
wrong_entry('sparse_dir', entry(DIR, 1, flags=SPARSE, tail=struct.pack('>I', 0)))
wrong_entry('ranges_outside', entry(FILE, 1, flags=SPARSE, size=10, tail=struct.pack('>IQQ', 1, 5, 6)))
wrong_entry('ranges_overlap', entry(FILE, 1, flags=SPARSE, size=99, tail=struct.pack('>IQQQQ', 2, 0, 6, 5, 6)))
wrong_entry('ranges_empty', entry(FILE, 1, flags=SPARSE, size=99, tail=struct.pack('>IQQ', 1, 5, 0)))
wrong_entry('ranges_wrap', entry(FILE, 1, flags=SPARSE, size=99, tail=struct.pack('>IQQ', 1, 2**64 - 1, 2)))
wrong_entry('ranges_many', entry(FILE, 1, flags=SPARSE, size=99, tail=struct.pack('>I', 2**32 - 1)))
wrong_entry('target_empty', entry(LINK, 1, tail=s32z(b'')))
wrong_entry('target_long', entry(LINK, 1, tail=s32z(b'x' * 65537)))
wrong_entry('target_nul', entry(LINK, 1, tail=s32z(b'a\0b')))
wrong_entry('hard_unknown', entry(HARD, 1, tail=struct.pack('>Q', 7)))
wrong_entry('hard_self', entry(HARD, 1, tail=struct.pack('>Q', 1)))
wrong_entry('hard_zero', entry(HARD, 1, tail=struct.pack('>Q', 0)))
wrong_entry('hard_dir', entry(DIR, 1), entry(HARD, 2, b'y', tail=struct.pack('>Q', 1)))
wrong_entry('attrs', entry(FILE, 1, attrs=b'\xff\xff\xff\xff'))
wrong_entry('attrs_empty_name', entry(FILE, 1, attrs=b'\0\0\0\0\0\0'))
wrong_entry('short', entry(FILE, 1, length=10))
wrong_entry('long', entry(FILE, 1, length=70000))
wrong_entry('4G', entry(FILE, 1, length=2**32 - 1))
wrong_entry('half', entry(FILE, 1)[:20])
wrong_entry('flags_in_the_middle', entry(DIR, 1), entry(FILE, 2, b'y', parent=1, flags=TOP, size=1))


@put('entry_deep')
def _(c):
    """20,000 nested directories: the sink may refuse them, but must not crash."""
    n = 1
    for _ in range(20):
        c.entries(*(entry(DIR, i, b'd', parent=i - 1) for i in range(n, n + 1000)))
        n += 1000
    c.finish(n - 1)
    return 'done'


@put('entry_deep_dry', base=b'evil-deep/', flags=RECURSIVE | DRY_RUN)
def _(c):
    """8,000 nested directories with long names, in a dry run that makes none of them."""
    for n in range(1, 8001, 1000):
        c.entries(*(entry(DIR, i, b'n' * 255, parent=i - 1) for i in range(n, n + 1000)))
    c.finish(8000)
    return 'done'


@put('entry_dirs', flags=RECURSIVE | DRY_RUN)
def _(c):
    """Directories without an end: the sink ends the transfer at 524,288."""
    for n in range(1, 600001, 5000):
        c.entries(*(entry(DIR, i, b'%d' % i, parent=0, flags=TOP) for i in range(n, n + 5000)))


@put('entry_chain', flags=RECURSIVE | DRY_RUN)
def _(c):
    """Chains of 4,000 nested directories; each ends as soon as the next one in it is announced."""
    for n in range(0, 600000, 4000):
        c.entries(entry(DIR, n + 1, b'%d' % n, flags=TOP), *(
            e for i in range(n + 2, n + 4001)
            for e in (entry(DIR, i, b'd', parent=i - 1), entry(DIREND, i - 1))))


@put('entry_window')
def _(c):
    """More open files than the agreed window allows."""
    for i in range(0, 66000, 1000):
        c.entries(*(entry(FILE, i + k, b'%d' % (i + k), flags=TOP, size=1) for k in range(1, 1001)))


@put('link_then_dir', base=b'evil2/')
def _(c):
    """A link to outside, then a directory and a file with the same name."""
    c.entries(entry(LINK, 1, b'out', flags=TOP, tail=s32z(OUTSIDE)),
              entry(DIR, 2, b'out', flags=TOP), entry(FILE, 3, b'stolen', parent=2, size=4),
              entry(FILE, 4, b'out', flags=TOP, size=4))
    c.d.send(block(0, [(3, 0, b'evil'), (4, 0, b'evil')]))
    return f'{c.finish(4, 1)}: the link is a link'


@put('dest_by_link', base=b'evil2/out2/x')
def _(c):
    c.entries(entry(FILE, 1, b'x', flags=TOP, size=4))
    c.d.send(block(0, [(1, 0, b'evil')]))


# ---- frames in wrong places ----

def wrong_frame(name, *frames, **kw):
    @put('frame_' + name, **kw)
    def _(c):
        c.entries(entry(FILE, 1, flags=TOP, size=10))
        c.send(b''.join(frames))


wrong_frame('unknown_17', frame(17))
wrong_frame('unknown_127', frame(127, b'x'))
wrong_frame('type_0', frame(0))
wrong_frame('4G', frame(BEAT, b'', length=2**32 - 1))
wrong_frame('flags', frame(BEAT, counts(), flags=1))
wrong_frame('zero', frame(BEAT, counts(), zero=1))
wrong_frame('random', os.urandom(4000))
wrong_frame('verdicts', frame(VERDICTS, struct.pack('>QB', 1, 1)))
wrong_frame('runs', frame(RUNS, struct.pack('>QI', 1, 65536)))
wrong_frame('done', frame(DONE, struct.pack('>QQ', 1, 1)))
wrong_frame('agree', frame(AGREE, b''))
wrong_frame('ready', frame(READY, b'\1'))
wrong_frame('credit', frame(CREDIT, message()))
# The offer lacks in-band; with it DATA is allowed whenever the channels are gone.
only_tcp = offer(transports=TCP)
wrong_frame('data', frame(DATA, block(0, [(1, 0, b'x' * 10)])), off=only_tcp)
wrong_frame('counts_short', frame(BEAT, counts()[:-1]))
wrong_frame('failed_short', frame(FAILED, b'\0'))
wrong_frame('failed_lies', frame(FAILED, failure(1, length=70000)))
wrong_frame('sizes_unasked', frame(SIZES, struct.pack('>QQ', 1, 5)))
wrong_frame('sizes_huge', frame(ENTRIES, entry(FILE, 2, b'y', flags=NOSIZE | TOP)),
            frame(SIZES, struct.pack('>QQ', 2, 2**64 - 1)))
wrong_frame('sizes_half', frame(SIZES, b'123'))
wrong_frame('kept_unasked', frame(KEPT, struct.pack('>QQ', 1, 5)))
wrong_frame('sent_wrong', frame(SENT, counts(entries=99)))
wrong_frame('entries_after_sent', frame(SENT, counts(entries=1)),
            frame(ENTRIES, entry(FILE, 2, b'y', flags=TOP)))
wrong_frame('walked_long', frame(WALKED, b'x'))
wrong_frame('entries_after_walked', frame(WALKED), frame(ENTRIES, entry(FILE, 2, b'y', flags=TOP)))
wrong_frame('summary_first', frame(SUMMARY, counts()), frame(END))


@put('frame_128_is_skipped')
def _(c):
    c.entries(entry(FILE, 1, b'good', flags=TOP, size=4))
    c.send(frame(128, os.urandom(1 << 20)) + frame(255) + frame(200, b'x'))
    c.d.send(block(0, [(1, 0, b'good')]))
    c.frames_until(DONE)
    code = c.finish(1, 1)
    return f'{code}' + ('' if code == 226 else ' bad')


@put('dies_in_a_frame')
def _(c):
    c.send(frame(ENTRIES, b'\0\0', length=1000))
    return 'cut'


@put('abort_text')
def _(c):
    c.send(frame(ABORT, failure(text=b'\x1b[31mred\nfake: line\r\n' + b'\xff' * 60000)))
    c.send(frame(SUMMARY, counts()) + frame(END))
    c.frames_until(END)
    return f'{c.reply()[0]}'


@put('failed_text')
def _(c):
    c.entries(entry(FILE, 1, flags=TOP, size=4))
    c.send(frame(FAILED, failure(1, 9999, b'\x1b[31mred\nfake: line\r\n\0\xff')))
    return f'{c.finish(1)}'


# ---- blocks ----

def wrong_block(name, *blocks, file=10):
    """Expects a failed transfer, a closed channel, or a credit for the dropped block."""
    @put('block_' + name)
    def _(c):
        c.entries(entry(FILE, 1, b'whole', flags=TOP, size=file), entry(DIR, 2, b'd', flags=TOP))
        try:
            for b in blocks:
                c.d.send(b)
        except ConnectionError:
            pass
        while True:
            ready = select.select([c.s, c.d.s], [], [])[0]
            if c.s in ready or c.buf:
                kind, p = c.frame()
                if kind == ABORT:
                    return 'abort: ' + ascii(p[16:116])
                if kind == END:
                    return 'end without an abort bad'
            if c.d.s in ready:
                try:
                    status = struct.unpack('>IIQII', c.d.exactly(24))[4]
                except (EOFError, ConnectionError):
                    return 'the channel ends'
                if status or name in ('directory', 'twice', 'tail'):
                    return f'answered with status {status}'


good = b'0123456789'
wrong_block('magic', block(0, [(1, 0, good)], magic=1))
wrong_block('version', block(0, [(1, 0, good)], version=2))
wrong_block('prot', block(0, [(1, 0, good)], prot=2))
wrong_block('prot_9', block(0, [(1, 0, good)], prot=9))
wrong_block('extents_201', block(0, [(1, i, b'x') for i in range(201)]), file=300)
wrong_block('extents_65535', block(0, [(1, 0, good)], count=65535))
wrong_block('extents_0', block(0, [], size=10) + good)
wrong_block('size_4G', block(0, [(1, 0, good)], size=2**32 - 1))
wrong_block('size_over', block(0, [(1, 0, bytes(65537))]), file=70000)
wrong_block('sum', block(0, [(1, 0, 9, good)]))
wrong_block('length_4G', block(0, [(1, 0, 2**32 - 1, good)]))
wrong_block('tail', block(0, [(1, 0, good)], tail=b'\1' * 12))
wrong_block('outside', block(0, [(1, 5, good)]))
wrong_block('offset_huge', block(0, [(1, 2**64 - 5, good)]))
wrong_block('offset_63', block(0, [(1, 2**63 - 5, good)]))
wrong_block('directory', block(0, [(2, 0, good)]))
wrong_block('twice', block(0, [(1, 0, good)]) + block(1, [(1, 0, good)]))
wrong_block('overlap', block(0, [(1, 0, good[:6])]) + block(1, [(1, 4, b'evil!!')]))
wrong_block('overlap_inside', block(0, [(1, 0, good[:6]), (1, 0, good[:6])]))
wrong_block('number_huge', block(2**40, [(1, 0, good)]))
wrong_block('number_max', block(2**64 - 1, [(1, 0, good)]))
wrong_block('random', os.urandom(100000))


@put('block_foreign_then_sent')
def _(c):
    """Data for an unknown entry."""
    c.entries(entry(FILE, 1, b'whole', flags=TOP, size=10))
    c.d.send(block(0, [(77, 0, good)]))
    c.d.send(block(1, [(1, 0, good)]))
    c.finish(1, 2)
    return 'taken bad'


def closes(d):
    """Expects a close without a credit: the number in a damaged block is not reliable."""
    try:
        got = d.exactly(1)
    except (EOFError, ConnectionError):
        return 'the channel ends'
    return f'{got} bad'


@put('block_crc')
def _(c):
    c.entries(entry(FILE, 1, b'whole', flags=TOP, size=10))
    c.d.send(block(0, [(1, 0, good)], crc=1))
    return closes(c.d)


@put('block_crc_only_tcp', off=only_tcp)
def _(c):
    """A damaged block on the last channel, without a fallback."""
    c.entries(entry(FILE, 1, b'whole', flags=TOP, size=10))
    c.d.send(block(0, [(1, 0, good)], crc=1))


@put('block_crc_then_right')
def _(c):
    """The block is resent in-band, as the channel is gone; a repeated number is dropped."""
    c.entries(entry(FILE, 1, b'mended', flags=TOP, size=10))
    c.d.send(block(0, [(1, 0, good)], crc=1))
    how = closes(c.d)
    statuses = []
    for text in good, b'evil......':
        c.send(frame(DATA, block(0, [(1, 0, text)])))
        p = c.frames_until(CREDIT)[1]
        statuses.append(struct.unpack('>QII', p[16:32])[2])
    got = (how, *statuses, c.finish(1, 1))
    return f'{got}' + ('' if got == ('the channel ends', 0, 0, 226) else ' bad')


@put('block_more_than_credits')
def _(c):
    """Blocks for an unknown entry cannot be processed, so the sink must stop reading."""
    try:
        for i in range(200):
            c.d.send(block(i, [(5, i * 10, good)]))
    except ConnectionError:
        return 'the channel ends'
    return 'they wait'


@put('channel_is_cut', off=only_tcp)
def _(c):
    c.entries(entry(FILE, 1, b'whole', flags=TOP, size=10))
    c.d.send(block(0, [(1, 0, good)])[:70])
    c.d.close()


@put('get_wrong_credits', op=1, base=b'', sources=[b'/good-source'], off=only_tcp)
def _(c):
    c.frames_until(ENTRIES)
    c.d.send(message((99999, 0)))
    c.d.send(message((99999, 0), sequence=1)[:20])
    c.d.send(os.urandom(1000))


@put('get_frames', op=1, base=b'', sources=[b'/good-source'])
def _(c):
    c.send(frame(ENTRIES, entry(FILE, 1, b'x', size=1)))


@put('get_verdicts', op=1, base=b'', sources=[b'/good-source'])
def _(c):
    c.frames_until(ENTRIES)
    c.send(frame(VERDICTS, struct.pack('>QB', 2**64 - 1, 1) * 1000))
    c.send(frame(DONE, struct.pack('>QQ', 0, 2**64 - 1)))


@put('get_runs', op=1, base=b'', sources=[b'/good-source'], flags=RESUME)
def _(c):
    c.frames_until(ENTRIES)
    c.send(frame(RUNS, struct.pack('>QI', 1, 4096) + struct.pack('>Q', 2**64 - 1) + bytes(16)))
    c.send(frame(RUNS, struct.pack('>QI', 1, 4096) * 1000))
    c.send(frame(VERDICTS, struct.pack('>QB', 1, 3)))
    try:
        c.frames_until(BEAT)
        c.frames_until(BEAT)
    except ConnectionAbortedError:
        pass
    return 'not asked for'


for escape in b'../../../../../../etc/passwd', b'/../etc/passwd', OUTSIDE, b'evil2/out/secret':
    @put('get_' + ascii(escape), op=1, base=b'', sources=[escape])
    def _(c):
        try:
            return 'not sent' if c.frames_until(ENTRIES, SENT)[0] == SENT else 'sent bad'
        except EOFError:
            return 'not sent'
        except ConnectionAbortedError:
            return 'not sent'


class Late(Exception):
    pass


def late(*_):
    raise Late('nothing came of it in time')


def one(fn):
    signal.signal(signal.SIGALRM, late)
    signal.alarm(60)
    random.seed()
    try:
        how = fn()
    except Exception as e:
        how = f'{type(e).__name__}: {e} bad'
    signal.alarm(0)
    return f'{fn.__name__}: {how}'


def run(i):
    return one(cases[i])


only = sys.argv[3:]
wanted = [i for i, fn in enumerate(cases) if not only or fn.__name__ in only]
with multiprocessing.get_context('fork').Pool(8) as pool:
    for text in pool.imap(run, wanted):
        print(text, flush=True)
