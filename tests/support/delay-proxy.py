#!/usr/bin/env python3
"""delay-proxy.py SECONDS PORT PORTFILE: a long way to 127.0.0.1:PORT. What comes goes on so many seconds
later, either way; connections are made at once. The number of its own port goes into PORTFILE."""
import queue, socket, sys, threading, time

delay, port, portfile = float(sys.argv[1]), int(sys.argv[2]), sys.argv[3]


def read(a, later):
    try:
        while data := a.recv(1 << 20):
            later.put((time.monotonic() + delay, data))
    except OSError:
        pass
    later.put((time.monotonic() + delay, b''))


def write(b, later):
    while True:
        at, data = later.get()
        time.sleep(max(0, at - time.monotonic()))
        try:
            if not data:
                b.shutdown(socket.SHUT_WR)
                return
            b.sendall(data)
        except OSError:
            return


listener = socket.create_server(('127.0.0.1', 0))
with open(portfile, 'w') as f:
    print(listener.getsockname()[1], file=f)
while True:
    near = listener.accept()[0]
    far = socket.create_connection(('127.0.0.1', port))
    for a, b in (near, far), (far, near):
        a.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        later = queue.Queue()
        threading.Thread(target=read, args=(a, later), daemon=True).start()
        threading.Thread(target=write, args=(b, later), daemon=True).start()
