// SPDX-License-Identifier: Apache-2.0
/* A path through the message stream: transfers between two threads, and frames that a peer must not
 * send. */
#include "tests/support/block.h"
#include "tests/support/bytes.h"
#include "transport/credit.h"
#include "transport/transport.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define PAYLOAD BLOCK_MIN
#define INFLIGHT 4u
#define FRAME_MAX (PAYLOAD + BLOCK_HEAD)

struct end {
	struct mstream *m;
	struct pool *pool;
	struct path *path;
	pthread_t reader;
	int reader_error;
};

/* Passes the path's frames on, as the control stream's reader does. */
static void *reader_main(void *arg)
{
	struct end *e = arg;
	struct buf *b = buf_new(FRAME_MAX);
	uint8_t type;
	int r;

	do {
		r = ms_read_frame(e->m, &type, b, FRAME_MAX, -1);
		if (!r)
			r = type == BULK_DATA ? inband_path_data(e->path, b) :
						inband_path_credit(e->path, b);
	} while (!r);
	e->reader_error = r;
	buf_free(b);
	return NULL;
}

static void end_init(struct end *e, bool source, int fd, uint32_t blocks)
{
	struct path_config c = { .source = source, .payload = PAYLOAD, .inflight = INFLIGHT };

	memset(e, 0, sizeof(*e));
	e->m = ms_new(stream_plain(fd, fd));
	e->pool = c.pool = make_pool(blocks, PAYLOAD);
	e->path = inband_path_new(&c, e->m, NULL);
	assert_true(e->m && e->pool && e->path);
}

static void end_free(struct end *e)
{
	uint32_t all = pool_blocks(e->pool);

	e->path->ops->free(e->path);
	assert_int_equal(pool_free_blocks(e->pool), all);
	pool_free(e->pool);
	ms_free(e->m);
}

static void pair_init(struct end *source, struct end *sink)
{
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	end_init(source, true, fds[0], INFLIGHT + 2);
	end_init(sink, false, fds[1], INFLIGHT);
}

static void fill(struct block *b, uint64_t number)
{
	uint32_t i, len = (uint32_t)(number * 7919 % (PAYLOAD / 2));

	hand_block(b, number);
	for (i = 0; i < number % 3; i++)
		hand_block_add(b, number, i, (uint8_t)(number + i), len);
	hand_block_end(b, 0);
}

static bool good(const struct block *b)
{
	uint32_t len = (uint32_t)(b->number * 7919 % (PAYLOAD / 2)), i;
	uint64_t file, offset;
	struct block_head h;

	if (block_head_get(b->base, PAYLOAD, &h) || h.number != b->number ||
	    h.extents != b->number % 3 || b->len != h.extents * len)
		return false;
	for (i = 0; i < h.extents; i++) {
		uint32_t n;

		block_extent_get(b->base + BLOCK_WIRE_HEAD + i * BLOCK_WIRE_EXTENT, &file, &offset,
				 &n);
		if (file != b->number || offset != i || n != len)
			return false;
	}
	for (i = 0; i < b->len; i++)
		if (block_payload(b)[i] != (uint8_t)(b->number + i / len))
			return false;
	return true;
}

/* ---- transfers ---- */

#define NUMBERS 2000u

struct sink_thread {
	struct end *end;
	unsigned seen[NUMBERS];
	uint32_t wrong, count;
	uint64_t refuse;
	uint32_t goal;
};

static void *sink_main(void *arg)
{
	struct sink_thread *s = arg;
	struct path *p = s->end->path;
	struct path_event ev[3];

	while (s->count < s->goal) {
		int i, n = p->ops->poll(p, ev, 3, -1);

		for (i = 0; i < n; i++) {
			struct block *b = ev[i].block;
			bool refuse;

			if (ev[i].kind != PATH_RECEIVED || !good(b) || b->number >= NUMBERS) {
				s->wrong++;
				return NULL;
			}
			refuse = ++s->seen[b->number] == 1 && b->number % 50 == 1;
			s->count++;
			p->ops->release(p, b, refuse ? EBADMSG : 0);
		}
	}
	if (p->ops->finish(p, 5000))
		s->wrong++;
	return NULL;
}

static void test_whole(void **state)
{
	struct end source, sink;
	struct sink_thread *s = calloc(1, sizeof(*s));
	struct block *again = NULL, *b = NULL;
	uint64_t next = 0, acked = 0, returned = 0, unacked = 0;
	pthread_t t;
	uint32_t i;

	(void)state;
	pair_init(&source, &sink);
	s->end = &sink;
	s->goal = NUMBERS + NUMBERS / 50;
	assert_int_equal(thread_start(&source.reader, "reader", reader_main, &source), 0);
	assert_int_equal(thread_start(&sink.reader, "reader", reader_main, &sink), 0);
	assert_int_equal(thread_start(&t, "sink", sink_main, s), 0);
	while (acked < NUMBERS) {
		struct path_event ev[2];
		int k, n, r = 0;

		while (!r) {
			if (!b && again) {
				b = again;
				again = b->next;
			} else if (!b && next < NUMBERS && (b = pool_try_get(source.pool))) {
				fill(b, next++);
			}
			if (!b)
				break;
			r = source.path->ops->post(source.path, b);
			if (!r) {
				b = NULL;
				unacked++;
				assert_true(unacked <= INFLIGHT);
			}
		}
		assert_true(r == 0 || r == -EAGAIN);
		n = source.path->ops->poll(source.path, ev, 2, -1);
		for (k = 0; k < n; k++) {
			unacked--;
			if (ev[k].kind == PATH_ACKED) {
				acked++;
				pool_put(ev[k].block);
			} else {
				assert_int_equal(ev[k].kind, PATH_RETURNED);
				assert_int_equal(ev[k].status, EBADMSG);
				returned++;
				ev[k].block->next = again;
				again = ev[k].block;
			}
		}
	}
	assert_int_equal(returned, NUMBERS / 50);
	pthread_join(t, NULL);
	assert_int_equal(s->wrong, 0);
	for (i = 0; i < NUMBERS; i++)
		assert_int_equal(s->seen[i], i % 50 == 1 ? 2 : 1);
	assert_int_equal(source.path->channel_bytes[0], sink.path->channel_bytes[0]);
	assert_int_equal(source.path->ops->finish(source.path, 5000), 0);
	ms_abort(source.m);
	ms_abort(sink.m);
	pthread_join(source.reader, NULL);
	pthread_join(sink.reader, NULL);
	assert_int_equal(source.reader_error, -ECANCELED);
	assert_int_equal(sink.reader_error, -ECANCELED);
	end_free(&source);
	end_free(&sink);
	free(s);
}

/* ---- the stream breaks ---- */

static void test_stream_breaks(void **state)
{
	struct end source, sink;
	struct path_event ev[8];
	struct block *b[2];
	int i;

	(void)state;
	pair_init(&source, &sink);
	for (i = 0; i < 2; i++) {
		b[i] = pool_try_get(source.pool);
		fill(b[i], (uint64_t)i);
	}
	assert_int_equal(source.path->ops->post(source.path, b[0]), 0);
	ms_abort(source.m);
	assert_int_equal(source.path->ops->post(source.path, b[1]), 0);
	assert_int_equal(source.path->ops->poll(source.path, ev, 8, -1), 3);
	assert_int_equal(ev[0].kind, PATH_RETURNED);
	assert_int_equal(ev[1].kind, PATH_RETURNED);
	assert_int_equal(ev[2].kind, PATH_DOWN);
	assert_int_equal(ev[2].error, -ECANCELED);
	assert_int_equal(source.path->alive, 0);
	assert_int_equal(source.path->ops->post(source.path, b[1]), -EPIPE);
	pool_put(b[0]);
	pool_put(b[1]);
	end_free(&source);
	end_free(&sink);
}

/* ---- forbidden frames ---- */

static struct buf *block_frame(uint64_t number)
{
	struct buf *f = buf_new(FRAME_MAX);
	struct pool *pool = make_pool(1, PAYLOAD);
	struct block *b = pool_try_get(pool);

	fill(b, number);
	assert_int_equal(buf_put(f, b->base, BLOCK_WIRE_HEAD + b->nextents * BLOCK_WIRE_EXTENT), 0);
	assert_int_equal(buf_put(f, block_payload(b), b->len), 0);
	pool_put(b);
	pool_free(pool);
	return f;
}

static int give_block(struct end *sink, uint64_t number, size_t cut, const char *more)
{
	CLEANUP_BUF struct buf *whole = block_frame(number);
	CLEANUP_BUF struct buf *f = buf_new(FRAME_MAX + 64);

	assert_int_equal(buf_put(f, buf_ptr(whole), buf_len(whole) - cut), 0);
	assert_int_equal(buf_put(f, more, strlen(more)), 0);
	return inband_path_data(sink->path, f);
}

static void test_bad_data(void **state)
{
	struct end source, sink;
	struct path_event ev[8];
	uint32_t i;

	(void)state;
	pair_init(&source, &sink);
	assert_int_equal(give_block(&sink, 5, 1, ""), -EBADMSG);
	assert_int_equal(give_block(&sink, 5, 0, "x"), -EBADMSG);
	assert_int_equal(give_block(&sink, 0, 1, ""), -EBADMSG);
	assert_int_equal(give_block(&sink, 0, 64, "GET / HTTP/1.0"), -EBADMSG);
	assert_int_equal(give_block(&source, 0, 0, ""), -EPROTO);
	assert_int_equal(pool_free_blocks(sink.pool), INFLIGHT);
	for (i = 0; i < INFLIGHT; i++)
		assert_int_equal(give_block(&sink, i, 0, ""), 0);
	assert_int_equal(give_block(&sink, i, 0, ""), -EPROTO);
	/* An answer makes room for one more block, but only once it has been sent. */
	assert_int_equal(sink.path->ops->poll(sink.path, ev, 8, 0), INFLIGHT);
	sink.path->ops->release(sink.path, ev[0].block, 0);
	assert_int_equal(give_block(&sink, i, 0, ""), -EPROTO);
	assert_int_equal(sink.path->ops->poll(sink.path, ev, 1, 0), 0);
	assert_int_equal(give_block(&sink, i, 0, ""), 0);
	assert_int_equal(give_block(&sink, i, 0, ""), -EPROTO);
	for (i = 1; i < INFLIGHT; i++)
		sink.path->ops->release(sink.path, ev[i].block, 0);
	end_free(&source);
	end_free(&sink);
}

static int give_credit(struct end *e, struct messages *m, uint64_t number, size_t cut)
{
	size_t size;
	const struct credit c = { .number = number };
	uint8_t list[CREDIT_LIST_BYTES];
	struct buf *b CLEANUP_BUF = NULL;

	assert_int_equal(credit_list_put(m, list, &c, 1, &size), 0);
	b = bytes_of(list, size - cut);
	return inband_path_credit(e->path, b);
}

static void test_bad_credit(void **state)
{
	struct end source, sink;
	struct path_event ev;
	struct messages m = { 0 };
	struct block *b;

	(void)state;
	pair_init(&source, &sink);
	b = pool_try_get(source.pool);
	fill(b, 9);
	assert_int_equal(source.path->ops->post(source.path, b), 0);
	assert_int_equal(give_credit(&source, &(struct messages){ 0 }, 9, 1), -EBADMSG);
	assert_int_equal(give_credit(&source, &(struct messages){ 0 }, 9, 20), -EBADMSG);
	assert_int_equal(give_credit(&source, &m, 8, 0), -EPROTO);
	assert_int_equal(give_credit(&sink, &(struct messages){ 0 }, 9, 0), -EPROTO);
	assert_int_equal(give_credit(&source, &m, 9, 0), 0);
	assert_int_equal(give_credit(&source, &m, 9, 0), -EPROTO);
	assert_int_equal(source.path->ops->poll(source.path, &ev, 1, -1), 1);
	assert_int_equal(ev.kind, PATH_ACKED);
	assert_ptr_equal(ev.block, b);
	pool_put(b);
	end_free(&source);
	end_free(&sink);
}

/* Answers not yet polled still hold their slots. */
static void test_unpolled_answers(void **state)
{
	struct end source, sink;
	struct path_event ev[8];
	struct messages m = { 0 };
	struct block *b;
	uint64_t i;

	(void)state;
	pair_init(&source, &sink);
	for (i = 0; i < INFLIGHT; i++) {
		b = pool_try_get(source.pool);
		fill(b, 3 * i); /* no payload: the socket buffer holds all frames */
		assert_int_equal(source.path->ops->post(source.path, b), 0);
		assert_int_equal(give_credit(&source, &m, 3 * i, 0), 0);
	}
	b = pool_try_get(source.pool);
	fill(b, 3 * i);
	assert_int_equal(source.path->ops->post(source.path, b), -EAGAIN);
	assert_int_equal(source.path->ops->poll(source.path, ev, 8, -1), INFLIGHT);
	for (i = 0; i < INFLIGHT; i++) {
		assert_int_equal(ev[i].block->number, 3 * i);
		pool_put(ev[i].block);
	}
	assert_int_equal(source.path->ops->post(source.path, b), 0);
	end_free(&source);
	end_free(&sink);
}

static void test_wake(void **state)
{
	struct end source, sink;
	struct path_event ev;
	uint64_t begin = now_ns();

	(void)state;
	pair_init(&source, &sink);
	sink.path->ops->wake(sink.path);
	assert_int_equal(sink.path->ops->poll(sink.path, &ev, 1, -1), 0);
	assert_int_equal(sink.path->ops->poll(sink.path, &ev, 1, 30), 0);
	assert_in_range(now_ns() - begin, 29000000, 5000000000u);
	end_free(&source);
	end_free(&sink);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole),
		cmocka_unit_test(test_stream_breaks),
		cmocka_unit_test(test_bad_data),
		cmocka_unit_test(test_bad_credit),
		cmocka_unit_test(test_unpolled_answers),
		cmocka_unit_test(test_wake),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
