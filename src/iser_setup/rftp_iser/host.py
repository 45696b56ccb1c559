# SPDX-License-Identifier: Apache-2.0
"""This host as it is: LIO's targets and back stores (configfs), mounts of tmpfs, CPU lists,
interrupts, cards, threads, and the nodes that pages are on. Read only; needs neither targetcli nor
rtslib. What cannot be read is as if it were not there, unless a function says otherwise."""
from __future__ import annotations

import ctypes
import ipaddress
import json
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field

from . import topology
from .common import Failure, failed, parse_ids, parse_size, printable, output_of
from .plan import NODE_UNKNOWN

TAG = 1  # of the portal group of a target of ours
NO_GROUP = 0  # a target without any
MOUNT_SOURCE = "rftp-iser"  # of a tmpfs of ours


def place(variable: str, otherwise: str) -> str:
    """A directory of the kernel's, or the copy that a test names in the environment."""
    return os.environ.get(variable) or otherwise


def sysfs() -> str:
    return place("RFTP_SYSFS", "/sys")


def proc() -> str:
    return place("RFTP_PROC", "/proc")


def configfs() -> str:
    return place("RFTP_CONFIGFS", "/sys/kernel/config")


def text(*path: str) -> str:
    """Without newlines at its end; "": it cannot be read."""
    try:
        with open(os.path.join(*path), encoding="utf-8", errors="surrogateescape") as file:
            return file.read(1 << 20).rstrip("\n")
    except OSError:
        return ""


def number(*path: str) -> int:
    found = re.match(r"\d+", text(*path))
    return int(found.group()) if found else 0


def _directories(*path: str) -> Iterator[tuple[str, str]]:
    """Names and paths, sorted."""
    directory = os.path.join(*path)
    try:
        entries = sorted(os.listdir(directory))
    except OSError:
        return
    for name in entries:
        at = os.path.join(directory, name)
        if name[0] != "." and os.path.isdir(at) and not os.path.islink(at):
            yield name, at


def _link(directory: str) -> str:
    """The target of the first link there that leads anywhere."""
    try:
        for name in os.listdir(directory):
            at = os.path.join(directory, name)
            if os.path.islink(at) and os.path.exists(at):
                return os.readlink(at)
    except OSError:
        pass
    return ""


# ---- LIO ------------------------------------------------------------------------------


@dataclass
class Store:
    plugin: str
    name: str
    dir: str  # in configfs
    path: str  # the file or device; "" of a ramdisk
    serial: str = ""  # "" as long as it is not enabled
    size: int = 0
    device: int = 0  # the number of the block device that LIO has open
    enabled: bool = False
    write_back: bool = False


@dataclass
class Portal:
    address: str  # without brackets
    port: int
    iser: bool


@dataclass
class Lun:
    lun: int
    plugin: str  # "": its link is broken
    store: str


@dataclass
class Mapped:
    """A LUN of the portal group, as an initiator sees it."""
    seen_as: int
    lun: int
    read_only: bool


@dataclass
class Acl:
    initiator: str
    auth: tuple[str, str, str, str]  # user, secret, and both of the target; never to be printed
    mapped: list[Mapped]
    logged_in: bool
    session: str  # LIO's description, in one line

    def gives(self, lun: int) -> bool:
        return any(m.lun == lun for m in self.mapped)


@dataclass
class Target:
    """One for each portal group."""
    iqn: str
    tag: int
    dir: str  # the portal group's
    enabled: bool = False
    portals: list[Portal] = field(default_factory=list)
    luns: list[Lun] = field(default_factory=list)
    acls: list[Acl] = field(default_factory=list)
    dynamic: int = 0  # sessions of initiators without an ACL

    @property
    def sessions(self) -> int:
        return self.dynamic + sum(a.logged_in for a in self.acls)

    def portal(self, address: str | None, port: int) -> Portal | None:
        return next((p for p in self.portals if p.port == port and same_address(p.address,
            address)), None)

    def lun(self, lun: int) -> Lun | None:
        return next((one for one in self.luns if one.lun == lun), None)

    def acl(self, initiator: str | None) -> Acl | None:
        return next((a for a in self.acls if a.initiator == initiator), None)


@dataclass
class Mount:
    """Of a tmpfs."""
    path: str
    source: str
    options: str
    covered: bool = False  # something else is mounted over it

    @property
    def size(self) -> int:
        found = re.search(r"\bsize=(\w+)", self.options)
        return parse_size(found.group(1)) or 0 if found else 0

    @property
    def policy(self) -> str:
        found = re.search(r"\bmpol=([^:,]+)", self.options)
        return found.group(1) if found else ""

    @property
    def nodes(self) -> set[int]:
        found = re.search(r"\bmpol=[^:,]+:([0-9,-]*[0-9])", self.options)
        return (parse_ids(found.group(1)) or set()) if found else set()


@dataclass
class Lio:
    there: bool = False  # target_core_mod is loaded
    iscsi: bool = False  # and iscsi_target_mod
    cpus: str | None = None  # cpus_allowed_list; None: this kernel has none
    stores: list[Store] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    mounts: list[Mount] = field(default_factory=list)

    def store(self, plugin: str, name: str | None) -> Store | None:
        return next((s for s in self.stores if s.plugin == plugin and s.name == name), None)

    def target(self, iqn: str | None) -> Target | None:
        """The one of our portal group rather than of others."""
        found = [t for t in self.targets if t.iqn == iqn]
        return next((t for t in found if t.tag == TAG), found[0] if found else None)

    def mount(self, path: str | None) -> Mount | None:
        """The last one, which hides those before."""
        return next((m for m in reversed(self.mounts) if m.path == path), None)


def same_address(one: str | None, other: str | None) -> bool:
    """However they are written."""
    return plain_address(one or "") == plain_address(other or "")


def plain_address(address: str) -> str:
    try:
        return str(ipaddress.ip_address(address))
    except ValueError:
        return address


def attribute(directory: str, name: str) -> int | None:
    """Of a target or back store in configfs; None: it has none of this name."""
    found = text(directory, "attrib", name)
    return int(found) if found.isdigit() else None


def _store(plugin: str, name: str, path: str) -> Store:
    store, info = Store(plugin, name, path, text(path, "udev_path")), text(path, "info")
    store.enabled = number(path, "enable") != 0
    if store.enabled:
        store.serial = text(path, "wwn/vpd_unit_serial").partition("Unit Serial "
            "Number: ")[2].split("\n")[0]
    if plugin == "fileio":
        # The last of each: before it is a path, which may have anything in it.
        size = re.search(r".* Size: (\d+)", info, re.DOTALL)
        store.size = int(size.group(1)) if size else 0
        store.write_back = bool(re.search(r".* Mode: Buffered-WCE", info, re.DOTALL))
        file = re.search(r" File: (.*)  Size: ", info, re.DOTALL)
        store.path = store.path or (file.group(1) if file else "")
    elif plugin == "iblock":
        device = re.search(r".*Major: (\d+) Minor: (\d+)", info, re.DOTALL)
        if device and int(device.group(1)):
            store.device = os.makedev(int(device.group(1)), int(device.group(2)))
            at = os.path.join(sysfs(), "dev/block", "%s:%s" % device.groups())
            store.size = number(at, "size") * 512
            store.write_back = write_cache(at) == "write back"
    elif plugin == "rd_mcp":
        pages = re.search(r"PAGES/PAGE_SIZE: (\d+)\*(\d+)", info)
        store.size = int(pages.group(1)) * int(pages.group(2)) if pages else 0
        store.write_back = bool(attribute(path, "emulate_write_cache"))
    return store


def write_cache(device: str) -> str:
    """Of a block device in sysfs; a partition's is its disk's."""
    return text(device, "queue/write_cache") or text(device, "../queue/write_cache")


def _acl(initiator: str, path: str) -> Acl:
    auth = [text(path, "auth", key) for key in ("userid", "password", "userid_mutual",
                                                "password_mutual")]
    info, mapped, lines = text(path, "info"), [], []
    for name, at in _directories(path):
        to = re.fullmatch(r".*/lun_(\d+)", _link(at))
        if re.fullmatch(r"lun_\d+", name) and to:
            mapped.append(Mapped(int(name[4:]), int(to.group(1)), number(at, "write_protect") != 0))
    logged_in = info.startswith("InitiatorName:")
    for line in info.split("\n") if logged_in else ():
        plain = line.lstrip(" ")
        if plain and plain[0] != "-" and (plain == line or plain.startswith("Address ")):
            lines.append(re.sub(r"[\x00-\x1f\x7f]", " ", plain))
    # A value that begins with NULL is none to the kernel.
    user, secret, mutual_user, mutual = ("" if a.startswith("NULL") else a for a in auth)
    return Acl(initiator, (user, secret, mutual_user, mutual), sorted(mapped, key=lambda m: m.lun),
               logged_in, ", ".join(lines))


def _group(iqn: str, tag: int, path: str) -> Target:
    target = Target(iqn, tag, path, number(path, "enable") != 0)
    for name, at in _directories(path, "np"):
        found = re.fullmatch(r"\[?([^]]+)\]?:(\d+)", name)
        if found:
            target.portals.append(Portal(found.group(1), int(found.group(2)), number(at,
                "iser") != 0))
    for name, at in _directories(path, "lun"):
        to = re.fullmatch(r".*?([^/]+)_\d+/([^/]+)", _link(at))
        if re.fullmatch(r"lun_\d+", name):
            target.luns.append(Lun(int(name[4:]), *(to.groups() if to else ("", ""))))
    target.luns.sort(key=lambda one: one.lun)
    target.acls = [_acl(name, at) for name, at in _directories(path, "acls")]
    target.dynamic = len(text(path, "dynamic_sessions").replace("\0", "").split())
    return target


def _mounts() -> list[Mount]:
    mounts: list[Mount] = []
    for line in text(proc(), "self/mountinfo").splitlines():
        # "36 35 0:30 / /mnt rw,noatime shared:1 - tmpfs source rw,mpol=bind:1"; \040 is a blank
        left, _, right = line.partition(" - ")
        words = [re.sub(r"\\([0-7]{3})", lambda m: chr(int(m.group(1), 8)), w) for w in
                 left.split()[4:5] + right.split()[:3]]
        if len(words) < 4:
            continue
        for below in mounts:
            below.covered |= below.path == words[0]
        if words[1] == "tmpfs":
            mounts.append(Mount(words[0], words[2], words[3]))
    return mounts


def read_lio() -> Lio:
    """A kernel without LIO is no error."""
    root = os.path.join(configfs(), "target")
    fabric = os.path.join(root, "iscsi")
    lio = Lio(os.path.isdir(root), os.path.isdir(fabric), mounts=_mounts())
    if os.path.exists(os.path.join(fabric, "cpus_allowed_list")):
        lio.cpus = text(fabric, "cpus_allowed_list")
    for hba, at in _directories(root, "core"):
        plugin = re.fullmatch(r"(.+)_\d+", hba)
        if plugin:
            lio.stores += [_store(plugin.group(1), name, path) for name, path in _directories(at)]
    for iqn, at in _directories(fabric):
        groups = [(name, path) for name, path in _directories(at) if re.fullmatch(r"tpgt_\d+",
            name)]
        if iqn != "discovery_auth":
            lio.targets += [_group(iqn, int(name[5:]), path) for name, path in groups] or \
                [Target(iqn, NO_GROUP, at)]
    return lio


# ---- nodes, cards and interrupts ------------------------------------------------------


def read_machine(lio: Lio) -> topology.Host:
    """Its nodes and cards, and the nodes of LIO's files and devices."""
    return topology.read("", "", None, None, [s.path for s in lio.stores if s.path
                                              and os.path.exists(s.path)])


def nodes_of(machine: topology.Host, cpus: set[int]) -> set[int]:
    return {n.id for n in machine.nodes.values() if cpus & cpus_of(machine, n.id)}


def cpus_of(machine: topology.Host, node: int) -> set[int]:
    there = machine.nodes.get(node)
    return (parse_ids(there.cpus) or set()) if there else set()


def node_room(node: int) -> int | None:
    """Bytes of its memory that are free, or the page cache's; None: not known."""
    said = re.findall(r" (?:MemFree|Active\(file\)|Inactive\(file\)): +(\d+)",
                      text(sysfs(), "devices/system/node/node%d/meminfo" % node))
    return sum(map(int, said)) << 10 if said else None


@dataclass
class Interface:
    """A network interface, with one of its addresses."""
    netdev: str
    address: str
    up: bool
    link: bool


def interfaces() -> list[Interface]:
    return [Interface(one["ifname"], info["local"], "UP" in one["flags"],
                      "NO-CARRIER" not in one["flags"])
            for one in json.loads(output_of(["ip", "-json", "address", "show"]) or "[]")
            for info in one.get("addr_info", ()) if "local" in info]


def irqs_of(netdev: str) -> list[int] | None:
    """Message-signalled interrupts of a card; None: it has none of its own, or sysfs does not say.
    A PCI function lists them; a virtio device, which a card may be, stands one level lower."""
    for at in ("device", "device/.."):
        try:
            entries = os.listdir(os.path.join(sysfs(), "class/net", netdev, at, "msi_irqs"))
            return sorted(int(e) for e in entries if e.isdigit())
        except OSError:
            pass
    return None


def irq_cpus(irq: int, kind: str = "smp") -> set[int] | None:
    """That may handle it; kind "effective": that do."""
    said = text(proc(), "irq/%d/%s_affinity_list" % (irq, kind))
    return parse_ids(said) if said else None


@dataclass
class Card:
    """The network interface that has an address; netdev "": none of this host has."""
    netdev: str = ""
    node: int = NODE_UNKNOWN
    rdma: str = ""
    irqs: int = 0
    irq_cpus: set[int] = field(default_factory=set)


def card(machine: topology.Host, all_interfaces: list[Interface], address: str | None) -> Card:
    one = next((i for i in all_interfaces if i.address == address), None)
    if not one:
        return Card()
    found = Card(one.netdev, machine.netdev_node(one.netdev), machine.netdev_rdma(one.netdev))
    for irq in irqs_of(one.netdev) or ():
        cpus = irq_cpus(irq, "effective") or irq_cpus(irq)
        if cpus is not None:
            found.irqs += 1
            found.irq_cpus |= cpus
    return found


# ---- threads --------------------------------------------------------------------------

THREAD_TX = "iscsi_ttx"  # the one that the kernel confines to LIO's list
THREADS = ("iscsi_np", "iscsi_trx", THREAD_TX)
QUEUES = ("ib-comp-unb-wq", "ib-comp-wq", "isert_comp_wq", "isert_login_wq", "isert_release_wq",
          "target_completion", "target_submission", "xcopy_wq")
KERNEL_THREAD = 0x00200000  # PF_KTHREAD


@dataclass
class Thread:
    name: str  # a worker's: of the queue that it has worked for last
    pid: int
    worker: bool
    cpus: set[int]  # that it may run on
    last: int  # that it ran on


def threads() -> list[Thread]:
    """Kernel threads that serve iSCSI and iSER, by name. Failure when /proc cannot be listed."""
    found = []
    try:
        pids = [e for e in os.listdir(proc()) if e.isdigit()]
    except OSError as why:
        raise failed(why, proc()) from why
    for pid in pids:
        comm = text(proc(), pid, "comm")
        # "kworker/1:2H-ib-comp-wq", or with a plus while it is at work
        worker = re.fullmatch(r"kworker/[^-+]*[-+](.*)", comm)
        name = worker.group(1) if worker else comm
        if name not in (QUEUES if worker else THREADS):
            continue
        fields = text(proc(), pid, "stat").rpartition(")")[2].split()
        cpus = re.search(r"^Cpus_allowed_list:\s*(\S+)", text(proc(), pid, "status"), re.MULTILINE)
        if cpus and len(fields) > 36 and int(fields[6]) & KERNEL_THREAD:
            found.append(Thread(name, int(pid), bool(worker), parse_ids(cpus.group(1)) or set(),
                                int(fields[36])))
    return sorted(found, key=lambda t: (t.name, t.pid))


# ---- where a file's pages are ---------------------------------------------------------

WINDOW, WINDOWS = 2 << 20, 512  # bytes that are looked at side by side; of a file, at most
MADV_POPULATE_READ = 22
TMPFS = 0x01021994


@dataclass
class Pages:
    """Of a file in a tmpfs, in bytes."""
    on: dict[int, int] = field(default_factory=dict)  # by node
    holes: int = 0
    swapped: int = 0
    sampled: bool = False  # only a part of them was looked at, and stands for the rest

    def elsewhere(self, node: int) -> int:
        return sum(size for n, size in self.on.items() if n != node)


def numa() -> ctypes.CDLL:
    """libnuma, whose calls are the kernel's; Failure when it is missing."""
    try:
        return ctypes.CDLL("libnuma.so.1", use_errno=True)
    except OSError:
        raise Failure("numactl is missing, with libnuma.so.1, which places back stores and finds "
                      "their pages: install the package numactl") from None


def _called(result: int, what: str) -> None:
    if result:
        raise OSError(ctypes.get_errno(), "%s: %s" % (what, os.strerror(ctypes.get_errno())))


def _piece(fd: int, at: int, size: int, written: bool) -> dict[int, int]:
    """Bytes by node of a piece without holes. Only mapped pages can be asked for, and mapping a
    page reads it in from swap space: so only those in memory are. written: else all are."""
    libc, page = ctypes.CDLL(None, use_errno=True), os.sysconf("SC_PAGESIZE")
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
                          ctypes.c_int, ctypes.c_int64]
    count, on = -(-size // page), dict[int, int]()
    base = libc.mmap(None, size, 1, 1, fd, at)  # PROT_READ, MAP_SHARED
    _called(base == ctypes.c_void_p(-1).value, "it cannot be mapped")
    try:
        there = (ctypes.c_ubyte * count)(*[1] * count)
        if written:
            _called(libc.mincore(ctypes.c_void_p(base), ctypes.c_size_t(size), there), "mincore")
        for run_of in re.finditer(rb"\x01+", bytes(t & 1 for t in there)):
            if libc.madvise(ctypes.c_void_p(base + run_of.start() * page),
                            ctypes.c_size_t(len(run_of.group()) * page), MADV_POPULATE_READ):
                _called(ctypes.get_errno() != 14, "pages cannot be looked at (that wants Linux "
                        "5.14)")  # EFAULT: cut
        where = (ctypes.c_int * count)()
        asked = (ctypes.c_void_p * count)(*(base + i * page for i in range(count)))
        _called(numa().move_pages(0, ctypes.c_ulong(count), asked, None, where, 0), "move_pages")
        for i, node in enumerate(where):
            if node >= 0:
                on[node] = on.get(node, 0) + min(page, size - i * page)
    finally:
        libc.munmap(ctypes.c_void_p(base), ctypes.c_size_t(size))
    return on


def _seek(fd: int, at: int, end: int, whence: int) -> int:
    try:
        return min(os.lseek(fd, at, whence), end)
    except OSError as why:
        if why.errno != 6:  # ENXIO: no more
            raise
        return end


def _window(fd: int, start: int, end: int, allocated: bool, stands_for: int, into: Pages) -> None:
    """allocated: the file has no holes; its pages that were never written look like one."""
    at, data, on = start, 0, dict[int, int]()
    while at < end:
        begin = _seek(fd, at, end, os.SEEK_DATA)
        stop = _seek(fd, begin, end, os.SEEK_HOLE) if begin < end else end
        for first, last, written in ((at, begin, False), (begin, stop, True)):
            if last > first and (written or allocated):
                data += last - first
                for node, size in _piece(fd, first, last - first, written).items():
                    on[node] = on.get(node, 0) + size
        at = stop
    for node, size in on.items():
        into.on[node] = into.on.get(node, 0) + size * stands_for // (end - start)
    into.holes += (end - start - data) * stands_for // (end - start)
    into.swapped += (data - sum(on.values())) * stands_for // (end - start)


def pages(path: str) -> Pages | None:
    """Nothing is read in, nor allocated. None: path is no file in a tmpfs."""
    found = Pages()
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        try:
            st = os.fstat(fd)
            if not stat.S_ISREG(st.st_mode) or not _in_tmpfs(fd):
                return None
            windows = -(-st.st_size // WINDOW)
            stride = -(-windows // WINDOWS) * WINDOW
            found.sampled = stride > WINDOW
            for at in range(0, st.st_size, stride or 1):
                _window(fd, at, min(at + WINDOW, st.st_size), st.st_blocks * 512 >= st.st_size,
                        min(stride, st.st_size - at), found)
        finally:
            os.close(fd)
    except OSError as why:
        raise failed(why, printable(path)) from why
    found.on = dict(sorted(found.on.items()))
    return found


def _in_tmpfs(fd: int) -> bool:
    """fstatfs(2), whose structure begins with the filesystem's magic number."""
    out = (ctypes.c_long * 32)()
    _called(ctypes.CDLL(None, use_errno=True).fstatfs(fd, out), "fstatfs")
    return bool(out[0] == TMPFS)


@dataclass
class Where:
    """Where a back store really is: pages, page cache (of a file on a disk), device, hidden (of a
    ramdisk), gone (LIO has open what has not this name any more), unseen."""
    kind: str
    pages: Pages = field(default_factory=Pages)
    nodes: str = ""  # of the device; "": not known
    why: str = ""  # gone, unseen


def where(machine: topology.Host, store: Store) -> Where:
    if store.plugin.startswith("rd_"):
        return Where("hidden")
    try:
        st = os.stat(store.path)
    except OSError as why:
        return Where("gone" if isinstance(why, FileNotFoundError) else "unseen",
                     why="%s: %s" % (printable(store.path), why.strerror))
    block = stat.S_ISBLK(st.st_mode)
    # Devices have other names when the host or a card was started again.
    if store.device and not (block and st.st_rdev == store.device):
        return Where("gone", why="%s: is another device now than LIO has" % printable(store.path))
    nodes = machine.locations.get(store.path, topology.Location()).nodes
    if block:
        return Where("device", nodes=nodes)
    try:
        found = pages(store.path)
    except Failure as why:
        return Where("unseen", why=str(why))
    return Where("pages", found) if found else Where("page cache", nodes=nodes)
