# SPDX-License-Identifier: Apache-2.0
"""CHAP secrets: the first lines of files that only their owner can read. No text of a Failure has
a secret in it."""
from __future__ import annotations

import os
import secrets
import stat
import string

from .common import Failure, failed, is_ours, printable, written_by_others

# Some initiators demand 12 to 16 bytes, and RFC 7143, section 9.2.1, 96 bits. Letters and digits
# pass through every configuration file.
LENGTH, LENGTH_LEAST, LENGTH_MOST = 16, 12, 255
LETTERS = string.ascii_letters + string.digits
NOTHING = "NULL"  # iscsi_target_configfs.c: the beginning of a value that clears it


def _unfit(secret: str) -> str:
    """The fault of a secret for LIO and all initiators, or ""."""
    if not all("!" <= c <= "~" for c in secret):
        return "its first line has more in it than visible ASCII characters"
    if len(secret) < LENGTH_LEAST:
        return "its first line, the secret, is shorter than 12 characters"
    if len(secret) > LENGTH_MOST:
        return "its first line, the secret, is longer than 255 characters"
    return "a secret that begins with NULL is none for LIO" if secret.startswith(NOTHING) else ""


def _unfit_elsewhere(secret: str) -> str:
    """The fault of a secret for open-iscsi, of a target that another program made."""
    if not secret:
        return "the secret is empty"
    if len(secret) > LENGTH_MOST:
        return "the secret is longer than 255 bytes"
    if any(c < " " or c == "\x7f" for c in secret):
        return "the secret has a control character in it"
    return "the secret begins or ends with a blank, which open-iscsi would drop" \
        if secret != secret.strip(" ") else ""


def _exposed(st: os.stat_result) -> str:
    if not stat.S_ISREG(st.st_mode):
        return "is no file"
    if not is_ours(st):
        return "belongs to somebody else; chown root it, and draw a new secret"
    if st.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        return "may be read by others than its owner; chmod 600 it, and draw a new secret"
    return ""


def read(path: str, ours: bool = True) -> str:
    """The secret in a file. ours: for LIO; otherwise the file comes from another host's
    administrator, and its lines may end in CR LF."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe does not block
        try:
            wrong = _exposed(os.fstat(fd))
            data = b"" if wrong else os.read(fd, LENGTH_MOST + 2)
        finally:
            os.close(fd)
    except OSError as why:
        raise failed(why, f"{printable(path)}, a CHAP secret") from why
    secret = data.decode("latin-1").partition("\n")[0]
    if not ours:
        secret = secret.partition("\r")[0]
    wrong = wrong or (_unfit(secret) if ours else _unfit_elsewhere(secret))
    if wrong:
        raise Failure(f"{printable(path)}, a CHAP secret: {wrong}")
    return secret


def _draw() -> str:
    while True:
        secret = "".join(secrets.choice(LETTERS) for _ in range(LENGTH))
        if not secret.startswith(NOTHING):
            return secret


def _make_directory(directory: str) -> None:
    where = f"the directory {printable(directory)} for secrets"
    try:
        os.makedirs(directory, 0o700, exist_ok=True)
        st = os.stat(directory)
    except OSError as why:
        raise failed(why, where) from why
    if not is_ours(st):
        raise Failure(f"{where} belongs to somebody else: chown root it, or name another with "
                      "--secrets")
    if written_by_others(st):
        raise Failure(f"{where} may be written by others: chmod 700 it, or name another with "
                      "--secrets")


def make(path: str) -> bool:
    """Draws a secret into a new file of mode 0600; False: the file exists, with a good secret."""
    _make_directory(os.path.dirname(path))
    made = False
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        made = True
        with os.fdopen(fd, "w", encoding="ascii") as file:
            file.write(_draw() + "\n")
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        read(path)
    except OSError as why:
        if made:
            os.unlink(path)
        raise failed(why, f"the secret {printable(path)}") from why
    return made
