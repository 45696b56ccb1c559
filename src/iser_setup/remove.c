// SPDX-License-Identifier: Apache-2.0
/* Remove: what the state names goes, and last the state, unless that is kept. */
#include "iser_setup/change.h"

#include "iser_setup/fault.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool is_known(const struct iser_state *s)
{
	return s->applied || s->applying;
}

static int unknown(const struct change *c, struct err *e)
{
	return err_set(e, -ENOENT, "no plan called %s was applied here%s%s%s",
		       printable(c->state.name), c->n_others ? "; there is " : "",
		       c->n_others ? c->others[0].name : "", c->n_others > 1 ? ", and others" : "");
}

static int carry(struct change *c, struct err *e)
{
	size_t done = 0;
	int r = change_keep(c, e);

	if (!r) {
		r = fault_iser("kept");
		r = r ? err_sys(e, r, "a fault on purpose") : 0;
	}
	if (!r)
		r = carry_out(&c->carry, &c->steps, &done, e);
	return r || c->o->keep ? r : iser_state_remove(&c->state, e);
}

int change_remove(const char *name, const struct change_options *o, struct change_report *r,
		  struct err *e)
{
	struct change c = { .o = o, .report = r };
	int ret = change_begin(&c, name, e);

	if (!ret && !r->problems.n && !is_known(&c.before))
		ret = unknown(&c, e);
	if (!ret && r->problems.n)
		ret = change_problems(&c, "removed", e);
	if (!ret && o->dry)
		change_tell(&c);
	else if (!ret)
		ret = carry(&c, e);
	change_end(&c);
	return ret;
}
