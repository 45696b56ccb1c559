// SPDX-License-Identifier: Apache-2.0
/* Numbers that look random and come again with the same seed; no secrets. */
#ifndef RFTP_UTIL_RANDOM_H
#define RFTP_UTIL_RANDOM_H

#include <stdint.h>

/* splitmix64: each seed its own sequence, and every seed is a good one. */
static inline uint64_t random_next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

#endif
