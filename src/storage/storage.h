// SPDX-License-Identifier: Apache-2.0
/* storage: names and bytes of files. Opens below a root, walks trees, reads and
 * writes blocks (io_uring, posix or nothing at all), and makes files appear whole
 * or not at all. */
#ifndef RFTP_STORAGE_H
#define RFTP_STORAGE_H

#include "block/block.h"
#include "crypto/crypto.h"
#include "numa/numa.h"
#include "util/util.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

/* ---- a root that nothing below climbs out of ---- */

struct root;

/* dir "/" with confined false opens as the kernel does (a client's own files, relative
 * paths below the working directory);
 * confined true resolves every path below dir with openat2 RESOLVE_BENEATH |
 * NO_MAGICLINKS, or component by component where the kernel forbids that
 * (-ENOSYS, -EPERM). A symlink below dir that names a place in it absolutely is
 * followed by rewriting. Any thread. */
struct root *root_new(const char *dir, bool confined, struct err *e);
void root_free(struct root *r);
bool root_is_confined(const struct root *r);
/* From now on nothing of proc(5) is opened below r, which is confined or "/": -EACCES; and its links
 * that lead by inode are not followed: -ELOOP. What a process of ours has open, its memory and its
 * arguments are nothing to serve. 0 or a negative errno with text. Before other threads use r. */
int root_without_proc(struct root *r, struct err *e);
/* Have dirs_set_parts_age() done for directories below r. Before other threads use r. */
void root_set_parts_age(struct root *r, uint64_t seconds);
/* Open path. flags as open(2) plus O_CLOEXEC; the last component is followed only
 * without O_NOFOLLOW. A file descriptor or a negative errno (-EXDEV: it climbs out). */
int root_open(struct root *r, const char *path, int flags, mode_t mode);
/* Open path's parent (O_PATH) and copy the last component, without slashes behind it, to
 * namebuf; where there is none that can be a name ("/", "a/..") path itself is opened and
 * namebuf gets ".". A descriptor or a negative errno. Any thread, as all below. */
int root_open_parent(struct root *r, const char *path, char namebuf[256]);
int root_stat(struct root *r, const char *path, bool follow, struct stat *st);
/* What people are told of a negative errno from one of these: strerror, but for -EXDEV. */
const char *root_why(int rc);
int root_mkdir(struct root *r, const char *path, mode_t mode);
/* A file or a link. -EBUSY: a part or its journal, which a writer holds. */
int root_unlink(struct root *r, const char *path);
int root_rmdir(struct root *r, const char *path);
int root_rename(struct root *r, const char *from, const char *to);
/* rm -r below path, path itself too. Goes on after failures, first one in e. */
int root_remove_tree(struct root *r, const char *path, struct err *e);

/* ---- directories by reference, with a bounded number of open descriptors ---- */

/* A directory of a tree under way. It holds its parent; its descriptor is opened
 * when needed (from the parent's, O_NOFOLLOW) and closed again when too many are
 * open, so that deep and broad trees do not run out. Any thread. */
struct dir;
struct dirs; /* the set that shares the bound */

struct dirs *dirs_new(unsigned max_open);
void dirs_free(struct dirs *s);
/* No subdirectory that is of proc(5) is opened from now on: -EACCES. What is on the device plain is not
 * (0: no such is known). */
void dirs_without_proc(struct dirs *s, dev_t plain);
/* A file written into a directory of s has the parts removed from it that no transfer went on with
 * for so long; 0: none. Before other threads use s. */
void dirs_set_parts_age(struct dirs *s, uint64_t seconds);
/* Give s the rules of r: root_without_proc(), root_set_parts_age(). NULL, as of data that is no
 * files, is harmless. */
void root_rules_dirs(const struct root *r, struct dirs *s);
/* A top directory around an open descriptor that the set now owns and never closes
 * before dir_put. path is for messages. NULL: memory is out (fd is closed). */
struct dir *dir_top(struct dirs *s, int fd, const char *path);
/* The subdirectory name of parent, not opened yet. */
struct dir *dir_sub(struct dir *parent, const char *name);
struct dir *dir_ref(struct dir *d);
void dir_put(struct dir *d);
/* The descriptor, which stays open until dir_unpin; O_PATH where the directory may not
 * be read. Negative errno when it cannot be opened. */
int dir_pin(struct dir *d);
void dir_unpin(struct dir *d);
/* The names in the directory behind dfd, which may be O_PATH and one that we may write into
 * but not read, are on stable storage after this. 0 or a negative errno. Any thread. */
int sync_dir(int dfd);
/* "a/b/c" below the top with the top's path before it; malloc'd. */
char *dir_path(struct dir *d, const char *name);
/* "a/b/c" of name in d below the top, which is *top; malloc'd. */
char *dir_below(struct dir *d, const char *name, struct dir **top);
/* A reference to what "a/b" below top is; not opened yet, as of dir_sub. "": top itself.
 * NULL: memory is out. */
struct dir *dir_at(struct dir *top, const char *path);

/* ---- attributes ---- */

/* The mode for a file or directory whose mode is has, where a peer says wanted. Set-user-id,
 * set-group-id and sticky bits mean something with their owner only: they go when root has
 * given that, too. Otherwise they stay as they are: a peer could else make programs that run
 * with the rights of this process's user. */
mode_t mode_to_give(uint32_t wanted, bool owner_given, mode_t has);

/* Between the check of a name and a call that takes it, another process can replace the
 * name by a link. These take a descriptor instead, which may be O_PATH and of a symbolic
 * link. 0 or a negative errno. Any thread. */
int fd_chmod(int fd, mode_t mode); /* -EOPNOTSUPP: of a link */
int fd_chown(int fd, uid_t uid, gid_t gid);
int fd_utimens(int fd, const struct timespec t[2]); /* t as utimensat(2) has it */

/* The name of fd in /proc, for calls that take no descriptor. Returns out. */
#define FD_PATH_MAX 32
const char *fd_path(char out[FD_PATH_MAX], int fd);

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

/* What the walk found. name, target and dir are good during the call only
 * (dir_ref it to keep). */
struct walk_item {
	struct dir *parent;   /* NULL for a top that was named itself */
	struct dir *dir;      /* the directory itself, for FT_DIR */
	const char *name;     /* last component */
	const char *target;   /* of a link */
	struct meta meta;
	bool leaving;         /* FT_DIR: all below it has been reported */
	int error;            /* negative errno: name could not be read or listed */
};

/* 0 goes on; WALK_PASS_OVER of a directory that is not being left goes on with the next,
 * and nothing in it nor its end is reported; a negative errno ends the walk with it. */
#define WALK_PASS_OVER 1
typedef int walk_fn(void *arg, const struct walk_item *it);

/* Report everything below d depth first, files before subdirectories, a directory
 * before what is in it and again (leaving) after. Needs memory for the names of
 * subdirectories on the way only. Never follows links, except that with a root to follow
 * by, a link to a file is reported as the file; d's path is one below that root. A loop of
 * links is an error of that name, and so is a link that leads out of a confined root: the
 * same one (-EXDEV) whatever is there. Our own files (part_is_ours()) are passed over. Moves
 * the position of d's descriptor. */
int walk_tree(struct dirs *s, struct dir *d, struct root *follow, walk_fn *fn, void *arg);

/* The data of a sparse file by SEEK_DATA/SEEK_HOLE: calls fn per range; one range
 * for a file without holes or where the filesystem cannot tell. */
int data_ranges(int fd, uint64_t size, int (*fn)(void *arg, uint64_t off, uint64_t len),
		void *arg);

/* ---- reading and writing blocks ---- */

enum io_kind { IO_AUTO, IO_POSIX, IO_URING };

/* One operation. The caller owns it and everything it points to until it is reaped. */
struct io_op {
	bool write;
	int fd;
	uint64_t offset;
	void *data;           /* within block's memory when block is set */
	uint32_t len;         /* wanted */
	struct block *block;  /* for registered buffers; NULL otherwise */
	int64_t result;       /* bytes done (short only at the end of the file), or -errno */
	struct io_op *next;   /* the engine's */
	void *user;
};

struct io;

/* An engine for one thread. depth: operations in flight at once. pools, n: regions
 * to register with the kernel (npools may be 0); when that fails for want of
 * memlock they are used unregistered, with a word at debug level. IO_AUTO takes
 * io_uring where the kernel allows it and it pays, else posix, and *said (static
 * text, may be NULL) tells why. IO_URING that cannot be had is an error. */
struct io *io_new(enum io_kind kind, unsigned depth, struct pool *const *pools, int npools,
		  const char **said, struct err *e);
void io_free(struct io *io); /* nothing may be in flight */
const char *io_name(const struct io *io); /* "io_uring", "io_uring+registered", "posix" */
/* Start op; 0, or -EAGAIN when depth are in flight (posix: one, whatever was asked).
 * Short transfers and EINTR are dealt with inside: op is reaped when all is done, at the
 * end of file, or failed. fd may be O_DIRECT: aligned memory and offset go directly, what
 * is not aligned (a file's tail) goes through the page cache. */
int io_submit(struct io *io, struct io_op *op);
/* Finished ops, up to max; sleeps until at least min are. How many, or negative errno. */
int io_reap(struct io *io, struct io_op **done, int min, int max);
unsigned io_inflight(const struct io *io);
unsigned io_depth(const struct io *io); /* operations at once: 1 for posix */

/* Whether direct I/O may pay on fd (a block device filesystem, not tmpfs or network),
 * and its alignment in bytes for memory and offset, at least 4096; 0: none there. */
uint32_t direct_alignment(int fd);

/* What kind of storage a descriptor lies on. */
enum storage_class { STORAGE_UNKNOWN, STORAGE_MEMORY, STORAGE_SSD, STORAGE_ROTATING,
		     STORAGE_NETWORK };
enum storage_class storage_class_of(int fd);
/* "an SSD", for people; of a number that there is none for: "storage of unknown kind". */
const char *storage_class_text(unsigned class);
/* The NUMA nodes of the device that fd's file is on; of a tmpfs those that its memory comes
 * from, when it says so. Empty: not known. Any thread. */
struct ids storage_nodes(const struct topo *t, int fd);

/* Where the data of fd's file begins on its device, in bytes, for putting files in the
 * order in which a disk's heads come by them (FIEMAP); ADDRESS_UNKNOWN: the filesystem does
 * not tell, or there is nothing on the disk. Any thread. */
#define ADDRESS_UNKNOWN UINT64_MAX
uint64_t file_address(int fd);

/* What IO_AUTO should mean for files of this class, by what was measured: IO_POSIX, or
 * IO_AUTO for io_new() to take io_uring where it can. *said as in io_new(). Any thread. */
enum io_kind io_pick(enum storage_class class, bool direct, const char **said);

/* ---- files that appear whole or not at all ---- */

#define PART_PREFIX ".rftp-"
/* PART_PREFIX, 32 hex digits, maybe ".j" or ".l", NUL. */
#define PART_NAME_MAX (sizeof(PART_PREFIX) - 1 + 32 + 2 + 1)
/* Why a peer may not use such a name, for messages about it. */
#define PART_NAME_WHY "such names are kept for unfinished files"
/* Behind the prefix and the digits of a name that begins as a part's does; NULL: it does not. */
const char *part_tail(const char *name);
/* Exactly the name of a part, its journal (".j") or the temporary of a link (".l"). */
bool part_is_ours(const char *name);
/* The same of any component of path. */
bool part_in_path(const char *path);

struct part;

/* What the file is to become. */
struct part_spec {
	struct dir *dir;        /* where it goes; referenced until part_free */
	const char *name;       /* copied */
	struct meta meta;       /* size, mode, times, owner; an atime of 0 is not known */
	/* set_mode gives setuid, setgid and sticky bits only to root with set_owner.
	 * Without set_mode a file that is replaced hands on its permissions, and a new
	 * one gets meta.mode (0666 when that is 0), both without these bits; the caller
	 * has taken its umask off */
	bool set_mode, set_times, set_owner;
	bool keep_old;          /* a name that is taken stays what it is: -EPERM */
	bool inplace;           /* write straight into name (--inplace) */
	bool journal;           /* keep a journal so that it can be resumed */
	bool sync;              /* data is synced by part_sync before the commit */
};

/* Begin a file: a named part beside it, locked, when a journal is asked for (an
 * existing part that fits size and mtime is taken over: see part_runs);
 * otherwise an unnamed O_TMPFILE where the filesystem has it, so that nothing is
 * left when we die. -EBUSY: another writer holds the part. -EISDIR: name is a
 * directory. Any thread. */
struct part *part_begin(const struct part_spec *s, struct err *e);
int part_fd(const struct part *p);
/* When what another writer holds (-EBUSY) was last written to: whether it still moves tells
 * if he is alive. 0; -ENOENT: it is not there any more. */
int part_stamp(const struct part_spec *s, struct timespec *t);
/* A stretch of a file, of 1 to BLOCK_MAX bytes. */
struct part_run {
	uint64_t offset;
	uint32_t length;
	uint8_t digest[RUN_DIGEST_BYTES];
};

/* 0, or a negative errno that ends it. */
typedef int part_run_fn(void *arg, const struct part_run *run);

/* Runs whose journalled digests fit the data that is in the part now (read back and
 * compared here): their number; fn gets each. Their order is that of the file, as a rule; of
 * a journal with more than 131072 records two may overlap. */
int64_t part_runs(struct part *p, part_run_fn *fn, void *arg, struct err *e);
/* Note that this run is down. Recorded in the journal after the data has been synced, in
 * batches; any thread. */
int part_note_run(struct part *p, const struct part_run *run);
/* The file's size, where it was not known at part_begin (a pipe, FTP's STOR). Before
 * part_sync and part_commit; not with a journal. 0, or a negative errno. */
int part_set_size(struct part *p, uint64_t size);
/* Flush the journal now (a stop at a clean place). */
int part_checkpoint(struct part *p);
/* Data and metadata to stable storage: gives size, owner, mode and times first, so
 * nothing may be written afterwards. */
int part_sync(struct part *p, struct err *e);
/* Set size, owner, mode and times as the spec says, then give the file its name,
 * replacing what has it. The directory's sync is the caller's (batched). */
int part_commit(struct part *p, struct err *e);
/* Flush the journal; whether it holds data that the next run can use. */
bool part_resumable(struct part *p);
/* Give up: keep leaves a part_resumable() one for the next run, otherwise nothing stays. */
void part_abandon(struct part *p, bool keep);
/* Free after commit or abandon. */
void part_free(struct part *p);

/* The short way for a file that is whole in memory: created, filled, given its
 * attributes and its name by as few system calls as can be. sync: on stable storage
 * before it is named. */
int part_write_whole(const struct part_spec *s, const void *data, size_t len, struct err *e);
/* Remove the part, journal and temporary of name in d, pinned as dirfd, that interrupted
 * transfers have left. 0; -EBUSY: another writer holds the part, and all stays. */
int part_clear(struct dir *d, int dirfd, const char *name);
/* For parts_clear(): path was removed (r 0), is held by a writer (-EBUSY), or cannot be removed or
 * listed. */
typedef void part_removed_fn(void *arg, const char *path, int r);
/* Remove the parts, journals and temporaries in d, and with recursive also below it, that no writer
 * holds. 0, or the negative errno that ended the walk. */
int parts_clear(struct dir *d, bool recursive, part_removed_fn *fn, void *arg);
/* Hold the part of name while a link replaces name: a locked descriptor, and the temporary
 * name for the link, which no file has. -EBUSY: another writer holds the part. */
int part_hold(int dirfd, const char *name, char temporary[PART_NAME_MAX]);
/* Close the descriptor of part_hold() and remove the temporary. With replaced, name is the new link:
 * part and journal go as well; without, only a part that holds nothing. */
void part_release(int dirfd, const char *name, int fd, bool replaced);

/* Read len bytes back from the medium, past the page cache, for --ack verified: fd's
 * file, which need not be open for reading, has been synced. 0; -ENODATA when it ends
 * before; another negative errno. */
int read_past_cache(int fd, uint64_t offset, void *out, size_t len);

/* ---- faults, for tests ---- */

/* RFTP_FAULT_STORAGE="write:ENOSPC:after=10M;read:EIO:rate=0.01;rename:EIO:file=/trigger;
 * short-write;kill:SIGKILL:at=commit" is read once, before main, and must be right; with
 * it unset every hook is a single predictable branch. Points: open read write sync rename
 * mkdir commit journal. The whole grammar (after= rate= seed= file= count=) is in
 * util/fault.h.
 * bytes: what the operation is to move; 0 where it moves none. Returns 0 or the negative
 * errno to fail with; may not return. Any thread. */
int fault_storage(const char *point, uint64_t bytes);
extern bool fault_storage_on;
#define FAULT(point, bytes) (__builtin_expect(fault_storage_on, 0) ? \
	fault_storage((point), (bytes)) : 0)
/* How many of len bytes (>= 1) the next read or write is to try: fewer when a
 * short-read or short-write rule strikes. */
uint32_t fault_storage_short(bool write, uint32_t len);
#define FAULT_SHORT(write, len) (__builtin_expect(fault_storage_on, 0) ? \
	fault_storage_short((write), (len)) : (len))
/* Take these rules in place of those there are; NULL or "": none. 0, or a negative errno
 * with the reason in e and the old rules in force. Not while other threads do I/O. */
int fault_storage_set(const char *rules, struct err *e);

#endif
