# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: RUF009, for member and needed return dataclasses.field()
"""The plan of a storage host: one target per node, with its back stores, portals and initiators.
The dataclasses below are the description of its JSON (rftp-iser(8))."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from rftp_common import FAILED, USAGE, Failure, at_place, load_json, printable, read_text
from rftp_members import between, first_fault, member, needed, read_object, refuse, word
from rftp_numa.machine import NODE_MOST, NODE_UNKNOWN

from . import names

VERSION_KEY = "rftp-iser-plan"
FORMAT_VERSION = 1
PORT = 3260  # RFC 7143
SIZE_LEAST = 1 << 20  # bytes of a back store; less is a mistake in a unit
ATTRIBUTE_MOST = (1 << 32) - 1
POLICIES = ("bind", "prefer")
CPUS = ("nodes", "any")
TMPFS_FILE = "disk.img"  # a tmpfs's back store, within its mount

Faults = Iterator[tuple[object, str]]


def settings(**taken: str) -> Callable[[dict[str, Any]], str]:
    """taken: attributes that other members of the plan would silently overrule, and these."""
    def fault(settings: dict[str, Any]) -> str:
        for name, value in settings.items():
            good = type(value) is int and 0 <= value <= ATTRIBUTE_MOST  # a bool is an int, too
            wrong = names.attribute(name) or first_fault((
                (name in taken, f"is decided by {taken.get(name)}"),
                (not good, f"is no number up to {ATTRIBUTE_MOST}")))
            if wrong:
                return f"has \"{printable(name)}\", which {wrong}"
        return ""
    return fault


# ---- the plan -------------------------------------------------------------------------


@dataclass
class Store:
    """A back store, and its LUN in its target."""
    lun: int = member(0, rule=between(0, 255))  # every initiator scans this far
    name: str = needed(rule=names.store)  # LIO's; unique in a plan
    kind: str = needed(rule=word("tmpfs", "file", "block", "ramdisk"))
    node: int = member(NODE_UNKNOWN, rule=between(NODE_UNKNOWN, NODE_MOST))  # of pages or device
    size: int = member(0, rule=between(0, (1 << 63) - 1))  # bytes; 0 for a block device: all of it
    policy: str = member("bind", rule=word(*POLICIES), when=lambda s: s.kind == "tmpfs")
    path: str = member("", rule=names.path)  # the tmpfs's mount point, the file, or the device
    write_back: bool = member(False)  # written data may stay in memory until a flush
    serial: str = needed(rule=names.serial)  # a UUID, by which initiators recognise the disk
    attributes: dict[str, int] = member(dict, rule=settings(emulate_write_cache="write-back"))

    @property
    def file(self) -> str:
        """The path that LIO opens; "" for a ramdisk."""
        return f"{self.path}/{TMPFS_FILE}" if self.kind == "tmpfs" else self.path

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

    def faults(self) -> Faults:
        block, ramdisk = self.kind == "block", self.kind == "ramdisk"
        unit = 4096 if ramdisk else 512  # pages, sectors
        too_long = names.path(self.file) if self.file else ""
        yield (self.kind == "tmpfs" and self.node == NODE_UNKNOWN,
               "node is missing: a tmpfs needs the node that has its memory")
        yield block and self.size, "size is there, but a block device is served whole"
        yield not block and self.size < SIZE_LEAST, "size is missing, or less than 1 MiB"
        yield self.size % unit, f"size is no multiple of {unit} bytes"
        yield ramdisk and self.path, "path is there, but a ramdisk has none"
        yield not ramdisk and not self.path, "path is missing"
        yield too_long, f"path \"{self.path}\" {too_long}"
        yield (block and not self.path.startswith("/dev/"),
               f"path \"{self.path}\" is not below /dev")
        yield (self.write_back and self.plugin != "fileio", "write-back is for a tmpfs or a file")


@dataclass
class Portal:
    address: str = needed(rule=names.address)  # numerical, without brackets
    port: int = member(PORT, rule=between(1, 65535))
    netdev: str = member("", rule=names.interface)  # the one with the address; "": unknown
    iser: bool = member(True)


@dataclass
class Chap:
    """RFC 7143, section 12.1.3; RFC 1994."""
    user: str = needed(rule=names.chap_user)
    secret_file: str = needed(rule=names.path)  # mode 0600; the secret is its first line


@dataclass
class Initiator:
    name: str = needed(rule=names.iqn)
    chap: Chap | None = member(None, of=Chap)  # the initiator proves its name
    mutual: Chap | None = member(None, of=Chap, key="mutual-chap")  # the target proves its name


@dataclass
class Target:
    node: int = member(NODE_UNKNOWN, rule=between(NODE_UNKNOWN, NODE_MOST))
    iqn: str = needed(rule=names.iqn)
    open: bool = member(False)  # any initiator may log in and write, without proof
    # Other targets may have the same: the kernel selects the target by its name at login.
    portals: list[Portal] = member(list, of=Portal, unique=("address", "port"))
    initiators: list[Initiator] = member(list, of=Initiator, unique=["name"])
    stores: list[Store] = member(list, of=Store, unique=["lun"], key="luns")
    attributes: dict[str, int] = member(dict, rule=settings(  # of the portal group
        authentication="chap", generate_node_acls="open", demo_mode_write_protect="open",
        cache_dynamic_acls="open"))

    def faults(self) -> Faults:
        yield not self.portals, "portals are missing: initiators need an address"
        yield not self.stores, "luns are missing: the target has nothing to serve"
        yield (not self.open and not self.initiators,
               "initiators are missing; \"open\": true lets anyone in")
        yield (self.open and self.initiators,
               "open is true, which lets anyone in, and there are initiators: delete one of them")
        secrets = {i.chap.secret_file for i in self.initiators if i.chap}
        for k, i in enumerate(self.initiators):
            at = f"initiators[{k}]"
            # Older kernels demand CHAP of all initiators of a portal group, or of none.
            yield (secrets and not i.chap,
                   f"{at}.chap is missing, and other initiators of the target have it")
            yield i.mutual and not i.chap, f"{at}.mutual-chap is there without chap, which it needs"
            # With one secret for both ways an initiator could reflect the target's own response.
            yield (i.mutual and i.mutual.secret_file in secrets, f"{at}.mutual-chap.secret-file is "
                   "a secret of chap, too: each way needs one of its own")


@dataclass
class Plan:
    version: int = member(FORMAT_VERSION, key=VERSION_KEY, rule=word(FORMAT_VERSION))
    name: str = needed(rule=names.plan)  # a host may have several plans
    cpus: str = member("nodes", rule=word(*CPUS))  # of LIO's threads: the targets' nodes, or any
    targets: list[Target] = member(list, of=Target, unique=["iqn"])

    def stores(self) -> Iterator[Store]:
        return (s for t in self.targets for s in t.stores)

    def faults(self) -> Faults:
        yield not self.targets, "targets are missing"
        mounts, seen = {s.path for s in self.stores() if s.kind == "tmpfs"}, set()
        for at, s in ((f"targets[{n}].luns[{k}]", s) for n, t in enumerate(self.targets)
                      for k, s in enumerate(t.stores)):
            for key, value in (("name", s.name), ("serial", s.serial), ("path", s.path)):
                yield value and (key, value) in seen, f"{at}.{key} \"{value}\" is there twice"
                seen.add((key, value))
            yield (not mounts.isdisjoint(map(str, PurePosixPath(s.path).parents)),
                   f"{at}.path \"{s.path}\" is beneath another store's tmpfs")


def parse(text: str, name: str) -> Plan:
    """A checked plan. name: the file's, for a Failure's text."""
    value = load_json(text, name)
    with at_place(name):
        version = value.get(VERSION_KEY) if isinstance(value, dict) else None
        refuse(version != FORMAT_VERSION, "this",
               f"is no plan of this format: {VERSION_KEY} is not {FORMAT_VERSION}")
        plan: Plan = read_object(Plan, value, "")
    return plan


def read(path: str) -> Plan:
    """As parse; "-" is standard input."""
    return parse(read_text(path), "standard input" if path == "-" else printable(path))


def read_to_use(path: str) -> Plan:
    """As read. A wrong plan has the status of a wrong command line: trying again does not help."""
    try:
        return read(path)
    except Failure as why:
        why.status = FAILED if why.__cause__ else USAGE
        raise
