// SPDX-License-Identifier: Apache-2.0
/* The facts of listings, listed by FEAT and selected by OPTS MLST (RFC 3659 §7.8, §7.9). */
#include "control/server/session.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define ALL (FACT_TYPE | FACT_SIZE | FACT_MODIFY | FACT_MODE | FACT_UID | FACT_GID)

static void test_text(void **state)
{
	char out[128];

	(void)state;
	facts_text(out, ALL, false);
	assert_string_equal(out, "type;size;modify;UNIX.mode;UNIX.owner;UNIX.group;");
	facts_text(out, FACT_SIZE | FACT_GID, false);
	assert_string_equal(out, "size;UNIX.group;");
	facts_text(out, 0, false);
	assert_string_equal(out, "");
	/* FEAT lists all facts, with a mark on the enabled ones. */
	facts_text(out, FACT_TYPE | FACT_MODE, true);
	assert_string_equal(out, "type*;size;modify;UNIX.mode*;UNIX.owner;UNIX.group;");
	facts_text(out, ALL, true);
	assert_string_equal(out, "type*;size*;modify*;UNIX.mode*;UNIX.owner*;UNIX.group*;");
}

static void test_parse(void **state)
{
	static const struct {
		const char *list;
		unsigned on;
	} cases[] = {
		{ "", 0 },
		{ ";", 0 },
		{ "type;", FACT_TYPE },
		{ "type", FACT_TYPE },                  /* without the final ';' */
		{ "SIZE;unix.MODE;", FACT_SIZE | FACT_MODE },
		{ "size;size;", FACT_SIZE },
		{ "siz;sizes;UNIX.;modify;", FACT_MODIFY },
		{ "perm;unique;", 0 },                  /* unknown facts */
		{ ";;type;;UNIX.owner;;", FACT_TYPE | FACT_UID },
		{ "type;size;modify;UNIX.mode;UNIX.owner;UNIX.group;", ALL },
		{ "type,size", 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (facts_parse(cases[i].list) != cases[i].on)
			fail_msg("%s: %x", cases[i].list, facts_parse(cases[i].list));
}

/* Parsing the text of a set of facts enables the same set. */
static void test_there_and_back(void **state)
{
	char out[128];

	(void)state;
	for (unsigned on = 0; on <= ALL; on++) {
		facts_text(out, on, false);
		assert_int_equal(facts_parse(out), on);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_parse),
		cmocka_unit_test(test_there_and_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
