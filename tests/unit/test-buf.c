// SPDX-License-Identifier: Apache-2.0
/* The wire buffer: tables for its edges, and random operations against a plain
 * array that says what must be in it. */
#include "util/buf.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_round_trip(void **state)
{
	static const uint8_t wire[] = {
		0xab, 0x12, 0x34, 0xde, 0xad, 0xbe, 0xef,
		1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 3, 'a', 'b', 'c', 0, 0, 0, 0,
	};
	CLEANUP_BUF struct buf *b = buf_new(sizeof(wire));
	const uint8_t *view;
	uint64_t u64;
	uint32_t u32;
	uint16_t u16;
	uint8_t u8;
	size_t len;
	char *s;

	(void)state;
	assert_int_equal(buf_put_u8(b, 0xab), 0);
	assert_int_equal(buf_put_u16(b, 0x1234), 0);
	assert_int_equal(buf_put_u32(b, 0xdeadbeef), 0);
	assert_int_equal(buf_put_u64(b, 0x0102030405060708), 0);
	assert_int_equal(buf_put_cstring(b, "abc"), 0);
	assert_int_equal(buf_put_string(b, NULL, 0), 0);
	assert_int_equal(buf_len(b), sizeof(wire));
	assert_memory_equal(buf_ptr(b), wire, sizeof(wire));

	assert_int_equal(buf_get_u8(b, &u8), 0);
	assert_int_equal(u8, 0xab);
	assert_int_equal(buf_get_u16(b, &u16), 0);
	assert_int_equal(u16, 0x1234);
	assert_int_equal(buf_get_u32(b, &u32), 0);
	assert_int_equal(u32, 0xdeadbeef);
	assert_int_equal(buf_get_u64(b, &u64), 0);
	assert_true(u64 == 0x0102030405060708);
	assert_int_equal(buf_get_cstring(b, &s, 3), 0);
	assert_string_equal(s, "abc");
	free(s);
	assert_int_equal(buf_get_view(b, &view, &len, 0), 0);
	assert_int_equal(len, 0);
	assert_int_equal(buf_len(b), 0);
}

/* Whatever is missing: an error, outputs cleared, the position unmoved. */
static void test_too_short(void **state)
{
	static const uint8_t wire[] = { 0, 0, 0, 9, 'x', 'y', 'z' };
	size_t n;

	(void)state;
	for (n = 0; n <= sizeof(wire); n++) {
		CLEANUP_BUF struct buf *b = buf_from(wire, n);
		const uint8_t *view = wire;
		uint8_t raw[8] = "dirty";
		uint64_t u64 = 1;
		uint32_t u32 = 1;
		uint16_t u16 = 1;
		uint8_t u8 = 1;
		size_t len = 1;
		char *s = (char *)raw;

		assert_int_equal(buf_get_u64(b, &u64), -EBADMSG);
		assert_true(u64 == 0);
		assert_int_equal(buf_get(b, raw, sizeof(raw)), -EBADMSG);
		assert_memory_equal(raw, "\0\0\0\0\0\0\0", sizeof(raw));
		assert_int_equal(buf_get_view(b, &view, &len, 100), -EBADMSG);
		assert_null(view);
		assert_int_equal(len, 0);
		assert_int_equal(buf_get_cstring(b, &s, 100), -EBADMSG);
		assert_null(s);
		assert_int_equal(buf_skip(b, n + 1), -EBADMSG);
		assert_int_equal(buf_skip(b, SIZE_MAX), -EBADMSG);
		assert_int_equal(buf_tell(b), 0);
		if (n < 4) {
			assert_int_equal(buf_get_u32(b, &u32), -EBADMSG);
			assert_int_equal(u32, 0);
		}
		if (n < 2) {
			assert_int_equal(buf_get_u16(b, &u16), -EBADMSG);
			assert_int_equal(u16, 0);
		}
		if (n < 1) {
			assert_int_equal(buf_get_u8(b, &u8), -EBADMSG);
			assert_int_equal(u8, 0);
		}
		assert_int_equal(buf_tell(b), 0);
		assert_int_equal(buf_len(b), n);
	}
}

static void test_strings_of_strangers(void **state)
{
	static const struct {
		const char *wire;
		size_t len, max;
		int rc;
	} cases[] = {
		{ "\0\0\0\3abc", 7, 3, 0 },
		{ "\0\0\0\3abc", 7, 2, -EBADMSG },           /* over the cap */
		{ "\0\0\0\4abc", 7, 100, -EBADMSG },         /* one byte short */
		{ "\377\377\377\377abc", 7, SIZE_MAX, -EBADMSG },
		{ "\377\377\377\374abc", 7, SIZE_MAX, -EBADMSG }, /* 4 + n wraps in 32 bits */
		{ "\0\0\0\3a\0c", 7, 3, -EBADMSG },          /* would be cut at the NUL */
		{ "\0\0\0\1\0", 5, 3, -EBADMSG },
		{ "\0\0\0\0", 4, 0, 0 },
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		CLEANUP_BUF struct buf *b = buf_from(cases[i].wire, cases[i].len);
		char *s;

		assert_int_equal(buf_get_cstring(b, &s, cases[i].max), cases[i].rc);
		assert_int_equal(buf_tell(b), cases[i].rc ? 0 : cases[i].len);
		assert_int_equal(s != NULL, cases[i].rc == 0);
		free(s);
	}
}

static void test_cap(void **state)
{
	CLEANUP_BUF struct buf *b = buf_new(6);
	uint8_t *room;

	(void)state;
	assert_int_equal(buf_put_u64(b, 1), -ENOBUFS);
	assert_int_equal(buf_put(b, "abcdefg", 7), -ENOBUFS);
	assert_int_equal(buf_put_string(b, "abc", 3), -ENOBUFS);
	assert_int_equal(buf_put_string(b, "", SIZE_MAX), -ENOBUFS);
	assert_int_equal(buf_reserve(b, SIZE_MAX, &room), -ENOBUFS);
	assert_null(room);
	assert_int_equal(buf_len(b), 0);
	assert_int_equal(buf_put_string(b, "ab", 2), 0);
	assert_int_equal(buf_put_u8(b, 1), -ENOBUFS);
	/* What was read still counts: offsets are from the beginning. */
	assert_int_equal(buf_skip(b, 6), 0);
	assert_int_equal(buf_put_u8(b, 1), -ENOBUFS);
	buf_reset(b);
	assert_int_equal(buf_put_u8(b, 1), 0);
	assert_int_equal(buf_len(b), 1);
}

static void test_view_is_read_only(void **state)
{
	static const char text[] = "abcdefgh";
	CLEANUP_BUF struct buf *b = buf_from(text, 8);
	uint8_t *room;

	(void)state;
	assert_int_equal(buf_put_u8(b, 1), -EROFS);
	assert_int_equal(buf_put_string(b, "x", 1), -EROFS);
	assert_int_equal(buf_reserve(b, 1, &room), -EROFS);
	assert_int_equal(buf_poke_u32(b, 0, 1), -EROFS);
	assert_int_equal(buf_len(b), 8);
	assert_ptr_equal(buf_ptr(b), text);
}

static void test_seek_and_poke(void **state)
{
	CLEANUP_BUF struct buf *b = buf_new(100);
	uint32_t v;

	(void)state;
	assert_int_equal(buf_poke_u32(b, 0, 1), -EINVAL);
	assert_int_equal(buf_put_u32(b, 0), 0);
	assert_int_equal(buf_put_u8(b, 7), 0);
	assert_int_equal(buf_poke_u32(b, 2, 1), -EINVAL);
	assert_int_equal(buf_poke_u32(b, SIZE_MAX, 1), -EINVAL);
	assert_int_equal(buf_poke_u32(b, 0, 0xcafe), 0);
	assert_int_equal(buf_get_u32(b, &v), 0);
	assert_int_equal(v, 0xcafe);
	buf_seek(b, 0);
	assert_int_equal(buf_len(b), 5);
	buf_seek(b, 1000); /* no further than the end */
	assert_int_equal(buf_len(b), 0);
	assert_int_equal(buf_tell(b), 5);
}

static void test_free_null(void **state)
{
	(void)state;
	buf_free(NULL);
}

/* ---- random operations ---- */

enum { MODEL_MAX = 3000, STEPS = 4000, SEEDS = 25 };

struct model {
	uint8_t bytes[MODEL_MAX];
	size_t len, pos, max;
};

static uint64_t seed;

static uint32_t rnd(uint32_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return below ? (uint32_t)(seed >> 32) % below : 0;
}

static void check_invariants(const struct buf *b, const struct model *m)
{
	assert_int_equal(buf_tell(b), m->pos);
	assert_int_equal(buf_len(b), m->len - m->pos);
	if (m->len > m->pos)
		assert_memory_equal(buf_ptr(b), m->bytes + m->pos, m->len - m->pos);
}

static void model_put(struct model *m, const void *data, size_t len)
{
	memcpy(m->bytes + m->len, data, len);
	m->len += len;
}

static int put_expected(const struct model *m, size_t len)
{
	return len > m->max - m->len ? -ENOBUFS : 0;
}

static void random_put(struct buf *b, struct model *m)
{
	static const size_t widths[] = { 1, 2, 4, 8 };
	uint8_t wire[8];
	uint64_t v = (uint64_t)rnd(UINT32_MAX) << 32 | rnd(UINT32_MAX);
	size_t pick = rnd(4), width = widths[pick], i;
	int rc, expected = put_expected(m, width);

	for (i = 0; i < width; i++)
		wire[i] = (uint8_t)(v >> 8 * (width - 1 - i));
	rc = pick == 0 ? buf_put_u8(b, (uint8_t)v) :
	     pick == 1 ? buf_put_u16(b, (uint16_t)v) :
	     pick == 2 ? buf_put_u32(b, (uint32_t)v) : buf_put_u64(b, v);
	assert_int_equal(rc, expected);
	if (rc == 0)
		model_put(m, wire, width);
}

static void random_put_string(struct buf *b, struct model *m)
{
	uint8_t data[4 + 200];
	size_t len = rnd(200), i;
	int rc, expected = put_expected(m, len + 4);

	put_be32(data, (uint32_t)len);
	for (i = 0; i < len; i++)
		data[4 + i] = (uint8_t)rnd(256);
	rc = buf_put_string(b, data + 4, len);
	assert_int_equal(rc, expected);
	if (rc == 0)
		model_put(m, data, len + 4);
}

static void random_reserve(struct buf *b, struct model *m)
{
	size_t len = rnd(64);
	uint8_t *room, fill[64];
	int rc = buf_reserve(b, len, &room);

	assert_int_equal(rc, put_expected(m, len));
	if (rc || !len)
		return;
	memset(fill, (int)rnd(256), len);
	memcpy(room, fill, len);
	model_put(m, fill, len);
}

static void random_get(struct buf *b, struct model *m)
{
	size_t len = rnd(100);
	uint8_t out[100];
	int rc = buf_get(b, out, len);

	assert_int_equal(rc, len > m->len - m->pos ? -EBADMSG : 0);
	if (rc)
		return;
	assert_memory_equal(out, m->bytes + m->pos, len);
	m->pos += len;
}

static void random_get_view(struct buf *b, struct model *m)
{
	size_t left = m->len - m->pos, len, n = 0, max = rnd(250);
	const uint8_t *p;
	bool good = left >= 4;
	int rc;

	if (good) {
		n = get_be32(m->bytes + m->pos);
		good = n <= max && n <= left - 4;
	}
	rc = buf_get_view(b, &p, &len, max);
	assert_int_equal(rc, good ? 0 : -EBADMSG);
	assert_int_equal(len, good ? n : 0);
	if (!good)
		return;
	assert_memory_equal(p, m->bytes + m->pos + 4, n);
	m->pos += 4 + n;
}

static void random_poke(struct buf *b, struct model *m)
{
	size_t pos = rnd((uint32_t)m->len + 8);
	uint32_t v = rnd(UINT32_MAX);
	bool good = pos + 4 <= m->len;

	assert_int_equal(buf_poke_u32(b, pos, v), good ? 0 : -EINVAL);
	if (good)
		put_be32(m->bytes + pos, v);
}

static void random_move(struct buf *b, struct model *m)
{
	size_t pos;

	switch (rnd(8)) {
	case 0:
		buf_reset(b);
		m->len = m->pos = 0;
		break;
	case 1:
		pos = rnd(10);
		if (buf_skip(b, pos) == 0)
			m->pos += pos;
		else
			assert_true(pos > m->len - m->pos);
		break;
	default:
		pos = rnd((uint32_t)m->len + 10);
		buf_seek(b, pos);
		m->pos = pos < m->len ? pos : m->len;
	}
}

static void random_step(struct buf *b, struct model *m)
{
	static void (*const ops[])(struct buf *, struct model *) = {
		random_put, random_put, random_put_string, random_put_string, random_reserve,
		random_get, random_get_view, random_poke, random_move,
	};

	ops[rnd(sizeof(ops) / sizeof(ops[0]))](b, m);
}

static void test_random_operations(void **state)
{
	static struct model m;
	struct buf *b;
	int i, step;

	(void)state;
	for (i = 1; i <= SEEDS; i++) {
		seed = (uint64_t)i * 0x9e3779b97f4a7c15;
		memset(&m, 0, sizeof(m));
		m.max = rnd(MODEL_MAX + 1);
		b = buf_new(m.max);
		assert_non_null(b);
		for (step = 0; step < STEPS; step++) {
			random_step(b, &m);
			check_invariants(b, &m);
		}
		buf_free(b);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_too_short),
		cmocka_unit_test(test_strings_of_strangers),
		cmocka_unit_test(test_cap),
		cmocka_unit_test(test_view_is_read_only),
		cmocka_unit_test(test_seek_and_poke),
		cmocka_unit_test(test_free_null),
		cmocka_unit_test(test_random_operations),
	};

	return cmocka_run_group_tests_name("buf", tests, NULL, NULL);
}
