// SPDX-License-Identifier: Apache-2.0
/* Lanes whose message stream is lost: who sleeps in it wakes, and all are told one reason, the
 * first, whoever met it. */
#include "tests/support/lanes.h"

#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>

/* A connection that the kernel gives up ends with ETIMEDOUT: for who asks with a time-out of
 * his own that would mean to ask again, for ever. */
static ssize_t times_out(struct stream *s, void *p, size_t len, int timeout_ms)
{
	(void)s;
	(void)p;
	(void)len;
	(void)timeout_ms;
	return -ETIMEDOUT;
}

static ssize_t takes_all(struct stream *s, const void *p, size_t len, int timeout_ms)
{
	(void)s;
	(void)p;
	(void)timeout_ms;
	return (ssize_t)len;
}

static void ignores(struct stream *s)
{
	(void)s;
}

static void test_time_out(void **state)
{
	static const struct stream_ops ops = { .read = times_out, .write = takes_all,
					       .abort = ignores, .free = ignores };
	struct stream dead = { &ops };
	struct mstream *m = ms_new(&dead);
	struct err e = ERR_INIT;
	struct lanes *l = lanes_new(m, 1, &e);
	struct stream *s = lanes_take(l, 0);
	char p[1];

	(void)state;
	assert_int_equal(get(s, p, 1, LONG_MS), -EPIPE);
	assert_int_equal(get(s, p, 1, LONG_MS), -EPIPE);
	stream_free(s);
	assert_int_equal(lanes_end(l, LONG_MS), -EPIPE);
	ms_free(m);
}

static void *write_on(void *arg)
{
	static const uint8_t zeros[LANE_PIECE];
	struct flow *f = arg;
	ssize_t n;

	while ((n = put(f->s, zeros, sizeof(zeros), LONG_MS)) > 0)
		__atomic_add_fetch(&f->bytes, (size_t)n, __ATOMIC_RELAXED);
	f->last = n;
	return NULL;
}

/* A thread that writes to s, until the socket takes no more. */
static void fill_socket(struct flow *f, struct stream *s)
{
	size_t seen = 0, now;

	f->s = s;
	assert_int_equal(thread_start(&f->thread, "flow", write_on, f), 0);
	while (usleep(50000), (now = __atomic_load_n(&f->bytes, __ATOMIC_RELAXED)) != seen || !now)
		seen = now;
	assert_true(now < LANE_WINDOW);
}

/* Who sleeps in what all share does not sleep on when his lane is given up. */
static void test_abort_amid_write(void **state)
{
	struct flow f = { 0 };
	struct side s;
	int fds[2];
	char p[1];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	side_init(&s, fds[0]);
	fill_socket(&f, s.lane[0]);
	s.lane[0]->ops->abort(s.lane[0]);
	pthread_join(f.thread, NULL);
	assert_int_equal(get(s.lane[1], p, 1, LONG_MS), -EPIPE);
	side_close(&s);
	assert_int_equal(lanes_end(s.l, LONG_MS), -EPIPE);
	ms_free(s.m);
	close(fds[1]);
}

static void expect_all(struct side *s, int error)
{
	char p[1];

	for (unsigned i = 0; i < LANES; i++) {
		assert_int_equal(put(s->lane[i], "x", 1, LONG_MS), error);
		assert_int_equal(get(s->lane[i], p, 1, LONG_MS), error);
	}
	side_close(s);
	assert_int_equal(lanes_end(s->l, LONG_MS), error);
	ms_free(s->m);
}

/* Who is woken there is told what woke him. */
static void test_error_amid_write(void **state)
{
	struct flow f = { 0 };
	struct mstream *peer;
	struct side s;
	int fds[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	side_init(&s, fds[0]);
	fill_socket(&f, s.lane[0]);
	peer = ms_new(stream_plain(fds[1], fds[1]));
	assert_int_equal(ms_write_frame(peer, BULK_LANE_END, "\0", 2), 0);
	pthread_join(f.thread, NULL);
	assert_int_equal(f.last, -EBADMSG);
	expect_all(&s, -EBADMSG);
	ms_free(peer);
}

/* A peer that says something wrong and is gone, which a writer meets first. */
static sem_t met;
static bool given_up;

static ssize_t says_it_then(struct stream *s, void *p, size_t len, int timeout_ms)
{
	static const uint8_t wrong[] = { BULK_LANE_END, 0, 0, 0, 0, 0, 0, 2, 0, 0 };

	(void)s;
	(void)timeout_ms;
	sem_wait(&met);
	assert_true(len >= sizeof(wrong));
	memcpy(p, wrong, sizeof(wrong));
	return __atomic_load_n(&given_up, __ATOMIC_SEQ_CST) ? -ECANCELED : (ssize_t)sizeof(wrong);
}

static ssize_t is_gone(struct stream *s, const void *p, size_t len, int timeout_ms)
{
	(void)s;
	(void)p;
	(void)len;
	(void)timeout_ms;
	sem_post(&met);
	return -EPIPE;
}

static void gives_up(struct stream *s)
{
	(void)s;
	__atomic_store_n(&given_up, true, __ATOMIC_SEQ_CST);
	sem_post(&met);
}

static void test_last_words(void **state)
{
	static const struct stream_ops ops = { .read = says_it_then, .write = is_gone,
					       .abort = gives_up, .free = ignores };
	struct stream gone = { &ops };
	struct side s;

	(void)state;
	sem_init(&met, 0, 0);
	side_take(&s, &gone);
	expect_all(&s, -EBADMSG);
	sem_destroy(&met);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_time_out),
		cmocka_unit_test(test_abort_amid_write),
		cmocka_unit_test(test_error_amid_write),
		cmocka_unit_test(test_last_words),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
