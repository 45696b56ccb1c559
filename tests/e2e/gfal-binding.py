#!/usr/bin/python3
# For gfal.sh: gfal2's Python binding. gfal-binding.py WHAT ARGUMENT...
import errno
import os
import signal
import sys
import threading
import time

import gfal2

gfal2.set_verbose(gfal2.verbose_level.normal)
what, *args = sys.argv[1:]
context = gfal2.creat_context()


def expect(code, call, *arguments):
    try:
        call(*arguments)
    except gfal2.GError as error:
        if error.code == code:
            return
        sys.exit(f'{arguments}: error {error.code}, not {code}: {error}')
    sys.exit(f'{arguments}: no error, but {code} was expected')


def copy(src, dst):
    """Copy with callbacks."""
    events, markers = [], []
    params = context.transfer_parameters()
    params.event_callback = lambda event: events.append(str(event.stage))
    params.monitor_callback = lambda *marker: markers.append(marker)
    params.overwrite = True
    params.create_parent = True
    params.set_checksum(gfal2.checksum_mode.both, 'ADLER32', '')
    context.filecopy(params, src, dst)
    for stage in 'PREPARE:ENTER', 'TRANSFER:ENTER', 'TRANSFER:TYPE', 'TRANSFER:EXIT', 'CHECKSUM:EXIT':
        if not any(stage in event for event in events):
            sys.exit(f'no event {stage} among {events}')
    if not markers:
        sys.exit('no performance marker')
    params.overwrite = False
    expect(errno.EEXIST, context.filecopy, params, src, dst)
    params.overwrite = True
    params.set_checksum(gfal2.checksum_mode.source, 'ADLER32', '12345678')
    expect(errno.EIO, context.filecopy, params, src, dst)


def cancel(src, dst):
    params = context.transfer_parameters()
    timer = threading.Timer(0.7, context.cancel)
    timer.start()
    began = time.monotonic()
    expect(errno.ECANCELED, context.filecopy, params, src, dst)
    timer.join()
    if time.monotonic() - began > 20:
        sys.exit('the cancellation took too long')
    expect(errno.ENOENT, context.stat, dst)


def settings(src, dst):
    """A setting that changes holds for the next operation, although a connection is kept."""
    params = context.transfer_parameters()
    params.overwrite = True
    seconds = []
    for rate in '100M', '2M':
        context.set_opt_string('RFTP PLUGIN', 'RATE', rate)
        began = time.monotonic()
        context.filecopy(params, src, dst)
        seconds.append(time.monotonic() - began)
    if seconds[1] < 1.5:  # 4 MB
        sys.exit(f'the rate has not changed: {seconds}')


def timeout(src, dst):
    params = context.transfer_parameters()
    params.timeout = 1
    expect(errno.ETIMEDOUT, context.filecopy, params, src, dst)


def errors(url, dead):
    expect(errno.ENOENT, context.stat, url + '/nope')
    expect(errno.ENOENT, context.unlink, url + '/nope')
    expect(errno.ENOENT, context.listdir, url + '/nope')
    expect(errno.ENOENT, context.open, url + '/nope', 'r')
    expect(errno.EISDIR, context.unlink, url + '/d')
    expect(errno.ENOTEMPTY, context.rmdir, url + '/d')
    expect(errno.EEXIST, context.mkdir, url + '/d', 0o755)
    expect(errno.ENOSYS, context.checksum, url + '/small', 'nosuch')
    expect(errno.ECONNREFUSED, context.stat, dead + '/x')
    expect(errno.EISDIR, context.open, url + '/d', 'w')
    expect(errno.EISDIR, context.open, url + '/new/', 'w')
    expect(errno.ENOENT, context.getxattr, url + '/nope', 'user.status')


def access(url):
    context.access(url + '/small', os.R_OK)
    expect(errno.ENOENT, context.access, url + '/nope', os.R_OK)
    context.chmod(url + '/small', 0o400)
    expect(errno.EACCES, context.access, url + '/small', os.W_OK)
    context.chmod(url + '/small', 0o600)


def files(url, path):
    with open(path, 'rb') as local:
        data = local.read()
    out = context.open(url, 'w')
    for at in range(0, len(data), 1000000):
        out.write(data[at:at + 1000000].decode())
    del out
    source = context.open(url, 'r')
    got = b''
    while True:
        piece = source.read_bytes(700000)
        if not piece:
            break
        got += piece
    if got != data:
        sys.exit(f'read {len(got)} bytes that differ')
    size = len(data)
    for at, count in (0, 10), (5, 10), (size - 10, 20), (1, 100000), (9000000, 5000000), (100, 1):
        source.lseek(at, 0)
        piece = source.read_bytes(count)
        while 0 < len(piece) < min(count, size - at):
            more = source.read_bytes(count - len(piece))
            if not more:
                break
            piece += more
        if piece != data[at:at + count]:
            sys.exit(f'{len(piece)} bytes at {at} differ from {count}')


def replaced(url, path, other):
    """A file that is replaced by other, of the same size, while it is open."""
    jumps, goes_on, current = (context.open(url, 'r') for _ in range(3))
    for source in jumps, goes_on:
        source.read_bytes(10)
    os.rename(other, path)
    jumps.lseek(9000000, 0)
    expect(errno.ESTALE, jumps.read_bytes, 10)
    expect(errno.ESTALE, jumps.read_bytes, 10)
    left = os.path.getsize(path) - 10
    try:
        while left > 0:
            left -= len(goes_on.read_bytes(1000000))
        sys.exit('read to the end')
    except gfal2.GError as error:
        if error.code != errno.ESTALE:
            sys.exit(f'error {error.code}: {error}')
    expect(errno.ESTALE, current.read_bytes, 10)
    context.open(url, 'r').read_bytes(10)


def killed(*urls):
    """Files that are never closed."""
    outs = [context.open(url, 'w') for url in urls]
    for out in outs:
        out.write('x' * 3000000)
    os.kill(os.getpid(), signal.SIGKILL)


def bulk(url):
    names = [f'{url}/bulk-{i}' for i in range(20)]
    results = context.unlink(names + [url + '/nope'])
    if any(results[:-1]) or not results[-1] or results[-1].code != errno.ENOENT:
        sys.exit(str(results))


def space(url):
    if 'unusedsize' not in context.getxattr(url, 'spacetoken'):
        sys.exit('no space')


def password(url, user, secret):
    expect(errno.EACCES, context.stat, url.replace('//', f'//{user}@'))
    context.cred_set(url, context.cred_new('USER', user))
    context.cred_set(url, context.cred_new('PASSWORD', secret))
    context.stat(url)
    context.mkdir(url + '/by-alice', 0o755)


def certificate(url, user, cert, key):
    with_user = url.replace('//', f'//{user}@')
    expect(errno.EACCES, context.stat, with_user)
    context.cred_set(url, context.cred_new('X509_CERT', cert))
    context.cred_set(url, context.cred_new('X509_KEY', key))
    context.stat(with_user)


globals()[what](*args)
