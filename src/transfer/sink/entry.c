// SPDX-License-Identifier: Apache-2.0
/* Entries: the files, directories and links of a frame, and the verdicts about files. */
#include "transfer/sink/sink.h"

#include <fcntl.h>
#include <sys/stat.h>

/* ---- files ---- */

struct sink_file *sink_file_get(struct sink *s, uint64_t id)
{
	LOCK_GUARD(guard, stripe_of(s, id));
	struct sink_file *f = s->entries.slots[id % s->entries.ahead];

	if (!f || f->id != id)
		return NULL;
	atomic_fetch_add_explicit(&f->refs, 1, memory_order_relaxed);
	return f;
}

void sink_file_drop_details(struct sink *s, struct sink_file *f)
{
	LOCK_GUARD(guard, stripe_of(s, f->id));

	spans_clear(&f->got, &s->entries.got_room);
	spans_clear(&f->had, &s->entries.had_room);
	free(steal_ptr(&f->ranges));
	free(steal_ptr(&f->xattrs));
	f->xattrs_len = 0;
	atomic_fetch_sub(&s->entries.details, f->details);
	f->details = 0;
}

void sink_file_put(struct sink *s, struct sink_file *f)
{
	if (!f || atomic_fetch_sub_explicit(&f->refs, 1, memory_order_acq_rel) != 1)
		return;
	if (f->part && !f->committed)
		part_abandon(f->part, f->journal && !f->drop);
	if (f->part)
		atomic_fetch_sub(&s->commits.parts, 1);
	part_free(f->part);
	sink_dir_put(s, f->parent);
	sink_file_drop_details(s, f);
	checks_clear(&f->came);
	checks_clear(&f->kept);
	free(f->sum);
	free(f);
}

char *sink_file_path(const struct sink_file *f)
{
	if (f->parent && f->parent->dir)
		return sink_dir_path(f->parent, f->name);
	return strdup(f->name);
}

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

static bool not_older(const struct stat *st, const struct meta *m)
{
	return st->st_mtim.tv_sec > m->mtime_s ||
	       (st->st_mtim.tv_sec == m->mtime_s &&
		(uint32_t)st->st_mtim.tv_nsec >= m->mtime_ns);
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

/* True: the existing file at f's name is left alone. */
static bool sink_passes_over(struct sink *s, struct sink_file *f)
{
	uint8_t policy = s->x.c->request.policy;
	struct stat st;

	if (s->discard || s->stream)
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
		return not_older(&st, &f->meta);
	case POLICY_CHECKSUM:
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
	sink_file_failed(s, f, -EPERM, "%s: exists, and may not be replaced",
			 printable(path ? path : f->name));
	return true;
}

/* ---- attributes of files that are passed over ---- */

/* Give a file with the source's content the source's attributes, as far as the request keeps them
 * and the account may change existing files. 1: they were corrected, or in a dry run would be; 0: all
 * are the same; or a negative errno. */
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
	if (flags & BULK_F_XATTRS)
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

/* ---- entries that arrive ---- */

/* Without root's rights a user owns its files, and may give them only to its own groups. */
static void limit_owner(struct meta *m)
{
	if (!geteuid())
		return;
	m->uid = geteuid();
	if (!group_member(m->gid))
		m->gid = getegid();
}

int sink_attributes_end(struct sink *s, int r, const struct err *e)
{
	bool refused = r == -EOPNOTSUPP || r == -EPERM || r == -EACCES;

	if (!r || !refused || !(s->x.c->request.flags & BULK_F_ARCHIVE))
		return r;
	if (!atomic_exchange(&s->attributes_omitted, true))
		log_warn("%s; attributes that cannot be set here are left out", e->text);
	return 0;
}

struct meta sink_entry_meta(const struct sink *s, const struct bulk_entry *en)
{
	struct meta m = { .mode = en->mode & 07777, .uid = en->uid, .gid = en->gid,
			  .size = en->size, .mtime_s = en->mtime_s, .mtime_ns = en->mtime_ns,
			  .atime_s = en->mtime_s, .atime_ns = en->mtime_ns };

	if (s->x.c->request.flags & BULK_F_ARCHIVE)
		limit_owner(&m);
	m.type = en->type == ENTRY_DIR ? FT_DIR : en->type == ENTRY_LINK ? FT_LINK : FT_FILE;
	return m;
}

int sink_keep_xattrs(struct sink *s, const struct bulk_entry *en, uint8_t **x, uint32_t *len)
{
	if (!en->xattrs_len || !(s->x.c->request.flags & BULK_F_XATTRS))
		return 0;
	*x = malloc(en->xattrs_len);
	if (!*x)
		return -ENOMEM;
	memcpy(*x, en->xattrs, en->xattrs_len);
	*len = en->xattrs_len;
	return 0;
}

/* Keep the ranges, to refuse bytes outside of them and to punch holes: an existing file (--inplace)
 * or a part that is taken over may have other bytes there. */
static int keep_ranges(struct sink *s, const struct bulk_entry *en, struct sink_file *f)
{
	bool part = (en->flags & ENTRY_F_ASK) && (s->x.c->request.flags & BULK_F_RESUME);

	if (!(en->flags & ENTRY_F_SPARSE))
		return 0;
	f->punch = part || (s->x.c->request.flags & BULK_F_INPLACE);
	f->ranges = malloc(en->nranges * 16ul + 1);
	if (!f->ranges)
		return -ENOMEM;
	if (en->nranges)
		memcpy(f->ranges, en->ranges, en->nranges * 16ul);
	f->nranges = en->nranges;
	return 0;
}

/* Takes over the reference to parent. */
static struct sink_file *sink_file_new(struct sink *s, const struct bulk_entry *en,
			       struct sink_dir *parent, const char *name)
{
	struct sink_file *f = calloc(1, sizeof(*f) + strlen(name) + 1);

	if (!f) {
		sink_dir_put(s, parent);
		return NULL;
	}

	f->id = en->id;
	f->parent = parent;
	f->name = strcpy((char *)(f + 1), name);
	f->meta = sink_entry_meta(s, en);
	f->flags = en->flags;
	f->counts = en->type == ENTRY_FILE;
	f->link_id = en->link_id;
	atomic_init(&f->asks, en->type == ENTRY_FILE && (en->flags & ENTRY_F_ASK));
	atomic_init(&f->refs, 1);
	if (sink_keep_xattrs(s, en, &f->xattrs, &f->xattrs_len) || keep_ranges(s, en, f)) {
		sink_file_put(s, f);
		return NULL;
	}
	return f;
}

/* Count f's ranges and attributes. -EPROTO: more than a source that respects its window can
 * send. */
static int count_details(struct sink *s, struct sink_file *f, struct err *e)
{
	f->details = f->xattrs_len + f->nranges * 16;
	if (atomic_fetch_add(&s->entries.details, f->details) + f->details <=
	    2ull * BULK_DETAILS_MAX)
		return 0;
	return err_set(e, -EPROTO, "the source sends more attributes and maps than it may");
}

static bool try_slot(struct sink *s, struct sink_file *f)
{
	LOCK_GUARD(guard, stripe_of(s, f->id));
	struct sink_file **slot = &s->entries.slots[f->id % s->entries.ahead];

	if (*slot)
		return false;
	*slot = f;
	atomic_fetch_add(&s->entries.live, 1);
	return true;
}

/* Put f into its slot, which takes over the caller's reference. If the slot is in use, the source
 * is too far ahead. But with --ack received the source may count entries as done that are still
 * being written: then wait; the writers free the slot without this thread. */
static int enter_slot(struct sink *s, struct sink_file *f)
{
	while (!try_slot(s, f)) {
		if (!s->early || xfer_failed(&s->x)) {
			sink_file_put(s, f);
			return -EPROTO;
		}
		usleep(1000);
	}
	return 0;
}

/* True: the part is opened before data may arrive, because it may be resumed, or another writer may
 * hold it for a while. */
static bool begins_first(struct sink *s, const struct sink_file *f)
{
	return (f->flags & ENTRY_F_ASK) && !s->discard && !s->stream &&
	       f->meta.size > s->x.agr.block && atomic_load(&f->left);
}

/* Something of another type is in the way of f. It will be removed, and then the source sends f in
 * another attempt. */
static int leave_for_later(struct sink *s, struct sink_file *f)
{
	bool asks = f->flags & ENTRY_F_ASK;

	f->later = true;
	atomic_fetch_add(&s->x.count.in_the_way, 1);
	sink_file_done(s, f, FILE_LEFT);
	return asks ? sink_verdict(s, f->id, VERDICT_LATER) : 0;
}

/* f's directory could not be created. */
static int parent_failed(struct sink *s, struct sink_file *f)
{
	if (!f->parent->blocked) {
		sink_file_failed(s, f, f->parent->error, "%s", ""); /* reported already */
		return 0;
	}
	return leave_for_later(s, f);
}

static bool directory_in_the_way(struct sink *s, const struct sink_file *f)
{
	struct stat st;

	return s->prune.on && !entry_look(f, &st) && S_ISDIR(st.st_mode) &&
	       prune_in_the_way(s, f->parent, f->name);
}

/* Answer an entry that asks; skip: the existing file is left alone. */
static int entry_decide(struct sink *s, struct sink_file *f, bool skip)
{
	if (skip) {
		int r = sink_correct(s, f);
		bool tells = r > 0 && (s->x.c->request.flags & BULK_F_SYNC);

		if (r < 0) {
			sink_file_write_failed(s, f, r);
			return 0;
		}
		sink_file_done(s, f, r ? FILE_CORRECTED : FILE_LEFT);
		return sink_verdict(s, f->id, tells ? VERDICT_CORRECT : VERDICT_SKIP);
	}
	if (sink_refuses(s, f))
		return 0;
	/* A commit thread may be here after a comparison of digests; must_compare() has then found
	 * a file. */
	if (!atomic_load(&f->digests) && directory_in_the_way(s, f) && !s->dry)
		return leave_for_later(s, f);
	if (s->dry) {
		int r = sink_wants(s, f, VERDICT_SEND);

		sink_file_done(s, f, FILE_COPIED);
		return r;
	}
	if (begins_first(s, f)) {
		f->journal = (s->x.c->request.flags & (BULK_F_RESUME | BULK_F_INPLACE)) ==
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

static int entry_answer(struct sink *s, struct sink_file *f)
{
	if (!must_compare(s, f))
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

static uint64_t data_bytes(const struct bulk_entry *en)
{
	uint64_t n = 0;

	if (!(en->flags & ENTRY_F_SPARSE))
		return en->size;
	for (uint32_t i = 0; i < en->nranges; i++)
		n += bulk_range_at(en->ranges, i).length;
	return n;
}

static int start_file(struct sink *s, struct sink_file *f, uint64_t data)
{
	bool known = !(f->flags & ENTRY_F_NOSIZE);

	if (!known)
		atomic_store(&s->entries.pipe, true);
	atomic_init(&f->left, known ? (int64_t)data : NOSIZE_TOKEN);
	atomic_init(&f->unreceived, known ? (int64_t)data : NOSIZE_TOKEN);
	atomic_fetch_add(&s->x.count.bytes_known, data);
	if (f->parent && f->parent->error) {
		return parent_failed(s, f);
	}
	if (f->flags & ENTRY_F_ASK)
		return entry_answer(s, f);
	if (known && !data)
		sink_job(s, f, JOB_EMPTY);
	return 0;
}

/* True: f asked and has its verdict, and no data will arrive: create it at once. */
static bool asked_and_empty(struct sink *s, struct sink_file *f, uint64_t data)
{
	return (f->flags & ENTRY_F_ASK) && !data && !(f->flags & ENTRY_F_NOSIZE) &&
	       !f->journal && !atomic_load(&f->over) && !s->dry;
}

static int file_entry(struct sink *s, const struct bulk_entry *en, struct err *e)
{
	struct sink_dir *parent = NULL;
	struct sink_file *f;
	char namebuf[256];
	const char *name = en->name;
	uint64_t data = data_bytes(en);
	int r = 0;

	if (!(en->flags & ENTRY_F_NOSIZE) && (data > en->size || en->size > INT64_MAX / 4))
		return -EBADMSG;
	if (s->dry && !(en->flags & ENTRY_F_ASK))
		return -EPROTO; /* only entries that ask are answered; others would be written */
	if (s->stream && (en->flags & ENTRY_F_SPARSE))
		return -EPROTO; /* its holes would be missing from the output */

	if (s->discard || s->stream) {
		parent = s->entries.base;
		atomic_fetch_add(&parent->refs, 1);
	} else {
		r = sink_resolve_name(s, en, namebuf, &parent, &name, e);
	}
	if (r)
		return r;

	f = sink_file_new(s, en, parent, name ? name : en->name);
	if (!f)
		return -ENOMEM;
	atomic_fetch_add(&f->refs, 1); /* this function's reference */

	r = enter_slot(s, f);
	if (!r)
		r = count_details(s, f, e);
	if (!r && (f->flags & ENTRY_F_LINKED))
		r = linkable_add(s, f);
	if (!r)
		r = start_file(s, f, data);
	if (!r && asked_and_empty(s, f, data))
		sink_job(s, f, JOB_EMPTY);
	sink_file_put(s, f);
	return r;
}

static void link_attributes(struct sink *s, int dfd, struct sink_file *f)
{
	struct timespec t[2] = {
		{ .tv_sec = f->meta.mtime_s, .tv_nsec = f->meta.mtime_ns },
		{ .tv_sec = f->meta.mtime_s, .tv_nsec = f->meta.mtime_ns },
	};

	uint32_t flags = s->x.c->request.flags & (BULK_F_OWNER | BULK_F_TIMES);
	int fd CLEANUP_CLOSE = flags ? openat(dfd, f->name, O_PATH | O_NOFOLLOW | O_CLOEXEC) : -1;
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) || !S_ISLNK(st.st_mode))
		return; /* another process has replaced it */

	/* Some filesystems store neither owner nor times of links. */
	r = flags & BULK_F_OWNER ? fd_chown(fd, f->meta.uid, f->meta.gid) : 0;
	if (r)
		log_debug("%s: owner not set: %s", printable(f->name), strerror(-r));
	r = flags & BULK_F_TIMES ? fd_utimens(fd, t) : 0;
	if (r)
		log_debug("%s: times not set: %s", printable(f->name), strerror(-r));
}

static void set_link(struct sink *s, struct sink_file *f, const char *target)
{
	int dfd = dir_pin(f->parent->dir), r = dfd;

	if (dfd >= 0) {
		r = link_put(-1, target, f->parent->dir, dfd, f->name,
			     s->x.c->keep_old);
		if (!r)
			link_attributes(s, dfd, f);
		dir_unpin(f->parent->dir);
	}
	if (!r)
		sink_file_named(s, f, &s->entries.named);
	else
		sink_file_failed(s, f, r, "%s: symbolic link: %s", printable(f->name),
				 put_link_why(r, s->x.c->keep_old));
}

/* True: whether a name is linked to the right file is known only after that file. */
static bool relinks(const struct sink *s, const struct bulk_entry *en)
{
	uint8_t policy = s->x.c->request.policy;

	return en->type == ENTRY_HARDLINK && (s->x.c->request.flags & BULK_F_SYNC) &&
	       (policy == POLICY_SAME || policy == POLICY_CHECKSUM);
}

/* A symbolic or a hard link. */
static int link_entry(struct sink *s, const struct bulk_entry *en, struct err *e)
{
	struct sink_dir *parent;
	struct sink_file *f;
	char namebuf[256];
	const char *name;
	int r;

	if (s->discard || s->stream)
		return sink_tell_done(s, en->id);
	r = sink_resolve_name(s, en, namebuf, &parent, &name, e);
	if (r)
		return r;

	f = sink_file_new(s, en, parent, name ? name : en->name);
	if (!f)
		return -ENOMEM;

	atomic_fetch_add(&f->refs, 1);
	r = enter_slot(s, f);
	if (!r && f->parent->error)
		r = parent_failed(s, f);
	else if (!r && (f->flags & ENTRY_F_ASK))
		r = entry_answer(s, f);
	else if (!r && (s->dry || (!relinks(s, en) && sink_passes_over(s, f))))
		sink_file_done(s, f, FILE_LEFT);
	else if (!r && directory_in_the_way(s, f))
		r = leave_for_later(s, f);
	else if (!r && en->type == ENTRY_HARDLINK)
		r = sink_file_hardlink(s, f);
	else if (!r)
		set_link(s, f, en->target);
	if (!r && en->type == ENTRY_HARDLINK && (en->flags & ENTRY_F_LAST))
		linkable_last(s, en->link_id);
	sink_file_put(s, f);
	return r;
}

/* The source has a name that it does not send. */
static int sink_on_name(struct sink *s, const struct bulk_entry *en, struct err *e)
{
	struct sink_dir *parent;
	const char *name;
	int r;

	if (!(s->x.c->request.flags & BULK_F_SYNC))
		return -EPROTO;
	if (s->discard || s->stream)
		return 0;
	r = sink_resolve_name(s, en, NULL, &parent, &name, e);
	if (!r)
		sink_dir_put(s, parent);
	return r;
}

static int on_entry(struct sink *s, const struct bulk_entry *en, struct err *e)
{
	if (en->type == ENTRY_DIR_END)
		return s->discard || s->stream ? 0 : sink_on_dir_end(s, en, e);
	if (en->type == ENTRY_NAME)
		return sink_on_name(s, en, e);
	if (en->id != atomic_load(&s->entries.highest) + 1)
		return -EPROTO;
	if (en->type != ENTRY_FILE && (en->flags & ENTRY_F_ASK) && !s->dry)
		return -EPROTO;
	atomic_fetch_add(&s->x.count.entries, 1);
	switch (en->type) {
	case ENTRY_DIR:
		return sink_on_dir(s, en, e);
	case ENTRY_FILE:
		return file_entry(s, en, e);
	case ENTRY_LINK:
	case ENTRY_HARDLINK:
		return link_entry(s, en, e);
	default:
		return -EPROTO;
	}
}

int sink_entries(struct sink *s, struct buf *p, struct err *e)
{
	struct bulk_entry en;
	int r = 0;

	while (!r && buf_len(p)) {
		r = bulk_entry_get(p, &en);
		if (!r)
			r = on_entry(s, &en, e);
		if (!r && en.id && en.type != ENTRY_DIR_END)
			atomic_store(&s->entries.highest, en.id);
	}
	sink_jobs(s, &s->entries.named);
	if (r)
		return r;
	sink_unpark(s);
	return sink_flush_verdicts(s);
}

int sink_sizes(struct sink *s, struct buf *p, bool kept)
{
	while (buf_len(p)) {
		uint64_t id, n;
		struct sink_file *f;
		int64_t minus;
		int r = bulk_pair_get(p, &id, &n);

		if (r)
			return r;

		f = sink_file_get(s, id);
		if (!f)
			continue;
		if (n > INT64_MAX / 4 || atomic_load(&f->asks) ||
		    (kept ? !atomic_exchange(&f->offered, false) :
			    !(f->flags & ENTRY_F_NOSIZE))) {
			sink_file_put(s, f);
			return -EPROTO;
		}
		if (!kept) {
			atomic_store(&f->final_size, n);
			atomic_fetch_add(&s->x.count.bytes_known, n);
		} else {
			atomic_fetch_add(&s->x.count.bytes_kept, n);
		}

		minus = kept ? (int64_t)n + KEPT_TOKEN : NOSIZE_TOKEN - (int64_t)n;
		/* If minus is larger than the missing bytes, left would reach 0 while a writer
		 * writes. */
		if (atomic_fetch_sub(&f->unreceived, minus) < minus) {
			sink_file_put(s, f);
			return -EPROTO;
		}
		if (atomic_fetch_sub(&f->left, minus) == minus)
			sink_file_complete(s, f);
		sink_file_put(s, f);
	}
	return 0;
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

/* ---- digests of copied files, for the report ---- */

/* A file that is done before its digest has come. */
struct sum_due {
	uint64_t id;
	struct file_report report; /* path and rel are owned */
	bool link;                 /* a hard link */
	UT_hash_handle hh;
};

static void sum_due_free(struct sum_due *d)
{
	free((char *)(uintptr_t)d->report.path);
	free((char *)(uintptr_t)d->report.rel);
	free(d);
}

void sink_sums_free(struct sink *s)
{
	struct sum_due *d, *next;

	HASH_ITER(hh, s->entries.sums_due, d, next) {
		HASH_DEL(s->entries.sums_due, d);
		sum_due_free(d);
	}
}

/* Only now another attempt may skip the file. */
static void report_file(struct sink *s, const struct file_report *r)
{
	if (s->x.committed && r->end == FILE_COPIED)
		committed_add(s->x.committed, r->path);
	XFER_EVENT(&s->x, file_done, r);
}

/* A hard link to a file that was left alone has no digest: the source did not read it. */
void sink_sums_end(struct sink *s)
{
	for (struct sum_due *d = s->entries.sums_due; d && !xfer_failed(&s->x); d = d->hh.next) {
		struct file_report r = d->report;

		if (d->link)
			r.rel = NULL;
		report_file(s, &r);
	}
	if (!xfer_failed(&s->x))
		sink_sums_free(s);
}

/* The part of path below the destination. */
static const char *below_dest(const struct sink *s, const char *path)
{
	const char *dest = s->entries.dest_path ? s->entries.dest_path : "";
	size_t n = strlen(dest);

	if (strncmp(path, dest, n) || !(path[n] == '/' || (n && dest[n - 1] == '/')))
		return strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	path += n;
	return path + strspn(path, "/");
}

static struct sum_due *sum_due_new(uint64_t id, const struct file_report *r)
{
	struct sum_due *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->id = id;
	d->report = *r;
	d->report.path = strdup(r->path);
	d->report.rel = strdup(r->rel);
	if (d->report.path && d->report.rel)
		return d;
	sum_due_free(d);
	return NULL;
}

void sink_report_done(struct sink *s, struct sink_file *f, const char *path, enum file_end end)
{
	struct file_report r = { .end = end, .path = path, .bytes = sink_file_size(f) };
	struct sum_due *due = NULL;

	if (!*s->x.c->request.sum || end != FILE_COPIED || f->meta.type != FT_FILE || s->dry) {
		report_file(s, &r);
		return;
	}
	r.rel = below_dest(s, path);
	r.mtime_s = f->meta.mtime_s;
	r.mtime_ns = f->meta.mtime_ns;
	pthread_mutex_lock(&s->entries.lock);
	r.sum = f->sum;
	if (!r.sum)
		due = sum_due_new(f->id, &r);
	if (due) {
		due->link = f->link_id;
		HASH_ADD(hh, s->entries.sums_due, id, sizeof(due->id), due);
		if (!due->hh.tbl) { /* out of memory */
			sum_due_free(due);
			due = NULL;
		}
	}
	pthread_mutex_unlock(&s->entries.lock);
	if (r.sum)
		report_file(s, &r);
	else if (!due)
		xfer_fail(&s->x, -ENOMEM, "out of memory");
}

static int sink_sum(struct sink *s, uint64_t id, const char *hex)
{
	struct sink_file *f = sink_file_get(s, id);
	struct sum_due *due;
	int r = 0;

	pthread_mutex_lock(&s->entries.lock);
	HASH_FIND(hh, s->entries.sums_due, &id, sizeof(id), due);
	if (due)
		HASH_DEL(s->entries.sums_due, due);
	if (!due && f && !f->sum) {
		f->sum = strdup(hex);
		r = f->sum ? 0 : -ENOMEM;
	}
	pthread_mutex_unlock(&s->entries.lock);
	sink_file_put(s, f);
	if (!due)
		return r;
	due->report.sum = hex;
	report_file(s, &due->report);
	sum_due_free(due);
	return 0;
}

int sink_sums(struct sink *s, struct buf *p)
{
	char hex[BULK_SUM_MAX + 1];
	uint64_t id;
	int r = s->x.client && *s->x.c->request.sum ? 0 : -EPROTO;

	while (!r && buf_len(p)) {
		r = bulk_sum_get(p, &id, hex);
		if (!r)
			r = sink_sum(s, id, hex);
	}
	return r;
}

int sink_source_failed(struct sink *s, struct buf *p)
{
	struct bulk_failure fail;
	struct sink_file *f;
	char *path CLEANUP_FREE = NULL;
	int r = bulk_failure_get(p, &fail);

	if (r)
		return r;
	f = fail.id ? sink_file_get(s, fail.id) : NULL;
	if (fail.id && !f)
		return 0;
	if (f) {
		path = sink_file_path(f);
		if (atomic_exchange(&f->over, true)) {
			sink_file_put(s, f);
			return 0;
		}
	}

	atomic_fetch_add(&s->x.count.failed, 1);
	xfer_file_failed_there(&s->x, path ? path : "", &fail);
	if (f) {
		/* The part of a file that has changed or cannot be read is useless. If only the
		 * ctime has changed, another attempt compares the file with its part. */
		f->drop = fail.code != -EAGAIN;
		sink_file_over(s, f, LINK_FAILED);
		sink_file_put(s, f);
	}
	return 0;
}
