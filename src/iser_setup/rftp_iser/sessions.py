# SPDX-License-Identifier: Apache-2.0
"""This host as an initiator, as sysfs and /proc show it: its iSCSI sessions, their disks and the
users of a disk; and the queue settings of --tune."""
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

from rftp_common import Failure, Misuse, entries, failed, file_text, parse_number, printable

from .host import Host, number, plain_address, same_address, sysfs, unescaped
from .plan import PORT

BLOCK = "class/block"

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
        raise Misuse(f"{printable(word)} is no ADDRESS, ADDRESS:PORT or [IPV6]:PORT")
    return Address(name, port)


def resolve(word: str) -> Address:
    """parse_address, with a numerical host."""
    a = parse_address(word)
    try:
        found = socket.getaddrinfo(a.host, None, type=socket.SOCK_STREAM)[0][4]
        return Address(socket.getnameinfo(found, socket.NI_NUMERICHOST)[0], a.port)
    except (OSError, UnicodeError) as why:
        raise Failure(f"{printable(a.host)} is no address and no host's name: {why.args[-1]}") \
            from None


def netdev_to(address: str, machine: Host) -> str:
    """The interface of this host that leads to an address, or has it; "": none."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as s:
        s.connect((address, 9))  # sends nothing, but chooses this host's address
        own = str(s.getsockname()[0])
        return next((n for n, a in machine.addresses if same_address(a, own)), "")
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


def read(state: str = "") -> list[Session]:
    """All, or those in this state, "LOGGED_IN"."""
    found, top = [], os.path.join(sysfs(), "class")
    for name in (e[7:] for e in entries(top, "iscsi_session") if re.fullmatch(r"session\d+", e)):
        path = os.path.join(top, "iscsi_session/session" + name)
        # The last one: the card may be below a SCSI host of its own.
        hosts = re.findall(r"/host(\d+)(?=/)", os.path.realpath(path + "/device"))
        if not hosts or state not in ("", file_text(path, "state")):
            continue
        at = os.path.join(top, f"iscsi_connection/connection{name}:0")
        address = Address(file_text(at, "persistent_address"), number(at, "persistent_port"))
        # By the driver's name, "iscsi_iser"; the record only has the wished one.
        driver = file_text(top, f"scsi_host/host{hosts[-1]}/proc_name").removeprefix("iscsi_")
        s = Session(int(name), int(hosts[-1]), file_text(path, "targetname"),
                    file_text(path, "ifacename"), driver, address)
        for at in glob.glob(glob.escape(path) + "/device/target*/*:*:*:*"):
            # Behind the head of the page "unit serial number" (SPC-4, section 7.8).
            serial = file_text(at, "vpd_pg80")[4:].partition("\0")[0].rstrip(" ")
            is_disk, lun = file_text(at, "type") == "0", int(at.rpartition(":")[2])
            s.luns += is_disk
            s.disks += [Disk(disk, lun, number(at, "block", disk, "size") * 512, serial, s)
                        for disk in entries(at, "block") if is_disk]
        s.disks.sort(key=lambda d: d.lun)
        found.append(s)
    return found


def find(among: Sequence[Session], iqn: str) -> Session | None:
    """The first with the target, however it was made."""
    return next((s for s in among if s.iqn == iqn), None)


def write(value: str, *path: str) -> str:
    """Into a file of sysfs; the error, or ""."""
    try:
        with open(os.path.join(sysfs(), *path), "w", encoding="ascii") as file:
            file.write(value)
    except OSError as why:
        return os.strerror(why.errno or 0)
    return ""


def disk_path(name: str) -> str:
    """One that stays after a restart, if udev has made such a name."""
    for names in ("by-id/wwn-*", "by-id/scsi-*", "by-path/*"):
        for path in sorted(glob.glob("/dev/disk/" + names)):
            if kernel_name(path) == name:
                return path
    return "/dev/" + name


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
        at = os.path.join(sysfs(), BLOCK, one)
        device, above = file_text(at, "dev") or "none", entries(at, "holders")
        above += [e for e in entries(at) if os.path.exists(os.path.join(at, e, "partition"))]
        # The kernel does not count a loop device among the holders of the device below it.
        for loop in entries(sysfs(), BLOCK):
            file = file_text(sysfs(), BLOCK, loop, "loop/backing_file")
            if file and (file == "/dev/" + one or _device_number(file) == device):
                above.append(loop)
        found += [e for e in dict.fromkeys(above) if e not in found]
    return found


def mounted(mountinfo: str, device: str) -> str:
    """Where; device: its number, "8:0". "": it is not mounted."""
    found = re.search(rf"^\d+ \d+ {device} \S+ (\S+)", mountinfo, re.MULTILINE)
    return unescaped(found[1]) if found else ""


LIBC = ctypes.CDLL(None)


def _program(device: str) -> str:
    """The first that has it open, "fio (pid 123)"; "": none has. Without asking a file server,
    which may never answer (statx(2): AT_STATX_DONT_SYNC, AT_NO_AUTOMOUNT)."""
    st = ctypes.create_string_buffer(256)
    for pid in (e for e in entries("/proc") if e.isdigit()):
        for fd in entries("/proc", pid, "fd"):
            if LIBC.statx(-100, f"/proc/{pid}/fd/{fd}".encode(), 0x4800, 1, st):
                continue
            major, minor = struct.unpack_from("=II", st, 128)
            if stat.S_ISBLK(struct.unpack_from("=H", st, 28)[0]) and f"{major}:{minor}" == device:
                return f"{printable(file_text('/proc', pid, 'comm')) or 'a program'} (pid {pid})"
    return ""


def check_unused(names: Sequence[str]) -> None:
    """Failure when one of the devices of a stack has a user, with its name and the remedy."""
    mounts, swaps = file_text("/proc/self/mountinfo"), file_text("/proc/swaps")
    for name in names:
        path, device = "/dev/" + name, file_text(sysfs(), BLOCK, name, "dev")
        if not device:
            continue
        where, user = mounted(mounts, device), _program(device)
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
            # Those say that it is dead.
            if why.errno not in (errno.ENXIO, errno.ENODEV, errno.EIO, errno.ENOMEDIUM):
                raise failed(why, f"{path} is held by the kernel, as by a mount in another "
                             "namespace or by a target: release it first") from why


# ---- queue settings -------------------------------------------------------------------

QUEUE_DEPTH, CMDS_MAX, READ_AHEAD_KB = 64, 128, 4096  # the reasons are in rftp-iser(8)


def _setting(device: str, file: str) -> str:
    now = file_text(sysfs(), BLOCK, device, file)
    chosen = re.search(r"\[(.*?)\]", now)  # "mq-deadline [none]"
    return chosen[1] if chosen else now


def tune(disks: Sequence[Disk], stripe: str) -> list[dict[str, str]]:
    """stripe: "md127"; "": none. The settings, as login's JSON has them, with any failures."""
    wanted: list[tuple[str, str, int | str]] = []
    for d in disks:
        most = number(sysfs(), f"class/scsi_host/host{d.session.host}/can_queue") or QUEUE_DEPTH
        # The scheduler before nr_requests: another one has another number of requests.
        wanted += [(d.name, "device/queue_depth", min(most, QUEUE_DEPTH)),
                   (d.name, "queue/scheduler", "none"), (d.name, "queue/nr_requests", most),
                   (d.name, "queue/read_ahead_kb", READ_AHEAD_KB), (d.name, "queue/rq_affinity", 2)]
    if stripe:  # files are read by the stripe's readahead, not by its disks'
        wanted.append((stripe, "queue/read_ahead_kb", READ_AHEAD_KB * len(disks)))
    told = []
    for device, file, want in wanted:
        before = _setting(device, file)
        error = "" if before == str(want) else write(str(want), BLOCK, device, file)
        one = {"device": device, "setting": os.path.basename(file), "before": before,
               "after": _setting(device, file), "wanted": str(want)}
        told.append(dict(one, error=error) if error else one)
    return told
