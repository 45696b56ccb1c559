// SPDX-License-Identifier: Apache-2.0
/* Servers for commands: connections that stay open between commands, and a function that runs for
 * each URL of a command. */
#include "client/server.h"

#include "client/foreign/foreign.h"
#include "client/signals.h"
#include "client/terminal.h"

struct server *server_new(const struct job *j, const struct url *p, struct err *e)
{
	struct server *s = server_make(&rftp_env, p);

	if (!s)
		err_nomem(e);
	else if (!options_load(j->args, p, &j->o, &s->o, e))
		return s;
	server_free(s);
	return NULL;
}

/* ---- servers that stay connected between commands ---- */

void servers_clear(struct servers *k)
{
	for (size_t i = 0; i < k->n; i++)
		server_free(k->all[i]);
	free(k->all);
	*k = (struct servers){ 0 };
}

/* Remove the server of p from k and return it; NULL: there is none. */
static struct server *servers_remove(struct servers *k, const struct url *p)
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

void servers_drop(struct servers *k, const struct url *p)
{
	server_free(servers_remove(k, p));
}

struct server *server_take(const struct job *j, const struct url *p, struct err *e)
{
	struct options old, o;
	struct server *s;

	/* Commands that copy have checked their options for foreign servers before. */
	if (url_is_foreign(p) && foreign_check(j, false, e))
		return NULL;
	s = servers_remove(j->servers, p);
	if (!s)
		return server_new(j, p, e);
	if (options_load(j->args, &s->url, &j->o, &o, e)) {
		server_give(j, s);
		return NULL;
	}

	old = s->o;
	s->o = o;

	/* Connect again if options change that affect the check of the key or the protection of
	 * data. */
	if (old.plain != o.plain || old.plain_password != o.plain_password ||
	    !same_text(old.ca, o.ca) || !same_text(old.known_hosts, o.known_hosts) ||
	    !same_text(old.cert, o.cert) || !same_text(old.key, o.key) ||
	    !same_text(old.ssh, o.ssh) ||
	    !same_text(old.rftpd_path, o.rftpd_path) ||
	    (url_is_foreign(p) && (old.prot == PROT_CLEAR) != (o.prot == PROT_CLEAR)))
		server_close(s);
	options_clear(&old);

	server_check(s);
	return s;
}

void server_give(const struct job *j, struct server *s)
{
	struct servers *k = j->servers;
	struct server **more;

	if (!s)
		return;
	if ((s->client && ftp_client_lost(s->client)) || (s->foreign && !fconn_usable(s->foreign)))
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

/* ---- the URLs of a command ---- */

const char *server_shown(const struct job *j, const struct url *p)
{
	return j->name ? j->name : server_path(p);
}

enum exit_status each_url(struct job *j, int (*fn)(struct job *j, struct server *s,
						   const struct url *p, struct err *e))
{
	enum exit_status all = EXIT_DONE;
	struct server *s = NULL;

	/* An interrupt also skips the following words. */
	for (int i = 0; i < j->nwords && !signals_stopped(); i++) {
		enum exit_status status;
		struct err e = ERR_INIT;
		struct url p;

		if (url_of_server(j->words[i], &p, &e)) {
			all = exit_worse(all, usage_error(j, "%s", e.text));
			continue;
		}

		j->name = j->typed ? j->typed[i] : NULL;
		if (!s || !server_is(s, &p) || !server_connected(s)) {
			server_give(j, s);
			s = server_take(j, &p, &e);
		}
		status = s ? exit_of(server_connect(s, &e), false) : EXIT_USAGE;
		if (status == EXIT_DONE) {
			status = fn(j, s, &p, &e) ? exit_of(e.code, false) : EXIT_DONE;
			/* After a lost connection, connect again for the next word. */
			if (status == EXIT_CONNECT)
				server_close(s);
		}
		if (status != EXIT_DONE)
			log_error("%s", e.text);
		all = exit_worse(all, status);
		url_clear(&p);
	}
	server_give(j, s);
	return all;
}
