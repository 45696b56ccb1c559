// SPDX-License-Identifier: Apache-2.0
/* Copies between nodes for the I/O model (algorithm 1 of chapter 4 of Li's dissertation): the
 * threads of one target, their buffers, and the bandwidth of each round. */
#include "numa/measure.h"

#include <sys/mman.h>

/* A thread's buffer number i begins i * STAGGER bytes after the start of a huge page. Buffers at
 * equal offsets would compete in hardware that is indexed by address bits (caches, TLBs, memory
 * banks), and distort some cells of the model more than others. */
#define STAGGER (67u << 12)

struct buffer {
	void *map;           /* includes whole huge pages around the buffer, so that either all of
			      * the buffer or none of it can be in huge pages */
	uint8_t *at;
};

struct copier {
	struct copy *copy;
	unsigned cpu;
	pthread_t thread;
	/* Used by this thread during a job, and by copy_run_job() between jobs. */
	struct buffer home;  /* on the target */
	struct buffer *away; /* on each node */
	uint64_t placed;     /* bytes found on the intended node */
	uint64_t began, ended; /* now_ns() */
	struct err err;
};

/* The threads of one target. */
struct copy {
	const struct copy_plan *plan;
	struct copier *copier;
	pthread_barrier_t together; /* all copiers start to copy at the same time */
	pthread_mutex_t gate;       /* held until all threads of a job are started */
	bool cancelled;             /* guarded by gate: a thread could not be started */
	/* The job; it does not change while threads run. */
	bool prepare;               /* allocate buffers; false: copy */
	unsigned node;              /* between the target and nodes[node] */
	enum model_op op;
};

/* ---- a thread's memory ---- */

static size_t map_bytes(const struct copy_plan *p)
{
	return p->bytes + COPY_SLACK;
}

int copy_check(const struct place_count *count, int node, size_t bytes, struct err *e)
{
	char there[32], all[32];

	if (count->there == bytes)
		return 0;
	return err_set(e, -EIO, "of a buffer bound to node %d, only %s of %s are on it: the "
		       "node may have been short of memory; give a smaller --size", node,
		       format_size(there, sizeof(there), count->there),
		       format_size(all, sizeof(all), bytes));
}

/* Allocate a buffer with all its pages on node. turn: the buffer's number in its thread, from 0. */
static int copy_allocate(struct copier *w, int node, unsigned turn, struct buffer *b)
{
	const struct copy_plan *p = w->copy->plan;
	void *map = mmap(NULL, map_bytes(p), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			 -1, 0);
	uintptr_t at = ((uintptr_t)map + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
	struct place_count count;
	char text[32];
	int r;

	if (map == MAP_FAILED)
		return err_sys(&w->err, -errno, "cannot map a buffer of %s",
			       format_size(text, sizeof(text), p->bytes));
	b->map = map;
	b->at = (uint8_t *)at + (size_t)turn * STAGGER % HUGE_PAGE;

	/* Huge pages, if there are any, so that TLB misses do not distort the measurement. */
	madvise(map, map_bytes(p), MADV_HUGEPAGE);
	r = p->bind ? place_memory(map, map_bytes(p), node, true) : 0;
	if (r == -ENOSYS)
		return err_set(&w->err, r, "this build has no libnuma: it cannot bind memory");
	if (r)
		return err_sys(&w->err, r, "cannot bind memory to node %d", node);
	memset(b->at, (int)w->cpu + 1, p->bytes);
	if (!p->bind)
		return 0;

	r = place_count(b->at, p->bytes, node, &count);
	if (r)
		return err_sys(&w->err, r, "cannot find the node of the buffer's pages");
	w->placed += count.there;
	return copy_check(&count, node, p->bytes, &w->err);
}

/* ---- a thread's work ---- */

/* The C library's memcpy uses non-temporal stores for sizes above some part of the cache. So do
 * programs that move bulk data, and the model's authors. */
static void copy_buffer(struct copier *w)
{
	const struct copy *c = w->copy;
	const struct copy_plan *p = c->plan;
	struct buffer *away = &w->away[c->node];
	const uint8_t *from = c->op == MODEL_WRITE ? away->at : w->home.at;
	uint8_t *to = c->op == MODEL_WRITE ? w->home.at : away->at;

	w->began = now_ns();
	for (unsigned i = 0; i < p->copies; i++) {
		memcpy(to, from, p->bytes);
		/* Without this barrier the compiler could remove all copies except the last. */
		__asm__ volatile("" : : "r"(to) : "memory");
	}
	w->ended = now_ns();
}

static void *copy_thread(void *arg)
{
	struct copier *w = arg;
	struct copy *c = w->copy;
	struct ids cpu = { 0 };
	int r;

	ids_add(&cpu, w->cpu);
	r = place_thread(&cpu);
	if (r)
		err_sys(&w->err, r, "cannot run a thread on CPU %u", w->cpu);
	pthread_mutex_lock(&c->gate);
	pthread_mutex_unlock(&c->gate);
	if (c->cancelled)
		return NULL;
	if (c->prepare) {
		if (!r)
			r = copy_allocate(w, c->plan->target, 0, &w->home);
		for (unsigned i = 0; !r && i < c->plan->n; i++)
			r = copy_allocate(w, c->plan->nodes[i], i + 1, &w->away[i]);
	} else {
		pthread_barrier_wait(&c->together);
		copy_buffer(w);
	}
	return NULL;
}

/* ---- all threads ---- */

/* Start a thread for each copier to do the current job, and wait for all of them. */
static int copy_run_job(struct copy *c, struct err *e)
{
	unsigned started = 0;
	int r = 0;

	pthread_mutex_lock(&c->gate);
	for (; !r && started < c->plan->threads; started += !r) {
		struct copier *w = &c->copier[started];

		r = thread_start(&w->thread, "copy", copy_thread, w);
	}
	c->cancelled = r;
	pthread_mutex_unlock(&c->gate);
	for (unsigned i = 0; i < started; i++)
		pthread_join(c->copier[i].thread, NULL);
	if (r)
		return thread_failed(e, r);
	for (unsigned i = 0; i < started; i++) {
		const struct err *one = &c->copier[i].err;

		if (one->code)
			return err_set(e, one->code, "%s", one->text);
	}
	return 0;
}

/* Allocate the buffers, each by a thread on its CPU. Call copy_end() in any case. */
static int copy_begin(struct copy *c, struct err *e)
{
	const struct copy_plan *p = c->plan;

	pthread_mutex_init(&c->gate, NULL);
	pthread_barrier_init(&c->together, NULL, p->threads);
	c->copier = calloc(p->threads, sizeof(*c->copier));
	for (unsigned i = 0; c->copier && i < p->threads; i++) {
		struct copier *w = &c->copier[i];

		w->copy = c;
		w->cpu = p->cpus[i];
		w->away = calloc(p->n, sizeof(*w->away));
		if (!w->away)
			return err_nomem(e);
	}

	if (!c->copier)
		return err_nomem(e);
	c->prepare = true;
	return copy_run_job(c, e);
}

static void copy_end(struct copy *c)
{
	for (unsigned i = 0; c->copier && i < c->plan->threads; i++) {
		struct copier *w = &c->copier[i];

		if (w->home.map)
			munmap(w->home.map, map_bytes(c->plan));
		for (unsigned k = 0; w->away && k < c->plan->n; k++)
			if (w->away[k].map)
				munmap(w->away[k].map, map_bytes(c->plan));
		free(w->away);
	}

	pthread_barrier_destroy(&c->together);
	pthread_mutex_destroy(&c->gate);
	free(c->copier);
}

/* Copy between the target and nodes[node], in the direction op. *bandwidth: bytes per second of all
 * threads, from the start of the first to the end of the last. */
static int copy_cell(struct copy *c, unsigned node, enum model_op op, double *bandwidth,
		     struct err *e)
{
	const struct copy_plan *p = c->plan;
	double bytes = (double)p->bytes * p->copies * p->threads;
	uint64_t began = UINT64_MAX, ended = 0;
	int r;

	c->node = node;
	c->op = op;
	r = copy_run_job(c, e);
	for (unsigned i = 0; !r && i < p->threads; i++) {
		const struct copier *w = &c->copier[i];

		began = w->began < began ? w->began : began;
		ended = w->ended > ended ? w->ended : ended;
	}

	*bandwidth = bytes * 1e9 / (double)(ended > began ? ended - began : 1);
	return r;
}

/* Measure each cell once, so that changes over time affect all cells alike. round 0: a warm-up, not
 * recorded. */
static int copy_round(struct copy *c, json_t *const rows[MODEL_OPS], unsigned round, struct err *e)
{
	if (*c->plan->progress)
		fprintf(stderr, "\r\033[K%sround %u of %u", c->plan->progress, round,
			c->plan->rounds);
	for (unsigned op = 0; op < MODEL_OPS; op++)
		for (unsigned i = 0; i < c->plan->n; i++) {
			json_t *list = json_array_get(rows[op], i);
			double bandwidth = 0;

			if (copy_cell(c, i, (enum model_op)op, &bandwidth, e))
				return e->code;
			if (round && json_array_append_new(list, json_real(bandwidth)))
				return err_nomem(e);
		}
	return 0;
}

json_t *copy_run(const struct copy_plan *p, struct err *e)
{
	json_t *rows[MODEL_OPS] = { json_array(), json_array() }, *found;
	struct copy c = { .plan = p };
	uint64_t placed = 0;
	int r = copy_begin(&c, e);

	for (unsigned i = 0; !r && i < p->threads; i++)
		placed += c.copier[i].placed;
	for (int op = 0; op < MODEL_OPS; op++)
		for (unsigned i = 0; i < p->n; i++)
			json_array_append_new(rows[op], json_array());
	c.prepare = false;
	for (unsigned round = 0; !r && round <= p->rounds; round++)
		r = copy_round(&c, rows, round, e);
	copy_end(&c);

	found = json_pack("{s:I, s:o, s:o}", "placed", (json_int_t)placed, "write",
			  rows[MODEL_WRITE], "read", rows[MODEL_READ]);
	if (!found && !r)
		r = err_nomem(e);
	if (!r)
		return found;
	json_decref(found);
	return NULL;
}

/* ---- the command ---- */

/* The numbers, from 0 to most, of a JSON array; *n: how many, 0 also when list is no array. NULL: a
 * member is not such a number, or out of memory. */
static unsigned *take_numbers(const json_t *list, json_int_t most, unsigned *n)
{
	unsigned *v = calloc(json_array_size(list) + 1, sizeof(*v));

	*n = (unsigned)json_array_size(list);
	for (unsigned i = 0; v && i < *n; i++) {
		const json_t *number = json_array_get(list, i);

		v[i] = (unsigned)json_integer_value(number);
		if (!json_is_integer(number) || json_integer_value(number) < 0 ||
		    json_integer_value(number) > most) {
			free(v);
			return NULL;
		}
	}

	return v;
}

static int take_plan(json_t *wanted, struct copy_plan *p)
{
	json_t *cpus, *nodes;
	int copies, rounds, bind;
	json_int_t bytes;

	if (json_unpack(wanted, "{s:i, s:o, s:o, s:I, s:i, s:i, s:b, s:s}", "target", &p->target,
			"cpus", &cpus, "nodes", &nodes, "bytes", &bytes, "copies", &copies,
			"rounds", &rounds, "bind", &bind, "progress", &p->progress) ||
	    bytes < 1 || copies < 1 || rounds < 1 || p->target < 0)
		return -EINVAL;
	p->bytes = (uint64_t)bytes;
	p->copies = (unsigned)copies;
	p->rounds = (unsigned)rounds;
	/* With one node binding is not needed. If it is possible, bind anyway, so that the pages
	 * are checked. */
	p->bind = bind || !place_may_have(p->target);
	p->cpus = take_numbers(cpus, IDS_MAX - 1, &p->threads);
	p->nodes = (int *)take_numbers(nodes, NODE_MOST, &p->n);
	return p->cpus && p->nodes && p->threads && p->n ? 0 : -EINVAL;
}

json_t *copy_command(char **words, struct err *e)
{
	struct copy_plan p = { 0 };
	json_t *wanted = json_loadf(stdin, 0, NULL), *found = NULL;
	struct err why = ERR_INIT;

	(void)words;
	if (!wanted || take_plan(wanted, &p))
		err_set(e, -EINVAL, "standard input: it does not describe a plan of copies");
	else
		found = copy_run(&p, &why);
	if (why.code)
		found = json_pack("{s:s}", "error", why.text);
	free(p.cpus);
	free(p.nodes);
	json_decref(wanted);
	return found;
}
