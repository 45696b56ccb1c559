// SPDX-License-Identifier: Apache-2.0
/* Could a plan be carried out on some machine? */
#include "iser_setup/names.h"
#include "iser_setup/plan.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define SECTOR 512u
#define PAGE 4096u             /* a ramdisk is made of pages */
#define NODE_PLAUSIBLE(n) ((n) >= NODE_UNKNOWN && (n) <= NODE_MOST)

/* Where something stands, "targets[1].luns[0]". */
struct where {
	char text[96];
};

static struct where at_target(size_t t)
{
	struct where p;

	snprintf(p.text, sizeof(p.text), "targets[%zu]", t);
	return p;
}

static struct where at_item(size_t t, const char *list, size_t i)
{
	struct where p;

	snprintf(p.text, sizeof(p.text), "targets[%zu].%s[%zu]", t, list, i);
	return p;
}

static int wrong(struct err *e, const struct where *at, const char *member, const char *what)
{
	return err_set(e, -EINVAL, "%s%s%s %s", at->text, *at->text ? "." : "", member, what);
}

/* what: NULL for good, as of names.h. value: NULL for what is missing. */
static int named(struct err *e, const struct where *at, const char *member, const char *value,
		 const char *what)
{
	if (!what)
		return 0;
	return err_set(e, -EINVAL, "%s%s%s%s%s%s %s", at->text, *at->text ? "." : "", member,
		       value && *value ? " \"" : "", value ? printable(value) : "",
		       value && *value ? "\"" : "", what);
}

static bool same(const char *a, const char *b)
{
	return a && b && !strcmp(a, b);
}

/* ---- attributes ---- */

/* What other members of a plan decide, which would not be seen to be overruled. */
static const char *const lun_taken[][2] = {
	{ "emulate_write_cache", "is what write-back decides" },
	{ NULL, NULL },
};

static const char *const target_taken[][2] = {
	{ "authentication", "is what chap decides" },
	{ "generate_node_acls", "is what open decides" },
	{ "demo_mode_write_protect", "is what open decides" },
	{ "cache_dynamic_acls", "is what open decides" },
	{ NULL, NULL },
};

static int check_attributes(const struct iser_attribute *list, size_t n,
			    const char *const (*taken)[2], const struct where *up, struct err *e)
{
	struct where at;

	snprintf(at.text, sizeof(at.text), "%.80s.attributes", up->text);
	for (size_t i = 0; i < n; i++) {
		const char *name = list[i].name ? list[i].name : "";

		if (iser_attribute_wrong(name))
			return wrong(e, &at, printable(name), iser_attribute_wrong(name));
		for (size_t k = 0; taken[k][0]; k++)
			if (same(name, taken[k][0]))
				return wrong(e, &at, name, taken[k][1]);
		if (list[i].value > UINT32_MAX)
			return wrong(e, &at, name, "is above 4294967295");
		for (size_t k = 0; k < i; k++)
			if (same(name, list[k].name))
				return wrong(e, &at, name, "is there twice");
	}
	return 0;
}

/* ---- back stores ---- */

static int check_size(const struct iser_store *s, const struct where *at, struct err *e)
{
	const unsigned unit = s->kind == ISER_RAMDISK ? PAGE : SECTOR;
	char what[64];

	if (s->kind == ISER_BLOCK)
		return s->size ? wrong(e, at, "size", "is there, but a block device is served "
				       "whole") : 0;
	if (!s->size)
		return wrong(e, at, "size", "is missing");
	if (s->size < ISER_SIZE_LEAST)
		return wrong(e, at, "size", "is less than 1 MiB");
	if (s->size > INT64_MAX)
		return wrong(e, at, "size", "is more than a file can have");
	snprintf(what, sizeof(what), "is no multiple of %u bytes", unit);
	return s->size % unit ? wrong(e, at, "size", what) : 0;
}

static int check_path(const struct iser_store *s, const struct where *at, struct err *e)
{
	CLEANUP_FREE char *file = NULL;
	const char *what;

	if (s->kind == ISER_RAMDISK)
		return s->path ? wrong(e, at, "path", "is there, but a ramdisk has none") : 0;
	what = iser_path_wrong(s->path);
	if (what)
		return named(e, at, "path", s->path, what);
	if (s->kind == ISER_BLOCK && strncmp(s->path, "/dev/", 5) != 0)
		return named(e, at, "path", s->path, "is not below /dev");
	file = iser_store_file(s);
	if (!file)
		return err_set(e, -ENOMEM, "out of memory");
	return named(e, at, "path", s->path, iser_path_wrong(file));
}

static int check_store(const struct iser_store *s, const struct where *at, struct err *e)
{
	const char *name = iser_name_wrong(s->name), *serial = iser_serial_wrong(s->serial);

	if (s->lun > ISER_LUN_MOST)
		return wrong(e, at, "lun", "is above 255");
	if (s->kind >= ISER_KINDS)
		return wrong(e, at, "kind", "is none of tmpfs, file, block, ramdisk");
	if (name)
		return named(e, at, "name", s->name, name);
	if (!NODE_PLAUSIBLE(s->node))
		return wrong(e, at, "node", "is no node's number");
	if (s->kind == ISER_TMPFS && s->node == NODE_UNKNOWN)
		return wrong(e, at, "node", "is missing: whose memory is the tmpfs to have?");
	if (s->policy >= ISER_POLICIES)
		return wrong(e, at, "policy", "is none of bind, prefer");
	if (check_size(s, at, e) || check_path(s, at, e))
		return e->code;
	if (s->write_back && iser_store_plugin(s) != iser_store_plugin(&(struct iser_store){
							     .kind = ISER_FILE }))
		return wrong(e, at, "write-back", s->kind == ISER_BLOCK ?
			     "is the device's own matter" : "is for a tmpfs or a file");
	if (serial)
		return named(e, at, "serial", s->serial, serial);
	return check_attributes(s->attributes, s->n_attributes, lun_taken, at, e);
}

/* ---- portals ---- */

static bool is_interface(const char *netdev)
{
	for (const char *s = netdev; *s; s++)
		if (*s <= ' ' || *s > '~' || *s == '/')
			return false;
	return *netdev;
}

static int check_portal(const struct iser_target *t, size_t i, const struct where *at,
			struct err *e)
{
	const struct iser_portal *p = &t->portals[i];
	const char *address = iser_address_wrong(p->address);

	if (address)
		return named(e, at, "address", p->address, address);
	if (!p->port || p->port > UINT16_MAX)
		return wrong(e, at, "port", "is not between 1 and 65535");
	if (p->netdev && !is_interface(p->netdev))
		return named(e, at, "netdev", p->netdev, "is no network interface's name");
	/* Of other targets it may be: the kernel looks for the target by its name at login. */
	for (size_t k = 0; k < i; k++)
		if (same(p->address, t->portals[k].address) && p->port == t->portals[k].port)
			return named(e, at, "address", p->address, "is there twice, with its port");
	return 0;
}

/* ---- initiators ---- */

static int check_chap(const struct iser_chap *c, const char *key, const struct where *up,
		      struct err *e)
{
	struct where at;

	if (!c->user && !c->secret_file)
		return 0;
	snprintf(at.text, sizeof(at.text), "%.72s.%s", up->text, key);
	if (iser_user_wrong(c->user))
		return named(e, &at, "user", c->user, iser_user_wrong(c->user));
	return named(e, &at, "secret-file", c->secret_file, iser_path_wrong(c->secret_file));
}

/* A secret that serves both ways lets whoever is asked for proof ask for it back. */
static bool is_others_secret(const struct iser_target *t, const char *file)
{
	for (size_t i = 0; i < t->n_initiators; i++)
		if (same(file, t->initiators[i].chap.secret_file))
			return true;
	return false;
}

static int check_initiator(const struct iser_target *t, size_t i, const struct where *at,
			   struct err *e)
{
	const struct iser_initiator *in = &t->initiators[i];
	const char *name = iser_iqn_wrong(in->name);

	if (name)
		return named(e, at, "name", in->name, name);
	for (size_t k = 0; k < i; k++)
		if (same(in->name, t->initiators[k].name))
			return named(e, at, "name", in->name, "is there twice");
	if (check_chap(&in->chap, "chap", at, e) || check_chap(&in->mutual, "mutual-chap", at, e))
		return e->code;
	if (in->mutual.user && !in->chap.user)
		return wrong(e, at, "mutual-chap", "is there without chap, on which it stands");
	if (is_others_secret(t, in->mutual.secret_file))
		return named(e, at, "mutual-chap.secret-file", in->mutual.secret_file,
			     "is a secret of chap, too: each way needs one of its own");
	/* Older kernels ask all initiators of a portal group for it, or none. */
	if (!in->chap.user != !t->initiators[0].chap.user)
		return wrong(e, at, "chap", in->chap.user ?
			     "is there, but not of all initiators of the target" :
			     "is missing, and other initiators of the target have it");
	return 0;
}

/* ---- targets ---- */

static int check_items(const struct iser_target *t, size_t nth, struct err *e)
{
	struct where at;

	for (size_t i = 0; i < t->n_portals; i++) {
		at = at_item(nth, "portals", i);
		if (check_portal(t, i, &at, e))
			return e->code;
	}
	for (size_t i = 0; i < t->n_initiators; i++) {
		at = at_item(nth, "initiators", i);
		if (check_initiator(t, i, &at, e))
			return e->code;
	}
	for (size_t i = 0; i < t->n_stores; i++) {
		at = at_item(nth, "luns", i);
		if (check_store(&t->stores[i], &at, e))
			return e->code;
		for (size_t k = 0; k < i; k++)
			if (t->stores[i].lun == t->stores[k].lun)
				return wrong(e, &at, "lun", "is there twice in its target");
	}
	return 0;
}

static int check_target(const struct iser_target *t, size_t nth, struct err *e)
{
	const struct where at = at_target(nth);
	const char *iqn = iser_iqn_wrong(t->iqn);

	if (iqn)
		return named(e, &at, "iqn", t->iqn, iqn);
	if (!NODE_PLAUSIBLE(t->node))
		return wrong(e, &at, "node", "is no node's number");
	if (!t->n_portals)
		return wrong(e, &at, "portals", "are missing: nobody could reach the target");
	if (!t->n_stores)
		return wrong(e, &at, "luns", "are missing: the target would have nothing to serve");
	if (!t->open && !t->n_initiators)
		return wrong(e, &at, "initiators", "are missing: nobody could log in; \"open\": "
			     "true lets anyone");
	if (t->open && t->n_initiators)
		return wrong(e, &at, "open", "is true, which lets anyone in, and there are "
			     "initiators: which is it?");
	if (check_items(t, nth, e))
		return e->code;
	return check_attributes(t->attributes, t->n_attributes, target_taken, &at, e);
}

/* ---- what must not be there twice in a plan ---- */

static int check_pair(const struct iser_store *s, const struct iser_store *other,
		      const struct where *at, struct err *e)
{
	if (same(s->name, other->name))
		return named(e, at, "name", s->name, "is there twice");
	if (same(s->serial, other->serial))
		return named(e, at, "serial", s->serial, "is there twice");
	if (same(s->path, other->path))
		return named(e, at, "path", s->path, "is there twice");
	if (iser_stores_overlap(s, other))
		return named(e, at, "path", s->path, "is beneath another store's tmpfs, or above "
			     "another store");
	return 0;
}

/* The stores of targets[t], from its ith back, with those before them. */
static int check_store_once(const struct iser_plan *p, size_t t, size_t i, struct err *e)
{
	const struct where at = at_item(t, "luns", i);

	for (size_t u = 0; u <= t; u++)
		for (size_t k = 0; k < (u == t ? i : p->targets[u].n_stores); k++)
			if (check_pair(&p->targets[t].stores[i], &p->targets[u].stores[k], &at, e))
				return e->code;
	return 0;
}

static int check_once(const struct iser_plan *p, size_t t, struct err *e)
{
	const struct where at = at_target(t);

	for (size_t u = 0; u < t; u++)
		if (same(p->targets[t].iqn, p->targets[u].iqn))
			return named(e, &at, "iqn", p->targets[t].iqn, "is there twice");
	for (size_t i = 0; i < p->targets[t].n_stores; i++)
		if (check_store_once(p, t, i, e))
			return e->code;
	return 0;
}

int iser_plan_check(const struct iser_plan *p, struct err *e)
{
	struct err own = ERR_INIT;
	const struct where top = { "" };

	if (!e)
		e = &own;
	if (iser_plan_name_wrong(p->name))
		return named(e, &top, "name", p->name, iser_plan_name_wrong(p->name));
	if (p->cpus >= ISER_CPUS_KINDS)
		return wrong(e, &top, "cpus", "is none of nodes, any");
	if (!p->n_targets)
		return wrong(e, &top, "targets", "are missing");
	for (size_t t = 0; t < p->n_targets; t++)
		if (check_target(&p->targets[t], t, e) || check_once(p, t, e))
			return e->code;
	return 0;
}
