// SPDX-License-Identifier: Apache-2.0
/* rftp put and rftp get: copies between this host and servers. rftp sync: these, or rftp cp, as its
 * words say. */
#include "client/servers.h"
#include "client/foreign/foreign.h"
#include "client/names.h"
#include "client/shards/shards.h"

/* A request has at most BULK_REQUEST_MAX bytes: a longer list is split into several requests. */
#define BATCH_BYTES (BULK_REQUEST_MAX / 2)
#define PATH_OVERHEAD 8

/* ---- put ---- */

/* The command line of put. */
struct put {
	struct url to;
	struct transfer_item *items;  /* their paths are words, or members of paths */
	struct names paths, targets;  /* of --files-from */
	uint32_t nitems;
	bool pipe;                    /* standard input is one of the items */
};

/* Append word as an item. The item points to word, because a local path is the word itself. */
static int put_add_word(struct put *p, const char *word, struct err *e)
{
	static const enum item_kind kinds[] = {
		[URL_LOCAL] = ITEM_PATH, [URL_STDIO] = ITEM_STDIO, [URL_ZERO] = ITEM_ZERO,
	};
	struct url from;
	int rc = url_parse(word, &from, e);

	if (rc)
		return rc;

	if (from.kind == URL_NULL)
		rc = err_set(e, -EINVAL, "null: is a destination: a source would be zero:SIZE");
	else if (url_is_remote(&from))
		rc = err_set(e, -EINVAL, "%s is on a server: put takes files from here",
			     printable(word));
	else
		p->items[p->nitems++] = (struct transfer_item){
			.kind = kinds[from.kind], .path = word, .size = from.size,
			.fd = STDIN_FILENO,
		};
	p->pipe |= from.kind == URL_STDIO;
	url_clear(&from);
	return rc;
}

/* Read the words before the URL. With --files-from there is one word, and each listed name is a
 * path below it. */
static int put_read_sources(const struct job *j, struct put *p, struct err *e)
{
	size_t n = (size_t)j->nwords - 1;
	int rc = 0;

	if (j->o.files_from) {
		rc = names_read(j->o.files_from, j->o.null, &p->targets, e);
		if (rc)
			return rc;
		n = p->targets.n;
	}
	p->items = calloc(n + 1, sizeof(*p->items));
	if (!p->items)
		return err_nomem(e);

	for (size_t i = 0; rc == 0 && i < n; i++) {
		if (!j->o.files_from) {
			rc = put_add_word(p, j->words[i], e);
			continue;
		}
		if (names_add(&p->paths, name_below(j->words[0], p->targets.all[i])))
			return err_nomem(e);
		p->items[p->nitems++] = (struct transfer_item){
			.kind = ITEM_PATH, .path = p->paths.all[i],
		};
	}
	return rc;
}

static int put_read_words(struct job *j, struct put *p, struct err *e)
{
	int last = j->nwords - 1, rc;
	bool directory;

	if (last > 0 && word_is_remote(j->words[0]) && !word_is_remote(j->words[last]))
		return err_set(e, -EINVAL, GET_COPIES_WHY,
			       printable(j->words[0]));
	rc = url_of_server(j->words[last], &p->to, e);
	if (rc)
		return rc;

	if (j->o.files_from && last != 1)
		return err_set(e, -EINVAL, FILES_FROM_WHY);
	if (last < 1)
		return err_set(e, -EINVAL, "a source and a URL are needed");
	rc = url_is_foreign(&p->to) ? foreign_check(j, true, e) : 0;
	if (rc == 0)
		rc = put_read_sources(j, p, e);
	if (rc || j->o.files_from)
		return rc;

	directory = names_directory(p->to.path);
	if (p->nitems > 1 && !directory)
		return err_set(e, -EINVAL, DEST_SEVERAL_WHY,
			       printable(p->to.path));
	for (uint32_t i = 0; i < p->nitems; i++)
		if (p->items[i].kind != ITEM_PATH && (p->nitems > 1 || directory))
			return err_set(e, -EINVAL, "data from %s needs a file name in the URL",
				       p->items[i].kind == ITEM_STDIO ? "standard input" : "zero:");
	return 0;
}

static enum exit_status put_run(const struct job *j, const struct put *p, struct server *s,
				struct root *root, struct report *r)
{
	const struct foreign_job job = {
		.server = s, .report = r, .root = root, .path = p->to.path,
		.several = p->nitems > 1 || p->targets.n, .into = p->targets.n,
		.items = p->items, .nsources = p->nitems,
		.targets = p->targets.n ? (const char *const *)p->targets.all : NULL,
	};
	enum exit_status status;
	struct err e = ERR_INIT;
	struct bulk b;

	if (url_is_foreign(&s->url))
		return foreign_put(&job);

	bulk_init(&b, s, r, BULK_PUT, &e);
	if (j->tap)
		shard_tap_bulk(j->tap, &b);
	b.c.items = p->items;
	b.c.nitems = p->nitems;
	b.c.root = root;
	b.attempts.pipe = p->pipe;
	b.c.request.base = strdup(p->to.path);
	if (!e.code && !b.c.request.base)
		err_nomem(&e);
	if (p->nitems > 1)
		b.c.request.flags |= BULK_F_SEVERAL;
	b.c.targets = job.targets;

	status = attempts_run(&b.attempts, &e);
	bulk_clear(&b);
	return status;
}

enum exit_status command_put(struct job *j)
{
	enum exit_status status = EXIT_SOME_FAILED;
	struct report *r = NULL;
	struct server *s = NULL;
	struct root *root = NULL;
	struct err e = ERR_INIT;
	struct put p = { 0 };

	if (j->o.shard_list)
		return shard_run(j);
	if (put_read_words(j, &p, &e) || (p.nitems && !(s = server_take(j, &p.to, &e))))
		status = usage_error(j, "%s", e.text);
	else if (!p.nitems) /* the list may be empty */
		status = EXIT_DONE;
	else if ((r = report_new(&j->o)) && (root = root_new("/", false, &e)) &&
		 !report_manifest(r, p.nitems == 1 ? p.items[0].path : NULL, p.to.path, &e))
		status = put_run(j, &p, s, root, r);
	else if (r) {
		report_error(r, &e);
		status = e.code == -EINVAL ? EXIT_USAGE : status;
	}

	if (r)
		status = report_end(r, status);
	root_free(root);
	server_give(j, s);
	free(p.items);
	names_clear(&p.paths);
	names_clear(&p.targets);
	url_clear(&p.to);
	return status;
}

/* ---- get ---- */

/* The sources on one server. */
struct get_group {
	struct server *server;
	char *base;             /* of --files-from: the directory of the names; "" */
	struct names paths;
};

struct get {
	struct get_group *groups;
	int ngroups;
	uint32_t nsources;
	struct url to;
	struct transfer_item item;  /* path points into to */
};

/* Add a URL to the group of its server, which is made if missing. */
static int get_add_word(struct job *j, struct get *g, const char *word, struct err *e)
{
	struct get_group *n = g->groups;
	struct url p;
	int rc = url_of_server(word, &p, e);

	if (rc)
		return rc;

	rc = url_is_foreign(&p) ? foreign_check(j, false, e) : 0;
	while (n < g->groups + g->ngroups && !server_is(n->server, &p))
		n++;
	if (rc == 0 && n == g->groups + g->ngroups) {
		n->base = strdup(j->o.files_from ? server_path(&p) : "");
		n->server = n->base ? server_take(j, &p, e) : NULL;
		if (n->server)
			g->ngroups++;
		else
			free(steal_ptr(&n->base));
		rc = n->server ? 0 : e->code ? e->code : err_nomem(e);
	}

	if (rc == 0 && j->o.files_from)
		rc = names_read(j->o.files_from, j->o.null, &n->paths, e);
	else if (rc == 0 && names_add(&n->paths, strdup(server_path(&p))))
		rc = err_nomem(e);
	url_clear(&p);
	return rc;
}

/* Is path a link as /dev/stdout is? A file would replace the link. */
static bool leads_to_no_file(const char *path)
{
	char target[PATH_MAX];
	ssize_t n = readlink(path, target, sizeof(target) - 1);
	struct stat st;

	if (n < 0)
		return false;
	target[n] = '\0';
	return !strncmp(target, "/proc/", 6) ||
	       (!stat(path, &st) && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode));
}

static int get_set_destination(struct get *g, const char *word, const struct options *o,
			       struct err *e)
{
	static const enum item_kind kinds[] = {
		[URL_LOCAL] = ITEM_PATH, [URL_STDIO] = ITEM_STDIO, [URL_NULL] = ITEM_NULL,
	};
	int rc = url_parse(word, &g->to, e);

	if (rc)
		return rc;

	if (g->to.kind == URL_ZERO)
		return err_set(e, -EINVAL, "zero: is a source: a destination would be null:");
	g->item.kind = kinds[g->to.kind];
	g->item.path = g->to.path;
	g->item.fd = STDOUT_FILENO;
	if (g->item.kind == ITEM_STDIO && (g->nsources > 1 || o->recursive || o->files_from))
		return err_set(e, -EINVAL, "one file at a time goes to standard output");
	if (g->item.kind == ITEM_STDIO && (o->json || o->dry_run))
		return err_set(e, -EINVAL, "--json and --dry-run write to standard output, where "
			       "the data would go");
	if (g->item.kind == ITEM_PATH && leads_to_no_file(g->item.path))
		return err_set(e, -EINVAL, "%s: the link leads to a descriptor or a device (- is "
			       "standard output)", printable(g->item.path));
	if (g->item.kind == ITEM_PATH && !o->files_from && g->nsources > 1 &&
	    !names_directory(g->item.path))
		return err_set(e, -EINVAL, DEST_SEVERAL_WHY,
			       printable(g->item.path));
	return 0;
}

/* The last word is the destination. If it is a URL, the only one, the destination is ".". */
static int get_read_words(struct job *j, struct get *g, struct err *e)
{
	const char *last = j->words[j->nwords - 1];
	bool here = word_is_remote(last);
	int n = here ? j->nwords : j->nwords - 1, rc;

	if (here && !word_is_remote(j->words[0]))
		return err_set(e, -EINVAL, PUT_COPIES_WHY,
			       printable(j->words[0]));
	if (n < 1)
		return err_set(e, -EINVAL, "a URL is needed");
	if (here && n > 1)
		return err_set(e, -EINVAL, "%s is on a server: rftp cp copies between servers; to "
			       "get %s, add ./", printable(last), n > 2 ? "all" : "both");

	g->nsources = (uint32_t)n;
	rc = get_set_destination(g, here ? "." : last, &j->o, e);
	if (rc)
		return rc;
	if (j->o.files_from && n != 1)
		return err_set(e, -EINVAL, FILES_FROM_WHY);

	g->groups = calloc((size_t)n, sizeof(*g->groups));
	if (!g->groups)
		return err_nomem(e);
	for (int i = 0; rc == 0 && i < n; i++)
		rc = get_add_word(j, g, j->words[i], e);
	return rc;
}

/* Run the requests for the group n. */
static enum exit_status get_group(const struct job *j, struct get *g, struct get_group *n,
				  struct root *root, struct report *r)
{
	const struct foreign_job job = {
		.server = n->server, .report = r, .root = root, .to = &g->item,
		.several = g->nsources > 1, .into = j->o.files_from, .base = n->base,
		.sources = (const char *const *)n->paths.all, .nsources = n->paths.n,
	};
	enum exit_status status = EXIT_DONE;
	const struct names *paths = &n->paths;
	size_t end;

	if (url_is_foreign(&n->server->url))
		return paths->n ? foreign_get(&job) : EXIT_DONE;

	for (size_t at = 0; at < paths->n && status <= EXIT_SOME_FAILED; at = end) {
		struct err e = ERR_INIT;
		struct bulk b;
		struct bulk_request *q = &b.c.request;
		size_t bytes = 0;
		int rc = bulk_init(&b, n->server, r, BULK_GET, &e);

		if (j->tap)
			shard_tap_bulk(j->tap, &b);
		for (end = at; end < paths->n && (end == at || bytes < BATCH_BYTES); end++)
			bytes += strlen(paths->all[end]) + PATH_OVERHEAD;

		if (g->nsources > 1)
			q->flags |= BULK_F_SEVERAL;
		if (g->item.kind == ITEM_STDIO)
			q->flags |= BULK_F_SEQUENTIAL;
		b.c.items = &g->item;
		b.c.nitems = 1;
		b.c.root = root;
		b.attempts.pipe = b.attempts.to_stdout = g->item.kind == ITEM_STDIO;
		q->base = strdup(n->base);
		if (rc == 0 && (!q->base || bulk_add_sources(q, paths->all + at, end - at)))
			err_nomem(&e);

		status = exit_worse(status, attempts_run(&b.attempts, &e));
		bulk_clear(&b);
	}
	return status;
}

enum exit_status command_get(struct job *j)
{
	enum exit_status status = EXIT_SOME_FAILED;
	struct err e = ERR_INIT;
	struct get g = { 0 };
	struct report *r = NULL;
	struct root *root = NULL;

	if (j->o.shard_list)
		return shard_run(j);
	if (get_read_words(j, &g, &e))
		status = usage_error(j, "%s", e.text);
	else
		r = report_new(&j->o);
	if (r)
		root = root_new("/", false, &e);
	if (r && (!root || report_manifest(r, NULL, g.item.kind == ITEM_NULL ? "null:" :
					   g.item.kind == ITEM_STDIO ? "-" : g.to.path, &e))) {
		report_error(r, &e);
		status = e.code == -EINVAL ? EXIT_USAGE : status;
		root_free(steal_ptr(&root));
	}

	/* Serve the groups one after another; an interrupt ends this. */
	if (root)
		status = EXIT_DONE;
	for (int i = 0; root && i < g.ngroups && status != EXIT_INTERRUPTED; i++) {
		struct get_group *n = &g.groups[i];

		status = exit_worse(status, get_group(j, &g, n, root, r));
		server_give(j, steal_ptr(&n->server));
	}

	if (r)
		status = report_end(r, status);
	root_free(root);
	for (int i = 0; i < g.ngroups; i++) {
		server_give(j, g.groups[i].server);
		names_clear(&g.groups[i].paths);
		free(g.groups[i].base);
	}
	free(g.groups);
	url_clear(&g.to);
	return status;
}

/* ---- sync ---- */

/* "DIR/", "host:": a directory's contents, or the place of a name in it. */
static bool names_inside(const char *word)
{
	return names_directory(word) || word[strlen(word) - 1] == ':';
}

const char *sync_refuses(const struct job *j)
{
	const struct options *o = &j->o;
	CLEANUP_FREE char *trash = NULL;

	if (o->files_from)
		return "sync compares whole trees: it takes no --files-from";
	/* In rftp.conf, trash and max-delete are for the runs with --delete. */
	if (!o->delete && (o->delete_excluded || option_args_last(j->args, "trash") ||
			   option_args_last(j->args, "max-delete")))
		return "--delete-excluded, --max-delete and --trash need --delete";
	/* rsync -a --delete SOURCE DESTINATION would put SOURCE into DESTINATION; here it would
	 * remove all other names there. */
	if (o->delete && !names_inside(j->words[0]) && !names_inside(j->words[1]))
		return "--delete: write SOURCE/ to make DESTINATION the same, or DESTINATION/ to put "
		       "SOURCE into it";
	trash = strdup(o->trash ? o->trash : "");
	if (!trash || name_normalize(trash))
		return "--trash: a path without .. is needed";
	return NULL;
}

enum exit_status command_sync(struct job *j)
{
	bool from = word_is_remote(j->words[0]), to = word_is_remote(j->words[1]);
	struct options *o = &j->o;
	const char *why = sync_refuses(j);

	if (why)
		return usage_error(j, "%s", why);
	if (!from && !to)
		return usage_error(j, URL_LOCAL_WHY, printable(j->words[1]));
	options_sync(o);
	return from && to ? command_cp(j) : from ? command_get(j) : command_put(j);
}
