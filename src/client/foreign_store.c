// SPDX-License-Identifier: Apache-2.0
/* One file to a foreign server: by STOR under the name of a part, which gets the file's when it is
 * whole. A part's name tells of which file and state it is, so that only that is gone on with. */
#include "client/foreign_store.h"

#include "client/names.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- here ---- */

static int open_file(struct store *s, struct err *e)
{
	const struct ftask *t = s->t;
	int dfd, rc;

	if (t->local) {
		s->fd = root_open(s->w->f->job->root, t->local, O_RDONLY, 0);
	} else {
		dfd = dir_pin(t->dir->local);
		s->fd = dfd < 0 ? dfd : openat(dfd, t->name, O_RDONLY | O_CLOEXEC | O_NONBLOCK |
					       (s->w->f->o->follow ? 0 : O_NOFOLLOW));
		if (dfd >= 0 && s->fd < 0)
			s->fd = -errno;
		if (dfd >= 0)
			dir_unpin(t->dir->local);
	}
	rc = s->fd < 0 ? s->fd : fstat(s->fd, &s->st) ? -errno :
	     S_ISREG(s->st.st_mode) ? 0 : -EINVAL;
	if (rc)
		return err_sys(e, rc, "%s", printable(t->local ? t->local : t->name));
	meta_from_stat(&s->meta, &s->st);
	s->size = s->meta.size;
	foreign_known(s->w->f, s->t, s->size);
	return 0;
}

static int open_source(struct store *s, struct err *e)
{
	const struct transfer_item *item = s->t->item;
	struct timespec now;

	s->fd = -1;
	if (!item)
		return open_file(s, e);
	clock_gettime(CLOCK_REALTIME, &now);
	s->meta = (struct meta){ .type = FT_FILE, .mode = 0644, .mtime_s = now.tv_sec };
	s->stream = item->kind == ITEM_STDIO;
	s->size = item->size;
	if (s->stream)
		s->fd = STDIN_FILENO;
	return 0;
}

/* Whoever types may take his time, but a stop is a stop. */
static ssize_t read_stream(struct store *s, struct err *e)
{
	size_t have = 0;

	while (have < FOREIGN_RUN) {
		int rc = poll_fd(s->fd, POLLIN, 200);
		ssize_t n;

		if (atomic_load(&s->w->f->stop))
			return err_set(e, -EINTR, "interrupted");
		if (rc == 0)
			continue;
		n = rc < 0 ? rc : read(s->fd, (char *)s->w->room + have, FOREIGN_RUN - have);
		if (n < 0)
			return err_sys(e, rc < 0 ? rc : -errno, "standard input");
		s->t->once = true; /* what came from a pipe is gone */
		if (n == 0)
			break;
		have += (size_t)n;
	}
	return (ssize_t)have;
}

/* The next bytes, from s->at on; 0 at the end. */
static ssize_t read_next(struct store *s, struct err *e)
{
	uint64_t left = s->size - s->at;
	size_t n = left < FOREIGN_RUN ? (size_t)left : FOREIGN_RUN;
	ssize_t got;

	if (s->stream)
		return read_stream(s, e);
	if (s->fd < 0) {
		memset(s->w->room, 0, n);
		return (ssize_t)n;
	}
	got = n ? pread_full(s->fd, s->w->room, n, (off_t)s->at) : 0;
	if (got < 0)
		return err_sys(e, (int)got, "%s", printable(s->t->name));
	if ((size_t)got < n) {
		s->changed = true;
		return err_set(e, -EIO, "%s: it became shorter while it was read",
			       printable(s->t->name));
	}
	return got;
}

/* ---- what is there ---- */

static bool is_known_same(const struct store *s, const struct ftp_facts *f)
{
	return f->has_size && f->size == s->size && f->has_mtime && !f->time_about &&
	       f->mtime_s == s->meta.mtime_s;
}

/* A listing's times are too coarse to compare. */
static int refine(struct store *s, struct ftp_facts *f)
{
	struct err e = ERR_INIT;

	if (f->has_mtime && !f->time_about)
		return 0;
	f->has_mtime = !ftp_mtime(s->w->client, s->t->remote, &f->mtime_s, &f->mtime_ns, &e);
	f->time_about = false;
	return ftp_client_usable(s->w->client) ? 0 : e.code;
}

/* 1: the file that has the name is to be left alone; 0; or a negative errno. */
static int keeps_old(struct store *s, struct err *e)
{
	const struct ftp_facts *there = there_find(s->t->dir->there, s->t->name);
	struct ftp_facts f;
	int rc;

	if (!there || s->w->f->o->policy == POLICY_OVERWRITE)
		return 0;
	if (s->w->f->o->policy == POLICY_SKIP)
		return 1;
	f = *there;
	rc = refine(s, &f);
	if (rc)
		return err_set(e, rc, "connection lost");
	if (s->w->f->o->policy == POLICY_UPDATE)
		return f.has_mtime && s->meta.mtime_s <= f.mtime_s;
	return is_known_same(s, &f);
}

/* ---- the part ---- */

static bool has_digests(const struct ftp_client *c)
{
	return ftp_has(c, FTP_HAS_HASH) || ftp_has(c, FTP_HAS_XSHA256) ||
	       ftp_has(c, FTP_HAS_XSHA512) || ftp_has(c, FTP_HAS_XSHA1) ||
	       ftp_has(c, FTP_HAS_XMD5);
}

/* APPE goes on only where the part ends, which must be right for that. */
static bool may_go_on(const struct ftp_client *c)
{
	return ftp_has(c, FTP_HAS_REST) || (ftp_has(c, FTP_HAS_APPE) && has_digests(c));
}

/* What no run goes on with is this task's alone: others may put the same file meanwhile. */
static int name_part(struct store *s, struct err *e)
{
	const struct options *o = s->w->f->o;
	char *text;

	s->resumable = !o->no_resume && !o->inplace && !s->stream && s->fd >= 0 &&
		       s->size >= FOREIGN_RUN && may_go_on(s->w->client);
	if (!s->resumable && !s->t->token)
		crypto_random(&s->t->token, sizeof(s->t->token));
	if (o->inplace) {
		s->part = strdup(s->t->remote);
	} else if (asprintf(&text, "%s/%" PRIu64 "/%" PRId64 ".%" PRIu32 "/%ju.%ju/%jd.%09ld/%"
			    PRIx64, s->t->name, s->size, s->meta.mtime_s, s->meta.mtime_ns,
			    (uintmax_t)s->st.st_dev, (uintmax_t)s->st.st_ino,
			    (intmax_t)s->st.st_ctim.tv_sec, s->st.st_ctim.tv_nsec,
			    s->resumable ? 0 : s->t->token) >= 0) {
		s->part = store_name_beside(s, text, FOREIGN_PART);
		free(text);
	}
	return s->part ? 0 : err_sys(e, -ENOMEM, "names");
}

/* Of what is here, the first len bytes. */
static int digest_here(struct store *s, const char *alg, uint64_t len, char *hex, struct err *e)
{
	struct digest *d = digest_new(alg);
	ssize_t n = d ? 0 : -ENOMEM;

	for (uint64_t at = 0; n >= 0 && at < len; at += (uint64_t)n) {
		uint64_t left = len - at;

		n = pread_full(s->fd, s->w->room, left < FOREIGN_RUN ? (size_t)left : FOREIGN_RUN,
			       (off_t)at);
		if (n > 0)
			n = digest_update(d, s->w->room, (size_t)n) ? -EIO : n;
		else if (n == 0)
			n = -EIO;
	}
	if (n >= 0)
		n = digest_final_hex(d, hex);
	digest_free(d);
	return n < 0 ? err_sys(e, (int)n, "%s", printable(s->t->name)) : 0;
}

/* Where to go on when the server cannot tell what it has: what came last need not be down as it was
 * sent, when either end went without a word. */
static uint64_t step_back(const struct store *s, uint64_t len)
{
	return len > FOREIGN_RUN && ftp_has(s->w->client, FTP_HAS_REST) ? len - FOREIGN_RUN : 0;
}

/* How many of the part's len bytes are the beginning of what is here. */
static uint64_t part_fits(struct store *s, uint64_t len, struct err *e)
{
	char there[2 * DIGEST_MAX + 1], here[2 * DIGEST_MAX + 1];
	const char *alg = NULL;
	int rc = ftp_digest(s->w->client, s->part, &alg, len, there, e);

	if (rc == -EOPNOTSUPP || rc == -ENOSYS) {
		log_debug("%s: the part's size is all that is compared: %s", printable(s->t->name),
			  e->text);
		return step_back(s, len);
	}
	if (rc || digest_here(s, alg, len, here, e)) {
		log_info("%s: what is there of it cannot be compared and is sent anew: %s",
			 printable(s->t->name), e->text);
		return 0;
	}
	if (!strcmp(here, there))
		return len;
	log_info("%s: what is there of it differs and is sent anew", printable(s->t->name));
	return 0;
}

static int find_part(struct store *s, struct err *e)
{
	struct err why = ERR_INIT;
	uint64_t there;

	if (!s->resumable)
		return 0;
	if (ftp_size(s->w->client, s->part, &there, &why) == 0 && there && there <= s->size)
		s->at = part_fits(s, there, &why);
	if (!ftp_client_usable(s->w->client)) {
		*e = why;
		return e->code ? e->code : (e->code = -EPIPE);
	}
	return 0;
}

/* ---- sending ---- */

/* n bytes that have been read. */
static int send_run(struct store *s, struct ftp_data *d, size_t n, struct err *e)
{
	int rc = 0;

	for (size_t at = 0, step; rc == 0 && at < n; at += step) {
		step = foreign_step(s->w->f, n - at);
		rc = ftp_data_write(d, (const char *)s->w->room + at, step, e);
		if (rc == 0) {
			s->at += step;
			rc = foreign_moved(s->w, step, false, e);
		}
	}
	return rc;
}

static int send_rest(struct store *s, struct ftp_data *d, struct err *e)
{
	ssize_t n;
	int rc = 0;

	while (rc == 0 && (n = read_next(s, e)) != 0)
		rc = n < 0 ? (int)n : send_run(s, d, (size_t)n, e);
	return rc;
}

/* Whole is what has the source's size there, and a source that is still what it was. */
static int check_whole(struct store *s, struct err *e)
{
	struct err why = ERR_INIT;
	uint64_t there;
	struct stat st;

	if (!s->t->item && (fstat(s->fd, &st) || (uint64_t)st.st_size != s->size ||
			    st.st_mtim.tv_sec != s->meta.mtime_s ||
			    (uint32_t)st.st_mtim.tv_nsec != s->meta.mtime_ns)) {
		s->changed = true;
		return err_set(e, -EIO, "%s: it changed while it was read", printable(s->t->name));
	}
	if (ftp_size(s->w->client, s->part, &there, &why)) {
		if (ftp_client_usable(s->w->client) && !s->went_on)
			return 0; /* it cannot tell */
		*e = why;
		/* It could when there was a part to be found. */
		return ftp_client_usable(s->w->client) ?
		       err_set(e, -EIO, "%s: the server cannot tell what it has of it: %s",
			       printable(s->t->name), why.text) : e->code;
	}
	if (there == s->at)
		return 0;
	s->differs = true;
	return err_set(e, -EIO, "%s: the server took %" PRIu64 " bytes and has %" PRIu64,
		       printable(s->t->name), s->at, there);
}

static int send_part(struct store *s, struct err *e)
{
	uint64_t there = s->at;
	struct ftp_data *d;
	int rc;

	/* A part that is whole only lacks its name. */
	s->went_on = s->at;
	if (s->at && s->at == s->size)
		return foreign_moved(s->w, s->at, true, e);
	d = ftp_store(s->w->client, s->part, &s->at, e);
	if (!d)
		return e->code;
	s->went_on = s->at;
	if (s->at) {
		log_info("%s: %" PRIu64 " bytes are there already", printable(s->t->name), there);
		foreign_moved(s->w, s->at, true, e);
	}
	rc = send_rest(s, d, e);
	if (rc) {
		ftp_data_drop(d);
		return rc;
	}
	return ftp_data_end(d, true, e);
}

/* ---- a task ---- */

static int remove_part(struct store *s)
{
	struct err e = ERR_INIT;

	if (s->part && !s->w->f->o->inplace && ftp_client_usable(s->w->client))
		ftp_simple(s->w->client, FTP_DELE, s->part, NULL, &e);
	return ftp_client_usable(s->w->client) ? 0 : -EPIPE;
}

static int send_whole(struct store *s, struct err *e)
{
	int rc = find_part(s, e);

	if (rc == 0)
		rc = send_part(s, e);
	if (rc == 0)
		rc = check_whole(s, e);
	if (!s->differs || !s->went_on || s->w->f->o->inplace)
		return rc;
	/* Some servers append, or begin anew, wherever they were told to go on. */
	log_info("%s; it is sent anew", e->text);
	if (remove_part(s))
		return rc;
	foreign_unmoved(s->w);
	s->at = 0;
	s->differs = false;
	e->code = 0;
	rc = send_part(s, e);
	return rc ? rc : check_whole(s, e);
}

static int store(struct store *s, struct err *e)
{
	int rc = name_part(s, e);

	if (rc == 0)
		rc = store_restore_old(s, e);
	if (rc)
		return rc;
	rc = send_whole(s, e);
	/* What is wrong with its bytes is no use to the next run; what can never be gone on with
	 * neither. */
	if (rc && (s->changed || s->differs || !s->resumable))
		remove_part(s);
	else if (rc && s->at >= FOREIGN_RUN)
		atomic_store(&s->w->f->resumable, true);
	if (rc == 0)
		rc = store_dress(s, e);
	return rc ? rc : store_give_name(s, e);
}

int foreign_put_file(struct worker *w, struct ftask *t, struct err *e)
{
	struct store s = { .w = w, .t = t };
	CLEANUP_FREE char *shown = t->local ? strdup(t->local) : name_below(t->dir->shown, t->name);
	int rc = shown ? open_source(&s, e) : err_sys(e, -ENOMEM, "names"), kept = 0;

	if (rc == 0)
		rc = kept = keeps_old(&s, e);
	if (rc == 1 || (rc == 0 && w->f->o->dry_run)) {
		foreign_done(w->f, shown, s.size, kept);
		foreign_passed(w->f, s.size);
		rc = 0;
	} else if (rc == 0) {
		rc = store(&s, e);
		if (rc == 0)
			foreign_done(w->f, shown, s.at, false);
		if (exit_is_lost(rc) && t->once)
			err_set(e, e->code, "%s; what came from standard input cannot be sent "
				"again", e->text);
	}
	if (s.fd > STDIN_FILENO)
		close(s.fd);
	free(s.part);
	return rc;
}
