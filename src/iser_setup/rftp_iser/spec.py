# SPDX-License-Identifier: Apache-2.0
"""The request for a plan: the SPEC file of rftp-iser(8), or the same settings as options."""
from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import Any

from rftp_common import (Failure, Misuse, Options, parse_ids, parse_number, parse_size, printable,
                         read_text)
from rftp_members import checked, fields, member, refuse, word
from rftp_numa.machine import NODE_MOST

from . import names, plan
from .plan import Portal, Store
from .sessions import parse_address

EACH = -1  # the section [node *]: defaults for all nodes
GENERATE = "generate"
STORES = ("tmpfs", "ramdisk", "file", "block")  # keys of a node, too
YES, NO = ("yes", "on", "true", "1"), ("no", "off", "false", "0")
SETTING = re.compile(r'([^\s=";]+)[ \t]*[ \t=][ \t]*("[^"]*"|[^\s"=].*)')  # key and value


def _secret(value: str) -> str:
    return "" if value == GENERATE else names.path(value)


def _boolean(value: str, at: str) -> bool:
    refuse(value.lower() not in YES + NO, at, "is neither yes nor no", value)
    return value.lower() in YES


def _store(kind: str, value: str, at: str) -> Store:
    """Of "SIZE", a file's "PATH SIZE", or a block device's "PATH"."""
    path, number = "", value
    if kind == "block":
        refuse(not value.startswith("/dev/"), at, "is not below /dev", value)
        return Store(kind=kind, path=checked(names.path, value, at))
    if kind == "file":
        path, number = [*value.split(None, 1), "", ""][:2]
        refuse(not number, at, "has no size behind it, as 100G", path)
        checked(names.path, path, at)
    size = parse_size(number) or 0
    refuse(size < plan.SIZE_LEAST, at, "is no size of 1 MiB or more, as 4G is", number)
    return Store(kind=kind, size=size, path=path)


def _portal(value: str, at: str) -> Portal:
    try:
        address = parse_address(value)
    except Failure as why:
        raise Failure(f"{at}: {why}, nor an interface") from None
    if re.fullmatch(r"[0-9.]*|.*:.*", address.host):  # not an interface
        checked(names.address, address.host, at)
    return Portal(address.host, address.port)


def _attribute(value: str, at: str) -> tuple[str, int]:
    name, number = [*value.split(None, 1), "", ""][:2]
    checked(plan.settings(), {name: parse_number(number, 0, plan.ATTRIBUTE_MOST)}, at)
    return name, int(number)


# ---- sections: their keys are the members with a rule or a parser ---------------------


@dataclass
class NodeSpec:
    node: int  # or EACH
    policy: str = member("", rule=word(*plan.POLICIES))  # "": not set
    write: str = member("", rule=word("through", "back"))
    portal: list[Portal] = member(list, parse=_portal)  # address: also "auto", or an interface
    lun_attribute: dict[str, int] = member(dict, parse=_attribute)
    target_attribute: dict[str, int] = member(dict, parse=_attribute)
    stores: list[Store] = field(default_factory=list)  # kind, size, path; the planner sets the rest


@dataclass
class InitiatorSpec:
    name: str
    chap_user: str = member("", rule=names.chap_user)  # "": the planner chooses
    chap_secret: str = member("", rule=_secret)  # a file, or GENERATE
    mutual_user: str = member("", rule=names.chap_user)
    mutual_secret: str = member("", rule=_secret)


@dataclass
class Spec:
    name: str = member("", rule=names.plan)
    iqn: str = member("", rule=names.iqn_prefix)
    domain: str = member("", rule=lambda _: "")
    mounts: str = member("/run/rftp-iser", rule=names.path)  # the parent of tmpfs mounts
    secrets: str = member("/etc/rftp-iser", rule=names.path)  # generated ones
    cpus: str = member("nodes", rule=word(*plan.CPUS))
    open: bool = member(False, parse=_boolean)
    tcp: bool = member(False, parse=_boolean)  # plain iSCSI suffices where there is no RDMA
    only: set[int] = field(default_factory=set)  # nodes to plan for; empty: all suitable ones
    nodes: dict[int, NodeSpec] = field(default_factory=dict)
    initiators: dict[str, InitiatorSpec] = field(default_factory=dict)

    def node(self, node: int) -> NodeSpec:
        return self.nodes.get(node, NodeSpec(node))

    def paths(self) -> list[str]:
        return [s.path for n in self.nodes.values() for s in n.stores if s.path]

    def section(self, head: str, at: str = "") -> Any:
        """The object with the keys of a section, as "node 0". at: the place, for a Failure."""
        kind, _, name = head.partition(" ")
        if head == "plan":
            return self
        if kind == "initiator" and name:
            checked(names.iqn, name, at or kind)
            return self.initiators.setdefault(name, InitiatorSpec(name))
        refuse(kind != "node" or not name, f"[{printable(head)}]",
               "is none of [plan], [node N], [node *], [initiator IQN]")
        node: Any = EACH if name == "*" else parse_number(name, 0, NODE_MOST)
        refuse(node is None, at or kind, "is no node's number, nor *", name)
        return self.nodes.setdefault(node, NodeSpec(node))


def put(section: Any, key: str, value: str, at: str = "") -> None:
    """Adds to a list or object; of other keys the last value counts. at: the place."""
    at = at or key
    if key in STORES and isinstance(section, NodeSpec):
        section.stores.append(_store(key, value, at))
        return
    known = fields(section).get(key)
    if not known:
        raise Failure(f"\"{printable(key)}\" is no key of this section")
    if key == "portal" and section.node == EACH and value != "auto":
        raise Failure("a portal belongs into the section of its node, as [node 0]")
    how, old = known.metadata, getattr(section, known.name)
    new = how["parse"](value, at) if "parse" in how else checked(how["rule"], value, at)
    if isinstance(old, list):
        old.append(new)
    elif isinstance(old, dict):
        old.update([new])
    else:
        setattr(section, known.name, new)


def add_text(spec: Spec, lines: str, name: str) -> None:
    """Adds a file's settings. Failure has FILE:LINE."""
    section = None
    for number, raw in enumerate(lines.split("\n"), 1):
        line = re.sub("(^|[ \t])#.*", "", raw).strip(" \t\r")
        setting = SETTING.fullmatch(line)
        try:
            if line.startswith("["):
                refuse(line[-1] != "]", "a section", "is a name in brackets alone, as [node 0]")
                section = spec.section(" ".join(line[1:-1].split()))
            elif setting:
                key, value = setting.groups()
                refuse(not section, f"\"{printable(key)}\"", "is in no section, as [plan] is one")
                put(section, key, re.sub('^"(.*)"$', r"\1", value))
            else:
                refuse(line, "the line", "is no KEY = VALUE (\"\" is an empty one), and no "
                       "comment, which begins with #", line)
        except Failure as why:
            raise Failure(f"{name}:{number}: {why}") from None


def read(spec: Spec, path: str) -> None:
    """As add_text; "-" is standard input."""
    add_text(spec, read_text(path), "standard input" if path == "-" else printable(path))


# ---- options --------------------------------------------------------------------------


def _add_option(spec: Spec, name: str, value: str) -> None:
    at = f"--{name}"
    if name in ("secrets", "mounts", "file") or (name.endswith("chap") and value != GENERATE):
        value = os.path.join(os.getcwd(), value)  # a plan is read elsewhere, too
    if name == "node":
        spec.only = parse_ids(value) or set()
        refuse(not spec.only, at, "is no list of nodes, as 0,2-3", value)
    elif name == "initiator":
        spec.section(f"initiator {value}", at)
    elif name in ("chap", "mutual-chap"):
        refuse(not spec.initiators, at, "needs initiators: --initiator names one")
        key = name.replace("-chap", "") + "-secret"
        for i in spec.initiators.values():
            if not getattr(i, key.replace("-", "_")):
                put(i, key, value, at)
    elif name == "portal":
        node, equals, value = value.partition("=")
        refuse(not equals, at, "is no NODE=ADDRESS", node)
        put(spec.section(f"node {node}", at), name, value, at)
    elif name in fields(Spec):
        put(spec, name, value, at)
    elif name in (*STORES, *fields(NodeSpec)):
        value = " ".join(value.rsplit(":", 1)) if name == "file" else value
        put(spec.section("node *"), name, value, at)


def add_options(spec: Spec, o: Options) -> None:
    """Adds the settings of options, --chap behind all --initiator. Misuse if one is wrong."""
    try:
        for name, given in vars(o).items():
            for value in given if isinstance(given, list) else [given]:
                if value not in (None, False):
                    _add_option(spec, name.replace("_", "-"), "yes" if value is True else value)
    except Failure as why:
        raise Misuse(str(why)) from None
