// SPDX-License-Identifier: Apache-2.0
/* Lines of the log from a process that nobody believes: what is taken, how many, and whose they
 * are then. */
#include "server/lines.h"
#include "server/msg.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const char peer[] = "192.0.2.7:4711";
static char file[64];

static void to_file(void)
{
	struct err e = ERR_INIT;

	snprintf(file, sizeof(file), "/tmp/rftp-lines.XXXXXX");
	close(mkstemp(file));
	assert_int_equal(log_open(LOG_TO_FILE, file, LOG_AS_TEXT, &e), 0);
	log_init("rftpd", LOG_LV_INFO, true);
}

/* What is in the file; which is gone then. */
static char *content(void)
{
	static char *text;

	assert_int_equal(read_file(file, 64 << 20, &text, NULL), 0);
	unlink(file);
	log_leave();
	return text;
}

static unsigned count(const char *text, const char *what)
{
	unsigned n = 0;

	for (; (text = strstr(text, what)); text += strlen(what))
		n++;
	return n;
}

static void test_room(void **state)
{
	const struct lines_limits limits = { 10000, 1000 };
	struct lines l;
	unsigned n = 0;

	lines_init(&l, &limits, -1, 5000);
	while (lines_may(&l, 5000, 936)) /* each costs 1000 */
		n++;
	assert_int_equal(n, 10);
	assert_false(lines_may(&l, 5999, 936));
	assert_true(lines_may(&l, 6000, 936));
	assert_false(lines_may(&l, 6000, 936));
	/* However long it was quiet, there is no more than at first. */
	n = 0;
	while (lines_may(&l, UINT64_MAX / 2, 936))
		n++;
	assert_int_equal(n, 10);
}

/* A child that has n lines to say. */
static pid_t speaker(const struct lines *l, int end, unsigned n)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	close(l->fd);
	lines_begin(end);
	for (unsigned i = 0; i < n; i++)
		log_info("line %u\nof many\033[2J", i);
	_exit(write(STDERR_FILENO, "not for the log\n", 16) != 16);
}

static void hear_all(struct lines *l, pid_t pid)
{
	int status;

	while (waitpid(pid, &status, WNOHANG) == 0)
		assert_int_equal(lines_hear(l, pid, peer), 0);
	assert_int_equal(status, 0);
	lines_end(l, pid, peer);
	assert_int_equal(l->fd, -1);
}

static void test_lines(void **state)
{
	CLEANUP_FREE char *text = NULL;
	char want[128];
	struct lines l;
	int pair[2];
	pid_t pid;

	to_file();
	assert_int_equal(msg_pair(pair), 0);
	lines_init(&l, &lines_known, pair[0], 0);
	pid = speaker(&l, pair[1], 3);
	close(pair[1]);
	hear_all(&l, pid);
	text = content();
	assert_int_equal(count(text, "\n"), 3);
	snprintf(want, sizeof(want), " rftpd[%d]: info: %s: line 2 of many [2J\n", (int)pid, peer);
	assert_non_null(strstr(text, want));
}

static void test_too_many(void **state)
{
	const struct lines_limits limits = { 10000, 1 };
	char *text;
	unsigned long long dropped;
	struct lines l;
	int pair[2];
	pid_t pid;

	to_file();
	assert_int_equal(msg_pair(pair), 0);
	lines_init(&l, &limits, pair[0], now_ns() / 1000000);
	pid = speaker(&l, pair[1], 2000);
	close(pair[1]);
	hear_all(&l, pid);
	text = content();
	assert_non_null(strstr(text, "warning: "));
	assert_int_equal(sscanf(strstr(text, "warning: "), "warning: %llu lines of process",
				&dropped), 1);
	assert_true(count(text, "of many") >= 50);
	assert_int_equal(count(text, "of many") + dropped, 2000);
	free(text);
}

/* Who goes on and on is not heard all the time: what he has said more lies where he waits. */
static void test_who_floods_rests(void **state)
{
	static const char line[] = "\0\0\0\1x";
	const struct lines_limits limits = { 1000, 1 };
	struct lines l;
	char *text;
	int pair[2], sent = 0;

	to_file();
	assert_int_equal(msg_pair(pair), 0);
	lines_init(&l, &limits, pair[0], now_ns() / 1000000);
	assert_int_equal(lines_rest(&l, now_ns() / 1000000), 0);
	for (; send(pair[1], line, 5, MSG_DONTWAIT) == 5; sent++)
		;
	assert_true(sent > 200);
	assert_int_equal(lines_hear(&l, 1, peer), 0);
	assert_true(lines_rest(&l, l.rests_ms - 1) == 1);
	l.rests_ms = UINT64_MAX; /* however slow this machine is */
	for (int i = 0; i < 100; i++)
		assert_int_equal(lines_hear(&l, 1, peer), 0);
	/* A part of it was taken, and no more. */
	for (; send(pair[1], line, 5, MSG_DONTWAIT) == 5; sent++)
		;
	assert_true(sent < 500);
	close(pair[1]);
	lines_end(&l, 1, peer);
	text = content();
	assert_int_equal(count(text, ": x\n"), 14);
	assert_int_equal(count(text, "too many at once"), 1);
	free(text);
}

/* What is logged for it counts as what it says itself, and what it asks for. */
static void test_who_asks_rests(void **state)
{
	const struct lines_limits limits = { 1000, 1 };
	struct lines l;

	lines_init(&l, &limits, -1, now_ns() / 1000000);
	assert_true(lines_allow(&l, 1000 - 2 * 64));
	lines_count(&l);
	assert_int_equal(lines_rest(&l, 0), 0);
	lines_count(&l);
	assert_true(lines_rest(&l, l.rests_ms - 1) == 1);
	assert_int_equal(lines_rest(&l, l.rests_ms), 0);
	assert_int_equal(l.dropped, 0);
	assert_false(lines_allow(&l, 1));
	assert_int_equal(l.dropped, 1);
}

/* Packets as no process of ours sends them: the first makes it somebody else's. */
static void test_what_is_none(void **state)
{
	static char big[LOG_RECORD_MAX + 1];
	static const struct {
		const char *bytes;
		size_t len;
	} bad[] = { { "x", 1 }, { big, sizeof(big) }, { "\0\0\0\1xy", 6 } };
	CLEANUP_FREE char *text = NULL;
	struct lines l;
	int pair[2];

	to_file();
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(msg_pair(pair), 0);
		lines_init(&l, &lines_stranger, pair[0], 0);
		assert_int_equal(send(pair[1], bad[i].bytes, bad[i].len, 0), bad[i].len);
		assert_int_equal(lines_hear(&l, 1, peer), -EPROTO);
		assert_int_equal(l.fd, -1);
		close(pair[1]);
	}
	text = content();
	assert_string_equal(text, "");
}

/* A descriptor is not logged, nor does it stay open, and who sends one is somebody else. Nothing is
 * the end. */
static void test_odd_packets(void **state)
{
	static const char good[] = "\0\0\0\1x";
	CLEANUP_FREE char *text = NULL;
	struct lines l;
	int pair[2], before;

	to_file();
	assert_int_equal(msg_pair(pair), 0);
	lines_init(&l, &lines_stranger, pair[0], 0);
	before = dup(STDERR_FILENO);
	close(before);
	assert_int_equal(msg_send(pair[1], good, 5, STDERR_FILENO, 0), 0);
	assert_int_equal(lines_hear(&l, 1, peer), -EPROTO);
	assert_int_equal(l.fd, -1);
	close(pair[1]);
	assert_int_equal(msg_pair(pair), 0);
	lines_init(&l, &lines_stranger, pair[0], 0);
	assert_int_equal(dup(STDERR_FILENO), before);
	close(before);
	assert_int_equal(send(pair[1], "", 0, 0), 0);
	assert_int_equal(lines_hear(&l, 1, peer), 0);
	assert_int_equal(l.fd, -1);
	close(pair[1]);
	text = content();
	assert_string_equal(text, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_room), cmocka_unit_test(test_lines),
		cmocka_unit_test(test_too_many), cmocka_unit_test(test_what_is_none),
		cmocka_unit_test(test_odd_packets), cmocka_unit_test(test_who_floods_rests),
		cmocka_unit_test(test_who_asks_rests),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
