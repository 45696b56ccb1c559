# SPDX-License-Identifier: Apache-2.0
"""Plans of copies for the I/O model: buffer sizes and CPUs by rule, and refusals; what sysfs tells
of packages, cores and caches; faults in the options of a command."""
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import TOP
from rftp_common import (JSON, Command, Failure, Misuse, Option, Options, count, format_ids,
                         parse, parse_ids, size)
from rftp_machine import Machine, Node, caches_of, cores_of, package_of
from rftp_numa import measure

MIB = 1 << 20


@pytest.fixture
def machine(tmp_path: Path) -> Any:
    """A function that returns the sysfs of a described machine."""
    def make(name: str) -> str:
        subprocess.run([sys.executable, str(TOP / "tests/e2e/make-sysfs"),
                        str(TOP / "tests/unit/sysfs" / name), str(tmp_path / name)], check=True)
        return str(tmp_path / name)
    return make


@pytest.mark.parametrize("all,biggest,threads,want", [
    (0, 0, 4, 32),       # cache sizes unknown
    (8, 8, 4, 32),       # the minimum
    (48, 24, 12, 32),
    (105, 105, 2, 210),  # four times a thread's share
    (105, 105, 8, 54),   # 52.5, rounded up to huge pages
    (504, 504, 64, 252),  # half of a cache
    (256, 32, 64, 32)])
def test_bytes(all: int, biggest: int, threads: int, want: int) -> None:
    caches = [biggest * MIB] * (all // biggest) if biggest else []
    assert measure.wanted_bytes(caches, threads) == want * MIB


@pytest.mark.parametrize("room,buffers,want", [
    (1024, 8, 58), (1024, 16, 26), (1024, 7, 66),  # 73.1 down to huge pages: 72
    (128, 8, 2), (96, 8, 0), (2, 1, 0), (0, 1, 0)])
def test_fit(room: int, buffers: int, want: int) -> None:
    assert measure.fitting_bytes(room * MIB, buffers) == want * MIB


@pytest.mark.parametrize("allowed,threads,want", [
    ("0-7,16-23", 4, [0, 1, 2, 3]), ("0-7,16-23", 10, [0, 1, 2, 3, 4, 5, 6, 7, 16, 17]),
    ("2,18-19", 3, [2, 19, 18]), ("18,19", 2, [18, 19]), ("0-1", 3, [0, 1]), ("", 1, [])])
def test_cpus(machine: Any, allowed: str, threads: int, want: list[int]) -> None:
    """Too few CPUs: all of them."""
    cpus = sorted(parse_ids(allowed) or ())
    assert measure.cpus_for(cpus, cores_of(cpus, machine("two")), threads) == want


@pytest.mark.parametrize("cpus,firsts", [
    ("0-7,16-23", "0-7"), ("16-23", "16-23"), ("3,19", "3"), ("4,18,20", "4,18"), ("", ""),
    ("100", "100")])
def test_cores(machine: Any, cpus: str, firsts: str) -> None:
    assert format_ids(cores_of(parse_ids(cpus) or (), machine("two"))) == firsts


@pytest.mark.parametrize("cpus,sizes", [
    ("0-7,16-23", [16, 16]), ("0", [16]), ("8-15", [24]), ("0-31", [16, 16, 24]), ("100", []),
    ("", [])])
def test_caches(machine: Any, cpus: str, sizes: list[int]) -> None:
    assert sorted(caches_of(parse_ids(cpus) or (), machine("two"))) == [n * MIB for n in sizes]


@pytest.mark.parametrize("name,cpus,package", [
    ("eight", "28-31", 3), ("eight", "20-23", 2), ("eight", "20-31", None), ("eight", "", None),
    ("two", "0-7,16-23", 0), ("two", "8-15,24-31", None),  # a CPU without package id
    ("four", "0-5", None)])  # no CPU has a package id
def test_packages(machine: Any, name: str, cpus: str, package: int | None) -> None:
    assert package_of(parse_ids(cpus) or (), machine(name)) == package


def options(**given: Any) -> Options:
    names = ("target", "threads", "size", "copies", "rounds")
    return Options(**{**dict.fromkeys(names), **given})


def test_plan(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(Node, "is_allowed", lambda node: node.id != 3)
    monkeypatch.setattr(measure, "caches_of", lambda cpus: [])
    cpus, room = os.sched_getaffinity(0), 10 << 30
    m = Machine({n: Node(n, cpus if n == 0 else set(), {}, room, room) for n in (0, 1, 2, 3)},
                limit=1 << 60)
    m.nodes[2].memory = None
    plan = measure.plan_copies(options(threads=1, size=4 * MIB + 1), m, 0)
    assert (plan["target"], len(plan["cpus"]), plan["nodes"], plan["bind"]) == (0, 1, [0, 1], True)
    assert (plan["bytes"], plan["copies"], plan["rounds"]) == (4 * MIB + measure.up_to(
        os.sysconf("SC_PAGE_SIZE"), 1), 10, 10)
    said = capsys.readouterr().err
    assert "node 2 is left out: node 2 has no memory" in said
    assert "node 3 is left out: this process may not have node 3's memory (cpuset)" in said
    m.nodes[1].room = 2 * (36 * MIB + measure.SLACK)
    monkeypatch.setattr(measure, "caches_of", lambda cpus: [64 * MIB])
    assert measure.plan_copies(options(threads=1), m, 0)["bytes"] == 36 * MIB
    assert "buffers are 36.0 MiB and not 256 MiB" in capsys.readouterr().err
    for given, target, text in (
            ({}, 1000, "no node 1000"), ({}, 1, "no CPUs"), ({"threads": 8192}, 0, "--threads"),
            ({"size": 1 << 50, "threads": 1}, 0, "--size")):
        with pytest.raises(Failure) as why:
            measure.plan_copies(options(**given), m, target)
        assert text in str(why.value)
    m.limit = 64 * MIB
    with pytest.raises(Failure) as why:
        measure.plan_copies(options(threads=1, size=32 * MIB), m, 0)
    assert "control group may have 64.0 MiB, half of it for us, and 3 buffers" in str(why.value)


# ---- options ----

COMMAND = Command("x", "", [
    JSON, Option("count", "N", "", count(1, 9)), Option("size", "SIZE", "", size(1, 1 << 20)),
    Option("portal", "ADDRESS", "", many=True), Option("sizes", "LIST", "")], "PLAN [DIR...]")


def test_options() -> None:
    line = "--js a --c 9 --size 4K --portal p b --portal q"
    o = parse(COMMAND, line.split())
    assert o and o.json and (o.count, o.size, o.portal) == (9, 4096, ["p", "q"])
    assert o.words == ["a", "b"]
    o = parse(COMMAND, ["--", "--json"])
    assert o and not o.json and o.words == ["--json"]


@pytest.mark.parametrize("line,text", [
    ("--count 0", "--count must be a number"), ("--count 10", "--count must be a number"),
    ("--size 2M", "--size must be a size"), ("--size", "--size needs a value (SIZE)"),
    ("--nothing", "there is no option --nothing"), ("-z", "there is no option -z"),
    ("--cuont 1", "there is no option --cuont (did you mean --count?)"),
    ("--json=1", "--json takes no value"), ("--help=1", "--help takes no value"),
    ("--o", "there is no option --o"), ("--sysfs", "there is no option --sysfs"),
    ("--si 4K", "--si is the beginning of several options: --size, --sizes"), ("", "x needs PLAN")])
def test_misused(line: str, text: str) -> None:
    with pytest.raises(Misuse) as why:
        parse(COMMAND, line.split())
    assert str(why.value).startswith(text)
