// SPDX-License-Identifier: Apache-2.0
/* Lists of networks: their syntax, and the addresses they admit. */
#include "server/config/options.h"
#include "transport/transport.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void test_parse(void **state)
{
	static const struct { const char *text, *shown; } table[] = {
		{ "192.0.2.0/24", "192.0.2.0/24" }, { "192.0.2.7", "192.0.2.7/32" },
		{ "0.0.0.0/0", "0.0.0.0/0" }, { "2001:db8::/32", "2001:db8::/32" },
		{ "::1", "::1/128" }, { "::/0", "::/0" }, { "all", "all" },
		{ "255.255.255.255/32", "255.255.255.255/32" }, { "128.0.0.0/1", "128.0.0.0/1" },
		{ "::ffff:192.0.2.0/120", "192.0.2.0/24" },
		/* invalid */
		{ "", NULL }, { "192.0.2.0/33", NULL }, { "192.0.2.1/24", NULL },
		{ "2001:db8::1/64", NULL }, { "::/129", NULL }, { "192.0.2/24", NULL },
		{ "192.0.2.0/", NULL }, { "192.0.2.0/-1", NULL }, { "/8", NULL }, { "ALL", NULL },
		{ "localhost", NULL }, { "192.0.2.0/24/8", NULL }, { "fe80::1%eth0", NULL },
		{ "1111:2222:3333:4444:5555:6666:7777:8888:9999:1111:2222:3333:4444:5555", NULL },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct err e = ERR_INIT;
		char text[NETWORK_TEXT];
		struct network n;
		int rc = network_parse(table[i].text, &n, &e);

		if (rc != (table[i].shown ? 0 : -EINVAL))
			fail_msg("\"%s\": %d, %s", table[i].text, rc, e.text);
		assert_int_equal(!!*e.text, !table[i].shown);
		if (table[i].shown)
			assert_string_equal(network_text(&n, text), table[i].shown);
	}
}

static struct sockaddr_storage address(const char *text)
{
	struct sockaddr_storage a;

	assert_true(address_parse(text, &a) > 0);
	return a;
}

static void test_admit(void **state)
{
	static const struct { const char *allow, *refuse, *peer; bool yes; } table[] = {
		{ "", "", "192.0.2.1", true },
		{ "", "", "2001:db8::1", true },
		/* allowed networks */
		{ "192.0.2.0/24", "", "192.0.2.255", true },
		{ "192.0.2.0/24", "", "192.0.3.0", false },
		{ "192.0.2.0/24", "", "2001:db8::1", false },
		{ "192.0.2.0/24", "", "::ffff:192.0.2.1", true },
		{ "192.0.2.0/25", "", "192.0.2.127", true },
		{ "192.0.2.0/25", "", "192.0.2.128", false },
		{ "2001:db8::/33", "", "2001:db8:7fff::", true },
		{ "2001:db8::/33", "", "2001:db8:8000::", false },
		{ "10.0.0.0/8,2001:db8::/32", "", "2001:db8::1", true },
		{ "10.0.0.0/8 2001:db8::/32", "", "10.255.0.1", true },
		/* refused networks */
		{ "", "192.0.2.0/24", "192.0.2.1", false },
		{ "", "192.0.2.0/24", "192.0.3.1", true },
		{ "", "all", "192.0.2.1", false },
		{ "", "all", "::1", false },
		{ "", "0.0.0.0/0", "::1", true },
		{ "", "::/0", "192.0.2.1", true }, /* ::/0 does not contain IPv4 */
		{ "", "::/0", "::1", false },
		/* both: the longer prefix decides; equal ones refuse */
		{ "192.0.2.7", "192.0.2.0/24", "192.0.2.7", true },
		{ "192.0.2.7", "192.0.2.0/24", "192.0.2.8", false },
		{ "192.0.2.7", "192.0.2.0/24", "192.0.3.1", false },
		{ "192.0.2.0/24", "192.0.2.7", "192.0.2.7", false },
		{ "192.0.2.0/24", "192.0.2.7", "192.0.2.8", true },
		{ "192.0.2.0/24", "192.0.2.0/24", "192.0.2.8", false },
		{ "192.0.2.0/24", "all", "192.0.2.8", true },
		{ "192.0.2.0/24", "all", "192.0.3.8", false },
		{ "0.0.0.0/0", "all", "192.0.3.8", true },
		{ "all", "all", "192.0.3.8", false },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct networks allow = { 0 }, refuse = { 0 };
		struct sockaddr_storage peer = address(table[i].peer);

		assert_int_equal(networks_add(&allow, table[i].allow, NULL), 0);
		assert_int_equal(networks_add(&refuse, table[i].refuse, NULL), 0);
		if (networks_admit(&allow, &refuse, &peer) != table[i].yes)
			fail_msg("row %zu: allow \"%s\", refuse \"%s\", %s", i, table[i].allow,
				 table[i].refuse, table[i].peer);
		networks_clear(&allow);
		networks_clear(&refuse);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parse),
		cmocka_unit_test(test_admit),
	};

	return cmocka_run_group_tests_name("networks", tests, NULL, NULL);
}
