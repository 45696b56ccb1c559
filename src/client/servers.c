// SPDX-License-Identifier: Apache-2.0
/* The engine for commands: connections that stay open between commands, a function that runs for
 * each URL of a command, and transfers with a report of their attempts. */
#include "client/servers.h"

#include "client/foreign/foreign.h"
#include "client/signals.h"

#include <poll.h>

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

/* ---- transfers, with a report of their attempts ---- */

static bool watch_begun(void *arg)
{
	return report_begun(arg);
}

static void watch_rereads(void *arg, bool rereads)
{
	report_rereads(arg, rereads);
}

static void watch_pass(void *arg, const struct transfer_result *r)
{
	report_pass(arg, r);
}

static void watch_retry(void *arg, unsigned attempt, unsigned wait, const struct err *e)
{
	report_retry(arg, attempt, wait, e);
}

const struct attempt_watch report_watch = {
	.begun = watch_begun, .rereads = watch_rereads, .pass = watch_pass, .retry = watch_retry,
};

void bulk_request_sums(struct bulk_request *q, const struct report *r, bool from_source)
{
	const char *name = r ? report_sum(r) : NULL;

	if (!name)
		return;
	snprintf(q->sum, sizeof(q->sum), "%s", name);
	q->flags |= from_source ? BULK_F_SUMS : 0;
}

int bulk_init(struct bulk *b, struct server *s, struct report *r, enum bulk_op op,
	      struct err *e)
{
	int rc = bulk_prepare(b, s, op, e);

	if (!r)
		return rc;
	b->c.events = report_events(r);
	b->attempts.watch = &report_watch;
	b->attempts.watch_arg = r;
	bulk_request_sums(&b->c.request, r, op == BULK_GET);
	return rc;
}

/* Report the failure after which no attempt follows. Returns the exit status. */
static enum exit_status attempts_give_up(const struct attempts *a, struct report *r,
					 struct err *e)
{
	struct pollfd out = { .fd = STDOUT_FILENO, .events = POLLOUT };
	enum exit_status status = exit_of(signals_stopped() ? -EINTR : e->code,
					  report_begun(r));

	/* If the reader of our standard output has closed it, as head(1) does, do not report an
	 * error. */
	if (a->to_stdout && report_begun(r) && !signals_stopped() &&
	    poll(&out, 1, 0) > 0 && (out.revents & POLLERR))
		return status;
	if (status == EXIT_INTERRUPTED && a->resumable)
		err_set(e, e->code, "%s; the same command resumes the transfer", e->text);
	report_error(r, e);
	return status;
}

enum exit_status attempts_run(struct attempts *a, const struct err *setup)
{
	struct report *report = a->watch_arg;
	struct transfer_result r;
	struct err e = ERR_INIT;

	if (setup->code) {
		report_error(report, setup);
		return setup->code == -EINVAL ? EXIT_USAGE : exit_of(setup->code, false);
	}

	report_begin(report);
	if (attempts_make(a, &r, &e))
		return attempts_give_up(a, report, &e);
	report_result(report, &r);
	return r.failed ? EXIT_SOME_FAILED : EXIT_DONE;
}
