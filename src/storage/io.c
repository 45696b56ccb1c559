// SPDX-License-Identifier: Apache-2.0
/* Block I/O: chooses an engine and keeps what all engines have in common. */
#include "storage/engine.h"

#include <errno.h>
#include <stdlib.h>

/* Rings beyond this only cost memory: it is 4 GiB of 1 MiB blocks. */
#define DEPTH_MAX 4096u

void io_init(struct io *io, const struct io_ops *ops, unsigned depth)
{
	io->ops = ops;
	io->depth = depth;
	io->inflight = 0;
	io->done = NULL;
	io->done_end = &io->done;
}

void io_finish(struct io *io, struct io_op *op, int64_t result)
{
	op->result = result;
	op->next = NULL;
	*io->done_end = op;
	io->done_end = &op->next;
}

static unsigned clamp_depth(unsigned depth)
{
	if (depth == 0)
		return 1;
	return depth < DEPTH_MAX ? depth : DEPTH_MAX;
}

/* Blocks of 1 MiB, io_uring with 2 to 8 in flight and registered buffers against posix
 * (Linux 6.18, 2 CPUs, medians of interleaved runs; rate over posix's, CPU over posix's):
 *
 *   ext4, direct            read 1.1-2.0, CPU 0.1-0.2   write 1.2-1.6, CPU 0.3-0.5
 *   ext4, in page cache     read 0.95,    CPU 1.05      write 0.7,     CPU 1.5
 *   ext4, not in it         read 0.9-1.1, CPU 0.9-1.1
 *   tmpfs                   read 0.85,    CPU 1.3       write 0.9,     CPU 1.2
 *
 * Writes to the page cache, and all of tmpfs, are handed to a kernel thread, which costs a
 * switch and the CPU's cache. Unregistered buffers give less of the gain of direct I/O and
 * 0.5-0.9 of the CPU; 32 in flight lose what 8 gained. */
enum io_kind io_pick(enum storage_class class, bool direct, const char **said)
{
	enum io_kind kind = IO_POSIX;
	int code;
	const char *text = uring_refused(&code);

	if (text) {
		/* There is nothing to choose. */
	} else if (class == STORAGE_MEMORY) {
		text = "files in memory are copied fastest without io_uring";
	} else if (!direct) {
		text = "the page cache is fastest without io_uring";
	} else {
		kind = IO_AUTO;
		text = "io_uring keeps several direct transfers in flight";
	}
	if (said)
		*said = text;
	return kind;
}

static struct io *posix_or_err(struct err *e)
{
	struct io *io = posix_new();

	if (!io)
		err_sys(e, -ENOMEM, "block I/O");
	return io;
}

struct io *io_new(enum io_kind kind, unsigned depth, struct pool *const *pools, int npools,
		  const char **said, struct err *e)
{
	const char *text = "as was chosen";
	struct err why = ERR_INIT;
	struct io *io = NULL;
	int code;

	if (kind == IO_POSIX) {
		io = posix_or_err(e);
		goto out;
	}
	text = uring_refused(&code);
	if (text) {
		if (kind == IO_URING)
			err_set(e, code, "io_uring: %s; use --io auto or --io posix", text);
		else
			io = posix_or_err(e);
		goto out;
	}
	text = "the kernel has io_uring";
	io = uring_new(clamp_depth(depth), pools, npools, kind == IO_URING ? e : &why);
	if (!io && kind == IO_AUTO) {
		log_debug("%s; using posix I/O", why.text);
		text = "an io_uring could not be set up";
		io = posix_or_err(e);
	}
out:
	if (said)
		*said = text;
	return io;
}

void io_free(struct io *io)
{
	if (io)
		io->ops->free(io);
}

const char *io_name(const struct io *io)
{
	return io->ops->name(io);
}

unsigned io_inflight(const struct io *io)
{
	return io->inflight;
}

unsigned io_depth(const struct io *io)
{
	return io->depth;
}

int io_submit(struct io *io, struct io_op *op)
{
	int r;

	if (io->inflight >= io->depth)
		return -EAGAIN;
	io->inflight++;
	r = FAULT(op->write ? "write" : "read", op->len);
	if (r < 0)
		io_finish(io, op, r);
	else
		io->ops->submit(io, op);
	return 0;
}

/* Hand out finished ops up to max. */
static int take_done(struct io *io, struct io_op **done, int max)
{
	struct io_op *op;
	int n = 0;

	while (n < max && (op = io->done)) {
		io->done = op->next;
		if (!io->done)
			io->done_end = &io->done;
		op->next = NULL;
		io->inflight--;
		done[n++] = op;
	}
	return n;
}

int io_reap(struct io *io, struct io_op **done, int min, int max)
{
	int n, r;

	if (min > max)
		min = max;
	/* More than there are would be a sleep without end. */
	if (min > 0 && (unsigned)min > io->inflight)
		min = (int)io->inflight;
	n = take_done(io, done, max);
	if (n < max && io->inflight > 0) {
		r = io->ops->wait(io, n < min);
		if (r < 0)
			return n > 0 ? n : r;
		n += take_done(io, done + n, max - n);
	}
	while (n < min) {
		r = io->ops->wait(io, true);
		if (r < 0)
			return n > 0 ? n : r;
		n += take_done(io, done + n, max - n);
	}
	return n;
}
