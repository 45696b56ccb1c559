# SPDX-License-Identifier: Apache-2.0
"""The host of a plan: NUMA nodes, network cards, addresses and the nodes of disks, from
"rftp-numa topo" and ip(8), or from files that describe another machine."""
from __future__ import annotations

import json
import os
import socket
import stat
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from rftp_common import Failure, output_of, parse_ids, printable, program, read_text

from . import names
from .plan import NODE_UNKNOWN, checked, refuse


@dataclass
class Node:
    id: int
    cpus: str  # a list, "0-3,8"
    distances: dict[int, int]  # to each node
    memory: int | None  # bytes; None: unknown
    room: int  # bytes of memory that are free or page cache


@dataclass
class Netdev:
    """A network interface; a card is one with one of its addresses."""
    node: int = NODE_UNKNOWN  # as firmware says
    mbps: int = 0
    rdma: str = ""  # its RDMA device, or ""
    name: str = ""  # of a card
    address: str = ""
    up: bool = True


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
    netdevs: dict[str, Netdev] = field(default_factory=lambda: defaultdict(Netdev))
    addresses: list[tuple[str, str]] = field(default_factory=list)  # interface, address
    locations: dict[str, Location] = field(default_factory=lambda: defaultdict(Location))

    def only_node(self, node: int) -> int:
        """The node; on a host with one node that one, for firmware rarely reports it."""
        return next(iter(self.nodes)) if node == NODE_UNKNOWN and len(self.nodes) == 1 else node

    def card_of(self, address: str, netdev: str = "") -> Netdev | None:
        """The card with the address, of several netdev. If no address of the host is known:
        netdev."""
        having = [n for n, a in self.addresses if a == address] if self.addresses else [netdev]
        name = netdev if netdev in having else "".join(having[:1])
        known = self.netdevs[name]
        return replace(known, name=name, address=address,
                       node=self.only_node(known.node)) if name else None

    def cards(self) -> list[Netdev]:
        """One for each interface that is up but loopback, with its first IPv4 address if any."""
        found: dict[str, Netdev] = {}
        for netdev, address in sorted(self.addresses, key=lambda one: ":" in one[1]):
            card = self.card_of(address, netdev)
            if card and card.up and not names.address(address) \
                    and not address.startswith("127.") and address != "::1":
                found.setdefault(netdev, card)
        return list(found.values())


def _read_addresses(path: str) -> list[tuple[str, str]]:
    """A file with lines of NETDEV ADDRESS; "#" begins a comment."""
    found = []
    for number, line in enumerate(read_text(path).splitlines(), 1):
        words, at = line.partition("#")[0].replace("=", " ").split(), f"{printable(path)}:{number}:"
        refuse(len(words) not in (0, 2), at, "this is no \"NETDEV ADDRESS\"")
        if words:
            found.append((words[0], checked(names.address, words[1], at)))
    return found


def _own_addresses() -> list[tuple[str, str, bool]]:
    """Of this host: interface, address, and is it up? In the kernel's order."""
    try:
        links = json.loads(output_of(["ip", "-json", "address", "show"]) or "[]")
    except Failure as why:
        if isinstance(why.__cause__, FileNotFoundError):
            raise Failure("ip is not in PATH: install iproute2 (iproute on RHEL)") from None
        raise
    return [(link["ifname"], str(info["local"]), "UP" in link["flags"]) for link in links
            for info in link.get("addr_info", ()) if "local" in info]


def _absent(device: str) -> str:
    try:
        return "" if stat.S_ISBLK(os.stat(device).st_mode) else "no block device"
    except OSError as why:
        return os.strerror(why.errno or 0)


def read(paths: Iterable[str] = (), sysfs: str | None = None, addresses: str | None = None) -> Host:
    """paths: the files and block devices to locate. sysfs: a copy of another machine's.
    addresses: a file of them; None: this host's own."""
    own = not sysfs and not os.environ.get("RFTP_SYSFS")
    host = Host(socket.gethostname(), time.strftime("%Y-%m", time.gmtime()), own)
    asked = list(paths)
    words = [program("rftp-numa"), "topo", "--json"] + (["--sysfs", sysfs] if sysfs else [])
    for at in asked:
        # Of a file still to be made: the nearest directory above it.
        while own and not at.startswith("/dev/") and at != "/" and not os.path.exists(at):
            at = os.path.dirname(at)
        words += ["--at", at]
    topo = json.loads(output_of(words))
    ids = [int(node["id"]) for node in topo["nodes"]]
    for node in topo["nodes"]:
        host.nodes[node["id"]] = Node(node["id"], node["cpus"], dict(zip(ids, node["distances"])),
                                      node.get("memory"), node.get("memory_room", 0))
    for node in [*topo["nodes"], topo["unknown"]]:
        for card in node["network"]:
            one = host.netdevs[card["name"]]
            one.node = NODE_UNKNOWN if "nodes" in card else node.get("id", NODE_UNKNOWN)
            one.mbps = card.get("mbps", 0)
        for device in node["rdma"]:
            for netdev in device["interfaces"]:
                host.netdevs[netdev].rdma = device["name"]
    for path, found in zip(asked, topo.get("at", ())):
        nodes = list(parse_ids(found["nodes"]) or ())
        absent = _absent(path) if own and path.startswith("/dev/") else found.get("absent", "")
        node = host.only_node(nodes[0] if len(nodes) == 1 else NODE_UNKNOWN)
        host.locations[path] = Location(node, absent, found["nodes"])
    # This host's addresses do not belong to another machine's cards.
    if addresses:
        host.addresses = _read_addresses(addresses)
    for netdev, address, up in _own_addresses() if own and not addresses else ():
        host.addresses.append((netdev, address))
        host.netdevs[netdev].up = up
    return host
