// SPDX-License-Identifier: Apache-2.0
/* A table of settings, and a loop over it. */
#include "iser_setup/tune.h"

#include "iser_setup/sessions.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static unsigned step(struct tune_step *s, const char *device, const char *file, const char *fmt,
		     unsigned value)
{
	*s = (struct tune_step){ 0 };
	snprintf(s->device, sizeof(s->device), "%s", device);
	snprintf(s->file, sizeof(s->file), "%s", file);
	if (fmt)
		snprintf(s->want, sizeof(s->want), "%s", fmt);
	else
		snprintf(s->want, sizeof(s->want), "%u", value);
	return 1;
}

unsigned tune_disk(const char *device, unsigned can_queue, struct tune_step steps[TUNE_STEPS_MOST])
{
	unsigned depth = can_queue && can_queue < TUNE_QUEUE_DEPTH ? can_queue : TUNE_QUEUE_DEPTH;
	unsigned n = 0;

	n += step(&steps[n], device, "device/queue_depth", NULL, depth);
	/* Another scheduler has another number of requests, so it comes first. */
	n += step(&steps[n], device, "queue/scheduler", "none", 0);
	if (can_queue)
		n += step(&steps[n], device, "queue/nr_requests", NULL, can_queue);
	n += step(&steps[n], device, "queue/read_ahead_kb", NULL, TUNE_READ_AHEAD_KB);
	n += step(&steps[n], device, "queue/rq_affinity", NULL, 2);
	return n;
}

unsigned tune_stripe(const char *device, unsigned n, struct tune_step steps[TUNE_STEPS_MOST])
{
	/* Files are read by the stripe's, not by its disks'. */
	return step(&steps[0], device, "queue/read_ahead_kb", NULL, TUNE_READ_AHEAD_KB * n);
}

void tune_chosen(char *text)
{
	char *begin = strchr(text, '['), *end = begin ? strchr(begin, ']') : NULL;

	if (!end)
		return;
	*end = '\0';
	memmove(text, begin + 1, (size_t)(end - begin));
}

static void look(const char *sysfs, const struct tune_step *s, char out[TUNE_VALUE_ROOM])
{
	char text[256];

	sysfs_text(sysfs, text, sizeof(text), "class/block/%s/%s", s->device, s->file);
	tune_chosen(text);
	snprintf(out, TUNE_VALUE_ROOM, "%.*s", TUNE_VALUE_ROOM - 1, text);
}

static int set(const char *sysfs, const struct tune_step *s)
{
	char path[PATH_MAX];
	CLEANUP_CLOSE int fd = -1;

	snprintf(path, sizeof(path), "%.2000s/class/block/%s/%s", sysfs_or(sysfs), s->device,
		 s->file);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	return fd < 0 ? -errno : write_full(fd, s->want, strlen(s->want));
}

void tune_do(const char *sysfs, struct tune_step *steps, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct tune_step *s = &steps[i];

		look(sysfs, s, s->before);
		if (strcmp(s->before, s->want))
			s->failed = set(sysfs, s);
		look(sysfs, s, s->after);
	}
}

unsigned tune_can_queue(const char *sysfs, unsigned host)
{
	char text[24];
	uint64_t v;

	sysfs_text(sysfs, text, sizeof(text), "class/scsi_host/host%u/can_queue", host);
	return parse_uint(text, 1, UINT32_MAX, &v) ? 0 : (unsigned)v;
}
