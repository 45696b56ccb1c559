# SPDX-License-Identifier: Apache-2.0
"""The command verify: is the host as the plan says? A line for each thing that was looked at,
with the way to mend it; and with --io a pattern through a session to each portal (verify_io.py)."""
from __future__ import annotations

import contextlib
import json
from dataclasses import asdict, dataclass, field
from typing import Any

from . import apply, chap, converge, host, plan, state, verify_io
from .common import Options, DONE, FAILED, Failure, Stop, format_ids, format_size, output, parse_ids
from .common import printable, say
from .plan import NODE_UNKNOWN
from .status import Seen, nodes_text, pages_text, read_states

AGAIN = "apply the plan again"
ANEW = "save what it holds, remove the plan and apply it again"


@dataclass
class Finding:
    judged: str  # ok, wrong, unseen
    check: str  # a word that stays the same
    about: str
    text: str
    mend: str | None


@dataclass
class Judge:
    """Findings of one plan."""
    seen: Seen
    state: state.State
    plan: plan.Plan
    interfaces: list[host.Interface]
    found: list[Finding] = field(default_factory=list)
    about: str = ""  # of the findings to come
    io: list[dict[str, Any]] = field(default_factory=list)
    io_failed: list[str] = field(default_factory=list)

    def ok(self, check: str, text: str) -> None:
        self.found.append(Finding("ok", check, self.about, text, None))

    def wrong(self, check: str, text: str, mend: str = AGAIN) -> None:
        self.found.append(Finding("wrong", check, self.about, text, mend))

    def unseen(self, check: str, text: str, mend: str = "verify as root") -> None:
        self.found.append(Finding("unseen", check, self.about, text, mend))

    def judge(self, right: bool, check: str, good: str, bad: str, mend: str = AGAIN) -> None:
        if right:
            self.ok(check, good)
        else:
            self.wrong(check, bad, mend)

    def attributes(self, directory: str, attributes: dict[str, int]) -> None:
        for name, wanted in attributes.items():
            now = host.attribute(directory, name)
            if now is None:
                self.wrong("attribute", "%s: this kernel's LIO has no such attribute"
                           % printable(name),
                           "leave it out of the plan, or load a kernel that has it")
            else:
                self.judge(now == wanted, "attribute", "%s is %d" % (printable(name), wanted),
                           "%s is %d, and should be %d" % (printable(name), now, wanted))

    def count(self, judged: str) -> int:
        return sum(f.judged == judged for f in self.found)

    @property
    def right(self) -> bool:
        return all(f.judged == "ok" for f in self.found) and not self.io_failed


# ---- the plan, and things that all targets share --------------------------------------


def _judge_plan(j: Judge) -> None:
    lio = j.seen.lio
    j.about = "plan %s" % j.plan.name
    if j.state.applying:
        j.wrong("unfinished", "an apply of it was ended in its midst, or goes on now",
                AGAIN + ", or remove it")
    if j.state.restarted:
        j.wrong("restarted", "this host was started again since it was applied: what tmpfs and "
                             "ramdisks held is gone",
                AGAIN + "; its tmpfs and ramdisks begin empty")
    bad = "the kernel's target (LIO) is not loaded" if not lio.there else \
        "LIO's iSCSI (iscsi_target_mod) is not loaded"
    j.judge(lio.there and lio.iscsi, "lio", "LIO and its iSCSI are loaded", bad,
            AGAIN + ", which loads it")


def _judge_cpus(j: Judge) -> None:
    now = j.seen.lio.cpus
    if not j.seen.lio.iscsi or j.plan.cpus != "nodes":
        return
    j.about = "threads of all iSCSI targets of this host"
    if now is None:
        j.ok("cpus", "run anywhere: this kernel has no cpus_allowed_list")
        return
    others = [s for s in j.seen.states if s is not j.state]
    asked = apply.cpus_list(j.plan, j.state, others, now, j.seen.machine)[0]
    if asked is None:
        j.ok("cpus", "run on CPUs %s: a node of the plan's has none" % now)
    elif parse_ids(asked) != parse_ids(now):
        j.wrong("cpus", "cpus_allowed_list is %s, and should be %s" % (printable(now), asked))
    else:
        j.ok("cpus", "run on CPUs %s (cpus_allowed_list)" % now)
        _judge_threads(j, parse_ids(now) or set())


def _judge_threads(j: Judge, allowed: set[int]) -> None:
    """The kernel confines the sending one of a connection's two threads, when it next runs; the
    other one sleeps as long as an iSER session lasts."""
    inside = 0
    with contextlib.suppress(Failure):
        for t in host.threads():
            if t.name == host.THREAD_TX and t.cpus <= allowed:
                inside += 1
            elif t.name == host.THREAD_TX:
                j.wrong("thread", "%s %d may run on CPUs %s, outside of cpus_allowed_list"
                        % (t.name, t.pid, format_ids(t.cpus)),
                        "it moves when its session next has something to do; if not, log that "
                        "initiator out and in again")
    if inside:
        j.ok("thread", "%s of %d connection%s within it" % (host.THREAD_TX, inside,
            " is" if inside == 1 else "s are"))


def _judge_irqs(j: Judge) -> None:
    """Interrupts of an earlier boot have other numbers now; set "": the kernel has refused it."""
    for irq in j.state.irqs if not j.state.restarted else ():
        if not irq.set:
            continue
        j.about, now = "interrupt %d of %s" % (irq.irq,
                                               printable(irq.netdev)), host.irq_cpus(irq.irq)
        if now is None:
            j.wrong("interrupt", "is not there any more, or cannot be looked at")
        else:
            j.judge(now == parse_ids(irq.set), "interrupt", "is handled on CPUs %s"
                    % format_ids(now),
                    "is handled on CPUs %s, and was put on %s" % (format_ids(now), irq.set),
                    AGAIN + "; irqbalance, if it runs, has to leave it alone "
                            "(IRQBALANCE_BANNED_INTERRUPTS, --banirq)")


# ---- a target -------------------------------------------------------------------------


def _judge_fixed(j: Judge, t: plan.Target, there: host.Target) -> None:
    wanted = converge.fixed_attributes(t)
    good, bad = ("initiators prove who they are by CHAP",
                 "authentication is off: an initiator need not prove who it is by CHAP") \
        if wanted["authentication"] else ("no CHAP, as planned", "authentication is on, and no "
                                          "CHAP was planned: no initiator can log in")
    cases = [("authentication", "authentication", good, bad)]
    cases += [("generate_node_acls", "open", "open to any initiator, as planned",
               "only initiators with an ACL may log in, and any should"),
              ("demo_mode_write_protect", "write-protect", "any initiator may write",
               "initiators cannot write (demo_mode_write_protect is on)")] if t.open else \
        [("generate_node_acls", "open", "open to the initiators of the plan alone",
          "any initiator may log in (generate_node_acls is on)"),
         ("demo_mode_write_protect", "write-protect", "initiators without an ACL may not write",
          "initiators without an ACL may write (demo_mode_write_protect is off)")]
    for name, check, good, bad in cases:
        now = host.attribute(there.dir, name)
        if now is None:
            j.unseen(check, "%s cannot be read" % name)
        else:
            j.judge(bool(now) == bool(wanted[name]), check, good, bad)
    j.attributes(there.dir, {"cache_dynamic_acls": wanted["cache_dynamic_acls"]})


def _judge_portal(j: Judge, t: plan.Target, p: plan.Portal, there: host.Target) -> None:
    now, card = there.portal(p.address, p.port), host.card(j.seen.machine, j.interfaces, p.address)
    j.about = "portal %s port %d of %s" % (p.address, p.port, t.iqn)
    j.judge(bool(now), "portal", "is there", "is not there: the target is not listened for")
    if now:
        j.judge(now.iser == p.iser, "iser", "iSER is on" if p.iser else "iSER is off, as planned",
                "iSER is off: initiators can come by TCP alone" if p.iser else
                "iSER is on, and was planned off")
    name = printable(card.netdev)
    if not name:
        j.wrong("address", "this host does not have the address any more",
                "give the address to a card of the target's node, or plan another" if not p.netdev
                else "ip address add %s/PREFIX dev %s; or plan another address"
                % (p.address, p.netdev))
        return
    j.ok("address", "is %s's" % name)
    if card.node == NODE_UNKNOWN:
        j.ok("card-node", "of which node %s is, this host does not tell" % name)
    else:
        text = "%s is a card of node %d" % (name, card.node)
        j.judge(t.node in (NODE_UNKNOWN, card.node), "card-node", text,
                "%s, and the target is for node %d" % (text, t.node),
                "move the address to a card of node %d, or plan the target for node %d"
                % (t.node, card.node))
    if p.iser:
        j.judge(bool(card.rdma), "rdma", "%s is used by the RDMA device %s" % (name,
            printable(card.rdma)),
                "no RDMA device uses %s: nobody can come by iSER" % name,
                "load the card's RDMA driver (rdma link shows the devices)")


def _judge_chap(j: Judge, c: plan.Chap | None, way: str, user: str, secret: str) -> None:
    """way: "" or "mutual "; user and secret are LIO's, and are compared, never shown."""
    if not c:
        if user or secret:
            j.wrong("chap", "has %sCHAP, which was not planned" % way)
        return
    try:
        planned = chap.read(c.secret_file)
    except Failure:
        planned = ""
    if c.user != user:
        j.wrong("chap", "%sCHAP: the user is \"%s\", and should be \"%s\"" % (way, printable(user),
            printable(c.user)))
    elif not secret:
        j.wrong("chap", "%sCHAP: it has no secret" % way)
    elif not planned:
        j.unseen("chap", "%sCHAP: %s cannot be read: is the secret the same?" % (way,
            printable(c.secret_file)),
                 "verify as root, and see that the file is there for root alone")
    else:
        j.judge(planned == secret, "chap", "%sCHAP: user and secret are those of the plan" % way,
                "%sCHAP: the secret is not that of %s" % (way, printable(c.secret_file)))


def _judge_initiator(j: Judge, t: plan.Target, i: plan.Initiator, there: host.Target) -> None:
    acl, right = there.acl(i.name), True
    j.about = "initiator %s at %s" % (i.name, t.iqn)
    if not acl:
        j.wrong("acl", "has no ACL: it cannot log in")
        return
    j.ok("acl", "is logged in" if acl.logged_in else "may log in")
    _judge_chap(j, i.chap, "", *acl.auth[:2])
    _judge_chap(j, i.mutual, "mutual ", *acl.auth[2:])
    for m in acl.mapped:
        # A LUN that is seen as another is another disk to its user.
        if m.seen_as != m.lun or m.read_only:
            right = False
            text = "sees LUN %d as LUN %d" % (m.lun, m.seen_as) if m.seen_as != m.lun else \
                "may not write to LUN %d" % m.lun
            at = "/iscsi/%s/tpg%d/acls/%s" % (t.iqn, there.tag, printable(acl.initiator))
            j.wrong("acl-lun", text, "targetcli %s delete mapped_lun%d; then %s"
                    % (at, m.seen_as, AGAIN))
    for s in t.stores:
        # A LUN that is not there is judged as such.
        if there.lun(s.lun) and not acl.gives(s.lun):
            right = False
            j.wrong("acl-lun", "is not given LUN %d" % s.lun)
    if right:
        j.ok("acl-lun", "is given all LUNs")


def _judge_extra(j: Judge, t: plan.Target, there: host.Target) -> None:
    """Things that were not planned; each with the command that deletes it."""
    j.about, at = "target %s" % t.iqn, "targetcli /iscsi/%s/tpg%d" % (t.iqn, there.tag)
    for group in j.seen.lio.targets:
        if group.iqn == t.iqn and group.tag not in (host.TAG, host.NO_GROUP):
            j.wrong("group-extra", "has a portal group %d, which is not planned" % group.tag,
                    "targetcli /iscsi/%s delete %d" % (t.iqn, group.tag))
    for now in there.portals:
        if not any(there.portal(p.address, p.port) is now for p in t.portals):
            j.wrong("portal-extra", "has a portal %s port %d, which is not planned"
                    % (printable(now.address), now.port),
                    "%s/portals delete %s %d" % (at, printable(now.address), now.port))
    for acl in there.acls:
        if not any(i.name == acl.initiator for i in t.initiators):
            name = printable(acl.initiator)
            j.wrong("acl-extra", "lets the initiator %s in, which is not planned" % name,
                    "%s/acls delete %s" % (at, name))
    for lun in there.luns:
        if not any(s.lun == lun.lun for s in t.stores):
            j.wrong("lun-extra", "serves a LUN %d that is not planned, of the back store %s"
                    % (lun.lun, printable(lun.store) or "(gone)"), "%s/luns delete lun%d" % (at,
                        lun.lun))


def _judge_target(j: Judge, t: plan.Target) -> None:
    there = j.seen.lio.target(t.iqn)
    there = there if there and there.tag == host.TAG else None
    j.about = "target %s" % t.iqn
    j.judge(bool(there), "target", "is there", "is not there")
    if there:
        j.judge(there.enabled, "enabled", "is enabled", "is disabled: nobody can log in")
        _judge_fixed(j, t, there)
        j.attributes(there.dir, t.attributes)
        for p in t.portals:
            _judge_portal(j, t, p, there)
        for i in t.initiators:
            _judge_initiator(j, t, i, there)
    for s in t.stores:
        _judge_store(j, t, s, there)
    if there:
        _judge_extra(j, t, there)


# ---- a back store ---------------------------------------------------------------------


def _judge_tmpfs(j: Judge, s: plan.Store, where: host.Where | None) -> bool:
    """Can it be looked into? A mount over it hides it from all but LIO."""
    mount, path = j.seen.lio.mount(s.path), printable(str(s.path))
    if not mount:
        j.wrong("tmpfs", "no tmpfs is mounted on %s" % path, AGAIN + "; what the tmpfs held is "
                "gone")
    elif where and where.kind in ("page cache", "device"):
        j.wrong("tmpfs", "another filesystem is mounted on %s, over the tmpfs" % path, "umount %s"
                % path)
    else:
        nodes = format_ids(mount.nodes)
        j.judge(mount.nodes == {s.node}, "tmpfs", "the tmpfs on %s is of node %d" % (path, s.node),
                "the tmpfs on %s takes its memory from %s, and should from node %d"
                % (path, "node " + nodes if nodes else "any node", s.node),
                "mount -o remount,mpol=%s:%d %s; it holds for pages to come" % (s.policy, s.node,
                    path))
        return True
    return False


def _judge_pages(j: Judge, s: plan.Store, p: host.Pages) -> None:
    """Where the node of each page is judged; host.pages() has looked at them."""
    text = pages_text(p) + (" (a sample of them)" if p.sampled else "")
    if p.elsewhere(s.node) and s.kind == "tmpfs" and s.policy == "bind":
        j.wrong("pages", "pages are where they should not be: %s, and all should be on node %d"
                % (text, s.node),
                ANEW + ", when node %d has the memory" % s.node)
    elif p.swapped and s.kind == "tmpfs":
        j.wrong("pages", "%s of its pages are in swap space" % format_size(p.swapped),
                "give node %d memory that is free, then swapoff -a" % s.node)
    else:
        j.ok("pages", "its pages: " + text if p.on else "it has no pages yet")


def _judge_where(j: Judge, s: plan.Store, where: host.Where) -> None:
    if where.kind == "pages":
        _judge_pages(j, s, where.pages)
    elif where.kind in ("device", "page cache"):
        what = "is a device" if where.kind == "device" else "is on a device"
        if not where.nodes:
            j.ok("device-node", what + " of which no node is known")
        else:
            right = s.node == NODE_UNKNOWN or s.node in (parse_ids(where.nodes) or ())
            text = "%s of %s" % (what, nodes_text(where.nodes))
            j.judge(right, "device-node", text, "%s, and was planned on node %d" % (text, s.node),
                    "plan it for a target of node %s" % where.nodes)
    elif where.kind == "hidden":
        j.ok("pages", "where its pages are, the kernel shows nobody" + (
            "; it was made under node %d" % s.node if s.node != NODE_UNKNOWN else ""))
    elif where.kind == "gone":
        j.wrong("file", "what it serves is not there any more by its name (%s): LIO has open a "
                        "file or device that was deleted or is called otherwise now" % where.why,
                        ANEW)
    else:
        j.unseen("pages", "where it is cannot be seen: %s" % where.why)


def _judge_store(j: Judge, t: plan.Target, s: plan.Store, there: host.Target | None) -> None:
    j.about, now = "back store %s of %s" % (s.name, t.iqn), j.seen.lio.store(s.plugin, s.name)
    where = host.where(j.seen.machine, now) if now else None
    ground = s.kind != "tmpfs" or _judge_tmpfs(j, s, where)
    if not now or not where:
        j.wrong("store", "is not there")
        return
    if not now.enabled:
        j.wrong("store-enabled", "is not enabled: nothing can be served of it")
    if s.file:
        path = printable(s.file)
        j.judge(now.path == s.file, "path", "serves %s" % path, "serves %s, and should serve %s"
                % (printable(now.path), path), ANEW)
    j.judge(not s.size or now.size == s.size, "size", "has %s" % format_size(now.size),
            "has %d bytes, and should have %d" % (now.size, s.size), ANEW)
    j.judge(now.serial == s.serial, "serial", "has the serial %s" % s.serial, "has the serial "
            "\"%s\", and should have \"%s\": initiators take it for another disk"
            % (printable(now.serial), s.serial))
    if s.plugin == "fileio":
        is_, should = ("back" if w else "through" for w in (now.write_back, s.write_back))
        j.judge(is_ == should, "write-cache", "is write-" + is_, "is write-%s, and should be "
                "write-%s" % (is_, should))
    j.attributes(now.dir, s.attributes)
    if ground:
        _judge_where(j, s, where)
    if there:
        lun = there.lun(s.lun)
        if lun and (lun.plugin, lun.store) != (s.plugin, s.name):
            j.wrong("lun", "LUN %d serves %s" % (s.lun, printable(lun.store) or "nothing"),
                    "targetcli /iscsi/%s/tpg%d/luns delete lun%d; then %s" % (t.iqn, there.tag,
                        s.lun, AGAIN))
        else:
            j.judge(bool(lun), "lun", "is LUN %d" % s.lun, "LUN %d is not there" % s.lun)


# ---- the command ----------------------------------------------------------------------


def _verify(args: Options, seen: Seen, name: str | None, done: list[Judge],
            stop: Stop) -> None:
    interfaces = host.interfaces()
    for s in seen.states:
        if not s.plan or name not in (None, s.name):
            continue
        j = Judge(seen, s, s.plan, interfaces)
        done.append(j)
        _judge_plan(j)
        _judge_cpus(j)
        _judge_irqs(j)
        for t in j.plan.targets:
            _judge_target(j, t)
        for t, p in ((t, p) for t in j.plan.targets for p in t.portals if args.io and p.iser):
            try:
                j.io.append(verify_io.check(t, p, seen.machine, stop))
            except Failure as why:
                j.io_failed.append("portal %s port %d of %s: %s" % (p.address, p.port, t.iqn, why))
                stop.check()


def _text(j: Judge) -> list[str]:
    words = {"ok": "ok", "wrong": "WRONG", "unseen": "UNSEEN"}
    lines = ["%-6s %s: %s%s" % (words[f.judged], f.about, f.text, " -> " + f.mend if f.mend
                                else "") for f in j.found]
    lines += ["ok     portal %s port %d of %s: %d MiB written at %s/s, read at %s/s, the same, by "
              "%s, on node %d" % (
        i["address"], i["port"], i["iqn"], i["bytes"] >> 20,
        format_size(i["write_bytes_per_second"]),
        format_size(i["read_bytes_per_second"]), i["transport"], i["node"]) for i in j.io]
    lines += ["WRONG  " + line for line in j.io_failed]
    return lines + ["plan %s: %d looked at, %d wrong, %d not seen" % (
        j.plan.name, len(j.found) + len(j.io) + len(j.io_failed),
        j.count("wrong") + len(j.io_failed), j.count("unseen"))]


def _object(j: Judge) -> dict[str, Any]:
    return {"name": j.plan.name, "right": j.right, "findings": [asdict(f) for f in j.found],
            "wrong": j.count("wrong"),
            "unseen": j.count("unseen"), "io": j.io, "io_failed": j.io_failed}


def run(args: Options) -> int:
    """rftp-iser verify. Where there is no plan nothing is as it should be."""
    name, error = args.words[0] if args.words else None, ""
    unseen, done = list[str](), list[Judge]()
    with Stop() as stop:
        try:
            if args.io:
                apply.need_root("verify --io")
            # Of all plans: one list of CPUs serves them together.
            states, certain = read_states(args.state, None, unseen)
            lio = host.read_lio()
            seen = Seen(lio, host.read_machine(lio), states, certain, unseen)
            _verify(args, seen, name, done, stop)
            if not done and not unseen:
                raise Failure("%s: no plan of this name was applied here" % printable(name) if name
                              else "no plan was applied here")
        except Failure as why:
            error = str(why)
        right = bool(done) and not unseen and not error and all(j.right for j in done)
        try:
            if args.json:
                out = {"right": right, "plans": [_object(j) for j in done], "unseen": unseen}
                output(json.dumps(dict(out, error=error) if error else out) + "\n")
            elif not error:
                output("".join(line + "\n" for j in done for line in _text(j)))
        except Failure as why:
            error = error or str(why)
        for line in unseen if not args.json and not error else ():
            say("not seen: " + line)
        if error:
            say(error)
    return DONE if right and not error else FAILED
