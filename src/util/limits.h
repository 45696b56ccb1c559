// SPDX-License-Identifier: Apache-2.0
/* How much of the machine this process may use: CPUs, memory, descriptors. */
#ifndef RFTP_UTIL_LIMITS_H
#define RFTP_UTIL_LIMITS_H

#include <stdint.h>

/* CPUs that this process may run on (cpuset and affinity honoured), at least 1. */
unsigned cpus_allowed(void);

/* The lowest memory limit, in bytes, of this process's control group and its parents
 * (admin-guide/cgroup-v2: memory.max, memory.high; v1: memory.limit_in_bytes); UINT64_MAX: no known
 * limit. proc, sys: "/proc/self/cgroup", "/sys/fs/cgroup", or copies. */
uint64_t cgroup_memory_limit(const char *proc, const char *sys);

/* Allow the functions below to raise limits. Programs call it at their start, before threads. In a
 * library, limits stay as they are: select(2) in its host would fail on higher descriptors. */
void limits_may_rise(void);
/* Raise the limit of open descriptors as far as allowed, and return it. */
unsigned raise_fd_limit(void);
/* The same for locked memory (RLIMIT_MEMLOCK), in bytes; UINT64_MAX: unlimited. */
uint64_t raise_lock_limit(void);
/* For an error's text: how to allow kib KiB of locked memory. Returns text. */
#define LOCK_ADVICE 192
const char *lock_advice(char text[LOCK_ADVICE], uint64_t kib);

/* Close descriptors from first to last. Where a container's filter refuses close_range(2), raise
 * the limit of open descriptors, and close one by one up to the new limit. Safe between fork and
 * exec. */
void close_fds(unsigned first, unsigned last);

#endif
