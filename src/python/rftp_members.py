# SPDX-License-Identifier: Apache-2.0
"""Objects of JSON as dataclasses, which are the only description of them: they are read, checked
and written by the fields of the dataclass. Unknown members are refused as misspelt."""
from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from rftp_common import Failure, any_of, at_place, load_json, printable

MISSING = "is missing"
KINDS = {str: "not a text", int: "not a whole number", bool: "neither true nor false",
         dict: "not an object", list: "not a list"}


def refuse(wrong: object, at: str, says: str, value: str = "") -> None:
    """Failure about this place, and the value there, if something is wrong."""
    if wrong:
        raise Failure(f"{at} \"{printable(value)}\" {says}" if value else f"{at} {says}")


def checked(rule: Callable[[Any], str], value: Any, at: str) -> Any:
    """The value, or Failure about its fault."""
    fault = rule(value)
    refuse(fault, at, fault, value if isinstance(value, str) else "")
    return value


def member(default: Any, **how: Any) -> Any:
    """A field. A default that is a type makes a new value each time. how: rule, a function that
    returns the value's fault or ""; of, the dataclass of an object, or of a list's items; unique,
    members that differ in all items; needed; when, a function of the whole object: is it written?
    key, in JSON, if not the name with "-" for "_"."""
    usual = "default_factory" if isinstance(default, type) else "default"
    return dataclasses.field(metadata={"key": "", **how}, **{usual: default})


needed = partial(member, "", needed=True)


def fields(kind: Any) -> dict[str, dataclasses.Field[Any]]:
    """The members of a dataclass by their keys."""
    return {f.metadata["key"] or f.name.replace("_", "-"): f for f in dataclasses.fields(kind)
            if f.metadata}


def word(*words: Any) -> Callable[[Any], str]:
    return lambda value: "" if value in words else "must be " + any_of(map(str, words))


def between(least: int, most: int) -> Callable[[int], str]:
    return lambda value: "" if least <= value <= most else f"is not between {least} and {most}"


def first_fault(checks: Iterable[tuple[object, str]]) -> str:
    """checks: conditions, each with the text of its fault."""
    return next((says for wrong, says in checks if wrong), "")


def rule(*parts: tuple[str, str], missing: str = MISSING) -> Callable[[str], str]:
    """parts: patterns that match the whole text, each with the text of its fault. missing: the
    fault of an empty one."""
    def fault(text: str) -> str:
        if not text:
            return missing
        return first_fault((not re.fullmatch(pattern, text, re.DOTALL), says)
                           for pattern, says in parts)
    return fault


def _member(how: Any, usual: Any, value: Any, at: str) -> Any:
    """The value as the dataclass has it, of the type of the usual one."""
    of, kind, unique = how.get("of"), type(usual), how.get("unique", ())
    if of and kind is not list:
        return read_object(of, value, at)
    refuse(type(value) is not kind, at, f"is {KINDS.get(kind)}")
    if not of:
        return checked(how.get("rule", lambda _: ""), value, at)
    items, seen = [read_object(of, item, f"{at}[{i}]") for i, item in enumerate(value)], set()
    for i, item in enumerate(items if unique else ()):
        key = tuple(getattr(item, name) for name in unique)
        refuse(key in seen, f"{at}[{i}].{unique[0]}", "is listed twice", str(key[0]))
        seen.add(key)
    return items


def read_object(kind: Any, value: Any, at: str) -> Any:
    """An object as a dataclass. Its faults() are about several members together: conditions,
    each with its text, which begins with the place within the object."""
    refuse(type(value) is not dict, at, "is not an object")
    within, known, made = f"{at}." if at else "", fields(kind), kind()
    for key in value:
        refuse(key not in known, within + printable(key), "is not known")
    for key, f in known.items():
        if value.get(key) is not None:
            usual = getattr(made, f.name)
            setattr(made, f.name, _member(f.metadata, usual, value[key], within + key))
        else:
            refuse(f.metadata.get("needed"), within + key, MISSING)
    for wrong, says in made.faults() if hasattr(made, "faults") else ():
        if wrong:
            raise Failure(within + says)
    return made


def read_json(kind: Any, text: str, name: str) -> Any:
    """read_object() of a file's text. name: the file's, for a Failure."""
    value = load_json(text, name)
    with at_place(name):
        return read_object(kind, value, "")


def json_of(value: Any) -> Any:
    """The reverse of read_object."""
    if isinstance(value, list):
        return [json_of(item) for item in value]
    if not dataclasses.is_dataclass(value):
        return value
    members = {}
    for key, f in fields(value).items():
        one = json_of(getattr(value, f.name))
        if one not in (None, "", {}) or f.metadata.get("needed"):
            if f.metadata.get("when", lambda _: True)(value):
                members[key] = one
    return members
