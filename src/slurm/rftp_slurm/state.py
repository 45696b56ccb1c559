# SPDX-License-Identifier: Apache-2.0
"""The state of a copy, a directory that all hosts share:

    job.json        the command line, and the number of the submission; replaced as a whole
    lock            held by a command that changes the state
    job.sh          the script of the jobs
    plan/           the plan of rftp plan-shards, with the lists and their results
    shard-1.jsonl   the events of the transfers of a list; shard-1.log their messages
    host-1.log      the messages of a host's job; finish.log those of the last job
    report.json, report.txt, rates.svg, manifest    at the end

Slurm knows the jobs by their name, which has the id of the copy. So a command that is killed after
sbatch, and before it could write, loses no job. A job of an earlier submission may start late: jobs
get the number of their submission, and do nothing if it is not that of job.json."""
from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from rftp_common import (Failure, at_place, entries, load_json, lock, printable, read_text,
                         write_file)

MOST = 1 << 30  # bytes of a file that is read
VERSION = 1  # of job.json


def base(given: str | None) -> str:
    """The directory of all states."""
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return os.path.abspath(given or os.path.join(state, "rftp", "slurm"))


@dataclass
class State:
    path: str
    job: dict[str, Any]
    submitted: bool = False  # a job, by this program

    @property
    def id(self) -> str:
        return os.path.basename(self.path)

    @property
    def plan(self) -> str:
        return self.file("plan")

    def file(self, name: str) -> str:
        return os.path.join(self.path, name)

    def exists(self, name: str) -> bool:
        """NFS remembers missing names for a while, but reads a directory that has changed."""
        return os.path.basename(name) in entries(os.path.dirname(self.file(name)))

    def save(self) -> None:
        write_file(self.file("job.json"), json.dumps(self.job, indent=2) + "\n", 0o600)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """For a command that changes the state. job is read again. Failure: another one does."""
        try:
            fd = lock(self.file("lock"), f"{self.id}: another rftp-slurm changes it", 0)
        except OSError as why:
            raise Failure(f"{printable(self.path)}: cannot be locked: {os.strerror(why.errno or 0)}"
                          " (--dir must name a filesystem with locks)") from why
        try:
            self.job = load(self.path).job
            yield
        finally:
            os.close(fd)

    def is_planned(self) -> bool:
        return self.exists("plan/plan.json")

    def planned(self) -> dict[str, Any]:
        """plan.json."""
        place = os.path.join(self.plan, "plan.json")
        found = load_json(read_text(place, MOST), printable(place))
        assert isinstance(found, dict)
        return found


def create(given: str | None, job: dict[str, Any]) -> State:
    """A new state, with an id that sorts by time. Only this user can read it."""
    name = time.strftime("%Y%m%d-%H%M%S-") + secrets.token_hex(4)
    path = os.path.join(base(given), name)
    with at_place(printable(path)):
        os.makedirs(path, 0o700)
    state = State(path, {"version": VERSION, **job})
    state.save()
    return state


def load(path: str) -> State:
    place = os.path.join(path, "job.json")
    job = load_json(read_text(place), printable(place))
    if job.get("version") != VERSION:
        raise Failure(f"{printable(place)}: another rftp-slurm's, version {job.get('version')}")
    return State(path, job)


def find(given: str | None, name: str) -> State:
    """The state of this id, or of this directory."""
    path = os.path.abspath(name) if "/" in name else os.path.join(base(given), name)
    if not os.path.exists(os.path.join(path, "job.json")):
        raise Failure(f"there is no copy {printable(name)} (rftp-slurm status lists them)")
    return load(path)


def every(given: str | None) -> list[State]:
    at = base(given)
    return [load(os.path.join(at, name)) for name in entries(at)
            if os.path.exists(os.path.join(at, name, "job.json"))]


# ---- lines of JSON --------------------------------------------------------------------


def lines(path: str) -> Iterator[dict[str, Any]]:
    """The objects in a file; a line that is torn, because its writer was killed, is left out."""
    with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
        for line in file:
            with contextlib.suppress(ValueError):
                value = json.loads(line)
                if isinstance(value, dict):
                    yield value


# ---- the lists ------------------------------------------------------------------------


@dataclass
class Progress:
    """Of one list."""
    number: int         # from 1
    list: str           # its file
    items: int
    bytes: int
    done: int = 0       # items
    moved: int = 0      # bytes

    @property
    def complete(self) -> bool:
        return self.done >= self.items


# Of the result of an item, which may be one of millions. Quotes in a name are escaped. A lost item
# is no longer done.
_RESULT = re.compile(rb'"event":"(done|lost)".*?"(?:bytes|length)":([0-9]+).*\}\n')


def progress(copy: State, numbers: Iterable[int] = ()) -> list[Progress]:
    """Of the lists with these numbers, or of all, by their results."""
    found, wanted = [], set(numbers)
    for number, shard in enumerate(copy.planned()["shards"], 1):
        if wanted and number not in wanted:
            continue
        p = Progress(number, os.path.join(copy.plan, shard["list"]), shard["pieces"],
                     shard["bytes"])
        with contextlib.suppress(FileNotFoundError), \
                open(p.list.removesuffix(".jsonl") + ".result.jsonl", "rb") as file:
            for line in file:
                if (item := _RESULT.search(line)):
                    sign = 1 if item[1] == b"done" else -1
                    p.done += sign
                    p.moved += sign * int(item[2])
        found.append(p)
    return found
