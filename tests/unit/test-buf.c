// SPDX-License-Identifier: Apache-2.0
/* The wire buffer: tables for its edge cases, and random operations against a plain array with the
 * expected content. */
#include "tests/support/bytes.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_round_trip(void **state)
{
	CLEANUP_BUF struct buf *b = buf_new(6);
	char out[4] = "";
	uint8_t u8;

	(void)state;
	assert_int_equal(buf_put(b, "\xab" "abc", 4), 0);
	assert_int_equal(buf_put(b, NULL, 0), 0);
	assert_int_equal(buf_put(b, "de", 2), 0);
	assert_int_equal(buf_len(b), 6);
	assert_memory_equal(buf_ptr(b), "\xab" "abcde", 6);
	assert_int_equal(buf_get_u8(b, &u8), 0);
	assert_int_equal(u8, 0xab);
	assert_int_equal(buf_get(b, out, 3), 0);
	assert_string_equal(out, "abc");
	assert_int_equal(buf_skip(b, 2), 0);
	assert_int_equal(buf_len(b), 0);
}

/* Too few bytes: an error, outputs cleared, the position unchanged. */
static void test_too_short(void **state)
{
	static const uint8_t wire[] = { 0, 0, 0, 9, 'x', 'y', 'z' };
	size_t n;

	(void)state;
	for (n = 0; n <= sizeof(wire); n++) {
		CLEANUP_BUF struct buf *b = bytes_of(wire, n);
		uint8_t raw[8] = "dirty", u8 = 1;

		assert_int_equal(buf_get(b, raw, sizeof(raw)), -EBADMSG);
		assert_memory_equal(raw, "\0\0\0\0\0\0\0", sizeof(raw));
		assert_int_equal(buf_skip(b, n + 1), -EBADMSG);
		assert_int_equal(buf_skip(b, SIZE_MAX), -EBADMSG);
		if (!n) {
			assert_int_equal(buf_get_u8(b, &u8), -EBADMSG);
			assert_int_equal(u8, 0);
		}
		assert_int_equal(buf_len(b), n);
	}
}

static void test_cap(void **state)
{
	CLEANUP_BUF struct buf *b = buf_new(6);
	uint8_t *room;

	(void)state;
	assert_int_equal(buf_put(b, "abcdefg", 7), -ENOBUFS);
	assert_int_equal(buf_reserve(b, SIZE_MAX, &room), -ENOBUFS);
	assert_null(room);
	assert_int_equal(buf_len(b), 0);
	assert_int_equal(buf_put(b, "abcdef", 6), 0);
	assert_int_equal(buf_put(b, "x", 1), -ENOBUFS);
	/* Bytes already read still count, because offsets start at the beginning. */
	assert_int_equal(buf_skip(b, 6), 0);
	assert_int_equal(buf_put(b, "x", 1), -ENOBUFS);
	buf_reset(b);
	assert_int_equal(buf_put(b, "x", 1), 0);
	assert_int_equal(buf_len(b), 1);
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
	uint8_t data[200];
	size_t len = rnd(sizeof(data)), i;
	int rc, expected = put_expected(m, len);

	for (i = 0; i < len; i++)
		data[i] = (uint8_t)rnd(256);
	rc = buf_put(b, data, len);
	assert_int_equal(rc, expected);
	if (rc == 0)
		model_put(m, data, len);
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

static void random_move(struct buf *b, struct model *m)
{
	size_t pos;

	if (!rnd(8)) {
		buf_reset(b);
		m->len = m->pos = 0;
		return;
	}
	pos = rnd((uint32_t)(m->len - m->pos) + 10);
	if (buf_skip(b, pos) == 0)
		m->pos += pos;
	else
		assert_true(pos > m->len - m->pos);
}

static void random_step(struct buf *b, struct model *m)
{
	static void (*const ops[])(struct buf *, struct model *) = {
		random_put, random_put, random_reserve, random_get, random_move,
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
		cmocka_unit_test(test_cap),
		cmocka_unit_test(test_free_null),
		cmocka_unit_test(test_random_operations),
	};

	return cmocka_run_group_tests_name("buf", tests, NULL, NULL);
}
