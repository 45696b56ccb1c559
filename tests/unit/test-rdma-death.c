// SPDX-License-Identifier: Apache-2.0
/* Channels of an RDMA path fail: each block in flight is acknowledged or returned, exactly once,
 * and the other channels continue. */
#include "tests/support/rdma-ends.h"

#include <unistd.h>

#define NUMBERS 40

struct death {
	uint8_t op;
	uint16_t channels;
	uint32_t slow;
	enum ibv_wc_status status;
	bool arrives, purge, gives_up, late;
};

static struct flow *flow_begin(struct ends *x, const struct death *d)
{
	struct flow *f;

	fake_begin();
	fake.purge = d->purge;
	fake.gives_up = d->gives_up;
	ends_init(x, d->op, d->channels, 9);
	ends_open_ok(x);
	f = flow_new(x, NUMBERS);
	f->slow = d->slow;
	return f;
}

static void flow_end(struct flow *f)
{
	struct ends *x = f->x;

	flow_free(f);
	ends_free(x);
	fake_end();
}

/* After all channels have failed, the path holds no blocks. */
static void check_lost(struct flow *f)
{
	struct path *p = source_end(f->x)->path;
	struct block *b = flow_next(f);

	assert_int_equal(p->alive, 0);
	if (!b) { /* the last acknowledgement arrived in time */
		assert_int_equal(f->acked, f->numbers);
		return;
	}
	assert_int_equal(p->ops->post(p, b), -EPIPE);
	flow_keep(f, b);
	for (uint32_t i = 0; i < f->numbers; i++)
		assert_int_equal(f->posted[i], 0);
}

/* A channel fails at the nth work request. Returns the number of work requests. */
static unsigned die_at(const struct death *d, unsigned nth)
{
	unsigned done;
	struct ends x;
	struct flow *f = flow_begin(&x, d);

	fake_break(nth, d->status, d->arrives);
	if (d->late) {
		fake_event_fate(RDMA_CM_EVENT_DISCONNECTED, 1, FAKE_LATE);
		fake_event_fate(RDMA_CM_EVENT_DISCONNECTED, 2, FAKE_LATE);
	}
	flow_run(f);
	fake_late_events();
	flow_run(f);
	done = fake_done();
	if (done >= nth) {
		assert_int_equal(f->downs[0], 1);
		assert_int_equal(f->downs[1], 1);
		assert_true(f->error[0] || f->error[1]);
	}
	if (d->channels > 1 || done < nth)
		flow_run_all(f);
	else
		check_lost(f);
	if (d->channels > 1 && (done >= nth || !d->late))
		flow_finish(f);
	flow_end(f);
	return done;
}

static const struct death deaths[] = {
	{ .op = OP_WRITE, .channels = 1, .status = IBV_WC_RETRY_EXC_ERR },
	{ .op = OP_WRITE, .channels = 1, .status = IBV_WC_WR_FLUSH_ERR, .arrives = true },
	{ .op = OP_WRITE, .channels = 3, .status = IBV_WC_RETRY_EXC_ERR },
	{ .op = OP_WRITE, .channels = 3, .status = IBV_WC_RETRY_EXC_ERR, .arrives = true,
	  .slow = 6 },
	{ .op = OP_WRITE, .channels = 2, .status = IBV_WC_REM_ACCESS_ERR, .purge = true,
	  .slow = 8 },
	{ .op = OP_WRITE, .channels = 3, .status = IBV_WC_GENERAL_ERR, .gives_up = true,
	  .slow = 3 },
	{ .op = OP_WRITE, .channels = 3, .status = IBV_WC_WR_FLUSH_ERR, .late = true,
	  .slow = 3 },
	{ .op = OP_READ, .channels = 1, .status = IBV_WC_RETRY_EXC_ERR },
	{ .op = OP_READ, .channels = 1, .status = IBV_WC_WR_FLUSH_ERR, .arrives = true },
	{ .op = OP_READ, .channels = 3, .status = IBV_WC_RETRY_EXC_ERR },
	{ .op = OP_READ, .channels = 3, .status = IBV_WC_RETRY_EXC_ERR, .arrives = true,
	  .slow = 6 },
	{ .op = OP_READ, .channels = 2, .status = IBV_WC_REM_ACCESS_ERR, .purge = true,
	  .slow = 8 },
	{ .op = OP_READ, .channels = 3, .status = IBV_WC_GENERAL_ERR, .gives_up = true,
	  .slow = 3 },
	{ .op = OP_READ, .channels = 3, .status = IBV_WC_WR_FLUSH_ERR, .late = true,
	  .slow = 3 },
};

static void test_every_completion(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(deaths) / sizeof(deaths[0]); i++) {
		unsigned nth = 1;

		while (die_at(&deaths[i], nth) >= nth)
			nth++;
		assert_true(nth > NUMBERS); /* all work requests were tried */
	}
}

/* A queue pair of either side fails between two turns; with `late` the other side learns of it much
 * later. */
static void kill_at(uint8_t op, bool source, bool late, int turn)
{
	const struct death d = { .op = op, .channels = 3, .slow = 4 };
	struct ends x;
	struct flow *f = flow_begin(&x, &d);
	struct end *n = source ? source_end(&x) : sink_end(&x);

	for (int i = 0; i < turn; i++)
		flow_turn(f);
	if (late)
		fake_event_fate(RDMA_CM_EVENT_DISCONNECTED, source ? 2 : 1, FAKE_LATE);
	if (late)
		fake_event_fate(RDMA_CM_EVENT_DISCONNECTED, source ? 1 : 2, FAKE_LATE);
	fake_kill(rd_path_of(n)->ch[1].id);
	flow_run(f);
	fake_late_events();
	flow_run_all(f);
	assert_int_equal(f->downs[0], 1);
	assert_int_equal(f->downs[1], 1);
	flow_finish(f);
	flow_end(f);
}

static void test_killed(void **state)
{
	(void)state;
	for (int turn = 0; turn < 12; turn++)
		for (int how = 0; how < 8; how++)
			kill_at(how & 1 ? OP_READ : OP_WRITE, how & 2, how & 4, turn);
}

/* The channels fail one after another; the last one's blocks are returned. */
static void test_all_die(void **state)
{
	(void)state;
	for (uint8_t op = OP_WRITE; op <= OP_READ; op++) {
		const struct death d = { .op = op, .channels = 3, .slow = 4 };
		struct ends x;
		struct flow *f = flow_begin(&x, &d);

		for (uint32_t i = 0; i < 3; i++) {
			flow_turn(f);
			fake_kill(rd_path_of(sink_end(&x))->ch[i].id);
			for (int turn = 0; turn < 4; turn++)
				flow_poll_source(f), flow_poll_sink(f);
			assert_int_equal(source_end(&x)->path->alive, 2 - i);
		}
		flow_run(f);
		assert_int_equal(f->downs[0], 3);
		assert_int_equal(f->downs[1], 3);
		check_lost(f);
		flow_end(f);
	}
}

/* The late flush completions of a failed queue pair are ignored. */
static void test_late_completions(void **state)
{
	const struct death d = { .op = OP_WRITE, .channels = 2 };
	struct ends x;
	struct flow *f = flow_begin(&x, &d);
	struct rd_path *p = rd_path_of(source_end(&x));
	struct path_event ev[8];

	(void)state;
	flow_poll_sink(f);
	flow_poll_source(f);
	fake.hold = true;
	flow_post(f);
	assert_true(p->ch[0].blocks && p->ch[1].blocks);
	rd_channel_down(p, &p->ch[0], -EIO);
	assert_int_equal(p->ch[0].blocks, 0);
	fake.hold = false;
	flow_run_all(f);
	assert_int_equal(f->downs[0], 1);
	assert_int_equal(f->error[0], -EIO);
	/* Reported once. */
	assert_int_equal(p->path.ops->poll(&p->path, ev, 8, 0), 0);
	flow_finish(f);
	flow_end(f);
}

/* Sends as much as possible before the sink polls. */
static void burst(struct flow *f, uint32_t keep)
{
	flow_post(f);
	do {
		f->idle = true;
		flow_poll_sink(f);
	} while (!f->idle);
	while (f->nheld > keep)
		flow_release_one(f, 0);
	flow_poll_sink(f);
	do {
		f->idle = true;
		flow_poll_source(f);
	} while (!f->idle);
}

/* The sink has more buffers than a channel has receives. Buffers of a failed channel move to other
 * channels only as far as these have receives, counting their own buffers and those still with the
 * writers. */
static void test_short_queues(void **state)
{
	struct flow *f;
	struct ends x;

	(void)state;
	fake_begin();
	fake_device_attr(1)->max_qp_wr = 64; /* the sink's */
	ends_init(&x, OP_WRITE, 3, 200);
	ends_open_ok(&x);
	f = flow_new(&x, 1500);
	flow_poll_sink(f);
	flow_poll_source(f);
	burst(f, 150);
	fake_kill(rd_path_of(sink_end(&x))->ch[1].id);
	while (f->acked < f->numbers)
		burst(f, f->nheld / 2);
	assert_int_equal(f->downs[0] + f->downs[1], 2);
	flow_finish(f);
	flow_end(f);
}

/* ---- device removal ---- */

static void remove_at(uint8_t op, bool source, bool arm_fails, int turn)
{
	const struct death d = { .op = op, .channels = 3, .slow = 4 };
	struct ends x;
	struct flow *f = flow_begin(&x, &d);
	unsigned mine = (source ? x.put : !x.put) ? 2 : 1;
	struct fake_census c;

	for (int i = 0; i < turn; i++)
		flow_turn(f);
	fake_remove(mine, false);
	if (arm_fails)
		fake_fail(FAKE_CQ_ARM, 1, -EIO);
	if (source)
		flow_poll_source(f);
	else
		flow_poll_sink(f);
	/* This poll frees the removed device's queue pairs; they do not wait for the path's end. */
	c = fake_census();
	assert_int_equal(c.qps, 3);
	flow_run(f);
	c = fake_census();
	assert_int_equal(c.qps, 0);
	assert_int_equal(f->downs[0], 3);
	assert_int_equal(f->downs[1], 3);
	check_lost(f);
	flow_end(f);
}

static void test_device_removal(void **state)
{
	(void)state;
	for (int turn = 0; turn < 10; turn++)
		for (int how = 0; how < 8; how++)
			remove_at(how & 1 ? OP_READ : OP_WRITE, how & 2, how & 4, turn);
}

/* The device removal events of its ids are the only notice for an idle path; it reports the
 * reason. */
static void test_removal_of_idle(void **state)
{
	const struct death d = { .op = OP_WRITE, .channels = 2 };
	struct path_event ev[4];
	struct path *p;
	struct ends x;
	struct flow *f;

	(void)state;
	f = flow_begin(&x, &d);
	p = source_end(&x)->path;
	flow_turn(f);
	flow_run_all(f);
	for (uint32_t i = 0; i < 2; i++)
		fake_event_fate(RDMA_CM_EVENT_DEVICE_REMOVAL, 1, FAKE_TWICE);
	fake_remove(2, false);
	assert_int_equal(p->ops->poll(p, ev, 4, 1000), 2);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ev[i].kind, PATH_DOWN);
		assert_true(ev[i].error == -ENODEV || ev[i].error == -ECONNRESET);
	}
	flow_end(f);
}

/* After the path's thread has ended, tend() releases the device; the rest is freed later. */
static void test_removal_when_left(void **state)
{
	(void)state;
	for (int fatal = 0; fatal < 2; fatal++) {
		const struct death d = { .op = OP_WRITE, .channels = 2 };
		struct ends x;
		struct flow *f = flow_begin(&x, &d);
		struct path *p = source_end(&x)->path;

		flow_run_all(f);
		p->ops->tend(p);
		assert_int_equal(atomic_load(&p->alive), 2);
		assert_int_equal(p->ops->finish(p, 30), 0);
		p->ops->tend(p);
		assert_false(fake_let_go(2));
		fake_remove(2, fatal);
		p->ops->tend(p);
		assert_true(fake_let_go(2));
		flow_end(f);
	}
}

/* ---- the end ---- */

/* The peer's disconnect is lost: finish() must not wait for ever. */
static void test_lost_goodbye(void **state)
{
	(void)state;
	for (int side = 0; side < 2; side++) {
		const struct death d = { .op = OP_WRITE, .channels = 2 };
		struct ends x;
		struct flow *f = flow_begin(&x, &d);
		struct path *p = side ? sink_end(&x)->path : source_end(&x)->path;

		flow_run_all(f);
		fake_event_fate(RDMA_CM_EVENT_DISCONNECTED, 1, FAKE_DROP);
		fake_event_fate(RDMA_CM_EVENT_DISCONNECTED, 2, FAKE_DROP);
		fake_event_fate(RDMA_CM_EVENT_DISCONNECTED, 3, FAKE_DROP);
		fake_event_fate(RDMA_CM_EVENT_DISCONNECTED, 4, FAKE_DROP);
		if (!side) /* the source's own flush may end it too */
			assert_in_range(-p->ops->finish(p, 30), 0, ETIMEDOUT);
		else
			assert_int_equal(p->ops->finish(p, 30), -ETIMEDOUT);
		flow_end(f);
	}
}

/* A source that disconnects all channels ends each of them cleanly, in any order at the sink. */
static void test_goodbye(void **state)
{
	(void)state;
	for (uint8_t op = OP_WRITE; op <= OP_READ; op++) {
		const struct death d = { .op = op, .channels = 3, .slow = 2 };
		struct ends x;
		struct flow *f = flow_begin(&x, &d);
		struct path *p = source_end(&x)->path;

		flow_run_all(f);
		assert_int_equal(p->ops->finish(p, 1000), 0);
		flow_run(f);
		assert_int_equal(f->downs[1], 3);
		assert_int_equal(f->error[1], 0);
		flow_end(f);
	}
}

/* finish() fails while blocks are in flight. */
static void test_finish_too_early(void **state)
{
	const struct death d = { .op = OP_WRITE, .channels = 2 };
	struct ends x;
	struct flow *f = flow_begin(&x, &d);
	struct path *p = source_end(&x)->path;

	(void)state;
	flow_poll_sink(f);
	flow_poll_source(f);
	flow_post(f);
	assert_int_equal(p->ops->finish(p, 30), -EBUSY);
	flow_run_all(f);
	flow_finish(f);
	flow_end(f);
}

/* A source that disconnects with no answer owed has ended cleanly; with blocks still at the sink it
 * has failed. */
static void leave(uint32_t held, int error)
{
	const struct death d = { .op = OP_WRITE, .channels = 1, .slow = 5 };
	struct ends x;
	struct flow *f = flow_begin(&x, &d);
	struct path_event ev;
	struct path *p;

	p = sink_end(&x)->path;
	f->numbers = 5;
	for (int i = 0; i < 4; i++) {
		flow_poll_sink(f);
		flow_poll_source(f);
		flow_post(f);
	}
	while (f->nheld > held)
		flow_release_one(f, 0);
	flow_poll_sink(f);
	flow_poll_source(f);
	fake_verbs.disconnect(rd_path_of(source_end(&x))->ch[0].id);
	assert_int_equal(p->ops->poll(p, &ev, 1, 1000), 1);
	assert_int_equal(ev.kind, PATH_DOWN);
	assert_int_equal(ev.error, error);
	flow_poll_source(f);
	flow_end(f);
}

static void test_leaving(void **state)
{
	(void)state;
	leave(0, 0);
	leave(1, -ECONNRESET);
	leave(3, -ECONNRESET);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_completion),
		cmocka_unit_test(test_killed),
		cmocka_unit_test(test_all_die),
		cmocka_unit_test(test_late_completions),
		cmocka_unit_test(test_short_queues),
		cmocka_unit_test(test_device_removal),
		cmocka_unit_test(test_removal_of_idle),
		cmocka_unit_test(test_removal_when_left),
		cmocka_unit_test(test_lost_goodbye),
		cmocka_unit_test(test_goodbye),
		cmocka_unit_test(test_finish_too_early),
		cmocka_unit_test(test_leaving),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
