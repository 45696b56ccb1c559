// SPDX-License-Identifier: Apache-2.0
/* The files that earlier attempts of a command have committed: 64-bit hashes of their paths, in a
 * file without a name, so that a tree of any size costs 8 bytes of disk a file. Two paths with the
 * same hash do no harm: a file is left alone only if it also looks like its source. */
#include "transfer/spill.h"
#include "transfer/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PENDING = 512 };

struct committed {
	pthread_mutex_t lock;
	int fd;                      /* < 0: none yet, or none can be had */
	bool broken;                 /* a hash could not be kept: so are later ones */
	uint64_t count;              /* hashes in the file */
	uint64_t pending[PENDING];   /* and those that are not there yet */
	unsigned npending;
	/* The hashes of earlier attempts, sorted; changed only by committed_recall(). */
	uint64_t *known;
	uint64_t nknown;
};

struct committed *committed_new(void)
{
	struct committed *c = calloc(1, sizeof(*c));

	if (c) {
		c->fd = -1;
		pthread_mutex_init(&c->lock, NULL);
	}
	return c;
}

static void forget_known(struct committed *c)
{
	if (c->known)
		munmap(c->known, c->nknown * sizeof(*c->known));
	c->known = NULL;
	c->nknown = 0;
}

void committed_free(struct committed *c)
{
	if (!c)
		return;
	forget_known(c);
	cleanup_close(&c->fd);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

/* With the lock held. A hash that is lost costs one more transfer of its file, nothing else. */
static void flush(struct committed *c)
{
	size_t bytes = c->npending * sizeof(*c->pending);

	if (c->fd < 0 && !c->broken)
		c->fd = spill_open(AT_FDCWD);
	if (!c->broken && c->npending)
		c->broken = c->fd < 0 ||
			    pwrite_full(c->fd, c->pending, bytes, (off_t)(c->count * 8)) < 0;
	if (!c->broken)
		c->count += c->npending;
	c->npending = 0;
}

static void add(struct committed *c, uint64_t hash)
{
	if (c->count + c->npending >= COMMITTED_MAX)
		return;
	c->pending[c->npending++] = hash;
	if (c->npending == PENDING)
		flush(c);
}

static uint64_t hash_of(const char *path)
{
	uint8_t digest[RUN_DIGEST_BYTES];

	crypto_run_digest(digest, path, strlen(path));
	return get_be64(digest);
}

void committed_add(struct committed *c, const char *path)
{
	uint64_t hash = hash_of(path);
	LOCK_GUARD(guard, &c->lock);

	add(c, hash);
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

void committed_recall(struct committed *c)
{
	LOCK_GUARD(guard, &c->lock);

	flush(c);
	forget_known(c);
	if (!c->count)
		return;
	c->known = mmap(NULL, c->count * 8, PROT_READ | PROT_WRITE, MAP_SHARED, c->fd, 0);
	if (c->known == MAP_FAILED) {
		log_debug("files that are done cannot be recalled: %s", strerror(errno));
		c->known = NULL;
		return;
	}
	c->nknown = c->count;
	qsort(c->known, c->nknown, sizeof(*c->known), by_value);
}

bool committed_has(const struct committed *c, const char *path)
{
	uint64_t hash = hash_of(path);

	return c->known && bsearch(&hash, c->known, c->nknown, sizeof(hash), by_value);
}

int committed_send(const struct committed *c, struct mstream *ms)
{
	enum { MOST = BULK_FRAME_MAX / 8 };
	struct buf *b CLEANUP_BUF = buf_new(BULK_FRAME_MAX);
	int r = b ? 0 : -ENOMEM;

	for (uint64_t i = 0; !r && i < c->nknown; i++) {
		uint8_t hash[8];

		put_be64(hash, c->known[i]);
		r = buf_put(b, hash, sizeof(hash));
		if (!r && (i % MOST == MOST - 1 || i == c->nknown - 1)) {
			r = ms_write_frame(ms, BULK_COMMITTED, buf_ptr(b), buf_len(b));
			buf_reset(b);
		}
	}
	return r;
}

int committed_take(struct committed *c, struct buf *p)
{
	LOCK_GUARD(guard, &c->lock);

	while (buf_len(p)) {
		uint8_t hash[8];

		if (buf_get(p, hash, sizeof(hash)))
			return -EBADMSG;
		add(c, get_be64(hash));
	}
	return 0;
}
