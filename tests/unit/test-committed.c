// SPDX-License-Identifier: Apache-2.0
/* The files that earlier attempts have committed: known after a recall, also on another host. */
#include "transfer/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { FILES = 200000 };

static void name_of(char name[32], unsigned i)
{
	snprintf(name, 32, "tree/%u", i);
}

static void assert_first(struct committed *c, unsigned n, unsigned of)
{
	for (unsigned i = 0; i < of; i++) {
		char name[32];

		name_of(name, i);
		assert_int_equal(committed_has(c, name), i < n);
	}
}

static void test_recall(void **state)
{
	struct committed *c = committed_new();

	(void)state;
	assert_non_null(c);
	committed_recall(c);
	assert_first(c, 0, 3);
	for (unsigned i = 0; i < FILES; i++) {
		char name[32];

		name_of(name, i);
		committed_add(c, name);
		/* Known from the next attempt on, not in the attempt that commits it. */
		if (i == 10)
			committed_recall(c);
	}
	assert_first(c, 11, 20);
	committed_recall(c);
	assert_first(c, FILES, FILES + 1000);
	committed_free(c);
}

static void test_frames(void **state)
{
	struct committed *c = committed_new(), *there = committed_new();
	struct buf *p CLEANUP_BUF = buf_new(BULK_FRAME_MAX);
	char path[] = "/tmp/test-committed.XXXXXX";
	int out = mkstemp(path), in = open(path, O_RDONLY | O_CLOEXEC);
	struct mstream *ms = ms_new(stream_plain(in, out));
	unsigned frames = 0;
	uint8_t type;

	(void)state;
	unlink(path);
	for (unsigned i = 0; i < FILES; i++) {
		char name[32];

		name_of(name, i);
		committed_add(c, name);
	}
	committed_recall(c);
	assert_int_equal(committed_send(c, ms), 0);
	while (!ms_read_frame(ms, &type, p, BULK_FRAME_MAX, 0)) {
		assert_int_equal(type, BULK_COMMITTED);
		assert_int_equal(committed_take(there, p), 0);
		frames++;
	}
	assert_int_equal(frames, 2);
	committed_recall(there);
	assert_first(there, FILES, FILES + 1000);
	buf_reset(p);
	assert_int_equal(buf_put(p, "1234567", 7), 0);
	assert_int_equal(committed_take(there, p), -EBADMSG);
	ms_free(ms);
	committed_free(c);
	committed_free(there);
	committed_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_recall),
		cmocka_unit_test(test_frames),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
