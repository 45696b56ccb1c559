#!/usr/bin/env python3
"""A file system that never answers, like that of a dead server: a process that uses it blocks until
it is killed, or until this script ends.

    mute-fs.py DIR      mounts it on DIR, prints "mounted", and stays
"""
import ctypes
import os
import signal
import sys

libc = ctypes.CDLL(None, use_errno=True)


def main():
    try:
        fuse = os.open("/dev/fuse", os.O_RDWR)
    except OSError as problem:
        sys.exit(f"no file systems of ours here: {problem}")
    options = f"fd={fuse},rootmode=40000,user_id=0,group_id=0".encode()
    if libc.mount(b"mute", sys.argv[1].encode(), b"fuse", 0, options) < 0:
        sys.exit("cannot mount: " + os.strerror(ctypes.get_errno()))
    print("mounted", flush=True)
    signal.pause()


main()
