// SPDX-License-Identifier: Apache-2.0
/* How long processes for a stranger may take, however many he makes. The clock goes on by itself;
 * it is moved by moving what is measured by it. */
#include "server/deadlines.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define SECOND ((uint64_t)1000000000)

enum { LOGIN_S = 100, WAIT_MS = 16000, GATES = 16, EVER = 10000 };

static void move(uint64_t *until, uint64_t ns)
{
	if (*until)
		*until = *until > ns ? *until - ns : 1;
}

static void pass(struct conn *c, uint64_t ns)
{
	move(&c->front_until, ns);
	move(&c->gate_until, ns);
	move(&c->front_last, ns);
}

static bool is_late(const struct conn *c)
{
	return c->front_until && c->front_until <= now_ns();
}

/* Seconds that are left. */
static unsigned left(const struct conn *c)
{
	uint64_t now = now_ns();

	return c->front_until > now ? (unsigned)((c->front_until - now + SECOND / 2) / SECOND) : 0;
}

static void test_gates_are_no_time(void **state)
{
	struct conn c = { .used = true };
	unsigned s = 0;

	deadline_begin(&c, LOGIN_S * SECOND);
	assert_int_equal(left(&c), LOGIN_S + 10);
	for (int i = 0; i < GATES; i++) {
		deadline_check(&c, WAIT_MS, LOGIN_S * SECOND);
		for (unsigned k = 0; k < LOGIN_S - 1 && !is_late(&c); k++, s++)
			pass(&c, SECOND);
		deadline_checked(&c, false);
	}
	for (; s < EVER && !is_late(&c); s++)
		pass(&c, SECOND);
	assert_true(s > 2 * LOGIN_S);
	assert_true(s <= 2 * LOGIN_S + 10 + WAIT_MS / 1000 + 1);
}

/* An attempt that begins when the time for it is nearly over has all of its own. */
static void test_the_last_login_is_heard_of(void **state)
{
	struct conn c = { .used = true };

	deadline_begin(&c, LOGIN_S * SECOND);
	pass(&c, (LOGIN_S - 1) * SECOND);
	deadline_check(&c, WAIT_MS, LOGIN_S * SECOND);
	assert_int_equal(left(&c), LOGIN_S + 10);
	deadline_checked(&c, true);
	assert_int_equal(c.front_until, 0);
	assert_int_equal(c.gate_until, 0);
}

static void test_what_is_left_to_tell(void **state)
{
	struct conn c = { .used = true };
	struct conns t = { .slots = &c, .nslots = 1, .nused = 1 };

	deadline_begin(&c, LOGIN_S * SECOND);
	deadline_check(&c, 0, LOGIN_S * SECOND);
	deadline_checked(&c, true);
	deadline_over(&c, false);
	assert_int_equal(left(&c), 120);
	deadlines_stop(&t);
	assert_int_equal(left(&c), 40);
	pass(&c, 30 * SECOND);
	deadlines_stop(&t);
	assert_int_equal(left(&c), 10);
	deadline_over(&c, true);
	assert_int_equal(left(&c), 40);
}

static void test_who_is_not_in_says_goodbye(void **state)
{
	struct conn c = { .used = true };
	struct conns t = { .slots = &c, .nslots = 1, .nused = 1 };

	deadline_begin(&c, LOGIN_S * SECOND);
	deadline_check(&c, 0, LOGIN_S * SECOND);
	deadlines_stop(&t);
	assert_int_equal(left(&c), 3);
	assert_true(c.gate_until <= now_ns());
	deadline_checked(&c, false);
	assert_int_equal(left(&c), 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gates_are_no_time),
		cmocka_unit_test(test_the_last_login_is_heard_of),
		cmocka_unit_test(test_what_is_left_to_tell),
		cmocka_unit_test(test_who_is_not_in_says_goodbye),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
