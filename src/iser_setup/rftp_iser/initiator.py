# SPDX-License-Identifier: Apache-2.0
"""The commands login and logout: this host as an initiator. A login makes sessions, waits for their
disks, and makes a stripe and filesystems of them; a logout takes these away. All of it is noted in
login.json before it is made, so that a login that is killed leaves nothing unknown."""
from __future__ import annotations

import contextlib
import glob
import itertools
import os
import re
import select
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from rftp_common import (DONE, USAGE, Failure, Options, Stop, failures_to, format_size, json_line,
                         misuse_if, number_in, output, printable, say, set_text, sysfs, warn)
from rftp_machine import NODE_UNKNOWN
from rftp_members import json_of

from . import iscsi, plan, stripe
from .host import Host, read_host
from .iscsi import Address, Disk, Node, Session
from .plan import Chap, Initiator, Plan
from .stripe import Kept, Place, Stripe, disks_of, leave, settle_halves, stop_stripes

# ---- targets and sessions -------------------------------------------------------------


def from_plan(p: Plan, name: str, transport: str, iqns: Sequence[str], where: str) -> list[Node]:
    """The portals of the targets that let the initiator of this name in."""
    offered, let_in = [], False
    for t in p.targets:
        me = next((i for i in t.initiators if i.name == name), Initiator() if t.open else None)
        let_in |= me is not None
        if not me or (iqns and t.iqn not in iqns):
            continue
        usable = [o for o in t.portals if o.iser or transport == "tcp"]
        if not usable:
            raise Failure(f"{where} has no portal with iSER for target {t.iqn}; try --transport "
                          "tcp")
        offered += [Node(t.iqn, o.address, o.port, 1, transport, initiator=me,
                         stores={s.lun: s for s in t.stores}) for o in usable]
    if not let_in:
        raise Failure(f"{where} lets no initiator {printable(name)} in, which is this host: add "
                      "it to the plan and apply that there")
    return offered


def from_discovery(told: str, transport: str) -> list[Node]:
    """Of iscsiadm's lines, "ADDRESS:PORT,TAG IQN"."""
    offered = []
    for line in filter(None, told.split("\n")):
        found = re.fullmatch(r"\[?([^],]+)\]?:([0-9]{1,5}),([0-9]{1,5}) (.+)", line)
        if not found or iscsi.plain(found[1]) or iscsi.plain(found[4]) \
                or not 0 < int(found[2]) < 1 << 16:
            raise Failure("iscsiadm's list of the storage host's targets is not understood")
        offered.append(Node(found[4], found[1], int(found[2]), int(found[3]), transport))
    return offered


def choose(offered: Sequence[Node], iqns: Sequence[str], addresses: Sequence[Address], where: str
           ) -> tuple[list[Node], str]:
    """Each target once, at the first of the addresses, or without any at its first portal; and a
    text of those that are at other addresses only. iqns, unless empty, choose among the targets."""
    offered = [n for n in offered if not iqns or n.iqn in iqns]
    found: dict[str, Node] = {}
    at_them = [n for a in addresses for n in offered if n.address.is_same(a)]
    for n in at_them if addresses else offered:
        found.setdefault(n.iqn, n)
    elsewhere = ", ".join(str(n) for n in offered if n.iqn not in found)
    missing = next((" " + printable(iqn) for iqn in iqns if iqn not in found), "")
    if missing or not found:
        only = f" at the addresses given, only {elsewhere}" if elsewhere else \
            "; its name must be among their initiators"
        raise Failure(f"{where} has no target{missing} for this host{only}")
    return list(found.values()), elsewhere


def _auth(i: Initiator) -> iscsi.Settings:
    """CHAP's settings of a record."""
    if not i.chap:
        return {}
    # As the record has them; bytes that are not UTF-8 stay.
    secret, mutual = (plan.read_secret(c.secret_file, False).encode("latin-1")
                      .decode("utf-8", "surrogateescape") if c else None
                      for c in (i.chap, i.mutual))
    if secret == mutual:
        raise Failure("the secrets of both directions are the same, which RFC 7143 forbids")
    auth = {"authmethod": "CHAP", "username": i.chap.user, "password": secret,
            "username_in": i.mutual.user if i.mutual else None, "password_in": mutual}
    return {"node.session.auth." + key: value for key, value in auth.items()}


def _log_in(o: Options, k: Kept, node: Node) -> None:
    """By a record of its own, made anew: the plan or the options may have changed since a run that
    was killed. A record of others is used as it is."""
    # startup: else open-iscsi's own service would log in at the next start, without stripe and
    # settings. retry: now and then the kernel refuses a question of iscsid.
    settings: iscsi.Settings = {
        "node.startup": "manual", "node.session.initial_login_retry_max": "3",
        "node.conn[0].timeo.login_timeout": str(o.wait), **_auth(node.initiator)}
    if o.tune:
        settings.update({"node.session.cmds_max": str(iscsi.CMDS_MAX),
                         "node.session.queue_depth": str(iscsi.QUEUE_DEPTH)})
    before = k.node(node.iqn)
    if before and before.record:
        if before.file != node.file:
            iscsi.forget(k.p, before)
    elif os.path.exists(node.file):
        node.record = False
        if node.initiator.chap:
            raise Failure(f"open-iscsi has a record of {node} that is not login's: take it away "
                          f"with iscsiadm -m node -T {printable(node.iqn)} -o delete")
    k.nodes = [n for n in k.nodes if n is not before] + [node]
    k.write()
    try:
        if node.record:
            iscsi.make_record(k.p, node, settings)
        iscsi.log_in(k.p, node)
    except iscsi.Pending:
        raise
    except Failure:
        k.p = k.p.unstoppable()
        with failures_to():
            k.drop(node)
        raise
    node.new = True


# ---- disks, stripes and filesystems ---------------------------------------------------


def _lacks(n: Node, s: Session | None) -> str:
    """The reason if not all disks of a target are there; "": they are."""
    if not s:
        return "it has no session that is logged in"
    ready = [d.lun for d in s.disks if d.size and iscsi.is_device("/dev/" + d.name)]
    missing = len(n.stores.keys() - ready) if n.stores else max(s.luns, 1) - len(ready)
    return f"{missing} of its disks are missing: does it serve them to this host, and is the " \
        "kernel's sd_mod loaded?" if missing else ""


def _wait(o: Options, k: Kept, nodes: Sequence[Node]) -> list[tuple[Node, Disk]]:
    """The disks of all targets. Without a plan it is not known how many come: then they must stay
    the same for some looks, more for a stripe, which would lack a late one."""
    begin, same, disks = time.monotonic(), 0, list[tuple[Node, Disk]]()
    settle = 0 if o.plan is not None else 20 if o.stripe is not None else 5
    for look in itertools.count(1):
        there, before = {s.iqn: s for s in reversed(iscsi.read_sessions("LOGGED_IN"))}, disks
        disks = [(n, d) for n in nodes if n.iqn in there for d in there[n.iqn].disks]
        lacking = [(n, why) for n in nodes for why in [_lacks(n, there.get(n.iqn))] if why]
        same = same + 1 if disks == before and not lacking else 0
        left = begin + o.wait - time.monotonic()
        if not lacking and same >= settle:
            break
        k.p.stop.check()
        if lacking and left < 0:
            raise Failure(f"{printable(lacking[0][0].iqn)}: {lacking[0][1]} (after {o.wait} s; "
                          "--wait has more patience)")
        # The kernel looks for disks when a session begins, and later only when it is told to: a
        # target that is just being made may get some after that.
        for n, _ in lacking if look % 20 == 0 else ():
            if n.iqn in there:
                with contextlib.suppress(OSError):
                    set_text("- - -", sysfs(f"class/scsi_host/host{there[n.iqn].host}/scan"))
        time.sleep(0.1)
    k.p.settle(int(max(left, 0)) + 1)  # udev's names come a moment later
    return disks


def _find_disks(o: Options, k: Kept, nodes: Sequence[Node]) -> list[Disk]:
    """Those of the plan, or all, once they are there, with their places."""
    disks = []
    for n, d in _wait(o, k, nodes):
        target, store = printable(n.iqn), n.stores.get(d.lun)
        if store and d.serial and store.serial != d.serial:
            raise Failure(f"LUN {d.lun} of {target} has the serial {printable(d.serial)}, and the "
                          f"plan says {store.serial}: it is another disk")
        if n.stores and not store:
            warn(f"{target} serves LUN {d.lun}, too, which is not in the plan: it is left alone")
        else:
            disks.append(d)
    machine = read_host(["/dev/" + d.name for d in disks])
    for d in disks:
        # One that stays after a restart, if udev has made such a name.
        d.path = next((path for names in ("by-id/wwn-*", "by-id/scsi-*", "by-path/*")
                       for path in sorted(glob.glob("/dev/disk/" + names))
                       if iscsi.kernel_name(path) == d.name), "/dev/" + d.name)
        # The route to an address of this host itself is by no card.
        d.netdev = iscsi.netdev_to(d.session.address.host, machine)
        node = machine.nics[d.netdev].node
        d.nodes = machine.locations["/dev/" + d.name].nodes or (
            "" if node == NODE_UNKNOWN else str(node))
    return disks


def _check_free(k: Kept, disks: Sequence[Disk], device: str) -> str:
    """The signatures on a device, which must have no user."""
    # Its path may lead to another disk by now.
    there = {(s.id, d.lun, d.name) for s in iscsi.read_sessions() for d in s.disks}
    for d in disks:
        if (d.session.id, d.lun, d.name) not in there or iscsi.kernel_name(d.path) != d.name:
            raise Failure(f"{d.path} is not LUN {d.lun} of {printable(d.session.iqn)} any more")
    signatures = stripe.contents(k.p, device)
    stripe.above(iscsi.kernel_name(device), [])
    return signatures


def _may_write(o: Options, k: Kept, disks: Sequence[Disk], devices: Sequence[str], work: str
               ) -> list[str]:
    """The signatures on each device; Failure, before the first is written to, if one has a user, or
    data that must not be lost. work: for people, "mkfs.xfs"."""
    found = [_check_free(k, disks, device) for device in devices]
    for device, signatures in zip(devices, found):
        if not signatures or o.yes:
            continue
        holds = f"{device} holds data ({signatures}), which {work} "
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise Failure(holds + "would destroy: --yes does so")
        sys.stderr.write(holds + "destroys. Type yes to continue: ")
        sys.stderr.flush()
        while not select.select([sys.stdin], [], [], 0.1)[0]:
            k.p.stop.check()
        if sys.stdin.readline() != "yes\n":
            raise Failure(f"{device} was left as it is")
    if [_check_free(k, disks, device) for device in devices] != found:
        raise Failure("another program has just written to one of the disks")
    return found


def _make_stripe(o: Options, k: Kept, disks: Sequence[Disk], plan_name: str) -> Stripe:
    paths = [d.path for d in disks]
    if not 2 <= len(paths) <= stripe.MEMBERS_MOST:
        raise Failure(f"a stripe takes 2 to {stripe.MEMBERS_MOST} disks, not {len(paths)}")
    s = stripe.find(k.p, o.stripe, paths)
    if not s:
        if any(_may_write(o, k, disks, paths, "making a stripe")):
            k.p.run("wipefs", "--quiet", "--all", *paths)
        half = stripe.draw(o.stripe, "rftp-" + plan_name)
        half.disks = [Place(d.session.iqn, d.lun) for d in disks]
        k.halves.append(half)
        k.write()
        try:
            s = stripe.make(k.p, half, paths, o.chunk)
        except Failure:
            k.p = k.p.unstoppable()  # a signal may have ended a program in its midst
            settle_halves(k)
            raise
        k.halves.remove(half)
    k.stripes = [*(one for one in k.stripes if one.id != s.id), s]
    k.write()
    return s


def _make_filesystems(o: Options, k: Kept, disks: Sequence[Disk], made: Stripe | None) -> None:
    devices = [made.device] if made else [d.path for d in disks]
    for device, found in zip(devices, _may_write(o, k, disks, devices, "mkfs.xfs")):
        if _check_free(k, disks, device) != found:
            raise Failure(f"another program has just written to {device}")
        at = sysfs(iscsi.BLOCK, iscsi.kernel_name(device))
        # md tells its own chunk; device-mapper only that of a striped volume.
        chunk = number_in(at, "md/chunk_size") or number_in(at, "queue/minimum_io_size")
        geometry = ("-d", f"su={chunk},sw={len(disks)}") if made and chunk else ()
        force = ("-f",) if found else ()
        k.p.run("mkfs.xfs", "-q", *force, *geometry, device, about=f"XFS on {device}")


# ---- output ---------------------------------------------------------------------------


def _mount(device: str, nodes: str) -> str:
    """A program should use a device on the node of its card."""
    bind = f"numactl --cpunodebind={nodes} " if nodes.isdigit() else ""
    return f"    mount    {bind}mount -o noatime {device} DIR  (in fstab with _netdev,nofail)"


def _told(o: Options, nodes: Sequence[Node], disks: Sequence[Disk], made: Stripe | None) -> str:
    """The result, after --tune, as JSON or text."""
    array = iscsi.kernel_name(made.device) if made else ""
    tuned = iscsi.tune(disks, array) if o.tune else []
    value: dict[str, Any] = {"disks": [], "tuned": tuned, "made_fs": o.mkfs}
    new, lines = [n.iqn for n in nodes if n.new], []
    for d in disks:
        s = d.session
        one = {"path": d.path, "device": d.name, "bytes": d.size, "lun": d.lun, "target": s.iqn,
               "address": s.address.host, "port": s.address.port, "transport": s.transport,
               "new": s.iqn in new, "netdev": d.netdev, "nodes": d.nodes}
        value["disks"].append({key: word for key, word in one.items() if word != ""})
        lines += [d.path, f"    disk     {format_size(d.size)}, LUN {d.lun}, {d.name}",
                  f"    target   {printable(s.iqn)}",
                  f"    portal   {s.address} by {s.transport}",
                  f"    card     {printable(d.netdev) or 'not known'}, "
                  f"node {d.nodes or 'not known'}"]
        if not made:
            lines.append(_mount(d.path, d.nodes))
    if made:
        value["stripe"] = dict(json_of(made), path=made.device, new=made.new)
        lines += [made.device, f"    stripe   {made.kind} over {len(disks)} disks, {made.name}"
                               f"{', new' if made.new else ''}",
                  _mount(made.device, ",".join({d.nodes for d in disks}))]
    if o.json:
        return json_line(value)
    if o.mkfs:
        lines.append("made XFS")
    for t in tuned:
        if "error" in t:
            warn(f"{t['device']}: {t['setting']} stays {t['before']}: {t['error']}")
        else:
            lines.append(f"tuned {t['device']}: {t['setting']} {t['before']} -> {t['after']}")
    return "\n".join(lines) + "\n"


# ---- the commands ---------------------------------------------------------------------


def _check_options(o: Options) -> None:
    users = [u for u in (o.user, o.mutual_user) if u is not None]
    misuse_if(
        (o.chunk & (o.chunk - 1), "--chunk must be a power of two"),
        (o.plan is None and not o.words, "login needs the storage hosts' addresses, or --plan"),
        ((o.user is None) != (o.secret_file is None) or o.mutual_user is not None and not o.user
         or (o.mutual_user is None) != (o.mutual_secret_file is None),
         "CHAP needs --user and --secret-file, mutual CHAP also --mutual-user and "
         "--mutual-secret-file"),
        # It becomes a line of a record.
        (not all(re.fullmatch(rb"(?! )[^\0-\x1f\x7f]{1,255}(?<! )", os.fsencode(u)) for u in users),
         "--user and --mutual-user must be 1 to 255 bytes, no control character, and no "
         "blank at an end"),
        (users and o.plan is not None,
         "a plan has users and secrets of its own, so not also --user"))


def _login(o: Options, stop: Stop) -> None:
    _check_options(o)
    addresses = [iscsi.resolve(a) for a in o.words]
    me = Initiator("", Chap(o.user, o.secret_file) if o.user is not None else None,
                   Chap(o.mutual_user, o.mutual_secret_file) if o.mutual_user is not None else None)
    _auth(me)
    p = plan.read(o.plan, USAGE) if o.plan is not None else None
    k = stripe.take(o, stop)
    name = iscsi.initiator_name(k.p)
    where = f"{printable(o.plan)}: plan {p.name}" if p else "the storage host"
    if p:
        offered = from_plan(p, name, o.transport, o.target, where)
    else:
        iscsi.load_modules("tcp")  # by which targets are asked for
        iscsi.start_daemon(k.p)
        told = [k.p.run("iscsiadm", "-m", "discovery", "-t", "sendtargets", "-p", str(a), "-o",
                        "nonpersistent", about=f"asking {a} over TCP for its targets",
                        fine=[iscsi.NOTHING]) for a in addresses]
        offered = from_discovery("".join(told), o.transport)
    nodes, elsewhere = choose(offered, o.target, addresses, where)
    for node in nodes:
        node.initiator = node.initiator if p else me
        _auth(node.initiator)
    machine = read_host() if o.transport == "iser" else Host()
    for node in nodes if o.transport == "iser" else ():
        netdev = iscsi.netdev_to(node.host, machine)
        if not machine.nics[netdev].rdma:
            raise Failure(f"iSER needs an RDMA device on the way to {node.host}, which is "
                          f"{printable(netdev) or 'unknown'}; --transport tcp does without")
    iscsi.load_modules(o.transport)
    iscsi.start_daemon(k.p)
    disks: list[Disk] = []
    try:
        for node in nodes:
            k.p.stop.check()
            if not iscsi.find_session(node.iqn):
                _log_in(o, k, node)
            s = iscsi.find_session(node.iqn)
            if s and s.transport != node.transport:
                raise Failure(f"the session with {node} is over {printable(s.transport)} and not "
                              f"{node.transport}: log out of it first")
        disks = _find_disks(o, k, nodes)
        settle_halves(k)
        made = _make_stripe(o, k, disks, p.name if p else "iser") if o.stripe is not None else None
        if o.mkfs:
            _make_filesystems(o, k, disks, made)
    except Exception:
        new, k.p = [n for n in nodes if n.new], k.p.unstoppable()
        if o.keep:
            warn("--keep: the new sessions and devices stay; rftp-iser logout takes them back")
            raise
        # Unless they have a user by now.
        k.p.settle()
        with failures_to(warn, "not taken back: "):
            if not new and any(s.started for s in k.stripes):
                stop_stripes(k, disks)
        for node in reversed(new):
            with failures_to(warn, "not taken back: "):
                leave(k, node)
        raise
    if elsewhere:
        say("left alone, as they are not at the addresses given: " + elsewhere)
    output(_told(o, nodes, disks, made))


def _logout(o: Options, stop: Stop) -> None:
    misuse_if((o.plan is None and not o.target and not o.words and not o.all,
               "logout needs --plan, --target, addresses, or --all"))
    addresses = [iscsi.resolve(a) for a in o.words]
    k = stripe.take(o, stop)
    iqns = [t.iqn for t in plan.read(o.plan).targets] if o.plan is not None else []
    for iqn in o.target:
        if not k.node(iqn) and iscsi.find_session(iqn):
            raise Failure(f"{printable(iqn)} was not logged in to by rftp-iser login, so it is "
                          f"left as it is; iscsiadm -m node -T {printable(iqn)} --logout ends it")
    out = [n for n in k.nodes if o.all or n.iqn in [*iqns, *o.target] or
           any(n.address.is_same(a) for a in addresses)]
    if out:
        iscsi.start_daemon(k.p)
        settle_halves(k)
    k.p.settle()
    # Nothing is taken away unless all can be.
    stopped = stop_stripes(k, [disk for node in out for disk in disks_of(node)])
    for node in out:
        leave(k, node)
    if not k.nodes and k.stripes:  # their disks were gone already
        k.stripes = []
        k.write()
    if o.json:
        output(json_line({"targets": [n.iqn for n in out], "stripes": [s.name for s in stopped]}))
        return
    lines = [f"stopped {s}" for s in stopped]
    lines += ["logged out of " + printable(n.iqn) for n in out] or ["nothing to log out of"]
    output("\n".join(lines) + "\n")


def _run(work: Callable[[Options, Stop], None], o: Options) -> int:
    o.words = [iscsi.parse_address(word) for word in o.words]
    with Stop() as stop:
        try:
            work(o, stop)
        except Failure as why:
            if stop.asked:  # the signal, which has waited, ends this process in a moment
                say(str(why))
            raise
    return DONE


run_login, run_logout = partial(_run, _login), partial(_run, _logout)
