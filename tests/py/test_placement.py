# SPDX-License-Identifier: Apache-2.0
"""The NUMA nodes of the pages of a file in a tmpfs. The pages are on the machine's last node: with
several nodes that is not the default. tests/vm/iser-status.sh runs this in such a guest."""
import ctypes
import mmap
import os

import pytest
from rftp_common import Failure, parse_ids
from rftp_numa import placement

MIB = 1 << 20
ODD = 1000  # bytes after the last whole page
MADV_PAGEOUT = 21
NODES = sorted(parse_ids(open("/sys/devices/system/node/has_memory").read()))
LAST = NODES[-1]


def put_memory_on(node):
    """Sets the memory policy of this process to node; None: to any node."""
    mask = ctypes.c_ulong(0 if node is None else 1 << node)
    if placement.numa().set_mempolicy(0 if node is None else 2, ctypes.byref(mask), ctypes.c_ulong(65)):
        pytest.skip("no memory policies here: " + os.strerror(ctypes.get_errno()))


class File:
    def __init__(self, path):
        self.path = path
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)

    def fill(self, node, start, size):
        if os.fstat(self.fd).st_size < start + size:
            os.ftruncate(self.fd, start + size)
        put_memory_on(node)
        os.pwrite(self.fd, b"\1" * size, start)
        put_memory_on(None)

    def allocate(self, node, size):
        os.ftruncate(self.fd, 0)
        put_memory_on(node)
        os.posix_fallocate(self.fd, 0, size)
        put_memory_on(None)

    def look(self):
        """Queries the pages, and checks that the query allocates none."""
        before = os.fstat(self.fd).st_blocks
        found = placement.pages(self.path)
        assert os.fstat(self.fd).st_blocks == before
        return found


@pytest.fixture
def file():
    one = File(f"/dev/shm/test-iser-pages.{os.getpid()}")
    yield one
    os.close(one.fd)
    os.unlink(one.path)


def test_whole(file):
    file.fill(LAST, 0, 3 * MIB + ODD)
    assert file.look() == placement.Pages({LAST: 3 * MIB + ODD})
    assert file.look().elsewhere(LAST) == 0 and file.look().elsewhere(LAST + 1) == 3 * MIB + ODD


def test_holes(file):
    """The query allocates no page in a hole, even with pages on both sides within a window."""
    file.fill(LAST, 64 << 10, 64 << 10)
    file.fill(LAST, 512 << 10, 4 << 10)
    file.fill(LAST, 5 * MIB, MIB)
    os.ftruncate(file.fd, 9 * MIB + ODD)
    assert file.look() == placement.Pages({LAST: MIB + (68 << 10)}, 8 * MIB + ODD - (68 << 10))


def test_empty(file):
    assert file.look() == placement.Pages()
    os.ftruncate(file.fd, 4 * MIB)
    assert file.look() == placement.Pages(never_written=4 * MIB)


def test_allocated(file):
    """Files as apply makes them: all pages allocated but not written; then some are written."""
    file.allocate(LAST, 8 * MIB + ODD)
    assert file.look() == placement.Pages({LAST: 8 * MIB + ODD})
    file.allocate(LAST, 8 * MIB)
    file.fill(LAST, 3 * MIB + 8192, 4096)
    file.fill(LAST, 5 * MIB, 2 * MIB)
    assert file.look() == placement.Pages({LAST: 8 * MIB})


def test_sampled(file):
    """In a file of more than 4 GiB every fifth window of 2 MiB is queried, and counts for 10 MiB;
    the last one counts for the remaining 8 MiB."""
    size = 4108 * MIB
    file.fill(LAST, 0, MIB)  # half a window
    file.fill(LAST, 2 * MIB, MIB)  # not queried
    file.fill(LAST, 20 * MIB, 2 * MIB)  # a whole window
    os.ftruncate(file.fd, size)
    assert file.look() == placement.Pages({LAST: 15 * MIB}, size - 15 * MIB, sampled=True)
    file.fill(LAST, 4100 * MIB, MIB)  # the last: half of a window
    assert file.look() == placement.Pages({LAST: 19 * MIB}, size - 19 * MIB, sampled=True)


@pytest.mark.skipif(len(NODES) < 2, reason="one node")
def test_two_nodes(file):
    file.fill(NODES[0], 0, MIB)
    file.fill(LAST, MIB, 2 * MIB)
    found = file.look()
    assert found == placement.Pages({NODES[0]: MIB, LAST: 2 * MIB}) and found.elsewhere(NODES[0]) == 2 * MIB


def test_swapped(file):
    """The query does not swap pages in."""
    file.fill(LAST, 0, 4 * MIB)
    with mmap.mmap(file.fd, 4 * MIB) as view:
        view.madvise(mmap.MADV_RANDOM)  # pages from read-ahead would not be paged out
        view[:2 * MIB] = b"\2" * (2 * MIB)
        view.madvise(MADV_PAGEOUT, 0, 2 * MIB)
    found = file.look()
    if not found.swapped:
        pytest.skip("no swap space")
    assert found.swapped + found.nodes[LAST] == 4 * MIB and 1 <= found.swapped <= 2 * MIB
    assert 1 <= file.look().swapped <= 2 * MIB  # the query has not swapped them in


def test_no_file(tmp_path):
    fifo = f"/dev/shm/test-iser-pages.{os.getpid()}.fifo"
    os.mkfifo(fifo)
    try:
        assert [placement.pages(path) for path in ("/dev/shm", "/proc/self/stat", fifo)] == [None] * 3
    finally:
        os.unlink(fifo)
    with pytest.raises(Failure, match="/dev/shm/none/of/it"):
        placement.pages("/dev/shm/none/of/it")
