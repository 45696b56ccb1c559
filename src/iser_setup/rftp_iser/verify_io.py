# SPDX-License-Identifier: Apache-2.0
"""verify --io: a pattern is written and read through an iSER session of this very host, to a target
that is made for it at the planned portal, with a ramdisk on the target's node as its only LUN. No
planned target, LUN or data is touched, and nothing is left, also after a failure."""
from __future__ import annotations

import contextlib
import fcntl
import itertools
import mmap
import os
import random
import secrets
import struct
import time
import uuid
from collections.abc import Iterator
from typing import Any

from rftp_common import Failure, Stop, failed, warn

from . import converge, host, iscsi, sessions, target, topology
from .plan import Initiator, Portal, Store, Target
from .state import lock

SIZE = 64 << 20  # bytes of the ramdisk, which are all written and read
BLOCK = 1 << 20  # of one request; one is on its way at a time
STORE = IFACE = "rftp-verify-io"  # one test at a time has them
SUFFIX = ".rftp-verify-io"
LOCK_FILE = "/run/rftp-iser-verify-io.lock"
BLKGETSIZE64 = 0x80081272


def _clear(machine: topology.Host, programs: iscsi.Programs) -> None:
    """The things of a test that has ended, or was killed: only tests use these names. The session
    goes first: it would hang without its target."""
    items = host.read()
    if ("iscsi",) not in items:
        raise Failure("LIO's iSCSI is not loaded: apply the plan again")
    ours = {key: value for key, value in items.items() if key == ("store", "rd_mcp", STORE)
            or any(str(iqn).endswith(SUFFIX) for iqn in key[1:2])}
    programs = programs.unstoppable()
    for _, iqn in (key for key, _ in host.under(ours, "target")):
        # Repeatedly: iscsid refuses while it is still logging in, as of a killed test.
        end, node = time.monotonic() + 15, ("iscsiadm", "-m", "node", "-T", iqn)
        while sessions.find(sessions.read(), iqn) and not programs.tried(*node, "--logout"):
            if time.monotonic() > end:
                raise Failure(f"the session with {iqn} does not end")
            time.sleep(0.05)
        programs.tried(*node, "-o", "delete")
    for d in converge.differences(ours, {}, {}):
        target.change(d, machine)


def _log_in(t: Target, programs: iscsi.Programs) -> None:
    """An interface of open-iscsi's, made for this, has the initiator's name, so that the host's own
    does not change; whatever iscsid.conf says for others."""
    iscsi.load_modules(programs, "iser")
    iscsi.start_daemon(programs)
    iface = ("iscsiadm", "-m", "iface", "-I", IFACE, "-o")
    programs.tried(*iface, "delete")
    programs.run(*iface, "new")
    for name, value in (("transport_name", "iser"), ("initiatorname", str(t.initiators[0].name))):
        programs.run(*iface, "update", "-n", "iface." + name, "-v", value)
    address = sessions.Address(str(t.portals[0].address), t.portals[0].port)
    record = ("iscsiadm", "-m", "node", "-T", str(t.iqn), "-p", str(address), "-I", IFACE)
    programs.run(*record, "-o", "new")
    for name, value in (("startup", "manual"), ("session.auth.authmethod", "None"),
                        ("session.initial_login_retry_max", "3"), ("session.scan", "auto")):
        programs.run(*record, "-o", "update", "-n", "node." + name, "-v", value)
    programs.run(*record, "--login")


def _disk(t: Target, stop: Stop) -> tuple[str, str]:
    """Its path, and the transport."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        stop.check()
        s = sessions.find(sessions.read(), str(t.iqn))
        for path, d in (("/dev/" + d.name, d) for d in (s.disks[:1] if s else ())):
            if d.serial != t.stores[0].serial:
                raise Failure(f"{path} has not the serial of the test's disk: it is left alone")
            if s and sessions.is_device(path):
                return path, s.transport
        time.sleep(0.05)
    raise Failure("logged in, but no disk has come within 30 seconds: is sd_mod loaded?")


@contextlib.contextmanager
def _session(t: Target, machine: topology.Host, stop: Stop) -> Iterator[tuple[str, str]]:
    """The target, and a session with it."""
    programs = iscsi.Programs(stop)
    _clear(machine, programs)
    try:
        for d in converge.differences({}, converge.items_of([t]), {}):
            stop.check()
            d.node = t.node
            target.change(d, machine)
        _log_in(t, programs)
        yield _disk(t, stop)
    finally:
        try:
            _clear(machine, programs)
            programs.unstoppable().tried("iscsiadm", "-m", "iface", "-I", IFACE, "-o", "delete")
        except Failure as why:
            warn(f"of what was made for the test something is left: {why}")


def _run_pattern(device: str, stop: Stop) -> list[float]:
    """Seconds of all writes, and of all reads; past the page cache, whose copies would agree with
    themselves."""
    seed, seconds = secrets.randbits(64), [0.0, 0.0]
    try:
        fd = os.open(device, os.O_RDWR | os.O_DIRECT | os.O_EXCL | os.O_CLOEXEC)
        try:
            size = struct.unpack("Q", fcntl.ioctl(fd, BLKGETSIZE64, bytes(8)))[0]
            if size != SIZE:
                raise Failure(f"{device} has {size} bytes: it is not the test's, and left alone")
            buffer = mmap.mmap(-1, BLOCK)  # aligned
            for read, at in itertools.product((False, True), range(0, SIZE, BLOCK)):
                stop.check()
                wanted = random.Random(seed ^ at).randbytes(BLOCK)
                buffer[:] = bytes(BLOCK) if read else wanted
                start = time.monotonic()
                n = os.preadv(fd, [buffer], at) if read else os.pwritev(fd, [buffer], at)
                seconds[read] += time.monotonic() - start
                if n != BLOCK or buffer[:] != wanted:
                    raise Failure(f"it read other bytes than it wrote, in the MiB from byte {at}")
        finally:
            os.close(fd)
    except OSError as why:
        raise failed(why, f"the test's disk {device}") from why
    return seconds


def check(t: Target, p: Portal, machine: topology.Host, stop: Stop) -> dict[str, Any]:
    """One portal, as verify's JSON has it. Failure; nothing is left."""
    # No other program knows this name, so none can log in.
    initiator = f"{t.iqn}.rftp-io-{secrets.token_hex(8)}"
    if len(initiator) > 223:
        raise Failure(f"{t.iqn} is too long for a target beside it")
    ramdisk = Store(0, STORE, "ramdisk", t.node, SIZE, serial=str(uuid.uuid4()))
    test = Target(t.node, f"{t.iqn}{SUFFIX}", False, [p], [Initiator(initiator)], [ramdisk])
    cpus = os.sched_getaffinity(0)
    # Two would take each other's for left over.
    held = lock(LOCK_FILE, "another verify --io is running", 0)
    try:
        with _session(test, machine, stop) as (device, transport):
            os.sched_setaffinity(0, (host.cpus_of(machine, t.node) & cpus) or cpus)
            write, read = _run_pattern(device, stop)
    finally:
        os.sched_setaffinity(0, cpus)
        os.close(held)
    return {"iqn": t.iqn, "address": p.address, "port": p.port, "node": t.node,
            "transport": transport, "bytes": SIZE,
            "write_bytes_per_second": SIZE / write, "read_bytes_per_second": SIZE / read}
