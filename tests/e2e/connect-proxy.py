#!/usr/bin/env python3
"""connect-proxy.py PORTFILE LOG: an HTTP proxy that only tunnels. Writes its port to PORTFILE, and to
LOG a line for each connection that it was asked for."""
import socket
import sys
import threading


def copy(a: socket.socket, b: socket.socket) -> None:
    try:
        while data := a.recv(1 << 16):
            b.sendall(data)
        b.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def tunnel(near: socket.socket) -> None:
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += near.recv(1)
    verb, target, _ = head.split(b"\r\n")[0].decode().split(" ")
    print(verb, target, file=log, flush=True)
    host, port = target.rsplit(":", 1)
    far = socket.create_connection((host, int(port)))
    near.sendall(b"HTTP/1.1 200 Connection established\r\nProxy-Agent: test\r\n\r\n")
    threading.Thread(target=copy, args=(far, near), daemon=True).start()
    copy(near, far)


listener = socket.create_server(("127.0.0.1", 0))
with open(sys.argv[2], "w", encoding="ascii") as log:
    with open(sys.argv[1], "w", encoding="ascii") as f:
        print(listener.getsockname()[1], file=f)
    while True:
        threading.Thread(target=tunnel, args=(listener.accept()[0],), daemon=True).start()
