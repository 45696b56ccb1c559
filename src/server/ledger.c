// SPDX-License-Identifier: Apache-2.0
/* Penalties and shares, as the settings want them. */
#include "server/ledger.h"
#include "server/auth.h"
#include "server/penalty.h"
#include "server/share.h"
#include "transfer/transfer.h"

#include <errno.h>
#include <stdlib.h>

enum { REMEMBERED = 4096 };      /* hosts, and users */
#define LEAST ((uint64_t)1 << 20) /* bytes; with less no transfer can be agreed on */

struct ledger {
	struct penalty *penalty;
	struct share *share;      /* NULL: memory is not counted */
	uint64_t memory;          /* of one session without a share; 0: it chooses */
	uint64_t most;            /* what it chooses at most */
	uint64_t budget;          /* 0: none */
	uint64_t elsewhere;       /* bytes of it */
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

static uint64_t budget_here(const struct ledger *l)
{
	if (!l->budget)
		return UINT64_MAX;
	return l->elsewhere < l->budget ? l->budget - l->elsewhere : 0;
}

/* Shares that were given stay, also when there is no budget any more. */
int ledger_change(struct ledger *l, const struct srv_options *o)
{
	struct transfer_tuning t;

	if (!l->share && o->memory_budget) {
		l->share = share_new(o->memory_budget, LEAST, o->memory);
		if (!l->share)
			return -ENOMEM;
	}
	l->memory = o->memory;
	transfer_tuning_default(&t);
	l->most = o->memory ? o->memory : t.memory;
	l->budget = o->memory_budget;
	if (l->share)
		share_budget(l->share, budget_here(l));
	return 0;
}

uint64_t ledger_given(const struct ledger *l)
{
	return l->share ? share_given(l->share, NULL) : 0;
}

void ledger_elsewhere(struct ledger *l, uint64_t bytes)
{
	if (bytes == l->elsewhere)
		return;
	l->elsewhere = bytes;
	if (l->share)
		share_budget(l->share, budget_here(l));
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

uint64_t ledger_memory(const struct ledger *l, bool *counted, uint64_t *most)
{
	*counted = l->share != NULL;
	*most = l->share ? share_most(l->share) : l->most;
	return l->memory;
}

int ledger_want(struct ledger *l, uint64_t id, const char *account, uint64_t bytes, uint64_t *has,
		struct err *e)
{
	*has = bytes;
	return l->share ? share_change(l->share, id, account, bytes, has, e) : 0;
}

void ledger_end(struct ledger *l, uint64_t id)
{
	if (l->share)
		share_return(l->share, id);
}
