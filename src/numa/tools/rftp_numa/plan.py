# SPDX-License-Identifier: Apache-2.0
"""The command "plan": how many threads should carry which bytes by which nodes."""
from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rftp_numa.common import (JSON, SYSFS, Failure, Misuse, Option, Stop, count, format_rate, format_size,
                              json_line, output, run_command, take_options, text, warn)
from rftp_numa.problem import Source, get_problem
from rftp_numa.staged import Flow, Part, Plan, State, solve, spread

SAY_SECONDS = 0.5  # between two lines of progress


@dataclass
class Options(Source):
    # Not the sum, which is what was published: it plans slower than no plan at all where paths could
    # work side by side.
    objective: str = "makespan"
    limit: int = 60
    json: bool = False


def objective(_name: str, word: str) -> str:
    if word not in ("sum", "makespan"):
        raise Misuse("--objective takes sum or makespan, not", word)
    return word


TABLE = [
    Option("problem", "FILE", "nodes, bandwidths and data as JSON (see rftp-numa(1))", text),
    Option("model", "FILE", "bandwidths by this I/O model (the installed one)", text),
    Option("data", "NODE:SIZE,...", "what is on the disks of each node, as 0:100G,1:50G", text),
    Option("nic", "NAME,...", "the network cards that it goes out by", text),
    Option("objective", "makespan|sum", "what is to be least: the end, or all paths' times (makespan)",
           objective),
    Option("limit", "SECONDS", "how long to look for a better plan (60)", count(1, 86400)),
    JSON, SYSFS]

# ---- while it searches ----------------------------------------------------------------


class Watch(Stop):
    """Ends the search by a signal or its time limit; on a terminal it shows how far it is. A second
    signal, which timeout(1) sends at once, must not take away the plan that was found."""

    def __init__(self, limit: int) -> None:
        super().__init__(obey=False)
        self.end, self.said = time.monotonic() + limit, time.monotonic()
        self.terminal = sys.stderr.isatty()

    def go_on(self, state: State) -> bool:
        now = time.monotonic()
        if self.terminal and now - self.said >= SAY_SECONDS:
            self.said = now
            sys.stderr.write("\r\033[K%d linear programmes; %s" % (
                state.programmes, "no plan yet" if math.isinf(state.best) else
                "best %.4g s, none is below %.4g s" % (state.best, state.bound)))
            sys.stderr.flush()
        return not self.asked and now < self.end

    def clear(self) -> None:
        if self.terminal:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()


def say_unproven(state: State, interrupted: bool) -> None:
    above = ("at most %.2g %% above the least" % ((state.best / state.bound - 1) * 100)
             if state.bound > 0 else "how far above the least is not known")
    warn("%s after %d linear programmes: this is the best plan of those examined, %s%s" % (
        "interrupted" if interrupted else "out of time", state.programmes, above,
        "" if interrupted else "; --limit gives it more time"))


# ---- for people -----------------------------------------------------------------------


def _flow_text(does: str, flow: Flow, seconds: float) -> str:
    return "    %s %s with %g thread%s in %.4g s" % (
        does, format_size(round(flow.bytes)), flow.threads, "s"[:flow.threads > 1], seconds)


def _part_text(plan: Plan, part: Part) -> str:
    p, i, k = plan.problem, plan.problem.ids[part.source], plan.problem.ids[part.to]
    if part.kind == "disk_threads":
        return "the threads of node %d, which read from storage %d" % (k, i)
    if part.kind == "network_threads":
        return "the threads of node %d, which send to network %d" % (i, k)
    if part.kind == "disk_limit":
        return "the disks of storage %d (%s)" % (i, format_rate(p.disk_limit[part.source]))
    if part.kind == "link_limit":
        return "the link from node %d to node %d (%s)" % (
            i, k, format_rate(p.link_limit[part.source][part.to]))
    return "the cards of network %d (%s)" % (k, format_rate(p.network_limit[part.to]))


def _spread_lines(plan: Plan, least: str) -> list[str]:
    evenly = spread(plan.problem)
    if not evenly:
        return ["spread evenly over all nodes: some of the ways have no bandwidth"]
    end, other = plan.makespan(), evenly.makespan()
    lines = ["spread evenly over all nodes it would take %.4g s, %.2f times as long" % (other, other / end)]
    if other < end and least == "sum":
        lines.append("which is sooner: --objective makespan plans for the end, not for the sum")
    return lines


def plan_text(plan: Plan, least: str) -> str:
    p, lines = plan.problem, []
    for u, v, w in plan.paths():
        amount = plan.path_bytes(u, v, w)
        if amount > 0:
            lines += ["storage %d -> memory %d -> network %d: %s in %.4g s" % (
                p.ids[u], p.ids[v], p.ids[w], format_size(round(amount)), plan.path_time(u, v, w)),
                _flow_text("read", plan.disk[u][v], plan.time(Part("disk_threads", u, v))),
                _flow_text("send", plan.network[v][w], plan.time(Part("network_threads", v, w)))]
    lines.append("threads: " + ", ".join("node %d %g of %d" % (p.ids[v], plan.threads(v), p.threads[v])
                                         for v in plan.nodes))
    lines.append("all is sent after %.4g s; the sum of the paths' times is %.4g s (least: the %s)" % (
        plan.makespan(), plan.sum(), least))
    lines.append("bottleneck: " + ("; ".join(_part_text(plan, part) for part in plan.bottlenecks()) or
                                   "none; more threads could be used"))
    return "\n".join(lines + _spread_lines(plan, least)) + "\n"


# ---- for programs ---------------------------------------------------------------------


def whole(parts: Sequence[float], total: int) -> list[int]:
    """Whole numbers near to parts, whose sum is total."""
    numbers = [int(part) for part in parts]
    order = sorted(range(len(parts)), key=lambda i: numbers[i] - parts[i])
    used = [i for i in order if parts[i] > 0]
    for i in range(total - sum(numbers) if used else 0):
        numbers[used[i % len(used)]] += 1
    return numbers


def plan_json(plan: Plan, least: str, state: State) -> dict[str, Any]:
    ids, nodes, evenly = plan.problem.ids, plan.nodes, spread(plan.problem)
    disk = [whole([f.bytes for f in plan.disk[u]], round(plan.problem.data[u])) for u in nodes]
    network = [whole([f.bytes for f in plan.network[v]], sum(disk[u][v] for u in nodes)) for v in nodes]

    def stages(flows: list[list[Flow]], amounts: list[list[int]], names: tuple[str, str],
               kind: str) -> list[dict[str, Any]]:
        return [{names[0]: ids[i], names[1]: ids[k], "threads": int(flows[i][k].threads),
                 "bytes": amounts[i][k], "seconds": plan.time(Part(kind, i, k))}
                for i in nodes for k in nodes if flows[i][k].threads > 0]

    paths = []
    for u in nodes:
        for v in nodes:
            amounts = whole([plan.path_bytes(u, v, w) for w in nodes], disk[u][v])
            paths += [{"storage": ids[u], "memory": ids[v], "network": ids[w], "bytes": amounts[w],
                       "seconds": plan.path_time(u, v, w)}
                      for w in nodes if plan.path_bytes(u, v, w) > 0]
    return {
        "objective": least, "makespan": plan.makespan(), "sum": plan.sum(), "proven": state.proven,
        "bound": state.bound, "programmes": state.programmes, "paths": paths,
        "disk": stages(plan.disk, disk, ("storage", "memory"), "disk_threads"),
        "network": stages(plan.network, network, ("memory", "network"), "network_threads"),
        "bottlenecks": [{"part": part.kind, "from": ids[part.source], "to": ids[part.to]}
                        for part in plan.bottlenecks()],
        "spread": {"makespan": evenly.makespan(), "sum": evenly.sum()} if evenly else None}


# ---- the command ----------------------------------------------------------------------


def command() -> None:
    o = Options()
    if not take_options("plan", "How many threads should carry what, from the disks of which node by which "
                        "node's memory\nto which node's network cards.", TABLE, o):
        return
    if o.problem is None and o.data is None:
        raise Misuse("plan takes what there is from a file, --problem FILE, or by the I/O model, "
                     "--data NODE:SIZE,...")
    p = get_problem(o)
    watch = Watch(o.limit)
    with watch:
        try:
            import scipy.optimize  # type: ignore[import] # noqa: F401 (before the time begins)
        except ImportError as why:
            raise Failure("plans are made with SciPy 1.6 or later, which Python %d.%d has not here: install "
                          "the package python3-scipy (%s)" % (*sys.version_info[:2], why)) from None
        watch.end = time.monotonic() + o.limit
        try:
            plan, state = solve(p, o.objective, watch.go_on)
        finally:
            watch.clear()
    if not state.proven:
        say_unproven(state, bool(watch.asked))
    output(json_line(plan_json(plan, o.objective, state)) if o.json else plan_text(plan, o.objective))


def main() -> int:
    return run_command(command)
