# SPDX-License-Identifier: Apache-2.0
"""Which things on this host are ours: for each plan, by its name, a file with the plan as it was
applied, and with the plan that is being applied. It is on the disk before anything is made, so that
an apply that is killed leaves nothing unknown. The program in C wrote the same files."""
from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from . import names, plan
from .common import FILE_MOST, Failure, Stop, failed, is_ours, lock, printable, read_text
from .common import write_file, written_by_others
from .plan import Plan

DEFAULT_DIR = "/var/lib/rftp/iser"
VERSION_KEY, FORMAT_VERSION = "rftp-iser-state", 1
SUFFIX = ".json"
STATE_MOST = 3 * FILE_MOST  # bytes: two plans and a little
DAMAGED = ("; the file is damaged: bring it back from a backup, or move it away, and take what was "
           "made out with targetcli and umount")


@dataclass
class Irq:
    """An interrupt of a network card that was confined to the CPUs of a node. set: ""; the kernel
    has refused it."""
    irq: int
    netdev: str
    was: str  # its smp_affinity_list
    set: str


@dataclass
class State:
    dir: str
    name: str  # of the plan, and the file
    applied: Plan | None = None  # to its end
    applying: Plan | None = None  # by an apply that is running, or was killed
    older: list[Plan] = field(default_factory=list)  # those of applies that were killed before it
    boot: str = ""  # boot_id(7) of when applied was made
    made: list[str] = field(default_factory=list)  # directories and files, in their order
    cpus: str | None = None  # LIO's list before any plan of this boot; None: not changed
    irqs: list[Irq] = field(default_factory=list)  # of this boot
    lock: int = -1  # a descriptor; child processes have the lock, too

    @property
    def file(self) -> str:
        return os.path.join(self.dir, self.name + SUFFIX)

    @property
    def lio_file(self) -> str:
        """For targetctl(8)."""
        return os.path.join(self.dir, self.name + names.LIO_SUFFIX + SUFFIX)

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

    # ---- changes, by the holder of the lock ----

    def begin_boot(self) -> None:
        """After a restart the kernel has its own CPU lists again."""
        if self.boot != boot_now():
            self.cpus, self.irqs, self.boot = None, [], boot_now()

    def begin(self, want: Plan) -> None:
        """want is being applied from now on."""
        if self.applying and self.applying != want:
            self.older.append(self.applying)
        self.applying = want

    def finish(self) -> None:
        self.applied, self.applying, self.older = self.applying, None, []

    def to_json(self) -> dict[str, Any]:
        out: dict[str, Any] = {VERSION_KEY: FORMAT_VERSION, "boot": self.boot}
        if self.applied:
            out["applied"] = plan.to_json(self.applied)
        if self.applying:
            out["applying"] = plan.to_json(self.applying)
        out["older"] = [plan.to_json(p) for p in self.older]
        if self.cpus is not None:
            out["cpus"] = self.cpus
        return dict(out, made=self.made, irqs=[vars(i) for i in self.irqs])

    def write(self) -> None:
        text = json.dumps(self.to_json(), indent=2)
        if len(text) > STATE_MOST:
            raise Failure("%s would be too long to be read again: make the plan smaller, or "
                          "several of it" % printable(self.file))
        write_file(self.file, text)

    def remove(self) -> None:
        for path in (self.lio_file, self.file):  # last the file that names our things
            try:
                os.unlink(path)
            except FileNotFoundError:
                pass
            except OSError as why:
                raise failed(why, printable(path)) from why


def boot_now() -> str:
    return read_text("/proc/sys/kernel/random/boot_id", 64).strip()


def directory(given: str | None) -> str:
    return given or os.environ.get("RFTP_ISER_STATE") or DEFAULT_DIR


# ---- read -----------------------------------------------------------------------------


def _need(right: bool) -> None:
    if not right:
        raise ValueError


def _load(state: State, text: str) -> None:
    """Only apply writes it, so all that is wrong in it is damage."""
    file = printable(state.file)
    try:
        value = json.loads(text)
        _need(value[VERSION_KEY] == FORMAT_VERSION)
        state.boot, state.cpus, state.made = value["boot"], value.get("cpus"), value.get("made", [])
        state.irqs = [Irq(i["irq"], i["netdev"], i["was"], i["set"]) for i in value.get("irqs", [])]
        texts = [state.boot, state.cpus or "", *state.made, *(t for i in state.irqs
            for t in (i.netdev, i.was, i.set))]
        _need(all(isinstance(t, str) for t in texts) and all(path.startswith("/")
            for path in state.made))
        _need(all(type(i.irq) is int and i.irq >= 0 for i in state.irqs))
        older = list(value.get("older", ()))
    except json.JSONDecodeError as why:
        raise Failure("%s:%d: %s" % (file, why.lineno, why.msg)) from None
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        raise Failure("%s: it is not as apply writes it" % file) from None
    state.applied = plan.from_json(value["applied"], file) if "applied" in value else None
    state.applying = plan.from_json(value["applying"], file) if "applying" in value else None
    state.older = [plan.from_json(p, file) for p in older]


def read(given: str | None, name: str) -> State:
    """A plan that was never applied is a State without plans. Failure, whose cause is the OSError
    when the file cannot be read."""
    if names.plan(name):
        raise Failure("\"%s\" is no plan's name: it %s" % (printable(name), names.plan(name)))
    state = State(directory(given), name)
    try:
        text = read_text(state.file, STATE_MOST)
    except Failure as why:
        if isinstance(why.__cause__, FileNotFoundError):
            return state
        raise
    try:
        _load(state, text)
    except Failure as why:
        raise Failure(str(why) + DAMAGED) from None
    return state


def names_of(given: str | None) -> list[str]:
    """Of the plans that were applied here, sorted."""
    path = directory(given)
    try:
        found = [e[:-len(SUFFIX)] for e in os.listdir(path) if e.endswith(SUFFIX) and e[0] != "."]
    except FileNotFoundError:
        return []
    except OSError as why:
        raise failed(why, printable(path)) from why
    return sorted(name for name in found if not names.plan(name))


def others(given: str | None, name: str) -> Iterator[State]:
    """The states of the other plans."""
    return (read(given, other) for other in names_of(given) if other != name)


# ---- the lock -------------------------------------------------------------------------


def open_to_change(given: str | None, name: str, seconds: int, stop: Stop) -> State:
    """As read(), and no other process changes the targets of this host as long as its lock is
    open; it is waited for so many seconds."""
    path = directory(given)
    try:
        os.makedirs(os.path.dirname(path) or ".", 0o755, exist_ok=True)
        if not os.path.isdir(path):
            os.mkdir(path, 0o700)
        st = os.stat(path)
    except OSError as why:
        raise failed(why, "%s, where it is kept what was applied" % printable(path)) from why
    # A user who could write there could have us mount and remove at will.
    if not is_ours(st) or written_by_others(st):
        raise Failure("%s: others may write there; chown root and chmod 700 it, after a look at "
                      "what is in it" % printable(path))
    held = lock(os.path.join(path, "lock"), "another rftp-iser is changing the targets of this "
                                            "host",
                seconds, stop, "which changes LIO")
    state = read(given, name)
    state.lock = held
    return state
