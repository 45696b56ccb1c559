#!/usr/bin/env python3
"""Finds secrets in the memory of processes.

    in-memory.py key FILE        the private scalar of a PEM file's P-256 key, to standard output
    in-memory.py find PID FILE   searches the process's memory for the content of FILE, in its
                                 byte order and in reverse. Prints "found" or "not found"
"""
import subprocess
import sys


def scalar(path):
    text = subprocess.run(["openssl", "pkey", "-in", path, "-noout", "-text"], check=True,
                          capture_output=True, text=True).stdout
    lines = text.split("priv:")[1].split("pub:")[0]
    number = bytes.fromhex("".join(lines.split()).replace(":", ""))
    return number[-32:].rjust(32, b"\0")


def writable(pid):
    with open(f"/proc/{pid}/maps", encoding="ascii", errors="replace") as maps:
        for line in maps:
            where, rights = line.split()[:2]
            if rights.startswith("rw"):
                yield [int(end, 16) for end in where.split("-")]


def find(pid, secret):
    looked = 0
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for low, high in writable(pid):
            try:
                memory.seek(low)
                piece = memory.read(high - low)
            except (OSError, ValueError, OverflowError):
                continue
            looked += len(piece)
            if secret in piece or secret[::-1] in piece:
                return True
    if not looked:
        sys.exit("nothing of it could be read")
    return False


def main():
    if sys.argv[1] == "key":
        sys.stdout.buffer.write(scalar(sys.argv[2]))
        return
    with open(sys.argv[3], "rb") as file:
        secret = file.read()
    print("found" if find(sys.argv[2], secret) else "not found")


main()
