// SPDX-License-Identifier: Apache-2.0
/* The NUMA nodes of this side's parts of a transfer (Tyche, section 4: a path has all of its
 * resources on its card's node). They are chosen after the agreement, before the pools exist. */
#ifndef RFTP_TRANSFER_PLACEMENT_PLACEMENT_H
#define RFTP_TRANSFER_PLACEMENT_PLACEMENT_H

#include "numa/numa.h"
#include "transfer/placement/sched.h"
#include "transfer/transfer.h"

/* Fill in an offer's class of the storage behind fd (negative: none), and which of its cards are on
 * the storage's node. source: files are read there. */
void placement_offer(struct offer *o, int fd, bool source);

struct placement_config {
	const struct place_wish *wish;
	enum page_choice pages;
	const struct offer *own;     /* our cards */
	const struct agreement *agr; /* which of them are used; none if in-band */
	bool client, source;
	int storage;                 /* a descriptor on the files' filesystem; -1: no files */
};

/* One thread calls placement_path_cpus() and placement_io_cpus(); any thread may call the rest. The
 * config is not used after placement_new(). A NULL placement is allowed in all calls: nothing is
 * placed. */
struct placement;

/* NULL with text: out of memory. */
struct placement *placement_new(const struct placement_config *c, struct err *e);
void placement_free(struct placement *p);

/* The node of a path; NODE_UNKNOWN: any node. */
int placement_node(const struct placement *p, uint32_t path);
/* The nodes of the storage, valid as long as p; empty: any, or not known. */
const struct ids *placement_storage(const struct placement *p);
/* The distance from a path's node to the storage's nodes; SCHED_LOCAL if either is not known. */
enum sched_distance placement_distance(const struct placement *p, uint32_t path);
/* CPUs for one more thread of a path, or for one that reads or writes files; empty: any. */
struct ids placement_path_cpus(struct placement *p, uint32_t path);
struct ids placement_io_cpus(struct placement *p);

/* The number of CPUs that threads for files may use; 0: any. */
unsigned placement_io_width(const struct placement *p);

/* As pool_new, on the path's node; c's pages and bind are not used. */
struct pool *placement_pool(const struct placement *p, uint32_t path, const struct pool_config *c,
			    struct err *e);
/* Log the number of threads that read or write (verb: "read") files, and their nodes. */
void placement_say_io(const struct placement *p, const char *verb, unsigned threads);
/* Log, as information, the nodes on which a path and its pool really are. */
void placement_say(const struct placement *p, uint32_t path, const struct pool *pool);
/* At the end: log the nodes of the pool's used pages, if they were allocated at first use. */
void placement_say_used(const struct placement *p, uint32_t path, const struct pool *pool);

#endif
