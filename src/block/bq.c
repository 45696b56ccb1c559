// SPDX-License-Identifier: Apache-2.0
/* Queues of blocks that close with a cause. */
#include "block/block.h"

enum { CLOSED_CLEAN = 1 }; /* a value of state; 0: open; negative: the closing error */

/* fn is called without the lock, because it may take other locks. */
struct waker {
	void (*fn)(void *arg);
	void *arg;
};

struct bq {
	pthread_mutex_t lock;     /* guards all below; no other lock is taken under it */
	struct waker waker;
	pthread_cond_t not_empty; /* a block was added, or the queue was closed */
	struct block *tail;       /* the youngest, when head is not NULL */
	uint32_t poppers;         /* threads asleep in bq_pop(); 0: no signal is sent */
	/* bq_try_pop() reads these without the lock, so stores are atomic. */
	struct block *head;       /* the oldest; linked by next */
	int state;
};

struct bq *bq_new(void)
{
	pthread_mutexattr_t attr;
	struct bq *q = calloc(1, sizeof(*q));

	if (!q)
		return NULL;
	/* The lock is held for a few instructions: spin a little before a system call. */
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ADAPTIVE_NP);
	pthread_mutex_init(&q->lock, &attr);
	pthread_mutexattr_destroy(&attr);
	pthread_cond_init(&q->not_empty, NULL);
	return q;
}

void bq_set_notify(struct bq *q, void (*fn)(void *arg), void *arg)
{
	LOCK_GUARD(guard, &q->lock);

	q->waker = (struct waker){ fn, arg };
}

/* Call with the lock held. The result of bq_pop(), or -EAGAIN: the queue is empty and open. */
static int pop_now(struct bq *q, struct block **b)
{
	if (q->state < 0)
		return q->state;
	if (!q->head)
		return q->state == CLOSED_CLEAN ? 1 : -EAGAIN;
	*b = q->head;
	__atomic_store_n(&q->head, q->head->next, __ATOMIC_RELEASE);
	(*b)->next = NULL;
	return 0;
}

int bq_push(struct bq *q, struct block *b)
{
	struct waker w = { 0 };

	pthread_mutex_lock(&q->lock);
	if (q->state) {
		pthread_mutex_unlock(&q->lock);
		return -EPIPE;
	}
	b->next = NULL;
	if (q->head) {
		q->tail->next = b;
	} else {
		/* Copy it now: after the unlock the thread that pops b may free q. */
		w = q->waker;
		__atomic_store_n(&q->head, b, __ATOMIC_RELEASE);
	}
	q->tail = b;
	if (q->poppers)
		pthread_cond_signal(&q->not_empty);
	pthread_mutex_unlock(&q->lock);
	if (w.fn)
		w.fn(w.arg);
	return 0;
}

int bq_pop(struct bq *q, struct block **b)
{
	LOCK_GUARD(guard, &q->lock);
	int rc;

	*b = NULL;
	while ((rc = pop_now(q, b)) == -EAGAIN && q->state == 0) {
		q->poppers++;
		pthread_cond_wait(&q->not_empty, &q->lock);
		q->poppers--;
	}
	return rc;
}

int bq_try_pop(struct bq *q, struct block **b)
{
	*b = NULL;
	/* Pollers usually find the queue empty; they should not compete with the pushers for the
	 * lock to find that out. A later push notifies them. */
	if (!__atomic_load_n(&q->head, __ATOMIC_ACQUIRE) &&
	    __atomic_load_n(&q->state, __ATOMIC_ACQUIRE) == 0)
		return -EAGAIN;
	LOCK_GUARD(guard, &q->lock);
	return pop_now(q, b);
}

void bq_close(struct bq *q, int cause)
{
	struct waker w;

	pthread_mutex_lock(&q->lock);

	/* Keep the first error. An error replaces a clean end, because the queued blocks are then
	 * useless. */
	if (q->state == 0 || (q->state == CLOSED_CLEAN && cause < 0))
		__atomic_store_n(&q->state, cause < 0 ? cause : CLOSED_CLEAN, __ATOMIC_RELEASE);
	pthread_cond_broadcast(&q->not_empty);
	w = q->waker;
	pthread_mutex_unlock(&q->lock);
	if (w.fn)
		w.fn(w.arg);
}

void bq_free(struct bq *q)
{
	struct block *b, *next;

	if (!q)
		return;
	/* The last pusher may still be releasing the lock. */
	pthread_mutex_lock(&q->lock);
	b = q->head;
	pthread_mutex_unlock(&q->lock);
	for (; b; b = next) {
		next = b->next;
		pool_put(b);
	}
	pthread_cond_destroy(&q->not_empty);
	pthread_mutex_destroy(&q->lock);
	free(q);
}

bool bq_is_empty(struct bq *q)
{
	return !__atomic_load_n(&q->head, __ATOMIC_ACQUIRE);
}
