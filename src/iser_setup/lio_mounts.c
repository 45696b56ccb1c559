// SPDX-License-Identifier: Apache-2.0
/* Mounts of tmpfs, as /proc/self/mountinfo tells (proc(5)). */
#include "iser_setup/lio.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define MOUNT_POINT 4 /* fields before it, from its line's begin */

/* "\040" is a blank, as in every field of that file. */
static char *plain(const char *field)
{
	char *out = malloc(strlen(field) + 1), *to = out;
	unsigned byte;

	if (!out)
		return NULL;
	while (*field)
		if (*field == '\\' && sscanf(field + 1, "%3o", &byte) == 1 && byte < 256 &&
		    strspn(field + 1, "01234567") >= 3) {
			*to++ = (char)byte;
			field += 4;
		} else {
			*to++ = *field++;
		}
	*to = '\0';
	return out;
}

/* The next word of *line, which is cut there; NULL: there is no more. */
static char *word(char **line)
{
	char *w;

	do
		w = strsep(line, " \n");
	while (w && !*w);
	return w;
}

static int add_mount(struct lio *l, const char *path, const char *source, const char *options)
{
	struct tmpfs_mount *m = iser_plan_add(l->mounts, l->n_mounts);

	if (!m)
		return -ENOMEM;
	m->path = plain(path);
	m->source = plain(source);
	m->options = plain(options);
	if (!m->path || !m->source || !m->options)
		return -ENOMEM;
	m->nodes = tmpfs_nodes(m->options);
	return 0;
}

/* What is mounted at the same place later hides what was. */
static int cover(struct lio *l, const char *field)
{
	CLEANUP_FREE char *path = plain(field);

	if (!path)
		return -ENOMEM;
	for (size_t i = 0; i < l->n_mounts; i++)
		if (!strcmp(l->mounts[i].path, path))
			l->mounts[i].covered = true;
	return 0;
}

/* "36 35 0:30 / /mnt rw,noatime shared:1 - tmpfs source rw,mpol=bind:1" */
static int read_line(char *line, struct lio *l)
{
	const char *path = NULL, *type, *source, *options, *w;

	for (unsigned i = 0; i <= MOUNT_POINT; i++)
		path = word(&line);
	do
		w = word(&line);
	while (w && strcmp(w, "-"));
	type = word(&line);
	source = word(&line);
	options = word(&line);
	if (!path || !options)
		return 0;
	if (cover(l, path))
		return -ENOMEM;
	if (strcmp(type, "tmpfs"))
		return 0;
	return add_mount(l, path, source, options);
}

int lio_read_mounts(const char *proc, struct lio *l)
{
	CLEANUP_FREE char *path = cfs_path(proc, "self/mountinfo"), *line = NULL;
	size_t room = 0;
	int r = 0;
	FILE *f;

	if (!path)
		return -ENOMEM;
	f = fopen(path, "re");
	if (!f)
		return cfs_is_out(errno) ? -ENOMEM : 0;
	while (!r && getline(&line, &room, f) >= 0)
		r = read_line(line, l);
	fclose(f);
	return r;
}
