#!/usr/bin/env python3
# where.py PID: a process's bound memory and its threads, as the kernel tells, in lines
#   memory NODE PAGES_THERE PAGES_ELSEWHERE    of all mappings bound to that node (4 KiB pages)
#   thread NAME CPUS                           for each
import glob, re, sys

pid = sys.argv[1]
bound = {}
for line in open(f'/proc/{pid}/numa_maps'):
    policy = re.match(r'\S+ (?:bind|prefer)[^:]*:(\d+) ', line)
    if not policy:
        continue
    node, sums = policy[1], bound.setdefault(policy[1], [0, 0])
    size = int(re.search(r'kernelpagesize_kB=(\d+)', line)[1]) // 4 if 'kernelpagesize' in line else 1
    for on, n in re.findall(r' N(\d+)=(\d+)', line):
        sums[on != node] += int(n) * size
for node, (there, elsewhere) in sorted(bound.items()):
    print('memory', node, there, elsewhere)
for task in glob.glob(f'/proc/{pid}/task/*/status'):
    status = open(task).read()
    print('thread', re.search(r'Name:\s*(\S+)', status)[1],
          re.search(r'Cpus_allowed_list:\s*(\S+)', status)[1])
