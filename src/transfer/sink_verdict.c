// SPDX-License-Identifier: Apache-2.0
/* Whether a file is wanted at all: the policy for what has its name, and the verdicts that
 * tell the source. */
#include "transfer/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* Verdicts are sent when there are this many bytes of them. */
#define VERDICTS_MAX 65536

/* ---- verdicts ---- */

int sink_flush_verdicts(struct sink *s)
{
	struct buf *b = NULL;
	int r = 0;

	pthread_mutex_lock(&s->lock);
	if (buf_len(s->verdicts)) {
		b = s->verdicts;
		s->verdicts = buf_new(BULK_FRAME_MAX);
		if (!s->verdicts) {
			s->verdicts = b;
			b = NULL;
			r = -ENOMEM;
		}
	}
	pthread_mutex_unlock(&s->lock);
	if (b)
		r = xfer_send(&s->x, BULK_VERDICTS, b);
	buf_free(b);
	return r;
}

int sink_wants(struct sink *s, struct kfile *f, uint8_t verdict)
{
	atomic_store(&f->asks, false);
	return sink_verdict(s, f->id, verdict);
}

int sink_verdict(struct sink *s, uint64_t id, uint8_t verdict)
{
	size_t len;
	int r;

	pthread_mutex_lock(&s->lock);
	r = bulk_verdict_put(s->verdicts, id, verdict);
	len = buf_len(s->verdicts);
	pthread_mutex_unlock(&s->lock);
	if (!r && len > VERDICTS_MAX)
		r = sink_flush_verdicts(s);
	return r;
}

/* ---- policy ---- */

/* What stands at the name now. */
static int look(struct kfile *f, struct stat *st)
{
	int dfd, r;

	if (!f->parent->dir)
		return f->parent->error ? f->parent->error : -ENOENT;
	dfd = dir_pin(f->parent->dir);
	if (dfd < 0)
		return dfd;
	r = fstatat(dfd, f->name, st, AT_SYMLINK_NOFOLLOW) ? -errno : 0;
	dir_unpin(f->parent->dir);
	return r;
}

static bool not_older(const struct stat *st, const struct meta *m)
{
	return st->st_mtim.tv_sec > m->mtime_s ||
	       (st->st_mtim.tv_sec == m->mtime_s &&
		(uint32_t)st->st_mtim.tv_nsec >= m->mtime_ns);
}

static bool same(const struct stat *st, const struct meta *m)
{
	return (m->type == FT_LINK ? S_ISLNK(st->st_mode) : S_ISREG(st->st_mode)) &&
	       (uint64_t)st->st_size == m->size && st->st_mtim.tv_sec == m->mtime_s &&
	       (uint32_t)st->st_mtim.tv_nsec == m->mtime_ns;
}

/* Has the file, which has f's bytes as far as can be seen, other attributes than are to be kept? */
static bool differs(const struct sink *s, const struct kfile *f, const struct stat *st)
{
	uint32_t flags = s->x.req->flags;
	mode_t has = st->st_mode & 07777;

	if (f->meta.type != FT_FILE)
		return false;
	return ((flags & BULK_F_OWNER) &&
		(st->st_uid != f->meta.uid || st->st_gid != f->meta.gid)) ||
	       ((flags & BULK_F_MODES) &&
		mode_to_give(f->meta.mode, flags & BULK_F_OWNER, has) != has);
}

/* An earlier attempt of the same command has committed f: the source says so, or a client that is
 * the sink knows. */
static bool was_committed(struct sink *s, struct kfile *f)
{
	char *path CLEANUP_FREE = NULL;

	if (!(s->x.req->flags & BULK_F_AGAIN))
		return false;
	if (f->flags & ENTRY_F_COMMITTED)
		return true;
	path = s->x.committed ? kfile_path(f) : NULL;
	return path && committed_has(s->x.committed, path);
}

bool sink_passes_over(struct sink *s, struct kfile *f)
{
	uint8_t policy = s->x.req->policy;
	struct stat st;

	if (s->discard || s->stream)
		return false;
	if (policy == POLICY_OVERWRITE && f->meta.type == FT_FILE && was_committed(s, f))
		policy = POLICY_SAME; /* a file that changed since its commit is sent again */
	if (policy == POLICY_OVERWRITE)
		return false;
	if (look(f, &st) || S_ISDIR(st.st_mode))
		return false;
	f->other = !same(&st, &f->meta);
	f->differs = !f->other && policy != POLICY_SKIP && differs(s, f, &st);
	switch (policy) {
	case POLICY_SAME:
		return !f->other;
	case POLICY_UPDATE:
		return not_older(&st, &f->meta);
	default:
		return true;
	}
}

bool sink_refuses(struct sink *s, struct kfile *f)
{
	char *path CLEANUP_FREE = NULL;
	char text[ERR_TEXT];
	struct stat st;

	if (!s->keep_old || s->discard || s->stream || look(f, &st))
		return false;
	path = kfile_path(f);
	snprintf(text, sizeof(text), "%s: exists, and may not be replaced",
		 printable(path ? path : f->name));
	kfile_failed(s, f, -EPERM, text);
	return true;
}

/* ---- attributes of what is passed over ---- */

static int correct(const struct sink *s, const struct kfile *f, int dfd)
{
	uint32_t flags = s->x.req->flags;
	int fd CLEANUP_CLOSE = openat(dfd, f->name, O_PATH | O_NOFOLLOW | O_CLOEXEC), r = 0;
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		return -errno;
	if (!same(&st, &f->meta))
		return 0; /* another has the name by now */
	if ((flags & BULK_F_OWNER) && (st.st_uid != f->meta.uid || st.st_gid != f->meta.gid))
		r = fd_chown(fd, f->meta.uid, f->meta.gid);
	if (!r && (flags & BULK_F_MODES))
		r = fd_chmod(fd, mode_to_give(f->meta.mode, flags & BULK_F_OWNER,
					      st.st_mode & 07777));
	return r;
}

int sink_correct(struct sink *s, struct kfile *f)
{
	int r, dfd = f->differs && !s->dry && !s->keep_old ? dir_pin(f->parent->dir) : -ENOENT;

	if (dfd < 0)
		return dfd == -ENOENT ? 0 : dfd;
	r = correct(s, f, dfd);
	dir_unpin(f->parent->dir);
	return r;
}
