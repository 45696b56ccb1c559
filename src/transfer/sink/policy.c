// SPDX-License-Identifier: Apache-2.0
/* Verdicts: may the source send an entry's data, or is the existing file left alone, perhaps with
 * corrected attributes? */
#include "transfer/sink/sink.h"

#include <fcntl.h>
#include <sys/stat.h>

/* ---- verdicts ---- */

/* Verdicts are sent once there are this many bytes of them. */
#define VERDICTS_MAX 65536

int sink_flush_verdicts(struct sink *s)
{
	struct buf *b = NULL;
	int r = 0;
	LOCK_GUARD(guard, &s->entries.verdict_order);

	pthread_mutex_lock(&s->entries.lock);
	if (buf_len(s->entries.verdicts)) {
		b = s->entries.verdicts;
		s->entries.verdicts = buf_new(BULK_FRAME_MAX);
		if (!s->entries.verdicts) {
			s->entries.verdicts = b;
			b = NULL;
			r = -ENOMEM;
		}
	}
	pthread_mutex_unlock(&s->entries.lock);

	if (b)
		r = xfer_send(&s->x, BULK_VERDICTS, b);
	buf_free(b);
	return r;
}

int sink_wants(struct sink *s, struct sink_file *f, uint8_t verdict)
{
	atomic_store(&f->asks, false);
	return sink_verdict(s, f->id, verdict);
}

int sink_verdict(struct sink *s, uint64_t id, uint8_t verdict)
{
	size_t len;
	int r;

	pthread_mutex_lock(&s->entries.lock);
	r = bulk_verdict_put(s->entries.verdicts, id, verdict);
	len = buf_len(s->entries.verdicts);
	pthread_mutex_unlock(&s->entries.lock);
	if (!r && len > VERDICTS_MAX)
		r = sink_flush_verdicts(s);
	return r;
}

/* ---- policy ---- */

/* Stat the file that has f's name now. */
static int entry_look(const struct sink_file *f, struct stat *st)
{
	if (!f->parent->dir)
		return f->parent->error ? f->parent->error : -ENOENT;
	return dir_stat(f->parent->dir, f->name, st);
}

static bool same_time(const struct stat *st, const struct meta *m)
{
	return st->st_mtim.tv_sec == m->mtime_s && (uint32_t)st->st_mtim.tv_nsec == m->mtime_ns;
}

static bool same_file(const struct stat *st, const struct meta *m)
{
	return (m->type == FT_LINK ? S_ISLNK(st->st_mode) : S_ISREG(st->st_mode)) &&
	       (uint64_t)st->st_size == m->size && same_time(st, m);
}

/* Does the existing file have other attributes than f, of those that the request preserves?
 * Extended attributes are not compared. */
static bool attributes_differ(const struct sink *s, const struct sink_file *f,
			      const struct stat *st)
{
	uint32_t flags = s->x.c->request.flags;
	mode_t has = st->st_mode & 07777;

	return ((flags & BULK_F_TIMES) && !same_time(st, &f->meta)) ||
	       ((flags & BULK_F_OWNER) &&
		(st->st_uid != f->meta.uid || st->st_gid != f->meta.gid)) ||
	       ((flags & BULK_F_MODES) &&
		mode_to_give(f->meta.mode, flags & BULK_F_OWNER, has) != has);
}

/* True: an earlier attempt of the same command has committed f. The source says so, or a client
 * that is the sink remembers it. */
static bool sink_was_committed(struct sink *s, struct sink_file *f)
{
	char *path CLEANUP_FREE = NULL;

	if (!(s->x.c->request.flags & BULK_F_AGAIN))
		return false;
	if (f->flags & ENTRY_F_COMMITTED)
		return true;
	path = s->x.committed ? sink_file_path(f) : NULL;
	return path && committed_has(s->x.committed, path);
}

bool sink_passes_over(struct sink *s, struct sink_file *f)
{
	uint8_t policy = s->x.c->request.policy;
	struct stat st;

	if (s->discard || s->stream)
		return false;
	/* Other policies compare content, and the file of a range has none under its name yet. */
	if (f->range.length && policy != POLICY_SKIP && policy != POLICY_UPDATE)
		return false;
	if (policy == POLICY_OVERWRITE && f->meta.type == FT_FILE && sink_was_committed(s, f))
		policy = POLICY_SAME; /* a file that changed since its commit is sent again */
	if (policy == POLICY_OVERWRITE)
		return false;
	if (entry_look(f, &st) || S_ISDIR(st.st_mode))
		return false;
	f->other = !same_file(&st, &f->meta);
	f->correct = !f->other && policy != POLICY_SKIP && f->meta.type == FT_FILE &&
		     ((s->x.c->request.flags & BULK_F_XATTRS) || attributes_differ(s, f, &st));
	switch (policy) {
	case POLICY_SAME:
		return !f->other;
	case POLICY_UPDATE:
		return stat_not_older(&st, &f->meta);
	case POLICY_CHECKSUM:
		if (f->link_id)
			return sink_link_stands(s, f);
		if (f->meta.type != FT_FILE)
			return !f->other;
		/* Files with data are compared by their digests, those of one hole by time. */
		if (f->counts && f->meta.size && !atomic_load(&f->left))
			return !f->other;
		if (f->meta.size || st.st_size || !S_ISREG(st.st_mode) ||
		    (f->flags & ENTRY_F_NOSIZE))
			return false;
		f->other = false;
		f->correct = true;
		f->ino = st.st_ino;
		return true;
	default:
		return true;
	}
}

/* Fail f if the account may not replace the existing file at f's name. True: f has failed. */
static bool sink_refuses(struct sink *s, struct sink_file *f)
{
	char *path CLEANUP_FREE = NULL;
	struct stat st;

	if (!s->x.c->keep_old || s->discard || s->stream || entry_look(f, &st))
		return false;
	path = sink_file_path(f);
	sink_file_failed(s, f, -EPERM, "%s: " PART_KEPT_WHY,
			 printable(path ? path : f->name));
	return true;
}

/* ---- attributes of files that are passed over ---- */

/* Give a file with the source's content the source's attributes, as far as the request keeps
 * them and the account may change existing files. 1: they were corrected, or in a dry run would
 * be; 0: all are the same; or a negative errno. */
static int sink_correct(struct sink *s, struct sink_file *f)
{
	const struct timespec t[2] = {
		{ .tv_sec = f->meta.mtime_s, .tv_nsec = f->meta.mtime_ns },
		{ .tv_sec = f->meta.mtime_s, .tv_nsec = f->meta.mtime_ns },
	};
	uint32_t flags = s->x.c->request.flags;
	int fd CLEANUP_CLOSE = -1, dfd, r = 0, xattrs = 0;
	struct err e = ERR_INIT;
	struct stat st;

	if (!f->correct || s->x.c->keep_old)
		return 0;
	dfd = dir_pin(f->parent->dir);
	if (dfd < 0)
		return dfd == -ENOENT ? 0 : dfd;

	fd = openat(dfd, f->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	r = fd < 0 || fstat(fd, &st) ? -errno : 0;
	dir_unpin(f->parent->dir);
	if (r || !(f->ino ? st.st_ino == f->ino : same_file(&st, &f->meta)))
		return r; /* not the same file: another one has the name now */
	if ((flags & BULK_F_XATTRS) && !f->link_id) /* the entry of a hard link has none */
		xattrs = xattrs_differ(fd, f->xattrs, f->xattrs_len);
	if (!xattrs && !attributes_differ(s, f, &st))
		return 0;
	if (s->dry)
		return 1;
	if ((flags & BULK_F_OWNER) && (st.st_uid != f->meta.uid || st.st_gid != f->meta.gid))
		r = fd_chown(fd, f->meta.uid, f->meta.gid);
	if (!r && (flags & BULK_F_MODES))
		r = fd_chmod(fd, mode_to_give(f->meta.mode, flags & BULK_F_OWNER,
					      st.st_mode & 07777));
	if (!r && xattrs)
		r = sink_attributes_end(s, xattrs_correct(fd, f->xattrs, f->xattrs_len, f->name,
							  &e), &e);
	if (!r && (flags & BULK_F_TIMES) && !same_time(&st, &f->meta))
		r = fd_utimens(fd, t);
	return r ? r : 1;
}

int sink_leave(struct sink *s, struct sink_file *f)
{
	int r = sink_correct(s, f);

	if (r < 0)
		sink_file_write_failed(s, f, r);
	else
		sink_file_done(s, f, r ? FILE_CORRECTED : FILE_LEFT);
	return r;
}

/* ---- decisions ---- */

/* True: the part is opened before data may arrive, because it may be resumed, or another writer may
 * hold it for a while. */
static bool begins_first(struct sink *s, const struct sink_file *f)
{
	return (f->flags & ENTRY_F_ASK) && !s->discard && !s->stream &&
	       (f->meta.size > s->x.agr.block || f->range.length) && atomic_load(&f->left);
}

int sink_leave_for_later(struct sink *s, struct sink_file *f)
{
	bool asks = f->flags & ENTRY_F_ASK;

	f->later = true;
	atomic_fetch_add(&s->x.count.in_the_way, 1);
	sink_file_done(s, f, FILE_LEFT);
	return asks ? sink_verdict(s, f->id, VERDICT_LATER) : 0;
}

int sink_parent_failed(struct sink *s, struct sink_file *f)
{
	if (!f->parent->blocked) {
		sink_file_failed(s, f, f->parent->error, "%s", ""); /* reported already */
		return 0;
	}
	return sink_leave_for_later(s, f);
}

bool sink_directory_in_the_way(struct sink *s, const struct sink_file *f)
{
	struct stat st;

	return s->prune.on && !entry_look(f, &st) && S_ISDIR(st.st_mode) &&
	       prune_in_the_way(s, f->parent, f->name);
}

/* Answer an entry that asks; skip: the existing file is left alone. */
static int entry_decide(struct sink *s, struct sink_file *f, bool skip)
{
	if (skip) {
		int r = sink_leave(s, f);
		bool tells = r > 0 && (s->x.c->request.flags & BULK_F_SYNC);

		if (r < 0)
			return 0;
		return sink_verdict(s, f->id, tells ? VERDICT_CORRECT : VERDICT_SKIP);
	}
	if (sink_refuses(s, f))
		return 0;
	/* A commit thread may be here after a comparison of digests; must_compare() has then found
	 * a file. */
	if (!atomic_load(&f->digests) && sink_directory_in_the_way(s, f) && !s->dry)
		return sink_leave_for_later(s, f);
	if (s->dry) {
		int r = sink_wants(s, f, VERDICT_SEND);

		sink_file_done(s, f, FILE_COPIED);
		return r;
	}
	if (begins_first(s, f)) {
		f->journal = f->range.length ||
			     (s->x.c->request.flags & (BULK_F_RESUME | BULK_F_INPLACE)) ==
				     BULK_F_RESUME;
		sink_job(s, f, JOB_BEGIN);
		return 0;
	}
	return sink_wants(s, f, VERDICT_SEND);
}

/* True: f's digest must be compared with that of the existing file, which has the same size. */
static bool must_compare(struct sink *s, struct sink_file *f)
{
	struct stat st;

	return s->x.c->request.policy == POLICY_CHECKSUM && atomic_load(&f->left) &&
	       !(f->flags & ENTRY_F_NOSIZE) && !s->discard && !s->stream &&
	       !entry_look(f, &st) && S_ISREG(st.st_mode) && (uint64_t)st.st_size == f->meta.size;
}

int sink_answer(struct sink *s, struct sink_file *f)
{
	if (f->range.length || !must_compare(s, f))
		return entry_decide(s, f, sink_passes_over(s, f));
	atomic_store(&f->digest_due, true);
	atomic_fetch_add(&s->entries.bytes_offered, f->meta.size);
	sink_job(s, f, JOB_DIGEST);
	return sink_verdict(s, f->id, VERDICT_DIGEST);
}

/* f has another one of its two digests. After the second one decide. */
static int entry_digested(struct sink *s, struct sink_file *f)
{
	if (atomic_fetch_add(&f->digests, 1) == 0 || atomic_load(&f->over))
		return 0;
	return entry_decide(s, f, f->has_digest &&
			    !memcmp(f->digest_here, f->digest_there, RUN_DIGEST_BYTES));
}

/* If the file cannot be read, the source sends its own. */
int sink_file_digest(struct sink *s, struct sink_file *f)
{
	int dfd = dir_pin(f->parent->dir);
	int fd CLEANUP_CLOSE = dfd < 0 ? -1 : openat(dfd, f->name, O_RDONLY | O_NOFOLLOW |
						     O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	if (dfd >= 0)
		dir_unpin(f->parent->dir);
	if (fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) &&
	    (uint64_t)st.st_size == f->meta.size) {
		f->ino = st.st_ino;
		f->correct = true;
		f->has_digest = !file_digest(fd, f->meta.size, &s->x.failed, f->digest_here);
	}
	return entry_digested(s, f);
}

int sink_digests(struct sink *s, struct buf *p)
{
	uint8_t digest[RUN_DIGEST_BYTES];
	struct sink_file *f;
	uint64_t id;
	int r = 0;

	while (!r && buf_len(p)) {
		r = bulk_digest_get(p, &id, digest);
		f = r ? NULL : sink_file_get(s, id);
		if (!f)
			continue;
		r = atomic_exchange(&f->digest_due, false) ? 0 : -EPROTO;
		if (!r) {
			memcpy(f->digest_there, digest, sizeof(digest));
			r = entry_digested(s, f);
		}
		sink_file_put(s, f);
	}
	return r ? r : sink_flush_verdicts(s);
}
