// SPDX-License-Identifier: Apache-2.0
/* The agreement of both sides: a pure function of their offers (rftp-protocol(7)). */
#include "proto/bulk.h"
#include "proto/negotiate.h"

#define STORAGE_TOLD_ROTATING 3       /* of enum storage_class (storage/storage.h) */
#define UNIT 4096u                    /* page; block sizes are multiples of it */
#define HEAD_BYTES 4096u              /* of a block in a pool, before its payload */
#define BLOCK_LOWEST (64u << 10)
#define BLOCK_HIGHEST (64u << 20)
#define BLOCK_DEFAULT (1u << 20)
/* For RDMA on a short path: a block stays in a core's cache between stages. For many TCP streams:
 * the slowest stream sends the last blocks sooner. On a short TCP path larger blocks save system
 * calls: bench/README.md. */
#define BLOCK_SMALL (256u << 10)
#define BLOCK_INBAND (BULK_FRAME_MAX - HEAD_BYTES) /* with its head a block fills one frame */

#define CHANNELS_RDMA 2u              /* per path, if neither side asks for a number */
#define CHANNELS_RDMA_FAR 8u          /* the maximum on a path that is not short */
/* One queue pair for each such part of the round trip. Software RDMA (rdma_rxe) keeps at most 128
 * packets of a queue pair in flight. Cards keep more, and more queue pairs do not slow them down.
 * On a shorter path more queue pairs only cost CPU time: bench/README.md. */
#define QUEUE_PAIR_RTT_NS 12000000u
#define READS_EACH 16u                /* reads that most devices allow in flight on a queue pair */
#define CHANNELS_TCP 4u
#define CHANNELS_TCP_NEAR 2u          /* a short path and few CPUs: streams cost CPU time */
/* The first streams on a path that is not short: one for each such part of the round trip, because
 * the time that a stream needs to start, and to recover from a loss, is proportional to the round
 * trip: bench/README.md. */
#define STREAM_RTT_NS 6000000u
#define CHANNELS_TCP_LONG 8u          /* the minimum, if the round trip is at least STREAM_RTT_NS */
#define CHANNELS_TCP_FAR 16u
#define FEW_CPUS 4u

#define INFLIGHT_FLOOR 16u            /* blocks */
#define INFLIGHT_FLOOR_READ 32u       /* a block also waits to be read: bench/README.md */
/* For all paths together. A sink tracks at most 65536 blocks beyond the oldest missing one; this
 * leaves room for the readers' blocks. */
#define INFLIGHT_HIGHEST 60000u
#define PER_CHANNEL 2u                /* blocks: one on the wire, one being acknowledged */
#define UNKNOWN_MBPS 40000u           /* assumed for a long path with NICs of unknown speed */
#define RTT_HIGHEST_NS 10000000000u   /* keeps the products below in 64 bits */
#define MBPS_HIGHEST 10000000u

#define READERS_LOWEST 2u             /* source blocks beyond those in flight */
#define READERS_HIGHEST 16u

#define MESSAGE_ROOM 512u             /* bytes of a message buffer of a channel */
#define MESSAGES 16u                  /* message buffers of a channel beyond one for each block */

#define ENTRIES_AHEAD 65536u

static uint32_t min_u32(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static uint32_t max_u32(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

static uint32_t clamp_u32(uint32_t v, uint32_t lo, uint32_t hi)
{
	return min_u32(max_u32(v, lo), hi);
}

static bool is_near(const struct offer *client)
{
	return client->rtt_ns && client->rtt_ns < FAR_RTT_NS;
}

/* The client's wish has priority over the server's. */
static uint32_t preferred(uint32_t client, uint32_t server)
{
	return client ? client : server;
}

/* ---- names ---- */

static const char *const prot_names[] = { "clear", "safe", "private" };
static const char *const ack_names[] = { "received", "written", "synced", "verified" };

const char *transport_name(int bit)
{
	static const char *const names[] = { [TRANSPORT_TCP] = "tcp", [TRANSPORT_RDMA] = "rdma",
					     [TRANSPORT_INBAND] = "in-band" };

	return bit > 0 && bit <= TRANSPORT_INBAND && names[bit] ? names[bit] : "unknown";
}

const char *prot_name(int p)
{
	return p >= PROT_CLEAR && p <= PROT_PRIVATE ? prot_names[p] : "unknown";
}

const char *ack_name(int a)
{
	return a >= ACK_RECEIVED && a <= ACK_VERIFIED ? ack_names[a] : "unknown";
}

/* ---- transport, operation, guarantees ---- */

static int choose_op(const struct offer *c, const struct offer *s)
{
	int both = c->ops & s->ops;

	return both & OP_WRITE ? OP_WRITE : both & OP_READ;
}

static int no_transport(const struct offer *c, const struct offer *s, struct err *e)
{
	if (c->transports & TRANSPORT_RDMA && !(s->transports & TRANSPORT_RDMA))
		return err_set(e, -EPROTONOSUPPORT, "the server offers no RDMA: its log says why");
	if (!(c->transports & TRANSPORT_RDMA))
		return err_set(e, -EPROTONOSUPPORT, "client and server have no transport in "
			       "common: allow the same one (rdma, tcp) on both");
	if (!choose_op(c, s))
		return err_set(e, -EPROTONOSUPPORT, "client and server have no RDMA operation in "
			       "common: allow the same one, or TCP, on both");
	/* Another error code, because a later attempt may find a card. */
	return err_set(e, -ENODEV, "no RDMA card of the client shares a network with one "
		       "of the server: name them with --nic on both sides if they reach each "
		       "other nevertheless");
}

static int choose_transport(const struct offer *c, const struct offer *s, struct agreement *a,
			    struct err *e)
{
	int both = c->transports & s->transports;
	int op = choose_op(c, s);
	uint8_t cn[NICS_MAX], sn[NICS_MAX];

	a->op = OP_WRITE;
	if (c->little && s->little && both & TRANSPORT_INBAND) {
		a->transport = TRANSPORT_INBAND;
	} else if ((both & TRANSPORT_RDMA) && op && nic_pairs(c, s, TRANSPORT_RDMA, cn, sn)) {
		/* RDMA needs NICs that reach each other; TCP can use the control connection's. */
		a->transport = TRANSPORT_RDMA;
		a->op = (uint8_t)op;
	} else if (both & TRANSPORT_TCP) {
		a->transport = TRANSPORT_TCP;
	} else if (both & TRANSPORT_INBAND) {
		a->transport = TRANSPORT_INBAND;
	} else {
		return no_transport(c, s, e);
	}
	return 0;
}

static int choose_guarantees(const struct offer *c, const struct offer *s, struct agreement *a,
			     struct err *e)
{
	a->prot = c->prot_min > s->prot_min ? c->prot_min : s->prot_min;
	if (a->prot > PROT_PRIVATE)
		return err_set(e, -EPROTONOSUPPORT, "protection level %u of the %s is not known",
			       a->prot, c->prot_min > PROT_PRIVATE ? "client" : "server");
	a->ack = c->ack < s->ack ? c->ack : s->ack;
	if (a->ack > ACK_VERIFIED)
		return err_set(e, -EPROTONOSUPPORT,
			       "acknowledgement level %u is not known", a->ack);
	a->crc = !(c->no_crc && s->no_crc);
	return 0;
}

/* ---- paths and channels ---- */

/* True: both sides open more streams during the transfer if measurements show that they help. */
static bool grows(const struct offer *c, const struct offer *s, const struct agreement *a)
{
	return a->transport == TRANSPORT_TCP && c->channels_more && s->channels_more &&
	       c->rtt_ns && !is_near(c) && !preferred(c->channels, s->channels);
}

static uint32_t default_channels(const struct offer *c, const struct offer *s,
				 const struct agreement *a)
{
	if (a->transport == TRANSPORT_RDMA)
		return clamp_u32((uint32_t)min_u64(c->rtt_ns / QUEUE_PAIR_RTT_NS,
						   CHANNELS_RDMA_FAR),
				 CHANNELS_RDMA, CHANNELS_RDMA_FAR);
	if (is_near(c) && min_u32(c->cpus, s->cpus) <= FEW_CPUS)
		return CHANNELS_TCP_NEAR;
	if (grows(c, s, a) && c->rtt_ns >= STREAM_RTT_NS)
		return clamp_u32((uint32_t)min_u64(c->rtt_ns / STREAM_RTT_NS, CHANNELS_TCP_FAR),
				 CHANNELS_TCP_LONG, CHANNELS_TCP_FAR);
	return CHANNELS_TCP;
}

static uint32_t most_channels(const struct offer *c, const struct offer *s,
			      const struct agreement *a)
{
	return min_u32(min_u32(c->channels_max, s->channels_max), CHANNELS_MAX / a->paths);
}

static void choose_channels(const struct offer *c, const struct offer *s, struct agreement *a)
{
	uint32_t n = preferred(c->channels, s->channels);

	if (!n)
		n = default_channels(c, s, a);
	if (a->transport == TRANSPORT_INBAND)
		n = 1;
	a->channels_first = (uint16_t)max_u32(min_u32(n, most_channels(c, s, a)), 1);
	if (grows(c, s, a))
		n = max_u32(n, min_u32(c->channels_more, s->channels_more));
	a->channels = (uint16_t)max_u32(min_u32(n, most_channels(c, s, a)), 1);
}

/* ---- memory, and how much of it RDMA devices may lock ---- */

/* Each block needs a message buffer on every channel. */
static uint64_t message_bytes(const struct agreement *a)
{
	return (uint64_t)MESSAGE_ROOM * a->channels;
}

/* With RDMA each side holds a sealed block twice: encrypted in the registered buffer, and decrypted
 * in another buffer. */
static uint64_t block_bytes(const struct agreement *a)
{
	bool rdma = a->transport == TRANSPORT_RDMA;
	uint64_t bytes = a->block + (uint64_t)HEAD_BYTES;

	return rdma && a->prot != PROT_CLEAR ? 2 * bytes + message_bytes(a) :
	       rdma ? bytes + message_bytes(a) : bytes;
}

static uint64_t registered_bytes(const struct agreement *a)
{
	return a->block + HEAD_BYTES + message_bytes(a);
}

static uint64_t by_memory(const struct offer *o, const struct agreement *a)
{
	return o->memory / a->paths / block_bytes(a);
}

/* An eighth of the limit is left for the devices' queues. */
static uint64_t by_lock(const struct offer *o, const struct agreement *a)
{
	uint64_t fixed = (uint64_t)MESSAGES * MESSAGE_ROOM * a->channels;
	uint64_t share = (o->locked - o->locked / 8) / a->paths;

	if (a->transport != TRANSPORT_RDMA || o->locked == UINT64_MAX)
		return UINT64_MAX;
	return share > fixed ? (share - fixed) / registered_bytes(a) : 0;
}

/* The number of blocks that both sides can afford for each path, computed from the transport,
 * protection, paths, channels and block of a. */
static uint64_t budget_blocks(const struct offer *c, const struct offer *s,
			      const struct agreement *a)
{
	return min_u64(min_u64(by_memory(c, a), by_memory(s, a)),
		     min_u64(by_lock(c, a), by_lock(s, a)));
}

/* The bytes of memory that this number of blocks per path needs. */
static uint64_t memory_for(const struct agreement *a, uint64_t blocks)
{
	return blocks * block_bytes(a) * a->paths;
}

uint64_t agreement_memory(const struct agreement *a)
{
	return memory_for(a, a->source_blocks > a->sink_blocks ? a->source_blocks : a->sink_blocks);
}

static uint64_t lock_for(const struct agreement *a, uint64_t blocks)
{
	uint64_t path = blocks * registered_bytes(a) +
			(uint64_t)MESSAGES * MESSAGE_ROOM * a->channels;

	return path * a->paths / 7 * 8 + 8;
}

/* Called when a has fewer blocks than wanted. Notes in a the tightest limit, and the value that
 * would suffice. blocks: the wanted number for each path. */
static void budget_capped(const struct offer *c, const struct offer *s,
			  const struct agreement *wanted, uint64_t blocks, struct agreement *a)
{
	const struct {
		uint64_t blocks, bytes;
		const char *text;
	} limits[] = {
		{ by_memory(c, wanted), memory_for(wanted, blocks),
		  "blocks in flight are limited by the client's memory budget: raise its "
		  "--memory" },
		{ by_memory(s, wanted), memory_for(wanted, blocks),
		  "blocks in flight are limited by the server's memory budget: raise rftpd's "
		  "--memory" },
		{ by_lock(c, wanted), lock_for(wanted, blocks),
		  "blocks in flight are limited by the client's locked memory: raise its "
		  "\"ulimit -l\"" },
		{ by_lock(s, wanted), lock_for(wanted, blocks),
		  "blocks in flight are limited by the server's locked memory: raise "
		  "rftpd's \"ulimit -l\", or LimitMEMLOCK= of its service" },
	};
	int worst = 0;

	for (int i = 1; i < 4; i++)
		if (limits[i].blocks < limits[worst].blocks)
			worst = i;
	a->capped = limits[worst].text;
	a->capped_bytes = limits[worst].bytes;
}

/* ---- blocks ---- */

static uint32_t block_limit(const struct offer *o)
{
	return o->block_max ? min_u32(o->block_max, BLOCK_HIGHEST) / UNIT * UNIT : BLOCK_HIGHEST;
}

static int choose_block(const struct offer *c, const struct offer *s, struct agreement *a,
			struct err *e)
{
	uint32_t limit = min_u32(block_limit(c), block_limit(s));
	uint32_t want = preferred(c->block, s->block);
	/* A side before 2.1, which sends no channels_more, uses small blocks on all short paths. */
	bool large = a->transport != TRANSPORT_RDMA && c->channels_more && s->channels_more;

	if (a->transport == TRANSPORT_INBAND)
		limit = min_u32(limit, BLOCK_INBAND);
	if (limit < BLOCK_LOWEST)
		return err_set(e, -EPROTONOSUPPORT, "the %s accepts blocks of at most %u bytes; "
			       "the smallest are %u",
			       block_limit(c) < BLOCK_LOWEST ? "client" : "server",
			       block_limit(c) < BLOCK_LOWEST ? c->block_max : s->block_max,
			       BLOCK_LOWEST);
	if (!want)
		want = grows(c, s, a) || (is_near(c) && !large) ? BLOCK_SMALL : BLOCK_DEFAULT;
	want = min_u32(want, BLOCK_HIGHEST);
	a->block = clamp_u32((want + UNIT - 1) / UNIT * UNIT, BLOCK_LOWEST, limit);
	return 0;
}

static uint32_t nic_mbps(const struct offer *o, uint8_t nic)
{
	return nic == NIC_NONE ? 0 : o->nics[nic].mbps;
}

/* The speed of a path in Mbit/s: of its slower end, or of the only known end. 0: unknown. */
static uint32_t pair_mbps(const struct offer *c, const struct offer *s,
			  const struct agreement *a, uint32_t path)
{
	uint32_t ours = nic_mbps(c, a->client_nic[path]);
	uint32_t theirs = nic_mbps(s, a->server_nic[path]);

	return ours && theirs ? min_u32(ours, theirs) : preferred(ours, theirs);
}

/* The speed of the fastest pair in Mbit/s: every path gets the blocks that this pair needs. */
static uint32_t fastest_mbps(const struct offer *c, const struct offer *s,
			     const struct agreement *a)
{
	uint32_t mbps = 0;

	for (uint32_t i = 0; i < a->paths; i++)
		mbps = max_u32(mbps, pair_mbps(c, s, a, i));
	if (!mbps && c->rtt_ns > FAR_RTT_NS)
		mbps = UNKNOWN_MBPS;
	return min_u32(mbps, MBPS_HIGHEST);
}

/* The blocks in flight that keep a path busy: bandwidth × delay, a quarter more, and two for each
 * channel, one at each end. */
static uint32_t covering(const struct offer *c, const struct offer *s, const struct agreement *a)
{
	uint64_t rtt = min_u64(c->rtt_ns, RTT_HIGHEST_NS);
	uint64_t bytes = rtt * fastest_mbps(c, s, a) / 8000; /* ns × 10^6 bit/s */
	uint64_t padded = bytes + (bytes + 3) / 4;
	uint64_t blocks = bytes ? (padded + a->block - 1) / a->block + 2u * a->channels : 0;

	return (uint32_t)min_u64(blocks, INFLIGHT_HIGHEST + 1);
}

/* With RDMA READ each block in flight occupies one of a queue pair's READS_EACH reads: add channels
 * until the reads suffice. */
static void add_readers(const struct offer *c, const struct offer *s, struct agreement *a)
{
	uint32_t n = (covering(c, s, a) + READS_EACH - 1) / READS_EACH;

	if (a->transport == TRANSPORT_RDMA && a->op == OP_READ &&
	    !preferred(c->channels, s->channels))
		a->channels = a->channels_first =
			(uint16_t)clamp_u32(n, a->channels,
					    max_u32(most_channels(c, s, a), a->channels));
}

/* The blocks that a source's readers can fill while all others wait for acknowledgement. */
static uint32_t readers(uint32_t inflight)
{
	return clamp_u32(inflight / 4, READERS_LOWEST, READERS_HIGHEST);
}

/* Reduce channels, then blocks, until two blocks for each channel and the readers' blocks fit into
 * memory on every path. */
static bool shrink_to_memory(const struct offer *c, const struct offer *s, struct agreement *a)
{
	while (budget_blocks(c, s, a) < PER_CHANNEL + READERS_LOWEST) {
		a->channels = 1;
		if (a->block == BLOCK_LOWEST)
			return false;
		a->block = max_u32(a->block / 2 / UNIT * UNIT, BLOCK_LOWEST);
	}
	for (;; a->channels--) {
		uint32_t least = PER_CHANNEL * a->channels;

		if (a->channels == 1 || budget_blocks(c, s, a) >= least + readers(least))
			return true;
	}
}

/* The wanted number of blocks in flight, cut to the protocol's limit; a->capped notes the cut. */
static uint32_t allowed_inflight(const struct offer *c, const struct offer *s, struct agreement *a)
{
	bool read = a->transport == TRANSPORT_RDMA && a->op == OP_READ;
	uint32_t floor = read ? INFLIGHT_FLOOR_READ : INFLIGHT_FLOOR;
	uint32_t n = preferred(c->inflight, s->inflight), most = INFLIGHT_HIGHEST / a->paths;

	if (!n)
		n = max_u32(covering(c, s, a), floor);
	n = max_u32(n, PER_CHANNEL * a->channels);
	if (n <= most)
		return n;
	a->capped = "blocks in flight are limited by the protocol: set a larger block";
	return most;
}

/* The offers do not say which side is the source, so each side must be able to hold the source's
 * pool, which is larger; and neither side reserves more than the other can use. The value noted for
 * a limit would suffice for all wanted blocks. */
static int choose_inflight(const struct offer *c, const struct offer *s, struct agreement *a,
			   struct err *e)
{
	uint32_t want = allowed_inflight(c, s, a), n;
	struct agreement wanted = *a;

	if (!shrink_to_memory(c, s, a)) {
		budget_capped(c, s, a, PER_CHANNEL + READERS_LOWEST, &wanted);
		return err_set(e, -EPROTONOSUPPORT, "the smallest buffers of %u path%s need more "
			       "memory: %s to %llu KiB", a->paths, a->paths == 1 ? "" : "s",
			       wanted.capped,
			       (unsigned long long)(wanted.capped_bytes + 1023) >> 10);
	}

	n = allowed_inflight(c, s, a);
	if (a->channels != wanted.channels || a->block != wanted.block ||
	    n + readers(n) > budget_blocks(c, s, a))
		budget_capped(c, s, &wanted, want + readers(want), a);
	if (n + readers(n) > budget_blocks(c, s, a))
		n = (uint32_t)budget_blocks(c, s, a) - READERS_LOWEST;
	while (n + readers(n) > budget_blocks(c, s, a))
		n--;
	a->channels_first = (uint16_t)min_u32(a->channels_first, a->channels);
	a->inflight = n;
	a->sink_blocks = n;
	a->source_blocks = n + readers(n);
	return 0;
}

/* ---- the agreement ---- */

int negotiate(const struct offer *client, const struct offer *server, struct agreement *a,
	      struct err *e)
{
	uint32_t pairs = 0;
	int r;

	memset(a, 0, sizeof(*a));
	r = choose_transport(client, server, a, e);
	if (!r)
		r = choose_guarantees(client, server, a, e);
	if (r < 0)
		return r;

	if (a->transport != TRANSPORT_INBAND)
		pairs = nic_pairs(client, server, a->transport, a->client_nic, a->server_nic);
	a->paths = (uint16_t)max_u32(pairs, 1);
	for (uint32_t i = pairs; i < NICS_MAX; i++)
		a->client_nic[i] = a->server_nic[i] = NIC_NONE;

	for (uint32_t i = 0; i < a->paths; i++)
		if (nic_mbps(client, a->client_nic[i]) && nic_mbps(server, a->server_nic[i]))
			a->mbps += min_u32(pair_mbps(client, server, a, i), MBPS_HIGHEST);
	a->rotating = client->storage == STORAGE_TOLD_ROTATING ||
		      server->storage == STORAGE_TOLD_ROTATING;
	choose_channels(client, server, a);
	r = choose_block(client, server, a, e);
	if (!r)
		add_readers(client, server, a);
	if (!r)
		r = choose_inflight(client, server, a, e);
	if (r < 0)
		return r;
	a->entries_ahead = ENTRIES_AHEAD;
	return 0;
}

bool agreement_equal(const struct agreement *a, const struct agreement *b)
{
	return a->transport == b->transport && a->op == b->op && a->prot == b->prot &&
	       a->ack == b->ack && a->crc == b->crc && a->paths == b->paths &&
	       a->channels == b->channels && a->channels_first == b->channels_first &&
	       a->block == b->block &&
	       a->inflight == b->inflight && a->source_blocks == b->source_blocks &&
	       a->sink_blocks == b->sink_blocks && a->entries_ahead == b->entries_ahead;
}

uint64_t agreement_pool(const struct agreement *a, bool source)
{
	uint64_t blocks = source ? a->source_blocks : a->sink_blocks;

	return blocks * a->paths * (a->block + HEAD_BYTES);
}
