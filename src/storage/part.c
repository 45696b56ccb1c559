// SPDX-License-Identifier: Apache-2.0
/* Parts: files that are being written, and get their name when they are complete. */
#include "storage/internal.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>

enum kind { UNNAMED, NAMED, INPLACE, RANGE };

/* Members without a comment never change; j has its own lock. */
struct part {
	struct part_spec spec;  /* with a reference to dir and a copy of name */
	char own[PART_NAME_MAX];/* the part's name, once it is needed */
	enum kind kind;
	int fd;
	bool fresh;             /* the file behind fd is new */
	bool whole;             /* of part_write_whole(), which needs look_at_old() */
	struct journal *j;      /* NULL: none */
	/* used by the committing thread only */
	uint64_t size;
	bool dressed;           /* size and attributes are set */
	bool over;              /* committed or abandoned */
};

#define CANNOT_RESIZE "cannot be set to its final size"

static int part_say(struct part *p, int code, const char *what, struct err *e)
{
	return part_err(e, code, &p->spec, what);
}

static int unwritable(const struct part_spec *s, int code, struct err *e)
{
	return part_err(e, code, s, CANNOT_WRITE);
}

int part_pin_dir(const struct part_spec *s, struct err *e)
{
	int fd = dir_pin(s->dir);

	return fd < 0 ? part_err(e, fd, s, "its directory cannot be opened") : fd;
}

/* ---- begin ---- */

static struct part *part_new(const struct part_spec *s)
{
	struct part *p = calloc(1, sizeof(*p));
	char *name = strdup(s->name);

	if (!p || !name) {
		free(p);
		free(name);
		return NULL;
	}
	p->spec = *s;
	p->spec.name = name;
	dir_ref(p->spec.dir);
	p->size = s->meta.size;
	p->fd = -1;
	return p;
}

int64_t mode_there(int dirfd, const char *name)
{
	struct stat st;
	bool there = fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;

	return there && S_ISREG(st.st_mode) ? (int64_t)(st.st_mode & 07777) : -1;
}

/* Open an unnamed file or the part file; a new file gets this mode. */
static int open_beside(struct part *p, int dirfd, mode_t mode, struct err *e)
{
	p->fresh = true;
	if (p->spec.range.length) {
		range_part_name(p->own, &p->spec);
		p->fd = range_open(&p->spec, dirfd, p->own);
		p->fresh = false;
		p->kind = RANGE;
		if (p->fd == -EBUSY || p->fd == -ENOLCK)
			return part_name_err(e, p->fd, &p->spec);
		return p->fd < 0 ? unwritable(&p->spec, p->fd, e) : 0;
	}
	if (!p->spec.journal) {
		p->fd = part_open_unnamed(&p->spec, dirfd, mode);
		p->kind = UNNAMED;
		if (p->fd != -EOPNOTSUPP)
			return p->fd < 0 ? unwritable(&p->spec, p->fd, e) : 0;
	}
	part_name(p->own, p->spec.name);
	p->fd = part_open_named(dirfd, p->own, mode, &p->fresh);
	p->kind = NAMED;
	if (p->fd == -EBUSY)
		return part_name_err(e, p->fd, &p->spec);
	return p->fd < 0 ? unwritable(&p->spec, p->fd, e) : 0;
}

static int open_inplace(struct part *p, int dirfd, struct err *e)
{
	const int flags = O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC |
			  (p->spec.journal ? O_RDWR : O_WRONLY);
	const char *name = p->spec.name;
	struct stat st;
	int r;

	p->kind = INPLACE;
	p->fd = openat(dirfd, name, flags | O_CREAT | O_EXCL, attrs_mode(&p->spec, -1) & 0777);
	p->fresh = p->fd >= 0;
	if (p->fd < 0 && errno == EEXIST && p->spec.keep_old)
		return part_name_err(e, -EEXIST, &p->spec);
	if (p->fd < 0 && errno == EEXIST)
		p->fd = openat(dirfd, name, flags);
	if (p->fd < 0 && errno == ELOOP)
		return part_say(p, -ELOOP, "cannot be written in place through a symbolic link", e);
	if (p->fd < 0)
		return part_say(p, -errno, "cannot be written in place", e);
	if (fstat(p->fd, &st) || !S_ISREG(st.st_mode))
		return part_say(p, -EINVAL, "only a regular file can be written in place", e);
	r = part_lock(p->fd);
	if (r == -EBUSY)
		return part_name_err(e, r, &p->spec);
	return r ? part_say(p, r, "cannot be locked", e) : 0;
}

/* Set the file to its final size, so that unwritten ranges are holes; first empty it unless keep is
 * set. A file in place keeps its old bytes until the commit. */
static int set_length(struct part *p, bool keep, struct err *e)
{
	if (p->kind == INPLACE || p->kind == RANGE)
		return 0;
	if (!keep && ftruncate(p->fd, 0))
		return part_say(p, -errno, "cannot be emptied", e);
	if (p->size && ftruncate(p->fd, (off_t)p->size))
		return part_say(p, -errno, CANNOT_RESIZE, e);
	return 0;
}

static int begin_at(struct part *p, int dirfd, struct err *e)
{
	int r = part_may_replace(&p->spec, dirfd);
	bool taken = false;

	if (r)
		return part_name_err(e, r, &p->spec);
	if (p->spec.inplace)
		r = open_inplace(p, dirfd, e);
	else
		r = open_beside(p, dirfd, 0600, e);
	if (r)
		return r;
	if (p->spec.journal) {
		p->j = journal_open(dirfd, &p->spec, p->fd, p->fresh, &taken, e);
		if (!p->j)
			return e && e->code ? e->code : -EIO;
	}

	/* a named part without a usable journal is emptied */
	return set_length(p, taken || p->fresh, e);
}

/* Remove all files of p. Bytes that were written in place into an older file stay. */
static void remove_traces(struct part *p, int dirfd)
{
	char journal[PART_NAME_MAX];

	if (p->kind == RANGE) /* free its space before another writer may take the range */
		fallocate(p->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			  (off_t)p->spec.range.offset, (off_t)p->spec.range.length);
	spec_journal_name(journal, &p->spec);
	if (p->j)
		unlinkat(dirfd, journal, 0);
	if (p->kind == NAMED)
		unlinkat(dirfd, p->own, 0);
	else if (p->kind == INPLACE && p->fresh)
		unlinkat(dirfd, p->spec.name, 0);
}

struct part *part_begin(const struct part_spec *s, struct err *e)
{
	struct part *p;
	int dirfd, r = FAULT("open", 0);

	if (r) {
		unwritable(s, r, e);
		return NULL;
	}
	if (s->meta.size > INT64_MAX) {
		unwritable(s, -EFBIG, e);
		return NULL;
	}
	if (part_check_name(s, e))
		return NULL;
	p = part_new(s);
	if (!p) {
		unwritable(s, -ENOMEM, e);
		return NULL;
	}
	r = dirfd = part_pin_dir(s, e);
	if (dirfd >= 0) {
		r = begin_at(p, dirfd, e);
		if (!r)
			dir_remove_old_parts(s->dir, dirfd);
		if (r && p->fd >= 0 && p->fresh && r != -EBUSY)
			remove_traces(p, dirfd);
		dir_unpin(s->dir);
	}

	if (r == 0)
		return p;
	p->over = true;
	part_free(p);
	return NULL;
}

int part_stamp(const struct part_spec *s, struct timespec *t)
{
	char part[PART_NAME_MAX];
	struct stat st;
	int r;

	if (s->range.length) /* others write to the part, too */
		spec_journal_name(part, s);
	else
		part_name(part, s->name);
	r = dir_stat(s->dir, s->inplace ? s->name : part, &st);
	if (!r)
		*t = st.st_mtim;
	return r;
}

int part_fd(const struct part *p)
{
	return p->fd;
}

int part_set_size(struct part *p, uint64_t size)
{
	if (p->j || size > INT64_MAX)
		return p->j ? -EINVAL : -EFBIG;
	p->size = size; /* dress() applies it */
	return 0;
}

/* ---- runs ---- */

int64_t part_runs(struct part *p, part_run_fn *fn, void *arg, struct err *e)
{
	int64_t n;

	if (!p->j)
		return 0;
	n = journal_runs(p->j, fn, arg);
	return n < 0 ? part_say(p, (int)n, "cannot read back the data written before", e) : n;
}

int part_note_run(struct part *p, const struct part_run *run)
{
	return p->j ? journal_note(p->j, run) : 0;
}

int part_checkpoint(struct part *p)
{
	return p->j ? journal_flush(p->j) : 0;
}

/* ---- the end ---- */

/* attrs_set(), with text. */
static int set_attrs(struct part *p, int64_t mode, struct err *e)
{
	int r = attrs_set(p->fd, &p->spec, mode);

	return r ? part_say(p, r, "cannot set its owner, mode and times", e) : 0;
}

/* Set size, owner, mode and times in this order: each step may change the later ones. */
static int dress(struct part *p, int dirfd, struct err *e)
{
	int64_t old = -1;
	struct stat st;
	int r;

	if (p->dressed)
		return 0;
	if (fstat(p->fd, &st))
		return part_say(p, -errno, "cannot be examined", e);
	if ((uint64_t)st.st_size != p->size && ftruncate(p->fd, (off_t)p->size))
		return part_say(p, -errno, CANNOT_RESIZE, e);
	if (p->kind == INPLACE)
		old = p->fresh ? -1 : (int64_t)(st.st_mode & 07777);
	else if (!p->spec.set_mode)
		old = mode_there(dirfd, p->spec.name);
	r = set_attrs(p, attrs_mode(&p->spec, old), e);
	p->dressed = !r;
	return r;
}

static int sync_file(struct part *p, struct err *e)
{
	int r = FAULT("sync", 0);

	if (r == 0 && fsync(p->fd))
		r = -errno;
	if (r == 0 && p->j)
		r = journal_data_error(p->j);
	return r ? part_say(p, r, PART_UNSYNCED_WHY, e) : 0;
}

int part_sync(struct part *p, struct err *e)
{
	int r, dirfd = part_pin_dir(&p->spec, e);

	if (dirfd < 0)
		return dirfd;
	r = dress(p, dirfd, e);
	if (r == 0)
		r = sync_file(p, e);
	dir_unpin(p->spec.dir);
	return r;
}

/* For a whole file: check that p may replace the existing file of its name, and copy its mode
 * unless the spec sets one. For other parts part_begin() and dress() have done both. */
static int look_at_old(struct part *p, int dirfd)
{
	int64_t old;
	int r;

	if (!p->whole)
		return 0;
	r = part_may_replace(&p->spec, dirfd);
	old = r || p->spec.set_mode ? -1 : mode_there(dirfd, p->spec.name);
	if (old >= 0 && fchmod(p->fd, attrs_mode(&p->spec, old)))
		return -errno;
	return r;
}

static int give_name(struct part *p, int dirfd)
{
	int r = FAULT("rename", 0);

	if (r || p->kind == INPLACE)
		return r;
	if (p->kind == UNNAMED) {
		r = link_fd(p->fd, dirfd, p->spec.name);
		if (r != -EEXIST || p->spec.keep_old)
			return r;
	}
	r = look_at_old(p, dirfd);
	if (r)
		return r;
	if (p->kind == NAMED)
		return part_rename(&p->spec, dirfd, p->own);
	part_name(p->own, p->spec.name);
	return link_fd_over(p->fd, dirfd, p->own, p->spec.name);
}

/* An error of writing the data, which comes late. */
static int look_before_commit(struct part *p, struct err *e)
{
	int r = FAULT("commit", 0);

	if (r == 0 && p->j)
		r = journal_data_error(p->j);
	return r ? part_say(p, r, "cannot be completed", e) : 0;
}

static int commit_at(struct part *p, int dirfd, struct err *e)
{
	char journal[PART_NAME_MAX];
	int r = look_before_commit(p, e);

	if (r == 0)
		r = dress(p, dirfd, e);
	if (r)
		return r;
	r = give_name(p, dirfd);
	if (r)
		return part_name_err(e, r, &p->spec);
	p->over = true;
	if (p->j) {
		/* remove the journal last: until then the next run can resume */
		journal_name(journal, p->spec.name);
		unlinkat(dirfd, journal, 0);
	}
	if (!p->j || p->kind != NAMED)
		part_clear(p->spec.dir, dirfd, p->spec.name);
	return 0;
}

int part_commit(struct part *p, struct err *e)
{
	int r, dirfd = part_pin_dir(&p->spec, e);

	if (dirfd < 0)
		return dirfd;
	r = commit_at(p, dirfd, e);
	dir_unpin(p->spec.dir);
	return r;
}

int part_range_complete(struct part *p, uint32_t sum, struct err *e)
{
	int r = FAULT("commit", 0);

	p->spec.range.sum = sum;
	if (r == 0)
		r = journal_complete(p->j, &p->spec);
	if (r)
		return part_say(p, r, "the range cannot be completed", e);
	p->over = true;
	return 0;
}

bool part_resumable(struct part *p)
{
	return !p->over && p->j && (part_checkpoint(p) == 0 || !journal_data_error(p->j)) &&
	       !journal_empty(p->j);
}

void part_abandon(struct part *p, bool keep)
{
	bool kept = keep && part_resumable(p);
	int dirfd;

	if (p->over)
		return;
	p->over = true;
	if (kept)
		return;
	dirfd = dir_pin(p->spec.dir);
	if (dirfd < 0)
		return;
	remove_traces(p, dirfd);
	dir_unpin(p->spec.dir);
}

void part_free(struct part *p)
{
	if (!p)
		return;
	part_abandon(p, false);
	journal_close(p->j);
	if (p->fd >= 0)
		close(p->fd);
	dir_put(p->spec.dir);
	free((char *)(uintptr_t)p->spec.name);
	free(p);
}

/* ---- names of parts ---- */

#define PREFIX_LEN (sizeof(PART_PREFIX) - 1)
#define HEX_LEN (2 * NAME_HASH_BYTES)

#define RANGE_DIGITS 16

static const char journal_suffix[] = ".j", link_suffix[] = ".l", range_suffix[] = ".r";

void name_hash(uint8_t hash[NAME_HASH_BYTES], const char *name)
{
	crypto_run_digest(hash, name, strlen(name));
}

static void name_of_hash(char part[PART_NAME_MAX], const uint8_t hash[NAME_HASH_BYTES])
{
	static const char digits[] = "0123456789abcdef";
	char *at = part + PREFIX_LEN;

	memcpy(part, PART_PREFIX, PREFIX_LEN);
	for (size_t i = 0; i < NAME_HASH_BYTES; i++) {
		*at++ = digits[hash[i] >> 4];
		*at++ = digits[hash[i] & 15];
	}
	*at = '\0';
}

void part_name(char part[PART_NAME_MAX], const char *name)
{
	uint8_t hash[NAME_HASH_BYTES];

	name_hash(hash, name);
	name_of_hash(part, hash);
}

void journal_name(char journal[PART_NAME_MAX], const char *name)
{
	part_name(journal, name);
	memcpy(journal + PREFIX_LEN + HEX_LEN, journal_suffix, sizeof(journal_suffix));
}

void range_part_name(char part[PART_NAME_MAX], const struct part_spec *s)
{
	uint8_t all[NAME_HASH_BYTES + sizeof(s->set.id) + 20], *at = all + NAME_HASH_BYTES;
	uint8_t hash[NAME_HASH_BYTES];

	name_hash(all, s->name);
	memcpy(at, s->set.id, sizeof(s->set.id));
	at += sizeof(s->set.id);
	put_be64(at, s->meta.size);
	put_be64(at + 8, (uint64_t)s->meta.mtime_s);
	put_be32(at + 16, s->meta.mtime_ns);
	crypto_run_digest(hash, all, sizeof(all));
	name_of_hash(part, hash);
}

void range_journal_name(char journal[PART_NAME_MAX], const char *part, uint64_t offset)
{
	part_of(journal, part);
	snprintf(journal + PREFIX_LEN + HEX_LEN, PART_NAME_MAX - PREFIX_LEN - HEX_LEN, "%s%0*llx",
		 range_suffix, RANGE_DIGITS, (unsigned long long)offset);
}

void spec_journal_name(char journal[PART_NAME_MAX], const struct part_spec *s)
{
	if (s->range.length) {
		range_part_name(journal, s);
		range_journal_name(journal, journal, s->range.offset);
	} else {
		journal_name(journal, s->name);
	}
}

void link_temporary(char temporary[PART_NAME_MAX], const char *part)
{
	memcpy(temporary, part, PREFIX_LEN + HEX_LEN);
	memcpy(temporary + PREFIX_LEN + HEX_LEN, link_suffix, sizeof(link_suffix));
}

void part_of(char part[PART_NAME_MAX], const char *name)
{
	memmove(part, name, PREFIX_LEN + HEX_LEN);
	part[PREFIX_LEN + HEX_LEN] = '\0';
}

const char *part_tail(const char *name)
{
	if (strncmp(name, PART_PREFIX, PREFIX_LEN) != 0 ||
	    strspn(name + PREFIX_LEN, "0123456789abcdef") != HEX_LEN)
		return NULL;
	return name + PREFIX_LEN + HEX_LEN;
}

bool part_is_ours(const char *name)
{
	const char *tail = part_tail(name), *digits;

	if (!tail || !*tail || !strcmp(tail, journal_suffix) || !strcmp(tail, link_suffix))
		return tail;
	digits = tail + sizeof(range_suffix) - 1;
	return !strncmp(tail, range_suffix, sizeof(range_suffix) - 1) &&
	       strlen(digits) == RANGE_DIGITS &&
	       strspn(digits, "0123456789abcdef") == RANGE_DIGITS;
}

bool part_in_path(const char *path)
{
	char name[PART_NAME_MAX];

	while (*path) {
		size_t n = strcspn(path, "/");

		if (n < sizeof(name)) {
			memcpy(name, path, n);
			name[n] = '\0';
			if (part_is_ours(name))
				return true;
		}
		path += n;
		path += strspn(path, "/");
	}

	return false;
}

int part_name_err(struct err *e, int r, const struct part_spec *s)
{
	if (r == -EBUSY)
		return part_err(e, r, s, PART_BUSY_WHY);
	if (r == -ENOLCK)
		return part_err(e, r, s, "ranges of a file need a filesystem with locks");
	if (r == -EEXIST && s->keep_old)
		return part_err(e, -EPERM, s, PART_KEPT_WHY);
	if (r == -EEXIST || r == -EISDIR)
		return part_err(e, r, s, "cannot be replaced by a file");
	return r ? part_err(e, r, s, "cannot rename the finished file into place") : 0;
}

bool part_is_kept(int code, const char *text)
{
	return code == -EPERM && strstr(text, PART_KEPT_WHY);
}

int part_err(struct err *e, int code, const struct part_spec *s, const char *what)
{
	char *path CLEANUP_FREE = dir_path(s->dir, s->name);

	return err_sys(e, code, "%s: %s", printable(path ? path : s->name), what);
}

int part_check_name(const struct part_spec *s, struct err *e)
{
	const char *n = s->name;

	if (strlen(n) > NAME_MAX)
		return unwritable(s, -ENAMETOOLONG, e);
	if (!*n || strchr(n, '/') || strcmp(n, ".") == 0 || strcmp(n, "..") == 0)
		return part_err(e, -EINVAL, s, "is not a file name");
	if (part_is_ours(n))
		return part_err(e, -EINVAL, s, PART_NAME_WHY);
	return 0;
}

/* ---- whole files in one go ---- */

static int fill_whole(struct part *p, const void *data, size_t len, struct err *e)
{
	int r = FAULT("write", len);

	if (r == 0)
		r = pwrite_full(p->fd, data, len, 0);
	return r ? unwritable(&p->spec, r, e) : 0;
}

static int write_beside(struct part *p, int dirfd, const void *data, size_t len, struct err *e)
{
	const struct part_spec *s = &p->spec;
	mode_t mode = attrs_mode(s, -1), made = mode & 0777;
	int r = open_beside(p, dirfd, made, e);

	if (r)
		return r;
	if (!p->fresh && (ftruncate(p->fd, 0) || fchmod(p->fd, made)))
		return unwritable(s, -errno, e);
	r = fill_whole(p, data, len, e);
	if (r)
		return r;

	/* Without a requested mode the file keeps the mode of its creation. */
	r = set_attrs(p, s->set_mode ? (int64_t)mode : -1, e);
	if (!r && s->sync)
		r = sync_file(p, e);
	if (!r)
		r = look_before_commit(p, e);
	if (r)
		return r;
	return part_name_err(e, give_name(p, dirfd), s);
}

/* In place, a whole file is written like any other part. */
static int write_inplace(const struct part_spec *s, const void *data, size_t len, struct err *e)
{
	struct part *p = part_begin(s, e);
	int r;

	if (!p)
		return e && e->code ? e->code : -EIO;
	r = fill_whole(p, data, len, e);
	if (r == 0 && s->sync)
		r = part_sync(p, e);
	if (r == 0)
		r = part_commit(p, e);
	part_free(p);
	return r;
}

int part_write_whole(const struct part_spec *s, const void *data, size_t len, struct err *e)
{
	struct part p = { .spec = *s, .fd = -1, .whole = true };
	int dirfd, r;

	p.spec.journal = false;
	p.spec.meta.size = len;
	if (s->inplace)
		return write_inplace(&p.spec, data, len, e);
	r = FAULT("open", 0);
	if (r)
		return unwritable(s, r, e);
	r = part_check_name(s, e);
	if (r)
		return r;
	dirfd = part_pin_dir(s, e);
	if (dirfd < 0)
		return dirfd;
	r = write_beside(&p, dirfd, data, len, e);
	if (r && p.fd >= 0)
		remove_traces(&p, dirfd);
	if (p.fd >= 0)
		close(p.fd);
	if (r == 0) {
		part_clear(s->dir, dirfd, s->name);
		dir_remove_old_parts(s->dir, dirfd);
	}
	dir_unpin(s->dir);
	return r;
}
