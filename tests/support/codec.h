// SPDX-License-Identifier: Apache-2.0
/* For tests of decoders: what every one of them must do with a message cut short. */
#ifndef RFTP_TESTS_CODEC_H
#define RFTP_TESTS_CODEC_H

#include "util/util.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Decode b into out. */
typedef int codec_fn(struct buf *b, void *out);

static inline bool codec_all_zero(const void *p, size_t len)
{
	const uint8_t *b = p;

	for (size_t i = 0; i < len; i++) {
		if (b[i])
			return false;
	}
	return true;
}

/* Decode len bytes that lie in memory of just that size, so that a sanitizer sees what
 * is read beyond them; out starts as garbage. */
static inline int codec_decode(const void *wire, size_t len, codec_fn *fn, void *out, size_t size,
			       size_t *used)
{
	uint8_t *copy = malloc(len ? len : 1);
	struct buf *b;
	int r;

	if (!copy)
		abort();
	if (len)
		memcpy(copy, wire, len);
	b = buf_from(copy, len);
	if (!b)
		abort();
	memset(out, 0xa5, size);
	r = fn(b, out);
	*used = buf_tell(b);
	buf_free(b);
	free(copy);
	return r;
}

/* Every shorter piece of the message is refused, clears out and moves nothing. Returns
 * the first length of which that is not true, len when all is well. */
static inline size_t codec_truncations(const struct buf *wire, codec_fn *fn, void *out, size_t size)
{
	for (size_t n = 0; n < buf_len(wire); n++) {
		size_t used;

		if (codec_decode(buf_ptr(wire), n, fn, out, size, &used) != -EBADMSG || used ||
		    !codec_all_zero(out, size))
			return n;
	}
	return buf_len(wire);
}

#endif
