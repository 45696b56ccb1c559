// SPDX-License-Identifier: Apache-2.0
/* On which NUMA nodes the parts of a transfer are on this side (Tyche, section 4: all that a
 * path has on its card's node). Decided once it is agreed, before there are pools. */
#ifndef RFTP_TRANSFER_PLACEMENT_H
#define RFTP_TRANSFER_PLACEMENT_H

#include "transfer/sched.h"
#include "transfer/transfer.h"

/* Of an offer: what kind of storage fd (negative: none) lies on, and which of its cards are on
 * that one's node. */
void placement_offer(struct offer *o, int fd);

struct placement_config {
	const struct place_wish *wish;
	enum page_choice pages;
	const struct offer *own;     /* our cards */
	const struct agreement *agr; /* which of them are used, none when in-band */
	bool client, source;
	int storage;                 /* a descriptor where the files are; -1: nowhere */
};

/* What threads run where is asked by one thread, the rest by any. Nothing of the config is
 * needed later. NULL: nothing is placed. */
struct placement;

/* NULL with text: out of memory. */
struct placement *placement_new(const struct placement_config *c, struct err *e);
void placement_free(struct placement *p);

/* A path's node; NODE_UNKNOWN: any will do. */
int placement_node(const struct placement *p, uint32_t path);
/* The nodes of the storage; empty: any, or not known. */
const struct ids *placement_storage(const struct placement *p);
/* How far a path's node is from them; local where either is not known. */
enum sched_distance placement_distance(const struct placement *p, uint32_t path);
/* CPUs for one more thread of a path, or for one that reads or writes files; empty: any. */
struct ids placement_path_cpus(struct placement *p, uint32_t path);
struct ids placement_io_cpus(struct placement *p);

/* How many CPUs threads that read or write files may have; 0: any. */
unsigned placement_io_width(const struct placement *p);

/* A pool of c's blocks on the path's node, whatever c says of pages and bind. As pool_new. */
struct pool *placement_pool(const struct placement *p, uint32_t path, const struct pool_config *c,
			    struct err *e);
/* Tell how many threads read, or write, files, and where: "read". */
void placement_say_io(const struct placement *p, const char *what, unsigned threads);
/* Tell, as what log_info shows, where a path and its pool really are. */
void placement_say(const struct placement *p, uint32_t path, const struct pool *pool);
/* At the end, where what was used of it was, if it was not had before it was used. */
void placement_say_used(const struct placement *p, uint32_t path, const struct pool *pool);

#endif
