# SPDX-License-Identifier: Apache-2.0
"""Staged plans: problems solved by hand, and random problems compared with a search of all choices.
Rates are bytes per second, so small rates and sizes give round times."""
from __future__ import annotations

import itertools
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("scipy.optimize")
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "src/numa/tools"))

from rftp_common import Failure, Misuse
from rftp_machine import Machine, Node
from rftp_numa.model import Row, make_cell
from rftp_numa.plan import _set_data, ask_model, plan_json, whole
from rftp_numa.staged import DISK, NETWORK, Net, Plan, Problem, State, check, relax, solve, spread

# SciPy 1.6.0 warns of an option that it adds itself.
pytestmark = pytest.mark.filterwarnings("error::scipy.optimize.OptimizeWarning")
NEAR = 1e-5
OBJECTIVES = ("sum", "makespan")


def near(value: Any) -> Any:
    return pytest.approx(value, rel=NEAR)


def solved(p: Problem, objective: str) -> Plan:
    """Solves p, and checks the plan: all data leaves, and no node uses more threads than it has."""
    plan, state = solve(p, objective, lambda _: True)
    assert state.proven and state.best == plan.objective(objective)
    assert plan.bytes[DISK].sum(axis=1) == near(p.data)
    assert plan.bytes[DISK].sum(axis=0) == near(plan.bytes[NETWORK].sum(axis=1))
    assert (plan.busy() <= p.threads).all()
    assert (plan.threads % 1 == 0).all() and (plan.threads[plan.bytes > 0] >= 1).all()
    return plan


def fails(p: Problem, words: str) -> None:
    with pytest.raises(Failure) as why:
        solve(p, "sum", lambda _: True)
    assert words in str(why.value)


# ---- solved by hand ----


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("threads,disk,network,time", [
    (2, 1, 1, 100), (3, 1, 2, 50), (6, 2, 4, 25), (7, 2, 4, 25), (8, 3, 5, 20), (9, 3, 6, 100 / 6)])
def test_one_node(objective: str, threads: int, disk: int, network: int, time: float) -> None:
    """100 bytes; a disk thread does 2/s, a network thread 1/s. With 6 threads, of which d read the
    disk, max(100 / 2d, 100 / (6 - d)) is 25 at d = 2. A seventh thread does not help."""
    p = Problem([0], threads)
    p.data[0], p.disk[0][0], p.network[0][0] = 100, 2, 1
    plan = solved(p, objective)
    assert (plan.sum(), plan.makespan()) == (near(time), near(time))
    assert (plan.threads[DISK, 0, 0], plan.threads[NETWORK, 0, 0]) == (disk, network)


def test_either_memory() -> None:
    """The disk is on node 0, the card on node 1; a thread moves 2/s within a node and 1/s across.
    With 3 threads per node each memory alone does 2/s: 60 s over one memory, 30 s over both at
    once."""
    p = Problem([0, 1], 3)
    p.data[0] = 120
    p.disk[0], p.network[0][1], p.network[1][1] = [2, 1], 1, 2
    assert solved(p, "sum").sum() == near(60)
    plan = solved(p, "makespan")
    assert plan.makespan() == near(30)
    assert plan.bytes[DISK, 0, 0] == near(60) and plan.path_bytes()[0, 1, 1] == near(60)
    assert (plan.threads[DISK, 0, 1], plan.threads[NETWORK, 0, 1]) == (2, 2)


def test_where_to_cross() -> None:
    """Each node has one reading and one sending thread: over memory 0 max(180/2, 180/0.5), over
    memory 1 max(180/1.8, 180/2), over both at once 180/2.3."""
    p = Problem([0, 1], 2)
    p.data[0] = 180
    p.disk[0], p.network[0][1], p.network[1][1] = [2, 1.8], 0.5, 2
    plan = solved(p, "sum")
    assert plan.sum() == near(100) and plan.bytes[DISK, 0, 1] == near(180) and not plan.threads[DISK, 0, 0]
    plan = solved(p, "makespan")
    assert plan.makespan() == near(180 / 2.3) and plan.bytes[DISK, 0, 1] == near(180 * 1.8 / 2.3)
    p.disk[0][1], p.network[0][1] = 0.5, 1.8
    assert solved(p, "sum").bytes[NETWORK, 0, 1] == near(180)


def test_few_threads() -> None:
    """Two storages into one memory need three threads."""
    p = Problem([0, 1], 1)
    p.data[0], p.disk[0][0], p.network[0][0] = 60, 1, 1
    fails(p, "two threads")
    p.threads[0], p.data[1], p.disk[1][0] = 2, 30, 1
    fails(p, "too few threads")
    p.threads[0] = 3
    plan = solved(p, "sum")
    assert (plan.sum(), plan.makespan()) == (near(180), near(90))


@pytest.mark.parametrize("threads", [5, 22, 39])
def test_limits(threads: int) -> None:
    """A card of 2.5/s and network threads of 1/s: a fourth thread does not help."""
    p = Problem([0], threads)
    p.data[0], p.disk[0][0], p.network[0][0], p.network_limit[0] = 100, 2, 1, 2.5
    plan = solved(p, "sum")
    assert plan.sum() == near(40)
    assert (plan.threads[DISK, 0, 0], plan.threads[NETWORK, 0, 0]) == (2, 3)
    assert [kind for kind, _, _ in plan.bottlenecks()] == ["network_limit"]
    p.disk_limit[0] = 1.25
    plan = solved(p, "sum")
    assert plan.sum() == near(80)
    assert (plan.threads[DISK, 0, 0], plan.threads[NETWORK, 0, 0]) == (1, 2)
    assert [kind for kind, _, _ in plan.bottlenecks()] == ["disk_limit"]


def test_link() -> None:
    """All data crosses a link of 0.5/s, on the read side or on the send side."""
    p = Problem([0, 1], 8)
    p.data[0] = 100
    p.disk[0], p.network[0][1], p.network[1][1], p.link_limit[0][1] = [1, 1], 1, 1, 0.5
    plan = solved(p, "makespan")
    assert plan.makespan() == near(200) and plan.bottlenecks() == [("link_limit", 0, 1)]
    p.link_limit[1][0] = p.disk_limit[1] = 0  # no data flows back, and node 1 has no disks
    assert plan.times()["disk_limit"][1] == 0
    assert solved(p, "makespan").makespan() == near(200)
    p.link_limit[0][1] = 0
    fails(p, "cannot leave")


def test_no_way() -> None:
    p = Problem([0, 1, 2], 4)
    fails(p, "no data")
    p.data = np.array([100.0, 0, 100])
    p.disk[0][0] = p.network[0][0] = 1
    fails(p, "data of node 2 cannot be read")
    p.disk[2][1] = 1
    fails(p, "data of node 2 cannot leave")
    p.network[1][2] = 1
    solved(p, "sum")
    p.data[1] = 1e-5
    fails(p, "millionth")
    p.data[1], p.network_limit[2] = 0, 0
    fails(p, "data of node 2 cannot leave")
    p.network_limit[2], p.disk_limit[0] = math.inf, 0
    fails(p, "data of node 0 cannot be read")


def test_spread() -> None:
    """100 bytes on node 0 of two; a thread does 1/s, and half of that across; 4 threads per node,
    and the card on node 1."""
    p = Problem([0, 1], 4)
    p.data[0] = 100
    p.disk[0], p.network[0][1], p.network[1][1] = [1, 0.5], 0.5, 1
    plan = spread(p)
    assert plan
    assert list(plan.times()["disk_threads"][0]) == [near(25), near(50)]
    assert (plan.makespan(), plan.sum()) == (near(50), near(100))
    p.network_limit[1] = 1
    assert plan.makespan() == near(100) and solved(p, "makespan").makespan() == near(100)
    p.disk[0][1] = 0
    assert spread(p) is None


# ---- 390 random problems, compared with all choices ----


class Drawn:
    def __init__(self, seed: int) -> None:
        self.seed = seed

    def one(self, *values: float) -> float:
        self.seed = (self.seed * 1103515245 + 12345) % (1 << 32)
        return values[(self.seed >> 16) % len(values)]

    def problem(self, threads: int) -> Problem:
        p = Problem([0, 1])
        rates, limits = (0, 0.3, 0.5, 1, 1, 1.7, 2), (0.4, 1.3, 2, math.inf, math.inf, math.inf)
        for i in range(2):
            p.threads[i] = threads - int(self.one(0, 0, 1))
            p.data[i] = self.one(0, 10, 25, 70)
            p.disk_limit[i], p.network_limit[i] = self.one(*limits), self.one(*limits)
            for k in range(2):
                p.disk[i][k], p.network[i][k] = self.one(*rates), self.one(*rates)
                p.link_limit[i][k] = self.one(*limits)
        p.threads[0] = threads
        return p


def choices(net: Net) -> Iterator[Any]:
    """All possible numbers of threads. Adding threads never increases the makespan, so for that
    objective only full nodes are tried."""
    have = net.problem.threads
    members = net.memory == np.arange(len(have))[:, None]
    for choice in itertools.product(*[range(int(have[v]) + 1) for v in net.memory]):
        threads = np.array(choice, int)
        used = members @ threads
        if (used <= have).all() and (net.objective == "sum" or (used == have)[members.any(axis=1)].all()):
            yield threads


def try_all(p: Problem, objective: str) -> float:
    """Solves a linear programme for each choice."""
    net = Net(p, objective)
    found = [relax(net, t, t) for t in choices(net)]
    return min([f.objective for f in found if f], default=math.inf)


def test_all_choices() -> None:
    drawn, possible = Drawn(7), 0
    for turn in range(40):
        objective = OBJECTIVES[turn % 2 == 0]
        p = drawn.problem(3 if objective == "makespan" else 2)
        try:
            check(p)
        except Failure:
            continue
        best = try_all(p, objective)
        if math.isinf(best):
            fails(p, "too few threads")
            continue
        possible += 1
        assert solved(p, objective).objective(objective) == near(best)
    assert possible > 12


def try_grid(p: Problem, objective: str, steps: int = 100) -> float:
    """Solves without linear programmes: with one storage and one node with cards, the bytes over
    memory 0 are the only free number. A formula gives the least time for each number of threads."""
    best = math.inf

    def times(share: float, v: int, read: int, send: int) -> float:
        carried = p.data[0] * share
        if not carried:
            return 0
        return math.inf if not (read and send) else max(
            carried / (read * p.disk[0][v]), carried / (send * p.network[v][1]))

    for i in range(steps + 1):
        by = (i / steps, 1 - i / steps)
        shared = max(p.data[0] / p.disk_limit[0], p.data[0] / p.network_limit[1])
        links = [[0.0, 0.0], [0.0, 0.0]]
        for v in (0, 1):
            links[0][v] += p.data[0] * by[v] / p.link_limit[0][v]
            links[v][1] += p.data[0] * by[v] / p.link_limit[v][1]
        # The best choice of threads for each memory alone.
        alone = [min((times(by[v], v, t, p.threads[v] - t) for t in range(int(p.threads[v]) + 1)))
                 for v in (0, 1)]
        paths = [max(alone[v], shared, links[0][v], links[v][1]) for v in (0, 1) if by[v]]
        best = min(best, sum(paths) if objective == "sum" else max(paths))
    return best


@pytest.mark.parametrize("part", range(7))
def test_grid(part: int) -> None:
    drawn = Drawn(99 + part)
    for turn in range(50):
        objective = OBJECTIVES[turn % 2 == 0]
        p = drawn.problem(5)
        p.data = np.array([100.0, 0])
        for i in range(2):
            p.disk[0][i] += 0.1
            p.network[i][1] += 0.1
            p.network[i][0] = 0
        best, found = try_grid(p, objective), solved(p, objective).objective(objective)
        assert best * (1 - 4 / 100) <= found <= best * (1 + NEAR)  # half a step of the grid


# ---- early ends, and output ----


def many_nodes(n: int, threads: int) -> Problem:
    p = Problem(range(n), threads)
    p.data[:2] = 100, 101
    for i in range(n):
        for k in range(n):
            p.disk[i][k] = 2 if i == k else 1 + 0.07 * ((i * 5 + k * 3) % 7)
            p.network[i][k] = 0 if k + 2 < n else 1.9 if i == k else 0.9 + 0.05 * ((i * 3 + k * 5) % 11)
    return p


def test_ended_early() -> None:
    seen: list[State] = []

    def few(state: State) -> bool:
        assert state.bound <= state.best
        seen.append(state)
        return len(seen) < 60

    plan, state = solve(many_nodes(3, 6), "sum", few)
    assert not state.proven and state.bound < state.best == plan.sum()
    assert solve(many_nodes(3, 6), "sum", lambda _: False)[1].programmes == 2  # still a plan


def test_json() -> None:
    p = many_nodes(3, 6)
    p.data = np.array([1e9 + 1, 7e8 + 3, 0])
    plan, state = solve(p, "makespan", lambda _: True)
    obj = json.loads(json.dumps(plan_json(plan, spread(p), "makespan", state)))
    for key in ("paths", "disk", "network"):
        assert sum(x["bytes"] for x in obj[key]) == p.data.sum()
    assert whole([0.4, 0, 0.6], 1) == [0, 0, 1] and whole([1 / 3] * 3, 1) == [1, 0, 0]


# ---- rates from the model ----


def test_model() -> None:
    """Disk rates come from the target of the storage, network rates from the target of the cards,
    each for one thread. A link has the better rate of its two ends, if that end used a thread
    per core. Nodes are numbered by their position in the problem."""
    def row(*gb: float) -> Row:
        return [make_cell(i, [v * 1e9]) for i, v in enumerate(gb)]

    targets: list[dict[str, Any]] = [
        {"node": 0, "threads": 8, "write": row(40, 12), "read": row(36, 24)},
        {"node": 1, "threads": 8, "write": row(20, 44), "read": row(16, 48)}]
    m = {"targets": targets}
    machine = Machine({i: Node(i, {i}, {0: 10, 1: 21}, cores=8) for i in (0, 1)})
    lacks = {"disk", "network", "link_limit"}
    p = Problem([1, 0], 16)
    p.data = np.ones(2)
    ask_model(m, machine, lacks, p)
    assert p.disk.tolist() == [[6e9, 2e9], [3e9, 4.5e9]]
    assert p.network.tolist() == [[5.5e9, 1.5e9], [2.5e9, 5e9]]
    assert p.link_limit.tolist() == [[48e9, 16e9], [24e9, 40e9]]
    targets[1]["threads"] = 1  # links that only it measured are unknown then
    p = Problem([0, 1], 16)
    ask_model(m, machine, {"link_limit"}, p)
    assert p.link_limit.tolist() == [[40e9, 24e9], [16e9, math.inf]] and p.disk[0, 0] == 0
    del targets[1]["read"]
    p.data = np.array([0.0, 1])
    with pytest.raises(Failure, match="has no device reads of node 1, where data is"):
        ask_model(m, machine, lacks, p)


def test_data() -> None:
    p = Problem([0, 3])
    _set_data(p, "3:1K,0:2")
    assert p.data.tolist() == [2, 1024]
    for option in ("", "0", "0:", "x:1", "0:1,0:1", "1:1", "0:1,"):
        with pytest.raises(Misuse):
            _set_data(p, option)
