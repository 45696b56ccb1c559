# SPDX-License-Identifier: Apache-2.0
"""Wanted minus actual: an ordered list of differences, each of which target.py can apply.

apply wants the items of its plan, remove wants nothing of ours, and a change that has failed wants
the items that were there before it: one function, differences(), does for all three.

When apply is killed between two differences, say a LUN and its ACL, then the next apply or remove
finds the LUN among the items of the host, and the ACL missing: it goes on from there."""
from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from rftp_common import format_size, printable
from rftp_machine import NODE_UNKNOWN

from . import host, plan
from .host import Acl, Items, Key, Mount, Store, Target
from .plan import Plan
from .state import Irq, State

# In the order in which items are made; they go in the opposite one. So no initiator can log in
# before all is there, nor after the first item has gone.
ORDER = ("dir", "mount", "file", "store", "store-attribute", "target", "target-attribute", "lun",
         "acl", "auth", "mapped", "portal", "enabled", "cpus", "irq")
IN_TARGET = ORDER[ORDER.index("lun"):ORDER.index("cpus")]  # these belong to its maker
# These never go by themselves, but with the item that has them, or are set to another value.
PARTS = ("store-attribute", "target-attribute", "auth", "mapped", "cpus", "irq")
# Another value of these is set; other items are deleted and made anew for it.
SETTABLE = ("file", "store-attribute", "target-attribute", "auth", "cpus", "irq")

# ---- items of a plan ------------------------------------------------------------------

Secrets = dict[tuple[str, str], tuple[str, str]]  # by target and initiator, of both sides


def items_of(targets: Iterable[plan.Target], secrets: Secrets | None = None) -> Items:
    """Of targets of a plan, with all that they stand on but directories."""
    out: Items = {}
    for t in targets:
        for s in t.stores:
            key = (s.plugin, s.name)
            if s.kind == "tmpfs":
                # The kernel tells its size in whole pages.
                out["mount", s.path] = Mount(-(-s.size // 4096) * 4096, s.policy, str(s.node))
            if s.plugin == "fileio":
                out["file", s.file] = s.size
            out[("store", *key)] = Store(s.file, s.size, s.write_back, str(s.serial))
            out.update((("store-attribute", *key, a), value) for a, value in s.attributes.items())
        out["target", t.iqn] = Target(True, t.open)
        attributes = {"authentication": int(any(i.chap for i in t.initiators)),
                      "generate_node_acls": int(t.open), "cache_dynamic_acls": int(t.open),
                      "demo_mode_write_protect": int(not t.open), **t.attributes}
        out.update((("target-attribute", t.iqn, a), value) for a, value in attributes.items())
        for s in t.stores:
            out["lun", t.iqn, s.lun] = (s.plugin, s.name)
        for i in t.initiators:
            out["acl", t.iqn, i.name] = Acl()
            secret, mutual = (secrets or {}).get((str(t.iqn), str(i.name)), ("", ""))
            out["auth", t.iqn, i.name] = (i.chap.user if i.chap else "", secret,
                                          i.mutual.user if i.mutual else "", mutual)
            out.update((("mapped", t.iqn, i.name, s.lun), (s.lun, False)) for s in t.stores)
        for p in t.portals:
            out["portal", t.iqn, host.plain_address(str(p.address)), p.port] = p.iser
        out["enabled", t.iqn] = True
    return out


@dataclass
class Ask:
    """One change: all that it depends on, and its findings."""
    want: Plan | None = None  # None: remove all items that are ours
    state: State = field(default_factory=State)  # as it was found
    others: list[State] = field(default_factory=list)
    actual: Items = field(default_factory=dict)  # all of this host's
    secrets: Secrets = field(default_factory=dict)
    cpus: str | None = None  # the list for LIO's threads; None: as it is
    irqs: list[Irq] = field(default_factory=list)  # with their wanted lists
    destroy: bool = False
    force: bool = False
    problems: list[str] = field(default_factory=list)  # why nothing may be begun
    notes: list[str] = field(default_factory=list)

    @functools.cached_property
    def ours(self) -> Items:
        """Items of all plans in the state's file: only these, and the paths in state.made, are
        ours. All else on this host, also in our targets, belongs to others."""
        return items_of(t for p in self.state.plans() for t in p.targets)

    @functools.cached_property
    def applied(self) -> Items:
        """Of the plan that was applied to its end."""
        return items_of(self.state.applied.targets if self.state.applied else ())

    @functools.cached_property
    def stores(self) -> dict[Key, plan.Store]:
        """Of our plans, and of the wanted one, by the keys of their stores, files and mounts."""
        plans = [*reversed(self.state.plans()), *filter(None, [self.want])]
        return {key: s for p in plans for s in p.stores()
                for key in (("store", s.plugin, s.name), ("file", s.file), ("mount", s.path))}

    def is_guest(self, key: Key, value: Any) -> bool:
        """Has another program put it into a target of ours?"""
        if key[0] == "lun":
            return ("store", *value) not in self.ours
        return key[0] in ("portal", "acl") and key not in self.ours


def have(ask: Ask) -> Items:
    """Items of the host that are ours, are named by the plan, or are in such a target; but not
    those of others in there, which stay as long as it does."""
    wanted = items_of(ask.want.targets if ask.want else ())
    named = {**ask.ours, **wanted}
    out: Items = {("dir", path): True for path in ask.state.made if host.is_directory(path)}
    for key, value in ask.actual.items():
        foreign = key[0] == "mount" and value.source != host.MOUNT_SOURCE or \
            key not in wanted and ask.is_guest(key, value)
        in_ours = key[0] in IN_TARGET and ("target", key[1]) in named
        if (key in named or in_ours or key[0] == "cpus") and not foreign:
            out[key] = value
    for key, _ in host.under(named, "file"):
        mount, size = ("mount", os.path.dirname(key[1])), host.size_of(key[1])
        if size >= 0 and (mount not in named or mount in out):
            out[key] = size
    out.update((("irq", i.irq), i.was) for i in ask.irqs)
    return out


# ---- wanted ---------------------------------------------------------------------------


def wish(ask: Ask, has: Items) -> Items:
    """Items as ask.want has them."""
    out = items_of(ask.want.targets if ask.want else (), ask.secrets)
    for s in ask.want.stores() if ask.want else ():
        if s.plugin != "fileio":
            continue
        for level in map(str, reversed([*PurePosixPath(s.file).parents][:-1])):
            if ("dir", level) in has or host.size_of(level) < 0:
                out["dir", level] = True
        # LIO may have a file that was removed or renamed; it keeps it as long as nothing changes.
        parts_of = (("store", s.plugin, s.name), ("mount", s.path))
        if all(has.get(key) == out.get(key) for key in parts_of):
            out["file", s.file] = has.get(("file", s.file))
    # Files that were made for our plans stay though no plan needs them: they only go when remove is
    # asked for that. Directories go when they are empty.
    users = {s.path: o.name for o in ask.others for p in o.plans() for s in p.stores()}
    users.update((s.path, key[2]) for key, s in host.under(ask.actual, "store")
                 if key not in ask.ours)
    may_go = set()
    for path in ask.state.made:
        if ("dir", path) in has or ("file", path) in out or host.size_of(path) < 0:
            continue
        if path not in users and ask.destroy and not ask.want:
            may_go.add(path)
        else:
            why = f": {users[path]} has it, too" if path in users else ", with its contents"
            ask.notes.append(printable(f"{path} stays{why}"))
    out.update((key, value) for key, value in host.under(has, "file") if key not in out and
               ("mount", os.path.dirname(key[1])) not in has and key[1] not in may_go)
    if ask.cpus is not None and ("cpus",) in has:
        out["cpus",] = ask.cpus
    out.update((("irq", i.irq), i.set) for i in ask.irqs)
    return out


# ---- the difference -------------------------------------------------------------------


@dataclass
class Difference:
    """to: None: it goes. was: None: it is not there."""
    key: Key
    was: Any
    to: Any
    node: int = NODE_UNKNOWN  # of its CPUs and its memory
    memory: int = 0  # bytes of the node's memory that it takes, or gives back
    strictly: bool = False  # of that node's memory, and no other's
    lossy: bool = False  # data goes with it
    in_tmpfs: bool = False  # a file

    @property
    def may_fail(self) -> bool:
        return self.key[0] == "irq" or self.key[0] == "dir" and self.to is None


# The items without which one cannot be, by its key and value; a tmpfs is one for a store in it.
PARENTS: dict[str, Callable[[Key, Any], list[Key]]] = {
    "file": lambda key, _: [("mount", os.path.dirname(key[1]))],
    "store": lambda _, store: [("mount", os.path.dirname(store.path))],
    "store-attribute": lambda key, _: [("store", key[1], key[2])],
    "lun": lambda key, store: [("target", key[1]), ("store", *store)],
    "auth": lambda key, _: [("acl", key[1], key[2])],
    "mapped": lambda key, value: [("acl", key[1], key[2]), ("lun", key[1], value[0])],
    **dict.fromkeys(("target-attribute", "acl", "portal", "enabled"),
                    lambda key, _: [("target", key[1])])}


def parents(key: Key, value: Any, mounts: Items) -> list[Key]:
    """mounts: of tmpfs; other directories are no parents."""
    found = PARENTS[key[0]](key, value) if key[0] in PARENTS else []
    return [p for p in found if p[0] != "mount" or p in mounts]


def _by_order(items: Items) -> list[Key]:
    return sorted((k for k in items if k[0] in ORDER), key=lambda key: ORDER.index(key[0]))


def differences(has: Items, wants: Items, stores: dict[Key, plan.Store]) -> list[Difference]:
    """First the items that go, from the outside in, then those that come. stores: as of
    Ask.stores."""
    mounts = {key: value for key, value in {**has, **wants}.items() if key[0] == "mount"}
    gone: dict[Key, None] = {}
    for key in _by_order(has):
        was, to = has[key], wants.get(key)
        if to is None:
            goes = key[0] not in PARTS
        elif key[0] == "target":
            # LIO still lets in all initiators that have logged in while the target was open.
            goes = was.whole != to.whole or was.open and not to.open
        else:
            goes = key[0] not in (*SETTABLE, "mapped") and was != to
        orphan = any(p in gone or p not in has and p[0] == "mount"
                     for p in parents(key, was, mounts))
        if goes or orphan:
            gone[key] = None
    out = [_difference(key, has[key], None, stores, has) for key in reversed(gone)
           if key[0] not in PARTS and
           not (key[0] == "file" and ("mount", os.path.dirname(key[1])) in gone)]
    made = set()
    for key in _by_order(wants):
        was, to = has.get(key) if key not in gone else None, wants[key]
        if to is None or was == to or key[0] in ("target", "mapped") and was is not None:
            continue
        made.add(key)
        # An initiator gets all LUNs when its ACL is made, and a LUN is given to all ACLs that are
        # there. A kill in between leaves one of them without the other: that is a difference.
        if key[0] == "mapped" and any(p in made for p in parents(key, to, mounts)):
            continue
        if key[0] == "auth" and not any(to) and ("acl", *key[1:]) in made:
            continue
        out.append(_difference(key, was, to, stores, has))
    return out


def _difference(key: Key, was: Any, to: Any, stores: dict[Key, plan.Store],
                has: Items) -> Difference:
    s = stores.get(key)
    d = Difference(key, was, to, s.node if s else NODE_UNKNOWN)
    if key[0] == "mount" and to is None:
        d.node = int(was.nodes) if was.nodes.isdigit() else NODE_UNKNOWN
        d.memory = -sum(size for k, size in host.under(has, "file")
                        if os.path.dirname(k[1]) == key[1])
        d.lossy = d.memory < 0
    elif key[0] == "file" and to is not None:
        d.lossy = was is not None and to < was
        if s and s.kind == "tmpfs":
            d.in_tmpfs, d.strictly, d.memory = True, s.policy == "bind", to - (was or 0)
    elif key[:2] == ("store", "rd_mcp"):
        d.memory, d.lossy = -was.size if to is None else to.size, to is None
        d.strictly = to is not None and d.node != NODE_UNKNOWN
    return d


# ---- for people -----------------------------------------------------------------------

# By the kind of an item: its name, with the parts of its key; and how it comes and goes.
NAMES = {"dir": "directory {0}", "mount": "tmpfs at {0}", "file": "file {0}",
         "store": "back store {1}", "store-attribute": "{2} of back store {1}",
         "target": "target {0}", "target-attribute": "{1} of target {0}", "lun": "LUN {1} of {0}",
         "acl": "initiator {1} at {0}", "auth": "CHAP of {1} at {0}",
         "mapped": "LUN {2} for {1} at {0}", "portal": "portal {1} port {2} of {0}",
         "enabled": "target {0}", "cpus": "threads of all iSCSI targets of this host",
         "irq": "interrupt {0}"}
VERBS = {"mount": ("mount", "unmount"), "acl": ("let in", "shut out"), "mapped": ("map", ""),
         "enabled": ("enable", "disable"), "cpus": ("set", ""), "irq": ("set", "")}


VALUES: dict[str, Callable[[Any], str]] = {
    "mount": lambda m: f"{format_size(m.size)} of node {m.nodes}, {m.policy}", "file": format_size,
    "store": lambda s: (format_size(s.size) if s.size else "of all of its device") + (
        f", write-{'back' if s.write_back else 'through'}" if s.path and s.size else ""),
    "store-attribute": str, "target-attribute": str,
    "lun": lambda store: printable(f"back store {store[1]}"),
    "auth": lambda a: f"{'a' if a[0] else 'no'} secret, {'and one' if a[2] else 'none'} in return",
    "mapped": lambda m: f"LUN {m[0]} of the target{', read-only' if m[1] else ''}",
    "portal": lambda iser: "with iSER" if iser else "without iSER",
    "cpus": lambda cpus: f"on CPUs {cpus}", "irq": lambda cpus: f"on CPUs {cpus}"}


def describe(key: Key) -> str:
    return printable(NAMES[key[0]].format(*key[1:]))


def value_text(key: Key, value: Any) -> str:
    """Behind "is"; "": nothing can be said but that it is there."""
    return VALUES[key[0]](value) if key[0] in VALUES else ""


def text(d: Difference) -> str:
    come, go = VERBS.get(d.key[0], ("create", "delete"))
    if d.to is None:
        return f"{go} {describe(d.key)}"
    to = value_text(d.key, d.to)
    if d.key[0] == "store" and d.node != NODE_UNKNOWN:
        to += f", on node {d.node}"
    return f"{come if d.was is None else 'set'} {describe(d.key)}{': ' + to if to else ''}"
