# SPDX-License-Identifier: Apache-2.0
"""Shared by the Python programs, rftp-iser and the commands of rftp-numa: failures, messages,
options, child programs, locks, files, numbers and signals."""
from __future__ import annotations

import contextlib
import difflib
import errno
import fcntl
import getopt
import importlib
import itertools
import json
import os
import re
import shlex
import signal
import stat
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from keyword import iskeyword
from types import FrameType, SimpleNamespace
from typing import Any, TextIO, TypeVar

DONE, FAILED, USAGE = 0, 1, 2  # exit statuses
FILE_MOST = 4 << 20  # bytes of a text file that a user names

_program = "rftp"  # in messages; start() sets it
_verbose = _quiet = False  # parse() sets them


class Failure(Exception):
    """A line for the user: place, reason and remedy. Empty if another program has written it."""

    def __init__(self, text: str, status: int = FAILED):
        super().__init__(text)
        self.status = status


class Stopped(Failure):
    """A signal asked for the end."""

    def __init__(self) -> None:
        super().__init__("stopped by a signal")


class Misuse(Failure):
    """The command line is wrong. complete: the text itself names the remedy."""

    def __init__(self, text: str, word: str | None = None, complete: bool = False):
        super().__init__(text if word is None else f"{text}: {printable(word)}", USAGE)
        self.remedy = "" if complete else (
            f" ({_program} --help lists commands, {_program} COMMAND --help options)")


def failed(why: OSError, where: str) -> Failure:
    """A system error as a Failure of this place."""
    remedy = "; use sudo" if isinstance(why, PermissionError) and os.geteuid() else ""
    return Failure(f"{where}: {os.strerror(why.errno) if why.errno else why}{remedy}")


@contextlib.contextmanager
def at_place(place: str) -> Iterator[None]:
    """A Failure inside gets the place in front, and a system error becomes one."""
    try:
        yield
    except Failure as why:
        why.args = (f"{place}: {why}",) if str(why) else why.args
        raise
    except OSError as why:
        raise failed(why, place) from why


# ---- messages -------------------------------------------------------------------------


def printable(text: str) -> str:
    """For a terminal: control characters, backslashes and invalid UTF-8 as \\xNN."""
    def escaped(c: str) -> str:
        # Half a surrogate pair can come from JSON.
        how = "surrogateescape" if "\udc80" <= c <= "\udcff" else "surrogatepass"
        return "".join(f"\\x{b:02x}" for b in c.encode("utf-8", how))

    return "".join(c if c.isprintable() and c != "\\" else escaped(c) for c in text)


def _discard(stream: TextIO) -> None:
    """The interpreter flushes again at exit, and would fail with status 120."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def say(text: str) -> None:
    """Writes a line to standard error; never fails."""
    try:
        sys.stderr.write(f"{_program}: {text}\n")
        sys.stderr.flush()
    except OSError:
        _discard(sys.stderr)


def warn(text: str) -> None:
    if not _quiet:
        say("warning: " + text)


@contextlib.contextmanager
def failures_to(tell: Callable[[str], object] = warn, begin: str = "") -> Iterator[None]:
    """Hands the text of a Failure inside to tell; the program goes on behind the context."""
    try:
        yield
    except Failure as why:
        tell(begin + str(why))


def output(text: str) -> None:
    """Writes text to standard output and flushes it. Failure if that is impossible."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as why:
        _discard(sys.stdout)
        raise failed(why, "standard output") from why


# ---- the start and the end of a program -----------------------------------------------


def _hold_standard_files() -> None:
    """Opens closed ones, so that no file opened later becomes standard output."""
    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(fd)
        except OSError:
            # The lowest free number, fd; reads and writes fail, as of a closed one.
            os.open(os.devnull, os.O_RDONLY if fd else os.O_WRONLY)
        setattr(sys, name, open(fd, "w" if fd else "r", encoding="utf-8", errors="surrogateescape",
                                closefd=False))


def _end_by(number: signal.Signals) -> int:
    """Tells the shell the reason, as C programs do."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    return 128 + number


def start(program: str, module: str) -> int:
    """Runs main() of a module, which returns the exit status, or None for 0; or Failure has it."""
    global _program
    _program = program
    _hold_standard_files()
    try:
        return importlib.import_module(module).main() or DONE
    except KeyboardInterrupt:
        return _end_by(signal.SIGINT)
    except Exception as why:
        if "--debug" in sys.argv:
            traceback.print_exc()
        if isinstance(why.__cause__, BrokenPipeError):
            return _end_by(signal.SIGPIPE)
        line = str(why)
        if isinstance(why, Failure):
            line += getattr(why, "remedy", "")
        elif isinstance(why, OSError):
            line = str(failed(why, printable(str(why.filename or "this machine"))))
        else:
            line = (f"an error in {program} itself: {type(why).__name__}: {printable(line)} "
                    "(--debug shows where)")
        if line:
            say(line)
        return why.status if isinstance(why, Failure) else FAILED


# ---- options --------------------------------------------------------------------------

Take = Callable[[str, str], Any]  # the option's name and its word; Misuse


def text(_name: str, word: str) -> str:
    return word


def _between(kind: str, parse: Callable[[str], int | None],
             shown: Callable[[int], str]) -> Callable[[int, int], Take]:
    def of(least: int, most: int) -> Take:
        def take(name: str, word: str) -> int:
            value = parse(word)
            if value is None or not least <= value <= most:
                raise wrong_value(name, f"a {kind} from {shown(least)} to {shown(most)}", word)
            return value
        return take
    return of


def any_of(words: Iterable[str]) -> str:
    *most, last = words
    return ", ".join(most) + " or " * bool(most) + last


def wrong_value(name: str, choices: str, word: str) -> Misuse:
    """The texts of the programs in C."""
    return Misuse(f"--{name} must be {choices}, not \"{printable(word)}\"")


def one_of(*words: str) -> Take:
    def take(name: str, word: str) -> str:
        if word not in words:
            raise wrong_value(name, any_of(words), word)
        return word
    return take


def fits(fault: Callable[[str], str], kind: str) -> Take:
    """The word must have no fault. fault: returns "", or the end of a sentence, as the functions of
    rftp_members.rule() do. kind: the word's, as "plan's name"."""
    def take(_name: str, word: str) -> str:
        if fault(word):
            raise Misuse(f"\"{printable(word)}\" is not a {kind}: it {fault(word)}")
        return word
    return take


@dataclass(frozen=True)
class Option:
    """many: it may be repeated, and its value is a list."""
    name: str
    value: str  # in --help; "": a switch
    about: str
    take: Take = text
    default: Any = None
    many: bool = False


@dataclass(frozen=True)
class Command:
    name: str
    about: str
    options: Sequence[Option]
    usage: str = ""  # its word, as "[NAME]", or words, as "[NAME...]"
    run: str = ""  # "MODULE.FUNCTION", which takes the options and returns the exit status
    take: Take = text  # of the words; their name is the usage
    root: bool = False  # for root alone


# The values by the options' names, with "_" for "-", and behind a word of Python's: from_. In words
# are all other words.
Options = SimpleNamespace


def _field(name: str) -> str:
    return name.replace("-", "_") + "_" * iskeyword(name)


JSON = Option("json", "", "one JSON object for programs")
# For all commands. -v, -q and -h may also stand before the command.
_COMMON = {"verbose": "each program that is run, and why things stay as they are",
           "quiet": "errors only", "help": "print this help, and exit"}
_FLAGS = [f for name in _COMMON for f in ("--" + name, "-" + name[0])]


def _help(command: Command) -> str:
    words = " ".join([_program, command.name, "[OPTIONS]", command.usage]).rstrip()
    lines = [f"Usage: {words}", "", command.about, "", "Options:"]
    for o in (*command.options, Option("debug", "", "where in the program an error was found")):
        lines.append(f"      --{(o.name + ' ' + o.value).rstrip():22} {o.about}")
    lines += [f"  -{name[0]}, --{name:22} {about}" for name, about in _COMMON.items()]
    return "\n".join([*lines, ""])


def _option_fault(command: Command, why: getopt.GetoptError) -> str:
    """The texts of the programs in C."""
    given = why.msg.split()[1]
    names = [*(o.name for o in command.options), *_COMMON]
    several = ["--" + name for name in names if name.startswith(why.opt)]
    if "requires argument" in why.msg:
        value = next(o.value for o in command.options if o.name == why.opt)
        return f"{given} needs a value ({value})"
    if "must not have" in why.msg:
        return f"{given} takes no value"
    if given.startswith("--") and len(several) > 1:
        return f"{given} is the beginning of several options: {', '.join(several)}"
    near = difflib.get_close_matches(why.opt, names, 1, 0.7) if given.startswith("--") else []
    end = f"did you mean --{near[0]}?" if near else f"{_program} {command.name} --help lists them"
    return f"there is no option {printable(given)} ({end})"


def parse(command: Command, given: Sequence[str]) -> Options | None:
    """None: --help was asked for, and printed. Misuse."""
    global _verbose, _quiet
    by_name = {o.name: o for o in command.options}
    into = Options(**{_field(o.name): [] if o.many else o.default if o.value else False
                      for o in command.options})
    names = [o.name + ("=" if o.value else "") for o in command.options]
    try:
        # "--debug" is no candidate for an abbreviation.
        found, into.words = getopt.gnu_getopt([w for w in given if w != "--debug"], "hqv",
                                              [*names, *_COMMON])
    except getopt.GetoptError as why:
        raise Misuse(_option_fault(command, why), complete=True) from None
    flags = {flag.lstrip("-")[0] for flag, _ in found if flag in _FLAGS}
    if "h" in flags:
        output(_help(command))
        return None
    into.verbose = _verbose = "v" in flags
    _quiet = "q" in flags
    for flag, word in found:
        if flag in _FLAGS:
            continue
        o = by_name[flag[2:]]
        value = o.take(o.name, word) if o.value else True
        if o.many:
            getattr(into, _field(o.name)).append(value)
        else:
            setattr(into, _field(o.name), value)
    if "..." not in command.usage and len(into.words) > bool(command.usage):
        raise Misuse("too many words", into.words[bool(command.usage)])
    if not into.words and command.usage[:1] not in ("", "["):
        raise Misuse(f"{command.name} needs {command.usage}")
    into.words = [command.take(command.usage, word) for word in into.words]
    return into


def misuse_if(*checks: tuple[object, str]) -> None:
    """checks: conditions, each with the text of its Misuse."""
    for wrong, says in checks:
        if wrong:
            raise Misuse(says)


def run_command(commands: Sequence[Command], package: str) -> int:
    """Runs the command that the first word names, by a module of the package."""
    flags = list(itertools.takewhile(_FLAGS.__contains__, sys.argv[1:]))
    word, *given = sys.argv[1 + len(flags):] or [""]
    if not word and {"-h", "--help"} & {*flags}:
        lines = "".join(f"  {c.name:12} {c.about}\n" for c in commands)
        output(f"Usage: {_program} COMMAND [OPTIONS]\n\nCommands:\n{lines}\n"
               f"{_program} COMMAND --help lists a command's options.\n\nOptions:\n"
               "  -h, --help     print this help, and exit\n"
               "  -V, --version  print the version, and exit\n")
        return DONE
    if word in ("-V", "--version"):
        output(output_of([program("rftp-numa"), "--version"]).replace("rftp-numa", _program))
        return DONE
    command = next((c for c in commands if c.name == word), None)
    if not command:
        raise Misuse(f"there is no command \"{printable(word)}\"") if word else Misuse("no command")
    o = parse(command, [*flags, *given])
    if not o:
        return DONE
    # Only the command's own modules, and their imports.
    module, function = command.run.split(".")
    try:
        if command.root:
            need_root(command.name)
        return int(getattr(importlib.import_module(f"{package}.{module}"), function)(o))
    except Failure as why:
        if getattr(o, "json", False) and not isinstance(why, Misuse):
            with contextlib.suppress(Failure):  # start() writes it for people
                output(json_line({"error": str(why)}))
        raise


def need_root(command: str) -> None:
    if os.geteuid():
        raise Failure(f"{command} needs root: use sudo")


# ---- signals and programs -------------------------------------------------------------

AnyStop = TypeVar("AnyStop", bound="Stop")  # typing.Self needs Python 3.11


class Stop:
    """A context in which SIGINT, SIGTERM and SIGHUP are only noted, in asked. With obey, its end
    sends the noted signal again, as the parent process expects; without, signals stay noted."""

    def __init__(self, obey: bool = True) -> None:
        self.asked = 0
        self._obey = obey
        self._before: dict[int, Any] = {}

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self.asked = number

    def __enter__(self: AnyStop) -> AnyStop:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        if not self._obey:
            return
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self.asked:
            os.kill(os.getpid(), self.asked)

    def check(self) -> None:
        """Stopped if a signal was noted."""
        if self.asked:
            raise Stopped()

    def wait_for(self, condition: Callable[[], object], seconds: float) -> bool:
        """Has it come true within so many seconds? Stopped."""
        until = time.monotonic() + seconds
        while not condition():
            self.check()
            if time.monotonic() > until:
                return False
            time.sleep(0.05)
        return True


# The packages that are not called like their programs.
PACKAGES = {
    "fio": "the package fio", "gnuplot": "the package gnuplot-nox (gnuplot on RHEL)",
    "ip": "iproute2 (iproute on RHEL)", "mkfs.xfs": "xfsprogs", "modprobe": "kmod",
    "rftp-numa": "rftp", "systemctl": "systemd", "udevadm": "udev",
    **dict.fromkeys(("mount", "umount", "wipefs"), "util-linux"),
    **dict.fromkeys(("iscsiadm", "iscsid", "iscsi-iname"),
                    "open-iscsi (iscsi-initiator-utils on RHEL)"),
    **dict.fromkeys(("lvcreate", "lvs", "pvcreate", "pvremove", "pvs", "vgchange", "vgcreate",
                     "vgremove"), "lvm2")}


@dataclass(frozen=True)
class Done:
    """How a program ended. The texts keep invalid UTF-8 as surrogate escapes."""
    status: int  # its exit status; 128 + the signal that ended it
    out: str
    err: str


def run(words: Sequence[str], stop: Stop | None = None, seconds: float | None = None,
        given: str = "", fds: Sequence[int] = (), show_errors: bool = False,
        env: dict[str, str] | None = None) -> Done:
    """Runs a program to its end, in the locale C. given: its standard input. fds: stay open for it,
    under their numbers. show_errors: its standard error is ours. Failure: it cannot be started, or
    its time is up; Stopped: a signal was noted. The program's whole session is ended then."""
    name = os.path.basename(words[0])
    if _verbose:
        say("runs " + printable(shlex.join(words)))
    try:
        child = subprocess.Popen(
            list(words), stdin=subprocess.PIPE if given else subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=None if show_errors else subprocess.PIPE, pass_fds=fds,
            env=dict(os.environ, LC_ALL="C.UTF-8", **(env or {})), start_new_session=True)
    except OSError as why:
        if isinstance(why, FileNotFoundError) and name == words[0]:
            raise Failure(f"{name} is not in PATH: install {PACKAGES.get(name, name)}") from why
        raise failed(why, words[0]) from why
    data: bytes | None = given.encode("utf-8", "surrogateescape") or None
    waited = 0.0
    with child:
        while True:
            try:
                out, err = child.communicate(data, timeout=0.05)
                break
            except subprocess.TimeoutExpired:
                data = None  # communicate keeps the rest
                waited += 0.05
            late = seconds is not None and waited >= seconds
            if late or (stop and stop.asked):
                _end(child)
                raise Failure(f"{name} has not ended after {seconds:g} seconds") if late \
                    else Stopped()
    status = child.returncode if child.returncode >= 0 else 128 - child.returncode
    return Done(status, out.decode("utf-8", "surrogateescape"),
                (err or b"").decode("utf-8", "surrogateescape"))


def _end(child: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
            os.killpg(child.pid, number)
            child.communicate(timeout=5)


def output_of(words: Sequence[str], seconds: float = 120, env: dict[str, str] | None = None) -> str:
    """A program's standard output. Failure, with its last line of standard error that is not
    indented, if it fails."""
    done = run(words, seconds=seconds, env=env)
    if done.status:
        lines = re.findall(r"^\S.*", done.err, re.MULTILINE)
        name = os.path.basename(words[0]) + ": "
        reason = printable(lines[-1]) if lines else f"exit status {done.status}"
        # The name is left out if it is this program's own.
        raise Failure(name * (name != _program + ": ") + reason.removeprefix(name))
    return done.out


def program(name: str) -> str:
    """The path of another program of this project: in this program's directory, or in PATH."""
    beside = os.path.join(os.path.dirname(os.path.realpath(sys.argv[0])), name)
    return beside if os.access(beside, os.X_OK) else name


# ---- locks, and faults on purpose -----------------------------------------------------


def try_lock(fd: int) -> bool:
    """Locks the file for this process, if no other has it."""
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
    with at_place(printable(path)):
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    start, told = time.monotonic(), not seconds
    try:
        while not try_lock(fd):
            holder = parse_number(os.pread(fd, 24, 0).decode("latin-1").strip(), 1, 1 << 31)
            gone = bool(begun and holder) and not os.path.exists(f"/proc/{holder}")
            said = f"{busy} (process {holder or 'unknown'}, which has {printable(path)} locked)"
            if gone:
                said = (f"a program of an {_program} that is gone (process {holder}) still runs, "
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


_passed: dict[str, int] = {}  # by rule: how often its place was reached


def kill_point(name: str) -> None:
    """A named place where a test injects a fault. For rftp-iser RFTP_FAULT_ISER lists rules such as
    "before:EIO:after=9;kept:SIGKILL" (CONTRIBUTING.md). Failure if a rule has an errno."""
    variable = "RFTP_FAULT_" + _program.partition("-")[2].upper()
    for rule in filter(None, os.environ.get(variable, "").split(";")):
        point, action, *options = rule.split(":")
        of = dict(o.split("=", 1) for o in options)
        if point != name:
            continue
        _passed[rule] = _passed.get(rule, 0) + 1
        after = int(of.get("after", 0))
        if not after < _passed[rule] <= after + int(of.get("count", 1 << 62)):
            continue
        if action.startswith("SIG"):
            os.kill(os.getpid(), signal.Signals[action])
        else:
            raise Failure("a fault on purpose: " + os.strerror(getattr(errno, action)))


# ---- JSON and files -------------------------------------------------------------------


def json_line(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False) + "\n"


def load_json(text: str, place: str) -> Any:
    """Failure, which begins with the place; also if an object has a member twice."""
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value: dict[str, Any] = {}
        for name, member in pairs:
            if name in value:
                raise ValueError(f"\"{printable(name)}\" is listed twice")
            value[name] = member
        return value

    try:
        return json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as why:
        raise Failure(f"{place}:{why.lineno}: no JSON: {why.msg}") from None
    except (ValueError, RecursionError) as why:
        raise Failure(f"{place}: no JSON: {why}") from None


def file_text(*path: str) -> str:
    """Of a small file, as of sysfs, without newlines at its end; "": it cannot be read."""
    try:
        with open(os.path.join(*path), encoding="utf-8", errors="surrogateescape") as file:
            return file.read().rstrip("\n")  # /proc/sys refuses to be asked for megabytes
    except OSError:
        return ""


def set_text(value: str, *path: str) -> None:
    """Writes a file of sysfs or the like. OSError."""
    with open(os.path.join(*path), "w", encoding="ascii") as file:
        file.write(value)


def entries(*path: str) -> list[str]:
    """Of a directory, sorted; none when it cannot be listed."""
    try:
        return sorted(os.listdir(os.path.join(*path)))
    except OSError:
        return []


def number_in(*path: str) -> int:
    """The number that a file begins with; 0: none."""
    found = re.match(r"\d+", file_text(*path))
    return int(found.group()) if found else 0


def sysfs(*path: str) -> str:
    """A path in the kernel's sysfs, or in the copy that a test names in the environment."""
    return os.path.join(os.environ.get("RFTP_SYSFS") or "/sys", *path)


def proc(*path: str) -> str:
    """The same, for /proc."""
    return os.path.join(os.environ.get("RFTP_PROC") or "/proc", *path)


def file_name(path: str) -> str:
    """In messages, for a path that read_text() takes."""
    return "standard input" if path == "-" else printable(path)


def read_text(path: str, most: int = FILE_MOST) -> str:
    """A file's text; "-" is standard input. Invalid UTF-8 is kept as surrogate escapes. Failure."""
    name = file_name(path)
    with at_place(name), sys.stdin.buffer if path == "-" else open(path, "rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise Failure(f"{name}: File too large")
    if b"\0" in data:
        raise Failure(f"{name} contains a NUL")
    return data.decode("utf-8", "surrogateescape")


def write_file(path: str, text: str, mode: int = 0o600) -> None:
    """Replaces path, a link or device, too, by a new file, synced to the disk. Or Failure."""
    directory = os.path.dirname(path) or "."
    with at_place(printable(path)), contextlib.ExitStack() as undo:
        fd, beside = tempfile.mkstemp(prefix=".rftp-", dir=directory)  # O_EXCL, O_NOFOLLOW, 0600
        undo.callback(os.unlink, beside)
        with os.fdopen(fd, "wb") as file:
            file.write(text.encode("utf-8", "surrogateescape"))
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.rename(beside, path)
        undo.pop_all()
        parent = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(parent)
        finally:
            os.close(parent)


def own_directory(path: str, name: str) -> None:
    """Makes the directory if it is missing. Failure if other users could change its contents."""
    with at_place(name):
        os.makedirs(os.path.dirname(path) or ".", 0o755, exist_ok=True)
        os.makedirs(path, 0o700, exist_ok=True)
        st = os.stat(path)
    if st.st_uid not in (0, os.geteuid()) or st.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise Failure(f"{name}: others can write it: chown root and chmod 700 it, after a look "
                      "at its contents, or name another directory")


def read_private(path: str, most: int, name: str) -> bytes:
    """The beginning of a file with a secret. name: in a Failure, as when others can read it."""
    with at_place(name):
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe does not block
        with os.fdopen(fd, "rb") as file:
            st = os.fstat(fd)
            for wrong, says in (
                    (not stat.S_ISREG(st.st_mode), "is not a file"),
                    (st.st_uid not in (0, os.geteuid()),
                     "belongs to another user; chown root it, and draw a new secret"),
                    (st.st_mode & (stat.S_IRWXG | stat.S_IRWXO),
                     "others can read it; chmod 600 it, and draw a new secret")):
                if wrong:
                    raise Failure(says)
            return file.read(most)


# ---- numbers --------------------------------------------------------------------------

UNITS = ("", "K", "M", "G", "T", "P", "E")


def parse_number(text: str, least: int, most: int) -> int | None:
    """None: not a whole number from least to most."""
    if not re.fullmatch("[0-9]{1,30}", text):
        return None
    return int(text) if least <= int(text) <= most else None


def _scaled(text: str, units: str, base: int, end: str) -> int | None:
    """A number with a unit, together below 2^64."""
    found = re.fullmatch(f"([0-9]{{1,20}})([{units}]?){end}", text, re.IGNORECASE | re.ASCII)
    value = int(found[1]) * base ** UNITS.index(found[2].upper()) if found else 1 << 64
    return value if value < 1 << 64 else None


def parse_size(text: str) -> int | None:
    """Bytes of "4096", "64K", "4GiB"; None: not a size, or more than 64 bits."""
    return _scaled(text, "KMGTP", 1024, "(?:(?<![0-9])i?B)?")


def parse_rate(text: str) -> int | None:
    """Bytes per second of "10Gbit" (powers of 1000, rounded up), or of a size, with "/s" or
    without; None: neither."""
    text = text.removesuffix("/s")
    if not text.lower().endswith("bit"):
        return parse_size(text)
    bits = _scaled(text, "KMGT", 1000, "bit")
    return None if bits is None else (bits + 7) // 8


def format_size(size: float) -> str:
    """Three digits, "4.0 MiB"."""
    power = 0
    while size >= 1023.5 and power < len(UNITS) - 1:
        size /= 1024
        power += 1
    return f"{size:.{int(power > 0 and size < 99.95)}f} {UNITS[power] + 'i' if power else ''}B"


def format_rate(rate: float) -> str:
    return format_size(rate if 0 <= rate < float("inf") else 0) + "/s"


def parse_ids(text: str, most: int = 8191) -> set[int] | None:
    """Numbers of nodes or CPUs as the kernel writes them, "0,2-3"; None: not such a list."""
    ids: set[int] = set()
    for part in text.strip().split(",") if text.strip() else ():
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


count = _between("number", lambda word: parse_number(word, 0, 1 << 64), str)
size = _between("size", parse_size, format_size)
rate = _between("rate", parse_rate, format_rate)
