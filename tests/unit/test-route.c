// SPDX-License-Identifier: Apache-2.0
/* The interface of the route to an address. tests/e2e/numa-topo.sh sets up routes of its own. */
#include "numa/topo.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void test_none(void **state)
{
	static const char *const wrong[] = {
		"", "default", "(null)", "storage.example.com", "127.0.0.1 ", "127.1", "[::1]",
		"127.0.0.1:3260", "fe80::1%lo",
	};
	char ifname[IF_NAMESIZE] = "x";

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		if (route_netdev(wrong[i], ifname) != -EINVAL)
			fail_msg("\"%s\" goes by %s", wrong[i], ifname);
		assert_string_equal(ifname, "");
	}
}

static void test_loopback(void **state)
{
	char ifname[IF_NAMESIZE];

	(void)state;
	assert_int_equal(route_netdev("127.0.0.1", ifname), 0);
	assert_string_equal(ifname, "lo");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_none),
		cmocka_unit_test(test_loopback),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
