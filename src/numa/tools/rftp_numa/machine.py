# SPDX-License-Identifier: Apache-2.0
"""The C program's commands, and the machine as it finds it in sysfs."""
from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rftp_common import Failure, Option, Stop, parse_ids, run, text

NODE_MOST = 1023  # the kernel's greatest number of a node
SYSFS = Option("sysfs", "DIR", "another machine's sysfs, copied there", text)


def own_program(words: Sequence[str], stop: Stop | None = None, given: str = "") -> Any:
    """The JSON that a command of the C program prints. It says itself why it fails."""
    if not stop:
        with Stop() as stop:
            return own_program(words, stop, given)
    done = run([os.environ.get("RFTP_NUMA") or "rftp-numa", *words], stop, given=given,
               show_errors=True)
    if done.status:
        by_signal = f"rftp-numa {words[0]}: ended by signal {done.status - 128}"
        raise Failure(by_signal if done.status > 128 else "")
    return json.loads(done.out or "{}")


def json_line(obj: object) -> str:
    return json.dumps(obj, separators=(",", ":"), ensure_ascii=False, allow_nan=False) + "\n"


@contextmanager
def at_place(place: str) -> Iterator[None]:
    """A Failure inside gets the place in front."""
    try:
        yield
    except Failure as why:
        raise Failure(f"{place}: {why}", why.status) from None


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

    def may_bind(self) -> bool:
        """Without libnuma the C program cannot tell; the kernel, or fio, will."""
        return self.may_have in (0, -errno.ENOSYS)

    def usable(self) -> list[int]:
        """The CPUs that this process may run on."""
        return sorted(self.cpus & os.sched_getaffinity(0))


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

    def node(self, id: int) -> Node:
        """Failure: there is none."""
        for node in self.nodes:
            if node.id == id:
                return node
        raise Failure(f"this machine has no node {id} (rftp-numa topo lists them)")

    def package(self, target: int) -> set[int]:
        """The target and the nodes of its package."""
        package = self.node(target).package
        return {target, *(n.id for n in self.nodes if n.package == package and package is not None)}


def check_node(node: Node) -> None:
    """Failure, unless threads of this process can run on a node, and have memory there."""
    if not node.usable():
        raise Failure(f"node {node.id} has no CPU that this process may use (cpuset, taskset)")
    if not node.memory:
        raise Failure(f"node {node.id} has no memory")
    if not node.may_bind():
        raise Failure(f"this process may not have memory of node {node.id} (cpuset, container): "
                      f"{os.strerror(-node.may_have)}")


def read_machine(sysfs: str | None = None, model: str | None = None) -> Machine:
    """sysfs: None for this machine's. model: this file is read and checked, too."""
    words = ["machine"]
    words += ["--sysfs", sysfs] if sysfs is not None else []
    words += ["--model", model] if model is not None else []
    found = own_program(words)
    nodes = [Node(cpus=parse_ids(n.pop("cpus")) or set(), **n) for n in found["nodes"]]
    return Machine(nodes, [Nic(**n) for n in found["nics"]], found.get("model"))
