// SPDX-License-Identifier: Apache-2.0
/* The sink's half of a transfer: receive -> write -> commit, and the entries that the blocks belong
 * to. */
#ifndef RFTP_TRANSFER_SINK_SINK_H
#define RFTP_TRANSFER_SINK_SINK_H

#include "transfer/sink/commit.h"
#include "transfer/sink/entry.h"
#include "transfer/sink/link.h"
#include "transfer/sink/prune.h"
#include "transfer/sink/write.h"
#include "transfer/xfer.h"

/* A receiver's path. */
struct sink_route {
	struct sink *s;
	uint32_t path;
};

struct sink {
	struct xfer x;                 /* first: a pointer to it is cast to struct sink */

	/* Set before threads start. */
	struct dirs *dirset;
	enum io_kind io;               /* engine of the writers */
	bool direct;                   /* big files are written with direct I/O */
	bool dry, discard, stream;     /* dry run; discard all (null:); write to standard output */
	bool sync;                     /* --ack synced or stronger, and the storage is not
				        * memory */
	bool verify;                   /* --ack verified */
	bool early;                    /* --ack received */
	atomic_bool attributes_omitted; /* with the flag archive: this was logged */
	struct sink_route routes[NICS_MAX + 1];

	/* Each has its own lock; no thread holds two of them. */
	struct sink_entries entries;
	struct sink_writers writers;
	struct sink_commits commits;
	struct sink_links links;
	struct prune prune;
};

void sink_init(struct sink *s);
void sink_destroy(struct sink *s);

static inline pthread_mutex_t *stripe_of(struct sink *s, uint64_t id)
{
	return &s->entries.stripes[id % STRIPES];
}

#endif
