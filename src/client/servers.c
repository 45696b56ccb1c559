// SPDX-License-Identifier: Apache-2.0
/* Servers that stay connected from one command to the next. */
#include "client/server.h"

#include "client/foreign.h"
#include "client/signals.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A connection that was used so lately, and from which nothing has come since, is not asked whether
 * it is still there. */
#define FRESH_NS 200000000ull

struct servers {
	struct server **all;
	size_t n;
};

struct servers *servers_new(void)
{
	return calloc(1, sizeof(struct servers));
}

void servers_free(struct servers *k)
{
	if (!k)
		return;
	for (size_t i = 0; i < k->n; i++)
		server_free(k->all[i]);
	free(k->all);
	free(k);
}

/* The one that p is on, no more among those kept; NULL: there is none. */
static struct server *pick(struct servers *k, const struct place *p)
{
	for (size_t i = 0; k && i < k->n; i++) {
		struct server *s = k->all[i];

		if (server_is(s, p)) {
			k->all[i] = k->all[--k->n];
			return s;
		}
	}
	return NULL;
}

void servers_drop(struct servers *k, const struct place *p)
{
	server_free(pick(k, p));
}

/* Servers end sessions that are idle, and networks forget them: the command itself should not be
 * the one that finds out, since it may not be one to be said twice. */
static void drop_dead(struct server *s)
{
	struct err e = ERR_INIT;
	bool fresh = s->client && now_ns() - s->used_ns < FRESH_NS &&
		     ftp_client_quiet(s->client);

	if (!s->client || fresh || ftp_simple(s->client, FTP_NOOP, NULL, NULL, &e) >= 0)
		return;
	if (!signals_stopped())
		log_info("%s: %s; connecting again", printable(s->place.host), e.text);
	server_close(s);
}

static bool same_trust(const struct options *a, const struct options *b)
{
	return a->plain == b->plain && a->plain_password == b->plain_password &&
	       server_same_text(a->ca, b->ca) &&
	       server_same_text(a->known_hosts, b->known_hosts) &&
	       server_same_text(a->ssh, b->ssh) &&
	       server_same_text(a->rftpd_path, b->rftpd_path);
}

/* The options of this command are not those of the last. */
static int renew(const struct job *j, struct server *s, struct err *e)
{
	struct options o;
	int rc = args_options(j->args, s->place.host, &o, e);

	if (rc)
		return rc;
	/* Who is trusted, and what may cross in clear, was judged by those. */
	if (!same_trust(&s->o, &o) ||
	    (place_is_foreign(&s->place) && (s->o.prot == PROT_CLEAR) != (o.prot == PROT_CLEAR)))
		server_close(s);
	options_clear(&s->o);
	s->o = o;
	return 0;
}

struct server *server_take(const struct job *j, const struct place *p, struct err *e)
{
	struct server *s;

	/* Commands that copy have asked before, for their direction. */
	if (place_is_foreign(p) && foreign_check(j, false, e))
		return NULL;
	s = pick(j->servers, p);
	if (!s)
		return server_new(j, p, e);
	if (renew(j, s, e)) {
		server_give(j, s);
		return NULL;
	}
	drop_dead(s);
	return s;
}

void server_give(const struct job *j, struct server *s)
{
	struct servers *k = j->servers;
	struct server **more;

	if (!s)
		return;
	if (s->client && ftp_client_lost(s->client))
		server_close(s);
	more = k ? reallocarray(k->all, k->n + 1, sizeof(struct server *)) : NULL;
	if (!more) {
		server_free(s);
		return;
	}
	s->used_ns = now_ns();
	k->all = more;
	k->all[k->n++] = s;
}
