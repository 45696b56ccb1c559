// SPDX-License-Identifier: Apache-2.0
/* Block I/O by io_uring: many operations in flight from one thread. */
#include "storage/engine.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef HAVE_LIBURING
#include <liburing.h>

/* What liburing 2.1's header lacks, RHEL 9's first. */
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
	uint32_t done;      /* bytes before what is under way */
	uint32_t len;       /* bytes under way */
	bool blocking;      /* -EAGAIN came: a kernel thread does it, and may sleep */
	struct slot *next;  /* free slots */
};

/* A pool's region as the kernel has it registered: in pieces of whole blocks. */
struct region {
	const struct pool *pool;
	uint8_t *base;
	size_t bytes, piece;
	unsigned first;     /* index of its first piece */
};

struct uring {
	struct io io;       /* first: the engine is cast to it and back */
	struct io_uring ring;
	bool enabled;       /* the thread that submits first owns the ring */
	struct slot *slots, *free;
	struct region *regions; /* NULL: not registered */
	int nregions;
};

/* ---- submitting ---- */

/* The index of the registered buffer that holds op's memory; -1: none does. */
static int buffer_index(const struct uring *u, const struct io_op *op)
{
	const uint8_t *p = op->data;
	const struct region *r;
	size_t at;

	if (!op->block || !u->regions)
		return -1;
	for (int i = 0; i < u->nregions; i++) {
		r = &u->regions[i];
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
static void prepare(struct uring *u, struct slot *s, uint32_t len)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);
	struct io_op *op = s->op;
	uint8_t *p = (uint8_t *)op->data + s->done;
	uint64_t at = op->offset + s->done;
	int index = buffer_index(u, op);

	/* A slot has one entry at a time and the ring has as many: there is room. */
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

static void prepare_rest(struct uring *u, struct slot *s)
{
	prepare(u, s, FAULT_SHORT(s->op->write, s->op->len - s->done));
}

/* io_uring_enable_rings(), which liburing 2.3 declares and forgets to export. */
static void enable(struct uring *u)
{
	syscall(SYS_io_uring_register, u->ring.ring_fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0);
	u->enabled = true;
}

static void uring_submit(struct io *io, struct io_op *op)
{
	struct uring *u = (struct uring *)io;
	struct slot *s = u->free;

	if (op->len == 0) {
		io_finish(io, op, 0);
		return;
	}
	u->free = s->next;
	s->op = op;
	s->done = 0;
	s->blocking = false;
	prepare_rest(u, s);
	if (!u->enabled)
		enable(u);
	/* What is not taken now stays queued: uring_wait submits again and reports. */
	io_uring_submit(&u->ring);
}

/* ---- completing ---- */

static void finish(struct uring *u, struct slot *s, int64_t result)
{
	struct io_op *op = s->op;

	s->next = u->free;
	u->free = s;
	io_finish(&u->io, op, result);
}

/* The kernel takes no direct I/O of this alignment: its aligned part first, and what
 * is left then through the page cache. */
static void unaligned(struct uring *u, struct slot *s)
{
	uint32_t part = direct_part(s->op, s->done);

	if (part > 0 && part < s->len)
		prepare(u, s, part);
	else
		finish(u, s, direct_rest(s->op, s->done));
}

static void complete(struct uring *u, struct slot *s, int res)
{
	const struct io_op *op = s->op;

	if (res == -EINTR) {
		prepare(u, s, s->len);
	} else if (res == -EAGAIN && !s->blocking) {
		s->blocking = true;
		prepare(u, s, s->len);
	} else if (res == -EINVAL) {
		unaligned(u, s);
	} else if (res < 0) {
		finish(u, s, res);
	} else if (res == 0) {
		finish(u, s, op->write ? -EIO : (int64_t)s->done);
	} else {
		s->done += (uint32_t)res;
		if (s->done == op->len)
			finish(u, s, s->done);
		else
			prepare_rest(u, s);
	}
}

/* Submit what is queued, and let the kernel post completions; with sleep, wait for one. */
static int enter(struct uring *u, bool sleep)
{
	int r;

	if (sleep)
		r = io_uring_submit_and_wait(&u->ring, 1);
	else
		r = io_uring_submit_and_get_events(&u->ring);
	/* EAGAIN, EBUSY: short of memory for now, or completions to be taken first. */
	if (r == -EINTR || r == -EAGAIN || r == -EBUSY)
		return 0;
	return r < 0 ? r : 0;
}

static int uring_wait(struct io *io, bool sleep)
{
	struct uring *u = (struct uring *)io;
	struct io_uring_cqe *cqe;
	struct slot *s;
	int r, res;

	if (io_uring_cq_ready(&u->ring) == 0) {
		r = enter(u, sleep);
		if (r < 0)
			return r;
	}
	while (io_uring_peek_cqe(&u->ring, &cqe) == 0) {
		s = io_uring_cqe_get_data(cqe);
		res = cqe->res;
		io_uring_cqe_seen(&u->ring, cqe);
		complete(u, s, res);
	}
	if (io_uring_sq_ready(&u->ring) > 0)
		io_uring_submit(&u->ring);
	return 0;
}

static const char *uring_name(const struct io *io)
{
	const struct uring *u = (const struct uring *)io;

	return u->regions ? "io_uring+registered" : "io_uring";
}

/* ---- making and ending ---- */

static void uring_free(struct io *io)
{
	struct uring *u = (struct uring *)io;

	io_uring_queue_exit(&u->ring);
	free(u->regions);
	free(u->slots);
	free(u);
}

static const struct io_ops uring_ops = {
	.name = uring_name,
	.submit = uring_submit,
	.wait = uring_wait,
	.free = uring_free,
};

/* The best the kernel has. One thread submits and reaps, so completions need not
 * interrupt it (6.1; 5.19 at least spares the IPI). The ring starts disabled so that the
 * thread that uses it becomes its owner, not the one that made it. */
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

static void describe(struct region *r, const struct pool *pool, unsigned first)
{
	size_t stride = pool_stride(pool);

	r->pool = pool;
	r->base = pool_base(pool);
	r->bytes = pool_bytes(pool);
	r->piece = r->bytes <= REGISTER_MAX ? r->bytes : REGISTER_MAX / stride * stride;
	r->first = first;
}

static unsigned pieces(const struct region *r)
{
	return (unsigned)((r->bytes + r->piece - 1) / r->piece);
}

/* Register the pools' regions; 0, or the negative errno for which it cannot be. */
static int register_pools(struct uring *u, struct pool *const *pools, int npools)
{
	CLEANUP_FREE struct region *regions = calloc((size_t)npools, sizeof(*regions));
	CLEANUP_FREE struct iovec *iov = NULL;
	unsigned n = 0, k;
	int r;

	if (!regions)
		return -ENOMEM;
	for (int i = 0; i < npools; i++) {
		describe(&regions[i], pools[i], n);
		n += pieces(&regions[i]);
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
	r = io_uring_register_buffers(&u->ring, iov, n);
	if (r < 0)
		return r;
	u->regions = steal_ptr(&regions);
	u->nregions = npools;
	return 0;
}

struct io *uring_new(unsigned depth, struct pool *const *pools, int npools, struct err *e)
{
	struct uring *u = calloc(1, sizeof(*u));
	int r = -ENOMEM;

	if (!u)
		goto fail;
	u->slots = calloc(depth, sizeof(*u->slots));
	if (!u->slots)
		goto fail_u;
	for (unsigned i = 0; i < depth; i++) {
		u->slots[i].next = u->free;
		u->free = &u->slots[i];
	}
	r = make_ring(&u->ring, depth);
	if (r < 0)
		goto fail_slots;
	io_init(&u->io, &uring_ops, depth);
	if (npools > 0) {
		r = register_pools(u, pools, npools);
		if (r < 0)
			log_debug("io_uring: buffers stay unregistered: %s%s", strerror(-r),
				  r == -ENOMEM ? " (see ulimit -l)" : "");
	}
	return &u->io;

fail_slots:
	free(u->slots);
fail_u:
	free(u);
fail:
	err_sys(e, r, "an io_uring of %u entries%s", depth,
		r == -ENOMEM ? " (see ulimit -l)" : "");
	return NULL;
}

/* ---- whether the kernel lets us ---- */

static pthread_once_t asked = PTHREAD_ONCE_INIT;
static int refusal; /* negative errno; 0: none. Written under asked. */

static void ask(void)
{
	struct io_uring ring;
	int r = io_uring_queue_init(1, &ring, 0);

	if (r == 0)
		io_uring_queue_exit(&ring);
	/* Anything else may be otherwise the next time. */
	else if (r == -ENOSYS || r == -EPERM || r == -EACCES)
		refusal = r;
}

const char *uring_refused(int *code)
{
	pthread_once(&asked, ask);
	*code = refusal;
	if (refusal == 0)
		return NULL;
	if (refusal == -ENOSYS)
		return "this kernel has none, or seccomp hides it";
	return "the kernel forbids it (sysctl kernel.io_uring_disabled, or seccomp)";
}

#else /* without liburing */

struct io *uring_new(unsigned depth, struct pool *const *pools, int npools, struct err *e)
{
	(void)depth;
	(void)pools;
	(void)npools;
	err_set(e, -ENOSYS, "built without liburing");
	return NULL;
}

const char *uring_refused(int *code)
{
	*code = -ENOSYS;
	return "built without liburing";
}

#endif
