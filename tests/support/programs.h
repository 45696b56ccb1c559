// SPDX-License-Identifier: Apache-2.0
/* Programs that replace this machine's programs in a test: shell scripts in tmp_dir/bin. */
#ifndef RFTP_TESTS_PROGRAMS_H
#define RFTP_TESTS_PROGRAMS_H

#include "tests/support/sysfs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* Writes a script, new or in place of an old one. */
static inline void script(const char *name, const char *body)
{
	char path[9000], text[9000];

	snprintf(path, sizeof(path), "%s/bin/%s", tmp_dir, name);
	sysfs_parent(path);
	snprintf(text, sizeof(text), "#!/bin/sh\n%s\n", body);
	assert_int_equal(write_file_atomic(path, text, strlen(text), 0700, NULL), 0);
}

/* Writes a program that prints this text, and writes its arguments to the file "args". */
static inline void program(const char *name, const char *says, int status)
{
	char body[8900];

	snprintf(body, sizeof(body), "echo %s \"$@\" >>%s/args\necho '%s'\nexit %d", name,
		 tmp_dir, says, status);
	script(name, body);
}

static char *path_before;

/* Puts these programs first in PATH, until path_back(). */
static inline void only_ours(void)
{
	char *path;

	path_before = strdup(getenv("PATH"));
	assert_true(asprintf(&path, "%s/bin:%s", tmp_dir, path_before) > 0);
	setenv("PATH", path, 1);
	free(path);
}

static inline void path_back(void)
{
	setenv("PATH", path_before, 1);
	free(path_before);
}

#endif
