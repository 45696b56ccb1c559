// SPDX-License-Identifier: Apache-2.0
/* Threads: names, signals, and the limit of CPUs. */
#include "util/limits.h"
#include "util/thread.h"

#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

struct report {
	char name[16];
	sigset_t mask;
};

static void *report(void *arg)
{
	struct report *r = arg;

	pthread_getname_np(pthread_self(), r->name, sizeof(r->name));
	pthread_sigmask(SIG_SETMASK, NULL, &r->mask);
	return r;
}

static void test_start(void **state)
{
	struct report r;
	sigset_t before, after;
	pthread_t t;
	void *got;

	(void)state;
	pthread_sigmask(SIG_SETMASK, NULL, &before);
	assert_int_equal(thread_start(&t, "a long name, cut", report, &r), 0);
	pthread_join(t, &got);
	assert_ptr_equal(got, &r);
	assert_string_equal(r.name, "a long name, cu");
	assert_true(sigismember(&r.mask, SIGINT));
	assert_true(sigismember(&r.mask, SIGTERM));
	assert_true(sigismember(&r.mask, SIGCHLD));
	assert_true(sigismember(&r.mask, SIGPIPE));
	assert_false(sigismember(&r.mask, SIGSEGV));
	assert_false(sigismember(&r.mask, SIGBUS));

	pthread_sigmask(SIG_SETMASK, NULL, &after);
	assert_int_equal(sigismember(&after, SIGINT), sigismember(&before, SIGINT));
	assert_int_equal(sigismember(&after, SIGTERM), sigismember(&before, SIGTERM));
}

static void test_cpus(void **state)
{
	cpu_set_t all, one;
	int cpu = 0;

	(void)state;
	if (sched_getaffinity(0, sizeof(all), &all))
		skip();
	assert_int_equal(cpus_allowed(), CPU_COUNT(&all));
	while (!CPU_ISSET(cpu, &all))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	assert_int_equal(cpus_allowed(), 1);
	sched_setaffinity(0, sizeof(all), &all);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_start),
		cmocka_unit_test(test_cpus),
	};

	return cmocka_run_group_tests_name("thread", tests, NULL, NULL);
}
