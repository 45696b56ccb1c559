// SPDX-License-Identifier: Apache-2.0
/* A byte stream in memory: reads return the given data, writes are dropped. */
#ifndef RFTP_TESTS_MEMORY_STREAM_H
#define RFTP_TESTS_MEMORY_STREAM_H

#include "transport/transport.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct memory_stream {
	struct stream s;
	const uint8_t *at; /* not owned */
	size_t left;
	size_t most;       /* limit of bytes per read */
	bool aborted;
};

static ssize_t memory_read(struct stream *s, void *p, size_t len, int timeout_ms)
{
	struct memory_stream *m = (struct memory_stream *)s;

	if (m->aborted)
		return -ECANCELED;
	if (len > m->left)
		len = m->left;
	if (len > m->most)
		len = m->most;
	if (len)
		memcpy(p, m->at, len);
	m->at += len;
	m->left -= len;
	return (ssize_t)len;
}

static ssize_t memory_write(struct stream *s, const void *p, size_t len, int timeout_ms)
{
	return ((struct memory_stream *)s)->aborted ? -ECANCELED : (ssize_t)len;
}

static size_t memory_pending(struct stream *s)
{
	return ((struct memory_stream *)s)->left;
}

static int memory_shutdown(struct stream *s)
{
	return 0;
}

static void memory_abort(struct stream *s)
{
	((struct memory_stream *)s)->aborted = true;
}

static void memory_free(struct stream *s)
{
	free(s);
}

/* most: limit of bytes per read, at least 1. data must outlive the stream. */
static inline struct stream *memory_stream(const void *data, size_t len, size_t most)
{
	static const struct stream_ops ops = {
		.read = memory_read, .write = memory_write,
		.pending = memory_pending, .shutdown = memory_shutdown,
		.abort = memory_abort, .free = memory_free,
	};
	struct memory_stream *m = calloc(1, sizeof(*m));

	if (!m)
		abort();
	*m = (struct memory_stream){ { .ops = &ops }, data, len, most, false };
	return &m->s;
}

#endif
