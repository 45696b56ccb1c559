#!/usr/bin/env python3
"""doctor-relay.py PORT PORTFILE [OLD NEW]...: forwards control connections to 127.0.0.1:PORT, and
replaces regular expressions in the server's facts: claims about its machine. Ends when
its standard input does."""
import os, re, socket, sys, threading

to, edits = int(sys.argv[1]), [a.encode() for a in sys.argv[3:]]


def up(a, b):
    while data := a.recv(65536):
        b.sendall(data)
    b.shutdown(socket.SHUT_WR)


def down(a, b):
    while data := b.recv(65536):
        if data.startswith(b'200-Facts:'):
            while b'\n200 ' not in data:
                data += b.recv(65536)
            for old, new in zip(edits[::2], edits[1::2]):
                data = re.sub(old, new, data)
        a.sendall(data)
    a.shutdown(socket.SHUT_WR)


def serve(listener):
    while True:
        a = listener.accept()[0]
        b = socket.create_connection(('127.0.0.1', to))
        for f in up, down:
            threading.Thread(target=f, args=(a, b), daemon=True).start()


listener = socket.create_server(('127.0.0.1', 0))
threading.Thread(target=serve, args=(listener,), daemon=True).start()
with open(sys.argv[2] + '.new', 'w') as f:
    f.write(f'{listener.getsockname()[1]}\n')
os.rename(sys.argv[2] + '.new', sys.argv[2])
sys.stdin.read()
