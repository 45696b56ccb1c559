# SPDX-License-Identifier: Apache-2.0
"""One run: of rftp, of perftest or of iperf3, and its result."""

import json
import os
import random

from sweep import Busy, Failure, size
from wan.cells import AUTO
from wan.ends import Done, Far, until
from wan.loop import mbit_of, output

GRACE = 60                 # seconds beyond its own that a run may take
GRACE_RAW = 30             # the same of perftest, which in the end may wait for ever
SLOWEST = 1e6              # bytes per second of a file, before it counts as hung
MARGIN = 1                 # seconds at both ends of a run of perftest that are not measured
FLIGHT_LEAST, FLIGHT_MOST = 16 << 20, 4 << 30
DEPTH_LEAST, DEPTH_MOST = 2, 4096
TIMEOUT_LEAST, TIMEOUT_MOST = 14, 22
SOFT_RATE = 100e6          # bytes per second of rdma_rxe, as rftp counts
WARM_SECONDS = 1


def is_soft(device):
    """Soft-RoCE, which tells the network card it is on."""
    return os.path.exists("/sys/class/infiniband/%s/parent" % device)


def failed(status, text):
    return {"status": "failed", "exit": str(status), "error": text}


def done(count, seconds, rate, here=None, there=None):
    result = {"status": "ok", "exit": "0", "bytes": count, "seconds": "%.3f" % seconds,
              "bytes_per_second": int(rate)}
    for key, value in (("cpu_here", here), ("cpu_there", there)):
        result[key] = "" if value is None else "%.3f" % value
    return result


def refused(ended):
    """perftest or iperf3 says that the other end does not listen yet."""
    text = ended.out + ended.err
    return "Couldn't connect to" in text or "unable to connect to server" in text


def card_with(address):
    """The network card that has an address, or None."""
    for line in output(["ip", "-o", "addr", "show"]).splitlines():
        words = line.split()
        if words[3].partition("/")[0] == address:
            return words[1]
    return None


def ack_timeout(rtt_ms, queued_ms):
    """perftest's --qp-timeout, 4.096 us x 2^n: four round trips and the time in queues, as in rftp.
    The default is 67 ms: packets that are acknowledged later are sent again and again."""
    n = TIMEOUT_LEAST
    while n < TIMEOUT_MOST and 4.096e-3 * 2 ** n < 4 * (rtt_ms or 0) + queued_ms:
        n += 1
    return n


class Runner:
    """Makes runs on paths."""

    def __init__(self, options, programs, work):
        self.options, self.programs, self.work = options, programs, work
        self.rftp = os.path.join(options.build, "rftp") if options.build else "rftp"
        # The names of our files on a server that others use, too.
        self.name = "wan-loopback.%d.%d" % (os.getpid(), random.SystemRandom().randrange(10 ** 6))
        self.source = os.path.join(options.dir or work, self.name)
        self.remote = {}           # path: the files that we left on its server

    def run(self, path, cell):
        tool = {"verbs": self.verbs, "iperf3": self.iperf3}.get(cell.tool, self.ours)
        busy = Busy()
        result = tool(path, cell)
        if path.far and not path.far.ssh:
            result["cpu_host"] = "%.2f" % busy.seconds()
        return result

    # ---- rftp ----

    def words(self, path, cell):
        words = self.operation(path, cell.op)
        for option, value in (("--block", cell.block), ("--channels", cell.channels)):
            words += [option, value] if value != AUTO else []
        blocks = cell.blocks_in_flight()
        return words + (["--inflight", str(blocks)] if blocks else [])

    def operation(self, path, op):
        words = path.login + path.words + ["--json", "--prot", self.options.prot]
        words += ["--transport", "tcp"] if op == "tcp" else ["--transport", "rdma", "--op", op]
        return words + self.options.rftp

    def ours(self, path, cell):
        if cell.kind == "memory":
            return self.bench(path, self.words(path, cell), cell.direction,
                              self.options.seconds)
        return self.file(path, self.words(path, cell), cell.direction)

    def bench(self, path, words, direction, seconds):
        words = [self.rftp, "bench", "--" + direction, "--time", "%ds" % seconds] + words
        words += ["--crc", "off"] if self.options.crc == "off" else []
        return self.outcome(self.programs.run(words + [path.file("")], 2 * seconds + GRACE))

    def file(self, path, words, direction):
        self.make_directory(path)
        limit = GRACE + self.options.size / SLOWEST
        words = words + ["--retries", "0"]
        words += ["--ack", self.options.ack] if self.options.ack else []
        there = path.file(self.name)
        if direction == "put":
            self.make_source()
            self.remove(path, there)
            self.remote[path].add(there)
            return self.outcome(self.programs.run([self.rftp, "put"] + words +
                                                  [self.source, there], limit))
        there += ".source"
        if there not in self.remote[path]:
            self.make_source()
            first = self.outcome(self.programs.run(
                [self.rftp, "put"] + words + [self.source, there], limit))
            self.remote[path].add(there)
            if first["status"] != "ok":
                self.remote[path].discard(there)
                return {**first, "error": "its source: " + first["error"]}
        back = self.source + ".back"
        if os.path.exists(back):
            os.unlink(back)
        return self.outcome(self.programs.run([self.rftp, "get"] + words + [there, back], limit))

    def make_directory(self, path):
        """The directory of a URL; its errors show in the run."""
        if path not in self.remote:
            self.remote[path] = set()
            self.programs.run([self.rftp, "mkdir", "-p"] + path.login + [path.file("")], GRACE)

    def make_source(self):
        """No holes, and nothing that any layer could press together as a whole."""
        if os.path.exists(self.source):
            return
        piece = os.urandom(1 << 20)
        try:
            with open(self.source, "wb") as f:
                for at in range(0, self.options.size, len(piece)):
                    f.write(piece[:self.options.size - at])
        except OSError as e:
            raise Failure("%s: a file of %d bytes: %s" % (
                self.source, self.options.size, e.strerror)) from e

    def remove(self, path, url):
        self.programs.run([self.rftp, "rm", "-q"] + path.login + [url], GRACE)

    def clear(self):
        for path, urls in self.remote.items():
            for url in urls:
                self.remove(path, url)
        self.remote = {}
        for name in (self.source, self.source + ".back"):
            if os.path.exists(name):
                os.unlink(name)

    @staticmethod
    def outcome(ended):
        events = []
        for line in ended.out.splitlines():
            try:
                events.append(json.loads(line))
            except ValueError:
                continue
        last = events[-1] if events else {}
        agreed = next((e for e in events if e.get("event") == "started"), {})
        if ended.status or last.get("event") != "summary":
            error = last.get("error") or ended.why()
            result = failed(ended.status, error if isinstance(error, str) else ended.why())
        else:
            result = done(last["bytes"], last["seconds"], last["bytes_per_second"],
                          last.get("cpu_seconds_local"), last.get("cpu_seconds_remote"))
        for key in ("transport", "block", "channels", "inflight"):
            result["agreed_" + key] = agreed.get(key, "")
        return result

    def warm_up(self, path):
        """A run of each operation each way, of which nothing is kept."""
        for op in self.options.op:
            for direction in self.options.direction:
                self.bench(path, self.operation(path, op), direction, WARM_SECONDS)

    # ---- the other tools ----

    def pair(self, path, server, client, limit):
        """A server there, and its client as soon as it listens. The client's end."""
        far = path.far
        waits = self.programs.start(far.words(["timeout", "%d" % (limit + 10)] + server))
        ended = []

        def connected():
            ended.append(self.programs.run(client, limit))
            # iperf3 -J ends with 0 even then.
            return not refused(ended[-1]) or waits.poll() is not None

        until(connected, 20)
        if ended[-1].status == 0 and not refused(ended[-1]):
            self.programs.wait(waits, 10)
            return ended[-1]
        if ended[-1].status == 124:
            self.programs.end(waits)
            return ended[-1]
        # The server may know more.
        there = self.programs.wait(waits, 5)
        return Done(ended[-1].status or 1, "", "%s; the other end: %s" % (
            ended[-1].why(), there.why()))

    def depth(self, path, block, pairs):
        """Messages on the way by each queue pair: the bandwidth and delay of the path twice."""
        flight = self.options.raw_flight
        if not flight:
            mbit = mbit_of(card_with(path.here()) or "") or 10000
            flight = min(max(2 * mbit * 1e3 / 8 * (path.rtt_ms or 0), FLIGHT_LEAST), FLIGHT_MOST)
        return int(min(max(flight // (pairs * block) + 1, DEPTH_LEAST), DEPTH_MOST))

    def verbs(self, path, cell):
        why = path.find_devices(path.far) if not path.devices else None
        if why:
            return failed(1, why)
        pairs, block = int(cell.channels), size(cell.block)
        depth = self.depth(path, block, pairs)
        (ours, our_gid), (theirs, their_gid) = path.devices
        queued = depth * pairs * block / SOFT_RATE * 1e3 if is_soft(ours) else 0
        words = ["-F", "-p", str(random.randrange(20000, 30000)), "-s", str(block),
                 "-q", str(pairs), "-t", str(depth), "-Q", "1",
                 "-u", str(ack_timeout(path.rtt_ms, queued)),
                 "-D", str(self.options.seconds + 2 * MARGIN), "-f", str(MARGIN)]
        words += ["-b"] if cell.direction == "both" else []
        program = "ib_%s_bw" % cell.op
        ended = self.pair(path, [program, "-d", theirs, "-x", their_gid] + words,
                          [program, "-d", ours, "-x", our_gid] + words + [path.address],
                          2 * self.options.seconds + GRACE_RAW)
        result = self.perftest_outcome(ended, block)
        result["agreed_inflight"] = depth * pairs
        return result

    def perftest_outcome(self, ended, block):
        if ended.status:
            return failed(ended.status, ended.why())
        for line in ended.out.splitlines():
            words = line.split()
            if len(words) >= 5 and words[0] == str(block):
                rate = float(words[3]) * (1 << 20)
                if rate:
                    return done("", self.options.seconds, rate)
        return failed(0, "nothing was measured: no message was through in %d s" %
                      self.options.seconds)

    def iperf3(self, path, cell):
        port = str(random.randrange(20000, 30000))
        words = ["iperf3", "-J", "-c", path.address, "-B", path.here(), "-p", port,
                 "-P", cell.channels, "-t", str(self.options.seconds)]
        words += {"get": ["-R"], "both": ["--bidir"]}.get(cell.direction, [])
        ended = self.pair(path, ["iperf3", "-s", "-1", "-p", port], words,
                          2 * self.options.seconds + GRACE)
        try:
            report = json.loads(ended.out)
            if ended.status or "error" in report:
                return failed(ended.status or 1, report.get("error") or ended.why())
            end = report["end"]
            ways = [end[key] for key in ("sum_received", "sum_received_bidir_reverse")
                    if key in end]
            count, took = sum(way["bytes"] for way in ways), ways[0]["seconds"]
            cpu = end["cpu_utilization_percent"]
            return done(count, took, sum(way["bits_per_second"] for way in ways) / 8,
                        cpu["host_total"] * took / 100, cpu["remote_total"] * took / 100)
        except (ValueError, KeyError, IndexError):
            return failed(ended.status or 1, ended.why())


def why_not_raw(options, path):
    """Why perftest and iperf3 cannot be run on a path, by tool: {} when both can."""
    why = {}
    for tool, programs in (("verbs", ["ib_write_bw", "ib_read_bw"]), ("iperf3", ["iperf3"])):
        if tool == "verbs" and options.op == ["tcp"]:
            why[tool] = "no operation of RDMA in the sweep"
        elif path.why_not:
            why[tool] = path.why_not
        else:
            ends = [("here", Far(path.far.programs)), ("there", path.far)]
            lost = ["%s %s" % (program, where) for where, far in ends for program in programs
                    if not far.has(program)]
            if lost:
                why[tool] = "no " + ", no ".join(lost)
    return why
