# SPDX-License-Identifier: Apache-2.0
"""fio's reports, recorded from fio 3.33 and damaged; placements; events from sysfs; the scheduling
factor; sizes and lists."""
from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]
sys.path.insert(0, str(TOP / "src/numa/tools"))

from rftp_common import (Failure, format_ids, format_rate, format_size, parse_ids, parse_rate,
                              parse_size, printable)
from rftp_machine import Machine, Node
from rftp_numa import factor
from rftp_numa.affinity import farthest_node, parse_report, placements, summary


def recorded(name: str) -> str:
    return (TOP / "tests/py/fio" / name).read_text()


def result(rate: float, mean: float, p99: float) -> dict[str, float]:
    return {"bytes_per_second": rate, "mean_ns": mean, "p99_ns": p99}


def test_recorded() -> None:
    read = parse_report("fio: a warning {\n" + recorded("read") + "\nfio: another }\n", "read")
    assert read == result(1194037141, pytest.approx(1753113.091148), 8454144)
    write = parse_report(recorded("write"), "write")
    assert (write["mean_ns"], write["p99_ns"]) == (pytest.approx(671793.592920), 1036288)
    with pytest.raises(Failure, match="write"):  # the unused direction has only zeros
        parse_report(recorded("read"), "write")
    with pytest.raises(Failure, match="job failed: Invalid argument"):
        parse_report(recorded("failed"), "read")


def test_cut() -> None:
    text = recorded("read")
    for n in range(text.rindex("}"), 0, -97):
        with pytest.raises(Failure):
            parse_report(text[:n], "read")


GOOD = '{"jobs":[{"error":0,"read":{"bw_bytes":5,"lat_ns":{"mean":1,"percentile":{"99.000000":2}}}}]}'


@pytest.mark.parametrize("was,now", [
    (GOOD, ""), (GOOD, "fio: no output {}"), (GOOD, "{}"), (GOOD, '{"jobs":{}}'), (GOOD, '{"jobs":[]}'),
    (GOOD, '{"jobs":[7]}'), ('"error":0', '"error":"0"'), ('"error":0', '"error":28'),
    ('"bw_bytes":5', '"x":5'), ('"bw_bytes":5', '"bw_bytes":"5"'), ('"bw_bytes":5', '"bw_bytes":-5'),
    ('"bw_bytes":5', '"bw_bytes":0'), ('"bw_bytes":5', '"bw_bytes":1e999'), ('"mean":1', '"mean":null'),
    ('"99.000000":2', '"99.000000":[]'), ('"percentile"', '"x"')])
def test_damaged(was: str, now: str) -> None:
    assert parse_report(GOOD, "read") == result(5, 1, 2)
    assert was in GOOD
    with pytest.raises(Failure):
        parse_report(GOOD.replace(was, now), "read")


# ---- placements ----


def test_placements() -> None:
    both = placements(3, 5)
    assert [tuple(p.values()) for p in both] == [
        ("TRLCPL", 3, 3), ("TRLCPR", 3, 5), ("TRRCPL", 5, 5), ("TRRCPR", 5, 3), ("none", None, None)]
    for p in both[:-1]:  # the names match the placement
        assert (p["name"][2] == "L", p["name"][5] == "L") == (p["memory_node"] == 3, p["memory_node"] == p["cpu_node"])
    assert [p["name"] for p in placements(0, None)] == ["TRLCPL", "none"]


def test_farthest(monkeypatch: pytest.MonkeyPatch) -> None:
    distances = [[10, 30, 20], [30, 10, 30], [20, 30, 10]]

    def machine(without: int = -1) -> Machine:
        return Machine({i: Node(i, {i}, dict(enumerate(d)), None if i == without else 1 << 30)
                        for i, d in enumerate(distances)})

    monkeypatch.setattr(Node, "is_allowed", lambda _: True)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2})
    assert [farthest_node(machine(), i) for i in range(3)] == [1, 0, 1]
    assert farthest_node(machine(without=1), 0) == 2  # a node without memory
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 2})
    assert farthest_node(machine(), 0) == 2           # and only a node on which our threads can run
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0})
    assert farthest_node(machine(), 0) is None


def test_summary() -> None:
    runs = [result(30, 1000, 7), result(10, 3000, 8), result(20, 2000, 90)]
    assert summary(runs) == {"bytes_per_second": 20, "mean_ns": 2000, "p99_ns": 8, "deviation": 0.5}


# ---- events ----


@pytest.fixture
def pmu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subprocess.run([sys.executable, str(TOP / "tests/e2e/make-sysfs"), str(TOP / "tests/unit/sysfs/pmu"),
                    str(tmp_path)], check=True)
    monkeypatch.setenv("RFTP_SYSFS", str(tmp_path))


@pytest.mark.parametrize("text,config", [
    ("cpu/event=0xb7,umask=1/", [0x1b7, 0, 0]), ("cpu/event=183,edge/", [0x400b7, 0, 0]),
    ("cpu/cache-misses/", [0x412e, 0, 0]),
    ("cpu/event=0xb7,umask=0x1,offcore_rsp=0xffffffffffffffff/", [0x1b7, (1 << 64) - 1, 0]),
    ("cpu/wide=0xa5/", [0xa00000005, 0, 0]), ("cpu/far=0xf/", [0, 0, 0xf000000000000000]),
    ("cpu/config=0x1234,config1=5,config2=6/", [0x1234, 5, 6]),
    ("cpu/umask=0xff,umask=1/", [0x100, 0, 0])])  # the last one counts
def test_terms(pmu: None, text: str, config: list[int]) -> None:
    event, = factor.parse_event(text)
    assert (event.name, event.type, event.config, event.cpus) == (text, 4, config, "")


@pytest.mark.parametrize("text,words", [
    ("", "not an event"), ("cpu", "not an event"), ("cpu/", "not an event"), ("cpu//", "not an event"),
    ("/event=1/", "not an event"), ("cpu/event=1", "not an event"), ("cpu/,/", "no event is named"),
    ("gpu/event=1/", "no PMU gpu"), ("uncore_cbo*/event=1/", "no PMU uncore_cbo"),
    ("../event=1/", "not an event"), ("cpu/none/", "\"none\""), ("cpu/../type/", "not an event"),
    ("cpu/event=0x100/", "does not fit"), ("cpu/edge=2/", "does not fit"), ("cpu/far=16/", "does not fit"),
    ("cpu/event=/", "not a number"), ("cpu/event=x/", "not a number"), ("cpu/event=-1/", "not a number"),
    ("cpu/event=0x10000000000000000/", "not a number"), ("cpu/broken/", "not a number"),
    ("cpu/odd=1/", "its format"), ("cpu/worse=1/", "its format"), ("uncore_imc_0/event=1/", "cpumask")])
def test_bad_terms(pmu: None, text: str, words: str) -> None:
    with pytest.raises(Failure) as why:
        factor.parse_event(text)
    assert words in str(why.value)


def test_units(pmu: None) -> None:
    """One name for several units; each counts on the CPUs in its cpumask. Unit 10 comes after 2."""
    assert [(e.type, e.cpus) for e in factor.parse_event("uncore_upi_*/event=2/")] == [
        (20, "0,16"), (21, "0,16"), (22, "0,16")]
    assert [e.type for e in factor.parse_event("uncore_upi_2/event=2/")] == [21]
    with pytest.raises(Failure):
        factor.parse_event("uncore_upi_/event=2/")


def test_snoops(pmu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    events = factor.find_snoops()
    assert [e.name for e in events][0] == "uncore_upi_0/rx_snp_code/" and len(events) == 3
    monkeypatch.setenv("RFTP_SYSFS", "/nowhere")
    assert factor.find_snoops() == []


def test_why_not() -> None:
    assert "no such counter" in factor.why_not(-2)
    assert "not allowed" in factor.why_not(-13)
    assert "container" in factor.why_not(-38)
    assert "busy" in factor.why_not(-16)
    missing = [{"event": e, "why": why} for e, why in (("a", "x"), ("b", "y"), ("c", "x"))]
    assert factor.grouped(missing) == "a, c: x; b: y"


def test_factor() -> None:
    """Snoops per line x ns / (GB/s): larger means worse."""
    assert factor.factor_of(0.5, 8, 20 * 10 ** 9) == pytest.approx(0.2)
    assert factor.factor_of(3, 8, 10 * 10 ** 9) == pytest.approx(2.4)
    assert factor.factor_of(3, 8, 0) == pytest.approx(24)  # an unknown bandwidth counts as 1 GB/s


def test_ranks() -> None:
    cells = [{"factor": f} for f in (3, None, 0.5, 3, 9)]
    factor.set_ranks(cells)  # the second is local
    assert [c["rank"] for c in cells] == [2, None, 1, 2, 4]


# ---- words and numbers ----


def test_numbers() -> None:
    assert [parse_size(s) for s in ("0", "4096", "64k", "4GiB", "1MB")] == [0, 4096, 65536, 4 << 30, 1 << 20]
    assert [parse_rate(s) for s in ("20bit", "10Gbit/s", "2G", "2MiB/s")] == [
        3, 1250000000, 2 << 30, 2 << 20]
    for word in ("", "K", "1Z", "-1", "1.5G", "99999999999P", "1 K", "16384P"):
        assert parse_size(word) is None
    assert format_size(1024 * 1023.6) == "1.0 MiB" and format_size(512) == "512 B"
    assert format_rate(200 << 20) == "200 MiB/s"


def test_ids() -> None:
    assert parse_ids("0-2,8\n") == {0, 1, 2, 8} and parse_ids("") == set()
    assert format_ids([3, 1, 2, 9]) == "1-3,9"
    for word in ("x", "1-", "3-1", "0,,1", "8192", "0-"):
        assert parse_ids(word) is None


def test_printable() -> None:
    assert printable("a\x1b[0m\\\udcff\u202e") == "a\\x1b[0m\\x5c\\xff\\xe2\\x80\\xae"
