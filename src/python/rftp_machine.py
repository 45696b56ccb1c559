# SPDX-License-Identifier: Apache-2.0
"""The machine's topology, which "rftp-numa topo" shows, and the C program's internal commands."""
from __future__ import annotations

import errno
import json
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rftp_common import (Failure, Option, Stop, entries, file_text, number_in, output_of, parse_ids,
                         parse_size, program, run, text)

NODE_UNKNOWN, NODE_MOST = -1, 1023  # instead of a node's number; the kernel's greatest one
SYSFS = Option("sysfs", "DIR", "another machine's sysfs, copied there", text)


def _words(words: Sequence[str]) -> list[str]:
    return [os.environ.get("RFTP_NUMA_PROGRAM") or program("rftp-numa"), *words]


def _env(sysfs: str | None) -> dict[str, str] | None:
    if sysfs == "":  # which would be the current directory
        raise Failure(f'"": {os.strerror(errno.ENOENT)}')
    return None if sysfs is None else {"RFTP_SYSFS": os.path.abspath(sysfs)}


def own_program(words: Sequence[str], given: str = "", sysfs: str | None = None) -> Any:
    """The JSON that a command of the C program prints. It says itself why it fails."""
    with Stop() as stop:
        done = run(_words(words), stop, given=given, show_errors=True, env=_env(sysfs))
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
    limit: int = 0  # bytes of memory that this process's control group may have

    def node(self, id: int, remedy: str = "rftp-numa topo lists them") -> Node:
        """Failure: there is none."""
        if id not in self.nodes:
            raise Failure(f"there is no node {id} ({remedy})")
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


# ---- CPUs, in sysfs --------------------------------------------------------------------


def _root(sysfs: str | None) -> str:
    return sysfs or os.environ.get("RFTP_SYSFS") or "/sys"


def _cpu_dir(sysfs: str | None, cpu: int) -> str:
    return os.path.join(_root(sysfs), f"devices/system/cpu/cpu{cpu}")


def package_of(cpus: Iterable[int], sysfs: str | None = None) -> int | None:
    """The package (socket) of all CPUs; None: the firmware does not report it, there are no CPUs,
    or they are in several packages."""
    found = {file_text(_cpu_dir(sysfs, cpu), "topology/physical_package_id") for cpu in cpus}
    number = found.pop() if len(found) == 1 else ""
    return int(number) if re.fullmatch("[0-9]{1,9}", number) else None


def cores_of(cpus: Iterable[int], sysfs: str | None = None) -> list[int]:
    """The first CPU of each core, among cpus."""
    firsts, seen = list[int](), set[int]()
    for cpu in sorted(cpus):
        if cpu not in seen:
            firsts.append(cpu)
            at = _cpu_dir(sysfs, cpu)
            # thread_siblings_list: kernels before 5.3
            seen |= parse_ids(file_text(at, "topology/core_cpus_list") or
                              file_text(at, "topology/thread_siblings_list")) or set()
    return firsts


def caches_of(cpus: Iterable[int], sysfs: str | None = None) -> list[int]:
    """The sizes in bytes of the last-level caches of cpus, each listed once. Unknown ones are left
    out."""
    sizes, seen = list[int](), set[int]()
    for cpu in sorted(cpus):
        if cpu in seen:
            continue
        at = os.path.join(_cpu_dir(sysfs, cpu), "cache")
        levels = {number_in(at, index, "level"): os.path.join(at, index)
                  for index in reversed(entries(at)) if parse_size(file_text(at, index, "size"))}
        if levels:
            last = levels[max(levels)]
            sizes.append(parse_size(file_text(last, "size")) or 0)
            seen |= parse_ids(file_text(last, "shared_cpu_list")) or set()
    return sizes


# ---- the topology ----------------------------------------------------------------------

KINDS = {"network": "net", "rdma": "infiniband", "disks": "block"}  # and their classes in sysfs


def _is_disk(at: str, name: str) -> bool:
    """No partitions, RAM and loop devices, and no empty devices. hidden: one of several paths to an
    NVMe disk, which is listed as well."""
    return (not name.startswith(("loop", "ram", "zram")) and number_in(at, "size") > 0 and
            not number_in(at, "hidden") and not os.path.exists(os.path.join(at, "partition")))


def _is_virtual(at: str) -> bool:
    """An interface without hardware of its own, such as a bridge; or a virtual function, which is
    part of another interface's card."""
    return ("/devices/virtual/" in os.path.realpath(at) or not os.path.exists(at) or
            os.path.exists(os.path.join(at, "device/physfn")))


def _devices(root: str) -> list[tuple[str, str]]:
    """The kinds and names of all devices, by kind and name; 10 comes after 2."""
    found = []
    for kind, by_class in KINDS.items():
        top = os.path.join(root, "class", by_class)
        names = [name for name in entries(top) if name[0] != "."
                 # A regular file is an attribute of the class, such as bonding_masters.
                 and not os.path.isfile(os.path.join(top, name))
                 and (kind != "disks" or _is_disk(os.path.join(top, name), name))]
        names.sort(key=lambda name: [int(part) if part.isdecimal() else part
                                     for part in re.split("([0-9]+)", name)])
        found += [(kind, name) for name in names]
    return found


def topology(sysfs: str | None = None, paths: Iterable[str] = ()) -> dict[str, Any]:
    """The JSON of "rftp-numa topo --json", which rftp-numa(1) describes; and "limit", the bytes of
    memory that this process's control group may have. sysfs: None for this machine's. Failure."""
    root, devices, asked = _root(sysfs), _devices(_root(sysfs)), list(paths)
    words = [f"{KINDS[kind]}/{name}" for kind, name in devices]
    words += [os.path.join(os.getcwd(), path) if path else "" for path in asked]
    core = json.loads(output_of(_words(["machine", *words]), env=_env(sysfs)))
    places: list[dict[str, Any]] = [*core["nodes"], {}]
    for n in core["nodes"]:
        cpus = parse_ids(n["cpus"]) or set()
        n["cores"], package = len(cores_of(cpus, sysfs)), package_of(cpus, sysfs)
        if package is not None:
            n["package"] = package
        if "memory" in n:
            at = os.path.join(root, f"devices/system/node/node{n['id']}/hugepages")
            for key, file in ("huge", "nr_hugepages"), ("huge_free", "free_hugepages"):
                # A directory is named as "hugepages-2048kB".
                n[key] = sum(number_in(at, of_size, file) * (parse_size(of_size[10:-1]) or 0)
                             for of_size in entries(at))
    for place in places:
        place.update({kind: [] for kind in KINDS})
    rdma = {name: located["rdma"] for (kind, name), located in zip(devices, core["found"])
            if kind == "network"}
    for (kind, name), located in zip(devices, core["found"]):
        at, device = os.path.join(root, "class", KINDS[kind], name), dict[str, Any](name=name)
        nodes = parse_ids(located["nodes"]) or set()
        if kind == "network" and 0 < number_in(at, "speed") < (1 << 32) - 1:
            device["mbps"] = number_in(at, "speed")
        if kind == "disks":
            device["bytes"] = number_in(at, "size") * 512
        if len(nodes) > 1:
            device["nodes"] = located["nodes"]
        if kind == "network" and _is_virtual(at):
            device["virtual"] = True
        if kind == "rdma":
            device["interfaces"] = [card for card, of_card in rdma.items() if of_card == name]
        for place in places:
            if place["id"] in nodes if "id" in place else not nodes:
                place[kind].append(device)
    found = {"nodes": core["nodes"], "unknown": places[-1], "limit": core["limit"]}
    if asked:
        found["at"] = [{"path": path, "nodes": located["nodes"],
                        **({"absent": located["absent"]} if located["absent"] else {})}
                       for path, located in zip(asked, core["found"][len(devices):])]
    return found


def read_machine(sysfs: str | None = None, paths: Iterable[str] = (), into: Machine | None = None
                 ) -> Machine:
    """sysfs: None for this machine's. paths: of files and block devices to locate. Failure."""
    asked, own, places = list(paths), is_own(sysfs), []
    for at in (os.path.join(os.getcwd(), path) for path in asked):
        # Of a file still to be made: the nearest directory above it.
        while own and not at.startswith("/dev/") and at != "/" and not os.path.exists(at):
            at = os.path.dirname(at)
        places.append(at)
    topo = topology(sysfs or None, places)
    m, ids = into or Machine(), [node["id"] for node in topo["nodes"]]
    m.limit = topo["limit"]
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
