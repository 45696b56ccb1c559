// SPDX-License-Identifier: Apache-2.0
/* Bounded queues of blocks that close with a cause. */
#include "block/block.h"

#include <errno.h>

enum { CLOSED_CLEAN = 1 }; /* in state: 0 is open, negative the error it closed with */

/* Who is told of news, outside of the lock: fn may take locks of its own. */
struct waker {
	void (*fn)(void *arg);
	void *arg;
};

struct bq {
	uint32_t max;             /* constant; 0: no bound */
	pthread_mutex_t lock;     /* guards all below; no other lock is taken under it */
	struct waker waker;
	pthread_cond_t not_empty; /* a block came, or the queue was closed */
	pthread_cond_t not_full;  /* a block went, or the queue was closed */
	struct block *head;       /* the oldest; linked by next */
	struct block *tail;       /* the youngest, when head is not NULL */
	uint32_t poppers;         /* asleep: nobody is woken when there are none */
	uint32_t pushers;         /* asleep */
	/* Read without the lock by bq_try_pop() and bq_len(): atomic stores. */
	uint32_t len;
	int state;
};

struct bq *bq_new(uint32_t max)
{
	pthread_mutexattr_t attr;
	struct bq *q = calloc(1, sizeof(*q));

	if (!q)
		return NULL;
	q->max = max;
	/* The lock is held for a few instructions only: spin a little before a
	 * system call. */
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ADAPTIVE_NP);
	pthread_mutex_init(&q->lock, &attr);
	pthread_mutexattr_destroy(&attr);
	pthread_cond_init(&q->not_empty, NULL);
	pthread_cond_init(&q->not_full, NULL);
	return q;
}

void bq_set_notify(struct bq *q, void (*fn)(void *arg), void *arg)
{
	LOCK_GUARD(guard, &q->lock);

	q->waker = (struct waker){ fn, arg };
}

/* ---- called with the lock held ---- */

static void append(struct bq *q, struct block *b)
{
	b->next = NULL;
	if (q->head)
		q->tail->next = b;
	else
		q->head = b;
	q->tail = b;
	__atomic_store_n(&q->len, q->len + 1, __ATOMIC_RELEASE);
	if (q->poppers)
		pthread_cond_signal(&q->not_empty);
}

static struct block *take_head(struct bq *q)
{
	struct block *b = q->head;

	q->head = b->next;
	b->next = NULL;
	__atomic_store_n(&q->len, q->len - 1, __ATOMIC_RELEASE);
	if (q->pushers)
		pthread_cond_signal(&q->not_full);
	return b;
}

static bool is_full(const struct bq *q)
{
	return q->max && q->len >= q->max;
}

/* What a popper gets now; -EAGAIN: nothing yet. */
static int pop_now(struct bq *q, struct block **b)
{
	if (q->state < 0)
		return q->state;
	if (!q->head)
		return q->state == CLOSED_CLEAN ? 1 : -EAGAIN;
	*b = take_head(q);
	return 0;
}

static void sleep_on(struct bq *q, pthread_cond_t *cond, uint32_t *sleepers)
{
	(*sleepers)++;
	pthread_cond_wait(cond, &q->lock);
	(*sleepers)--;
}

static void wake(const struct waker *w)
{
	if (w->fn)
		w->fn(w->arg);
}

/* Append b once there is room. w: who is to be woken, when the queue was empty. It is
 * read now: once b is in, whoever pops it may be the one to free q. */
static int push_locked(struct bq *q, struct block *b, struct waker *w)
{
	LOCK_GUARD(guard, &q->lock);

	while (is_full(q) && q->state == 0)
		sleep_on(q, &q->not_full, &q->pushers);
	if (q->state)
		return -EPIPE;
	if (!q->head)
		*w = q->waker;
	append(q, b);
	return 0;
}

/* ---- the verbs ---- */

int bq_push(struct bq *q, struct block *b)
{
	struct waker w = { 0 };
	int rc = push_locked(q, b, &w);

	wake(&w);
	return rc;
}

int bq_pop(struct bq *q, struct block **b)
{
	LOCK_GUARD(guard, &q->lock);
	int rc;

	*b = NULL;
	while ((rc = pop_now(q, b)) == -EAGAIN && q->state == 0)
		sleep_on(q, &q->not_empty, &q->poppers);
	return rc;
}

int bq_try_pop(struct bq *q, struct block **b)
{
	*b = NULL;
	/* Pollers find an empty queue most times, and should not fight the pushers
	 * for the lock to learn it. What comes after this look is notified. */
	if (__atomic_load_n(&q->len, __ATOMIC_ACQUIRE) == 0 &&
	    __atomic_load_n(&q->state, __ATOMIC_ACQUIRE) == 0)
		return -EAGAIN;
	LOCK_GUARD(guard, &q->lock);
	return pop_now(q, b);
}

/* An error overrides a clean end, because what is inside must not be worked on any
 * more; it is not overridden itself. */
static struct waker close_locked(struct bq *q, int cause)
{
	LOCK_GUARD(guard, &q->lock);

	if (q->state == 0 || (q->state == CLOSED_CLEAN && cause < 0))
		__atomic_store_n(&q->state, cause < 0 ? cause : CLOSED_CLEAN, __ATOMIC_RELEASE);
	pthread_cond_broadcast(&q->not_empty);
	pthread_cond_broadcast(&q->not_full);
	return q->waker;
}

void bq_close(struct bq *q, int cause)
{
	struct waker w = close_locked(q, cause);

	wake(&w);
}

uint32_t bq_len(struct bq *q)
{
	return __atomic_load_n(&q->len, __ATOMIC_ACQUIRE);
}

void bq_free(struct bq *q)
{
	struct block *b, *next;

	if (!q)
		return;
	/* Whoever pushed last may still be letting go of the lock. */
	pthread_mutex_lock(&q->lock);
	b = q->head;
	pthread_mutex_unlock(&q->lock);
	for (; b; b = next) {
		next = b->next;
		pool_put(b);
	}
	pthread_cond_destroy(&q->not_empty);
	pthread_cond_destroy(&q->not_full);
	pthread_mutex_destroy(&q->lock);
	free(q);
}
