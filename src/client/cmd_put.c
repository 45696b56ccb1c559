// SPDX-License-Identifier: Apache-2.0
/* rftp put: from here to a server. */
#include "client/bulk.h"
#include "client/foreign.h"
#include "client/names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* What the command line comes to. */
struct put {
	struct place to;
	struct transfer_item *items;
	struct names paths;    /* of --files-from: where items point to */
	struct names targets;  /* of --files-from */
	uint32_t nitems;
	bool pipe;             /* standard input is among them */
};

static void put_clear(struct put *p)
{
	free(p->items);
	names_clear(&p->paths);
	names_clear(&p->targets);
	place_clear(&p->to);
}

/* ---- sources ---- */

/* path points to the word itself: a local place's path is the word. */
static int read_source(struct put *p, const char *word, struct err *e)
{
	static const enum item_kind kinds[] = {
		[PLACE_LOCAL] = ITEM_PATH, [PLACE_STDIO] = ITEM_STDIO, [PLACE_ZERO] = ITEM_ZERO,
	};
	struct place from;
	int rc = place_parse(word, &from, e);

	if (rc)
		return rc;
	if (from.kind == PLACE_NULL)
		rc = err_set(e, -EINVAL, "null: is a destination: a source would be zero:SIZE");
	else if (place_is_remote(&from))
		rc = err_set(e, -EINVAL, "%s is on a server: put takes files from here",
			     printable(word));
	else
		p->items[p->nitems++] = (struct transfer_item){
			.kind = kinds[from.kind], .path = word, .size = from.size,
		};
	p->pipe |= from.kind == PLACE_STDIO;
	place_clear(&from);
	return rc;
}

static int read_sources(struct put *p, char **words, int n, struct err *e)
{
	int rc = 0;

	p->items = calloc((size_t)n, sizeof(*p->items));
	if (!p->items)
		return err_sys(e, -ENOMEM, "sources");
	for (int i = 0; rc == 0 && i < n; i++)
		rc = read_source(p, words[i], e);
	return rc;
}

/* --files-from: each name, below the one directory. */
static int read_list(struct put *p, const struct options *o, const char *dir, struct err *e)
{
	int rc = names_read(o->files_from, o->null, &p->targets, e);

	if (rc)
		return rc;
	p->items = calloc(p->targets.n + 1, sizeof(*p->items));
	if (!p->items)
		return err_sys(e, -ENOMEM, "sources");
	for (size_t i = 0; i < p->targets.n; i++) {
		if (names_add(&p->paths, name_below(dir, p->targets.all[i])))
			return err_sys(e, -ENOMEM, "sources");
		p->items[p->nitems++] = (struct transfer_item){
			.kind = ITEM_PATH, .path = p->paths.all[i],
		};
	}
	return 0;
}

/* ---- what the command line must be ---- */

static int check(const struct put *p, const struct options *o, struct err *e)
{
	bool directory = names_directory(p->to.path);

	if (o->files_from)
		return 0;
	if (p->nitems > 1 && !directory)
		return err_set(e, -EINVAL, "several sources need a directory: write %s/",
			       printable(p->to.path));
	for (uint32_t i = 0; i < p->nitems; i++)
		if (p->items[i].kind != ITEM_PATH && (p->nitems > 1 || directory))
			return err_set(e, -EINVAL, "what comes from %s needs a file name in the "
				       "URL", p->items[i].kind == ITEM_STDIO ?
				       "standard input" : "zero:");
	return 0;
}

static int read_words(struct job *j, struct put *p, struct err *e)
{
	int last = j->nwords - 1, rc;

	if (last > 0 && names_server(j->words[0]) && !names_server(j->words[last]))
		return err_set(e, -EINVAL, "%s is on a server: rftp get copies from there",
			       printable(j->words[0]));
	rc = place_of_server(j->words[last], &p->to, e);
	if (rc)
		return rc;
	if (j->o.files_from && last != 1)
		return err_set(e, -EINVAL, "--files-from needs one directory and one URL");
	if (last < 1)
		return err_set(e, -EINVAL, "a source and a URL are needed");
	rc = place_is_foreign(&p->to) ? foreign_check(j, true, e) : 0;
	if (rc)
		return rc;
	rc = j->o.files_from ? read_list(p, &j->o, j->words[0], e) :
		read_sources(p, j->words, last, e);
	return rc ? rc : check(p, &j->o, e);
}

/* ---- the transfer ---- */

static int fill(struct bulk *b, const struct put *p, const struct options *o, struct root *root,
		struct err *e)
{
	b->c.items = p->items;
	b->c.nitems = p->nitems;
	b->c.root = root;
	b->once = p->pipe;
	b->c.request.base = strdup(p->to.path);
	if (!b->c.request.base)
		return err_sys(e, -ENOMEM, "request");
	if (p->nitems > 1)
		b->c.request.flags |= BULK_F_SEVERAL;
	if (o->files_from) {
		b->c.targets = (const char *const *)p->targets.all;
		b->c.request.flags |= BULK_F_INTO | BULK_F_MKDIRS | BULK_F_SEVERAL;
	}
	return 0;
}

static enum exit_status run_foreign(const struct put *p, struct server *s, struct root *root,
				    struct report *r)
{
	const struct foreign_job job = {
		.server = s, .report = r, .root = root, .path = p->to.path,
		.several = p->nitems > 1 || p->targets.n, .into = p->targets.n,
		.items = p->items, .nsources = p->nitems,
		.targets = p->targets.n ? (const char *const *)p->targets.all : NULL,
	};

	return foreign_put(&job);
}

static enum exit_status run(struct put *p, struct server *s, struct report *r)
{
	struct err e = ERR_INIT;
	struct bulk b;
	struct root *root = root_new("/", false, &e);
	int rc = root ? bulk_init(&b, s, r, BULK_PUT, &e) : e.code;
	enum exit_status status;

	if (!root) {
		report_error(r, &e);
		return EXIT_SOME_FAILED;
	}
	if (place_is_foreign(&s->place)) {
		status = run_foreign(p, s, root, r);
		root_free(root);
		bulk_clear(&b);
		return status;
	}
	if (rc == 0)
		rc = fill(&b, p, &s->o, root, &e);
	if (rc) {
		report_error(r, &e);
		status = rc == -EINVAL ? EXIT_USAGE : exit_of(rc, false);
	} else {
		status = bulk_run(&b);
	}
	bulk_clear(&b);
	root_free(root);
	return status;
}

static enum exit_status put_all(struct job *j, struct put *p)
{
	struct err e = ERR_INIT;
	struct server *s;
	struct report *r;
	enum exit_status status;

	if (p->nitems == 0)
		return EXIT_DONE; /* an empty list */
	s = server_take(j, &p->to, &e);
	if (!s)
		return usage_error(j, "%s", e.text);
	r = report_new(&j->o);
	status = r ? run(p, s, r) : EXIT_SOME_FAILED;
	if (r)
		report_end(r, status);
	server_give(j, s);
	return status;
}

enum exit_status rftp_put(struct job *j)
{
	struct err e = ERR_INIT;
	struct put p = { 0 };
	enum exit_status status;

	if (read_words(j, &p, &e))
		status = usage_error(j, "%s", e.text);
	else
		status = put_all(j, &p);
	put_clear(&p);
	return status;
}
