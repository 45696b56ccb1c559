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
import json
import os
import select
import signal
import stat
import time
from collections.abc import Callable
from typing import Any

from rftp_common import Failure, Stop, failed, printable, write_file

from . import host, plan, topology
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
    """Never returns. memory: from the node, or none."""
    status, said = 1, ""
    try:
        # Too much memory asked for costs this process its life, and no other.
        with contextlib.suppress(OSError):
            _write("1000", "/proc/self/oom_score_adj")
        cpus &= os.sched_getaffinity(0)  # the node may have none
        if cpus:
            os.sched_setaffinity(0, cpus)
        if memory and node != NODE_UNKNOWN:
            bits = 8 * ctypes.sizeof(ctypes.c_ulong)
            mask = (ctypes.c_ulong * (1024 // bits))()
            mask[node // bits] = 1 << node % bits
            if host.numa().set_mempolicy(MPOL_BIND, mask, ctypes.c_ulong(1025)):
                raise OSError(ctypes.get_errno(), f"node {node}")
        function()
        status = 0
    except Failure as why:
        said = str(why)
    except OSError as why:
        said = f"{why.filename}: {_reason(why)}" if why.filename else _reason(why)
    except Exception as why:  # rtslib's; or an error of ours, whose text may have a secret in it
        known = type(why).__name__.startswith("RTSLib")
        said = _reason(why) if known else f"{type(why).__name__} in the process that changes LIO"
    finally:
        with contextlib.suppress(OSError):  # the parent process may have been killed
            os.write(answer, " ".join(said.split())[:TEXT_MOST].encode("utf-8", "surrogateescape"))
        os._exit(status)


def on_node(function: Callable[[], None], machine: topology.Host, node: int = NODE_UNKNOWN,
            memory: bool = False, stop: Stop | None = None) -> None:
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
            raise Stuck(f"no answer for {limit} s from process {pid}, which is left alone: see "
                        "dmesg for what the kernel waits for")
        elif stop and stop.asked and not told:
            os.kill(pid, signal.SIGTERM)
            told = True
    os.close(reader)
    status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status):
        raise Failure(f"the process that does it was ended by signal {os.WTERMSIG(status)}")
    if os.WEXITSTATUS(status):
        raise Failure(printable(said.decode("utf-8", "surrogateescape")))


# ---- directories, mounts, files -------------------------------------------------------


def _write(value: str, *path: str) -> None:
    with open(os.path.join(*path), "w", encoding="ascii") as file:
        file.write(value)


def _mount(d: Difference) -> None:
    libc, path = ctypes.CDLL(None, use_errno=True), os.fsencode(d.key[1])
    if d.to is None:
        failure, what = libc.umount2(path, 8), f"umount {d.key[1]}"  # UMOUNT_NOFOLLOW
    else:
        options = f"size={d.to.size},mode=0700,mpol={d.to.policy}:{d.to.nodes}"
        what = f"a tmpfs at {d.key[1]}, with {options}"
        flags = 2 | 4 | 8  # MS_NOSUID, MS_NODEV, MS_NOEXEC
        failure = libc.mount(host.MOUNT_SOURCE.encode(), path, b"tmpfs", ctypes.c_ulong(flags),
                             options.encode())
    number = ctypes.get_errno()
    # EINVAL: nothing is mounted there.
    if failure and not (d.to is None and number in (errno.EINVAL, errno.ENOENT)):
        busy = " (fuser -m tells by whom)" if number == errno.EBUSY else ""
        raise Failure(f"{what}: {os.strerror(number)}{busy}")


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
            raise Failure(f"{path} is no regular file")
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
        raise failed(why, f"{path}, of {d.to} bytes") from why
    finally:
        os.close(fd)


# ---- LIO ------------------------------------------------------------------------------
# rtslib's lookups raise an exception that names the missing directory of configfs.


def _target(lio: Any, iqn: str, mode: str = "lookup") -> Any:
    return lio.Target(lio.FabricModule("iscsi"), iqn, mode)


def _group(lio: Any, iqn: str, mode: str = "lookup") -> Any:
    return lio.TPG(_target(lio, iqn, mode), host.TAG, mode)


def _store(lio: Any, plugin: str, name: str) -> Any:
    return {"fileio": lio.FileIOStorageObject, "iblock": lio.BlockStorageObject,
            "rd_mcp": lio.RDMCPStorageObject}[plugin](name)


def _check_file(lio: Any, path: str, size: int) -> None:
    """Two users would destroy each other's data."""
    there = os.stat(path)
    if not stat.S_ISREG(there.st_mode):
        raise Failure(f"{path} is no regular file")
    if there.st_size != size:
        raise Failure(f"{path} is there already, of {there.st_size} bytes and not {size}: remove "
                      "it, or have the plan say its size")
    users = {f"the back store fileio/{other.name}": other.udev_path
             for other in lio.RTSRoot().storage_objects if other.plugin == "fileio"}
    users.update(("/dev/" + device, host.text("/sys/block", device, "loop/backing_file"))
                 for device in host.entries("/sys/block"))
    for user, used in users.items():
        if os.path.exists(used or "") and os.path.samestat(os.stat(used), there):
            raise Failure(f"{path} is in use by {user}")


def _make_store(lio: Any, plugin: str, name: str, to: host.Store) -> None:
    serial = to.serial or None
    if plugin == "fileio":
        _check_file(lio, to.path, to.size)
        made = lio.FileIOStorageObject(name, to.path, to.size, serial, to.write_back)
    elif plugin == "iblock":
        made = lio.BlockStorageObject(name, to.path, serial)
    else:
        made = lio.RDMCPStorageObject(name, to.size, serial)
    if serial and made.wwn != serial:
        raise Failure(f"the kernel makes {made.wwn} of the serial {serial}")


def _delete_store(gone: Any) -> None:
    for lun in gone.attached_luns:  # rtslib would delete these, too
        raise Failure(f"it is LUN {lun.lun} of {lun.parent_tpg.parent_target.wwn}")
    try:
        gone.delete()
    except OSError:
        if gone.exists:  # the directory above it may have others in it
            raise


def _set_attribute(node: Any, attribute: str, value: int) -> None:
    if attribute not in node.list_attributes():
        raise Failure(f"this kernel has no attribute {attribute} there")
    was = node.get_attribute(attribute)
    node.set_attribute(attribute, value)
    has = node.get_attribute(attribute)
    if has != str(value):
        node.set_attribute(attribute, was)
        raise Failure(f"the kernel makes {has} of {attribute} {value}")


def _map(lio: Any, acl: Any, lun: int) -> None:
    """A directory without its link is left by a kill in between."""
    path = os.path.join(acl.path, f"lun_{lun}")
    if os.path.isdir(path) and not any(e.is_symlink() for e in os.scandir(path)):
        os.rmdir(path)
    lio.MappedLUN(acl, lun, lun)


def _delete_lun(lio: Any, group: Any, lun: int) -> None:
    """With its mappings, as rtslib does it; but that stumbles over mappings without a link."""
    gone = lio.LUN(group, lun)
    for mapped in (m for acl in group.node_acls for m in acl.mapped_luns):
        with contextlib.suppress(lio.RTSLibBrokenLink):
            if os.path.realpath(os.path.join(mapped.path, mapped.alias)) == gone.path:
                mapped.delete()
    with contextlib.suppress(lio.RTSLibBrokenLink):
        os.unlink(os.path.join(gone.path, gone.alias))
    os.rmdir(gone.path)


def _change_target(d: Difference) -> None:
    """The target itself, or an item in it."""
    lio, kind, iqn, to, name = rtslib(), d.key[0], d.key[1], d.to, d.key[-1]
    written = lio.FabricModule("iscsi").to_normalized_wwn
    if kind in ("target", "acl") and written(name)[0] != name:
        raise Failure(f"{name} is not how LIO writes it: {written(name)[0]}")
    if kind == "target" and to is None:
        _target(lio, iqn).delete()
        return
    group = _group(lio, iqn, "create" if kind == "target" else "lookup")
    acl = lio.NodeACL(group, d.key[2], "create" if kind == "acl" and to else "lookup") \
        if kind in ("acl", "auth", "mapped") else None
    if kind == "lun" and to is None:
        _delete_lun(lio, group, name)
    elif kind == "lun":
        made = lio.LUN(group, name, _store(lio, *to))
        for each in group.node_acls:  # all initiators are given it
            _map(lio, each, made.lun)
    elif kind == "acl" and to is None:
        acl.delete()
    elif kind == "acl":
        for lun in group.luns:  # it is given all LUNs
            _map(lio, acl, lun.lun)
    elif kind == "auth":
        # A user without a secret is none.
        acl.chap_userid, acl.chap_password = to[:2] if all(to[:2]) else ("", "")
        acl.chap_mutual_userid, acl.chap_mutual_password = to[2:] if all(to[2:]) else ("", "")
    elif kind == "mapped":
        _map(lio, acl, name)
    elif kind == "portal" and to is None:
        for each in group.network_portals:
            if (host.plain_address(each.ip_address.strip("[]")), each.port) == d.key[2:]:
                each.delete()
    elif kind == "portal":
        address = f"[{d.key[2]}]" if ":" in d.key[2] else d.key[2]
        made = lio.NetworkPortal(group, address, name, "create")
        if to:
            made.iser = True
        if made.iser != to:
            raise Failure("the kernel has no iSER here: is the module ib_isert there?")
    elif kind == "target-attribute":
        _set_attribute(group, name, to)
    elif kind == "enabled":
        group.enable = bool(to)
        if group.enable != bool(to):
            raise Failure("the kernel did not take it")


def _change(d: Difference, stop: Stop | None) -> None:
    kind, to = d.key[0], d.to
    if kind == "dir":
        with contextlib.suppress(FileExistsError, FileNotFoundError):
            if to:
                os.mkdir(d.key[1], 0o755)
            else:
                os.rmdir(d.key[1])
    elif kind == "mount":
        _mount(d)
    elif kind == "file":
        _file(d, stop)
    elif kind == "irq":
        _write(to, host.proc(), f"irq/{d.key[1]}/smp_affinity_list")
    elif kind == "cpus":
        _write(to, rtslib().FabricModule("iscsi").path, "cpus_allowed_list")
    elif kind == "store" and to is None:
        _delete_store(_store(rtslib(), *d.key[1:]))
    elif kind == "store":
        _make_store(rtslib(), d.key[1], d.key[2], to)
    elif kind == "store-attribute":
        _set_attribute(_store(rtslib(), *d.key[1:3]), d.key[3], to)
    else:
        _change_target(d)


def change(d: Difference, machine: topology.Host, stop: Stop | None = None) -> None:
    """Makes one difference; errors as of on_node()."""
    bound = d.to is not None and (d.strictly or d.key[0] == "store")
    on_node(lambda: _change(d, stop), machine, d.node, bound, stop)


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
        raise Failure(f"{printable(file)}, the configuration for targetctl: {why}") from None
