// SPDX-License-Identifier: Apache-2.0
/* A buffer with given bytes, for decoders. */
#ifndef RFTP_TESTS_BYTES_H
#define RFTP_TESTS_BYTES_H

#include "util/util.h"

#include <stdlib.h>

/* Its memory has exactly n bytes, so that a sanitizer reports reads beyond them. */
static inline struct buf *bytes_of(const void *p, size_t n)
{
	struct buf *b = buf_new(n);

	if (!b || buf_put(b, p, n))
		abort();
	return b;
}

#endif
