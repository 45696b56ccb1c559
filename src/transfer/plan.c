// SPDX-License-Identifier: Apache-2.0
/* Hands out what is to be read. */
#include "transfer/plan.h"
#include "transfer/sweep.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct plan {
	uint32_t block;
	_Atomic uint32_t limit;           /* bytes of a piece, up to block */
	bool stripe, sorted;
	pthread_mutex_t lock;
	pthread_cond_t more;
	/* Guarded by lock. */
	struct sfile *ready, **ready_end; /* in the order of the walk; or, if sorted: */
	struct sweep sweep;
	struct sfile *active, **active_end; /* big files that have been begun */
	uint32_t expected;                /* files that wait for a verdict */
	uint32_t waiting;                 /* readers asleep */
	bool closed, aborted;
};

struct sfile *sfile_new(uint64_t id, enum sfile_kind kind, struct dir *dir, const char *name)
{
	struct sfile *f = calloc(1, sizeof(*f) + strlen(name) + 1);

	if (!f)
		return NULL;
	f->id = id;
	f->kind = kind;
	f->dir = dir ? dir_ref(dir) : NULL;
	f->name = strcpy((char *)(f + 1), name);
	f->fd = -1;
	f->address = ADDRESS_UNKNOWN;
	atomic_init(&f->refs, 1);
	pthread_mutex_init(&f->fd_lock, NULL);
	return f;
}

void sfile_put(struct sfile *f)
{
	if (!f || atomic_fetch_sub_explicit(&f->refs, 1, memory_order_acq_rel) != 1)
		return;
	if (f->fd >= 0)
		close(f->fd);
	if (f->dir)
		dir_put(f->dir);
	free(f->ranges);
	free(f->runs);
	pthread_mutex_destroy(&f->fd_lock);
	free(f);
}

struct plan *plan_new(uint32_t block, bool stripe)
{
	struct plan *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->block = block;
	atomic_init(&p->limit, block);
	p->stripe = stripe;
	p->ready_end = &p->ready;
	p->active_end = &p->active;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->more, NULL);
	return p;
}

void plan_sort(struct plan *p)
{
	p->sorted = true;
}

void plan_limit(struct plan *p, uint64_t bytes)
{
	/* Whole multiples keep what direct I/O and journals need. */
	bytes -= bytes % BLOCK_MIN;
	if (bytes < BLOCK_MIN)
		bytes = BLOCK_MIN;
	atomic_store_explicit(&p->limit, bytes < p->block ? (uint32_t)bytes : p->block,
			      memory_order_relaxed);
}

uint32_t plan_limited(const struct plan *p)
{
	return atomic_load_explicit(&p->limit, memory_order_relaxed);
}

static void put_list(struct sfile *f)
{
	while (f) {
		struct sfile *next = f->next;

		sfile_put(f);
		f = next;
	}
}

void plan_free(struct plan *p)
{
	if (!p)
		return;
	put_list(p->ready);
	while (sweep_first(&p->sweep))
		sfile_put(sweep_take(&p->sweep));
	put_list(p->active);
	pthread_cond_destroy(&p->more);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

static void append(struct sfile ***end, struct sfile *first, struct sfile *last)
{
	last->next = NULL;
	**end = first;
	*end = &last->next;
}

static struct sfile *take_first(struct sfile **head, struct sfile ***end)
{
	struct sfile *f = *head;

	*head = f->next;
	if (!*head)
		*end = head;
	f->next = NULL;
	return f;
}

static bool is_small(const struct plan *p, const struct sfile *f)
{
	return f->kind == SFILE_PATH && !f->ranges && !f->runs && f->size <= p->block;
}

/* ---- files that are ready ---- */

static void add_ready(struct plan *p, struct sfile *first, struct sfile *last)
{
	struct sfile *next;

	last->next = NULL;
	if (!p->sorted) {
		append(&p->ready_end, first, last);
		return;
	}
	for (; first; first = next) {
		next = first->next;
		first->next = NULL;
		sweep_add(&p->sweep, first);
	}
}

static struct sfile *first_ready(struct plan *p)
{
	return p->sorted ? sweep_first(&p->sweep) : p->ready;
}

static struct sfile *take_ready(struct plan *p)
{
	return p->sorted ? sweep_take(&p->sweep) : take_first(&p->ready, &p->ready_end);
}

void plan_ready_list(struct plan *p, struct sfile *first, struct sfile *last, uint32_t n)
{
	LOCK_GUARD(guard, &p->lock);
	/* Pieces of a big file are work for several, too. */
	bool several = n > 1 || !is_small(p, first);

	add_ready(p, first, last);
	if (p->waiting && several)
		pthread_cond_broadcast(&p->more);
	else if (p->waiting)
		pthread_cond_signal(&p->more);
}

void plan_ready(struct plan *p, struct sfile *f)
{
	plan_ready_list(p, f, f, 1);
}

void plan_expect(struct plan *p)
{
	LOCK_GUARD(guard, &p->lock);

	p->expected++;
}

void plan_unexpect(struct plan *p)
{
	LOCK_GUARD(guard, &p->lock);

	p->expected--;
	pthread_cond_broadcast(&p->more);
}

bool plan_expects(struct plan *p)
{
	LOCK_GUARD(guard, &p->lock);

	return p->expected;
}

void plan_close(struct plan *p)
{
	LOCK_GUARD(guard, &p->lock);

	p->closed = true;
	pthread_cond_broadcast(&p->more);
}

void plan_abort(struct plan *p)
{
	LOCK_GUARD(guard, &p->lock);

	p->aborted = true;
	pthread_cond_broadcast(&p->more);
}

/* ---- cursors ---- */

static struct bulk_range range_of(const struct sfile *f, uint32_t i)
{
	return f->ranges ? f->ranges[i] : (struct bulk_range){ 0, f->size };
}

static uint32_t range_count(const struct sfile *f)
{
	return f->ranges ? f->nranges : 1;
}

/* The next piece of f into w; marks f exhausted with the last one. */
static void cut_piece(struct plan *p, struct sfile *f, struct plan_work *w)
{
	struct bulk_range r = range_of(f, f->range);
	uint64_t left = r.length - f->at;
	uint32_t most = plan_limited(p);

	w->file = sfile_ref(f);
	w->offset = r.offset + f->at;
	w->length = left < most ? (uint32_t)left : most;
	f->outstanding++;
	f->at += w->length;
	if (f->at < r.length)
		return;
	f->at = 0;
	f->range++;
	f->exhausted = f->range == range_count(f);
}

static void drop_active(struct plan *p, struct sfile *gone)
{
	for (struct sfile **at = &p->active; *at; at = &(*at)->next) {
		if (*at != gone)
			continue;
		*at = gone->next;
		if (!*at)
			p->active_end = at;
		sfile_put(gone);
		return;
	}
}

static enum plan_answer piece_of(struct plan *p, struct sfile *f, struct plan_work *w)
{
	cut_piece(p, f, w);
	if (f->exhausted)
		drop_active(p, f);
	return PLAN_PIECE;
}

static enum plan_answer begin_big(struct plan *p, struct plan_work *w)
{
	struct sfile *f = take_ready(p);

	append(&p->active_end, f, f);
	return piece_of(p, f, w);
}

static enum plan_answer take_small(struct plan *p, uint32_t room, struct plan_work *w)
{
	uint32_t most = plan_limited(p);
	struct sfile *f;

	w->nfiles = 0;
	while ((f = first_ready(p)) && is_small(p, f) && f->size <= room &&
	       w->nfiles < PLAN_BATCH) {
		room -= (uint32_t)f->size;
		most -= f->size < most ? (uint32_t)f->size : most;
		if (room > most)
			room = most;
		w->files[w->nfiles++] = take_ready(p);
	}
	return w->nfiles ? PLAN_SMALL : PLAN_FULL;
}

static enum plan_answer begin_next(struct plan *p, uint32_t room, struct plan_work *w)
{
	const struct sfile *f = first_ready(p);

	if (f->runs) {
		w->file = take_ready(p);
		return PLAN_CHECK;
	}
	return is_small(p, f) ? take_small(p, room, w) : begin_big(p, w);
}

static struct sfile *still_active(struct plan *p, const struct sfile *mine)
{
	for (struct sfile *f = p->active; mine && f; f = f->next)
		if (f == mine)
			return f;
	return NULL;
}

/* What there is now; PLAN_IDLE: nothing. */
static enum plan_answer choose(struct plan *p, const struct sfile *mine, uint32_t room,
			       struct plan_work *w)
{
	struct sfile *f;

	if (p->stripe && p->active)
		return piece_of(p, p->active, w);
	f = still_active(p, mine);
	if (f)
		return piece_of(p, f, w);
	if (first_ready(p))
		return begin_next(p, room, w);
	if (p->active)
		return piece_of(p, p->active, w);
	return PLAN_IDLE;
}

enum plan_answer plan_next(struct plan *p, const struct sfile *mine, uint32_t room, bool wait,
			   struct plan_work *w)
{
	LOCK_GUARD(guard, &p->lock);

	for (;;) {
		enum plan_answer a;

		if (p->aborted)
			return PLAN_END;
		a = choose(p, mine, room, w);
		if (a != PLAN_IDLE)
			return a;
		if (p->closed && !p->expected)
			return PLAN_END;
		if (!wait)
			return PLAN_IDLE;
		p->waiting++;
		pthread_cond_wait(&p->more, &p->lock);
		p->waiting--;
	}
}

bool plan_piece_done(struct plan *p, struct sfile *f)
{
	LOCK_GUARD(guard, &p->lock);

	return --f->outstanding == 0 && f->exhausted;
}

uint64_t plan_truncate(struct plan *p, struct sfile *f)
{
	LOCK_GUARD(guard, &p->lock);

	if (f->exhausted)
		return f->size;
	f->exhausted = true;
	f->size = f->at;
	drop_active(p, f);
	return f->size;
}
