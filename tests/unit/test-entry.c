// SPDX-License-Identifier: Apache-2.0
/* Entries on the wire, with descriptions of files that a hostile source might send. */
#include "proto/bulk.h"

#include "tests/support/codec.h"
#include "tests/support/wire.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int get_entry(struct buf *b, void *out)
{
	return bulk_entry_get(b, out);
}

static struct bulk_entry file_entry(void)
{
	struct bulk_entry e = {
		.id = 7, .parent = 3, .type = ENTRY_FILE, .flags = ENTRY_F_ASK, .mode = 04755,
		.uid = 1000, .gid = UINT32_MAX, .mtime_s = -2, .mtime_ns = 999999999,
		.size = INT64_MAX, .name = "n\n\377 x",
	};

	return e;
}

static void check_same(const struct bulk_entry *a, const struct bulk_entry *b)
{
	assert_true(a->id == b->id && a->parent == b->parent);
	assert_int_equal(a->type, b->type);
	assert_int_equal(a->flags, b->flags);
	assert_int_equal(a->mode, b->mode);
	assert_int_equal(a->uid, b->uid);
	assert_int_equal(a->gid, b->gid);
	assert_true(a->mtime_s == b->mtime_s && a->mtime_ns == b->mtime_ns);
	assert_true(a->size == b->size && a->link_id == b->link_id);
	if (a->name)
		assert_string_equal(a->name, b->name);
	else
		assert_null(b->name);
	if (a->target)
		assert_string_equal(a->target, b->target);
	else
		assert_null(b->target);
	assert_int_equal(a->nranges, b->nranges);
	if (a->nranges)
		assert_memory_equal(a->ranges, b->ranges, (size_t)a->nranges * 16);
	assert_memory_equal(&a->range, &b->range, sizeof(a->range));
	assert_int_equal(a->xattrs_len, b->xattrs_len);
	if (a->xattrs_len)
		assert_memory_equal(a->xattrs, b->xattrs, a->xattrs_len);
}

static void check_round_trip(const struct bulk_entry *e)
{
	struct buf *b CLEANUP_BUF = buf_new(BULK_FRAME_MAX);
	struct bulk_entry back;

	assert_int_equal(bulk_entry_put(b, e), 0);
	assert_int_equal(codec_truncations(b, get_entry, &back, sizeof(back)), buf_len(b));
	assert_int_equal(bulk_entry_put(b, e), 0);
	assert_int_equal(bulk_entry_get(b, &back), 0);
	check_same(e, &back);
	assert_int_equal(bulk_entry_get(b, &back), 0);
	check_same(e, &back);
	assert_int_equal(buf_len(b), 0);
}

static void test_types(void **state)
{
	struct bulk_entry file = file_entry();
	struct bulk_entry dir = { .id = 1, .type = ENTRY_DIR, .name = "d", .mode = 0755,
				  .flags = ENTRY_F_TOP | ENTRY_F_CONTENTS };
	struct bulk_entry link = { .id = 2, .parent = 1, .type = ENTRY_LINK, .name = "l",
				   .target = "../../etc/passwd" };
	struct bulk_entry hard = { .id = 9, .parent = 1, .type = ENTRY_HARDLINK, .name = "h",
				   .link_id = 8 };
	struct bulk_entry end = { .id = 1, .type = ENTRY_DIR_END };
	struct bulk_entry pipe = { .id = 1, .type = ENTRY_FILE, .name = "p",
				   .flags = ENTRY_F_NOSIZE | ENTRY_F_TOP };

	check_round_trip(&file);
	check_round_trip(&dir);
	check_round_trip(&link);
	check_round_trip(&hard);
	check_round_trip(&end);
	check_round_trip(&pipe);
}

static void test_layout(void **state)
{
	static const uint8_t wire[] = {
		0, 0, 0, 61, ENTRY_FILE, ENTRY_F_ASK, 0, 0,
		0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 3,
		0, 0, 0x09, 0xed, 0, 0, 3, 0xe8, 0xff, 0xff, 0xff, 0xff,
		0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe, 0x3b, 0x9a, 0xc9, 0xff,
		0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
		0, 2, 'a', 'b', 0, 0, 0, 0, 0,
	};
	struct buf *b CLEANUP_BUF = buf_new(BULK_FRAME_MAX);
	struct bulk_entry e = file_entry();

	e.name = "ab";
	assert_int_equal(bulk_entry_put(b, &e), 0);
	assert_int_equal(buf_len(b), sizeof(wire));
	assert_memory_equal(buf_ptr(b), wire, sizeof(wire));
}

static void test_ranges(void **state)
{
	static uint8_t ranges[BULK_RANGES_MAX * 16];
	struct bulk_entry e = file_entry();

	for (uint32_t i = 0; i < BULK_RANGES_MAX; i++)
		bulk_range_set(ranges, i, (struct bulk_range){ i * 10ull, 10 });
	assert_true(bulk_range_at(ranges, 5).offset == 50);
	assert_true(bulk_range_at(ranges, 5).length == 10);
	e.flags = ENTRY_F_SPARSE;
	e.ranges = ranges;
	e.nranges = 3;
	e.size = 30;
	check_round_trip(&e);
	e.nranges = 0;
	check_round_trip(&e);
}

/* Only a range of the file is sent. */
static void test_range(void **state)
{
	static const struct bulk_range bad[] = {
		{ 0, 0 }, { 20, 10 }, { 20, 19 }, { 21, 80 }, { 101, 1 }, { 20, 81 },
		{ UINT64_MAX, 20 }, { 20, UINT64_MAX },
	};
	struct bulk_entry e = file_entry();
	uint8_t ranges[32];

	bulk_range_set(ranges, 0, (struct bulk_range){ 20, 5 });
	bulk_range_set(ranges, 1, (struct bulk_range){ 30, 10 });
	e.flags = ENTRY_F_SPARSE | ENTRY_F_RANGE | ENTRY_F_ASK;
	e.ranges = ranges;
	e.nranges = 2;
	e.size = 100;
	e.range = (struct bulk_range){ 20, 20 };
	check_round_trip(&e);
	e.range = (struct bulk_range){ 0, 100 };
	check_round_trip(&e);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct buf *b CLEANUP_BUF = buf_new(4096);

		e.range = bad[i];
		assert_int_equal(bulk_entry_put(b, &e), -EINVAL);
	}
	e.nranges = 0; /* all of it is a hole */
	e.range = (struct bulk_range){ 20, 10 };
	check_round_trip(&e);
	for (int flag = 0; flag < 2; flag++) {
		struct buf *b CLEANUP_BUF = buf_new(4096);

		e.flags = ENTRY_F_RANGE | (flag ? ENTRY_F_SPARSE : ENTRY_F_ASK);
		assert_int_equal(bulk_entry_put(b, &e), -EINVAL);
	}
}

static void test_ranges_most(void **state)
{
	uint8_t *ranges = calloc(BULK_RANGES_MAX + 1, 16);
	struct buf *b CLEANUP_BUF = buf_new(BULK_FRAME_MAX);
	struct bulk_entry e = file_entry(), back;

	for (uint32_t i = 0; i <= BULK_RANGES_MAX; i++)
		bulk_range_set(ranges, i, (struct bulk_range){ i * 10ull, 10 });
	e.flags = ENTRY_F_SPARSE;
	e.ranges = ranges;
	e.nranges = BULK_RANGES_MAX;
	assert_int_equal(bulk_entry_put(b, &e), 0);
	assert_int_equal(bulk_entry_get(b, &back), 0);
	check_same(&e, &back);
	e.nranges++;
	assert_int_equal(bulk_entry_put(b, &e), -EINVAL);
	free(ranges);
}

static void test_ranges_refused(void **state)
{
	static const struct bulk_range bad[][2] = {
		{ { 0, 0 }, { 10, 5 } },               /* empty */
		{ { 10, 5 }, { 0, 5 } },               /* backwards */
		{ { 0, 11 }, { 10, 5 } },              /* overlapping */
		{ { 0, 5 }, { 90, 11 } },              /* beyond the end */
		{ { 0, 5 }, { 101, 1 } },
		{ { 0, 5 }, { 10, UINT64_MAX - 5 } },  /* overflow */
		{ { 0, 5 }, { UINT64_MAX, 1 } },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct buf *b CLEANUP_BUF = buf_new(4096);
		struct bulk_entry e = file_entry(), back;
		uint8_t ranges[32], wire[256];
		size_t len, used;

		e.flags = ENTRY_F_SPARSE;
		e.size = 100;
		e.nranges = 2;
		e.ranges = ranges;
		bulk_range_set(ranges, 0, (struct bulk_range){ 1, 1 });
		bulk_range_set(ranges, 1, (struct bulk_range){ 3, 1 });
		assert_int_equal(bulk_entry_put(b, &e), 0);
		len = buf_len(b);
		memcpy(wire, buf_ptr(b), len);
		/* The ranges are before the length of the empty attributes. */
		bulk_range_set(wire + len - 36, 0, bad[i][0]);
		bulk_range_set(wire + len - 36, 1, bad[i][1]);
		assert_int_equal(codec_decode(wire, len, get_entry, &back, sizeof(back), &used),
				 -EBADMSG);

		bulk_range_set(ranges, 0, bad[i][0]);
		bulk_range_set(ranges, 1, bad[i][1]);
		assert_int_equal(bulk_entry_put(b, &e), -EINVAL);
	}
}

static void test_xattrs(void **state)
{
	struct buf *x CLEANUP_BUF = buf_new(BULK_XATTRS_MAX);
	struct bulk_entry e = file_entry();
	const uint8_t *value;
	const char *name;
	size_t nlen, vlen;
	uint32_t pos = 0;

	assert_int_equal(bulk_xattr_put(x, "user.a", "value", 5), 0);
	assert_int_equal(bulk_xattr_put(x, "user.empty", NULL, 0), 0);
	assert_int_equal(bulk_xattr_put(x, "", "v", 1), -EINVAL);
	e.xattrs = buf_ptr(x);
	e.xattrs_len = (uint32_t)buf_len(x);
	check_round_trip(&e);

	assert_int_equal(bulk_xattr_next(e.xattrs, e.xattrs_len, &pos, &name, &nlen, &value,
					 &vlen), 1);
	assert_true(nlen == 6 && !memcmp(name, "user.a", 6));
	assert_true(vlen == 5 && !memcmp(value, "value", 5));
	assert_int_equal(bulk_xattr_next(e.xattrs, e.xattrs_len, &pos, &name, &nlen, &value,
					 &vlen), 1);
	assert_true(nlen == 10 && !memcmp(name, "user.empty", 10) && vlen == 0);
	assert_int_equal(bulk_xattr_next(e.xattrs, e.xattrs_len, &pos, &name, &nlen, &value,
					 &vlen), 0);
	pos = e.xattrs_len + 1;
	assert_int_equal(bulk_xattr_next(e.xattrs, e.xattrs_len, &pos, &name, &nlen, &value,
					 &vlen), -EBADMSG);
}

static void test_xattrs_refused(void **state)
{
	static const struct { const char *wire; size_t len; } bad[] = {
		{ "\0\1", 2 }, { "\0\1a", 3 }, { "\0\1a\0\0\0", 6 }, { "\0\1a\0\0\0\1", 7 },
		{ "\0\0\0\0\0\0", 6 }, { "\1\0a\0\0\0\0", 7 }, { "\0\2a\0\0\0\0\0", 8 },
		{ "\0\1a\377\377\377\377", 7 }, { "\0\1a\0\0\0\0x", 8 },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct buf *b CLEANUP_BUF = buf_new(4096);
		struct bulk_entry e = file_entry(), back;
		uint8_t wire[256], *copy = malloc(bad[i].len);
		size_t len, used;

		memcpy(copy, bad[i].wire, bad[i].len);
		e.xattrs = copy;
		e.xattrs_len = (uint32_t)bad[i].len;
		assert_int_equal(bulk_entry_put(b, &e), -EINVAL);
		e.xattrs_len = 0;
		assert_int_equal(bulk_entry_put(b, &e), 0);
		len = buf_len(b);
		memcpy(wire, buf_ptr(b), len);
		memcpy(wire + len, copy, bad[i].len);
		put_be32(wire + len - 4, (uint32_t)bad[i].len);
		len += bad[i].len;
		put_be32(wire, (uint32_t)len - 4);
		assert_int_equal(codec_decode(wire, len, get_entry, &back, sizeof(back), &used),
				 -EBADMSG);
		free(copy);
	}
}

static void test_names(void **state)
{
	static const char *const bad[] = { "", ".", "..", "/", "a/b", "/a", "a/", "../a" };
	static const char *const good[] = {
		"a", "...", "..a", ".a", "a.", " ", "\n", "\377", "\\",
	};
	char longest[BULK_NAME_MAX + 2];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(bulk_name_ok(bad[i]));
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_true(bulk_name_ok(good[i]));
	memset(longest, 'x', sizeof(longest));
	longest[BULK_NAME_MAX + 1] = '\0';
	assert_false(bulk_name_ok(longest));
	longest[BULK_NAME_MAX] = '\0';
	assert_true(bulk_name_ok(longest));
}

/* Overwrites a valid name on the wire with another of the same length. */
static void check_wire_name(const char *raw, size_t len, int expect)
{
	struct buf *b CLEANUP_BUF = buf_new(4096);
	struct bulk_entry e = file_entry(), back;
	char name[64];
	uint8_t wire[256];
	size_t n, used;

	memset(name, 'n', len);
	name[len] = '\0';
	e.name = name;
	assert_int_equal(bulk_entry_put(b, &e), 0);
	n = buf_len(b);
	memcpy(wire, buf_ptr(b), n);
	memcpy(wire + n - 4 - 1 - len, raw, len + 1);
	assert_int_equal(codec_decode(wire, n, get_entry, &back, sizeof(back), &used), expect);
	if (expect)
		assert_true(codec_all_zero(&back, sizeof(back)));
}

static void test_names_on_wire(void **state)
{
	check_wire_name("good", 4, 0);
	check_wire_name("..", 2, -EBADMSG);
	check_wire_name(".", 1, -EBADMSG);
	check_wire_name("/", 1, -EBADMSG);
	check_wire_name("../../etc", 9, -EBADMSG);
	check_wire_name("a/b", 3, -EBADMSG);
	check_wire_name("a\0b", 3, -EBADMSG);  /* NUL inside */
	check_wire_name("\0b", 2, -EBADMSG);
	check_wire_name("abcX", 3, -EBADMSG);  /* no terminating NUL */
}

static void test_put_names(void **state)
{
	static const char *const bad[] = { "", ".", "..", "/", "a/b" };
	struct buf *b CLEANUP_BUF = buf_new(4096);

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct bulk_entry e = file_entry();

		e.name = bad[i];
		assert_int_equal(bulk_entry_put(b, &e), -EINVAL);
	}
	assert_int_equal(buf_len(b), 0);
}

/* An entry encoded by hand, to give get() entries that put() refuses. */
struct raw {
	uint8_t type, flags;
	uint64_t id, parent, link_id, size;
	uint32_t mode, mtime_ns;
	const char *target;
};

static int decode_raw(const struct raw *r)
{
	struct buf *b CLEANUP_BUF = buf_new(1 << 20);
	struct bulk_entry back;
	int err;

	buf_put_u32(b, 0);
	buf_put_u8(b, r->type);
	buf_put_u8(b, r->flags);
	buf_put_u16(b, 0);
	buf_put_u64(b, r->id);
	buf_put_u64(b, r->parent);
	buf_put_u32(b, r->mode);
	buf_put_u32(b, 0);
	buf_put_u32(b, 0);
	buf_put_u64(b, 0);
	buf_put_u32(b, r->mtime_ns);
	buf_put_u64(b, r->size);
	buf_put_u16(b, 1);
	buf_put(b, "n", 2);
	if (r->type == ENTRY_LINK) {
		buf_put_string(b, r->target, strlen(r->target));
		buf_put_u8(b, 0);
	}
	if (r->type == ENTRY_HARDLINK)
		buf_put_u64(b, r->link_id);
	if (r->flags & ENTRY_F_SPARSE)
		buf_put_u32(b, 0);
	buf_put_u32(b, 0);
	buf_poke_u32(b, 0, (uint32_t)buf_len(b) - 4);
	err = bulk_entry_get(b, &back);
	assert_int_equal(buf_len(b) == 0, err == 0);
	assert_int_equal(back.id, err ? 0 : r->id);
	return err;
}

static void test_hostile(void **state)
{
	static const struct raw good[] = {
		{ .type = ENTRY_FILE, .id = 2, .parent = 1 },
		{ .type = ENTRY_FILE, .id = 1, .flags = ENTRY_F_LAST },  /* ignored here */
		{ .type = ENTRY_FILE, .id = 1, .size = INT64_MAX, .mode = 07777 },
		{ .type = ENTRY_FILE, .id = 1, .flags = ENTRY_F_SPARSE },
		{ .type = ENTRY_FILE, .id = 1, .flags = ENTRY_F_LINKED },
		{ .type = ENTRY_DIR, .id = 1, .flags = ENTRY_F_TOP | ENTRY_F_CONTENTS },
		{ .type = ENTRY_LINK, .id = 1, .target = "x" },
		{ .type = ENTRY_HARDLINK, .id = 2, .link_id = 1 },
		{ .type = ENTRY_DIR_END, .id = 1 },
	};
	static const struct raw bad[] = {
		{ .type = 0, .id = 1 },
		{ .type = ENTRY_DIR_END + 1, .id = 1 },
		{ .type = ENTRY_FILE, .id = 0 },
		{ .type = ENTRY_DIR_END, .id = 0 },
		{ .type = ENTRY_FILE, .id = 2, .parent = 2 },
		{ .type = ENTRY_FILE, .id = 2, .parent = 3 },
		{ .type = ENTRY_FILE, .id = 2, .parent = UINT64_MAX },
		{ .type = ENTRY_FILE, .id = 1, .mode = 010000 },
		{ .type = ENTRY_FILE, .id = 1, .mtime_ns = 1000000000 },
		{ .type = ENTRY_FILE, .id = 1, .size = 1ull << 63 },
		{ .type = ENTRY_FILE, .id = 2, .parent = 1, .flags = ENTRY_F_TOP },
		{ .type = ENTRY_FILE, .id = 1, .flags = ENTRY_F_TOP | ENTRY_F_CONTENTS },
		{ .type = ENTRY_DIR, .id = 1, .flags = ENTRY_F_CONTENTS },
		{ .type = ENTRY_DIR, .id = 1, .flags = ENTRY_F_SPARSE },
		{ .type = ENTRY_DIR, .id = 1, .flags = ENTRY_F_NOSIZE },
		{ .type = ENTRY_FILE, .id = 1, .flags = ENTRY_F_COMMITTED },
		{ .type = ENTRY_FILE, .id = 1, .flags = ENTRY_F_SPARSE | ENTRY_F_COMMITTED },
		{ .type = ENTRY_DIR_END, .id = 1, .flags = ENTRY_F_COMMITTED },
		{ .type = ENTRY_DIR, .id = 1, .flags = ENTRY_F_ASK | ENTRY_F_COMMITTED },
		{ .type = ENTRY_FILE, .id = 1, .flags = ENTRY_F_NOSIZE, .size = 1 },
		{ .type = ENTRY_FILE, .id = 1, .flags = ENTRY_F_NOSIZE | ENTRY_F_SPARSE },
		{ .type = ENTRY_LINK, .id = 1, .target = "" },
		{ .type = ENTRY_HARDLINK, .id = 2, .link_id = 0 },
		{ .type = ENTRY_HARDLINK, .id = 2, .link_id = 2 },
		{ .type = ENTRY_HARDLINK, .id = 2, .link_id = 3 },
	};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_int_equal(decode_raw(&good[i]), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(decode_raw(&bad[i]), -EBADMSG);
}

/* The nested length agrees with the frame, but the entry's fields do not fit into it. */
static void test_too_short_inside(void **state)
{
	struct bulk_entry e = file_entry(), back;
	uint8_t ranges[3 * 16];

	for (uint32_t i = 0; i < 3; i++)
		bulk_range_set(ranges, i, (struct bulk_range){ i * 10ull, 10 });
	e.flags = ENTRY_F_SPARSE;
	e.ranges = ranges;
	e.nranges = 3;
	e.size = 30;
	e.xattrs = (const uint8_t *)"\0\1a\0\0\0\1b";
	e.xattrs_len = 8;
	for (size_t cut = 1;; cut++) {
		struct buf *b CLEANUP_BUF = buf_new(BULK_FRAME_MAX);
		size_t len;

		assert_int_equal(bulk_entry_put(b, &e), 0);
		len = buf_len(b) - cut;
		if (len < 4)
			break;
		buf_poke_u32(b, 0, (uint32_t)len - 4);
		assert_int_equal(bulk_entry_get(b, &back), -EBADMSG);
		assert_true(codec_all_zero(&back, sizeof(back)));
		assert_int_equal(buf_len(b), len + cut);
	}
}

static void test_long_target(void **state)
{
	struct raw r = { .type = ENTRY_LINK, .id = 1 };
	char *target = malloc(BULK_PATH_MAX + 2);

	memset(target, 't', BULK_PATH_MAX + 1);
	target[BULK_PATH_MAX + 1] = '\0';
	r.target = target;
	assert_int_equal(decode_raw(&r), -EBADMSG);
	target[BULK_PATH_MAX] = '\0';
	assert_int_equal(decode_raw(&r), 0);
	free(target);
}

/* A frame without room for an entry gets no part of it. */
static void test_whole_or_not(void **state)
{
	struct buf *b CLEANUP_BUF = buf_new(100);
	struct bulk_entry e = file_entry(), back;
	size_t len;

	assert_int_equal(bulk_entry_put(b, &e), 0);
	len = buf_len(b);
	assert_int_equal(bulk_entry_put(b, &e), -ENOBUFS);
	assert_int_equal(buf_len(b), len);
	assert_int_equal(bulk_entry_get(b, &back), 0);
}

/* Fields that a later minor version appends to an entry are skipped. */
static void test_appended(void **state)
{
	struct buf *b CLEANUP_BUF = buf_new(4096);
	struct bulk_entry e = file_entry(), back;

	assert_int_equal(bulk_entry_put(b, &e), 0);
	assert_int_equal(buf_put(b, "later", 5), 0);
	buf_poke_u32(b, 0, (uint32_t)buf_len(b) - 4);
	assert_int_equal(bulk_entry_get(b, &back), 0);
	check_same(&e, &back);
	assert_int_equal(buf_len(b), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_types),
		cmocka_unit_test(test_layout),
		cmocka_unit_test(test_ranges),
		cmocka_unit_test(test_range),
		cmocka_unit_test(test_ranges_most),
		cmocka_unit_test(test_ranges_refused),
		cmocka_unit_test(test_xattrs),
		cmocka_unit_test(test_xattrs_refused),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_names_on_wire),
		cmocka_unit_test(test_put_names),
		cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_too_short_inside),
		cmocka_unit_test(test_long_target),
		cmocka_unit_test(test_whole_or_not),
		cmocka_unit_test(test_appended),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
