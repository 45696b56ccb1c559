// SPDX-License-Identifier: Apache-2.0
/* Apply: what is going to be made is written down, then made, then written down as made. */
#include "iser_setup/change.h"

#include "iser_setup/fault.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- for targetctl ---- */

static json_t *save_request(const struct iser_plan *p, const char *file)
{
	json_t *iqns = json_array(), *stores = json_array();
	bool well = iqns && stores;

	for (size_t i = 0; well && i < p->n_targets; i++) {
		well = !json_array_append_new(iqns, json_string(p->targets[i].iqn));
		for (size_t k = 0; well && k < p->targets[i].n_stores; k++) {
			const struct iser_store *s = &p->targets[i].stores[k];

			well = !json_array_append_new(stores, json_pack("{s:s, s:s}", "plugin",
						      iser_store_plugin(s), "name", s->name));
		}
	}
	if (well)
		return json_pack("{s:s, s:s, s:o, s:o}", "do", "save", "file", file, "iqns", iqns,
				 "stores", stores);
	json_decref(iqns);
	json_decref(stores);
	return NULL;
}

static int save(struct change *c, struct err *e)
{
	CLEANUP_FREE char *file = iser_state_lio_file(&c->state);
	json_t *request = file ? save_request(c->want, file) : NULL;

	if (!request)
		return err_set(e, -ENOMEM, "out of memory");
	return carry_one(&c->carry, request, NODE_UNKNOWN, e) ?
		err_prefix(e, "%s, the configuration for targetctl", printable(file)) : 0;
}

static bool is_saved(const struct change *c)
{
	CLEANUP_FREE char *file = iser_state_lio_file(&c->state);

	return file && !access(file, F_OK);
}

/* ---- back ---- */

/* The files as they were found. */
static int restore_state(struct change *c, struct err *e)
{
	if (c->before.applied || c->before.applying)
		return iser_state_write(&c->before, e);
	return iser_state_remove(&c->before, e);
}

/* Of a request that ended so half may be done. */
static bool is_unknown(int code)
{
	return code == -EPIPE || code == -EPROTO || code == -ETIMEDOUT;
}

/* After a failure, whose text is in e. */
static void take_back(struct change *c, size_t done, struct err *e)
{
	struct change_report *r = c->report;
	struct err more = ERR_INIT;

	carry_back(&c->carry, &c->steps, done, is_unknown(e->code), &r->left);
	for (size_t i = 0; i < done; i++)
		r->lost |= c->steps.v[i].lossy;
	r->undone = !r->left.n;
	/* What is left must stay known. */
	if (r->undone && restore_state(c, &more))
		lines_add(&r->left, "%s", more.text);
}

/* ---- forth ---- */

static int begin(struct change *c, struct err *e)
{
	int r = iser_state_applying(&c->state, c->want) ? err_set(e, -ENOMEM, "out of memory") : 0;

	if (!r)
		r = change_keep(c, e);
	if (!r)
		r = fault_iser("kept");
	return r && !e->code ? err_sys(e, r, "a fault on purpose") : r;
}

static int finish(struct change *c, struct err *e)
{
	iser_state_applied(&c->state);
	change_tidy(c);
	/* The file still says that it is being applied, which is as good for the next change. */
	return iser_state_write(&c->state, e) ?
		err_prefix(e, "all of it is done, but cannot be written down; apply it again") : 0;
}

static int carry(struct change *c, struct err *e)
{
	size_t done = 0;
	int r = begin(c, e);

	if (!r)
		r = carry_out(&c->carry, &c->steps, &done, e);
	if (!r)
		r = save(c, e);
	if (r)
		take_back(c, done, e);
	return r ? r : finish(c, e);
}

/* Nothing is to be done; but is that what the files say? */
static int settle(struct change *c, struct err *e)
{
	json_t *was = c->before.applied ? iser_plan_json(c->before.applied) : NULL;
	json_t *is = iser_plan_json(c->want);
	bool same = was && is && json_equal(was, is) && !c->before.applying &&
		    !strcmp(c->before.boot, c->state.boot) && is_saved(c);
	int r = 0;

	json_decref(was);
	json_decref(is);
	if (same)
		return 0;
	if (iser_state_applying(&c->state, c->want))
		return err_set(e, -ENOMEM, "out of memory");
	r = save(c, e);
	if (!r && c->cpus_before && !c->state.cpus)
		c->state.cpus = steal_ptr(&c->cpus_before);
	return r ? r : finish(c, e);
}

int change_apply(const struct iser_plan *want, const struct change_options *o,
		 struct change_report *r, struct err *e)
{
	struct change c = { .o = o, .report = r, .want = want };
	int ret = change_begin(&c, want->name, e);

	if (!ret && r->problems.n)
		ret = change_problems(&c, "changed", e);
	if (!ret && o->dry)
		change_tell(&c);
	else if (!ret && c.steps.n)
		ret = carry(&c, e);
	else if (!ret)
		ret = settle(&c, e);
	change_end(&c);
	return ret;
}
