// SPDX-License-Identifier: Apache-2.0
/* get from a foreign server: where what was named goes. */
#include "client/foreign_get.h"

#include "client/names.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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
	if (make && f->o->dry_run) {
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

/* ---- what was named ---- */

/* The directories of "a/b/name" below the destination, made. A reference. */
static struct fdir *parents_of(struct foreign *f, const char *path, struct err *e)
{
	struct fdir *d = fdir_ref(f->base), *sub;
	CLEANUP_FREE char *copy = strdup(path);
	char *at = copy, *slash;

	while (d && at && (slash = strchr(at, '/'))) {
		*slash = '\0';
		sub = fdir_sub(d, at, f->o->dry_run);
		if (!sub || get_make_dir(f, d, at, sub, e)) {
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
	*itself = where == DEST_CONTENTS && !f->job->into;
	if (*itself && make && !f->base && f->o->dry_run)
		foreign_would_make(f, f->dest_path);
	if (open_base(f, make, e))
		return NULL;
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
		d = fdir_sub(into, name, f->o->dry_run);
	if (!d)
		return err_sys(e, -ENOMEM, "names");
	free(d->remote);
	d->remote = strdup(*remote ? remote : ".");
	if (!d->remote)
		rc = err_sys(e, -ENOMEM, "names");
	else if (!itself)
		rc = get_make_dir(f, into, name, d, e);
	if (rc) {
		fdir_put(NULL, d);
		return rc;
	}
	/* Of the home's own mode and time the user has said nothing. */
	if (remote[strspn(remote, "./~")])
		get_dir_facts(d, facts);
	d->unique = facts->unique;
	return get_push_dir(f, d) ? err_sys(e, -ENOMEM, "names") : 0;
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
	rc = none ? get_push_file(w->f, none, name_last(remote), strdup(remote), facts, true) : -ENOMEM;
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
		rc = get_push_file(f, into, name, strdup(remote), facts, true) ?
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
		rc = get_resolve(w, remote, &facts, e);
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
		.named = get_named, .dir = get_dir, .file = foreign_get_file, .leave = get_leave,
	};

	return foreign_run(&ops, job, job->nsources);
}
