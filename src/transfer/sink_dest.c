// SPDX-License-Identifier: Apache-2.0
/* Where the things that were named go: the destination rule, applied to what is there. */
#include "transfer/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char *base_path(struct sink *s)
{
	const char *p = s->item->path;
	char *out;

	if (p[0] == '/' || !s->cwd || !s->cwd[0])
		return strdup(p[0] ? p : ".");
	return asprintf(&out, "%s/%s", s->cwd, p) < 0 ? NULL : out;
}

static bool names_directory(const char *p)
{
	const char *last = strrchr(p, '/');

	last = last ? last + 1 : p;
	return !last[0] || !strcmp(last, ".") || !strcmp(last, "..");
}

static int look_at_dest(struct sink *s)
{
	struct stat st;

	s->dest_path = base_path(s);
	if (!s->dest_path)
		return -ENOMEM;
	s->dest.slash = names_directory(s->dest_path) || (s->x.req->flags & BULK_F_INTO);
	s->dest.several = s->x.req->flags & BULK_F_SEVERAL;
	s->dest.exists = !root_stat(s->root, s->dest_path, true, &st);
	s->dest.is_dir = s->dest.exists && S_ISDIR(st.st_mode);
	s->base_known = true;
	return 0;
}

struct kdir *kdir_new(struct sink *s, uint64_t id, struct kdir *parent)
{
	struct kdir *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->id = id;
	d->parent = parent;
	if (parent)
		atomic_fetch_add(&parent->refs, 1);
	atomic_init(&d->refs, 1);
	atomic_fetch_add(&s->ndirs, 1);
	return d;
}

/* The directory that holds path to stable storage. */
static int sync_above(struct sink *s, const char *path)
{
	char name[256];
	int above CLEANUP_CLOSE = root_open_parent(s->root, path, name);

	return above < 0 ? above : sync_dir(above);
}

static int make_one(struct sink *s, const char *path)
{
	int r = root_mkdir(s->root, path, 0777 & ~s->x.tuning->umask);

	return !r && s->sync ? sync_above(s, path) : r;
}

/* Make path and, when asked, the directories above it. */
static int make_path(struct sink *s, const char *path)
{
	int r = make_one(s, path);

	if (r == -EEXIST)
		return 0;
	if (r == -ENOENT && (s->x.req->flags & BULK_F_MKDIRS)) {
		char *up CLEANUP_FREE = strdup(path);
		size_t n;

		if (!up)
			return -ENOMEM;
		for (n = strlen(up); n && up[n - 1] == '/'; n--)
			;
		for (; n && up[n - 1] != '/'; n--)
			;
		if (!n)
			return r;
		up[n] = '\0';
		r = make_path(s, up);
		if (!r)
			r = make_one(s, path);
		return r == -EEXIST ? 0 : r;
	}
	return r;
}

/* The destination directory itself, made when it is missing. */
static int open_base(struct sink *s, bool make, struct err *e)
{
	int fd, r;

	if (s->base)
		return 0;
	s->base = kdir_new(s, 0, NULL);
	if (!s->base)
		return err_set(e, -ENOMEM, "out of memory");
	if (make && s->dry) {
		s->base->name = strdup(s->dest_path);
		return s->base->name ? 0 : err_set(e, -ENOMEM, "out of memory");
	}
	if (make) {
		r = make_path(s, s->dest_path);
		if (r)
			return err_set(e, r, "%s: cannot make the directory: %s",
				       printable(s->dest_path), root_why(r));
		s->dest.exists = s->dest.is_dir = true;
		s->base->made = true;
		s->base->meta.mode = 0777;
	}
	fd = root_open(s->root, s->dest_path, O_RDONLY | O_DIRECTORY, 0);
	if (fd == -EACCES) /* it may be one to write into only */
		fd = root_open(s->root, s->dest_path, O_PATH | O_DIRECTORY, 0);
	if (fd < 0)
		return err_set(e, fd, "%s: %s", printable(s->dest_path), root_why(fd));
	s->base->dir = dir_top(s->dirset, fd, s->dest_path);
	return s->base->dir ? 0 : err_set(e, -ENOMEM, "out of memory");
}

/* The directory that holds the destination, whose last component goes to name. */
static int open_above(struct sink *s, char name[256], struct kdir **above, struct err *e)
{
	char *dirname CLEANUP_FREE = strdup(s->dest_path);
	char *slash;
	int fd;

	if (!dirname)
		return err_set(e, -ENOMEM, "out of memory");
	fd = root_open_parent(s->root, s->dest_path, name);
	if (fd == -ENOENT && (s->x.req->flags & BULK_F_MKDIRS) && !s->dry) {
		slash = strrchr(dirname, '/');
		if (slash && slash != dirname) {
			*slash = '\0';
			fd = make_path(s, dirname);
			*slash = '/';
			if (!fd)
				fd = root_open_parent(s->root, s->dest_path, name);
		}
	}
	if (fd < 0)
		return err_set(e, fd, "%s: %s", printable(s->dest_path), root_why(fd));
	slash = strrchr(dirname, '/');
	if (slash)
		slash[slash == dirname] = '\0';
	*above = kdir_new(s, 0, NULL);
	if (*above)
		(*above)->dir = dir_top(s->dirset, fd, slash ? dirname : "");
	else
		close(fd);
	if (*above && (*above)->dir)
		return 0;
	if (*above)
		kdir_put(s, *above);
	return err_set(e, -ENOMEM, "out of memory");
}

/* Where entry en belongs: parent (a reference for the caller) and name. For a directory
 * whose contents go into the destination itself *parent is that, and *name NULL. */
int sink_place_top(struct sink *s, const struct bulk_entry *en, char namebuf[256],
		     struct kdir **parent, const char **name, struct err *e)
{
	enum dest_place place;
	bool dir = en->type == ENTRY_DIR, make;
	int r = s->base_known ? 0 : look_at_dest(s);

	if (r)
		return err_set(e, r, "destination: %s", root_why(r));
	if (part_in_path(s->dest_path))
		return err_set(e, -EINVAL, "%s: " PART_NAME_WHY, printable(s->dest_path));
	r = dest_resolve(&s->dest, s->dest_path, dir, en->flags & ENTRY_F_CONTENTS, &place,
			 &make, e);
	if (r)
		return r;
	if (place == DEST_AS) {
		*name = namebuf;
		return open_above(s, namebuf, parent, e);
	}
	r = open_base(s, make, e);
	if (r)
		return r;
	atomic_fetch_add(&s->base->refs, 1);
	*parent = s->base;
	*name = place == DEST_CONTENTS ? NULL : en->name;
	return 0;
}
