// SPDX-License-Identifier: Apache-2.0
/* The queues of tasks of a transfer with a foreign server: what a worker takes next, and what it
 * gives back. */
#include "client/foreign.h"

#include <stdlib.h>

/* Directories are gone through while there are fewer files than this to be had. */
#define FILES_AHEAD 256

/* ---- tasks ---- */

struct ftask *ftask_new(enum ftask_kind kind, struct fdir *dir)
{
	struct ftask *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->kind = kind;
	t->dir = dir ? fdir_ref(dir) : NULL;
	return t;
}

void ftask_free(struct worker *w, struct ftask *t)
{
	if (!t)
		return;
	fdir_put(w, t->dir);
	ftp_facts_clear(&t->facts);
	free(t->name);
	free(t->remote);
	free(t->local);
	free(t);
}

static void append(struct ftask **first, struct ftask **last, struct ftask *t)
{
	t->next = NULL;
	if (*first)
		(*last)->next = t;
	else
		*first = t;
	*last = t;
}

static struct ftask *shift(struct ftask **first)
{
	struct ftask *t = *first;

	if (t)
		*first = t->next;
	return t;
}

void foreign_queue(struct foreign *f, struct ftask *t)
{
	switch (t->kind) {
	case FTASK_NAMED:
		append(&f->named, &f->named_last, t);
		break;
	case FTASK_DIR: /* the last first: depth costs less memory than breadth */
		t->next = f->dirs_first;
		f->dirs_first = t;
		break;
	case FTASK_FILE:
		append(&f->files, &f->files_last, t);
		f->nfiles++;
		break;
	}
}

static struct ftask *pick(struct foreign *f)
{
	if (f->nfiles < FILES_AHEAD && f->dirs_first)
		return shift(&f->dirs_first);
	if (f->nfiles < FILES_AHEAD && f->named)
		return shift(&f->named);
	if (f->nfiles)
		f->nfiles--;
	return shift(&f->files);
}

void foreign_push(struct foreign *f, struct ftask *t)
{
	LOCK_GUARD(guard, &f->lock);

	foreign_queue(f, t);
	if (t->kind == FTASK_FILE)
		f->p.entries++;
	pthread_cond_signal(&f->more);
}

bool foreign_looks(const struct foreign *f)
{
	return f->named || f->dirs_first || f->listing;
}

/* ---- for workers ---- */

struct ftask *foreign_take(struct foreign *f)
{
	struct ftask *t = NULL;

	LOCK_GUARD(guard, &f->lock);
	while (!atomic_load(&f->stop) && !(t = pick(f)) && f->busy) {
		f->idle++;
		pthread_cond_wait(&f->more, &f->lock);
		f->idle--;
	}
	if (t) {
		f->busy++;
		f->listing += t->kind != FTASK_FILE;
		t->next = NULL;
		/* For what nobody else is there to take. */
		if (!f->idle && (f->files || f->dirs_first || f->named))
			foreign_add_another(f);
	}
	return t;
}

void foreign_give_back(struct worker *w, struct ftask *t)
{
	struct foreign *f = w->f;

	foreign_unmoved(w);
	LOCK_GUARD(guard, &f->lock);
	if (w->mine > t->carried)
		t->carried = w->mine;
	f->busy--;
	f->listing -= t->kind != FTASK_FILE;
	t->next = NULL;
	foreign_queue(f, t);
	pthread_cond_signal(&f->more);
}

void foreign_end_task(struct worker *w, struct ftask *t)
{
	struct foreign *f = w->f;
	bool listing = t->kind != FTASK_FILE;

	ftask_free(w, t); /* which may be the end of directories */
	LOCK_GUARD(guard, &f->lock);
	f->busy--;
	f->listing -= listing;
	if (!f->busy)
		pthread_cond_broadcast(&f->more);
}
