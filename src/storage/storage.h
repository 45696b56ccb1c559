// SPDX-License-Identifier: Apache-2.0
/* storage: opens paths below a root, walks trees, reads and writes blocks (io_uring or posix), and
 * creates files atomically. */
#ifndef RFTP_STORAGE_H
#define RFTP_STORAGE_H

#include "block/block.h"
#include "crypto/crypto.h"
#include "numa/numa.h"
#include "util/util.h"

#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/types.h>

/* ---- a root that paths cannot leave ---- */

struct root;

/* dir "/" with confined false: paths are opened as open(2) does (a client's own files; relative
 * paths start at the working directory); confined true: every path is resolved below dir with
 * openat2 RESOLVE_BENEATH | NO_MAGICLINKS, or component by component where the kernel refuses
 * openat2 (-ENOSYS, -EPERM). An absolute symlink to a path below dir is followed. NULL with text in
 * e. Any thread. */
struct root *root_new(const char *dir, bool confined, struct err *e);
void root_free(struct root *r);
bool root_is_confined(const struct root *r);

/* From now on root_ functions do not open files of proc(5) (-EACCES), and magic links of proc(5)
 * are not followed (-ELOOP): a server must not serve the descriptors, memory and arguments of its
 * own processes. r is confined or "/". 0 or a negative errno with text. Call it before other
 * threads use r. */
int root_without_proc(struct root *r, struct err *e);

/* When a file is created in a directory below r (root_rules_dirs()), remove the parts there that
 * have not been written for this many seconds; 0: remove none. Call it before other threads use
 * r. */
void root_set_parts_age(struct root *r, uint64_t seconds);

/* Open path. flags as in open(2); O_CLOEXEC is added. O_NOFOLLOW: do not follow a link as the last
 * component. A descriptor or a negative errno (-EXDEV: the path leads out). */
int root_open(struct root *r, const char *path, int flags, mode_t mode);

/* Open path's parent directory (O_PATH) and copy the last component, without trailing slashes, to
 * namebuf. If the last component cannot be a name ("/", "a/.."), path itself is opened and namebuf
 * gets ".". A descriptor or a negative errno. Any thread. The root_ functions below return 0 or a
 * negative errno; any thread may call them. */
int root_open_parent(struct root *r, const char *path, char namebuf[256]);
int root_stat(struct root *r, const char *path, bool follow, struct stat *st);

/* The text for a negative errno of a root_ function: as strerror(), except for -EXDEV. Valid until
 * the same thread's next call. */
const char *root_why(int rc);
int root_mkdir(struct root *r, const char *path, mode_t mode);
/* Remove a file or a link. -EBUSY: it is a part, or its journal, and a writer holds it. */
int root_unlink(struct root *r, const char *path);
int root_rmdir(struct root *r, const char *path);
int root_rename(struct root *r, const char *from, const char *to);
/* Remove path and everything below it. Continues after failures; e gets the first one. */
int root_remove_tree(struct root *r, const char *path, struct err *e);

/* ---- directories by reference, with a bounded number of open descriptors ---- */

/* A directory of a tree. It holds a reference to its parent. Its descriptor is opened on demand
 * (relative to the parent's, O_NOFOLLOW) and closed again when too many are open, so that deep and
 * broad trees do not use up all descriptors. Any thread. */
struct dir;
struct dirs; /* a set of directories that shares the limit of open descriptors */

struct dirs *dirs_new(unsigned max_open);
void dirs_free(struct dirs *s);

/* Apply the settings of root_without_proc() and root_set_parts_age() to s. r NULL (the data is not
 * in files) is harmless. Call it before other threads use s. */
void root_rules_dirs(const struct root *r, struct dirs *s);

/* The number of directories of s, open or not, with the parents that they hold. Any thread. */
size_t dirs_count(const struct dirs *s);

/* A top directory with an open descriptor; -1: it does not exist, and neither do directories
 * below it. The set owns fd, and keeps it open until dir_put(). path is for messages. NULL: out
 * of memory, and fd is closed. */
struct dir *dir_top(struct dirs *s, int fd, const char *path);

/* The subdirectory name of parent, not opened yet; the caller owns the reference. NULL: out of
 * memory. */
struct dir *dir_sub(struct dir *parent, const char *name);
struct dir *dir_ref(struct dir *d);
void dir_put(struct dir *d);

/* The descriptor of d, which stays open until dir_unpin(); O_PATH if the directory may not be read.
 * Or a negative errno: it cannot be opened. */
int dir_pin(struct dir *d);
void dir_unpin(struct dir *d);
/* As lstat(2) of name in d. 0 or a negative errno. */
int dir_stat(struct dir *d, const char *name, struct stat *st);

/* Call fn for each directory above the one behind dfd, as far as the process may search them. 0, or
 * fn's result if it is not 0, which ends the calls. */
int dirs_above(int dfd, int (*fn)(void *arg, uint64_t dev, uint64_t ino), void *arg);

/* Sync the names in the directory behind dfd to stable storage. dfd may be O_PATH, and the
 * directory writable but not readable. 0 or a negative errno. Any thread. */
int sync_dir(int dfd);

/* The path of name in d for messages: the top's path, then "a/b/c". malloc'd; NULL: out of
 * memory. */
char *dir_path(struct dir *d, const char *name);

/* ---- attributes ---- */

/* The mode for a file or directory when a peer asks for wanted; has: its present mode. The
 * set-user-id, set-group-id and sticky bits of wanted are used only if this process is root and
 * also sets the owner (owner_given). Otherwise these bits stay as in has: a peer could create
 * programs that run with the rights of this process's user. */
mode_t mode_to_give(uint32_t wanted, bool owner_given, mode_t has);

/* These functions take a descriptor, because another process could replace a name by a link between
 * a check and a call. The descriptor may be O_PATH, also of a symbolic link. 0 or a negative errno.
 * Any thread. */
int fd_chmod(int fd, mode_t mode); /* -EOPNOTSUPP: fd is a link */
int fd_chown(int fd, uid_t uid, gid_t gid);
int fd_utimens(int fd, const struct timespec t[2]); /* t as in utimensat(2) */

/* The name of fd in /proc, for system calls that take only names. Returns out. */
#define FD_PATH_MAX 32
const char *fd_path(char out[FD_PATH_MAX], int fd);

/* Extended attributes of a file or directory as entries carry them (proto.h): user attributes and
 * POSIX ACLs. Labels and capabilities belong to a host and are not copied. xattrs_get() appends the
 * attributes of the file behind fd, which may be O_PATH. 0, also when the filesystem has none;
 * -E2BIG: more than an entry may carry; another negative errno. xattrs_set() sets the attributes in
 * the len bytes at x; errors in e name the file as shown. 0 or a negative errno. */
int xattrs_get(int fd, struct buf *b);
int xattrs_set(int fd, const uint8_t *x, uint32_t len, const char *shown, struct err *e);
/* Are they the only ones of these kinds? 1: no; 0: yes; or a negative errno. */
int xattrs_differ(int fd, const uint8_t *x, uint32_t len);
/* Make them the only ones of these kinds. */
int xattrs_correct(int fd, const uint8_t *x, uint32_t len, const char *shown, struct err *e);

/* ---- walking ---- */

enum file_type { FT_FILE, FT_DIR, FT_LINK, FT_OTHER };

struct meta {
	enum file_type type;
	uint32_t mode;         /* permission bits, 07777 */
	uint32_t uid, gid;
	uint64_t size;         /* bytes; of a link: length of its target */
	int64_t mtime_s, atime_s, ctime_s;
	uint32_t mtime_ns, atime_ns, ctime_ns;
	uint64_t dev, ino, nlink, blocks; /* blocks of 512 bytes */
};

void meta_from_stat(struct meta *m, const struct stat *st);
/* By the modification time. */
bool stat_not_older(const struct stat *st, const struct meta *m);

/* An item that the walk found. name, target and dir are valid only during the call (dir_ref() keeps
 * dir). */
struct walk_item {
	struct dir *parent;   /* NULL for the top itself */
	struct dir *dir;      /* the directory itself, for FT_DIR */
	const char *name;     /* last component */
	const char *target;   /* of a link */
	struct meta meta;
	bool leaving;         /* FT_DIR: everything below it has been reported */
	int error;            /* negative errno: name could not be read or listed */
};

/* 0: continue. WALK_PASS_OVER, when a directory is entered: report neither its contents nor its
 * end. A negative errno ends the walk with this result. */
#define WALK_PASS_OVER 1
typedef int walk_fn(void *arg, const struct walk_item *it);

enum walk_flags {
	WALK_NAMES = 1,  /* report only name and type of items other than directories */
	WALK_PARTS = 2,  /* report our own files, too */
};

/* Report everything below d depth first: files before subdirectories, a directory before its
 * contents and again (leaving) after them. The walk keeps only the names of subdirectories on the
 * current path in memory. Links are not followed. If follow is not NULL, a link to a file is
 * reported as that file; d's path must then be below that root. A loop of links is reported as an
 * error of the name, and so is a link that leads out of a confined root (-EXDEV). Our own files
 * (part_is_ours()) are skipped. flags: WALK_... or 0. Moves the position of d's descriptor. 0, or
 * the negative errno that ended the walk. */
int walk_tree(struct dir *d, unsigned flags, struct root *follow, walk_fn *fn, void *arg);

/* Call fn for each range of data in a sparse file (SEEK_DATA, SEEK_HOLE); once for the whole file
 * if it has no holes or the filesystem does not report them. 0; fn's result if not 0, which ends
 * the calls; or a negative errno. */
int data_ranges(int fd, uint64_t size, int (*fn)(void *arg, uint64_t off, uint64_t len),
		void *arg);

/* ---- reading and writing blocks ---- */

enum io_kind { IO_AUTO, IO_POSIX, IO_URING };

/* One operation. The caller must not change it, or memory that it points to, before it is
 * reaped. */
struct io_op {
	bool write;
	int fd;
	uint64_t offset;
	void *data;           /* within block's memory when block is set */
	uint32_t len;         /* bytes to transfer */
	struct block *block;  /* for registered buffers; NULL otherwise */
	int64_t result;       /* bytes done (short only at the end of the file), or -errno */
	struct io_op *next;   /* for the engine */
	void *user;
};

struct io;

/* An engine for one thread. depth: the maximum number of operations in flight. pools, npools:
 * regions to register with the kernel (npools may be 0). If registration fails (limit of locked
 * memory), the pools are used unregistered, and a debug line is logged. IO_AUTO uses io_uring if
 * the kernel allows it, otherwise posix; *said (static text; said may be NULL) gives the reason.
 * IO_URING is an error if it is not available. NULL with text. */
struct io *io_new(enum io_kind kind, unsigned depth, struct pool *const *pools, int npools,
		  const char **said, struct err *e);
void io_free(struct io *io); /* no operation may be in flight */
const char *io_name(const struct io *io); /* "io_uring", "io_uring+registered", "posix" */
/* Start op. 0, or -EAGAIN when depth operations are in flight (posix: one). Short transfers and
 * EINTR are handled inside: op is finished when all bytes are done, at the end of the file, or
 * after an error. fd may be O_DIRECT: aligned parts are transferred directly, the rest (a file's
 * tail) through the page cache. */
int io_submit(struct io *io, struct io_op *op);

/* Get at most max finished operations; sleeps until min are finished. Their number or a negative
 * errno. */
int io_reap(struct io *io, struct io_op **done, int min, int max);
unsigned io_inflight(const struct io *io);
unsigned io_depth(const struct io *io); /* operations at once: 1 for posix */

/* The alignment of memory and offset for direct I/O on fd, in bytes, at least 4096. 0: direct I/O
 * does not help (tmpfs, network filesystems) or is not possible. */
uint32_t direct_alignment(int fd);

/* The class of the storage below a descriptor. */
enum storage_class { STORAGE_UNKNOWN, STORAGE_MEMORY, STORAGE_SSD, STORAGE_ROTATING,
		     STORAGE_NETWORK };
enum storage_class storage_class_of(int fd);
/* As storage_class_of(), for a source of data: fd is a file or the top of a tree, and may be
 * O_PATH. If the disk says that it rotates, files of fd are read at up to 16 places, past the
 * page cache and for some 0.2 s at most; if no heads can have moved as fast, the class is
 * STORAGE_SSD. The result for a device is kept. Any thread. */
enum storage_class storage_class_of_source(int fd);
/* The class as static text for messages, such as "an SSD" or "storage of unknown kind". */
const char *storage_class_text(unsigned class);

/* For rftp doctor: the fact "storage", rftp-protocol(7), of the directory fd; path: its name.
 * The rates are measured with a file without a name: write for ns, at most 4 GiB (256 MiB if the
 * page cache cannot be bypassed) and a tenth of the free space, sync, and read the data back. fd
 * < 0, a negative errno, or why, a text: they are not measured for this reason. The caller owns
 * it. Any thread. */
json_t *storage_fact(int fd, const char *path, uint64_t ns, const char *why);

/* The NUMA nodes of the device that holds fd's file; for a tmpfs the nodes of its memory, if its
 * mount options name them. Empty: not known. Any thread. */
struct ids storage_nodes(const struct topo *t, int fd);

/* The byte offset on its device where the data of fd's file begins (FIEMAP), to read files in the
 * order of their disk addresses. ADDRESS_UNKNOWN: the filesystem does not report it, or no data is
 * on the disk. Any thread. */
#define ADDRESS_UNKNOWN UINT64_MAX
uint64_t file_address(int fd);
/* The same for the data at offset itself; data that was never written is not on the disk. */
uint64_t file_address_at(int fd, uint64_t offset);

/* The engine that was fastest in measurements on files of this class: IO_POSIX, or IO_AUTO
 * (io_uring if io_new() can use it). *said as in io_new(). Any thread. */
enum io_kind io_pick(enum storage_class class, bool direct, const char **said);

/* ---- files that appear whole or not at all ---- */

#define PART_PREFIX ".rftp-"
/* PART_PREFIX, 32 hex digits, optionally ".j", ".l", or ".r" and 16 hex digits, NUL. */
#define PART_NAME_MAX (sizeof(PART_PREFIX) - 1 + 32 + 2 + 16 + 1)
/* The reason in messages about a device, a pipe or a socket. */
#define FILE_KIND_WHY "not a file, directory or link"
#define FILE_CHANGED_WHY "changed while being read"
/* The reasons in messages: a file with a lock, one to keep, a failed fsync, such a name. */
#define PART_BUSY_WHY "another transfer is writing it"
#define PART_KEPT_WHY "exists, and may not be replaced"
#define PART_UNSYNCED_WHY "cannot be brought to stable storage"
/* Does an error, perhaps of the other side, say that an existing file may not be replaced? */
bool part_is_kept(int code, const char *text);
#define PART_NAME_WHY "such names are kept for unfinished files"
/* The rest of a name after a part's prefix and digits; NULL: it does not begin so. */
const char *part_tail(const char *name);
/* True if name is the name of a part, its journal (".j"), the journal of a range (".r" and the
 * range's offset in hex) or the temporary of a link (".l"). */
bool part_is_ours(const char *name);
/* True if any component of path is such a name. */
bool part_in_path(const char *path);

struct part;

/* A range of a file; sum: the CRC32C of its bytes. */
struct part_range {
	uint64_t offset, length;
	uint32_t sum;
};

/* The name of a set of transfers that write ranges of the same files, cut in the same way. */
struct range_set {
	uint8_t id[16];
};

/* The finished file. */
struct part_spec {
	struct dir *dir;        /* the file's directory; referenced until part_free() */
	const char *name;       /* copied */
	struct meta meta;       /* size, mode, times, owner; an atime of 0: not known */
	/* With set_mode the setuid, setgid and sticky bits are set only if this process is root and
	 * set_owner is true. Without set_mode the file gets the permissions of the file that it
	 * replaces; a new file gets meta.mode (0666 if it is 0), from which the caller has removed
	 * its umask. In both cases these three bits are cleared. */
	bool set_mode, set_times, set_owner;
	bool keep_old;          /* do not replace an existing file: -EPERM */
	bool keep_newer;        /* a join does not replace one that is not older: -EPERM */
	bool inplace;           /* write directly to name (--inplace) */
	bool journal;           /* keep a journal, so that a later run can resume */
	bool sync;              /* part_sync() is called before the commit */
	/* length > 0: only this range of the file is written. Transfers of other ranges of the
	 * same set, also on other hosts, may write to the same part at the same time;
	 * part_join() gives it its name. Needs journal, and excludes inplace. */
	struct part_range range;
	struct range_set set;   /* also for part_join() */
};

/* Begin a file. With a journal: a named, locked part beside the final name; an existing part with
 * the same size and mtime is continued, see part_runs(). Otherwise an unnamed file (O_TMPFILE) if
 * the filesystem has it, so that nothing remains when this process dies. NULL with text; e's code
 * is -EBUSY: another writer holds the part; -EISDIR: name is a directory. Any thread. */
struct part *part_begin(const struct part_spec *s, struct err *e);
int part_fd(const struct part *p);

/* The time of the last write to a part that another writer holds (-EBUSY). While it changes, that
 * writer is alive. 0; -ENOENT: the part no longer exists; or another negative errno. */
int part_stamp(const struct part_spec *s, struct timespec *t);
/* A range of a file, of 1 to BLOCK_MAX bytes, and its digest. */
struct part_run {
	uint64_t offset;
	uint32_t length;
	uint8_t digest[RUN_DIGEST_BYTES];
};

/* For part_runs(): 0, or a negative errno that ends it. */
typedef int part_run_fn(void *arg, const struct part_run *run);

/* Read the part's data back, compare it with the journal, and call fn for each run that matches.
 * Runs are usually reported in order of offset; with more than 131072 records in the journal the
 * order starts again, and two runs may overlap. Returns their number, or a negative errno with
 * text. */
int64_t part_runs(struct part *p, part_run_fn *fn, void *arg, struct err *e);

/* Sort the n runs at v of the file behind fd by offset; call fn for each run that matches the file,
 * except those that overlap an earlier one. Ends when *stop is true; stop may be NULL. 0; fn's
 * result if not 0, which ends the calls; or -ENOMEM. */
int runs_compare(int fd, struct part_run *v, size_t n, const atomic_bool *stop, part_run_fn *fn,
		 void *arg);

/* The digest of the size bytes of the file behind fd: with d = 16 zero bytes, for each MiB in
 * order, d = XXH3-128(d, XXH3-128(MiB)). Detects accidental differences, not attacks. 0;
 * -ECANCELED: *stop (may be NULL) became true; -EIO: the file is shorter; or another negative
 * errno. */
int file_digest(int fd, uint64_t size, const atomic_bool *stop, uint8_t digest[RUN_DIGEST_BYTES]);

/* Add a run that has been written to the journal. Runs are recorded in the journal in batches,
 * after a sync of the data. 0 or a negative errno. Any thread. */
int part_note_run(struct part *p, const struct part_run *run);

/* Set the file's size if it was not known at part_begin() (a pipe, FTP's STOR). Call it before
 * part_sync() and part_commit(); not with a journal. 0, or a negative errno. */
int part_set_size(struct part *p, uint64_t size);
/* Flush the journal now, before a planned stop. 0 or a negative errno. */
int part_checkpoint(struct part *p);

/* Sync data and metadata to stable storage. Sets size, owner, mode and times first, so no data may
 * be written afterwards. 0 or a negative errno with text. */
int part_sync(struct part *p, struct err *e);

/* Set size, owner, mode and times from the spec, then give the file its name, replacing an existing
 * file. The caller syncs the directory, once for many files. 0 or a negative errno with text. */
int part_commit(struct part *p, struct err *e);
/* With a range, in place of part_sync() and part_commit(): bring it to stable storage, and note in
 * its journal that it is complete, with this CRC32C, and the mode of s. 0 or a negative errno with
 * text. */
int part_range_complete(struct part *p, uint32_t sum, struct err *e);
/* The ranges of a file, for part_join(). */
struct part_ranges {
	const struct part_range *v; /* [n] which cover the file in order; n 0: remove the part */
	size_t n;
	bool unseen;            /* the caller may not read files: digests of a file are not told */
	int (*poll)(void *arg); /* called while a file is read; another result than 0 ends that, and
				 * becomes the result. NULL: not called */
	void *arg;
};

/* Give the part of s its name: its ranges are complete with these digests. The mode is that of the
 * first range; times are those of s. -EBUSY: a transfer still writes to it; -ENODATA with text: a
 * range is not complete, or has another digest. 0 also if an earlier call did it: then there is no
 * part, and the file is read and compared with the digests (unseen: only its size and time). On 0
 * the file's name is on stable storage. May take as long as reading the file. Any thread. */
int part_join(const struct part_spec *s, const struct part_ranges *g, struct err *e);
/* The same for the file at path below root; s has neither dir nor name. */
int root_join(struct root *root, struct dirs *dirs, const char *path, struct part_spec *s,
	      const struct part_ranges *g, struct err *e);
/* The most ranges of a file. */
#define RANGES_MOST 512
/* Flush the journal. True: it has records that the next run can use. */
bool part_resumable(struct part *p);

/* Give up the file. With keep a resumable part (part_resumable()) stays for the next run; otherwise
 * all files of p are removed. */
void part_abandon(struct part *p, bool keep);
/* Free p after part_commit() or part_abandon(). */
void part_free(struct part *p);

/* Write a file that is completely in memory: create it, write it, set its attributes and its name,
 * with as few system calls as possible. s->sync: sync it before it gets its name. 0 or a negative
 * errno with text. Any thread. */
int part_write_whole(const struct part_spec *s, const void *data, size_t len, struct err *e);

/* Remove the part, journal and temporary of name that interrupted transfers have left in d, which
 * is pinned as dirfd. 0; -EBUSY: another writer holds the part, and nothing is removed; or another
 * negative errno. */
int part_clear(struct dir *d, int dirfd, const char *name);

/* For parts_clear(). r 0: path was removed; -EBUSY: a writer holds it; another negative errno: it
 * cannot be removed or listed. */
typedef void part_removed_fn(void *arg, const char *path, int r);

/* Remove the parts, journals and temporaries in d, and with recursive also below it, that no writer
 * holds. 0, or the negative errno that ended the walk. */
int parts_clear(struct dir *d, bool recursive, part_removed_fn *fn, void *arg);

/* Create the link name in d, which is pinned as dfd: a hard link to from in from_dfd; from_dfd < 0:
 * a symbolic link to from. An existing name is replaced unless keep_old (-EEXIST). 0; -EINVAL: name
 * is a part's name; -EBUSY: another transfer is writing name; or another negative errno. */
int link_put(int from_dfd, const char *from, struct dir *d, int dfd, const char *name,
	     bool keep_old);

/* Read len bytes back from the medium, past the page cache, for --ack verified. fd's file must be
 * synced; fd need not be open for reading. 0; -ENODATA: the file is shorter; or another negative
 * errno. */
int read_past_cache(int fd, uint64_t offset, void *out, size_t len);

#endif
