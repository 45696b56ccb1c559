// SPDX-License-Identifier: Apache-2.0
/* Parts: files under way, which get their name when they are whole. */
#include "storage/part.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum kind { UNNAMED, NAMED, INPLACE };

/* Constant but for what says otherwise; j locks for itself. */
struct part {
	struct part_spec spec;  /* with a reference to dir and its own name */
	char own[PART_NAME_MAX];/* the part's name */
	enum kind kind;
	int fd;
	bool fresh;             /* what is behind fd was not there before */
	struct journal *j;      /* NULL: none */
	/* the committer's */
	uint64_t size;
	bool dressed;           /* has its size and attributes */
	bool over;              /* committed or abandoned */
};

static int say(struct part *p, int code, const char *what, struct err *e)
{
	return part_err(e, code, &p->spec, what);
}

/* ---- begin ---- */

static struct part *part_new(const struct part_spec *s)
{
	struct part *p = calloc(1, sizeof(*p));
	char *name = strdup(s->name);

	if (!p || !name) {
		free(p);
		free(name);
		return NULL;
	}
	p->spec = *s;
	p->spec.name = name;
	dir_ref(p->spec.dir);
	p->size = s->meta.size;
	p->fd = -1;
	part_name(p->own, name);
	return p;
}

/* The mode of the file that has the name; -1 when none has it. */
static int64_t mode_there(int dirfd, const char *name)
{
	struct stat st;
	bool there = fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;

	return there && S_ISREG(st.st_mode) ? (int64_t)(st.st_mode & 07777) : -1;
}

/* The part file, which may have been there before. */
static int open_beside(struct part *p, int dirfd, struct err *e)
{
	p->fresh = true;
	if (!p->spec.journal) {
		p->fd = part_open_unnamed(&p->spec, dirfd, 0600);
		p->kind = UNNAMED;
		if (p->fd != -EOPNOTSUPP)
			return p->fd < 0 ? say(p, p->fd, "cannot be written here", e) : 0;
	}
	p->fd = part_open_named(dirfd, p->own, 0600, &p->fresh);
	p->kind = NAMED;
	if (p->fd == -EBUSY)
		return say(p, p->fd, "another transfer is writing it", e);
	return p->fd < 0 ? say(p, p->fd, "cannot be written here", e) : 0;
}

static int open_inplace(struct part *p, int dirfd, struct err *e)
{
	const int flags = O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC |
			  (p->spec.journal ? O_RDWR : O_WRONLY);
	const char *name = p->spec.name;
	struct stat st;
	int r;

	p->kind = INPLACE;
	p->fd = openat(dirfd, name, flags | O_CREAT | O_EXCL, attrs_mode(&p->spec, -1) & 0777);
	p->fresh = p->fd >= 0;
	if (p->fd < 0 && errno == EEXIST && p->spec.keep_old)
		return part_name_err(e, -EEXIST, &p->spec);
	if (p->fd < 0 && errno == EEXIST)
		p->fd = openat(dirfd, name, flags);
	if (p->fd < 0 && errno == ELOOP)
		return say(p, -ELOOP, "a symbolic link is not written through in place", e);
	if (p->fd < 0)
		return say(p, -errno, "cannot be written in place", e);
	if (fstat(p->fd, &st) || !S_ISREG(st.st_mode))
		return say(p, -EINVAL, "only a regular file can be written in place", e);
	r = part_lock(p->fd);
	if (r == -EBUSY)
		return say(p, r, "another transfer is writing it", e);
	return r ? say(p, r, "cannot be locked", e) : 0;
}

/* Empty it when its content is not to be kept; its full length, so that what is never
 * written stays a hole. In place the old bytes stay until the commit. */
static int set_length(struct part *p, bool keep, struct err *e)
{
	if (p->kind == INPLACE)
		return 0;
	if (!keep && ftruncate(p->fd, 0))
		return say(p, -errno, "cannot be emptied", e);
	if (p->size && ftruncate(p->fd, (off_t)p->size))
		return say(p, -errno, "cannot be made as long as it is to be", e);
	return 0;
}

static int begin_at(struct part *p, int dirfd, struct err *e)
{
	int r = part_may_replace(&p->spec, dirfd);
	bool taken = false;

	if (r)
		return part_name_err(e, r, &p->spec);
	if (p->spec.inplace)
		r = open_inplace(p, dirfd, e);
	else
		r = open_beside(p, dirfd, e);
	if (r)
		return r;
	if (p->spec.journal) {
		p->j = journal_open(dirfd, &p->spec, p->fd, p->fresh, &taken, e);
		if (!p->j)
			return e && e->code ? e->code : -EIO;
	}
	/* a named part that was there without a journal is no use */
	return set_length(p, taken || p->fresh, e);
}

static int check_spec(const struct part_spec *s, struct err *e)
{
	if (s->meta.size > INT64_MAX)
		return part_err(e, -EFBIG, s, "cannot be written");
	return part_check_name(s, e);
}

/* Nothing of p stays, but bytes written in place over an older file. */
static void remove_traces(struct part *p, int dirfd)
{
	char journal[PART_NAME_MAX];

	journal_name(journal, p->spec.name);
	if (p->j)
		unlinkat(dirfd, journal, 0);
	if (p->kind == NAMED)
		unlinkat(dirfd, p->own, 0);
	else if (p->kind == INPLACE && p->fresh)
		unlinkat(dirfd, p->spec.name, 0);
}

struct part *part_begin(const struct part_spec *s, struct err *e)
{
	struct part *p;
	int dirfd, r = FAULT("open", 0);

	if (r) {
		part_err(e, r, s, "cannot be written here");
		return NULL;
	}
	if (check_spec(s, e))
		return NULL;
	p = part_new(s);
	if (!p) {
		part_err(e, -ENOMEM, s, "cannot be written");
		return NULL;
	}
	dirfd = dir_pin(s->dir);
	if (dirfd < 0) {
		r = say(p, dirfd, "its directory cannot be opened", e);
	} else {
		r = begin_at(p, dirfd, e);
		if (!r)
			dir_remove_old_parts(s->dir, dirfd);
		if (r && p->fd >= 0 && p->fresh && r != -EBUSY)
			remove_traces(p, dirfd);
		dir_unpin(s->dir);
	}
	if (r == 0)
		return p;
	p->over = true;
	part_free(p);
	return NULL;
}

int part_stamp(const struct part_spec *s, struct timespec *t)
{
	char part[PART_NAME_MAX];
	int dirfd = dir_pin(s->dir), r;
	struct stat st;

	if (dirfd < 0)
		return dirfd;
	part_name(part, s->name);
	r = fstatat(dirfd, s->inplace ? s->name : part, &st, AT_SYMLINK_NOFOLLOW) ? -errno : 0;
	dir_unpin(s->dir);
	if (!r)
		*t = st.st_mtim;
	return r;
}

int part_fd(const struct part *p)
{
	return p->fd;
}

int part_set_size(struct part *p, uint64_t size)
{
	if (p->j || size > INT64_MAX)
		return p->j ? -EINVAL : -EFBIG;
	p->size = size; /* dress() sets it */
	return 0;
}

/* ---- runs ---- */

int64_t part_runs(struct part *p, part_run_fn *fn, void *arg, struct err *e)
{
	int64_t n;

	if (!p->j)
		return 0;
	n = journal_runs(p->j, fn, arg);
	return n < 0 ? say(p, (int)n, "cannot read back what is down already", e) : n;
}

int part_note_run(struct part *p, const struct part_run *run)
{
	return p->j ? journal_note(p->j, run) : 0;
}

int part_checkpoint(struct part *p)
{
	return p->j ? journal_flush(p->j) : 0;
}

/* ---- the end ---- */

/* Size, owner, mode, times, in this order: each may undo the later ones. */
static int dress(struct part *p, int dirfd, struct err *e)
{
	int64_t old = -1;
	struct stat st;
	int r;

	if (p->dressed)
		return 0;
	if (fstat(p->fd, &st))
		return say(p, -errno, "cannot be looked at", e);
	if ((uint64_t)st.st_size != p->size && ftruncate(p->fd, (off_t)p->size))
		return say(p, -errno, "cannot get its length", e);
	if (p->kind == INPLACE)
		old = p->fresh ? -1 : (int64_t)(st.st_mode & 07777);
	else if (!p->spec.set_mode)
		old = mode_there(dirfd, p->spec.name);
	r = attrs_set(p->fd, &p->spec, attrs_mode(&p->spec, old), -1);
	if (r)
		return say(p, r, "cannot get its owner, mode and times", e);
	p->dressed = true;
	return 0;
}

static int sync_at(struct part *p, int dirfd, struct err *e)
{
	int r = dress(p, dirfd, e);

	if (r)
		return r;
	r = FAULT("sync", 0);
	if (r == 0 && fsync(p->fd))
		r = -errno;
	if (r == 0 && p->j)
		r = journal_data_error(p->j);
	return r ? say(p, r, "cannot be brought to stable storage", e) : 0;
}

/* Run fn with the directory pinned. */
static int with_dir(struct part *p, int (*fn)(struct part *p, int dirfd, struct err *e),
		    struct err *e)
{
	int r, dirfd = dir_pin(p->spec.dir);

	if (dirfd < 0)
		return say(p, dirfd, "its directory cannot be opened", e);
	r = fn(p, dirfd, e);
	dir_unpin(p->spec.dir);
	return r;
}

int part_sync(struct part *p, struct err *e)
{
	return with_dir(p, sync_at, e);
}

static int give_name(struct part *p, int dirfd)
{
	int r = FAULT("rename", 0);

	if (r)
		return r;
	switch (p->kind) {
	case UNNAMED:
		r = link_fd(p->fd, dirfd, p->spec.name);
		if (r == -EEXIST && !p->spec.keep_old)
			r = link_fd_over(p->fd, dirfd, p->own, p->spec.name);
		return r;
	case NAMED:
		return part_rename(&p->spec, dirfd, p->own);
	default:
		return 0;
	}
}

static int commit_at(struct part *p, int dirfd, struct err *e)
{
	char journal[PART_NAME_MAX];
	int r = FAULT("commit", 0);

	if (r == 0 && p->j)
		r = journal_data_error(p->j);
	if (r)
		return say(p, r, "cannot be completed", e);
	r = dress(p, dirfd, e);
	if (r)
		return r;
	r = give_name(p, dirfd);
	if (r)
		return part_name_err(e, r, &p->spec);
	p->over = true;
	if (p->j) {
		/* last: killed before, the next run takes the part over */
		journal_name(journal, p->spec.name);
		unlinkat(dirfd, journal, 0);
	}
	if (!p->j || p->kind != NAMED)
		part_clear(p->spec.dir, dirfd, p->spec.name);
	return 0;
}

int part_commit(struct part *p, struct err *e)
{
	return with_dir(p, commit_at, e);
}

bool part_resumable(struct part *p)
{
	return !p->over && p->j && (part_checkpoint(p) == 0 || !journal_data_error(p->j)) &&
	       !journal_empty(p->j);
}

void part_abandon(struct part *p, bool keep)
{
	bool kept = keep && part_resumable(p);
	int dirfd;

	if (p->over)
		return;
	p->over = true;
	if (kept)
		return;
	dirfd = dir_pin(p->spec.dir);
	if (dirfd < 0)
		return;
	remove_traces(p, dirfd);
	dir_unpin(p->spec.dir);
}

void part_free(struct part *p)
{
	if (!p)
		return;
	part_abandon(p, false);
	journal_close(p->j);
	if (p->fd >= 0)
		close(p->fd);
	dir_put(p->spec.dir);
	free((char *)(uintptr_t)p->spec.name);
	free(p);
}
