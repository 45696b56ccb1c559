// SPDX-License-Identifier: Apache-2.0
/* The capped buffer of wire formats. */
#include "util/buf.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_BYTES = 256 };

/* pos <= len <= size <= max, except that a view owns nothing and has size 0. */
struct buf {
	uint8_t *data; /* NULL until the first put; a view never writes through it */
	size_t pos;    /* read position */
	size_t len;    /* end of what was put */
	size_t size;   /* allocated */
	size_t max;
	bool view;
};

struct buf *buf_new(size_t max)
{
	struct buf *b = calloc(1, sizeof(*b));

	if (b)
		b->max = max;
	return b;
}

struct buf *buf_from(const void *data, size_t len)
{
	struct buf *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->data = (uint8_t *)(uintptr_t)data;
	b->len = len;
	b->view = true;
	return b;
}

/* Buffers carry passwords and keys. */
static void wipe_and_free(uint8_t *data, size_t size)
{
	if (!data)
		return;
	explicit_bzero(data, size);
	free(data);
}

void buf_free(struct buf *b)
{
	if (!b)
		return;
	if (!b->view)
		wipe_and_free(b->data, b->size);
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

/* Nothing may be added to a null pointer, not even 0. */
static uint8_t *at(const struct buf *b, size_t pos)
{
	return b->data ? b->data + pos : NULL;
}

const uint8_t *buf_ptr(const struct buf *b)
{
	return at(b, b->pos);
}

void buf_reset(struct buf *b)
{
	b->pos = 0;
	b->len = 0;
}

size_t buf_tell(const struct buf *b)
{
	return b->pos;
}

void buf_seek(struct buf *b, size_t pos)
{
	b->pos = pos < b->len ? pos : b->len;
}

/* ---- putters ---- */

/* A new piece of memory and no realloc, which would leave the old one unwiped. */
static int resize(struct buf *b, size_t size)
{
	uint8_t *data = malloc(size);

	if (!data)
		return -ENOMEM;
	if (b->len)
		memcpy(data, b->data, b->len);
	wipe_and_free(b->data, b->size);
	b->data = data;
	b->size = size;
	return 0;
}

/* Doubling keeps the copying linear in what is put. */
static int make_room(struct buf *b, size_t more)
{
	size_t need, size;

	if (b->view)
		return -EROFS;
	if (more > b->max - b->len)
		return -ENOBUFS;
	need = b->len + more;
	if (need <= b->size)
		return 0;
	size = b->size ? b->size : FIRST_BYTES;
	while (size < need)
		size = size <= b->max / 2 ? size * 2 : b->max;
	return resize(b, size < b->max ? size : b->max);
}

int buf_reserve(struct buf *b, size_t len, uint8_t **room)
{
	int rc = make_room(b, len);

	*room = NULL;
	if (rc)
		return rc;
	*room = at(b, b->len);
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

/* The next len bytes; NULL when there are not so many. Moves nothing. */
static const uint8_t *peek(const struct buf *b, size_t len)
{
	return len <= buf_len(b) ? buf_ptr(b) : NULL;
}

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
	if (!peek(b, len)) {
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
