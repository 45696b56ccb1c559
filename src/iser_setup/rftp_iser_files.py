# SPDX-License-Identifier: Apache-2.0
"""The files and devices that back stores of LIO stand on: made, or looked at whether they are
nobody else's. For rftp-iser-lio."""

import contextlib
import errno
import itertools
import os
import stat

PATH_BYTES = 255         # of a file: the kernel cuts longer ones without a word


class Wrong(Exception):
    """A request that cannot be done, and why, in one line."""


# ---- files ----

def file_identity(path):
    try:
        there = os.stat(path)
    except OSError:
        return None
    return there.st_dev, there.st_ino


def loop_devices():
    """Each with the file that it has."""
    for device in os.listdir('/sys/block'):
        with contextlib.suppress(OSError):
            with open(f'/sys/block/{device}/loop/backing_file', encoding='utf-8') as backing:
                yield f'/dev/{device}', backing.read().rstrip('\n')


def take_file(path, size, users):
    """The file is there already, and stays what it is."""
    there = os.stat(path)
    if not stat.S_ISREG(there.st_mode):
        raise Wrong(f'{path} is no regular file')
    if there.st_size != size:
        raise Wrong(f'{path} is there already, of {there.st_size} bytes and not {size}: remove '
                    'it, or have the plan say its size')
    for user, used in itertools.chain(users, loop_devices()):
        if file_identity(used) == (there.st_dev, there.st_ino):
            raise Wrong(f'{path} is in use by {user}')


def nameless(folder):
    """A file that is gone with us as long as it has no name; None: not in this filesystem."""
    try:
        return os.open('.', os.O_RDWR | os.O_TMPFILE, 0o600, dir_fd=folder)
    except OSError as e:
        if e.errno in (errno.EOPNOTSUPP, errno.EISDIR):
            return None
        raise


def make_file(path, size):
    """Allocated now, by this process's memory policy or the filesystem's own: whole, or not at
    all."""
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
    with contextlib.ExitStack() as ended, contextlib.ExitStack() as undo:
        ended.callback(os.close, folder)
        fd = named = nameless(folder)
        if fd is None:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            undo.callback(os.unlink, path)
        ended.callback(os.close, fd)
        os.posix_fallocate(fd, 0, size)
        os.fsync(fd)
        if named is not None:
            # With a directory given it is linkat, which follows the link.
            os.link(f'/proc/self/fd/{fd}', os.path.basename(path), dst_dir_fd=folder)
        os.fsync(folder)
        undo.pop_all()


def have_file(path, size, users, undo):
    """users: who has which file open already, besides loop devices, pairs of names and paths.
    undo: gets what takes back what is made."""
    if size == 0:
        raise Wrong('a file needs a size')
    if os.path.lexists(path):
        take_file(path, size, users)
        return
    try:
        make_file(path, size)
    except OSError as e:
        raise Wrong(f'{path}, {size} bytes: {e.strerror}') from None
    undo.callback(os.unlink, path)


# ---- devices ----

def device_number(path):
    there = os.stat(path)
    if not stat.S_ISBLK(there.st_mode):
        raise Wrong(f'{path} is no block device')
    return there.st_rdev


def queue_says(number, what):
    """A partition's queue is its disk's."""
    base = f'/sys/dev/block/{os.major(number)}:{os.minor(number)}'
    for queue in f'{base}/queue', f'{base}/../queue':
        with contextlib.suppress(OSError):
            with open(f'{queue}/{what}', encoding='utf-8') as f:
                return f.read().strip()
    return ''


def check_device(path, size, write_back):
    """LIO hands writes to a device as they come: its cache is its own, and LIO tells initiators
    of it. So we cannot make it write through, and do not say that it did."""
    number = device_number(path)
    try:
        fd = os.open(path, os.O_RDWR | os.O_EXCL | os.O_CLOEXEC)
    except OSError as e:
        busy = 'is mounted, or in use by another' if e.errno == errno.EBUSY else e.strerror
        raise Wrong(f'{path}: {busy}') from None
    try:
        has = os.lseek(fd, 0, os.SEEK_END)
    finally:
        os.close(fd)
    if size not in (0, has):
        raise Wrong(f'{path} has {has} bytes and not {size}; 0 stands for all of it')
    if not write_back and queue_says(number, 'write_cache') == 'write back':
        raise Wrong(f'{path} has a volatile write cache, which LIO does not circumvent: have the '
                    'plan say write-back, or switch the cache off in the device')


# ---- both ----

def check_path(plugin, path):
    if plugin == 'rd_mcp':
        return
    if not path.startswith('/'):
        raise Wrong(f'{path or "the path"} does not begin with "/"')
    # It is a word of a list to the kernel.
    if ',' in path or path != path.strip() or len(os.fsencode(path)) > PATH_BYTES:
        raise Wrong(f'{path}: LIO takes no path with a comma, a blank at its end, or more than '
                    f'{PATH_BYTES} bytes')
