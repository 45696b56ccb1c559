# SPDX-License-Identifier: Apache-2.0
"""The jobs: the transfers of one host, and the end. A job is a batch script, and its rftp are
steps: Slurm sends its warning before the time limit to the steps alone."""
from __future__ import annotations

import contextlib
import os
import subprocess
import time

from rftp_common import Failure, failures_to, output_of, program, say
from rftp_machine import NODE_UNKNOWN, Machine, read_machine

from . import report, state
from .state import State

INTERRUPTED = 4  # exit status of rftp: the same command continues
FINISH_MOST = 5  # how often the last job is queued again
_began = time.monotonic()


def main(words: list[str]) -> int:
    """words: of the command line in job.sh: task or finish, the state, the submission."""
    kind, path, submission = words
    copy = state.load(path)
    if copy.job["submission"] != int(submission):
        say("this job belongs to an earlier submission, and does nothing")
        return 0
    return run_host(copy) if kind == "task" else run_finish(copy)


def _queue_again(copy: State) -> None:
    """Ends this job, and queues it again; unless it was cancelled meanwhile."""
    if state.load(copy.path).job["submission"] == copy.job["submission"]:
        output_of(["scontrol", "requeue", os.environ["SLURM_JOB_ID"]])


def _step(options: list[str], words: list[str]) -> subprocess.Popen[bytes]:
    """Starts a step on this host, beside others: with all CPUs and the memory of the job, and with
    the environment of this program."""
    return subprocess.Popen(["srun", "--nodes=1", "--ntasks=1", "--overlap", "--mem=0",
                             "--export=ALL", *options, *words], stdin=subprocess.DEVNULL)


# ---- the transfers of a host ----------------------------------------------------------


def placed(machine: Machine, tasks: int) -> list[tuple[list[str], list[str]]]:
    """For each transfer options of srun, and of rftp. One transfer uses all cards, and places its
    threads itself. Several have one of the fastest cards each: not one of the management, say."""
    most = max((nic.mbps for nic in machine.nics.values() if nic.card), default=0)
    cards = sorted((name, machine.only_node(nic.node)) for name, nic in machine.nics.items()
                   if nic.card and nic.mbps == most and most)
    if tasks == 1 or len(cards) < 2:
        return [(["--cpu-bind=none"], [])] * tasks
    return [(["--cpu-bind=none"] if node == NODE_UNKNOWN else
             [f"--cpu-bind=map_ldom:{node}", f"--mem-bind=map_mem:{node}"], ["--nic", name])
            for name, node in (cards[i % len(cards)] for i in range(tasks))]


def _slurm_time() -> float:
    """By the clock of Slurm's controller, for those of the hosts may differ."""
    with contextlib.suppress(Failure, ValueError):
        started = output_of(["squeue", "--noheader", "--format=%S", "--jobs",
                             os.environ["SLURM_JOB_ID"]], env={"SLURM_TIME_FORMAT": "%s"})
        return int(started) + time.monotonic() - _began
    return time.time()


def run_host(copy: State) -> int:
    """The job of one host: its lists that are not done, at the same time."""
    per, host = copy.job["tasks_per_node"], int(os.environ["SLURM_ARRAY_TASK_ID"])
    first, machine = (host - 1) * per + 1, Machine()
    if per > 1:
        with failures_to():
            machine = read_machine()
    command, now, steps = copy.planned()["command"], _slurm_time(), {}
    lists = state.progress(copy, range(first, first + per))
    for p, (srun, rftp) in zip(lists, placed(machine, per)):
        if p.complete:
            continue
        events, log = copy.file(f"shard-{p.number}.jsonl"), copy.file(f"shard-{p.number}.log")
        report.mark(events, now, os.environ.get("SLURMD_NODENAME") or os.uname().nodename)
        # "%" begins a pattern of srun.
        steps[p.number] = _step(
            ["--open-mode=append", "--output=" + events.replace("%", "%%"),
             "--error=" + log.replace("%", "%%"), *srun],
            [program("rftp"), command, "--shard-list", p.list, "--json", *rftp])
    statuses = {number: step.wait() for number, step in steps.items()}
    if INTERRUPTED in statuses.values():
        # Of this host in this run; other hosts say nothing about it. Empty files have no bytes.
        after = state.progress(copy, range(first, first + per))
        if (sum(p.done for p in after) > sum(p.done for p in lists)
                or any(report.runs(copy, number)[-1].bytes for number in statuses)):
            _queue_again(copy)
        else:
            say("interrupted before anything was copied: the job is not queued again")
    return max(statuses.values(), default=0)


# ---- the end --------------------------------------------------------------------------


def run_finish(copy: State) -> int:
    own = any(word.startswith("--manifest=") for word in copy.planned()["options"])
    options = [] if own else ["--manifest", copy.file("manifest")]
    if copy.job.get("incomplete"):
        options.append("--incomplete")
    status = _step(["--cpu-bind=none"], [program("rftp"), "finish-shards", *options,
                                         copy.plan]).wait()
    before = int(os.environ.get("SLURM_RESTART_COUNT", "0"))
    if status == INTERRUPTED and before < FINISH_MOST:
        _queue_again(copy)
        return status
    report.write(copy, report.make(copy, status == 0))
    return status
