// SPDX-License-Identifier: Apache-2.0
/* Input: a sequence of entries. An accepted entry must survive our own encoder and decoder, except
 * for fields of later versions, and must name nothing outside its directory. */
#include "proto/proto.h"

#include "tests/support/bytes.h"
#include "tests/support/fuzz.h"

#include <string.h>

static void check_xattrs(const struct bulk_entry *e)
{
	const uint8_t *value;
	const char *name;
	size_t n, v;
	uint32_t pos = 0;
	int r;

	while ((r = bulk_xattr_next(e->xattrs, e->xattrs_len, &pos, &name, &n, &value, &v)) == 1)
		MUST(n && n <= BULK_NAME_MAX && v <= BULK_XATTRS_MAX);
	MUST(!r);
}

static void check_ranges(const struct bulk_entry *e)
{
	for (uint32_t i = 0; i < e->nranges; i++) {
		struct bulk_range r = bulk_range_at(e->ranges, i);

		MUST(r.length && r.length <= e->size && r.offset <= e->size - r.length);
	}
}

static void check_again(const struct bulk_entry *e)
{
	struct buf *b = buf_new(BULK_FRAME_MAX);
	struct bulk_entry back;

	MUST(!bulk_entry_put(b, e));
	MUST(!bulk_entry_get(b, &back));
	MUST(!buf_len(b) && back.id == e->id && back.type == e->type);
	MUST(!e->name == !back.name && (!e->name || !strcmp(e->name, back.name)));
	MUST(!e->target == !back.target && (!e->target || !strcmp(e->target, back.target)));
	MUST(back.size == e->size && back.nranges == e->nranges);
	buf_free(b);
}

static void check_entry(const struct bulk_entry *e)
{
	if (e->type == ENTRY_NAME) {
		MUST(!e->id && e->parent && bulk_name_ok(e->name));
		check_again(e);
		return;
	}
	MUST(e->id && e->type >= ENTRY_FILE && e->type <= ENTRY_DIR_END);
	MUST(!(e->flags & ENTRY_F_COMMITTED) ||
	     (e->type == ENTRY_FILE && (e->flags & ENTRY_F_ASK)));
	if (e->type < ENTRY_DIR_END) {
		MUST(e->parent < e->id && e->size <= INT64_MAX);
		MUST(bulk_name_ok(e->name) && !strchr(e->name, '/'));
		MUST((e->type == ENTRY_LINK) == !!e->target);
	}
	check_ranges(e);
	check_xattrs(e);
	check_again(e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf *b = bytes_of(data, size);
	struct bulk_entry e;

	while (buf_len(b) && !bulk_entry_get(b, &e))
		check_entry(&e);
	buf_free(b);
	return 0;
}
