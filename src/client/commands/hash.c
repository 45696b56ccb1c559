// SPDX-License-Identifier: Apache-2.0
/* rftp hash and rftp verify: digests of files on servers, and on this host. */
#include "client/foreign/foreign.h"
#include "client/manifest.h"
#include "client/names.h"
#include "client/report.h"
#include "client/servers.h"
#include "client/signals.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

/* Connections to a server, which computes one digest at a time on each; threads on this host. */
enum { CONNECTIONS = 4, THREADS_MOST = 16, OPEN_DIRS = 64, PIECE = 1 << 20,
       DEPTH_MOST = 1000, NAMES_MOST = 1 << 24 };

/* ---- the digest of one file ---- */

static int hash_foreign(struct fconn *c, const char *path, const char *alg, struct hash_reply *r,
			struct err *e)
{
	int rc = fconn_digest(c, path, &alg, r->hex, e);

	snprintf(r->alg, sizeof(r->alg), "%s", rc < 0 ? "" : alg);
	return rc < 0 ? rc : 0;
}

static int hash_here(int dir, const char *path, const char *alg, char *hex, struct err *e)
{
	int fd CLEANUP_CLOSE = openat(dir, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	uint8_t *piece CLEANUP_FREE = fd < 0 ? NULL : malloc(PIECE);
	struct digest *d = piece ? digest_new(alg) : NULL;
	ssize_t n = fd < 0 || !d ? -1 : 1;
	int rc = fd < 0 ? -errno : !d ? -ENOMEM : 0;

	while (!rc && n > 0 && !signals_stopped()) {
		n = read(fd, piece, PIECE);
		rc = n < 0 && errno != EINTR ? -errno : n > 0 ? digest_update(d, piece, (size_t)n) : 0;
		n = n < 0 && !rc ? 1 : n;
	}
	if (!rc && signals_stopped())
		rc = -EINTR;
	if (!rc)
		rc = digest_final_hex(d, hex);
	digest_free(d);
	return rc ? err_sys(e, rc, "%s", printable(path)) : 0;
}

/* ---- many files ---- */

/* A directory with files: on a server, or here. */
struct tree {
	const struct job *j;
	const char *shown;            /* its word */
	/* On a server. */
	struct server *s;             /* not owned; NULL: it is here */
	struct ftp_client *clients[CONNECTIONS]; /* the first one is that of s */
	unsigned nclients;
	char *base;
	int dir;                      /* here */
	/* The work. */
	struct hashed { char *path, *hex, *why; const char *alg; } *v; /* hex NULL: for the reason why */
	size_t n, room;
	_Atomic size_t next, done;
	atomic_int lost;              /* the error that ended a connection */
};

static void tree_clear(struct tree *t)
{
	for (size_t i = 0; i < t->n; i++) {
		free(t->v[i].path);
		free(t->v[i].hex);
		free(t->v[i].why);
	}
	free(t->v);
	free(t->base);
	cleanup_close(&t->dir);
	for (unsigned i = 1; i < t->nclients; i++)
		ftp_close(t->clients[i]);
}

static int tree_add(struct tree *t, const char *path, const char *alg)
{
	char *copy = strdup(path);

	if (!copy || !array_has_room(t->v, t->n, t->room)) {
		free(copy);
		return -ENOMEM;
	}
	t->v[t->n++] = (struct hashed){ .path = copy, .alg = alg };
	return 0;
}

/* Connect more often. If the server has no room, the connections so far suffice. */
static void tree_connect(struct tree *t)
{
	t->clients[0] = t->s->client;
	t->nclients = 1;
	while (!t->s->foreign && t->nclients < CONNECTIONS && t->nclients < t->n) {
		struct err ignored = ERR_INIT;
		struct ftp_client *c = server_another(t->s, &ignored);

		if (!c)
			break;
		t->clients[t->nclients++] = c;
	}
}

struct tree_worker {
	struct tree *t;
	struct ftp_client *client;
	pthread_t thread;
	bool runs;
};

static void *tree_work(void *arg)
{
	const struct tree_worker *w = arg;
	struct tree *t = w->t;
	const char *chosen = NULL;
	size_t i;

	while (!atomic_load(&t->lost) && !signals_stopped() &&
	       (i = atomic_fetch_add(&t->next, 1)) < t->n) {
		struct hashed *h = &t->v[i];
		struct hash_reply r = { .alg = "" };
		char *path CLEANUP_FREE = t->s ? name_below(t->base, h->path) : strdup(h->path);
		struct err e = ERR_INIT;
		int rc = path ? 0 : err_nomem(&e);

		if (!rc && !t->s) {
			rc = hash_here(t->dir, path, h->alg, r.hex, &e);
		} else if (!rc && t->s->foreign) {
			rc = hash_foreign(t->s->foreign, path, h->alg, &r, &e);
		} else if (!rc) {
			if (chosen != h->alg)
				rc = hash_choose(w->client, h->alg, &e);
			chosen = rc ? NULL : h->alg;
			rc = rc ? rc : hash_ask(w->client, path, h->alg, &r, &e);
		}
		if (!rc && !digest_fits(h->alg, r.hex))
			rc = digest_bad_answer(path, r.hex, &e);
		if (t->s && error_is_lost(rc))
			atomic_store(&t->lost, rc);
		h->hex = rc ? NULL : strdup(r.hex);
		h->why = rc ? strdup(e.text) : NULL;
		atomic_fetch_add(&t->done, 1);
	}
	return NULL;
}

static void trees_draw(const struct tree *trees, unsigned n)
{
	size_t done = 0, all = 0;

	for (unsigned i = 0; i < n; i++) {
		done += atomic_load(&trees[i].done);
		all += trees[i].n;
	}
	fprintf(stderr, "\r%zu of %zu file%s\033[K", done, all, plural(all));
}

/* Compute the digests of all files of all trees at the same time. 0; -EINTR; or the error that ended
 * a connection; with text. */
static int trees_hash(struct tree *trees, unsigned n, struct err *e)
{
	struct tree_worker *w = calloc(n * THREADS_MOST, sizeof(*w));
	struct timespec until;
	unsigned used = 0;
	bool draws;

	for (unsigned i = 0; w && i < n; i++) {
		struct tree *t = &trees[i];
		unsigned workers = min_u64(cpus_allowed(), THREADS_MOST);

		if (t->s) {
			tree_connect(t);
			workers = t->nclients;
		}
		for (unsigned k = 0; k < workers; k++, used++) {
			w[used] = (struct tree_worker){ .t = t, .client = t->clients[k % CONNECTIONS] };
			w[used].runs = !thread_start(&w[used].thread, "hash", tree_work, &w[used]);
		}
	}
	report_shows_progress(&trees->j->o, &draws);
	for (unsigned i = 0; i < used; i++) {
		int rc = w[i].runs ? ETIMEDOUT : 0;

		while (rc == ETIMEDOUT) {
			if (draws)
				trees_draw(trees, n);
			clock_gettime(CLOCK_MONOTONIC, &until);
			until.tv_sec++;
			rc = pthread_clockjoin_np(w[i].thread, NULL, CLOCK_MONOTONIC, &until);
		}
	}
	if (draws)
		fputs("\r\033[K", stderr);
	for (unsigned i = 0; i < n; i++) { /* without memory or threads */
		if (trees[i].s && !trees[i].nclients)
			tree_connect(&trees[i]);
		tree_work(&(struct tree_worker){ .t = &trees[i], .client = trees[i].clients[0] });
	}
	free(w);
	if (signals_stopped())
		return err_set(e, -EINTR, "interrupted");
	for (unsigned i = 0; i < n; i++)
		if (atomic_load(&trees[i].lost))
			return ftp_lost(trees[i].s->url.host, atomic_load(&trees[i].lost), e);
	return 0;
}

/* ---- the names in a tree ---- */

/* The names of a tree, and the number of directories that could not be listed. */
struct listed {
	struct names names;
	size_t failed;
};

static int list_here(void *arg, const struct walk_item *it)
{
	struct listed *l = arg;
	char *path = it->parent && !it->leaving ? dir_path(it->parent, it->name) : NULL;

	if (it->error) {
		log_error("%s: %s", printable(path ? path : it->name), strerror(-it->error));
		l->failed++;
		free(path);
		return 0;
	}
	if (it->meta.type != FT_FILE) {
		free(path);
		return 0;
	}
	return names_add(&l->names, path);
}

struct listing_there {
	struct server *s;
	const char *base;
	const struct filter *filter; /* NULL: none */
	const char *filter_at;       /* its patterns begin there */
	struct listed *l;
};

static int list_there(struct listing_there *t, const char *rel, unsigned depth, struct err *e)
{
	char *path CLEANUP_FREE = *rel ? name_below(t->base, rel) : strdup(t->base);
	struct facts_list l = { 0 };
	int rc = path ? server_list(t->s, path, &l, e) : err_nomem(e);

	if (rc && path && depth && !error_is_lost(rc) && rc != -ENOMEM) {
		log_error("%s", e->text);
		*e = (struct err)ERR_INIT;
		t->l->failed++;
		rc = 0;
	}
	/* A server may follow links in a circle, or make up names for ever. */
	if (!rc && (depth > DEPTH_MOST || t->l->names.n > NAMES_MOST))
		rc = err_set(e, -ELOOP, "%s: the tree has no end", printable(path));
	for (size_t i = 0; !rc && i < l.n; i++) {
		const struct ftp_facts *f = &l.all[i];
		char *below CLEANUP_FREE = *rel ? name_below(rel, f->name) : strdup(f->name);
		char *match CLEANUP_FREE = below && *t->filter_at ?
			name_below(t->filter_at, below) : NULL;

		if (!below) {
			rc = err_nomem(e);
		} else if (!bulk_name_ok(f->name)) {
			rc = err_set(e, -EBADMSG, "%s: " LISTED_NAME_WHY,
				     printable(path));
		} else if (t->filter && !filter_admits(t->filter, match ? match : below,
						       f->type == 'd')) {
			continue;
		} else if (f->type == 'd') {
			rc = list_there(t, below, depth + 1, e);
		} else if (f->type == 'f' && !part_is_ours(f->name) &&
			   names_add(&t->l->names, steal_ptr(&below))) {
			rc = err_nomem(e);
		}
	}
	facts_clear(&l);
	return rc;
}

/* ---- hash ---- */

static void print_hash(const struct job *j, const char *name, const char *alg, const char *hex)
{
	json_t *obj;

	if (!j->o.json) {
		manifest_line(stdout, name, hex);
		return;
	}
	obj = json_pack("{s:s, s:s, s:s}", "event", "hash", "alg", alg, "hash", hex);
	json_set_name(obj, "name", name);
	json_emit(stdout, obj);
}

static int hash_tree(struct job *j, struct server *s, const struct url *p, struct err *e)
{
	struct tree t = { .j = j, .s = s, .dir = -1 };
	const char *alg = digest_option(j->o.alg ? j->o.alg : "SHA-256", e);
	bool inside = names_directory(p->path);
	struct listed l = { .failed = 0 };
	struct listing_there there = {
		.s = s, .filter = filter_is_set(&j->o.filter) ? &j->o.filter : NULL,
		.filter_at = inside ? "" : name_last(p->path), .l = &l,
	};
	int rc = 0;

	if (!alg)
		return -EINVAL;
	t.base = strdup(server_path(p));
	there.base = t.base;
	rc = t.base ? list_there(&there, "", 0, e) : err_nomem(e);
	names_sort(&l.names);
	for (size_t i = 0; !rc && i < l.names.n; i++)
		if (tree_add(&t, l.names.all[i], alg))
			rc = err_nomem(e);
	if (!rc)
		rc = trees_hash(&t, 1, e);
	for (size_t i = 0; !rc && i < t.n; i++) {
		/* As in a manifest of "DIR/", which verify reads. */
		char *shown CLEANUP_FREE = inside ? strdup(t.v[i].path) :
					   name_below(server_shown(j, p), t.v[i].path);

		if (!t.v[i].hex || !shown) {
			log_error("%s", t.v[i].why ? t.v[i].why : NO_MEMORY);
			l.failed++;
		} else {
			print_hash(j, shown, alg, t.v[i].hex);
		}
	}
	if (!rc && l.failed)
		rc = err_set(e, -EIO, "%s: %zu name%s cannot be read",
			     printable(server_path(p)), l.failed, plural(l.failed));
	names_clear(&l.names);
	tree_clear(&t);
	return rc;
}

static int hash_one(struct job *j, struct server *s, const struct url *p, struct err *e)
{
	struct hash_reply r = { .alg = "" };
	struct ftp_facts f = { 0 };
	struct err ignored = ERR_INIT;
	bool is_dir = false;
	int rc;

	if (j->o.recursive && !server_stat(s, server_path(p), &f, &ignored))
		is_dir = f.type == 'd' || f.type == 'c';
	ftp_facts_clear(&f);
	if (is_dir)
		return hash_tree(j, s, p, e);
	/* Set the algorithm for each file: this may be another server than for the last file, and
	 * one more command costs little. */
	if (s->foreign)
		rc = hash_foreign(s->foreign, server_path(p), j->o.alg, &r, e);
	else
		rc = hash_choose(s->client, j->o.alg, e);
	if (!rc && !s->foreign)
		rc = hash_ask(s->client, p->path, NULL, &r, e);
	if (!rc)
		print_hash(j, j->o.json ? p->path : server_shown(j, p), r.alg, r.hex);
	return rc;
}

enum exit_status command_hash(struct job *j)
{
	return each_url(j, hash_one);
}

/* ---- verify ---- */

struct verify {
	struct manifest_list list;
	struct tree *trees;
	unsigned ntrees;
	uint64_t same, missing, extra, different, failed;
};

static void verify_say(const struct verify *v, const struct tree *t, const char *what,
		       const char *path)
{
	json_t *o;

	if (!t->j->o.json) {
		printf("%s: %s%s%s\n", what, v->ntrees > 1 ? printable(t->shown) : "",
		       v->ntrees > 1 ? ": " : "", printable(path));
		return;
	}
	o = json_pack("{s:s, s:s}", "event", what, "at", t->shown);
	json_set_name(o, "path", path);
	json_emit(stdout, o);
}

static int compare_paths(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, ((const struct manifest_file *)b)->path);
}

/* Find the names of t: those that are not in the manifest are extra, the others become work. */
static int verify_names(struct verify *v, struct tree *t, struct err *e)
{
	bool *found CLEANUP_FREE = calloc(v->list.n + 1, sizeof(*found));
	struct dirs *set = t->s ? NULL : dirs_new(OPEN_DIRS);
	struct listed l = { .failed = 0 };
	struct listing_there there = { .s = t->s, .base = t->base, .filter_at = "", .l = &l };
	struct dir *top;
	int rc = found ? 0 : -ENOMEM, fd;

	if (!rc && t->s) {
		rc = list_there(&there, "", 0, e);
	} else if (!rc) {
		fd = set ? fcntl(t->dir, F_DUPFD_CLOEXEC, 0) : -1;
		rc = !set ? -ENOMEM : fd < 0 ? -errno : 0;
		top = fd >= 0 ? dir_top(set, fd, "") : NULL;
		if (!rc)
			rc = top ? walk_tree(top, WALK_NAMES, NULL, list_here, &l) : -ENOMEM;
		if (top)
			dir_put(top);
	}
	dirs_free(set);
	names_sort(&l.names);
	v->failed += l.failed;
	for (size_t i = 0; !rc && i < l.names.n; i++) {
		const struct manifest_file *f = v->list.n ?
			bsearch(&l.names.all[i], v->list.v, v->list.n, sizeof(*f), compare_paths) :
			NULL;

		if (!f) {
			verify_say(v, t, "extra", l.names.all[i]);
			v->extra++;
			continue;
		}
		found[f - v->list.v] = true;
		rc = tree_add(t, f->path, f->alg);
	}
	for (size_t i = 0; !rc && i < v->list.n; i++) {
		if (found[i])
			continue;
		verify_say(v, t, "missing", v->list.v[i].path);
		v->missing++;
	}
	names_clear(&l.names);
	return rc == -ENOMEM && !e->code ? err_sys(e, rc, "names") : rc;
}

static void verify_compare(struct verify *v, const struct tree *t)
{
	for (size_t i = 0; i < t->n; i++) {
		const struct hashed *h = &t->v[i];
		const struct manifest_file *f = bsearch(&h->path, v->list.v, v->list.n, sizeof(*f),
							compare_paths);

		if (!h->hex) {
			log_error("%s", h->why ? h->why : NO_MEMORY);
			v->failed++;
		} else if (strcasecmp(h->hex, f->hex)) {
			verify_say(v, t, "different", h->path);
			v->different++;
		} else {
			v->same++;
		}
	}
}

static int verify_open(struct tree *t, const struct job *j, const char *word, struct err *e)
{
	struct url p;
	int rc = 0;

	t->j = j;
	t->shown = word;
	t->dir = -1;
	if (!word_is_remote(word)) {
		t->dir = open(word, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		return t->dir < 0 ? err_sys(e, -errno, "%s", printable(word)) : 0;
	}
	rc = url_of_server(word, &p, e);
	if (rc)
		return rc;
	t->base = strdup(server_path(&p));
	t->s = t->base ? server_new(j, &p, e) : NULL;
	rc = t->s ? server_connect(t->s, e) : e->code ? e->code : -ENOMEM;
	url_clear(&p);
	return rc;
}

static void verify_summary(const struct verify *v, const struct job *j)
{
	if (j->o.json)
		json_emit(stdout, json_pack("{s:s, s:I, s:I, s:I, s:I, s:I}", "event", "verified",
					    "same", (json_int_t)v->same, "different",
					    (json_int_t)v->different, "missing",
					    (json_int_t)v->missing, "extra", (json_int_t)v->extra,
					    "failed", (json_int_t)v->failed));
	else if (!j->o.quiet)
		fprintf(stderr, "%llu the same, %llu different, %llu missing, %llu extra%s\n",
			(unsigned long long)v->same, (unsigned long long)v->different,
			(unsigned long long)v->missing, (unsigned long long)v->extra,
			v->failed ? ", some cannot be read" : "");
}

enum exit_status command_verify(struct job *j)
{
	struct verify v = { .ntrees = (unsigned)j->nwords - 1 };
	enum exit_status status;
	struct err e = ERR_INIT;
	/* The setting in rftp.conf is for new manifests. */
	const struct setting *alg = option_args_last(j->args, "alg");
	int rc = manifest_read(j->words[0], alg ? alg->value : NULL, &v.list, &e);

	if (rc == -EISDIR || word_is_remote(j->words[0]))
		return usage_error(j, "%s is not a manifest: rftp sync --checksum --dry-run compares two "
				   "trees", printable(j->words[0]));
	if (rc)
		return usage_error(j, "%s", e.text);
	v.trees = calloc(v.ntrees, sizeof(*v.trees));
	rc = v.trees ? 0 : err_nomem(&e);
	for (unsigned i = 0; !rc && i < v.ntrees; i++)
		rc = verify_open(&v.trees[i], j, j->words[i + 1], &e);
	for (unsigned i = 0; !rc && i < v.ntrees; i++)
		rc = verify_names(&v, &v.trees[i], &e);
	if (!rc)
		rc = trees_hash(v.trees, v.ntrees, &e);
	for (unsigned i = 0; !rc && i < v.ntrees; i++)
		verify_compare(&v, &v.trees[i]);
	if (rc) {
		status = failed(&e, false);
	} else {
		verify_summary(&v, j);
		if (v.different && !v.same && !alg && !strcmp(v.list.v[0].alg, "MD5"))
			log_warn("digests of 32 digits are taken for MD5: --alg XXH128 reads them "
				 "as XXH128");
		status = v.missing || v.extra || v.different || v.failed ? EXIT_SOME_FAILED :
									   EXIT_DONE;
	}
	for (unsigned i = 0; v.trees && i < v.ntrees; i++) {
		tree_clear(&v.trees[i]);
		server_free(v.trees[i].s);
	}
	free(v.trees);
	manifest_list_clear(&v.list);
	return status;
}
