// SPDX-License-Identifier: Apache-2.0
/* Entries of directories: each is made at once, in the order of the walk, so that there is one
 * to put into whatever comes next. */
#include "transfer/sink_entry.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct kdir *sink_find_dir(struct sink *s, uint64_t id)
{
	struct kdir *d;

	HASH_FIND(hh, s->dirs, &id, sizeof(id), d);
	return d;
}

/* An earlier run may have left a directory of ours that forbids writing into it. Its mode
 * is set at the end, as a new one's is. */
static void open_up(int dfd, const char *name)
{
	/* O_PATH: it may not be readable. */
	int fd CLEANUP_CLOSE = openat(dfd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) || (st.st_mode & 0700) == 0700 || st.st_uid != geteuid())
		return;
	r = fd_chmod(fd, (st.st_mode & 07777) | 0700);
	if (r)
		log_debug("%s: its mode stays as it is: %s", printable(name), strerror(-r));
}

static int make_dir(struct sink *s, struct kdir *parent, const char *name, bool *made)
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
	if (!r && !*made && !s->keep_old && (s->x.req->flags & BULK_F_MODES))
		open_up(dfd, name);
	dir_unpin(parent->dir);
	return r;
}

/* With a text for the topmost only: that is enough for people. */
static void dir_failed(struct sink *s, struct kdir *d, struct kdir *parent, const char *name)
{
	char *path CLEANUP_FREE = parent->error ? NULL : kdir_path(parent, name);
	char text[ERR_TEXT] = "";

	if (!parent->error)
		snprintf(text, sizeof(text), "%s: cannot make the directory: %s",
			 printable(path ? path : name),
			 part_is_ours(name) ? PART_NAME_WHY :
			 d->depth > SINK_DEPTH_MOST ? "nested too deeply" :
			 strerror(-d->error));
	atomic_fetch_add(&s->failed, 1);
	xfer_send_failure(&s->x, BULK_FAILED, d->id, d->error, text);
	XFER_EVENT(&s->x, file_failed, path ? path : name, d->error, text);
}

/* They are set when nothing goes into the directory any more, and when that will be is not
 * for us to say: the source hears at once that it is there. */
static int keep_dir_xattrs(struct sink *s, const struct bulk_entry *en, struct kdir *d)
{
	if (atomic_load(&s->dir_details) + en->xattrs_len > BULK_DETAILS_MAX) {
		log_warn("%s: its attributes are left out, there are too many directories with "
			 "files on their way", printable(en->name));
		return 0;
	}
	if (sink_keep_xattrs(s, en, &d->xattrs, &d->xattrs_len))
		return -ENOMEM;
	atomic_fetch_add(&s->dir_details, d->xattrs_len);
	return 0;
}

static void tell_dir(struct sink *s, const struct kdir *d)
{
	char *path CLEANUP_FREE = s->x.events->file_done ? kdir_path(d, "") : NULL;

	if (path)
		XFER_EVENT(&s->x, file_done, path, 0, false);
}

/* Of a dry run: is d there already? */
static bool dir_exists(struct sink *s, const struct kdir *parent, const char *name)
{
	struct stat st;
	int dfd;
	bool is;

	if (!name)
		return s->dest.exists;
	dfd = parent->dir ? dir_pin(parent->dir) : -ENOENT;
	is = dfd >= 0 && !fstatat(dfd, name, &st, AT_SYMLINK_NOFOLLOW) && S_ISDIR(st.st_mode);
	if (dfd >= 0)
		dir_unpin(parent->dir);
	return is;
}

/* What a dry run would do: nothing, or make it. */
static int answer_dir(struct sink *s, const struct kdir *d, bool exists)
{
	int r = sink_verdict(s, d->id, exists ? VERDICT_SKIP : VERDICT_SEND);

	if (r || exists)
		return r;
	tell_dir(s, d);
	return sink_tell_done(s, d->id);
}

static int on_dir(struct sink *s, const struct bulk_entry *en, struct err *e)
{
	struct kdir *parent, *d;
	char namebuf[256];
	const char *name;
	int r;

	if (atomic_load(&s->ndirs) >= SINK_DIRS_MOST)
		return err_set(e, -E2BIG, "more than %u directories are open at once", SINK_DIRS_MOST);
	r = sink_place(s, en, namebuf, &parent, &name, e);
	if (r)
		return r;
	d = kdir_new(s, en->id, parent);
	if (!d || keep_dir_xattrs(s, en, d)) {
		if (d)
			kdir_put(s, d);
		kdir_put(s, parent);
		return -ENOMEM;
	}
	d->meta = sink_entry_meta(en);
	d->set = true;
	d->depth = parent->depth + 1;
	d->error = !parent->error && d->depth > SINK_DEPTH_MOST ? -ENAMETOOLONG : parent->error;
	if (!name) {
		d->dir = parent->dir ? dir_ref(parent->dir) : NULL;
		d->made = parent->made;
	} else if (parent->dir && !d->error && !s->dry) {
		d->error = make_dir(s, parent, name, &d->made);
		if (!d->error)
			d->dir = dir_sub(parent->dir, name);
	} else if (parent->dir && !d->error) {
		d->dir = dir_sub(parent->dir, name); /* may not exist: stat tells */
	}
	if (s->dry && !d->dir)
		d->name = strdup(name ? name : "");
	HASH_ADD(hh, s->dirs, id, sizeof(d->id), d);
	if (d->error)
		dir_failed(s, d, parent, name ? name : en->name);
	else if (en->flags & ENTRY_F_ASK)
		r = answer_dir(s, d, dir_exists(s, parent, name));
	else
		r = sink_tell_done(s, en->id);
	kdir_put(s, parent); /* d holds its own */
	return r;
}

/* The source must not walk into what it makes us make: which directory did this become? d
 * may be NULL. */
static int tell_place(struct sink *s, uint64_t id, const struct kdir *d)
{
	struct buf *b CLEANUP_BUF = buf_new(64);
	int dfd = d && d->dir ? dir_pin(d->dir) : -1;
	struct stat st = { 0 };
	int r;

	if (dfd >= 0 && fstat(dfd, &st))
		st = (struct stat){ 0 };
	if (dfd >= 0)
		dir_unpin(d->dir);
	r = b ? bulk_place_put(b, id, st.st_dev, st.st_ino) : -ENOMEM;
	return r ? r : xfer_send(&s->x, BULK_PLACE, b);
}

/* A directory, wherever it goes. */
int sink_on_dir(struct sink *s, const struct bulk_entry *en, struct err *e)
{
	bool nowhere = s->discard || s->stream;
	int r = nowhere ? sink_tell_done(s, en->id) : on_dir(s, en, e);

	if (r || !s->x.same_host || !(en->flags & ENTRY_F_TOP))
		return r;
	return tell_place(s, en->id, nowhere ? NULL : sink_find_dir(s, en->id));
}

int sink_on_dir_end(struct sink *s, const struct bulk_entry *en)
{
	struct kdir *d = sink_find_dir(s, en->id);

	if (!d)
		return -EPROTO;
	HASH_DEL(s->dirs, d);
	kdir_put(s, d);
	return 0;
}

void sink_entries_end(struct sink *s)
{
	struct kdir *d, *next;

	HASH_ITER(hh, s->dirs, d, next) {
		HASH_DEL(s->dirs, d);
		kdir_put(s, d);
	}
	if (s->base) {
		kdir_put(s, s->base);
		s->base = NULL;
	}
}
