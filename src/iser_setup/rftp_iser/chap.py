# SPDX-License-Identifier: Apache-2.0
"""CHAP secrets: the first lines of files that only their owner can read. No text of a Failure has
a secret in it."""
from __future__ import annotations

import os
import secrets
import stat
import string

from rftp_common import Failure, failed, is_ours, printable, written_by_others

from . import names

# Some initiators demand 12 to 16 bytes, and RFC 7143, section 9.2.1, 96 bits. Letters and digits
# pass through every configuration file.
LENGTH, LENGTH_MOST = 16, 255
LETTERS = string.ascii_letters + string.digits

# Of a secret for LIO and all initiators.
_OURS = names.rule(
    ("[!-~]*", "its first line has more in it than visible ASCII characters"),
    (".{12,}", "its first line, the secret, is shorter than 12 characters"),
    (".{,255}", "its first line, the secret, is longer than 255 characters"),
    # iscsi_target_configfs.c: the beginning of a value that clears it
    ("(?!NULL).*", "a secret that begins with NULL is none for LIO"),
    missing="its first line, the secret, is shorter than 12 characters")

# Of a secret for open-iscsi, of a target that another program made.
_OTHERS = names.rule(
    (".{,255}", "the secret is longer than 255 bytes"),
    ("[^\0-\x1f\x7f]*", "the secret has a control character in it"),
    ("(?! ).*(?<! )", "the secret begins or ends with a blank, which open-iscsi would drop"),
    missing="the secret is empty")


def read(path: str, ours: bool = True) -> str:
    """The secret in a file. ours: for LIO; otherwise the file comes from another host's
    administrator, and its lines may end in CR LF."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe does not block
        try:
            st = os.fstat(fd)
            data = os.read(fd, LENGTH_MOST + 2) if stat.S_ISREG(st.st_mode) else b""
        finally:
            os.close(fd)
    except OSError as why:
        raise failed(why, f"{printable(path)}, a CHAP secret") from why
    secret = data.decode("latin-1").partition("\n")[0]
    if not ours:
        secret = secret.partition("\r")[0]
    wrong = names.first_fault((
        (not stat.S_ISREG(st.st_mode), "is no file"),
        (not is_ours(st), "belongs to another user; chown root it, and draw a new secret"),
        (st.st_mode & (stat.S_IRWXG | stat.S_IRWXO),
         "may be read by others than its owner; chmod 600 it, and draw a new secret"),
    )) or (_OURS if ours else _OTHERS)(secret)
    if wrong:
        raise Failure(f"{printable(path)}, a CHAP secret: {wrong}")
    return secret


def make(path: str) -> bool:
    """Draws a secret into a new file of mode 0600; False: the file exists, with a good secret."""
    directory = os.path.dirname(path)
    where = f"the directory {printable(directory)} for secrets"
    made = False
    try:
        os.makedirs(directory, 0o700, exist_ok=True)
        st = os.stat(directory)
        if not is_ours(st) or written_by_others(st):
            raise Failure(f"{where} may be written by others: chown root and chmod 700 it, or name "
                          "another with --secrets")
        where = f"the secret {printable(path)}"
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        made = True
        with os.fdopen(fd, "w", encoding="ascii") as file:
            secret = ""
            while _OURS(secret):
                secret = "".join(secrets.choice(LETTERS) for _ in range(LENGTH))
            file.write(secret + "\n")
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        read(path)
    except OSError as why:
        if made:
            os.unlink(path)
        raise failed(why, where) from why
    return made
