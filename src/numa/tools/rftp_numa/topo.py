# SPDX-License-Identifier: Apache-2.0
"""The command "topo": the nodes of this machine, and their devices."""
from __future__ import annotations

import json
import sys
from typing import Any

from rftp_common import JSON, Command, Option, format_size, output, parse, printable, text
from rftp_machine import SYSFS, topology

TITLES = {"network": "network", "rdma": "RDMA", "disks": "disks"}


def _device(kind: str, d: dict[str, Any]) -> str:
    line, mbps = printable(d["name"]), d.get("mbps", 0)
    if mbps:
        line += f" {mbps / 1000:g} Gbit/s" if mbps >= 1000 else f" {mbps} Mbit/s"
    if kind == "disks":
        line += f" {format_size(d['bytes'])}"
    return line + (f" (nodes {d['nodes']})" if "nodes" in d else "")


def _devices(place: dict[str, Any]) -> list[str]:
    return [f"    {title:9}{', '.join(_device(kind, d) for d in place[kind])}"
            for kind, title in TITLES.items() if place[kind]]


def _memory(node: dict[str, Any]) -> str:
    if "memory" not in node:
        return "not known"
    line = f"{format_size(node['memory'])}, {format_size(node['memory_free'])} free"
    if node["huge"]:
        line += (f"; in huge pages {format_size(node['huge'])}, "
                 f"{format_size(node['huge_free'])} free")
    return line


def table(found: dict[str, Any]) -> str:
    """found: as JSON has it."""
    lines, ids = [], [n["id"] for n in found["nodes"]]
    for n in found["nodes"]:
        lines += [f"node {n['id']}", f"    {'CPUs':9}{n['cpus'] or 'none'}",
                  f"    {'memory':9}{_memory(n)}"]
        if len(ids) > 1:
            distances = ", ".join(f"{i}: {d}" for i, d in zip(ids, n["distances"]))
            lines.append(f"    {'distance':9}{distances}")
        lines += _devices(n)
    unknown = _devices(found["unknown"])
    lines += ["no node, or not known", *unknown] if unknown else []
    for at in found.get("at", ()):
        nodes = f"node {at['nodes']}" if at["nodes"] else "no node, or not known"
        lines.append(f"{printable(at['path'])}: {at.get('absent') or nodes}")
    return "\n".join(lines) + "\n"


COMMAND = Command("topo", "The nodes of this machine, and their devices.", [
    Option("at", "PATH", "also the nodes of the disks that hold this file or device", text,
           many=True),
    JSON, SYSFS])


def main() -> None:
    o = parse(COMMAND, sys.argv[1:])
    if not o:
        return
    found = topology(o.sysfs, o.at)
    del found["limit"]
    if not o.json:
        output(table(found))
        return
    line = json.dumps(found, ensure_ascii=False, separators=(",", ":")) + "\n"
    # For programs that accept only UTF-8: paths and names of devices can have other bytes.
    output(line.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))
