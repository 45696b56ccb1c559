#!/usr/bin/env python3
"""relay.py PORT FILE PORTFILE: hand connections on to 127.0.0.1:PORT, and keep what the
clients send in FILE. Ends when its standard input does."""
import os, socket, sys, threading

to, record = int(sys.argv[1]), open(sys.argv[2], 'wb', buffering=0)


def pump(a, b, keep):
    try:
        while data := a.recv(65536):
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
    while True:
        a = listener.accept()[0]
        b = socket.create_connection(('127.0.0.1', to))
        threading.Thread(target=pump, args=(a, b, True), daemon=True).start()
        threading.Thread(target=pump, args=(b, a, False), daemon=True).start()


listener = socket.create_server(('127.0.0.1', 0))
threading.Thread(target=serve, args=(listener,), daemon=True).start()
with open(sys.argv[3] + '.new', 'w') as f:
    f.write(f'{listener.getsockname()[1]}\n')
os.rename(sys.argv[3] + '.new', sys.argv[3])
sys.stdin.read()
