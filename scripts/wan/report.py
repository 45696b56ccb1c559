# SPDX-License-Identifier: Apache-2.0
"""The results of a sweep: medians, ratios, recommendations."""

import json
import statistics

from sweep import columns, number, size
from wan.cells import AUTO, CELL, WORDS, Cell

ORDER = {key: WORDS[key] for key in ("kind", "direction", "op")}
AGREED = ("block", "channels", "inflight")


def real(text):
    return float(text) if text not in ("", None) else None


class Group:
    """All runs of a cell."""

    def __init__(self, cell, rows):
        self.cell = cell
        self.ok = [row for row in rows if row["status"] == "ok"]
        self.errors = [row["error"] for row in rows if row["status"] != "ok"]
        self.rates = {int(row["round"]): float(row["bytes_per_second"]) for row in self.ok}
        self.median = statistics.median(self.rates.values()) if self.rates else None
        self.rtt_ms = median_of(row["rtt_ms"] for row in rows)

    def cpu_per_gb(self, host=False):
        """Of both ends' programs, or of all the host."""
        values = []
        for row in self.ok:
            parts = [real(row[key]) for key in (["cpu_host"] if host else
                                                ["cpu_here", "cpu_there"])]
            if None not in parts and real(row["bytes"]):
                values.append(sum(parts) / real(row["bytes"]) * 1e9)
        return statistics.median(values) if values else None

    def agreed(self, what):
        """The number that rftp has really used; the requested one where rftp did not tell."""
        told = median_of(row["agreed_" + what] for row in self.ok)
        asked = getattr(self.cell, what)
        if told is not None:
            return int(told)
        return size(asked) if asked != AUTO and what == "block" else \
            int(asked) if asked.isdigit() else None

    def bytes_in_flight(self):
        return (self.agreed("inflight") or 0) * (self.agreed("block") or 0)

    def setting(self):
        return (self.cell.op, self.cell.block, self.cell.channels, self.cell.inflight)


def median_of(words):
    values = [real(word) for word in words if word not in ("", None)]
    return statistics.median(values) if values else None


def groups_of(rows):
    """By cell, in an order for reading, for they were measured in none."""
    cells = {}
    for row in rows:
        cells.setdefault(Cell(*(row[f] for f in CELL)), []).append(row)
    return [Group(cell, of) for cell, of in sorted(cells.items(), key=lambda item: [
        order.index(getattr(item[0], key)) for key, order in ORDER.items()])]


def best(groups):
    return max((g for g in groups if g.median), key=lambda g: g.median, default=None)


def ratio(of, to):
    """The median of the ratios of runs in the same round."""
    if of is None or to is None:
        return None
    pairs = [of.rates[r] / to.rates[r] for r in of.rates if to.rates.get(r)]
    return statistics.median(pairs) if pairs else None


class Report:
    def __init__(self, rows, known, within):
        """known: the content of settings.json"""
        self.settings, self.facts = known["settings"], known.get("facts", {})
        self.groups, self.within = groups_of(rows), within
        known = list(self.facts.get("hosts", {}))
        self.paths = sorted(dict.fromkeys(g.cell.path for g in self.groups),
                            key=lambda path: known.index(path) if path in known else len(known))

    def of(self, **words):
        return [g for g in self.groups
                if all(getattr(g.cell, key) == value for key, value in words.items())]

    def ways(self, path):
        """(kind, op, direction) of the runs of rftp"""
        return list(dict.fromkeys((g.cell.kind, g.cell.op, g.cell.direction)
                                  for g in self.of(path=path)
                                  if g.cell.tool in ("rftp", "default")))

    def raw(self, path, op, direction):
        """The fastest of perftest with this operation, and of iperf3."""
        way = "both" if direction == "both" else "put"
        return (best(self.of(path=path, tool="verbs", op=op, direction=way)),
                best(self.of(path=path, tool="iperf3", direction=direction)))

    # ---- the table ----

    def line(self, group):
        cell = group.cell
        verbs, iperf3 = self.raw(cell.path, cell.op, cell.direction)
        rates = sorted(group.rates.values())
        return {
            "path": cell.path, "rtt_ms": group.rtt_ms, "kind": cell.kind, "op": cell.op,
            "direction": cell.direction, "setting": cell.tool,
            "block": group.agreed("block"), "channels": group.agreed("channels"),
            "inflight": group.agreed("inflight"), "runs": len(rates),
            "bytes_per_second": group.median, "least": rates[0], "most": rates[-1],
            "to_verbs": ratio(group, verbs), "to_iperf3": ratio(group, iperf3),
            "cpu_seconds_per_gb": group.cpu_per_gb(),
            "host_cpu_seconds_per_gb": group.cpu_per_gb(host=True),
        }

    def table(self):
        """A line for the best setting of each way, for rftp's own choice and for the tools that they
        are compared with."""
        lines = []
        for path in self.paths:
            for kind, op, direction in self.ways(path):
                way = {"path": path, "kind": kind, "op": op, "direction": direction}
                for tool in ("rftp", "default"):
                    group = best(self.of(tool=tool, **way))
                    lines += [self.line(group)] if group else []
            for tool in ("verbs", "iperf3"):
                for op, direction in dict.fromkeys((g.cell.op, g.cell.direction) for g in
                                                   self.of(path=path, tool=tool)):
                    group = best(self.of(path=path, tool=tool, op=op, direction=direction))
                    lines += [self.line(group)] if group else []
        return lines

    def shown_table(self):
        head = ["path", "what", "way", "block", "ch.", "infl.", "MB/s", "(least..most)",
                "x verbs", "x iperf3", "CPU s/GB", "host"]
        lines = [head]
        for line in self.table():
            what = {"rftp": "rftp, best", "default": "rftp, defaults", "iperf3": "iperf3",
                    "verbs": "ib_%s_bw" % line["op"]}[line["setting"]]
            op = "" if line["setting"] == "verbs" else " " + line["op"]
            kind = " file" if line["kind"] == "file" else ""
            lines.append([
                line["path"], what, line["direction"] + op + kind,
                number(line["block"] and line["block"] / 1024, "%.0fK"),
                number(line["channels"], "%d"), number(line["inflight"], "%d"),
                number(line["bytes_per_second"] / 1e6, "%.1f"),
                "(%.1f..%.1f)" % (line["least"] / 1e6, line["most"] / 1e6),
                number(line["to_verbs"]), number(line["to_iperf3"]),
                number(line["cpu_seconds_per_gb"]), number(line["host_cpu_seconds_per_gb"])])
        yield from columns(lines, 3)

    def failures(self):
        """Errors, with the cells and runs that had them."""
        seen = {}
        for group in self.groups:
            for error in group.errors:
                seen.setdefault((group.cell.path, group.cell.tool, error), []).append(group.cell)
        for (_, _, error), of in seen.items():
            some = str(of[0]) if len(set(of)) == 1 else "%d cells, as %s" % (
                len(set(of)), of[0])
            yield "%s (%d run%s): %s" % (some, len(of), "" if len(of) == 1 else "s", error)

    def not_measured(self):
        for path in self.paths:
            for tool, why in self.facts.get("not_measured", {}).get(path, {}).items():
                yield "%s: %s not measured: %s" % (path, tool, why)

    # ---- recommendations ----

    def recommend(self, path):
        """The cheapest setting, fewest channels first, then least in flight, that is good for
        all that was measured on a path and has not failed, when there is one that has not; and
        its ratio to the best of each way. Or None."""
        ways = {}
        for g in self.of(path=path, tool="rftp"):
            if not any(same.median for same in self.of(path=path, tool="rftp", kind=g.cell.kind,
                                                       direction=g.cell.direction)):
                continue
            ways.setdefault((g.cell.kind, g.cell.direction), {})[g.setting()] = g
        if not ways:
            return None
        scores, failing = {}, set()
        for setting in dict.fromkeys(s for of in ways.values() for s in of):
            found = [of.get(setting) for of in ways.values()]
            if all(g and g.median for g in found):
                scores[setting] = min(g.median / best(of.values()).median
                                      for g, of in zip(found, ways.values()))
                if any(g.errors for g in found):
                    failing.add(setting)
        if not scores:
            return None
        # A setting that failed in some rounds is recommended only if all others failed, too.
        scores = {s: score for s, score in scores.items() if s not in failing} or scores
        enough = max(scores.values()) * (1 - self.within / 100)

        def cost(setting):
            of = [way[setting] for way in ways.values()]
            return (max(g.agreed("channels") or 0 for g in of),
                    max(g.bytes_in_flight() for g in of), max(g.agreed("block") or 0 for g in of))

        chosen = min((s for s in scores if scores[s] >= enough), key=cost)
        return {"path": path, "op": chosen[0], "block": chosen[1], "channels": chosen[2],
                "inflight": chosen[3], "score": scores[chosen], "fails": chosen in failing,
                "reached": max(scores.values()),
                "ways": [self.line(of[chosen]) | {"to_best": of[chosen].median /
                                                  best(of.values()).median}
                         for of in ways.values()],
                "blocks_in_flight": Cell(*[""] * 5, *chosen[1:]).blocks_in_flight()}

    def section(self, path, host):
        """Of rftp.conf, as lines."""
        found = self.recommend(path)
        if not found:
            return ["# %s: nothing to recommend, for no setting came through wherever "
                    "another did" % path]
        rtt = self.of(path=path)[0].rtt_ms
        lines = ["# %s%s: the cheapest setting within %g %% of the best%s" % (
            path, "" if rtt is None else ", RTT %.1f ms" % rtt, self.within,
            "" if found["score"] >= 1 - self.within / 100 else
            " compromise, which has %.2f of the best of each way or more" % found["reached"])]
        lines += ["# Some of its runs failed, as of all others"] if found["fails"] else []
        lines += ["# Measured with --prot %s%s" % (
            self.settings["prot"], ", --crc off" if self.settings.get("crc") == "off" else "")
                  ] if "prot" in self.settings else []
        for way in found["ways"]:
            lines.append("# %s, %s: %.1f MB/s, %.2f of the best setting, CPU %s s/GB" % (
                way["kind"], way["direction"], way["bytes_per_second"] / 1e6, way["to_best"],
                number(way["cpu_seconds_per_gb"])))
        lines.append("[host %s]" % host)
        lines += ["transport tcp"] if found["op"] == "tcp" else ["op " + found["op"]]
        for key, value in (("channels", found["channels"]), ("block", found["block"]),
                           ("inflight", found["blocks_in_flight"])):
            if value not in (AUTO, None):
                lines.append("%s %s" % (key, value))
        return lines

    # ---- JSON ----

    def as_json(self):
        cells = []
        for group in self.groups:
            rates = sorted(group.rates.values())
            cells.append({**dict(zip(CELL, (getattr(group.cell, f) for f in CELL))),
                          "rtt_ms": group.rtt_ms, "runs": len(rates),
                          "bytes_per_second": group.median,
                          "least": rates[0] if rates else None,
                          "most": rates[-1] if rates else None,
                          "agreed": {key: group.agreed(key) for key in AGREED},
                          "cpu_seconds_per_gb": group.cpu_per_gb(),
                          "host_cpu_seconds_per_gb": group.cpu_per_gb(host=True),
                          "errors": group.errors})
        return {"settings": self.settings, "facts": self.facts, "cells": cells,
                "table": self.table(), "not_measured": list(self.not_measured()),
                "recommended": [self.recommend(path) for path in self.paths]}


def write_json(path, value):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(value, f, indent=1)
        f.write("\n")
