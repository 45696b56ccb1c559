# SPDX-License-Identifier: Apache-2.0
"""Shared by all commands: failures, messages, programs, files, sizes, lists of nodes and CPUs,
signals, kill points and locks."""
from __future__ import annotations

import errno
import fcntl
import os
import re
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from typing import TextIO

PROGRAM = "rftp-iser"
DONE, FAILED, USAGE = 0, 1, 2  # exit statuses
FILE_MOST = 4 << 20  # bytes of a plan or SPEC file


class Failure(Exception):
    """One line for the user: the place, the reason and, if there is one, the remedy."""

    def __init__(self, text: str, status: int = FAILED):
        super().__init__(text)
        self.status = status


class Misuse(Failure):
    """The command line is wrong."""

    def __init__(self, text: str, word: str | None = None):
        super().__init__(text if word is None else f"{text}: {printable(word)}", USAGE)


def failed(why: OSError, where: str) -> Failure:
    """A system error as a Failure of this place."""
    return Failure(f"{where}: {os.strerror(why.errno) if why.errno else why}")


# ---- messages -------------------------------------------------------------------------


def printable(text: str) -> str:
    """For a terminal: control characters, backslashes and invalid UTF-8 as \\xNN."""
    out = []
    for c in text:
        if c.isprintable() and c != "\\":
            out.append(c)
        else:
            out.extend(f"\\x{b:02x}" for b in c.encode("utf-8", "surrogateescape"))
    return "".join(out)


def _discard(stream: TextIO) -> None:
    """The interpreter flushes again at exit, and would fail with status 120."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def say(text: str) -> None:
    """Writes a line to standard error; never fails."""
    try:
        sys.stderr.write(f"{PROGRAM}: {text}\n")
        sys.stderr.flush()
    except OSError:
        _discard(sys.stderr)


def warn(text: str) -> None:
    say("warning: " + text)


def output(text: str) -> None:
    """Writes text to standard output and flushes it. Failure if that is impossible."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as why:
        _discard(sys.stdout)
        raise failed(why, "standard output") from why


# ---- programs -------------------------------------------------------------------------


def program(name: str) -> str:
    """The path of another program of this project: in this program's directory, or in PATH."""
    beside = os.path.join(os.environ.get("RFTP_BIN", os.path.dirname(sys.argv[0])), name)
    return beside if os.access(beside, os.X_OK) else name


def run(words: Sequence[str], seconds: float = 120, **more: str) -> str:
    """Runs a program without standard input; returns its standard output. more: environment.
    Failure, with its last line of standard error, if it fails, is missing or takes longer."""
    env: dict[str, str] = dict(os.environ, LC_ALL="C.UTF-8", **more)
    try:
        done = subprocess.run(list(words), stdin=subprocess.DEVNULL, capture_output=True, env=env,
                              timeout=seconds, check=False)
    except OSError as why:
        raise failed(why, words[0]) from why
    except subprocess.TimeoutExpired:
        raise Failure(f"{words[0]} has not ended after {seconds:g} seconds") from None
    if done.returncode:
        lines = done.stderr.decode("utf-8", "surrogateescape").strip().splitlines()
        reason = printable(lines[-1]) if lines else f"exit status {done.returncode}"
        raise Failure(f"{os.path.basename(words[0])}: {reason}")
    return done.stdout.decode("utf-8", "surrogateescape")


# ---- files ----------------------------------------------------------------------------


def read_text(path: str, most: int = FILE_MOST) -> str:
    """A file's text; "-" is standard input. Invalid UTF-8 is kept as surrogate escapes."""
    name = "standard input" if path == "-" else printable(path)
    try:
        if path == "-":
            data = sys.stdin.buffer.read(most + 1)
        else:
            with open(path, "rb") as file:
                data = file.read(most + 1)
    except OSError as why:
        raise failed(why, name) from why
    if len(data) > most:
        raise Failure(f"{name}: File too large")
    if b"\0" in data:
        raise Failure(f"{name} has a NUL in it")
    return data.decode("utf-8", "surrogateescape")


def write_file(path: str, text: str, mode: int = 0o600) -> None:
    """Replaces path by a new file, synced to the disk. On Failure the old file is unchanged. A link
    or device at path is replaced, never followed."""
    directory = os.path.dirname(path) or "."
    beside = ""
    try:
        fd, beside = tempfile.mkstemp(prefix=".rftp-", dir=directory)  # O_EXCL, O_NOFOLLOW, 0600
        with os.fdopen(fd, "wb") as file:
            file.write(text.encode("utf-8", "surrogateescape"))
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.rename(beside, path)
        beside = ""
        parent = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(parent)
        finally:
            os.close(parent)
    except OSError as why:
        raise failed(why, printable(path)) from why
    finally:
        if beside:
            os.unlink(beside)


def is_ours(st: os.stat_result) -> bool:
    """Is the owner root, or the user of this process?"""
    return st.st_uid in (0, os.geteuid())


def written_by_others(st: os.stat_result) -> bool:
    return bool(st.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


# ---- numbers --------------------------------------------------------------------------

UNITS = ("", "K", "M", "G", "T", "P", "E")


def parse_number(text: str, least: int, most: int) -> int | None:
    """None: not a whole number from least to most."""
    if not (text.isascii() and text.isdigit()):
        return None
    return int(text) if least <= int(text) <= most else None


def parse_size(text: str) -> int | None:
    """Bytes of "4096", "64K", "4GiB"; None: not a size, or more than 64 bits."""
    found = re.fullmatch(r"([0-9]+)(?:([KMGTP])(?:i?B)?)?", text, re.IGNORECASE | re.ASCII)
    if not found:
        return None
    size = int(found.group(1)) << 10 * UNITS.index((found.group(2) or "").upper())
    return size if size < 1 << 64 else None


def format_size(size: float) -> str:
    """Three digits, "4.0 MiB"."""
    power = 0
    while size >= 1023.5 and power < len(UNITS) - 1:
        size /= 1024
        power += 1
    return f"{size:.{int(power > 0 and size < 99.95)}f} {UNITS[power] + 'i' if power else ''}B"


def parse_ids(text: str, most: int = 1023) -> set[int] | None:
    """Numbers of nodes or CPUs, "0,2-3"; None: not such a list."""
    ids: set[int] = set()
    for part in text.split(","):
        ends = [parse_number(end, 0, most) for end in part.split("-", 1)]
        first, last = ends[0], ends[-1]
        if first is None or last is None or first > last:
            return None
        ids.update(range(first, last + 1))
    return ids


def format_ids(ids: Iterable[int]) -> str:
    runs: list[list[int]] = []
    for i in sorted(ids):
        if runs and runs[-1][-1] == i - 1:
            runs[-1][1:] = [i]
        else:
            runs.append([i])
    return ",".join("-".join(map(str, ends)) for ends in runs)


# ---- signals, kill points and locks ---------------------------------------------------


class Stop:
    """A context in which SIGINT, SIGTERM and SIGHUP are only noted, in asked. Its end sends the
    noted signal again, so that the parent process sees this process end by it."""

    def __init__(self) -> None:
        self.asked = 0
        self._before: dict[int, object] = {}

    def _note(self, number: int, _frame: object) -> None:
        self.asked = number

    def __enter__(self) -> Stop:  # noqa: PYI034, Self needs Python 3.11
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        if self.asked:
            os.kill(os.getpid(), self.asked)

    def check(self) -> None:
        """Failure if a signal was noted."""
        if self.asked:
            raise Failure("stopped by a signal")


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
