# SPDX-License-Identifier: Apache-2.0
"""Several disks as one, by md (RAID 0) or LVM, and XFS on them. A stripe is made once, and put
together again at each later login."""
from __future__ import annotations

import os
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field

from rftp_common import Failure, printable

from . import sessions
from .host import number, sysfs, text
from .iscsi import Ended, Programs
from .sessions import BLOCK, entries, is_device, kernel_name

KINDS = {"md": "linux_raid_member", "lvm": "LVM2_member"}  # with wipefs's word for a member
MEMBERS_MOST = 64
VOLUME = "data"  # the logical volume, in a group of our name

# Tells of the stripe that a disk belongs to. Exit status 1 of mdadm: a disk of no array; 5 of pvs:
# none of LVM's, and for much else.
ASK = {"md": ("mdadm", "--examine", "--export"),
       "lvm": ("pvs", "--noheadings", "--separator", "|", "-o",
               "pv_uuid,vg_name,vg_uuid,pv_count,lv_count")}

# ---- contents of a device -------------------------------------------------------------


def contents(p: Programs, device: str) -> str:
    """The signatures on it, "xfs, dos"; "": it is empty."""
    return ", ".join(p.run("wipefs", "--no-act", "--noheadings", "--output", "TYPE", device,
                           about=f"the contents of {device} cannot be told").split())


def make_xfs(p: Programs, device: str, disks: int, over: bool) -> None:
    """disks: of the stripe that device is; 1: it is none. over: signatures that are there."""
    name = kernel_name(device)
    # md tells its own chunk; device-mapper only that of a striped volume.
    chunk = number(sysfs(), BLOCK, name, "md/chunk_size") or \
        number(sysfs(), BLOCK, name, "queue/minimum_io_size")
    geometry = ("-d", f"su={chunk},sw={disks}") if disks > 1 and chunk else ()
    force = ("-f",) if over else ()
    p.run("mkfs.xfs", "-q", *force, *geometry, device, about=f"XFS on {device}")


# ---- stripes and their members --------------------------------------------------------


@dataclass
class Stripe:
    kind: str
    name: str  # md's, or the volume group's
    id: str  # its UUID; before it is made, the one that was drawn for it
    # Of one that is being made, or was when a login was killed: target and LUN of its disks.
    disks: list[tuple[str, int]] = field(default_factory=list)
    device: str = field(default="", compare=False)  # "/dev/md/rftp-x"
    started: bool = field(default=False, compare=False)  # by this run
    new: bool = field(default=False, compare=False)  # made by this run

    def __str__(self) -> str:
        return f"the {self.kind} stripe {printable(self.name)}"

    def to_json(self) -> dict[str, str]:
        return {"kind": self.kind, "name": self.name, "id": self.id}

    def part(self, nth: int) -> str:
        """The id of the nth disk of one that is being made."""
        return self.id if self.kind == "md" else f"{self.id}-{nth:06d}"


@dataclass
class Member:
    """The stripe that a disk belongs to, as the disk tells; id "": none."""
    name: str = ""
    id: str = ""
    of: int = 0  # how many members it has in all
    raid0: bool = True  # of LVM it is not known here
    part: str = ""  # as Stripe.part
    filled: bool = False  # there may be data: the array runs, or the group has logical volumes


def draw(kind: str, name: str) -> Stripe:
    """One that is going to be made. By the id, its parts are known: md's UUID, or the beginning of
    the UUIDs of LVM's physical volumes, for LVM draws a group's by itself."""
    if kind == "md":
        return Stripe(kind, name, ":".join(secrets.token_hex(4) for _ in range(4)))
    return Stripe(kind, name, "-".join(secrets.token_hex(n) for n in (3, 2, 2, 2, 2, 2)))


def md_member(exported: str) -> Member:
    """From mdadm --examine --export."""
    has = dict(line.partition("=")[::2] for line in exported.splitlines())
    name = has.get("MD_NAME", "").rpartition(":")[2]  # "HOST:NAME"
    # Another host may have written it, and it becomes a name below /dev/md.
    if not re.fullmatch(r"[A-Za-z0-9_+][A-Za-z0-9._+-]*", name):
        name = "rftp-found"
    of, uuid = has.get("MD_DEVICES", ""), has.get("MD_UUID", "")
    return Member(name, uuid, int(of) if of.isdecimal() else 0, has.get("MD_LEVEL") == "raid0",
                  uuid)


def lvm_member(line: str) -> Member:
    """From pvs, "UUID|GROUP|GROUP'S UUID|PHYSICAL VOLUMES|LOGICAL VOLUMES"."""
    words = line.strip().split("|")
    if len(words) != 5:
        return Member()
    disks, volumes = (int(w) if w.isdecimal() else 0 for w in words[3:])
    return Member(words[1], words[2], disks, True, words[0], volumes > 0)


def _array(path: str) -> str:
    """That the kernel has put the disk into, "md127"; "": none."""
    return next((e for e in entries(sysfs(), BLOCK, kernel_name(path), "holders")
                 if e.startswith("md")), "")


def _ask(p: Programs, kind: str, path: str) -> Member:
    """path "": the disk is missing. When mdadm or LVM cannot tell of a disk with its signature, the
    disk counts as in use."""
    if not path:
        return Member()
    why = ""
    try:
        told = p.run(*ASK[kind], path)
        m = md_member(told) if kind == "md" else lvm_member(told)
        if kind == "md" and _array(path):
            state = text(sysfs(), BLOCK, _array(path), "md/array_state")
            m.filled = state not in ("", "inactive", "clear")
        if m.part:
            return m
    except Ended as ended:
        why = f": {ended}"
    found = contents(p, path)
    if KINDS[kind] in found:
        raise Failure(f"{path} holds data ({found}), but its stripe cannot be told{why}")
    return Member()


def is_whole(kind: str, members: Sequence[Member]) -> bool:
    """Are they all members of one stripe; or False: none is of any? Else Failure."""
    first = members[0]
    if not any(m.id for m in members):
        return False
    if any(m.id != first.id for m in members) or first.of != len(members) or not first.raid0:
        of = dict.fromkeys(f"{printable(m.name)} of {m.of}" if m.id else "none" for m in members)
        raise Failure(f"the {len(members)} disks are not the disks of one {kind} stripe (RAID 0), "
                      f"but of: {', '.join(of)}: log in to all targets of one stripe")
    return True


# ---- md and LVM -----------------------------------------------------------------------


def _config() -> tuple[str, str]:
    """LVM leaves the nodes of devices to udev, and waits in vain where that does not run."""
    return "--config", ("activation{udev_sync=1}" if os.path.exists("/run/udev/control") else
                        "activation{udev_sync=0 udev_rules=0}")


def _device(p: Programs, s: Stripe, path: str) -> str:
    """path: of one of its disks."""
    if s.kind == "md":
        array, name = _array(path), "/dev/md/" + s.name
        if not array:
            raise Failure("md did not take " + path)
        return name if kernel_name(name) == array else "/dev/" + array
    group = f"the volume group {printable(s.name)}"
    found = p.run("lvs", "--noheadings", "-o", "lv_path", s.name, about=group).split()
    if len(found) != 1:
        raise Failure(f"{group} has not one volume, but none or several: it is not login's")
    return found[0]


def find(p: Programs, kind: str, paths: Sequence[str]) -> Stripe | None:
    """The one that all these disks are members of; it is started. None: the disks are in none."""
    members = [_ask(p, kind, path) for path in paths]
    if not is_whole(kind, members):
        return None
    s = Stripe(kind, members[0].name, members[0].id)
    if kind == "md" and not members[0].filled:
        p.run("mdadm", "--assemble", "/dev/md/" + s.name, "--uuid=" + s.id, *paths)
        s.started = True
    if kind == "lvm" and not is_device(_device(p, s, paths[0])):
        p.run("vgchange", *_config(), "--activate", "y", s.name)
        s.started = True
    s.device = _device(p, s, paths[0])
    return s


def make(p: Programs, s: Stripe, paths: Sequence[str], chunk: int) -> None:
    """Makes s out of the disks, unless mdadm or LVM finds something on them; s has the id then that
    it really has. After a Failure settle() takes its parts away."""
    count, kilobytes = len(paths), chunk >> 10
    # When these would ask whether to write over something, they read no answer.
    if s.kind == "md":  # it belongs to the disks, not to the host
        p.run("mdadm", "--create", "/dev/md/" + s.name, "--metadata=1.2", "--level=0",
              "--homehost=any", "--name=" + s.name, "--uuid=" + s.id, f"--raid-devices={count}",
              f"--chunk={kilobytes}", *paths)
    else:
        for nth, path in enumerate(paths):
            p.run("pvcreate", "--quiet", "--norestorefile", "--uuid", s.part(nth), path)
        p.run("vgcreate", "--quiet", s.name, *paths)
        p.run("lvcreate", *_config(), "--yes", "--quiet", "--wipesignatures", "y", "--type",
              "striped", "--stripes", str(count), "--stripesize", f"{kilobytes}k", "--extents",
              "100%FREE", "--name", VOLUME, s.name)
    s.device = _device(p, s, paths[0])
    s.id = _ask(p, s.kind, paths[0]).id
    s.started = s.new = True


def _take_off(p: Programs, s: Stripe, path: str, m: Member) -> None:
    if s.kind == "md":
        if _array(path):
            p.tried("mdadm", "--stop", "/dev/" + _array(path))
        p.tried("mdadm", "--zero-superblock", path)
        return
    if m.id:  # by the UUID, for others may have groups of this name
        p.tried("vgremove", *_config(), "--quiet", "--select", "vg_uuid=" + m.id)
    p.tried("pvremove", "--yes", "--quiet", path)


def settle(p: Programs, s: Stripe, paths: Sequence[str]) -> str:
    """Looks at s, which a login was making when it failed or was killed. "gone": nothing is left;
    "taken": there were parts that cannot have data on them, and they are off the disks now;
    "whole": it was made, and s gets its id; "untold": parts with data, or disks are missing. paths:
    of the disks in their order, "" for a missing one. Only parts with the ids of s count: other
    hosts may have been quicker."""
    p.settle()
    for again in (False, True):
        members = [_ask(p, s.kind, path) for path in paths]
        # Of LVM, not in a group that has been made of it since.
        parts = [(path, m) for nth, (path, m) in enumerate(zip(paths, members)) if
                 m.part == s.part(nth) and (s.kind == "md" or m.name in ("", s.name))]
        filled, there = any(m.filled for _, m in parts), sum(map(bool, paths))
        # An array is whole once each disk tells of it; of LVM the volume is made last.
        if len(parts) == len(paths) and (s.kind == "md" or filled):
            s.id = members[0].id
            return "whole"
        if not parts and there == len(paths):
            return "taken" if again else "gone"
        if not parts or filled or (s.kind == "md" and len(parts) == there):
            return "untold"
        if not again:
            for path, m in parts:
                _take_off(p.unstoppable(), s, path, m)
    raise Failure(f"{s} is incomplete, and cannot be taken off its disks")


def stop(p: Programs, s: Stripe) -> None:
    """Takes it away from the kernel; the data stays on the disks."""
    words = ("mdadm", "--stop", s.device) if s.kind == "md" else \
        ("vgchange", *_config(), "--activate", "n", s.name)
    p.run(*words, about=f"{s} on {s.device}")


# ---- above a disk ---------------------------------------------------------------------


def of_device(name: str, among: Sequence[Stripe]) -> Stripe | None:
    """The one that a device is; None: none of these."""
    md, dm = (re.sub("[-:]", "", text(sysfs(), BLOCK, name, file)) for file in
              ("md/uuid", "dm/uuid"))
    # device-mapper names a volume "GROUP-VOLUME", with each "-" of theirs doubled; its UUID is
    # "LVM-", the group's and its own.
    group = re.split("(?<!-)-(?!-)", text(sysfs(), BLOCK, name, "dm/name"))[0].replace("--", "-")
    for s in among:
        uuid = re.sub("[-:]", "", s.id)
        if uuid and s.kind == "md" and md == uuid:
            return s
        if uuid and s.kind == "lvm" and group == s.name and dm.startswith("LVM" + uuid):
            return s
    return None


def above(disk: str, among: Sequence[Stripe]) -> Stripe | None:
    """The one of these that a disk is in. Failure: the disk, or a device on it, has a user, or it
    is a part of another device."""
    devices, found = sessions.stack(disk), None
    sessions.check_unused(devices)
    for name in devices[1:]:
        s = of_device(name, among)
        if s and not found:
            found, s.device = s, "/dev/" + name
        elif not s and not os.path.exists(os.path.join(sysfs(), BLOCK, name, "partition")):
            raise Failure(f"/dev/{disk} is part of /dev/{name}, which is not login's: stop that "
                          "first")
    return found
