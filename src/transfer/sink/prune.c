// SPDX-License-Identifier: Apache-2.0
/* Finds and removes the names that the source does not have. */
#include "transfer/sink/sink.h"

#include "transfer/setup.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

/* BULK_REMOVED is sent once there are this many bytes of it. */
#define REMOVED_BYTES 65536

/* The names to be removed in one directory. */
struct prune_dir {
	struct prune_dir *next;
	char *path, *rel;         /* path ends with a slash; rel as in struct prune_names */
	uint64_t dev, ino;        /* of the directory: another one may get its name */
	struct timespec mtime;    /* set again afterwards, with BULK_F_TIMES */
	char *names;              /* for each name: a mark, the name, NUL */
	size_t len, room;
};

enum { MARK_EXTRA = '-', MARK_IN_THE_WAY = '!' };

static int note_trash_dir(void *arg, uint64_t dev, uint64_t ino)
{
	struct inodes *at = arg;

	if (inodes_find(at, dev, ino))
		return 0;
	return inodes_add(at, dev, ino, at->n) ? 0 : -ENOMEM;
}

/* If the trash exists: note it, with the id 0, and the directories above it. */
static int note_trash(struct sink *s)
{
	struct prune *p = &s->prune;
	int fd CLEANUP_CLOSE = root_open(s->x.c->root, p->trash, O_PATH | O_DIRECTORY, 0);
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st))
		return 0;
	r = note_trash_dir(&p->trash_at, st.st_dev, st.st_ino);
	return r ? r : dirs_above(fd, note_trash_dir, &p->trash_at);
}

int prune_prepare(struct sink *s)
{
	const struct bulk_request *q = &s->x.c->request;
	struct prune *p = &s->prune;
	char *base CLEANUP_FREE = NULL;

	if (!(q->flags & BULK_F_SYNC) || !(q->sync.flags & SYNC_DELETE) || s->discard || s->stream)
		return 0;
	p->on = true;
	p->flags = q->sync.flags;
	if (!q->sync.trash || !*q->sync.trash)
		return 0;
	base = setup_below(s->x.c->cwd, s->x.c->items[0].path);
	p->trash = base ? setup_below(base, q->sync.trash) : NULL;
	for (size_t n = p->trash ? strlen(p->trash) : 0; n > 1 && p->trash[n - 1] == '/'; n--)
		p->trash[n - 1] = '\0';
	return p->trash ? note_trash(s) : -ENOMEM;
}

static void prune_dir_free(struct prune_dir *d)
{
	free(d->path);
	free(d->rel);
	free(d->names);
	free(d);
}

void prune_free(struct sink *s)
{
	while (s->prune.first) {
		struct prune_dir *d = s->prune.first;

		s->prune.first = d->next;
		prune_dir_free(d);
	}
	inodes_clear(&s->prune.trash_at);
	free(steal_ptr(&s->prune.trash));
}

/* ---- names that the source has ---- */

/* The path of d that the filter's patterns are matched with; "": they begin below it. malloc'd;
 * NULL: out of memory. */
static char *rel_of(const struct sink_dir *d)
{
	size_t len = 1, n;
	char *rel, *at;

	for (const struct sink_dir *up = d; up && up->names; up = up->parent)
		len += strlen(up->names->name) + 1;
	rel = malloc(len);
	if (!rel)
		return NULL;
	at = rel + len - 1;
	*at = '\0';
	for (; d && d->names && *d->names->name; d = d->parent) {
		n = strlen(d->names->name);
		if (*at)
			*--at = '/';
		at = memcpy(at - n, d->names->name, n);
	}
	memmove(rel, at, strlen(at) + 1);
	return rel;
}

static char *rel_join(const char *rel, const char *name)
{
	char *out;

	return asprintf(&out, "%s%s%s", rel, *rel ? "/" : "", name) < 0 ? NULL : out;
}

int prune_begin_dir(struct sink *s, struct sink_dir *d, const struct bulk_entry *en)
{
	if (!s->prune.on)
		return 0;
	d->names = calloc(1, sizeof(*d->names));
	if (!d->names)
		return -ENOMEM;
	d->names->top = en->flags & ENTRY_F_TOP;
	d->names->name = strdup(en->flags & ENTRY_F_CONTENTS ? "" : en->name);
	return d->names->name ? 0 : -ENOMEM;
}

void prune_names_free(struct sink *s, struct prune_names *n)
{
	if (!n)
		return;
	s->prune.nnames -= n->n;
	free(n->v);
	free(n->name);
	free(n);
}

static uint64_t name_digest(const char *name)
{
	uint8_t all[RUN_DIGEST_BYTES];
	uint64_t part;

	crypto_run_digest(all, name, strlen(name));
	memcpy(&part, all, sizeof(part));
	return part;
}

int prune_note(struct sink *s, struct sink_dir *d, const char *name, struct err *e)
{
	struct prune_names *n = d->names;

	if (!n)
		return 0;
	if (s->prune.nnames == PRUNE_NAMES_MAX)
		return err_set(e, -E2BIG, "--delete: more than %u names in one directory and those "
			       "above it", PRUNE_NAMES_MAX);
	if (!array_has_room(n->v, n->n, n->room))
		return -ENOMEM;
	n->v[n->n++] = name_digest(name);
	s->prune.nnames++;
	return 0;
}

static int compare_digests(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static bool source_has(const struct prune_names *n, const char *name)
{
	uint64_t x = name_digest(name);

	return n->n && bsearch(&x, n->v, n->n, sizeof(*n->v), compare_digests);
}

/* ---- names to be removed ---- */

/* Is the directory path the trash, or above it? The trash may not exist yet, and paths may be written
 * in several ways. */
enum trash_place { NOT_TRASH, IS_TRASH, ABOVE_TRASH };
static enum trash_place trash_place(struct prune *p, const char *path, uint64_t dev, uint64_t ino)
{
	struct inode *i = p->trash ? inodes_find(&p->trash_at, dev, ino) : NULL;
	size_t n = strlen(path);

	if (i)
		return i->id ? ABOVE_TRASH : IS_TRASH;
	if (!p->trash || strncmp(p->trash, path, n))
		return NOT_TRASH;
	return p->trash[n] == '\0' ? IS_TRASH : p->trash[n] == '/' ? ABOVE_TRASH : NOT_TRASH;
}

/* True: the filter leaves rel out, so it is not removed. */
static bool is_protected(const struct sink *s, const char *rel, bool is_dir)
{
	const struct filter *f = &s->x.c->request.filter;

	return f->n && !(s->prune.flags & SYNC_EXCLUDED) && !filter_admits(f, rel, is_dir);
}

static struct prune_dir *prune_dir_of(struct sink *s, struct sink_dir *d)
{
	struct prune_dir *x = d->names->extra;
	struct stat st;
	int dfd;

	if (x)
		return x;
	x = calloc(1, sizeof(*x));
	dfd = x ? dir_pin(d->dir) : -1;
	if (dfd >= 0 && !fstat(dfd, &st)) {
		x->dev = st.st_dev;
		x->ino = st.st_ino;
		x->path = sink_dir_path(d, "");
		x->rel = rel_of(d);
		x->mtime = (struct timespec){ d->meta.mtime_s, d->meta.mtime_ns };
	}
	if (dfd >= 0)
		dir_unpin(d->dir);
	if (x && (!x->path || !x->rel)) {
		prune_dir_free(x);
		return NULL;
	}
	if (x) {
		s->prune.bytes += sizeof(*x) + strlen(x->path) + strlen(x->rel);
		x->next = s->prune.first;
		s->prune.first = d->names->extra = x;
	}
	return x;
}

/* 0, -E2BIG or -ENOMEM. */
static int prune_add(struct sink *s, struct sink_dir *d, const char *name, char mark)
{
	struct prune_dir *x = prune_dir_of(s, d);
	size_t n = strlen(name) + 2;
	char *more;

	if (!x)
		return -ENOMEM;
	s->prune.bytes += n;
	if (s->prune.bytes > PRUNE_BYTES_MAX)
		return -E2BIG;
	if (x->room - x->len < n) {
		more = realloc(x->names, 2 * (x->room + n));
		if (!more)
			return -ENOMEM;
		x->names = more;
		x->room = 2 * (x->room + n);
	}
	x->names[x->len] = mark;
	memcpy(x->names + x->len + 1, name, n - 1);
	x->len += n;
	return 0;
}

bool prune_in_the_way(struct sink *s, struct sink_dir *d, const char *name)
{
	return s->prune.on && !(s->prune.flags & SYNC_LAST) && d->names && d->dir && !part_is_ours(name) &&
	       !prune_add(s, d, name, MARK_IN_THE_WAY);
}

/* Note the extra names among those in d. */
static int prune_look(struct sink *s, struct sink_dir *d, DIR *in)
{
	char *path CLEANUP_FREE = NULL, *rel CLEANUP_FREE = NULL, *top_rel CLEANUP_FREE = NULL;
	const struct dirent *it;
	struct stat st;
	int r = 0;

	top_rel = rel_of(d);
	if (!top_rel)
		return -ENOMEM;
	while (!r && (errno = 0, it = readdir(in))) {
		bool is_dir;

		if (!strcmp(it->d_name, ".") || !strcmp(it->d_name, "..") ||
		    part_is_ours(it->d_name) || source_has(d->names, it->d_name))
			continue;
		if (fstatat(dirfd(in), it->d_name, &st, AT_SYMLINK_NOFOLLOW))
			continue; /* it has gone, or run_dir() will say why */
		is_dir = S_ISDIR(st.st_mode);
		free(path);
		free(rel);
		path = sink_dir_path(d, it->d_name);
		rel = rel_join(top_rel, it->d_name);
		if (!path || !rel)
			return -ENOMEM;
		if (is_protected(s, rel, is_dir) ||
		    (is_dir && trash_place(&s->prune, path, st.st_dev, st.st_ino) == IS_TRASH))
			continue;
		if (d->names->top && !d->names->n)
			s->prune.from_empty = true;
		r = prune_add(s, d, it->d_name, MARK_EXTRA);
	}
	return r ? r : -errno;
}

/* A file or directory cannot be listed or removed; past: "listed", for example. */
static void prune_failed(struct sink *s, const char *path, int code, const char *past)
{
	char text[ERR_TEXT];

	snprintf(text, sizeof(text), "%s: cannot be %s: %s", printable(path), past,
		 strerror(-code));
	atomic_fetch_add(&s->x.count.failed, 1);
	xfer_send_failure(&s->x, BULK_FAILED, 0, code, text);
	XFER_EVENT(&s->x, file_failed, path, code, text);
}

int prune_end_dir(struct sink *s, struct sink_dir *d, bool partial, struct err *e)
{
	struct prune_names *n = d->names;
	int dfd, fd, r;
	DIR *in;

	if (n && partial && d->blocked)
		s->prune.unread = true;
	if (!n || partial || !d->dir || d->error || d->made)
		return 0;
	dfd = dir_pin(d->dir);
	if (dfd < 0 && s->dry)
		return 0; /* it does not exist */
	fd = dfd < 0 ? dfd : openat(dfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dfd >= 0 && fd < 0)
		fd = -errno;
	if (dfd >= 0)
		dir_unpin(d->dir);
	in = fd < 0 ? NULL : fdopendir(fd);
	if (!in && fd >= 0) {
		close(fd);
		return -ENOMEM;
	}
	if (in) {
		if (n->n)
			qsort(n->v, n->n, sizeof(*n->v), compare_digests);
		r = prune_look(s, d, in);
		closedir(in);
	} else {
		r = fd;
	}
	if (r == -E2BIG)
		return err_set(e, r, "--delete: too many names to remove them at once");
	if (r && r != -ENOMEM) {
		char *path CLEANUP_FREE = sink_dir_path(d, "");

		prune_failed(s, path ? path : "", r, "listed");
		r = 0;
	}
	return r;
}

/* ---- removing ---- */

/* A run through all noted names. */
struct prune_run {
	struct sink *s;
	bool count_only;          /* change nothing, and tell nobody */
	uint64_t names;           /* so far */
	struct buf *told;         /* BULK_REMOVED, not sent yet */
	char *trash;              /* the directory for this run, below the trash; NULL: none yet */
	const struct prune_dir *dir;
	bool in_the_way;          /* the name that is being removed */
	int failed;               /* a negative errno: the control connection is lost */
};

static void run_flush(struct prune_run *p)
{
	if (buf_len(p->told) && !p->failed)
		p->failed = xfer_send(&p->s->x, BULK_REMOVED, p->told);
	buf_reset(p->told);
}

/* A name was removed; in a dry run it would be. path: for people. */
static void run_tell(struct prune_run *p, const char *path, uint64_t bytes, bool is_dir)
{
	struct bulk_removed m = { .in_the_way = p->in_the_way, .bytes = bytes };
	char *dir CLEANUP_FREE = NULL;

	p->names++;
	if (p->count_only)
		return;
	if (is_dir && asprintf(&dir, "%s/", path) < 0)
		dir = NULL;
	m.path = dir ? dir : (char *)path;
	if (strlen(m.path) > BULK_PATH_MAX)
		m.path += strlen(m.path) - BULK_PATH_MAX;
	xfer_removed(&p->s->x, &m);
	if (bulk_removed_put(p->told, &m) == -ENOBUFS) {
		run_flush(p);
		(void)bulk_removed_put(p->told, &m);
	}
	if (buf_len(p->told) > REMOVED_BYTES)
		run_flush(p);
}

/* Create the directories above path, which is below the root. */
static int make_above(struct root *r, char *path)
{
	int rc = 0;

	for (char *at = strchr(path + 1, '/'); at && !rc; at = strchr(at + 1, '/')) {
		*at = '\0';
		rc = root_mkdir(r, path, 0700);
		rc = rc == -EEXIST ? 0 : rc;
		*at = '/';
	}
	return rc;
}

/* Move name, in the directory dfd, to rel in this run's directory of the trash. */
static int move_to_trash(struct prune_run *p, int dfd, const char *name, const char *rel)
{
	struct root *root = p->s->x.c->root;
	char *to CLEANUP_FREE = NULL, last[256];
	int parent CLEANUP_CLOSE = -1, r;

	if (!p->trash) {
		char when[32];
		struct tm tm;
		time_t now = time(NULL);

		strftime(when, sizeof(when), "%Y-%m-%dT%H.%M.%SZ", gmtime_r(&now, &tm));
		if (asprintf(&p->trash, "%s/%s", p->s->prune.trash, when) < 0) {
			p->trash = NULL;
			return -ENOMEM;
		}
	}
	if (asprintf(&to, "%s/%s", p->trash, rel) < 0) {
		to = NULL;
		return -ENOMEM;
	}
	r = make_above(root, to);
	parent = r ? r : root_open_parent(root, to, last);
	if (parent < 0)
		return parent;
	return renameat2(dfd, name, parent, last, RENAME_NOREPLACE) ? -errno : 0;
}

/* Remove one name in dfd, or move it to the trash. Directories are empty, or moved whole. */
static void remove_one(struct prune_run *p, int dfd, const char *name, const char *path,
		       const char *rel, uint64_t bytes, bool is_dir, bool whole)
{
	bool moves = p->s->prune.trash && (!is_dir || whole);
	struct stat st;
	int r = 0;

	if (!p->count_only && !p->s->dry)
		r = moves ? move_to_trash(p, dfd, name, rel) :
		    unlinkat(dfd, name, is_dir ? AT_REMOVEDIR : 0) ? -errno : 0;
	if (r == -ENOENT && fstatat(dfd, name, &st, AT_SYMLINK_NOFOLLOW) && errno == ENOENT)
		r = 0; /* it has gone; otherwise the trash is missing */
	if (!r)
		run_tell(p, path, bytes, is_dir);
	else if (r == -EXDEV && moves)
		prune_failed(p->s, path, r, "moved to the trash, which must be on its filesystem");
	else
		prune_failed(p->s, path, r, moves ? "moved to the trash" : "removed");
}

/* Directories of this account that it may not change, or list: as rsync, make them writable. */
static int open_up(int fd)
{
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	if ((st.st_mode & 0700) == 0700 || !geteuid() || st.st_uid != geteuid())
		return 0;
	return fd_chmod(fd, (st.st_mode & 07777) | 0700);
}

/* A directory that is removed with its contents. */
struct prune_tree {
	struct prune_run *p;
	bool in_the_way;
	char *kept;               /* rel of the last name that stays; its parents stay, too */
};

/* True: something in the directory rel stays. */
static bool keeps_below(const struct prune_tree *t, const char *rel)
{
	size_t n = strlen(rel);

	return t->kept && !strncmp(t->kept, rel, n) && t->kept[n] == '/';
}

static int prune_item(void *arg, const struct walk_item *it)
{
	struct prune_tree *t = arg;
	struct prune_run *p = t->p;
	bool is_dir = it->meta.type == FT_DIR;
	char *rel CLEANUP_FREE = it->parent ? dir_path(it->parent, it->name) : NULL;
	char *path CLEANUP_FREE = NULL;
	size_t above = strlen(p->dir->rel);
	int dfd;

	if (xfer_failed(&p->s->x) || p->failed)
		return -ECANCELED;
	/* A directory that cannot be listed: removing it will say why. */
	if (!it->parent || (it->error && it->dir))
		return 0;
	if (!rel || asprintf(&path, "%s%s", p->dir->path, rel + above + (above > 0)) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	/* What is mounted there stays, as a mount point cannot be removed anyway. */
	if (!it->leaving && (is_protected(p->s, rel, is_dir) ||
			     (is_dir && (it->meta.dev != p->dir->dev ||
					 trash_place(&p->s->prune, path, it->meta.dev,
						     it->meta.ino) == IS_TRASH)))) {
		free(t->kept);
		t->kept = steal_ptr(&rel);
		return t->kept ? is_dir ? WALK_PASS_OVER : 0 : -ENOMEM;
	}
	if (is_dir && !it->leaving && !it->error) {
		dfd = p->count_only || p->s->dry ? -1 : dir_pin(it->dir);
		if (dfd >= 0) {
			open_up(dfd);
			dir_unpin(it->dir);
		}
		return 0;
	}
	if (is_dir && keeps_below(t, rel))
		return 0;
	dfd = dir_pin(it->parent);
	if (dfd < 0)
		return dfd;
	p->in_the_way = false; /* only the top of the tree is */
	remove_one(p, dfd, it->name, path, rel, is_dir ? 0 : it->meta.size, is_dir, false);
	p->in_the_way = t->in_the_way;
	dir_unpin(it->parent);
	return 0;
}

/* The trash takes a directory whole, unless names in it stay. But --max-delete counts each name. */
static bool must_walk(const struct prune_run *p, const char *path, const struct stat *st)
{
	struct prune *n = &p->s->prune;

	return !n->trash || p->count_only ||
	       (p->s->x.c->request.filter.n && !(n->flags & SYNC_EXCLUDED)) ||
	       trash_place(n, path, st->st_dev, st->st_ino) == ABOVE_TRASH;
}

/* Move the directory name to the trash: for that it must be writable itself. */
static void move_dir(struct prune_run *p, int dfd, const char *name, const char *path,
		     const char *rel, const struct stat *st)
{
	int fd CLEANUP_CLOSE = openat(dfd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0 && !p->s->dry)
		open_up(fd);
	remove_one(p, dfd, name, path, rel, 0, true, true);
	if (fd >= 0 && !p->s->dry)
		fd_chmod(fd, st->st_mode & 07777);
}

static void remove_dir(struct prune_run *p, int dfd, const char *name, const char *path,
		       const char *rel, const struct stat *st)
{
	struct prune_tree t = { .p = p, .in_the_way = p->in_the_way };
	struct dirs *set;
	struct dir *top;
	int fd, r;

	if (st->st_dev != p->dir->dev) /* a mount point */
		r = p->in_the_way ? -EBUSY : -ECANCELED;
	else if (!must_walk(p, path, st)) {
		move_dir(p, dfd, name, path, rel, st);
		return;
	} else {
		fd = openat(dfd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd >= 0 && !p->count_only && !p->s->dry)
			open_up(fd);
		cleanup_close(&fd);
		fd = openat(dfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		set = fd < 0 ? NULL : dirs_new(open_files_most());
		top = set ? dir_top(set, fd, rel) : NULL;
		r = fd < 0 ? -errno : top ? 0 : -ENOMEM;
		if (fd >= 0 && !set)
			close(fd);
		if (!r)
			r = walk_tree(top, WALK_PARTS, NULL, prune_item, &t);
		if (top)
			dir_put(top);
		dirs_free(set);
	}
	if (r && r != -ECANCELED)
		prune_failed(p->s, path, r, "removed");
	else if (!r && !t.kept)
		remove_one(p, dfd, name, path, rel, 0, true, false);
	else if (!r && p->in_the_way)
		prune_failed(p->s, path, -ENOTEMPTY, "replaced, because names in it stay");
	free(t.kept);
}

/* Remove all noted names in the directory fd. */
static void remove_names(struct prune_run *p, int fd)
{
	const struct prune_dir *d = p->dir;

	for (size_t at = 0; at < d->len && !p->failed && !xfer_failed(&p->s->x);) {
		const char *name = d->names + at + 1;
		char *rel CLEANUP_FREE = rel_join(d->rel, name), *path CLEANUP_FREE = NULL;
		struct stat st;
		int r;

		if (!rel || asprintf(&path, "%s%s", d->path, name) < 0) {
			path = NULL;
			xfer_fail(&p->s->x, -ENOMEM, "out of memory");
			return;
		}
		p->in_the_way = d->names[at] == MARK_IN_THE_WAY;
		at += strlen(name) + 2;
		if (p->in_the_way && p->s->prune.unread) /* with --force */
			continue;
		r = fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) ? -errno : 0;
		if (r == -ENOENT) /* it has gone */
			run_tell(p, path, 0, false);
		else if (r)
			prune_failed(p->s, path, r, "removed");
		else if (S_ISDIR(st.st_mode))
			remove_dir(p, fd, name, path, rel, &st);
		else
			remove_one(p, fd, name, path, rel, (uint64_t)st.st_size, false, false);
	}
}

static void run_dir(struct prune_run *p)
{
	const struct prune_dir *d = p->dir;
	int fd CLEANUP_CLOSE = root_open(p->s->x.c->root, d->path, O_PATH | O_DIRECTORY, 0);
	const struct timespec t[2] = { { .tv_nsec = UTIME_OMIT }, d->mtime };
	bool changes = !p->count_only && !p->s->dry;
	struct stat st;
	int r = fd < 0 ? fd : fstat(fd, &st) ? -errno : 0;

	if (!r && (st.st_dev != d->dev || st.st_ino != d->ino))
		r = -ESTALE;
	if (!r && changes)
		r = open_up(fd);
	if (r) {
		prune_failed(p->s, d->path, r, "entered");
		return;
	}
	remove_names(p, fd);
	if (!changes)
		return;
	/* Removing has changed its time, and perhaps open_up() its mode. */
	fd_chmod(fd, st.st_mode & 07777);
	if ((p->s->x.c->request.flags & BULK_F_TIMES) && fd_utimens(fd, t))
		log_debug("times of a directory not set: %s", strerror(errno));
	if (p->s->sync && sync_dir(fd))
		log_warn("a directory could not be synced");
}

static void run_all(struct prune_run *p)
{
	for (p->dir = p->s->prune.first; p->dir && !p->failed && !xfer_failed(&p->s->x);
	     p->dir = p->dir->next)
		run_dir(p);
}

void prune_run(struct sink *s)
{
	struct prune_run p = { .s = s, .told = buf_new(BULK_FRAME_MAX) };
	uint64_t most = s->x.c->request.sync.most;
	bool force = s->prune.flags & SYNC_FORCE;

	if (!s->prune.on || !s->prune.first || xfer_failed(&s->x))
		goto end;
	if (!p.told) {
		xfer_fail(&s->x, -ENOMEM, "out of memory");
		goto end;
	}
	/* After a failure the client warns that nothing is removed. */
	if (atomic_load(&s->x.count.failed) && !force)
		goto end;
	if (s->prune.from_empty && !force) {
		xfer_fail(&s->x, -ENOTEMPTY, "the source is empty, and --delete would remove all "
			  "that the destination has: --force does it");
		goto end;
	}
	if (most != UINT64_MAX) {
		p.count_only = true;
		run_all(&p);
		p.count_only = false;
		if (p.names > most)
			xfer_fail(&s->x, -E2BIG, "--delete would remove %llu names, more than "
				  "--max-delete %llu: none was removed",
				  (unsigned long long)p.names, (unsigned long long)most);
		p.names = 0;
	}
	run_all(&p);
	run_flush(&p);
	if (p.failed)
		xfer_control_failed(&s->x, p.failed);
end:
	buf_free(p.told);
	free(p.trash);
}
