# SPDX-License-Identifier: Apache-2.0
"""login.json: the sessions, records and stripes that login has made on this host, so that logout
takes away these and no more; and how they are taken away. It is written before anything is made."""
from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rftp_common import Failure, Options, Stop, failed, printable, read_text, say, warn, write_file

from . import iscsi, sessions, state, stripe
from .iscsi import Node, Programs
from .sessions import Address
from .stripe import Stripe

VERSION_KEY, FORMAT_VERSION = "rftp-iser-login", 1
SESSION = {"target": str, "address": str, "port": int, "tag": int, "transport": str,
           "record": bool}
STRIPE = {"kind": str, "name": str}
DISK = {"target": str, "lun": int}


@dataclass
class Kept:
    file: str
    p: Programs = field(compare=False)
    nodes: dict[str, Node] = field(default_factory=dict)  # by target
    stripes: list[Stripe] = field(default_factory=list)  # halves have disks

    def to_json(self) -> dict[str, Any]:
        nodes = [(n.iqn, n.address.host, n.address.port, n.tag, n.transport, n.record)
                 for n in self.nodes.values()]
        halves = [dict(s.to_json(), disks=[dict(zip(DISK, disk)) for disk in s.disks])
                  for s in self.stripes if s.disks]
        return {VERSION_KEY: FORMAT_VERSION, "sessions": [dict(zip(SESSION, n)) for n in nodes],
                "stripes": [s.to_json() for s in self.stripes if not s.disks], "halves": halves}

    def write(self) -> None:
        write_file(self.file, json.dumps(self.to_json(), indent=2))

    def drop(self, node: Node) -> None:
        """The record goes, too, if it is login's own."""
        if node.record:
            iscsi.forget(self.p, node)
        self.nodes.pop(node.iqn, None)
        self.write()


def _values(item: Any, kinds: Mapping[str, type]) -> list[Any]:
    """The members of an object; ValueError if one is not of its kind."""
    for key, kind in kinds.items():
        if type(item[key]) is not kind or (kind is str and not iscsi.is_plain(item[key])) or (
                kind is int and not 0 <= item[key] < 1 << 31):
            raise ValueError
    return [item[key] for key in kinds]


def parse(file: str, told: str, p: Programs) -> Kept:
    """The text of login.json."""
    kept = Kept(file, p)
    try:
        value = json.loads(told)
        for item in value["sessions"]:
            iqn, host, port, tag, transport, record = _values(item, SESSION)
            kept.nodes[iqn] = Node(iqn, Address(host, port), tag, transport, record)
        for item in value["stripes"] + value.get("halves", []):
            disks = [(target, lun) for target, lun in (_values(d, DISK) for d in
                                                       item.get("disks", []))]
            kind, name = _values(item, STRIPE)
            kept.stripes.append(Stripe(kind, name, str(item["id"]), disks))
        if value[VERSION_KEY] != FORMAT_VERSION or \
                any(n.transport not in iscsi.IFACES for n in kept.nodes.values()) or \
                any(s.kind not in stripe.KINDS for s in kept.stripes):
            raise ValueError
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        raise Failure(f"{printable(file)} is damaged: end login's sessions with iscsiadm, and "
                      "remove the file") from None
    return kept


def take(o: Options, stop: Stop) -> Kept:
    """No other login or logout is at work as long as this process, and its programs, are."""
    p = Programs(stop)
    p.run("iscsiadm", "--version")
    base = state.directory(o.state)
    directory = os.path.join(base, "initiator")
    try:
        for path in (base, directory):
            os.makedirs(path, 0o700, exist_ok=True)
    except OSError as why:
        raise failed(why, "the state's directory " + printable(directory)) from why
    p.lock = state.lock(os.path.join(directory, "login.lock"), "another login or logout is at work",
                  o.lock_wait, stop, "iscsiadm, mdadm, wipefs, mkfs.xfs or a program of LVM's", 0)
    file = os.path.join(directory, "login.json")
    return parse(file, read_text(file), p) if os.path.lexists(file) else Kept(file, p)


# ---- taking away ----------------------------------------------------------------------


@contextlib.contextmanager
def only_warn(begin: str = "") -> Iterator[None]:
    """A Failure is said, and the rest is done all the same."""
    try:
        yield
    except Failure as why:
        warn(begin + str(why))


def settle_halves(kept: Kept) -> None:
    """The stripes that a login was making when it failed or was killed."""
    there = sessions.read()
    for half in [s for s in reversed(kept.stripes) if s.disks]:
        paths = []
        for iqn, lun in half.disks:
            node = kept.nodes.get(iqn)
            session = (node.session(there) if node else None) or sessions.find(there, iqn)
            disks = session.disks if session else []
            path = next(("/dev/" + d.name for d in disks if d.lun == lun), "")
            paths.append(path if sessions.is_device(path) else "")
        with only_warn():
            found = stripe.settle(kept.p, half, paths)
            if found == "untold":
                iqn, lun = half.disks[paths.index("") if "" in paths else 0]
                raise Failure(f"{half} is incomplete, and its parts stay " + (
                    f"until all its disks are there: LUN {lun} of {printable(iqn)} is missing"
                    if "" in paths else "on its disks, for there may be data on them"))
            if found == "taken":
                say(f"took down {half}, which was incomplete")
            kept.stripes.remove(half)
            half.disks = []
            if found == "whole" and half not in kept.stripes:
                kept.stripes.append(half)
            kept.write()


def disks_of(node: Node) -> list[str]:
    """Others may have sessions with the same target, by another way, with disks of theirs."""
    session = node.session(sessions.read())
    return [d.name for d in session.disks] if session else []


def stop_stripes(kept: Kept, disks: Sequence[str]) -> list[Stripe]:
    """Those of login on these disks. Failure, before any is stopped, when one has a user."""
    stopped = []
    for disk in disks:
        stripe.above(disk, kept.stripes)
    for disk in disks:
        s = stripe.above(disk, kept.stripes)
        if s:
            stripe.stop(kept.p, s)
            kept.stripes.remove(s)
            kept.write()
            stopped.append(s)
    if stopped:
        kept.p.settle()
    return stopped


def leave(kept: Kept, node: Node) -> None:
    """Ends the node's session, unless a disk of it has a user."""
    stop_stripes(kept, disks_of(node))
    if node.session(sessions.read()):
        iscsi.log_out(kept.p, node)
    kept.drop(node)
