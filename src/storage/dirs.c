// SPDX-License-Identifier: Apache-2.0
/* Directories by reference, with a bounded number of open descriptors. */
#include "storage/beneath.h"
#include "storage/part.h"
#include "storage/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIN_OPEN 4
#define SHORT_CHAIN 16
/* A look for one file's part costs some 5 us, a listed name 0.2 us: after so many looks a
 * list of at most so many names pays. */
#define PART_SCAN_AT 64
#define PART_SCAN_MOST 65536
#define CLEAR_AGAIN_NS 1000000000ull /* the shortest age */

/* Lock order: there is only set->lock, and no system call but close is made under it. */
struct dirs {
	unsigned int max_open;  /* constant, as these three are once there are dirs */
	bool without_proc;
	dev_t plain;            /* what is there is not of proc */
	uint64_t parts_age;     /* seconds; see dir_remove_old_parts(); 0: for ever */
	pthread_mutex_t lock;   /* guards all below and the fields of dirs that say so */
	dev_t cleared_dev;      /* the directory whose old parts were last looked for, and when */
	ino_t cleared_ino;
	uint64_t cleared_ns;
	unsigned int open;      /* subdirectories with a descriptor */
	struct dir *newest;     /* of those that are open and not pinned */
	struct dir *oldest;
};

struct dir {
	struct dirs *set;       /* constant, as are parent, depth, name */
	struct dir *parent;     /* holds a reference; NULL for a top */
	size_t depth;           /* 0 for a top */
	atomic_uint refs;
	atomic_bool no_tmpfile; /* only ever set */
	atomic_bool no_parts;   /* the same */
	atomic_bool cleared;    /* the same: of old parts */
	atomic_uint part_asks;  /* calls of dir_no_parts() */
	atomic_uint made_modes; /* LEARNT | asked << 12 | became; see dir_made */
	_Atomic uint64_t made_ids; /* uid << 32 | gid; written before made_modes */
	/* guarded by set->lock; fd stays as it is while there are pins */
	int fd;
	unsigned int pins;
	bool known;             /* dev and ino are */
	dev_t dev;
	ino_t ino;
	struct dir *newer, *older;
	char name[];            /* of a top: its path */
};

#define LEARNT (1u << 31)

struct dirs *dirs_new(unsigned int max_open)
{
	struct dirs *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->max_open = max_open < MIN_OPEN ? MIN_OPEN : max_open;
	pthread_mutex_init(&s->lock, NULL);
	return s;
}

void dirs_free(struct dirs *s)
{
	if (!s)
		return;
	pthread_mutex_destroy(&s->lock);
	free(s);
}

void dirs_without_proc(struct dirs *s, dev_t plain)
{
	s->without_proc = true;
	s->plain = plain;
}

static struct dir *dir_new(struct dirs *s, const char *name)
{
	size_t n = strlen(name) + 1;
	struct dir *d = calloc(1, sizeof(*d) + n);

	if (!d)
		return NULL;
	memcpy(d->name, name, n);
	d->set = s;
	d->fd = -1;
	atomic_init(&d->refs, 1);
	return d;
}

struct dir *dir_top(struct dirs *s, int fd, const char *path)
{
	struct dir *d = dir_new(s, path);

	if (!d) {
		close(fd);
		return NULL;
	}
	d->fd = fd;
	return d;
}

struct dir *dir_sub(struct dir *parent, const char *name)
{
	struct dir *d = dir_new(parent->set, name);

	if (!d)
		return NULL;
	d->parent = dir_ref(parent);
	d->depth = parent->depth + 1;
	atomic_init(&d->no_tmpfile, dir_no_tmpfile(parent));
	return d;
}

struct dir *dir_ref(struct dir *d)
{
	atomic_fetch_add_explicit(&d->refs, 1, memory_order_relaxed);
	return d;
}

/* ---- the list of those that may be closed; all under set->lock ---- */

static void list_add(struct dirs *s, struct dir *d)
{
	d->newer = NULL;
	d->older = s->newest;
	if (s->newest)
		s->newest->newer = d;
	else
		s->oldest = d;
	s->newest = d;
}

static void list_remove(struct dirs *s, struct dir *d)
{
	if (d->newer)
		d->newer->older = d->older;
	else
		s->newest = d->older;
	if (d->older)
		d->older->newer = d->newer;
	else
		s->oldest = d->newer;
	d->newer = d->older = NULL;
}

static bool closable(const struct dir *d)
{
	return d->parent && d->fd >= 0 && d->pins == 0;
}

/* d is open: pin it. */
static void take(struct dir *d)
{
	if (closable(d))
		list_remove(d->set, d);
	d->pins++;
}

/* The descriptor of the one not used for longest; -1: there is none. */
static int evict(struct dirs *s)
{
	struct dir *d = s->oldest;

	if (!d)
		return -1;
	list_remove(s, d);
	s->open--;
	return steal_fd(&d->fd);
}

/* ---- opening and closing ---- */

void dir_put(struct dir *d)
{
	while (d) {
		struct dir *parent = d->parent;
		struct dirs *s = d->set;
		int fd;

		if (atomic_fetch_sub_explicit(&d->refs, 1, memory_order_acq_rel) != 1)
			return;
		pthread_mutex_lock(&s->lock);
		if (closable(d)) {
			list_remove(s, d);
			s->open--;
		}
		fd = d->fd;
		pthread_mutex_unlock(&s->lock);
		if (fd >= 0)
			close(fd);
		free(d);
		d = parent; /* a loop: trees may be deeper than the stack */
	}
}

static void shrink(struct dirs *s)
{
	for (;;) {
		int fd = -1;

		pthread_mutex_lock(&s->lock);
		if (s->open > s->max_open)
			fd = evict(s);
		pthread_mutex_unlock(&s->lock);
		if (fd < 0)
			return;
		close(fd);
	}
}

void dir_unpin(struct dir *d)
{
	struct dirs *s = d->set;
	bool full;

	pthread_mutex_lock(&s->lock);
	d->pins--;
	if (closable(d))
		list_add(s, d);
	full = s->open > s->max_open;
	pthread_mutex_unlock(&s->lock);
	if (full)
		shrink(s);
}

/* To be listed and synced if we may read it, else just to go through. */
static int open_name(const struct dirs *s, int parent, const char *name)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), rc;

	if (fd < 0 && errno == EACCES)
		fd = openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	rc = s->without_proc ? beneath_is_proc(fd, s->plain) : 0;
	if (rc == 0)
		return fd;
	close(fd);
	return rc < 0 ? rc : -EACCES;
}

/* The same, closing others of ours while the process has no descriptor to spare. */
static int open_sub(struct dirs *s, int parent, const char *name)
{
	for (;;) {
		int fd = open_name(s, parent, name);
		int old;

		if (fd != -EMFILE && fd != -ENFILE)
			return fd;
		pthread_mutex_lock(&s->lock);
		old = evict(s);
		pthread_mutex_unlock(&s->lock);
		if (old < 0)
			return fd;
		close(old);
	}
}

/* d gets fd, unless another thread was faster, and a pin. */
static void install_pinned(struct dir *d, int fd)
{
	struct dirs *s = d->set;
	bool full;

	pthread_mutex_lock(&s->lock);
	if (d->fd < 0) {
		d->fd = steal_fd(&fd);
		d->pins++;
		s->open++;
	} else {
		take(d);
	}
	full = s->open > s->max_open;
	pthread_mutex_unlock(&s->lock);
	if (fd >= 0)
		close(fd);
	if (full)
		shrink(s);
}

/* Pin d's nearest open ancestor (or d) and note those below it, down to d, in chain. */
static struct dir *pin_nearest(struct dir *d, struct dir **chain, size_t *n)
{
	LOCK_GUARD(guard, &d->set->lock);

	*n = 0;
	while (d->fd < 0) {
		chain[(*n)++] = d;
		d = d->parent; /* a top is always open */
	}
	take(d);
	return d;
}

static int pin_closed(struct dir *d)
{
	struct dir *few[SHORT_CHAIN], **chain = few;
	struct dir *at;
	size_t n;
	int fd = 0;

	if (d->depth > SHORT_CHAIN)
		chain = calloc(d->depth, sizeof(struct dir *));
	if (!chain)
		return -ENOMEM;
	at = pin_nearest(d, chain, &n);
	while (n && fd >= 0) {
		struct dir *sub = chain[--n];

		fd = open_sub(d->set, at->fd, sub->name);
		if (fd >= 0)
			install_pinned(sub, fd);
		dir_unpin(at);
		at = sub;
	}
	if (chain != few)
		free(chain);
	return fd < 0 ? fd : at->fd;
}

int dir_pin(struct dir *d)
{
	int fd;

	pthread_mutex_lock(&d->set->lock);
	fd = d->fd;
	if (fd >= 0)
		take(d);
	pthread_mutex_unlock(&d->set->lock);
	return fd >= 0 ? fd : pin_closed(d);
}

/* ---- names ---- */

char *dir_path(struct dir *d, const char *name)
{
	size_t len = name ? strlen(name) + 1 : 1;
	char *path, *at;

	for (struct dir *p = d; p; p = p->parent)
		len += strlen(p->name) + 1;
	path = malloc(len);
	if (!path)
		return NULL;
	at = path + len;
	*--at = '\0';
	if (name) {
		at -= strlen(name);
		memcpy(at, name, strlen(name));
	}
	for (struct dir *p = d; p; p = p->parent) {
		size_t n = strlen(p->name);

		/* none behind the "/" of a top or one without a name, nor with nothing behind */
		if (*at && n && p->name[n - 1] != '/')
			*--at = '/';
		at -= n;
		memcpy(at, p->name, n);
	}
	memmove(path, at, strlen(at) + 1);
	return path;
}

char *dir_below(struct dir *d, const char *name, struct dir **top)
{
	size_t len = strlen(name) + 1;
	char *path, *at;

	for (*top = d; (*top)->parent; *top = (*top)->parent)
		len += strlen((*top)->name) + 1;
	path = malloc(len);
	if (!path)
		return NULL;
	at = path + len - strlen(name) - 1;
	strcpy(at, name);
	for (; d->parent; d = d->parent) {
		*--at = '/';
		at -= strlen(d->name);
		memcpy(at, d->name, strlen(d->name));
	}
	return path;
}

struct dir *dir_at(struct dir *top, const char *path)
{
	char *names CLEANUP_FREE = strdup(path), *rest = names, *name;
	struct dir *d = names ? dir_ref(top) : NULL;

	while (d && (name = strsep(&rest, "/"))) {
		struct dir *sub = *name ? dir_sub(d, name) : dir_ref(d);

		dir_put(d);
		d = sub;
	}
	return d;
}

/* ---- for walking and for making files ---- */

void dir_know(struct dir *d, const struct stat *st)
{
	LOCK_GUARD(guard, &d->set->lock);

	d->known = true;
	d->dev = st->st_dev;
	d->ino = st->st_ino;
}

void dir_revive(struct dir *parent, struct dir *child)
{
	struct dirs *s = parent->set;
	struct stat st;
	bool want;
	dev_t dev;
	ino_t ino;
	int fd;

	pthread_mutex_lock(&s->lock);
	want = parent->fd < 0 && parent->known && child->fd >= 0;
	dev = parent->dev;
	ino = parent->ino;
	if (want)
		take(child);
	pthread_mutex_unlock(&s->lock);
	if (!want)
		return;
	fd = open_sub(s, child->fd, "..");
	dir_unpin(child);
	if (fd < 0)
		return;
	/* moved meanwhile: it is not the parent that is wanted, but maybe anything */
	if (fstat(fd, &st) || st.st_dev != dev || st.st_ino != ino) {
		close(fd);
		return;
	}
	install_pinned(parent, fd);
	dir_unpin(parent);
}

bool dir_made(struct dir *d, uint32_t asked, struct dir_made *m)
{
	uint32_t modes = atomic_load_explicit(&d->made_modes, memory_order_acquire);
	uint64_t ids = atomic_load_explicit(&d->made_ids, memory_order_relaxed);

	*m = (struct dir_made){ modes & 07777, (uint32_t)(ids >> 32), (uint32_t)ids };
	return (modes & ~07777u) == (LEARNT | asked << 12);
}

void dir_learn_made(struct dir *d, uint32_t asked, const struct dir_made *m)
{
	uint64_t ids = (uint64_t)m->uid << 32 | m->gid;

	atomic_store_explicit(&d->made_ids, ids, memory_order_relaxed);
	atomic_store_explicit(&d->made_modes, LEARNT | asked << 12 | (m->mode & 07777),
			      memory_order_release);
}

bool dir_no_tmpfile(struct dir *d)
{
	return atomic_load_explicit(&d->no_tmpfile, memory_order_relaxed);
}

void dir_set_no_tmpfile(struct dir *d)
{
	atomic_store_explicit(&d->no_tmpfile, true, memory_order_relaxed);
}

static int found_part(void *arg, int dirfd, const char *name)
{
	(void)arg, (void)dirfd, (void)name;
	return 1;
}

bool dir_no_parts(struct dir *d, int fd)
{
	if (atomic_load_explicit(&d->no_parts, memory_order_relaxed))
		return true;
	if (atomic_fetch_add_explicit(&d->part_asks, 1, memory_order_relaxed) != PART_SCAN_AT ||
	    parts_scan(fd, PART_SCAN_MOST, found_part, NULL))
		return false;
	atomic_store_explicit(&d->no_parts, true, memory_order_relaxed);
	return true;
}

static int remove_if_old(void *arg, int dirfd, const char *name)
{
	char *path CLEANUP_FREE = NULL;
	struct dir *d = arg;
	uint64_t age;

	if (part_age(dirfd, name, &age) || age < d->set->parts_age ||
	    part_unlink_stale(dirfd, name))
		return 0;
	path = dir_path(d, name);
	log_info("%s: removed; no transfer went on with it for %" PRIu64 " s",
		 printable(path ? path : name), age);
	return 0;
}

/* STOR makes a new dir for each file: many files into one directory must not list it for each. */
static bool was_cleared_last(struct dirs *s, int fd)
{
	struct stat st;

	if (fstat(fd, &st))
		return true;
	LOCK_GUARD(guard, &s->lock);
	if (s->cleared_dev == st.st_dev && s->cleared_ino == st.st_ino &&
	    now_ns() - s->cleared_ns < CLEAR_AGAIN_NS)
		return true;
	s->cleared_dev = st.st_dev;
	s->cleared_ino = st.st_ino;
	s->cleared_ns = now_ns();
	return false;
}

void dir_remove_old_parts(struct dir *d, int fd)
{
	if (d->set->parts_age &&
	    !atomic_exchange_explicit(&d->cleared, true, memory_order_relaxed) &&
	    !was_cleared_last(d->set, fd))
		parts_scan(fd, SIZE_MAX, remove_if_old, d);
}

void dirs_set_parts_age(struct dirs *s, uint64_t seconds)
{
	s->parts_age = seconds;
}
