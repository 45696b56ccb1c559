// SPDX-License-Identifier: Apache-2.0
/* What a session has in all is asked for anew with each transfer that begins or ends. */
#include "server/loan.h"
#include "server/monitor.h"
#include "server/msg.h"

#include <errno.h>
#include <string.h>

enum { ANSWER_MS = 60 * 1000 };

void loan_init(struct loan *l, int line)
{
	*l = (struct loan){ .line = line };
	pthread_mutex_init(&l->lock, NULL);
}

void loan_destroy(struct loan *l)
{
	pthread_mutex_destroy(&l->lock);
}

/* With l->lock held. */
static int ask(struct loan *l, uint64_t total, struct err *e)
{
	struct session_ask q = { .memory = total };
	struct session_answer a;
	int rc = msg_send(l->line, &q, sizeof(q), -1, ANSWER_MS);

	if (rc == 0)
		rc = msg_receive(l->line, &a, sizeof(a), NULL, ANSWER_MS);
	/* An answer that is late would be taken for the next one. */
	if (rc == -ETIMEDOUT)
		shutdown(l->line, SHUT_RDWR);
	if (rc < 0)
		return err_sys(e, rc, "no answer from the monitor");
	a.why[sizeof(a.why) - 1] = '\0';
	if (a.code < 0)
		return err_set(e, a.code, "%s, try again later", a.why);
	l->held = a.memory;
	return 0;
}

int loan_take(struct loan *l, uint64_t want, uint64_t *got, struct err *e)
{
	LOCK_GUARD(guard, &l->lock);
	uint64_t before = l->held;
	int rc = ask(l, before + want, e);

	if (rc == 0 && l->held <= before)
		rc = err_set(e, -EPROTO, "the monitor gave nothing");
	*got = rc == 0 ? l->held - before : 0;
	return rc;
}

void loan_give_back(struct loan *l, uint64_t bytes)
{
	LOCK_GUARD(guard, &l->lock);
	struct err e = ERR_INIT;

	if (ask(l, l->held - bytes, &e) < 0)
		log_warn("memory of a transfer cannot be given back: %s", e.text);
}

static int take(void *arg, uint64_t want, uint64_t *got, struct err *e)
{
	return loan_take(arg, want, got, e);
}

static void give_back(void *arg, uint64_t bytes)
{
	loan_give_back(arg, bytes);
}

struct transfer_purse loan_purse(struct loan *l)
{
	if (l->line < 0)
		return (struct transfer_purse){ 0 };
	return (struct transfer_purse){ .take = take, .give_back = give_back, .arg = l };
}
