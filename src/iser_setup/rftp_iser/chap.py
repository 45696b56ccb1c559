# SPDX-License-Identifier: Apache-2.0
"""CHAP secrets: files with a secret in their first line, which nobody but root reads. No function
here says one."""
from __future__ import annotations

import os
import secrets
import stat
import string

from .common import Failure, failed, is_ours, printable, written_by_others

# Some initiators insist on 12 to 16 bytes, and RFC 7143, section 9.2.1, on 96 bits; letters and
# digits pass through every configuration file.
LENGTH, LENGTH_LEAST, LENGTH_MOST = 16, 12, 255
LETTERS = string.ascii_letters + string.digits
NOTHING = "NULL"  # iscsi_target_configfs.c: the beginning of a value that clears it


def _unfit(secret: str) -> str:
    """Between LIO and any initiator."""
    if not all("!" <= c <= "~" for c in secret):
        return "its first line has more in it than visible ASCII characters"
    if len(secret) < LENGTH_LEAST:
        return "its first line, the secret, is shorter than 12 characters"
    if len(secret) > LENGTH_MOST:
        return "its first line, the secret, is longer than 255 characters"
    return "a secret that begins with NULL is none for LIO" if secret.startswith(NOTHING) else ""


def _unfit_line(secret: str) -> str:
    """For open-iscsi, from a target that is not ours."""
    if not secret:
        return "the secret is empty"
    if len(secret) > LENGTH_MOST:
        return "the secret is longer than 255 bytes"
    if any(c < " " or c == "\x7f" for c in secret):
        return "the secret has a control character in it"
    return "the secret begins or ends with a blank, which open-iscsi would drop" if secret != secret.strip(" ") \
        else ""


def _exposed(st: os.stat_result) -> str:
    if not stat.S_ISREG(st.st_mode):
        return "is no file"
    if not is_ours(st):
        return "belongs to somebody else; chown root it, and draw a new secret"
    if st.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        return "may be read by others than its owner; chmod 600 it, and draw a new secret"
    return ""


def read(path: str, ours: bool = True) -> str:
    """The first line. ours: it is for LIO; else a file of another host's administrator, whose lines
    may end in CR LF."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe does not block
        try:
            wrong = _exposed(os.fstat(fd))
            data = b"" if wrong else os.read(fd, LENGTH_MOST + 2)
        finally:
            os.close(fd)
    except OSError as why:
        raise failed(why, "%s, a CHAP secret" % printable(path)) from why
    secret = data.decode("latin-1").partition("\n")[0]
    if not ours:
        secret = secret.partition("\r")[0]
    wrong = wrong or (_unfit(secret) if ours else _unfit_line(secret))
    if wrong:
        raise Failure("%s, a CHAP secret: %s" % (printable(path), wrong))
    return secret


def _draw() -> str:
    while True:
        secret = "".join(secrets.choice(LETTERS) for _ in range(LENGTH))
        if not secret.startswith(NOTHING):
            return secret


def _make_directory(path: str) -> None:
    directory = os.path.dirname(path)
    where = "the directory %s for secrets" % printable(directory)
    try:
        os.makedirs(directory, 0o700, exist_ok=True)
        st = os.stat(directory)
    except OSError as why:
        raise failed(why, where) from why
    if not is_ours(st):
        raise Failure(where + " belongs to somebody else: chown root it, or name another with --secrets")
    if written_by_others(st):
        raise Failure(where + " may be written by others: chmod 700 it, or name another with --secrets")


def make(path: str) -> bool:
    """A new secret, in a file that only its owner reads; False: one is there already, and fit."""
    _make_directory(path)
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        read(path)
        return False
    except OSError as why:
        raise failed(why, "the secret %s" % printable(path)) from why
    try:
        with os.fdopen(fd, "w", encoding="ascii") as file:
            file.write(_draw() + "\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as why:
        os.unlink(path)
        raise failed(why, "the secret %s" % printable(path)) from why
    return True
