#!/usr/bin/env python3
"""delay-proxy.py SECONDS PORT PORTFILE: a path with a long delay to 127.0.0.1:PORT. Data is
forwarded SECONDS later in both directions; connections are made at once. Writes the proxy's port
to PORTFILE, and to PORTFILE.trips the round trips of the newest connection so far.

A round trip is two messages, one the answer to the other: a message counts one more than the last
that its sender had received. A program that a busy machine delays has no more of them."""
import os, queue, socket, sys, threading, time

delay, port, portfile = float(sys.argv[1]), int(sys.argv[2]), sys.argv[3]


class Connection:
    def __init__(self, near, far):
        self.received = {near: 0, far: 0}  # the count of the last message
        self.near = near
        for a, b in (near, far), (far, near):
            a.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            later = queue.Queue()
            threading.Thread(target=self.read, args=(a, later), daemon=True).start()
            threading.Thread(target=self.write, args=(b, later), daemon=True).start()

    def read(self, a, later):
        data = b'-'
        while data:
            try:
                data = a.recv(1 << 20)
            except OSError:
                data = b''
            later.put((time.monotonic() + delay, self.received[a] + 1, data))

    def write(self, b, later):
        data = b'-'
        while data:
            at, count, data = later.get()
            time.sleep(max(0, at - time.monotonic()))
            self.received[b] = max(self.received[b], count)
            if b is self.near and self is newest:
                self.tell()
            try:
                if data:
                    b.sendall(data)
                else:
                    b.shutdown(socket.SHUT_WR)
            except OSError:
                return

    def tell(self):
        with open(portfile + '.new', 'w') as f:
            print(self.received[self.near] // 2, file=f)
        os.rename(portfile + '.new', portfile + '.trips')


newest = None
listener = socket.create_server(('127.0.0.1', 0))
with open(portfile, 'w') as f:
    print(listener.getsockname()[1], file=f)
while True:
    near = listener.accept()[0]
    newest = Connection(near, socket.create_connection(('127.0.0.1', port)))
