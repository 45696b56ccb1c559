# SPDX-License-Identifier: Apache-2.0
"""The command line: commands and their options, out of tables from which --help comes, too."""
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

LIST_MOST = 64  # times that an option may be repeated, or addresses

# ---- tables ---------------------------------------------------------------------------


@dataclass
class Option:
    """kind: switch, text, count (from least to most), size (bytes, likewise), list (repeated), or
    words that value lists with bars between them."""
    name: str
    kind: str
    value: str
    about: str
    least: int = 0
    most: int = 0
    default: object = None


@dataclass
class Command:
    name: str
    about: str  # in the list of commands
    usage: str  # of its words
    least: int
    most: int  # number of words
    help: str
    module: str
    function: str
    options: list[Option] = field(default_factory=list)


JSON = Option("json", "switch", "", "one JSON object for programs")
NAME_WAIT_MOST = 86400


def _state(what: str) -> Option:
    return Option("state", "text", "DIR", "where it is kept what " + what)


def _lock_wait(whom: str, seconds: int) -> Option:
    return Option("lock-wait", "count", "SECONDS", "how long to wait for another %s (%d)" % (whom, seconds),
                  0, NAME_WAIT_MOST, seconds)


COMMANDS = [
    Command("plan", "what this host is to serve: a file to read, change and apply", "[SPEC]", 0, 1,
            "What this host is to serve, by the file SPEC and by options, as a plan for rftp-iser apply.",
            "cli", "run_plan", [
                Option("tmpfs", "list", "SIZE", "a file in memory of each node that has an RDMA card"),
                Option("ramdisk", "list", "SIZE", "the kernel's own disk in memory, likewise"),
                Option("file", "list", "FILE:SIZE", "a file, served by the node that it is on"),
                Option("block", "list", "DEVICE", "a disk, served by the node that it is on"),
                Option("node", "text", "LIST", "these nodes only, as 0,1"),
                Option("policy", "text", "bind|prefer",
                       "a tmpfs has memory of its node only, or of others', too (bind)"),
                Option("write", "text", "through|back",
                       "what is written is kept at once, or when it is flushed (through)"),
                Option("portal", "list", "NODE=ADDRESS", "where a node is served, or the interface: 1=ens2f0"),
                Option("tcp", "switch", "", "plain iSCSI where there is no RDMA"),
                Option("initiator", "list", "IQN", "a host that may log in"),
                Option("open", "switch", "", "anyone may log in, and write"),
                Option("chap", "text", "generate|FILE", "initiators prove who they are by a secret"),
                Option("mutual-chap", "text", "generate|FILE", "and the targets do"),
                Option("secrets", "text", "DIR", "generated secrets go there (%s)" % spec.Spec.secrets),
                Option("mounts", "text", "DIR", "tmpfs are mounted below it (%s)" % spec.Spec.mounts),
                Option("name", "text", "NAME", "of the plan (the host's name up to its first dot)"),
                Option("domain", "text", "DOMAIN", "of the targets' names (the host's name)"),
                Option("iqn", "text", "PREFIX", "the targets' names up to the colon, as iqn.2026-01.org.example"),
                Option("out", "text", "FILE", "write the plan there (standard output)"),
                Option("force", "switch", "", "also over a file that is there"),
                Option("check", "text", "FILE", "only check this plan; - is standard input"),
                Option("addresses", "text", "FILE", "another machine's: lines of NETDEV ADDRESS"),
                Option("sysfs", "text", "DIR", "another machine's sysfs, copied there")]),
    Command("apply", "make this host serve what a plan says", "PLAN", 1, 1,
            "Make this host serve what a plan says: only what differs is changed.", "apply", "run", [
                Option("destroy-data", "switch", "", "what back stores hold may be lost"),
                Option("dry-run", "switch", "", "say what would be done, and do nothing"),
                Option("force", "switch", "", "also where initiators are logged in"),
                JSON, _lock_wait("apply or remove", 5), _state("was applied"),
                Option("verbose", "switch", "", "also why something was left as it is"),
                Option("name", "text", "NAME", "only if the plan is called so")]),
    Command("status", "what is up, and where it really is", "[NAME]", 0, 1,
            "What is up of the plans that were applied: targets, who is logged in, where things really are.",
            "status", "run", [JSON, _state("was applied")]),
    Command("verify", "is what is up what was applied?", "[NAME]", 0, 1,
            "Is what is up what was applied? A line for each thing, and how to mend it.", "verify", "run", [
                Option("io", "switch", "", "write and read a pattern, to a ramdisk made for it, through each portal"),
                JSON, _state("was applied")]),
    Command("remove", "take away what was made for a plan", "[NAME]", 0, 1,
            "Take away what was made for a plan, and nothing else.", "apply", "run_remove", [
                Option("destroy-data", "switch", "", "also the files that were made for back stores"),
                Option("dry-run", "switch", "", "say what would be done, and do nothing"),
                Option("force", "switch", "", "also while initiators are logged in"),
                JSON, _lock_wait("apply or remove", 5), _state("was applied"),
                Option("verbose", "switch", "", "also why something was left as it is"),
                Option("keep-state", "switch", "",
                       "it stays known that the plan was applied: the host is shut down")]),
    Command("login", "log this host in to targets, and have their disks", "[ADDRESS[:PORT]...]", 0, LIST_MOST,
            "Logs this host in to iSER targets, and waits for their disks.", "initiator", "run_login", [
                Option("plan", "text", "FILE",
                       "targets, portals and secrets of this host, by the storage host's plan"),
                Option("target", "list", "IQN", "this target alone; may be there several times"),
                Option("transport", "text", "iser|tcp", "what sessions go over (iser)"),
                Option("user", "text", "NAME", "CHAP: who this host is"),
                Option("secret-file", "text", "FILE", "and its secret, the file's first line"),
                Option("mutual-user", "text", "NAME", "mutual CHAP: who the target is"),
                Option("mutual-secret-file", "text", "FILE", "and its secret"),
                Option("wait", "count", "SECONDS", "for a login, and for the disks (30)", 1, 3600, 30),
                Option("tune", "switch", "", "set queues and readahead for big files (see rftp-iser(8))"),
                Option("stripe", "text", "md|lvm", "one device of all disks"),
                Option("chunk", "size", "SIZE", "of a new stripe, a power of two (512K)", 4096, 1 << 30, 512 << 10),
                Option("mkfs", "switch", "", "make XFS on the stripe, or on each disk"),
                Option("yes", "switch", "", "--stripe and --mkfs may destroy what is on the disks"),
                Option("keep", "switch", "", "leave what was done when something fails after it"),
                _lock_wait("login or logout", 0), _state("login made"), JSON]),
    Command("logout", "log it out again", "[ADDRESS[:PORT]...]", 0, LIST_MOST,
            "Logs this host out of targets that login has logged it in to.", "initiator", "run_logout", [
                Option("plan", "text", "FILE", "out of the targets of this plan"),
                Option("target", "list", "IQN", "out of this one; may be there several times"),
                Option("all", "switch", "", "out of all that login has logged in to"),
                _lock_wait("login or logout", 0), _state("login made"), JSON]),
]

# ---- parsing --------------------------------------------------------------------------


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        """In this project's words."""
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
    value = parse_size(text) if o.kind == "size" else parse_number(text, 0, 1 << 63)
    if value is None or not o.least <= value <= o.most:
        least, most = (format_size(o.least), format_size(o.most)) if o.kind == "size" else (o.least, o.most)
        raise Misuse("--%s takes %s from %s to %s, not" % (
            o.name, "a size" if o.kind == "size" else "a number", least, most), text)
    return value


def parse(command: Command, words: Sequence[str]) -> argparse.Namespace:
    """Attributes are the options' names, with "_" for "-", "words" and "debug". Misuse."""
    p = _Parser(prog=PROGRAM, add_help=False)
    p.add_argument("-h", "--help", action="store_true")
    p.add_argument("--debug", action="store_true")
    for o in command.options:
        if o.kind == "switch":
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
        value = getattr(known, o.name.replace("-", "_"))
        if o.kind in ("count", "size") and isinstance(value, str):
            setattr(known, o.name.replace("-", "_"), _value_of(o, value))
        elif o.kind == "list" and len(value) > LIST_MOST:
            raise Misuse("--%s is too often there, at most %d times" % (o.name, LIST_MOST), value[-1])
    if len(known.words) > command.most:
        raise Misuse("too many words", known.words[command.most])
    if len(known.words) < command.least:
        raise Misuse("%s wants %s" % (command.name, command.usage))
    return known


def _help(command: Command) -> str:
    lines = ["Usage: %s %s [OPTIONS] %s" % (PROGRAM, command.name, command.usage), "", command.help, "",
             "Options:"]
    for o in command.options:
        lines.append("      --%-22s %s" % ((o.name + " " + o.value).rstrip(), o.about))
    lines.append("      --%-22s %s" % ("debug", "where in the program an error was found"))
    lines.append("  -h, --%-22s %s" % ("help", "print this help, and exit"))
    return "\n".join(lines) + "\n"


def _commands() -> str:
    lines = ["Usage: %s COMMAND [OPTIONS]" % PROGRAM, "", "Commands:"]
    lines += ["  %-12s %s" % (c.name, c.about) for c in COMMANDS]
    lines += ["", "%s COMMAND --help lists a command's options." % PROGRAM, "", "Options:",
              "  -h, --help     print this help, and exit",
              "  -V, --version  print the version, and exit"]
    return "\n".join(lines) + "\n"


# ---- plan -----------------------------------------------------------------------------


def _host(o: argparse.Namespace, paths: Sequence[str]) -> topology.Host:
    return topology.read(socket.gethostname(), time.strftime("%Y-%m", time.gmtime()), o.sysfs, o.addresses, paths)


def _note_secrets(files: Sequence[str], notes: list[str]) -> None:
    for file in dict.fromkeys(files):
        try:
            chap.read(file)
        except Failure as why:
            notes.append(str(why))


def _check(o: argparse.Namespace) -> int:
    said = [k for k, v in vars(o).items() if v and k not in ("check", "sysfs", "addresses", "debug")]
    if said:
        raise Misuse("--check takes no other option than --sysfs and --addresses, and no word")
    p = plan.read(o.check)
    host = _host(o, [s.path for s in p.stores() if s.path and not s.forgets])
    notes = planner.doubts(p, host)
    if host.own:
        _note_secrets([c.secret_file for t in p.targets for i in t.initiators for c in (i.chap, i.mutual) if c],
                      notes)
    _tell(p, notes)
    return DONE


def _tell(p: plan.Plan, notes: list[str]) -> None:
    for s in p.stores():
        say(planner.describe(s))
    for note in notes:
        warn(note)


def _may_write(o: argparse.Namespace) -> None:
    """Before anything is made."""
    if o.out is None or not os.path.lexists(o.out):
        return
    # It would be replaced by a file, a device too.
    if os.path.islink(o.out) or not os.path.isfile(o.out):
        raise Failure("%s is there already, and is no file: without --out the plan goes to standard output"
                      % printable(o.out))
    if not o.force:
        raise Failure("%s is there already; --force writes over it" % printable(o.out))


def run_plan(o: argparse.Namespace) -> int:
    if o.check is not None:
        return _check(o)
    asked = spec.Spec()
    if o.words:
        spec.read(asked, o.words[0])
    spec.add_options(asked, o)
    p, notes = planner.make(asked, _host(o, asked.paths()))
    _may_write(o)
    ways = [(i.name, secret, mutual) for i in asked.initiators.values()
            for secret, mutual in ((i.chap_secret, False), (i.mutual_secret, True)) if secret]
    _note_secrets([secret for _, secret, _ in ways if secret != spec.GENERATE], notes)
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
    except Failure:
        for file in made:
            os.unlink(file)
        raise
    for file in made:
        say("a new secret is in %s" % printable(file))
    _tell(p, notes)
    return DONE


# ---- all of it ------------------------------------------------------------------------


def _run(words: Sequence[str]) -> int:
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
        raise Misuse("no such option before a command" if words[0].startswith("-") else "no such command", words[0])
    o = parse(command, words[1:])
    if o.help:
        output(_help(command))
        return DONE
    if command.most == 1 and command.usage == "[NAME]" and o.words and names.plan(o.words[0]):
        raise Misuse("no plan's name, for it %s" % names.plan(o.words[0]), o.words[0])
    module = importlib.import_module("." + command.module, __package__)
    status: int = getattr(module, command.function)(o)
    return status


def _hold_standard_files() -> None:
    """A file that is opened later must not become standard output."""
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    sys.stdin = sys.stdin or open(os.devnull, encoding="utf-8")
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="surrogateescape")


def main() -> int:
    """The exit status: 0; 1: failed, with a line on standard error; 2: misused, likewise."""
    _hold_standard_files()
    debug = "--debug" in sys.argv
    try:
        return _run(sys.argv[1:])
    except Misuse as why:
        say("%s (%s --help lists commands, %s COMMAND --help options)" % (why, PROGRAM, PROGRAM))
        return why.status
    except Failure as why:
        if debug:
            traceback.print_exc()
        say(str(why))
        return why.status
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
        return 130
    except Exception as why:  # an error of this program
        if debug:
            traceback.print_exc()
        say("an error in %s itself: %s: %s (--debug shows where)" % (PROGRAM, type(why).__name__, printable(str(why))))
        return 1
