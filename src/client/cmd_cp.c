// SPDX-License-Identifier: Apache-2.0
/* rftp cp: from a server to another, without a detour by here. */
#include "client/again.h"
#include "client/bulk.h"
#include "client/names.h"
#include "client/signals.h"
#include "client/third.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* What the command line comes to. */
struct cp {
	struct place from;      /* of the first source */
	struct place to;
	struct names paths;     /* on the source's server */
	struct names listed;    /* of --files-from: below the first and only of paths */
};

static void cp_clear(struct cp *c)
{
	place_clear(&c->from);
	place_clear(&c->to);
	names_clear(&c->paths);
	names_clear(&c->listed);
}

/* ---- words ---- */

static bool same_server(const struct place *a, const struct place *b)
{
	return a->kind == b->kind && a->port == b->port && server_same_text(a->host, b->host) &&
	       server_same_text(a->user, b->user);
}

static int read_source(struct cp *c, const char *word, struct err *e)
{
	struct place p;
	int rc = place_of_rftpd(word, &p, e);

	if (rc)
		return rc;
	if (c->paths.n && !same_server(&p, &c->from))
		rc = err_set(e, -EINVAL, "%s is on another server than what is before it: copy "
			     "from one at a time", printable(word));
	else if (names_add(&c->paths, strdup(server_path(&p))))
		rc = err_sys(e, -ENOMEM, "sources");
	if (rc || c->paths.n > 1)
		place_clear(&p);
	else
		c->from = p;
	return rc;
}

static int not_remote(const char *word, const char *command, const char *does, struct err *e)
{
	return err_set(e, -EINVAL, "%s is here: rftp %s copies %s", printable(word), command, does);
}

static int read_words(const struct job *j, struct cp *c, struct err *e)
{
	int last = j->nwords - 1, rc;

	if (last < 1)
		return err_set(e, -EINVAL, "a source and a destination are needed, both URLs");
	for (int i = 0; i < last; i++)
		if (!names_server(j->words[i]) && names_server(j->words[last]))
			return not_remote(j->words[i], "put", "from here to a server", e);
	if (!names_server(j->words[last]) && names_server(j->words[0]))
		return not_remote(j->words[last], "get", "from a server to here", e);
	rc = place_of_rftpd(j->words[last], &c->to, e);
	for (int i = 0; rc == 0 && i < last; i++)
		rc = read_source(c, j->words[i], e);
	if (rc)
		return rc;
	if (j->o.files_from && c->paths.n > 1)
		return err_set(e, -EINVAL, "--files-from needs one directory and one URL");
	if (j->o.files_from)
		return names_read(j->o.files_from, j->o.null, &c->listed, e);
	if (c->paths.n > 1 && !names_directory(c->to.path))
		return err_set(e, -EINVAL, "several sources need a directory: write %s/",
			       printable(j->words[last]));
	return 0;
}

/* ---- the request ---- */

static int add_source(struct bulk_request *q, const char *path)
{
	q->sources[q->nsources] = strdup(path);
	return q->sources[q->nsources++] ? 0 : -ENOMEM;
}

static int fill(struct third_give *g, const struct cp *c, const struct options *o,
		struct err *e)
{
	struct bulk_request *q = &g->request;
	int rc = 0;

	q->major = BULK_MAJOR;
	q->minor = BULK_MINOR;
	bulk_request_of(o, BULK_PUT, q);
	/* Also for another attempt, which leaves alone the files that are done. */
	g->flags = o->verbose || o->dry_run || o->retries ? THIRD_F_EACH_FILE : 0;
	g->connect_ms = (uint32_t)(o->connect_timeout / 1000000);
	if (g->connect_ms > THIRD_CONNECT_MS_MAX)
		g->connect_ms = THIRD_CONNECT_MS_MAX;
	q->base = strdup(c->to.path);
	q->sources = calloc(c->paths.n + c->listed.n + 1, sizeof(*q->sources));
	if (!q->base || !q->sources)
		return err_sys(e, -ENOMEM, "request");
	for (size_t i = 0; !rc && i < c->paths.n; i++)
		rc = add_source(q, c->paths.all[i]);
	for (size_t i = 0; !rc && i < c->listed.n; i++)
		rc = add_source(q, c->listed.all[i]);
	if (c->paths.n > 1)
		q->flags |= BULK_F_SEVERAL;
	if (o->files_from)
		q->flags |= BULK_F_INTO | BULK_F_MKDIRS | BULK_F_SEVERAL;
	return rc ? err_sys(e, rc, "request") : 0;
}

/* ---- attempts ---- */

static int connect_side(const struct third_side *d, struct err *e)
{
	int rc = server_connect(d->server, e);

	return exit_is_lost(rc) ? err_prefix(e, "%s", printable(d->host)) : rc;
}

static enum exit_status run(struct third *t, struct report *r)
{
	bool reached = false, resumable = false, rereads;

	report_begin(r);
	for (unsigned attempt = 1;; attempt++) {
		struct transfer_result res = { 0 };
		struct err e = ERR_INIT;
		int rc = connect_side(&t->source, &e);

		if (!rc)
			rc = connect_side(&t->sink, &e);
		/* A source before version 2.1 does not tell which files changed. */
		rereads = !rc && t->committed && again_rereads(attempt - 1, t->o->retries) &&
			  ftp_bulk(t->source.server->client)->minor >= 1;
		report_rereads(r, rereads);
		if (!rc) {
			reached = true;
			rc = third_once(t, &res, &e);
			if (res.wall_ns) /* otherwise it has not begun */
				resumable = res.resumable;
		}
		if (!rc && !(rereads && again_changed(&res, &e))) {
			report_result(r, &res);
			return res.failed ? EXIT_SOME_FAILED : EXIT_DONE;
		}
		if (rc && !again_worth(rc, attempt - 1, t->o->retries, reached, report_begun(r)))
			return again_give_up(r, resumable, &e);
		report_retry(r, attempt, again_wait(attempt), &e);
		again_recall(&t->give.request, t->committed);
		again_pause(again_wait(attempt));
	}
}

static enum exit_status copy(const struct job *j, const struct cp *c, struct server *from,
			     struct server *to, struct report *r)
{
	struct err e = ERR_INIT;
	enum exit_status status;
	struct third t;
	int rc = third_init(&t, from, to, &j->o, r, &e);

	if (!rc)
		rc = fill(&t.give, c, &j->o, &e);
	if (rc) {
		report_error(r, &e);
		status = exit_of(rc, false);
	} else {
		status = run(&t, r);
	}
	third_clear(&t);
	return status;
}

static enum exit_status between(struct job *j, const struct cp *c)
{
	struct err e = ERR_INIT;
	struct server *from = server_take(j, &c->from, &e);
	struct server *to = from ? server_take(j, &c->to, &e) : NULL;
	struct report *r = to ? report_new(&j->o) : NULL;
	enum exit_status status;

	if (r)
		status = report_end(r, copy(j, c, from, to, r));
	else
		status = to ? EXIT_SOME_FAILED : usage_error(j, "%s", e.text);
	server_give(j, to);
	server_give(j, from);
	return status;
}

enum exit_status rftp_cp(struct job *j)
{
	struct err e = ERR_INIT;
	enum exit_status status;
	struct cp c = { 0 };

	if (read_words(j, &c, &e))
		status = usage_error(j, "%s", e.text);
	else if (j->o.files_from && !c.listed.n)
		status = EXIT_DONE; /* an empty list */
	else
		status = between(j, &c);
	cp_clear(&c);
	return status;
}
