# SPDX-License-Identifier: Apache-2.0
"""verify --io: a pattern is written and read through an iSER session of this very host, to a target
that is made for it at the planned portal, with a ramdisk on the target's node as its only LUN. No
planned target, LUN or data is touched, and nothing is left, also after a failure."""
from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import random
import secrets
import struct
import time
import uuid
from typing import Any

from . import host, iscsi, plan, sessions, target, topology
from .common import Failure, Stop, failed, lock, warn
from .converge import Difference, Key, StoreItem, TargetItem

SIZE = 64 << 20  # bytes of the ramdisk, which are all written and read
BLOCK = 1 << 20  # of one request; one is on its way at a time
STORE = IFACE = "rftp-verify-io"  # one test at a time has them
SUFFIX = ".rftp-verify-io"
LOCK_FILE = "/run/rftp-iser-verify-io.lock"
BLKGETSIZE64 = 0x80081272


class _Test:
    def __init__(self, t: plan.Target, p: plan.Portal, machine: topology.Host, stop: Stop):
        self.machine, self.node, self.stop = machine, t.node, stop
        self.iqn, self.serial = str(t.iqn) + SUFFIX, str(uuid.uuid4())
        # No other program knows this name, so none can log in.
        self.initiator = "%s.rftp-io-%s" % (t.iqn, secrets.token_hex(8))
        self.address = sessions.Address(str(p.address), p.port)
        self.programs = iscsi.Programs(stop)
        if len(self.initiator) > 223:
            raise Failure("%s is too long for a target beside it" % t.iqn)

    def change(self, key: Key, to: Any, was: Any = None) -> None:
        if to is not None:
            self.stop.check()
        target.change(Difference(key, was, to, "", self.node), self.machine)

    def make_target(self) -> None:
        iqn, i = self.iqn, self.initiator
        items: dict[Key, Any] = {
            ("store", "rd_mcp", STORE): StoreItem("", SIZE, False, self.serial),
            ("target", iqn): TargetItem(host.TAG, False),
            ("target-attribute", iqn, "authentication"): 0,
            ("target-attribute", iqn, "generate_node_acls"): 0,
            ("lun", iqn, 0): ("rd_mcp", STORE), ("acl", iqn, i): True,
            ("portal", iqn, self.address.host, self.address.port): True, ("enabled", iqn): True}
        for key, to in items.items():
            self.change(key, to)

    def clear(self) -> None:
        """The things of this test, or of one that was killed: only tests use these names. The
        session goes first: it would hang without its target."""
        lio = host.read_lio()
        if not lio.iscsi:
            raise Failure("LIO's iSCSI is not loaded: apply the plan again")
        for t in [t for t in lio.targets if t.iqn.endswith(SUFFIX)]:
            self.forget(t.iqn)
            self.change(("target", t.iqn), None, True)
        if lio.store("rd_mcp", STORE):
            self.change(("store", "rd_mcp", STORE), None, True)

    # ---- the session ----

    def record(self, *words: str) -> None:
        self.programs.run("iscsiadm", "-m", "node", "-T", self.iqn, "-p", str(self.address), "-I",
                          IFACE, *words)

    def iface(self, *words: str) -> None:
        self.programs.run("iscsiadm", "-m", "iface", "-I", IFACE, *words)

    def log_in(self) -> None:
        """An interface of open-iscsi's, made for this, has the initiator's name, so that the host's
        own does not change; whatever iscsid.conf says for others."""
        iscsi.load_modules(self.programs, "iser")
        iscsi.start_daemon(self.programs)
        with contextlib.suppress(iscsi.Ended):
            self.iface("-o", "delete")
        self.iface("-o", "new")
        for name, value in (("iface.transport_name", "iser"),
                            ("iface.initiatorname", self.initiator)):
            self.iface("-o", "update", "-n", name, "-v", value)
        self.record("-o", "new")
        for name, value in (("node.startup", "manual"), ("node.session.auth.authmethod", "None"),
                            ("node.session.initial_login_retry_max", "3"),
                            ("node.session.scan", "auto")):
            self.record("-o", "update", "-n", name, "-v", value)
        self.record("--login")

    def disk(self) -> tuple[str, str]:
        """Its path, and the transport."""
        end = time.monotonic() + 30
        while time.monotonic() < end:
            self.stop.check()
            s = sessions.find(sessions.read(), self.iqn)
            for d in s.disks[:1] if s else ():
                if d.serial != self.serial:
                    raise Failure("/dev/%s has not the serial of the disk that was made for the "
                                  "test: it is left alone"
                                  % d.name)
                if s and sessions.is_device("/dev/" + d.name):
                    return "/dev/" + d.name, s.transport
            time.sleep(0.05)
        raise Failure("logged in, but no disk has appeared within 30 seconds: is the module sd_mod "
                      "loaded?")

    def forget(self, iqn: str) -> None:
        """Repeatedly: iscsid refuses while it is still logging in, as of a killed test."""
        programs, end = self.programs.unstoppable(), time.monotonic() + 15
        node = ("iscsiadm", "-m", "node", "-T", iqn)
        while sessions.find(sessions.read(), iqn) and not programs.tried(*node, "--logout"):
            if time.monotonic() > end:
                warn("the session with %s, made for the test, is left" % iqn)
                return
            time.sleep(0.05)
        programs.tried(*node, "-o", "delete")

    def end(self) -> None:
        self.clear()
        self.programs.unstoppable().tried("iscsiadm", "-m", "iface", "-I", IFACE, "-o", "delete")

    # ---- the pattern ----

    def run_pattern(self, device: str) -> tuple[float, float]:
        """Seconds of all writes, and of all reads; past the page cache, whose copies would agree
        with themselves."""
        try:
            fd = os.open(device, os.O_RDWR | os.O_DIRECT | os.O_EXCL | os.O_CLOEXEC)
        except OSError as why:
            raise failed(why, device) from why
        try:
            size = struct.unpack("Q", fcntl.ioctl(fd, BLKGETSIZE64, bytes(8)))[0]
            if size != SIZE:
                raise Failure("%s has %d bytes, and not those of the disk that was made for the "
                              "test: it is left alone"
                              % (device, size))
            seed = secrets.randbits(64)
            with mmap.mmap(-1, BLOCK) as buffer:
                return self.one_way(fd, buffer, seed, True), self.one_way(fd, buffer, seed, False)
        except OSError as why:
            raise failed(why, "the test's disk " + device) from why
        finally:
            os.close(fd)

    def one_way(self, fd: int, buffer: mmap.mmap, seed: int, write: bool) -> float:
        seconds = 0.0
        for at in range(0, SIZE, BLOCK):
            self.stop.check()
            wanted = random.Random(seed ^ at).randbytes(BLOCK)
            if write:
                buffer[:] = wanted
            start = time.monotonic()
            n = os.pwritev(fd, [buffer], at) if write else os.preadv(fd, [buffer], at)
            seconds += time.monotonic() - start
            if n != BLOCK or not write and buffer[:] != wanted:
                raise Failure("what was read is not what was written, in the MiB from byte %d" % at)
        return seconds or 1e-9


def check(t: plan.Target, p: plan.Portal, machine: topology.Host, stop: Stop) -> dict[str, Any]:
    """One portal, as verify's JSON has it. Failure; nothing is left."""
    cpus = os.sched_getaffinity(0)
    held = lock(LOCK_FILE, "another verify --io is running",
                0)  # two would take each other's for left over
    try:
        test = _Test(t, p, machine, stop)
        test.clear()
        try:
            test.make_target()
            test.log_in()
            device, transport = test.disk()
            os.sched_setaffinity(0, (host.cpus_of(machine, t.node) & cpus) or cpus)
            write, read = test.run_pattern(device)
        finally:
            os.sched_setaffinity(0, cpus)
            try:
                test.end()
            except Failure as why:
                warn("of what was made for the test something is left: %s" % why)
    finally:
        os.close(held)
    return {"iqn": t.iqn, "address": p.address, "port": p.port, "node": t.node,
            "transport": transport, "bytes": SIZE,
            "write_bytes_per_second": SIZE / write, "read_bytes_per_second": SIZE / read}
