// SPDX-License-Identifier: Apache-2.0
/* Hands out pieces of files to readers. */
#include "transfer/source/plan.h"

/* All zeros: empty. */
struct elevator {
	struct sfile *now, *later; /* heaps: files of this sweep; files before head, for the next
				    * sweep */
	uint64_t head;             /* the address of the last file that was taken */
};

struct plan {
	uint32_t block;
	_Atomic uint32_t limit;           /* the most bytes of a piece, up to block */
	bool stripe, sorted;
	pthread_mutex_t lock;
	pthread_cond_t more;
	/* Guarded by lock. */
	struct sfile *ready, **ready_end; /* files in the order of the walk; or, if sorted: */
	struct elevator elevator;
	struct sfile *active, **active_end; /* big files of which pieces were given out */
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
	free(f->rel);
	sum_free(f->sum);
	sfile_put(f->linked);
	pthread_mutex_destroy(&f->fd_lock);
	free(f);
}

/* ---- files in the order of a disk ---- */

static uint32_t sfile_rank(const struct sfile *f)
{
	return f ? f->rank : 0;
}

static struct sfile *sfile_meld(struct sfile *a, struct sfile *b)
{
	struct sfile *swap;

	if (!a || !b)
		return a ? a : b;
	if (b->address < a->address || (b->address == a->address && b->id < a->id)) {
		swap = a;
		a = b;
		b = swap;
	}
	a->right = sfile_meld(a->right, b);
	if (sfile_rank(a->left) < sfile_rank(a->right)) {
		swap = a->left;
		a->left = a->right;
		a->right = swap;
	}
	a->rank = sfile_rank(a->right) + 1;
	return a;
}

/* Files without an address are last in a sweep, in the order of the walk. */
static void elevator_add(struct elevator *w, struct sfile *f)
{
	struct sfile **heap = f->address >= w->head ? &w->now : &w->later;

	f->left = f->right = NULL;
	f->rank = 1;
	*heap = sfile_meld(*heap, f);
}

/* The next file, which is not removed; NULL: there is none. */
static struct sfile *elevator_first(struct elevator *w)
{
	if (!w->now && w->later) {
		w->now = steal_ptr(&w->later);
		w->head = 0;
	}
	return w->now;
}

/* Remove and return the next file; there must be one. */
static struct sfile *elevator_take(struct elevator *w)
{
	struct sfile *f = elevator_first(w);

	w->now = sfile_meld(f->left, f->right);
	w->head = f->address;
	return f;
}

/* ---- the plan ---- */

struct plan *plan_new(uint32_t block, bool stripe, bool sorted)
{
	struct plan *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->block = block;
	atomic_init(&p->limit, block);
	p->stripe = stripe;
	p->sorted = sorted;
	p->ready_end = &p->ready;
	p->active_end = &p->active;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->more, NULL);
	return p;
}

void plan_limit(struct plan *p, uint64_t bytes)
{
	/* Direct I/O and journals require multiples of BLOCK_MIN. */
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

void sfile_put_list(struct sfile *f)
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
	sfile_put_list(p->ready);
	while (elevator_first(&p->elevator))
		sfile_put(elevator_take(&p->elevator));
	sfile_put_list(p->active);
	pthread_cond_destroy(&p->more);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

static void plan_append(struct sfile ***end, struct sfile *first, struct sfile *last)
{
	last->next = NULL;
	**end = first;
	*end = &last->next;
}

static bool plan_is_small(const struct plan *p, const struct sfile *f)
{
	return f->kind == SFILE_PATH && !f->ranges && !f->runs && !f->digest &&
	       f->size <= p->block;
}

/* ---- files that are ready ---- */

static struct sfile *first_ready(struct plan *p)
{
	return p->sorted ? elevator_first(&p->elevator) : p->ready;
}

static struct sfile *take_ready(struct plan *p)
{
	struct sfile *f = p->ready;

	if (p->sorted)
		return elevator_take(&p->elevator);
	p->ready = f->next;
	if (!p->ready)
		p->ready_end = &p->ready;
	f->next = NULL;
	return f;
}

void plan_ready_list(struct plan *p, struct sfile *first, struct sfile *last, uint32_t n)
{
	LOCK_GUARD(guard, &p->lock);
	/* The pieces of one big file are work for several readers, too. */
	bool several = n > 1 || !plan_is_small(p, first);

	last->next = NULL;
	if (!p->sorted)
		plan_append(&p->ready_end, first, last);
	while (p->sorted && first) {
		struct sfile *next = first->next;

		first->next = NULL;
		elevator_add(&p->elevator, first);
		first = next;
	}

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

bool plan_is_idle(struct plan *p)
{
	LOCK_GUARD(guard, &p->lock);

	return !p->active && !first_ready(p) && (!p->closed || p->expected);
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

/* Put the next piece of f into w; with its last piece f is exhausted. */
static enum plan_answer piece_of(struct plan *p, struct sfile *f, struct plan_work *w)
{
	struct bulk_range r = f->ranges ? f->ranges[f->range] : (struct bulk_range){ 0, f->size };
	uint64_t left = r.length - f->at;
	uint32_t most = plan_limited(p);

	w->file = sfile_ref(f);
	w->offset = r.offset + f->at;
	w->length = left < most ? (uint32_t)left : most;
	f->outstanding++;
	f->at += w->length;
	if (f->at < r.length)
		return PLAN_PIECE;

	f->at = 0;
	f->range++;
	f->exhausted = f->range == (f->ranges ? f->nranges : 1);
	if (f->exhausted)
		drop_active(p, f);
	return PLAN_PIECE;
}

static enum plan_answer take_small(struct plan *p, uint32_t room, struct plan_work *w)
{
	uint32_t most = plan_limited(p);
	struct sfile *f;

	w->nfiles = 0;
	while ((f = first_ready(p)) && plan_is_small(p, f) && f->size <= room &&
	       w->nfiles < PLAN_BATCH) {
		room -= (uint32_t)f->size;
		most -= f->size < most ? (uint32_t)f->size : most;
		if (room > most)
			room = most;
		w->files[w->nfiles++] = take_ready(p);
	}
	return w->nfiles ? PLAN_SMALL : PLAN_FULL;
}

/* As many as a block has bytes, but at least one. */
static enum plan_answer take_digests(struct plan *p, struct plan_work *w)
{
	uint64_t bytes = 0;
	struct sfile *f;

	w->nfiles = 0;
	while ((f = first_ready(p)) && f->digest && w->nfiles < PLAN_BATCH &&
	       (!w->nfiles || bytes + f->size <= p->block)) {
		bytes += f->size;
		w->files[w->nfiles++] = take_ready(p);
	}
	return PLAN_DIGEST;
}

/* Choose the next piece; PLAN_IDLE: there is none now. */
static enum plan_answer plan_choose(struct plan *p, const struct sfile *mine, uint32_t room,
				    struct plan_work *w)
{
	struct sfile *f;

	if (p->stripe && p->active)
		return piece_of(p, p->active, w);
	for (f = p->active; mine && f; f = f->next)
		if (f == mine)
			return piece_of(p, f, w);
	f = first_ready(p);
	if (!f)
		return p->active ? piece_of(p, p->active, w) : PLAN_IDLE;
	if (f->digest)
		return take_digests(p, w);
	if (f->runs) {
		w->file = take_ready(p);
		return PLAN_CHECK;
	}

	if (plan_is_small(p, f))
		return take_small(p, room, w);
	take_ready(p);
	plan_append(&p->active_end, f, f);
	return piece_of(p, f, w);
}

enum plan_answer plan_next(struct plan *p, const struct sfile *mine, uint32_t room, bool wait,
			   struct plan_work *w)
{
	LOCK_GUARD(guard, &p->lock);

	for (;;) {
		enum plan_answer a;

		if (p->aborted)
			return PLAN_END;
		a = plan_choose(p, mine, room, w);
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
