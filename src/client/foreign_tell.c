// SPDX-License-Identifier: Apache-2.0
/* What the workers of a transfer with a foreign server have to tell: bytes, files done and
 * failed. */
#include "client/foreign.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TICK_NS 200000000ull
/* With --rate no more than a tenth of a second's worth goes at once; but TLS and TCP have heads. */
#define STEPS_PER_SECOND 10
#define STEP_LEAST 512

void foreign_known(struct foreign *f, struct ftask *t, uint64_t bytes)
{
	LOCK_GUARD(guard, &f->lock);

	f->p.bytes_known += bytes - t->known;
	t->known = bytes;
}

void foreign_begin_task(struct worker *w, const struct ftask *t)
{
	LOCK_GUARD(guard, &w->f->lock);

	w->moved = w->kept = w->mine = 0;
	w->carried = t->carried;
}

void foreign_unmoved(struct worker *w)
{
	struct foreign *f = w->f;

	LOCK_GUARD(guard, &f->lock);
	f->p.bytes -= w->moved;
	f->p.bytes_kept -= w->kept;
	f->resumed -= w->kept;
	w->mine = w->moved - w->kept;
	w->moved = w->kept = 0;
}

/* With the lock held. What an attempt before this one brought, this run has carried. */
static void keep(struct worker *w, uint64_t bytes)
{
	uint64_t own = bytes < w->carried ? bytes : w->carried;

	w->kept += bytes - own;
	w->f->p.bytes_kept += bytes - own;
	w->f->resumed += bytes - own;
}

size_t foreign_step(const struct foreign *f, size_t bytes)
{
	uint64_t most = f->o->rate / STEPS_PER_SECOND;

	if (!f->o->rate)
		return bytes;
	if (most < STEP_LEAST)
		most = STEP_LEAST;
	return bytes < most ? bytes : (size_t)most;
}

int foreign_moved(struct worker *w, uint64_t bytes, bool kept, struct err *e)
{
	struct foreign *f = w->f;
	uint64_t wait;

	pthread_mutex_lock(&f->lock);
	f->p.bytes += bytes;
	w->moved += bytes;
	if (kept)
		keep(w, bytes);
	else
		w->bytes += bytes;
	pthread_mutex_unlock(&f->lock);
	if (kept || !bytes)
		return 0;
	pace_take(&f->pace, bytes);
	while (!atomic_load(&f->stop) && (wait = pace_wait_ns(&f->pace, now_ns())) > 0) {
		const struct timespec t = { .tv_nsec = (long)(wait < TICK_NS ? wait : TICK_NS) };

		nanosleep(&t, NULL);
	}
	return atomic_load(&f->stop) ? err_set(e, -EINTR, "interrupted") : 0;
}

void foreign_passed(struct foreign *f, uint64_t bytes)
{
	LOCK_GUARD(guard, &f->lock);

	f->p.bytes += bytes;
	f->p.bytes_kept += bytes;
}

void foreign_done(struct foreign *f, const char *path, uint64_t bytes, bool skipped)
{
	LOCK_GUARD(guard, &f->lock);
	bool directory = *path && path[strlen(path) - 1] == '/';

	if (!directory)
		f->p.files_done += !skipped;
	f->p.files_skipped += skipped;
	if (f->events.file_done)
		f->events.file_done(f->events.arg, path, bytes, skipped);
}

void foreign_would_make(struct foreign *f, const char *path)
{
	size_t n = strlen(path);
	CLEANUP_FREE char *shown = NULL;

	if (asprintf(&shown, "%s%s", path, n && path[n - 1] == '/' ? "" : "/") < 0)
		shown = NULL;
	if (shown)
		foreign_done(f, shown, 0, false);
}

void foreign_failed(struct foreign *f, const char *path, const struct err *e)
{
	LOCK_GUARD(guard, &f->lock);

	f->p.files_failed++;
	f->events.file_failed(f->events.arg, path, e->code, e->text);
}

void foreign_left_out(struct foreign *f, const char *path, const char *why)
{
	LOCK_GUARD(guard, &f->lock);

	f->left_out++;
	log_warn("%s: %s: left out", printable(path), why);
}

static bool has_control(const char *name)
{
	for (; *name; name++)
		if ((unsigned char)*name < 0x20 || *name == 0x7f)
			return true;
	return false;
}

bool foreign_bad_name(struct foreign *f, const struct fdir *d, const char *name)
{
	struct err e = ERR_INIT;

	if (bulk_name_ok(name) && !has_control(name))
		return false;
	err_set(&e, -EBADMSG, "the server lists \"%s\" in %s, which no file here may be called",
		printable(name), printable(d->remote));
	foreign_failed(f, name, &e);
	return true;
}
