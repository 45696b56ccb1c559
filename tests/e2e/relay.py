#!/usr/bin/env python3
"""relay.py PORT FILE PORTFILE [COUNT:up|down:OFFSET [OLD NEW]...]: forwards connections to
127.0.0.1:PORT, and records the clients' bytes in FILE. In each of the first COUNT connections it
flips one bit of the byte at OFFSET in that direction (up: from the client). In replies to SITE FACTS
it replaces regular expressions. Ends when its standard input does."""
import itertools, os, re, socket, sys, threading

to, record = int(sys.argv[1]), open(sys.argv[2], 'wb', buffering=0)
count, direction, offset = (sys.argv[4] if len(sys.argv) > 4 else '0:up:0').split(':')
edits = [a.encode() for a in sys.argv[5:]]


def edited(a, data):
    while b'\n200 ' not in data:
        data += a.recv(65536)
    for old, new in zip(edits[::2], edits[1::2]):
        data = re.sub(old, new, data)
    return data


def pump(a, b, keep, flip):
    at = 0
    try:
        while data := a.recv(65536):
            if flip and at <= int(offset) < at + len(data):
                i = int(offset) - at
                data = data[:i] + bytes([data[i] ^ 4]) + data[i + 1:]
            at += len(data)
            if edits and data.startswith(b'200-Facts:'):
                data = edited(a, data)
            if keep:
                record.write(data)
            b.sendall(data)
    except OSError:
        pass
    for s in a, b:
        try:
            s.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def serve(listener):
    for n in itertools.count():
        a = listener.accept()[0]
        b = socket.create_connection(('127.0.0.1', to))
        flip = n < int(count)
        for args in (a, b, True, flip and direction == 'up'), (b, a, False, flip and direction == 'down'):
            threading.Thread(target=pump, args=args, daemon=True).start()


listener = socket.create_server(('127.0.0.1', 0))
threading.Thread(target=serve, args=(listener,), daemon=True).start()
with open(sys.argv[3] + '.new', 'w') as f:
    f.write(f'{listener.getsockname()[1]}\n')
os.rename(sys.argv[3] + '.new', sys.argv[3])
sys.stdin.read()
