// SPDX-License-Identifier: Apache-2.0
/* put to a foreign server: STOR sends each file as a part, which is renamed when it is complete.
 * The name of a part depends on the file's name, size, times and inode, so a part is only resumed
 * for the same content. */
#include "client/foreign/engine.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <sys/stat.h>

/* Room for PART_PREFIX, a digest, and a suffix. */
#define NAME_BESIDE_MAX (sizeof(PART_PREFIX) + 2 * RUN_DIGEST_BYTES + sizeof(FOREIGN_OLD))

/* With --rate, send at most the bytes of a tenth of a second at once; but not fewer than
 * STEP_LEAST, because TLS and TCP add headers. */
#define STEPS_PER_SECOND 10
#define STEP_LEAST 512

/* The transfer of a file. */
struct store {
	struct worker *w;
	struct ftask *t;
	const char *name;    /* its name on the server */
	int fd;              /* -1: zeros */
	bool stream;         /* standard input: of unknown length, and readable once */
	uint64_t size;       /* not of a stream */
	struct stat st;      /* of a file */
	struct meta meta;
	char *part;          /* its path on the server; with --inplace, the target's */
	char *old;           /* path on the server of the old target while it is being replaced */
	bool resumable;      /* another run may resume the part */
	uint64_t at;         /* bytes on the server */
	bool begun;          /* the server has accepted the transfer */
	bool went_on;        /* the server had the beginning: it is a resumption */
	bool changed;        /* the local file has changed during the transfer */
	bool differs;        /* the part's size differs from the number of sent bytes */
};

/* ---- the file here ---- */

static int store_open(struct store *s, struct err *e)
{
	const struct ftask *t = s->t;
	const struct options *o = s->w->f->o;
	struct timespec now;
	int dfd, rc;

	s->fd = -1;
	if (t->item) {
		clock_gettime(CLOCK_REALTIME, &now);
		s->meta = (struct meta){ .type = FT_FILE, .mode = 0644, .mtime_s = now.tv_sec };
		s->stream = t->item->kind == ITEM_STDIO;
		s->size = t->item->size;
		s->fd = s->stream ? STDIN_FILENO : -1;
		return 0;
	}

	if (t->dir->local) {
		dfd = dir_pin(t->dir->local);
		s->fd = dfd < 0 ? dfd : openat(dfd, name_last(t->here), O_RDONLY | O_CLOEXEC |
					       O_NONBLOCK | (o->follow ? 0 : O_NOFOLLOW));
		if (dfd >= 0 && s->fd < 0)
			s->fd = -errno;
		if (dfd >= 0)
			dir_unpin(t->dir->local);
	} else {
		s->fd = root_open(s->w->f->job->root, t->here, O_RDONLY, 0);
	}

	rc = s->fd < 0 ? s->fd : fstat(s->fd, &s->st) ? -errno :
	     S_ISREG(s->st.st_mode) ? 0 : -EINVAL;
	if (rc)
		return err_sys(e, rc, "%s", printable(t->here));

	meta_from_stat(&s->meta, &s->st);
	s->size = s->meta.size;
	foreign_known(s->w->f, s->t, s->size);
	return 0;
}

/* Read the next bytes, from s->at on; 0 at the end. A stop ends the wait for standard input. */
static ssize_t store_read(struct store *s, void *p, size_t n, struct err *e)
{
	ssize_t got = 0;
	int rc;

	if (s->stream) {
		while ((rc = poll_fd(s->fd, POLLIN, 200)) == 0)
			if (atomic_load(&s->w->f->stop))
				return err_set(e, -EINTR, "interrupted");
		got = rc < 0 ? rc : read(s->fd, p, n);
		s->w->once = true; /* a pipe cannot be read again */
		return got < 0 ? err_sys(e, rc < 0 ? rc : -errno, "standard input") : got;
	}

	if (n > s->size - s->at)
		n = (size_t)(s->size - s->at);
	if (s->fd < 0) {
		memset(p, 0, n);
		return (ssize_t)n;
	}

	if (n)
		got = pread_full(s->fd, p, n, (off_t)s->at);
	if (got < 0)
		return err_sys(e, (int)got, "%s", printable(s->t->here));
	if ((size_t)got == n)
		return got;
	s->changed = true;
	return err_set(e, -EIO, "%s: " FILE_CHANGED_WHY, printable(s->t->here));
}

/* ---- the part there ---- */

static char *store_name_beside(const struct store *s, const char *text, const char *suffix)
{
	char name[NAME_BESIDE_MAX] = PART_PREFIX;
	uint8_t digest[RUN_DIGEST_BYTES];
	size_t n = strlen(name);

	crypto_run_digest(digest, text, strlen(text));
	for (size_t i = 0; i < sizeof(digest); i++, n += 2)
		snprintf(name + n, sizeof(name) - n, "%02x", digest[i]);
	snprintf(name + n, sizeof(name) - n, "%s", suffix);
	return name_below(s->t->dir->there, name);
}

/* A part that is not resumed gets a name of its own, because other runs may put the same file
 * meanwhile. APPE appends at the end of the part, so a digest must have checked the whole part. */
static int store_name_part(struct store *s, struct err *e)
{
	const struct options *o = s->w->f->o;
	const struct fconn *c = s->w->conn;
	char *text = NULL;

	s->resumable = !o->no_resume && !o->inplace && !s->stream && s->fd >= 0 &&
		       s->size >= FOREIGN_RUN &&
		       (fconn_has(c, FCONN_REST) ||
			(fconn_has(c, FCONN_APPE) && fconn_has(c, FCONN_DIGESTS)));
	if (!s->resumable && !s->t->token)
		crypto_random(&s->t->token, sizeof(s->t->token));
	s->old = store_name_beside(s, s->name, FOREIGN_OLD);
	if (o->inplace) {
		s->part = strdup(s->t->there);
	} else if (asprintf(&text, "%s/%" PRIu64 "/%" PRId64 ".%" PRIu32 "/%ju.%ju/%jd.%09ld/%"
			    PRIx64, s->name, s->size, s->meta.mtime_s, s->meta.mtime_ns,
			    (uintmax_t)s->st.st_dev, (uintmax_t)s->st.st_ino,
			    (intmax_t)s->st.st_ctim.tv_sec, s->st.st_ctim.tv_nsec,
			    s->resumable ? 0 : s->t->token) >= 0) {
		s->part = store_name_beside(s, text, FOREIGN_PART);
		free(text);
	}
	return s->part && s->old ? 0 : err_nomem(e);
}

/* Set s->at to the number of bytes of the part that equal the beginning of the local file. */
static int store_find_part(struct store *s, struct err *e)
{
	char there[2 * DIGEST_MAX + 1], here[2 * DIGEST_MAX + 1];
	struct fconn *c = s->w->conn;
	const char *alg = NULL;
	uint64_t len;
	int rc;

	if (!s->resumable || fconn_size(c, s->part, &len, e) || !len || len > s->size)
		return fconn_lost(c, e);

	rc = fconn_digest(c, s->part, &alg, there, e);

	/* Without a digest, do not trust the last bytes: they may be wrong if either end has
	 * crashed. */
	if (rc == -EOPNOTSUPP || rc == -ENOSYS)
		s->at = len > FOREIGN_RUN && fconn_has(c, FCONN_REST) ? len - FOREIGN_RUN : 0;
	else if (rc || foreign_digest(s->w, s->fd, alg, len, s->name, here, e))
		log_info("%s: the part there cannot be compared and is sent anew: %s",
			 printable(s->name), e->text);
	else if (!strcmp(here, there))
		s->at = len;
	else
		log_info("%s: the part there differs and is sent anew", printable(s->name));
	return fconn_lost(c, e);
}

/* A fconn_source. The server has accepted the offset before the first call. */
static ssize_t store_give(void *arg, void *p, size_t n, struct err *e)
{
	struct store *s = arg;
	uint64_t most = s->w->f->o->rate / STEPS_PER_SECOND;
	ssize_t got;
	int rc = 0;

	if (!s->begun && s->at) {
		log_info("%s: %" PRIu64 " bytes are there already", printable(s->name), s->at);
		rc = foreign_moved(s->w, s->t, s->at, true, e);
	}
	if (!s->begun)
		s->went_on = s->at;
	s->begun = true;
	if (most < STEP_LEAST)
		most = STEP_LEAST;
	if (s->w->f->o->rate && n > most)
		n = (size_t)most;

	got = rc ? rc : store_read(s, p, n, e);
	if (got <= 0)
		return got;
	s->at += (uint64_t)got;
	rc = foreign_moved(s->w, s->t, (uint64_t)got, false, e);
	return rc ? rc : got;
}

/* Check that the source is unchanged, and that the part has the right size. */
static int store_check(struct store *s, struct err *e)
{
	uint64_t there;
	struct stat st;

	if (!s->t->item && (fstat(s->fd, &st) || (uint64_t)st.st_size != s->size ||
			    st.st_mtim.tv_sec != s->meta.mtime_s ||
			    (uint32_t)st.st_mtim.tv_nsec != s->meta.mtime_ns)) {
		s->changed = true;
		return err_set(e, -EIO, "%s: " FILE_CHANGED_WHY, printable(s->name));
	}

	if (fconn_size(s->w->conn, s->part, &there, e)) {
		if (fconn_lost(s->w->conn, e))
			return e->code;
		/* A server that resumed the part has told its size before. */
		return !s->went_on ? 0 :
		       err_set(e, -EIO, "%s: the server cannot tell the size of its part: %s",
			       printable(s->name), e->text);
	}
	if (there == s->at)
		return 0;
	s->differs = true;
	return err_set(e, -EIO, "%s: the server took %" PRIu64 " bytes and has %" PRIu64,
		       printable(s->name), s->at, there);
}

static void store_remove_part(struct store *s)
{
	struct err e = ERR_INIT;

	if (!s->w->f->o->inplace)
		fconn_simple(s->w->conn, FTP_DELE, s->part, &e);
}

static int store_send(struct store *s, struct err *e)
{
	int rc = store_find_part(s, e);

	while (rc == 0) {
		s->went_on = s->at;
		s->begun = false;
		/* A complete part lacks only its name. */
		if (s->at && s->at == s->size)
			rc = foreign_moved(s->w, s->t, s->at, true, e);
		else
			rc = fconn_store(s->w->conn, s->part, &s->at, store_give, s, e);
		if (rc == 0)
			rc = store_check(s, e);
		if (!s->differs || !s->went_on || s->w->f->o->inplace)
			break;

		/* Some servers ignore the offset: they append, or begin at byte 0. */
		log_info("%s; it is sent anew", e->text);
		store_remove_part(s);
		foreign_unmoved(s->w->f, s->t);
		s->at = 0;
		s->differs = false;
		rc = 0;
	}

	/* The next run cannot use a part with wrong bytes, or one that cannot be resumed. */
	if (rc && (s->changed || s->differs || !s->resumable))
		store_remove_part(s);
	else if (rc && s->at >= FOREIGN_RUN)
		atomic_store(&s->w->f->resumable, true);
	return rc;
}

/* ---- the file's attributes and name there ---- */

/* Does the target exist? 0: no; 1: a file or a link, which may be replaced; or a negative errno
 * with text. */
static int store_look_at_target(struct store *s, struct err *e)
{
	struct ftp_facts facts;
	char type;
	int rc = fconn_stat(s->w->conn, s->t->there, &facts, e);

	if (rc == -ENOENT)
		return 0;
	if (rc)
		return err_prefix(e, "%s: the server cannot tell whether it exists",
				  printable(s->t->there));
	type = facts.type;
	ftp_facts_clear(&facts);
	return type == 'f' || type == 'l' ? 1 :
	       err_set(e, -EISDIR, "%s: cannot be replaced by a file", printable(s->t->there));
}

/* A run that ended between two renames has left the target under another name: rename it back
 * before sending anything. */
static int store_restore_old(struct store *s, struct err *e)
{
	struct fconn *c = s->w->conn;
	int rc;

	if (s->w->f->o->inplace || s->t->dir->made)
		return 0;
	if (fconn_simple(c, FTP_RNFR, s->old, e))
		return fconn_lost(c, e);

	rc = store_look_at_target(s, e);
	if (rc > 0)
		fconn_simple(c, FTP_DELE, s->old, e);
	if (rc)
		return rc < 0 ? rc : 0;
	rc = fconn_rename(c, s->old, s->t->there, e);
	return rc ? err_prefix(e, "%s is on the server as %s and cannot get its name back",
			       printable(s->t->there), printable(s->old)) : 0;
}

/* For servers that do not rename over a file: keep it under another name until the rename works. */
static int store_rename_over(struct store *s, struct err *e)
{
	struct fconn *c = s->w->conn;
	struct err why = ERR_INIT;
	int rc = fconn_rename(c, s->t->there, s->old, e);

	if (rc)
		return rc;

	rc = fconn_rename(c, s->part, s->t->there, e);
	if (rc == 0 && fconn_simple(c, FTP_DELE, s->old, &why))
		log_warn("%s: the replaced file is still on the server as %s: %s",
			 printable(s->t->there), printable(s->old), why.text);
	else if (rc && fconn_rename(c, s->old, s->t->there, &why))
		err_set(e, e->code, "%s; and the old file is now on the server as %s: %s",
			e->text, printable(s->old), why.text);
	return rc;
}

static int store_give_name(struct store *s, struct err *e)
{
	struct fconn *c = s->w->conn;
	struct err why = ERR_INIT;
	int rc;

	if (s->w->f->o->inplace)
		return 0;
	rc = fconn_rename(c, s->part, s->t->there, e);
	if (rc == 0 || !fconn_usable(c))
		return rc;

	rc = store_look_at_target(s, &why);
	if (rc < 0) {
		*e = why;
		if (rc == -EISDIR)
			store_remove_part(s);
		return rc;
	}

	if (rc > 0) {
		rc = store_rename_over(s, e);
		if (rc == 0 || !fconn_usable(c))
			return rc;
	}
	return err_set(e, e->code == -EIO ? -EPERM : e->code, "%s: it is complete on the server as "
		       "%s but cannot be renamed (--inplace needs no renaming): %s",
		       printable(s->t->there), printable(s->part), e->text);
}

/* Set mode and time of path. A server that cannot is no error. */
static int store_attributes(struct store *s, const char *path, struct err *e)
{
	const struct options *o = s->w->f->o;
	struct fconn *c = s->w->conn;

	if (!s->t->item && !o->no_modes && fconn_set_mode(c, path, s->meta.mode & 0777, e) &&
	    fconn_usable(c) && fconn_warns(c, FCONN_SAID_MODES))
		log_warn("%s does not keep permission bits: %s", c->host, e->text);
	if (!s->t->item && !o->no_times && fconn_set_mtime(c, path, s->meta.mtime_s, e) &&
	    fconn_usable(c) && fconn_warns(c, FCONN_SAID_TIMES))
		log_warn("%s does not keep modification times: %s", c->host, e->text);
	return fconn_lost(c, e);
}

/* Send the bytes, and set the attributes and the name. */
static int store_file(struct store *s, struct err *e)
{
	int rc = store_name_part(s, e);

	if (rc == 0)
		rc = store_restore_old(s, e);
	if (rc == 0)
		rc = store_send(s, e);
	if (rc == 0)
		rc = store_attributes(s, s->part, e);
	return rc ? rc : store_give_name(s, e);
}

/* A foreign_step of a task. */
static int put_one_file(struct worker *w, void *arg, struct err *e)
{
	struct ftask *t = arg;
	struct store s = { .w = w, .t = t, .name = name_last(t->there) };
	struct ftp_facts here = { .has_size = true, .has_mtime = true }, *there = &t->facts;
	bool kept = false;
	int rc;

	foreign_unmoved(w->f, t);
	rc = store_open(&s, e);

	/* A listing's times are too coarse to compare. */
	if (rc == 0 && there->type && w->f->o->policy != POLICY_SKIP &&
	    (!there->has_mtime || there->time_about)) {
		there->has_mtime = !fconn_mtime(w->conn, t->there, &there->mtime_s,
						&there->mtime_ns, e);
		there->time_about = false;
		rc = fconn_lost(w->conn, e);
	}
	if (rc == 0) {
		here.size = s.size;
		here.mtime_s = s.meta.mtime_s;
		kept = foreign_keeps(w->f, &here, there);
	}
	if (kept && w->f->o->policy == POLICY_CHECKSUM) {
		rc = t->item ? 0 : foreign_same_content(w, t->there, s.fd, s.size, e);
		kept = rc > 0;
		rc = kept && !w->f->o->dry_run ? store_attributes(&s, t->there, e) :
		     rc < 0 ? rc : 0;
	}

	if (rc == 0 && !kept && !w->f->o->dry_run)
		rc = store_file(&s, e);
	if (rc == 0)
		foreign_done(w->f, t, kept || w->f->o->dry_run ? s.size : s.at, kept);
	if (error_is_lost(rc) && w->once)
		err_set(e, e->code, "%s; standard input cannot be sent again", e->text);
	if (s.fd > STDIN_FILENO)
		close(s.fd);
	free(s.part);
	free(s.old);
	return rc;
}

/* ---- directories ---- */

/* foreign_ops.look */
static int put_look(struct worker *w, const char *path, struct dest *d, struct err *e)
{
	struct ftp_facts f = { 0 };

	d->is_dir = !fconn_simple(w->conn, FTP_CWD, path, e);
	d->exists = d->is_dir || (fconn_usable(w->conn) && !fconn_stat(w->conn, path, &f, e));

	/* A directory that must not be entered counts, too. */
	d->is_dir |= f.type == 'd' || f.type == 'c' || f.type == 'p';
	ftp_facts_clear(&f);
	return fconn_lost(w->conn, e);
}

/* If the policy may keep files, get one listing instead of asking for each file. */
static int list_held(struct worker *w, struct fdir *d, struct err *e)
{
	int rc;

	if (w->f->o->policy == POLICY_OVERWRITE)
		return 0;
	rc = fconn_list(w->conn, d->there, &d->held, e);
	if (d->held.n)
		qsort(d->held.all, d->held.n, sizeof(*d->held.all), facts_by_name);
	return rc;
}

/* foreign_ops.make: create d unless it exists; in a dry run only check. */
static int put_make_dir(struct worker *w, void *arg, struct err *e)
{
	struct fdir *d = arg;
	const bool dry = w->f->o->dry_run;
	struct err why = ERR_INIT;
	struct dest is;
	int rc = dry ? -EEXIST : fconn_simple(w->conn, FTP_MKD, d->there, e);

	/* It may be made already: as the destination, or in an attempt that failed. */
	d->made |= rc == 0;
	if (rc == 0)
		return 0;
	if (put_look(w, d->there, &is, &why)) {
		*e = why;
		return e->code;
	}

	if (dry && !is.exists) {
		d->made = true;
		return 0;
	}

	if (!is.exists || !is.is_dir)
		return dry ? err_sys(e, -ENOTDIR, "%s", printable(d->there)) :
		       err_prefix(e, "%s", printable(d->there));
	return list_held(w, d, e);
}

static void put_leave_dir(struct worker *w, struct fdir *d)
{
	const struct options *o = w->f->o;
	struct fconn *c = w->conn;
	struct err e = ERR_INIT;

	if (!d->made || o->dry_run || !fconn_usable(c))
		return;

	if (d->has_mode && !o->no_modes && fconn_set_mode(c, d->there, d->meta.mode & 0777, &e))
		log_debug("%s", e.text);

	/* Only if the server has MFMT. Without it a refusal would mark the other ways as missing,
	 * and files need them. */
	if (d->has_time && !o->no_times && fconn_has(c, FCONN_MFMT) && !w->f->no_dir_times &&
	    fconn_set_mtime(c, d->there, d->meta.mtime_s, &e)) {
		log_debug("%s", e.text);
		w->f->no_dir_times = true;
	}
}

/* Queue a file. here: its local path, which is taken. */
static int push_file(struct worker *w, struct fdir *d, const char *name, char *here,
		     const struct transfer_item *item, uint64_t size, struct err *e)
{
	const struct ftp_facts key = { .name = (char *)(uintptr_t)name };
	const struct ftp_facts *held = d->held.n ?
		bsearch(&key, d->held.all, d->held.n, sizeof(key), facts_by_name) : NULL;
	struct ftask t = { .dir = d, .there = name_below(d->there, name), .here = here,
			   .item = item, .known = size };

	if (held) {
		t.facts = *held;
		t.facts.name = t.facts.target = NULL;
	}
	return foreign_push(w, &t, e);
}

/* The walk of a source. */
struct put_walk {
	struct worker *w;
	struct fdir *dir;
	uint64_t dev;        /* filesystem of the source */
	struct err *e;
};

/* known: size and time of m are known. */
static bool put_admits(const struct foreign *f, const char *path, const struct meta *m, bool known)
{
	const struct ftp_facts facts = {
		.type = m->type == FT_DIR ? 'd' : m->type == FT_FILE ? 'f' : 'l',
		.has_size = known, .size = m->size, .has_mtime = known, .mtime_s = m->mtime_s,
	};

	return foreign_admits(f, path, &facts);
}

/* Create d with the attributes m, and enter it. 0; or, after a reported error, WALK_PASS_OVER. */
static int put_enter_dir(struct put_walk *p, struct fdir *d, const struct meta *m)
{
	struct foreign *f = p->w->f;

	d->meta = *m;
	d->has_mode = d->has_time = true;
	if (foreign_try(p->w, put_make_dir, d, p->e)) {
		foreign_failed(f, d->here, p->e);
		return atomic_load(&f->stop) ? -ECANCELED : WALK_PASS_OVER;
	}
	if (f->o->dry_run && d->made)
		foreign_would_make(f, d->here);
	p->dir = d;
	return 0;
}

/* A walk_fn. */
static int put_walked(void *arg, const struct walk_item *it)
{
	struct put_walk *p = arg;
	struct foreign *f = p->w->f;
	CLEANUP_FREE char *path = NULL;
	struct fdir *d;
	int rc;

	if (atomic_load(&f->stop))
		return -ECANCELED;
	if (it->leaving) {
		facts_clear(&p->dir->held);
		p->dir = p->dir->parent;
		return 0;
	}

	path = name_below(p->dir->here, it->name);
	if (!path)
		return err_nomem(p->e);
	if (foreign_is_part(it->name) ||
	    !put_admits(f, path + p->dir->rel_at, &it->meta, !it->error))
		return it->meta.type == FT_DIR ? WALK_PASS_OVER : 0;
	if (it->error) {
		err_sys(p->e, it->error, "%s", printable(path));
		foreign_failed(f, path, p->e);
		return 0;
	}

	if (it->meta.type == FT_FILE)
		return push_file(p->w, p->dir, it->name, steal_ptr(&path), NULL, it->meta.size,
				 p->e);
	if (it->meta.type == FT_DIR) {
		d = fdir_sub(f, p->dir, it->name, p->e);
		rc = d ? put_enter_dir(p, d, &it->meta) : p->e->code;
		if (rc || !f->o->filter.one_filesystem || it->meta.dev == p->dev)
			return rc;
		p->dir = d->parent;
		return WALK_PASS_OVER;
	}
	foreign_left_out(f, path, it->meta.type != FT_LINK ? FILE_KIND_WHY :
			 f->o->follow ? "a link to a directory" :
			 "a link, which FTP cannot make (--follow copies its target)");
	return 0;
}

/* ---- sources ---- */

static struct fdir *put_open_dest(struct worker *w, const char *path, bool make, struct err *e)
{
	struct fdir *d = fdir_new(w->f, NULL, strdup(strcmp(path, ".") ? path : ""), strdup(""),
				  NULL, e);

	return d && !(make ? put_make_dir(w, d, e) : list_held(w, d, e)) ? d : NULL;
}

static int put_tree(struct worker *w, const struct foreign_source *s, const struct stat *st,
		    struct err *e)
{
	struct foreign *f = w->f;
	struct put_walk p = { .w = w, .dev = st->st_dev, .e = e };
	struct meta meta;
	struct fdir *d;
	int fd, rc;

	if (!f->o->recursive)
		return err_set(e, -EISDIR, "%s: is a directory (-r copies it)", printable(s->path));

	fd = root_open(f->job->root, s->path, O_RDONLY | O_DIRECTORY, 0);
	if (fd < 0)
		return err_sys(e, fd, "%s", printable(s->path));

	d = fdir_new(f, s->into, s->itself ? strdup(s->into->there) :
		     name_below(s->into->there, s->name), strdup(s->path),
		     dir_top(f->dirs, fd, s->path), e);
	if (!d)
		return e->code;

	d->rel_at = foreign_rel_at(s, s->path);
	d->made = s->itself && s->into->made;
	meta_from_stat(&meta, st);
	rc = put_enter_dir(&p, d, &meta);
	if (rc == 0)
		rc = d->local ? walk_tree(d->local, 0, f->o->follow ? f->job->root : NULL,
					  put_walked, &p) : -ENOMEM;

	/* If e has a code, it has the text, too. */
	if (rc < 0 && !e->code)
		err_sys(e, rc, "%s", printable(s->path));
	return rc < 0 ? rc : 0;
}

static void put_source(struct worker *w, size_t i)
{
	struct foreign *f = w->f;
	const struct transfer_item *item = &f->job->items[i];
	const bool zero = item->kind == ITEM_ZERO, stream = item->kind != ITEM_PATH;
	struct foreign_source s = { .path = !stream ? item->path : zero ? "zero" : "stdin",
				.rel = f->job->targets ? f->job->targets[i] : NULL };
	struct stat st = { .st_mode = S_IFREG };
	struct err e = ERR_INIT;
	struct meta m;
	int rc = stream ? 0 : root_stat(f->job->root, s.path, true, &st);

	s.dir = S_ISDIR(st.st_mode);
	if (rc)
		err_sys(&e, rc, "%s", printable(s.path));
	else if (!S_ISREG(st.st_mode) && !s.dir)
		rc = err_set(&e, -EINVAL, "%s: " FILE_KIND_WHY, printable(s.path));

	meta_from_stat(&m, &st);
	if (rc == 0 && !stream && !put_admits(f, s.path + foreign_rel_at(&s, s.path), &m, true))
		return;
	if (rc == 0)
		rc = foreign_try(w, foreign_find_dest, &s, &e);
	if (rc == 0 && s.dir)
		rc = put_tree(w, &s, &st, &e);
	else if (rc == 0)
		rc = push_file(w, s.into, s.name,
			       strdup(!stream ? s.path : zero ? "zero:" : "-"),
			       stream ? item : NULL, stream ? item->size : (uint64_t)st.st_size,
			       &e);
	if (rc)
		foreign_failed(f, stream ? "" : s.path, &e);
}

enum exit_status foreign_put(const struct foreign_job *job)
{
	static const struct foreign_ops ops = {
		.look = put_look, .open = put_open_dest, .make = put_make_dir, .source = put_source,
		.file = put_one_file, .leave = put_leave_dir,
	};

	return foreign_run(&ops, job, job->path);
}
