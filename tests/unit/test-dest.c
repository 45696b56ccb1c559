// SPDX-License-Identifier: Apache-2.0
/* The destination rule as a table: each kind of destination with each kind of source. */
#include "transfer/transfer.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { FILE_ = 0, DIR_ = 1, DIR_SLASH = 2 }; /* a source: file, SRC, SRC/ */

struct row {
	bool slash, exists, is_dir, several;
	int source;
	int result;          /* 0 or the errno */
	enum dest_kind place;
	bool make;
};

static const struct row rows[] = {
	/* DST is missing */
	{ 0, 0, 0, 0, FILE_, 0, DEST_AS, false },
	{ 0, 0, 0, 0, DIR_, 0, DEST_CONTENTS, true },        /* creates DST */
	{ 0, 0, 0, 0, DIR_SLASH, 0, DEST_CONTENTS, true },
	/* DST/ is missing */
	{ 1, 0, 0, 0, FILE_, 0, DEST_INTO, true },
	{ 1, 0, 0, 0, DIR_, 0, DEST_INTO, true },
	{ 1, 0, 0, 0, DIR_SLASH, 0, DEST_CONTENTS, true },
	/* DST is a file */
	{ 0, 1, 0, 0, FILE_, 0, DEST_AS, false },
	{ 0, 1, 0, 0, DIR_, -ENOTDIR, 0, 0 },
	{ 0, 1, 0, 0, DIR_SLASH, -ENOTDIR, 0, 0 },
	/* DST/ is a file */
	{ 1, 1, 0, 0, FILE_, -ENOTDIR, 0, 0 },
	{ 1, 1, 0, 0, DIR_, -ENOTDIR, 0, 0 },
	{ 1, 1, 0, 0, DIR_SLASH, -ENOTDIR, 0, 0 },
	/* DST is a directory: the same as on the first run */
	{ 0, 1, 1, 0, FILE_, 0, DEST_INTO, false },
	{ 0, 1, 1, 0, DIR_, 0, DEST_CONTENTS, false },       /* merges into DST */
	{ 0, 1, 1, 0, DIR_SLASH, 0, DEST_CONTENTS, false },
	/* DST/ is a directory */
	{ 1, 1, 1, 0, FILE_, 0, DEST_INTO, false },
	{ 1, 1, 1, 0, DIR_, 0, DEST_INTO, false },
	{ 1, 1, 1, 0, DIR_SLASH, 0, DEST_CONTENTS, false },
	/* several sources need DST/ */
	{ 0, 0, 0, 1, FILE_, -EINVAL, 0, 0 },
	{ 0, 0, 0, 1, DIR_, -EINVAL, 0, 0 },
	{ 0, 0, 0, 1, DIR_SLASH, -EINVAL, 0, 0 },
	{ 0, 1, 0, 1, FILE_, -ENOTDIR, 0, 0 },
	{ 0, 1, 0, 1, DIR_, -ENOTDIR, 0, 0 },
	{ 0, 1, 1, 1, FILE_, -EINVAL, 0, 0 },
	{ 0, 1, 1, 1, DIR_, -EINVAL, 0, 0 },
	{ 1, 0, 0, 1, FILE_, 0, DEST_INTO, true },
	{ 1, 0, 0, 1, DIR_, 0, DEST_INTO, true },
	{ 1, 0, 0, 1, DIR_SLASH, 0, DEST_CONTENTS, true },
	{ 1, 1, 0, 1, FILE_, -ENOTDIR, 0, 0 },
	{ 1, 1, 0, 1, DIR_, -ENOTDIR, 0, 0 },
	{ 1, 1, 1, 1, FILE_, 0, DEST_INTO, false },
	{ 1, 1, 1, 1, DIR_, 0, DEST_INTO, false },
	{ 1, 1, 1, 1, DIR_SLASH, 0, DEST_CONTENTS, false },
};

static void test_table(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *w = &rows[i];
		struct dest d = { w->slash, w->exists, w->is_dir, w->several };
		enum dest_kind place = DEST_AS;
		struct err e = ERR_INIT;
		bool make = false;
		int r = dest_resolve(&d, "DST", w->source != FILE_, w->source == DIR_SLASH,
				     &place, &make, &e);

		if (r != w->result || (!r && (place != w->place || make != w->make)))
			fail_msg("row %zu: %d place %d make %d", i, r, place, make);
		assert_int_equal(e.code, r);
		if (r)
			assert_non_null(strstr(e.text, "DST"));
	}
}

/* Control characters in a name from the peer must not reach the terminal. */
static void test_message_is_printable(void **state)
{
	struct dest d = { .exists = true };
	enum dest_kind place;
	struct err e = ERR_INIT;
	bool make;

	(void)state;
	assert_int_equal(dest_resolve(&d, "x\033[2J", true, false, &place, &make, &e), -ENOTDIR);
	assert_null(strchr(e.text, '\033'));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_message_is_printable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
