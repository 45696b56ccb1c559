# SPDX-License-Identifier: Apache-2.0
"""Applies one difference: to LIO by rtslib, to mounts and files by system calls. Each runs in a
child process on the CPUs of its node and with that node's memory, so that the kernel takes the
memory of a ramdisk from there. None takes anything back: what a half-done difference has left is a
difference, too."""
from __future__ import annotations

import contextlib
import ctypes
import errno
import importlib
import itertools
import json
import os
import select
import signal
import stat
import time
from collections.abc import Callable, Iterator
from typing import Any

from . import host, plan, topology
from .common import Failure, Stop, failed, printable, write_file
from .converge import Difference
from .plan import NODE_UNKNOWN

PIECE = 64 << 20  # bytes of a file, after which a signal is looked for
LIMIT = 1800  # seconds that a difference may take; RFTP_ISER_LIMIT of the environment is another
TEXT_MOST = 800  # characters of an error
MPOL_BIND = 2


class Stuck(Failure):
    """The kernel does not answer; the child process is left alone."""


def rtslib() -> Any:
    """The module; Failure when it is missing."""
    for name in ("rtslib_fb", "rtslib"):
        with contextlib.suppress(ImportError):
            return importlib.import_module(name)
    raise Failure("rtslib is missing, which changes LIO: install python3-rtslib-fb (Debian) or "
                  "python3-rtslib (RHEL)")


# ---- in a child process, on a node ----------------------------------------------------


def _bind(node: int, cpus: set[int], memory: bool) -> None:
    """cpus: the node's; it may have none. memory: from that node, or none."""
    if cpus & os.sched_getaffinity(0):
        os.sched_setaffinity(0, cpus & os.sched_getaffinity(0))
    if memory and node != NODE_UNKNOWN:
        bits = 8 * ctypes.sizeof(ctypes.c_ulong)
        mask = (ctypes.c_ulong * (1024 // bits))()
        mask[node // bits] = 1 << node % bits
        if host.numa().set_mempolicy(MPOL_BIND, mask, ctypes.c_ulong(1025)):
            raise OSError(ctypes.get_errno(), "node %d" % node)


def _reason(why: BaseException) -> str:
    """rtslib often keeps the kernel's word to itself; a chained exception has it."""
    parts: list[str] = []
    at: BaseException | None = why
    while at:
        said = str(at) if not isinstance(at, OSError) else at.strerror or type(at).__name__
        if said not in " ".join(parts) and (not parts or isinstance(at, OSError)):
            parts.append(said)
        at = at.__cause__ or at.__context__
    return ": ".join(parts)


def _child(function: Callable[[], None], node: int, cpus: set[int], memory: bool,
           answer: int) -> None:
    """Never returns."""
    status, said = 1, ""
    try:
        # Too much memory asked for costs this process its life, and no other.
        with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w",
                                                encoding="ascii") as file:
            file.write("1000")
        _bind(node, cpus, memory)
        function()
        status = 0
    except Failure as why:
        said = str(why)
    except OSError as why:
        said = ("%s: " % why.filename if why.filename else "") + _reason(why)
    except Exception as why:  # rtslib's; or an error of ours, whose text may have a secret in it
        known = type(why).__name__.startswith("RTSLib")
        said = _reason(why) if known else "%s in the process that changes LIO" % type(why).__name__
    finally:
        with contextlib.suppress(OSError):  # the parent process may have been killed
            os.write(answer, " ".join(said.split())[:TEXT_MOST].encode("utf-8", "surrogateescape"))
        os._exit(status)


def on_node(function: Callable[[], None], machine: topology.Host, node: int = NODE_UNKNOWN,
            memory: bool = False,
            stop: Stop | None = None) -> None:
    """Failure, or Stuck. The child holds the lock as long as it runs, also when this process
    is killed; a noted signal ends it between two pieces of a file, and nowhere else."""
    limit = int(os.environ.get("RFTP_ISER_LIMIT") or 0) or LIMIT
    end, told, said = time.monotonic() + limit, False, b""
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        _child(function, node, host.cpus_of(machine, node), memory, writer)
    os.close(writer)
    while True:
        if select.select([reader], [], [], 0.1)[0]:
            part = os.read(reader, 65536)
            said += part
            if not part:
                break
        elif time.monotonic() > end:
            raise Stuck("no answer for %d s from process %d, which is left alone: see dmesg for "
                        "what the kernel waits for" % (limit, pid))
        elif stop and stop.asked and not told:
            os.kill(pid, signal.SIGTERM)
            told = True
    os.close(reader)
    status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status):
        raise Failure("the process that does it was ended by signal %d" % os.WTERMSIG(status))
    if os.WEXITSTATUS(status):
        raise Failure(printable(said.decode("utf-8", "surrogateescape")))


def change(d: Difference, machine: topology.Host, stop: Stop | None = None) -> None:
    """Makes one difference; errors as of on_node()."""
    bound = d.to is not None and (d.strictly or d.key[0] == "store")
    on_node(lambda: CHANGES[d.key[0]](d, stop), machine, d.node, bound, stop)


# ---- directories, mounts, files, interrupts -------------------------------------------


def _directory(d: Difference, _stop: Stop | None) -> None:
    with contextlib.suppress(FileExistsError, FileNotFoundError):
        if d.to:
            os.mkdir(d.key[1], 0o755)
        else:
            os.rmdir(d.key[1])


def _mount(d: Difference, _stop: Stop | None) -> None:
    libc, path = ctypes.CDLL(None, use_errno=True), os.fsencode(d.key[1])
    if d.to is None:
        # EINVAL: nothing is mounted there.
        if libc.umount2(path, 8) and ctypes.get_errno() not in (errno.EINVAL,
            errno.ENOENT):  # UMOUNT_NOFOLLOW
            busy = " (fuser -m tells by whom)" if ctypes.get_errno() == errno.EBUSY else ""
            raise Failure("umount %s: %s%s" % (printable(d.key[1]),
                                               os.strerror(ctypes.get_errno()), busy))
        return
    options = "size=%d,mode=0700,mpol=%s:%d" % (d.to.size, d.to.policy, d.to.node)
    flags = 2 | 4 | 8  # MS_NOSUID, MS_NODEV, MS_NOEXEC
    if libc.mount(host.MOUNT_SOURCE.encode(), path, b"tmpfs", ctypes.c_ulong(flags),
                  options.encode()):
        raise Failure("a tmpfs at %s, with %s: %s" % (printable(d.key[1]), options,
                                                      os.strerror(ctypes.get_errno())))


def _file(d: Difference, stop: Stop | None) -> None:
    """All of it is allocated now; bytes of d.to that are there stay."""
    path = d.key[1]
    if d.to is None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        return
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise Failure("%s is no regular file" % printable(path))
        if d.was is not None and d.to < d.was:
            os.ftruncate(fd, d.to)
        for at in range(d.was or 0, d.to, PIECE):
            if stop:
                stop.check()
            size = min(PIECE, d.to - at)
            room = host.node_room(d.node) if d.strictly else None
            # The kernel would end processes that are bound to a node without memory.
            if room is not None and room < size:
                raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
            os.posix_fallocate(fd, at, size)
        os.fsync(fd)
    except OSError as why:
        raise failed(why, "%s, of %d bytes" % (printable(path), d.to)) from why
    finally:
        os.close(fd)


def _write(value: str, *path: str) -> None:
    with open(os.path.join(*path), "w", encoding="ascii") as file:
        file.write(value)


# ---- LIO ------------------------------------------------------------------------------


def _iqn(lio: Any, iqn: str) -> str:
    written: str = lio.FabricModule("iscsi").to_normalized_wwn(iqn)[0]
    if written != iqn:
        raise Failure("%s is not how LIO writes it: %s" % (iqn, written))
    return iqn


def _target(lio: Any, iqn: str) -> Any:
    if not lio.FabricModule("iscsi").exists:  # a look into it would make it
        raise Failure("there is no target %s" % iqn)
    try:
        return lio.Target(lio.FabricModule("iscsi"), _iqn(lio, iqn), "lookup")
    except lio.RTSLibNotInCFS:
        raise Failure("there is no target %s" % iqn) from None


def _group(lio: Any, iqn: str) -> Any:
    try:
        return lio.TPG(_target(lio, iqn), host.TAG, "lookup")
    except lio.RTSLibNotInCFS:
        raise Failure("%s has no portal group %d" % (iqn, host.TAG)) from None


def _acl(lio: Any, iqn: str, initiator: str) -> Any:
    try:
        return lio.NodeACL(_group(lio, iqn), _iqn(lio, initiator), "lookup")
    except lio.RTSLibNotInCFS:
        raise Failure("%s has no initiator %s" % (iqn, initiator)) from None


def _store(lio: Any, plugin: str, name: str) -> Any:
    kind = {"fileio": lio.FileIOStorageObject, "iblock": lio.BlockStorageObject,
            "rd_mcp": lio.RDMCPStorageObject}
    try:
        return kind[plugin](name)
    except lio.RTSLibNotInCFS:
        raise Failure("there is no back store %s/%s" % (plugin, name)) from None


def _users(lio: Any) -> Iterator[tuple[str, str]]:
    """Other back stores, and loop devices, each with its file."""
    for other in lio.RTSRoot().storage_objects:
        if other.plugin == "fileio" and other.udev_path:
            yield "the back store fileio/%s" % other.name, other.udev_path
    for device in os.listdir("/sys/block"):
        backing = host.text("/sys/block", device, "loop/backing_file")
        if backing:
            yield "/dev/" + device, backing


def _check_file(lio: Any, path: str, size: int) -> None:
    there = os.stat(path)
    if not stat.S_ISREG(there.st_mode):
        raise Failure("%s is no regular file" % printable(path))
    if there.st_size != size:
        raise Failure("%s is there already, of %d bytes and not %d: remove it, or have the plan "
                      "say its size"
                      % (printable(path), there.st_size, size))
    for user, used in _users(lio):
        if os.path.exists(used) and os.path.samestat(os.stat(used), there):
            raise Failure("%s is in use by %s" % (printable(path), user))


def _change_store(d: Difference) -> None:
    lio, (plugin, name) = rtslib(), d.key[1:]
    if d.to is None:
        gone = _store(lio, plugin, name)
        for lun in gone.attached_luns:  # rtslib would delete these, too
            raise Failure("it is LUN %d of %s" % (lun.lun, lun.parent_tpg.parent_target.wwn))
        try:
            gone.delete()
        except OSError:
            if gone.exists:  # the directory above it may have others in it
                raise
        return
    serial = d.to.serial or None
    if plugin == "fileio":
        _check_file(lio, d.to.path, d.to.size)
        made = lio.FileIOStorageObject(name, d.to.path, d.to.size, serial, d.to.write_back)
    elif plugin == "iblock":
        made = lio.BlockStorageObject(name, d.to.path, serial)
    else:
        made = lio.RDMCPStorageObject(name, d.to.size, serial)
    if serial and made.wwn != serial:
        raise Failure("the kernel makes %s of the serial %s" % (made.wwn, serial))


def _set_attribute(node: Any, attribute: str, value: int) -> None:
    if attribute not in node.list_attributes():
        raise Failure("this kernel has no attribute %s there" % attribute)
    was = node.get_attribute(attribute)
    node.set_attribute(attribute, value)
    has = node.get_attribute(attribute)
    if has != str(value):
        node.set_attribute(attribute, was)
        raise Failure("the kernel makes %s of %s %d" % (has, attribute, value))


def _change_target(d: Difference) -> None:
    lio, iqn = rtslib(), d.key[1]
    if d.to is None:
        _target(lio, iqn).delete()
    else:
        lio.TPG(lio.Target(lio.FabricModule("iscsi"), _iqn(lio, iqn), "create"), host.TAG, "create")


def _map(lio: Any, acl: Any, lun: int, what: Any) -> None:
    """A directory without its link is left by a kill in between."""
    path = os.path.join(acl.path, "lun_%d" % lun)
    if os.path.isdir(path) and not any(os.path.islink(os.path.join(path,
        name)) for name in os.listdir(path)):
        os.rmdir(path)
    lio.MappedLUN(acl, lun, what)


def _change_lun(d: Difference) -> None:
    lio, (iqn, lun) = rtslib(), d.key[1:]
    group = _group(lio, iqn)
    if d.to is not None:
        made = lio.LUN(group, lun, _store(lio, *d.to))
        for acl in group.node_acls:
            _map(lio, acl, lun, made)
        return
    gone = lio.LUN(group, lun)
    # As rtslib does it; but it stumbles over mappings without a link.
    for mapped in itertools.chain.from_iterable(acl.mapped_luns for acl in group.node_acls):
        with contextlib.suppress(lio.RTSLibBrokenLink):
            if os.path.realpath(os.path.join(mapped.path, mapped.alias)) == gone.path:
                mapped.delete()
    with contextlib.suppress(lio.RTSLibBrokenLink):
        os.unlink(os.path.join(gone.path, gone.alias))
    os.rmdir(gone.path)


def _change_acl(d: Difference) -> None:
    lio, (iqn, initiator) = rtslib(), d.key[1:]
    if d.to is None:
        _acl(lio, iqn, initiator).delete()
        return
    group = _group(lio, iqn)
    made = lio.NodeACL(group, _iqn(lio, initiator), "create")
    for lun in group.luns:
        _map(lio, made, lun.lun, lun)


def _change_auth(d: Difference) -> None:
    lio, (user, secret, mutual_user, mutual) = rtslib(), d.to
    acl = _acl(lio, *d.key[1:])
    # A user without a secret is none.
    user, secret = (user, secret) if user and secret else ("", "")
    mutual_user, mutual = (mutual_user, mutual) if mutual_user and mutual else ("", "")
    acl.chap_userid, acl.chap_password = user, secret
    acl.chap_mutual_userid, acl.chap_mutual_password = mutual_user, mutual


def _change_mapped(d: Difference) -> None:
    lio, (iqn, initiator, lun) = rtslib(), d.key[1:]
    _map(lio, _acl(lio, iqn, initiator), lun, lio.LUN(_group(lio, iqn), lun))


def _change_portal(d: Difference) -> None:
    lio, (iqn, address, port) = rtslib(), d.key[1:]
    group = _group(lio, iqn)
    there = next((p for p in group.network_portals if p.port == port and
                  host.same_address(p.ip_address.strip("[]"), address)), None)
    if d.to is None:
        if not there:
            raise Failure("there is no such portal")
        there.delete()
        return
    made = lio.NetworkPortal(group, "[%s]" % address if ":" in address else address, port, "create")
    if d.to:
        made.iser = True
        if not made.iser:
            raise Failure("the kernel has no iSER here: is the module ib_isert there?")


def _change_enabled(d: Difference) -> None:
    group = _group(rtslib(), d.key[1])
    group.enable = bool(d.to)
    if group.enable != bool(d.to):
        raise Failure("the kernel did not take it")


Change = Callable[[Difference, "Stop | None"], None]
CHANGES: dict[str, Change] = {
    "dir": _directory, "mount": _mount, "file": _file,
    "irq": lambda d, _: _write(d.to, host.proc(), "irq/%d/smp_affinity_list" % d.key[1]),
    "store": lambda d, _: _change_store(d), "target": lambda d, _: _change_target(d),
    "lun": lambda d, _: _change_lun(d), "acl": lambda d, _: _change_acl(d),
    "auth": lambda d, _: _change_auth(d), "mapped": lambda d, _: _change_mapped(d),
    "portal": lambda d, _: _change_portal(d), "enabled": lambda d, _: _change_enabled(d),
    "store-attribute": lambda d, _: _set_attribute(_store(rtslib(), *d.key[1:3]), d.key[3], d.to),
    "target-attribute": lambda d, _: _set_attribute(_group(rtslib(), d.key[1]), d.key[2], d.to),
    "cpus": lambda d, _: _write(d.to, rtslib().FabricModule("iscsi").path, "cpus_allowed_list"),
}


def save(p: plan.Plan, file: str, machine: topology.Host) -> None:
    """All of the plan for targetctl(8), with secrets in the clear, as the kernel needs them."""
    def dump() -> None:
        lio = rtslib()
        parts: dict[str, list[Any]] = {
            "fabric_modules": [],
            "storage_objects": [_store(lio, s.plugin, str(s.name)).dump() for s in p.stores()],
            "targets": [_target(lio, str(t.iqn)).dump() for t in p.targets]}
        write_file(file, json.dumps(parts, sort_keys=True, indent=2) + "\n")

    try:
        on_node(dump, machine)
    except Failure as why:
        raise Failure("%s, the configuration for targetctl: %s" % (printable(file), why)) from None
