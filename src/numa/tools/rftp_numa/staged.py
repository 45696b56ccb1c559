# SPDX-License-Identifier: Apache-2.0
"""How many threads carry which bytes, from the disks of a storage node u into the memory of a node
v, and from there out by the network cards of a node w (Li, dissertation 2015, eq. 5.1 to 5.6)."""
from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from rftp_numa.common import Failure

NODES = 32              # at most
RATE_MOST = 1e15        # bytes per second
DATA_MOST = 2.0 ** 62   # bytes of all nodes together
LEAST = 1e-6            # of the greatest; what is smaller must be 0
GAP = 1e-6              # of the objective: a plan that is better by less is not looked for
SAME = 1e-6             # times that differ by less, relatively, are the same
WHOLE = 1e-6            # so near to a whole number of threads is one
NOTHING = 1e-9          # a share of all data that is none
OTHER_OBJECTIVE = 1e-7  # the weight of the other objective, which decides between equals

Matrix = list[list[float]]


def matrix(n: int, value: float) -> Matrix:
    return [[value] * n for _ in range(n)]


@dataclass
class Problem:
    """Nodes go by their place in ids; rates are bytes per second. A limit is infinite where there
    is none, and 0 where there is no way."""
    ids: list[int]           # the kernel's numbers, for texts
    data: list[float]        # D(u): bytes
    threads: list[int]       # C(v)
    disk: Matrix             # of one thread, [u][v]; 0: no way
    network: Matrix          # of one thread, [v][w]; 0: no way
    disk_limit: list[float]
    link_limit: Matrix       # from a node to another; to itself: of its memory
    network_limit: list[float]

    @staticmethod
    def of(ids: Sequence[int], threads: int = 0) -> Problem:
        """Without data and bandwidths, and without limits."""
        n = len(ids)
        return Problem(list(ids), [0.0] * n, [threads] * n, matrix(n, 0), matrix(n, 0),
                       [math.inf] * n, matrix(n, math.inf), [math.inf] * n)

    def greatest(self) -> float:
        """Bandwidth of one thread."""
        return max(rate for row in self.disk + self.network for rate in row)

    def can_read(self, u: int, v: int) -> bool:
        return self.disk[u][v] > 0 and self.disk_limit[u] > 0 and self.link_limit[u][v] > 0

    def can_send(self, v: int, w: int) -> bool:
        return self.network[v][w] > 0 and self.network_limit[w] > 0 and self.link_limit[v][w] > 0


def _check_way(p: Problem, u: int) -> None:
    nodes = range(len(p.ids))
    read = [v for v in nodes if p.can_read(u, v)]
    sent = [v for v in read if any(p.can_send(v, w) for w in nodes)]
    if not read:
        raise Failure("the data of node %d cannot be read: no node's memory is filled from there (disk "
                      "bandwidth, or a limit on the way, is 0)" % p.ids[u])
    if not sent:
        raise Failure("the data of node %d cannot leave: no network card is reached from the memory that "
                      "it can be read to (network bandwidth, or a limit on the way, is 0)" % p.ids[u])
    if all(p.threads[v] < 2 for v in sent):
        raise Failure("the data of node %d needs a node with two threads, one that reads and one that "
                      "sends; those that it could go by have fewer" % p.ids[u])


def check(p: Problem) -> None:
    """That there is data, no more than can be counted, and that all of it has a way out by nodes
    with two threads at least; and that nothing would be lost in a solver's tolerance. Failure."""
    whole, nodes = sum(p.data), range(len(p.ids))
    if whole <= 0:
        raise Failure("there is no data to plan for: all of it is 0 bytes")
    if whole > DATA_MOST:
        raise Failure("the data of all nodes, %.3g bytes, is more than 2^62: plan for a part of it, which "
                      "takes that part of the time" % whole)
    for u in nodes:
        if 0 < p.data[u] < whole * LEAST:
            raise Failure("the data of node %d, %.0f bytes, is less than a millionth of all: leave it out"
                          % (p.ids[u], p.data[u]))
        if p.data[u] > 0:
            _check_way(p, u)
    most = p.greatest()
    sizes = [(name, m[i][k], i, k) for i in nodes for k in nodes for name, m in (
        ("disk", p.disk), ("network", p.network), ("link_limit", p.link_limit))]
    sizes += [(name, v[i], i, i) for i in nodes for name, v in (
        ("disk_limit", p.disk_limit), ("network_limit", p.network_limit))]
    for name, size, i, k in sizes:
        if 0 < size < most * LEAST:
            raise Failure("%s of node %d to node %d, %g, is less than a millionth of the greatest: make it 0"
                          % (name, p.ids[i], p.ids[k], size))


# ---- a plan, and the time that it takes -----------------------------------------------


@dataclass
class Flow:
    threads: float = 0
    bytes: float = 0

    def time(self, rate: float) -> float:
        return self.bytes / (self.threads * rate) if self.bytes > 0 else 0


@dataclass(frozen=True)
class Part:
    """Of the way: "disk_threads" from u to v, "network_threads" from v to w, "disk_limit",
    "link_limit", "network_limit"."""
    kind: str
    source: int
    to: int


class Plan:
    def __init__(self, problem: Problem) -> None:
        self.problem = p = problem
        self.nodes = range(len(p.ids))
        self.disk = [[Flow() for _ in self.nodes] for _ in self.nodes]     # [u][v]
        self.network = [[Flow() for _ in self.nodes] for _ in self.nodes]  # [v][w]

    def parts(self) -> Iterator[Part]:
        for kind in ("disk_threads", "network_threads", "disk_limit", "link_limit", "network_limit"):
            for i in self.nodes:
                for k in self.nodes if kind not in ("disk_limit", "network_limit") else [i]:
                    yield Part(kind, i, k)

    def time(self, part: Part) -> float:
        """Seconds that a stage or a link is busy with all that it carries."""
        p, i, k = self.problem, part.source, part.to
        if part.kind == "disk_threads":
            return self.disk[i][k].time(p.disk[i][k])
        if part.kind == "network_threads":
            return self.network[i][k].time(p.network[i][k])
        if part.kind == "disk_limit":
            carried, limit = sum(f.bytes for f in self.disk[i]), p.disk_limit[i]
        elif part.kind == "link_limit":
            carried, limit = self.disk[i][k].bytes + self.network[i][k].bytes, p.link_limit[i][k]
        else:
            carried, limit = sum(row[k].bytes for row in self.network), p.network_limit[k]
        return carried / limit if carried > 0 else 0

    def path_time(self, u: int, v: int, w: int) -> float:
        """Of the slowest part; 0 for a path that has no threads in both stages."""
        if self.disk[u][v].threads <= 0 or self.network[v][w].threads <= 0:
            return 0
        return max(self.time(part) for part in (
            Part("disk_threads", u, v), Part("network_threads", v, w), Part("disk_limit", u, u),
            Part("link_limit", u, v), Part("link_limit", v, w), Part("network_limit", w, w)))

    def path_bytes(self, u: int, v: int, w: int) -> float:
        """When the bytes in v's memory leave it in proportion."""
        out = sum(f.bytes for f in self.network[v])
        return self.disk[u][v].bytes * self.network[v][w].bytes / out if out > 0 else 0

    def paths(self) -> Iterator[tuple[int, int, int]]:
        return ((u, v, w) for u in self.nodes for v in self.nodes for w in self.nodes)

    def sum(self) -> float:
        return sum(self.path_time(*path) for path in self.paths())

    def makespan(self) -> float:
        return max(self.time(part) for part in self.parts())

    def objective(self, name: str) -> float:
        return self.sum() if name == "sum" else self.makespan()

    def threads(self, v: int) -> float:
        return sum(self.disk[i][v].threads + self.network[v][i].threads for i in self.nodes)

    def bottlenecks(self) -> list[Part]:
        """The parts that hold up the last byte: links, and stages that can have no more threads."""
        most = self.makespan() * (1 - SAME)

        def could_have_more(part: Part) -> bool:
            v = part.to if part.kind == "disk_threads" else part.source
            return part.kind.endswith("_threads") and self.threads(v) + 1 <= self.problem.threads[v]

        return [part for part in self.parts()
                if 0 < most <= self.time(part) and not could_have_more(part)]


def spread(p: Problem) -> Plan | None:
    """No plan: each storage's data over all memory alike, from there to all cards alike, the threads
    of a node shared alike between reading and sending, and among the disks and cards. None: some of
    these ways do not exist."""
    plan, nodes = Plan(p), range(len(p.ids))
    memories = [v for v in nodes if p.threads[v]]
    sources = [u for u in nodes if p.data[u] > 0]
    cards = [w for w in nodes if any(p.can_send(v, w) for v in nodes)]
    if not (memories and cards) or any(
            not p.can_read(u, v) for u in sources for v in memories) or any(
            not p.can_send(v, w) for v in memories for w in cards):
        return None
    for v in memories:
        half = p.threads[v] / 2
        for u in sources:
            plan.disk[u][v] = Flow(half / len(sources), p.data[u] / len(memories))
        for w in cards:
            plan.network[v][w] = Flow(half / len(cards), sum(p.data) / len(memories) / len(cards))
    return plan


# ---- the problem as lists -------------------------------------------------------------


@dataclass
class Stage:
    network: bool       # else disk
    source: int
    to: int
    memory: int         # v
    rate: float         # of one thread
    links: list[int]    # that it goes over
    most: int = 0       # threads that can be of use


class Net:
    """The stages and links that can carry anything. Bytes are in units of all data, rates in units
    of the greatest: a solver's tolerances are made for numbers between 0 and 1."""

    def __init__(self, p: Problem, objective: str) -> None:
        self.problem, self.objective = p, objective
        self.bytes = sum(p.data)
        unit = p.greatest()
        self.seconds = self.bytes / unit
        self.links: list[float] = []  # their rates
        self.stages: list[Stage] = []
        nodes = range(len(p.ids))
        disks = [self._link(limit / unit) for limit in p.disk_limit]
        cards = [self._link(limit / unit) for limit in p.network_limit]
        for i in nodes:
            for k in nodes:
                link = self._link(p.link_limit[i][k] / unit)
                if p.data[i] > 0:
                    self._add(Stage(False, i, k, k, p.disk[i][k] / unit, link + disks[i]))
                self._add(Stage(True, i, k, i, p.network[i][k] / unit, link + cards[k]))
        self.at: list[list[int]] = [[] for _ in nodes]  # stages by memory
        for s, stage in enumerate(self.stages):
            self.at[stage.memory].append(s)
        self.over = [[s for s, stage in enumerate(self.stages) if link in stage.links]
                     for link in range(len(self.links))]

    def _link(self, rate: float) -> list[int]:
        if math.isinf(rate):
            return []
        self.links.append(rate)
        return [len(self.links) - 1]

    def _add(self, s: Stage) -> None:
        limit = min([self.links[link] for link in s.links], default=math.inf)
        left = self.problem.threads[s.memory] - 1  # the other stage needs one
        if s.rate > 0 and limit > 0 and left > 0:
            useful = limit / s.rate * (1 - WHOLE)
            s.most = left if useful >= left else math.ceil(useful)
            self.stages.append(s)

    def tighten(self, lo: list[int], hi: list[int]) -> bool:
        """Lowers the upper ends that are above what the other stages of a node leave, and those with
        nothing to do: memory that is not filled is not emptied, and the other way round. False:
        there is no choice in these ranges."""
        for v, stages in enumerate(self.at):
            needed = [sum(lo[s] for s in stages if self.stages[s].network == network)
                      for network in (False, True)]
            everything, have = sum(needed), self.problem.threads[v]
            if everything and everything + needed.count(0) > have:
                return False
            for s in stages:
                others = everything + (not needed[not self.stages[s].network]) - lo[s]
                hi[s] = min(hi[s], have - others)
            if not all(any(hi[s] > 0 for s in stages if self.stages[s].network == network)
                       for network in (False, True)):
                if any(lo[s] for s in stages):
                    return False
                for s in stages:
                    hi[s] = 0
        return True


# ---- the linear programme -------------------------------------------------------------


@dataclass
class Relaxed:
    objective: float       # no choice of threads in the ranges is below
    bytes: list[float]     # by stage
    threads: list[float]   # by stage: what it needs, not whole


class Programme:
    """Columns: the bytes of each stage; its share, threads times clock; the time of each path; the
    makespan. A path's time is at least that of each of its parts, which is how the maxima of the
    objective become linear.

    The clock of a memory node is a time that no stage of it takes longer than: with the makespan as
    objective that is it, with the sum the sum of the times of the node's paths. A stage's bytes by
    its rate are threads times its own time, so no more than its share; and the shares of a node are
    no more than its threads times the clock. A range's lower end takes away from what is left for
    others, its upper end limits the share."""

    def __init__(self, net: Net, lo: Sequence[int], hi: Sequence[int], given: bool) -> None:
        """given: the ranges are numbers of threads; then it is eq. 5.1 itself."""
        self.net, self.lo, self.hi = net, lo, hi
        self.shares = len(net.stages)
        self.paths = self._find_paths(given)
        self.makespan = 2 * self.shares + len(self.paths)
        self.clocks: list[list[int]] = [
            [self.makespan] if net.objective == "makespan" else
            [2 * self.shares + i for i, (d, _) in enumerate(self.paths) if net.stages[d].memory == v]
            for v in range(len(net.problem.ids))]
        self.rows: list[list[tuple[int, float]]] = []  # each at most 0
        for v, stages in enumerate(net.at):
            if stages:
                self._row([(self.shares + s, 1.0) for s in stages], v, -net.problem.threads[v])
        for s in range(self.shares):
            if hi[s]:
                self._add_share(s)
        self._add_times()

    def _find_paths(self, given: bool) -> list[tuple[int, int]]:
        """Which paths count is certain where both stages have threads. A disk stage that may have
        some is on one path at least; until it is known which, that one (-1) stands for all. For the
        makespan they only decide between equals, and only where all threads are given."""
        net, paths = self.net, []
        if net.objective == "makespan" and not given:
            return []
        for d, disk in enumerate(net.stages):
            if not disk.network and self.hi[d]:
                sure = [s for s in net.at[disk.memory] if net.stages[s].network and self.lo[s]
                        and self.lo[d]]
                paths += [(d, s) for s in sure or [-1]]
        return paths

    def _row(self, terms: list[tuple[int, float]], v: int, factor: float) -> None:
        """terms + factor times the clock of memory node v."""
        self.rows.append(terms + [(column, factor) for column in self.clocks[v]])

    def _add_share(self, s: int) -> None:
        stage = self.net.stages[s]
        self.rows.append([(s, 1 / stage.rate), (self.shares + s, -1.0)])
        self._row([(self.shares + s, 1.0)], stage.memory, -self.hi[s])
        if self.net.objective == "sum":  # a link's part of the clock: what this stage alone puts on it
            for link in stage.links:
                self._row([(s, 1 / self.net.links[link])], stage.memory, -1)
        if self.lo[s]:
            self._row([(self.shares + s, -1.0)], stage.memory, self.lo[s])

    def _add_stage_time(self, s: int, column: int) -> None:
        self.rows.append([(s, 1 / (self.net.stages[s].rate * self.hi[s])), (column, -1.0)])

    def _add_link_time(self, link: int, column: int, only: int | None = None) -> None:
        over = [s for s in self.net.over[link] if self.hi[s]] if only is None else [only]
        if over:
            self.rows.append([(s, 1 / self.net.links[link]) for s in over] + [(column, -1.0)])

    def _add_times(self) -> None:
        for i, path in enumerate(self.paths):
            for s in path:
                if s < 0:
                    continue
                self._add_stage_time(s, 2 * self.shares + i)
                for link in self.net.stages[s].links:
                    # A stage that may be unused waits for no link, whatever else that carries.
                    self._add_link_time(link, 2 * self.shares + i, None if self.lo[s] else s)
        if self.net.objective != "makespan":  # where it is the clock the shares have said so
            for s in range(self.shares):
                if self.hi[s]:
                    self._add_stage_time(s, self.makespan)
        for link in range(len(self.net.links)):
            self._add_link_time(link, self.makespan)

    def _equal(self) -> tuple[list[list[tuple[int, float]]], list[float]]:
        """All data is read; all that enters a memory leaves it."""
        net, rows, right = self.net, [], []
        for u, data in enumerate(net.problem.data):
            if data > 0:
                rows.append([(s, 1.0) for s, stage in enumerate(net.stages)
                             if not stage.network and stage.source == u])
                right.append(data / net.bytes)
        for stages in net.at:
            if stages:
                rows.append([(s, -1.0 if net.stages[s].network else 1.0) for s in stages])
                right.append(0.0)
        return rows, right

    def _costs(self) -> list[float]:
        costs = [0.0] * (self.makespan + 1)
        makespan = self.net.objective == "makespan"
        costs[self.makespan] = 1 if makespan else OTHER_OBJECTIVE
        for column in range(2 * self.shares, self.makespan):
            costs[column] = OTHER_OBJECTIVE / len(self.paths) if makespan else 1
        return costs

    def solve(self) -> Relaxed | None:
        """None: there is no solution. Failure: the solver failed."""
        from scipy.optimize import linprog  # type: ignore[import]

        equal, right = self._equal()
        bounds = [(0, None if self.hi[s % self.shares] else 0) for s in range(2 * self.shares)]
        bounds += [(0, None)] * (len(self.paths) + 1)
        for presolve in (True, False):  # rarely it is what fails
            found = linprog(
                self._costs(), self._sparse(self.rows), [0.0] * len(self.rows), self._sparse(equal),
                right, bounds, method="highs", options={
                    "presolve": presolve, "primal_feasibility_tolerance": 1e-10,
                    "dual_feasibility_tolerance": 1e-10})
            if found.status == 0:
                return self._read(found.x)
            if found.status == 2:
                return None
        raise Failure("HiGHS could not solve a linear programme (%s); are the bandwidths many orders of "
                      "magnitude apart?" % found.message)

    def _sparse(self, rows: list[list[tuple[int, float]]]) -> Any:
        from scipy.sparse import csr_matrix  # type: ignore[import]

        starts = [0]
        for row in rows:
            starts.append(starts[-1] + len(row))
        return csr_matrix(([v for row in rows for _, v in row], [c for row in rows for c, _ in row],
                           starts), shape=(len(rows), self.makespan + 1))

    def _read(self, x: Any) -> Relaxed:
        x = x.tolist()
        out = Relaxed(sum(x[2 * self.shares:self.makespan]) if self.net.objective == "sum" else
                      x[self.makespan], [], [])
        for s, stage in enumerate(self.net.stages):
            clock = sum(x[column] for column in self.clocks[stage.memory])
            out.bytes.append(max(x[s], 0.0))
            needed = out.bytes[s] / stage.rate / clock if clock > 0 else 0
            out.threads.append(min(max(needed, self.lo[s]), self.hi[s]))
        return out


# ---- the search -----------------------------------------------------------------------


@dataclass
class State:
    programmes: int = 0       # linear programmes solved
    best: float = math.inf    # seconds of the objective
    bound: float = 0          # no plan takes less
    proven: bool = False      # none is better by more than GAP


@dataclass
class Search:
    """Divide and conquer: halves the ranges of threads; where the linear programme that relaxes all
    that is still open cannot be better than the best plan, the range is left."""
    net: Net
    go_on: Callable[[State], bool]
    programmes: int = 0
    best: float = math.inf
    found: Relaxed | None = None
    threads: list[int] = field(default_factory=list)  # of the best
    looked_at: float = math.inf  # bound of the ranges that are looked at
    # Last in, first out: plans are found early, memory stays small.
    open: list[tuple[float, list[int], list[int]]] = field(default_factory=list)

    def state(self) -> State:
        bound = min([self.best, self.looked_at] + [bound for bound, _, _ in self.open])
        return State(self.programmes, self.best * self.net.seconds, bound * self.net.seconds)

    def _push(self, lo: list[int], hi: list[int], bound: float) -> None:
        if self.net.tighten(lo, hi):
            self.open.append((bound, lo, hi))

    def _relax(self, lo: list[int], hi: list[int], given: bool) -> Relaxed | None:
        self.programmes += 1
        return Programme(self.net, lo, hi, given).solve()

    def _hopeless(self, bound: float) -> bool:
        return bound >= self.best * (1 - GAP)

    def run(self) -> bool:
        """False: go_on ended it; the first ranges are looked at in any case."""
        stages = self.net.stages
        if stages:
            self._push([0] * len(stages), [s.most for s in stages], 0)
        while self.open:
            bound, lo, hi = self.open.pop()
            self.looked_at = bound
            if not self._hopeless(bound):
                if self.programmes and not self.go_on(self.state()):
                    return False
                self._look_at(lo, hi, bound)
            self.looked_at = math.inf
        return True

    def _look_at(self, lo: list[int], hi: list[int], bound: float) -> None:
        now = self._relax(lo, hi, False)
        if not now:
            return
        now.objective = max(now.objective, bound)  # never below what is known of the ranges around
        if not self._hopeless(now.objective):
            self._try_whole(now)
        if not self._hopeless(now.objective):
            self._branch(lo, hi, now)

    def _try_whole(self, now: Relaxed) -> None:
        """Whole numbers near to what the relaxation wants, and the bytes that are best for them."""
        threads = [0] * len(self.net.stages)
        for v in range(len(self.net.at)):
            if not self._round_node(v, now, threads):
                return
        trial = self._relax(threads, threads, True)
        if trial and trial.objective < self.best:
            self.best, self.found, self.threads = trial.objective, trial, threads

    def _round_node(self, v: int, now: Relaxed, threads: list[int]) -> bool:
        """What is left over goes to the stages that it helps most. False: there are not enough
        threads for one each."""
        stages, left = self.net.at[v], self.net.problem.threads[v]
        for s in stages:
            threads[s] = 0 if now.bytes[s] <= NOTHING else int(max(now.threads[s] + WHOLE, 1))
            left -= threads[s]
        while left > 0:
            times = [(now.bytes[s] / (self.net.stages[s].rate * threads[s]), -s) for s in stages
                     if 0 < threads[s] < self.net.stages[s].most]
            if not times or max(times)[0] <= 0:
                break
            threads[-max(times)[1]] += 1
            left -= 1
        return left >= 0

    def _urgency(self, lo: int, hi: int, now: Relaxed, s: int) -> float:
        """How much a stage asks to be decided; 0: it need not be. Whether it is used at all comes
        first, for the sum counts only the paths that are."""
        if lo == hi or now.bytes[s] <= NOTHING:
            return 0
        if not lo and self.net.objective == "sum":
            return 2 + now.bytes[s]
        part = now.threads[s] % 1
        return 1 + min(part, 1 - part)

    def _branch(self, lo: list[int], hi: list[int], now: Relaxed) -> None:
        urgent = [self._urgency(lo[s], hi[s], now, s) for s in range(len(lo))]
        most = max(urgent)
        if most <= 0:
            return  # all that carry anything are decided: then the others need not be
        at = urgent.index(most)
        middle = 0 if most >= 2 else int(min(max(math.floor(now.threads[at]), lo[at]), hi[at] - 1))
        lower = (lo[:], hi[:at] + [middle] + hi[at + 1:])
        upper = (lo[:at] + [middle + 1] + lo[at + 1:], hi[:])
        # The nearer half is looked at first.
        up = now.threads[at] - middle > 0.5 or most >= 2
        for half in (lower, upper) if up else (upper, lower):
            self._push(*half, now.objective)

    def plan(self) -> Plan:
        plan, net = Plan(self.net.problem), self.net
        flows = [(plan.network if s.network else plan.disk)[s.source][s.to] for s in net.stages]
        assert self.found
        for s, flow in enumerate(flows):
            if self.found.bytes[s] > NOTHING:
                flow.bytes, flow.threads = self.found.bytes[s] * net.bytes, self.threads[s]
        for stage, flow in zip(net.stages, flows):
            _trim(plan, stage, flow)
        return plan


def _trim(plan: Plan, stage: Stage, flow: Flow) -> None:
    """Threads that make nothing quicker are not needed: a stage may take as long as the quickest
    path over it."""
    if flow.bytes <= 0:
        return
    p, i, k = plan.problem, stage.source, stage.to
    rate = (p.network if stage.network else p.disk)[i][k]
    times = [plan.path_time(other, i, k) if stage.network else plan.path_time(i, k, other)
             for other in plan.nodes]
    allowed = min([t for t in times if t > 0], default=math.inf)
    flow.threads = min(flow.threads, max(math.ceil(flow.bytes / (rate * allowed) - WHOLE), 1))


def solve(p: Problem, objective: str, go_on: Callable[[State], bool]) -> tuple[Plan, State]:
    """The best plan, and whether that is proven. go_on is called before each linear programme but
    the first; False ends the search. Failure: there is no plan, or none was found."""
    check(p)
    search = Search(Net(p, objective), go_on)
    proven = search.run()
    state = search.state()
    if not search.found:
        raise Failure(
            "no plan: the nodes have too few threads for all that must be read and sent at the same time; "
            "raise threads, or plan the storages one after the other" if proven else
            "stopped before any plan was found, after %d linear programmes; it needs more time, or fewer "
            "nodes" % state.programmes)
    plan = search.plan()
    state.proven = proven
    state.best = plan.objective(objective)  # as the plan has it, rather than as the solver rounded
    state.bound = min(state.bound, state.best)
    return plan, state
