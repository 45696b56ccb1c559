// SPDX-License-Identifier: Apache-2.0
/* The bytes before a block's payload, credits, and the messages that open a channel. */
#include "proto/bulk.h"

#include "tests/support/codec.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

static const struct block_head sample = {
	.prot = PROT_PRIVATE, .extents = 3, .number = 0x0102030405060708, .payload = 1 << 20,
	.key = 0x00050007, .nonce = 0x1112131415161718, .crc = 0xdeadbeef,
	.tag = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 },
};

static void test_head_layout(void **state)
{
	static const uint8_t wire[BLOCK_WIRE_HEAD] = {
		'R', 'F', 'T', 'B', 1, PROT_PRIVATE, 0, 3,
		1, 2, 3, 4, 5, 6, 7, 8,
		0, 0x10, 0, 0, 0, 5, 0, 7,
		0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18,
		0xde, 0xad, 0xbe, 0xef, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
		1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
	};
	uint8_t p[BLOCK_WIRE_HEAD];
	struct block_head h;

	memset(p, 0xa5, sizeof(p));
	block_head_put(p, &sample);
	assert_memory_equal(p, wire, sizeof(wire));
	assert_int_equal(block_head_get(p, 1 << 20, &h), 0);
	assert_int_equal(h.prot, sample.prot);
	assert_int_equal(h.extents, sample.extents);
	assert_true(h.number == sample.number && h.nonce == sample.nonce);
	assert_int_equal(h.payload, sample.payload);
	assert_int_equal(h.key, sample.key);
	assert_int_equal(h.crc, sample.crc);
	assert_memory_equal(h.tag, sample.tag, sizeof(h.tag));
}

static void check_head_refused(const struct block_head *good, size_t at, uint8_t value)
{
	uint8_t p[BLOCK_WIRE_HEAD];
	struct block_head h;

	block_head_put(p, good);
	p[at] = value;
	memset(&h, 0xa5, sizeof(h));
	assert_int_equal(block_head_get(p, 1 << 20, &h), -EBADMSG);
	assert_true(codec_all_zero(&h, sizeof(h)));
}

static void test_head_refused(void **state)
{
	struct block_head h = sample, out;
	uint8_t p[BLOCK_WIRE_HEAD];

	for (size_t i = 0; i < 4; i++)
		check_head_refused(&sample, i, 0);
	check_head_refused(&sample, 4, 0);
	check_head_refused(&sample, 4, 2);
	check_head_refused(&sample, 5, PROT_PRIVATE + 1);
	check_head_refused(&sample, 7, BLOCK_WIRE_EXTENTS + 1);
	check_head_refused(&sample, 6, 1);
	check_head_refused(&sample, 19, 1); /* one byte more than the room */
	check_head_refused(&sample, 16, 0x80);

	h.extents = BLOCK_WIRE_EXTENTS;
	block_head_put(p, &h);
	assert_int_equal(block_head_get(p, h.payload, &out), 0);
	assert_int_equal(block_head_get(p, h.payload - 1, &out), -EBADMSG);
}

/* ---- a head that changes while it is read, as an RDMA peer can do ---- */

static size_t page, before;
static uint8_t *pages;         /* two pages; the second faults on its first access */
static uint8_t *head, changed[BLOCK_WIRE_HEAD];

static void change_head(int sig)
{
	(void)sig;
	mprotect(pages + page, page, PROT_READ | PROT_WRITE);
	memcpy(head, changed, before);
}

/* The bytes before `at` change when block_head_get() reads the byte at `at`. It may take the old or
 * the new head, but only checked values. */
static void look_while_it_changes(size_t at)
{
	struct block_head h;
	int r;

	before = at;
	head = pages + page - at;
	block_head_put(head, &sample);
	assert_int_equal(mprotect(pages + page, page, PROT_NONE), 0);
	r = block_head_get(head, sample.payload, &h);
	assert_int_equal(mprotect(pages + page, page, PROT_READ | PROT_WRITE), 0);
	assert_true(r == 0 || r == -EBADMSG);
	assert_in_range(h.extents, 0, BLOCK_WIRE_EXTENTS);
	assert_in_range(h.payload, 0, sample.payload);
	assert_in_range(h.prot, 0, PROT_PRIVATE);
}

static void test_head_changes(void **state)
{
	struct sigaction old, sa = { .sa_handler = change_head };
	struct block_head bad = sample;

	bad.extents = UINT16_MAX;
	bad.payload = UINT32_MAX;
	bad.prot = UINT8_MAX;
	block_head_put(changed, &bad);
	page = (size_t)sysconf(_SC_PAGESIZE);
	pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(pages != MAP_FAILED);
	sigaction(SIGSEGV, &sa, &old);
	for (size_t at = 1; at < BLOCK_WIRE_HEAD; at++)
		look_while_it_changes(at);
	sigaction(SIGSEGV, &old, NULL);
	munmap(pages, 2 * page);
}

/* The largest extent table fits into the 4096 bytes before the payload. */
static void test_table_fits(void **state)
{
	assert_true(BLOCK_WIRE_HEAD + BLOCK_WIRE_EXTENTS * BLOCK_WIRE_EXTENT <= 4096);
}

static void test_extent(void **state)
{
	static const uint8_t wire[BLOCK_WIRE_EXTENT] = {
		0, 0, 0, 0, 0, 0, 0, 9, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
		0xff, 0xff, 0xff, 0xfe,
	};
	uint8_t p[BLOCK_WIRE_EXTENT];
	uint64_t file, offset;
	uint32_t length;

	block_extent_put(p, 9, INT64_MAX, UINT32_MAX - 1);
	assert_memory_equal(p, wire, sizeof(wire));
	block_extent_get(p, &file, &offset, &length);
	assert_true(file == 9 && offset == INT64_MAX && length == UINT32_MAX - 1);
}

static void test_message_head(void **state)
{
	static const uint8_t wire[MESSAGE_HEAD + CREDIT_BYTES] = {
		'R', 'F', 'T', 'C', 0, 3, 0, 1, 8, 7, 6, 5, 4, 3, 2, 1,
		1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 4, 0, 0, 0, 5,
	};
	const struct message_head h = { 3, 1, 0x0807060504030201 };
	const struct credit c = { 0x0102030405060708, 4, 5 };
	uint8_t p[MESSAGE_HEAD + CREDIT_BYTES];
	struct message_head g;
	struct credit d;

	message_head_put(p, CREDIT_MAGIC, &h);
	credit_put(p + MESSAGE_HEAD, &c);
	assert_memory_equal(p, wire, sizeof(wire));
	assert_int_equal(message_head_get(p, CREDIT_MAGIC, 1, &g), 0);
	assert_true(g.channel == 3 && g.count == 1 && g.sequence == h.sequence);
	credit_get(p + MESSAGE_HEAD, &d);
	assert_true(d.number == c.number && d.buffer == 4 && d.status == 5);

	assert_int_equal(message_head_get(p, CREDIT_MAGIC, 0, &g), -EBADMSG);
	assert_int_equal(g.count, 0);
	assert_int_equal(message_head_get(p, ANNOUNCE_MAGIC, 1, &g), -EBADMSG);
}

static void test_hello(void **state)
{
	struct channel_hello h = { BULK_MAJOR, CHANNELS_MAX - 1, 0x0102030405060708, { 0 },
				   0x0a0b0c0d }, g;
	uint8_t p[HELLO_BYTES];

	memset(h.proof, 0x5a, sizeof(h.proof));
	memset(p, 0xa5, sizeof(p));
	hello_put(p, &h);
	assert_memory_equal(p, "RFTH\0\2\0\377\1\2\3\4\5\6\7\10", 16);
	assert_memory_equal(p + 16, h.proof, 32);
	assert_memory_equal(p + 48, "\12\13\14\15\0\0\0\0", 8);
	assert_int_equal(hello_get(p, &g), 0);
	assert_int_equal(g.major, h.major);
	assert_int_equal(g.channel, h.channel);
	assert_true(g.session == h.session);
	assert_memory_equal(g.proof, h.proof, 32);
	assert_int_equal(g.key, h.key);

	p[6] = CHANNELS_MAX >> 8;
	p[7] = 0;
	assert_int_equal(hello_get(p, &g), -EBADMSG);
	assert_true(codec_all_zero(&g, sizeof(g)));
	p[5] = BULK_MAJOR + 1;
	assert_int_equal(hello_get(p, &g), -EPROTO);
	assert_int_equal(g.major, BULK_MAJOR + 1);
	assert_true(codec_all_zero(g.proof, sizeof(g.proof)) && !g.session);
	p[0] = 'r';
	assert_int_equal(hello_get(p, &g), -EBADMSG);
	assert_true(codec_all_zero(&g, sizeof(g)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_head_layout),
		cmocka_unit_test(test_head_refused),
		cmocka_unit_test(test_head_changes),
		cmocka_unit_test(test_table_fits),
		cmocka_unit_test(test_extent),
		cmocka_unit_test(test_message_head),
		cmocka_unit_test(test_hello),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
