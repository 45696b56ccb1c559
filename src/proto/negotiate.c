// SPDX-License-Identifier: Apache-2.0
/* What both sides will do: one pure function of their offers (rftp-protocol(7)). */
#include "proto/budget.h"
#include "proto/bulk.h"
#include "proto/negotiate.h"

#include <errno.h>
#include <string.h>

#define STORAGE_TOLD_ROTATING 3       /* enum storage_class, which lies above */
#define UNIT 4096u                    /* page; block sizes are multiples of it */
#define HEAD_BYTES 4096u              /* of a block in a pool, before its payload */
#define BLOCK_LOWEST (64u << 10)
#define BLOCK_HIGHEST (64u << 20)
#define BLOCK_DEFAULT (1u << 20)
/* RDMA on a short path: a block stays in a core's cache between stages. Many TCP streams: the blocks
 * at the end of a transfer are not long on the slowest of them. On a short path by TCP larger blocks
 * save system calls: bench/README.md. */
#define BLOCK_SMALL (256u << 10)
#define BLOCK_INBAND (BULK_FRAME_MAX - HEAD_BYTES) /* with its head it fills one frame */

#define CHANNELS_RDMA 2u              /* per path, when nobody has a wish */
#define CHANNELS_RDMA_FAR 8u          /* the same, at most, on a path that is not short */
/* One more for each so much of a round trip. Where software makes the packets a queue pair
 * has few of them under way (rdma_rxe: 128); cards have more, and lose nothing by more
 * queue pairs. On a shorter path many only cost CPU time: bench/README.md. */
#define QUEUE_PAIR_RTT_NS 12000000u
#define READS_EACH 16u                /* reads that most devices have under way on a queue pair */
#define CHANNELS_TCP 4u
#define CHANNELS_TCP_NEAR 2u          /* a short path and few CPUs: streams cost CPU time */
/* Opened at first on a path that is not short: one more for each so much of a round trip, since
 * a stream starts, and recovers from a loss, as slowly as the round trip is long.
 * bench/README.md. */
#define STREAM_RTT_NS 6000000u
#define CHANNELS_TCP_LONG 8u          /* at least, from STREAM_RTT_NS on */
#define CHANNELS_TCP_FAR 16u
#define FEW_CPUS 4u

#define INFLIGHT_FLOOR 16u            /* blocks */
#define INFLIGHT_FLOOR_READ 32u       /* a block also waits to be read: bench/README.md */
/* Of all paths together. A sink notes which of at most 65536 blocks beyond the oldest
 * missing one have come; with the readers' blocks these are less. */
#define INFLIGHT_HIGHEST 60000u
#define PER_CHANNEL 2u                /* blocks: one on the wire, one being acknowledged */
#define UNKNOWN_MBPS 40000u           /* of a long path whose NICs do not tell */
#define RTT_HIGHEST_NS 10000000000u   /* keeps the products below in 64 bits */
#define MBPS_HIGHEST 10000000u

#define READERS_LOWEST 2u             /* source blocks beyond those in flight */
#define READERS_HIGHEST 16u

#define ENTRIES_AHEAD 65536u
#define ENTRIES_AHEAD_HIGHEST (1u << 20)

static uint32_t min_u32(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static uint32_t max_u32(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint32_t clamp_u32(uint32_t v, uint32_t lo, uint32_t hi)
{
	return min_u32(max_u32(v, lo), hi);
}

static bool is_near(const struct offer *client)
{
	return client->rtt_ns && client->rtt_ns < FAR_RTT_NS;
}

/* The client's wish counts before the server's. */
static uint32_t wish(uint32_t client, uint32_t server)
{
	return client ? client : server;
}

/* ---- names ---- */

static const char *const prot_names[] = { "clear", "safe", "private" };
static const char *const ack_names[] = { "received", "written", "synced", "verified" };

const char *transport_name(int bit)
{
	switch (bit) {
	case TRANSPORT_TCP:
		return "tcp";
	case TRANSPORT_RDMA:
		return "rdma";
	case TRANSPORT_INBAND:
		return "in-band";
	default:
		return "unknown";
	}
}

const char *prot_name(int p)
{
	return p >= PROT_CLEAR && p <= PROT_PRIVATE ? prot_names[p] : "unknown";
}

const char *ack_name(int a)
{
	return a >= ACK_RECEIVED && a <= ACK_VERIFIED ? ack_names[a] : "unknown";
}

int prot_parse(const char *s, uint8_t *p)
{
	for (uint8_t i = 0; i <= PROT_PRIVATE; i++) {
		if (!strcmp(prot_names[i], s)) {
			*p = i;
			return 0;
		}
	}
	return -EINVAL;
}

/* ---- transport, operation, guarantees ---- */

static int choose_op(const struct offer *c, const struct offer *s)
{
	int both = c->ops & s->ops;

	return both & OP_WRITE ? OP_WRITE : both & OP_READ;
}

/* RDMA needs NICs that reach each other; TCP goes by the control connection's way if by no
 * other. */
static bool has_pairs(const struct offer *c, const struct offer *s)
{
	uint8_t cn[NICS_MAX], sn[NICS_MAX];

	return nic_pairs(c, s, TRANSPORT_RDMA, cn, sn);
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
	/* Another time there may be one. */
	return err_set(e, -ENODEV, "no RDMA card of the client shares a network with one "
		       "of the server: name them with --nic on both sides if they reach each "
		       "other nevertheless");
}

static int choose_transport(const struct offer *c, const struct offer *s, struct agreement *a,
			    struct err *e)
{
	int both = c->transports & s->transports;
	int op = choose_op(c, s);

	a->op = OP_WRITE;
	if (c->little && s->little && both & TRANSPORT_INBAND) {
		a->transport = TRANSPORT_INBAND;
	} else if ((both & TRANSPORT_RDMA) && op && has_pairs(c, s)) {
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
		return err_set(e, -EPROTONOSUPPORT, "the %s asks for protection level %u, which "
			       "this version does not know",
			       c->prot_min > PROT_PRIVATE ? "client" : "server", a->prot);
	a->ack = c->ack < s->ack ? c->ack : s->ack;
	if (a->ack > ACK_VERIFIED)
		return err_set(e, -EPROTONOSUPPORT,
			       "acknowledgement level %u is not known to this version", a->ack);
	a->crc = !(c->no_crc && s->no_crc);
	return 0;
}

/* ---- paths and channels ---- */

/* NICs of o that the transport can use. */
static uint32_t usable_nics(const struct offer *o, uint8_t transport)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < o->nnics && i < NICS_MAX; i++)
		n += transport != TRANSPORT_RDMA || o->nics[i].rdma;
	return n;
}

static void choose_paths(const struct offer *c, const struct offer *s, struct agreement *a)
{
	uint32_t n = a->transport == TRANSPORT_INBAND ? 0 :
		     nic_pairs(c, s, a->transport, a->client_nic, a->server_nic);

	a->paths = (uint16_t)max_u32(n, 1);
	for (uint32_t i = n; i < NICS_MAX; i++)
		a->client_nic[i] = a->server_nic[i] = NIC_NONE;
}

static uint32_t queue_pairs(const struct offer *client)
{
	uint64_t n = client->rtt_ns / QUEUE_PAIR_RTT_NS;

	return clamp_u32((uint32_t)min_u64(n, CHANNELS_RDMA_FAR), CHANNELS_RDMA,
			 CHANNELS_RDMA_FAR);
}

/* Both sides open further streams during the transfer, as the path turns out to need them. */
static bool grows(const struct offer *c, const struct offer *s, const struct agreement *a)
{
	return a->transport == TRANSPORT_TCP && c->channels_more && s->channels_more &&
	       c->rtt_ns && !is_near(c) && !wish(c->channels, s->channels);
}

static uint32_t default_channels(const struct offer *c, const struct offer *s,
				 const struct agreement *a)
{
	if (a->transport == TRANSPORT_RDMA)
		return queue_pairs(c);
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
	uint32_t n = wish(c->channels, s->channels);

	if (!n)
		n = default_channels(c, s, a);
	if (a->transport == TRANSPORT_INBAND)
		n = 1;
	a->channels_first = (uint16_t)max_u32(min_u32(n, most_channels(c, s, a)), 1);
	if (grows(c, s, a))
		n = max_u32(n, min_u32(c->channels_more, s->channels_more));
	a->channels = (uint16_t)max_u32(min_u32(n, most_channels(c, s, a)), 1);
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
	uint32_t want = wish(c->block, s->block);
	/* A side before 2.1, which tells no channels_more, has small blocks on all near paths. */
	bool large = a->transport != TRANSPORT_RDMA && c->channels_more && s->channels_more;

	if (a->transport == TRANSPORT_INBAND)
		limit = min_u32(limit, BLOCK_INBAND);
	if (limit < BLOCK_LOWEST)
		return err_set(e, -EPROTONOSUPPORT, "the %s takes blocks of at most %u bytes, the "
			       "smallest are %u",
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

/* The speed both ends of path i can keep up; a side that does not know its speed leaves
 * it to the other. 0: nobody knows. */
static uint32_t pair_mbps(const struct offer *c, const struct offer *s,
			  const struct agreement *a, uint32_t path)
{
	uint32_t ours = nic_mbps(c, a->client_nic[path]);
	uint32_t theirs = nic_mbps(s, a->server_nic[path]);

	return ours && theirs ? min_u32(ours, theirs) : wish(ours, theirs);
}

static uint64_t all_mbps(const struct offer *c, const struct offer *s, const struct agreement *a)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < a->paths; i++)
		if (nic_mbps(c, a->client_nic[i]) && nic_mbps(s, a->server_nic[i]))
			sum += min_u32(pair_mbps(c, s, a, i), MBPS_HIGHEST);
	return sum;
}

/* One number of blocks holds for every path: what the fastest pair needs. */
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

static uint32_t inflight_limit(const struct agreement *a)
{
	return INFLIGHT_HIGHEST / a->paths;
}

/* Blocks that cover the path's bandwidth × delay by a quarter more, and two for each
 * channel that sit in its ends. */
static uint32_t covering(const struct offer *c, const struct offer *s, const struct agreement *a)
{
	uint64_t rtt = min_u64(c->rtt_ns, RTT_HIGHEST_NS);
	uint64_t bytes = rtt * fastest_mbps(c, s, a) / 8000; /* ns × 10^6 bit/s */
	uint64_t padded = bytes + (bytes + 3) / 4;
	uint64_t blocks = bytes ? (padded + a->block - 1) / a->block + 2u * a->channels : 0;

	return (uint32_t)min_u64(blocks, INFLIGHT_HIGHEST + 1);
}

/* READ: all that is on the way is asked for by reads. */
static void add_readers(const struct offer *c, const struct offer *s, struct agreement *a)
{
	uint32_t n = (covering(c, s, a) + READS_EACH - 1) / READS_EACH;

	if (a->transport == TRANSPORT_RDMA && a->op == OP_READ && !wish(c->channels, s->channels))
		a->channels = a->channels_first =
			(uint16_t)clamp_u32(n, a->channels,
					    max_u32(most_channels(c, s, a), a->channels));
}

/* What a source's readers fill while all others wait for acknowledgement. */
static uint32_t readers(uint32_t inflight)
{
	return clamp_u32(inflight / 4, READERS_LOWEST, READERS_HIGHEST);
}

/* Fewer channels, then smaller blocks, until two blocks for each channel and the readers'
 * fit into memory on every path. */
static bool shrink(const struct offer *c, const struct offer *s, struct agreement *a)
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

static uint32_t wanted_inflight(const struct offer *c, const struct offer *s,
				const struct agreement *a)
{
	bool read = a->transport == TRANSPORT_RDMA && a->op == OP_READ;
	uint32_t floor = read ? INFLIGHT_FLOOR_READ : INFLIGHT_FLOOR;
	uint32_t n = wish(c->inflight, s->inflight);

	if (!n)
		n = max_u32(covering(c, s, a), floor);
	return max_u32(n, PER_CHANNEL * a->channels);
}

/* The most that the protocol lets be in flight, told when that is less than is wanted. */
static uint32_t allowed_inflight(const struct offer *c, const struct offer *s, struct agreement *a)
{
	uint32_t n = wanted_inflight(c, s, a), most = inflight_limit(a);

	if (n <= most)
		return n;
	a->capped = "blocks in flight are limited by the protocol: set a larger block";
	return most;
}

/* Neither side knows here which of them is the source, so each must be able to hold the
 * source's pool, the greater one; and neither reserves what the other cannot match. What is
 * told of a limit is what it takes for all that was wanted, not for the next step. */
static int choose_inflight(const struct offer *c, const struct offer *s, struct agreement *a,
			   struct err *e)
{
	uint32_t want = allowed_inflight(c, s, a), n;
	struct agreement wanted = *a;

	if (!shrink(c, s, a)) {
		budget_capped(c, s, a, PER_CHANNEL + READERS_LOWEST, &wanted);
		return err_set(e, -EPROTONOSUPPORT, "the smallest buffers of %u path%s need more "
			       "memory: %s to %llu KiB", a->paths, a->paths == 1 ? "" : "s",
			       wanted.capped, (unsigned long long)(wanted.capped_bytes + 1023) >> 10);
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

/* ---- the whole ---- */

int negotiate(const struct offer *client, const struct offer *server, struct agreement *a,
	      struct err *e)
{
	int r;

	memset(a, 0, sizeof(*a));
	r = choose_transport(client, server, a, e);
	if (!r)
		r = choose_guarantees(client, server, a, e);
	if (r < 0)
		return r;
	choose_paths(client, server, a);
	a->mbps = all_mbps(client, server, a);
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

/* ---- checking what the other side computed ---- */

static int refuse(struct err *e, const char *what, uint64_t is, uint64_t lo, uint64_t hi)
{
	return err_set(e, -EPROTONOSUPPORT, "the other side's agreement has %s %llu, outside "
		       "%llu..%llu", what, (unsigned long long)is, (unsigned long long)lo,
		       (unsigned long long)hi);
}

static int check_promises(const struct agreement *a, const struct offer *own, struct err *e)
{
	int t = a->transport;

	if ((t != TRANSPORT_TCP && t != TRANSPORT_RDMA && t != TRANSPORT_INBAND) ||
	    !(t & own->transports))
		return err_set(e, -EPROTONOSUPPORT, "the other side chose transport \"%s\" (%d), "
			       "which was not offered", transport_name(t), t);
	if ((a->op != OP_WRITE && a->op != OP_READ) ||
	    (t == TRANSPORT_RDMA ? !(a->op & own->ops) : a->op != OP_WRITE))
		return err_set(e, -EPROTONOSUPPORT, "the other side chose operation %u, which was "
			       "not offered", a->op);
	if (a->prot < own->prot_min || a->prot > PROT_PRIVATE)
		return refuse(e, "a protection level of", a->prot, own->prot_min, PROT_PRIVATE);
	if (a->ack > own->ack || a->ack > ACK_VERIFIED)
		return refuse(e, "an acknowledgement level of", a->ack, 0, own->ack);
	if (!a->crc && !own->no_crc)
		return err_set(e, -EPROTONOSUPPORT, "the other side gave up the CRC, which this "
			       "side asks for");
	return 0;
}

static int check_shape(const struct agreement *a, const struct offer *own, struct err *e)
{
	uint32_t paths = a->transport == TRANSPORT_INBAND ? 1 :
			 max_u32(usable_nics(own, a->transport), 1);
	uint32_t channels = max_u32(own->channels_max, 1);
	uint32_t block = block_limit(own);

	if (a->paths < 1 || a->paths > paths)
		return refuse(e, "a number of paths of", a->paths, 1, paths);
	channels = min_u32(channels, CHANNELS_MAX / a->paths);
	if (a->channels < 1 || a->channels > channels)
		return refuse(e, "a number of channels of", a->channels, 1, channels);
	if (a->channels_first < 1 || a->channels_first > a->channels)
		return refuse(e, "a number of channels at first of", a->channels_first, 1,
			      a->channels);
	if (a->transport == TRANSPORT_INBAND && a->channels != 1)
		return refuse(e, "a number of in-band channels of", a->channels, 1, 1);
	if (a->transport == TRANSPORT_INBAND)
		block = min_u32(block, BLOCK_INBAND);
	if (a->block < BLOCK_LOWEST || a->block > block || a->block % UNIT)
		return refuse(e, "a block size of", a->block, BLOCK_LOWEST, block);
	return 0;
}

uint64_t agreement_pool(const struct agreement *a, bool source)
{
	uint64_t blocks = source ? a->source_blocks : a->sink_blocks;

	return blocks * a->paths * (a->block + HEAD_BYTES);
}

static int check_memory(const struct agreement *a, const struct offer *own, struct err *e)
{
	uint32_t least = PER_CHANNEL * a->channels;
	uint64_t pool = max_u32(a->source_blocks, a->sink_blocks);
	uint64_t bytes = agreement_pool(a, a->source_blocks > a->sink_blocks);

	if (a->inflight < least || a->inflight > inflight_limit(a))
		return refuse(e, "a number of blocks in flight of", a->inflight, least,
			      inflight_limit(a));
	if (a->sink_blocks < a->inflight)
		return refuse(e, "a sink pool of", a->sink_blocks, a->inflight, UINT32_MAX);
	if (a->source_blocks <= a->inflight)
		return refuse(e, "a source pool of", a->source_blocks, a->inflight + 1, UINT32_MAX);
	if (pool > inflight_limit(a) + READERS_HIGHEST || pool > budget_blocks(own, own, a))
		return refuse(e, "a need of memory of", bytes, 1, own->memory);
	return 0;
}

int agreement_check(const struct agreement *a, const struct offer *own, struct err *e)
{
	int r = check_promises(a, own, e);

	if (!r)
		r = check_shape(a, own, e);
	if (!r)
		r = check_memory(a, own, e);
	if (r < 0)
		return r;
	if (a->entries_ahead < 1 || a->entries_ahead > ENTRIES_AHEAD_HIGHEST)
		return refuse(e, "a number of entries ahead of", a->entries_ahead, 1,
			      ENTRIES_AHEAD_HIGHEST);
	return 0;
}
