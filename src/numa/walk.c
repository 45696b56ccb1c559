// SPDX-License-Identifier: Apache-2.0
/* Reads all of a piece of memory, in two orders. */
#include "numa/walk.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/mman.h>

#define LINE_WORDS (WALK_LINE / sizeof(uint64_t))

struct walker {
	const struct walk *w;
	struct walk_result *result;
	struct err *e;
	uint64_t *memory; /* each line's first word is the index of the next in a random cycle */
	size_t lines;
	struct perf_counters counters[WALK_COUNTS];
};

/* ---- memory ---- */

/* One cycle through all lines (Sattolo): no prefetcher can guess the next. */
static void make_cycle(struct walker *k)
{
	uint64_t state = 0;

	for (size_t i = 0; i < k->lines; i++)
		k->memory[i * LINE_WORDS] = i;
	for (size_t i = k->lines - 1; i > 0; i--) {
		size_t j = (size_t)(random_next(&state) % i);
		uint64_t one = k->memory[i * LINE_WORDS];

		k->memory[i * LINE_WORDS] = k->memory[j * LINE_WORDS];
		k->memory[j * LINE_WORDS] = one;
	}
}

static int get_memory(struct walker *k)
{
	const struct walk *w = k->w;
	struct place_count c;
	int r;

	k->lines = w->bytes / WALK_LINE;
	k->memory = mmap(NULL, w->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			 0);
	if (k->memory == MAP_FAILED) {
		k->memory = NULL;
		return err_sys(k->e, -errno, "%" PRIu64 " bytes of memory", w->bytes);
	}
	r = place_memory(k->memory, w->bytes, w->node, true);
	if (r)
		return err_sys(k->e, r, "%" PRIu64 " bytes of node %d's memory", w->bytes,
			       w->node);
	make_cycle(k);
	r = place_count(k->memory, w->bytes, w->node, &c);
	if (r)
		return err_sys(k->e, r, "looking where %" PRIu64 " bytes are that were to be on "
			       "node %d", w->bytes, w->node);
	return c.elsewhere || c.untouched ?
	       err_set(k->e, -EIO, "of %" PRIu64 " bytes that were to be on node %d %zu are",
		       w->bytes, w->node, c.there) : 0;
}

/* ---- walks ---- */

/* The sum, so that no read can be left out. */
static uint64_t in_order(const struct walker *k)
{
	const volatile uint64_t *m = k->memory;
	uint64_t sum = 0;

	for (size_t i = 0; i < k->lines; i++)
		sum += m[i * LINE_WORDS];
	return sum;
}

static uint64_t by_chase(const struct walker *k)
{
	const volatile uint64_t *m = k->memory;
	uint64_t at = 0;

	for (size_t i = 0; i < k->lines; i++)
		at = m[at * LINE_WORDS];
	return at;
}

/* A walk must have been over all lines: their indices sum up, and a cycle ends where it began. */
static int check(const struct walker *k, uint64_t sum, uint64_t end)
{
	uint64_t n = k->lines;

	return sum == n / 2 * (n - 1 + n % 2) && !end ? 0 :
	       err_set(k->e, -EIO, "memory was not read as it was written");
}

static int run_once(struct walker *k, unsigned run)
{
	uint64_t begin, sum, end;
	int r = 0;

	for (unsigned i = 0; i < k->w->counts; i++)
		perf_start(&k->counters[i]);
	begin = now_ns();
	sum = in_order(k);
	k->result->prefetch_ns[run] = (double)(now_ns() - begin) / (double)k->lines;
	for (unsigned i = 0; !r && i < k->w->counts; i++)
		r = perf_stop(&k->counters[i], &k->result->count[i][run]);
	if (r)
		return err_sys(k->e, r, "a counter cannot be read");
	begin = now_ns();
	end = by_chase(k);
	k->result->load_ns[run] = (double)(now_ns() - begin) / (double)k->lines;
	return check(k, sum, end);
}

static int open_counters(struct walker *k)
{
	for (unsigned i = 0; i < k->w->counts; i++) {
		const struct walk_count *c = &k->w->count[i];
		int r = perf_open(c->events, c->n, &k->counters[i]);

		if (r)
			return err_sys(k->e, r, "counter %u", i);
	}
	return 0;
}

static int walk(struct walker *k)
{
	const struct walk *w = k->w;
	struct ids cpu = { 0 };
	unsigned i;
	int r;

	ids_add(&cpu, (unsigned)w->cpu);
	r = place_thread(&cpu);
	if (r)
		return err_sys(k->e, r, "a thread on CPU %d", w->cpu);
	r = get_memory(k);
	if (!r)
		r = open_counters(k);
	for (i = 0; !r && i < w->runs; i++)
		r = run_once(k, i);
	return r;
}

int walk_run(const struct walk *w, struct walk_result *r, struct err *e)
{
	struct walker k = { .w = w, .result = r, .e = e };
	int rc = walk(&k);

	r->lines = k.lines;
	for (unsigned i = 0; i < w->counts; i++)
		perf_close(&k.counters[i]);
	if (k.memory)
		munmap(k.memory, w->bytes);
	return rc;
}
