// SPDX-License-Identifier: Apache-2.0
/* Options and words of a command, by its table. */
#include "util/util.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define MOST 80

struct values {
	bool json;
	const char *out;
	unsigned count;
	uint64_t size;
	struct tool_list portals;
};

static const struct tool_option options[] = {
	TOOL_JSON(struct values),
	{ "out", TOOL_TEXT, offsetof(struct values, out), "FILE", "", 0, 0 },
	{ "count", TOOL_COUNT, offsetof(struct values, count), "N", "", 1, 9 },
	{ "size", TOOL_SIZE, offsetof(struct values, size), "SIZE", "", 1, 1 << 20 },
	{ "portal", TOOL_LIST, offsetof(struct values, portals), "ADDRESS", "", 0, 0 },
	{ 0 }
};

/* line: words apart by blanks, the first the command's name; it must outlive v and w. */
static enum tool_status take(char *line, struct values *v, struct tool_words *w)
{
	static char *argv[MOST + 1];
	int argc = 0;
	bool helped;

	for (char *word = strtok(line, " "); word && argc < MOST; word = strtok(NULL, " "))
		argv[argc++] = word;
	argv[argc] = NULL;
	*v = (struct values){ 0 };
	return tool_options_words(argc, argv, "", options, v, w, &helped);
}

static void test_each_kind(void **state)
{
	char line[] = "x --json --out a --count 9 --size 4K --portal p --portal q";
	struct values v;

	(void)state;
	assert_int_equal(take(line, &v, NULL), TOOL_DONE);
	assert_true(v.json);
	assert_string_equal(v.out, "a");
	assert_int_equal(v.count, 9);
	assert_int_equal(v.size, 4096);
	assert_int_equal(v.portals.n, 2);
	assert_string_equal(v.portals.word[1], "q");
}

static void test_what_is_wrong(void **state)
{
	static const char *const lines[] = {
		"x --count 0", "x --count 10", "x --size 2M", "x --size", "x --nothing", "x -z",
		"x --json=1", "x word",
	};
	struct values v;

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		char line[64];

		strcpy(line, lines[i]);
		assert_int_equal(take(line, &v, NULL), TOOL_USAGE);
	}
}

static void test_words(void **state)
{
	static const struct {
		const char *line;
		enum tool_status status;
		unsigned n;
	} cases[] = {
		{ "x", TOOL_USAGE, 0 },
		{ "x plan", TOOL_DONE, 1 },
		{ "x plan --json dir", TOOL_DONE, 2 },
		{ "x plan -- --json", TOOL_DONE, 2 },
		{ "x plan dir more", TOOL_USAGE, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct tool_words w = { .names = "PLAN [DIR]", .least = 1, .most = 2 };
		struct values v;
		char line[64];

		strcpy(line, cases[i].line);
		assert_int_equal(take(line, &v, &w), cases[i].status);
		if (cases[i].status == TOOL_DONE) {
			assert_int_equal(w.n, cases[i].n);
			assert_string_equal(w.word[0], "plan");
			assert_null(w.word[w.n]);
		}
	}
}

static void test_a_list_has_an_end(void **state)
{
	char line[16 * (TOOL_LIST_MOST + 1)] = "x";
	struct values v;

	(void)state;
	for (unsigned i = 0; i < TOOL_LIST_MOST; i++)
		strcat(line, " --portal=p");
	assert_int_equal(take(line, &v, NULL), TOOL_DONE);
	assert_int_equal(v.portals.n, TOOL_LIST_MOST);
	strcpy(line, "x");
	for (unsigned i = 0; i <= TOOL_LIST_MOST; i++)
		strcat(line, " --portal=p");
	assert_int_equal(take(line, &v, NULL), TOOL_USAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_kind),
		cmocka_unit_test(test_what_is_wrong),
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_a_list_has_an_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
