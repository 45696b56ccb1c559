// SPDX-License-Identifier: Apache-2.0
/* Entries: what a file, directory or link is, on its way from source to sink. */
#include "proto/bulk.h"
#include "proto/wire.h"

#include <string.h>

#define RANGE_BYTES 16
/* Of one encoded entry, with what later minor versions add. */
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

struct xattr_out {
	const char *name;
	const void *value;
	size_t len;
};

static void encode_xattr(struct wire_out *o, const void *msg)
{
	const struct xattr_out *x = msg;
	size_t len = strlen(x->name);

	out_u16(o, (uint16_t)len);
	out_bytes(o, x->name, len);
	out_u32(o, (uint32_t)x->len);
	out_bytes(o, x->value, x->len);
}

int bulk_xattr_put(struct buf *b, const char *name, const void *value, size_t len)
{
	struct xattr_out x = { name, value, len };
	size_t name_len = strnlen(name, BULK_NAME_MAX + 1);

	if (!name_len || name_len > BULK_NAME_MAX || len > BULK_XATTRS_MAX)
		return -EINVAL;
	return wire_put(b, encode_xattr, &x);
}

int bulk_xattr_next(const uint8_t *x, uint32_t len, uint32_t *pos, const char **name,
		    size_t *name_len, const uint8_t **value, size_t *value_len)
{
	struct wire_in in = { NULL, 0, false, false };

	*name = NULL;
	*value = NULL;
	*name_len = 0;
	*value_len = 0;
	if (*pos == len)
		return 0;
	if (*pos > len)
		return -EBADMSG;
	in = (struct wire_in){ x + *pos, len - *pos, false, false };
	*name_len = in_u16(&in);
	*name = (const char *)in_view(&in, *name_len);
	*value_len = in_u32(&in);
	*value = in_view(&in, *value_len);
	if (in.bad || !*name_len || *name_len > BULK_NAME_MAX || memchr(*name, 0, *name_len)) {
		*name = NULL;
		*value = NULL;
		*name_len = 0;
		*value_len = 0;
		return -EBADMSG;
	}
	*pos = len - (uint32_t)in.left;
	return 1;
}

/* ---- what makes sense, the same for both directions ---- */

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

/* Ascending, apart from each other, within the file. */
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

static bool flags_ok(const struct bulk_entry *e)
{
	uint8_t f = e->flags;

	if ((f & ENTRY_F_COMMITTED) && (e->type != ENTRY_FILE || !(f & ENTRY_F_ASK)))
		return false;
	if ((f & (ENTRY_F_NOSIZE | ENTRY_F_SPARSE)) && e->type != ENTRY_FILE)
		return false;
	if ((f & ENTRY_F_NOSIZE) && ((f & ENTRY_F_SPARSE) || e->size))
		return false;
	if ((f & ENTRY_F_CONTENTS) && (e->type != ENTRY_DIR || !(f & ENTRY_F_TOP)))
		return false;
	return !(f & ENTRY_F_TOP) || !e->parent;
}

static bool target_ok(const struct bulk_entry *e)
{
	size_t len;

	if (e->type != ENTRY_LINK)
		return true;
	len = e->target ? strnlen(e->target, BULK_PATH_MAX + 1) : 0;
	return len && len <= BULK_PATH_MAX;
}

static bool entry_ok(const struct bulk_entry *e)
{
	if (!e->id || e->type < ENTRY_FILE || e->type > ENTRY_DIR_END)
		return false;
	if (e->type == ENTRY_DIR_END)
		return !(e->flags & ENTRY_F_COMMITTED);
	/* What an entry refers to has come before it. */
	if (e->parent >= e->id)
		return false;
	if (e->type == ENTRY_HARDLINK && (!e->link_id || e->link_id >= e->id))
		return false;
	if (e->mode & ~07777u || e->mtime_ns > 999999999 || e->size > INT64_MAX)
		return false;
	return e->name && bulk_name_ok(e->name) && flags_ok(e) && target_ok(e) && ranges_ok(e) &&
	       xattrs_ok(e);
}

/* ---- writing ---- */

static void encode_details(struct wire_out *o, const struct bulk_entry *e)
{
	size_t len = strlen(e->name);

	out_u64(o, e->parent);
	out_u32(o, e->mode);
	out_u32(o, e->uid);
	out_u32(o, e->gid);
	out_u64(o, (uint64_t)e->mtime_s);
	out_u32(o, e->mtime_ns);
	out_u64(o, e->size);
	out_u16(o, (uint16_t)len);
	out_bytes(o, e->name, len + 1);
	if (e->type == ENTRY_LINK) {
		out_string(o, e->target);
		out_u8(o, 0);
	}
	if (e->type == ENTRY_HARDLINK)
		out_u64(o, e->link_id);
	if (e->flags & ENTRY_F_SPARSE) {
		out_u32(o, e->nranges);
		out_bytes(o, e->ranges, (size_t)e->nranges * RANGE_BYTES);
	}
	out_u32(o, e->xattrs_len);
	out_bytes(o, e->xattrs, e->xattrs_len);
}

static void encode_entry(struct wire_out *o, const void *msg)
{
	const struct bulk_entry *e = msg;
	size_t at = o->n;

	out_u32(o, 0);
	out_u8(o, e->type);
	out_u8(o, e->flags);
	out_u16(o, 0);
	out_u64(o, e->id);
	if (e->type != ENTRY_DIR_END)
		encode_details(o, e);
	out_patch_length(o, at);
}

int bulk_entry_put(struct buf *b, const struct bulk_entry *e)
{
	if (!entry_ok(e))
		return -EINVAL;
	return wire_put(b, encode_entry, e);
}

/* ---- reading ---- */

/* len bytes and a NUL, with no NUL among them. */
static const char *in_terminated(struct wire_in *in, size_t len)
{
	const uint8_t *at = in_view(in, len + 1);

	if (!at || memchr(at, 0, len + 1) != at + len) {
		in->bad = true;
		return NULL;
	}
	return (const char *)at;
}

static void decode_ranges(struct wire_in *in, struct bulk_entry *e)
{
	e->nranges = in_u32(in);
	if (e->nranges > BULK_RANGES_MAX)
		in->bad = true;
	e->ranges = in_view(in, (size_t)e->nranges * RANGE_BYTES);
}

static void decode_target(struct wire_in *in, struct bulk_entry *e)
{
	uint32_t len = in_u32(in);

	if (len > BULK_PATH_MAX)
		in->bad = true;
	e->target = in_terminated(in, len);
}

static void decode_details(struct wire_in *in, struct bulk_entry *e)
{
	e->parent = in_u64(in);
	e->mode = in_u32(in);
	e->uid = in_u32(in);
	e->gid = in_u32(in);
	e->mtime_s = (int64_t)in_u64(in);
	e->mtime_ns = in_u32(in);
	e->size = in_u64(in);
	e->name = in_terminated(in, in_u16(in));
	if (e->type == ENTRY_LINK)
		decode_target(in, e);
	if (e->type == ENTRY_HARDLINK)
		e->link_id = in_u64(in);
	if (e->flags & ENTRY_F_SPARSE)
		decode_ranges(in, e);
	e->xattrs_len = in_u32(in);
	e->xattrs = in_view(in, e->xattrs_len);
}

int bulk_entry_get(struct buf *b, struct bulk_entry *e)
{
	struct wire_in in = wire_in_of(b);
	struct wire_in body = in_nested(&in, ENTRY_BYTES_MAX);

	memset(e, 0, sizeof(*e));
	e->type = in_u8(&body);
	e->flags = in_u8(&body);
	in_u16(&body);
	e->id = in_u64(&body);
	if (e->type != ENTRY_DIR_END)
		decode_details(&body, e);
	in.bad |= body.bad || !entry_ok(e);
	if (in.bad)
		memset(e, 0, sizeof(*e));
	return wire_in_end(&in, b);
}
