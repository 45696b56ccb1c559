# SPDX-License-Identifier: Apache-2.0
"""verify --io: a pattern is written and read through an iSER session of this very host, to a target
that is made for it at the planned portal, with a ramdisk on the target's node as its only LUN. No
planned target, LUN or data is touched, and nothing is left, also after a failure."""
from __future__ import annotations

import functools
import itertools
import mmap
import os
import random
import secrets
import time
import uuid
from typing import Any

from rftp_common import Failure, Stop, failed, warn

from . import converge, host, iscsi, sessions, target
from .plan import Initiator, Portal, Store, Target
from .state import lock

SIZE = 64 << 20  # bytes of the ramdisk, which are all written and read
BLOCK = 1 << 20  # of one request; one is on its way at a time
STORE = IFACE = "rftp-verify-io"  # one test at a time has them
SUFFIX = ".rftp-verify-io"
LOCK_FILE = "/run/rftp-iser-verify-io.lock"


class _Node(iscsi.Node):
    iface = IFACE  # an interface of open-iscsi's, made for this


def _log_out(iqn: str, p: iscsi.Programs) -> bool:
    return not sessions.find(sessions.read(), iqn) or p.tried("iscsiadm", "-m", "node", "-T", iqn,
                                                              "--logout")


def _clear(machine: host.Host, p: iscsi.Programs) -> None:
    """The things of a test that has ended, or was killed: only tests use these names. The session
    goes first: it would hang without its target."""
    items = host.read()
    if ("iscsi",) not in items:
        raise Failure("LIO's iSCSI is not loaded: apply the plan again")
    ours = {key: value for key, value in items.items() if key == ("store", "rd_mcp", STORE)
            or any(str(iqn).endswith(SUFFIX) for iqn in key[1:2])}
    for _, iqn in (key for key, _ in host.under(ours, "target")):
        # Repeatedly: iscsid refuses while it is still logging in, as of a killed test.
        if not p.wait_for(functools.partial(_log_out, iqn, p), 15):
            raise Failure(f"the session with {iqn} does not end")
        p.tried("iscsiadm", "-m", "node", "-T", iqn, "-o", "delete")
    p.tried("iscsiadm", "-m", "iface", "-I", IFACE, "-o", "delete")
    for d in converge.differences(ours, {}, {}):
        target.change(d, machine)


def _log_in(t: Target, p: iscsi.Programs) -> sessions.Disk:
    """The test's disk. The interface has the initiator's name, so that the host's own does not
    change; iscsid.conf's settings for others do not count."""
    iscsi.load_modules(p, "iser")
    iscsi.start_daemon(p)
    iface = ("iscsiadm", "-m", "iface", "-I", IFACE, "-o")
    p.run(*iface, "new")
    for name, value in (("transport_name", "iser"), ("initiatorname", str(t.initiators[0].name))):
        p.run(*iface, "update", "-n", "iface." + name, "-v", value)
    node = _Node(t.iqn, t.portals[0].address, t.portals[0].port, host.TAG, "iser")
    iscsi.make_record(p, node, {
        "node.startup": "manual", "node.session.auth.authmethod": "None",
        "node.session.initial_login_retry_max": "3", "node.session.scan": "auto"})
    iscsi.log_in(p, node)
    found: list[sessions.Disk] = []

    def has_come() -> bool:
        s = sessions.find(sessions.read(), node.iqn)
        found[:] = [d for d in s.disks if sessions.is_device("/dev/" + d.name)] if s else []
        return bool(found)

    if not p.wait_for(has_come, 30):
        raise Failure("logged in, but no disk has come within 30 seconds: is sd_mod loaded?")
    if found[0].serial != t.stores[0].serial:
        raise Failure(f"/dev/{found[0].name} has not the serial of the test's disk: it is left "
                      "alone")
    return found[0]


def _run_pattern(device: str, stop: Stop) -> list[float]:
    """Seconds of all writes, and of all reads; past the page cache, whose copies would agree with
    themselves."""
    seed, seconds = secrets.randbits(64), [0.0, 0.0]
    try:
        fd = os.open(device, os.O_RDWR | os.O_DIRECT | os.O_EXCL | os.O_CLOEXEC)
        try:
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


def _test(t: Target, machine: host.Host, stop: Stop) -> tuple[str, list[float]]:
    """The transport, and the seconds of _run_pattern()."""
    p, cpus = iscsi.Programs(stop), os.sched_getaffinity(0)
    _clear(machine, p)
    try:
        for d in converge.differences({}, converge.items_of([t]), {}):
            stop.check()
            d.node = t.node
            target.change(d, machine)
        disk = _log_in(t, p)
        os.sched_setaffinity(0, (machine.cpus_of(t.node) & cpus) or cpus)
        return disk.session.transport, _run_pattern("/dev/" + disk.name, stop)
    finally:
        os.sched_setaffinity(0, cpus)
        try:
            _clear(machine, p.unstoppable())
        except Failure as why:
            warn(f"the test has left something behind: {why}")


def check(t: Target, p: Portal, machine: host.Host, stop: Stop) -> dict[str, Any]:
    """One portal, as verify's JSON has it. Failure; nothing is left."""
    # No other program knows this name, so none can log in.
    initiator = f"{t.iqn}.rftp-io-{secrets.token_hex(8)}"
    if len(initiator) > 223:
        raise Failure(f"{t.iqn} is too long for a target beside it")
    ramdisk = Store(0, STORE, "ramdisk", t.node, SIZE, serial=str(uuid.uuid4()))
    test = Target(t.node, f"{t.iqn}{SUFFIX}", False, [p], [Initiator(initiator)], [ramdisk])
    # Two would take each other's for left over.
    held = lock(LOCK_FILE, "another verify --io is running", 0)
    try:
        transport, (write, read) = _test(test, machine, stop)
    finally:
        os.close(held)
    return {"iqn": t.iqn, "address": p.address, "port": p.port, "node": t.node,
            "transport": transport, "bytes": SIZE,
            "write_bytes_per_second": SIZE / write, "read_bytes_per_second": SIZE / read}
