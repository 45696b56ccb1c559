# SPDX-License-Identifier: Apache-2.0
"""How many threads carry which bytes, from the disks of a storage node u into the memory of a node
v, and from there out by the network cards of a node w (Li, dissertation 2015, eq. 5.1 to 5.6)."""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.optimize import linprog  # type: ignore[import]
from scipy.sparse import csr_matrix  # type: ignore[import]

from rftp_numa.common import Failure

DATA_MOST = 2.0 ** 62   # bytes of all nodes together
LEAST = 1e-6            # of the greatest; what is smaller must be 0
GAP = 1e-6              # of the objective: a plan that is better by less is not looked for
SAME = 1e-6             # times that differ by less, relatively, are the same
WHOLE = 1e-6            # so near to a whole number of threads is one
NOTHING = 1e-9          # a share of all data that is none
OTHER_OBJECTIVE = 1e-7  # the weight of the other objective, which decides between equals

Array = Any  # of numpy, of floats


@dataclass
class Problem:
    """Nodes go by their place in ids; rates are bytes per second. A limit is infinite where there
    is none, and 0 where there is no way."""
    ids: Sequence[int]      # the kernel's numbers, for texts
    data: Array             # D(u): bytes
    threads: Array          # C(v)
    disk: Array             # of one thread, [u, v]; 0: no way
    network: Array          # of one thread, [v, w]; 0: no way
    disk_limit: Array
    link_limit: Array       # from a node to another; to itself: of its memory
    network_limit: Array

    @staticmethod
    def of(ids: Sequence[int], threads: int = 0) -> Problem:
        """Without data and bandwidths, and without limits."""
        n = len(ids)
        return Problem(list(ids), np.zeros(n), np.full(n, float(threads)), np.zeros((n, n)), np.zeros((n, n)),
                       np.full(n, math.inf), np.full((n, n), math.inf), np.full(n, math.inf))

    def readable(self) -> Array:
        return (self.disk > 0) & (self.disk_limit > 0)[:, None] & (self.link_limit > 0)

    def sendable(self) -> Array:
        return (self.network > 0) & (self.network_limit > 0) & (self.link_limit > 0)


def check(p: Problem) -> None:
    """That there is data, no more than can be counted, and that all of it has a way out by nodes
    with two threads at least; and that nothing would be lost in a solver's tolerance. Failure."""
    everything, read, send = p.data.sum(), p.readable(), p.sendable().any(axis=1)
    if everything <= 0:
        raise Failure("there is no data to plan for: all of it is 0 bytes")
    if everything > DATA_MOST:
        raise Failure("the data of all nodes, %.3g bytes, is more than 2^62: plan for a part of it, which "
                      "takes that part of the time" % everything)
    for u in np.flatnonzero(p.data > 0):
        why = ""
        if p.data[u] < everything * LEAST:
            why = ", %.0f bytes, is less than a millionth of all: leave it out" % p.data[u]
        elif not read[u].any():
            why = (" cannot be read: no node's memory is filled from there (disk bandwidth, or a limit on the "
                   "way, is 0)")
        elif not (read[u] & send).any():
            why = (" cannot leave: no network card is reached from the memory that it can be read to (network "
                   "bandwidth, or a limit on the way, is 0)")
        elif not (p.threads[read[u] & send] >= 2).any():
            why = (" needs a node with two threads, one that reads and one that sends; those that it could go "
                   "by have fewer")
        if why:
            raise Failure("the data of node %d%s" % (p.ids[u], why))
    least = max(p.disk.max(), p.network.max()) * LEAST
    for name in ("disk", "network", "link_limit", "disk_limit", "network_limit"):
        rates = getattr(p, name)
        for place in np.argwhere((rates > 0) & (rates < least)):
            raise Failure("%s of node %d to node %d, %g, is less than a millionth of the greatest: make it 0"
                          % (name, p.ids[place[0]], p.ids[place[-1]], rates[tuple(place)]))


# ---- a plan, and the time that it takes -----------------------------------------------


def _ratio(of: Array, by: Array) -> Array:
    """0 where there is nothing."""
    return np.divide(of, by, out=np.zeros(np.broadcast(of, by).shape), where=of > 0)


class Plan:
    """Its arrays are of the problem's disk and network stages."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.disk_threads, self.disk_bytes = np.zeros_like(problem.disk), np.zeros_like(problem.disk)
        self.network_threads, self.network_bytes = self.disk_threads.copy(), self.disk_bytes.copy()

    def times(self) -> dict[str, Array]:
        """Seconds that the stages and links are busy with all that they carry."""
        p = self.problem
        return {"disk_threads": _ratio(self.disk_bytes, self.disk_threads * p.disk),
                "network_threads": _ratio(self.network_bytes, self.network_threads * p.network),
                "disk_limit": _ratio(self.disk_bytes.sum(axis=1), p.disk_limit),
                "link_limit": _ratio(self.disk_bytes + self.network_bytes, p.link_limit),
                "network_limit": _ratio(self.network_bytes.sum(axis=0), p.network_limit)}

    def path_times(self) -> Array:
        """[u, v, w]: of the slowest part; 0 for a path that has no threads in both stages."""
        t = self.times()
        read = np.maximum(np.maximum(t["disk_threads"], t["link_limit"]), t["disk_limit"][:, None])
        send = np.maximum(np.maximum(t["network_threads"], t["link_limit"]), t["network_limit"])
        used = (self.disk_threads > 0)[:, :, None] & (self.network_threads > 0)
        return np.where(used, np.maximum(read[:, :, None], send), 0)

    def path_bytes(self) -> Array:
        """[u, v, w]: when the bytes in v's memory leave it in proportion."""
        return self.disk_bytes[:, :, None] * _ratio(self.network_bytes, self.network_bytes.sum(
            axis=1, keepdims=True))

    def sum(self) -> float:
        return float(self.path_times().sum())

    def makespan(self) -> float:
        return max(float(t.max()) for t in self.times().values())

    def objective(self, name: str) -> float:
        return self.sum() if name == "sum" else self.makespan()

    def threads(self) -> Array:
        return self.disk_threads.sum(axis=0) + self.network_threads.sum(axis=1)

    def bottlenecks(self) -> list[tuple[str, int, int]]:
        """The parts that hold up the last byte, with the places of their nodes: links, and stages that
        can have no more threads."""
        most, full = self.makespan() * (1 - SAME), self.threads() + 1 > self.problem.threads
        return [(kind, place[0], place[-1]) for kind, t in self.times().items()
                for place in np.argwhere((t >= most) & (most > 0)).tolist()
                if not kind.endswith("_threads") or full[place[kind == "disk_threads"]]]


def spread(p: Problem) -> Plan | None:
    """No plan: each storage's data over all memory alike, from there to all cards alike, the threads
    of a node shared alike between reading and sending, and among the disks and cards. None: some of
    these ways do not exist."""
    plan, memories, sources, cards = Plan(p), p.threads > 0, p.data > 0, p.sendable().any(axis=0)
    reads, sends = np.outer(sources, memories), np.outer(memories, cards)
    if not memories.any() or not cards.any() or (reads & ~p.readable()).any() or (
            sends & ~p.sendable()).any():
        return None
    plan.disk_threads = reads * p.threads / 2 / sources.sum()
    plan.disk_bytes = reads * p.data[:, None] / memories.sum()
    plan.network_threads = sends * p.threads[:, None] / 2 / cards.sum()
    plan.network_bytes = sends * p.data.sum() / memories.sum() / cards.sum()
    return plan


# ---- the problem as lists -------------------------------------------------------------


class Net:
    """The stages and links that can carry anything. Bytes are in units of all data, rates in units
    of the greatest: a solver's tolerances are made for numbers between 0 and 1."""

    def __init__(self, p: Problem, objective: str) -> None:
        self.problem, self.objective, self.bytes = p, objective, p.data.sum()
        unit, n = max(p.disk.max(), p.network.max()), len(p.ids)
        self.seconds = self.bytes / unit
        limits = np.concatenate([p.disk_limit, p.network_limit, p.link_limit.ravel()]) / unit
        # (is it network, from, to), its memory, the rate of a thread, and the threads that can be of use
        self.stages: list[tuple[bool, int, int]] = []
        memory, rates, most, over = [], [], [], []
        for i, k, network in ((i, k, network) for i in range(n) for k in range(n) for network in (0, 1)):
            rate = (p.network if network else p.disk)[i, k] / unit
            links = [2 * n + i * n + k, n + k if network else i]
            limit, left = limits[links].min(), p.threads[i if network else k] - 1  # the other stage needs one
            if rate > 0 and limit > 0 and left > 0 and (network or p.data[i] > 0):
                self.stages.append((bool(network), i, k))
                memory.append(i if network else k)
                rates.append(rate)
                most.append(int(min(left, np.ceil(min(limit / rate * (1 - WHOLE), left)))))
                over.append(np.isin(np.arange(len(limits)), links))
        self.memory, self.rates, self.most = np.array(memory, int), np.array(rates), np.array(most, int)
        self.network = np.array([s[0] for s in self.stages], bool)
        # Each stage that goes over each link, and the time that its bytes take there.
        carries = np.array(over).reshape(-1, len(limits)).T[np.isfinite(limits)]
        self.height, (self.links, self.over) = len(carries), np.nonzero(carries)
        self.times = 1 / limits[np.isfinite(limits)][self.links]

    def tighten(self, lo: Array, hi: Array) -> bool:
        """Lowers the upper ends that are above what the other stages of a node leave, and those with
        nothing to do: memory that is not filled is not emptied, and the other way round. False:
        there is no choice in these ranges."""
        for v, have in enumerate(self.problem.threads):
            stages = [(self.memory == v) & (self.network == network) for network in (False, True)]
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
    objective: float   # no choice of threads in the ranges is below
    bytes: Array       # by stage
    threads: Array     # by stage: what it needs, not whole


def _paths(net: Net, lo: Array, hi: Array, given: bool) -> list[tuple[int, int]]:
    """Which paths count is certain where both stages have threads. A disk stage that may have some is
    on one path at least; until it is known which, that one (-1) stands for all. For the makespan they
    only decide between equals, and only where all threads are given."""
    if net.objective == "makespan" and not given:
        return []
    paths: list[tuple[int, int]] = []
    for d in np.flatnonzero(~net.network & (hi > 0)).tolist():
        sure = np.flatnonzero(net.network & (net.memory == net.memory[d]) & (lo > 0) & (lo[d] > 0)).tolist()
        paths += [(d, s) for s in sure or [-1]]
    return paths


def relax(net: Net, lo: Array, hi: Array, given: bool) -> Relaxed | None:
    """The linear programme over the bytes where each stage has any number of threads in its range,
    those of a node together no more than it has. given: the ranges are numbers of threads; then it
    is eq. 5.1 itself. None: there is no solution. Failure: the solver failed.

    Columns: the bytes of each stage; its share, threads times clock; the time of each path; the
    makespan. A path's time is at least that of each of its parts, which is how the maxima of the
    objective become linear.

    The clock of a memory node is a time that no stage of it takes longer than: with the makespan as
    objective that is it, with the sum the sum of the times of the node's paths. A stage's bytes by
    its rate are threads times its own time, so no more than its share; and the shares of a node are
    no more than its threads times the clock. A range's lower end takes away from what is left for
    others, its upper end limits the share."""
    p, total, paths = net.problem, net.objective == "sum", _paths(net, lo, hi, given)
    n, stages, used = len(p.ids), len(net.stages), hi > 0
    first, end, every = 2 * stages, 2 * stages + len(paths), np.arange(stages)  # first: of the times
    clocks = np.zeros((n, len(paths) + 1), bool)
    if total:
        clocks[[net.memory[d] for d, _ in paths], np.arange(len(paths))] = True
    else:
        clocks[:, -1] = True
    links, over, times = net.links, net.over, net.times * used[net.over]
    own = used / (net.rates * np.maximum(hi, 1))  # time with all its threads
    rows: list[tuple[Array, Array, Array]] = []
    height = 0

    def add(count: int, *terms: tuple[Array, Array, Array]) -> None:
        """Rows of which the sum of terms, each (row, column, factor), is at most 0."""
        nonlocal height
        rows.extend((height + np.asarray(row), column, factor) for row, column, factor in terms)
        height += count

    def clock(nodes: Array, factor: Array) -> tuple[Array, Array, Array]:
        """Of each row's memory node."""
        row, column = np.nonzero(clocks[nodes])
        return row, first + column, np.broadcast_to(factor, len(nodes))[row]

    add(n, (net.memory, stages + every, 1), clock(np.arange(n), -p.threads))
    add(stages, (every, every, 1 / net.rates), (every, stages + every, -1))
    add(stages, (every, stages + every, 1), clock(net.memory, -hi))
    add(stages, (every, stages + every, np.where(lo > 0, -1, 0)), clock(net.memory, lo))
    add(net.height, (links, over, times), (np.arange(net.height), end, -1))
    if total:
        add(stages, (every, every, own), (every, end, -1))
        # A link's part of the clock: what a stage alone puts on it.
        add(len(links), (np.arange(len(links)), over, times), clock(net.memory[over], -1))
    for time, path in enumerate(paths):
        for s in path:
            if s >= 0:
                add(1, (0, s, own[s]), (0, first + time, -1))
                for link in links[over == s]:
                    # A stage that may be unused waits for no link, whatever else that carries.
                    on = (links == link) & ((over == s) | (lo[s] > 0))
                    add(1, (0, over[on], times[on]), (0, first + time, -1))
    row, column, factor = (np.concatenate(parts) for parts in zip(*(
        [np.ravel(part) for part in np.broadcast_arrays(*term)] for term in rows)))
    # All data is read; all that enters a memory leaves it.
    reads = np.array([[not network and u == i for network, i, _ in net.stages]
                      for u in np.flatnonzero(p.data > 0)]) * 1.0
    equal = np.zeros((len(reads) + n, end + 1))
    equal[:len(reads), :stages] = reads
    equal[len(reads) + net.memory, every] = np.where(net.network, -1, 1)
    right = np.concatenate([p.data[p.data > 0] / net.bytes, np.zeros(n)])
    costs, most = np.zeros(end + 1), np.full(end + 1, np.inf)
    costs[first:] = 1 if total else OTHER_OBJECTIVE / max(len(paths), 1)
    costs[end] = OTHER_OBJECTIVE if total else 1
    most[:first] = np.tile(np.where(used, np.inf, 0), 2)
    for presolve in (True, False):  # rarely it is what fails
        found = linprog(costs, csr_matrix((factor, (row, column)), (height, end + 1)), np.zeros(height), equal,
                        right, np.column_stack([np.zeros_like(most), most]), method="highs", options={
                            "presolve": presolve, "primal_feasibility_tolerance": 1e-10,
                            "dual_feasibility_tolerance": 1e-10})
        if found.status == 0:
            last = found.x[first:]
            carried = np.maximum(found.x[:stages], 0)
            needed = _ratio(carried / net.rates, np.maximum(clocks[net.memory] @ last, 1e-300))
            return Relaxed(float(last[:-1].sum() if total else last[-1]), carried, np.clip(needed, lo, hi))
        if found.status == 2:
            return None
    raise Failure("HiGHS could not solve a linear programme (%s); are the bandwidths many orders of magnitude "
                  "apart?" % found.message)


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
    threads: Array = None        # of the best
    looked_at: float = math.inf  # bound of the ranges that are looked at
    # Last in, first out: plans are found early, memory stays small.
    open: list[tuple[float, Array, Array]] = field(default_factory=list)

    def state(self) -> State:
        bound = min([self.best, self.looked_at] + [bound for bound, _, _ in self.open])
        return State(self.programmes, self.best * self.net.seconds, bound * self.net.seconds)

    def _push(self, lo: Array, hi: Array, bound: float) -> None:
        if self.net.tighten(lo, hi):
            self.open.append((bound, lo, hi))

    def _relax(self, lo: Array, hi: Array, given: bool) -> Relaxed | None:
        self.programmes += 1
        return relax(self.net, lo, hi, given)

    def _hopeless(self, bound: float) -> bool:
        return bound >= self.best * (1 - GAP)

    def run(self) -> bool:
        """False: go_on ended it; the first ranges are looked at in any case."""
        if len(self.net.stages):
            self._push(np.zeros_like(self.net.most), self.net.most.copy(), 0)
        while self.open:
            bound, lo, hi = self.open.pop()
            self.looked_at = bound
            if not self._hopeless(bound):
                if self.programmes and not self.go_on(self.state()):
                    return False
                self._look_at(lo, hi, bound)
            self.looked_at = math.inf
        return True

    def _look_at(self, lo: Array, hi: Array, bound: float) -> None:
        now = self._relax(lo, hi, False)
        if not now:
            return
        now.objective = max(now.objective, bound)  # never below what is known of the ranges around
        if not self._hopeless(now.objective):
            self._try_whole(now)
        if not self._hopeless(now.objective):
            self._branch(lo, hi, now)

    def _try_whole(self, now: Relaxed) -> None:
        """Whole numbers near to what the relaxation wants, and the bytes that are best for them. Threads
        that are left over go to the stages that they help most."""
        net = self.net
        threads = np.where(now.bytes <= NOTHING, 0, np.maximum(now.threads + WHOLE, 1).astype(int))
        for v, have in enumerate(net.problem.threads):
            at = net.memory == v
            if threads[at].sum() > have:
                return  # not enough for one each
            for _ in range(int(have - threads[at].sum())):
                times = np.where(at & (threads < net.most), _ratio(
                    now.bytes * (threads > 0), net.rates * np.maximum(threads, 1)), 0)
                if times.max() <= 0:
                    break
                threads[times.argmax()] += 1
        trial = self._relax(threads, threads, True)
        if trial and trial.objective < self.best:
            self.best, self.found, self.threads = trial.objective, trial, threads

    def _branch(self, lo: Array, hi: Array, now: Relaxed) -> None:
        """By the stage that asks most to be decided. Whether it is used at all comes first, for the sum
        counts only the paths that are."""
        part = now.threads % 1
        urgent = np.where((lo == hi) | (now.bytes <= NOTHING), 0, 1 + np.minimum(part, 1 - part))
        if self.net.objective == "sum":
            urgent = np.where((urgent > 0) & (lo == 0), 2 + now.bytes, urgent)
        at = urgent.argmax()
        if urgent[at] <= 0:
            return  # all that carry anything are decided: then the others need not be
        unsure = urgent[at] >= 2
        middle = 0 if unsure else int(min(max(math.floor(now.threads[at]), lo[at]), hi[at] - 1))
        lower, upper = (lo.copy(), hi.copy()), (lo.copy(), hi.copy())
        lower[1][at], upper[0][at] = middle, middle + 1
        # The nearer half is looked at first.
        for half in (lower, upper) if unsure or now.threads[at] - middle > 0.5 else (upper, lower):
            self._push(*half, now.objective)

    def plan(self) -> Plan:
        plan, p = Plan(self.net.problem), self.net.problem
        assert self.found
        kinds = ((plan.disk_bytes, plan.disk_threads), (plan.network_bytes, plan.network_threads))
        for (network, i, k), carried, threads in zip(self.net.stages, self.found.bytes, self.threads):
            if carried > NOTHING:
                kinds[network][0][i, k], kinds[network][1][i, k] = carried * self.net.bytes, threads
        # Threads that make nothing quicker are not needed: a stage may take as long as the quickest
        # path over it.
        for network, i, k in self.net.stages:
            amount, threads = kinds[network][0][i, k], kinds[network][1]
            times = plan.path_times()[:, i, k] if network else plan.path_times()[i, k, :]
            if amount > 0 and times.any():
                rate = (p.network if network else p.disk)[i, k]
                enough = math.ceil(amount / (rate * times[times > 0].min()) - WHOLE)
                threads[i, k] = min(threads[i, k], max(enough, 1))
        return plan


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
