# SPDX-License-Identifier: Apache-2.0
"""The machine as "rftp-numa topo" shows it, and the C program's commands."""
from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rftp_common import Failure, Option, Stop, file_text, output_of, parse_ids, program, run, text

NODE_UNKNOWN, NODE_MOST = -1, 1023  # instead of a node's number; the kernel's greatest one
SYSFS = Option("sysfs", "DIR", "another machine's sysfs, copied there", text)


def _words(words: Sequence[str]) -> list[str]:
    return [os.environ.get("RFTP_NUMA") or program("rftp-numa"), *words]


def own_program(words: Sequence[str], given: str = "") -> Any:
    """The JSON that a command of the C program prints. It says itself why it fails."""
    with Stop() as stop:
        done = run(_words(words), stop, given=given, show_errors=True)
    if done.status:
        by_signal = f"rftp-numa {words[0]}: ended by signal {done.status - 128}"
        raise Failure(by_signal if done.status > 128 else "")
    return json.loads(done.out or "{}")


@dataclass
class Node:
    id: int
    cpus: set[int]
    distances: dict[int, int]  # to each node
    memory: int | None = None  # bytes; None: not known
    room: int = 0  # bytes of it that are free, or page cache
    cores: int = 0
    package: int | None = None  # None: the firmware does not tell

    def usable(self) -> list[int]:
        """The CPUs that this process may run on."""
        return sorted(self.cpus & os.sched_getaffinity(0))

    def is_allowed(self) -> bool:
        """May this process have memory of it?"""
        at = "Mems_allowed_list:"
        lists = [line[len(at):] for line in file_text("/proc/self/status").split("\n")
                 if line.startswith(at)]
        return not lists or self.id in (parse_ids(lists[0]) or ())

    def why_not_usable(self) -> str:
        """"" when threads of this process can run here, and have memory of this node."""
        if not self.usable():
            return f"node {self.id} has no CPU that this process may use (cpuset, taskset)"
        if not self.memory:
            return f"node {self.id} has no memory"
        return "" if self.is_allowed() else (
            f"this process may not have memory of node {self.id} (cpuset, container): the node is "
            "not in Mems_allowed_list of /proc/self/status")


@dataclass
class Nic:
    """A network interface."""
    node: int = NODE_UNKNOWN  # as firmware says
    mbps: int = 0  # 0: no link, or not known
    rdma: str = ""  # its RDMA device, or ""
    card: bool = False  # with its own wire
    up: bool = True


@dataclass
class Location:
    """The place of a path's file or block device."""
    node: int = NODE_UNKNOWN  # also if its disks are on several
    absent: str = ""  # the reason if nothing is there; "": present, or unknown
    nodes: str = ""  # of its disks, as a list; "": unknown


@dataclass
class Machine:
    nodes: dict[int, Node] = field(default_factory=dict)  # by rising id
    nics: dict[str, Nic] = field(default_factory=lambda: defaultdict(Nic))
    locations: dict[str, Location] = field(default_factory=lambda: defaultdict(Location))

    def node(self, id: int, remedy: str = "rftp-numa topo lists them") -> Node:
        """Failure: there is none."""
        if id not in self.nodes:
            raise Failure(f"this machine has no node {id} ({remedy})")
        return self.nodes[id]

    def only_node(self, node: int) -> int:
        """The node; on a machine with one node that one, for firmware rarely reports it."""
        return next(iter(self.nodes)) if node == NODE_UNKNOWN and len(self.nodes) == 1 else node

    def package(self, target: int) -> set[int]:
        """The target and the nodes of its package."""
        package = self.node(target).package
        return {target, *(n.id for n in self.nodes.values()
                          if n.package == package and package is not None)}

    def cpus_of(self, node: int) -> set[int]:
        return self.nodes[node].cpus if node in self.nodes else set()

    def nodes_of(self, cpus: set[int]) -> set[int]:
        return {n.id for n in self.nodes.values() if cpus & n.cpus}


def is_own(sysfs: str | None) -> bool:
    """Is it this machine's, so that its processes, files and devices can be looked at?"""
    return not sysfs and not os.environ.get("RFTP_SYSFS")


def read_machine(sysfs: str | None = None, paths: Iterable[str] = (), into: Machine | None = None
                 ) -> Machine:
    """sysfs: None for this machine's. paths: of files and block devices to locate. Failure."""
    words, asked, own = ["topo", "--json"], list(paths), is_own(sysfs)
    for at in (os.path.join(os.getcwd(), path) for path in asked):
        # Of a file still to be made: the nearest directory above it.
        while own and not at.startswith("/dev/") and at != "/" and not os.path.exists(at):
            at = os.path.dirname(at)
        words += ["--at", at]
    topo = json.loads(output_of(_words([*words, *(["--sysfs", sysfs] if sysfs else [])])))
    m, ids = into or Machine(), [node["id"] for node in topo["nodes"]]
    for n in topo["nodes"]:
        m.nodes[n["id"]] = Node(
            n["id"], parse_ids(n["cpus"]) or set(), dict(zip(ids, n["distances"])),
            n.get("memory"), n.get("memory_room", 0), n["cores"], n.get("package"))
    for n in [*topo["nodes"], topo["unknown"]]:
        for card in n["network"]:
            nic = m.nics[card["name"]]
            nic.node = NODE_UNKNOWN if "nodes" in card else n.get("id", NODE_UNKNOWN)
            nic.mbps, nic.card = card.get("mbps", 0), "virtual" not in card
        for device in n["rdma"]:
            for name in device["interfaces"]:
                m.nics[name].rdma = device["name"]
    for path, found in zip(asked, topo.get("at", ())):
        nodes, absent = parse_ids(found["nodes"]) or {NODE_UNKNOWN}, found.get("absent", "")
        node = m.only_node(min(nodes) if len(nodes) == 1 else NODE_UNKNOWN)
        if own and path.startswith("/dev/") and not absent and not Path(path).is_block_device():
            absent = "no block device"
        m.locations[path] = Location(node, absent, found["nodes"])
    return m
