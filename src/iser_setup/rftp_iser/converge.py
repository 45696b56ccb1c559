# SPDX-License-Identifier: Apache-2.0
"""Wanted minus actual: an ordered list of differences, each of which target.py can apply.

Both states are items, a dictionary of what there is, by keys as ("lun", IQN, 0). apply wants what
the plan says, remove wants nothing of ours, and a change that has failed wants the items that were
there before it: one function, differences(), does for all three. Pure: it looks at nothing but what
host.py has read."""
from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from . import host, plan
from .common import format_ids, format_size, parse_ids, printable
from .host import Lio
from .plan import NODE_UNKNOWN, Plan
from .state import Irq, State

Key = tuple[Any, ...]
Items = dict[Key, Any]

# In the order in which items are made; they go in the opposite one. So no initiator can log in
# before all is there, nor after the first item has gone.
ORDER = ("dir", "mount", "file", "store", "store-attribute", "target", "target-attribute", "lun",
         "acl",
         "auth", "mapped", "portal", "enabled", "cpus", "irq")
# These never go by themselves, but with the item that has them, or are set to another value.
PARTS = ("store-attribute", "target-attribute", "auth", "mapped", "cpus", "irq")
# Another value of these is set; other items are deleted and made anew for it.
SETTABLE = ("file", "store-attribute", "target-attribute", "auth", "cpus", "irq")


class Tmpfs(NamedTuple):
    """The value of ("mount", PATH)."""
    size: int
    policy: str
    node: int


@dataclass(frozen=True)
class StoreItem:
    """The value of ("store", PLUGIN, NAME); None: it is not enabled."""
    path: str
    size: int  # bytes; 0 of a block device
    write_back: bool
    serial: str
    about: str = field(default="", compare=False)


class TargetItem(NamedTuple):
    """The value of ("target", IQN)."""
    tag: int  # of its portal group
    open: bool


# Values of the others: ("file", PATH): its size; ("lun", IQN, LUN): plugin and name of the store;
# ("auth", IQN, INITIATOR): user, secret, and both of the target; ("portal", IQN, ADDRESS, PORT):
# does it take iSER; attributes: a number; ("cpus",) and ("irq", N): a list of CPUs; the rest: True.


@dataclass
class Difference:
    """to: None: it goes. was: None: it is not there."""
    key: Key
    was: Any
    to: Any
    text: str
    node: int = NODE_UNKNOWN  # of its CPUs and its memory
    memory: int = 0  # bytes of the node's memory that it takes, or gives back
    strictly: bool = False  # that node's, and no other's
    lossy: bool = False  # data goes with it
    may_fail: bool = False
    in_tmpfs: bool = False  # a file


@dataclass
class Actual:
    """The host as it is. The functions are host.py's, or a test's."""
    lio: Lio
    size: Callable[[str], int]  # of a file; 0 of a directory or device; -1: nothing is there
    is_dir: Callable[[str], bool]
    attribute: Callable[[str, str], int | None] = host.attribute
    irqs: dict[int, str] = field(default_factory=dict)  # CPU lists


@dataclass
class Ask:
    """One change, all that it depends on."""
    want: Plan | None  # None: all that is ours is to go
    state: State  # names our things
    others: list[State]
    actual: Actual
    secrets: dict[tuple[str, str], tuple[str,
                                         str]] = field(default_factory=dict)  # by IQN and initiator
    cpus: str | None = None  # the list for LIO's threads; None: as it is
    irqs: list[Irq] = field(default_factory=list)  # as they are to be
    destroy: bool = False
    force: bool = False
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def refuse(self, s: plan.Store, why: str) -> None:
        self.problems.append("back store %s: %s" % (s.name, why))

    def ours(self) -> list[Plan]:
        return self.state.plans()

    def our_store(self, plugin: str, name: str) -> plan.Store | None:
        return next((s for p in self.ours() for s in p.stores() if (s.plugin, s.name) == (plugin,
            name)), None)

    def our_targets(self, iqn: str) -> list[plan.Target]:
        """The target, as each of our plans has it."""
        return [t for p in self.ours() for t in p.targets if t.iqn == iqn]

    def our_portal(self, iqn: str, address: str, port: int) -> bool:
        return any(p.port == port and host.same_address(p.address, address)
                   for t in self.our_targets(iqn) for p in t.portals)

    def our_acl(self, iqn: str, initiator: str) -> bool:
        return any(i.name == initiator for t in self.our_targets(iqn) for i in t.initiators)

    def our_file(self, path: str) -> bool:
        return any(s.kind == "file" and s.path == path for p in self.ours() for s in p.stores())

    def our_mount(self, path: str) -> bool:
        return any(s.kind == "tmpfs" and s.path == path for p in self.ours() for s in p.stores())

    def applied(self, store: plan.Store) -> bool:
        """Was it served, as this kind?"""
        old = self.state.applied.store(str(store.name)) if self.state.applied else None
        return bool(old and old.plugin == store.plugin)

    def keeps_file(self, s: plan.Store) -> bool:
        """Is there a tmpfs with data that LIO does not serve at the moment?"""
        return s.kind == "tmpfs" and self.applied(s) and bool(self.actual.lio.mount(s.path)) and \
            self.actual.size(s.file) > 0


def ids(text: str | None) -> str:
    """A list of CPUs, in one spelling."""
    return format_ids(parse_ids(text or "") or ())


def mount_size(s: plan.Store) -> int:
    """The kernel tells it in whole pages."""
    return -(-s.size // 4096) * 4096


def fixed_attributes(t: plan.Target) -> dict[str, int]:
    """Decided by other members of the plan."""
    return {"authentication": int(any(i.chap for i in t.initiators)),
            "generate_node_acls": int(t.open),
            "demo_mode_write_protect": int(not t.open), "cache_dynamic_acls": int(t.open)}


# ---- our things on the host -----------------------------------------------------------


def _have_target(ask: Ask, iqn: str, attributes: Iterable[str], out: Items) -> None:
    there = ask.actual.lio.target(iqn)
    if not there:
        return
    attribute = ask.actual.attribute
    out["target", iqn] = TargetItem(there.tag, bool(attribute(there.dir, "generate_node_acls")))
    if there.tag == host.NO_GROUP:
        return
    for name in attributes:
        out["target-attribute", iqn, name] = attribute(there.dir, name)
    for lun in there.luns:
        out["lun", iqn, lun.lun] = (lun.plugin, lun.store)
    for acl in there.acls:
        out["acl", iqn, acl.initiator] = True
        out["auth", iqn, acl.initiator] = acl.auth
        for mapped in acl.mapped:
            out["mapped", iqn, acl.initiator, mapped.lun] = True
    for portal in there.portals:
        out["portal", iqn, host.plain_address(portal.address), portal.port] = portal.iser
    if there.enabled:
        out["enabled", iqn] = True


def have(ask: Ask) -> Items:
    """Items of the host that a plan of ours names, or that are in a target that one names, or that
    were made for one. What is ours is what the plans in the state's file name, and nothing else."""
    out: Items = {}
    lio, size = ask.actual.lio, ask.actual.size
    plans = ask.ours() + ([ask.want] if ask.want else [])
    for path in ask.state.made:
        if ask.actual.is_dir(path):
            out["dir", path] = True
    for s in (s for p in plans for s in p.stores()):
        mount = next((m for m in reversed(lio.mounts) if m.path == s.path
                      and m.source == host.MOUNT_SOURCE), None)
        if s.kind == "tmpfs" and mount:
            out["mount", s.path] = Tmpfs(mount.size, mount.policy,
                                         min(mount.nodes) if len(mount.nodes) == 1
                                         else NODE_UNKNOWN)
        if (s.kind == "file" or s.kind == "tmpfs" and mount) and size(s.file) >= 0:
            out["file", s.file] = size(s.file)
        there = lio.store(s.plugin, s.name)
        if not there:
            continue
        out["store", s.plugin, s.name] = None if not there.enabled else StoreItem(
            there.path, 0 if s.kind == "block" else there.size, there.write_back
            and s.plugin == "fileio", there.serial)
        for name in s.attributes:
            out["store-attribute", s.plugin, s.name, name] = ask.actual.attribute(there.dir, name)
    for t in (t for p in plans for t in p.targets):
        _have_target(ask, str(t.iqn), [*fixed_attributes(t), *t.attributes], out)
    if lio.cpus is not None:
        out["cpus",] = ids(lio.cpus)
    out.update((("irq", i.irq), ask.actual.irqs.get(i.irq, i.was)) for i in ask.irqs)
    return {key: value for key, value in out.items() if value is not None or key[0] == "store"}


# ---- wanted ---------------------------------------------------------------------------


def _describe(s: plan.Store) -> str:
    node = " on node %d" % s.node if s.node != NODE_UNKNOWN else ""
    if s.kind == "block":
        return printable(str(s.path)) + node
    cache = "" if s.kind == "ramdisk" else ", write-back" if s.write_back else ", write-through"
    return "%s of %s%s%s" % (s.kind, format_size(s.size), node, cache)


def _item(s: plan.Store) -> StoreItem:
    return StoreItem(s.file, s.size, s.write_back, str(s.serial), _describe(s))


def _want_directories(ask: Ask, path: str, out: Items, has: Items) -> None:
    parts = path.split("/")
    for n in range(2, len(parts) + 1):
        level = "/".join(parts[:n])
        if ("dir", level) in has or ask.actual.size(level) < 0:
            out["dir", level] = True


def _want_store(ask: Ask, s: plan.Store, out: Items, has: Items) -> None:
    if s.kind == "tmpfs":
        _want_directories(ask, str(s.path), out, has)
        out["mount", s.path] = Tmpfs(mount_size(s), s.policy, s.node)
    elif s.kind == "file":
        _want_directories(ask, os.path.dirname(s.file), out, has)
    key = ("store", s.plugin, s.name)
    out[key] = _item(s)
    kept = has.get(key) == out[key] and (s.kind != "tmpfs" or has.get(("mount",
        s.path)) == out["mount", s.path])
    # LIO may have a file that was removed or renamed; it keeps it as long as nothing else changes.
    if s.plugin == "fileio" and not (kept and ("file", s.file) not in has):
        out["file", s.file] = has["file", s.file] if kept else s.size
    for name, value in s.attributes.items():
        out["store-attribute", s.plugin, s.name, name] = value


def _want_target(ask: Ask, t: plan.Target, out: Items) -> None:
    iqn = str(t.iqn)
    out["target", iqn] = TargetItem(host.TAG, t.open)
    for name, value in {**fixed_attributes(t), **t.attributes}.items():
        out["target-attribute", iqn, name] = value
    for s in t.stores:
        out["lun", iqn, s.lun] = (s.plugin, s.name)
    for i in t.initiators:
        secret, mutual = ask.secrets.get((iqn, str(i.name)), ("", ""))
        out["acl", iqn, i.name] = True
        out["auth", iqn, i.name] = (i.chap.user if i.chap else "", secret if i.chap else "",
                                    i.mutual.user if i.mutual else "", mutual if i.mutual else "")
        for s in t.stores:
            out["mapped", iqn, i.name, s.lun] = True
    for p in t.portals:
        out["portal", iqn, host.plain_address(str(p.address)), p.port] = p.iser
    out["enabled", iqn] = True


def is_guest(ask: Ask, key: Key, value: Any) -> bool:
    """Has another program put it into a target of ours?"""
    if key[0] == "lun":
        return not ask.our_store(*value)
    if key[0] == "portal":
        return not ask.our_portal(*key[1:])
    return key[0] == "acl" and not ask.our_acl(*key[1:])


def _user_of(ask: Ask, path: str) -> str:
    """Another user, by now, of a path that we made; "": there is none, as far as can be seen."""
    for other in ask.others:
        if any(needs(p, path) for p in other.plans()):
            return other.name
    return next((s.name for s in ask.actual.lio.stores if s.path == path and
                 not ask.our_store(s.plugin, s.name)), "")


def needs(p: Plan, path: str) -> bool:
    """path, or something below it."""
    return any((str(s.path) + "/").startswith(path + "/") for s in p.stores() if s.path)


def _keep_made(ask: Ask, out: Items, has: Items) -> None:
    """Directories and files that were made for our plans, and stay though no plan needs them."""
    for path in ask.state.made:
        if ask.want and needs(ask.want, path):
            continue
        user = _user_of(ask, path)
        if ("dir", path) in has:
            if user:
                out["dir", path] = True
        elif ask.actual.size(path) >= 0 and user:
            ask.notes.append("%s stays: %s has it, too" % (printable(path), printable(user)))
        elif ask.actual.size(path) >= 0 and not (ask.destroy and not ask.want):
            ask.notes.append("%s stays, with what is in it" % printable(path))
    for key, value in has.items():
        # Files are not deleted, but those that were made, when remove is asked for that.
        if key[0] == "file" and key not in out and ("mount",
                                                    os.path.dirname(key[1])) not in has and not (
                ask.destroy and not ask.want and key[1] in ask.state.made and not _user_of(ask,
                    key[1])):
            out[key] = value


def wish(ask: Ask, has: Items) -> Items:
    """Items as ask.want has them."""
    out: Items = {}
    for t in ask.want.targets if ask.want else ():
        for s in t.stores:
            _want_store(ask, s, out, has)
        _want_target(ask, t, out)
    # In a target that stays, the things of others stay, too.
    for key, value in has.items():
        if key not in out and len(key) > 1 and ("target", key[1]) in out and is_guest(ask, key,
            value):
            out[key] = value
    _keep_made(ask, out, has)
    if ask.cpus is not None and ("cpus",) in has:
        out["cpus",] = ids(ask.cpus)
    out.update((("irq", i.irq), i.set) for i in ask.irqs)
    return out


# ---- the difference -------------------------------------------------------------------


def _parents(key: Key, value: Any, mounts: Items) -> list[Key]:
    """Items without which this one cannot be."""
    kind = key[0]
    if kind in ("file", "store"):
        mount = ("mount", os.path.dirname(key[1] if kind == "file" else value.path if value
                                          else ""))
        return [mount] if mount in mounts else []
    if kind == "store-attribute":
        return [("store", key[1], key[2])]
    if kind == "mapped":
        return [("acl", key[1], key[2]), ("lun", key[1], key[3])]
    if kind == "auth":
        return [("acl", key[1], key[2])]
    if kind == "lun":
        return [("target", key[1]), ("store", *value)]
    return [("target", key[1])] if kind in ("target-attribute", "acl", "portal", "enabled") else []


def _anew(key: Key, was: Any, to: Any) -> bool:
    """Has it to be deleted, and made again?"""
    if key[0] == "target":
        # LIO goes on to let in all that have logged in while a target was open.
        return was.tag != to.tag or was.open and not to.open
    return key[0] not in SETTABLE and was != to


def _by_order(items: Iterable[Key]) -> list[Key]:
    return sorted(items, key=lambda key: ORDER.index(key[0]))


def differences(has: Items, wants: Items, nodes: dict[Key, int]) -> list[Difference]:
    """First the items that go, from the outside in, then those that come. nodes: of stores
    and files."""
    mounts = {key: value for key, value in {**has, **wants}.items() if key[0] == "mount"}
    gone: dict[Key, None] = {}
    for key in _by_order(has):
        unwanted = key not in wants and key[0] not in PARTS
        changed = key in wants and _anew(key, has[key], wants[key])
        orphan = any(p in gone or p not in has and p[0] == "mount" for p in _parents(key, has[key],
            mounts))
        if unwanted or changed or orphan:
            gone[key] = None
    out = [_difference(key, has[key], None, nodes, has) for key in reversed(gone)
           if key[0] not in PARTS and
           not (key[0] == "file" and ("mount", os.path.dirname(key[1])) in gone)]
    made = set()
    for key in _by_order(wants):
        was, to = has.get(key) if key not in gone else None, wants[key]
        if to is None or was == to or key[0] == "target" and was is not None:
            continue
        made.add(key)
        # An initiator gets all LUNs when its ACL is made, and a LUN is given to all ACLs that are
        # there. A kill in between leaves one of them without the other: that is a difference.
        if key[0] == "mapped" and any(p in made for p in _parents(key, to, mounts)):
            continue
        if key[0] == "auth" and not any(to) and ("acl", *key[1:]) in made:
            continue
        out.append(_difference(key, was, to, nodes, has))
    return out


def _difference(key: Key, was: Any, to: Any, nodes: dict[Key, int], has: Items) -> Difference:
    d = Difference(key, was, to, _text(key, was, to), nodes.get(key, NODE_UNKNOWN))
    kind, value = key[0], was if to is None else to
    if kind == "dir":
        d.may_fail = to is None
    elif kind == "mount" and to is None:
        d.node = value.node
        held = sum(size for k, size in has.items() if k[0] == "file"
                   and os.path.dirname(k[1]) == key[1])
        d.memory, d.lossy = -held, held > 0
    elif kind == "file" and to is not None:
        d.lossy = was is not None and to < was
        d.strictly = nodes.get(("bound", key[1])) is not None
        d.in_tmpfs = ("in-tmpfs", key[1]) in nodes
        d.memory = to - (was or 0) if d.in_tmpfs else 0
    elif kind == "store" and key[1] == "rd_mcp" and value:
        d.memory, d.lossy = -value.size if to is None else value.size, to is None
        d.strictly = to is not None and d.node != NODE_UNKNOWN
    elif kind == "irq":
        d.may_fail = True
    return d


def nodes_of(ask: Ask) -> dict[Key, int]:
    """Of stores and files, by their keys; also by ("in-tmpfs", PATH) and ("bound", PATH)."""
    out: dict[Key, int] = {}
    for p in ask.ours() + ([ask.want] if ask.want else []):
        for s in p.stores():
            out["store", s.plugin, s.name] = out["file", s.file] = s.node
            if s.kind == "tmpfs":
                out["in-tmpfs", s.file] = s.node
                if s.policy == "bind":
                    out["bound", s.file] = s.node
    return out


def _text(key: Key, was: Any, to: Any) -> str:
    """For people."""
    kind, names = key[0], [printable(str(k)) for k in key[1:]]
    goes, first = to is None, names[0] if names else ""
    if kind == "dir":
        return "%s the directory %s" % ("remove" if goes else "make", first)
    if kind == "mount":
        whose = "of the memory of" if not goes and to.policy == "bind" else "preferably of"
        return "unmount the tmpfs at " + first if goes else \
            "mount a tmpfs of %s at %s, %s node %d" % (format_size(to.size), first, whose, to.node)
    if kind == "file":
        if goes:
            return "remove the file %s, with what is in it" % first
        how = "make the file %s of %s" if was is None else \
            "let the file %s grow to %s" if to > was else "cut the file %s to %s"
        return how % (first, format_size(to))
    if kind == "store":
        return "take the back store %s away" % names[1] if goes else \
            "create the back store %s: %s" % (names[1], to.about or printable(to.path))
    if kind in ("store-attribute", "target-attribute"):
        return "set %s of the %s %s to %d" % (names[-1], "back store" if kind[0] == "s"
                                              else "target", names[-2], to)
    if kind == "target":
        whole = "" if not goes or was.tag else ", which is not whole"
        return "%s the target %s%s" % ("delete" if goes else "create", first, whole)
    if kind == "lun":
        return "delete LUN %s of the target %s" % (names[1], first) if goes else \
            "create LUN %s of the target %s: the back store %s" % (names[1], first,
                printable(to[1]))
    if kind == "acl":
        return "let the initiator %s log in to the target %s%s" % (names[1], first,
            " no more" if goes else "")
    if kind == "auth":
        return "ask for %s CHAP secret of %s at the target %s%s" % (
            "the" if to[0] else "no", names[1], first, ", and give one in return" if to[2] else "")
    if kind == "mapped":
        return "give LUN %s of the target %s to the initiator %s" % (names[2], first, names[1])
    if kind == "portal":
        about = "" if goes else ", for iSER" if to else ", without iSER"
        return "%s the portal %s, port %s, of the target %s%s" % (
            "delete" if goes else "create", names[1], names[2], first, about)
    if kind == "enabled":
        return "%s the target %s" % ("disable" if goes else "enable", first)
    if kind == "cpus":
        return "let threads of all iSCSI targets here, also of foreign ones, run on CPUs %s" % to
    return "handle interrupt %s on CPUs %s" % (first, to)
