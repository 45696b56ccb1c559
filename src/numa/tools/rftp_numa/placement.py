# SPDX-License-Identifier: Apache-2.0
"""Where things are on this machine: the interrupts of a card, and the pages of a file in a tmpfs.
And a thread's memory, which is put on a node."""
from __future__ import annotations

import collections
import contextlib
import ctypes
import errno
import mmap
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field

from rftp_common import Failure, at_place, entries, file_text, parse_ids, printable, proc, sysfs

MPOL_BIND = 2
WINDOW, WINDOWS = 2 << 20, 512  # bytes that are looked at side by side; of a file, at most
MADV_POPULATE_READ = 22
PAGE = os.sysconf("SC_PAGESIZE")
HOLE, SWAPPED = -1, -2  # instead of a page's node

# ---- interrupts and memory -------------------------------------------------------------


def node_room(node: int) -> int | None:
    """Bytes of its memory that are free, or the page cache's; None: not known."""
    said = re.findall(r" (?:MemFree|Active\(file\)|Inactive\(file\)): +(\d+)",
                      file_text(sysfs(f"devices/system/node/node{node}/meminfo")))
    return sum(map(int, said)) << 10 if said else None


def irqs_of(netdev: str) -> list[int]:
    """Message-signalled interrupts of a card. A PCI function lists them; a virtio device, which a
    card may be, stands one level lower."""
    at = sysfs("class/net", netdev)
    found = entries(at, "device/msi_irqs") or entries(at, "device/../msi_irqs")
    return sorted(int(e) for e in found if e.isdigit())


def irq_cpus(irq: int, kind: str = "smp") -> set[int] | None:
    """The CPUs that may handle it; kind "effective": those that do."""
    said = file_text(proc("irq", str(irq), kind + "_affinity_list"))
    return parse_ids(said) if said else None


# ---- where a file's pages are ---------------------------------------------------------


@dataclass
class Pages:
    """Of a file in a tmpfs, in bytes."""
    nodes: dict[int, int] = field(default_factory=dict)  # by node
    never_written: int = 0  # holes
    swapped: int = 0
    sampled: bool = False  # only a part of them was looked at, and stands for the rest

    def elsewhere(self, node: int) -> int:
        return sum(size for n, size in self.nodes.items() if n != node)


def numa() -> ctypes.CDLL:
    """libnuma: its calls are the kernel's. Failure when it is missing."""
    try:
        return ctypes.CDLL("libnuma.so.1", use_errno=True)
    except OSError:
        raise Failure("numactl is missing, with libnuma.so.1, which places back stores and finds "
                      "their pages: install the package numactl") from None


def bind_memory(node: int) -> None:
    """This thread, and the kernel for it, take memory from this node alone from now on. OSError."""
    mask = (ctypes.c_uint64 * 16)()
    mask[node // 64] = 1 << node % 64
    if numa().set_mempolicy(MPOL_BIND, mask, ctypes.c_ulong(1025)):
        raise OSError(ctypes.get_errno(), f"the memory of node {node} cannot be chosen")


def _written(fd: int, start: int, end: int) -> set[int]:
    """The pages of a part of a file that are no holes, by their numbers in it."""
    found, at = set[int](), start
    with contextlib.suppress(OSError):  # ENXIO: no more
        while at < end:
            first = os.lseek(fd, at, os.SEEK_DATA)
            at = os.lseek(fd, first, os.SEEK_HOLE)
            found.update(range((first - start) // PAGE, -(-(min(at, end) - start) // PAGE)))
    return found


def _window(fd: int, start: int, end: int, allocated: bool) -> Iterator[tuple[int, int]]:
    """The node and length of each page of a part of a file. allocated: the file has no holes; its
    pages that were never written look like one. Only mapped pages have a node, and mapping a page
    reads it in from swap space: so only those in memory are mapped."""
    size, count, written = end - start, -(-(end - start) // PAGE), _written(fd, start, end)
    in_memory, nodes = (ctypes.c_ubyte * count)(), (ctypes.c_int * count)()
    # A private mapping: only of a writable one does ctypes tell the address.
    with mmap.mmap(fd, size, access=mmap.ACCESS_COPY, offset=start) as view:
        base = ctypes.addressof(ctypes.c_char.from_buffer(view))
        if numa().mincore(ctypes.c_void_p(base), ctypes.c_size_t(size), in_memory):
            raise OSError(ctypes.get_errno(), "mincore")
        looked = bytes(in_memory[i] & 1 if i in written else allocated for i in range(count))
        for part in re.finditer(rb"\x01+", looked):
            try:
                view.madvise(MADV_POPULATE_READ, part.start() * PAGE, len(part[0]) * PAGE)
            except OSError as why:
                if why.errno != errno.EFAULT:  # the file was cut meanwhile
                    raise
        asked = (ctypes.c_void_p * count)(*range(base, base + count * PAGE, PAGE))
        if numa().move_pages(0, ctypes.c_ulong(count), asked, None, nodes, 0):
            raise OSError(ctypes.get_errno(), "move_pages")
    for i, node in enumerate(nodes):
        absent = SWAPPED if allocated or i in written else HOLE
        yield node if node >= 0 else absent, min(PAGE, size - i * PAGE)


def pages(path: str) -> Pages | None:
    """Nothing is read in, nor allocated. None: path is no file in a tmpfs."""
    sizes = collections.Counter[int]()
    with at_place(printable(path)):
        if not stat.S_ISREG(os.stat(path).st_mode):
            return None
        with open(path, "rb") as file:
            fd, st = file.fileno(), os.fstat(file.fileno())
            tmpfs = rf"^\d+ \d+ {os.major(st.st_dev)}:{os.minor(st.st_dev)} .* - tmpfs "
            if not re.search(tmpfs, file_text("/proc/self/mountinfo"), re.MULTILINE):
                return None
            stride = -(-st.st_size // WINDOW // WINDOWS) * WINDOW
            for at in range(0, st.st_size, stride or 1):
                end = min(at + WINDOW, st.st_size)
                factor = min(stride, st.st_size - at) / (end - at)
                try:
                    for node, length in _window(fd, at, end, st.st_blocks * 512 >= st.st_size):
                        sizes[node] += int(length * factor)
                except ValueError:  # of mmap
                    raise Failure("is smaller than a moment ago") from None
    by_node = {node: size for node, size in sorted(sizes.items()) if node >= 0}
    return Pages(by_node, sizes[HOLE], sizes[SWAPPED], stride > WINDOW)
