#!/usr/bin/env python3
# filter-judge.py SEED COUNT DIR URL ROOT: COUNT random lists of --exclude and --include,
# each used by put, get or cp of a random tree, choose the same names as rsync does. DIR is a
# place for trees, ROOT the server's directory behind URL. Prints each difference; exit 1
# if there is one.
import os, random, shutil, subprocess, sys

seed, count, place, url, root = int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:6]
chance = random.Random(seed)
NAMES = ['a', 'b', 'foo', 'bar', 'foo.o', 'x.c', 'a b', 'b-c', 'tmp', 'f[o', 'q?', 'back\\s', '*star',
         '.hid', 'foo.o.bak']
PIECES = ['*', '?', '**', '[a-f]', '[!a]', '[^b-z]', '[[:alpha:]]', 'o', 'f', 'a', 'b', '.', '-',
          '\\*', '\\?', '[]x]', '[a-]', '***']


def make_tree(path, depth=0):
    os.makedirs(path)
    for name in chance.sample(NAMES, chance.randint(2, 7)):
        below = os.path.join(path, name)
        if depth < 4 and chance.random() < .4:
            make_tree(below, depth + 1)
        else:
            open(below, 'w').close()


def component():
    if chance.random() < .45:
        return chance.choice(NAMES[:9])
    return ''.join(chance.choice(PIECES) for _ in range(chance.randint(1, 4)))


def pattern():
    text = '/'.join(component() for _ in range(chance.choice([1, 1, 1, 2, 2, 3])))
    text = '/' + text if chance.random() < .25 else text
    text += '/' if chance.random() < .25 else ''
    text += '/***' if chance.random() < .1 else ''
    return '**/' + text if chance.random() < .1 else text


def names_below(path):
    found = set()
    for directory, dirs, files in os.walk(path):
        found |= {os.path.relpath(os.path.join(directory, n), path) for n in dirs + files}
    return found


def chosen_by_rsync(source, rules):
    to = os.path.join(place, 'rsync')
    shutil.rmtree(to, ignore_errors=True)
    subprocess.run(['rsync', '-r', *rules, source, to + '/'], check=True)
    return names_below(to)


def chosen_by_rftp(way, source, rules):
    common = ['-q', '-r', '--accept-new', '--ack', 'written', *rules]
    name = source.removeprefix(place + '/')
    there, here = os.path.join(root, 'to'), os.path.join(place, 'to')
    for path in there, here:
        shutil.rmtree(path, ignore_errors=True)
    command = {'put': ['put', *common, source, url + '/to/'],
               'get': ['get', *common, url + '/' + name, here + '/'],
               'cp': ['cp', *common, url + '/' + name, url + '/to/']}[way]
    subprocess.run(['rftp', *command], check=True)
    return names_below(here if way == 'get' else there)


bad = 0
for turn in range(count):
    if turn % 15 == 0:
        for path in os.path.join(place, 'tree'), os.path.join(root, 'tree'):
            shutil.rmtree(path, ignore_errors=True)
        make_tree(os.path.join(place, 'tree'))
        shutil.copytree(os.path.join(place, 'tree'), os.path.join(root, 'tree'))
    rules = [chance.choice(['--include=', '--exclude=', '--exclude=']) + pattern()
             for _ in range(chance.randint(1, 5))]
    source = os.path.join(place, 'tree') + ('/' if turn % 2 else '')
    way = ['put', 'get', 'cp'][turn % 3]
    want, got = chosen_by_rsync(source, rules), chosen_by_rftp(way, source, rules)
    if want != got:
        bad += 1
        print(f'list {turn} of seed {seed}, {way}: {rules}\n only rsync: {sorted(want - got)[:5]}\n'
              f' only rftp: {sorted(got - want)[:5]}')
sys.exit(bad > 0)
