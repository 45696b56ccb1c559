// SPDX-License-Identifier: Apache-2.0
/* The table of inodes, against a plain array with the expected content. */
#include "transfer/sets.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define INOS 512
#define DEVS 5
#define OPERATIONS 400000

static uint64_t random_inode(void)
{
	static uint64_t x = 88172645463325252u;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return x;
}

/* Inode numbers as filesystems assign them: dense, and far apart. */
static uint64_t ino_of(unsigned i)
{
	return i % 2 ? i : (uint64_t)i << 40 | 8;
}

static uint64_t dev_of(unsigned d)
{
	return d ? UINT64_MAX - d : 0;
}

static void test_against_model(void **state)
{
	static uint64_t model[DEVS][INOS]; /* id; 0: absent */
	struct inodes t = { 0 };
	uint64_t next_id = 1;
	size_t n = 0;

	(void)state;
	for (unsigned k = 0; k < OPERATIONS; k++) {
		/* The table fills and empties again. */
		bool growing = k / 50000 % 2 == 0;
		unsigned d = (unsigned)(random_inode() % DEVS), i = (unsigned)(random_inode() % INOS);
		struct inode *found = inodes_find(&t, dev_of(d), ino_of(i));

		assert_int_equal(found ? found->id : 0, model[d][i]);
		if (found && (!growing || random_inode() % 4 == 0)) {
			inodes_remove(&t, found);
			model[d][i] = 0;
			n--;
		} else if (!found && (growing || random_inode() % 4 == 0)) {
			found = inodes_add(&t, dev_of(d), ino_of(i), next_id);
			assert_non_null(found);
			assert_int_equal(found->left, 0);
			model[d][i] = next_id++;
			n++;
		}
		assert_int_equal(t.n, n);
	}
	for (unsigned d = 0; d < DEVS; d++)
		for (unsigned i = 0; i < INOS; i++) {
			struct inode *found = inodes_find(&t, dev_of(d), ino_of(i));

			assert_int_equal(found ? found->id : 0, model[d][i]);
		}
	inodes_clear(&t);
	assert_null(inodes_find(&t, 0, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_against_model),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
