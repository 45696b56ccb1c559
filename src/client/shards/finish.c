// SPDX-License-Identifier: Apache-2.0
/* rftp finish-shards: when all lists of a plan are done, files that were sent in ranges get
 * their names; then rftp sync sets what the lists have left out: directories, links, attributes,
 * --delete; and one manifest lists all files. */
#include "client/shards/shards.h"

#include "client/servers.h"
#include "client/manifest.h"
#include "client/names.h"
#include "crypto/crypto.h"

/* Missing items that are named; the others are counted. */
enum { NAMED_MOST = 10 };

struct finish {
	struct job *j;
	struct shard_plan p;
	struct shard_results ranges; /* of the lists; whole files are only counted */
	uint64_t items, bytes;       /* that the lists have done */
	struct shard_results whole;  /* the files that an earlier run has done */
	FILE **results;              /* [p.n + 1] locked; 0: those of finish-shards */
	struct shard_tap tap;
	uint64_t missing, joined, lost, late;
	bool incomplete;
	int broken;                  /* a negative errno of results[0] */
};

static int finish_open(struct finish *f, struct err *e)
{
	int rc = 0;

	raise_fd_limit(); /* each list stays open */
	f->results = calloc(f->p.n + 1, sizeof(*f->results));
	if (!f->results)
		return err_nomem(e);
	for (unsigned i = 0; !rc && i <= f->p.n; i++) {
		f->results[i] = shard_results_open(&f->p, i, e);
		rc = f->results[i] ? 0 : e->code;
	}
	if (!rc)
		rc = shard_results_read(&f->whole, 0, f->results[0], e);
	return rc;
}

/* ---- is all there? ---- */

/* An error, unless this host copies what is missing. */
static void missing_say(const struct finish *f, const char *text)
{
	if (f->incomplete)
		log_warn("%s", text);
	else
		log_error("%s", text);
}

static void missing_item(const struct finish *f, const struct shard_item *it, unsigned shard)
{
	char text[ERR_TEXT], bytes[64] = "is";

	if (it->range.length)
		snprintf(bytes, sizeof(bytes), "bytes %llu+%llu are",
			 (unsigned long long)it->range.offset,
			 (unsigned long long)it->range.length);
	snprintf(text, sizeof(text), "%s: %s not copied (shard %u)", printable(it->path), bytes,
		 shard);
	missing_say(f, text);
}

static int finish_check_list(struct finish *f, unsigned i, struct err *e)
{
	CLEANUP_FREE char *file = shard_path(&f->p, i, false), *line = NULL;
	FILE *in = file ? fopen(file, "re") : NULL;
	struct shard_results done = { .v = NULL };
	const struct shard_done *d;
	struct shard_item it;
	uint64_t missing = 0, all = 0;
	char text[ERR_TEXT];
	size_t room = 0;
	int rc = 1;

	if (!in)
		return err_path(e, file ? -errno : -ENOMEM, file ? file : f->p.dir, CANNOT_READ);
	if (shard_results_read(&done, i, f->results[i], e))
		rc = e->code;
	else if (getline(&line, &room, in) <= 0) /* the header */
		rc = err_set(e, -EINVAL, SHARD_NO_LIST, printable(file));
	while (rc > 0 && (rc = shard_item_read(in, file, &it, e)) > 0) {
		all++;
		d = shard_results_find(&done, &it);
		if (d && it.range.length)
			rc = shard_results_add(&f->ranges, d) ? err_nomem(e) : rc;
		else if (!d && !shard_is_whole(&f->whole, &it) && missing++ < NAMED_MOST)
			missing_item(f, &it, i);
		shard_item_clear(&it);
	}
	fclose(in);
	f->items += done.n;
	f->bytes += done.bytes;
	shard_results_clear(&done);
	f->missing += missing;
	snprintf(text, sizeof(text), "shard %u: %llu of %llu item%s missing (rftp %s --shard-list "
		 "%s copies the rest)", i, (unsigned long long)missing, (unsigned long long)all,
		 plural(all), f->p.get ? "get" : "put", printable(file));
	if (missing && rc >= 0)
		missing_say(f, text);
	return rc;
}

static int finish_check(struct finish *f, struct err *e)
{
	int rc = finish_open(f, e);

	for (unsigned i = 1; !rc && i <= f->p.n; i++)
		rc = finish_check_list(f, i, e);
	shard_results_sort(&f->ranges);
	if (!rc && f->missing && !f->incomplete)
		rc = err_set(e, -ENODATA, "%s: %llu item%s missing: nothing is changed "
			     "(--incomplete copies them from here)", printable(f->p.dir),
			     (unsigned long long)f->missing, f->missing == 1 ? " is" : "s are");
	return rc;
}

/* ---- files in ranges ---- */

/* The ranges of it, with their digests. Their number; 0: one is missing; -EEXIST: a list has left
 * the file at the destination alone; or -ENOMEM. sum: the CRC32C of the whole file. */
static int finish_ranges(const struct finish *f, const struct shard_item *it,
			 struct part_range **out, uint32_t *sum)
{
	struct part_range *v = calloc(RANGES_MOST, sizeof(*v));
	struct shard_item one = *it;
	int n = 0;

	*out = v;
	*sum = 0;
	for (uint64_t at = 0; v && at < it->size && n < RANGES_MOST; at += it->range.length, n++) {
		const struct shard_done *d;

		one.range = (struct bulk_range){ at, min_u64(it->range.length, it->size - at) };
		d = shard_results_find(&f->ranges, &one);
		if (!d || d->left)
			return d ? -EEXIST : 0;
		v[n] = (struct part_range){ at, one.range.length, d->sum };
		*sum = crypto_crc32c_shift(*sum, one.range.length) ^ d->sum;
	}
	return v ? n : -ENOMEM;
}

static int join_there(const struct finish *f, struct server *s, const char *path,
		      const struct shard_item *it, const struct part_range *v, int n, struct err *e)
{
	CLEANUP_BUF struct buf *b = buf_new(FTP_LINE_MAX);
	char text[128];
	int rc = b ? 0 : -ENOMEM;

	snprintf(text, sizeof(text), SITE_JOIN "%llu %lld %u %s %s", (unsigned long long)it->size,
		 (long long)it->mtime_s, it->mtime_ns, f->p.id, n ? "" : "-");
	if (!rc)
		rc = buf_put(b, text, strlen(text));
	for (int i = 0; !rc && i < n; i++) {
		snprintf(text, sizeof(text), "%s%llx:%08x", i ? "," : "",
			 (unsigned long long)v[i].length, v[i].sum);
		rc = buf_put(b, text, strlen(text));
	}
	if (!rc)
		rc = buf_put(b, " ", 1) || buf_put(b, path, strlen(path) + 1) ? -ENOMEM : 0;
	return rc ? err_nomem(e) : server_simple(s, FTP_SITE, (const char *)buf_ptr(b), e);
}

static int join_here(const struct finish *f, const char *path, const struct shard_item *it,
		     const struct part_range *v, int n, struct err *e)
{
	struct part_spec spec = {
		.meta = { .type = FT_FILE, .size = it->size,
			  .mtime_s = it->mtime_s, .mtime_ns = it->mtime_ns,
			  .atime_s = it->mtime_s, .atime_ns = it->mtime_ns },
		.set_times = true,
	};
	const struct part_ranges g = { .v = v, .n = (size_t)n };
	struct root *root = root_new("/", false, e);
	struct dirs *dirs = dirs_new(4);
	int rc;

	memcpy(spec.set.id, f->p.set.id, sizeof(spec.set.id));
	rc = !root ? e->code : !dirs ? err_nomem(e) :
	     root_join(root, dirs, path, &spec, &g, e);
	dirs_free(dirs);
	root_free(root);
	return rc;
}

/* The destination does not have the ranges of it, although the results say so: the lists have to
 * copy them again. */
static int finish_lost(struct finish *f, const struct shard_item *it, const struct part_range *v,
		       int n)
{
	struct shard_item one = *it;
	int rc = 0;

	f->lost++;
	for (int i = 0; !rc && i < n; i++) {
		const struct shard_done *d;

		one.range = (struct bulk_range){ v[i].offset, v[i].length };
		d = shard_results_find(&f->ranges, &one);
		if (d)
			rc = shard_result_write(f->results[d->shard],
						json_pack("{s:s}", "event", "lost"), &one);
	}
	return rc;
}

/* finish-shards has done this whole file. */
static int finish_done(struct finish *f, const struct shard_item *it, const char *hex)
{
	return shard_result_write(f->results[0],
				  json_pack("{s:s, s:I, s:I, s:I, s:s, s:s}", "event", "done",
					    "bytes", (json_int_t)it->size, "mtime",
					    (json_int_t)it->mtime_s, "mtime_ns",
					    (json_int_t)it->mtime_ns, "alg", "CRC32C", "digest",
					    hex), it);
}

/* n 0: remove the part. */
static int join_file(const struct finish *f, struct server *s, const struct shard_item *it,
		     const struct part_range *v, int n, struct err *e)
{
	CLEANUP_FREE char *path = name_below(f->p.destination, it->path);

	return !path ? err_nomem(e) : f->p.get ? join_here(f, path, it, v, n, e) :
	       join_there(f, s, path, it, v, n, e);
}

/* --skip-existing, --update: the destination keeps its file. */
static int finish_leave(const struct finish *f, struct server *s, struct shard_item *it,
			struct err *e)
{
	int rc = join_file(f, s, it, NULL, 0, e);

	if (rc < 0)
		return rc;
	it->range.length = 0;
	rc = shard_result_write(f->results[0], json_pack("{s:s, s:b, s:i}", "event", "done", "left",
							 1, "bytes", 0), it);
	return rc ? err_set(e, rc, "%s: " CANNOT_WRITE, printable(f->p.dir)) : 0;
}

/* Join it; or, if ranges are missing, remove its part: finish_sync() copies the file. */
static int finish_join(struct finish *f, struct server *s, struct shard_item *it, struct err *e)
{
	const uint8_t policy = f->j->o.policy;
	struct part_range *v CLEANUP_FREE = NULL;
	char hex[16];
	uint32_t sum;
	int n = finish_ranges(f, it, &v, &sum), rc;

	if (n == -EEXIST)
		return finish_leave(f, s, it, e);
	if (n < 0)
		return err_nomem(e);
	rc = join_file(f, s, it, v, n, e);
	if (part_is_kept(rc, e->text) && (policy == POLICY_SKIP || policy == POLICY_UPDATE)) {
		log_warn("%s; it is left alone", e->text);
		*e = (struct err)ERR_INIT;
		return finish_leave(f, s, it, e);
	}
	if (rc == -ENODATA && n && finish_lost(f, it, v, n))
		return err_set(e, -EIO, "%s: " CANNOT_WRITE, printable(f->p.dir));
	if (rc < 0 || !n)
		return rc;
	f->joined++;
	it->range.length = 0;
	snprintf(hex, sizeof(hex), "%08x", sum);
	rc = finish_done(f, it, hex);
	return rc ? err_set(e, rc, "%s: " CANNOT_WRITE, printable(f->p.dir)) : 0;
}

/* Join all files of split.jsonl. A failure is reported, and the others follow; *bad counts them. */
static int finish_join_all(struct finish *f, struct server *s, uint64_t *bad, struct err *e)
{
	CLEANUP_FREE char *file = shard_path(&f->p, 0, false);
	FILE *in = file ? fopen(file, "re") : NULL;
	struct shard_item it;
	int rc = in ? 0 : err_path(e, file ? -errno : -ENOMEM, file ? file : f->p.dir, CANNOT_READ);

	while (!rc && (rc = shard_item_read(in, file, &it, e)) > 0) {
		struct err why = ERR_INIT;

		if (!shard_is_whole(&f->whole, &it))
			rc = finish_join(f, s, &it, &why);
		else
			rc = 0;
		shard_item_clear(&it);
		if (rc < 0 && error_is_lost(rc)) {
			*e = why;
			break;
		}
		if (rc < 0) {
			log_error("%s", why.text);
			++*bad;
		}
		rc = 0;
	}
	if (f->lost)
		log_error("%s: the ranges of %llu file%s must be copied again (rftp %s "
			  "--shard-list of each list does it)", printable(f->p.dir),
			  (unsigned long long)f->lost,
			  plural(f->lost), f->p.get ? "get" : "put");
	if (in)
		fclose(in);
	return rc;
}

/* ---- the manifest ---- */

/* Copy the results of whole files to out, with the path first. finish-shards may have copied a file
 * that has changed since: the line with the highest order counts. */
static int manifest_collect(const struct finish *f, unsigned i, FILE *out)
{
	static const char *const keys[] = {
		"path", "path_hex", "bytes", "mtime", "mtime_ns", "digest",
	};
	CLEANUP_FREE char *line = NULL;
	FILE *in = f->results[i];
	json_int_t order = 0;
	size_t room = 0;
	ssize_t n;
	int rc = 0;

	rewind(in);
	while (!rc && (n = getline(&line, &room, in)) > 0) {
		json_t *o = line[n - 1] == '\n' ? json_loads(line, 0, NULL) : NULL;
		const char *event = json_string_value(json_object_get(o, "event"));
		json_t *to = event && !strcmp(event, "done") && !json_object_get(o, "length") &&
			     json_object_get(o, "digest") ? json_object() : NULL;

		for (size_t k = 0; to && k < sizeof(keys) / sizeof(keys[0]); k++)
			if (json_object_get(o, keys[k]))
				json_object_set(to, keys[k], json_object_get(o, keys[k]));
		order += !i;
		if (to) {
			CLEANUP_FREE char *text = NULL;

			json_object_set_new(to, "order", json_integer(order));
			text = json_line(to);
			rc = text && fputs(text, out) >= 0 ? 0 : -EIO;
		}
		json_decref(o);
	}
	return rc;
}

/* A line of the sorted file. */
struct manifest_line {
	char *path;
	json_int_t bytes, mtime, mtime_ns, order;
	char hex[16];
};

static int manifest_parse(const char *text, struct manifest_line *l)
{
	json_t *o = json_loads(text, 0, NULL);
	const char *hex = "";
	int rc = -EBADMSG;

	*l = (struct manifest_line){ .path = NULL };
	if (o && !json_unpack(o, "{s:I, s:I, s:I, s:s, s:I}", "bytes", &l->bytes, "mtime",
			      &l->mtime, "mtime_ns", &l->mtime_ns, "digest", &hex, "order",
			      &l->order))
		rc = json_get_name(o, "path", &l->path);
	snprintf(l->hex, sizeof(l->hex), "%s", hex);
	json_decref(o);
	return rc;
}

static void manifest_put(struct manifest *m, struct manifest_line *l)
{
	if (l->path)
		manifest_add(m, l->path, &(struct file_report){
			.bytes = (uint64_t)l->bytes, .mtime_s = l->mtime,
			.mtime_ns = (uint32_t)l->mtime_ns, .sum = l->hex });
	free(steal_ptr(&l->path));
}

static int manifest_write(struct finish *f, const char *name, struct err *e)
{
	CLEANUP_FREE char *file = name_below(f->p.dir, SHARD_SORTED), *text = NULL;
	struct manifest *m = manifest_new(name, "CRC32C", e);
	FILE *in = file ? fopen(file, "re") : NULL;
	struct manifest_line last = { .path = NULL }, next;
	size_t room = 0;
	int rc = !m ? e->code : in ? 0 : err_path(e, -errno, f->p.dir, CANNOT_READ);

	while (!rc && getline(&text, &room, in) > 0) {
		if (manifest_parse(text, &next)) {
			rc = err_set(e, -EIO, "%s: " CANNOT_READ, printable(file));
		} else if (last.path && !strcmp(last.path, next.path)) {
			struct manifest_line *older = last.order < next.order ? &last : &next;

			free(older->path);
			last = older == &last ? next : last;
		} else {
			manifest_put(m, &last);
			last = next;
		}
	}
	if (m)
		manifest_put(m, &last);
	free(last.path);
	if (in)
		fclose(in);
	unlink(file);
	if (manifest_end(m, !rc) && !rc)
		rc = err_set(e, -EIO, "%s: " CANNOT_WRITE, printable(name));
	return rc;
}

static int finish_manifest(struct finish *f, const char *name, struct err *e)
{
	CLEANUP_FREE char *file = name_below(f->p.dir, SHARD_UNSORTED);
	FILE *out;
	int rc = 0;

	if (!file)
		return err_nomem(e);
	unlink(file);
	out = shard_new_file(file);
	if (!out)
		return err_path(e, -errno, file, CANNOT_WRITE);
	for (unsigned i = 0; !rc && i <= f->p.n; i++)
		rc = manifest_collect(f, i, out);
	if (fclose(out) && !rc)
		rc = -errno;
	if (rc)
		return e->code ? e->code : err_path(e, rc, file, CANNOT_WRITE);
	rc = shard_sort(f->p.dir, e);
	return rc ? rc : manifest_write(f, name, e);
}

/* ---- the command ---- */

/* From threads of the transfer, one at a time: finish-shards has copied, or would leave, a file. */
static void finish_file_done(void *arg, const struct file_report *r)
{
	struct finish *f = arg;
	const char *rel = shard_below(f->p.get ? f->p.destination : f->p.source, r->path);
	const struct shard_item it = { .path = (char *)(uintptr_t)rel, .size = r->bytes,
				       .mtime_s = r->mtime_s, .mtime_ns = r->mtime_ns };

	if (f->tap.to.file_done)
		f->tap.to.file_done(f->tap.to.arg, r);
	if (r->end != FILE_COPIED || !r->plain || !rel || !r->sum)
		return;
	if (!f->incomplete && f->late++ < NAMED_MOST)
		log_error("%s: copied by finish-shards: it is new, or " SHARD_CHANGED
			  ", at the source or the destination", printable(rel));
	if (finish_done(f, &it, r->sum))
		f->broken = -EIO;
}

/* The rest: rftp sync with the words and options of the plan. Files that the lists have copied
 * are the same by size and time; --update and --skip-existing keep their meaning. */
static enum exit_status finish_sync(struct finish *f)
{
	const struct option_args *given = f->j->args;
	struct option_args args = *given;
	struct job j = *f->j;
	char *words[] = {
		(char *)(uintptr_t)f->p.words[0], (char *)(uintptr_t)f->p.words[1], NULL,
	};
	enum exit_status status;

	args.settings = calloc((size_t)given->nsettings + 1, sizeof(*args.settings));
	if (!args.settings)
		return EXIT_SOME_FAILED;
	memcpy(args.settings, given->settings,
	       (size_t)given->nsettings * sizeof(*args.settings));
	if (j.o.policy != POLICY_UPDATE && j.o.policy != POLICY_SKIP) {
		j.o.policy = POLICY_SAME;
		args.settings[args.nsettings++] = (struct setting){
			.def = option_find(rftp_options, "skip-same"),
		};
	}
	j.args = &args;
	j.cmd = command_find("sync");
	j.words = words;
	j.nwords = 2;
	j.typed = NULL;
	f->tap = (struct shard_tap){ .file_done = finish_file_done, .arg = f };
	j.tap = &f->tap;
	status = command_sync(&j);
	free(args.settings);
	return status;
}

static void finish_say(const struct finish *f, enum exit_status status)
{
	char size[32];

	if (f->j->o.json)
		json_emit(stdout, json_pack("{s:s, s:I, s:I, s:I, s:I, s:i}", "event", "finished",
					    "items", (json_int_t)f->items, "bytes",
					    (json_int_t)f->bytes, "joined",
					    (json_int_t)f->joined, "missing",
					    (json_int_t)f->missing, "status", (int)status));
	else if (!f->j->o.quiet)
		printf("%llu item%s, %s by %u shard%s; %llu file%s joined from ranges\n",
		       (unsigned long long)f->items, plural(f->items),
		       format_size(size, sizeof(size), f->bytes), f->p.n, plural(f->p.n),
		       (unsigned long long)f->joined, plural(f->joined));
}

static enum exit_status finish_all(struct finish *f, struct server *s, struct err *e)
{
	CLEANUP_FREE char *manifest = f->j->o.manifest ? strdup(f->j->o.manifest) : NULL;
	enum exit_status status = EXIT_DONE;
	uint64_t bad = 0;
	int rc;

	free(steal_ptr(&f->j->o.manifest));
	rc = finish_join_all(f, s, &bad, e);
	server_give(f->j, s);
	if (!rc && !bad)
		status = finish_sync(f);
	if (!rc && status <= EXIT_SOME_FAILED && manifest)
		rc = finish_manifest(f, manifest, e);
	if (rc)
		status = failed(e, false);
	if (!rc && f->broken) {
		rc = err_set(e, f->broken, "%s: " CANNOT_WRITE, printable(f->p.dir));
		status = failed(e, false);
	}
	if (bad || f->late)
		status = exit_worse(status, EXIT_SOME_FAILED);
	finish_say(f, status);
	return status;
}

enum exit_status command_finish_shards(struct job *j)
{
	struct finish f = { .j = j, .incomplete = j->o.incomplete };
	struct option_args args = { 0 };
	enum exit_status status;
	struct server *s = NULL;
	struct url url = { 0 };
	struct err e = ERR_INIT;
	int rc = shard_plan_read(j->words[0], &f.p, &e);

	if (!rc)
		rc = finish_check(&f, &e);
	if (rc) {
		log_error("%s", e.text);
		status = e.code == -EINVAL ? EXIT_USAGE : EXIT_SOME_FAILED;
	} else {
		s = shard_plan_connect(&f.p, j, &args, 0, &url, &e);
		status = s ? finish_all(&f, s, &e) : failed(&e, false);
	}
	for (unsigned i = 0; f.results && i <= f.p.n; i++)
		if (f.results[i])
			fclose(f.results[i]);
	free(f.results);
	shard_results_clear(&f.ranges);
	shard_results_clear(&f.whole);
	url_clear(&url);
	shard_plan_clear(&f.p);
	option_args_clear(&args);
	return status;
}
