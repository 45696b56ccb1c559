// SPDX-License-Identifier: Apache-2.0
/* Opens counters, starts and reads them. */
#include "numa/perf.h"

#include <errno.h>
#include <limits.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int perf_scale(const struct perf_reading *r, double *count)
{
	*count = 0;
	if (!r->running)
		return -ENODATA;
	/* Not in whole numbers: the product would not fit. */
	*count = r->running >= r->enabled ? (double)r->value :
		 (double)r->value * ((double)r->enabled / (double)r->running);
	return 0;
}

/* ---- open ---- */

static int open_one(const struct perf_event *ev, int cpu)
{
	struct perf_event_attr a = {
		.size = sizeof(a), .type = ev->type, .config = ev->config[0],
		.config1 = ev->config[1], .config2 = ev->config[2], .disabled = 1,
		/* What anybody may count. */
		.exclude_kernel = 1, .exclude_hv = 1,
		.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
	};
	pid_t pid = cpu < 0 ? 0 : -1;
	long fd = syscall(SYS_perf_event_open, &a, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd < 0 && errno == EINVAL) {
		/* A PMU that cannot tell who it counts for. */
		a.exclude_kernel = a.exclude_hv = 0;
		fd = syscall(SYS_perf_event_open, &a, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	}
	return fd < 0 ? -errno : (int)fd;
}

static int add(struct perf_counters *c, const struct perf_event *ev, int cpu)
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
			r = add(c, &events[i], -1);
		for (int cpu = -1; !r && (cpu = ids_next(cpus, (unsigned)(cpu + 1))) >= 0;)
			r = add(c, &events[i], cpu);
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

/* ---- count ---- */

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

		/* An event that is in error state reads as the end of a file. */
		r = got < 0 ? (int)got : got < (ssize_t)sizeof(reading) ? -ENODATA :
		    perf_scale(&reading, &one);
		if (!r)
			*count += one;
	}
	return r;
}
