# SPDX-License-Identifier: Apache-2.0
"""The report of a copy: bytes, files and rates, the slowest list and the reason, failures, and a
drawing of the rates over time."""
from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from html import escape
from typing import Any

from rftp_common import (at_place, file_text, format_rate, format_size, json_line, load_json,
                         printable, read_text, write_file)

from . import state
from .state import State

FAILURES_MOST = 100  # of a list
POINTS_MOST = 2000  # of the drawing


# ---- runs, by the events of a list ----------------------------------------------------


@dataclass
class Run:
    """One rftp of a list."""
    host: str
    begun: float  # seconds since 1970
    points: list[tuple[float, int]] = field(default_factory=list)  # seconds since then, bytes moved
    held_back: str = ""  # the stage that held it back most
    failures: list[dict[str, str]] = field(default_factory=list)

    @property
    def ended(self) -> float:
        return self.begun + self.seconds

    @property
    def seconds(self) -> float:
        return self.points[-1][0] if self.points else 0.0

    @property
    def bytes(self) -> int:
        return self.points[-1][1] if self.points else 0


def mark(path: str, at: float, host: str) -> None:
    """Begins a run in the events of a list. A killed rftp may have left half a line."""
    with at_place(printable(path)), open(path, "a", encoding="utf-8") as file:
        file.write("\n" + json_line({"event": "run", "at": at, "host": host}))


def runs(copy: State, number: int) -> list[Run]:
    found: list[Run] = []
    before = (0.0, 0)  # of the transfers of this rftp that have ended; each counts from 0
    for event in state.lines(copy.file(f"shard-{number}.jsonl")):
        kind = event.get("event")
        if kind == "run":
            found.append(Run(event["host"], event["at"]))
            before = (0.0, 0)
        elif not found:
            continue
        elif kind == "started":
            before = (found[-1].seconds, found[-1].bytes)
        elif kind == "progress":
            found[-1].points.append((before[0] + event.get("seconds", 0.0), before[1] +
                                     event.get("bytes", 0) - event.get("bytes_kept", 0)))
        elif kind == "summary":
            found[-1].points.append((max(found[-1].seconds, event.get("seconds", 0.0)),
                                     event.get("bytes", 0)))
            stages = event.get("stages") or {}
            if any(stages.values()):
                found[-1].held_back = max(stages, key=lambda name: float(stages[name]))
        elif kind == "file_failed" and len(found[-1].failures) < FAILURES_MOST:
            found[-1].failures.append({key: event.get(key, "") for key in ("path", "text")})
    return found


def busy(all_runs: Iterable[Run]) -> float:
    """The seconds in which at least one of them ran."""
    seconds, until = 0.0, 0.0
    for run in sorted(all_runs, key=lambda run: run.begun):
        seconds += max(0.0, run.ended - max(run.begun, until))
        until = max(until, run.ended)
    return seconds


# ---- the report -----------------------------------------------------------------------


def _list(copy: State, p: state.Progress, its: list[Run], complete: bool) -> dict[str, Any]:
    failures = its[-1].failures if its and not p.complete else []
    if not failures and not p.complete and not complete:
        last = file_text(copy.file(f"shard-{p.number}.log")).split("\n")[-1]
        host = (p.number - 1) // copy.job["tasks_per_node"] + 1
        failures = [{"path": os.path.basename(p.list), "text": last or f"see host-{host}.log"}]
    return {"number": p.number, "host": its[-1].host if its else "", "items": p.items,
            "done": p.done, "bytes": p.moved, "begun": its[0].begun if its else 0,
            "seconds": busy(its), "held_back_by": its[-1].held_back if its else "",
            "failures": failures}


def make(copy: State, complete: bool) -> dict[str, Any]:
    plan, progress = copy.planned(), state.progress(copy)
    by_list = {p.number: runs(copy, p.number) for p in progress}
    lists = [_list(copy, p, by_list[p.number], complete) for p in progress]
    by_host: dict[str, list[Run]] = {}
    for run in (run for its in by_list.values() for run in its):
        by_host.setdefault(run.host, []).append(run)
    amounts = {host: (sum(run.bytes for run in its), busy(its)) for host, its in by_host.items()}
    seconds = busy(run for its in by_list.values() for run in its)
    moved = sum(p.moved for p in progress)
    return {
        "id": copy.id, "submission": copy.job["submission"], "complete": complete, "bytes": moved,
        "files": plan["files"], "items": sum(p.items for p in progress),
        "done": sum(p.done for p in progress), "seconds": seconds,
        "bytes_per_second": moved / seconds if seconds else 0.0,
        "hosts": [{"host": host, "bytes": its, "seconds": took, "bytes_per_second":
                   its / took if took else 0.0} for host, (its, took) in sorted(amounts.items())],
        "slowest": max((item for item in lists if item["seconds"]), default=None,
                       key=lambda item: float(item["seconds"])),
        "missing": [p.number for p in progress if not p.complete and not complete], "lists": lists,
        "runs": [{"list": number, **asdict(run)} for number, its in by_list.items() for run in its]}


def text(found: dict[str, Any]) -> str:
    amount = (f"{found['files']} files" if found["complete"] else
              f"{found['done']} of {found['items']} items")
    lines = [f"{found['id']}: {'complete' if found['complete'] else 'not complete'}: {amount}, "
             f"{format_size(found['bytes'])} in {found['seconds']:.0f} s, "
             f"{format_rate(found['bytes_per_second'])}"]
    lines += [f"  {h['host']}  {format_size(h['bytes'])}, {format_rate(h['bytes_per_second'])}"
              for h in found["hosts"]]
    slow = found["slowest"]
    if slow:
        why = f", held back by {slow['held_back_by']}" if slow["held_back_by"] else ""
        lines.append(f"  slowest: list {slow['number']} on {slow['host']}, {slow['seconds']:.0f} s"
                     f"{why}")
    failures = [f for item in found["lists"] for f in item["failures"]]
    verdict = "left to the last job" if found["complete"] else "failed"
    lines += [f"  {verdict}: {printable(f['path'])}: {printable(f['text'])}" for f in failures[:10]]
    if len(failures) > 10:
        lines.append(f"  and {len(failures) - 10} more in report.json")
    if not found["complete"]:
        where = f"list {', '.join(map(str, found['missing']))}" if found["missing"] else \
            "finish-shards; see finish.log"
        lines.append(f"  not done: {where} (rftp-slurm retry {found['id']} continues)")
    return "\n".join(lines) + "\n"


def write(copy: State, found: dict[str, Any]) -> None:
    """report.json last, because its reader may then look for the others."""
    write_file(copy.file("rates.svg"), drawing(found), 0o644)
    shown = {key: value for key, value in found.items() if key != "runs"}
    write_file(copy.file("report.txt"), text(found), 0o644)
    write_file(copy.file("report.json"), json.dumps(shown, indent=2) + "\n", 0o644)


def read(copy: State) -> dict[str, Any] | None:
    """The report of the present submission, if there is one."""
    place = copy.file("report.json")
    if not copy.exists("report.json"):
        return None
    found = load_json(read_text(place, state.MOST), printable(place))
    assert isinstance(found, dict)
    return found if found["submission"] == copy.job["submission"] else None


# ---- the drawing ----------------------------------------------------------------------

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 800, 400, 90, 40, 40


def rates(all_runs: list[dict[str, Any]]) -> list[tuple[float, float]]:
    """Seconds since the first run began, and the bytes per second of all runs then."""
    all_runs = [run for run in all_runs if run["points"]]
    if not all_runs:
        return []
    start = min(run["begun"] for run in all_runs)
    long = max(run["begun"] + run["points"][-1][0] for run in all_runs) - start
    step = max(1.0, long / POINTS_MOST)
    sums = [0.0] * (int(long / step) + 1)
    for run in all_runs:
        at, had = run["begun"] - start, 0
        for seconds, moved in run["points"]:
            until = run["begun"] - start + seconds
            # Each step gets its share of the time since the last point.
            for i in range(int(at / step), int(until / step) + 1):
                share = min(until, (i + 1) * step) - max(at, i * step)
                sums[i] += max(0, moved - had) * (share / (until - at) if until > at else 1)
            at, had = until, moved
    return [(i * step, total / step) for i, total in enumerate(sums)]


def drawing(found: dict[str, Any]) -> str:
    points = rates(found["runs"])
    most = max((rate for _, rate in points), default=0.0) or 1.0
    long = max((at for at, _ in points), default=0.0) or 1.0
    width, height = WIDTH - LEFT - 20, HEIGHT - TOP - BOTTOM
    line = " ".join(f"{LEFT + at / long * width:.1f},{TOP + height - rate / most * height:.1f}"
                    for at, rate in points)
    marks = "".join(
        f'<line x1="{LEFT}" y1="{y:.1f}" x2="{LEFT + width}" y2="{y:.1f}" stroke="#ddd"/>'
        f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{format_rate(most * part)}</text>'
        f'<text x="{LEFT + width * part:.1f}" y="{HEIGHT - 12}" text-anchor="middle">'
        f'{long * part:.0f} s</text>'
        for part in (0.0, 0.25, 0.5, 0.75, 1.0) for y in [TOP + height * (1 - part)])
    title = (f"{found['id']}: {format_size(found['bytes'])}, "
             f"{format_rate(found['bytes_per_second'])}")
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
            f'font-family="sans-serif" font-size="12">'
            f'<rect width="100%" height="100%" fill="white"/>'
            f'<text x="{LEFT}" y="22" font-size="14">{escape(title)}</text>{marks}'
            f'<polyline points="{line}" fill="none" stroke="#0060a0" stroke-width="1.5"/></svg>\n')
