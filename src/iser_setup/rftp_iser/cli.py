# SPDX-License-Identifier: Apache-2.0
"""The command line. One table of commands and options gives the parser and --help."""
from __future__ import annotations

import json
import os
from contextlib import ExitStack
from functools import partial

from rftp_common import (DONE, JSON, Command, Failure, Misuse, Option, Options, count, one_of,
                         output, printable, run_command, say, size, warn, write_file)
from rftp_members import json_of

from . import checks, host, names, plan, planner, spec

# ---- tables ---------------------------------------------------------------------------


def _plan_name(_option: str, word: str) -> str:
    if names.plan(word):
        raise Misuse(f"no plan's name, for it {names.plan(word)}", word)
    return word


def _lock_wait(others: str, seconds: int) -> Option:
    return Option("lock-wait", "SECONDS", f"how long to wait for another {others} ({seconds})",
                  count(0, 86400), seconds)


_list = partial(Option, many=True)
_STATE = Option("state", "DIR", "the directory of applied plans and of login.json")
_CHANGE = [
    Option("dry-run", "", "show the steps, and change nothing"),
    Option("verbose", "", "also why something was left as it is"),
    _lock_wait("apply or remove", 5), _STATE, JSON]
_SESSIONS = [_lock_wait("login or logout", 0), _STATE, JSON]

_PLAN = [
    _list("tmpfs", "SIZE", "a file in memory of each node that has an RDMA card"),
    _list("ramdisk", "SIZE", "the kernel's own disk in memory, likewise"),
    _list("file", "FILE:SIZE", "a file, served by the node that it is on"),
    _list("block", "DEVICE", "a disk, served by the node that it is on"),
    Option("node", "LIST", "these nodes only, as 0,1"),
    Option("policy", "bind|prefer", "of a tmpfs: memory of its node only, or also others' (bind)"),
    Option("write", "through|back", "written data are kept at once, or by a flush (through)"),
    _list("portal", "NODE=ADDRESS", "where a node is served, or the interface: 1=ens2f0"),
    Option("tcp", "", "plain iSCSI where there is no RDMA"),
    _list("initiator", "IQN", "a host that may log in"),
    Option("open", "", "anyone may log in, and write"),
    Option("chap", "generate|FILE", "initiators prove their names by a secret"),
    Option("mutual-chap", "generate|FILE", "and targets prove theirs"),
    Option("secrets", "DIR", f"generated secrets go there ({spec.Spec.secrets})"),
    Option("mounts", "DIR", f"tmpfs are mounted below it ({spec.Spec.mounts})"),
    Option("name", "NAME", "of the plan (the host's name up to its first dot)"),
    Option("domain", "DOMAIN", "of the targets' names (the host's name)"),
    Option("iqn", "PREFIX", "the targets' names up to the colon, as iqn.2026-01.org.example"),
    Option("out", "FILE", "write the plan there (standard output)"),
    Option("force", "", "also over a file that is there"),
    Option("check", "FILE", "only check this plan; - is standard input"),
    Option("addresses", "FILE", "another machine's: lines of NETDEV ADDRESS"),
    Option("sysfs", "DIR", "another machine's sysfs, copied there")]
_LOGIN = [
    Option("plan", "FILE", "targets, portals and secrets of this host, by the storage host's plan"),
    _list("target", "IQN", "this target alone; may be there several times"),
    Option("transport", "iser|tcp", "of the sessions (iser)", one_of("iser", "tcp"), "iser"),
    Option("user", "NAME", "CHAP: the user of this host"),
    Option("secret-file", "FILE", "and its secret, the file's first line"),
    Option("mutual-user", "NAME", "mutual CHAP: the user of the target"),
    Option("mutual-secret-file", "FILE", "and its secret"),
    Option("wait", "SECONDS", "for a login, and for the disks (30)", count(1, 3600), 30),
    Option("tune", "", "set queues and readahead for big files (see rftp-iser(8))"),
    Option("stripe", "md|lvm", "one device of all disks", one_of("md", "lvm")),
    Option("chunk", "SIZE", "of a new stripe, a power of two (512K)",
           size(4096, 64 << 20), 512 << 10),
    Option("mkfs", "", "make XFS on the stripe, or on each disk"),
    Option("yes", "", "--stripe and --mkfs may destroy data on the disks"),
    Option("keep", "", "keep sessions and devices after a failure"),
    *_SESSIONS]

COMMANDS = [
    Command("plan", "Plan the targets of this host, as a file to read, change and apply.",
            _PLAN, "[SPEC]", "cli.run_plan"),
    Command("apply", "Make this host serve a plan: only differences are changed.", [
        Option("destroy-data", "", "data of back stores may be lost"),
        Option("force", "", "also where initiators are logged in"),
        Option("name", "NAME", "only if the plan is called so", _plan_name),
        *_CHANGE], "PLAN", "apply.run", root=True),
    Command("status", "Show targets, sessions, and the real place of data and threads.",
            [_STATE, JSON], "[NAME]", "status.run", _plan_name),
    Command("verify", "Compare this host with the applied plans, and name remedies.", [
        Option("io", "", "write and read a pattern, to a ramdisk made for it, by each portal"),
        _STATE, JSON], "[NAME]", "verify.run", _plan_name),
    Command("remove", "Remove the targets of a plan, and nothing else.", [
        Option("destroy-data", "", "also the files that were made for back stores"),
        Option("force", "", "also while initiators are logged in"),
        Option("keep-state", "", "it stays known that the plan was applied: for a shutdown"),
        *_CHANGE], "[NAME]", "apply.run_remove", _plan_name, root=True),
    Command("login", "Log this host in to iSER targets, and wait for their disks.",
            _LOGIN, "[ADDRESS[:PORT]...]", "initiator.run_login", root=True),
    Command("logout", "Log this host out of targets that login has logged it in to.", [
        Option("plan", "FILE", "out of the targets of this plan"),
        _list("target", "IQN", "out of this one; may be there several times"),
        Option("all", "", "out of all that login has logged in to"),
        *_SESSIONS], "[ADDRESS[:PORT]...]", "initiator.run_logout", root=True),
]

# ---- plan -----------------------------------------------------------------------------


def _checked(o: Options) -> tuple[plan.Plan, list[str]]:
    """The plan of --check, and its warnings."""
    allowed = ("check", "sysfs", "addresses")
    if any(value for key, value in vars(o).items() if key not in allowed):
        raise Misuse("--check takes no other option than --sysfs and --addresses, and no word")
    p = plan.read(o.check)
    machine = host.read_host([s.path for s in p.stores() if s.path and not s.forgets],
                             o.sysfs, o.addresses)
    notes = planner.doubts(p, machine)
    if machine.own:
        checks.secrets(p, notes)
    return p, notes


def _made(o: Options) -> tuple[plan.Plan, list[str]]:
    """The plan that is asked for, and its warnings. Writes it and its secrets, or nothing."""
    asked = spec.Spec()
    if o.words:
        spec.read(asked, o.words[0])
    spec.add_options(asked, o)
    p, notes = planner.make(asked, host.read_host(asked.paths(), o.sysfs, o.addresses))
    # Renaming a file into place would remove a link or a device.
    if o.out is not None and os.path.lexists(o.out) and not (
            o.force and os.path.isfile(o.out) and not os.path.islink(o.out)):
        raise Failure(f"{printable(o.out)} is there already; --force writes over it, if it is a "
                      "file and no link")
    secrets = [planner.secret_file(asked, p.name, i.name, mutual) for i in asked.initiators.values()
               for secret, mutual in ((i.chap_secret, False), (i.mutual_secret, True))
               if secret == spec.GENERATE]
    text = json.dumps(json_of(p), indent=2) + "\n"
    plan.parse(text, "the plan")  # checks it
    with ExitStack() as undo:
        made = []
        for file in secrets:
            if names.make_secret(file):
                undo.callback(os.unlink, file)
                made.append(file)
        if o.out is None:
            output(text)
        else:
            write_file(o.out, text, 0o644)
        undo.pop_all()
    for file in made:
        say(f"a new secret is in {printable(file)}")
    checks.secrets(p, notes)
    return p, notes


def run_plan(o: Options) -> int:
    p, notes = _made(o) if o.check is None else _checked(o)
    for s in p.stores():
        say(planner.describe(s))
    for note in dict.fromkeys(notes):
        warn(note)
    return DONE


def main() -> int:
    return run_command(COMMANDS, "rftp_iser")
