// SPDX-License-Identifier: Apache-2.0
/* Chooses the path of the next block: of the paths on its storage's node, the one that will
 * deliver the block first, by its outstanding bytes and measured rate (Tyche, section 5). Pure: the
 * caller passes the time. */
#ifndef RFTP_TRANSFER_PLACEMENT_SCHED_H
#define RFTP_TRANSFER_PLACEMENT_SCHED_H

#include "proto/proto.h"

#include <stdatomic.h>

/* The rate of one path: the highest of all measurements over SCHED_STRETCH_NS in which it always
 * had outstanding bytes, during the last one to two SCHED_MEMORY_NS. The highest, because a path
 * with little to do shows its load, not its capacity. */
#define SCHED_STRETCH_NS 50000000ull
#define SCHED_MEMORY_NS 2500000000ull

struct sched_rate {
	_Atomic uint64_t rate;   /* bytes per second; 0: not known. Any thread reads */
	uint64_t begun, bytes;   /* of the present measurement; begun 0: none */
	uint64_t now_best, past_best;
	uint64_t turned;         /* the time when now_best was started */
};

/* mbps: the link's speed, to begin with; 0: not known. */
void sched_rate_init(struct sched_rate *r, uint32_t mbps, uint64_t now);
/* These bytes were acknowledged; busy: other bytes are still outstanding. One thread. */
void sched_rate_acked(struct sched_rate *r, uint64_t bytes, bool busy, uint64_t now);

/* The distance of a path's node from the storage's. */
enum sched_distance { SCHED_LOCAL, SCHED_NEAR, SCHED_FAR, SCHED_DISTANCES };

struct sched_load {
	uint64_t outstanding;    /* bytes */
	uint64_t rate;
	bool alive;
	bool room;               /* it has a free block */
	enum sched_distance distance;
};

/* The distance of the nearest living path. */
enum sched_distance sched_nearest(const struct sched_load *l, uint32_t n);
/* The path for the next block of this many bytes: a local one; a near one while the local ones have
 * no room; a far one only if there is no local or near one. n: wait: no path has room, or a path
 * without room will still deliver the block much sooner. */
uint32_t sched_choose(const struct sched_load *l, uint32_t n, uint64_t bytes);
/* The next path in a round robin over all living paths with room, weighted by their rates. shares:
 * the bytes that each path has been given in it. n: none has room. */
uint32_t sched_spread(const struct sched_load *l, uint32_t n, const uint64_t *shares,
		      uint64_t bytes);

/* Decides whether blocks stay on the paths nearest to their storage or are spread over all paths
 * (Tyche, section 6.3). They stay while the links of all nodes are used about equally, or have
 * room. They are spread when one node's links are much busier, and stay again when a whole interval
 * of spreading has not raised the throughput. Pure: the caller passes the time. */

#define BALANCE_PERCENT 60u
#define BALANCE_NS 5000000000ull

struct balance_path {
	int node;
	_Atomic uint64_t chosen, local; /* bytes of blocks that were given this path; of local
					 * ones */
	_Atomic uint64_t acked;         /* bytes acknowledged on it */
	_Atomic uint64_t turns, full;   /* blocks that were given this path; times that a thread
					 * had to wait for one */
	uint64_t chosen_seen, local_seen, acked_seen, turns_seen, full_seen; /* at the last check */
	uint64_t spread_from;           /* chosen when spreading began */
};

struct balance {
	/* Set before threads start. */
	uint32_t n;
	unsigned percent;        /* difference in use from which blocks are spread */
	uint64_t interval_ns;
	struct balance_path path[NICS_MAX];

	atomic_bool spread;      /* any thread reads, balance_check writes */

	/* Used by balance_check() only. */
	uint64_t checked, next, step; /* times of the last and the next check; time between them */
	bool settling;           /* blocks acked until the next check were routed before a change */
	double before;           /* bytes per second while blocks stayed */
	bool brief;              /* before was measured over less than an interval */
	double tried;            /* bytes per second of the last spreading, if it was compared with
				  * a brief measurement of before; otherwise 0 */
	double entered;          /* difference in the first interval of spreading; < 0: not yet */
	unsigned patience, hold; /* checks to wait after a useless spreading; the number left */
};

/* node: the node of each of n paths; paths with unknown nodes count as one node. percent 0:
 * BALANCE_PERCENT; interval_ns 0: BALANCE_NS. The first checks come earlier, for transfers shorter
 * than an interval; on slow paths checks come later, after enough blocks. */
void balance_init(struct balance *b, const int *node, uint32_t n, unsigned percent,
		  uint64_t interval_ns, uint64_t now);

/* A block was given a path; local: no living path is nearer to its storage. Any thread. */
void balance_chosen(struct balance *b, uint32_t path, bool local, uint64_t bytes);
/* A thread must wait for a free block of this path. Any thread. */
static inline void balance_full(struct balance *b, uint32_t path)
{
	atomic_fetch_add_explicit(&b->path[path].full, 1, memory_order_relaxed);
}
/* These bytes were acknowledged on the path. Any thread. */
static inline void balance_acked(struct balance *b, uint32_t path, uint64_t bytes)
{
	atomic_fetch_add_explicit(&b->path[path].acked, bytes, memory_order_relaxed);
}
/* Bytes of blocks that were given the path since spreading began. Any thread. */
uint64_t balance_share(const struct balance *b, uint32_t path);

/* If a check is due, decide again. rate: the capacity of each path in bytes per second; 0: not
 * known. Paths that are not alive do not count. True: spread has changed; *why is the reason in a
 * few words, static. One thread. */
bool balance_check(struct balance *b, const uint64_t *rate, const bool *alive, uint64_t now,
		   const char **why);

#endif
