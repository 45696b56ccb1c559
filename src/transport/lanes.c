// SPDX-License-Identifier: Apache-2.0
/* Lanes: byte streams side by side in one message stream, each with a window of its own, as
 * the channels of SSH have (RFC 4254 §5.2).
 *
 * One thread reads the message stream and never waits for anything else: what comes fits, or
 * the peer has broken the window. So whoever writes gets room as soon as the peer's reader of
 * that lane reads, whatever becomes of the others. */
#include "transport/transport.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The peer is told of room not byte by byte. */
#define TELL_FROM (LANE_WINDOW / 4)
#define FIRST_ROOM 4096u
/* So long a lane that has been given up waits for what it shares with others. */
#define GIVEN_UP_MS 2000

/* Locks, in the order they are taken: one lane's, or that of all; and none while the message
 * stream is written to, which has its own. */
struct lane {
	struct stream stream;
	struct lanes *all;
	uint8_t number;
	pthread_mutex_t lock;        /* guards the rest */
	pthread_cond_t changed;
	uint8_t *in;                 /* a ring of size bytes, a power of two up to LANE_WINDOW */
	size_t size, first, len;
	size_t untold;               /* bytes read since the peer was last given room */
	size_t room;                 /* bytes that the peer takes */
	bool over_here, over_there;
	unsigned writing;            /* threads of it that are in the message stream */
	bool aborted;
	int error;                   /* of all lanes */
};

struct lanes {
	struct mstream *m;
	int write_timeout;           /* m's own */
	pthread_t reader;
	pthread_mutex_t lock;        /* guards done and error */
	pthread_cond_t changed;
	bool done;                   /* the reader reads no more */
	int error;                   /* what ended them all, whoever met it */
	unsigned ended;              /* lanes that the other side has ended: the reader's */
	unsigned n;
	struct lane lane[LANES_MAX];
};

static struct lane *lane(struct stream *s)
{
	return (struct lane *)s;
}

/* ---- the ring ---- */

static int ring_grow(struct lane *n, size_t need)
{
	size_t size = n->size ? n->size : FIRST_ROOM, part;
	uint8_t *in;

	while (size < need)
		size *= 2;
	if (size == n->size)
		return 0;
	in = malloc(size);
	if (!in)
		return -ENOMEM;
	if (n->len) {
		part = n->size - n->first < n->len ? n->size - n->first : n->len;
		memcpy(in, n->in + n->first, part);
		memcpy(in + part, n->in, n->len - part);
	}
	free(n->in);
	n->in = in;
	n->size = size;
	n->first = 0;
	return 0;
}

static int ring_put(struct lane *n, const uint8_t *p, size_t len)
{
	size_t at, part;
	int r = ring_grow(n, n->len + len);

	if (r)
		return r;
	at = (n->first + n->len) & (n->size - 1);
	part = n->size - at < len ? n->size - at : len;
	memcpy(n->in + at, p, part);
	memcpy(n->in, p + part, len - part);
	n->len += len;
	return 0;
}

static size_t ring_get(struct lane *n, uint8_t *p, size_t len)
{
	size_t part;

	if (len > n->len)
		len = n->len;
	part = n->size - n->first < len ? n->size - n->first : len;
	memcpy(p, n->in + n->first, part);
	memcpy(p + part, n->in, len - part);
	n->first = (n->first + len) & (n->size - 1);
	n->len -= len;
	return len;
}

/* ---- what comes ---- */

static int take_data(struct lane *n, const struct lane_frame *f)
{
	/* Nobody reads it here; the END that says so may still be on its way. */
	if (n->over_here)
		return 0;
	if (f->len > LANE_WINDOW - n->len - n->untold)
		return -EPROTO;
	return ring_put(n, f->data, f->len);
}

static int take_room(struct lane *n, const struct lane_frame *f)
{
	if (f->room > LANE_WINDOW - n->room)
		return -EPROTO;
	n->room += f->room;
	return 0;
}

static int take_frame(struct lanes *l, uint8_t type, struct buf *payload)
{
	struct lane_frame f;
	struct lane *n;
	int r = lane_frame_get(type, buf_ptr(payload), buf_len(payload), l->n, &f);

	if (r)
		return r;
	n = &l->lane[f.lane];
	LOCK_GUARD(guard, &n->lock);
	if (n->over_there)
		return -EPROTO;
	if (type == BULK_LANE_DATA) {
		r = take_data(n, &f);
	} else if (type == BULK_LANE_ROOM) {
		r = take_room(n, &f);
	} else {
		n->over_there = true;
		l->ended++;
	}
	pthread_cond_broadcast(&n->changed);
	return r;
}

static int error_of(const struct lane *n)
{
	return n->aborted ? -ECANCELED : n->error;
}

/* What the lanes' users are told, now and whenever they ask: no time-out and no wish to stop
 * of theirs, but that the connection is gone. */
static int lasting(int error)
{
	return error == -ETIMEDOUT || error == -ECANCELED ? -EPIPE : error;
}

/* The first reason is everybody's, and known before anybody is woken: who is woken would have
 * none of his own. */
static void fail_all(struct lanes *l, int error)
{
	pthread_mutex_lock(&l->lock);
	if (!l->error)
		l->error = lasting(error);
	error = l->error;
	pthread_mutex_unlock(&l->lock);
	for (unsigned i = 0; i < l->n; i++) {
		LOCK_GUARD(guard, &l->lane[i].lock);
		l->lane[i].error = error;
		pthread_cond_broadcast(&l->lane[i].changed);
	}
	ms_abort(l->m); /* whoever writes gets no answer any more */
}

static int read_frames(struct lanes *l)
{
	struct buf *payload CLEANUP_BUF = buf_new(BULK_FRAME_MAX);
	int r = payload ? 0 : -ENOMEM;

	while (!r && l->ended < l->n) {
		uint8_t type;

		r = ms_read_frame(l->m, &type, payload, BULK_FRAME_MAX, -1);
		if (!r && type < BULK_SKIPPED)
			r = take_frame(l, type, payload);
	}
	return r;
}

static void *reader_main(void *arg)
{
	struct lanes *l = arg;
	int r = read_frames(l);

	if (r)
		fail_all(l, r);
	LOCK_GUARD(guard, &l->lock);
	l->done = true;
	pthread_cond_broadcast(&l->changed);
	return NULL;
}

/* ---- to the message stream ---- */

static void writes(struct lane *n, int more)
{
	LOCK_GUARD(guard, &n->lock);

	n->writing += (unsigned)more;
	if (!n->writing)
		pthread_cond_broadcast(&n->changed);
}

/* 0 when the reader has come to its end; or a negative errno. */
static int await_reader(struct lanes *l, int timeout_ms)
{
	uint64_t end = ns_after(timeout_ms);
	int r = 0;
	LOCK_GUARD(guard, &l->lock);

	while (!l->done && !r)
		r = cond_wait_until(&l->changed, &l->lock, end);
	return l->done ? 0 : r;
}

/* A message of lane n. When one cannot be sent, no other can. A peer that is gone may have said
 * why before it went: the reader comes to that first. */
static int send_frame(struct lane *n, uint8_t type, const struct iovec *iov, int pieces)
{
	int r;

	writes(n, 1);
	r = ms_write_framev(n->all->m, type, iov, pieces);
	writes(n, -1);
	if (r == -EPIPE)
		await_reader(n->all, GIVEN_UP_MS);
	if (r >= 0)
		return r;
	fail_all(n->all, r);
	LOCK_GUARD(guard, &n->lock);
	return error_of(n);
}

/* Nobody is to sleep in the message stream for a lane that was given up; if somebody still
 * does after a while, it takes nothing any more, and that ends all lanes. */
static void await_writer(struct lane *n)
{
	uint64_t end = ns_after(GIVEN_UP_MS);
	bool stuck;

	pthread_mutex_lock(&n->lock);
	while (n->writing && !cond_wait_until(&n->changed, &n->lock, end))
		;
	stuck = n->writing;
	pthread_mutex_unlock(&n->lock);
	if (stuck)
		ms_abort(n->all->m);
}

static bool nobody_left(struct lanes *l)
{
	bool aborted = false;

	for (unsigned i = 0; i < l->n; i++) {
		LOCK_GUARD(guard, &l->lane[i].lock);
		if (!l->lane[i].aborted && !l->lane[i].over_here)
			return false;
		aborted |= l->lane[i].aborted;
	}
	return aborted;
}

/* With all of them given up or ended, their last messages are not worth minutes. */
static void hurry(struct lane *n)
{
	struct lanes *l = n->all;

	if (!nobody_left(l))
		return;
	ms_set_write_timeout(l->m, GIVEN_UP_MS);
	for (unsigned i = 0; i < l->n; i++)
		if (&l->lane[i] != n)
			await_writer(&l->lane[i]);
}

/* ---- a lane as a stream ---- */

/* 1: there is something to read; 0: there will be nothing any more; or a negative errno. */
static int wait_bytes(struct lane *n, uint64_t end)
{
	int r = 0;

	while (!n->len && !error_of(n) && !n->over_there && !r)
		r = cond_wait_until(&n->changed, &n->lock, end);
	if (n->len && !n->aborted)
		return 1;
	if (n->over_there && !n->aborted)
		return 0;
	return error_of(n) ? error_of(n) : r;
}

static ssize_t lane_read(struct stream *s, void *p, size_t len, int timeout_ms)
{
	struct lane *n = lane(s);
	uint8_t more[LANE_ROOM_BYTES];
	size_t told = 0;
	ssize_t r;

	pthread_mutex_lock(&n->lock);
	r = wait_bytes(n, ns_after(timeout_ms));
	if (r > 0) {
		r = (ssize_t)ring_get(n, p, len);
		n->untold += (size_t)r;
		if (n->untold >= TELL_FROM && !n->over_there) {
			told = n->untold;
			n->untold = 0;
		}
	}
	pthread_mutex_unlock(&n->lock);
	if (told) {
		lane_room_put(more, n->number, (uint32_t)told);
		/* An error is the reader's, too; what has come is good. */
		send_frame(n, BULK_LANE_ROOM, &(struct iovec){ more, sizeof(more) }, 1);
	}
	return r;
}

/* How many of len bytes may go now: they are taken out of the room. */
static ssize_t wait_room(struct lane *n, size_t len, uint64_t end)
{
	int r = 0;
	LOCK_GUARD(guard, &n->lock);

	while (!n->room && !error_of(n) && !n->over_there && !r)
		r = cond_wait_until(&n->changed, &n->lock, end);
	if (error_of(n) || n->over_there)
		return error_of(n) ? error_of(n) : -EPIPE;
	if (!n->room)
		return r;
	len = len < LANE_PIECE ? len : LANE_PIECE;
	len = len < n->room ? len : n->room;
	n->room -= len;
	return (ssize_t)len;
}

static ssize_t lane_write(struct stream *s, const void *p, size_t len, int timeout_ms)
{
	struct lane *n = lane(s);
	ssize_t now = len ? wait_room(n, len, ns_after(timeout_ms)) : 0;
	struct iovec piece[] = { { &n->number, 1 }, { (void *)p, (size_t)now } };
	int r;

	if (now <= 0)
		return now;
	r = send_frame(n, BULK_LANE_DATA, piece, 2);
	return r < 0 ? r : now;
}

static size_t lane_pending(struct stream *s)
{
	struct lane *n = lane(s);
	LOCK_GUARD(guard, &n->lock);

	return n->len;
}

/* The end is told when it is freed. */
static int lane_shutdown(struct stream *s)
{
	(void)s;
	return 0;
}

/* The others go on, unless its writer is stuck in what they share. */
static void lane_abort(struct stream *s)
{
	struct lane *n = lane(s);

	pthread_mutex_lock(&n->lock);
	n->aborted = true;
	pthread_cond_broadcast(&n->changed);
	pthread_mutex_unlock(&n->lock);
	await_writer(n);
	hurry(n);
}

static void lane_disown(struct stream *s)
{
	(void)s; /* it has no descriptors */
}

static void lane_free(struct stream *s)
{
	struct lane *n = lane(s);
	int error;

	pthread_mutex_lock(&n->lock);
	n->over_here = true;
	n->len = 0;
	free(steal_ptr(&n->in));
	n->size = 0;
	error = n->error;
	pthread_mutex_unlock(&n->lock);
	hurry(n);
	if (!error)
		send_frame(n, BULK_LANE_END, &(struct iovec){ &n->number, 1 }, 1);
}

static const struct stream_ops lane_ops = {
	.read = lane_read,
	.write = lane_write,
	.pending = lane_pending,
	.shutdown = lane_shutdown,
	.abort = lane_abort,
	.disown = lane_disown,
	.free = lane_free,
};

/* ---- all of them ---- */

static void lanes_free(struct lanes *l)
{
	for (unsigned i = 0; i < l->n; i++) {
		free(l->lane[i].in);
		pthread_cond_destroy(&l->lane[i].changed);
		pthread_mutex_destroy(&l->lane[i].lock);
	}
	pthread_cond_destroy(&l->changed);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

static void lanes_init(struct lanes *l, struct mstream *m, unsigned n)
{
	l->m = m;
	l->write_timeout = ms_write_timeout(m);
	l->n = n;
	pthread_mutex_init(&l->lock, NULL);
	cond_init(&l->changed);
	for (unsigned i = 0; i < n; i++) {
		l->lane[i] = (struct lane){ .stream = { &lane_ops }, .all = l,
					    .number = (uint8_t)i, .room = LANE_WINDOW };
		pthread_mutex_init(&l->lane[i].lock, NULL);
		cond_init(&l->lane[i].changed);
	}
}

struct lanes *lanes_new(struct mstream *m, unsigned n, struct err *e)
{
	struct lanes *l = n >= 1 && n <= LANES_MAX ? calloc(1, sizeof(*l)) : NULL;
	int r;

	if (!l) {
		err_set(e, -ENOMEM, "no room for %u lanes", n);
		return NULL;
	}
	lanes_init(l, m, n);
	r = thread_start(&l->reader, "lanes", reader_main, l);
	if (!r)
		return l;
	lanes_free(l);
	err_sys(e, r, "lanes of the control connection");
	return NULL;
}

struct stream *lanes_take(struct lanes *l, unsigned i)
{
	return &l->lane[i].stream;
}

int lanes_end(struct lanes *l, int timeout_ms)
{
	int r = await_reader(l, timeout_ms);

	if (r)
		ms_abort(l->m);
	pthread_join(l->reader, NULL);
	r = r ? r : l->error;
	ms_set_write_timeout(l->m, l->write_timeout);
	lanes_free(l);
	return r;
}
