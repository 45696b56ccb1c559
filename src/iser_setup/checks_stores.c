// SPDX-License-Identifier: Apache-2.0
/* Is there what back stores are to stand on, and room for them? */
#include "iser_setup/checks.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define SIZE_TEXT 32

/* ---- devices ---- */

static void check_device(const struct checks *c, const struct iser_store *s)
{
	struct stat st;
	int fd;

	if (stat(s->path, &st)) {
		lines_add(c->problems, "back store %s: %s: %s; lsblk tells what there is", s->name,
			  printable(s->path), strerror(errno));
		return;
	}
	if (!S_ISBLK(st.st_mode)) {
		lines_add(c->problems, "back store %s: %s is no block device; is it to be of the "
			  "kind file?", s->name, printable(s->path));
		return;
	}
	/* With O_EXCL the kernel says whether it, or a partition of it, is somebody's. */
	fd = open(s->path, O_RDWR | O_EXCL | O_CLOEXEC);
	if (fd < 0 && errno == EBUSY)
		lines_add(c->problems, "back store %s: %s is in use: mounted, swap space, or part "
			  "of something else (lsblk tells)", s->name, printable(s->path));
	else if (fd < 0)
		lines_add(c->problems, "back store %s: %s: %s", s->name, printable(s->path),
			  strerror(errno));
	cleanup_close(&fd);
}

/* ---- files ---- */

/* The next directory above path that is there; malloc'd. */
static char *there_above(const char *path)
{
	char *at = strdup(path);

	while (at && access(at, F_OK) && strcmp(at, "/")) {
		char *up = strdup(dirname(at));

		free(at);
		at = up;
	}
	return at;
}

static void check_file(const struct checks *c, const struct iser_store *s)
{
	CLEANUP_FREE char *above = there_above(s->path);
	struct stat st = { 0 };
	struct statvfs fs;
	uint64_t has, room;
	char size[SIZE_TEXT], left[SIZE_TEXT];

	if (!lstat(s->path, &st) && !S_ISREG(st.st_mode)) {
		lines_add(c->problems, "back store %s: %s is no regular file", s->name,
			  printable(s->path));
		return;
	}
	if (!above || statvfs(above, &fs))
		return;
	has = (uint64_t)st.st_size;
	room = (uint64_t)fs.f_bavail * fs.f_frsize;
	if (fs.f_flag & ST_RDONLY)
		lines_add(c->problems, "back store %s: the filesystem of %s is read-only", s->name,
			  printable(above));
	else if (s->size > has && s->size - has > room)
		lines_add(c->problems, "back store %s: it needs %s in the filesystem of %s, which "
			  "has %s left", s->name, format_size(size, sizeof(size), s->size - has),
			  printable(above), format_size(left, sizeof(left), room));
}

/* Another store of LIO that serves the same file. */
static void check_shared(const struct checks *c, const struct iser_store *s, const struct lio *now)
{
	for (size_t i = 0; i < now->n_stores; i++)
		if (now->stores[i].path && *now->stores[i].path &&
		    !strcmp(now->stores[i].path, s->path) && strcmp(now->stores[i].name, s->name))
			lines_add(c->problems, "back store %s: LIO serves %s already, as the back "
				  "store %s; use another, or take that one out", s->name,
				  printable(s->path), printable(now->stores[i].name));
}

/* ---- mount points ---- */

static bool is_empty(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *e;
	unsigned n = 0;

	if (!d)
		return false;
	while ((e = readdir(d)))
		n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
	closedir(d);
	return !n;
}

static bool is_mounted(const char *path, const struct stat *st)
{
	CLEANUP_FREE char *up = NULL;
	struct stat above;

	if (asprintf(&up, "%s/..", path) < 0) {
		up = NULL;
		return false;
	}
	return !stat(up, &above) && above.st_dev != st->st_dev;
}

static void check_mount_point(const struct checks *c, const struct iser_store *s)
{
	struct stat st;

	if (lstat(s->path, &st))
		return;
	if (!S_ISDIR(st.st_mode))
		lines_add(c->problems, "back store %s: %s, where its tmpfs is to be mounted, is no "
			  "directory", s->name, printable(s->path));
	else if (is_mounted(s->path, &st))
		lines_add(c->problems, "back store %s: something else is mounted at %s; umount "
			  "it, or use another path", s->name, printable(s->path));
	else if (!is_empty(s->path))
		lines_add(c->problems, "back store %s: %s, where its tmpfs is to be mounted, has "
			  "something in it; use another path", s->name, printable(s->path));
}

/* ---- all ---- */

static void check_store(const struct checks *c, const struct iser_store *s, const struct lio *now)
{
	const struct lio_store *there = lio_store(now, iser_store_plugin(s), s->name);

	if (s->path && s->kind != ISER_TMPFS)
		check_shared(c, s, now);
	if (s->kind == ISER_FILE)
		check_file(c, s);
	else if (s->kind == ISER_TMPFS && !lio_mount(now, s->path))
		check_mount_point(c, s);
	else if (s->kind == ISER_BLOCK && !(there && !strcmp(there->path, s->path)))
		check_device(c, s);
}

void check_stores(const struct checks *c, const struct lio *now)
{
	for (size_t i = 0; i < c->plan->n_targets; i++)
		for (size_t k = 0; k < c->plan->targets[i].n_stores; k++)
			check_store(c, &c->plan->targets[i].stores[k], now);
}

/* ---- memory ---- */

/* Bytes that steps take, less those that they give back: of node alone, or of all of them. No more
 * than can be counted. */
static int64_t taken(const struct iser_steps *s, int node, bool strictly)
{
	int64_t sum = 0;

	for (size_t i = 0; i < s->n; i++)
		if (s->v[i].memory && (node == NODE_UNKNOWN || s->v[i].node == node) &&
		    (!strictly || s->v[i].strictly || s->v[i].memory < 0))
			sum = sum > 0 && s->v[i].memory > INT64_MAX - sum ? INT64_MAX :
			      sum + s->v[i].memory;
	return sum;
}

static bool takes(const struct iser_steps *s, int node, bool strictly)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->v[i].memory > 0 && (node == NODE_UNKNOWN || s->v[i].node == node) &&
		    (!strictly || s->v[i].strictly))
			return true;
	return false;
}

/* Is there room? */
static bool compare(const struct checks *c, int64_t wants, uint64_t room, const char *where)
{
	char size[SIZE_TEXT], left[SIZE_TEXT];

	if (wants <= 0 || (uint64_t)wants <= room)
		return true;
	lines_add(c->problems, "the back stores need %s more of the memory of %s, which can give "
		  "%s; make them smaller, or end what else uses it",
		  format_size(size, sizeof(size), (uint64_t)wants), where,
		  format_size(left, sizeof(left), room));
	return false;
}

void check_memory(const struct checks *c, const struct iser_steps *s)
{
	struct node_memory m;
	uint64_t all = 0;
	bool known = true, room = true;
	char where[32];

	for (unsigned i = 0; i < topo_nodes(c->t); i++) {
		int node = topo_node(c->t, i)->id;

		if (topo_memory(c->t, node, &m)) {
			known = false;
			continue;
		}
		all += m.room;
		snprintf(where, sizeof(where), "node %d", node);
		if (takes(s, node, true))
			room &= compare(c, taken(s, node, true), m.room, where);
	}
	if (room && known && takes(s, NODE_UNKNOWN, false))
		compare(c, taken(s, NODE_UNKNOWN, false), all, "this host");
	/* Of such a node nothing could be had. */
	for (size_t i = 0; i < s->n; i++)
		if (s->v[i].memory > 0 && s->v[i].node != NODE_UNKNOWN &&
		    !topo_find(c->t, s->v[i].node)) {
			lines_add(c->problems, "%s: there is no node %d here", s->v[i].text,
				  s->v[i].node);
		}
}
