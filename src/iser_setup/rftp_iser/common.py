# SPDX-License-Identifier: Apache-2.0
"""Kill points and locks; and what all programs share."""
from __future__ import annotations

import errno
import fcntl
import os
import signal
import time

from rftp_common import (DONE, FAILED, FILE_MOST, USAGE, Failure, Misuse, Options, Stop, failed,
                         format_ids, format_size, is_ours, output, output_of, parse_ids,
                         parse_number, parse_size, printable, program, read_text, run, say, warn,
                         write_file, written_by_others)

__all__ = [
    "DONE", "FAILED", "FILE_MOST", "USAGE", "Failure", "Misuse", "Options", "Stop", "failed",
    "format_ids", "format_size", "is_ours", "kill_point", "lock", "output", "output_of",
    "parse_ids", "parse_number", "parse_size", "printable", "program", "read_text", "run", "say",
    "warn", "write_file", "written_by_others"]

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
