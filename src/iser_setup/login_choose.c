// SPDX-License-Identifier: Apache-2.0
/* From a plan or a discovery to targets, each with one portal. */
#include "iser_setup/login.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORD_MOST 255 /* of a user or a secret: what open-iscsi and LIO both keep */
#define TAG_MOST 65535u
#define DISCOVERY_MOST 4096 /* targets of one host */

const char *const login_transports[LOGIN_TRANSPORTS] = { "iser", "tcp" };
const char *const login_ifaces[LOGIN_TRANSPORTS] = { "iser", "default" };
const char *const login_modules[LOGIN_TRANSPORTS] = { "ib_iser", "iscsi_tcp" };

/* ---- addresses ---- */

const char *login_portal_text(char out[ISCSI_PORTAL_ROOM], const struct login_portal *p)
{
	snprintf(out, ISCSI_PORTAL_ROOM, strchr(p->address, ':') ? "[%s]:%u" : "%s:%u", p->address,
		 p->port);
	return out;
}

bool login_same_portal(const struct login_portal *a, const struct login_portal *b)
{
	struct in6_addr one, other;

	if (a->port != b->port)
		return false;
	if (inet_pton(AF_INET6, a->address, &one) == 1 &&
	    inet_pton(AF_INET6, b->address, &other) == 1)
		return !memcmp(&one, &other, sizeof(one));
	return !strcmp(a->address, b->address);
}

static int bad_address(const char *word, struct err *e)
{
	return err_set(e, -EINVAL, "%s is no ADDRESS, ADDRESS:PORT or [IPV6]:PORT",
		       printable(word));
}

int login_address(const char *word, char **host, unsigned *port, struct err *e)
{
	const char *colon = strchr(word, ':'), *begin = word, *end = NULL, *rest;
	uint64_t number = ISER_PORT;

	*host = NULL;
	if (*word == '[') {
		begin++;
		end = strchr(word, ']');
		if (!end || (end[1] && end[1] != ':'))
			return bad_address(word, e);
		rest = end + 1;
	} else {
		/* More than one colon is an address of IPv6 without a port. */
		if (!colon || strchr(colon + 1, ':'))
			colon = word + strlen(word);
		end = rest = colon;
	}
	if (end == begin || strchr(" \t,/", *begin))
		return bad_address(word, e);
	if (*rest == ':' && parse_uint(rest + 1, 1, UINT16_MAX, &number))
		return bad_address(word, e);
	*host = strndup(begin, (size_t)(end - begin));
	*port = (unsigned)number;
	return *host ? 0 : err_set(e, -ENOMEM, "out of memory");
}

/* ---- lists ---- */

void login_list_clear(struct login_list *l)
{
	free(l->v);
	*l = (struct login_list){ 0 };
}

static struct login_target *find(const struct login_list *l, const char *iqn)
{
	for (size_t i = 0; i < l->n; i++)
		if (!strcmp(l->v[i].iqn, iqn))
			return &l->v[i];
	return NULL;
}

static bool wished(const struct login_wish *w, const char *iqn)
{
	for (unsigned i = 0; w->iqns && i < w->iqns->n; i++)
		if (!strcmp(w->iqns->word[i], iqn))
			return true;
	return !w->iqns || !w->iqns->n;
}

/* The place of p in the wish's portals; n_portals: it is none of them. */
static size_t rank(const struct login_wish *w, const struct login_portal *p)
{
	size_t i = 0;

	while (i < w->n_portals && !login_same_portal(&w->portals[i], p))
		i++;
	return i;
}

/* Is each target that was asked for by name in l? */
static int all_found(const struct login_wish *w, const struct login_list *l, const char *where,
		     struct err *e)
{
	for (unsigned i = 0; w->iqns && i < w->iqns->n; i++)
		if (!find(l, w->iqns->word[i]))
			return err_set(e, -ENOENT, "%s has no target %s for this host", where,
				       printable(w->iqns->word[i]));
	return 0;
}

/* ---- from a plan ---- */

static const struct iser_initiator *entry_of(const struct iser_target *t, const char *initiator)
{
	for (size_t i = 0; i < t->n_initiators; i++)
		if (!strcmp(t->initiators[i].name, initiator))
			return &t->initiators[i];
	return NULL;
}

static void portal_of(struct login_portal *out, const struct iser_portal *p)
{
	snprintf(out->address, sizeof(out->address), "%s", p->address);
	out->port = p->port;
}

/* 0; -EPROTONOSUPPORT: none does iSER; -EADDRNOTAVAIL: none is where it is wished. */
static int choose_portal(const struct iser_target *t, const struct login_wish *w,
			 struct login_portal *out)
{
	int r = -EPROTONOSUPPORT;

	for (size_t i = 0; i < t->n_portals; i++) {
		if (w->transport == LOGIN_ISER && !t->portals[i].iser)
			continue;
		portal_of(out, &t->portals[i]);
		if (!w->n_portals || rank(w, out) < w->n_portals)
			return 0;
		r = -EADDRNOTAVAIL;
	}
	return r;
}

static const struct iser_chap *given(const struct iser_chap *c)
{
	return c->user ? c : NULL;
}

static int take_planned(const struct iser_target *t, const struct iser_initiator *i,
			const struct login_wish *w, struct login_list *l, struct err *e)
{
	struct login_portal portal = { 0 };
	int r = choose_portal(t, w, &portal);
	struct login_target *new;

	if (r == -EPROTONOSUPPORT)
		return err_set(e, r, "target %s has no portal with iSER in the plan; --transport "
			       "tcp takes one without", printable(t->iqn));
	if (r)
		return 0;
	new = iser_plan_add(l->v, l->n);
	if (!new)
		return err_set(e, -ENOMEM, "out of memory");
	*new = (struct login_target){ .portal = portal, .tag = 1, .plan = t };
	snprintf(new->iqn, sizeof(new->iqn), "%s", t->iqn);
	if (i) {
		new->chap = given(&i->chap);
		new->mutual = given(&i->mutual);
	}
	return 0;
}

int login_from_plan(const struct iser_plan *p, const char *initiator, const struct login_wish *w,
		    struct login_list *l, struct err *e)
{
	bool named = false;
	int r = 0;

	*l = (struct login_list){ 0 };
	for (size_t i = 0; !r && i < p->n_targets; i++) {
		const struct iser_target *t = &p->targets[i];
		const struct iser_initiator *entry = entry_of(t, initiator);

		if (!entry && !t->open)
			continue;
		named = true;
		if (wished(w, t->iqn))
			r = take_planned(t, entry, w, l, e);
	}
	if (r)
		return r;
	if (!named)
		return err_set(e, -ENOENT, "plan %s lets no initiator %s in, which is this host's "
			       "name; add it to the plan's initiators and apply it there",
			       printable(p->name), printable(initiator));
	r = all_found(w, l, "the plan", e);
	if (!r && !l->n)
		r = err_set(e, -ENOENT, "plan %s has no target for this host at the addresses "
			    "given", printable(p->name));
	return r;
}

const struct iser_store *login_store(const struct login_target *t, unsigned lun)
{
	for (size_t i = 0; i < t->plan->n_stores; i++)
		if (t->plan->stores[i].lun == lun)
			return &t->plan->stores[i];
	return NULL;
}

int login_check_disk(const struct login_target *t, unsigned lun, const char *serial,
		     struct err *e)
{
	const struct iser_store *s = t->plan ? login_store(t, lun) : NULL;

	if (!s || !*serial || !strcmp(s->serial, serial))
		return 0;
	return err_set(e, -ENXIO, "LUN %u of %s has the serial %s, and the plan says %s: it is "
		       "another disk than the plan's", lun, printable(t->iqn), printable(serial),
		       s->serial);
}

/* ---- from a discovery ---- */

/* What comes from the network becomes words of commands, names and patterns of files, and JSON. */
static bool is_name(const char *text, size_t room)
{
	size_t n = strlen(text);

	for (size_t i = 0; i < n; i++)
		if (text[i] <= ' ' || text[i] >= 0x7f || strchr(",/*?[\\", text[i]))
			return false;
	return n && n < room && *text != '-' && *text != '.';
}

/* One line, "10.0.0.1:3260,1 iqn..." or "[fd00::1]:3260,1 iqn...". */
static int parse_line(const char *line, size_t len, struct login_target *t)
{
	CLEANUP_FREE char *copy = strndup(line, len), *host = NULL;
	char *comma, *space;
	uint64_t tag;
	int r;

	if (!copy)
		return -ENOMEM;
	comma = strrchr(copy, ',');
	space = comma ? strchr(comma, ' ') : NULL;
	if (!space)
		return -EBADMSG;
	*comma = *space = '\0';
	if (parse_uint(comma + 1, 0, TAG_MOST, &tag) || !is_name(space + 1, sizeof(t->iqn)))
		return -EBADMSG;
	r = login_address(copy, &host, &t->portal.port, NULL);
	if (r || !is_name(host, sizeof(t->portal.address)))
		return r == -ENOMEM ? r : -EBADMSG;
	snprintf(t->portal.address, sizeof(t->portal.address), "%s", host);
	snprintf(t->iqn, sizeof(t->iqn), "%s", space + 1);
	t->tag = (unsigned)tag;
	return 0;
}

/* Into l, unless it is there at an address that comes first. */
static int take_offered(const struct login_target *t, const struct login_wish *w,
			struct login_list *l)
{
	struct login_target *known = find(l, t->iqn);

	if (!known) {
		if (l->n == DISCOVERY_MOST)
			return -E2BIG;
		known = iser_plan_add(l->v, l->n);
		if (!known)
			return -ENOMEM;
		*known = *t;
	} else if (rank(w, &t->portal) < rank(w, &known->portal)) {
		known->portal = t->portal;
		known->tag = t->tag;
	}
	known->chap = w->chap;
	known->mutual = w->mutual;
	return 0;
}

/* Those of all that are at none of the portals go from l to the text. */
static int leave_elsewhere(struct login_list *l, const struct login_wish *w, char **left)
{
	size_t kept = 0;
	char *text = strdup("");

	for (size_t i = 0; text && i < l->n; i++) {
		char at[ISCSI_PORTAL_ROOM], *longer;

		if (rank(w, &l->v[i].portal) < w->n_portals) {
			l->v[kept++] = l->v[i];
			continue;
		}
		if (asprintf(&longer, "%s%s%s at %s", text, *text ? ", " : "",
			     printable(l->v[i].iqn), login_portal_text(at, &l->v[i].portal)) < 0)
			longer = NULL;
		free(text);
		text = longer;
	}
	l->n = kept;
	*left = text;
	return text ? 0 : -ENOMEM;
}

int login_from_discovery(const char *text, const struct login_wish *w, struct login_list *l,
			 char **left, struct err *e)
{
	int r = 0;

	*l = (struct login_list){ 0 };
	*left = NULL;
	while (!r && *text) {
		struct login_target t = { 0 };
		size_t len = strcspn(text, "\n");

		if (len)
			r = parse_line(text, len, &t);
		if (len && !r && wished(w, t.iqn))
			r = take_offered(&t, w, l);
		text += len + (text[len] == '\n');
	}
	if (!r)
		r = leave_elsewhere(l, w, left);
	if (r == -E2BIG)
		return err_set(e, r, "the storage hosts offer more than %d targets; --target names "
			       "those that are wanted", DISCOVERY_MOST);
	if (r == -EBADMSG)
		return err_set(e, r, "iscsiadm's discovery told what is not understood");
	if (r)
		return err_sys(e, r, "the discovered targets");
	r = all_found(w, l, "the storage host", e);
	if (!r && !l->n)
		r = err_set(e, -ENOENT, **left ? "the storage host offers targets, but none at the "
			    "addresses given: %s" : "the storage host offers no target to this "
			    "host; its name must be among their initiators%s", *left);
	return r;
}

/* ---- words ---- */

char *login_initiator_name(const char *text)
{
	static const char key[] = "InitiatorName=";

	while (*text) {
		size_t len = strcspn(text, "\r\n"), n;

		if (!strncmp(text, key, sizeof(key) - 1)) {
			text += sizeof(key) - 1;
			n = strcspn(text, " \t\r\n");
			return n && n < ISCSI_NAME_ROOM ? strndup(text, n) : NULL;
		}
		text += len;
		text += strspn(text, "\r\n");
	}
	return NULL;
}

int login_check_word(const char *what, const char *word, struct err *e)
{
	size_t n = strlen(word);

	if (!n)
		return err_set(e, -EINVAL, "%s is empty", what);
	if (n > WORD_MOST)
		return err_set(e, -EINVAL, "%s is longer than %d bytes", what, WORD_MOST);
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)word[i] < ' ' || word[i] == 0x7f)
			return err_set(e, -EINVAL, "%s has a control character in it", what);
	if (word[0] == ' ' || word[n - 1] == ' ')
		return err_set(e, -EINVAL, "%s begins or ends with a blank, which open-iscsi would "
			       "drop", what);
	return 0;
}
