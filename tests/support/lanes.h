// SPDX-License-Identifier: Apache-2.0
/* One side of lanes in a message stream, and a thread that moves bytes on one of them. */
#ifndef RFTP_TESTS_LANES_H
#define RFTP_TESTS_LANES_H

#include "transport/transport.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define LANES 3
#define LONG_MS 60000

struct side {
	struct mstream *m;
	struct lanes *l;
	struct stream *lane[LANES];
};

static inline void side_take(struct side *s, struct stream *stream)
{
	struct err e = ERR_INIT;

	s->m = ms_new(stream);
	assert_non_null(s->m);
	s->l = lanes_new(s->m, LANES, &e);
	assert_non_null(s->l);
	for (unsigned i = 0; i < LANES; i++)
		s->lane[i] = lanes_take(s->l, i);
}

static inline void side_init(struct side *s, int fd)
{
	side_take(s, stream_plain(fd, fd));
}

static inline void side_close(struct side *s)
{
	for (unsigned i = 0; i < LANES; i++)
		if (s->lane[i])
			stream_free(steal_ptr(&s->lane[i]));
}

static inline ssize_t put(struct stream *s, const void *p, size_t n, int ms)
{
	return s->ops->write(s, p, n, ms);
}

static inline ssize_t get(struct stream *s, void *p, size_t n, int ms)
{
	return s->ops->read(s, p, n, ms);
}

struct flow {
	pthread_t thread;
	struct stream *s;
	unsigned seed;
	size_t bytes;      /* as far as it was good */
	ssize_t last;      /* what ended it */
};

#endif
