#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The order in which a command reads the files of a directory, compared with their disk addresses.

    disk-order.py shuffle DIR N         makes N files in DIR whose names, order in the
                                        directory and disk addresses are unrelated
    disk-order.py watch DIR COMMAND...  runs COMMAND; prints how many files of DIR and its
                                        subdirectories it read, how often the next file was at a
                                        lower address, and how often it changed files:
                                        "reads 100 back 3 turns 99"
    disk-order.py place DIR             exit status: are disk addresses known here?
"""
import ctypes
import fcntl
import os
import random
import select
import struct
import subprocess
import sys

FS_IOC_FIEMAP = 0xC020660B
FIEMAP_FLAG_SYNC = 1
IN_ACCESS, IN_ISDIR, IN_Q_OVERFLOW = 0x1, 0x40000000, 0x4000


def place(path):
    """The disk address of the first byte, or None if the filesystem does not report it."""
    head = struct.pack("=QQLLLL", 0, 2**64 - 1, FIEMAP_FLAG_SYNC, 0, 1, 0)
    with open(path, "rb") as f:
        try:
            got = fcntl.ioctl(f, FS_IOC_FIEMAP, head + bytes(56))
        except OSError:
            return None
    return struct.unpack_from("=Q", got, 40)[0] if struct.unpack_from("=L", got, 20)[0] else None


def shuffle(top, n):
    """Creates the files in one order, with names in another, and moves them into their directories
    in a third, so that the filesystem cannot place related files together."""
    rng = random.Random(7)
    names = [f"d{i % 5}/{i * 7919 % 10007:05d}" for i in range(n)]
    rng.shuffle(names)
    for i in range(5):
        os.makedirs(os.path.join(top, f"d{i}"), exist_ok=True)
    for i in range(n):
        with open(os.path.join(top, f"new{i}"), "wb") as f:
            f.write(b"%d\n" % i + bytes(4096 * rng.randrange(1, 4)))
            f.flush()
            os.fsync(f.fileno())
    for i, name in enumerate(names):
        os.rename(os.path.join(top, f"new{i}"), os.path.join(top, name))


class Watch:
    """Reads below top, by inotify: consecutive reads of one file are one event."""

    def __init__(self, top):
        libc = ctypes.CDLL(None, use_errno=True)
        self.fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self.dirs = {}
        for where, _, _ in os.walk(top):
            wd = libc.inotify_add_watch(self.fd, os.fsencode(where), IN_ACCESS)
            if wd < 0:
                sys.exit(f"inotify: {os.strerror(ctypes.get_errno())}")
            self.dirs[wd] = where

    def reads(self):
        """The files read so far, in order."""
        seen = []
        while select.select([self.fd], [], [], 0)[0]:
            data, at = os.read(self.fd, 1 << 20), 0
            while at < len(data):
                wd, mask, _, length = struct.unpack_from("=iIII", data, at)
                name = data[at + 16 : at + 16 + length].rstrip(b"\0")
                at += 16 + length
                if mask & IN_Q_OVERFLOW:
                    sys.exit("too many events")
                if name and not mask & IN_ISDIR:
                    seen.append(os.path.join(self.dirs[wd], os.fsdecode(name)))
        return seen


def watch(top, command):
    w = Watch(top)
    status = subprocess.call(command)
    reads = w.reads()
    # By the last read: before that, a few are read to time the disk.
    files = list(dict.fromkeys(reversed(reads)))[::-1]
    places = [place(f) for f in files]
    back = sum(b < a for a, b in zip(places, places[1:]))
    turns = sum(a != b for a, b in zip(reads, reads[1:]))
    print(f"reads {len(files)} back {back} turns {turns}")
    return status


def main():
    what, top, *rest = sys.argv[1:]
    if what == "shuffle":
        shuffle(top, int(rest[0]))
        return 0
    if what == "place":
        with open(os.path.join(top, "probe"), "wb") as f:
            f.write(b"x")
        told = place(f.name)
        os.unlink(f.name)
        return told is None
    return watch(top, rest)


sys.exit(main())
