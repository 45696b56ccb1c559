// SPDX-License-Identifier: Apache-2.0
/* rftp get: from servers to here. */
#include "client/bulk.h"
#include "client/foreign.h"
#include "client/names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A request has at most BULK_REQUEST_MAX bytes: longer lists go in several. */
#define BATCH_BYTES (BULK_REQUEST_MAX / 2)
#define PATH_OVERHEAD 8

/* The sources on one server. */
struct group {
	struct server *server;
	char *base;             /* of --files-from: what names are relative to; "" */
	struct names paths;
};

struct get {
	struct group *groups;
	int ngroups;
	uint32_t nsources;
	struct place to;
	struct transfer_item item;  /* path points into to */
};

static void get_clear(const struct job *j, struct get *g)
{
	for (int i = 0; i < g->ngroups; i++) {
		server_give(j, g->groups[i].server);
		names_clear(&g->groups[i].paths);
		free(g->groups[i].base);
	}
	free(g->groups);
	place_clear(&g->to);
}

/* ---- sources, by server ---- */

static struct group *group_of(struct job *j, struct get *g, const struct place *p,
			      struct err *e)
{
	struct group *n;

	for (int i = 0; i < g->ngroups; i++)
		if (server_is(g->groups[i].server, p))
			return &g->groups[i];
	n = &g->groups[g->ngroups];
	n->base = strdup("");
	n->server = n->base ? server_take(j, p, e) : NULL;
	if (!n->server) {
		free(n->base);
		return NULL;
	}
	g->ngroups++;
	return n;
}

static int add_source(struct job *j, struct get *g, const struct place *p, struct err *e)
{
	struct group *n = group_of(j, g, p, e);

	if (!n)
		return e->code ? e->code : -ENOMEM;
	if (j->o.files_from) {
		free(n->base);
		n->base = strdup(server_path(p));
		if (!n->base)
			return err_sys(e, -ENOMEM, "sources");
		return names_read(j->o.files_from, j->o.null, &n->paths, e);
	}
	return names_add(&n->paths, strdup(server_path(p))) ?
		err_sys(e, -ENOMEM, "sources") : 0;
}

static int read_source(struct job *j, struct get *g, const char *word, struct err *e)
{
	struct place p;
	int rc = place_of_server(word, &p, e);

	if (rc)
		return rc;
	rc = place_is_foreign(&p) ? foreign_check(j, false, e) : 0;
	if (rc == 0)
		rc = add_source(j, g, &p, e);
	place_clear(&p);
	return rc;
}

/* ---- destination ---- */

static int read_destination(struct get *g, const char *word, struct err *e)
{
	static const enum item_kind kinds[] = {
		[PLACE_LOCAL] = ITEM_PATH, [PLACE_STDIO] = ITEM_STDIO, [PLACE_NULL] = ITEM_NULL,
	};
	int rc = place_parse(word, &g->to, e);

	if (rc)
		return rc;
	if (g->to.kind == PLACE_ZERO)
		return err_set(e, -EINVAL, "zero: is a source: a destination would be null:");
	g->item.kind = kinds[g->to.kind];
	g->item.path = g->to.path;
	return 0;
}

/* The last word, or here when that is a URL as well. */
static int find_destination(struct job *j, struct get *g, int *nsources, struct err *e)
{
	struct place last;
	bool remote;
	int rc = place_parse(j->words[j->nwords - 1], &last, e);

	if (rc)
		return rc;
	remote = place_is_remote(&last);
	place_clear(&last);
	*nsources = remote ? j->nwords : j->nwords - 1;
	return read_destination(g, remote ? "." : j->words[j->nwords - 1], e);
}

/* ---- what the command line must be ---- */

static int check(const struct get *g, const struct options *o, struct err *e)
{
	if (g->item.kind == ITEM_STDIO && (g->nsources > 1 || o->recursive || o->files_from))
		return err_set(e, -EINVAL, "one file at a time goes to standard output");
	if (g->item.kind == ITEM_STDIO && (o->json || o->dry_run))
		return err_set(e, -EINVAL, "--json and --dry-run write to standard output, where "
			       "the data would go");
	if (g->item.kind == ITEM_PATH && !o->files_from && g->nsources > 1 &&
	    !names_directory(g->item.path))
		return err_set(e, -EINVAL, "several sources need a directory: write %s/",
			       printable(g->item.path));
	return 0;
}

static int read_words(struct job *j, struct get *g, struct err *e)
{
	int n, rc;

	if (!names_server(j->words[0]) && names_server(j->words[j->nwords - 1]))
		return err_set(e, -EINVAL, "%s is not on a server: rftp put copies to there",
			       printable(j->words[0]));
	rc = find_destination(j, g, &n, e);
	if (rc)
		return rc;
	if (n < 1)
		return err_set(e, -EINVAL, "a URL is needed");
	if (j->o.files_from && n != 1)
		return err_set(e, -EINVAL, "--files-from needs one URL, of a directory");
	g->groups = calloc((size_t)n, sizeof(*g->groups));
	if (!g->groups)
		return err_sys(e, -ENOMEM, "sources");
	for (int i = 0; rc == 0 && i < n; i++)
		rc = read_source(j, g, j->words[i], e);
	g->nsources = (uint32_t)n;
	return rc ? rc : check(g, &j->o, e);
}

/* ---- the transfers ---- */

/* How many names from first on fit into one request. */
static size_t batch(const struct names *names, size_t first)
{
	size_t n = first, bytes = 0;

	while (n < names->n && (n == first || bytes < BATCH_BYTES))
		bytes += strlen(names->all[n++]) + PATH_OVERHEAD;
	return n - first;
}

static int fill_sources(struct bulk_request *q, const struct group *n, size_t first,
			size_t count)
{
	q->base = strdup(n->base);
	q->sources = calloc(count + 1, sizeof(*q->sources));
	if (!q->base || !q->sources)
		return -ENOMEM;
	for (; q->nsources < count; q->nsources++) {
		q->sources[q->nsources] = strdup(n->paths.all[first + q->nsources]);
		if (!q->sources[q->nsources])
			return -ENOMEM;
	}
	return 0;
}

static uint32_t flags_of(const struct get *g, const struct options *o)
{
	uint32_t flags = 0;

	if (g->nsources > 1)
		flags |= BULK_F_SEVERAL;
	if (g->item.kind == ITEM_STDIO)
		flags |= BULK_F_SEQUENTIAL;
	if (o->files_from)
		flags |= BULK_F_INTO | BULK_F_MKDIRS | BULK_F_SEVERAL;
	return flags;
}

static enum exit_status get_batch(struct get *g, struct group *n, size_t first, size_t count,
				  struct root *root, struct report *r)
{
	struct err e = ERR_INIT;
	struct bulk b;
	enum exit_status status;
	int rc = bulk_init(&b, n->server, r, BULK_GET, &e);

	b.c.request.flags |= flags_of(g, &n->server->o);
	b.c.items = &g->item;
	b.c.nitems = 1;
	b.c.root = root;
	b.once = g->item.kind == ITEM_STDIO;
	if (rc == 0 && fill_sources(&b.c.request, n, first, count))
		rc = err_sys(&e, -ENOMEM, "request");
	if (rc) {
		report_error(r, &e);
		status = rc == -EINVAL ? EXIT_USAGE : exit_of(rc, false);
	} else {
		status = bulk_run(&b);
	}
	bulk_clear(&b);
	return status;
}

static enum exit_status get_foreign(const struct get *g, const struct group *n, struct root *root,
				    struct report *r, const struct options *o)
{
	const struct foreign_job job = {
		.server = n->server, .report = r, .root = root, .to = &g->item,
		.several = g->nsources > 1, .into = o->files_from, .base = n->base,
		.sources = (const char *const *)n->paths.all, .nsources = n->paths.n,
	};

	return n->paths.n ? foreign_get(&job) : EXIT_DONE;
}

static enum exit_status get_group(const struct job *j, struct get *g, struct group *n,
				  struct root *root, struct report *r)
{
	enum exit_status status = EXIT_DONE;
	size_t count;

	if (place_is_foreign(&n->server->place))
		status = get_foreign(g, n, root, r, &j->o);
	for (size_t at = 0; at < n->paths.n && status <= EXIT_SOME_FAILED &&
	     !place_is_foreign(&n->server->place); at += count) {
		count = batch(&n->paths, at);
		status = exit_worse(status, get_batch(g, n, at, count, root, r));
	}
	server_give(j, steal_ptr(&n->server));
	return status;
}

/* One server after the other; after an interrupt no more. */
static enum exit_status get_all(const struct job *j, struct get *g, struct report *r)
{
	struct err e = ERR_INIT;
	struct root *root = root_new("/", false, &e);
	enum exit_status status = EXIT_DONE;

	if (!root) {
		report_error(r, &e);
		return EXIT_SOME_FAILED;
	}
	for (int i = 0; i < g->ngroups && status != EXIT_INTERRUPTED; i++)
		status = exit_worse(status, get_group(j, g, &g->groups[i], root, r));
	root_free(root);
	return status;
}

enum exit_status rftp_get(struct job *j)
{
	struct err e = ERR_INIT;
	struct get g = { 0 };
	struct report *r;
	enum exit_status status = EXIT_SOME_FAILED;

	if (read_words(j, &g, &e)) {
		status = usage_error(j, "%s", e.text);
	} else {
		r = report_new(&j->o);
		if (r)
			status = report_end(r, get_all(j, &g, r));
	}
	get_clear(j, &g);
	return status;
}
