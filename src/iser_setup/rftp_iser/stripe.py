# SPDX-License-Identifier: Apache-2.0
"""Several disks as one, by md (RAID 0) or LVM, and XFS on them. A stripe is made once, and put
together again at each later login."""
from __future__ import annotations

import os
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from .common import Failure, printable
from .host import number, sysfs, text
from .iscsi import Ended, Programs
from .sessions import BLOCK, entries, is_device, kernel_name

KINDS = ("md", "lvm")
MEMBERS_MOST = 64
VOLUME = "data"  # the logical volume, in a group of our name

# ---- contents of a device -------------------------------------------------------------


def contents(p: Programs, device: str) -> str:
    """The signatures on it, "xfs, dos"; "": it is empty."""
    try:
        return ", ".join(p.run("wipefs", "--no-act", "--noheadings", "--output", "TYPE",
                               device).split())
    except Ended as why:
        raise Failure("the contents of %s cannot be told: %s" % (device, why)) from None


def wipe(p: Programs, paths: Sequence[str]) -> None:
    p.run("wipefs", "--quiet", "--all", *paths)


def chunk_of(name: str) -> int:
    """Of a stripe that is there, in bytes; 0: not known."""
    # md tells its own; device-mapper only that of a striped volume.
    return number(sysfs(), BLOCK, name, "md/chunk_size") or \
        number(sysfs(), BLOCK, name, "queue/minimum_io_size")


def make_xfs(p: Programs, device: str, disks: int, over: bool) -> None:
    """disks: of the stripe that device is; 1: it is none. over: signatures that are there."""
    chunk = chunk_of(kernel_name(device)) if disks > 1 else 0
    geometry = ("-d", "su=%d,sw=%d" % (chunk, disks)) if chunk else ()
    try:
        p.run("mkfs.xfs", "-q", *(("-f",) if over else ()), *geometry, device)
    except Ended as why:
        raise Failure("XFS on %s: %s" % (device, why)) from None


# ---- members --------------------------------------------------------------------------


@dataclass
class Stripe:
    kind: str
    name: str  # md's, or the volume group's
    id: str  # its UUID; before it is made, the one that was drawn for it

    def __str__(self) -> str:
        return "the %s stripe %s" % (self.kind, printable(self.name))


@dataclass
class Member:
    """The stripe that a disk belongs to, as the disk tells; id "": none."""
    name: str = ""
    id: str = ""
    of: int = 0  # how many members it has in all
    raid0: bool = True  # of LVM it is not known here
    volume: str = ""  # LVM's UUID of the disk
    filled: bool = False  # LVM's group has logical volumes


def md_member(exported: str) -> Member:
    """From mdadm --examine --export."""
    has = dict(line.partition("=")[::2] for line in exported.splitlines())
    name = has.get("MD_NAME", "").rpartition(":")[2]  # "HOST:NAME"
    # Another host may have written it, and it becomes a name below /dev/md.
    if not re.fullmatch(r"[A-Za-z0-9_+][A-Za-z0-9._+-]*", name):
        name = "rftp-found"
    of = has.get("MD_DEVICES", "")
    return Member(name, has.get("MD_UUID", ""), int(of) if of.isdecimal() else 0,
                  has.get("MD_LEVEL") == "raid0")


def lvm_member(line: str) -> Member | None:
    """From pvs, "UUID|GROUP|GROUP'S UUID|PHYSICAL VOLUMES|LOGICAL VOLUMES"; None: it is no such
    line."""
    words = line.strip().split("|")
    if len(words) != 5:
        return None
    counts = [int(w) if w.isdecimal() else 0 for w in words[3:]]
    return Member(words[1], words[2], counts[0], True, words[0], counts[1] > 0)


def _ask(p: Programs, kind: str, path: str) -> Member:
    """When mdadm or LVM cannot tell of a disk with its signature, the disk counts as in use."""
    why = ""
    try:
        if kind == "md":  # exit status 1: a disk of no array
            member: Member | None = md_member(p.run("mdadm", "--examine", "--export", path))
        else:  # exit status 5: none of LVM's, and for much else
            member = lvm_member(p.run("pvs", "--noheadings", "--separator", "|", "-o",
                                      "pv_uuid,vg_name,vg_uuid,pv_count,lv_count", path))
        if member and (member.id or member.volume):
            return member
    except Ended as ended:
        why = ": %s" % ended
    found = contents(p, path)
    if ("linux_raid_member" if kind == "md" else "LVM2_member") in found:
        raise Failure("%s holds data (%s), but its stripe cannot be told%s" % (path, found, why))
    return Member()


def is_whole(kind: str, members: Sequence[Member]) -> bool:
    """Are they all members of one stripe; or False: none is of any? Else Failure."""
    count, first = sum(bool(m.id) for m in members), members[0]
    if not count:
        return False
    if any(m.id != first.id for m in members):
        raise Failure("%d of the %d disks belong to %s stripes already, and not all to the same: "
                      "log in to the targets of one" % (count, len(members), kind))
    if first.of != len(members):
        raise Failure("the %d disks belong to a stripe of %d, %s: log in to all of its targets" % (
            len(members), first.of, printable(first.name)))
    if not first.raid0:
        raise Failure("the disks belong to an array that is no RAID 0, " + printable(first.name))
    return True


# ---- md -------------------------------------------------------------------------------


def _array(path: str) -> str:
    """That the kernel has put the disk into, "md127"; "": none."""
    return next((e for e in entries(sysfs(), BLOCK, kernel_name(path), "holders")
                 if e.startswith("md")), "")


def _runs(array: str) -> bool:
    return text(sysfs(), BLOCK, array, "md/array_state") not in ("", "inactive", "clear")


def _md_device(name: str, path: str) -> str:
    """By its name if udev or mdadm has made that."""
    array = _array(path)
    if not array:
        raise Failure("md did not take " + path)
    return "/dev/md/" + name if kernel_name("/dev/md/" + name) == array else "/dev/" + array


def _md_unmake(p: Programs, s: Stripe, paths: Sequence[str]) -> None:
    """Only on disks that have its id: other hosts may have been quicker."""
    for path in paths:
        try:
            if not path or _ask(p, "md", path).id != s.id:
                continue
        except Failure:
            continue
        if _array(path):
            p.tried("mdadm", "--stop", "/dev/" + _array(path))
        p.tried("mdadm", "--zero-superblock", path)


def _md_make(p: Programs, s: Stripe, paths: Sequence[str], chunk: int) -> str:
    # It belongs to the disks, not to the host. When mdadm would ask whether to write over
    # something, it reads no answer.
    p.run("mdadm", "--create", "/dev/md/" + s.name, "--metadata=1.2", "--level=0",
          "--homehost=any", "--name=" + s.name, "--uuid=" + s.id,
          "--raid-devices=%d" % len(paths), "--chunk=%d" % (chunk >> 10), *paths)
    return _md_device(s.name, paths[0])


# ---- LVM ------------------------------------------------------------------------------


def _config() -> tuple[str, str]:
    """LVM leaves the nodes of devices to udev, and waits in vain where that does not run."""
    return "--config", ("activation{udev_sync=1}" if os.path.exists("/run/udev/control") else
                        "activation{udev_sync=0 udev_rules=0}")


def _lvm_device(p: Programs, group: str) -> str:
    try:
        found = p.run("lvs", "--noheadings", "-o", "lv_path", group).split()
    except Ended as why:
        raise Failure("the volume group %s: %s" % (printable(group), why)) from None
    if len(found) != 1:
        raise Failure("the volume group %s has not one volume, but none or several: it is not "
                      "login's" % printable(group))
    return found[0]


def volume_id(s: Stripe, nth: int) -> str:
    return "%s-%06d" % (s.id, nth)


def _is_volume_of(s: Stripe, nth: int, m: Member) -> bool:
    """The nth of s; and not in a group that has been made of it since."""
    return m.volume == volume_id(s, nth) and m.name in ("", s.name)


def _lvm_unmake(p: Programs, s: Stripe, paths: Sequence[str], also_filled: bool) -> None:
    """Only parts with the ids of s. also_filled: this process has just made the logical volume."""
    for nth, path in enumerate(paths):
        try:
            m = _ask(p, "lvm", path) if path else Member()
        except Failure:
            continue
        if not _is_volume_of(s, nth, m) or (m.filled and not also_filled):
            continue
        # By the UUID, for others may have groups of this name.
        if m.id:
            p.tried("vgremove", *_config(), "--quiet", *(("--force", "--force", "--yes") if
                                                        m.filled else ()),
                    "--select", "vg_uuid=" + m.id)
        p.tried("pvremove", "--yes", "--quiet", path)


def _lvm_make(p: Programs, s: Stripe, paths: Sequence[str], chunk: int) -> str:
    for nth, path in enumerate(paths):  # when it would ask, it reads no answer
        p.run("pvcreate", "--quiet", "--norestorefile", "--uuid", volume_id(s, nth), path)
    p.run("vgcreate", "--quiet", s.name, *paths)
    p.run("lvcreate", *_config(), "--yes", "--quiet", "--wipesignatures", "y", "--type", "striped",
          "--stripes", "%d" % len(paths), "--stripesize", "%dk" % (chunk >> 10),
          "--extents", "100%FREE", "--name", VOLUME, s.name)
    return _lvm_device(p, s.name)


# ---- either ---------------------------------------------------------------------------


def draw(kind: str, name: str) -> Stripe:
    """One that is going to be made. By the id, its parts are known: md's UUID, or the beginning of
    the UUIDs of LVM's physical volumes, for LVM draws a group's by itself."""
    d = secrets.token_hex(16)
    parts = [8] * 4 if kind == "md" else [6, 4, 4, 4, 4, 4]
    cut = [d[sum(parts[:i]):sum(parts[:i + 1])] for i in range(len(parts))]
    return Stripe(kind, name, (":" if kind == "md" else "-").join(cut))


def find(p: Programs, kind: str, paths: Sequence[str]) -> tuple[Stripe, str, bool] | None:
    """The one that all these disks are members of, its device, and whether it was put together just
    now. None: the disks are in none."""
    members = [_ask(p, kind, path) for path in paths]
    if not is_whole(kind, members):
        return None
    s = Stripe(kind, members[0].name, members[0].id)
    if kind == "md":
        array = _array(paths[0])
        started = not (array and _runs(array))
        if started:
            p.run("mdadm", "--assemble", "/dev/md/" + s.name, "--uuid=" + s.id, *paths)
        return s, _md_device(s.name, paths[0]), started
    device = _lvm_device(p, s.name)
    started = not is_device(device)
    if started:
        p.run("vgchange", *_config(), "--activate", "y", s.name)
    return s, device, started


def make(p: Programs, s: Stripe, paths: Sequence[str], chunk: int) -> tuple[Stripe, str]:
    """Makes s out of the disks, unless mdadm or LVM finds something on them: with the id that it
    has then, and its device. On failure nothing of it is left, as far as that can be."""
    free = p.unstoppable()  # a signal may have ended a program in its midst, and must not end this
    try:
        device = (_md_make if s.kind == "md" else _lvm_make)(p, s, paths, chunk)
        return Stripe(s.kind, s.name, _ask(free, s.kind, paths[0]).id), device
    except Failure:
        if s.kind == "md":
            _md_unmake(free, s, paths)
        else:
            _lvm_unmake(free, s, paths, True)
        raise


def left(p: Programs, s: Stripe, paths: Sequence[str]) -> tuple[str, str]:
    """The state in which a killed run has left s, by the drawn id, and the id that it has now.
    "gone": nothing is left; "half": parts that cannot have data on them; "whole": it was made;
    "untold": parts with data, or disks are missing. paths: of its disks in their order, "" for a
    missing one."""
    has, in_use, its_id = 0, False, s.id
    for nth, path in enumerate(paths):
        m = _ask(p, s.kind, path) if path else Member()
        if s.kind == "md" and m.id == s.id:
            has += 1
            in_use |= bool(_array(path)) and _runs(_array(path))
        elif s.kind == "lvm" and _is_volume_of(s, nth, m):
            has += 1
            in_use |= m.filled
            its_id = m.id
    there = sum(map(bool, paths))
    # An array is whole once each disk tells of it; of LVM the volume is made last.
    if has == len(paths) and (s.kind == "md" or in_use):
        return "whole", its_id
    if has and not in_use and (s.kind == "lvm" or has < there):
        return "half", its_id
    return ("untold" if has or there < len(paths) else "gone"), its_id


def take_down(p: Programs, s: Stripe, paths: Sequence[str]) -> str:
    """Takes a half off the disks; the state then, "gone" or "untold"."""
    p = p.unstoppable()
    if s.kind == "md":
        _md_unmake(p, s, paths)
    else:
        _lvm_unmake(p, s, paths, False)
    now = left(p, s, paths)[0]
    if now == "half":
        raise Failure("%s is incomplete, and cannot be taken off its disks" % s)
    return now


def stop(p: Programs, s: Stripe, device: str) -> None:
    """Takes it away from the kernel; the data stays on the disks."""
    try:
        if s.kind == "md":
            p.run("mdadm", "--stop", device)
        else:
            p.run("vgchange", *_config(), "--activate", "n", s.name)
    except Ended as why:
        raise Failure("%s on %s: %s" % (s, device, why)) from None


def of_device(name: str, among: Sequence[Stripe]) -> Stripe | None:
    """The one that a device is; None: none of these."""
    def plain(uuid: str) -> str:
        return uuid.replace("-", "").replace(":", "")

    def told(file: str) -> str:
        return text(sysfs(), BLOCK, name, file)

    for s in among:
        # device-mapper names a volume "GROUP-VOLUME", with each "-" doubled, and as its UUID has
        # "LVM-", the group's and its own.
        if s.kind == "md" and plain(told("md/uuid")) == plain(s.id) != "":
            return s
        group = told("dm/name").replace("--", "\n").partition("-")[0].replace("\n", "-")
        if s.kind == "lvm" and s.id and group == s.name and \
                told("dm/uuid").startswith("LVM-" + plain(s.id)):
            return s
    return None
