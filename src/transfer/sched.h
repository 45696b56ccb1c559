// SPDX-License-Identifier: Apache-2.0
/* Which path the next block goes by: of those on its storage's node the one that would have it
 * over first, as its outstanding bytes and the rate at which it was seen to deliver tell (Tyche,
 * section 5). Pure: the caller brings the time. */
#ifndef RFTP_TRANSFER_SCHED_H
#define RFTP_TRANSFER_SCHED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The rate of one path: the most that it has delivered over any stretch of SCHED_STRETCH_NS
 * in which it never ran dry, in the last one to two SCHED_MEMORY_NS. A path that has little
 * to do shows what it was given, not what it can: hence the most. */
#define SCHED_STRETCH_NS 50000000ull
#define SCHED_MEMORY_NS 2500000000ull

struct sched_rate {
	_Atomic uint64_t rate;   /* bytes per second; 0: not known. Any thread reads */
	uint64_t begun, bytes;   /* of the stretch; begun 0: none */
	uint64_t now_best, past_best;
	uint64_t turned;         /* when now_best was begun */
};

/* mbps: the link's speed, to begin with; 0: not known. */
void sched_rate_init(struct sched_rate *r, uint32_t mbps, uint64_t now);
/* So many bytes were acknowledged; busy: others are still outstanding. One thread. */
void sched_rate_acked(struct sched_rate *r, uint64_t bytes, bool busy, uint64_t now);

/* How far a path's node is from the storage's. */
enum sched_distance { SCHED_LOCAL, SCHED_NEAR, SCHED_FAR, SCHED_DISTANCES };

struct sched_load {
	uint64_t outstanding;    /* bytes */
	uint64_t rate;
	bool alive;
	bool room;               /* it has a free block */
	enum sched_distance distance;
};

/* Of those that live the nearest one's. */
enum sched_distance sched_nearest(const struct sched_load *l, uint32_t n);
/* The path for the next block of so many bytes: a local one; a near one while those have no
 * room; a far one only when there is no other. n: wait, since none has room, or those that have
 * are so much slower that a place on another comes sooner. */
uint32_t sched_choose(const struct sched_load *l, uint32_t n, uint64_t bytes);
/* The next one in a round robin over all that live and have room, weighted by their rates;
 * shares: bytes that each has had of it. */
uint32_t sched_spread(const struct sched_load *l, uint32_t n, const uint64_t *shares,
		      uint64_t bytes);

#endif
