# SPDX-License-Identifier: Apache-2.0
"""Rules for names that LIO, open-iscsi and configfs accept unchanged: each returns "" for a good
name, or the end of a sentence that says its fault. All admit ASCII only before they count
characters, so that these are bytes. And CHAP secrets, the first lines of files that
only their owner can read: no text of a Failure has a secret in it."""
from __future__ import annotations

import ipaddress
import os
import re
import secrets
import socket
import stat
import string

from rftp_common import Failure, failed, own_directory, printable, write_file
from rftp_members import MISSING, first_fault, rule

LIO_SUFFIX = ".lio"  # of files beside a plan's in the state directory
_LABEL = "[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"  # of a domain


_STORE = (
    ("[A-Za-z0-9._-]*", "has other characters than letters, digits, '.', '_' and '-'"),
    ("[A-Za-z0-9].*", "does not begin with a letter or a digit"),
    (".{,64}", "is longer than 64 bytes"))
store = rule(*_STORE)
plan = rule(*_STORE, (rf".*(?<!\{LIO_SUFFIX})",
                      f"ends in {LIO_SUFFIX}, which is for files beside the plan's"))

attribute = rule(
    ("[a-z0-9_]{1,64}", "is no attribute's name: those have lower case letters, digits and '_'"),
    missing="is an attribute without a name")

serial = rule(("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
               "is no UUID in lower case, as 6d9f1f6e-5a0c-4a5e-9d0b-3f1a2b4c5d6e"))

interface = rule(("[!-.0-~]+", "is no network interface's name"))

chap_user = rule(
    (r"(?!.*,)[!-~]*", "has a blank, a comma or a character beyond ASCII"),
    (".{,255}", "is longer than 255 bytes"),
    # iscsi_target_configfs.c: the value that clears it.
    ("(?!NULL).*", "begins with \"NULL\", which is LIO's word for none"))

path = rule(
    ("/.*", "does not begin with a slash"),
    (r"(?!.*[,\\\"'])[!-~]*", "has a comma, a blank, a quote, a backslash or a character beyond "
                              "ASCII, which LIO's configuration does not keep"),
    (".{,255}", "is longer than 255 bytes, which LIO would cut"),
    (r"(?:/(?!\.\.?(?:/|\Z))[^/]+)+", "has an empty part, \".\" or \"..\" in it"))

# RFC 7143, sections 4.2.7.1 and 4.2.7.4; also names that begin with eui. or naa.
_IQN = (
    ("(?!InitiatorName=).*", "is a line of initiatorname.iscsi: write the part behind its '='"),
    ("[a-z0-9.:-]{,223}", "is not of lower case letters, digits, '-', '.' and ':', up to 223"),
    (rf"iqn\.[0-9]{{4}}-(0[1-9]|1[0-2])\.{_LABEL}(\.{_LABEL})*(:.+)?"
     r"|eui\.[0-9a-f]{16}|naa\.([0-9a-f]{16}){1,2}",
     "is no iSCSI name, as iqn.2026-01.org.example:disk, or eui. or naa. and hexadecimal digits"),
    (r"(?!iqn).*|.{12}[^:.]*\..*",
     "has a domain without a dot: LIO takes \"org.example\", not \"example\""))
iqn = rule(*_IQN)
iqn_prefix = rule(*_IQN, ("iqn[^:]*", "is more than the beginning of names, as "
                          "iqn.2026-01.org.example is"))


def address(text: str) -> str:
    """A numerical one, in the kernel's spelling, that one interface can have."""
    try:
        ip = ipaddress.ip_address(text)
    except ValueError:
        return "is no numerical address" if text else MISSING
    six = ip.version == 6
    usual = socket.inet_ntop(socket.AF_INET6 if six else socket.AF_INET, ip.packed)
    return first_fault((
        (ip.is_unspecified,
         "stands for all addresses: with it no other target could listen on this port"),
        (ip.is_multicast or text == "255.255.255.255", "is a multicast or a broadcast address"),
        (six and ip.is_link_local, "is an address of its link only, which does not say of which"),
        (usual != text or getattr(ip, "ipv4_mapped", None),
         "is not in its usual form, as 192.0.2.1 or 2001:db8::1")))


# ---- CHAP secrets ---------------------------------------------------------------------

_VISIBLE = "its first line, the secret, is not of 12 to 255 visible ASCII characters"
_our_secret = rule(  # for LIO and all initiators
    ("[!-~]{12,255}", _VISIBLE),
    # iscsi_target_configfs.c: the beginning of a value that clears it
    ("(?!NULL).*", "a secret that begins with NULL is none for LIO"), missing=_VISIBLE)
_other_secret = rule(  # for open-iscsi, of a target that another program made
    (".{,255}", "the secret is longer than 255 bytes"),
    ("[^\0-\x1f\x7f]*", "the secret has a control character in it"),
    ("(?! ).*(?<! )", "the secret begins or ends with a blank, which open-iscsi would drop"),
    missing="the secret is empty")


def read_secret(path: str, ours: bool = True) -> str:
    """ours: for LIO; otherwise the file comes from another host's administrator, and its lines may
    end in CR LF."""
    where = f"{printable(path)}, a CHAP secret"
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe does not block
        with os.fdopen(fd, "rb") as file:
            st = os.fstat(fd)
            data = file.read(257) if stat.S_ISREG(st.st_mode) else b""
    except OSError as why:
        raise failed(why, where) from why
    secret = data.decode("latin-1").partition("\n")[0]
    if not ours:
        secret = secret.partition("\r")[0]
    wrong = first_fault((
        (not stat.S_ISREG(st.st_mode), "is no file"),
        (st.st_uid not in (0, os.geteuid()),
         "belongs to another user; chown root it, and draw a new secret"),
        (st.st_mode & (stat.S_IRWXG | stat.S_IRWXO),
         "may be read by others than its owner; chmod 600 it, and draw a new secret"),
    )) or (_our_secret if ours else _other_secret)(secret)
    if wrong:
        raise Failure(f"{where}: {wrong}")
    return secret


def make_secret(path: str) -> bool:
    """Draws a secret into a new file of mode 0600; False: the file exists, with a good secret."""
    directory = os.path.dirname(path)
    own_directory(directory, f"the directory {printable(directory)} for secrets")
    if os.path.lexists(path):
        read_secret(path)
        return False
    letters, secret = string.ascii_letters + string.digits, ""
    while _our_secret(secret):
        # Some initiators demand 12 to 16 bytes, and RFC 7143, section 9.2.1, 96 bits. Letters and
        # digits pass through every configuration file.
        secret = "".join(secrets.choice(letters) for _ in range(16))
    write_file(path, secret + "\n")
    return True
