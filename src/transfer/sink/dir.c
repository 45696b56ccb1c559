// SPDX-License-Identifier: Apache-2.0
/* The destination, and directories below it. */
#include "transfer/sink/sink.h"

#include "transfer/setup.h"

#include <fcntl.h>
#include <sys/stat.h>

static bool dest_names_directory(const char *p)
{
	const char *last = strrchr(p, '/');

	last = last ? last + 1 : p;
	return !last[0] || !strcmp(last, ".") || !strcmp(last, "..");
}

static int sink_look_at_dest(struct sink *s)
{
	struct stat st;

	s->entries.dest_path = setup_below(s->x.c->cwd, s->x.c->items[0].path);
	if (!s->entries.dest_path)
		return -ENOMEM;
	s->entries.dest.slash = dest_names_directory(s->entries.dest_path) ||
				(s->x.c->request.flags & BULK_F_INTO);
	s->entries.dest.several = s->x.c->request.flags & BULK_F_SEVERAL;
	s->entries.dest.exists = !root_stat(s->x.c->root, s->entries.dest_path, true, &st);
	s->entries.dest.is_dir = s->entries.dest.exists && S_ISDIR(st.st_mode);
	s->entries.base_known = true;
	return 0;
}

/* A new directory, with a reference to parent. NULL: out of memory. */
static struct sink_dir *sink_dir_new(struct sink *s, uint64_t id, struct sink_dir *parent)
{
	struct sink_dir *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->id = id;
	d->parent = parent;
	if (parent)
		atomic_fetch_add(&parent->refs, 1);
	atomic_init(&d->refs, 1);
	atomic_fetch_add(&s->entries.ndirs, 1);
	return d;
}

static int dest_make_one(struct sink *s, const char *path)
{
	int above CLEANUP_CLOSE = -1, r = root_mkdir(s->x.c->root, path,
						     0777 & ~s->x.c->tuning.umask);
	char name[256];

	if (r || !s->sync)
		return r;
	above = root_open_parent(s->x.c->root, path, name);
	return above < 0 ? above : sync_dir(above);
}

/* The directory that holds path, with its final slash; "": path has only one component. malloc'd;
 * NULL: out of memory. */
static char *path_above(const char *path)
{
	size_t n = strlen(path);

	for (; n && path[n - 1] == '/'; n--)
		;
	for (; n && path[n - 1] != '/'; n--)
		;
	return strndup(path, n);
}

/* Create path and, if the request says so, its parents. */
static int dest_make_path(struct sink *s, const char *path)
{
	char *above CLEANUP_FREE = NULL;
	int r = dest_make_one(s, path);

	if (r == -ENOENT && (s->x.c->request.flags & BULK_F_MKDIRS)) {
		above = path_above(path);
		if (!above)
			return -ENOMEM;
		if (*above)
			r = dest_make_path(s, above);
		if (!r)
			r = dest_make_one(s, path);
	}
	return r == -EEXIST ? 0 : r;
}

/* Open the destination directory itself; make: create it if it is missing. */
static int sink_open_base(struct sink *s, bool make, struct err *e)
{
	int fd, r;

	if (s->entries.base)
		return 0;
	s->entries.base = sink_dir_new(s, 0, NULL);
	if (!s->entries.base)
		return err_nomem(e);

	if (make && !s->dry) {
		r = dest_make_path(s, s->entries.dest_path);
		if (r)
			return err_set(e, r, "%s: " CANNOT_MAKE_DIR ": %s",
				       printable(s->entries.dest_path), root_why(r));
		s->entries.dest.exists = s->entries.dest.is_dir = true;
		s->entries.base->made = true;
		s->entries.base->meta.mode = 0777;
	}

	fd = make && s->dry ? -1 :
	     root_open(s->x.c->root, s->entries.dest_path, O_RDONLY | O_DIRECTORY, 0);
	if (fd == -EACCES) /* it may be writable but not readable */
		fd = root_open(s->x.c->root, s->entries.dest_path, O_PATH | O_DIRECTORY, 0);
	if (fd < 0 && !(make && s->dry))
		return err_set(e, fd, "%s: %s", printable(s->entries.dest_path), root_why(fd));
	s->entries.base->dir = dir_top(s->dirset, fd, s->entries.dest_path);
	return s->entries.base->dir ? 0 : err_nomem(e);
}

/* Open the directory that holds the destination; the last component is in name. */
static int sink_open_above(struct sink *s, char name[256], struct sink_dir **above, struct err *e)
{
	char *path CLEANUP_FREE = path_above(s->entries.dest_path);
	int fd;

	if (!path)
		return err_nomem(e);

	fd = root_open_parent(s->x.c->root, s->entries.dest_path, name);
	if (fd == -ENOENT && (s->x.c->request.flags & BULK_F_MKDIRS) && !s->dry && *path) {
		fd = dest_make_path(s, path);
		if (!fd)
			fd = root_open_parent(s->x.c->root, s->entries.dest_path, name);
	}
	if (fd < 0)
		return err_set(e, fd, "%s: %s%s", printable(s->entries.dest_path), root_why(fd),
			       fd == -ENOENT ? " (make its directory first)" : "");

	*above = sink_dir_new(s, 0, NULL);
	if (*above)
		(*above)->dir = dir_top(s->dirset, fd, path);
	else
		close(fd);
	if (*above && (*above)->dir)
		return 0;
	sink_dir_put(s, *above);
	return err_nomem(e);
}

/* The directory with this id, as long as entries may name it; NULL: there is none. */
static struct sink_dir *sink_find_dir(struct sink *s, uint64_t id)
{
	struct sink_dir *d;

	HASH_FIND(hh, s->entries.dirs, &id, sizeof(id), d);
	return d;
}

int sink_resolve_name(struct sink *s, const struct bulk_entry *en, char namebuf[256],
		      struct sink_dir **parent, const char **name, struct err *e)
{
	struct sink_entries *n = &s->entries;
	bool dir = en->type == ENTRY_DIR, make;
	enum dest_kind place;
	int r;

	if (en->parent) {
		*parent = sink_find_dir(s, en->parent);
		if (!*parent)
			return -EPROTO;
		r = prune_note(s, *parent, en->name, e);
		if (r)
			return r;
		atomic_fetch_add(&(*parent)->refs, 1);
		*name = en->name;
		return 0;
	}
	r = n->base_known ? 0 : sink_look_at_dest(s);
	if (r)
		return err_set(e, r, "destination: %s", root_why(r));
	if (part_in_path(n->dest_path))
		return err_set(e, -EINVAL, "%s: " PART_NAME_WHY, printable(n->dest_path));

	r = dest_resolve(&n->dest, n->dest_path, dir, en->flags & ENTRY_F_CONTENTS, &place,
			 &make, e);
	if (r)
		return r;

	if (place == DEST_AS) {
		*name = namebuf;
		return sink_open_above(s, namebuf, parent, e);
	}

	r = sink_open_base(s, make, e);
	if (r)
		return r;
	atomic_fetch_add(&n->base->refs, 1);
	*parent = n->base;
	*name = place == DEST_CONTENTS ? NULL : en->name;
	return 0;
}

/* ---- directories ---- */

int sink_open_up(int fd)
{
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	if ((st.st_mode & 0700) == 0700 || st.st_uid != geteuid())
		return 0;
	return fd_chmod(fd, (st.st_mode & 07777) | 0700);
}

/* Make an existing directory of ours writable: an earlier run may have left it read-only. Its final
 * mode is set at the end, as for a new one. */
static void dir_open_up(int dfd, const char *name)
{
	/* O_PATH: the directory may not be readable. */
	int fd CLEANUP_CLOSE = openat(dfd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int r = fd < 0 ? 0 : sink_open_up(fd);

	if (r)
		log_debug("%s: its mode stays as it is: %s", printable(name), strerror(-r));
}

static int sink_make_dir(struct sink *s, struct sink_dir *parent, const char *name, bool *made)
{
	struct stat st;
	int dfd = dir_pin(parent->dir), r;

	*made = false;
	if (dfd < 0)
		return dfd;
	r = part_is_ours(name) ? -EINVAL : FAULT("mkdir", 0);
	if (!r && mkdirat(dfd, name, 0700))
		r = -errno;
	if (!r)
		*made = true;
	else if (r == -EEXIST)
		r = fstatat(dfd, name, &st, AT_SYMLINK_NOFOLLOW) ? -errno :
		    S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
	if (!r && !*made && !s->x.c->keep_old && (s->x.c->request.flags & BULK_F_MODES))
		dir_open_up(dfd, name);
	dir_unpin(parent->dir);
	return r;
}

/* Report a failed directory; below a failed one without a text, since one message is enough. */
static void dir_failed(struct sink *s, struct sink_dir *d, struct sink_dir *parent,
		       const char *name)
{
	char *path CLEANUP_FREE = parent->error ? NULL : sink_dir_path(parent, name);
	char text[ERR_TEXT] = "";

	if (!parent->error)
		snprintf(text, sizeof(text), "%s: " CANNOT_MAKE_DIR ": %s",
			 printable(path ? path : name),
			 part_is_ours(name) ? PART_NAME_WHY :
			 d->depth > SINK_DEPTH_MOST ? "nested too deeply" :
			 strerror(-d->error));
	atomic_fetch_add(&s->x.count.failed, 1);
	xfer_send_failure(&s->x, BULK_FAILED, d->id, d->error, text);
	XFER_EVENT(&s->x, file_failed, path ? path : name, d->error, text);
}

/* Keep the attributes until the source ends the directory. The source counts the directory as done
 * before that, so its window does not limit their bytes: limit them here. */
static int keep_dir_xattrs(struct sink *s, const struct bulk_entry *en, struct sink_dir *d)
{
	if (atomic_load(&s->entries.dir_details) + en->xattrs_len > BULK_DETAILS_MAX) {
		log_warn("%s: its attributes are left out, there are too many directories with "
			 "files on their way", printable(en->name));
		return 0;
	}
	if (sink_keep_xattrs(s, en, &d->xattrs, &d->xattrs_len))
		return -ENOMEM;
	atomic_fetch_add(&s->entries.dir_details, d->xattrs_len);
	return 0;
}

/* In a dry run: does the directory exist already? */
static bool dir_exists(struct sink *s, const struct sink_dir *parent, const char *name)
{
	struct stat st;

	if (!name)
		return s->entries.dest.exists;
	return parent->dir && !dir_stat(parent->dir, name, &st) && S_ISDIR(st.st_mode);
}

/* Answer in a dry run: the directory exists, or would be created. */
static int answer_dir(struct sink *s, const struct sink_dir *d, bool exists)
{
	int r = sink_verdict(s, d->id, exists ? VERDICT_SKIP : VERDICT_SEND);
	char *path CLEANUP_FREE = NULL;

	if (r || exists)
		return r;
	path = s->x.c->events.file_done ? sink_dir_path(d, "") : NULL;
	if (path)
		XFER_EVENT(&s->x, file_done, &(struct file_report){ .path = path });
	return sink_tell_done(s, d->id);
}

/* In a dry run: does the name exist, but not as a directory? */
static bool other_type(const struct sink_dir *parent, const char *name)
{
	struct stat st;

	return !dir_stat(parent->dir, name, &st) && !S_ISDIR(st.st_mode);
}

static int dir_entry(struct sink *s, const struct bulk_entry *en, struct err *e)
{
	struct sink_dir *parent, *d;
	char namebuf[256];
	const char *name;
	int r;

	if (atomic_load(&s->entries.ndirs) >= SINK_DIRS_MOST)
		return err_set(e, -E2BIG, "more than %u directories are open at once", SINK_DIRS_MOST);
	r = sink_resolve_name(s, en, namebuf, &parent, &name, e);
	if (r)
		return r;

	d = sink_dir_new(s, en->id, parent);
	if (!d || keep_dir_xattrs(s, en, d) || prune_begin_dir(s, d, en)) {
		if (d)
			sink_dir_put(s, d);
		sink_dir_put(s, parent);
		return -ENOMEM;
	}

	d->meta = sink_entry_meta(s, en);
	d->set = true;
	d->depth = parent->depth + 1;
	d->error = !parent->error && d->depth > SINK_DEPTH_MOST ? -ENAMETOOLONG : parent->error;
	d->blocked = parent->blocked;

	if (!name) {
		d->dir = parent->dir ? dir_ref(parent->dir) : NULL;
		d->made = parent->made;
	} else if (parent->dir && !d->error) {
		/* In a dry run it may not exist: stat() will fail. */
		d->error = s->dry ? 0 : sink_make_dir(s, parent, name, &d->made);
		d->blocked = (d->error == -ENOTDIR || (s->dry && other_type(parent, name))) &&
			     prune_in_the_way(s, parent, name);
		if (!d->error)
			d->dir = dir_sub(parent->dir, name);
	}

	HASH_ADD(hh, s->entries.dirs, id, sizeof(d->id), d);
	if (d->error && d->blocked)
		r = sink_tell_done(s, en->id);
	else if (d->error)
		dir_failed(s, d, parent, name ? name : en->name);
	else if (en->flags & ENTRY_F_ASK)
		r = answer_dir(s, d, dir_exists(s, parent, name));
	else
		r = sink_tell_done(s, en->id);
	sink_dir_put(s, parent); /* d has its own reference */
	return r;
}

struct places_above {
	struct buf *b;
	uint64_t id;
};

static int put_place_above(void *arg, uint64_t dev, uint64_t ino)
{
	struct places_above *p = arg;

	return bulk_place_put(p->b, p->id, dev, ino);
}

/* In a dry run the destination may not exist: the directories above it that do. */
static int put_places_of_missing(struct sink *s, struct places_above *p)
{
	char *path CLEANUP_FREE = strdup(s->entries.dest_path);
	int fd CLEANUP_CLOSE = -1, r;
	struct stat st;

	for (fd = -ENOENT; path && *path && fd == -ENOENT;) {
		char *above = path_above(path);

		free(path);
		path = above;
		fd = path ? root_open(s->x.c->root, *path ? path : ".", O_PATH | O_DIRECTORY, 0) :
		     -ENOMEM;
	}
	if (fd < 0 || fstat(fd, &st))
		return 0;
	r = put_place_above(p, st.st_dev, st.st_ino);
	return r ? r : dirs_above(fd, put_place_above, p);
}

/* Tell the source the device and inode of this directory: on one host the source must not walk into
 * its own destination. d may be NULL. */
static int sink_send_place(struct sink *s, uint64_t id, const struct sink_dir *d)
{
	struct buf *b CLEANUP_BUF = buf_new(BULK_FRAME_MAX);
	int dfd = d && d->dir ? dir_pin(d->dir) : -1;
	struct places_above above = { b, id };
	struct stat st = { 0 };
	int r;

	if (dfd >= 0 && fstat(dfd, &st))
		st = (struct stat){ 0 };
	r = b ? bulk_place_put(b, id, st.st_dev, st.st_ino) : -ENOMEM;
	/* A source that is above its destination is refused. */
	if (!r && (s->x.c->request.flags & BULK_F_SYNC) && st.st_ino)
		r = dirs_above(dfd, put_place_above, &above);
	else if (!r && (s->x.c->request.flags & BULK_F_SYNC) && s->dry)
		r = put_places_of_missing(s, &above);
	if (dfd >= 0)
		dir_unpin(d->dir);
	return r ? r : xfer_send(&s->x, BULK_PLACE, b);
}

int sink_on_dir(struct sink *s, const struct bulk_entry *en, struct err *e)
{
	bool nowhere = s->discard || s->stream;
	int r = nowhere ? sink_tell_done(s, en->id) : dir_entry(s, en, e);

	if (r || !s->x.same_host || !(en->flags & ENTRY_F_TOP))
		return r;
	return sink_send_place(s, en->id, nowhere ? NULL : sink_find_dir(s, en->id));
}

int sink_on_dir_end(struct sink *s, const struct bulk_entry *en, struct err *e)
{
	struct sink_dir *d = sink_find_dir(s, en->id);

	int r;

	if (!d)
		return -EPROTO;
	r = prune_end_dir(s, d, en->flags & ENTRY_F_PARTIAL, e);
	prune_names_free(s, steal_ptr(&d->names));
	HASH_DEL(s->entries.dirs, d);
	sink_dir_put(s, d);
	return r;
}

void sink_entries_end(struct sink *s)
{
	struct sink_dir *d, *next;

	HASH_ITER(hh, s->entries.dirs, d, next) {
		prune_names_free(s, steal_ptr(&d->names));
		HASH_DEL(s->entries.dirs, d);
		sink_dir_put(s, d);
	}
	if (s->entries.base) {
		sink_dir_put(s, s->entries.base);
		s->entries.base = NULL;
	}
}

/* ---- the end of a directory ---- */

void sink_dir_unsynced(const char *path)
{
	log_warn("%s: " CANNOT_SYNC, printable(path));
}

void sink_not_set(const char *path, const char *what, int code)
{
	log_debug("%s: %s not set: %s", printable(path), what, strerror(-code));
}

static int set_dir_mode(struct sink *s, const struct sink_dir *d, int dfd, bool owner_given)
{
	bool keep = s->x.c->request.flags & BULK_F_MODES;
	uint32_t wanted = keep ? d->meta.mode : 0777 & ~s->x.c->tuning.umask;
	struct stat st;

	if (fstat(dfd, &st))
		return -errno;
	return fd_chmod(dfd, mode_to_give(wanted, keep && owner_given, st.st_mode & 07777));
}

/* Set a directory's attributes when its last entry is done. It is synced while it is open, because
 * its new mode may forbid opening it. */
static int set_dir_attributes(struct sink *s, struct sink_dir *d, const char *path)
{
	struct timespec t[2] = {
		{ .tv_sec = d->meta.mtime_s, .tv_nsec = d->meta.mtime_ns },
		{ .tv_sec = d->meta.mtime_s, .tv_nsec = d->meta.mtime_ns },
	};
	uint32_t flags = s->x.c->request.flags;
	struct err e = ERR_INIT;
	bool owner_given = false;
	int r, dfd = dir_pin(d->dir);

	if (dfd < 0)
		return dfd;
	if (s->x.c->keep_old && !d->made)
		goto sync;
	if ((d->made ? d->xattrs_len != 0 : (flags & BULK_F_XATTRS) &&
	     xattrs_differ(dfd, d->xattrs, d->xattrs_len)) &&
	    sink_attributes_end(s, xattrs_correct(dfd, d->xattrs, d->xattrs_len, path, &e), &e))
		log_warn("%s", e.text);
	if (flags & BULK_F_OWNER) {
		r = fd_chown(dfd, d->meta.uid, d->meta.gid);
		owner_given = !r;
		if (r)
			sink_not_set(path, "owner", r);
	}
	if (d->made || (flags & BULK_F_MODES)) {
		r = set_dir_mode(s, d, dfd, owner_given);
		if (r)
			sink_not_set(path, "mode", r);
	}

	if ((flags & BULK_F_TIMES) && utimensat(dfd, ".", t, 0))
		sink_not_set(path, "times", -errno);
sync:
	r = s->sync ? sync_dir(dfd) : 0;
	dir_unpin(d->dir);
	return r;
}

static int sync_pinned(struct dir *dir)
{
	int dfd = dir_pin(dir), r;

	if (dfd < 0)
		return dfd;
	r = sync_dir(dfd);
	dir_unpin(dir);
	return r;
}

/* Sync the name of d, and of its parents that this transfer created, unless that was done
 * before. */
static int sync_name(struct sink_dir *d)
{
	int r = 0;

	while (!r && d->made && !atomic_exchange(&d->name_synced, true)) {
		d = d->parent;
		if (!d || !d->dir)
			break;
		r = sync_pinned(d->dir);
	}
	return r;
}

int sink_dir_sync(struct sink_dir *d)
{
	int r = sync_pinned(d->dir);

	return r ? r : sync_name(d);
}

void sink_dir_put(struct sink *s, struct sink_dir *d)
{
	while (d && atomic_fetch_sub_explicit(&d->refs, 1, memory_order_acq_rel) == 1) {
		struct sink_dir *parent = d->parent;

		if (d->dir && d->set && !s->dry && !xfer_failed(&s->x)) {
			CLEANUP_FREE char *path = sink_dir_path(d, "");

			if (set_dir_attributes(s, d, path ? path : "") || (s->sync && sync_name(d)))
				sink_dir_unsynced(path ? path : "");
		}
		if (d->made && d->depth <= 1 && xfer_failed(&s->x) && d->dir && !s->dry) {
			CLEANUP_FREE char *path = sink_dir_path(d, "");

			/* Nothing has arrived in it: the source may have refused this destination. */
			if (path)
				root_rmdir(s->x.c->root, path);
		}
		if (d->dir)
			dir_put(d->dir);
		prune_names_free(s, d->names); /* it could not be entered */
		atomic_fetch_sub(&s->entries.dir_details, d->xattrs_len);
		free(d->xattrs);
		free(d);
		atomic_fetch_sub(&s->entries.ndirs, 1);
		d = parent;
	}
}

/* ---- paths of directories ---- */

char *sink_dir_path(const struct sink_dir *d, const char *name)
{
	char *path CLEANUP_FREE = d->dir ? dir_path(d->dir, name) : strdup(name), *out;
	size_t n = path ? strlen(path) : 0;

	if (!n || *name || path[n - 1] == '/')
		return steal_ptr(&path);
	return asprintf(&out, "%s/", path) < 0 ? NULL : out;
}

/* ---- the destination rule ---- */

int dest_resolve(const struct dest *d, const char *path, bool dir, bool contents,
		 enum dest_kind *place, bool *make, struct err *e)
{
	*make = !d->exists;
	if (d->exists && !d->is_dir && (d->slash || dir || d->several))
		return err_sys(e, -ENOTDIR, "%s", printable(path));
	if (d->several && !d->slash)
		return err_set(e, -EINVAL,
			       DEST_SEVERAL_WHY, printable(path));
	if (dir && (contents || !d->slash))
		*place = DEST_CONTENTS;
	else if (dir || d->slash || (d->exists && d->is_dir))
		*place = DEST_INTO;
	else
		*place = DEST_AS;
	if (*place == DEST_AS)
		*make = false;
	return 0;
}
