// SPDX-License-Identifier: Apache-2.0
/* A state's file. Only apply writes it, so what is wrong in it is damage. */
#include "iser_setup/state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VERSION_KEY "rftp-iser-state"
#define FORMAT_VERSION 1
#define FILE_MAX (3u * ISER_PLAN_MAX) /* two plans and a little */

/* ---- in ---- */

/* Text into *out, NULL without; false: it is something else, or memory is out. */
static bool take_text(const json_t *obj, const char *key, char **out)
{
	const json_t *v = json_object_get(obj, key);

	if (!v)
		return true;
	free(*out);
	*out = json_is_string(v) ? strdup(json_string_value(v)) : NULL;
	return *out;
}

static bool take_made(struct iser_state *s, const json_t *list)
{
	const json_t *v;
	size_t i;

	if (list && !json_is_array(list))
		return false;
	json_array_foreach(list, i, v)
		if (!json_is_string(v) || *json_string_value(v) != '/' ||
		    iser_state_made(s, json_string_value(v)))
			return false;
	return true;
}

static bool take_irqs(struct iser_state *s, const json_t *list)
{
	const json_t *v;
	size_t i;

	if (list && !json_is_array(list))
		return false;
	json_array_foreach(list, i, v) {
		const json_t *number = json_object_get(v, "irq");
		struct iser_irq *irq = iser_plan_add(s->irqs, s->n_irqs);

		if (!irq || !json_is_integer(number) || json_integer_value(number) < 0 ||
		    json_integer_value(number) > INT32_MAX)
			return false;
		irq->irq = (unsigned)json_integer_value(number);
		if (!take_text(v, "netdev", &irq->netdev) || !take_text(v, "was", &irq->was) ||
		    !take_text(v, "set", &irq->set) || !irq->netdev || !irq->was || !irq->set)
			return false;
	}
	return true;
}

/* Its plan, NULL without; false with text. */
static bool take_plan(const char *file, const json_t *obj, const char *key,
		      struct iser_plan **out, struct err *e)
{
	json_t *v = json_object_get(obj, key);

	if (!v)
		return true;
	*out = iser_plan_unjson(file, v, e);
	return *out;
}

static bool take_older(struct iser_state *s, const char *file, const json_t *list, struct err *e)
{
	json_t *v;
	size_t i;

	json_array_foreach(list, i, v) {
		struct iser_plan **slot, *p = iser_plan_unjson(file, v, e);

		if (!p)
			return false;
		slot = iser_plan_add(s->older, s->n_older);
		if (!slot) {
			iser_plan_free(p);
			return !err_set(e, -ENOMEM, "out of memory");
		}
		*slot = p;
	}
	return true;
}

static bool take_all(struct iser_state *s, const char *file, const json_t *obj, struct err *e)
{
	if (!json_is_object(obj))
		return !err_set(e, -EBADMSG, "%s: is no JSON object", file);
	if (json_integer_value(json_object_get(obj, VERSION_KEY)) != FORMAT_VERSION)
		return !err_set(e, -EBADMSG, "%s: \"%s\" is not %d", file, VERSION_KEY,
				FORMAT_VERSION);
	if (!take_plan(file, obj, "applied", &s->applied, e) ||
	    !take_plan(file, obj, "applying", &s->applying, e) ||
	    !take_older(s, file, json_object_get(obj, "older"), e))
		return false;
	if (!take_text(obj, "boot", &s->boot) || !s->boot || !take_text(obj, "cpus", &s->cpus) ||
	    !take_made(s, json_object_get(obj, "made")) ||
	    !take_irqs(s, json_object_get(obj, "irqs")))
		return !err_set(e, -EBADMSG, "%s: boot, cpus, made or irqs is not what apply "
				"writes", file);
	return true;
}

static int parse(struct iser_state *s, const char *path, const char *text, size_t len,
		 struct err *e)
{
	struct err own = ERR_INIT;
	json_error_t bad;
	json_t *obj = json_loadb(text, len, JSON_REJECT_DUPLICATES, &bad);
	bool well = false;

	if (!obj)
		err_set(&own, -EBADMSG, "%s:%d: %s", printable(path), bad.line,
			printable(bad.text));
	else
		well = take_all(s, printable(path), obj, &own);
	json_decref(obj);
	if (well)
		return 0;
	if (own.code == -ENOMEM)
		return err_set(e, own.code, "%s", own.text);
	return err_set(e, -EBADMSG, "%s; the file is damaged: bring it back from a backup, or move "
		       "it away, and take what was made out with targetcli and umount", own.text);
}

int iser_state_load(struct iser_state *s, struct err *e)
{
	CLEANUP_FREE char *path = NULL, *text = NULL;
	size_t len = 0;
	int r;

	if (asprintf(&path, "%s/%s.json", s->dir, s->name) < 0) {
		path = NULL;
		return err_set(e, -ENOMEM, "out of memory");
	}
	r = read_file(path, FILE_MAX, &text, &len);
	if (r == -ENOENT)
		return 0;
	return r ? err_sys(e, r, "%s", printable(path)) : parse(s, path, text, len, e);
}

/* ---- out ---- */

/* These are false when memory is out, for value is NULL then; its reference is taken. */
static bool put(json_t *obj, const char *key, json_t *value)
{
	return !json_object_set_new(obj, key, value);
}

static bool put_plan(json_t *obj, const char *key, const struct iser_plan *p)
{
	return !p || put(obj, key, iser_plan_json(p));
}

static bool put_older(json_t *obj, const struct iser_state *s)
{
	json_t *list = json_array();
	bool well = put(obj, "older", list);

	for (size_t i = 0; well && i < s->n_older; i++)
		well = !json_array_append_new(list, iser_plan_json(s->older[i]));
	return well;
}

static bool put_made(json_t *obj, const struct iser_state *s)
{
	json_t *list = json_array();
	bool well = put(obj, "made", list);

	for (size_t i = 0; well && i < s->n_made; i++)
		well = !json_array_append_new(list, json_string(s->made[i]));
	return well;
}

static bool put_irqs(json_t *obj, const struct iser_state *s)
{
	json_t *list = json_array();
	bool well = put(obj, "irqs", list);

	for (size_t i = 0; well && i < s->n_irqs; i++)
		well = !json_array_append_new(list, json_pack("{s:i, s:s, s:s, s:s}", "irq",
				(int)s->irqs[i].irq, "netdev", s->irqs[i].netdev, "was",
				s->irqs[i].was, "set", s->irqs[i].set));
	return well;
}

int iser_state_write(const struct iser_state *s, struct err *e)
{
	CLEANUP_FREE char *path = NULL, *text = NULL;
	json_t *obj = json_object();

	if (put(obj, VERSION_KEY, json_integer(FORMAT_VERSION)) &&
	    put(obj, "boot", json_string(s->boot)) && put_plan(obj, "applied", s->applied) &&
	    put_plan(obj, "applying", s->applying) && put_older(obj, s) &&
	    (!s->cpus || put(obj, "cpus", json_string(s->cpus))) && put_made(obj, s) &&
	    put_irqs(obj, s))
		text = json_dumps(obj, JSON_INDENT(2));
	json_decref(obj);
	if (!text || asprintf(&path, "%s/%s.json", s->dir, s->name) < 0) {
		path = NULL;
		return err_set(e, -ENOMEM, "out of memory");
	}
	if (strlen(text) > FILE_MAX)
		return err_set(e, -EFBIG, "%s would be too long to be read again: make the plan "
			       "smaller, or several of it", printable(path));
	return write_file_atomic(path, text, strlen(text), 0600, e);
}
