# SPDX-License-Identifier: Apache-2.0
"""The command line. One table of commands and options gives the parser and --help."""
from __future__ import annotations

import importlib
import json
import os
import socket
import sys
import time
from collections.abc import Sequence

from rftp_common import (DONE, JSON, Command, Failure, Misuse, Option, Options, count, one_of,
                         output, output_of, parse, printable, program, say, size, text, warn, write_file)

from . import chap, names, plan, planner, spec, topology

LIST_MOST = 64  # repetitions of an option, or addresses

# ---- tables ---------------------------------------------------------------------------


def _text(name: str, value: str, about: str) -> Option:
    return Option(name, value, about, text)


def _list(name: str, value: str, about: str) -> Option:
    return Option(name, value, about, text, many=LIST_MOST)


def _switch(name: str, about: str) -> Option:
    return Option(name, "", about)


def _state(about: str) -> Option:
    return _text("state", "DIR", f"where it is kept what {about}")


def _lock_wait(others: str, seconds: int) -> Option:
    return Option("lock-wait", "SECONDS", f"how long to wait for another {others} ({seconds})",
                  count(0, 86400), seconds)


_DRY_RUN = _switch("dry-run", "say what would be done, and do nothing")
_VERBOSE = _switch("verbose", "also why something was left as it is")

_PLAN = [
    _list("tmpfs", "SIZE", "a file in memory of each node that has an RDMA card"),
    _list("ramdisk", "SIZE", "the kernel's own disk in memory, likewise"),
    _list("file", "FILE:SIZE", "a file, served by the node that it is on"),
    _list("block", "DEVICE", "a disk, served by the node that it is on"),
    _text("node", "LIST", "these nodes only, as 0,1"),
    _text("policy", "bind|prefer", "of a tmpfs: memory of its node only, or also others' (bind)"),
    _text("write", "through|back", "written data are kept at once, or by a flush (through)"),
    _list("portal", "NODE=ADDRESS", "where a node is served, or the interface: 1=ens2f0"),
    _switch("tcp", "plain iSCSI where there is no RDMA"),
    _list("initiator", "IQN", "a host that may log in"),
    _switch("open", "anyone may log in, and write"),
    _text("chap", "generate|FILE", "initiators prove who they are by a secret"),
    _text("mutual-chap", "generate|FILE", "and the targets do"),
    _text("secrets", "DIR", f"generated secrets go there ({spec.Spec.secrets})"),
    _text("mounts", "DIR", f"tmpfs are mounted below it ({spec.Spec.mounts})"),
    _text("name", "NAME", "of the plan (the host's name up to its first dot)"),
    _text("domain", "DOMAIN", "of the targets' names (the host's name)"),
    _text("iqn", "PREFIX", "the targets' names up to the colon, as iqn.2026-01.org.example"),
    _text("out", "FILE", "write the plan there (standard output)"),
    _switch("force", "also over a file that is there"),
    _text("check", "FILE", "only check this plan; - is standard input"),
    _text("addresses", "FILE", "another machine's: lines of NETDEV ADDRESS"),
    _text("sysfs", "DIR", "another machine's sysfs, copied there")]
_APPLY = [
    _switch("destroy-data", "what back stores hold may be lost"), _DRY_RUN,
    _switch("force", "also where initiators are logged in"), JSON,
    _lock_wait("apply or remove", 5), _state("was applied"), _VERBOSE,
    _text("name", "NAME", "only if the plan is called so")]
_VERIFY = [
    _switch("io", "write and read a pattern, to a ramdisk made for it, through each portal"),
    JSON, _state("was applied")]
_REMOVE = [
    _switch("destroy-data", "also the files that were made for back stores"), _DRY_RUN,
    _switch("force", "also while initiators are logged in"), JSON,
    _lock_wait("apply or remove", 5), _state("was applied"), _VERBOSE,
    _switch("keep-state", "it stays known that the plan was applied: the host is shut down")]
_LOGIN = [
    _text("plan", "FILE", "targets, portals and secrets of this host, by the storage host's plan"),
    _list("target", "IQN", "this target alone; may be there several times"),
    Option("transport", "iser|tcp", "what sessions go over (iser)", one_of("iser", "tcp"), "iser"),
    _text("user", "NAME", "CHAP: who this host is"),
    _text("secret-file", "FILE", "and its secret, the file's first line"),
    _text("mutual-user", "NAME", "mutual CHAP: who the target is"),
    _text("mutual-secret-file", "FILE", "and its secret"),
    Option("wait", "SECONDS", "for a login, and for the disks (30)", count(1, 3600), 30),
    _switch("tune", "set queues and readahead for big files (see rftp-iser(8))"),
    Option("stripe", "md|lvm", "one device of all disks", one_of("md", "lvm")),
    Option("chunk", "SIZE", "of a new stripe, a power of two (512K)",
           size(4096, 64 << 20), 512 << 10),
    _switch("mkfs", "make XFS on the stripe, or on each disk"),
    _switch("yes", "--stripe and --mkfs may destroy what is on the disks"),
    _switch("keep", "leave what was done when something fails after it"),
    _lock_wait("login or logout", 0), _state("login made"), JSON]
_LOGOUT = [
    _text("plan", "FILE", "out of the targets of this plan"),
    _list("target", "IQN", "out of this one; may be there several times"),
    _switch("all", "out of all that login has logged in to"),
    _lock_wait("login or logout", 0), _state("login made"), JSON]

COMMANDS = [
    Command("plan", "what this host is to serve: a file to read, change and apply",
            "What this host is to serve, by the file SPEC and by options, as a plan for rftp-iser "
            "apply.", _PLAN, "[SPEC]", 0, 1, "cli.run_plan"),
    Command("apply", "make this host serve what a plan says",
            "Make this host serve what a plan says: only what differs is changed.",
            _APPLY, "PLAN", 1, 1, "apply.run"),
    Command("status", "what is up, and where it really is",
            "What is up of the plans that were applied: targets, who is logged in, where things "
            "really are.", [JSON, _state("was applied")], "[NAME]", 0, 1, "status.run"),
    Command("verify", "is what is up what was applied?",
            "Is what is up what was applied? A line for each thing, and how to mend it.",
            _VERIFY, "[NAME]", 0, 1, "verify.run"),
    Command("remove", "take away what was made for a plan",
            "Take away what was made for a plan, and nothing else.",
            _REMOVE, "[NAME]", 0, 1, "apply.run_remove"),
    Command("login", "log this host in to targets, and have their disks",
            "Logs this host in to iSER targets, and waits for their disks.",
            _LOGIN, "[ADDRESS[:PORT]...]", 0, LIST_MOST, "initiator.run_login"),
    Command("logout", "log it out again",
            "Logs this host out of targets that login has logged it in to.",
            _LOGOUT, "[ADDRESS[:PORT]...]", 0, LIST_MOST, "initiator.run_logout"),
]

# ---- plan -----------------------------------------------------------------------------


def _host(o: Options, paths: Sequence[str]) -> topology.Host:
    month = time.strftime("%Y-%m", time.gmtime())
    return topology.read(socket.gethostname(), month, o.sysfs, o.addresses, paths)


def _warn_secrets(files: Sequence[str], notes: list[str]) -> None:
    for file in dict.fromkeys(files):
        try:
            chap.read(file)
        except Failure as why:
            notes.append(str(why))


def _check(o: Options) -> int:
    allowed = ("check", "sysfs", "addresses")
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


def _check_out(o: Options) -> None:
    """Failure if the plan may not be written to --out; called before secrets are made."""
    if o.out is None or not os.path.lexists(o.out):
        return
    # Renaming a file into place would remove a link or a device.
    if os.path.islink(o.out) or not os.path.isfile(o.out):
        raise Failure(f"{printable(o.out)} is there already, and is no file: without --out the "
                      "plan goes to standard output")
    if not o.force:
        raise Failure(f"{printable(o.out)} is there already; --force writes over it")


def run_plan(o: Options) -> int:
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


def _commands() -> str:
    lines = ["Usage: rftp-iser COMMAND [OPTIONS]", "", "Commands:"]
    lines += [f"  {c.name:12} {c.about}" for c in COMMANDS]
    return "\n".join([*lines, "", "rftp-iser COMMAND --help lists a command's options.", "",
                      "Options:", "  -h, --help     print this help, and exit",
                      "  -V, --version  print the version, and exit", ""])


def main() -> int:
    words = sys.argv[1:]
    if not words:
        raise Misuse("no command")
    if words[0] in ("-h", "--help"):
        output(_commands())
        return DONE
    if words[0] in ("-V", "--version"):
        output(output_of([program("rftp-numa"), "--version"]).replace("rftp-numa", "rftp-iser"))
        return DONE
    command = next((c for c in COMMANDS if c.name == words[0]), None)
    if not command:
        raise Misuse("no such option before a command" if words[0].startswith("-") else
                     "no such command", words[0])
    o = parse(command, words[1:])
    if not o:
        return DONE
    if command.usage == "[NAME]" and o.words and names.plan(o.words[0]):
        raise Misuse(f"no plan's name, for it {names.plan(o.words[0])}", o.words[0])
    module, function = command.run.split(".")
    # Only the command's own modules, and what they need.
    status: int = getattr(importlib.import_module("." + module, __package__), function)(o)
    return status
