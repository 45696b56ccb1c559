// SPDX-License-Identifier: Apache-2.0
/* What rftp-numa affinity reads or writes: a disk, a file, or a file of its own. */
#ifndef RFTP_NUMA_TARGET_H
#define RFTP_NUMA_TARGET_H

#include "numa/numa.h"

struct io_target {
	int fd;            /* -1: not open */
	uint64_t bytes;    /* there to be read, or to be written */
	int node;          /* the device's */
	bool direct;       /* without the page cache */
	const char *why_not_direct; /* NULL: it was not asked for */
};

struct target_wish {
	const char *path;
	uint64_t bytes, block;
	bool write, buffered;
	int node;          /* NODE_UNKNOWN: as the topology tells */
};

/* A directory: a file without a name is made in it, of so many bytes that are no zeros, and is
 * gone with its last descriptor, whatever ends this process. A file or a disk is only read. 0;
 * -EINTR: it was stopped; or another negative errno; with text. Also then target_close. */
int target_open(struct io_target *f, const struct target_wish *w, const struct topo *t,
		const struct stop *stop, struct err *e);
/* Drop its pages from the page cache: the next reader's or writer's come from where that one's
 * memory comes from. Files that are memory keep theirs. */
void target_drop_cache(const struct io_target *f);
void target_close(struct io_target *f);

#endif
