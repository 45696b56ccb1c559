// SPDX-License-Identifier: Apache-2.0
/* Addresses that count as one host towards the limit of sessions per host. */
#include "server/server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct sockaddr_storage address(const char *text)
{
	struct sockaddr_storage out = { 0 };
	struct sockaddr_in *a4 = (void *)&out;
	struct sockaddr_in6 *a6 = (void *)&out;

	if (inet_pton(AF_INET, text, &a4->sin_addr) == 1) {
		out.ss_family = AF_INET;
	} else {
		assert_int_equal(inet_pton(AF_INET6, text, &a6->sin6_addr), 1);
		out.ss_family = AF_INET6;
	}
	return out;
}

static void test_same_host(void **state)
{
	static const struct {
		const char *a, *b;
		bool same;
	} cases[] = {
		{ "192.0.2.1", "192.0.2.1", true },
		{ "192.0.2.1", "192.0.2.2", false },
		{ "192.0.2.1", "::ffff:192.0.2.1", true },
		{ "::ffff:192.0.2.1", "::ffff:192.0.2.1", true },
		{ "::ffff:192.0.2.1", "::ffff:192.0.2.2", false },
		{ "::1", "::1", true },
		{ "::1", "::2", false },
		{ "::1", "127.0.0.1", false },
		{ "2001:db8:1:2::1", "2001:db8:1:2::1", true },
		{ "2001:db8:1:2::1", "2001:db8:1:2:ffff:ffff:ffff:ffff", true },
		{ "2001:db8:1:2::1", "2001:db8:1:3::1", false },
		{ "2001:db8:1:2::1", "192.0.2.1", false },
		{ "2001:db8:1:2::1", "::1", false },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct sockaddr_storage a = address(cases[i].a), b = address(cases[i].b);

		if (srv_same_host(&a, &b) != cases[i].same)
			fail_msg("%s, %s", cases[i].a, cases[i].b);
		assert_true(srv_same_host(&b, &a) == cases[i].same);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = { cmocka_unit_test(test_same_host) };

	return cmocka_run_group_tests_name("same host", tests, NULL, NULL);
}
