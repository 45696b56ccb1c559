# SPDX-License-Identifier: Apache-2.0
"""Makes a plan from a Spec and a Host: per node a target with its back stores, portals and
initiators. Also the warnings about any plan. Changes nothing; the same input gives the same plan,
serials included."""
from __future__ import annotations

import os
from dataclasses import dataclass, field

from . import names
from .common import Failure, format_ids, format_size, printable
from .plan import (
    NODE_UNKNOWN,
    PORT,
    Chap,
    Initiator,
    Plan,
    Portal,
    Store,
    Target,
    check,
)
from .spec import EACH, GENERATE, InitiatorSpec, NodeSpec, Spec, StoreSpec, split_portal
from .topology import Card, Host, Location

RESERVE = 10  # a plan leaves one part in so many of a node's memory to the kernel and programs

# ---- default names --------------------------------------------------------------------


def plan_name(spec: Spec, host: Host) -> str:
    name = spec.name or host.name.partition(".")[0]
    if names.plan(name):
        raise Failure(f"this host's name as the plan's, \"{printable(name)}\", "
                      f"{names.plan(name)}; --name says another")
    return name


def secret_file(spec: Spec, plan: str, initiator: str, mutual: bool) -> str:
    """Of a generated secret. It has the plan's name because a front end keeps secrets of several
    storage hosts in one directory."""
    return f"{spec.secrets}/{plan}.{initiator}.{'mutual' if mutual else 'chap'}"


def _iqn_prefix(spec: Spec, host: Host) -> str:
    if spec.iqn:
        return spec.iqn
    domain = spec.domain or host.name
    if "." not in domain and not spec.domain:
        raise Failure(f"what are the targets to be called? This host, {printable(host.name)}, has "
                      "no domain: say one with --domain example.org")
    iqn = _as_iqn(f"iqn.{host.month}.{'.'.join(reversed(domain.split('.')))}")
    if names.iqn(iqn):
        whose = "the domain" if spec.domain else "this host's name"
        raise Failure(f"{whose} {printable(domain)} makes the name {printable(iqn)}, which "
                      f"{names.iqn(iqn)}")
    return iqn


def _as_iqn(text: str) -> str:
    return text.replace("_", "-").lower()


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


@dataclass
class _Work:
    spec: Spec
    host: Host
    cards: list[Card]
    prefix: str
    plan: Plan
    notes: list[str] = field(default_factory=list)

    @property
    def each(self) -> NodeSpec:
        return self.spec.node(EACH)

    @property
    def any_rdma(self) -> bool:
        return any(c.rdma for c in self.cards)

    def left_out(self, node: int) -> bool:
        return bool(self.spec.only) and node not in self.spec.only

    def has_target(self, node: int) -> bool:
        """[node *] is for the nodes of --node; by default for all with an RDMA card or, if the host
        has none, with any card. Its files and devices stay on their own nodes."""
        if self.left_out(node):
            return False
        wanted = bool(self.spec.only) or any(
            c.node == node and (c.rdma or not self.any_rdma) for c in self.cards)
        return node in self.spec.nodes or any(
            wanted if s.movable else s.found == node for s in self.each.stores)


def _check_nodes(w: _Work) -> None:
    for node in [*sorted(w.spec.only), *(n for n in w.spec.nodes if n != EACH)]:
        if node not in w.host.nodes:
            raise Failure(f"there is no node {node} here, but {format_ids(w.host.nodes)}")
    for s in w.each.stores:
        if s.movable:
            continue
        path = printable(s.path or "")
        absent = w.host.locations[s.path or ""].absent if s.kind == "block" else ""
        if absent:
            raise Failure(f"{path}: {absent}")
        if s.found not in w.host.nodes:
            raise Failure(f"{path}: its node is not known, or it has several; put it under the one "
                          f"it is to be served by: [node 0], {s.kind} = {path}")
        if w.left_out(s.found):
            w.notes.append(f"{path} is on node {s.found}, which is not planned for")


def _add_store(w: _Work, target: Target, own: NodeSpec, asked: StoreSpec) -> None:
    node = target.node if asked.movable or asked.found == NODE_UNKNOWN else asked.found
    name = f"{w.plan.name}-node{target.node}-disk{len(target.stores)}"
    s = Store(len(target.stores), name, asked.kind, node, asked.size,
              own.policy or w.each.policy or "bind", asked.path,
              serial=serial(target.iqn or "", name))
    if s.kind == "tmpfs":
        s.path = f"{w.spec.mounts}/{name}"
    if s.plugin == "fileio":
        s.write_back = bool(w.each.write_back if own.write_back is None else own.write_back)
    # LIO reports files and RAM as rotating; an initiator would sort its requests for such a disk.
    if s.forgets:
        s.attributes["is_nonrot"] = 1
    s.attributes.update(w.each.lun_attributes)
    s.attributes.update(own.lun_attributes)
    target.stores.append(s)


def _portal(w: _Work, node: int, address: str, port: int, card: Card | None) -> Portal:
    """card: the one with the address; None: unknown."""
    if card and not card.rdma and not w.spec.tcp:
        raise Failure(f"{card.netdev} ({address}), for node {node}, has no RDMA device: rdma link "
                      "add makes a soft one, --tcp takes plain iSCSI for it")
    return Portal(address, port, card.netdev if card else None, not card or bool(card.rdma))


def _best_portal(w: _Work, node: int, port: int) -> Portal:
    """On the nearest card with RDMA, and of several the fastest."""
    if not w.cards:
        raise Failure("there is no network interface with an address, by which node "
                      f"{node} could be served; --portal {node}=ADDRESS says one")
    best = min(w.cards, key=lambda c: (not c.rdma, w.host.distance(node, c.node), -c.mbps))
    if not best.rdma and not w.spec.tcp:
        raise Failure("no network interface that has an address has an RDMA device, for node "
                      f"{node}; rdma link add makes a soft one, --tcp plans plain iSCSI")
    return _portal(w, node, best.address, port, best)


def _asked_portal(w: _Work, node: int, asked: str) -> Portal:
    at, port = split_portal(asked)
    if at == "auto":
        return _best_portal(w, node, port)
    named = next((c for c in w.cards if c.netdev == at), None)
    if named:
        return _portal(w, node, named.address, port, named)
    if names.address(at):
        raise Failure(f"the portal {printable(asked)} of node {node}: \"{printable(at)}\" "
                      f"{names.address(at)}, and no interface that is up and has an address is "
                      "called so")
    return _portal(w, node, at, port, w.host.card_of(at))


def _initiator(w: _Work, asked: InitiatorSpec) -> Initiator:
    for way, user, secret in (("chap", asked.chap_user, asked.chap_secret),
                              ("mutual", asked.mutual_user, asked.mutual_secret)):
        if user and not secret:
            raise Failure(f"{asked.name} has a {way}-user without a {way}-secret")

    def chap(secret: str | None, user: str, mutual: bool) -> Chap | None:
        if secret == GENERATE:
            secret = secret_file(w.spec, str(w.plan.name), asked.name, mutual)
        return Chap(user, secret) if secret else None

    return Initiator(asked.name, chap(asked.chap_secret, asked.chap_user or asked.name, False),
                     chap(asked.mutual_secret, asked.mutual_user or str(w.plan.name), True))


def _add_target(w: _Work, node: int) -> None:
    own = w.spec.node(node)
    target = Target(node, _as_iqn(f"{w.prefix}:{w.plan.name}-node{node}"), w.spec.open)
    for s in w.each.stores:
        if s.movable or s.found == node:
            _add_store(w, target, own, s)
    for s in own.stores:
        _add_store(w, target, own, s)
    if not target.stores:
        raise Failure(f"node {node} is to be a target, but has no storage: give it a tmpfs, a "
                      "file, a block device or a ramdisk")
    target.portals = [_asked_portal(w, node, asked) for asked in own.portals] or [
        _best_portal(w, node, PORT)]
    target.initiators = [_initiator(w, asked) for asked in w.spec.initiators.values()]
    target.attributes.update(w.each.target_attributes)
    target.attributes.update(own.target_attributes)
    w.plan.targets.append(target)


def _no_target(w: _Work) -> Failure:
    if not w.spec.nodes:
        return Failure("what is to be served? Say --tmpfs, --file, --block or --ramdisk, or name a "
                       "file that does")
    if not w.any_rdma and not w.spec.tcp:
        return Failure("no network interface that has an address has an RDMA device; rdma link add "
                       "makes a soft one, --tcp plans plain iSCSI")
    return Failure("no node has what is asked for: a network card that is known to be on it, or "
                   "storage; --node says which to plan for")


def make(spec: Spec, host: Host) -> tuple[Plan, list[str]]:
    """The plan and its warnings. host has located spec.paths()."""
    for asked in spec.nodes.values():
        for s in asked.stores:
            s.found = host.locations[s.path].node if s.path else NODE_UNKNOWN
    name = plan_name(spec, host)
    w = _Work(spec, host, host.cards(), _iqn_prefix(spec, host), Plan(name, spec.cpus))
    if spec.open and spec.initiators:
        raise Failure("the targets are to be open to anyone, and there are initiators: which is "
                      "it?")
    if not spec.open and not spec.initiators:
        raise Failure("who may log in? Say --initiator with an IQN "
                      "(/etc/iscsi/initiatorname.iscsi has a host's), or --open for anyone")
    _check_nodes(w)
    for node in host.nodes:
        if w.has_target(node):
            _add_target(w, node)
    if not w.plan.targets:
        raise _no_target(w)
    left_out = format_ids(n for n in host.nodes if not w.has_target(n))
    # A link may only be down.
    if left_out and not spec.only and any(s.movable for s in w.each.stores):
        card = "RDMA card" if w.any_rdma else "card"
        w.notes.append(f"left out: node {left_out}, where no {card} has an address; --node names "
                       "those that are to be served all the same")
    check(w.plan)
    return w.plan, w.notes + doubts(w.plan, host)


# ---- warnings -------------------------------------------------------------------------


def _card_of(host: Host, p: Portal) -> Card | None:
    """The card with the portal's address; of several the plan's. If no address of the host is
    known, the plan's."""
    address = p.address or ""
    if p.netdev and (not host.addresses or (p.netdev, address) in host.addresses):
        return host.card(p.netdev, address)
    return host.card_of(address)


def _warn_portal(host: Host, t: Target, p: Portal, notes: list[str]) -> None:
    served = str(t.iqn) if t.node == NODE_UNKNOWN else f"node {t.node}"
    card = _card_of(host, p)
    if not card:
        notes.append(f"no interface that is up has {p.address}, on which {served} is to be served")
        return
    if p.netdev and p.netdev != card.netdev:
        notes.append(f"{p.address}, by which {served} is to be served, is on {card.netdev}, and "
                     f"not on {printable(p.netdev)} as the plan has it")
    if not card.rdma:
        notes.append(f"{served} is to be served by iSER, but {card.netdev} has no RDMA device"
                     if p.iser else f"{served} is served by plain iSCSI over TCP: {card.netdev} "
                     "has no RDMA device")
    if card.node != t.node and t.node in host.nodes:
        where = "no node that is known" if card.node == NODE_UNKNOWN else f"node {card.node}"
        notes.append(f"{served} is served by {card.netdev}, which is on {where}: all of its data "
                     "goes from node to node")


def _differ(one: int, other: int) -> bool:
    return NODE_UNKNOWN not in (one, other) and one != other


def _warn_store(host: Host, t: Target, s: Store, notes: list[str]) -> None:
    if s.forgets:
        if _differ(s.node, t.node) and s.node in host.nodes:
            notes.append(f"{s.name} has memory of node {s.node}, but is served by node {t.node}: "
                         "all of its data goes from node to node")
        return
    location = host.locations.get(s.path or "", Location())
    if s.kind == "block" and location.absent:
        notes.append(f"{s.path}: {location.absent}")
        return
    if _differ(location.node, s.node):
        notes.append(f"{s.path} is on node {location.node}, and not on node {s.node} as the plan "
                     "has it")
    found = s.node if location.node == NODE_UNKNOWN else location.node
    if _differ(found, t.node):
        notes.append(f"{s.path} is on node {found}, but is served by node {t.node}, as was asked "
                     "for")


def _allocated(path: str) -> int:
    """Bytes that a file has on its filesystem; 0: missing, or unreadable."""
    try:
        return os.stat(path).st_blocks * 512
    except OSError:
        return 0


def _warn_memory(host: Host, plan: Plan, node: int, notes: list[str]) -> None:
    # The tmpfs of an applied plan have their memory already.
    wanted = sum(max(0, s.size - (_allocated(s.file) if host.own and s.file else 0))
                 for s in plan.stores() if s.forgets and s.node == node)
    memory, room = host.nodes[node].memory, host.nodes[node].room
    if not wanted:
        return
    planned, has = format_size(wanted), format_size(room)
    if memory is None:
        notes.append(f"how much memory node {node} has is not known; {planned} of it are planned "
                     "for")
    elif wanted > room:
        notes.append(f"memory does not suffice: node {node} has {has} to give, and {planned} are "
                     "planned for")
    elif room - wanted < memory // RESERVE:
        notes.append(f"memory is tight: of {has} that node {node} has to give, {planned} are "
                     "planned for, which leaves less than a tenth of the node's")


# The kernel assigns these names in the order in which it finds devices.
_UNSTABLE = ("/dev/sd", "/dev/nvme", "/dev/vd", "/dev/xvd", "/dev/mmcblk", "/dev/dm-", "/dev/loop")


def _warn_access(t: Target, notes: list[str]) -> None:
    if t.open:
        notes.append(f"{t.iqn} is open: whoever reaches its port may log in, read and write; "
                     "--initiator names those who may")
    if len(t.initiators) > 1:
        notes.append(f"{t.iqn} lets in {len(t.initiators)} initiators, each to all of its LUNs: a "
                     "filesystem that two hosts mount is destroyed, unless it is made for that")
    for i in t.initiators:
        if not i.chap:
            notes.append(f"{t.iqn} lets in whoever says to be {i.name}, without CHAP; --chap "
                         "generate makes secrets")
    for s in t.stores:
        if s.write_back and s.forgets:
            notes.append(f"{s.name} is written back into memory: nothing of it outlasts the host, "
                         "flushed or not")
        if s.kind == "block" and (s.path or "").startswith(_UNSTABLE):
            notes.append(f"{s.path} may be another device after the next start: name it by its "
                         "link in /dev/disk/by-id")


def doubts(plan: Plan, host: Host) -> list[str]:
    """Warnings about a plan, also an edited one, on a host that has located the plan's paths: data
    that crosses nodes, missing memory or devices, open access. The host's name is not used."""
    notes: list[str] = []
    for t in plan.targets:
        asked = {t.node: t.iqn, **{s.node: s.name for s in t.stores if s.node != t.node}}
        for node, what in asked.items():
            if node != NODE_UNKNOWN and node not in host.nodes:
                notes.append(f"{what} is for node {node}, which is not there")
        for s in t.stores:
            _warn_store(host, t, s, notes)
        for p in t.portals:
            _warn_portal(host, t, p, notes)
    for node in host.nodes:
        _warn_memory(host, plan, node, notes)
    for t in plan.targets:
        _warn_access(t, notes)
    return notes


def describe(s: Store) -> str:
    """A line: the back store's kind and place, and when written data are safe."""
    if s.kind == "block":
        kept = "its own cache decides when what is written is kept"
    elif s.forgets:
        kept = f"{'write-back' if s.write_back else 'write-through'}, and forgotten with the host"
    elif s.write_back:
        kept = "write-back: what is not flushed is lost when the host ends"
    else:
        kept = "write-through"
    path, size = f" {s.path}" if s.path else "", f" of {format_size(s.size)}" if s.size else ""
    node = "" if s.node == NODE_UNKNOWN else f" on node {s.node}"
    return f"{s.name}: {s.kind}{path}{size}{node}; {kept}"
