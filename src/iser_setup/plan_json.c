// SPDX-License-Identifier: Apache-2.0
/* A plan as JSON; the format is described in rftp-iser(8). What is not known is refused, for it
 * is more likely misspelt than superfluous. */
#include "iser_setup/plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VERSION_KEY "rftp-iser-plan"
#define FORMAT_VERSION 1
#define WHERE_MAX 96

/* ---- in ---- */

/* An object that is being read, and where it stands: "targets[0].luns[1]". */
struct reader {
	const char *file;
	char where[WHERE_MAX];
	json_t *object;
	struct err *e;
};

static int wrong(const struct reader *r, const char *key, const char *what)
{
	return err_set(r->e, -EINVAL, "%s: %s%s%s %s", r->file, r->where, *r->where ? "." : "",
		       printable(key), what);
}

/* r is what key and, unless it is negative, index name below up; cut when that is too long. */
static void go_to(struct reader *r, const struct reader *up, const char *key, long index)
{
	char number[24] = "";
	const char *const parts[] = { up->where, *up->where ? "." : "", key, number };

	*r = (struct reader){ .file = up->file, .e = up->e };
	if (index >= 0)
		snprintf(number, sizeof(number), "[%ld]", index);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		strncat(r->where, parts[i], sizeof(r->where) - strlen(r->where) - 1);
}

/* The member of r's object, of a kind; NULL in *out when it is not there. */
static int member(const struct reader *r, const char *key, json_type type, const char *kind,
		  json_t **out)
{
	json_t *v = json_object_get(r->object, key);

	*out = v && !json_is_null(v) ? v : NULL;
	if (*out && json_typeof(v) != type)
		return wrong(r, key, kind);
	return 0;
}

static int read_text(const struct reader *r, const char *key, char **out)
{
	json_t *v;

	if (member(r, key, JSON_STRING, "is no text", &v))
		return -EINVAL;
	if (!v)
		return 0;
	/* Else what is checked would not be what is used. */
	if (strlen(json_string_value(v)) != json_string_length(v))
		return wrong(r, key, "has a NUL in it");
	*out = strdup(json_string_value(v));
	return *out ? 0 : err_set(r->e, -ENOMEM, "out of memory");
}

static int read_bool(const struct reader *r, const char *key, bool *out)
{
	json_t *v = json_object_get(r->object, key);

	if (v && !json_is_boolean(v))
		return wrong(r, key, "is neither true nor false");
	if (v)
		*out = json_is_true(v);
	return 0;
}

static int read_number(const struct reader *r, const char *key, json_int_t least,
		       json_int_t most, json_int_t *out)
{
	char what[80];
	json_t *v;

	if (member(r, key, JSON_INTEGER, "is no whole number", &v))
		return -EINVAL;
	if (!v)
		return 0;
	*out = json_integer_value(v);
	if (*out >= least && *out <= most)
		return 0;
	snprintf(what, sizeof(what), "is not between %lld and %lld", (long long)least,
		 (long long)most);
	return wrong(r, key, what);
}

/* One of n words; *out stays as it is without any. */
static int read_word(const struct reader *r, const char *key, const char *const *words, size_t n,
		     unsigned *out)
{
	char what[120] = "is none of";
	json_t *v;

	if (member(r, key, JSON_STRING, "is no text", &v))
		return -EINVAL;
	if (!v)
		return 0;
	for (size_t i = 0; i < n; i++) {
		if (!strcmp(json_string_value(v), words[i])) {
			*out = (unsigned)i;
			return 0;
		}
		snprintf(what + strlen(what), sizeof(what) - strlen(what), "%s %s", i ? "," : "",
			 words[i]);
	}
	return wrong(r, key, what);
}

/* Are all members named in known, up to a NULL? */
static int only(const struct reader *r, const char *const *known)
{
	const char *key;
	json_t *v;

	json_object_foreach(r->object, key, v) {
		const char *const *k = known;

		while (*k && strcmp(*k, key))
			k++;
		if (!*k)
			return wrong(r, key, "is not known");
	}
	return 0;
}

/* r: the member key of up, an object; its object is NULL when it is not there. */
static int enter(const struct reader *up, const char *key, struct reader *r)
{
	go_to(r, up, key, -1);
	return member(up, key, JSON_OBJECT, "is no object", &r->object);
}

typedef int read_item(const struct reader *r, void *into);

/* Each object of the list key goes to read, with a new item at the end of list. */
#define read_list(up, key, list, n, read) \
	read_items(up, key, (void **)&(list), &(n), sizeof(*(list)), read)

static int read_items(const struct reader *up, const char *key, void **list, size_t *n,
		      size_t each, read_item *read)
{
	json_t *items, *item;
	size_t i;

	if (member(up, key, JSON_ARRAY, "is no list", &items))
		return -EINVAL;
	json_array_foreach(items, i, item) {
		struct reader r;
		void *into;
		int failed;

		go_to(&r, up, key, (long)i);
		r.object = item;
		if (!json_is_object(item))
			return err_set(up->e, -EINVAL, "%s: %s is no object", up->file, r.where);
		into = iser_plan_grow(list, n, each);
		failed = into ? read(&r, into) : err_set(up->e, -ENOMEM, "out of memory");
		if (failed)
			return failed;
	}
	return 0;
}

static int read_attributes(const struct reader *up, struct iser_attribute **list, size_t *n)
{
	struct reader r;
	const char *key;
	json_t *v;

	if (enter(up, "attributes", &r))
		return -EINVAL;
	json_object_foreach(r.object, key, v) {
		struct iser_attribute *a = iser_plan_add(*list, *n);

		if (!a || !(a->name = strdup(key)))
			return err_set(up->e, -ENOMEM, "out of memory");
		if (!json_is_integer(v) || json_integer_value(v) < 0)
			return wrong(&r, key, "is no whole number from 0");
		a->value = (unsigned long long)json_integer_value(v);
	}
	return 0;
}

static int read_store(const struct reader *r, void *into)
{
	static const char *const known[] = {
		"lun", "name", "kind", "node", "size", "policy", "path", "write-back", "serial",
		"attributes", NULL,
	};
	struct iser_store *s = into;
	json_int_t lun = 0, node = NODE_UNKNOWN, size = 0;
	unsigned kind = ISER_KINDS, policy = ISER_BIND;

	if (only(r, known) || read_number(r, "lun", 0, ISER_LUN_MOST, &lun) ||
	    read_text(r, "name", &s->name) ||
	    read_word(r, "kind", iser_kinds, ISER_KINDS, &kind) ||
	    read_number(r, "node", NODE_UNKNOWN, NODE_MOST, &node) ||
	    read_number(r, "size", 0, INT64_MAX, &size) ||
	    read_word(r, "policy", iser_policies, ISER_POLICIES, &policy) ||
	    read_text(r, "path", &s->path) || read_bool(r, "write-back", &s->write_back) ||
	    read_text(r, "serial", &s->serial) ||
	    read_attributes(r, &s->attributes, &s->n_attributes))
		return r->e->code;
	s->lun = (unsigned)lun;
	s->kind = (enum iser_kind)kind;
	s->node = (int)node;
	s->size = (uint64_t)size;
	s->policy = (enum iser_policy)policy;
	return kind == ISER_KINDS ? wrong(r, "kind", "is missing") : 0;
}

static int read_portal(const struct reader *r, void *into)
{
	static const char *const known[] = { "address", "port", "netdev", "iser", NULL };
	struct iser_portal *p = into;
	json_int_t port = ISER_PORT;

	p->iser = true;
	if (only(r, known) || read_text(r, "address", &p->address) ||
	    read_number(r, "port", 1, UINT16_MAX, &port) || read_text(r, "netdev", &p->netdev) ||
	    read_bool(r, "iser", &p->iser))
		return r->e->code;
	p->port = (unsigned)port;
	return 0;
}

static int read_chap(const struct reader *up, const char *key, struct iser_chap *c)
{
	static const char *const known[] = { "user", "secret-file", NULL };
	struct reader r;

	if (enter(up, key, &r) || only(&r, known) || read_text(&r, "user", &c->user) ||
	    read_text(&r, "secret-file", &c->secret_file))
		return up->e->code;
	if (r.object && !(c->user && c->secret_file))
		return wrong(up, key, "wants user and secret-file");
	return 0;
}

static int read_initiator(const struct reader *r, void *into)
{
	static const char *const known[] = { "name", "chap", "mutual-chap", NULL };
	struct iser_initiator *i = into;

	if (only(r, known) || read_text(r, "name", &i->name) || read_chap(r, "chap", &i->chap) ||
	    read_chap(r, "mutual-chap", &i->mutual))
		return r->e->code;
	return 0;
}

static int read_target(const struct reader *r, void *into)
{
	static const char *const known[] = {
		"node", "iqn", "open", "portals", "initiators", "luns", "attributes", NULL,
	};
	struct iser_target *t = into;
	json_int_t node = NODE_UNKNOWN;

	if (only(r, known) || read_number(r, "node", NODE_UNKNOWN, NODE_MOST, &node) ||
	    read_text(r, "iqn", &t->iqn) || read_bool(r, "open", &t->open) ||
	    read_list(r, "portals", t->portals, t->n_portals, read_portal) ||
	    read_list(r, "initiators", t->initiators, t->n_initiators, read_initiator) ||
	    read_list(r, "luns", t->stores, t->n_stores, read_store) ||
	    read_attributes(r, &t->attributes, &t->n_attributes))
		return r->e->code;
	t->node = (int)node;
	return 0;
}

static int read_plan(const struct reader *r, struct iser_plan *p)
{
	static const char *const known[] = { VERSION_KEY, "name", "cpus", "targets", NULL };
	json_int_t version = 0;
	unsigned cpus = ISER_CPUS_NODES;

	if (read_number(r, VERSION_KEY, 0, INT32_MAX, &version))
		return r->e->code;
	if (version != FORMAT_VERSION)
		return err_set(r->e, -EINVAL, version ? "%s: is of a later format (\"%s\" is "
			       "not %d)" : "%s: is no plan: it has no \"%s\": %d", r->file,
			       VERSION_KEY, FORMAT_VERSION);
	if (only(r, known) || read_text(r, "name", &p->name) ||
	    read_word(r, "cpus", iser_cpus_words, ISER_CPUS_KINDS, &cpus) ||
	    read_list(r, "targets", p->targets, p->n_targets, read_target))
		return r->e->code;
	p->cpus = (enum iser_cpus)cpus;
	return iser_plan_check(p, r->e) ? err_prefix(r->e, "%s", r->file) : 0;
}

struct iser_plan *iser_plan_unjson(const char *name, json_t *json, struct err *e)
{
	struct err own = ERR_INIT;
	struct reader r = { .file = name, .object = json, .e = e ? e : &own };
	CLEANUP_ISER_PLAN struct iser_plan *p = iser_plan_new();

	if (!p) {
		err_set(r.e, -ENOMEM, "out of memory");
		return NULL;
	}
	if (!json_is_object(json)) {
		err_set(r.e, -EINVAL, "%s: is no JSON object", name);
		return NULL;
	}
	return read_plan(&r, p) ? NULL : steal_ptr(&p);
}

struct iser_plan *iser_plan_parse(const char *name, const char *text, struct err *e)
{
	json_error_t bad;
	json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, &bad);
	struct iser_plan *p;

	if (!json) {
		err_set(e, -EINVAL, "%s:%d: %s", name, bad.line, printable(bad.text));
		return NULL;
	}
	p = iser_plan_unjson(name, json, e);
	json_decref(json);
	return p;
}

struct iser_plan *iser_plan_read(const char *path, struct err *e)
{
	CLEANUP_FREE char *text = NULL;
	size_t len = 0;
	int r = read_file(path, ISER_PLAN_MAX, &text, &len);

	if (r) {
		err_sys(e, r, "%s", printable(path));
		return NULL;
	}
	if (strlen(text) != len) {
		err_set(e, -EINVAL, "%s: is no plan: it has a NUL in it", printable(path));
		return NULL;
	}
	return iser_plan_parse(printable(path), text, e);
}

/* ---- out ---- */

/* obj[key] = value, whose reference is taken. All of these are false when memory is out, for value
 * is NULL then. */
static bool put(json_t *obj, const char *key, json_t *value)
{
	return !json_object_set_new(obj, key, value);
}

static bool put_text(json_t *obj, const char *key, const char *text)
{
	return !text || put(obj, key, json_string(text));
}

typedef json_t *item_json(const void *item);

static bool put_list(json_t *obj, const char *key, const void *list, size_t n, size_t each,
		     item_json *item)
{
	json_t *out = json_array();

	for (size_t i = 0; i < n; i++)
		if (json_array_append_new(out, item((const char *)list + i * each))) {
			json_decref(out);
			return false;
		}
	return put(obj, key, out);
}

static bool put_attributes(json_t *obj, const struct iser_attribute *list, size_t n)
{
	json_t *out;

	if (!n)
		return true;
	out = json_object();
	for (size_t i = 0; i < n; i++)
		if (!put(out, list[i].name, json_integer((json_int_t)list[i].value))) {
			json_decref(out);
			return false;
		}
	return put(obj, "attributes", out);
}

/* obj when all went well, or NULL. */
static json_t *whole(json_t *obj, bool well)
{
	if (well)
		return obj;
	json_decref(obj);
	return NULL;
}

static json_t *store_json(const void *item)
{
	const struct iser_store *s = item;
	json_t *o = json_object();

	return whole(o, put(o, "lun", json_integer(s->lun)) && put_text(o, "name", s->name) &&
			put_text(o, "kind", iser_kinds[s->kind]) &&
			put(o, "node", json_integer(s->node)) &&
			put(o, "size", json_integer((json_int_t)s->size)) &&
			put_text(o, "policy", s->kind == ISER_TMPFS ? iser_policies[s->policy] :
				 NULL) &&
			put_text(o, "path", s->path) &&
			put(o, "write-back", json_boolean(s->write_back)) &&
			put_text(o, "serial", s->serial) &&
			put_attributes(o, s->attributes, s->n_attributes));
}

static json_t *portal_json(const void *item)
{
	const struct iser_portal *p = item;
	json_t *o = json_object();

	return whole(o, put_text(o, "address", p->address) &&
			put(o, "port", json_integer(p->port)) &&
			put_text(o, "netdev", p->netdev) &&
			put(o, "iser", json_boolean(p->iser)));
}

static bool put_chap(json_t *obj, const char *key, const struct iser_chap *c)
{
	return !c->user || put(obj, key, json_pack("{s:s, s:s}", "user", c->user, "secret-file",
						   c->secret_file));
}

static json_t *initiator_json(const void *item)
{
	const struct iser_initiator *i = item;
	json_t *o = json_object();

	return whole(o, put_text(o, "name", i->name) && put_chap(o, "chap", &i->chap) &&
			put_chap(o, "mutual-chap", &i->mutual));
}

static json_t *target_json(const void *item)
{
	const struct iser_target *t = item;
	json_t *o = json_object();

	return whole(o, put(o, "node", json_integer(t->node)) && put_text(o, "iqn", t->iqn) &&
			put(o, "open", json_boolean(t->open)) &&
			put_list(o, "portals", t->portals, t->n_portals, sizeof(*t->portals),
				 portal_json) &&
			put_list(o, "initiators", t->initiators, t->n_initiators,
				 sizeof(*t->initiators), initiator_json) &&
			put_list(o, "luns", t->stores, t->n_stores, sizeof(*t->stores),
				 store_json) &&
			put_attributes(o, t->attributes, t->n_attributes));
}

json_t *iser_plan_json(const struct iser_plan *p)
{
	json_t *o = json_object();

	return whole(o, put(o, VERSION_KEY, json_integer(FORMAT_VERSION)) &&
			put_text(o, "name", p->name) &&
			put_text(o, "cpus", iser_cpus_words[p->cpus]) &&
			put_list(o, "targets", p->targets, p->n_targets, sizeof(*p->targets),
				 target_json));
}
