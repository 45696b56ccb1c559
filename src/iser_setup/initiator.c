// SPDX-License-Identifier: Apache-2.0
/* iscsiadm's arguments, and its answers. */
#include "iser_setup/initiator.h"

#include "iser_setup/run.h"
#include "iser_setup/tune.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define SETTINGS_MOST 12
#define NUMBER_ROOM 16

/* iscsiadm(8), EXIT STATUS */
enum {
	ISCSIADM_SESS_EXISTS = 15,
	ISCSIADM_TRANSPORT = 4,
	ISCSIADM_TRANS_TIMEOUT = 8,
	ISCSIADM_PDU_TIMEOUT = 11,
	ISCSIADM_LOGIN = 5,
	ISCSIADM_LOGIN_FATAL = 19,
	ISCSIADM_DAEMON = 20,
	ISCSIADM_NOTHING = 21,
	ISCSIADM_AUTH = 24,
};

int initiator_there(const struct stop *stop, struct err *e)
{
	int r = run_program(stop, NULL, e, "iscsiadm", "--version", NULL);

	return r > 0 ? e->code : r;
}

int initiator_discover(const struct login_portal *p, const struct stop *stop, char **text,
		       struct err *e)
{
	char portal[ISCSI_PORTAL_ROOM];
	int r = run_program(stop, text, e, "iscsiadm", "-m", "discovery", "-t", "sendtargets", "-p",
			    login_portal_text(portal, p), "-o", "nonpersistent", NULL);

	if (r == ISCSIADM_NOTHING) {
		*text = strdup("");
		return *text ? 0 : err_set(e, -ENOMEM, "out of memory");
	}
	if (r > 0)
		return err_prefix(e, "asking %s over TCP for its targets", portal);
	return r;
}

/* ---- records ---- */

/* A command of a node's. Its words end with a NULL. */
#define NODE(stop, out, e, iqn, portal, iface, ...) \
	run_program(stop, out, e, "iscsiadm", "-m", "node", "-T", iqn, "-p", portal, "-I", iface, \
		    __VA_ARGS__, NULL)

struct settings {
	struct record_setting v[SETTINGS_MOST];
	size_t n;
	char wait[NUMBER_ROOM], depth[NUMBER_ROOM], commands[NUMBER_ROOM];
};

static void set(struct settings *s, const char *name, const char *value)
{
	s->v[s->n++] = (struct record_setting){ name, value };
}

static void settings_of(const struct initiator_wish *w, struct settings *s)
{
	*s = (struct settings){ .n = 0 };
	snprintf(s->wait, sizeof(s->wait), "%u", w->wait);
	snprintf(s->depth, sizeof(s->depth), "%u", TUNE_QUEUE_DEPTH);
	snprintf(s->commands, sizeof(s->commands), "%u", TUNE_CMDS_MAX);
	/* Or open-iscsi's own service would log in at the next start, without what comes after. */
	set(s, "node.startup", "manual");
	set(s, "node.session.initial_login_retry_max", INITIATOR_RETRIES);
	set(s, "node.conn[0].timeo.login_timeout", s->wait);
	if (w->user) {
		set(s, "node.session.auth.authmethod", "CHAP");
		set(s, "node.session.auth.username", w->user);
		set(s, "node.session.auth.password", w->secret);
		set(s, "node.session.auth.username_in", w->mutual_user);
		set(s, "node.session.auth.password_in", w->mutual_secret);
	}
	if (w->tune) {
		set(s, "node.session.cmds_max", s->commands);
		set(s, "node.session.queue_depth", s->depth);
	}
}

int initiator_record(const struct record_place *at, const struct login_target *t,
		     const struct initiator_wish *w, const struct stop *stop, struct err *e)
{
	const char *iface = login_ifaces[w->transport];
	char portal[ISCSI_PORTAL_ROOM], tagged[ISCSI_PORTAL_ROOM + NUMBER_ROOM], path[PATH_MAX];
	CLEANUP_FREE char *shown = NULL;
	struct settings s;
	int r;

	login_portal_text(portal, &t->portal);
	snprintf(tagged, sizeof(tagged), "%s,%u", portal, t->tag);
	r = NODE(stop, NULL, e, t->iqn, tagged, iface, "-o", "new");
	if (r)
		return r > 0 ? e->code : r;
	r = record_file(at, t, iface, path, sizeof(path));
	if (r)
		return err_sys(e, r, "open-iscsi's record of %s, in %s", t->iqn, at->nodes);
	settings_of(w, &s);
	r = record_set(at, path, s.v, s.n, e);
	if (!r)
		r = NODE(stop, &shown, e, t->iqn, portal, iface, "-o", "show");
	if (!r)
		r = record_check(shown, s.v, s.n, e);
	return r > 0 ? e->code : r;
}

int initiator_forget(const struct record_place *at, const struct login_target *t,
		     enum login_transport transport, const struct stop *stop, struct err *e)
{
	char portal[ISCSI_PORTAL_ROOM];
	int r;

	/* First, for iscsiadm removes directories that are empty then. */
	record_drop_halves(at, t, login_ifaces[transport]);
	r = NODE(stop, NULL, e, t->iqn, login_portal_text(portal, &t->portal),
		 login_ifaces[transport], "-o", "delete");
	if (r == ISCSIADM_NOTHING) {
		*e = (struct err)ERR_INIT;
		return 0;
	}
	return r > 0 ? e->code : r;
}

/* ---- sessions ---- */

int initiator_explain(int status, const struct login_target *t, enum login_transport transport,
		      struct err *e)
{
	char portal[ISCSI_PORTAL_ROOM];

	login_portal_text(portal, &t->portal);
	switch (status) {
	case ISCSIADM_SESS_EXISTS:
		e->code = -EEXIST;
		return err_prefix(e, "%s at %s: somebody else has just logged in there",
				  printable(t->iqn), portal);
	case ISCSIADM_AUTH:
		e->code = -EACCES;
		return err_prefix(e, "%s at %s: %s", printable(t->iqn), portal, t->chap ?
				  "CHAP failed, or this host is not among its initiators: compare "
				  "the users, secrets and initiators' names of both sides" :
				  "it lets this host not in without CHAP, or not at all");
	case ISCSIADM_TRANSPORT:
	case ISCSIADM_TRANS_TIMEOUT:
	case ISCSIADM_PDU_TIMEOUT:
		return err_prefix(e, "%s at %s: no answer%s", printable(t->iqn), portal,
				  transport == LOGIN_ISER ? " by RDMA: the portal does no iSER, or "
				  "RDMA does not get there (--transport tcp does without)" : "");
	case ISCSIADM_LOGIN:
	case ISCSIADM_LOGIN_FATAL:
		return err_prefix(e, "%s at %s: refused%s", printable(t->iqn), portal, t->chap ?
				  ", or CHAP failed" : "");
	default:
		return err_prefix(e, "%s at %s", printable(t->iqn), portal);
	}
}

int initiator_login(const struct login_target *t, enum login_transport transport,
		    const struct stop *stop, struct err *e)
{
	char portal[ISCSI_PORTAL_ROOM];
	int r = NODE(stop, NULL, e, t->iqn, login_portal_text(portal, &t->portal),
		     login_ifaces[transport], "--login");

	return r > 0 ? initiator_explain(r, t, transport, e) : r;
}

int initiator_logout(const char *iqn, const struct login_portal *p, enum login_transport transport,
		     const struct stop *stop, struct err *e)
{
	char portal[ISCSI_PORTAL_ROOM];
	int r = NODE(stop, NULL, e, iqn, login_portal_text(portal, p), login_ifaces[transport],
		     "--logout");

	if (r == ISCSIADM_NOTHING) {
		*e = (struct err)ERR_INIT;
		return 0;
	}
	return r > 0 ? err_prefix(e, "logging out of %s at %s", printable(iqn), portal) : r;
}
