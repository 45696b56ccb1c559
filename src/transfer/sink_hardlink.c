// SPDX-License-Identifier: Apache-2.0
/* Hard links, which wait for the file that they name. What is remembered of it goes when no
 * further link comes. */
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

static struct linkable *linkable_in(const struct inode *slot)
{
	return (struct linkable *)(uintptr_t)slot->id;
}

/* The slot's reference goes to the caller. */
static struct linkable *take(struct sink *s, struct inode *slot)
{
	struct linkable *l = linkable_in(slot);

	inodes_remove(&s->linkables, slot);
	return l;
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

int linkable_add(struct sink *s, const struct kfile *f)
{
	struct linkable *l;

	if (s->discard || s->stream || s->dry)
		return 0;
	l = calloc(1, sizeof(*l) + strlen(f->name) + 1);
	if (!l)
		return -ENOMEM;
	strcpy(l->name, f->name);
	l->dir = f->parent->dir ? dir_ref(f->parent->dir) : NULL;
	l->refs = 1;
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
		r = to < 0 ? to : put_hardlink(from, l->name, to, f->name, s->keep_old);
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

int kfile_hardlink(struct sink *s, struct kfile *f)
{
	struct linkable *l = NULL;
	struct inode *slot;
	enum link_state state = LINK_PENDING;

	pthread_mutex_lock(&s->lock);
	slot = slot_of(s, f->link_id);
	if (slot) {
		l = linkable_in(slot);
		state = l->state;
	}
	if (slot && state == LINK_PENDING) {
		atomic_fetch_add(&f->refs, 1);
		f->next = l->waiting;
		l->waiting = f;
	} else if (slot) {
		l->refs++;
	}
	pthread_mutex_unlock(&s->lock);
	if (!slot)
		return -EPROTO;
	if (state != LINK_PENDING) {
		make_or_fail(s, f, l, state, &s->named);
		linkable_put(s, l);
	}
	return 0;
}

void linkable_settle(struct sink *s, const struct kfile *f, enum link_state state)
{
	struct linkable *l = NULL;
	struct kfile *waiting = NULL;
	struct jobs later = { 0 };
	struct inode *slot;

	pthread_mutex_lock(&s->lock);
	slot = slot_of(s, f->id);
	if (slot) {
		l = linkable_in(slot);
		l->state = state;
		waiting = steal_ptr(&l->waiting);
		if (l->last)
			take(s, slot);
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
	if (l)
		linkable_put(s, l);
}

void linkable_last(struct sink *s, uint64_t id)
{
	struct linkable *l = NULL;
	struct inode *slot;

	pthread_mutex_lock(&s->lock);
	slot = slot_of(s, id);
	if (slot && linkable_in(slot)->state == LINK_PENDING)
		linkable_in(slot)->last = true; /* who settles it forgets it */
	else if (slot)
		l = take(s, slot);
	pthread_mutex_unlock(&s->lock);
	if (l)
		linkable_put(s, l);
}

/* At the end, when nobody else is there. */
void linkables_free(struct sink *s)
{
	for (size_t i = 0; i < s->linkables.room; i++) {
		struct linkable *l = linkable_in(&s->linkables.v[i]);

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
