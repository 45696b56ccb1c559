# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: RUF009, for member and needed return dataclasses.field()
"""The plan of a storage host: one target per node, with its back stores, portals and initiators.
The dataclasses below are the description of its JSON (rftp-iser(8)). And rules for names that LIO,
open-iscsi and configfs accept unchanged: each returns "" for a good name, or the end of a sentence
that says its fault. And CHAP secrets, the first lines of files that only their owner can read: no
text of a Failure has a secret in it."""
from __future__ import annotations

import ipaddress
import os
import secrets
import socket
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from rftp_common import (FAILED, Failure, at_place, file_name, load_json, own_directory, printable,
                         read_private, read_text, write_file)
from rftp_machine import NODE_MOST, NODE_UNKNOWN
from rftp_members import (MISSING, between, first_fault, member, needed, read_object, refuse, rule,
                          word)

VERSION_KEY = "rftp-iser-plan"
FORMAT_VERSION = 1
PORT = 3260  # RFC 7143
MOUNTS, SECRETS = "/run/rftp-iser", "/etc/rftp-iser"  # where a plan has them by default
SIZE_LEAST = 1 << 20  # bytes of a back store; less is a mistake in a unit
ATTRIBUTE_MOST = (1 << 32) - 1
POLICIES = ("bind", "prefer")
CPUS = ("nodes", "any")

Faults = Iterator[tuple[object, str]]
LIO_SUFFIX = ".lio"  # of files beside a plan's in the state directory

# ---- names ---------------------------------------------------------------------------
# All admit ASCII only before they count characters, so that these are bytes.

_LABEL = "[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"  # of a domain
_STORE = (
    ("[A-Za-z0-9._-]*", "has other characters than letters, digits, '.', '_' and '-'"),
    ("[A-Za-z0-9].*", "does not begin with a letter or a digit"),
    (".{,64}", "is longer than 64 bytes"))
store_fault = rule(*_STORE)
plan_fault = rule(*_STORE, (rf".*(?<!\{LIO_SUFFIX})",
                            f"ends in {LIO_SUFFIX}, which is for files beside the plan's"))

attribute_fault = rule(
    ("[a-z0-9_]{1,64}", "is not an attribute's name, of lower case letters, digits and '_'"),
    missing="is an attribute without a name")

serial_fault = rule(("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
                     "is not a UUID in lower case, as 6d9f1f6e-5a0c-4a5e-9d0b-3f1a2b4c5d6e"))

interface_fault = rule(("[!-.0-~]+", "is not a network interface's name"))

user_fault = rule(
    (r"(?!.*,)[!-~]*", "has a blank, a comma or a character beyond ASCII"),
    (".{,255}", "is longer than 255 bytes"),
    # iscsi_target_configfs.c: the value that clears it.
    ("(?!NULL).*", "begins with \"NULL\", which is LIO's word for none"))

path_fault = rule(
    ("/.*", "does not begin with a slash"),
    (r"(?!.*[,\\\"'])[!-~]*", "has a comma, a blank, a quote, a backslash or a character beyond "
                              "ASCII, which LIO's configuration does not keep"),
    (".{,255}", "is longer than 255 bytes, which LIO would cut"),
    (r"(?:/(?!\.\.?(?:/|\Z))[^/]+)+", "has an empty part, \".\" or \"..\" in it"))

# RFC 7143, sections 4.2.7.1 and 4.2.7.4; also names that begin with eui. or naa.
_IQN = (
    ("(?!InitiatorName=).*", "is a line of initiatorname.iscsi: write the part behind its '='"),
    ("[a-z0-9.:-]{,223}", "is not of lower case letters, digits, '-', '.' and ':', up to 223"),
    (rf"iqn\.[0-9]{{4}}-(0[1-9]|1[0-2])\.{_LABEL}(\.{_LABEL})*(:.+)?"
     r"|eui\.[0-9a-f]{16}|naa\.([0-9a-f]{16}){1,2}",
     "is not an iSCSI name, as iqn.2026-01.org.example:disk, or eui. or naa. and hex digits"),
    (r"(?!iqn).*|.{12}[^:.]*\..*",
     "has a domain without a dot: LIO takes \"org.example\", not \"example\""))
iqn_fault = rule(*_IQN)
prefix_fault = rule(*_IQN, ("iqn[^:]*", "is more than the beginning of names, as "
                            "iqn.2026-01.org.example is"))


def address_fault(text: str) -> str:
    """A numerical one, in the kernel's spelling, that one interface can have."""
    try:
        ip = ipaddress.ip_address(text)
    except ValueError:
        return "is not a numerical address" if text else MISSING
    six = ip.version == 6
    usual = socket.inet_ntop(socket.AF_INET6 if six else socket.AF_INET, ip.packed)
    return first_fault((
        (ip.is_unspecified,
         "stands for all addresses: with it no other target could listen on this port"),
        (ip.is_multicast or text == "255.255.255.255", "is a multicast or a broadcast address"),
        (six and ip.is_link_local, "is an address of its link only, which does not say of which"),
        (usual != text or getattr(ip, "ipv4_mapped", None),
         "is not in its usual form, as 192.0.2.1 or 2001:db8::1")))


def settings(**taken: str) -> Callable[[dict[str, Any]], str]:
    """taken: attributes that other members of the plan would silently overrule, and these."""
    def fault(settings: dict[str, Any]) -> str:
        for name, value in settings.items():
            good = type(value) is int and 0 <= value <= ATTRIBUTE_MOST  # a bool is an int, too
            wrong = attribute_fault(name) or first_fault((
                (name in taken, f"is decided by {taken.get(name)}"),
                (not good, f"is not a number up to {ATTRIBUTE_MOST}")))
            if wrong:
                return f"has \"{printable(name)}\", which {wrong}"
        return ""
    return fault


# ---- the plan -------------------------------------------------------------------------


@dataclass
class Store:
    """A back store, and its LUN in its target."""
    lun: int = member(0, rule=between(0, 255))  # every initiator scans this far
    name: str = needed(rule=store_fault)  # LIO's; unique in a plan
    kind: str = needed(rule=word("tmpfs", "file", "block", "ramdisk"))
    node: int = member(NODE_UNKNOWN, rule=between(NODE_UNKNOWN, NODE_MOST))  # of pages or device
    size: int = member(0, rule=between(0, (1 << 63) - 1))  # bytes; 0 for a block device: all of it
    policy: str = member("bind", rule=word(*POLICIES), when=lambda s: s.kind == "tmpfs")
    path: str = member("", rule=path_fault)  # the tmpfs's mount point, the file, or the device
    write_back: bool = member(False)  # written data may stay in memory until a flush
    serial: str = needed(rule=serial_fault)  # a UUID, by which initiators recognise the disk
    attributes: dict[str, int] = member(dict, rule=settings(emulate_write_cache="write-back"))

    @property
    def file(self) -> str:
        """The path that LIO opens; "" for a ramdisk."""
        return f"{self.path}/disk.img" if self.kind == "tmpfs" else self.path

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
        too_long = path_fault(self.file) if self.file else ""
        yield (self.kind == "tmpfs" and self.node == NODE_UNKNOWN,
               "node is missing: a tmpfs needs the node that has its memory")
        yield block and self.size, "size is there, but a block device is served whole"
        yield not block and self.size < SIZE_LEAST, "size is missing, or less than 1 MiB"
        yield self.size % unit, f"size is not a multiple of {unit} bytes"
        yield ramdisk and self.path, "path is there, but a ramdisk has none"
        yield not ramdisk and not self.path, "path is missing"
        yield too_long, f"path \"{self.path}\" {too_long}"
        yield (block and not self.path.startswith("/dev/"),
               f"path \"{self.path}\" is not below /dev")
        yield (self.write_back and self.plugin != "fileio", "write-back is for a tmpfs or a file")


@dataclass
class Portal:
    address: str = needed(rule=address_fault)  # numerical, without brackets
    port: int = member(PORT, rule=between(1, 65535))
    netdev: str = member("", rule=interface_fault)  # the one with the address; "": unknown
    iser: bool = member(True)


@dataclass
class Chap:
    """RFC 7143, section 12.1.3; RFC 1994."""
    user: str = needed(rule=user_fault)
    secret_file: str = needed(rule=path_fault)  # mode 0600; the secret is its first line


@dataclass
class Initiator:
    name: str = needed(rule=iqn_fault)
    chap: Chap | None = member(None, of=Chap)  # the initiator proves its name
    mutual: Chap | None = member(None, of=Chap, key="mutual-chap")  # the target proves its name


@dataclass
class Target:
    node: int = member(NODE_UNKNOWN, rule=between(NODE_UNKNOWN, NODE_MOST))
    iqn: str = needed(rule=iqn_fault)
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
    name: str = needed(rule=plan_fault)  # a host may have several plans
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
                yield value and (key, value) in seen, f"{at}.{key} \"{value}\" is listed twice"
                seen.add((key, value))
            yield (not mounts.isdisjoint(map(str, PurePosixPath(s.path).parents)),
                   f"{at}.path \"{s.path}\" is beneath another store's tmpfs")


def parse(text: str, name: str) -> Plan:
    """A checked plan. name: the file's, for a Failure's text."""
    value = load_json(text, name)
    with at_place(name):
        version = value.get(VERSION_KEY) if isinstance(value, dict) else None
        refuse(version != FORMAT_VERSION, "this",
               f"is not a plan of this format: {VERSION_KEY} is not {FORMAT_VERSION}")
        plan: Plan = read_object(Plan, value, "")
    return plan


def read(path: str, wrong: int = FAILED) -> Plan:
    """As parse; "-" is standard input. wrong: the exit status for a wrong plan; USAGE where trying
    again does not help."""
    try:
        return parse(read_text(path), file_name(path))
    except Failure as why:
        why.status = FAILED if why.__cause__ else wrong  # a cause: the file cannot be read
        raise


# ---- CHAP secrets ---------------------------------------------------------------------

_VISIBLE = "its first line, the secret, is not of 12 to 255 visible ASCII characters"
_our_secret = rule(  # for LIO and all initiators
    ("[!-~]{12,255}", _VISIBLE),
    # iscsi_target_configfs.c: the beginning of a value that clears it
    ("(?!NULL).*", "a secret that begins with NULL is none for LIO"), missing=_VISIBLE)
_other_secret = rule(  # for open-iscsi, of a target that another program made
    (".{,255}", "the secret is longer than 255 bytes"),
    ("[^\0-\x1f\x7f]*", "the secret has a control character in it"),
    ("(?! ).*(?<! )", "the secret begins or ends with a blank, which open-iscsi would drop"),
    missing="the secret is empty")


def read_secret(path: str, ours: bool = True) -> str:
    """ours: for LIO; otherwise the file comes from another host's administrator, and its lines may
    end in CR LF."""
    where = f"{printable(path)}, a CHAP secret"
    secret = read_private(path, 257, where).decode("latin-1").partition("\n")[0]
    if not ours:
        secret = secret.partition("\r")[0]
    wrong = (_our_secret if ours else _other_secret)(secret)
    if wrong:
        raise Failure(f"{where}: {wrong}")
    return secret


def make_secret(path: str) -> bool:
    """Draws a secret into a new file of mode 0600; False: the file exists, with a good secret."""
    directory = os.path.dirname(path)
    own_directory(directory, f"the directory {printable(directory)} for secrets")
    if os.path.lexists(path):
        read_secret(path)
        return False
    letters, secret = string.ascii_letters + string.digits, ""
    while _our_secret(secret):
        # Some initiators demand 12 to 16 bytes, and RFC 7143, section 9.2.1, 96 bits. Letters and
        # digits pass through every configuration file.
        secret = "".join(secrets.choice(letters) for _ in range(16))
    write_file(path, secret + "\n")
    return True
