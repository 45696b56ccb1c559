# SPDX-License-Identifier: Apache-2.0
"""rftp-slurm: the command line, the places of transfers, progress and the report.
tests/e2e/slurm.sh has the rest."""
import json
import xml.dom.minidom

import pytest
from rftp_machine import Machine, Nic, Node
from rftp_slurm import report, state, task
from rftp_slurm.cli import divide
from rftp_slurm.report import Run


def test_options_of_rftp_are_told_from_ours():
    given = "-a --nodes 4 --rate 5M --time=2 src --wait rftp://h/x".split()
    assert divide(given) == (["--nodes", "4", "--time=2", "--wait"],
                             ["-a", "--rate", "5M", "src", "rftp://h/x"])
    assert divide(["--nodes"]) == (["--nodes"], [])


FREE = ["--cpu-bind=none"], []


def machine(*nics):
    m = Machine()
    m.nodes = {0: Node(0, {0}, {}), 1: Node(1, {1}, {})}
    for name, node, mbps in nics:
        m.nics[name] = Nic(node, mbps, card=True)
    return m


def test_one_transfer_uses_all_cards():
    assert task.placed(machine(("a", 0, 100000), ("b", 1, 100000)), 1) == [FREE]


def test_several_transfers_have_one_fast_card_each():
    cards = machine(("a", 1, 100000), ("b", 0, 100000), ("mgmt", 0, 1000), ("down", 0, 0))
    assert [(srun[0], rftp) for srun, rftp in task.placed(cards, 3)] == [
        ("--cpu-bind=map_ldom:1", ["--nic", "a"]), ("--cpu-bind=map_ldom:0", ["--nic", "b"]),
        ("--cpu-bind=map_ldom:1", ["--nic", "a"])]
    assert task.placed(machine(("a", -1, 1), ("b", 0, 1)), 2)[0] == (FREE[0], ["--nic", "a"])
    for few in machine(), machine(("a", 0, 100000), ("mgmt", 0, 1000)):
        assert task.placed(few, 2) == [FREE] * 2


@pytest.fixture
def copy(tmp_path):
    at = tmp_path / "20261128-190412-a1b2c3d4"
    (at / "plan").mkdir(parents=True)
    (at / "plan/plan.json").write_text(json.dumps({"command": "put", "files": 3, "shards": [
        {"list": "shard-0001.jsonl", "pieces": 2, "bytes": 30},
        {"list": "shard-0002.jsonl", "pieces": 1, "bytes": 5},
        {"list": "shard-0003.jsonl", "pieces": 0, "bytes": 0}]}))
    done = '{"event":"done","bytes":%d,"digest":"0","path":"%s"}\n'
    (at / "plan/shard-0001.result.jsonl").write_text(
        done % (10, "a") + '{"event":"failed","path":"b"}\n' + done % (5, "c") +
        '{"event":"lost","path":"c","offset":0,"length":5}\n'
        '{"event":"failed","path":"\\"event\\":\\"done\\",\\"bytes\\":7}"}\n' +
        (done % (20, "b"))[:-9])
    events = [{"event": "run", "at": 1000.0, "host": "n1"},
              {"event": "progress", "seconds": 2, "bytes": 4},
              {"event": "file_failed", "path": "old", "text": "mended"},
              {"event": "run", "at": 1010.0, "host": "n2"},
              {"event": "file_failed", "path": "b", "text": "no space"},
              {"event": "summary", "seconds": 3.0, "bytes": 6,
               "stages": {"network": 0.2, "rate": 0.7}}]
    (at / "shard-1.jsonl").write_text(
        '{"torn\n' + "\n".join(map(json.dumps, events)) + '\n{"event":"pro')
    (at / "shard-2.log").write_text("rftp: one\nrftp: h: refused\n")
    return state.State(str(at), {"submission": 1, "tasks_per_node": 2})


def test_progress_counts_whole_lines_of_done_items(copy):
    assert [(p.done, p.moved, p.complete) for p in state.progress(copy)] == [
        (1, 10, False), (0, 0, False), (0, 0, True)]
    assert [p.number for p in state.progress(copy, [2])] == [2]


def test_runs_keep_their_hosts_apart(copy):
    assert [(r.host, r.begun, r.seconds, r.bytes, r.held_back) for r in report.runs(copy, 1)] == [
        ("n1", 1000.0, 2, 4, ""), ("n2", 1010.0, 3.0, 6, "rate")]
    assert report.runs(copy, 2) == []


def test_busy_counts_overlaps_once_and_gaps_never():
    def run(begun, seconds):
        return Run("n", begun, [(seconds, 1)])
    assert report.busy([]) == 0
    assert report.busy([run(10, 5), run(0, 2), run(12, 1), run(14, 3)]) == 9


def test_report(copy):
    found = report.make(copy, False)
    assert (found["bytes"], found["seconds"], found["missing"]) == (10, 5.0, [1, 2])
    assert [(h["host"], h["bytes_per_second"]) for h in found["hosts"]] == [("n1", 2), ("n2", 2)]
    text = report.text(found)
    assert "slowest: list 1 on n2, 5 s, held back by rate" in text
    assert "failed: b: no space" in text and "mended" not in text
    assert "failed: shard-0002.jsonl: rftp: h: refused" in text
    assert "not done: list 1, 2 (rftp-slurm retry" in text
    report.write(copy, found)
    assert report.read(copy)["bytes"] == 10
    copy.job["submission"] = 2
    assert report.read(copy) is None


def test_points_go_on_over_the_transfers_of_a_run(copy):
    events = [{"event": "run", "host": "n", "at": 7}]
    for kept in 0, 10:
        events += [{"event": "started"},
                   {"event": "progress", "seconds": 1.0, "bytes": 5 + kept, "bytes_kept": kept},
                   {"event": "progress", "seconds": 2.0, "bytes": 8 + kept, "bytes_kept": kept}]
    with open(copy.file("shard-1.jsonl"), "w", encoding="utf-8") as file:
        file.writelines(json.dumps(event) + "\n" for event in events)
    (run,) = report.runs(copy, 1)
    assert run.points == [(1.0, 5), (2.0, 8), (3.0, 13), (4.0, 16)]  # killed: no summary
    with open(copy.file("shard-1.jsonl"), "a", encoding="utf-8") as file:
        file.write(json.dumps({"event": "summary", "seconds": 4.5, "bytes": 16}) + "\n")
    (run,) = report.runs(copy, 1)
    assert (run.seconds, run.bytes) == (4.5, 16)


def test_rates_sum_up_to_the_bytes():
    def run(begun, *points):
        return {"begun": begun, "points": points}
    for runs in ([run(5.0, (1, 10), (2.5, 40))], [run(0.0, (9000, 1 << 40))],
                 [run(5.0, (10, 100)), run(7.3, (0.0, 3), (4.1, 9))]):
        points = report.rates(runs)
        step = points[1][0] - points[0][0]
        assert sum(rate for _, rate in points) * step == pytest.approx(
            sum(r["points"][-1][1] for r in runs))
        assert len(points) <= report.POINTS_MOST + 1
    assert report.rates([run(5.0)]) == []


def test_drawing_is_xml(copy):
    found = report.make(copy, False)
    found["id"] = "<&"
    for runs in found["runs"], []:
        xml.dom.minidom.parseString(report.drawing({**found, "runs": runs}))
