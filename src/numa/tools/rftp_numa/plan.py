# SPDX-License-Identifier: Apache-2.0
"""The command "plan": how many threads should carry which bytes by which nodes."""
from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rftp_numa.common import (JSON, SYSFS, Failure, Misuse, Option, Stop, count, format_rate, format_size,
                              json_line, output, take_options, text, warn)

if TYPE_CHECKING:  # they need SciPy, which the command looks for
    from rftp_numa.staged import Plan, State

SAY_SECONDS = 0.5  # between two lines of progress


def objective(_name: str, word: str) -> str:
    if word not in ("sum", "makespan"):
        raise Misuse("--objective takes sum or makespan, not", word)
    return word


TABLE = [
    Option("problem", "FILE", "nodes, bandwidths and data as JSON (see rftp-numa(1))", text),
    Option("model", "FILE", "bandwidths by this I/O model (the installed one)", text),
    Option("data", "NODE:SIZE,...", "what is on the disks of each node, as 0:100G,1:50G", text),
    Option("nic", "NAME,...", "the network cards that it goes out by", text),
    # Not the sum, which is what was published: it plans slower than no plan at all where paths could
    # work side by side.
    Option("objective", "makespan|sum", "what is to be least: the end, or all paths' times (makespan)",
           objective, "makespan"),
    Option("limit", "SECONDS", "how long to look for a better plan (60)", count(1, 86400), 60),
    JSON, SYSFS]


class Watch(Stop):
    """Ends the search by a signal or its time limit; on a terminal it shows how far it is. A second
    signal, which timeout(1) sends at once, must not take away the plan that was found."""
    end = said = 0.0

    def go_on(self, state: State) -> bool:
        now = time.monotonic()
        if sys.stderr.isatty() and now - self.said >= SAY_SECONDS:
            self.said = now
            sys.stderr.write("\r\033[K%d linear programmes; %s" % (
                state.programmes, "no plan yet" if math.isinf(state.best) else
                "best %.4g s, none is below %.4g s" % (state.best, state.bound)))
            sys.stderr.flush()
        return not self.asked and now < self.end

    def clear(self) -> None:
        if sys.stderr.isatty():
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()


def say_unproven(state: State, interrupted: bool) -> None:
    above = ("at most %.2g %% above the least" % ((state.best / state.bound - 1) * 100)
             if state.bound > 0 else "how far above the least is not known")
    warn("%s after %d linear programmes: this is the best plan of those examined, %s%s" % (
        "interrupted" if interrupted else "out of time", state.programmes, above,
        "" if interrupted else "; --limit gives it more time"))


# ---- for people -----------------------------------------------------------------------


def _part_text(plan: Plan, kind: str, i: int, k: int) -> str:
    p, node, other = plan.problem, plan.problem.ids[i], plan.problem.ids[k]
    return {
        "disk_threads": "the threads of node %d, which read from storage %d" % (other, node),
        "network_threads": "the threads of node %d, which send to network %d" % (node, other),
        "disk_limit": "the disks of storage %d (%s)" % (node, format_rate(p.disk_limit[i])),
        "link_limit": "the link from node %d to node %d (%s)" % (node, other, format_rate(p.link_limit[i, k])),
        "network_limit": "the cards of network %d (%s)" % (other, format_rate(p.network_limit[k]))}[kind]


def paths(plan: Plan) -> Iterator[tuple[int, int, int]]:
    n = range(len(plan.problem.ids))
    carried = plan.path_bytes()
    return ((u, v, w) for u in n for v in n for w in n if carried[u, v, w] > 0)


def plan_text(plan: Plan, evenly: Plan | None, least: str) -> str:
    p, times, lines = plan.problem, plan.times(), []
    for u, v, w in paths(plan):
        lines.append("storage %d -> memory %d -> network %d: %s in %.4g s" % (
            p.ids[u], p.ids[v], p.ids[w], format_size(round(plan.path_bytes()[u, v, w])),
            plan.path_times()[u, v, w]))
        lines += ["    %s %s with %g thread%s in %.4g s" % (does, format_size(round(bytes)), n, "s"[:n > 1], time)
                  for does, bytes, n, time in (
                      ("read", plan.disk_bytes[u, v], plan.disk_threads[u, v], times["disk_threads"][u, v]),
                      ("send", plan.network_bytes[v, w], plan.network_threads[v, w],
                       times["network_threads"][v, w]))]
    end, other = plan.makespan(), evenly.makespan() if evenly else math.inf
    lines += ["threads: " + ", ".join("node %d %g of %d" % node for node in zip(p.ids, plan.threads(), p.threads)),
              "all is sent after %.4g s; the sum of the paths' times is %.4g s (least: the %s)" % (
                  end, plan.sum(), least),
              "bottleneck: " + ("; ".join(_part_text(plan, *part) for part in plan.bottlenecks()) or
                                "none; more threads could be used"),
              "spread evenly over all nodes it would take %.4g s, %.2f times as long" % (other, other / end)
              if evenly else "spread evenly over all nodes: some of the ways have no bandwidth"]
    if other < end and least == "sum":
        lines.append("which is sooner: --objective makespan plans for the end, not for the sum")
    return "\n".join(lines) + "\n"


# ---- for programs ---------------------------------------------------------------------


def whole(parts: Sequence[float], total: int) -> list[int]:
    """Whole numbers near to parts, whose sum is total."""
    numbers = [int(part) for part in parts]
    used = [i for i in sorted(range(len(parts)), key=lambda i: numbers[i] - parts[i]) if parts[i] > 0]
    for i in range(total - sum(numbers) if used else 0):
        numbers[used[i % len(used)]] += 1
    return numbers


def plan_json(plan: Plan, evenly: Plan | None, least: str, state: State) -> dict[str, Any]:
    ids, nodes, times = plan.problem.ids, range(len(plan.problem.ids)), plan.times()
    disk = [whole(plan.disk_bytes[u], round(plan.problem.data[u])) for u in nodes]
    network = [whole(plan.network_bytes[v], sum(row[v] for row in disk)) for v in nodes]
    path_bytes, path_times = plan.path_bytes(), plan.path_times()
    by_path = [[whole(path_bytes[u, v], disk[u][v]) for v in nodes] for u in nodes]

    def stages(source: str, to: str, kind: str, threads: Any, amounts: list[list[int]]) -> list[dict[str, Any]]:
        return [{source: ids[i], to: ids[k], "threads": int(threads[i, k]), "bytes": amounts[i][k],
                 "seconds": float(times[kind][i, k])} for i in nodes for k in nodes if threads[i, k] > 0]

    return {
        "objective": least, "makespan": plan.makespan(), "sum": plan.sum(), "proven": state.proven,
        "bound": float(state.bound), "programmes": state.programmes,
        "paths": [{"storage": ids[u], "memory": ids[v], "network": ids[w], "bytes": by_path[u][v][w],
                   "seconds": float(path_times[u, v, w])} for u, v, w in paths(plan)],
        "disk": stages("storage", "memory", "disk_threads", plan.disk_threads, disk),
        "network": stages("memory", "network", "network_threads", plan.network_threads, network),
        "bottlenecks": [{"part": kind, "from": ids[i], "to": ids[k]} for kind, i, k in plan.bottlenecks()],
        "spread": {"makespan": evenly.makespan(), "sum": evenly.sum()} if evenly else None}


def main() -> None:
    o = take_options("plan", "How many threads should carry what, from the disks of which node by which node's "
                     "memory\nto which node's network cards.", TABLE)
    if not o:
        return
    if o.problem is None and o.data is None:
        raise Misuse("plan takes what there is from a file, --problem FILE, or by the I/O model, "
                     "--data NODE:SIZE,...")
    with Watch(obey=False) as watch:
        try:
            from rftp_numa.problem import get_problem
            from rftp_numa.staged import solve, spread
        except ImportError as why:
            raise Failure("plans are made with SciPy 1.6 or later, which Python %d.%d has not here: install "
                          "the package python3-scipy (%s)" % (*sys.version_info[:2], why)) from None
        p = get_problem(o)
        watch.end = time.monotonic() + o.limit
        try:
            plan, state = solve(p, o.objective, watch.go_on)
        finally:
            watch.clear()
    if not state.proven:
        say_unproven(state, bool(watch.asked))
    evenly = spread(p)
    output(json_line(plan_json(plan, evenly, o.objective, state)) if o.json else
           plan_text(plan, evenly, o.objective))
