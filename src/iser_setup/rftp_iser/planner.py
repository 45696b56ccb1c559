# SPDX-License-Identifier: Apache-2.0
"""Makes a plan from a Spec and a Host: per node a target with its back stores, portals and
initiators. Also the warnings about any plan. Changes nothing; the same input gives the same plan,
serials included."""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rftp_common import Failure, format_ids, format_size, printable
from rftp_members import checked, refuse
from rftp_numa.machine import NODE_UNKNOWN, Location

from . import checks, converge, names
from .host import Host, size_of
from .plan import Chap, Initiator, Plan, Portal, Store, Target
from .spec import EACH, GENERATE, InitiatorSpec, Spec

WITHOUT_RDMA = "rdma link add makes a soft one, --tcp takes plain iSCSI"
NO_RDMA = f"no network interface that has an address has an RDMA device: {WITHOUT_RDMA}"
# The kernel assigns these names in the order in which it finds devices.
UNSTABLE = ("/dev/sd", "/dev/nvme", "/dev/vd", "/dev/xvd", "/dev/mmcblk", "/dev/dm-", "/dev/loop")


def _with_names(spec: Spec, host: Host) -> Spec:
    """The spec with the default of the plan's name, and of the beginning of the targets' names."""
    name, domain = spec.name or host.name.partition(".")[0], spec.domain or host.name
    checked(names.plan, name, "--name sets another plan's name than this host's:")
    backwards = ".".join(reversed(domain.lower().replace("_", "-").split(".")))
    iqn = spec.iqn or f"iqn.{host.month}.{backwards}"
    checked(names.iqn, iqn, "--domain sets the domain in the targets' names:")
    return replace(spec, name=name, iqn=iqn)


def secret_file(spec: Spec, plan: str, initiator: str, mutual: bool) -> str:
    """Of a generated secret. It has the plan's name because a front end keeps secrets of several
    storage hosts in one directory."""
    return f"{spec.secrets}/{plan}.{initiator}.{'mutual' if mutual else 'chap'}"


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
        fault = names.address(at)
        refuse(fault, f"the portal of node {node}:", f"{fault}, and no interface that is up and "
               "has an address is called so", at)
        card = host.card_of(at)
    if not card:
        return Portal(at, asked.port)
    if not card.rdma and not spec.tcp:
        raise Failure(NO_RDMA if at == "auto" else f"{card.name} ({card.address}), for node "
                      f"{node}, has no RDMA device: {WITHOUT_RDMA}")
    return Portal(card.address, asked.port, card.name, bool(card.rdma))


def _initiator(spec: Spec, asked: InitiatorSpec) -> Initiator:
    ways = []
    for way, user, secret, usual in (
            ("chap", asked.chap_user, asked.chap_secret, asked.name),
            ("mutual", asked.mutual_user, asked.mutual_secret, spec.name)):
        refuse(user and not secret, asked.name, f"has a {way}-user without a {way}-secret")
        if secret == GENERATE:
            secret = secret_file(spec, spec.name, asked.name, way == "mutual")
        ways.append(Chap(user or usual, secret) if secret else None)
    return Initiator(asked.name, *ways)


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
    t.initiators = [_initiator(spec, asked) for asked in spec.initiators.values()]
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
        refuse(node not in host.nodes, f"there is no node {node} here, but", format_ids(host.nodes))
    for s in (s for s in spec.node(EACH).stores if not s.forgets):
        path, absent = printable(s.path), host.locations[s.path].absent
        refuse(absent and s.kind == "block", f"{path}:", absent)
        refuse(s.node not in host.nodes, f"{path}:", "its node is not known, or it has several; "
               f"name it for one node: [node 0], {s.kind} = {path}")
        if spec.only and s.node not in spec.only:
            yield f"{path} is on node {s.node}, which is not planned for"


def make(asked: Spec, host: Host) -> tuple[Plan, list[str]]:
    """The plan and its warnings. host has located asked.paths()."""
    spec, each = _with_names(asked, host), asked.node(EACH)
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
    plan = Plan(name=spec.name, cpus=spec.cpus, targets=targets)
    if not nodes and not rdma and not spec.tcp:
        raise Failure(NO_RDMA)
    refuse(not nodes, "no node", "has storage, or a network card that is known to be on it; --node "
           "names nodes to plan for")
    left_out = format_ids(set(host.nodes) - set(nodes))
    # A link may only be down.
    if left_out and not spec.only and any(s.forgets for s in each.stores):
        notes.append(f"left out: node {left_out}, where no {'RDMA ' if rdma else ''}card has an "
                     "address; --node plans for it all the same")
    return plan, notes + doubts(plan, host)


# ---- warnings -------------------------------------------------------------------------


def _doubts(host: Host, t: Target) -> Iterator[str]:
    if t.node not in (NODE_UNKNOWN, *host.nodes):
        yield f"{t.iqn} is for node {t.node}, which is not there"
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


def doubts(plan: Plan, host: Host) -> list[str]:
    """Warnings about a plan, also an edited one, on a host that has located the plan's paths: data
    that crosses nodes, missing memory or devices, open access. The host's name is not used."""
    notes = [note for t in plan.targets for note in _doubts(host, t)]
    wants = converge.items_of(plan.targets)
    # The tmpfs of an applied plan have their memory already.
    has = {key: size_of(key[1]) if key[0] == "file" else value for key, value in wants.items()
           if key[0] == "mount" or key[0] == "file" and host.own and size_of(key[1]) >= 0}
    diffs = converge.differences(has, wants, converge.Ask(plan).stores)
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
