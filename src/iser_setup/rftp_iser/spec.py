# SPDX-License-Identifier: Apache-2.0
"""What an administrator asks of a plan: a small file of sections, or the same by options. The
format is described in rftp-iser(8)."""
from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from . import names
from .common import (
    Failure,
    Misuse,
    parse_ids,
    parse_number,
    parse_size,
    printable,
    read_text,
)
from .plan import ATTRIBUTE_MOST, CPUS, NODE_MOST, NODE_UNKNOWN, POLICIES, PORT, SIZE_LEAST

EACH = -1  # the node of [node *]: for all nodes, what they do not say themselves
GENERATE = "generate"


@dataclass
class StoreSpec:
    kind: str
    size: int = 0  # bytes; 0 of a block device
    path: str | None = None  # a file's, a device's
    found: int = NODE_UNKNOWN  # the node that its device is on, once that is known

    @property
    def movable(self) -> bool:
        """Can any node have it?"""
        return self.kind in ("tmpfs", "ramdisk")


@dataclass
class NodeSpec:
    policy: str | None = None
    write_back: bool | None = None
    stores: list[StoreSpec] = field(default_factory=list)
    portals: list[str] = field(default_factory=list)  # ADDRESS or INTERFACE, with :PORT, or "auto"
    lun_attributes: dict[str, int] = field(default_factory=dict)
    target_attributes: dict[str, int] = field(default_factory=dict)


@dataclass
class InitiatorSpec:
    name: str
    chap_user: str | None = None  # None: a name is chosen
    chap_secret: str | None = None  # a file, or GENERATE
    mutual_user: str | None = None
    mutual_secret: str | None = None


@dataclass
class Spec:
    name: str | None = None
    iqn: str | None = None
    domain: str | None = None
    mounts: str = "/run/rftp-iser"  # below it tmpfs are mounted
    secrets: str = "/etc/rftp-iser"  # in it secrets are generated
    cpus: str = "nodes"
    open: bool = False
    tcp: bool = False  # plain iSCSI will do where there is no RDMA
    only: set[int] = field(default_factory=set)  # nodes to plan for; empty: all that have what it takes
    nodes: dict[int, NodeSpec] = field(default_factory=dict)
    initiators: dict[str, InitiatorSpec] = field(default_factory=dict)

    def node(self, node: int) -> NodeSpec:
        """What is said of a node; nothing, unless anything is."""
        return self.nodes.get(node, NodeSpec())

    def paths(self) -> list[str]:
        return [s.path for n in self.nodes.values() for s in n.stores if s.path]

    # ---- one line: section "node 0", key "tmpfs", value "4G" ----

    def set(self, section: str, key: str | None, value: str) -> None:
        """key None: the section's head. Failure without a place."""
        kind, _, rest = section.partition(" ")
        if kind == "node" and rest:
            self._set_node(rest.strip(), key, value)
        elif kind == "initiator" and rest:
            self._set_initiator(rest.strip(), key, value)
        elif section == "plan":
            if key is not None:
                self._set_plan(key, value)
        elif not section:
            raise Failure("\"%s\" is in no section, as [plan] is one" % printable(key or ""))
        else:
            raise Failure("[%s] is none of [plan], [node N], [node *], [initiator IQN]" % printable(section))

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
            self.cpus = _word(value, CPUS)
        elif key in ("open", "tcp"):
            setattr(self, key, _boolean(value))
        else:
            raise Failure("[plan] has no \"%s\"" % printable(key))

    def _set_node(self, name: str, key: str | None, value: str) -> None:
        number = EACH if name == "*" else parse_number(name, 0, NODE_MOST)
        if number is None:
            raise Failure("\"%s\" is no node: that is a number, or * for each" % printable(name))
        node = self.nodes.setdefault(number, NodeSpec())
        if key in ("tmpfs", "ramdisk"):
            node.stores.append(StoreSpec(str(key), _size(value)))
        elif key == "file":
            words = value.split(None, 1)
            if len(words) < 2:
                raise Failure("a file wants its size, too: %s 100G" % printable(value))
            size = _size(words[1])
            node.stores.append(StoreSpec("file", size, _checked(words[0], names.path(words[0]))))
        elif key == "block":
            wrong = names.path(value) if value.startswith("/dev/") else "is not below /dev"
            node.stores.append(StoreSpec("block", 0, _checked(value, wrong)))
        elif key == "portal":
            at = split_portal(value)[0]
            if re.fullmatch(r"[0-9.]*|.*:.*", at):  # else it is an interface
                _checked(at, names.address(at))
            if number == EACH and value != "auto":
                raise Failure("a portal belongs into the section of its node, as [node 0]")
            node.portals.append(value)
        elif key == "policy":
            node.policy = _word(value, POLICIES)
        elif key == "write":
            node.write_back = _word(value, ("through", "back")) == "back"
        elif key in ("lun-attribute", "target-attribute"):
            attribute, number_of = _attribute(value)
            (node.lun_attributes if key == "lun-attribute" else node.target_attributes)[attribute] = number_of
        elif key is not None:
            raise Failure("[node] has no \"%s\"" % printable(key))

    def _set_initiator(self, name: str, key: str | None, value: str) -> None:
        if names.iqn(name):
            raise Failure("the initiator \"%s\" %s" % (printable(name), names.iqn(name)))
        initiator = self.initiators.setdefault(name, InitiatorSpec(name))
        if key in ("chap-user", "mutual-user"):
            setattr(initiator, key.replace("-", "_"), _checked(value, names.chap_user(value)))
        elif key in ("chap-secret", "mutual-secret"):
            wrong = None if value == GENERATE else names.path(value)
            setattr(initiator, key.replace("-", "_"), _checked(value, wrong))
        elif key is not None:
            raise Failure("[initiator] has no \"%s\"" % printable(key))


# ---- values ---------------------------------------------------------------------------


def _checked(value: str, wrong: str | None) -> str:
    if wrong:
        raise Failure("\"%s\" %s" % (printable(value), wrong))
    return value


def _word(value: str, words: tuple[str, ...]) -> str:
    return _checked(value, None if value in words else "is none of " + ", ".join(words))


def _boolean(value: str) -> bool:
    words = {"off": False, "no": False, "false": False, "0": False,
             "on": True, "yes": True, "true": True, "1": True}
    if value.lower() not in words:
        raise Failure("\"%s\" is neither yes nor no" % printable(value))
    return words[value.lower()]


def _size(value: str) -> int:
    size = parse_size(value)
    if size is None:
        raise Failure("\"%s\" is no size, as 4G is" % printable(value))
    _checked(value, "is less than 1 MiB" if size < SIZE_LEAST else None)
    return size


def _attribute(value: str) -> tuple[str, int]:
    """"NAME VALUE"."""
    name, number = [*value.split(None, 1), ""][:2]
    _checked(name, names.attribute(name))
    parsed = parse_number(number, 0, ATTRIBUTE_MOST)
    if parsed is None:
        raise Failure("the attribute %s wants a number from 0 to %d, not \"%s\"" % (
            name, ATTRIBUTE_MOST, printable(number)))
    return name, parsed


def split_portal(value: str) -> tuple[str, int]:
    """Of "192.0.2.1:3261" the address, interface or "auto", and the port, PORT unless said. An IPv6
    address with a port stands in brackets."""
    bracketed = re.fullmatch(r"\[([^]]*)\](.*)", value)
    at, rest = (bracketed.group(1), bracketed.group(2)) if bracketed else (value, "")
    if not bracketed and value.count(":") == 1:
        at, rest = value.split(":")[0], ":" + value.split(":")[1]
    if not rest:
        return at, PORT
    port = parse_number(rest[1:], 1, 65535) if rest[0] == ":" else None
    if port is None:
        raise Failure("\"%s\" is no port, from 1 to 65535" % printable(rest.lstrip(":")))
    return at, port


# ---- a file ---------------------------------------------------------------------------


def lines_of(text: str) -> Iterator[tuple[int, str, str | None, str]]:
    """Line, section, key and value of each setting; key None of a section's head. Failure without
    a place, but with the attribute line."""
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
            raise Failure("%d: %s" % (number, why)) from None


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
            raise Failure("\"%s\" has no value (for an empty one write \"\")" % printable(key))
        return key, value
    quoted = re.match(r'"((?:[^"\\]|\\["\\])*)"[ \t]*(#.*)?$', value)
    if not quoted:
        raise Failure("a value in quotes ends with a quote, and has \\\" and \\\\ for those in it")
    return key, re.sub(r"\\(.)", r"\1", quoted.group(1))


def read(spec: Spec, path: str) -> None:
    """Adds what a file says; "-" is standard input. Of what may be there once the last counts."""
    name = "standard input" if path == "-" else printable(path)
    try:
        for number, section, key, value in lines_of(read_text(path)):
            try:
                spec.set(section, key, value)
            except Failure as why:
                raise Failure("%d: %s" % (number, why)) from None
    except Failure as why:
        raise Failure(str(why) if str(why).startswith(name) else "%s:%s" % (name, why)) from None


# ---- options --------------------------------------------------------------------------


def _from_here(path: str) -> str:
    """Paths in a plan are read elsewhere."""
    return path if path.startswith("/") else os.getcwd() + "/" + path


def _option(spec: Spec, option: str, section: str, key: str | None, value: str) -> None:
    try:
        spec.set(section, key, value)
    except Failure as why:
        raise Misuse("--%s: %s" % (option, why)) from None


def add_options(spec: Spec, o: argparse.Namespace) -> None:
    """Adds what options say. Failure is the command line's."""
    if o.node is not None:
        only = parse_ids(o.node)
        if not only:
            raise Misuse("--node %s: is no list of nodes, as 0,2-3" % printable(o.node))
        spec.only = only
    for key in ("name", "domain", "iqn", "secrets", "mounts"):
        value = getattr(o, key)
        if value is not None:
            _option(spec, key, "plan", key, _from_here(value) if key in ("secrets", "mounts") else value)
    for key in ("open", "tcp"):
        if getattr(o, key):
            _option(spec, key, "plan", key, "yes")
    for key in ("tmpfs", "ramdisk"):
        for value in getattr(o, key):
            _option(spec, key, "node *", key, value)
    for value in o.file:
        path, colon, size = _from_here(value).rpartition(":")
        if not colon:
            raise Misuse("--file %s: its size is missing, as in FILE:100G" % printable(value))
        _option(spec, "file", "node *", "file", "%s %s" % (path, size))
    for value in o.block:
        _option(spec, "block", "node *", "block", value)
    for key in ("policy", "write"):
        if getattr(o, key) is not None:
            _option(spec, key, "node *", key, getattr(o, key))
    for value in o.portal:
        node, equals, at = value.partition("=")
        if not equals:
            raise Misuse("--portal %s: is no NODE=ADDRESS" % printable(value))
        _option(spec, "portal", "node " + node, "portal", at)
    for value in o.initiator:
        _option(spec, "initiator", "initiator " + value, None, "")
    for option, value, attribute in (("chap", o.chap, "chap_secret"),
                                     ("mutual-chap", o.mutual_chap, "mutual_secret")):
        if value is None:
            continue
        if not spec.initiators:
            raise Misuse("--%s is for initiators, and there are none: --initiator names one" % option)
        for initiator in spec.initiators.values():
            if getattr(initiator, attribute) is None:
                _option(spec, option, "initiator " + initiator.name, attribute.replace("_", "-"),
                        value if value == GENERATE else _from_here(value))
