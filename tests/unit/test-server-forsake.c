// SPDX-License-Identifier: Apache-2.0
/* Descriptors that nobody has asked for: who gets them does not wait for what their end takes. */
#include "server/forsake.h"
#include "server/lines.h"
#include "server/msg.h"
#include "tests/support/raw-message.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { LINGER_S = 60, SOON_S = 30 };

static int pair[2];    /* ours, theirs */
static int unread;     /* the other side of what lingers */
static uint64_t begun; /* ns */

static int setup(void **state)
{
	begun = now_ns();
	unread = -1;
	return msg_pair(pair);
}

static int teardown(void **state)
{
	cleanup_close(&pair[0]);
	cleanup_close(&pair[1]);
	cleanup_close(&unread);
	while (wait(NULL) > 0)
		;
	assert_int_equal(errno, ECHILD);
	return 0;
}

/* A connection whose close(2) waits for what nobody reads. */
static int lingering(void)
{
	static const char noise[1 << 16];
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct linger wait = { 1, LINGER_S };
	int listener = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof(at);

	assert_int_equal(bind(listener, (struct sockaddr *)&at, len), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &len), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&at, len), 0);
	unread = accept(listener, NULL, NULL);
	assert_true(unread >= 0);
	close(listener);
	while (send(fd, noise, sizeof(noise), MSG_DONTWAIT) > 0)
		;
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &wait, sizeof(wait)), 0);
	return fd;
}

/* A packet of len bytes and such a one, of which the packet's is the last. */
static void send_lingering(size_t len)
{
	static const char bytes[16];
	int fd = lingering();

	assert_int_equal(msg_send(pair[1], bytes, len, fd, 1000), 0);
	close(fd);
}

static void assert_soon(void)
{
	assert_true(now_ns() - begun < (uint64_t)SOON_S * 1000000000);
}

static void test_a_message(void **state)
{
	int before = count_open();
	char got[16];

	send_lingering(sizeof(got));
	assert_int_equal(count_open(), before + 1);
	assert_int_equal(msg_hear(pair[0], got, sizeof(got)), -EPROTO);
	assert_int_equal(msg_hear(pair[0], got, sizeof(got)), -EPROTO); /* it stays */
	forsake(&pair[0]);
	assert_int_equal(pair[0], -1);
	assert_int_equal(count_open(), before);
	assert_soon();
}

static void test_messages_without(void **state)
{
	char got[4];

	assert_int_equal(msg_hear(pair[0], got, sizeof(got)), -EAGAIN);
	assert_int_equal(msg_send(pair[1], "abc", 4, -1, 1000), 0);
	assert_int_equal(msg_hear(pair[0], got, sizeof(got)), 0);
	assert_string_equal(got, "abc");
	assert_int_equal(msg_send(pair[1], "abc", 3, -1, 1000), 0);
	assert_int_equal(msg_hear(pair[0], got, sizeof(got)), -EPROTO);
	assert_int_equal(msg_hear(pair[0], got, sizeof(got)), -EAGAIN);
	forsake(&pair[0]);
	assert_int_equal(waitpid(-1, NULL, 0), -1); /* that needs nobody */
	assert_int_equal(msg_send(pair[1], "abc", 4, -1, 1000), -EPIPE);
}

static void test_a_line(void **state)
{
	struct lines l;

	lines_init(&l, &lines_stranger, pair[0], 0);
	send_lingering(5);
	assert_int_equal(lines_hear(&l, 1, "192.0.2.7:1"), -EPROTO);
	pair[0] = l.fd;
	assert_int_equal(l.fd, -1);
	assert_soon();
}

/* Nobody has looked so far. */
static void test_behind_others(void **state)
{
	assert_int_equal(send(pair[1], "one", 3, 0), 3);
	assert_int_equal(send(pair[1], "", 0, 0), 0); /* not the end */
	send_lingering(0);
	send_lingering(7);
	forsake(&pair[0]);
	assert_soon();
}

static void *send_one(void *arg)
{
	for (volatile int spin = *(int *)arg; spin > 0; spin--)
		;
	msg_send(pair[1], "abc", 4, STDERR_FILENO, 1000);
	return NULL;
}

/* It comes when the looking is over, and the receiving is not: what was not looked at is not taken. */
static void test_in_between(void **state)
{
	char got[4];

	for (int i = 0, spin, rc; i < 2000; i++) {
		pthread_t sender;

		spin = i * 37 % 5000;
		assert_int_equal(pthread_create(&sender, NULL, send_one, &spin), 0);
		while ((rc = msg_hear(pair[0], got, sizeof(got))) == -EAGAIN)
			;
		assert_int_equal(rc, -EPROTO);
		pthread_join(sender, NULL);
		assert_int_equal(forsake_look(pair[0]), 1); /* it stays */
		close(pair[0]);
		close(pair[1]);
		assert_int_equal(msg_pair(pair), 0);
	}
}

/* Who has gone, and has left something unread. */
static void test_of_who_has_gone(void **state)
{
	assert_int_equal(send(pair[0], "unread", 6, 0), 6);
	send_lingering(7);
	cleanup_close(&pair[1]);
	assert_int_equal(forsake_look(pair[0]), 1);
	forsake(&pair[0]);
	assert_soon();
}

static void test_nothing(void **state)
{
	int none = -1;

	assert_int_equal(forsake_look(pair[0]), -EAGAIN);
	forsake(&none);
	cleanup_close(&pair[1]);
	assert_int_equal(forsake_look(pair[0]), 0);
	forsake(&pair[0]);
	assert_int_equal(pair[0], -1);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_a_message), TEST(test_messages_without), TEST(test_a_line),
		TEST(test_behind_others), TEST(test_of_who_has_gone), TEST(test_nothing),
		TEST(test_in_between),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
