// SPDX-License-Identifier: Apache-2.0
/* Monotonic time and CPU time. */
#ifndef RFTP_UTIL_CLOCK_H
#define RFTP_UTIL_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds since some fixed point. */
static inline uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* User and system CPU time of this process so far, in nanoseconds. */
static inline uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#endif
