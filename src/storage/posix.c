// SPDX-License-Identifier: Apache-2.0
/* Block I/O by pread and pwrite: done inside io_submit, one at a time. */
#include "storage/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static ssize_t transfer(const struct io_op *op, uint32_t done, uint32_t len)
{
	uint8_t *p = (uint8_t *)op->data + done;
	off_t at = (off_t)(op->offset + done);
	ssize_t n;

	do {
		n = op->write ? pwrite(op->fd, p, len, at) : pread(op->fd, p, len, at);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

int64_t posix_rest(const struct io_op *op, uint32_t done)
{
	uint32_t len;
	ssize_t n;

	while (done < op->len) {
		len = FAULT_SHORT(op->write, op->len - done);
		n = transfer(op, done, len);
		if (n == -EINVAL && (len = direct_part(op, done)) > 0)
			n = transfer(op, done, len);
		if (n == -EINVAL)
			return direct_rest(op, done);
		if (n < 0)
			return n;
		if (n == 0)
			return op->write ? -EIO : (int64_t)done;
		done += (uint32_t)n;
	}
	return done;
}

static const char *posix_name(const struct io *io)
{
	(void)io;
	return "posix";
}

static void posix_submit(struct io *io, struct io_op *op)
{
	io_finish(io, op, posix_rest(op, 0));
}

static int posix_wait(struct io *io, bool sleep)
{
	(void)io;
	(void)sleep;
	return 0;
}

static void posix_free(struct io *io)
{
	free(io);
}

static const struct io_ops posix_ops = {
	.name = posix_name,
	.submit = posix_submit,
	.wait = posix_wait,
	.free = posix_free,
};

struct io *posix_new(void)
{
	struct io *io = malloc(sizeof(*io));

	/* One in flight, whatever was asked: a second one would only make the first,
	 * which is finished, wait for its stage. */
	if (io)
		io_init(io, &posix_ops, 1);
	return io;
}
