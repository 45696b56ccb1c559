# SPDX-License-Identifier: Apache-2.0
"""The host of a plan: its nodes, network cards and addresses, or those of another machine. And this
host as it is, read without rtslib: LIO's targets and back stores (configfs) and mounts of tmpfs as
items, then LIO's threads, and where a back store is. Files that cannot be read count as missing,
unless a function says otherwise.

An item is a pair of a key, as ("lun", IQN, 0), and a value. converge.py makes those of a plan."""
from __future__ import annotations

import ipaddress
import json
import os
import re
import socket
import stat
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from rftp_common import (Failure, entries, file_text, format_ids, format_size, number_in,
                         output_of, parse_ids, parse_size, printable, proc, read_text, sysfs)
from rftp_machine import NODE_UNKNOWN, Machine, Nic, is_own, read_machine
from rftp_members import checked, refuse
from rftp_numa import placement

from . import plan

TAG = 1  # of the portal group of a target of ours
MOUNT_SOURCE = "rftp-iser"  # of a tmpfs of ours
CONFIGFS = os.environ.get("RFTP_CONFIGFS") or "/sys/kernel/config"  # or a test's copy


def size_of(path: str) -> int:
    """Of a file, in bytes; 0 of a directory or device; -1: nothing is there."""
    try:
        st = os.stat(path)
    except OSError:
        return -1
    return st.st_size if stat.S_ISREG(st.st_mode) else 0


def is_directory(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


def plain_address(address: str) -> str:
    """In one spelling."""
    try:
        return str(ipaddress.ip_address(address))
    except ValueError:
        return address


def nodes_text(nodes: object) -> str:
    """Of a list of nodes, or of one."""
    several = "" if str(nodes).isdigit() else "s"
    return "no node that is known" if nodes in ("", NODE_UNKNOWN) else f"node{several} {nodes}"


# ---- nodes, cards and addresses -------------------------------------------------------


@dataclass
class Card(Nic):
    """A network interface with one of its addresses."""
    name: str = ""
    address: str = ""


@dataclass
class Host(Machine):
    name: str = ""  # "store1.example.org"
    month: str = ""  # the current one, "2026-11"
    own: bool = True  # this host, so that its files and devices can be examined
    addresses: list[tuple[str, str]] = field(default_factory=list)  # interface, address

    def card_of(self, address: str, netdev: str = "") -> Card | None:
        """The card with the address, of several netdev. If no address of the host is known:
        netdev."""
        having = [n for n, a in self.addresses if a == address] if self.addresses else [netdev]
        name = netdev if netdev in having else "".join(having[:1])
        nic = replace(self.nics[name], node=self.only_node(self.nics[name].node))
        return Card(**vars(nic), name=name, address=address) if name else None

    def cards(self) -> list[Card]:
        """One for each interface that is up but loopback, with its first IPv4 address if any."""
        found: dict[str, Card] = {}
        for netdev, address in sorted(self.addresses, key=lambda one: ":" in one[1]):
            card = self.card_of(address, netdev)
            if card and card.up and not plan.address_fault(address) \
                    and not address.startswith("127.") and address != "::1":
                found.setdefault(netdev, card)
        return list(found.values())


def read_host(paths: Iterable[str] = (), sysfs: str | None = None, addresses: str | None = None
              ) -> Host:
    """paths: the files and block devices to locate. sysfs: a copy of another machine's.
    addresses: a file with lines of NETDEV ADDRESS, and comments behind "#"; None: this host's."""
    host = Host(name=socket.gethostname(), month=time.strftime("%Y-%m", time.gmtime()),
                own=is_own(sysfs))
    read_machine(sysfs, paths, host)
    lines = read_text(addresses).splitlines() if addresses else []
    for number, line in enumerate(lines, 1):
        at = f"{printable(str(addresses))}:{number}:"
        words = line.partition("#")[0].replace("=", " ").split()
        refuse(len(words) not in (0, 2), at, "this is no \"NETDEV ADDRESS\"")
        if words:
            host.addresses.append((words[0], checked(plan.address_fault, words[1], at)))
    # This host's addresses do not belong to another machine's cards.
    for link in json.loads(output_of(["ip", "-json", "address", "show"]) or "[]") \
            if host.own and not addresses else ():
        host.nics[link.get("ifname", "")].up = "UP" in link.get("flags", ())
        host.addresses += [(link["ifname"], str(info["local"]))
                           for info in link.get("addr_info", ()) if "local" in info]
    return host


def load_module(module: str, load: bool = True) -> None:
    """Failure. load: False: only asks whether the module could be loaded."""
    try:
        if not os.path.exists("/sys/module/" + module):
            output_of(["modprobe", "-q", "--" if load else "-n", module])
    except Failure as why:
        remedy = why if why.__cause__ else \
            "is it in the package of this kernel's modules (Debian linux-image, RHEL " \
            "kernel-modules-extra), and not forbidden in /etc/modprobe.d?"
        raise Failure(f"the kernel's module {module} cannot be loaded: {remedy}") from None


# ---- items ----------------------------------------------------------------------------

Key = tuple[Any, ...]
Items = dict[Key, Any]
# IQN stands for our portal group of a target; another group of it is IQN/tpgN. The values are:
#   ("lio",), ("iscsi",)                    True: target_core_mod, iscsi_target_mod are loaded
#   ("dir", PATH)                           True
#   ("mount", PATH)                         Mount
#   ("file", PATH)                          its size
#   ("store", PLUGIN, NAME)                 Store
#   ("store-attribute", PLUGIN, NAME, A)    a number
#   ("target", IQN)                         Target
#   ("target-attribute", IQN, A)            a number
#   ("lun", IQN, LUN)                       plugin and name of its store; "", "": its link is broken
#   ("acl", IQN, INITIATOR)                 Acl
#   ("auth", IQN, INITIATOR)                user, secret, and both of the target; never printed
#   ("mapped", IQN, INITIATOR, LUN)         the LUN of the target, and whether it is read-only
#   ("portal", IQN, ADDRESS, PORT)          does it take iSER?
#   ("enabled", IQN)                        True
#   ("cpus",), ("irq", N)                   a list of CPUs


@dataclass(frozen=True)
class Store:
    path: str  # the file or device; "" of a ramdisk
    size: int  # bytes; 0 of a block device, which is served whole
    write_back: bool  # of a file
    serial: str  # "" as long as it is not enabled
    enabled: bool = True
    bytes: int = field(default=0, compare=False)  # also of a block device
    device: int = field(default=0, compare=False)  # the number of the one that LIO has open


@dataclass(frozen=True)
class Target:
    whole: bool  # it has a portal group
    open: bool  # to any initiator
    sessions: int = field(default=0, compare=False)  # of initiators without an ACL


@dataclass(frozen=True)
class Acl:
    logged_in: bool = field(default=False, compare=False)
    session: str = field(default="", compare=False)  # LIO's description, in one line


@dataclass(frozen=True)
class Mount:
    """Of a tmpfs."""
    size: int
    policy: str
    nodes: str
    source: str = field(default=MOUNT_SOURCE, compare=False)
    covered: bool = field(default=False, compare=False)  # something else is mounted over it


def under(items: Items, kind: str, *names: Any) -> Iterator[tuple[Key, Any]]:
    """The items with these parts at the beginning of their keys."""
    start = (kind, *names)
    return ((key, value) for key, value in items.items() if key[:len(start)] == start)


def mounts() -> Iterator[list[str]]:
    """The device's number, as "8:0", path, kind, source and options of each, in their order."""
    for line in file_text(proc("self/mountinfo")).splitlines():
        # "36 35 0:30 / /mnt rw,noatime shared:1 - tmpfs source rw,mpol=bind:1"; \040 is a blank
        left, _, right = line.partition(" - ")
        words = [*left.split()[2:5:2], *right.split()[:3]]
        if len(words) == 5:
            yield [re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), w) for w in words]


def _directories(*path: str) -> Iterator[tuple[str, str]]:
    """Names and paths."""
    found = ((name, os.path.join(*path, name)) for name in entries(*path) if name[0] != ".")
    return ((name, at) for name, at in found if is_directory(at))


def _luns(*path: str) -> Iterator[tuple[int, str, str]]:
    """Their numbers and paths, and the targets of their links; "": a link is missing or broken."""
    for name in sorted(entries(*path), key=lambda n: (len(n), n)):
        at = os.path.join(*path, name)
        links = [os.path.join(at, n) for n in entries(at)]
        to = next((os.readlink(p) for p in links if os.path.islink(p) and os.path.exists(p)), "")
        if re.fullmatch(r"lun_\d+", name):
            yield int(name[4:]), at, to


def _attributes(path: str) -> Iterator[tuple[str, int]]:
    values = ((name, file_text(path, "attrib", name)) for name in entries(path, "attrib"))
    return ((name, int(value)) for name, value in values if value.isdigit())


def _store(plugin: str, at: str) -> Store:
    info, path = file_text(at, "info"), file_text(at, "udev_path")
    size, device, write_back = 0, 0, False
    # The last of each: before it is a path, which may have anything in it.
    patterns = {"fileio": r" File: (.*)  Size: (\d+)  Mode: (\S+)",
                "iblock": r".*Major: (\d+) Minor: (\d+)",
                "rd_mcp": r"PAGES/PAGE_SIZE: (\d+)\*(\d+)"}
    found = re.search(patterns.get(plugin, "$^"), info, re.DOTALL)
    if found and plugin == "fileio":
        path, size, write_back = path or found[1], int(found[2]), found[3] == "Buffered-WCE"
    elif found and plugin == "iblock":
        device = os.makedev(int(found[1]), int(found[2]))
        size = number_in(sysfs(), f"dev/block/{found[1]}:{found[2]}/size") * 512
    elif found:
        size = int(found[1]) * int(found[2])
    enabled = number_in(at, "enable") != 0
    page = file_text(at, "wwn/vpd_unit_serial")
    serial = page.partition("Unit Serial Number: ")[2].split("\n")[0]
    return Store(path, 0 if plugin == "iblock" else size, write_back, serial if enabled else "",
                 enabled, size, device)


def _read_group(items: Items, iqn: str, path: str) -> None:
    """A portal group."""
    attributes = dict(_attributes(path))
    dynamic = file_text(path, "dynamic_sessions").replace("\0", "").split()
    items["target", iqn] = Target(True, bool(attributes.get("generate_node_acls")), len(dynamic))
    items.update((("target-attribute", iqn, name), v) for name, v in attributes.items())
    for lun, _, to in _luns(path, "lun"):
        store = re.fullmatch(r".*?([^/]+)_\d+/([^/]+)", to)
        items["lun", iqn, lun] = store.groups() if store else ("", "")
    for name, at in _directories(path, "acls"):
        info = file_text(at, "info")
        lines = [re.sub(r"[\x00-\x1f\x7f]", " ", line.lstrip(" ")) for line in info.split("\n")
                 if re.match(r"[^- ]| *Address ", line)]
        logged_in = info.startswith("InitiatorName:")
        items["acl", iqn, name] = Acl(logged_in, ", ".join(lines) if logged_in else "")
        auth = [file_text(at, "auth", key)
                for key in ("userid", "password", "userid_mutual", "password_mutual")]
        # A value that begins with NULL is none to the kernel.
        items["auth", iqn, name] = tuple("" if a.startswith("NULL") else a for a in auth)
        for seen_as, mapped, to in _luns(at):
            own = re.fullmatch(r".*/lun_(\d+)", to)
            if own:
                read_only = number_in(mapped, "write_protect") != 0
                items["mapped", iqn, name, seen_as] = (int(own[1]), read_only)
    for name, at in _directories(path, "np"):
        found = re.fullmatch(r"\[?([^]]+)\]?:(\d+)", name)
        if found:
            key = ("portal", iqn, plain_address(found[1]), int(found[2]))
            items[key] = number_in(at, "iser") != 0
    if number_in(path, "enable"):
        items["enabled", iqn] = True


def read() -> Items:
    """All of LIO, and all mounts of tmpfs. A kernel without LIO is no error."""
    root = os.path.join(CONFIGFS, "target")
    fabric = os.path.join(root, "iscsi")
    items: Items = {key: True for key, path in ((("lio",), root), (("iscsi",), fabric))
                    if os.path.isdir(path)}
    if os.path.exists(os.path.join(fabric, "cpus_allowed_list")):
        items["cpus",] = format_ids(parse_ids(file_text(fabric, "cpus_allowed_list")) or ())
    for hba, at in _directories(root, "core"):
        for name, path in _directories(at) if re.search(r"_\d+$", hba) else ():
            key = (hba.rpartition("_")[0], name)
            items[("store", *key)] = _store(key[0], path)
            items.update((("store-attribute", *key, a), v) for a, v in _attributes(path))
    for iqn, at in _directories(fabric):
        groups = [(name[5:], path) for name, path in _directories(at) if name.startswith("tpgt_")]
        if not groups and iqn != "discovery_auth":
            items["target", iqn] = Target(False, False)
        for tag, path in groups:
            _read_group(items, iqn if tag == str(TAG) else f"{iqn}/tpg{tag}", path)
    # Of several mounts at a path the last one, which hides the others; but always ours.
    for _, path, kind, source, options in mounts():
        below = items.get(("mount", path))
        if below and below.source == MOUNT_SOURCE:
            items["mount", path] = replace(below, covered=True)
        elif kind == "tmpfs":
            size = re.search(r"\bsize=(\w+)", options)
            policy = re.search(r"\bmpol=([^:,]+):?([0-9,-]*[0-9]|)", options)
            nodes = parse_ids(policy[2]) if policy else None
            items["mount", path] = Mount((parse_size(size[1]) or 0) if size else 0,
                                         policy[1] if policy else "", format_ids(nodes or ()),
                                         source)
    return items


# ---- threads --------------------------------------------------------------------------

THREAD_TX = "iscsi_ttx"  # the one that the kernel confines to LIO's list
THREADS = ("iscsi_np", "iscsi_trx", THREAD_TX)
QUEUES = ("ib-comp-unb-wq", "ib-comp-wq", "isert_comp_wq", "isert_login_wq", "isert_release_wq",
          "target_completion", "target_submission", "xcopy_wq")


def threads(machine: Host) -> list[dict[str, Any]]:
    """Kernel threads that serve iSCSI and iSER, by name, as status shows them. A worker's name is
    that of the queue that it has worked for last; cpus are those that a thread may run on."""
    found = []
    for pid in (e for e in entries(proc()) if e.isdigit()):
        comm = file_text(proc(pid, "comm"))
        # "kworker/1:2H-ib-comp-wq", or with a plus while it is at work
        worker = re.fullmatch(r"kworker/[^-+]*[-+](.*)", comm)
        name = worker[1] if worker else comm
        if name not in (QUEUES if worker else THREADS):
            continue
        fields = file_text(proc(pid, "stat")).rpartition(")")[2].split()
        status = file_text(proc(pid, "status"))
        cpus = re.search(r"^Cpus_allowed_list:\s*(\S+)", status, re.MULTILINE)
        if cpus and len(fields) > 36 and int(fields[6]) & 0x00200000:  # PF_KTHREAD
            nodes = format_ids(machine.nodes_of(parse_ids(cpus[1]) or set()))
            found.append({"name": name, "pid": int(pid), "worker": bool(worker), "cpus": cpus[1],
                          "nodes": nodes, "last_cpu": int(fields[36])})
    return sorted(found, key=lambda t: (t["name"], t["pid"]))


# ---- where a back store is -------------------------------------------------------------


def where(machine: Host, plugin: str, store: Store, made_under: int
          ) -> tuple[dict[str, Any], str]:
    """Where a back store really is, as an object and as text. Its "where" is pages, page cache (of
    a file on a disk), device, hidden (of a ramdisk), gone (LIO's open file or device has lost
    its name) or unseen. made_under: the node, of a ramdisk."""
    if plugin.startswith("rd_"):
        under = "" if made_under == NODE_UNKNOWN else f"; made under node {made_under}"
        return {"where": "hidden"}, f"the kernel does not show where its pages are{under}"
    nodes = machine.locations[store.path].nodes
    try:
        st = os.stat(store.path)
        is_block = stat.S_ISBLK(st.st_mode)
        # Devices have other names when the host or a card was started again.
        if store.device and not (is_block and st.st_rdev == store.device):
            raise FileNotFoundError(0, "is another device now than LIO has")
        found = None if is_block else placement.pages(store.path)
    except (OSError, Failure) as cause:
        why = f"{printable(store.path)}: {cause.strerror}" if isinstance(cause, OSError) \
            else str(cause)
        if isinstance(cause, FileNotFoundError):
            return {"where": "gone", "why": why}, f"its name is missing ({why})"
        return {"where": "unseen", "why": why}, f"it cannot be seen: {why}"
    if is_block:
        return {"where": "device", "device_nodes": nodes}, f"of {nodes_text(nodes)}"
    if not found:
        return {"where": "page cache", "device_nodes": nodes}, \
            f"in the page cache, on any node; its device is of {nodes_text(nodes)}"
    parts = [f"{format_size(size)} on node {node}" for node, size in found.nodes.items()]
    parts += [f"{format_size(found.never_written)} never written"] if found.never_written else []
    parts += [f"{format_size(found.swapped)} in swap space"] if found.swapped else []
    sample = " (of a sample)" if found.sampled else ""
    return {"where": "pages", "pages": vars(found)}, \
        f"pages {', '.join(parts) or 'none yet'}{sample}"
