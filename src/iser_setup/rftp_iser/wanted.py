# SPDX-License-Identifier: Apache-2.0
"""The targets that a login is for, chosen out of a plan or out of a storage host's offers, and the
disks of these targets, which are waited for."""
from __future__ import annotations

import re
import time
from collections.abc import Sequence

from rftp_common import Failure, printable, warn

from . import sessions, topology
from .iscsi import Node, Programs, is_plain
from .plan import NODE_UNKNOWN, Initiator, Plan
from .sessions import Address, Disk, Session

# ---- targets ------------------------------------------------------------------------


def choose(offered: Sequence[Node], iqns: Sequence[str], addresses: Sequence[Address], where: str
           ) -> tuple[list[Node], str]:
    """Each target once, at the first of the addresses, or without any at its first portal; and a
    text of those that are at other addresses only. iqns, unless empty, choose among the targets.
    where: the place that they are from, for a Failure."""
    offered = [n for n in offered if not iqns or n.iqn in iqns]
    found: dict[str, Node] = {}
    at_them = [n for a in addresses for n in offered if n.address.is_same(a)]
    for n in at_them if addresses else offered:
        found.setdefault(n.iqn, n)
    elsewhere = ", ".join(str(n) for n in offered if n.iqn not in found)
    only = f" at the addresses given, only {elsewhere}" if elsewhere else ""
    for iqn in iqns:
        if iqn not in found:
            raise Failure(f"{where} has no target {printable(iqn)} for this host{only}")
    if not found:
        raise Failure(f"{where} has no target for this host" + (
            only or "; its name must be among their initiators"))
    return [n for n in offered if found.get(n.iqn) is n], elsewhere


def from_plan(p: Plan, name: str, transport: str, iqns: Sequence[str], where: str) -> list[Node]:
    """The portals of the targets that let the initiator of this name in."""
    offered, let_in = [], False
    for t in p.targets:
        me = next((i for i in t.initiators if i.name == name), Initiator() if t.open else None)
        let_in |= me is not None
        if not me or (iqns and t.iqn not in iqns):
            continue
        usable = [o for o in t.portals if o.iser or transport == "tcp"]
        if not usable:
            raise Failure(f"{where} has no portal with iSER for target {printable(str(t.iqn))}; "
                          "--transport tcp takes one without")
        stores = {s.lun: s for s in t.stores}
        offered += [Node(str(t.iqn), Address(str(o.address), o.port), 1, transport, stores=stores,
                         initiator=me) for o in usable]
    if not let_in:
        raise Failure(f"{where} lets no initiator {printable(name)} in, which is this host's name; "
                      "add it to the plan's initiators and apply it there")
    return offered


def from_discovery(told: str, transport: str) -> list[Node]:
    """Of iscsiadm's lines, "ADDRESS:PORT,TAG IQN"."""
    offered = []
    for line in filter(None, told.split("\n")):
        words = re.fullmatch(r"([^,]+),(\d{1,5}) (.+)", line)
        try:
            address = sessions.parse_address(words[1] if words else "")
        except Failure:
            words = None
        if not words or not is_plain(words[3]) or not is_plain(address.host):
            raise Failure("iscsiadm's list of the storage host's targets is not understood")
        offered.append(Node(words[3], address, int(words[2]), transport))
    return offered


# ---- their disks ----------------------------------------------------------------------


def _lacks(n: Node, s: Session | None) -> str:
    """Why not all disks of a target are there; "": they are."""
    name = printable(n.iqn)
    if not s or s.state != "LOGGED_IN":
        return f"{name}: the session is {printable(s.state) if s else 'gone'}"
    if not s.luns:
        return f"{name}: the target shows no disk: it has no LUN, or none for this host"
    if len(s.disks) < s.luns:
        return (f"{name}: {s.luns} disks, but {len(s.disks)} block devices: is the kernel's sd_mod "
                "loaded?")
    mine = [d for d in s.disks if n.wants(d)]
    for d in mine:
        if not d.size or not sessions.is_device("/dev/" + d.name):
            return f"/dev/{d.name} has no size yet, or neither udev nor devtmpfs has made it"
    if n.stores and len(mine) < len(n.stores):
        return f"{name}: {len(mine)} disks of {len(n.stores)} that the plan has"
    return ""


def _wait(p: Programs, nodes: Sequence[Node], seconds: int, settle: int
          ) -> list[tuple[Node, Session]]:
    """Until all disks are there, and their number was the same settle times more."""
    begin, looks, same, last = time.monotonic(), 0, 0, -1
    while True:
        there = sessions.read()
        found = [(n, s) for n in nodes for s in [sessions.find(there, n.iqn)]]
        why = next(filter(None, (_lacks(n, s) for n, s in found)), "")
        count = -1 if why else sum(len(s.disks) for _, s in found if s)
        same, last = same + 1 if count == last else 0, count
        left = begin + seconds - time.monotonic()
        if not why and same >= settle:
            p.settle(int(max(left, 0)) + 1)  # udev's names come a moment later
            return [(n, s) for n, s in found if s]
        p.check()
        if why and left < 0:
            raise Failure(f"{why} (after {seconds} s; --wait has more patience)")
        looks += 1
        # The kernel looks for disks when a session begins, and later only when it is told to: a
        # target that is just being made may get some after that.
        for _, s in found if why and looks % 20 == 0 else []:
            if s and s.state == "LOGGED_IN":
                sessions.rescan(s)
        time.sleep(0.1)


def wait_for_disks(p: Programs, nodes: Sequence[Node], seconds: int, settle: int) -> list[Disk]:
    """Of all targets; Failure after so many seconds. Without a plan it is not known how many come:
    then their number must stay for some looks, more for a stripe, which would lack a late one."""
    disks = []
    for n, s in _wait(p, nodes, seconds, settle):
        for d in s.disks:
            store = (n.stores or {}).get(d.lun)
            if store and d.serial and store.serial != d.serial:
                raise Failure(f"LUN {d.lun} of {printable(s.iqn)} has the serial "
                              f"{printable(d.serial)}, and the plan says {store.serial}: it is "
                              "another disk than the plan's")
            if not n.wants(d):
                warn(f"{printable(s.iqn)} serves LUN {d.lun}, too, which is not in the plan: it is "
                     "left alone")
                continue
            d.path, d.netdev = sessions.disk_path(d.name), sessions.netdev_to(s.address.host)
            disks.append(d)
    machine = topology.read("", "", None, None, ["/dev/" + d.name for d in disks])
    for d in disks:
        # The route to an address of this host itself is by no card.
        node = machine.netdev_node(d.netdev)
        d.nodes = machine.locations["/dev/" + d.name].nodes or (
            "" if node == NODE_UNKNOWN else str(node))
    return disks
