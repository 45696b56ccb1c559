// SPDX-License-Identifier: Apache-2.0
/* Whether blocks stay on the paths nearest to their storage, or are spread over all (Tyche, section
 * 6.3). As long as the nodes' links are used alike, or have room, they stay; when those of one
 * node are much fuller, they are spread, and come back when a whole interval of that has bought
 * nothing. Pure: the caller brings the time. */
#ifndef RFTP_TRANSFER_BALANCE_H
#define RFTP_TRANSFER_BALANCE_H

#include "proto/proto.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define BALANCE_PERCENT 60u
#define BALANCE_NS 5000000000ull

struct balance_path {
	int node;
	_Atomic uint64_t chosen, local; /* bytes that were to go by it; of them local ones */
	_Atomic uint64_t acked;         /* bytes that have gone by it */
	_Atomic uint64_t turns, full;   /* blocks; how often one was waited for */
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

	/* balance_check's. */
	uint64_t checked, next, step; /* times; between this check and the next */
	bool settling;           /* what is acked until the next check was chosen before a change */
	double before;           /* bytes per second while they stayed */
	bool brief;              /* that was measured over less than an interval */
	double tried;            /* bytes per second when that was enough to come back; or 0 */
	double entered;          /* difference in the first interval of spreading; < 0: not yet */
	unsigned patience, hold; /* checks to stay for when spreading bought nothing; left of it */
};

/* node: of each of n paths; those of no known one are taken for one node's. percent 0:
 * BALANCE_PERCENT; interval_ns 0: BALANCE_NS. The first checks come sooner: what takes less than
 * an interval may be spread, too; and on slow paths all come later, when enough blocks have
 * gone. */
void balance_init(struct balance *b, const int *node, uint32_t n, unsigned percent,
		  uint64_t interval_ns, uint64_t now);

/* A block is to go by a path; local: none that lives is nearer to its storage. Any thread. */
void balance_chosen(struct balance *b, uint32_t path, bool local, uint64_t bytes);
/* Somebody has to wait for a block of it. Any thread. */
static inline void balance_full(struct balance *b, uint32_t path)
{
	atomic_fetch_add_explicit(&b->path[path].full, 1, memory_order_relaxed);
}
/* So many bytes have gone by it. Any thread. */
static inline void balance_acked(struct balance *b, uint32_t path, uint64_t bytes)
{
	atomic_fetch_add_explicit(&b->path[path].acked, bytes, memory_order_relaxed);
}
/* Bytes that were to go by it since they are spread. Any thread. */
uint64_t balance_share(const struct balance *b, uint32_t path);

/* Look whether it is time, and decide. rate: what each path can, bytes per second; 0: not
 * known. alive: the others are left out. True: it has changed; *why, static, says in a few
 * words. One thread. */
bool balance_check(struct balance *b, const uint64_t *rate, const bool *alive, uint64_t now,
		   const char **why);

#endif
