#!/usr/bin/env python3
"""Plays a service manager, for tests of rftpd as a service.

    service-manager.py listen WHAT... -- COMMAND...
        become COMMAND, with these descriptors as in sd_listen_fds(3): 4, 6 and dual are TCP
        sockets on any port, unix, udp, idle (it does not listen), pipe; other (the variables are
        for another process)
    service-manager.py manager SOCKET FILE
        write the messages sent to SOCKET ("@": abstract) to FILE, each line with the sender's pid
    service-manager.py knock PORT FILE
        connect again and again until FILE.end exists; then write the number of connections with
        a greeting, and without
"""
import os
import socket
import struct
import sys
import threading


def tcp(family, address, only_six=True):
    s = socket.socket(family, socket.SOCK_STREAM)
    if family == socket.AF_INET6:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, only_six)
    s.bind((address, 0))
    s.listen(512)
    return s


def make(what):
    if what == "4":
        return tcp(socket.AF_INET, "127.0.0.1")
    if what == "6":
        return tcp(socket.AF_INET6, "::1")
    if what == "dual":
        return tcp(socket.AF_INET6, "::", only_six=False)
    if what == "udp":
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.bind(("127.0.0.1", 0))
        return s
    if what == "unix":
        s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        s.bind("\0rftpd-test-%d" % os.getpid())
        s.listen()
        return s
    if what == "idle":
        return socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    assert what == "pipe", what
    return os.fdopen(os.pipe()[0])


def listen(args):
    split = args.index("--")
    whats, command = args[:split], args[split + 1:]
    pid = os.getpid()
    if "other" in whats:
        whats.remove("other")
        pid += 1
    made = [make(w) for w in whats]
    high = [os.dup2(m.fileno(), 100 + i) for i, m in enumerate(made)]
    for i, fd in enumerate(high):
        os.dup2(fd, 3 + i)
        os.close(fd)
    os.environ["LISTEN_PID"] = str(pid)
    os.environ["LISTEN_FDS"] = os.environ.get("COUNT", str(len(made)))
    os.environ["LISTEN_FDNAMES"] = ":".join(whats)
    os.execvp(command[0], command)


def manager(name, out):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    s.bind("\0" + name[1:] if name.startswith("@") else name)
    with open(out, "w") as f:
        while True:
            data, more, _, _ = s.recvmsg(65536, socket.CMSG_SPACE(12))
            pid = struct.unpack("iII", more[0][2])[0]
            for line in data.decode().split("\n"):
                print(pid, line, file=f, flush=True)


def knock(port, out):
    counts = {True: 0, False: 0}
    lock = threading.Lock()

    def one():
        while not os.path.exists(out + ".end"):
            try:
                with socket.create_connection(("127.0.0.1", port), 60) as s:
                    greeted = s.recv(3) == b"220"
            except OSError as problem:
                greeted = False
                print(problem, file=sys.stderr)
            with lock:
                counts[greeted] += 1
                if greeted:
                    with open(out + ".count", "a") as f:
                        f.write("x\n")

    threads = [threading.Thread(target=one) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    with open(out, "w") as f:
        print(counts[True], counts[False], file=f)


if sys.argv[1] == "listen":
    listen(sys.argv[2:])
elif sys.argv[1] == "manager":
    manager(*sys.argv[2:])
else:
    knock(int(sys.argv[2]), sys.argv[3])
