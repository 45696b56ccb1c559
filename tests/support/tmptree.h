// SPDX-License-Identifier: Apache-2.0
/* A temporary directory for a test program, and small files in it. */
#ifndef RFTP_TESTS_TMPTREE_H
#define RFTP_TESTS_TMPTREE_H

#include "util/util.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* The directory's resolved path, set by tmp_setup(). */
static char tmp_dir[4096];

/* For cmocka's group set-up and tear-down. */
static inline int tmp_setup(void **state)
{
	const char *base = getenv("TMPDIR");
	char made[1024];
	char *real;

	(void)state;
	snprintf(made, sizeof(made), "%s/rftp-test-XXXXXX", base && *base ? base : "/tmp");
	if (!mkdtemp(made))
		return -1;
	real = realpath(made, NULL);
	if (!real)
		return -1;
	snprintf(tmp_dir, sizeof(tmp_dir), "%s", real);
	free(real);
	return chmod(tmp_dir, 0755);
}

/* Runs rm, because trees may be deeper than any path. */
static inline int tmp_teardown(void **state)
{
	pid_t pid = fork();
	int status;

	(void)state;
	if (pid == 0) {
		execlp("rm", "rm", "-rf", "--", tmp_dir, (char *)NULL);
		_exit(127);
	}
	return waitpid(pid, &status, 0) == pid && status == 0 ? 0 : -1;
}

/* Returns a path in the directory; the last sixteen stay valid. */
static inline const char *tmp_at(const char *name)
{
	static char paths[16][8192];
	static unsigned int turn;
	char *p = paths[turn++ % 16];

	snprintf(p, sizeof(paths[0]), "%s/%s", tmp_dir, name);
	return p;
}

/* Makes or replaces the file name; aborts on an error. */
static inline void tmp_put(const char *name, const char *text)
{
	int fd = open(tmp_at(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	if (fd < 0 || write_full(fd, text, strlen(text)) || close(fd))
		abort();
}

/* Returns the content of the file name, up to 255 bytes, in static memory; "(none)" if there is no
 * such file. */
static inline const char *tmp_get(const char *name)
{
	static char text[256];
	int fd = open(tmp_at(name), O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return "(none)";
	n = read_full(fd, text, sizeof(text) - 1);
	close(fd);
	text[n < 0 ? 0 : n] = '\0';
	return text;
}

static inline void tmp_mkdir(const char *name)
{
	if (mkdir(tmp_at(name), 0755))
		abort();
}

/* Returns the number of names in the directory that begin with prefix. */
static inline int tmp_count(const char *name, const char *prefix)
{
	DIR *d = opendir(tmp_at(name));
	const struct dirent *de;
	int n = 0;

	if (!d)
		return -1;
	while ((de = readdir(d)))
		if (strcmp(de->d_name, ".") != 0 && strcmp(de->d_name, "..") != 0)
			n += strncmp(de->d_name, prefix, strlen(prefix)) == 0;
	closedir(d);
	return n;
}

#ifdef RFTP_STORAGE_H
/* ---- for tests of parts: the directory d, for one test of cmocka ---- */

static struct dirs *tmp_dirs;
static struct dir *tmp_top;

static inline struct dir *tmp_open_top(void)
{
	int fd = open(tmp_at("d"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? NULL : dir_top(tmp_dirs, fd, tmp_at("d"));
}

static inline int tmp_parts_setup(void **state)
{
	(void)state;
	tmp_mkdir("d");
	tmp_dirs = dirs_new(8);
	tmp_top = tmp_open_top();
	return tmp_top ? 0 : -1;
}

static inline int tmp_parts_teardown(void **state)
{
	struct root *r = root_new(tmp_dir, false, NULL);
	int code = root_remove_tree(r, "d", NULL);

	(void)state;
	root_free(r);
	dir_put(tmp_top);
	dirs_free(tmp_dirs);
	return code;
}
#endif

#endif
