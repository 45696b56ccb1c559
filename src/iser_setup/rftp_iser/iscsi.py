# SPDX-License-Identifier: Apache-2.0
"""open-iscsi on this host: its programs, daemon and records. Secrets are never among a program's
arguments, nor in its environment."""
from __future__ import annotations

import contextlib
import os
import re
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from rftp_common import Failure, Stop, failed, printable, read_text, run, say, write_file

from .host import text
from .plan import Initiator, Store
from .sessions import Address, Disk, Session, entries, read

IFACES = {"iser": "iser", "tcp": "default"}  # open-iscsi's, by the transport
MODULES = {"iser": ("ib_iser", "iSER"), "tcp": ("iscsi_tcp", "iSCSI over TCP")}
NAME_FILE = "/etc/iscsi/initiatorname.iscsi"
SETTLE_SECONDS = 10

# ---- programs -------------------------------------------------------------------------

PACKAGES = {"open-iscsi (iscsi-initiator-utils on RHEL)": ("iscsiadm", "iscsid", "iscsi-iname"),
            "kmod": ("modprobe",), "mdadm": ("mdadm",), "xfsprogs": ("mkfs.xfs",),
            "util-linux": ("wipefs",), "lvm2": ("pvs", "lvs", "pvcreate", "pvremove", "vgcreate",
                                                "vgremove", "vgchange", "lvcreate")}
# The others keep login.lock when this process is killed: another login has to wait for them. A
# daemon would keep it for good, and LVM would write its reports into it.
NOT_HOLDING = ("iscsid", "systemctl", "pvs", "lvs")
# iscsiadm's search for systemd, and lines that only repeat that it failed
NOISE = re.compile(
    "System has not been booted with systemd|Failed to connect to bus|Maybe you are not root|"
    "can not connect to iSCSI daemon|Could not log into all portals|Could not execute operation on "
    r"all|Could not (login to|logout of) \[|Logging in to \[|--help' for more information")


class Ended(Failure):
    """A program has failed; code: its exit status."""

    def __init__(self, text: str, code: int):
        super().__init__(text)
        self.code = code


def reason(said: str) -> str:
    """The line of a program's output that tells why it failed: the last one that is no noise."""
    lines = [line.strip() for line in said.partition("\nUsage:")[0].splitlines() if line.strip()]
    telling = [line for line in lines if not NOISE.search(line)]
    return printable((telling[-1:] or lines[:1] or [""])[0][:300])


@dataclass
class Programs:
    """Runs programs. stop: a signal ends them; None: none does, for cleaning up. lock: the
    descriptor of login.lock that they inherit; -1: none."""
    stop: Stop | None
    lock: int = -1

    def unstoppable(self) -> Programs:
        return Programs(None, self.lock)

    def check(self) -> None:
        """Failure if a signal has come."""
        if self.stop:
            self.stop.check()

    def wait_for(self, condition: Callable[[], object], seconds: float) -> bool:
        """Has it come true within so many seconds?"""
        until = time.monotonic() + seconds
        while not condition():
            self.check()
            if time.monotonic() > until:
                return False
            time.sleep(0.05)
        return True

    def run(self, *words: str, about: str = "", fine: Sequence[int] = ()) -> str:
        """Standard output. Ended, which begins with about; or another Failure if it cannot be run
        or is stopped. fine: exit statuses that are no failure."""
        self.check()
        name, fds, env = words[0], [], {}
        if self.lock >= 0 and name not in NOT_HOLDING:
            fds, env = [self.lock], {"LVM_REPORT_FD": str(self.lock)}  # lvm(8): else LVM closes it
        try:
            done = run(words, self.stop, fds=fds, env=env)
        except Failure as why:
            if not isinstance(why.__cause__, FileNotFoundError):
                raise
            package = next((p for p, names in PACKAGES.items() if name in names), "")
            remedy = f": install {package}" if package else ""
            raise Failure(f"{name} is not in PATH{remedy}") from None
        if done.status and done.status not in fine:
            said = reason(done.err or done.out).removeprefix(name + ": ") or \
                f"it ended with status {done.status} and said nothing"
            raise Ended(f"{about}{': ' if about else ''}{name}: {said}", done.status)
        return done.out

    def tried(self, *words: str) -> bool:
        """Has it succeeded?"""
        try:
            self.run(*words)
        except Failure:
            return False
        return True

    def settle(self, seconds: int = SETTLE_SECONDS) -> None:
        """udev opens new devices, and would be taken for their user."""
        if os.path.exists("/run/udev/control"):
            self.tried("udevadm", "settle", f"--timeout={seconds}")


# ---- records --------------------------------------------------------------------------

END = "# END RECORD"
LOCK_DIR = "/run/lock/iscsi"
Settings = dict[str, "str | None"]  # of a record; None: it is to say nothing of it


@dataclass
class Node:
    """open-iscsi's word for a target at one of its portals, by a transport."""
    iqn: str
    address: Address
    tag: int  # of the portal group
    transport: str
    record: bool = True  # its record is login's own
    stores: dict[int, Store] | None = field(default=None, compare=False)  # a plan's, by LUN
    initiator: Initiator = field(default_factory=Initiator, compare=False)  # this host, with CHAP
    new: bool = field(default=False, compare=False)  # this run has logged in to it

    def __str__(self) -> str:
        return f"{printable(self.iqn)} at {self.address}"

    def wants(self, disk: Disk) -> bool:
        """LUNs beside the plan may belong to others."""
        return self.stores is None or disk.lun in self.stores

    @property
    def iface(self) -> str:
        return IFACES[self.transport]

    @property
    def file(self) -> str:
        """Of its record. Distributions differ in the place; iscsiadm makes it with the first."""
        nodes = "/var/lib/iscsi/nodes"
        if not os.path.isdir(nodes):
            nodes = "/etc/iscsi/nodes"
        return (f"{nodes}/{self.iqn}/{self.address.host},{self.address.port},{self.tag}/"
                f"{self.iface}")

    def session(self, among: Sequence[Session]) -> Session | None:
        """The one that its record makes: others have sessions with the same target."""
        return next((s for s in among if s.iqn == self.iqn and s.iface == self.iface and
                     s.address.is_same(self.address)), None)

    def iscsiadm(self, p: Programs, *words: str, about: str = "", fine: Sequence[int] = ()) -> str:
        return p.run("iscsiadm", "-m", "node", "-T", self.iqn, "-p", str(self.address), "-I",
                     self.iface, *words, about=about, fine=fine)


def is_plain(word: str) -> bool:
    """May a word from the network or a file become one of commands, and a part of paths?"""
    return bool(re.fullmatch(r"(?![-.])[!-~]{1,223}", word)) and not set(word) & set(",/*?[\\")


def _setting(line: str) -> tuple[str, str]:
    """The name and the value of a record's line."""
    name, _, value = line.partition("=")
    return name.strip(" \t"), value.strip(" \t")


def edit_record(record: str, settings: Settings) -> str:
    """With each setting in place of the line that the text has for it."""
    lines = [line for line in record.split("\n") if _setting(line)[0] not in settings]
    ends = [i for i, line in enumerate(lines) if line.startswith(END)]
    if not ends:
        raise Failure(f"the record has no line \"{END}\"")
    lines[ends[0]:ends[0]] = [f"{k} = {v}" for k, v in settings.items() if v is not None]
    return "\n".join(lines)


def check_record(shown: str, settings: Settings) -> None:
    """Does iscsiadm show the same? It shows secrets as stars."""
    has = dict(_setting(line) for line in reversed(shown.split("\n")) if "=" in line)
    for name, value in settings.items():
        right = (None, "<empty>") if value is None else (value, "********")
        if has.get(name) not in right:
            raise Failure(f"open-iscsi did not take {name}")


@contextlib.contextmanager
def _database(p: Programs) -> Iterator[None]:
    """open-iscsi's lock, as iscsiadm takes it: a process that can make the link has it."""
    lock, held = LOCK_DIR + "/lock", LOCK_DIR + "/lock.write"

    def take() -> bool:
        try:
            os.link(lock, held)
        except FileExistsError:
            return False
        return True

    try:
        os.makedirs(LOCK_DIR, 0o700, exist_ok=True)
        os.close(os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        if not p.wait_for(take, 10):
            raise Failure("open-iscsi's database is locked: another iscsiadm is at work, or was "
                          f"killed and left {held}; remove that then")
    except OSError as why:
        raise failed(why, "open-iscsi's lock " + held) from why
    try:
        yield
    finally:
        os.unlink(held)


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
    with _database(p):
        _drop_rests(node.file)
        write_file(node.file, edit_record(read_text(node.file, 65536), settings))
    check_record(node.iscsiadm(p, "-o", "show"), settings)


# ---- sessions -------------------------------------------------------------------------

# iscsiadm(8), EXIT STATUS
EXISTS, NOTHING, TIMEOUTS = 15, 21, (4, 8, 11)
REASONS = {EXISTS: "another program has just logged in there",
           24: "CHAP failed, or it does not let this host in: compare the users, secrets and "
               "initiators' names of both sides",
           **dict.fromkeys(TIMEOUTS, "no answer"),
           **dict.fromkeys((5, 19), "refused, or CHAP failed")}
NO_RDMA = (" by RDMA: the portal does no iSER, or RDMA does not get there (--transport tcp does "
           "without)")


def discover(p: Programs, address: Address) -> str:
    """iscsiadm's lines of a SendTargets over TCP; it keeps nothing of it."""
    return p.run("iscsiadm", "-m", "discovery", "-t", "sendtargets", "-p", str(address), "-o",
                 "nonpersistent", about=f"asking {address} over TCP for its targets",
                 fine=[NOTHING])


class Pending(Failure):
    """A login was stopped, and iscsid may still do it."""


def log_in(p: Programs, node: Node) -> None:
    """After a Failure there is no session of this call, unless it is Pending."""
    free = p.unstoppable()
    try:
        node.iscsiadm(p, "--login")
    except Failure as why:
        code = why.code if isinstance(why, Ended) else 0
        # A signal has stopped iscsiadm, but not iscsid.
        if not code and not free.wait_for(lambda: node.session(read("LOGGED_IN")), 5):
            raise Pending(f"{why}; iscsid may still log in: rftp-iser logout --target "
                          f"{printable(node.iqn)} takes that back") from None
        if code == EXISTS:
            node.record = False  # it belongs to that session
        else:
            with contextlib.suppress(Failure):
                log_out(free, node)
        told = [str(node), REASONS.get(code, ""), str(why)]
        if code in TIMEOUTS and node.transport == "iser":
            told[1] += NO_RDMA
        raise Failure(": ".join(filter(None, told))) from None


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
    for module, what in (MODULES[transport], ("sd_mod", "disks")):
        if not os.path.exists("/sys/module/" + module):
            p.run("modprobe", module,
                  about=f"the kernel's module {module}, for {what}, cannot be loaded")


def _daemon_listens() -> bool:
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
            s.connect("\0ISCSIADM_ABSTRACT_NAMESPACE")  # under systemd this starts it
    except OSError:
        return False
    return True


def start_daemon(p: Programs) -> None:
    """Unless iscsid runs; it is said."""
    if _daemon_listens():
        return
    systemd = os.path.exists("/run/systemd/system")
    start = ("systemctl", "start", "iscsid.socket", "iscsid.service") if systemd else ("iscsid",)
    p.run(*start, about="open-iscsi's daemon does not run, and cannot be started")
    if not p.wait_for(_daemon_listens, 10):
        raise Failure("open-iscsi's daemon was started, but does not answer: see what iscsid -f "
                      "-d 3 says")
    alone = "" if systemd else " (there is no systemd here to look after it)"
    say(f"started open-iscsi's daemon, iscsid{alone}")


def initiator_name(p: Programs) -> str:
    """This host's; a new one if it has none, which is said."""
    if not os.path.lexists(NAME_FILE):
        name = p.run("iscsi-iname", about="this host has no initiator's name").split("\n")[0]
        write_file(NAME_FILE, f"InitiatorName={name.strip()}\n")
        say("gave this host an initiator's name, in " + NAME_FILE)
    found = re.search(r"^InitiatorName=([^ \t\r\n]{1,223})(?=\s|$)", text(NAME_FILE),
                      re.MULTILINE)
    if not found:
        raise Failure(f"{NAME_FILE} has no line InitiatorName=IQN: make one of the line that "
                      "iscsi-iname prints, and restart iscsid")
    return found[1]
