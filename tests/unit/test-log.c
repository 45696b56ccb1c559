// SPDX-License-Identifier: Apache-2.0
/* Log lines: their prefixes, levels and cuts, the hooks around them, and one write per line. */
#include "util/base.h"
#include "util/io.h"
#include "util/log.h"
#include "util/thread.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static int real_stderr, reader;

/* Replaces stderr by a socket that keeps write() boundaries. */
static void capture(void)
{
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds), 0);
	real_stderr = dup(STDERR_FILENO);
	dup2(fds[1], STDERR_FILENO);
	close(fds[1]);
	reader = fds[0];
}

static void release(void)
{
	dup2(real_stderr, STDERR_FILENO);
	close(real_stderr);
	close(reader);
}

/* Returns the text of the next write(), or "" if there is none. */
static const char *next_write(void)
{
	static char text[8192];
	ssize_t n = recv(reader, text, sizeof(text) - 1, MSG_DONTWAIT);

	text[n > 0 ? n : 0] = '\0';
	return text;
}

static void expect(const char *want)
{
	const char *got = next_write();

	if (strcmp(got, want) != 0) {
		release();
		fail_msg("\"%s\" and not \"%s\"", got, want);
	}
}

static void test_lines(void **state)
{
	(void)state;
	capture();
	log_init("prog", LOG_LV_INFO, false);
	errno = ENOTTY;
	log_error("no %s", "way");
	assert_int_equal(errno, ENOTTY);
	expect("prog: no way\n");
	log_warn("hm");
	expect("prog: warning: hm\n");
	log_info("so");
	expect("prog: so\n");
	log_debug("psst");
	expect("");
	assert_false(log_enabled(LOG_LV_DEBUG));
	log_set_level(LOG_LV_DEBUG);
	log_debug("psst");
	expect("prog: debug: psst\n");
	log_set_level(LOG_LV_ERROR);
	log_warn("hm");
	expect("");
	/* A peer's text must not start a new line. */
	log_error("%s", "a\nprog: b\x1b[2J");
	expect("prog: a prog: b [2J\n");
	release();
}

static void test_stamp(void **state)
{
	char pid[32];
	const char *line;

	(void)state;
	capture();
	log_init("progd", LOG_LV_INFO, true);
	log_info("up");
	line = next_write();
	release();
	snprintf(pid, sizeof(pid), " progd[%ld]: info: up\n", (long)getpid());
	assert_non_null(strstr(line, pid));
	assert_int_equal(strspn(line, "0123456789-T:+"), strlen(line) - strlen(pid));
}

static void test_long_line(void **state)
{
	static char big[20000];
	const char *line;

	(void)state;
	memset(big, 'x', sizeof(big) - 1);
	capture();
	log_init("prog", LOG_LV_INFO, false);
	log_info("%s", big);
	line = next_write();
	release();
	assert_int_equal(strlen(line), 4095);
	assert_string_equal(line + strlen(line) - 2, "x\n");
}

static void before(void)
{
	(void)!write(STDERR_FILENO, "[", 1);
}

static void after(void)
{
	(void)!write(STDERR_FILENO, "]", 1);
}

static void test_hooks(void **state)
{
	(void)state;
	capture();
	log_init("prog", LOG_LV_INFO, false);
	log_set_hook(before, after);
	log_info("x");
	log_debug("not this");
	log_set_hook(NULL, NULL);
	log_info("y");
	expect("[");
	expect("prog: x\n");
	expect("]");
	expect("prog: y\n");
	expect("");
	release();
}

static void *log_some(void *arg)
{
	int i;

	(void)arg;
	for (i = 0; i < 10; i++)
		log_info("from a thread");
	return NULL;
}

/* No other thread writes between a line and its hooks. */
static void test_hooks_of_threads(void **state)
{
	pthread_t t[4];
	int i;

	(void)state;
	capture();
	log_set_hook(before, after);
	for (i = 0; i < 4; i++)
		thread_start(&t[i], "log", log_some, NULL);
	for (i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	log_set_hook(NULL, NULL);
	for (i = 0; i < 40; i++) {
		expect("[");
		expect("prog: from a thread\n");
		expect("]");
	}
	release();
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_stamp),
		cmocka_unit_test(test_long_line),
		cmocka_unit_test(test_hooks),
		cmocka_unit_test(test_hooks_of_threads),
	};

	return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
