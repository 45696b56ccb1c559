#!/usr/bin/env python3
"""Attacks on a server before, during and after a login. Each prints its outcome in a line, and its
exit status is 0 if the outcome is right.

    hostile-client.py garbage PORT          bytes that are no FTP, with and without TLS
    hostile-client.py half PORT N           N TLS handshakes that are never finished
    hostile-client.py slow PORT N HOSTS     N connections from HOSTS hosts, a byte now and then,
                                             until the server closes them
    hostile-client.py many PORT N HOSTS     the same, until all have connected
    hostile-client.py loris PORT N HOSTS SECONDS
                                             N connections, all accepted, a byte now and then,
                                             until the server closes them, after SECONDS
                                             or more
    hostile-client.py fail PORT N           N wrong passwords, each from another host
    hostile-client.py guess PORT            wrong passwords of one host, and of many hosts for alice
    hostile-client.py reset PORT            connections reset in every state
    hostile-client.py login PORT HOST       a correct login, as alice
"""
import os
import random
import socket
import ssl
import struct
import sys
import threading
import time

PATIENCE = 120
TLS = ssl._create_unverified_context()
PORT = int(sys.argv[2])
RANDOM = random.Random(7)
PASSWORD = "s3cret"


def host(n):
    return f"127.{1 + n // 62500 % 250}.{n // 250 % 250}.{1 + n % 250}"


def connect(source="127.0.0.1", greeted=True):
    sock = socket.create_connection(("127.0.0.1", PORT), PATIENCE, (source, 0))
    return sock if not greeted or reply(sock) == 220 else None


def reply(sock):
    got = b""
    while not got.endswith(b"\n"):
        try:
            some = sock.recv(1)
        except ConnectionResetError:
            return 0
        if not some:
            return 0
        got += some
    return reply(sock) if got[3:4] == b"-" or not got[:3].isdigit() else int(got[:3])


def say(sock, line):
    sock.sendall(line if isinstance(line, bytes) else line.encode() + b"\r\n")
    return reply(sock)


def to_tls(sock):
    assert say(sock, "AUTH TLS") == 234
    return TLS.wrap_socket(sock)


def log_in(source="127.0.0.1", password=PASSWORD):
    sock = to_tls(connect(source))
    assert say(sock, "USER alice") == 331
    return sock, say(sock, "PASS " + password)


def hello():
    """The first bytes of a TLS handshake."""
    out = ssl.MemoryBIO()
    tls = TLS.wrap_bio(ssl.MemoryBIO(), out)
    try:
        tls.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return out.read()


def ends(sock, data):
    """Sends data, then closes our end. True if the server closes its end, after any reply."""
    try:
        sock.sendall(data)
        if isinstance(sock, ssl.SSLSocket):
            sock = sock.unwrap()
        sock.shutdown(socket.SHUT_WR)
        while sock.recv(65536):
            pass
    except (ConnectionError, ssl.SSLError):
        pass
    except OSError as e:
        if isinstance(e, TimeoutError):
            return False
    sock.close()
    return True


# ---- garbage ----

def noise(n):
    return RANDOM.randbytes(n)


CLEAR = {
    "random bytes": noise(100000),
    "random lines": b"".join(noise(30).replace(b"\n", b"") + b"\r\n" for _ in range(500)),
    "a line without an end": b"A" * 1000000,
    "a long line": b"USER " + b"a" * 100000 + b"\r\n",
    "a long password": b"USER alice\r\nPASS " + b"a" * 100000 + b"\r\n",
    "NULs": bytes(100000),
    "a command with NULs": b"US\0ER alice\0\r\nPASS \0\r\n",
    "options of Telnet": b"\xff\xfd\x18\xff\xfb\x1f" * 20000,
    "an option without an end": b"\xff\xfa\x18" + b"x" * 300000,
    "IAC": b"\xff" * 300001,
    "a handshake in clear": hello(),
    "HTTP": b"GET / HTTP/1.1\r\nHost: a\r\nCookie: " + b"x" * 8000 + b"\r\n\r\n",
    "SSH": b"SSH-2.0-x\r\n" + noise(2000),
    "many commands": b"NOOP\r\n" * 20000,
    "all before the login": b"PASV\r\nEPSV\r\nRETR /etc/passwd\r\nSTOR x\r\nLIST\r\nMLSD\r\nDELE x\r\n"
                            b"SITE CHMOD 777 x\r\nGIVE 9\r\n123456789TAKE 3\r\nabc",
    "a request before the login": b"BULK 4000000\r\n" + bytes(4000000),
    "a request that is too long": b"BULK 18446744073709551615\r\n" + bytes(100000),
    "a request of no length": b"BULK -1\r\n" + bytes(1000),
    "formats": b"USER %n%n%n%s%s\r\nPASS %n%n\r\n",
    "TLS with what is said behind it": b"AUTH TLS\r\nUSER alice\r\nPASS " + PASSWORD.encode() + b"\r\n",
    "no handshake": b"AUTH TLS\r\n" + noise(70000),
    "half a handshake": b"AUTH TLS\r\n" + hello()[:100],
    "a record that is too long": b"AUTH TLS\r\n\x16\x03\x01\xff\xff" + bytes(70000),
    "an empty record": b"AUTH TLS\r\n" + b"\x16\x03\x01\x00\x00" * 5000,
    "an alert": b"AUTH TLS\r\n\x15\x03\x01\x00\x02\x02\x28",
    "a handshake twice": b"AUTH TLS\r\n" + hello() * 2,
    "a handshake and noise": b"AUTH TLS\r\n" + hello() + b"\x17\x03\x03\x40\x00" + noise(0x4000),
    "SSL 2": b"AUTH TLS\r\n\x80\x2e\x01\x00\x02" + noise(44),
}


def garbage():
    bad = []
    for name, data in CLEAR.items():
        sock = connect()
        if not sock or not ends(sock, data):
            bad.append(name)
    for name, data in CLEAR.items():
        if data.startswith(b"AUTH TLS"):
            continue
        if not ends(to_tls(connect()), data):
            bad.append(name + ", under TLS")
    # Plain-text commands in the same packet as AUTH must not be executed.
    sock = connect()
    sock.sendall(b"AUTH TLS\r\nUSER alice\r\n")
    code = reply(sock)
    if code == 234:
        try:
            sock = TLS.wrap_socket(sock)
            code = say(sock, "PASS " + PASSWORD)
        except (ssl.SSLError, ConnectionError):
            code = 0
    if code in (230, 331):
        bad.append(f"USER before TLS counts: {code}")
    print("; ".join(bad) or f"{len(CLEAR)} kinds of it came to their end")
    return not bad


# ---- connections that never end by themselves ----

def closed(socks):
    """Returns True when the server has closed all sockets, while each sends a byte now and then."""
    end = time.monotonic() + PATIENCE
    left = list(socks)
    while left and time.monotonic() < end:
        for sock in list(left):
            try:
                sock.setblocking(False)
                if not sock.recv(4096):
                    left.remove(sock)
            except BlockingIOError:
                try:
                    sock.send(b"N")
                except OSError:
                    left.remove(sock)
            except OSError:
                left.remove(sock)
        time.sleep(max(0.2, len(left) / 400))
    return not left


def half():
    n, socks = int(sys.argv[3]), []
    for i in range(n):
        sock = connect()
        sock.sendall(b"AUTH TLS\r\n")
        assert reply(sock) == 234
        sock.sendall(hello()[:1 + i * 40 % 300])
        socks.append(sock)
    begun = time.monotonic()
    well = closed(socks)
    print(f"{'all were ended' if well else 'some are there still'} after "
          f"{time.monotonic() - begun:.0f} s")
    return well


def crowd():
    n, hosts = int(sys.argv[3]), int(sys.argv[4])
    let_in, refused, other = [], 0, 0
    for i in range(n):
        sock = connect(host(i % hosts), greeted=False)
        code = reply(sock)
        if code == 220:
            sock.send(b"U")
            let_in.append(sock)
        elif code == 421:
            refused += 1
        else:
            other += 1
    print(f"let in {len(let_in)}, refused {refused}, else {other}, ", end="")
    return let_in, not other


def slow():
    let_in, well = crowd()
    well = closed(let_in) and well
    print("all were ended" if well else "not all were ended")
    return well


def is_open(sock):
    sock.setblocking(False)
    try:
        return bool(sock.recv(4096, socket.MSG_PEEK))
    except BlockingIOError:
        return True


def loris():
    begun = time.monotonic()
    let_in, well = crowd()
    there, took = sum(map(is_open, let_in)), time.monotonic() - begun
    # On a slow machine the first ones may have timed out already.
    print(f"{'all' if there == len(let_in) else 'not all' if took < int(sys.argv[5]) else 'those'} "
          f"at once after {took:.0f} s, ", end="", flush=True)
    well = closed(let_in) and well
    took = time.monotonic() - begun
    print(f"{'all' if well else 'not all'} were ended after {took:.0f} s")
    return well and took >= int(sys.argv[5])


def many():
    let_in, well = crowd()
    try:
        good = log_in("127.99.0.1")[1]
    except (AssertionError, AttributeError, OSError):
        good = 421
    for sock in let_in:
        sock.send(b"S")
        sock.close()
    print(f"login {good}")
    return well


# ---- failed logins ----

def fail():
    n, codes, lock = int(sys.argv[3]), {}, threading.Lock()
    numbers = iter(range(n))

    def one(i):
        sock = connect(host(1000 + i))
        say(sock, f"USER nobody-{i}")
        return say(sock, f"PASS {i}")

    def some():
        while True:
            with lock:
                i = next(numbers, None)
            if i is None:
                return
            try:
                code = one(i)
            except (OSError, AttributeError) as e:
                code = repr(e)
            with lock:
                codes[code] = codes.get(code, 0) + 1

    # Each failed login takes a second or two.
    threads = [threading.Thread(target=some) for _ in range(100)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    print(codes)
    return codes == {530: n}


# ---- guesses ----

PAUSE = 1  # seconds of delay in a session after its first wrong password


def guess_once(source, user, password):
    """Returns the reply code and the seconds."""
    sock = connect(source)
    begun = time.monotonic()
    say(sock, "USER " + user)
    code = say(sock, "PASS " + password)
    return code, time.monotonic() - begun


def at_once(calls):
    results = [None] * len(calls)

    def call(i):
        try:
            results[i] = calls[i]()
        except (OSError, AttributeError) as e:
            results[i] = (repr(e), 0)

    threads = [threading.Thread(target=call, args=(i,)) for i in range(len(calls))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return results


def one_by_one(waits, call):
    """Makes wrong guesses, each with a minimum delay in seconds. Returns the failures."""
    bad = []
    for i, wait in enumerate(waits):
        code, took = call(i)
        if code != 530 or took < wait + PAUSE:
            bad.append(f"guess {i + 1}: {code} after {took:.1f} s, not 530 after {wait + PAUSE}")
    return bad


def guess_from_one_host():
    """The delay of a host grows, and finally it is refused, even with the right password. The limit
    of ten also applies to guesses at once, except those whose checks run at the same time."""
    here = host(3000)
    bad = one_by_one([0, 1, 2, 4, 8], lambda i: guess_once(here, f"nobody-{i}", "x"))
    more = at_once([lambda i=i: guess_once(here, f"nobody-{i}", "x") for i in range(8)])
    bad += [f"of 8 at once: {r}" for r in more if r[0] not in (421, 530) or
            r[1] < 16 + (PAUSE if r[0] == 530 else 0)]
    checked = [r[0] for r in more].count(530)
    if not 5 <= checked <= 7:
        bad.append(f"of 8 at once {checked} are checked, after five")
    for user, password in (("nobody", "x"), ("alice", PASSWORD)):
        code = guess_once(here, user, password)[0]
        if code != 421:
            bad.append(f"{user} of the host that guesses: {code}")
    return bad


def guess_one_user():
    """Logins of a user are delayed from every unknown host, but not from known ones; they are never
    refused."""
    home = host(4000)
    bad = [] if guess_once(home, "alice", PASSWORD)[0] == 230 else ["alice, before"]
    bad += one_by_one([0, 0, 0, 0, 0.25, 0.5, 1, 2, 4],
                      lambda i: guess_once(host(4001 + i), "alice", "x"))
    more = at_once([lambda i=i: guess_once(host(4100 + i), "alice", "x") for i in range(30)])
    bad += [f"of 30 hosts at once: {r}" for r in more if r[0] != 530 or r[1] < 4 + PAUSE]
    code, took = guess_once(host(4200), "alice", PASSWORD)
    if code != 230 or took < 4:
        bad.append(f"alice from elsewhere: {code} after {took:.1f} s")
    known = [guess_once(home, "alice", PASSWORD) for _ in range(5)]
    if {code for code, _ in known} != {230} or min(took for _, took in known) >= 4:
        bad.append(f"alice from where she is known: {known}")
    return bad


def guess():
    bad = sum(at_once([guess_from_one_host, guess_one_user]), [])
    print("; ".join(bad) or "waits and refusals are what they should be")
    return not bad


# ---- resets ----

def reset_now(sock):
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    os.close(sock.detach())


def passive(sock):
    sock.sendall(b"EPSV\r\n")
    line = b""
    while not line.endswith(b"\n"):
        line += sock.recv(1)
    return socket.create_connection(("127.0.0.1", int(line.split(b"|")[3])), PATIENCE)


def data(sock, command):
    """The data connection of a transfer that has begun, with TLS."""
    conn = passive(sock)
    sock.sendall(command.encode() + b"\r\n")
    return TLS.wrap_socket(conn, session=sock.session), reply(sock)


def states():
    yield "connected", lambda: [connect(greeted=False)]
    yield "greeted", lambda: [connect()]

    def said(line):
        sock = connect()
        sock.sendall(line)
        return [sock]
    yield "in a command", lambda: said(b"USER ali")
    yield "AUTH", lambda: said(b"AUTH TLS\r\n")
    yield "in a handshake", lambda: said(b"AUTH TLS\r\n" + hello()[:50])
    yield "TLS", lambda: [to_tls(connect())]

    def under_tls(line):
        sock = to_tls(connect())
        sock.sendall(line)
        return [sock]
    yield "USER", lambda: under_tls(b"USER alice\r\n")
    yield "PASS", lambda: under_tls(b"USER alice\r\nPASS " + PASSWORD.encode() + b"\r\n")

    def logged_in(*lines):
        sock = log_in()[0]
        for line in ("PBSZ 0", "PROT P", "TYPE I"):
            say(sock, line)
        for line in lines:
            sock.sendall(line)
        return sock
    yield "logged in", lambda: [logged_in()]
    yield "EPSV", lambda: [logged_in(b"EPSV\r\n")]
    yield "in a request", lambda: [logged_in(b"BULK 1000\r\n" + bytes(500))]
    yield "behind a request", lambda: [logged_in(b"BULK 1000\r\n" + bytes(1000))]

    def transfer(command, first):
        sock = logged_in()
        conn = data(sock, command)[0]
        if command.startswith("STOR"):
            conn.sendall(bytes(100000))
        elif command.startswith("RETR"):
            conn.recv(1000)
        return [conn, sock] if first else [sock, conn]
    for command in ("RETR big", "STOR up", "MLSD", "APPE up"):
        yield command, lambda command=command: transfer(command, False)
        yield command + ", data first", lambda command=command: transfer(command, True)

    def connected(command):
        sock = logged_in()
        conn = passive(sock)
        sock.sendall(command)
        return [conn, sock]
    yield "data without TLS", lambda: connected(b"RETR big\r\n")


def reset():
    done = []
    for name, begin in states():
        for sock in begin():
            reset_now(sock)
        done.append(name)
    good = log_in()[1]
    print(f"{len(done)} states; a login then: {good}")
    return good == 230


def login():
    sock, code = log_in(sys.argv[3])
    print(code, say(sock, "NOOP"))
    return code == 230


sys.exit(not globals()[sys.argv[1]]())
