# SPDX-License-Identifier: Apache-2.0
"""The host that is planned for: its NUMA nodes, network cards, addresses and disks, from rftp-numa
and the kernel, or from files that describe another machine."""
from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field

from . import names
from .common import Failure, parse_ids, printable, program, read_text, run
from .plan import NODE_UNKNOWN

DISTANCE_UNKNOWN = 1 << 32


@dataclass
class Node:
    id: int
    cpus: str
    distances: dict[int, int]  # to each node
    memory: int | None  # bytes; None: not known
    room: int  # bytes that it could give: free, or the page cache's


@dataclass
class Card:
    """A network interface that is up, with one of its addresses."""
    netdev: str
    address: str
    node: int
    mbps: int
    rdma: str  # its RDMA device, or ""


@dataclass
class Location:
    """Of a back store's path."""
    node: int = NODE_UNKNOWN  # none, several, or not known
    absent: str = ""  # why no block device is there; "": one is, or that is not known
    nodes: str = ""  # of its disks, as a list; "": not known


@dataclass
class Host:
    name: str  # "store1.example.org"
    month: str  # of now, "2026-11"
    own: bool  # it is this one, so that its files and devices may be looked at
    nodes: dict[int, Node] = field(default_factory=dict)
    addresses: list[tuple[str, str]] = field(default_factory=list)  # interface, address
    locations: dict[str, Location] = field(default_factory=dict)
    _netdevs: dict[str, tuple[int, int]] = field(default_factory=dict)
    _rdma: dict[str, str] = field(default_factory=dict)

    def only_node(self, node: int) -> int:
        """Where there is one node only, firmware seldom says so."""
        return next(iter(self.nodes)) if node == NODE_UNKNOWN and len(self.nodes) == 1 else node

    def netdev_node(self, netdev: str) -> int:
        """As firmware says."""
        return self._netdevs.get(netdev, (NODE_UNKNOWN, 0))[0]

    def netdev_rdma(self, netdev: str) -> str:
        """Its RDMA device, or ""."""
        return self._rdma.get(netdev, "")

    def card(self, netdev: str, address: str) -> Card:
        node, mbps = self._netdevs.get(netdev, (NODE_UNKNOWN, 0))
        return Card(netdev, address, self.only_node(node), mbps, self._rdma.get(netdev, ""))

    def card_of(self, address: str) -> Card | None:
        return next((self.card(n, a) for n, a in self.addresses if a == address), None)

    def cards(self) -> list[Card]:
        """One for each interface, by its first IPv4 address if it has any; no loopback."""
        found: dict[str, Card] = {}
        for netdev, address in self.addresses:
            if names.address(address) or address.startswith("127.") or address == "::1":
                continue
            if netdev not in found:
                found[netdev] = self.card(netdev, address)
            elif ":" in found[netdev].address and ":" not in address:
                found[netdev].address = address
        return list(found.values())

    def distance(self, one: int, other: int) -> int:
        """Of an unknown node as far as can be."""
        if one == other:
            return 0
        there = self.nodes.get(one)
        return there.distances.get(other, DISTANCE_UNKNOWN) if there else DISTANCE_UNKNOWN


def _addresses_of(path: str) -> list[tuple[str, str]]:
    """Lines of NETDEV ADDRESS; "#" begins a comment."""
    found = []
    for number, line in enumerate(read_text(path).splitlines(), 1):
        words = line.partition("#")[0].replace("=", " ").split()
        if not words:
            continue
        where = "%s:%d: " % (printable(path), number)
        if len(words) != 2 or len(words[0]) > 15 or words[0].startswith("["):
            raise Failure(where + "this is no \"NETDEV ADDRESS\"")
        if names.address(words[1]):
            raise Failure("%s\"%s\" %s" % (where, printable(words[1]), names.address(words[1])))
        found.append((words[0], words[1]))
    return found


def _own_addresses() -> list[tuple[str, str]]:
    """Of the interfaces that are up; IPv4 first, as the kernel lists them."""
    links = json.loads(run(["ip", "-json", "address", "show", "up"]) or "[]")
    infos = [(link["ifname"], info) for link in links for info in link.get("addr_info", ())]
    infos.sort(key=lambda one: str(one[1].get("family")) == "inet6")
    return [(netdev, str(info["local"])) for netdev, info in infos if "local" in info]


def _nearest(path: str, own: bool) -> str:
    """A file may be still to be made: then the nearest directory above it that is there."""
    while own and not path.startswith("/dev/") and path != "/" and not os.path.exists(path):
        path = os.path.dirname(path)
    return path


def _absent(path: str, of_sysfs: str, own: bool) -> str:
    if not own or not path.startswith("/dev/"):
        return of_sysfs
    try:
        return "" if stat.S_ISBLK(os.stat(path).st_mode) else "no block device"
    except OSError as why:
        return os.strerror(why.errno or 0)


def read(name: str, month: str, sysfs: str | None, addresses: str | None, paths: Iterable[str]) -> Host:
    """sysfs: another machine's, copied there. addresses: a file of them; None: this host's own.
    paths: of files and block devices that are to be located."""
    own = not sysfs and not os.environ.get("RFTP_SYSFS")
    host = Host(name, month, own)
    asked = {path: _nearest(path, own) for path in paths}
    words = [program("rftp-numa"), "topo", "--json"] + (["--sysfs", sysfs] if sysfs else [])
    for at in asked.values():
        words += ["--at", at]
    try:
        topo = json.loads(run(words))
    except ValueError as why:
        raise Failure("rftp-numa topo: %s" % why) from None
    ids = [int(node["id"]) for node in topo["nodes"]]
    for node in topo["nodes"]:
        host.nodes[node["id"]] = Node(node["id"], node["cpus"], dict(zip(ids, node["distances"])),
                                      node.get("memory"), node.get("memory_room", 0))
    for node in [*topo["nodes"], topo["unknown"]]:
        for card in node["network"]:
            several = "nodes" in card
            host._netdevs[card["name"]] = (NODE_UNKNOWN if several else node.get("id", NODE_UNKNOWN),
                                           card.get("mbps", 0))
        for device in node["rdma"]:
            host._rdma.update((netdev, device["name"]) for netdev in device["interfaces"])
    for path, found in zip(asked, topo.get("at", ())):
        nodes = parse_ids(found["nodes"]) if found["nodes"] else None
        host.locations[path] = Location(
            host.only_node(next(iter(nodes)) if nodes and len(nodes) == 1 else NODE_UNKNOWN),
            _absent(path, found.get("absent", ""), own), found["nodes"])
    # Those of this host would not be those of another one's cards.
    if addresses:
        host.addresses = _addresses_of(addresses)
    elif own:
        host.addresses = _own_addresses()
    return host


def room_taken(path: str) -> int:
    """Bytes that the file at path has; 0: it is not there, or cannot be looked at."""
    try:
        return os.stat(path).st_blocks * 512
    except OSError:
        return 0
