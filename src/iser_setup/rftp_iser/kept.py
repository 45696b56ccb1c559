# SPDX-License-Identifier: Apache-2.0
"""login.json: the sessions, records and stripes that login has made on this host, so that logout
takes away these and no more. It is written before anything is made."""
from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from . import iscsi, sessions, state, stripe
from .common import Options, Failure, Stop, failed, lock, printable, read_text, say, warn, write_file
from .iscsi import Node, Programs
from .sessions import Address, Session
from .stripe import Stripe

VERSION_KEY, FORMAT_VERSION = "rftp-iser-login", 1


@dataclass
class Half:
    """A stripe that is being made, or was when a login failed or was killed; its id was drawn."""
    stripe: Stripe
    disks: list[tuple[str, int]]  # target and LUN, in their order


@dataclass
class Kept:
    file: str
    lock: int = -1  # a descriptor
    nodes: dict[str, Node] = field(default_factory=dict)  # by target
    stripes: list[Stripe] = field(default_factory=list)
    halves: list[Half] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        halves = [dict(vars(h.stripe), disks=[{"target": t, "lun": n} for t, n in h.disks])
                  for h in self.halves]
        nodes = [{"target": n.iqn, "address": n.address.host, "port": n.address.port, "tag": n.tag,
                  "transport": n.transport, "record": n.record} for n in self.nodes.values()]
        return {VERSION_KEY: FORMAT_VERSION, "sessions": nodes,
                "stripes": [vars(s) for s in self.stripes], "halves": halves}

    def write(self) -> None:
        write_file(self.file, json.dumps(self.to_json(), indent=2))

    def add_stripe(self, s: Stripe) -> None:
        if s not in self.stripes:
            self.stripes.append(s)

    def drop(self, p: Programs, node: Node) -> None:
        """The record goes, too, if it is login's own."""
        if node.record:
            iscsi.forget(p, node)
        self.nodes.pop(node.iqn, None)
        self.write()


# ---- read -----------------------------------------------------------------------------


def _word(value: Any) -> str:
    """It becomes an argument of other programs, or a part of a path."""
    if not isinstance(value, str) or not value or value[0] in "-." or set(value) & set(" \t\n/"):
        raise ValueError
    return value


def _count(value: Any, most: int) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError
    return value


def _stripe(v: Any) -> Stripe:
    if v["kind"] not in stripe.KINDS or not isinstance(v["id"], str):
        raise ValueError
    return Stripe(v["kind"], _word(v["name"]), v["id"])


def _node(v: Any) -> Node:
    if v["transport"] not in iscsi.IFACES or not isinstance(v["record"], bool):
        raise ValueError
    return Node(_word(v["target"]), Address(_word(v["address"]), _count(v["port"], 65535)),
                _count(v["tag"], 65535), v["transport"], v["record"])


def _half(v: Any) -> Half:
    _word(v["id"])
    return Half(_stripe(v), [(_word(d["target"]), _count(d["lun"], (1 << 31) - 1))
                             for d in _list(v["disks"])])


def parse(file: str, told: str) -> Kept:
    try:
        value = json.loads(told)
        if value[VERSION_KEY] != FORMAT_VERSION:
            raise ValueError
        return Kept(file, -1, {n.iqn: n for n in map(_node, _list(value["sessions"]))},
                    [_stripe(s) for s in _list(value["stripes"])],
                    [_half(h) for h in _list(value.get("halves", []))])
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        raise Failure("%s is damaged: end login's sessions with iscsiadm, and remove the file" %
                      printable(file)) from None


def take(args: Options, stop: Stop) -> Kept:
    """No other login or logout is at work as long as its lock is open."""
    base = state.directory(args.state)
    directory = os.path.join(base, "initiator")
    try:
        for path in (base, directory):
            os.makedirs(path, 0o700, exist_ok=True)
    except OSError as why:
        raise failed(why, "the state's directory " + printable(directory)) from why
    held = lock(os.path.join(directory, "login.lock"), "another login or logout is at work",
                args.lock_wait, stop, "iscsiadm, mdadm, wipefs, mkfs.xfs or a program of LVM's", 0)
    file = os.path.join(directory, "login.json")
    kept = parse(file, read_text(file)) if os.path.lexists(file) else Kept(file)
    kept.lock = held
    return kept


# ---- stripes that were being made -----------------------------------------------------


def _path(kept: Kept, there: Sequence[Session], iqn: str, lun: int) -> str:
    """Of a disk; "": it is not there."""
    node = kept.nodes.get(iqn)
    s = (node.session(there) if node else None) or sessions.find(there, iqn)
    path = next(("/dev/" + d.name for d in s.disks if d.lun == lun), "") if s else ""
    return path if path and sessions.is_device(path) else ""


def _settle(kept: Kept, p: Programs, half: Half) -> bool:
    """Has it been taken down, or found whole or gone?"""
    there = sessions.read()
    paths = [_path(kept, there, *disk) for disk in half.disks]
    status, its_id = stripe.left(p, half.stripe, paths)
    was_half = status == "half"
    if was_half:
        p.settle()
        status = stripe.take_down(p, half.stripe, paths)
    if status == "untold":
        why = "on its disks, for there may be data on them"
        if "" in paths:
            iqn, lun = half.disks[paths.index("")]
            why = "until all its disks are there: LUN %d of %s is missing" % (lun, printable(iqn))
        warn("%s is incomplete, and its parts stay %s" % (half.stripe, why))
        return False
    if status == "whole":
        kept.add_stripe(Stripe(half.stripe.kind, half.stripe.name, its_id))
    elif was_half:
        say("took down %s, which was incomplete" % half.stripe)
    kept.halves.remove(half)
    return True


def settle_halves(kept: Kept, p: Programs) -> None:
    """A Failure of one is said, and it stays known."""
    changed = False
    for half in reversed(kept.halves[:]):
        try:
            changed |= _settle(kept, p, half)
        except Failure as why:
            warn(str(why))
    if changed:
        kept.write()
