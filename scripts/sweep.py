# SPDX-License-Identifier: Apache-2.0
"""What scripts/fio-numa and scripts/wan-loopback share: values of the command line, how busy the
processors are, tables and plots."""

import argparse
import os
import re
import shutil
import subprocess
import time

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class Failure(Exception):
    """Something that ends the whole; its text is for the user."""


def need(programs):
    for program, package in programs:
        if not shutil.which(program):
            raise Failure("%s is not in PATH; install the package %s" % (program, package))


# ---- values ------------------------------------------------------------------------

def size(text):
    match = re.fullmatch(r"([1-9][0-9]*)([KMGT]?)", text)
    if not match:
        raise argparse.ArgumentTypeError("'%s' is no size; 64K and 1G are" % text)
    return int(match.group(1)) * UNITS[match.group(2)]


def short(number):
    for unit in "TGMK":
        if number % UNITS[unit] == 0:
            return "%d%s" % (number // UNITS[unit], unit)
    return str(number)


def count(text):
    if not re.fullmatch("[1-9][0-9]{0,5}", text):
        raise argparse.ArgumentTypeError("'%s' is no number from 1" % text)
    return int(text)


def list_of(kind):
    return lambda text: [kind(word) for word in text.split(",")]


def one_of(*words):
    def check(text):
        if text not in words:
            raise argparse.ArgumentTypeError("'%s' is none of: %s" % (text, ", ".join(words)))
        return text
    return check


# ---- processors --------------------------------------------------------------------

class Busy:
    """How much of the processors was used meanwhile: the kernel's work for others (interrupts, a
    target's threads, when they are on this machine) is in it, too."""

    def __init__(self):
        self.before, self.begun = self.read(), time.monotonic()

    @staticmethod
    def read():
        with open("/proc/stat", encoding="ascii") as f:
            ticks = [int(word) for word in f.readline().split()[1:9]]
        return sum(ticks) - ticks[3] - ticks[4]

    def seconds(self):
        return (self.read() - self.before) / os.sysconf("SC_CLK_TCK")

    def percent(self):
        """Of one processor."""
        return 100 * self.seconds() / (time.monotonic() - self.begun)


# ---- tables and plots --------------------------------------------------------------

def number(value, form="%.2f"):
    return "-" if value is None else form % value


def columns(lines, texts):
    """Lines of words below each other; the first so many columns are text."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    for line in lines:
        yield "  ".join(word.ljust(width) if i < texts else word.rjust(width)
                        for i, (word, width) in enumerate(zip(line, widths))).rstrip()


def quoted(text):
    """For gnuplot."""
    return "'%s'" % text.replace("'", "''")


def gnuplot(path, width, height, script):
    """Lines of gnuplot, as a picture in path, .svg or .png."""
    kind = "svg" if path.endswith(".svg") else "pngcairo"
    script = ["set terminal %s size %d,%d" % (kind, width, height),
              "set output " + quoted(path)] + script
    done = subprocess.run(["gnuplot"], input="\n".join(script) + "\n", text=True, check=False,
                          stderr=subprocess.PIPE)
    if done.returncode:
        raise Failure("gnuplot failed: %s" % " ".join(done.stderr.split())[:400])
