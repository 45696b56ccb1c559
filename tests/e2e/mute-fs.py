#!/usr/bin/env python3
"""A file system that never answers, as one of a server that has gone: whoever asks for anything in
it waits until he is killed, or this ends.

    mute-fs.py DIR      mounts it there, says "mounted", and stays
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
