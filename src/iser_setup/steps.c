// SPDX-License-Identifier: Apache-2.0
/* The order: what goes, from the outside in, and then what comes, from the inside out, so that
 * nobody logs in before all is there. */
#include "iser_setup/maker.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- this host ---- */

static int64_t size_here(const char *path)
{
	struct stat st;

	return stat(path, &st) ? -1 : S_ISREG(st.st_mode) ? (int64_t)st.st_size : 0;
}

static bool is_dir_here(const char *path)
{
	struct stat st;

	return !lstat(path, &st) && S_ISDIR(st.st_mode);
}

const struct iser_look iser_look_here = {
	.attribute = lio_attribute, .size = size_here, .is_dir = is_dir_here,
};

/* ---- one step ---- */

static void clear_step(struct iser_step *s)
{
	free(s->text);
	json_decref(s->request);
	json_decref(s->undo);
	*s = (struct iser_step){ 0 };
}

static struct iser_step *add(struct maker *m, json_t *request, json_t *undo, char *text)
{
	static _Thread_local struct iser_step nobody;
	struct iser_step *s = iser_plan_add(m->out->v, m->out->n);

	if (!s) {
		m->failed = true;
		clear_step(&nobody);
		s = &nobody;
	}
	*s = (struct iser_step){ .text = text, .node = NODE_UNKNOWN, .request = request,
				 .undo = undo };
	return s;
}

struct iser_step *maker_add(struct maker *m, json_t *request, json_t *undo, const char *fmt, ...)
{
	va_list args;
	char *text;

	va_start(args, fmt);
	if (vasprintf(&text, fmt, args) < 0)
		text = NULL;
	va_end(args);
	if (!text || !request)
		m->failed = true;
	return add(m, request, undo, text);
}

void maker_undo(struct maker *m, json_t *undo)
{
	if (!undo)
		m->failed = true;
	add(m, NULL, undo, NULL);
}

void maker_note_dropped(struct maker *m, const char *kind, const char *name,
			const struct iser_attribute *old, size_t n_old,
			const struct iser_attribute *now, size_t n_now)
{
	for (size_t i = 0; i < n_old; i++)
		if (!iser_attribute_in(now, n_now, old[i].name))
			maker_note(m, "%s %s: %s stays %llu, though the plan names it no more", kind,
				   name, printable(old[i].name), old[i].value);
}

/* ---- attributes ---- */

static json_t *attribute_request(const json_t *whose, const char *attribute,
				 unsigned long long value)
{
	json_t *r = json_copy((json_t *)(uintptr_t)whose);

	if (r && !json_object_set_new(r, "attribute", json_string(attribute)) &&
	    !json_object_set_new(r, "value", json_integer((json_int_t)value)))
		return r;
	json_decref(r);
	return NULL;
}

void maker_set_attributes(struct maker *m, json_t *whose, const char *dir,
			  const struct iser_attribute *list, size_t n, const char *kind,
			  const char *name)
{
	for (size_t i = 0; i < n; i++) {
		const struct iser_attribute *a = &list[i];
		unsigned long long now;
		bool known = dir && !m->a->look->attribute(dir, a->name, &now);

		if (!known || now != a->value)
			maker_add(m, attribute_request(whose, a->name, a->value),
				  known ? attribute_request(whose, a->name, now) : NULL,
				  "set %s of the %s %s to %llu", printable(a->name), kind, name,
				  a->value);
	}
	json_decref(whose);
}

void maker_undo_attributes(struct maker *m, json_t *whose, const char *dir,
			   const struct iser_attribute *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		unsigned long long now;

		if (!m->a->look->attribute(dir, list[i].name, &now))
			maker_undo(m, attribute_request(whose, list[i].name, now));
	}
	json_decref(whose);
}

/* ---- the fabric ---- */

static bool same_ids(const char *a, const char *b)
{
	struct ids x, y;

	return !ids_parse(a, &x) && !ids_parse(b, &y) && !memcmp(&x, &y, sizeof(x));
}

static void fabric(struct maker *m)
{
	const char *now = m->a->now->cpus;

	if (!m->a->cpus || !now || same_ids(m->a->cpus, now))
		return;
	maker_add(m, json_pack("{s:s, s:s}", "do", "set-cpus", "list", m->a->cpus),
		  json_pack("{s:s, s:s}", "do", "set-cpus", "list", now),
		  "let the threads of all iSCSI targets of this host, also those of others, run on "
		  "CPUs %s", m->a->cpus);
}

static void interrupts(struct maker *m)
{
	for (size_t i = 0; i < m->a->n_irqs; i++) {
		const struct iser_irq *irq = &m->a->irqs[i];

		maker_add(m, json_pack("{s:s, s:i, s:s}", "do", "set-irq", "irq", (int)irq->irq,
				       "list", irq->set),
			  json_pack("{s:s, s:i, s:s}", "do", "set-irq", "irq", (int)irq->irq,
				    "list", irq->was),
			  "handle interrupt %u of %s on CPUs %s", irq->irq,
			  printable(irq->netdev), irq->set)->may_fail = true;
	}
}

/* ---- all of it ---- */

static size_t count_stores(const struct iser_plan *p)
{
	size_t n = 0;

	for (size_t i = 0; p && i < p->n_targets; i++)
		n += p->targets[i].n_stores;
	return n;
}

int iser_steps_make(const struct iser_ask *a, struct iser_steps *s)
{
	struct maker m = { .a = a, .out = s };

	*s = (struct iser_steps){ 0 };
	m.fates = calloc(count_stores(a->want) + 1, sizeof(*m.fates));
	if (!m.fates)
		return -ENOMEM;
	stores_decide(&m);
	targets_decide(&m);
	targets_take(&m);
	stores_take(&m);
	mounts_take(&m);
	made_take(&m);
	stores_make(&m);
	targets_make(&m);
	fabric(&m);
	interrupts(&m);
	free(m.fates);
	return m.failed || s->notes.lost || s->problems.lost ? -ENOMEM : 0;
}

void iser_steps_clear(struct iser_steps *s)
{
	for (size_t i = 0; i < s->n; i++)
		clear_step(&s->v[i]);
	free(s->v);
	lines_clear(&s->notes);
	lines_clear(&s->problems);
	*s = (struct iser_steps){ 0 };
}
