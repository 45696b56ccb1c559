# SPDX-License-Identifier: Apache-2.0
"""The command status: the targets of the applied plans, and where their data really is; as text,
or as one JSON object."""
from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rftp_common import (DONE, Failure, Options, format_ids, format_size, output, parse_ids,
                         printable)

from . import host, plan, state, topology
from .host import Items, Key
from .plan import NODE_UNKNOWN


@dataclass
class Seen:
    items: Items
    machine: topology.Host
    interfaces: list[host.Interface]
    states: list[state.State]
    certain: bool  # all plans of this host could be read
    unseen: list[str] = field(default_factory=list)  # things that could not be looked at, and why
    where: dict[str, str] = field(default_factory=dict)  # by a store's name, for people


def look(given: str | None, name: str | None, unseen: list[str]) -> Seen:
    """The plans that were applied, and the host. A plan that cannot be read is a line in unseen,
    and does not hide the others; but it is a Failure when it is asked for by its name."""
    found: list[state.State] = []

    def read(what: str, remedy: str, function: Callable[[], Any]) -> Any:
        try:
            return function()
        except Failure as why:
            line = f"{why}{remedy if isinstance(why.__cause__, PermissionError) else ''}"
            if name is not None:
                raise Failure(line) from why
            unseen.append(f"{what}: {line}")

    known = [name] if name is not None else read(
        "which plans were applied", "; root may see it", lambda: state.names_of(given))
    for each in known or ():
        found += filter(None, [read(f"the plan {each}", "; use sudo",
                                    functools.partial(state.read, given, each))])
    found = [s for s in found if s.plan]
    if name is not None and not found:
        raise Failure(f"{printable(name)}: no plan of this name was applied here")
    items = host.read()
    return Seen(items, host.read_machine(items), host.interfaces(), found,
                name is None and not unseen, unseen)


# ---- one object: for programs, and for the text ---------------------------------------


def _portal(seen: Seen, key: Key, iser: bool) -> dict[str, Any]:
    address, port = key[2:]
    card = host.interface(seen.interfaces, address)
    out = {"address": address, "port": port, "iser": iser, "here": card is not None}
    if card:
        cpus, node = card.irq_cpus(), seen.machine.netdev_node(card.netdev)
        all_cpus = set().union(*cpus)
        out.update(netdev=card.netdev, node=None if node == NODE_UNKNOWN else node,
                   rdma=seen.machine.netdev_rdma(card.netdev) or None, interrupts=len(cpus),
                   interrupt_cpus=format_ids(all_cpus),
                   interrupt_nodes=format_ids(host.nodes_of(seen.machine, all_cpus)))
    return out


def _lun(seen: Seen, t: plan.Target, lun: int, plugin: str, name: str) -> dict[str, Any]:
    store = seen.items.get(("store", plugin, name))
    if not store:
        return {"lun": lun, "store": None}
    where = host.where(seen.machine, plugin, store)
    nodes = {s.name: s.node for s in t.stores}
    seen.where[name] = where.text(nodes.get(name, NODE_UNKNOWN))
    kinds = {"iblock": "block device", "rd_mcp": "ramdisk", "fileio": "file"}
    out: dict[str, Any] = {
        "lun": lun, "store": name, "plugin": plugin,
        "kind": "tmpfs" if where.kind == "pages" else kinds.get(plugin, plugin),
        "path": store.path, "serial": store.serial, "bytes": store.bytes,
        "write_back": store.write_back if plugin == "fileio" else None, "where": where.kind}
    if where.why:
        seen.unseen.append(f"LUN {lun} of {t.iqn}: {where.why}")
        out["why"] = where.why
    elif where.kind == "pages":
        p = where.pages
        out["pages"] = {"nodes": {str(n): size for n, size in p.on.items()},
                        "never_written": p.holes, "swapped": p.swapped, "sampled": p.sampled}
    elif where.kind in ("device", "page cache"):
        out["device_nodes"] = where.nodes
    return out


def _target(seen: Seen, t: plan.Target) -> dict[str, Any]:
    items, there = seen.items, seen.items.get(("target", t.iqn))
    out: dict[str, Any] = {"iqn": t.iqn, "there": bool(there),
                           "node": None if t.node == NODE_UNKNOWN else t.node}
    if there:
        out.update(
            enabled=("enabled", t.iqn) in items,
            portals=[_portal(seen, key, iser)
                     for key, iser in host.under(items, "portal", t.iqn)],
            initiators=[{"name": key[2], "logged_in": a.logged_in, "session": a.session}
                        for key, a in host.under(items, "acl", t.iqn)],
            sessions_without_acl=there.sessions,
            luns=[_lun(seen, t, key[2], *store) for key, store in host.under(items, "lun", t.iqn)])
    return out


def _object(seen: Seen, everything: bool) -> dict[str, Any]:
    threads, items = [], seen.items
    try:
        threads = host.threads()
    except Failure as why:
        seen.unseen.append(f"LIO's threads: {why}")
    plans: list[dict[str, Any]] = []
    for s in seen.states:
        # A plan that was being applied may have made something, too.
        targets = {t.iqn: t for p in reversed(s.plans()) for t in p.targets}
        plans.append({"name": s.name, "applied": bool(s.applied), "applying": bool(s.applying),
                      "restarted": s.restarted,
                      "targets": [_target(seen, t) for t in targets.values()]})
    out: dict[str, Any] = {
        "lio": ("lio",) in items, "iscsi": ("iscsi",) in items, "plans": plans,
        "cpus_allowed_list": items.get(("cpus",)),
        "threads": [{"name": t.name, "pid": t.pid, "worker": t.worker, "cpus": format_ids(t.cpus),
                     "nodes": format_ids(host.nodes_of(seen.machine, t.cpus)), "last_cpu": t.last}
                    for t in threads]}
    if everything:
        ours = {t["iqn"] for p in plans for t in p["targets"]}
        others = [key[1] for key, _ in host.under(items, "target") if key[1] not in ours]
        out["others"] = [{"iqn": iqn.partition("/")[0], "enabled": ("enabled", iqn) in items,
                          "portals": len(list(host.under(items, "portal", iqn))),
                          "luns": len(list(host.under(items, "lun", iqn))),
                          "sessions": host.sessions(items, iqn)} for iqn in others]
        out["others_certain"] = seen.certain
    return dict(out, unseen=seen.unseen)


# ---- text -----------------------------------------------------------------------------


def _portal_text(p: dict[str, Any]) -> str:
    text = f"{printable(p['address'])} port {p['port']}, {'iSER' if p['iser'] else 'TCP alone'}; "
    if not p["here"]:
        return text + "this host does not have the address"
    node = host.nodes_text("" if p["node"] is None else str(p["node"]))
    rdma = f"RDMA device {p['rdma']}" if p["rdma"] else "no RDMA device"
    text += printable(f"{p['netdev']} of {node}, {rdma}")
    if p["interrupts"]:
        text += f", {p['interrupts']} interrupts on CPUs {p['interrupt_cpus']} of " + \
            host.nodes_text(p["interrupt_nodes"])
    return text


def _lun_text(seen: Seen, lun: dict[str, Any]) -> str:
    if lun["store"] is None:
        return "its back store is gone"
    path = f" {lun['path']}" if lun["path"] else ""
    cache = "" if lun["write_back"] is None else \
        f", write-{'back' if lun['write_back'] else 'through'}"
    return printable(f"{lun['store']}, {lun['kind']}{path}, {format_size(lun['bytes'])}{cache}: "
                     + seen.where[lun["store"]])


def _target_text(seen: Seen, t: dict[str, Any]) -> list[str]:
    head = f"target {t['iqn']}" + ("" if t["node"] is None else f" for node {t['node']}")
    if not t["there"]:
        return [f"{head}: is not there"]
    rows = [("portal", _portal_text(p)) for p in t["portals"]]
    for i in t["initiators"]:
        at = i["session"].partition("Address ")[2].replace(",", " ").split()
        how = "logged in" if i["logged_in"] else "not logged in"
        rows.append(("initiator", f"{printable(i['name'])}: {how}{' from ' + at[0] if at else ''}"))
    if t["sessions_without_acl"]:
        rows.append(("initiators", f"{t['sessions_without_acl']} without an ACL are logged in"))
    rows += [(f"LUN {lun['lun']}", _lun_text(seen, lun)) for lun in t["luns"]]
    return [f"{head}: {'enabled' if t['enabled'] else 'disabled'}",
            *(f"    {name:10} {text}" for name, text in rows)]


def _text(seen: Seen, o: dict[str, Any]) -> list[str]:
    lines = []
    for s, p in zip(seen.states, o["plans"]):
        line = f"plan {s.name}: " + ("applied" if s.applied else "not applied to its end")
        if s.applying and s.applied:
            line += "; another apply was not ended"
        if p["restarted"]:
            line += ", before this host was started again: what tmpfs and ramdisks held is gone"
        lines += [line, *(row for t in p["targets"] for row in _target_text(seen, t))]
    if "others" in o and not o["plans"] and seen.certain:
        lines.append("no plan was applied here")
    if not o["lio"]:
        lines.append("the kernel's target (LIO) is not loaded")
    if o["iscsi"]:
        lines.append("threads of all iSCSI targets of this host, CPUs allowed: "
                     + (o["cpus_allowed_list"] or "any; this kernel has no cpus_allowed_list"))
        for name, group in itertools.groupby(o["threads"], key=lambda t: str(t["name"])):
            same = list(group)
            cpus = set().union(*(parse_ids(t["cpus"]) or set() for t in same))
            nodes = host.nodes_text(format_ids(host.nodes_of(seen.machine, cpus)))
            what = ("worker" if same[0]["worker"] else "thread") + "s" * (len(same) != 1)
            lines.append(f"    {name:17} {len(same)} {what} may run on CPUs {format_ids(cpus)} of "
                         f"{nodes}, last on {format_ids(t['last_cpu'] for t in same)}")
    for t in o.get("others", ()):
        whose = "not ours" if seen.certain else "whose is not known"
        lines.append(f"{whose}: target {printable(t['iqn'])}, "
                     f"{'enabled' if t['enabled'] else 'disabled'}, {t['portals']} portals, "
                     f"{t['luns']} LUNs, {t['sessions']} sessions")
    return lines + ["not seen: " + line for line in o["unseen"]]


def run(args: Options) -> int:
    """rftp-iser status."""
    name = args.words[0] if args.words else None
    try:
        seen = look(args.state, name, [])
        o = _object(seen, name is None)
        output(json.dumps(o) + "\n" if args.json else "\n".join([*_text(seen, o), ""]))
    except Failure as why:
        if args.json:
            output(json.dumps({"error": str(why)}) + "\n")
        raise
    return DONE
