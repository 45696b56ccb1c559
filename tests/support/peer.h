// SPDX-License-Identifier: Apache-2.0
/* A transfer client that the test scripts frame by frame, so that it can break the protocol. Blocks
 * go in-band. */
#ifndef RFTP_TESTS_PEER_H
#define RFTP_TESTS_PEER_H

#include "tests/support/pair.h"
#include "transfer/seal.h"

#include <errno.h>

#define WAIT_MS 20000

/* The acknowledgement that the next peer requests. */
static uint8_t want_ack = ACK_SYNCED;
static char fill = 'x';    /* content of its files */
static void (*tune)(struct transfer_tuning *); /* changes the server's tuning; NULL: unchanged */

struct peer {
	struct pair_server v;
	struct mstream *ms;
	struct bulk_request q;
	struct bulk_agree ag;
	struct xkeys keys;
	struct pool *pool;
	struct seal *seal;
	struct buf *b, *in;        /* frame being built; last frame read */
	uint64_t next_block;
	bool damage;               /* damage the numbers of the next blocks */
};

static inline void send_frame(struct peer *p, uint8_t type)
{
	ms_write_frame(p->ms, type, buf_ptr(p->b), buf_len(p->b));
	buf_reset(p->b);
}

static inline void begin(struct peer *p, uint8_t op, const char *path, uint32_t flags,
			 uint8_t policy)
{
	static char *sources[2];
	struct pool_config pc = { .blocks = 4, .payload = BLOCK_MIN };
	struct err e = ERR_INIT;
	uint8_t type, ready = TRANSPORT_INBAND;
	char line[40];

	memset(p, 0, sizeof(*p));
	p->ms = pair_server_start(&p->v);
	if (tune)
		tune(&p->v.tuning);
	p->b = buf_new(BULK_REQUEST_MAX);
	p->in = buf_new(2 * BULK_FRAME_MAX);
	sources[0] = (char *)(uintptr_t)path;
	p->q = (struct bulk_request){ .major = BULK_MAJOR, .minor = BULK_MINOR, .op = op,
				      .policy = policy, .flags = flags, .has_key = true };
	p->q.base = op == BULK_PUT ? sources[0] : (char[]){ "" };
	p->q.sources = op == BULK_GET ? sources : NULL;
	p->q.nsources = op == BULK_GET;
	p->q.offer = (struct offer){ .transports = TRANSPORT_INBAND, .ack = want_ack,
				     .ops = OP_WRITE, .cpus = 1, .memory = 64 << 20,
				     .block = BLOCK_MIN, .block_max = BLOCK_MAX,
				     .channels_max = 1, .inflight = 16 };
	assert_int_equal(bulk_request_put(p->b, &p->q), 0);
	snprintf(line, sizeof(line), "BULK %zu\r\n", buf_len(p->b));
	ms_write(p->ms, line, strlen(line));
	ms_write(p->ms, buf_ptr(p->b), buf_len(p->b));
	buf_reset(p->b);
	assert_true(ms_read_line(p->ms, line, sizeof(line), WAIT_MS) > 0); /* 150 */
	assert_int_equal(ms_read_frame(p->ms, &type, p->in, BULK_FRAME_MAX, WAIT_MS), 0);
	assert_int_equal(type, BULK_AGREE);
	assert_int_equal(bulk_agree_get(p->in, &p->ag, &e), 0);
	assert_int_equal(xkeys_init(&p->keys, p->q.key, p->q.nonce, p->ag.nonce,
				    p->ag.session), 0);
	p->pool = pool_new(&pc, NULL);
	p->seal = seal_new(&p->keys, &p->ag.agreement, CLIENT_TO_SERVER, 0);
	ms_write_frame(p->ms, BULK_READY, &ready, 1);
}

/* The server must end with code by itself, while the peer stays and reads. */
static inline void expect_end(struct peer *p, int code)
{
	struct bulk_counts c = { 0 };
	uint8_t type = 0;

	while (type != BULK_END && !ms_read_frame(p->ms, &type, p->in, 2 * BULK_FRAME_MAX, WAIT_MS))
		;
	if (type != BULK_END)
		print_error("the server does not end it\n");
	/* As a correct peer does. */
	buf_reset(p->b);
	bulk_counts_put(p->b, &c);
	send_frame(p, BULK_SUMMARY);
	ms_write_frame(p->ms, BULK_END, NULL, 0);
	if (type != BULK_END)
		ms_abort(p->ms);
	pair_server_stop(&p->v, p->ms);
	if (p->v.result != code)
		fail_msg("%d, not %d: %s", p->v.result, code, p->v.e.text);
	seal_free(p->seal);
	pool_free(p->pool);
	buf_free(p->b);
	buf_free(p->in);
}

static inline void file_entry(struct peer *p, uint64_t id, const char *name, uint64_t size,
		       uint8_t flags)
{
	struct bulk_entry e = { .id = id, .type = ENTRY_FILE, .mode = 0644, .size = size,
				.name = name, .flags = (uint8_t)(flags | ENTRY_F_TOP) };

	assert_int_equal(bulk_entry_put(p->b, &e), 0);
}

static inline void entries(struct peer *p)
{
	send_frame(p, BULK_ENTRIES);
}

struct piece {
	uint64_t id, offset;
	uint32_t length;
};

static inline void send_block(struct peer *p, const struct piece *v, int n)
{
	struct block *b = pool_get(p->pool);
	size_t head;

	memset(block_payload(b), fill, b->cap);
	b->number = p->next_block++;
	for (int i = 0; i < n; i++)
		assert_int_equal(block_add(b, v[i].id, v[i].offset, v[i].length), 0);
	assert_int_equal(seal_block(p->seal, b, b), 0);
	b->base[15] ^= p->damage;
	head = BLOCK_WIRE_HEAD + (size_t)b->nextents * BLOCK_WIRE_EXTENT;
	buf_put(p->b, b->base, head);
	buf_put(p->b, block_payload(b), b->len);
	send_frame(p, BULK_DATA);
	pool_put(b);
}

static inline void one_piece(struct peer *p, uint64_t id, uint64_t offset, uint32_t length)
{
	struct piece x = { id, offset, length };

	send_block(p, &x, 1);
}

static inline void send_counts(struct peer *p, uint8_t type, uint64_t n)
{
	struct bulk_counts c = { .entries = n };

	bulk_counts_put(p->b, &c);
	send_frame(p, type);
}

static inline void wait_credits(struct peer *p, uint32_t nblocks)
{
	struct message_head h;
	uint8_t type;

	while (nblocks) {
		assert_int_equal(ms_read_frame(p->ms, &type, p->in, 2 * BULK_FRAME_MAX, WAIT_MS),
				 0);
		if (type != BULK_CREDIT)
			continue;
		assert_int_equal(message_head_get(buf_ptr(p->in), CREDIT_MAGIC, CREDITS_MAX, &h),
				 0);
		nblocks -= h.count;
	}
}

/* Sends SENT after the credits of all blocks. */
static inline void send_sent(struct peer *p, uint64_t nentries, uint32_t nblocks)
{
	wait_credits(p, nblocks);
	send_counts(p, BULK_SENT, nentries);
}

static inline void send_pair(struct peer *p, uint8_t type, uint64_t x, uint64_t y)
{
	bulk_pair_put(p->b, x, y);
	send_frame(p, type);
}

static inline bool there(const char *name)
{
	struct stat st;

	return !stat(at("%s", name), &st);
}

static inline void wait_frame(struct peer *p, uint8_t want)
{
	uint8_t type = 0;

	while (type != want)
		assert_int_equal(ms_read_frame(p->ms, &type, p->in, 2 * BULK_FRAME_MAX, WAIT_MS),
				 0);
}

#define RUN BLOCK_MIN

/* Leaves a file of four runs, of which the first two are written when the source stops. */
static inline void leave_half(const char *dir)
{
	struct bulk_failure f = { .code = -EINTR, .text = "enough" };
	struct peer p;

	begin(&p, BULK_PUT, dir, BULK_F_RESUME, POLICY_OVERWRITE);
	assert_int_equal(p.ag.agreement.block, RUN);
	file_entry(&p, 1, "big", 4 * RUN, ENTRY_F_ASK);
	entries(&p);
	wait_frame(&p, BULK_VERDICTS);
	one_piece(&p, 1, 0, RUN);
	one_piece(&p, 1, RUN, RUN);
	wait_credits(&p, 2);
	bulk_failure_put(p.b, &f);
	send_frame(&p, BULK_ABORT);
	expect_end(&p, -EINTR);
}

#endif
