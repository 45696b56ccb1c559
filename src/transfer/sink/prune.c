// SPDX-License-Identifier: Apache-2.0
/* Finds the names that the source does not have. */
#include "transfer/sink/sink.h"

#include "transfer/setup.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

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
	s->prune.nnames -= n->n / 2;
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

/* The digest of a name for filesystems that ignore case: letters of ASCII are small, and each run of
 * other bytes above 127 is one byte. Other digests of names never equal it. */
static uint64_t folded_digest(const char *name)
{
	char folded[NAME_MAX + 2] = "/";
	size_t n = 1;

	for (; *name && n <= NAME_MAX; name++) {
		unsigned char c = (unsigned char)*name;

		if (c < 0x80)
			folded[n++] = (char)(c >= 'A' && c <= 'Z' ? c + 32 : c);
		else if (folded[n - 1] != '\x7f')
			folded[n++] = '\x7f';
	}
	folded[n] = '\0';
	return name_digest(folded);
}

/* Does the filesystem of dfd find name, of the file st, in the other case, too? */
static bool ignores_case(int dfd, const char *name, const struct stat *st)
{
	char other[NAME_MAX + 1];
	bool differs = false;
	struct stat there;
	size_t n = 0;

	for (; name[n] && n < NAME_MAX; n++) {
		bool letter = isalpha((unsigned char)name[n]) && !(name[n] & 0x80);

		other[n] = (char)(name[n] ^ (letter ? 32 : 0));
		differs |= letter;
	}
	other[n] = '\0';
	return differs && !fstatat(dfd, other, &there, AT_SYMLINK_NOFOLLOW) &&
	       there.st_dev == st->st_dev && there.st_ino == st->st_ino &&
	       (S_ISDIR(st->st_mode) || st->st_nlink == 1);
}

int prune_note(struct sink *s, struct sink_dir *d, const char *name, struct err *e)
{
	struct prune_names *n = d->names;

	if (!n)
		return 0;
	if (s->prune.nnames == PRUNE_NAMES_MAX)
		return err_set(e, -E2BIG, "--delete: more than %u names in one directory and those "
			       "above it", PRUNE_NAMES_MAX);
	for (int folded = 0; folded < 2; folded++) {
		if (!array_has_room(n->v, n->n, n->room))
			return -ENOMEM;
		n->v[n->n++] = folded ? folded_digest(name) : name_digest(name);
	}
	s->prune.nnames++;
	return 0;
}

static int compare_digests(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static bool source_has(const struct prune_names *n, uint64_t x)
{
	return n->n && bsearch(&x, n->v, n->n, sizeof(*n->v), compare_digests);
}

/* ---- names to be removed ---- */

/* The trash may not exist yet, and paths may be written in several ways. */
enum trash_place prune_trash_place(struct prune *p, const char *path, uint64_t dev, uint64_t ino)
{
	struct inode *i = p->trash ? inodes_find(&p->trash_at, dev, ino) : NULL;
	size_t n = strlen(path);

	if (i)
		return i->id ? ABOVE_TRASH : IS_TRASH;
	if (!p->trash || strncmp(p->trash, path, n))
		return NOT_TRASH;
	return p->trash[n] == '\0' ? IS_TRASH : p->trash[n] == '/' ? ABOVE_TRASH : NOT_TRASH;
}

bool prune_protects(const struct sink *s, const char *rel, bool is_dir)
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
		    part_is_ours(it->d_name) || source_has(d->names, name_digest(it->d_name)))
			continue;
		if (fstatat(dirfd(in), it->d_name, &st, AT_SYMLINK_NOFOLLOW))
			continue; /* it has gone, or run_dir() will say why */
		if (source_has(d->names, folded_digest(it->d_name)) &&
		    ignores_case(dirfd(in), it->d_name, &st))
			continue; /* the source has it in other letters */
		is_dir = S_ISDIR(st.st_mode);
		free(path);
		free(rel);
		path = sink_dir_path(d, it->d_name);
		rel = name_below(top_rel, it->d_name);
		if (!path || !rel)
			return -ENOMEM;
		if (prune_protects(s, rel, is_dir) ||
		    (is_dir && prune_trash_place(&s->prune, path, st.st_dev, st.st_ino) == IS_TRASH))
			continue;
		if (d->names->top && !d->names->n)
			s->prune.from_empty = true;
		r = prune_add(s, d, it->d_name, MARK_EXTRA);
	}
	return r ? r : -errno;
}

void prune_failed(struct sink *s, const char *path, int code, const char *past)
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

