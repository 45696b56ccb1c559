# SPDX-License-Identifier: Apache-2.0
"""Applies one difference: to LIO by rtslib, to mounts and files. Each runs in a child process on
the CPUs of its node and with that node's memory, so that the kernel takes the memory of a ramdisk
from there. The rest of a half-done difference is a difference, too."""
from __future__ import annotations

import contextlib
import errno
import importlib
import json
import os
import select
import signal
import stat
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rftp_common import (Failure, Stop, at_place, entries, file_text, format_size, output_of,
                         printable, proc, set_text, write_file)
from rftp_machine import NODE_UNKNOWN
from rftp_numa import placement

from . import host, plan
from .converge import Difference

PIECE = 64 << 20  # bytes of a file, after which a signal is looked for
DONE = "done"  # by a child process
LIMIT = 1800  # seconds that a difference may take


class Stuck(Failure):
    """The kernel does not answer; the child process is left alone."""


def rtslib() -> Any:
    """The module; Failure when it is missing."""
    # Of the directory for its own saved configuration, which is not used here.
    warnings.filterwarnings("ignore", message="Cannot set dbroot")
    try:
        return importlib.import_module("rtslib_fb")
    except ImportError:
        raise Failure("rtslib is missing, which changes LIO: install python3-rtslib-fb (Debian) or "
                      "python3-rtslib (RHEL)") from None


# ---- in a child process, on a node ----------------------------------------------------


def _reason(why: Exception) -> str:
    """rtslib often keeps the kernel's word to itself; a chained exception has it."""
    if not isinstance(why, (Failure, OSError)) and not type(why).__name__.startswith("RTSLib"):
        # An error in this program: its text may have a secret in it.
        return f"{type(why).__name__} in the process that changes LIO"
    parts = [str(why.filename or "" if isinstance(why, OSError) else why)]
    at: BaseException | None = why
    while at:
        if isinstance(at, OSError) and (at.strerror or "") not in parts[0]:
            parts.append(str(at.strerror))
        at = at.__cause__ or at.__context__
    return ": ".join(filter(None, parts)) or type(why).__name__


def _child(function: Callable[[], None], node: int, cpus: set[int], memory: bool,
           answer: int) -> None:
    """Never returns. memory: from the node, or none."""
    said = "it was stopped"
    try:
        # Too much memory asked for costs this process its life, and no other.
        with contextlib.suppress(OSError):
            set_text("1000", "/proc/self/oom_score_adj")
        cpus &= os.sched_getaffinity(0)  # the node may have none
        if cpus:
            os.sched_setaffinity(0, cpus)
        if memory and node != NODE_UNKNOWN:
            placement.bind_memory(node)
        function()
        said = DONE
    except Exception as why:
        said = _reason(why)
    finally:
        with contextlib.suppress(OSError):  # the parent process may have been killed
            os.write(answer, os.fsencode(" ".join(said.split())[:800]))
        os._exit(0)


def on_node(function: Callable[[], None], machine: host.Host, node: int = NODE_UNKNOWN,
            memory: bool = False, stop: Stop | None = None) -> None:
    """Failure, or Stuck. The child holds the lock as long as it runs, also when this process is
    killed; a noted signal ends it between two pieces of a file, and nowhere else."""
    told, end, (reader, writer) = False, time.monotonic() + LIMIT, os.pipe()
    pid = os.fork()
    if not pid:
        _child(function, node, machine.cpus_of(node), memory, writer)
    os.close(writer)
    with open(reader, "rb", buffering=0) as answer:
        while not select.select([answer], [], [], 0.1)[0]:  # readable, or at its end
            if time.monotonic() > end:
                raise Stuck(f"no answer for {LIMIT} s from process {pid}, which is left alone: "
                            "dmesg may show the reason")
            if stop and stop.asked and not told:
                os.kill(pid, signal.SIGTERM)
                told = True
        said = os.fsdecode(answer.read())
    os.waitpid(pid, 0)
    if said != DONE:
        raise Failure(printable(said) or "the process that does it was ended by a signal")


# ---- directories, mounts, files -------------------------------------------------------


def _mount(d: Difference) -> None:
    path = d.key[1]
    if d.to:
        options = f"nosuid,nodev,noexec,size={d.to.size},mode=0700,mpol={d.to.policy}:{d.to.nodes}"
        output_of(["mount", "-t", "tmpfs", "-o", options, "--", host.MOUNT_SOURCE, path], LIMIT)
    elif os.path.ismount(path):
        try:
            output_of(["umount", "--", path], LIMIT)
        except Failure as why:
            users = " (fuser -m shows its users)" if "busy" in str(why) else ""
            raise Failure(f"{why}{users}") from why


def _file(d: Difference, stop: Stop | None) -> None:
    """All of it is allocated now; bytes that are there stay."""
    path = d.key[1]
    if d.to is None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        return
    with at_place(f"{path}, of {d.to} bytes"), open(path, "r+b", buffering=0, opener=lambda
            path, flags: os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW, 0o600)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise Failure("is not a regular file")
        if d.was is not None and d.to < d.was:
            file.truncate(d.to)
        for at in range(d.was or 0, d.to, PIECE):
            if stop:
                stop.check()
            size = min(PIECE, d.to - at)
            room = placement.node_room(d.node) if d.strictly else None
            # The kernel would end processes that are bound to a node without memory.
            if room is not None and room < size:
                raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
            os.posix_fallocate(file.fileno(), at, size)
        os.fsync(file.fileno())
    # Here the node of its pages is checked: a tmpfs's policy is only a request.
    pages = placement.pages(path) if d.strictly else None
    if pages and pages.elsewhere(d.node):
        raise Failure(f"{path}: {format_size(pages.elsewhere(d.node))} of it are on other nodes "
                      f"than {d.node}, though its tmpfs is bound there")


# ---- LIO ------------------------------------------------------------------------------
# rtslib's lookups raise an exception that names the missing directory of configfs.

STORES = {"fileio": "FileIOStorageObject", "iblock": "BlockStorageObject",
          "rd_mcp": "RDMCPStorageObject"}
# Of a portal group: rtslib's list of them, and the end of an object's key.
PARTS: dict[str, tuple[str, Callable[[Any], host.Key]]] = {
    "lun": ("luns", lambda lun: (lun.lun,)), "acl": ("node_acls", lambda acl: (acl.node_wwn,)),
    "portal": ("network_portals",
               lambda p: (host.plain_address(p.ip_address.strip("[]")), p.port))}


def _store(plugin: str, name: str, *given: Any) -> Any:
    """With the arguments of a new one, it is made."""
    return getattr(rtslib(), STORES[plugin])(name, *given)


def _change_store(plugin: str, name: str, to: host.Store | None) -> None:
    if to:
        serial = to.serial or None
        there = os.stat(to.path) if plugin == "fileio" else None
        if there and not stat.S_ISREG(there.st_mode):
            raise Failure(f"{to.path} is not a regular file")
        if there and there.st_size != to.size:
            raise Failure(f"{to.path} exists, of {there.st_size} bytes and not "
                          f"{to.size}: remove it, or have the plan say its size")
        # Two users would destroy each other's data.
        users = {f"the back store fileio/{key[2]}": other.path
                 for key, other in host.under(host.read(), "store", "fileio")}
        users.update(("/dev/" + device, file_text("/sys/block", device, "loop/backing_file"))
                     for device in entries("/sys/block"))
        for user, used in users.items():
            if there and os.path.exists(used) and os.path.samestat(os.stat(used), there):
                raise Failure(f"{to.path} is in use by {user}")
        _store(plugin, name, *{"fileio": (to.path, to.size, serial, to.write_back),
                               "iblock": (to.path, serial), "rd_mcp": (to.size, serial)}[plugin])
        return
    gone = _store(plugin, name)
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
    node.set_attribute(attribute, value)


def _change_target(d: Difference) -> None:
    """The target itself, or an item in it."""
    lio, kind, iqn, to, name = rtslib(), d.key[0], d.key[1], d.to, d.key[-1]
    fabric = lio.FabricModule("iscsi")
    written = fabric.to_normalized_wwn(name)[0] if kind in ("target", "acl") else name
    if written != name:
        raise Failure(f"{name} is not how LIO writes it: {written}")
    mode = "create" if kind == "target" and to else "lookup"
    target = lio.Target(fabric, iqn, mode)
    if kind == "target" and not to:
        target.delete()
        return
    group = lio.TPG(target, host.TAG, mode)
    # A kill between the two system calls that make a LUN, or its mapping, leaves a directory
    # without its link, at which rtslib stumbles.
    for path in (*Path(group.path).glob("lun/lun_*"), *Path(group.path).glob("acls/*/lun_*")):
        if not any(entry.is_symlink() for entry in path.iterdir()):
            path.rmdir()
    if kind in PARTS and to is None:
        listed, key_of = PARTS[kind]
        for each in getattr(group, listed):
            if key_of(each) == d.key[2:]:
                each.delete()
    elif kind == "lun":
        lio.LUN(group, name, _store(*to))
        for acl in group.node_acls:  # all initiators are given it
            lio.MappedLUN(acl, name, name)
    elif kind == "acl":
        acl = lio.NodeACL(group, name, "create")
        for lun in group.luns:  # it is given all LUNs
            lio.MappedLUN(acl, lun.lun, lun.lun)
    elif kind == "mapped":
        lio.MappedLUN(lio.NodeACL(group, d.key[2], "lookup"), name, name)
    elif kind == "auth":
        acl = lio.NodeACL(group, name, "lookup")
        # A user without a secret is none.
        acl.chap_userid, acl.chap_password = to[:2] if all(to[:2]) else ("", "")
        acl.chap_mutual_userid, acl.chap_mutual_password = to[2:] if all(to[2:]) else ("", "")
    elif kind == "portal":
        address = f"[{d.key[2]}]" if ":" in d.key[2] else d.key[2]
        portal = lio.NetworkPortal(group, address, name, "create")
        if to:
            portal.iser = True
        if portal.iser != to:
            raise Failure("the kernel has no iSER here: is the module ib_isert there?")
    elif kind == "target-attribute":
        _set_attribute(group, name, to)
    elif kind == "enabled":
        group.enable = bool(to)


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
        set_text(to, proc(f"irq/{d.key[1]}/smp_affinity_list"))
    elif kind == "cpus":
        set_text(to, rtslib().FabricModule("iscsi").path, "cpus_allowed_list")
    elif kind == "store":
        _change_store(d.key[1], d.key[2], to)
    elif kind == "store-attribute":
        _set_attribute(_store(*d.key[1:3]), d.key[3], to)
    else:
        _change_target(d)


def change(d: Difference, machine: host.Host, stop: Stop | None = None) -> None:
    """Makes one difference; errors as of on_node()."""
    bound = d.to is not None and (d.strictly or d.key[0] == "store")
    on_node(lambda: _change(d, stop), machine, d.node, bound, stop)


def save(p: plan.Plan, file: str, machine: host.Host) -> None:
    """All of the plan for targetctl(8), with secrets in the clear, as the kernel needs them."""
    def dump() -> None:
        lio = rtslib()
        fabric = lio.FabricModule("iscsi")
        parts: dict[str, list[Any]] = {
            "fabric_modules": [],
            "storage_objects": [_store(s.plugin, str(s.name)).dump() for s in p.stores()],
            "targets": [lio.Target(fabric, t.iqn, "lookup").dump() for t in p.targets]}
        write_file(file, json.dumps(parts, sort_keys=True, indent=2) + "\n")

    on_node(dump, machine)
