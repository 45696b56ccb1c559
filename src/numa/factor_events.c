// SPDX-License-Identifier: Apache-2.0
/* Tries the events: the kernel's portable ones, and what sysfs describes. */
#include "numa/factor_events.h"

#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>

#define CACHE_MISS(cache) \
	((cache) | PERF_COUNT_HW_CACHE_OP_READ << 8 | PERF_COUNT_HW_CACHE_RESULT_MISS << 16)
#define CACHE_ACCESS(cache) \
	((cache) | PERF_COUNT_HW_CACHE_OP_READ << 8 | PERF_COUNT_HW_CACHE_RESULT_ACCESS << 16)

static const struct perf_event node_misses = {
	.name = "node-load-misses", .type = PERF_TYPE_HW_CACHE,
	.config = { CACHE_MISS(PERF_COUNT_HW_CACHE_NODE) },
};

static const struct perf_event others[WALK_COUNTED] = {
	[COUNT_LLC_MISSES] = { .name = "LLC-load-misses", .type = PERF_TYPE_HW_CACHE,
			       .config = { CACHE_MISS(PERF_COUNT_HW_CACHE_LL) } },
	[COUNT_NODE_LOADS] = { .name = "node-loads", .type = PERF_TYPE_HW_CACHE,
			       .config = { CACHE_ACCESS(PERF_COUNT_HW_CACHE_NODE) } },
	[COUNT_STALLS] = { .name = "stalled-cycles-backend", .type = PERF_TYPE_HARDWARE,
			   .config = { PERF_COUNT_HW_STALLED_CYCLES_BACKEND } },
};

static void miss(struct factor_events *f, const char *name, const char *why)
{
	struct factor_missing *m = &f->missing[f->missing_n];

	if (f->missing_n == FACTOR_MISSING_MAX)
		return;
	snprintf(m->name, sizeof(m->name), "%s", name);
	snprintf(m->why, sizeof(m->why), "%s", why);
	f->missing_n++;
}

/* All of them can be counted; else they are among the missing. */
static bool works(struct factor_events *f, const struct perf_event *events, unsigned n)
{
	struct perf_counters c;
	char why[PERF_WHY];
	int r = perf_open(events, n, &c);

	perf_close(&c);
	if (r)
		miss(f, events->name, perf_why(r, perf_paranoid(), why));
	return !r;
}

static int find_traffic(const struct topo *t, const char *snoop, struct factor_events *f,
			struct err *e)
{
	int n = snoop ? perf_parse(t, snoop, f->traffic, e) : perf_find_snoops(t, f->traffic, e);

	if (n < 0)
		return n;
	if (!n)
		miss(f, "snoops", "no PMU in sysfs has an event of that name");
	if (n && works(f, f->traffic, (unsigned)n)) {
		f->traffic_n = (unsigned)n;
	} else if (!snoop) {
		f->traffic[0] = node_misses;
		f->approximate = true;
		f->traffic_n = works(f, f->traffic, 1);
	}
	return 0;
}

int factor_events_find(const struct topo *t, const char *snoop, struct factor_events *f,
		       struct err *e)
{
	int r;

	memset(f, 0, sizeof(*f));
	r = find_traffic(t, snoop, f, e);
	for (int i = COUNT_LLC_MISSES; !r && i < (int)WALK_COUNTED; i++) {
		f->other[i] = others[i];
		f->have[i] = works(f, &f->other[i], 1);
	}
	return r;
}

char *factor_missing_text(char text[FACTOR_MISSING_TEXT], const struct factor_events *f)
{
	bool said[FACTOR_MISSING_MAX] = { false };
	size_t len = 0;

	text[0] = '\0';
	for (unsigned i = 0; i < f->missing_n; i++) {
		const char *why = f->missing[i].why, *between = len ? "; " : "";

		for (unsigned k = i; k < f->missing_n && !said[i]; k++) {
			if (strcmp(f->missing[k].why, why) || said[k])
				continue;
			if (len < FACTOR_MISSING_TEXT)
				len += (size_t)snprintf(text + len, FACTOR_MISSING_TEXT - len,
							"%s%s", between, f->missing[k].name);
			between = ", ";
			said[k] = k != i;
		}
		if (!said[i] && len < FACTOR_MISSING_TEXT)
			len += (size_t)snprintf(text + len, FACTOR_MISSING_TEXT - len, ": %s",
						why);
	}
	return text;
}
