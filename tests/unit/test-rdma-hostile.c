// SPDX-License-Identifier: Apache-2.0
/* An RDMA path with a lying peer: the lying channel fails with the right error, its blocks are
 * returned once, and the other channels continue. */
#include "tests/support/rdma-phony.h"

#define CHANNELS 3
#define INFLIGHT 6

struct host {
	struct ends x;
	struct phony ph;
	struct end *end;             /* the real end */
	struct rd_path *p;
};

/* A case: the peer's action on channel 0, and the error that the channel fails with. */
struct lie {
	const char *name;
	void (*tell)(struct host *h);
	int error;
};

/* The real end is the source of a put (the client), or its sink (the server). */
static void host_start(struct host *h, uint8_t op, bool source)
{
	fake_begin();
	ends_init(&h->x, op, CHANNELS, INFLIGHT);
	h->end = &h->x.end[source ? CLIENT : SERVER];
	if (source) {
		phony_init(&h->ph, &h->x, true);
		if (phony_from_client(&h->ph, &h->x))
			fail_msg("%s", h->end->e.text);
	} else {
		phony_to_server(&h->ph, &h->x);
	}
	h->p = rd_path_of(h->end);
}

static void host_end(struct host *h)
{
	end_free(h->end);
	phony_free(&h->ph);
	fake_end();
}

static int poll_host(struct host *h, struct path_event *ev, int max)
{
	int n = 0, r;

	/* The first poll may only see the end of a channel; the event follows. */
	for (int turn = 0; turn < 3 && n < max; turn++) {
		r = h->end->path->ops->poll(h->end->path, ev + n, max - n, 0);
		assert_true(r >= 0);
		n += r;
	}
	return n;
}

/* Polls for no event: the path works but reports nothing. */
static void look(struct host *h)
{
	struct path_event none;

	assert_int_equal(h->end->path->ops->poll(h->end->path, &none, 0, 0), 0);
}

/* Only channel 0 has failed, with this error; ev has further events. */
static void check_down(struct host *h, const struct path_event *ev, int n, int error)
{
	int downs = 0;

	for (int i = 0; i < n; i++) {
		if (ev[i].kind != PATH_DOWN)
			continue;
		downs++;
		assert_int_equal(ev[i].channel, 0);
		assert_int_equal(ev[i].error, error);
	}
	assert_int_equal(downs, 1);
	assert_int_equal(h->end->path->alive, CHANNELS - 1);
}

/* ---- a source with a lying sink ---- */

/* Two blocks on each channel. */
static void fill_channels(struct host *h)
{
	struct path_event ev[1];

	if (h->x.agr.op == OP_WRITE)
		for (uint32_t i = 0; i < INFLIGHT; i++)
			phony_grant(&h->ph, i % CHANNELS, i);
	assert_int_equal(poll_host(h, ev, 1), 0);
	for (uint32_t i = 0; i < INFLIGHT; i++) {
		struct block *b = pool_try_get(h->end->pool);

		hand_block(b, 100 + i);
		hand_block_add(b, 1, i * 4096, (uint8_t)i, 4096);
		hand_block_end(b, 0);
		assert_int_equal(h->end->path->ops->post(h->end->path, b), 0);
	}
	for (int i = 0; i < CHANNELS; i++)
		assert_int_equal(h->p->ch[i].blocks, 2);
	phony_drain(&h->ph);
}

/* The nth block in flight on the channel. */
static struct block *lying_on(struct host *h, uint32_t channel, int nth)
{
	for (uint32_t i = 0; i < h->p->nat; i++)
		if (h->p->at[i] && h->p->at[i]->channel == channel && !nth--)
			return h->p->at[i];
	return NULL;
}

static uint32_t place_of(struct host *h, const struct block *b)
{
	uint32_t i = 0;

	while (h->p->at[i] != b)
		i++;
	return i;
}

static struct credit true_credit(struct host *h, uint32_t channel, int nth)
{
	struct block *b = lying_on(h, channel, nth);

	return (struct credit){ .number = b->number, .buffer = place_of(h, b) };
}

static void answer(struct host *h, uint32_t channel, uint64_t number, uint32_t buffer)
{
	const struct credit c = { .number = number, .buffer = buffer };

	phony_credits(&h->ph, channel, &c, 1);
}

static void say_nothing(struct host *h)
{
	phony_send(&h->ph, 0, "", 0);
}

static void say_half_a_head(struct host *h)
{
	phony_send(&h->ph, 0, "RFTC\0\0", 6);
}

static void say_other_magic(struct host *h)
{
	phony_send(&h->ph, 0, "RFTX\0\0\0", 8);
}

static void say_too_much(struct host *h)
{
	static const uint8_t zeros[513];

	phony_send(&h->ph, 0, zeros, sizeof(zeros));
}

static void count_wrong(struct host *h, uint32_t said, uint32_t there)
{
	uint8_t m[MESSAGE_HEAD + 4 * CREDIT_BYTES + MESSAGE_TAG] = { 0 };
	struct credit c = true_credit(h, 0, 0);

	credit_put(m + MESSAGE_HEAD, &c);
	phony_message(&h->ph, 0, m, CREDIT_MAGIC, said, there * CREDIT_BYTES);
}

/* A valid list, but with lists missing before it, or with flipped bits. */
static void say_changed(struct host *h, uint32_t skip, uint8_t flip)
{
	uint8_t m[MESSAGE_HEAD + CREDIT_BYTES + MESSAGE_TAG] = { 0 };
	struct credit c = true_credit(h, 0, 0);

	credit_put(m + MESSAGE_HEAD, &c);
	h->ph.said[0].next += skip;
	assert_int_equal(message_seal(&h->ph.said[0], m, CREDIT_MAGIC, 1, CREDIT_BYTES), 0);
	m[MESSAGE_HEAD + 7] ^= flip;
	phony_send(&h->ph, 0, m, sizeof(m));
}

static void say_with_a_gap(struct host *h) { say_changed(h, 1, 0); }
static void say_with_a_flipped_bit(struct host *h) { say_changed(h, 0, 0x40); }
static void say_more_than_there_is(struct host *h) { count_wrong(h, 2, 1); }
static void say_less_than_there_is(struct host *h) { count_wrong(h, 1, 2); }
static void say_very_much(struct host *h) { count_wrong(h, 256, 1); }
static void say_far_too_much(struct host *h) { count_wrong(h, UINT32_MAX, 1); }

static void answer_no_buffer(struct host *h)
{
	answer(h, 0, true_credit(h, 0, 0).number, h->p->nat);
}

static void answer_far_buffer(struct host *h)
{
	answer(h, 0, true_credit(h, 0, 0).number, UINT32_MAX);
}

static void answer_other_number(struct host *h)
{
	answer(h, 0, 99, true_credit(h, 0, 0).buffer);
}

static void answer_for_another(struct host *h)
{
	struct credit c = true_credit(h, 1, 0);

	answer(h, 0, c.number, c.buffer);
}

static void answer_crosswise(struct host *h)
{
	answer(h, 0, true_credit(h, 0, 1).number, true_credit(h, 0, 0).buffer);
}

static void grant_what_is_used(struct host *h)
{
	phony_grant(&h->ph, 0, true_credit(h, 0, 0).buffer);
}

/* READ has no grants; under WRITE the buffer number is beyond the pool. */
static void grant_no_buffer(struct host *h)
{
	phony_grant(&h->ph, 0, h->p->nat);
}

static void announce_to_source(struct host *h)
{
	const struct announce a = { .number = 1, .head = 64, .payload = 1 };

	phony_announce(&h->ph, 0, &a, 1);
}

static void write_where_none_may(struct host *h)
{
	phony_write(&h->ph, 0, 0, 0, 64, 0, 0);
	assert_int_equal(h->ph.failed, IBV_WC_REM_ACCESS_ERR);
}

static void immediate_to_source(struct host *h)
{
	phony_write(&h->ph, 0, 0, 0, 0, 0, 0);
}

static void read_at(struct host *h, uint64_t at, uint32_t len)
{
	struct ibv_sge sge = { 0, len, h->ph.mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ,
				  .wr.rdma = { .remote_addr = at, .rkey = h->ph.key } };

	phony_post(&h->ph, 0, &wr);
}

static void read_first_block(struct host *h)
{
	read_at(h, 0, 64);
	assert_int_equal(h->ph.failed, IBV_WC_REM_ACCESS_ERR);
}

static void read_beyond(struct host *h)
{
	read_at(h, pool_bytes(h->end->pool) - 63, 64);
	assert_int_equal(h->ph.failed, IBV_WC_REM_ACCESS_ERR);
}

static void leave(struct host *h)
{
	assert_int_equal(fake_verbs.disconnect(h->ph.id[0]), 0);
}

static const struct lie to_source[] = {
	{ "nothing more", leave, -ECONNRESET },
	{ "an empty message", say_nothing, -EBADMSG },
	{ "half a head", say_half_a_head, -EBADMSG },
	{ "another magic", say_other_magic, -EBADMSG },
	{ "a message too long", say_too_much, -EIO },
	{ "a list too far", say_with_a_gap, -EBADMSG },
	{ "a flipped bit", say_with_a_flipped_bit, -EBADMSG },
	{ "more credits than there are", say_more_than_there_is, -EBADMSG },
	{ "less credits than there are", say_less_than_there_is, -EBADMSG },
	{ "256 credits", say_very_much, -EBADMSG },
	{ "2^32-1 credits", say_far_too_much, -EBADMSG },
	{ "a buffer that there is not", answer_no_buffer, -EPROTO },
	{ "a buffer far off", answer_far_buffer, -EPROTO },
	{ "a number that was not sent", answer_other_number, -EPROTO },
	{ "another channel's block", answer_for_another, -EPROTO },
	{ "a number in another's buffer", answer_crosswise, -EPROTO },
	{ "a grant of what is in use", grant_what_is_used, -EPROTO },
	{ "a grant of what there is not", grant_no_buffer, -EPROTO },
	{ "an announcement", announce_to_source, -EBADMSG },
	{ "a write", write_where_none_may, -ECONNRESET },
	{ "an immediate", immediate_to_source, -EPROTO },
	{ "a read beyond the pool", read_beyond, -ECONNRESET },
};
#define TO_SOURCE (sizeof(to_source) / sizeof(to_source[0]))

/* The channel's two blocks are returned without a status; the other channels get their
 * acknowledgements. */
static void lie_to_source(uint8_t op, const struct lie *l)
{
	struct path_event ev[16];
	unsigned returned = 0;
	struct host h;
	int n;

	host_start(&h, op, true);
	fill_channels(&h);
	l->tell(&h);
	n = poll_host(&h, ev, 16);
	check_down(&h, ev, n, l->error);
	for (int i = 0; i < n; i++) {
		if (ev[i].kind == PATH_DOWN)
			continue;
		assert_int_equal(ev[i].kind, PATH_RETURNED);
		assert_int_equal(ev[i].channel, 0);
		assert_int_equal(ev[i].status, 0);
		returned++;
		pool_put(ev[i].block);
	}
	assert_int_equal(returned, 2);
	for (uint32_t c = 1; c < CHANNELS; c++) {
		struct credit k[2] = { true_credit(&h, c, 0), true_credit(&h, c, 1) };

		k[1].status = EBADMSG;
		phony_credits(&h.ph, c, k, 2);
		assert_int_equal(poll_host(&h, ev, 16), 2);
		assert_int_equal(ev[0].kind, PATH_ACKED);
		assert_int_equal(ev[0].block->number, k[0].number);
		assert_int_equal(ev[1].kind, PATH_RETURNED);
		assert_int_equal(ev[1].status, EBADMSG);
		pool_put(ev[0].block);
		pool_put(ev[1].block);
	}
	host_end(&h);
}

static void test_lies_to_source(void **state)
{
	(void)state;
	for (size_t i = 0; i < TO_SOURCE; i++) {
		lie_to_source(OP_WRITE, &to_source[i]);
		lie_to_source(OP_READ, &to_source[i]);
	}
	/* A read is an error only under WRITE. */
	lie_to_source(OP_WRITE, &(struct lie){ "a read", read_first_block, -ECONNRESET });
}

/* The same answer twice. */
static void test_said_twice(void **state)
{
	static const int kinds[3] = { PATH_ACKED, PATH_RETURNED, PATH_DOWN };

	(void)state;
	for (uint8_t op = OP_WRITE; op <= OP_READ; op++) {
		struct path_event ev[16];
		struct credit k;
		struct host h;
		int n;

		host_start(&h, op, true);
		fill_channels(&h);
		k = true_credit(&h, 0, 0);
		phony_credits(&h.ph, 0, &k, 1);
		phony_credits(&h.ph, 0, &k, 1);
		n = poll_host(&h, ev, 16);
		check_down(&h, ev, n, -EPROTO);
		assert_int_equal(n, 3);
		for (int i = 0; i < 3; i++) {
			assert_int_equal(ev[i].kind, kinds[i]);
			if (ev[i].block)
				pool_put(ev[i].block);
		}
		host_end(&h);
	}
}

static void test_granted_twice(void **state)
{
	struct path_event ev[4];
	struct host h;

	(void)state;
	host_start(&h, OP_WRITE, true);
	phony_grant(&h.ph, 0, 3);
	phony_grant(&h.ph, 0, 3);
	check_down(&h, ev, poll_host(&h, ev, 4), -EPROTO);
	/* The same grant on another channel means that the first channel has failed at the sink. */
	phony_grant(&h.ph, 1, 3);
	phony_grant(&h.ph, 2, 3);
	assert_int_equal(poll_host(&h, ev, 4), 1);
	assert_int_equal(ev[0].channel, 1);
	assert_int_equal(ev[0].error, -ECONNRESET);
	host_end(&h);
}

/* ---- a sink that takes blocks and sends no answers ---- */

/* Polls for this many time limits; returns the number of events. */
static int poll_limits(struct host *h, struct path_event *ev, int max, unsigned limits)
{
	uint64_t end = now_ns() + limits * h->p->path.watch.limit_ns;
	int n = 0;

	while (n < max && now_ns() < end)
		n += h->end->path->ops->poll(h->end->path, ev + n, max - n, 5);
	return n;
}

static void silent_sink(uint8_t op)
{
	struct path_event ev[4];
	struct host h;
	unsigned returned = 0;
	int n;

	host_start(&h, op, true);
	h.p->path.watch.limit_ns = 100000000;
	fill_channels(&h);
	/* The sink reports that it holds the blocks: its storage may be slow. */
	for (uint32_t c = 0; c < CHANNELS; c++)
		path_report(h.end->path, c, 8192, 2);
	assert_int_equal(poll_limits(&h, ev, 4, 3), 0);
	/* On channel 0 it holds no more blocks, but its answers do not arrive. */
	path_report(h.end->path, 0, 8192, 0);
	n = poll_limits(&h, ev, 3, 30);
	check_down(&h, ev, n, -ETIMEDOUT);
	for (int i = 0; i < n; i++) {
		if (ev[i].kind != PATH_RETURNED)
			continue;
		returned++;
		pool_put(ev[i].block);
	}
	assert_int_equal(returned, 2);
	/* The sink gives up channel 1. */
	path_lose(h.end->path, 1);
	n = poll_limits(&h, ev, 3, 30);
	assert_int_equal(n, 3);
	for (int i = 0; i < n; i++) {
		assert_int_equal(ev[i].channel, 1);
		if (ev[i].kind == PATH_DOWN)
			assert_int_equal(ev[i].error, CHANNEL_GIVEN_UP);
		else
			pool_put(ev[i].block);
	}
	/* The sink holds the last channel's blocks for ever. */
	h.p->path.watch.limit_ns = 2000000;
	n = poll_limits(&h, ev, 3, 5000);
	assert_int_equal(n, 3);
	for (int i = 0; i < n; i++)
		if (ev[i].kind != PATH_DOWN)
			pool_put(ev[i].block);
	host_end(&h);
}

static void test_silent_sink(void **state)
{
	(void)state;
	silent_sink(OP_WRITE);
	silent_sink(OP_READ);
}

/* A sink grants a channel no buffers: the channel fails once a block waits for one. */
static void test_no_grants(void **state)
{
	struct path_event ev[4];
	struct block *b;
	struct host h;

	(void)state;
	host_start(&h, OP_WRITE, true);
	h.p->path.watch.limit_ns = 50000000;
	phony_grant(&h.ph, 1, 0);
	assert_int_equal(poll_limits(&h, ev, 4, 4), 0);
	for (int i = 0; i < 2; i++) {
		b = pool_try_get(h.end->pool);
		hand_block(b, 100 + i);
		hand_block_add(b, 1, i * 4096, (uint8_t)i, 4096);
		hand_block_end(b, 0);
		assert_int_equal(h.end->path->ops->post(h.end->path, b), i ? -EAGAIN : 0);
	}
	pool_put(b);
	/* The sink holds the block of channel 1; the other channels have no grants. */
	path_report(h.end->path, 1, 4096, 1);
	assert_int_equal(poll_limits(&h, ev, 2, 30), 2);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ev[i].kind, PATH_DOWN);
		assert_int_equal(ev[i].error, -ETIMEDOUT);
		assert_int_not_equal(ev[i].channel, 1);
	}
	host_end(&h);
}

/* More messages than receives wait at the sender; empty messages do no harm. */
static void test_flood(void **state)
{
	(void)state;
	for (int source = 0; source < 2; source++) {
		struct path_event ev[4];
		struct host h;

		host_start(&h, source ? OP_WRITE : OP_READ, source);
		fake.may_starve = true;
		for (int i = 0; i < 100; i++)
			source ? phony_credits(&h.ph, 0, NULL, 0) :
				 phony_announce(&h.ph, 0, NULL, 0);
		assert_true(fake_starved() > 0);
		for (int i = 0; i < 30; i++)
			assert_int_equal(poll_host(&h, ev, 4), 0);
		assert_int_equal(h.p->path.alive, CHANNELS);
		host_end(&h);
	}
}

/* ---- a sink under WRITE with a lying source ---- */

/* A buffer granted to the channel. */
static uint32_t granted_to(struct host *h, uint32_t channel)
{
	for (uint32_t i = 0; i < INFLIGHT; i++)
		if (h->p->granted[i] && h->p->granted[i]->channel == channel)
			return i;
	fail();
	return 0;
}

static uint64_t begin_of(uint32_t buffer, uint32_t head)
{
	return (uint64_t)buffer * PHONY_STRIDE + BLOCK_HEAD - head;
}

static void write_with(struct host *h, uint32_t extents, uint32_t payload, uint32_t imm)
{
	uint32_t bytes = phony_block(&h->ph, 0, 7, extents, payload);
	uint32_t head = bytes - payload;

	phony_write(&h->ph, 0, 0, extents, bytes, begin_of(granted_to(h, 0), head), imm);
}

static void name_no_buffer(struct host *h) { write_with(h, 1, 100, 1u << 24 | INFLIGHT); }
static void name_far_buffer(struct host *h) { write_with(h, 1, 100, 1u << 24 | 0xffffff); }
static void name_others_buffer(struct host *h)
{
	write_with(h, 1, 100, 1u << 24 | granted_to(h, 1));
}

static void name_fewer_extents(struct host *h) { write_with(h, 2, 100, granted_to(h, 0)); }
static void name_more_extents(struct host *h)
{
	write_with(h, 1, 100, 2u << 24 | granted_to(h, 0));
}

static void name_too_many_extents(struct host *h)
{
	write_with(h, 1, 30000, 201u << 24 | granted_to(h, 0));
}

static void name_255_extents(struct host *h)
{
	write_with(h, 1, 30000, 255u << 24 | granted_to(h, 0));
}

static void write_less_than_a_head(struct host *h)
{
	phony_write(&h->ph, 0, 0, 0, 63, begin_of(granted_to(h, 0), 63), granted_to(h, 0));
}

static void write_nothing(struct host *h)
{
	phony_write(&h->ph, 0, 0, 0, 0, 0, granted_to(h, 0));
}

static void write_twice(struct host *h)
{
	uint32_t buffer = granted_to(h, 0);
	struct path_event ev;

	phony_put(&h->ph, 0, 7, buffer, 100);
	assert_int_equal(poll_host(h, &ev, 1), 1);
	phony_put(&h->ph, 0, 8, buffer, 100);
	look(h);
	h->end->path->ops->release(h->end->path, ev.block, 0);
}

/* A write over the whole pool, with its true length. */
static void write_too_much(struct host *h)
{
	phony_block(&h->ph, 0, 7, 0, ENDS_BLOCK);
	phony_write(&h->ph, 0, 0, 0, BLOCK_WIRE_HEAD + ENDS_BLOCK + 1, begin_of(0, 64),
		    granted_to(h, 0));
}

static void write_beyond(struct host *h)
{
	phony_write(&h->ph, 0, 0, 0, 64, pool_bytes(h->end->pool) - 63, granted_to(h, 0));
	assert_int_equal(h->ph.failed, IBV_WC_REM_ACCESS_ERR);
}

static void write_before(struct host *h)
{
	phony_write(&h->ph, 0, 0, 0, 64, UINT64_MAX - 31, granted_to(h, 0));
	assert_int_equal(h->ph.failed, IBV_WC_REM_ACCESS_ERR);
}

static void write_by_other_key(struct host *h)
{
	uint32_t key = h->ph.key;

	h->ph.key = h->p->mr->lkey;
	write_with(h, 1, 100, 1u << 24 | granted_to(h, 0));
	h->ph.key = key;
	assert_int_equal(h->ph.failed, IBV_WC_REM_ACCESS_ERR);
}

static void head_of(struct host *h, uint32_t at, uint8_t flip)
{
	uint32_t bytes = phony_block(&h->ph, 0, 7, 1, 100), buffer = granted_to(h, 0);

	h->ph.mem[BLOCK_HEAD - 84 + at] ^= flip;
	phony_write(&h->ph, 0, 0, 1, bytes, begin_of(buffer, 84), 1u << 24 | buffer);
}

static void head_of_other_magic(struct host *h) { head_of(h, 0, 1); }
static void head_of_other_version(struct host *h) { head_of(h, 4, 2); }
static void head_of_other_extents(struct host *h) { head_of(h, 7, 3); }
static void head_of_other_payload(struct host *h) { head_of(h, 19, 1); }
static void head_of_huge_payload(struct host *h) { head_of(h, 16, 0x80); }

static const struct lie to_sink[] = {
	{ "a message", say_half_a_head, -EIO },
	{ "an empty message", say_nothing, -EPROTO },
	{ "a buffer that there is not", name_no_buffer, -EPROTO },
	{ "a buffer far off", name_far_buffer, -EPROTO },
	{ "another channel's buffer", name_others_buffer, -EPROTO },
	{ "fewer extents than there are", name_fewer_extents, -EBADMSG },
	{ "more extents than there are", name_more_extents, -EBADMSG },
	{ "201 extents", name_too_many_extents, -EPROTO },
	{ "255 extents", name_255_extents, -EPROTO },
	{ "less than a head", write_less_than_a_head, -EPROTO },
	{ "no bytes", write_nothing, -EPROTO },
	{ "a buffer that is not given again yet", write_twice, -EPROTO },
	{ "more than a block", write_too_much, -EPROTO },
	{ "bytes behind the pool", write_beyond, -ECONNRESET },
	{ "bytes before the pool", write_before, -ECONNRESET },
	{ "another key", write_by_other_key, -ECONNRESET },
	{ "a read", read_first_block, -ECONNRESET },
	{ "a head of another magic", head_of_other_magic, -EBADMSG },
	{ "a head of another version", head_of_other_version, -EBADMSG },
	{ "a head of other extents", head_of_other_extents, -EBADMSG },
	{ "a head of another payload", head_of_other_payload, -EBADMSG },
	{ "a head of a huge payload", head_of_huge_payload, -EBADMSG },
};
#define TO_SINK (sizeof(to_sink) / sizeof(to_sink[0]))

/* Every buffer is granted to a channel that is up. */
static void check_grants(struct host *h)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < INFLIGHT; i++)
		if (h->p->granted[i]) {
			assert_int_equal(h->p->ch[h->p->granted[i]->channel].state, RD_UP);
			n++;
		}
	assert_int_equal(n, INFLIGHT);
	assert_null(h->p->homeless);
}

/* A block arrives on each of the other channels. */
static void check_others(struct host *h)
{
	for (uint32_t c = 1; c < CHANNELS; c++) {
		uint32_t buffer = granted_to(h, c);
		struct path_event ev[2];

		phony_put(&h->ph, c, 50 + c, buffer, 4000);
		assert_int_equal(poll_host(h, ev, 2), 1);
		assert_int_equal(ev[0].kind, PATH_RECEIVED);
		assert_int_equal(ev[0].block->number, 50 + c);
		assert_int_equal(ev[0].block->len, 4000);
		for (int i = 0; i < 4000; i++)
			assert_int_equal(block_payload(ev[0].block)[i], 50 + c);
		h->end->path->ops->release(h->end->path, ev[0].block, 0);
		assert_int_equal(poll_host(h, ev, 2), 0);
	}
}

static void test_lies_to_sink(void **state)
{
	(void)state;
	for (size_t i = 0; i < TO_SINK; i++) {
		struct path_event ev[8];
		struct host h;

		host_start(&h, OP_WRITE, false);
		assert_int_equal(poll_host(&h, ev, 8), 0); /* sends grants */
		to_sink[i].tell(&h);
		check_down(&h, ev, poll_host(&h, ev, 8), to_sink[i].error);
		check_grants(&h);
		check_others(&h);
		check_grants(&h);
		host_end(&h);
	}
}

/* A source that reads no credits, but knows their contents: the number of pending answers stays
 * within its limit. */
static void test_deaf_source(void **state)
{
	struct path_event ev[2] = { { .kind = PATH_RECEIVED } };
	uint32_t buffer, i;
	struct host h;

	(void)state;
	host_start(&h, OP_WRITE, false);
	fake.may_starve = true;
	assert_int_equal(poll_host(&h, ev, 2), 0);
	buffer = granted_to(&h, 0);
	for (i = 0; i < 200 && h.p->ch[0].state == RD_UP; i++) {
		uint32_t bytes = phony_block(&h.ph, 0, i, 1, 100);
		struct ibv_sge sge = { BLOCK_HEAD - 84, bytes, h.ph.mr->lkey };
		struct ibv_send_wr wr = {
			.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
			.imm_data = htonl(1u << 24 | buffer),
			.wr.rdma = { .remote_addr = begin_of(buffer, 84), .rkey = h.ph.key },
		};

		assert_int_equal(fake_verbs.post_send(h.ph.id[0], &wr), 0);
		if (poll_host(&h, ev, 1) == 1 && ev[0].kind == PATH_RECEIVED)
			h.end->path->ops->release(h.end->path, ev[0].block, 0);
		assert_true(h.p->ch[0].nanswers <= INFLIGHT);
	}
	assert_int_equal(h.p->ch[0].state, RD_DOWN);
	while (ev[0].kind != PATH_DOWN) {
		assert_int_equal(poll_host(&h, ev, 1), 1);
		if (ev[0].kind == PATH_RECEIVED)
			h.end->path->ops->release(h.end->path, ev[0].block, 0);
	}
	assert_int_equal(ev[0].error, -EPROTO);
	host_end(&h);
}

/* ---- a sink under READ with a lying source ---- */

static struct announce true_announce(struct host *h, uint32_t buffer, uint64_t number)
{
	phony_block(&h->ph, buffer, number, 1, 4000);
	return (struct announce){ .number = number, .buffer = buffer, .head = 84,
				  .payload = 4000 };
}

static void announce_with(struct host *h, uint32_t buffer, uint32_t head, uint32_t payload)
{
	struct announce a = true_announce(h, 0, 7);

	a.buffer = buffer;
	a.head = head;
	a.payload = payload;
	phony_announce(&h->ph, 0, &a, 1);
}

static void announce_no_buffer(struct host *h) { announce_with(h, h->p->source_blocks, 84, 9); }
static void announce_far_buffer(struct host *h) { announce_with(h, UINT32_MAX, 84, 9); }
static void announce_no_head(struct host *h) { announce_with(h, 0, 0, 9); }
static void announce_short_head(struct host *h) { announce_with(h, 0, 63, 9); }
static void announce_odd_head(struct host *h) { announce_with(h, 0, 85, 9); }
static void announce_long_head(struct host *h) { announce_with(h, 0, 64 + 201 * 20, 9); }
static void announce_huge_head(struct host *h) { announce_with(h, 0, UINT32_MAX - 11, 9); }
static void announce_long_block(struct host *h) { announce_with(h, 0, 84, ENDS_BLOCK + 1); }
static void announce_huge_block(struct host *h) { announce_with(h, 0, 84, UINT32_MAX); }
static void announce_more_payload(struct host *h) { announce_with(h, 0, 84, 4001); }
static void announce_more_extents(struct host *h) { announce_with(h, 0, 104, 3980); }

static void announce_other_number(struct host *h)
{
	struct announce a = true_announce(h, 0, 7);

	a.number = 8;
	phony_announce(&h->ph, 0, &a, 1);
}

static void announce_too_many(struct host *h)
{
	struct announce a[INFLIGHT + 1];

	for (uint32_t i = 0; i <= INFLIGHT; i++)
		a[i] = true_announce(h, i, i);
	phony_announce(&h->ph, 0, a, INFLIGHT + 1);
}

static void announce_count(struct host *h, uint32_t said, uint32_t there)
{
	struct announce a = true_announce(h, 0, 7);
	uint8_t m[MESSAGE_HEAD + 3 * ANNOUNCE_BYTES + MESSAGE_TAG] = { 0 };

	announce_put(m + MESSAGE_HEAD, &a);
	phony_message(&h->ph, 0, m, ANNOUNCE_MAGIC, said, there * ANNOUNCE_BYTES);
}

static void announce_more_than_there_is(struct host *h) { announce_count(h, 2, 1); }
static void announce_less_than_there_is(struct host *h) { announce_count(h, 1, 2); }
static void announce_very_many(struct host *h) { announce_count(h, UINT32_MAX, 1); }

static void credits_to_sink(struct host *h)
{
	phony_grant(&h->ph, 0, 0);
}

static void immediate_to_sink(struct host *h)
{
	phony_write(&h->ph, 0, 0, 0, 0, 0, 0);
}

static void hide_buffers(struct host *h)
{
	h->p->ch[0].peer_key ^= 1;
	announce_with(h, 0, 84, 4000);
}

/* The source disconnects during a read of its block. */
static void leave_while_read(struct host *h)
{
	announce_with(h, 0, 84, 4000);
	fake.hold = true;
	look(h);
	assert_int_equal(h->p->ch[0].reads, 1);
	leave(h);
	fake.hold = false;
}

static const struct lie to_reader[] = {
	{ "nothing more", leave_while_read, -ECONNRESET },
	{ "an empty message", say_nothing, -EBADMSG },
	{ "half a head", say_half_a_head, -EBADMSG },
	{ "another magic", say_other_magic, -EBADMSG },
	{ "credits", credits_to_sink, -EBADMSG },
	{ "an immediate", immediate_to_sink, -EPROTO },
	{ "a write", write_where_none_may, -ECONNRESET },
	{ "a read", read_first_block, -ECONNRESET },
	{ "more announcements than there are", announce_more_than_there_is, -EBADMSG },
	{ "less announcements than there are", announce_less_than_there_is, -EBADMSG },
	{ "2^32-1 announcements", announce_very_many, -EBADMSG },
	{ "a buffer that there is not", announce_no_buffer, -EPROTO },
	{ "a buffer far off", announce_far_buffer, -EPROTO },
	{ "no head", announce_no_head, -EPROTO },
	{ "a short head", announce_short_head, -EPROTO },
	{ "a head with part of an extent", announce_odd_head, -EPROTO },
	{ "a head of 201 extents", announce_long_head, -EPROTO },
	{ "a huge head", announce_huge_head, -EPROTO },
	{ "more than a block", announce_long_block, -EPROTO },
	{ "a huge block", announce_huge_block, -EPROTO },
	{ "more blocks than agreed", announce_too_many, -EPROTO },
	{ "more payload than there is", announce_more_payload, -EBADMSG },
	{ "more extents than there are", announce_more_extents, -EBADMSG },
	{ "another number", announce_other_number, -EBADMSG },
	{ "a key that is none", hide_buffers, -EACCES },
};
#define TO_READER (sizeof(to_reader) / sizeof(to_reader[0]))

static void check_other_reads(struct host *h)
{
	for (uint32_t c = 1; c < CHANNELS; c++) {
		struct announce a = true_announce(h, c, 60 + c);
		struct path_event ev[2];

		phony_announce(&h->ph, c, &a, 1);
		assert_int_equal(poll_host(h, ev, 2), 1);
		assert_int_equal(ev[0].kind, PATH_RECEIVED);
		assert_int_equal(ev[0].block->number, 60 + c);
		for (int i = 0; i < 4000; i++)
			assert_int_equal(block_payload(ev[0].block)[i], 60 + c);
		h->end->path->ops->release(h->end->path, ev[0].block, 0);
	}
}

static void test_lies_to_reader(void **state)
{
	(void)state;
	for (size_t i = 0; i < TO_READER; i++) {
		struct path_event ev[8];
		struct host h;

		host_start(&h, OP_READ, false);
		assert_int_equal(poll_host(&h, ev, 8), 0);
		to_reader[i].tell(&h);
		check_down(&h, ev, poll_host(&h, ev, 8), to_reader[i].error);
		check_other_reads(&h);
		assert_int_equal(pool_free_blocks(h.end->pool), INFLIGHT);
		host_end(&h);
	}
}

/* ---- blocks with wrong contents ---- */

static struct block *receive_on(struct host *h, uint32_t channel, uint64_t number)
{
	struct path_event ev;

	if (h->x.agr.op == OP_WRITE) {
		phony_put(&h->ph, channel, number, granted_to(h, channel), 4000);
	} else {
		struct announce a = true_announce(h, (uint32_t)number, number);

		phony_announce(&h->ph, channel, &a, 1);
	}
	assert_int_equal(poll_host(h, &ev, 1), 1);
	assert_int_equal(ev.kind, PATH_RECEIVED);
	return ev.block;
}

/* A block is refused, and its channel fails. The channel's other block may be refused or released
 * after that; all buffers move to the other channels. */
static void refused(uint8_t op, bool release_late)
{
	struct block *b[2];
	struct path_event ev[4];
	struct host h;

	host_start(&h, op, false);
	assert_int_equal(poll_host(&h, ev, 4), 0);
	b[0] = receive_on(&h, 0, 1);
	b[1] = receive_on(&h, 0, 2);
	h.end->path->ops->refuse(h.end->path, b[0]);
	check_down(&h, ev, poll_host(&h, ev, 4), -EBADMSG);
	if (release_late)
		h.end->path->ops->release(h.end->path, b[1], 0);
	else
		h.end->path->ops->refuse(h.end->path, b[1]);
	assert_int_equal(poll_host(&h, ev, 4), 0);
	assert_int_equal(h.end->path->alive, CHANNELS - 1);
	if (op == OP_WRITE) {
		check_grants(&h);
		check_others(&h);
	} else {
		assert_int_equal(pool_free_blocks(h.end->pool), INFLIGHT);
		check_other_reads(&h);
	}
	host_end(&h);
}

static void test_refused(void **state)
{
	(void)state;
	for (int how = 0; how < 4; how++)
		refused(how & 1 ? OP_READ : OP_WRITE, how & 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lies_to_source),
		cmocka_unit_test(test_said_twice),
		cmocka_unit_test(test_granted_twice),
		cmocka_unit_test(test_silent_sink),
		cmocka_unit_test(test_no_grants),
		cmocka_unit_test(test_flood),
		cmocka_unit_test(test_lies_to_sink),
		cmocka_unit_test(test_deaf_source),
		cmocka_unit_test(test_lies_to_reader),
		cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
