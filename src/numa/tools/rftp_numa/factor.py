# SPDX-License-Identifier: Apache-2.0
"""The command "factor": the NUMA scheduling factor (Li, dissertation 2015, eq. 3.2), traffic of
cache coherency x latency of prefetched reads / width of the link. The larger, the worse it is to
run on one node and have memory on the other."""
from __future__ import annotations

import errno
import fnmatch
import json
import os
import re
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rftp_common import (JSON, Command, Failure, Option, Options, at_place, count, entries,
                         file_text, format_rate, format_size, json_line, output, parse, parse_ids,
                         printable, rate, say, size, sysfs, text)
from rftp_machine import Node, own_program, read_machine

# A snoop's PMU: the traffic that the thread itself causes, not all that crosses a link.
SNOOP_PMUS = ("cpu", "uncore_upi*", "uncore_qpi*", "uncore_cha*", "uncore_ha*")


@dataclass
class Event:
    """As "rftp-numa walk" takes it."""
    name: str
    type: int
    config: list[int] = field(default_factory=lambda: [0, 0, 0])
    cpus: str = ""  # that count all their units do; "": a thread


# Of perf_event.h: a cache's number, the operation << 8, and its result << 16.
CACHE, HARDWARE, MISS, LAST_LEVEL, NODE = 3, 0, 1 << 16, 2, 6
APPROXIMATE = Event("node-load-misses", CACHE, [NODE | MISS, 0, 0])
OTHERS = {"llc_misses": [Event("LLC-load-misses", CACHE, [LAST_LEVEL | MISS, 0, 0])],
          "node_loads": [Event("node-loads", CACHE, [NODE, 0, 0])],
          "stalls": [Event("stalled-cycles-backend", HARDWARE, [8, 0, 0])]}
COUNTS = ("traffic", *OTHERS)


# ---- events by the names and formats that sysfs has of them ---------------------------


def pmus(*path: str) -> str:
    return sysfs("bus/event_source/devices", *path)


def first_line(*path: str) -> str:
    """Of a PMU's file, or of an absolute path; "" when there is no such file."""
    return file_text(pmus(*path)).partition("\n")[0].strip()


def by_number(*path: str) -> list[str]:
    """Entries, 10 behind 2."""
    return sorted(entries(pmus(*path)), key=lambda name: (len(name), name))


def set_term(event: Event, pmu: str, term: str) -> None:
    """"umask=0x1"; without a value it is 1. The value goes into the bits that the term's format
    names, the least first: "config1:0-7,32"."""
    name, equals, word = term.partition("=")
    place = f"{pmu}/{printable(name)}/"
    word = word.lower() if equals else "1"
    if not re.fullmatch("0x[0-9a-f]{1,16}|[0-9]{1,20}", word):
        raise Failure(f"{place}: \"{printable(word)}\" is not a number")
    value = int(word, 16 if word.startswith("0x") else 10)
    # The whole field, which any PMU has, has no format in sysfs.
    form = name + ":0-63" if re.fullmatch("config[12]?", name) else first_line(pmu, "format", name)
    if not form:
        raise Failure(f"{pmu}: no event and no term of it is called \"{printable(name)}\"")
    found = re.fullmatch(r"config([12]?):(.+)", form)
    if not found or parse_ids(found[2], 63) is None:
        raise Failure(f"{place}: its format in sysfs is \"{printable(form)}\"")
    bits = [bit for part in found[2].split(",") for bit in sorted(parse_ids(part) or ())]
    if value >> len(bits):
        raise Failure(f"{place}: {value:#x} does not fit into {printable(form)}")
    i = int(found[1] or 0)
    for n, bit in enumerate(bits):
        event.config[i] = event.config[i] & ~(1 << bit) | (value >> n & 1) << bit


def parse_event(word: str) -> list[Event]:
    """The events, to be added up, of "cpu/event=0xb7,umask=1/", "cpu/mem-loads/" (sysfs has terms
    for it) or "uncore_upi_*/event=2/" (all such PMUs). Failure."""
    found = re.fullmatch("([^./][^/]*)/([^/]+)/", word)
    if not found:
        raise Failure(f"\"{printable(word)}\" is not an event, PMU/EVENT/ or PMU/TERM=VALUE,.../")
    events = []
    for pmu in fnmatch.filter(by_number(), found[1]):
        number, cpus = first_line(pmu, "type"), first_line(pmu, "cpumask")
        if not number.isdigit():
            continue
        if parse_ids(cpus) is None:
            raise Failure(f"{pmu}: its cpumask in sysfs is \"{printable(cpus)}\"")
        # A unit that several CPUs share counts for all of them, on one.
        event = Event(f"{pmu}/{found[2]}/", int(number), cpus=cpus)
        terms = first_line(pmu, "events", found[2]) or found[2]
        if not terms.strip(","):
            raise Failure(f"{pmu}: no event is named")
        for term in filter(None, terms.split(",")):
            set_term(event, pmu, term)
        events.append(event)
    if not events:
        raise Failure(f"there is no PMU {printable(found[1])} (see {pmus()})")
    return events


def find_snoops() -> list[Event]:
    """Events with a snoop's name in sysfs, on the core or on the links; the first that a PMU has
    stands for all of its kind. [] when there is none."""
    for pattern in SNOOP_PMUS:
        for pmu in fnmatch.filter(by_number(), pattern):
            for name in entries(pmus(pmu, "events")):
                if re.search("snoop|snp", name, re.IGNORECASE):
                    return parse_event(f"{pattern}/{name}/")
    return []


# ---- which of them can be counted -----------------------------------------------------


def grouped(missing: Sequence[dict[str, str]]) -> str:
    """Events, with the reason behind those that have the same."""
    events: dict[str, list[str]] = {}
    for m in missing:
        events.setdefault(m["why"], []).append(m["event"])
    return "; ".join(f"{', '.join(those)}: {why}" for why, those in events.items())


def why_not(code: int) -> str:
    """A negative errno of perf_event_open for people."""
    if -code in (errno.EACCES, errno.EPERM):
        level = first_line("/proc/sys/kernel/perf_event_paranoid") or "not known"
        return (f"not allowed (kernel.perf_event_paranoid is {level}): run it as root, and not in "
                "a container")
    if -code in (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP, errno.EINVAL):
        return "this processor, or virtual machine, has no such counter"
    return {errno.ENOSYS: "this kernel, or a container around us, has no perf_event_open",
            errno.EMFILE: "too many open files (ulimit -n)"}.get(-code, os.strerror(-code))


def walk(cpu: int, node: int, bytes: int, runs: int, counts: Sequence[Sequence[Event]]) -> Any:
    """By "rftp-numa walk"."""
    wanted = {"cpu": cpu, "node": node, "bytes": bytes, "runs": runs, "counts": [
        [{**vars(e), "config": [hex(c) for c in e.config]} for e in events] for events in counts]}
    return own_program(["walk"], json.dumps(wanted))


def find_events(snoop: str | None, missing: list[dict[str, str]]) -> dict[str, list[Event]]:
    """By COUNTS, without those that cannot be counted; those and the reasons go to missing. Each is
    opened once, to see that. snoop: the traffic's event; None: one with a snoop's name, else loads
    from other nodes. Failure: snoop is not an event."""
    traffic = parse_event(snoop) if snoop is not None else find_snoops()
    if not traffic:
        missing.append({"event": "snoops", "why": "no PMU in sysfs has an event of that name"})
    found: dict[str, list[Event]] = {}
    for name, events in [("traffic", traffic), ("traffic", [APPROXIMATE]), *OTHERS.items()]:
        if not events or (events == [APPROXIMATE] and (found or snoop is not None)):
            continue
        code = walk(0, 0, 1 << 20, 0, [events])["opened"][0]
        if code:
            missing.append({"event": events[0].name, "why": why_not(code)})
        else:
            found[name] = events
    return found


def factor_of(snoops: float, prefetch_ns: float, link: int) -> float:
    """Snoops per line x ns / GB/s. link: bytes per second; 0, not known, counts as 1 GB/s."""
    return snoops * prefetch_ns / (link / 1e9 if link else 1)


def set_ranks(cells: Sequence[dict[str, Any]]) -> None:
    """Among the remote ones, 1 is the best; None for the thread's own node, without a factor."""
    factors = [c["factor"] for c in cells if c["factor"] is not None]
    for c in cells:
        c["rank"] = None if c["factor"] is None else 1 + sum(f < c["factor"] for f in factors)


def measure_cell(o: Options, cpu: Node, memory: Node,
                 counted: dict[str, list[Event]]) -> dict[str, Any]:
    """As JSON has it, but for the rank."""
    with at_place(f"a thread on node {cpu.id}, memory of node {memory.id}"):
        if memory.room < o.size:  # the kernel would end the walk
            raise Failure(f"node {memory.id} has no {format_size(o.size)} of free memory (--size)")
        found = walk(cpu.usable()[0], memory.id, o.size, o.runs, [*counted.values()])
        if "error" in found:
            raise Failure(found["error"])
    per_line = dict(zip(counted, (statistics.median(runs) / found["lines"]
                                  for runs in found["counts"])))
    prefetch_ns = statistics.median(found["prefetch_ns"])
    factor = None
    if cpu.id != memory.id:
        factor = factor_of(per_line["traffic"], prefetch_ns, o.link_width)
    return {"memory_node": memory.id, "factor": factor, "rank": None, "prefetch_ns": prefetch_ns,
            "load_ns": statistics.median(found["load_ns"]),
            **{name + "_per_line": per_line.get(name) for name in COUNTS}}


def table(found: dict[str, Any]) -> str:
    """found: as JSON has it."""
    stand_in = " (reads served by other nodes stand for snoops)" if found["approximate"] else ""
    width = found["link_bytes_per_second"]
    shown = format_rate(width) if width else "not known (--link-width): only compare factors"
    lines = [f"{found['runs']} runs over {format_size(found['size'])}; traffic: "
             f"{found['traffic']}{stand_in}", f"link width: {shown}"]
    for node in found["nodes"]:
        lines += ["", f"thread on node {node['cpu_node']}; counts are for a line of 64 bytes",
                  "memory      factor  rank prefetch ns   load ns     traffic  LLC misses"
                  "  node loads      stalls"]
        for c in node["memory"]:
            factor, rank = "local" if c["rank"] is None else f"{c['factor']:.4g}", c["rank"] or "-"
            line = (f"{c['memory_node']:<7} {factor:>10} {rank:>5} {c['prefetch_ns']:11.2f} "
                    f"{c['load_ns']:9.1f}")
            for name in COUNTS:
                per_line = c[name + "_per_line"]
                line += f" {'-' if per_line is None else format(per_line, '.4f'):>11}"
            lines.append(line)
    return "\n".join(lines) + "\n"


COMMAND = Command("factor", "The NUMA scheduling factor: how bad other nodes' memory is.", [
    Option("link-width", "RATE", "of a link: 166Gbit, or 20G bytes", rate(1, 1 << 63), 0),
    Option("snoop-event", "EVENT", "the counter of coherency traffic, in perf's notation", text),
    Option("size", "SIZE", "of the memory (256M)", size(1 << 20, 1 << 40), 256 << 20),
    Option("runs", "N", "of each pair of nodes (5)", count(1, 100), 5),
    JSON])


def measure(o: Options) -> None:
    o.size -= o.size % os.sysconf("SC_PAGE_SIZE")
    machine = read_machine()
    missing: list[dict[str, str]] = []  # as JSON has it
    events = find_events(o.snoop_event, missing)
    run = [n for n in machine.nodes.values() if n.usable()]
    have = [n for n in machine.nodes.values() if n.memory and n.is_allowed()]
    reasons = []
    if len(machine.nodes) == 1:
        reasons.append("there is one NUMA node, so that no memory is remote")
    elif not run or not have or len({n.id for n in run + have}) < 2:
        reasons.append("only one node has CPUs and memory that this process may use")
    if "traffic" not in events:
        reasons.append(f"nothing counts coherency traffic ({grouped(missing)})")
    if reasons:
        if o.json:
            output(json_line({"measurable": False, "reasons": reasons, "missing": missing}))
        raise Failure("not measurable here: " + "; ".join(reasons))
    if missing:
        say("not counted: " + grouped(missing))
    nodes = []
    for cpu in run:
        cells = [measure_cell(o, cpu, memory, events) for memory in have]
        set_ranks(cells)
        nodes.append({"cpu_node": cpu.id, "memory": cells})
    found = {
        "measurable": True, "traffic": events["traffic"][0].name,
        "approximate": events["traffic"] == [APPROXIMATE],
        "link_bytes_per_second": o.link_width or None, "size": o.size, "runs": o.runs,
        "missing": missing, "nodes": nodes}
    output(json_line(found) if o.json else table(found))


def main() -> None:
    o = parse(COMMAND, sys.argv[1:])
    if o:
        measure(o)
