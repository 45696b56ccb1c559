#!/usr/bin/env python3
"""type-guide.py GUIDE SOCKET [SECTION...]
   type-guide.py --like EXPECTED SEEN

Types the commands of GUIDE, one block after the other, into two shells on terminals, and compares
the screens with the blocks. The terminals are windows 0 ("$ ") and 1 ("server$ ") of the tmux at
SOCKET. Prints "ok NAME" or "not ok NAME" and the difference, for each block up to the first one
that differs; a block's name is its heading and its first line. Blocks of the SECTIONs are skipped.
--like only compares two files, and returns the result as its exit status.

A block without a language is a terminal:
  PROMPT TEXT   the text is typed when the screen ends with this prompt
  Password...:  at such a prompt, the page's "the password `...`" is typed
  ^C            this key is typed when everything above it is on the screen; a progress line must
                have reached the value in the block, and is then overwritten. A block that begins
                with ^C is the server's
  ...           any lines, or any part of one

Measured and machine-dependent values always match: times, rates, dates, numbers of processes and
ports, owners. For keys and digests, equal ones in the guide must be equal on the screen."""
import itertools, os, re, subprocess, sys, time

from markdown import blocks_below

PATIENCE = float(os.environ.get("GUIDE_PATIENCE", "60")) * int(os.environ.get("E2E_SLOW", "1"))
PROMPT = re.compile(r"((?:server)?\$|>|rftp>|[\w.-]+:[^ >]*>|.*\(yes, no(?:, all, quit)?\)\?) (.+)")
SECRET = re.compile(r"(?:Password.*|Again):")
BARE = re.compile(r"(?:server)?\$|>|rftp>|[\w.-]+:[^ >]*>")
PROGRESS = re.compile(r" *(\d+)% ")

SIZE = r"\d+(?:\.\d+)? (?:[KMGT]i)?B"
ALIKE = [(re.compile(pattern, re.M), name) for pattern, name in (
    (r"^\^C", ""),
    # A transfer that takes a second names the slowest stage.
    (r", held back by [A-Za-z ]+ \(\d+ %\)", ""),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4}", "DATE"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d(?::\d\d)?", "DATE"),
    (r"rftpd\[\d+\]", "rftpd[PID]"),
    (r"(127\.0\.0\.1):\d{5}\b", r"\1:PORT"),
    (r"^([-dl][-rwxst]{9}) +\S+ +\S+ ", r"\1 OWNER GROUP "),
    (SIZE + "/s", "RATE"),
    (r"\d+(?:\.\d+)? [KMGT]?bit/s", "RATE"),
    (r"\bin \d+\.\d+ s\b", "in TIME"),
    (r"CPU seconds here [\d.]+, there [\d.]+", "CPU seconds here TIME, there TIME"),
    # The progress at an interruption, and the remaining work.
    (r"^ *\d+% +" + SIZE + r" of (.*?) +RATE +\d+:\d\d left +\([A-Za-z ]+(?: \d+ %)?\)", r"PERCENT of \1"),
    (r"^" + SIZE + " in TIME, RATE, 0 files$", "PART in TIME, 0 files"),
    (r"^" + SIZE + r"( in TIME, RATE, .*), " + SIZE + " were there", r"PART\1, PART were there"),
    # bench prints a line about every second.
    (r"^(put|get) +\d+\.\d s +" + SIZE + " +RATE$", r"\1 TIME BYTES RATE"),
    (r"^((?:put|get) TIME BYTES RATE\n)\1+", r"\1"),
    (r"\b\d+ channels?\b", "CHANNELS"),
    (r"^(put|get) " + SIZE + " in TIME", r"\1 BYTES in TIME"),
    (r" +", " "),
    (r" $", ""))]
NAMES = re.compile(r"SHA256:[\w+/]{43}|\b[0-9a-f]{64}\b|\.rftp-[0-9a-f]{32}")


class Names:
    """Numbers keys, digests and names of partial files in order of appearance."""

    def __init__(self):
        self.known = {}

    def __call__(self, match):
        return "NAME%d" % self.known.setdefault(match[0], len(self.known))


def plain(lines, names):
    text = NAMES.sub(names, "\n".join(lines))
    for pattern, name in ALIKE:
        text = pattern.sub(name, text)
    return text


def by_name(text):
    """Sorts the files that a dry run lists: their order depends on the filesystem."""
    listed = re.compile(r".* \([0-9.]+ [KMGT]?i?B\)(, left alone)?")
    runs = itertools.groupby(text.split("\n"), lambda line: bool(listed.fullmatch(line)))
    return "\n".join(line for files, run in runs for line in (sorted(run) if files else run))


def like(expected, seen):
    """Compares two plain texts."""
    expected, seen = by_name(expected), by_name(seen)
    pattern = "".join(r"(?:.*\n)*?" if line == "..." else
                      ".*".join(re.escape(part) for part in line.split("...")) + r"\n"
                      for line in expected.split("\n"))
    return re.fullmatch(pattern, seen + "\n") is not None


class Terminal:
    def __init__(self, socket, window):
        self.socket, self.window = socket, window

    def tmux(self, *words):
        return subprocess.run(["tmux", "-S", self.socket, words[0], "-t", ":%d" % self.window,
                               *words[1:]], check=True, stdout=subprocess.PIPE, text=True).stdout

    def lines(self):
        """Everything shown so far, without blank ends."""
        shown = self.tmux("capture-pane", "-p", "-J", "-S", "-").rstrip()
        return [line.rstrip() for line in shown.split("\n")] if shown else []

    def type(self, text):
        self.tmux("send-keys", "-l", text)
        self.tmux("send-keys", "Enter")

    def interrupt(self):
        self.tmux("send-keys", "C-c")


def percent(lines):
    """The last percentage shown."""
    match = PROGRESS.match(lines[-1]) if lines else None
    return int(match[1]) if match else 0


class Wrong(Exception):
    pass


def last(lines):
    return lines[-1] if lines else ""


def wait(until, wrong):
    end = time.time() + PATIENCE
    while not until():
        if time.time() > end:
            raise Wrong(wrong())
        time.sleep(0.05)


class Guide:
    def __init__(self, text, socket):
        self.client, self.server = Terminal(socket, 0), Terminal(socket, 1)
        self.there, self.here = Names(), Names()
        secret = re.search(r"the\s+password\s+`([^`]+)`", text)
        self.secret = secret[1] if secret else ""

    def play(self, lines):
        """Types a block and compares the screen."""
        server = lines[0] == "^C" or lines[0].startswith("server$ ")
        terminal = self.server if server else self.client
        begin = len(terminal.lines())
        if lines[0] != "^C":
            wait(lambda: BARE.fullmatch(last(terminal.lines())), lambda: "there is no prompt")
            begin = len(terminal.lines()) - 1
        expected = []
        typed_at = begin - 1

        def prompted(prompt):
            # The previous prompt line remains, even before the typed text appears in it.
            shown = terminal.lines()
            return len(shown) > typed_at + 1 and shown[-1] == prompt

        def as_expected(seen):
            return like(plain(expected, self.there), plain(seen, self.here))

        def interruptible():
            seen = terminal.lines()[begin:]
            return as_expected(seen) and percent(seen) >= percent(expected)

        def ended():
            seen = terminal.lines()[begin:]
            if seen and BARE.fullmatch(seen[-1]):
                return as_expected(seen[:-1])
            # rftpd keeps running; a command without output may, too.
            return server and not PROMPT.fullmatch(last(expected)) and as_expected(seen)

        def difference():
            return "\n".join(["expected:", *expected, "seen:", *terminal.lines()[begin:]])

        for line in lines:
            if line == "^C":
                if expected:
                    wait(interruptible, difference)
                    if PROGRESS.match(expected[-1]):
                        expected.pop()
                terminal.interrupt()
                continue
            expected.append(line)
            typed = PROMPT.fullmatch(line)
            if typed or SECRET.fullmatch(line):
                wait(lambda: prompted(typed[1] if typed else line), difference)
                typed_at = len(terminal.lines()) - 1
                terminal.type(typed[2] if typed else self.secret)
        wait(ended, difference)


def main():
    if sys.argv[1] == "--like":
        expected, seen = (plain(open(name).read().rstrip("\n").split("\n"), Names())
                          for name in sys.argv[2:])
        sys.exit(not like(expected, seen))
    text, out = open(sys.argv[1]).read(), sys.argv[3:]
    guide = Guide(text, sys.argv[2])
    for heading, language, lines in blocks_below(text):
        if language or heading in out:
            continue
        name = "%s: %s" % (heading, next((l for l in lines if l != "^C"), ""))
        try:
            guide.play(lines)
        except Wrong as wrong:
            print("not ok " + name)
            print(wrong)
            sys.exit(1)
        print("ok " + name, flush=True)


main()
