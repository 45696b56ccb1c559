// SPDX-License-Identifier: Apache-2.0
/* Lanes: both ends over a socket pair, and a peer that we play byte by byte. */
#include "tests/support/lanes.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define BRIEF_MS 50

struct both {
	struct side a, b;
};

static void both_init(struct both *x)
{
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	side_init(&x->a, fds[0]);
	side_init(&x->b, fds[1]);
}

/* Both have freed their lanes: lines again. */
static void expect_lines(struct both *x)
{
	char line[8];

	assert_int_equal(lanes_end(x->a.l, LONG_MS), 0);
	assert_int_equal(lanes_end(x->b.l, LONG_MS), 0);
	assert_int_equal(ms_write(x->a.m, "there\r\n", 7), 0);
	assert_int_equal(ms_write(x->b.m, "back\r\n", 6), 0);
	assert_int_equal(ms_read_line(x->b.m, line, sizeof(line), LONG_MS), 5);
	assert_int_equal(ms_read_line(x->a.m, line, sizeof(line), LONG_MS), 4);
}

static void both_free(struct both *x)
{
	ms_free(x->a.m);
	ms_free(x->b.m);
}

/* ---- all at once ---- */

#define FLOOD (3 * LANE_WINDOW + 12345u)

static uint8_t byte_at(unsigned seed, size_t i)
{
	return (uint8_t)(i * 31 + (i >> 8) * 7 + (i >> 16) + seed * 101);
}

/* Pieces of all lengths, so that they end anywhere. */
static size_t piece_at(size_t i, size_t most)
{
	size_t n = 1 + i * 2654435761u % 150000;

	return n < most ? n : most;
}

static void *flow_out(void *arg)
{
	struct flow *f = arg;
	uint8_t *p = malloc(FLOOD);

	for (size_t i = 0; p && i < FLOOD; i++)
		p[i] = byte_at(f->seed, i);
	while (p && f->bytes < FLOOD) {
		ssize_t n = put(f->s, p + f->bytes, piece_at(f->bytes, FLOOD - f->bytes),
				LONG_MS);

		if (n <= 0)
			break;
		f->bytes += (size_t)n;
	}
	free(p);
	return NULL;
}

static void *flow_in(void *arg)
{
	struct flow *f = arg;
	uint8_t p[150000];

	while (f->bytes < FLOOD) {
		ssize_t n = get(f->s, p, piece_at(f->bytes, sizeof(p)), LONG_MS);

		for (ssize_t i = 0; i < n; i++)
			if (p[i] != byte_at(f->seed, f->bytes + (size_t)i))
				return NULL;
		if (n <= 0)
			break;
		f->bytes += (size_t)n;
	}
	return NULL;
}

static void test_all_at_once(void **state)
{
	struct flow f[4 * LANES] = { 0 };
	struct both x;

	(void)state;
	both_init(&x);
	for (unsigned i = 0; i < 4 * LANES; i++) {
		struct side *s = i & 1 ? &x.a : &x.b;
		bool out = i & 2;

		f[i].s = s->lane[i / 4];
		f[i].seed = i / 4 * 2 + ((i & 1) == (out ? 1u : 0u));
		assert_int_equal(thread_start(&f[i].thread, "flow", out ? flow_out : flow_in,
					      &f[i]), 0);
	}
	for (unsigned i = 0; i < 4 * LANES; i++) {
		pthread_join(f[i].thread, NULL);
		assert_int_equal(f[i].bytes, FLOOD);
	}
	side_close(&x.a);
	side_close(&x.b);
	expect_lines(&x);
	both_free(&x);
}

/* ---- one stands still ---- */

static size_t fill_up(struct stream *s)
{
	static const uint8_t zeros[100000];
	size_t n = 0;
	ssize_t r;

	while ((r = put(s, zeros, sizeof(zeros), BRIEF_MS)) > 0)
		n += (size_t)r;
	assert_int_equal(r, -ETIMEDOUT);
	return n;
}

static void test_window(void **state)
{
	uint8_t *p = malloc(LANE_WINDOW);
	size_t n = 0;
	struct both x;

	(void)state;
	both_init(&x);
	assert_int_equal(fill_up(x.a.lane[0]), LANE_WINDOW);
	/* The others do not care. */
	assert_int_equal(put(x.a.lane[1], "other", 5, LONG_MS), 5);
	assert_int_equal(get(x.b.lane[1], p, 100, LONG_MS), 5);
	assert_int_equal(put(x.b.lane[0], "back", 4, LONG_MS), 4);
	assert_int_equal(get(x.a.lane[0], p, 100, LONG_MS), 4);
	/* What is read makes room, and no more than that. */
	while (n < LANE_WINDOW)
		n += (size_t)get(x.b.lane[0], p, LANE_WINDOW - n, LONG_MS);
	assert_int_equal(get(x.b.lane[0], p, 1, 0), -ETIMEDOUT);
	for (n = 0; n < LANE_WINDOW;) {
		ssize_t r = put(x.a.lane[0], p, LANE_WINDOW, LONG_MS);

		assert_true(r > 0);
		n += (size_t)r;
	}
	assert_int_equal(n, LANE_WINDOW);
	assert_int_equal(put(x.a.lane[0], p, 1, BRIEF_MS), -ETIMEDOUT);
	side_close(&x.a);
	side_close(&x.b);
	expect_lines(&x);
	both_free(&x);
	free(p);
}

/* ---- ends ---- */

static ssize_t put_until_told(struct stream *s)
{
	ssize_t r;

	for (int i = 0; (r = put(s, "x", 1, LONG_MS)) == 1 && i < 10000; i++)
		usleep(1000);
	return r;
}

static void test_ends(void **state)
{
	struct both x;
	char p[10];

	(void)state;
	both_init(&x);
	assert_int_equal(put(x.a.lane[2], "last", 4, LONG_MS), 4);
	stream_free(steal_ptr(&x.a.lane[2]));
	assert_int_equal(get(x.b.lane[2], p, sizeof(p), LONG_MS), 4);
	assert_int_equal(get(x.b.lane[2], p, sizeof(p), LONG_MS), 0);
	assert_int_equal(get(x.b.lane[2], p, sizeof(p), LONG_MS), 0);
	assert_int_equal(put(x.b.lane[2], "x", 1, LONG_MS), -EPIPE);
	/* What nobody reads any more is in nobody's way. */
	stream_free(steal_ptr(&x.b.lane[1]));
	assert_int_equal(put_until_told(x.a.lane[1]), -EPIPE);
	assert_int_equal(put(x.a.lane[0], "still", 5, LONG_MS), 5);
	assert_int_equal(get(x.b.lane[0], p, sizeof(p), LONG_MS), 5);
	side_close(&x.a);
	side_close(&x.b);
	expect_lines(&x);
	both_free(&x);
}

/* Who waits for room, or for bytes, hears of the end. */
static void *wait_for_room(void *arg)
{
	struct flow *f = arg;

	f->bytes = put(f->s, "x", 1, LONG_MS) == -EPIPE;
	return NULL;
}

static void test_end_wakes(void **state)
{
	struct flow f = { 0 };
	struct both x;

	(void)state;
	both_init(&x);
	fill_up(x.a.lane[0]);
	f.s = x.a.lane[0];
	assert_int_equal(thread_start(&f.thread, "flow", wait_for_room, &f), 0);
	usleep(20000);
	stream_free(steal_ptr(&x.b.lane[0]));
	pthread_join(f.thread, NULL);
	assert_int_equal(f.bytes, 1);
	side_close(&x.a);
	side_close(&x.b);
	expect_lines(&x);
	both_free(&x);
}

static void test_no_end(void **state)
{
	struct both x;

	(void)state;
	both_init(&x);
	side_close(&x.a);
	assert_int_equal(lanes_end(x.a.l, BRIEF_MS), -ETIMEDOUT);
	ms_free(steal_ptr(&x.a.m));
	side_close(&x.b);
	assert_true(lanes_end(x.b.l, LONG_MS) <= 0); /* all ENDs may have come */
	both_free(&x);
}

/* Who sleeps in an aborted lane wakes; the others do not notice. */
static void test_abort(void **state)
{
	struct flow f = { 0 };
	struct both x;
	int timeout;
	char p[10];

	(void)state;
	both_init(&x);
	timeout = ms_write_timeout(x.a.m);
	f.s = x.a.lane[1];
	assert_int_equal(thread_start(&f.thread, "flow", flow_in, &f), 0);
	usleep(20000);
	x.a.lane[1]->ops->abort(x.a.lane[1]);
	pthread_join(f.thread, NULL);
	assert_int_equal(put(x.b.lane[1], "late", 4, LONG_MS), 4);
	assert_int_equal(get(x.a.lane[1], p, 1, LONG_MS), -ECANCELED);
	assert_int_equal(put(x.a.lane[1], "x", 1, LONG_MS), -ECANCELED);
	assert_int_equal(put(x.a.lane[0], "on", 2, LONG_MS), 2);
	assert_int_equal(get(x.b.lane[0], p, sizeof(p), LONG_MS), 2);
	assert_int_equal(put(x.b.lane[0], "and on", 6, LONG_MS), 6);
	assert_int_equal(get(x.a.lane[0], p, sizeof(p), LONG_MS), 6);
	stream_free(steal_ptr(&x.a.lane[1]));
	assert_int_equal(get(x.b.lane[1], p, sizeof(p), LONG_MS), 0);
	/* Nor are they in a hurry for it; once all are given up there is no reason to wait, and
	 * afterwards all is as it was. */
	assert_int_equal(ms_write_timeout(x.a.m), timeout);
	x.a.lane[0]->ops->abort(x.a.lane[0]);
	assert_int_equal(ms_write_timeout(x.a.m), timeout);
	x.a.lane[2]->ops->abort(x.a.lane[2]);
	assert_true(ms_write_timeout(x.a.m) < timeout);
	side_close(&x.a);
	side_close(&x.b);
	expect_lines(&x);
	assert_int_equal(ms_write_timeout(x.a.m), timeout);
	both_free(&x);
}

/* ---- a peer that lies ---- */

struct lie {
	const char *what;
	uint8_t type;
	const char *bytes;
	size_t len;
	unsigned times;
	int error;            /* 0: it is none */
};

static const char piece[LANE_HEAD + LANE_PIECE + 1]; /* for lane 0 */

#define BYTES(s) s, sizeof(s) - 1
static const struct lie lies[] = {
	{ "no lane", BULK_LANE_DATA, BYTES("\3x"), 1, -EBADMSG },
	{ "lane 255", BULK_LANE_END, BYTES("\377"), 1, -EBADMSG },
	{ "nothing", BULK_LANE_DATA, BYTES(""), 1, -EBADMSG },
	{ "no bytes", BULK_LANE_DATA, BYTES("\0"), 1, -EBADMSG },
	{ "a piece too long", BULK_LANE_DATA, piece, sizeof(piece), 1, -EBADMSG },
	{ "from the future, and long", 200, piece, sizeof(piece), 1, 0 },
	{ "a window", BULK_LANE_DATA, piece, sizeof(piece) - 1, LANE_WINDOW / LANE_PIECE, 0 },
	{ "more than a window", BULK_LANE_DATA, piece, sizeof(piece) - 1,
	  LANE_WINDOW / LANE_PIECE + 1, -EPROTO },
	{ "room that was not taken", BULK_LANE_ROOM, BYTES("\0\0\0\0\1"), 1, -EPROTO },
	{ "more room than a window", BULK_LANE_ROOM, BYTES("\0\0\x40\0\1"), 1, -EBADMSG },
	{ "no room", BULK_LANE_ROOM, BYTES("\0\0\0\0\0"), 1, -EBADMSG },
	{ "half of a number", BULK_LANE_ROOM, BYTES("\0\0\0"), 1, -EBADMSG },
	{ "an end with a tail", BULK_LANE_END, BYTES("\0\0"), 1, -EBADMSG },
	{ "two ends", BULK_LANE_END, BYTES("\0"), 2, -EPROTO },
	{ "a transfer's frame", BULK_BEAT, BYTES("\0"), 1, -EBADMSG },
	{ "no frame", 100, BYTES("\0"), 1, -EBADMSG },
	{ "from the future", 200, BYTES("\0"), 3, 0 },
};

static int told(const struct lie *t)
{
	struct side s;
	int fds[2], r;
	struct mstream *peer;
	uint8_t end[] = { 0 };

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	side_init(&s, fds[0]);
	peer = ms_new(stream_plain(fds[1], fds[1]));
	r = 0;
	for (unsigned i = 0; i < t->times && !r; i++)
		r = ms_write_frame(peer, t->type, t->bytes, t->len);
	for (end[0] = 0; !t->error && end[0] < LANES; end[0]++)
		ms_write_frame(peer, BULK_LANE_END, end, 1);
	side_close(&s);
	r = lanes_end(s.l, LONG_MS);
	ms_free(s.m);
	ms_free(peer);
	return r;
}

static void test_lies(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		int r;

		/* A lane that nobody reads any more lets anything pass: keep it. */
		if (lies[i].times > 1 && lies[i].type == BULK_LANE_DATA)
			continue;
		r = told(&lies[i]);
		if (r != lies[i].error)
			fail_msg("%s: %d", lies[i].what, r);
	}
}

/* Nobody reads, but somebody might. */
static void test_too_much(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		const struct lie *t = &lies[i];
		struct mstream *peer;
		struct side s;
		int fds[2], r = 0;
		char p[1];

		if (t->times <= 1 || t->type != BULK_LANE_DATA)
			continue;
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
		side_init(&s, fds[0]);
		peer = ms_new(stream_plain(fds[1], fds[1]));
		for (unsigned k = 0; k < t->times && !r; k++)
			r = ms_write_frame(peer, t->type, t->bytes, t->len);
		ms_free(peer);
		/* Another lane's reader hears what ended them all. */
		assert_int_equal(get(s.lane[1], p, 1, LONG_MS), t->error ? t->error : -EPIPE);
		side_close(&s);
		assert_int_equal(lanes_end(s.l, LONG_MS), t->error ? t->error : -EPIPE);
		ms_free(s.m);
	}
}

static void test_number(void **state)
{
	struct mstream *m;
	struct err e = ERR_INIT;
	int fds[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	m = ms_new(stream_plain(fds[0], fds[0]));
	assert_null(lanes_new(m, 0, &e));
	assert_null(lanes_new(m, LANES_MAX + 1, &e));
	ms_free(m);
	close(fds[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_at_once),
		cmocka_unit_test(test_window),
		cmocka_unit_test(test_ends),
		cmocka_unit_test(test_end_wakes),
		cmocka_unit_test(test_no_end),
		cmocka_unit_test(test_abort),
		cmocka_unit_test(test_lies),
		cmocka_unit_test(test_too_much),
		cmocka_unit_test(test_number),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
