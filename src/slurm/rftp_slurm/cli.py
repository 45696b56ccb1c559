# SPDX-License-Identifier: Apache-2.0
"""The command line."""
from __future__ import annotations

import sys
from collections.abc import Sequence

from rftp_common import JSON, Command, Option, count, run_command

# Handed on to sbatch.
SBATCH = [
    Option("partition", "NAME", "partition of the cluster"),
    Option("account", "NAME", "account to charge"),
    Option("qos", "NAME", "quality of service"),
    Option("reservation", "NAME", "reservation to use"),
    Option("constraint", "TEXT", "features that the hosts need"),
    Option("cpus-per-task", "N", "CPUs of each transfer, with --shared"),
    Option("time", "TIME", "time limit of a job; the copy continues in another one"),
]
_DIR = Option("dir", "DIR", "the directory of all states (~/.local/state/rftp/slurm)")
_WAIT = Option("wait", "", "wait for the end, and print the report; otherwise the id is printed")
_INCOMPLETE = Option("incomplete", "", "although items fail: the last job copies the missing ones")
_SUBMIT = [
    Option("nodes", "N", "hosts to use", count(1, 1000)),
    Option("tasks-per-node", "M", "transfers on each host (1)", count(1, 100), 1),
    *SBATCH,
    Option("shared", "", "other jobs may run on the same hosts"),
    _WAIT, _DIR, JSON]

COMMANDS = [
    Command("put", "Copy from this cluster to servers. Other options are those of rftp put.",
            _SUBMIT, "[RFTP-OPTION...] SOURCE URL", "submit.run_put"),
    Command("get", "Copy from servers to this cluster. Other options are those of rftp get.",
            _SUBMIT, "[RFTP-OPTION...] URL DESTINATION", "submit.run_get"),
    Command("sync", "Copy the differences of two trees. Other options are those of rftp sync.",
            _SUBMIT, "[RFTP-OPTION...] SOURCE DESTINATION", "submit.run_sync"),
    Command("status", "Show a copy, or all of them.", [_DIR, JSON], "[ID]", "submit.run_status"),
    Command("wait", "Wait for the end of a copy, and print its report.", [_DIR, JSON], "ID",
            "submit.run_wait"),
    Command("cancel", "Stop the jobs of a copy; retry continues it.", [_DIR, JSON], "ID",
            "submit.run_cancel"),
    Command("retry", "Submit the lists that are not done, and the end, once more.",
            [_INCOMPLETE, _WAIT, _DIR, JSON], "ID", "submit.run_retry"),
]


def divide(given: Sequence[str]) -> tuple[list[str], list[str]]:
    """The options of this program, and all other words, which are for rftp."""
    values = {"--" + o.name: bool(o.value) for o in _SUBMIT}
    values |= dict.fromkeys(("-h", "--help", "-v", "--verbose", "-q", "--quiet", "--debug"), False)
    ours: list[str] = []
    theirs: list[str] = []
    words = iter(given)
    for word in words:
        name = word.split("=", 1)[0]
        into = ours if name in values else theirs
        into.append(word)
        if values.get(name) and "=" not in word:
            into += [w for w in [next(words, None)] if w is not None]
    return ours, theirs


def main() -> int:
    if sys.argv[1:2] == ["job"]:  # in job.sh, not for users
        from . import task
        return task.main(sys.argv[2:])
    at = next((i for i, word in enumerate(sys.argv) if i and not word.startswith("-")), 0)
    if at and sys.argv[at] in ("put", "get", "sync"):
        ours, theirs = divide(sys.argv[at + 1:])
        sys.argv[at + 1:] = [*ours, "--", *theirs]
    return run_command(COMMANDS, "rftp_slurm")
