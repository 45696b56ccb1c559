#!/usr/bin/env python3
"""refusing.py CALL COMMAND...: runs COMMAND with a filter under which system call number CALL fails
with EPERM, like some filters of containers. Exit status 77: filters are not possible here."""
import ctypes
import errno
import os
import struct
import sys

PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, FILTER = 22, 38, 2
LOAD, JUMP_EQUAL, RETURN = 0x20, 0x15, 0x06  # BPF_LD|W|ABS, BPF_JMP|JEQ|K, BPF_RET|K
ERRNO, ALLOW = 0x00050000, 0x7fff0000


class Program(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def refuse(call):
    steps = [(LOAD, 0, 0, 0), (JUMP_EQUAL, 0, 1, call), (RETURN, 0, 0, ERRNO | errno.EPERM),
             (RETURN, 0, 0, ALLOW)]
    program = Program(len(steps), b"".join(struct.pack("=HBBI", *s) for s in steps))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or \
            libc.prctl(PR_SET_SECCOMP, FILTER, ctypes.byref(program), 0, 0):
        sys.exit(77)


refuse(int(sys.argv[1]))
os.execvp(sys.argv[2], sys.argv[2:])
