// SPDX-License-Identifier: Apache-2.0
/* A sysfs tree made from a description in tests/unit/sysfs: lines of "path = contents" ("|" ends a
 * line of the contents) and "path -> target of the link"; "#" begins a comment. */
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

/* Makes a new tree below tmp_dir from the description name. Returns its path, in static memory. */
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

/* Reads the machine of this description. */
static inline struct topo *sysfs_topo(const char *name)
{
	struct err e = ERR_INIT;
	struct topo *t = topo_read(sysfs_make(name), &e);

	if (!t)
		abort();
	return t;
}

#endif
