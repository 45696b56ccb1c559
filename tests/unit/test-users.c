// SPDX-License-Identifier: Apache-2.0
/* The users file of rftpd: its lines, its passwords, and what is refused; and rftpd's
 * options. */
#include "crypto/crypto.h"
#include "proto/proto.h"
#include "server/options.h"
#include "server/users.h"

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
	static const struct { const char *line; int rc; bool write, del; } table[] = {
		{ "", 0, false, false },
		{ "# alice:x:::rw", 0, false, false },
		{ "alice:h:/srv:/home:rw", 1, true, true },
		{ "alice:h:/srv:/home:rw\r", 1, true, true },
		{ "alice:h:::ro", 1, false, false },
		{ "alice:h:::nodelete", 1, true, false },
		{ "alice:h::", -EINVAL, false, false },
		{ "alice", -EINVAL, false, false },
		{ "alice:h:::rw:", -EINVAL, false, false },
		{ "alice:h:::RW", -EINVAL, false, false },
		{ "alice:h:::", -EINVAL, false, false },
		{ ":h:::rw", -EINVAL, false, false },
		{ "alice:h:srv::rw", -EINVAL, false, false },
		{ "alice:h:/srv:home:rw", -EINVAL, false, false },
		{ "0123456789012345678901234567890123456789012345678901234567890123:h:::rw",
		  -EINVAL, false, false },
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
			assert_int_equal(u.can_write, table[i].write);
			assert_int_equal(u.can_delete, table[i].del);
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

static void test_check(void **state)
{
	static const struct { const char *name, *password; int rc; } table[] = {
		{ "alice", "s3cret", 0 }, { "alice", "S3cret", -EACCES }, { "alice", "", -EACCES },
		{ "ALICE", "s3cret", -EACCES }, { "ali", "s3cret", -EACCES },
		{ "bob", "broken", -EACCES }, { "bob", "", -EACCES },
		{ "nobody", "s3cret", -EACCES }, { "# users", "", -EACCES },
		{ "zoe", "s3cret", 0 }, /* behind a bad line, without a newline */
	};
	struct file *f = *state;

	log_init("test", LOG_LV_ERROR, false);
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct err e = ERR_INIT;
		struct user u;

		assert_int_equal(users_check(f->path, table[i].name, table[i].password, &u, &e),
				 table[i].rc);
		if (table[i].rc == 0)
			assert_string_equal(u.name, table[i].name);
		else
			assert_null(u.name);
		user_clear(&u);
	}
}

static void test_verify(void **state)
{
	struct file *f = *state;
	struct err e = ERR_INIT;
	FILE *out;

	assert_int_equal(users_verify(f->path, &e), -EINVAL);
	assert_non_null(strstr(e.text, ":5: not of the form"));
	out = fopen(f->path, "w");
	fputs("alice:h:::rw\n", out);
	fclose(out);
	assert_int_equal(users_verify(f->path, &e), 0);
	assert_int_equal(chmod(f->path, 0666), 0);
	assert_int_equal(users_verify(f->path, &e), -EPERM);
	assert_int_equal(users_verify("/nonexistent/users", &e), -ENOENT);
}

/* ---- options ---- */

static int parse(struct srv_options *o, struct err *e, const char *line)
{
	static char copy[256];
	char *argv[32] = { (char *)"rftpd" }, *rest = copy, *word;
	int argc = 1;

	snprintf(copy, sizeof(copy), "%s", line);
	while ((word = strsep(&rest, " ")))
		if (*word)
			argv[argc++] = word;
	return srv_options_parse(o, argc, argv, e);
}

static void test_options(void **state)
{
	struct srv_options o;
	struct err e = ERR_INIT;

	assert_int_equal(parse(&o, &e, "--root /srv --anonymous ro"), 0);
	assert_int_equal(o.nlisten, 2);
	assert_string_equal(o.listen[0].addr, "0.0.0.0");
	assert_int_equal(o.listen[1].port, 7321);
	assert_int_equal(o.anonymous, ANONYMOUS_RO);
	assert_false(o.plain);

	assert_int_equal(parse(&o, &e, "-l 127.0.0.1:0 -l [::1]:99 -r /x -a rw -d 5000-5001 "
			       "--prot-min private --memory 64M -v --users u"), 0);
	assert_int_equal(o.nlisten, 2);
	assert_string_equal(o.listen[1].addr, "::1");
	assert_int_equal(o.listen[1].port, 99);
	assert_int_equal(o.port_lo, 5000);
	assert_int_equal(o.port_hi, 5001);
	assert_int_equal(o.prot_min, PROT_PRIVATE);
	assert_int_equal(o.memory, 64 << 20);
	assert_int_equal(o.verbosity, 1);

	assert_int_equal(parse(&o, &e, "--stdio"), 0);
	assert_int_equal(parse(&o, &e, "--help"), 0);
}

static void test_bad_options(void **state)
{
	static const char *const lines[] = {
		"", "--root /srv", "--anonymous ro", "--anonymous yes --root /", "--root",
		"--nonsense", "-x", "word --stdio", "--stdio=1", "--stdio --listen 1234",
		"--stdio --listen localhost:1", "--stdio --listen ::1:1",
		"--stdio --listen 1.2.3.4:65536", "--stdio --listen [1.2.3.4:1",
		"--stdio --data-ports 5", "--stdio --data-ports 6-5", "--stdio --data-ports 0-5",
		"--stdio --memory lots", "--stdio --prot-min none",
	};

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		struct srv_options o;
		struct err e = ERR_INIT;
		int rc = parse(&o, &e, lines[i]);

		if (rc != -EINVAL)
			print_error("\"%s\": %d\n", lines[i], rc);
		assert_int_equal(rc, -EINVAL);
		assert_true(*e.text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),
		cmocka_unit_test_setup_teardown(test_check, make_file, remove_file),
		cmocka_unit_test_setup_teardown(test_verify, make_file, remove_file),
		cmocka_unit_test(test_options),
		cmocka_unit_test(test_bad_options),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
