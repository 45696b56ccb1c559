// SPDX-License-Identifier: Apache-2.0
/* Entries: the files, directories and links of a frame. */
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
	f->punch = part || (s->x.c->request.flags & BULK_F_INPLACE) || f->range.length;
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
	if (f->counts && (en->flags & ENTRY_F_RANGE))
		f->range = en->range;
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
		return sink_parent_failed(s, f);
	}
	if (f->flags & ENTRY_F_ASK)
		return sink_answer(s, f);
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
	if ((en->flags & ENTRY_F_RANGE) && !(s->x.c->request.flags & BULK_F_RANGES))
		return -EPROTO;
	if (s->dry && !(en->flags & ENTRY_F_ASK))
		return -EPROTO; /* only entries that ask are answered; others would be written */
	/* Holes would be missing from the output. A range may have none. */
	if (s->stream && (en->flags & ENTRY_F_SPARSE) &&
	    !((en->flags & ENTRY_F_RANGE) && data == en->range.length))
		return -EPROTO;

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
		r = sink_parent_failed(s, f);
	else if (!r && (f->flags & ENTRY_F_ASK))
		r = sink_answer(s, f);
	else if (!r && s->dry)
		sink_file_done(s, f, FILE_LEFT);
	else if (!r && !relinks(s, en) && sink_passes_over(s, f))
		sink_leave(s, f);
	else if (!r && sink_directory_in_the_way(s, f))
		r = sink_leave_for_later(s, f);
	else if (!r && en->type == ENTRY_HARDLINK)
		r = sink_file_hardlink(s, f);
	else if (!r)
		sink_file_symlink(s, f, en->target);
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
