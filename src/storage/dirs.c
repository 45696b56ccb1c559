// SPDX-License-Identifier: Apache-2.0
/* Directories by reference, with a bounded number of open descriptors. */
#include "storage/internal.h"

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>

#define MIN_OPEN 4
#define SHORT_CHAIN 16
/* A lookup of one file's part costs about 5 us; listing a directory costs 0.2 us per name. So list
 * the directory after PART_SCAN_AT lookups, if it has at most PART_SCAN_MOST names. */
#define PART_SCAN_AT 64
#define PART_SCAN_MOST 65536
#define CLEAR_AGAIN_NS 1000000000ull /* the shortest time between two searches of one directory */

/* set->lock is the only lock; no system call is made while it is held. */
struct dirs {
	unsigned int max_open;  /* constant once a directory was opened; so is rules */
	struct root_rules rules;
	atomic_size_t count;    /* directories of the set, open or not */
	pthread_mutex_t lock;   /* guards all below, and the marked fields of each struct dir */
	dev_t cleared_dev;      /* directory last searched for old parts, and when */
	ino_t cleared_ino;
	uint64_t cleared_ns;
	unsigned int open;      /* subdirectories with a descriptor */
	struct dir *newest;     /* list of the directories that are open and not pinned */
	struct dir *oldest;
};

struct dir {
	struct dirs *set;       /* constant, as are parent, depth, name */
	struct dir *parent;     /* holds a reference; NULL for a top */
	size_t depth;           /* 0 for a top */
	atomic_uint refs;
	atomic_bool no_tmpfile; /* set once, never cleared */
	atomic_bool no_parts;   /* the same */
	atomic_bool cleared;    /* the same; no old parts are left */
	atomic_uint part_asks;  /* calls of dir_no_parts() */
	/* guarded by set->lock; fd does not change while there are pins */
	int fd;
	unsigned int pins;
	bool known;             /* dev and ino are known */
	dev_t dev;
	ino_t ino;
	struct dir *newer, *older;
	char name[];            /* for a top: its path */
};

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

void dirs_set_rules(struct dirs *s, const struct root_rules *rules)
{
	s->rules = *rules;
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
	atomic_fetch_add_explicit(&s->count, 1, memory_order_relaxed);
	return d;
}

size_t dirs_count(const struct dirs *s)
{
	return atomic_load_explicit(&s->count, memory_order_relaxed);
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

/* ---- the list of the directories that may be closed; call with set->lock held ---- */

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

/* Pin d, which is open. */
static void dirs_take(struct dir *d)
{
	if (closable(d))
		list_remove(d->set, d);
	d->pins++;
}

/* Remove the least recently used directory from the list and return its descriptor, which the
 * caller closes; -1: the list is empty. */
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
		atomic_fetch_sub_explicit(&s->count, 1, memory_order_relaxed);
		pthread_mutex_unlock(&s->lock);
		if (fd >= 0)
			close(fd);
		free(d);
		d = parent; /* a loop: recursion could overflow the stack in deep trees */
	}
}

static void dirs_shrink(struct dirs *s)
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
		dirs_shrink(s);
}

/* Open a directory for reading, so that it can be listed and synced. Without read permission open
 * it with O_PATH, which suffices to open names below it. */
static int open_name(const struct dirs *s, int parent, const char *name)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 && errno == EACCES)
		fd = openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : rules_admit(&s->rules, fd);
}

/* As open_name(); when out of descriptors, close unpinned directories of the set and retry. */
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

/* Pin d with the descriptor fd; close fd if another thread has opened d meanwhile. */
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
		dirs_take(d);
	}
	full = s->open > s->max_open;
	pthread_mutex_unlock(&s->lock);
	if (fd >= 0)
		close(fd);
	if (full)
		dirs_shrink(s);
}

/* Pin and return d or its nearest open ancestor; NULL: the top does not exist. chain: the n closed
 * directories below it, d first. */
static struct dir *pin_nearest(struct dir *d, struct dir **chain, size_t *n)
{
	LOCK_GUARD(guard, &d->set->lock);

	*n = 0;
	for (; d->fd < 0 && d->parent; d = d->parent)
		chain[(*n)++] = d;
	if (d->fd < 0)
		return NULL;
	dirs_take(d);
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
	if (!at)
		fd = -ENOENT;
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
		dirs_take(d);
	pthread_mutex_unlock(&d->set->lock);
	return fd >= 0 ? fd : pin_closed(d);
}

int dir_stat(struct dir *d, const char *name, struct stat *st)
{
	int r, fd = dir_pin(d);

	if (fd < 0)
		return fd;
	r = fstatat(fd, name, st, AT_SYMLINK_NOFOLLOW) ? -errno : 0;
	dir_unpin(d);
	return r;
}

/* ---- names ---- */

char *dir_path(struct dir *d, const char *name)
{
	size_t len = (name ? strlen(name) : 0) + 1, n;
	char *path, *at;

	for (const struct dir *up = d; up; up = up->parent)
		len += strlen(up->name) + 1;
	path = malloc(len);
	if (!path)
		return NULL;

	at = path + len - (name ? strlen(name) : 0) - 1;
	strcpy(at, name ? name : "");
	for (; d; d = d->parent) {
		n = strlen(d->name);
		/* no slash at the end, nor after a top that ends in "/" or has no name */
		if (*at && (d->parent || (n && d->name[n - 1] != '/')))
			*--at = '/';
		at = memcpy(at - n, d->name, n);
	}
	memmove(path, at, strlen(at) + 1);
	return path;
}

/* ---- helpers of walks and of new files ---- */

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
		dirs_take(child);
	pthread_mutex_unlock(&s->lock);
	if (!want)
		return;
	fd = open_sub(s, child->fd, "..");
	dir_unpin(child);
	if (fd < 0)
		return;
	/* child was moved meanwhile: ".." is not parent */
	if (fstat(fd, &st) || st.st_dev != dev || st.st_ino != ino) {
		close(fd);
		return;
	}
	install_pinned(parent, fd);
	dir_unpin(parent);
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

	if (part_age(dirfd, name, &age) || age < d->set->rules.parts_age ||
	    part_unlink_stale(dirfd, name))
		return 0;
	path = dir_path(d, name);
	log_info("%s: removed; its transfer had written nothing for %" PRIu64 " s",
		 printable(path ? path : name), age);
	return 0;
}

/* True: the directory was searched less than CLEAR_AGAIN_NS ago. STOR makes a struct dir for each
 * file, and must not list the directory each time. */
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
	if (d->set->rules.parts_age &&
	    !atomic_exchange_explicit(&d->cleared, true, memory_order_relaxed) &&
	    !was_cleared_last(d->set, fd))
		parts_scan(fd, SIZE_MAX, remove_if_old, d);
}

/* ---- syncing names ---- */

/* Only a descriptor that is open for reading can be synced. Without permission to read the
 * directory, sync its whole filesystem through an unnamed file in it; if that is impossible, sync
 * all filesystems. */
static int sync_around(int dfd)
{
	int fd CLEANUP_CLOSE = openat(dfd, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);

	if (fd < 0) {
		sync();
		return 0;
	}
	return syncfs(fd) ? -errno : 0;
}

/* EINVAL: the filesystem has no fsync for directories. */
static int sync_fd(int fd)
{
	return fsync(fd) && errno != EINVAL ? -errno : 0;
}

int dirs_above(int dfd, int (*fn)(void *arg, uint64_t dev, uint64_t ino), void *arg)
{
	int at CLEANUP_CLOSE = openat(dfd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC), up, r = 0;
	struct stat st, below = { 0 };

	while (!r && at >= 0) {
		up = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		cleanup_close(&at);
		at = up;
		if (at < 0 || fstat(at, &st) ||
		    (st.st_dev == below.st_dev && st.st_ino == below.st_ino))
			break; /* it may not be searched, or it was the top */
		r = fn(arg, st.st_dev, st.st_ino);
		below = st;
	}
	return r;
}

int sync_dir(int dfd)
{
	int fd CLEANUP_CLOSE = -1;
	int r = FAULT("sync", 0);

	if (r)
		return r;
	r = sync_fd(dfd);
	if (r != -EBADF)
		return r;
	fd = openat(dfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* dfd may be O_PATH */
	if (fd >= 0)
		return sync_fd(fd);
	return errno == EACCES ? sync_around(dfd) : -errno;
}
