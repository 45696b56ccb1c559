// SPDX-License-Identifier: Apache-2.0
/* The plan's work: runs of small files, pieces of big ones, their order, and each byte of each file
 * exactly once with any number of threads. */
#include "transfer/source/plan.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define BLOCK 4096u
#define ROOM BLOCK

static struct sfile *file(uint64_t id, uint64_t size)
{
	struct sfile *f = sfile_new(id, SFILE_PATH, NULL, "f");

	assert_non_null(f);
	f->size = size;
	return f;
}

static void ready(struct plan *p, uint64_t id, uint64_t size)
{
	plan_ready(p, file(id, size));
}

static void with_ranges(struct sfile *f, const struct bulk_range *v, uint32_t n)
{
	f->ranges = malloc(n * sizeof(*v));
	assert_non_null(f->ranges);
	memcpy(f->ranges, v, n * sizeof(*v));
	f->nranges = n;
}

static void put_small(struct plan_work *w)
{
	for (uint32_t i = 0; i < w->nfiles; i++)
		sfile_put(w->files[i]);
}

/* The next piece must be this one; drops the reference to its file. */
static void expect_piece(struct plan *p, const struct sfile *mine, uint64_t id, uint64_t offset,
			 uint32_t length)
{
	struct plan_work w;

	assert_int_equal(plan_next(p, mine, ROOM, false, &w), PLAN_PIECE);
	assert_int_equal(w.file->id, id);
	assert_int_equal(w.offset, offset);
	assert_int_equal(w.length, length);
	sfile_put(w.file);
}

static void test_small_runs(void **state)
{
	struct plan *p = plan_new(BLOCK, false, false);
	struct plan_work w;

	(void)state;
	ready(p, 1, 1000);
	ready(p, 2, 0);
	ready(p, 3, 3000);
	ready(p, 4, 97);
	ready(p, 5, BLOCK); /* a file of one block is still small */
	ready(p, 6, BLOCK + 1);
	assert_int_equal(plan_next(p, NULL, ROOM, false, &w), PLAN_SMALL);
	assert_int_equal(w.nfiles, 3); /* 97 bytes do not fit into the remaining 96 */
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(w.files[i]->id, i + 1);
	put_small(&w);
	assert_int_equal(plan_next(p, NULL, 96, false, &w), PLAN_FULL);
	assert_int_equal(plan_next(p, NULL, 97, false, &w), PLAN_SMALL);
	assert_int_equal(w.nfiles, 1);
	put_small(&w);
	assert_int_equal(plan_next(p, NULL, BLOCK - 1, false, &w), PLAN_FULL);
	assert_int_equal(plan_next(p, NULL, ROOM, false, &w), PLAN_SMALL);
	assert_int_equal(w.files[0]->id, 5);
	put_small(&w);
	/* A piece gets a block of its own, so `room` does not matter. */
	assert_int_equal(plan_next(p, NULL, 0, false, &w), PLAN_PIECE);
	assert_int_equal(w.file->id, 6);
	sfile_put(w.file);
	plan_free(p);
}

/* A limit shortens later pieces, to multiples of the smallest block. */
static void test_limit(void **state)
{
	struct plan *p = plan_new(4 * BLOCK_MIN, false, false);
	struct plan_work w;

	(void)state;
	ready(p, 1, 16ull * BLOCK_MIN);
	expect_piece(p, NULL, 1, 0, 4 * BLOCK_MIN);
	plan_limit(p, 3 * BLOCK_MIN - 1);
	expect_piece(p, NULL, 1, 4ull * BLOCK_MIN, 2 * BLOCK_MIN);
	plan_limit(p, 10);
	expect_piece(p, NULL, 1, 6ull * BLOCK_MIN, BLOCK_MIN);
	plan_limit(p, UINT64_MAX);
	expect_piece(p, NULL, 1, 7ull * BLOCK_MIN, 4 * BLOCK_MIN);
	expect_piece(p, NULL, 1, 11ull * BLOCK_MIN, 4 * BLOCK_MIN);
	expect_piece(p, NULL, 1, 15ull * BLOCK_MIN, BLOCK_MIN);
	/* The limit also applies to small files that share a block, but does not split a file. */
	ready(p, 2, 3 * BLOCK_MIN);
	ready(p, 3, BLOCK_MIN / 2);
	ready(p, 4, BLOCK_MIN / 2);
	ready(p, 5, 1);
	plan_limit(p, 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(plan_next(p, NULL, 4 * BLOCK_MIN, false, &w), PLAN_SMALL);
		assert_int_equal(w.nfiles, i == 1 ? 2 : 1);
		put_small(&w);
	}
	plan_free(p);
}

static void test_batch_is_bounded(void **state)
{
	struct plan *p = plan_new(BLOCK, false, false);
	struct plan_work w;

	(void)state;
	for (uint64_t i = 1; i <= PLAN_BATCH + 1; i++)
		ready(p, i, 1);
	assert_int_equal(plan_next(p, NULL, ROOM, false, &w), PLAN_SMALL);
	assert_int_equal(w.nfiles, PLAN_BATCH);
	put_small(&w);
	assert_int_equal(plan_next(p, NULL, ROOM, false, &w), PLAN_SMALL);
	assert_int_equal(w.nfiles, 1);
	put_small(&w);
	plan_free(p);
}

static void test_pieces(void **state)
{
	struct plan *p = plan_new(BLOCK, false, false);
	struct sfile *f = file(1, 2 * BLOCK + 5);
	struct plan_work w;

	(void)state;
	plan_ready(p, sfile_ref(f));
	expect_piece(p, NULL, 1, 0, BLOCK);
	expect_piece(p, NULL, 1, BLOCK, BLOCK);
	assert_false(plan_piece_done(p, f)); /* not all pieces have been handed out */
	expect_piece(p, NULL, 1, 2 * BLOCK, 5);
	assert_int_equal(plan_next(p, NULL, ROOM, false, &w), PLAN_IDLE);
	assert_false(plan_piece_done(p, f));
	assert_true(plan_piece_done(p, f));
	plan_close(p);
	assert_int_equal(plan_next(p, NULL, ROOM, true, &w), PLAN_END);
	sfile_put(f);
	plan_free(p);
}

static void test_ranges(void **state)
{
	static const struct bulk_range v[] = { { 10, 20 }, { BLOCK, BLOCK + 1 },
					       { 3 * BLOCK, BLOCK } };
	struct plan *p = plan_new(BLOCK, false, false);
	struct sfile *f = file(1, 100 * BLOCK);
	struct plan_work w;

	(void)state;
	with_ranges(f, v, 3);
	plan_ready(p, sfile_ref(f));
	expect_piece(p, NULL, 1, 10, 20);
	expect_piece(p, NULL, 1, BLOCK, BLOCK);
	expect_piece(p, NULL, 1, 2 * BLOCK, 1);
	expect_piece(p, NULL, 1, 3 * BLOCK, BLOCK);
	assert_int_equal(plan_next(p, NULL, ROOM, false, &w), PLAN_IDLE);
	for (int i = 0; i < 3; i++)
		assert_false(plan_piece_done(p, f));
	assert_true(plan_piece_done(p, f));
	/* A small file with holes is sent as pieces, because a piece has an offset. */
	sfile_put(f);
	f = file(2, 100);
	with_ranges(f, v, 1);
	plan_ready(p, f);
	expect_piece(p, NULL, 2, 10, 20);
	plan_free(p);
}

static void test_runs_are_checked_first(void **state)
{
	struct plan *p = plan_new(BLOCK, false, false);
	struct sfile *f = file(1, 10);
	struct plan_work w;

	(void)state;
	f->runs = calloc(1, sizeof(*f->runs));
	f->nruns = 1;
	plan_ready(p, f);
	assert_int_equal(plan_next(p, NULL, ROOM, false, &w), PLAN_CHECK);
	assert_ptr_equal(w.file, f);
	free(steal_ptr(&f->runs));
	plan_ready(p, f);
	assert_int_equal(plan_next(p, NULL, ROOM, false, &w), PLAN_SMALL);
	put_small(&w);
	plan_free(p);
}

static void test_pipelining(void **state)
{
	struct plan *p = plan_new(BLOCK, false, false);
	struct sfile *a = file(1, 3 * BLOCK), *b = file(2, 2 * BLOCK);
	struct plan_work w;

	(void)state;
	plan_ready(p, a);
	plan_ready(p, b);
	expect_piece(p, NULL, 1, 0, BLOCK);     /* the first reader begins a */
	expect_piece(p, NULL, 2, 0, BLOCK);     /* the second reader begins b */
	expect_piece(p, b, 2, BLOCK, BLOCK);    /* and continues with it */
	expect_piece(p, b, 1, BLOCK, BLOCK);    /* b is handed out: it helps with a */
	ready(p, 3, 2 * BLOCK);
	expect_piece(p, b, 3, 0, BLOCK);        /* a new file comes before helping */
	ready(p, 4, 5);
	expect_piece(p, a, 1, 2 * BLOCK, BLOCK);/* its own file comes first */
	assert_int_equal(plan_next(p, a, ROOM, false, &w), PLAN_SMALL);
	put_small(&w);
	expect_piece(p, a, 3, BLOCK, BLOCK);
	plan_free(p);
}

static void test_striping(void **state)
{
	struct plan *p = plan_new(BLOCK, true, false);

	(void)state;
	ready(p, 1, 2 * BLOCK);
	ready(p, 2, 2 * BLOCK);
	expect_piece(p, NULL, 1, 0, BLOCK);
	expect_piece(p, NULL, 1, BLOCK, BLOCK); /* another reader, the same file */
	expect_piece(p, NULL, 2, 0, BLOCK);
	expect_piece(p, NULL, 2, BLOCK, BLOCK);
	plan_free(p);
}

static void ready_at(struct plan *p, uint64_t id, uint64_t size, uint64_t address)
{
	struct sfile *f = file(id, size);

	f->address = address;
	plan_ready(p, f);
}

/* The next work must be these small files, in this order. */
static void expect_small(struct plan *p, uint32_t room, const uint64_t *ids, uint32_t n)
{
	struct plan_work w;

	assert_int_equal(plan_next(p, NULL, room, false, &w), PLAN_SMALL);
	assert_int_equal(w.nfiles, n);
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(w.files[i]->id, ids[i]);
	put_small(&w);
}

static void test_sorted(void **state)
{
	struct plan *p = plan_new(BLOCK, true, true);
	struct plan_work w;

	(void)state;
	ready(p, 1, 1); /* without an address: after those with one */
	ready_at(p, 2, 1, 7000);
	ready_at(p, 3, BLOCK + 1, 3000);
	ready_at(p, 4, 1, 1000);
	ready(p, 5, 1);
	ready_at(p, 6, 1, 5000);
	ready_at(p, 7, 1, 0);
	expect_small(p, ROOM, (uint64_t[]){ 7, 4 }, 2);
	expect_piece(p, NULL, 3, 0, BLOCK);
	/* The sweep has reached 3000: lower addresses wait for the next one. */
	ready_at(p, 8, 1, 6000);
	ready_at(p, 9, 1, 2999);
	ready_at(p, 10, 1, 3000);
	expect_piece(p, NULL, 3, BLOCK, 1);
	expect_small(p, 4, (uint64_t[]){ 10, 6, 8, 2 }, 4);
	/* Files without an address follow in the order of arrival; then the next sweep starts. */
	expect_small(p, ROOM, (uint64_t[]){ 1, 5, 9 }, 3);
	assert_int_equal(plan_next(p, NULL, ROOM, false, &w), PLAN_IDLE);
	/* Files that arrive after the end of a sweep do not wait. */
	ready_at(p, 11, 1, 10);
	expect_small(p, ROOM, (uint64_t[]){ 11 }, 1);
	ready_at(p, 12, 1, 5);
	ready_at(p, 13, 2 * BLOCK, 20);
	plan_close(p);
	expect_piece(p, NULL, 13, 0, BLOCK);
	plan_free(p); /* with files in both sweeps, for the leak checker */
}

/* Files arrive at random: each sweep is in ascending order, and each file is handed out once. */
static void test_sorted_sweeps(void **state)
{
	enum { N = 5000 };
	struct plan *p = plan_new(BLOCK, false, true);
	uint8_t seen[N + 1] = { 0 };
	uint64_t next = 1, last = 0;
	unsigned out = 0, sweeps = 1;
	struct plan_work w;

	(void)state;
	while (out < N) {
		for (int i = rand() % 200; i > 0 && next <= N; i--)
			ready_at(p, next++, 1, (uint64_t)rand() % 100000);
		if (plan_next(p, NULL, (uint32_t)rand() % 40 + 1, false, &w) != PLAN_SMALL)
			continue;
		for (uint32_t i = 0; i < w.nfiles; i++) {
			assert_int_equal(seen[w.files[i]->id]++, 0);
			sweeps += w.files[i]->address < last;
			last = w.files[i]->address;
		}
		out += w.nfiles;
		put_small(&w);
	}
	/* About 100 files arrive for 20 handed out, so after a few short sweeps nearly all have
	 * arrived. */
	assert_in_range(sweeps, 1, 20);
	assert_int_equal(plan_next(p, NULL, ROOM, false, &w), PLAN_IDLE);
	plan_free(p);
}

static void test_expected_files(void **state)
{
	struct plan *p = plan_new(BLOCK, false, false);
	struct plan_work w;

	(void)state;
	plan_expect(p);
	plan_expect(p);
	plan_close(p);
	assert_int_equal(plan_next(p, NULL, ROOM, false, &w), PLAN_IDLE);
	ready(p, 1, 1);
	plan_unexpect(p);
	assert_int_equal(plan_next(p, NULL, ROOM, false, &w), PLAN_SMALL);
	put_small(&w);
	assert_int_equal(plan_next(p, NULL, ROOM, false, &w), PLAN_IDLE);
	plan_unexpect(p); /* skipped */
	assert_int_equal(plan_next(p, NULL, ROOM, false, &w), PLAN_END);
	plan_free(p);
}

static void test_truncate(void **state)
{
	struct plan *p = plan_new(BLOCK, false, false);
	struct sfile *f = sfile_new(1, SFILE_ZERO, NULL, "zero:");
	struct plan_work w;

	(void)state;
	f->size = INT64_MAX;
	plan_ready(p, sfile_ref(f));
	expect_piece(p, NULL, 1, 0, BLOCK);
	expect_piece(p, f, 1, BLOCK, BLOCK);
	assert_false(plan_piece_done(p, f));
	assert_int_equal(plan_truncate(p, f), 2 * BLOCK);
	assert_int_equal(plan_truncate(p, f), 2 * BLOCK); /* again: the same result */
	assert_int_equal(plan_next(p, f, ROOM, false, &w), PLAN_IDLE);
	assert_true(plan_piece_done(p, f)); /* the piece in progress is the last one now */
	assert_int_equal(f->size, 2 * BLOCK);
	sfile_put(f);
	f = file(2, BLOCK + 1); /* all handed out: the size stays */
	plan_ready(p, sfile_ref(f));
	expect_piece(p, NULL, 2, 0, BLOCK);
	expect_piece(p, NULL, 2, BLOCK, 1);
	assert_int_equal(plan_truncate(p, f), BLOCK + 1);
	sfile_put(f);
	plan_free(p);
}

struct sleeper {
	struct plan *p;
	struct plan_work w;
	enum plan_answer got;
};

static void *sleep_in_plan(void *arg)
{
	struct sleeper *s = arg;

	s->got = plan_next(s->p, NULL, ROOM, true, &s->w);
	return NULL;
}

/* The call wakes a sleeping reader, which gets PLAN_END. */
static void wakes(void (*what)(struct plan *p), bool closed)
{
	struct sleeper s = { .p = plan_new(BLOCK, false, false) };
	pthread_t t;

	plan_expect(s.p);
	if (closed)
		plan_close(s.p);
	assert_int_equal(thread_start(&t, "sleeper", sleep_in_plan, &s), 0);
	nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
	what(s.p);
	pthread_join(t, NULL);
	assert_int_equal(s.got, PLAN_END);
	plan_free(s.p);
}

static void test_sleepers_are_woken(void **state)
{
	(void)state;
	wakes(plan_abort, false);
	wakes(plan_unexpect, true);
}

/* A big file wakes all sleeping readers, a small one only the first. */
static void test_a_big_file_wakes_all(void **state)
{
	struct plan *p = plan_new(BLOCK, false, false);
	struct sleeper s[3] = { { .p = p }, { .p = p }, { .p = p } };
	pthread_t t[3];

	(void)state;
	for (int i = 0; i < 3; i++)
		assert_int_equal(thread_start(&t[i], "sleeper", sleep_in_plan, &s[i]), 0);
	nanosleep(&(struct timespec){ .tv_nsec = 50000000 }, NULL);
	ready(p, 1, 4 * BLOCK);
	/* Each woken reader has a piece by now; the abort wakes the others. */
	nanosleep(&(struct timespec){ .tv_nsec = 300000000 }, NULL);
	plan_abort(p);
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(s[i].got, PLAN_PIECE);
		sfile_put(s[i].w.file);
	}
	plan_free(p);
}

static void test_abort_hides_work(void **state)
{
	struct plan *p = plan_new(BLOCK, false, false);
	struct plan_work w;

	(void)state;
	ready(p, 1, 1);
	ready(p, 2, 2 * BLOCK);
	plan_abort(p);
	assert_int_equal(plan_next(p, NULL, ROOM, true, &w), PLAN_END);
	plan_free(p); /* frees both files, for the leak checker */
}

/* ---- many readers ---- */

#define FILES 400
#define READERS 4

struct crowd {
	struct plan *p;
	struct sfile *files[FILES];
	uint8_t *seen[FILES];         /* one per byte of the file */
	atomic_uint whole[FILES];     /* how often plan_piece_done() returned true */
	atomic_uint bad;
};

static void mark(struct crowd *c, uint64_t id, uint64_t offset, uint64_t length)
{
	for (uint64_t i = offset; i < offset + length; i++)
		if (__atomic_fetch_add(&c->seen[id][i], 1, __ATOMIC_RELAXED))
			atomic_fetch_add(&c->bad, 1);
}

static void piece(struct crowd *c, struct plan_work *w, unsigned *dice)
{
	uint64_t id = w->file->id;

	mark(c, id, w->offset, w->length);
	if (rand_r(dice) % 8 == 0)
		sched_yield();
	if (plan_piece_done(c->p, w->file))
		atomic_fetch_add(&c->whole[id], 1);
	sfile_put(w->file);
}

static void small(struct crowd *c, struct plan_work *w)
{
	uint64_t room = 0;

	for (uint32_t i = 0; i < w->nfiles; i++) {
		struct sfile *f = w->files[i];

		room += f->size;
		mark(c, f->id, 0, f->size);
		atomic_fetch_add(&c->whole[f->id], 1);
		sfile_put(f);
	}
	if (room > ROOM)
		atomic_fetch_add(&c->bad, 1);
}

static void *read_all(void *arg)
{
	struct crowd *c = arg;
	struct sfile *mine = NULL;
	unsigned dice = (unsigned)(uintptr_t)&mine;
	struct plan_work w;

	for (;;) {
		switch (plan_next(c->p, mine, ROOM, true, &w)) {
		case PLAN_SMALL:
			small(c, &w);
			break;
		case PLAN_PIECE:
			mine = w.file;
			piece(c, &w, &dice);
			break;
		case PLAN_END:
			return NULL;
		default:
			atomic_fetch_add(&c->bad, 1);
			return NULL;
		}
	}
}

static struct sfile *any_file(uint64_t id)
{
	static const struct bulk_range v[] = { { 1, 2 }, { 100, BLOCK + 7 }, { 2 * BLOCK, 9 } };
	struct sfile *f;

	switch (rand() % 3) {
	case 0:
		return file(id, (uint64_t)rand() % (BLOCK + 1));
	case 1:
		return file(id, BLOCK + 1 + (uint64_t)rand() % (10 * BLOCK));
	default:
		f = file(id, 3 * BLOCK);
		with_ranges(f, v, 3);
		return f;
	}
}

/* All data bytes were handed out once, holes never. */
static void check_file(struct crowd *c, uint64_t id)
{
	struct sfile *f = c->files[id];
	uint8_t *want = calloc(f->size + 1, 1);
	struct bulk_range all = { 0, f->size };
	const struct bulk_range *v = f->ranges ? f->ranges : &all;

	for (uint32_t i = 0; i < (f->ranges ? f->nranges : 1); i++)
		memset(want + v[i].offset, 1, v[i].length);
	assert_memory_equal(c->seen[id], want, f->size + 1);
	assert_int_equal(atomic_load(&c->whole[id]), 1);
	free(want);
}

static void crowd(bool stripe, bool sorted)
{
	struct crowd *c = calloc(1, sizeof(*c));
	pthread_t t[READERS];

	c->p = plan_new(BLOCK, stripe, sorted);
	for (int i = 0; i < READERS; i++)
		assert_int_equal(thread_start(&t[i], "reader", read_all, c), 0);
	for (uint64_t id = 0; id < FILES; id++) {
		struct sfile *f = c->files[id] = any_file(id);

		if (rand() % 4)
			f->address = (uint64_t)rand();
		c->seen[id] = calloc(f->size + 1, 1);
		plan_expect(c->p);
		plan_ready(c->p, sfile_ref(f));
		plan_unexpect(c->p);
	}
	plan_close(c->p);
	for (int i = 0; i < READERS; i++)
		pthread_join(t[i], NULL);
	assert_int_equal(atomic_load(&c->bad), 0);
	for (uint64_t id = 0; id < FILES; id++) {
		check_file(c, id);
		/* The test has the only reference. */
		assert_int_equal(atomic_load(&c->files[id]->refs), 1);
		sfile_put(c->files[id]);
		free(c->seen[id]);
	}
	plan_free(c->p);
	free(c);
}

static void test_every_byte_once(void **state)
{
	(void)state;
	for (int i = 0; i < 5; i++) {
		crowd(false, false);
		crowd(true, false);
		crowd(true, true);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_small_runs),
		cmocka_unit_test(test_limit),
		cmocka_unit_test(test_batch_is_bounded),
		cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_ranges),
		cmocka_unit_test(test_runs_are_checked_first),
		cmocka_unit_test(test_pipelining),
		cmocka_unit_test(test_striping),
		cmocka_unit_test(test_sorted),
		cmocka_unit_test(test_sorted_sweeps),
		cmocka_unit_test(test_expected_files),
		cmocka_unit_test(test_truncate),
		cmocka_unit_test(test_sleepers_are_woken),
		cmocka_unit_test(test_a_big_file_wakes_all),
		cmocka_unit_test(test_abort_hides_work),
		cmocka_unit_test(test_every_byte_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
