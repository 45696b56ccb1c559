# SPDX-License-Identifier: Apache-2.0
"""How many threads carry which bytes, from the disks of a storage node u into the memory of a node
v, and from there out by the network cards of a node w (Li, dissertation 2015, eq. 5.1 to 5.6)."""
from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import OptimizeWarning, linprog  # type: ignore[import]
from scipy.sparse import csr_matrix  # type: ignore[import]

from rftp_common import Failure

DATA_MOST = 2.0 ** 62   # bytes of all nodes together
LEAST = 1e-6            # of the greatest; smaller values must be 0
GAP = 1e-6              # of the objective: a plan that is better by less is not looked for
SAME = 1e-6             # times that differ by less, relatively, are the same
WHOLE = 1e-6            # so near to a whole number of threads is one
NOTHING = 1e-9          # a share of all data that is none
OTHER_OBJECTIVE = 1e-7  # the weight of the other objective, which decides between equals

DISK, NETWORK = 0, 1    # the kinds of stages: from storage to memory, from memory to the network

Array = Any  # of numpy, of floats


class Problem:
    """Nodes go by their place in ids; rates are bytes per second. A limit is infinite where there
    is none, and 0 where there is no way. At first there are no data, bandwidths and limits."""

    def __init__(self, ids: Sequence[int], threads: int = 0) -> None:
        n = len(ids)
        self.ids = list(ids)                         # the kernel's numbers, for texts
        self.threads: Array = np.full(n, float(threads))  # C(v)
        self.data: Array = np.zeros(n)               # D(u): bytes
        self.disk: Array = np.zeros((n, n))          # of one thread, [u, v]; 0: no way
        self.network: Array = np.zeros((n, n))       # of one thread, [v, w]; 0: no way
        self.disk_limit: Array = np.full(n, math.inf)
        self.link_limit: Array = np.full((n, n), math.inf)  # to itself: of its memory
        self.network_limit: Array = np.full(n, math.inf)

    def rates(self) -> Array:
        """[kind, from, to]"""
        return np.stack([self.disk, self.network])

    def readable(self) -> Array:
        return (self.disk > 0) & (self.disk_limit > 0)[:, None] & (self.link_limit > 0)

    def sendable(self) -> Array:
        return (self.network > 0) & (self.network_limit > 0) & (self.link_limit > 0)


def check(p: Problem) -> None:
    """That there is data, no more than can be counted, and that all of it has a way out by nodes
    with two threads at least; and that nothing would be lost in a solver's tolerance. Failure."""
    everything = p.data.sum()
    if everything <= 0:
        raise Failure("there is no data to plan for: all of it is 0 bytes")
    if everything > DATA_MOST:
        raise Failure(f"all data, {everything:.3g} bytes, is more than 2^62: plan for a part of it")
    read = p.readable()
    out = read & p.sendable().any(axis=1)
    faults = (
        (p.data < everything * LEAST, "is less than a millionth of all: leave it out"),
        (~read.any(axis=1), "cannot be read: disk bandwidths, or limits on the way, are 0"),
        (~out.any(axis=1), "cannot leave: network bandwidths, or limits on the way, are 0"),
        (~(out & (p.threads >= 2)).any(axis=1),
         "needs a node with two threads on its way, one that reads and one that sends"))
    for u in np.flatnonzero(p.data > 0):
        for faulty, why in faults:
            if faulty[u]:
                raise Failure(f"the data of node {p.ids[u]} {why}")
    least = max(p.disk.max(), p.network.max()) * LEAST
    for name in ("disk", "network", "link_limit", "disk_limit", "network_limit"):
        rates = getattr(p, name)
        for place in np.argwhere((rates > 0) & (rates < least)).tolist():
            raise Failure(f"{name} of nodes {', '.join(str(p.ids[i]) for i in place)} is less than "
                          "a millionth of the greatest bandwidth: make it 0")


# ---- a plan, and the time that it takes -----------------------------------------------


def _ratio(of: Array, by: Array) -> Array:
    """0 where there is nothing."""
    return np.divide(of, by, out=np.zeros(np.broadcast(of, by).shape), where=of > 0)


class Plan:
    """Its arrays are [kind, from, to]."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.threads, self.bytes = np.zeros_like(problem.rates()), np.zeros_like(problem.rates())

    def times(self) -> dict[str, Array]:
        """Seconds that the stages and links are busy with all that they carry."""
        p = self.problem
        stages = _ratio(self.bytes, self.threads * p.rates())
        return {"disk_threads": stages[DISK], "network_threads": stages[NETWORK],
                "disk_limit": _ratio(self.bytes[DISK].sum(axis=1), p.disk_limit),
                "link_limit": _ratio(self.bytes.sum(axis=0), p.link_limit),
                "network_limit": _ratio(self.bytes[NETWORK].sum(axis=0), p.network_limit)}

    def path_times(self) -> Array:
        """[u, v, w]: of the slowest part; 0 for a path that has no threads in both stages."""
        t = self.times()
        read = np.maximum(np.maximum(t["disk_threads"], t["link_limit"]), t["disk_limit"][:, None])
        send = np.maximum(np.maximum(t["network_threads"], t["link_limit"]), t["network_limit"])
        used = (self.threads[DISK] > 0)[:, :, None] & (self.threads[NETWORK] > 0)
        return np.where(used, np.maximum(read[:, :, None], send), 0)

    def path_bytes(self) -> Array:
        """[u, v, w]: when the bytes in v's memory leave it in proportion."""
        read, sent = self.bytes
        return read[:, :, None] * _ratio(sent, sent.sum(axis=1, keepdims=True))

    def sum(self) -> float:
        return float(self.path_times().sum())

    def makespan(self) -> float:
        return max(float(t.max()) for t in self.times().values())

    def objective(self, name: str) -> float:
        return self.sum() if name == "sum" else self.makespan()

    def busy(self) -> Array:
        """Threads of each node."""
        return self.threads[DISK].sum(axis=0) + self.threads[NETWORK].sum(axis=1)

    def bottlenecks(self) -> list[tuple[str, int, int]]:
        """The parts that hold up the last byte, with the places of their nodes: links, and stages
        that can have no more threads."""
        most, full = self.makespan() * (1 - SAME), self.busy() + 1 > self.problem.threads
        return [(kind, place[0], place[-1]) for kind, t in self.times().items()
                for place in np.argwhere((t >= most) & (most > 0)).tolist()
                if not kind.endswith("_threads") or full[place[kind == "disk_threads"]]]


def spread(p: Problem) -> Plan | None:
    """No plan: each storage's data over all memory alike, from there to all cards alike, the
    threads of a node shared alike between reading and sending, and among the disks and cards.
    None: some of these ways do not exist."""
    memories, sources, cards = p.threads > 0, p.data > 0, p.sendable().any(axis=0)
    reads, sends = np.outer(sources, memories), np.outer(memories, cards)
    if not sends.any() or (reads & ~p.readable()).any() or (sends & ~p.sendable()).any():
        return None
    plan = Plan(p)
    plan.threads[:] = (reads * p.threads / 2 / sources.sum(),
                       sends * p.threads[:, None] / 2 / cards.sum())
    plan.bytes[:] = (reads * p.data[:, None] / memories.sum(),
                     sends * p.data.sum() / memories.sum() / cards.sum())
    return plan


# ---- the problem as lists -------------------------------------------------------------


class Net:
    """The stages that can carry anything, and their links. Bytes are in units of all data, rates in
    units of the greatest: a solver's tolerances are made for numbers between 0 and 1."""

    def __init__(self, p: Problem, objective: str) -> None:
        self.problem, self.objective, self.bytes = p, objective, p.data.sum()
        unit, n = p.rates().max(), len(p.ids)
        self.seconds = self.bytes / unit  # of a unit of time
        limits = np.concatenate([p.disk_limit, p.network_limit, p.link_limit.ravel()]) / unit
        kind, i, k = np.indices((2, n, n)).reshape(3, -1)
        rates, memory = p.rates().ravel() / unit, np.where(kind == DISK, k, i)
        links = np.stack([2 * n + i * n + k, np.where(kind == DISK, i, n + k)])
        limit, left = limits[links].min(axis=0), p.threads[memory] - 1  # the other kind needs one
        able = (rates > 0) & (limit > 0) & (left > 0) & ((kind == NETWORK) | (p.data[i] > 0))
        self.stages = kind[able], i[able], k[able]  # an index into arrays [kind, from, to]
        self.memory, self.rates, self.count = memory[able], rates[able], able.sum()
        enough = np.ceil(limit[able] / self.rates * (1 - WHOLE))
        self.most = np.minimum(left[able], enough).astype(int)
        # The time of all data of each stage on each link.
        every, loads = np.arange(self.count), np.zeros((len(limits), self.count))
        loads[links[:, able], every] = 1 / limits[links[:, able]]
        self.links = [np.flatnonzero(stage).tolist() for stage in loads.T]  # of each stage
        self.loads = [[(s, time) for s, time in enumerate(link) if time] for link in loads.tolist()]
        self.alone = loads.max(axis=0).tolist()
        # All data is read; all that enters a memory leaves it.
        reads = self.stages[0] == DISK
        self.balance = np.zeros((2 * n, self.count))
        self.balance[n + self.memory, every] = np.where(reads, 1, -1)
        self.balance[self.stages[1][reads], every[reads]] = 1
        self.amounts = np.concatenate([p.data / self.bytes, np.zeros(n)])

    def tighten(self, lo: Array, hi: Array) -> bool:
        """Lowers the upper ends that are above what the other stages of a node leave, and those
        with nothing to do: memory that is not filled is not emptied, and the other way round.
        False: there is no choice in these ranges."""
        for v, have in enumerate(self.problem.threads):
            stages = [(self.memory == v) & (self.stages[0] == kind) for kind in (DISK, NETWORK)]
            needed = [lo[s].sum() for s in stages]
            # One thread at least of the other kind, without which a stage does nothing.
            if sum(needed) and sum(needed) + needed.count(0) > have:
                return False
            for s, others in zip(stages, reversed(needed)):
                hi[s] = np.minimum(hi[s], have - (sum(needed) + (not others)) + lo[s])
            if not all((hi[s] > 0).any() for s in stages):
                if sum(needed):
                    return False
                hi[self.memory == v] = 0
        return True


# ---- the linear programme -------------------------------------------------------------


@dataclass
class Relaxed:
    objective: float   # seconds: no choice of threads in the ranges is below
    bytes: Array       # by stage
    threads: Array     # by stage: the need, not whole


def _paths(net: Net, lo: Array, hi: Array) -> list[tuple[int, int]]:
    """Which paths count is certain where both stages have threads. A disk stage that may have some
    is on one path at least; until it is known which, that one (-1) stands for all. For the makespan
    they only decide between equals, and only where all threads are given."""
    if net.objective == "makespan" and (lo < hi).any():
        return []
    paths: list[tuple[int, int]] = []
    for d in np.flatnonzero((net.stages[0] == DISK) & (hi > 0)).tolist():
        same = (net.stages[0] == NETWORK) & (net.memory == net.memory[d])
        paths += [(d, s) for s in np.flatnonzero(same & (lo > 0) & (lo[d] > 0)).tolist() or [-1]]
    return paths


def relax(net: Net, lo: Array, hi: Array) -> Relaxed | None:
    """The linear programme over the bytes where each stage has any number of threads in its range,
    those of a node together no more than it has. Where both ends of the ranges are the same it is
    eq. 5.1 itself. None: there is no solution. Failure: the solver failed.

    Columns: the bytes of each stage; its share, threads times clock; the clock of each node; the
    time of each path, at least that of each of its parts, so that the maxima of the objective are
    linear; the makespan.

    The clock of a memory node is a time that no stage of it takes longer than: the makespan, or for
    the sum the times of the node's paths together. A stage's bytes by its rate are threads times
    its own time, so no more than its share; the shares of a node are no more than its threads times
    the clock. A range's lower end takes away from what is left for others, its upper end limits the
    share."""
    total, paths = net.objective == "sum", _paths(net, lo, hi)
    n, count, rates = len(net.problem.ids), net.count, net.rates.tolist()
    first, end = 2 * count + n, 2 * count + n + len(paths)  # columns: a path's time, the makespan
    memory, least, most = net.memory.tolist(), lo.tolist(), hi.tolist()
    own = (1 / net.rates / np.maximum(hi, 1)).tolist()  # the time of all data with all threads
    rows: list[list[tuple[int, float]]] = []  # of columns and factors: their sum is at most 0
    for v, have in enumerate(net.problem.threads.tolist()):
        times = [(first + t, -1) for t, (d, _) in enumerate(paths) if memory[d] == v]
        rows.append([(2 * count + v, 1), *(times if total else [(end, -1)])])
        shares = [(count + s, 1) for s in range(count) if memory[s] == v]
        rows.append([(2 * count + v, -have), *shares])
    for s in range(count):
        share, clock = count + s, 2 * count + memory[s]
        rows.append([(s, 1 / rates[s]), (share, -1)])
        rows.append([(share, 1), (clock, -most[s])])
        if least[s]:
            rows.append([(share, -1), (clock, least[s])])
        if total:
            rows.append([(s, own[s]), (end, -1)])
            rows.append([(s, net.alone[s]), (clock, -1)])
    rows += [[(end, -1), *load] for load in net.loads if load]
    for t, path in enumerate(paths, first):
        for s in path:
            if s >= 0 and least[s]:
                rows.append([(s, own[s]), (t, -1)])
                rows += [[(t, -1), *net.loads[link]] for link in net.links[s]]
            elif s >= 0:  # it may be unused, and then waits for no link
                rows.append([(s, max(own[s], net.alone[s])), (t, -1)])
    entries = [(row, *term) for row, terms in enumerate(rows) for term in terms]
    row, column, factor = zip(*entries)
    upper = csr_matrix((factor, (row, column)), (len(rows), end + 1))
    equal = np.pad(net.balance, ((0, 0), (0, end + 1 - count)))
    costs = np.zeros(end + 1)
    costs[first:] = 1 if total else OTHER_OBJECTIVE / max(len(paths), 1)
    costs[end] = OTHER_OBJECTIVE if total else 1
    for presolve in (True, False):  # rarely it is the cause of a failure
        with warnings.catch_warnings():
            # SciPy 1.6.0 adds an option to a sparse matrix, and warns of that and of the option.
            warnings.filterwarnings("ignore", "Sparse constraint matrix|Unknown .*: sparse$",
                                    OptimizeWarning)
            found = linprog(costs, upper, np.zeros(len(rows)), equal, net.amounts, method="highs",
                            options={"presolve": presolve, "primal_feasibility_tolerance": 1e-10,
                                     "dual_feasibility_tolerance": 1e-10})
        if found.status == 0:
            break
        if found.status == 2:
            return None
    else:
        raise Failure(f"HiGHS cannot solve a linear programme: {found.message} (are bandwidths "
                      "many orders of magnitude apart?)")
    objective, clocks = found.x[end], np.full(n, found.x[end])
    if total:
        objective = found.x[first:end].sum()
        clocks = np.bincount([memory[d] for d, _ in paths], found.x[first:end], n)
    amounts = np.maximum(found.x[:count], 0)
    threads = _ratio(amounts / net.rates, np.maximum(clocks[net.memory], 1e-300))
    return Relaxed(float(objective) * net.seconds, amounts, np.clip(threads, lo, hi))


@dataclass
class State:
    programmes: int = 0       # linear programmes solved
    best: float = math.inf    # seconds of the objective
    bound: float = 0          # no plan takes less
    proven: bool = False      # none is better by more than GAP


def _whole(net: Net, now: Relaxed) -> Array | None:
    """Whole numbers of threads near to what the relaxation wants. Threads that are left over go to
    the stages that they help most. None: a node has not enough for one each."""
    threads = np.where(now.bytes <= NOTHING, 0, np.maximum(now.threads + WHOLE, 1).astype(int))
    for v, have in enumerate(net.problem.threads):
        at = net.memory == v
        if threads[at].sum() > have:
            return None
        for _ in range(int(have - threads[at].sum())):
            times = np.where(at & (threads < net.most), _ratio(
                now.bytes * (threads > 0), net.rates * np.maximum(threads, 1)), 0)
            if times.max() <= 0:
                break
            threads[times.argmax()] += 1
    return threads


def _halves(net: Net, lo: Array, hi: Array, now: Relaxed) -> list[tuple[Array, Array]]:
    """The ranges in two, by the stage that asks most to be decided; the nearer half comes last, and
    is looked at first. None when all stages that carry anything are decided: the others need not
    be. For the sum, which counts only the paths that are used, that question comes first."""
    part = now.threads % 1
    urgent = np.where((lo == hi) | (now.bytes <= NOTHING), 0, 1 + np.minimum(part, 1 - part))
    if net.objective == "sum":
        urgent = np.where((urgent > 0) & (lo == 0), 2 + now.bytes, urgent)
    s = urgent.argmax()
    if urgent[s] <= 0:
        return []
    unsure = urgent[s] >= 2
    middle = 0 if unsure else int(min(max(math.floor(now.threads[s]), lo[s]), hi[s] - 1))
    below, above = hi.copy(), lo.copy()
    below[s], above[s] = middle, middle + 1
    halves = [(lo, below), (above, hi)]
    return halves if unsure or now.threads[s] - middle > 0.5 else halves[::-1]


def _plan_of(net: Net, found: Relaxed, threads: Array) -> Plan:
    plan = Plan(net.problem)
    plan.bytes[net.stages] = np.where(found.bytes > NOTHING, found.bytes * net.bytes, 0)
    plan.threads[net.stages] = np.where(found.bytes > NOTHING, threads, 0)
    # Threads that make nothing quicker are not needed: a stage may take as long as the quickest
    # path over it.
    for s in zip(*net.stages):
        kind, i, k = s
        times = plan.path_times()[i, k] if kind == DISK else plan.path_times()[:, i, k]
        if plan.bytes[s] > 0 and times.any():
            enough = plan.bytes[s] / net.problem.rates()[s] / times[times > 0].min()
            plan.threads[s] = min(plan.threads[s], max(math.ceil(enough - WHOLE), 1))
    return plan


def solve(p: Problem, objective: str, go_on: Callable[[State], bool]) -> tuple[Plan, State]:
    """The best plan, and whether that is proven. go_on is called before each range but the first;
    False ends the search. Failure: there is no plan, or none was found.

    Divide and conquer: halves the ranges of threads; where the linear programme that relaxes all
    that is still open cannot be better than the best plan, the range is left."""
    check(p)
    net, state, best = Net(p, objective), State(), None
    # Last in, first out: plans are found early, memory stays small.
    ranges = [(0.0, np.zeros_like(net.most), net.most.copy())]

    def hopeless(bound: float) -> bool:
        return bound >= state.best * (1 - GAP)

    while ranges:
        state.bound = min([state.best, *(bound for bound, _, _ in ranges)])
        if state.programmes and not go_on(state):
            break
        bound, lo, hi = ranges.pop()
        if hopeless(bound) or not net.tighten(lo, hi):
            continue
        state.programmes += 1
        now = relax(net, lo, hi)
        if not now:
            continue
        bound = max(now.objective, bound)  # never below what is known of the ranges around
        threads = None if hopeless(bound) else _whole(net, now)
        if threads is not None:
            state.programmes += 1
            trial = relax(net, threads, threads)
            if trial and trial.objective < state.best:
                state.best, best = trial.objective, (trial, threads)
        if not hopeless(bound):
            ranges += [(bound, *half) for half in _halves(net, lo, hi, now)]
    state.proven = not ranges
    if not best:
        raise Failure("no plan: the nodes have too few threads to read and send all at the same "
                      "time; raise threads" if state.proven else "no plan was found in this time: "
                      "raise --limit, or plan for fewer nodes")
    plan = _plan_of(net, *best)
    state.best = plan.objective(objective)  # as the plan has it, not as the solver rounded
    state.bound = min([state.best, *(bound for bound, _, _ in ranges)])
    return plan, state
