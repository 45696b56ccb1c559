# SPDX-License-Identifier: Apache-2.0
"""The command line. One table of commands and options gives the parser and --help."""
from __future__ import annotations

import argparse
import importlib
import io
import json
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field

from . import chap, names, plan, planner, spec, topology
from .common import (
    DONE,
    PROGRAM,
    Failure,
    Misuse,
    format_size,
    output,
    parse_number,
    parse_size,
    printable,
    program,
    run,
    say,
    warn,
    write_file,
)

LIST_MOST = 64  # repetitions of an option, or addresses
WAIT_MOST = 86400  # seconds

# ---- tables ---------------------------------------------------------------------------


@dataclass
class Option:
    name: str
    value: str  # in --help; "": the option takes none
    about: str
    kind: str = "text"  # or list (repeated), count, size
    least: int = 0  # of a count or size
    most: int = 0
    default: object = None


@dataclass
class Command:
    """MODULE.FUNCTION(args) returns the exit status."""
    name: str
    about: str  # in the list of commands
    usage: str  # its words, at least and at most so many
    least: int
    most: int
    help: str
    module: str
    function: str
    options: list[Option] = field(default_factory=list)


def _list(name: str, value: str, about: str) -> Option:
    return Option(name, value, about, "list")


def _switch(name: str, about: str) -> Option:
    return Option(name, "", about)


def _state(what: str) -> Option:
    return Option("state", "DIR", "where it is kept what " + what)


def _lock_wait(whom: str, seconds: int) -> Option:
    return Option("lock-wait", "SECONDS", f"how long to wait for another {whom} ({seconds})",
                  "count", 0, WAIT_MOST, seconds)


_JSON = _switch("json", "one JSON object for programs")
_DRY_RUN = _switch("dry-run", "say what would be done, and do nothing")
_VERBOSE = _switch("verbose", "also why something was left as it is")

_PLAN = [
    _list("tmpfs", "SIZE", "a file in memory of each node that has an RDMA card"),
    _list("ramdisk", "SIZE", "the kernel's own disk in memory, likewise"),
    _list("file", "FILE:SIZE", "a file, served by the node that it is on"),
    _list("block", "DEVICE", "a disk, served by the node that it is on"),
    Option("node", "LIST", "these nodes only, as 0,1"),
    Option("policy", "bind|prefer", "of a tmpfs: memory of its node only, or also others' (bind)"),
    Option("write", "through|back", "written data are kept at once, or by a flush (through)"),
    _list("portal", "NODE=ADDRESS", "where a node is served, or the interface: 1=ens2f0"),
    _switch("tcp", "plain iSCSI where there is no RDMA"),
    _list("initiator", "IQN", "a host that may log in"),
    _switch("open", "anyone may log in, and write"),
    Option("chap", "generate|FILE", "initiators prove who they are by a secret"),
    Option("mutual-chap", "generate|FILE", "and the targets do"),
    Option("secrets", "DIR", f"generated secrets go there ({spec.Spec.secrets})"),
    Option("mounts", "DIR", f"tmpfs are mounted below it ({spec.Spec.mounts})"),
    Option("name", "NAME", "of the plan (the host's name up to its first dot)"),
    Option("domain", "DOMAIN", "of the targets' names (the host's name)"),
    Option("iqn", "PREFIX", "the targets' names up to the colon, as iqn.2026-01.org.example"),
    Option("out", "FILE", "write the plan there (standard output)"),
    _switch("force", "also over a file that is there"),
    Option("check", "FILE", "only check this plan; - is standard input"),
    Option("addresses", "FILE", "another machine's: lines of NETDEV ADDRESS"),
    Option("sysfs", "DIR", "another machine's sysfs, copied there")]
_APPLY = [
    _switch("destroy-data", "what back stores hold may be lost"), _DRY_RUN,
    _switch("force", "also where initiators are logged in"), _JSON,
    _lock_wait("apply or remove", 5), _state("was applied"), _VERBOSE,
    Option("name", "NAME", "only if the plan is called so")]
_VERIFY = [
    _switch("io", "write and read a pattern, to a ramdisk made for it, through each portal"),
    _JSON, _state("was applied")]
_REMOVE = [
    _switch("destroy-data", "also the files that were made for back stores"), _DRY_RUN,
    _switch("force", "also while initiators are logged in"), _JSON,
    _lock_wait("apply or remove", 5), _state("was applied"), _VERBOSE,
    _switch("keep-state", "it stays known that the plan was applied: the host is shut down")]
_LOGIN = [
    Option("plan", "FILE", "targets, portals and secrets of this host, by the storage host's plan"),
    _list("target", "IQN", "this target alone; may be there several times"),
    Option("transport", "iser|tcp", "what sessions go over (iser)"),
    Option("user", "NAME", "CHAP: who this host is"),
    Option("secret-file", "FILE", "and its secret, the file's first line"),
    Option("mutual-user", "NAME", "mutual CHAP: who the target is"),
    Option("mutual-secret-file", "FILE", "and its secret"),
    Option("wait", "SECONDS", "for a login, and for the disks (30)", "count", 1, 3600, 30),
    _switch("tune", "set queues and readahead for big files (see rftp-iser(8))"),
    Option("stripe", "md|lvm", "one device of all disks"),
    Option("chunk", "SIZE", "of a new stripe, a power of two (512K)", "size", 4096, 64 << 20,
           512 << 10),
    _switch("mkfs", "make XFS on the stripe, or on each disk"),
    _switch("yes", "--stripe and --mkfs may destroy what is on the disks"),
    _switch("keep", "leave what was done when something fails after it"),
    _lock_wait("login or logout", 0), _state("login made"), _JSON]
_LOGOUT = [
    Option("plan", "FILE", "out of the targets of this plan"),
    _list("target", "IQN", "out of this one; may be there several times"),
    _switch("all", "out of all that login has logged in to"),
    _lock_wait("login or logout", 0), _state("login made"), _JSON]

COMMANDS = [
    Command("plan", "what this host is to serve: a file to read, change and apply", "[SPEC]", 0, 1,
            "What this host is to serve, by the file SPEC and by options, as a plan for rftp-iser "
            "apply.", "cli", "run_plan", _PLAN),
    Command("apply", "make this host serve what a plan says", "PLAN", 1, 1,
            "Make this host serve what a plan says: only what differs is changed.",
            "apply", "run", _APPLY),
    Command("status", "what is up, and where it really is", "[NAME]", 0, 1,
            "What is up of the plans that were applied: targets, who is logged in, where things "
            "really are.", "status", "run", [_JSON, _state("was applied")]),
    Command("verify", "is what is up what was applied?", "[NAME]", 0, 1,
            "Is what is up what was applied? A line for each thing, and how to mend it.",
            "verify", "run", _VERIFY),
    Command("remove", "take away what was made for a plan", "[NAME]", 0, 1,
            "Take away what was made for a plan, and nothing else.",
            "apply", "run_remove", _REMOVE),
    Command("login", "log this host in to targets, and have their disks",
            "[ADDRESS[:PORT]...]", 0, LIST_MOST,
            "Logs this host in to iSER targets, and waits for their disks.",
            "initiator", "run_login", _LOGIN),
    Command("logout", "log it out again", "[ADDRESS[:PORT]...]", 0, LIST_MOST,
            "Logs this host out of targets that login has logged it in to.",
            "initiator", "run_logout", _LOGOUT),
]

# ---- parsing --------------------------------------------------------------------------


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        """argparse's message in the wording of the other programs."""
        option, _, rest = message.partition(": ")
        option = option.replace("argument ", "", 1)
        if rest == "expected one argument":
            raise Misuse("this option takes a value", option)
        if rest.startswith("ignored explicit argument"):
            raise Misuse("this option takes no value", option)
        if message.startswith("ambiguous option"):
            raise Misuse("no such option, or several that begin so", message.split()[2])
        raise Misuse(rest or message)


def _value_of(o: Option, text: str) -> int:
    size = o.kind == "size"
    value = parse_size(text) if size else parse_number(text, 0, 1 << 63)
    if value is None or not o.least <= value <= o.most:
        least, most = (format_size(o.least), format_size(o.most)) if size else (o.least, o.most)
        raise Misuse(f"--{o.name} takes a {'size' if size else 'number'} from {least} to {most}, "
                     "not", text)
    return value


def parse(command: Command, words: Sequence[str]) -> argparse.Namespace:
    """Attributes: help, debug, words, and the options, with "_" for "-". Misuse."""
    p = _Parser(prog=PROGRAM, add_help=False)
    p.add_argument("-h", "--help", action="store_true")
    p.add_argument("--debug", action="store_true")
    for o in command.options:
        if not o.value:
            p.add_argument("--" + o.name, action="store_true")
        elif o.kind == "list":
            p.add_argument("--" + o.name, action="append", default=[])
        else:
            p.add_argument("--" + o.name, default=o.default)
    known, rest = p.parse_known_args(list(words))
    behind = rest.index("--") if "--" in rest else len(rest)
    for word in rest[:behind]:
        if word.startswith("-") and word != "-" and not known.help:
            raise Misuse("no such option, or several that begin so", word)
    known.words = rest[:behind] + rest[behind + 1:]
    if known.help:
        return known
    for o in command.options:
        attribute = o.name.replace("-", "_")
        value = getattr(known, attribute)
        if o.kind in ("count", "size") and isinstance(value, str):
            setattr(known, attribute, _value_of(o, value))
        elif o.kind == "list" and len(value) > LIST_MOST:
            raise Misuse(f"--{o.name} is too often there, at most {LIST_MOST} times", value[-1])
    if len(known.words) > command.most:
        raise Misuse("too many words", known.words[command.most])
    if len(known.words) < command.least:
        raise Misuse(f"{command.name} wants {command.usage}")
    return known


def _help(command: Command) -> str:
    lines = [f"Usage: {PROGRAM} {command.name} [OPTIONS] {command.usage}", "", command.help, "",
             "Options:"]
    for o in command.options:
        lines.append(f"      --{(o.name + ' ' + o.value).rstrip():22} {o.about}")
    lines.append(f"      --{'debug':22} where in the program an error was found")
    lines.append(f"  -h, --{'help':22} print this help, and exit")
    return "\n".join(lines) + "\n"


def _commands() -> str:
    lines = [f"Usage: {PROGRAM} COMMAND [OPTIONS]", "", "Commands:"]
    lines += [f"  {c.name:12} {c.about}" for c in COMMANDS]
    lines += ["", f"{PROGRAM} COMMAND --help lists a command's options.", "", "Options:",
              "  -h, --help     print this help, and exit",
              "  -V, --version  print the version, and exit"]
    return "\n".join(lines) + "\n"


# ---- plan -----------------------------------------------------------------------------


def _host(o: argparse.Namespace, paths: Sequence[str]) -> topology.Host:
    month = time.strftime("%Y-%m", time.gmtime())
    return topology.read(socket.gethostname(), month, o.sysfs, o.addresses, paths)


def _warn_secrets(files: Sequence[str], notes: list[str]) -> None:
    for file in dict.fromkeys(files):
        try:
            chap.read(file)
        except Failure as why:
            notes.append(str(why))


def _check(o: argparse.Namespace) -> int:
    allowed = ("check", "sysfs", "addresses", "debug")
    if any(value for key, value in vars(o).items() if key not in allowed):
        raise Misuse("--check takes no other option than --sysfs and --addresses, and no word")
    p = plan.read(o.check)
    host = _host(o, [s.path for s in p.stores() if s.path and not s.forgets])
    notes = planner.doubts(p, host)
    if host.own:
        _warn_secrets([c.secret_file for t in p.targets for i in t.initiators
                       for c in (i.chap, i.mutual) if c], notes)
    _tell(p, notes)
    return DONE


def _tell(p: plan.Plan, notes: list[str]) -> None:
    for s in p.stores():
        say(planner.describe(s))
    for note in notes:
        warn(note)


def _check_out(o: argparse.Namespace) -> None:
    """Failure if the plan may not be written to --out; called before secrets are made."""
    if o.out is None or not os.path.lexists(o.out):
        return
    # Renaming a file into place would remove a link or a device.
    if os.path.islink(o.out) or not os.path.isfile(o.out):
        raise Failure(f"{printable(o.out)} is there already, and is no file: without --out the "
                      "plan goes to standard output")
    if not o.force:
        raise Failure(f"{printable(o.out)} is there already; --force writes over it")


def run_plan(o: argparse.Namespace) -> int:
    if o.check is not None:
        return _check(o)
    asked = spec.Spec()
    if o.words:
        spec.read(asked, o.words[0])
    spec.add_options(asked, o)
    p, notes = planner.make(asked, _host(o, asked.paths()))
    _check_out(o)
    ways = [(i.name, secret, mutual) for i in asked.initiators.values()
            for secret, mutual in ((i.chap_secret, False), (i.mutual_secret, True)) if secret]
    _warn_secrets([secret for _, secret, _ in ways if secret != spec.GENERATE], notes)
    made = []
    try:
        for name, secret, mutual in ways:
            file = planner.secret_file(asked, str(p.name), name, mutual)
            if secret == spec.GENERATE and chap.make(file):
                made.append(file)
        text = json.dumps(plan.to_json(p), indent=2) + "\n"
        if o.out is None:
            output(text)
        else:
            write_file(o.out, text, 0o644)
    except (Failure, KeyboardInterrupt):
        for file in made:
            os.unlink(file)
        raise
    for file in made:
        say(f"a new secret is in {printable(file)}")
    _tell(p, notes)
    return DONE


# ---- main -----------------------------------------------------------------------------


def _dispatch(words: Sequence[str]) -> int:
    if not words:
        raise Misuse("no command")
    if words[0] in ("-h", "--help"):
        output(_commands())
        return DONE
    if words[0] in ("-V", "--version"):
        output(run([program("rftp-numa"), "--version"]).replace("rftp-numa", PROGRAM))
        return DONE
    command = next((c for c in COMMANDS if c.name == words[0]), None)
    if not command:
        raise Misuse("no such option before a command" if words[0].startswith("-") else
                     "no such command", words[0])
    o = parse(command, words[1:])
    if o.help:
        output(_help(command))
        return DONE
    if command.usage == "[NAME]" and o.words and names.plan(o.words[0]):
        raise Misuse(f"no plan's name, for it {names.plan(o.words[0])}", o.words[0])
    module = importlib.import_module("." + command.module, __package__)
    status: int = getattr(module, command.function)(o)
    return status


def _hold_standard_files() -> None:
    """Opens closed ones, so that no file opened later becomes standard output."""
    for fd, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(fd)
        except OSError:
            # The lowest free number, fd; reads and writes fail, as of a closed one.
            os.open(os.devnull, os.O_RDONLY if fd else os.O_WRONLY)
            setattr(sys, name, os.fdopen(fd, mode, encoding="utf-8"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="surrogateescape")


def _end_by(number: signal.Signals) -> int:
    """Tells the shell the reason, as C programs do."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    return 128 + number


def main() -> int:
    """The exit status: 0; or, with a line on standard error, 1: failed, 2: wrong usage."""
    _hold_standard_files()
    debug = "--debug" in sys.argv
    try:
        return _dispatch(sys.argv[1:])
    except Misuse as why:
        say(f"{why} ({PROGRAM} --help lists commands, {PROGRAM} COMMAND --help options)")
        return why.status
    except Failure as why:
        if debug:
            traceback.print_exc()
        if isinstance(why.__cause__, BrokenPipeError):
            return _end_by(signal.SIGPIPE)
        say(str(why))
        return why.status
    except KeyboardInterrupt:
        return _end_by(signal.SIGINT)
    except Exception as why:  # noqa: BLE001, an error of this program
        if debug:
            traceback.print_exc()
        say(f"an error in {PROGRAM} itself: {type(why).__name__}: {printable(str(why))} "
            "(--debug shows where)")
        return 1
