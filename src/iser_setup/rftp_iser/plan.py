# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: RUF009, for _member returns dataclasses.field()
"""The plan of a storage host: one target per node, with its back stores, portals and initiators.
Reads, checks and writes the JSON of rftp-iser(8). Unknown members are refused as misspelt."""
from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
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

# ---- members of JSON ------------------------------------------------------------------

# Returns the checked value of a member, or raises Failure with its place, "targets[0].iqn".
_Reader = Callable[[Any, str], Any]


def _refuse(wrong: bool, where: str, what: str) -> None:
    if wrong:
        raise Failure(f"{where} {what}")


def _text(value: Any, at: str) -> str:
    _refuse(not isinstance(value, str), at, "is no text")
    _refuse("\0" in value, at, "has a NUL in it")
    return str(value)


def _boolean(value: Any, at: str) -> bool:
    _refuse(not isinstance(value, bool), at, "is neither true nor false")
    return bool(value)


def _number(least: int, most: int) -> _Reader:
    def read(value: Any, at: str) -> int:
        _refuse(type(value) is not int, at, "is no whole number")  # a bool is an int, too
        _refuse(not least <= value <= most, at, f"is not between {least} and {most}")
        return int(value)
    return read


def _word(words: tuple[str, ...]) -> _Reader:
    def read(value: Any, at: str) -> str:
        _refuse(_text(value, at) not in words, at, "is none of " + ", ".join(words))
        return str(value)
    return read


def _attributes(value: Any, at: str) -> dict[str, int]:
    _refuse(not isinstance(value, dict), at, "is no object")
    for key, number in value.items():
        _refuse(type(number) is not int or number < 0, f"{at}.{printable(key)}",
                "is no whole number from 0")
    return dict(value)


def _object(kind: type) -> _Reader:
    def read(value: Any, at: str) -> Any:
        _refuse(not isinstance(value, dict), at, "is no object")
        known = {_key(f): f for f in dataclasses.fields(kind)}
        members = {}
        for key, member in value.items():
            where = f"{at}.{printable(key)}" if at else printable(key)
            _refuse(key not in known, where, "is not known")
            if member is not None:
                members[known[key].name] = known[key].metadata.get("read", _text)(member, where)
        needed = [key for key, f in known.items() if f.default is f.default_factory]  # both MISSING
        _refuse(any(known[key].name not in members for key in needed), at,
                "wants " + " and ".join(needed))
        return kind(**members)
    return read


def _list(kind: type) -> _Reader:
    def read(value: Any, at: str) -> list[Any]:
        _refuse(not isinstance(value, list), at, "is no list")
        return [_object(kind)(item, f"{at}[{i}]") for i, item in enumerate(value)]
    return read


def _member(read: _Reader, default: Any = None, key: str | None = None) -> Any:
    """A dataclass's field that is not text, or has another key in JSON. A default that is a type
    makes a new value each time."""
    metadata = {"read": read, "key": key}
    if isinstance(default, type):
        return dataclasses.field(default_factory=default, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def _key(f: dataclasses.Field[Any]) -> str:
    return f.metadata.get("key") or f.name.replace("_", "-")


# ---- the plan -------------------------------------------------------------------------

_NODE = _number(NODE_UNKNOWN, NODE_MOST)


@dataclass
class Store:
    """A back store, and its LUN in its target."""
    lun: int = _member(_number(0, LUN_MOST), 0)
    name: str | None = None  # LIO's; unique in a plan
    kind: str = _member(_word(KINDS), "")
    node: int = _member(_NODE, NODE_UNKNOWN)  # of its pages, or its device
    size: int = _member(_number(0, (1 << 63) - 1), 0)  # bytes; 0 for a block device: all of it
    policy: str = _member(_word(POLICIES), "bind")  # a tmpfs's memory policy
    path: str | None = None  # the tmpfs's mount point, the file, or the device
    write_back: bool = _member(_boolean, False)  # written data may stay in memory until a flush
    serial: str | None = None  # a UUID, by which initiators recognise the disk
    attributes: dict[str, int] = _member(_attributes, dict)

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
    port: int = _member(_number(1, 65535), PORT)
    netdev: str | None = None  # the interface with the address; None: unknown
    iser: bool = _member(_boolean, True)


@dataclass
class Chap:
    """RFC 7143, section 12.1.3; RFC 1994."""
    user: str
    secret_file: str  # mode 0600; the secret is its first line


@dataclass
class Initiator:
    name: str | None = None  # its IQN
    chap: Chap | None = _member(_object(Chap))  # the initiator proves its name
    mutual: Chap | None = _member(_object(Chap), key="mutual-chap")  # the target proves its name


@dataclass
class Target:
    node: int = _member(_NODE, NODE_UNKNOWN)
    iqn: str | None = None
    open: bool = _member(_boolean, False)  # any initiator may log in and write, without proof
    portals: list[Portal] = _member(_list(Portal), list)
    initiators: list[Initiator] = _member(_list(Initiator), list)
    stores: list[Store] = _member(_list(Store), list, "luns")
    attributes: dict[str, int] = _member(_attributes, dict)  # of the portal group


@dataclass
class Plan:
    name: str | None = None  # a host may have several plans
    cpus: str = _member(_word(CPUS), "nodes")  # of LIO's threads: the targets' nodes, or any
    targets: list[Target] = _member(_list(Target), list)

    def stores(self) -> Iterator[Store]:
        for target in self.targets:
            yield from target.stores

    def store(self, name: str) -> Store | None:
        return next((s for s in self.stores() if s.name == name), None)

    def target(self, iqn: str) -> Target | None:
        return next((t for t in self.targets if t.iqn == iqn), None)


def from_json(value: Any, name: str) -> Plan:
    """A plan that check() accepts. name: the file's, for a Failure's text."""
    if not isinstance(value, dict):
        raise Failure(f"{name}: is no JSON object")
    version = value.get(VERSION_KEY)
    try:
        if version is not None:
            version = _number(0, (1 << 31) - 1)(version, VERSION_KEY)
        if not version:
            raise Failure(f"is no plan: it has no \"{VERSION_KEY}\": {FORMAT_VERSION}")
        if version != FORMAT_VERSION:
            raise Failure(f"is of a later format (\"{VERSION_KEY}\" is not {FORMAT_VERSION})")
        plan: Plan = _object(Plan)({k: v for k, v in value.items() if k != VERSION_KEY}, "")
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


def _json_of(value: Any) -> Any:
    if isinstance(value, list):
        return [_json_of(item) for item in value]
    if not dataclasses.is_dataclass(value):
        return value
    members = {_key(f): _json_of(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Store) and value.kind != "tmpfs":
        del members["policy"]
    return {key: member for key, member in members.items() if member is not None and member != {}}


def to_json(plan: Plan) -> dict[str, Any]:
    return {VERSION_KEY: FORMAT_VERSION, **_json_of(plan)}


# ---- checks that need no host ---------------------------------------------------------


def _require(where: str, value: str | None, wrong: str | None) -> None:
    """Failure about the value at this place; wrong None: the value is good."""
    if wrong:
        said = f" \"{printable(value)}\"" if value else ""
        raise Failure(f"{where}{said} {wrong}")


def _check_attributes(attributes: dict[str, int], taken: dict[str, str], parent: str) -> None:
    for name, value in attributes.items():
        at = f"{parent}.attributes.{printable(name)}"
        _require(at, None, names.attribute(name) or taken.get(name))
        _refuse(value > ATTRIBUTE_MOST, at, f"is above {ATTRIBUTE_MOST}")


def _check_store(s: Store, at: str) -> None:
    _require(at + ".name", s.name, names.store(s.name))
    _refuse(not s.kind, at + ".kind", "is missing")
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
