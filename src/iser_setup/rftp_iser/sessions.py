# SPDX-License-Identifier: Apache-2.0
"""The iSCSI sessions that this host has as an initiator, their disks, the users of a disk, and the
queue settings of --tune, all as sysfs and /proc tell."""
from __future__ import annotations

import ctypes
import errno
import os
import re
import socket
import stat
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from .common import Failure, failed, parse_number, printable, read_text
from .host import number, plain_address, sysfs, text
from .plan import PORT

BLOCK = "class/block"

# ---- addresses ------------------------------------------------------------------------


@dataclass(frozen=True)
class Address:
    host: str  # numerical, without brackets, once it is resolved
    port: int

    def __str__(self) -> str:
        return ("[%s]:%d" if ":" in self.host else "%s:%d") % (self.host, self.port)

    def is_same(self, other: Address) -> bool:
        return (self.port, plain_address(self.host)) == (other.port, plain_address(other.host))


def parse_address(word: str) -> Address:
    """HOST, HOST:PORT, IPV6 or [IPV6]:PORT."""
    found = re.fullmatch(r"(?:\[(?P<six>[^]]+)\]|(?P<one>[^:[][^:]*))(?::(?P<port>[^:]*))?"
                         r"|(?P<bare>[^[]*:[^[]*:[^[]*)", word)
    name = (found["six"] or found["one"] or found["bare"]) if found else ""
    port = PORT if not found or found["port"] is None else parse_number(found["port"], 1, 65535)
    if not name or name[0] in " \t,/" or port is None:
        raise Failure("%s is no ADDRESS, ADDRESS:PORT or [IPV6]:PORT" % printable(word))
    return Address(name, port)


def resolve(word: str) -> Address:
    """parse_address, with a numerical host."""
    a = parse_address(word)
    try:
        found = socket.getaddrinfo(a.host, None, type=socket.SOCK_STREAM)[0][4]
        return Address(socket.getnameinfo(found, socket.NI_NUMERICHOST)[0], a.port)
    except (OSError, UnicodeError) as why:
        raise Failure("%s is no address and no host's name: %s" % (
            printable(a.host), getattr(why, "strerror", None) or why)) from None


def source(address: str) -> str:
    """The address of this host that packets to the other one come from; "": no route."""
    try:
        family, kind, _, _, to = socket.getaddrinfo(address, 9, type=socket.SOCK_DGRAM,
                                                    flags=socket.AI_NUMERICHOST)[0]
        with socket.socket(family, kind) as s:
            s.connect(to)  # sends nothing
            return str(s.getsockname()[0]).partition("%")[0]
    except OSError:
        return ""


# ---- sessions and disks ---------------------------------------------------------------


def entries(*path: str) -> list[str]:
    """Of a directory, sorted; none when it cannot be listed."""
    try:
        return sorted(os.listdir(os.path.join(*path)))
    except OSError:
        return []


@dataclass
class Disk:
    name: str  # "sda"
    lun: int
    size: int  # bytes
    serial: str  # as the target tells it; "": it tells none


@dataclass
class Session:
    id: int  # the kernel never gives it again
    host: int
    iqn: str
    state: str  # "LOGGED_IN"
    iface: str  # open-iscsi's
    transport: str  # really used: "iser", "tcp"
    address: Address  # as the record has it
    luns: int  # disks that the target shows
    disks: list[Disk]  # those that are block devices by now, by LUN


def _serial(device: str) -> str:
    """Behind the head of the page "unit serial number" (SPC-4, section 7.8)."""
    try:
        with open(os.path.join(device, "vpd_pg80"), "rb") as file:
            page = file.read(4096)
    except OSError:
        return ""
    return page[4:].partition(b"\0")[0].rstrip(b" ").decode("utf-8", "surrogateescape")


def _session(number_: int, path: str) -> Session | None:
    """None: it has just gone."""
    # The last one: the card may be below a SCSI host of its own.
    hosts = re.findall(r"/host(\d+)(?=/)", os.path.realpath(os.path.join(path, "device")))
    if not hosts:
        return None
    s = Session(number_, int(hosts[-1]), text(path, "targetname"), text(path, "state"),
                text(path, "ifacename"), "", Address("", 0), 0, [])
    # By the driver's name, "iscsi_iser"; the record only has the wished one.
    driver = text(sysfs(), "class/scsi_host/host%d/proc_name" % s.host)
    s.transport = driver.removeprefix("iscsi_")
    connections = os.path.join(sysfs(), "class/iscsi_connection")
    for name in entries(connections):
        if name.startswith("connection%d:" % s.id):
            s.address = Address(text(connections, name, "persistent_address"),
                                number(connections, name, "persistent_port"))
    for target in entries(path, "device"):
        for name in entries(path, "device", target) if target.startswith("target") else ():
            at = os.path.join(path, "device", target, name)
            if not re.fullmatch(r"\d+:\d+:\d+:\d+", name) or text(at, "type") != "0":
                continue
            s.luns += 1
            s.disks += [Disk(disk, int(name.rpartition(":")[2]),
                             number(at, "block", disk, "size") * 512, _serial(at))
                        for disk in entries(at, "block")]
    s.disks.sort(key=lambda d: d.lun)
    return s


def read() -> list[Session]:
    at = os.path.join(sysfs(), "class/iscsi_session")
    found = [_session(int(name[7:]), os.path.join(at, name)) for name in entries(at)
             if re.fullmatch(r"session\d+", name)]
    return [s for s in found if s]


def find(among: Sequence[Session], iqn: str) -> Session | None:
    """The first with the target, however it was made."""
    return next((s for s in among if s.iqn == iqn), None)


def rescan(s: Session) -> None:
    """Has the kernel look for disks that it does not know."""
    try:
        with open(os.path.join(sysfs(), "class/scsi_host/host%d/scan" % s.host), "w",
                  encoding="ascii") as file:
            file.write("- - -")  # all channels, targets and LUNs
    except OSError:
        pass


def disk_path(name: str) -> str:
    """By which people find it again after a restart, if udev has made such a name."""
    for kind, prefix in (("by-id", "wwn-"), ("by-id", "scsi-"), ("by-path", "")):
        for entry in entries("/dev/disk", kind):
            path = "/dev/disk/%s/%s" % (kind, entry)
            if entry.startswith(prefix) and kernel_name(path) == name:
                return path
    return "/dev/" + name


def kernel_name(path: str) -> str:
    """"sda"; "": there is no such device."""
    return os.path.basename(os.path.realpath(path)) if os.path.exists(path) else ""


def is_device(path: str) -> bool:
    """A block device that can be opened: devtmpfs has the name a little before that."""
    try:
        if not stat.S_ISBLK(os.stat(path).st_mode):
            return False
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError:
        return False
    return True


# ---- users of a disk ------------------------------------------------------------------


def is_partition(name: str) -> bool:
    return os.path.exists(os.path.join(sysfs(), BLOCK, name, "partition"))


def _loops(name: str) -> list[str]:
    """The kernel does not count a loop device among the holders of the device below it."""
    found = []
    for loop in (e for e in entries(sysfs(), BLOCK) if e.startswith("loop")):
        file = text(sysfs(), BLOCK, loop, "loop/backing_file")
        try:
            st = os.stat(file) if file else None
        except OSError:
            st = None
        if file == "/dev/" + name or (st and stat.S_ISBLK(st.st_mode) and "%d:%d" % (
                os.major(st.st_rdev), os.minor(st.st_rdev)) == text(sysfs(), BLOCK, name, "dev")):
            found.append(loop)
    return found


def stack(name: str) -> list[str]:
    """The device, and all that stand on it: partitions, md, device-mapper, loop devices."""
    found = [name]
    for one in found:  # grows meanwhile
        at = os.path.join(sysfs(), BLOCK, one)
        above = entries(at, "holders") + _loops(one) + [
            e for e in entries(at) if os.path.exists(os.path.join(at, e, "partition"))]
        found += [e for e in dict.fromkeys(above) if e not in found]
    return found


def mounted(mountinfo: str, device: str) -> str:
    """Where; device: its number, "8:0". "": it is not mounted."""
    for line in mountinfo.splitlines():
        words = line.split(" ")
        if len(words) > 4 and words[2] == device:
            return re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), words[4])
    return ""


LIBC = ctypes.CDLL(None)


def _opened(descriptor: str, device: str) -> bool:
    """Is it the block device? Without asking a file server, which may never answer (statx(2):
    AT_STATX_DONT_SYNC, AT_NO_AUTOMOUNT)."""
    st = ctypes.create_string_buffer(256)
    if LIBC.statx(-100, descriptor.encode(), 0x4800, 1, st):
        return False
    return stat.S_ISBLK(struct.unpack_from("=H", st, 28)[0]) and \
        "%d:%d" % struct.unpack_from("=II", st, 128) == device


def _program(device: str) -> str:
    """The first that has it open, "fio (pid 123)"; "": none has."""
    for pid in (e for e in entries("/proc") if e.isdigit()):
        at = "/proc/%s/fd" % pid
        if any(_opened("%s/%s" % (at, fd), device) for fd in entries(at)):
            return "%s (pid %s)" % (printable(text("/proc", pid, "comm")) or "a program", pid)
    return ""


def _check_unused(name: str, mounts: str, swaps: str) -> None:
    path, device = "/dev/" + name, text(sysfs(), BLOCK, name, "dev")
    if not device:
        return
    where = mounted(mounts, device)
    if where:
        raise Failure("%s is mounted on %s: umount it first" % (path, printable(where)))
    if re.search(r"^%s\s" % re.escape(path), swaps, re.MULTILINE):
        raise Failure("%s is used for swap: swapoff it first" % path)
    user = _program(device)
    if user:
        raise Failure("%s is open in %s: end it first" % (path, user))
    if len(stack(name)) > 1:
        return
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC))
    except OSError as why:
        if why.errno == errno.EBUSY:
            raise Failure("%s is held by the kernel: mounted in another namespace, or served on by "
                          "a target; release it first" % path) from None
        if why.errno not in (errno.ENXIO, errno.ENODEV, errno.EIO, errno.ENOMEDIUM):  # dead
            raise failed(why, path + ": whether it is in use cannot be told") from why


def check_unused(names: Sequence[str]) -> None:
    """Failure when one of the devices of a stack has a user, with its name and the remedy."""
    mounts, swaps = read_text("/proc/self/mountinfo", 16 << 20), text("/proc/swaps")
    for name in names:
        _check_unused(name, mounts, swaps)


def check_free(name: str) -> None:
    """As check_unused; no other device may stand on it, either."""
    devices = stack(name)
    for above in devices[1:]:
        if not is_partition(above):
            raise Failure("/dev/%s is part of /dev/%s: stop that first" % (name, above))
    check_unused(devices)




# ---- queue settings -------------------------------------------------------------------

QUEUE_DEPTH, CMDS_MAX, READ_AHEAD_KB = 64, 128, 4096  # the reasons are in rftp-iser(8)


@dataclass
class Setting:
    device: str  # "sda"
    file: str  # below its directory in sysfs
    want: str
    before: str = ""
    after: str = ""
    error: str = ""

    @property
    def name(self) -> str:
        return os.path.basename(self.file)

    def _now(self) -> str:
        now = text(sysfs(), BLOCK, self.device, self.file)
        chosen = re.search(r"\[(.*?)\]", now)  # "mq-deadline [none]"
        return chosen[1] if chosen else now

    def set(self) -> None:
        """Unless it is so already; a failure is only noted."""
        self.before = self._now()
        if self.before != self.want:
            try:
                with open(os.path.join(sysfs(), BLOCK, self.device, self.file), "w",
                          encoding="ascii") as file:
                    file.write(self.want)
            except OSError as why:
                self.error = os.strerror(why.errno or 0)
        self.after = self._now()


def settings_of_disk(device: str, host: int) -> list[Setting]:
    """In this order: another scheduler has another number of requests."""
    can_queue = number(sysfs(), "class/scsi_host/host%d/can_queue" % host)
    depth = min(can_queue or QUEUE_DEPTH, QUEUE_DEPTH)
    settings = [Setting(device, "device/queue_depth", str(depth)),
                Setting(device, "queue/scheduler", "none"),
                Setting(device, "queue/nr_requests", str(can_queue)),
                Setting(device, "queue/read_ahead_kb", str(READ_AHEAD_KB)),
                Setting(device, "queue/rq_affinity", "2")]
    return [s for s in settings if s.want != "0"]


def settings_of_stripe(device: str, disks: int) -> list[Setting]:
    """Files are read by the stripe's readahead, not by its disks'."""
    return [Setting(device, "queue/read_ahead_kb", str(READ_AHEAD_KB * disks))]
