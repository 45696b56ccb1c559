// SPDX-License-Identifier: Apache-2.0
/* Removes the names that prune.c has noted, or moves them to the trash. */
#include "transfer/sink/sink.h"

#include "transfer/setup.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

/* BULK_REMOVED is sent once there are this many bytes of it. */
#define REMOVED_BYTES 65536

enum { TRASH_TRIES = 100 };

/* A run through all noted names. */
struct prune_run {
	struct sink *s;
	bool count_only;          /* change nothing, and report nothing */
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

/* A failure of a run; the run that only counts reports none. */
static void run_failed(struct prune_run *p, const char *path, int code, const char *past)
{
	if (!p->count_only)
		prune_failed(p->s, path, code, past);
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

/* Create this run's directory of the trash. Another run may have begun in the same second. */
static int make_trash(struct prune_run *p)
{
	struct root *root = p->s->x.c->root;
	time_t now = time(NULL);
	char when[48];
	struct tm tm;
	size_t len = strftime(when, sizeof(when), "%Y-%m-%dT%H.%M.%SZ", gmtime_r(&now, &tm));
	int r = -EEXIST;

	for (unsigned i = 0; r == -EEXIST && i < TRASH_TRIES; i++) {
		if (i)
			snprintf(when + len, sizeof(when) - len, ".%u", i);
		free(p->trash);
		p->trash = name_below(p->s->prune.trash, when);
		r = p->trash ? make_above(root, p->trash) : -ENOMEM;
		r = r ? r : root_mkdir(root, p->trash, 0700);
	}
	if (r)
		free(steal_ptr(&p->trash));
	return r;
}

/* Move name, in the directory dfd, to rel in this run's directory of the trash, which no other run
 * uses: each rel is there once. */
static int move_to_trash(struct prune_run *p, int dfd, const char *name, const char *rel)
{
	struct root *root = p->s->x.c->root;
	int r = p->trash ? 0 : make_trash(p);
	char *to CLEANUP_FREE = r ? NULL : name_below(p->trash, rel), last[256];
	int parent CLEANUP_CLOSE = -1;

	if (!to)
		return r ? r : -ENOMEM;
	parent = root_open_parent(root, to, last);
	if (parent == -ENOENT) {
		r = make_above(root, to);
		parent = r ? r : root_open_parent(root, to, last);
	}
	if (parent < 0)
		return parent;
	return renameat(dfd, name, parent, last) ? -errno : 0;
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
		run_failed(p, path, r, "moved to the trash, which must be on its filesystem");
	else
		run_failed(p, path, r, moves ? "moved to the trash" : "removed");
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
	/* Mount points stay: they cannot be removed anyway. */
	if (!it->leaving && (prune_protects(p->s, rel, is_dir) ||
			     (is_dir && (it->meta.dev != p->dir->dev ||
					 prune_trash_place(&p->s->prune, path, it->meta.dev,
						     it->meta.ino) == IS_TRASH)))) {
		free(t->kept);
		t->kept = steal_ptr(&rel);
		return t->kept ? is_dir ? WALK_PASS_OVER : 0 : -ENOMEM;
	}
	if (is_dir && !it->leaving && !it->error) {
		dfd = p->count_only || p->s->dry ? -1 : dir_pin(it->dir);
		if (dfd >= 0) {
			sink_open_up(dfd);
			dir_unpin(it->dir);
		}
		return 0;
	}
	if (is_dir && keeps_below(t, rel)) {
		dfd = p->count_only || p->s->dry ? -1 : dir_pin(it->dir);
		if (dfd >= 0) {
			fd_chmod(dfd, it->meta.mode);
			dir_unpin(it->dir);
		}
		return 0;
	}
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
	       prune_trash_place(n, path, st->st_dev, st->st_ino) == ABOVE_TRASH;
}

/* Move the directory name to the trash: for that it must be writable itself. */
static void move_dir(struct prune_run *p, int dfd, const char *name, const char *path,
		     const char *rel, const struct stat *st)
{
	int fd CLEANUP_CLOSE = openat(dfd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0 && !p->s->dry)
		sink_open_up(fd);
	remove_one(p, dfd, name, path, rel, 0, true, true);
	if (fd >= 0 && !p->s->dry)
		fd_chmod(fd, st->st_mode & 07777);
}

/* The directory name stays: give it its mode again. */
static void restore_mode(int dfd, const char *name, const struct stat *st)
{
	int fd CLEANUP_CLOSE = openat(dfd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0)
		fd_chmod(fd, st->st_mode & 07777);
}

static void remove_dir(struct prune_run *p, int dfd, const char *name, const char *path,
		       const char *rel, const struct stat *st)
{
	struct prune_tree t = { .p = p, .in_the_way = p->in_the_way };
	bool changes = !p->count_only && !p->s->dry;
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
		if (fd >= 0 && changes)
			sink_open_up(fd);
		cleanup_close(&fd);
		fd = openat(dfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0 && errno == EACCES && !changes && st->st_uid == geteuid()) {
			run_tell(p, path, 0, true); /* a real run makes it readable */
			return;
		}
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
		run_failed(p, path, r, "removed");
	else if (!r && !t.kept)
		remove_one(p, dfd, name, path, rel, 0, true, false);
	else if (!r && p->in_the_way)
		run_failed(p, path, -ENOTEMPTY, "replaced, because names in it stay");
	if (t.kept && changes)
		restore_mode(dfd, name, st);
	free(t.kept);
}

/* Remove all noted names in the directory fd. */
static void remove_names(struct prune_run *p, int fd)
{
	const struct prune_dir *d = p->dir;

	for (size_t at = 0; at < d->len && !p->failed && !xfer_failed(&p->s->x);) {
		const char *name = d->names + at + 1;
		char *rel CLEANUP_FREE = name_below(d->rel, name), *path CLEANUP_FREE = NULL;
		struct stat st;
		int r;

		if (!rel || asprintf(&path, "%s%s", d->path, name) < 0) {
			path = NULL;
			xfer_fail(&p->s->x, -ENOMEM, NO_MEMORY);
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
			run_failed(p, path, r, "removed");
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
		r = sink_open_up(fd);
	if (r) {
		run_failed(p, d->path, r, "entered");
		return;
	}
	remove_names(p, fd);
	if (!changes)
		return;
	/* Removing has changed its time, and perhaps sink_open_up() its mode. */
	fd_chmod(fd, st.st_mode & 07777);
	r = p->s->x.c->request.flags & BULK_F_TIMES ? fd_utimens(fd, t) : 0;
	if (r)
		sink_not_set(d->path, "times", r);
	if (p->s->sync && sync_dir(fd))
		sink_dir_unsynced(d->path);
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
		xfer_fail(&s->x, -ENOMEM, NO_MEMORY);
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
			xfer_fail(&s->x, -E2BIG, "--delete would remove %llu name%s, more than "
				  "--max-delete %llu: none was removed",
				  (unsigned long long)p.names, plural(p.names),
				  (unsigned long long)most);
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
