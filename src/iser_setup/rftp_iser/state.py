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
from dataclasses import dataclass, replace
from pathlib import Path

from rftp_common import (FILE_MOST, Failure, Stop, at_place, failed, load_json, own_directory,
                         parse_number, printable, read_text, say, write_file)
from rftp_members import json_of, member, read_object, word

from . import names
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
        isinstance(path, str) and not names.path(path) for path in given) else
        "has an entry that is no path")
    irqs: list[Irq] = member(list, of=Irq)  # of this boot
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

    def begin_boot(self) -> None:
        """After a restart the kernel has its own CPU lists again."""
        if self.boot != boot_now():
            self.cpus, self.irqs, self.boot = "", [], boot_now()

    def write(self) -> None:
        self.version = FORMAT_VERSION
        text = json.dumps(json_of(self), indent=2)
        if len(text) > STATE_MOST:
            raise Failure(f"{printable(self.file)} would be too long to be read again: make the "
                          "plan smaller, or several of it")
        write_file(self.file, text)

    def remove(self) -> None:
        try:
            for path in (self.lio_file, self.file):  # last the file that names our things
                Path(path).unlink(missing_ok=True)
        except OSError as why:
            raise failed(why, printable(self.file)) from why


def boot_now() -> str:
    return read_text("/proc/sys/kernel/random/boot_id", 64).strip()


def directory(given: str | None) -> str:
    return given or os.environ.get("RFTP_ISER_STATE") or DEFAULT_DIR


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
    try:
        value = load_json(text, printable(state.file))
        with at_place(printable(state.file)):
            found: State = read_object(State, value, "")
    except Failure as why:
        # Only apply writes it, so all that is wrong in it is damage.
        raise Failure(f"{why}: the file is damaged: bring it back from a backup, or move it away, "
                      "and remove its targets with targetcli and its tmpfs with umount") from None
    return replace(found, dir=state.dir, name=name)


def names_of(given: str | None) -> list[str]:
    """Of the plans that were applied here, sorted."""
    path = directory(given)
    try:
        found = [e[:-len(SUFFIX)] for e in os.listdir(path) if e.endswith(SUFFIX)]
    except FileNotFoundError:
        return []
    except OSError as why:
        raise failed(why, printable(path)) from why
    return sorted(name for name in found if not names.plan(name))


# ---- locks and kill points ------------------------------------------------------------


def _is_locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


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
    try:
        while not _is_locked(fd):
            holder = parse_number(os.pread(fd, 24, 0).decode("latin-1").strip(), 1, 1 << 31)
            gone = bool(begun and holder) and not os.path.exists(f"/proc/{holder}")
            said = f"{busy} (process {holder or 'unknown'}, which has {printable(path)} locked)"
            if gone:
                said = (f"a program of an rftp-iser that is gone (process {holder}) still runs, "
                        f"{begun}, and has {printable(path)} locked")
            waited = time.monotonic() - start
            if waited >= (max(seconds, left) if gone and seconds else seconds):
                dmesg = "; dmesg may show the reason" if gone else ""
                raise Failure(f"{said}; try again when it has ended{dmesg}")
            if waited >= min(seconds, 5) and not told:
                say(f"waiting: {said}")
                told = True
            if stop:
                stop.check()
            time.sleep(0.05)
        os.ftruncate(fd, 0)
        os.pwrite(fd, b"%d\n" % os.getpid(), 0)
    except BaseException:
        os.close(fd)
        raise
    return fd


def open_to_change(given: str | None, name: str, seconds: int, stop: Stop) -> State:
    """As read(), and no other process changes the targets of this host as long as its lock is
    open; it is waited for so many seconds."""
    path = directory(given)
    own_directory(path, f"{printable(path)}, the directory of applied plans,")
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
