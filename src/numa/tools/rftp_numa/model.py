# SPDX-License-Identifier: Apache-2.0
"""The command "model": the bandwidth between nodes, which of them are alike, and predictions from
that (T. Li, dissertation, Stony Brook 2015, chapter 4)."""
from __future__ import annotations

import math
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from errno import EEXIST
from pathlib import Path
from typing import Any

from rftp_common import (JSON, Command, Failure, Misuse, Option, Options, Stop, Stopped, at_place,
                         failures_to, format_ids, format_size, json_line, misuse_if, one_of, output,
                         parse, printable, run, say, text)
from rftp_machine import NODE_MOST, SYSFS, Machine, own_program, read_machine
from rftp_numa.measure import OPTIONS, ROUNDS_LEAST, measure

GBIT = 125e6  # bytes per second
OPS = ("write", "read")

# Classes of nodes by their bandwidths. Class 1 is by definition the target and the nodes of its
# package. The others are sorted by bandwidth, and a border is drawn where all of this is so:
# - the gap between the medians of two neighbours is at least a tenth of the higher one;
# - it is wider than the spread of either's own rounds;
# - no node's rounds reach over its middle, on whichever side that node is.
# When there is no border between the others, and none by the same rule between the target and them,
# all nodes are in one class.
#
# On gaps: in the published tables the nodes of one class are up to 8.5 % apart, and classes at
# least 12.8 %. On the spread: from the first to the ninth decile, so that one disturbed round of
# ten does not hide a border. Between nodes that are alike, however noisy, ten rounds let fewer than
# one row of a thousand have a border; with quartiles it is nearly one of a hundred.
GAP = 0.10

# A model is the JSON of its file, which rftp-numa(1) describes, and so are its parts: a cell is the
# bandwidth between the target and a node, of several rounds.
Model = dict[str, Any]
Cell = dict[str, Any]
Row = list[Cell]  # by rising node


def make_cell(node: int, rounds: Sequence[float]) -> Cell:
    """rounds: bytes per second."""
    deciles = [rounds[0]] * 9
    if len(rounds) > 1:
        deciles = statistics.quantiles(rounds, n=10, method="inclusive")
    low, median, high = (int(deciles[i] + .5) for i in (0, 4, 8))
    return {"node": node, "median": median, "low": low, "high": high, "rounds": len(rounds),
            "class": 1}


def cell_of(row: Row, node: int) -> Cell | None:
    return next((c for c in row if c["node"] == node), None)


def class_average(row: Row, number: int) -> float:
    """0: the class has no nodes."""
    members = [float(c["median"]) for c in row if c["class"] == number]
    return sum(members) / len(members) if members else 0


@dataclass
class Sight:
    """The number of classes, and the widest gap that has no border: the reason for one class, or
    for one more that the spread hides."""
    view: str = "alone"    # "seen", "alone", "few" rounds, "alike", "noise"
    classes: int = 1
    hidden: bool = False   # classes are seen, and but for the spread there would be one more
    above: int = 0         # the nodes on its sides
    below: int = 0
    gap: float = 0         # it and the wider of their spreads, as parts of the higher bandwidth
    spread: float = 0


def _border(above: Row, below: Row, sight: Sight) -> bool:
    """Is there one between two groups, each by falling median?"""
    a, b = above[-1], below[0]
    gap, wider = a["median"] - b["median"], max(a["high"] - a["low"], b["high"] - b["low"])
    line = (a["median"] + b["median"]) / 2
    reaches_over = any(c["low"] <= line for c in above) or any(c["high"] >= line for c in below)
    if any(c["rounds"] < ROUNDS_LEAST for c in above + below):
        view = "few"
    elif gap < GAP * a["median"]:
        view = "alike"
    elif gap <= wider or reaches_over:
        view = "noise"
    else:
        return True
    if sight.view == "alone" or gap / a["median"] > sight.gap:
        sight.view, sight.above, sight.below = view, a["node"], b["node"]
        sight.gap, sight.spread = gap / a["median"], wider / a["median"]
    return False


def classify(row: Row, target: int, near: set[int]) -> Sight:
    """Gives each cell its class. near: the nodes of the target's package."""
    sight, local = Sight(), cell_of(row, target)
    remote = [c for c in row if c["node"] not in near]
    remote.sort(key=lambda c: (-c["median"], c["node"]))
    borders = 0
    for i, cell in enumerate(remote):
        borders += i > 0 and _border(remote[:i], remote[i:], sight)
        cell["class"] = borders + 2
    apart = False
    if local and remote and not borders:  # are the others, as one group, unlike the target?
        if local["median"] >= remote[0]["median"]:
            apart = _border([local], remote, sight)
        elif remote[-1]["median"] > local["median"]:
            apart = _border(remote, [local], sight)
    if borders or apart:
        sight.hidden, sight.view, sight.classes = sight.view == "noise", "seen", borders + 2
    for cell in row:
        if cell["node"] in near or sight.classes == 1:
            cell["class"] = 1
    return sight


def default_file() -> str:
    """Where rftp and rftpd look for it."""
    return os.environ.get("RFTP_NUMA_MODEL") or "/var/lib/rftp/numa-model.json"


def read_model(file: str, sysfs: str | None) -> Model:
    """Failure, if it is not this machine's."""
    return dict(own_program(["check", file], sysfs=sysfs or None))


def parse_shares(words: str) -> list[tuple[int, float]]:
    """Of "2:50,0:50": nodes and percents, with up to four decimals, 100 in sum. Misuse."""
    shares: dict[int, int] = {}
    for word in words.split(","):
        found = re.fullmatch(r"([0-9]{1,9}):([0-9]{1,9}(\.[0-9]{0,4})?)", word, re.ASCII)
        if not found or int(found[1]) > NODE_MOST:
            raise Misuse("shares must be NODE:PERCENT,..., as 2:50,0:50, "
                         f"not \"{printable(words)}\"")
        if int(found[1]) in shares:
            raise Misuse(f"node {int(found[1])} is listed twice", words)
        shares[int(found[1])] = round(float(found[2]) * 10000)
    if sum(shares.values()) != 1000000:
        raise Misuse(f"the shares are {sum(shares.values()) / 10000:g} percent in sum, not 100",
                     words)
    return [(node, part / 1000000) for node, part in shares.items()]


def predict(row: Row, shares: Sequence[tuple[int, float]]) -> float:
    """The sum of each share times its node's class's average. Failure: a node was not measured."""
    rate = 0.0
    for node, part in shares:
        cell = cell_of(row, node)
        if not cell:
            raise Failure(f"node {node} was not measured: give shares of other nodes, or measure "
                          "again (rftp-numa model)")
        rate += class_average(row, cell["class"]) * part
    return rate


def predictions(m: Model, shares: Sequence[tuple[int, float]], only: str) -> list[dict[str, Any]]:
    found = []
    for t in m["targets"]:
        for op in OPS:
            if op in t and only in (op, ""):
                with at_place(f"no prediction for device {op} on node {t['node']}"):
                    rate = predict(t[op], shares)
                found.append({"target": t["node"], "op": op, "bytes_per_second": rate})
    if not found:
        raise Failure(f"no prediction: no device {only}s were measured")
    return found


# ---- for people -----------------------------------------------------------------------


def _classes_text(row: Row, target: int, machine: Machine) -> str:
    classes = max(c["class"] for c in row)
    s = classify([dict(c) for c in row], target, machine.package(target))
    gap = f"between nodes {s.above} and {s.below} the gap is {100 * s.gap:.1f} %"
    noise = (f"{gap}, but the rounds of a node spread over {100 * s.spread:.1f} % or reach across; "
             "measure when the machine is idle")
    if classes > 1:
        why = "; ".join(f"{number}: {format_ids(c['node'] for c in row if c['class'] == number)} "
                        f"({class_average(row, number) / GBIT:.2f})"
                        for number in range(1, classes + 1))
        return why + (f"\n    perhaps more: {noise}" if s.hidden and s.classes == classes else "")
    return {
        "alone": "none: there is no other node to tell from it",
        "few": f"none: they take {ROUNDS_LEAST} rounds at least",
        "alike": f"none: the nodes are alike; {gap}, the widest, and it takes {100 * GAP:.0f} %",
        "noise": f"none: too noisy; {noise}",
        "seen": "all nodes in one",  # the file's word, and not ours
    }[s.view]


def table(m: Model, machine: Machine) -> str:
    lines = ["measured " + printable(m["date"])]
    if len(m["nodes"]) == 1:
        lines.append("this machine has one node: there is nothing to compare it with")
    for t in m["targets"]:
        lines.append(f"target node {t['node']}: threads: {t['threads']}, buffer of each: "
                     f"{format_size(t['buffer'])}, copies in a round: {t['copies']}")
        if t["placed"]:
            placed = format_size(t["placed"])
            lines.append(f"    all pages of {placed} of buffers are on their nodes")
        head = "Gbit/s  deciles          class"
        lines += [f"          {'device write: node to target':34}device read: target to node",
                  f"    node  {head:34}{head}"]
        for node in m["nodes"]:
            cells = [cell_of(t.get(op, []), node["id"]) for op in OPS]
            line = f"    {node['id']:<6}{'' if any(cells) else 'left out'}"
            for c in cells if any(cells) else []:
                deciles = f"{c['low'] / GBIT:.2f}-{c['high'] / GBIT:.2f}" if c else ""
                shown = f"{c['median'] / GBIT:<8.2f}{deciles:17}{c['class']}" if c else "-"
                line += f"{shown:34}"
            lines.append(line.rstrip())
        lines += [f"    {op} classes: {_classes_text(t[op], t['node'], machine)}"
                  for op in OPS if op in t]
    return "\n".join(lines) + "\n"


# ---- a picture ------------------------------------------------------------------------


def gnuplot(script: Sequence[str]) -> str:
    """The picture that gnuplot prints, with surrogate escapes. No word of a user's is in script."""
    with Stop() as stop:
        done = run(["gnuplot", "-d", "-"], stop, given="\n".join([*script, ""]))
    if done.status:
        why = printable(done.err.lstrip(" \t\r\n^").split("\n")[0])
        raise Failure(f"gnuplot cannot draw it, status {done.status}{why and ': ' + why}")
    if not done.out:
        raise Failure("gnuplot made no picture")
    return done.out


def picture(m: Model, terminal: str) -> str:
    """A map of all medians for each way, and for each target bars with their spread."""
    nodes, targets = m["nodes"], m["targets"]
    cells = []  # a block for each target, in it a line for each node: places, medians, deciles
    for i, t in enumerate(targets):
        for k, node in enumerate(nodes):
            cells.append(f"{i} {k}")
            for op in OPS:
                cell = cell_of(t.get(op, []), node["id"]) or {}
                for key in ("median", "low", "high"):
                    cells[-1] += f" {cell.get(key, math.nan) / GBIT:.3f}"
        cells.append("\n")
    rows = 1 + (len(targets) + 1) // 2
    tics = {key: ", ".join(f"'{part[key]}' {i}" for i, part in enumerate(parts))
            for key, parts in (("id", nodes), ("node", targets))}
    script = [
        "$cells << EOD", *cells, "EOD", f"set terminal {terminal} size 1200,{rows * 420}",
        f"set multiplot layout {rows},2", "unset colorbox",
        "set palette defined (0 '#e06060', 1 '#f0e0a0', 2 '#70b070')",
        "set key outside bottom center horizontal", "set xlabel 'node'",
        f"set xtics ({tics['id']})", f"set xrange [-0.5:{len(nodes) - 1}.5]",
        "set ylabel 'target'", f"set ytics ({tics['node']})",
        f"set yrange [{len(targets) - 1}.5:-0.5]"]
    for op, column in zip(OPS, (3, 6)):
        medians = [c["median"] / GBIT for t in targets for c in t.get(op, [])]
        if not medians:
            script.append("set multiplot next")
            continue
        # Nodes that are alike but for noise would else be red and green; a class apart is half of
        # this.
        least = min(min(medians), (1 - 2 * GAP) * max(medians))
        script += [
            f"set title 'device {op}, Gbit/s'", f"set cbrange [{least:.9g}:{max(medians):.9g}]",
            f"plot $cells using 2:1:(0.5):(0.5):{column} with boxxyerror fillstyle solid fillcolor "
            f"palette notitle, $cells using (${column} > 0 ? $2 : NaN):1:"
            f"(sprintf('%.1f', ${column})) with labels notitle"]
    script += ["set ylabel 'Gbit/s'", "set ytics autofreq", "set yrange [0:*]"]
    bars = ("$cells index {0} using ($2{1}):{2}:(0.38) with boxerrorbars fillstyle solid 0.5 title "
            "'device {3}'")
    for i, t in enumerate(targets):
        script.append(f"set title 'target {t['node']}: medians, first to ninth decile'")
        script.append("plot " + ", ".join(
            [bars.format(i, "-0.2", "3:4:5", "write"), bars.format(i, "+0.2", "6:7:8", "read")]))
    return gnuplot([*script, "unset multiplot"])


COMMAND = Command("model", "Measure copies between nodes, and group nodes that are alike.", [
    *OPTIONS,
    Option("save", "FILE", "keep the measurement there", text),
    Option("install", "", "keep it where rftp and rftpd look"),
    Option("from", "FILE", "measure nothing, take this kept measurement", text),
    Option("predict", "LIST", "bandwidth of mixed access, NODE:PERCENT,...", text, ""),
    Option("op", "write|read", "predict this (both)", one_of("write", "read"), ""),
    Option("plot", "FILE", "draw it, FILE.png or FILE.svg", text),
    JSON, SYSFS])
MEASURING = [o.name for o in OPTIONS if o.name != "target"]


def _check_place(path: str, complaint: str, make_directory: bool = False) -> None:
    """Before minutes of measuring: can a file be made there, take the place of one, or be written
    to a device? Failure."""
    directory = os.path.dirname(path) or "."
    with at_place(complaint):
        if make_directory:
            os.makedirs(directory, 0o755, exist_ok=True)
        there = Path(path)
        if there.exists() and not (there.is_file() or there.is_char_device()):
            raise OSError(EEXIST, path)
        tempfile.TemporaryFile(dir=directory).close()


def _measure(o: Options, machine: Machine) -> Model:
    with Stop():
        try:
            targets = measure(o)
        except Stopped:
            say("interrupted; nothing is kept")
            raise
    for t in targets:
        for op in OPS:
            t[op] = [make_cell(c["node"], c["rounds"]) for c in t[op]]
            classify(t[op], t["node"], machine.package(t["node"]))
    return {"rftp_numa_model": 1,
            "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "nodes": [{"id": n.id, "cpus": format_ids(n.cpus), "memory": n.memory or 0,
                       "distances": [*n.distances.values()]} for n in machine.nodes.values()],
            "targets": targets}


def main() -> None:
    o = parse(COMMAND, sys.argv[1:])
    if not o:
        return
    measured = o.from_ is None
    misuse_if(
        (not measured and any(getattr(o, name) for name in MEASURING),
         "--from measures nothing: no --threads, --size, --copies, --rounds"),
        (not measured and (o.save is not None or o.install),
         "--from has nothing to --save or --install"),
        (o.save is not None and o.install, "--save and --install exclude each other"),
        (o.sysfs is not None and measured, "--sysfs, another machine's, goes with --from"),
        (o.op and not o.predict, "--op goes with --predict"),
        (o.plot is not None and not re.fullmatch(r"(?is).+\.(png|svg)", o.plot),
         "--plot must be the name of a picture, FILE.png or FILE.svg"))
    shares = parse_shares(o.predict) if o.predict else []
    machine = read_machine(o.sysfs)
    kept = None if measured else read_model(o.from_, o.sysfs)
    keep = default_file() if o.install else o.save
    if keep is not None:
        _check_place(keep, f"the model cannot be kept as {printable(keep)} (--save FILE keeps it "
                     "elsewhere)", make_directory=o.install)
    if o.plot is not None:
        _check_place(o.plot, f"the picture cannot be kept as {printable(o.plot)}")
        if measured:
            gnuplot(["set print '-'", "print 'here'"])
    if measured:
        with at_place("no prediction"):
            for node, _ in shares:
                machine.node(node)
    unkept, m = list[str](), kept or _measure(o, machine)
    if not measured and o.target is not None:
        m["targets"] = [t for t in m["targets"] if t["node"] == o.target]
        if not m["targets"]:
            raise Failure(f"{printable(o.from_)}: has nothing of node {o.target} as target")
    if keep is not None:
        with failures_to(unkept.append):  # it is shown all the same: it took minutes
            own_program(["keep", "the model", keep], json_line(m))
    if not o.json:
        output(table(m, machine))
    found = predictions(m, shares, o.op) if shares else []
    if o.json:
        output(json_line({**m, "predictions": found} if shares else m))
    else:
        output("".join(f"device {p['op']} on node {p['target']} with {o.predict}: "
                       f"{p['bytes_per_second'] / GBIT:.3f} Gbit/s\n" for p in found))
    if o.plot is not None:
        terminal = "svg" if o.plot.lower().endswith("svg") else "pngcairo"
        own_program(["keep", "the picture", o.plot], picture(m, terminal))
    if unkept:
        raise Failure("")
