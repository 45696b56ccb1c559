// SPDX-License-Identifier: Apache-2.0
/* DIR/initiator/login.json and its lock: not beside what apply keeps, whose files are called after
 * plans. */
#include "iser_setup/kept.h"

#include "iser_setup/state.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define KEPT_MAX (1u << 20)
#define FORMAT_KEY "rftp-iser-login"
#define FORMAT_VERSION 1
#define TAG_MOST 65535

/* ---- what is in it ---- */

struct kept_session *kept_find(const struct kept *k, const char *iqn)
{
	for (size_t i = 0; i < k->n_sessions; i++)
		if (!strcmp(k->sessions[i].iqn, iqn))
			return &k->sessions[i];
	return NULL;
}

struct login_target kept_target(const struct kept_session *s)
{
	struct login_target t = { .portal = s->portal, .tag = s->tag };

	strcpy(t.iqn, s->iqn);
	return t;
}

int kept_add(struct kept *k, const struct kept_session *s)
{
	struct kept_session *at = kept_find(k, s->iqn);

	if (!at)
		at = iser_plan_add(k->sessions, k->n_sessions);
	if (!at)
		return -ENOMEM;
	*at = *s;
	return 0;
}

void kept_drop(struct kept *k, const char *iqn)
{
	struct kept_session *at = kept_find(k, iqn);

	if (at)
		*at = k->sessions[--k->n_sessions];
}

struct stripe *kept_stripe(const struct kept *k, const struct stripe *like)
{
	for (size_t i = 0; i < k->n_stripes; i++)
		if (k->stripes[i].kind == like->kind && !strcmp(k->stripes[i].name, like->name) &&
		    !strcmp(k->stripes[i].id, like->id))
			return &k->stripes[i];
	return NULL;
}

int kept_add_stripe(struct kept *k, const struct stripe *s)
{
	struct stripe *at = kept_stripe(k, s);

	if (!at)
		at = iser_plan_add(k->stripes, k->n_stripes);
	if (!at)
		return -ENOMEM;
	*at = *s;
	return 0;
}

void kept_drop_stripe(struct kept *k, const struct stripe *s)
{
	struct stripe *at = kept_stripe(k, s);

	if (at)
		*at = k->stripes[--k->n_stripes];
}

int kept_add_half(struct kept *k, const struct kept_half *h)
{
	struct kept_half *at = iser_plan_add(k->halves, k->n_halves);

	if (!at)
		return -ENOMEM;
	*at = *h;
	return 0;
}

void kept_drop_half(struct kept *k, const char *id)
{
	for (size_t i = 0; i < k->n_halves; i++)
		if (!strcmp(k->halves[i].stripe.id, id)) {
			k->halves[i] = k->halves[--k->n_halves];
			return;
		}
}

/* ---- out ---- */

static json_t *session_json(const struct kept_session *s)
{
	return json_pack("{s:s, s:s, s:i, s:i, s:s, s:b}", "target", s->iqn, "address",
			 s->portal.address, "port", (int)s->portal.port, "tag", (int)s->tag,
			 "transport", login_transports[s->transport], "record", s->record);
}

static json_t *stripe_json(const struct stripe *s)
{
	return json_pack("{s:s, s:s, s:s}", "kind", stripe_kinds[s->kind], "name", s->name, "id",
			 s->id);
}

static json_t *half_json(const struct kept_half *h)
{
	json_t *disks = json_array(), *half = stripe_json(&h->stripe);
	bool well = true;

	for (unsigned i = 0; i < h->n; i++)
		well &= !json_array_append_new(disks, json_pack("{s:s, s:i}", "target",
					       h->disks[i].iqn, "lun", (int)h->disks[i].lun));
	well &= !json_object_set_new(half, "disks", disks);
	if (well)
		return half;
	json_decref(half);
	return NULL;
}

char *kept_text(const struct kept *k)
{
	json_t *sessions = json_array(), *stripes = json_array(), *halves = json_array(), *all;
	bool well = true;
	char *text;

	for (size_t i = 0; i < k->n_sessions; i++)
		well &= !json_array_append_new(sessions, session_json(&k->sessions[i]));
	for (size_t i = 0; i < k->n_stripes; i++)
		well &= !json_array_append_new(stripes, stripe_json(&k->stripes[i]));
	for (size_t i = 0; i < k->n_halves; i++)
		well &= !json_array_append_new(halves, half_json(&k->halves[i]));
	all = json_pack("{s:i, s:o, s:o, s:o}", FORMAT_KEY, FORMAT_VERSION, "sessions", sessions,
			"stripes", stripes, "halves", halves);
	text = all && well ? json_dumps(all, JSON_INDENT(2)) : NULL;
	json_decref(all);
	return text;
}

/* ---- in ---- */

static int damaged(const char *name, const char *what, struct err *e)
{
	return err_set(e, -EBADMSG, "%s is damaged: %s; what login made must be taken away with "
		       "iscsiadm, and the file removed", printable(name), what);
}

/* Names that end up as other programs' arguments. */
static bool is_word(const char *text, size_t room)
{
	return *text && *text != '-' && strlen(text) < room && !strpbrk(text, " \t\n/");
}

static bool take_session(struct kept *k, json_t *item)
{
	const char *iqn, *address, *transport;
	struct kept_session s = { 0 };
	int port, tag, record;

	if (json_unpack(item, "{s:s, s:s, s:i, s:i, s:s, s:b}", "target", &iqn, "address", &address,
			"port", &port, "tag", &tag, "transport", &transport, "record", &record))
		return false;
	if (!is_word(iqn, sizeof(s.iqn)) || !is_word(address, sizeof(s.portal.address)) ||
	    port < 1 || port > UINT16_MAX || tag < 0 || tag > TAG_MOST)
		return false;
	strcpy(s.iqn, iqn);
	strcpy(s.portal.address, address);
	s.portal.port = (unsigned)port;
	s.tag = (unsigned)tag;
	s.record = record;
	while (s.transport < LOGIN_TRANSPORTS && strcmp(transport, login_transports[s.transport]))
		s.transport++;
	return s.transport < LOGIN_TRANSPORTS && !kept_add(k, &s);
}

static bool read_stripe(struct stripe *s, json_t *item)
{
	const char *kind, *name, *id;

	*s = (struct stripe){ .kind = STRIPE_MD };
	if (json_unpack(item, "{s:s, s:s, s:s}", "kind", &kind, "name", &name, "id", &id) ||
	    !is_word(name, sizeof(s->name)) || strlen(id) >= sizeof(s->id))
		return false;
	strcpy(s->name, name);
	strcpy(s->id, id);
	while (s->kind < STRIPE_KINDS && strcmp(kind, stripe_kinds[s->kind]))
		s->kind++;
	return s->kind < STRIPE_KINDS;
}

static bool take_stripe(struct kept *k, json_t *item)
{
	struct stripe s;

	return read_stripe(&s, item) && !kept_add_stripe(k, &s);
}

static bool take_half(struct kept *k, json_t *item)
{
	struct kept_half h = { .n = 0 };
	json_t *disks = json_object_get(item, "disks"), *disk;
	size_t i;

	if (!read_stripe(&h.stripe, item) || !is_word(h.stripe.id, sizeof(h.stripe.id)) ||
	    json_array_size(disks) < 2 || json_array_size(disks) > STRIPE_MEMBERS_MOST)
		return false;
	json_array_foreach(disks, i, disk) {
		struct kept_disk *d = &h.disks[h.n++];
		const char *iqn;
		int lun;

		if (json_unpack(disk, "{s:s, s:i}", "target", &iqn, "lun", &lun) ||
		    !is_word(iqn, sizeof(d->iqn)) || lun < 0)
			return false;
		strcpy(d->iqn, iqn);
		d->lun = (unsigned)lun;
	}
	return !kept_add_half(k, &h);
}

static int take_all(struct kept *k, const char *name, json_t *all, struct err *e)
{
	json_t *sessions, *stripes, *halves = NULL, *item;
	int version;
	size_t i;

	/* Halves came later. */
	if (json_unpack(all, "{s:i, s:o, s:o, s?o}", FORMAT_KEY, &version, "sessions", &sessions,
			"stripes", &stripes, "halves", &halves))
		return damaged(name, "it is none of rftp-iser login's", e);
	if (version != FORMAT_VERSION)
		return damaged(name, "its format is another", e);
	if (!json_is_array(sessions) || !json_is_array(stripes) ||
	    (halves && !json_is_array(halves)))
		return damaged(name, "it has no lists", e);
	json_array_foreach(sessions, i, item)
		if (!take_session(k, item))
			return damaged(name, "a session in it", e);
	json_array_foreach(stripes, i, item)
		if (!take_stripe(k, item))
			return damaged(name, "a stripe in it", e);
	json_array_foreach(halves, i, item)
		if (!take_half(k, item))
			return damaged(name, "a stripe that was being made in it", e);
	return 0;
}

int kept_parse(struct kept *k, const char *name, const char *text, struct err *e)
{
	json_error_t bad;
	json_t *all = json_loads(text, JSON_REJECT_DUPLICATES, &bad);
	int r;

	if (!all)
		return damaged(name, printable(bad.text), e);
	r = take_all(k, name, all, e);
	json_decref(all);
	return r;
}

/* ---- the file ---- */

static char *file_of(const struct kept *k, const char *name)
{
	char *path;

	return asprintf(&path, "%s/%s", k->dir, name) < 0 ? NULL : path;
}

static int take_lock(struct kept *k, const struct lock_wait *wait, struct err *e)
{
	CLEANUP_FREE char *path = file_of(k, "login.lock");

	if (!path)
		return err_set(e, -ENOMEM, "out of memory");
	k->lock = iser_lock(&(struct lock_ask){
		.path = path, .busy = "another login or logout is at work", .wait = *wait,
		.begun = "iscsiadm, mdadm, wipefs, mkfs.xfs or a program of LVM's",
	}, e);
	return k->lock < 0 ? k->lock : 0;
}

int kept_open(struct kept *k, const char *dir, const struct lock_wait *wait, struct err *e)
{
	CLEANUP_FREE char *path = NULL, *text = NULL;
	const char *own = getenv("RFTP_ISER_STATE");
	int r;

	*k = (struct kept){ .lock = -1 };
	dir = dir ? dir : own && *own ? own : ISER_STATE_DIR;
	if (asprintf(&k->dir, "%s/initiator", dir) < 0)
		k->dir = NULL;
	path = k->dir ? file_of(k, "login.json") : NULL;
	if (!path)
		return err_set(e, -ENOMEM, "out of memory");
	r = make_dirs(k->dir, 0700);
	if (r)
		return err_sys(e, r, "the state's directory %s", printable(k->dir));
	r = take_lock(k, wait, e);
	if (r)
		return r;
	r = read_file(path, KEPT_MAX, &text, NULL);
	if (r == -ENOENT)
		return 0;
	return r ? err_sys(e, r, "%s", printable(path)) : kept_parse(k, path, text, e);
}

void kept_close(struct kept *k)
{
	cleanup_close(&k->lock);
	free(k->dir);
	free(k->sessions);
	free(k->stripes);
	free(k->halves);
	*k = (struct kept){ .lock = -1 };
}

int kept_write(const struct kept *k, struct err *e)
{
	CLEANUP_FREE char *path = file_of(k, "login.json"), *text = kept_text(k);

	if (!path || !text)
		return err_set(e, -ENOMEM, "out of memory");
	return write_file_atomic(path, text, strlen(text), 0600, e);
}
