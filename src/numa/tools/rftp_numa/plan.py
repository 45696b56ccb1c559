# SPDX-License-Identifier: Apache-2.0
"""The command "plan": how many threads should carry which bytes by which nodes."""
from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from rftp_common import (JSON, Command, Failure, Misuse, Option, Options, Stop, at_place, count,
                         format_ids, format_rate, format_size, json_line, load_json, one_of, output,
                         parse, parse_number, parse_rate, parse_size, printable, read_text, text,
                         warn)
from rftp_machine import NODE_MOST, SYSFS, Machine, Nic, is_own, read_machine
from rftp_members import refuse
from rftp_numa.model import OPS, Model, default_file, read_model

NO_SCIPY = ""
try:
    import numpy as np

    from rftp_numa.staged import DISK, NETWORK, Plan, Problem, State, solve, spread
except ImportError as missing:
    NO_SCIPY = str(missing)

NODES = 32  # at most

COMMAND = Command("plan", "How many threads should carry which bytes by which nodes.", [
    Option("problem", "FILE", "nodes, bandwidths and data as JSON (see rftp-numa(1))", text),
    Option("model", "FILE", "bandwidths by this I/O model (the installed one)", text),
    Option("data", "NODE:SIZE,...", "data on the disks of each node, as 0:100G,1:50G", text),
    Option("nic", "NAME,...", "the network cards that it goes out by", text),
    # Not the published sum: it plans slower than no plan at all where paths could work side by
    # side.
    Option("objective", "makespan|sum", "to be least: the end, or the sum of all paths' "
           "times (makespan)", one_of("sum", "makespan"), "makespan"),
    Option("limit", "SECONDS", "how long to look for a better plan (60)", count(1, 86400), 60),
    JSON, SYSFS])


# ---- the problem's file ----------------------------------------------------------------


class Kind(NamedTuple):
    """Of numbers."""
    about: str
    most: int
    parse: Any = None  # of text; None: only whole numbers


NODE = Kind(f"a number from 0 to {NODE_MOST}", NODE_MOST)
COUNT = Kind("a number of threads from 0 to 4096", 4096)
SIZE = Kind("bytes from 0 to 2^60, or a size as \"100G\"", 1 << 60, parse_size)
RATE = Kind("bytes per second from 0 to 10^15, or a rate as \"10Gbit\" or \"500M\"", 10 ** 15,
            parse_rate)
FIELDS = {"threads": COUNT, "data": SIZE, "disk": RATE, "network": RATE, "disk_limit": RATE,
          "link_limit": RATE, "network_limit": RATE}


def _read(value: Any, place: str, kind: Kind, shape: tuple[int, ...] = ()) -> Any:
    """A number, or numbers in lists of that shape. null stands for no limit."""
    if shape:
        refuse(not isinstance(value, list), place, "must be a list")
        refuse(len(value) != shape[0], place,
               f"must have one entry for each node: {shape[0]}, not {len(value)}")
        return [_read(one, f"{place}[{i}]", kind, shape[1:]) for i, one in enumerate(value)]
    if value is None and "_limit" in place:
        return math.inf
    number = kind.parse(value) if isinstance(value, str) and kind.parse else value
    good = isinstance(number, (int, float)) and not isinstance(number, bool)
    refuse(not good or not 0 <= number <= kind.most or (not kind.parse and number % 1), place,
           f"must be {kind.about}")
    return number


def read_problem(path: str) -> tuple[Problem, set[str]]:
    """The problem in a file, and the names of the missing fields. Failure."""
    obj = load_json(read_text(path), printable(path))
    with at_place(printable(path)):
        refuse(not isinstance(obj, dict), "this", "is not an object")
        for key in obj:  # a name that is written wrong would not be missed otherwise
            refuse(key not in ("nodes", *FIELDS), f"there is no field {printable(key)}:",
                   f"nodes, {', '.join(FIELDS)}")
        nodes = obj.get("nodes")
        refuse(not isinstance(nodes, list) or not 1 <= len(nodes) <= NODES, "nodes",
               f"must be a list of 1 to {NODES} numbers of nodes")
        for i, node in enumerate(_read(nodes, "nodes", NODE, (len(nodes),))):
            refuse(node in nodes[:i], f"nodes[{i}]:", f"{node} is listed twice")
        p = Problem([int(node) for node in nodes])
        for key, kind in FIELDS.items():
            if key in obj:
                array = getattr(p, key)
                one_for_all = key == "threads" and not isinstance(obj[key], list)
                array[:] = _read(obj[key], key, kind, () if one_for_all else array.shape)
    return p, FIELDS.keys() - obj.keys()


def ask_model(m: Model, machine: Machine, lacks: set[str], p: Problem) -> None:
    """Of disk, network and link_limit those that are lacking: a device that is read is a target's
    storage, one that is written a target's cards. Failure."""
    targets = {t["node"]: t for t in m["targets"]}
    threads = np.array([targets[i]["threads"] if i in targets else 0 for i in p.ids])
    cores = np.array([machine.node(i).cores if i in targets else 0 for i in p.ids])
    medians = {(op, t["node"], c["node"]): c["median"]
               for op in OPS for t in m["targets"] for c in t.get(op, [])}
    # Of all threads of the first node together.
    measured = {op: np.array([[medians.get((op, i, k), 0.0) for k in p.ids] for i in p.ids])
                for op in OPS}
    for op, field, wanted, where, other in (
            ("read", "disk", p.data, "data is", ""),
            ("write", "network", p.network_limit, "network cards are", "name others with --nic, ")):
        for i, number in enumerate(p.ids):
            if field in lacks and wanted[i] > 0 and not measured[op][i].any():
                raise Failure(f"has no device {op}s of node {number}, where {where}: measure it, "
                              "too (rftp-numa model; a node needs CPUs for it), "
                              f"{other}or give {field} in a file, --problem")
    # Both ends have measured a link, with threads of their own; the better one has seen more of
    # its bandwidth. Fewer threads than cores may have left room on it.
    full, partial = (threads > 0) & (threads >= cores), (threads > 0) & (threads < cores)
    if "link_limit" in lacks and partial.any():
        warn("the model was measured with fewer threads than cores on node "
             f"{format_ids(np.array(p.ids)[partial].tolist())}: no limit of those links is planned")
    reads, writes = measured["read"], measured["write"].T
    known = (reads > 0) & full[:, None] | (writes > 0) & full
    of_each = np.maximum(threads, 1)
    for field, rates in (("disk", reads / of_each[:, None]), ("network", writes / of_each),
                         ("link_limit", np.where(known, np.maximum(reads, writes), math.inf))):
        if field in lacks:
            setattr(p, field, rates)


def _set_data(p: Problem, option: str) -> None:
    sizes: dict[int, int] = {}
    for word in option.split(","):
        number, _, size = word.partition(":")
        node, amount = parse_number(number, 0, 1 << 31), parse_size(size)
        if node is None or amount is None:
            raise Misuse("--data must be NODE:SIZE,... as 0:100G,1:50G, "
                         f"not \"{printable(word)}\"")
        if node not in p.ids:
            raise Misuse(f"--data: node {node} is not among the nodes of the problem")
        if node in sizes:
            raise Misuse(f"--data: node {node} is listed twice")
        sizes[node] = amount
    p.data[:] = [sizes.get(node, 0) for node in p.ids]


def _set_cards(p: Problem, machine: Machine, option: str | None) -> None:
    instead = "give the problem network_limit instead"
    nics = machine.nics
    names = option.split(",") if option is not None else [n for n in nics if nics[n].card]
    p.network_limit[:] = 0
    for name in names:
        nic, why = nics.get(name, Nic()), ""
        node = machine.only_node(nic.node)
        if names.count(name) > 1:
            why = f"{name} is listed twice"
        elif name not in nics:
            why = f"there is no network interface {name} (rftp-numa topo lists them)"
        elif node not in p.ids:
            why = f"the node of {name} is not known, or not among those of the problem; {instead}"
        elif not nic.mbps:
            why = f"{name} does not tell its speed (is it up?); {instead}"
        else:
            p.network_limit[p.ids.index(node)] += nic.mbps * 1e6 / 8
        if why and option is not None:
            raise Misuse("--nic: " + printable(why))
    if not p.network_limit.any():
        raise Failure("no network card tells both its node and its speed: name one that is up with "
                      f"--nic, or {instead}")


def get_problem(o: Options) -> Problem:
    """Failure; Misuse: an option is wrong."""
    p, lacks, file = Problem([]), set(FIELDS), o.model
    if o.problem is not None:
        p, lacks = read_problem(o.problem)
        alone = o.data is o.nic is o.model is None
        rates = "bandwidths from each node to each, or --model"
        for field, without, remedy in (
                ("disk", o.model is None, rates), ("network", o.model is None, rates),
                ("data", o.data is None, "the bytes of each node, or --data"),
                ("threads", alone, "those of each node; or --data to plan for this machine")):
            if field in lacks and without:
                raise Failure(f"{printable(o.problem)}: {field} is missing: {remedy}")
        if alone:
            return p
    elif file is None:
        file = default_file()
    if file is not None and not os.path.exists(file):
        raise Failure(f"{printable(file)}: No such file: there is no I/O model (rftp-numa model "
                      "--install makes one; --model FILE takes another; --problem FILE needs none)")
    machine = read_machine(o.sysfs)
    model = {} if file is None else read_model(file, o.sysfs)
    if o.problem is None:
        if len(machine.nodes) > NODES:
            raise Failure(f"this machine has more than {NODES} nodes: give those that count in a "
                          "file, --problem FILE")
        p = Problem([*machine.nodes])
    if o.data is not None:
        _set_data(p, o.data)
    if "threads" in lacks:
        for i, number in enumerate(p.ids):
            node = machine.node(number, "give the problem threads, or leave that node out")
            # The CPUs that this process may run on; of another machine's all.
            p.threads[i] = min(len(node.usable() if is_own(o.sysfs) else node.cpus), COUNT.most)
    if o.nic is not None or "network_limit" in lacks:
        _set_cards(p, machine, o.nic)
    if file is not None:
        with at_place(printable(file)):
            ask_model(model, machine, lacks, p)
    return p


# ---- the search, and its output --------------------------------------------------------


class Watch(Stop):
    """Ends the search by a signal or its time limit; on a terminal it shows how far it is. A second
    signal, which timeout(1) sends at once, must not take away the plan that was found."""
    end = said = 0.0

    def go_on(self, state: State) -> bool:
        now = time.monotonic()
        if now - self.said >= 0.5:
            self.said = now
            best = f"best {state.best:.4g} s, none is below {state.bound:.4g} s"
            self.show(f"{state.programmes} linear programmes; "
                      f"{'no plan yet' if math.isinf(state.best) else best}")
        return not self.asked and now < self.end

    def show(self, progress: str) -> None:
        if sys.stderr.isatty():
            sys.stderr.write("\r\033[K" + progress)
            sys.stderr.flush()


def whole(parts: Sequence[float], total: int) -> list[int]:
    """Whole numbers near to the parts; their sum is total."""
    numbers = [int(part) for part in parts]
    nearest = sorted(range(len(parts)), key=lambda i: numbers[i] - parts[i])
    used = [i for i in nearest if parts[i] > 0]
    for i in range(total - sum(numbers) if used else 0):
        numbers[used[i % len(used)]] += 1
    return numbers


def plan_json(plan: Plan, evenly: Plan | None, least: str, state: State) -> dict[str, Any]:
    p, ids, times, path_times = plan.problem, plan.problem.ids, plan.times(), plan.path_times()
    paths = np.reshape([whole(carried.ravel(), round(total)) for carried, total in
                        zip(plan.path_bytes(), p.data)], path_times.shape)

    def stages(source: str, to: str, seconds: Any, threads: Any, carried: Any) -> list[Any]:
        return [{source: ids[i], to: ids[k], "threads": int(threads[i, k]),
                 "bytes": int(carried[i, k]), "seconds": float(seconds[i, k])}
                for i, k in np.argwhere(threads > 0)]

    return {
        "objective": least, "makespan": plan.makespan(), "sum": plan.sum(), "proven": state.proven,
        "bound": float(state.bound), "programmes": state.programmes,
        "paths": [{"storage": ids[u], "memory": ids[v], "network": ids[w],
                   "bytes": int(paths[u, v, w]), "seconds": float(path_times[u, v, w])}
                  for u, v, w in np.argwhere(plan.path_bytes() > 0)],
        "disk": stages("storage", "memory", times["disk_threads"], plan.threads[DISK],
                       paths.sum(axis=2)),
        "network": stages("memory", "network", times["network_threads"], plan.threads[NETWORK],
                          paths.sum(axis=0)),
        "bottlenecks": [{"part": part, "from": ids[i], "to": ids[k]}
                        for part, i, k in plan.bottlenecks()],
        "spread": {"makespan": evenly.makespan(), "sum": evenly.sum()} if evenly else None}


def _part_text(p: Problem, part: str, node: int, other: int) -> str:
    i, k = p.ids.index(node), p.ids.index(other)
    return {
        "disk_threads": f"the threads of node {other}, which read from storage {node}",
        "network_threads": f"the threads of node {node}, which send to network {other}",
        "disk_limit": f"the disks of storage {node} ({format_rate(p.disk_limit[i])})",
        "link_limit": f"the link from node {node} to {other} ({format_rate(p.link_limit[i, k])})",
        "network_limit": f"the cards of network {other} ({format_rate(p.network_limit[k])})"}[part]


def plan_text(p: Problem, found: dict[str, Any]) -> str:
    """found: as JSON has it."""
    lines = []
    disk = {(stage["storage"], stage["memory"]): stage for stage in found["disk"]}
    network = {(stage["memory"], stage["network"]): stage for stage in found["network"]}
    for path in found["paths"]:
        u, v, w = path["storage"], path["memory"], path["network"]
        lines.append(f"storage {u} -> memory {v} -> network {w}: {format_size(path['bytes'])} in "
                     f"{path['seconds']:.4g} s")
        for does, stage in ("read", disk[u, v]), ("send", network[v, w]):
            lines.append(f"    {does} {format_size(stage['bytes'])} with {stage['threads']} thread"
                         f"{'s'[:stage['threads'] > 1]} in {stage['seconds']:.4g} s")
    busy = {v: sum(stage["threads"] for stage in found["disk"] + found["network"]
                   if stage["memory"] == v) for v in p.ids}
    lines.append("threads: " + ", ".join(f"node {v} {busy[v]} of {have:g}"
                                         for v, have in zip(p.ids, p.threads)))
    end, spread = found["makespan"], found["spread"]
    lines.append(f"all is sent after {end:.4g} s; the sum of the paths' times is "
                 f"{found['sum']:.4g} s (least: the {found['objective']})")
    held_up = "; ".join(_part_text(p, *part.values()) for part in found["bottlenecks"])
    lines.append(f"bottleneck: {held_up or 'none; more threads could be used'}")
    if not spread:
        lines.append("spread evenly over all nodes: some of the ways have no bandwidth")
    else:
        lines.append(f"spread evenly over all nodes it would take {spread['makespan']:.4g} s, "
                     f"{spread['makespan'] / end:.2f} times as long")
        if spread["makespan"] < end and found["objective"] == "sum":
            lines.append("which is sooner: --objective makespan plans for the end, not for the sum")
    return "\n".join(lines) + "\n"


def main() -> None:
    o = parse(COMMAND, sys.argv[1:])
    if not o:
        return
    if o.problem is None and o.data is None:
        raise Misuse("plan needs --problem FILE, or by the I/O model, --data NODE:SIZE,...")
    if NO_SCIPY:
        raise Failure(f"no SciPy 1.6 or later ({NO_SCIPY}): install the package python3-scipy")
    with Watch(obey=False) as watch:
        p = get_problem(o)
        watch.end = time.monotonic() + o.limit
        try:
            plan, state = solve(p, o.objective, watch.go_on)
        finally:
            watch.show("")
    if not state.proven:
        why = "interrupted" if watch.asked else "out of time"
        above = "how far above the least is not known"
        if state.bound > 0:
            above = f"at most {(state.best / state.bound - 1) * 100:.2g} % above the least"
        warn(f"{why} after {state.programmes} linear programmes: this is the best plan of those "
             f"examined, {above}{'' if watch.asked else '; --limit gives it more time'}")
    found = plan_json(plan, spread(p), o.objective, state)
    output(json_line(found) if o.json else plan_text(p, found))
