// SPDX-License-Identifier: Apache-2.0
/* get from a foreign server: directories listed and made here, files by RETR into parts. */
#include "client/foreign.h"

#include "client/names.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Links there may lead in circles, which lists do not show. */

static bool is_dry(const struct foreign *f)
{
	return f->o->dry_run;
}

/* ---- the destination ---- */

/* With the plan's lock held. */
static int look_at_dest(struct foreign *f)
{
	const char *path = f->job->to->path;
	struct stat st;

	if (f->dest_known)
		return 0;
	f->dest_path = strdup(*path ? path : ".");
	if (!f->dest_path)
		return -ENOMEM;
	f->dest.slash = names_directory(path) || f->job->into;
	f->dest.several = f->job->several;
	f->dest.exists = !root_stat(f->job->root, f->dest_path, true, &st);
	f->dest.is_dir = f->dest.exists && S_ISDIR(st.st_mode);
	f->dest_known = true;
	return 0;
}

/* The directory at path, which is there, for what goes into it. */
static struct fdir *open_dir(struct foreign *f, int fd, const char *path, struct err *e)
{
	struct fdir *d = NULL;
	struct dir *local = fd < 0 ? NULL : dir_top(f->dirs, fd, path);

	if (fd < 0)
		err_sys(e, fd, "%s", printable(path));
	else if (!local || !(d = fdir_new(NULL, strdup(""), strdup(path), local)))
		err_sys(e, -ENOMEM, "%s", printable(path));
	return d;
}

/* The destination as a directory, made when it is missing. */
static int open_base(struct foreign *f, bool make, struct err *e)
{
	int rc = 0;

	if (f->base)
		return 0;
	if (make && is_dry(f)) {
		f->base = fdir_new(NULL, strdup(""), strdup(f->dest_path), NULL);
		return f->base ? 0 : err_sys(e, -ENOMEM, "destination");
	}
	if (make)
		rc = f->job->into ? make_dirs(f->dest_path, 0777 & ~f->umask) :
		     root_mkdir(f->job->root, f->dest_path, 0777 & ~f->umask);
	if (rc)
		return err_sys(e, rc, "%s: cannot make the directory", printable(f->dest_path));
	f->base = open_dir(f, root_open(f->job->root, f->dest_path, O_RDONLY | O_DIRECTORY, 0),
			   f->dest_path, e);
	if (!f->base)
		return e->code;
	f->base->made = make;
	return 0;
}

/* The directory that the destination is in; its name there goes to name. */
static struct fdir *open_above(struct foreign *f, char name[256], struct err *e)
{
	CLEANUP_FREE char *above = strdup(f->dest_path);
	char *slash = above ? strrchr(above, '/') : NULL;

	if (slash)
		slash[slash == above] = '\0';
	else if (above)
		above[0] = '\0';
	return open_dir(f, root_open_parent(f->job->root, f->dest_path, name), above ? above : "",
			e);
}

/* ---- directories ---- */

/* Make name in d, for one called sub. It may be there. */
static int make_dir(struct foreign *f, struct fdir *d, const char *name, struct fdir *sub,
		    struct err *e)
{
	CLEANUP_FREE char *shown = NULL;
	struct stat st;
	int dfd, rc = 0;

	if (is_dry(f)) {
		if (asprintf(&shown, "%s/", sub->shown) < 0)
			shown = NULL;
		if ((!d->local || root_stat(f->job->root, sub->shown, false, &st)) && shown)
			foreign_done(f, shown, 0, false);
		return 0;
	}
	dfd = dir_pin(d->local);
	if (dfd < 0)
		return err_sys(e, dfd, "%s", printable(d->shown));
	/* Ours while we fill it, whatever it is to be. */
	sub->made = !mkdirat(dfd, name, 0777 & ~f->umask);
	if (!sub->made && errno != EEXIST)
		rc = -errno;
	else if (!sub->made &&
		 (fstatat(dfd, name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISDIR(st.st_mode)))
		rc = -ENOTDIR;
	dir_unpin(d->local);
	return rc ? err_sys(e, rc, "%s: cannot make the directory", printable(sub->shown)) : 0;
}

static void take_dir_facts(struct fdir *d, const struct ftp_facts *f)
{
	d->has_mode = f->has_mode;
	d->unique = f->unique;
	d->meta.mode = f->mode & 0777;
	d->has_time = f->has_mtime && !f->time_about;
	d->meta.mtime_s = f->mtime_s;
	d->meta.mtime_ns = f->mtime_ns;
}

/* ---- links in circles ---- */

struct listing {
	struct foreign *f;
	struct ftp_facts *all;
	size_t n, room;
};

/* A server that follows links in its lists says of a circle only that there is one more directory.
 * So many above one that list the very same are no chance. */
#define ALIKE_MOST 3

static bool is_above(const struct fdir *d, uint64_t unique)
{
	for (; d && unique; d = d->parent)
		if (d->unique == unique)
			return true;
	return false;
}

static uint64_t mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * 0x9e3779b97f4a7c15;
	return h ^ h >> 32;
}

/* The same for the same entries, in whatever order. */
static uint64_t digest_of(const struct listing *l)
{
	uint64_t sum = 0;
	bool files = false;

	for (size_t i = 0; i < l->n; i++) {
		const struct ftp_facts *f = &l->all[i];
		uint64_t h = mix((uint64_t)f->type, f->has_size ? f->size : 0);

		h = mix(h, f->has_mtime ? (uint64_t)f->mtime_s : 0);
		for (const char *s = f->name; *s; s++)
			h = mix(h, (unsigned char)*s);
		sum += h;
		files |= f->type == 'f';
	}
	return files ? sum | 1 : 0;
}

static int check_circle(struct fdir *d, const struct listing *l, struct err *e)
{
	unsigned alike = 0;

	if (d->unique)
		return 0;
	d->content = digest_of(l);
	for (const struct fdir *p = d->parent; p && d->content; p = p->parent)
		alike += p->content == d->content;
	return alike < ALIKE_MOST ? 0 :
	       err_set(e, -ELOOP, "%s: lists just what %u directories above it do: a link there "
		       "leads in a circle", printable(d->remote), alike);
}

static int push_dir(struct foreign *f, struct fdir *sub)
{
	struct ftask *t = ftask_new(FTASK_DIR, sub);

	fdir_put(NULL, sub); /* the task's now; not the last reference unless there is no memory */
	if (!t)
		return -ENOMEM;
	foreign_push(f, t);
	return 0;
}

static int push_file(struct foreign *f, struct fdir *d, const char *name, char *remote,
		     const struct ftp_facts *facts, bool follow)
{
	struct ftask *t = ftask_new(FTASK_FILE, d);

	if (t) {
		t->name = strdup(name);
		t->remote = remote;
		t->follow = follow;
		t->facts = *facts;
		t->facts.name = NULL;
		t->facts.target = facts->target ? strdup(facts->target) : NULL;
	} else {
		free(remote);
	}
	if (!t || !t->name || !t->remote || (facts->target && !t->facts.target)) {
		ftask_free(NULL, t);
		return -ENOMEM;
	}
	if (facts->has_size && facts->type == 'f')
		foreign_known(f, t, facts->size);
	foreign_push(f, t);
	return 0;
}

static int collect(void *arg, const struct ftp_facts *f)
{
	struct listing *l = arg;
	struct ftp_facts *one;

	if (l->n == l->room) {
		size_t room = l->room ? 2 * l->room : 64;
		struct ftp_facts *all = reallocarray(l->all, room, sizeof(*all));

		if (!all)
			return -ENOMEM;
		l->all = all;
		l->room = room;
	}
	one = &l->all[l->n++];
	*one = *f;
	one->name = strdup(f->name);
	one->target = f->target ? strdup(f->target) : NULL;
	return one->name && (one->target || !f->target) ? 0 : -ENOMEM;
}

static void listing_clear(struct listing *l)
{
	for (size_t i = 0; i < l->n; i++)
		ftp_facts_clear(&l->all[i]);
	free(l->all);
}

/* What a link leads to, where that is to be copied in its place. */
static int resolve(struct worker *w, const char *remote, struct ftp_facts *f, struct err *e)
{
	struct err why = ERR_INIT;
	int rc = ftp_simple(w->client, FTP_CWD, remote, NULL, &why);

	if (!ftp_client_usable(w->client)) {
		*e = why;
		return e->code;
	}
	f->type = rc >= 0 ? 'd' : 'f';
	/* Those were the link's. */
	f->has_size = f->has_mtime = f->has_mode = false;
	f->unique = 0;
	return 0;
}

/* All links among them. Before the first entry becomes a task: a connection that is lost here has
 * the whole directory listed again. */
static int resolve_all(struct worker *w, const struct fdir *d, struct listing *l, struct err *e)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && w->f->o->follow && i < l->n; i++) {
		struct ftp_facts *facts = &l->all[i];
		CLEANUP_FREE char *remote = NULL;

		if (facts->type != 'l' || !bulk_name_ok(facts->name))
			continue;
		remote = name_below(d->remote, facts->name);
		rc = remote ? resolve(w, remote, facts, e) : err_sys(e, -ENOMEM, "names");
	}
	return rc;
}

static int take_entry(struct worker *w, struct fdir *d, struct ftp_facts *facts, struct err *e)
{
	struct foreign *f = w->f;
	CLEANUP_FREE char *remote = NULL;
	struct fdir *sub;
	int rc = 0;

	if (foreign_is_part(facts->name) || foreign_bad_name(f, d, facts->name))
		return 0;
	remote = name_below(d->remote, facts->name);
	if (!remote)
		return err_sys(e, -ENOMEM, "names");
	if (facts->type == 'd') {
		sub = fdir_sub(d, facts->name, is_dry(f));
		if (sub && is_above(d, facts->unique))
			rc = err_set(e, -ELOOP, "%s: a link that leads to a directory which it is "
				     "in: not followed", printable(remote));
		else
			rc = sub ? make_dir(f, d, facts->name, sub, e) : -ENOMEM;
		if (sub && rc) {
			foreign_failed(f, sub->shown, e);
			fdir_put(NULL, sub);
			e->code = 0;
			return 0;
		}
		if (sub)
			take_dir_facts(sub, facts);
		rc = sub ? push_dir(f, sub) : rc;
	} else if (facts->type == 'f' || facts->type == 'l') {
		rc = push_file(f, d, facts->name, steal_ptr(&remote), facts, false);
	} else {
		foreign_left_out(f, remote, "not a file, directory or link");
	}
	return rc ? err_sys(e, rc, "names") : 0;
}

static int get_dir(struct worker *w, struct ftask *t, struct err *e)
{
	struct fdir *d = t->dir;
	struct listing l = { .f = w->f };
	int rc;

	if (d->depth > FOREIGN_DEPTH_MOST)
		return err_set(e, -ELOOP, "%s: deeper than %d directories: links there may lead in "
			       "a circle", printable(d->remote), FOREIGN_DEPTH_MOST);
	rc = ftp_list(w->client, d->remote, collect, &l, e);
	if (rc == -ENOMEM && !e->code)
		err_sys(e, rc, "listing");
	if (rc == 0)
		rc = check_circle(d, &l, e);
	if (rc == 0)
		rc = resolve_all(w, d, &l, e);
	for (size_t i = 0; rc == 0 && i < l.n; i++)
		rc = take_entry(w, d, &l.all[i], e);
	listing_clear(&l);
	return rc;
}

static void leave_get(struct worker *w, struct fdir *d)
{
	const struct options *o = w->f->o;
	const struct timespec t[2] = {
		{ .tv_sec = d->meta.mtime_s, .tv_nsec = d->meta.mtime_ns },
		{ .tv_sec = d->meta.mtime_s, .tv_nsec = d->meta.mtime_ns },
	};
	int dfd = d->local && !o->dry_run ? dir_pin(d->local) : -1;

	if (dfd < 0)
		return;
	if (d->has_mode && !o->no_modes && fchmodat(dfd, ".", d->meta.mode, 0))
		log_debug("%s: its mode is not set: %s", printable(d->shown), strerror(errno));
	if (d->has_time && !o->no_times && utimensat(dfd, ".", t, 0))
		log_debug("%s: its time is not set: %s", printable(d->shown), strerror(errno));
	if (o->ack >= ACK_SYNCED && sync_dir(dfd))
		log_warn("%s could not be synced", printable(d->shown));
	dir_unpin(d->local);
}

/* ---- what was named ---- */

/* The directories of "a/b/name" below the destination, made. A reference. */
static struct fdir *parents_of(struct foreign *f, const char *path, struct err *e)
{
	struct fdir *d = fdir_ref(f->base), *sub;
	CLEANUP_FREE char *copy = strdup(path);
	char *at = copy, *slash;

	while (d && at && (slash = strchr(at, '/'))) {
		*slash = '\0';
		sub = fdir_sub(d, at, is_dry(f));
		if (!sub || make_dir(f, d, at, sub, e)) {
			if (!e->code)
				err_sys(e, -ENOMEM, "names");
			fdir_put(NULL, sub);
			fdir_put(NULL, d);
			return NULL;
		}
		fdir_put(NULL, d);
		d = sub;
		at = slash + 1;
	}
	return d;
}

/* Where it goes: a directory (a reference) and a name in it; NULL as name: into the directory
 * itself. With the plan's lock held. */
static struct fdir *place(struct foreign *f, const char *source, bool dir, char name[256],
			  bool *itself, struct err *e)
{
	const char *own;
	CLEANUP_FREE char *bare = strdup(source);
	enum dest_place where;
	bool make;
	int rc = bare ? look_at_dest(f) : -ENOMEM;

	if (rc)
		err_sys(e, rc, "destination");
	for (size_t n = bare ? strlen(bare) : 0; n > 1 && bare[n - 1] == '/'; n--)
		bare[n - 1] = '\0';
	if (rc || dest_resolve(&f->dest, f->dest_path, dir, names_directory(source), &where, &make,
			       e))
		return NULL;
	if (where == DEST_AS)
		return open_above(f, name, e);
	if (open_base(f, make, e))
		return NULL;
	*itself = where == DEST_CONTENTS && !f->job->into;
	own = name_last(bare);
	if (!*itself && !bulk_name_ok(own)) {
		err_set(e, -EINVAL, "%s: has no name of its own", printable(source));
		return NULL;
	}
	snprintf(name, 256, "%s", own);
	return f->job->into ? parents_of(f, bare, e) : fdir_ref(f->base);
}

static int begin_dir(struct worker *w, struct fdir *into, const char *name, bool itself,
		     const char *remote, const struct ftp_facts *facts, struct err *e)
{
	struct foreign *f = w->f;
	struct fdir *d;
	int rc = 0;

	if (!f->o->recursive)
		return err_set(e, -EISDIR, "%s: is a directory (-r gets it)", printable(remote));
	if (itself)
		d = fdir_new(into, strdup(remote), strdup(into->shown),
			     into->local ? dir_ref(into->local) : NULL);
	else
		d = fdir_sub(into, name, is_dry(f));
	if (!d)
		return err_sys(e, -ENOMEM, "names");
	free(d->remote);
	d->remote = strdup(*remote ? remote : ".");
	if (!d->remote)
		rc = err_sys(e, -ENOMEM, "names");
	else if (!itself)
		rc = make_dir(f, into, name, d, e);
	if (rc) {
		fdir_put(NULL, d);
		return rc;
	}
	/* Of the home's own mode and time the user has said nothing. */
	if (remote[strspn(remote, "./~")])
		take_dir_facts(d, facts);
	d->unique = facts->unique;
	return push_dir(f, d) ? err_sys(e, -ENOMEM, "names") : 0;
}

/* To standard output, or nowhere. */
static int begin_stream(struct worker *w, const char *remote, const struct ftp_facts *facts,
			struct err *e)
{
	struct fdir *none;
	int rc;

	if (facts->type == 'd')
		return err_set(e, -EISDIR, "%s: is a directory", printable(remote));
	none = fdir_new(NULL, strdup(""), strdup(""), NULL);
	rc = none ? push_file(w->f, none, name_last(remote), strdup(remote), facts, true) : -ENOMEM;
	fdir_put(NULL, none);
	return rc ? err_sys(e, rc, "names") : 0;
}

static int begin_named(struct worker *w, const char *source, const char *remote,
		       const struct ftp_facts *facts, struct err *e)
{
	struct foreign *f = w->f;
	bool itself = false, dir = facts->type == 'd';
	struct fdir *into;
	char name[256];
	int rc;

	if (f->job->to->kind != ITEM_PATH && !(dir && f->job->to->kind == ITEM_NULL))
		return begin_stream(w, remote, facts, e);
	pthread_mutex_lock(&f->plan);
	into = place(f, source, dir, name, &itself, e);
	pthread_mutex_unlock(&f->plan);
	if (!into)
		return e->code;
	if (dir)
		rc = begin_dir(w, into, name, itself, remote, facts, e);
	else
		rc = push_file(f, into, name, strdup(remote), facts, true) ?
		     err_sys(e, -ENOMEM, "names") : 0;
	fdir_put(w, into);
	return rc;
}

static int look_for(void *arg, const struct ftp_facts *f)
{
	struct ftp_facts *top = arg;

	if (!strcmp(f->name, top->name) && f->type == 'd') {
		top->has_mode = f->has_mode;
		top->mode = f->mode;
	}
	return 0;
}

/* The mode of a directory that was named, where only lists tell modes: from that of the one it is
 * in, if that may be listed. */
static int mode_from_above(struct worker *w, const char *remote, struct ftp_facts *facts,
			   struct err *e)
{
	CLEANUP_FREE char *above = strdup(remote);
	struct ftp_facts top = { 0 };
	struct err why = ERR_INIT;
	char *slash;

	for (size_t n = above ? strlen(above) : 0; n > 1 && above[n - 1] == '/'; n--)
		above[n - 1] = '\0';
	slash = above ? strrchr(above, '/') : NULL;
	top.name = slash ? slash + 1 : above;
	if (facts->has_mode || ftp_has(w->client, FTP_HAS_MLST) || !above ||
	    !bulk_name_ok(top.name) || !strcmp(top.name, "~"))
		return 0;
	if (slash)
		*slash = '\0';
	if (ftp_list(w->client, !slash ? "." : *above ? above : "/", look_for, &top, &why) &&
	    !ftp_client_usable(w->client)) {
		*e = why;
		return e->code;
	}
	facts->has_mode = top.has_mode;
	facts->mode = top.mode;
	return 0;
}

static int get_named(struct worker *w, struct ftask *t, struct err *e)
{
	const struct foreign_job *job = w->f->job;
	const char *source = job->sources[t->index];
	CLEANUP_FREE char *remote = job->into ? name_below(job->base, source) : strdup(source);
	struct ftp_facts facts = { 0 };
	int rc = remote ? ftp_stat(w->client, remote, &facts, e) : err_sys(e, -ENOMEM, "names");

	if (remote && !t->local)
		t->local = strdup(remote); /* what a failure names */
	if (rc == 0 && (facts.type == 'c' || facts.type == 'p'))
		facts.type = 'd';
	if (rc == 0 && facts.type == 'l')
		rc = resolve(w, remote, &facts, e);
	if (rc == 0 && facts.type != 'd' && facts.type != 'f')
		rc = err_set(e, -EINVAL, "%s: not a file, directory or link", printable(remote));
	if (rc == 0 && facts.type == 'd')
		rc = mode_from_above(w, remote, &facts, e);
	if (rc == 0)
		rc = begin_named(w, source, remote, &facts, e);
	ftp_facts_clear(&facts);
	return rc;
}

/* ---- all of it ---- */

enum exit_status foreign_get(const struct foreign_job *job)
{
	static const struct foreign_ops ops = {
		.named = get_named, .dir = get_dir, .file = foreign_get_file, .leave = leave_get,
	};

	return foreign_run(&ops, job, job->nsources);
}
