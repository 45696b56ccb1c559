# SPDX-License-Identifier: Apache-2.0
"""Problems, which stand in the way of a change, and the data that it would destroy. All are found
before anything is changed, and told at once."""
from __future__ import annotations

import errno
import os
import stat

from . import chap, converge, host, plan, topology
from .common import Failure, format_size, printable, output_of
from .converge import Ask, Difference, Items
from .plan import NODE_UNKNOWN

# ---- names, files and mounts of others ------------------------------------------------


DRAW = "by which initiators know a disk; draw another, as uuidgen does"


def _taken(ask: Ask, s: plan.Store) -> str:
    """By another plan of this host, or by LIO: the store's name, serial or path."""
    for other, theirs in ((o.name, t) for o in ask.others for p in o.plans() for t in p.stores()):
        if (s.plugin, s.name) == (theirs.plugin, theirs.name):
            return "the plan %s has one of this name; call it something else" % other
        if s.serial == theirs.serial:
            return "the plan %s has one of its serial, %s" % (other, DRAW)
        if s.path and s.path == theirs.path or s.hides(theirs) or theirs.hides(s):
            return "the plan %s has one at %s, too; use another path" % (other,
                printable(str(theirs.path)))
    return next(("LIO's back store %s has its serial, %s" % (printable(theirs.name), DRAW)
                 for theirs in ask.actual.lio.stores
                 if theirs.serial == s.serial and not ask.our_store(theirs.plugin, theirs.name)),
                 "")


def _check_owner(ask: Ask, s: plan.Store) -> None:
    """A file that was there before it is served is taken as it is. One that was served and is gone
    would be an empty disk to an initiator that has a filesystem on it."""
    lio, applied, path = ask.actual.lio, ask.state.applied, printable(str(s.path))
    taken = _taken(ask, s)
    there, mount = lio.store(s.plugin, s.name), lio.mount(s.path) if s.kind == "tmpfs" else None
    if taken:
        ask.refuse(s, taken)
    if there and not ask.our_store(s.plugin, str(s.name)):
        ask.refuse(s, "LIO has a %s of this name that this plan did not make; call it something "
                      "else, or take that one out with targetcli" % s.plugin)
    if mount and not (mount.source == host.MOUNT_SOURCE and ask.our_mount(str(s.path))):
        ask.refuse(s, "a tmpfs that this plan did not mount is at %s; unmount it, or use another "
                      "path" % path)
    elif mount and mount.covered:
        ask.refuse(s, "something else is mounted over its tmpfs at %s; unmount that first" % path)
    has = ask.actual.size(str(s.path)) if s.kind == "file" else s.size
    if has < 0 and not there and not ask.destroy and applied and any(
            o.kind == "file" and o.path == s.path for o in applied.stores()):
        ask.refuse(s, "its file %s is not there any more; mount the filesystem that it is on, or "
                      "let --destroy-data make a new, empty one" % path)
    if has >= 0 and has != s.size and not ask.our_file(str(s.path)):
        ask.refuse(s, "%s is there already, and has %d bytes, not %d; have the plan say its size, "
                      "or use another path"
                   % (path, has, s.size))


def _check_target(ask: Ask, t: plan.Target) -> None:
    there, say = ask.actual.lio.target(t.iqn), ask.problems.append
    ours = bool(ask.our_targets(str(t.iqn)))
    owner = next((o.name for o in ask.others if any(p.target(str(t.iqn)) for p in o.plans())), None)
    if owner:
        say("target %s: the plan %s has it already; use another IQN" % (t.iqn, owner))
    elif there and not ours:
        say("target %s: LIO has it already, and this plan did not make it; use another IQN, or "
            "take it out with targetcli" % t.iqn)
    elif there and there.tag not in (host.TAG, host.NO_GROUP):
        say("target %s: it has the portal group %d, which this plan did not make; take it out with "
            "targetcli"
            % (t.iqn, there.tag))
    for s in t.stores if there and ours else ():
        lun = there.lun(s.lun) if there else None
        if lun and lun.store and not ask.our_store(lun.plugin, lun.store):
            say("target %s: its LUN %d serves the back store %s, which this plan did not make; use "
                "another number, or delete it with targetcli" % (t.iqn, lun.lun,
                    printable(lun.store)))
    # A wildcard that is listened on takes the port of every address. targetcli writes [::0].
    for p in t.portals:
        for other in ask.actual.lio.targets:
            for theirs in other.portals:
                if theirs.port == p.port and not ask.our_targets(other.iqn) and \
                        host.plain_address(theirs.address) in ("0.0.0.0", "::"):
                    say("portal %s, port %d: the target %s listens on this port of all addresses; "
                        "use another port, or delete its portal %s with targetcli"
                        % (p.address, p.port, printable(other.iqn), theirs.address))


# ---- data that would be lost ----------------------------------------------------------

NAMELESS = "its file was removed or renamed, and only LIO still has it"
OTHER_TMPFS = "another size, node or policy of its tmpfs"


def _loss(ask: Ask, s: plan.Store, why: str) -> None:
    if ask.destroy:
        ask.notes.append("back store %s: %s: what it held is lost" % (s.name, why))
    else:
        ask.refuse(s, "%s: what it holds would be lost, which only --destroy-data allows" % why)


def _is_nameless(ask: Ask, there: host.Store) -> bool:
    return there.enabled and there.plugin == "fileio" and ask.actual.size(there.path) < 0


def _is_too_long(ask: Ask, s: plan.Store) -> bool:
    """Would its file be cut?"""
    return s.plugin == "fileio" and ask.actual.size(s.file) > s.size


def _other_data(ask: Ask, s: plan.Store, there: host.Store) -> str:
    """How the store differs in its data from the one that is there; "": not at all."""
    mount = ask.actual.lio.mount(s.path) if s.kind == "tmpfs" else None
    if s.file != there.path:
        return "another path"
    if s.kind == "tmpfs" and not mount:
        return "its tmpfs was unmounted"
    if s.kind != "block" and there.size != s.size and (s.kind != "file" or s.size < there.size):
        return "another size"
    return OTHER_TMPFS if mount and not _fits(s, mount) else ""


def _fits(s: plan.Store, mount: host.Mount) -> bool:
    return (mount.size, mount.policy, mount.nodes) == (converge.mount_size(s), s.policy, {s.node})


def _check_loss(ask: Ask, s: plan.Store, kept: bool) -> None:
    """kept: the back store stays as it is."""
    there, mount = ask.actual.lio.store(s.plugin, s.name), ask.actual.lio.mount(s.path)
    if there:
        why = _other_data(ask, s, there)
        if not why and kept:
            return
        why = why or ("another serial" if s.kind == "ramdisk" else NAMELESS if _is_nameless(ask,
            there) else "a smaller size" if _is_too_long(ask, s) else "")
        if why and (there.enabled or ask.keeps_file(s)):
            _loss(ask, s, why)
        return
    if s.kind == "tmpfs" and mount and not _fits(s, mount):
        if ask.keeps_file(s):
            _loss(ask, s, OTHER_TMPFS)
    elif _is_too_long(ask, s) and (s.kind == "tmpfs" or ask.our_file(str(s.path))):
        _loss(ask, s, "a smaller size")
    if s.forgets and not ask.keeps_file(s) and ask.applied(s):
        ask.notes.append("back store %s: what it held is gone: it was in memory, and %s" % (
            s.name, "the host was started again" if ask.state.restarted else "somebody has taken "
            "it away"))


def _check_unwanted(ask: Ask, s: plan.Store) -> None:
    there = ask.actual.lio.store(s.plugin, s.name)
    # An administrator may have deleted ours, and made one of the same name.
    serials = [o.serial for p in ask.ours() for o in p.stores() if (o.plugin, o.name) == (s.plugin,
        s.name)]
    if there and there.serial and there.serial not in serials:
        ask.refuse(s, "LIO's store of this name has another serial than this plan's, as if "
                      "somebody else had made it; take it out with targetcli, if it is to go")
    if s.kind == "file" and there and _is_nameless(ask, there):
        _loss(ask, s, NAMELESS)
    if s.forgets and (there or ask.keeps_file(s)):
        if ask.want:
            _loss(ask, s, "the plan has it no more")
        else:
            ask.notes.append("back store %s: what it held, up to %s, is lost with it"
                             % (s.name, format_size(there.size if there else s.size)))


def _note_dropped(ask: Ask, kind: str, name: str | None, old: dict[str, int], new: dict[str,
    int]) -> None:
    for attribute in old:
        if attribute not in new:
            ask.notes.append("%s %s: %s stays %d, though the plan names it no more"
                             % (kind, name, printable(attribute), old[attribute]))


# ---- initiators that are logged in, and guests ----------------------------------------


def _disturbed(ask: Ask, t: host.Target, why: str) -> None:
    user = next(("the initiator %s is" % printable(a.initiator) for a in t.acls if a.logged_in), "")
    if not user and t.dynamic:
        user = "%d initiators that it does not name are" % t.dynamic
    if user and not ask.force:
        ask.problems.append("target %s: %s logged in, and %s; log out there first, or end what is "
                            "in use with --force"
                            % (t.iqn, user, why))


def _guest(ask: Ask, t: host.Target, anew: bool, guest: str) -> None:
    """Things that others have put into a target go with it: that is a note, or a problem when the
    target goes only to be made anew, which the user need not know."""
    if anew:
        ask.problems.append("target %s: it is to be closed, and made anew for that, and %s, which "
                            "this plan did not make, would be gone; take that out with targetcli"
                            % (t.iqn, guest))
    else:
        ask.notes.append("target %s: %s, which this plan did not make, goes with it" % (t.iqn,
            guest))


def _guest_text(key: converge.Key, value: tuple[str, str]) -> str:
    if key[0] == "lun":
        return "its LUN %d, the back store %s" % (key[2], printable(value[1]))
    name = printable(key[2])
    return "its portal %s, port %d" % (name,
                                       key[3]) if key[0] == "portal" else "the access of %s" % name


def _check_going(ask: Ask, has: Items, wants: Items, gone: set[converge.Key]) -> None:
    told = set()
    for key in gone:
        t = ask.actual.lio.target(str(key[1])) if key[0] in ("target", "lun", "acl") else None
        if not t or t.tag == host.NO_GROUP:
            continue
        if key[0] == "target":
            anew = key in wants
            for k in [k for k in has if len(k) > 2 and k[1] == t.iqn and converge.is_guest(ask, k,
                has[k])]:
                _guest(ask, t, anew, _guest_text(k, has[k]))
            _disturbed(ask, t, "it is to be closed, and made anew for that" if anew
                       else "it is to go")
        elif ("target", t.iqn) in gone:
            continue
        elif key[0] == "lun" and t.iqn not in told:
            told.add(t.iqn)
            _disturbed(ask, t, "a LUN of it is to go, if only for a moment")
        elif key[0] == "acl" and not ask.force and any(a.logged_in for a in t.acls
                                                       if a.initiator == key[2]):
            ask.problems.append("target %s: the initiator %s is logged in, and is to lose its "
                                "access; log it out first, or end its session with --force"
                                % (t.iqn, printable(key[2])))
    for key in [k for k in gone if k[0] == "store"]:
        for t in ask.actual.lio.targets:
            for lun in t.luns:
                if (lun.plugin, lun.store) == key[1:] and not ask.our_targets(t.iqn):
                    ask.problems.append("back store %s: the target %s, which this plan did not "
                                        "make, serves it; take LUN %d out there with targetcli"
                                        % (key[2], printable(t.iqn), lun.lun))
    for key in [k for k in gone if k[0] == "mount"]:
        mount = ask.actual.lio.mount(key[1])
        if key not in wants and (not mount or mount.covered or mount.source != host.MOUNT_SOURCE):
            ask.refuse(next(s for p in ask.ours() for s in p.stores() if s.path == key[1]),
                       "something else is mounted over its tmpfs at %s; unmount that first"
                       % printable(key[1]))


def check(ask: Ask, has: Items, wants: Items, diffs: list[Difference]) -> None:
    """Pure: problems and notes into ask."""
    gone = {d.key for d in diffs if d.to is None}
    applied = ask.state.applied
    for t in ask.want.targets if ask.want else ():
        for s in t.stores:
            key = ("store", s.plugin, s.name)
            _check_owner(ask, s)
            _check_loss(ask, s, has.get(key) == wants[key])
            old = applied.store(str(s.name)) if applied else None
            if old and old.plugin == s.plugin and key in has and key not in gone:
                _note_dropped(ask, "back store", s.name, old.attributes, s.attributes)
        _check_target(ask, t)
        before = applied.target(str(t.iqn)) if applied else None
        if before and ("target", t.iqn) in has and ("target", t.iqn) not in gone:
            _note_dropped(ask, "target", t.iqn, before.attributes, t.attributes)
    seen = {("store", s.plugin, s.name) for s in ask.want.stores()} if ask.want else set()
    for s in (s for p in ask.ours() for s in p.stores()):
        if ("store", s.plugin, s.name) not in seen:
            _check_unwanted(ask, s)
        seen.add(("store", s.plugin, s.name))
    _check_going(ask, has, wants, gone)


# ---- can the host do it? --------------------------------------------------------------


def secrets(p: plan.Plan, problems: list[str]) -> dict[tuple[str, str], tuple[str, str]]:
    """By target and initiator, the secrets of both; "" where the plan has none."""
    out = {}
    for t in p.targets:
        for i in t.initiators:
            both = []
            for way in (i.chap, i.mutual):
                try:
                    both.append(chap.read(way.secret_file) if way else "")
                except Failure as why:
                    both.append("")
                    problems.append(str(why))
            if i.chap and i.mutual and both[0] and both[0] == both[1]:
                # A stranger could have the target's own answer from it (RFC 7143, section 9.2.1).
                problems.append("%s and %s: both sides would prove themselves by the same secret; "
                                "draw another"
                                % (printable(i.chap.secret_file), printable(i.mutual.secret_file)))
            out[str(t.iqn), str(i.name)] = (both[0], both[1])
    return out


def portals(p: plan.Plan, machine: topology.Host, problems: list[str], notes: list[str]) -> None:
    everyone = host.interfaces()
    for t in p.targets:
        for one in t.portals:
            at, where = next((i for i in everyone if i.address == one.address),
                             None), "portal %s of %s: " % (one.address, t.iqn)
            if not at:
                problems.append(where + "this host has no such address; ip addr add it, or change "
                                        "the plan")
                continue
            if not at.up:
                problems.append("%sits network interface %s is down; ip link set %s up" % (where,
                    at.netdev, at.netdev))
            elif not at.link:
                notes.append("%sits network interface %s has no link" % (where, at.netdev))
            if one.netdev and one.netdev != at.netdev:
                problems.append("%sthe address is on %s, and not on %s as the plan has it"
                                % (where, at.netdev, printable(one.netdev)))
            if one.iser and not machine.netdev_rdma(at.netdev):
                problems.append("%s%s has no RDMA device, which iSER needs; load its driver, make "
                                "a soft one (rdma link add rxe_%s type rxe netdev %s), or say "
                                "\"iser\": false"
                                % (where, at.netdev, at.netdev, at.netdev))


def _check_device(path: str) -> str:
    try:
        if not stat.S_ISBLK(os.stat(path).st_mode):
            return "%s is no block device; is it to be of the kind file?" % printable(path)
    except OSError as why:
        return "%s: %s; lsblk tells what there is" % (printable(path), why.strerror)
    try:
        # With O_EXCL the kernel says whether it, or a partition of it, is in use.
        os.close(os.open(path, os.O_RDWR | os.O_EXCL | os.O_CLOEXEC))
    except OSError as why:
        return printable(path) + (" is in use: mounted, swap space, or part of something else "
                                  "(lsblk tells)"
                                  if why.errno == errno.EBUSY else ": %s" % why.strerror)
    return ""


def _check_room(path: str, size: int) -> str:
    """For a file, in the filesystem of the next directory that is there."""
    above, has = path, 0
    if os.path.lexists(path):
        st = os.lstat(path)
        if not stat.S_ISREG(st.st_mode):
            return "%s is no regular file" % printable(path)
        has = st.st_size
    while not os.path.exists(above):
        above = os.path.dirname(above)
    fs = os.statvfs(above)
    if fs.f_flag & os.ST_RDONLY:
        return "the filesystem of %s is read-only" % printable(above)
    if size - has > fs.f_bavail * fs.f_frsize:
        return "it needs %s in the filesystem of %s, which has %s left" % (
            format_size(size - has), printable(above), format_size(fs.f_bavail * fs.f_frsize))
    return ""


def _check_mount_point(path: str) -> str:
    if not os.path.lexists(path):
        return ""
    if not stat.S_ISDIR(os.lstat(path).st_mode):
        return "%s, where its tmpfs is to be mounted, is no directory" % printable(path)
    if os.path.ismount(path):
        return "something else is mounted at %s; umount it, or use another path" % printable(path)
    return "" if not os.listdir(path) else \
        "%s, where its tmpfs is to be mounted, is not empty; use another path" % printable(path)


def stores(p: plan.Plan, lio: host.Lio, problems: list[str]) -> None:
    for s in p.stores():
        there, wrong, path = lio.store(s.plugin, s.name), "", str(s.path)
        for theirs in lio.stores:
            if s.path and s.kind != "tmpfs" and theirs.path == s.path and theirs.name != s.name:
                problems.append("back store %s: LIO serves %s already, as the back store %s; use "
                                "another, or take that one out" % (s.name, printable(path),
                                    printable(theirs.name)))
        if s.kind == "file":
            wrong = _check_room(path, s.size)
        elif s.kind == "tmpfs" and not lio.mount(s.path):
            wrong = _check_mount_point(path)
        elif s.kind == "block" and not (there and there.path == s.path):
            wrong = _check_device(path)
        if wrong:
            problems.append("back store %s: %s" % (s.name, wrong))


def memory(diffs: list[Difference], machine: topology.Host, problems: list[str]) -> None:
    """Does each node have it, and the host?"""
    def compare(some: list[Difference], room: int, where: str) -> bool:
        wants = sum(d.memory for d in some)
        fits = not any(d.memory > 0 for d in some) or wants <= room
        problems.extend([] if fits else [
            "the back stores need %s more of the memory of %s, which can give %s; make them "
            "smaller, or end what else uses it" % (format_size(wants), where, format_size(room))])
        return fits

    fits = [compare([d for d in diffs if d.node == n.id and (d.strictly or d.memory < 0)], n.room,
                    "node %d" % n.id) for n in machine.nodes.values() if n.memory is not None]
    if all(fits) and len(fits) == len(machine.nodes):
        compare(diffs, sum(n.room for n in machine.nodes.values()), "this host")
    # Of a node that is not there nothing could be had.
    problems += ["%s: there is no node %d here" % (d.text, d.node) for d in diffs
                 if d.memory > 0 and d.node != NODE_UNKNOWN and d.node not in machine.nodes]


def kernel(p: plan.Plan, load: bool, problems: list[str]) -> None:
    """Its modules, last: they stay loaded when something else is wrong. load: else it is only asked
    whether they could be. Then configfs, with LIO's iSCSI in it."""
    wanted = ["target_core_mod"]
    wanted += ["target_core_file"] if any(s.plugin == "fileio" for s in p.stores()) else []
    wanted += ["target_core_iblock"] if any(s.plugin == "iblock" for s in p.stores()) else []
    iser = any(o.iser for t in p.targets for o in t.portals)
    wanted += ["iscsi_target_mod", "ib_isert"] if iser else ["iscsi_target_mod"]
    for module in wanted:
        try:
            if not os.path.exists("/sys/module/" + module):
                output_of(["modprobe", "-q", "--" if load else "-n", module])
        except Failure as why:
            remedy = "%s" % why if why.__cause__ else \
                "is it in the package of this kernel's modules (Debian linux-image, RHEL " \
                "kernel-modules-extra), and not forbidden in /etc/modprobe.d?"
            problems.append("the kernel's module %s cannot be loaded: %s" % (module, remedy))
    if problems or not load:
        return
    try:
        if not os.path.ismount(host.configfs()):
            output_of(["mount", "-t", "configfs", "configfs", host.configfs()])
        # Making the directory has the kernel set up the fabric, and its list of CPUs.
        os.makedirs(os.path.join(host.configfs(), "target/iscsi"), exist_ok=True)
    except (Failure, OSError) as why:
        problems.append("configfs cannot be used at %s: %s: is the module iscsi_target_mod loaded?"
                        % (host.configfs(), why))
