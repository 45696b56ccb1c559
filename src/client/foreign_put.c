// SPDX-License-Identifier: Apache-2.0
/* put to a foreign server: directories read here and made there. The files are
 * foreign_store.c's. */
#include "client/foreign.h"

#include "client/names.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- directories there ---- */

static int collect(void *arg, const struct ftp_facts *f)
{
	return there_add(arg, f);
}

/* For --update and its like: one listing rather than a question for each file. */
static int look_into(struct worker *w, struct fdir *d, struct err *e)
{
	struct there *all = NULL;
	int rc;

	if (w->f->o->policy == POLICY_OVERWRITE)
		return 0;
	rc = ftp_list(w->client, d->remote, collect, &all, e);
	if (rc < 0) {
		there_free(all);
		return rc == -ENOMEM && !e->code ? err_sys(e, rc, "listing") : rc;
	}
	there_free(d->there);
	d->there = all;
	return 0;
}

static bool is_there(struct worker *w, const char *path, struct ftp_facts *f, struct err *e)
{
	int rc = ftp_stat(w->client, path, f, e);

	if (rc == 0 && (f->type == 'c' || f->type == 'p'))
		f->type = 'd';
	return rc == 0;
}

/* What make_there() would do. */
static int would_make(struct worker *w, struct fdir *d, struct err *e)
{
	struct ftp_facts facts = { 0 };
	struct err why = ERR_INIT;
	bool there = is_there(w, d->remote, &facts, &why);
	bool dir = facts.type == 'd' || facts.type == 'l';

	ftp_facts_clear(&facts);
	if (!ftp_client_usable(w->client)) {
		*e = why;
		return e->code ? e->code : (e->code = -EPIPE);
	}
	d->made = !there;
	if (there && !dir)
		return err_set(e, -ENOTDIR, "%s: is not a directory", printable(d->remote));
	return there ? look_into(w, d, e) : 0;
}

/* A directory is there, or is made. */
static int make_there(struct worker *w, struct fdir *d, struct err *e)
{
	struct ftp_facts facts = { 0 };
	struct err why = ERR_INIT;
	int rc;

	if (w->f->o->dry_run)
		return would_make(w, d, e);
	rc = ftp_simple(w->client, FTP_MKD, d->remote, NULL, e);
	/* Before, too: as the destination, or in an attempt that was broken off. */
	d->made |= rc >= 0;
	if (rc >= 0 || !ftp_client_usable(w->client))
		return rc < 0 ? rc : 0;
	/* Most likely it is there. */
	if (!is_there(w, d->remote, &facts, &why) || (facts.type != 'd' && facts.type != 'l')) {
		ftp_facts_clear(&facts);
		return ftp_client_usable(w->client) ? err_prefix(e, "%s", printable(d->remote)) :
		       (*e = why, e->code);
	}
	ftp_facts_clear(&facts);
	e->code = 0;
	return look_into(w, d, e);
}

/* By MFMT alone: the other ways count as not there once they are refused, and files need them. */
static void keep_time(struct worker *w, const struct fdir *d)
{
	struct err e = ERR_INIT;

	if (!ftp_client_usable(w->client) || !ftp_has(w->client, FTP_HAS_MFMT) ||
	    atomic_load(&w->f->no_dir_times))
		return;
	if (ftp_set_mtime(w->client, d->remote, d->meta.mtime_s, &e)) {
		log_debug("%s", e.text);
		atomic_store(&w->f->no_dir_times, true);
	}
}

static void leave_put(struct worker *w, struct fdir *d)
{
	const struct options *o = w->f->o;
	struct err e = ERR_INIT;

	if (!w->client || !d->made || o->dry_run || !ftp_client_usable(w->client))
		return;
	if (d->has_mode && !o->no_modes && ftp_set_mode(w->client, d->remote, d->meta.mode, &e))
		log_debug("%s", e.text);
	if (d->has_time && !o->no_times)
		keep_time(w, d);
}

/* ---- directories here ---- */

static int push_file(struct foreign *f, struct fdir *d, const char *name, const char *local,
		     const struct transfer_item *item, uint64_t size)
{
	struct ftask *t = ftask_new(FTASK_FILE, d);

	if (t) {
		t->name = strdup(name);
		t->remote = name_below(d->remote, name);
		t->local = local ? strdup(local) : NULL;
		t->item = item;
	}
	if (!t || !t->name || !t->remote || (local && !t->local)) {
		ftask_free(NULL, t);
		return -ENOMEM;
	}
	foreign_known(f, t, size);
	foreign_push(f, t);
	return 0;
}

static int push_dir(struct foreign *f, struct fdir *sub, const struct stat *st)
{
	struct ftask *t = ftask_new(FTASK_DIR, sub);

	meta_from_stat(&sub->meta, st);
	sub->has_mode = sub->has_time = true;
	fdir_put(NULL, sub);
	if (!t)
		return -ENOMEM;
	foreign_push(f, t);
	return 0;
}

static int take_link(struct foreign *f, const struct fdir *d, const char *name)
{
	CLEANUP_FREE char *path = name_below(d->shown, name);

	foreign_left_out(f, path ? path : name, "a link, which FTP cannot make (--follow copies "
			 "what it leads to)");
	return 0;
}

/* A name in the directory behind dfd. */
static int take_name(struct foreign *f, struct fdir *d, int dfd, const char *name, struct err *e)
{
	CLEANUP_FREE char *path = name_below(d->shown, name);
	struct fdir *sub;
	struct stat st;

	if (!path)
		return err_sys(e, -ENOMEM, "names");
	if (fstatat(dfd, name, &st, f->o->follow ? 0 : AT_SYMLINK_NOFOLLOW)) {
		struct err why = ERR_INIT;

		err_sys(&why, -errno, "%s", printable(path));
		foreign_failed(f, path, &why);
		return 0;
	}
	if (S_ISREG(st.st_mode))
		return push_file(f, d, name, NULL, NULL, (uint64_t)st.st_size) ?
		       err_sys(e, -ENOMEM, "names") : 0;
	if (S_ISLNK(st.st_mode))
		return take_link(f, d, name);
	if (!S_ISDIR(st.st_mode)) {
		foreign_left_out(f, path, "not a file, directory or link");
		return 0;
	}
	/* What a link leads to could be a directory above it. */
	if (f->o->follow && !fstatat(dfd, name, &st, AT_SYMLINK_NOFOLLOW) && S_ISLNK(st.st_mode)) {
		foreign_left_out(f, path, "a link to a directory");
		return 0;
	}
	sub = fdir_sub(d, name, false);
	return !sub || push_dir(f, sub, &st) ? err_sys(e, -ENOMEM, "names") : 0;
}

static int read_here(struct foreign *f, struct fdir *d, struct err *e)
{
	int dfd = dir_pin(d->local), fd = -1, rc = 0;
	const struct dirent *entry;
	DIR *all = NULL;

	if (dfd >= 0) {
		fd = openat(dfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		all = fd < 0 ? NULL : fdopendir(fd);
		rc = all ? 0 : -errno;
	}
	if (dfd < 0 || rc) {
		rc = err_sys(e, dfd < 0 ? dfd : rc, "%s", printable(d->shown));
		if (fd >= 0)
			close(fd);
	}
	while (rc == 0 && (errno = 0, entry = readdir(all))) {
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..") &&
		    !foreign_is_part(entry->d_name))
			rc = take_name(f, d, dfd, entry->d_name, e);
	}
	if (rc == 0 && errno)
		rc = err_sys(e, -errno, "%s", printable(d->shown));
	if (all)
		closedir(all);
	if (dfd >= 0)
		dir_unpin(d->local);
	return rc;
}

static int put_dir(struct worker *w, struct ftask *t, struct err *e)
{
	int rc = make_there(w, t->dir, e);

	if (rc == 0 && w->f->o->dry_run && t->dir->made)
		foreign_would_make(w->f, t->dir->shown);
	return rc ? rc : read_here(w->f, t->dir, e);
}

/* ---- where things go ---- */

/* With the plan's lock held. */
static int look_at_dest(struct worker *w, struct err *e)
{
	struct foreign *f = w->f;
	const char *path = f->job->path;
	struct ftp_facts facts = { 0 };
	struct err why = ERR_INIT;

	if (f->dest_known)
		return 0;
	f->dest.slash = names_directory(path) || f->job->into;
	f->dest.several = f->job->several;
	f->dest.exists = is_there(w, *path ? path : ".", &facts, &why);
	if (!ftp_client_usable(w->client)) {
		*e = why;
		return e->code ? e->code : (e->code = -EPIPE);
	}
	f->dest.is_dir = f->dest.exists && (facts.type == 'd' || facts.type == 'l');
	ftp_facts_clear(&facts);
	free(f->dest_path);
	f->dest_path = strdup(*path ? path : "~");
	for (size_t n = f->dest_path ? strlen(f->dest_path) : 0;
	     n > 1 && f->dest_path[n - 1] == '/'; n--)
		f->dest_path[n - 1] = '\0';
	f->dest_known = f->dest_path;
	return f->dest_known ? 0 : err_sys(e, -ENOMEM, "destination");
}

static int open_base(struct worker *w, bool make, struct err *e)
{
	struct foreign *f = w->f;
	struct fdir *base;
	int rc;

	if (f->base)
		return 0;
	base = fdir_new(NULL, strdup(f->dest_path), strdup(""), NULL);
	if (!base)
		return err_sys(e, -ENOMEM, "destination");
	rc = make ? make_there(w, base, e) : f->dest.exists ? look_into(w, base, e) : 0;
	if (rc) {
		fdir_put(NULL, base);
		return rc;
	}
	f->base = base;
	return 0;
}

/* The directory that the destination is in. */
static struct fdir *above_dest(struct worker *w, struct err *e)
{
	const char *path = w->f->dest_path, *slash = strrchr(path, '/');
	char *above = slash == path ? strdup("/") : slash ? strndup(path, (size_t)(slash - path)) :
		      strdup("~");
	struct fdir *d = fdir_new(NULL, above, strdup(""), NULL);

	if (!d)
		err_sys(e, -ENOMEM, "destination");
	else if (!look_into(w, d, e))
		return d;
	fdir_put(NULL, d);
	return NULL;
}

/* The directories of "a/b/name" below the destination, made. A reference. With the plan's lock
 * held: lists are mostly sorted, so the last one made is often the next one needed. */
static struct fdir *parents_of(struct worker *w, const char *target, struct err *e)
{
	struct foreign *f = w->f;
	CLEANUP_FREE char *copy = strdup(target);
	CLEANUP_FREE char *whole = NULL;
	char *at = copy, *slash = copy ? strrchr(copy, '/') : NULL;
	struct fdir *d = fdir_ref(f->base), *sub;

	if (!slash)
		return d;
	*slash = '\0';
	whole = name_below(f->base->remote, copy);
	if (whole && f->last && !strcmp(f->last->remote, whole)) {
		fdir_put(NULL, d);
		return fdir_ref(f->last);
	}
	for (; at; at = slash ? slash + 1 : NULL) {
		slash = strchr(at, '/');
		if (slash)
			*slash = '\0';
		sub = fdir_new(d, name_below(d->remote, at), name_below(d->shown, at), NULL);
		fdir_put(NULL, d);
		d = sub;
		if (!d || make_there(w, d, e)) {
			if (!d)
				err_sys(e, -ENOMEM, "names");
			fdir_put(NULL, d);
			return NULL;
		}
	}
	fdir_put(NULL, f->last);
	f->last = fdir_ref(d);
	return d;
}

/* A directory (a reference), and a name in it; *itself: the directory itself. With the plan's lock
 * held. */
static struct fdir *place(struct worker *w, const char *source, const char *target, bool dir,
			  char name[NAME_MAX + 1], bool *itself, struct err *e)
{
	struct foreign *f = w->f;
	CLEANUP_FREE char *bare = strdup(target ? target : source);
	enum dest_place where;
	const char *own;
	bool make;

	for (size_t n = bare ? strlen(bare) : 0; n > 1 && bare[n - 1] == '/'; n--)
		bare[n - 1] = '\0';
	if (!bare) {
		err_sys(e, -ENOMEM, "names");
		return NULL;
	}
	if (look_at_dest(w, e) ||
	    dest_resolve(&f->dest, f->dest_path, dir, !target && names_directory(source), &where,
			 &make, e))
		return NULL;
	own = name_last(where == DEST_AS ? f->dest_path : bare);
	snprintf(name, NAME_MAX + 1, "%s", own);
	if (where == DEST_AS)
		return above_dest(w, e);
	if (open_base(w, make, e))
		return NULL;
	*itself = where == DEST_CONTENTS;
	if (!*itself && !bulk_name_ok(own)) {
		err_set(e, -EINVAL, "%s: has no name of its own", printable(source));
		return NULL;
	}
	return target ? parents_of(w, bare, e) : fdir_ref(f->base);
}

static struct fdir *place_locked(struct worker *w, const char *source, const char *target, bool dir,
				 char name[NAME_MAX + 1], bool *itself, struct err *e)
{
	LOCK_GUARD(guard, &w->f->plan);

	return place(w, source, target, dir, name, itself, e);
}

/* ---- what was named ---- */

static int begin_dir(struct foreign *f, struct fdir *into, const char *name, bool itself,
		     const char *source, const struct stat *st, struct err *e)
{
	struct fdir *d;
	struct dir *local;
	int fd;

	if (!f->o->recursive)
		return err_set(e, -EISDIR, "%s: is a directory (-r sends it)", printable(source));
	fd = root_open(f->job->root, source, O_RDONLY | O_DIRECTORY, 0);
	if (fd < 0)
		return err_sys(e, fd, "%s", printable(source));
	local = dir_top(f->dirs, fd, source);
	d = local ? fdir_new(into, itself ? strdup(into->remote) : name_below(into->remote, name),
			     strdup(source), local) : NULL;
	if (d && itself)
		d->made = into->made;
	return !d || push_dir(f, d, st) ? err_sys(e, -ENOMEM, "names") : 0;
}

static int begin_path(struct worker *w, const char *source, const char *target, struct err *e)
{
	struct foreign *f = w->f;
	char name[NAME_MAX + 1];
	bool itself = false;
	struct fdir *into;
	struct stat st;
	int rc = root_stat(f->job->root, source, true, &st);

	if (rc)
		return err_sys(e, rc, "%s", printable(source));
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return err_set(e, -EINVAL, "%s: not a file, directory or link", printable(source));
	into = place_locked(w, source, target, S_ISDIR(st.st_mode), name, &itself, e);
	if (!into)
		return e->code;
	if (S_ISDIR(st.st_mode))
		rc = begin_dir(f, into, name, itself, source, &st, e);
	else
		rc = push_file(f, into, name, source, NULL, (uint64_t)st.st_size) ?
		     err_sys(e, -ENOMEM, "names") : 0;
	fdir_put(w, into);
	return rc;
}

/* Standard input, or zeros: the destination is the file. */
static int begin_stream(struct worker *w, const struct transfer_item *item, struct err *e)
{
	bool itself = false, zero = item->kind == ITEM_ZERO;
	char name[NAME_MAX + 1];
	struct fdir *into = place_locked(w, zero ? "zero" : "stdin", NULL, false, name, &itself, e);
	int rc;

	if (!into)
		return e->code;
	rc = push_file(w->f, into, name, zero ? "zero:" : "-", item, zero ? item->size : 0);
	fdir_put(w, into);
	return rc ? err_sys(e, rc, "names") : 0;
}

static int put_named(struct worker *w, struct ftask *t, struct err *e)
{
	const struct foreign_job *job = w->f->job;
	const struct transfer_item *item = &job->items[t->index];

	if (item->kind != ITEM_PATH)
		return begin_stream(w, item, e);
	if (!t->local)
		t->local = strdup(item->path); /* what a failure names */
	return begin_path(w, item->path, job->targets ? job->targets[t->index] : NULL, e);
}

enum exit_status foreign_put(const struct foreign_job *job)
{
	static const struct foreign_ops ops = {
		.named = put_named, .dir = put_dir, .file = foreign_put_file,
		.leave = leave_put,
	};

	return foreign_run(&ops, job, job->nsources);
}
