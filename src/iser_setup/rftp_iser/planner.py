# SPDX-License-Identifier: Apache-2.0
"""Makes a plan from a request, which is a SPEC file (rftp-iser(8)) or options, and from a Host: per
node a target with its back stores, portals and initiators. Also the warnings about any plan.
Changes nothing; the same input gives the same plan, serials included."""
from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from rftp_common import (DONE, Failure, Misuse, Options, at_place, file_name, format_ids,
                         format_size, output, parse_ids, parse_number, parse_size, printable,
                         read_text, say, warn, write_file)
from rftp_machine import NODE_MOST, NODE_UNKNOWN, Location
from rftp_members import checked, fields, json_of, member, refuse, word

from . import checks, converge, plan
from .host import Host, read_host, size_of
from .iscsi import parse_address
from .plan import Chap, Initiator, Plan, Portal, Store, Target

EACH = -1  # the section [node *]: defaults for all nodes
GENERATE = "generate"
STORES = ("tmpfs", "ramdisk", "file", "block")  # keys of a node, too
YES, NO = ("yes", "on", "true", "1"), ("no", "off", "false", "0")
SETTING = re.compile(r'([^\s=";]+)[ \t]*[ \t=][ \t]*("[^"]*"|[^\s"=].*)')  # key and value


def _boolean(value: str, at: str) -> bool:
    refuse(value.lower() not in YES + NO, at, "is neither yes nor no", value)
    return value.lower() in YES


def _store_of(kind: str, value: str, at: str) -> Store:
    """Of "SIZE", a file's "PATH SIZE", or a block device's "PATH"."""
    path, number = "", value
    if kind == "block":
        refuse(not value.startswith("/dev/"), at, "is not below /dev", value)
        return Store(kind=kind, path=checked(plan.path_fault, value, at))
    if kind == "file":
        path, number = [*value.split(None, 1), "", ""][:2]
        refuse(not number, at, "has no size behind it, as 100G", path)
        checked(plan.path_fault, path, at)
    size = parse_size(number) or 0
    refuse(size < plan.SIZE_LEAST, at, "is not a size of 1 MiB or more, as 4G is", number)
    return Store(kind=kind, size=size, path=path)


def _portal_of(value: str, at: str) -> Portal:
    try:
        address = parse_address(value)
    except Failure as why:
        raise Failure(f"{at}: {why}, nor an interface") from None
    if re.fullmatch(r"[0-9.]*|.*:.*", address.host):  # not an interface
        checked(plan.address_fault, address.host, at)
    return Portal(address.host, address.port)


def _attribute_of(value: str, at: str) -> tuple[str, int]:
    name, number = [*value.split(None, 1), "", ""][:2]
    checked(plan.settings(), {name: parse_number(number, 0, plan.ATTRIBUTE_MOST)}, at)
    return name, int(number)


# ---- sections: their keys are the members with a rule or a parser ---------------------


@dataclass
class NodeSpec:
    node: int  # or EACH
    policy: str = member("", rule=word(*plan.POLICIES))  # "": not set
    write: str = member("", rule=word("through", "back"))
    portal: list[Portal] = member(list, parse=_portal_of)  # address: also "auto", or an interface
    lun_attribute: dict[str, int] = member(dict, parse=_attribute_of)
    target_attribute: dict[str, int] = member(dict, parse=_attribute_of)
    stores: list[Store] = field(default_factory=list)  # kind, size, path; the planner sets the rest


@dataclass
class InitiatorSpec:
    name: str
    chap_user: str = member("", rule=plan.user_fault)  # "": the planner chooses
    chap_secret: str = member("", rule=lambda v: "" if v == GENERATE else plan.path_fault(v))
    mutual_user: str = member("", rule=plan.user_fault)
    mutual_secret: str = member("", rule=lambda v: "" if v == GENERATE else plan.path_fault(v))


@dataclass
class Spec:
    name: str = member("", rule=plan.plan_fault)
    iqn: str = member("", rule=plan.prefix_fault)
    domain: str = member("", rule=lambda _: "")
    mounts: str = member(plan.MOUNTS, rule=plan.path_fault)  # the parent of tmpfs mounts
    secrets: str = member(plan.SECRETS, rule=plan.path_fault)  # generated ones
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
            checked(plan.iqn_fault, name, at or kind)
            return self.initiators.setdefault(name, InitiatorSpec(name))
        refuse(kind != "node" or not name, f"[{printable(head)}]",
               "must be [plan], [node N], [node *] or [initiator IQN]")
        node: Any = EACH if name == "*" else parse_number(name, 0, NODE_MOST)
        refuse(node is None, at or kind, "is not a node's number, nor *", name)
        return self.nodes.setdefault(node, NodeSpec(node))


def put(section: Any, key: str, value: str, at: str = "") -> None:
    """Adds to a list or object; of other keys the last value counts. at: the place."""
    at = at or key
    if key in STORES and isinstance(section, NodeSpec):
        section.stores.append(_store_of(key, value, at))
        return
    known = fields(section).get(key)
    if not known:
        raise Failure(f"\"{printable(key)}\" is not a key of this section")
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
        with at_place(f"{name}:{number}"):
            if line.startswith("["):
                refuse(line[-1] != "]", "a section", "is a name in brackets alone, as [node 0]")
                section = spec.section(" ".join(line[1:-1].split()))
            elif setting:
                key, value = setting.groups()
                refuse(not section, f"\"{printable(key)}\"", "is in no section, as [plan] is one")
                put(section, key, re.sub('^"(.*)"$', r"\1", value))
            else:
                refuse(line, "the line", "is not a KEY = VALUE (\"\" is an empty one), and no "
                       "comment, which begins with #", line)


# ---- options --------------------------------------------------------------------------


def _add_option(spec: Spec, name: str, value: str) -> None:
    at = f"--{name}"
    if name in ("secrets", "mounts", "file") or (name.endswith("chap") and value != GENERATE):
        value = os.path.join(os.getcwd(), value)  # a plan is read elsewhere, too
    if name == "node":
        spec.only = parse_ids(value) or set()
        refuse(not spec.only, at, "is not a list of nodes, as 0,2-3", value)
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
        refuse(not equals, at, "is not a NODE=ADDRESS", node)
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


# ---- warnings about a request, and the parts of a plan -------------------------------

WITHOUT_RDMA = "rdma link add makes a soft one, --tcp takes plain iSCSI"
NO_RDMA = f"no network interface that has an address has an RDMA device: {WITHOUT_RDMA}"
# The kernel assigns these names in the order in which it finds devices.
UNSTABLE = ("/dev/sd", "/dev/nvme", "/dev/vd", "/dev/xvd", "/dev/mmcblk", "/dev/dm-", "/dev/loop")


def secret_file(spec: Spec, name: str, initiator: str, mutual: bool) -> str:
    """Of a generated secret. It has the plan's name because a front end keeps secrets of several
    storage hosts in one directory."""
    return f"{spec.secrets}/{name}.{initiator}.{'mutual' if mutual else 'chap'}"


def _digest(text: str, seed: int) -> int:
    """64 bits: splitmix64 of each byte. Changing it would change the serials of disks in use."""
    mask = (1 << 64) - 1
    h = seed
    for byte in text.encode("utf-8", "surrogateescape"):
        z = ((h ^ byte) + 0x9e3779b97f4a7c15) & mask
        z = ((z ^ z >> 30) * 0xbf58476d1ce4e5b9) & mask
        z = ((z ^ z >> 27) * 0x94d049bb133111eb) & mask
        h = z ^ z >> 31
    return h


def serial(iqn: str, store: str) -> str:
    """A UUID of version 8 (RFC 9562), always the same for the same names."""
    high, low = _digest(f"{iqn} {store}", 1), _digest(f"{iqn} {store}", 2)
    return (f"{high >> 32:08x}-{high >> 16 & 0xffff:04x}-{high & 0x0fff | 0x8000:04x}-"
            f"{low >> 48 & 0x3fff | 0x8000:04x}-{low & (1 << 48) - 1:012x}")


# ---- the plan -------------------------------------------------------------------------


def _portal(spec: Spec, host: Host, node: int, asked: Portal) -> Portal:
    """At the address asked for; or at that of the interface of this name; or for "auto" at that of
    the nearest card with RDMA, and of several the fastest."""
    at, cards, distances = asked.address, host.cards(), host.nodes[node].distances
    card = next((c for c in cards if c.name == at), None)
    if at == "auto":
        refuse(not cards, "no network interface has an address;",
               f"--portal {node}=ADDRESS sets one")
        card = min(cards, key=lambda c: (not c.rdma, distances.get(c.node, 1 << 32), -c.mbps))
    elif not card:
        fault = plan.address_fault(at)
        refuse(fault, f"the portal of node {node}:", f"{fault}, and no interface that is up and "
               "has an address is called so", at)
        card = host.card_of(at)
    if not card:
        return Portal(at, asked.port)
    if not card.rdma and not spec.tcp:
        raise Failure(NO_RDMA if at == "auto" else f"{card.name} ({card.address}), for node "
                      f"{node}, has no RDMA device: {WITHOUT_RDMA}")
    return Portal(card.address, asked.port, card.name, bool(card.rdma))


def _target(spec: Spec, host: Host, node: int) -> Target:
    own, each, name = spec.node(node), spec.node(EACH), f"{spec.name}-node{node}"
    t = Target(node, f"{spec.iqn}:{name}".lower().replace("_", "-"), spec.open)
    for asked in [*(s for s in each.stores if s.forgets or s.node == node), *own.stores]:
        disk = f"{name}-disk{len(t.stores)}"
        # LIO reports files and RAM as rotating; an initiator would sort its requests then.
        attributes = {"is_nonrot": 1} if asked.forgets else {}
        t.stores.append(replace(
            asked, lun=len(t.stores), name=disk, serial=serial(t.iqn, disk),
            node=node if asked.forgets or asked.node == NODE_UNKNOWN else asked.node,
            policy=own.policy or each.policy or "bind",
            path=f"{spec.mounts}/{disk}" if asked.kind == "tmpfs" else asked.path,
            write_back=asked.plugin == "fileio" and (own.write or each.write) == "back",
            attributes={**attributes, **each.lun_attribute, **own.lun_attribute}))
    refuse(not t.stores, f"node {node}", "has no storage: give it some, as a tmpfs")
    t.portals = [_portal(spec, host, node, asked) for asked in own.portal or [Portal("auto")]]
    for i in spec.initiators.values():
        ways = []
        for way, user, secret, usual in (("chap", i.chap_user, i.chap_secret, i.name),
                                         ("mutual", i.mutual_user, i.mutual_secret, spec.name)):
            refuse(user and not secret, i.name, f"has a {way}-user without a {way}-secret")
            if secret == GENERATE:
                secret = secret_file(spec, spec.name, i.name, way == "mutual")
            ways.append(Chap(user or usual, secret) if secret else None)
        t.initiators.append(Initiator(i.name, *ways))
    t.attributes = {**each.target_attribute, **own.target_attribute}
    return t


def _check(spec: Spec, host: Host) -> Iterator[str]:
    """Failure if there can be no plan; yields warnings."""
    refuse(spec.open and spec.initiators, "--open",
           "lets in all hosts, --initiator only some: leave out one of them")
    refuse(not spec.open and not spec.initiators, "no initiator", "is named: --initiator IQN names "
           "one (its /etc/iscsi/initiatorname.iscsi has it), --open lets in all hosts")
    refuse(not spec.nodes, "no storage", "is named: --tmpfs, --file, --block or --ramdisk do so")
    for node in [*sorted(spec.only), *(n for n in spec.nodes if n != EACH)]:
        refuse(node not in host.nodes, f"there is no node {node}, but", format_ids(host.nodes))
    for s in (s for s in spec.node(EACH).stores if not s.forgets):
        path, absent = printable(s.path), host.locations[s.path].absent
        refuse(absent and s.kind == "block", f"{path}:", absent)
        refuse(s.node not in host.nodes, f"{path}:", "its node is not known, or it has several; "
               f"name it for one node: [node 0], {s.kind} = {path}")
        if spec.only and s.node not in spec.only:
            yield f"{path} is on node {s.node}, which is not planned for"


def make(asked: Spec, host: Host) -> tuple[Plan, list[str]]:
    """The plan and its warnings. host has located asked.paths()."""
    name, domain = asked.name or host.name.partition(".")[0], asked.domain or host.name
    checked(plan.plan_fault, name, "--name sets another plan's name than this host's:")
    backwards = ".".join(reversed(domain.lower().replace("_", "-").split(".")))
    iqn = asked.iqn or f"iqn.{host.month}.{backwards}"
    checked(plan.iqn_fault, iqn, "--domain sets the domain in the targets' names:")
    spec, each = replace(asked, name=name, iqn=iqn), asked.node(EACH)
    for s in (s for section in spec.nodes.values() for s in section.stores if s.path):
        s.node = host.locations[s.path].node
    notes = list(_check(spec, host))
    # [node *] is for the nodes of --node; by default for all with an RDMA card or, if the host has
    # none, with any card. Its files and devices stay on their own nodes.
    rdma = any(c.rdma for c in host.cards())
    usual = spec.only or {c.node for c in host.cards() if c.rdma or not rdma}
    nodes = [n for n in host.nodes if (n in spec.only or not spec.only) and (
        n in spec.nodes or any(n in usual if s.forgets else n == s.node for s in each.stores))]
    targets = [_target(spec, host, node) for node in nodes]
    made = Plan(name=spec.name, cpus=spec.cpus, targets=targets)
    if not nodes and not rdma and not spec.tcp:
        raise Failure(NO_RDMA)
    refuse(not nodes, "no node", "has storage, or a network card that is known to be on it; --node "
           "names nodes to plan for")
    left_out = format_ids(set(host.nodes) - set(nodes))
    # A link may only be down.
    if left_out and not spec.only and any(s.forgets for s in each.stores):
        notes.append(f"left out: node {left_out}, where no {'RDMA ' if rdma else ''}card has an "
                     "address; --node plans for it all the same")
    return made, notes + doubts(made, host)


# ---- warnings -------------------------------------------------------------------------


def _doubts(host: Host, t: Target) -> Iterator[str]:
    if t.node not in (NODE_UNKNOWN, *host.nodes):
        yield f"{t.iqn} is for node {t.node}, which is missing"
    if t.open:
        yield f"{t.iqn} is open: any host may log in, read and write; --initiator limits that"
    if len(t.initiators) > 1:
        yield (f"{t.iqn} lets in {len(t.initiators)} initiators, each to all of its LUNs: a "
               "filesystem that two hosts mount is destroyed, unless it is made for that")
    for i in (i for i in t.initiators if not i.chap):
        yield f"{t.iqn} lets in any host that calls itself {i.name}: use --chap generate"
    for s in t.stores:
        if s.write_back and s.forgets:
            yield f"{s.name} is written back into memory: flushed data, too, end with the host"
        if s.kind == "block" and s.path.startswith(UNSTABLE):
            yield f"{s.path} may be another device after a restart: use its link in /dev/disk/by-id"
        location = Location() if s.forgets else host.locations[s.path]
        found = s.node if location.node == NODE_UNKNOWN else location.node
        if s.kind == "block" and location.absent:
            yield f"{s.path}: {location.absent}"
        if NODE_UNKNOWN not in (found, s.node) and found != s.node:
            yield f"{s.path} is on node {found}, and not on node {s.node} as planned"
        if NODE_UNKNOWN not in (found, t.node) and found != t.node:
            yield (f"{s.name} is on node {found}, but is served by node {t.node}: all of its data "
                   "goes from node to node")
    for p in t.portals:
        for finding in checks.portal(t, p, host):
            if not finding.right:
                yield f"portal {p.address} of {t.iqn}: {finding.text}"


def doubts(p: Plan, host: Host) -> list[str]:
    """Warnings about a plan, also an edited one, on a host that has located the plan's paths: data
    that crosses nodes, missing memory or devices, open access. The host's name is not used."""
    notes = [note for t in p.targets for note in _doubts(host, t)]
    wants = converge.items_of(p.targets)
    # The tmpfs of an applied plan have their memory already.
    has = {key: size_of(key[1]) if key[0] == "file" else value for key, value in wants.items()
           if key[0] == "mount" or key[0] == "file" and host.own and size_of(key[1]) >= 0}
    diffs = converge.differences(has, wants, converge.Ask(p).stores)
    return notes + [f.text for f in checks.memory(diffs, host)]


def describe(s: Store) -> str:
    """A line: the back store's kind and place, and when written data are safe."""
    kept = "write-back: flushed data are safe" if s.write_back else "write-through"
    if s.kind == "block":
        kept = "its own cache decides when written data are safe"
    elif s.forgets:
        kept = f"{kept.partition(':')[0]}, and forgotten with the host"
    size = f"of {format_size(s.size)}" if s.size else ""
    node = "" if s.node == NODE_UNKNOWN else f"on node {s.node}"
    return f"{s.name}: {' '.join(filter(None, (s.kind, s.path, size, node)))}; {kept}"


# ---- the command ----------------------------------------------------------------------


def _made(o: Options) -> tuple[plan.Plan, list[str]]:
    """The plan that is asked for, and its warnings. Writes it and its secrets, or nothing."""
    asked = Spec()
    if o.words:
        add_text(asked, read_text(o.words[0]), file_name(o.words[0]))
    add_options(asked, o)
    p, notes = make(asked, read_host(asked.paths(), o.sysfs, o.addresses))
    # Renaming a file into place would remove a link or a device.
    if o.out is not None and os.path.lexists(o.out) and not (
            o.force and os.path.isfile(o.out) and not os.path.islink(o.out)):
        raise Failure(f"{printable(o.out)} exists; --force writes over it, if it is a "
                      "file and no link")
    secrets = [secret_file(asked, p.name, i.name, mutual) for i in asked.initiators.values()
               for secret, mutual in ((i.chap_secret, False), (i.mutual_secret, True))
               if secret == GENERATE]
    text = json.dumps(json_of(p), indent=2) + "\n"
    plan.parse(text, "the plan")  # checks it
    with ExitStack() as undo:
        made = []
        for file in secrets:
            if plan.make_secret(file):
                undo.callback(os.unlink, file)
                made.append(file)
        if o.out is None:
            output(text)
        else:
            write_file(o.out, text, 0o644)
        undo.pop_all()
    for file in made:
        say(f"a new secret is in {printable(file)}")
    return p, notes


def run(o: Options) -> int:
    """rftp-iser plan."""
    if o.check is None:
        (p, notes), own = _made(o), True
    else:
        allowed = ("check", "sysfs", "addresses")
        if any(value for key, value in vars(o).items() if key not in allowed):
            raise Misuse("--check takes no other option than --sysfs and --addresses, and no word")
        p = plan.read(o.check)
        machine = read_host([s.path for s in p.stores() if s.path and not s.forgets],
                                 o.sysfs, o.addresses)
        notes, own = doubts(p, machine), machine.own
    if own:
        checks.secrets(p, notes)
    for s in p.stores():
        say(describe(s))
    for note in dict.fromkeys(notes):
        warn(note)
    return DONE
