// SPDX-License-Identifier: Apache-2.0
/* The I/O model inside: the bandwidths and classes that its file has. rftp-numa's model command
 * (tools/rftp_numa/model.py) writes that file; rftp and rftpd read it. */
#ifndef RFTP_NUMA_MODEL_H
#define RFTP_NUMA_MODEL_H

#include "numa/numa.h"

/* The bandwidth between the target and a node, of several rounds; bytes per second. */
struct cell {
	int node;
	unsigned rounds;
	double median, low, high; /* low, high: the first and the ninth decile */
	unsigned class;           /* from 1 */
};

/* Bandwidths between a target and the other nodes, one way. */
struct row {
	struct cell *cell; /* by rising node */
	unsigned n;        /* 0: not measured */
	unsigned classes;
};

/* A node that the threads ran on. */
struct target {
	int node;
	unsigned threads, copies; /* copies: of a buffer by each thread in a round */
	uint64_t bytes;           /* of a thread's buffer */
	uint64_t placed;          /* bytes of all buffers, found on their nodes; 0: not looked */
	struct row row[MODEL_OPS];
};

struct model {
	unsigned nodes;
	struct node *node;     /* the machine: by rising id */
	uint64_t *memory;      /* of each, bytes; 0: not known */
	unsigned targets;
	struct target *target;
	char date[32];         /* ISO 8601, UTC */
};

/* One more, with room for a cell of each node in its rows, which are empty; it stays the model's
 * until the next. NULL: memory is out. */
struct target *model_add(struct model *m, int node);
const struct target *model_target(const struct model *m, int node); /* NULL: not measured */
const struct cell *row_cell(const struct row *r, int node);         /* the same */
const char *model_op_name(enum model_op op);                        /* "write", "read" */

/* Was it made on the machine t, as that is now? 0, or -ESTALE with the first difference. */
int model_fits(const struct model *m, const struct topo *t, struct err *e);
/* name stands for the file in errors. NULL with text: -EBADMSG. */
struct model *model_parse(const char *name, const char *text, size_t len, struct err *e);

#endif
