# SPDX-License-Identifier: Apache-2.0
"""Rules for names that LIO, open-iscsi and configfs accept unchanged. Each function returns None
for a good name, or the end of a sentence that says its fault."""
from __future__ import annotations

import ipaddress
import re
import socket

MISSING = "is missing"
LIO_SUFFIX = ".lio"  # of files beside a plan's in the state directory


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogateescape"))


def store(name: str | None) -> str | None:
    """A back store, or a plan."""
    if not name:
        return MISSING
    if _size(name) > 64:
        return "is longer than 64 bytes"
    if not re.fullmatch(r"[A-Za-z0-9._-]*", name):
        return "has other characters than letters, digits, '.', '_' and '-'"
    return None if name[0].isalnum() else "does not begin with a letter or a digit"


def plan(name: str | None) -> str | None:
    if name and not store(name) and name.endswith(LIO_SUFFIX):
        return f"ends in {LIO_SUFFIX}, which is for files beside the plan's"
    return store(name)


def attribute(name: str | None) -> str | None:
    if not name:
        return "is an attribute without a name"
    return None if re.fullmatch(r"[a-z0-9_]{1,64}", name) else \
        "is no attribute's name: those have lower case letters, digits and '_'"


def serial(text: str | None) -> str | None:
    if not text:
        return MISSING
    return None if re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", text) else \
        "is no UUID in lower case, as 6d9f1f6e-5a0c-4a5e-9d0b-3f1a2b4c5d6e"


def _dated(rest: str) -> str | None:
    """The part after "iqn." (RFC 7143, section 4.2.7.4)."""
    date = re.match(r"\d{4}-(\d{2})\.", rest)
    if not date:
        return "has no date behind \"iqn.\", as in iqn.2026-01.org.example:disk"
    if not "01" <= date.group(1) <= "12":
        return "has a month that is not 01 to 12"
    domain, colon, own = rest[date.end():].partition(":")
    for label in domain.split("."):
        if not label or label[0] == "-" or label[-1] == "-":
            return "has no domain behind its date, as in iqn.2026-01.org.example:disk"
    if "." not in domain:
        return "has a domain without a dot: LIO takes \"org.example\", not \"example\""
    return "has nothing behind its colon" if colon and not own else None


def iqn(name: str | None) -> str | None:
    """Also names that begin with eui. or naa."""
    if not name:
        return MISSING
    if _size(name) > 223:  # RFC 7143, section 4.2.7.1
        return "is longer than 223 bytes"
    if name.startswith("InitiatorName="):
        return "is a line of initiatorname.iscsi: write what is behind its '='"
    if re.search(r"[A-Z]", name):
        return "has upper case letters: write it in lower case"
    if not re.fullmatch(r"[a-z0-9.:-]*", name):
        return "has other characters than letters, digits, '-', '.' and ':'"
    kind, rest = name[:4], name[4:]
    if kind == "iqn.":
        return _dated(rest)
    if kind == "eui.":
        return None if re.fullmatch(r"[0-9a-f]{16}", rest) else \
            "has not 16 hexadecimal digits behind \"eui.\""
    if kind == "naa.":
        return None if re.fullmatch(r"([0-9a-f]{16}){1,2}", rest) else \
            "has neither 16 nor 32 hexadecimal digits behind \"naa.\""
    return "is no iSCSI name: that begins with iqn., eui. or naa."


def path(text: str | None) -> str | None:
    if not text:
        return MISSING
    if text[0] != "/":
        return "does not begin with a slash"
    if _size(text) > 255:
        return "is longer than 255 bytes, which LIO would cut"
    if re.search(r"[,\\\"']|[^!-~]", text):
        return ("has a comma, a blank, a quote, a backslash or what is not ASCII in it, which "
                "LIO's configuration does not keep")
    if any(part in ("", ".", "..") for part in text[1:].split("/")):
        return "has an empty part, \".\" or \"..\" in it"
    return None


def address(text: str | None) -> str | None:
    """A numerical one, in the kernel's spelling, that one interface can have."""
    if not text:
        return MISSING
    try:
        ip = ipaddress.ip_address(text)
    except ValueError:
        return "is no numerical address"
    if ip.is_unspecified:
        return "stands for all addresses: with it no other target could listen on this port"
    if ip.is_multicast or text == "255.255.255.255":
        return "is a multicast or a broadcast address"
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.is_link_local:
            return "is an address of its link only, which does not say of which"
        if ip.ipv4_mapped:
            return "is an IPv4 address: write it as such"
        if socket.inet_ntop(socket.AF_INET6, ip.packed) != text:
            return "is not in its usual form: lower case, the longest run of zeros as \"::\""
    return None


def interface(name: str) -> str | None:
    return None if re.fullmatch(r"[!-.0-~]+", name) else "is no network interface's name"


def chap_user(name: str | None) -> str | None:
    if not name:
        return MISSING
    if _size(name) > 255:
        return "is longer than 255 bytes"
    if re.search(r",|[^!-~]", name):
        return "has a blank, a comma or what is not ASCII in it"
    # iscsi_target_configfs.c: the value that clears it.
    return "begins with \"NULL\", which is LIO's word for none" if name.startswith("NULL") else None
