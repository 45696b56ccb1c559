// SPDX-License-Identifier: Apache-2.0
/* The client's waits end when the user wants to stop, and nothing runs until then. */
#include "transfer/leash.h"

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
	struct leash leash;
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
	assert_int_equal(leash_start(&x->leash, x->stop, x->ms, &e), 0);
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

/* Sleep in the stream until somebody wants to stop. How long after that it was, in ms. */
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

/* Before anything has begun there is nobody to take leave of. */
static void test_at_once(void **state)
{
	struct fixture *x = *state;

	assert_true(wait_for_peer(x) < LEAVE_MS / 2);
	/* Connecting is woken, too, and what comes later finds it so. */
	assert_int_equal(poll_fd(x->leash.fd, POLLIN, LONG_MS), 1);
	assert_true(leash_end(&x->leash));
}

/* A stop from before the leash is one. */
static void test_too_early(void **state)
{
	struct fixture *x = *state;
	struct err e = ERR_INIT;
	char line[8];

	assert_false(leash_end(&x->leash));
	eventfd_write(x->stop, 1);
	assert_int_equal(leash_start(&x->leash, x->stop, x->ms, &e), 0);
	assert_int_equal(ms_read_line(x->ms, line, sizeof(line), LONG_MS), -ECANCELED);
	assert_true(leash_end(&x->leash));
}

static void test_time_to_take_leave(void **state)
{
	struct fixture *x = *state;

	leash_begun(&x->leash);
	assert_true(wait_for_peer(x) >= LEAVE_MS - 100);
	assert_true(leash_end(&x->leash));
}

/* Leave has been taken: the stream stays as it is. */
static void test_leave_taken(void **state)
{
	struct fixture *x = *state;
	uint64_t began = now_ns();
	char line[8];

	leash_begun(&x->leash);
	eventfd_write(x->stop, 1);
	usleep(100000);
	assert_false(leash_end(&x->leash));
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

/* The thread sleeps as long as there is nothing to do. */
static void test_sleeps(void **state)
{
	struct fixture *x = *state;
	long before;

	usleep(100000); /* it has begun by now */
	before = sleeps_begun();
	usleep(500000);
	assert_in_range(sleeps_begun() - before, 0, 12); /* sanitizers have threads, too */
	assert_false(leash_end(&x->leash));
}

static void test_nothing_to_watch(void **state)
{
	struct leash l;
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(leash_start(&l, -1, NULL, &e), 0);
	assert_int_equal(l.fd, -1);
	leash_begun(&l);
	assert_false(leash_end(&l));
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

	return cmocka_run_group_tests_name("leash", tests, NULL, NULL);
}
