# SPDX-License-Identifier: Apache-2.0
"""The targets that a login is for, chosen out of a plan or out of a storage host's offers, and the
disks of these targets, which are waited for."""
from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from . import host, sessions, topology
from .common import Failure, parse_number, printable, warn
from .iscsi import Node, Programs
from .plan import NODE_UNKNOWN, Chap, Plan, Store, Target
from .sessions import Address, Disk, Session


@dataclass
class Wanted:
    """A target to log in to, at one of its portals."""
    node: Node
    plan: Target | None = None  # as the plan has it; None: without a plan
    chap: Chap | None = None
    mutual: Chap | None = None
    new: bool = False  # this run has logged it in

    def store(self, lun: int) -> Store | None:
        return next((s for s in self.plan.stores if s.lun == lun), None) if self.plan else None

    def wants(self, lun: int) -> bool:
        """LUNs beside the plan may belong to others."""
        return not self.plan or self.store(lun) is not None


def _rank(address: Address, among: Sequence[Address]) -> int:
    """Its place; their number: it is none of them."""
    return next((i for i, a in enumerate(among) if a.is_same(address)), len(among))


def _check_found(iqns: Sequence[str], found: Sequence[Wanted], where: str) -> None:
    for iqn in iqns:
        if all(w.node.iqn != iqn for w in found):
            raise Failure("%s has no target %s for this host" % (where, printable(iqn)))


def from_plan(p: Plan, name: str, transport: str, iqns: Sequence[str],
              addresses: Sequence[Address], file: str) -> list[Wanted]:
    """Those that let the initiator of this name in, each at the first portal that will do. iqns and
    addresses, unless empty, choose among them. file: the plan's, for a Failure."""
    said = "%s: plan %s" % (file, printable(str(p.name)))
    found, let_in = [], False
    for t in p.targets:
        entry = next((i for i in t.initiators if i.name == name), None)
        if not entry and not t.open:
            continue
        let_in = True
        if iqns and t.iqn not in iqns:
            continue
        usable = [Address(str(o.address), o.port) for o in t.portals
                  if o.iser or transport == "tcp"]
        if not usable:
            raise Failure("%s has no portal with iSER for target %s; --transport tcp takes one "
                          "without" % (said, printable(str(t.iqn))))
        at = next((a for a in usable
                   if not addresses or _rank(a, addresses) < len(addresses)), None)
        if at:
            found.append(Wanted(Node(str(t.iqn), at, 1, transport), t,
                                entry.chap if entry else None, entry.mutual if entry else None))
    if not let_in:
        raise Failure("%s lets no initiator %s in, which is this host's name; add it to the plan's "
                      "initiators and apply it there" % (said, printable(name)))
    _check_found(iqns, found, said)
    if not found:
        raise Failure("%s has no target for this host at the addresses given" % said)
    return found


def from_discovery(told: str, transport: str, iqns: Sequence[str], addresses: Sequence[Address]
                   ) -> tuple[list[Wanted], list[Wanted]]:
    """Of iscsiadm's lines, "ADDRESS:PORT,TAG IQN", those that are at one of the addresses, at the
    first of these; and those that are at other addresses only."""
    best: dict[str, Wanted] = {}
    for line in filter(None, told.split("\n")):
        at, _, rest = line.rpartition(",")
        tag, _, iqn = rest.partition(" ")
        number = parse_number(tag, 0, 65535)
        try:
            address = sessions.parse_address(at)
        except Failure:
            number = None
        # From the network come words of commands, of files' names and of JSON.
        if number is None or any(
                not 0 < len(n) < 224 or n[0] in "-." or
                any(not "!" <= c <= "~" or c in ",/*?[\\" for c in n) for n in (iqn, address.host)):
            raise Failure("iscsiadm's list of the storage host's targets is not understood")
        if iqns and iqn not in iqns:
            continue
        there = best.get(iqn)
        if not there or _rank(address, addresses) < _rank(there.node.address, addresses):
            best[iqn] = Wanted(Node(iqn, address, number, transport))
    found = [w for w in best.values() if _rank(w.node.address, addresses) < len(addresses)]
    elsewhere = [w for w in best.values() if w not in found]
    _check_found(iqns, found, "the storage host")
    if not found:
        raise Failure("the storage host offers targets, but none at the addresses given: " +
                      places(elsewhere) if elsewhere else "the storage host offers no target to "
                      "this host; its name must be among their initiators")
    return found, elsewhere


def places(of: Sequence[Wanted]) -> str:
    return ", ".join("%s at %s" % (printable(w.node.iqn), w.node.address) for w in of)


# ---- their disks ----------------------------------------------------------------------


@dataclass
class Attached:
    """A disk that has come."""
    wanted: Wanted
    session: Session
    disk: Disk
    path: str
    netdev: str  # that leads to the target; "": not known
    nodes: str = ""  # of the card, as a list; "": not known


def _lacks(w: Wanted, s: Session | None) -> str:
    """Why not all disks of a target are there; "": they are."""
    name = printable(w.node.iqn)
    if not s or s.state != "LOGGED_IN":
        return "%s: the session is %s" % (name, printable(s.state) if s else "gone")
    if not s.luns:
        return "%s: the target shows no disk: it has no LUN, or none for this host" % name
    if len(s.disks) < s.luns:
        return "%s: %d disks, but %d block devices: is the kernel's sd_mod loaded?" % (
            name, s.luns, len(s.disks))
    mine = [d for d in s.disks if w.wants(d.lun)]
    for d in mine:
        if not sessions.is_device("/dev/" + d.name):
            return "/dev/%s has not appeared: neither udev nor devtmpfs made it" % d.name
        if not d.size:
            return "/dev/%s has no size yet" % d.name
    if w.plan and len(mine) < len(w.plan.stores):
        return "%s: %d disks of %d that the plan has" % (name, len(mine), len(w.plan.stores))
    return ""


def _look_again(wanted: Sequence[Wanted], there: Sequence[Session]) -> None:
    """The kernel looks for disks when a session begins, and later only when it is told to: a target
    that is just being made may get some after that."""
    for w in wanted:
        s = sessions.find(there, w.node.iqn)
        if s and s.state == "LOGGED_IN" and s.luns < (len(w.plan.stores) if w.plan else 1):
            sessions.rescan(s)


def _wait(p: Programs, wanted: Sequence[Wanted], seconds: int, settle: float) -> list[Session]:
    """settle: for so many seconds the number of disks must stay the same."""
    same = now = time.monotonic()
    until, rescan, last = now + seconds, now + 2, -1
    while True:
        there = sessions.read()
        found = [(w, sessions.find(there, w.node.iqn)) for w in wanted]
        why = next(filter(None, (_lacks(w, s) for w, s in found)), "")
        count = sum(w.wants(d.lun) for w, s in found for d in (s.disks if s else ()))
        now = time.monotonic()
        if why or count != last:
            same, last = now + settle, -1 if why else count
        if not why and now >= same:
            break
        p.check()
        if why and now > until:
            raise Failure("%s (after %d s; --wait has more patience)" % (why, seconds))
        if why and now >= rescan:
            _look_again(wanted, there)
            rescan = now + 2
        time.sleep(0.1)
    p.settle(int(max(until - now, 0)) + 1)  # udev's names come a moment later
    return there


def netdev_to(address: str) -> str:
    """The interface that leads there, or has the address; "": none."""
    own = sessions.source(address)
    return next((i.netdev for i in host.interfaces() if host.same_address(i.address, own)), "") \
        if own else ""


def machine_with(paths: Sequence[str]) -> topology.Host:
    return topology.read("", "", None, None, paths)


def wait_for_disks(p: Programs, wanted: Sequence[Wanted], seconds: int, striped: bool
                   ) -> list[Attached]:
    """Of all targets; Failure after so many seconds. Without a plan it is not known how many come:
    then their number must stay for a while, longer for a stripe, which would lack a late one."""
    found = []
    settle = 0.0 if all(w.plan for w in wanted) else 2 if striped else 0.5
    there = _wait(p, wanted, seconds, settle)
    for w in wanted:
        s = sessions.find(there, w.node.iqn)
        if not s:
            continue
        if s.transport != w.node.transport:
            raise Failure("%s: the session is over %s, not %s" % (
                printable(s.iqn), printable(s.transport), w.node.transport))
        for d in s.disks:
            store = w.store(d.lun)
            if store and d.serial and store.serial != d.serial:
                raise Failure("LUN %d of %s has the serial %s, and the plan says %s: it is another "
                              "disk than the plan's" % (d.lun, printable(s.iqn),
                                                        printable(d.serial), store.serial))
            if w.wants(d.lun):
                found.append(Attached(w, s, d, sessions.disk_path(d.name),
                                      netdev_to(s.address.host)))
            else:
                warn("%s serves LUN %d, too, which is not in the plan: it is left alone" %
                     (printable(s.iqn), d.lun))
    machine = machine_with(["/dev/" + a.disk.name for a in found])
    for a in found:
        # The route to an address of this host itself is by no card.
        node = machine.netdev_node(a.netdev)
        a.nodes = machine.locations["/dev/" + a.disk.name].nodes or (
            "" if node == NODE_UNKNOWN else str(node))
    return found
