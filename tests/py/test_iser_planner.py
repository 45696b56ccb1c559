# SPDX-License-Identifier: Apache-2.0
"""Specifications in files, and their plans for hosts with one, two and four nodes."""
import json
import random

import pytest
from rftp_common import Failure
from rftp_iser import plan, planner
from rftp_iser.host import Host
from rftp_machine import Location, Nic, Node
from rftp_members import json_of

ME = "iqn.2026-01.org.example:me"
WHO = "[initiator %s]\n" % ME


def host(nodes=2, rdma=True, addresses=True, locations=None):
    """Each node has 128 MiB and a card ensN, 192.0.2.N; eth0 is on node 0 and has no RDMA."""
    h = Host(name="store1.example.org", month="2026-11", own=False)
    for i in range(nodes):
        distances = {k: 10 if k == i else 20 + abs(k - i) for k in range(nodes)}
        h.nodes[i] = Node(i, {i}, distances, 128 << 20, 64 << 20)
        h.nics["ens%d" % i] = Nic(i, 100000)
        if rdma:
            h.nics["ens%d" % i].rdma = "mlx5_%d" % i
        if addresses:
            h.addresses.append(("ens%d" % i, "192.0.2.%d" % i))
    h.nics["eth0"] = Nic(0, 1000)
    h.addresses.append(("eth0", "192.0.2.9"))
    h.locations.update(locations or {})
    return h


def asked(text):
    s = planner.Spec()
    planner.add_text(s, text, "f")
    return s


def planned(text, h=None):
    s = asked(text)
    h = h or host()
    for path in s.paths():
        h.locations.setdefault(path, Location())
    return planner.make(s, h)


def refused(text, says, h=None):
    with pytest.raises(Failure) as why:
        planned(text, h)
    assert says in str(why.value)


@pytest.mark.parametrize("text, says", [
    ("name = x", 'f:1: "name" is in no section'), ("[plans]", "f:1: [plans] must be [plan], [node N]"),
    ("[plan]\nsize = 1", 'f:2: "size" is not a key of this section'), ("[plan]\nname = a/b", 'f:2: name "a/b" has other characters'),
    ("[plan]\niqn = iqn.2026-01.org.example:x", "is more than the beginning of names"),
    ("[plan]\niqn = eui.0123456789abcdef", "is more than the beginning of names"),
    ("[plan]\ncpus = all", 'f:2: cpus "all" must be nodes or any'), ("[plan]\nopen = maybe", "is neither yes nor no"),
    ("[plan]\nmounts = run", '"run" does not begin with a slash'), ("[node]\n", "f:1: [node] must be"),
    ("[node x]\n", 'f:1: node "x" is not a node'), ("[node 1024]\n", '"1024" is not a node'), ("[node -1]\n", '"-1" is not a node'),
    ("[node 0]\nsize = 1", 'f:2: "size" is not a key of this section'), ("[node 0]\ntmpfs = -1G", "is not a size"),
    ("[node 0]\ntmpfs = 1K", '"1K" is not a size of 1 MiB or more'), ("[node 0]\nfile = /x", 'f:2: file "/x" has no size behind it'),
    ("[node 0]\nfile = /x 1G 2G", '"1G 2G" is not a size'), ("[node 0]\nblock = nvme0n1", "is not below /dev"),
    ("[node *]\nportal = 192.0.2.1", "f:2: a portal belongs into the section of its node"),
    ("[node 0]\nportal = 192.0.2.1:0", 'f:2: portal: 192.0.2.1:0 is not an ADDRESS, ADDRESS:PORT'), ("[node 0]\nportal = [2001:db8::2]x", '[2001:db8::2]x is not an ADDRESS'),
    ("[node 0]\nportal = ens1f0:65536", 'ens1f0:65536 is not an ADDRESS'), ("[node 0]\nportal = 2001:DB8::2", "usual form"),
    ("[node 0]\nportal = [fe80::1]:3260", "its link only"), ("[node 0]\nlun-attribute = a", 'f:2: lun-attribute has "a", which is not a number'),
    ("[node 0]\ntarget-attribute = a 4294967296", 'target-attribute has "a", which is not a number up to 4294967295'),
    ("[plan]\n; what it is for", 'f:2: the line "; what it is for" is not a KEY = VALUE'),
    ("[node 0]\ntmpfs = 4G ; on each", '"4G ; on each" is not a size'), ("[node 0]\ntmpfs", 'f:2: the line "tmpfs" is not a KEY = VALUE'),
    ("[node 0]\ntmpfs = \"4G", 'f:2: the line "tmpfs = "4G" is not a KEY = VALUE'), ("[node 0", "f:1: a section is a name in brackets"),
    ("[node 0] x", "f:1: a section is a name in brackets alone"), ("[initiator me]", 'f:1: initiator "me" is not an iSCSI name'),
    (WHO + "user = x", 'f:2: "user" is not a key of this section'), (WHO + 'chap-user = "a b"', '"a b" has a blank'),
    (WHO + "chap-secret = topsecret", '"topsecret" does not begin with'),
])
def test_wrong_spec(text, says):
    with pytest.raises(Failure) as why:
        planner.add_text(planner.Spec(), text, "f")
    assert says in str(why.value)


def test_spec():
    s = asked("[plan]\nname = store\ncpus = any\ntcp = yes\n[node  *]\ntmpfs = 4G      # on each\npolicy = prefer\n"
              "write = back\nlun-attribute = emulate_tpu 1\n[node 1]\nfile = /srv/disk 100G\nportal = 192.0.2.2:3261\n"
              "portal = auto\npolicy = bind\ntarget-attribute = default_cmdsn_depth  128\n[node *]\ntmpfs = \"1G\"\n"
              + WHO + "chap-secret = generate\nmutual-user = pass#word\n")
    each, one = s.node(planner.EACH), s.node(1)
    assert (s.name, s.cpus, s.tcp, s.open) == ("store", "any", True, False)
    assert [x.size for x in each.stores] == [4 << 30, 1 << 30] and each.write == "back" and each.policy == "prefer"
    assert (one.policy, one.write) == ("bind", "")
    assert [(p.address, p.port) for p in one.portal] == [("192.0.2.2", 3261), ("auto", 3260)]
    assert one.target_attribute == {"default_cmdsn_depth": 128}
    assert (s.initiators[ME].chap_secret, s.initiators[ME].mutual_user) == ("generate", "pass#word")


@pytest.mark.parametrize("value, at, port", [
    ("192.0.2.1", "192.0.2.1", 3260), ("192.0.2.1:1", "192.0.2.1", 1), ("[2001:db8::1]:99", "2001:db8::1", 99),
    ("2001:db8::1", "2001:db8::1", 3260), ("ens1f0:3261", "ens1f0", 3261), ("auto", "auto", 3260)])
def test_portal(value, at, port):
    p = asked("[node 0]\nportal = %s" % value).node(0).portal[0]
    assert (p.address, p.port) == (at, port)


def test_two_nodes():
    p, notes = planned("[node *]\ntmpfs = 4M\n" + WHO + "chap-secret = generate\n")
    assert [(t.node, t.iqn, t.portals[0].address, t.portals[0].iser) for t in p.targets] == [
        (n, "iqn.2026-11.org.example.store1:store1-node%d" % n, "192.0.2.%d" % n, True) for n in (0, 1)]
    assert p.targets[1].stores[0].path == "/run/rftp-iser/store1-node1-disk0" and not notes
    chap = p.targets[0].initiators[0].chap
    assert chap and (chap.user, chap.secret_file) == (ME, "/etc/rftp-iser/store1.%s.chap" % ME)


def test_serials():
    """Initiators identify disks by these serials, so they must never change."""
    assert planner.serial("iqn.2026-11.b.a:s-node0", "s-node0-disk0") == "ce4913c1-7147-89d3-a842-386cb133d8bb"


def test_devices():
    at = {"/dev/a": Location(1), "/dev/b": Location(), "/dev/c": Location(0)}
    p, notes = planned("[node *]\nblock = /dev/a\n[node 0]\nblock = /dev/b\n[node 1]\nblock = /dev/c\n" + WHO,
                       host(locations=at))
    assert [[(s.path, s.node) for s in t.stores] for t in p.targets] == [
        [("/dev/b", 0)], [("/dev/a", 1), ("/dev/c", 0)]]
    assert "store1-node1-disk1 is on node 0, but is served by node 1: all of its data goes from node to node" in notes
    refused("[node *]\nblock = /dev/b\n" + WHO, "its node is not known", host(locations={"/dev/b": Location()}))
    refused("[node *]\nblock = /dev/b\n" + WHO, "/dev/b: gone", host(locations={"/dev/b": Location(0, "gone")}))


def test_portals():
    p, notes = planned("[node 0]\ntmpfs 1M\nportal = ens1:5\nportal = 192.0.2.77\nportal = auto\n" + WHO)
    assert [(x.address, x.port, x.netdev, x.iser) for x in p.targets[0].portals] == [
        ("192.0.2.1", 5, "ens1", True), ("192.0.2.77", 3260, "", True), ("192.0.2.0", 3260, "ens0", True)]
    assert any("ens1 is a card of node 1, and the target is for node 0: all data goes" in n for n in notes)
    assert any("portal 192.0.2.77 of iqn.2026-11.org.example.store1:store1-node0: this host has no such address" in n for n in notes)
    refused("[node 0]\ntmpfs 1M\nportal = eth0\n" + WHO, "eth0 (192.0.2.9), for node 0, has no RDMA device")
    refused("[node 0]\ntmpfs 1M\nportal = ens7\n" + WHO, "no interface that is up and has an address is called so")


def test_nearest_card():
    h = host(4)
    h.addresses = [a for a in h.addresses if a[0] in ("ens0", "ens2", "eth0")]
    p, _ = planned("[node 3]\ntmpfs 1M\n" + WHO, h)
    assert p.targets[0].portals[0].netdev == "ens2"
    h.nics["fast"] = Nic(2, 400000, "mlx5_9")
    h.addresses.append(("fast", "192.0.2.8"))
    assert planned("[node 3]\ntmpfs 1M\n" + WHO, h)[0].targets[0].portals[0].netdev == "fast"


def test_without_rdma():
    refused("[node *]\ntmpfs 1M\n" + WHO, "has an RDMA device", host(rdma=False))
    p, notes = planned("[plan]\ntcp = on\n[node *]\ntmpfs 1M\n" + WHO, host(rdma=False))
    assert [t.portals[0].iser for t in p.targets] == [False, False]
    assert any("by plain iSCSI over TCP" in n for n in notes)


def test_one_node():
    """On a host with one node the firmware does not report nodes."""
    h = host(1)
    h.nics["ens0"].node = -1
    assert planned("[node *]\ntmpfs 1M\n" + WHO, h)[0].targets[0].portals[0].netdev == "ens0"


def test_left_out():
    h = host()
    h.addresses.remove(("ens1", "192.0.2.1"))
    p, notes = planned("[node *]\ntmpfs 1M\n" + WHO, h)
    assert [t.node for t in p.targets] == [0]
    assert any(n.startswith("left out: node 1, where no RDMA card") for n in notes)


@pytest.mark.parametrize("size, says", [
    ("64M", "memory is tight: the back stores need 64.0 MiB more of the memory of node 0, which can give 64.0 MiB"),
    ("65M", "memory does not suffice: the back stores need 65.0 MiB more of the memory of node 0, which can give 64.0 MiB")])
def test_memory(size, says):
    assert any(says in n for n in planned("[node 0]\ntmpfs %s\n%s" % (size, WHO))[1])


def test_access():
    refused("[node *]\ntmpfs 1M\n", "no initiator is named")
    refused("[plan]\nopen = yes\n[node *]\ntmpfs 1M\n" + WHO, "leave out one of them")
    refused("[node *]\ntmpfs 1M\n" + WHO + "chap-user = u\n", "has a chap-user without a chap-secret")
    notes = planned("[node 0]\ntmpfs 1M\nwrite back\n%s[initiator %s2]\n" % (WHO, ME))[1]
    assert any("lets in 2 initiators" in n for n in notes) and any("lets in any host that calls itself" in n for n in notes)
    assert any("is written back into memory" in n for n in notes)


def test_nothing():
    refused(WHO, "no storage is named")
    refused("[node 1]\npolicy bind\n" + WHO, "node 1 has no storage")
    refused("[node 2]\ntmpfs 1M\n" + WHO, "there is no node 2, but 0-1")
    h = host()
    h.name = "store1"
    refused("[node *]\ntmpfs 1M\n" + WHO, "iqn.2026-11.store1\" has a domain without a dot", h)
    refused("[plan]\ndomain = localhost\n[node *]\ntmpfs 1M\n" + WHO, "has a domain without a dot")


def test_attributes():
    s = planned("[node *]\ntmpfs 1M\nlun-attribute a 1\nlun-attribute b 1\n[node 0]\nlun-attribute b 2\n"
                "lun-attribute is_nonrot 0\n" + WHO)[0].targets[0].stores[0]
    assert s.attributes == {"is_nonrot": 0, "a": 1, "b": 2}


SPEC = """[plan]
name = store
tcp = yes
[node *]
tmpfs = 4G      # on each
lun-attribute = emulate_tpu 1
[node 1]
file = /srv/disk 100G
portal = [2001:db8::1]:5
[initiator %s]
chap-user = "a\\\\b"
chap-secret = generate
""" % ME
PIECES = ["", "\0", "\n", " ", "=", '"', "[", "]", "{}", "#", ";", "\\", "\\ud800", "\udcff", "\u00e9", "-1", "1e9", "9" * 30,
          "null", "::", "..", "/", ",", "node *", "[plan]\n", "auto", "A" * 300, "\r"]


def mutated(r, text):
    for _ in range(r.randint(1, 3)):
        start = r.randint(0, len(text))
        text = text[:start] + r.choice(PIECES) + text[start + r.choice((0, 0, 1, 3, 20)):]
    return text


def test_mutated():
    """A damaged file gives a plan, or a Failure with one printable line."""
    good = json.dumps(json_of(planned("[node *]\ntmpfs = 4M\n" + WHO + "chap-secret = generate\n")[0]))
    r, taken = random.Random(18), 0
    for _ in range(1500):
        for read, text in ((lambda t: plan.parse(t, "p"), good), (planned, SPEC)):
            try:
                read(mutated(r, text))
                taken += 1
            except Failure as why:
                assert str(why).isprintable()
    assert 50 < taken < 2900
