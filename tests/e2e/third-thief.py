#!/usr/bin/env python3
# third-thief.py PORT DIR: asks an rftpd (--plain, anonymous rw) on 127.0.0.1 to open a port for
# another server, and connects to it like a thief of tokens. Prints "NAME: outcome" for each case.
# DIR/mine.pem and DIR/other.pem each hold a key with its certificate.
import base64, hashlib, os, socket, ssl, struct, subprocess, sys, threading, time
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from phony import *

PORT, DIR = int(sys.argv[1]), sys.argv[2]
KEY, DOOR, RESULT = 20, 21, 25
MINE, OTHER = DIR + '/mine.pem', DIR + '/other.pem'


def pin_of(pem):
    key = subprocess.run(['openssl', 'x509', '-in', pem, '-noout', '-pubkey'], check=True,
                         capture_output=True, text=True).stdout
    der = base64.b64decode(''.join(key.splitlines()[1:-1]))
    return pin_of_der(der)


def pin_of_der(der):
    return b'SHA256:' + base64.b64encode(hashlib.sha256(der).digest()).rstrip(b'=')


class Client(Stream):
    """A client logged in at rftpd, for a copy with another server."""
    def __init__(self):
        super().__init__(socket.create_connection(('127.0.0.1', PORT)))
        self.reply()
        for line in b'USER anonymous', b'PASS x':
            self.send(line + b'\r\n')
            code = self.reply()[0]
        assert code == 230, code

    def ask(self, verb, body):
        self.send(verb + b' %d\r\n' % len(body) + body)
        return self.reply()

    def result(self):
        """Returns the result that the server sends to its client: (errno, where, text)."""
        p = self.frames_until(RESULT)[1]
        code, where, agreed, fell, n = struct.unpack('>IBBBI', p[:11])
        self.send(frame(END))
        self.frames_until(END)
        return code, where, p[11:11 + n].decode(), self.reply()[0]


class Session(Client):
    """The client's connection, and the port opened for it."""
    def __init__(self, base=b'/given', seconds=20, pin=None, prot=0):
        super().__init__()
        body = struct.pack('>HHBBII', MAJOR, 0, prot, 0, RECURSIVE, seconds) + \
            s8(pin or pin_of(MINE)) + s32(base)
        self.code, self.text = self.ask(b'TAKE', body)
        if self.code != 150:
            return
        p = self.frames_until(DOOR)[1]
        self.port, self.seconds = struct.unpack('>HI', p[:6])
        n = p[6]
        self.pin, self.token = p[7:7 + n], p[7 + n:39 + n]

    def knock(self, pem=MINE, token=None):
        c = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        c.check_hostname, c.verify_mode = False, ssl.CERT_NONE
        if pem:
            c.load_cert_chain(pem)
        s = c.wrap_socket(socket.create_connection(('127.0.0.1', self.port), 10))
        der = s.getpeercert(True)
        out = subprocess.run(['openssl', 'x509', '-inform', 'DER', '-noout', '-pubkey'],
                             input=der, check=True, capture_output=True).stdout.decode()
        assert pin_of_der(base64.b64decode(''.join(out.splitlines()[1:-1]))) == self.pin
        d = Stream(s)
        d.send(self.token if token is None else token)
        return d


def request(base=b'/given', op=0, sources=(), key=0, policy=0, flags=RECURSIVE):
    return struct.pack('>HHBBBBIQQQ', MAJOR, 0, op, policy, key, 0, flags, 0, 0, 0) + \
        os.urandom(32) + bytes(32) + s32(base) + struct.pack('>I', len(sources)) + \
        b''.join(map(s32, sources)) + offer()


def ask(d, body):
    d.send(b'BULK %d\r\n' % len(body) + body)
    return d.reply()


def shut_out(fn):
    """An unauthorized connection must get only the end of the connection."""
    try:
        d = fn()
        return 'let in bad' if ask(d, request()) else ''
    except (EOFError, ConnectionError, ssl.SSLError):
        return 'shut out'


def case(name, fn):
    try:
        print(f'{name}: {fn()}', flush=True)
    except Exception as e:
        print(f'{name}: {type(e).__name__} {e} bad', flush=True)


def strangers():
    s = Session()
    out = [shut_out(lambda: s.knock(OTHER)), shut_out(lambda: s.knock(None)),
           shut_out(lambda: s.knock(MINE, bytes(32))),
           shut_out(lambda: s.knock(MINE, s.token[:31] + bytes([s.token[31] ^ 1])))]
    # The right one can still connect.
    code, text = ask(s.knock(), request(b'/elsewhere'))
    s.result()
    return f'{sorted(set(out))} then {code}'


def other(**kw):
    s = Session()
    d = s.knock()
    code, text = ask(d, request(**kw))
    r = s.result()
    return f'{code} {text[4:].decode()}; {r[0]} {r[3]}'


def dribble():
    """An accepted source sends very slowly, after the client has gone."""
    s = Session()
    d = s.knock()
    d.send(b'BULK 4000000\r\n' + bytes(100))
    s.close()
    end = time.monotonic() + 20
    try:
        while time.monotonic() < end:
            d.send(b'x')
            time.sleep(0.2)
    except OSError:
        return 'ends'
    return 'goes on bad'


def no_bulk():
    s = Session()
    d = s.knock()
    d.send(b'LIST /\r\n')
    r = s.result()
    return f'{r[0]} {r[3]}'


def twice():
    """The token works once: neither during that connection nor after it."""
    s = Session()
    d = s.knock()
    code, text = ask(d, request())
    now = shut_out(lambda: s.knock())
    d.close()
    r = s.result()
    return f'{code}, {now}, {shut_out(lambda: s.knock())}; {r[3]}'


def late():
    s = Session(seconds=1)
    code, where, text, reply = s.result()
    return f'{s.seconds} s, {text.split(" port ")[0]}, {reply}, {shut_out(lambda: s.knock())}'


def long():
    s = Session(seconds=100000)
    s.send(frame(ABORT))
    return f'{s.seconds} s, {s.result()[0]}'


def gone():
    """The port is closed when the client disconnects."""
    s = Session()
    s.close()
    end = time.monotonic() + 10
    while time.monotonic() < end:
        try:
            socket.create_connection(('127.0.0.1', s.port), 5).close()
        except ConnectionError:
            return 'shut'
        time.sleep(0.1)
    return 'open bad'


def crowd():
    """Silent connections do not block the right one."""
    s = Session()
    idle = [socket.create_connection(('127.0.0.1', s.port)) for _ in range(150)]
    code, text = ask(s.knock(), request(b'/elsewhere'))
    for i in idle:
        i.close()
    return code


def malformed():
    out = []
    for body in b'', b'\0\1', bytes(200), \
            struct.pack('>HHBBII', MAJOR, 0, 9, 0, 0, 0) + s8(b'x') + s32(b'y'), \
            struct.pack('>HHBBII', MAJOR, 0, 0, 9, 0, 0) + s8(b'x') + s32(b'y'), \
            struct.pack('>HHBBII', MAJOR, 0, 0, 0, 0, 0) + s8(b'') + s32(b'y'), \
            struct.pack('>HHBBII', MAJOR, 0, 0, 0, 0, 0) + s8(b'x') + s32(b'a\0b'), \
            struct.pack('>HHBBII', MAJOR, 0, 0, 0, 0, 0) + s8(b'x') + s32(b'y') + b'z':
        s = Client()
        out += [s.ask(b'TAKE', body)[0], s.ask(b'GIVE', body)[0]]
        s.send(b'NOOP\r\n')
        out.append(s.reply()[0])
        s.close()
    return sorted(set(out))


class Sink:
    """A sink in this script; a server is told to send to it."""
    def __init__(self, agree=None, silent=False):
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.port = self.listener.getsockname()[1]
        self.agree, self.silent, self.token, self.ended = agree, silent, None, threading.Event()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        s = self.listener.accept()[0]
        try:
            if self.silent:
                s.settimeout(30)
                while s.recv(65536):
                    pass
            else:
                self.answer(s)
        except (EOFError, OSError):
            pass
        self.ended.set()

    def answer(self, s):
        c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        c.load_cert_chain(MINE)
        d = Stream(c.wrap_socket(s, server_side=True))
        self.token = d.exactly(32)
        n = int(d.line().split()[1])
        d.exactly(n)
        d.send(b'150 frames\r\n' + frame(AGREE, struct.pack('>HHQ', MAJOR, 0, 5) + os.urandom(32) +
               agreement(transport=TCP, source=20) + offer(transports=TCP) + self.agree))
        d.drain()


class Giver(Client):
    def __init__(self, sink, pin=None, ms=5000, port=None):
        super().__init__()
        body = struct.pack('>II', 0, ms) + struct.pack(
            '>HHBBBBIQQQ', MAJOR, 0, 0, 0, 0, 0, 0, 0, 0, 0) + bytes(64) + s32(b'/x') + \
            struct.pack('>I', 1) + s32(b'/secret') + offer(transports=TCP, ack=2)
        self.code, self.text = self.ask(b'GIVE', body)
        if self.code != 150:
            return
        self.frames_until(KEY)
        self.send(frame(DOOR, struct.pack('>HI', port or sink.port, 60) + s8(pin or pin_of(MINE)) +
                        b'T' * 32 + b'\1' + s8(b'127.0.0.1')))


def bounce(ports):
    sink = Sink(agree=ports)
    r = Giver(sink).result()
    return f'{r[2]}; {r[3]}'


def other_key():
    """The token is sent only to the holder of the pinned key."""
    sink = Sink(agree=b'')
    r = Giver(sink, pin=pin_of(OTHER)).result()
    sink.ended.wait(10)
    return f'{r[1]} {r[2]}; {sink.token}'


def low_port():
    g = Giver(None, port=25)
    try:
        return f'{g.result()} bad'
    except (EOFError, ConnectionError):
        return 'closed'


def too_long():
    return Giver(None, ms=0xffffffff, port=2000).code


def gone_while_shaking():
    """A silent sink does not hold a session after its client has gone."""
    sink = Sink(silent=True)
    g = Giver(sink, ms=60000)
    time.sleep(0.5)
    g.close()
    return 'ends' if sink.ended.wait(20) else 'goes on bad'


case('strangers', strangers)
case('bounce to a service', lambda: bounce(b'\0\0\0\1\0\x19' + s8(b'')))
case('bounce to a host', lambda: bounce(b'\0\0\0\1' + struct.pack('>H', 40000) + s8(b'192.0.2.1')))
case('sink has another key', other_key)
case('low port', low_port)
case('too long', too_long)
case('gone while shaking', gone_while_shaking)
case('another path', lambda: other(base=b'/elsewhere'))
case('a path below', lambda: other(base=b'/given/x'))
case('a get', lambda: other(op=1, sources=[b'/secret']))
case('a bench', lambda: other(op=2))
case('a replacing copy', lambda: other(policy=1))
case('attributes', lambda: other(flags=RECURSIVE | MODES))
case('no bulk', no_bulk)
case('dribble', dribble)
case('twice', twice)
case('late', late)
case('long', long)
case('gone', gone)
case('crowd', crowd)
case('malformed', malformed)
case('without tls, private', lambda: Session(prot=2).code)
