# SPDX-License-Identifier: Apache-2.0
"""The C program's commands, and the machine as it finds it in sysfs."""
from __future__ import annotations

import errno
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rftp_common import Failure, Option, Stop, parse_ids, run, text

NODE_MOST = 1023  # the kernel's greatest number of a node
SYSFS = Option("sysfs", "DIR", "another machine's sysfs, copied there", text)


def own_program(words: Sequence[str], given: str = "") -> Any:
    """The JSON that a command of the C program prints. It says itself why it fails."""
    with Stop() as stop:
        done = run([os.environ.get("RFTP_NUMA") or "rftp-numa", *words], stop, given=given,
                   show_errors=True)
    if done.status:
        by_signal = f"rftp-numa {words[0]}: ended by signal {done.status - 128}"
        raise Failure(by_signal if done.status > 128 else "")
    return json.loads(done.out or "{}")


@dataclass(frozen=True)
class Node:
    id: int
    cpus: set[int]
    distances: list[int]      # in the order of the machine's nodes
    package: int | None       # None: the firmware does not tell
    cores: int
    memory: int               # bytes; 0: not known
    room: int                 # bytes that it could give now
    may_have: int             # 0, or why this process may have no memory of it: a negative errno

    def usable(self) -> list[int]:
        """The CPUs that this process may run on."""
        return sorted(self.cpus & os.sched_getaffinity(0))

    def why_not_usable(self) -> str:
        """"" when threads of this process can run here, and have memory of this node. Without
        libnuma the C program cannot tell (ENOSYS); the kernel, or fio, will."""
        if not self.usable():
            return f"node {self.id} has no CPU that this process may use (cpuset, taskset)"
        if not self.memory:
            return f"node {self.id} has no memory"
        if self.may_have not in (0, -errno.ENOSYS):
            return (f"this process may not have memory of node {self.id} (cpuset, container): "
                    f"{os.strerror(-self.may_have)}")
        return ""


@dataclass(frozen=True)
class Machine:
    nodes: list[Node]           # by rising id
    nics: list[dict[str, Any]]  # "name", "mbps" (0: no link), "node", "card": with its own wire
    model: Any                  # JSON

    def node(self, id: int, remedy: str = "rftp-numa topo lists them") -> Node:
        """Failure: there is none."""
        for node in self.nodes:
            if node.id == id:
                return node
        raise Failure(f"this machine has no node {id} ({remedy})")

    def package(self, target: int) -> set[int]:
        """The target and the nodes of its package."""
        package = self.node(target).package
        return {target, *(n.id for n in self.nodes if n.package == package and package is not None)}


def read_machine(sysfs: str | None = None, model: str | None = None) -> Machine:
    """sysfs: None for this machine's. model: this file is read and checked, too."""
    words = [f"--{name}={value}" for name, value in (("sysfs", sysfs), ("model", model))
             if value is not None]
    found = own_program(["machine", *words])
    nodes = [Node(cpus=parse_ids(n.pop("cpus")) or set(), **n) for n in found["nodes"]]
    return Machine(nodes, found["nics"], found.get("model"))
