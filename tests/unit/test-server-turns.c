// SPDX-License-Identifier: Apache-2.0
/* The order of logins: fair among hosts, with a limited number of password checks at once. */
#include "server/monitor/monitor.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { MANY = 100, PATIENCE_MS = 60000, NOW = 1000 };

struct scene {
	struct conn slots[MANY];
	struct conns all;
	struct turns t;
	unsigned n;
};

static void begin(struct scene *s, unsigned most)
{
	*s = (struct scene){ .t = { .most = most, .patience = PATIENCE_MS } };
	s->all = (struct conns){ .slots = s->slots, .nslots = MANY };
}

/* A login from 10.0.0.host. */
static struct conn *come(struct scene *s, unsigned host, bool check)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(0x0a000000 + host) };
	struct conn *c = &s->slots[s->n++];

	c->used = true;
	memcpy(&c->ends.peer, &in, sizeof(in));
	turn_ask(&s->t, &s->all, c, check, NOW);
	return c;
}

/* The check runs in an auth process, as in the monitor. */
static void begin_check(struct scene *s, struct conn *c)
{
	turn_begin(&s->t, c);
	c->preauth.state = STATE_WAITING;
}

static void end_check(struct conn *c)
{
	c->preauth.state = STATE_PREAUTH;
}

static struct conn *next(struct scene *s)
{
	int rest;
	struct conn *c = turns_next(&s->t, &s->all, NOW, &rest);

	if (c)
		begin_check(s, c);
	return c;
}

static void test_a_login_waits_for_one_of_each_host(void **state)
{
	struct scene s;
	struct conn *honest;

	begin(&s, 1);
	for (unsigned i = 0; i < 60; i++)
		come(&s, 1 + i % 3, true);
	for (unsigned i = 0; i < 30; i++)
		end_check(next(&s));
	honest = come(&s, 9, true);
	for (unsigned i = 0; i < 4; i++) {
		struct conn *c = next(&s);

		if (c == honest)
			return;
		end_check(c);
	}
	fail();
}

/* Hosts that try again right after each reply do not keep another host out. */
static void test_hosts_that_come_again(void **state)
{
	enum { HOSTS = 20 };
	struct scene s;
	struct conn *honest, *c;
	unsigned waited = 0;

	begin(&s, 1);
	for (unsigned i = 0; i < HOSTS; i++)
		come(&s, i, true);
	honest = &s.slots[MANY - 1];
	for (unsigned i = 0; i < 3 * HOSTS + HOSTS / 2; i++) {
		c = next(&s);
		end_check(c);
		turn_ask(&s.t, &s.all, c, true, NOW);
	}
	s.n = MANY - 1;
	assert_ptr_equal(come(&s, 99, true), honest);
	while ((c = next(&s)) != honest) {
		waited++;
		end_check(c);
		turn_ask(&s.t, &s.all, c, true, NOW);
	}
	assert_true(waited <= HOSTS);
}

static void test_order_of_one_host(void **state)
{
	struct scene s;

	begin(&s, 1);
	for (unsigned i = 0; i < 5; i++)
		come(&s, 1, true);
	for (unsigned i = 0; i < 5; i++) {
		assert_ptr_equal(next(&s), &s.slots[i]);
		assert_null(next(&s));
		end_check(&s.slots[i]);
	}
	assert_null(next(&s));
}

static void test_a_host_has_half_at_most(void **state)
{
	struct scene s;
	struct conn *other, *anonymous;

	begin(&s, 4);
	for (unsigned i = 0; i < 10; i++)
		come(&s, 1, true);
	assert_non_null(next(&s));
	assert_non_null(next(&s));
	assert_null(next(&s));
	other = come(&s, 2, true);
	assert_ptr_equal(next(&s), other);
	anonymous = come(&s, 1, false); /* an anonymous login needs no password check */
	assert_ptr_equal(next(&s), anonymous);
	assert_null(next(&s));
	end_check(&s.slots[0]);
	assert_ptr_equal(next(&s), &s.slots[2]);
}

static void test_all_at_once(void **state)
{
	struct scene s;

	begin(&s, 4);
	for (unsigned i = 0; i < 10; i++)
		come(&s, i, true);
	for (unsigned i = 0; i < 4; i++)
		assert_ptr_equal(next(&s), &s.slots[i]);
	assert_null(next(&s));
	end_check(&s.slots[1]);
	assert_ptr_equal(next(&s), &s.slots[4]);
	assert_null(next(&s));
}

static void test_times(void **state)
{
	struct conn *c;
	struct scene s;
	int rest;

	begin(&s, 1);
	assert_null(turns_next(&s.t, &s.all, NOW, &rest));
	assert_int_equal(rest, -1);
	c = come(&s, 1, true);
	c->turn.ready = NOW + 500;
	assert_null(turns_next(&s.t, &s.all, NOW, &rest));
	assert_int_equal(rest, 500);
	assert_ptr_equal(turns_next(&s.t, &s.all, NOW + 500, &rest), c);
	begin_check(&s, c);
	/* The patience starts after the delay. */
	c = come(&s, 2, true);
	c->turn.ready = NOW + 500;
	assert_null(turns_next(&s.t, &s.all, NOW + 501, &rest));
	assert_int_equal(rest, PATIENCE_MS - 1);
	assert_false(turn_is_late(&s.t, c, NOW + 500 + PATIENCE_MS - 1));
	assert_true(turn_is_late(&s.t, c, NOW + 500 + PATIENCE_MS));
	assert_ptr_equal(turns_next(&s.t, &s.all, NOW + 500 + PATIENCE_MS, &rest), c);
}

static void test_the_auth_process_before(void **state)
{
	struct conn *c;
	struct scene s;

	begin(&s, 1);
	c = come(&s, 1, true);
	c->session.pid = 1;
	assert_null(next(&s));
	c->session.pid = 0;
	assert_ptr_equal(next(&s), c);
}

static void test_settings(void **state)
{
	struct srv_options o = { .max_checks = 7, .login_timeout = 2000000000 };
	struct turns t = { 0 };

	turns_change(&t, &o);
	assert_int_equal(t.most, 7);
	assert_int_equal(t.patience, 2000);
	o.max_checks = 0;
	turns_change(&t, &o);
	assert_in_range(t.most, 1, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_login_waits_for_one_of_each_host),
		cmocka_unit_test(test_hosts_that_come_again),
		cmocka_unit_test(test_order_of_one_host),
		cmocka_unit_test(test_a_host_has_half_at_most),
		cmocka_unit_test(test_all_at_once),
		cmocka_unit_test(test_times),
		cmocka_unit_test(test_the_auth_process_before),
		cmocka_unit_test(test_settings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
