// SPDX-License-Identifier: Apache-2.0
/* rftp cp: a copy from one server directly to another. */
#include "client/servers.h"
#include "client/names.h"

#define JSON_EVERY_SECONDS 1.0

struct cp {
	const struct options *o;
	struct url from;                 /* of the first source */
	struct url to;
	struct names paths;              /* paths on the source */
	struct names listed;             /* of --files-from: names below the only element of
					  * paths */
	struct third_copy copy;
	double sink_event_at;            /* the time of the last event of the sink, in seconds */
};

/* ---- words ---- */

static int cp_add_source(struct cp *c, const char *word, struct err *e)
{
	const struct url *from = &c->from;
	struct url p;
	int rc = url_of_rftpd(word, &p, e);

	if (rc)
		return rc;

	if (c->paths.n && (p.kind != from->kind || p.port != from->port ||
			   !same_text(p.host, from->host) ||
			   !same_text(p.user, from->user)))
		rc = err_set(e, -EINVAL, "%s is on another server than the word before it: copy "
			     "from one at a time", printable(word));
	else if (names_add(&c->paths, strdup(server_path(&p))))
		rc = err_nomem(e);
	if (rc || c->paths.n > 1)
		url_clear(&p);
	else
		c->from = p;
	return rc;
}

static int cp_read_words(const struct job *j, struct cp *c, struct err *e)
{
	const char *to = j->words[j->nwords - 1];
	int last = j->nwords - 1, rc;

	if (last < 1)
		return err_set(e, -EINVAL, "a source and a destination are needed, both URLs");

	for (int i = 0; i < last; i++)
		if (!word_is_remote(j->words[i]) && word_is_remote(to))
			return err_set(e, -EINVAL, PUT_COPIES_WHY, printable(j->words[i]));
	if (!word_is_remote(to) && word_is_remote(j->words[0]))
		return err_set(e, -EINVAL, GET_COPIES_WHY,
			       printable(j->words[0]));

	rc = url_of_rftpd(to, &c->to, e);
	for (int i = 0; rc == 0 && i < last; i++)
		rc = cp_add_source(c, j->words[i], e);
	if (rc)
		return rc;

	if (j->o.files_from && c->paths.n > 1)
		return err_set(e, -EINVAL, FILES_FROM_WHY);
	if (j->o.files_from)
		return names_read(j->o.files_from, j->o.null, &c->listed, e);
	if (c->paths.n > 1 && !names_directory(c->to.path))
		return err_set(e, -EINVAL, DEST_SEVERAL_WHY,
			       printable(to));
	return 0;
}

/* ---- the copy ---- */

/* Print the progress of the sink; the report prints that of the source. */
static void cp_on_sink(void *arg, const struct transfer_progress *p)
{
	struct cp *c = arg;
	double at = transfer_seconds(p);
	json_t *obj;

	if (at < c->sink_event_at) /* another attempt */
		c->sink_event_at = 0;
	if (!c->o->json || at - c->sink_event_at < JSON_EVERY_SECONDS)
		return;
	c->sink_event_at = at;
	obj = event_progress(p);
	if (obj)
		json_object_set_new(obj, "at", json_string("sink"));
	json_emit(stdout, obj);
}

static int cp_init(struct cp *c, struct server *from, struct server *to, struct report *r,
		   struct err *e)
{
	struct bulk_request *q = &c->copy.give.request;
	int rc = third_copy_init(&c->copy, from, to, c->o, e);

	c->copy.attempts.watch = &report_watch;
	c->copy.attempts.watch_arg = r;
	if (rc)
		return rc;
	c->copy.events = report_events(r);
	c->copy.sink_progress = cp_on_sink;
	c->copy.sink_arg = c;
	bulk_request_sums(q, r, true);

	q->base = strdup(c->to.path);
	if (!q->base || bulk_add_sources(q, c->paths.all, c->paths.n) ||
	    bulk_add_sources(q, c->listed.all, c->listed.n))
		return err_nomem(e);
	if (c->paths.n > 1)
		q->flags |= BULK_F_SEVERAL;
	return 0;
}

enum exit_status command_cp(struct job *j)
{
	struct cp c = { .o = &j->o };
	struct server *from = NULL, *to = NULL;
	enum exit_status status = EXIT_SOME_FAILED;
	struct report *r = NULL;
	struct err e = ERR_INIT;

	if (cp_read_words(j, &c, &e)) {
		status = usage_error(j, "%s", e.text);
	} else if (j->o.files_from && !c.listed.n) {
		status = EXIT_DONE;
	} else if (!(from = server_take(j, &c.from, &e)) || !(to = server_take(j, &c.to, &e))) {
		status = usage_error(j, "%s", e.text);
	} else if ((r = report_new(&j->o)) &&
		   report_manifest(r, c.paths.n == 1 ? c.paths.all[0] : NULL, c.to.path, &e)) {
		report_error(r, &e);
		status = e.code == -EINVAL ? EXIT_USAGE : exit_of(e.code, false);
	} else if (r) {
		cp_init(&c, from, to, r, &e);
		status = attempts_run(&c.copy.attempts, &e);
		third_copy_clear(&c.copy);
	}

	if (r)
		status = report_end(r, status);
	server_give(j, to);
	server_give(j, from);
	url_clear(&c.from);
	url_clear(&c.to);
	names_clear(&c.paths);
	names_clear(&c.listed);
	return status;
}
