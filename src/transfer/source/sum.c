// SPDX-License-Identifier: Apache-2.0
/* Digests of files, or of their ranges, computed from the blocks that readers fill: no file is
 * read twice, unless the sink has a part of it.
 *
 * Several readers fill blocks of one file. A block is held until its predecessor has been
 * hashed; one reader at a time hashes the blocks of a file in order. Readers get a block before
 * the plan gives them a piece, so the lowest piece that is missing always has a block, and the
 * held ones cannot use up the pool. */
#include "transfer/source/source.h"

#include <pthread.h>

struct sum {
	pthread_mutex_t lock;
	/* Guarded by lock; those from digest on are used without it by the reader that hashes. */
	struct block *held;       /* by offset */
	bool busy;                /* a reader hashes */
	struct digest *digest;
	uint64_t at;              /* bytes that are hashed, with holes */
	uint32_t range;           /* of the next piece */
	uint64_t next;            /* its offset */
	atomic_bool bad;          /* out of memory, or a failure of the library */
	atomic_bool complete;     /* hex is set */
	uint64_t *links;          /* [nlinks] guarded by lock: ids of hard links that wait for hex */
	size_t nlinks, links_room;
	char hex[2 * DIGEST_MAX + 1];
};

static const uint8_t zeros[65536];

static void sum_bytes(struct sum *m, const void *data, size_t len)
{
	if (digest_update(m->digest, data, len))
		m->bad = true;
	m->at += len;
}

static void sum_hole(struct sum *m, uint64_t to)
{
	while (m->at < to && !m->bad)
		sum_bytes(m, zeros, to - m->at < sizeof(zeros) ? to - m->at : sizeof(zeros));
}

static void sum_end(struct sum *m, uint64_t size)
{
	sum_hole(m, size);
	if (!m->bad && digest_final_hex(m->digest, m->hex))
		m->bad = true;
	digest_free(steal_ptr(&m->digest));
	if (!m->bad)
		atomic_store(&m->complete, true);
}

int sum_new(struct sfile *f, const char *name)
{
	struct sum *m = calloc(1, sizeof(*m));

	if (!m)
		return -ENOMEM;
	m->digest = digest_new(name);
	if (!m->digest) {
		free(m);
		return -errno;
	}
	pthread_mutex_init(&m->lock, NULL);
	m->at = f->only.length ? f->only.offset : 0;
	m->next = f->ranges && f->nranges ? f->ranges[0].offset : m->at;
	f->sum = m;
	/* Nothing of it will be read. */
	if (!sfile_has_data(f))
		sum_end(m, sfile_end(f));
	return m->bad ? -EIO : 0;
}

void sum_free(struct sum *m)
{
	if (!m)
		return;
	digest_free(m->digest);
	free(m->links);
	pthread_mutex_destroy(&m->lock);
	free(m);
}

const char *sum_hex(const struct sfile *f)
{
	const struct sfile *first = f->linked ? f->linked : f;

	return first->sum && !atomic_load(&first->unwanted) && atomic_load(&first->sum->complete) ?
	       first->sum->hex : NULL;
}

int sum_whole(struct sfile *f, const void *data, size_t len)
{
	struct sum *m = f->sum;

	if (!m || atomic_load(&m->complete))
		return 0;
	sum_bytes(m, data, len);
	sum_end(m, len);
	return m->bad ? -EIO : 0;
}

int sum_stream(struct sfile *f, const void *data, size_t len)
{
	if (!f->sum)
		return 0;
	if (len)
		sum_bytes(f->sum, data, len);
	else
		sum_end(f->sum, f->sum->at);
	return f->sum->bad ? -EIO : 0;
}

int sum_file(struct sfile *f, int fd, const atomic_bool *stop)
{
	uint8_t *room CLEANUP_FREE = NULL;
	struct sum *m = f->sum;
	ssize_t n = 0;

	if (!m || atomic_load(&m->complete))
		return 0;
	room = malloc(1 << 20);
	if (!room)
		return -ENOMEM;
	while (m->at < sfile_end(f) && !m->bad && !atomic_load(stop)) {
		uint64_t left = sfile_end(f) - m->at;

		n = pread_full(fd, room, left < 1 << 20 ? left : 1 << 20, m->at);
		if (n <= 0)
			return n ? (int)n : -EIO;
		sum_bytes(m, room, (size_t)n);
	}
	if (m->at == sfile_end(f))
		sum_end(m, m->at);
	return m->bad ? -EIO : 0;
}

/* ---- blocks of a big file ---- */

static uint64_t offset_of(const struct block *b)
{
	return b->extents[0].offset;
}

static void hold(struct sum *m, struct block *b)
{
	struct block **at = &m->held;

	while (*at && offset_of(*at) < offset_of(b))
		at = &(*at)->next;
	b->next = *at;
	*at = b;
}

/* Hash b, the next block of f. */
static void sum_block(struct sfile *f, struct block *b)
{
	struct sum *m = f->sum;
	uint64_t end = offset_of(b) + b->len;

	sum_hole(m, offset_of(b));
	sum_bytes(m, block_payload(b), b->len);
	m->next = end;
	if (f->ranges && end == f->ranges[m->range].offset + f->ranges[m->range].length) {
		m->range++;
		m->next = m->range < f->nranges ? f->ranges[m->range].offset : sfile_end(f);
	}
	if (m->next == sfile_end(f))
		sum_end(m, m->next);
}

struct block *sum_take(struct sfile *f, struct block *b)
{
	struct block *done = NULL, **end = &done, *next;
	struct sum *m = f->sum;

	if (!m || atomic_load(&m->complete)) {
		if (b)
			b->next = NULL;
		return b;
	}
	pthread_mutex_lock(&m->lock);
	if (b)
		hold(m, b);
	while (!m->busy && m->held &&
	       (offset_of(m->held) == m->next || atomic_load(&f->failed) || m->bad)) {
		next = m->held;
		m->held = next->next;
		next->next = NULL;
		m->busy = true;
		pthread_mutex_unlock(&m->lock);
		if (!atomic_load(&f->failed) && !m->bad)
			sum_block(f, next);
		*end = next;
		end = &next->next;
		pthread_mutex_lock(&m->lock);
		m->busy = false;
	}
	pthread_mutex_unlock(&m->lock);
	return done;
}

/* ---- to the sink ---- */

/* Sums are sent by the ticker, or once there are this many bytes of them: a frame for each small
 * file would take a third of its time. */
#define SUMS_BYTES 16384

/* With sums_lock held. */
static int flush_sums(struct source *s)
{
	int r = buf_len(s->sums) ? xfer_send(&s->x, BULK_SUM, s->sums) : 0;

	buf_reset(s->sums);
	return r;
}

int source_flush_sums(struct source *s)
{
	LOCK_GUARD(guard, &s->sums_lock);

	return flush_sums(s);
}

static int send_sum(struct source *s, uint64_t id, const char *hex)
{
	LOCK_GUARD(guard, &s->sums_lock);
	int r = bulk_sum_put(s->sums, id, hex);

	if (r)
		return r;
	xfer_due(&s->x);
	return buf_len(s->sums) > SUMS_BYTES ? flush_sums(s) : 0;
}

int source_send_sum(struct source *s, struct sfile *f)
{
	const char *hex = sum_hex(f);
	int r;

	if (!hex || !sends_sums(s))
		return 0;
	r = send_sum(s, f->id, hex);
	LOCK_GUARD(guard, &f->sum->lock);
	for (; !r && f->sum->nlinks; f->sum->nlinks--)
		r = send_sum(s, f->sum->links[f->sum->nlinks - 1], hex);
	return r;
}

int source_send_link_sum(struct source *s, struct sfile *f, uint64_t link)
{
	struct sum *m = f->sum;

	if (!m || !sends_sums(s))
		return 0;
	LOCK_GUARD(guard, &m->lock);
	if (atomic_load(&m->complete))
		return send_sum(s, link, m->hex);
	if (!array_has_room(m->links, m->nlinks, m->links_room))
		return -ENOMEM;
	m->links[m->nlinks++] = link;
	return 0;
}

bool sum_failed(const struct sfile *f)
{
	return f->sum && f->sum->bad;
}
