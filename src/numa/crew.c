// SPDX-License-Identifier: Apache-2.0
/* The copying of the I/O model (algorithm 1 of chapter 4 of Li's dissertation). */
#include "numa/crew.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* So far behind a huge page's start, times its turn, each buffer of a thread begins: at like
 * places of their pages, two would get in each other's way in whatever goes by some bits of the
 * address (caches, TLBs, banks of memory), and one cell more than the other. */
#define STAGGER (67u << 12)

struct buffer {
	void *map;           /* whole huge pages, which are all or none huge */
	uint8_t *at;
};

struct worker {
	struct crew *crew;
	unsigned cpu;
	pthread_t thread;
	/* Its own, but for the time between two jobs. */
	struct buffer home;  /* on the target */
	struct buffer *away; /* on each node */
	uint64_t placed;     /* bytes that are where they should be */
	uint64_t began, ended; /* now_ns() */
	struct err err;
};

struct crew {
	const struct crew_config *config;
	struct worker *worker;
	unsigned started;
	pthread_barrier_t together; /* of all workers; only once all are started */

	pthread_mutex_t lock;       /* guards the rest */
	pthread_cond_t changed;
	unsigned turn;              /* of jobs; each worker does each once */
	unsigned busy;              /* workers that are not through with it */
	bool quit;
	bool prepare;               /* the job: make buffers; or else copy */
	unsigned node;              /* between the target and nodes[node] */
	enum model_op op;
};

/* ---- a thread's memory ---- */

static size_t map_bytes(const struct crew_config *c)
{
	return c->bytes + CREW_SLACK;
}

static void unmap(struct buffer *b, const struct crew_config *c)
{
	if (b->map)
		munmap(b->map, map_bytes(c));
}

/* turn: the how manieth of its thread. */
static int map(struct buffer *b, const struct crew_config *c, unsigned turn)
{
	void *p = mmap(NULL, map_bytes(c), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);
	uintptr_t at = ((uintptr_t)p + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;

	if (p == MAP_FAILED)
		return -errno;
	b->map = p;
	b->at = (uint8_t *)at + (size_t)turn * STAGGER % HUGE_PAGE;
	/* If there are any: what is asked is what memory costs, not what the TLB does. */
	madvise(p, map_bytes(c), MADV_HUGEPAGE);
	return 0;
}

int crew_check(const struct place_count *count, int node, size_t bytes, struct err *e)
{
	char there[32], all[32];

	if (count->there == bytes)
		return 0;
	return err_set(e, -EIO, "of a buffer that is bound to node %d, %s of %s are there: the "
		       "node may have been short of memory; give a smaller --size", node,
		       format_size(there, sizeof(there), count->there),
		       format_size(all, sizeof(all), bytes));
}

static int look_where(struct worker *w, const void *p, int node)
{
	size_t bytes = w->crew->config->bytes;
	struct place_count count;
	int r = place_count(p, bytes, node, &count);

	if (r)
		return err_sys(&w->err, r, "cannot tell on which node memory is");
	w->placed += count.there;
	return crew_check(&count, node, bytes, &w->err);
}

/* A buffer on node, with all of its pages. */
static int buffer(struct worker *w, int node, unsigned turn, struct buffer *b)
{
	const struct crew_config *c = w->crew->config;
	int r = map(b, c, turn);
	char text[32];

	if (r)
		return err_sys(&w->err, r, "no memory for a buffer of %s",
			       format_size(text, sizeof(text), c->bytes));
	r = c->bind ? place_memory(b->map, map_bytes(c), node, true) : 0;
	if (r)
		return err_sys(&w->err, r, "cannot bind memory to node %d", node);
	memset(b->at, (int)w->cpu + 1, c->bytes);
	return c->bind ? look_where(w, b->at, node) : 0;
}

static void prepare(struct worker *w)
{
	const struct crew_config *c = w->crew->config;
	struct ids cpu = { 0 };
	int r;

	ids_add(&cpu, w->cpu);
	r = place_thread(&cpu);
	if (r)
		err_sys(&w->err, r, "cannot run a thread on CPU %u", w->cpu);
	if (!r)
		r = buffer(w, c->target, 0, &w->home);
	for (unsigned i = 0; !r && i < c->n; i++)
		r = buffer(w, c->nodes[i], i + 1, &w->away[i]);
}

/* ---- a thread's work ---- */

/* The C library's memcpy takes non-temporal stores for what is larger than some part of the
 * cache, as programs that move bulk data have it, and so did those who published the model. */
static void copy(struct worker *w, unsigned node, enum model_op op)
{
	const struct crew_config *c = w->crew->config;
	const uint8_t *from = op == MODEL_WRITE ? w->away[node].at : w->home.at;
	uint8_t *to = op == MODEL_WRITE ? w->home.at : w->away[node].at;

	pthread_barrier_wait(&w->crew->together);
	w->began = now_ns();
	for (unsigned i = 0; i < c->copies && !stop_asked(c->stop); i++) {
		memcpy(to, from, c->bytes);
		/* Or else all but the last may be left out. */
		__asm__ volatile("" : : "r"(to) : "memory");
	}
	w->ended = now_ns();
}

static void *work(void *arg)
{
	struct worker *w = arg;
	struct crew *c = w->crew;
	LOCK_GUARD(held, &c->lock);

	for (unsigned turn = 0; ; turn++) {
		while (c->turn == turn && !c->quit)
			pthread_cond_wait(&c->changed, &c->lock);
		if (c->quit)
			return NULL;
		pthread_mutex_unlock(&c->lock);
		/* The job does not change while anybody is busy. */
		if (c->prepare)
			prepare(w);
		else
			copy(w, c->node, c->op);
		pthread_mutex_lock(&c->lock);
		if (--c->busy == 0)
			pthread_cond_broadcast(&c->changed);
	}
}

/* ---- all of them ---- */

/* Have every worker do the job that is set, and wait for it. */
static void all_do(struct crew *c)
{
	LOCK_GUARD(held, &c->lock);

	c->turn++;
	c->busy = c->config->threads;
	pthread_cond_broadcast(&c->changed);
	while (c->busy)
		pthread_cond_wait(&c->changed, &c->lock);
}

static int start_all(struct crew *c, struct err *e)
{
	const struct crew_config *config = c->config;

	for (; c->started < config->threads; c->started++) {
		struct worker *w = &c->worker[c->started];
		int r;

		w->crew = c;
		w->cpu = config->cpus[c->started];
		w->away = calloc(config->n, sizeof(*w->away));
		r = w->away ? thread_start(&w->thread, "copy", work, w) : -ENOMEM;
		if (r) {
			free(w->away);
			return err_sys(e, r, "cannot start a thread");
		}
	}
	return 0;
}

static int first_error(const struct crew *c, struct err *e)
{
	for (unsigned i = 0; i < c->started; i++) {
		const struct err *one = &c->worker[i].err;

		if (one->code)
			return err_set(e, one->code, "%s", one->text);
	}
	return 0;
}

struct crew *crew_start(const struct crew_config *config, struct err *e)
{
	struct crew *c = calloc(1, sizeof(*c));
	int r;

	if (c)
		c->worker = calloc(config->threads, sizeof(*c->worker));
	if (!c || !c->worker) {
		free(c);
		err_set(e, -ENOMEM, "out of memory");
		return NULL;
	}
	c->config = config;
	pthread_mutex_init(&c->lock, NULL);
	cond_init(&c->changed);
	pthread_barrier_init(&c->together, NULL, config->threads);
	r = start_all(c, e);
	if (!r) {
		c->prepare = true;
		all_do(c);
		c->prepare = false;
		r = first_error(c, e);
	}
	if (!r)
		return c;
	crew_end(c);
	return NULL;
}

uint64_t crew_placed(const struct crew *c)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < c->started; i++)
		sum += c->worker[i].placed;
	return sum;
}

int crew_copy(struct crew *c, unsigned node, enum model_op op, double *bandwidth)
{
	const struct crew_config *config = c->config;
	double bytes = (double)config->bytes * config->copies * config->threads;
	uint64_t began = UINT64_MAX, ended = 0;

	c->node = node;
	c->op = op;
	all_do(c);
	for (unsigned i = 0; i < config->threads; i++) {
		const struct worker *w = &c->worker[i];

		began = w->began < began ? w->began : began;
		ended = w->ended > ended ? w->ended : ended;
	}
	/* They may have ended early. */
	if (stop_asked(config->stop))
		return -EINTR;
	*bandwidth = bytes * 1e9 / (double)(ended > began ? ended - began : 1);
	return 0;
}

void crew_end(struct crew *c)
{
	if (!c)
		return;
	pthread_mutex_lock(&c->lock);
	c->quit = true;
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
	for (unsigned i = 0; i < c->started; i++) {
		struct worker *w = &c->worker[i];

		pthread_join(w->thread, NULL);
		unmap(&w->home, c->config);
		for (unsigned k = 0; k < c->config->n; k++)
			unmap(&w->away[k], c->config);
		free(w->away);
	}
	pthread_barrier_destroy(&c->together);
	pthread_cond_destroy(&c->changed);
	pthread_mutex_destroy(&c->lock);
	free(c->worker);
	free(c);
}
