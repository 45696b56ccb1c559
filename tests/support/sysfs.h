// SPDX-License-Identifier: Apache-2.0
/* A sysfs made of a description, tests/unit/sysfs: lines of "path = contents" ("|" ends a
 * line of theirs) and "path -> where it links to"; "#" begins a comment. */
#ifndef RFTP_TESTS_SYSFS_H
#define RFTP_TESTS_SYSFS_H

#include "numa/numa.h"
#include "tests/support/tmptree.h"

static inline void sysfs_parent(char *path)
{
	char *slash = strrchr(path, '/');

	*slash = '\0';
	if (make_dirs(path, 0755))
		abort();
	*slash = '/';
}

static inline void sysfs_entry(const char *top, char *line)
{
	char *link = strstr(line, " -> "), *text = strstr(line, " =");
	char path[16384];
	FILE *f;

	if (!link && !text)
		abort();
	*(link ? link : text) = '\0';
	snprintf(path, sizeof(path), "%s/%s", top, line);
	sysfs_parent(path);
	if (link) {
		if (symlink(link + 4, path))
			abort();
		return;
	}
	text += text[2] == ' ' ? 3 : 2;
	for (char *p = text; (p = strchr(p, '|')); p++)
		*p = '\n';
	f = fopen(path, "w");
	if (!f || fprintf(f, "%s\n", text) < 0 || fclose(f))
		abort();
}

/* The one called name, anew, below tmp_dir; its path, static. */
static inline const char *sysfs_make(const char *name)
{
	static char top[8192];
	static unsigned turn;
	char line[4096];
	const char *src = getenv("top_srcdir");
	FILE *f;

	snprintf(top, sizeof(top), "%s/tests/unit/sysfs/%s", src ? src : ".", name);
	f = fopen(top, "r");
	if (!f)
		abort();
	snprintf(top, sizeof(top), "%s/sys%u", tmp_dir, turn++);
	if (make_dirs(top, 0755))
		abort();
	while (fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		if (*line && *line != '#')
			sysfs_entry(top, line);
	}
	fclose(f);
	return top;
}

/* The machine it describes. */
static inline struct topo *sysfs_topo(const char *name)
{
	struct err e = ERR_INIT;
	struct topo *t = topo_read(sysfs_make(name), &e);

	if (!t)
		abort();
	return t;
}

#endif
