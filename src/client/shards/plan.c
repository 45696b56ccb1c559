// SPDX-License-Identifier: Apache-2.0
/* rftp plan-shards: asks by a dry run what put or get would copy, sorts it, and cuts it into
 * lists of about equal cost. Names are kept on the disk, so memory does not grow with their
 * number. */
#include "client/shards/shards.h"

#include "client/servers.h"
#include "client/names.h"
#include "crypto/crypto.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#define RANGE_LEAST (1ull << 30)  /* bytes: files are not cut into smaller ranges */
#define RANGE_MOST (256ull << 30) /* longer ones only if there would be too many */
#define RANGE_UNIT (1ull << 20)   /* offsets of ranges are multiples of it */
/* The bytes that take as long to copy as the creation of a file, bench/shard-cost. */
#define FILE_COST (128ull << 10)
/* Files from this share of a list's cost on are dealt out first, the smaller ones fill the
 * lists. */
#define BIG_SHARE 16

struct planning {
	struct job *j;
	struct shard_plan p;       /* id and n are set at the end */
	char *words[2], *source, *destination, *prefix; /* prefix: of the paths in reports */
	bool file;                 /* the source is a single file */
	char *dir;                 /* --out */
	bool made;                 /* dir did not exist */
	FILE *spool;               /* items, not sorted */
	uint64_t files, bytes, cost, split;
	uint64_t file_cost;
	struct shard { FILE *out; uint64_t cost, bytes, files, pieces; } *shards;
	unsigned n;
	int failed;                /* a negative errno of the spool */
	struct server *server;
};

/* ---- the words ---- */

static char *absolute_path(const char *word)
{
	CLEANUP_FREE char *here = *word == '/' ? NULL : getcwd(NULL, 0);

	return *word == '/' ? strdup(word) : here ? name_below(here, word) : NULL;
}

/* The directory that source becomes: the destination rule of put and get. */
static char *destination_of(const char *source, const char *destination, bool file)
{
	CLEANUP_FREE char *trimmed = name_trimmed(source);
	const char *slash = destination[strlen(destination) - 1] == '/' ? "" : "/";
	char *out;

	if (!trimmed)
		return NULL;
	if (file || names_directory(source) || !names_directory(destination))
		return asprintf(&out, "%s%s", destination, slash) < 0 ? NULL : out;
	return asprintf(&out, "%s%s%s/", destination, slash, name_last(trimmed)) < 0 ? NULL : out;
}

/* Set source, destination and prefix. A single file keeps its name. */
static int planning_places(struct planning *g, const struct url *url, struct err *e)
{
	const char *from = g->p.get ? server_path(url) : g->words[0];
	const char *to = g->p.get ? g->words[1] : server_path(url);
	CLEANUP_FREE char *whole = name_trimmed(from);

	if (g->file && !names_directory(to))
		return err_set(e, -EINVAL, "a single file needs a directory as its destination: "
			       "write %s/", printable(g->words[1]));
	if (!whole)
		return err_nomem(e);
	g->source = g->file ? strndup(whole, (size_t)(name_last(whole) - whole)) : strdup(whole);
	g->destination = destination_of(from, to, g->file);
	if (g->source && !*g->source) { /* a name in the directory of the login */
		free(g->source);
		g->source = strdup(".");
	}
	if (!g->source || !g->destination)
		return err_nomem(e);
	g->prefix = strdup(g->p.get ? g->destination : g->file ? g->source : whole);
	return g->prefix ? 0 : err_nomem(e);
}

/* Also one of several servers. e: the text of a list of hosts that is none. */
static bool is_server(const char *word, struct err *e)
{
	unsigned n;
	CLEANUP_FREE char *first = shard_server(word, 0, &n, e);

	return first && word_is_remote(first);
}

/* Is path, on the server, a file, or a link to one? */
static bool is_file_there(const struct planning *g, const char *path)
{
	struct ftp_facts f = { 0 };
	struct err ignored = ERR_INIT;
	bool file = !names_directory(path) &&
		    !server_stat_target(g->server, path, &f, &ignored) && f.type == 'f';

	ftp_facts_clear(&f);
	return file;
}

/* Set the words, and connect to the server. */
static int planning_words(struct planning *g, struct url *server, struct err *e)
{
	const struct job *j = g->j;
	bool from = is_server(j->words[0], e), to = is_server(j->words[1], e);
	struct stat st;
	unsigned n = 1;

	if (e->code)
		return e->code;
	if (from == to)
		return err_set(e, -EINVAL, "one of the two must be a server, the other a directory "
			       "or file of this host, on a filesystem that all hosts share");
	g->p.get = from;
	for (int i = 0; i < 2; i++)
		g->words[i] = (i == 0) == from ? strdup(j->words[i]) : absolute_path(j->words[i]);
	if (!g->words[0] || !g->words[1])
		return err_nomem(e);
	g->file = !from && !stat(g->words[0], &st) && S_ISREG(st.st_mode);
	for (unsigned i = 0; i < n; i++) {
		CLEANUP_FREE char *word = shard_server(g->words[from ? 0 : 1], i, &n, e);
		struct err why = ERR_INIT;

		url_clear(server);
		if (!word || url_of_rftpd(word, server, e))
			return e->code;
		g->server = server_take(j, server, e);
		if (!g->server)
			return e->code;
		if (!server_connect(g->server, &why)) {
			g->file |= from && is_file_there(g, server_path(server));
			return 0;
		}
		if (i + 1 == n)
			return err_set(e, why.code, "%s", why.text);
		log_warn(SHARD_LEFT_OUT, why.text);
		server_give(j, steal_ptr(&g->server));
	}
	return 0;
}

/* ---- the dry run ---- */

static void planning_file(void *arg, const struct file_report *f)
{
	struct planning *g = arg;
	const char *below = shard_below(g->prefix, f->path);
	struct shard_item it = { .path = (char *)(uintptr_t)below, .size = f->bytes,
				 .mtime_s = f->mtime_s, .mtime_ns = f->mtime_ns };
	int rc = 0;

	if (!f->plain || f->end != FILE_COPIED || g->failed)
		return;
	rc = below && *below ? shard_item_write(g->spool, &it) : -EPROTO;
	g->files++;
	g->bytes += f->bytes;
	if (rc)
		g->failed = rc;
}

static enum exit_status planning_walk(struct planning *g, const struct url *url, struct err *e)
{
	struct server *s = g->server;
	struct root *root = root_new("/", false, e);
	struct options silent = g->j->o; /* a view */
	struct report *r;
	struct transfer_item item = { .kind = ITEM_PATH, .path = g->words[g->p.get ? 1 : 0] };
	enum exit_status status = EXIT_SOME_FAILED;
	char *path = (char *)(uintptr_t)server_path(url);
	struct shard_tap tap = { .file_done = planning_file, .arg = g };
	struct bulk b;

	silent.progress = PROGRESS_NEVER;
	silent.verbose = 0;
	silent.json = false;
	r = root ? report_new(&silent) : NULL;
	if (!r) {
		root_free(root);
		return e->code ? failed(e, false) : EXIT_SOME_FAILED;
	}
	s->o.dry_run = s->o.recursive = true;
	bulk_init(&b, s, r, g->p.get ? BULK_GET : BULK_PUT, e);
	tap.to = b.c.events;
	b.c.events = shard_events(&tap);
	b.c.items = &item;
	b.c.nitems = 1;
	b.c.root = root;
	b.c.request.base = strdup(g->p.get ? "" : path);
	if (!e->code && (!b.c.request.base ||
			 (g->p.get && bulk_add_sources(&b.c.request, &path, 1))))
		err_nomem(e);
	status = attempts_run(&b.attempts, e);
	bulk_clear(&b);
	status = report_end(r, status);
	root_free(root);
	return status;
}

/* ---- cutting ---- */

/* The number of ranges of a file of size bytes. */
static unsigned ranges_of(const struct planning *g, uint64_t size)
{
	uint64_t most = size / RANGE_LEAST, n = g->n;

	if (most < 2 || g->n < 2)
		return 1;
	/* The same number for each list, if that does not make them too short. */
	while ((size + n - 1) / n > RANGE_MOST)
		n += g->n;
	if (n > most)
		n = most;
	return n > RANGES_MOST ? RANGES_MOST : (unsigned)n;
}

static struct shard *lightest(struct planning *g)
{
	struct shard *best = g->shards;

	for (unsigned i = 1; i < g->n; i++)
		if (g->shards[i].cost < best->cost)
			best = &g->shards[i];
	return best;
}

static int deal(struct planning *g, struct shard *s, const struct shard_item *it)
{
	uint64_t bytes = it->range.length ? it->range.length : it->size;

	s->cost += bytes + g->file_cost;
	s->bytes += bytes;
	s->files += !it->range.length;
	s->pieces++;
	return shard_item_write(s->out, it);
}

/* In split.jsonl the range is the first one; the others have the same length. */
static int deal_ranges(struct planning *g, struct shard_item *it, unsigned n, FILE *split)
{
	uint64_t each = (it->size + n - 1) / n;
	uint64_t step = (each + RANGE_UNIT - 1) / RANGE_UNIT * RANGE_UNIT;
	int rc;

	g->split++;
	it->range = (struct bulk_range){ 0, step };
	rc = shard_item_write(split, it);
	for (uint64_t at = 0; !rc && at < it->size; at += step) {
		it->range = (struct bulk_range){ at, min_u64(step, it->size - at) };
		rc = deal(g, lightest(g), it);
	}
	return rc;
}

/* The cost up to which all lighter lists are filled when all is dealt out. */
static uint64_t fill_line(const struct planning *g)
{
	uint64_t low = 0, high = g->cost;

	while (low < high) {
		uint64_t mid = low + (high - low) / 2, sum = 0;

		for (unsigned i = 0; i < g->n; i++)
			sum += g->shards[i].cost > mid ? g->shards[i].cost : mid;
		if (sum < g->cost)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* Deal out the big items (big), or the small ones: in order, so that a list gets neighbours. */
static int deal_all(struct planning *g, FILE *sorted, const char *file, bool big, FILE *split,
		    struct err *e)
{
	uint64_t limit = g->cost / g->n / BIG_SHARE, line = big ? 0 : fill_line(g);
	struct shard_item it;
	unsigned at = 0;
	int rc;

	rewind(sorted);
	while ((rc = shard_item_read(sorted, file, &it, e)) > 0) {
		uint64_t cost = it.size + g->file_cost;
		unsigned n = ranges_of(g, it.size);

		rc = 0;
		if (big && n > 1) {
			rc = deal_ranges(g, &it, n, split);
		} else if (n == 1 && big == (cost >= limit && it.size > g->file_cost)) {
			while (!big && at + 1 < g->n && g->shards[at].cost + cost / 2 > line)
				at++;
			rc = deal(g, big ? lightest(g) : &g->shards[at], &it);
		}
		shard_item_clear(&it);
		if (rc)
			return err_sys(e, rc, "%s: " CANNOT_WRITE, printable(g->dir));
	}
	return rc;
}

/* The same files at the same places have the same id. Transfers with the same id share the parts of
 * files that are cut: all numbers that decide the cuts are in it. */
static int planning_id(const struct planning *g, FILE *sorted, char id[33])
{
	uint8_t piece[1 << 16], all[2 * RUN_DIGEST_BYTES] = { 0 };
	const char *words[] = { g->words[0], g->words[1] };
	size_t n;

	rewind(sorted);
	for (int i = 0; i < 2; i++) {
		crypto_run_digest(all + RUN_DIGEST_BYTES, words[i], strlen(words[i]));
		crypto_run_digest(all, all, sizeof(all));
	}
	memset(all + RUN_DIGEST_BYTES, 0, RUN_DIGEST_BYTES);
	put_be64(all + RUN_DIGEST_BYTES, g->n);
	put_be64(all + RUN_DIGEST_BYTES + 8, g->file_cost);
	crypto_run_digest(all, all, sizeof(all));
	while ((n = fread(piece, 1, sizeof(piece), sorted)) > 0) {
		crypto_run_digest(all + RUN_DIGEST_BYTES, piece, n);
		crypto_run_digest(all, all, sizeof(all));
	}
	for (int i = 0; i < RUN_DIGEST_BYTES; i++)
		snprintf(id + 2 * i, 3, "%02x", all[i]);
	return ferror(sorted) ? -EIO : 0;
}

static int open_lists(struct planning *g, const char *id, struct err *e)
{
	struct shard_plan at = { .dir = g->dir };

	for (unsigned i = 0; i < g->n; i++) {
		CLEANUP_FREE char *path = shard_path(&at, i + 1, false);

		g->shards[i].out = path ? shard_new_file(path) : NULL;
		if (!g->shards[i].out)
			return err_path(e, path ? -errno : -ENOMEM, path ? path : g->dir,
					CANNOT_WRITE);
		fprintf(g->shards[i].out, "{\"plan\": \"%s\", \"shard\": %u}\n", id, i + 1);
	}
	return 0;
}

static int planning_cut(struct planning *g, char id[33], struct err *e)
{
	CLEANUP_FREE char *file = name_below(g->dir, SHARD_SORTED);
	CLEANUP_FREE char *split_file = name_below(g->dir, "split.jsonl");
	FILE *sorted = file ? fopen(file, "re") : NULL;
	FILE *split = split_file ? shard_new_file(split_file) : NULL;
	int rc = sorted && split ? 0 : err_path(e, -errno, g->dir, CANNOT_WRITE);

	g->cost = g->bytes + g->files * g->file_cost;
	if (!rc && planning_id(g, sorted, id))
		rc = err_path(e, -EIO, file, CANNOT_READ);
	if (!rc)
		rc = open_lists(g, id, e);
	if (!rc)
		rc = deal_all(g, sorted, file, true, split, e);
	if (!rc)
		rc = deal_all(g, sorted, file, false, split, e);
	for (unsigned i = 0; i < g->n; i++)
		if (shard_file_close(g->shards[i].out) && !rc)
			rc = err_path(e, -errno, g->dir, CANNOT_WRITE);
	if (shard_file_close(split) && !rc)
		rc = err_path(e, -errno, g->dir, CANNOT_WRITE);
	if (sorted)
		fclose(sorted);
	if (file)
		unlink(file);
	return rc;
}

/* ---- plan.json ---- */

/* Append --name=value. */
static int planning_word(json_t *list, const char *name, const char *value)
{
	CLEANUP_FREE char *word = NULL;

	return asprintf(&word, "--%s%s%s", name, value ? "=" : "", value ? value : "") < 0 ||
	       json_array_append_new(list, json_string(word)) ? -ENOMEM : 0;
}

/* Append a setting as the transfers and finish-shards need it: later, on other hosts, and in other
 * directories. */
static int planning_setting(const struct planning *g, json_t *list, const struct setting *s)
{
	static const char *const left_out[] = { "shards", "out", "file-cost", "json", "quiet",
						"verbose", "progress", "exclude", "include",
						"filter-from" };
	const char *name = s->def->name;
	CLEANUP_FREE char *value = NULL;

	for (size_t k = 0; k < sizeof(left_out) / sizeof(left_out[0]); k++)
		if (!strcmp(left_out[k], name))
			return 0;
	if (!s->value)
		return planning_word(list, name, NULL);
	if (!strcmp(name, "newer-than")) { /* an age would count from then on */
		if (asprintf(&value, "@%lld", (long long)g->j->o.filter.newer_s) < 0)
			value = NULL;
	} else if (s->def->arg && !strcmp(s->def->arg, "FILE") && strcmp(s->value, "-")) {
		value = absolute_path(s->value);
	} else {
		value = strdup(s->value);
	}
	return value ? planning_word(list, name, value) : -ENOMEM;
}

/* The options that transfers and finish-shards need, as words. Rules from a file, or from standard
 * input, become words of their own. */
static json_t *planning_options(const struct planning *g)
{
	const struct filter *f = &g->j->o.filter;
	json_t *list = json_array();
	int rc = list ? 0 : -ENOMEM;

	for (int i = 0; !rc && i < g->j->args->nsettings; i++)
		rc = planning_setting(g, list, &g->j->args->settings[i]);
	for (size_t i = 0; !rc && i < f->n; i++) {
		CLEANUP_FREE char *rule = NULL;
		bool include;
		const char *pattern = filter_pattern(f, i, &include);

		rc = asprintf(&rule, "%c %s", include ? '+' : '-', pattern) < 0 ? -ENOMEM :
		     planning_word(list, "exclude", rule);
	}
	if (rc)
		json_decref(list);
	return rc ? NULL : list;
}

static int planning_write(struct planning *g, const char *id, struct err *e)
{
	CLEANUP_FREE char *part = name_below(g->dir, "plan.json.new");
	CLEANUP_FREE char *file = name_below(g->dir, "plan.json");
	int dir CLEANUP_CLOSE = open(g->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	json_t *shards = json_array(), *o;
	FILE *out = NULL;
	char name[32];
	int rc = dir < 0 ? -errno : part && file && shards ? 0 : -ENOMEM;

	for (unsigned i = 0; !rc && i < g->n; i++) {
		const struct shard *s = &g->shards[i];

		snprintf(name, sizeof(name), "shard-%04u.jsonl", i + 1);
		if (json_array_append_new(shards, json_pack("{s:s, s:I, s:I, s:I}", "list", name,
							    "pieces", (json_int_t)s->pieces,
							    "files", (json_int_t)s->files, "bytes",
							    (json_int_t)s->bytes)))
			rc = -ENOMEM;
	}
	o = json_pack("{s:i, s:s, s:s, s:[s, s], s:s, s:s, s:o, s:I, s:I, s:I, s:o}", "version", 1,
		      "id", id, "command", g->p.get ? "get" : "put", "words", g->words[0],
		      g->words[1], "source", g->source, "destination", g->destination, "options",
		      planning_options(g), "files", (json_int_t)g->files, "bytes",
		      (json_int_t)g->bytes, "split", (json_int_t)g->split, "shards", shards);
	if (!rc && !o)
		rc = -EILSEQ;
	if (!rc && !(out = shard_new_file(part)))
		rc = -errno;
	if (!rc && json_dumpf(o, out, JSON_INDENT(2)))
		rc = -EIO;
	json_decref(o);
	if (shard_file_close(out) && !rc)
		rc = -errno;
	if (!rc && rename(part, file))
		rc = -errno;
	if (!rc)
		rc = sync_dir(dir);
	if (rc == -EILSEQ)
		return err_set(e, rc, "a plan needs names of source and destination, and patterns, "
			       "in UTF-8");
	return rc ? err_path(e, rc, file ? file : g->dir, CANNOT_WRITE) : 0;
}

static void planning_say(const struct planning *g)
{
	uint64_t most = 0, average = g->cost / g->n;
	char size[32];

	for (unsigned i = 0; i < g->n; i++)
		most = g->shards[i].cost > most ? g->shards[i].cost : most;
	if (g->j->o.json)
		json_emit(stdout, json_pack("{s:s, s:s, s:i, s:I, s:I, s:I, s:f}", "event",
					    "planned", "directory", g->dir, "shards", (int)g->n,
					    "files", (json_int_t)g->files, "bytes",
					    (json_int_t)g->bytes, "split", (json_int_t)g->split,
					    "balance",
					    average ? (double)most / (double)average : 1));
	else if (!g->j->o.quiet)
		printf("%u shard%s in %s: %llu file%s, %s, %llu of them cut into ranges; the "
		       "largest has %.0f %% more work than the average\n", g->n, plural(g->n),
		       printable(g->dir), (unsigned long long)g->files, plural(g->files),
		       format_size(size, sizeof(size), g->bytes), (unsigned long long)g->split,
		       average ? 100.0 * (double)most / (double)average - 100 : 0);
}

/* ---- the command ---- */

/* Is path the directory dir, or below it? */
static bool is_below(const char *path, const char *dir)
{
	CLEANUP_FREE char *real = realpath(dir, NULL);
	size_t n = real ? strlen(real) : 0;

	return real && !strncmp(path, real, n) &&
	       (!path[n] || path[n] == '/' || real[n - 1] == '/');
}

static bool is_empty_directory(const char *path)
{
	DIR *d = opendir(path);
	const struct dirent *de;
	int n = 0;

	while (d && (de = readdir(d)))
		n += strcmp(de->d_name, ".") && strcmp(de->d_name, "..");
	if (d)
		closedir(d);
	return d && !n;
}

/* Make the directory of the plan, and its first file. */
static int planning_directory(struct planning *g, struct err *e)
{
	CLEANUP_FREE char *spool = name_below(g->dir, SHARD_UNSORTED), *real = NULL;

	g->made = !mkdir(g->dir, 0777 & ~user_umask());
	if (!g->made && errno != EEXIST)
		return err_path(e, -errno, g->dir, CANNOT_MAKE_DIR);
	real = realpath(g->dir, NULL);
	if (real && !g->file && is_below(real, g->words[g->p.get ? 1 : 0])) {
		if (g->made)
			rmdir(g->dir);
		return err_set(e, -EINVAL, "--out %s: the plan must be outside of the data",
			       printable(g->dir));
	}
	if (!g->made && !is_empty_directory(g->dir))
		return err_set(e, -ENOTEMPTY, "%s: not an empty directory", printable(g->dir));
	g->spool = spool ? shard_new_file(spool) : NULL;
	return g->spool ? 0 : err_path(e, -errno, g->dir, CANNOT_WRITE);
}

/* A plan has failed: remove its files. The directory was empty before. */
static void planning_remove(const struct planning *g)
{
	DIR *d = opendir(g->dir);
	const struct dirent *de;

	while (d && (de = readdir(d)))
		if (strcmp(de->d_name, ".") && strcmp(de->d_name, ".."))
			unlinkat(dirfd(d), de->d_name, 0);
	if (d)
		closedir(d);
	if (g->made)
		rmdir(g->dir);
}

static int planning_begin(struct planning *g, struct err *e)
{
	const struct options *o = &g->j->o;
	const char *why;

	if (o->files_from)
		return err_set(e, -EINVAL, "--files-from: a plan is made of a whole tree");
	if (!o->shards || !o->out)
		return err_set(e, -EINVAL, "--shards N and --out DIR are needed");
	if (o->inplace)
		return err_set(e, -EINVAL, "--inplace: ranges of a file are written to a part");
	if (o->no_times)
		return err_set(e, -EINVAL, "--no-times: finish-shards knows copied files by their "
			       "times");
	if (o->dry_run)
		return err_set(e, -EINVAL, "--dry-run: a plan copies nothing");
	if (o->alg && strcasecmp(o->alg, "CRC32C"))
		return err_set(e, -EINVAL, "--alg %s: only CRC32C can be computed of the ranges of "
			       "a file", printable(o->alg));
	why = sync_refuses(g->j);
	if (why)
		return err_set(e, -EINVAL, "%s", why);
	raise_fd_limit(); /* each list stays open */
	g->n = o->shards;
	g->file_cost = o->file_cost ? o->file_cost : FILE_COST;
	g->dir = strdup(o->out);
	g->shards = calloc(g->n, sizeof(*g->shards));
	if (!g->dir || !g->shards)
		return err_nomem(e);
	return planning_directory(g, e);
}

/* Sort the spooled items, and cut them into lists. */
static int planning_lists(struct planning *g, struct err *e)
{
	char id[33];
	int rc = g->failed ? err_path(e, g->failed, g->dir, CANNOT_WRITE) : shard_sort(g->dir, e);

	if (!rc)
		rc = planning_cut(g, id, e);
	return rc ? rc : planning_write(g, id, e);
}

enum exit_status command_plan_shards(struct job *j)
{
	struct planning g = { .j = j };
	enum exit_status status = EXIT_SOME_FAILED;
	struct url server = { 0 };
	struct err e = ERR_INIT;
	bool planned;
	int rc = planning_words(&g, &server, &e);

	if (!rc)
		rc = planning_places(&g, &server, &e);
	if (!rc)
		rc = planning_begin(&g, &e);
	if (rc) {
		status = e.code == -EINVAL || e.code == -ENOTEMPTY ? usage_error(j, "%s", e.text) :
			 failed(&e, false);
	} else {
		status = planning_walk(&g, &server, &e);
		if (fclose(steal_ptr(&g.spool)) && !g.failed)
			g.failed = -errno;
		e = (struct err)ERR_INIT;
		if (status <= EXIT_SOME_FAILED && planning_lists(&g, &e))
			status = failed(&e, false);
		planned = !e.code && (status == EXIT_DONE ||
				      (status == EXIT_SOME_FAILED && g.files));
		if (planned)
			planning_say(&g);
		else
			planning_remove(&g);
	}
	if (g.spool)
		fclose(g.spool);
	for (int i = 0; i < 2; i++)
		free(g.words[i]);
	free(g.source);
	free(g.destination);
	free(g.prefix);
	free(g.dir);
	free(g.shards);
	server_give(j, g.server);
	url_clear(&server);
	return status;
}
