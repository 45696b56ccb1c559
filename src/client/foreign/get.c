// SPDX-License-Identifier: Apache-2.0
/* get from a foreign server: RETR receives each file into a part, from the byte where an earlier
 * run ended. */
#include "client/foreign/engine.h"

#include <fcntl.h>
#include <sys/stat.h>

/* If a server follows links in its listings, a circle of links looks like ever deeper directories.
 * If this many directories above have the same listing, that is no coincidence. */
#define ALIKE_MOST 3

/* The transfer of a file. */
struct fetch {
	struct worker *w;
	struct ftask *t;
	struct part *part;        /* NULL: to standard output, or nowhere */
	uint64_t at;              /* bytes written so far */
	size_t have;              /* further bytes in the worker's room, until a run is full */
};

#define ATTRS_KEPT "%s: its attributes are not set: %s"

/* ---- its facts ---- */

static bool times_differ(const struct ftp_facts *a, const struct ftp_facts *b)
{
	return a->has_mtime && b->has_mtime &&
	       (a->mtime_s != b->mtime_s ||
		(a->mtime_ns && b->mtime_ns && a->mtime_ns != b->mtime_ns));
}

/* Is the file there the same as when its facts were read? A fact that the server cannot give counts
 * as unchanged. now: its present size and time. 1: yes; 0: no; or a negative errno. */
static int fetch_is_unchanged(struct fetch *f, struct ftp_facts *now, struct err *e)
{
	const struct ftp_facts *was = &f->t->facts;
	struct fconn *c = f->w->conn;
	const char *there = f->t->there;

	*now = (struct ftp_facts){ 0 };
	if (!was->has_mtime || was->time_about)
		return 1;

	/* Use MLST if possible: the listing's time is of the same kind, and MDTM's may differ. */
	if (fconn_has(c, FCONN_MLST) && !fconn_stat(c, there, now, e)) {
		free(steal_ptr(&now->name));
		free(steal_ptr(&now->target));
	}
	if (now->type != 'f') /* the facts may be those of a followed link itself */
		*now = (struct ftp_facts){ 0 };
	if (!now->has_size)
		now->has_size = !fconn_size(c, there, &now->size, e);
	if (!now->has_mtime || times_differ(now, was))
		now->has_mtime = !fconn_mtime(c, there, &now->mtime_s, &now->mtime_ns, e);

	if (fconn_lost(c, e))
		return e->code;
	return !(now->has_size && was->has_size && now->size != was->size) &&
	       !times_differ(now, was);
}

/* ---- its bytes ---- */

static int fetch_begin_part(struct fetch *f, struct err *e)
{
	const struct options *o = f->w->f->o;
	const struct ftp_facts *facts = &f->t->facts;
	const bool timed = facts->has_mtime && !facts->time_about;
	struct part_spec s = {
		.dir = f->t->dir->local,
		.name = name_last(f->t->here),
		.meta = { .type = FT_FILE, .size = facts->has_size ? facts->size : 0,
			  .mtime_s = facts->mtime_s, .mtime_ns = facts->mtime_ns },
		.set_mode = facts->has_mode && !o->no_modes,
		.set_times = timed && !o->no_times,
		.inplace = o->inplace,
		/* Without size and time a part could belong to another file. */
		.journal = !o->no_resume && facts->has_size && timed && facts->size >= FOREIGN_RUN,
		.sync = o->ack >= ACK_SYNCED,
	};

	s.meta.mode = s.set_mode ? facts->mode & 0777 : 0666 & ~f->w->f->umask;
	f->part = part_begin(&s, e);
	return f->part ? 0 : e->code;
}

/* One stream carries the bytes, so only runs without a gap before them can be used. */
static int extend_front(void *arg, const struct part_run *run)
{
	uint64_t *end = arg;

	if (run->offset == *end)
		*end += run->length;
	return 0;
}

/* Resume an earlier run's part after its last run, or begin at byte 0 if the file has changed. */
static int fetch_resume(struct fetch *f, struct err *e)
{
	struct ftp_facts *facts = &f->t->facts, now;
	int rc;

	if (part_runs(f->part, extend_front, &f->at, e) < 0)
		return e->code;
	if (f->at < facts->size && !fconn_has(f->w->conn, FCONN_REST))
		f->at = 0;
	if (!f->at)
		return 0;

	rc = fetch_is_unchanged(f, &now, e);
	if (rc < 0)
		return rc;
	if (rc) {
		log_info("%s: %llu bytes are there already", printable(f->t->there),
			 (unsigned long long)f->at);
		return foreign_moved(f->w, f->t, f->at, true, e);
	}

	log_info("%s has changed: getting all of it", printable(f->t->there));
	if (now.has_size)
		facts->size = now.size;
	if (now.has_mtime) {
		facts->mtime_s = now.mtime_s;
		facts->mtime_ns = now.mtime_ns;
	}

	foreign_known(f->w->f, f->t, facts->size);
	part_abandon(f->part, false);
	part_free(f->part);
	f->at = 0;
	return fetch_begin_part(f, e);
}

/* Write the buffered run: a full one, or the last one. */
static int fetch_write_run(struct fetch *f, struct err *e)
{
	struct part_run run = { .offset = f->at, .length = (uint32_t)f->have };
	int rc = 0;

	if (f->part) {
		rc = pwrite_full(part_fd(f->part), f->w->room, f->have, (off_t)f->at);
	} else if (f->w->f->job->to->kind == ITEM_STDIO) {
		f->w->once = true; /* the reader of the pipe has the bytes now */
		rc = write_full(STDOUT_FILENO, f->w->room, f->have);
	}
	if (rc) /* here EPIPE does not mean the server's connection */
		return err_sys(e, rc == -EPIPE ? -EIO : rc, "%s: cannot be written",
			       f->part ? printable(f->t->here) : "standard output");

	if (f->part && f->t->facts.has_size) {
		crypto_run_digest(run.digest, f->w->room, f->have);
		rc = part_note_run(f->part, &run);
	}
	f->at += f->have;
	f->have = 0;
	return rc ? err_sys(e, rc, "%s: its journal", printable(f->t->here)) : 0;
}

static int fetch_wrong_length(const struct fetch *f, struct err *e)
{
	return err_set(e, -EIO, "%s: the server sent %llu bytes and said that all is well, but the "
		       "file had %llu", printable(f->t->there),
		       (unsigned long long)(f->at + f->have), (unsigned long long)f->t->facts.size);
}

/* A fconn_sink. */
static int fetch_take(void *arg, const void *p, size_t n, struct err *e)
{
	struct fetch *f = arg;
	int rc = 0;

	for (size_t at = 0, step; rc == 0 && at < n; at += step) {
		step = n - at < FOREIGN_RUN - f->have ? n - at : FOREIGN_RUN - f->have;
		memcpy((char *)f->w->room + f->have, (const char *)p + at, step);
		f->have += step;
		if (f->t->facts.has_size && f->at + f->have > f->t->facts.size)
			return fetch_wrong_length(f, e);
		if (f->have == FOREIGN_RUN)
			rc = fetch_write_run(f, e);
	}
	return rc ? rc : foreign_moved(f->w, f->t, n, false, e);
}

static int fetch_bytes(struct fetch *f, struct err *e)
{
	struct ftp_facts now;
	bool cut = false;
	int rc = 0;

	if (!f->part || !f->at || f->at < f->t->facts.size)
		rc = fconn_retrieve(f->w->conn, f->t->there, f->at, f->w->f->o->rate, fetch_take,
				    f, &cut, e);
	if (rc == 0 && f->have)
		rc = fetch_write_run(f, e);
	if (rc)
		return rc;

	if (f->t->facts.has_size && f->at != f->t->facts.size)
		return fetch_wrong_length(f, e);
	if (!f->t->facts.has_size && cut)
		return err_set(e, -EPIPE, "the data connection from %s was cut",
			       f->w->conn->host);

	rc = fetch_is_unchanged(f, &now, e);
	return rc ? rc < 0 ? rc : 0 :
	       err_set(e, -EIO, "%s: " FILE_CHANGED_WHY, printable(f->t->there));
}

static int fetch_to_part(struct fetch *f, struct err *e)
{
	int rc = fetch_begin_part(f, e);

	if (rc)
		return rc;

	rc = fetch_resume(f, e);
	if (rc == 0)
		rc = fetch_bytes(f, e);
	if (rc == 0 && !f->t->facts.has_size && part_set_size(f->part, f->at))
		rc = err_sys(e, -EIO, "%s", printable(f->t->here));
	if (rc == 0 && f->w->f->o->ack >= ACK_SYNCED)
		rc = part_sync(f->part, e);
	if (rc == 0)
		rc = part_commit(f->part, e);

	/* The next run cannot use a part with wrong bytes. */
	if (rc && f->part) {
		if (rc != -EIO && part_resumable(f->part))
			atomic_store(&f->w->f->resumable, true);
		part_abandon(f->part, rc != -EIO);
	}
	part_free(f->part);
	return rc;
}

/* --checksum: has name in dfd the content of the file there? Then correct its mode and time. 1, 0,
 * or the errno of a lost connection. */
static int keep_same_content(struct worker *w, struct ftask *t, int dfd, const char *name,
			     const struct stat *st, struct err *e)
{
	int fd CLEANUP_CLOSE = openat(dfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	int rc = fd < 0 ? 0 : foreign_same_content(w, t->there, fd, t->facts.size, e);
	const struct timespec now[2] = {
		{ .tv_sec = t->facts.mtime_s, .tv_nsec = t->facts.mtime_ns },
		{ .tv_sec = t->facts.mtime_s, .tv_nsec = t->facts.mtime_ns },
	};
	const struct options *o = w->f->o;
	int r = 0;

	if (rc <= 0 || o->dry_run)
		return rc;
	if (t->facts.has_mode && !o->no_modes)
		r = fd_chmod(fd, mode_to_give(t->facts.mode & 0777, false, st->st_mode & 07777));
	if (r == 0 && t->facts.has_mtime && !o->no_times)
		r = fd_utimens(fd, now);
	if (r)
		log_warn(ATTRS_KEPT, printable(t->here), strerror(-r));
	return rc;
}

/* A foreign_step of a task. */
static int get_file(struct worker *w, void *arg, struct err *e)
{
	struct ftask *t = arg;
	struct ftp_facts *facts = &t->facts, here = { .has_size = true, .has_mtime = true };
	struct fetch f = { .w = w, .t = t };
	const char *name = name_last(t->here);
	const bool part = w->f->job->to->kind == ITEM_PATH, link = facts->type == 'l' && part;
	struct dir *dir = t->dir ? t->dir->local : NULL;
	struct stat st;
	int dfd, same = 0, rc = 0;
	bool kept;

	foreign_unmoved(w->f, t);
	if (link && !facts->target) {
		foreign_left_out(w->f, t->here, "a link, and the server does not tell its target "
				 "(--follow copies that)");
		return 0;
	}

	/* Ask for the facts that the listing did not have. */
	if (!link && !facts->has_size)
		facts->has_size = !fconn_size(w->conn, t->there, &facts->size, e);
	if (!link && (!facts->has_mtime || facts->time_about) &&
	    !fconn_mtime(w->conn, t->there, &facts->mtime_s, &facts->mtime_ns, e)) {
		facts->has_mtime = true;
		facts->time_about = false;
	}
	if (fconn_lost(w->conn, e))
		return e->code;
	/* The listing may have had no exact time. */
	if (!link && facts->has_mtime &&
	    !filter_admits_file(&w->f->o->filter,
				facts->has_size ? facts->size : w->f->o->filter.size_least,
				facts->mtime_s + (facts->time_about ? TIME_ABOUT_S : 0))) {
		foreign_known(w->f, t, 0);
		return 0;
	}
	if (!link && facts->has_size)
		foreign_known(w->f, t, facts->size);

	dfd = dir ? dir_pin(dir) : -1;
	if (dfd >= 0 && !fstatat(dfd, name, &st, AT_SYMLINK_NOFOLLOW)) {
		here.type = S_ISREG(st.st_mode) ? 'f' : 'o';
		here.size = (uint64_t)st.st_size;
		here.mtime_s = st.st_mtim.tv_sec;
		here.mtime_ns = (uint32_t)st.st_mtim.tv_nsec;
	}
	kept = foreign_keeps(w->f, facts, &here);
	if (kept && w->f->o->policy == POLICY_CHECKSUM) {
		same = link ? 0 : keep_same_content(w, t, dfd, name, &st, e);
		kept = same > 0;
	}
	if (same >= 0 && link && !kept && !w->f->o->dry_run)
		rc = dfd < 0 ? dfd : link_put(-1, facts->target, dir, dfd, name, false);
	if (dfd >= 0)
		dir_unpin(dir);
	if (same < 0)
		return same;
	if (rc)
		return err_sys(e, rc, "%s: the link cannot be made", printable(t->here));

	if (kept || w->f->o->dry_run) {
		foreign_done(w->f, t, !link && facts->has_size ? facts->size : 0, kept);
		return 0;
	}
	if (!link)
		rc = part ? fetch_to_part(&f, e) : fetch_bytes(&f, e);
	if (rc == 0)
		foreign_done(w->f, t, f.at, false);
	return rc;
}

/* ---- directories ---- */

/* foreign_ops.make. The mode is set at the end, so that the directory is writable until then. */
static int get_make_dir(struct worker *w, void *arg, struct err *e)
{
	struct fdir *sub = arg, *d = sub->parent;
	struct foreign *f = w->f;
	const char *name = name_last(sub->here);
	struct stat st;
	int dfd, rc = 0;

	if (f->o->dry_run) {
		if (!d->local || root_stat(f->job->root, sub->here, false, &st))
			foreign_would_make(f, sub->here);
		return 0;
	}

	dfd = dir_pin(d->local);
	if (dfd < 0)
		return err_sys(e, dfd, "%s", printable(d->here));
	sub->made = !mkdirat(dfd, name, 0777 & ~f->umask);
	if (!sub->made && errno != EEXIST)
		rc = -errno;
	else if (!sub->made &&
		 (fstatat(dfd, name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISDIR(st.st_mode)))
		rc = -ENOTDIR;
	dir_unpin(d->local);
	return rc ? err_path(e, rc, sub->here, CANNOT_MAKE_DIR) : 0;
}

/* Is it the same list, of at least one file? Both are sorted. */
static bool same_listing(const struct facts_list *a, const struct facts_list *b)
{
	bool files = false;

	for (size_t i = 0; a->n == b->n && i < a->n; i++) {
		const struct ftp_facts *x = &a->all[i], *y = &b->all[i];

		if (strcmp(x->name, y->name) || x->type != y->type || x->size != y->size ||
		    x->mtime_s != y->mtime_s)
			return false;
		files |= x->type == 'f';
	}
	return files;
}

/* -ELOOP with text: several directories above d have the same listing. */
static int check_circle(const struct fdir *d, struct err *e)
{
	unsigned alike = 0;

	for (const struct fdir *p = d->parent; p && !d->unique; p = p->parent)
		alike += same_listing(&d->held, &p->held);

	return alike < ALIKE_MOST ? 0 :
	       err_set(e, -ELOOP, "%s: has the same list as %u director%s above it: a link there "
		       "leads in a circle", printable(d->there), alike, alike == 1 ? "y" : "ies");
}

/* Replace the facts of a link by those of its target, a directory or a file. */
static int follow_remote_link(struct worker *w, const char *there, struct ftp_facts *f,
			      struct err *e)
{
	f->type = fconn_simple(w->conn, FTP_CWD, there, e) ? 'f' : 'd';
	/* These facts were those of the link. */
	f->has_size = f->has_mtime = f->has_mode = false;
	f->unique = 0;
	return fconn_lost(w->conn, e);
}

/* A foreign_step of a struct fdir. */
static int list_dir(struct worker *w, void *arg, struct err *e)
{
	struct fdir *d = arg;
	int rc = fconn_list(w->conn, d->there, &d->held, e);

	if (rc == 0 && d->held.n)
		qsort(d->held.all, d->held.n, sizeof(*d->held.all), facts_by_name);
	for (size_t i = 0; rc == 0 && w->f->o->follow && i < d->held.n; i++) {
		struct ftp_facts *f = &d->held.all[i];
		CLEANUP_FREE char *there = name_below(d->there, f->name);

		if (!there)
			rc = err_nomem(e);
		else if (f->type == 'l' && bulk_name_ok(f->name))
			rc = follow_remote_link(w, there, f, e);
	}
	return rc ? rc : check_circle(d, e);
}

static int get_dir(struct worker *w, struct fdir *d, const struct ftp_facts *facts, bool make,
		   struct err *e);

/* Get an entry of d; takes over facts->target. */
static int get_entry(struct worker *w, struct fdir *d, struct ftp_facts *facts, struct err *e)
{
	const char *name = facts->name;
	struct ftask t = { .dir = d };
	bool bad = !bulk_name_ok(name);
	CLEANUP_FREE char *there = name_below(d->there, name);
	struct fdir *sub;

	if (!there)
		return err_nomem(e);
	if (foreign_is_part(name) || !foreign_admits(w->f, there + d->rel_at, facts))
		return 0;
	for (const char *s = name; *s; s++)
		bad |= (unsigned char)*s < 0x20 || *s == 0x7f;
	if (bad) {
		err_set(e, -EBADMSG, "the server lists \"%s\" in %s, which no file here may be "
			"called", printable(name), printable(d->there));
		foreign_failed(w->f, name, e);
		return 0;
	}

	if (facts->type == 'd') {
		sub = fdir_sub(w->f, d, name, e);
		if (sub && get_dir(w, sub, facts, true, e))
			foreign_failed(w->f, sub->here, e);
		return sub ? 0 : e->code;
	}

	if (facts->type != 'f' && facts->type != 'l') {
		foreign_left_out(w->f, there, FILE_KIND_WHY);
		return 0;
	}
	t.there = steal_ptr(&there);
	t.here = name_below(d->here, name);
	t.facts = *facts;
	t.facts.name = facts->target = NULL;
	t.known = facts->has_size && facts->type == 'f' ? facts->size : 0;
	return foreign_push(w, &t, e);
}

/* Get the content of d, which has these facts. make: create d first. */
static int get_dir(struct worker *w, struct fdir *d, const struct ftp_facts *facts, bool make,
		   struct err *e)
{
	const struct fdir *above = d->parent;
	int rc = 0;

	d->has_mode = facts->has_mode;
	d->unique = facts->unique;
	d->meta.mode = facts->mode & 0777;
	d->has_time = facts->has_mtime && !facts->time_about;
	d->meta.mtime_s = facts->mtime_s;
	d->meta.mtime_ns = facts->mtime_ns;

	while (above && (!d->unique || above->unique != d->unique))
		above = above->parent;
	if (above)
		rc = err_set(e, -ELOOP, "%s: a link that leads to a directory which it is in: not "
			     "followed", printable(d->there));
	else if (d->depth > FOREIGN_DEPTH_MOST)
		rc = err_set(e, -ELOOP, "%s: deeper than %d directories: links there may lead in a "
			     "circle", printable(d->there), FOREIGN_DEPTH_MOST);
	else if (make)
		rc = get_make_dir(w, d, e);

	if (rc == 0)
		rc = foreign_try(w, list_dir, d, e);
	for (size_t i = 0; rc == 0 && i < d->held.n && !atomic_load(&w->f->stop); i++)
		rc = get_entry(w, d, &d->held.all[i], e);
	facts_clear(&d->held);
	return rc;
}

static void get_leave_dir(struct worker *w, struct fdir *d)
{
	const struct options *o = w->f->o;
	const struct timespec t[2] = {
		{ .tv_sec = d->meta.mtime_s, .tv_nsec = d->meta.mtime_ns },
		{ .tv_sec = d->meta.mtime_s, .tv_nsec = d->meta.mtime_ns },
	};
	int dfd = d->local && !o->dry_run ? dir_pin(d->local) : -1, r;
	struct stat st;

	if (dfd < 0)
		return;

	r = fstat(dfd, &st) ? -errno : 0;
	if (!r && d->has_mode && !o->no_modes)
		r = fd_chmod(dfd, mode_to_give(d->meta.mode, false, st.st_mode & 07777));
	if (!r && d->has_time && !o->no_times)
		r = fd_utimens(dfd, t);
	if (r)
		log_debug(ATTRS_KEPT, printable(d->here), strerror(-r));
	if (o->ack >= ACK_SYNCED && sync_dir(dfd))
		log_warn("%s: " CANNOT_SYNC, printable(d->here));
	dir_unpin(d->local);
}

/* ---- sources ---- */

static int get_look(struct worker *w, const char *path, struct dest *d, struct err *e)
{
	struct stat st;

	d->exists = !root_stat(w->f->job->root, path, true, &st);
	d->is_dir = d->exists && S_ISDIR(st.st_mode);
	return 0;
}

static struct fdir *get_open_dest(struct worker *w, const char *path, bool make, struct err *e)
{
	struct foreign *f = w->f;
	struct dir *local = NULL;
	struct fdir *d;
	int rc = 0, fd;

	if (make && !f->o->dry_run)
		rc = f->job->into ? make_dirs(path, 0777 & ~f->umask) :
		     root_mkdir(f->job->root, path, 0777 & ~f->umask);
	if (rc) {
		err_path(e, rc, path, CANNOT_MAKE_DIR);
		return NULL;
	}

	if (!make || !f->o->dry_run) {
		fd = root_open(f->job->root, path, O_RDONLY | O_DIRECTORY, 0);
		local = fd < 0 ? NULL : dir_top(f->dirs, fd, path);
		if (!local) {
			err_sys(e, fd < 0 ? fd : -ENOMEM, "%s", printable(path));
			return NULL;
		}
	}

	d = fdir_new(f, NULL, strdup(""), strdup(strcmp(path, ".") || f->dest.slash ? path : ""),
		     local, e);
	if (d)
		d->made = make;
	return d;
}

struct get_source {
	struct foreign_source of;
	const char *there;
	struct ftp_facts facts;
};

/* A foreign_step of a struct get_source. */
static int look_at_source(struct worker *w, void *arg, struct err *e)
{
	struct get_source *s = arg;
	struct ftp_facts *f = &s->facts;
	int rc;

	ftp_facts_clear(f);
	rc = fconn_stat(w->conn, s->there, f, e);
	if (rc)
		return rc;

	if (f->type == 'c' || f->type == 'p')
		f->type = 'd';
	if (f->type == 'l')
		rc = follow_remote_link(w, s->there, f, e);
	if (rc == 0 && f->type != 'd' && f->type != 'f')
		rc = err_set(e, -EINVAL, "%s: " FILE_KIND_WHY, printable(s->there));

	/* Do not copy mode and time of the home directory itself. */
	if (f->type == 'd' && !s->there[strspn(s->there, "./~")])
		f->has_mode = f->has_mtime = false;
	return rc;
}

static int get_tree(struct worker *w, struct get_source *s, struct err *e)
{
	struct foreign *f = w->f;
	struct foreign_source *of = &s->of;
	struct fdir *d;

	if (f->job->to->kind == ITEM_STDIO || !f->o->recursive)
		return err_set(e, -EISDIR, "%s: is a directory%s", printable(s->there),
			       f->o->recursive ? "" : " (-r gets it)");
	if (foreign_find_dest(w, of, e))
		return e->code;

	d = of->itself ? fdir_new(f, of->into, strdup(""), strdup(of->into->here),
				  of->into->local ? dir_ref(of->into->local) : NULL, e) :
	    fdir_sub(f, of->into, of->name, e);
	if (!d)
		return e->code;
	free(d->there);
	d->there = strdup(*s->there ? s->there : ".");
	d->rel_at = d->there ? foreign_rel_at(of, d->there) : 0;
	if (of->itself && of->into->made && f->o->dry_run)
		foreign_would_make(f, of->into->here);
	return d->there ? get_dir(w, d, &s->facts, !of->itself, e) : err_nomem(e);
}

static int get_one_file(struct worker *w, struct get_source *s, struct err *e)
{
	struct ftask t = { 0 };

	if (w->f->job->to->kind == ITEM_PATH && foreign_find_dest(w, &s->of, e))
		return e->code;

	t.dir = s->of.into;
	t.there = strdup(s->there);
	t.here = t.dir ? name_below(t.dir->here, s->of.name) : strdup(name_last(s->there));
	t.facts = s->facts;
	t.facts.name = t.facts.target = NULL;
	t.known = s->facts.has_size ? s->facts.size : 0;
	return foreign_push(w, &t, e);
}

static void get_source(struct worker *w, size_t i)
{
	const struct foreign_job *job = w->f->job;
	const char *source = job->sources[i], *rel = job->into ? source : NULL;
	CLEANUP_FREE char *there = rel ? name_below(job->base, source) : strdup(source);
	struct get_source s = { .of = { .path = source, .rel = rel }, .there = there };
	struct err e = ERR_INIT;
	int rc = there ? foreign_try(w, look_at_source, &s, &e) : err_nomem(&e);

	s.of.dir = s.facts.type == 'd';
	if (rc == 0 && foreign_admits(w->f, there + foreign_rel_at(&s.of, there), &s.facts))
		rc = s.of.dir ? get_tree(w, &s, &e) : get_one_file(w, &s, &e);
	if (rc)
		foreign_failed(w->f, there ? there : source, &e);
	ftp_facts_clear(&s.facts);
}

enum exit_status foreign_get(const struct foreign_job *job)
{
	static const struct foreign_ops ops = {
		.look = get_look, .open = get_open_dest, .make = get_make_dir, .source = get_source,
		.file = get_file, .leave = get_leave_dir,
	};

	return foreign_run(&ops, job, job->to->path ? job->to->path : "");
}
