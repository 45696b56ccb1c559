# SPDX-License-Identifier: Apache-2.0
"""Shared by the commands: failures, messages, options, sizes, programs and files."""
from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import rftp_common
from rftp_common import (JSON, Command, Failure, Misuse, Option, Options, Stop, count, failed as system,
                         format_ids, format_rate, format_size, one_of, output, printable, say, size,
                         text, warn)

__all__ = [
    "CPU_MOST", "Command", "Done", "Failure", "GBIT", "JSON", "Misuse", "NODE_MOST", "Option",
    "Options", "PROGRAM", "SYSFS", "Stop", "count", "format_ids", "format_rate",
    "format_seconds", "format_size", "json_line", "json_name", "load_json", "one_of", "output",
    "own_program", "parse_ids", "parse_rate", "parse_size", "parse_uint", "printable",
    "quantile", "read_file", "run", "say", "size", "system", "take_options", "text", "warn"]

GBIT = 125e6  # bytes per second
NODE_MOST = 1023  # the kernel's greatest number of a node
CPU_MOST = 8191
PROGRAM = "rftp-numa"


def json_line(obj: object) -> str:
    return json.dumps(obj, separators=(",", ":"), ensure_ascii=False, allow_nan=False) + "\n"


def json_name(key: str, name: str) -> dict[str, str]:
    """A file's name in an object; bytes that are no UTF-8 come beside it, in KEY_hex."""
    raw = os.fsencode(name)
    text = raw.decode("utf-8", "replace")
    return {key: text} if text.encode() == raw else {key: text, key + "_hex": raw.hex()}


def load_json(data: bytes) -> Any:
    """ValueError with the line; also for a field that is there twice, and for NaN."""
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        for name in names:
            if names.count(name) > 1:
                raise ValueError("1: no JSON: duplicate object key \"%s\"" % printable(name))
        return dict(pairs)

    def no_number(word: str) -> None:
        raise ValueError("1: no JSON: %s is no number" % word)

    try:
        return json.loads(data.decode("utf-8"), object_pairs_hook=unique, parse_constant=no_number)
    except json.JSONDecodeError as why:
        raise ValueError("%d: no JSON: %s" % (why.lineno, why.msg)) from None
    except (RecursionError, UnicodeDecodeError) as why:
        raise ValueError("1: no JSON: %s" % why) from None


# ---- numbers --------------------------------------------------------------------------


def _or_error(value: Any, text: str) -> Any:
    if value is None:
        raise ValueError(text)
    return value


def parse_uint(text: str, least: int, most: int) -> int:
    return int(_or_error(rftp_common.parse_number(text, least, most), text))


def parse_size(text: str) -> int:
    return int(_or_error(rftp_common.parse_size(text), text))


def parse_rate(text: str) -> int:
    return int(_or_error(rftp_common.parse_rate(text), text))


def parse_ids(text: str, most: int = CPU_MOST) -> frozenset[int]:
    return frozenset(_or_error(rftp_common.parse_ids(text, most), text))


def format_seconds(seconds: int) -> str:
    minutes, hours = seconds // 60, seconds // 3600
    return ("%d:%02d:%02d" % (hours, minutes % 60, seconds % 60) if hours else
            "%d:%02d" % (minutes, seconds % 60))


def quantile(values: Sequence[float], share: float) -> float:
    """Between the two nearest of some numbers, in proportion."""
    v = sorted(values)
    at = (len(v) - 1) * share
    i = int(at)
    return v[i] + (v[i + 1] - v[i]) * (at - i) if i + 1 < len(v) else v[i]


SYSFS = Option("sysfs", "DIR", "another machine's sysfs, copied there", text)


def take_options(command: str, about: str, table: Sequence[Option]) -> Options | None:
    """None: --help was asked for, and printed. Misuse."""
    return rftp_common.parse(Command(command, "", about, table), sys.argv[1:])


@dataclass(frozen=True)
class Done:
    status: int  # its exit status; 128 + signal when one ended it
    out: bytes
    err: str


def run(words: Sequence[str], stop: Stop, stdin: bytes = b"", fds: Sequence[int] = (),
        show_errors: bool = False) -> Done:
    """A program to its end, without a shell. fds stay open for it, under their numbers.
    show_errors: its standard error is ours. When a signal asks for the end, the program's whole
    session is ended; Failure then. OSError: there is no such program."""
    with subprocess.Popen(list(words), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=None if show_errors else subprocess.PIPE, pass_fds=fds,
                          start_new_session=True) as process:
        given: bytes | None = stdin
        while True:
            try:
                out, err = process.communicate(given, timeout=0.05)
                break
            except subprocess.TimeoutExpired:
                given = None  # communicate keeps the rest
            if stop.asked:
                _end(process)
                raise Failure("stopped by a signal")
        status = process.returncode if process.returncode >= 0 else 128 - process.returncode
        return Done(status, out, (err or b"").decode("utf-8", "surrogateescape"))


def _end(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(timeout=2)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            pass


def own_program(words: Sequence[str], stop: Stop, stdin: bytes = b"") -> Any:
    """The JSON that a command of the C program prints. It says itself why it fails."""
    program = os.environ.get("RFTP_NUMA") or PROGRAM
    try:
        done = run([program, *words], stop, stdin, show_errors=True)
    except OSError as why:
        raise system(why, program) from why
    if done.status:
        raise Failure("" if done.status < 128 else "%s %s: ended by signal %d" % (
            PROGRAM, words[0], done.status - 128))
    return json.loads(done.out or b"{}")


# ---- files ----------------------------------------------------------------------------


def read_file(path: str, most: int) -> bytes:
    """OSError."""
    with open(path, "rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    return data
