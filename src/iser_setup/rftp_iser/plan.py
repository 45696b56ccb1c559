# SPDX-License-Identifier: Apache-2.0
"""The plan of a storage host: one target per node, with its back stores, portals and initiators.
Reads, checks and writes the JSON of rftp-iser(8). Unknown members are refused as misspelt."""
from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import names
from .common import Failure, printable, read_text

VERSION_KEY = "rftp-iser-plan"
FORMAT_VERSION = 1
PORT = 3260  # RFC 7143
SIZE_LEAST = 1 << 20  # bytes of a back store; less is a mistake in a unit
LUN_MOST = 255  # every initiator scans this far
NODE_UNKNOWN = -1
NODE_MOST = 1023
ATTRIBUTE_MOST = (1 << 32) - 1
KINDS = ("tmpfs", "file", "block", "ramdisk")
POLICIES = ("bind", "prefer")
CPUS = ("nodes", "any")
TMPFS_FILE = "disk.img"  # a tmpfs's back store, within its mount

# Attributes that other members of the plan would silently overrule.
LUN_TAKEN = {"emulate_write_cache": "is what write-back decides"}
TARGET_TAKEN = {"authentication": "is what chap decides",
                "generate_node_acls": "is what open decides",
                "demo_mode_write_protect": "is what open decides",
                "cache_dynamic_acls": "is what open decides"}


@dataclass
class Store:
    """A back store, and its LUN in its target."""
    lun: int = 0
    name: str | None = None  # LIO's; unique in a plan
    kind: str = ""
    node: int = NODE_UNKNOWN  # of its pages, or its device
    size: int = 0  # bytes; 0 for a block device: all of it
    policy: str = "bind"  # a tmpfs's memory policy
    path: str | None = None  # the tmpfs's mount point, the file, or the device
    write_back: bool = False  # written data may stay in memory until a flush
    serial: str | None = None  # a UUID, by which initiators recognise the disk
    attributes: dict[str, int] = field(default_factory=dict)

    @property
    def file(self) -> str:
        """The path that LIO opens; "" for a ramdisk."""
        return f"{self.path}/{TMPFS_FILE}" if self.kind == "tmpfs" else self.path or ""

    @property
    def plugin(self) -> str:
        """LIO's."""
        return {"block": "iblock", "ramdisk": "rd_mcp"}.get(self.kind, "fileio")

    @property
    def forgets(self) -> bool:
        """Are its data lost when it is removed, or the host stops?"""
        return self.kind in ("tmpfs", "ramdisk")

    def hides(self, other: Store) -> bool:
        """Would its tmpfs be mounted over the other store?"""
        return self.kind == "tmpfs" and bool(other.path) and f"{other.path}/".startswith(
            f"{self.path}/")


@dataclass
class Portal:
    address: str | None = None  # numerical, without brackets
    port: int = PORT
    netdev: str | None = None  # the interface with the address; None: unknown
    iser: bool = True


@dataclass
class Chap:
    """RFC 7143, section 12.1.3; RFC 1994."""
    user: str
    secret_file: str  # mode 0600; the secret is its first line


@dataclass
class Initiator:
    name: str | None = None  # its IQN
    chap: Chap | None = None  # the initiator proves its name
    mutual: Chap | None = None  # the target proves its name


@dataclass
class Target:
    node: int = NODE_UNKNOWN
    iqn: str | None = None
    open: bool = False  # any initiator may log in and write, without proof
    portals: list[Portal] = field(default_factory=list)
    initiators: list[Initiator] = field(default_factory=list)
    stores: list[Store] = field(default_factory=list)
    attributes: dict[str, int] = field(default_factory=dict)  # of the portal group


@dataclass
class Plan:
    name: str | None = None  # a host may have several plans
    cpus: str = "nodes"  # LIO's threads run on the CPUs of the targets' nodes; any: anywhere
    targets: list[Target] = field(default_factory=list)

    def stores(self) -> Iterator[Store]:
        for target in self.targets:
            yield from target.stores

    def store(self, name: str) -> Store | None:
        return next((s for s in self.stores() if s.name == name), None)

    def target(self, iqn: str) -> Target | None:
        return next((t for t in self.targets if t.iqn == iqn), None)


# ---- from JSON ------------------------------------------------------------------------


class _Reader:
    """An object of the JSON and its place, "targets[0].luns[1]". Methods return a member's value,
    or raise Failure with its place."""

    def __init__(self, value: Any, file: str, where: str, known: Sequence[str]):
        self.file, self.where = file, where
        if not isinstance(value, dict):
            what = f"{where} is no object" if where else "is no JSON object"
            raise Failure(f"{file}: {what}")
        self.members: dict[str, Any] = value
        for key in value if known else ():
            if key not in known:
                raise self.wrong(key, "is not known")

    def at(self, key: str) -> str:
        return (self.where + "." if self.where else "") + printable(key)

    def wrong(self, key: str, what: str) -> Failure:
        return Failure(f"{self.file}: {self.at(key)} {what}")

    def typed(self, key: str, kind: type, what: str) -> Any:
        value = self.members.get(key)
        if value is not None and type(value) is not kind:  # a bool is an int, too
            raise self.wrong(key, what)
        return value

    def text(self, key: str) -> str | None:
        value: str | None = self.typed(key, str, "is no text")
        if value and "\0" in value:
            raise self.wrong(key, "has a NUL in it")
        return value

    def boolean(self, key: str, default: bool) -> bool:
        value = self.members.get(key, default)
        if not isinstance(value, bool):
            raise self.wrong(key, "is neither true nor false")
        return value

    def number(self, key: str, least: int, most: int, default: int) -> int:
        value: int | None = self.typed(key, int, "is no whole number")
        if value is None:
            return default
        if not least <= value <= most:
            raise self.wrong(key, f"is not between {least} and {most}")
        return value

    def node(self) -> int:
        return self.number("node", NODE_UNKNOWN, NODE_MOST, NODE_UNKNOWN)

    def word(self, key: str, words: Sequence[str], default: str) -> str:
        value: str | None = self.typed(key, str, "is no text")
        if value is None:
            return default
        if value not in words:
            raise self.wrong(key, "is none of " + ", ".join(words))
        return value

    def each(self, key: str, *known: str) -> Iterator[_Reader]:
        for i, item in enumerate(self.typed(key, list, "is no list") or ()):
            yield _Reader(item, self.file, f"{self.at(key)}[{i}]", known)

    def below(self, key: str, *known: str) -> _Reader | None:
        value = self.typed(key, dict, "is no object")
        return None if value is None else _Reader(value, self.file, self.at(key), known)

    def attributes(self) -> dict[str, int]:
        r = self.below("attributes")
        if not r:
            return {}
        for key, value in r.members.items():
            if type(value) is not int or value < 0:
                raise r.wrong(key, "is no whole number from 0")
        return dict(r.members)

    def chap(self, key: str) -> Chap | None:
        r = self.below(key, "user", "secret-file")
        if not r:
            return None
        user, secret_file = r.text("user"), r.text("secret-file")
        if user is None or secret_file is None:
            raise self.wrong(key, "wants user and secret-file")
        return Chap(user, secret_file)


def _store(r: _Reader) -> Store:
    store = Store(r.number("lun", 0, LUN_MOST, 0), r.text("name"), r.word("kind", KINDS, ""),
                  r.node(), r.number("size", 0, (1 << 63) - 1, 0),
                  r.word("policy", POLICIES, "bind"), r.text("path"),
                  r.boolean("write-back", False), r.text("serial"), r.attributes())
    if not store.kind:
        raise r.wrong("kind", "is missing")
    return store


def _target(r: _Reader) -> Target:
    return Target(
        r.node(), r.text("iqn"), r.boolean("open", False),
        [Portal(p.text("address"), p.number("port", 1, 65535, PORT), p.text("netdev"),
                p.boolean("iser", True))
         for p in r.each("portals", "address", "port", "netdev", "iser")],
        [Initiator(i.text("name"), i.chap("chap"), i.chap("mutual-chap"))
         for i in r.each("initiators", "name", "chap", "mutual-chap")],
        [_store(s) for s in r.each("luns", "lun", "name", "kind", "node", "size", "policy", "path",
                                   "write-back", "serial", "attributes")],
        r.attributes())


def from_json(value: Any, name: str) -> Plan:
    """A plan that check() accepts. name: the file's, for a Failure's text."""
    version = _Reader(value, name, "", ()).number(VERSION_KEY, 0, (1 << 31) - 1, 0)
    if not version:
        raise Failure(f"{name}: is no plan: it has no \"{VERSION_KEY}\": {FORMAT_VERSION}")
    if version != FORMAT_VERSION:
        raise Failure(f"{name}: is of a later format (\"{VERSION_KEY}\" is not {FORMAT_VERSION})")
    r = _Reader(value, name, "", (VERSION_KEY, "name", "cpus", "targets"))
    plan = Plan(r.text("name"), r.word("cpus", CPUS, "nodes"),
                [_target(t) for t in r.each("targets", "node", "iqn", "open", "portals",
                                            "initiators", "luns", "attributes")])
    try:
        check(plan)
    except Failure as why:
        raise Failure(f"{name}: {why}") from None
    return plan


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("an object has a member twice")
    return value


def parse(text: str, name: str) -> Plan:
    """As from_json."""
    try:
        value = json.loads(text, object_pairs_hook=_unique)
    except json.JSONDecodeError as why:
        raise Failure(f"{name}:{why.lineno}: {why.msg}") from None
    except (ValueError, RecursionError) as why:
        raise Failure(f"{name}: {why}") from None
    return from_json(value, name)


def read(path: str) -> Plan:
    """As from_json; "-" is standard input."""
    return parse(read_text(path), "standard input" if path == "-" else printable(path))


# ---- to JSON --------------------------------------------------------------------------


def _object(**members: Any) -> dict[str, Any]:
    """Without the members that are None; "_" becomes "-"."""
    return {k.replace("_", "-"): v for k, v in members.items() if v is not None}


def _chap_json(chap: Chap | None) -> dict[str, Any] | None:
    return _object(user=chap.user, secret_file=chap.secret_file) if chap else None


def _target_json(t: Target) -> dict[str, Any]:
    return _object(
        node=t.node, iqn=t.iqn, open=t.open,
        portals=[_object(address=p.address, port=p.port, netdev=p.netdev, iser=p.iser)
                 for p in t.portals],
        initiators=[_object(name=i.name, chap=_chap_json(i.chap), mutual_chap=_chap_json(i.mutual))
                    for i in t.initiators],
        luns=[_object(lun=s.lun, name=s.name, kind=s.kind, node=s.node, size=s.size,
                      policy=s.policy if s.kind == "tmpfs" else None, path=s.path,
                      write_back=s.write_back, serial=s.serial, attributes=s.attributes or None)
              for s in t.stores],
        attributes=t.attributes or None)


def to_json(plan: Plan) -> dict[str, Any]:
    return {VERSION_KEY: FORMAT_VERSION, "name": plan.name, "cpus": plan.cpus,
            "targets": [_target_json(t) for t in plan.targets]}


# ---- checks that need no host ---------------------------------------------------------


def _require(where: str, value: str | None, wrong: str | None) -> None:
    """Failure about the value at this place; wrong None: the value is good."""
    if wrong:
        said = f" \"{printable(value)}\"" if value else ""
        raise Failure(f"{where}{said} {wrong}")


def _refuse(wrong: bool, where: str, what: str) -> None:
    if wrong:
        raise Failure(f"{where} {what}")


def _check_attributes(attributes: dict[str, int], taken: dict[str, str], parent: str) -> None:
    for name, value in attributes.items():
        at = f"{parent}.attributes.{printable(name)}"
        _require(at, None, names.attribute(name) or taken.get(name))
        _refuse(value > ATTRIBUTE_MOST, at, f"is above {ATTRIBUTE_MOST}")


def _check_store(s: Store, at: str) -> None:
    _require(at + ".name", s.name, names.store(s.name))
    _refuse(s.kind == "tmpfs" and s.node == NODE_UNKNOWN, at + ".node",
            "is missing: whose memory is the tmpfs to have?")
    if s.kind == "block":
        _refuse(s.size > 0, at + ".size", "is there, but a block device is served whole")
    else:
        unit = 4096 if s.kind == "ramdisk" else 512  # pages, sectors
        _refuse(not s.size, at + ".size", "is missing")
        _refuse(s.size < SIZE_LEAST, at + ".size", "is less than 1 MiB")
        _refuse(s.size % unit != 0, at + ".size", f"is no multiple of {unit} bytes")
    if s.kind == "ramdisk":
        _refuse(s.path is not None, at + ".path", "is there, but a ramdisk has none")
    else:
        elsewhere = s.kind == "block" and not s.file.startswith("/dev/")
        _require(at + ".path", s.path, names.path(s.path) or names.path(s.file) or (
            "is not below /dev" if elsewhere else None))
    _refuse(s.write_back and s.plugin != "fileio", at + ".write-back",
            "is the device's own matter" if s.kind == "block" else "is for a tmpfs or a file")
    _require(at + ".serial", s.serial, names.serial(s.serial))
    _check_attributes(s.attributes, LUN_TAKEN, at)


def _check_initiator(t: Target, i: Initiator, at: str) -> None:
    _require(at + ".name", i.name, names.iqn(i.name))
    for key, chap in (("chap", i.chap), ("mutual-chap", i.mutual)):
        if chap:
            _require(f"{at}.{key}.user", chap.user, names.chap_user(chap.user))
            _require(f"{at}.{key}.secret-file", chap.secret_file, names.path(chap.secret_file))
    if i.mutual:
        _refuse(not i.chap, at + ".mutual-chap", "is there without chap, on which it stands")
        # With one secret for both ways an initiator could reflect the target's own response.
        shared = any(o.chap and o.chap.secret_file == i.mutual.secret_file for o in t.initiators)
        _require(at + ".mutual-chap.secret-file", i.mutual.secret_file,
                 "is a secret of chap, too: each way needs one of its own" if shared else None)
    # Older kernels demand CHAP of all initiators of a portal group, or of none.
    _refuse(bool(i.chap) != bool(t.initiators[0].chap), at + ".chap",
            "is there, but not of all initiators of the target" if i.chap else
            "is missing, and other initiators of the target have it")


def _twice(again: bool) -> str | None:
    return "is there twice" if again else None


def _check_target(t: Target, at: str) -> None:
    _require(at + ".iqn", t.iqn, names.iqn(t.iqn))
    _refuse(not t.portals, at + ".portals", "are missing: nobody could reach the target")
    _refuse(not t.stores, at + ".luns", "are missing: the target would have nothing to serve")
    _refuse(not t.open and not t.initiators, at + ".initiators",
            "are missing: nobody could log in; \"open\": true lets anyone")
    _refuse(t.open and bool(t.initiators), at + ".open",
            "is true, which lets anyone in, and there are initiators: which is it?")
    for k, p in enumerate(t.portals):
        where = f"{at}.portals[{k}]"
        _require(where + ".address", p.address, names.address(p.address))
        if p.netdev is not None:
            _require(where + ".netdev", p.netdev, names.interface(p.netdev))
        # Other targets may have the same: the kernel selects the target by its name at login.
        if any((p.address, p.port) == (o.address, o.port) for o in t.portals[:k]):
            _require(where + ".address", p.address, "is there twice, with its port")
    for k, i in enumerate(t.initiators):
        where = f"{at}.initiators[{k}]"
        _check_initiator(t, i, where)
        _require(where + ".name", i.name, _twice(any(i.name == o.name for o in t.initiators[:k])))
    for k, s in enumerate(t.stores):
        where = f"{at}.luns[{k}]"
        _check_store(s, where)
        _refuse(any(s.lun == o.lun for o in t.stores[:k]), where + ".lun",
                "is there twice in its target")
    _check_attributes(t.attributes, TARGET_TAKEN, at)


def check(plan: Plan) -> None:
    """Failure, with the place such as "targets[1].luns[0].size", if no host could carry out the
    plan: a member is missing or wrong, or names, serials, LUNs or addresses are not unique."""
    _require("name", plan.name, names.plan(plan.name))
    _refuse(not plan.targets, "targets", "are missing")
    seen: list[Store] = []
    for n, t in enumerate(plan.targets):
        at = f"targets[{n}]"
        _check_target(t, at)
        _require(at + ".iqn", t.iqn, _twice(any(t.iqn == o.iqn for o in plan.targets[:n])))
        for k, s in enumerate(t.stores):
            where = f"{at}.luns[{k}]"
            for other in seen:
                for key in ("name", "serial", "path"):
                    value = getattr(s, key)
                    _require(f"{where}.{key}", value,
                             _twice(bool(value) and value == getattr(other, key)))
                if s.hides(other) or other.hides(s):
                    _require(where + ".path", s.path,
                             "is beneath another store's tmpfs, or above another store")
            seen.append(s)
