# SPDX-License-Identifier: Apache-2.0
"""The command "model": the bandwidth between nodes, which of them are alike, and predictions from
that (T. Li, dissertation, Stony Brook 2015, chapter 4)."""
from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rftp_numa.common import (GBIT, JSON, NODE_MOST, SYSFS, Failure, Misuse, Option, Options, Stop, count,
                              format_ids, format_size, json_line, one_of, output, own_program,
                              printable, quantile, run, say, size, system, take_options, text)
from rftp_numa.machine import Machine, read_machine

VERSION = 1
OPS = ("write", "read")

# Classes of nodes by their bandwidths. Class 1 is by definition the target and the nodes of its
# package. The others are sorted by bandwidth, and a border is drawn where all of this is so:
# - the gap between the medians of two neighbours is at least a tenth of the higher one;
# - it is wider than the spread of either's own rounds;
# - no node's rounds reach over its middle, on whichever side that node is.
# When there is no border between the others, and none by the same rule between the target and them,
# all nodes are in one class.
#
# On gaps: in the published tables the nodes of one class are up to 8.5 % apart, and classes at least
# 12.8 %. On the spread: from the first to the ninth decile, so that one disturbed round of ten does
# not hide a border. Between nodes that are alike, however noisy, ten rounds let fewer than one row of
# a thousand have a border; with quartiles it is nearly one of a hundred.
GAP = 0.10
ROUNDS_LEAST = 5


# A model is the JSON of its file, which rftp-numa(1) describes, and so are its parts: a cell is the
# bandwidth between the target and a node, of several rounds.
Model = dict[str, Any]
Target = dict[str, Any]
Cell = dict[str, Any]
Row = list[Cell]  # by rising node


def make_cell(node: int, rounds: Sequence[float]) -> Cell:
    """rounds: bytes per second."""
    low, median, high = (int(quantile(rounds, share) + .5) for share in (0.1, 0.5, 0.9))
    return {"node": node, "median": median, "low": low, "high": high, "rounds": len(rounds), "class": 1}


def cell_of(row: Row, node: int) -> Cell | None:
    return next((c for c in row if c["node"] == node), None)


def class_average(row: Row, number: int) -> float:
    """0: the class has no nodes."""
    members = [float(c["median"]) for c in row if c["class"] == number]
    return sum(members) / len(members) if members else 0


@dataclass
class Sight:
    """The number of classes, and the widest gap that has no border: what there is to say when it is
    one class, or when the spread hides one more."""
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
    if any(c["rounds"] < ROUNDS_LEAST for c in above + below):
        view = "few"
    elif gap < GAP * a["median"]:
        view = "alike"
    elif gap <= wider or any(c["low"] <= line for c in above) or any(c["high"] >= line for c in below):
        view = "noise"
    else:
        return True
    if sight.view == "alone" or gap / a["median"] > sight.gap:
        sight.view, sight.above, sight.below = view, a["node"], b["node"]
        sight.gap, sight.spread = gap / a["median"], wider / a["median"]
    return False


def classify(row: Row, target: int, near: frozenset[int]) -> Sight:
    """Gives each cell its class. near: the nodes of the target's package."""
    sight, local = Sight(), cell_of(row, target)
    for cell in row:
        cell["class"] = 1
    remote = sorted((c for c in row if c["node"] not in near), key=lambda c: (-c["median"], c["node"]))
    if not remote:
        return sight
    borders = 0
    for i, cell in enumerate(remote):
        borders += i > 0 and _border(remote[:i], remote[i:], sight)
        cell["class"] = borders + 2
    apart = False
    if local and not borders:  # are the others, as one group, another than the target? Maybe faster.
        if local["median"] >= remote[0]["median"]:
            apart = _border([local], remote, sight)
        elif remote[-1]["median"] > local["median"]:
            apart = _border(remote, [local], sight)
    if borders or apart:
        sight.hidden, sight.view, sight.classes = sight.view == "noise", "seen", borders + 2
    else:
        for cell in remote:
            cell["class"] = 1
    return sight


# ---- the model and its file -----------------------------------------------------------


def row_of(m: Model, target: int, op: str) -> Row:
    """Empty when it was not measured."""
    found: Row = next((t.get(op, []) for t in m["targets"] if t["node"] == target), [])
    return found


class _place:
    """Failures say where they are."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, why: BaseException | None, _trace: object) -> None:
        if isinstance(why, Failure):
            raise Failure("%s: %s" % (self.name, str(why))) from None


def default_file() -> str:
    """Where rftp and rftpd look for it."""
    return os.environ.get("RFTP_NUMA_MODEL") or "/var/lib/rftp/numa-model.json"


def keep_file(what: str, path: str, data: bytes) -> None:
    """Whole or not at all."""
    with Stop() as stop:
        own_program(["keep", "--", what, path], stop, data)


# ---- predictions ----------------------------------------------------------------------


def parse_shares(words: str) -> list[tuple[int, float]]:
    """Nodes and their parts of "2:50,0:50", percents with up to four decimals, which are 100 in sum.
    Misuse."""
    shares: dict[int, int] = {}
    for word in words.split(","):
        found = re.fullmatch(r"([0-9]{1,9}):([0-9]{1,9})(?:\.([0-9]{0,4}))?", word, re.ASCII)
        part = int(found[2]) * 10000 + int((found[3] or "").ljust(4, "0")) if found else -1
        if not found or int(found[1]) > NODE_MOST or not 0 <= part <= 1000000:
            raise Misuse("shares are NODE:PERCENT,..., as 2:50,0:50, not \"%s\"" % printable(words))
        if int(found[1]) in shares:
            raise Misuse("node %d has two shares in \"%s\"" % (int(found[1]), printable(words)))
        shares[int(found[1])] = part
    if sum(shares.values()) != 1000000:
        raise Misuse("the shares in \"%s\" are %g percent in sum, not 100" % (
            printable(words), sum(shares.values()) / 10000))
    return [(node, part / 1000000) for node, part in shares.items()]


def predict(row: Row, shares: Sequence[tuple[int, float]]) -> float:
    """The bandwidth of accesses with these shares: the sum of each times its node's class's
    average. Failure: a node was not measured."""
    sum_ = 0.0
    for node, part in shares:
        cell = cell_of(row, node)
        if not cell:
            raise Failure("node %d was not measured" % node)
        sum_ += class_average(row, cell["class"]) * part
    return sum_


def predictions(m: Model, o: Options) -> list[tuple[str, int, float]]:
    found = []
    for t in m["targets"]:
        for op in OPS:
            if op in t and o.op in (op, ""):
                with _place("no prediction for device %s on node %d" % (op, t["node"])):
                    found.append((op, t["node"], predict(t[op], parse_shares(o.predict))))
    if not found:
        raise Failure("no prediction: no device %ss were measured" % o.op)
    return found


# ---- for people -----------------------------------------------------------------------


def _cell_text(c: Cell | None) -> str:
    return "-" if not c else "%-8.2f%-17s%d" % (
        c["median"] / GBIT, "%.2f-%.2f" % (c["low"] / GBIT, c["high"] / GBIT), c["class"])


def _classes_text(row: Row, target: int, machine: Machine) -> str:
    classes = max(c["class"] for c in row)
    s = classify([dict(c) for c in row], target, machine.package(target))
    where, gap, spread = "between nodes %d and %d" % (s.above, s.below), 100 * s.gap, 100 * s.spread
    why = {
        "alone": "none: there is no other node to tell from it",
        "few": "none: they take %d rounds at least" % ROUNDS_LEAST,
        "alike": "none: the nodes are alike; the widest gap, %s, is %.1f %%, and it takes %.0f %%" % (
            where, gap, 100 * GAP),
        "noise": "none: too noisy; %s the gap is %.1f %%, but the rounds of a node spread over %.1f %% or "
                 "reach across; measure when the machine is idle" % (where, gap, spread),
        "seen": "all nodes in one",  # the file's word, and not ours
    }[s.view]
    if classes > 1:
        why = "; ".join("%d: %s (%.2f)" % (
            number, format_ids(c["node"] for c in row if c["class"] == number), class_average(row, number) / GBIT)
            for number in range(1, classes + 1))
    if s.hidden and s.classes == classes:
        why += ("\n    perhaps more: %s the gap is %.1f %%, but the rounds of a node spread over %.1f %%\n"
                "    or reach across; measure when the machine is idle" % (where, gap, spread))
    return why


def table(m: Model, machine: Machine) -> str:
    lines = ["measured " + printable(m["date"])]
    if len(m["nodes"]) == 1:
        lines.append("this machine has one node: there is nothing to compare it with")
    for t in m["targets"]:
        lines.append("target node %d: %d thread%s, a buffer of %s each, copied %d time%s a round" % (
            t["node"], t["threads"], "s"[:t["threads"] != 1], format_size(t["buffer"]), t["copies"], "s"[:t["copies"] != 1]))
        if t["placed"]:
            lines.append("    all pages of %s of buffers are on their nodes" % format_size(t["placed"]))
        lines += ["    %-6s%-34s%s" % ("", "device write: node to target", "device read: target to node"),
                  "    %-6s%-34s%s" % ("node", *["Gbit/s  deciles          class"] * 2)]
        for node in m["nodes"]:
            cells = [cell_of(t.get(op, []), node["id"]) for op in OPS]
            texts = [_cell_text(c) for c in cells] if any(cells) else ["left out", ""]
            lines.append(("    %-6d%-34s%s" % (node["id"], texts[0], texts[1])).rstrip())
        lines += ["    %s classes: %s" % (op, _classes_text(t[op], t["node"], machine))
                  for op in OPS if op in t]
    return "\n".join(lines) + "\n"


# ---- a picture ------------------------------------------------------------------------

ENDINGS = {".png": "pngcairo", ".svg": "svg"}  # of its name, and gnuplot's terminals


def _map_script(m: Model, op: str) -> list[str]:
    """A box and a number for each cell, by the nodes' places, for their numbers may have gaps."""
    medians = [c["median"] / GBIT for t in m["targets"] for c in t.get(op, [])]
    if not medians:
        return ["set multiplot next"]
    places = {node["id"]: i for i, node in enumerate(m["nodes"])}
    return [
        "$map%s << EOD" % op, *["%d %d %.3f" % (places[c["node"]], i, c["median"] / GBIT)
                                for i, t in enumerate(m["targets"]) for c in t.get(op, [])], "EOD",
        "set title \"device %s, Gbit/s\"" % op, *_node_tics(m),
        "set ytics (%s)" % ", ".join("\"%d\" %d" % (t["node"], i) for i, t in enumerate(m["targets"])),
        "set ylabel \"target\"", "set yrange [%d.5:-0.5]" % (len(m["targets"]) - 1),
        # Nodes that are alike but for noise would else be red and green; a class apart is half of this.
        "set cbrange [%.9g:%.9g]" % (min(min(medians), (1 - 2 * GAP) * max(medians)), max(medians)),
        "plot $map%s using 1:2:(0.5):(0.5):3 with boxxyerror fillstyle solid fillcolor palette notitle, "
        "$map%s using 1:2:(sprintf(\"%%.1f\", $3)) with labels notitle" % (op, op)]


def _node_tics(m: Model) -> list[str]:
    return ["set xtics (%s)" % ", ".join("\"%d\" %d" % (n["id"], i) for i, n in enumerate(m["nodes"])),
            "set xlabel \"node\"", "set xrange [-0.5:%d.5]" % (len(m["nodes"]) - 1)]


def _bars_script(m: Model, t: Target) -> list[str]:
    """Medians, with the spread from decile to decile."""
    lines = []
    for i, node in enumerate(m["nodes"]):
        cells = [cell_of(t.get(op, []), node["id"]) for op in OPS]
        lines.append("%d %s" % (i, " ".join("%.3f %.3f %.3f" % (
            c["median"] / GBIT, c["low"] / GBIT, c["high"] / GBIT) if c else "NaN NaN NaN" for c in cells)))
    return ["$bars%d << EOD" % t["node"], *lines, "EOD",
            "set title \"target %d: medians, first to ninth decile\"" % t["node"], *_node_tics(m),
            "set ytics autofreq", "set ylabel \"Gbit/s\"", "set yrange [0:*]",
            "plot " + ", ".join("$bars%d using ($1%s):%s:(0.38) with boxerrorbars fillstyle solid 0.5 title "
                                "\"device %s\"" % (t["node"], *bar) for bar in (
                                    ("-0.2", "2:3:4", "write"), ("+0.2", "5:6:7", "read")))]


def gnuplot(script: Sequence[str]) -> bytes:
    """The picture that gnuplot prints. No word of a user's is in the script. Failure."""
    with Stop() as stop:
        try:
            done = run(["gnuplot", "-d", "-"], stop, "\n".join([*script, ""]).encode())
        except FileNotFoundError:
            raise Failure("there is no gnuplot to draw with; install the package gnuplot-nox (Debian) or "
                          "gnuplot (RHEL)") from None
    if done.status:
        why = done.err.lstrip(" \t\r\n^").split("\n")[0]
        raise Failure("gnuplot could not draw it, status %d%s" % (
            done.status, why and ": " + printable(why)))
    if not done.out:
        raise Failure("gnuplot made no picture")
    return done.out


def draw(m: Model, path: str) -> None:
    rows = 1 + (len(m["targets"]) + 1) // 2
    picture = gnuplot([
        "set terminal %s size 1200,%d" % (ENDINGS[path[-4:].lower()], rows * 420),
        "set multiplot layout %d,2" % rows, "unset colorbox",
        "set palette defined (0 \"#e06060\", 1 \"#f0e0a0\", 2 \"#70b070\")",
        "set key outside bottom center horizontal", *_map_script(m, "write"), *_map_script(m, "read"),
        *[line for t in m["targets"] for line in _bars_script(m, t)], "unset multiplot"])
    keep_file("the picture", path, picture)


# ---- the command ----------------------------------------------------------------------


TABLE = [
    Option("target", "NODE", "only this node as target", count(0, NODE_MOST)),
    Option("threads", "N", "threads on the target (its cores)", count(1, 8192)),
    Option("size", "SIZE", "a thread's buffer (by the caches, 32M or more)", size(1 << 20, 1 << 40)),
    Option("copies", "N", "copies of it in a round (10)", count(1, 1000000)),
    Option("rounds", "N", "repetitions (10)", count(ROUNDS_LEAST, 1000)),
    Option("save", "FILE", "keep what was measured there", text),
    Option("install", "", "keep it where rftp and rftpd look"),
    Option("from", "FILE", "measure nothing, take what was kept there", text),
    Option("predict", "LIST", "bandwidth of mixed access, NODE:PERCENT,...", text, ""),
    Option("op", "write|read", "predict this (both)", one_of("write", "read"), ""),
    Option("plot", "FILE", "draw it, FILE.png or FILE.svg", text),
    JSON, SYSFS]


def _measuring(o: Options) -> dict[str, int]:
    """What is handed on to "rftp-numa measure"."""
    given = {name: getattr(o, name) for name in ("threads", "size", "copies", "rounds")}
    return {name: v for name, v in given.items() if v is not None}


def _check_options(o: Options) -> None:
    if o.from_ is not None and _measuring(o):
        raise Misuse("with --from nothing is measured: no --threads, --size, --copies, --rounds")
    if o.from_ is not None and (o.save is not None or o.install):
        raise Misuse("--save and --install keep what is measured, not what comes --from a file")
    if o.save is not None and o.install:
        raise Misuse("either --save or --install")
    if o.sysfs is not None and o.from_ is None:
        raise Misuse("--sysfs is another machine's, which cannot be measured here: it goes with --from")
    if o.op and not o.predict:
        raise Misuse("--op goes with --predict")
    if o.predict:
        parse_shares(o.predict)
    if o.plot is not None and (o.plot[-4:].lower() not in ENDINGS or len(o.plot) < 5):
        raise Misuse("a picture's name ends in .png or .svg, not as \"%s\"" % printable(o.plot))


def _check_place(path: str, make: bool, what: str) -> None:
    """Before minutes of measuring: can a file be made there, take the place of one, or be written to
    a device? make: its directory may be made for it. Failure."""
    directory, name = os.path.split(path)
    try:
        if os.path.exists(path):
            mode = os.stat(path).st_mode
            if not stat.S_ISREG(mode) and not stat.S_ISCHR(mode):
                raise IsADirectoryError(21, "") if stat.S_ISDIR(mode) else FileExistsError(17, "")
        if not name:
            raise FileNotFoundError(2, "")
        if make and directory:
            os.makedirs(directory, 0o755, exist_ok=True)
        os.stat(directory or ".")
        if not os.access(directory or ".", os.W_OK):
            raise PermissionError(13, "")
    except OSError as why:
        raise system(why, what) from why


def _measure(o: Options, machine: Machine) -> Model:
    words = [word for name, v in {"target": o.target, **_measuring(o)}.items() if v is not None
             for word in ("--" + name, str(v))]
    with Stop() as stop:
        try:
            found = own_program(["measure", *words], stop)
        except Failure:
            if stop.asked:
                say("interrupted; nothing is kept")
            raise
    for target in found["targets"]:
        for op in OPS:
            target[op] = [make_cell(c["node"], c["rounds"]) for c in target[op]]
            classify(target[op], target["node"], machine.package(target["node"]))
    return {"rftp_numa_model": VERSION, "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "nodes": [
        {"id": n.id, "cpus": format_ids(n.cpus), "memory": n.memory, "distances": n.distances}
        for n in machine.nodes], "targets": found["targets"]}


def _get(o: Options, machine: Machine) -> Model:
    if o.from_ is None:
        return _measure(o, machine)
    m: Model = machine.model
    if o.target is not None:
        m["targets"] = [t for t in m["targets"] if t["node"] == o.target]
        if not m["targets"]:
            raise Failure("%s: has nothing of node %d as target" % (printable(o.from_), o.target))
    return m


def _show(o: Options, m: Model, machine: Machine) -> None:
    if o.json:
        obj = dict(m)
        if o.predict:
            obj["predictions"] = [{"target": node, "op": op, "bytes_per_second": bw}
                                  for op, node, bw in predictions(m, o)]
        output(json_line(obj))
        return
    output(table(m, machine))
    if o.predict:
        output("".join("device %s on node %d with %s: %.3f Gbit/s\n" % (op, node, o.predict, bw / GBIT)
                       for op, node, bw in predictions(m, o)))


def main() -> None:
    o = take_options("model", "What copies between nodes cost, and which are alike.", TABLE)
    if not o:
        return
    _check_options(o)
    machine = read_machine(o.sysfs, model=o.from_)
    keep = default_file() if o.install else o.save
    if keep is not None:
        _check_place(keep, o.install, "the model cannot be kept as %s (--save FILE keeps it elsewhere)"
                     % printable(keep))
    if o.plot is not None:
        _check_place(o.plot, False, "the picture cannot be kept as " + printable(o.plot))
        if o.from_ is None:
            gnuplot(["set print '-'", "print 'here'"])
    if o.from_ is None:
        for node, _ in parse_shares(o.predict) if o.predict else []:
            if not machine.node(node):
                raise Failure("no prediction: there is no node %d (rftp-numa topo lists them)" % node)
    m, unkept = _get(o, machine), False
    if keep is not None:
        try:
            keep_file("the model", keep, json_line(m).encode())
        except Failure:
            unkept = True  # it is shown all the same: it took minutes
    _show(o, m, machine)
    if o.plot is not None:
        draw(m, o.plot)
    if unkept:
        raise Failure("")
