# SPDX-License-Identifier: Apache-2.0
"""The command "affinity": the cost for a disk when buffers or threads are on another node, by
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
from typing import Any

from rftp_common import (JSON, Command, Failure, Option, Options, Stop, count, failed, format_ids,
                         format_rate, format_size, json_line, misuse_if, one_of, output, parse,
                         printable, run, say, size, text, warn)
from rftp_machine import NODE_MOST, NODE_UNKNOWN, Machine, read_machine

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
    """Of a run; lines before it are passed over. Failure: fio's own error, or a wrong report."""
    at = 0 if text.startswith("{") else text.find("\n{") + 1
    try:
        root, _ = json.JSONDecoder().raw_decode(text[at:])
        job = root["jobs"][0]
        if job["error"]:
            raise Failure(f"fio's job failed: {os.strerror(job['error'])}")
        latency = job[op]["lat_ns"]
        result = {"bytes_per_second": job[op]["bw_bytes"], "mean_ns": latency["mean"],
                  "p99_ns": latency["percentile"]["99.000000"]}
        if all(0 < value < math.inf for value in result.values()):
            return result
    except json.JSONDecodeError as why:
        raise Failure(f"fio's output, line {why.lineno}: {why.msg}") from None
    except (LookupError, TypeError):
        pass
    raise Failure("fio's output has no job with \"error\", and above 0 in "
                  f"\"{op}\" bw_bytes and lat_ns with mean and 99th percentile")


def placements(device: int, remote: int | None) -> list[dict[str, Any]]:
    """Named after the local side (Akram et al.): the transfer, between device and buffer, when the
    buffer is on the device's node; the copy, between buffer and thread, when the thread runs on
    the buffer's. None: anywhere."""
    ways = [("TRLCPL", device, device), ("TRLCPR", device, remote), ("TRRCPL", remote, remote),
            ("TRRCPR", remote, device), ("none", None, None)]
    return [{"name": name, "memory_node": memory, "cpu_node": cpus}
            for name, memory, cpus in (ways if remote is not None else [ways[0], ways[-1]])]


def farthest_node(machine: Machine, device: int) -> int | None:
    """By distance, of those that this process may use; of several the first."""
    usable = [(distance, -n) for n, distance in machine.node(device).distances.items()
              if n != device and not machine.node(n).why_not_usable()]
    return -max(usable)[1] if usable else None


# ---- the disk -------------------------------------------------------------------------


def why_not_direct(fd: int, block: int) -> str:
    """"" when a read as fio's will be can be direct."""
    kind = run(["stat", "-f", "-c", "%T", f"/proc/self/fd/{fd}"], fds=[fd]).out.strip()
    if stat.S_ISREG(os.fstat(fd).st_mode) and kind in ("tmpfs", "ramfs"):
        return "the files of this filesystem are memory"  # newer kernels pretend that it is direct
    try:
        direct = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_DIRECT)
        with os.fdopen(direct, "rb", buffering=0), mmap.mmap(-1, block) as buffer:
            os.preadv(direct, [buffer], 0)
        return ""
    except OSError as why:
        if why.errno == errno.EINVAL:
            return "this filesystem has none, or none in blocks of this size"
        return str(why.strerror)


def make_file(o: Options, cpus: set[int], stop: Stop) -> int:
    """A file without a name, which is gone with its last descriptor, however this process ends.
    cpus of the device's node write it, as far as that can be: a file in memory comes from there."""
    path, length = printable(o.path), format_size(o.size)
    before = os.sched_getaffinity(0)
    try:
        fd, name = tempfile.mkstemp(prefix=".rftp-numa-", dir=o.path)
        os.unlink(name)
        room = shutil.disk_usage(fd)
        if room.total and room.free < o.size:
            raise Failure(f"{path}: a file of {length} (--size) does not fit: "
                          f"{format_size(room.free)} are free")
        os.sched_setaffinity(0, before & cpus or before)
        at = 0
        while at < o.size:
            at += os.pwrite(fd, os.urandom(min(1 << 20, o.size - at)), at)
            stop.check()
        os.fdatasync(fd)  # unwritten data must not be in the way of the first run
    except OSError as why:
        raise failed(why, f"{path}: no file of {length} (--size) can be made in it") from why
    os.sched_setaffinity(0, before)
    return fd


def run_fio(o: Options, place: dict[str, Any], machine: Machine, fd: int, direct: bool,
            stop: Stop) -> Result:
    """By descriptor: the file has no name, and ":" in names is a list for fio. Every job maps its
    buffers after it has taken its memory policy, so that no page of them is older."""
    words = fio_words(f"/proc/self/fd/{fd}", o.op, o.block, o.jobs, o.seconds,
                      o.size // o.jobs // o.block * o.block, name=place["name"], direct=direct)
    # Its threads write new data each time: that is the copy. Processes would outlive a fio that is
    # killed.
    words += ["--refill_buffers" if o.op == "write" else "--readonly", "--thread", "--iomem=mmap"]
    if place["name"] != "none":
        words += ["--cpus_allowed=" + format_ids(machine.node(place["cpu_node"]).usable()),
                  f"--numa_mem_policy=bind:{place['memory_node']}"]
    os.fdatasync(fd)  # only written data can be dropped from the page cache
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    done = run(words, stop, fds=[fd])
    if done.status:
        for line in done.err.splitlines()[:20]:
            say("fio said: " + printable(line))
        raise Failure(f"fio failed ({place['name']}, exit status {done.status})")
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


COMMAND = Command("affinity", "Measure a disk from its own and from another node, by fio.", [
    Option("path", "PATH", "a directory on the disk, or a file or disk to read", text, ""),
    Option("op", "read|write", "the work (read)", one_of("read", "write"), "read"),
    Option("size", "SIZE", "of the file, or so much of PATH (1G)", size(4096, 1 << 50), 1 << 30),
    Option("block", "SIZE", "of a request (1M)", size(512, 1 << 30), 1 << 20),
    Option("jobs", "N", "threads with one request each (4)", count(1, 1024), 4),
    Option("seconds", "N", "that a run takes (10)", count(1, 86400), 10),
    Option("runs", "N", "of each placement (3)", count(3, 100), 3),
    Option("device-node", "N", "where the disk is", count(0, NODE_MOST)),
    Option("remote-node", "N", "the other one (the farthest)", count(0, NODE_MOST)),
    Option("buffered", "", "through the page cache"),
    JSON])


def measure(o: Options, stop: Stop) -> dict[str, Any]:
    misuse_if(
        (not o.path, "--path is missing: a directory on the disk, or a file or disk to read"),
        (o.block % 512, "--block must be whole sectors of 512 bytes"),
        (o.size // o.jobs < o.block, "--size has less than one --block for each of --jobs"),
        (o.remote_node is not None and o.remote_node == o.device_node,
         "--remote-node and --device-node are the same"))
    path = printable(o.path)
    done = run(["fio", "--cmdhelp=numa_mem_policy"], stop)
    if done.status or "numa_mem_policy" not in done.out or "Build fio" in done.out:
        raise Failure("fio was built without libnuma: install the distribution's package fio")
    mode = os.stat(o.path).st_mode
    machine = read_machine(paths=[o.path])
    if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode) or stat.S_ISBLK(mode)):
        raise Failure(f"{path}: neither a directory nor a file nor a disk")
    fd = -1
    if not stat.S_ISDIR(mode):
        if o.op == "write":
            kind = "a disk" if stat.S_ISBLK(mode) else "a file that there is"
            raise Failure(f"{path}: {kind} is only read: name a directory to write in")
        fd = os.open(o.path, os.O_RDONLY)
        o.size = min(o.size, os.lseek(fd, 0, os.SEEK_END))
    device, disk = o.device_node, machine.locations[o.path]
    if device is None and disk.node == NODE_UNKNOWN:
        why = "its disk is on several nodes" if disk.nodes else \
            "which node its disk is on is not known"
        raise Failure(f"{path}: {why}; say with --device-node which to take for it")
    device = disk.node if device is None else device
    remote = o.remote_node if o.remote_node is not None else farthest_node(machine, device)
    if remote == device:
        raise Failure(f"node {device} is the device's own: --remote-node must be another")
    for node in (device, device if remote is None else remote):
        why = machine.node(node).why_not_usable()
        if why:
            raise Failure(why)
    if fd < 0:
        fd = make_file(o, machine.node(device).cpus, stop)
    not_direct = "" if o.buffered else why_not_direct(fd, o.block)
    if o.size // o.jobs < o.block:
        raise Failure(f"{path} has {o.size} bytes: less than one --block for each of --jobs")
    places = placements(device, remote)
    if remote is None:
        say("no other node can be used: only the local placement can be measured, and no control")
    if not_direct:
        warn(f"{path}: no direct I/O ({not_direct}): it goes through the page cache")
    seconds = o.runs * len(places) * o.seconds
    say(f"placements: {len(places)}, runs of each: {o.runs}, "
        f"{seconds // 60}:{seconds % 60:02} minutes")
    direct = not o.buffered and not not_direct
    results: list[list[Result]] = [[] for _ in places]
    for turn in range(o.runs):
        # There and back again, so that drift hits all placements alike.
        for place, runs in list(zip(places, results))[::-1 if turn % 2 else 1]:
            runs.append(run_fio(o, place, machine, fd, direct, stop))
    sums = [summary(runs) for runs in results]
    raw = os.fsencode(o.path)
    shown = raw.decode("utf-8", "replace")
    as_bytes = {} if shown.encode() == raw else {"path_hex": raw.hex()}
    return {
        "path": shown, **as_bytes, "op": o.op, "direct": direct, "block": o.block, "size": o.size,
        "jobs": o.jobs, "seconds": o.seconds, "device_node": device, "remote_node": remote,
        "placements": [
            {**place, **s, "ratio": s["bytes_per_second"] / sums[0]["bytes_per_second"],
             "runs": runs} for place, s, runs in zip(places, sums, results)]}


def main() -> None:
    o = parse(COMMAND, sys.argv[1:])
    if o:
        with Stop(obey=False) as stop:  # a second signal must not leave fio behind, either
            found = measure(o, stop)
            output(json_line(found) if o.json else table(o, found))
