// SPDX-License-Identifier: Apache-2.0
/* The frame of the threads that read or write files: their start, operations, and end. */
#include "transfer/setup.h"

static int file_thread_done(struct file_thread *t, struct io_op *op)
{
	int r = t->kind->done(t, op);

	op->next = t->spare;
	t->spare = op;
	return r;
}

int file_thread_reap(struct file_thread *t, int min)
{
	struct io_op *done[FILE_DEPTH];
	int n = io_reap(t->io, done, min, FILE_DEPTH), r = 0;

	if (n < 0)
		return xfer_fail(t->x, n, "%s: %s", t->kind->verb, strerror(-n));
	for (int i = 0; i < n; i++) {
		int one = file_thread_done(t, done[i]);

		r = r ? r : one;
	}
	return r;
}

int file_thread_submit(struct file_thread *t, const struct io_op *wanted)
{
	struct io_op *op = t->spare;
	int r, reaped = 0;

	t->spare = op->next;
	*op = *wanted;
	while ((r = io_submit(t->io, op)) == -EAGAIN && !reaped)
		reaped = file_thread_reap(t, 1);
	if (r) {
		op->result = r;
		r = file_thread_done(t, op);
		return reaped ? reaped : r;
	}
	if (reaped)
		return reaped;
	return io_inflight(t->io) >= t->depth ? file_thread_reap(t, 1) : 0;
}

static void *file_thread_main(void *arg)
{
	struct file_thread *t = arg;

	place_self(&t->cpus);
	t->kind->run(t);
	for (unsigned k = t->depth; k && io_inflight(t->io); k--)
		file_thread_reap(t, 1);
	return NULL;
}

static void file_thread_free(struct file_thread *t)
{
	if (!t)
		return;
	io_free(t->io);
	t->kind->end(t);
	free(t);
}

static struct file_thread *file_thread_new(struct xfer *x, const struct file_thread_kind *kind,
					   enum io_kind engine, unsigned i, struct err *e)
{
	struct file_thread *t = calloc(1, kind->size);
	const char *said = NULL;

	if (!t) {
		err_nomem(e);
		return NULL;
	}
	t->x = x;
	t->kind = kind;
	t->cpus = placement_io_cpus(x->placement);
	t->depth = FILE_DEPTH;
	for (unsigned k = t->depth; k-- > 0; t->spare = &t->ops[k])
		t->ops[k].next = t->spare;

	t->io = io_new(engine, t->depth, x->pools, (int)x->npaths, &said, e);
	if (t->io && !i)
		log_debug("%s by %s%s%s", kind->verb, io_name(t->io), said ? ": " : "",
			  said ? said : "");
	if (t->io && !kind->begin(t, i))
		return t;
	if (t->io)
		err_nomem(e);
	file_thread_free(t);
	return NULL;
}

int file_threads_start(struct file_threads *g, struct xfer *x, const struct file_thread_kind *kind,
		       enum io_kind engine, struct err *e)
{
	placement_say_io(x->placement, kind->past, g->n);
	for (unsigned i = 0; i < g->n; i++) {
		struct file_thread *t = file_thread_new(x, kind, engine, i, e);
		char name[16];
		int r;

		if (!t)
			return e->code;
		snprintf(name, sizeof(name), "%s%u", kind->name, i);
		r = thread_start(&t->thread, name, file_thread_main, t);
		if (r) {
			file_thread_free(t);
			return thread_failed(e, r);
		}
		g->at[i] = t;
	}
	return 0;
}

void file_threads_join(struct file_threads *g)
{
	for (unsigned i = 0; i < g->n && g->at[i]; i++) {
		pthread_join(g->at[i]->thread, NULL);
		file_thread_free(steal_ptr(&g->at[i]));
	}
}

unsigned file_threads_wanted(const struct xfer *x, unsigned wanted)
{
	unsigned n = wanted ? wanted : tuning_threads(&x->agr, placement_io_width(x->placement));

	return n > FILE_THREADS_MAX ? FILE_THREADS_MAX : n;
}
