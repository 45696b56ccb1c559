# SPDX-License-Identifier: Apache-2.0
"""Classes of nodes: the published tables are reproduced, and noise makes no class. Predictions."""
from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "src/numa/tools"))

from rftp_common import Misuse, format_ids, parse_ids
from rftp_numa.model import GBIT, Cell, Sight, class_average, classify, make_cell, parse_shares, predict

NEAR, FAR, MIDDLE = (46.5, 55.9), (26.0, 27.3), (42.9, 46.9)
WRITES = [MIDDLE, MIDDLE, FAR, FAR, MIDDLE, MIDDLE, NEAR, NEAR]
LEAST = (39.9, 40.9)
READS = [LEAST, LEAST, (46.9, 50.3), (46.9, 50.3), (27.9, 27.9), LEAST, (47.1, 51.2), (47.1, 51.2)]
WRITE_CLASSES, READ_CLASSES = "6-7 | 0-1,4-5 | 2-3", "6-7 | 2-3 | 0-1,5 | 4"


def exact(node: int, gbit: float, spread: float = 0) -> Cell:
    return {"node": node, "median": gbit * GBIT, "low": gbit * (1 - spread / 2) * GBIT,
            "high": gbit * (1 + spread / 2) * GBIT, "rounds": 10, "class": 1}


def seen(row: list[Cell], target: int, near: str, want: str) -> Sight:
    """Checks that the classes, in order, have these members."""
    sight = classify(row, target, parse_ids(near) or set())
    text = " | ".join(format_ids(c["node"] for c in row if c["class"] == number)
                      for number in range(1, sight.classes + 1))
    assert text == want
    assert (sight.view == "seen") == ("|" in want)
    return sight


def test_published() -> None:
    draw = random.Random(1)
    for _ in range(2000):
        noise = draw.uniform(0, 0.04)
        seen([exact(i, draw.uniform(*r), noise) for i, r in enumerate(WRITES)], 7, "6-7", WRITE_CLASSES)
        seen([exact(i, draw.uniform(*r), noise) for i, r in enumerate(READS)], 7, "6-7", READ_CLASSES)


def test_published_ends() -> None:
    """The extremes of the published ranges: the classes are closest, and their members farthest
    apart."""
    for ends in range(1 << 8):
        seen([exact(i, r[ends >> i & 1], 0.02) for i, r in enumerate(WRITES)], 7, "6-7", WRITE_CLASSES)
        seen([exact(i, r[ends >> i & 1], 0.02) for i, r in enumerate(READS)], 7, "6-7", READ_CLASSES)


@pytest.mark.parametrize("ratios", [
    (1.8, 1, 1.81, 2.37), (5.94, 1, 5.89, 6.63), (2.0, 1, 2.09, 2.36), (1.009, 1, 1.002, 1.314)],
    ids=["model", "STREAM", "TCP", "RDMA_WRITE"])
def test_ring(ratios: tuple[float, ...]) -> None:
    """Bandwidth of node 1 relative to each node's, on a ring of four packages."""
    seen([exact(i, 100 / ratio, 0.01) for i, ratio in enumerate(ratios)], 1, "1", "1 | 0,2 | 3")


@pytest.mark.parametrize("what,gbit,spread,near,want,view", [  # the target is node 0
    ("all alike", (50, 50, 50, 50), (0, 0, 0, 0), "0", "0-3", "alike"),
    ("local and remote", (50, 40, 40, 40), (0, 0, 0, 0), "0", "0 | 1-3", "seen"),
    ("remote is faster", (40, 50, 50, 50), (0, 0, 0, 0), "0", "0 | 1-3", "seen"),
    ("in their midst", (50, 52, 51, 48), (0, 0, 0, 0), "0", "0-3", "alike"),
    ("just a tenth", (50, 45, 45, 45), (0, 0, 0, 0), "0", "0 | 1-3", "seen"),
    ("not quite", (50, 45.1, 45.1, 45.1), (0, 0, 0, 0), "0", "0-3", "alike"),
    ("two borders", (50, 40, 30, 20), (0, 0, 0, 0), "0", "0 | 1 | 2 | 3", "seen"),
    ("near by definition", (50, 20, 40, 40), (0, 0, 0, 0), "0-1", "0-1 | 2-3", "seen"),
    ("as good as local", (50, 50, 50, 40), (0, 0, 0, 0), "0", "0 | 1-2 | 3", "seen"),
    ("none but near ones", (50, 20, 30, 40), (0, 0, 0, 0), "0-3", "0-3", "alone"),
    ("the upper one is noisy", (50, 50, 50, 40), (0, 0.25, 0.25, 0), "0", "0-3", "noise"),
    ("the lower one is noisy", (50, 50, 50, 40), (0, 0, 0, 0.3), "0", "0-3", "noise"),
    ("the local one is noisy", (50, 40, 40, 40), (0.3, 0, 0, 0), "0", "0-3", "noise"),
    ("one farther up reaches over", (50, 52, 50, 40), (0, 0.4, 0, 0), "0", "0-3", "noise"),
    ("one farther down reaches over", (50, 50, 40, 38), (0, 0, 0, 0.5), "0", "0-3", "noise"),
    ("noise that is elsewhere", (50, 50, 30, 20), (0, 0, 0.7, 0), "0", "0-3", "noise"),
    ("a border all the same", (50, 50, 30, 20), (0, 0, 0.4, 0.4), "0", "0 | 1 | 2-3", "seen")])
def test_rule(what: str, gbit: tuple[float, ...], spread: tuple[float, ...], near: str, want: str,
              view: str) -> None:
    row = [exact(i, g, s) for i, (g, s) in enumerate(zip(gbit, spread))]
    assert seen(row, 0, near, want).view == view, what


def test_one_sided() -> None:
    """A wide spread counts as noise even on the side away from the other node."""
    row = [exact(0, 50), exact(1, 40)]
    seen(row, 0, "0", "0 | 1")
    row[0]["high"] = 1.21 * row[0]["median"]
    assert seen(row, 0, "0", "0-1").view == "noise"
    row = [exact(0, 50), exact(1, 40)]
    row[1]["low"] = 0.7 * row[1]["median"]
    assert seen(row, 0, "0", "0-1").view == "noise"


def test_why() -> None:
    row = [exact(0, 50, 0.02), exact(1, 40, 0.50)]
    sight = seen(row, 0, "0", "0-1")
    assert (sight.view, sight.above, sight.below) == ("noise", 0, 1)
    assert (sight.gap, sight.spread) == (pytest.approx(0.2), pytest.approx(0.4))  # 20 of 50
    row[1] = exact(1, 20, 0.01)
    row[1]["rounds"] = 4
    assert seen(row, 0, "0", "0-1").view == "few"
    row[1]["rounds"] = 5
    seen(row, 0, "0", "0 | 1")
    assert seen(row[:1], 0, "0", "0").view == "alone"


def test_hidden() -> None:
    """A visible border does not exclude a hidden one."""
    row = [exact(0, 50), exact(1, 50), exact(2, 30, 0.4), exact(3, 24, 0.4)]
    sight = seen(row, 0, "0", "0 | 1 | 2-3")
    assert sight.hidden and (sight.above, sight.below) == (2, 3)
    assert sight.gap == pytest.approx(0.2)
    row[3] = exact(3, 29, 0.4)
    assert not seen(row, 0, "0", "0 | 1 | 2-3").hidden
    row[2:] = exact(2, 30, 0.01), exact(3, 24, 0.01)
    assert not seen(row, 0, "0", "0 | 1 | 2 | 3").hidden


def test_noise() -> None:
    """All nodes have the same bandwidth, with more or less noise."""
    draw, rows, classes = random.Random(2), 0, 0
    for deviation in (0.001, 0.01, 0.03, 0.05, 0.1, 0.2, 0.4):
        for nodes in (2, 4, 8):
            for _ in range(150):
                row = [make_cell(i, [max(1e6, draw.gauss(50e6, 50e6 * deviation)) for _ in range(10)])
                       for i in range(nodes)]
                classes += classify(row, 0, {0}).view == "seen"
                rows += 1
    assert classes * 1000 < rows * 3


def test_through_noise() -> None:
    """The same rule finds real classes; one round of ten is disturbed."""
    draw = random.Random(3)
    for turn in range(300):
        row = []
        for i, r in enumerate(WRITES):
            mean = draw.uniform(*r)
            rounds = [1e6 * draw.gauss(mean, 0.005 * mean) for _ in range(10)]
            rounds[turn % 10] *= 0.8
            row.append(make_cell(i, rounds))
        seen(row, 7, "6-7", WRITE_CLASSES)


def test_cell() -> None:
    cell = make_cell(0, [900, 100, 800, 200, 700, 300, 1000, 400, 600, 500])
    assert (cell["median"], cell["low"], cell["high"]) == (550, 190, 910)
    cell = make_cell(0, [4])
    assert (cell["median"], cell["low"], cell["high"], cell["rounds"]) == (4, 4, 4, 1)
    assert make_cell(0, [80, 40])["low"] == 44


def test_average() -> None:
    row = [exact(0, 10), exact(1, 30), exact(2, 20)]
    row[1]["class"] = 2
    assert [class_average(row, number) for number in (1, 2, 3)] == [15 * GBIT, 30 * GBIT, 0]


# ---- mixed access ----


def test_predict() -> None:
    """The published case: 20.017 Gbit/s predicted, 19.415 measured."""
    row = [exact(i, g) for i, g in enumerate((18.036, 18.036, 21.998, 21.998, 16.1, 18.036, 22, 22))]
    seen(row, 7, "6-7", READ_CLASSES)
    assert predict(row, parse_shares("2:50,0:50")) / GBIT == pytest.approx(20.017, abs=0.0005)
    assert predict(row, parse_shares("7:100")) / GBIT == pytest.approx(22)
    row[2] = exact(2, 21.8)
    seen(row, 7, "6-7", READ_CLASSES)
    assert predict(row, parse_shares("2:100")) / GBIT == pytest.approx((21.8 + 21.998) / 2)
    assert predict(row, parse_shares("4:25.5,7:74.5")) / GBIT == pytest.approx(.255 * 16.1 + .745 * 22)


@pytest.mark.parametrize("words", [
    "0:100", "0:50,1:50", "0:33.3333,1:33.3333,2:33.3334", "1023:100.0000", "0:100."])
def test_good_shares(words: str) -> None:
    assert sum(part for _, part in parse_shares(words)) == pytest.approx(1)


@pytest.mark.parametrize("words", [
    "", "0", "0:", ":100", "0:50", "0:50,1:51", "0:100,", ",0:100", "0:50,0:50", "a:100", "0:-100", "0:+100",
    "0:1e2", "0: 100", "0:100 ", " 0:100", "1024:100", "0:101", "0:99999999999999999999,1:1",
    "99999999999999999999:100", "0:0x64", "0:nan", "0:33.33333,1:66.66667", "0:50;1:50", "0:50.1,1:50",
    "0:100,1:0.0001", "0:100.5"])
def test_bad_shares(words: str) -> None:
    with pytest.raises(Misuse):
        parse_shares(words)
