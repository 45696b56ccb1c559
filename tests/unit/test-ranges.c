// SPDX-License-Identifier: Apache-2.0
/* The data ranges of sparse files. */
#include "storage/storage.h"

#include "tests/support/tmptree.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define TIB (UINT64_C(1) << 40)
#define BLOCK 65536u

struct seen {
	unsigned int n;
	uint64_t bytes, end;
	uint64_t first, last;
	int stop; /* returned by the first call */
};

static int see(void *arg, uint64_t off, uint64_t len)
{
	struct seen *s = arg;

	assert_true(len > 0);
	assert_true(s->n == 0 || off > s->end); /* in order, with gaps */
	if (s->n++ == 0)
		s->first = off;
	s->last = off;
	s->end = off + len;
	s->bytes += len;
	return s->stop;
}

/* Makes a file of `size` bytes with a block of data at each of the n offsets. */
static int make(uint64_t size, const uint64_t *at, size_t n)
{
	static char data[BLOCK];
	int fd = open(tmp_at("sparse"), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	memset(data, 'x', sizeof(data));
	for (size_t i = 0; i < n; i++)
		assert_int_equal(pwrite_full(fd, data, sizeof(data), (off_t)at[i]), 0);
	return fd;
}

static void a_tebibyte_of_holes(void **state)
{
	const uint64_t at[] = { BLOCK, TIB / 2, TIB - BLOCK };
	struct seen s = { 0 };
	int fd = make(TIB, at, 3);

	(void)state;
	assert_int_equal(data_ranges(fd, TIB, see, &s), 0);
	if (s.n == 1 && s.bytes == TIB)
		skip(); /* a filesystem without holes */
	assert_int_equal(s.n, 3);
	assert_int_equal(s.first, BLOCK);
	assert_int_equal(s.last, TIB - BLOCK);
	assert_int_equal(s.end, TIB);
	assert_int_equal(s.bytes, 3 * BLOCK);
	close(fd);
}

static void edges(void **state)
{
	const uint64_t zero = 0;
	struct seen s = { 0 };
	int fd = make(TIB, NULL, 0);

	(void)state;
	assert_int_equal(data_ranges(fd, TIB, see, &s), 0); /* only a hole */
	assert_int_equal(s.n, 0);
	close(fd);

	fd = make(BLOCK, &zero, 1); /* no hole */
	assert_int_equal(data_ranges(fd, BLOCK, see, &s), 0);
	assert_int_equal(s.n, 1);
	assert_int_equal(s.bytes, BLOCK);

	s = (struct seen){ 0 }; /* a file that grew: only the expected size counts */
	assert_int_equal(data_ranges(fd, 100, see, &s), 0);
	assert_int_equal(s.bytes, 100);

	s = (struct seen){ 0 }; /* a file that shrank: no data beyond its end */
	assert_int_equal(data_ranges(fd, 10 * BLOCK, see, &s), 0);
	assert_int_equal(s.end, BLOCK);

	s = (struct seen){ 0 };
	assert_int_equal(data_ranges(fd, 0, see, &s), 0);
	assert_int_equal(s.n, 0);
	assert_int_equal(data_ranges(fd, UINT64_MAX, see, &s), -EFBIG);
	close(fd);
}

static void the_callback_ends_it(void **state)
{
	const uint64_t at[] = { 0, 10 * BLOCK };
	struct seen s = { .stop = -ECANCELED };
	int fd = make(TIB, at, 2);

	(void)state;
	assert_int_equal(data_ranges(fd, TIB, see, &s), -ECANCELED);
	assert_int_equal(s.n, 1);
	close(fd);
}

/* A pipe cannot seek, so all of it counts as data. */
static void what_cannot_tell_is_one_range(void **state)
{
	struct seen s = { 0 };
	int p[2];

	(void)state;
	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	assert_int_equal(data_ranges(p[0], 12345, see, &s), 0);
	assert_int_equal(s.n, 1);
	assert_int_equal(s.bytes, 12345);
	close(p[0]);
	close(p[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_tebibyte_of_holes),
		cmocka_unit_test(edges),
		cmocka_unit_test(the_callback_ends_it),
		cmocka_unit_test(what_cannot_tell_is_one_range),
	};

	return cmocka_run_group_tests_name("ranges", tests, tmp_setup, tmp_teardown);
}
