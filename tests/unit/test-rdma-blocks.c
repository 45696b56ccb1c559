// SPDX-License-Identifier: Apache-2.0
/* Blocks through an RDMA path, with both ends polled in turn: blocks of any form and order arrive
 * complete, and the path ends cleanly. */
#include "tests/support/rdma-ends.h"

struct shape {
	const char *name;
	uint8_t op;
	bool get;
	uint16_t channels;
	uint32_t inflight, sink_blocks;
	uint32_t numbers;
	uint32_t slow, refuse_every;
	uint32_t inline_max;
	bool purge;
};

/* sink_blocks: as many as in flight, or more than a channel has receives. */
static const struct shape shapes[] = {
	{ "one channel", OP_WRITE, false, 1, 4, 4, 100, 0, 0, 64, false },
	{ "one block in flight", OP_WRITE, false, 1, 1, 1, 40, 0, 0, 64, false },
	{ "two channels", OP_WRITE, false, 2, 8, 8, 300, 0, 0, 64, false },
	{ "eight channels", OP_WRITE, false, 8, 40, 40, 600, 0, 0, 64, true },
	{ "more channels than buffers", OP_WRITE, false, 8, 5, 5, 200, 0, 0, 64, false },
	{ "lists of credits", OP_WRITE, false, 1, 100, 100, 500, 60, 0, 64, false },
	{ "no inline sends", OP_WRITE, false, 3, 20, 20, 300, 7, 0, 0, false },
	{ "a slow sink", OP_WRITE, false, 2, 16, 16, 300, 15, 0, 64, false },
	{ "blocks that are refused", OP_WRITE, false, 3, 12, 12, 300, 4, 10, 64, false },
	{ "the other way", OP_WRITE, true, 3, 12, 12, 300, 4, 10, 64, true },
	{ "one channel, read", OP_READ, false, 1, 4, 4, 100, 0, 0, 64, false },
	{ "one block in flight, read", OP_READ, false, 1, 1, 1, 40, 0, 0, 64, false },
	{ "eight channels, read", OP_READ, false, 8, 40, 40, 600, 0, 0, 64, true },
	{ "more than reads at once", OP_READ, false, 1, 100, 100, 500, 60, 0, 64, false },
	{ "no inline sends, read", OP_READ, false, 3, 20, 20, 300, 7, 0, 0, false },
	{ "a slow sink, read", OP_READ, false, 2, 16, 16, 300, 15, 0, 64, false },
	{ "blocks that are refused, read", OP_READ, false, 3, 12, 12, 300, 4, 10, 64, false },
	{ "the other way, read", OP_READ, true, 3, 12, 12, 300, 4, 10, 64, true },
};
#define SHAPES (sizeof(shapes) / sizeof(shapes[0]))

static void open_shape(struct ends *x, const struct shape *s)
{
	fake_begin();
	fake.inline_max = s->inline_max;
	fake.purge = s->purge;
	ends_init(x, s->op, s->channels, s->inflight);
	x->agr.sink_blocks = s->sink_blocks;
	x->put = !s->get;
	ends_open_ok(x);
}

/* For each channel, the bytes sent by one side are the bytes received by the other. */
static void check_bytes(struct ends *x, uint32_t returned)
{
	uint64_t sent = 0, got = 0;

	for (uint32_t i = 0; i < x->agr.channels; i++) {
		sent += source_end(x)->path->channel_bytes[i];
		got += sink_end(x)->path->channel_bytes[i];
		assert_int_equal(source_end(x)->path->channel_bytes[i],
				 sink_end(x)->path->channel_bytes[i]);
	}
	assert_int_equal(sent, got);
	assert_true(sent > 0 || returned);
}

static void run_shape(const struct shape *s)
{
	uint32_t again = s->refuse_every ? (s->numbers + s->refuse_every - 1) / s->refuse_every : 0;
	struct flow *f;
	struct ends x;

	open_shape(&x, s);
	f = flow_new(&x, s->numbers);
	f->slow = s->slow;
	f->refuse_every = s->refuse_every;
	flow_run_all(f);
	assert_int_equal(f->returned, again);
	assert_int_equal(f->received, s->numbers + again);
	assert_int_equal(f->downs[0] + f->downs[1], 0);
	check_bytes(&x, again);
	flow_finish(f);
	flow_free(f);
	ends_free(&x);
	fake_end();
}

static void test_shapes(void **state)
{
	(void)state;
	for (size_t i = 0; i < SHAPES; i++) {
		run_shape(&shapes[i]);
	}
}

/* The work queues, or the completion queues, are so short that signals, messages and receives wrap
 * around often. */
static void short_queues(int work, int completions)
{
	for (uint8_t op = OP_WRITE; op <= OP_READ; op++) {
		const struct shape s = { "", op, false, 2, 200, 200, 900, 90, 0, 64, false };
		struct flow *f;
		struct ends x;

		fake_begin();
		for (unsigned side = 1; side <= 2; side++) {
			fake_device_attr(side)->max_qp_wr = work;
			fake_device_attr(side)->max_cqe = completions;
		}
		ends_init(&x, s.op, s.channels, s.inflight);
		ends_open_ok(&x);
		f = flow_new(&x, s.numbers);
		f->slow = s.slow;
		flow_run_all(f);
		flow_finish(f);
		flow_free(f);
		ends_free(&x);
		fake_end();
	}
}

static void test_short_queues(void **state)
{
	(void)state;
	short_queues(64, 1 << 16);
	short_queues(1024, 640);
}

/* The number of concurrent reads never exceeds the lower limit of the two devices. */
static void test_read_depth(void **state)
{
	static const struct { int reader, read; unsigned depth; } rows[] = {
		{ 16, 16, 16 }, { 4, 16, 4 }, { 16, 3, 3 }, { 128, 128, 40 /* all there are */ }, { 1, 1, 1 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct flow *f;
		struct ends x;

		for (int put = 0; put < 2; put++) {
			fake_begin();
			fake_device_attr(put ? 1 : 2)->max_qp_init_rd_atom = rows[i].reader;
			fake_device_attr(put ? 2 : 1)->max_qp_rd_atom = rows[i].read;
			ends_init(&x, OP_READ, 1, 40);
			x.put = put;
			ends_open_ok(&x);
			f = flow_new(&x, 40);
			flow_post(f);
			flow_poll_source(f);
			fake.hold = true;
			flow_poll_sink(f);
			fake.hold = false;
			fake_run(1000);
			flow_run_all(f);
			assert_int_equal(fake_reads_at_once(), rows[i].depth);
			flow_free(f);
			ends_free(&x);
			fake_end();
		}
	}
}

/* A device may accept fewer sends than it reports. */
static void test_fewer_sends(void **state)
{
	(void)state;
	for (uint8_t op = OP_WRITE; op <= OP_READ; op++) {
		for (int inlines = 0; inlines < 2; inlines++) {
			struct flow *f;
			struct ends x;

			fake_begin();
			fake.send_wr_max = 70;
			fake.inline_max = inlines ? 64 : 0;
			ends_init(&x, op, 2, 200);
			ends_open_ok(&x);
			f = flow_new(&x, 600);
			flow_run_all(f);
			flow_free(f);
			ends_free(&x);
			fake_end();
		}
	}
}

/* The fake fabric does only a few work requests per turn, so credits come late, announcements pile
 * up and completions lag behind answers. */
static void test_held_work(void **state)
{
	(void)state;
	for (uint8_t op = OP_WRITE; op <= OP_READ; op++) {
		for (unsigned step = 1; step < 8; step += 2) {
			struct flow *f;
			struct ends x;

			fake_begin();
			ends_init(&x, op, 3, 30);
			ends_open_ok(&x);
			fake.hold = true;
			f = flow_new(&x, 300);
			f->slow = 11;
			for (int turn = 0; turn < 4000 && f->acked < 300; turn++) {
				flow_turn(f);
				fake_run(step);
			}
			assert_int_equal(f->acked, 300);
			fake.hold = false;
			flow_finish(f);
			flow_free(f);
			ends_free(&x);
			fake_end();
		}
	}
}

/* A completion, an event, wake() and release() each wake a sleeping thread. */
static void test_wakes(void **state)
{
	struct path *from, *to;
	struct path_event ev;
	struct flow *f;
	struct ends x;

	(void)state;
	fake_begin();
	ends_init(&x, OP_WRITE, 1, 2);
	ends_open_ok(&x);
	from = source_end(&x)->path;
	to = sink_end(&x)->path;
	f = flow_new(&x, 1);
	flow_poll_sink(f); /* sends grants */
	flow_poll_source(f);
	to->ops->wake(to);
	assert_int_equal(to->ops->poll(to, &ev, 1, -1), 0);
	flow_post(f);
	assert_int_equal(to->ops->poll(to, &ev, 1, -1), 1);
	assert_int_equal(ev.kind, PATH_RECEIVED);
	f->got[0] = 1;
	to->ops->release(to, ev.block, 0);
	assert_int_equal(to->ops->poll(to, &ev, 1, 1), 0); /* sends the answer */
	assert_int_equal(from->ops->poll(from, &ev, 1, -1), 1);
	assert_int_equal(ev.kind, PATH_ACKED);
	pool_put(ev.block);
	assert_int_equal(from->ops->finish(from, 2000), 0);
	assert_int_equal(to->ops->poll(to, &ev, 1, -1), 1);
	assert_int_equal(ev.kind, PATH_DOWN);
	assert_int_equal(ev.error, 0);
	flow_free(f);
	ends_free(&x);
	fake_end();
}

/* A path freed at any point of a transfer leaks nothing. */
static void test_given_up(void **state)
{
	(void)state;
	for (uint8_t op = OP_WRITE; op <= OP_READ; op++) {
		for (int turns = 0; turns < 12; turns++) {
			struct flow *f;
			struct ends x;

			fake_begin();
			ends_init(&x, op, 3, 9);
			ends_open_ok(&x);
			fake.hold = true;
			f = flow_new(&x, 100);
			f->slow = 4;
			for (int i = 0; i < turns; i++) {
				flow_turn(f);
				fake_run(3);
			}
			flow_free(f);
			ends_free(&x);
			fake_end();
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shapes),
		cmocka_unit_test(test_short_queues),
		cmocka_unit_test(test_read_depth),
		cmocka_unit_test(test_fewer_sends),
		cmocka_unit_test(test_held_work),
		cmocka_unit_test(test_wakes),
		cmocka_unit_test(test_given_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
