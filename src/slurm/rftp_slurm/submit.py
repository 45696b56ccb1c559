# SPDX-License-Identifier: Apache-2.0
"""The commands of the user: plan, submit, watch, cancel and retry."""
from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from typing import Any

from rftp_common import (Failure, Misuse, Options, Stop, at_place, failures_to, format_size,
                         json_line, output, output_of, printable, program, run, say, warn,
                         write_file)

from . import report, state
from .cli import SBATCH
from .state import State

# The seconds between Slurm's warning and the time limit; Slurm may warn a minute earlier.
NOTICE = 60
STOP_SECONDS = 30  # for rftp to stop in good order, after a cancel
WATCH_SECONDS = 5.0
# The variables that jobs get. rftp reads no secret from it; RFTP_RATE and so on are options.
ENVIRONMENT = re.compile("HOME|USER|LOGNAME|SHELL|PATH|LD_LIBRARY_PATH|TMPDIR|TZ|LANG|LC_.*|XDG_.*"
                         "|RFTP_.*|SLURM_CONF|SBATCH_.*")


# ---- Slurm ----------------------------------------------------------------------------


def _jobs_of(copies: list[State]) -> dict[str, dict[str, str]]:
    """The states of the jobs that have not ended, by their numbers, as "12_3", by the copies' ids.
    Failure: Slurm does not answer, which says nothing about the jobs."""
    jobs: dict[str, dict[str, str]] = {copy.id: {} for copy in copies}
    told = output_of(["squeue", "--noheader", "--all", "--array", "--format=%i %j %T",
                      "--name=" + ",".join(map(_name, copies))], 60) if copies else ""
    for line in told.splitlines():
        number, name, its = line.split()
        jobs[name.removeprefix("rftp-")][number] = its
    return jobs


def _jobs(copy: State) -> dict[str, str]:
    return _jobs_of([copy])[copy.id]


def _name(copy: State) -> str:
    """Of its jobs."""
    return "rftp-" + copy.id


def _sbatch(copy: State, command: str, options: list[str]) -> str:
    """Submits a job; its number."""
    script = (f"#!/bin/sh\nexec {shlex.quote(sys.executable)} "
              f"{shlex.quote(os.path.realpath(sys.argv[0]))} job \"$@\"\n")
    write_file(copy.file("job.sh"), script, 0o700)
    words = ["sbatch", "--parsable", "--export=ALL", "--requeue", "--open-mode=append",
             "--job-name=" + _name(copy), f"--chdir={copy.job['cwd']}", f"--signal=TERM@{NOTICE}",
             *copy.job["sbatch"], *options, copy.file("job.sh"), command, copy.path,
             str(copy.job["submission"])]
    for name in [name for name in os.environ if not ENVIRONMENT.fullmatch(name)]:
        del os.environ[name]
    found = re.match(r"\d+", output_of(words))
    if not found:
        raise Failure("sbatch has printed no job number")
    copy.submitted = True
    return found.group()


def _log(copy: State, name: str) -> str:
    """An option of sbatch; "%" begins a pattern."""
    return "--output=" + os.path.join(copy.path.replace("%", "%%"), name)


def _submit(copy: State) -> None:
    """Plans, if there is no plan, and submits the lists that are not done, and the last job. The
    state is locked."""
    if _jobs(copy):
        raise Failure(f"{copy.id}: its jobs have not ended (rftp-slurm wait {copy.id}, or cancel)")
    if not copy.is_planned():
        _plan(copy)
    copy.job.update(submission=copy.job["submission"] + 1, cancelled=False)
    copy.save()
    per, after = copy.job["tasks_per_node"], []
    hosts = sorted({(p.number - 1) // per + 1 for p in state.progress(copy) if not p.complete})
    if hosts:
        shared = [] if copy.job["shared"] else ["--exclusive", "--mem=0"]
        number = _sbatch(copy, "task", ["--array=" + ",".join(map(str, hosts)), "--nodes=1",
                                        f"--ntasks={per}", *shared, _log(copy, "host-%a.log")])
        after = [f"--dependency=afterany:{number}"]
    with at_place("the last job"):
        _sbatch(copy, "finish", [*after, "--nodes=1", "--ntasks=1", _log(copy, "finish.log")])


# ---- put, get, sync -------------------------------------------------------------------


def _plan(copy: State) -> None:
    """Failure if there is no plan; rftp has told the reason."""
    shutil.rmtree(copy.plan, ignore_errors=True)  # of an rftp-slurm that was killed
    with at_place(printable(copy.job["cwd"])):
        os.chdir(copy.job["cwd"])
    job = copy.job
    same = ["--skip-same"] if job["command"] == "sync" else []
    with Stop() as stop:
        done = run([program("rftp"), "plan-shards", *same, *job["words"], "--shards",
                    str(job["nodes"] * job["tasks_per_node"]), "--out", copy.plan], stop,
                   show_errors=True)
    if not copy.is_planned():
        raise Failure("nothing was submitted, because there is no plan",
                      done.status if done.status == 2 else 1)
    if done.status:
        warn("names that cannot be read are not in the plan; the others are copied")
    say(printable(done.out.strip()))


def _begin(o: Options, command: str) -> int:
    if not o.nodes:
        raise Misuse("--nodes N is needed")
    if o.nodes * o.tasks_per_node > 1000:
        raise Misuse("--nodes and --tasks-per-node: at most 1000 transfers")
    if not o.words:
        raise Misuse(f"{command} needs SOURCE and DESTINATION")
    if "--filter-from=-" in o.words or ("--filter-from", "-") in zip(o.words, o.words[1:]):
        raise Misuse("--filter-from -: put the rules into a file, which retry may read again")
    options = [f"--{name}={value}" for name in (s.name for s in SBATCH)
               if (value := getattr(o, name.replace("-", "_")))]
    copy = state.create(o.dir, {
        "command": command, "words": o.words, "cwd": os.getcwd(), "nodes": o.nodes,
        "tasks_per_node": o.tasks_per_node, "shared": o.shared, "sbatch": options,
        "submission": 0, "cancelled": False})
    try:
        with copy.locked():
            _submit(copy)
    except Failure as why:
        if not copy.submitted:
            shutil.rmtree(copy.path)
            raise
        raise Failure(f"{copy.id}: {why} (rftp-slurm retry {copy.id}, after its jobs)") from why
    return _submitted(copy, o)


def _submitted(copy: State, o: Options) -> int:
    if o.wait:
        say(f"{copy.id}: submitted")
        return _wait(copy, o)
    output(json_line({"id": copy.id, "directory": copy.path}) if o.json else copy.id + "\n")
    return 0


def run_put(o: Options) -> int:
    return _begin(o, "put")


def run_get(o: Options) -> int:
    return _begin(o, "get")


def run_sync(o: Options) -> int:
    return _begin(o, "sync")


def run_retry(o: Options) -> int:
    copy = state.find(o.dir, o.words[0])
    with copy.locked():
        copy.job["incomplete"] = o.incomplete
        _submit(copy)
    return _submitted(copy, o)


# ---- watching -------------------------------------------------------------------------


def _wait(copy: State, o: Options) -> int:
    gone = 0
    with Stop() as stop:
        while True:
            found, jobs = report.read(copy), {"": "unknown"}
            with failures_to(lambda why: warn(f"{why}; asking again")):
                jobs = _jobs(copy)
            if found and not jobs:
                break
            # The report may be seen a little later than the end of the last job.
            gone = 0 if jobs else gone + 1
            if gone > 3:
                raise Failure(f"{copy.id}: its jobs have ended without a report; see the logs in "
                              f"{printable(copy.path)} (rftp-slurm retry {copy.id} continues)")
            stop.wait_for(lambda: not found and report.read(copy), 1 if found else WATCH_SECONDS)
            copy = state.load(copy.path)
    output(json_line(found) if o.json else report.text(found))
    return 0 if found["complete"] else 1


def run_wait(o: Options) -> int:
    return _wait(state.find(o.dir, o.words[0]), o)


def _status(copy: State, jobs: dict[str, str]) -> dict[str, Any]:
    found = report.read(copy)
    lists = state.progress(copy) if copy.is_planned() else []
    kinds = sorted({kind.lower() for kind in jobs.values()})
    what = ", ".join(kinds) or ("cancelled" if copy.job["cancelled"] else
                                "not planned" if not lists else
                                "ended without a report" if not found else
                                "complete" if found["complete"] else "not complete")
    return {"id": copy.id, "directory": copy.path, "command": copy.job["command"],
            "words": copy.job["words"], "state": what, "jobs": jobs,
            "bytes": sum(p.bytes for p in lists), "moved": sum(p.moved for p in lists),
            "items": sum(p.items for p in lists), "done": sum(p.done for p in lists),
            "lists": [{"number": p.number, "items": p.items, "done": p.done, "bytes": p.bytes,
                       "moved": p.moved} for p in lists]}


def _amounts(found: dict[str, Any]) -> str:
    return (f"{found['done']} of {found['items']} items, {format_size(found['moved'])} of "
            f"{format_size(found['bytes'])}")


def run_status(o: Options) -> int:
    copies = [state.find(o.dir, o.words[0])] if o.words else state.every(o.dir)
    jobs = _jobs_of(copies)
    for copy in copies:
        found = _status(copy, jobs[copy.id])
        if o.json:
            output(json_line(found))
            continue
        output(f"{found['id']}  {found['state']}  {_amounts(found)}\n")
        for p in found["lists"] if o.words else ():
            output(f"  list {p['number']}  {_amounts(p)}\n")
    return 0


# ---- cancel ---------------------------------------------------------------------------


def run_cancel(o: Options) -> int:
    copy = state.find(o.dir, o.words[0])
    with copy.locked(), Stop() as stop:
        running = _jobs(copy)
        if running:
            # First, so that no job queues itself again, or does something if it did.
            copy.job.update(submission=copy.job["submission"] + 1, cancelled=True)
            copy.save()
        left = running
        # Waiting jobs; then running ones, in good order; then all that are left.
        for options, seconds in ((["--state=PENDING"], 0), (["--signal=TERM"], STOP_SECONDS),
                                 (list[str](), 60)):
            if left:
                output_of(["scancel", "--quiet", *options, "--name=" + _name(copy)])
            while (left := _jobs(copy)) and seconds > 0:
                stop.wait_for(lambda: False, 1)
                seconds -= 1
    if left:
        raise Failure(f"{copy.id}: not ended yet: job {', '.join(left)} (rftp-slurm cancel "
                      f"{copy.id})")
    if o.json:
        output(json_line({"id": copy.id, "cancelled": sorted(running)}))
    else:
        say(f"{copy.id}: {len(running)} job{'s' * (len(running) != 1)} cancelled" +
            f" (rftp-slurm retry {copy.id} continues)" * bool(running))
    return 0
