# SPDX-License-Identifier: Apache-2.0
"""The host of a plan: NUMA nodes, network cards, addresses and the nodes of disks, from
"rftp-numa topo" and ip(8), or from files that describe another machine."""
from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field

from . import names
from .common import Failure, parse_ids, printable, program, read_text, output_of
from .plan import NODE_UNKNOWN

DISTANCE_UNKNOWN = 1 << 32


@dataclass
class Node:
    id: int
    cpus: str  # a list, "0-3,8"
    distances: dict[int, int]  # to each node
    memory: int | None  # bytes; None: unknown
    room: int  # bytes of memory that are free or page cache


@dataclass
class Netdev:
    """A network interface."""
    node: int = NODE_UNKNOWN  # as firmware says
    mbps: int = 0
    rdma: str = ""  # its RDMA device, or ""


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
    """The place of a back store's path."""
    node: int = NODE_UNKNOWN  # also if its disks are on several
    absent: str = ""  # the reason if no block device is there; "": present, or unknown
    nodes: str = ""  # of its disks, as a list; "": unknown


@dataclass
class Host:
    name: str  # "store1.example.org"
    month: str  # the current one, "2026-11"
    own: bool  # this host, so that its files and devices can be examined
    nodes: dict[int, Node] = field(default_factory=dict)
    netdevs: dict[str, Netdev] = field(default_factory=dict)
    addresses: list[tuple[str, str]] = field(default_factory=list)  # interface, address
    locations: dict[str, Location] = field(default_factory=dict)

    def only_node(self, node: int) -> int:
        """The node; on a host with one node that one, for firmware rarely reports it."""
        return next(iter(self.nodes)) if node == NODE_UNKNOWN and len(self.nodes) == 1 else node

    def netdev_node(self, netdev: str) -> int:
        return self.netdevs.get(netdev, Netdev()).node

    def netdev_rdma(self, netdev: str) -> str:
        return self.netdevs.get(netdev, Netdev()).rdma

    def card(self, netdev: str, address: str) -> Card:
        known = self.netdevs.get(netdev, Netdev())
        return Card(netdev, address, self.only_node(known.node), known.mbps, known.rdma)

    def card_of(self, address: str) -> Card | None:
        return next((self.card(n, a) for n, a in self.addresses if a == address), None)

    def cards(self) -> list[Card]:
        """One for each interface but loopback, with its first IPv4 address if it has any."""
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
        """0 within a node; DISTANCE_UNKNOWN, larger than any other, if a node is unknown."""
        if one == other:
            return 0
        return self.nodes[one].distances.get(other, DISTANCE_UNKNOWN) if one in self.nodes \
            else DISTANCE_UNKNOWN


def _read_addresses(path: str) -> list[tuple[str, str]]:
    """A file with lines of NETDEV ADDRESS; "#" begins a comment."""
    found = []
    for number, line in enumerate(read_text(path).splitlines(), 1):
        words = line.partition("#")[0].replace("=", " ").split()
        if not words:
            continue
        where = f"{printable(path)}:{number}: "
        if len(words) != 2 or len(words[0]) > 15 or words[0].startswith("["):
            raise Failure(where + "this is no \"NETDEV ADDRESS\"")
        if names.address(words[1]):
            raise Failure(f"{where}\"{printable(words[1])}\" {names.address(words[1])}")
        found.append((words[0], words[1]))
    return found


def _own_addresses() -> list[tuple[str, str]]:
    """Of the interfaces that are up, IPv4 first, in the kernel's order."""
    links = json.loads(output_of(["ip", "-json", "address", "show", "up"]) or "[]")
    infos = [(link["ifname"], info) for link in links for info in link.get("addr_info", ())]
    infos.sort(key=lambda one: str(one[1].get("family")) == "inet6")
    return [(netdev, str(info["local"])) for netdev, info in infos if "local" in info]


def _existing(path: str, own: bool) -> str:
    """The path, or for a file still to be made the nearest directory above it."""
    while own and not path.startswith("/dev/") and path != "/" and not os.path.exists(path):
        path = os.path.dirname(path)
    return path


def _absent(path: str, sysfs_says: str, own: bool) -> str:
    if not own or not path.startswith("/dev/"):
        return sysfs_says
    try:
        return "" if stat.S_ISBLK(os.stat(path).st_mode) else "no block device"
    except OSError as why:
        return os.strerror(why.errno or 0)


def read(name: str, month: str, sysfs: str | None, addresses: str | None,
         paths: Iterable[str]) -> Host:
    """sysfs: a copy of another machine's. addresses: a file of them; None: this host's own.
    paths: the files and block devices to locate."""
    own = not sysfs and not os.environ.get("RFTP_SYSFS")
    host = Host(name, month, own)
    asked = {path: _existing(path, own) for path in paths}
    words = [program("rftp-numa"), "topo", "--json"] + (["--sysfs", sysfs] if sysfs else [])
    for at in asked.values():
        words += ["--at", at]
    try:
        topo = json.loads(output_of(words))
    except ValueError as why:
        raise Failure(f"rftp-numa topo: {why}") from None
    ids = [int(node["id"]) for node in topo["nodes"]]
    for node in topo["nodes"]:
        host.nodes[node["id"]] = Node(node["id"], node["cpus"], dict(zip(ids, node["distances"])),
                                      node.get("memory"), node.get("memory_room", 0))
    for node in [*topo["nodes"], topo["unknown"]]:
        for card in node["network"]:
            one = host.netdevs.setdefault(card["name"], Netdev())
            one.node = NODE_UNKNOWN if "nodes" in card else node.get("id", NODE_UNKNOWN)
            one.mbps = card.get("mbps", 0)
        for device in node["rdma"]:
            for netdev in device["interfaces"]:
                host.netdevs.setdefault(netdev, Netdev()).rdma = device["name"]
    for path, found in zip(asked, topo.get("at", ())):
        nodes = list(parse_ids(found["nodes"]) or ()) if found["nodes"] else []
        host.locations[path] = Location(
            host.only_node(nodes[0] if len(nodes) == 1 else NODE_UNKNOWN),
            _absent(path, found.get("absent", ""), own), found["nodes"])
    # This host's addresses do not belong to another machine's cards.
    if addresses:
        host.addresses = _read_addresses(addresses)
    elif own:
        host.addresses = _own_addresses()
    return host
