# SPDX-License-Identifier: Apache-2.0
"""The nodes and network cards of a machine, as the C program finds them in sysfs."""
from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from typing import Any

from rftp_numa.common import Failure, Stop, own_program, parse_ids


@dataclass(frozen=True)
class Node:
    id: int
    cpus: frozenset[int]
    distances: list[int]      # in the order of the machine's nodes
    package: int | None       # None: the firmware does not tell
    cores: int
    memory: int               # bytes; 0: not known
    room: int                 # bytes that it could give now
    may_have: int             # 0, or why this process may have no memory of it: a negative errno


@dataclass(frozen=True)
class Nic:
    name: str
    mbps: int                 # 0: not known, or no link
    node: int | None
    card: bool                # with a wire of its own


@dataclass(frozen=True)
class Machine:
    nodes: list[Node]         # by rising id
    nics: list[Nic]
    model: Any                # JSON

    def node(self, id: int) -> Node | None:
        return next((n for n in self.nodes if n.id == id), None)

    def package(self, target: int) -> frozenset[int]:
        """The target and the nodes of its package."""
        own = self.node(target)
        return frozenset({target}.union(
            n.id for n in self.nodes if own and own.package is not None and n.package == own.package))

    def usable(self, id: int) -> list[int]:
        """The CPUs of a node that this process may run on."""
        node = self.node(id)
        return sorted(node.cpus & os.sched_getaffinity(0)) if node else []

    def may_bind(self, node: Node) -> bool:
        """Without libnuma the C program cannot tell; the kernel, or fio, will."""
        return node.may_have in (0, -errno.ENOSYS)

    def check(self, id: int) -> None:
        """Failure, unless threads of this process can run on a node, and have memory there."""
        node = self.node(id)
        if not node:
            raise Failure("this machine has no node %d (rftp-numa topo lists them)" % id)
        if not self.usable(id):
            raise Failure("node %d has no CPU that this process may use (cpuset, taskset)" % id)
        if not node.memory:
            raise Failure("node %d has no memory" % id)
        if not self.may_bind(node):
            raise Failure("this process may not have memory of node %d (cpuset, container): %s"
                          % (id, os.strerror(-node.may_have)))


def read_machine(sysfs: str | None = None, model: str | None = None) -> Machine:
    """sysfs: None for this machine's. model: this file is read and checked, too."""
    words = [word for name, value in (("sysfs", sysfs), ("model", model))
             if value is not None for word in ("--" + name, value)]
    with Stop() as stop:
        found = own_program(["machine", *words], stop)
    nodes = [Node(cpus=parse_ids(n.pop("cpus")), **n) for n in found["nodes"]]
    return Machine(nodes, [Nic(**n) for n in found["nics"]], found.get("model"))


def disk_nodes(path: str) -> frozenset[int]:
    """Of the disk that path is, or is on; empty: not known."""
    with Stop() as stop:
        return parse_ids(own_program(["topo", "--json", "--at", path], stop)["at"][0]["nodes"])
