# SPDX-License-Identifier: Apache-2.0
"""Findings about a plan on a host, before anything is changed: obstacles, and data that would be
lost. Portals and memory are judged here for plan, apply and verify alike."""
from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from typing import NamedTuple

from rftp_common import at_place, entries, failures_to, format_size, output_of, printable
from rftp_machine import NODE_UNKNOWN, Node

from . import host, plan
from .converge import Ask, Difference, Secrets, describe, items_of, parents, text, value_text
from .host import Items, Key

RESERVE = 10  # a plan leaves one part in so many of a node's memory to the kernel and programs


class Finding(NamedTuple):
    """right: None: it is legal, but to be told when planning. check: a word that stays the same."""
    check: str
    right: bool | None
    text: str
    mend: str = ""


def _refuse(ask: Ask, s: plan.Store, why: str) -> None:
    ask.problems.append(f"back store {s.name}: {why}")


# ---- things of others -----------------------------------------------------------------


def _check_others(ask: Ask, want: plan.Plan) -> None:
    """Names, serials and paths that another plan, or another program, has."""
    theirs = {key: f"the plan {o.name}" for o in ask.others for p in o.plans()
              for key in items_of(p.targets) if key[0] in ("store", "target")}
    targets = {key[1].split("/")[0] for key, _ in host.under(ask.actual, "target")}
    for key in items_of(want.targets):
        there, ours, foreign = ask.actual.get(key), key in ask.ours, False
        if key[0] == "store":
            foreign = there is not None and not ours
        elif key[0] == "target":
            foreign = key[1] in targets and not (ours and there)
        elif key[0] == "lun" and there:
            foreign = ("target", key[1]) in ask.ours and there[1] and ask.is_guest(key, there)
        if key in theirs or foreign:
            ask.problems.append(f"{describe(key)}: {theirs.get(key, 'LIO')} has it already, and "
                                "this plan did not make it; use another name, or take it out with "
                                "targetcli")
    for s in want.stores():
        # The owner of a store; has it the same serial, and the same path?
        found = [(f"the plan {o.name}", other.serial == s.serial,
                  s.path == other.path != "" or s.hides(other) or other.hides(s))
                 for o in ask.others for p in o.plans() for other in p.stores()]
        found += [(f"LIO's back store {printable(key[2])}",
                   other.serial == s.serial and key not in ask.ours,
                   s.kind != "tmpfs" and s.path == other.path != "" and key[2] != s.name)
                  for key, other in host.under(ask.actual, "store")]
        for owner, same_serial, same_path in found:
            if same_serial:
                _refuse(ask, s, f"{owner} has its serial, by which initiators know a disk; draw "
                              "another, as uuidgen does")
            if same_path:
                _refuse(ask, s, f"{owner} has its path {s.path}; use another one")


# ---- data that would be lost ----------------------------------------------------------


def _loses(ask: Ask, s: plan.Store, d: Difference, wants: Items) -> bool:
    """Has a store that is served other data after the difference, or none?"""
    key, lossy = ("store", s.plugin, s.name), d.lossy
    there = ask.actual.get(key)
    if d.key == key and d.to is None:
        mount = ("mount", os.path.dirname(d.was.path))
        moved = mount not in ask.ours and key in wants and wants[key].path != d.was.path
        # Only LIO still has a file after it was removed or renamed, or its tmpfs unmounted.
        unmounted = mount in ask.ours and mount not in ask.actual
        nameless = key[1] == "fileio" and (unmounted or host.size_of(d.was.path) < 0)
        other_kind = key not in wants and any(k[2] == s.name
                                              for k, _ in host.under(wants, "store"))
        lossy = lossy or moved or nameless or other_kind
    served = there.enabled if there else key in ask.applied
    if d.key[0] == "mount":  # its store may have another name by now, or be half made
        served = d.key in ask.applied or any(
            other.enabled and os.path.dirname(other.path) == d.key[1]
            for _, other in host.under(ask.actual, "store", "fileio"))
    return bool(lossy and (served or d.key[0] == "file" and d.key in ask.ours))


def _check_data(ask: Ask, s: plan.Store, d: Difference, wants: Items) -> None:
    """A file that was there before it is served is taken as it is. One that was served and is gone
    would be an empty disk to an initiator that has a filesystem on it."""
    served, was_applied = ("store", s.plugin, s.name) in ask.actual, d.key in ask.applied
    is_file = d.key[0] == "file" == s.kind and d.to is not None
    kept = s.kind == "tmpfs" and ("mount", s.path) in ask.actual and host.size_of(s.file) > 0
    if is_file and d.was is None and was_applied and not served and not ask.destroy:
        _refuse(ask, s, f"its file {s.path} is missing; mount the filesystem that it is "
                      "on, or let --destroy-data make a new, empty one")
    elif is_file and d.was is not None and d.key not in ask.ours:
        _refuse(ask, s, f"{s.path} exists, and has {d.was} bytes, not {d.to}; have the "
                      "plan say its size, or use another path")
    elif d.key[0] == "store" and s.forgets and was_applied and not served and not kept:
        how = "the host was restarted" if ask.state.restarted else "another program has removed it"
        ask.notes.append(f"back store {s.name}: its data is gone: it was in memory, and {how}")
    elif _loses(ask, s, d, wants):
        if not ask.want and s.forgets:
            ask.notes.append(f"back store {s.name}: its data, up to {format_size(s.size)}, is lost "
                             "with it")
        elif ask.destroy:
            ask.notes.append(f"back store {s.name}: {text(d)}: its data is lost")
        else:
            _refuse(ask, s, f"{text(d)}: its data would be lost, which only --destroy-data "
                          "allows")


# ---- initiators that are logged in, and guests ----------------------------------------


def _disturbed(ask: Ask, iqn: str, why: str, initiator: str = "") -> None:
    """initiator: this one alone."""
    users = [f"the initiator {printable(key[2])} is"
             for key, acl in host.under(ask.actual, "acl", iqn)
             if acl.logged_in and initiator in ("", key[2])]
    if ask.actual["target", iqn].sessions and not initiator:
        users.append(f"{ask.actual['target', iqn].sessions} initiators that it does not name are")
    if users and not ask.force:
        ask.problems.append(f"target {iqn}: {users[0]} logged in, and {why}; log out there first, "
                            "or end its sessions with --force")


def _check_going(ask: Ask, key: Key, anew: bool, alone: bool) -> None:
    """An item that goes. anew: it comes again. alone: its target stays."""
    kind, name = key[0], key[-1]
    if kind == "target" and ask.actual[key].whole:
        why = "it has to be closed, and made again" if anew else "it would be deleted"
        _disturbed(ask, name, why)
        # Things that others have put into the target go with it. The user may not know that when
        # it comes again.
        for guest, value in ask.actual.items():
            if guest[1:2] == key[1:] and ask.is_guest(guest, value):
                told = ", ".join(filter(None, (describe(guest), value_text(guest, value))))
                told = f"target {name}: {told}, which this plan did not make, "
                if anew:
                    ask.problems.append(f"{told}would be gone: {why}; take that out with targetcli")
                else:
                    ask.notes.append(f"{told}goes with it")
    elif kind == "lun" and alone:
        _disturbed(ask, key[1], f"its LUN {name} would be deleted, if only for a moment")
    elif kind == "acl" and alone:
        _disturbed(ask, key[1], "would lose its access", name)
    elif kind == "store":
        ask.problems += [f"back store {name}: the target {printable(iqn)}, which this plan did not "
                         f"make, serves it; take LUN {lun} out there with targetcli"
                         for (_, iqn, lun), served in host.under(ask.actual, "lun")
                         if served == key[1:] and ("target", iqn) not in ask.ours]


def check(ask: Ask, has: Items, wants: Items, diffs: list[Difference]) -> None:
    """Pure: problems and notes into ask."""
    gone = [d.key for d in diffs if d.to is None]
    if ask.want:
        _check_others(ask, ask.want)
    for d in diffs:
        if d.key in ask.stores:
            _check_data(ask, ask.stores[d.key], d, wants)
    for key, s in ask.stores.items():
        # An administrator may have deleted ours, and made one of the same name.
        serials = [o.serial for p in ask.state.plans() for o in p.stores()
                   if (o.plugin, o.name) == key[1:]]
        there = ask.actual.get(key)
        if key[0] == "store" and key not in wants and there and there.serial not in ("", *serials):
            _refuse(ask, s, "LIO's store of this name has another serial than ours: another "
                          "program has made it; take it out with targetcli, if it is to go")
        if key[0] == "mount" and key in has and has[key].covered:
            _refuse(ask, s, f"something else is mounted over its tmpfs at {s.path}; unmount that "
                          "first")
    for key, value in ask.applied.items():
        if key[0].endswith("-attribute") and key not in wants and key in has and all(
                p in wants and p not in gone for p in parents(key, value, {})):
            ask.notes.append(f"{describe(key)} stays {value}, though the plan names it no more")
    for key in gone:
        _check_going(ask, key, key in wants, ("target", *key[1:2]) not in gone)


# ---- can the host do it? --------------------------------------------------------------


def secrets(p: plan.Plan, problems: list[str]) -> Secrets:
    """"" where the plan has none, or it cannot be read."""
    out: Secrets = {}
    for t, i in ((t, i) for t in p.targets for i in t.initiators):
        found = ["", ""]
        for at, way in enumerate((i.chap, i.mutual)):
            with failures_to(problems.append):
                found[at] = plan.read_secret(way.secret_file) if way else ""
        own, mutual = out[str(t.iqn), str(i.name)] = found[0], found[1]
        if i.chap and i.mutual and own == mutual != "":
            # A stranger could have the target's own answer from it (RFC 7143, section 9.2.1).
            problems.append(printable(f"{i.chap.secret_file} and {i.mutual.secret_file} have the "
                                      "same secret; draw another"))
    return out


def portal(t: plan.Target, p: plan.Portal, machine: host.Host) -> Iterator[Finding]:
    """Of its address, and of the network card that has it."""
    card = machine.card_of(p.address, p.netdev)
    if not card:
        yield Finding("address", False, "this host has no such address", "ip address add "
                      f"{p.address}/PREFIX dev {p.netdev or 'CARD'}, or change the plan")
        return
    name, node = card.name, card.node
    yield Finding("address", True, f"is {name}'s")
    if p.netdev not in ("", name):
        yield Finding("netdev", False, f"the address is on {name}, and not on {p.netdev} as "
                      "planned", "move it there, or change the plan")
    if not card.up:
        yield Finding("up", False, f"its card {name} is down", f"ip link set {name} up")
    if card.rdma and p.iser:
        yield Finding("rdma", True, f"{name} is used by the RDMA device {card.rdma}")
    elif p.iser:
        yield Finding("rdma", False, f"{name} has no RDMA device, which iSER needs", "load its "
                      f"driver, make a soft one (rdma link add rxe_{name} type rxe netdev {name}), "
                      "or say \"iser\": false")
    elif not card.rdma:
        yield Finding("tcp", None, f"{name} has no RDMA device: by plain iSCSI over TCP")
    says = f"{name} is a card of {host.nodes_text(node)}"
    if node == t.node or t.node == NODE_UNKNOWN:
        yield Finding("card-node", True, says)
    else:
        yield Finding("card-node", None if node == NODE_UNKNOWN else False, f"{says}, and the "
                      f"target is for node {t.node}: all data goes from node to node",
                      f"move the address to a card of node {t.node}, or change the plan")


def memory(diffs: list[Difference], machine: host.Host) -> Iterator[Finding]:
    """Has each node enough of it, and the host?"""
    # A node that is not there has none.
    ids = {*machine.nodes, *(d.node for d in diffs if d.memory > 0)} - {NODE_UNKNOWN}
    nodes = [machine.nodes.get(i, Node(i, set(), {}, 0)) for i in sorted(ids)]
    places = [(f"node {n.id}", n.memory, n.room, [d for d in diffs if d.node == n.id])
              for n in nodes]
    if len(nodes) > 1 and all(n.memory is not None for n in nodes):
        places.append(("this host", sum(n.memory or 0 for n in nodes), sum(n.room for n in nodes),
                       diffs))
    short = False
    for place, memory_of, room, some in places:
        needed = sum(d.memory for d in some)
        bound = sum(d.memory for d in some if d.strictly or d.memory < 0 or some is diffs)
        says = (f"the back stores need {format_size(needed)} more of the memory of {place}, which "
                f"can give {format_size(room)}")
        # If a node has too little, the whole host may have, too.
        if all(d.memory <= 0 for d in some) or short and some is diffs:
            continue
        if memory_of is None:
            yield Finding("memory", None, f"memory of {place} is not known")
        elif bound > room:
            short = True
            yield Finding("memory", False, f"memory does not suffice: {says}", "make them smaller")
        elif needed > room:
            yield Finding("memory", None, f"memory does not suffice: {says}")
        elif room - needed < memory_of // RESERVE:
            yield Finding("memory", None, f"memory is tight: {says}: less than a tenth is left")


def _fault_of_place(ask: Ask, s: plan.Store) -> str:
    """Why the path cannot be used for the store."""
    path, there = str(s.path), ask.actual.get(("store", s.plugin, s.name))
    mount = ask.actual.get(("mount", path))
    ours = mount and mount.source == host.MOUNT_SOURCE and ("mount", path) in ask.ours
    if s.kind == "block" and not (there and there.path == path):
        try:
            if not stat.S_ISBLK(os.stat(path).st_mode):
                return " is not a block device; is it to be of the kind file?"
            # With O_EXCL the kernel says whether it, or a partition of it, is in use.
            os.close(os.open(path, os.O_RDWR | os.O_EXCL | os.O_CLOEXEC))
        except OSError as why:
            in_use = " is in use: mounted, swap space, or part of something else (lsblk tells)"
            return in_use if why.errno == errno.EBUSY else f": {why.strerror}"
    if s.kind == "file":
        above = path
        while not os.path.exists(above):
            above = os.path.dirname(above)
        filesystem, more = os.statvfs(above), s.size - max(host.size_of(path), 0)
        if not os.path.isdir(above) and above != path:
            return f": {above}: {os.strerror(errno.ENOTDIR)}"
        if filesystem.f_flag & os.ST_RDONLY:
            return " is on a filesystem that is read-only"
        if more > filesystem.f_bavail * filesystem.f_frsize:
            return (f" needs {format_size(more)} more than its filesystem has left: make it "
                    "smaller, or use another path")
    if s.kind == "tmpfs" and not ours and os.path.lexists(path):
        if not host.is_directory(path) or os.path.ismount(path) or entries(path):
            return ", the mount point of its tmpfs, is not an empty directory; use another path"
    return ""


def check_host(ask: Ask, want: plan.Plan, machine: host.Host, diffs: list[Difference]) -> None:
    """Can the host do it? Its addresses and cards, paths, and memory. Problems into ask."""
    for t in want.targets:
        # Data may go from node to node.
        ask.problems += [printable(f"portal {p.address} of {t.iqn}: {f.text}; {f.mend}")
                         for p in t.portals for f in portal(t, p, machine)
                         if f.right is False and f.check != "card-node"]
        for p in t.portals:
            ask.problems += [
                f"portal {p.address} port {p.port} of {t.iqn}: the target {printable(iqn)} listens "
                "on this port of all addresses; use another port, or delete that portal with "
                "targetcli" for (_, iqn, address, port), _ in host.under(ask.actual, "portal")
                if address in ("0.0.0.0", "::") and port == p.port
                and ("target", iqn) not in ask.ours]
    for s, fault in ((s, _fault_of_place(ask, s)) for s in want.stores()):
        if fault:
            _refuse(ask, s, f"{s.path}{fault}")
    ask.problems += [f"{f.text}; {f.mend}" for f in memory(diffs, machine) if f.right is False]


def kernel(p: plan.Plan, load: bool, problems: list[str]) -> None:
    """Its modules, last: they stay loaded when something else is wrong. load: else it is only asked
    whether they could be. Then configfs, with LIO's iSCSI in it."""
    plugins = {s.plugin for s in p.stores()}
    modules = {"target_core_mod": True, "iscsi_target_mod": True,
               "target_core_file": "fileio" in plugins, "target_core_iblock": "iblock" in plugins,
               "ib_isert": any(o.iser for t in p.targets for o in t.portals)}
    for module in (module for module, needed in modules.items() if needed):
        with failures_to(problems.append):
            host.load_module(module, load)
    if not load or problems:
        return
    with failures_to(problems.append), at_place(f"configfs cannot be used at {host.CONFIGFS}"):
        if not os.path.ismount(host.CONFIGFS):
            output_of(["mount", "-t", "configfs", "configfs", host.CONFIGFS])
        # This has the kernel set up the fabric, and its list of CPUs.
        os.makedirs(os.path.join(host.CONFIGFS, "target/iscsi"), exist_ok=True)
