# SPDX-License-Identifier: Apache-2.0
"""The commands login and logout: this host as an initiator. A login makes sessions, waits for their
disks, and makes a stripe and filesystems of them; a logout takes these away. All of it is noted in
login.json before it is made, so that a login that is killed leaves nothing unknown."""
from __future__ import annotations

import contextlib
import json
import os
import re
import select
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rftp_common import (DONE, FAILED, USAGE, Failure, Misuse, Options, Stop, format_ids,
                         format_size, output, parse_ids, printable, say, warn)

from . import chap, iscsi, kept, names, plan, sessions, stripe, topology, wanted
from .iscsi import Node
from .kept import Kept, only_warn
from .plan import Chap, Initiator
from .sessions import Address, Disk
from .stripe import Stripe

# ---- sessions ------------------------------------------------------------------------


@dataclass
class Login:
    o: Options
    k: Kept
    nodes: list[Node] = field(default_factory=list)
    disks: list[Disk] = field(default_factory=list)
    stripe: Stripe | None = None
    made_fs: bool = False
    tuned: list[dict[str, str]] = field(default_factory=list)


def _auth(i: Initiator) -> iscsi.Settings:
    """CHAP's settings of a record."""
    if not i.chap:
        return {}
    # As the record has them; bytes that are not UTF-8 stay.
    secret, mutual = (chap.read(c.secret_file, False).encode("latin-1")
                      .decode("utf-8", "surrogateescape") if c else None
                      for c in (i.chap, i.mutual))
    if secret == mutual:
        raise Failure("the secrets of both directions are the same, which RFC 7143 forbids")
    auth = {"authmethod": "CHAP", "username": i.chap.user, "password": secret,
            "username_in": i.mutual.user if i.mutual else None, "password_in": mutual}
    return {"node.session.auth." + key: value for key, value in auth.items()}


def _log_in(login: Login, node: Node) -> None:
    """By a record of its own, made anew: the plan or the options may have changed since a run that
    was killed. A record of others is used as it is."""
    k = login.k
    # startup: else open-iscsi's own service would log in at the next start, without stripe and
    # settings. retry: now and then the kernel refuses a question of iscsid.
    settings: iscsi.Settings = {
        "node.startup": "manual", "node.session.initial_login_retry_max": "3",
        "node.conn[0].timeo.login_timeout": str(login.o.wait), **_auth(node.initiator)}
    if login.o.tune:
        settings["node.session.cmds_max"] = str(sessions.CMDS_MAX)
        settings["node.session.queue_depth"] = str(sessions.QUEUE_DEPTH)
    before = k.nodes.get(node.iqn)
    if before and before.record:
        if before.file != node.file:
            iscsi.forget(k.p, before)
    elif os.path.exists(node.file):
        node.record = False
        if node.initiator.chap:
            iqn = printable(node.iqn)
            raise Failure(f"open-iscsi has a record of {iqn} that is not login's, "
                          f"{printable(node.file)}: log in with iscsiadm, or take it away with "
                          f"iscsiadm -m node -T {iqn} -o delete")
    k.nodes[node.iqn] = node
    k.write()
    try:
        if node.record:
            iscsi.make_record(k.p, node, settings)
        iscsi.log_in(k.p, node)
    except iscsi.Pending:
        raise
    except Failure:
        k.p.stop = None
        with only_warn():
            k.drop(node)
        raise
    node.new = True


def _make_sessions(login: Login) -> None:
    for node in login.nodes:
        login.k.p.check()
        if not sessions.find(sessions.read(), node.iqn):
            _log_in(login, node)
        s = sessions.find(sessions.read(), node.iqn)
        if s and s.transport != node.transport:
            raise Failure(f"the session with {printable(s.iqn)} is over {printable(s.transport)} "
                          f"and not {node.transport}: log out of it first")


# ---- stripes and filesystems ----------------------------------------------------------


def _check_free(login: Login, device: str) -> str:
    """The signatures on a device, which must have no user."""
    # Its path may lead to another disk by now.
    there = {(s.id, d.lun, d.name) for s in sessions.read() for d in s.disks}
    for d in login.disks:
        if (d.session.id, d.lun, d.name) not in there or sessions.kernel_name(d.path) != d.name:
            raise Failure(f"{d.path} is not LUN {d.lun} of {printable(d.session.iqn)} any more: it "
                          "has been logged out of; nothing was written to it")
    name = sessions.kernel_name(device)
    if not name:
        raise Failure(f"{device} is gone")
    stripe.above(name, [])
    return stripe.contents(login.k.p, device)


def _may_write(login: Login, devices: Sequence[str], what: str) -> list[str]:
    """The signatures on each device; Failure, before the first is written to, if one has a user, or
    data that must not be lost. what: will be made there."""
    found = [_check_free(login, device) for device in devices]
    for device, signatures in zip(devices, found):
        if not signatures or login.o.yes:
            continue
        holds = f"{device} holds data ({signatures}), which {what} "
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise Failure(holds + "would destroy: --yes does so")
        sys.stderr.write(holds + "destroys. Type yes to go on: ")
        sys.stderr.flush()
        while not select.select([sys.stdin], [], [], 0.1)[0]:
            login.k.p.check()
        if sys.stdin.readline() != "yes\n":
            raise Failure(f"{device} was left as it is")
    if [_check_free(login, device) for device in devices] != found:
        raise Failure("another program has just written to one of the disks")
    return found


def _make_stripe(login: Login, plan_name: str) -> None:
    o, k, paths = login.o, login.k, [d.path for d in login.disks]
    if not 2 <= len(paths) <= stripe.MEMBERS_MOST:
        raise Failure(f"a stripe takes 2 to {stripe.MEMBERS_MOST} disks, and there "
                      f"{'is' if len(paths) == 1 else 'are'} {len(paths)}")
    s = stripe.find(k.p, o.stripe, paths)
    if not s:
        if any(_may_write(login, paths, "making a stripe")):
            k.p.run("wipefs", "--quiet", "--all", *paths)
        s = stripe.draw(o.stripe, "rftp-" + plan_name)
        s.disks = [(d.session.iqn, d.lun) for d in login.disks]
        k.stripes.append(s)
        k.write()
        try:
            stripe.make(k.p, s, paths, o.chunk)
        except Failure:
            k.p.stop = None  # a signal may have ended a program in its midst
            kept.settle_halves(k)
            raise
        k.stripes.remove(s)
        s.disks = []
    login.stripe = s
    if s not in k.stripes:
        k.stripes.append(s)
    k.write()


def _make_filesystems(login: Login) -> None:
    devices = [login.stripe.device] if login.stripe else [d.path for d in login.disks]
    for device, found in zip(devices, _may_write(login, devices, "mkfs.xfs")):
        if _check_free(login, device) != found:
            raise Failure(f"another program has just written to {device}")
        stripe.make_xfs(login.k.p, device, len(login.disks) if login.stripe else 1, bool(found))
        login.made_fs = True


def _undo(login: Login) -> None:
    """Takes back the sessions and the stripe of this run, unless they have a user by now."""
    k, new = login.k, [n for n in login.nodes if n.new]
    k.p.stop = None
    k.p.settle()
    if not new and login.stripe and login.stripe.started:
        with only_warn("not taken back: "):
            kept.stop_stripes(k, [d.name for d in login.disks])
    for node in reversed(new):
        with only_warn("not taken back: "):
            kept.leave(k, node)


# ---- output ---------------------------------------------------------------------------


def _told(login: Login) -> dict[str, Any]:
    """As JSON."""
    disks, new = [], [n.iqn for n in login.nodes if n.new]
    for d in login.disks:
        s = d.session
        told = {"path": d.path, "device": d.name, "bytes": d.size, "lun": d.lun, "target": s.iqn,
                "address": s.address.host, "port": s.address.port, "transport": s.transport,
                "new": s.iqn in new, "netdev": d.netdev, "nodes": d.nodes}
        disks.append({key: value for key, value in told.items() if value != ""})
    value: dict[str, Any] = {"disks": disks, "tuned": login.tuned, "made_fs": login.made_fs}
    if login.stripe:
        value["stripe"] = dict(login.stripe.to_json(), path=login.stripe.device,
                               new=login.stripe.new)
    return value


def _mount(device: str, nodes: set[int]) -> str:
    """A program should use a device on the node of its card."""
    bind = f"numactl --cpunodebind={format_ids(nodes)} " if len(nodes) == 1 else ""
    return f"    mount    {bind}mount -o noatime {device} DIR  (in fstab with _netdev,nofail)"


def _text(m: dict[str, Any]) -> str:
    """Of the JSON."""
    lines, all_nodes, s = [], set(), m.get("stripe")
    for d in m["disks"]:
        nodes = parse_ids(d.get("nodes", "")) or set()
        all_nodes |= nodes
        name = "" if d["path"] == "/dev/" + d["device"] else ", " + d["device"]
        before = "" if d["new"] else ", logged in before"
        lines += [d["path"],
                  f"    disk     {format_size(d['bytes'])}, LUN {d['lun']}{name}",
                  f"    target   {printable(d['target'])}",
                  f"    portal   {Address(d['address'], d['port'])} by {d['transport']}{before}",
                  f"    card     {printable(d.get('netdev', 'not known'))}, "
                  f"node {d.get('nodes', 'not known')}"]
        if not s:
            lines.append(_mount(d["path"], nodes))
    if s:
        new = ", new" if s["new"] else ""
        lines += [s["path"], f"    stripe   {s['kind']} over {len(m['disks'])} disks, "
                             f"{s['name']}{new}", _mount(s["path"], all_nodes)]
    if m["made_fs"]:
        lines.append("made XFS")
    for t in m["tuned"]:
        if "error" in t:
            warn(f"{t['device']}: {t['setting']} stays {t['before']}: {t['error']} (wanted "
                 f"{t['wanted']})")
        else:
            change = "is " if t["before"] == t["after"] else t["before"] + " -> "
            lines.append(f"tuned {t['device']}: {t['setting']} {change}{t['after']}")
    return "\n".join(lines) + "\n"


def _as_json(value: dict[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":")) + "\n"


# ---- login ----------------------------------------------------------------------------


def _check_options(o: Options) -> None:
    if o.chunk & (o.chunk - 1):
        raise Misuse("--chunk takes a power of two")
    if o.plan is None and not o.words:
        raise Misuse("login wants the storage hosts' addresses, or --plan")
    for iqn in o.target:
        if names.iqn(iqn):
            raise Misuse("--target takes an iSCSI name, not", iqn)
    for way, user, file in (("", o.user, o.secret_file),
                            ("mutual-", o.mutual_user, o.mutual_secret_file)):
        if (user is None) != (file is None):
            raise Misuse(f"CHAP wants --{way}user and --{way}secret-file")
        if user is None:
            continue
        # It becomes a line of a record.
        if not re.fullmatch(rb"(?! )[^\0-\x1f\x7f]{1,255}(?<! )",
                            user.encode("utf-8", "surrogateescape")):
            raise Misuse(f"--{way}user takes 1 to 255 bytes, without a control character, and "
                         "without a blank at an end, which open-iscsi would drop")
    if o.mutual_user is not None and o.user is None:
        raise Misuse("mutual CHAP wants --user and --secret-file, too")
    if o.user is not None and o.plan is not None:
        raise Misuse("a plan has users and secrets of its own, so not also --user")
    for word in o.words:
        sessions.parse_address(word)


def _check_rdma(nodes: Sequence[Node]) -> None:
    machine = topology.read("", "", None, None, [])
    for address in (n.address.host for n in nodes):
        netdev = sessions.netdev_to(address)
        if not netdev:
            raise Failure(f"no network interface leads to {address}")
        if not machine.netdev_rdma(netdev):
            raise Failure(f"iSER needs an RDMA device on the way to {address}, and "
                          f"{printable(netdev)}, which leads there, has none; --transport tcp does "
                          "without")


def _attach(login: Login, plan_name: str) -> None:
    o = login.o
    try:
        _make_sessions(login)
        settle = 0 if o.plan is not None else 20 if o.stripe is not None else 5
        login.disks = wanted.wait_for_disks(login.k.p, login.nodes, o.wait, settle)
        kept.settle_halves(login.k)
        if o.stripe is not None:
            _make_stripe(login, plan_name)
        if o.mkfs:
            _make_filesystems(login)
    except Exception:
        if o.keep:
            warn("--keep: the new sessions and devices stay; rftp-iser logout takes them back")
        else:
            _undo(login)
        raise
    if o.tune:
        array = sessions.kernel_name(login.stripe.device) if login.stripe else ""
        login.tuned = sessions.tune(login.disks, array)


def _login(o: Options, stop: Stop) -> None:
    addresses = [sessions.resolve(word) for word in o.words]
    me = Initiator("", Chap(o.user, o.secret_file) if o.user is not None else None,
                   Chap(o.mutual_user, o.mutual_secret_file) if o.mutual_user is not None else None)
    _auth(me)
    try:
        p = plan.read(o.plan) if o.plan is not None else None
    except Failure as why:
        # A plan that is wrong stays so, however often it is tried, as wrong options do.
        why.status = FAILED if why.__cause__ else USAGE
        raise
    # Before _attach only modules are loaded, and the daemon started.
    login = Login(o, kept.take(o, stop))
    programs = login.k.p
    name = iscsi.initiator_name(programs)
    where = f"{printable(o.plan)}: plan {printable(str(p.name))}" if p else "the storage host"
    if p:
        offered = wanted.from_plan(p, name, o.transport, o.target, where)
    else:
        iscsi.load_modules(programs, "tcp")  # by which targets are asked for
        iscsi.start_daemon(programs)
        offered = wanted.from_discovery("".join(iscsi.discover(programs, a) for a in addresses),
                                        o.transport)
    login.nodes, elsewhere = wanted.choose(offered, o.target, addresses, where)
    for node in login.nodes:
        if not p:
            node.initiator = me
        _auth(node.initiator)
    if o.transport == "iser":
        _check_rdma(login.nodes)
    iscsi.load_modules(programs, o.transport)
    iscsi.start_daemon(programs)
    _attach(login, str(p.name) if p else "iser")
    if elsewhere:
        say("left alone, as they are not at the addresses given: " + elsewhere)
    told = _told(login)
    output(_as_json(told) if o.json else _text(told))


# ---- logout ---------------------------------------------------------------------------


def _leaving(o: Options, k: Kept) -> list[Node]:
    """The nodes to log out of. A target without a session is no error."""
    out = list(k.nodes.values()) if o.all else []
    iqns = [t.iqn for t in plan.read(o.plan).targets] if o.plan is not None else []
    for iqn in o.target:
        if iqn not in k.nodes and sessions.find(sessions.read(), iqn):
            raise Failure(f"{printable(iqn)} was not logged in to by rftp-iser login, so it is "
                          f"left as it is; iscsiadm -m node -T {printable(iqn)} --logout ends it")
    out += [k.nodes[iqn] for iqn in [*iqns, *o.target] if iqn in k.nodes]
    for address in map(sessions.resolve, o.words):
        out += [n for n in k.nodes.values() if n.address.is_same(address)]
    return list({n.iqn: n for n in out}.values())


def _logout(o: Options, stop: Stop) -> None:
    k = kept.take(o, stop)
    out = _leaving(o, k)
    if out:
        iscsi.start_daemon(k.p)
        kept.settle_halves(k)
    k.p.settle()
    # Nothing is taken away unless all can be.
    stopped = kept.stop_stripes(k, [disk for node in out for disk in kept.disks_of(node)])
    for node in out:
        kept.leave(k, node)
    if not k.nodes and any(not s.disks for s in k.stripes):  # their disks were gone already
        k.stripes = [s for s in k.stripes if s.disks]
        k.write()
    if o.json:
        output(_as_json({"targets": [n.iqn for n in out], "stripes": [s.name for s in stopped]}))
        return
    lines = [f"stopped {s}" for s in stopped]
    lines += ["logged out of " + printable(n.iqn) for n in out] or ["nothing to log out of"]
    output("\n".join(lines) + "\n")


# ---- the commands ---------------------------------------------------------------------


def _command(name: str, o: Options, work: Callable[[Options, Stop], None]) -> int:
    with Stop() as stop:
        try:
            if os.geteuid():
                raise Failure(f"only root may do what {name} does: use sudo")
            work(o, stop)
        except Failure as why:
            if o.json:
                with contextlib.suppress(Failure):  # it is said all the same
                    output(_as_json({"error": str(why)}))
            if stop.asked:  # the signal, which has waited, ends this process in a moment
                say(str(why))
            raise
    return DONE


def run_login(o: Options) -> int:
    _check_options(o)
    return _command("login", o, _login)


def run_logout(o: Options) -> int:
    if o.plan is None and not o.target and not o.words and not o.all:
        raise Misuse("logout wants --plan, --target, addresses, or --all")
    for word in o.words:
        sessions.parse_address(word)
    return _command("logout", o, _logout)
