// SPDX-License-Identifier: Apache-2.0
/* Messages between the server's processes, valid and invalid. */
#include "server/monitor/msg.h"
#include "tests/support/raw-message.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

struct word {
	char text[16];
};

static int pair[2];

static int setup(void **state)
{
	return msg_pair(pair);
}

static int teardown(void **state)
{
	close(pair[0]);
	close(pair[1]);
	return 0;
}

static void send_raw(const void *p, size_t len, unsigned nfds)
{
	static const int fds[RAW_FDS];

	assert_int_equal(raw_send(pair[0], p, len, fds, nfds, 0), 0);
}

static void test_a_message_and_a_descriptor(void **state)
{
	struct word sent = { "hello" }, got;
	int pipe_fd[2], fd = -2, before;
	char c = 'x';

	assert_int_equal(pipe(pipe_fd), 0);
	before = count_open();
	assert_int_equal(msg_send(pair[0], &sent, sizeof(sent), pipe_fd[1], 1000), 0);
	assert_int_equal(msg_receive(pair[1], &got, sizeof(got), &fd, 1000), 0);
	assert_string_equal(got.text, "hello");
	assert_true(fd > 2);
	assert_int_equal(count_open(), before + 1);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(write(fd, &c, 1), 1);
	c = 0;
	assert_int_equal(read(pipe_fd[0], &c, 1), 1);
	assert_int_equal(c, 'x');
	assert_int_equal(msg_send(pair[0], &sent, sizeof(sent), -1, 1000), 0);
	assert_int_equal(msg_receive(pair[1], &got, sizeof(got), &pipe_fd[0], 1000), 0);
	assert_int_equal(pipe_fd[0], -1);
	close(fd);
	close(pipe_fd[1]);
}

static void test_what_is_no_message_is_refused(void **state)
{
	char bytes[64] = "hello";
	struct word got;
	int fd, before = count_open();

	send_raw(bytes, sizeof(struct word) - 1, 0);
	assert_int_equal(msg_receive(pair[1], &got, sizeof(got), &fd, 1000), -EPROTO);
	send_raw(bytes, sizeof(struct word) + 1, 0);
	assert_int_equal(msg_receive(pair[1], &got, sizeof(got), &fd, 1000), -EPROTO);
	send_raw(bytes, 1, 1);
	assert_int_equal(msg_receive(pair[1], &got, sizeof(got), &fd, 1000), -EPROTO);
	assert_int_equal(fd, -1);
	/* an unexpected descriptor, and more than one */
	send_raw(bytes, sizeof(struct word), 1);
	assert_int_equal(msg_receive(pair[1], &got, sizeof(got), NULL, 1000), -EPROTO);
	for (int n = 2; n <= 8; n++) {
		send_raw(bytes, sizeof(struct word), n);
		assert_int_equal(msg_receive(pair[1], &got, sizeof(got), &fd, 1000), -EPROTO);
		assert_int_equal(fd, -1);
	}
	assert_int_equal(count_open(), before);
	/* the socket still works */
	send_raw(bytes, sizeof(struct word), 0);
	assert_int_equal(msg_receive(pair[1], &got, sizeof(got), NULL, 1000), 0);
}

static void test_waits_and_ends(void **state)
{
	struct word w = { "x" };
	int fd, rc;

	assert_int_equal(msg_receive(pair[1], &w, sizeof(w), &fd, 0), -ETIMEDOUT);
	assert_int_equal(msg_receive(pair[1], &w, sizeof(w), &fd, 5), -ETIMEDOUT);
	do
		rc = msg_send(pair[0], &w, sizeof(w), -1, 0);
	while (rc == 0);
	assert_int_equal(rc, -ETIMEDOUT);
	close(pair[1]);
	assert_int_equal(msg_send(pair[0], &w, sizeof(w), -1, 1000), -EPIPE);
	assert_int_equal(msg_receive(pair[0], &w, sizeof(w), &fd, 1000), -EPIPE);
	pair[1] = dup(0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_a_message_and_a_descriptor, setup, teardown),
		cmocka_unit_test_setup_teardown(test_what_is_no_message_is_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(test_waits_and_ends, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
