// SPDX-License-Identifier: Apache-2.0
/* A budget of memory among sessions: never more than there is, something for whoever has
 * nothing, and one part for a user however many sessions he has. */
#include "server/share.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MB ((uint64_t)1 << 20)

static uint64_t take(struct share *s, uint64_t id, const char *user, uint64_t want)
{
	struct err e = ERR_INIT;
	uint64_t got = 77;
	int rc = share_take(s, id, user, want, &got, &e);

	if (rc == -EAGAIN) {
		assert_int_equal(got, 0);
		assert_true(*e.text != '\0');
		return 0;
	}
	assert_int_equal(rc, 0);
	assert_true(got > 0);
	return got;
}

static void test_first(void **state)
{
	struct share *s = share_new(1024 * MB, 4 * MB, 0);

	assert_int_equal(take(s, 1, "alice", 0), 256 * MB);
	assert_int_equal(take(s, 2, "bob", 0), 192 * MB);
	assert_int_equal(share_given(s, NULL), 448 * MB);
	assert_int_equal(share_given(s, "bob"), 192 * MB);
	assert_int_equal(share_given(s, "carol"), 0);
	share_return(s, 1);
	share_return(s, 1);
	assert_int_equal(share_given(s, NULL), 192 * MB);
	share_return(s, 2);
	assert_int_equal(take(s, 3, "alice", 0), 256 * MB);
	share_free(s);
	share_free(NULL);
}

static void test_bounds(void **state)
{
	struct share *s = share_new(1024 * MB, 4 * MB, 100 * MB);

	assert_int_equal(take(s, 1, "alice", 0), 100 * MB);
	assert_int_equal(take(s, 2, "bob", 30 * MB + 5), 30 * MB);
	assert_int_equal(take(s, 3, "carol", 1), 4 * MB);
	share_free(s);
	s = share_new(3 * MB, 4 * MB, 0);
	assert_int_equal(take(s, 1, "alice", 0), 0);
	share_free(s);
	s = share_new(4 * MB, 4 * MB, 1);
	assert_int_equal(take(s, 1, "alice", 0), 4 * MB);
	assert_int_equal(take(s, 2, "bob", 0), 0);
	share_free(s);
}

/* One user with all the sessions he likes leaves a half to others. */
static void test_greedy(void **state)
{
	struct share *s = share_new(1024 * MB, 4 * MB, 0);
	uint64_t sessions = 0, others = 0;
	char user[16];

	while (take(s, sessions, "greedy", 0))
		sessions++;
	assert_true(sessions > 4);
	assert_in_range(share_given(s, "greedy"), 500 * MB, 512 * MB);
	assert_true(take(s, 1000, "alice", 0) >= 128 * MB);
	/* All that is left is of use to somebody. */
	do
		snprintf(user, sizeof(user), "u%u", (unsigned)others);
	while (take(s, 2000 + others++, user, 0));
	assert_true(share_given(s, NULL) > 1020 * MB);
	share_free(s);
}

/* Three who always want more, each with more sessions than he gets: over time their parts are
 * about the same, though the first had taken what there was. */
static void test_even(void **state)
{
	static const char *const users[] = { "alice", "bob", "carol" };
	struct share *s = share_new(1024 * MB, MB, 0);
	uint64_t id = 0, oldest = 0;

	while (take(s, id, users[0], 0))
		id++;
	for (int round = 0; round < 3000; round++) {
		share_return(s, oldest++);
		for (int i = 0; i < 3; i++)
			if (take(s, id, users[(round + i) % 3], 0))
				id++;
	}
	for (int i = 0; i < 3; i++) {
		uint64_t part = share_given(s, users[i]);

		if (part < 1024 * MB / 8 || part > 1024 * MB / 2)
			fail_msg("%s has %llu MB", users[i], (unsigned long long)(part / MB));
	}
	share_free(s);
}

static void test_smaller_budget(void **state)
{
	struct share *s = share_new(1024 * MB, 4 * MB, 0);

	assert_int_equal(take(s, 1, "alice", 0), 256 * MB);
	share_budget(s, 128 * MB);
	assert_int_equal(take(s, 2, "bob", 0), 0);
	assert_int_equal(share_given(s, "alice"), 256 * MB);
	share_return(s, 1);
	assert_int_equal(take(s, 2, "bob", 0), 32 * MB);
	share_free(s);
}

/* ---- whatever comes and goes ---- */

enum { IDS = 200, USERS = 12 };

struct world {
	struct share *s;
	uint64_t budget, least, most, held[IDS];
	int user[IDS];
};

static uint64_t all_held(const struct world *w, int user)
{
	uint64_t sum = 0;

	for (int i = 0; i < IDS; i++)
		sum += user < 0 || w->user[i] == user ? w->held[i] : 0;
	return sum;
}

static void step_take(struct world *w, int id, int user, uint64_t want)
{
	uint64_t left = w->budget - all_held(w, -1), own = all_held(w, user);
	char name[16];

	snprintf(name, sizeof(name), "u%d", user);
	w->user[id] = user;
	w->held[id] = take(w->s, (uint64_t)id, name, want);
	if (!w->held[id]) {
		/* Not to who has nothing, and there is something. */
		assert_true(own || left < w->least);
		return;
	}
	assert_true(w->held[id] >= w->least && w->held[id] <= w->most);
	assert_int_equal(w->held[id] % 4096, 0);
	assert_true(!want || w->held[id] <= want || w->held[id] == w->least);
	if (own)
		assert_true(own + w->held[id] <= left - w->held[id]);
}

static void test_any(void **state)
{
	for (unsigned seed = 1; seed <= 40; seed++) {
		struct world w = { .budget = (1 + seed * 37 % 500) * MB, .least = 2 * MB,
				   .most = 64 * MB };

		srand(seed);
		w.s = share_new(w.budget, w.least, w.most);
		for (int i = 0; i < 3000; i++) {
			int id = rand() % IDS;

			if (w.held[id]) {
				share_return(w.s, (uint64_t)id);
				w.held[id] = 0;
			} else {
				step_take(&w, id, rand() % USERS,
					  rand() % 2 ? 0 : (uint64_t)rand() % (80 * MB));
			}
			assert_true(all_held(&w, -1) <= w.budget);
			assert_int_equal(share_given(w.s, NULL), all_held(&w, -1));
		}
		for (int id = 0; id < IDS; id++)
			share_return(w.s, (uint64_t)id);
		assert_int_equal(share_given(w.s, NULL), 0);
		share_free(w.s);
	}
}

/* To have bytes in all: the code, and what it is then. */
static int change(struct share *s, uint64_t id, uint64_t bytes, uint64_t *has)
{
	struct err e = ERR_INIT;
	int rc = share_change(s, id, "alice", bytes, has, &e);

	assert_true((rc < 0) == (*e.text != '\0'));
	return rc;
}

static void test_change(void **state)
{
	struct share *s = share_new(64 * MB, MB, 8 * MB);
	uint64_t has = 77;

	assert_int_equal(share_most(s), 8 * MB);
	assert_int_equal(change(s, 1, 0, &has), 0);
	assert_int_equal(has, 0);
	assert_int_equal(change(s, 1, 3 * MB - 1, &has), 0);
	assert_int_equal(has, 3 * MB);
	assert_int_equal(change(s, 1, 5 * MB, &has), 0);
	assert_int_equal(has, 5 * MB);
	assert_int_equal(share_given(s, "alice"), 5 * MB);
	/* Never more than a session may have, however often it asks. */
	assert_int_equal(change(s, 1, UINT64_MAX, &has), 0);
	assert_int_equal(has, 8 * MB);
	assert_int_equal(change(s, 1, 9 * MB, &has), -EAGAIN);
	assert_int_equal(has, 8 * MB);
	assert_int_equal(change(s, 1, 2 * MB, &has), 0);
	assert_int_equal(has, 2 * MB);
	assert_int_equal(share_given(s, NULL), 2 * MB);
	assert_int_equal(change(s, 1, 0, &has), 0);
	assert_int_equal(share_given(s, NULL), 0);
	share_free(s);
}

/* Many sessions of one user that want little: each gets it while there is some for him. */
static void test_many(void **state)
{
	struct share *s = share_new(1024 * MB, MB, 0);
	uint64_t has, n = 0;

	assert_int_equal(share_most(s), 256 * MB);
	while (n < 1000 && change(s, n + 1, 6 * MB, &has) == 0 && has == 6 * MB)
		n++;
	assert_true(n >= 64);
	while (n < 1000 && change(s, n + 1, 6 * MB, &has) == 0)
		n++;
	assert_true(n < 1000);
	assert_int_equal(has, 0);
	assert_true(share_given(s, NULL) <= 512 * MB);
	assert_int_equal(change(s, 1, 0, &has), 0);
	assert_int_equal(change(s, 1, MB, &has), 0);
	share_free(s);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_greedy),
		cmocka_unit_test(test_even),
		cmocka_unit_test(test_smaller_budget),
		cmocka_unit_test(test_any),
		cmocka_unit_test(test_change),
		cmocka_unit_test(test_many),
	};

	return cmocka_run_group_tests_name("share", tests, NULL, NULL);
}
