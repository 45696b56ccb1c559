# SPDX-License-Identifier: Apache-2.0
"""The commands apply and remove. Both compute the differences between our things on the host and
the wanted ones, and apply them in order. When one fails, apply computes them once more, towards the
host as it was before. A kill at any point leaves other differences, and the state's file."""
from __future__ import annotations

import copy
import json
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field

from . import checks, converge, host, names, plan, state, target, topology
from .common import Options, DONE, FAILED, USAGE, Failure, Misuse, Stop, kill_point, output
from .common import failed, format_ids, format_size, parse_ids, printable, say, warn
from .converge import Ask, Difference, Items
from .plan import Plan
from .state import Irq, State


@dataclass
class Report:
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)  # why nothing was begun
    steps: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)  # differences that could not be taken back
    undone: bool = False  # something was done, and taken back
    lost: bool = False  # with data
    unwritten: Failure | None = None  # standard output cannot be written; that stops nothing


@dataclass
class Change:
    args: Options
    name: str
    want: Plan | None
    stop: Stop
    report: Report
    machine: topology.Host
    state: State  # its lock is held, unless this is a dry run
    before: State  # as it was found
    others: list[State]
    secrets: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)

    def say(self, line: str) -> None:
        self.report.steps.append(line)
        try:
            output("" if self.args.json else line + "\n")
        except Failure as why:
            self.report.unwritten = why


# ---- actual and wanted ----------------------------------------------------------------


def _size(path: str) -> int:
    try:
        st = os.stat(path)
    except OSError:
        return -1
    return st.st_size if stat.S_ISREG(st.st_mode) else 0


def _is_dir(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


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


def _irqs(want: Plan | None, own: State, machine: topology.Host) -> list[Irq]:
    """Interrupts of the cards of the plan's portals that may be handled on CPUs of other nodes; or,
    when the plan goes, those that are still as they were set, with their lists of before."""
    found: dict[int, Irq] = {}
    if not want:
        for i in own.irqs:
            if i.set and host.irq_cpus(i.irq) == parse_ids(i.set):
                found[i.irq] = Irq(i.irq, i.netdev, i.set, i.was)
        return list(found.values())
    refused = {i.irq for i in own.irqs if not i.set}  # by the kernel, which places them itself
    for t in want.targets if want.cpus == "nodes" else ():
        cpus = host.cpus_of(machine, t.node)
        for netdev in [p.netdev for p in t.portals if p.netdev
                       and machine.netdev_node(p.netdev) == t.node]:
            for irq in (host.irqs_of(netdev) or ()) if cpus else ():
                now = host.irq_cpus(irq)
                if now is not None and not now <= cpus and irq not in refused:
                    found.setdefault(irq, Irq(irq, netdev, format_ids(now), format_ids(cpus)))
    return list(found.values())


def _look(c: Change) -> tuple[Ask, Items, Items, list[Difference]]:
    """The host now, the plan, and their differences; problems and notes are in the Ask."""
    actual = converge.Actual(host.read_lio(), _size, _is_dir)
    ask = Ask(c.want, c.before, c.others, actual, c.secrets, irqs=_irqs(c.want, c.state, c.machine),
              destroy=c.args.destroy_data, force=c.args.force)
    ask.cpus, before = cpus_list(c.want, c.state, c.others, actual.lio.cpus, c.machine)
    if before and c.state.cpus is None:
        c.state.cpus = before
    has = converge.have(ask)
    wants = converge.wish(ask, has)
    return ask, has, wants, converge.differences(has, wants, converge.nodes_of(ask))


def _check(c: Change) -> tuple[Ask, Items, list[Difference]]:
    """All that stands in the way is in the report's problems; then nothing is begun."""
    problems, notes = c.report.problems, c.report.notes
    for needed in (target.rtslib, host.numa)[:2 if c.want else 1]:
        try:
            needed()
        except Failure as why:
            problems.append(str(why))
    if c.want:
        c.secrets = checks.secrets(c.want, problems)
        checks.portals(c.want, c.machine, problems, notes)
    c.state.begin_boot()
    ask, has, wants, diffs = _look(c)
    checks.check(ask, has, wants, diffs)
    if c.want:
        checks.stores(c.want, ask.actual.lio, problems)
        checks.memory(diffs, c.machine, problems)
    problems += ask.problems
    notes += ask.notes
    if c.want:
        # Modules last: they stay when something else is wrong. They bring a list of CPUs.
        load = not c.args.dry_run and not problems
        checks.kernel(c.want, load, problems)
        if load and not problems and not ask.actual.lio.iscsi:
            ask, has, wants, diffs = _look(c)
    return ask, has, diffs


# ---- differences, one after the other -------------------------------------------------


def _check_pages(d: Difference) -> None:
    """Here the node of a new file's pages is checked: a tmpfs's policy is only a request."""
    if d.key[0] != "file" or d.to is None or not d.strictly:
        return
    found = host.pages(d.key[1])
    if found and found.elsewhere(d.node):
        raise Failure("%s: %s of it are on other nodes than %d, though its tmpfs is bound there"
                      % (printable(d.key[1]), format_size(found.elsewhere(d.node)), d.node))


def _make_first(c: Change, d: Difference) -> None:
    """A directory or file is written down right before it is made, and alone: all at once, they
    would pass for ours after a kill even if somebody else made one of them."""
    kind, path = d.key[0], d.key[-1]
    if kind not in ("dir", "file") or d.to is None or d.was is not None or d.in_tmpfs or \
            path in c.state.made:
        return
    if os.path.lexists(path):
        raise Failure("%s: is there by now, and is not ours" % printable(path))
    c.state.made.append(path)
    c.state.write()
    if kind == "file":
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except OSError as why:
            c.state.made.remove(path)
            c.state.write()
            raise failed(why, printable(path)) from why


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
                say("%s: %s" % (d.text, why))
            for irq in c.state.irqs:
                irq.set = "" if d.key == ("irq", irq.irq) else irq.set
            return
        c.say(d.text)
        _check_pages(d)
        kill_point("after")
    except Failure as why:
        if c.stop.asked:
            raise
        raise type(why)("%s: %s" % (d.text, why)) from why


def _take_back(c: Change, has_before: Items) -> None:
    """To the host's state of before, by the same differences()."""
    ask = Ask(None, c.state, c.others, converge.Actual(host.read_lio(), _size, _is_dir))
    ask.irqs = [Irq(k[1], "", v, v) for k, v in has_before.items() if k[0] == "irq"]
    ask.actual.irqs = {i.irq: format_ids(host.irq_cpus(i.irq) or ()) for i in ask.irqs}
    wants, has = dict(has_before), converge.have(ask)
    # Another program has made a file that is there by now and not in made: it stays.
    mounts = {k[1] for k in has if k[0] == "mount"}
    wants.update((k, v) for k, v in has.items() if k[0] == "file" and k not in wants
                 and k[1] not in c.state.made and os.path.dirname(k[1]) not in mounts)
    for d in converge.differences(has, wants, converge.nodes_of(ask)):
        try:
            kill_point("undo")
            target.change(d, c.machine)
        except Failure as why:
            if not d.may_fail:
                c.report.left.append("%s: cannot be taken back: %s: %s" % (c.name, d.text, why))
    c.report.undone = not c.report.left
    try:
        if c.report.undone and c.before.plan:
            c.before.write()
        elif c.report.undone:
            c.before.remove()
    except Failure as why:
        c.report.left.append(str(why))


def _keep(c: Change, irqs: list[Irq]) -> None:
    """The list of our things is on the disk before the first difference is applied."""
    known = {i.irq: i for i in c.state.irqs}
    for irq in irqs if c.want else ():
        if irq.irq in known:
            known[irq.irq].set = irq.set
        else:
            c.state.irqs.append(irq)
    if c.want:
        c.state.begin(c.want)
    c.state.write()
    kill_point("kept")


def _finish(c: Change) -> None:
    c.state.finish()
    c.state.made = [path for path in c.state.made if _size(path) >= 0]
    try:
        c.state.write()
    except Failure as why:
        # The file still says that it is being applied, which is as good for the next change.
        raise Failure("all of it is done, but cannot be written down; apply it again: %s"
                      % why) from why


def _converge(c: Change) -> None:
    ask, has, diffs = _check(c)
    if not c.want and not c.report.problems and not c.before.plan:
        others = c.others[0].name if c.others else ""
        raise Failure("no plan called %s was applied here%s%s" % (
            printable(c.name), "; there is " + others if others else "", ", and others"
            if len(c.others) > 1 else ""))
    if len(c.report.problems) == 1:
        raise Failure(c.report.problems[0])
    if c.report.problems:
        for problem in c.report.problems:
            say(problem)
        raise Failure("%d things stand in the way; nothing was %s"
                      % (len(c.report.problems), "changed" if c.want else "removed"))
    if c.args.dry_run:
        for d in diffs:
            c.say(d.text)
    elif c.want and not diffs:
        _settle(c)
    elif c.want:
        try:
            _keep(c, ask.irqs)
            for d in diffs:
                _apply(c, d)
            target.save(c.want, c.state.lio_file, c.machine)
        except target.Stuck as why:
            c.report.left.append("%s: %s" % (c.name, why))
            raise
        except Failure:
            c.report.lost = any(d.lossy and d.text in c.report.steps for d in diffs)
            _take_back(c, has)
            raise
        _finish(c)
    else:
        _keep(c, [])
        for d in diffs:
            _apply(c, d)
        if not c.args.keep_state:
            c.state.remove()


def _settle(c: Change) -> None:
    """There is no difference; but do the files say so, too?"""
    if c.want and not (c.before.applied == c.want and not c.before.applying
                       and c.before.boot == c.state.boot and os.path.exists(c.state.lio_file)):
        c.state.begin(c.want)
        target.save(c.want, c.state.lio_file, c.machine)
        _finish(c)


# ---- the commands ---------------------------------------------------------------------


def _emit(args: Options, name: str | None, r: Report, error: str) -> None:
    out: dict[str, object] = {"name": name, "dry_run": args.dry_run, "steps": r.steps,
                              "notes": r.notes}
    out.update({"error": error, "undone": r.undone} if error else {})
    out.update((key, lines) for key, lines in (("problems", r.problems), ("left", r.left)) if lines)
    output(json.dumps(out) + "\n")


def _tell_failure(name: str | None, r: Report, why: Failure) -> None:
    for line in (str(why), *r.left):
        say(line)
    if r.undone:
        say("what was done is taken back; the data in memory that was given up is lost" if r.lost
            else "all is as it was before")
    elif r.left:
        say("the rest is as it was before; what is left stays known: rftp-iser remove %s, or apply "
            "again" % name)


def _change(args: Options, r: Report, name: str, want: Plan | None, stop: Stop) -> None:
    own = state.read(args.state, name) if args.dry_run else \
        state.open_to_change(args.state, name, args.lock_wait, stop)
    _converge(Change(args, name, want, stop, r, host.read_machine(host.Lio()), own,
                     copy.deepcopy(own),
                     list(state.others(args.state, name))))
    done, nothing = ("is applied", " already: there is nothing to change") if want else \
        ("is removed", "; nothing of it was there any more")
    if r.unwritten:
        raise r.unwritten
    if args.dry_run and not args.json:
        output("%s: %d steps, none of which is done\n" % (name, len(r.steps)))
    elif not args.json:
        output("%s %s%s\n" % (name, done, ", in %d steps" % len(r.steps) if r.steps else nothing))


def _run(args: Options, prepare: Callable[[Options], tuple[str,
    Plan | None]]) -> int:
    """prepare: the plan's name, and the plan, if it is wanted."""
    r, name, failure = Report(), None, None
    with Stop() as stop:
        try:
            name, want = prepare(args)
            _change(args, r, name, want, stop)
        except Failure as why:
            failure = why
        for note in r.notes:
            warn(note)
        if failure:
            _tell_failure(name, r, failure)
        try:
            if args.json:
                _emit(args, name, r, str(failure or ""))
        except Failure:
            # The first failure is told, and not that standard output cannot be written, too.
            if not failure:
                raise
    return DONE if not failure else failure.status if name is None else FAILED


def need_root(what: str) -> None:
    if os.geteuid():
        raise Failure("only root may do what %s does: use sudo" % what)


def _plan_of(args: Options) -> tuple[str, Plan | None]:
    need_root("apply")
    try:
        want = plan.read(args.words[0])
    except Failure as why:
        why.status = FAILED if why.__cause__ else USAGE
        raise
    # Under another name a unit of systemd would not find its own plan again.
    if args.name not in (None, want.name):
        raise Failure("%s: the plan is called %s, not %s; change its name, or call it by that"
                      % (printable(args.words[0]), want.name, printable(args.name)), USAGE)
    return str(want.name), want


def _name_of(args: Options) -> tuple[str, Plan | None]:
    need_root("remove")
    found = args.words or state.names_of(args.state)
    if not found:
        raise Failure("no plan was applied here")
    if len(found) > 1:
        raise Failure("several plans were applied here, %s and %s%s: say which is to go"
                      % (found[0], found[1], " among them" if len(found) > 2 else ""))
    return found[0], None


def run(args: Options) -> int:
    """rftp-iser apply."""
    if args.name is not None and names.plan(args.name):
        raise Misuse("no plan's name, for it %s" % names.plan(args.name), args.name)
    return _run(args, _plan_of)


def run_remove(args: Options) -> int:
    """rftp-iser remove."""
    return _run(args, _name_of)
