#!/usr/bin/env python3
"""Many clients of one server, controlled by lines on standard input. Each line gets a reply of one
line.

    crowd.py PORT DIR     puts take their files from DIR

    idle N                N more clients log in as anonymous, and stay: the number of logins
    strangers N           N more clients connect, and send nothing: the number of greetings
    login                 all of these log in as anonymous, and stay: the number of logins
    noop                  the number of logged-in clients that get a reply to NOOP
    cost PID              memory of the processes of server PID in kB: the proportional share of
                          each, and their page tables
    put NAME [OPTION...]  rftp puts the first half of DIR/NAME, and waits for the rest
    move PID N            N times: all puts get 128 KiB more, and the logged-in clients send NOOP
                          until the sessions of server PID have written as much. The smallest
                          number of replies
    status NAME           the exit status and the messages of a put that ends by itself
    finish                all puts get the rest: the number of successes
    leave                 all idle clients disconnect
"""
import os
import re
import socket
import ssl
import subprocess
import sys
import time

PORT, DIR = int(sys.argv[1]), sys.argv[2]
TLS = ssl._create_unverified_context()
PIECE = 128 << 10
PATIENCE = 120
idle, strangers, puts, fed = [], [], {}, {}


def reply(sock):
    got = b""
    while not re.search(rb"(\A|\n)\d\d\d [^\n]*\n\Z", got):
        some = sock.recv(4096)
        if not some:
            return 0
        got += some
    return int(got.splitlines()[-1][:3])


def say(sock, line):
    """The code of the reply; 0 if there is none."""
    try:
        sock.sendall(line.encode() + b"\r\n")
        return reply(sock)
    except OSError as e:
        print(f"# {line}: {e}, from port {sock.getsockname()[1]}", file=sys.stderr)
        return 0


def connect():
    sock = socket.create_connection(("127.0.0.1", PORT), 60)
    return sock if reply(sock) == 220 else None


def expect(code, sock, line):
    got = say(sock, line)
    if got != code:
        print(f"# {line}: {got} instead of {code}, from port {sock.getsockname()[1]}",
              file=sys.stderr)
    return got == code


def log_in(sock):
    if not expect(234, sock, "AUTH TLS"):
        return None
    sock = TLS.wrap_socket(sock)
    if not all(expect(code, sock, line) for code, line in
               ((331, "USER anonymous"), (230, "PASS x"), (200, "PBSZ 0"), (200, "PROT P"))):
        return None
    return sock


def do_strangers(n):
    some = [connect() for _ in range(int(n))]
    strangers.extend(s for s in some if s)
    return len([s for s in some if s])


def do_login():
    some = [log_in(s) for s in strangers]
    strangers.clear()
    idle.extend(s for s in some if s)
    return len([s for s in some if s])


def do_idle(n):
    do_strangers(n)
    return do_login()


def do_noop():
    return sum(say(s, "NOOP") == 200 for s in idle)


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as f:
        return [int(n) for n in f.read().split()]


def kilobytes(path, name):
    with open(path) as f:
        return int(re.search(rf"^{name}:\s+(\d+) kB", f.read(), re.M)[1])


def do_cost(pid):
    return sum(kilobytes(f"/proc/{p}/smaps_rollup", "Pss") + kilobytes(f"/proc/{p}/status", "VmPTE")
               for p in [int(pid), *children(pid)])


def content(name):
    with open(os.path.join(DIR, name), "rb") as f:
        return f.read()


def do_put(name, *options):
    data = content(name)
    said = open(os.path.join(DIR, name + ".said"), "w")
    p = subprocess.Popen(["rftp", "put", "-q", "--accept-new", *options, "-",
                          f"rftp://127.0.0.1:{PORT}/{name}"], stdin=subprocess.PIPE, stdout=said,
                         stderr=said)
    puts[name], fed[name] = p, 0
    feed(name, len(data) // 2)
    return "begun"


def feed(name, size):
    at = fed[name]
    fed[name] += size
    try:
        puts[name].stdin.write(content(name)[at:at + size])
        puts[name].stdin.flush()
    except BrokenPipeError:
        pass  # reported by its status


def written(pid):
    total = 0
    for child in children(pid):
        try:
            with open(f"/proc/{child}/io") as f:
                total += int(re.search(r"^wchar: (\d+)$", f.read(), re.M)[1])
        except OSError:
            pass  # has ended
    return total


def do_move(pid, n):
    answered = len(idle)
    for _ in range(int(n)):
        goal, end = written(int(pid)) + PIECE * len(puts), time.monotonic() + PATIENCE
        for name in puts:
            feed(name, PIECE)
        while True:
            answered = min(answered, do_noop())
            if written(int(pid)) >= goal:
                break
            if time.monotonic() > end:
                return "nothing moves"
    return answered


def do_status(name):
    p = puts.pop(name)
    status = p.wait()
    with open(os.path.join(DIR, name + ".said")) as f:
        return f"{status} {f.read().strip()}"


def do_finish():
    well = 0
    for name, p in puts.items():
        try:
            p.stdin.write(content(name)[fed[name]:])
            p.stdin.close()
        except BrokenPipeError:
            pass
    for p in puts.values():
        well += p.wait() == 0
    puts.clear()
    return well


def do_leave():
    for sock in idle + strangers:
        sock.close()
    idle.clear()
    strangers.clear()
    return "left"


for line in sys.stdin:
    what, *words = line.split()
    print(globals()["do_" + what](*words), flush=True)
