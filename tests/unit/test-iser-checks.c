// SPDX-License-Identifier: Apache-2.0
/* Is there the memory that steps are going to fill? */
#include "iser_setup/checks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/support/sysfs.h"

#define GIB (1ll << 30)

static void test_memory(void **state)
{
	static const struct {
		const char *sysfs;
		struct iser_step steps[2];
		const char *words; /* of the problem; NULL: there is none */
	} table[] = {
		/* It has some 7.8 GiB. */
		{ "one", { { .node = 0, .strictly = true, .memory = GIB } }, NULL },
		{ "one", { { .node = 0, .strictly = true, .memory = 9 * GIB } }, "of node 0" },
		{ "one", { { .node = 0, .memory = 9 * GIB } }, "of this host" },
		{ "one", { { .node = NODE_UNKNOWN, .memory = 9 * GIB } }, "of this host" },
		{ "one", { { .node = 0, .memory = 9 * GIB }, { .node = 0, .memory = -2 * GIB } },
		  NULL },
		/* 64 MiB and 49 MiB */
		{ "two", { { .node = 0, .memory = 100 << 20 } }, NULL },
		{ "two", { { .node = 0, .memory = 120 << 20 } }, "of this host" },
		{ "two", { { .node = 0, .memory = INT64_MAX / 512 * 512 },
			   { .node = 1, .memory = INT64_MAX / 512 * 512 } }, "of this host" },
		{ "two", { { .node = 0, .strictly = true, .memory = INT64_MAX },
			   { .node = 0, .strictly = true, .memory = INT64_MAX } }, "of node 0" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct lines problems CLEANUP_LINES = { 0 };
		struct iser_step v[2] = { table[i].steps[0], table[i].steps[1] };
		struct topo *t = sysfs_topo(table[i].sysfs);

		v[0].text = v[1].text = (char *)"a step";
		check_memory(&(struct checks){ .t = t, .problems = &problems },
			     &(struct iser_steps){ .v = v, .n = 2 });
		if (problems.n != (table[i].words ? 1 : 0))
			fail_msg("%zu: %zu problems", i, problems.n);
		if (table[i].words && !strstr(problems.v[0], table[i].words))
			fail_msg("%zu: %s", i, problems.v[0]);
		topo_free(t);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_memory) };

	return cmocka_run_group_tests(tests, tmp_setup, tmp_teardown);
}
