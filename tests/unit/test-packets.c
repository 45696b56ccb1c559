// SPDX-License-Identifier: Apache-2.0
/* Streams of packets: their bytes, a proper end, a broken connection, and forwarding. */
#include "transport/transport.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

struct pair {
	int fd[2];
	struct stream *s[2];
};

static void make_pair(struct pair *p)
{
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, p->fd), 0);
	for (int i = 0; i < 2; i++) {
		p->s[i] = stream_packets(p->fd[i]);
		assert_non_null(p->s[i]);
	}
}

static ssize_t rd(struct stream *s, void *buf, size_t len)
{
	return s->ops->read(s, buf, len, 1000);
}

static ssize_t wr(struct stream *s, const void *buf, size_t len)
{
	return s->ops->write(s, buf, len, 1000);
}

static void test_bytes_come_as_they_were_sent(void **state)
{
	static char sent[200000], got[200000];
	size_t done = 0, have = 0;
	struct pair p;

	make_pair(&p);
	for (size_t i = 0; i < sizeof(sent); i++)
		sent[i] = (char)(i * 7 + i / 251);
	while (have < sizeof(got)) {
		ssize_t n = done < sizeof(sent) ? wr(p.s[0], sent + done, sizeof(sent) - done) : 0;

		assert_true(n >= 0);
		done += (size_t)n;
		/* odd sizes, so that packets are read in parts */
		n = rd(p.s[1], got + have, sizeof(got) - have < 777 ? sizeof(got) - have : 777);
		assert_true(n > 0);
		have += (size_t)n;
	}
	assert_memory_equal(sent, got, sizeof(sent));
	stream_free(p.s[0]);
	stream_free(p.s[1]);
}

static void test_an_end_is_not_a_cut(void **state)
{
	char c[16];
	struct pair p;

	make_pair(&p);
	assert_int_equal(wr(p.s[0], "abc", 3), 3);
	assert_int_equal(p.s[0]->ops->shutdown(p.s[0]), 0);
	stream_free(p.s[0]);
	assert_int_equal(rd(p.s[1], c, 2), 2);
	assert_int_equal(p.s[1]->ops->pending(p.s[1]), 1);
	assert_int_equal(rd(p.s[1], c, sizeof(c)), 1);
	assert_int_equal(rd(p.s[1], c, sizeof(c)), 0);
	assert_int_equal(rd(p.s[1], c, sizeof(c)), 0);
	assert_int_equal(wr(p.s[1], "x", 1), -EPIPE);
	stream_free(p.s[1]);

	make_pair(&p);
	assert_int_equal(wr(p.s[0], "abc", 3), 3);
	stream_free(p.s[0]);
	assert_int_equal(rd(p.s[1], c, sizeof(c)), 3);
	assert_int_equal(rd(p.s[1], c, sizeof(c)), -EPIPE);
	stream_free(p.s[1]);
}

/* The peer has left without reading all of its data. */
static void test_last_words_come_all_the_same(void **state)
{
	char c[16];
	struct pair p;

	make_pair(&p);
	assert_int_equal(wr(p.s[1], "unheard", 7), 7);
	assert_int_equal(wr(p.s[0], "abc", 3), 3);
	assert_int_equal(p.s[0]->ops->shutdown(p.s[0]), 0);
	stream_free(p.s[0]);
	assert_int_equal(rd(p.s[1], c, sizeof(c)), 3);
	assert_int_equal(rd(p.s[1], c, sizeof(c)), 0);
	stream_free(p.s[1]);
}

static void test_what_is_no_packet_is_refused(void **state)
{
	static char big[70000] = { 1 };
	char c[16];
	int most = 1 << 20;
	struct pair p;

	make_pair(&p);
	assert_int_equal(send(p.fd[0], "\003abc", 4, 0), 4);
	assert_int_equal(rd(p.s[1], c, sizeof(c)), -EPROTO);
	assert_int_equal(send(p.fd[0], "\001", 1, 0), 1);
	assert_int_equal(rd(p.s[1], c, sizeof(c)), -EPROTO);
	setsockopt(p.fd[0], SOL_SOCKET, SO_SNDBUF, &most, sizeof(most));
	assert_int_equal(send(p.fd[0], big, sizeof(big), 0), sizeof(big));
	assert_int_equal(rd(p.s[1], c, sizeof(c)), -EPROTO);
	stream_free(p.s[0]);
	stream_free(p.s[1]);
}

static void test_times_out_and_aborts(void **state)
{
	static char buf[65536];
	struct pair p;
	ssize_t n;

	make_pair(&p);
	assert_int_equal(p.s[0]->ops->read(p.s[0], buf, 1, 1), -ETIMEDOUT);
	do
		n = p.s[0]->ops->write(p.s[0], buf, sizeof(buf), 1);
	while (n > 0);
	assert_int_equal(n, -ETIMEDOUT);
	p.s[0]->ops->abort(p.s[0]);
	assert_int_equal(rd(p.s[0], buf, 1), -ECANCELED);
	assert_int_equal(wr(p.s[0], buf, 1), -ECANCELED);
	stream_free(p.s[0]);
	stream_free(p.s[1]);
}

/* A packet fits into a socket with a small buffer. */
static void test_fits_into_a_small_socket(void **state)
{
	static char sent[65536], got[65536];
	int room = 32 << 10; /* the kernel doubles this value */
	struct pair p;
	ssize_t n;

	make_pair(&p);
	assert_int_equal(setsockopt(p.fd[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)), 0);
	n = wr(p.s[0], sent, sizeof(sent));
	assert_true(n > 0);
	assert_int_equal(rd(p.s[1], got, sizeof(got)), n);
	stream_free(p.s[0]);
	stream_free(p.s[1]);
}

/* ---- forwarding ---- */

struct passer {
	struct stream *a, *b;
	int rc;
};

static void *pass(void *arg)
{
	struct passer *w = arg;

	w->rc = stream_pass(w->a, w->b);
	return NULL;
}

static void pass_and_check(bool whole)
{
	struct pair p, q;
	struct passer w;
	pthread_t t;
	char c[16];

	make_pair(&p);
	make_pair(&q);
	w = (struct passer){ p.s[1], q.s[0], 1 };
	assert_int_equal(thread_start(&t, "pass", pass, &w), 0);
	assert_int_equal(wr(p.s[0], "hello", 5), 5);
	if (whole)
		assert_int_equal(p.s[0]->ops->shutdown(p.s[0]), 0);
	stream_free(p.s[0]);
	assert_int_equal(rd(q.s[1], c, sizeof(c)), 5);
	assert_memory_equal(c, "hello", 5);
	assert_int_equal(rd(q.s[1], c, sizeof(c)), whole ? 0 : -EPIPE);
	pthread_join(t, NULL);
	assert_int_equal(w.rc, whole ? 0 : -EPIPE);
	stream_free(p.s[1]);
	stream_free(q.s[0]);
	stream_free(q.s[1]);
}

static void test_passes_on_ends_and_cuts(void **state)
{
	pass_and_check(true);
	pass_and_check(false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes_come_as_they_were_sent),
		cmocka_unit_test(test_an_end_is_not_a_cut),
		cmocka_unit_test(test_last_words_come_all_the_same),
		cmocka_unit_test(test_what_is_no_packet_is_refused),
		cmocka_unit_test(test_times_out_and_aborts),
		cmocka_unit_test(test_fits_into_a_small_socket),
		cmocka_unit_test(test_passes_on_ends_and_cuts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
