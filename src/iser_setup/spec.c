// SPDX-License-Identifier: Apache-2.0
/* Reads what is asked of a plan. */
#include "iser_setup/spec.h"

#include "iser_setup/locate.h"
#include "iser_setup/names.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory ---- */

struct spec *spec_new(void)
{
	return calloc(1, sizeof(struct spec));
}

static void free_attributes(struct iser_attribute *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(list[i].name);
	free(list);
}

static void clear_node(struct spec_node *n)
{
	for (size_t i = 0; i < n->n_stores; i++)
		free(n->stores[i].path);
	free(n->stores);
	for (size_t i = 0; i < n->n_portals; i++)
		free(n->portals[i]);
	free(n->portals);
	free_attributes(n->lun_attributes, n->n_lun_attributes);
	free_attributes(n->target_attributes, n->n_target_attributes);
}

static void clear_initiator(struct spec_initiator *i)
{
	free(i->name);
	free(i->chap_user);
	free(i->chap_secret);
	free(i->mutual_user);
	free(i->mutual_secret);
}

void spec_free(struct spec *s)
{
	if (!s)
		return;
	free(s->name);
	free(s->iqn);
	free(s->domain);
	free(s->mounts);
	free(s->secrets);
	for (size_t i = 0; i < s->n_nodes; i++)
		clear_node(&s->nodes[i]);
	free(s->nodes);
	for (size_t i = 0; i < s->n_initiators; i++)
		clear_initiator(&s->initiators[i]);
	free(s->initiators);
	free(s);
}

void cleanup_spec(struct spec **s)
{
	spec_free(*s);
}

/* ---- values ---- */

static int no_memory(struct err *e)
{
	return err_set(e, -ENOMEM, "out of memory");
}

static int put(char **field, const char *value, struct err *e)
{
	free(*field);
	*field = strdup(value);
	return *field ? 0 : no_memory(e);
}

/* wrong: as of names.h. */
static int put_checked(char **field, const char *value, const char *wrong, struct err *e)
{
	return wrong ? err_set(e, -EINVAL, "\"%s\" %s", printable(value), wrong)
		     : put(field, value, e);
}

static int put_bool(bool *field, const char *value, struct err *e)
{
	return parse_bool(value, field) ? err_set(e, -EINVAL, "\"%s\" is neither yes nor no",
						  printable(value)) : 0;
}

/* Which of words it is, of which there are n. */
static int word(const char *value, const char *const *words, int n, int *out, struct err *e)
{
	char known[80] = "";

	for (int i = 0; i < n; i++) {
		if (!strcmp(value, words[i])) {
			*out = i;
			return 0;
		}
		snprintf(known + strlen(known), sizeof(known) - strlen(known), "%s%s",
			 i ? ", " : "", words[i]);
	}
	return err_set(e, -EINVAL, "\"%s\" is none of %s", printable(value), known);
}

static int size_of(const char *value, uint64_t *size, struct err *e)
{
	if (parse_size(value, size))
		return err_set(e, -EINVAL, "\"%s\" is no size, as 4G is", printable(value));
	return *size < ISER_SIZE_LEAST ? err_set(e, -EINVAL, "\"%s\" is less than 1 MiB",
						 printable(value)) : 0;
}

/* "NAME VALUE" */
static int add_attribute(struct iser_attribute **list, size_t *n, const char *value,
			 struct err *e)
{
	const size_t length = strcspn(value, " \t");
	const char *number = value + length + strspn(value + length, " \t");
	CLEANUP_FREE char *name = strndup(value, length);
	struct iser_attribute *a;
	uint64_t v;

	if (!name)
		return no_memory(e);
	if (iser_attribute_wrong(name))
		return err_set(e, -EINVAL, "\"%s\" %s", printable(name),
			       iser_attribute_wrong(name));
	if (parse_uint(number, 0, UINT32_MAX, &v))
		return err_set(e, -EINVAL, "the attribute %s wants a number from 0 to 4294967295, "
			       "not \"%s\"", name, printable(number));
	a = iser_plan_add(*list, *n);
	if (!a)
		return no_memory(e);
	a->name = steal_ptr(&name);
	a->value = v;
	return 0;
}

/* ---- [plan] ---- */

typedef int set_plan(struct spec *s, const char *value, struct err *e);

static int set_name(struct spec *s, const char *value, struct err *e)
{
	return put_checked(&s->name, value, iser_plan_name_wrong(value), e);
}

static int set_iqn(struct spec *s, const char *value, struct err *e)
{
	const char *wrong = iser_iqn_wrong(value);

	if (!wrong && (strncmp(value, "iqn.", 4) != 0 || strchr(value, ':')))
		wrong = "is more than the beginning of names, as iqn.2026-01.org.example is";
	return put_checked(&s->iqn, value, wrong, e);
}

static int set_domain(struct spec *s, const char *value, struct err *e)
{
	return put(&s->domain, value, e);
}

static int set_mounts(struct spec *s, const char *value, struct err *e)
{
	return put_checked(&s->mounts, value, iser_path_wrong(value), e);
}

static int set_secrets(struct spec *s, const char *value, struct err *e)
{
	return put_checked(&s->secrets, value, iser_path_wrong(value), e);
}

static int set_cpus(struct spec *s, const char *value, struct err *e)
{
	int found;
	int r = word(value, iser_cpus_words, ISER_CPUS_KINDS, &found, e);

	if (!r)
		s->cpus = (enum iser_cpus)found;
	return r;
}

static int set_open(struct spec *s, const char *value, struct err *e)
{
	return put_bool(&s->open, value, e);
}

static int set_tcp(struct spec *s, const char *value, struct err *e)
{
	return put_bool(&s->tcp, value, e);
}

static int in_plan(struct spec *s, const char *key, const char *value, struct err *e)
{
	static const struct { const char *key; set_plan *set; } keys[] = {
		{ "name", set_name }, { "iqn", set_iqn }, { "domain", set_domain },
		{ "mounts", set_mounts }, { "secrets", set_secrets }, { "cpus", set_cpus },
		{ "open", set_open }, { "tcp", set_tcp },
	};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (!strcmp(keys[i].key, key))
			return keys[i].set(s, value, e);
	return err_set(e, -EINVAL, "[plan] has no \"%s\"", printable(key));
}

/* ---- [node N] ---- */

typedef int set_node(struct spec_node *n, const char *value, struct err *e);

/* path's copy; size: 0 without one. */
static int add_store(struct spec_node *n, enum iser_kind kind, const char *path, uint64_t size,
		     struct err *e)
{
	const char *wrong = path ? iser_path_wrong(path) : NULL;
	struct spec_store *s;

	if (wrong)
		return err_set(e, -EINVAL, "\"%s\" %s", printable(path), wrong);
	s = iser_plan_add(n->stores, n->n_stores);
	if (!s)
		return no_memory(e);
	*s = (struct spec_store){ .kind = kind, .size = size, .found = NODE_UNKNOWN };
	return path ? put(&s->path, path, e) : 0;
}

static int add_tmpfs(struct spec_node *n, const char *value, struct err *e)
{
	uint64_t size;
	int r = size_of(value, &size, e);

	return r ? r : add_store(n, ISER_TMPFS, NULL, size, e);
}

static int add_ramdisk(struct spec_node *n, const char *value, struct err *e)
{
	uint64_t size;
	int r = size_of(value, &size, e);

	return r ? r : add_store(n, ISER_RAMDISK, NULL, size, e);
}

/* "PATH SIZE" */
static int add_file(struct spec_node *n, const char *value, struct err *e)
{
	const size_t length = strcspn(value, " \t");
	CLEANUP_FREE char *path = strndup(value, length);
	uint64_t size;
	int r;

	if (!path)
		return no_memory(e);
	if (!value[length])
		return err_set(e, -EINVAL, "a file wants its size, too: %s 100G",
			       printable(value));
	r = size_of(value + length + strspn(value + length, " \t"), &size, e);
	return r ? r : add_store(n, ISER_FILE, path, size, e);
}

static int add_block(struct spec_node *n, const char *value, struct err *e)
{
	if (strncmp(value, "/dev/", strlen("/dev/")) != 0)
		return err_set(e, -EINVAL, "\"%s\" is not below /dev", printable(value));
	return add_store(n, ISER_BLOCK, value, 0, e);
}

/* Takes ":PORT" off the end of text, and the brackets before it. */
static int split_port(char *text, unsigned *port, struct err *e)
{
	char *close = *text == '[' ? strchr(text, ']') : NULL;
	char *colon = close ? close + 1 : strchr(text, ':');
	uint64_t number;

	if (!close && colon && strchr(colon + 1, ':'))
		return 0;
	if (close) {
		memmove(text, text + 1, (size_t)(close - text - 1));
		close[-1] = '\0';
		colon = *colon ? colon : NULL;
	}
	if (!colon)
		return 0;
	if (*colon != ':' || parse_uint(colon + 1, 1, UINT16_MAX, &number))
		return err_set(e, -EINVAL, "\"%s\" is no port, from 1 to 65535",
			       printable(colon + (*colon == ':')));
	*colon = '\0';
	*port = (unsigned)number;
	return 0;
}

int spec_portal(const char *value, char **at, unsigned *port, struct err *e)
{
	*port = ISER_PORT;
	*at = strdup(value);
	return *at ? split_port(*at, port, e) : no_memory(e);
}

/* Else it is an interface's name. */
static bool looks_like_address(const char *s)
{
	return strchr(s, ':') || !s[strspn(s, "0123456789.")];
}

static int add_portal(struct spec_node *n, const char *value, struct err *e)
{
	CLEANUP_FREE char *at = NULL;
	unsigned port;
	char **p;

	if (spec_portal(value, &at, &port, e))
		return e->code;
	if (looks_like_address(at) && iser_address_wrong(at))
		return err_set(e, -EINVAL, "\"%s\" %s", printable(at), iser_address_wrong(at));

	if (n->node == SPEC_EACH && strcmp(value, "auto") != 0)
		return err_set(e, -EINVAL, "a portal belongs into the section of its node, as "
			       "[node 0]");
	p = iser_plan_add(n->portals, n->n_portals);
	return p ? put(p, value, e) : no_memory(e);
}

static int set_policy(struct spec_node *n, const char *value, struct err *e)
{
	return word(value, iser_policies, ISER_POLICIES, &n->policy, e);
}

static int set_write(struct spec_node *n, const char *value, struct err *e)
{
	static const char *const words[] = { "through", "back" };

	return word(value, words, 2, &n->write_back, e);
}

static int add_lun_attribute(struct spec_node *n, const char *value, struct err *e)
{
	return add_attribute(&n->lun_attributes, &n->n_lun_attributes, value, e);
}

static int add_target_attribute(struct spec_node *n, const char *value, struct err *e)
{
	return add_attribute(&n->target_attributes, &n->n_target_attributes, value, e);
}

const struct spec_node *spec_node(const struct spec *s, int node)
{
	for (size_t i = 0; i < s->n_nodes; i++)
		if (s->nodes[i].node == node)
			return &s->nodes[i];
	return NULL;
}

/* The section's, which is made when it is its first line; NULL with text. */
static struct spec_node *node_of(struct spec *s, const char *name, struct err *e)
{
	const bool each = !strcmp(name, "*");
	struct spec_node *n;
	uint64_t id = 0;

	if (!each && parse_uint(name, 0, NODE_MOST, &id)) {
		err_set(e, -EINVAL, "\"%s\" is no node: that is a number, or * for each",
			printable(name));
		return NULL;
	}
	n = (struct spec_node *)spec_node(s, each ? SPEC_EACH : (int)id);
	if (n)
		return n;
	n = iser_plan_add(s->nodes, s->n_nodes);
	if (!n)
		no_memory(e);
	else
		*n = (struct spec_node){ .node = each ? SPEC_EACH : (int)id,
					 .policy = SPEC_UNSAID, .write_back = SPEC_UNSAID };
	return n;
}

static int in_node(struct spec *s, const char *name, const char *key, const char *value,
		   struct err *e)
{
	static const struct { const char *key; set_node *set; } keys[] = {
		{ "tmpfs", add_tmpfs }, { "ramdisk", add_ramdisk }, { "file", add_file },
		{ "block", add_block }, { "portal", add_portal }, { "policy", set_policy },
		{ "write", set_write }, { "lun-attribute", add_lun_attribute },
		{ "target-attribute", add_target_attribute },
	};
	struct spec_node *n = node_of(s, name, e);

	if (!n)
		return e->code;
	for (size_t i = 0; key && i < sizeof(keys) / sizeof(keys[0]); i++)
		if (!strcmp(keys[i].key, key))
			return keys[i].set(n, value, e);
	return key ? err_set(e, -EINVAL, "[node] has no \"%s\"", printable(key)) : 0;
}

/* ---- [initiator IQN] ---- */

static struct spec_initiator *initiator_of(struct spec *s, const char *name, struct err *e)
{
	struct spec_initiator *i;

	for (size_t k = 0; k < s->n_initiators; k++)
		if (!strcmp(s->initiators[k].name, name))
			return &s->initiators[k];
	if (iser_iqn_wrong(name)) {
		err_set(e, -EINVAL, "the initiator \"%s\" %s", printable(name),
			iser_iqn_wrong(name));
		return NULL;
	}
	i = iser_plan_add(s->initiators, s->n_initiators);
	if (!i || put(&i->name, name, e)) {
		if (i)
			s->n_initiators--;
		no_memory(e);
		return NULL;
	}
	return i;
}

static int put_secret(char **field, const char *value, struct err *e)
{
	return put_checked(field, value, strcmp(value, SPEC_GENERATE) ? iser_path_wrong(value) :
			   NULL, e);
}

static int in_initiator(struct spec *s, const char *name, const char *key, const char *value,
			struct err *e)
{
	struct spec_initiator *i = initiator_of(s, name, e);

	if (!i)
		return e->code;
	if (!key)
		return 0;
	if (!strcmp(key, "chap-user"))
		return put_checked(&i->chap_user, value, iser_user_wrong(value), e);
	if (!strcmp(key, "mutual-user"))
		return put_checked(&i->mutual_user, value, iser_user_wrong(value), e);
	if (!strcmp(key, "chap-secret"))
		return put_secret(&i->chap_secret, value, e);
	if (!strcmp(key, "mutual-secret"))
		return put_secret(&i->mutual_secret, value, e);
	return err_set(e, -EINVAL, "[initiator] has no \"%s\"", printable(key));
}

/* ---- all of it ---- */

/* What is behind "kind " in section; NULL: it is of another kind. */
static const char *of_kind(const char *section, const char *kind)
{
	const size_t n = strlen(kind);

	if (strncmp(section, kind, n) != 0 || (section[n] != ' ' && section[n] != '\t'))
		return NULL;
	return section + n + strspn(section + n, " \t");
}

static int take(void *arg, const char *section, const char *key, const char *value,
		struct err *e)
{
	const char *node = of_kind(section, "node"), *initiator = of_kind(section, "initiator");

	if (node)
		return in_node(arg, node, key, value, e);
	if (initiator)
		return in_initiator(arg, initiator, key, value, e);
	if (!strcmp(section, "plan"))
		return key ? in_plan(arg, key, value, e) : 0;
	if (!*section)
		return err_set(e, -EINVAL, "\"%s\" is in no section, as [plan] is one",
			       printable(key));
	return err_set(e, -EINVAL, "[%s] is none of [plan], [node N], [node *], [initiator IQN]",
		       printable(section));
}

int spec_set(struct spec *s, const char *section, const char *key, const char *value,
	     struct err *e)
{
	struct err own = ERR_INIT;

	return take(s, section, key, value, e ? e : &own);
}

int spec_parse(struct spec *s, const char *name, const char *text, struct err *e)
{
	struct err own = ERR_INIT;

	return conf_parse(name, text, take, s, e ? e : &own);
}

/* ---- where devices are ---- */

void spec_locate(struct spec *s, const struct topo *t, bool own)
{
	for (size_t i = 0; i < s->n_nodes; i++)
		for (size_t k = 0; k < s->nodes[i].n_stores; k++) {
			struct spec_store *store = &s->nodes[i].stores[k];

			store->found = locate_node(store->kind, store->path, t, own);
		}
}
