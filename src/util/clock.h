// SPDX-License-Identifier: Apache-2.0
/* Monotonic time and CPU time. */
#ifndef RFTP_UTIL_CLOCK_H
#define RFTP_UTIL_CLOCK_H

#include <limits.h>
#include <stdint.h>
#include <time.h>

/* Nanoseconds since some fixed point. */
static inline uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The time ms milliseconds from now; UINT64_MAX when ms is negative, which means never. */
static inline uint64_t ns_after(int ms)
{
	return ms < 0 ? UINT64_MAX : now_ns() + (uint64_t)ms * 1000000;
}

/* Milliseconds from now to end, rounded up; 0 when it has passed. For poll(). */
static inline int ms_between(uint64_t now, uint64_t end)
{
	uint64_t ms = now < end ? (end - now + 999999) / 1000000 : 0;

	return ms < INT_MAX ? (int)ms : INT_MAX;
}

static inline int ms_to(uint64_t end)
{
	return ms_between(now_ns(), end);
}

/* User and system CPU time of this process so far, in nanoseconds. */
static inline uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#endif
