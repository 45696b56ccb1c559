#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Replaces names by links to outside the root, files and directories in turn, as fast as possible.

link-swapper.py OUTSIDE BESIDE SEED NAME...: OUTSIDE is a directory that nothing may change. The
replacements are made in BESIDE, on the filesystem of the names. Ends with its parent, or on a
signal; prints "ready" after one round of all names."""
import os
import random
import shutil
import sys

outside, beside, seed, names = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:]
parent = os.getppid()
chance = random.Random(seed)


def forbidden(at):
    os.close(os.open(at, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0))


def plain(at):
    os.close(os.open(at, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


def directory(at):
    os.mkdir(at, chance.choice((0o500, 0o700)))


def to_directory(at):
    os.symlink(outside, at)


def to_file(at):
    os.symlink(outside + '/secret', at)


# A single name swaps only between the two kinds that can exploit a race between a check and its
# use.
kinds = (forbidden, to_directory) if len(names) == 1 else \
    (forbidden, plain, directory, to_directory, to_file)


def remove(name):
    """Removes name, which other processes may replace meanwhile."""
    try:
        os.unlink(name)
    except OSError:
        shutil.rmtree(name, ignore_errors=True)  # does not follow links


def swap(name, n):
    made = os.path.join(beside, '%d.%d' % (os.getpid(), n))
    chance.choice(kinds)(made)
    for _ in range(3):
        try:
            os.rename(made, name)
            return
        except OSError:  # the types differ, or the parent is missing
            remove(name)
    remove(made)


for number, one in enumerate(names):
    swap(one, number)
print('ready', flush=True)
while os.getppid() == parent:
    number += 1
    swap(chance.choice(names), number)
