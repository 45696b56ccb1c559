# SPDX-License-Identifier: Apache-2.0
"""The request for a plan: the SPEC file of rftp-iser(8), or the same settings as options."""
from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from . import names, plan
from .common import (
    Options, Failure,
    Misuse,
    parse_ids,
    parse_number,
    parse_size,
    printable,
    read_text,
)

EACH = -1  # the section [node *]: defaults for all nodes
GENERATE = "generate"


@dataclass
class StoreSpec:
    kind: str
    size: int = 0  # bytes; 0 of a block device
    path: str | None = None  # of a file or device
    found: int = plan.NODE_UNKNOWN  # the node of its device; the planner sets it

    @property
    def movable(self) -> bool:
        """Can it be on any node?"""
        return self.kind in ("tmpfs", "ramdisk")


@dataclass
class NodeSpec:
    policy: str | None = None
    write_back: bool | None = None
    stores: list[StoreSpec] = field(default_factory=list)
    portals: list[str] = field(default_factory=list)  # "auto", or as of --portal
    lun_attributes: dict[str, int] = field(default_factory=dict)
    target_attributes: dict[str, int] = field(default_factory=dict)


@dataclass
class InitiatorSpec:
    name: str
    chap_user: str | None = None  # None: the planner chooses
    chap_secret: str | None = None  # a file, or GENERATE
    mutual_user: str | None = None
    mutual_secret: str | None = None


@dataclass
class Spec:
    name: str | None = None
    iqn: str | None = None
    domain: str | None = None
    mounts: str = "/run/rftp-iser"  # the parent directory of tmpfs mounts
    secrets: str = "/etc/rftp-iser"  # the directory of generated secrets
    cpus: str = "nodes"
    open: bool = False
    tcp: bool = False  # plain iSCSI suffices where there is no RDMA
    only: set[int] = field(default_factory=set)  # nodes to plan for; empty: all suitable ones
    nodes: dict[int, NodeSpec] = field(default_factory=dict)
    initiators: dict[str, InitiatorSpec] = field(default_factory=dict)

    def node(self, node: int) -> NodeSpec:
        return self.nodes.get(node, NodeSpec())

    def paths(self) -> list[str]:
        return [s.path for n in self.nodes.values() for s in n.stores if s.path]

    def set(self, section: str, key: str | None, value: str) -> None:
        """Adds one line, as "node 0", "tmpfs", "4G"; key None: the section's head. Failure without
        a place."""
        kind, _, rest = section.partition(" ")
        if kind == "node" and rest:
            self._set_node(rest.strip(), key, value)
        elif kind == "initiator" and rest:
            self._set_initiator(rest.strip(), key, value)
        elif section == "plan":
            if key is not None:
                self._set_plan(key, value)
        elif not section:
            raise Failure(f"\"{printable(key or '')}\" is in no section, as [plan] is one")
        else:
            raise Failure(f"[{printable(section)}] is none of [plan], [node N], [node *], "
                          "[initiator IQN]")

    def _set_plan(self, key: str, value: str) -> None:
        if key == "name":
            self.name = _checked(value, names.plan(value))
        elif key == "iqn":
            wrong = names.iqn(value)
            if not wrong and (not value.startswith("iqn.") or ":" in value):
                wrong = "is more than the beginning of names, as iqn.2026-01.org.example is"
            self.iqn = _checked(value, wrong)
        elif key == "domain":
            self.domain = value
        elif key in ("mounts", "secrets"):
            setattr(self, key, _checked(value, names.path(value)))
        elif key == "cpus":
            self.cpus = _word(value, plan.CPUS)
        elif key in ("open", "tcp"):
            setattr(self, key, _boolean(value))
        else:
            raise Failure(f"[plan] has no \"{printable(key)}\"")

    def _set_node(self, name: str, key: str | None, value: str) -> None:
        number = EACH if name == "*" else parse_number(name, 0, plan.NODE_MOST)
        if number is None:
            raise Failure(f"\"{printable(name)}\" is no node: that is a number, or * for each")
        node = self.nodes.setdefault(number, NodeSpec())
        if key in ("tmpfs", "ramdisk"):
            node.stores.append(StoreSpec(str(key), _size(value)))
        elif key == "file":
            words = value.split(None, 1)
            if len(words) < 2:
                raise Failure(f"a file wants its size, too: {printable(value)} 100G")
            size = _size(words[1])
            node.stores.append(StoreSpec("file", size, _checked(words[0], names.path(words[0]))))
        elif key == "block":
            wrong = names.path(value) if value.startswith("/dev/") else "is not below /dev"
            node.stores.append(StoreSpec("block", 0, _checked(value, wrong)))
        elif key == "portal":
            at = split_portal(value)[0]
            if re.fullmatch(r"[0-9.]*|.*:.*", at):  # an address, not an interface
                _checked(at, names.address(at))
            if number == EACH and value != "auto":
                raise Failure("a portal belongs into the section of its node, as [node 0]")
            node.portals.append(value)
        elif key == "policy":
            node.policy = _word(value, plan.POLICIES)
        elif key == "write":
            node.write_back = _word(value, ("through", "back")) == "back"
        elif key in ("lun-attribute", "target-attribute"):
            into = node.lun_attributes if key == "lun-attribute" else node.target_attributes
            into.update([_attribute(value)])
        elif key is not None:
            raise Failure(f"[node] has no \"{printable(key)}\"")

    def _set_initiator(self, name: str, key: str | None, value: str) -> None:
        if names.iqn(name):
            raise Failure(f"the initiator \"{printable(name)}\" {names.iqn(name)}")
        initiator = self.initiators.setdefault(name, InitiatorSpec(name))
        if key in ("chap-user", "mutual-user"):
            wrong = names.chap_user(value)
        elif key in ("chap-secret", "mutual-secret"):
            wrong = None if value == GENERATE else names.path(value)
        elif key is not None:
            raise Failure(f"[initiator] has no \"{printable(key)}\"")
        else:
            return
        setattr(initiator, key.replace("-", "_"), _checked(value, wrong))


# ---- values ---------------------------------------------------------------------------


def _checked(value: str, wrong: str | None) -> str:
    if wrong:
        raise Failure(f"\"{printable(value)}\" {wrong}")
    return value


def _word(value: str, words: tuple[str, ...]) -> str:
    return _checked(value, None if value in words else "is none of " + ", ".join(words))


def _boolean(value: str) -> bool:
    yes = value.lower() in ("on", "yes", "true", "1")
    good = yes or value.lower() in ("off", "no", "false", "0")
    _checked(value, None if good else "is neither yes nor no")
    return yes


def _size(value: str) -> int:
    size = parse_size(value)
    if size is None:
        raise Failure(f"\"{printable(value)}\" is no size, as 4G is")
    _checked(value, "is less than 1 MiB" if size < plan.SIZE_LEAST else None)
    return size


def _attribute(value: str) -> tuple[str, int]:
    """Of "NAME NUMBER"."""
    name, text = [*value.split(None, 1), ""][:2]
    _checked(name, names.attribute(name))
    number = parse_number(text, 0, plan.ATTRIBUTE_MOST)
    if number is None:
        raise Failure(f"the attribute {name} wants a number from 0 to {plan.ATTRIBUTE_MOST}, "
                      f"not \"{printable(text)}\"")
    return name, number


def split_portal(value: str) -> tuple[str, int]:
    """Of "192.0.2.1:3261" the address, interface or "auto", and the port, by default 3260. An IPv6
    address with a port stands in brackets."""
    bracketed = re.fullmatch(r"\[([^]]*)\](.*)", value)
    at, rest = (bracketed.group(1), bracketed.group(2)) if bracketed else (value, "")
    if not bracketed and value.count(":") == 1:
        at, rest = value.split(":")[0], ":" + value.split(":")[1]
    if not rest:
        return at, plan.PORT
    port = parse_number(rest[1:], 1, 65535) if rest[0] == ":" else None
    if port is None:
        raise Failure(f"\"{printable(rest.lstrip(':'))}\" is no port, from 1 to 65535")
    return at, port


# ---- a file ---------------------------------------------------------------------------


def lines_of(text: str) -> Iterator[tuple[int, str, str | None, str]]:
    """Line number, section, key and value of each setting; key None for a section's head. Failure
    with the line number in front."""
    section = ""
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.strip(" \t\r")
        try:
            if not line or line[0] == "#":
                continue
            if line[0] == ";":
                raise Failure("a comment begins with \"#\", not with \";\"")
            if line[0] == "[":
                section = _section(line)
                yield number, section, None, ""
            else:
                yield (number, section, *_setting(line))
        except Failure as why:
            raise Failure(f"{number}: {why}") from None


def _section(line: str) -> str:
    name, bracket, rest = line[1:].partition("]")
    if not bracket:
        raise Failure("the closing ] is missing")
    if rest.strip(" \t") and not rest.strip(" \t").startswith("#"):
        raise Failure("there is text behind the ]")
    if not name.strip(" \t"):
        raise Failure("the section has no name")
    return re.sub(r"[ \t]+", " ", name.strip(" \t"))


def _setting(line: str) -> tuple[str, str]:
    """KEY VALUE or KEY = VALUE; the value may stand in quotes."""
    found = re.match(r"([^ \t\r=]*)[ \t]*=?[ \t]*", line)
    key, value = (found.group(1), line[found.end():]) if found else ("", "")
    if not key:
        raise Failure("there is no key before the \"=\"")
    if not value.startswith("\""):
        value = re.sub(r"(^|[ \t])#.*", "", value).rstrip(" \t")
        if not value:
            raise Failure(f"\"{printable(key)}\" has no value (for an empty one write \"\")")
        return key, value
    quoted = re.match(r'"((?:[^"\\]|\\["\\])*)"[ \t]*(#.*)?$', value)
    if not quoted:
        raise Failure("a value in quotes ends with a quote, and has \\\" and \\\\ for those in it")
    return key, re.sub(r"\\(.)", r"\1", quoted.group(1))


def read(spec: Spec, path: str) -> None:
    """Adds a file's settings; "-" is standard input. The last of several single values counts.
    Failure has FILE:LINE."""
    name = "standard input" if path == "-" else printable(path)
    text = read_text(path)
    try:
        for number, section, key, value in lines_of(text):
            try:
                spec.set(section, key, value)
            except Failure as why:
                raise Failure(f"{number}: {why}") from None
    except Failure as why:
        raise Failure(f"{name}:{why}") from None


# ---- options --------------------------------------------------------------------------


def _absolute(path: str) -> str:
    """A plan is read in other directories."""
    return path if path.startswith("/") else f"{os.getcwd()}/{path}"


def add_options(spec: Spec, o: Options) -> None:
    """Adds the settings of options. Misuse if one is wrong."""

    def add(option: str, section: str, key: str | None, value: str) -> None:
        try:
            spec.set(section, key, value)
        except Failure as why:
            raise Misuse(f"--{option}: {why}") from None

    if o.node is not None:
        only = parse_ids(o.node)
        if not only:
            raise Misuse(f"--node {printable(o.node)}: is no list of nodes, as 0,2-3")
        spec.only = only
    for key in ("name", "domain", "iqn", "secrets", "mounts"):
        value = getattr(o, key)
        if value is not None:
            add(key, "plan", key, _absolute(value) if key in ("secrets", "mounts") else value)
    for key in ("open", "tcp"):
        if getattr(o, key):
            add(key, "plan", key, "yes")
    for key in ("tmpfs", "ramdisk"):
        for value in getattr(o, key):
            add(key, "node *", key, value)
    for value in o.file:
        path, colon, size = _absolute(value).rpartition(":")
        if not colon:
            raise Misuse(f"--file {printable(value)}: its size is missing, as in FILE:100G")
        add("file", "node *", "file", f"{path} {size}")
    for value in o.block:
        add("block", "node *", "block", value)
    for key in ("policy", "write"):
        if getattr(o, key) is not None:
            add(key, "node *", key, getattr(o, key))
    for value in o.portal:
        node, equals, at = value.partition("=")
        if not equals:
            raise Misuse(f"--portal {printable(value)}: is no NODE=ADDRESS")
        add("portal", "node " + node, "portal", at)
    for value in o.initiator:
        add("initiator", "initiator " + value, None, "")
    for option, value, key in (("chap", o.chap, "chap-secret"),
                               ("mutual-chap", o.mutual_chap, "mutual-secret")):
        if value is None:
            continue
        if not spec.initiators:
            raise Misuse(f"--{option} is for initiators, and there are none: --initiator names one")
        for initiator in spec.initiators.values():
            if getattr(initiator, key.replace("-", "_")) is None:
                add(option, "initiator " + initiator.name, key,
                    value if value == GENERATE else _absolute(value))
