// SPDX-License-Identifier: Apache-2.0
/* Reads all cache lines of a region of memory, in address order and in random order, and counts
 * processor events during the first walk. */
#include "numa/measure.h"

#include <inttypes.h>
#include <limits.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define LINE_WORDS (WALK_LINE / sizeof(uint64_t))

struct walker {
	const struct walk *w;
	struct err *e;
	uint64_t *memory; /* a line's first word: index of the next line in a random cycle */
	size_t lines;
	struct perf_counters counters[WALK_COUNTS];
	json_t *prefetch_ns, *load_ns, *counts; /* the lists in the result */
};

/* Make a random cycle through all lines (Sattolo's algorithm), which no prefetcher can predict. */
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

static int walk_allocate(struct walker *k)
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
		return err_sys(k->e, r, "cannot tell where %" PRIu64 " bytes bound to "
			       "node %d are", w->bytes, w->node);
	return c.elsewhere || c.untouched ?
	       err_set(k->e, -EIO, "of %" PRIu64 " bytes bound to node %d only %zu are on it",
		       w->bytes, w->node, c.there) : 0;
}

/* Walk in address order, then along the cycle. */
static int walk_once(struct walker *k)
{
	const volatile uint64_t *m = k->memory; /* volatile: the compiler must not remove reads */
	uint64_t begin, ordered, chased, n = k->lines, sum = 0, at = 0;
	double count[WALK_COUNTS];

	for (unsigned i = 0; i < k->w->counts; i++)
		perf_start(&k->counters[i]);
	begin = now_ns();
	for (size_t i = 0; i < n; i++)
		sum += m[i * LINE_WORDS];
	ordered = now_ns() - begin;
	for (unsigned i = 0; i < k->w->counts; i++) {
		int r = perf_stop(&k->counters[i], &count[i]);

		if (r)
			return err_sys(k->e, r, "a counter cannot be read");
	}
	for (unsigned i = 0; i < k->w->counts; i++)
		json_array_append_new(json_array_get(k->counts, i), json_real(count[i]));

	begin = now_ns();
	for (size_t i = 0; i < n; i++)
		at = m[at * LINE_WORDS];
	chased = now_ns() - begin;
	json_array_append_new(k->prefetch_ns, json_real((double)ordered / (double)n));
	json_array_append_new(k->load_ns, json_real((double)chased / (double)n));

	/* If all lines were read, sum is that of all indices, and the cycle is back at line 0. */
	return sum == n / 2 * (n - 1 + n % 2) && !at ? 0 :
	       err_set(k->e, -EIO, "memory was not read as it was written");
}

static int walk_over(struct walker *k)
{
	const struct walk *w = k->w;
	struct ids cpu = { 0 };
	int r;

	ids_add(&cpu, (unsigned)w->cpu);
	r = place_thread(&cpu);
	if (r)
		return err_sys(k->e, r, "a thread on CPU %d", w->cpu);
	r = walk_allocate(k);
	for (unsigned i = 0; !r && i < w->counts; i++) {
		r = perf_open(w->count[i].events, w->count[i].n, &k->counters[i]);
		if (r)
			return err_sys(k->e, r, "counter %u", i);
		json_array_append_new(k->counts, json_array());
	}
	for (unsigned i = 0; !r && i < w->runs; i++)
		r = walk_once(k);
	return r;
}

json_t *walk_run(const struct walk *w, struct err *e)
{
	struct walker k = {
		.w = w, .e = e, .prefetch_ns = json_array(), .load_ns = json_array(),
		.counts = json_array(),
	};
	int r = walk_over(&k);
	json_t *found = json_pack("{s:I, s:o, s:o, s:o}", "lines", (json_int_t)k.lines,
				  "prefetch_ns", k.prefetch_ns, "load_ns", k.load_ns, "counts",
				  k.counts);

	for (unsigned i = 0; i < w->counts; i++)
		perf_close(&k.counters[i]);
	if (k.memory)
		munmap(k.memory, w->bytes);
	if (!r)
		return found;
	json_decref(found);
	return NULL;
}

/* ---- counters ---- */

int perf_scale(const struct perf_reading *r, double *count)
{
	*count = 0;
	if (!r->running)
		return -ENODATA;
	/* Use floating point: the product may not fit into 64 bits. */
	*count = r->running >= r->enabled ? (double)r->value :
		 (double)r->value * ((double)r->enabled / (double)r->running);
	return 0;
}

static int open_one(const struct perf_event *ev, int cpu)
{
	struct perf_event_attr a = {
		.size = sizeof(a), .type = ev->type, .config = ev->config[0],
		.config1 = ev->config[1], .config2 = ev->config[2], .disabled = 1,
		/* Without kernel and hypervisor no privilege is needed. */
		.exclude_kernel = 1, .exclude_hv = 1,
		.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
	};
	pid_t pid = cpu < 0 ? 0 : -1;
	long fd = syscall(SYS_perf_event_open, &a, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd < 0 && errno == EINVAL) {
		/* This PMU cannot distinguish user from kernel. */
		a.exclude_kernel = a.exclude_hv = 0;
		fd = syscall(SYS_perf_event_open, &a, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	}
	return fd < 0 ? -errno : (int)fd;
}

static int perf_add(struct perf_counters *c, const struct perf_event *ev, int cpu)
{
	int *fd = reallocarray(c->fd, c->n + 1, sizeof(*fd)), r;

	if (!fd)
		return -ENOMEM;
	c->fd = fd;
	r = open_one(ev, cpu);
	if (r < 0)
		return r;
	fd[c->n++] = r;
	return 0;
}

int perf_open(const struct perf_event *events, unsigned n, struct perf_counters *c)
{
	int r = 0;

	*c = (struct perf_counters){ 0 };
	for (unsigned i = 0; !r && i < n; i++) {
		const struct ids *cpus = &events[i].cpus;

		if (!ids_count(cpus))
			r = perf_add(c, &events[i], -1);
		for (int cpu = -1; !r && (cpu = ids_next(cpus, (unsigned)(cpu + 1))) >= 0;)
			r = perf_add(c, &events[i], cpu);
	}

	return r;
}

void perf_close(struct perf_counters *c)
{
	for (unsigned i = 0; i < c->n; i++)
		close(c->fd[i]);
	free(c->fd);
	*c = (struct perf_counters){ 0 };
}

void perf_start(const struct perf_counters *c)
{
	for (unsigned i = 0; i < c->n; i++) {
		ioctl(c->fd[i], PERF_EVENT_IOC_RESET, 0);
		ioctl(c->fd[i], PERF_EVENT_IOC_ENABLE, 0);
	}
}

int perf_stop(const struct perf_counters *c, double *count)
{
	struct perf_reading reading;
	int r = 0;

	*count = 0;
	for (unsigned i = 0; i < c->n; i++)
		ioctl(c->fd[i], PERF_EVENT_IOC_DISABLE, 0);
	for (unsigned i = 0; !r && i < c->n; i++) {
		ssize_t got = read_full(c->fd[i], &reading, sizeof(reading));
		double one = 0;

		/* For an event in the error state read(2) returns 0. */
		r = got < 0 ? (int)got : got < (ssize_t)sizeof(reading) ? -ENODATA :
		    perf_scale(&reading, &one);
		if (!r)
			*count += one;
	}

	return r;
}

/* ---- the walk command ---- */

#define BYTES_LEAST (1ll << 20)

static int walk_take_event(json_t *obj, struct perf_event *ev)
{
	const char *config[3], *cpus;
	json_int_t type;

	if (json_unpack(obj, "{s:I, s:[sss], s:s}", "type", &type, "config", &config[0], &config[1],
			&config[2], "cpus", &cpus))
		return -EINVAL;
	ev->type = (uint32_t)type;
	for (int i = 0; i < 3; i++)
		ev->config[i] = strtoull(config[i], NULL, 0);
	return ids_parse(cpus, &ev->cpus);
}

static int walk_take_count(const json_t *list, struct walk_count *c)
{
	int r = 0;

	c->n = (unsigned)json_array_size(list);
	c->events = calloc(c->n + 1, sizeof(*c->events));
	if (!c->events)
		return -ENOMEM;
	for (unsigned i = 0; !r && i < c->n; i++)
		r = walk_take_event(json_array_get(list, i), &c->events[i]);
	return r;
}

static int take_walk(json_t *obj, struct walk *w)
{
	json_int_t bytes;
	json_t *counts;
	int runs, r = 0;

	if (json_unpack(obj, "{s:i, s:i, s:I, s:i, s:o}", "cpu", &w->cpu, "node", &w->node, "bytes",
			&bytes, "runs", &runs, "counts", &counts) ||
	    bytes < BYTES_LEAST || runs < 0 || runs > (int)WALK_RUNS_MAX ||
	    json_array_size(counts) > WALK_COUNTS)
		return -EINVAL;
	w->bytes = (uint64_t)bytes;
	w->runs = (unsigned)runs;
	while (!r && w->counts < json_array_size(counts)) {
		r = walk_take_count(json_array_get(counts, w->counts), &w->count[w->counts]);
		w->counts++;
	}
	return r;
}

static json_t *try_counters(const struct walk *w)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < w->counts; i++) {
		struct perf_counters c;

		json_array_append_new(list, json_integer(perf_open(w->count[i].events,
								   w->count[i].n, &c)));
		perf_close(&c);
	}

	return json_pack("{s:o}", "opened", list);
}

json_t *walk_command(char **words, struct err *e)
{
	json_t *wanted = json_loadf(stdin, 0, NULL), *found = NULL;
	struct err why = ERR_INIT;
	struct walk w = { 0 };

	(void)words;
	if (!wanted || take_walk(wanted, &w))
		err_set(e, -EINVAL, "standard input: it does not describe a walk");
	else
		found = w.runs ? walk_run(&w, &why) : try_counters(&w);
	if (why.code)
		found = json_pack("{s:s}", "error", why.text);
	for (unsigned i = 0; i < w.counts; i++)
		free(w.count[i].events);
	json_decref(wanted);
	return found;
}
