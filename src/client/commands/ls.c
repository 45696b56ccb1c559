// SPDX-License-Identifier: Apache-2.0
/* rftp ls, rftp stat and rftp hash: facts about files on servers; and rftp status. */
#include "client/names.h"
#include "client/servers.h"

/* ---- ls ---- */

static int facts_by_time(const void *a, const void *b)
{
	const struct ftp_facts *x = a, *y = b;

	if (x->mtime_s != y->mtime_s)
		return x->mtime_s > y->mtime_s ? -1 : 1;
	if (x->mtime_ns != y->mtime_ns)
		return x->mtime_ns > y->mtime_ns ? -1 : 1;
	return facts_by_name(a, b);
}

static int facts_by_size(const void *a, const void *b)
{
	const struct ftp_facts *x = a, *y = b;

	return x->size == y->size ? facts_by_name(a, b) : x->size > y->size ? -1 : 1;
}

static void ls_print(const struct job *j, const struct ftp_facts *f, const char *name)
{
	char *marked CLEANUP_FREE = j->o.slash && f->type == 'd' ? name_below(name, "") : NULL;
	bool raw = show_raw(stdout);

	if (j->o.json)
		json_emit(stdout, show_json("entry", f, name));
	name = marked ? marked : name;
	if (j->o.json)
		return;
	if (j->o.null)
		show_name(stdout, name, true, '\0');
	else if (j->o.names)
		show_name(stdout, name, raw, '\n');
	else
		show_long(stdout, f, name, raw, j->o.human);
}

/* at: where in path the path for the filter begins. */
static int ls_directory(struct job *j, struct server *s, const char *path, size_t at,
			const char *shown, struct err *e);

/* List a subdirectory. If that fails, report it, and continue with the others. */
static int ls_subdirectory(struct job *j, struct server *s, const char *path, size_t at,
			   const char *shown, const char *name, struct err *e)
{
	CLEANUP_FREE char *path_there = name_below(path, name);
	CLEANUP_FREE char *shown_there = name_below(shown, name);
	struct err why = ERR_INIT;
	int rc;

	if (!path_there || !shown_there)
		return err_nomem(e);
	rc = ls_directory(j, s, path_there, at, shown_there, &why);
	if (!rc)
		return 0;
	if (exit_of(rc, false) == EXIT_SOME_FAILED && e->code) {
		log_error("%s", why.text);
		return 0;
	}
	*e = why;
	e->code = rc;
	return exit_of(rc, false) == EXIT_SOME_FAILED ? 0 : rc;
}

/* Remove from l the names in path that the filter leaves out. 0 or -ENOMEM with text. */
static int ls_filter(const struct job *j, const char *path, size_t at, struct facts_list *l,
		     struct err *e)
{
	size_t kept = 0;

	if (!j->o.filter.n)
		return 0;
	for (size_t i = 0; i < l->n; i++) {
		CLEANUP_FREE char *there = name_below(path, l->all[i].name);
		bool is_dir = l->all[i].type == 'd';

		if (!there)
			return err_nomem(e);
		if (filter_admits(&j->o.filter, there + at, is_dir)) {
			struct ftp_facts f = l->all[kept];

			l->all[kept++] = l->all[i];
			l->all[i] = f;
		}
	}
	while (l->n > kept)
		ftp_facts_clear(&l->all[--l->n]);
	return 0;
}

static int ls_directory(struct job *j, struct server *s, const char *path, size_t at,
			const char *shown, struct err *e)
{
	bool lines = !j->o.json && !j->o.null;
	struct facts_list l = { 0 };
	int rc = server_list(s, path, &l, e);

	if (rc == 0)
		rc = ls_filter(j, path, at, &l, e);
	if (rc == 0 && l.n)
		qsort(l.all, l.n, sizeof(*l.all), j->o.by_time ? facts_by_time :
		      j->o.by_size ? facts_by_size : facts_by_name);
	if (rc == 0 && (j->nwords > 1 || j->o.tree) && lines)
		printf("%s:\n", show_raw(stdout) ? shown : printable(shown));

	for (size_t i = 0; rc == 0 && i < l.n; i++) {
		const struct ftp_facts *f = &l.all[j->o.reverse ? l.n - 1 - i : i];
		/* In a tree without headings, print each name with its directory. */
		CLEANUP_FREE char *whole = j->o.tree && !lines ? name_below(shown, f->name) : NULL;

		if (j->o.tree && !lines && !whole)
			rc = err_nomem(e);
		else
			ls_print(j, f, whole ? whole : f->name);
	}
	for (size_t i = 0; j->o.tree && rc == 0 && i < l.n; i++) {
		const struct ftp_facts *f = &l.all[j->o.reverse ? l.n - 1 - i : i];

		if (f->type == 'd')
			rc = ls_subdirectory(j, s, path, at, shown, f->name, e);
	}
	facts_clear(&l);
	return rc ? rc : e->code;
}

/* Get the facts first, to know whether this is a directory: a file has no listing. */
static int ls_one(struct job *j, struct server *s, const struct url *p, struct err *e)
{
	const char *shown = j->o.json ? server_path(p) : server_shown(j, p);
	struct ftp_facts f = { 0 };
	int rc = server_stat(s, server_path(p), &f, e);
	bool list = (f.type == 'd' || f.type == 'c' || f.type == 'p') && !j->o.directory;

	if (rc == 0 && !list)
		ls_print(j, &f, shown);
	ftp_facts_clear(&f);
	return rc || !list ? rc : ls_directory(j, s, server_path(p), name_rel_at(server_path(p)),
					       shown, e);
}

enum exit_status command_ls(struct job *j)
{
	return each_url(j, ls_one);
}

/* ---- stat ---- */

static int stat_one(struct job *j, struct server *s, const struct url *p, struct err *e)
{
	struct ftp_facts f = { 0 };
	int rc = server_stat(s, server_path(p), &f, e);

	if (rc == 0 && j->o.json)
		json_emit(stdout, show_json("stat", &f, server_path(p)));
	else if (rc == 0)
		show_stat(stdout, &f, server_shown(j, p));
	ftp_facts_clear(&f);
	return rc;
}

enum exit_status command_stat(struct job *j)
{
	return each_url(j, stat_one);
}

/* ---- status ---- */

static int status_print(const struct job *j, const char *line, struct err *e)
{
	json_t *o = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
	const char *user, *direction, *path, *peer, *transport;
	char start[32] = "?", size[32], rate[32];
	json_int_t bytes, began;
	double speed;
	struct tm tm;
	time_t t;

	if (!o || json_unpack(o, "{s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:F}", "user", &user,
			      "direction", &direction, "path", &path, "peer", &peer, "transport",
			      &transport, "bytes", &bytes, "start", &began, "bytes_per_second",
			      &speed)) {
		json_decref(o);
		return err_set(e, -EBADMSG, "the server's answer is not a transfer: %s",
			       printable(line));
	}
	if (j->o.json) {
		json_object_set_new(o, "event", json_string("transfer"));
		json_emit(stdout, o);
		return 0;
	}
	t = (time_t)began;
	if (localtime_r(&t, &tm))
		strftime(start, sizeof(start), "%F %T", &tm);
	printf("%-12s %-8s %10s %12s  %s  %s\n", printable(user), printable(direction),
	       format_size(size, sizeof(size), (uint64_t)bytes),
	       format_rate(rate, sizeof(rate), speed), start, printable(path));
	json_decref(o);
	return 0;
}

static int status_one(struct job *j, struct server *s, const struct url *p, struct err *e)
{
	CLEANUP_FREE char *text = NULL;
	char *rest, *line;
	int rc;

	if (s->foreign)
		return err_set(e, -EOPNOTSUPP, "%s: only rftpd shows its transfers",
			       printable(p->host));
	rc = ftp_simple(s->client, FTP_SITE, "STATUS", &text, e);
	rest = text;
	while (rc >= 0 && (line = strsep(&rest, "\n")))
		if (*line == ' ')
			rc = status_print(j, line + 1, e);
	return rc < 0 ? rc : 0;
}

enum exit_status command_status(struct job *j)
{
	return each_url(j, status_one);
}
