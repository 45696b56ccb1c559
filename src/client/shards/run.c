// SPDX-License-Identifier: Apache-2.0
/* rftp put and rftp get with --shard-list: transfers the items of one list that are not done
 * yet, and writes a line for each to the list's results. */
#include "client/shards/shards.h"

#include "client/servers.h"
#include "client/names.h"

#include <libgen.h>
#include <uthash.h>

/* The most items, and bytes of paths, of one transfer. */
enum { BATCH_ITEMS = 20000, BATCH_BYTES = 2 << 20 };

/* An item of the present transfer. */
struct running {
	struct shard_key key;
	struct shard_item it;
	bool over;                 /* done, or failed and reported */
	UT_hash_handle hh;
};

struct run {
	struct shard_plan p;
	FILE *list, *results;
	char *list_name;
	struct shard_results done, whole; /* of earlier runs; of finish-shards */
	struct running *items;     /* [n] of the present transfer */
	size_t n, room, bytes;
	struct running *by_key;
	struct shard_tap tap;
	uint64_t files, moved, failed;
	unsigned shard;            /* from 1 */
	int broken;                /* a negative errno of the results */
};

/* ---- results; from threads of the transfer, one at a time ---- */

static void result_write(struct run *r, json_t *o, const struct shard_item *it)
{
	int rc = shard_result_write(r->results, o, it);

	if (rc && !r->broken)
		r->broken = rc;
}

static void result_failed(struct run *r, struct running *m, const char *text)
{
	m->over = true;
	r->failed++;
	result_write(r, json_pack("{s:s, s:o}", "event", "failed", "text", json_name(text)),
		     &m->it);
}

static struct running *running_find(struct run *r, const char *path, const struct bulk_range *range)
{
	struct shard_key key = shard_key(path, range);
	struct running *m;

	HASH_FIND(hh, r->by_key, &key, sizeof(key), m);
	return m;
}

static void run_file_done(void *arg, const struct file_report *f)
{
	struct run *r = arg;
	struct running *m = f->rel && (f->sum || f->end != FILE_COPIED) ?
			    running_find(r, f->rel, &f->range) : NULL;

	if (r->tap.to.file_done)
		r->tap.to.file_done(r->tap.to.arg, f);
	if (!m || m->over)
		return;
	m->over = true;
	if (!f->sum) {
		result_write(r, json_pack("{s:s, s:b, s:i}", "event", "done", "left", 1, "bytes",
					  0), &m->it);
		return;
	}
	r->files += !f->range.length;
	r->moved += f->bytes;
	result_write(r, json_pack("{s:s, s:I, s:I, s:I, s:s, s:s}", "event", "done", "bytes",
				  (json_int_t)f->bytes, "mtime", (json_int_t)f->mtime_s, "mtime_ns",
				  (json_int_t)f->mtime_ns, "alg", "CRC32C", "digest", f->sum),
		     &m->it);
}

/* ---- one transfer ---- */

static void run_forget(struct run *r)
{
	HASH_CLEAR(hh, r->by_key);
	for (size_t i = 0; i < r->n; i++)
		shard_item_clear(&r->items[i].it);
	r->n = r->bytes = 0;
}

/* Read the next items that are not done. 1: there are some; 0: no more; or a negative errno with
 * text. */
static int run_next(struct run *r, struct err *e)
{
	struct shard_item it;
	int rc = 1;

	run_forget(r);
	while (r->n < BATCH_ITEMS && r->bytes < BATCH_BYTES) {
		rc = shard_item_read(r->list, r->list_name, &it, e);
		if (rc <= 0)
			break;
		if (shard_results_find(&r->done, &it) || shard_is_whole(&r->whole, &it)) {
			shard_item_clear(&it);
			continue;
		}
		if (!array_has_room(r->items, r->n, r->room)) {
			shard_item_clear(&it);
			return err_nomem(e);
		}
		r->bytes += strlen(it.path);
		r->items[r->n++] = (struct running){
			.key = shard_key(it.path, &it.range), .it = it,
		};
	}
	for (size_t i = 0; rc >= 0 && i < r->n; i++)
		HASH_ADD(hh, r->by_key, key, sizeof(r->items[i].key), &r->items[i]);
	return rc < 0 ? rc : r->n > 0;
}

struct batch {
	struct bulk b;
	struct run *r;
	struct transfer_item *items; /* put: [r->n] with targets; get: the destination */
	const char **targets;
	struct names paths;
	size_t left;                 /* items of this attempt */
};

/* The items that are not over, as the sources of the next attempt: an item that is done must not be
 * written again. */
static int batch_items(struct batch *t)
{
	struct bulk_request *q = &t->b.c.request;
	const struct run *r = t->r;

	names_clear(&t->paths);
	for (uint32_t i = 0; i < q->nsources; i++)
		free(q->sources[i]);
	q->nsources = 0;
	t->left = 0;
	for (size_t i = 0; i < r->n; i++) {
		const struct shard_item *it = &r->items[i].it;
		const struct bulk_piece piece = { it->range, true, it->size, it->mtime_s,
						  it->mtime_ns };
		int rc;

		if (r->items[i].over)
			continue;
		if (r->p.get) {
			q->pieces[t->left] = piece;
			rc = bulk_add_sources(q, (char *const *)&it->path, 1);
		} else {
			rc = names_add(&t->paths, name_below(r->p.source, it->path));
			t->items[t->left].piece = piece;
			t->targets[t->left] = it->path;
		}
		if (rc)
			return -ENOMEM;
		t->left++;
	}
	for (size_t i = 0; !r->p.get && i < t->left; i++) {
		t->items[i].kind = ITEM_PATH;
		t->items[i].path = t->paths.all[i];
	}
	t->b.c.nitems = r->p.get ? 1 : (uint32_t)t->left;
	return 0;
}

static int batch_connect(void *batch, struct err *e)
{
	struct batch *t = batch;

	if (batch_items(t))
		return err_nomem(e);
	return t->left ? server_connect(t->b.server, e) : 0;
}

static int batch_once(void *batch, unsigned attempt, struct transfer_result *result, struct err *e)
{
	struct batch *t = batch;

	/* The connection was lost after the last item was done. */
	return t->left ? bulk_once(&t->b, attempt, result, e) : 0;
}

static enum exit_status run_batch(struct run *r, struct server *s, struct root *root,
				  struct report *report)
{
	struct batch t = { .r = r };
	struct bulk_request *q = &t.b.c.request;
	enum exit_status status;
	struct err e = ERR_INIT;

	bulk_init(&t.b, s, report, r->p.get ? BULK_GET : BULK_PUT, &e);
	t.b.attempts.connect = batch_connect;
	t.b.attempts.once = batch_once;
	t.b.attempts.arg = &t;
	r->tap = (struct shard_tap){ .file_done = run_file_done, .arg = r };
	shard_tap_bulk(&r->tap, &t.b);
	t.b.c.root = root;
	q->base = strdup(r->p.get ? r->p.source : r->p.destination);
	q->flags |= BULK_F_INTO | BULK_F_SEVERAL | BULK_F_RANGES;
	q->set = r->p.set;
	q->pieces = calloc(r->n + 1, sizeof(*q->pieces));
	t.items = calloc(r->n + 1, sizeof(*t.items));
	t.targets = calloc(r->n + 1, sizeof(*t.targets));
	if (!e.code && (!t.items || !t.targets || !q->base || !q->pieces))
		err_nomem(&e);
	t.b.c.items = t.items;
	t.b.c.targets = r->p.get ? NULL : t.targets;
	if (r->p.get && t.items)
		t.items[0] = (struct transfer_item){ .kind = ITEM_PATH, .path = r->p.destination };
	status = attempts_run(&t.b.attempts, &e);
	bulk_clear(&t.b);
	names_clear(&t.paths);
	free(t.items);
	free(t.targets);
	for (size_t i = 0; status <= EXIT_SOME_FAILED && i < r->n; i++)
		if (!r->items[i].over)
			result_failed(r, &r->items[i], "was not copied");
	return status;
}

/* ---- the list ---- */

/* The number of the list, from its header. 0 with text: it is no list of the plan. */
static unsigned run_check(struct run *r, struct err *e)
{
	CLEANUP_FREE char *line = NULL;
	const char *id = "";
	size_t room = 0;
	int shard = 0;
	json_t *o;

	if (getline(&line, &room, r->list) > 0) {
		o = json_loads(line, 0, NULL);
		if (o && !json_unpack(o, "{s:s, s:i}", "plan", &id, "shard", &shard) &&
		    (strcmp(id, r->p.id) || shard < 1 || (unsigned)shard > r->p.n)) {
			shard = 0;
			err_set(e, -EINVAL, "%s: the list of another plan than that of "
				"%s/plan.json", printable(r->list_name), printable(r->p.dir));
		}
		json_decref(o);
	}
	if (!shard && !e->code)
		err_set(e, -EINVAL, SHARD_NO_LIST, printable(r->list_name));
	return (unsigned)shard;
}

/* finish-shards writes its results only while it locks those of all lists, so not now. */
static int run_read_whole(struct run *r, struct err *e)
{
	CLEANUP_FREE char *file = shard_path(&r->p, 0, true);
	FILE *in = file ? fopen(file, "re") : NULL;
	int rc = 0;

	if (in)
		rc = shard_results_read(&r->whole, 0, in, e);
	else if (!file || errno != ENOENT)
		rc = err_path(e, file ? -errno : -ENOMEM, file ? file : r->p.dir, CANNOT_READ);
	if (in)
		fclose(in);
	return rc;
}

static int run_begin(struct run *r, const char *list, struct err *e)
{
	CLEANUP_FREE char *copy = strdup(list);
	int rc;

	if (!copy)
		return err_nomem(e);
	rc = shard_plan_read(dirname(copy), &r->p, e);
	if (rc)
		return rc;
	r->list_name = strdup(list);
	r->list = fopen(list, "re");
	if (!r->list || !r->list_name)
		return err_path(e, -errno, list, CANNOT_READ);
	r->shard = run_check(r, e);
	if (!r->shard)
		return e->code;
	r->results = shard_results_open(&r->p, r->shard, e);
	if (!r->results)
		return e->code;
	rc = shard_results_read(&r->done, r->shard, r->results, e);
	return rc ? rc : run_read_whole(r, e);
}

static void run_end(struct run *r)
{
	run_forget(r);
	free(r->items);
	free(r->list_name);
	if (r->list)
		fclose(r->list);
	if (r->results)
		fclose(r->results);
	shard_results_clear(&r->done);
	shard_results_clear(&r->whole);
	shard_plan_clear(&r->p);
}

static enum exit_status run_all(struct job *j, struct run *r, struct server *s, struct err *e)
{
	struct root *root = root_new("/", false, e);
	struct report *report;
	enum exit_status status = EXIT_DONE;
	uint64_t began = now_ns();
	char host[256] = "";
	int rc;

	shard_options(&s->o);
	report = root ? report_new(&s->o) : NULL;
	rc = report ? 0 : e->code ? e->code : err_nomem(e);
	while (!rc && status <= EXIT_SOME_FAILED && (rc = run_next(r, e)) > 0) {
		status = exit_worse(status, run_batch(r, s, root, report));
		rc = fflush(r->results) || fdatasync(fileno(r->results)) ? -errno : r->broken;
		if (rc)
			err_sys(e, rc, "results of %s", printable(r->list_name));
	}
	if (rc < 0)
		status = failed(e, true);
	if (r->failed)
		status = exit_worse(status, EXIT_SOME_FAILED);
	gethostname(host, sizeof(host) - 1);
	if (status <= EXIT_SOME_FAILED)
		json_emit(r->results, json_pack("{s:s, s:I, s:I, s:I, s:I, s:f, s:o}", "event",
						"shard", "files", (json_int_t)r->files, "bytes",
						(json_int_t)r->moved, "failed",
						(json_int_t)r->failed, "before",
						(json_int_t)r->done.n, "seconds",
						(double)(now_ns() - began) / 1e9, "host",
						json_name(host)));
	if (report)
		status = report_end(report, status);
	root_free(root);
	server_give(j, s);
	return status;
}

enum exit_status shard_run(struct job *j)
{
	struct option_args args = { 0 };
	enum exit_status status;
	struct server *s = NULL;
	struct url url = { 0 };
	struct err e = ERR_INIT;
	struct run r = { 0 };
	int rc;

	if (j->nwords)
		return usage_error(j, "--shard-list: the plan names source and destination");
	for (int i = 0; i < j->args->nsettings; i++)
		if (j->args->settings[i].def->where & OF_PLAN)
			return usage_error(j, "%s is an option of plan-shards, not of --shard-list",
					   setting_text(&j->args->settings[i]));
	rc = run_begin(&r, j->o.shard_list, &e);
	if (!rc && r.p.get != (j->cmd->bit == ON_GET))
		rc = err_set(&e, -EINVAL, "%s: the plan is for rftp %s", printable(r.p.dir),
			     r.p.get ? "get" : "put");
	if (rc) {
		log_error("%s", e.text);
		status = e.code == -EINVAL ? EXIT_USAGE : EXIT_SOME_FAILED;
	} else {
		s = shard_plan_connect(&r.p, j, &args, r.shard - 1, &url, &e);
		status = s ? run_all(j, &r, s, &e) : failed(&e, false);
	}
	url_clear(&url);
	run_end(&r);
	option_args_clear(&args);
	return status;
}
