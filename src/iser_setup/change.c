// SPDX-License-Identifier: Apache-2.0
/* What apply and remove share: what there is, and what is to be done. */
#include "iser_setup/change.h"

#include "iser_setup/card.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- what there is ---- */

static int read_other(struct change *c, const char *name, struct err *e)
{
	struct iser_state *slot = iser_plan_add(c->others, c->n_others);

	if (!slot)
		return err_set(e, -ENOMEM, "out of memory");
	return iser_state_open(slot, c->o->state_dir, name, NULL, e);
}

static int read_others(struct change *c, struct err *e)
{
	char **names;
	size_t n;
	int r = iser_state_names(c->o->state_dir, &names, &n, e);

	for (size_t i = 0; i < n; i++) {
		if (!r && strcmp(names[i], c->state.name))
			r = read_other(c, names[i], e);
		free(names[i]);
	}
	free(names);
	return r;
}

static int read_states(struct change *c, const char *name, struct err *e)
{
	const struct lock_wait wait = { c->o->lock_wait, c->o->stop };
	int r = iser_state_open(&c->state, c->o->state_dir, name, c->o->dry ? NULL : &wait, e);

	if (!r)
		r = iser_state_open(&c->before, c->o->state_dir, name, NULL, e);
	return r ? r : read_others(c, e);
}

static int check_first(struct change *c, const struct checks *k, struct err *e)
{
	check_tools(k, &c->carry);
	if (!c->want)
		return 0;
	if (iser_secrets_read(c->want, &c->secrets, k->problems))
		return err_set(e, -ENOMEM, "out of memory");
	check_portals(k);
	return 0;
}

/* ---- what is to be done ---- */

static int plan_cpus(struct change *c, struct err *e)
{
	const struct host_dirs dirs = host_dirs();
	const struct iser_cpus_ask ask = {
		.want = c->want, .state = &c->state, .others = c->others,
		.n_others = c->n_others, .now = c->now->cpus, .t = c->t,
		.proc = dirs.proc, .sysfs = dirs.sysfs,
	};
	struct lines why = { 0 };
	int r;

	c->cpus = iser_cpus_list(&ask, &c->cpus_before);
	if (!c->now->cpus && c->now->iscsi)
		log_debug("this kernel has no list of CPUs for the threads of iSCSI targets");
	r = iser_irqs_list(&ask, &c->irqs, &c->n_irqs, &why);
	for (size_t i = 0; i < why.n; i++)
		log_debug("%s", why.v[i]);
	lines_clear(&why);
	return r ? err_set(e, r, "out of memory") : 0;
}

static int plan_steps(struct change *c, struct err *e)
{
	const struct iser_ask ask = {
		.want = c->want, .state = &c->before, .others = c->others,
		.n_others = c->n_others, .secrets = &c->secrets, .now = c->now,
		.look = &iser_look_here, .cpus = c->cpus, .irqs = c->irqs,
		.n_irqs = c->n_irqs, .destroy = c->o->destroy, .force = c->o->force,
		.restarted = iser_state_restarted(&c->before),
	};

	return iser_steps_make(&ask, &c->steps) ? err_set(e, -ENOMEM, "out of memory") : 0;
}

static void move_lines(struct lines *to, struct lines *from)
{
	for (size_t i = 0; i < from->n; i++)
		lines_add(to, "%s", from->v[i]);
	lines_clear(from);
}

/* What there is, and the steps from it. */
static int look(struct change *c, struct err *e)
{
	int r;

	c->now = lio_read(NULL, e);
	if (!c->now)
		return e->code;
	r = plan_cpus(c, e);
	return r ? r : plan_steps(c, e);
}

static void forget_look(struct change *c)
{
	iser_steps_clear(&c->steps);
	iser_irqs_free(c->irqs, c->n_irqs);
	c->irqs = NULL;
	c->n_irqs = 0;
	free(steal_ptr(&c->cpus));
	free(steal_ptr(&c->cpus_before));
	lio_free(steal_ptr(&c->now));
}

/* Modules last: they stay when something else is wrong. The fabric that they bring has a list of
 * CPUs, of which steps tell. */
static int check_last(struct change *c, const struct checks *k, struct err *e)
{
	const bool load = !c->o->dry && !k->problems->n;

	check_kernel(k, load);
	if (!load || k->problems->n || c->now->iscsi)
		return 0;
	forget_look(c);
	return look(c, e);
}

int change_begin(struct change *c, const char *name, struct err *e)
{
	struct checks k = { .plan = c->want, .problems = &c->report->problems,
			    .notes = &c->report->notes };
	int r;

	c->carry = (struct carry){ .stop = c->o->stop, .say = c->o->say, .arg = c->o->arg,
				   .hold = -1, .keep = change_made, .keeper = c };
	c->state.lock = c->before.lock = -1;
	c->t = topo_read(NULL, e);
	if (!c->t)
		return e->code;
	k.t = c->carry.t = c->t;
	r = read_states(c, name, e);
	c->carry.hold = c->state.lock;
	if (!r)
		r = check_first(c, &k, e);
	if (!r)
		r = iser_state_begin_boot(&c->state, e);
	if (!r)
		r = look(c, e);
	if (r)
		return r;
	if (c->want) {
		check_stores(&k, c->now);
		check_memory(&k, &c->steps);
	}
	move_lines(k.problems, &c->steps.problems);
	r = c->want ? check_last(c, &k, e) : 0;
	move_lines(k.problems, &c->steps.problems);
	move_lines(k.notes, &c->steps.notes);
	return r;
}

void change_end(struct change *c)
{
	carry_end(&c->carry);
	iser_steps_clear(&c->steps);
	iser_irqs_free(c->irqs, c->n_irqs);
	free(c->cpus);
	free(c->cpus_before);
	lio_free(c->now);
	iser_secrets_clear(&c->secrets);
	for (size_t i = 0; i < c->n_others; i++)
		iser_state_close(&c->others[i]);
	free(c->others);
	iser_state_close(&c->before);
	iser_state_close(&c->state);
	topo_free(c->t);
}

/* ---- what is said ---- */

int change_problems(const struct change *c, const char *what, struct err *e)
{
	const struct lines *l = &c->report->problems;

	if (l->n == 1)
		return err_set(e, -EINVAL, "%s", l->v[0]);
	for (size_t i = 0; i < l->n; i++)
		log_error("%s", l->v[i]);
	return err_set(e, -EINVAL, "%zu things stand in the way; nothing was %s", l->n, what);
}

void change_tell(struct change *c)
{
	for (size_t i = 0; i < c->steps.n; i++)
		if (c->steps.v[i].text)
			c->o->say(c->o->arg, c->steps.v[i].text);
}

/* ---- what is kept ---- */

/* The path of a directory or file that is made; NULL: it is another request. A tmpfs's file goes
 * with it. */
static const char *made_by(const json_t *request)
{
	const char *what = json_string_value(json_object_get(request, "do"));

	if (!what || (strcmp(what, "make-dir") && strcmp(what, "make-file")) ||
	    json_is_true(json_object_get(request, "in-tmpfs")))
		return NULL;
	return json_string_value(json_object_get(request, "path"));
}

int change_made(void *arg, const json_t *request, int code, struct err *e)
{
	const char *path = made_by(request);
	struct change *c = arg;
	size_t before = c->state.n_made;
	bool is_there = path && iser_look_here.size(path) >= 0;

	/* What is there by now is somebody's, or is only to grow. */
	if (!path || (is_there && code != -EEXIST))
		return 0;
	if (code)
		iser_state_unmade(&c->state, path);
	else if (iser_state_made(&c->state, path))
		return err_set(e, -ENOMEM, "out of memory");
	return c->state.n_made != before ? iser_state_write(&c->state, e) : 0;
}

static int keep_irqs(struct change *c)
{
	for (size_t i = 0; i < c->n_irqs; i++) {
		struct iser_irq *slot = NULL;

		for (size_t k = 0; k < c->state.n_irqs; k++)
			if (c->state.irqs[k].irq == c->irqs[i].irq)
				slot = &c->state.irqs[k];
		if (!slot) {
			slot = iser_plan_add(c->state.irqs, c->state.n_irqs);
			if (!slot)
				return -ENOMEM;
			slot->irq = c->irqs[i].irq;
			slot->netdev = strdup(c->irqs[i].netdev);
			slot->was = strdup(c->irqs[i].was);
		}
		free(slot->set);
		slot->set = strdup(c->irqs[i].set);
		if (!slot->netdev || !slot->was || !slot->set)
			return -ENOMEM;
	}
	return 0;
}

int change_keep(struct change *c, struct err *e)
{
	if (c->want && keep_irqs(c))
		return err_set(e, -ENOMEM, "out of memory");
	if (c->cpus_before && !c->state.cpus)
		c->state.cpus = steal_ptr(&c->cpus_before);
	return iser_state_write(&c->state, e);
}

void change_tidy(struct change *c)
{
	size_t i, n = 0;
	const json_t *refused;

	for (i = 0; i < c->state.n_made; i++)
		if (iser_look_here.size(c->state.made[i]) < 0)
			free(c->state.made[i]);
		else
			c->state.made[n++] = c->state.made[i];
	c->state.n_made = n;
	json_array_foreach(c->carry.refused, i, refused)
		for (size_t k = 0; k < c->state.n_irqs; k++)
			if (json_integer_value(json_object_get(refused, "irq")) ==
			    c->state.irqs[k].irq)
				*c->state.irqs[k].set = '\0';
}

void change_clear(struct change_report *r)
{
	lines_clear(&r->notes);
	lines_clear(&r->problems);
	lines_clear(&r->left);
	lines_clear(&r->steps);
}
