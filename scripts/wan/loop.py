# SPDX-License-Identifier: Apache-2.0
"""Two network cards of this host as the two ends of a path: packets from the address of the one to
the address of the other leave by the first and arrive by the second, and netem delays them. All of
it is undone at the end.

A network namespace for one end would need all RDMA devices of the host in exclusive mode, and
Soft-RoCE of Linux 6.1 works in none but the first. So it is done by routes: the table of our own
addresses, which is looked up before all others, gets three rules in front of it.
"""

import os
import shlex
import subprocess

from sweep import Failure

RULES = {"from outside": 1, "wires": 2, "our own": 3}  # preferences
TABLES = (73210, 73211)
ADDRESSES = ("198.18.95.1", "198.18.95.2")             # RFC 2544: for measuring
NETEM_PACKETS_LEAST = 100000
CONF = "/proc/sys/net/ipv4/conf/"


def output(words):
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise Failure("%s: %s" % (shlex.join(words), " ".join(done.stderr.split()) or
                                  "status %d" % done.returncode))
    return done.stdout


def read(path):
    with open(path, encoding="ascii") as f:
        return f.read().strip()


def address_of(card):
    """The first IPv4 address of a card, or None."""
    for line in output(["ip", "-4", "-o", "addr", "show", "dev", card, "scope",
                        "global"]).splitlines():
        return line.split()[3].partition("/")[0]
    return None


def mbit_of(card):
    """The speed of a link, as its driver tells; None: it does not."""
    try:
        speed = int(read("/sys/class/net/%s/speed" % card))
    except (OSError, ValueError):
        return None
    return speed if speed > 0 else None


class Undo:
    """The steps that undo our settings, the latest first. A file has them, too, until they are done:
    after kill -9 a user can run it. The file names the start of the kernel and the network namespace
    of the settings, which end with these."""

    def __init__(self, path):
        self.path, self.steps = path, []
        self.mark = "# %s %s\n" % (read("/proc/sys/kernel/random/boot_id"),
                                   os.readlink("/proc/self/ns/net"))
        if os.path.exists(path) and self.ours():
            raise Failure("an earlier sweep was killed before it had taken back what it set; "
                          "look at %s, run it as root: sh %s; and remove it" % (path, path))

    def ours(self):
        with open(self.path, encoding="utf-8") as f:
            return f.readline() == self.mark

    def do(self, words, undo):
        """A step, and the words of a shell that take it back."""
        self.steps.append(undo)
        self.write()
        try:
            output(words)
        except Failure:
            self.steps.pop()
            self.write()
            raise

    def write(self):
        if not self.steps:
            if os.path.exists(self.path):
                os.unlink(self.path)
            return
        with open(self.path + ".new", "w", encoding="utf-8") as f:
            f.write(self.mark + "".join(step + "\n" for step in reversed(self.steps)))
        os.replace(self.path + ".new", self.path)

    def all(self):
        """Lines about settings that cannot be undone."""
        failed = []
        while self.steps:
            step = self.steps.pop()
            done = subprocess.run(["sh", "-c", step], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                  check=False, start_new_session=True)
            if done.returncode:
                failed.append("%s: %s" % (step, " ".join(done.stderr.split())))
        self.write()
        return failed


class Loop:
    """Cards, and their addresses, of the client's end and the server's."""

    def __init__(self, cards, undo_file):
        self.cards, self.delay = cards, None
        self.left = None           # a directory that is to be removed in the end
        for card in cards:
            if not os.path.isdir("/sys/class/net/" + card):
                raise Failure("there is no network card %s here" % card)
        if cards[0] == cards[1]:
            raise Failure("--loop: two cards, not twice %s" % cards[0])
        self.undo = Undo(undo_file)
        self.addresses = None

    def up(self):
        self.check_rules()
        for card in self.cards:
            if not int(read("/sys/class/net/%s/flags" % card), 16) & 1:
                self.undo.do(["ip", "link", "set", card, "up"], "ip link set %s down" % card)
        self.addresses = [self.address(k) for k in (0, 1)]
        self.sysctls()
        self.rules()
        for k in (0, 1):
            self.wire(k)
        route = output(["ip", "route", "get", self.addresses[1]]).split()
        if self.cards[0] not in route:
            raise Failure("the route to %s does not lead by %s: %s" % (
                self.addresses[1], self.cards[0], " ".join(route)))

    def down(self):
        return self.undo.all()

    def check_rules(self):
        taken = [line for line in output(["ip", "rule", "show"]).splitlines()
                 if line.partition(":")[0] in map(str, RULES.values())]
        if taken:
            raise Failure("there are routing rules with the preferences 1 to 3 already: " +
                          "; ".join(" ".join(line.split()) for line in taken))

    def address(self, k):
        card, given = self.cards[k], address_of(self.cards[k])
        if given:
            return given
        self.undo.do(["ip", "addr", "add", ADDRESSES[k] + "/24", "dev", card],
                     "ip addr del %s/24 dev %s" % (ADDRESSES[k], card))
        return ADDRESSES[k]

    def sysctls(self):
        """Only the card with an address answers ARP requests for it, and packets from our own address
        are accepted from another card."""
        values = [("all/arp_ignore", 1), ("all/arp_announce", 2), ("all/rp_filter", 0)]
        for card in self.cards:
            values += [(card + "/accept_local", 1), (card + "/rp_filter", 0)]
        for name, value in values:
            before = read(CONF + name)
            if before != str(value):
                self.undo.do(["sh", "-c", "echo %d >%s%s" % (value, CONF, name)],
                             "echo %s >%s%s" % (before, CONF, name))

    def rules(self):
        for card in self.cards:
            rule = "pref %d iif %s lookup local" % (RULES["from outside"], card)
            self.undo.do(["ip", "rule", "add"] + rule.split(), "ip rule del " + rule)
        # There is always one of the two.
        moved = "pref %d lookup local" % RULES["our own"]
        self.undo.do(["ip", "rule", "add"] + moved.split(), "ip rule del " + moved)
        self.undo.do("ip rule del pref 0 lookup local".split(), "ip rule add pref 0 lookup local")

    def wire(self, k):
        """Packets to the address of card 1 - k leave by card k."""
        card, other, to = self.cards[k], self.cards[1 - k], self.addresses[1 - k]
        route = "%s dev %s src %s table %d" % (to, card, self.addresses[k], TABLES[k])
        self.undo.do(["ip", "route", "add"] + route.split(), "ip route del " + route)
        neighbour = "%s lladdr %s dev %s" % (to, read("/sys/class/net/%s/address" % other), card)
        self.undo.do(["ip", "neigh", "replace"] + neighbour.split() + ["nud", "permanent"],
                     "ip neigh del %s dev %s" % (to, card))
        rule = "pref %d to %s lookup %d" % (RULES["wires"], to, TABLES[k])
        self.undo.do(["ip", "rule", "add"] + rule.split(), "ip rule del " + rule)

    # ---- netem ----

    def packets(self, ms):
        """Twice the packets that netem must hold; its default is 1000, and it drops the packets beyond
        its limit."""
        mbit = max(mbit_of(card) or 0 for card in self.cards) or 10000
        return max(NETEM_PACKETS_LEAST, int(2 * mbit * 1000 * ms / 8 / 1500))

    def set_rtt(self, ms):
        """Half of a round trip on each card."""
        if ms == self.delay:
            return
        for card in self.cards:
            if not ms:
                if self.delay:
                    output(["tc", "qdisc", "del", "dev", card, "root"])
                continue
            words = ["tc", "qdisc", "replace", "dev", card, "root", "netem", "limit",
                     str(self.packets(ms / 2)), "delay", "%gms" % (ms / 2)]
            undo = "tc qdisc del dev %s root 2>/dev/null || :" % card
            if undo in self.undo.steps:
                output(words)
            else:
                self.undo.do(words, undo)
        self.delay = ms
