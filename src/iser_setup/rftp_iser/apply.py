# SPDX-License-Identifier: Apache-2.0
"""The commands apply and remove. Both compute the differences between our items on the host
(Ask.ours) and the wanted ones, and apply them in order. When one fails, apply computes them once
more, towards the host as it was before. A kill at any point leaves other differences, and the
state's file."""
from __future__ import annotations

import copy
import os
from dataclasses import dataclass, field, replace

from rftp_common import (DONE, USAGE, Failure, Options, Stop, at_place, failed, failures_to,
                         format_ids, json_line, kill_point, lock, output, own_directory, parse_ids,
                         printable, say, warn)
from rftp_numa import placement

from . import checks, converge, host, plan, state, target
from .converge import Ask, Difference, text
from .host import Items
from .plan import Plan
from .state import Irq, State


@dataclass
class Change(Ask):
    """The Ask of an apply or remove, and its report."""
    args: Options = field(default_factory=Options)
    name: str | None = None
    stop: Stop = field(default_factory=Stop)
    machine: host.Host = field(default_factory=host.Host)
    kept: State = field(default_factory=State)  # as its file is written
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
              machine: host.Host) -> str | None:
    """The list for LIO's threads: CPUs of the nodes of all plans of this boot that ask for it, or
    the list before the first of them; None: it stays as it is."""
    plans = [want, *(o.applied for o in others if o.boot == own.boot)]
    nodes = [machine.cpus_of(t.node) for p in plans if p and p.cpus == "nodes"
             for t in p.targets]
    if now is None:
        return None
    return format_ids(set().union(*nodes)) if nodes and all(nodes) else own.cpus or None


def _irqs(c: Change) -> list[Irq]:
    """Interrupts of the cards of the plan's portals that may be handled on CPUs of other nodes; or,
    when the plan goes, those that are still as they were set, with their lists of before."""
    if not c.want:
        return [Irq(i.irq, i.netdev, i.set, i.was) for i in c.kept.irqs
                if i.set and placement.irq_cpus(i.irq) == parse_ids(i.set)]
    found: dict[int, Irq] = {}
    refused = {i.irq for i in c.kept.irqs if not i.set}  # by the kernel, which places them itself
    for t in c.want.targets if c.want.cpus == "nodes" else ():
        cpus = c.machine.cpus_of(t.node)
        cards = [p.netdev for p in t.portals if p.netdev
                 and c.machine.nics[p.netdev].node == t.node]
        for netdev, irq in ((n, i) for n in cards if cpus for i in placement.irqs_of(n)):
            now = placement.irq_cpus(irq)
            if now is not None and not now <= cpus and irq not in refused:
                found.setdefault(irq, Irq(irq, netdev, format_ids(now), format_ids(cpus)))
    return list(found.values())


def _look(c: Change) -> tuple[Items, Items, list[Difference]]:
    """Our items now, the wanted ones, and their differences."""
    c.actual, c.notes = host.read(), []
    c.irqs, now = _irqs(c), c.actual.get(("cpus",))
    c.cpus = cpus_list(c.want, c.kept, c.others, now, c.machine)
    if c.cpus and not c.kept.cpus:
        c.kept.cpus = next((o.cpus for o in c.others if o.cpus and o.boot == c.kept.boot), str(now))
    has = converge.have(c)
    wants = converge.wish(c, has)
    return has, wants, converge.differences(has, wants, c.stores)


def _prepare(c: Change) -> tuple[Items, list[Difference]]:
    """Our items, and the differences. Failure if anything stands in the way; then nothing is
    begun."""
    for needed in (target.rtslib, placement.numa)[:2 if c.want else 1]:
        with failures_to(c.problems.append):
            needed()
    c.secrets = checks.secrets(c.want, c.problems) if c.want else {}
    has, wants, diffs = _look(c)
    checks.check(c, has, wants, diffs)
    if c.want:
        checks.check_host(c, c.want, c.machine, diffs)
        # Modules last: they stay when something else is wrong. They bring a list of CPUs.
        load = not c.args.dry_run and not c.problems
        checks.kernel(c.want, load, c.problems)
        if load and not c.problems and ("iscsi",) not in c.actual:
            notes = c.notes
            has, wants, diffs = _look(c)
            c.notes = notes
    elif not c.problems and not c.state.plan:
        c.problems = [state.no_plan(c.name)]
    if len(c.problems) == 1:
        raise Failure(c.problems[0])
    for problem in c.problems:
        say(problem)
    if c.problems:
        raise Failure(f"nothing was {'changed' if c.want else 'removed'}; "
                      f"problems: {len(c.problems)}")
    return has, diffs


# ---- differences, one after the other -------------------------------------------------


def _make_first(c: Change, d: Difference) -> None:
    """A directory or file is written down right before it is made, and alone: all at once, they
    would pass for ours after a kill even if another program made one of them."""
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


def _apply(c: Change, d: Difference) -> None:
    """One difference, to its end; Failure names it."""
    try:
        kill_point("before")
        c.stop.check()
        _make_first(c, d)
        target.change(d, c.machine, c.stop)
        c.say(text(d))
        kill_point("after")
    except Failure as why:
        if not isinstance(why, target.Stuck):
            c.stop.check()
        if not d.may_fail:
            raise Failure(f"{text(d)}: {why}") from why
        if c.args.verbose:
            say(f"{text(d)}: {why}")
        for irq in c.kept.irqs:
            irq.set = "" if d.key == ("irq", irq.irq) else irq.set


def _take_back(c: Change, before: Items) -> None:
    """To the items of before, by the same differences()."""
    wants, has = dict(before), converge.have(Ask(None, c.kept, c.others, host.read()))
    has.update((key, format_ids(placement.irq_cpus(key[1]) or ()))
               for key, _ in host.under(before, "irq"))
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
    with failures_to(c.left.append):
        if c.state.plan:
            c.state.write()
        else:
            c.state.remove()


def _carry_out(c: Change, has: Items, diffs: list[Difference]) -> None:
    """All differences. After a failure apply takes them back; the next remove does the rest."""
    if c.want:
        known = {i.irq: i for i in c.kept.irqs}
        for irq in c.irqs:
            known.setdefault(irq.irq, irq).set = irq.set
        c.kept.irqs = list(known.values())
        if c.kept.applying and c.kept.applying != c.want:
            c.kept.older.append(c.kept.applying)
        c.kept.applying = c.want
    try:
        if diffs or not c.want:
            # The list of our things is on the disk before the first difference is applied.
            c.kept.write()
            kill_point("kept")
        for d in diffs:
            _apply(c, d)
        if c.want:
            target.save(c.want, c.kept.lio_file, c.machine)
    except Failure as why:
        # The kernel still works on it; the state's file names all items.
        if c.want and diffs and not isinstance(why.__cause__, target.Stuck):
            c.lost = any(d.lossy and text(d) in c.steps for d in diffs)
            _take_back(c, has)
        raise
    if not c.want:
        if not c.args.keep_state:
            c.kept.remove()
        return
    c.kept.applied, c.kept.applying, c.kept.older = c.want, None, []
    c.kept.made = [path for path in c.kept.made if host.size_of(path) >= 0]
    # If that fails the file still says that the plan is being applied: as good for the next change.
    with at_place("all of it is done, but cannot be written down; apply it again"):
        c.kept.write()


# ---- the commands ---------------------------------------------------------------------


def _change(c: Change) -> None:
    args, name = c.args, str(c.name)
    directory, held = state.directory(args.state), -1
    if not args.dry_run:  # no other process changes the targets of this host
        own_directory(directory, f"{printable(directory)}, the directory of applied plans,")
        held = lock(os.path.join(directory, "lock"), "another rftp-iser is changing the targets of "
                    "this host", args.lock_wait, c.stop, "which changes LIO")
    c.kept = replace(state.read(args.state, name), lock=held)
    c.state = copy.deepcopy(c.kept)
    if c.kept.boot != state.boot_now():  # the kernel has its own CPU lists again
        c.kept.cpus, c.kept.irqs, c.kept.boot = "", [], state.boot_now()
    c.others = [state.read(args.state, n) for n in state.names_of(args.state) if n != name]
    c.machine = host.read_host()
    c.destroy, c.force = args.destroy_data, args.force
    has, diffs = _prepare(c)
    if args.dry_run:
        for d in diffs:
            c.say(text(d))
    elif diffs or c.state.applied != c.want or c.state.applying or not c.want or \
            c.state.boot != c.kept.boot or not os.path.exists(c.kept.lio_file):
        _carry_out(c, has, diffs)
    if c.unwritten:
        raise c.unwritten
    done, steps = f" is {'applied' if c.want else 'removed'}", f"{len(c.steps)} steps"
    if args.dry_run:
        done = f": {steps}, none of which is done"
    elif c.steps:
        done += f", in {steps}"
    else:
        done += " already: there is nothing to change" if c.want else \
            "; nothing of it was there any more"
    output("" if args.json else f"{name}{done}\n")


def _name_and_plan(args: Options) -> tuple[str, Plan | None]:
    """Of apply; or of remove, without a plan."""
    if "keep_state" in vars(args):
        found = args.words or state.names_of(args.state)
        if len(found) != 1:
            raise Failure("several plans were applied here: say which is to go: " + ", ".join(found)
                          if found else state.no_plan())
        return found[0], None
    want = plan.read(args.words[0], USAGE)
    # Under another name a unit of systemd would not find its own plan again.
    if args.name not in (None, want.name):
        raise Failure(f"{printable(args.words[0])}: the plan is called {want.name}, not "
                      f"{printable(args.name)}; change its name, or call it by that", USAGE)
    return str(want.name), want


def run(args: Options) -> int:
    """rftp-iser apply and remove."""
    failure, c = None, Change(args=args)
    with Stop() as c.stop:
        try:
            c.name, c.want = _name_and_plan(args)
            _change(c)
        except Failure as why:
            failure = why
        for note in c.notes:
            warn(note)
        out: dict[str, object] = {"name": c.name, "dry_run": args.dry_run, "steps": c.steps,
                                  "notes": c.notes}
        if failure:
            for line in (str(failure), *c.left):
                say(line)
            if c.undone:
                say("all steps are taken back; data in memory that they gave up is lost"
                    if c.lost else "all is as it was before")
            elif c.left:
                say("all else is as it was before; these items stay known: rftp-iser remove "
                    f"{c.name}, or apply again")
            out.update(error=str(failure), undone=c.undone)
            out.update({key: lines for key, lines in (("problems", c.problems), ("left", c.left))
                        if lines})
        try:
            output(json_line(out) if args.json else "")
        except Failure:
            # The first failure is told, and not that standard output cannot be written, too.
            if not failure:
                raise
    return failure.status if failure else DONE
