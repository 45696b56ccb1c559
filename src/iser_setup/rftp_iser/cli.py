# SPDX-License-Identifier: Apache-2.0
"""The command line. One table of commands and options gives the parser and --help. Of the package
only the plan's rules are read before it is known which command runs."""
from __future__ import annotations

from functools import partial

from rftp_common import JSON, Command, Option, count, fits, one_of, run_command, size

from . import plan

# ---- tables ---------------------------------------------------------------------------

_plan_name = fits(plan.plan_fault, "plan's name")
_list = partial(Option, many=True)
_STATE = Option("state", "DIR", "the directory of applied plans and of login.json")
_CHANGE = [
    Option("dry-run", "", "show the steps, and change nothing"),
    Option("lock-wait", "SECONDS", "how long to wait for another apply or remove (5)",
           count(0, 86400), 5), _STATE, JSON]
_SESSIONS = [
    Option("lock-wait", "SECONDS", "how long to wait for another login or logout (0)",
           count(0, 86400), 0), _STATE, JSON]

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
    Option("secrets", "DIR", f"generated secrets go there ({plan.SECRETS})"),
    Option("mounts", "DIR", f"tmpfs are mounted below it ({plan.MOUNTS})"),
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
    _list("target", "IQN", "this target alone; may be there several times",
          fits(plan.iqn_fault, "target's iSCSI name")),
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
            _PLAN, "[SPEC]", "planner.run"),
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
        *_CHANGE], "[NAME]", "apply.run", _plan_name, root=True),
    Command("login", "Log this host in to iSER targets, and wait for their disks.",
            _LOGIN, "[ADDRESS[:PORT]...]", "initiator.run_login", root=True),
    Command("logout", "Log this host out of targets that login has logged it in to.", [
        Option("plan", "FILE", "out of the targets of this plan"),
        _list("target", "IQN", "out of this one; may be there several times"),
        Option("all", "", "out of all that login has logged in to"),
        *_SESSIONS], "[ADDRESS[:PORT]...]", "initiator.run_logout", root=True),
]


def main() -> int:
    return run_command(COMMANDS, "rftp_iser")
