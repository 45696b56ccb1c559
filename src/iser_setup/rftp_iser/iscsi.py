# SPDX-License-Identifier: Apache-2.0
"""This host as an initiator, by open-iscsi: its sessions, their disks and the users of a disk, as
sysfs and /proc show them; its programs, daemon and records. Secrets are never among a program's
arguments, nor in its environment."""
from __future__ import annotations

import contextlib
import ctypes
import errno
import glob
import os
import re
import socket
import stat
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from rftp_common import (Failure, Misuse, Stop, at_place, entries, failed, file_text, number_in,
                         parse_number, printable, read_text, run, say, set_text, sysfs, write_file)
from rftp_members import between, member, needed, rule, word

from .host import Host, load_module, mounts, plain_address
from .plan import PORT, Initiator, Store

BLOCK = "class/block"
IFACES = {"iser": "iser", "tcp": "default"}  # open-iscsi's, by the transport
NAME_FILE = "/etc/iscsi/initiatorname.iscsi"

# ---- addresses ------------------------------------------------------------------------


@dataclass(frozen=True)
class Address:
    host: str  # numerical, without brackets, once it is resolved
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def is_same(self, other: Address) -> bool:
        return (self.port, plain_address(self.host)) == (other.port, plain_address(other.host))


def parse_address(word: str) -> Address:
    """HOST, HOST:PORT, IPV6 or [IPV6]:PORT. Misuse."""
    found = re.fullmatch(r"(?:\[(?P<six>[^]]+)\]|(?P<one>[^:[][^:]*))(?::(?P<port>[^:]*))?"
                         r"|(?P<bare>[^[]*:[^[]*:[^[]*)", word)
    name = (found["six"] or found["one"] or found["bare"]) if found else ""
    port = PORT if not found or found["port"] is None else parse_number(found["port"], 1, 65535)
    if not name or name[0] in " \t,/" or port is None:
        raise Misuse(f"{printable(word)} is not an ADDRESS, ADDRESS:PORT or [IPV6]:PORT")
    return Address(name, port)


def resolve(a: Address) -> Address:
    """With a numerical host. Failure."""
    try:
        found = socket.getaddrinfo(a.host, None, type=socket.SOCK_STREAM)[0][4]
        return Address(socket.getnameinfo(found, socket.NI_NUMERICHOST)[0], a.port)
    except (OSError, UnicodeError) as why:
        raise Failure(f"{printable(a.host)} is neither an address nor a host's name: "
                      f"{why.args[-1]}") \
            from None


def netdev_to(address: str, machine: Host) -> str:
    """The interface of this host that leads to an address, or has it; "": none."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as s:
        s.connect((address, 9))  # sends nothing, but chooses this host's address
        own = str(s.getsockname()[0])
        return next((n for n, a in machine.addresses if plain_address(a) == plain_address(own)), "")
    return ""


# ---- sessions and disks ---------------------------------------------------------------


@dataclass
class Session:
    id: int  # the kernel never gives it again
    host: int
    iqn: str
    iface: str  # open-iscsi's
    transport: str  # really used: "iser", "tcp"
    address: Address  # as the record has it
    luns: int = 0  # disks that the target shows
    disks: list[Disk] = field(default_factory=list)  # those that are block devices by now, by LUN


@dataclass
class Disk:
    name: str  # "sda"
    lun: int
    size: int  # bytes
    serial: str  # as the target tells it; "": it tells none
    session: Session = field(repr=False, compare=False)
    path: str = ""  # one that stays after a restart; this and the next two are login's
    netdev: str = ""  # that leads to the target; "": not known
    nodes: str = ""  # of the card, as a list; "": not known


def read_sessions(state: str = "") -> list[Session]:
    """All, or those in this state, "LOGGED_IN"."""
    found, top = [], sysfs("class")
    for name in (e[7:] for e in entries(top, "iscsi_session") if re.fullmatch(r"session\d+", e)):
        path = os.path.join(top, "iscsi_session/session" + name)
        # The last one: the card may be below a SCSI host of its own.
        hosts = re.findall(r"/host(\d+)(?=/)", os.path.realpath(path + "/device"))
        if not hosts or state not in ("", file_text(path, "state")):
            continue
        at = os.path.join(top, f"iscsi_connection/connection{name}:0")
        address = Address(file_text(at, "persistent_address"), number_in(at, "persistent_port"))
        # By the driver's name, "iscsi_iser"; the record only has the wished one.
        driver = file_text(top, f"scsi_host/host{hosts[-1]}/proc_name").removeprefix("iscsi_")
        s = Session(int(name), int(hosts[-1]), file_text(path, "targetname"),
                    file_text(path, "ifacename"), driver, address)
        for at in glob.glob(glob.escape(path) + "/device/target*/*:*:*:*"):
            # Behind the head of the page "unit serial number" (SPC-4, section 7.8).
            serial = file_text(at, "vpd_pg80")[4:].partition("\0")[0].rstrip(" ")
            is_disk, lun = file_text(at, "type") == "0", int(at.rpartition(":")[2])
            s.luns += is_disk
            s.disks += [Disk(disk, lun, number_in(at, "block", disk, "size") * 512, serial, s)
                        for disk in entries(at, "block") if is_disk]
        s.disks.sort(key=lambda d: d.lun)
        found.append(s)
    return found


def find_session(iqn: str) -> Session | None:
    """The first with the target, however it was made."""
    return next((s for s in read_sessions() if s.iqn == iqn), None)


def kernel_name(path: str) -> str:
    """"sda"; "": there is no such device."""
    return os.path.basename(os.path.realpath(path)) if os.path.exists(path) else ""


def _device_number(path: str) -> str:
    """Of a block device, "8:0"; "": the path leads to none."""
    with contextlib.suppress(OSError):
        st = os.stat(path)
        if stat.S_ISBLK(st.st_mode):
            return f"{os.major(st.st_rdev)}:{os.minor(st.st_rdev)}"
    return ""


def is_device(path: str) -> bool:
    """A block device that can be opened: devtmpfs has the name a little before that."""
    with contextlib.suppress(OSError):
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
        return _device_number(path) != ""
    return False


# ---- users of a disk ------------------------------------------------------------------


def stack(name: str) -> list[str]:
    """The device, and all that stand on it: partitions, md, device-mapper, loop devices."""
    found = [name]
    for one in found:  # grows meanwhile
        at = sysfs(BLOCK, one)
        device, above = file_text(at, "dev") or "none", entries(at, "holders")
        above += [e for e in entries(at) if os.path.exists(os.path.join(at, e, "partition"))]
        # The kernel does not count a loop device among the holders of the device below it.
        for loop in entries(sysfs(BLOCK)):
            file = file_text(sysfs(BLOCK), loop, "loop/backing_file")
            if file and (file == "/dev/" + one or _device_number(file) == device):
                above.append(loop)
        found += [e for e in dict.fromkeys(above) if e not in found]
    return found


def _program(device: str) -> str:
    """The first that has it open, "fio (pid 123)"; "": none has. No file server is asked: it may
    never answer (statx(2): AT_STATX_DONT_SYNC, AT_NO_AUTOMOUNT; its fields by their offsets)."""
    st, statx = ctypes.create_string_buffer(256), ctypes.CDLL(None).statx
    for fd in glob.iglob("/proc/[0-9]*/fd/*"):
        if statx(-100, fd.encode(), 0x4800, 1, st) == 0 and \
                stat.S_ISBLK(*struct.unpack_from("=H", st, 28)) and \
                "%d:%d" % struct.unpack_from("=II", st, 128) == device:
            pid = fd.split("/")[2]
            return f"{printable(file_text('/proc', pid, 'comm')) or 'a program'} (pid {pid})"
    return ""


def check_unused(names: Sequence[str]) -> None:
    """Failure when one of the devices of a stack has a user, with its name and the remedy."""
    mounted, swaps = {m[0]: m[1] for m in mounts()}, file_text("/proc/swaps")
    for name in names:
        path, device = "/dev/" + name, file_text(sysfs(BLOCK), name, "dev")
        if not device:
            continue
        where, user = mounted.get(device, ""), _program(device)
        for used, says in (
                (where, f"mounted on {printable(where)}: umount it"),
                (re.search(rf"^{re.escape(path)}\s", swaps, re.MULTILINE),
                 "used for swap: swapoff it"),
                (user, f"open in {user}: end it")):
            if used:
                raise Failure(f"{path} is {says} first")
        if len(stack(name)) > 1:
            continue
        try:
            os.close(os.open(path, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC))
        except OSError as why:
            # These errors are a dead disk's.
            if why.errno not in (errno.ENXIO, errno.ENODEV, errno.EIO, errno.ENOMEDIUM):
                raise failed(why, f"{path} is held by the kernel, as by a mount in another "
                             "namespace or by a target: release it first") from why


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


@dataclass
class Programs:
    stop: Stop  # a signal that it has noted ends them
    lock: int = -1  # the descriptor of login.lock that they inherit; -1: none

    def unstoppable(self) -> Programs:
        """For cleaning up."""
        return Programs(Stop(), self.lock)

    def run(self, *words: str, about: str = "", fine: Sequence[int] = ()) -> str:
        """Standard output. Ended, which begins with about; or another Failure if the program cannot
        be run or is stopped. fine: exit statuses that are no failure."""
        self.stop.check()
        name, fds, env = words[0], [], {}
        if self.lock >= 0 and name not in NOT_HOLDING:
            fds, env = [self.lock], {"LVM_REPORT_FD": str(self.lock)}  # lvm(8): else LVM closes it
        done = run(words, self.stop, fds=fds, env=env)
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
Settings = dict[str, "str | None"]  # of a record; None: the record does not have it
# Of a word from the network or a file that becomes one of commands, and a part of paths.
plain = rule((r"(?![-.])[!-~]{1,223}", "is not a plain word"),
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
        top = "/var/lib/iscsi" if os.path.isdir("/var/lib/iscsi/nodes") else "/etc/iscsi"
        return f"{top}/nodes/{self.iqn}/{self.host},{self.port},{self.tag}/{self.iface}"

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


def _take_lock() -> bool:
    """Open-iscsi's, as iscsiadm does: a process that can make the link has it."""
    os.makedirs(os.path.dirname(LOCK), 0o700, exist_ok=True)
    os.close(os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    with contextlib.suppress(FileExistsError):
        os.link(LOCK, LOCK_HELD)
        return True
    return False


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
    with at_place("open-iscsi's lock " + LOCK_HELD):
        if not p.stop.wait_for(_take_lock, 10):
            raise Failure("another iscsiadm has it; if that was killed, remove this file")
    try:
        _drop_rests(node.file)
        write_file(node.file, edit_record(read_text(node.file, 65536), settings))
    finally:
        os.unlink(LOCK_HELD)
    check_record(node.iscsiadm(p, "-o", "show"), settings)


# iscsiadm(8), EXIT STATUS
EXISTS, NOTHING, TIMEOUTS, REFUSED = 15, 21, (4, 8, 11), (5, 19, 24)
NO_RDMA = "by RDMA: the portal does no iSER, or RDMA does not get there (try --transport tcp)"


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
        if not code and not free.stop.wait_for(lambda: node.session(read_sessions("LOGGED_IN")), 5):
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


def load_modules(transport: str) -> None:
    # Without sd_mod a login succeeds, and no disk ever appears.
    for module in ("ib_iser" if transport == "iser" else "iscsi_tcp", "sd_mod"):
        load_module(module)


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
    if not p.stop.wait_for(_daemon_listens, 10):
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


# ---- queue settings -------------------------------------------------------------------

QUEUE_DEPTH, CMDS_MAX, READ_AHEAD_KB = 64, 128, 4096  # the reasons are in rftp-iser(8)


def _setting(device: str, file: str) -> str:
    now = file_text(sysfs(BLOCK), device, file)
    chosen = re.search(r"\[(.*?)\]", now)  # "mq-deadline [none]"
    return chosen[1] if chosen else now


def tune(disks: Sequence[Disk], stripe: str) -> list[dict[str, str]]:
    """stripe: "md127"; "": none. The settings, as login's JSON has them, with any failures."""
    wanted: list[tuple[str, str, int | str]] = []
    for d in disks:
        most = number_in(sysfs(), f"class/scsi_host/host{d.session.host}/can_queue") or QUEUE_DEPTH
        # The scheduler before nr_requests: another one has another number of requests.
        wanted += [(d.name, "device/queue_depth", min(most, QUEUE_DEPTH)),
                   (d.name, "queue/scheduler", "none"), (d.name, "queue/nr_requests", most),
                   (d.name, "queue/read_ahead_kb", READ_AHEAD_KB), (d.name, "queue/rq_affinity", 2)]
    if stripe:  # files are read by the stripe's readahead, not by its disks'
        wanted.append((stripe, "queue/read_ahead_kb", READ_AHEAD_KB * len(disks)))
    told = []
    for device, file, want in wanted:
        one = {"device": device, "setting": os.path.basename(file), "wanted": str(want),
               "before": _setting(device, file)}
        try:
            if one["before"] != one["wanted"]:
                set_text(one["wanted"], sysfs(BLOCK, device, file))
        except OSError as why:
            one["error"] = os.strerror(why.errno or 0)
        told.append(dict(one, after=_setting(device, file)))
    return told
