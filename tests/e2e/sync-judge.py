#!/usr/bin/env python3
# sync-judge.py SEED COUNT DIR URL ROOT: COUNT random trees are changed at random, on both sides;
# then "rftp sync -a --delete" (to, from or between servers) leaves what "rsync -aH --delete"
# leaves: names, types, content, modes, owners, times, links. Every third run is killed at a
# random moment first. Afterwards a dry run finds nothing to do. ROOT is the server's directory
# behind URL. Prints each difference; exit 1 if there is one.
import hashlib
import json
import os
import random
import re
import shutil
import signal
import stat
import subprocess
import sys
import time

seed, count, place, url, root = int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:6]
chance = random.Random(seed)
NAMES = ['a', 'b', 'c', 'd', 'foo.o', 'x.c', 'a b', 'tmp', 'new\nline', 'back\\s', '.hid', 'k', 'l']
RULES = ['--exclude=*.o', '--exclude=tmp/', '--include=*/', '--exclude=/a', '--exclude=k',
         '--exclude=b/c', '--delete-excluded']


def write(path):
    with open(path, 'wb') as file:
        file.write(chance.randbytes(chance.choice([0, 1, 100, 100, 5000, 300000])))
    os.utime(path, ns=(0, chance.randrange(10**18, 2 * 10**18)), follow_symlinks=False)
    os.chmod(path, chance.choice([0o644, 0o600, 0o755, 0o444]))


def everything(top):
    files, dirs = [], [top]
    for directory, below, names in os.walk(top):
        for name in below + names:
            path = os.path.join(directory, name)
            is_dir = not os.path.islink(path) and os.path.isdir(path)
            (dirs if is_dir else files).append(path)
    return files, dirs


def remove(path):
    if os.path.islink(path) or not os.path.isdir(path):
        os.remove(path)
    else:
        shutil.rmtree(path)


def make(path, top, depth=0):
    kind = chance.random()
    files, _ = everything(top)
    regular = [f for f in files if os.path.isfile(f) and not os.path.islink(f)]
    if kind < .3 and depth < 4:
        os.mkdir(path)
        for name in chance.sample(NAMES, chance.randint(0, 5)):
            make(os.path.join(path, name), top, depth + 1)
        os.utime(path, ns=(0, chance.randrange(10**18, 2 * 10**18)))
        os.chmod(path, chance.choice([0o755, 0o700, 0o555]))
    elif kind < .4:
        os.symlink(chance.choice(['a', '../x', '/nowhere', 'b/c']), path)
        os.utime(path, ns=(0, chance.randrange(10**18, 2 * 10**18)), follow_symlinks=False)
    elif kind < .5 and regular:
        os.link(chance.choice(regular), path)
    else:
        write(path)


def change(top, often):
    for _ in range(often):
        files, dirs = everything(top)
        how = chance.random()
        if how < .35 or len(files) + len(dirs) < 4:
            path = os.path.join(chance.choice(dirs), chance.choice(NAMES))
            if os.path.lexists(path):
                remove(path)
            make(path, top, path.count('/') - top.count('/'))
        elif how < .55:
            remove(chance.choice(files + dirs[1:]))
        elif how < .75 and files:
            path = chance.choice(files)
            if not os.path.islink(path):
                write(path)
        elif how < .85:
            path = chance.choice(files + dirs[1:])
            os.utime(path, ns=(0, chance.randrange(10**18, 2 * 10**18)), follow_symlinks=False)
        else:
            path = chance.choice(files + dirs[1:])
            if not os.path.islink(path):
                os.chmod(path, chance.choice([0o640, 0o711, 0o755]))
                os.chown(path, chance.choice([0, 1, 65534]), 0) if os.geteuid() == 0 else None


def print_of(top, src, rules):
    """All that must be equal, by path. A directory that the source does not have stays only if names
    in it are excluded; removing others has changed its time."""
    found, first = {}, {}
    for path in sorted(sum(everything(top), [])):
        st, name = os.lstat(path), os.path.relpath(path, top)
        link = os.readlink(path) if stat.S_ISLNK(st.st_mode) else None
        content = group = None
        if stat.S_ISREG(st.st_mode):
            with open(path, 'rb') as file:
                content = hashlib.sha256(file.read()).hexdigest()
            # rsync also keeps links to excluded names.
            group = None if rules else first.setdefault(st.st_ino, name)
        gone = stat.S_ISDIR(st.st_mode) and not os.path.isdir(os.path.join(src, name))
        found[name] = (stat.filemode(st.st_mode), st.st_uid, st.st_gid,
                       None if gone else st.st_mtime_ns, link,
                       content, group)
    return found


def sync(way, *options):
    words = {'put': [place + '/src/', url + '/to'], 'get': [url + '/src/', place + '/to'],
             'cp': [url + '/src/', url + '/to']}[way]
    return ['rftp', 'sync', '--accept-new', '-a', '--delete', '--ack', 'written', *options, *words]


def rsync(*words):
    """rsync -aH, which some versions never end if a directory is in the way of a hard link. The exit
    status, None for that, and the errors."""
    with subprocess.Popen(['rsync', '-aH', '--modify-window=-1', *words], stderr=subprocess.PIPE,
                          text=True, start_new_session=True) as run:
        try:
            errors = run.communicate(timeout=20)[1]
            return run.returncode, errors
        except subprocess.TimeoutExpired:
            os.killpg(run.pid, signal.SIGKILL)
            return None, 'not done within 20 s'


def sends_nothing(src, rules):
    """All that the source has is left out."""
    listed = subprocess.run(['rsync', '-r', '--list-only', *rules, src + '/'], check=True,
                            stdout=subprocess.PIPE)
    return listed.stdout.count(b'\n') == 1  # the source itself


def failed_links(output, src):
    """The hard links, below src, that rftp says have failed, because their file has."""
    events = [json.loads(line) for line in output.splitlines()]
    texts = [event['text'] for event in events if event['event'] == 'file_failed']
    names = [os.path.relpath(path, src) for path in everything(src)[0]]
    return [name for name in names
            if any(text.endswith('/to/' + shown(name) + ': the file it is a hard link to was not written')
                   for text in texts)]


def shown(name):
    """As rftp prints it."""
    return name.replace('\\', '\\x5c').replace('\n', '\\x0a')


def compare(turn, way, rules, want, got):
    if want == got:
        return 0
    print(f'tree {turn} of seed {seed}, {way} {rules}:')
    for name in sorted(set(want) | set(got)):
        if want.get(name) != got.get(name):
            print(f'  {name!r}\n   rsync {want.get(name)}\n   rftp  {got.get(name)}')
    return 1


bad = killed = 0
for turn in range(count):
    way = ['put', 'get', 'cp'][turn % 3]
    src = os.path.join(place if way == 'put' else root, 'src')
    to = os.path.join(place if way == 'get' else root, 'to')
    judge = os.path.join(place, 'judge')
    for path in src, to, judge:
        shutil.rmtree(path, ignore_errors=True)
    os.mkdir(src)
    change(src, 12)
    assert rsync(src + '/', to)[0] == 0
    change(to, 6)
    change(src, 8)
    assert rsync(to + '/', judge)[0] == 0
    rules = chance.sample(RULES, chance.randint(1, 3)) if chance.random() < .4 else []
    ruling, errors = rsync('--delete', *rules, src + '/', judge)
    if ruling in (None, 2):  # 2: an internal error of rsync, with hard links
        print('# rsync does not judge:', errors.splitlines()[-1])
        continue
    assert ruling in (0, 23), errors
    blocked = ruling == 23  # an excluded name is in a directory that a file replaces
    if sends_nothing(src, rules):
        rules.append('--force')  # rftp must be sure that the source may be empty
    if turn % 3 == turn // 3 % 3:
        with subprocess.Popen(sync(way, '-q', '--rate', '500K', *rules),
                              stderr=subprocess.DEVNULL) as run:
            time.sleep(chance.random() * .3)
            killed += run.poll() is None
            run.kill()
        time.sleep(.1)  # the server notices the lost connection
    run = subprocess.run(sync(way, '-q', '--json', *rules), check=False, stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL if blocked else None)
    if run.returncode != blocked:
        print(f'tree {turn} of seed {seed}, {way} {rules}: exit status {run.returncode}')
        bad += 1
    want, got = print_of(judge, src, rules), print_of(to, src, rules)
    # rsync copies the other names of a file whose first name is blocked; rftp says that it does not.
    for name in failed_links(run.stdout, src) if blocked else []:
        want.pop(name, None), got.pop(name, None)
    bad += compare(turn, way, rules, want, got)
    if blocked:
        continue
    plan = subprocess.run(sync(way, '--dry-run', *rules), check=True, capture_output=True, text=True)
    last = plan.stdout.splitlines()[-1]
    if not re.match(r'to copy: 0 files, 0 B; attributes to correct: 0 files; to remove: 0 names,', last):
        print(f'tree {turn} of seed {seed}, {way} {rules}: a second run would do something:\n' +
              plan.stdout)
        bad += 1
print(f'# {killed} runs were killed')
sys.exit(bad > 0)
