# SPDX-License-Identifier: Apache-2.0
"""The ends of a path: programs that run there, and how far apart they are."""

import ctypes
import os
import shlex
import shutil
import signal
import socket
import subprocess
import time
import urllib.parse

from sweep import Failure
from wan.loop import mbit_of

DEFAULT_PORT = 7321
UP_SECONDS = 30        # for a server to come up
CONNECT_SECONDS = 5
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)
HERE = os.path.dirname(os.path.abspath(__file__))


class Stopped(BaseException):
    """A signal that ends the sweep; its number."""


# ---- programs ----------------------------------------------------------------------

class Done:
    """A program that has ended."""

    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err

    def why(self):
        """Its last words, in one line."""
        lines = [line.strip() for line in (self.err or self.out).splitlines() if line.strip()]
        return " ".join(lines[-2:])[:400] or "status %d" % self.status


ENDING = signal.SIGINT, signal.SIGTERM, signal.SIGHUP


def end_with_us(mask):
    """Even when we are killed nothing runs on. mask: the program's blocked signals."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


class Programs:
    """All that were started and have not ended."""

    def __init__(self):
        self.running = []

    def start(self, words, env=None, into=subprocess.PIPE):
        """In a session of its own: a ^C is for us, and we end it."""
        # A signal between the start and the list would leave a program that end_all() does not know.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        try:
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=into,
                                       stderr=subprocess.STDOUT if into != subprocess.PIPE
                                       else subprocess.PIPE, text=True, env=env,
                                       errors="replace", start_new_session=True,
                                       preexec_fn=lambda: end_with_us(mask))
            self.running.append(process)
        except OSError as e:
            raise Failure("%s: %s" % (words[0], e.strerror)) from e
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        return process

    def wait(self, process, limit):
        try:
            out, err = process.communicate(timeout=limit)
            done = Done(process.returncode, out or "", err or "")
        except subprocess.TimeoutExpired:
            self.end(process)
            done = Done(124, "", "it did not end in %d s" % limit)
        if process in self.running:
            self.running.remove(process)
        return done

    def run(self, words, limit, env=None):
        return self.wait(self.start(words, env), limit)

    def end(self, process):
        process.terminate()
        try:
            process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
        if process in self.running:
            self.running.remove(process)

    def end_all(self):
        for process in list(self.running):
            self.end(process)


class Far:
    """The host of the server, for iperf3 and perftest: this one, or by ssh another."""

    def __init__(self, programs, ssh=None):
        self.programs, self.ssh = programs, ssh

    def words(self, words):
        if not self.ssh:
            return words
        return ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=%d" % CONNECT_SECONDS,
                self.ssh, shlex.join(words)]

    def has(self, program):
        if not self.ssh:
            return shutil.which(program) is not None
        return self.programs.run(self.words(["which", program]), 30).status == 0

    def rdma_device(self, address):
        """[device, index of its GID], or a reason."""
        with open(os.path.join(HERE, "..", "rdma-device.py"), encoding="utf-8") as f:
            done = subprocess.run(self.words(["python3", "-", address]), input=f.read(), text=True,
                                  capture_output=True, check=False)
        if done.returncode:
            return None, Done(done.returncode, done.stdout, done.stderr).why()
        return done.stdout.split(), None


# ---- a path ------------------------------------------------------------------------

class Path:
    """One way from here to a server. why_not: why there is nothing to compare with, or None."""

    def __init__(self, label, url, login, words=(), netem=None, far=None, why_not=None):
        # host:/ is the root there, and host: the home directory.
        self.label, self.url = label, url if url.endswith(":/") else url.rstrip("/")
        self.login = list(login)       # words for each rftp
        self.words = list(words)       # and for each that moves data
        self.netem, self.far, self.why_not = netem, far, why_not
        self.rtt_ms = None
        self.host, self.port = host_and_port(url)
        self.address = self.host       # for iperf3 and perftest
        self.devices = None            # of RDMA: [[device, GID] here, there]

    def file(self, name):
        """The URL of a file in it; a host's home directory may be all of a URL."""
        return self.url + ("" if self.url.endswith((":", "/")) else "/") + name

    def measure_rtt(self):
        """By the time that TCP takes to connect; None: it does not, or the way is ssh's."""
        self.rtt_ms = None
        if self.port:
            times = [time_to_connect(self.host, self.port) for _ in range(3)]
            self.rtt_ms = min((t for t in times if t), default=None)

    def here(self):
        """Our own address on this path."""
        family = socket.AF_INET6 if ":" in self.address else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as s:
            s.connect((self.address, 9))
            return s.getsockname()[0]

    def find_devices(self, far):
        """Why there are none, or None."""
        address = socket.getaddrinfo(self.address, None)[0][4][0]
        ends = [Far(far.programs).rdma_device(self.here()), far.rdma_device(address)]
        for found, why in ends:
            if not found:
                return why
        self.devices = [found for found, _ in ends]
        return None


def host_and_port(url):
    """("host", port); the port is None where ssh is the way."""
    if not url.startswith("rftp://"):
        word = url.partition("://")[2].partition("/")[0] or url.partition(":")[0]
        return word.rpartition("@")[2], None
    parts = urllib.parse.urlsplit(url)
    try:
        return parts.hostname or "", parts.port or DEFAULT_PORT
    except ValueError:
        return parts.hostname or "", None


def time_to_connect(host, port):
    """Milliseconds, or None."""
    try:
        address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(*address[:3]) as s:
            s.settimeout(CONNECT_SECONDS)
            begun = time.perf_counter()
            s.connect(address[4])
            return (time.perf_counter() - begun) * 1e3
    except OSError:
        return None


def until(condition, seconds):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


# ---- our own server ----------------------------------------------------------------

def start_server(programs, rftpd, address, card, root, state, log):
    """rftpd on an address, with a card; its port."""
    port_file = os.path.join(state, "port")
    with open(log, "w", encoding="utf-8") as into:
        process = programs.start([rftpd, "--one-process", "--listen", address + ":0",
                                  "--nic", card, "--root", root,
                                  "--anonymous", "rw", "--state", os.path.join(state, "rftpd"),
                                  "--port-file", port_file], into=into)

    def up():
        return process.poll() is not None or \
            os.path.exists(port_file) and os.path.getsize(port_file)

    if not until(up, UP_SECONDS) or process.poll() is not None:
        with open(log, encoding="utf-8", errors="replace") as f:
            raise Failure("rftpd does not start: " + Done(1, "", f.read()).why())
    with open(port_file, encoding="ascii") as f:
        return int(f.readline())


def advice(cards, rtt_ms, ops):
    """Lines about settings of this host that will limit the rate."""
    lines = []
    for card in cards:
        with open("/sys/class/net/%s/mtu" % card, encoding="ascii") as f:
            mtu = int(f.read())
        if ("write" in ops or "read" in ops) and mtu < 4200:
            lines.append("%s has an MTU of %d, and RDMA 1024 bytes a packet; with 4200 and more "
                         "they are 4096 (ip link set mtu 9000 dev %s)" % (card, mtu, card))
    mbit = min((mbit_of(card) or 0 for card in cards), default=0)
    way = mbit * 1e3 / 8 * (rtt_ms or 0)   # bytes on the way
    for name in ("tcp_rmem", "tcp_wmem"):
        with open("/proc/sys/net/ipv4/" + name, encoding="ascii") as f:
            most = int(f.read().split()[2])
        if "tcp" in ops and most < 2 * way:
            lines.append("net.ipv4.%s ends at %d; one stream that is to fill %d Mbit/s at %.0f ms "
                         "needs %d (rftp-tuning(7))" % (name, most, mbit, rtt_ms, 2 * way))
    return lines
