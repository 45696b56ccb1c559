// SPDX-License-Identifier: Apache-2.0
/* Hard links, which wait for the file that they name. What is remembered of it is put away
 * once it is there, and goes when no further link comes. */
#include "transfer/sink.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the table; with lock held ---- */

/* Entries have no device. */
static struct inode *slot_of(struct sink *s, uint64_t id)
{
	return inodes_find(&s->linkables, 0, id);
}

static bool is_place(uint64_t what)
{
	return what & 1;
}

/* NULL: it has come to its end and been put away. */
static struct linkable *linkable_in(uint64_t what)
{
	return is_place(what) || what == LINK_GONE ? NULL : (struct linkable *)(uintptr_t)what;
}

/* ---- without it ---- */

static void linkable_put(struct sink *s, struct linkable *l)
{
	bool gone;

	pthread_mutex_lock(&s->lock);
	gone = !--l->refs;
	pthread_mutex_unlock(&s->lock);
	if (!gone)
		return;
	if (l->dir)
		dir_put(l->dir);
	free(l);
}

/* dir: a reference that it takes, also when memory is out, or NULL. */
static struct linkable *linkable_new(struct dir *dir, const char *name)
{
	struct linkable *l = calloc(1, sizeof(*l) + strlen(name) + 1);

	if (!l) {
		dir_put(dir);
		return NULL;
	}
	strcpy(l->name, name);
	l->dir = dir;
	l->refs = 1;
	return l;
}

int linkable_add(struct sink *s, const struct kfile *f)
{
	struct linkable *l;

	if (s->discard || s->stream || s->dry)
		return 0;
	l = linkable_new(f->parent->dir ? dir_ref(f->parent->dir) : NULL, f->name);
	if (!l)
		return -ENOMEM;
	pthread_mutex_lock(&s->lock);
	if (s->linkables.n < BULK_LINKED_MAX &&
	    inodes_add(&s->linkables, 0, f->id, (uint64_t)(uintptr_t)l))
		l = NULL;
	pthread_mutex_unlock(&s->lock);
	if (l)
		linkable_put(s, l);
	return l ? -EPROTO : 0;
}

static void make_hardlink(struct sink *s, struct kfile *f, struct linkable *l,
			  struct jobs *later)
{
	char text[ERR_TEXT];
	int from = l->dir ? dir_pin(l->dir) : -ENOENT, to, r = from;

	if (from >= 0) {
		to = dir_pin(f->parent->dir);
		r = to < 0 ? to : put_hardlink(from, l->name, f->parent->dir, to, f->name,
					       s->keep_old);
		if (to >= 0)
			dir_unpin(f->parent->dir);
		dir_unpin(l->dir);
	}
	if (!r) {
		kfile_named(s, f, later);
		return;
	}
	snprintf(text, sizeof(text), "%s: hard link to %s: %s", printable(f->name),
		 printable(l->name), put_link_why(r, s->keep_old));
	kfile_failed(s, f, r, text);
}

static void hardlink_orphan(struct sink *s, struct kfile *f)
{
	char text[ERR_TEXT];

	snprintf(text, sizeof(text), "%s: the file it is a hard link to was not written",
		 printable(f->name));
	kfile_failed(s, f, -ENOENT, text);
}

static void make_or_fail(struct sink *s, struct kfile *f, struct linkable *l,
			 enum link_state state, struct jobs *later)
{
	if (state == LINK_THERE)
		make_hardlink(s, f, l, later);
	else
		hardlink_orphan(s, f);
}

/* To one that has been put away. */
static void link_to_place(struct sink *s, struct kfile *f, uint64_t what)
{
	struct linkable *l;
	struct dir *dir = NULL;
	char *name CLEANUP_FREE = NULL;
	char text[ERR_TEXT];
	int r;

	if (!is_place(what)) {
		hardlink_orphan(s, f);
		return;
	}
	r = places_get(&s->places, what, &dir, &name);
	l = r ? NULL : linkable_new(dir, name);
	if (l) {
		make_hardlink(s, f, l, &s->named);
		linkable_put(s, l);
		return;
	}
	r = r ? r : -ENOMEM;
	snprintf(text, sizeof(text), "%s: the file it is a hard link to is not to be found: %s",
		 printable(f->name), strerror(-r));
	kfile_failed(s, f, r, text);
}

int kfile_hardlink(struct sink *s, struct kfile *f)
{
	struct linkable *l = NULL;
	struct inode *slot;
	enum link_state state = LINK_PENDING;
	uint64_t what = 0;

	pthread_mutex_lock(&s->lock);
	slot = slot_of(s, f->link_id);
	if (slot) {
		what = slot->id;
		l = linkable_in(what);
	}
	if (l)
		state = l->state;
	if (l && state == LINK_PENDING) {
		atomic_fetch_add(&f->refs, 1);
		f->next = l->waiting;
		l->waiting = f;
	} else if (l) {
		l->refs++;
	}
	pthread_mutex_unlock(&s->lock);
	if (!what)
		return -EPROTO;
	if (!l) {
		link_to_place(s, f, what);
	} else if (state != LINK_PENDING) {
		make_or_fail(s, f, l, state, &s->named);
		linkable_put(s, l);
	}
	return 0;
}

/* Memory for those that settle would grow with the tree. l, which the table may have dropped
 * meanwhile, stays in it where it cannot be put away. */
static void put_away(struct sink *s, uint64_t id, struct linkable *l, enum link_state state)
{
	uint64_t what = LINK_GONE;
	struct inode *slot;

	if (state == LINK_THERE)
		what = l->dir ? places_put(&s->places, l->dir, l->name) : 0;
	if (!what)
		return;
	pthread_mutex_lock(&s->lock);
	slot = slot_of(s, id);
	if (slot) {
		slot->id = what;
		l->refs--; /* the table's; the caller has one, too */
	}
	pthread_mutex_unlock(&s->lock);
	if (!slot && is_place(what))
		places_drop(&s->places, what);
}

void linkable_settle(struct sink *s, const struct kfile *f, enum link_state state)
{
	struct linkable *l = NULL;
	struct kfile *waiting = NULL;
	struct jobs later = { 0 };
	struct inode *slot;
	bool last = true;

	pthread_mutex_lock(&s->lock);
	slot = slot_of(s, f->id);
	if (slot) {
		l = linkable_in(slot->id);
		l->state = state;
		waiting = steal_ptr(&l->waiting);
		last = l->last;
		if (last)
			inodes_remove(&s->linkables, slot); /* its reference is ours */
		else
			l->refs++;
	}
	pthread_mutex_unlock(&s->lock);
	while (waiting) {
		struct kfile *next = waiting->next;

		make_or_fail(s, waiting, l, state, &later);
		kfile_put(s, waiting);
		waiting = next;
	}
	sink_jobs(s, &later);
	if (!last)
		put_away(s, f->id, l, state);
	if (l)
		linkable_put(s, l);
}

void linkable_last(struct sink *s, uint64_t id)
{
	struct linkable *l = NULL;
	struct inode *slot;
	uint64_t what = 0;

	pthread_mutex_lock(&s->lock);
	slot = slot_of(s, id);
	if (slot)
		l = linkable_in(what = slot->id);
	if (l && l->state == LINK_PENDING) {
		l->last = true; /* who settles it forgets it */
		l = NULL;
		what = 0;
	} else if (slot) {
		inodes_remove(&s->linkables, slot);
	}
	pthread_mutex_unlock(&s->lock);
	if (l)
		linkable_put(s, l);
	else if (is_place(what))
		places_drop(&s->places, what);
}

/* At the end, when nobody else is there. */
void linkables_free(struct sink *s)
{
	for (size_t i = 0; i < s->linkables.room; i++) {
		uint64_t what = s->linkables.v[i].id;
		struct linkable *l = what ? linkable_in(what) : NULL;

		while (l && l->waiting) {
			struct kfile *f = l->waiting;

			l->waiting = f->next;
			kfile_put(s, f);
		}
		if (l)
			linkable_put(s, l);
	}
	inodes_clear(&s->linkables);
}
