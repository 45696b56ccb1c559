# SPDX-License-Identifier: Apache-2.0
"""Shared by the commands: failures, messages, options, sizes, programs and files."""
from __future__ import annotations

import errno
import getopt
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from keyword import iskeyword
from types import FrameType, SimpleNamespace
from typing import Any, TypeVar

PROGRAM = "rftp-numa"
DONE, FAILED, USAGE = 0, 1, 2  # exit statuses
GBIT = 125e6  # bytes per second
NODE_MOST = 1023  # the kernel's greatest number of a node
CPU_MOST = 8191


class Failure(Exception):
    """One line for the user, with the place and, where there is one, the remedy. text may be empty
    when another program has said it."""

    def __init__(self, text: str, status: int = FAILED):
        super().__init__(text)
        self.text, self.status = text, status


class Misuse(Failure):
    """Wrong words on the command line."""

    def __init__(self, text: str, word: str | None = None):
        super().__init__(text + (": " + printable(word) if word is not None else ""), USAGE)


def system(why: OSError, where: str) -> Failure:
    return Failure("%s: %s" % (where, os.strerror(why.errno) if why.errno else why))


# ---- messages -------------------------------------------------------------------------


def printable(text: str) -> str:
    """For a terminal: control characters, backslashes and broken bytes as \\xNN."""
    return "".join(c if c.isprintable() and c != "\\" else
                   "".join("\\x%02x" % b for b in c.encode("utf-8", "surrogateescape"))
                   for c in text)


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
        sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))
        sys.stdout.buffer.flush()
    except OSError as why:
        # Else the interpreter tries again at its end, and complains.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise system(why, "standard output") from why


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

UNITS = ("", "K", "M", "G", "T", "P", "E")


def parse_uint(text: str, least: int, most: int) -> int:
    """ValueError: it is no whole number, or not between these."""
    if not re.fullmatch("[0-9]{1,30}", text) or not least <= int(text) <= most:
        raise ValueError(text)
    return int(text)


def _scaled(text: str, units: str, base: int, end: str) -> int:
    """A number and its unit, which are below 2^64; ValueError."""
    found = re.fullmatch("([0-9]{1,20})([%s]?)%s" % (units, end), text, re.IGNORECASE | re.ASCII)
    if not found or int(found[1]) * base ** UNITS.index(found[2].upper()) >= 1 << 64:
        raise ValueError(text)
    return int(int(found[1]) * base ** UNITS.index(found[2].upper()))


def parse_size(text: str) -> int:
    """Bytes of "4096", "64K", "4GiB"; ValueError."""
    return _scaled(text, "KMGTP", 1024, "(?:(?<![0-9])i?B)?")


def parse_rate(text: str) -> int:
    """Bytes per second of "10Gbit" (powers of 1000, rounded up) or of a size; ValueError."""
    return (_scaled(text, "KMGT", 1000, "bit") + 7) // 8 if text[-3:].lower() == "bit" else parse_size(text)


def format_size(size: float) -> str:
    """Three digits, "4.0 MiB"."""
    power = 0
    while size >= 1023.5 and power < len(UNITS) - 1:
        size /= 1024
        power += 1
    return "%.*f %s" % (1 if power and size < 99.95 else 0, size, UNITS[power] + "iB" if power else "B")


def format_rate(rate: float) -> str:
    return format_size(rate if 0 <= rate < float("inf") else 0) + "/s"


def format_seconds(seconds: int) -> str:
    minutes, hours = seconds // 60, seconds // 3600
    return ("%d:%02d:%02d" % (hours, minutes % 60, seconds % 60) if hours else
            "%d:%02d" % (minutes, seconds % 60))


def parse_ids(text: str, most: int = CPU_MOST) -> frozenset[int]:
    """CPUs or nodes, "0-3,8", as the kernel writes them; empty for ""; ValueError."""
    ids: set[int] = set()
    for part in text.strip().split(",") if text.strip() else []:
        first, dash, last = part.partition("-")
        low = parse_uint(first, 0, most)
        ids.update(range(low, parse_uint(last, low, most) + 1 if dash else low + 1))
    return frozenset(ids)


def format_ids(ids: Iterable[int]) -> str:
    runs: list[list[int]] = []
    for i in sorted(ids):
        if runs and runs[-1][-1] == i - 1:
            runs[-1][1:] = [i]
        else:
            runs.append([i])
    return ",".join("-".join(map(str, run)) for run in runs)


def quantile(values: Sequence[float], share: float) -> float:
    """Between the two nearest of some numbers, in proportion."""
    v = sorted(values)
    at = (len(v) - 1) * share
    i = int(at)
    return v[i] + (v[i + 1] - v[i]) * (at - i) if i + 1 < len(v) else v[i]


# ---- options --------------------------------------------------------------------------

Take = Callable[[str, str], Any]  # the option's name and its word; Misuse


def text(_name: str, word: str) -> str:
    return word


def _between(what: str, parse: Callable[[str], int], shown: Callable[[int], str]) -> Callable[[int, int], Take]:
    def of(least: int, most: int) -> Take:
        def take(name: str, word: str) -> int:
            try:
                if least <= parse(word) <= most:
                    return parse(word)
            except ValueError:
                pass
            raise Misuse("--%s takes %s from %s to %s, not" % (name, what, shown(least), shown(most)), word)
        return take
    return of


count = _between("a number", lambda word: parse_uint(word, 0, 1 << 64), str)
size = _between("a size", parse_size, format_size)


def one_of(*words: str) -> Take:
    def take(name: str, word: str) -> str:
        if word not in words:
            raise Misuse("--%s takes %s, not" % (name, " or ".join(words)), word)
        return word
    return take


@dataclass(frozen=True)
class Option:
    """take: None for a switch. default: None when nothing stands for it."""
    name: str
    value: str
    about: str
    take: Take | None = None
    default: Any = None


class Options(SimpleNamespace):
    """The values by the options' names, with "_" for "-", and behind a word of Python's: from_."""


def _field(name: str) -> str:
    return name.replace("-", "_") + "_" * iskeyword(name)


JSON = Option("json", "", "one JSON object for programs")
SYSFS = Option("sysfs", "DIR", "another machine's sysfs, copied there", text)


def take_options(command: str, about: str, table: Sequence[Option]) -> Options | None:
    """None: --help was asked for, and printed. Misuse."""
    into = Options(**{_field(o.name): o.default if o.take else False for o in table})
    by_name = {o.name: o for o in table}
    names = [o.name + ("=" if o.take else "") for o in table]
    try:
        given, words = getopt.gnu_getopt(sys.argv[1:], "h", names + ["help", "debug"])
    except getopt.GetoptError as why:
        what = ("this option takes a value" if "requires" in why.msg else
                "this option takes no value" if "must not" in why.msg else
                "no such option, or several that begin so")
        raise Misuse(what, why.msg.split()[1]) from None
    for flag, word in given:
        name = flag.lstrip("-")
        if name in ("h", "help"):
            lines = ["      --%-22s %s" % (("%s %s" % (o.name, o.value)).strip(), o.about) for o in table]
            output("Usage: %s %s [OPTIONS]\n\n%s\n\nOptions:\n%s\n  -h, --%-22s %s\n" % (
                PROGRAM, command, about, "\n".join(lines), "help", "print this help, and exit"))
            return None
        if name != "debug":
            take = by_name[name].take
            setattr(into, _field(name), take(name, word) if take else True)
    if words:
        raise Misuse("too many words", words[0])
    return into


def run_command(command: Callable[[], None]) -> int:
    """A command as a program: its exit status, with a line for each failure, never a traceback."""
    try:
        command()
    except Misuse as why:
        say("%s (%s --help lists commands, %s COMMAND --help options)" % (why.text, PROGRAM, PROGRAM))
        return why.status
    except Failure as why:
        if why.text:
            say(why.text)
        return why.status
    except Exception as why:
        if "--debug" in sys.argv:
            raise
        if isinstance(why, MemoryError):
            say("out of memory")
        elif isinstance(why, OSError):
            say(system(why, printable(str(why.filename or "this machine"))).text)
        else:
            say("internal error: %s (--debug shows where)" % printable(repr(why)))
        return FAILED
    return DONE


# ---- signals and programs -------------------------------------------------------------


AnyStop = TypeVar("AnyStop", bound="Stop")  # typing.Self is of Python 3.11


class Stop:
    """Between "with" and its end a signal that asks for the end is noted in asked, not obeyed; with
    obey it is obeyed then, so that the caller sees by which signal this process has ended."""

    def __init__(self, obey: bool = True) -> None:
        self.asked = 0
        self._obey = obey
        self._were: dict[int, Any] = {}

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self.asked = number

    def __enter__(self: AnyStop) -> AnyStop:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._were[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        if not self._obey:
            return  # a second signal must not take away what the first one left
        for number, was in self._were.items():
            signal.signal(number, was)
        if self.asked:
            os.kill(os.getpid(), self.asked)


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
