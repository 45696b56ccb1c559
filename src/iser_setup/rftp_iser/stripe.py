# SPDX-License-Identifier: Apache-2.0
"""Several disks as one, by md (RAID 0) or LVM: a stripe is made once, and put together again at
each later login. And login.json: the sessions, records and stripes that login has made on this
host, so that logout takes away these and no more. It is written before they are made."""
from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field

from rftp_common import (Failure, Options, Stop, entries, failures_to, file_text, lock,
                         own_directory, parse_number, printable, read_text, say, sysfs, write_file)
from rftp_members import between, json_of, member, needed, read_json, word

from . import iscsi, state
from .iscsi import BLOCK, Disk, Ended, Node, Programs, is_device, kernel_name

KINDS = {"md": "linux_raid_member", "lvm": "LVM2_member"}  # with wipefs's word for a member
MEMBERS_MOST = 64

# take: takes a part off a disk; the group by its UUID, for others may have groups of this name.
ASK = {"md": ("mdadm", "--examine", "--export"),
       "lvm": ("pvs", "--noheadings", "--separator", "|", "-o",
               "pv_uuid,vg_name,vg_uuid,pv_count,lv_count")}
COMMANDS = {
    "md": {"make": ["mdadm --create /dev/md/{name} --metadata=1.2 --level=0 --homehost=any "
                    "--name={name} --uuid={id} --raid-devices={count} --chunk={chunk} @paths"],
           "start": ["mdadm --assemble /dev/md/{name} --uuid={id} @paths"],
           "stop": ["mdadm --stop {device}"],
           "take": ["mdadm --stop /dev/{array}", "mdadm --zero-superblock @paths"]},
    "lvm": {"make": ["vgcreate --quiet {name} @paths",
                     "lvcreate --config={udev} --yes --quiet --wipesignatures y --type striped "
                     "--stripes {count} --stripesize {chunk}k --extents 100%FREE --name data "
                     "{name}"],
            "start": ["vgchange --config={udev} --activate y {name}"],
            "stop": ["vgchange --config={udev} --activate n {name}"],
            "take": ["vgremove --config={udev} --quiet --select vg_uuid={group}",
                     "pvremove --yes --quiet @paths"]}}

# ---- stripes and their members --------------------------------------------------------


@dataclass
class Stripe:
    kind: str = needed(rule=word(*KINDS))
    name: str = needed(rule=iscsi.plain)  # md's, or the volume group's
    id: str = needed(rule=iscsi.plain)  # its UUID
    device: str = ""  # "/dev/md/rftp-x"
    started: bool = False  # by this run
    new: bool = False  # made by this run

    def __str__(self) -> str:
        return f"the {self.kind} stripe {printable(self.name)}"


@dataclass
class Place:
    target: str = needed(rule=iscsi.plain)
    lun: int = member(0, rule=between(0, 65535), needed=True)


@dataclass
class Half(Stripe):
    """A stripe that is being made, or was when a login was killed. By the id that is drawn for it,
    its parts are known: md's UUID, or the beginning of the UUIDs of LVM's physical volumes, for LVM
    draws a group's by itself."""
    disks: list[Place] = member(list, of=Place)

    def part(self, nth: int) -> str:
        """The id of its nth disk."""
        return self.id if self.kind == "md" else f"{self.id}-{nth:06d}"


def draw(kind: str, name: str) -> Half:
    joint, sizes = (":", (4, 4, 4, 4)) if kind == "md" else ("-", (3, 2, 2, 2, 2, 2))
    return Half(kind, name, joint.join(map(secrets.token_hex, sizes)))


@dataclass
class Member:
    """The stripe that a disk belongs to, as the disk tells; id "": none."""
    name: str = ""
    id: str = ""
    of: int = 0  # how many members it has in all; of an array that is no RAID 0: 0
    part: str = ""  # as Half.part
    filled: bool = False  # there may be data: the array runs, or the group has logical volumes


def member_of(kind: str, told: str) -> Member:
    """From the output of ASK's program."""
    if kind == "lvm":
        lvm = re.fullmatch(r"\s*([^|]*)\|([^|]*)\|([^|]*)\|(\d*)\|(\d*)\s*", told)
        return Member(lvm[2], lvm[3], int(lvm[4] or 0), lvm[1], int(lvm[5] or 0) > 0) if lvm \
            else Member()
    has = dict(line.partition("=")[::2] for line in told.splitlines())
    name, uuid = has.get("MD_NAME", "").rpartition(":")[2], has.get("MD_UUID", "")  # "HOST:NAME"
    of = parse_number(has.get("MD_DEVICES", "") if has.get("MD_LEVEL") == "raid0" else "", 0, 99)
    # Another host may have written it, and it becomes a name below /dev/md.
    if not re.fullmatch(r"[A-Za-z0-9_+][A-Za-z0-9._+-]*", name):
        name = "rftp-found"
    return Member(name, uuid, of or 0, uuid)


def contents(p: Programs, device: str) -> str:
    """The signatures on it, "xfs, dos"; "": it is empty."""
    return ", ".join(p.run("wipefs", "--no-act", "--noheadings", "--output", "TYPE", device,
                           about=device).split())


def _array(path: str) -> str:
    """That the kernel has put the disk into, "md127"; "": none."""
    return next((e for e in entries(sysfs(BLOCK), kernel_name(path), "holders")
                 if e.startswith("md")), "")


def _ask(p: Programs, kind: str, path: str) -> Member:
    """path "": the disk is missing. When mdadm or LVM cannot tell of a disk with its signature, the
    disk counts as in use."""
    why = ""
    try:
        m = member_of(kind, p.run(*ASK[kind], path)) if path else Member()
        if kind == "md" and m.part:
            state = file_text(sysfs(BLOCK), _array(path) or "none", "md/array_state")
            m.filled = state not in ("", "inactive", "clear")
        if m.part or not path:
            return m
    except Ended as ended:  # also for a disk of no array, or none of LVM's
        why = f": {ended}"
    found = contents(p, path)
    if KINDS[kind] in found:
        raise Failure(f"{path} holds data ({found}), but its stripe cannot be told{why}")
    return Member()


def is_whole(kind: str, members: Sequence[Member]) -> bool:
    """Are they all members of one stripe; or False: none is of any? Else Failure."""
    first = members[0]
    if any(m.id != first.id for m in members) or first.id and first.of != len(members):
        of = dict.fromkeys(f"{printable(m.name)} of {m.of or 'another kind'}" if m.id else "none"
                           for m in members)
        raise Failure(f"these are not the disks of one {kind} stripe (RAID 0), "
                      f"but of: {', '.join(of)}: log in to all targets of one stripe")
    return first.id != ""


# ---- md and LVM -----------------------------------------------------------------------


def _run(p: Programs, s: Stripe, verb: str, paths: Sequence[str] = (), **more: object) -> None:
    """mdadm or LVM, for a verb of COMMANDS. "take" goes on after a failure."""
    # LVM leaves the nodes of devices to udev, and waits in vain where that does not run.
    udev = "udev_sync=1" if os.path.exists("/run/udev/control") else "udev_sync=0 udev_rules=0"
    known = dict(vars(s), udev=f"activation{{{udev}}}", count=len(paths), **more)
    for line in COMMANDS[s.kind][verb]:
        words = [word.format(**known) for word in line.split()]
        words[-1:] = paths if words[-1] == "@paths" else words[-1:]
        if verb == "take":
            p.tried(*words)
        else:
            p.run(*words, about=str(s) if verb == "stop" else "")


def _device(p: Programs, s: Stripe, path: str) -> str:
    """path: of one of its disks."""
    if s.kind == "md":
        array, name = _array(path), "/dev/md/" + s.name
        if not array:
            raise Failure("md did not take " + path)
        return name if kernel_name(name) == array else "/dev/" + array
    found = p.run("lvs", "--noheadings", "-o", "lv_path", s.name).split()
    if len(found) != 1:
        raise Failure(f"{s} has not one volume, but none or several: it is not login's")
    return found[0]


def find(p: Programs, kind: str, paths: Sequence[str]) -> Stripe | None:
    """The one that all these disks are members of; it is started. None: the disks are in none."""
    members = [_ask(p, kind, path) for path in paths]
    if not is_whole(kind, members):
        return None
    s = Stripe(kind, members[0].name, members[0].id)
    s.started = not (members[0].filled if kind == "md" else is_device(_device(p, s, paths[0])))
    if s.started:
        _run(p, s, "start", paths)
    s.device = _device(p, s, paths[0])
    return s


def make(p: Programs, half: Half, paths: Sequence[str], chunk: int) -> Stripe:
    """Makes it out of the disks, unless mdadm or LVM finds something on them. After a Failure
    settle_halves() takes its parts away."""
    # When these would ask whether to write over something, they read no answer.
    for nth, path in enumerate(paths if half.kind == "lvm" else ()):
        p.run("pvcreate", "--quiet", "--norestorefile", "--uuid", half.part(nth), path)
    _run(p, half, "make", paths, chunk=chunk >> 10)
    return Stripe(half.kind, half.name, _ask(p, half.kind, paths[0]).id,
                  _device(p, half, paths[0]), True, True)


def of_device(name: str, among: Sequence[Stripe]) -> Stripe | None:
    """The one that a device is; None: none of these. device-mapper's UUID of a volume is "LVM-",
    the group's and its own."""
    for s in among:
        file, begin = ("md/uuid", "") if s.kind == "md" else ("dm/uuid", "LVM")
        uuid = re.sub("[-:]", "", file_text(sysfs(BLOCK), name, file))
        if s.id and uuid.startswith(begin + re.sub("[-:]", "", s.id)):
            return s
    return None


def above(disk: str, among: Sequence[Stripe]) -> Stripe | None:
    """The one of these that a disk is in. Failure: the disk, or a device on it, has a user, or it
    is a part of another device."""
    devices, found = iscsi.stack(disk), None
    iscsi.check_unused(devices)
    for name in devices[1:]:
        s = of_device(name, among)
        if s and not found:
            found, s.device = s, "/dev/" + name
        elif not s and not os.path.exists(sysfs(BLOCK, name, "partition")):
            raise Failure(f"/dev/{disk} is part of /dev/{name}, which is not login's: stop that "
                          "first")
    return found


# ---- login.json -----------------------------------------------------------------------

VERSION_KEY, FORMAT_VERSION = "rftp-iser-login", 1


@dataclass
class Kept:
    """Its members are those of the file."""
    file: str = ""
    p: Programs = field(default_factory=lambda: Programs(Stop()), compare=False)
    version: int = member(FORMAT_VERSION, key=VERSION_KEY, rule=word(FORMAT_VERSION), needed=True)
    nodes: list[Node] = member(list, of=Node, unique=["iqn"], key="sessions")
    stripes: list[Stripe] = member(list, of=Stripe)
    halves: list[Half] = member(list, of=Half)

    def node(self, iqn: str) -> Node | None:
        return next((n for n in self.nodes if n.iqn == iqn), None)

    def write(self) -> None:
        write_file(self.file, json.dumps(json_of(self), indent=2))

    def drop(self, node: Node) -> None:
        """The record goes, too, if it is login's own."""
        if node.record:
            iscsi.forget(self.p, node)
        self.nodes = [n for n in self.nodes if n.iqn != node.iqn]
        self.write()


def parse(file: str, told: str, p: Programs) -> Kept:
    """The text of login.json."""
    try:
        kept: Kept = read_json(Kept, told, f"{printable(file)} is damaged")
    except Failure as why:
        raise Failure(f"{why}: end login's sessions with iscsiadm, and remove the file") from None
    kept.file, kept.p = file, p
    return kept


def take(o: Options, stop: Stop) -> Kept:
    """No other login or logout is at work as long as this process, and its programs, are."""
    p = Programs(stop)
    p.run("iscsiadm", "--version")
    directory = os.path.join(state.directory(o.state), "initiator")
    for path in (os.path.dirname(directory), directory):
        own_directory(path, f"{printable(path)}, the directory of login.json,")
    p.lock = lock(os.path.join(directory, "login.lock"), "another login or logout is at work",
                  o.lock_wait, stop, "iscsiadm, mdadm, wipefs, mkfs.xfs or a program of LVM's", 0)
    file = os.path.join(directory, "login.json")
    return parse(file, read_text(file), p) if os.path.lexists(file) else Kept(file, p)


def disks_of(node: Node | None) -> list[Disk]:
    """Others may have sessions with the same target, by another way, with disks of theirs."""
    session = node.session(iscsi.read_sessions()) if node else None
    return session.disks if session else []


def _settle(kept: Kept, half: Half) -> None:
    """Failure: parts of it may have data, or disks are missing, and it stays a half. Otherwise it
    was made, or its parts are taken off the disks. Only parts with its ids count: other hosts may
    have been quicker."""
    p, paths, taken = kept.p, [], False
    p.settle()
    for at in half.disks:
        session = iscsi.find_session(at.target)
        disks = disks_of(kept.node(at.target)) or (session.disks if session else [])
        found = ["/dev/" + d.name for d in disks if d.lun == at.lun]
        paths.append(found[0] if found and is_device(found[0]) else "")  # "": it is missing
    while True:
        members = [_ask(p, half.kind, path) for path in paths]
        # Of LVM, not in a group that has been made of it since.
        parts = [(path, m) for nth, (path, m) in enumerate(zip(paths, members)) if
                 m.part == half.part(nth) and (half.kind == "md" or m.name in ("", half.name))]
        filled = any(m.filled for _, m in parts)
        # An array is whole once each disk tells of it; of LVM the volume is made last.
        whole = 0 < len(parts) == len(paths) and (half.kind == "md" or filled)
        if whole or (not parts and all(paths)):
            break
        if "" in paths:
            at = half.disks[paths.index("")]
            raise Failure(f"{half} is incomplete, and its parts stay until all its disks are "
                          f"there: LUN {at.lun} of {printable(at.target)} is missing")
        if filled or taken:
            why = "there may be data on them" if filled else "they cannot be taken off"
            raise Failure(f"{half} is incomplete, and its parts stay on its disks: {why}")
        for path, m in parts:
            _run(p.unstoppable(), half, "take", [path], array=_array(path) or "none",
                 group=m.id or "none")
        taken = True
    kept.halves.remove(half)
    if whole:
        kept.stripes.append(Stripe(half.kind, half.name, members[0].id))
    elif taken:
        say(f"took down {half}, which was incomplete")
    kept.write()


def settle_halves(kept: Kept) -> None:
    """The stripes that a login was making when it failed or was killed."""
    for half in reversed(kept.halves[:]):
        with failures_to():
            _settle(kept, half)


def stop_stripes(kept: Kept, disks: Sequence[Disk]) -> list[Stripe]:
    """Those of login on these disks. Failure, before any is stopped, when one has a user."""
    known = [*kept.stripes, *kept.halves]
    found = [above(disk.name, known) for disk in disks]
    stopped = list({s.id: s for s in found if s}.values())
    for s in stopped:
        _run(kept.p, s, "stop")
        kept.stripes = [one for one in kept.stripes if one is not s]
        kept.write()
    if stopped:
        kept.p.settle()
    return stopped


def leave(kept: Kept, node: Node) -> None:
    """Ends the node's session, unless a disk of it has a user."""
    stop_stripes(kept, disks_of(node))
    if node.session(iscsi.read_sessions()):
        iscsi.log_out(kept.p, node)
    kept.drop(node)
