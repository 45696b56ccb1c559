// SPDX-License-Identifier: Apache-2.0
/* Deadlines of preauth processes, for any number of logins. The tests move the deadlines instead of
 * the clock. */
#include "server/monitor/monitor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define SECOND ((uint64_t)1000000000)

enum { LOGIN_S = 100, WAIT_MS = 16000, LOGINS = 16, EVER = 10000 };

static void move(uint64_t *until, uint64_t ns)
{
	if (*until)
		*until = *until > ns ? *until - ns : 1;
}

static void pass(struct conn *c, uint64_t ns)
{
	move(&c->deadline.preauth, ns);
	move(&c->deadline.auth, ns);
	move(&c->deadline.preauth_last, ns);
}

static bool is_late(const struct conn *c)
{
	return c->deadline.preauth && c->deadline.preauth <= now_ns();
}

/* Seconds until the deadline of the preauth process. */
static unsigned left(const struct conn *c)
{
	uint64_t now = now_ns();

	return c->deadline.preauth > now ? (unsigned)((c->deadline.preauth - now + SECOND / 2) / SECOND) : 0;
}

static void test_logins_do_not_extend_the_time(void **state)
{
	struct conn c = { .used = true };
	unsigned s = 0;

	deadline_begin(&c, LOGIN_S * SECOND);
	assert_int_equal(left(&c), LOGIN_S + 10);
	for (int i = 0; i < LOGINS; i++) {
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

/* A login attempt that starts shortly before the deadline gets the full time of an attempt. */
static void test_the_last_login_is_heard_of(void **state)
{
	struct conn c = { .used = true };

	deadline_begin(&c, LOGIN_S * SECOND);
	pass(&c, (LOGIN_S - 1) * SECOND);
	deadline_check(&c, WAIT_MS, LOGIN_S * SECOND);
	assert_int_equal(left(&c), LOGIN_S + 10);
	deadline_checked(&c, true);
	assert_int_equal(c.deadline.preauth, 0);
	assert_int_equal(c.deadline.auth, 0);
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

static void test_stop_before_the_login(void **state)
{
	struct conn c = { .used = true };
	struct conns t = { .slots = &c, .nslots = 1, .nused = 1 };

	deadline_begin(&c, LOGIN_S * SECOND);
	deadline_check(&c, 0, LOGIN_S * SECOND);
	deadlines_stop(&t);
	assert_int_equal(left(&c), 3);
	assert_true(c.deadline.auth <= now_ns());
	deadline_checked(&c, false);
	assert_int_equal(left(&c), 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_logins_do_not_extend_the_time),
		cmocka_unit_test(test_the_last_login_is_heard_of),
		cmocka_unit_test(test_what_is_left_to_tell),
		cmocka_unit_test(test_stop_before_the_login),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
