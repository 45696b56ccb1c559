# SPDX-License-Identifier: Apache-2.0
"""The command verify: is the host as the plan says? The items of the plan are compared with those
of the host, and a few things are looked at that are no items: cards, threads, interrupts, pages. A
line for each, with the way to mend it; with --io a pattern through each portal (verify_io.py)."""
from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass, field
from typing import Any

from rftp_common import (DONE, FAILED, Failure, Options, Stop, format_ids, format_size, output,
                         parse_ids, printable, say)

from . import apply, checks, converge, host, plan, state, verify_io
from .converge import describe, value_text
from .host import Items, Key
from .plan import NODE_UNKNOWN
from .status import Seen, look

AGAIN = "apply the plan again"
ANEW = "save what it holds, remove the plan and apply it again"


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

    def judge(self, right: bool | None, check: str, good: str, bad: str = "",
              mend: str = AGAIN) -> None:
        """right: None: it cannot be seen. check: a word that stays the same."""
        judged = "unseen" if right is None else "ok" if right else "wrong"
        self.found.append({
            "judged": judged, "check": check, "about": self.about,
            "text": printable(good if right else bad),
            "mend": {"ok": None, "unseen": "verify as root"}.get(judged, printable(mend))})

    def to_json(self) -> dict[str, Any]:
        wrong, unseen = (sum(f["judged"] == j for f in self.found) for j in ("wrong", "unseen"))
        return {"name": self.plan.name, "right": not (wrong or unseen or self.io_failed),
                "findings": self.found, "wrong": wrong, "unseen": unseen, "io": self.io,
                "io_failed": self.io_failed}


def _judge_shared(j: Judge) -> None:
    """The plan itself, and things that all targets share."""
    items, now = j.seen.items, j.seen.items.get(("cpus",))
    j.about = f"plan {j.plan.name}"
    if j.state.applying:
        j.judge(False, "unfinished", "", "an apply of it was ended in its midst, or goes on now",
                AGAIN + ", or remove it")
    if j.state.restarted:
        j.judge(False, "restarted", "", "this host was started again since it was applied: what "
                "tmpfs and ramdisks held is gone", AGAIN + "; its tmpfs and ramdisks begin empty")
    what = "LIO's iSCSI (iscsi_target_mod)" if ("lio",) in items else "the kernel's target (LIO)"
    j.judge(("iscsi",) in items, "lio", "LIO and its iSCSI are loaded", f"{what} is not loaded",
            AGAIN + ", which loads it")
    # Interrupts of an earlier boot have other numbers now; set "": the kernel has refused it.
    for irq in (i for i in j.state.irqs if i.set and not j.state.restarted):
        cpus = host.irq_cpus(irq.irq)
        j.about = f"interrupt {irq.irq} of {printable(irq.netdev)}"
        text = "is not there any more, or cannot be looked at" if cpus is None else \
            f"is handled on CPUs {format_ids(cpus)}"
        j.judge(cpus == parse_ids(irq.set), "interrupt", text, f"{text}, and was put on {irq.set}",
                AGAIN + "; irqbalance, if it runs, has to leave it alone "
                "(IRQBALANCE_BANNED_INTERRUPTS, --banirq)")
    j.about = "threads of all iSCSI targets of this host"
    if j.plan.cpus != "nodes" or ("iscsi",) not in items:
        return
    others = [s for s in j.seen.states if s is not j.state]
    asked = apply.cpus_list(j.plan, j.state, others, now, j.seen.machine)[0]
    if now is None or asked is None:
        why = "this kernel has no cpus_allowed_list" if now is None else "a node has no CPUs"
        j.judge(True, "cpus", f"run on CPUs {now or 'of all nodes'}: {why}")
        return
    j.judge(asked == now, "cpus", f"run on CPUs {now} (cpus_allowed_list)",
            f"cpus_allowed_list is {now}, and should be {asked}")
    # The kernel confines the sending one of a connection's two threads, when it next runs; the
    # other one sleeps as long as an iSER session lasts.
    threads = []
    with contextlib.suppress(Failure):
        threads = [t for t in host.threads() if t.name == host.THREAD_TX and asked == now]
    inside = [t for t in threads if t.cpus <= (parse_ids(now) or set())]
    for t in (t for t in threads if t not in inside):
        j.judge(False, "thread", "", f"{t.name} {t.pid} may run on CPUs {format_ids(t.cpus)}, "
                "outside of cpus_allowed_list", "it moves when its session next has something to "
                "do; if not, log that initiator out and in again")
    if inside:
        many = " is" if len(inside) == 1 else "s are"
        j.judge(True, "thread", f"{host.THREAD_TX} of {len(inside)} connection{many} within it")


# ---- items ----------------------------------------------------------------------------

# By the kind of an item: the check's name; and targetcli's words that delete one.
CHECKS = {"mount": "tmpfs", "store-attribute": "attribute", "target-attribute": "attribute",
          "mapped": "acl-lun"}
ACCESS = {"authentication": "authentication", "generate_node_acls": "open",
          "demo_mode_write_protect": "write-protect"}
DELETE = {"portal": "portals delete {1} {2}", "acl": "acls delete {1}", "lun": "luns delete lun{1}",
          "mapped": "acls/{1} delete mapped_lun{2}"}


def _delete(key: Key) -> str:
    return f"targetcli /iscsi/{key[1]}/tpg{host.TAG}/{DELETE[key[0]].format(*key[1:])}"


def _judge_item(j: Judge, key: Key, was: Any, to: Any) -> None:
    kind, mend, right = key[0], AGAIN, was == to
    check = CHECKS.get(kind, kind)
    if kind == "target":
        right = was is not None  # its attributes are items, too
    elif kind == "target-attribute":
        check = ACCESS.get(key[2], check)
    elif kind == "portal" and was is not None and not right:
        check = "iser"
    if kind == "mount" and was:
        right = was.nodes == to.nodes
        mend = f"mount -o remount,mpol={to.policy}:{to.nodes} {key[1]}, for pages to come"
    elif kind == "mount":
        mend = AGAIN + "; what the tmpfs held is gone"
    elif kind in ("lun", "mapped") and was:
        mend = f"{_delete(key)}; then {AGAIN}"
    elif kind.endswith("attribute") and was is None:
        mend = "leave it out of the plan, or load a kernel that has it"
    planned = value_text(key, to)
    bad = "is not there" if was is None else f"is {value_text(key, was)}, and should be {planned}"
    j.judge(right, check, f"is {planned or 'there'}", bad, mend)


def _judge_auth(j: Judge, i: plan.Initiator, was: Any, to: Any) -> None:
    """Users and secrets are compared; no secret is ever shown."""
    for way, c, at in (("", i.chap, 0), ("mutual ", i.mutual, 2)):
        (user, secret), planned, right, bad = was[at:at + 2], to[at + 1], False, ""
        if not c and (user or secret):
            bad = "it was not planned"
        elif c and c.user != user:
            bad = f"the user is \"{user}\", and should be \"{c.user}\""
        elif c and not secret:
            bad = "it has no secret"
        elif c and not planned:
            j.judge(None, "chap", "", f"{way}CHAP: {c.secret_file} cannot be read: is the secret "
                                      "the same?")
        elif c:
            right, bad = planned == secret, f"the secret is not that of {c.secret_file}"
        if bad:
            j.judge(right, "chap", f"{way}CHAP: user and secret are those of the plan",
                    f"{way}CHAP: {bad}")


def _judge_card(j: Judge, t: plan.Target, p: plan.Portal) -> None:
    """Of a portal's address."""
    for check, right, good, bad, mend in checks.card_of(p, j.seen.machine, j.seen.interfaces):
        j.judge(right, check, good, bad, mend)
    card = host.interface(j.seen.interfaces, p.address)
    if card:
        node = j.seen.machine.netdev_node(card.netdev)
        text = f"{card.netdev} is a card of " + host.nodes_text("" if node < 0 else str(node))
        j.judge(NODE_UNKNOWN in (node, t.node) or node == t.node, "card-node", text,
                f"{text}, and the target is for node {t.node}",
                f"move the address to a card of node {t.node}, or plan the target for node {node}")


def _judge_store(j: Judge, s: plan.Store, was: host.Store, to: host.Store) -> None:
    j.judge(was.enabled, "store-enabled", "is enabled", "is not enabled: it cannot be served")
    modes = {True: "write-back", False: "write-through"}
    for check, what, now, planned, mend in (
            ("path", "path", was.path, to.path, ANEW),
            ("size", "size in bytes", str(was.bytes), str(to.size or was.bytes), ANEW),
            ("serial", "serial", was.serial, to.serial, AGAIN),
            ("write-cache", "mode", modes[was.write_back], modes[to.write_back], AGAIN)):
        text = f"its {what} is \"{now}\""
        j.judge(now == planned, check, text, f"{text}, and should be \"{planned}\"", mend)
    mount = j.seen.items.get(("mount", s.path))
    if s.kind == "tmpfs" and mount and mount.covered:
        j.judge(False, "tmpfs", "", f"another filesystem is mounted on {s.path}, over the tmpfs",
                f"umount {s.path}")
    elif s.kind != "tmpfs" or mount:
        _judge_where(j, s, host.where(j.seen.machine, s.plugin, was))


def _judge_where(j: Judge, s: plan.Store, where: host.Where) -> None:
    """Where the node of each page is judged; host.pages() has looked at them."""
    node, text, is_tmpfs = s.node, "where it is: " + where.text(s.node), s.kind == "tmpfs"
    elsewhere = is_tmpfs and s.policy == "bind" and where.pages.elsewhere(node)
    right: bool | None = True
    check, mend = "pages", f"{ANEW}, when node {node} has the memory"
    if where.kind == "unseen":
        right = None
    elif where.kind == "gone":
        right, check, mend = False, "file", ANEW
    elif where.kind in ("device", "page cache"):
        right = not where.nodes or node in (NODE_UNKNOWN, *(parse_ids(where.nodes) or ()))
        check, mend = "device-node", f"plan it for a target of node {where.nodes}"
    elif is_tmpfs:
        right = not elsewhere and not where.pages.swapped
        mend = mend if elsewhere else f"give node {node} free memory, then swapoff -a"
    should = f", and all should be on node {node}" if where.kind not in ("gone", "unseen") else ""
    j.judge(right, check, text, text + should, mend)


def _judge_extra(j: Judge, t: plan.Target, wants: Items) -> None:
    """Things that were not planned; each with the command that deletes it."""
    for key, was in j.seen.items.items():
        kind = key[0]
        if kind == "target" and key[1].startswith(f"{t.iqn}/tpg"):
            j.about, tag = describe(key), key[1].rpartition("tpg")[2]
            j.judge(False, "group-extra", "", "is not planned",
                    f"targetcli /iscsi/{t.iqn} delete {tag}")
        # A LUN that is seen as another is another disk to its user.
        elif kind in DELETE and key[1] == t.iqn and key not in wants \
                and not (kind == "mapped" and was == (key[3], False)):
            j.about, about = describe(key), value_text(key, was)
            j.judge(False, CHECKS.get(kind, f"{kind}-extra"), "",
                    f"is {about + ', and ' if about else ''}not planned", _delete(key))


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
        if kind == "portal":
            _judge_card(j, t, next(p for p in t.portals if p.port == key[3]
                                   and host.same_address(p.address, key[2])))
    if ("target", t.iqn) in items:
        _judge_extra(j, t, wants)


# ---- the command ----------------------------------------------------------------------


def _text(j: Judge) -> list[str]:
    words = {"ok": "ok    ", "wrong": "WRONG ", "unseen": "UNSEEN"}
    lines = [f"{words[f['judged']]} {f['about']}: {f['text']}"
             f"{' -> ' + f['mend'] if f['mend'] else ''}" for f in j.found]
    for i in j.io:
        write, read = (format_size(i[f"{way}_bytes_per_second"]) for way in ("write", "read"))
        lines.append(f"ok     portal {i['address']} port {i['port']} of {i['iqn']}: "
                     f"{i['bytes'] >> 20} MiB written at {write}/s, read at {read}/s, the same, by "
                     f"{i['transport']}, on node {i['node']}")
    lines += ["WRONG  " + line for line in j.io_failed]
    wrong, unseen = (sum(line.startswith(w) for line in lines) for w in ("WRONG", "UNSEEN"))
    return lines + [f"plan {j.plan.name}: {len(lines)} looked at, {wrong} wrong, {unseen} not seen"]


def _verify(args: Options, name: str | None, unseen: list[str], done: list[Judge],
            stop: Stop) -> None:
    if args.io:
        apply.need_root("verify --io")
    # Of all plans: one list of CPUs serves them together.
    seen = look(args.state, None, unseen)
    for s in seen.states:
        if not s.plan or name not in (None, s.name):
            continue
        j = Judge(seen, s, s.plan)
        done.append(j)
        _judge_shared(j)
        secrets = checks.secrets(j.plan, [])
        for t in j.plan.targets:
            _judge_target(j, t, secrets)
        for t, p in ((t, p) for t in j.plan.targets for p in t.portals if args.io and p.iser):
            try:
                j.io.append(verify_io.check(t, p, seen.machine, stop))
            except Failure as why:
                j.io_failed.append(f"portal {p.address} port {p.port} of {t.iqn}: {why}")
                stop.check()
    if not done and not unseen:
        raise Failure(f"{printable(name)}: no plan of this name was applied here" if name
                      else "no plan was applied here")


def run(args: Options) -> int:
    """rftp-iser verify. Where there is no plan nothing is as it should be."""
    error, unseen, done = "", list[str](), list[Judge]()
    with Stop() as stop:
        try:
            _verify(args, args.words[0] if args.words else None, unseen, done, stop)
        except Failure as why:
            error = str(why)
        plans = [j.to_json() for j in done]
        right = bool(done) and not unseen and not error and all(p["right"] for p in plans)
        try:
            if args.json:
                out = {"right": right, "plans": plans, "unseen": unseen}
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
