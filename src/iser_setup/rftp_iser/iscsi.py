# SPDX-License-Identifier: Apache-2.0
"""open-iscsi on this host: its programs, daemon and records. Secrets are never among a program's
arguments, nor in its environment."""
from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .common import Failure, Stop, failed, printable, read_text, say, write_file
from .sessions import Address, Session, entries, read

IFACES = {"iser": "iser", "tcp": "default"}  # open-iscsi's, by the transport
MODULES = {"iser": ("ib_iser", "iSER"), "tcp": ("iscsi_tcp", "iSCSI over TCP")}
NAME_FILE = "/etc/iscsi/initiatorname.iscsi"
SETTLE_SECONDS = 10

# ---- programs -------------------------------------------------------------------------

# These keep login.lock when this process is killed: another login has to wait for them.
HOLDING = ("iscsiadm", "mdadm", "mkfs.xfs", "wipefs")
HOLDING_LVM = ("pvcreate", "pvremove", "vgcreate", "vgremove", "vgchange", "lvcreate")
PACKAGES = {"open-iscsi (iscsi-initiator-utils on RHEL)": ("iscsiadm", "iscsid", "iscsi-iname"),
            "kmod": ("modprobe",), "mdadm": ("mdadm",), "xfsprogs": ("mkfs.xfs",),
            "util-linux": ("wipefs",), "lvm2": ("pvs", "lvs", *HOLDING_LVM)}
# iscsiadm's search for systemd, and lines that only repeat that it failed
NOISE = ("System has not been booted with systemd", "Failed to connect to bus",
         "Could not log into all portals", "can not connect to iSCSI daemon",
         "Maybe you are not root", "Could not login to [", "Logging in to [",
         "Could not logout of [", "Could not execute operation on all",
         "--help' for more information")


class Stopped(Failure):
    """A signal has ended the program that was running."""

    def __init__(self) -> None:
        super().__init__("stopped by a signal")


class Ended(Failure):
    """A program has failed; code: its exit status."""

    def __init__(self, told: str, code: int):
        super().__init__(told)
        self.code = code


def reason(said: str) -> str:
    """The line of a program's output that tells why it failed: the last one that is no noise."""
    found = ""
    for line in said.splitlines():
        if found and line.startswith("Usage:"):
            break
        if line.strip() and not (found and any(n in line for n in NOISE)):
            found = line.strip()
    return printable(found[:300])


@dataclass
class Programs:
    """Runs programs. stop: a signal ends them; None: none does, for cleaning up. lock: the
    descriptor of login.lock that those of HOLDING inherit; -1: none."""
    stop: Stop | None
    lock: int = -1

    def unstoppable(self) -> Programs:
        return Programs(None, self.lock)

    def check(self) -> None:
        if self.stop and self.stop.asked:
            raise Stopped()

    def run(self, *words: str) -> str:
        """Standard output. Ended, Stopped, or another Failure when it could not be run."""
        self.check()
        env = dict(os.environ, LC_ALL="C.UTF-8")
        holds = self.lock >= 0 and words[0] in HOLDING + HOLDING_LVM
        if holds and words[0] in HOLDING_LVM:
            env["LVM_REPORT_FD"] = str(self.lock)  # lvm(8): else LVM closes it
        try:
            child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                     stderr=subprocess.PIPE, env=env, start_new_session=True,
                                     pass_fds=(self.lock,) if holds else ())
        except FileNotFoundError:
            package = next((p for p, names in PACKAGES.items() if words[0] in names), "")
            raise Failure("%s is not in PATH%s" % (
                words[0], ": install " + package if package else "")) from None
        except OSError as why:
            raise failed(why, words[0]) from why
        out, err = (told.decode("utf-8", "surrogateescape") for told in self._wait(child))
        if child.returncode:
            code = child.returncode if child.returncode > 0 else 128 - child.returncode
            why_not = reason(err or out).removeprefix(words[0] + ": ")
            raise Ended("%s: %s" % (words[0], why_not) if why_not else
                        "%s ended with status %d and said nothing" % (words[0], code), code)
        return out

    def _wait(self, child: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
        while True:
            try:
                return child.communicate(timeout=0.1)
            except subprocess.TimeoutExpired:
                if not (self.stop and self.stop.asked):
                    continue
            os.killpg(child.pid, signal.SIGTERM)
            try:
                child.communicate(timeout=5)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                child.communicate()
            raise Stopped()

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
            self.tried("udevadm", "settle", "--timeout=%d" % seconds)


# ---- records --------------------------------------------------------------------------

END = "# END RECORD"
LOCK_DIR = "/run/lock/iscsi"


@dataclass
class Node:
    """open-iscsi's word for a target at one of its portals, by a transport."""
    iqn: str
    address: Address
    tag: int  # of the portal group
    transport: str
    record: bool = True  # its record is login's own

    @property
    def iface(self) -> str:
        return IFACES[self.transport]

    @property
    def file(self) -> str:
        """Of its record. Distributions differ in the place; iscsiadm makes it with the first."""
        places = ["/var/lib/iscsi/nodes", "/etc/iscsi/nodes"]
        nodes = next((p for p in places if os.path.isdir(p)),
                     places[not os.path.isdir("/var/lib/iscsi")])
        return "%s/%s/%s,%d,%d/%s" % (nodes, self.iqn, self.address.host, self.address.port,
                                      self.tag, self.iface)

    def session(self, among: Sequence[Session]) -> Session | None:
        """The one that its record makes: others have sessions with the same target."""
        return next((s for s in among if s.iqn == self.iqn and s.iface == self.iface and
                     s.address.is_same(self.address)), None)

    def iscsiadm(self, p: Programs, *words: str) -> str:
        return p.run("iscsiadm", "-m", "node", "-T", self.iqn, "-p", str(self.address), "-I",
                     self.iface, *words)


Settings = dict[str, "str | None"]  # None: the record is to say nothing of it


def _name_in(line: str) -> str:
    return line.partition("=")[0].rstrip(" \t")


def edit_record(record: str, settings: Settings) -> str:
    """With each setting in place of the line that the text has for it."""
    lines = [line for line in record.split("\n") if _name_in(line) not in settings]
    ends = [i for i, line in enumerate(lines) if line.startswith(END)]
    if not ends:
        raise Failure("it has no line \"%s\"" % END)
    lines[ends[0]:ends[0]] = ["%s = %s" % s for s in settings.items() if s[1] is not None]
    return "\n".join(lines)


def check_record(shown: str, settings: Settings) -> None:
    """Does iscsiadm show the same? It shows secrets as stars."""
    has = {_name_in(line): line.partition("=")[2].strip(" \t")
           for line in reversed(shown.split("\n")) if "=" in line}
    for name, value in settings.items():
        right = (None, "<empty>") if value is None else (value, "********")
        if has.get(name) not in right:
            raise Failure("open-iscsi did not take %s" % name)


@contextlib.contextmanager
def _database() -> Iterator[None]:
    """open-iscsi's lock, as iscsiadm takes it: a process that can make the link has it."""
    lock, held = LOCK_DIR + "/lock", LOCK_DIR + "/lock.write"
    until = time.monotonic() + 10
    try:
        os.makedirs(LOCK_DIR, 0o700, exist_ok=True)
        os.close(os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        while True:
            try:
                os.link(lock, held)
                break
            except FileExistsError:
                if time.monotonic() > until:
                    raise Failure("open-iscsi's database is locked: another iscsiadm is at work, "
                                  "or was killed and left %s; remove that then" % held) from None
            time.sleep(0.02)
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
    portal = "%s,%d" % (node.address, node.tag)
    p.run("iscsiadm", "-m", "node", "-T", node.iqn, "-p", portal, "-I", node.iface, "-o", "new")
    with _database():
        _drop_rests(node.file)
        try:
            edited = edit_record(read_text(node.file, 65536), settings)
        except Failure as why:
            raise Failure("the record %s: %s" % (printable(node.file), why)) from None
        write_file(node.file, edited)
    check_record(node.iscsiadm(p, "-o", "show"), settings)


# ---- iscsiadm -------------------------------------------------------------------------

# iscsiadm(8), EXIT STATUS
EXISTS, TIMEOUTS, REFUSED, NOTHING, NO_AUTH = 15, (4, 8, 11), (5, 19), 21, 24


def discover(p: Programs, address: Address) -> str:
    """iscsiadm's lines of a SendTargets over TCP; it keeps nothing of it."""
    try:
        return p.run("iscsiadm", "-m", "discovery", "-t", "sendtargets", "-p", str(address), "-o",
                     "nonpersistent")
    except Ended as why:
        if why.code == NOTHING:
            return ""
        raise Failure("asking %s over TCP for its targets: %s" % (address, why)) from None


def explain(code: int, node: Node, chap: bool) -> str:
    """The meaning of a login's exit status."""
    if code == EXISTS:
        return ": another program has just logged in there"
    if code == NO_AUTH:
        return ": " + ("CHAP failed, or this host is not among its initiators: compare the users, "
                       "secrets and initiators' names of both sides" if chap else
                       "it does not let this host in without CHAP, or not at all")
    if code in TIMEOUTS:
        return ": no answer" + ("" if node.transport == "tcp" else " by RDMA: the portal does no "
                                "iSER, or RDMA does not get there (--transport tcp does without)")
    return (": refused" + (", or CHAP failed" if chap else "")) if code in REFUSED else ""


def log_in(p: Programs, node: Node, chap: bool) -> None:
    """Ended with code EXISTS: there is a session by now that is not of this call."""
    try:
        node.iscsiadm(p, "--login")
    except Ended as why:
        raise Ended("%s at %s%s: %s" % (printable(node.iqn), node.address,
                                        explain(why.code, node, chap), why), why.code) from None


def comes_late(node: Node) -> bool:
    """iscsiadm was stopped by a signal; iscsid was not, and may still log in."""
    until = time.monotonic() + 5
    while time.monotonic() < until:
        session = node.session(read())
        if session and session.state == "LOGGED_IN":
            return True
        time.sleep(0.1)
    return False


def log_out(p: Programs, node: Node) -> None:
    """No session is no error."""
    try:
        node.iscsiadm(p, "--logout")
    except Ended as why:
        if why.code != NOTHING:
            raise Failure("logging out of %s at %s: %s" % (
                printable(node.iqn), node.address, why)) from None


def forget(p: Programs, node: Node) -> None:
    """The record; none is no error."""
    _drop_rests(node.file)  # first, for iscsiadm removes directories that are empty then
    try:
        node.iscsiadm(p, "-o", "delete")
    except Ended as why:
        if why.code != NOTHING:
            raise


# ---- requirements of a login ----------------------------------------------------------


def load_modules(p: Programs, transport: str) -> None:
    # Without sd_mod a login succeeds, and no disk ever appears.
    for module, what in (MODULES[transport], ("sd_mod", "disks")):
        if os.path.exists("/sys/module/" + module):
            continue
        try:
            p.run("modprobe", module)
        except Ended as why:
            raise Failure("the kernel's module %s, for %s, cannot be loaded: %s" % (
                module, what, why)) from None


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
    try:
        p.run(*(("systemctl", "start", "iscsid.socket", "iscsid.service") if systemd else
                ("iscsid",)))
    except Ended as why:
        raise Failure("open-iscsi's daemon does not run, and cannot be started: %s" % why) from None
    until = time.monotonic() + 10
    while not _daemon_listens():
        p.check()
        if time.monotonic() > until:
            raise Failure("open-iscsi's daemon was started, but does not answer: see what iscsid "
                          "-f -d 3 says")
        time.sleep(0.05)
    say("started open-iscsi's daemon, iscsid" + (
        "" if systemd else " (there is no systemd here to look after it)"))


def initiator_name(p: Programs) -> str:
    """This host's; a new one if it has none, which is said."""
    if not os.path.lexists(NAME_FILE):
        try:
            name = p.run("iscsi-iname").split("\n")[0]
            write_file(NAME_FILE, "InitiatorName=%s\n" % name.strip())
        except Failure as why:
            raise Failure("this host has no initiator's name: %s" % why) from None
        say("gave this host an initiator's name, in " + NAME_FILE)
    found = re.search(r"^InitiatorName=([^ \t\r\n]{1,223})(?=\s|$)", read_text(NAME_FILE, 65536),
                      re.MULTILINE)
    if not found:
        raise Failure("%s has no line InitiatorName=IQN: make one of the line that iscsi-iname "
                      "prints, and restart iscsid" % NAME_FILE)
    return found[1]
