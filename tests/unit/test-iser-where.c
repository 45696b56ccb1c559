// SPDX-License-Identifier: Apache-2.0
/* Where the pages of a file in a tmpfs are: on the last node of the machine, so that in a guest
 * with several it is not the one where they would be anyway. */
#include "iser_setup/where.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21
#endif

#define MIB (1ull << 20)
#define ODD 1000u /* bytes behind the last whole page */

static struct topo *topo;
static int last, fd = -1;
static char path[64];

static int begin(void **state)
{
	struct err e = ERR_INIT;

	(void)state;
	topo = topo_read(NULL, &e);
	if (!topo)
		return -1;
	last = topo_node(topo, topo_nodes(topo) - 1)->id;
	/* memfd_create would do, but for a name: fd's may not be opened by one everywhere. */
	snprintf(path, sizeof(path), "/dev/shm/test-iser-where.%ld", (long)getpid());
	return 0;
}

static int end(void **state)
{
	(void)state;
	topo_free(topo);
	return 0;
}

static int make(void **state)
{
	(void)state;
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	return fd < 0 ? -1 : 0;
}

static int unmake(void **state)
{
	(void)state;
	close(fd);
	return unlink(path);
}

/* Pages of [from, from + bytes) on node. */
static void fill(int node, uint64_t from, size_t bytes)
{
	struct stat st;
	void *p;

	assert_int_equal(fstat(fd, &st), 0);
	if ((uint64_t)st.st_size < from + bytes)
		assert_int_equal(ftruncate(fd, (off_t)(from + bytes)), 0);
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)from);
	assert_true(p != MAP_FAILED);
	(void)place_memory(p, bytes, node, true);
	memset(p, 1, bytes);
	munmap(p, bytes);
}

static uint64_t allocated(void)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return (uint64_t)st.st_blocks * 512;
}

/* Reads it, and sees that nothing was allocated by that. */
static struct file_pages look(void)
{
	uint64_t before = allocated();
	struct err e = ERR_INIT;
	struct file_pages p;
	int r = file_pages_read(topo, path, &p, &e);

	if (r == -ENOSYS || r == -EPERM || r == -ENOTSUP) {
		print_message("%s\n", e.text);
		file_pages_clear(&p);
		skip();
	}
	if (r)
		fail_msg("%s", e.text);
	assert_int_equal(allocated(), before);
	return p;
}

static void test_whole(void **state)
{
	struct file_pages p;

	(void)state;
	fill(last, 0, 3 * MIB + ODD);
	p = look();
	assert_false(p.sampled);
	assert_int_equal(p.holes, 0);
	assert_int_equal(p.swapped, 0);
	assert_int_equal(p.n_on, 1);
	assert_int_equal(file_pages_on(&p, last), 3 * MIB + ODD);
	assert_int_equal(file_pages_elsewhere(&p, last), 0);
	assert_int_equal(file_pages_elsewhere(&p, last + 1), 3 * MIB + ODD);
	assert_int_equal(file_pages_on(&p, last + 1), 0);
	file_pages_clear(&p);
}

/* Not a page of a hole is made, also where pages are on both sides of it within a window. */
static void test_holes(void **state)
{
	struct file_pages p;

	(void)state;
	fill(last, 64 << 10, 64 << 10);
	fill(last, 512 << 10, 4 << 10);
	fill(last, 5 * MIB, MIB);
	assert_int_equal(ftruncate(fd, 9 * MIB + ODD), 0);
	p = look();
	assert_int_equal(file_pages_on(&p, last), MIB + (68 << 10));
	assert_int_equal(p.holes, 8 * MIB + ODD - (68 << 10));
	assert_int_equal(p.swapped, 0);
	file_pages_clear(&p);
}

static void test_empty(void **state)
{
	struct file_pages p;

	(void)state;
	p = look();
	assert_int_equal(p.n_on, 0);
	assert_int_equal(p.holes, 0);
	file_pages_clear(&p);
	assert_int_equal(ftruncate(fd, 4 * MIB), 0);
	p = look();
	assert_int_equal(p.n_on, 0);
	assert_int_equal(p.holes, 4 * MIB);
	file_pages_clear(&p);
}

/* As apply makes them: all allocated, and nothing written; and then some. */
static void test_allocated(void **state)
{
	struct file_pages p;

	(void)state;
	fill(last, 0, 8 * MIB + ODD); /* by the policy that the file has then */
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(posix_fallocate(fd, 0, 8 * MIB + ODD), 0);
	p = look();
	assert_int_equal(p.holes, 0);
	assert_int_equal(p.swapped, 0);
	assert_int_equal(file_pages_on(&p, last), 8 * MIB + ODD);
	file_pages_clear(&p);
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(posix_fallocate(fd, 0, 8 * MIB), 0);
	fill(last, 3 * MIB + 8192, 4096);
	fill(last, 5 * MIB, 2 * MIB);
	p = look();
	assert_int_equal(p.holes, 0);
	assert_int_equal(file_pages_on(&p, last), 8 * MIB);
	file_pages_clear(&p);
}

/* Of 4 GiB and a bit every fifth window of 2 MiB is looked at, and stands for 10 MiB; the last one
 * for the 8 MiB that are left. */
static void test_sampled(void **state)
{
	const uint64_t size = 4108 * MIB;
	struct file_pages p;

	(void)state;
	fill(last, 0, MIB);                  /* half a window */
	fill(last, 2 * MIB, MIB);            /* not looked at */
	fill(last, 20 * MIB, 2 * MIB);       /* a whole one */
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	p = look();
	assert_true(p.sampled);
	assert_int_equal(file_pages_on(&p, last), 5 * MIB + 10 * MIB);
	assert_int_equal(p.holes, size - 15 * MIB);
	file_pages_clear(&p);
	fill(last, 4100 * MIB, MIB);         /* the last: half of a window */
	p = look();
	assert_int_equal(file_pages_on(&p, last), 15 * MIB + 4 * MIB);
	assert_int_equal(p.holes, size - 19 * MIB);
	file_pages_clear(&p);
}

static void test_two_nodes(void **state)
{
	int first = topo_node(topo, 0)->id;
	struct file_pages p;

	(void)state;
	if (first == last)
		skip();
	fill(first, 0, MIB);
	fill(last, MIB, 2 * MIB);
	p = look();
	assert_int_equal(p.n_on, 2);
	assert_int_equal(p.on[0].node, first);
	assert_int_equal(file_pages_on(&p, first), MIB);
	assert_int_equal(file_pages_on(&p, last), 2 * MIB);
	assert_int_equal(file_pages_elsewhere(&p, first), 2 * MIB);
	file_pages_clear(&p);
}

/* Pages that went to swap space stay there. */
static void test_swapped(void **state)
{
	struct file_pages p;
	char *base;

	(void)state;
	fill(last, 0, 4 * MIB);
	base = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(base != MAP_FAILED);
	/* What is mapped elsewhere, or read ahead, is not paged out. */
	madvise(base, 4 * MIB, MADV_RANDOM);
	memset(base, 2, 2 * MIB);
	madvise(base, 2 * MIB, MADV_PAGEOUT);
	munmap(base, 4 * MIB);
	p = look();
	if (!p.swapped) {
		file_pages_clear(&p);
		skip(); /* there is no swap space */
	}
	assert_int_equal(p.swapped + file_pages_on(&p, last), 4 * MIB);
	assert_in_range(p.swapped, 1, 2 * MIB);
	file_pages_clear(&p);
	p = look();
	assert_in_range(p.swapped, 1, 2 * MIB); /* looking has not brought them in */
	file_pages_clear(&p);
}

static void fails(const char *name, int code)
{
	struct err e = ERR_INIT;
	struct file_pages p;

	assert_int_equal(file_pages_read(topo, name, &p, &e), code);
	assert_non_null(strstr(e.text, name));
	file_pages_clear(&p);
}

static void test_no_file(void **state)
{
	char fifo[80];

	(void)state;
	snprintf(fifo, sizeof(fifo), "%s.fifo", path);
	fails("/dev/shm", -ENOTSUP);
	fails("/proc/self/stat", -ENOTSUP);
	fails("/dev/shm/none/of/it", -ENOENT);
	assert_int_equal(mkfifo(fifo, 0600), 0);
	fails(fifo, -ENOTSUP);
	unlink(fifo);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_whole, make, unmake),
		cmocka_unit_test_setup_teardown(test_holes, make, unmake),
		cmocka_unit_test_setup_teardown(test_empty, make, unmake),
		cmocka_unit_test_setup_teardown(test_allocated, make, unmake),
		cmocka_unit_test_setup_teardown(test_sampled, make, unmake),
		cmocka_unit_test_setup_teardown(test_two_nodes, make, unmake),
		cmocka_unit_test_setup_teardown(test_swapped, make, unmake),
		cmocka_unit_test(test_no_file),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
