// SPDX-License-Identifier: Apache-2.0
/* What becomes of entries: directories are made (sink_dir.c) and links set at once, in the
 * order of the walk; files wait for their bytes. */
#include "transfer/sink_entry.h"
#include "transfer/sink_write.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* As sink_place_top, for any entry. -EPROTO: its parent is not open. Other errors mean that
 * the destination cannot be used: the transfer ends. */
int sink_place(struct sink *s, const struct bulk_entry *en, char namebuf[256],
	       struct kdir **parent, const char **name, struct err *e)
{
	if (!en->parent)
		return sink_place_top(s, en, namebuf, parent, name, e);
	*parent = sink_find_dir(s, en->parent);
	if (!*parent)
		return -EPROTO;
	atomic_fetch_add(&(*parent)->refs, 1);
	*name = en->name;
	return 0;
}

struct meta sink_entry_meta(const struct bulk_entry *en)
{
	struct meta m = { .mode = en->mode & 07777, .uid = en->uid, .gid = en->gid,
			  .size = en->size, .mtime_s = en->mtime_s, .mtime_ns = en->mtime_ns,
			  .atime_s = en->mtime_s, .atime_ns = en->mtime_ns };

	m.type = en->type == ENTRY_DIR ? FT_DIR : en->type == ENTRY_LINK ? FT_LINK : FT_FILE;
	return m;
}

int sink_keep_xattrs(struct sink *s, const struct bulk_entry *en, uint8_t **x, uint32_t *len)
{
	if (!en->xattrs_len || !(s->x.req->flags & BULK_F_XATTRS))
		return 0;
	*x = malloc(en->xattrs_len);
	if (!*x)
		return -ENOMEM;
	memcpy(*x, en->xattrs, en->xattrs_len);
	*len = en->xattrs_len;
	return 0;
}

/* Nothing may come outside of them. And what is written into may hold bytes where there are to
 * be holes: in place those of the file that was there, in a part that is taken over those of a
 * file that may have been another one. */
static int keep_ranges(struct sink *s, const struct bulk_entry *en, struct kfile *f)
{
	bool part = (en->flags & ENTRY_F_ASK) && (s->x.req->flags & BULK_F_RESUME);

	if (!(en->flags & ENTRY_F_SPARSE))
		return 0;
	f->punch = part || (s->x.req->flags & BULK_F_INPLACE);
	f->ranges = malloc(en->nranges * 16ul + 1);
	if (!f->ranges)
		return -ENOMEM;
	if (en->nranges)
		memcpy(f->ranges, en->ranges, en->nranges * 16ul);
	f->nranges = en->nranges;
	return 0;
}

/* Takes parent's reference over. */
static struct kfile *kfile_new(struct sink *s, const struct bulk_entry *en,
			       struct kdir *parent, const char *name)
{
	struct kfile *f = calloc(1, sizeof(*f) + strlen(name) + 1);

	if (!f) {
		kdir_put(s, parent);
		return NULL;
	}
	f->id = en->id;
	f->parent = parent;
	f->name = strcpy((char *)(f + 1), name);
	f->meta = sink_entry_meta(en);
	f->flags = en->flags;
	f->counts = en->type == ENTRY_FILE;
	f->link_id = en->link_id;
	atomic_init(&f->asks, en->type == ENTRY_FILE && (en->flags & ENTRY_F_ASK));
	atomic_init(&f->refs, 1);
	if (sink_keep_xattrs(s, en, &f->xattrs, &f->xattrs_len) || keep_ranges(s, en, f)) {
		kfile_put(s, f);
		return NULL;
	}
	return f;
}

/* More than a source that keeps to its window can have under way. */
static int count_details(struct sink *s, struct kfile *f, struct err *e)
{
	f->details = f->xattrs_len + f->nranges * 16;
	if (atomic_fetch_add(&s->details, f->details) + f->details <= 2ull * BULK_DETAILS_MAX)
		return 0;
	return err_set(e, -EPROTO, "the source sends more attributes and maps than it may");
}

static bool try_slot(struct sink *s, struct kfile *f)
{
	LOCK_GUARD(guard, stripe_of(s, f->id));
	struct kfile **slot = &s->slots[f->id % s->ahead];

	if (*slot)
		return false;
	*slot = f;
	atomic_fetch_add(&s->live, 1);
	return true;
}

/* The slot takes over the caller's reference. Otherwise the source has run too far
 * ahead; but under --ack received it was told of entries that writers are still busy
 * with, and these will be through without us. */
static int enter_slot(struct sink *s, struct kfile *f)
{
	while (!try_slot(s, f)) {
		if (!s->early || xfer_failed(&s->x)) {
			kfile_put(s, f);
			return -EPROTO;
		}
		usleep(1000);
	}
	return 0;
}

/* A file that is begun before anything of it may come: it may be resumed, or held by
 * another writer for a while. */
static bool begins_first(struct sink *s, const struct kfile *f)
{
	return (f->flags & ENTRY_F_ASK) && !s->discard && !s->stream &&
	       f->meta.size > s->x.agr.block && atomic_load(&f->left);
}

static bool resumable(struct sink *s)
{
	return (s->x.req->flags & (BULK_F_RESUME | BULK_F_INPLACE)) == BULK_F_RESUME;
}

/* The answer to an entry that asks. */
static int answer(struct sink *s, struct kfile *f)
{
	if (sink_passes_over(s, f)) {
		int r = sink_correct(s, f);

		if (r) {
			kfile_write_failed(s, f, r);
			return 0;
		}
		kfile_done(s, f, true);
		return sink_verdict(s, f->id, VERDICT_SKIP);
	}
	if (sink_refuses(s, f))
		return 0;
	if (s->dry) {
		int r = sink_wants(s, f, VERDICT_SEND);

		kfile_done(s, f, false);
		return r;
	}
	if (begins_first(s, f)) {
		f->journal = resumable(s);
		sink_job(s, f, JOB_BEGIN);
		return 0;
	}
	return sink_wants(s, f, VERDICT_SEND);
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

/* That its directory could not be made has been said. */
static void parent_missing(struct sink *s, struct kfile *f)
{
	kfile_failed(s, f, f->parent->error, "");
}

static int start_file(struct sink *s, struct kfile *f, uint64_t data)
{
	bool known = !(f->flags & ENTRY_F_NOSIZE);

	if (!known)
		atomic_store(&s->pipe, true);
	atomic_init(&f->left, known ? (int64_t)data : NOSIZE_TOKEN);
	atomic_init(&f->unreceived, known ? (int64_t)data : NOSIZE_TOKEN);
	atomic_fetch_add(&s->bytes_known, data);
	if (f->parent && f->parent->error) {
		parent_missing(s, f);
		return 0;
	}
	if (f->flags & ENTRY_F_ASK)
		return answer(s, f);
	if (known && !data)
		sink_job(s, f, JOB_EMPTY);
	return 0;
}

/* With ASK the verdict has been given; with nothing to come it is made right away. */
static bool asked_and_empty(struct sink *s, struct kfile *f, uint64_t data)
{
	return (f->flags & ENTRY_F_ASK) && !data && !(f->flags & ENTRY_F_NOSIZE) &&
	       !f->journal && !atomic_load(&f->over) && !s->dry;
}

static int on_file(struct sink *s, const struct bulk_entry *en, struct err *e)
{
	struct kdir *parent = NULL;
	struct kfile *f;
	char namebuf[256];
	const char *name = en->name;
	uint64_t data = data_bytes(en);
	int r = 0;

	if (!(en->flags & ENTRY_F_NOSIZE) && (data > en->size || en->size > INT64_MAX / 4))
		return -EBADMSG;
	if (s->dry && !(en->flags & ENTRY_F_ASK))
		return -EPROTO; /* what does not ask would be written */
	if (s->stream && (en->flags & ENTRY_F_SPARSE))
		return -EPROTO; /* its holes would be missing from the output */
	if (s->discard || s->stream) {
		parent = s->base;
		atomic_fetch_add(&parent->refs, 1);
	} else {
		r = sink_place(s, en, namebuf, &parent, &name, e);
	}
	if (r)
		return r;
	f = kfile_new(s, en, parent, name ? name : en->name);
	if (!f)
		return -ENOMEM;
	atomic_fetch_add(&f->refs, 1); /* ours, until the end of this function */
	r = enter_slot(s, f);
	if (!r)
		r = count_details(s, f, e);
	if (!r && (f->flags & ENTRY_F_LINKED))
		r = linkable_add(s, f);
	if (!r)
		r = start_file(s, f, data);
	if (!r && asked_and_empty(s, f, data))
		sink_job(s, f, JOB_EMPTY);
	kfile_put(s, f);
	return r;
}

static void link_attributes(struct sink *s, int dfd, struct kfile *f)
{
	struct timespec t[2] = {
		{ .tv_sec = f->meta.mtime_s, .tv_nsec = f->meta.mtime_ns },
		{ .tv_sec = f->meta.mtime_s, .tv_nsec = f->meta.mtime_ns },
	};

	uint32_t flags = s->x.req->flags & (BULK_F_OWNER | BULK_F_TIMES);
	int fd CLEANUP_CLOSE = flags ? openat(dfd, f->name, O_PATH | O_NOFOLLOW | O_CLOEXEC) : -1;
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) || !S_ISLNK(st.st_mode))
		return; /* another process has replaced it */
	/* Some filesystems keep neither for links. */
	r = flags & BULK_F_OWNER ? fd_chown(fd, f->meta.uid, f->meta.gid) : 0;
	if (r)
		log_debug("%s: owner not set: %s", printable(f->name), strerror(-r));
	r = flags & BULK_F_TIMES ? fd_utimens(fd, t) : 0;
	if (r)
		log_debug("%s: times not set: %s", printable(f->name), strerror(-r));
}

static void set_link(struct sink *s, struct kfile *f, const char *target)
{
	char text[ERR_TEXT];
	int dfd = dir_pin(f->parent->dir), r = dfd;

	if (dfd >= 0) {
		r = put_symlink(f->parent->dir, dfd, f->name, target, s->keep_old);
		if (!r)
			link_attributes(s, dfd, f);
		dir_unpin(f->parent->dir);
	}
	if (!r) {
		kfile_named(s, f, &s->named);
		return;
	}
	snprintf(text, sizeof(text), "%s: symbolic link: %s", printable(f->name),
		 put_link_why(r, s->keep_old));
	kfile_failed(s, f, r, text);
}

/* A symbolic or a hard link. */
static int on_link(struct sink *s, const struct bulk_entry *en, struct err *e)
{
	struct kdir *parent;
	struct kfile *f;
	char namebuf[256];
	const char *name;
	int r;

	if (s->discard || s->stream)
		return sink_tell_done(s, en->id);
	r = sink_place(s, en, namebuf, &parent, &name, e);
	if (r)
		return r;
	f = kfile_new(s, en, parent, name ? name : en->name);
	if (!f)
		return -ENOMEM;
	atomic_fetch_add(&f->refs, 1);
	r = enter_slot(s, f);
	if (!r && f->parent->error)
		parent_missing(s, f);
	else if (!r && (f->flags & ENTRY_F_ASK))
		r = answer(s, f);
	else if (!r && (s->dry || sink_passes_over(s, f)))
		kfile_done(s, f, true);
	else if (!r && en->type == ENTRY_HARDLINK)
		r = kfile_hardlink(s, f);
	else if (!r)
		set_link(s, f, en->target);
	if (!r && en->type == ENTRY_HARDLINK && (en->flags & ENTRY_F_LAST))
		linkable_last(s, en->link_id);
	kfile_put(s, f);
	return r;
}

static int on_entry(struct sink *s, const struct bulk_entry *en, struct err *e)
{
	if (en->type == ENTRY_DIR_END)
		return s->discard || s->stream ? 0 : sink_on_dir_end(s, en);
	if (en->id != atomic_load(&s->highest) + 1)
		return -EPROTO;
	if (en->type != ENTRY_FILE && (en->flags & ENTRY_F_ASK) && !s->dry)
		return -EPROTO;
	atomic_fetch_add(&s->entries, 1);
	switch (en->type) {
	case ENTRY_DIR:
		return sink_on_dir(s, en, e);
	case ENTRY_FILE:
		return on_file(s, en, e);
	case ENTRY_LINK:
	case ENTRY_HARDLINK:
		return on_link(s, en, e);
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
		if (!r && en.type != ENTRY_DIR_END)
			atomic_store(&s->highest, en.id);
	}
	sink_jobs(s, &s->named);
	if (r)
		return r;
	sink_unpark(s);
	return sink_flush_verdicts(s);
}

int sink_sizes(struct sink *s, struct buf *p, bool kept)
{
	while (buf_len(p)) {
		uint64_t id, n;
		struct kfile *f;
		int64_t minus;
		int r = bulk_pair_get(p, &id, &n);

		if (r)
			return r;
		f = kfile_get(s, id);
		if (!f)
			continue;
		if (n > INT64_MAX / 4 || atomic_load(&f->asks) ||
		    (kept ? !atomic_exchange(&f->offered, false) :
			    !(f->flags & ENTRY_F_NOSIZE))) {
			kfile_put(s, f);
			return -EPROTO;
		}
		if (!kept) {
			atomic_store(&f->final_size, n);
			atomic_fetch_add(&s->bytes_known, n);
		} else {
			atomic_fetch_add(&s->bytes_kept, n);
		}
		minus = kept ? (int64_t)n + KEPT_TOKEN : NOSIZE_TOKEN - (int64_t)n;
		/* More than can be left would let left reach 0 under a writer's hands. */
		if (atomic_fetch_sub(&f->unreceived, minus) < minus) {
			kfile_put(s, f);
			return -EPROTO;
		}
		if (atomic_fetch_sub(&f->left, minus) == minus)
			kfile_complete(s, f);
		kfile_put(s, f);
	}
	return 0;
}

int sink_source_failed(struct sink *s, struct buf *p)
{
	struct bulk_failure fail;
	struct kfile *f;
	char *path CLEANUP_FREE = NULL;
	int r = bulk_failure_get(p, &fail);

	if (r)
		return r;
	f = fail.id ? kfile_get(s, fail.id) : NULL;
	if (fail.id && !f)
		return 0;
	if (f) {
		path = kfile_path(f);
		if (atomic_exchange(&f->over, true)) {
			kfile_put(s, f);
			return 0;
		}
	}
	atomic_fetch_add(&s->failed, 1);
	xfer_file_failed_there(&s->x, path ? path : "", &fail);
	if (f) {
		/* Of one that has changed or cannot be read the part is worth nothing; one whose
		 * ctime alone has moved is compared with its part in another attempt. */
		f->drop = fail.code != -EAGAIN;
		kfile_over(s, f, LINK_FAILED);
		kfile_put(s, f);
	}
	return 0;
}
