// SPDX-License-Identifier: Apache-2.0
/* A path's thread sleeps, and other threads wake it. */
#include "transport/transport.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#define ROUNDS 20000
#define LONG_MS 60000 /* a lost wake-up shows as the runner's time-out */

static void test_woken_is_told_once(void **state)
{
	struct sleeper s;
	struct epoll_event e;

	(void)state;
	assert_int_equal(sleeper_open(&s), 0);
	assert_false(sleeper_woken(&s));
	sleeper_wake(&s);
	assert_false(sleeper_lie_down(&s));
	assert_int_equal(sleeper_sleep(&s, &e, 1, 0), 0);
	assert_true(sleeper_woken(&s));
	assert_false(sleeper_woken(&s));
	assert_true(sleeper_lie_down(&s));
	sleeper_close(&s);
}

/* A kick after sleeper_lie_down() ends the sleep; a kick before it has no effect. */
static void test_kick(void **state)
{
	struct sleeper s;
	struct epoll_event e;

	(void)state;
	assert_int_equal(sleeper_open(&s), 0);
	sleeper_kick(&s);
	assert_true(sleeper_lie_down(&s));
	assert_int_equal(sleeper_sleep(&s, &e, 1, 0), 0);
	assert_true(sleeper_lie_down(&s));
	sleeper_kick(&s);
	assert_int_equal(sleeper_sleep(&s, &e, 1, LONG_MS), 1);
	assert_true(e.data.u64 == SLEEPER_WOKEN);
	assert_false(sleeper_woken(&s));
	sleeper_close(&s);
}

static void test_watched(void **state)
{
	struct sleeper s;
	struct epoll_event e;
	int fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);

	(void)state;
	assert_int_equal(sleeper_open(&s), 0);
	assert_int_equal(sleeper_watch(&s, fd, EPOLLIN, (epoll_data_t){ .u64 = 7 }), 0);
	assert_int_equal(sleeper_watch(&s, fd, EPOLLIN, (epoll_data_t){ .u64 = 7 }), -EEXIST);
	assert_int_equal(sleeper_sleep(&s, &e, 1, LONG_MS), 1);
	assert_true(e.data.u64 == 7);
	sleeper_unwatch(&s, fd);
	assert_int_equal(sleeper_sleep(&s, &e, 1, 0), 0);
	sleeper_close(&s);
	close(fd);
}

struct pair {
	struct sleeper s;
	atomic_uint left, taken; /* left: written by the kicker; taken: by the sleeper */
};

/* Leaves one item at a time, and continues when the sleeper has taken it. */
static void *kicker(void *arg)
{
	struct pair *p = arg;

	for (unsigned i = 1; i <= ROUNDS; i++) {
		atomic_store(&p->left, i);
		sleeper_kick(&p->s);
		while (atomic_load(&p->taken) < i)
			sched_yield();
	}
	return NULL;
}

static void test_no_wake_up_is_lost(void **state)
{
	struct pair p = { .left = 0 };
	unsigned taken = 0;
	pthread_t t;

	(void)state;
	assert_int_equal(sleeper_open(&p.s), 0);
	assert_int_equal(pthread_create(&t, NULL, kicker, &p), 0);
	while (taken < ROUNDS) {
		struct epoll_event e;
		int ms = sleeper_lie_down(&p.s) && atomic_load(&p.left) == taken ? LONG_MS : 0;

		assert_true(sleeper_sleep(&p.s, &e, 1, ms) >= 0);
		taken = atomic_load(&p.left);
		atomic_store(&p.taken, taken);
	}
	pthread_join(t, NULL);
	sleeper_close(&p.s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_woken_is_told_once),
		cmocka_unit_test(test_kick),
		cmocka_unit_test(test_watched),
		cmocka_unit_test(test_no_wake_up_is_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
