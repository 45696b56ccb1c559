# SPDX-License-Identifier: Apache-2.0
"""Wanted minus actual: an ordered list of differences, each of which target.py can apply.

apply wants the items of its plan, remove wants nothing of ours, and a change that has failed wants
the items that were there before it: one function, differences(), does for all three. Pure: it looks
at nothing but what host.py has read.

When apply is killed between two differences, say a LUN and its ACL, then the next apply or remove
finds the LUN among the items of the host, and the ACL missing: it goes on from there."""
from __future__ import annotations

import functools
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from rftp_common import format_size, printable

from . import host, plan
from .host import Acl, Items, Key, Mount, Store, Target
from .plan import NODE_UNKNOWN, Plan
from .state import Irq, State

# In the order in which items are made; they go in the opposite one. So no initiator can log in
# before all is there, nor after the first item has gone.
ORDER = ("dir", "mount", "file", "store", "store-attribute", "target", "target-attribute", "lun",
         "acl", "auth", "mapped", "portal", "enabled", "cpus", "irq")
# These never go by themselves, but with the item that has them, or are set to another value.
PARTS = ("store-attribute", "target-attribute", "auth", "mapped", "cpus", "irq")
# Another value of these is set; other items are deleted and made anew for it.
SETTABLE = ("file", "store-attribute", "target-attribute", "auth", "cpus", "irq")

# ---- items of a plan ------------------------------------------------------------------

Secrets = dict[tuple[str, str], tuple[str, str]]  # by target and initiator, of both sides


def fixed_attributes(t: plan.Target) -> dict[str, int]:
    """Decided by other members of the plan."""
    return {"authentication": int(any(i.chap for i in t.initiators)),
            "generate_node_acls": int(t.open), "demo_mode_write_protect": int(not t.open),
            "cache_dynamic_acls": int(t.open)}


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
        for name, value in {**fixed_attributes(t), **t.attributes}.items():
            out["target-attribute", t.iqn, name] = value
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


def stores_of(plans: Iterable[Plan]) -> dict[Key, plan.Store]:
    """By the keys of their stores, files and mounts."""
    return {key: s for p in plans for s in p.stores()
            for key in (("store", s.plugin, s.name), ("file", s.file), ("mount", s.path))}


@dataclass
class Ask:
    """One change: all that it depends on, and what it finds."""
    want: Plan | None = None  # None: all that is ours is to go
    state: State = field(default_factory=lambda: State("", ""))  # as it was found
    others: list[State] = field(default_factory=list)
    actual: Items = field(default_factory=dict)  # all of this host's
    secrets: Secrets = field(default_factory=dict)
    cpus: str | None = None  # the list for LIO's threads; None: as it is
    irqs: list[Irq] = field(default_factory=list)  # as they are to be
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
        """Of our plans, and of the wanted one."""
        return stores_of([*reversed(self.state.plans()), *filter(None, [self.want])])

    def is_guest(self, key: Key, value: Any) -> bool:
        """Has another program put it into a target of ours?"""
        if key[0] == "lun":
            return ("store", *value) not in self.ours
        return key[0] in ("portal", "acl") and key not in self.ours


def have(ask: Ask) -> Items:
    """Items of the host that are ours, are named by the plan, or are in such a target."""
    named = {**ask.ours, **items_of(ask.want.targets if ask.want else ())}
    out: Items = {("dir", path): True for path in ask.state.made if host.is_directory(path)}
    for key, value in ask.actual.items():
        kind = key[0]
        in_target = kind in ORDER and ORDER.index(kind) > ORDER.index("target-attribute")
        if kind == "mount" and value.source != host.MOUNT_SOURCE:
            continue
        if key in named or kind == "cpus" or in_target and ("target", key[1]) in named:
            out[key] = value
    for key in named:
        mount = ("mount", os.path.dirname(str(key[1])))
        if key[0] == "file" and host.size_of(key[1]) >= 0 and (mount not in named or mount in out):
            out[key] = host.size_of(key[1])
    out.update((("irq", i.irq), i.was) for i in ask.irqs)
    return out


# ---- wanted ---------------------------------------------------------------------------


def _keep_made(ask: Ask, has: Items, out: Items) -> None:
    """Directories and files that were made for our plans, and stay though no plan needs them. Files
    only go when remove is asked for that."""
    users = [(f"{s.path}/", o.name) for o in ask.others for p in o.plans() for s in p.stores()]
    users += [(s.path, key[2]) for key, s in host.under(ask.actual, "store") if key not in ask.ours]
    may_go = set()
    for path in ask.state.made:
        if any(f"{s.path}/".startswith(path + "/") for s in (ask.want.stores() if ask.want else ())
               if s.path):
            continue
        user = next((u for at, u in users if at == path or at.startswith(path + "/")
                     and at.endswith("/")), "")
        if ("dir", path) in has:
            out.update({("dir", path): True} if user else {})
        elif not user and ask.destroy and not ask.want:
            may_go.add(path)
        elif host.size_of(path) >= 0:
            why = f": {printable(user)} has it, too" if user else ", with what is in it"
            ask.notes.append(f"{printable(path)} stays{why}")
    out.update((key, value) for key, value in host.under(has, "file") if key not in out and
               ("mount", os.path.dirname(key[1])) not in has and key[1] not in may_go)


def wish(ask: Ask, has: Items) -> Items:
    """Items as ask.want has them."""
    out = items_of(ask.want.targets if ask.want else (), ask.secrets)
    for s in ask.want.stores() if ask.want else ():
        if s.plugin != "fileio":
            continue
        parts = os.path.dirname(s.file).split("/")
        for level in ("/".join(parts[:n]) for n in range(2, len(parts) + 1)):
            if ("dir", level) in has or host.size_of(level) < 0:
                out["dir", level] = True
        # LIO may have a file that was removed or renamed; it keeps it as long as nothing changes.
        parts_of = (("store", s.plugin, s.name), ("mount", s.path))
        if all(has.get(key) == out.get(key) for key in parts_of):
            out["file", s.file] = has.get(("file", s.file))
    # In a target that stays, the things of others stay, too.
    out.update((key, value) for key, value in has.items() if key not in out and len(key) > 1
               and ("target", key[1]) in out and ask.is_guest(key, value))
    _keep_made(ask, has, out)
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


def parents(key: Key, value: Any, mounts: Items) -> list[Key]:
    """Items without which this one cannot be."""
    kind = key[0]
    if kind in ("file", "store"):
        mount = ("mount", os.path.dirname(key[1] if kind == "file" else value.path))
        return [mount] if mount in mounts else []
    if kind == "store-attribute":
        return [("store", key[1], key[2])]
    if kind == "lun":
        return [("target", key[1]), ("store", *value)]
    if kind == "auth":
        return [("acl", key[1], key[2])]
    if kind == "mapped":
        return [("acl", key[1], key[2]), ("lun", key[1], value[0])]
    return [("target", key[1])] if kind in ("target-attribute", "acl", "portal", "enabled") else []


def _anew(key: Key, was: Any, to: Any) -> bool:
    """Has it to be deleted, and made again?"""
    if key[0] == "target":
        # LIO goes on to let in all that have logged in while a target was open.
        return was.whole != to.whole or was.open and not to.open
    return key[0] not in (*SETTABLE, "mapped") and was != to


def _by_order(items: Items) -> list[Key]:
    return sorted((k for k in items if k[0] in ORDER), key=lambda key: ORDER.index(key[0]))


def differences(has: Items, wants: Items, stores: dict[Key, plan.Store]) -> list[Difference]:
    """First the items that go, from the outside in, then those that come. stores: as of
    Ask.stores."""
    mounts = {key: value for key, value in {**has, **wants}.items() if key[0] == "mount"}
    gone: dict[Key, None] = {}
    for key in _by_order(has):
        unwanted = key not in wants and key[0] not in PARTS
        changed = key in wants and _anew(key, has[key], wants[key])
        orphan = any(p in gone or p not in has and p[0] == "mount"
                     for p in parents(key, has[key], mounts))
        if unwanted or changed or orphan:
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
         "enabled": ("enable", "disable")}


def describe(key: Key) -> str:
    return printable(NAMES[key[0]].format(*key[1:]))


def value_text(key: Key, value: Any) -> str:
    """Behind "is"; "": nothing can be said but that it is there."""
    kind = key[0]
    if kind == "mount":
        return f"{format_size(value.size)} of node {value.nodes}, {value.policy}"
    if kind == "file":
        return format_size(value)
    if kind == "store":
        cache = ", write-back" if value.write_back else ", write-through"
        size = format_size(value.size) if value.size else "of all of its device"
        return size + (cache if key[1] == "fileio" else "")
    if kind == "lun":
        return printable(f"back store {value[1]}")
    if kind == "auth":
        return f"{'a' if value[0] else 'no'} secret, {'and one' if value[2] else 'none'} in return"
    if kind == "mapped":
        return f"LUN {value[0]} of the target{', read-only' if value[1] else ''}"
    if kind == "portal":
        return "with iSER" if value else "without iSER"
    if kind in ("cpus", "irq"):
        return f"on CPUs {value}"
    return str(value) if kind.endswith("attribute") else ""


def text(d: Difference) -> str:
    come, go = VERBS.get(d.key[0], ("create", "delete"))
    if d.to is None:
        return f"{go} {describe(d.key)}"
    to = value_text(d.key, d.to)
    if d.key[0] == "store" and d.node != NODE_UNKNOWN:
        to += f", on node {d.node}"
    verb = come if d.was is None and d.key[0] not in ("cpus", "irq") else "set"
    return f"{verb} {describe(d.key)}{': ' + to if to else ''}"
