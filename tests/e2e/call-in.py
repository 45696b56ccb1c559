#!/usr/bin/env python3
"""Makes a system call in another process, as injected code could.

    call-in.py PID NUMBER [ARGUMENT...]

An ARGUMENT is a number or, if it contains a slash, a path, which is written below the process's
stack. Prints the result: -1 for any error. Prints nothing if the call kills the process. Writes the
general registers only: gdb 13 also writes the vector registers, and fails if the processor has more
of them than gdb knows. x86_64 only.
"""
import ctypes
import os
import signal
import sys

CONT, SINGLESTEP, GETREGS, SETREGS, ATTACH, DETACH = 7, 9, 12, 13, 16, 17
SYSCALL = b"\x0f\x05"
ARGUMENTS = ("rdi", "rsi", "rdx", "r10", "r8", "r9")


class Registers(ctypes.Structure):
    """user_regs_struct of <sys/user.h>"""
    _fields_ = [(name, ctypes.c_ulonglong) for name in (
        "r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss "
        "fs_base gs_base ds es fs gs").split()]


libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long


def ptrace(request, pid, data=None):
    if libc.ptrace(request, pid, None, data) == -1:
        sys.exit(f"call-in: ptrace {request}: {os.strerror(ctypes.get_errno())}")


def stopped_by(pid, wanted):
    """Waits until the process stops with this signal; passes on others. False: it ended."""
    while True:
        status = os.waitpid(pid, 0x40000000)[1]  # __WALL
        if not os.WIFSTOPPED(status):
            return False
        if os.WSTOPSIG(status) == wanted:
            return True
        ptrace(CONT, pid, os.WSTOPSIG(status))


def call(pid, number, arguments):
    ptrace(ATTACH, pid)
    if not stopped_by(pid, signal.SIGSTOP):
        return None
    before, there = Registers(), Registers()
    ptrace(GETREGS, pid, ctypes.addressof(before))
    ptrace(GETREGS, pid, ctypes.addressof(there))
    memory = os.open(f"/proc/{pid}/mem", os.O_RDWR)
    low = before.rsp - 4096  # below the red zone of 128 bytes
    for name, argument in zip(ARGUMENTS, arguments):
        if "/" in argument:
            os.pwrite(memory, argument.encode() + b"\0", low)
            setattr(there, name, low)
        else:
            setattr(there, name, int(argument, 0) & (1 << 64) - 1)
    # Otherwise the kernel would restart an interrupted system call.
    there.rax, there.orig_rax = number, (1 << 64) - 1
    code = os.pread(memory, len(SYSCALL), there.rip)
    os.pwrite(memory, SYSCALL, there.rip)
    ptrace(SETREGS, pid, ctypes.addressof(there))
    ptrace(SINGLESTEP, pid)
    if not stopped_by(pid, signal.SIGTRAP):
        return None
    ptrace(GETREGS, pid, ctypes.addressof(there))
    os.pwrite(memory, code, before.rip)
    ptrace(SETREGS, pid, ctypes.addressof(before))
    ptrace(DETACH, pid)
    result = ctypes.c_longlong(there.rax).value
    return -1 if -4096 < result < 0 else result


def main():
    result = call(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
    if result is not None:
        print(result)


main()
