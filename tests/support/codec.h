// SPDX-License-Identifier: Apache-2.0
/* Checks that every decoder must pass with truncated messages. */
#ifndef RFTP_TESTS_CODEC_H
#define RFTP_TESTS_CODEC_H

#include "tests/support/bytes.h"
#include "util/util.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Decodes b into out. */
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

/* Decodes len bytes from memory of exactly that size, so that a sanitizer reports reads beyond it;
 * out starts as garbage. */
static inline int codec_decode(const void *wire, size_t len, codec_fn *fn, void *out, size_t size,
			       size_t *used)
{
	struct buf *b = bytes_of(wire, len);
	int r;

	memset(out, 0xa5, size);
	r = fn(b, out);
	*used = len - buf_len(b);
	buf_free(b);
	return r;
}

/* Checks that every truncation of the message is refused, clears out, and consumes nothing. Returns
 * the first length that fails, or the full length if all pass. */
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
