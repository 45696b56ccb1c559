// SPDX-License-Identifier: Apache-2.0
/* The I/O model inside: what was measured on which machine. */
#ifndef RFTP_NUMA_MODEL_H
#define RFTP_NUMA_MODEL_H

#include "numa/classes.h"

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

/* ---- making one ---- */

/* Of this machine and time, without targets. NULL: memory is out. */
struct model *model_new(const struct topo *t);
/* One more, with room for a cell of each node in its rows, which are empty; it stays the model's
 * until the next. NULL: memory is out. */
struct target *model_add(struct model *m, int node);
/* Draw the classes of all rows. 0 or -ENOMEM. */
int model_classify(struct model *m, const struct topo *t);
/* Forget all targets but node. 0, or -ENOENT: it is none, and nothing is changed. */
int model_only(struct model *m, int node);
/* The nodes in class 1 of a target by definition. */
struct ids model_package(const struct topo *t, int target);

const struct target *model_target(const struct model *m, int node); /* NULL: not measured */
const struct cell *row_cell(const struct row *r, int node);         /* the same */
const char *model_op_name(enum model_op op);                        /* "write", "read" */

/* Was it made on the machine t, as that is now? 0, or -ESTALE with the first difference. */
int model_fits(const struct model *m, const struct topo *t, struct err *e);

/* ---- mixed access ---- */

#define SHARES_MAX (NODE_MOST + 1)
#define SHARE_ALL 1000000u

struct share {
	int node;
	unsigned part; /* of SHARE_ALL */
};

/* "2:50,0:50": nodes, each once, with percents (up to four decimals) that are 100 in sum.
 * 0 or -EINVAL with text. */
int shares_parse(const char *text, struct share v[SHARES_MAX], unsigned *n, struct err *e);
/* The bandwidth that accesses with these shares have: the sum of share times its node's class's
 * average. Bytes per second; 0, or -ENOENT with the node that has no cell. */
int shares_predict(const struct row *r, const struct share *v, unsigned n, double *bw,
		   struct err *e);

/* ---- as JSON ---- */

/* New reference; NULL: memory is out. */
json_t *model_json(const struct model *m);
/* The other way; name stands for the file in errors. NULL with text: -EBADMSG. */
struct model *model_parse(const char *name, const char *text, size_t len, struct err *e);
/* file: whole or not there. 0 or a negative errno with text. */
int model_write(const struct model *m, const char *file, struct err *e);

/* ---- for people ---- */

void model_say(const struct model *m, const struct topo *t);
/* A picture, PNG or SVG by the file's name, by gnuplot. 0 or a negative errno with text. */
int model_plot(const struct model *m, const char *file, struct err *e);
/* Can a picture be made with that name? 0 or -EINVAL with text. */
int model_plot_name(const char *file, struct err *e);

#endif
