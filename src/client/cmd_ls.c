// SPDX-License-Identifier: Apache-2.0
/* rftp ls and rftp stat. */
#include "client/names.h"
#include "client/server.h"
#include "client/show.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A listing, to be sorted. */
struct list {
	struct ftp_facts *all;
	size_t n, room;
};

static char *copy_text(const char *s, bool *ok)
{
	char *copy = s ? strdup(s) : NULL;

	*ok = *ok && (copy || !s);
	return copy;
}

static int collect(void *arg, const struct ftp_facts *f)
{
	struct list *l = arg;
	struct ftp_facts *to;
	bool ok = true;

	if (l->n == l->room) {
		size_t room = l->room ? 2 * l->room : 64;
		struct ftp_facts *more = reallocarray(l->all, room, sizeof(*more));

		if (!more)
			return -ENOMEM;
		l->all = more;
		l->room = room;
	}
	to = &l->all[l->n];
	*to = *f;
	to->name = copy_text(f->name, &ok);
	to->target = copy_text(f->target, &ok);
	l->n++;
	return ok ? 0 : -ENOMEM;
}

static void list_clear(struct list *l)
{
	for (size_t i = 0; i < l->n; i++)
		ftp_facts_clear(&l->all[i]);
	free(l->all);
}

/* ---- the order ---- */

static int by_name(const void *a, const void *b)
{
	const struct ftp_facts *x = a, *y = b;

	return strcmp(x->name, y->name);
}

static int by_time(const void *a, const void *b)
{
	const struct ftp_facts *x = a, *y = b;

	if (x->mtime_s != y->mtime_s)
		return x->mtime_s > y->mtime_s ? -1 : 1;
	if (x->mtime_ns != y->mtime_ns)
		return x->mtime_ns > y->mtime_ns ? -1 : 1;
	return by_name(a, b);
}

static int by_size(const void *a, const void *b)
{
	const struct ftp_facts *x = a, *y = b;

	return x->size == y->size ? by_name(a, b) : x->size > y->size ? -1 : 1;
}

static void sort(const struct job *j, struct list *l)
{
	if (!l->n)
		return;
	qsort(l->all, l->n, sizeof(*l->all), j->o.by_time ? by_time : j->o.by_size ? by_size :
	      by_name);
	for (size_t i = 0; j->o.reverse && i < l->n / 2; i++) {
		struct ftp_facts f = l->all[i];

		l->all[i] = l->all[l->n - 1 - i];
		l->all[l->n - 1 - i] = f;
	}
}

/* ---- showing ---- */

static void show_one(const struct job *j, const struct ftp_facts *f, const char *name)
{
	bool raw = show_raw(stdout);

	if (j->o.json)
		json_emit(stdout, show_json("entry", f, name));
	else if (j->o.null)
		show_name(stdout, name, true, '\0');
	else if (j->o.names)
		show_name(stdout, name, raw, '\n');
	else
		show_long(stdout, f, name, raw, j->o.human);
}

/* Without a heading above it a name of a tree says where it is. */
static int show_in(const struct job *j, const struct ftp_facts *f, const char *shown)
{
	CLEANUP_FREE char *whole = NULL;

	if (j->o.tree && (j->o.json || j->o.null)) {
		whole = name_below(shown, f->name);
		if (!whole)
			return -ENOMEM;
	}
	show_one(j, f, whole ? whole : f->name);
	return 0;
}

static int list_directory(struct job *j, struct server *s, const char *path, const char *shown,
			  struct err *e);

/* One that cannot be listed is told, and the others are listed all the same. */
static int list_below(struct job *j, struct server *s, const char *path, const char *shown,
		      const char *name, struct err *e)
{
	CLEANUP_FREE char *path_there = name_below(path, name);
	CLEANUP_FREE char *shown_there = name_below(shown, name);
	struct err why = ERR_INIT;
	int rc;

	if (!path_there || !shown_there)
		return err_sys(e, -ENOMEM, "listing");
	rc = list_directory(j, s, path_there, shown_there, &why);
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

static int show_list(struct job *j, struct server *s, const struct list *l, const char *path,
		     const char *shown, struct err *e)
{
	int rc = 0;

	if ((j->nwords > 1 || j->o.tree) && !j->o.json && !j->o.null)
		printf("%s:\n", show_raw(stdout) ? shown : printable(shown));
	for (size_t i = 0; rc == 0 && i < l->n; i++)
		rc = show_in(j, &l->all[i], shown);
	if (rc)
		return err_sys(e, rc, "listing");
	for (size_t i = 0; j->o.tree && rc == 0 && i < l->n; i++)
		if (l->all[i].type == 'd')
			rc = list_below(j, s, path, shown, l->all[i].name, e);
	return rc ? rc : e->code;
}

static int list_directory(struct job *j, struct server *s, const char *path, const char *shown,
			  struct err *e)
{
	struct list l = { 0 };
	int rc = ftp_list(s->client, path, collect, &l, e);

	if (rc == -ENOMEM && !e->code)
		err_sys(e, rc, "listing");
	if (rc == 0) {
		sort(j, &l);
		rc = show_list(j, s, &l, path, shown, e);
	}
	list_clear(&l);
	return rc;
}

/* MLST tells a directory from a file, which has no listing. */
static int ls_one(struct job *j, struct server *s, const struct place *p, struct err *e)
{
	struct ftp_facts f = { 0 };
	int rc = ftp_stat(s->client, server_path(p), &f, e);
	bool list = (f.type == 'd' || f.type == 'c' || f.type == 'p') && !j->o.directory;

	if (rc == 0 && !list)
		show_one(j, &f, j->o.json ? server_path(p) : server_shown(j, p));
	ftp_facts_clear(&f);
	if (rc || !list)
		return rc;
	return list_directory(j, s, server_path(p), j->o.json ? server_path(p) :
			      server_shown(j, p), e);
}

enum exit_status rftp_ls(struct job *j)
{
	return each_url(j, ls_one);
}

static int stat_one(struct job *j, struct server *s, const struct place *p, struct err *e)
{
	struct ftp_facts f = { 0 };
	int rc = ftp_stat(s->client, server_path(p), &f, e);

	if (rc == 0 && j->o.json)
		json_emit(stdout, show_json("stat", &f, server_path(p)));
	else if (rc == 0)
		show_stat(stdout, &f, server_shown(j, p));
	ftp_facts_clear(&f);
	return rc;
}

enum exit_status rftp_stat(struct job *j)
{
	return each_url(j, stat_one);
}
