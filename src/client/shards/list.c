// SPDX-License-Identifier: Apache-2.0
/* The files of a plan: plan.json, lists, results. */
#include "client/shards/shards.h"

#include "client/servers.h"
#include "client/names.h"
#include "crypto/crypto.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#define PLAN_VERSION 1

/* ---- plan.json ---- */

void shard_plan_clear(struct shard_plan *p)
{
	free(p->dir);
	free(p->own);
	json_decref(p->json);
	memset(p, 0, sizeof(*p));
}

int shard_plan_read(const char *dir, struct shard_plan *p, struct err *e)
{
	CLEANUP_FREE char *file = NULL, *text = NULL;
	const char *command = "";
	int version = 0, rc;
	json_t *shards;
	size_t len;

	*p = (struct shard_plan){ .dir = strdup(dir) };
	if (!p->dir || asprintf(&file, "%s/plan.json", dir) < 0) {
		file = NULL;
		rc = err_nomem(e);
	} else {
		rc = read_file(file, 64 << 20, &text, &len);
		if (rc == -ENOENT)
			err_set(e, rc, "%s: not a plan of plan-shards (plan.json is missing)",
				printable(dir));
		else if (rc)
			err_path(e, rc, file, CANNOT_READ);
	}
	if (!rc)
		p->json = json_loads(text, 0, NULL);
	if (!rc && (!p->json ||
		    json_unpack(p->json, "{s:i, s:s, s:s, s:[s, s], s:s, s:s, s:o}", "version",
				&version, "id", &p->id, "command", &command, "words", &p->words[0],
				&p->words[1], "source", &p->source, "destination",
				&p->destination, "shards", &shards) ||
		    version != PLAN_VERSION || !json_is_array(shards) ||
		    parse_hex(p->id, p->set.id, sizeof(p->set.id))))
		rc = err_set(e, -EINVAL, "%s: not a plan of this version", printable(file));
	if (rc) {
		shard_plan_clear(p);
		return rc;
	}
	p->get = !strcmp(command, "get");
	p->n = (unsigned)json_array_size(shards);
	return 0;
}

char *shard_path(const struct shard_plan *p, unsigned i, bool result)
{
	char name[32] = "split", *path;

	if (i)
		snprintf(name, sizeof(name), "shard-%04u", i);
	return asprintf(&path, "%s/%s%s.jsonl", p->dir, name, result ? ".result" : "") < 0 ?
	       NULL : path;
}

/* ---- several servers ---- */

/* The list of numbers in the host of word: at "[", its end behind "]". False: there is none. "["
 * of an IPv6 address is followed by letters or colons. Without a scheme, ":" ends the host. */
static bool hosts_in(const char *word, const char **at, const char **end)
{
	const char *scheme = strstr(word, "://"), *host = scheme ? scheme + 3 : word, *user;
	size_t n = strcspn(host, scheme ? "/" : "/:");

	if (!scheme && host[n] != ':')
		return false;

	user = memrchr(host, '@', n);
	if (user) {
		n -= (size_t)(user + 1 - host);
		host = user + 1;
	}
	*at = memchr(host, '[', n);
	*end = *at ? memchr(*at, ']', (size_t)(host + n - *at)) : NULL;
	if (!*end || strspn(*at + 1, "0123456789,-") != (size_t)(*end - *at - 1))
		return false;
	++*end;
	return true;
}

/* The i-th number of "[1-4,7]", with its leading zeros, in out; true: it has one. *n: their
 * number. */
static bool hosts_number(const char *at, const char *end, uint64_t i, char out[24], uint64_t *n)
{
	bool found = false;

	*n = 0;
	for (const char *p = at + 1; p < end;) {
		unsigned long long low, high;
		int width = (int)strspn(p, "0123456789"), used = 0;

		if (sscanf(p, "%llu-%llu%n", &low, &high, &used) != 2) {
			if (sscanf(p, "%llu%n", &low, &used) != 1)
				return false;
			high = low;
		}
		if (high < low || high - low > 1000 || width > 18 || *n > 1000)
			return false;
		if (i >= *n && i - *n <= high - low) {
			snprintf(out, 24, "%0*llu", width, low + (i - *n));
			found = true;
		}
		*n += high - low + 1;
		p += used;
		if (*p != ',' && *p != ']')
			return false;
		p++;
	}
	return found;
}

char *shard_server(const char *word, unsigned i, unsigned *n, struct err *e)
{
	const char *at, *end;
	char number[24], *out = NULL;
	uint64_t all = 1;

	*n = 1;
	if (!hosts_in(word, &at, &end)) {
		out = strdup(word);
	} else {
		if (!hosts_number(at, end, 0, number, &all)) {
			err_set(e, -EINVAL, "%s: not a list of hosts like dtn[1-4]",
				printable(word));
			return NULL;
		}
		*n = (unsigned)all;
		hosts_number(at, end, i % all, number, &all);
		if (asprintf(&out, "%.*s%s%s", (int)(at - word), word, number, end) < 0)
			out = NULL;
	}
	if (!out)
		err_nomem(e);
	return out;
}

/* Let words name the server for turn i. Returns the number of servers, or a negative errno with
 * text. */
static int plan_use(struct shard_plan *p, unsigned i, struct err *e)
{
	json_t *words = json_object_get(p->json, "words");
	const char *word = json_string_value(json_array_get(words, p->get ? 0 : 1));
	unsigned n;

	free(p->own);
	p->own = shard_server(word, i, &n, e);
	if (!p->own)
		return e->code;
	p->words[p->get ? 0 : 1] = p->own;
	return (int)n;
}

/* Let the options of the plan precede those of j's command line. The strings belong to p. */
static int plan_options(const struct shard_plan *p, struct job *j, struct option_args *args,
			struct err *e)
{
	json_t *words = json_object_get(p->json, "options");
	size_t n = json_array_size(words);
	char **argv = calloc(n + 2, sizeof(*argv));
	const struct option_args *own = j->args;
	struct setting *all;
	int rc;

	if (!argv)
		return err_nomem(e);
	argv[0] = (char *)(uintptr_t)"rftp";
	for (size_t i = 0; i < n; i++) {
		argv[i + 1] = (char *)(uintptr_t)json_string_value(json_array_get(words, i));
		if (!argv[i + 1])
			n = i;
	}
	rc = options_parse(args, (int)n + 1, argv, e);
	free(argv);
	if (rc)
		return rc;
	all = reallocarray(args->settings, (size_t)(args->nsettings + own->nsettings) + 1,
			   sizeof(*all));
	if (!all)
		return err_nomem(e);
	args->settings = all;
	memcpy(args->settings + args->nsettings, own->settings,
	       (size_t)own->nsettings * sizeof(*own->settings));
	args->nsettings += own->nsettings;
	j->args = args;
	return 0;
}

struct server *shard_plan_connect(struct shard_plan *p, struct job *j, struct option_args *args,
				  unsigned i, struct url *url, struct err *e)
{
	int rc = plan_options(p, j, args, e), servers = 1;

	for (int k = 0; !rc && k < servers; k++) {
		struct server *s = NULL;
		struct options o;

		url_clear(url);
		servers = plan_use(p, i + (unsigned)k, e);
		rc = servers < 0 ? servers : url_of_rftpd(p->words[p->get ? 0 : 1], url, e);
		if (!rc)
			rc = options_load(args, url, NULL, &o, e);
		if (rc)
			return NULL;
		options_clear(&j->o);
		j->o = o;
		s = server_take(j, url, e);
		if (!s)
			return NULL;
		s->turn = i + 1;
		rc = server_connect(s, e);
		if (!rc)
			return s;
		server_give(j, s);
		if (k + 1 == servers || exit_of(rc, false) != EXIT_CONNECT)
			return NULL;
		log_warn(SHARD_LEFT_OUT, e->text);
		*e = (struct err)ERR_INIT;
		rc = 0;
	}
	return NULL;
}

/* ---- options ---- */

void shard_options(struct options *o)
{
	filter_clear(&o->filter);
	free(steal_ptr(&o->trash));
	free(steal_ptr(&o->manifest));
	free(steal_ptr(&o->files_from));
	if (o->policy != POLICY_UPDATE && o->policy != POLICY_SKIP)
		o->policy = POLICY_OVERWRITE;
	o->no_times = false;
	o->sync = o->delete = o->delete_excluded = o->force = o->dry_run = o->inplace = false;
	o->recursive = false;
}

/* ---- files ---- */

FILE *shard_new_file(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644 & ~user_umask());
	FILE *f = fd < 0 ? NULL : fdopen(fd, "w");

	if (!f && fd >= 0)
		close(fd);
	return f;
}

int shard_file_close(FILE *f)
{
	bool bad = f && (fflush(f) || fsync(fileno(f)));

	return (f && fclose(f)) || bad ? -1 : 0;
}

int shard_sort(char *dir, struct err *e)
{
	CLEANUP_FREE char *from = name_below(dir, SHARD_UNSORTED);
	CLEANUP_FREE char *to = name_below(dir, SHARD_SORTED);
	char *argv[] = { (char *)(uintptr_t)"sort", (char *)(uintptr_t)"-T", dir,
			 (char *)(uintptr_t)"-S", (char *)(uintptr_t)"64M",
			 (char *)(uintptr_t)"-o", to, from, NULL };
	const struct child_program sort = { .argv = argv, .in = -1, .out = -1, .err = -1 };
	struct child c;
	int rc;

	if (!from || !to)
		return err_nomem(e);
	setenv("LC_ALL", "C", 1);
	rc = child_exec(&c, &sort, e);
	if (!rc)
		child_end(&c, -1);
	if (!rc && c.status)
		rc = err_set(e, -EIO, "sort: %s: the names cannot be sorted", printable(dir));
	unlink(from);
	return rc;
}

/* ---- items ---- */

/* The path is first: lists are sorted by it. */
int shard_item_write(FILE *out, const struct shard_item *it)
{
	json_t *o = json_object();

	if (!o || json_set_name(o, "path", it->path) ||
	    json_object_update_new(o, json_pack("{s:I, s:I, s:I}", "size", (json_int_t)it->size,
						"mtime", (json_int_t)it->mtime_s, "mtime_ns",
						(json_int_t)it->mtime_ns))) {
		json_decref(o);
		return -ENOMEM;
	}
	return shard_result_write(out, o, it);
}

void shard_item_clear(struct shard_item *it)
{
	free(it->path);
	*it = (struct shard_item){ .path = NULL };
}

static int item_parse(const char *line, struct shard_item *it)
{
	json_int_t size = -1, mtime = 0, offset = 0, length = 0;
	json_t *o = json_loads(line, 0, NULL);
	int mtime_ns = -1, rc = -EBADMSG;

	if (o && !json_unpack(o, "{s:I, s:I, s:i, s?:I, s?:I}", "size", &size, "mtime", &mtime,
			      "mtime_ns", &mtime_ns, "offset", &offset, "length", &length) &&
	    size >= 0 && mtime_ns >= 0 && mtime_ns < 1000000000 && offset >= 0 && length >= 0 &&
	    offset <= size && length <= size - offset)
		rc = json_get_name(o, "path", &it->path);
	it->size = (uint64_t)size;
	it->mtime_s = mtime;
	it->mtime_ns = (uint32_t)mtime_ns;
	it->range = (struct bulk_range){ (uint64_t)offset, (uint64_t)length };
	if (!rc && (*it->path == '/' || name_normalize(it->path) || !*it->path)) {
		shard_item_clear(it);
		rc = -EBADMSG;
	}
	json_decref(o);
	return rc;
}

int shard_item_read(FILE *in, const char *file, struct shard_item *it, struct err *e)
{
	CLEANUP_FREE char *line = NULL;
	size_t room = 0;
	ssize_t n = getline(&line, &room, in);
	int rc;

	*it = (struct shard_item){ .path = NULL };
	if (n <= 0)
		return ferror(in) ? err_path(e, -errno, file, CANNOT_READ) : 0;
	rc = strlen(line) == (size_t)n ? item_parse(line, it) : -EBADMSG;
	if (!rc)
		return 1;
	return rc == -ENOMEM ? err_nomem(e) :
	       err_set(e, -EINVAL, SHARD_NO_LIST, printable(file));
}

struct shard_key shard_key(const char *path, const struct bulk_range *range)
{
	uint8_t all[RUN_DIGEST_BYTES + 16];
	struct shard_key key;

	crypto_run_digest(all, path, strlen(path));
	put_be64(all + RUN_DIGEST_BYTES, range->length ? range->offset : 0);
	put_be64(all + RUN_DIGEST_BYTES + 8, range->length);
	crypto_run_digest(key.digest, all, sizeof(all));
	return key;
}

/* ---- results ---- */

/* A killed rftp may have left half a line at the end. */
static int end_torn_line(FILE *results)
{
	struct stat st;
	char last;

	if (fstat(fileno(results), &st))
		return -errno;
	if (!st.st_size || (pread(fileno(results), &last, 1, st.st_size - 1) == 1 && last == '\n'))
		return 0;
	return fputc('\n', results) == EOF || fflush(results) ? -errno : 0;
}

FILE *shard_results_open(const struct shard_plan *p, unsigned i, struct err *e)
{
	CLEANUP_FREE char *file = shard_path(p, i, true);
	int fd = file ? open(file, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC,
			     0644 & ~user_umask()) : -1;
	FILE *results = fd < 0 ? NULL : fdopen(fd, "a+");

	if (!results) {
		cleanup_close(&fd);
		err_path(e, file ? -errno : -ENOMEM, file ? file : p->dir, CANNOT_WRITE);
		return NULL;
	}
	setvbuf(results, NULL, _IOLBF, 0); /* each line stays, if rftp is killed */
	if (!flock(fileno(results), LOCK_EX | LOCK_NB) && !end_torn_line(results))
		return results;
	if (errno == EWOULDBLOCK)
		err_set(e, -EBUSY, i ? "%s: shard %u: another rftp is copying it" :
			"%s: another rftp finishes it", printable(p->dir), i);
	else
		err_path(e, -errno, file, "cannot be locked: a plan needs a filesystem with locks");
	fclose(results);
	return NULL;
}

int shard_result_write(FILE *results, json_t *o, const struct shard_item *it)
{
	CLEANUP_FREE char *line = NULL;
	int rc = o ? json_set_name(o, "path", it->path) : -ENOMEM;

	if (!rc && it->range.length &&
	    (json_object_set_new(o, "offset", json_integer((json_int_t)it->range.offset)) ||
	     json_object_set_new(o, "length", json_integer((json_int_t)it->range.length))))
		rc = -ENOMEM;
	line = json_line(o);
	if (rc || !line)
		return -ENOMEM;
	return fputs(line, results) < 0 ? -EIO : 0;
}

int shard_results_add(struct shard_results *r, const struct shard_done *d)
{
	if (!array_has_room(r->v, r->n, r->room))
		return -ENOMEM;
	r->v[r->n++] = *d;
	return 0;
}

static void results_remove(struct shard_results *r, const struct shard_key *key)
{
	size_t n = 0;

	for (size_t i = 0; i < r->n; i++)
		if (memcmp(&r->v[i].key, key, sizeof(*key)))
			r->v[n++] = r->v[i];
	r->n = n;
}

static int result_parse(struct shard_results *r, unsigned shard, const char *line)
{
	json_int_t offset = 0, length = 0, bytes = 0;
	json_t *o = json_loads(line, 0, NULL);
	const char *event = "", *sum = "";
	CLEANUP_FREE char *path = NULL;
	struct bulk_range range;
	struct shard_key key;
	unsigned crc = 0;
	bool done, lost;
	int left = 0, rc = 0;

	if (!o || json_unpack(o, "{s:s, s?:s, s?:b, s?:I, s?:I, s?:I}", "event", &event, "digest",
			      &sum, "left", &left, "bytes", &bytes, "offset", &offset, "length",
			      &length))
		event = "";
	done = !strcmp(event, "done") && (left || sscanf(sum, "%8x", &crc) == 1);
	lost = !strcmp(event, "lost");
	if (done || lost)
		rc = json_get_name(o, "path", &path);
	json_decref(o);
	if (rc == -ENOMEM || !path)
		return rc == -ENOMEM ? rc : 0;
	range = (struct bulk_range){ (uint64_t)offset, (uint64_t)length };
	key = shard_key(path, &range);
	if (lost) {
		results_remove(r, &key);
		r->bytes -= range.length;
		return 0;
	}
	r->bytes += (uint64_t)bytes;
	return shard_results_add(r, &(struct shard_done){ key, crc, left, shard });
}

int shard_results_read(struct shard_results *r, unsigned i, FILE *results, struct err *e)
{
	CLEANUP_FREE char *line = NULL;
	size_t room = 0;
	ssize_t n;
	int rc = 0;

	rewind(results);
	while (!rc && (n = getline(&line, &room, results)) > 0)
		if (line[n - 1] == '\n')
			rc = result_parse(r, i, line);
	if (!rc && ferror(results))
		rc = -EIO;
	shard_results_sort(r);
	return rc ? err_sys(e, rc, "the results of shard %u", i) : 0;
}

static int by_key(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct shard_key));
}

void shard_results_sort(struct shard_results *r)
{
	if (r->n)
		qsort(r->v, r->n, sizeof(*r->v), by_key);
}

const struct shard_done *shard_results_find(const struct shard_results *r,
					    const struct shard_item *it)
{
	struct shard_key key = shard_key(it->path, &it->range);

	return r->n ? bsearch(&key, r->v, r->n, sizeof(*r->v), by_key) : NULL;
}

bool shard_is_whole(const struct shard_results *of_finish, const struct shard_item *it)
{
	const struct shard_item whole = { .path = it->path };

	return shard_results_find(of_finish, &whole);
}

void shard_results_clear(struct shard_results *r)
{
	free(r->v);
	*r = (struct shard_results){ .v = NULL };
}

/* ---- events ---- */

static void tap_started(void *arg, const struct agreement *a)
{
	const struct shard_tap *t = arg;

	if (t->to.started)
		t->to.started(t->to.arg, a);
}

static void tap_progress(void *arg, const struct transfer_progress *p)
{
	const struct shard_tap *t = arg;

	if (t->to.progress)
		t->to.progress(t->to.arg, p);
}

static void tap_file_done(void *arg, const struct file_report *f)
{
	const struct shard_tap *t = arg;

	t->file_done(t->arg, f);
}

static void tap_file_failed(void *arg, const char *path, int code, const char *text)
{
	const struct shard_tap *t = arg;
	char why[ERR_TEXT];

	if (code == -ESTALE) {
		snprintf(why, sizeof(why), "%s: " SHARD_CHANGED, printable(path));
		text = why;
	}
	if (t->to.file_failed)
		t->to.file_failed(t->to.arg, path, code, text);
}

struct transfer_events shard_events(struct shard_tap *t)
{
	return (struct transfer_events){ tap_started, tap_progress, tap_file_done, tap_file_failed,
					 t };
}

void shard_tap_bulk(struct shard_tap *t, struct bulk *b)
{
	struct bulk_request *q = &b->c.request;

	t->to = b->c.events;
	b->c.events = shard_events(t);
	snprintf(q->sum, sizeof(q->sum), "CRC32C");
	q->flags |= BULK_F_MKDIRS;
	if (q->op == BULK_GET)
		q->flags |= BULK_F_SUMS;
}

const char *shard_below(const char *prefix, const char *path)
{
	size_t n = strlen(prefix);

	while (n && prefix[n - 1] == '/')
		n--;
	if (strncmp(path, prefix, n) || path[n] != '/')
		return NULL;
	path += n;
	return path + strspn(path, "/");
}
