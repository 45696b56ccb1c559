#!/usr/bin/env python3
# where.py PID FILE [PID FILE...]: into each FILE a process's bound memory and its threads, as the
# kernel tells, in lines
#   memory NODE PAGES_THERE PAGES_ELSEWHERE    of all mappings bound to that node (4 KiB pages)
#   thread NAME CPUS                           for each
import glob, re, sys


def memory(pid):
    bound = {}
    for line in open(f'/proc/{pid}/numa_maps'):
        policy = re.match(r'\S+ (?:bind|prefer)[^:]*:(\d+) ', line)
        if not policy:
            continue
        node, sums = policy[1], bound.setdefault(policy[1], [0, 0])
        size = re.search(r'kernelpagesize_kB=(\d+)', line)
        for on, n in re.findall(r' N(\d+)=(\d+)', line):
            sums[on != node] += int(n) * (int(size[1]) // 4 if size else 1)
    for node, (there, elsewhere) in sorted(bound.items()):
        yield f'memory {node} {there} {elsewhere}\n'


def threads(pid):
    for task in glob.glob(f'/proc/{pid}/task/*/status'):
        status = open(task).read()
        yield 'thread {} {}\n'.format(re.search(r'Name:\s*(\S+)', status)[1],
                                      re.search(r'Cpus_allowed_list:\s*(\S+)', status)[1])


for pid, name in zip(sys.argv[1::2], sys.argv[2::2]):
    with open(name, 'w') as f:
        f.writelines(memory(pid))
        f.writelines(threads(pid))
