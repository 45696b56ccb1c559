// SPDX-License-Identifier: Apache-2.0
/* Block I/O engines: random operations against a reference in memory, ends of files, errors,
 * limits, and io_uring on a kernel that refuses some of it. */
#include "storage/storage.h"
#include "tests/support/faults.h"
#include "tests/support/refuse-call.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define FILE_MAX ((2u << 20) + 123)
#define PAYLOAD (128u << 10)
#define DEPTH 8
#define ROUNDS 2000

static struct pool *pools[2];
static char path[] = "./test-block-io-XXXXXX";

/* ---- engines ---- */

struct engine {
	const char *name;
	enum io_kind kind;
	unsigned depth;
	int npools;
};

static struct engine posix_engine = { "posix", IO_POSIX, 1, 0 };
static struct engine plain_engine = { "io_uring", IO_URING, DEPTH, 0 };
static struct engine registered_engine = { "io_uring+registered", IO_URING, DEPTH, 2 };

/* Returns the engine, or NULL if it is not available here. The kernel releases the memlock of a
 * closed ring a little later, so this tries again. */
static struct io *try_engine(const struct engine *g)
{
	struct err e = ERR_INIT;
	struct io *io;

	for (int i = 0; i < 20; i++) {
		io = io_new(g->kind, g->depth, pools, g->npools, NULL, &e);
		if (io && strcmp(io_name(io), g->name) == 0)
			return io;
		io_free(io);
		usleep(10000);
	}
	return NULL;
}

static bool have_engine(const struct engine *g)
{
	struct io *io = try_engine(g);

	io_free(io);
	return io;
}

static struct io *need_engine(const struct engine *g)
{
	struct io *io = try_engine(g);

	if (!io && g->kind == IO_POSIX)
		fail();
	if (!io)
		skip();
	return io;
}

static struct block *need_block(void)
{
	struct block *b = pool_try_get(pools[0]);

	assert_non_null(b);
	return b;
}

/* Runs fn in a child process, because its effects on the process cannot be undone. fn returns 0,
 * the line of the failure, or 77 to skip the test. */
static void in_child(int (*fn)(void))
{
	int status, line;
	pid_t pid;
	int p[2];

	assert_int_equal(pipe(p), 0);
	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		line = fn();
		if (write(p[1], &line, sizeof(line)) != sizeof(line))
			_exit(1);
		_exit(0);
	}
	close(p[1]);
	line = -1;
	assert_int_equal(read_full(p[0], &line, sizeof(line)), sizeof(line));
	close(p[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	if (line == 77)
		skip();
	if (line)
		fail_msg("line %d", line);
}

#define CHECK(x) do { if (!(x)) return __LINE__; } while (0)

static int64_t one(struct io *io, bool write, int fd, uint64_t offset, void *data, uint32_t len,
		   struct block *b)
{
	struct io_op op = { .write = write, .fd = fd, .offset = offset, .data = data,
			    .len = len, .block = b, .result = INT64_MIN };
	struct io_op *done;

	if (io_submit(io, &op) != 0 || io_reap(io, &done, 1, 1) != 1 || done != &op)
		return INT64_MIN;
	return op.result;
}

/* ---- random operations ---- */

static uint64_t random_state;

static uint32_t pick(uint32_t below)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(random_state >> 33) % below;
}

/* The expected content of the file, and the operations in flight. */
struct model {
	struct io *io;
	int fd;
	uint8_t *bytes;
	uint64_t size;
	struct io_op ops[DEPTH];
	bool busy[DEPTH];
};

/* Whether the result depends on the order of a and an operation in flight. */
static bool clashes(const struct model *m, const struct io_op *a)
{
	for (int i = 0; i < DEPTH; i++) {
		const struct io_op *b = &m->ops[i];

		if (!m->busy[i] || (!a->write && !b->write))
			continue;
		if (a->offset < b->offset + b->len && b->offset < a->offset + a->len)
			return true;
		/* The result of a read depends on the size of the file. */
		if (a->offset + a->len > m->size || b->user)
			return true;
	}
	return false;
}

static int finished(struct model *m, struct io_op *op)
{
	uint64_t left;

	m->busy[op - m->ops] = false;
	if (op->write) {
		CHECK(op->result == op->len);
	} else {
		left = op->offset < m->size ? m->size - op->offset : 0;
		CHECK(op->result == (int64_t)(left < op->len ? left : op->len));
		CHECK(memcmp(op->data, m->bytes + op->offset, (size_t)op->result) == 0);
	}
	if (op->block)
		pool_put(op->block);
	else
		free(op->data);
	return 0;
}

static int reap_some(struct model *m, int min)
{
	struct io_op *done[DEPTH];
	int n = io_reap(m->io, done, min, DEPTH), line;

	CHECK(n >= min);
	for (int i = 0; i < n; i++) {
		line = finished(m, done[i]);
		if (line)
			return line;
	}
	return 0;
}

/* A random operation in a free slot, with a block of either pool or other memory. NULL: a block was
 * lost. */
static struct io_op *make_op(struct model *m)
{
	struct io_op *op = NULL;
	uint32_t at;

	for (int i = 0; i < DEPTH; i++)
		if (!m->busy[i])
			op = &m->ops[i];
	memset(op, 0, sizeof(*op));
	op->write = pick(2);
	op->fd = m->fd;
	op->len = 1 + pick(pick(4) ? 8192 : PAYLOAD);
	op->offset = pick(FILE_MAX - op->len);
	if (pick(8)) {
		op->block = pool_try_get(pools[pick(2)]);
		if (!op->block)
			return NULL;
		at = pick(op->block->cap - op->len + 1);
		op->data = block_payload(op->block) + at;
	} else {
		op->data = malloc(op->len);
	}
	return op;
}

static void fill_in(struct model *m, struct io_op *op)
{
	uint8_t *p = op->data;

	for (uint32_t i = 0; i < op->len; i++)
		p[i] = (uint8_t)pick(256);
	memcpy(m->bytes + op->offset, p, op->len);
	if (op->offset + op->len > m->size) {
		m->size = op->offset + op->len;
		op->user = m; /* the operation extends the file */
	}
}

static int random_ops(struct io *io, unsigned depth)
{
	struct model m = { .io = io };
	struct io_op *op;
	uint8_t *all;
	int line;

	CHECK((m.fd = open(path, O_RDWR | O_TRUNC)) >= 0);
	CHECK((m.bytes = calloc(1, FILE_MAX)));
	for (int round = 0; round < ROUNDS; round++) {
		while (io_inflight(io) == depth)
			if ((line = reap_some(&m, 1)))
				return line;
		CHECK((op = make_op(&m)));
		while (clashes(&m, op))
			if ((line = reap_some(&m, 1)))
				return line;
		if (op->write)
			fill_in(&m, op);
		m.busy[op - m.ops] = true;
		CHECK(io_submit(io, op) == 0);
		if (pick(4) == 0 && (line = reap_some(&m, 0)))
			return line;
	}
	while (io_inflight(io))
		if ((line = reap_some(&m, 1)))
			return line;
	CHECK((all = malloc(FILE_MAX)));
	CHECK(pread_full(m.fd, all, FILE_MAX, 0) == (ssize_t)m.size);
	CHECK(memcmp(all, m.bytes, m.size) == 0);
	free(all);
	free(m.bytes);
	close(m.fd);
	return 0;
}

static void test_random(void **state)
{
	const struct engine *g = *state;
	struct io *io = need_engine(g);

	random_state = 1;
	assert_int_equal(random_ops(io, g->depth), 0);
	io_free(io);
}

/* Partial transfers continue to their end. */
static void test_random_short(void **state)
{
	const struct engine *g = *state;
	struct io *io;
	int line;

	need_faults();
	io = need_engine(g);
	set_faults("short-write:rate=0.3;short-read:rate=0.3");
	random_state = 2;
	line = random_ops(io, g->depth);
	set_faults(NULL);
	assert_int_equal(line, 0);
	io_free(io);
}

/* ---- ends and limits ---- */

static void test_end_of_file(void **state)
{
	struct io *io = need_engine(*state);
	struct block *b = need_block();
	uint8_t *p = block_payload(b);
	int fd = open(path, O_RDWR | O_TRUNC);

	memset(p, 'x', 10000);
	assert_int_equal(one(io, true, fd, 0, p, 10000, b), 10000);
	assert_int_equal(one(io, false, fd, 0, p, 10000, b), 10000);
	assert_int_equal(one(io, false, fd, 0, p, 10001, b), 10000);
	assert_int_equal(one(io, false, fd, 9999, p, 4096, b), 1);
	assert_int_equal(one(io, false, fd, 10000, p, 4096, b), 0);
	assert_int_equal(one(io, false, fd, 1 << 30, p, 1, b), 0);
	assert_int_equal(one(io, false, fd, 0, p, 0, b), 0);
	assert_int_equal(one(io, true, fd, 0, p, 0, b), 0);
	close(fd);
	pool_put(b);
	io_free(io);
}

static void test_errors(void **state)
{
	struct io *io = need_engine(*state);
	struct block *b = need_block();
	uint8_t *p = block_payload(b);
	int fd = open(path, O_RDONLY), dir = open(".", O_RDONLY | O_DIRECTORY);

	assert_int_equal(one(io, false, -1, 0, p, 4096, b), -EBADF);
	assert_int_equal(one(io, true, fd, 0, p, 4096, b), -EBADF);
	assert_int_equal(one(io, false, dir, 0, p, 4096, b), -EISDIR);
	assert_int_equal(one(io, false, fd, UINT64_MAX - 10, p, 4096, b), -EINVAL);
	if (have_faults()) {
		set_faults("write:ENOSPC;read:EIO:after=4096");
		assert_int_equal(one(io, true, fd, 0, p, 4096, b), -ENOSPC);
		assert_true(one(io, false, fd, 0, p, 4096, b) >= 0);
		assert_int_equal(one(io, false, fd, 0, p, 1, b), -EIO);
		set_faults(NULL);
	}
	assert_int_equal(io_inflight(io), 0);
	close(fd);
	close(dir);
	pool_put(b);
	io_free(io);
}

static void test_depth(void **state)
{
	const struct engine *g = *state;
	struct io *io = need_engine(g);
	struct io_op ops[DEPTH + 1], *done[DEPTH + 1];
	static uint8_t bytes[DEPTH + 1][512];
	int fd = open(path, O_RDWR | O_TRUNC), n = (int)g->depth;

	assert_int_equal(io_reap(io, done, 1, DEPTH), 0);
	for (int round = 0; round < 100; round++) {
		for (int i = 0; i <= n; i++) {
			ops[i] = (struct io_op){ .write = true, .fd = fd, .data = bytes[i],
						 .offset = 512u * (uint64_t)i, .len = 512 };
			assert_int_equal(io_submit(io, &ops[i]), i < n ? 0 : -EAGAIN);
		}
		assert_int_equal(io_inflight(io), n);
		assert_int_equal(io_reap(io, done, 1, 1), 1);
		assert_int_equal(io_inflight(io), n - 1);
		/* Waiting for more operations than are in flight returns those in flight. */
		assert_int_equal(io_reap(io, done, DEPTH + 1, DEPTH + 1), n - 1);
		assert_int_equal(io_inflight(io), 0);
	}
	close(fd);
	io_free(io);
}

/* io_reap() with a minimum of 0 does not wait; a read of an empty pipe stays pending. */
static void test_no_wait(void **state)
{
	struct io *io = need_engine(*state);
	struct io_op op = { .len = 1 }, *done = NULL;
	char byte = 0;
	int p[2];

	assert_int_equal(pipe(p), 0);
	op.fd = p[0];
	op.data = &byte;
	assert_int_equal(io_submit(io, &op), 0);
	assert_int_equal(io_reap(io, &done, 0, 1), 0);
	assert_int_equal(io_inflight(io), 1);
	assert_int_equal(write(p[1], "y", 1), 1);
	assert_int_equal(io_reap(io, &done, 1, 1), 1);
	assert_ptr_equal(done, &op);
	assert_int_equal(op.result, 1);
	assert_int_equal(byte, 'y');
	close(p[0]);
	close(p[1]);
	io_free(io);
}

static struct io *carried;

static void *use_carried(void *arg)
{
	static uint8_t byte;
	int *fd = arg;

	return (void *)(intptr_t)one(carried, true, *fd, 0, &byte, 1, NULL);
}

/* One thread makes the engine, another uses it, the first frees it. */
static void test_other_thread(void **state)
{
	pthread_t t;
	void *r;
	int fd;

	carried = need_engine(*state);
	fd = open(path, O_RDWR);
	assert_int_equal(thread_start(&t, "test", use_carried, &fd), 0);
	pthread_join(t, &r);
	assert_int_equal((intptr_t)r, 1);
	io_free(carried);
	close(fd);
}

/* ---- no space ---- */

static const struct engine *child_engine;

/* Makes a filesystem of 1 MiB if mounting is allowed, else limits the file size. Returns the errno
 * of a write beyond that. */
static int make_small(const char *dir)
{
	struct rlimit limit = { 1 << 20, 1 << 20 };

	if (unshare(CLONE_NEWNS) == 0 && mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) == 0 &&
	    mount("test", dir, "tmpfs", 0, "size=1M") == 0)
		return -ENOSPC;
	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &limit);
	return -EFBIG;
}

static int fill(void)
{
	static uint8_t bytes[(1 << 20) + 65536];
	struct io *io = try_engine(child_engine);
	char dir[] = "./test-block-io-XXXXXX";
	int fd, want;

	if (!io)
		return 77;
	CHECK(mkdtemp(dir));
	want = make_small(dir);
	CHECK(chdir(dir) == 0);
	CHECK((fd = open("f", O_RDWR | O_CREAT, 0600)) >= 0);
	memset(bytes, 'x', sizeof(bytes));
	CHECK(one(io, true, fd, 0, bytes, sizeof(bytes), NULL) == want);
	CHECK(one(io, true, fd, 2 << 20, bytes, 4096, NULL) == want);
	/* The data written before the error is kept. */
	memset(bytes, 0, 4096);
	CHECK(one(io, false, fd, 0, bytes, 4096, NULL) == 4096);
	CHECK(bytes[0] == 'x' && bytes[4095] == 'x');
	close(fd);
	CHECK(unlink("f") == 0 && chdir("..") == 0);
	umount2(dir, MNT_DETACH); /* a ring's worker may hold the file a moment longer */
	CHECK(rmdir(dir) == 0);
	return 0;
}

static void test_no_space(void **state)
{
	child_engine = *state;
	in_child(fill);
}

/* ---- a kernel that refuses ---- */

/* CAP_IPC_LOCK lifts the memlock limit. */
static int drop_ipc_lock(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct caps[2];

	if (syscall(SYS_capget, &head, caps) < 0)
		return -errno;
	caps[0].effective &= ~(1u << CAP_IPC_LOCK);
	caps[0].permitted &= ~(1u << CAP_IPC_LOCK);
	return syscall(SYS_capset, &head, caps) < 0 ? -errno : 0;
}

/* Memlock suffices for a ring, but not for registered buffers. */
static int tiny_memlock(void)
{
	const struct engine unregistered = { "io_uring", IO_AUTO, DEPTH, 2 };
	struct rlimit limit = { 512 << 10, 512 << 10 };
	struct io *io;
	int line;

	if (!have_engine(&plain_engine))
		return 77;
	CHECK(setrlimit(RLIMIT_MEMLOCK, &limit) == 0 && drop_ipc_lock() == 0);
	CHECK((io = try_engine(&unregistered)));
	random_state = 3;
	line = random_ops(io, DEPTH);
	io_free(io);
	return line;
}

static void test_tiny_memlock(void **state)
{
	(void)state;
	in_child(tiny_memlock);
}

/* Without a memlock limit, the engine registers the buffers of more than one pool. */
static int ample_memlock(void)
{
	struct rlimit limit = { RLIM_INFINITY, RLIM_INFINITY };

	int no_limit = setrlimit(RLIMIT_MEMLOCK, &limit) == 0;

	if (have_engine(&registered_engine))
		return 0;
	CHECK(!no_limit || !have_engine(&plain_engine));
	return 77;
}

static void test_ample_memlock(void **state)
{
	(void)state;
	in_child(ample_memlock);
}

static int refused(int code)
{
	struct err e = ERR_INIT;
	const char *said = NULL;
	struct io *io;
	int line;

	if (refuse_call(SYS_io_uring_setup, code) < 0)
		return 77;
	CHECK(!io_new(IO_URING, DEPTH, pools, 2, &said, &e));
	CHECK(e.code == -code && strstr(e.text, "--io") && said);
	said = NULL;
	io = io_new(IO_AUTO, DEPTH, pools, 2, &said, &e);
	CHECK(io && said && strcmp(io_name(io), "posix") == 0);
	random_state = 4;
	line = random_ops(io, 1);
	io_free(io);
	said = NULL;
	CHECK(io_pick(STORAGE_SSD, true, &said) == IO_POSIX && said);
	return line;
}

static int refused_eperm(void)
{
	return refused(EPERM);
}

static int refused_enosys(void)
{
	return refused(ENOSYS);
}

/* Must be the first test: the answer of the kernel is cached for the process and its children. */
static void test_refused(void **state)
{
	(void)state;
#ifndef HAVE_LIBURING
	skip(); /* without liburing there is no call to refuse */
#endif
	in_child(refused_eperm);
	in_child(refused_enosys);
}

static void test_pick(void **state)
{
	const char *said = NULL;

	(void)state;
	if (!have_engine(&plain_engine))
		skip();
	assert_int_equal(io_pick(STORAGE_MEMORY, true, &said), IO_POSIX);
	assert_non_null(said);
	assert_int_equal(io_pick(STORAGE_SSD, false, &said), IO_POSIX);
	assert_int_equal(io_pick(STORAGE_SSD, true, &said), IO_AUTO);
	assert_int_equal(io_pick(STORAGE_ROTATING, true, NULL), IO_AUTO);
	assert_int_equal(io_pick(STORAGE_UNKNOWN, true, NULL), IO_AUTO);
}

/* ---- the group ---- */

static int set_up(void **state)
{
	struct pool_config small = { .blocks = DEPTH, .payload = PAYLOAD };
	struct pool_config big = { .blocks = DEPTH, .payload = PAYLOAD * 2 };
	struct err e = ERR_INIT;
	int fd = mkstemp(path);

	(void)state;
	pools[0] = pool_new(&small, &e);
	pools[1] = pool_new(&big, &e);
	if (fd < 0 || !pools[0] || !pools[1])
		return -1;
	close(fd);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	unlink(path);
	pool_free(pools[0]);
	pool_free(pools[1]);
	return 0;
}

#define EACH(fn) \
	{ #fn " posix", fn, NULL, NULL, &posix_engine }, \
	{ #fn " io_uring", fn, NULL, NULL, &plain_engine }, \
	{ #fn " io_uring+registered", fn, NULL, NULL, &registered_engine }

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refused),
		EACH(test_random),
		EACH(test_random_short),
		EACH(test_end_of_file),
		EACH(test_errors),
		EACH(test_depth),
		{ "test_no_wait io_uring", test_no_wait, NULL, NULL, &plain_engine },
		EACH(test_other_thread),
		EACH(test_no_space),
		cmocka_unit_test(test_tiny_memlock),
		cmocka_unit_test(test_ample_memlock),
		cmocka_unit_test(test_pick),
	};

	/* Ends the test if an engine loses an operation and sleeps for ever. */
	alarm(240);
	return cmocka_run_group_tests_name("block-io", tests, set_up, tear_down);
}
