// SPDX-License-Identifier: Apache-2.0
/* Hard and symbolic links. */
#include "transfer/sink/sink.h"

#include <fcntl.h>
#include <sys/stat.h>

/* Targets hold their directories and those above. This limits them, because a peer could name
 * BULK_LINKED_MAX targets in deep directories. */
#define LINK_DIRS_MOST (2u * BULK_LINKED_MAX)

/* A file that hard links may name, until the last of them has arrived. Guarded by the links' lock,
 * except members that do not change. */
struct linkable {
	struct dir *dir;         /* a reference; NULL: there is none */
	struct sink_file *waiting;
	uint32_t refs;           /* one of the table, and one of each thread that makes a link to
				  * it */
	uint8_t state;           /* enum link_state */
	bool last;               /* no further link will arrive */
	char name[];
};

/* The linkable of an entry's id; NULL: there is none. Entries have no device number. With the lock
 * held. */
static struct linkable *linkable_find(struct sink *s, uint64_t id)
{
	struct inode *slot = inodes_find(&s->links.table, 0, id);

	return slot ? (struct linkable *)(uintptr_t)slot->id : NULL;
}

/* Remove the linkable of id from the table; the caller owns the table's reference now. With the lock
 * held. */
static void linkable_remove(struct sink *s, uint64_t id)
{
	inodes_remove(&s->links.table, inodes_find(&s->links.table, 0, id));
}

static void linkable_put(struct sink *s, struct linkable *l)
{
	bool gone;

	pthread_mutex_lock(&s->links.lock);
	gone = !--l->refs;
	pthread_mutex_unlock(&s->links.lock);
	if (!gone)
		return;
	if (l->dir)
		dir_put(l->dir);
	free(l);
}

int linkable_add(struct sink *s, const struct sink_file *f)
{
	struct linkable *l;

	if (s->discard || s->stream)
		return 0;
	l = calloc(1, sizeof(*l) + strlen(f->name) + 1);
	if (!l)
		return -ENOMEM;
	strcpy(l->name, f->name);
	l->dir = f->parent->dir ? dir_ref(f->parent->dir) : NULL;
	l->refs = 1;

	pthread_mutex_lock(&s->links.lock);
	if (s->links.table.n < BULK_LINKED_MAX && dirs_count(s->dirset) < LINK_DIRS_MOST &&
	    inodes_add(&s->links.table, 0, f->id, (uint64_t)(uintptr_t)l))
		l = NULL;
	pthread_mutex_unlock(&s->links.lock);
	if (l)
		linkable_put(s, l);
	return l ? -EPROTO : 0;
}

static bool same_inode(int from, const char *name, int to, const char *other)
{
	struct stat a, b;

	return !fstatat(from, name, &a, AT_SYMLINK_NOFOLLOW) &&
	       !fstatat(to, other, &b, AT_SYMLINK_NOFOLLOW) &&
	       a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

bool sink_link_stands(struct sink *s, const struct sink_file *f)
{
	struct linkable *l;
	bool same = false;
	int from, to;

	pthread_mutex_lock(&s->links.lock);
	l = linkable_find(s, f->link_id);
	if (l)
		l->refs++;
	pthread_mutex_unlock(&s->links.lock);
	from = l && l->dir ? dir_pin(l->dir) : -ENOENT;
	to = from >= 0 && f->parent->dir ? dir_pin(f->parent->dir) : -ENOENT;
	same = to >= 0 && same_inode(from, l->name, to, f->name);
	if (to >= 0)
		dir_unpin(f->parent->dir);
	if (from >= 0)
		dir_unpin(l->dir);
	if (l)
		linkable_put(s, l);
	return same;
}

/* The reason of r, a failure of link_put(), in words. */
static const char *put_link_why(int r, bool keep_old)
{
	if (r == -EINVAL)
		return PART_NAME_WHY;
	if (r == -EBUSY)
		return PART_BUSY_WHY;
	return r == -EEXIST && keep_old ? PART_KEPT_WHY : strerror(-r);
}

/* Make the hard link f to l. The state of l is known. */
static void make_hardlink(struct sink *s, struct sink_file *f, struct linkable *l,
			  enum link_state state, struct jobs *later)
{
	char *path CLEANUP_FREE = NULL;
	int from, to, r;
	bool there = false;

	if (state == LINK_LATER) {
		f->later = true;
		sink_file_done(s, f, FILE_LEFT);
		return;
	}
	if (state != LINK_THERE)
		l = NULL;
	from = l && l->dir ? dir_pin(l->dir) : -ENOENT;
	r = from;
	if (from >= 0) {
		to = dir_pin(f->parent->dir);
		there = to >= 0 && (s->x.c->request.flags & BULK_F_SYNC) &&
			same_inode(from, l->name, to, f->name);
		r = to < 0 ? to : there ? 0 : link_put(from, l->name, f->parent->dir, to, f->name,
						       s->x.c->keep_old);
		if (to >= 0)
			dir_unpin(f->parent->dir);
		dir_unpin(l->dir);
	}
	/* The source has no path of a link for the message. */
	path = r ? sink_file_path(f) : NULL;
	if (!r && there)
		sink_file_done(s, f, FILE_LEFT);
	else if (!r)
		sink_file_named(s, f, later);
	else if (l)
		sink_file_failed(s, f, r, "%s: hard link to %s: %s", printable(path ? path : f->name),
				 printable(l->name), put_link_why(r, s->x.c->keep_old));
	else
		sink_file_failed(s, f, r, "%s: the file it is a hard link to was not written",
				 printable(path ? path : f->name));
}

int sink_file_hardlink(struct sink *s, struct sink_file *f)
{
	enum link_state state = LINK_PENDING;
	struct linkable *l;

	pthread_mutex_lock(&s->links.lock);
	l = linkable_find(s, f->link_id);
	if (l)
		state = l->state;
	if (l && state == LINK_PENDING) {
		atomic_fetch_add(&f->refs, 1);
		f->next = l->waiting;
		l->waiting = f;
	} else if (l) {
		l->refs++;
	}
	pthread_mutex_unlock(&s->links.lock);

	if (!l)
		return -EPROTO;
	if (state != LINK_PENDING) {
		make_hardlink(s, f, l, state, &s->entries.named);
		linkable_put(s, l);
	}
	return 0;
}

void linkable_settle(struct sink *s, const struct sink_file *f, enum link_state state)
{
	struct sink_file *waiting = NULL;
	struct jobs later = { 0 };
	struct linkable *l;

	pthread_mutex_lock(&s->links.lock);
	l = linkable_find(s, f->id);
	if (l) {
		l->state = state;
		waiting = steal_ptr(&l->waiting);
		if (l->last)
			linkable_remove(s, f->id);
		else
			l->refs++;
	}
	pthread_mutex_unlock(&s->links.lock);

	while (waiting) {
		struct sink_file *next = waiting->next;

		make_hardlink(s, waiting, l, state, &later);
		sink_file_put(s, waiting);
		waiting = next;
	}

	sink_jobs(s, &later);
	if (l)
		linkable_put(s, l);
}

void linkable_last(struct sink *s, uint64_t id)
{
	struct linkable *l;

	pthread_mutex_lock(&s->links.lock);
	l = linkable_find(s, id);
	if (l && l->state == LINK_PENDING) {
		l->last = true; /* linkable_settle() will remove it */
		l = NULL;
	} else if (l) {
		linkable_remove(s, id);
	}
	pthread_mutex_unlock(&s->links.lock);
	if (l)
		linkable_put(s, l);
}

/* Call it at the end, without other threads. */
void linkables_free(struct sink *s)
{
	for (struct inode *i = s->links.table.v; i; i = i->hh.next) {
		struct linkable *l = (struct linkable *)(uintptr_t)i->id;

		while (l->waiting) {
			struct sink_file *f = l->waiting;

			l->waiting = f->next;
			sink_file_put(s, f);
		}
		linkable_put(s, l);
	}
	inodes_clear(&s->links.table);
}

/* ---- symbolic links ---- */

static void link_attributes(struct sink *s, int dfd, struct sink_file *f)
{
	struct timespec t[2] = {
		{ .tv_sec = f->meta.mtime_s, .tv_nsec = f->meta.mtime_ns },
		{ .tv_sec = f->meta.mtime_s, .tv_nsec = f->meta.mtime_ns },
	};

	uint32_t flags = s->x.c->request.flags & (BULK_F_OWNER | BULK_F_TIMES);
	int fd CLEANUP_CLOSE = flags ? openat(dfd, f->name, O_PATH | O_NOFOLLOW | O_CLOEXEC) : -1;
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) || !S_ISLNK(st.st_mode))
		return; /* another process has replaced it */

	/* Some filesystems store neither owner nor times of links. */
	r = flags & BULK_F_OWNER ? fd_chown(fd, f->meta.uid, f->meta.gid) : 0;
	if (r)
		sink_not_set(f->name, "owner", r);
	r = flags & BULK_F_TIMES ? fd_utimens(fd, t) : 0;
	if (r)
		sink_not_set(f->name, "times", r);
}

void sink_file_symlink(struct sink *s, struct sink_file *f, const char *target)
{
	int dfd = dir_pin(f->parent->dir), r = dfd;

	if (dfd >= 0) {
		r = link_put(-1, target, f->parent->dir, dfd, f->name,
			     s->x.c->keep_old);
		if (!r)
			link_attributes(s, dfd, f);
		dir_unpin(f->parent->dir);
	}
	if (!r)
		sink_file_named(s, f, &s->entries.named);
	else
		sink_file_failed(s, f, r, "%s: symbolic link: %s", printable(f->name),
				 put_link_why(r, s->x.c->keep_old));
}
