// SPDX-License-Identifier: Apache-2.0
/* A memory budget shared by sessions: it never gives more than it has, a user without memory gets
 * some, and each user gets one share, however many sessions it has. */
#include "server/monitor/monitor.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MB ((uint64_t)1 << 20)

enum { SLOTS = 4096 };

static struct conn slots[SLOTS];
static const struct conns all = { .slots = slots, .nslots = SLOTS };

static struct budget *new_budget(uint64_t total, uint64_t least, uint64_t most)
{
	static struct budget b;

	memset(slots, 0, sizeof(slots));
	budget_init(&b, least, most);
	budget_resize(&b, total);
	return &b;
}

/* Sets a session's memory to `bytes`; returns the code, and the new size in *has. */
static int change_of(struct budget *s, uint64_t id, const char *user, uint64_t bytes, uint64_t *has)
{
	struct conn *c = &slots[id % SLOTS];
	struct err e = ERR_INIT;
	int rc;

	c->used = true;
	snprintf(c->account, sizeof(c->account), "%s", user);
	rc = budget_change(s, &all, c, bytes, &e);
	*has = c->memory;
	assert_true((rc < 0) == (*e.text != '\0'));
	return rc;
}

static int change(struct budget *s, uint64_t id, uint64_t bytes, uint64_t *has)
{
	return change_of(s, id, "alice", bytes, has);
}

/* A new session wants at most `want` bytes (0: all that it can get). */
static uint64_t take(struct budget *s, uint64_t id, const char *user, uint64_t want)
{
	uint64_t got = 77;
	int rc;

	assert_int_equal(slots[id % SLOTS].memory, 0);
	rc = change_of(s, id, user, !want ? UINT64_MAX : want < 4096 ? want : want & ~4095ull, &got);
	if (rc == -EAGAIN) {
		assert_int_equal(got, 0);
		return 0;
	}
	assert_int_equal(rc, 0);
	assert_true(got > 0);
	return got;
}

static void give_back(struct budget *s, uint64_t id)
{
	uint64_t has = 77;

	assert_int_equal(change(s, id, 0, &has), 0);
	assert_int_equal(has, 0);
}

static void test_first(void **state)
{
	struct budget *s = new_budget(1024 * MB, 4 * MB, 0);

	assert_int_equal(take(s, 1, "alice", 0), 256 * MB);
	assert_int_equal(take(s, 2, "bob", 0), 192 * MB);
	assert_int_equal(budget_given(&all, NULL), 448 * MB);
	assert_int_equal(budget_given(&all, "bob"), 192 * MB);
	assert_int_equal(budget_given(&all, "carol"), 0);
	give_back(s, 1);
	give_back(s, 1);
	assert_int_equal(budget_given(&all, NULL), 192 * MB);
	give_back(s, 2);
	assert_int_equal(take(s, 3, "alice", 0), 256 * MB);
}

static void test_bounds(void **state)
{
	struct budget *s = new_budget(1024 * MB, 4 * MB, 100 * MB);

	assert_int_equal(take(s, 1, "alice", 0), 100 * MB);
	assert_int_equal(take(s, 2, "bob", 30 * MB + 5), 30 * MB);
	assert_int_equal(take(s, 3, "carol", 1), 4 * MB);
	s = new_budget(3 * MB, 4 * MB, 0);
	assert_int_equal(take(s, 1, "alice", 0), 0);
	s = new_budget(4 * MB, 4 * MB, 1);
	assert_int_equal(take(s, 1, "alice", 0), 4 * MB);
	assert_int_equal(take(s, 2, "bob", 0), 0);
}

/* One user with many sessions leaves half of the budget to others. */
static void test_greedy(void **state)
{
	struct budget *s = new_budget(1024 * MB, 4 * MB, 0);
	uint64_t sessions = 0, others = 0;
	char user[16];

	while (take(s, sessions, "greedy", 0))
		sessions++;
	assert_true(sessions > 4);
	assert_in_range(budget_given(&all, "greedy"), 500 * MB, 512 * MB);
	assert_true(take(s, 1000, "alice", 0) >= 128 * MB);
	/* Further users get all the rest. */
	do
		snprintf(user, sizeof(user), "u%u", (unsigned)others);
	while (take(s, 2000 + others++, user, 0));
	assert_true(budget_given(&all, NULL) > 1020 * MB);
}

/* Three users always ask for more, each with more sessions than fit. Over time their shares become
 * about equal, though the first user began with all it could get. */
static void test_even(void **state)
{
	static const char *const users[] = { "alice", "bob", "carol" };
	struct budget *s = new_budget(1024 * MB, MB, 0);
	uint64_t id = 0, oldest = 0;

	while (take(s, id, users[0], 0))
		id++;
	for (int round = 0; round < 3000; round++) {
		give_back(s, oldest++);
		for (int i = 0; i < 3; i++)
			if (take(s, id, users[(round + i) % 3], 0))
				id++;
	}
	for (int i = 0; i < 3; i++) {
		uint64_t part = budget_given(&all, users[i]);

		if (part < 1024 * MB / 8 || part > 1024 * MB / 2)
			fail_msg("%s has %llu MB", users[i], (unsigned long long)(part / MB));
	}
}

static void test_smaller_budget(void **state)
{
	struct budget *s = new_budget(1024 * MB, 4 * MB, 0);

	assert_int_equal(take(s, 1, "alice", 0), 256 * MB);
	budget_resize(s, 128 * MB);
	assert_int_equal(take(s, 2, "bob", 0), 0);
	assert_int_equal(budget_given(&all, "alice"), 256 * MB);
	give_back(s, 1);
	assert_int_equal(take(s, 2, "bob", 0), 32 * MB);
}

/* ---- random sessions ---- */

enum { IDS = 200, USERS = 12 };

struct world {
	struct budget *s;
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
		/* A user without memory is refused only if less than the minimum is left. */
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
		w.s = new_budget(w.budget, w.least, w.most);
		for (int i = 0; i < 3000; i++) {
			int id = rand() % IDS;

			if (w.held[id]) {
				give_back(w.s, (uint64_t)id);
				w.held[id] = 0;
			} else {
				step_take(&w, id, rand() % USERS,
					  rand() % 2 ? 0 : (uint64_t)rand() % (80 * MB));
			}
			assert_true(all_held(&w, -1) <= w.budget);
			assert_int_equal(budget_given(&all, NULL), all_held(&w, -1));
		}
		for (int id = 0; id < IDS; id++)
			give_back(w.s, (uint64_t)id);
		assert_int_equal(budget_given(&all, NULL), 0);
	}
}

static void test_change(void **state)
{
	struct budget *s = new_budget(64 * MB, MB, 8 * MB);
	uint64_t has = 77;

	assert_int_equal(budget_most(s), 8 * MB);
	assert_int_equal(change(s, 1, 0, &has), 0);
	assert_int_equal(has, 0);
	assert_int_equal(change(s, 1, 3 * MB - 1, &has), 0);
	assert_int_equal(has, 3 * MB);
	assert_int_equal(change(s, 1, 5 * MB, &has), 0);
	assert_int_equal(has, 5 * MB);
	assert_int_equal(budget_given(&all, "alice"), 5 * MB);
	/* Never more than the maximum for one session, however often it asks. */
	assert_int_equal(change(s, 1, UINT64_MAX, &has), 0);
	assert_int_equal(has, 8 * MB);
	assert_int_equal(change(s, 1, 9 * MB, &has), -EAGAIN);
	assert_int_equal(has, 8 * MB);
	assert_int_equal(change(s, 1, 2 * MB, &has), 0);
	assert_int_equal(has, 2 * MB);
	assert_int_equal(budget_given(&all, NULL), 2 * MB);
	assert_int_equal(change(s, 1, 0, &has), 0);
	assert_int_equal(budget_given(&all, NULL), 0);
}

/* Many sessions of one user ask for a little each, and get it until the user's share is used up. */
static void test_many(void **state)
{
	struct budget *s = new_budget(1024 * MB, MB, 0);
	uint64_t has, n = 0;

	assert_int_equal(budget_most(s), 256 * MB);
	while (n < 1000 && change(s, n + 1, 6 * MB, &has) == 0 && has == 6 * MB)
		n++;
	assert_true(n >= 64);
	while (n < 1000 && change(s, n + 1, 6 * MB, &has) == 0)
		n++;
	assert_true(n < 1000);
	assert_int_equal(has, 0);
	assert_true(budget_given(&all, NULL) <= 512 * MB);
	assert_int_equal(change(s, 1, 0, &has), 0);
	assert_int_equal(change(s, 1, MB, &has), 0);
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

	return cmocka_run_group_tests_name("budget", tests, NULL, NULL);
}
