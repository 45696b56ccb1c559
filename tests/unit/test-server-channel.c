// SPDX-License-Identifier: Apache-2.0
/* The channel from a process to the monitor carries requests but no descriptors, and the table of
 * requests says which process may send which request. */
#include "server/monitor/monitor.h"
#include "tests/support/raw-message.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { LINGER_S = 60, SOON_S = 30 };

static struct channel ours, theirs;
static int unread;     /* the peer's end of the lingering connection */
static uint64_t begun; /* ns */

static int setup(void **state)
{
	begun = now_ns();
	unread = -1;
	return channel_open(&ours, &theirs);
}

static int teardown(void **state)
{
	channel_close(&ours);
	channel_close(&theirs);
	cleanup_close(&unread);
	return 0;
}

/* ---- descriptors ---- */

/* A connection with SO_LINGER whose close(2) blocks, because the peer does not read. */
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

static void clear_linger(int fd)
{
	struct linger none = { 1, 0 };

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
	close(fd);
}

/* The process passes descriptors on both ends, with and without data; the monitor receives none. */
static void test_no_descriptor_comes(void **state)
{
	uint8_t packet[REQUEST_MAX];
	int fd = lingering(), many[RAW_FDS], before = count_open();

	for (int i = 0; i < RAW_FDS; i++)
		many[i] = fd;
	for (size_t len = 0; len <= 16; len += 8) {
		static const char bytes[16];

		assert_int_equal(raw_send(theirs.up, bytes, len, &fd, 1, 0), -ENOTSOCK);
		assert_int_equal(raw_send(theirs.down, bytes, len, &fd, 1, 0), -EPIPE);
		assert_int_equal(raw_send(theirs.down, bytes, len, many, RAW_FDS, 0), -EPIPE);
	}
	/* This also holds after the process tries to reopen the socket for reading. */
	shutdown(theirs.down, SHUT_RD);
	assert_int_equal(raw_send(theirs.down, "x", 1, &fd, 1, 0), -EPIPE);
	assert_int_equal(channel_read(&ours, packet), -EAGAIN);
	assert_int_equal(recv(ours.down, packet, 1, MSG_DONTWAIT), 0);
	assert_int_equal(count_open(), before);
	clear_linger(fd);
}

/* The process sends descriptors and closes its ends; the monitor closes its own ends without
 * blocking. */
static void test_closing_does_not_wait(void **state)
{
	int fd = lingering();

	raw_send(theirs.up, "12345678", 8, &fd, 1, 0);
	raw_send(theirs.down, "12345678", 8, &fd, 1, 0);
	channel_close(&theirs);
	channel_close(&ours);
	assert_true(now_ns() - begun < (uint64_t)SOON_S * 1000000000);
	clear_linger(fd);
}

/* A reply of the monitor may carry one descriptor. */
static void test_replies_carry_one(void **state)
{
	struct login_reply sent = { .code = 0 }, got;
	int passed = -1, before = count_open();

	assert_int_equal(msg_send(ours.down, &sent, sizeof(sent), STDERR_FILENO, 0), 0);
	assert_int_equal(msg_receive(theirs.down, &got, sizeof(got), &passed, 1000), 0);
	assert_int_equal(count_open(), before + 1);
	close(passed);
}

/* ---- packets ---- */

static void test_packets(void **state)
{
	static const uint8_t zeros[REQUEST_MAX];
	uint8_t packet[REQUEST_MAX];
	struct memory_request r = { .memory = 7 };
	struct request_head head;

	assert_int_equal(channel_read(&ours, packet), -EAGAIN);
	assert_int_equal(channel_send(&theirs, REQUEST_MEMORY, &r, sizeof(r), 1000), 0);
	assert_int_equal(channel_send(&theirs, REQUEST_MEMORY, &r, sizeof(r), 1000), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(channel_read(&ours, packet), sizeof(head) + sizeof(r));
		memcpy(&head, packet, sizeof(head));
		assert_int_equal(head.type, REQUEST_MEMORY);
		assert_int_equal(head.size, sizeof(r));
		assert_memory_equal(packet + sizeof(head), &r, sizeof(r));
	}
	/* A packet shorter than a head, an empty packet, and one of the maximum size. */
	assert_int_equal(write(theirs.up, zeros, sizeof(head) - 1), sizeof(head) - 1);
	assert_int_equal(channel_read(&ours, packet), -EPROTO);
	assert_int_equal(write(theirs.up, zeros, 0), 0);
	assert_int_equal(channel_read(&ours, packet), -EAGAIN);
	assert_int_equal(write(theirs.up, zeros, REQUEST_MAX), REQUEST_MAX);
	assert_int_equal(channel_read(&ours, packet), REQUEST_MAX);
	channel_close(&theirs);
	assert_int_equal(channel_read(&ours, packet), -EPIPE);
}

static void test_full_and_gone(void **state)
{
	struct memory_request r = { .memory = 7 };
	int rc;

	do
		rc = channel_send(&theirs, REQUEST_MEMORY, &r, sizeof(r), 0);
	while (rc == 0);
	assert_int_equal(rc, -ETIMEDOUT);
	assert_int_equal(channel_send(&theirs, REQUEST_MEMORY, &r, sizeof(r), 5), -ETIMEDOUT);
	channel_close(&ours);
	assert_int_equal(channel_send(&theirs, REQUEST_MEMORY, &r, sizeof(r), 1000), -EPIPE);
}

/* ---- the table of requests ---- */

static const struct {
	enum request_type type;
	size_t size;
	unsigned states;
} rules[] = {
	{ REQUEST_LOGIN, sizeof(struct login_request), STATE_PREAUTH },
	{ REQUEST_REPORT, sizeof(struct check_report), STATE_CHECKING },
	{ REQUEST_MEMORY, sizeof(struct memory_request), STATE_SESSION },
	{ REQUEST_SESSION, sizeof(struct session_report), STATE_PREAUTH | STATE_SESSION },
	{ REQUEST_TRANSFER, sizeof(struct transfer_report), STATE_SESSION },
	{ REQUEST_STATUS, sizeof(struct status_request), STATE_SESSION },
	{ REQUEST_FACTS, sizeof(struct facts_request), STATE_SESSION },
	{ 0, 0, 0 },
	{ REQUEST_FACTS + 1, 8, 0 },
	{ UINT32_MAX, 8, 0 },
};

static int send_in(enum proc_state s, const void *p, size_t len)
{
	struct conn c = { .used = true };
	int rc;

	c.session = (struct proc){ .pid = 1, .state = s, .channel = ours };
	quota_init(&c.session.quota, &quota_session, now_ns() / 1000000);
	assert_int_equal(write(theirs.up, p, len), len);
	rc = proc_read(NULL, &c, &c.session); /* no handler is called without a monitor */
	while (channel_read(&ours, (uint8_t[REQUEST_MAX]){ 0 }) > 0)
		;
	return rc;
}

static void test_states(void **state)
{
	uint8_t packet[REQUEST_MAX] = { 0 };

	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		struct request_head head = { rules[i].type, (uint32_t)rules[i].size };

		memcpy(packet, &head, sizeof(head));
		for (unsigned s = STATE_PREAUTH; s <= STATE_LOG_ONLY; s *= 2)
			if (!(s & rules[i].states) &&
			    send_in(s, packet, sizeof(head) + rules[i].size) != -EPROTO)
				fail_msg("request %u in state %u", head.type, s);
	}
}

/* A request of another size is refused in the states that allow the request, too. */
static void test_sizes(void **state)
{
	uint8_t packet[REQUEST_MAX] = { 0 };

	for (size_t i = 0; rules[i].type; i++) {
		struct request_head head = { rules[i].type, (uint32_t)rules[i].size };
		size_t len = sizeof(head) + rules[i].size;

		memcpy(packet, &head, sizeof(head));
		assert_int_equal(send_in(rules[i].states, packet, len - 1), -EPROTO);
		assert_int_equal(send_in(rules[i].states, packet, len + 1), -EPROTO);
		assert_int_equal(send_in(rules[i].states, packet, sizeof(head)), -EPROTO);
		assert_int_equal(send_in(rules[i].states, packet, REQUEST_MAX), -EPROTO);
	}
}

/* A process can clear O_DIRECT on its pipe: two requests then arrive as one request of a wrong
 * size. */
static void test_no_packet_mode(void **state)
{
	struct conn c = { .used = true };
	struct memory_request r = { .memory = 7 };

	c.session = (struct proc){ .pid = 1, .state = STATE_SESSION, .channel = ours };
	quota_init(&c.session.quota, &quota_session, now_ns() / 1000000);
	assert_int_equal(fcntl(theirs.up, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(channel_send(&theirs, REQUEST_MEMORY, &r, sizeof(r), 1000), 0);
	assert_int_equal(channel_send(&theirs, REQUEST_MEMORY, &r, sizeof(r), 1000), 0);
	assert_int_equal(proc_read(NULL, &c, &c.session), -EPROTO);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_no_descriptor_comes), TEST(test_closing_does_not_wait),
		TEST(test_replies_carry_one), TEST(test_packets), TEST(test_full_and_gone),
		TEST(test_states), TEST(test_sizes), TEST(test_no_packet_mode),
	};

	signal(SIGPIPE, SIG_IGN); /* as rftpd does */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
