# SPDX-License-Identifier: Apache-2.0
"""The initiator: targets, records, login.json, sysfs, and members of stripes."""
import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from rftp_common import Failure, Stop
from rftp_iser import host, initiator, iscsi, plan, state, stripe
from rftp_iser.iscsi import Address, Node, Programs
from rftp_iser.stripe import Half, Member, Place, Stripe
from rftp_members import json_of

IQN = "iqn.2026-01.org.example:"
ME = IQN + "me"


def made(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


# ---- addresses and targets ----


@pytest.mark.parametrize("word, host, port", [
    ("10.0.0.1", "10.0.0.1", 3260), ("store:3261", "store", 3261), ("fd00::1", "fd00::1", 3260),
    ("::1", "::1", 3260), ("[fd00::1]", "fd00::1", 3260), ("[fd00::1]:860", "fd00::1", 860),
    *((bad, "", 0) for bad in ("", ":1", "a:0", "a:", "a:65536", "a:x", "[fd00::1", "[]:1", "[a]x",
                               " a", ",a", "/a", "[ a]"))])
def test_address(word: str, host: str, port: int) -> None:
    if host:
        assert iscsi.parse_address(word) == Address(host, port)
    else:
        with pytest.raises(Failure, match="is not an ADDRESS"):
            iscsi.parse_address(word)


def test_addresses_are_the_same_however_written() -> None:
    assert Address("fd00::1", 1).is_same(Address("fd00:0::1", 1))
    assert not Address("10.0.0.1", 1).is_same(Address("10.0.0.1", 2))
    assert str(Address("fd00::1", 1)) == "[fd00::1]:1"


def a_plan() -> plan.Plan:
    def target(name: str, addresses: list[str], tcp: int, chap: bool = False) -> plan.Target:
        portals = [plan.Portal(a, iser=k >= tcp) for k, a in enumerate(addresses)]
        initiator = plan.Initiator(ME, plan.Chap("u", "/s") if chap else None)
        return plan.Target(iqn=IQN + name, portals=portals, initiators=[initiator])
    return plan.Plan(name="p", targets=[target("both", ["10.0.0.1", "10.0.1.1", "10.0.2.1"], 1, True),
                                   target("tcp", ["10.0.3.1"], 1)])


def chosen(transport: str, iqns: list[str], addresses: list[str], name: str = ME) -> list[str]:
    wishes = [IQN + i for i in iqns]
    offered = initiator.from_plan(a_plan(), name, transport, wishes, "file: plan p")
    at = [Address(a, 3260) for a in addresses]
    found, _ = initiator.choose(offered, wishes, at, "file: plan p")
    return [n.iqn[len(IQN):] + " " + n.address.host + ("!" if n.initiator.chap else "")
            for n in found]


def test_targets_of_a_plan() -> None:
    assert chosen("tcp", [], []) == ["both 10.0.0.1!", "tcp 10.0.3.1"]
    assert chosen("iser", ["both"], []) == ["both 10.0.1.1!"]
    assert chosen("iser", ["both"], ["10.0.2.1"]) == ["both 10.0.2.1!"]
    for transport, iqns, addresses, name, why in (
            ("iser", [], [], ME, "no portal with iSER for target .*tcp"),
            ("tcp", [], ["10.9.9.9"], ME, "at the addresses given"),
            ("iser", ["both"], ["10.0.0.1"], ME, "no target .*both"),
            ("tcp", [], [], IQN + "you", "file: plan p lets no initiator .*you"),
            ("tcp", ["none"], [], ME, "no target .*none")):
        with pytest.raises(Failure, match=why):
            chosen(transport, iqns, addresses, name)


def test_targets_of_a_discovery() -> None:
    told = ("10.0.1.1:3260,1 %sa\n10.0.0.1:3260,2 %sa\n[fd00::1]:3260,1 %sb\n" % (IQN, IQN, IQN))
    first, second = Address("10.0.0.1", 3260), Address("10.0.1.1", 3260)
    offered = initiator.from_discovery(told, "iser")
    found, elsewhere = initiator.choose(offered, [], [first, second], "x")
    assert found == [Node(IQN + "a", "10.0.0.1", 3260, 2, "iser")]
    assert elsewhere == IQN + "b at [fd00::1]:3260"
    found, _ = initiator.choose(offered, [IQN + "b"], [Address("fd00:0::1", 3260)], "x")
    assert len(found) == 1
    for text, why in (("", "has no target for this host; "),
                      (told, "no target .* at the addresses given, only .*a at .*b at "),
                      ("10.0.0.1:3260,1 ../../x", "not understood"), ("nonsense", "not understood"),
                      ("10.0.0.1:3260,1 -o", "not understood"), ("*:3260,1 %sa" % IQN, "not und")):
        with pytest.raises(Failure, match=why):
            offered = initiator.from_discovery(text, "tcp")
            initiator.choose(offered, [], [Address("10.7.7.7", 3260)], "x")


# ---- open-iscsi ----

RECORD = "# BEGIN RECORD 2.1\nnode.startup = automatic\na.b=1\n# END RECORD\nnode.startup = x\n"


def test_record() -> None:
    settings: iscsi.Settings = {"node.startup": "manual", "password": "s \u2028x", "a.b": None}
    assert iscsi.edit_record(RECORD, settings) == \
        "# BEGIN RECORD 2.1\nnode.startup = manual\npassword = s \u2028x\n# END RECORD\n"
    iscsi.check_record("node.startup = manual\npassword = ********\na.b = <empty>\n", settings)
    iscsi.check_record("node.startup = manual\npassword = s \u2028x\n", settings)
    for shown in ("password = ********\n", "node.startup = manual\npassword = <empty>\n",
                  "node.startup = manual\npassword = ********\na.b = 1\n"):
        with pytest.raises(Failure, match="did not take"):
            iscsi.check_record(shown, settings)
    with pytest.raises(Failure, match="END RECORD"):
        iscsi.edit_record("a = b\n", settings)


def test_reason() -> None:
    assert iscsi.reason("a\nmdadm: no\nUsage: mdadm --x\n") == "mdadm: no"
    assert iscsi.reason("iscsiadm: refused\niscsiadm: Could not log into all portals\n") == \
        "iscsiadm: refused"
    assert iscsi.reason("a \x1b[1m\n") == "a \\x1b[1m"


def test_programs() -> None:
    with Stop() as stop:
        p = Programs(stop)
        assert p.run("sh", "-c", "echo $LC_ALL") == "C.UTF-8\n"
        with pytest.raises(iscsi.Ended, match="^sh: why$") as ended:
            p.run("sh", "-c", "echo sh: why >&2; exit 7")
        assert ended.value.code == 7
        with pytest.raises(Failure, match="no-such-program is not in PATH"):
            p.run("no-such-program")
        with pytest.raises(Failure, match="stopped by a signal"):  # the child is ended, too
            p.run("sh", "-c", "kill -TERM $PPID; exec sleep 60")
        with pytest.raises(Failure, match="stopped by a signal"):
            p.run("true")
        assert p.unstoppable().tried("true")
        stop.asked = 0


# ---- login.json ----


def test_kept() -> None:
    p = Programs(Stop())
    node = Node(IQN + "a", "fd00::1", 1, 2, "iser", False)
    half = Half("lvm", "rftp-y", "3-4", disks=[Place(IQN + "a", 0), Place(IQN + "b", 1)])
    k = stripe.Kept("f", p, 1, [node], [Stripe("md", "rftp-x", "1:2")], [half])
    value = json_of(k)
    assert stripe.parse("f", json.dumps(value), p) == k
    assert value["sessions"] == [{"target": IQN + "a", "address": "fd00::1", "port": 1, "tag": 2,
                                  "transport": "iser", "record": False}]
    assert value["stripes"] == [{"kind": "md", "name": "rftp-x", "id": "1:2"}]
    assert value["halves"][0]["disks"][1] == {"target": IQN + "b", "lun": 1}
    for key, wrong in (("sessions", "x"), ("sessions", [{}]), ("stripes", [1]), ("halves", [{}]),
                       ("sessions", [dict(value["sessions"][0], target="../x")]),
                       ("sessions", [dict(value["sessions"][0], port=True)]),
                       ("sessions", [dict(value["sessions"][0], port=1 << 16)]),
                       ("sessions", [dict(value["sessions"][0], transport="x")]),
                       ("stripes", [dict(value["stripes"][0], name="-f")]),
                       ("rftp-iser-login", 2)):
        with pytest.raises(Failure, match="f is damaged"):
            stripe.parse("f", json.dumps(dict(value, **{key: wrong})), p)
    del value["halves"]  # older files have none
    old = stripe.parse("f", json.dumps(value), p)
    assert len(old.stripes) == 1 and not old.halves


def test_files_of_the_program_in_c(tmp_path: Path) -> None:
    """The C version of rftp-iser wrote both files: all members are read, and written back
    unchanged."""
    here = Path(__file__).parent
    login = (here / "login-by-c.json").read_text()
    kept = stripe.parse("f", login, Programs(Stop()))
    assert [len(kept.nodes), len(kept.stripes), len(kept.halves)] == [2, 1, 0]
    assert json_of(kept) == json.loads(login)
    applied = (here / "state-by-c.json").read_text()
    (tmp_path / "two.json").write_text(applied)
    found = state.read(str(tmp_path), "two")
    assert found.applied and len(found.applied.targets) == 2 and len(found.irqs) == 4
    assert json_of(found) == json.loads(applied)


# ---- sysfs ----


@pytest.fixture
def sysfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RFTP_SYSFS", str(tmp_path))
    session = tmp_path / "devices/host1/card/host5/session3"
    for name, text in (("targetname", IQN + "a"), ("state", "LOGGED_IN"), ("ifacename", "iser")):
        made(session / "iscsi_session/session3" / name, text + "\n")
    (session / "iscsi_session/session3/device").symlink_to("../..")
    (tmp_path / "class/iscsi_session").mkdir(parents=True)
    (tmp_path / "class/iscsi_session/session3").symlink_to(session / "iscsi_session/session3")
    connection = tmp_path / "class/iscsi_connection/connection3:0"
    made(connection / "persistent_address", "10.0.0.1\n")
    made(connection / "persistent_port", "3260\n")
    made(tmp_path / "class/scsi_host/host5/proc_name", "iscsi_iser\n")
    made(tmp_path / "class/scsi_host/host5/can_queue", "32\n")
    for lun, disk in ((1, "sdb"), (0, "sda")):
        device = session / "target5:0:0" / ("5:0:0:%d" % lun)
        made(device / "type", "0\n")
        made(device / "block" / disk / "size", "2048\n")
        (device / "vpd_pg80").write_bytes(b"\0\x80\0\x08serial-%d  " % lun)
    made(session / "target5:0:0/5:0:0:2/type", "5\n")
    made(session / "target5:0:0/5:0:0:3/type", "0\n")
    return tmp_path


def test_sessions(sysfs: Path) -> None:
    s, = iscsi.read_sessions()
    assert (s.id, s.host, s.transport, s.luns) == (3, 5, "iser", 3)
    assert [(d.name, d.lun, d.size, d.serial) for d in s.disks] == [
        ("sda", 0, 1 << 20, "serial-0"), ("sdb", 1, 1 << 20, "serial-1")]
    node = Node(IQN + "a", "10.0.0.1", 3260, 1, "iser")
    assert node.session([s]) is s
    assert not Node(IQN + "a", "10.0.0.1", 3260, 1, "tcp").session([s])


def test_stack_and_stripe(sysfs: Path) -> None:
    block = sysfs / "class/block"
    made(block / "sda/sda1/partition", "1\n")
    made(block / "sda1/partition", "1\n")
    made(block / "sda1/holders/md127")
    made(block / "md127/md/uuid", "0001-0002\n")
    made(block / "dm-0/dm/name", "rftp--x-data\n")
    made(block / "dm-0/dm/uuid", "LVM-abcdefVOLUME\n")
    made(block / "loop0/loop/backing_file", "/dev/md127\n")
    assert iscsi.stack("sda") == ["sda", "sda1", "md127", "loop0"]
    md, lvm = Stripe("md", "rftp-x", "00:01:00:02"), Stripe("lvm", "rftp-x", "abc-def")
    assert stripe.of_device("md127", [lvm, md]) is md
    assert stripe.of_device("dm-0", [md, lvm]) is lvm
    assert stripe.of_device("dm-0", [Stripe("lvm", "rftp", "abc-deg")]) is None


def test_mounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RFTP_PROC", str(tmp_path))
    made(tmp_path / "self/mountinfo", "36 35 8:0 / /mnt/a\\040b rw shared:1 - xfs /dev/sda rw\nx - y\n")
    assert [*host.mounts()] == [["8:0", "/mnt/a b", "xfs", "/dev/sda", "rw"]]


def test_queue_settings(sysfs: Path) -> None:
    made(sysfs / "class/block/sda/queue/scheduler", "mq-deadline [none]\n")
    made(sysfs / "class/block/sda/queue/read_ahead_kb", "128\n")
    made(sysfs / "class/block/md0/queue/read_ahead_kb", "128\n")
    tuned = iscsi.tune(iscsi.read_sessions()[0].disks[:1], "md0")
    assert [(t["device"], t["setting"], t["wanted"]) for t in tuned] == [
        ("sda", "queue_depth", "32"), ("sda", "scheduler", "none"), ("sda", "nr_requests", "32"),
        ("sda", "read_ahead_kb", "4096"), ("sda", "rq_affinity", "2"),
        ("md0", "read_ahead_kb", "4096")]
    assert tuned[3] == {"device": "sda", "setting": "read_ahead_kb", "before": "128",
                        "after": "4096", "wanted": "4096"}
    assert tuned[1]["after"] == "none" and "error" not in tuned[1]
    assert tuned[0]["error"]


# ---- stripes ----


def test_members() -> None:
    md = stripe.member_of("md", "MD_LEVEL=raid0\nMD_DEVICES=2\nMD_NAME=any:rftp-x\nMD_UUID=1:2\n")
    assert md == Member("rftp-x", "1:2", 2, "1:2")
    assert stripe.member_of("md", "MD_NAME=h:../x\nMD_UUID=1\n").name == "rftp-found"
    assert not stripe.member_of("md", "").id
    assert stripe.member_of("lvm", "  u|g|i|2|1\n") == Member("g", "i", 2, "u", True)
    assert stripe.member_of("lvm", "  u|||0|0") == Member("", "", 0, "u", False)
    assert stripe.member_of("lvm", "nonsense") == Member()
    assert stripe.is_whole("md", [md, md])
    assert not stripe.is_whole("md", [Member(), Member()])
    for members, why in (([md, Member()], "but of: rftp-x of 2, none"),
                         ([md, md, md], "these are not the disks of one md stripe"),
                         ([Member("x", "1", 0)] * 2, "RAID 0")):
        with pytest.raises(Failure, match=why):
            stripe.is_whole("md", members)


def test_drawn_ids() -> None:
    assert [len(p) for p in stripe.draw("md", "x").id.split(":")] == [8, 8, 8, 8]
    assert [len(p) for p in stripe.draw("lvm", "x").part(3).split("-")] == \
        [6, 4, 4, 4, 4, 4, 6]
    assert stripe.draw("md", "x").id != stripe.draw("md", "x").id


# ---- incomplete stripes ----


class FakePrograms(Programs):
    """md or LVM on two disks: the metadata on each disk, and the executed commands."""

    def __init__(self, told: dict[str, str], ran: list[str]) -> None:
        super().__init__(Stop())
        self.told, self.ran = told, ran

    def unstoppable(self) -> Programs:
        return self

    def run(self, *words: str, about: str = "", fine: Sequence[int] = ()) -> str:
        if words[0] in ("pvs", "mdadm") and "--zero-superblock" not in words:
            return self.told.get(words[-1], "")
        if words[0] != "wipefs":
            self.ran.append(" ".join(words))
            self.told.pop(words[-1], None)
        return ""


@pytest.mark.parametrize("kind, told, ran, stays, said", [
    ("md", ["U 2", "U 2"], [], "stripe", ""),
    ("md", ["U 2", ""], ["mdadm --zero-superblock /dev/sda"], "", "took down the md stripe rftp-x"),
    ("md", ["other 2", ""], [], "", ""),
    ("md", ["U 2", None], [], "half", "LUN 1 of .*b is missing"),
    ("lvm", ["U-000000|rftp-x|G|2|1", "U-000001|rftp-x|G|2|1"], [], "stripe", ""),
    ("lvm", ["U-000000|rftp-x|G|1|1", ""], [], "half", "there may be data on them"),
    ("lvm", ["", "U-000001|||0|0"], ["vgremove .*vg_uuid=none", "pvremove .* /dev/sdb"], "",
     "took down the lvm stripe rftp-x"),
    ("lvm", ["U-000000|other|G|1|1", ""], [], "", "")])
def test_halves(kind: str, told: list[str], ran: list[str], stays: str, said: str, tmp_path: Path,
                monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("RFTP_SYSFS", str(tmp_path))
    there = []
    for iqn, disk, text in ((IQN + "a", "sda", told[0]), (IQN + "b", "sdb", told[1])):
        s = iscsi.Session(1, 1, iqn, "default", "tcp", Address("10.0.0.1", 3260), 1)
        s.disks = [iscsi.Disk(disk, len(there), 1, "", s)] if text is not None else []
        there.append(s)
    monkeypatch.setattr(iscsi, "read_sessions", lambda state="": there)
    monkeypatch.setattr(stripe, "is_device", lambda path: path != "")
    exported = {"/dev/" + d: t if kind == "lvm" or not t else
                "MD_LEVEL=raid0\nMD_NAME=rftp-x\nMD_UUID=%s\nMD_DEVICES=%s\n" % tuple(t.split())
                for d, t in zip(("sda", "sdb"), told) if t is not None}
    done: list[str] = []
    half = Half(kind, "rftp-x", "U", disks=[Place(IQN + "a", 0), Place(IQN + "b", 1)])
    k = stripe.Kept(str(tmp_path / "login.json"), FakePrograms(exported, done), halves=[half])
    stripe.settle_halves(k)
    assert [s.id for s in k.stripes] == ({"md": ["U"], "lvm": ["G"]}[kind] if stays == "stripe"
                                         else [])
    assert k.halves == ([half] if stays == "half" else [])
    assert len(done) == len(ran) and all(re.match(a, b) for a, b in zip(ran, done))
    assert re.search(said, capsys.readouterr().err)
    if stays != "half":
        assert stripe.parse(k.file, Path(k.file).read_text(), k.p) == k
