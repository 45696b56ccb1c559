# SPDX-License-Identifier: Apache-2.0
"""The command status: the targets of the applied plans, and where their data really is. Each part
of it is an object for programs, and a text for people."""
from __future__ import annotations

import itertools
import os
from dataclasses import dataclass
from typing import Any

from rftp_common import (DONE, Failure, Options, failures_to, format_ids, format_size, json_line,
                         output, parse_ids, printable)
from rftp_machine import NODE_UNKNOWN
from rftp_numa import placement

from . import host, plan, state
from .host import Items, Key

Object = dict[str, Any]


@dataclass
class Seen:
    items: Items
    machine: host.Host
    states: list[state.State]
    certain: bool  # all plans of this host could be read
    unseen: list[str]  # things that could not be looked at, and why


def look(given: str | None, name: str | None, unseen: list[str]) -> Seen:
    """The plans that were applied, and the host. A plan that cannot be read is a line in unseen,
    and does not hide the others; but it is a Failure when it is asked for by its name."""
    found = [state.read(given, name)] if name is not None else []
    with failures_to(unseen.append, "which plans were applied: "):
        for each in state.names_of(given) if name is None else ():
            with failures_to(unseen.append, f"the plan {each}: "):
                found.append(state.read(given, each))
    found = [s for s in found if s.plan]
    if name is not None and not found:
        raise Failure(state.no_plan(name))
    items = host.read()
    machine = host.read_host(s.path for _, s in host.under(items, "store")
                             if s.path and os.path.exists(s.path))
    return Seen(items, machine, found, name is None and not unseen, unseen)


# ---- parts: an object for programs, and a text for people -----------------------------


def _portal(seen: Seen, key: Key, iser: bool) -> tuple[Object, str]:
    address, port = key[2:]
    card = seen.machine.card_of(address)
    out = {"address": address, "port": port, "iser": iser, "here": card is not None}
    text = f"{address} port {port}, {'iSER' if iser else 'TCP alone'}; "
    if not card:
        return out, text + "this host does not have the address"
    irqs, node = placement.irqs_of(card.name), seen.machine.nics[card.name].node
    cpus = set().union(*(placement.irq_cpus(i, "effective") or placement.irq_cpus(i) or ()
                         for i in irqs))
    nodes = format_ids(seen.machine.nodes_of(cpus))
    out.update(netdev=card.name, node=None if node == NODE_UNKNOWN else node,
               rdma=card.rdma or None, interrupts=len(irqs), interrupt_cpus=format_ids(cpus),
               interrupt_nodes=nodes)
    text += (f"{card.name} of {host.nodes_text(node)}, "
             f"{'RDMA device ' + card.rdma if card.rdma else 'no RDMA device'}")
    if irqs:
        text += f", {len(irqs)} interrupts on CPUs {format_ids(cpus)} of {host.nodes_text(nodes)}"
    return out, text


def _lun(seen: Seen, t: plan.Target, lun: int, plugin: str, name: str) -> tuple[Object, str]:
    store = seen.items.get(("store", plugin, name))
    if not store:
        return {"lun": lun, "store": None}, "its back store is gone"
    node = next((s.node for s in t.stores if s.name == name), NODE_UNKNOWN)
    where, where_text = host.where(seen.machine, plugin, store, node)
    kinds = {"iblock": "block device", "rd_mcp": "ramdisk", "fileio": "file"}
    kind = "tmpfs" if "pages" in where else kinds.get(plugin, plugin)
    write_back = store.write_back if plugin == "fileio" else None
    if "why" in where:
        seen.unseen.append(f"LUN {lun} of {t.iqn}: {where['why']}")
    cache = {None: "", True: ", write-back", False: ", write-through"}[write_back]
    return {"lun": lun, "store": name, "plugin": plugin, "kind": kind, "path": store.path,
            "serial": store.serial, "bytes": store.bytes, "write_back": write_back, **where}, \
        (f"{name}, {kind} {store.path}".rstrip() + f", {format_size(store.bytes)}{cache}: "
         f"{where_text}")


def _target(seen: Seen, t: plan.Target) -> tuple[Object, list[str]]:
    items, there = seen.items, seen.items.get(("target", t.iqn))
    out: Object = {"iqn": t.iqn, "there": bool(there),
                   "node": None if t.node == NODE_UNKNOWN else t.node}
    head = f"target {t.iqn}" + ("" if t.node == NODE_UNKNOWN else f" for node {t.node}")
    if not there:
        return out, [f"{head}: is missing"]
    enabled, initiators = ("enabled", t.iqn) in items, []
    portals = [_portal(seen, key, iser) for key, iser in host.under(items, "portal", t.iqn)]
    rows = [("portal", text) for _, text in portals]
    for key, acl in host.under(items, "acl", t.iqn):
        initiators.append({"name": key[2], "logged_in": acl.logged_in, "session": acl.session})
        at = acl.session.partition("Address ")[2].replace(",", " ").split()
        how = "logged in" if acl.logged_in else "not logged in"
        rows.append(("initiator", f"{key[2]}: {how}{' from ' + at[0] if at else ''}"))
    if there.sessions:
        rows.append(("initiators", f"{there.sessions} without an ACL are logged in"))
    luns = [_lun(seen, t, key[2], *store) for key, store in host.under(items, "lun", t.iqn)]
    rows += [(f"LUN {lun['lun']}", text) for lun, text in luns]
    out.update(enabled=enabled, portals=[p for p, _ in portals], initiators=initiators,
               sessions_without_acl=there.sessions, luns=[lun for lun, _ in luns])
    return out, [f"{head}: {'enabled' if enabled else 'disabled'}",
                 *(f"    {name:10} {printable(text)}" for name, text in rows)]


def _plan(seen: Seen, s: state.State) -> tuple[Object, list[str]]:
    # A plan that was being applied may have made something, too.
    targets = {t.iqn: t for p in reversed(s.plans()) for t in p.targets}
    parts = [_target(seen, t) for t in targets.values()]
    line = f"plan {s.name}: " + ("applied" if s.applied else "not applied to its end")
    if s.applying and s.applied:
        line += "; another apply was not ended"
    if s.restarted:
        line += ", before this host was restarted: the data of tmpfs and ramdisks is gone"
    return {"name": s.name, "applied": bool(s.applied), "applying": bool(s.applying),
            "restarted": s.restarted, "targets": [t for t, _ in parts]}, \
        [line, *(row for _, rows in parts for row in rows)]


def run(args: Options) -> int:
    """rftp-iser status."""
    name = args.words[0] if args.words else None
    seen = look(args.state, name, [])
    items, plans = seen.items, [_plan(seen, s) for s in seen.states]
    threads = host.threads(seen.machine)
    out: Object = {"lio": ("lio",) in items, "iscsi": ("iscsi",) in items,
                   "plans": [p for p, _ in plans], "cpus_allowed_list": items.get(("cpus",)),
                   "threads": threads}
    lines = [line for _, rows in plans for line in rows]
    if name is None and not plans and seen.certain:
        lines.append("no plan was applied here")
    if not out["lio"]:
        lines.append("the kernel's target (LIO) is not loaded")
    if out["iscsi"]:
        lines.append("threads of all iSCSI targets of this host, CPUs allowed: "
                     + (out["cpus_allowed_list"] or "any; this kernel has no cpus_allowed_list"))
    for called, group in itertools.groupby(threads if out["iscsi"] else (),
                                           key=lambda t: str(t["name"])):
        same = list(group)
        cpus = set().union(*(parse_ids(t["cpus"]) or set() for t in same))
        kind = ("worker" if same[0]["worker"] else "thread") + "s" * (len(same) != 1)
        lines.append(f"    {called:17} {len(same)} {kind} may run on CPUs {format_ids(cpus)} of "
                     f"{host.nodes_text(format_ids(seen.machine.nodes_of(cpus)))}, last on "
                     f"{format_ids(t['last_cpu'] for t in same)}")
    if name is None:
        ours = {t.iqn for s in seen.states for p in s.plans() for t in p.targets}
        out.update(others=[], others_certain=seen.certain)
        for iqn, t in ((k[1], t) for k, t in host.under(items, "target") if k[1] not in ours):
            portals, luns = (len([*host.under(items, kind, iqn)]) for kind in ("portal", "lun"))
            sessions = t.sessions + sum(a.logged_in for _, a in host.under(items, "acl", iqn))
            target, enabled = iqn.partition("/")[0], ("enabled", iqn) in items
            out["others"].append({"iqn": target, "enabled": enabled, "portals": portals,
                                  "luns": luns, "sessions": sessions})
            lines.append(f"{'not ours' if seen.certain else 'of an unknown owner'}: target "
                         f"{printable(target)}, {'enabled' if enabled else 'disabled'}, {portals} "
                         f"portals, {luns} LUNs, {sessions} sessions")
    lines += ["not seen: " + line for line in seen.unseen]
    out["unseen"] = seen.unseen
    output(json_line(out) if args.json else "\n".join([*lines, ""]))
    return DONE
