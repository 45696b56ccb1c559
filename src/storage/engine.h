// SPDX-License-Identifier: Apache-2.0
/* What block I/O engines and their dispatch (io.c) share; not for other folders. */
#ifndef RFTP_STORAGE_ENGINE_H
#define RFTP_STORAGE_ENGINE_H

#include "storage/storage.h"

/* An engine's side. */
struct io_ops {
	const char *(*name)(const struct io *io);
	/* Start op, which io.c has counted in; the engine calls io_finish() once it has
	 * a result, at once or in wait(). */
	void (*submit)(struct io *io, struct io_op *op);
	/* Finish what has come back; with sleep, when there is none, wait for some. 0, or
	 * a negative errno after which the engine is good for nothing. */
	int (*wait)(struct io *io, bool sleep);
	void (*free)(struct io *io);
};

/* Begins every engine. Belongs to one thread. */
struct io {
	const struct io_ops *ops;
	unsigned depth;
	unsigned inflight;      /* submitted and not yet reaped */
	struct io_op *done;     /* finished and not yet reaped, oldest first */
	struct io_op **done_end;
};

void io_init(struct io *io, const struct io_ops *ops, unsigned depth);
/* op is done, with this result. */
void io_finish(struct io *io, struct io_op *op, int64_t result);

struct io *posix_new(void);
/* depth at once, the pools' regions registered when that is allowed. NULL with the
 * reason in e. */
struct io *uring_new(unsigned depth, struct pool *const *pools, int npools, struct err *e);
/* Why this process can have no io_uring (static text), with the negative errno in *code;
 * NULL: it can. Asked of the kernel once. Any thread. */
const char *uring_refused(int *code);

/* op from byte `done` on, synchronously; its result. */
int64_t posix_rest(const struct io_op *op, uint32_t done);
/* The kernel said EINVAL to op from byte `done` on. Where its descriptor is O_DIRECT and
 * the range is not aligned, the aligned bytes that may still go directly (0: none). */
uint32_t direct_part(const struct io_op *op, uint32_t done);
/* The rest of op from byte `done` on through the page cache, whatever its descriptor;
 * op's result. -EINVAL when the descriptor is not O_DIRECT: it was meant otherwise. */
int64_t direct_rest(const struct io_op *op, uint32_t done);

#endif
