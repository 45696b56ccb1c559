# SPDX-License-Identifier: Apache-2.0
"""Throughput against block size, channels and round trip time, by gnuplot."""

import os

from sweep import gnuplot, quoted, short
from wan.report import best

PANEL = (460, 330)
SIDE = 190            # pixels for the legend
COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c564b", "#444444"]
VERBS, IPERF3 = "#000000", "#999999"


class Panel:
    """A picture within a picture: its title, and lines of points."""

    def __init__(self, title):
        self.title, self.lines = title, []

    def add(self, title, points, style):
        points = sorted(p for p in points if None not in p)
        if points:
            self.lines.append((title, points, style))

    def script(self, name):
        yield "set title " + quoted(self.title)
        if not self.lines:
            yield "set label 1 'no run succeeded' at graph 0.5,0.5 center"
            yield "plot [] [1:2] NaN notitle"
            yield "unset label 1"
            return
        parts = []
        for k, (title, points, style) in enumerate(self.lines):
            yield "$%s_%d << EOD" % (name, k)
            yield from ("%.10g %.10g" % (x, y / 1e6) for x, y in points)
            yield "EOD"
            parts.append("$%s_%d using 1:2 with %s title %s" % (name, k, style, quoted(title)))
        yield "plot " + ", \\\n     ".join(parts)


def line_style(k):
    return "linespoints linewidth 2 pointtype 7 pointsize 0.7 linecolor rgb '%s'" % \
        COLOURS[k % len(COLOURS)]


def dashed(colour, kind=2):
    return "linespoints linewidth 1.5 dashtype %d pointtype 6 pointsize 0.6 linecolor rgb '%s'" % (
        kind, colour)


def draw(directory, name, title, xlabel, axis, rows):
    """rows: lists of panels; name.svg and name.png."""
    width = PANEL[0] * max(map(len, rows)) + SIDE * max(map(len, rows))
    height = PANEL[1] * len(rows) + 50
    common = ["set encoding utf8", "set multiplot layout %d,%d title %s font ',14'" % (
        len(rows), max(map(len, rows)), quoted(title)),
              "set xlabel " + quoted(xlabel), "set ylabel 'MB/s (10^6 bytes)'",
              "set yrange [0:*]", "set key outside right top samplen 2 noenhanced",
              "set title noenhanced", "set grid linetype 1 linewidth 1 linecolor rgb '#d8d8d8'",
              "set border 3", "set tics nomirror",
              "set offsets graph 0.03, graph 0.03, graph 0.08, 0"] + axis
    script = list(common)
    for i, row in enumerate(rows):
        for k, panel in enumerate(row):
            script += panel.script("p%d_%d" % (i, k))
        script += ["set multiplot next"] * (max(map(len, rows)) - len(row))
    for kind in ("svg", "png"):
        gnuplot(os.path.join(directory, "%s.%s" % (name, kind)), width, height, script)


def log_axis(values, names):
    """By powers of two, with a tic for each value."""
    tics = ", ".join("'%s' %d" % (name, value) for value, name in zip(values, names))
    # A line of one point has no range of its own.
    return ["set logscale x 2", "set xtics (%s)" % tics,
            "set xrange [%g:%g]" % (min(values) / 1.3, max(values) * 1.3)] if values else []


def tops(groups, x, series):
    """{series: {x: the fastest median}}"""
    found = {}
    for group in groups:
        if group.median:
            of = found.setdefault(series(group), {})
            of[x(group)] = max(of.get(x(group), 0), group.median)
    return found


def way_title(path, op, direction):
    return "%s: %s %s" % (path, direction, op)


def against_setting(report, directory, kind, name, title, x, series, label, axis_names):
    rows, values = [], set()
    xlabel = {"block": "block size, bytes", "channels": "channels"}[x]
    for path in report.paths:
        row = []
        for k, op, direction in report.ways(path):
            if k != kind:
                continue
            panel = Panel(way_title(path, op, direction))
            ours = report.of(path=path, tool="rftp", kind=kind, op=op, direction=direction)
            found = tops(ours, lambda g: g.agreed(x), lambda g: g.agreed(series))
            for n, value in enumerate(sorted(v for v in found if v)):
                panel.add(label(value), found[value].items(), line_style(n))
                values.update(v for v in found[value] if v)
            verbs, iperf3 = raw_lines(report, path, op, direction, x)
            panel.add("ib_%s_bw" % op, verbs, dashed(VERBS))
            values.update(v for v, _ in verbs)
            # TCP beside Soft-RoCE, which is much slower, would leave no room for the other curves.
            if x == "channels" and op == "tcp":
                panel.add("iperf3", iperf3, dashed(IPERF3))
                values.update(v for v, _ in iperf3)
            row.append(panel)
        if row:
            rows.append(row)
    if rows and values:
        names = [axis_names(v) for v in sorted(values)]
        draw(directory, "%s-%s" % (name, kind), title, xlabel, log_axis(sorted(values), names),
             rows)


def raw_lines(report, path, op, direction, x):
    """Points of perftest and of iperf3."""
    way = "both" if direction == "both" else "put"
    verbs = tops(report.of(path=path, tool="verbs", op=op, direction=way),
                 lambda g: g.agreed(x), lambda g: 0).get(0, {})
    iperf3 = tops(report.of(path=path, tool="iperf3", direction=direction),
                  lambda g: g.agreed(x), lambda g: 0).get(0, {})
    return [p for p in verbs.items() if p[0]], [p for p in iperf3.items() if p[0]]


def against_rtt(report, directory, kind):
    """The best setting of each way and rftp's own choice, over all paths."""
    rtts = {path: report.of(path=path)[0].rtt_ms for path in report.paths}
    if len({round(r, 1) for r in rtts.values() if r is not None}) < 2:
        return False
    ways = list(dict.fromkeys(way for path in report.paths for way in report.ways(path)
                              if way[0] == kind))
    row = []
    for direction in dict.fromkeys(d for _, _, d in ways):
        panel = Panel(direction)
        for n, op in enumerate(op for _, op, d in ways if d == direction):
            way = {"kind": kind, "op": op, "direction": direction}
            for tool, style, title in (("rftp", line_style(n), "%s, best setting" % op),
                                       ("default", dashed(COLOURS[n]), "%s, defaults" % op)):
                panel.add(title, [(rtts[p], median(best(report.of(path=p, tool=tool, **way))))
                                  for p in report.paths], style)
            if op != "tcp":
                panel.add("ib_%s_bw" % op, [(rtts[p], median(report.raw(p, op, direction)[0]))
                                            for p in report.paths],
                          dashed(VERBS, 2 if op == "write" else 4))
        panel.add("iperf3", [(rtts[p], median(report.raw(p, "tcp", direction)[1]))
                             for p in report.paths], dashed(IPERF3))
        row.append(panel)
    if not row:
        return False
    draw(directory, "rtt-" + kind, "Throughput against round trip time, %s" % said(kind),
         "round trip time, ms",
         ["set yrange [*:*]", "set logscale y", "set offsets 0,0,0,0",
          "set xrange [0:%g]" % (1.05 * max(r for r in rtts.values() if r is not None))], [row])
    return True


def median(group):
    return group.median if group else None


def said(kind):
    return "%s to %s" % (kind, kind)


def plots(report, directory):
    for kind in dict.fromkeys(g.cell.kind for g in report.groups if g.cell.tool == "rftp"):
        against_setting(report, directory, kind, "block",
                        "Throughput against block size, %s" % said(kind), "block", "channels",
                        lambda v: "%d channel%s" % (v, "" if v == 1 else "s"), short)
        against_setting(report, directory, kind, "channels",
                        "Throughput against channels, %s" % said(kind), "channels", "block",
                        lambda v: "blocks of " + short(v), str)
        against_rtt(report, directory, kind)
