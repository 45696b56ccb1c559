# SPDX-License-Identifier: Apache-2.0
"""Rules for names that LIO, open-iscsi and configfs accept unchanged. Each returns "" for a good
name, or the end of a sentence that says its fault."""
from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Callable, Iterable

Rule = Callable[[str], str]

MISSING = "is missing"
LIO_SUFFIX = ".lio"  # of files beside a plan's in the state directory
_LABEL = "[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"  # of a domain


def first_fault(checks: Iterable[tuple[object, str]]) -> str:
    """checks: if something is wrong, and what is said then."""
    return next((says for wrong, says in checks if wrong), "")


def rule(*parts: tuple[str, str], missing: str = MISSING) -> Rule:
    """parts: patterns that match the whole name, and what is said if one does not. Every rule
    admits ASCII only before it counts characters, so that these are bytes."""
    def fault(name: str) -> str:
        if not name:
            return missing
        return first_fault((not re.fullmatch(pattern, name, re.DOTALL), says)
                           for pattern, says in parts)
    return fault


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
    (r"(?!.*,)[!-~]*", "has a blank, a comma or what is not ASCII in it"),
    (".{,255}", "is longer than 255 bytes"),
    # iscsi_target_configfs.c: the value that clears it.
    ("(?!NULL).*", "begins with \"NULL\", which is LIO's word for none"))

path = rule(
    ("/.*", "does not begin with a slash"),
    (r"(?!.*[,\\\"'])[!-~]*", "has a comma, a blank, a quote, a backslash or what is not ASCII in "
                              "it, which LIO's configuration does not keep"),
    (".{,255}", "is longer than 255 bytes, which LIO would cut"),
    (r"(?:/(?!\.\.?(?:/|\Z))[^/]+)+", "has an empty part, \".\" or \"..\" in it"))

# RFC 7143, sections 4.2.7.1 and 4.2.7.4; also names that begin with eui. or naa.
iqn = rule(
    ("(?!InitiatorName=).*", "is a line of initiatorname.iscsi: write what is behind its '='"),
    ("[^A-Z]*", "has upper case letters: write it in lower case"),
    ("[a-z0-9.:-]*", "has other characters than letters, digits, '-', '.' and ':'"),
    (".{,223}", "is longer than 223 bytes"),
    (rf"iqn\.[0-9]{{4}}-(0[1-9]|1[0-2])\.{_LABEL}(\.{_LABEL})*(:.+)?"
     r"|eui\.[0-9a-f]{16}|naa\.([0-9a-f]{16}){1,2}",
     "is no iSCSI name, as iqn.2026-01.org.example:disk, or eui. or naa. and hexadecimal digits"),
    (r"(?!iqn).*|.{12}[^:.]*\..*",
     "has a domain without a dot: LIO takes \"org.example\", not \"example\""))


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
