# SPDX-License-Identifier: Apache-2.0
"""The command verify: is the host as the plan says? The items of the plan are compared with those
of the host, and a few things are looked at that are no items: cards, threads, interrupts, pages. A
line for each, with the way to mend it; with --io a pattern through each portal."""
from __future__ import annotations

import itertools
import mmap
import os
import random
import secrets
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

from rftp_common import (DONE, FAILED, Failure, Options, Stop, at_place, failures_to, format_ids,
                         format_size, json_line, lock, need_root, output, parse_ids, printable, say,
                         warn)
from rftp_machine import NODE_UNKNOWN
from rftp_numa import placement

from . import apply, checks, converge, host, iscsi, plan, state, target
from .converge import describe, value_text
from .host import Key
from .status import Seen, look

AGAIN = "apply the plan again"
ANEW = "save its data, remove the plan and apply it again"


@dataclass
class Judge:
    """Findings of one plan, as verify's JSON has them."""
    seen: Seen
    state: state.State
    plan: plan.Plan
    about: str = ""  # of the findings to come
    found: list[dict[str, Any]] = field(default_factory=list)
    io: list[dict[str, Any]] = field(default_factory=list)
    io_failed: list[str] = field(default_factory=list)

    def judge(self, check: str, right: bool | None, text: str, mend: str = AGAIN) -> None:
        """right: None: it cannot be seen. check: a word that stays the same."""
        judged = "unseen" if right is None else "ok" if right else "wrong"
        self.found.append({
            "judged": judged, "check": check, "about": self.about, "text": printable(text),
            "mend": {"ok": None, "unseen": "verify as root"}.get(judged, printable(mend))})

    def compare(self, check: str, is_now: Any, planned: Any, mend: str = AGAIN) -> None:
        should = "" if is_now == planned else f", and should be {planned}"
        self.judge(check, is_now == planned, f"is {is_now}{should}", mend)

    def to_json(self) -> dict[str, Any]:
        wrong, unseen = (sum(f["judged"] == j for f in self.found) for j in ("wrong", "unseen"))
        return {"name": self.plan.name, "right": not (wrong or unseen or self.io_failed),
                "findings": self.found, "wrong": wrong, "unseen": unseen, "io": self.io,
                "io_failed": self.io_failed}

    def to_text(self) -> list[str]:
        lines = [f"ok     {f['about']}: {f['text']}" if f["judged"] == "ok" else
                 f"{f['judged'].upper():6} {f['about']}: {f['text']} -> {f['mend']}"
                 for f in self.found]
        for i in self.io:
            write, read = (format_size(i[f"{way}_bytes_per_second"]) for way in ("write", "read"))
            lines.append(f"ok     portal {i['address']} port {i['port']} of {i['iqn']}: "
                         f"{i['bytes'] >> 20} MiB written at {write}/s, read at {read}/s, the "
                         f"same, by {i['transport']}, on node {i['node']}")
        lines += ["WRONG  " + line for line in self.io_failed]
        wrong, unseen = (sum(line.startswith(w) for line in lines) for w in ("WRONG", "UNSEEN"))
        return [*lines, f"plan {self.plan.name}: {len(lines)} looked at, {wrong} wrong, {unseen} "
                "not seen"]


def _judge_shared(j: Judge) -> None:
    """The plan itself, and things that all targets share."""
    items = j.seen.items
    j.about = f"plan {j.plan.name}"
    if j.state.applying:
        j.judge("unfinished", False, "an apply of it was ended in its midst, or is running now",
                AGAIN + ", or remove it")
    if j.state.restarted:
        j.judge("restarted", False, "this host was restarted since it was applied: the data of "
                "tmpfs and ramdisks is gone", AGAIN + "; its tmpfs and ramdisks begin empty")
    loaded = ("iscsi",) in items
    j.judge("lio", loaded, f"LIO and its iSCSI are {'loaded' if loaded else 'not loaded'}")
    # Interrupts of an earlier boot have other numbers now; set "": the kernel has refused it.
    for irq in (i for i in j.state.irqs if i.set and not j.state.restarted):
        _judge_item(j, ("irq", irq.irq), format_ids(placement.irq_cpus(irq.irq) or ()), irq.set)
    now, others = items.get(("cpus",)), [s for s in j.seen.states if s is not j.state]
    asked = apply.cpus_list(j.plan, j.state, others, now, j.seen.machine)
    if j.plan.cpus != "nodes" or asked is None:
        return
    _judge_item(j, ("cpus",), now, asked)
    # The kernel confines the sending one of a connection's two threads, when it next runs; the
    # other one sleeps as long as an iSER session lasts.
    threads = host.threads(j.seen.machine) if asked == now else ()
    for t in (t for t in threads if t["name"] == host.THREAD_TX):
        inside = (parse_ids(t["cpus"]) or set()) <= (parse_ids(asked) or set())
        j.judge("thread", inside, f"{t['name']} {t['pid']} may run on CPUs {t['cpus']}", "it moves "
                "when its session next has something to do; if not, log that initiator out and in")


# ---- items ----------------------------------------------------------------------------

# The check's name, if it is not the kind of the item or the attribute's name; the way to mend it;
# and targetcli's words that delete one.
CHECKS = {"mount": "tmpfs", "irq": "interrupt", "store-attribute": "attribute",
          "target-attribute": "attribute", "mapped": "acl-lun", "authentication": "authentication",
          "generate_node_acls": "open", "demo_mode_write_protect": "write-protect"}
MENDS = {"mount": ANEW, "irq": AGAIN + "; irqbalance, if it runs, has to leave it alone "
         "(IRQBALANCE_BANNED_INTERRUPTS, --banirq)"}
DELETE = {"portal": "portals delete {1} {2}", "acl": "acls delete {1}", "lun": "luns delete lun{1}",
          "mapped": "acls/{1} delete mapped_lun{2}"}


def _delete(key: Key) -> str:
    return f"targetcli /iscsi/{key[1]}/tpg{host.TAG}/{DELETE[key[0]].format(*key[1:])}"


def _judge_item(j: Judge, key: Key, was: Any, to: Any) -> None:
    kind = key[0]
    j.about, check = describe(key), CHECKS.get(kind, kind)
    if kind == "target-attribute":
        check = CHECKS.get(key[2], check)
    elif kind == "portal" and was not in (None, to):
        check = "iser"
    if was is None:
        j.judge(check, False, "is missing")
    elif kind == "target":
        j.judge(check, True, "is there")  # its attributes are items, too
    else:
        mend = MENDS.get(kind, AGAIN)
        if kind in ("lun", "mapped"):
            mend = f"{_delete(key)}; then {AGAIN}"
        j.compare(check, value_text(key, was) or "there", value_text(key, to) or "there", mend)


def _judge_auth(j: Judge, i: plan.Initiator, was: Any, to: Any) -> None:
    """Users and secrets are compared; no secret is ever shown."""
    for way, c, at in (("CHAP: ", i.chap, 0), ("mutual CHAP: ", i.mutual, 2)):
        (user, secret), (wanted, planned) = was[at:at + 2], to[at:at + 2]
        right: bool | None = (user, secret) == (wanted, planned)
        text = "user and secret are those of the plan"
        if user != wanted:
            text = f"the user is \"{user}\", and should be \"{wanted}\""
        elif c and not planned:
            right, text = None, f"{c.secret_file} cannot be read: is the secret the same?"
        elif not right:
            text = f"the secret is not that of {c.secret_file if c else 'the plan'}"
        if c or not right:
            j.judge("chap", right, way + text)


def _judge_store(j: Judge, s: plan.Store, was: host.Store, to: host.Store) -> None:
    modes = {True: "write-back", False: "write-through"}
    for check, now, planned, mend in (
            ("store-enabled", "enabled" if was.enabled else "not enabled", "enabled", AGAIN),
            ("path", f"of the path {was.path}", f"of the path {to.path}", ANEW),
            ("size", f"of {was.bytes} bytes", f"of {to.size or was.bytes} bytes", ANEW),
            ("serial", f"of the serial {was.serial}", f"of the serial {to.serial}", AGAIN),
            ("write-cache", modes[was.write_back], modes[to.write_back], AGAIN)):
        j.compare(check, now, planned, mend)
    mount, node, is_tmpfs = j.seen.items.get(("mount", s.path)), s.node, s.kind == "tmpfs"
    if is_tmpfs and (not mount or mount.covered):
        if mount:
            j.judge("tmpfs", False, f"another filesystem is mounted over the tmpfs at {s.path}",
                    f"umount {s.path}")
        return
    # Here the node of each page is judged; placement.pages() has looked at them.
    where, text = host.where(j.seen.machine, s.plugin, was, node)
    kind, device, text = where["where"], where.get("device_nodes"), f"where it is: {text}"
    pages = where.get("pages", {"nodes": {}, "swapped": 0})
    if kind == "gone":
        j.judge("file", False, text, ANEW)
    elif device:
        j.judge("device-node", node in (NODE_UNKNOWN, *(parse_ids(device) or ())), text,
                f"plan it for a target of node {device}")
    elif is_tmpfs and s.policy == "bind" and set(pages["nodes"]) - {node}:
        j.judge("pages", False, f"{text}, and all should be on node {node}",
                f"{ANEW}, when node {node} has the memory")
    else:
        j.judge("pages", None if kind == "unseen" else not (is_tmpfs and pages["swapped"]), text,
                f"give node {node} free memory, then swapoff -a")


def _judge_target(j: Judge, t: plan.Target, secrets: converge.Secrets) -> None:
    wants = converge.items_of([t], secrets)
    items = {k: v for k, v in j.seen.items.items() if k[0] != "target" or v.whole}
    for key, to in wants.items():
        kind, was, j.about = key[0], items.get(key), describe(key)
        # A missing parent is judged by itself.
        if kind == "file" or any(p not in items for p in converge.parents(key, to, {})):
            continue
        if kind == "auth":
            j.about = describe(("acl", *key[1:]))
            _judge_auth(j, next(i for i in t.initiators if i.name == key[2]), was, to)
        elif kind == "store" and was:
            _judge_store(j, next(s for s in t.stores if (s.plugin, s.name) == key[1:]), was, to)
        else:
            _judge_item(j, key, was, to)
        for p in (p for p in t.portals if kind == "portal" and p.port == key[3]
                  and host.plain_address(p.address) == key[2]):
            for f in checks.portal(t, p, j.seen.machine):
                j.judge(f.check, f.right is not False, f.text, f.mend)
    for key, was in items.items() if ("target", t.iqn) in items else ():
        kind = key[0]
        if kind == "target" and key[1].startswith(f"{t.iqn}/tpg"):
            tag = key[1].rpartition("tpg")[2]
            check, mend = "group-extra", f"targetcli /iscsi/{t.iqn} delete {tag}"
        # A LUN that is seen as another is another disk to its user.
        elif kind in DELETE and key[1] == t.iqn and key not in wants \
                and not (kind == "mapped" and was == (key[3], False)):
            check, mend = CHECKS.get(kind, f"{kind}-extra"), _delete(key)
        else:
            continue
        j.about, about = describe(key), value_text(key, was)
        j.judge(check, False, f"is {about + ', and ' if about else ''}not planned", mend)


# ---- --io: a pattern is written and read --------------------------------------------
# Through an iSER session of this very host, to a target that is made for it at the planned portal,
# with a ramdisk on the target's node as its only LUN. No planned target, LUN or data is touched,
# and nothing is left, also after a failure.

IO_SIZE = 64 << 20  # bytes of the ramdisk, which are all written and read
IO_BLOCK = 1 << 20  # of one request; one is on its way at a time
IO_STORE = IFACE = "rftp-verify-io"  # one test at a time has them
SUFFIX = ".rftp-verify-io"


class _TestNode(iscsi.Node):
    iface = IFACE  # an interface of open-iscsi's, made for this


def _clear(machine: host.Host, p: iscsi.Programs) -> None:
    """The things of a test that has ended, or was killed: only tests use these names. The session
    goes first: it would hang without its target."""
    items = host.read()
    if ("iscsi",) not in items:
        raise Failure("LIO's iSCSI is not loaded: apply the plan again")
    ours = {key: value for key, value in items.items() if key == ("store", "rd_mcp", IO_STORE)
            or any(str(iqn).endswith(SUFFIX) for iqn in key[1:2])}
    for _, iqn in (key for key, _ in host.under(ours, "target")):
        def is_out(iqn: str = iqn) -> bool:
            return not iscsi.find_session(iqn) or \
                p.tried("iscsiadm", "-m", "node", "-T", iqn, "--logout")

        # Repeatedly: iscsid refuses while it is still logging in, as of a killed test.
        if not p.stop.wait_for(is_out, 15):
            raise Failure(f"the session with {iqn} does not end")
        p.tried("iscsiadm", "-m", "node", "-T", iqn, "-o", "delete")
    p.tried("iscsiadm", "-m", "iface", "-I", IFACE, "-o", "delete")
    for d in converge.differences(ours, {}, {}):
        target.change(d, machine)


def _log_in(t: plan.Target, p: iscsi.Programs) -> iscsi.Disk:
    """The test's disk. The interface has the initiator's name, so that the host's own does not
    change; iscsid.conf's settings for others do not count."""
    iscsi.load_modules("iser")
    iscsi.start_daemon(p)
    iface = ("iscsiadm", "-m", "iface", "-I", IFACE, "-o")
    p.run(*iface, "new")
    for name, value in (("transport_name", "iser"), ("initiatorname", str(t.initiators[0].name))):
        p.run(*iface, "update", "-n", "iface." + name, "-v", value)
    node = _TestNode(t.iqn, t.portals[0].address, t.portals[0].port, host.TAG, "iser")
    iscsi.make_record(p, node, {
        "node.startup": "manual", "node.session.auth.authmethod": "None",
        "node.session.initial_login_retry_max": "3", "node.session.scan": "auto"})
    iscsi.log_in(p, node)

    found: list[iscsi.Disk] = []

    def has_come() -> bool:
        s = iscsi.find_session(node.iqn)
        found[:] = [d for d in s.disks if iscsi.is_device("/dev/" + d.name)] if s else []
        return bool(found)

    if not p.stop.wait_for(has_come, 30):
        raise Failure("logged in, but no disk has come within 30 seconds: is sd_mod loaded?")
    if found[0].serial != t.stores[0].serial:
        raise Failure(f"/dev/{found[0].name} has not the serial of the test's disk: it is left "
                      "alone")
    return found[0]


def _run_pattern(device: str, stop: Stop) -> list[float]:
    """Seconds of all writes, and of all reads; past the page cache: its copies would agree with
    themselves."""
    seed, seconds = secrets.randbits(64), [0.0, 0.0]
    with at_place(f"the test's disk {device}"), \
            open(device, "r+b", buffering=0, opener=lambda path, flags: os.open(
                path, flags | os.O_DIRECT | os.O_EXCL)) as disk:
        buffer = mmap.mmap(-1, IO_BLOCK)  # aligned
        for read, at in itertools.product((False, True), range(0, IO_SIZE, IO_BLOCK)):
            stop.check()
            wanted = random.Random(seed ^ at).randbytes(IO_BLOCK)
            buffer[:] = bytes(IO_BLOCK) if read else wanted
            start = time.monotonic()
            move = os.preadv if read else os.pwritev
            n = move(disk.fileno(), [buffer], at)
            seconds[read] += time.monotonic() - start
            if n != IO_BLOCK or buffer[:] != wanted:
                raise Failure(f"it read other bytes than it wrote, in the MiB from byte {at}")
    return seconds


def _write_and_read(t: plan.Target, portal: plan.Portal, machine: host.Host,
                    stop: Stop) -> dict[str, Any]:
    """One portal, as verify's JSON has it. Failure; nothing is left."""
    # No other program knows this name, so none can log in.
    initiator = f"{t.iqn}.rftp-io-{secrets.token_hex(8)}"
    if len(initiator) > 223:
        raise Failure(f"{t.iqn} is too long for a target beside it")
    ramdisk = plan.Store(0, IO_STORE, "ramdisk", t.node, IO_SIZE, serial=str(uuid.uuid4()))
    test = plan.Target(t.node, f"{t.iqn}{SUFFIX}", False, [portal], [plan.Initiator(initiator)],
                       [ramdisk])
    p, cpus = iscsi.Programs(stop), os.sched_getaffinity(0)
    # Two would take each other's for left over.
    with os.fdopen(lock("/run/rftp-iser-verify-io.lock", "another verify --io is running", 0)):
        _clear(machine, p)
        try:
            for d in converge.differences({}, converge.items_of([test]), {}):
                stop.check()
                d.node = t.node
                target.change(d, machine)
            disk = _log_in(test, p)
            os.sched_setaffinity(0, (machine.cpus_of(t.node) & cpus) or cpus)
            write, read = _run_pattern("/dev/" + disk.name, stop)
        finally:
            os.sched_setaffinity(0, cpus)
            with failures_to(warn, "the test has left something behind: "):
                _clear(machine, p.unstoppable())
    return {"iqn": t.iqn, "address": portal.address, "port": portal.port, "node": t.node,
            "transport": disk.session.transport, "bytes": IO_SIZE,
            "write_bytes_per_second": IO_SIZE / write, "read_bytes_per_second": IO_SIZE / read}


# ---- the command ----------------------------------------------------------------------


def run(args: Options) -> int:
    """rftp-iser verify. Where there is no plan nothing is as it should be."""
    name, error, unseen, done = (*args.words, None)[0], "", list[str](), list[Judge]()
    with Stop() as stop:
        try:
            if args.io:
                need_root("verify --io")
            # Of all plans: one list of CPUs serves them together.
            seen = look(args.state, None, unseen)
            for s in seen.states:
                if not s.plan or name not in (None, s.name):
                    continue
                j = Judge(seen, s, s.plan)
                done.append(j)
                _judge_shared(j)
                known = checks.secrets(s.plan, [])
                for t in s.plan.targets:
                    _judge_target(j, t, known)
                for t, p in ((t, p) for t in s.plan.targets for p in t.portals
                             if args.io and p.iser):
                    try:
                        j.io.append(_write_and_read(t, p, seen.machine, stop))
                    except Failure as why:
                        j.io_failed.append(f"portal {p.address} port {p.port} of {t.iqn}: {why}")
                        stop.check()
            if not done and not unseen:
                raise Failure(state.no_plan(name))
        except Failure as why:
            error = str(why)
        plans = [j.to_json() for j in done]
        right = bool(done) and not unseen and not error and all(p["right"] for p in plans)
        try:
            if args.json:
                out = {"right": right, "plans": plans, "unseen": unseen}
                output(json_line(dict(out, error=error) if error else out))
            elif not error:
                output("".join(line + "\n" for j in done for line in j.to_text()))
        except Failure as why:
            error = error or str(why)
        for line in unseen if not args.json and not error else ():
            say("not seen: " + line)
        if error:
            say(error)
    return DONE if right and not error else FAILED
