# SPDX-License-Identifier: Apache-2.0
"""The commands apply and remove. Both compute the differences between our things on the host and
the wanted ones, and apply them in order. When one fails, apply computes them once more, towards the
host as it was before. A kill at any point leaves other differences, and the state's file."""
from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field

from rftp_common import (DONE, FAILED, USAGE, Failure, Misuse, Options, Stop, failed, format_ids,
                         format_size, output, parse_ids, printable, say, warn)

from . import checks, converge, host, names, plan, state, target, topology
from .converge import Ask, Difference, text
from .host import Items
from .plan import Plan
from .state import Irq, State, kill_point


@dataclass
class Change(Ask):
    """The Ask of an apply or remove, and its report."""
    args: Options = field(default_factory=Options)
    name: str | None = None
    stop: Stop = field(default_factory=Stop)
    machine: topology.Host = field(default_factory=lambda: topology.Host("", "", True))
    kept: State = field(default_factory=lambda: State("", ""))  # as its file is written
    steps: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)  # differences that could not be taken back
    undone: bool = False  # something was done, and taken back
    lost: bool = False  # with data
    unwritten: Failure | None = None  # standard output cannot be written; that stops nothing

    def say(self, line: str) -> None:
        self.steps.append(line)
        try:
            output("" if self.args.json else line + "\n")
        except Failure as why:
            self.unwritten = why


# ---- before the first difference ------------------------------------------------------


def cpus_list(want: Plan | None, own: State, others: list[State], now: str | None,
              machine: topology.Host) -> tuple[str | None, str | None]:
    """The list for LIO's threads: CPUs of the nodes of all plans of this boot that ask for it, or
    the list before the first of them; None: it stays as it is. And the list to be restored."""
    others = [o for o in others if o.boot == own.boot]
    plans = [p for p in [want, *(o.applied for o in others)] if p and p.cpus == "nodes"]
    nodes = [host.cpus_of(machine, t.node) for p in plans for t in p.targets]
    was = own.cpus or next((o.cpus for o in others if o.cpus), now)
    if now is None:
        return None, None
    if plans and all(nodes):
        return format_ids(set().union(*nodes)), was
    return own.cpus, was if plans else None


def _irqs(c: Change) -> list[Irq]:
    """Interrupts of the cards of the plan's portals that may be handled on CPUs of other nodes; or,
    when the plan goes, those that are still as they were set, with their lists of before."""
    if not c.want:
        return [Irq(i.irq, i.netdev, i.set, i.was) for i in c.kept.irqs
                if i.set and host.irq_cpus(i.irq) == parse_ids(i.set)]
    found: dict[int, Irq] = {}
    refused = {i.irq for i in c.kept.irqs if not i.set}  # by the kernel, which places them itself
    for t in c.want.targets if c.want.cpus == "nodes" else ():
        cpus = host.cpus_of(c.machine, t.node)
        cards = [p.netdev for p in t.portals if p.netdev
                 and c.machine.netdev_node(p.netdev) == t.node]
        for netdev, irq in ((n, i) for n in cards if cpus for i in host.irqs_of(n)):
            now = host.irq_cpus(irq)
            if now is not None and not now <= cpus and irq not in refused:
                found.setdefault(irq, Irq(irq, netdev, format_ids(now), format_ids(cpus)))
    return list(found.values())


def _look(c: Change) -> tuple[Items, Items, list[Difference]]:
    """Our items now, the wanted ones, and their differences."""
    c.actual, c.notes = host.read(), []
    c.irqs = _irqs(c)
    c.cpus, before = cpus_list(c.want, c.kept, c.others, c.actual.get(("cpus",)), c.machine)
    if before and c.kept.cpus is None:
        c.kept.cpus = before
    has = converge.have(c)
    wants = converge.wish(c, has)
    return has, wants, converge.differences(has, wants, c.stores)


def _prepare(c: Change) -> tuple[Items, list[Difference]]:
    """Our items, and the differences. Failure if anything stands in the way; then nothing is
    begun."""
    for needed in (target.rtslib, host.numa)[:2 if c.want else 1]:
        try:
            needed()
        except Failure as why:
            c.problems.append(str(why))
    c.secrets = checks.secrets(c.want, c.problems) if c.want else {}
    has, wants, diffs = _look(c)
    checks.check(c, has, wants, diffs)
    if c.want:
        checks.portals(c.want, c.machine, c.problems, c.notes)
        checks.stores(c, c.want)
        checks.memory(diffs, c.machine, c.problems)
        # Modules last: they stay when something else is wrong. They bring a list of CPUs.
        load = not c.args.dry_run and not c.problems
        checks.kernel(c.want, load, c.problems)
        if load and not c.problems and ("iscsi",) not in c.actual:
            notes = c.notes
            has, wants, diffs = _look(c)
            c.notes = notes
    if not c.want and not c.problems and not c.state.plan:
        there = f"; there is {c.others[0].name}" if c.others else ""
        c.problems = [f"no plan called {printable(str(c.name))} was applied here{there}"]
    if len(c.problems) > 1:
        for problem in c.problems:
            say(problem)
        raise Failure(f"{len(c.problems)} things stand in the way; nothing was "
                      f"{'changed' if c.want else 'removed'}")
    if c.problems:
        raise Failure(c.problems[0])
    return has, diffs


# ---- differences, one after the other -------------------------------------------------


def _make_first(c: Change, d: Difference) -> None:
    """A directory or file is written down right before it is made, and alone: all at once, they
    would pass for ours after a kill even if somebody else made one of them."""
    kind, path = d.key[0], d.key[-1]
    if kind not in ("dir", "file") or d.to is None or d.was is not None or d.in_tmpfs or \
            path in c.kept.made:
        return
    if os.path.lexists(path):
        raise Failure(f"{printable(path)}: is there by now, and is not ours")
    c.kept.made.append(path)
    c.kept.write()
    if kind == "file":
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except OSError as why:
            c.kept.made.remove(path)
            c.kept.write()
            raise failed(why, printable(path)) from why


def _check_pages(d: Difference) -> None:
    """Here the node of a new file's pages is checked: a tmpfs's policy is only a request."""
    found = host.pages(d.key[1]) if d.key[0] == "file" and d.strictly else None
    if found and found.elsewhere(d.node):
        raise Failure(f"{printable(d.key[1])}: {format_size(found.elsewhere(d.node))} of it are on "
                      f"other nodes than {d.node}, though its tmpfs is bound there")


def _apply(c: Change, d: Difference) -> None:
    """One difference, to its end; Failure names it."""
    try:
        kill_point("before")
        c.stop.check()
        _make_first(c, d)
        try:
            target.change(d, c.machine, c.stop)
        except Failure as why:
            c.stop.check()
            if not d.may_fail:
                raise
            if c.args.verbose:
                say(f"{text(d)}: {why}")
            for irq in c.kept.irqs:
                irq.set = "" if d.key == ("irq", irq.irq) else irq.set
            return
        c.say(text(d))
        _check_pages(d)
        kill_point("after")
    except Failure as why:
        if c.stop.asked:
            raise
        raise type(why)(f"{text(d)}: {why}") from why


def _take_back(c: Change, before: Items) -> None:
    """To the items of before, by the same differences()."""
    ask = Ask(None, c.kept, c.others, host.read())
    ask.irqs = [Irq(key[1], "", format_ids(host.irq_cpus(key[1]) or ()), "")
                for key, _ in host.under(before, "irq")]
    wants, has = dict(before), converge.have(ask)
    # Another program has made a file that is there by now and not in made: it stays.
    wants.update((key, v) for key, v in host.under(has, "file") if key not in wants and
                 key[1] not in c.kept.made and ("mount", os.path.dirname(key[1])) not in has)
    for d in converge.differences(has, wants, c.stores):
        try:
            kill_point("undo")
            target.change(d, c.machine)
        except Failure as why:
            if not d.may_fail:
                c.left.append(f"{c.name}: cannot be taken back: {text(d)}: {why}")
    if c.left:
        return
    c.undone = True
    try:
        if c.state.plan:
            c.state.write()
        else:
            c.state.remove()
    except Failure as why:
        c.left.append(str(why))


def _make(c: Change, want: Plan, has: Items, diffs: list[Difference]) -> None:
    known = {i.irq: i for i in c.kept.irqs}
    for irq in c.irqs:
        known.setdefault(irq.irq, irq).set = irq.set
    c.kept.irqs = list(known.values())
    c.kept.begin(want)
    try:
        if diffs:
            # The list of our things is on the disk before the first difference is applied.
            c.kept.write()
            kill_point("kept")
        for d in diffs:
            _apply(c, d)
        target.save(want, c.kept.lio_file, c.machine)
    except target.Stuck as why:
        c.left.append(f"{c.name}: {why}")
        raise
    except Failure:
        c.lost = any(d.lossy and text(d) in c.steps for d in diffs)
        if diffs:
            _take_back(c, has)
        raise
    c.kept.finish()
    c.kept.made = [path for path in c.kept.made if host.size_of(path) >= 0]
    try:
        c.kept.write()
    except Failure as why:
        # The file still says that it is being applied, which is as good for the next change.
        raise Failure(f"all of it is done, but cannot be written down; apply it again: {why}"
                      ) from why


def _change(c: Change) -> None:
    args, name = c.args, str(c.name)
    c.kept = state.read(args.state, name) if args.dry_run else \
        state.open_to_change(args.state, name, args.lock_wait, c.stop)
    c.state = copy.deepcopy(c.kept)
    c.kept.begin_boot()
    c.others = [state.read(args.state, n) for n in state.names_of(args.state) if n != name]
    c.machine = host.read_machine({})
    c.destroy, c.force = args.destroy_data, args.force
    has, diffs = _prepare(c)
    if args.dry_run:
        for d in diffs:
            c.say(text(d))
    elif not c.want:
        c.kept.write()
        kill_point("kept")
        for d in diffs:
            _apply(c, d)
        if not args.keep_state:
            c.kept.remove()
    elif diffs or c.state.applied != c.want or c.state.applying or \
            c.state.boot != c.kept.boot or not os.path.exists(c.kept.lio_file):
        _make(c, c.want, has, diffs)
    if c.unwritten:
        raise c.unwritten
    done = f" is {'applied' if c.want else 'removed'}"
    if args.dry_run:
        done = f": {len(c.steps)} steps, none of which is done"
    elif c.steps:
        done += f", in {len(c.steps)} steps"
    else:
        done += " already: there is nothing to change" if c.want else \
            "; nothing of it was there any more"
    output("" if args.json else f"{name}{done}\n")


# ---- the commands ---------------------------------------------------------------------


def _run(args: Options, name_and_plan: Callable[[Options],
                                                           tuple[str, Plan | None]]) -> int:
    failure = None
    with Stop() as stop:
        c = Change(args=args, stop=stop)
        try:
            c.name, c.want = name_and_plan(args)
            _change(c)
        except Failure as why:
            failure = why
        for note in c.notes:
            warn(note)
        for line in (str(failure), *c.left) if failure else ():
            say(line)
        if failure and c.undone:
            say("what was done is taken back; the data in memory that was given up is lost"
                if c.lost else "all is as it was before")
        elif failure and c.left:
            say("the rest is as it was before; what is left stays known: rftp-iser remove "
                f"{c.name}, or apply again")
        out: dict[str, object] = {"name": c.name, "dry_run": args.dry_run, "steps": c.steps,
                                  "notes": c.notes}
        if failure:
            out.update(error=str(failure), undone=c.undone)
            out.update({key: lines for key, lines in (("problems", c.problems), ("left", c.left))
                        if lines})
        try:
            output(json.dumps(out) + "\n" if args.json else "")
        except Failure:
            # The first failure is told, and not that standard output cannot be written, too.
            if not failure:
                raise
    return DONE if not failure else failure.status if c.name is None else FAILED


def need_root(what: str) -> None:
    if os.geteuid():
        raise Failure(f"only root may do what {what} does: use sudo")


def _plan_of(args: Options) -> tuple[str, Plan | None]:
    need_root("apply")
    try:
        want = plan.read(args.words[0])
    except Failure as why:
        why.status = FAILED if why.__cause__ else USAGE
        raise
    # Under another name a unit of systemd would not find its own plan again.
    if args.name not in (None, want.name):
        raise Failure(f"{printable(args.words[0])}: the plan is called {want.name}, not "
                      f"{printable(args.name)}; change its name, or call it by that", USAGE)
    return str(want.name), want


def _name_of(args: Options) -> tuple[str, Plan | None]:
    need_root("remove")
    found = args.words or state.names_of(args.state)
    if not found:
        raise Failure("no plan was applied here")
    if len(found) > 1:
        raise Failure(f"several plans were applied here: say which is to go: {', '.join(found)}")
    return found[0], None


def run(args: Options) -> int:
    """rftp-iser apply."""
    if args.name is not None and names.plan(args.name):
        raise Misuse(f"no plan's name, for it {names.plan(args.name)}", args.name)
    return _run(args, _plan_of)


def run_remove(args: Options) -> int:
    """rftp-iser remove."""
    return _run(args, _name_of)
