// SPDX-License-Identifier: Apache-2.0
/* The file of STOR and APPE: a part until it is whole, or in place behind REST and by APPE. */
#include "control/upload.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static int begin_in_place(struct upload *u, const struct upload_spec *spec)
{
	uint64_t from = spec->from;
	int flags = from == UPLOAD_APPEND ? O_CREAT | O_APPEND : 0;
	struct stat st;
	int rc = 0;

	u->fd = root_open(spec->root, spec->path,
			  O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | flags, spec->mode);
	if (u->fd < 0)
		return u->fd;
	if (fstat(u->fd, &st) < 0)
		rc = -errno;
	else if (!S_ISREG(st.st_mode))
		rc = -EINVAL;
	else if (from == UPLOAD_APPEND)
		from = (uint64_t)st.st_size;
	else if (from > (uint64_t)st.st_size)
		rc = -ERANGE; /* a hole that nobody asked for */
	else if (spec->keep_old && from < (uint64_t)st.st_size)
		rc = -EPERM;
	if (rc < 0)
		close(u->fd);
	u->at = from;
	return rc;
}

/* Something that is no plain file is not replaced by one; a link is. */
static int check_target(struct root *root, const char *path)
{
	struct stat st;
	int rc = root_stat(root, path, false, &st);

	if (rc == -ENOENT)
		return 0;
	if (rc < 0)
		return rc;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	return S_ISREG(st.st_mode) || S_ISLNK(st.st_mode) ? 0 : -EINVAL;
}

static int begin_part(struct upload *u, const struct upload_spec *spec)
{
	/* The mode is that of the file that is replaced, if there is one. */
	struct part_spec part = {
		.meta = { .type = FT_FILE, .mode = spec->mode },
		.sync = true,
		.keep_old = spec->keep_old,
	};
	struct err e = ERR_INIT;
	char name[256];
	int parent, rc = check_target(spec->root, spec->path);

	if (rc < 0)
		return rc;
	parent = root_open_parent(spec->root, spec->path, name);
	if (parent < 0)
		return parent;
	u->dir_fd = openat(parent, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (u->dir_fd < 0) {
		rc = -errno;
		close(parent);
		return rc;
	}
	root_rules_dirs(spec->root, spec->dirs);
	part.dir = dir_top(spec->dirs, parent, spec->path);
	part.name = name;
	if (part.dir)
		u->part = part_begin(&part, &e);
	dir_put(part.dir);
	if (!u->part) {
		close(u->dir_fd);
		return part.dir ? e.code : -ENOMEM;
	}
	u->fd = part_fd(u->part);
	return 0;
}

int upload_begin(struct upload *u, const struct upload_spec *spec)
{
	*u = (struct upload){ .dir_fd = -1, .fd = -1 };
	return spec->from ? begin_in_place(u, spec) : begin_part(u, spec);
}

int upload_write(struct upload *u, const void *p, size_t len)
{
	int rc = pwrite_full(u->fd, p, len, (off_t)u->at);

	if (rc == 0)
		u->at += len;
	return rc;
}

static int end_in_place(struct upload *u, int rc)
{
	if (fsync(u->fd) < 0 && rc == 0)
		rc = -errno;
	if (close(u->fd) < 0 && rc == 0)
		rc = -errno;
	return rc;
}

static int commit(struct upload *u)
{
	struct err e = ERR_INIT;
	int rc = part_set_size(u->part, u->at);

	if (rc == 0)
		rc = part_sync(u->part, &e);
	if (rc == 0)
		rc = part_commit(u->part, &e);
	if (rc < 0)
		return rc;
	return sync_dir(u->dir_fd);
}

int upload_end(struct upload *u, int rc)
{
	bool give_up = rc < 0;

	if (!u->part)
		return end_in_place(u, rc);
	if (!give_up) {
		rc = commit(u);
		give_up = rc < 0;
	}
	if (give_up)
		part_abandon(u->part, false);
	part_free(u->part);
	close(u->dir_fd);
	return rc;
}
