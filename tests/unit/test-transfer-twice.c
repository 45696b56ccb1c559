// SPDX-License-Identifier: Apache-2.0
/* A source that sends the right number of bytes of a file but the wrong ranges: some twice, some in
 * holes, or not those that the sink misses. No such file is committed, and the error names the byte
 * range. */
#include "tests/support/peer.h"

#define KB 1024ull

static bool direct;        /* the sink uses O_DIRECT */

/* A file in blocks; each block ends before the first piece of length 0. */
struct come {
	const char *what;
	uint64_t size;
	uint8_t flags;
	uint32_t request;
	struct bulk_range data[5]; /* with SPARSE */
	struct {
		uint64_t at;
		uint32_t length;
	} blocks[4][4];
	uint64_t told;             /* with NOSIZE: the size, sent at the end */
	const char *says;          /* expected error; NULL: none */
};

static const struct come table[] = {
	{ "in two blocks", 100, 0, 0, { { 0 } }, { { { 0, 50 } }, { { 0, 50 } } }, 0,
	  "a block holds bytes 0+50 of come/a twice" },
	{ "in one block", 100, 0, 0, { { 0 } }, { { { 50, 50 }, { 50, 50 } } }, 0,
	  "a block holds bytes 50+50 of come/a twice" },
	{ "one byte of it", 100, 0, 0, { { 0 } }, { { { 0, 50 } }, { { 49, 50 } } }, 0,
	  "a block holds bytes 49+50 of come/a twice" },
	{ "the whole after a half", 100, 0, 0, { { 0 } }, { { { 0, 50 } }, { { 0, 100 } } }, 0,
	  "a block holds bytes 0+100 of come/a twice" },
	{ "more of it", 100, 0, 0, { { 0 } }, { { { 0, 50 }, { 20, 80 } } }, 0,
	  "a block holds bytes 20+80 of come/a twice" },
	{ "between two others", 100, 0, 0, { { 0 } },
	  { { { 0, 30 }, { 60, 40 } }, { { 29, 2 } } }, 0,
	  "a block holds bytes 29+2 of come/a twice" },
	{ "out of order, once", 100, 0, 0, { { 0 } },
	  { { { 90, 10 }, { 20, 30 } }, { { 60, 30 } }, { { 0, 20 } }, { { 50, 10 } } }, 0, NULL },
	{ "in place", 100, 0, BULK_F_INPLACE, { { 0 } }, { { { 0, 50 } }, { { 0, 50 } } }, 0,
	  "a block holds bytes 0+50 of come/a twice" },

	{ "sparse", 500 * KB, ENTRY_F_SPARSE, 0, { { 100, 100 }, { 300 * KB, 100 } },
	  { { { 100, 100 } }, { { 100, 100 } } }, 0, "a block holds bytes 100+100 of come/a twice" },
	{ "sparse, half of a range", 500 * KB, ENTRY_F_SPARSE, 0, { { 100, 100 } },
	  { { { 150, 50 } }, { { 150, 50 } } }, 0, "a block holds bytes 150+50 of come/a twice" },
	{ "in a hole", 500 * KB, ENTRY_F_SPARSE, 0, { { 100, 100 }, { 300 * KB, 100 } },
	  { { { 100, 100 } }, { { 200 * KB, 100 } } }, 0,
	  "a block holds bytes 204800+100 of entry 1, which has none there" },
	{ "before all data", 500 * KB, ENTRY_F_SPARSE, 0, { { 100, 100 } }, { { { 0, 100 } } }, 0,
	  "a block holds bytes 0+100 of entry 1, which has none there" },
	{ "behind all data", 500 * KB, ENTRY_F_SPARSE, 0, { { 100, 100 } }, { { { 200, 100 } } }, 0,
	  "a block holds bytes 200+100 of entry 1, which has none there" },
	{ "into a hole", 500 * KB, ENTRY_F_SPARSE, 0, { { 100, 100 } }, { { { 150, 100 } } }, 0,
	  "a block holds bytes 150+100 of entry 1, which has none there" },
	{ "over a hole", 500 * KB, ENTRY_F_SPARSE, 0, { { 100, 100 }, { 300, 100 } },
	  { { { 100, 300 } } }, 0, "a block holds bytes 100+300 of entry 1, which has none there" },
	{ "sparse, once", 500 * KB, ENTRY_F_SPARSE, 0,
	  { { 100, 100 }, { 200, 100 }, { 400, 100 }, { 600, 100 } },
	  { { { 600, 100 } }, { { 150, 150 }, { 400, 50 } }, { { 100, 50 }, { 450, 50 } } }, 0, NULL },
	{ "sparse in place, once", 500 * KB, ENTRY_F_SPARSE, BULK_F_INPLACE,
	  { { 0, 100 }, { 499 * KB, KB } }, { { { 499 * KB, KB } }, { { 0, 100 } } }, 0, NULL },

	{ "of no known size", 0, ENTRY_F_NOSIZE, 0, { { 0 } }, { { { 0, 50 } }, { { 0, 50 } } }, 0,
	  "a block holds bytes 0+50 of come/a twice" },
	{ "of no known size, a gap", 0, ENTRY_F_NOSIZE, 0, { { 0 } },
	  { { { 0, 50 } }, { { 80, 50 } } }, 100,
	  "the source counts come/a as complete, but bytes 50+30 have not arrived" },
	{ "of no known size, not its first", 0, ENTRY_F_NOSIZE, 0, { { 0 } }, { { { 50, 100 } } }, 100,
	  "the source counts come/a as complete, but bytes 0+50 have not arrived" },
	{ "of no known size, once", 0, ENTRY_F_NOSIZE, 0, { { 0 } },
	  { { { 50, 50 } }, { { 0, 50 } } }, 100, NULL },
};

static void put_entry(struct peer *p, const struct come *c)
{
	uint8_t map[5 * 16];
	struct bulk_entry e = { .id = 1, .type = ENTRY_FILE, .mode = 0644, .size = c->size,
				.name = "a", .flags = (uint8_t)(c->flags | ENTRY_F_TOP),
				.ranges = map };

	for (; e.nranges < 5 && c->data[e.nranges].length; e.nranges++)
		bulk_range_set(map, e.nranges, c->data[e.nranges]);
	assert_int_equal(bulk_entry_put(p->b, &e), 0);
	entries(p);
}

/* Sends the blocks one by one, because the sink's threads would reorder them. */
static void put_blocks(struct peer *p, const struct come *c)
{
	for (int n = 0; n < 4 && c->blocks[n][0].length; n++) {
		struct piece v[4];
		int k = 0;

		if (n)
			wait_credits(p, 1);
		for (; k < 4 && c->blocks[n][k].length; k++)
			v[k] = (struct piece){ 1, c->blocks[n][k].at, c->blocks[n][k].length };
		send_block(p, v, k);
	}
	if (!c->says || c->told)
		wait_credits(p, 1);
}

static bool ends_in(const char *text, const char *end)
{
	size_t n = strlen(text), m = strlen(end);

	return n >= m && !strcmp(text + n - m, end);
}

/* The error contains the full path of the file. */
static void expect_text(struct peer *p, const char *what, const char *says)
{
	const char *in = strstr(says, "come/a");
	char *begins = strndup(says, in ? (size_t)(in - says) : 0);

	if (strncmp(p->v.e.text, begins, strlen(begins)) || !ends_in(p->v.e.text, in ? in : says))
		fail_msg("%s: %s", what, p->v.e.text);
	free(begins);
}

static void come(const struct come *c)
{
	struct peer p;

	shell("rm -rf come");
	begin(&p, BULK_PUT, at("come/"), c->request, POLICY_OVERWRITE);
	put_entry(&p, c);
	put_blocks(&p, c);
	if (c->told)
		send_pair(&p, BULK_SIZES, 1, c->told);
	if (!c->says)
		send_counts(&p, BULK_SENT, 1);
	expect_end(&p, c->says ? -EPROTO : 0);
	if (c->says)
		expect_text(&p, c->what, c->says);
	if (!(c->request & BULK_F_INPLACE) && there("come/a") != !c->says)
		fail_msg("%s: a file", c->what);
}

/* Big files arrive in blocks of one piece, and only these are written with O_DIRECT. */
static bool by_one(const struct come *c)
{
	for (int i = 0; i < 4; i++)
		if (c->blocks[i][1].length)
			return false;
	return true;
}

static void come_all(void)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (!direct || by_one(&table[i]))
			come(&table[i]);
}

static void test_written(void **state)
{
	(void)state;
	want_ack = ACK_WRITTEN;
	come_all();
	want_ack = ACK_SYNCED;
}

static void test_synced(void **state)
{
	(void)state;
	come_all();
}

static void test_received(void **state)
{
	(void)state;
	want_ack = ACK_RECEIVED;
	come_all();
	want_ack = ACK_SYNCED;
}

static void test_verified(void **state)
{
	(void)state;
	want_ack = ACK_VERIFIED;
	come_all();
	want_ack = ACK_SYNCED;
}

static void by_uring(struct transfer_tuning *t)
{
	t->io = IO_URING;
	t->writers = 4;
}

static void by_posix(struct transfer_tuning *t)
{
	t->io = IO_POSIX;
	t->writers = 4;
}

static void past_the_cache(struct transfer_tuning *t)
{
	t->direct = DIRECT_ON;
}

static void test_engines(void **state)
{
	static void (*const how[])(struct transfer_tuning *) = { by_uring, by_posix,
								 past_the_cache };

	(void)state;
	for (size_t i = 0; i < sizeof(how) / sizeof(how[0]); i++) {
		tune = how[i];
		direct = how[i] == past_the_cache;
		come_all();
	}
	tune = NULL;
	direct = false;
}

/* Discarded data is checked, too: a benchmark would otherwise report twice the amount. */
static void test_discarded(void **state)
{
	struct peer p;

	(void)state;
	begin(&p, BULK_BENCH_PUT, "", 0, POLICY_OVERWRITE);
	file_entry(&p, 1, "zero", 100000, 0);
	entries(&p);
	one_piece(&p, 1, 0, 50000);
	one_piece(&p, 1, 0, 50000);
	expect_end(&p, -EPROTO);
	expect_text(&p, "discarded", "a block holds bytes 0+50000 of zero twice");
}

/* ---- resumed files ---- */

static void resume(struct peer *p, const char *dir)
{
	leave_half(dir);
	begin(p, BULK_PUT, dir, BULK_F_RESUME, POLICY_OVERWRITE);
	file_entry(p, 1, "big", 4 * RUN, ENTRY_F_ASK);
	entries(p);
	wait_frame(p, BULK_VERDICTS);
}

/* The source reports one kept run, as it should, but resends another run than the sink misses. */
static void test_kept_what_is_not_there(void **state)
{
	struct peer p;

	(void)state;
	for (int first = 0; first < 2; first++) {
		resume(&p, at("kept%d/", first));
		if (first)
			send_pair(&p, BULK_KEPT, 1, RUN);
		for (uint64_t i = 0; i < 3; i++)
			one_piece(&p, 1, i * RUN, RUN);
		if (!first)
			wait_credits(&p, 3);
		if (!first)
			send_pair(&p, BULK_KEPT, 1, RUN);
		expect_end(&p, -EPROTO);
		if (!ends_in(p.v.e.text, "/big as complete, but bytes 196608+65536 have not arrived"))
			fail_msg("%s", p.v.e.text);
		assert_false(there(first ? "kept1/big" : "kept0/big"));
	}
}

/* The source may resend an offered run that has changed, but only once. */
static void test_resumed_twice(void **state)
{
	struct peer p;

	(void)state;
	resume(&p, at("again/"));
	one_piece(&p, 1, RUN, RUN);
	one_piece(&p, 1, 2 * RUN, RUN);
	one_piece(&p, 1, RUN, RUN);
	expect_end(&p, -EPROTO);
	if (!ends_in(p.v.e.text, "again/big twice"))
		fail_msg("%s", p.v.e.text);
	assert_false(there("again/big"));
}

static void test_resumed(void **state)
{
	struct peer p;

	(void)state;
	for (int again = 0; again < 3; again++) {
		resume(&p, at("well%d/", again));
		for (uint64_t i = 2u - (unsigned)again; i < 4; i++)
			one_piece(&p, 1, i * RUN, RUN);
		send_pair(&p, BULK_KEPT, 1, (2u - (unsigned)again) * RUN);
		send_sent(&p, 1, 2 + (uint32_t)again);
		expect_end(&p, 0);
		assert_int_equal(p.v.r.failed, 0);
		shell("test $(tr -d x <well%d/big | wc -c) = 0 -a $(wc -c <well%d/big) = %u", again,
		      again, 4 * RUN);
	}
}

/* ---- too many pieces ---- */

/* The limit of separate pieces: the first of a file is not counted. No two of these touch. */
#define CRUMBS ((1u << 17) + 1)

static void test_too_many_crumbs(void **state)
{
	struct piece v[BLOCK_WIRE_EXTENTS];
	uint64_t sent = 0;
	struct peer p;

	(void)state;
	want_ack = ACK_WRITTEN;
	begin(&p, BULK_PUT, at("crumbs/"), 0, POLICY_OVERWRITE);
	file_entry(&p, 1, "a", 4 * CRUMBS, 0);
	entries(&p);
	while (sent < CRUMBS) {
		int n = 0;

		/* In descending order, which costs most if each insertion moves the following
		 * ones. */
		for (; n < BLOCK_WIRE_EXTENTS && sent < CRUMBS; sent++)
			v[n++] = (struct piece){ 1, 4 * CRUMBS - 2 * sent - 1, 1 };
		send_block(&p, v, n);
		wait_credits(&p, 1);
	}
	one_piece(&p, 1, 0, 1);
	expect_end(&p, -EPROTO);
	if (!ends_in(p.v.e.text, "a comes in too many pieces out of order: there is no room to note "
		     "bytes 0+1"))
		fail_msg("%s", p.v.e.text);
	assert_false(there("crumbs/a"));
	want_ack = ACK_SYNCED;
}

static int setup(void **state)
{
	(void)state;
	return pair_setup("/tmp");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_written),
		cmocka_unit_test(test_synced),
		cmocka_unit_test(test_received),
		cmocka_unit_test(test_verified),
		cmocka_unit_test(test_engines),
		cmocka_unit_test(test_discarded),
		cmocka_unit_test(test_kept_what_is_not_there),
		cmocka_unit_test(test_resumed_twice),
		cmocka_unit_test(test_resumed),
		cmocka_unit_test(test_too_many_crumbs),
	};

	return cmocka_run_group_tests(tests, setup, pair_teardown);
}
