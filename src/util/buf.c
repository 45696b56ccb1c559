// SPDX-License-Identifier: Apache-2.0
/* The capped buffer of wire formats. */
#include "util/buf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_BYTES = 256 };

/* pos <= len <= size <= max. */
struct buf {
	uint8_t *data; /* NULL until the first put */
	size_t pos;    /* read position */
	size_t len;    /* end of the bytes put */
	size_t size;   /* allocated */
	size_t max;
};

struct buf *buf_new(size_t max)
{
	struct buf *b = calloc(1, sizeof(*b));

	if (b)
		b->max = max;
	return b;
}

/* Buffers carry passwords and keys, so wipe the memory before freeing it. */
static void buf_wipe(struct buf *b)
{
	if (!b->data)
		return;
	explicit_bzero(b->data, b->size);
	free(b->data);
}

void buf_free(struct buf *b)
{
	if (b)
		buf_wipe(b);
	free(b);
}

void cleanup_buf(struct buf **b)
{
	buf_free(*b);
}

size_t buf_len(const struct buf *b)
{
	return b->len - b->pos;
}

const uint8_t *buf_ptr(const struct buf *b)
{
	/* C forbids adding even 0 to a null pointer. */
	return b->data ? b->data + b->pos : NULL;
}

void buf_reset(struct buf *b)
{
	b->pos = 0;
	b->len = 0;
}

/* ---- putters ---- */

/* Doubling keeps the copying linear in the number of bytes put. realloc() would not wipe the old
 * memory. */
static int buf_grow(struct buf *b, size_t need)
{
	size_t size = b->size ? b->size : FIRST_BYTES;
	uint8_t *data;

	while (size < need)
		size = size <= b->max / 2 ? size * 2 : b->max;
	size = size < b->max ? size : b->max;
	data = malloc(size);
	if (!data)
		return -ENOMEM;
	if (b->len)
		memcpy(data, b->data, b->len);
	buf_wipe(b);
	b->data = data;
	b->size = size;
	return 0;
}

int buf_reserve(struct buf *b, size_t len, uint8_t **room)
{
	int rc = 0;

	*room = NULL;
	if (len > b->max - b->len)
		return -ENOBUFS;
	if (b->len + len > b->size)
		rc = buf_grow(b, b->len + len);
	if (rc)
		return rc;
	*room = b->data ? b->data + b->len : NULL;
	b->len += len;
	return 0;
}

int buf_put(struct buf *b, const void *data, size_t len)
{
	uint8_t *room;
	int rc = buf_reserve(b, len, &room);

	if (rc == 0 && len)
		memcpy(room, data, len);
	return rc;
}

/* ---- getters ---- */

int buf_skip(struct buf *b, size_t len)
{
	if (len > buf_len(b))
		return -EBADMSG;
	b->pos += len;
	return 0;
}

int buf_get(struct buf *b, void *out, size_t len)
{
	if (len == 0)
		return 0;
	if (len > buf_len(b)) {
		memset(out, 0, len);
		return -EBADMSG;
	}
	memcpy(out, buf_ptr(b), len);
	b->pos += len;
	return 0;
}

int buf_get_u8(struct buf *b, uint8_t *v)
{
	return buf_get(b, v, sizeof(*v));
}
