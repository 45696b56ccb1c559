// SPDX-License-Identifier: Apache-2.0
/* Entries: the description of a file, directory or link that the source sends to the sink. */
#include "proto/bulk.h"
#include "proto/wire.h"

#define RANGE_BYTES 16
/* The limit of one encoded entry, with the fields that later minor versions append. */
#define ENTRY_BYTES_MAX BULK_FRAME_MAX

/* ---- parts ---- */

struct bulk_range bulk_range_at(const uint8_t *ranges, uint32_t i)
{
	const uint8_t *p = ranges + (size_t)i * RANGE_BYTES;

	return (struct bulk_range){ get_be64(p), get_be64(p + 8) };
}

void bulk_range_set(uint8_t *ranges, uint32_t i, struct bulk_range r)
{
	uint8_t *p = ranges + (size_t)i * RANGE_BYTES;

	put_be64(p, r.offset);
	put_be64(p + 8, r.length);
}

bool bulk_name_ok(const char *name)
{
	size_t len = strnlen(name, BULK_NAME_MAX + 1);

	if (!len || len > BULK_NAME_MAX || memchr(name, '/', len))
		return false;
	return strcmp(name, ".") && strcmp(name, "..");
}

int bulk_xattr_put(struct buf *b, const char *name, const void *value, size_t len)
{
	size_t name_len = strnlen(name, BULK_NAME_MAX + 1);
	uint8_t *p;
	int rc;

	if (!name_len || name_len > BULK_NAME_MAX || len > BULK_XATTRS_MAX)
		return -EINVAL;
	rc = buf_reserve(b, 2 + name_len + 4 + len, &p);
	if (rc < 0)
		return rc;
	put_be16(p, (uint16_t)name_len);
	memcpy(p + 2, name, name_len);
	put_be32(p + 2 + name_len, (uint32_t)len);
	if (len)
		memcpy(p + 2 + name_len + 4, value, len);
	return 0;
}

int bulk_xattr_next(const uint8_t *x, uint32_t len, uint32_t *pos, const char **name,
		    size_t *name_len, const uint8_t **value, size_t *value_len)
{
	struct wire w;
	uint16_t name_bytes;
	uint32_t value_bytes;

	*name = NULL;
	*value = NULL;
	*name_len = 0;
	*value_len = 0;
	if (*pos == len)
		return 0;
	if (*pos > len)
		return -EBADMSG;

	w = (struct wire){ .get = true, .in = x + *pos, .n = len - *pos };
	wire_number(&w, &name_bytes);
	*name = (const char *)wire_view(&w, name_bytes);
	wire_number(&w, &value_bytes);
	*value = wire_view(&w, value_bytes);
	if (w.bad || !name_bytes || name_bytes > BULK_NAME_MAX || memchr(*name, 0, name_bytes)) {
		*name = NULL;
		*value = NULL;
		return -EBADMSG;
	}

	*name_len = name_bytes;
	*value_len = value_bytes;
	*pos = len - (uint32_t)w.n;
	return 1;
}

/* ---- checks for both directions ---- */

static bool xattrs_ok(const struct bulk_entry *e)
{
	const uint8_t *value;
	const char *name;
	size_t n, v;
	uint32_t pos = 0;
	int r;

	if (e->xattrs_len > BULK_XATTRS_MAX)
		return false;
	do
		r = bulk_xattr_next(e->xattrs, e->xattrs_len, &pos, &name, &n, &value, &v);
	while (r == 1);
	return r == 0;
}

/* The ranges must be ascending, not empty, without overlap, and within the file. */
static bool ranges_ok(const struct bulk_entry *e)
{
	uint64_t end = 0;

	if (e->nranges > (e->flags & ENTRY_F_SPARSE ? BULK_RANGES_MAX : 0))
		return false;
	for (uint32_t i = 0; i < e->nranges; i++) {
		struct bulk_range r = bulk_range_at(e->ranges, i);

		if (!r.length || r.offset < end || r.offset > e->size ||
		    r.length > e->size - r.offset)
			return false;
		end = r.offset + r.length;
	}

	return true;
}

static bool range_ok(const struct bulk_entry *e)
{
	struct bulk_range g = e->range, first, last;

	if (!(e->flags & ENTRY_F_RANGE) || e->type != ENTRY_FILE)
		return true;
	if (!(e->flags & ENTRY_F_SPARSE) || !(e->flags & ENTRY_F_ASK) ||
	    (e->flags & ENTRY_F_LINKED) || !g.length ||
	    g.offset > e->size || g.length > e->size - g.offset)
		return false;
	if (!e->nranges)
		return true;
	first = bulk_range_at(e->ranges, 0);
	last = bulk_range_at(e->ranges, e->nranges - 1);
	return first.offset >= g.offset && last.offset + last.length <= g.offset + g.length;
}

static bool flags_ok(const struct bulk_entry *e)
{
	uint8_t f = e->flags;

	if ((f & ENTRY_F_COMMITTED) && (e->type != ENTRY_FILE || !(f & ENTRY_F_ASK)))
		return false;
	if ((f & (ENTRY_F_NOSIZE | ENTRY_F_SPARSE)) && e->type != ENTRY_FILE)
		return false;
	if ((f & ENTRY_F_NOSIZE) && ((f & ENTRY_F_SPARSE) || e->size))
		return false;
	if ((f & ENTRY_F_CONTENTS) && e->type != ENTRY_FILE &&
	    (e->type != ENTRY_DIR || !(f & ENTRY_F_TOP)))
		return false;
	return !(f & ENTRY_F_TOP) || !e->parent;
}

static bool entry_ok(const struct bulk_entry *e)
{
	size_t target;

	if (e->type == ENTRY_NAME)
		return !e->id && e->parent && !e->flags && e->name && bulk_name_ok(e->name);
	if (!e->id || e->type < ENTRY_FILE || e->type > ENTRY_DIR_END)
		return false;
	if (e->type == ENTRY_DIR_END)
		return !(e->flags & ENTRY_F_COMMITTED);
	/* An entry may refer only to earlier entries. */
	if (e->parent >= e->id)
		return false;
	if (e->type == ENTRY_HARDLINK && (!e->link_id || e->link_id >= e->id))
		return false;
	if (e->mode & ~07777u || e->mtime_ns > 999999999 || e->size > INT64_MAX)
		return false;
	target = e->target ? strnlen(e->target, BULK_PATH_MAX + 1) : 0;
	if (e->type == ENTRY_LINK && (!target || target > BULK_PATH_MAX))
		return false;
	return e->name && bulk_name_ok(e->name) && flags_ok(e) && ranges_ok(e) && range_ok(e) &&
	       xattrs_ok(e);
}

/* ---- the codec ---- */

#define FIELD(member) WIRE_FIELD(struct bulk_entry, member, WIRE_ANY)
static const struct wire_field details[] = {
	FIELD(parent), FIELD(mode), FIELD(uid), FIELD(gid), FIELD(mtime_s), FIELD(mtime_ns),
	FIELD(size),
};
#undef FIELD

/* len bytes other than NUL and a terminating NUL; decoding makes *s a view, NULL when w is bad. */
static void wire_terminated(struct wire *w, const char **s, size_t len)
{
	const uint8_t *at = (const uint8_t *)*s;

	wire_block(w, &at, len + 1);
	if (!w->get)
		return;
	if (!at || memchr(at, 0, len + 1) != at + len) {
		w->bad = true;
		at = NULL;
	}
	*s = (const char *)at;
}

static void entry_body(struct wire *w, void *msg)
{
	struct bulk_entry *e = msg;
	uint16_t zero = 0, name_len = (uint16_t)(e->name ? strlen(e->name) : 0);
	uint32_t target_len = (uint32_t)(e->target ? strlen(e->target) : 0);

	wire_number(w, &e->type);
	wire_number(w, &e->flags);
	wire_number(w, &zero);
	wire_number(w, &e->id);
	if (e->type == ENTRY_DIR_END)
		return;

	if (e->type == ENTRY_NAME)
		wire_number(w, &e->parent);
	else
		wire_fields(w, e, details);
	wire_number(w, &name_len);
	wire_terminated(w, &e->name, name_len);
	if (e->type == ENTRY_NAME)
		return;
	if (e->type == ENTRY_LINK) {
		wire_count(w, &target_len, BULK_PATH_MAX);
		wire_terminated(w, &e->target, target_len);
	}
	if (e->type == ENTRY_HARDLINK)
		wire_number(w, &e->link_id);
	if (e->flags & ENTRY_F_SPARSE) {
		wire_count(w, &e->nranges, BULK_RANGES_MAX);
		wire_block(w, &e->ranges, (size_t)e->nranges * RANGE_BYTES);
	}
	if (e->type == ENTRY_FILE && (e->flags & ENTRY_F_RANGE)) {
		wire_number(w, &e->range.offset);
		wire_number(w, &e->range.length);
	}
	wire_number(w, &e->xattrs_len);
	wire_block(w, &e->xattrs, e->xattrs_len);
}

static void wire_entry(struct wire *w, void *msg)
{
	wire_nested(w, entry_body, msg, ENTRY_BYTES_MAX);
	/* The counts in a bad entry may be set while its views are NULL. */
	if (w->get && !w->bad && !entry_ok(msg))
		w->bad = true;
}

int bulk_entry_put(struct buf *b, const struct bulk_entry *e)
{
	return entry_ok(e) ? wire_put(b, wire_entry, e) : -EINVAL;
}

int bulk_entry_get(struct buf *b, struct bulk_entry *e)
{
	return wire_get(b, wire_entry, e, sizeof(*e));
}
