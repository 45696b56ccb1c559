// SPDX-License-Identifier: Apache-2.0
/* The users file of rftpd: its lines, passwords, and refused lines. */
#include "crypto/crypto.h"
#include "server/auth/auth.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- users ---- */

static void test_lines(void **state)
{
	static const struct { const char *line; int rc; enum rights rights; } table[] = {
		{ "", 0, RIGHTS_NONE },
		{ "# alice:x:::rw", 0, RIGHTS_NONE },
		{ "alice:h:/srv:/home:rw", 1, RIGHTS_RW },
		{ "alice:h:/srv:/home:rw\r", 1, RIGHTS_RW },
		{ "alice:h:::ro", 1, RIGHTS_RO },
		{ "alice:h:::nodelete", 1, RIGHTS_NODELETE },
		{ "alice:h:::upload", 1, RIGHTS_UPLOAD },
		{ "alice:h:::off", -EINVAL, RIGHTS_NONE },
		{ "alice:h:::rw:www:x", -EINVAL, RIGHTS_NONE },
		{ "alice:h::", -EINVAL, RIGHTS_NONE },
		{ "alice", -EINVAL, RIGHTS_NONE },
		{ "alice:h:::rw:", -EINVAL, RIGHTS_NONE },
		{ "alice:h:::RW", -EINVAL, RIGHTS_NONE },
		{ "alice:h:::", -EINVAL, RIGHTS_NONE },
		{ ":h:::rw", -EINVAL, RIGHTS_NONE },
		{ "alice:h:srv::rw", -EINVAL, RIGHTS_NONE },
		{ "alice:h:/srv:home:rw", -EINVAL, RIGHTS_NONE },
		{ "0123456789012345678901234567890123456789012345678901234567890123:h:::rw",
		  -EINVAL, RIGHTS_NONE },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct err e = ERR_INIT;
		struct user u;
		int rc = user_parse(table[i].line, &u, &e);

		if (rc != table[i].rc)
			print_error("%s: %d\n", table[i].line, rc);
		assert_int_equal(rc, table[i].rc);
		assert_int_equal(!!*e.text, rc < 0);
		if (rc == 1) {
			assert_string_equal(u.name, "alice");
			assert_string_equal(u.hash, "h");
			assert_true(*u.home == '/');
			assert_int_equal(u.rights, table[i].rights);
			assert_null(u.system_user);
		}
		user_clear(&u);
	}
}

struct file {
	char path[64];
};

static int make_file(void **state)
{
	struct file *f = calloc(1, sizeof(*f));
	char *hash = password_hash("s3cret");
	FILE *out;
	int fd;

	assert_non_null(f);
	assert_non_null(hash);
	snprintf(f->path, sizeof(f->path), "/tmp/test-users.XXXXXX");
	fd = mkstemp(f->path);
	assert_true(fd >= 0);
	out = fdopen(fd, "w");
	fprintf(out, "# users\n\nalice:%s:/srv/a:/home:rw\nbob:broken:::ro\n"
		"nonsense\nzoe:%s:::ro", hash, hash);
	assert_int_equal(fclose(out), 0);
	free(hash);
	*state = f;
	return 0;
}

static int remove_file(void **state)
{
	struct file *f = *state;

	unlink(f->path);
	free(f);
	return 0;
}

static void test_system_user(void **state)
{
	struct err e = ERR_INIT;
	struct user u;

	assert_int_equal(user_parse("alice:h:/srv:/:upload:www-data", &u, &e), 1);
	assert_string_equal(u.system_user, "www-data");
	assert_int_equal(u.rights, RIGHTS_UPLOAD);
	user_clear(&u);
	assert_null(u.system_user);
}

static void test_check(void **state)
{
	static const struct { const char *name, *password; int found; bool right; } table[] = {
		{ "alice", "s3cret", 1, true }, { "alice", "S3cret", 1, false },
		{ "alice", "", 1, false },
		{ "ALICE", "s3cret", 0, false }, { "ali", "s3cret", 0, false },
		{ "bob", "broken", 1, false }, { "bob", "", 1, false },
		{ "nobody", "s3cret", 0, false }, { "# users", "", 0, false },
		{ "zoe", "s3cret", 1, true }, /* after a bad line, without a newline */
	};
	struct file *f = *state;

	log_init("test", LOG_LV_ERROR, false);
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct err e = ERR_INIT;
		struct user u;

		assert_int_equal(users_find(f->path, table[i].name, &u, &e), table[i].found);
		assert_true(password_check(table[i].password, u.hash) == table[i].right);
		if (table[i].found)
			assert_string_equal(u.name, table[i].name);
		else
			assert_null(u.name);
		user_clear(&u);
	}
}

static void test_find(void **state)
{
	struct file *f = *state;
	struct err e = ERR_INIT;
	struct user u;

	assert_int_equal(users_find(f->path, "bob", &u, &e), 1);
	assert_string_equal(u.name, "bob");
	user_clear(&u);
	assert_int_equal(users_find(f->path, "bo", &u, &e), 0);
	assert_string_equal(e.text, "");
	assert_null(u.name);
	assert_int_equal(users_find("/nonexistent", "bob", &u, &e), -ENOENT);
	assert_non_null(strstr(e.text, "/nonexistent"));
}

static void test_verify(void **state)
{
	struct file *f = *state;
	struct err e = ERR_INIT;
	FILE *out;

	assert_int_equal(users_verify(f->path, NULL, NULL, &e), -EINVAL);
	assert_non_null(strstr(e.text, ":5: not of the form"));
	out = fopen(f->path, "w");
	fputs("alice:h:::rw\n", out);
	fclose(out);
	assert_int_equal(users_verify(f->path, NULL, NULL, &e), 0);
	assert_int_equal(chmod(f->path, 0666), 0);
	assert_int_equal(users_verify(f->path, NULL, NULL, &e), -EPERM);
	assert_int_equal(users_verify("/nonexistent/users", NULL, NULL, &e), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_system_user),
		cmocka_unit_test_setup_teardown(test_check, make_file, remove_file),
		cmocka_unit_test_setup_teardown(test_find, make_file, remove_file),
		cmocka_unit_test_setup_teardown(test_verify, make_file, remove_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
