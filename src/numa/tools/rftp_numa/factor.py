# SPDX-License-Identifier: Apache-2.0
"""The command "factor": the NUMA scheduling factor (Li, dissertation 2015, eq. 3.2), traffic of cache
coherency x latency of prefetched reads / width of the link. The larger, the worse it is to run on one
node and have memory on the other."""
from __future__ import annotations

import errno
import json
import os
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rftp_numa.common import (JSON, Failure, Misuse, Option, Options, Stop, count, format_rate, format_size, json_line,
                              output, own_program, parse_ids, parse_rate, printable, say, size,
                              take_options, text)
from rftp_numa.machine import Machine, read_machine

UNITS_MOST = 64  # of one name: uncore units come in dozens
COUNTS = ("traffic", "llc_misses", "node_loads", "stalls")
# Of perf_event.h: a cache's number, what is done with it << 8, and its result << 16.
CACHE, HARDWARE, MISS, LAST_LEVEL, NODE = 3, 0, 1 << 16, 2, 6
# A snoop's PMU: the traffic that the thread itself causes, rather than what crosses a link for all.
SNOOP_PMUS = ("cpu", "uncore_upi*", "uncore_qpi*", "uncore_cha*", "uncore_ha*")


@dataclass
class Event:
    name: str
    type: int
    config: list[int] = field(default_factory=lambda: [0, 0, 0])
    cpus: str = ""  # that count all their units do; "": a thread

    def json(self) -> dict[str, Any]:
        return {"type": self.type, "config": [hex(c) for c in self.config], "cpus": self.cpus}


APPROXIMATE = Event("node-load-misses", CACHE, [NODE | MISS, 0, 0])
OTHERS = [Event("LLC-load-misses", CACHE, [LAST_LEVEL | MISS, 0, 0]), Event("node-loads", CACHE, [NODE, 0, 0]),
          Event("stalled-cycles-backend", HARDWARE, [8, 0, 0])]


# ---- events by the names and formats that sysfs has of them ---------------------------


def pmus() -> str:
    return os.path.join(os.environ.get("RFTP_SYSFS") or "/sys", "bus/event_source/devices")


def _line(*path: str) -> str | None:
    try:
        with open(os.path.join(pmus(), *path), encoding="utf-8", errors="replace") as file:
            return file.readline().strip()
    except OSError:
        return None


def _is_name(word: str) -> bool:
    return bool(word) and word[0] != "." and "/" not in word


def _set_bits(config: list[int], form: str, value: int) -> bool | None:
    """Puts value into the bits that a format names, the least first: "config1:0-7,32". False: it does
    not fit; None: this is no format."""
    found = re.fullmatch(r"config([12]?):([0-9]+(?:-[0-9]+)?(?:,[0-9]+(?:-[0-9]+)?)*)", form, re.ASCII)
    if not found:
        return None
    word = int(found[1] or 0)
    for part in found[2].split(","):
        first, _, last = part.partition("-")
        if not int(first) <= int(last or first) <= 63:
            return None
        for bit in range(int(first), int(last or first) + 1):
            config[word] = config[word] & ~(1 << bit) | (value & 1) << bit
            value >>= 1
    return not value


def _set_term(event: Event, pmu: str, term: str) -> None:
    """"umask=0x1"; without a value it is 1."""
    name, equals, word = term.partition("=")
    value = 1
    if equals:
        if not re.fullmatch("0[xX][0-9a-fA-F]+|[0-9]+", word):
            raise Failure("%s/%s/: \"%s\" is no number" % (pmu, printable(name), printable(word)))
        value = int(word, 16 if word[:2].lower() == "0x" else 8 if word[0] == "0" else 10)
        if value >= 1 << 64:
            raise Failure("%s/%s/: \"%s\" is no number" % (pmu, printable(name), printable(word)))
    if name in ("config", "config1", "config2"):  # what any PMU has
        event.config[int(name[6:] or 0)] = value
        return
    form = _line(pmu, "format", name) if _is_name(name) else None
    if form is None:
        raise Failure("%s: no event and no term of it is called \"%s\"" % (pmu, printable(name)))
    fits = _set_bits(event.config, form, value)
    if not fits:
        raise Failure("%s/%s/: its format in sysfs is \"%s\"" % (pmu, name, printable(form)) if fits is None
                      else "%s/%s/: %#x does not fit into %s" % (pmu, name, value, printable(form)))


def _describe(pmu: str, wanted: str) -> Event:
    type_, cpus = _line(pmu, "type"), _line(pmu, "cpumask")
    if type_ is None or not type_.isdigit():
        raise Failure("there is no PMU %s (see %s)" % (printable(pmu), pmus()))
    event = Event("%.31s/%.60s/" % (pmu, wanted), int(type_))
    try:  # a unit that several CPUs share counts for all of them, on one
        parse_ids(cpus or "")
        event.cpus = cpus or ""
    except ValueError:
        raise Failure("%s: its cpumask in sysfs is \"%s\"" % (pmu, printable(cpus or ""))) from None
    terms = (_line(pmu, "events", wanted) if _is_name(wanted) else None) or wanted
    if not terms.strip(","):
        raise Failure("%s: no event is named" % pmu)
    for term in filter(None, terms.split(",")):
        _set_term(event, pmu, term)
    return event


def _matching(pattern: str) -> list[str]:
    """The PMUs whose name is pattern, or begins with it up to its "*"; 10 comes after 2."""
    start, star, _ = pattern.partition("*")
    try:
        names = os.listdir(pmus())
    except OSError:
        names = []
    return sorted((n for n in names if n[0] != "." and (n.startswith(start) if star else n == pattern)),
                  key=lambda n: [(int(w), "") if w.isdigit() else (-1, w) for w in re.split("([0-9]+)", n)])


def _gather(pattern: str, wanted: str) -> list[Event]:
    names = _matching(pattern)
    if len(names) > UNITS_MOST:
        raise Failure("%s: more than %d units" % (printable(pattern), UNITS_MOST))
    return [_describe(name, wanted) for name in names]


def parse_event(word: str) -> list[Event]:
    """"cpu/event=0xb7,umask=1/", "cpu/mem-loads/", "uncore_upi_*/event=2/": the PMU's name, "*" at its
    end for any, and terms as its format in sysfs has them, or one of its events. What must be added
    up. Failure."""
    pmu, _, wanted = word.partition("/")
    if not _is_name(pmu) or len(wanted) < 2 or wanted[-1] != "/":
        raise Failure("\"%s\" is no event: PMU/EVENT/ or PMU/TERM=VALUE,.../ is" % printable(word))
    events = _gather(pmu, wanted[:-1])
    if not events:
        raise Failure("there is no PMU %s (see %s)" % (printable(pmu), pmus()))
    return events


def find_snoops() -> list[Event]:
    """What sysfs calls a snoop, on the core or on the links; the first that a PMU has stands for all of
    its kind. [] when there is none."""
    for pattern in SNOOP_PMUS:
        for pmu in _matching(pattern):
            events = os.path.join(pmus(), pmu, "events")
            for name in sorted(os.listdir(events)) if os.path.isdir(events) else []:
                if re.search("snoop|snp", name, re.IGNORECASE):
                    return _gather(pattern, name)
    return []


# ---- which of them can be counted -----------------------------------------------------


@dataclass
class Events:
    counts: list[list[Event]]              # by COUNTS; []: not counted
    missing: list[tuple[str, str]] = field(default_factory=list)  # name and reason
    approximate: bool = False              # loads from other nodes stand for snoops

    def missing_text(self) -> str:
        """The names, with the reason behind those that have the same."""
        reasons = dict.fromkeys(why for _, why in self.missing)
        return "; ".join("%s: %s" % (", ".join(n for n, w in self.missing if w == why), why)
                         for why in reasons)


def why_not(code: int) -> str:
    """A negative errno of perf_event_open for people."""
    try:
        with open("/proc/sys/kernel/perf_event_paranoid", encoding="ascii") as file:
            level = " (kernel.perf_event_paranoid is %d)" % int(file.read())
    except (OSError, ValueError):
        level = ""
    if -code in (errno.EACCES, errno.EPERM):
        return "not allowed%s: run it as root, outside of a container that forbids perf_event_open" % level
    if -code in (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP, errno.EINVAL):
        return "this processor, or virtual machine, has no such counter"
    return {errno.ENOSYS: "this kernel, or a container around us, has no perf_event_open",
            errno.EMFILE: "too many open files (ulimit -n)"}.get(-code, os.strerror(-code))


def walk(cpu: int, node: int, bytes: int, runs: int, counts: Sequence[Sequence[Event]], stop: Stop) -> Any:
    wanted = {"cpu": cpu, "node": node, "bytes": bytes, "runs": runs,
              "counts": [[event.json() for event in events] for events in counts]}
    return own_program(["walk"], stop, json.dumps(wanted).encode())


def find_events(snoop: str | None, stop: Stop) -> Events:
    """Each is opened once, to see whether it can be. snoop: the traffic's event; None: what sysfs
    calls a snoop, else loads from other nodes. Failure: snoop is no event."""
    traffic = parse_event(snoop) if snoop is not None else find_snoops()
    tried = [traffic, [APPROXIMATE], *[[event] for event in OTHERS]]
    found = Events([])
    opened = []
    for events in tried:
        opened.append(walk(0, 0, 1 << 20, 0, [events], stop)["opened"][0] if events else -1)

    def works(i: int) -> bool:
        if opened[i]:
            found.missing.append((tried[i][0].name, why_not(opened[i])))
        return not opened[i]

    if not traffic:
        found.missing.append(("snoops", "no PMU in sysfs has an event of that name"))
    if traffic and works(0):
        found.counts.append(traffic)
    elif snoop is not None:
        found.counts.append([])
    else:
        found.approximate = True
        found.counts.append([APPROXIMATE] if works(1) else [])
    found.counts += [tried[i] if works(i) else [] for i in (2, 3, 4)]
    return found


# ---- measuring ------------------------------------------------------------------------


@dataclass
class Cell:
    memory_node: int
    prefetch_ns: float
    load_ns: float
    per_line: list[float | None]  # by COUNTS; None: not counted
    factor: float | None = None   # None: it is the thread's own node
    rank: int | None = None       # among the others, 1 is the best


def factor_of(snoops: float, prefetch_ns: float, link: int) -> float:
    """Snoops per line x ns / GB/s. link: bytes per second; 0: not known, and then 1 GB/s stands for
    every link."""
    return snoops * prefetch_ns / (link / 1e9 if link else 1)


def set_ranks(cells: Sequence[Cell]) -> None:
    factors = [c.factor for c in cells if c.factor is not None]
    for c in cells:
        c.rank = None if c.factor is None else 1 + sum(f < c.factor for f in factors)


def measure_cell(o: Options, machine: Machine, cpu_node: int, memory_node: int, events: Events,
                 stop: Stop) -> Cell:
    node, place = machine.node(memory_node), "a thread on node %d, memory of node %d" % (cpu_node, memory_node)
    if node and node.room < o.size:  # the kernel would end the walk
        raise Failure("%s: node %d has not %s of memory to spare (--size)" % (
            place, memory_node, format_size(o.size)))
    counted = [i for i, count in enumerate(events.counts) if count]
    found = walk(machine.usable(cpu_node)[0], memory_node, o.size, o.runs,
                 [events.counts[i] for i in counted], stop)
    if "error" in found:
        raise Failure("%s: %s" % (place, found["error"]))
    per_line: list[float | None] = [None] * len(COUNTS)
    for i, runs in zip(counted, found["counts"]):
        per_line[i] = statistics.median(runs) / found["lines"]
    cell = Cell(memory_node, statistics.median(found["prefetch_ns"]), statistics.median(found["load_ns"]),
                per_line)
    if memory_node != cpu_node:
        cell.factor = factor_of(per_line[0] or 0, cell.prefetch_ns, o.link_width)
    return cell


# ---- what is shown --------------------------------------------------------------------


def table(o: Options, events: Events, rows: dict[int, list[Cell]]) -> str:
    lines = ["%d runs over %s; traffic: %s%s" % (
        o.runs, format_size(o.size), events.counts[0][0].name,
        " (reads served by other nodes stand for snoops)" if events.approximate else ""),
        "link width: " + (format_rate(o.link_width) if o.link_width else
                          "not known (--link-width): factors are for comparison only")]
    for cpu_node, cells in rows.items():
        lines += ["", "thread on node %d; counts are for a line of 64 bytes" % cpu_node,
                  "%-7s %10s %5s %11s %9s %11s %11s %11s %11s" % (
                      "memory", "factor", "rank", "prefetch ns", "load ns", "traffic", "LLC misses",
                      "node loads", "stalls")]
        for c in cells:
            factor = "%10s %5s" % ("local", "-") if c.factor is None else "%10.4g %5d" % (c.factor, c.rank or 0)
            lines.append("%-7d %s %11.2f %9.1f%s" % (
                c.memory_node, factor, c.prefetch_ns, c.load_ns,
                "".join(" %11s" % ("-" if v is None else "%.4f" % v) for v in c.per_line)))
    return "\n".join(lines) + "\n"


def cell_json(c: Cell) -> dict[str, Any]:
    return {"memory_node": c.memory_node, "factor": c.factor, "rank": c.rank, "prefetch_ns": c.prefetch_ns,
            "load_ns": c.load_ns, **{name + "_per_line": v for name, v in zip(COUNTS, c.per_line)}}


def rate(name: str, word: str) -> int:
    try:
        if parse_rate(word):
            return parse_rate(word)
    except ValueError:
        pass
    raise Misuse("--%s takes a rate above 0 (20G bytes, 160Gbit), not" % name, word)


TABLE = [
    Option("link-width", "RATE", "of a link between nodes: 166Gbit, or 20G bytes", rate, 0),
    Option("snoop-event", "EVENT", "what counts coherency traffic, as perf names it", text),
    Option("size", "SIZE", "of the memory, several times the caches (256M)", size(1 << 20, 1 << 40), 256 << 20),
    Option("runs", "N", "of each pair of nodes (5)", count(1, 100), 5),
    JSON]


def measure(o: Options, stop: Stop) -> None:
    o.size -= o.size % os.sysconf("SC_PAGE_SIZE")
    machine, events = read_machine(), find_events(o.snoop_event, stop)
    run = [n.id for n in machine.nodes if machine.usable(n.id)]
    # What else is in the way is the same for all nodes, and told when it comes.
    have = [n.id for n in machine.nodes if n.memory and n.may_have != -errno.EINVAL]
    missing = [{"event": name, "why": why} for name, why in events.missing]
    reasons = []
    if len(machine.nodes) == 1:
        reasons.append("there is one NUMA node, so that no memory is remote")
    elif not run or not have or len({*run, *have}) < 2:
        reasons.append("only one node has CPUs and memory that this process may use")
    if not events.counts[0]:
        reasons.append("nothing counts coherency traffic (%s)" % events.missing_text())
    if reasons:
        if o.json:
            output(json_line({"measurable": False, "reasons": reasons, "missing": missing}))
        raise Failure("not measurable here: " + "; ".join(reasons))
    if missing:
        say("not counted: " + events.missing_text())
    rows = {}
    for cpu_node in run:
        rows[cpu_node] = [measure_cell(o, machine, cpu_node, node, events, stop) for node in have]
        set_ranks(rows[cpu_node])
    if not o.json:
        output(table(o, events, rows))
        return
    output(json_line({
        "measurable": True, "traffic": events.counts[0][0].name, "approximate": events.approximate,
        "link_bytes_per_second": o.link_width or None, "size": o.size, "runs": o.runs, "missing": missing,
        "nodes": [{"cpu_node": node, "memory": [cell_json(c) for c in cells]}
                  for node, cells in rows.items()]}))


def main() -> None:
    o = take_options("factor", "How much worse the memory of other nodes is: the NUMA scheduling factor.",
                        TABLE)
    if not o:
        return
    with Stop() as stop:
        measure(o, stop)
