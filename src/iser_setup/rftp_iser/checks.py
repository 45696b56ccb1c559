# SPDX-License-Identifier: Apache-2.0
"""Problems, which stand in the way of a change, and the data that it would destroy. All are found
before anything is changed, and told at once."""
from __future__ import annotations

import errno
import os
import stat

from collections.abc import Iterator
from typing import Any

from rftp_common import Failure, format_size, output_of, printable

from . import chap, host, plan, topology
from .converge import Ask, Difference, Secrets, describe, items_of, parents, text, value_text
from .host import Items, Key
from .plan import NODE_UNKNOWN

# ---- things of others -----------------------------------------------------------------


def _refuse(ask: Ask, s: plan.Store, why: str) -> None:
    ask.problems.append(f"back store {s.name}: {why}")


def _check_names(ask: Ask, want: plan.Plan) -> None:
    """Items that another plan, or another program, has made by the same names."""
    theirs = {key: o.name for o in ask.others for p in o.plans() for key in items_of(p.targets)}
    targets = {key[1].split("/")[0] for key, _ in host.under(ask.actual, "target")}
    for key in (k for k in items_of(want.targets) if k[0] in ("store", "mount", "target", "lun")):
        there, ours = ask.actual.get(key), key in ask.ours
        foreign = there is not None and not ours
        if key[0] == "target":
            foreign = key[1] in targets and not (ours and there)
        elif key[0] == "lun":
            foreign = ("target", key[1]) in ask.ours and there is not None and bool(there[1]) \
                and ask.is_guest(key, there)
        elif key[0] == "mount":
            foreign = foreign or there is not None and there.source != host.MOUNT_SOURCE
        if key in theirs and key[0] in ("store", "target"):
            ask.problems.append(f"{describe(key)}: the plan {theirs[key]} has it already; use "
                                "another name")
        elif foreign:
            who = "this host" if key[0] == "mount" else "LIO"
            ask.problems.append(f"{describe(key)}: {who} has it already, and this plan did not "
                                "make it; use another name, or take it out (targetcli, umount)")


def _check_others(ask: Ask, want: plan.Plan) -> None:
    """What others have that is no name: serials, paths, ports."""
    stores = [(f"the plan {o.name}", s) for o in ask.others for p in o.plans() for s in p.stores()]
    serials = {s.serial: who for who, s in stores}
    serials.update((s.serial, f"LIO's back store {key[2]}")
                   for key, s in host.under(ask.actual, "store") if key not in ask.ours)
    for s in want.stores():
        if s.serial in serials:
            _refuse(ask, s, f"{printable(serials[s.serial])} has its serial, by which initiators "
                          "know a disk; draw another, as uuidgen does")
        for who, other in stores:
            if s.path and s.path == other.path or s.hides(other) or other.hides(s):
                _refuse(ask, s, f"{who} has one at {other.path}; use another path")
        for key, served in host.under(ask.actual, "store"):
            if s.path and s.kind != "tmpfs" and served.path == s.path and key[2] != s.name:
                _refuse(ask, s, f"LIO serves {s.path} already, as {printable(key[2])}; use another "
                              "path, or take that one out")
    # A wildcard that is listened on takes the port of every address. targetcli writes [::0].
    for (_, iqn, address, port), _ in host.under(ask.actual, "portal"):
        if address in ("0.0.0.0", "::") and ("target", iqn) not in ask.ours:
            ask.problems += [f"portal {p.address}, port {port}: the target {printable(iqn)} "
                             f"listens on this port of all addresses; use another port, or delete "
                             f"its portal {address} with targetcli"
                             for t in want.targets for p in t.portals if p.port == port]


# ---- data that would be lost ----------------------------------------------------------

NAMELESS = "its file was removed or renamed, and only LIO still has it"
SMALLER = "a smaller size"


def _keeps_file(ask: Ask, s: plan.Store) -> bool:
    """Is there a tmpfs with data that LIO does not serve at the moment?"""
    return s.kind == "tmpfs" and ("store", s.plugin, s.name) in ask.applied and \
        ("mount", s.path) in ask.actual and host.size_of(s.file) > 0


def _lose(ask: Ask, s: plan.Store, why: str) -> None:
    if ask.destroy:
        ask.notes.append(f"back store {s.name}: {why}: what it held is lost")
    else:
        _refuse(ask, s, f"{why}: what it holds would be lost, which only --destroy-data allows")


def _is_nameless(ask: Ask, key: Key) -> bool:
    there = ask.actual.get(key)
    return key[1] == "fileio" and there is not None and there.enabled and \
        host.size_of(there.path) < 0


def _loss(ask: Ask, s: plan.Store, has: Items, wants: Items) -> str:
    """The difference that would cost the store its data; ""."""
    key, mount = ("store", s.plugin, s.name), ("mount", s.path)
    was, to = ask.actual.get(key), wants[key]
    if was and was.path != to.path:
        return "another path"
    if was and mount in wants and mount not in ask.actual:
        return "its tmpfs was unmounted"
    if was and was.size != to.size and (s.kind != "file" or to.size < was.size):
        return "another size"
    if mount in ask.actual and mount in wants and ask.actual[mount] != wants[mount]:
        return "another size, node or policy of its tmpfs"
    if was == to:
        return ""
    if was and s.kind == "ramdisk":
        return "another serial"
    if _is_nameless(ask, key):
        return NAMELESS
    return SMALLER if has.get(("file", s.file), 0) > s.size else ""


def _check_data(ask: Ask, s: plan.Store, has: Items, wants: Items) -> None:
    """A file that was there before it is served is taken as it is. One that was served and is gone
    would be an empty disk to an initiator that has a filesystem on it."""
    key, file, why = ("store", s.plugin, s.name), ("file", s.file), _loss(ask, s, has, wants)
    there, kept, size = ask.actual.get(key), _keeps_file(ask, s), host.size_of(s.file)
    if why and (kept or (there.enabled if there else why == SMALLER and file in ask.ours)):
        _lose(ask, s, why)
    if not there and s.forgets and not kept and key in ask.applied:
        how = "the host was started again" if ask.state.restarted else "somebody has taken it away"
        ask.notes.append(f"back store {s.name}: what it held is gone: it was in memory, and {how}")
    if s.kind == "file" and size < 0 and not there and not ask.destroy and file in ask.applied:
        _refuse(ask, s, f"its file {s.path} is not there any more; mount the filesystem that it is "
                      "on, or let --destroy-data make a new, empty one")
    if s.kind == "file" and size not in (-1, s.size) and file not in ask.ours:
        _refuse(ask, s, f"{s.path} is there already, and has {size} bytes, not {s.size}; have the "
                      "plan say its size, or use another path")


def _check_unwanted(ask: Ask, s: plan.Store, key: Key) -> None:
    there = ask.actual.get(key)
    # An administrator may have deleted ours, and made one of the same name.
    serials = [o.serial for p in ask.state.plans() for o in p.stores()
               if (o.plugin, o.name) == key[1:]]
    if there and there.serial and there.serial not in serials:
        _refuse(ask, s, "LIO's store of this name has another serial than ours: another program "
                        "has made it; take it out with targetcli, if it is to go")
    if s.kind == "file" and _is_nameless(ask, key):
        _lose(ask, s, NAMELESS)
    if s.forgets and (there or _keeps_file(ask, s)):
        if ask.want:
            _lose(ask, s, "the plan has it no more")
        else:
            size = format_size(there.bytes if there else s.size)
            ask.notes.append(f"back store {s.name}: what it held, up to {size}, is lost with it")


# ---- initiators that are logged in, and guests ----------------------------------------


def _disturbed(ask: Ask, iqn: str, why: str, initiator: str | None = None) -> None:
    """initiator: this one alone."""
    users = [f"the initiator {printable(key[2])} is"
             for key, acl in host.under(ask.actual, "acl", iqn)
             if acl.logged_in and initiator in (None, key[2])]
    if initiator is None and ask.actual["target", iqn].sessions:
        users.append(f"{ask.actual['target', iqn].sessions} initiators that it does not name are")
    if users and not ask.force:
        ask.problems.append(f"target {iqn}: {users[0]} logged in, and {why}; log out there first, "
                            "or end what is in use with --force")


def _check_guest(ask: Ask, key: Key, value: Any, anew: bool) -> None:
    """Things that others have put into a target go with it: that is a note, or a problem when the
    target goes only to be made anew, which the user need not know."""
    about = value_text(key, value)
    what = f"{describe(key)}{', ' + about if about else ''}, which this plan did not make,"
    if anew:
        ask.problems.append(f"target {key[1]}: it is to be closed, and made anew for that, and "
                            f"{what} would be gone; take that out with targetcli")
    else:
        ask.notes.append(f"target {key[1]}: {what} goes with it")


def _check_going(ask: Ask, has: Items, wants: Items, gone: dict[Key, None]) -> None:
    told = set()
    for key in gone:
        kind, name, alone = key[0], key[-1], ("target", *key[1:2]) not in gone
        if kind == "target" and has[key].whole:
            for k, value in has.items():
                if k[1:2] == key[1:] and ask.is_guest(k, value):
                    _check_guest(ask, k, value, key in wants)
            _disturbed(ask, name, "it is to be closed, and made anew for that" if key in wants
                       else "it is to go")
        elif kind == "lun" and alone and key[1] not in told:
            told.add(key[1])
            _disturbed(ask, key[1], "a LUN of it is to go, if only for a moment")
        elif kind == "acl" and alone:
            _disturbed(ask, key[1], "is to lose its access", name)
        elif kind == "store":
            ask.problems += [f"back store {name}: the target {printable(iqn)}, which this plan did "
                             f"not make, serves it; take LUN {lun} out there with targetcli"
                             for (_, iqn, lun), served in host.under(ask.actual, "lun")
                             if served == key[1:] and ("target", iqn) not in ask.ours]


def check(ask: Ask, has: Items, wants: Items, diffs: list[Difference]) -> None:
    """Pure: problems and notes into ask."""
    gone = {d.key: None for d in diffs if d.to is None}
    if ask.want:
        _check_names(ask, ask.want)
        _check_others(ask, ask.want)
        for s in ask.want.stores():
            _check_data(ask, s, has, wants)
    for key, s in ask.stores.items():
        if key[0] == "store" and key not in wants:
            _check_unwanted(ask, s, key)
        if key[0] == "mount" and key in has and has[key].covered:
            _refuse(ask, s, f"something else is mounted over its tmpfs at {s.path}; unmount that "
                          "first")
    for key, value in ask.applied.items():
        if key[0].endswith("-attribute") and key not in wants and key in has and all(
                p in wants and p not in gone for p in parents(key, value, {})):
            ask.notes.append(f"{describe(key)} stays {value}, though the plan names it no more")
    _check_going(ask, has, wants, gone)


# ---- can the host do it? --------------------------------------------------------------


def secrets(p: plan.Plan, problems: list[str]) -> Secrets:
    """"" where the plan has none, or it cannot be read."""
    out = {}
    for i, iqn in ((i, str(t.iqn)) for t in p.targets for i in t.initiators):
        both = []
        for way in (i.chap, i.mutual):
            try:
                both.append(chap.read(way.secret_file) if way else "")
            except Failure as why:
                both.append("")
                problems.append(str(why))
        if i.chap and i.mutual and both[0] and both[0] == both[1]:
            # A stranger could have the target's own answer from it (RFC 7143, section 9.2.1).
            files = printable(f"{i.chap.secret_file} and {i.mutual.secret_file}")
            problems.append(f"{files} have the same secret; draw another")
        out[iqn, str(i.name)] = (both[0], both[1])
    return out


def card_of(p: plan.Portal, machine: topology.Host, among: list[host.Interface]
            ) -> Iterator[tuple[str, bool, str, str, str]]:
    """Looks at the network interface of a portal's address: a check's name, is it right, the texts
    for right and wrong, and how to mend it."""
    card = host.interface(among, p.address)
    name, rdma = card.netdev if card else "", machine.netdev_rdma(card.netdev if card else "")
    yield ("address", card is not None, f"is {name}'s", "this host has no such address",
           f"ip address add {p.address}/PREFIX dev {p.netdev or 'CARD'}, or change the plan")
    if card and p.netdev and p.netdev != name:
        yield ("netdev", False, "", f"the address is on {name}, and not on {p.netdev} as the plan "
               "has it", "move it there, or change the plan")
    if card and not card.up:
        yield ("up", False, "", f"its network interface {name} is down", f"ip link set {name} up")
    if card and p.iser:
        yield ("rdma", bool(rdma), f"{name} is used by the RDMA device {rdma}",
               f"{name} has no RDMA device, which iSER needs", "load its driver, make a soft one "
               f"(rdma link add rxe_{name} type rxe netdev {name}), or say \"iser\": false")


def portals(p: plan.Plan, machine: topology.Host, problems: list[str], notes: list[str]) -> None:
    everyone = host.interfaces()
    for where, one in ((f"portal {o.address} of {t.iqn}", o) for t in p.targets for o in t.portals):
        problems += [printable(f"{where}: {bad}; {mend}")
                     for _, right, _, bad, mend in card_of(one, machine, everyone) if not right]
        card = host.interface(everyone, one.address)
        if card and card.up and not card.link:
            notes.append(f"{where}: its network interface {card.netdev} has no link")


def _fault_of_place(s: plan.Store, actual: Items) -> str:
    """Why the path cannot be used for the store."""
    path, there = str(s.path), actual.get(("store", s.plugin, s.name))
    if s.kind == "block" and not (there and there.path == path):
        try:
            if not stat.S_ISBLK(os.stat(path).st_mode):
                return " is no block device; is it to be of the kind file?"
            # With O_EXCL the kernel says whether it, or a partition of it, is in use.
            os.close(os.open(path, os.O_RDWR | os.O_EXCL | os.O_CLOEXEC))
        except OSError as why:
            in_use = " is in use: mounted, swap space, or part of something else (lsblk tells)"
            return in_use if why.errno == errno.EBUSY else f": {why.strerror}"
    if s.kind == "file":
        if os.path.lexists(path) and not os.path.isfile(path) or os.path.islink(path):
            return " is no regular file"
        above, needed = path, s.size - max(0, host.size_of(path))
        while not os.path.exists(above):
            above = os.path.dirname(above)
        fs = os.statvfs(above)
        room = fs.f_bavail * fs.f_frsize
        if fs.f_flag & os.ST_RDONLY:
            return " is on a read-only filesystem"
        if needed > room:
            return f" needs {format_size(needed)}; its filesystem has {format_size(room)} left"
    if s.kind == "tmpfs" and ("mount", path) not in actual:
        if os.path.lexists(path) and not host.is_directory(path):
            return " is no directory, and its tmpfs is to be mounted there"
        if os.path.ismount(path):
            return " has something else mounted on it; umount it, or use another path"
        if host.entries(path):
            return " is not empty, and its tmpfs is to be mounted there; use another path"
    return ""


def stores(ask: Ask, want: plan.Plan) -> None:
    for s in want.stores():
        fault = _fault_of_place(s, ask.actual)
        if fault:
            _refuse(ask, s, f"{s.path}{fault}")


def memory(diffs: list[Difference], machine: topology.Host, problems: list[str]) -> None:
    """Does each node have it, and the host?"""
    short, known = list[str](), [n for n in machine.nodes.values() if n.memory is not None]
    places = [(f"node {n.id}", n.room, [d for d in diffs if d.node == n.id
                                        and (d.strictly or d.memory < 0)]) for n in known]
    if len(known) == len(machine.nodes):
        places.append(("this host", sum(n.room for n in known), diffs))
    for where, room, some in places:
        wants = sum(d.memory for d in some)
        if wants > room and any(d.memory > 0 for d in some) and not (short and some is diffs):
            short.append(f"the back stores need {format_size(wants)} more of the memory of "
                         f"{where}, which can give {format_size(room)}; make them smaller")
    # Of a node that is not there nothing could be had.
    problems += short
    problems += [f"{text(d)}: there is no node {d.node} here" for d in diffs
                 if d.memory > 0 and d.node != NODE_UNKNOWN and d.node not in machine.nodes]


def kernel(p: plan.Plan, load: bool, problems: list[str]) -> None:
    """Its modules, last: they stay loaded when something else is wrong. load: else it is only asked
    whether they could be. Then configfs, with LIO's iSCSI in it."""
    plugins = {s.plugin for s in p.stores()}
    modules = ["target_core_mod", "iscsi_target_mod"]
    modules += ["target_core_file"] if "fileio" in plugins else []
    modules += ["target_core_iblock"] if "iblock" in plugins else []
    modules += ["ib_isert"] if any(o.iser for t in p.targets for o in t.portals) else []
    for module in modules:
        try:
            if not os.path.exists("/sys/module/" + module):
                output_of(["modprobe", "-q", "--" if load else "-n", module])
        except Failure as why:
            remedy = str(why) if why.__cause__ else \
                "is it in the package of this kernel's modules (Debian linux-image, RHEL " \
                "kernel-modules-extra), and not forbidden in /etc/modprobe.d?"
            problems.append(f"the kernel's module {module} cannot be loaded: {remedy}")
    try:
        if load and not problems and not os.path.ismount(host.configfs()):
            output_of(["mount", "-t", "configfs", "configfs", host.configfs()])
        if load and not problems:
            # This has the kernel set up the fabric, and its list of CPUs.
            os.makedirs(os.path.join(host.configfs(), "target/iscsi"), exist_ok=True)
    except (Failure, OSError) as why:
        problems.append(f"configfs cannot be used at {host.configfs()}: {why}")
