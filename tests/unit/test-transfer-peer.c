// SPDX-License-Identifier: Apache-2.0
/* One side of a transfer against a peer that breaks the protocol: the server's sink and source, and
 * a client scripted frame by frame. Blocks go in-band. */
#include "tests/support/peer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

/* ---- a source against the sink ---- */

/* The valid case, to show that the other cases fail for their own reason. */
static void test_good_source(void **state)
{
	struct peer p;

	(void)state;
	begin(&p, BULK_PUT, at("good/"), 0, POLICY_OVERWRITE);
	file_entry(&p, 1, "a", 100, 0);
	file_entry(&p, 2, "empty", 0, 0);
	entries(&p);
	one_piece(&p, 1, 0, 60);
	one_piece(&p, 1, 60, 40);
	send_sent(&p, 2, 2);
	expect_end(&p, 0);
	assert_int_equal(p.v.r.files, 2);
	assert_true(there("good/a") && there("good/empty"));
}

/* Data of a file before its verdict: accepting it would commit the file while its partial file is
 * still being checked. */
static void test_data_before_the_verdict(void **state)
{
	struct peer p;

	(void)state;
	begin(&p, BULK_PUT, at("early/"), BULK_F_RESUME, POLICY_OVERWRITE);
	for (uint64_t id = 1; id <= 200; id++) {
		char name[20];

		snprintf(name, sizeof(name), "f%u", (unsigned)id);
		file_entry(&p, id, name, 3u << 20, ENTRY_F_ASK);
	}
	entries(&p);
	for (uint64_t id = 1; id <= 200; id++)
		send_pair(&p, BULK_KEPT, id, (3u << 20) - 1);
	expect_end(&p, -EPROTO);
}

/* KEPT without offered runs: accepting it would complete a file without data. */
static void test_kept_without_runs(void **state)
{
	struct peer p;

	begin(&p, BULK_PUT, at("kept/"), BULK_F_RESUME, POLICY_OVERWRITE);
	file_entry(&p, 1, "a", 3u << 20, ENTRY_F_ASK);
	entries(&p);
	wait_frame(&p, BULK_VERDICTS);
	send_pair(&p, BULK_KEPT, 1, (3u << 20) - 1);
	expect_end(&p, -EPROTO);
	assert_false(there("kept/a"));
}

static void test_dry_run_writes_nothing(void **state)
{
	struct peer p;

	(void)state;
	begin(&p, BULK_PUT, at("dry/"), BULK_F_DRY_RUN, POLICY_OVERWRITE);
	file_entry(&p, 1, "a", 0, 0);
	file_entry(&p, 2, "b", 10, 0);
	entries(&p);
	one_piece(&p, 2, 0, 10);
	expect_end(&p, -EPROTO);
	assert_false(there("dry"));
}

/* Empty pieces complete no file, and certainly not twice. */
static void test_empty_pieces(void **state)
{
	struct piece none[100] = { { 0 } };
	struct peer p;

	(void)state;
	for (int i = 0; i < 100; i++)
		none[i] = (struct piece){ 1 + (uint64_t)i % 2, 0, 0 };
	begin(&p, BULK_PUT, at("empty/"), 0, POLICY_OVERWRITE);
	file_entry(&p, 1, "a", 0, 0);
	file_entry(&p, 2, "b", 10, 0);
	entries(&p);
	send_block(&p, none, 100);
	one_piece(&p, 2, 10, 0);
	one_piece(&p, 2, 0, 10);
	send_block(&p, none, 100);
	send_sent(&p, 2, 4);
	expect_end(&p, 0);
	assert_int_equal(p.v.r.files, 2);
}

static void test_bytes_missing_at_the_end(void **state)
{
	struct peer p;

	(void)state;
	begin(&p, BULK_PUT, at("short/"), 0, POLICY_OVERWRITE);
	file_entry(&p, 1, "a", 100, 0);
	entries(&p);
	one_piece(&p, 1, 0, 60);
	send_sent(&p, 1, 1);
	expect_end(&p, -EPROTO);
	assert_false(there("short/a"));
}

static void test_pieces_that_do_not_fit(void **state)
{
	static const struct piece bad[][2] = {
		{ { 1, 0, 60 }, { 1, 60, 41 } },    /* beyond the end */
		{ { 1, 0, 60 }, { 1, 0, 60 } },     /* more bytes than the file has */
		{ { 1, 1000, 1 }, { 1, 0, 1 } },
		{ { 1, INT64_MAX - 5, 5 }, { 1, 0, 1 } },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct peer p;

		begin(&p, BULK_PUT, at("misfit/"), 0, POLICY_OVERWRITE);
		file_entry(&p, 1, "a", 100, 0);
		entries(&p);
		send_block(&p, bad[i], 2);
		expect_end(&p, -EPROTO);
		assert_false(there("misfit/a"));
	}
}

/* A file in pieces of one byte, which --ack verified must remember: the file fails before the list
 * takes much more memory than the file. */
static void test_crumbs(void **state)
{
	struct piece v[BLOCK_WIRE_EXTENTS];
	uint64_t at_byte = 0;
	struct peer p;

	want_ack = ACK_VERIFIED;
	begin(&p, BULK_PUT, at("crumbs/"), 0, POLICY_OVERWRITE);
	want_ack = ACK_SYNCED;
	file_entry(&p, 1, "a", 20000, 0);
	entries(&p);
	while (at_byte < 20000) {
		for (int i = 0; i < BLOCK_WIRE_EXTENTS; i++)
			v[i] = (struct piece){ 1, at_byte++, 1 };
		send_block(&p, v, BLOCK_WIRE_EXTENTS);
		wait_frame(&p, BULK_CREDIT);
	}
	send_counts(&p, BULK_SENT, 1);
	expect_end(&p, 0);
	assert_int_equal(p.v.r.failed, 1);
	assert_false(there("crumbs/a"));
}

static void test_window_of_entries(void **state)
{
	struct peer p;

	(void)state;
	begin(&p, BULK_PUT, at("window/"), 0, POLICY_OVERWRITE);
	for (uint64_t id = 1; id <= p.ag.agreement.entries_ahead + 1; id++) {
		file_entry(&p, id, "a", 1, 0);
		if (buf_len(p.b) > 100000)
			entries(&p);
	}
	entries(&p);
	expect_end(&p, -EPROTO);
}

static void test_entries_out_of_order(void **state)
{
	static const uint64_t ids[] = { 2, UINT64_MAX };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct peer p;

		begin(&p, BULK_PUT, at("order/"), 0, POLICY_OVERWRITE);
		file_entry(&p, ids[i], "a", 1, 0);
		entries(&p);
		expect_end(&p, -EPROTO);
	}
}

static void test_hardlink_to_nothing(void **state)
{
	struct bulk_entry e = { .id = 2, .type = ENTRY_HARDLINK, .name = "b", .link_id = 1,
				.flags = ENTRY_F_TOP };
	struct peer p;

	(void)state;
	begin(&p, BULK_PUT, at("links/"), BULK_F_HARDLINKS, POLICY_OVERWRITE);
	file_entry(&p, 1, "a", 10, 0); /* without LINKED */
	assert_int_equal(bulk_entry_put(p.b, &e), 0);
	entries(&p);
	expect_end(&p, -EPROTO);
}

static void hardlink_entry(struct peer *p, uint64_t id, const char *name, uint8_t flags)
{
	struct bulk_entry e = { .id = id, .type = ENTRY_HARDLINK, .name = name, .link_id = 1,
				.flags = (uint8_t)(flags | ENTRY_F_TOP) };

	assert_int_equal(bulk_entry_put(p->b, &e), 0);
}

/* After its last link the sink forgets the file, whether the file was written before or after that
 * entry. */
static void test_last_hardlink(void **state)
{
	(void)state;
	for (int late = 0; late < 2; late++) {
		struct peer p;

		begin(&p, BULK_PUT, at(late ? "late/" : "last/"), BULK_F_HARDLINKS,
		      POLICY_OVERWRITE);
		file_entry(&p, 1, "a", 10, ENTRY_F_LINKED);
		entries(&p);
		if (!late) {
			one_piece(&p, 1, 0, 10);
			wait_frame(&p, BULK_DONE);
		}
		hardlink_entry(&p, 2, "b", 0);
		hardlink_entry(&p, 3, "c", ENTRY_F_LAST);
		entries(&p);
		if (late)
			one_piece(&p, 1, 0, 10);
		wait_frame(&p, BULK_DONE);
		assert_true(!late || there("late/c"));
		hardlink_entry(&p, 4, "d", 0);
		entries(&p);
		expect_end(&p, -EPROTO);
		assert_true(there(late ? "late/b" : "last/b"));
		assert_true(there(late ? "late/c" : "last/c"));
		assert_false(there(late ? "late/d" : "last/d"));
	}
}

/* A repeated block number is written once; a number outside the window ends the transfer. */
static void test_block_numbers(void **state)
{
	struct peer p;

	(void)state;
	begin(&p, BULK_PUT, at("numbers/"), 0, POLICY_OVERWRITE);
	file_entry(&p, 1, "a", 100, 0);
	entries(&p);
	one_piece(&p, 1, 0, 50);
	/* Two writers take blocks: the second block with that number must not overtake the
	 * first. */
	wait_credits(&p, 1);
	p.next_block = 0;
	one_piece(&p, 1, 50, 50);
	one_piece(&p, 1, 50, 50);
	send_sent(&p, 1, 2);
	expect_end(&p, 0);
	assert_true(there("numbers/a"));
	begin(&p, BULK_PUT, at("numbers/"), 0, POLICY_OVERWRITE);
	file_entry(&p, 1, "b", 100, 0);
	entries(&p);
	p.next_block = 65536;
	one_piece(&p, 1, 0, 50);
	expect_end(&p, -EPROTO);
}

/* In a damaged block even the number may be wrong. A credit with that number could make the source
 * resend a good block, and never the damaged one. */
static void test_damaged_head(void **state)
{
	uint8_t type = 0;
	struct peer p;

	(void)state;
	begin(&p, BULK_PUT, at("damaged/"), 0, POLICY_OVERWRITE);
	file_entry(&p, 1, "a", 100, 0);
	entries(&p);
	p.damage = true;
	one_piece(&p, 1, 0, 100);
	while (type != BULK_ABORT) {
		assert_int_equal(ms_read_frame(p.ms, &type, p.in, 2 * BULK_FRAME_MAX, WAIT_MS),
				 0);
		assert_int_not_equal(type, BULK_CREDIT);
	}
	expect_end(&p, -EPIPE);
	assert_false(there("damaged/a"));
}

static void test_sizes_that_lie(void **state)
{
	static const uint64_t sizes[] = { 9, UINT64_MAX, INT64_MAX, 1ull << 62 };

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct peer p;

		begin(&p, BULK_PUT, at("sizes/"), 0, POLICY_OVERWRITE);
		file_entry(&p, 1, "a", 0, ENTRY_F_NOSIZE);
		entries(&p);
		one_piece(&p, 1, 0, 10);
		usleep(20000); /* the block and the frame are handled by different threads */
		send_pair(&p, BULK_SIZES, 1, sizes[i]);
		send_counts(&p, BULK_SENT, 1);
		expect_end(&p, -EPROTO);
		assert_false(there("sizes/a"));
	}
}

/* Changes the first byte of the second run in the partial file. */
static void spoil_part(const char *dir)
{
	char cmd[300];

	snprintf(cmd, sizeof(cmd), "printf y | dd of=\"$(ls %s.rftp-* | grep -v '\\.j$')\" bs=1 "
		 "seek=%u conv=notrunc 2>/dev/null", dir, RUN);
	if (system(cmd))
		fail_msg("%s", cmd);
}

/* --ack verified also reads back the data of an earlier transfer: it may have changed since the
 * check for the verdict. */
static void test_verified_resume(void **state)
{
	struct peer p;

	(void)state;
	want_ack = ACK_VERIFIED;
	for (int spoilt = 0; spoilt < 2; spoilt++) {
		const char *dir = at(spoilt ? "spoilt/" : "sound/");

		leave_half(dir);
		begin(&p, BULK_PUT, dir, BULK_F_RESUME, POLICY_OVERWRITE);
		file_entry(&p, 1, "big", 4 * RUN, ENTRY_F_ASK);
		entries(&p);
		wait_frame(&p, BULK_VERDICTS); /* the sink has read the runs and found them good */
		if (spoilt)
			spoil_part(dir);
		one_piece(&p, 1, 2 * RUN, RUN);
		one_piece(&p, 1, 3 * RUN, RUN);
		wait_credits(&p, 2);
		send_pair(&p, BULK_KEPT, 1, 2 * RUN);
		send_sent(&p, 1, 0);
		expect_end(&p, 0);
		assert_int_equal(p.v.r.resumed, 2 * RUN);
		assert_int_equal(p.v.r.failed, spoilt);
		assert_int_equal(there(spoilt ? "spoilt/big" : "sound/big"), !spoilt);
	}
	want_ack = ACK_SYNCED;
}

/* Runs that differ at the source, and are sent again, are verified with their new content. */
static void test_verified_resume_of_another(void **state)
{
	struct peer p;

	(void)state;
	want_ack = ACK_VERIFIED;
	leave_half(at("other/"));
	begin(&p, BULK_PUT, at("other/"), BULK_F_RESUME, POLICY_OVERWRITE);
	file_entry(&p, 1, "big", 4 * RUN, ENTRY_F_ASK);
	entries(&p);
	wait_frame(&p, BULK_VERDICTS);
	fill = 'z';
	for (uint64_t i = 1; i < 4; i++)
		one_piece(&p, 1, i * RUN, RUN);
	fill = 'x';
	wait_credits(&p, 3);
	send_pair(&p, BULK_KEPT, 1, RUN);
	send_sent(&p, 1, 0);
	expect_end(&p, 0);
	assert_int_equal(p.v.r.failed, 0);
	assert_true(there("other/big"));
	want_ack = ACK_SYNCED;
}

/* ---- a sink against the source ---- */

static void make_source(void)
{
	shell("mkdir -p src && truncate -s 40M src/big && "
	      "echo x | dd of=src/big bs=1 seek=1000 conv=notrunc 2>/dev/null && echo a > src/a");
}

static void begin_get(struct peer *p)
{
	make_source();
	begin(p, BULK_GET, at("src"), BULK_F_RECURSIVE | BULK_F_RESUME, POLICY_OVERWRITE);
}

static void test_done_without_end(void **state)
{
	static const uint64_t v[][2] = { { UINT64_MAX - 3, UINT64_MAX }, { 2, 1 },
					 { 1, 1u << 20 }, { 100, 101 } };

	(void)state;
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct peer p;

		begin_get(&p);
		wait_frame(&p, BULK_ENTRIES);
		send_pair(&p, BULK_DONE, v[i][0], v[i][1]);
		expect_end(&p, -EBADMSG);
	}
}

static void soon_stalled(struct transfer_tuning *t)
{
	t->stall_ms = 10;
}

/* Answers BEAT frames until an ABORT, or for ms milliseconds. */
static bool beat(struct peer *p, uint64_t ms)
{
	uint64_t until = now_ns() + ms * 1000000;
	uint8_t type = 0;

	while (type != BULK_ABORT && now_ns() < until) {
		int r = ms_read_frame(p->ms, &type, p->in, 2 * BULK_FRAME_MAX, 100);

		assert_true(r == 0 || r == -ETIMEDOUT);
		if (r == 0 && type == BULK_BEAT)
			send_counts(p, BULK_BEAT, 1);
	}
	return type == BULK_ABORT;
}

/* The sink accepts the blocks and answers beats, but sends no credit. */
static void test_sink_that_only_beats(void **state)
{
	struct peer p;

	(void)state;
	make_source();
	tune = soon_stalled;
	begin(&p, BULK_GET, at("src/big"), 0, POLICY_OVERWRITE);
	tune = NULL;
	assert_true(beat(&p, WAIT_MS));
	expect_end(&p, -ETIMEDOUT);
}

/* The sink acknowledges the only block, but never sends DONE. */
static void test_sink_that_does_not_end(void **state)
{
	uint8_t list[MESSAGE_HEAD + CREDIT_BYTES + MESSAGE_TAG];
	struct messages m = { 0 };
	struct block_head h;
	struct peer p;

	(void)state;
	make_source();
	tune = soon_stalled;
	begin(&p, BULK_GET, at("src/a"), 0, POLICY_OVERWRITE);
	tune = NULL;
	wait_frame(&p, BULK_DATA);
	assert_int_equal(block_head_get(buf_ptr(p.in), BLOCK_MIN, &h), 0);
	credit_put(list + MESSAGE_HEAD, &(struct credit){ .number = h.number });
	assert_int_equal(message_seal(&m, list, CREDIT_MAGIC, 1, CREDIT_BYTES), 0);
	ms_write_frame(p.ms, BULK_CREDIT, list, sizeof(list));
	wait_frame(&p, BULK_SENT);
	assert_true(beat(&p, WAIT_MS));
	expect_end(&p, -ETIMEDOUT);
}

/* A source that answers beats but sends no data, with or without an entry, does not hold the
 * sink. */
static void test_source_that_only_beats(void **state)
{
	(void)state;
	for (int entry = 0; entry < 2; entry++) {
		struct peer p;

		tune = soon_stalled;
		begin(&p, BULK_PUT, at("idle/"), 0, POLICY_OVERWRITE);
		tune = NULL;
		if (entry) {
			file_entry(&p, 1, "a", 100, 0);
			entries(&p);
		}
		assert_true(beat(&p, WAIT_MS));
		expect_end(&p, -ETIMEDOUT);
		assert_false(there("idle/a"));
	}
}

/* A file of unknown size (a pipe) has more time. */
static void test_pipe_that_waits(void **state)
{
	struct peer p;

	(void)state;
	tune = soon_stalled;
	begin(&p, BULK_PUT, at("pipe/"), 0, POLICY_OVERWRITE);
	tune = NULL;
	file_entry(&p, 1, "a", 0, ENTRY_F_NOSIZE);
	entries(&p);
	assert_false(beat(&p, 4000));
	one_piece(&p, 1, 0, 60);
	send_pair(&p, BULK_SIZES, 1, 60);
	send_sent(&p, 1, 1);
	expect_end(&p, 0);
	assert_true(there("pipe/a"));
}

/* The sink refuses every block again and again. The sender gives up; readers that wait for blocks
 * must not hold the transfer. */
static void test_sink_that_refuses_all(void **state)
{
	uint8_t list[MESSAGE_HEAD + CREDIT_BYTES + MESSAGE_TAG], type = 0;
	struct messages m = { 0 };
	struct block_head h;
	struct peer p;

	(void)state;
	make_source();
	begin(&p, BULK_GET, at("src/big"), 0, POLICY_OVERWRITE);
	while (type != BULK_ABORT) {
		assert_int_equal(ms_read_frame(p.ms, &type, p.in, 2 * BULK_FRAME_MAX, WAIT_MS),
				 0);
		if (type != BULK_DATA)
			continue;
		assert_int_equal(block_head_get(buf_ptr(p.in), BLOCK_MIN, &h), 0);
		credit_put(list + MESSAGE_HEAD, &(struct credit){ .number = h.number,
								  .status = EIO });
		assert_int_equal(message_seal(&m, list, CREDIT_MAGIC, 1, CREDIT_BYTES), 0);
		ms_write_frame(p.ms, BULK_CREDIT, list, sizeof(list));
	}
	expect_end(&p, -EIO);
}

/* Impossible runs, or more runs than the file can have. */
static void test_runs_that_cannot_be(void **state)
{
	static const uint8_t digest[16];
	static const struct { uint64_t offset; uint32_t length; unsigned n; } bad[] = {
		{ 0, 0, 1 }, { 0, BLOCK_MIN - 1, 1 }, { 0, BLOCK_MAX + 1, 1 }, { 0, UINT32_MAX, 1 },
		{ 1ull << 62, BLOCK_MIN, 1 }, { 0, BLOCK_MIN, 30000 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct peer p;
		uint64_t big = 0;

		begin_get(&p);
		wait_frame(&p, BULK_ENTRIES);
		while (!big) {
			struct bulk_entry e;

			assert_int_equal(bulk_entry_get(p.in, &e), 0);
			if (e.flags & ENTRY_F_ASK)
				big = e.id;
		}
		bulk_runs_head_put(p.b, big);
		for (unsigned k = 0; k < bad[i].n; k++)
			bulk_run_put(p.b, bad[i].offset, bad[i].length, digest);
		send_frame(&p, BULK_RUNS);
		expect_end(&p, -EBADMSG);
	}
}

#define HEAVY_FILES 5000
#define HEAVY 3900  /* bytes of attributes, the most that ext4 keeps for a file */

/* Makes empty files with attributes; returns false where they are not supported. */
static bool make_heavy(const char *dir)
{
	static char value[HEAVY];
	bool can = !mkdir(dir, 0755);

	memset(value, 'v', sizeof(value));
	for (int i = 0; i < HEAVY_FILES && can; i++) {
		char path[300];
		int fd;

		snprintf(path, sizeof(path), "%s/%d", dir, i);
		fd = open(path, O_CREAT | O_WRONLY, 0600);
		can = fd >= 0 && !fsetxattr(fd, "user.heavy", value, sizeof(value), 0);
		close(fd);
	}
	return can;
}

/* Reads entries until none arrive for a second. Returns the number of the last entry, and the size
 * of all details. */
static void count_entries(struct peer *p, uint64_t *last, uint64_t *details)
{
	int beats = 0;
	uint8_t type;

	*details = 0;
	while (beats < 2) {
		struct bulk_entry e;

		assert_int_equal(ms_read_frame(p->ms, &type, p->in, 2 * BULK_FRAME_MAX, WAIT_MS),
				 0);
		beats = type == BULK_BEAT ? beats + 1 : type == BULK_ENTRIES ? 0 : beats;
		while (type == BULK_ENTRIES && buf_len(p->in)) {
			assert_int_equal(bulk_entry_get(p->in, &e), 0);
			*details += bulk_entry_details(&e);
			*last = e.id > *last ? e.id : *last;
		}
	}
}

/* The details of entries have a window of their own, so that a slow sink need not buffer too
 * many. */
static void test_window_of_details(void **state)
{
	struct bulk_failure f = { .code = -EINTR, .text = "enough" };
	uint64_t first = 0, last = 0, details;
	struct peer p;

	(void)state;
	if (!make_heavy(at("heavy"))) {
		skip();
		return;
	}
	begin(&p, BULK_GET, at("heavy"), BULK_F_RECURSIVE | BULK_F_XATTRS, POLICY_OVERWRITE);
	count_entries(&p, &last, &details);
	assert_in_range(details, BULK_DETAILS_MAX / 2, BULK_DETAILS_MAX);
	while (last < HEAVY_FILES + 1 && last > first) {
		send_pair(&p, BULK_DONE, first + 1, last);
		first = last;
		count_entries(&p, &last, &details);
		assert_true(details <= BULK_DETAILS_MAX);
	}
	assert_int_equal(last, HEAVY_FILES + 1);
	bulk_failure_put(p.b, &f);
	send_frame(&p, BULK_ABORT);
	expect_end(&p, -EINTR);
}

/* A source that exceeds this window is stopped. */
static void test_too_many_details(void **state)
{
	static uint8_t map[BULK_RANGES_MAX * 16];
	struct bulk_entry e = { .type = ENTRY_FILE, .name = "a", .size = 1ull << 40,
				.flags = ENTRY_F_TOP | ENTRY_F_SPARSE, .ranges = map,
				.nranges = BULK_RANGES_MAX };
	struct peer p;

	(void)state;
	for (uint32_t i = 0; i < BULK_RANGES_MAX; i++)
		bulk_range_set(map, i, (struct bulk_range){ i * 8192ull, 1 });
	begin(&p, BULK_PUT, at("maps/"), BULK_F_INPLACE, POLICY_OVERWRITE);
	for (e.id = 1; e.id < 1000; e.id++) {
		assert_int_equal(bulk_entry_put(p.b, &e), 0);
		entries(&p);
	}
	expect_end(&p, -EPROTO);
}

/* Answers for unknown entries, or for entries that did not ask, are ignored. */
static void test_wrong_ids(void **state)
{
	static const uint64_t ids[] = { 1, 77, 1ull << 40, UINT64_MAX };
	struct bulk_failure f = { .id = 77, .code = -EIO };
	struct peer p;

	(void)state;
	begin_get(&p);
	wait_frame(&p, BULK_ENTRIES);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(bulk_verdict_put(p.b, ids[i], VERDICT_SKIP), 0);
	send_frame(&p, BULK_VERDICTS);
	bulk_failure_put(p.b, &f);
	send_frame(&p, BULK_FAILED);
	send_counts(&p, BULK_BEAT, 0);
	ms_write_frame(p.ms, BULK_SENT, NULL, 0); /* not allowed from a sink: ends the transfer */
	expect_end(&p, -EPROTO);
	assert_int_equal(p.v.r.skipped, 0);
	assert_int_equal(p.v.r.failed, 0);
}

static int setup(void **state)
{
	(void)state;
	return pair_setup("/tmp");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good_source),
		cmocka_unit_test(test_data_before_the_verdict),
		cmocka_unit_test(test_kept_without_runs),
		cmocka_unit_test(test_dry_run_writes_nothing),
		cmocka_unit_test(test_empty_pieces),
		cmocka_unit_test(test_bytes_missing_at_the_end),
		cmocka_unit_test(test_pieces_that_do_not_fit),
		cmocka_unit_test(test_window_of_entries),
		cmocka_unit_test(test_crumbs),
		cmocka_unit_test(test_entries_out_of_order),
		cmocka_unit_test(test_hardlink_to_nothing),
		cmocka_unit_test(test_last_hardlink),
		cmocka_unit_test(test_block_numbers),
		cmocka_unit_test(test_damaged_head),
		cmocka_unit_test(test_sizes_that_lie),
		cmocka_unit_test(test_verified_resume),
		cmocka_unit_test(test_verified_resume_of_another),
		cmocka_unit_test(test_done_without_end),
		cmocka_unit_test(test_sink_that_only_beats),
		cmocka_unit_test(test_sink_that_does_not_end),
		cmocka_unit_test(test_source_that_only_beats),
		cmocka_unit_test(test_pipe_that_waits),
		cmocka_unit_test(test_sink_that_refuses_all),
		cmocka_unit_test(test_runs_that_cannot_be),
		cmocka_unit_test(test_window_of_details),
		cmocka_unit_test(test_too_many_details),
		cmocka_unit_test(test_wrong_ids),
	};

	return cmocka_run_group_tests(tests, setup, pair_teardown);
}
