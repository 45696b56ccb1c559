# SPDX-License-Identifier: Apache-2.0
"""A plan from what is asked and where things are: a target per node, with its back stores, the
address of the node's card and the initiators that may log in. And what an administrator should
think about in any plan. Touches nothing, and gives the same for the same, serials included."""
from __future__ import annotations

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
from .topology import DISTANCE_UNKNOWN, Card, Host, Location, room_taken

RESERVE = 10  # of a node's memory a plan leaves one part in so many: the kernel lives there, too

# ---- names that nobody gave -----------------------------------------------------------


def plan_name(spec: Spec, host: Host) -> str:
    name = spec.name or host.name.partition(".")[0]
    if names.plan(name):
        raise Failure("this host's name as the plan's, \"%s\", %s; --name says another" % (
            printable(name), names.plan(name)))
    return name


def secret_file(spec: Spec, plan: str, initiator: str, mutual: bool) -> str:
    """Of a secret that is to be generated. A front end has those of several hosts in one place."""
    return "%s/%s.%s.%s" % (spec.secrets, plan, initiator, "mutual" if mutual else "chap")


def _iqn_prefix(spec: Spec, host: Host) -> str:
    if spec.iqn:
        return spec.iqn
    domain = spec.domain or host.name
    if "." not in domain and not spec.domain:
        raise Failure("what are the targets to be called? This host, %s, has no domain: say one with "
                      "--domain example.org" % printable(host.name))
    iqn = _as_iqn("iqn.%s.%s" % (host.month, ".".join(reversed(domain.split(".")))))
    if names.iqn(iqn):
        raise Failure("%s %s makes the name %s, which %s" % (
            "the domain" if spec.domain else "this host's name", printable(domain), printable(iqn),
            names.iqn(iqn)))
    return iqn


def _as_iqn(text: str) -> str:
    return text.replace("_", "-").lower()


def _digest(text: str, seed: int) -> int:
    """64 bits of text: splitmix64 for each byte. Initiators know disks by what comes of it."""
    mask = (1 << 64) - 1
    h = seed
    for byte in text.encode("utf-8", "surrogateescape"):
        z = ((h ^ byte) + 0x9e3779b97f4a7c15) & mask
        z = ((z ^ z >> 30) * 0xbf58476d1ce4e5b9) & mask
        z = ((z ^ z >> 27) * 0x94d049bb133111eb) & mask
        h = z ^ z >> 31
    return h


def serial(iqn: str, store: str) -> str:
    """A UUID of version 8 (RFC 9562): the same for the same names."""
    text = "%s %s" % (iqn, store)
    high, low = _digest(text, 1), _digest(text, 2)
    return "%08x-%04x-%04x-%04x-%012x" % (high >> 32, high >> 16 & 0xffff, high & 0x0fff | 0x8000,
                                          low >> 48 & 0x3fff | 0x8000, low & (1 << 48) - 1)


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
        """[node *] is for the nodes that were asked for, or all that have RDMA, or, where there is
        none at all, a card. Its files and devices are where they are."""
        if self.left_out(node):
            return False
        wanted = bool(self.spec.only) or any(
            c.node == node and (c.rdma or not self.any_rdma) for c in self.cards)
        return node in self.spec.nodes or any(
            wanted if s.movable else s.found == node for s in self.each.stores)


def _check_nodes(w: _Work) -> None:
    for node in [*sorted(w.spec.only), *(n for n in w.spec.nodes if n != EACH)]:
        if node not in w.host.nodes:
            raise Failure("there is no node %d here, but %s" % (node, format_ids(w.host.nodes)))
    for s in w.each.stores:
        if s.movable:
            continue
        path = printable(s.path or "")
        absent = w.host.locations[s.path or ""].absent if s.kind == "block" else ""
        if absent:
            raise Failure("%s: %s" % (path, absent))
        if s.found not in w.host.nodes:
            raise Failure("%s: its node is not known, or it has several; put it under the one it is to "
                          "be served by: [node 0], %s = %s" % (path, s.kind, path))
        if w.left_out(s.found):
            w.notes.append("%s is on node %d, which is not planned for" % (path, s.found))


def _add_store(w: _Work, target: Target, own: NodeSpec, asked: StoreSpec) -> None:
    s = Store(len(target.stores), None, asked.kind,
              target.node if asked.movable or asked.found == NODE_UNKNOWN else asked.found, asked.size,
              own.policy or w.each.policy or "bind", asked.path)
    s.name = "%s-node%d-disk%d" % (w.plan.name, target.node, s.lun)
    s.serial = serial(target.iqn or "", s.name)
    if s.kind == "tmpfs":
        s.path = "%s/%s" % (w.spec.mounts, s.name)
    # Of a device it is its own matter, and RAM has nothing to write through to.
    if s.plugin == "fileio":
        s.write_back = own.write_back if own.write_back is not None else bool(w.each.write_back)
    # LIO says of any file or RAM that it turns, and such a disk is read in order.
    if s.forgets:
        s.attributes["is_nonrot"] = 1
    s.attributes.update(w.each.lun_attributes)
    s.attributes.update(own.lun_attributes)
    target.stores.append(s)


def _portal(w: _Work, node: int, address: str, port: int, card: Card | None) -> Portal:
    """card: has the address; None: none is known to."""
    if card and not card.rdma and not w.spec.tcp:
        raise Failure("%s (%s), for node %d, has no RDMA device: rdma link add makes a soft one, --tcp "
                      "takes plain iSCSI for it" % (card.netdev, address, node))
    return Portal(address, port, card.netdev if card else None, not card or bool(card.rdma))


def _best_portal(w: _Work, node: int, port: int) -> Portal:
    """On the card with RDMA that is nearest, and of those the fastest."""
    if not w.cards:
        raise Failure("there is no network interface with an address, by which node %d could be served; "
                      "--portal %d=ADDRESS says one" % (node, node))
    best = min(w.cards, key=lambda c: (
        not c.rdma, w.host.distance(node, c.node) if c.node != NODE_UNKNOWN else DISTANCE_UNKNOWN, -c.mbps))
    if not best.rdma and not w.spec.tcp:
        raise Failure("no network interface that has an address has an RDMA device, for node %d; rdma link "
                      "add makes a soft one, --tcp plans plain iSCSI" % node)
    return _portal(w, node, best.address, port, best)


def _asked_portal(w: _Work, node: int, asked: str) -> Portal:
    at, port = split_portal(asked)
    if at == "auto":
        return _best_portal(w, node, port)
    named = next((c for c in w.cards if c.netdev == at), None)
    if named:
        return _portal(w, node, named.address, port, named)
    if names.address(at):
        raise Failure("the portal %s of node %d: \"%s\" %s, and no interface that is up and has an address "
                      "is called so" % (printable(asked), node, printable(at), names.address(at)))
    return _portal(w, node, at, port, w.host.card_of(at))


def _initiator(w: _Work, asked: InitiatorSpec) -> Initiator:
    for way, user, secret in (("chap", asked.chap_user, asked.chap_secret),
                              ("mutual", asked.mutual_user, asked.mutual_secret)):
        if user and not secret:
            raise Failure("%s has a %s-user without a %s-secret" % (asked.name, way, way))

    def chap(secret: str | None, user: str, mutual: bool) -> Chap | None:
        if secret == GENERATE:
            secret = secret_file(w.spec, str(w.plan.name), asked.name, mutual)
        return Chap(user, secret) if secret else None

    return Initiator(asked.name, chap(asked.chap_secret, asked.chap_user or asked.name, False),
                     chap(asked.mutual_secret, asked.mutual_user or str(w.plan.name), True))


def _add_target(w: _Work, node: int) -> None:
    own = w.spec.node(node)
    target = Target(node, _as_iqn("%s:%s-node%d" % (w.prefix, w.plan.name, node)), w.spec.open)
    for s in w.each.stores:
        if s.movable or s.found == node:
            _add_store(w, target, own, s)
    for s in own.stores:
        _add_store(w, target, own, s)
    if not target.stores:
        raise Failure("node %d is to be a target, but has no storage: give it a tmpfs, a file, a block device "
                      "or a ramdisk" % node)
    target.portals = [_asked_portal(w, node, asked) for asked in own.portals] or [_best_portal(w, node, PORT)]
    target.initiators = [_initiator(w, asked) for asked in w.spec.initiators.values()]
    target.attributes.update(w.each.target_attributes)
    target.attributes.update(own.target_attributes)
    w.plan.targets.append(target)


def _no_target(w: _Work) -> Failure:
    if not w.spec.nodes:
        return Failure("what is to be served? Say --tmpfs, --file, --block or --ramdisk, or name a file that "
                       "does")
    if not w.any_rdma and not w.spec.tcp:
        return Failure("no network interface that has an address has an RDMA device; rdma link add makes a "
                       "soft one, --tcp plans plain iSCSI")
    return Failure("no node has what is asked for: a network card that is known to be on it, or storage; "
                   "--node says which to plan for")


def make(spec: Spec, host: Host) -> tuple[Plan, list[str]]:
    """The plan, and what is to be thought about. host has located spec's paths."""
    for asked in spec.nodes.values():
        for s in asked.stores:
            s.found = host.locations[s.path].node if s.path else NODE_UNKNOWN
    name = plan_name(spec, host)
    w = _Work(spec, host, host.cards(), _iqn_prefix(spec, host), Plan(name, spec.cpus))
    if spec.open and spec.initiators:
        raise Failure("the targets are to be open to anyone, and there are initiators: which is it?")
    if not spec.open and not spec.initiators:
        raise Failure("who may log in? Say --initiator with an IQN (/etc/iscsi/initiatorname.iscsi has a "
                      "host's), or --open for anyone")
    _check_nodes(w)
    for node in host.nodes:
        if w.has_target(node):
            _add_target(w, node)
    if not w.plan.targets:
        raise _no_target(w)
    left_out = [n for n in host.nodes if not w.has_target(n)]
    # A link may only be down.
    if left_out and not spec.only and any(s.movable for s in w.each.stores):
        w.notes.append("left out: node %s, where no %s has an address; --node names those that are to be "
                       "served all the same" % (format_ids(left_out), "RDMA card" if w.any_rdma else "card"))
    check(w.plan)
    return w.plan, w.notes + doubts(w.plan, host)


# ---- what does not go with a host -----------------------------------------------------


def _card_of(host: Host, p: Portal) -> Card | None:
    """The interface with the portal's address, rather the plan's if several have it. Where no
    address is known it is the plan's."""
    address = p.address or ""
    if not host.addresses and p.netdev:
        return host.card(p.netdev, address)
    if p.netdev and (p.netdev, address) in host.addresses:
        return host.card(p.netdev, address)
    return host.card_of(address)


def _doubt_portal(host: Host, t: Target, p: Portal, notes: list[str]) -> None:
    served = str(t.iqn) if t.node == NODE_UNKNOWN else "node %d" % t.node
    card = _card_of(host, p)
    if not card:
        notes.append("no interface that is up has %s, on which %s is to be served" % (p.address, served))
        return
    if p.netdev and p.netdev != card.netdev:
        notes.append("%s, by which %s is to be served, is on %s, and not on %s as the plan has it" % (
            p.address, served, card.netdev, printable(p.netdev)))
    if not card.rdma:
        notes.append(("%s is to be served by iSER, but %s has no RDMA device" if p.iser else
                      "%s is served by plain iSCSI over TCP: %s has no RDMA device") % (served, card.netdev))
    if card.node != t.node and t.node in host.nodes:
        where = "is on no node that is known" if card.node == NODE_UNKNOWN else "is on node %d" % card.node
        notes.append("%s is served by %s, which %s: all of its data goes from node to node" % (
            served, card.netdev, where))


def _differ(one: int, other: int) -> bool:
    return NODE_UNKNOWN not in (one, other) and one != other


def _doubt_store(host: Host, t: Target, s: Store, notes: list[str]) -> None:
    if s.forgets:
        if _differ(s.node, t.node) and s.node in host.nodes:
            notes.append("%s has memory of node %d, but is served by node %d: all of its data goes from node "
                         "to node" % (s.name, s.node, t.node))
        return
    location = host.locations.get(s.path or "", Location())
    if s.kind == "block" and location.absent:
        notes.append("%s: %s" % (s.path, location.absent))
        return
    if _differ(location.node, s.node):
        notes.append("%s is on node %d, and not on node %d as the plan has it" % (s.path, location.node, s.node))
    found = s.node if location.node == NODE_UNKNOWN else location.node
    if _differ(found, t.node):
        notes.append("%s is on node %d, but is served by node %d, as was asked for" % (s.path, found, t.node))


def _doubt_memory(host: Host, plan: Plan, node: int, notes: list[str]) -> None:
    # A plan that is carried out has its own already.
    wanted = sum(max(0, s.size - (room_taken(s.file) if host.own and s.file else 0))
                 for s in plan.stores() if s.forgets and s.node == node)
    there = host.nodes[node]
    if not wanted:
        return
    if there.memory is None:
        notes.append("how much memory node %d has is not known; %s of it are planned for" % (
            node, format_size(wanted)))
    elif wanted > there.room:
        notes.append("memory does not suffice: node %d has %s to give, and %s are planned for" % (
            node, format_size(there.room), format_size(wanted)))
    elif there.room - wanted < there.memory // RESERVE:
        notes.append("memory is tight: of %s that node %d has to give, %s are planned for, which leaves less "
                     "than a tenth of the node's" % (format_size(there.room), node, format_size(wanted)))


def _doubt_access(t: Target, notes: list[str]) -> None:
    if t.open:
        notes.append("%s is open: whoever reaches its port may log in, read and write; --initiator names those "
                     "who may" % t.iqn)
    if len(t.initiators) > 1:
        notes.append("%s lets in %d initiators, each to all of its LUNs: a filesystem that two hosts mount is "
                     "destroyed, unless it is made for that" % (t.iqn, len(t.initiators)))
    for i in t.initiators:
        if not i.chap:
            notes.append("%s lets in whoever says to be %s, without CHAP; --chap generate makes secrets" % (
                t.iqn, i.name))


# The kernel gives these names in the order in which it finds devices.
_MOVING = ("/dev/sd", "/dev/nvme", "/dev/vd", "/dev/xvd", "/dev/mmcblk", "/dev/dm-", "/dev/loop")


def doubts(plan: Plan, host: Host) -> list[str]:
    """Of any plan, also one that was edited: what does not go with host, what may be lost, who may
    log in. host has located the plan's paths; its name and month do not matter."""
    notes: list[str] = []
    for t in plan.targets:
        for node, what in {t.node: str(t.iqn), **{s.node: str(s.name) for s in t.stores if s.node != t.node}}.items():
            if node != NODE_UNKNOWN and node not in host.nodes:
                notes.append("%s is for node %d, which is not there" % (what, node))
        for s in t.stores:
            _doubt_store(host, t, s, notes)
        for p in t.portals:
            _doubt_portal(host, t, p, notes)
    for node in host.nodes:
        _doubt_memory(host, plan, node, notes)
    for t in plan.targets:
        _doubt_access(t, notes)
        for s in t.stores:
            if s.write_back and s.forgets:
                notes.append("%s is written back into memory: nothing of it outlasts the host, flushed or not"
                             % s.name)
            if s.kind == "block" and (s.path or "").startswith(_MOVING):
                notes.append("%s may be another device after the next start: name it by its link in "
                             "/dev/disk/by-id" % s.path)
    return notes


def describe(s: Store) -> str:
    """A line: what a back store is, where, and how what is written to it is kept."""
    if s.kind == "block":
        kept = "its own cache decides when what is written is kept"
    elif s.forgets:
        kept = "%s, and forgotten with the host" % ("write-back" if s.write_back else "write-through")
    else:
        kept = "write-back: what is not flushed is lost when the host ends" if s.write_back else "write-through"
    return "%s: %s%s%s%s; %s" % (
        s.name, s.kind, " " + s.path if s.path else "", " of " + format_size(s.size) if s.size else "",
        " on node %d" % s.node if s.node != NODE_UNKNOWN else "", kept)
