# SPDX-License-Identifier: Apache-2.0
"""open-iscsi on this host: its programs, daemon and records. Secrets are never among a program's
arguments, nor in its environment."""
from __future__ import annotations

import contextlib
import os
import re
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rftp_common import (Failure, Stop, entries, failed, file_text, printable, read_text, run, say,
                         write_file)
from rftp_members import between, member, needed, rule, word

from .plan import Initiator, Store
from .sessions import Address, Session, read

IFACES = {"iser": "iser", "tcp": "default"}  # open-iscsi's, by the transport
NAME_FILE = "/etc/iscsi/initiatorname.iscsi"

# ---- programs -------------------------------------------------------------------------

# The others keep login.lock when this process is killed: another login has to wait for them. A
# daemon would keep it for good, and LVM would write its reports into it.
NOT_HOLDING = ("iscsid", "systemctl", "pvs", "lvs")
# iscsiadm's search for systemd, and lines that only repeat that it failed
NOISE = re.compile("System has not been booted with systemd|Failed to connect to bus|"
                   "Maybe you are not root|can not connect to iSCSI daemon|Could not (log|execute)|"
                   "Logging in to|--help' for more information")


class Ended(Failure):
    """A program has failed; code: its exit status."""

    def __init__(self, text: str, code: int):
        super().__init__(text)
        self.code = code


def reason(said: str) -> str:
    """The line of a program's output that tells why it failed: the last one that is no noise."""
    lines = [line.strip() for line in said.partition("\nUsage:")[0].splitlines() if line.strip()]
    telling = [line for line in lines if not NOISE.search(line)] or lines[:1] or [""]
    return printable(telling[-1][:300])


# By their programs; all others are LVM's.
PACKAGES = {"mdadm": "mdadm", "mkfs.xfs": "xfsprogs", "modprobe": "kmod", "udevadm": "udev",
            "systemctl": "systemd", "wipefs": "util-linux",
            **dict.fromkeys(("iscsiadm", "iscsid", "iscsi-iname"),
                            "open-iscsi (iscsi-initiator-utils on RHEL)")}


@dataclass
class Programs:
    stop: Stop  # a signal that it has noted ends them
    lock: int = -1  # the descriptor of login.lock that they inherit; -1: none

    def unstoppable(self) -> Programs:
        """For cleaning up."""
        return Programs(Stop(), self.lock)

    def wait_for(self, condition: Callable[[], object], seconds: float) -> bool:
        """Has it come true within so many seconds?"""
        until = time.monotonic() + seconds
        while not condition():
            self.stop.check()
            if time.monotonic() > until:
                return False
            time.sleep(0.05)
        return True

    def run(self, *words: str, about: str = "", fine: Sequence[int] = ()) -> str:
        """Standard output. Ended, which begins with about; or another Failure if the program cannot
        be run or is stopped. fine: exit statuses that are no failure."""
        self.stop.check()
        name, fds, env = words[0], [], {}
        if self.lock >= 0 and name not in NOT_HOLDING:
            fds, env = [self.lock], {"LVM_REPORT_FD": str(self.lock)}  # lvm(8): else LVM closes it
        try:
            done = run(words, self.stop, fds=fds, env=env)
        except Failure as why:
            if not isinstance(why.__cause__, FileNotFoundError):
                raise
            package = PACKAGES.get(name, "lvm2")
            raise Failure(f"{name} is not in PATH: install {package}") from None
        if done.status and done.status not in fine:
            said = reason(done.err or done.out).removeprefix(name + ": ")
            told = [about, name, said or f"it ended with status {done.status} and said nothing"]
            raise Ended(": ".join(filter(None, told)), done.status)
        return done.out

    def tried(self, *words: str) -> bool:
        """Has it succeeded?"""
        try:
            self.run(*words)
        except Failure:
            return False
        return True

    def settle(self, seconds: int = 10) -> None:
        """udev opens new devices, and would be taken for their user."""
        if os.path.exists("/run/udev/control"):
            self.tried("udevadm", "settle", f"--timeout={seconds}")


# ---- records and sessions -------------------------------------------------------------

END = "# END RECORD"
LOCK, LOCK_HELD = "/run/lock/iscsi/lock", "/run/lock/iscsi/lock.write"
Settings = dict[str, "str | None"]  # of a record; None: it is to say nothing of it
# Of a word from the network or a file that becomes one of commands, and a part of paths.
plain = rule((r"(?![-.])[!-~]{1,223}", "is no plain word"),
             (r"[^,/*?[\\]*", "has one of ,/*?[ and backslash in it"))


@dataclass
class Node:
    """open-iscsi's word for a target at one of its portals, by a transport."""
    iqn: str = needed(rule=plain, key="target")
    host: str = needed(rule=plain, key="address")
    port: int = member(0, rule=between(1, 65535), needed=True)
    tag: int = member(0, rule=between(0, 65535), needed=True)  # of the portal group
    transport: str = needed(rule=word(*IFACES))
    record: bool = member(True, needed=True)  # its record is login's own
    stores: dict[int, Store] = field(default_factory=dict, compare=False)  # a plan's, by LUN
    initiator: Initiator = field(default_factory=Initiator, compare=False)  # this host, with CHAP
    new: bool = field(default=False, compare=False)  # this run has logged in to it

    def __str__(self) -> str:
        return f"{printable(self.iqn)} at {self.address}"

    @property
    def address(self) -> Address:
        return Address(self.host, self.port)

    @property
    def iface(self) -> str:
        return IFACES[self.transport]

    @property
    def file(self) -> str:
        """Of its record. Distributions differ in the place; iscsiadm makes it with the first."""
        nodes = "/var/lib/iscsi/nodes"
        if not os.path.isdir(nodes):
            nodes = "/etc/iscsi/nodes"
        return f"{nodes}/{self.iqn}/{self.host},{self.port},{self.tag}/{self.iface}"

    def session(self, among: Sequence[Session]) -> Session | None:
        """The one that its record makes: others have sessions with the same target."""
        return next((s for s in among if s.iqn == self.iqn and s.iface == self.iface and
                     s.address.is_same(self.address)), None)

    def iscsiadm(self, p: Programs, *words: str, about: str = "", fine: Sequence[int] = ()) -> str:
        return p.run("iscsiadm", "-m", "node", "-T", self.iqn, "-p", str(self.address), "-I",
                     self.iface, *words, about=about, fine=fine)


def edit_record(record: str, settings: Settings) -> str:
    """With each setting in place of the line that the text has for it."""
    lines = [line for line in record.split("\n") if line.partition("=")[0].strip() not in settings]
    if END not in lines:
        raise Failure(f"the record has no line \"{END}\"")
    end = lines.index(END)
    lines[end:end] = [f"{k} = {v}" for k, v in settings.items() if v is not None]
    return "\n".join(lines)


def check_record(shown: str, settings: Settings) -> None:
    """Does iscsiadm show the same? It shows secrets as stars."""
    has = dict(line.partition(" = ")[::2] for line in reversed(shown.split("\n")))
    for name, value in settings.items():
        right = (None, "<empty>") if value is None else (value, "********")
        if has.get(name) not in right:
            raise Failure(f"open-iscsi did not take {name}")


def _lock_database(p: Programs) -> None:
    """Takes open-iscsi's lock, as iscsiadm does: a process that can make the link has it."""
    def linked() -> bool:
        with contextlib.suppress(FileExistsError):
            os.link(LOCK, LOCK_HELD)
            return True
        return False

    try:
        os.makedirs(os.path.dirname(LOCK), 0o700, exist_ok=True)
        os.close(os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        if not p.wait_for(linked, 10):
            raise Failure(f"another iscsiadm is at work, or was killed: then remove {LOCK_HELD}")
    except OSError as why:
        raise failed(why, "open-iscsi's lock " + LOCK_HELD) from why


def _drop_rests(file: str) -> None:
    """A run that was killed may have left files with secrets beside a record, which iscsiadm would
    take for records. The caller has login.lock."""
    directory, name = os.path.split(file)
    for entry in entries(directory):
        if entry.startswith(".rftp-") or re.fullmatch(re.escape(name) + r"\.\w{6}", entry):
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(directory, entry))


def make_record(p: Programs, node: Node, settings: Settings) -> None:
    """A new one, in place of any that is there."""
    # Made by iscsiadm without secrets; only the file gets them, for arguments can be seen.
    p.run("iscsiadm", "-m", "node", "-T", node.iqn, "-p", f"{node.address},{node.tag}", "-I",
          node.iface, "-o", "new")
    _lock_database(p)
    try:
        _drop_rests(node.file)
        write_file(node.file, edit_record(read_text(node.file, 65536), settings))
    finally:
        os.unlink(LOCK_HELD)
    check_record(node.iscsiadm(p, "-o", "show"), settings)


# iscsiadm(8), EXIT STATUS
EXISTS, NOTHING, TIMEOUTS, REFUSED = 15, 21, (4, 8, 11), (5, 19, 24)
NO_RDMA = "by RDMA: the portal does no iSER, or RDMA does not get there (try --transport tcp)"


def discover(p: Programs, address: Address) -> str:
    """iscsiadm's lines of a SendTargets over TCP; it keeps nothing of it."""
    return p.run("iscsiadm", "-m", "discovery", "-t", "sendtargets", "-p", str(address), "-o",
                 "nonpersistent", about=f"asking {address} over TCP for its targets",
                 fine=[NOTHING])


class Pending(Failure):
    """A login was stopped, and iscsid may still do it."""


def log_in(p: Programs, node: Node) -> None:
    """After a Failure there is no session of this call, unless it is Pending."""
    free, cause = p.unstoppable(), ""
    try:
        node.iscsiadm(p, "--login")
    except Failure as why:
        code = why.code if isinstance(why, Ended) else 0
        # A signal has stopped iscsiadm, but not iscsid.
        if not code and not free.wait_for(lambda: node.session(read("LOGGED_IN")), 5):
            raise Pending(f"{why}; iscsid may still log in: rftp-iser logout --target "
                          f"{printable(node.iqn)} takes that back") from None
        if code == EXISTS:  # by another program, just now
            node.record = False  # it belongs to that session
        else:
            with contextlib.suppress(Failure):
                log_out(free, node)
        if code in REFUSED:
            cause = "CHAP failed, or the target does not let this host in: compare users, " \
                "secrets and initiators' names: "
        if code in TIMEOUTS:
            cause = f"no answer {NO_RDMA}: " if node.transport == "iser" else "no answer: "
        raise Failure(f"{node}: {cause}{why}") from None


def log_out(p: Programs, node: Node) -> None:
    """No session is no error."""
    node.iscsiadm(p, "--logout", about=f"logging out of {node}", fine=[NOTHING])


def forget(p: Programs, node: Node) -> None:
    """The record; none is no error."""
    _drop_rests(node.file)  # first, for iscsiadm removes directories that are empty then
    node.iscsiadm(p, "-o", "delete", fine=[NOTHING])


# ---- requirements of a login ----------------------------------------------------------


def load_modules(p: Programs, transport: str) -> None:
    # Without sd_mod a login succeeds, and no disk ever appears.
    for module in ("ib_iser" if transport == "iser" else "iscsi_tcp", "sd_mod"):
        if not os.path.exists("/sys/module/" + module):
            p.run("modprobe", module, about=f"the kernel's module {module} cannot be loaded")


def _daemon_listens() -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
        # Under systemd this starts it.
        return s.connect_ex("\0ISCSIADM_ABSTRACT_NAMESPACE") == 0


def start_daemon(p: Programs) -> None:
    """Unless iscsid runs; it is said."""
    if _daemon_listens():
        return
    systemd = os.path.exists("/run/systemd/system")
    start = ("systemctl", "start", "iscsid.socket", "iscsid.service") if systemd else ("iscsid",)
    p.run(*start, about="open-iscsi's daemon does not run, and cannot be started")
    if not p.wait_for(_daemon_listens, 10):
        raise Failure("open-iscsi's daemon was started, but does not answer: see iscsid -f -d 3")
    say(f"started open-iscsi's daemon, iscsid{'' if systemd else ' (without systemd)'}")


def initiator_name(p: Programs) -> str:
    """This host's; a new one if it has none, which is said."""
    if not os.path.lexists(NAME_FILE):
        write_file(NAME_FILE, f"InitiatorName={p.run('iscsi-iname').strip()}\n")
        say("gave this host an initiator's name, in " + NAME_FILE)
    found = re.search(r"^InitiatorName=(\S{1,223})(?!\S)", file_text(NAME_FILE), re.MULTILINE)
    if not found:
        raise Failure(f"{NAME_FILE} has no line InitiatorName=IQN: write one, restart iscsid")
    return found[1]
