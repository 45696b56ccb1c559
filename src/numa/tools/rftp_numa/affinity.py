# SPDX-License-Identifier: Apache-2.0
"""The command "affinity": what it costs a disk when buffers or threads are on another node, by
fio(1). scripts/fio-numa uses fio as this does, too."""
from __future__ import annotations

import errno
import json
import math
import mmap
import os
import shutil
import stat
import statistics
import sys
import tempfile
from collections.abc import Sequence
from typing import Any, NamedTuple

from rftp_common import (JSON, Command, Failure, Misuse, Option, Options, Stop, count, failed,
                         format_ids, format_rate, format_size, one_of, output, parse, parse_ids,
                         printable, run, say, size, text, warn)
from rftp_numa.machine import (NODE_MOST, Machine, check_node, json_line, own_program,
                               read_machine)

# ---- fio: its command line and its report ---------------------------------------------


def fio_words(filename: str, op: str, block: int, jobs: int, seconds: int, slice: int, *,
              name: str = "numa", engine: str = "psync", direct: bool = True) -> list[str]:
    """Reads or writes in order for so long, each job in a slice of its own."""
    return ["fio", f"--name={name}", f"--filename={filename}", f"--rw={op}", f"--bs={block}",
            f"--numjobs={jobs}", f"--size={slice}", f"--offset_increment={slice}",
            f"--ioengine={engine}", f"--direct={int(direct)}", "--time_based",
            f"--runtime={seconds}", "--group_reporting", "--lat_percentiles=1",
            "--clat_percentiles=0", "--percentile_list=99", "--output-format=json"]


Result = dict[str, float]  # bytes_per_second; of a request, from its issue on, mean_ns and p99_ns


def parse_report(text: str, op: str) -> Result:
    """Of a run; lines before it are passed over. Failure with fio's own error, or what is wrong
    with the report."""
    at = 0 if text.startswith("{") else text.find("\n{") + 1
    try:
        root, _ = json.JSONDecoder().raw_decode(text[at:])
    except json.JSONDecodeError as why:
        raise Failure(f"fio's output, line {why.lineno}: {why.msg}") from None
    try:
        job = root["jobs"][0]
        if job["error"]:
            raise Failure(f"fio's job failed: {os.strerror(job['error'])}")
        latency = job[op]["lat_ns"]
        result = {"bytes_per_second": job[op]["bw_bytes"], "mean_ns": latency["mean"],
                  "p99_ns": latency["percentile"]["99.000000"]}
        if all(0 < value < math.inf for value in result.values()):
            return result
    except (LookupError, TypeError):
        pass
    raise Failure("fio's output has no job with \"error\", and above 0 in "
                  f"\"{op}\" bw_bytes and lat_ns with mean and 99th percentile")


class Placement(NamedTuple):
    """Named after what is local in it (after Akram et al.): the transfer, between device and
    buffer, when the buffer is on the device's node; the copy, between buffer and thread, when the
    thread runs on the buffer's."""
    name: str
    memory: int | None  # nodes; None: anywhere
    cpus: int | None


def placements(device: int, remote: int | None) -> list[Placement]:
    remotes = [] if remote is None else [
        Placement("TRLCPR", device, remote), Placement("TRRCPL", remote, remote),
        Placement("TRRCPR", remote, device)]
    return [Placement("TRLCPL", device, device), *remotes, Placement("none", None, None)]


def farthest_node(machine: Machine, device: int) -> int | None:
    """By distance, of those with memory and CPUs that this process may use; of several the
    first."""
    distances = machine.node(device).distances
    usable = [(distance, -n.id) for distance, n in zip(distances, machine.nodes)
              if n.id != device and n.memory and n.may_bind() and n.usable()]
    return -max(usable)[1] if usable else None


# ---- the disk -------------------------------------------------------------------------


def why_not_direct(fd: int, block: int) -> str:
    """"" when a read as fio's will be can be direct."""
    device = os.fstat(fd).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as mounts:
        for line in mounts:
            # Newer kernels only pretend that it is direct there.
            words = line.split()
            if words[2] == number and words[words.index("-") + 1] in ("tmpfs", "ramfs"):
                return "the files of this filesystem are memory"
    what = "this filesystem has none"
    try:
        direct = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_DIRECT)
        what = "not in blocks of this size"
        with os.fdopen(direct, "rb", buffering=0), mmap.mmap(-1, block) as buffer:
            os.preadv(direct, [buffer], 0)
        return ""
    except OSError as why:
        return what if why.errno == errno.EINVAL else str(why.strerror)


def make_file(o: Options, cpus: set[int], stop: Stop) -> int:
    """A file without a name, which is gone with its last descriptor, whatever ends this process.
    cpus of the device's node write it, as far as that can be: a file in memory comes from there."""
    path, length = printable(o.path), format_size(o.size)
    try:
        fd, name = tempfile.mkstemp(prefix=".rftp-numa-", dir=o.path)
        os.unlink(name)
    except OSError as why:
        raise failed(why, path + ": no file can be made in it") from why
    room = os.fstatvfs(fd)
    if room.f_blocks and room.f_bavail * room.f_frsize < o.size:
        raise Failure(f"{path}: a file of {length} (--size) does not fit: "
                      f"{format_size(room.f_bavail * room.f_frsize)} are free")
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, before & cpus or before)
    try:
        at = 0
        while at < o.size:
            at += os.pwrite(fd, os.urandom(min(1 << 20, o.size - at)), at)
            stop.check()
        os.fdatasync(fd)  # what is still being written must not be in the way of the first run
    except OSError as why:
        raise failed(why, f"{path}: a file of {length} (--size) cannot be written there") from why
    os.sched_setaffinity(0, before)
    return fd


def run_fio(o: Options, place: Placement, machine: Machine, fd: int, direct: bool,
            stop: Stop) -> Result:
    """By descriptor: the file has no name, and ":" in names is a list for fio. Every job maps its
    buffers after it has taken its memory policy, so that no page of them is older."""
    words = fio_words(f"/proc/self/fd/{fd}", o.op, o.block, o.jobs, o.seconds,
                      o.size // o.jobs // o.block * o.block, name=place.name, direct=direct)
    # Its threads write new data each time: that is the copy. Processes would outlive a fio that is
    # killed.
    words += ["--refill_buffers" if o.op == "write" else "--readonly", "--thread", "--iomem=mmap"]
    if place.cpus is not None:
        words.append("--cpus_allowed=" + format_ids(machine.node(place.cpus).usable()))
    if place.memory is not None:
        words.append(f"--numa_mem_policy=bind:{place.memory}")
    os.fdatasync(fd)  # only what has been written can be dropped from the page cache
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    done = run(words, stop, fds=[fd])
    if done.status:
        for line in done.err.splitlines()[:20]:
            say("fio said: " + printable(line))
        raise Failure(f"fio failed ({place.name}, exit status {done.status})")
    return parse_report(done.out, o.op)


def summary(runs: Sequence[Result]) -> dict[str, float]:
    rates = [run["bytes_per_second"] for run in runs]
    return {**{key: statistics.median(run[key] for run in runs) for key in runs[0]},
            "deviation": statistics.stdev(rates) / statistics.mean(rates)}


def table(o: Options, found: dict[str, Any]) -> str:
    """found: as JSON has it."""
    def node(number: int | None, none: str) -> str:
        return none if number is None else f"node {number}"

    lines = [f"{printable(o.path)}: {o.op}s of {format_size(o.block)} in {format_size(o.size)}, "
             f"{'direct' if found['direct'] else 'page cache'}, {o.jobs} jobs, {o.runs} runs of "
             f"{o.seconds} s",
             f"device: node {found['device_node']}, "
             f"remote: {node(found['remote_node'], 'none')}", "",
             "placement  buffers    threads        throughput   ratio  deviation         mean"
             "         99 %"]
    for p in found["placements"]:
        buffers, threads = (node(p[key], "anywhere") for key in ("memory_node", "cpu_node"))
        lines.append(f"{p['name']:10} {buffers:10} {threads:10} "
                     f"{format_rate(p['bytes_per_second']):>14} {p['ratio']:7.3f} "
                     f"{100 * p['deviation']:8.2f} % {p['mean_ns'] / 1e3:9.1f} us "
                     f"{p['p99_ns'] / 1e3:9.1f} us")
    return "\n".join(lines) + "\n"


COMMAND = Command("affinity", "", "What it costs when buffers or threads are not on a disk's node, "
                  "by fio.", [
    Option("path", "PATH", "a directory on the disk, or a file or disk to read", text, ""),
    Option("op", "read|write", "what to do (read)", one_of("read", "write"), "read"),
    Option("size", "SIZE", "of the file, or how much of what there is (1G)",
           size(4096, 1 << 50), 1 << 30),
    Option("block", "SIZE", "of a request (1M)", size(512, 1 << 30), 1 << 20),
    Option("jobs", "N", "threads with one request each (4)", count(1, 1024), 4),
    Option("seconds", "N", "that a run takes (10)", count(1, 86400), 10),
    Option("runs", "N", "of each placement (3)", count(3, 100), 3),
    Option("device-node", "N", "where the disk is", count(0, NODE_MOST)),
    Option("remote-node", "N", "the other one (the farthest)", count(0, NODE_MOST)),
    Option("buffered", "", "through the page cache"),
    JSON])


def check_options(o: Options) -> None:
    for wrong, why in (
            (not o.path, "--path is missing: a directory on the disk, or a file or disk to read"),
            (o.block % 512, "--block takes whole sectors of 512 bytes"),
            (o.size // o.jobs < o.block, "--size has less than one --block for each of --jobs"),
            (o.remote_node is not None and o.remote_node == o.device_node,
             "--remote-node and --device-node are the same")):
        if wrong:
            raise Misuse(why)


def measure(o: Options, stop: Stop) -> dict[str, Any]:
    path = printable(o.path)
    if not shutil.which("fio"):
        raise Failure("fio is not in PATH, which measures: install the package fio")
    done = run(["fio", "--cmdhelp=numa_mem_policy"], stop)
    if done.status or "numa_mem_policy" not in done.out or "Build fio" in done.out:
        raise Failure("this fio was built without libnuma, and cannot put its buffers on a node: "
                      "install the distribution's package fio")
    machine = read_machine()
    for given in (o.device_node, o.remote_node):  # before a big file is made for nothing
        if given is not None:
            check_node(machine.node(given))
    mode = os.stat(o.path).st_mode
    if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode) or stat.S_ISBLK(mode)):
        raise Failure(f"{path}: neither a directory nor a file nor a disk")
    fd = -1
    if not stat.S_ISDIR(mode):
        if o.op == "write":
            what = "a disk" if stat.S_ISBLK(mode) else "a file that there is"
            raise Failure(f"{path}: {what} is only read: name a directory to write in")
        fd = os.open(o.path, os.O_RDONLY)
        o.size = min(o.size, os.lseek(fd, 0, os.SEEK_END))
    nodes = {o.device_node if o.device_node is not None else machine.nodes[0].id}
    if o.device_node is None and len(machine.nodes) > 1:
        disk = own_program(["topo", "--json", "--at", o.path])["at"][0]
        nodes = parse_ids(disk["nodes"]) or set()
    if len(nodes) != 1:
        why = "its disk is on several nodes" if nodes else "which node its disk is on is not known"
        raise Failure(f"{path}: {why}; say with --device-node which to take for it")
    device = nodes.pop()
    check_node(machine.node(device))
    if fd < 0:
        fd = make_file(o, machine.node(device).cpus, stop)
    not_direct = "" if o.buffered else why_not_direct(fd, o.block)
    remote = o.remote_node if o.remote_node is not None else farthest_node(machine, device)
    if remote == device:
        raise Failure(f"node {device} is the device's own: --remote-node must be another")
    if o.size // o.jobs < o.block:
        raise Failure(f"{path} has {o.size} bytes: less than one --block for each of --jobs")
    places = placements(device, remote)
    if remote is None:
        say("there is no other node whose memory and CPUs this process may use: only the local "
            "placement can be measured, and no control")
    if not_direct:
        warn(f"{path}: no direct I/O ({not_direct}): it goes through the page cache")
    seconds = o.runs * len(places) * o.seconds
    say(f"{o.runs} runs of {len(places)} placements, {seconds // 60}:{seconds % 60:02} minutes")
    direct = not o.buffered and not not_direct
    results: list[list[Result]] = [[] for _ in places]
    for turn in range(o.runs):
        # There and back again, so that what drifts hits all placements alike.
        for place, runs in list(zip(places, results))[::-1 if turn % 2 else 1]:
            runs.append(run_fio(o, place, machine, fd, direct, stop))
    sums = [summary(runs) for runs in results]
    return {
        "op": o.op, "direct": direct, "block": o.block, "size": o.size, "jobs": o.jobs,
        "seconds": o.seconds, "device_node": device, "remote_node": remote, "placements": [
            {"name": p.name, "memory_node": p.memory, "cpu_node": p.cpus, **s,
             "ratio": s["bytes_per_second"] / sums[0]["bytes_per_second"],
             "runs": runs} for p, s, runs in zip(places, sums, results)]}


def main() -> None:
    o = parse(COMMAND, sys.argv[1:])
    if not o:
        return
    check_options(o)
    with Stop(obey=False) as stop:  # a second signal must not leave fio behind, either
        found = measure(o, stop)
        raw = os.fsencode(o.path)
        found["path"] = raw.decode("utf-8", "replace")
        if found["path"].encode() != raw:  # bytes that are no UTF-8 come beside it
            found["path_hex"] = raw.hex()
        output(json_line(found) if o.json else table(o, found))
