// SPDX-License-Identifier: Apache-2.0
/* Turns ids that come in any order into ranges. */
#include "transfer/done.h"

#include "util/util.h"

#include <errno.h>
#include <stdlib.h>

int done_init(struct done *d)
{
	*d = (struct done){ 0 };
	return -pthread_mutex_init(&d->lock, NULL);
}

void done_destroy(struct done *d)
{
	free(d->ids);
	pthread_mutex_destroy(&d->lock);
}

int done_add(struct done *d, uint64_t id)
{
	LOCK_GUARD(guard, &d->lock);

	if (d->n == d->room) {
		size_t room = d->room ? 2 * d->room : 1024;
		uint64_t *ids = realloc(d->ids, room * sizeof(*ids));

		if (!ids)
			return -ENOMEM;
		d->ids = ids;
		d->room = room;
	}
	d->ids[d->n++] = id;
	return 0;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* What has been added so far; the caller frees it. */
static uint64_t *take(struct done *d, size_t *n)
{
	LOCK_GUARD(guard, &d->lock);
	uint64_t *ids = steal_ptr(&d->ids);

	*n = d->n;
	d->n = d->room = 0;
	return ids;
}

int done_flush(struct done *d, int (*fn)(void *arg, uint64_t first, uint64_t last), void *arg)
{
	size_t n;
	uint64_t *ids CLEANUP_FREE = take(d, &n);
	int r = 0;

	if (!n)
		return 0;
	qsort(ids, n, sizeof(*ids), by_value);
	for (size_t i = 0, j; i < n && !r; i = j) {
		for (j = i + 1; j < n && ids[j] <= ids[j - 1] + 1; j++)
			;
		r = fn(arg, ids[i], ids[j - 1]);
	}
	return r;
}
