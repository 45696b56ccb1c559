// SPDX-License-Identifier: Apache-2.0
/* Block I/O: io_uring, with many operations in flight from one thread, or pread and pwrite. */
#include "storage/internal.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>

#ifdef HAVE_LIBURING
#include <liburing.h>

/* The header of liburing 2.1, the first version in RHEL 9, does not have them. */
#ifndef IORING_SETUP_COOP_TASKRUN
#define IORING_SETUP_COOP_TASKRUN (1u << 8)
#endif
#ifndef IORING_SETUP_SINGLE_ISSUER
#define IORING_SETUP_SINGLE_ISSUER (1u << 12)
#endif
#ifndef IORING_SETUP_DEFER_TASKRUN
#define IORING_SETUP_DEFER_TASKRUN (1u << 13)
#endif

/* The kernel registers no buffer larger than this. */
#define REGISTER_MAX ((size_t)1 << 30)

/* An operation in flight. */
struct slot {
	struct io_op *op;
	uint32_t done;      /* bytes done before the current request */
	uint32_t len;       /* bytes of the current request */
	bool blocking;      /* after -EAGAIN: a kernel thread does the operation, and may sleep */
	struct slot *next;  /* free slots */
};

/* A pool's region, registered with the kernel in pieces of whole blocks. */
struct region {
	const struct pool *pool;
	uint8_t *base;
	size_t bytes, piece;
	unsigned first;     /* index of its first piece */
};
#endif

/* This many blocks of 1 MiB are 4 GiB: a larger ring would only cost memory. */
#define DEPTH_MAX 4096u

/* An engine; it belongs to one thread. */
struct io {
	unsigned depth;
	unsigned inflight;      /* submitted and not yet reaped */
	struct io_op *done;     /* finished and not yet reaped, oldest first */
	struct io_op **done_end;
	bool uring;             /* false: posix, which finishes operations in io_submit() */
#ifdef HAVE_LIBURING
	struct io_uring ring;
	bool enabled;           /* the ring is enabled; the thread that submits first owns it */
	struct slot *slots, *free;
	struct region *regions; /* NULL: not registered */
	int nregions;
#endif
};

static void io_finish(struct io *io, struct io_op *op, int64_t result)
{
	op->result = result;
	op->next = NULL;
	*io->done_end = op;
	io->done_end = &op->next;
}

/* ---- synchronous transfers ---- */

static int64_t posix_rest(const struct io_op *op, uint32_t done);

/* For op from byte `done` on, after EINVAL: the number of aligned bytes that direct I/O can still
 * transfer. 0: the descriptor is not O_DIRECT, or the start is not aligned. */
static uint32_t direct_part(const struct io_op *op, uint32_t done)
{
	uintptr_t p = (uintptr_t)op->data + done;
	uint64_t at = op->offset + done;
	int flags = fcntl(op->fd, F_GETFL);

	if (flags < 0 || !(flags & O_DIRECT) || p % DIRECT_ALIGN || at % DIRECT_ALIGN)
		return 0;
	return (op->len - done) & ~(DIRECT_ALIGN - 1);
}

/* Transfer op from byte `done` on through the page cache. Returns op's result; -EINVAL: the
 * descriptor is not O_DIRECT, so the earlier EINVAL had another cause. */
static int64_t direct_rest(const struct io_op *op, uint32_t done)
{
	int flags = fcntl(op->fd, F_GETFL);
	struct io_op plain = *op;
	int64_t r;

	if (flags < 0 || !(flags & O_DIRECT))
		return -EINVAL;
	plain.fd = fd_reopen(op->fd, op->write ? O_WRONLY : O_RDONLY);
	if (plain.fd >= 0) {
		r = posix_rest(&plain, done);
		close(plain.fd);
		return r;
	}

	/* Without /proc, or without the right to open the file again: clear the flag for good.
	 * Setting it again would race with other threads that do the same. */
	if (fcntl(op->fd, F_SETFL, flags & ~O_DIRECT) < 0)
		return -errno;
	return posix_rest(op, done);
}

static ssize_t transfer(const struct io_op *op, uint32_t done, uint32_t len)
{
	uint8_t *p = (uint8_t *)op->data + done;
	off_t at = (off_t)(op->offset + done);
	ssize_t n;

	do {
		n = op->write ? pwrite(op->fd, p, len, at) : pread(op->fd, p, len, at);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

/* Transfer op from byte `done` on. Returns op's result. */
static int64_t posix_rest(const struct io_op *op, uint32_t done)
{
	uint32_t len;
	ssize_t n;

	while (done < op->len) {
		len = FAULT_SHORT(op->write ? "short-write" : "short-read", op->len - done);
		n = transfer(op, done, len);
		if (n == -EINVAL && (len = direct_part(op, done)) > 0)
			n = transfer(op, done, len);
		if (n == -EINVAL)
			return direct_rest(op, done);
		if (n < 0)
			return n;
		if (n == 0)
			return op->write ? -EIO : (int64_t)done;
		done += (uint32_t)n;
	}

	return done;
}

#ifdef HAVE_LIBURING

/* ---- submitting ---- */

/* The index of the registered buffer that contains op's memory; -1: no buffer does. */
static int buffer_index(const struct io *io, const struct io_op *op)
{
	const uint8_t *p = op->data;
	const struct region *r;
	size_t at;

	if (!op->block || !io->regions)
		return -1;
	for (int i = 0; i < io->nregions; i++) {
		r = &io->regions[i];
		if (r->pool != op->block->pool)
			continue;
		at = (size_t)(p - r->base);
		if (p < r->base || at + op->len > r->bytes ||
		    at / r->piece != (at + op->len - 1) / r->piece)
			return -1;
		return (int)(r->first + at / r->piece);
	}

	return -1;
}

/* Queue len bytes of s; the caller submits. */
static void uring_prepare(struct io *io, struct slot *s, uint32_t len)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&io->ring);
	struct io_op *op = s->op;
	uint8_t *p = (uint8_t *)op->data + s->done;
	uint64_t at = op->offset + s->done;
	int index = buffer_index(io, op);

	/* There is room: a slot has at most one entry, and the ring has an entry for each slot. */
	s->len = len;
	if (index >= 0 && op->write)
		io_uring_prep_write_fixed(sqe, op->fd, p, len, at, index);
	else if (index >= 0)
		io_uring_prep_read_fixed(sqe, op->fd, p, len, at, index);
	else if (op->write)
		io_uring_prep_write(sqe, op->fd, p, len, at);
	else
		io_uring_prep_read(sqe, op->fd, p, len, at);
	if (s->blocking)
		io_uring_sqe_set_flags(sqe, IOSQE_ASYNC);
	io_uring_sqe_set_data(sqe, s);
}

static void prepare_rest(struct io *io, struct slot *s)
{
	uring_prepare(io, s, FAULT_SHORT(s->op->write ? "short-write" : "short-read",
				  s->op->len - s->done));
}

static void uring_submit(struct io *io, struct io_op *op)
{
	struct slot *s = io->free;

	if (op->len == 0) {
		io_finish(io, op, 0);
		return;
	}
	io->free = s->next;
	s->op = op;
	s->done = 0;
	s->blocking = false;
	prepare_rest(io, s);
	if (!io->enabled) {
		/* io_uring_enable_rings(), which liburing 2.3 declares but does not export */
		syscall(SYS_io_uring_register, io->ring.ring_fd, IORING_REGISTER_ENABLE_RINGS,
			NULL, 0);
		io->enabled = true;
	}

	/* Operations that the kernel does not accept now stay queued: uring_enter() submits them
	 * again and reports errors. */
	io_uring_submit(&io->ring);
}

/* ---- completing ---- */

static void uring_finish(struct io *io, struct slot *s, int64_t result)
{
	struct io_op *op = s->op;

	s->next = io->free;
	io->free = s;
	io_finish(io, op, result);
}

static void uring_complete(struct io *io, struct slot *s, int res)
{
	const struct io_op *op = s->op;
	uint32_t part;

	if (res == -EINTR) {
		uring_prepare(io, s, s->len);
	} else if (res == -EAGAIN && !s->blocking) {
		s->blocking = true;
		uring_prepare(io, s, s->len);
	} else if (res == -EINVAL) {
		/* The kernel refuses direct I/O of this alignment: transfer the aligned part
		 * directly, then the rest through the page cache. */
		part = direct_part(op, s->done);
		if (part > 0 && part < s->len)
			uring_prepare(io, s, part);
		else
			uring_finish(io, s, direct_rest(op, s->done));
	} else if (res < 0) {
		uring_finish(io, s, res);
	} else if (res == 0) {
		uring_finish(io, s, op->write ? -EIO : (int64_t)s->done);
	} else {
		s->done += (uint32_t)res;
		if (s->done == op->len)
			uring_finish(io, s, s->done);
		else
			prepare_rest(io, s);
	}
}

/* Submit queued operations, and let the kernel post completions; with sleep, wait for one. */
static int uring_enter(struct io *io, bool sleep)
{
	int r;

	if (sleep)
		r = io_uring_submit_and_wait(&io->ring, 1);
	else
		r = io_uring_submit_and_get_events(&io->ring);
	/* EAGAIN, EBUSY: the kernel is short of memory, or completions must be reaped first. */
	if (r == -EINTR || r == -EAGAIN || r == -EBUSY)
		return 0;
	return r < 0 ? r : 0;
}

static int uring_wait(struct io *io, bool sleep)
{
	struct io_uring_cqe *cqe;
	struct slot *s;
	int r, res;

	if (io_uring_cq_ready(&io->ring) == 0) {
		r = uring_enter(io, sleep);
		if (r < 0)
			return r;
	}
	while (io_uring_peek_cqe(&io->ring, &cqe) == 0) {
		s = io_uring_cqe_get_data(cqe);
		res = cqe->res;
		io_uring_cqe_seen(&io->ring, cqe);
		uring_complete(io, s, res);
	}
	if (io_uring_sq_ready(&io->ring) > 0)
		io_uring_submit(&io->ring);
	return 0;
}

/* Create a ring with the best flags that the kernel supports. One thread submits and reaps, so
 * completions need not interrupt it (Linux 6.1; Linux 5.19 only avoids the IPI). The ring starts
 * disabled, so that its owner is the thread that uses it, not the one that created it. */
static int make_ring(struct io_uring *ring, unsigned depth)
{
	static const unsigned wishes[] = {
		IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
			IORING_SETUP_R_DISABLED,
		IORING_SETUP_COOP_TASKRUN | IORING_SETUP_R_DISABLED,
		IORING_SETUP_R_DISABLED,
	};
	struct io_uring_params p;
	int r = -EINVAL;

	for (size_t i = 0; i < sizeof(wishes) / sizeof(wishes[0]) && r == -EINVAL; i++) {
		memset(&p, 0, sizeof(p));
		p.flags = wishes[i];
		r = io_uring_queue_init_params(depth, ring, &p);
	}
	return r;
}

static unsigned pieces(const struct region *r)
{
	return (unsigned)((r->bytes + r->piece - 1) / r->piece);
}

/* Register the pools' regions. 0, or the negative errno of the failure. */
static int register_pools(struct io *io, struct pool *const *pools, int npools)
{
	CLEANUP_FREE struct region *regions = calloc((size_t)npools, sizeof(*regions));
	CLEANUP_FREE struct iovec *iov = NULL;
	unsigned n = 0, k;
	int r;

	if (!regions)
		return -ENOMEM;
	for (int i = 0; i < npools; i++) {
		struct region *g = &regions[i];

		g->pool = pools[i];
		g->base = pool_base(pools[i]);
		g->bytes = pool_bytes(pools[i]);
		g->piece = g->bytes <= REGISTER_MAX ? g->bytes :
			   REGISTER_MAX / pool_stride(pools[i]) * pool_stride(pools[i]);
		g->first = n;
		n += pieces(g);
	}

	iov = calloc(n, sizeof(*iov));
	if (!iov)
		return -ENOMEM;
	for (int i = 0; i < npools; i++) {
		for (k = 0; k < pieces(&regions[i]); k++) {
			const struct region *g = &regions[i];
			size_t at = k * g->piece;

			iov[g->first + k].iov_base = g->base + at;
			iov[g->first + k].iov_len = g->bytes - at < g->piece ?
						    g->bytes - at : g->piece;
		}
	}

	r = io_uring_register_buffers(&io->ring, iov, n);
	if (r < 0)
		return r;
	io->regions = steal_ptr(&regions);
	io->nregions = npools;
	return 0;
}

/* Give io a ring for its depth, and register the pools' regions if the kernel allows it. */
static const char *lock_hint(int r)
{
	return r == -ENOMEM ? " (see ulimit -l)" : "";
}

static int uring_start(struct io *io, struct pool *const *pools, int npools, struct err *e)
{
	int r;

	io->slots = calloc(io->depth, sizeof(*io->slots));
	r = io->slots ? make_ring(&io->ring, io->depth) : -ENOMEM;
	if (r < 0) {
		free(io->slots);
		return err_sys(e, r, "an io_uring of %u entries%s", io->depth,
			       lock_hint(r));
	}
	io->uring = true;
	for (unsigned i = 0; i < io->depth; i++) {
		io->slots[i].next = io->free;
		io->free = &io->slots[i];
	}
	r = npools > 0 ? register_pools(io, pools, npools) : 0;
	if (r < 0)
		log_debug("io_uring: buffers stay unregistered: %s%s", strerror(-r),
			  lock_hint(r));
	return 0;
}

static void uring_end(struct io *io)
{
	io_uring_queue_exit(&io->ring);
	free(io->regions);
	free(io->slots);
}

static bool uring_registered(const struct io *io)
{
	return io->regions;
}

static pthread_once_t asked = PTHREAD_ONCE_INIT;
static int refusal; /* negative errno; 0: none; written once, see asked */

static void uring_probe_kernel(void)
{
	struct io_uring ring;
	int r = io_uring_queue_init(1, &ring, 0);

	if (r == 0)
		io_uring_queue_exit(&ring);
	/* Other errors may be temporary. */
	else if (r == -ENOSYS || r == -EPERM || r == -EACCES)
		refusal = r;
}

/* Why this process cannot use io_uring, as static text, with the negative errno in *code; NULL: it
 * can. The kernel is asked once. Any thread. */
static const char *uring_refused(int *code)
{
	pthread_once(&asked, uring_probe_kernel);
	*code = refusal;
	if (refusal == 0)
		return NULL;
	if (refusal == -ENOSYS)
		return "this kernel has none, or seccomp hides it";
	return "the kernel forbids it (sysctl kernel.io_uring_disabled, or seccomp)";
}

#else /* without liburing every engine is posix */

static const char *uring_refused(int *code)
{
	*code = -ENOSYS;
	return "this build has no liburing";
}

#define uring_start(io, pools, npools, e) ((void)(pools), (void)(npools), (void)(e), -ENOSYS)
#define uring_submit(io, op) ((void)0)
#define uring_wait(io, sleep) ((void)(sleep), 0)
#define uring_end(io) ((void)0)
#define uring_registered(io) false

#endif

/* ---- both engines ---- */

/* Blocks of 1 MiB, io_uring with 2 to 8 in flight and registered buffers against posix
 * (Linux 6.18, 2 CPUs, medians of interleaved runs; rate over posix's, CPU over posix's):
 *
 *   ext4, direct            read 1.1-2.0, CPU 0.1-0.2   write 1.2-1.6, CPU 0.3-0.5
 *   ext4, in page cache     read 0.95,    CPU 1.05      write 0.7,     CPU 1.5
 *   ext4, not in it         read 0.9-1.1, CPU 0.9-1.1
 *   tmpfs                   read 0.85,    CPU 1.3       write 0.9,     CPU 1.2
 *
 * io_uring hands writes to the page cache, and all operations on tmpfs, to a kernel thread, which
 * costs a context switch and cache misses. With unregistered buffers direct I/O gains less, and
 * needs 0.5-0.9 of posix's CPU time. With 32 operations in flight the gain of 8 is lost. */
enum io_kind io_pick(enum storage_class class, bool direct, const char **said)
{
	enum io_kind kind = IO_POSIX;
	int code;
	const char *text = uring_refused(&code);

	if (text) {
		/* io_uring is not available: there is no choice. */
	} else if (class == STORAGE_MEMORY) {
		text = "files in memory are copied fastest without io_uring";
	} else if (!direct) {
		text = "the page cache is fastest without io_uring";
	} else {
		kind = IO_AUTO;
		text = "io_uring keeps several direct transfers in flight";
	}
	if (said)
		*said = text;
	return kind;
}

struct io *io_new(enum io_kind kind, unsigned depth, struct pool *const *pools, int npools,
		  const char **said, struct err *e)
{
	const char *text = "as was chosen", *refused = NULL;
	struct err why = ERR_INIT;
	struct io *io;
	int code = 0;

	if (kind != IO_POSIX) {
		refused = uring_refused(&code);
		text = refused ? refused : "the kernel has io_uring";
	}
	if (said)
		*said = text;
	if (refused && kind == IO_URING) {
		err_set(e, code, "io_uring: %s; use --io auto or --io posix", text);
		return NULL;
	}
	io = calloc(1, sizeof(*io));
	if (!io) {
		err_nomem(e);
		return NULL;
	}
	io->done_end = &io->done;
	io->depth = depth == 0 ? 1 : depth < DEPTH_MAX ? depth : DEPTH_MAX;
	if (kind != IO_POSIX && !refused &&
	    uring_start(io, pools, npools, kind == IO_URING ? e : &why)) {
		if (kind == IO_URING) {
			free(io);
			return NULL;
		}
		log_debug("%s; using posix I/O", why.text);
		if (said)
			*said = "cannot set up an io_uring";
	}

	/* With posix an operation is finished at once: a second one would delay its handling. */
	if (!io->uring)
		io->depth = 1;
	return io;
}

void io_free(struct io *io)
{
	if (io && io->uring)
		uring_end(io);
	free(io);
}

const char *io_name(const struct io *io)
{
	if (!io->uring)
		return "posix";
	return uring_registered(io) ? "io_uring+registered" : "io_uring";
}

unsigned io_inflight(const struct io *io)
{
	return io->inflight;
}

unsigned io_depth(const struct io *io)
{
	return io->depth;
}

int io_submit(struct io *io, struct io_op *op)
{
	int r;

	if (io->inflight >= io->depth)
		return -EAGAIN;
	io->inflight++;
	r = FAULT(op->write ? "write" : "read", op->len);
	if (r < 0)
		io_finish(io, op, r);
	else if (io->uring)
		uring_submit(io, op);
	else
		io_finish(io, op, posix_rest(op, 0));
	return 0;
}

/* Move at most max finished operations to done; returns their number. */
static int take_done(struct io *io, struct io_op **done, int max)
{
	struct io_op *op;
	int n = 0;

	while (n < max && (op = io->done)) {
		io->done = op->next;
		if (!io->done)
			io->done_end = &io->done;
		op->next = NULL;
		io->inflight--;
		done[n++] = op;
	}

	return n;
}

/* Finish completed operations; with sleep, wait until at least one completes. */
static int io_wait(struct io *io, bool sleep)
{
	return io->uring ? uring_wait(io, sleep) : 0;
}

int io_reap(struct io *io, struct io_op **done, int min, int max)
{
	int n, r;

	if (min > max)
		min = max;
	/* Waiting for more operations than are in flight would never end. */
	if (min > 0 && (unsigned)min > io->inflight)
		min = (int)io->inflight;
	n = take_done(io, done, max);
	if (n < max && io->inflight > 0) {
		r = io_wait(io, n < min);
		if (r < 0)
			return n > 0 ? n : r;
		n += take_done(io, done + n, max - n);
	}
	while (n < min) {
		r = io_wait(io, true);
		if (r < 0)
			return n > 0 ? n : r;
		n += take_done(io, done + n, max - n);
	}
	return n;
}
