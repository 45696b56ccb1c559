#!/usr/bin/env python3
"""channel-proxy.py WHAT WAY NTH SEED WHICH HOST COMMAND...: for rftp's --ssh. Runs COMMAND, an
rftpd --stdio, on this host, and forwards the data channels between both sides.

WHICH channels are hit ("one": the first that reaches the point; "all") at the NTH item, counted
from 0, in one WAY ("block": from the source; "credit": to it; "hello", "answer": the opening of a
channel, by the client and the server, of the first connection only). WHAT happens to the item:
drop, dup, swap (with the next one), flip (one bit of it), stall (from its middle on the proxy
forwards nothing in either direction, but still reads everything).

WHAT slow: a slow path on which each stream carries NTH thousand bytes per second. WAY refuse: after
WHICH connections no more are accepted; cut: all connections after the first WHICH are closed in the
middle of their first block."""
import os, random, socket, struct, subprocess, sys, threading, time

what, way, nth, seed, which = sys.argv[1:6]
dice = random.Random(int(seed))
HELLO = 56
left = threading.Semaphore(1 if which == 'one' else 1000)  # channels that may still be hit
slow = what == 'slow'
done = open(os.environ['CHANNEL_PROXY_DONE'], 'a', buffering=1)


def exactly(read, n):
    got = b''
    while len(got) < n:
        piece = read(n - len(got))
        if not piece:
            raise EOFError
        got += piece
    return got


def thing(read):
    """Reads the next block or list of credits."""
    magic = exactly(read, 4)
    if magic == b'RFTB':
        head = magic + exactly(read, 60)
        extents, payload = struct.unpack('>H', head[6:8])[0], struct.unpack('>I', head[16:20])[0]
        return head + exactly(read, extents * 20 + payload)
    assert magic == b'RFTC', magic
    head = magic + exactly(read, 12)
    return head + exactly(read, struct.unpack('>H', head[6:8])[0] * 16 + 16)


class Channel:
    def __init__(self, near, far, number):
        self.stalled = False
        self.cut = slow and way == 'cut' and number >= int(which)
        self.open(exactly(near.recv, HELLO), far, 'hello')
        self.open(exactly(far.recv, HELLO), near, 'answer')
        for a, b in (near, far), (far, near):
            threading.Thread(target=self.pump, args=(a, b), daemon=True).start()

    def open(self, m, b, which_way):
        if way != which_way or done.tell() or not left.acquire(False):
            b.sendall(m)
            return
        done.write(f'{what}\n')
        at = dice.randrange(HELLO)
        if what == 'dup':
            m += m
        elif what == 'flip':
            m = m[:at] + bytes([m[at] ^ 1 << dice.randrange(8)]) + m[at + 1:]
        elif what == 'drop':
            m = b''
        self.stalled = what == 'stall'
        b.sendall(m[:at] if self.stalled else m)

    def send(self, b, data):
        if not self.stalled:
            b.sendall(data)

    def pump(self, a, b):
        try:
            self.things(a, b)
        except (EOFError, OSError):
            pass
        if not self.stalled:
            for s in a, b:
                try:
                    s.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def things(self, a, b):
        n = 0
        while True:
            m = thing(a.recv)
            if slow:
                if m[:4] == b'RFTB':
                    n += 1
                    time.sleep(len(m) / 1000 / int(nth))
                if self.cut and n == 1:
                    b.sendall(m[:len(m) // 2])
                    done.write(f'{what}\n')
                    raise EOFError
                b.sendall(m)
                continue
            if way != ('block' if m[:4] == b'RFTB' else 'credit') or n != int(nth) or not left.acquire(False):
                n += 1
                self.send(b, m)
                continue
            n += 1
            done.write(f'{what}\n')
            if what == 'dup':
                self.send(b, m + m)
            elif what == 'swap':
                self.send(b, thing(a.recv) + m)
            elif what == 'flip':
                at = dice.randrange(len(m) if way == 'credit' or dice.random() < 0.5 else 64)
                self.send(b, m[:at] + bytes([m[at] ^ 1 << dice.randrange(8)]) + m[at + 1:])
                while piece := a.recv(65536): # the following data may have another length
                    self.send(b, piece)
                raise EOFError
            elif what == 'stall':
                self.send(b, m[:dice.randrange(len(m))])
                self.stalled = True


def serve(listener, port):
    number = 0
    while True:
        near = listener.accept()[0]
        number += 1
        if slow and way == 'refuse' and number > int(which):
            near.close()
            continue
        far = socket.create_connection(('127.0.0.1', port))
        for s in near, far:
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=Channel, args=(near, far, number - 1), daemon=True).start()


def control(read):
    """Forwards rftpd's output: lines, then frames from a reply 150 to BULK on; replaces rftpd's
    data port with the proxy's."""
    out = sys.stdout.buffer
    line = b''
    while not line.startswith(b'150 '):
        line = b''
        while not line.endswith(b'\n'):
            line += exactly(read, 1)
        if slow and line[3:4] == b' ':
            time.sleep(0.007)
        out.write(line)
        out.flush()
    head = exactly(read, 8)
    p = bytearray(exactly(read, struct.unpack('>I', head[4:])[0]))
    assert head[0] == 1, head
    agreement = 48 + struct.unpack('>I', p[44:48])[0]
    ports = agreement + 4 + struct.unpack('>I', p[agreement:agreement + 4])[0]
    if struct.unpack('>I', p[ports:ports + 4])[0]:
        listener = socket.create_server(('127.0.0.1', 0))
        if slow: # limits the acknowledged data that is not forwarded yet
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        port, = struct.unpack('>H', p[ports + 4:ports + 6])
        p[ports + 4:ports + 6] = struct.pack('>H', listener.getsockname()[1])
        threading.Thread(target=serve, args=(listener, port), daemon=True).start()
    out.write(head + p)
    out.flush()


os.environ['SSH_CONNECTION'] = '127.0.0.1 1 127.0.0.1 22'
words = sys.argv[6:] # options of ssh, HOST, and the command
while words and words[0] != '127.0.0.1':
    words.pop(0)
child = subprocess.Popen(' '.join(words[1:]) + ('' if slow else ' --stall 1s'), shell=True, stdout=subprocess.PIPE, bufsize=0)
try:
    control(child.stdout.read)
    while said := child.stdout.read(65536):
        sys.stdout.buffer.write(said)
        sys.stdout.buffer.flush()
except (EOFError, OSError):
    pass
os._exit(child.wait())
