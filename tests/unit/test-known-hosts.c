// SPDX-License-Identifier: Apache-2.0
/* The known_hosts file: the answer for a server's key, and adding lines. */
#include "client/credentials.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static char dir[64], file[128];

static int make_dir(void **state)
{
	strcpy(dir, "/tmp/test-known-hosts.XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	snprintf(file, sizeof(file), "%s/new/known_hosts", dir);
	return 0;
}

static int remove_dir(void **state)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command);
}

static void write_text(const char *text)
{
	char parent[128];
	FILE *f;

	snprintf(parent, sizeof(parent), "%s/new", dir);
	mkdir(parent, 0700);
	f = fopen(file, "w");
	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

static void test_check(void **state)
{
	static const struct {
		const char *host;
		uint16_t port;
		const char *pin;
		enum known_host kind;
		unsigned line;
	} cases[] = {
		{ "a.example", 7321, "SHA256:one", HOST_SAME, 0 },
		{ "A.EXAMPLE", 7321, "SHA256:one", HOST_SAME, 0 },
		{ "a.example", 7321, "SHA256:ONE", HOST_CHANGED, 3 }, /* keys are case-sensitive */
		{ "a.example", 7322, "SHA256:one", HOST_UNKNOWN, 0 },
		{ "a.exampl", 7321, "SHA256:one", HOST_UNKNOWN, 0 },
		{ "b", 21, "SHA256:two", HOST_SAME, 0 },   /* either of its keys */
		{ "b", 21, "SHA256:three", HOST_SAME, 0 },
		{ "b", 21, "SHA256:four", HOST_CHANGED, 6 },
		{ "::1", 7321, "SHA256:v6", HOST_SAME, 0 },
		{ "c", 1, "SHA256:gone", HOST_UNKNOWN, 0 }, /* only in a comment */
	};
	struct known_answer a;
	struct err e = ERR_INIT;

	write_text("# comment\n\na.example:7321 SHA256:one\n b:21\tSHA256:two \n"
		   "#c:1 SHA256:gone\nb:21 SHA256:three\n[::1]:7321 SHA256:v6");
	for (size_t i = 0; i < COUNT(cases); i++) {
		assert_int_equal(known_hosts_check(file, cases[i].host, cases[i].port,
						   cases[i].pin, &a, &e), 0);
		if (a.kind != cases[i].kind || a.line != cases[i].line)
			fail_msg("case %zu: %d in line %u", i, a.kind, a.line);
	}
	assert_int_equal(known_hosts_check(file, "b", 21, "x", &a, &e), 0);
	assert_string_equal(a.pin, "SHA256:three");
}

static void test_bad_lines(void **state)
{
	struct known_answer a;
	struct err e = ERR_INIT;

	write_text("a:1 x\nonly-a-name\n");
	assert_int_equal(known_hosts_check(file, "a", 1, "x", &a, &e), -EINVAL);
	assert_non_null(strstr(e.text, "known_hosts:2:"));
	write_text("a:1 x y\n");
	assert_int_equal(known_hosts_check(file, "a", 1, "x", &a, &e), -EINVAL);
}

static void test_add(void **state)
{
	struct known_answer a;
	struct err e = ERR_INIT;
	struct stat st;
	CLEANUP_FREE char *text = NULL;

	/* Neither the file nor its directory exists. */
	assert_int_equal(known_hosts_check(file, "h", 1, "p1", &a, &e), 0);
	assert_int_equal(a.kind, HOST_UNKNOWN);
	umask(0);
	assert_int_equal(known_hosts_add(file, "h", 1, "p1", &e), 0);
	assert_int_equal(stat(file, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(known_hosts_add(file, "::1", 2, "p2", &e), 0);
	assert_int_equal(known_hosts_add(file, "h", 1, "p1", &e), 0); /* no second line */
	assert_int_equal(read_file(file, 1000, &text, NULL), 0);
	assert_string_equal(text, "h:1 p1\n[::1]:2 p2\n");
}

static void test_add_keeps_what_is_there(void **state)
{
	struct err e = ERR_INIT;
	CLEANUP_FREE char *text = NULL;

	write_text("# mine\nx:1 p"); /* no newline at the end */
	assert_int_equal(known_hosts_add(file, "y", 2, "q", &e), 0);
	assert_int_equal(read_file(file, 1000, &text, NULL), 0);
	assert_string_equal(text, "# mine\nx:1 p\ny:2 q\n");
}

/* Many processes add at once, and no line is lost. */
static void test_add_at_once(void **state)
{
	enum { N = 8 };
	struct known_answer a;
	struct err e = ERR_INIT;
	int status;

	for (int i = 0; i < N; i++) {
		if (fork() == 0)
			_exit(-known_hosts_add(file, "many", (uint16_t)(i + 1), "p", &e));
	}
	for (int i = 0; i < N; i++) {
		assert_true(wait(&status) > 0);
		assert_int_equal(status, 0);
	}
	for (int i = 0; i < N; i++) {
		assert_int_equal(known_hosts_check(file, "many", (uint16_t)(i + 1), "p", &a, &e),
				 0);
		assert_int_equal(a.kind, HOST_SAME);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_check, make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(test_bad_lines, make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(test_add, make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(test_add_keeps_what_is_there, make_dir,
						remove_dir),
		cmocka_unit_test_setup_teardown(test_add_at_once, make_dir, remove_dir),
	};

	return cmocka_run_group_tests_name("known-hosts", tests, NULL, NULL);
}
