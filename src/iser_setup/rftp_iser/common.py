# SPDX-License-Identifier: Apache-2.0
"""What all commands use: failures, messages, programs, files, sizes and lists of nodes."""
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

PROGRAM = "rftp-iser"
DONE, FAILED, USAGE = 0, 1, 2  # exit statuses
FILE_MOST = 4 << 20  # bytes of a plan's or a SPEC's file


class Failure(Exception):
    """One line for the user, with the place and, where there is one, the remedy."""

    def __init__(self, text: str, status: int = FAILED):
        super().__init__(text)
        self.status = status


class Misuse(Failure):
    """Wrong words on the command line."""

    def __init__(self, text: str, word: str | None = None):
        if word is not None:
            text += ": " + printable(word)
        super().__init__(text, USAGE)


def failed(why: OSError, where: str) -> Failure:
    """The system's word for an error, as a Failure of this place."""
    return Failure("%s: %s" % (where, os.strerror(why.errno) if why.errno else why))


# ---- messages -------------------------------------------------------------------------


def printable(text: str) -> str:
    """For a terminal: control characters, backslashes and broken bytes as \\xNN."""
    out = []
    for c in text:
        if c.isprintable() and c != "\\":
            out.append(c)
        else:
            out.extend("\\x%02x" % b for b in c.encode("utf-8", "surrogateescape"))
    return "".join(out)


def say(text: str) -> None:
    """A line on standard error; never fails."""
    try:
        sys.stderr.write("%s: %s\n" % (PROGRAM, text))
        sys.stderr.flush()
    except OSError:
        pass


def warn(text: str) -> None:
    say("warning: " + text)


def output(text: str) -> None:
    """All of text to standard output, now. Failure when that cannot be written."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as why:
        # Else the interpreter tries again at its end, and complains.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise failed(why, "standard output") from why


# ---- programs -------------------------------------------------------------------------


def program(name: str) -> str:
    """The path of another program of this project: the one beside this, or PATH's."""
    beside = os.path.join(os.environ.get("RFTP_BIN", os.path.dirname(sys.argv[0])), name)
    return beside if os.access(beside, os.X_OK) else name


def run(words: Sequence[str], seconds: float = 120, **more: str) -> str:
    """Standard output of a program, which has no standard input; Failure with the last line of
    its standard error when it fails, is not there or takes longer. more: environment."""
    env: dict[str, str] = dict(os.environ, LC_ALL="C.UTF-8", **more)
    try:
        done = subprocess.run(list(words), stdin=subprocess.DEVNULL, capture_output=True, env=env,
                              timeout=seconds, check=False)
    except OSError as why:
        raise failed(why, words[0]) from why
    except subprocess.TimeoutExpired:
        raise Failure("%s has not ended after %g seconds" % (words[0], seconds)) from None
    if done.returncode:
        said = done.stderr.decode("utf-8", "surrogateescape").strip().splitlines()
        raise Failure("%s: %s" % (os.path.basename(words[0]), printable(said[-1]) if said else
                                  "exit status %d" % done.returncode))
    return done.stdout.decode("utf-8", "surrogateescape")


# ---- files ----------------------------------------------------------------------------


def read_text(path: str, most: int = FILE_MOST) -> str:
    """A file's text; "-" is standard input. Bytes that are not UTF-8 stay recoverable."""
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
        raise Failure("%s: File too large" % name)
    if b"\0" in data:
        raise Failure("%s has a NUL in it" % name)
    return data.decode("utf-8", "surrogateescape")


def write_file(path: str, text: str, mode: int = 0o600) -> None:
    """Whole or not at all, and on the disk when this returns: beside its place, then renamed. A
    link or device that is at path is replaced, never followed."""
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
        there = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(there)
        finally:
            os.close(there)
    except OSError as why:
        raise failed(why, printable(path)) from why
    finally:
        if beside:
            os.unlink(beside)


def is_ours(st: os.stat_result) -> bool:
    """Does it belong to root, or to the user that this runs as?"""
    return st.st_uid in (0, os.geteuid())


def written_by_others(st: os.stat_result) -> bool:
    return bool(st.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


# ---- numbers --------------------------------------------------------------------------

UNITS = ("", "K", "M", "G", "T", "P", "E")


def parse_number(text: str, least: int, most: int) -> int | None:
    """None: it is no whole number, or not between these."""
    if not (text.isascii() and text.isdigit()):
        return None
    return int(text) if least <= int(text) <= most else None


def parse_size(text: str) -> int | None:
    """Bytes of "4096", "64K", "4GiB"; None: it is no size, or of more than 64 bits."""
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
    return "%.*f %s" % (1 if power and size < 99.95 else 0, size, UNITS[power] + "iB" if power else "B")


def parse_ids(text: str, most: int = 1023) -> set[int] | None:
    """Numbers of nodes or CPUs, "0,2-3"; None: it is no such list."""
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
    return ",".join("-".join(map(str, run)) for run in runs)


# ---- signals, faults on purpose, and locks ---------------------------------------------


class Stop:
    """Between "with" and its end a signal that asks for the end is noted in asked, not obeyed; then
    it is, so that the caller sees by which signal this process has ended."""

    def __init__(self) -> None:
        self.asked = 0
        self._were: dict[int, object] = {}

    def _note(self, number: int, _frame: object) -> None:
        self.asked = number

    def __enter__(self) -> Stop:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._were[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, was in self._were.items():
            signal.signal(number, was)  # type: ignore[arg-type]
        if self.asked:
            os.kill(os.getpid(), self.asked)

    def check(self) -> None:
        """Failure when the end was asked for."""
        if self.asked:
            raise Failure("stopped by a signal")


_passed: dict[str, int] = {}  # of each rule: how often its point was reached


def kill_point(name: str) -> None:
    """A named place of a change, where tests have it fail or end (RFTP_FAULT_ISER, a list of rules:
    "before:EIO:after=9;kill:SIGKILL:at=kept", described in CONTRIBUTING.md). Failure for an errno."""
    for rule in filter(None, os.environ.get("RFTP_FAULT_ISER", "").split(";")):
        point, action, *options = rule.split(":")
        of = dict(o.split("=", 1) for o in options)
        if of.get("at", point) != name:
            continue
        _passed[rule] = _passed.get(rule, 0) + 1
        if not int(of.get("after", 0)) < _passed[rule] <= int(of.get("after", 0)) + int(of.get("count", 1 << 62)):
            continue
        if action.startswith("SIG"):
            os.kill(os.getpid(), signal.Signals[action])
        else:
            raise Failure("a fault on purpose: " + os.strerror(getattr(errno, action)))


def _holder(fd: int) -> int:
    """The process that locked it; 0: not known."""
    text = os.pread(fd, 24, 0).split(b"\n")[0].decode("ascii", "replace")
    return parse_number(text, 1, (1 << 31) - 1) or 0


def _is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError as why:
        return why.errno == errno.ESRCH
    return False


def lock(path: str, busy: str, seconds: int, stop: Stop | None = None, begun: str = "", left: int = 60) -> int:
    """A descriptor of the file, locked as long as it, or what has inherited it, is open. busy: the
    sentence when another process has it after so many seconds. begun: which program may outlive a
    holder that was killed; that is waited for left seconds at least, unless seconds is 0."""
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
                raise Failure("%s: a program of an rftp-iser that is gone (process %d) still runs, %s; try again "
                              "when it has ended, or see dmesg for what the kernel waits for"
                              % (printable(path), holder, begun))
            raise Failure("%s (process %s, which has %s locked); try again when it has ended"
                          % (busy, holder or "unknown", printable(path)))
        if waited >= min(seconds, 5) and not told:
            say("waiting for a program of an rftp-iser that is gone" if gone else "waiting: " + busy)
            told = True
        if stop and stop.asked:
            os.close(fd)
            stop.check()
        time.sleep(0.05)
    os.ftruncate(fd, 0)
    os.pwrite(fd, b"%d\n" % os.getpid(), 0)
    return fd
