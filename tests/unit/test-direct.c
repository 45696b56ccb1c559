// SPDX-License-Identifier: Apache-2.0
/* Direct I/O: where it is available, unaligned tails with each engine, and reads past the page
 * cache. */
#include "storage/storage.h"
#include "tests/support/faults.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define PAYLOAD (128u << 10)
#define DEPTH 4
#define BLOCKS_WHOLE 5u
#define TAIL (8192u + 1234)
#define SIZE (BLOCKS_WHOLE * PAYLOAD + TAIL)

struct engine {
	const char *name;
	enum io_kind kind;
	int npools;
};

static struct engine engines[] = {
	{ "posix", IO_POSIX, 0 },
	{ "io_uring", IO_URING, 0 },
	{ "io_uring+registered", IO_URING, 1 },
};

static struct pool *pool;
static char path[] = "./test-direct-XXXXXX";
static uint8_t content[SIZE];

static struct io *need_engine(const struct engine *g)
{
	struct err e = ERR_INIT;
	struct io *io;

	/* The kernel releases the memlock of a closed ring a little later. */
	for (int i = 0; i < 20; i++) {
		io = io_new(g->kind, DEPTH, &pool, g->npools, NULL, &e);
		if (io && strcmp(io_name(io), g->name) == 0)
			return io;
		io_free(io);
		usleep(10000);
	}
	skip();
	return NULL;
}

static struct block *need_block(void)
{
	struct block *b = pool_try_get(pool);

	assert_non_null(b);
	return b;
}

/* Opens the test file with O_DIRECT; skips the test if the filesystem refuses. */
static int need_direct(int flags)
{
	int fd = open(path, flags | O_DIRECT);

	if (fd < 0 || direct_alignment(fd) == 0) {
		if (fd >= 0)
			close(fd);
		skip();
	}
	return fd;
}

static void make_file(void)
{
	int fd = open(path, O_RDWR | O_TRUNC);

	assert_int_equal(pwrite_full(fd, content, SIZE, 0), 0);
	assert_int_equal(fsync(fd), 0);
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	close(fd);
}

/* The number of page cache pages for the file's first len bytes. */
static size_t resident(size_t len)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), n = (len + page - 1) / page, in = 0;
	unsigned char *map = calloc(1, n);
	int fd = open(path, O_RDONLY);
	void *p = mmap(NULL, len, PROT_READ, MAP_SHARED, fd, 0);

	assert_true(p != MAP_FAILED && mincore(p, len, map) == 0);
	for (size_t i = 0; i < n; i++)
		in += map[i] & 1;
	munmap(p, len);
	close(fd);
	free(map);
	return in;
}

/* Whether direct I/O on this filesystem leaves no pages in the page cache. */
static bool stays_out(void)
{
	struct block *b = need_block();
	int fd = open(path, O_RDWR | O_TRUNC | O_DIRECT);
	bool out;

	assert_int_equal(pwrite_full(fd, block_payload(b), PAYLOAD, 0), 0);
	assert_int_equal(pread_full(fd, block_payload(b), PAYLOAD, 0), PAYLOAD);
	out = resident(PAYLOAD) == 0;
	close(fd);
	pool_put(b);
	return out;
}

static int64_t one(struct io *io, bool write, int fd, uint64_t offset, void *data, uint32_t len,
		   struct block *b)
{
	struct io_op op = { .write = write, .fd = fd, .offset = offset, .data = data,
			    .len = len, .block = b, .result = INT64_MIN };
	struct io_op *done;

	assert_int_equal(io_submit(io, &op), 0);
	assert_int_equal(io_reap(io, &done, 1, 1), 1);
	assert_ptr_equal(done, &op);
	return op.result;
}

/* Copies all of `content` to or from fd in blocks, the last one with the tail, with as many
 * operations at once as the engine takes. Compares the data after reading. */
static void transfer(struct io *io, bool write, int fd)
{
	struct io_op ops[BLOCKS_WHOLE + 1], *done;
	struct block *b;
	uint32_t n = 0;

	for (uint32_t at = 0; at < SIZE || io_inflight(io);) {
		if (at < SIZE) {
			b = need_block();
			ops[n] = (struct io_op){ .write = write, .fd = fd, .offset = at,
						 .data = block_payload(b), .block = b,
						 .len = SIZE - at < PAYLOAD ? SIZE - at : PAYLOAD };
			if (write)
				memcpy(ops[n].data, content + at, ops[n].len);
			if (io_submit(io, &ops[n]) == 0) {
				at += ops[n++].len;
				continue;
			}
			pool_put(b);
		}
		assert_int_equal(io_reap(io, &done, 1, 1), 1);
		assert_int_equal(done->result, done->len);
		assert_memory_equal(done->data, content + done->offset, done->len);
		pool_put(done->block);
	}
}

static void compare_file(void)
{
	static uint8_t all[SIZE + 1];
	int fd = open(path, O_RDONLY);

	assert_int_equal(pread_full(fd, all, sizeof(all), 0), SIZE);
	assert_memory_equal(all, content, SIZE);
	close(fd);
}

static void test_write_tail(void **state)
{
	struct io *io = need_engine(*state);
	int fd = need_direct(O_WRONLY | O_TRUNC);
	bool out = stays_out();

	assert_int_equal(ftruncate(fd, 0), 0);
	transfer(io, true, fd);
	/* Only the last page of the tail went through the page cache. The descriptor is still
	 * O_DIRECT. */
	if (out)
		assert_in_range(resident(SIZE), 0, 1);
	assert_true(fcntl(fd, F_GETFL) & O_DIRECT);
	compare_file();
	close(fd);
	io_free(io);
}

static void test_read_tail(void **state)
{
	struct io *io = need_engine(*state);
	int fd = need_direct(O_RDONLY);
	bool out = stays_out();

	make_file();
	transfer(io, false, fd);
	/* The kernel may read ahead after the start of the tail, but not before it. */
	if (out)
		assert_int_equal(resident(SIZE - TAIL), 0);
	close(fd);
	io_free(io);
}

/* Unaligned memory, offsets and lengths. */
static void test_unaligned(void **state)
{
	static const struct {
		uint32_t offset, shift, len;
	} cases[] = {
		{ 0, 0, 1 }, { 0, 0, 511 }, { 0, 0, 4097 }, { 1, 0, 4096 }, { 0, 1, 8192 },
		{ 4096, 8, 100000 }, { 100, 100, 5000 }, { SIZE - 10, 0, 10 },
		{ 5 * PAYLOAD, 0, TAIL },
	};
	struct io *io = need_engine(*state);
	int fd = need_direct(O_RDWR);
	struct block *b = need_block();

	make_file();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint32_t at = cases[i].offset, len = cases[i].len;
		uint8_t *p = block_payload(b) + cases[i].shift;

		assert_int_equal(one(io, false, fd, at, p, len, b), len);
		assert_memory_equal(p, content + at, len);
		for (uint32_t k = 0; k < len; k++)
			content[at + k] ^= (uint8_t)(i + 1);
		memcpy(p, content + at, len);
		assert_int_equal(one(io, true, fd, at, p, len, b), len);
	}
	compare_file();
	/* At the end of the file, reads return only the existing bytes. */
	assert_int_equal(one(io, false, fd, SIZE - TAIL, block_payload(b), PAYLOAD, b), TAIL);
	assert_memory_equal(block_payload(b), content + SIZE - TAIL, TAIL);
	assert_int_equal(one(io, false, fd, SIZE - 5, block_payload(b), PAYLOAD, b), 5);
	assert_int_equal(one(io, false, fd, SIZE, block_payload(b), 4096, b), 0);
	assert_int_equal(one(io, false, fd, 1 << 30, block_payload(b), 4096, b), 0);
	pool_put(b);
	close(fd);
	io_free(io);
}

/* Writing a tail reports errors like any write. */
static void test_tail_error(void **state)
{
	struct io *io = need_engine(*state);
	int fd = need_direct(O_RDONLY);
	struct block *b = need_block();

	assert_int_equal(one(io, true, fd, 0, block_payload(b), 100, b), -EBADF);
	pool_put(b);
	close(fd);
	io_free(io);
}

/* Partial transfers with O_DIRECT, aligned or not, continue to their end. */
static void test_short(void **state)
{
	struct io *io;
	int fd;

	need_faults();
	io = need_engine(*state);
	fd = need_direct(O_RDWR | O_TRUNC);
	set_faults("short-write:rate=0.5;short-read:rate=0.5");
	transfer(io, true, fd);
	transfer(io, false, fd);
	set_faults(NULL);
	compare_file();
	close(fd);
	io_free(io);
}

/* Without /proc the file cannot be opened a second time, so the descriptor loses O_DIRECT. */
static void test_without_proc(void **state)
{
	struct io *io = need_engine(*state);
	int fd = need_direct(O_WRONLY | O_TRUNC), status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		if (unshare(CLONE_NEWNS) < 0 ||
		    mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) < 0 ||
		    mount("none", "/proc", "tmpfs", 0, NULL) < 0)
			_exit(77);
		/* The child needs its own ring. */
		struct io *own = need_engine(*state);

		transfer(own, true, fd);
		io_free(own);
		_exit(fcntl(fd, F_GETFL) & O_DIRECT ? 1 : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	close(fd);
	io_free(io);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(status, 0);
	compare_file();
}

static void test_read_past_cache(void **state)
{
	int fd = open(path, O_WRONLY), direct = open(path, O_RDONLY | O_DIRECT);
	bool out = direct >= 0 && direct_alignment(direct) && stays_out();
	static uint8_t plain[SIZE + 4096];
	uint8_t *aligned = aligned_alloc(4096, 1 << 20);

	(void)state;
	make_file();
	assert_int_equal(read_past_cache(fd, 0, aligned, SIZE), 0);
	assert_memory_equal(aligned, content, SIZE);
	assert_int_equal(read_past_cache(fd, 4096, aligned, 8192), 0);
	assert_memory_equal(aligned, content + 4096, 8192);
	for (uint32_t at = 0; at < SIZE; at += 77777) {
		memset(plain, 0, sizeof(plain));
		assert_int_equal(read_past_cache(fd, at, plain + at % 7, SIZE - at), 0);
		assert_memory_equal(plain + at % 7, content + at, SIZE - at);
	}
	assert_int_equal(read_past_cache(fd, SIZE, plain, 0), 0);
	assert_int_equal(read_past_cache(fd, 0, aligned, SIZE + 1), -ENODATA);
	assert_int_equal(read_past_cache(fd, 0, plain + 1, SIZE + 1), -ENODATA);
	assert_int_equal(read_past_cache(fd, SIZE, plain, 1), -ENODATA);
	assert_int_equal(read_past_cache(fd, 1 << 30, aligned, 4096), -ENODATA);
	assert_int_equal(read_past_cache(-1, 0, aligned, 4096), -EBADF);
	/* No page went through the page cache. */
	if (out)
		assert_int_equal(resident(SIZE), 0);
	if (have_faults()) {
		set_faults("read:EIO");
		assert_int_equal(read_past_cache(fd, 0, aligned, SIZE), -EIO);
		set_faults(NULL);
	}
	if (direct >= 0)
		close(direct);
	close(fd);
	free(aligned);
}

/* Files in memory have no medium, so direct I/O on them has no use. */
static void test_memory(void **state)
{
	int fd = memfd_create("test", MFD_CLOEXEC);
	uint8_t back[1000];
	char name[64];
	int writer;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(storage_class_of(fd), STORAGE_MEMORY);
	assert_int_equal(direct_alignment(fd), 0);
	assert_int_equal(pwrite_full(fd, content, sizeof(back), 0), 0);
	assert_int_equal(read_past_cache(fd, 0, back, sizeof(back)), 0);
	assert_memory_equal(back, content, sizeof(back));
	assert_int_equal(read_past_cache(fd, 1, back, sizeof(back)), -ENODATA);
	/* A descriptor for writing only, as a sink has, is enough. */
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	writer = open(name, O_WRONLY);
	assert_true(writer >= 0);
	assert_int_equal(read_past_cache(writer, 1, back, 10), 0);
	assert_memory_equal(back, content + 1, 10);
	close(writer);
	close(fd);
}

static void test_alignment(void **state)
{
	int file = open(path, O_RDONLY), dir = open(".", O_RDONLY), p[2];
	uint32_t align = direct_alignment(file);
	struct block *b;
	int fd;

	(void)state;
	assert_int_equal(pipe(p), 0);
	assert_int_equal(direct_alignment(dir), 0);
	assert_int_equal(direct_alignment(p[0]), 0);
	assert_int_equal(direct_alignment(-1), 0);
	assert_int_equal(storage_class_of(-1), STORAGE_UNKNOWN);
	assert_int_equal(storage_class_of(p[0]), STORAGE_UNKNOWN);
	assert_int_equal(storage_class_of(file), storage_class_of(dir));
	close(file);
	close(dir);
	close(p[0]);
	close(p[1]);
	if (align == 0)
		skip();
	assert_true(align >= 4096 && (align & (align - 1)) == 0);
	/* Direct I/O works with the alignment that direct_alignment() returns. */
	b = need_block();
	make_file();
	fd = open(path, O_RDONLY | O_DIRECT);
	assert_true(fd >= 0);
	assert_int_equal(pread(fd, block_payload(b), align, align), align);
	assert_memory_equal(block_payload(b), content + align, align);
	close(fd);
	pool_put(b);
}

static int set_up(void **state)
{
	struct pool_config c = { .blocks = DEPTH + 2, .payload = PAYLOAD };
	struct err e = ERR_INIT;
	int fd = mkstemp(path);

	(void)state;
	pool = pool_new(&c, &e);
	if (fd < 0 || !pool)
		return -1;
	close(fd);
	for (uint32_t i = 0, x = 1; i < SIZE; i++, x = x * 1664525 + 1013904223)
		content[i] = (uint8_t)(x >> 24);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	unlink(path);
	pool_free(pool);
	return 0;
}

#define EACH(fn) \
	{ #fn " posix", fn, NULL, NULL, &engines[0] }, \
	{ #fn " io_uring", fn, NULL, NULL, &engines[1] }, \
	{ #fn " io_uring+registered", fn, NULL, NULL, &engines[2] }

int main(void)
{
	const struct CMUnitTest tests[] = {
		EACH(test_write_tail),
		EACH(test_read_tail),
		EACH(test_unaligned),
		EACH(test_tail_error),
		EACH(test_short),
		EACH(test_without_proc),
		cmocka_unit_test(test_read_past_cache),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_alignment),
	};

	alarm(240);
	return cmocka_run_group_tests_name("direct", tests, set_up, tear_down);
}
