# SPDX-License-Identifier: Apache-2.0
"""Plans: reading and writing JSON, and errors with their position."""
import copy
import json

import pytest
from rftp_common import (
    Failure,
    format_ids,
    format_size,
    parse_ids,
    parse_size,
    printable,
)
from rftp_iser import plan
from rftp_members import json_of

ME, YOU = "iqn.2026-01.org.example:me", "iqn.2026-01.org.example:you"
A, B = "11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"
WHOLE = {
    "rftp-iser-plan": 1, "name": "p", "cpus": "any", "targets": [{
        "node": 1, "iqn": "iqn.2026-01.org.example:disk", "open": False,
        "portals": [{"address": "192.0.2.1", "port": 3261, "netdev": "ens1f0", "iser": False},
                    {"address": "2001:db8::1", "port": 3260, "iser": True}],
        "initiators": [{"name": ME, "chap": {"user": "u", "secret-file": "/s"},
                        "mutual-chap": {"user": "v", "secret-file": "/t"}}],
        "luns": [{"lun": 0, "name": "disk0", "kind": "tmpfs", "node": 1, "size": 1 << 20, "policy": "prefer",
                  "path": "/m", "write-back": True, "serial": A, "attributes": {"emulate_tpu": 1}},
                 {"lun": 7, "name": "disk1", "kind": "block", "node": -1, "size": 0, "path": "/dev/sdb",
                  "write-back": False, "serial": B}],
        "attributes": {"default_cmdsn_depth": 128}}]}


def least():
    """A minimal plan."""
    return {"rftp-iser-plan": 1, "name": "p", "targets": [{
        "iqn": "iqn.2026-01.org.example:disk", "portals": [{"address": "192.0.2.1"}], "initiators": [{"name": ME}],
        "luns": [{"name": "disk0", "kind": "ramdisk", "size": 1 << 20, "serial": A}]}]}


def broken(value, text):
    with pytest.raises(Failure) as why:
        plan.parse(value if isinstance(value, str) else json.dumps(value), "p")
    assert str(why.value).startswith("p:") and text in str(why.value)


def test_there_and_back():
    p = plan.parse(json.dumps(WHOLE), "p")
    assert json_of(p) == WHOLE
    disk = next(p.stores())
    assert (disk.name, disk.file, disk.plugin, disk.forgets) == ("disk0", "/m/disk.img", "fileio", True)


def test_defaults():
    t = plan.parse(json.dumps(least()), "p").targets[0]
    assert (t.node, t.open, t.portals[0].port, t.portals[0].iser) == (-1, False, 3260, True)
    assert (t.stores[0].lun, t.stores[0].node, t.stores[0].policy, t.stores[0].path) == (0, -1, "bind", "")


@pytest.mark.parametrize("value, text", [
    ([], "is not a plan"), ({}, "is not a plan"), ({"rftp-iser-plan": 2}, "rftp-iser-plan is not 1"),
    ('{"a": 1, "a": 2}', "twice"), ('{"rftp-iser-plan": 1', "p:1:"), ("[" * 100000, "p:"),
    ({**least(), "name": 7}, "name is not a text"), ({**least(), "name": None}, "name is missing"),
    ({**least(), "name": "a/b"}, 'name "a/b" has other characters'),
    ({**least(), "name": ".."}, 'name ".." does not begin with'),
    ({**least(), "name": "p.lio"}, 'name "p.lio" ends in .lio'),
    ({**least(), "name": "a\0b"}, 'name "a\\x00b" has other characters'), ({**least(), "name": "a" * 65}, "is longer than 64 bytes"),
    ({**least(), "extra\33": 1}, "extra\\x1b is not known"),
    ({**least(), "cpus": "all"}, 'cpus "all" must be nodes or any'),
    ({**least(), "targets": []}, "targets are missing"), ({**least(), "targets": [1]}, "targets[0] is not an object"),
])
def test_broken_plan(value, text):
    broken(value, text)


@pytest.mark.parametrize("path, value, text", [
    ("iqn", "", "targets[0].iqn is missing"), ("iqn", "disk", 'targets[0].iqn "disk" is not an iSCSI name'),
    ("iqn", "iqn.2026-01.example:a", "has a domain without a dot"),
    ("iqn", "iqn.2026-13.org.example:a", "is not an iSCSI name"), ("iqn", "iqn.2026-00.org.example:a", "is not an iSCSI name"),
    ("iqn", "iqn.26-01.org.example:a", "is not an iSCSI name"), ("iqn", "iqn.2026-01.org..example:a", "is not an iSCSI name"),
    ("iqn", "iqn.2026-01.org.-e", "is not an iSCSI name"), ("iqn", "iqn.2026-01.org.example:", "is not an iSCSI name"),
    ("iqn", "iqn.2026-01.org.example:A", "is not of lower case letters, digits"), ("iqn", "iqn.2026-01.org.example:a_b", "is not of lower case letters, digits"),
    ("iqn", "iqn.2026-01.org.example:a\n", "is not of lower case letters, digits"), ("iqn", "eui.0123", "is not an iSCSI name"),
    ("iqn", "naa.0123456789abcdeg", "is not an iSCSI name"),
    ("iqn", "iqn.2026-01.org.example:" + "a" * 200, "and ':', up to 223"),
    ("node", 1024, "targets[0].node is not between"), ("open", 1, "targets[0].open is neither true nor false"),
    ("open", True, "targets[0].open is true, which lets anyone in, and"),
    ("attributes", {"authentication": 0}, 'targets[0].attributes has "authentication", which is decided by chap'),
    ("portals", [], "targets[0].portals are missing"), ("initiators", [], "targets[0].initiators are missing"),
    ("luns", [], "targets[0].luns are missing"),
    ("portals", [{}], "targets[0].portals[0].address is missing"),
    ("portals", [{"address": "192.0.2.1", "port": 0}], "portals[0].port is not between"),
    ("portals", [{"address": "192.0.2.1", "netdev": "../x"}], 'portals[0].netdev "../x" is not a network interface'),
    ("portals", [{"address": "192.0.2.1"}] * 2, 'portals[1].address "192.0.2.1" is listed twice'),
    ("initiators", [{}], "targets[0].initiators[0].name is missing"),
    ("initiators", [{"name": ME}] * 2, 'targets[0].initiators[1].name "%s" is listed twice' % ME),
    ("initiators", [{"name": ME, "chap": {"user": "u"}}], "initiators[0].chap.secret-file is missing"),
    ("initiators", [{"name": ME, "chap": {"secret": "s"}}], "initiators[0].chap.secret is not known"),
    ("initiators", [{"name": ME, "chap": {"user": "a b", "secret-file": "/s"}}], 'chap.user "a b" has a blank'),
    ("initiators", [{"name": ME, "chap": {"user": "NULLA", "secret-file": "/s"}}], "LIO's word for none"),
    ("initiators", [{"name": ME, "chap": {"user": "u", "secret-file": "s"}}], "does not begin with a slash"),
    ("initiators", [{"name": ME, "mutual-chap": {"user": "u", "secret-file": "/s"}}], "is there without chap"),
    ("initiators", [{"name": ME, "chap": {"user": "u", "secret-file": "/s"},
                     "mutual-chap": {"user": "v", "secret-file": "/s"}}], "is a secret of chap, too"),
    ("initiators", [{"name": ME}, {"name": YOU, "chap": {"user": "u", "secret-file": "/s"}}],
     "targets[0].initiators[0].chap is missing, and other initiators of the target have it"),
    ("initiators", [{"name": YOU, "chap": {"user": "u", "secret-file": "/s"}}, {"name": ME}],
     "targets[0].initiators[1].chap is missing"),
])
def test_broken_target(path, value, text):
    p = least()
    p["targets"][0][path] = value
    broken(p, text)


@pytest.mark.parametrize("address, text", [
    ("storage1", "is not a numerical address"), ("192.0.2.256", "is not a numerical address"),
    ("0.0.0.0", "stands for all"), ("::", "stands for all"), ("255.255.255.255", "broadcast"),
    ("224.0.0.1", "is a multicast"), ("ff02::1", "is a multicast"), ("fe80::1", "its link only"),
    ("::ffff:192.0.2.1", "usual form"), ("2001:DB8::1", "usual form"), ("2001:db8:0::1", "usual form"),
    ("[2001:db8::1]", "is not a numerical address"), ("192.0.2.01", "is not a numerical address"),
])
def test_addresses(address, text):
    p = least()
    p["targets"][0]["portals"][0]["address"] = address
    broken(p, text)


STORES = {"ramdisk": {}, "tmpfs": {"node": 0, "path": "/m"}, "file": {"path": "/f"}, "block": {"path": "/dev/x"}}


@pytest.mark.parametrize("kind, changes, text", [
    ("disk", {}, 'luns[0].kind "disk" must be tmpfs, file, block or ramdisk'), (None, {}, "luns[0].kind is missing"),
    ("file", {"lun": 256}, "luns[0].lun is not between 0 and 255"), ("ramdisk", {"name": None}, "name is missing"),
    ("ramdisk", {"name": "a b"}, 'luns[0].name "a b" has other'), ("ramdisk", {"serial": None}, "serial is missing"),
    ("ramdisk", {"serial": "AAAAAAAA" + A[8:]}, "is not a UUID in lower case"),
    ("ramdisk", {"serial": A + "\n"}, "is not a UUID"),
    ("tmpfs", {"size": 0}, "luns[0].size is missing, or less than 1 MiB"), ("tmpfs", {"size": (1 << 20) - 1}, "luns[0].size is missing, or less than 1 MiB"),
    ("file", {"size": (1 << 20) + 1}, "is not a multiple of 512 bytes"), ("file", {"size": 1e9}, "is not a whole number"),
    ("file", {"size": True}, "is not a whole number"), ("file", {"size": -1}, "is not between"),
    ("file", {"size": 1 << 63}, "is not between"), ("block", {"size": 1 << 20}, "but a block device is served whole"),
    ("ramdisk", {"size": (1 << 20) + 512}, "is not a multiple of 4096 bytes"),
    ("tmpfs", {"node": -1}, "luns[0].node is missing: a tmpfs needs"),
    ("file", {"path": None}, "path is missing"), ("file", {"path": "f"}, 'path "f" does not begin with a slash'),
    ("file", {"path": "/"}, "has an empty part"), ("file", {"path": "/a/../b"}, "has an empty part"),
    ("tmpfs", {"path": "/a/"}, "has an empty part"), ("file", {"path": "/a,fd_dev_size=1"}, "has a comma"),
    ("file", {"path": "/a\nb"}, "has a comma"), ("file", {"path": "/\u00e9"}, "a character beyond ASCII"),
    ("tmpfs", {"path": "/" + "a" * 250}, "longer than 255 bytes"), ("ramdisk", {"path": "/a"}, "a ramdisk has none"),
    ("block", {"path": "/srv/x"}, 'path "/srv/x" is not below /dev'),
    ("ramdisk", {"write-back": True}, "write-back is for a tmpfs or a file"),
    ("block", {"write-back": True}, "write-back is for a tmpfs or a file"),
    ("ramdisk", {"policy": "local"}, 'luns[0].policy "local" must be bind or prefer'),
    ("ramdisk", {"attributes": {"../x": 1}}, 'luns[0].attributes has "../x", which is not an attribute\'s name'),
    ("ramdisk", {"attributes": {"": 1}}, "is an attribute without a name"),
    ("ramdisk", {"attributes": {"emulate_tpu": "1"}}, 'luns[0].attributes has "emulate_tpu", which is not a number up to'),
    ("ramdisk", {"attributes": {"emulate_tpu": 1 << 32}}, 'has "emulate_tpu", which is not a number up to 4294967295'),
    ("ramdisk", {"attributes": {"emulate_write_cache": 1}}, "is decided by write-back"),
])
def test_broken_store(kind, changes, text):
    p = least()
    store = {"name": "disk0", "kind": kind, "serial": A, "size": 0 if kind == "block" else 1 << 20}
    p["targets"][0]["luns"] = [{**store, **STORES.get(kind, {}), **changes}]
    broken(p, text)


@pytest.mark.parametrize("changes, text", [
    ({"lun": 0}, "luns[1].lun \"0\" is listed twice"),
    ({"name": "disk0"}, 'luns[1].name "disk0" is listed twice'),
    ({"serial": A}, "luns[1].serial"), ({"path": "/m"}, 'luns[1].path "/m" is listed twice'),
    ({"path": "/m/n"}, 'luns[1].path "/m/n" is beneath another store'),
])
def test_twice(changes, text):
    p = copy.deepcopy(WHOLE)
    second = {"lun": 1, "name": "disk9", "kind": "file", "size": 1 << 20, "path": "/mm", "serial": B}
    p["targets"][0]["luns"][1] = second
    plan.parse(json.dumps(p), "p")
    second.update(changes)
    broken(p, text)


def test_common():
    assert [parse_size(s) for s in ("0", "4k", "4KiB", "1gb", "16384P")] == [0, 4096, 4096, 1 << 30, None]
    assert [parse_size(s) for s in ("", "B", "4 K", "-1", "1KK", "\u0661")] == [None] * 6
    assert [format_size(n) for n in (0, 1023, 1024, 1 << 20, (1 << 20) - 1, 153 << 30)] == [
        "0 B", "1023 B", "1.0 KiB", "1.0 MiB", "1.0 MiB", "153 GiB"]
    assert parse_ids("0,2-3") == {0, 2, 3} and [parse_ids(s) for s in ("x", "3-2", "0,", "8192")] == [None] * 4
    assert parse_ids("") == set()
    assert format_ids({3, 0, 1, 5}) == "0-1,3,5"
    assert printable("a\33[\\\u00e9\udcff") == "a\\x1b[\\x5c\u00e9\\xff"
