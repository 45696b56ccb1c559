// SPDX-License-Identifier: Apache-2.0
/* Requests go to a worker on their node, or are done here. */
#include "iser_setup/carry.h"

#include "iser_setup/fault.h"
#include "iser_setup/local.h"
#include "iser_setup/where.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE_TEXT 32

/* ---- hands ---- */

static struct hand *hand_on(struct carry *c, int node, struct err *e)
{
	struct hand *h;

	for (size_t i = 0; i < c->n_hands; i++)
		if (c->hands[i].node == node)
			return &c->hands[i];
	h = iser_plan_add(c->hands, c->n_hands);
	if (!h) {
		err_set(e, -ENOMEM, "out of memory");
		return NULL;
	}
	h->node = node;
	return h;
}

static struct worker *worker_on(struct carry *c, int node, struct err *e)
{
	struct hand *h = hand_on(c, node, e);

	if (h && !h->worker) {
		h->worker = worker_new(node, e);
		if (h->worker)
			worker_hold(h->worker, c->hold);
	}
	return h ? h->worker : NULL;
}

int carry_ready(struct carry *c, struct err *e)
{
	return worker_on(c, NODE_UNKNOWN, e) ? 0 : e->code;
}

static int ask_worker(struct carry *c, json_t *request, int node, struct err *e)
{
	struct worker *w = worker_on(c, node, e);

	if (!w) {
		json_decref(request);
		return e->code;
	}
	return worker_do(w, request, e);
}

void carry_end(struct carry *c)
{
	for (size_t i = 0; i < c->n_hands; i++)
		worker_free(c->hands[i].worker);
	free(c->hands);
	c->hands = NULL;
	c->n_hands = 0;
	json_decref(c->refused);
	c->refused = NULL;
}

int carry_one(struct carry *c, json_t *request, int node, struct err *e)
{
	int r;

	if (!local_is(request))
		return ask_worker(c, request, node, e);
	r = local_do(request, c->t, node, c->stop, e);
	json_decref(request);
	return r;
}

/* ---- there ---- */

/* The memory policy of a tmpfs is a promise that is looked at. A ramdisk has no file, and shows its
 * pages to nobody. */
static int check_pages(struct carry *c, const struct iser_step *s, struct err *e)
{
	const char *path = json_string_value(json_object_get(s->request, "path"));
	struct file_pages p = { 0 };
	char size[SIZE_TEXT];
	int r;

	if (!s->strictly || !path || !*path)
		return 0;
	r = file_pages_read(c->t, path, &p, e);
	if (!r && file_pages_elsewhere(&p, s->node))
		r = err_set(e, -EIO, "%s: %s of it are on other nodes than %d, though its tmpfs is "
			    "bound there", printable(path),
			    format_size(size, sizeof(size), file_pages_elsewhere(&p, s->node)),
			    s->node);
	file_pages_clear(&p);
	return r;
}

static void refuse(struct carry *c, const struct iser_step *s, const struct err *e)
{
	log_debug("%s: %s", s->text, e->text);
	if (!c->refused)
		c->refused = json_array();
	json_array_append(c->refused, s->request);
}

static int do_kept(struct carry *c, const struct iser_step *s, struct err *e)
{
	const bool kept = c->keep && local_is(s->request);
	struct err also = ERR_INIT;
	int r = kept ? c->keep(c->keeper, s->request, 0, e) : 0;

	if (r)
		return r;
	r = carry_one(c, json_incref(s->request), s->node, e);
	if (r && kept && c->keep(c->keeper, s->request, r, &also))
		log_warn("%s", also.text);
	return r;
}

static int do_step(struct carry *c, const struct iser_step *s, struct err *e)
{
	int r = fault_iser("before");

	if (r)
		return err_sys(e, r, "a fault on purpose");
	if (c->stop && stop_asked(c->stop))
		return err_set(e, -EINTR, "stopped by a signal");
	r = do_kept(c, s, e);
	if (r && s->may_fail && r != -EINTR) {
		refuse(c, s, e);
		return 0;
	}
	if (!r && s->text)
		c->say(c->arg, s->text);
	return r;
}

/* What it does is not taken for granted; then it is taken back with the rest. */
static int look_after(struct carry *c, const struct iser_step *s, struct err *e)
{
	int r = check_pages(c, s, e);

	if (!r) {
		r = fault_iser("after");
		r = r ? err_sys(e, r, "a fault on purpose") : 0;
	}
	return r;
}

int carry_out(struct carry *c, const struct iser_steps *s, size_t *done, struct err *e)
{
	int r = 0;

	*done = 0;
	while (!r && *done < s->n) {
		const struct iser_step *one = &s->v[*done];

		*e = (struct err)ERR_INIT;
		r = one->request ? do_step(c, one, e) : 0;
		if (!r) {
			++*done;
			r = one->request ? look_after(c, one, e) : 0;
		}
		if (r && r != -EINTR)
			err_prefix(e, "%s", one->text ? one->text : "between steps");
	}
	return r;
}

/* ---- and back ---- */

static void undo(struct carry *c, const struct iser_step *s, bool maybe, struct lines *left)
{
	struct err e = ERR_INIT;
	int r = fault_iser("undo");

	if (r)
		err_sys(&e, r, "a fault on purpose");
	else
		r = carry_one(c, json_incref(s->undo), s->node, &e);
	/* What has not answered may still do it. */
	if (r && (!maybe || r == -ETIMEDOUT) && !s->may_fail)
		lines_add(left, "%s: could not be taken back: %s", s->text ? s->text :
			  json_string_value(json_object_get(s->undo, "do")), e.text);
}

void carry_back(struct carry *c, const struct iser_steps *s, size_t done, bool maybe,
		struct lines *left)
{
	const struct stop *stop = c->stop;

	/* What was asked for is the end, and this is the way there. */
	c->stop = NULL;
	if (maybe && done < s->n && s->v[done].undo)
		undo(c, &s->v[done], true, left);
	while (done--)
		if (s->v[done].undo)
			undo(c, &s->v[done], false, left);
	c->stop = stop;
}
