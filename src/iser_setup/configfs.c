// SPDX-License-Identifier: Apache-2.0
/* configfs, or what looks like it. */
#include "iser_setup/configfs.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEXT_MAX (1u << 20) /* bytes of a file; the kernel's have a page */
#define NUMBER_MAX 32

bool cfs_is_out(int error)
{
	return error == ENOMEM || error == EMFILE || error == ENFILE;
}

char *cfs_path(const char *dir, const char *name)
{
	char *path;

	return asprintf(&path, "%s/%s", dir, name) < 0 ? NULL : path;
}

/* ---- files ---- */

char *cfs_bytes(const char *dir, const char *name, size_t *len)
{
	CLEANUP_FREE char *path = cfs_path(dir, name);
	char *text = NULL;
	int r;

	*len = 0;
	if (!path)
		return NULL;
	r = read_file(path, TEXT_MAX, &text, len);
	if (!r)
		return text;
	*len = 0;
	return cfs_is_out(-r) ? NULL : strdup("");
}

char *cfs_text(const char *dir, const char *name)
{
	size_t len;
	char *text = cfs_bytes(dir, name, &len);

	if (!text)
		return NULL;
	len = strlen(text);
	while (len && text[len - 1] == '\n')
		text[--len] = '\0';
	return text;
}

unsigned long long cfs_number(const char *dir, const char *name)
{
	char path[PATH_MAX], text[NUMBER_MAX] = "";
	int fd CLEANUP_CLOSE = -1;

	if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path))
		return 0;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read_full(fd, text, sizeof(text) - 1) < 0)
		return 0;
	return strtoull(text, NULL, 10);
}

/* ---- directories ---- */

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int one_dir(const char *dir, const char *name, cfs_each *each, void *context)
{
	CLEANUP_FREE char *path = cfs_path(dir, name);
	struct stat st;

	if (!path)
		return -ENOMEM;
	if (*name == '.' || lstat(path, &st) || !S_ISDIR(st.st_mode))
		return 0;
	return each(context, path, name);
}

int cfs_dirs(const char *dir, cfs_each *each, void *context)
{
	struct dirent **list;
	int n = scandir(dir, &list, NULL, by_bytes), r = 0;

	if (n < 0)
		return cfs_is_out(errno) ? -ENOMEM : 0;
	for (int i = 0; i < n; i++) {
		r = r ? r : one_dir(dir, list[i]->d_name, each, context);
		free(list[i]);
	}
	free(list);
	return r;
}

/* ---- links ---- */

/* "": it is none that leads anywhere. */
static char *read_link(const char *path)
{
	struct stat st;
	char *to;
	ssize_t n;

	if (lstat(path, &st) || !S_ISLNK(st.st_mode) || stat(path, &st))
		return strdup("");
	to = malloc(PATH_MAX);
	if (!to)
		return NULL;
	n = readlink(path, to, PATH_MAX - 1);
	to[n < 0 ? 0 : n] = '\0';
	return to;
}

char *cfs_link(const char *dir)
{
	DIR *d = opendir(dir);
	char *to = strdup("");
	const struct dirent *de;

	while (d && to && !*to && (de = readdir(d))) {
		CLEANUP_FREE char *path = cfs_path(dir, de->d_name);

		free(to);
		to = path ? read_link(path) : NULL;
	}
	if (d)
		closedir(d);
	return to;
}

bool cfs_numbered(const char *name, const char *prefix, unsigned long most, unsigned *n)
{
	size_t len = strlen(prefix);
	unsigned long value;
	char *end;

	if (strncmp(name, prefix, len) || !isdigit((unsigned char)name[len]))
		return false;
	errno = 0;
	value = strtoul(name + len, &end, 10);
	if (errno || *end || value > most)
		return false;
	*n = (unsigned)value;
	return true;
}
