// SPDX-License-Identifier: Apache-2.0
/* Fault injection (util/fault.h) in unit tests. */
#ifndef RFTP_TESTS_FAULTS_H
#define RFTP_TESTS_FAULTS_H

#include "util/util.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#ifdef ENABLE_FAULTS
static inline bool have_faults(void)
{
	return true;
}

/* Sets the fault rules; NULL: none. */
static inline void set_faults(const char *rules)
{
	struct err e = ERR_INIT;

	if (faults_set(rules, &e) < 0)
		fail_msg("%s", e.text);
}
#else
static inline bool have_faults(void)
{
	return false;
}

static inline void set_faults(const char *rules)
{
	assert_null(rules);
}
#endif

/* Skips the test in a build without fault injection; call it before the test allocates anything. */
static inline void need_faults(void)
{
	if (have_faults())
		return;
	print_message("# without fault injection (configure --enable-faults)\n");
	skip();
}

#endif
