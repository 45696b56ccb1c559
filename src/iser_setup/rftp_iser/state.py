# SPDX-License-Identifier: Apache-2.0
"""Which things on this host are ours: for each plan, by its name, a file with the plan as it was
applied, and with the plan that is being applied. It is on the disk before anything is made, so that
an apply that is killed leaves nothing unknown. The program in C wrote the same files."""
from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import time
from dataclasses import dataclass, field
from typing import Any

from rftp_common import (FILE_MOST, Failure, Stop, failed, is_ours, parse_number, printable,
                         read_text, say, write_file, written_by_others)

from . import names, plan
from .plan import Plan

DEFAULT_DIR = "/var/lib/rftp/iser"
VERSION_KEY, FORMAT_VERSION = "rftp-iser-state", 1
SUFFIX = ".json"
STATE_MOST = 3 * FILE_MOST  # bytes: two plans and a little


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

    def write(self) -> None:
        value: dict[str, Any] = {VERSION_KEY: FORMAT_VERSION, "boot": self.boot}
        value.update((key, plan.to_json(p)) for key, p in (("applied", self.applied),
                                                           ("applying", self.applying)) if p)
        value["older"] = [plan.to_json(p) for p in self.older]
        if self.cpus is not None:
            value["cpus"] = self.cpus
        text = json.dumps(dict(value, made=self.made, irqs=[vars(i) for i in self.irqs]), indent=2)
        if len(text) > STATE_MOST:
            raise Failure(f"{printable(self.file)} would be too long to be read again: make the "
                          "plan smaller, or several of it")
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


def _load(state: State, text: str) -> None:
    """Only apply writes it, so all that is wrong in it is damage."""
    try:
        value = json.loads(text)
        state.boot, state.cpus, state.made = value["boot"], value.get("cpus"), value.get("made", [])
        state.irqs = [Irq(i["irq"], i["netdev"], i["was"], i["set"]) for i in value.get("irqs", ())]
        texts = [state.boot, state.cpus or "", *state.made,
                 *(t for i in state.irqs for t in (i.netdev, i.was, i.set))]
        if value[VERSION_KEY] != FORMAT_VERSION or not all(isinstance(t, str) for t in texts) \
                or not all(path.startswith("/") for path in state.made) \
                or not all(type(i.irq) is int and i.irq >= 0 for i in state.irqs):
            raise ValueError("it is not as apply writes it")
        state.applied, state.applying = (
            plan.from_json(value[key], key) if key in value else None
            for key in ("applied", "applying"))
        state.older = [plan.from_json(p, "older") for p in value.get("older", ())]
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError, Failure) as why:
        raise Failure(f"{printable(state.file)}: {why}: the file is damaged: bring it back from a "
                      "backup, or move it away, and take what was made out with targetcli and "
                      "umount") from None


def read(given: str | None, name: str) -> State:
    """A plan that was never applied is a State without plans. Failure, whose cause is the OSError
    when the file cannot be read."""
    if names.plan(name):
        raise Failure(f"\"{printable(name)}\" is no plan's name: it {names.plan(name)}")
    state = State(directory(given), name)
    try:
        text = read_text(state.file, STATE_MOST)
    except Failure as why:
        if isinstance(why.__cause__, FileNotFoundError):
            return state
        raise
    _load(state, text)
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


# ---- locks and kill points ------------------------------------------------------------


def _holder(fd: int) -> int:
    """The process that wrote its number into the lock file; 0: unknown."""
    text = os.pread(fd, 24, 0).split(b"\n")[0].decode("ascii", "replace")
    return parse_number(text, 1, (1 << 31) - 1) or 0


def _is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError as why:
        return why.errno == errno.ESRCH
    return False


def lock(path: str, busy: str, seconds: int, stop: Stop | None = None, begun: str = "",
         left: int = 60) -> int:
    """A descriptor of the file, locked until it and all inherited copies are closed. busy: the
    text if another process still has the lock after so many seconds. begun: the programs that may
    outlive a killed holder; the wait for them is at least left seconds, unless seconds is 0."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as why:
        raise failed(why, printable(path)) from why
    start, told = time.monotonic(), not seconds
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except OSError as why:
            if why.errno != errno.EWOULDBLOCK:
                os.close(fd)
                raise failed(why, "the lock " + printable(path)) from why
        waited, holder = time.monotonic() - start, _holder(fd)
        gone = bool(begun and holder and _is_gone(holder))
        if waited >= (max(seconds, left) if gone and seconds else seconds):
            os.close(fd)
            if gone:
                raise Failure(f"{printable(path)}: a program of an rftp-iser that is gone (process "
                              f"{holder}) still runs, {begun}; try again when it has ended, or see "
                              "dmesg for what the kernel waits for")
            raise Failure(f"{busy} (process {holder or 'unknown'}, which has {printable(path)} "
                          "locked); try again when it has ended")
        if waited >= min(seconds, 5) and not told:
            say("waiting for a program of an rftp-iser that is gone" if gone else
                f"waiting: {busy}")
            told = True
        if stop and stop.asked:
            os.close(fd)
            stop.check()
        time.sleep(0.05)
    os.ftruncate(fd, 0)
    os.pwrite(fd, b"%d\n" % os.getpid(), 0)
    return fd


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
        raise failed(why, f"{printable(path)}, where it is kept what was applied") from why
    # A user who could write there could have us mount and remove at will.
    if not is_ours(st) or written_by_others(st):
        raise Failure(f"{printable(path)}: others may write there; chown root and chmod 700 it, "
                      "after a look at what is in it")
    held = lock(os.path.join(path, "lock"), "another rftp-iser is changing the targets of this "
                "host", seconds, stop, "which changes LIO")
    state = read(given, name)
    state.lock = held
    return state


_passed: dict[str, int] = {}  # by rule: how often its kill point was reached


def kill_point(name: str) -> None:
    """A named place in a change where a test injects a fault. RFTP_FAULT_ISER lists rules such as
    "before:EIO:after=9;kill:SIGKILL:at=kept" (CONTRIBUTING.md). Failure if a rule has an errno."""
    for rule in filter(None, os.environ.get("RFTP_FAULT_ISER", "").split(";")):
        point, action, *options = rule.split(":")
        of = dict(o.split("=", 1) for o in options)
        if of.get("at", point) != name:
            continue
        _passed[rule] = _passed.get(rule, 0) + 1
        after = int(of.get("after", 0))
        if not after < _passed[rule] <= after + int(of.get("count", 1 << 62)):
            continue
        if action.startswith("SIG"):
            os.kill(os.getpid(), signal.Signals[action])
        else:
            raise Failure("a fault on purpose: " + os.strerror(getattr(errno, action)))
