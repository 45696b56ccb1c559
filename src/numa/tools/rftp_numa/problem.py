# SPDX-License-Identifier: Apache-2.0
"""A staged problem out of its JSON file, the I/O model, the options and the machine."""
from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from rftp_numa.common import (NODE_MOST, Failure, Misuse, Options, format_ids, load_json, parse_rate, parse_size,
                              parse_uint, printable, read_file, system, warn)
from rftp_numa.machine import Machine, Nic, read_machine
from rftp_numa.model import Model, cell_of, default_file, row_of
from rftp_numa.staged import Array, Problem

NODES = 32           # at most
RATE_MOST = 10 ** 15  # bytes per second
FILE_MOST = 1 << 20
DATA_MOST = 1 << 60
THREADS_MOST = 4096
FIELDS = ("nodes", "threads", "data", "disk", "network", "disk_limit", "link_limit", "network_limit")
A_SIZE = "bytes from 0 to 2^60, or a size as \"100G\""
A_RATE = "bytes per second from 0 to 10^15, or a rate as \"10Gbit\" or \"500M\""
A_COUNT = "a number of threads from 0 to 4096"


# ---- the file -------------------------------------------------------------------------


def _value(v: Any, field: str, about: str) -> float:
    """about, one of the above, tells the unit, too."""
    number: float = math.nan
    try:
        if isinstance(v, str) and about != A_COUNT:
            number = parse_size(v) if about == A_SIZE else parse_rate(v)
        elif isinstance(v, (int, float)) and not isinstance(v, bool):
            number = v
    except ValueError:
        pass
    most = {A_SIZE: DATA_MOST, A_RATE: RATE_MOST, A_COUNT: THREADS_MOST}[about]
    if not 0 <= number <= most or (about == A_COUNT and number % 1):
        raise Failure("%s must be %s" % (field, about))
    return float(number)


def _array(v: Any, field: str, about: str, shape: list[int], limit: bool = False) -> Array:
    """Of lists in lists. limit: null stands for none."""
    if not shape:
        return math.inf if limit and v is None else _value(v, field, about)
    if not isinstance(v, list):
        raise Failure("%s must be a list" % field)
    if len(v) != shape[0]:
        raise Failure("%s has %d entries, but there are %d nodes" % (field, len(v), shape[0]))
    return np.array([_array(one, "%s[%d]" % (field, i), about, shape[1:], limit) for i, one in enumerate(v)])


def _nodes(v: Any) -> list[int]:
    if not isinstance(v, list) or not 1 <= len(v) <= NODES:
        raise Failure("nodes must be a list of 1 to %d numbers of nodes" % NODES)
    for i, id in enumerate(v):
        if type(id) is not int or not 0 <= id <= NODE_MOST:
            raise Failure("nodes[%d] must be a number from 0 to %d" % (i, NODE_MOST))
        if id in v[:i]:
            raise Failure("nodes[%d]: %d is there twice" % (i, id))
    return v


def _fill(p: Problem, obj: dict[str, Any]) -> None:
    n = len(p.ids)
    if "threads" in obj:
        v = obj["threads"]
        p.threads = _array(v, "threads", A_COUNT, [n]) if isinstance(v, list) else np.full(
            n, _value(v, "threads", A_COUNT))
    for field, about, shape in (("data", A_SIZE, [n]), ("disk", A_RATE, [n, n]), ("network", A_RATE, [n, n]),
                                ("disk_limit", A_RATE, [n]), ("network_limit", A_RATE, [n]),
                                ("link_limit", A_RATE, [n, n])):
        if field in obj:
            setattr(p, field, _array(obj[field], field, about, shape, field.endswith("_limit")))


def read_problem(path: str) -> tuple[Problem, set[str]]:
    """Only what the file says, and the fields that it lacks. Failure."""
    try:
        obj = load_json(read_file(path, FILE_MOST))
    except OSError as why:
        raise system(why, printable(path)) from why
    except ValueError as why:
        raise Failure("%s:%s" % (printable(path), why)) from None
    try:
        if not isinstance(obj, dict):
            raise Failure("this is not an object")
        for key in obj:  # a name that is written wrong would not be missed otherwise
            if key not in FIELDS:
                raise Failure("there is no field %s: %s" % (printable(key), ", ".join(FIELDS)))
        p = Problem.of(_nodes(obj.get("nodes")))
        _fill(p, obj)
    except Failure as why:
        raise Failure("%s: %s" % (printable(path), str(why))) from None
    return p, {key for key in FIELDS if key not in obj}


# ---- the model ------------------------------------------------------------------------


def _bandwidth(m: Model, target: int, op: str, node: int) -> float:
    """Of all threads of the target together; 0: not measured."""
    cell = cell_of(row_of(m, target, op), node)
    return float(cell["median"]) if cell else 0


def _threads(m: Model, target: int) -> int:
    """0: it was no target."""
    return next((int(t["threads"]) for t in m["targets"] if t["node"] == target), 0)


def _of_thread(m: Model, target: int, op: str, node: int) -> float:
    return _bandwidth(m, target, op, node) / (_threads(m, target) or 1)


def _links(m: Model, machine: Machine, ids: Sequence[int]) -> list[list[float]]:
    """Both ends have measured a link, with threads of their own; the better one has seen more of
    what it can do. Fewer threads than cores may have left room on it."""
    full: set[int] = set()
    partial: set[int] = set()
    for id in ids:
        threads, node = _threads(m, id), machine.node(id)
        if threads and node:
            (full if threads >= node.cores else partial).add(id)
    if partial:
        warn("the model was measured with fewer threads than cores on node %s: links that nobody has "
             "filled are planned without a limit" % format_ids(partial))

    def limit(i: int, k: int) -> float:
        read, write = _bandwidth(m, i, "read", k), _bandwidth(m, k, "write", i)
        known = (read > 0 and i in full) or (write > 0 and k in full)
        return max(read, write) if known else math.inf

    return [[limit(i, k) for k in ids] for i in ids]


def ask_model(m: Model, machine: Machine, lacks: set[str], p: Problem) -> None:
    """Of disk, network and link_limit those that are lacking: a device that is read is a target's
    storage, one that is written a target's cards. Failure."""
    for i, id in enumerate(p.ids):
        for op, field, wanted, where, other in (
                ("read", "disk", p.data[i], "data is", ""),
                ("write", "network", p.network_limit[i], "network cards are",
                 "name other cards with --nic, ")):
            if field in lacks and wanted > 0 and not row_of(m, id, op):
                raise Failure("has no device %ss of node %d, where %s: measure it, too (rftp-numa model; a "
                              "node needs CPUs for it), %sor give %s with --problem FILE"
                              % (op, id, where, other, field))
    for field in ("disk", "network", "link_limit"):
        if field not in lacks:
            continue
        rates = _links(m, machine, p.ids) if field == "link_limit" else [
            [_of_thread(m, i, "read", k) if field == "disk" else _of_thread(m, k, "write", i) for k in p.ids]
            for i in p.ids]
        for i, row in enumerate(rates):
            for k, one in enumerate(row):
                if one > RATE_MOST and not math.isinf(one):
                    raise Failure("%s[%d][%d] is %g, and must be %s" % (field, i, k, one, A_RATE))
        setattr(p, field, np.array(rates))


# ---- the options and the machine ------------------------------------------------------


def _set_data(p: Problem, option: str) -> None:
    p.data, seen = np.zeros(len(p.ids)), set()
    for word in option.split(","):
        id, _, size = word.partition(":")
        try:
            node, amount = parse_uint(id, 0, (1 << 31) - 1), parse_size(size)
        except ValueError:
            raise Misuse("--data takes NODE:SIZE,... as 0:100G,1:50G, not %s" % printable(word)) from None
        if node not in p.ids:
            raise Misuse("--data: node %d is not among the nodes of the problem" % node)
        if node in seen:
            raise Misuse("--data: node %d is there twice" % node)
        seen.add(node)
        p.data[list(p.ids).index(node)] = amount


def _set_threads(p: Problem, machine: Machine, here: bool) -> None:
    """CPUs of the node that this process may run on; of another machine's all."""
    for i, id in enumerate(p.ids):
        node = machine.node(id)
        if not node:
            raise Failure("this machine has no node %d: give the problem threads, or leave that node out"
                          % id)
        p.threads[i] = min(len(machine.usable(id) if here else node.cpus), THREADS_MOST)


def _set_cards(p: Problem, machine: Machine, option: str | None) -> None:
    def node_of(nic: Nic) -> int | None:
        """Firmware need not tell the only one."""
        return machine.nodes[0].id if nic.node is None and len(machine.nodes) == 1 else nic.node

    limits = {id: 0.0 for id in p.ids}
    for name in option.split(",") if option is not None else []:
        nic = next((n for n in machine.nics if n.name == name), None)
        if option is not None and option.split(",").count(name) > 1:
            raise Misuse("--nic: %s is there twice" % printable(name))
        if not nic:
            raise Misuse("--nic: there is no network interface %s (rftp-numa topo lists them)"
                         % printable(name))
        if node_of(nic) not in limits:
            raise Misuse("--nic: the node of %s is not known, or not among those of the problem; give the "
                         "problem network_limit instead" % printable(name))
        if not nic.mbps:
            raise Misuse("--nic: %s does not tell its speed (is it up?); give the problem network_limit "
                         "instead" % printable(name))
    for nic in machine.nics:
        id = node_of(nic)
        if id in limits and (nic.card if option is None else nic.name in option.split(",")):
            limits[id] += nic.mbps * 1e6 / 8
    if not any(limits.values()):
        raise Failure("no network card of this machine tells both its node and its speed: name one that is "
                      "up with --nic, or give the problem network_limit")
    p.network_limit = np.array([limits[id] for id in p.ids])


def _check_file(s: Options, lacks: set[str]) -> None:
    file = printable(s.problem or "")
    for field in ("disk", "network"):
        if field in lacks and s.model is None:
            raise Failure("%s: %s is missing: the bandwidth of a thread from each node to each, or --model"
                          % (file, field))
    if s.data is None and "data" in lacks:
        raise Failure("%s: data is missing: the bytes of each node, or --data" % file)
    if s.data is s.nic is s.model is None and "threads" in lacks:
        raise Failure("%s: threads is missing: how many each node can run; or say --data to plan for this "
                      "machine" % file)


def get_problem(s: Options) -> Problem:
    """Failure; Misuse: an option is wrong."""
    p, lacks = Problem.of([]), set(FIELDS)
    if s.problem is not None:
        p, lacks = read_problem(s.problem)
        _check_file(s, lacks)
        if s.data is s.nic is s.model is None:
            return p
    file = s.model if s.model is not None else default_file() if s.problem is None else None
    if file is not None and s.model is None and not os.path.exists(file):
        raise Failure("this machine has no model yet (rftp-numa model --install makes one; --model FILE takes "
                      "another, --problem FILE does without): %s: No such file or directory" % printable(file))
    machine = read_machine(s.sysfs, model=file)
    if s.problem is None:
        if len(machine.nodes) > NODES:
            raise Failure("this machine has %d nodes, and a plan at most %d: give those that count as nodes "
                          "in a file, --problem FILE" % (len(machine.nodes), NODES))
        p = Problem.of([node.id for node in machine.nodes])
    if s.data is not None:
        _set_data(p, s.data)
    if "threads" in lacks:
        _set_threads(p, machine, s.sysfs is None and not os.environ.get("RFTP_SYSFS"))
    if s.nic is not None or "network_limit" in lacks:
        _set_cards(p, machine, s.nic)
    if file is not None:
        try:
            ask_model(machine.model, machine, lacks, p)
        except Failure as why:
            raise Failure("%s: %s" % (printable(file), str(why))) from None
    return p
