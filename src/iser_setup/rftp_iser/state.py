# SPDX-License-Identifier: Apache-2.0
"""Which things on this host are ours: for each plan, by its name, a file with the plan as it was
applied, and with the plan that is being applied. It is on the disk before anything is made, so that
an apply that is killed leaves nothing unknown. The program in C wrote the same files."""
from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass, replace
from pathlib import Path

from rftp_common import FILE_MOST, Failure, at_place, printable, read_text, write_file
from rftp_members import json_of, member, read_json, word

from . import plan
from .plan import Plan

DEFAULT_DIR = "/var/lib/rftp/iser"
VERSION_KEY, FORMAT_VERSION = "rftp-iser-state", 1
SUFFIX = ".json"
STATE_MOST = 3 * FILE_MOST  # bytes: two plans and a little


@dataclass
class Irq:
    """An interrupt of a network card that was confined to the CPUs of a node. set: ""; the kernel
    has refused it."""
    irq: int = member(0, needed=True)
    netdev: str = member("", needed=True)
    was: str = member("", needed=True)  # its smp_affinity_list
    set: str = member("", needed=True)


@dataclass
class State:
    """Its members are those of the file."""
    dir: str = ""
    name: str = ""  # of the plan, and the file
    version: int = member(0, key=VERSION_KEY, rule=word(FORMAT_VERSION), needed=True)
    boot: str = member("", needed=True)  # boot_id(7) of when applied was made
    applied: Plan | None = member(None, of=Plan)  # to its end
    applying: Plan | None = member(None, of=Plan)  # by an apply that is running, or was killed
    # Those of applies that were killed before it.
    older: list[Plan] = member(list, of=Plan)
    cpus: str = member("")  # LIO's list before any plan of this boot; "": not changed
    # Directories and files, in their order.
    made: list[str] = member(list, rule=lambda given: "" if all(
        isinstance(path, str) and not plan.path_fault(path) for path in given) else
        "has an entry that is not a path")
    irqs: list[Irq] = member(list, of=Irq)  # of this boot
    lock: int = -1  # a descriptor; child processes have the lock, too

    @property
    def file(self) -> str:
        return os.path.join(self.dir, self.name + SUFFIX)

    @property
    def lio_file(self) -> str:
        """For targetctl(8)."""
        return os.path.join(self.dir, self.name + plan.LIO_SUFFIX + SUFFIX)

    def plans(self) -> list[Plan]:
        """Each of these may have left something, which is ours."""
        return [p for p in (self.applied, self.applying, *self.older) if p]

    @property
    def plan(self) -> Plan | None:
        """The one in force, or the one that is being applied."""
        return self.applied or self.applying

    @property
    def restarted(self) -> bool:
        """Was the host, since the plan was applied? Then the data in memory is gone."""
        return bool(self.boot) and self.boot != boot_now()

    def write(self) -> None:
        self.version = FORMAT_VERSION
        text = json.dumps(json_of(self), indent=2)
        if len(text) > STATE_MOST:
            raise Failure(f"{printable(self.file)} would be too long to be read again: make the "
                          "plan smaller, or several of it")
        write_file(self.file, text)

    def remove(self) -> None:
        with at_place(printable(self.file)):
            for path in (self.lio_file, self.file):  # last the file that names our things
                Path(path).unlink(missing_ok=True)


def boot_now() -> str:
    return read_text("/proc/sys/kernel/random/boot_id", 64).strip()


def directory(given: str | None) -> str:
    return given or os.environ.get("RFTP_ISER_STATE") or DEFAULT_DIR


def no_plan(name: str | None = None) -> str:
    return (f"{printable(name)}: no such plan was applied here" if name else
            "no plan was applied here")


def read(given: str | None, name: str) -> State:
    """A plan that was never applied is a State without plans. Failure; its cause is the OSError
    when the file cannot be read."""
    if plan.plan_fault(name):
        raise Failure(f"\"{printable(name)}\" is not a plan's name: it {plan.plan_fault(name)}")
    state = State(directory(given), name)
    try:
        text = read_text(state.file, STATE_MOST)
    except Failure as why:
        if isinstance(why.__cause__, FileNotFoundError):
            return state
        raise
    try:
        found: State = read_json(State, text, printable(state.file))
    except Failure as why:
        # Only apply writes it, so all that is wrong in it is damage.
        raise Failure(f"{why}: the file is damaged: bring it back from a backup, or move it away, "
                      "and remove its targets with targetcli and its tmpfs with umount") from None
    return replace(found, dir=state.dir, name=name)


def names_of(given: str | None) -> list[str]:
    """Of the plans that were applied here, sorted."""
    path = directory(given)
    with at_place(printable(path)), contextlib.suppress(FileNotFoundError):
        found = [e[:-len(SUFFIX)] for e in os.listdir(path) if e.endswith(SUFFIX)]
        return sorted(name for name in found if not plan.plan_fault(name))
    return []
