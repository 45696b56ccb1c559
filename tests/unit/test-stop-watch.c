// SPDX-License-Identifier: Apache-2.0
/* The client's waits end when the user stops it, and the watching thread sleeps until then. */
#include "transfer/setup.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define LONG_MS 60000

struct fixture {
	struct mstream *ms;
	int peer;
	int stop;
	struct stop_watch watch;
};

static int setup(void **state)
{
	struct fixture *x = calloc(1, sizeof(*x));
	struct err e = ERR_INIT;
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	x->ms = ms_new(stream_plain(fds[0], fds[0]));
	x->peer = fds[1];
	x->stop = eventfd(0, EFD_CLOEXEC);
	assert_int_equal(stop_watch_start(&x->watch, x->stop, x->ms, &e), 0);
	*state = x;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *x = *state;

	ms_free(x->ms);
	close(x->peer);
	close(x->stop);
	free(x);
	return 0;
}

static void *stop_soon(void *arg)
{
	struct fixture *x = arg;

	usleep(100000);
	eventfd_write(x->stop, 1);
	return NULL;
}

/* Reads from the stream until the stop. Returns the milliseconds from the stop to the return. */
static unsigned wait_for_peer(struct fixture *x)
{
	uint64_t began = now_ns();
	char line[8];
	pthread_t t;

	assert_int_equal(thread_start(&t, "stopper", stop_soon, x), 0);
	assert_int_equal(ms_read_line(x->ms, line, sizeof(line), LONG_MS), -ECANCELED);
	pthread_join(t, NULL);
	return (unsigned)((now_ns() - began) / 1000000) - 100;
}

/* Before a transfer has begun there is nothing to abort on the server. */
static void test_at_once(void **state)
{
	struct fixture *x = *state;

	assert_true(wait_for_peer(x) < LEAVE_MS / 2);
	/* The descriptor for connecting is readable, and stays so for later waits. */
	assert_int_equal(poll_fd(x->watch.fd, POLLIN, LONG_MS), 1);
	assert_true(stop_watch_end(&x->watch));
}

/* A stop before the start of the watch counts. */
static void test_too_early(void **state)
{
	struct fixture *x = *state;
	struct err e = ERR_INIT;
	char line[8];

	assert_false(stop_watch_end(&x->watch));
	eventfd_write(x->stop, 1);
	assert_int_equal(stop_watch_start(&x->watch, x->stop, x->ms, &e), 0);
	assert_int_equal(ms_read_line(x->ms, line, sizeof(line), LONG_MS), -ECANCELED);
	assert_true(stop_watch_end(&x->watch));
}

static void test_time_to_take_leave(void **state)
{
	struct fixture *x = *state;

	stop_watch_begun(&x->watch);
	assert_true(wait_for_peer(x) >= LEAVE_MS - 100);
	assert_true(stop_watch_end(&x->watch));
}

/* The transfer was aborted in good order: the stream stays usable. */
static void test_leave_taken(void **state)
{
	struct fixture *x = *state;
	uint64_t began = now_ns();
	char line[8];

	stop_watch_begun(&x->watch);
	eventfd_write(x->stop, 1);
	usleep(100000);
	assert_false(stop_watch_end(&x->watch));
	assert_true(now_ns() - began < LEAVE_MS / 2 * 1000000ull);
	assert_int_equal(write(x->peer, "bye\r\n", 5), 5);
	assert_int_equal(ms_read_line(x->ms, line, sizeof(line), LONG_MS), 3);
}

static long sleeps_begun(void)
{
	struct rusage r;

	getrusage(RUSAGE_SELF, &r);
	return r.ru_nvcsw;
}

/* Without a stop the thread sleeps. */
static void test_sleeps(void **state)
{
	struct fixture *x = *state;
	long before;

	usleep(100000); /* time for the thread to start */
	before = sleeps_begun();
	usleep(500000);
	assert_in_range(sleeps_begun() - before, 0, 12); /* sanitizers have threads of their own */
	assert_false(stop_watch_end(&x->watch));
}

static void test_nothing_to_watch(void **state)
{
	struct stop_watch w;
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(stop_watch_start(&w, -1, NULL, &e), 0);
	assert_int_equal(poll_fd(w.fd, POLLIN, 0), 0); /* no wait ends */
	stop_watch_begun(&w);
	assert_false(stop_watch_end(&w));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_at_once, setup, teardown),
		cmocka_unit_test_setup_teardown(test_too_early, setup, teardown),
		cmocka_unit_test_setup_teardown(test_time_to_take_leave, setup, teardown),
		cmocka_unit_test_setup_teardown(test_leave_taken, setup, teardown),
		cmocka_unit_test_setup_teardown(test_sleeps, setup, teardown),
		cmocka_unit_test(test_nothing_to_watch),
	};

	return cmocka_run_group_tests_name("stop-watch", tests, NULL, NULL);
}
