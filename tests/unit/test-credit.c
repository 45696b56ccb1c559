// SPDX-License-Identifier: Apache-2.0
/* Credit records at both ends: blocks by number, answers by channel, and lists on the wire. */
#include "transport/credit.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- source ---- */

static void test_unacked_limits(void **state)
{
	struct unacked *u = unacked_new(2);
	struct block b[3] = { { .number = 7 }, { .number = 8 }, { .number = 9 } };
	struct block twin = { .number = 7 };

	(void)state;
	assert_int_equal(unacked_add(u, &b[0]), 0);
	assert_int_equal(unacked_add(u, &twin), -EEXIST);
	assert_int_equal(unacked_add(u, &b[1]), 0);
	assert_int_equal(unacked_add(u, &b[2]), -EAGAIN);
	assert_int_equal(unacked_count(u), 2);
	assert_ptr_equal(unacked_find(u, 8), &b[1]);
	assert_null(unacked_find(u, 9));
	assert_null(unacked_take(u, 9));
	assert_ptr_equal(unacked_take(u, 7), &b[0]);
	assert_null(unacked_take(u, 7));
	assert_int_equal(unacked_add(u, &b[2]), 0);
	assert_int_equal(unacked_count(u), 2);
	unacked_free(u);
	unacked_free(NULL);
}

#define MANY 300

/* Random additions and removals against a plain table. */
static void test_unacked_random(void **state)
{
	struct unacked *u = unacked_new(MANY / 2);
	struct block *b = calloc(MANY, sizeof(*b));
	bool inside[MANY] = { false };
	uint32_t count = 0, i, k;

	(void)state;
	srand(3);
	for (i = 0; i < MANY; i++) {
		/* Numbers with many kinds of hash collisions: dense, strided and far apart. */
		b[i].number = i % 3 == 0 ? i : i % 3 == 1 ? (uint64_t)i << 32 : (uint64_t)i << 20;
		b[i].channel = i % 5;
	}
	for (i = 0; i < 200000; i++) {
		k = (uint32_t)rand() % MANY;
		if (rand() % 2) {
			int want = count == MANY / 2 ? -EAGAIN : inside[k] ? -EEXIST : 0;

			assert_int_equal(unacked_add(u, &b[k]), want);
			if (!want) {
				inside[k] = true;
				count++;
			}
		} else {
			assert_ptr_equal(unacked_take(u, b[k].number), inside[k] ? &b[k] : NULL);
			count -= inside[k];
			inside[k] = false;
		}
		assert_int_equal(unacked_count(u), count);
		k = (uint32_t)rand() % MANY;
		assert_ptr_equal(unacked_find(u, b[k].number), inside[k] ? &b[k] : NULL);
	}
	unacked_free(u);
	free(b);
}

static void test_unacked_channel(void **state)
{
	struct unacked *u = unacked_new(MANY);
	struct block *b = calloc(MANY, sizeof(*b));
	const struct path_config c = { .source = true };
	struct path p = { 0 };
	struct path_event ev;
	uint32_t i, n = 0;

	(void)state;
	assert_int_equal(path_init(&p, NULL, &c, 1, false), 0);
	for (i = 0; i < MANY; i++) {
		b[i].number = (uint64_t)i << (i % 40);
		b[i].number += i;
		b[i].channel = i % 4;
		assert_int_equal(unacked_add(u, &b[i]), 0);
	}
	unacked_return(u, &p, 2);
	for (; path_take_events(&p, &ev, 1); n++) {
		assert_int_equal(ev.kind, PATH_RETURNED);
		assert_int_equal(ev.block->channel, 2);
	}
	assert_int_equal(n, MANY / 4);
	assert_int_equal(unacked_count(u), MANY - MANY / 4);
	unacked_return(u, &p, 2);
	assert_false(path_has_events(&p));
	path_destroy(&p);
	for (i = 0; i < MANY; i++)
		assert_ptr_equal(unacked_find(u, b[i].number), i % 4 == 2 ? NULL : &b[i]);
	unacked_free(u);
	free(b);
}

/* ---- sink ---- */

enum op { OPEN, ADD, TAKE, CLOSE };

/* One step on a credit_box of 2 channels and 2 credits, and its expected result. */
struct step {
	enum op op;
	uint32_t channel;
	uint64_t number;  /* ADD; TAKE: the maximum to take */
	int want;         /* TAKE: the first number taken; -1: none */
	uint32_t pending, unanswered; /* of the channel after the step */
};

static void run_steps(const struct step *s, size_t n)
{
	struct credit_box *x = credit_box_new(2, 2);
	struct credit c[8];
	size_t i;
	int got = 0;

	for (i = 0; i < n; i++) {
		switch (s[i].op) {
		case OPEN:
			got = credit_box_open(x, s[i].channel);
			break;
		case ADD:
			c[0] = (struct credit){ .number = s[i].number, .status = 5 };
			got = credit_box_add(x, s[i].channel, &c[0]);
			break;
		case TAKE:
			got = credit_box_take(x, s[i].channel, c, (uint32_t)s[i].number) ?
				(int)c[0].number : -1;
			break;
		case CLOSE:
			credit_box_close(x, s[i].channel);
			got = 0;
			break;
		}
		if (got != s[i].want || credit_box_pending(x, s[i].channel) != s[i].pending ||
		    credit_box_unanswered(x, s[i].channel) != s[i].unanswered)
			fail_msg("step %zu: %d, pending %u, unanswered %u", i, got,
				 credit_box_pending(x, s[i].channel),
				 credit_box_unanswered(x, s[i].channel));
	}
	credit_box_free(x);
}

static void test_box_rule(void **state)
{
	static const struct step steps[] = {
		{ TAKE, 0, 8, -1, 0, 0 },
		{ ADD, 0, 1, -EINVAL, 0, 0 },      /* no block was received */
		{ OPEN, 0, 0, 0, 0, 1 },
		{ OPEN, 1, 0, 0, 0, 1 },
		{ OPEN, 0, 0, 0, 0, 2 },
		{ OPEN, 0, 0, -EPROTO, 0, 2 },     /* the third of two credits */
		{ OPEN, 1, 0, 0, 0, 2 },           /* may be the same block, resent */
		{ OPEN, 1, 0, -EPROTO, 0, 2 },
		{ ADD, 0, 10, 0, 1, 2 },
		{ OPEN, 0, 0, -EPROTO, 1, 2 },     /* answered, but the answer is not sent */
		{ ADD, 0, 11, 0, 2, 2 },
		{ ADD, 0, 12, -EINVAL, 2, 2 },
		{ TAKE, 1, 8, -1, 0, 2 },          /* only the channel's own answers */
		{ TAKE, 0, 1, 10, 1, 1 },          /* in order, up to the limit */
		{ OPEN, 0, 0, 0, 1, 2 },
		{ OPEN, 0, 0, -EPROTO, 1, 2 },
		{ TAKE, 0, 8, 11, 0, 1 },
		{ TAKE, 0, 8, -1, 0, 1 },
	};

	(void)state;
	run_steps(steps, sizeof(steps) / sizeof(steps[0]));
}

static void test_box_close(void **state)
{
	static const struct step steps[] = {
		{ OPEN, 0, 0, 0, 0, 1 },
		{ OPEN, 0, 0, 0, 0, 2 },
		{ OPEN, 1, 0, 0, 0, 1 },
		{ ADD, 0, 1, 0, 1, 2 },
		{ CLOSE, 0, 0, 0, 0, 0 },
		{ ADD, 0, 2, -EPIPE, 0, 0 },       /* the channel is closed already */
		{ OPEN, 1, 0, 0, 0, 2 },
		{ ADD, 1, 3, 0, 1, 2 },
		{ ADD, 1, 4, 0, 2, 2 },
		{ TAKE, 1, 8, 3, 0, 0 },
	};

	(void)state;
	run_steps(steps, sizeof(steps) / sizeof(steps[0]));
}

/* Uses every slot many times to reveal a leaked one. */
static void test_box_reuse(void **state)
{
	struct credit_box *x = credit_box_new(3, 5);
	struct credit c, out[5];
	uint32_t i, k;

	(void)state;
	for (i = 0; i < 1000; i++) {
		for (k = 0; k < 5; k++) {
			c = (struct credit){ .number = 100 * i + k, .buffer = k, .status = i };
			assert_int_equal(credit_box_open(x, i % 3), 0);
			assert_int_equal(credit_box_add(x, i % 3, &c), 0);
		}
		assert_int_equal(credit_box_take(x, i % 3, out, 5), 5);
		for (k = 0; k < 5; k++) {
			assert_int_equal(out[k].number, 100 * i + k);
			assert_int_equal(out[k].buffer, k);
			assert_int_equal(out[k].status, i);
		}
	}
	credit_box_free(x);
	credit_box_free(NULL);
}

/* ---- lists ---- */

static void test_lists(void **state)
{
	uint8_t wire[CREDIT_LIST_BYTES];
	struct credit c[CREDITS_MAX] = { { .number = 1, .buffer = 2, .status = 3 } }, back;
	struct messages m = { 0 };
	uint32_t n;
	size_t size, len;

	(void)state;
	c[CREDITS_MAX - 1].number = 99;
	assert_int_equal(credit_list_put(&m, wire, c, CREDITS_MAX, &len), 0);
	assert_int_equal(len, CREDIT_LIST_BYTES);
	assert_int_equal(credit_list_peek(wire, MESSAGE_HEAD - 1, &n, &size), 0);
	assert_int_equal(credit_list_peek(wire, len - 1, &n, &size), 0);
	assert_int_equal(credit_list_peek(wire, len, &n, &size), 1);
	assert_int_equal(n, CREDITS_MAX);
	assert_int_equal(size, len);
	credit_list_at(wire, n - 1, &back);
	assert_int_equal(back.number, 99);
	assert_int_equal(credit_list_put(&m, wire, c, 0, &len), 0);
	assert_int_equal(len, MESSAGE_HEAD + MESSAGE_TAG);
	assert_int_equal(credit_list_peek(wire, len, &n, &size), 1);
	message_head_put(wire, CREDIT_MAGIC, &(struct message_head){ .count = CREDITS_MAX + 1 });
	assert_int_equal(credit_list_peek(wire, MESSAGE_HEAD, &n, &size), -EBADMSG);
	memset(wire, 'x', sizeof(wire));
	assert_int_equal(credit_list_peek(wire, sizeof(wire), &n, &size), -EBADMSG);
}

/* ---- damaged and hostile lists ---- */

#define LISTS 3

/* A source on channel 9 refuses `list` as the first list, but still accepts `next`. */
static void refuses(const uint8_t *key, const uint8_t *list, size_t len, const uint8_t *next)
{
	struct messages m;

	assert_int_equal(messages_open(&m, key, 9), 0);
	assert_int_equal(credit_list_check(&m, list, len), -EBADMSG);
	assert_int_equal(credit_list_check(&m, next, len), 0);
	messages_close(&m);
}

static void check_lists(const uint8_t *key)
{
	const struct credit c = { .number = 7, .buffer = 5 };
	uint8_t lists[LISTS][MESSAGE_HEAD + CREDIT_BYTES + MESSAGE_TAG], other[sizeof(lists[0])];
	const size_t len = sizeof(other);
	struct messages m;
	size_t size;

	assert_int_equal(messages_open(&m, key, 9), 0);
	for (int i = 0; i < LISTS; i++)
		assert_int_equal(credit_list_put(&m, lists[i], &c, 1, &size), 0);
	messages_close(&m);
	assert_int_equal(size, len);
	for (size_t bit = 0; bit < 8 * len; bit++) {
		memcpy(other, lists[0], len);
		other[bit / 8] ^= (uint8_t)(1 << bit % 8);
		refuses(key, other, len, lists[0]);
	}
	refuses(key, lists[1], len, lists[0]); /* the first one lost or late */
	assert_int_equal(messages_open(&m, key, 10), 0);
	assert_int_equal(credit_list_put(&m, other, &c, 1, &size), 0);
	messages_close(&m);
	refuses(key, other, len, lists[0]);    /* of another channel */

	assert_int_equal(messages_open(&m, key, 9), 0);
	assert_int_equal(credit_list_check(&m, lists[0], len), 0);
	assert_int_equal(credit_list_check(&m, lists[0], len), -EBADMSG); /* a repeat */
	assert_int_equal(credit_list_check(&m, lists[2], len), -EBADMSG);
	assert_int_equal(credit_list_check(&m, lists[1], len), 0);
	messages_close(&m);
}

static void test_lists_are_checked(void **state)
{
	static const uint8_t key[KEY_BYTES] = { 1, 2, 3 }, other_key[KEY_BYTES] = { 1, 2, 4 };
	const struct credit c = { .number = 7 };
	uint8_t list[MESSAGE_HEAD + CREDIT_BYTES + MESSAGE_TAG];
	struct messages m;
	size_t len;

	(void)state;
	check_lists(NULL);
	check_lists(key);
	assert_int_equal(messages_open(&m, other_key, 9), 0);
	assert_int_equal(credit_list_put(&m, list, &c, 1, &len), 0);
	messages_close(&m);
	assert_int_equal(messages_open(&m, key, 9), 0);
	assert_int_equal(credit_list_check(&m, list, len), -EBADMSG);
	messages_close(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unacked_limits),
		cmocka_unit_test(test_unacked_random),
		cmocka_unit_test(test_unacked_channel),
		cmocka_unit_test(test_box_rule),
		cmocka_unit_test(test_box_close),
		cmocka_unit_test(test_box_reuse),
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_lists_are_checked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
