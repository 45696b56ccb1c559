# SPDX-License-Identifier: Apache-2.0
"""The commands login and logout: this host as an initiator. A login makes sessions, waits for their
disks, and makes a stripe and filesystems of them; a logout takes these away. All of it is noted in
login.json before it is made, so that a login that is killed leaves nothing unknown."""
from __future__ import annotations

import contextlib
import json
import os
import select
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import chap, iscsi, names, plan, sessions, stripe, topology
from .common import (Options, DONE, USAGE, Failure, Misuse, Stop, format_ids, format_size, output, parse_ids,
                     printable, read_text, say, warn)
from .iscsi import Node, Programs
from .kept import Half, Kept, settle_halves, take
from .plan import Chap, Plan
from .sessions import Address, Setting
from .stripe import Stripe
from .wanted import (Attached, Wanted, from_discovery, from_plan, machine_with, netdev_to, places,
                     wait_for_disks)

# ---- sessions -------------------------------------------------------------------------


@dataclass
class Login:
    args: Options
    p: Programs
    kept: Kept
    wanted: list[Wanted] = field(default_factory=list)
    disks: list[Attached] = field(default_factory=list)
    stripe: Stripe | None = None
    device: str = ""  # the stripe's
    stripe_new: bool = False
    stripe_started: bool = False  # by this run
    made_fs: bool = False
    tuned: list[Setting] = field(default_factory=list)


def _secret(c: Chap | None) -> str | None:
    """As a record has it; bytes that are not UTF-8 stay."""
    return chap.read(c.secret_file, False).encode("latin-1").decode("utf-8", "surrogateescape") \
        if c else None


def _settings(w: Wanted, args: Options) -> iscsi.Settings:
    """Of its record. startup: else open-iscsi's own service would log in at the next start, without
    stripe and settings. retry: now and then the kernel refuses a question of iscsid."""
    settings: iscsi.Settings = {
        "node.startup": "manual", "node.session.initial_login_retry_max": "3",
        "node.conn[0].timeo.login_timeout": str(args.wait)}
    if w.chap:
        secret, mutual = _secret(w.chap), _secret(w.mutual)
        if secret == mutual:
            raise Failure("target %s: the secrets of both directions are the same, which RFC 7143 "
                          "forbids" % printable(w.node.iqn))
        auth = {"authmethod": "CHAP", "username": w.chap.user, "password": secret,
                "username_in": w.mutual.user if w.mutual else None, "password_in": mutual}
        settings.update(("node.session.auth." + k, v) for k, v in auth.items())
    if args.tune:
        settings["node.session.cmds_max"] = str(sessions.CMDS_MAX)
        settings["node.session.queue_depth"] = str(sessions.QUEUE_DEPTH)
    return settings


def _take_back(login: Login, node: Node, why: Failure, begun: bool) -> None:
    """After a login that has failed."""
    if begun and isinstance(why, iscsi.Stopped) and not iscsi.comes_late(node):
        warn("iscsid may still be logging in to %s: rftp-iser logout --target %s takes that back" %
             (printable(node.iqn), printable(node.iqn)))
        return
    free = login.p.unstoppable()
    if begun and isinstance(why, iscsi.Ended) and why.code == iscsi.EXISTS:
        node.record = False  # it belongs to that session
    elif begun:
        with contextlib.suppress(Failure):
            iscsi.log_out(free, node)
    try:
        login.kept.drop(free, node)
    except Failure as also:
        warn(str(also))


def _log_in(login: Login, w: Wanted) -> None:
    """By a record of its own, made anew: the plan or the options may have changed since a run that
    was killed. A record of others is used as it is."""
    node, kept = w.node, login.kept
    settings, before = _settings(w, login.args), kept.nodes.get(node.iqn)
    if before and before.record and before.file != node.file:
        iscsi.forget(login.p, before)
    if os.path.exists(node.file) and not (before and before.record):
        node.record = False
        if w.chap:
            raise Failure("open-iscsi has a record of %s that is not login's, %s: log in with "
                          "iscsiadm, or take it away with iscsiadm -m node -T %s -o delete" % (
                              printable(node.iqn), printable(node.file), printable(node.iqn)))
    kept.nodes[node.iqn] = node
    kept.write()
    begun = False
    try:
        if node.record:
            iscsi.make_record(login.p, node, settings)
        begun = True
        iscsi.log_in(login.p, node, bool(w.chap))
    except Failure as why:
        _take_back(login, node, why, begun)
        raise
    w.new = True


def _make_sessions(login: Login) -> None:
    there = sessions.read()
    for w in login.wanted:
        login.p.check()
        s = sessions.find(there, w.node.iqn)
        if not s:
            _log_in(login, w)
        elif s.transport != w.node.transport:
            raise Failure("this host is logged in to %s already, over %s and not %s: log out "
                          "first" % (printable(s.iqn), printable(s.transport), w.node.transport))


def _undo(login: Login) -> None:
    """Takes back the sessions and the stripe of this run, unless they have a user by now."""
    p, kept = login.p.unstoppable(), login.kept
    p.settle()
    # Also one that udev has put together: it was not there before its last session.
    if login.stripe and (login.stripe_started or any(w.new for w in login.wanted)):
        try:
            stripe.stop(p, login.stripe, login.device)
            kept.stripes = [s for s in kept.stripes if s != login.stripe]
            kept.write()
        except Failure as why:
            warn("not taken back: %s" % why)
    for w in reversed([w for w in login.wanted if w.new]):
        try:
            session = w.node.session(sessions.read())
            for disk in session.disks if session else ():
                sessions.check_free(disk.name)
            iscsi.log_out(p, w.node)
            kept.drop(p, w.node)
        except Failure as why:
            warn("not taken back: %s" % why)


# ---- stripes and filesystems ----------------------------------------------------------


def _may_lose(login: Login, device: str, what: str, found: str, ask: bool = True) -> None:
    """May the data that was found on a device be lost? what: will be made there. ask: else the user
    is not asked yet."""
    can_ask = sys.stdin.isatty() and sys.stderr.isatty()
    if not found or login.args.yes or (can_ask and not ask):
        return
    if not can_ask:
        raise Failure("%s holds data (%s), which %s would destroy: --yes does so" % (
            device, found, what))
    sys.stderr.write("%s holds data (%s), which %s destroys. Type yes to go on: " % (
        device, found, what))
    sys.stderr.flush()
    while not select.select([sys.stdin], [], [], 0.1)[0]:
        login.p.check()
    if sys.stdin.readline() != "yes\n":
        raise Failure("%s was left as it is" % device)


def _look(login: Login, device: str) -> str:
    """The signatures on a device without users."""
    name = sessions.kernel_name(device)
    if not name:
        raise Failure("%s is gone" % device)
    sessions.check_free(name)
    return stripe.contents(login.p, device)


def _check_same(login: Login) -> None:
    """Before a disk is written to: its path may lead to another one by now."""
    there = {(s.id, d.lun, d.name) for s in sessions.read() for d in s.disks}
    for a in login.disks:
        same = (a.session.id, a.disk.lun, a.disk.name) in there
        if not same or sessions.kernel_name(a.path) != a.disk.name:
            raise Failure("%s is not LUN %d of %s any more: it has been logged out of; nothing was "
                          "written to it" % (a.path, a.disk.lun, printable(a.session.iqn)))


def _new_stripe(login: Login, paths: Sequence[str], name: str) -> tuple[Stripe, str]:
    kept, p = login.kept, login.p
    found = [_look(login, path) for path in paths]
    for path, signatures in zip(paths, found):
        _may_lose(login, path, "making a stripe", signatures)
    _check_same(login)
    if any(found):
        p.run("wipefs", "--quiet", "--all", *paths)
    half = Half(stripe.draw(login.args.stripe, name),
                [(a.session.iqn, a.disk.lun) for a in login.disks])
    kept.halves.append(half)
    kept.write()
    try:
        made = stripe.make(p, half.stripe, paths, login.args.chunk)
    except Failure:
        settle_halves(kept, p.unstoppable())  # parts that could not be taken back stay known
        raise
    kept.halves.remove(half)
    return made


def _make_stripe(login: Login, plan_name: str) -> None:
    paths = [a.path for a in login.disks]
    if not 2 <= len(paths) <= stripe.MEMBERS_MOST:
        raise Failure("a stripe takes 2 to %d disks, and there %s %d" % (
            stripe.MEMBERS_MOST, "is" if len(paths) == 1 else "are", len(paths)))
    found = stripe.find(login.p, login.args.stripe, paths)
    if found:
        login.stripe, login.device, login.stripe_started = found
    else:
        login.stripe, login.device = _new_stripe(login, paths, "rftp-" + plan_name)
        login.stripe_new = login.stripe_started = True
    login.kept.add_stripe(login.stripe)
    login.kept.write()


def _make_filesystems(login: Login) -> None:
    """All devices are looked at before the first is written to."""
    devices = [login.device] if login.stripe else [a.path for a in login.disks]
    for device in devices:
        _may_lose(login, device, "mkfs.xfs", _look(login, device), False)
    for device in devices:
        found = _look(login, device)
        _may_lose(login, device, "mkfs.xfs", found)
        _check_same(login)
        stripe.make_xfs(login.p, device, len(login.disks) if login.stripe else 1, bool(found))
        login.made_fs = True


# ---- output ---------------------------------------------------------------------------


def _hint(device: str, nodes: str) -> str:
    """A program should use a device on the node of its card."""
    there = parse_ids(nodes) or set()
    return "    mount    %smount -o noatime %s DIR  (in fstab with _netdev,nofail)" % (
        "numactl --cpunodebind=%s " % nodes if len(there) == 1 else "", device)


def _text(login: Login) -> str:
    lines, nodes = [], set()
    for a in login.disks:
        nodes |= parse_ids(a.nodes) or set()
        lines += [a.path, "    disk     %s, LUN %d%s" % (
            format_size(a.disk.size), a.disk.lun,
            "" if a.path == "/dev/" + a.disk.name else ", " + a.disk.name),
            "    target   " + printable(a.session.iqn),
            "    portal   %s by %s%s" % (a.wanted.node.address, a.session.transport,
                                         "" if a.wanted.new else ", logged in before"),
            "    card     %s, node %s" % (printable(a.netdev) or "not known",
                                          a.nodes or "not known")]
        if not login.stripe:
            lines.append(_hint(a.path, a.nodes))
    if login.stripe:
        lines += [login.device, "    stripe   %s over %d disks, %s%s" % (
            login.stripe.kind, len(login.disks), login.stripe.name,
            ", new" if login.stripe_new else ""), _hint(login.device, format_ids(nodes))]
    if login.made_fs:
        lines.append("made XFS")
    for s in login.tuned:
        if s.error:
            warn("%s: %s stays %s: %s (wanted %s)" % (s.device, s.name, s.before, s.error, s.want))
        else:
            lines.append("tuned %s: %s %s" % (s.device, s.name, "is " + s.after if
                                              s.before == s.after else s.before + " -> " + s.after))
    return "\n".join(lines) + "\n"


def _told(value: dict[str, Any], **more: str) -> dict[str, Any]:
    """With more, unless it is empty."""
    return dict(value, **{k: v for k, v in more.items() if v})


def _json(login: Login) -> dict[str, Any]:
    disks = [_told({"path": a.path, "device": a.disk.name, "bytes": a.disk.size, "lun": a.disk.lun,
                    "target": a.session.iqn, "address": a.wanted.node.address.host,
                    "port": a.wanted.node.address.port, "transport": a.session.transport,
                    "new": a.wanted.new}, netdev=a.netdev, nodes=a.nodes) for a in login.disks]
    tuned = [_told({"device": s.device, "setting": s.name, "before": s.before, "after": s.after,
                    "wanted": s.want}, error=s.error) for s in login.tuned]
    value: dict[str, Any] = {"disks": disks, "tuned": tuned, "made_fs": login.made_fs}
    if login.stripe:
        value["stripe"] = dict(vars(login.stripe), path=login.device, new=login.stripe_new)
    return value


def _emit(value: dict[str, Any]) -> None:
    output(json.dumps(value, separators=(",", ":")) + "\n")


# ---- login ----------------------------------------------------------------------------


def _wrong_user(user: str) -> str:
    """As a line of a record; "": nothing."""
    if not 0 < len(user.encode("utf-8", "surrogateescape")) < 256:
        return "is empty, or longer than 255 bytes"
    if any(c < " " or c == "\x7f" for c in user):
        return "has a control character in it"
    return "begins or ends with a blank, which open-iscsi would drop" if user != user.strip(" ") \
        else ""


def _check_chap(*ways: Chap | None) -> None:
    for c in ways:
        if c and _wrong_user(c.user):
            raise Failure("CHAP's user " + _wrong_user(c.user))
        _secret(c)


def _check_words(words: Sequence[str]) -> None:
    for word in words:
        try:
            sessions.parse_address(word)
        except Failure as why:
            raise Misuse(str(why)) from None


def _check_options(o: Options) -> None:
    o.transport = "iser" if o.transport is None else o.transport
    if o.transport not in iscsi.IFACES:
        raise Misuse("--transport takes iser or tcp, not", o.transport)
    if o.stripe is not None and o.stripe not in stripe.KINDS:
        raise Misuse("--stripe takes md or lvm, not", o.stripe)
    if o.chunk & (o.chunk - 1):
        raise Misuse("--chunk takes a power of two")
    if o.plan is None and not o.words:
        raise Misuse("login wants the storage hosts' addresses, or --plan")
    for iqn in o.target:
        if names.iqn(iqn):
            raise Misuse("--target takes an iSCSI name, not", iqn)
    for wrong, told in (
            ((o.user is None) != (o.secret_file is None), "CHAP wants --user and --secret-file"),
            ((o.mutual_user is None) != (o.mutual_secret_file is None),
             "mutual CHAP wants --mutual-user and --mutual-secret-file"),
            (o.mutual_user is not None and o.user is None,
             "mutual CHAP wants --user and --secret-file, too"),
            (o.user is not None and o.plan is not None,
             "a plan has users and secrets of its own, so not also --user")):
        if wrong:
            raise Misuse(told)
    for user in (o.user, o.mutual_user):
        if user is not None and _wrong_user(user):
            raise Misuse("CHAP's user " + _wrong_user(user))
    _check_words(o.words)


def _read_plan(path: str) -> Plan:
    """A plan that is wrong stays so, however often it is tried, as wrong options do."""
    told = read_text(path)
    try:
        return plan.parse(told, "standard input" if path == "-" else printable(path))
    except Failure as why:
        raise Failure(str(why), USAGE) from None


def _choose(login: Login, p: Plan | None, addresses: Sequence[Address], name: str,
            ways: tuple[Chap | None, Chap | None]) -> list[Wanted]:
    """login.wanted; those that are at other addresses only are returned."""
    o = login.args
    if p:
        login.wanted = from_plan(p, name, o.transport, o.target, addresses, printable(o.plan))
        for w in login.wanted:
            _check_chap(w.chap, w.mutual)
        return []
    iscsi.load_modules(login.p, "tcp")  # by which targets are asked for
    iscsi.start_daemon(login.p)
    told = "".join(iscsi.discover(login.p, a) for a in addresses)
    login.wanted, elsewhere = from_discovery(told, o.transport, o.target, addresses)
    for w in login.wanted:
        w.chap, w.mutual = ways
    return elsewhere


def _check_rdma(login: Login, machine: topology.Host) -> None:
    for w in login.wanted:
        address = w.node.address.host
        netdev = netdev_to(address)
        if not netdev:
            raise Failure("no network interface leads to %s" % address)
        if not machine.netdev_rdma(netdev):
            raise Failure("iSER needs an RDMA device on the way to %s, and %s, which leads there, "
                          "has none; --transport tcp does without" % (address, printable(netdev)))


def _attach(login: Login, plan_name: str) -> None:
    o = login.args
    try:
        _make_sessions(login)
        login.disks = wait_for_disks(login.p, login.wanted, o.wait, o.stripe is not None)
        settle_halves(login.kept, login.p)
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
        for a in login.disks:
            login.tuned += sessions.settings_of_disk(a.disk.name, a.session.host)
        name = sessions.kernel_name(login.device)
        if name:
            login.tuned += sessions.settings_of_stripe(name, len(login.disks))
        for s in login.tuned:
            s.set()


def _login(o: Options, stop: Stop) -> None:
    addresses = [sessions.resolve(word) for word in o.words]
    ways = (Chap(o.user, o.secret_file) if o.user is not None else None,
            Chap(o.mutual_user, o.mutual_secret_file) if o.mutual_user is not None else None)
    _check_chap(*ways)
    p = _read_plan(o.plan) if o.plan is not None else None
    # Before _attach only modules are loaded, and the daemon started.
    programs = Programs(stop)
    programs.run("iscsiadm", "--version")
    name = iscsi.initiator_name(programs)
    kept = take(o, stop)
    programs.lock = kept.lock
    login = Login(o, programs, kept)
    elsewhere = _choose(login, p, addresses, name, ways)
    machine = machine_with([])
    if o.transport == "iser":
        _check_rdma(login, machine)
    iscsi.load_modules(programs, o.transport)
    iscsi.start_daemon(programs)
    _attach(login, str(p.name) if p else "iser")
    if elsewhere:
        say("left alone, as they are not at the addresses given: " + places(elsewhere))
    if o.json:
        _emit(_json(login))
    else:
        output(_text(login))


# ---- logout ---------------------------------------------------------------------------


def _leaving(o: Options, kept: Kept) -> list[Node]:
    """The nodes to log out of. A target without a session is no error."""
    there, out = sessions.read(), []
    if o.plan is not None:
        out += [kept.nodes[t.iqn] for t in plan.read(o.plan).targets if t.iqn in kept.nodes]
    for iqn in o.target:
        if iqn in kept.nodes:
            out.append(kept.nodes[iqn])
        elif sessions.find(there, iqn):
            raise Failure("%s was not logged in to by rftp-iser login, so it is left as it is; "
                          "iscsiadm -m node -T %s --logout ends it" % (printable(iqn),
                                                                       printable(iqn)))
    for word in o.words:
        address = sessions.resolve(word)
        out += [n for n in kept.nodes.values() if n.address.is_same(address)]
    if o.all:
        out += kept.nodes.values()
    return list({n.iqn: n for n in out}.values())


def _above(kept: Kept, disk: str) -> tuple[Stripe, str] | None:
    """The stripe that a disk is in, and its device. Failure: the disk has a user, or is a part of
    another device."""
    devices, found = sessions.stack(disk), None
    sessions.check_unused(devices)
    for name in devices[1:]:
        s = stripe.of_device(name, kept.stripes)
        if s and not found:
            found = s, name
        elif not s and not sessions.is_partition(name):
            raise Failure("/dev/%s is part of /dev/%s, which is not login's: stop that first" % (
                disk, name))
    return found


def _disks_of(node: Node) -> list[str]:
    """Others may have sessions with the same target, by another way, with disks of theirs."""
    session = node.session(sessions.read())
    return [d.name for d in session.disks] if session else []


def _leave(kept: Kept, p: Programs, out: Sequence[Node]) -> list[Stripe]:
    """Nothing is taken away unless all can be. The stripes that were stopped."""
    stopped: list[Stripe] = []
    if out:
        settle_halves(kept, p)
    p.settle()
    disks = [disk for node in out for disk in _disks_of(node)]
    for disk in disks:
        _above(kept, disk)
    for disk in disks:
        found = _above(kept, disk)
        if found:
            stripe.stop(p, found[0], "/dev/" + found[1])
            kept.stripes.remove(found[0])
            kept.write()
            stopped.append(found[0])
    if stopped:
        p.settle()
    for node in out:
        for disk in _disks_of(node):  # once more, for those before it have taken their time
            _above(kept, disk)
        if node.session(sessions.read()):
            iscsi.log_out(p, node)
        kept.drop(p, node)
    if not kept.nodes and kept.stripes:  # their disks were gone already
        kept.stripes = []
        kept.write()
    return stopped


def _logout(o: Options, stop: Stop) -> None:
    programs = Programs(stop)
    programs.run("iscsiadm", "--version")
    kept = take(o, stop)
    programs.lock = kept.lock
    out = _leaving(o, kept)
    if out:
        iscsi.start_daemon(programs)
    stopped = _leave(kept, programs, out)
    if o.json:
        _emit({"targets": [n.iqn for n in out], "stripes": [s.name for s in stopped]})
    else:
        lines = ["stopped %s" % s for s in stopped]
        lines += ["logged out of " + printable(n.iqn) for n in out] or ["nothing to log out of"]
        output("\n".join(lines) + "\n")


# ---- the commands ---------------------------------------------------------------------


def _command(name: str, o: Options,
             work: Callable[[Options, Stop], None]) -> int:
    with Stop() as stop:
        try:
            if os.geteuid():
                raise Failure("only root may do what %s does: use sudo" % name)
            work(o, stop)
        except Failure as why:
            if o.json:
                with contextlib.suppress(Failure):  # it is said all the same
                    _emit({"error": str(why)})
            if not stop.asked:
                raise
            if o.debug:  # the signal, which has waited, ends this process in a moment
                traceback.print_exc()
            say(str(why))
            return why.status
    return DONE


def run_login(o: Options) -> int:
    _check_options(o)
    return _command("login", o, _login)


def run_logout(o: Options) -> int:
    if o.plan is None and not o.target and not o.words and not o.all:
        raise Misuse("logout wants --plan, --target, addresses, or --all")
    _check_words(o.words)
    return _command("logout", o, _logout)
