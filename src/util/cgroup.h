// SPDX-License-Identifier: Apache-2.0
/* What the control groups leave this process of the machine (kernel documentation,
 * admin-guide/cgroup-v2, "memory.max" and "memory.high"; v1: memory.limit_in_bytes). */
#ifndef RFTP_UTIL_CGROUP_H
#define RFTP_UTIL_CGROUP_H

#include <stdint.h>

/* The least of the memory limits of this process's group and those above it, in bytes;
 * UINT64_MAX: none is known. proc, sys: "/proc/self/cgroup", "/sys/fs/cgroup", or copies. */
uint64_t cgroup_memory_limit(const char *proc, const char *sys);

#endif
