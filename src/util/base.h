// SPDX-License-Identifier: Apache-2.0
/* Small things that every folder needs: the standard headers that nearly every file uses (a file
 * includes others itself), scope cleanup, time, random numbers, hash tables. */
#ifndef RFTP_UTIL_BASE_H
#define RFTP_UTIL_BASE_H

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* uthash's default function falls through switch labels, about which clang warns. */
#define HASH_FUNCTION(key, len, hash) HASH_OAT(key, len, hash)
/* When memory runs out, uthash drops the new element instead of exiting the process. */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

/* ---- scope cleanup: a local variable releases its object on every way out ---- */

#define CLEANUP(fn) __attribute__((cleanup(fn)))
#define CLEANUP_FREE CLEANUP(cleanup_free)
#define CLEANUP_CLOSE CLEANUP(cleanup_close)

/* Holds the lock until the end of the scope. */
#define LOCK_GUARD(name, mutex) \
	pthread_mutex_t *name CLEANUP(cleanup_unlock) __attribute__((unused)) = \
		lock_and_return(mutex)

/* Transfer ownership: returns the object and clears the variable. */
#define steal_ptr(pp) ({ __typeof__(*(pp)) stolen_ = *(pp); *(pp) = NULL; stolen_; })

static inline int steal_fd(int *fd)
{
	int stolen = *fd;

	*fd = -1;
	return stolen;
}

static inline void cleanup_free(void *p)
{
	free(*(void **)p);
}

/* Closes *fd unless it is negative, and makes it -1; keeps errno. (io.c) */
void cleanup_close(int *fd);

static inline void cleanup_unlock(pthread_mutex_t **m)
{
	if (*m)
		pthread_mutex_unlock(*m);
}

static inline pthread_mutex_t *lock_and_return(pthread_mutex_t *m)
{
	pthread_mutex_lock(m);
	return m;
}

static inline uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Is there room for one more element in the array v, which has n elements and room for room?
 * Doubles the room of a full array. False: out of memory; nothing has changed. */
#define array_has_room(v, n, room) ({ \
	bool full_ = (n) == (room); \
	__typeof__(room) more_ = (room) ? 2 * (room) : 2; \
	__typeof__(v) grown_ = !full_ ? (v) : more_ < (room) ? NULL : \
		reallocarray((v), more_, sizeof(*(v))); \
	if (full_ && grown_) { \
		(v) = grown_; \
		(room) = more_; \
	} \
	grown_ != NULL; \
})

/* ---- time ---- */

static inline uint64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Monotonic time in nanoseconds. */
static inline uint64_t now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

/* CPU time of a thread that was not joined yet, in nanoseconds. */
static inline uint64_t thread_cpu_ns(pthread_t thread)
{
	clockid_t id;

	return pthread_getcpuclockid(thread, &id) ? 0 : clock_ns(id);
}

/* User and system CPU time of this process so far, in nanoseconds. */
static inline uint64_t cpu_ns(void)
{
	return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

/* The now_ns() time ms milliseconds from now; UINT64_MAX (never) when ms is negative. */
static inline uint64_t ns_after(int ms)
{
	return ms < 0 ? UINT64_MAX : now_ns() + (uint64_t)ms * 1000000;
}

/* Milliseconds from now to end, rounded up; 0 when end has passed. A timeout for poll(). */
static inline int ms_between(uint64_t now, uint64_t end)
{
	uint64_t ms = now < end ? (end - now + 999999) / 1000000 : 0;

	return ms < INT_MAX ? (int)ms : INT_MAX;
}

static inline int ms_to(uint64_t end)
{
	return ms_between(now_ns(), end);
}

/* ---- repeatable random numbers from a seed; not for secrets ---- */

/* splitmix64: any seed is suitable, 0 included. */
static inline uint64_t random_next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

/* ---- sanitizers: the programs must allow their threads and system calls ---- */

#ifdef __has_feature /* clang */
#define SANITIZED_BY_CLANG (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
			    __has_feature(memory_sanitizer))
#else
#define SANITIZED_BY_CLANG 0
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || SANITIZED_BY_CLANG
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

#endif
