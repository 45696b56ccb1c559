// SPDX-License-Identifier: Apache-2.0
/* Input: the behaviour of the other side of an RDMA path, over the fake fabric. The first byte
 * selects our side and the operation; then come steps, one byte each with arguments. All blocks
 * must come back exactly once. */
#include "tests/support/rdma-phony.h"

#include "tests/support/fuzz.h"

#define CHANNELS 3
#define INFLIGHT 6
#define POOL (INFLIGHT + 3)

struct input {
	const uint8_t *p;
	size_t left;
};

struct game {
	struct ends x;
	struct phony ph;
	struct end *end;
	struct rd_path *p;
	bool out[POOL];              /* the path holds the block of the source's pool */
	struct block *held[POOL];    /* held by the sink's writers */
	uint32_t nheld;
	uint64_t number;
};

static uint32_t take(struct input *in, unsigned bytes)
{
	uint32_t v = 0;

	for (; bytes; bytes--) {
		v = v << 8 | (in->left ? *in->p : 0);
		in->p += in->left > 0;
		in->left -= in->left > 0;
	}
	return v;
}

/* ---- our side ---- */

static void handle(struct game *g, const struct path_event *ev)
{
	if (ev->kind == PATH_DOWN)
		return;
	if (ev->kind == PATH_RECEIVED) {
		MUST(ev->block->len <= ENDS_BLOCK && g->nheld < POOL);
		g->held[g->nheld++] = ev->block;
		return;
	}
	MUST(g->out[ev->block->index]);
	g->out[ev->block->index] = false;
	pool_put(ev->block);
}

static int look(struct game *g)
{
	struct path_event ev[4];
	int n = g->end->path->ops->poll(g->end->path, ev, 4, 0);

	MUST(n >= 0);
	for (int i = 0; i < n; i++)
		handle(g, &ev[i]);
	return n;
}

static void post_one(struct game *g)
{
	struct block *b = g->end->cfg.source ? pool_try_get(g->end->pool) : NULL;

	if (!b)
		return;
	hand_block(b, g->number++);
	hand_block_add(b, 1, 0, 7, 1000);
	hand_block_end(b, 0);
	g->out[b->index] = true;
	if (g->end->path->ops->post(g->end->path, b)) {
		g->out[b->index] = false;
		pool_put(b);
	}
}

static void give_up_one(struct game *g, uint32_t how)
{
	const struct path_ops *ops = g->end->path->ops;
	struct block *b;

	if (!g->nheld)
		return;
	b = g->held[how % g->nheld];
	g->held[how % g->nheld] = g->held[g->nheld - 1];
	g->nheld--;
	if (how & 0x80)
		ops->refuse(g->end->path, b);
	else
		ops->release(g->end->path, b, how & 0x40 ? EBADMSG : 0);
}

/* ---- the other side ---- */

static void send_bytes(struct game *g, uint32_t channel, struct input *in)
{
	uint32_t len = take(in, 2) % 520;
	uint8_t m[520];

	for (uint32_t i = 0; i < len; i++)
		m[i] = (uint8_t)take(in, 1);
	phony_send(&g->ph, channel, m, len);
}

/* For each buffer: a grant, a credit for its block, or any number. */
static void send_credits(struct game *g, uint32_t channel, struct input *in)
{
	struct credit c[31];
	uint32_t n = take(in, 1) % 8;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t kind = take(in, 1), buffer = take(in, 1) % (POOL + 2);
		struct block *b = g->p->at && buffer < g->p->nat ? g->p->at[buffer] : NULL;

		c[i] = (struct credit){ .number = kind & 1 ? CREDIT_GRANT : b ? b->number : kind,
					.buffer = buffer, .status = kind & 2 ? EIO : 0 };
	}
	phony_credits(&g->ph, channel, c, n);
}

static void send_announces(struct game *g, uint32_t channel, struct input *in)
{
	struct announce a[8];
	uint32_t n = take(in, 1) % 8;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t kind = take(in, 1), buffer = take(in, 1) % (POOL + 2);

		phony_block(&g->ph, buffer, kind, kind % 3, 2000);
		a[i] = (struct announce){ .number = kind, .buffer = buffer, .payload = 2000,
					  .head = BLOCK_WIRE_HEAD + kind % 3 * BLOCK_WIRE_EXTENT };
		if (kind & 0x40)
			a[i].head = take(in, 2);
		if (kind & 0x80)
			a[i].payload = take(in, 3);
	}
	phony_announce(&g->ph, channel, a, n);
}

static void write_block(struct game *g, uint32_t channel, struct input *in)
{
	uint32_t kind = take(in, 1), buffer = take(in, 1) % (INFLIGHT + 1), extents = kind % 4;
	uint32_t bytes = phony_block(&g->ph, 0, kind, extents, 3000), head = bytes - 3000;
	uint64_t to = (uint64_t)buffer * PHONY_STRIDE + BLOCK_HEAD - head;
	uint32_t imm = extents << 24 | buffer;

	if (kind & 0x10)
		bytes = take(in, 2);
	if (kind & 0x20)
		imm = take(in, 4);
	if (kind & 0x40)
		to = (uint64_t)take(in, 4) << 32 | take(in, 4);
	if (kind & 0x80)
		g->ph.mem[BLOCK_HEAD - head + take(in, 1) % head] ^= (uint8_t)take(in, 1);
	phony_write(&g->ph, channel, 0, extents, bytes, to, imm);
}

static void step(struct game *g, struct input *in)
{
	uint32_t what = take(in, 1), channel = what >> 4 & 1 ? what >> 5 & 1 : 2;

	switch (what & 15) {
	case 0:
	case 1:
		look(g);
		break;
	case 2:
	case 3:
		post_one(g);
		break;
	case 4:
		give_up_one(g, take(in, 1));
		break;
	case 5:
		send_bytes(g, channel, in);
		break;
	case 6:
	case 7:
		send_credits(g, channel, in);
		break;
	case 8:
	case 9:
		send_announces(g, channel, in);
		break;
	case 10:
	case 11:
		write_block(g, channel, in);
		break;
	case 12:
		fake_kill(g->ph.id[channel]);
		break;
	case 13:
		fake_verbs.disconnect(g->ph.id[channel]);
		break;
	case 14:
		fake_run(what >> 4);
		break;
	default:
		fake.hold = !fake.hold;
	}
}

/* ---- */

static void begin(struct game *g, uint32_t what)
{
	bool source = what & 1;

	memset(g, 0, sizeof(*g));
	fake_begin();
	fake.purge = what & 4;
	fake.gives_up = what & 8;
	fake.may_starve = true;
	ends_init(&g->x, what & 2 ? OP_READ : OP_WRITE, CHANNELS, INFLIGHT);
	g->end = &g->x.end[source ? CLIENT : SERVER];
	if (source) {
		phony_init(&g->ph, &g->x, true);
		MUST(!phony_from_client(&g->ph, &g->x));
	} else {
		phony_to_server(&g->ph, &g->x);
	}
	g->p = rd_path_of(g->end);
}

/* After the end of all channels, the source must have all its blocks back. */
static void finish(struct game *g)
{
	for (uint32_t i = 0; i < CHANNELS; i++)
		fake_verbs.disconnect(g->ph.id[i]);
	fake.hold = false;
	for (int quiet = 0; quiet < 4;)
		quiet = look(g) ? 0 : quiet + 1;
	MUST(!g->end->path->alive);
	for (uint32_t i = 0; i < POOL; i++)
		MUST(!g->out[i]);
	while (g->nheld)
		give_up_one(g, 0);
	end_free(g->end);
	phony_free(&g->ph);
	fake_end();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	struct game g;

	begin(&g, take(&in, 1));
	while (in.left)
		step(&g, &in);
	finish(&g);
	return 0;
}
