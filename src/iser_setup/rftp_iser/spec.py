# SPDX-License-Identifier: Apache-2.0
"""The request for a plan: the SPEC file of rftp-iser(8), or the same settings as options."""
from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rftp_common import (Failure, Misuse, Options, parse_ids, parse_number, parse_size, printable,
                         read_text)

from . import names, plan
from .plan import Portal, Store, checked, member, refuse, word
from .sessions import parse_address

EACH = -1  # the section [node *]: defaults for all nodes
GENERATE = "generate"

def _prefix(value: str) -> str:
    whole = value.startswith("iqn.") and ":" not in value
    return names.iqn(value) or ("" if whole else "is more than the beginning of names, as "
                                "iqn.2026-01.org.example is")


def _secret(value: str) -> str:
    return "" if value == GENERATE else names.path(value)


def _boolean(value: str, at: str) -> bool:
    yes = value.lower() in ("on", "yes", "true", "1")
    no = value.lower() in ("off", "no", "false", "0")
    refuse(not yes and not no, at, "is neither yes nor no", value)
    return yes


def _size(value: str, at: str) -> int:
    size = parse_size(value) or 0
    refuse(parse_size(value) is None, at, "is no size, as 4G is", value)
    refuse(size < plan.SIZE_LEAST, at, "is less than 1 MiB", value)
    return size


def _file(value: str, at: str) -> Store:
    path, size = [*value.split(None, 1), "", ""][:2]
    refuse(not size, at, "has no size behind it, as 100G", path)
    return Store(kind="file", size=_size(size, at), path=checked(names.path, path, at))


def _block(value: str, at: str) -> Store:
    refuse(not value.startswith("/dev/"), at, "is not below /dev", value)
    return Store(kind="block", path=checked(names.path, value, at))


def _portal(value: str, at: str) -> Portal:
    try:
        address = parse_address(value)
    except Failure:
        raise Failure(f"{at} \"{printable(value)}\" is no address or interface, with or without a "
                      "port from 1 to 65535; an IPv6 address with a port stands in []") from None
    if re.fullmatch(r"[0-9.]*|.*:.*", address.host):  # not an interface
        checked(names.address, address.host, at)
    return Portal(address.host, address.port)


def _attribute(value: str, at: str) -> tuple[str, int]:
    """Of "NAME NUMBER"."""
    name, number = [*value.split(None, 1), "", ""][:2]
    checked(plan.settings({}), {name: parse_number(number, 0, plan.ATTRIBUTE_MOST)}, at)
    return name, int(number)


_STORES: dict[str, Callable[[str, str], Store]] = {
    "tmpfs": lambda value, at: Store(kind="tmpfs", size=_size(value, at)),
    "ramdisk": lambda value, at: Store(kind="ramdisk", size=_size(value, at)),
    "file": _file,
    "block": _block}

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
    iqn: str = member("", rule=_prefix)
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
        node = EACH if name == "*" else parse_number(name, 0, plan.NODE_MOST)
        if node is None:
            raise Failure(f"{at or kind} \"{printable(name)}\" is no node's number, nor *")
        return self.nodes.setdefault(node, NodeSpec(node))


def put(section: Any, key: str, value: str, at: str = "") -> None:
    """Adds to a list or object; of other keys the last value counts. at: the place."""
    at = at or key
    if key in _STORES and isinstance(section, NodeSpec):
        section.stores.append(_STORES[key](value, at))
        return
    known = plan.fields(section).get(key)
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


def _setting(line: str) -> tuple[str, str]:
    """KEY VALUE or KEY = VALUE; the value may stand in quotes."""
    key, _, value = re.sub(r"[ \t]*[ \t=][ \t]*", "\n", line, count=1).partition("\n")
    refuse(line[0] == ";", "a comment", "begins with \"#\", not with \";\"")
    quoted = re.fullmatch(r'"((?:[^"\\]|\\["\\])*)"[ \t]*(#.*)?', value)
    if quoted and key:
        return key, re.sub(r"\\(.)", r"\1", quoted[1])
    value = re.sub(r"(^|[ \t])#.*", "", value).rstrip(" \t")
    refuse(not key or not value, "the line", "is no KEY = VALUE (\"\" is an empty one)", line)
    refuse(value[0] == "\"", "a value in quotes",
           "ends with a quote, and has \\\" and \\\\ for those in it")
    return key, value


def add_text(spec: Spec, lines: str, name: str) -> None:
    """Adds a file's settings. Failure has FILE:LINE."""
    section = None
    for number, raw in enumerate(lines.split("\n"), 1):
        line = raw.strip(" \t\r")
        try:
            if line.startswith("["):
                head, bracket, rest = line[1:].partition("]")
                alone = bracket and head.split() and (rest.strip() + "#")[0] == "#"
                refuse(not alone, "a section", "is a name in brackets alone, as [node 0]")
                section = spec.section(" ".join(head.split()))
            elif line and line[0] != "#":
                key, value = _setting(line)
                refuse(not section, f"\"{printable(key)}\"", "is in no section, as [plan] is one")
                put(section, key, value)
        except Failure as why:
            raise Failure(f"{name}:{number}: {why}") from None


def read(spec: Spec, path: str) -> None:
    """As add_text; "-" is standard input."""
    add_text(spec, read_text(path), "standard input" if path == "-" else printable(path))


def _add_options(spec: Spec, o: Options) -> None:
    if o.node is not None:
        spec.only = parse_ids(o.node) or set()
        refuse(not spec.only, "--node", "is no list of nodes, as 0,2-3", o.node)
    for head, keys in (("plan", plan.fields(Spec)), ("node *", [*_STORES, *plan.fields(NodeSpec)])):
        for key in keys:
            given, at, section = getattr(o, key, None), f"--{key}", head
            for value in given if isinstance(given, list) else [given]:
                if value in (None, False):
                    continue
                if key in ("secrets", "mounts", "file"):
                    value = os.path.join(os.getcwd(), value)  # a plan is read elsewhere, too
                if key == "file":
                    value = " ".join(value.rsplit(":", 1))
                if key == "portal":
                    node, equals, value = value.partition("=")
                    refuse(not equals, at, "is no NODE=ADDRESS", node)
                    section = f"node {node}"
                put(spec.section(section, at), key, "yes" if value is True else value, at)
    for name in o.initiator:
        spec.section(f"initiator {name}", "--initiator")
    for option, value, key in (("--chap", o.chap, "chap-secret"),
                               ("--mutual-chap", o.mutual_chap, "mutual-secret")):
        if value is None:
            continue
        refuse(not spec.initiators, option, "needs initiators: --initiator names one")
        if value != GENERATE:
            value = os.path.join(os.getcwd(), value)
        for initiator in spec.initiators.values():
            if not getattr(initiator, key.replace("-", "_")):
                put(initiator, key, value, option)


def add_options(spec: Spec, o: Options) -> None:
    """Adds the settings of options. Misuse if one is wrong."""
    try:
        _add_options(spec, o)
    except Failure as why:
        raise Misuse(str(why)) from None
