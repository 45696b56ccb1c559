# SPDX-License-Identifier: Apache-2.0
"""The command status: the targets of the applied plans, and where their data really is; as text,
or as one JSON object."""
from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, field
from typing import Any

from . import host, plan, state, topology
from .common import Options, DONE, Failure, format_ids, format_size, output, parse_ids, printable
from .plan import NODE_UNKNOWN


@dataclass
class Seen:
    lio: host.Lio
    machine: topology.Host
    states: list[state.State]
    certain: bool  # all plans of this host could be read
    unseen: list[str] = field(default_factory=list)  # things that could not be looked at, and why

    def plan_targets(self, of: state.State) -> dict[str, plan.Target]:
        """By IQN. A plan that was being applied may have made something, too."""
        out: dict[str, plan.Target] = {}
        for t in (t for p in of.plans() for t in p.targets):
            out.setdefault(str(t.iqn), t)
        return out

    def others(self) -> list[host.Target]:
        ours = {iqn for s in self.states for iqn in self.plan_targets(s)}
        return [t for t in self.lio.targets if t.iqn not in ours]


def read_states(given: str | None, name: str | None, unseen: list[str]) -> tuple[list[state.State],
    bool]:
    """Those with a plan, and whether these are all. One that cannot be read is a line in unseen,
    and does not hide the others; but it is a Failure when it is asked for by its name."""
    if name is not None:
        try:
            one = state.read(given, name)
        except Failure as why:
            raise Failure("%s%s" % (why, "; use sudo" if isinstance(why.__cause__, PermissionError)
                                    else "")) from why
        if not one.plan:
            raise Failure("%s: no plan of this name was applied here" % printable(name))
        return [one], False
    found, certain = [], True
    try:
        known = state.names_of(given)
    except Failure as why:
        root = "; root may see it" if isinstance(why.__cause__, PermissionError) else ""
        unseen.append("which plans were applied: %s%s" % (why, root))
        return [], False
    for each in known:
        try:
            found.append(state.read(given, each))
        except Failure as why:
            unseen.append("the plan %s: %s" % (each, why))
            certain = False
    return [s for s in found if s.plan], certain


def kind_of(store: host.Store, where: host.Where) -> str:
    names = {"iblock": "block device", "rd_mcp": "ramdisk", "fileio": "file"}
    return "tmpfs" if where.kind == "pages" else names.get(store.plugin, store.plugin)


def nodes_text(nodes: str) -> str:
    several = "" if nodes.isdigit() else "s"
    return "node%s %s" % (several, nodes) if nodes else "no node that is known"


def node_text(node: int) -> str:
    return nodes_text("" if node == NODE_UNKNOWN else str(node))


def pages_text(pages: host.Pages) -> str:
    return ", ".join("%s on node %d" % (format_size(size), node) for node, size in pages.on.items())


# ---- one object: for programs, and for the text ---------------------------------------


def _portal(seen: Seen, p: host.Portal, interfaces: list[host.Interface]) -> dict[str, Any]:
    c = host.card(seen.machine, interfaces, p.address)
    out = {"address": p.address, "port": p.port, "iser": p.iser, "here": bool(c.netdev)}
    return out if not c.netdev else dict(
        out, netdev=c.netdev, node=None if c.node == NODE_UNKNOWN else c.node, rdma=c.rdma or None,
        interrupts=c.irqs,
        interrupt_cpus=format_ids(c.irq_cpus),
        interrupt_nodes=format_ids(host.nodes_of(seen.machine, c.irq_cpus)))


def _lun(seen: Seen, iqn: str, lun: host.Lun) -> dict[str, Any]:
    store = seen.lio.store(lun.plugin, lun.store) if lun.store else None
    if not store:
        return {"lun": lun.lun, "store": None}
    where = host.where(seen.machine, store)
    out: dict[str, Any] = {
        "lun": lun.lun, "store": store.name, "plugin": store.plugin, "kind": kind_of(store, where),
        "path": store.path,
        "serial": store.serial, "bytes": store.size, "write_back": store.write_back
        if store.plugin == "fileio" else None,
        "where": where.kind}
    if where.why:
        seen.unseen.append("LUN %d of %s: %s" % (lun.lun, iqn, where.why))
        out["why"] = where.why
    elif where.kind == "pages":
        p = where.pages
        out["pages"] = {"nodes": {str(n): size for n, size in p.on.items()},
                        "never_written": p.holes,
                        "swapped": p.swapped, "sampled": p.sampled}
    elif where.kind in ("device", "page cache"):
        out["device_nodes"] = where.nodes
    return out


def _target(seen: Seen, t: plan.Target, interfaces: list[host.Interface]) -> dict[str, Any]:
    there = seen.lio.target(t.iqn)
    out: dict[str, Any] = {"iqn": t.iqn, "there": bool(there), "node": None
                           if t.node == NODE_UNKNOWN else t.node}
    return out if not there else dict(
        out, enabled=there.enabled, portals=[_portal(seen, p, interfaces) for p in there.portals],
        initiators=[{"name": a.initiator, "logged_in": a.logged_in, "session": a.session}
                    for a in there.acls],
        sessions_without_acl=there.dynamic, luns=[_lun(seen, there.iqn, lun) for lun in there.luns])


def _object(seen: Seen, everything: bool) -> dict[str, Any]:
    interfaces = host.interfaces()
    try:
        threads = host.threads()
    except Failure as why:
        threads = []
        seen.unseen.append("LIO's threads: %s" % why)
    out: dict[str, Any] = {
        "lio": seen.lio.there, "iscsi": seen.lio.iscsi,
        "plans": [{"name": s.name, "applied": bool(s.applied), "applying": bool(s.applying),
                   "restarted": s.restarted,
                   "targets": [_target(seen, t, interfaces) for t in seen.plan_targets(s).values()]}
                  for s in seen.states],
        "cpus_allowed_list": seen.lio.cpus,
        "threads": [{"name": t.name, "pid": t.pid, "worker": t.worker, "cpus": format_ids(t.cpus),
                     "nodes": format_ids(host.nodes_of(seen.machine, t.cpus)), "last_cpu": t.last}
                     for t in threads]}
    if everything:
        out["others"] = [{"iqn": t.iqn, "enabled": t.enabled, "portals": len(t.portals),
                          "luns": len(t.luns),
                          "sessions": t.sessions} for t in seen.others()]
        out["others_certain"] = seen.certain
    return dict(out, unseen=seen.unseen)


# ---- text -----------------------------------------------------------------------------


def _row(name: str, text: str) -> str:
    return "    %-10s %s" % (name, text)


def _portal_text(p: dict[str, Any]) -> str:
    text = "%s port %d, %s; " % (printable(p["address"]), p["port"], "iSER" if p["iser"]
                                 else "TCP alone")
    if not p["here"]:
        return text + "this host does not have the address"
    text += "%s of %s, %s" % (printable(p["netdev"]), node_text(NODE_UNKNOWN if p["node"] is None
        else p["node"]),
                              "RDMA device " + printable(p["rdma"]) if p["rdma"]
                              else "no RDMA device")
    if p["interrupts"]:
        text += ", %d interrupts on CPUs %s of %s" % (p["interrupts"], p["interrupt_cpus"],
                                                      nodes_text(p["interrupt_nodes"]))
    return text


def _where_text(lun: dict[str, Any], node: int) -> str:
    kind = lun["where"]
    if kind == "pages":
        p = host.Pages({int(n): size for n, size in lun["pages"]["nodes"].items()})
        return "pages %s%s%s%s" % (
            pages_text(p) or "none yet",
            ", %s never written" % format_size(lun["pages"]["never_written"])
            if lun["pages"]["never_written"] else "",
            ", %s in swap space" % format_size(lun["pages"]["swapped"]) if lun["pages"]["swapped"]
            else "",
            " (of a sample)" if lun["pages"]["sampled"] else "")
    if kind == "page cache":
        return "in the page cache, on any node; its device is of " + nodes_text(lun["device_nodes"])
    if kind == "device":
        return "of " + nodes_text(lun["device_nodes"])
    if kind == "hidden":
        made = "" if node == NODE_UNKNOWN else "; made under node %d" % node
        return "where its pages are is not visible" + made
    return "its file or device is not there any more by its name" if kind == "gone" else \
        "where it is could not be seen"


def _target_text(t: dict[str, Any], planned: plan.Target) -> list[str]:
    node = "" if planned.node == NODE_UNKNOWN else " for node %d" % planned.node
    if not t["there"]:
        return ["target %s%s: is not there" % (t["iqn"], node)]
    lines = ["target %s%s: %s" % (t["iqn"], node, "enabled" if t["enabled"] else "disabled")]
    lines += [_row("portal", _portal_text(p)) for p in t["portals"]]
    for i in t["initiators"]:
        at = i["session"].partition("Address ")[2].replace(",", " ").split()
        lines.append(_row("initiator", "%s: %s%s" % (
            printable(i["name"]), "logged in" if i["logged_in"] else "not logged in",
            " from " + at[0] if at else "")))
    if t["sessions_without_acl"]:
        lines.append(_row("initiators", "%d session%s of initiators that have no ACL" % (
            t["sessions_without_acl"], "s" * (t["sessions_without_acl"] != 1))))
    for lun in t["luns"]:
        text = "its back store is gone"
        if lun["store"] is not None:
            made_under = next((s.node for s in planned.stores if s.name == lun["store"]),
                              NODE_UNKNOWN)
            cache = "" if lun["write_back"] is None else ", write-%s" % ("back"
                if lun["write_back"] else "through")
            text = "%s, %s%s, %s%s: %s" % (
                printable(lun["store"]), lun["kind"], " " + printable(lun["path"]) if lun["path"]
                else "",
                format_size(lun["bytes"]), cache, _where_text(lun, made_under))
        lines.append(_row("LUN %d" % lun["lun"], text))
    return lines


def _threads_text(threads: list[dict[str, Any]], machine: topology.Host) -> list[str]:
    lines = []
    for name, group in itertools.groupby(threads, key=lambda t: str(t["name"])):
        same = list(group)
        cpus = set().union(*(parse_ids(t["cpus"]) or set() for t in same))
        lines.append("    %-17s %d %s%s may run on CPUs %s of %s, last on %s" % (
            name, len(same), "worker" if same[0]["worker"] else "thread", "s" * (len(same) != 1),
            format_ids(cpus),
            nodes_text(format_ids(host.nodes_of(machine, cpus))), format_ids(t["last_cpu"]
                for t in same)))
    return lines


def _text(seen: Seen, o: dict[str, Any]) -> list[str]:
    lines = []
    for s, p in zip(seen.states, o["plans"]):
        lines.append("plan %s: %s%s%s" % (
            s.name, "applied" if s.applied else "not applied to its end",
            "; another apply was not ended" if s.applying and s.applied else "",
            ", before this host was started again: what tmpfs and ramdisks held is "
            "gone" if p["restarted"] else ""))
        planned = seen.plan_targets(s)
        lines += itertools.chain.from_iterable(_target_text(t, planned[t["iqn"]])
                                               for t in p["targets"])
    if "others" in o and not o["plans"] and seen.certain:
        lines.append("no plan was applied here")
    if not o["lio"]:
        lines.append("the kernel's target (LIO) is not loaded")
    if o["iscsi"]:
        lines.append("threads of all iSCSI targets of this host, CPUs allowed: %s"
                     % (o["cpus_allowed_list"] or "any; this kernel has no cpus_allowed_list"))
        lines += _threads_text(o["threads"], seen.machine)
    for t in o.get("others", ()):
        lines.append("%s: target %s, %s, %d portals, %d LUNs, %d sessions" % (
            "not ours" if seen.certain else "whose is not known", printable(t["iqn"]),
            "enabled" if t["enabled"] else "disabled", t["portals"], t["luns"], t["sessions"]))
    return lines + ["not seen: " + line for line in o["unseen"]]


def run(args: Options) -> int:
    """rftp-iser status."""
    name, unseen = args.words[0] if args.words else None, list[str]()
    try:
        states, certain = read_states(args.state, name, unseen)
        lio = host.read_lio()
        seen = Seen(lio, host.read_machine(lio), states, certain, unseen)
        o = _object(seen, name is None)
        output(json.dumps(o) + "\n" if args.json else "\n".join([*_text(seen, o), ""]))
    except Failure as why:
        if args.json:
            output(json.dumps({"error": str(why)}) + "\n")
        raise
    return DONE
