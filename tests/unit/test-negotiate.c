// SPDX-License-Identifier: Apache-2.0
/* The agreement on two offers, as tables; the agreements that a side refuses; and both on the
 * wire. */
#include "proto/bulk.h"
#include "proto/negotiate.h"

#include "tests/support/agreement-check.h"
#include "tests/support/codec.h"
#include "tests/support/wire.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define KIB 1024u
#define MIB (1024u * 1024u)
#define MS 1000000ull

static struct offer plain(void)
{
	struct offer o = {
		.transports = TRANSPORT_TCP | TRANSPORT_INBAND, .ops = OP_WRITE | OP_READ,
		.prot_min = PROT_CLEAR, .ack = ACK_SYNCED, .cpus = 16, .memory = 4ull << 30, .locked = UINT64_MAX,
		.block_max = 64 * MIB, .channels_max = CHANNELS_MAX,
	};

	return o;
}

/* The NICs are named and in different networks, so they pair in order. */
static struct offer with_nics(uint32_t n, uint32_t mbps, bool rdma)
{
	struct offer o = plain();

	o.nnics = n;
	for (uint32_t i = 0; i < n; i++) {
		snprintf(o.nics[i].name, sizeof(o.nics[i].name), "eth%u", i);
		snprintf(o.nics[i].addr, sizeof(o.nics[i].addr), "192.0.2.%u", i);
		o.nics[i].mbps = mbps;
		o.nics[i].rdma = rdma;
		o.nics[i].named = true;
		o.nics[i].prefix = (uint8_t)(24 + i);
		o.nics[i].node = (int16_t)(i ? (int)i : -1);
	}
	if (rdma)
		o.transports |= TRANSPORT_RDMA;
	return o;
}

/* Negotiates, and checks the result against the rules for every agreement. */
static struct agreement agree(const struct offer *c, const struct offer *s)
{
	struct err e = ERR_INIT;
	struct agreement a;
	int r = negotiate(c, s, &a, &e);

	if (r)
		fail_msg("%d %s", r, e.text);
	if (agreement_check(&a, c, &e))
		fail_msg("client: %s", e.text);
	if (agreement_check(&a, s, &e))
		fail_msg("server: %s", e.text);
	assert_true(a.inflight >= 2u * a.channels);
	assert_int_equal(a.sink_blocks, a.inflight);
	assert_true(a.source_blocks > a.inflight && a.source_blocks <= a.inflight + 16);
	assert_int_equal(a.entries_ahead, 65536);
	assert_int_equal(agreement_pool(&a, true), (a.block + 4096ull) * a.source_blocks * a.paths);
	assert_int_equal(agreement_pool(&a, false), (a.block + 4096ull) * a.inflight * a.paths);
	return a;
}

static void test_defaults(void **state)
{
	struct offer c = plain(), s = plain();
	struct agreement a = agree(&c, &s);

	assert_int_equal(a.transport, TRANSPORT_TCP);
	assert_int_equal(a.op, OP_WRITE);
	assert_int_equal(a.prot, PROT_CLEAR);
	assert_int_equal(a.ack, ACK_SYNCED);
	assert_true(a.crc);
	assert_int_equal(a.paths, 1);
	assert_int_equal(a.channels, 4);
	assert_int_equal(a.block, MIB);
	assert_int_equal(a.inflight, 16);
	assert_int_equal(a.source_blocks, 20);
	assert_null(a.capped);
}

static void test_transport(void **state)
{
	enum { T = TRANSPORT_TCP, R = TRANSPORT_RDMA, I = TRANSPORT_INBAND };
	static const struct {
		uint8_t c, s, c_ops, s_ops;
		int transport, op; /* 0: no agreement */
	} cases[] = {
		{ T | R | I, T | R | I, 3, 3, R, OP_WRITE },
		{ T | R | I, T | R | I, OP_READ, 3, R, OP_READ },
		{ T | R | I, T | R | I, OP_READ, OP_WRITE, T, OP_WRITE },
		{ T | R, T | I, OP_READ, OP_READ, T, OP_WRITE },
		{ R | I, T | I, 3, 3, I, OP_WRITE },
		{ T | I, I, 3, 3, I, OP_WRITE },
		{ R, R, OP_READ, OP_WRITE, 0, 0 },
		{ R, T, 3, 3, 0, 0 },
		{ 0, T, 3, 3, 0, 0 },
		{ 8, 8, 3, 3, 0, 0 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct offer c = with_nics(1, 0, true), s = with_nics(1, 0, true);
		struct err e = ERR_INIT;
		struct agreement a;

		c.transports = cases[i].c;
		s.transports = cases[i].s;
		c.ops = cases[i].c_ops;
		s.ops = cases[i].s_ops;
		if (!cases[i].transport) {
			assert_int_equal(negotiate(&c, &s, &a, &e), -EPROTONOSUPPORT);
			assert_true(e.text[0] != '\0');
			continue;
		}
		a = agree(&c, &s);
		assert_int_equal(a.transport, cases[i].transport);
		assert_int_equal(a.op, cases[i].op);
		/* In-band transfer needs no data channel; it is used if both sides report little
		 * data. */
		c.little = true;
		assert_int_equal(agree(&c, &s).transport, cases[i].transport);
		s.little = true;
		assert_int_equal(agree(&c, &s).transport,
				 cases[i].c & cases[i].s & I ? I : cases[i].transport);
	}
}

static void test_guarantees(void **state)
{
	for (uint8_t x = 0; x < 3; x++) {
		for (uint8_t y = 0; y < 3; y++) {
			struct offer c = plain(), s = plain();

			c.prot_min = x;
			s.prot_min = y;
			assert_int_equal(agree(&c, &s).prot, x > y ? x : y);
		}
	}
	for (uint8_t x = 0; x < 4; x++) {
		for (uint8_t y = 0; y < 4; y++) {
			struct offer c = plain(), s = plain();

			c.ack = x;
			s.ack = y;
			assert_int_equal(agree(&c, &s).ack, x < y ? x : y);
		}
	}
	for (int n = 0; n < 4; n++) {
		struct offer c = plain(), s = plain();

		c.no_crc = n & 1;
		s.no_crc = n & 2;
		assert_int_equal(agree(&c, &s).crc, n != 3);
	}
}

static void test_unknown_level(void **state)
{
	struct offer c = plain(), s = plain();
	struct agreement a;

	s.prot_min = PROT_PRIVATE + 1;
	assert_int_equal(negotiate(&c, &s, &a, NULL), -EPROTONOSUPPORT);
	s.prot_min = 0;
	c.ack = s.ack = ACK_VERIFIED + 1;
	assert_int_equal(negotiate(&c, &s, &a, NULL), -EPROTONOSUPPORT);
}

static void test_paths(void **state)
{
	static const struct {
		uint32_t c, s;
		int paths;
	} cases[] = { { 0, 0, 1 }, { 0, 4, 1 }, { 1, 4, 1 }, { 2, 4, 2 }, { 16, 16, 16 } };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct offer c = with_nics(cases[i].c, 0, false);
		struct offer s = with_nics(cases[i].s, 0, false);
		struct agreement a = agree(&c, &s);

		assert_int_equal(a.paths, cases[i].paths);
		c.transports = TRANSPORT_INBAND;
		a = agree(&c, &s);
		assert_int_equal(a.paths, 1);
		assert_int_equal(a.channels, 1);
		assert_true(a.block + 4096 <= BULK_FRAME_MAX);
	}
}

/* RDMA counts only NICs that can do RDMA. */
static void test_rdma_paths(void **state)
{
	struct offer c = with_nics(4, 100000, true), s = with_nics(4, 100000, true);
	struct agreement a;

	c.nics[0].rdma = false;
	c.nics[2].rdma = false;
	a = agree(&c, &s);
	assert_int_equal(a.transport, TRANSPORT_RDMA);
	assert_int_equal(a.paths, 2);
	assert_int_equal(a.channels, 2);
}

static void test_channels(void **state)
{
	static const struct {
		uint16_t c, s, c_max, s_max;
		uint32_t nics;
		int channels;
	} cases[] = {
		{ 0, 0, 256, 256, 1, 4 },
		{ 8, 3, 256, 256, 1, 8 },
		{ 0, 3, 256, 256, 1, 3 },
		{ 8, 0, 6, 256, 1, 6 },
		{ 8, 0, 256, 5, 1, 5 },
		{ 0, 0, 1, 256, 1, 1 },
		{ 0, 0, 0, 256, 1, 1 },
		{ 256, 0, 256, 256, 1, 256 },
		{ 65535, 0, 65535, 65535, 1, 256 },
		{ 256, 0, 256, 256, 2, 128 },
		{ 256, 0, 256, 256, 3, 85 },
		{ 256, 0, 256, 256, 16, 16 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct offer c = with_nics(cases[i].nics, 0, false);
		struct offer s = with_nics(cases[i].nics, 0, false);

		c.channels = cases[i].c;
		s.channels = cases[i].s;
		c.channels_max = cases[i].c_max;
		s.channels_max = cases[i].s_max;
		c.memory = s.memory = 1ull << 40;
		assert_int_equal(agree(&c, &s).channels, cases[i].channels);
	}
}

/* Both sides can open channels during a TCP transfer, if the path is not short and no number was
 * requested. The delay sets the first number, the lower limit of both sides the last. */
static void test_channels_more(void **state)
{
	static const struct {
		uint64_t rtt;
		uint16_t c_more, s_more, wish;
		int first, channels;
		uint32_t block;
	} cases[] = {
		{ 5 * MS, 32, 32, 0, 4, 32, 256 << 10 },
		{ 10 * MS, 32, 32, 0, 8, 32, 256 << 10 },
		{ 50 * MS, 32, 32, 0, 8, 32, 256 << 10 },
		{ 95 * MS, 32, 32, 0, 15, 32, 256 << 10 },
		{ 200 * MS, 32, 32, 0, 16, 32, 256 << 10 },
		{ 200 * MS, 32, 20, 0, 16, 20, 256 << 10 },
		{ 200 * MS, 8, 32, 0, 16, 16, 256 << 10 },
		{ 200 * MS, 32, 0, 0, 4, 4, MIB },
		{ 200 * MS, 0, 32, 0, 4, 4, MIB },
		{ 200 * MS, 32, 32, 6, 6, 6, MIB },
		{ MS - 1, 32, 32, 0, 4, 4, MIB },
		{ 0, 32, 32, 0, 4, 4, MIB },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct offer c = plain(), s = plain();
		struct agreement a;

		c.cpus = s.cpus = 16;
		c.channels_max = s.channels_max = 64;
		c.rtt_ns = cases[i].rtt;
		c.channels_more = cases[i].c_more;
		s.channels_more = cases[i].s_more;
		c.channels = cases[i].wish;
		a = agree(&c, &s);
		assert_int_equal(a.channels_first, cases[i].first);
		assert_int_equal(a.channels, cases[i].channels);
		assert_int_equal(a.block, cases[i].block);
		assert_true(a.inflight >= 2u * a.channels);
		/* Memory for some of the channels is enough. */
		c.memory = 3 * MIB;
		a = agree(&c, &s);
		assert_true(a.channels < 8 && a.channels_first <= a.channels);
	}
}

static void test_channels_near(void **state)
{
	static const struct {
		uint64_t rtt;
		uint16_t c_cpus, s_cpus;
		int channels;
	} cases[] = {
		{ MS - 1, 4, 16, 2 }, { MS - 1, 16, 4, 2 }, { MS - 1, 16, 5, 4 },
		{ MS, 2, 2, 4 }, { 0, 2, 2, 4 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct offer c = plain(), s = plain();

		c.rtt_ns = cases[i].rtt;
		s.rtt_ns = 1; /* the client's value counts */
		c.cpus = cases[i].c_cpus;
		s.cpus = cases[i].s_cpus;
		assert_int_equal(agree(&c, &s).channels, cases[i].channels);
	}
}

/* A software RDMA device keeps little data in flight on one queue pair, so a long path has more
 * queue pairs. */
static void test_queue_pairs(void **state)
{
	static const struct {
		uint64_t rtt;
		int channels;
	} cases[] = {
		{ 0, 2 }, { MS, 2 }, { 10 * MS, 2 }, { 36 * MS - 1, 2 }, { 36 * MS, 3 },
		{ 95 * MS, 7 }, { 96 * MS, 8 }, { UINT64_MAX, 8 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct offer c = with_nics(1, 10000, true), s = with_nics(1, 10000, true);

		c.rtt_ns = cases[i].rtt;
		assert_int_equal(agree(&c, &s).channels, cases[i].channels);
		s.channels = 1;
		assert_int_equal(agree(&c, &s).channels, 1);
	}
}

/* READ requests all data in flight, with up to sixteen reads on each queue pair. */
static void test_readers(void **state)
{
	static const struct {
		uint64_t rtt;
		uint32_t mbps;
		int channels;
		uint32_t inflight;
	} cases[] = {
		{ 0, 40000, 2, 32 },
		{ 10 * MS, 10000, 2, 32 },   /* 12.5 MB: 15 blocks + 4 */
		{ 10 * MS, 40000, 4, 68 },   /* 60 + 4; then 8 for 4 channels */
		{ 95 * MS, 40000, 37, 641 }, /* 567 + 14; then 74 */
		{ 95 * MS, 100000, 64, 1544 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct offer c = with_nics(1, cases[i].mbps, true);
		struct offer s = with_nics(1, cases[i].mbps, true);

		c.rtt_ns = cases[i].rtt;
		c.ops = OP_READ;
		c.memory = s.memory = 64ull << 30;
		c.channels_max = s.channels_max = 64;
		assert_int_equal(agree(&c, &s).op, OP_READ);
		assert_int_equal(agree(&c, &s).channels, cases[i].channels);
		assert_int_equal(agree(&c, &s).inflight, cases[i].inflight);
		s.channels = 3;
		assert_int_equal(agree(&c, &s).channels, 3);
	}
}

static void test_block(void **state)
{
	static const struct {
		uint32_t c, s, c_max, s_max, block;
	} cases[] = {
		{ 0, 0, 64 * MIB, 64 * MIB, MIB },
		{ 256 * KIB, 4 * MIB, 64 * MIB, 64 * MIB, 256 * KIB },
		{ 0, 4 * MIB, 64 * MIB, 64 * MIB, 4 * MIB },
		{ 1, 0, 64 * MIB, 64 * MIB, 64 * KIB },
		{ 100001, 0, 64 * MIB, 64 * MIB, 102400 },
		{ 4 * MIB, 0, 2 * MIB + 5, 64 * MIB, 2 * MIB },
		{ 4 * MIB, 0, 64 * MIB, 3 * MIB, 3 * MIB },
		{ UINT32_MAX, 0, UINT32_MAX, UINT32_MAX, 64 * MIB },
		{ 0, 0, 64 * KIB, 64 * MIB, 64 * KIB },
		{ 0, 0, 0, 0, MIB }, /* 0: no limit */
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct offer c = plain(), s = plain();
		struct agreement a;

		c.block = cases[i].c;
		s.block = cases[i].s;
		c.block_max = cases[i].c_max;
		s.block_max = cases[i].s_max;
		c.memory = s.memory = 1ull << 40;
		a = agree(&c, &s);
		assert_int_equal(a.block, cases[i].block);
	}
}

/* On a short path, blocks are small enough to stay in a core's cache between stages. */
static void test_block_near(void **state)
{
	struct offer c = with_nics(1, 100000, true), s = with_nics(1, 100000, true);
	struct offer tcp = plain();

	c.rtt_ns = 999999;
	assert_int_equal(agree(&c, &s).block, 256 * KIB);
	tcp.rtt_ns = c.rtt_ns;
	tcp.channels_more = s.channels_more = 32;
	assert_int_equal(agree(&tcp, &s).block, MIB);
	/* A peer of version 2.0 expects the old block size. */
	s.channels_more = 0;
	assert_int_equal(agree(&tcp, &s).block, 256 * KIB);
	s.channels_more = 32;
	tcp.channels_more = 0;
	assert_int_equal(agree(&tcp, &s).block, 256 * KIB);
	c.rtt_ns = 1000000;
	assert_int_equal(agree(&c, &s).block, MIB);
	c.rtt_ns = 1;
	s.block = 2 * MIB;
	assert_int_equal(agree(&c, &s).block, 2 * MIB);
}

static void test_block_too_small(void **state)
{
	struct offer c = plain(), s = plain();
	struct err e = ERR_INIT;
	struct agreement a;

	s.block_max = 64 * KIB - 1;
	assert_int_equal(negotiate(&c, &s, &a, &e), -EPROTONOSUPPORT);
	assert_non_null(strstr(e.text, "server"));
}

static void test_inflight(void **state)
{
	static const struct {
		uint64_t rtt;
		uint32_t c_mbps, s_mbps, inflight;
	} cases[] = {
		{ 0, 100000, 100000, 16 },
		/* 40 Gbit/s over 95 ms: 475 MB, plus a quarter, in MiB, plus two per channel. */
		{ 95 * MS, 40000, 40000, 567 + 8 },
		/* Both reserve memory for the slower of the two. */
		{ 95 * MS, 40000, 400000, 567 + 8 },
		{ 95 * MS, 400000, 40000, 567 + 8 },
		/* A side with unknown speed takes the other's; if both are unknown, 40 Gbit/s. */
		{ 95 * MS, 0, 10000, 142 + 8 },
		{ 95 * MS, 10000, 0, 142 + 8 },
		{ 95 * MS, 0, 0, 567 + 8 },
		{ 1 * MS, 0, 0, 16 },
		{ 1 * MS + 1, 0, 0, 16 },
		{ 3 * MS, 0, 0, 18 + 8 },
		{ 50000, 1000, 1000, 16 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct offer c = with_nics(1, cases[i].c_mbps, false);
		struct offer s = with_nics(1, cases[i].s_mbps, false);
		struct agreement a;

		c.rtt_ns = cases[i].rtt;
		a = agree(&c, &s);
		assert_int_equal(a.inflight, cases[i].inflight);
		assert_null(a.capped);
	}
}

static void test_inflight_wish(void **state)
{
	struct offer c = plain(), s = plain();

	c.rtt_ns = 95 * MS;
	c.inflight = 33;
	s.inflight = 44;
	assert_int_equal(agree(&c, &s).inflight, 33);
	c.inflight = 0;
	assert_int_equal(agree(&c, &s).inflight, 44);
	c.inflight = 1; /* at least two for each of four channels */
	assert_int_equal(agree(&c, &s).inflight, 8);
	c.inflight = UINT32_MAX;
	c.memory = s.memory = UINT64_MAX;
	assert_int_equal(agree(&c, &s).inflight, 60000);
	assert_non_null(strstr(agree(&c, &s).capped, "larger block"));
}

static void test_memory(void **state)
{
	struct offer c = with_nics(2, 100000, false), s = with_nics(2, 100000, false);
	struct agreement a;

	c.rtt_ns = 100 * MS;
	c.memory = 1ull << 40;
	s.memory = 512 * MIB;
	a = agree(&c, &s);
	/* 255 blocks with their heads fit twice into 512 MiB. */
	assert_int_equal(a.source_blocks, 255);
	assert_int_equal(a.inflight, 239);
	assert_non_null(strstr(a.capped, "server"));
	assert_non_null(strstr(a.capped, "rftpd's --memory"));

	s.memory = 1ull << 40;
	c.memory = 512 * MIB;
	a = agree(&c, &s);
	assert_int_equal(a.inflight, 239);
	assert_non_null(strstr(a.capped, "client"));
}

/* Too little memory reduces the channels first, then the block size; below that negotiation
 * fails. */
static void test_little_memory(void **state)
{
	static const struct {
		uint64_t memory;
		uint32_t channels, block, inflight;
	} cases[] = {
		{ 64 * (MIB + 4096ull), 4, MIB, 16 },
		{ 20 * (MIB + 4096ull), 4, MIB, 16 },
		{ 20 * (MIB + 4096ull) - 1, 4, MIB, 16 - 1 },
		{ 10 * (MIB + 4096ull), 4, MIB, 8 },
		{ 10 * (MIB + 4096ull) - 1, 3, MIB, 7 },
		{ 6 * (MIB + 4096ull) - 1, 1, MIB, 3 },
		{ 4 * (MIB + 4096ull), 1, MIB, 2 },
		{ 4 * (MIB + 4096ull) - 1, 1, 512 * KIB, 5 },
		{ 4 * (64 * KIB + 4096ull), 1, 64 * KIB, 2 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct offer c = plain(), s = plain();
		struct agreement a;

		s.memory = cases[i].memory;
		a = agree(&c, &s);
		assert_int_equal(a.channels, cases[i].channels);
		assert_int_equal(a.block, cases[i].block);
		assert_int_equal(a.inflight, cases[i].inflight);
		assert_int_equal(!a.capped, i < 2);
	}
}

/* The limit of locked memory counts under RDMA only. It excludes sealed copies, but includes
 * messages. */
static void test_locked(void **state)
{
	const uint64_t each = 256 * KIB + 4096ull + 512 * 2, fixed = 16 * 512ull * 2;
	struct offer c = with_nics(1, 0, true), s = with_nics(1, 0, true);
	struct err e = ERR_INIT;
	struct agreement a;

	c.block = 256 * KIB;
	c.prot_min = PROT_PRIVATE;
	s.locked = (fixed + 20 * each) / 7 * 8 + 8;
	a = agree(&c, &s);
	assert_int_equal(a.inflight, 16);
	assert_null(a.capped);
	s.locked -= 64;
	a = agree(&c, &s);
	assert_int_equal(a.inflight, 15);
	assert_non_null(strstr(a.capped, "rftpd's \"ulimit -l\""));
	assert_true(a.capped_bytes > s.locked && a.capped_bytes <= s.locked + 64);
	s.locked = a.capped_bytes; /* the reported need is enough */
	assert_null(agree(&c, &s).capped);
	/* The report gives at once the need for all requested blocks and channels, however low the
	 * limit is. */
	s.block = c.block = 4 * MIB;
	s.locked = MIB;
	a = agree(&c, &s);
	assert_int_equal(a.channels, 1);
	assert_true(a.block < 4 * MIB);
	s.locked = a.capped_bytes;
	a = agree(&c, &s);
	assert_null(a.capped);
	assert_int_equal(a.block, 4 * MIB);
	c.block = 256 * KIB;
	c.memory = s.memory = 2 * MIB;
	a = agree(&c, &s);
	assert_non_null(strstr(a.capped, "--memory"));
	c.memory = s.memory = a.capped_bytes;
	assert_null(agree(&c, &s).capped);
	c.memory = s.memory = 8ull << 30;
	c.locked = 2 * MIB;
	assert_non_null(strstr(agree(&c, &s).capped, "the client's locked memory"));
	c.locked = 65536;
	assert_int_equal(negotiate(&c, &s, &a, &e), -EPROTONOSUPPORT);
	assert_non_null(strstr(e.text, "raise its \"ulimit -l\" to"));
	c.transports = TRANSPORT_TCP;
	assert_null(agree(&c, &s).capped);
}

static void test_no_memory(void **state)
{
	struct offer c = plain(), s = plain();
	struct err e = ERR_INIT;
	struct agreement a;

	c.memory = 4 * (64 * KIB + 4096ull) - 1;
	assert_int_equal(negotiate(&c, &s, &a, &e), -EPROTONOSUPPORT);
	assert_non_null(strstr(e.text, "client's memory"));
	c.memory = 0;
	assert_int_equal(negotiate(&c, &s, &a, &e), -EPROTONOSUPPORT);
}

static uint64_t any(void)
{
	uint64_t v = (uint64_t)rand() << 42 ^ (uint64_t)rand() << 21 ^ (uint64_t)rand();

	return v >> (rand() % 64);
}

static struct offer random_offer(void)
{
	struct offer o = with_nics((uint32_t)rand() % (NICS_MAX + 1), (uint32_t)any(), rand() % 2);

	o.transports = (uint8_t)(rand() % 8);
	o.ops = (uint8_t)(rand() % 4);
	o.prot_min = (uint8_t)(rand() % 3);
	o.ack = (uint8_t)(rand() % 4);
	o.no_crc = rand() % 2;
	o.cpus = (uint16_t)any();
	o.memory = any();
	o.locked = any();
	o.block = (uint32_t)any();
	o.block_max = (uint32_t)any();
	o.channels = (uint16_t)any();
	o.channels_max = (uint16_t)any();
	o.channels_more = (uint16_t)any();
	o.little = rand() % 2;
	o.inflight = (uint32_t)any();
	o.rtt_ns = any();
	return o;
}

/* For any two offers, both sides accept the agreement, and it fits their memory. */
static void test_random(void **state)
{
	int agreed = 0;

	srand(11);
	for (int i = 0; i < 100000; i++) {
		struct offer c = random_offer(), s = random_offer();
		struct agreement a, b;

		if (negotiate(&c, &s, &a, NULL))
			continue;
		agreed++;
		a = agree(&c, &s);
		assert_true((uint64_t)a.source_blocks * a.paths * (a.block + 4096) <= c.memory);
		assert_true((uint64_t)a.source_blocks * a.paths * (a.block + 4096) <= s.memory);
		assert_true(a.paths * a.channels <= CHANNELS_MAX);
		assert_true(a.channels_first >= 1 && a.channels_first <= a.channels);
		assert_true(a.paths * a.source_blocks <= 65536);
		assert_int_equal(negotiate(&c, &s, &b, NULL), 0);
		assert_true(agreement_equal(&a, &b));
		/* With exactly agreement_memory() bytes the result is the same; only the smallest
		 * agreement, of 4 blocks, may get smaller blocks. With one byte less the result
		 * differs. */
		s.memory = agreement_memory(&a);
		assert_true(agreement_pool(&a, true) <= s.memory);
		assert_int_equal(negotiate(&c, &s, &b, NULL), 0);
		assert_true(agreement_equal(&a, &b) || (a.source_blocks == 4 && a.capped));
		s.memory--;
		assert_true(negotiate(&c, &s, &b, NULL) < 0 || !agreement_equal(&a, &b));
	}
	assert_true(agreed > 10000);
}

#define WITH(field, value) do { \
	struct agreement bad = good; \
	struct err e = ERR_INIT; \
	bad.field = (value); \
	assert_false(agreement_equal(&good, &bad)); \
	assert_int_equal(agreement_check(&bad, &own, &e), -EPROTONOSUPPORT); \
	assert_true(e.text[0] != '\0'); \
} while (0)

static void test_check(void **state)
{
	struct offer own = with_nics(2, 10000, true), other = with_nics(2, 10000, true);
	struct agreement good;

	own.prot_min = PROT_SAFE;
	own.block_max = 4 * MIB;
	own.channels_max = 8;
	own.memory = 256 * MIB;
	own.ops = OP_WRITE;
	good = agree(&own, &other);
	WITH(transport, 0);
	WITH(transport, TRANSPORT_TCP | TRANSPORT_RDMA);
	WITH(transport, 8);
	WITH(op, OP_READ);
	WITH(op, 0);
	WITH(op, OP_READ | OP_WRITE);
	WITH(prot, PROT_CLEAR);
	WITH(prot, PROT_PRIVATE + 1);
	WITH(ack, ACK_VERIFIED);
	WITH(crc, false);
	WITH(paths, 0);
	WITH(paths, 3);
	WITH(channels, 0);
	WITH(channels, 9);
	WITH(channels_first, 0);
	WITH(channels_first, good.channels + 1u);
	WITH(block, 0);
	WITH(block, 64 * KIB - 4096);
	WITH(block, MIB + 1);
	WITH(block, 8 * MIB);
	WITH(inflight, 2u * good.channels - 1);
	WITH(inflight, 30001); /* with two paths */
	WITH(inflight, UINT32_MAX);
	WITH(source_blocks, good.inflight);
	WITH(source_blocks, 128);
	WITH(source_blocks, UINT32_MAX);
	WITH(sink_blocks, good.inflight - 1);
	WITH(sink_blocks, 128);
	WITH(sink_blocks, UINT32_MAX);
	WITH(entries_ahead, 0);
	WITH(entries_ahead, UINT32_MAX);

	good.transport = TRANSPORT_INBAND;
	own.transports = TRANSPORT_INBAND;
	assert_int_equal(agreement_check(&good, &own, NULL), -EPROTONOSUPPORT);
	own.transports = TRANSPORT_TCP;
	assert_int_equal(agreement_check(&good, &own, NULL), -EPROTONOSUPPORT);
}

static int get_offer(struct buf *b, void *out)
{
	return offer_get(b, out);
}

static int get_agreement(struct buf *b, void *out)
{
	return agreement_get(b, out);
}

static void test_offer_wire(void **state)
{
	struct buf *b CLEANUP_BUF = buf_new(65536);
	struct offer o = with_nics(NICS_MAX, 400000, true), back;

	o.storage = 3;
	o.no_crc = true;
	o.block = MIB;
	o.channels = 4;
	o.inflight = 99;
	o.rtt_ns = 95 * MS;
	o.nics[2].rdma = false;
	o.nics[5].control = true;
	o.nics[6].named = false;
	memset(o.nics[3].name, 'n', sizeof(o.nics[3].name) - 1);
	memset(o.nics[4].addr, 'a', sizeof(o.nics[4].addr) - 1);
	assert_int_equal(offer_put(b, &o), 0);
	assert_int_equal(codec_truncations(b, get_offer, &back, sizeof(back)), buf_len(b));
	assert_int_equal(offer_get(b, &back), 0);
	assert_int_equal(buf_len(b), 0);
	for (uint32_t i = 0; i < NICS_MAX; i++) {
		assert_string_equal(back.nics[i].name, o.nics[i].name);
		assert_string_equal(back.nics[i].addr, o.nics[i].addr);
		assert_int_equal(back.nics[i].mbps, o.nics[i].mbps);
		assert_int_equal(back.nics[i].node, o.nics[i].node);
		assert_int_equal(back.nics[i].rdma, o.nics[i].rdma);
		assert_int_equal(back.nics[i].prefix, o.nics[i].prefix);
		assert_int_equal(back.nics[i].control, o.nics[i].control);
		assert_int_equal(back.nics[i].named, o.nics[i].named);
	}
	assert_int_equal(back.nnics, o.nnics);
	assert_int_equal(back.transports, o.transports);
	assert_int_equal(back.ops, o.ops);
	assert_int_equal(back.prot_min, o.prot_min);
	assert_int_equal(back.ack, o.ack);
	assert_int_equal(back.storage, 3);
	assert_true(back.no_crc);
	assert_int_equal(back.cpus, o.cpus);
	assert_true(back.memory == o.memory && back.rtt_ns == o.rtt_ns &&
		    back.locked == o.locked);
	assert_int_equal(back.block, o.block);
	assert_int_equal(back.block_max, o.block_max);
	assert_int_equal(back.channels, o.channels);
	assert_int_equal(back.channels_max, o.channels_max);
	assert_int_equal(back.inflight, o.inflight);
	assert_memory_equal(back.host, (uint8_t[HOST_ID_BYTES]){ 0 }, HOST_ID_BYTES);
}

static void test_offer_host(void **state)
{
	struct buf *b CLEANUP_BUF = buf_new(65536);
	struct offer o = with_nics(1, 1000, false), back;
	size_t without;

	assert_int_equal(offer_put(b, &o), 0);
	without = buf_len(b);
	buf_reset(b);
	/* channels_more follows the host, so it is sent with an empty host too. */
	o.channels_more = 0x1234;
	assert_int_equal(offer_put(b, &o), 0);
	assert_int_equal(buf_len(b), without + HOST_ID_BYTES + 2);
	assert_int_equal(codec_truncations(b, get_offer, &back, sizeof(back)), buf_len(b));
	assert_int_equal(offer_get(b, &back), 0);
	assert_int_equal(back.channels_more, 0x1234);
	assert_false(back.little);
	o.channels_more = 0;
	o.little = true;
	buf_reset(b);
	assert_int_equal(offer_put(b, &o), 0);
	assert_int_equal(codec_truncations(b, get_offer, &back, sizeof(back)), buf_len(b));
	assert_int_equal(offer_get(b, &back), 0);
	assert_true(back.little && !back.channels_more);
	o.little = false;
	buf_reset(b);
	memset(o.host, 0x5a, sizeof(o.host));
	assert_int_equal(offer_put(b, &o), 0);
	assert_int_equal(buf_len(b), without + HOST_ID_BYTES);
	assert_int_equal(codec_truncations(b, get_offer, &back, sizeof(back)), buf_len(b));
	assert_int_equal(offer_get(b, &back), 0);
	assert_memory_equal(back.host, o.host, HOST_ID_BYTES);
}

/* Decodes an encoded offer with one byte changed; at < 0: from the end. */
static int offer_with(int at, uint8_t value, struct offer *back)
{
	struct buf *b CLEANUP_BUF = buf_new(65536);
	struct offer o = with_nics(1, 1000, false);
	uint8_t wire[512];
	size_t len, used;

	assert_int_equal(offer_put(b, &o), 0);
	len = buf_len(b);
	memcpy(wire, buf_ptr(b), len);
	wire[at < 0 ? (int)len + at : at] = value;
	return codec_decode(wire, len, get_offer, back, sizeof(*back), &used);
}

static void test_offer_hostile(void **state)
{
	/* Offsets: length 0, numbers from 4 on, number of NICs 52; mbps 56, node 60, flags 62,
	 * prefix 63, the lengths of name 64 and address 69. */
	static const struct { int at; uint8_t value; } bad[] = {
		{ 0, 1 },        /* length over the maximum */
		{ 3, 255 },      /* length over the remaining bytes */
		{ 3, 10 },       /* length ends within the offer */
		{ 6, 3 },        /* prot_min */
		{ 7, 4 },        /* ack */
		{ 9, 2 },        /* no_crc */
		{ 55, 17 },      /* number of NICs */
		{ 52, 255 },
		{ 63, 129 },     /* prefix */
		{ 64, 16 },      /* length of the name */
		{ 65, 0 },       /* NUL in the name */
		{ 65, '\n' }, { 65, ' ' }, { 65, 0x7f }, { 65, 0xc3 },
		{ 69, 64 },      /* length of the address */
		{ -1, 0x1b },
	};
	struct offer back;

	assert_int_equal(offer_with(5, OP_READ, &back), 0);
	assert_int_equal(back.ops, OP_READ);
	assert_int_equal(offer_with(65, 'E', &back), 0);
	assert_string_equal(back.nics[0].name, "Eth0");
	assert_int_equal(offer_with(62, 0xf8, &back), 0); /* unknown flags of a later version */
	assert_false(back.nics[0].rdma || back.nics[0].control || back.nics[0].named);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(offer_with(bad[i].at, bad[i].value, &back), -EBADMSG);
		assert_true(codec_all_zero(&back, sizeof(back)));
	}
}

static void test_put_refused(void **state)
{
	struct buf *b CLEANUP_BUF = buf_new(20);
	struct agreement a = { 0 };
	struct offer o = plain();

	o.nnics = NICS_MAX + 1;
	assert_int_equal(offer_put(b, &o), -EINVAL);
	o.nnics = 0;
	assert_int_equal(offer_put(b, &o), -ENOBUFS);
	assert_int_equal(agreement_put(b, &a), -ENOBUFS);
	assert_int_equal(buf_len(b), 0);
}

/* Fields that a later minor version appends are skipped. */
static void test_appended(void **state)
{
	struct buf *b CLEANUP_BUF = buf_new(65536);
	struct offer o = with_nics(1, 1000, false), back;
	struct agreement a = agree(&o, &o), a_back;

	assert_int_equal(offer_put(b, &o), 0);
	buf_poke_u32(b, 0, (uint32_t)buf_len(b) - 4 + 3);
	assert_int_equal(buf_put(b, "new", 3), 0);
	assert_int_equal(offer_get(b, &back), 0);
	assert_int_equal(back.nnics, 1);
	assert_int_equal(buf_len(b), 0);

	buf_reset(b);
	assert_int_equal(agreement_put(b, &a), 0);
	buf_poke_u32(b, 0, (uint32_t)buf_len(b) - 4 + 3);
	assert_int_equal(buf_put(b, "new", 3), 0);
	assert_int_equal(agreement_get(b, &a_back), 0);
	assert_true(agreement_equal(&a, &a_back));
	assert_int_equal(buf_len(b), 0);
}

static void test_agreement_wire(void **state)
{
	struct buf *b CLEANUP_BUF = buf_new(65536);
	const struct agreement a = {
		.transport = TRANSPORT_RDMA, .op = OP_READ, .prot = PROT_SAFE, .ack = ACK_VERIFIED,
		.crc = true, .paths = 0x102, .channels = 0x304, .channels_first = 0x203,
		.block = 0x5060708,
		.inflight = 0x90a0b0c, .source_blocks = 0x11121314, .sink_blocks = 0x15161718,
		.entries_ahead = 0x19202122, .capped = "not sent",
	};
	static const uint8_t wire[] = {
		0, 0, 0, 32, 2, 2, 1, 3, 1, 0, 1, 2, 3, 4, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12,
		0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x20, 0x21, 0x22,
	};
	struct agreement all = a, back;

	assert_int_equal(agreement_put(b, &a), 0);
	assert_int_equal(buf_len(b), sizeof(wire));
	assert_memory_equal(buf_ptr(b), wire, sizeof(wire));
	assert_int_equal(codec_truncations(b, get_agreement, &back, sizeof(back)), buf_len(b));
	assert_int_equal(agreement_get(b, &back), 0);
	assert_true(agreement_equal(&a, &back));
	assert_null(back.capped);
	/* If all channels open at first, the field is 0, as from an older peer. */
	all.channels_first = all.channels;
	buf_reset(b);
	assert_int_equal(agreement_put(b, &all), 0);
	assert_int_equal(get_be16(buf_ptr(b) + 14), 0);
	assert_int_equal(agreement_get(b, &back), 0);
	assert_int_equal(back.channels_first, all.channels);
}

static void test_names(void **state)
{
	assert_string_equal(prot_name(PROT_CLEAR), "clear");
	assert_string_equal(prot_name(PROT_SAFE), "safe");
	assert_string_equal(prot_name(PROT_PRIVATE), "private");
	assert_string_equal(ack_name(ACK_SYNCED), "synced");
	assert_string_equal(transport_name(TRANSPORT_TCP), "tcp");
	assert_string_equal(transport_name(TRANSPORT_RDMA), "rdma");
	assert_string_equal(prot_name(-1), "unknown");
	assert_string_equal(prot_name(3), "unknown");
	assert_string_equal(ack_name(4), "unknown");
	assert_string_equal(transport_name(3), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_transport),
		cmocka_unit_test(test_guarantees),
		cmocka_unit_test(test_unknown_level),
		cmocka_unit_test(test_paths),
		cmocka_unit_test(test_rdma_paths),
		cmocka_unit_test(test_channels),
		cmocka_unit_test(test_channels_more),
		cmocka_unit_test(test_channels_near),
		cmocka_unit_test(test_queue_pairs),
		cmocka_unit_test(test_readers),
		cmocka_unit_test(test_block),
		cmocka_unit_test(test_block_near),
		cmocka_unit_test(test_block_too_small),
		cmocka_unit_test(test_inflight),
		cmocka_unit_test(test_inflight_wish),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_little_memory),
		cmocka_unit_test(test_locked),
		cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_check),
		cmocka_unit_test(test_offer_wire),
		cmocka_unit_test(test_offer_host),
		cmocka_unit_test(test_offer_hostile),
		cmocka_unit_test(test_put_refused),
		cmocka_unit_test(test_appended),
		cmocka_unit_test(test_agreement_wire),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
