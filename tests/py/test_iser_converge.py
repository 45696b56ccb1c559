# SPDX-License-Identifier: Apache-2.0
"""Tests of converge.py from tables: the differences, their order and the data they destroy. A
change that is killed after any difference can still be completed or undone."""
from __future__ import annotations

import copy
import json
import os
import time
from pathlib import Path

import pytest
import rftp_common
from rftp_common import Failure, Options
from rftp_iser import apply, checks, converge, host, plan, state, target
from rftp_iser.converge import Ask
from rftp_iser.host import Acl, Items, Mount, Store, Target
from rftp_iser.state import State
from rftp_machine import Node
from rftp_members import json_of
from rftp_numa import placement

MIB = 1 << 20
IQN = "iqn.2026-01.org.example:node0"
ME, YOU = "iqn.2026-01.org.example:me", "iqn.2026-01.org.example:you"


def store(lun: int = 0, kind: str = "tmpfs", size: int = 16 * MIB, **more: object) -> dict[str,
    object]:
    out = {"lun": lun, "name": "disk%d" % lun, "kind": kind, "node": 0, "size": size,
           "serial": "00000000-0000-4000-8000-00000000000%d" % lun}
    return dict(out, path="/ram/disk%d" % lun, **more) if kind != "ramdisk" else dict(out, **more)


def make_plan(*stores: dict[str, object], initiators: tuple[str, ...] = (ME,), open: bool = False,
              address: str = "10.0.0.1", iser: bool = True) -> plan.Plan:
    target = {"node": 0, "iqn": IQN, "open": open, "portals": [{"address": address, "iser": iser}],
              "initiators": [{"name": i} for i in initiators], "luns": list(stores)}
    return plan.parse(json.dumps({"rftp-iser-plan": 1, "name": "one", "targets": [target]}), "test")


SIZES = {"/ram": 0, "/ram/disk0": 0, "/ram/disk0/disk.img": 16 * MIB}


@pytest.fixture(autouse=True)
def _files(monkeypatch: pytest.MonkeyPatch) -> None:
    """The files and directories (of 0 bytes) of the host."""
    monkeypatch.setattr(host, "size_of", lambda path: SIZES.get(path, -1))
    monkeypatch.setattr(host, "is_directory", lambda path: SIZES.get(path) == 0)


def ask_of(want: plan.Plan | None, applied: plan.Plan | None = None, actual: Items | None = None,
           **more: object) -> Ask:
    found = State("/state", "one", applied=applied)
    return Ask(want, found, [], actual or {}, **more)  # type: ignore[arg-type]


def items(p: plan.Plan) -> Items:
    """A host that serves p."""
    return converge.wish(ask_of(p), {})


def enact(d: converge.Difference, has: Items) -> None:
    """Applies a difference like target.py."""
    kind = d.key[0]
    if d.to is None:
        gone = {d.key}
        for key in sorted(has, key=lambda k: converge.ORDER.index(k[0])):
            parents = converge.parents(key, has[key], {("mount", "/ram/disk0"): 1, ("mount",
                "/ram/disk1"): 1})
            if any(p in gone for p in parents):
                gone.add(key)
        for key in gone:
            has.pop(key, None)
        return
    has[d.key] = d.to
    if kind == "lun":
        has.update({("mapped", IQN, k[2], d.key[2]): (d.key[2], False)
                    for k in has if k[0] == "acl"})
    if kind == "acl":
        has[("auth", IQN, d.key[2])] = ("", "", "", "")
        has.update({("mapped", IQN, d.key[2], k[2]): (k[2], False)
                    for k in has if k[0] == "lun"})


def texts(has: Items, wants: Items) -> list[str]:
    return [converge.text(d) for d in converge.differences(has, wants, ask_of(TWO).stores)]


TWO = make_plan(store(), store(1, "ramdisk", MIB), initiators=(ME, YOU))
STATES = {
    "nothing": {},
    "one": items(make_plan(store())),
    "bigger": items(make_plan(store(size=32 * MIB))),
    "two": items(TWO),
    "another address": items(make_plan(store(), address="10.0.0.2")),
    "TCP": items(make_plan(store(), iser=False)),
    "a file": items(make_plan(store(kind="file"))),
    "open": items(make_plan(store(), initiators=(), open=True)),
    "write-back": items(make_plan(store(**{"write-back": True}))),
}


@pytest.mark.parametrize("before", STATES)
@pytest.mark.parametrize("after", STATES)
def test_killed_after_any_difference(before: str, after: str) -> None:
    has, wants = STATES[before], STATES[after]
    number = len(converge.differences(has, wants, {}))
    for killed in range(number + 1):
        now = copy.copy(has)
        for d in converge.differences(has, wants, {})[:killed]:
            enact(d, now)
        there, back = copy.copy(now), copy.copy(now)
        for d in converge.differences(there, wants, {}):
            enact(d, there)
        assert converge.differences(there, wants, {}) == []
        for d in converge.differences(back, has, {}):
            enact(d, back)
        assert converge.differences(back, has, {}) == []
    if before == after:
        assert number == 0


def test_order() -> None:
    made = [d.key[0] for d in converge.differences({}, STATES["one"], {})]
    assert made == ["dir", "dir", "mount", "file", "store", "target", *["target-attribute"] * 4,
                    "lun", "acl",
                    "portal", "enabled"]
    gone = [d.key[0] for d in converge.differences(STATES["one"], {}, {})]
    assert gone == ["enabled", "portal", "acl", "lun", "target", "store", "mount", "dir", "dir"]


def test_between_lun_and_acl() -> None:
    has = dict(STATES["one"])
    del has["mapped", IQN, ME, 0]
    assert texts(has, STATES["one"]) == ["map LUN 0 for %s at %s: LUN 0 of the target" % (ME,
        IQN)]
    del has["acl", IQN, ME]
    assert texts(has, STATES["one"]) == ["let in initiator %s at %s" % (ME, IQN)]


def test_only_what_differs() -> None:
    assert texts(STATES["one"], STATES["two"]) == [
        "create back store disk1: 1.0 MiB, on node 0",
        "create LUN 1 of %s: back store disk1" % IQN,
        "let in initiator %s at %s" % (YOU, IQN)]


def test_closed_anew() -> None:
    keys = [d.key[:2] for d in converge.differences(STATES["open"], STATES["one"],
                                                    {}) if d.to is None]
    assert ("target", IQN) in keys and not any(k[0] in ("store", "mount") for k in keys)
    assert not [d for d in converge.differences(STATES["one"], STATES["open"],
                                                {}) if d.key[0] == "target"]


# ---- ownership ------------------------------------------------------------------------


def host_of(p: plan.Plan) -> Items:
    """The items that host.py reads on a host that serves p."""
    return {("lio",): True, ("iscsi",): True, **converge.items_of(p.targets)}


ONE = make_plan(store())


def prepared(ask: Ask) -> list[converge.Difference]:
    has = converge.have(ask)
    wants = converge.wish(ask, has)
    diffs = converge.differences(has, wants, ask.stores)
    checks.check(ask, has, wants, diffs)
    return [d for d in diffs if d.key[0] != "target-attribute"]


def test_foreign_target_is_refused() -> None:
    ask = ask_of(ONE, None, {**host_of(ONE), ("lun", IQN, 0): ("rd_mcp", "theirs")})
    prepared(ask)
    assert not any(p.startswith("LUN") for p in ask.problems)
    for what in (f"target {IQN}", "back store disk0"):
        assert any(f"{what}: LIO has it already, and this plan did not make it" in p
                   for p in ask.problems)


def test_nothing_to_do() -> None:
    ask = ask_of(ONE, ONE, host_of(ONE))
    assert prepared(ask) == [] and not ask.problems and not ask.notes


def test_guests_stay() -> None:
    actual = host_of(ONE)
    actual["lun", IQN, 9] = ("rd_mcp", "theirs")
    actual["acl", IQN, "iqn.2026-01.org.example:guest"] = Acl()
    ask = ask_of(ONE, ONE, actual)
    assert prepared(ask) == [] and not ask.problems
    ask = ask_of(None, ONE, actual)
    prepared(ask)
    assert any(f"LUN 9 of {IQN}, back store theirs, which this plan did not make, goes with it" in n
               for n in ask.notes)


@pytest.mark.parametrize("want, why", [
    (make_plan(store(size=32 * MIB)), "unmount tmpfs at /ram/disk0"),
    (make_plan(dict(store(), path="/other")), "unmount tmpfs at /ram/disk0"),
    (make_plan(dict(store(), node=1)), "unmount tmpfs at /ram/disk0"),
    (make_plan(store(1)), "unmount tmpfs at /ram/disk0"),
])
def test_loss_is_refused(want: plan.Plan, why: str) -> None:
    ask = ask_of(want, ONE, host_of(ONE))
    prepared(ask)
    assert ask.problems == ["back store disk0: %s: its data would be lost, which only "
                            "--destroy-data allows" % why]
    ask = ask_of(want, ONE, host_of(ONE), destroy=True)
    assert any(d.lossy for d in prepared(ask)) and not ask.problems


HALF = {**host_of(ONE), ("store", "fileio", "disk0"): host.Store(
    "/ram/disk0/disk.img", 16 * MIB, False, "", False)}
OTHER_NAME = dict(store(1, size=32 * MIB), lun=0, path="/ram/disk0")


@pytest.mark.parametrize("actual, want", [
    (host_of(ONE), make_plan(OTHER_NAME)),
    (host_of(ONE), make_plan(dict(OTHER_NAME, size=16 * MIB, policy="prefer"))),
    (HALF, make_plan(store(size=32 * MIB))),  # killed before the store was enabled again
    ({}, make_plan(OTHER_NAME)),  # the store is missing, but its data still exists
])
def test_loss_of_a_tmpfs_is_refused(actual: Items, want: plan.Plan) -> None:
    mount = ("mount", "/ram/disk0")
    ask = ask_of(want, ONE, {**actual, mount: host_of(ONE)[mount]})
    prepared(ask)
    lost = "unmount tmpfs at /ram/disk0: its data would be lost, which only --destroy-data"
    assert any(lost in problem for problem in ask.problems)


def test_loss_by_another_kind_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SIZES, "/srv/disk", 16 * MIB)
    before = make_plan(dict(store(kind="file"), path="/srv/disk"))
    block = {k: v for k, v in store(kind="block").items() if k != "size"}
    ask = ask_of(make_plan(dict(block, path="/dev/sdz")), before, host_of(before))
    prepared(ask)
    assert any("would be lost" in problem for problem in ask.problems)


def test_first_apply_killed_is_no_loss() -> None:
    """No data was served yet, so none can be lost."""
    ask = ask_of(make_plan(store(size=32 * MIB)), None, HALF)
    ask.state.applying = ONE
    prepared(ask)
    assert not ask.problems


def test_room_and_ports(tmp_path: Path) -> None:
    """apply refuses at once a change that would fail half way."""
    (tmp_path / "file").write_text("")
    want = make_plan(*(dict(store(n, kind="file", size=size), path=str(path)) for n, size, path in (
        (0, 1 << 50, tmp_path / "a"), (1, MIB, tmp_path / "file" / "b"), (2, MIB, tmp_path / "c"))))
    ask = ask_of(want, actual={("portal", "iqn.2026-01.org.example:theirs", "0.0.0.0", 3260): True})
    checks.check_host(ask, want, host.Host(), [])
    told = "\n".join(ask.problems)
    assert "disk0" in told and "more than its filesystem has left" in told
    assert "Not a directory" in told and "disk2" not in told
    assert "listens on this port of all addresses" in told


def test_logged_in() -> None:
    actual = host_of(ONE)
    actual["acl", IQN, ME] = Acl(logged_in=True)
    ask = ask_of(None, ONE, actual)
    prepared(ask)
    assert ask.problems == ["target %s: the initiator %s is logged in, and it would be deleted; log "
                            "out there first, or end its sessions with --force" % (IQN, ME)]
    ask = ask_of(None, ONE, actual, force=True)
    assert prepared(ask) and not ask.problems


def test_values() -> None:
    has = converge.have(ask_of(ONE, ONE, host_of(ONE)))
    assert has["mount", "/ram/disk0"] == Mount(16 * MIB, "bind", "0")
    assert has["target", IQN] == Target(True, False)
    assert has["store", "fileio", "disk0"] == Store("/ram/disk0/disk.img", 16 * MIB, False,
                                                    "00000000-0000-4000-8000-000000000000")


# ---- the commands, on a host that is a dict -------------------------------------------

EMPTY = {("lio",): True, ("iscsi",): True, ("cpus",): "0-3"}


class Killed(BaseException):
    pass


class World:
    """at: the number of the kill point that raises fault."""
    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch):
        self.path, self.items, self.at = path, dict(EMPTY), 0
        self.fault: type[BaseException] = Killed
        self.passed = 0
        nodes = {0: Node(0, {0, 1}, {0: 10}, 1 << 34, 1 << 34)}
        monkeypatch.undo()  # the test uses real files
        for module, name, value in (
                (target, "change", self.change), (target, "rtslib", lambda: None),
                (target, "save", lambda p, file, machine: Path(file).write_text("{}")),
                (apply, "kill_point", self.kill_point),
                (host, "read", lambda: dict(self.items)), (placement, "numa", lambda: None),
                (host, "read_host", lambda: host.Host(nodes)),
                (rftp_common, "try_lock", lambda fd: True),  # a real kill releases the lock
                (checks, "check_host", lambda *_: None), (checks, "kernel", lambda *_: None)):
            monkeypatch.setattr(module, name, value)
        stores = [dict(store(0, "file", MIB), path=str(path / "a/b/disk")), store(1, "ramdisk", MIB)]
        (path / "plan").write_text(json.dumps(json_of(make_plan(*stores))))

    def change(self, d: converge.Difference, machine: object, stop: object = None) -> None:
        file = Path(str(d.key[-1]))
        if d.key[0] == "dir":
            try:
                file.mkdir() if d.to else file.rmdir()
            except OSError as why:
                raise Failure(str(why)) from why
        elif d.key[0] == "file":
            file.unlink() if d.to is None else os.truncate(file, d.to)
        else:
            ours = {k: v for k, v in self.items.items() if k[0] in converge.ORDER}
            others = {k: v for k, v in self.items.items() if k not in ours}
            enact(d, ours)
            self.items = {**others, **ours}

    def kill_point(self, name: str) -> None:
        self.passed += 1
        if self.passed == self.at:
            raise self.fault("on purpose")

    def run(self, command: str, at: int = 0, fault: type[BaseException] = Killed) -> int | None:
        """Returns the exit status, or None if the run was killed."""
        self.at, self.fault, self.passed = at, fault, 0
        args = Options(words=[str(self.path / "plan")] if command == "apply" else ["one"],
                       state=str(self.path / "state"), json=False, dry_run=False, name=None,
                       force=False, destroy_data=True, lock_wait=0, verbose=False,
                       **({} if command == "apply" else {"keep_state": False}))
        try:
            return apply.run(args)
        except Killed:
            return None

    def is_empty(self) -> bool:
        return self.items == EMPTY and sorted(os.listdir(self.path)) == ["plan", "state"] and \
            os.listdir(self.path / "state") == ["lock"]


def test_commands_killed_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path, monkeypatch)
    assert world.run("apply") == 0
    applied, last = world.items, world.passed
    assert world.run("apply") == 0 and world.passed == 0  # nothing to change
    assert world.run("remove") == 0 and world.is_empty()
    for at in range(1, last + 1):
        assert world.run("apply", at) is None
        assert world.run("apply") == 0 and world.items == applied
        world.run("remove", at)
        world.run("remove")  # fails if the first one was not killed
        assert world.is_empty()
        assert world.run("apply", at) is None
        assert world.run("remove") == 0 and world.is_empty()
        assert world.run("apply", at, Failure) == 1 and world.is_empty()  # undone


def test_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "LIMIT", 0.2)
    with pytest.raises(target.Stuck, match="no answer for 0.2 s from process [0-9]+, which is left"):
        target.on_node(lambda: time.sleep(1), host.Host())
