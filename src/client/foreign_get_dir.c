// SPDX-License-Identifier: Apache-2.0
/* A directory of a get from a foreign server: listed there, made here, its entries become tasks. */
#include "client/foreign_get.h"

#include "client/names.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- one is made ---- */

/* Make name in d, for one called sub. It may be there. */
int get_make_dir(struct foreign *f, struct fdir *d, const char *name, struct fdir *sub,
		    struct err *e)
{
	struct stat st;
	int dfd, rc = 0;

	if (f->o->dry_run) {
		if (!d->local || root_stat(f->job->root, sub->shown, false, &st))
			foreign_would_make(f, sub->shown);
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

void get_dir_facts(struct fdir *d, const struct ftp_facts *f)
{
	d->has_mode = f->has_mode;
	d->unique = f->unique;
	d->meta.mode = f->mode & 0777;
	d->has_time = f->has_mtime && !f->time_about;
	d->meta.mtime_s = f->mtime_s;
	d->meta.mtime_ns = f->mtime_ns;
}

/* ---- one is listed ---- */

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

int get_push_dir(struct foreign *f, struct fdir *sub)
{
	struct ftask *t = ftask_new(FTASK_DIR, sub);

	fdir_put(NULL, sub); /* the task's now; not the last reference unless there is no memory */
	if (!t)
		return -ENOMEM;
	foreign_push(f, t);
	return 0;
}

int get_push_file(struct foreign *f, struct fdir *d, const char *name, char *remote,
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
int get_resolve(struct worker *w, const char *remote, struct ftp_facts *f, struct err *e)
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
		rc = remote ? get_resolve(w, remote, facts, e) : err_sys(e, -ENOMEM, "names");
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
		sub = fdir_sub(d, facts->name, f->o->dry_run);
		if (sub && is_above(d, facts->unique))
			rc = err_set(e, -ELOOP, "%s: a link that leads to a directory which it is "
				     "in: not followed", printable(remote));
		else
			rc = sub ? get_make_dir(f, d, facts->name, sub, e) : -ENOMEM;
		if (sub && rc) {
			foreign_failed(f, sub->shown, e);
			fdir_put(NULL, sub);
			e->code = 0;
			return 0;
		}
		if (sub)
			get_dir_facts(sub, facts);
		rc = sub ? get_push_dir(f, sub) : rc;
	} else if (facts->type == 'f' || facts->type == 'l') {
		rc = get_push_file(f, d, facts->name, steal_ptr(&remote), facts, false);
	} else {
		foreign_left_out(f, remote, "not a file, directory or link");
	}
	return rc ? err_sys(e, rc, "names") : 0;
}

int get_dir(struct worker *w, struct ftask *t, struct err *e)
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

void get_leave(struct worker *w, struct fdir *d)
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
	if (r)
		log_debug("%s: its mode is not set: %s", printable(d->shown), strerror(-r));
	if (d->has_time && !o->no_times && utimensat(dfd, ".", t, 0))
		log_debug("%s: its time is not set: %s", printable(d->shown), strerror(errno));
	if (o->ack >= ACK_SYNCED && sync_dir(dfd))
		log_warn("%s could not be synced", printable(d->shown));
	dir_unpin(d->local);
}
