// SPDX-License-Identifier: Apache-2.0
/* Penalties and shares, as the settings want them. */
#include "server/ledger.h"
#include "server/auth.h"
#include "server/penalty.h"
#include "server/share.h"

#include <errno.h>
#include <stdlib.h>

enum { REMEMBERED = 4096 };      /* hosts, and users */
#define LEAST ((uint64_t)1 << 20) /* bytes; with less no transfer can be agreed on */

struct ledger {
	struct penalty *penalty;
	struct share *share;      /* NULL: memory is not counted */
	uint64_t memory;          /* of one session without a share */
};

static uint64_t now_ms(void)
{
	return now_ns() / 1000000;
}

void ledger_free(struct ledger *l)
{
	if (!l)
		return;
	penalty_free(l->penalty);
	share_free(l->share);
	free(l);
}

/* Shares that were given stay, also when there is no budget any more. */
int ledger_change(struct ledger *l, const struct srv_options *o)
{
	uint64_t budget = o->memory_budget;

	if (l->share)
		share_budget(l->share, budget ? budget : UINT64_MAX);
	else if (budget)
		l->share = share_new(budget, LEAST, o->memory);
	if (budget && !l->share)
		return -ENOMEM;
	l->memory = o->memory;
	return 0;
}

struct ledger *ledger_new(const struct srv_options *o)
{
	struct ledger *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->penalty = penalty_new(REMEMBERED);
	if (l->penalty && ledger_change(l, o) == 0)
		return l;
	ledger_free(l);
	return NULL;
}

int ledger_ask(struct ledger *l, const struct sockaddr_storage *host, const char *user)
{
	int ms = penalty_ask(l->penalty, now_ms(), host, user);

	return ms == PENALTY_REFUSED ? -EAGAIN : ms;
}

void ledger_checked(struct ledger *l, const struct sockaddr_storage *host, const char *user,
		    int code)
{
	if (code == -EACCES)
		penalty_failed(l->penalty, now_ms(), host, user);
	else if (code == 0 && !auth_is_anonymous(user))
		penalty_succeeded(l->penalty, now_ms(), host, user);
}

int ledger_begin(struct ledger *l, uint64_t id, const char *account, uint64_t *memory,
		 struct err *e)
{
	*memory = l->memory;
	return l->share ? share_take(l->share, id, account, l->memory, memory, e) : 0;
}

void ledger_end(struct ledger *l, uint64_t id)
{
	if (l->share)
		share_return(l->share, id);
}
