// SPDX-License-Identifier: Apache-2.0
/* rftp ls and rftp stat. */
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

static int by_name(const void *a, const void *b)
{
	const struct ftp_facts *x = a, *y = b;

	return strcmp(x->name, y->name);
}

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
		show_long(stdout, f, name, raw);
}

static int list_directory(struct job *j, struct server *s, const struct place *p, struct err *e)
{
	struct list l = { 0 };
	int rc = ftp_list(s->client, server_path(p), collect, &l, e);

	if (rc == 0 && l.n)
		qsort(l.all, l.n, sizeof(*l.all), by_name);
	if (rc == 0 && j->nwords > 1 && !j->o.json && !j->o.null)
		printf("%s:\n", printable(server_path(p)));
	for (size_t i = 0; rc == 0 && i < l.n; i++)
		show_one(j, &l.all[i], l.all[i].name);
	list_clear(&l);
	return rc;
}

/* MLST tells a directory from a file, which has no listing. */
static int ls_one(struct job *j, struct server *s, const struct place *p, struct err *e)
{
	struct ftp_facts f = { 0 };
	int rc = ftp_stat(s->client, server_path(p), &f, e);
	bool directory = f.type == 'd' || f.type == 'c' || f.type == 'p';

	if (rc == 0 && !directory)
		show_one(j, &f, p->path);
	ftp_facts_clear(&f);
	return rc || !directory ? rc : list_directory(j, s, p, e);
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
		show_stat(stdout, &f, server_path(p));
	ftp_facts_clear(&f);
	return rc;
}

enum exit_status rftp_stat(struct job *j)
{
	return each_url(j, stat_one);
}
