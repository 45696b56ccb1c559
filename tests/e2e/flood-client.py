#!/usr/bin/env python3
"""flood-client.py PORT PID N HOSTS [early]: N wrong passwords at once, from HOSTS hosts, while another
host logs in as alice. PID is the server, with --plain. early: each client sends its password before
the next one connects, so that none is late for a short --login-timeout. Prints:

    refused N         number of wrong passwords with reply 530
    later N           number with reply 421
    else N            number with any other reply
    grown KB          peak growth of the memory of all the server's processes, once all are connected
    honest CODE S     alice's reply, and its time in seconds
"""
import socket
import sys
import threading
import time

PORT, PID, N, HOSTS = (int(n) for n in sys.argv[1:5])
EARLY = sys.argv[5:] == ["early"]
assert EARLY or len(sys.argv) == 5
PATIENCE = 300


def reply(sock):
    got = b""
    while not got.endswith(b"\n"):
        some = sock.recv(1)
        if not some:
            return 0
        got += some
    return int(got[:3])


def say(sock, line):
    sock.sendall(line.encode() + b"\r\n")
    return reply(sock)


def connect(source):
    sock = socket.create_connection(("127.0.0.1", PORT), PATIENCE, (source, 0))
    assert reply(sock) == 220
    return sock


def descendants(pid):
    found = [pid]
    for p in found:
        try:
            with open(f"/proc/{p}/task/{p}/children") as f:
                found += [int(n) for n in f.read().split()]
        except OSError:
            pass  # has ended
    return found


def resident():
    """The memory of all processes of the server, kB."""
    total = 0
    for p in descendants(PID):
        try:
            with open(f"/proc/{p}/status") as f:
                total += sum(int(line.split()[1]) for line in f if line.startswith("VmRSS:"))
        except OSError:
            pass
    return total


crowd = []
for i in range(N):
    crowd.append(connect(f"127.0.3.{1 + i % HOSTS}"))
    assert say(crowd[i], "USER nobody") == 331
    if EARLY:
        crowd[i].sendall(b"PASS wrong\r\n")
before, peak, over = resident(), 0, False


def watch():
    global peak
    while not over:
        peak = max(peak, resident())
        time.sleep(0.02)


codes = {}
lock = threading.Lock()


def hear(sock):
    try:
        code = reply(sock)
    except OSError:
        code = 0
    with lock:
        codes[code] = codes.get(code, 0) + 1


watcher = threading.Thread(target=watch)
watcher.start()
if not EARLY:
    for sock in crowd:
        sock.sendall(b"PASS wrong\r\n")
hearers = [threading.Thread(target=hear, args=(sock,)) for sock in crowd]
for t in hearers:
    t.start()
begun = time.monotonic()
alice = connect("127.0.4.1")
say(alice, "USER alice")
code = say(alice, "PASS s3cret")
took = time.monotonic() - begun
for t in hearers:
    t.join()
over = True
watcher.join()
print("refused", codes.pop(530, 0))
print("later", codes.pop(421, 0))
print("else", sum(codes.values()))
print("grown", peak - before)
print("honest", code, f"{took:.1f}")
print("all", f"{time.monotonic() - begun:.1f}")
