// SPDX-License-Identifier: Apache-2.0
/* The cost of failed logins. The host waits longer after each failure until it is refused. The user
 * waits little, and not at all on hosts of its own logins. All of it expires, and memory is bounded
 * even in a flood. */
#include "server/monitor/monitor.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 64, MINUTE = 60 * 1000 };

static const uint64_t start = 1000000000;

static struct sockaddr_storage host(const char *text)
{
	struct sockaddr_storage out = { 0 };
	struct sockaddr_in *a4 = (void *)&out;
	struct sockaddr_in6 *a6 = (void *)&out;

	out.ss_family = strchr(text, ':') ? AF_INET6 : AF_INET;
	assert_int_equal(inet_pton(out.ss_family, text, out.ss_family == AF_INET6 ?
				   (void *)&a6->sin6_addr : (void *)&a4->sin_addr), 1);
	return out;
}

static struct sockaddr_storage numbered(unsigned i)
{
	char text[32];

	snprintf(text, sizeof(text), "10.%u.%u.%u", i >> 16 & 255, i >> 8 & 255, i & 255);
	return host(text);
}

static int setup(void **state)
{
	*state = penalty_new(MOST);
	return *state ? 0 : -1;
}

static int teardown(void **state)
{
	penalty_free(*state);
	penalty_free(NULL);
	return 0;
}

/* Each failure doubles the wait up to its maximum; then the host is refused. */
static void test_host(void **state)
{
	static const int waits[PENALTY_HOST_MAX + 1] = {
		0, 1000, 2000, 4000, 8000, 16000, 16000, 16000, 16000, 16000, PENALTY_REFUSED,
	};
	struct sockaddr_storage bad = host("192.0.2.1"), good = host("192.0.2.2");
	struct penalty *p = *state;
	char user[16];

	for (int i = 0; i <= PENALTY_HOST_MAX; i++) {
		assert_int_equal(penalty_ask(p, start, &bad, "new"), waits[i]);
		assert_int_equal(penalty_ask(p, start, &good, "new"), 0);
		snprintf(user, sizeof(user), "u%d", i); /* the user names do not matter */
		penalty_failed(p, start, &bad, user);
	}
	assert_int_equal(penalty_ask(p, start, &bad, "new"), PENALTY_REFUSED);
}

static void test_forgiven(void **state)
{
	struct sockaddr_storage bad = host("192.0.2.1");
	struct penalty *p = *state;

	for (int i = 0; i < PENALTY_HOST_MAX; i++)
		penalty_failed(p, start, &bad, "alice");
	assert_int_equal(penalty_ask(p, start + MINUTE - 1, &bad, "bob"), PENALTY_REFUSED);
	assert_int_equal(penalty_ask(p, start + MINUTE, &bad, "bob"), 16000);
	assert_int_equal(penalty_ask(p, start + 8 * MINUTE, &bad, "bob"), 2000);
	assert_int_equal(penalty_ask(p, start + 10 * MINUTE, &bad, "bob"), 0);
	assert_int_equal(penalty_ask(p, start + 10 * MINUTE, &bad, "alice"), 0);
}

/* However many failures there were, the penalty expires after the last one. */
static void test_end(void **state)
{
	struct sockaddr_storage bad = host("192.0.2.1");
	struct penalty *p = *state;
	uint64_t now = start;

	for (int i = 0; i < 10000; i++)
		penalty_failed(p, now++, &bad, "alice");
	assert_int_equal(penalty_ask(p, now + 19 * MINUTE, &bad, "bob"), PENALTY_REFUSED);
	assert_true(penalty_ask(p, now + 21 * MINUTE, &bad, "bob") >= 0);
	assert_int_equal(penalty_ask(p, now + 31 * MINUTE, &bad, "bob"), 0);
}

/* Many hosts fail for one user. The user then waits at other hosts, but is never locked out, and
 * does not wait at a host it has logged in from. */
static void test_user(void **state)
{
	struct sockaddr_storage home = host("192.0.2.1"), other = host("192.0.2.2"), h;
	struct penalty *p = *state;
	int last = 0;

	penalty_succeeded(p, start, &home, "alice");
	for (unsigned i = 0; i < 1000; i++) {
		int wait = penalty_ask(p, start + i, &other, "alice");

		assert_in_range(wait, last, PENALTY_USER_WAIT_MS);
		last = wait;
		h = numbered(i);
		penalty_failed(p, start + i, &h, "alice");
	}
	assert_int_equal(last, PENALTY_USER_WAIT_MS);
	assert_int_equal(penalty_ask(p, start + 1000, &home, "alice"), 0);
	assert_int_equal(penalty_ask(p, start + 1000, &home, "bob"), 0);
	assert_int_equal(penalty_ask(p, start + 1000, &other, "bob"), 0);
	/* A login of bob there does not shorten alice's wait elsewhere. */
	penalty_succeeded(p, start, &home, "bob");
	assert_int_equal(penalty_ask(p, start + 1000, &other, "alice"), PENALTY_USER_WAIT_MS);
	/* The user's own failures there count as usual. */
	penalty_failed(p, start + 1000, &home, "alice");
	assert_int_equal(penalty_ask(p, start + 1000, &home, "alice"), 1000);
}

static void test_slips_are_free(void **state)
{
	struct sockaddr_storage a = host("192.0.2.1"), b = host("192.0.2.2");
	struct penalty *p = *state;

	for (int i = 0; i < 3; i++)
		penalty_failed(p, start, &a, "alice");
	assert_int_equal(penalty_ask(p, start, &b, "alice"), 0);
	penalty_failed(p, start, &a, "alice");
	assert_int_equal(penalty_ask(p, start, &b, "alice"), 250);
}

/* Otherwise an attacker with an account could use it to guess others' passwords. */
static void test_success_forgives_nothing(void **state)
{
	struct sockaddr_storage bad = host("192.0.2.1");
	struct penalty *p = *state;

	for (int i = 0; i < PENALTY_HOST_MAX; i++) {
		penalty_failed(p, start, &bad, "alice");
		penalty_succeeded(p, start, &bad, "mallory");
	}
	assert_int_equal(penalty_ask(p, start, &bad, "mallory"), PENALTY_REFUSED);
}

static void test_one_host_of_ipv6(void **state)
{
	struct sockaddr_storage h = host("2001:db8:1:2::2"), other = host("2001:db8:1:3::1");
	struct penalty *p = *state;
	char text[64];

	for (int i = 0; i < PENALTY_HOST_MAX; i++) {
		struct sockaddr_storage one;

		snprintf(text, sizeof(text), "2001:db8:1:2::%x", 100 + i);
		one = host(text);
		penalty_failed(p, start, &one, "alice");
	}
	assert_int_equal(penalty_ask(p, start, &h, "bob"), PENALTY_REFUSED);
	assert_int_equal(penalty_ask(p, start, &other, "bob"), 0);
}

/* New hosts and new users fail without end, each fewer times than the first host. */
static void test_flood(void **state)
{
	struct sockaddr_storage bad = host("192.0.2.1"), home = host("192.0.2.2"), h;
	struct penalty *p = *state;
	char user[16];

	for (int i = 0; i < PENALTY_HOST_MAX + 2; i++)
		penalty_failed(p, start, &bad, "alice");
	penalty_succeeded(p, start, &home, "alice");
	for (unsigned i = 0; i < 50 * MOST; i++) {
		h = numbered(i);
		snprintf(user, sizeof(user), "u%u", i);
		for (int n = 0; n < 3; n++)
			penalty_failed(p, start + 1, &h, user);
	}
	assert_int_equal(penalty_ask(p, start + 1, &bad, "bob"), PENALTY_REFUSED);
	assert_true(penalty_ask(p, start + 1, &h, "alice") > 1000); /* alice's record is kept too */
	assert_int_equal(penalty_ask(p, start + 1, &home, "alice"), 0);
}

/* The table of hosts known by logins is bounded: the last logins stay. */
static void test_known_are_bounded(void **state)
{
	struct sockaddr_storage home = host("192.0.2.2"), h;
	struct penalty *p = *state;
	char user[16];

	penalty_succeeded(p, start, &home, "alice");
	for (unsigned i = 0; i < MOST - 1; i++) {
		snprintf(user, sizeof(user), "u%u", i);
		penalty_succeeded(p, start + 1 + i, &home, user);
	}
	for (unsigned i = 0; i < 20; i++) {
		h = numbered(i);
		penalty_failed(p, start + MOST, &h, "alice");
		penalty_failed(p, start + MOST, &h, "u0");
	}
	assert_int_equal(penalty_ask(p, start + MOST, &home, "alice"), 0);
	penalty_succeeded(p, start + MOST, &home, "one more");
	assert_true(penalty_ask(p, start + MOST, &home, "alice") > 0);
	assert_int_equal(penalty_ask(p, start + MOST, &home, "u0"), 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(test_host),
		TEST(test_forgiven),
		TEST(test_end),
		TEST(test_user),
		TEST(test_slips_are_free),
		TEST(test_success_forgives_nothing),
		TEST(test_one_host_of_ipv6),
		TEST(test_flood),
		TEST(test_known_are_bounded),
	};

	return cmocka_run_group_tests_name("penalty", tests, NULL, NULL);
}
