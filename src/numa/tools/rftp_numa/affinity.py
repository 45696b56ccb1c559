# SPDX-License-Identifier: Apache-2.0
"""The command "affinity": what it costs a disk when buffers or threads are on another node, by fio."""
from __future__ import annotations

import errno
import mmap
import os
import stat
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rftp_numa import fio
from rftp_numa.common import (JSON, NODE_MOST, Failure, Misuse, Option, Options, Stop, count, format_ids, format_rate,
                              format_seconds, format_size, json_line, json_name, one_of, output, printable,
                              run, say, size, system, take_options, text, warn)
from rftp_numa.machine import Machine, disk_nodes, read_machine

NO_FIO = "fio is not in PATH; it does the measuring: install the package fio (Debian, RHEL)"


TABLE = [
    Option("path", "PATH", "a directory on the disk, or a file or disk to read", text, ""),
    Option("op", "read|write", "what to do (read)", one_of("read", "write"), "read"),
    Option("size", "SIZE", "of the file, or how much of what there is (1G)", size(4096, 1 << 50), 1 << 30),
    Option("block", "SIZE", "of a request (1M)", size(512, 1 << 30), 1 << 20),
    Option("jobs", "N", "threads with one request each (4)", count(1, 1024), 4),
    Option("seconds", "N", "that a run takes (10)", count(1, 86400), 10),
    Option("runs", "N", "of each placement (3)", count(3, 100), 3),
    Option("device-node", "N", "where the disk is", count(0, NODE_MOST)),
    Option("remote-node", "N", "the other one (the farthest)", count(0, NODE_MOST)),
    Option("buffered", "", "through the page cache"),
    JSON]


@dataclass(frozen=True)
class Placement:
    """Named after what is local in it (after Akram et al.): the transfer, between device and buffer,
    when the buffer is on the device's node; the copy, between buffer and thread, when the thread
    runs on the buffer's."""
    name: str
    memory: int | None  # nodes; None: anywhere
    cpus: int | None


def placements(device: int, remote: int | None) -> list[Placement]:
    remotes = [] if remote is None else [
        Placement("TRLCPR", device, remote), Placement("TRRCPL", remote, remote),
        Placement("TRRCPR", remote, device)]
    return [Placement("TRLCPL", device, device), *remotes, Placement("none", None, None)]


def farthest_node(machine: Machine, device: int) -> int | None:
    """By distance, of those with memory and CPUs that this process may use; of several the first."""
    own = machine.node(device)
    usable = [(own.distances[i], -n.id) for i, n in enumerate(machine.nodes) if own and n.id != device
              and n.memory and machine.may_bind(n) and machine.usable(n.id)]
    return -max(usable)[1] if usable else None


# ---- the disk -------------------------------------------------------------------------


def in_memory(fd: int) -> bool:
    st = os.fstat(fd).st_dev
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as mounts:
        return any(line.split()[2] == "%d:%d" % (os.major(st), os.minor(st)) and
                   line.partition(" - ")[2].split()[0] in ("tmpfs", "ramfs") for line in mounts)


def why_not_direct(fd: int, block: int) -> str:
    """"" when a read as fio's will be can be direct."""
    if in_memory(fd):
        return "the files of this filesystem are memory"  # newer kernels only pretend
    try:
        direct = os.open("/proc/self/fd/%d" % fd, os.O_RDONLY | os.O_DIRECT)
    except OSError as why:
        return "this filesystem has none" if why.errno == errno.EINVAL else str(why.strerror)
    try:
        with mmap.mmap(-1, block) as buffer:
            os.preadv(direct, [buffer], 0)
        return ""
    except OSError as why:
        return "not in blocks of this size" if why.errno == errno.EINVAL else str(why.strerror)
    finally:
        os.close(direct)


def _fill(fd: int, bytes: int, cpus: frozenset[int], stop: Stop) -> None:
    """By CPUs of the device's node, as far as that can be: a file in memory comes from there."""
    before = os.sched_getaffinity(0)
    if before & cpus:
        os.sched_setaffinity(0, before & cpus)
    at = 0
    while at < bytes:
        at += os.pwrite(fd, os.urandom(min(1 << 20, bytes - at)), at)
        if stop.asked:
            raise Failure("stopped by a signal")
    os.fdatasync(fd)  # what is still being written must not be in the way of the first run
    os.sched_setaffinity(0, before)


def make_file(o: Options, machine: Machine, device: int, stop: Stop) -> int:
    """A file without a name, which is gone with its last descriptor, whatever ends this process."""
    path = printable(o.path)
    try:
        fd, name = tempfile.mkstemp(prefix=".rftp-numa-", dir=o.path)
        os.unlink(name)
    except OSError as why:
        raise system(why, path + ": no file can be made in it") from why
    room = os.fstatvfs(fd)
    if room.f_blocks and room.f_bavail * room.f_frsize < o.size:
        raise Failure("%s: a file of %s (--size) does not fit: %s are free" % (
            path, format_size(o.size), format_size(room.f_bavail * room.f_frsize)))
    try:
        node = machine.node(device)
        _fill(fd, o.size, node.cpus if node else frozenset(), stop)
    except OSError as why:
        raise system(why, "%s: a file of %s (--size) cannot be written there" % (
            path, format_size(o.size))) from why
    return fd


def open_there(o: Options, disk: bool) -> int:
    if o.op == "write":
        raise Failure("%s: %s is only read, for writing would destroy what is in it; name a directory on it"
                      % (printable(o.path), "a disk" if disk else "a file that there is"))
    fd = os.open(o.path, os.O_RDONLY)
    o.size = min(o.size, os.lseek(fd, 0, os.SEEK_END))
    return fd


def device_node(o: Options, machine: Machine) -> int:
    if o.device_node is not None:
        return int(o.device_node)
    nodes = {machine.nodes[0].id} if len(machine.nodes) == 1 else disk_nodes(o.path)
    if len(nodes) != 1:
        raise Failure("%s: %s; say with --device-node which to take for it" % (
            printable(o.path), "its disk is on several nodes" if nodes else
            "which node its disk is on is not known"))
    return next(iter(nodes))


# ---- runs -----------------------------------------------------------------------------


def check_fio(stop: Stop) -> None:
    try:
        done = run(["fio", "--cmdhelp=numa_mem_policy"], stop)
    except FileNotFoundError:
        raise Failure(NO_FIO) from None
    if done.status or b"numa_mem_policy" not in done.out or b"Build fio" in done.out:
        raise Failure("this fio cannot put its buffers on a node: it was built without libnuma (no option "
                      "numa_mem_policy); install the distribution's package fio")


def run_fio(o: Options, place: Placement, machine: Machine, fd: int, direct: bool, stop: Stop) -> fio.Result:
    """By descriptor: the file has no name, and ":" in names is a list for fio. Every job maps its
    buffers after it has taken its memory policy, so that no page of them is older."""
    words = fio.words("/proc/self/fd/%d" % fd, o.op, o.block, o.jobs, o.seconds,
                      o.size // o.jobs // o.block * o.block, name=place.name, direct=direct)
    # Its threads write new data each time: that is the copy. Processes would outlive a fio that is
    # killed.
    words += ["--refill_buffers" if o.op == "write" else "--readonly", "--thread", "--iomem=mmap"]
    if place.cpus is not None:
        words.append("--cpus_allowed=" + format_ids(machine.usable(place.cpus)))
    if place.memory is not None:
        words.append("--numa_mem_policy=bind:%d" % place.memory)
    os.fdatasync(fd)  # only what has been written can be dropped from the page cache
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    done = run(words, stop, fds=[fd])
    said = done.out.decode("utf-8", "replace")
    if not done.status:
        return fio.parse(said, o.op)
    for line in done.err.splitlines()[:20]:
        say("fio said: " + printable(line))
    why = "fio failed"
    try:
        fio.parse(said, o.op)
    except Failure as failure:
        why = str(failure) if "job failed" in str(failure) else why
    raise Failure("%s (%s, exit status %d)" % (why, place.name, done.status))


def run_all(o: Options, places: Sequence[Placement], machine: Machine, fd: int, direct: bool,
            stop: Stop) -> list[list[fio.Result]]:
    """There and back again, so that what drifts hits all placements alike."""
    results: list[list[fio.Result]] = [[] for _ in places]
    for turn in range(o.runs):
        for i in range(len(places)) if turn % 2 == 0 else reversed(range(len(places))):
            results[i].append(run_fio(o, places[i], machine, fd, direct, stop))
    return results


def summary(runs: Sequence[fio.Result]) -> dict[str, float]:
    rates = [r.bytes_per_second for r in runs]
    return {"bytes_per_second": statistics.median(rates),
            "deviation": statistics.stdev(rates) / statistics.mean(rates),
            "mean_ns": statistics.median(r.mean_ns for r in runs),
            "p99_ns": statistics.median(r.p99_ns for r in runs)}


# ---- what is shown --------------------------------------------------------------------


def node_text(node: int | None) -> str:
    return "anywhere" if node is None else "node %d" % node


def report(o: Options, direct: bool, device: int, remote: int | None, places: Sequence[Placement],
           results: Sequence[Sequence[fio.Result]]) -> str:
    sums = [summary(runs) for runs in results]
    ratios = [s["bytes_per_second"] / sums[0]["bytes_per_second"] for s in sums]
    if o.json:
        obj: dict[str, Any] = {
            "op": o.op, "direct": direct, "block": o.block, "size": o.size, "jobs": o.jobs,
            "seconds": o.seconds, "device_node": device, "remote_node": remote, "placements": [
                {"name": p.name, "memory_node": p.memory, "cpu_node": p.cpus, **s, "ratio": ratio,
                 "runs": [vars(r) for r in runs]}
                for p, s, ratio, runs in zip(places, sums, ratios, results)]}
        return json_line({**obj, **json_name("path", o.path)})
    lines = ["%s: %ss of %s in %s, %s, %d jobs, %d runs of %d s" % (
        printable(o.path), o.op, format_size(o.block), format_size(o.size),
        "direct" if direct else "page cache", o.jobs, o.runs, o.seconds),
        "device: %s, remote: %s\n" % (node_text(device), "none" if remote is None else node_text(remote)),
        "%-10s %-10s %-10s %14s %7s %10s %12s %12s" % (
            "placement", "buffers", "threads", "throughput", "ratio", "deviation", "mean", "99 %")]
    lines += ["%-10s %-10s %-10s %14s %7.3f %8.2f %% %9.1f us %9.1f us" % (
        p.name, node_text(p.memory), node_text(p.cpus), format_rate(s["bytes_per_second"]), ratio,
        100 * s["deviation"], s["mean_ns"] / 1e3, s["p99_ns"] / 1e3)
        for p, s, ratio in zip(places, sums, ratios)]
    return "\n".join(lines) + "\n"


def check_options(o: Options) -> None:
    if not o.path:
        raise Misuse("--path is missing: a directory on the disk to be measured, or a file or disk to be read")
    if o.block % 512:
        raise Misuse("--block takes whole sectors of 512 bytes")
    if o.size // o.jobs < o.block:
        raise Misuse("--size has less than one --block for each of --jobs")
    if o.remote_node is not None and o.remote_node == o.device_node:
        raise Misuse("--remote-node and --device-node are the same")


def measure(o: Options, stop: Stop) -> str:
    check_fio(stop)
    machine = read_machine()
    for given in (o.device_node, o.remote_node):  # before a big file is made for nothing
        if given is not None:
            machine.check(given)
    mode = os.stat(o.path).st_mode
    if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode) and not stat.S_ISBLK(mode):
        raise Failure("%s: neither a directory nor a file nor a disk" % printable(o.path))
    fd = -1 if stat.S_ISDIR(mode) else open_there(o, stat.S_ISBLK(mode))
    device = device_node(o, machine)
    if fd < 0:
        fd = make_file(o, machine, device, stop)
    not_direct = "" if o.buffered else why_not_direct(fd, o.block)
    direct = not o.buffered and not not_direct
    machine.check(device)
    remote = o.remote_node if o.remote_node is not None else farthest_node(machine, device)
    if remote == device:
        raise Failure("node %d is the device's own: --remote-node must be another" % device)
    if o.size // o.jobs < o.block:
        raise Failure("%s has %d bytes: less than one --block for each of --jobs" % (
            printable(o.path), o.size))
    places = placements(device, remote)
    if remote is None:
        say("there is no other node with memory and CPUs that this process may use: only the local placement "
            "can be measured, and no control")
    if not_direct:
        warn("%s: no direct I/O (%s): it goes through the page cache" % (printable(o.path), not_direct))
    say("%d runs of %d placements, %s" % (o.runs, len(places), format_seconds(o.runs * len(places) * o.seconds)))
    return report(o, direct, device, remote, places, run_all(o, places, machine, fd, direct, stop))


def main() -> None:
    o = take_options("affinity", "What it costs when buffers or threads are not on a disk's node, by fio.",
                        TABLE)
    if not o:
        return
    check_options(o)
    with Stop(obey=False) as stop:  # a second signal must not leave fio behind, either
        output(measure(o, stop))
