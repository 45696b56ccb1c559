# SPDX-License-Identifier: Apache-2.0
"""The cells of a sweep, and the file with its runs."""

import argparse
import csv
import dataclasses
import itertools
import json
import os
import random

from sweep import Failure, UNITS, count, short, size

BLOCK_LEAST, BLOCK_MOST = 64 << 10, 64 << 20
CHANNELS_MOST = 256
IPERF_STREAMS_MOST = 128
AUTO = "auto"

# rftp: with these settings. default: rftp with none of them. verbs: ib_write_bw, ib_read_bw.
CELL = ["path", "tool", "kind", "op", "direction", "block", "channels", "inflight"]
RESULT = ["status", "exit", "bytes", "seconds", "bytes_per_second", "cpu_here", "cpu_there",
          "cpu_host", "agreed_transport", "agreed_block", "agreed_channels", "agreed_inflight",
          "error"]
FIELDS = CELL + ["round", "rtt_ms"] + RESULT
WORDS = {"tool": ["rftp", "default", "verbs", "iperf3"], "kind": ["memory", "file"],
         "op": ["write", "read", "tcp"], "direction": ["put", "get", "both"]}
NUMBERS = ["rtt_ms", "bytes", "seconds", "bytes_per_second", "cpu_here", "cpu_there", "cpu_host",
           "agreed_block", "agreed_channels", "agreed_inflight"]


@dataclasses.dataclass(frozen=True)
class Cell:
    """Words, as they stand in the file; block, channels and inflight may be "auto"."""
    path: str
    tool: str
    kind: str
    op: str
    direction: str
    block: str
    channels: str
    inflight: str

    def __str__(self):
        return "%s: %s, %s, %s, %s, block %s, channels %s, inflight %s" % (
            self.path, self.tool, self.kind, self.op, self.direction, self.block, self.channels,
            self.inflight)

    def blocks_in_flight(self):
        """The value of rftp's --inflight: a number of blocks; None: rftp's own choice."""
        if self.inflight == AUTO:
            return None
        if self.inflight.isdigit():
            return int(self.inflight)
        return max(2, -(-size(self.inflight) // size(self.block)))


# ---- words of the command line -----------------------------------------------------

def block(text):
    if text == AUTO:
        return text
    number = size(text)
    if not BLOCK_LEAST <= number <= BLOCK_MOST:
        raise argparse.ArgumentTypeError("a block of %s: from 64K to 64M, or auto" % text)
    return short(number)


def channels(text):
    if text == AUTO:
        return text
    number = count(text)
    if number > CHANNELS_MOST:
        raise argparse.ArgumentTypeError("%s channels: from 1 to %d, or auto" % (
            text, CHANNELS_MOST))
    return str(number)


def inflight(text):
    if text == AUTO:
        return text
    if text[-1:] in UNITS and text[-1:]:
        return short(size(text))
    if count(text) < 2:
        raise argparse.ArgumentTypeError("%s in flight: from 2 blocks, a size, or auto" % text)
    return str(int(text))


# ---- the cells ---------------------------------------------------------------------

def extremes(words):
    """The fewest and the most channels, without twice the same."""
    numbers = sorted(int(word) for word in words if word != AUTO) or [1]
    return sorted({numbers[0], numbers[-1]})


def ours(options, path):
    cells = []
    for kind, op, direction in itertools.product(options.kind, options.op, options.direction):
        if kind == "file" and direction == "both":
            continue
        cells += [Cell(path, "rftp", kind, op, direction, *rest) for rest in itertools.product(
            options.block, options.channels, options.inflight)]
        if options.defaults:
            cells.append(Cell(path, "default", kind, op, direction, AUTO, AUTO, AUTO))
    return cells


def raw(options, path):
    """The cells of the tools that rftp is compared with: always memory to memory."""
    blocks = [word for word in options.block if word != AUTO] or ["1M"]
    ways = sorted({"both" if word == "both" else "put" for word in options.direction})
    cells = [Cell(path, "verbs", "memory", op, way, size_, str(pairs), AUTO)
             for op in options.op if op != "tcp" for way in ways
             for size_ in blocks for pairs in extremes(options.channels)]
    streams = sorted({min(n, IPERF_STREAMS_MOST) for n in extremes(options.channels)})
    return cells + [Cell(path, "iperf3", "memory", "tcp", way, AUTO, str(n), AUTO)
                    for way in options.direction for n in streams]


def cells_of(options, path, with_raw):
    """All cells of a path, each once; a list by commas may name something twice."""
    return list(dict.fromkeys(ours(options, path) + (raw(options, path) if with_raw else [])))


def in_turns(cells, round_):
    """An order that is the round's own, and the same when the sweep is gone on with."""
    order = list(cells)
    random.Random(round_).shuffle(order)
    return order


# ---- the directory of a sweep ------------------------------------------------------

class Record:
    """runs.csv, a line for each run as it ends, and settings.json, by which a sweep that is
    gone on with is known to be the same one."""

    def __init__(self, directory, settings, facts):
        self.directory, self.rows = directory, {}
        self.known = {"settings": settings, "facts": facts}
        try:
            os.makedirs(directory, exist_ok=True)
            self.open(settings)
        except OSError as e:
            raise Failure("%s: %s" % (e.filename or directory, e.strerror)) from e

    def name(self, name):
        return os.path.join(self.directory, name)

    def open(self, settings):
        runs = self.name("runs.csv")
        known = os.path.exists(runs) and cut_torn_line(runs)
        if known:
            self.load(runs)
        # Settings of a sweep without a run (they were wrong, for example) do not count.
        if self.rows:
            self.compare(settings)
        self.facts()
        self.file = open(runs, "a", newline="", encoding="utf-8")
        self.writer = csv.DictWriter(self.file, FIELDS)
        if not known:
            self.writer.writeheader()
            self.file.flush()

    def facts(self, **more):
        """Write further facts to settings.json."""
        self.known["facts"].update(more)
        with open(self.name("settings.json.new"), "w", encoding="utf-8") as f:
            json.dump(self.known, f, indent=1)
            f.write("\n")
        os.rename(self.name("settings.json.new"), self.name("settings.json"))

    def compare(self, settings):
        before = load_settings(self.directory)["settings"]
        other = sorted(key for key in {**before, **settings}
                       if before.get(key) != settings.get(key))
        if other:
            raise Failure("%s holds a sweep with other settings (%s): give the same, or another "
                          "--out" % (self.directory, ", ".join(
                              "%s was %s" % (key, json.dumps(before.get(key))) for key in other)))

    def load(self, path):
        for row in load_runs(path):
            self.rows[self.key(Cell(*(row[f] for f in CELL)), int(row["round"]))] = row

    @staticmethod
    def key(cell, round_):
        return dataclasses.astuple(cell) + (round_,)

    def has(self, cell, round_, failed_too=True):
        row = self.rows.get(self.key(cell, round_))
        return row is not None and (failed_too or row["status"] == "ok")

    def hopeless(self, cell, round_):
        """A tool that rftp is compared with is not tried again when it has always failed: each try
        may last until its time limit."""
        before = [row["status"] for row in (self.rows.get(self.key(cell, k))
                                            for k in range(round_)) if row]
        return cell.tool in ("verbs", "iperf3") and before and "ok" not in before

    def add(self, cell, round_, rtt_ms, result):
        row = {**dataclasses.asdict(cell), "round": str(round_),
               "rtt_ms": "" if rtt_ms is None else "%.3f" % rtt_ms,
               **{key: "" for key in RESULT}, **result}
        self.rows[self.key(cell, round_)] = row
        self.writer.writerow(row)
        self.file.flush()

    def close(self):
        self.file.close()


def cut_torn_line(path):
    """Cut a line that was not written to its end, so that its run is made again. Returns the size of
    the file; a file of another program is not cut."""
    head = ",".join(FIELDS).encode() + b"\r\n"
    with open(path, "rb+") as f:
        whole = f.read()
        if whole[:len(head)] != head[:len(whole)]:
            raise Failure("%s: is there, and is not of scripts/wan-loopback" % path)
        end = whole.rfind(b"\n") + 1
        if end != len(whole):
            f.truncate(end)
        return end


def load_settings(directory):
    try:
        with open(os.path.join(directory, "settings.json"), encoding="utf-8") as f:
            found = json.load(f)
        if not isinstance(found.get("settings"), dict):
            raise ValueError("no settings")
        return found
    except OSError as e:
        raise Failure("%s: %s" % (e.filename, e.strerror)) from e
    except (ValueError, AttributeError) as e:
        raise Failure("%s/settings.json: is not of scripts/wan-loopback: %s" % (
            directory, e)) from e


def is_whole(row):
    """As it was written: numbers are numbers, and a run that came through has moved something."""
    if None in row or None in row.values() or not row["round"].isdecimal() or \
       row["status"] not in ("ok", "failed") or \
       any(row[key] not in words for key, words in WORDS.items()):
        return False
    try:
        for key, check in (("block", block), ("channels", channels), ("inflight", inflight)):
            check(row[key])
        numbers = {key: float(row[key]) for key in NUMBERS if row[key]}
    except (ValueError, argparse.ArgumentTypeError):
        return False
    return all(0 <= n < float("inf") for n in numbers.values()) and \
        (row["status"] == "failed" or numbers.get("bytes_per_second", 0) > 0)


def load_runs(path):
    """Its rows; a run that was made again stands later, and is the one that counts."""
    try:
        with open(path, newline="", encoding="utf-8") as f:
            reader = csv.DictReader(f)
            if reader.fieldnames != FIELDS:
                raise Failure("%s: is there, and is not of scripts/wan-loopback" % path)
            rows = list(reader)
    except OSError as e:
        raise Failure("%s: %s" % (path, e.strerror)) from e
    except (csv.Error, ValueError) as e:
        raise Failure("%s: a damaged line: %s" % (path, e)) from e
    latest = {}
    for row in rows:
        if not is_whole(row):
            raise Failure("%s: a damaged line: %s" % (path, row))
        latest[tuple(row[f] for f in CELL) + (row["round"],)] = row
    return list(latest.values())
