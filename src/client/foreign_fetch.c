// SPDX-License-Identifier: Apache-2.0
/* One file from a foreign server: by RETR into a part, from where an earlier run left it. */
#include "client/foreign.h"

#include "client/names.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file under way. */
struct fetch {
	struct worker *w;
	struct ftask *t;
	struct ftp_facts *facts;  /* t's */
	struct part *part;        /* NULL: to standard output, or nowhere */
	uint64_t at;              /* bytes that are down */
};

/* ---- what is to be known of it ---- */

/* What the listing has left open. A time is asked for only where it is kept or compared. */
static int complete(struct worker *w, struct ftask *t, struct err *e)
{
	struct ftp_facts *f = &t->facts;
	struct err why = ERR_INIT;

	if (!f->has_size && ftp_size(w->client, t->remote, &f->size, &why) == 0)
		f->has_size = true;
	if ((!f->has_mtime || f->time_about) && ftp_client_usable(w->client) &&
	    ftp_mtime(w->client, t->remote, &f->mtime_s, &f->mtime_ns, &why) == 0) {
		f->has_mtime = true;
		f->time_about = false;
	}
	if (!ftp_client_usable(w->client)) {
		*e = why;
		return e->code ? e->code : (e->code = -EPIPE);
	}
	if (f->has_size)
		foreign_known(w->f, t, f->size);
	return 0;
}

static bool times_differ(const struct ftp_facts *a, const struct ftp_facts *b)
{
	return a->has_mtime && b->has_mtime &&
	       (a->mtime_s != b->mtime_s ||
		(a->mtime_ns && b->mtime_ns && a->mtime_ns != b->mtime_ns));
}

/* Is the file there still as its facts have it? What the server cannot tell counts as unchanged.
 * now: its size and time, where they differ. 1: yes; 0; or a negative errno with text. */
static int unchanged(struct fetch *f, struct ftp_facts *now, struct err *e)
{
	const struct ftp_facts *was = f->facts;
	struct ftp_client *c = f->w->client;
	struct err why = ERR_INIT;
	const char *remote = f->t->remote;

	*now = (struct ftp_facts){ 0 };
	if (!was->has_mtime || was->time_about)
		return 1;
	/* Where the listing's time is from; another way of asking need not give the same. */
	if (ftp_has(c, FTP_HAS_MLST) && ftp_stat(c, remote, now, &why))
		*now = (struct ftp_facts){ 0 };
	if (now->type != 'f') /* a link's own, where it is followed */
		ftp_facts_clear(now);
	if (!now->has_size && ftp_client_usable(c))
		now->has_size = !ftp_size(c, remote, &now->size, &why);
	if ((!now->has_mtime || times_differ(now, was)) && ftp_client_usable(c))
		now->has_mtime = !ftp_mtime(c, remote, &now->mtime_s, &now->mtime_ns, &why);
	if (!ftp_client_usable(c)) {
		ftp_facts_clear(now);
		*e = why;
		return e->code ? e->code : (e->code = -EPIPE);
	}
	return !(now->has_size && was->has_size && now->size != was->size) &&
	       !times_differ(now, was);
}

/* Behind the last byte. */
static int check_unchanged(struct fetch *f, struct err *e)
{
	struct ftp_facts now;
	int rc = unchanged(f, &now, e);

	if (rc < 0)
		return rc;
	ftp_facts_clear(&now);
	return rc ? 0 : err_set(e, -EIO, "%s: it changed while it was read",
				printable(f->t->remote));
}

static bool same_time(const struct ftp_facts *f, const struct stat *st)
{
	return f->has_mtime && !f->time_about && f->mtime_s == st->st_mtim.tv_sec &&
	       (!f->mtime_ns || f->mtime_ns == (uint32_t)st->st_mtim.tv_nsec);
}

/* By how much a listing's time may be too early: it may stand for a whole day, and of a time zone
 * that is not known. */
#define TIME_ABOUT_S (36 * 3600)

/* Is the file that has the name to be left alone? */
static bool keeps_old(struct worker *w, const struct ftask *t)
{
	const struct ftp_facts *f = &t->facts;
	struct dir *dir = t->dir->local;
	int dfd = dir ? dir_pin(dir) : -1;
	struct stat st;
	bool there;

	if (dfd < 0)
		return false;
	there = !fstatat(dfd, t->name, &st, AT_SYMLINK_NOFOLLOW);
	dir_unpin(dir);
	if (!there)
		return false;
	switch (w->f->o->policy) {
	case POLICY_SKIP:
		return true;
	case POLICY_UPDATE:
		return f->has_mtime &&
		       f->mtime_s + (f->time_about ? TIME_ABOUT_S : 0) <= st.st_mtim.tv_sec;
	case POLICY_SAME:
		return S_ISREG(st.st_mode) && f->has_size && f->size == (uint64_t)st.st_size &&
		       same_time(f, &st);
	default:
		return false;
	}
}

/* ---- its bytes ---- */

/* Bytes come by one stream: those at the front are down. */
static int extend_front(void *arg, const struct part_run *run)
{
	uint64_t *end = arg;

	if (run->offset == *end)
		*end += run->length;
	return 0;
}

static struct part *begin_part(struct fetch *f, struct err *e)
{
	const struct options *o = f->w->f->o;
	const struct ftp_facts *facts = f->facts;
	struct part_spec s = {
		.dir = f->t->dir->local,
		.name = f->t->name,
		.meta = { .type = FT_FILE, .size = facts->has_size ? facts->size : 0,
			  .mtime_s = facts->mtime_s, .mtime_ns = facts->mtime_ns },
		.set_mode = facts->has_mode && !o->no_modes,
		.set_times = facts->has_mtime && !facts->time_about && !o->no_times,
		.inplace = o->inplace,
		/* Without both it could be another file that is gone on with. */
		.journal = !o->no_resume && facts->has_size && facts->has_mtime &&
			   !facts->time_about && facts->size >= FOREIGN_RUN,
		.sync = o->ack >= ACK_SYNCED,
	};

	s.meta.mode = s.set_mode ? facts->mode & 0777 : 0666 & ~f->w->f->umask;
	return part_begin(&s, e);
}

/* The file is another one now: take that, from its first byte on. */
static int begin_anew(struct fetch *f, const struct ftp_facts *now, struct err *e)
{
	if (now->has_size)
		f->facts->size = now->size;
	if (now->has_mtime) {
		f->facts->mtime_s = now->mtime_s;
		f->facts->mtime_ns = now->mtime_ns;
	}
	log_info("%s has changed: it is got anew", printable(f->t->remote));
	foreign_known(f->w->f, f->t, f->facts->size);
	part_abandon(f->part, false);
	part_free(f->part);
	f->at = 0;
	f->part = begin_part(f, e);
	return f->part ? 0 : e->code;
}

static int resume(struct fetch *f, struct err *e)
{
	const uint64_t size = f->facts->size;
	struct ftp_facts now;
	int rc;

	f->at = 0;
	if (part_runs(f->part, extend_front, &f->at, e) < 0)
		return e->code;
	if (!f->at)
		return 0;
	if (f->at < size && !ftp_has(f->w->client, FTP_HAS_REST)) {
		f->at = 0;
		return 0;
	}
	rc = unchanged(f, &now, e);
	if (rc <= 0) {
		rc = rc < 0 ? rc : begin_anew(f, &now, e);
		ftp_facts_clear(&now);
		return rc;
	}
	ftp_facts_clear(&now);
	log_info("%s: %llu bytes are there already", printable(f->t->remote),
		 (unsigned long long)f->at);
	return foreign_moved(f->w, f->at, true, e);
}

static int put_down(struct fetch *f, size_t n, struct err *e)
{
	int rc = 0;

	if (!f->part && f->w->f->job->to->kind == ITEM_STDIO) {
		f->t->once = true; /* the reader has had them */
		rc = write_full(STDOUT_FILENO, f->w->room, n);
	} else if (f->part) {
		rc = pwrite_full(part_fd(f->part), f->w->room, n, (off_t)f->at);
	}
	if (rc)
		/* Not the server's connection. */
		return err_sys(e, rc == -EPIPE ? -EIO : rc, "%s: cannot be written",
			       printable(f->part ? f->t->name : "standard output"));
	if (f->part && f->facts->has_size && n) {
		struct part_run run = { .offset = f->at, .length = (uint32_t)n };

		crypto_run_digest(run.digest, f->w->room, n);
		rc = part_note_run(f->part, &run);
	}
	f->at += n;
	return rc ? err_sys(e, rc, "%s: its journal", printable(f->t->name)) : 0;
}

/* A run, shorter only at the end. */
static ssize_t read_run(struct fetch *f, struct ftp_data *d, struct err *e)
{
	size_t have = 0;

	while (have < FOREIGN_RUN) {
		ssize_t n = ftp_data_read(d, (char *)f->w->room + have,
					  foreign_step(f->w->f, FOREIGN_RUN - have), e);
		int rc;

		if (n == 0)
			break;
		rc = n < 0 ? (int)n : foreign_moved(f->w, (uint64_t)n, false, e);
		if (rc < 0)
			return rc;
		have += (size_t)n;
	}
	return (ssize_t)have;
}

static int wrong_length(const struct fetch *f, struct err *e)
{
	return err_set(e, -EIO, "%s: the server sent %llu bytes and said that all is well, but the "
		       "file had %llu", printable(f->t->remote), (unsigned long long)f->at,
		       (unsigned long long)f->facts->size);
}

static int receive(struct fetch *f, struct err *e)
{
	struct ftp_data *d = ftp_retrieve(f->w->client, f->t->remote, f->at,
					  f->w->f->o->rate, e);
	const bool sized = f->facts->has_size;
	ssize_t n;
	int rc = d ? 0 : e->code;

	while (rc == 0 && (n = read_run(f, d, e)) != 0)
		rc = n < 0 ? (int)n : sized && f->at + (uint64_t)n > f->facts->size ?
		     (f->at += (uint64_t)n, wrong_length(f, e)) : put_down(f, (size_t)n, e);
	if (rc) {
		ftp_data_drop(d);
		return rc;
	}
	rc = ftp_data_end(d, sized && f->at == f->facts->size, e);
	return rc || !sized || f->at == f->facts->size ? rc : wrong_length(f, e);
}

/* ---- the file ---- */

static int commit(struct fetch *f, struct err *e)
{
	int rc = f->facts->has_size ? 0 : part_set_size(f->part, f->at);

	if (rc)
		return err_sys(e, rc, "%s", printable(f->t->name));
	if (f->w->f->o->ack >= ACK_SYNCED)
		rc = part_sync(f->part, e);
	return rc ? rc : part_commit(f->part, e);
}

static int fetch(struct fetch *f, struct err *e)
{
	int rc = 0;

	if (f->w->f->job->to->kind == ITEM_PATH) {
		f->part = begin_part(f, e);
		if (!f->part)
			return e->code;
		rc = resume(f, e);
	}
	if (rc == 0 && !(f->part && f->facts->has_size && f->at == f->facts->size && f->at))
		rc = receive(f, e);
	if (rc == 0)
		rc = check_unchanged(f, e);
	if (rc == 0 && f->part)
		rc = commit(f, e);
	/* What is wrong with its bytes is no use to the next run. */
	if (rc && f->part) {
		if (rc != -EIO && part_resumable(f->part))
			atomic_store(&f->w->f->resumable, true);
		part_abandon(f->part, rc != -EIO);
	}
	part_free(f->part);
	return rc;
}

/* ---- links ---- */

static int put_link(const struct ftask *t, struct err *e)
{
	char temporary[sizeof(PART_PREFIX) + 2 * RUN_DIGEST_BYTES + 1];
	char hex[2 * RUN_DIGEST_BYTES + 1];
	int dfd = dir_pin(t->dir->local), rc = 0;

	if (dfd < 0)
		return err_sys(e, dfd, "%s", printable(t->dir->shown));
	/* Not a name that the part of a file has. */
	foreign_hex(hex, t->remote);
	snprintf(temporary, sizeof(temporary), "%s%s", PART_PREFIX, hex);
	unlinkat(dfd, temporary, 0);
	if (symlinkat(t->facts.target, dfd, temporary)) {
		rc = -errno;
	} else if (renameat(dfd, temporary, dfd, t->name)) {
		rc = -errno;
		unlinkat(dfd, temporary, 0);
	}
	dir_unpin(t->dir->local);
	return rc ? err_sys(e, rc, "%s: the link cannot be made", printable(t->name)) : 0;
}

static int get_link(struct worker *w, struct ftask *t, const char *shown, struct err *e)
{
	bool kept = keeps_old(w, t);
	int rc = 0;

	if (!t->facts.target) {
		foreign_left_out(w->f, shown, "a link, and the server does not say where to "
				 "(--follow copies what it leads to)");
		return 0;
	}
	if (!kept && !w->f->o->dry_run)
		rc = put_link(t, e);
	if (rc == 0)
		foreign_done(w->f, shown, 0, kept);
	return rc;
}

/* ---- a task ---- */

int foreign_get_file(struct worker *w, struct ftask *t, struct err *e)
{
	struct fetch f = { .w = w, .t = t, .facts = &t->facts };
	CLEANUP_FREE char *shown = *t->dir->shown ? name_below(t->dir->shown, t->name) :
				   strdup(t->name);
	bool kept;
	int rc;

	if (!shown)
		return err_sys(e, -ENOMEM, "names");
	if (t->facts.type == 'l' && w->f->job->to->kind == ITEM_PATH)
		return get_link(w, t, shown, e);
	rc = complete(w, t, e);
	if (rc)
		return rc;
	kept = keeps_old(w, t);
	if (kept || w->f->o->dry_run) {
		foreign_done(w->f, shown, t->facts.size, kept);
		foreign_passed(w->f, t->facts.has_size ? t->facts.size : 0);
		return 0;
	}
	rc = fetch(&f, e);
	if (rc == 0)
		foreign_done(w->f, shown, f.at, false);
	return rc;
}
