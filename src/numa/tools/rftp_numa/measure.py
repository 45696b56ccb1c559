# SPDX-License-Identifier: Apache-2.0
"""The command "measure": plans the copies between nodes of which "model" makes classes (T. Li,
dissertation, Stony Brook 2015, algorithm 1 of chapter 4). "rftp-numa copy" makes them."""
from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import Any

from rftp_common import (JSON, Command, Failure, Option, Options, Stop, count, failures_to,
                         format_size, json_line, output, parse, size, warn)
from rftp_machine import NODE_MOST, Machine, Node, caches_of, cores_of, own_program, read_machine

HUGE_PAGE = 2 << 20
SLACK = 3 * HUGE_PAGE  # of each buffer: it starts and ends inside huge pages
FLOOR = 32 << 20       # the least size of a buffer that is sized by the caches
# The size of a buffer as a multiple of the thread's share of the caches, so that most of the buffer
# is not cached.
TIMES_CACHE = 4
# The C library's memcpy switches to non-temporal stores at a size below 1/PART_OF_CACHE of a cache.
PART_OF_CACHE = 2
ROUNDS_LEAST = 5

OPTIONS = [
    Option("target", "NODE", "only this node as target", count(0, NODE_MOST)),
    Option("threads", "N", "threads on the target (its cores)", count(1, 8192)),
    Option("size", "SIZE", "a thread's buffer (by the caches, 32M or more)",
           size(1 << 20, 1 << 40)),
    Option("copies", "N", "copies of it in a round (10)", count(1, 1000000)),
    Option("rounds", "N", "repetitions (10)", count(ROUNDS_LEAST, 1000))]


def up_to(unit: int, size: int) -> int:
    """size, rounded up to whole units."""
    return -(-size // unit) * unit


def wanted_bytes(caches: Sequence[int], threads: int) -> int:
    """The size at which a thread's buffer is too large for the caches to matter."""
    share = TIMES_CACHE * sum(caches) // threads
    return up_to(HUGE_PAGE, max(share, max(caches, default=0) // PART_OF_CACHE, FLOOR))


def fitting_bytes(room: int, buffers: int) -> int:
    """The maximum size of each buffer in so much room. The buffers and their slack get half of it;
    the result is whole huge pages."""
    return max(room // 2 // buffers // HUGE_PAGE * HUGE_PAGE - SLACK, 0)


def cpus_for(allowed: Sequence[int], cores: Sequence[int], threads: int) -> list[int]:
    """A CPU for each thread: first one CPU of each core, then the other hardware threads."""
    return [*cores, *sorted(set(allowed) - set(cores))][:threads]


def _threads_cpus(node: Node, threads: int | None) -> list[int]:
    allowed = node.usable()
    if not node.cpus:
        raise Failure(f"node {node.id} has no CPUs: no thread can run there")
    if not allowed:
        raise Failure(f"none of node {node.id}'s CPUs may be used (affinity or cpuset)")
    cores = cores_of(allowed)
    cpus = cpus_for(allowed, cores, threads or len(cores))
    if threads and len(cpus) < threads:
        raise Failure(f"{threads} threads, one a CPU, do not fit node {node.id}, of which "
                      f"{len(allowed)} may be used; give fewer --threads")
    return cpus


def _check_node(node: Node, buffers: int, least: int) -> int:
    """The maximum size of each buffer on the node. Failure: it can be no side of the copies, with
    buffers of least bytes."""
    if not node.memory:
        raise Failure(f"node {node.id} has no memory")
    if not node.is_allowed():
        raise Failure(f"this process may not have node {node.id}'s memory (cpuset)")
    fits = fitting_bytes(node.room, buffers)
    if fits < least:
        raise Failure(f"node {node.id} has room for {format_size(node.room)}, half of it for us, "
                      f"and {buffers} buffers of {format_size(least)} are needed; free some, or "
                      "give a smaller --size or fewer --threads")
    return fits


def plan_copies(o: Options, machine: Machine, target: int) -> dict[str, Any]:
    """The plan of one target, as "rftp-numa copy" takes it. Failure."""
    # The user's size is used unchanged, or refused.
    asked = up_to(os.sysconf("SC_PAGE_SIZE"), o.size) if o.size else None
    least, home = asked or FLOOR, machine.node(target)
    cpus = _threads_cpus(home, o.threads)
    # A buffer for each thread; on the target two, because it is a side of every copy.
    fits = {target: _check_node(home, 2 * len(cpus), least)}
    for node in machine.nodes.values():
        with failures_to(begin=f"node {node.id} is left out: "):
            if node.id != target:
                fits[node.id] = _check_node(node, len(cpus), least)
    # A control group's limit holds for the buffers of all nodes together. Above it the kernel would
    # kill the process, or slow it down.
    buffers = len(cpus) * (len(fits) + 1)
    together = fitting_bytes(machine.limit, buffers)
    if together < least:
        raise Failure(f"this process's control group may have {format_size(machine.limit)}, half "
                      f"of it for us, and {buffers} buffers of {format_size(least)} are needed; "
                      "give a smaller --size or fewer --threads")
    want = asked or wanted_bytes(caches_of(home.usable()), len(cpus))
    size = min(want, together, *fits.values())
    if size < want:
        warn(f"buffers are {format_size(size)} and not {format_size(want)}, for which there is no "
             "memory: caches may show")
    return {"target": target, "cpus": cpus, "nodes": sorted(fits), "bytes": size,
            "copies": o.copies or 10, "rounds": o.rounds or 10, "bind": len(machine.nodes) > 1}


def _copy(plan: dict[str, Any], turn: str) -> dict[str, Any]:
    """turn: for the line on a terminal that shows the progress."""
    shown = turn * sys.stderr.isatty()
    with Stop():  # the line is removed before a signal ends this program
        try:
            found = own_program(["copy"], json.dumps({**plan, "progress": shown}))
        finally:
            if shown:
                sys.stderr.write("\r\033[K")
                sys.stderr.flush()
    if "error" in found:
        raise Failure(found["error"])
    return {"node": plan["target"], "threads": len(plan["cpus"]), "buffer": plan["bytes"],
            "placed": found["placed"], "copies": plan["copies"],
            **{op: [{"node": node, "rounds": rounds}
                    for node, rounds in zip(plan["nodes"], found[op])]
               for op in ("write", "read")}}


def measure(o: Options) -> list[dict[str, Any]]:
    """The targets, as JSON has them. When all nodes are measured, nodes that cannot be a target are
    left out with a warning. Failure: there is none."""
    machine = read_machine()
    ids, targets, why = list(machine.nodes) if o.target is None else [o.target], [], Failure("")
    for turn, id in enumerate(ids, 1):
        try:
            plan = plan_copies(o, machine, id)
        except Failure as failure:
            why = failure
            if len(ids) > 1:
                warn(f"node {id} is not a target: {why}")
            continue
        targets.append(_copy(plan, f"target {turn} of {len(ids)}, "))
        machine = read_machine()  # its free memory has changed
    if not targets:
        raise why
    return targets


COMMAND = Command("measure", "The bandwidth of copies between nodes, round by round, as JSON.",
                  [*OPTIONS, JSON])


def main() -> None:
    o = parse(COMMAND, sys.argv[1:])
    if o:
        output(json_line({"targets": measure(o)}))
