// SPDX-License-Identifier: Apache-2.0
/* Log lines from a process that the monitor does not trust: the number of lines it logs, and under
 * which name. */
#include "server/monitor/monitor.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const char peer[] = "192.0.2.7:4711";
static char file[64];
static struct server server = { .separate = true };
static struct monitor monitor = { .sv = &server };
static struct conn conn;
static struct channel end; /* the end of the process */

static void to_file(void)
{
	struct err e = ERR_INIT;

	snprintf(file, sizeof(file), "/tmp/rftp-lines.XXXXXX");
	close(mkstemp(file));
	assert_int_equal(log_open(LOG_TO_FILE, file, LOG_AS_TEXT, &e), 0);
	log_init("rftpd", LOG_LV_INFO, true);
}

/* The content of the log file; removes the file. */
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

/* A session process with these limits; the test sends its requests on end. */
static struct proc *begin(const struct quota_limits *l)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(4711) };
	struct proc *p = &conn.session;

	inet_pton(AF_INET, "192.0.2.7", &in.sin_addr);
	memcpy(&conn.ends.peer, &in, sizeof(in));
	*p = (struct proc){ .pid = 1, .state = STATE_LOG_ONLY };
	assert_int_equal(channel_open(&p->channel, &end), 0);
	quota_init(&p->quota, l, now_ns() / 1000000);
	return p;
}

/* Sends the line "x" as a process does. */
static ssize_t send_x(void)
{
	static const uint8_t line[] = { 0, 0, 'x', 0 };

	return channel_send(&end, REQUEST_LOG, line, sizeof(line), 0);
}

static void test_room(void **state)
{
	const struct quota_limits limits = { 10000, 1000 };
	struct quota q;
	unsigned n = 0;

	quota_init(&q, &limits, 5000);
	while (quota_take(&q, 5000, 936)) /* each costs 1000 */
		n++;
	assert_int_equal(n, 10);
	assert_false(quota_take(&q, 5999, 936));
	assert_true(quota_take(&q, 6000, 936));
	assert_false(quota_take(&q, 6000, 936));
	/* A long idle time does not raise the limit above its initial value. */
	n = 0;
	while (quota_take(&q, UINT64_MAX / 2, 936))
		n++;
	assert_int_equal(n, 10);
}

/* Starts a child that logs n lines. */
static void speak(struct proc *p, unsigned n)
{
	p->pid = fork();
	if (p->pid) {
		channel_close(&end);
		return;
	}
	channel_close(&p->channel);
	channel_log(&end);
	for (unsigned i = 0; i < n; i++)
		log_info("line %u\nof many\033[2J", i);
	_exit(write(STDERR_FILENO, "not for the log\n", 16) != 16);
}

static void hear_all(struct proc *p)
{
	int status, rc = 0;

	while (waitpid(p->pid, &status, WNOHANG) == 0)
		if (rc == 0) {
			rc = proc_read(NULL, &conn, p);
			assert_true(rc == 0 || rc == -EPIPE);
		}
	assert_int_equal(status, 0);
	proc_finish(&monitor, &conn, p);
	assert_int_equal(p->channel.up, -1);
}

static void test_lines(void **state)
{
	CLEANUP_FREE char *text = NULL;
	struct proc *p = begin(&quota_session);
	char want[128];

	to_file();
	speak(p, 3);
	hear_all(p);
	text = content();
	assert_int_equal(count(text, "\n"), 3);
	snprintf(want, sizeof(want), " rftpd[%d]: info: %s: line 2 of many [2J\n", (int)p->pid,
		 peer);
	assert_non_null(strstr(text, want));
}

static void test_too_many(void **state)
{
	const struct quota_limits limits = { 10000, 1 };
	struct proc *p = begin(&limits);
	char *text;
	unsigned long long dropped;

	to_file();
	speak(p, 2000);
	hear_all(p);
	text = content();
	assert_non_null(strstr(text, "warning: "));
	assert_int_equal(sscanf(strstr(text, "warning: "), "warning: dropped %llu lines of process",
				&dropped), 1);
	assert_true(count(text, "of many") >= 50);
	assert_int_equal(count(text, "of many") + dropped, 2000);
	free(text);
}

/* A process that floods the log is read less often; its pending lines stay in the pipe. */
static void test_flood_rests(void **state)
{
	const struct quota_limits limits = { 1000, 1 };
	struct proc *p = begin(&limits);
	char *text;
	int sent = 0;

	to_file();
	assert_int_equal(quota_rest(&p->quota, now_ns() / 1000000), 0);
	for (; send_x() == 0; sent++)
		;
	assert_true(sent > 200);
	assert_int_equal(proc_read(NULL, &conn, p), 0);
	assert_true(quota_rest(&p->quota, p->quota.rests_ms - 1) == 1);
	p->quota.rests_ms = UINT64_MAX; /* independent of the machine's speed */
	for (int i = 0; i < 100; i++)
		assert_int_equal(proc_read(NULL, &conn, p), 0);
	/* proc_read() has read only a part of the lines. */
	for (; send_x() == 0; sent++)
		;
	assert_true(sent < 500);
	channel_close(&end);
	proc_finish(&monitor, &conn, p);
	text = content();
	assert_int_equal(count(text, ": x\n"), 14);
	assert_int_equal(count(text, "too many at once"), 1);
	free(text);
}

/* Requests, and the lines that the monitor logs for them, count too. */
static void test_requests_rest(void **state)
{
	const struct quota_limits limits = { 1000, 1 };
	struct quota q;

	quota_init(&q, &limits, now_ns() / 1000000);
	assert_true(quota_line(&q, 1000 - 2 * 64));
	quota_take(&q, now_ns() / 1000000, 0);
	assert_int_equal(quota_rest(&q, 0), 0);
	quota_take(&q, now_ns() / 1000000, 0);
	assert_true(quota_rest(&q, q.rests_ms - 1) == 1);
	assert_int_equal(quota_rest(&q, q.rests_ms), 0);
	assert_int_equal(q.dropped, 0);
	assert_false(quota_line(&q, 1));
	assert_int_equal(q.dropped, 1);
}

/* ---- long lines ---- */

/* Logs a long line with the path in a field and in the text. */
static void log_long(char c)
{
	char path[4001];
	struct log_field fields[] = { LOG_NAME("path", path) };

	memset(path, c, sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	log_event(LOG_LV_INFO, fields, 1, "got %.3000s!", path);
}

static void *log_long_lines(void *arg)
{
	for (int i = 0; i < 50; i++)
		log_long(*(char *)arg);
	return NULL;
}

/* Lines that are longer than a packet, from several threads at once. */
static void test_long_lines(void **state)
{
	CLEANUP_FREE char *text = NULL;
	struct proc *p = begin(&quota_session);
	char want[3100] = "got ";

	to_file();
	p->pid = fork();
	if (p->pid == 0) {
		static char names[4] = "abc";
		pthread_t t[3];

		channel_close(&p->channel);
		channel_log(&end);
		for (int i = 0; i < 3; i++)
			pthread_create(&t[i], NULL, log_long_lines, &names[i]);
		for (int i = 0; i < 3; i++)
			pthread_join(t[i], NULL);
		_exit(0);
	}
	channel_close(&end);
	hear_all(p);
	assert_null(p->record);
	text = content();
	assert_int_equal(count(text, "\n"), 150);
	for (char c = 'a'; c <= 'c'; c++) {
		memset(want + 4, c, 3000);
		strcpy(want + 3004, "!\n");
		assert_int_equal(count(text, want), 50);
	}
}

/* A process that timed out in the middle of a record starts a new record. */
static void test_unfinished(void **state)
{
	static const uint8_t start[4000] = { 0, 0, 'a' };
	struct request_head head = { REQUEST_LOG, 8004 };
	struct iovec parts[] = { { &head, sizeof(head) }, { (void *)(uintptr_t)start, 4000 } };
	CLEANUP_FREE char *text = NULL;
	struct proc *p = begin(&quota_session);

	to_file();
	assert_int_equal(writev(end.up, parts, 2), sizeof(head) + 4000);
	assert_int_equal(send_x(), 0);
	assert_int_equal(proc_read(NULL, &conn, p), 0);
	assert_null(p->record);
	/* The process ends in the middle of a record. */
	assert_int_equal(writev(end.up, parts, 2), sizeof(head) + 4000);
	channel_close(&end);
	proc_finish(&monitor, &conn, p);
	assert_null(p->record);
	text = content();
	assert_int_equal(count(text, "\n"), 1);
	assert_int_equal(count(text, ": x\n"), 1);
}

/* ---- packets that are no line ---- */

static void send_packet(uint32_t type, uint32_t size, const void *bytes, size_t len)
{
	struct request_head head = { type, size };
	struct iovec parts[] = { { &head, sizeof(head) }, { (void *)(uintptr_t)bytes, len } };

	assert_int_equal(writev(end.up, parts, 2), sizeof(head) + len);
}

/* Only a process under an attacker's control sends such packets. */
static void test_no_lines(void **state)
{
	static const char big[4000];
	static const struct {
		uint32_t size;
		const char *bytes;
		size_t len;
	} bad[] = {
		{ 1, "x", 1 }, { 5, "\0\0x\0y", 5 }, { LOG_RECORD_MAX + 1, big, sizeof(big) },
		{ 3, "\0\0x\0", 4 }, { UINT32_MAX, big, 8 }, { 0, "", 0 },
	};
	CLEANUP_FREE char *text = NULL;
	struct proc *p;

	to_file();
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		p = begin(&quota_preauth);
		send_packet(REQUEST_LOG, bad[i].size, bad[i].bytes, bad[i].len);
		assert_int_equal(proc_read(NULL, &conn, p), -EPROTO);
		channel_close(&end);
		proc_finish(&monitor, &conn, p);
		assert_int_equal(p->channel.up, -1);
	}
	/* A continuation without a start, and one that is longer than announced. */
	for (int i = 0; i < 2; i++) {
		p = begin(&quota_preauth);
		if (i)
			send_packet(REQUEST_LOG, 5000, big, 4000);
		send_packet(REQUEST_LOG_MORE, 1001, big, 1001);
		assert_int_equal(proc_read(NULL, &conn, p), -EPROTO);
		channel_close(&end);
		proc_finish(&monitor, &conn, p);
		assert_null(p->record);
	}
	text = content();
	assert_string_equal(text, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_room), cmocka_unit_test(test_lines),
		cmocka_unit_test(test_too_many), cmocka_unit_test(test_no_lines),
		cmocka_unit_test(test_long_lines), cmocka_unit_test(test_unfinished),
		cmocka_unit_test(test_flood_rests), cmocka_unit_test(test_requests_rest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
