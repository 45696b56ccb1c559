// SPDX-License-Identifier: Apache-2.0
/* The user's settings for NUMA placement. */
#include "numa/numa.h"
#include "tests/support/sysfs.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void test_words(void **state)
{
	static const struct { const char *text; int r; enum place_mode mode; int node; } cases[] = {
		{ "auto", 0, PLACE_AUTO, 0 },        { "off", 0, PLACE_OFF, 0 },
		{ "nic", 0, PLACE_NIC, 0 },          { "storage", 0, PLACE_STORAGE, 0 },
		{ "node:0", 0, PLACE_NODE, 0 },      { "node:1023", 0, PLACE_NODE, 1023 },
		{ "node:1024", -EINVAL, 0, 0 },      { "node:", -EINVAL, 0, 0 },
		{ "node:-1", -EINVAL, 0, 0 },        { "node", -EINVAL, 0, 0 },
		{ "", -EINVAL, 0, 0 },               { "autos", -EINVAL, 0, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct place_wish w = { 0 };
		struct err e = ERR_INIT;

		if (place_wish_parse(&w, cases[i].text, &e) != cases[i].r)
			fail_msg("\"%s\": %s", cases[i].text, e.text);
		if (cases[i].r)
			assert_string_not_equal(e.text, "");
		else
			assert_true(w.mode == cases[i].mode && w.node == cases[i].node);
	}
}

static void test_nics(void **state)
{
	static const char list[] = "eth0=1,bond0.7=0,ib0=any";
	int node = 5;

	(void)state;
	assert_true(place_nic(list, "eth0", &node));
	assert_int_equal(node, 1);
	assert_true(place_nic(list, "bond0.7", &node));
	assert_int_equal(node, 0);
	assert_true(place_nic(list, "ib0", &node));
	assert_int_equal(node, NODE_UNKNOWN);
	node = 5;
	assert_false(place_nic(list, "eth", &node));
	assert_false(place_nic(list, "eth00", &node));
	assert_false(place_nic(NULL, "eth0", &node));
	assert_false(place_nic("", "eth0", &node));
	assert_int_equal(node, 5);
}

/* On the test machine with two nodes. */
static void test_check(void **state)
{
	static const struct { enum place_mode mode; int node; const char *nics, *wrong; } cases[] = {
		{ PLACE_AUTO, 0, NULL, NULL },
		{ PLACE_NODE, 1, NULL, NULL },
		{ PLACE_NODE, 2, NULL, "there is no node 2" },
		{ PLACE_AUTO, 2, NULL, NULL },
		{ PLACE_AUTO, 0, "eth0=1,eth1=any", NULL },
		{ PLACE_AUTO, 0, "eth0=2", "no node 2" },
		{ PLACE_AUTO, 0, "eth0=", "\"eth0=\"" },
		{ PLACE_AUTO, 0, "=1", "\"=1\"" },
		{ PLACE_AUTO, 0, "eth0", "\"eth0\"" },
		{ PLACE_AUTO, 0, "eth0=1,,", "CARD=NODE" },
		{ PLACE_AUTO, 0, "eth0=1,eth1=12345678901234567890", "CARD=NODE" },
	};

	(void)state;
	assert_int_equal(setenv("RFTP_SYSFS", sysfs_make("two"), 1), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct place_wish w = { cases[i].mode, cases[i].node, false, cases[i].nics };
		struct err e = ERR_INIT;
		int r = place_wish_check(&w, &e);

		assert_int_equal(r, cases[i].wrong ? -EINVAL : 0);
		if (cases[i].wrong && !strstr(e.text, cases[i].wrong))
			fail_msg("%s: \"%s\"", cases[i].wrong, e.text);
	}
	unsetenv("RFTP_SYSFS");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_nics),
		cmocka_unit_test(test_check),
	};

	return cmocka_run_group_tests_name("wish", tests, tmp_setup, tmp_teardown);
}
