// SPDX-License-Identifier: Apache-2.0
/* Shared by the files of this folder; not for other folders. */
#ifndef RFTP_STORAGE_INTERNAL_H
#define RFTP_STORAGE_INTERNAL_H

#include "storage/storage.h"

/* ---- directories ---- */

/* The settings of a root for all that is opened below it. */
struct root_rules {
	bool without_proc;    /* files of proc(5) are not opened (-EACCES) */
	dev_t plain;          /* a device without such files; 0: not known */
	uint64_t parts_age;   /* seconds; see dir_remove_old_parts(); 0: for ever */
};

/* fd if the rules allow its file; otherwise fd is closed: -EACCES or another negative errno. */
int rules_admit(const struct root_rules *rules, int fd);
/* For root_rules_dirs(), and tests. */
void dirs_set_rules(struct dirs *s, const struct root_rules *rules);

/* Record st, the result of fstat() on d's descriptor, for dir_revive(). */
void dir_know(struct dir *d, const struct stat *st);

/* If child is open and parent is not, open parent as child's "..": a walk that leaves a deep tree
 * then does not open each directory from the top again. */
void dir_revive(struct dir *parent, struct dir *child);

/* True: the filesystem of d is known to have no O_TMPFILE. New subdirectories inherit this. Any
 * thread. */
bool dir_no_tmpfile(struct dir *d);
void dir_set_no_tmpfile(struct dir *d);

/* True: d, open as fd, holds no part that an earlier transfer left. d is listed once, after many
 * calls; before that the result is false (not known). Any thread. */
bool dir_no_parts(struct dir *d, int fd);

/* Remove the parts, journals and temporaries in d, open as fd, that no writer holds and that are
 * older than the age of d's set (age 0: remove none). Runs once for each struct dir, and at most
 * once a second if consecutive struct dirs are the same directory. Any thread. */
void dir_remove_old_parts(struct dir *d, int fd);

/* ---- paths below a root ---- */

/* Does the file behind fd, which may be O_PATH, belong to proc(5)? 1, 0, or a negative errno.
 * plain: a device without such files; 0: not known. */
int fd_is_proc(int fd, dev_t plain);

/* For tests: resolve paths component by component from now on, as if the kernel refused openat2.
 * Call it before other threads use r. */
void root_walk_only(struct root *r, bool on);

/* ---- names of parts ---- */

#define NAME_HASH_BYTES RUN_DIGEST_BYTES

void name_hash(uint8_t hash[NAME_HASH_BYTES], const char *name);
/* Get the name of the part of file name, or of its journal; name may have any length. */
void part_name(char part[PART_NAME_MAX], const char *name);
void journal_name(char journal[PART_NAME_MAX], const char *name);
/* Get the name of the part that the ranges of s's set share: another one for another set, size or
 * time. Or of the journal of the range at this offset of that part. */
void range_part_name(char part[PART_NAME_MAX], const struct part_spec *s);
void range_journal_name(char journal[PART_NAME_MAX], const char *part, uint64_t offset);
/* Get the name of the journal of s, or of s's range. */
void spec_journal_name(char journal[PART_NAME_MAX], const struct part_spec *s);
/* Get the name of a link's temporary from the name of its part. */
void link_temporary(char temporary[PART_NAME_MAX], const char *part);
/* Get the name of the part to which name, a part, journal or temporary, belongs. */
void part_of(char part[PART_NAME_MAX], const char *name);

/* Check the name in s. 0; -EINVAL with text: it is empty, a path, or reserved for parts;
 * -ENAMETOOLONG. */
int part_check_name(const struct part_spec *s, struct err *e);
/* dir_pin() of s's directory, with text. */
int part_pin_dir(const struct part_spec *s, struct err *e);
/* err_sys with the path of s's file. */
int part_err(struct err *e, int code, const struct part_spec *s, const char *what);
/* The same for r, the result of a function below that gives a file its name. r 0: returns 0. */
int part_name_err(struct err *e, int r, const struct part_spec *s);

/* ---- opening and naming (link.c); all return a descriptor or 0, or a negative errno ---- */

/* Create an unnamed file in dirfd. -EOPNOTSUPP: the filesystem cannot. */
int part_open_unnamed(const struct part_spec *s, int dirfd, mode_t mode);

/* Open the part file for reading and writing, and lock it. It is created if it is missing (*fresh);
 * a file of another user or with several names is replaced. -EBUSY: another writer holds it. */
int part_open_named(int dirfd, const char *part, mode_t mode, bool *fresh);
/* The same, but writers of ranges may hold it, too. -ENOLCK: the filesystem has no locks. */
int part_open_shared(int dirfd, const char *part);

/* Remove name: a part, its journal or its temporary. -EBUSY: a writer holds the part; -EACCES:
 * another user's writer may hold it. A symbolic link is not followed. */
int part_unlink_stale(int dirfd, const char *name);
/* For parts_scan(): 0 to continue; another number ends the scan. */
typedef int part_scan_fn(void *arg, int dirfd, const char *name);

/* Call fn for each part, journal and temporary in dirfd. 0; fn's result if not 0; or a negative
 * errno. -E2BIG: the directory has more names than most (the argument). */
int parts_scan(int dirfd, size_t most, part_scan_fn *fn, void *arg);

/* The seconds since the last change of the part of name; if there is no part, of name itself. 0 or
 * a negative errno. */
int part_age(int dirfd, const char *name, uint64_t *seconds);

/* Lock fd against other writers. 0, also when the filesystem has no locks; -EBUSY: another writer
 * holds it. */
int part_lock(int fd);
/* Give the unnamed file behind fd a name. -EEXIST: the name is taken. */
int link_fd(int fd, int dirfd, const char *name);

/* Replace name by the unnamed file behind fd: give the file the name part, then rename it to name.
 * -EBUSY: another writer holds part. */
int link_fd_over(int fd, int dirfd, const char *part, const char *name);

/* 0: s's name is free, or belongs to a file or link that s may replace. -EISDIR; -EEXIST, also for
 * a device, a pipe or a socket, so that root does not replace /dev/null by a file. */
int part_may_replace(const struct part_spec *s, int dirfd);
/* Rename the file part to s's name. -EEXIST: the name is taken, and s may not replace it. */
int part_rename(const struct part_spec *s, int dirfd, const char *part);

/* ---- attributes (file.c) ---- */

/* The mode of the regular file name; -1: there is none. (part.c) */
int64_t mode_there(int dirfd, const char *name);
/* The final mode of s's file. old: the mode of the file that it replaces; -1: none. */
mode_t attrs_mode(const struct part_spec *s, int64_t old);
/* Set the owner and times of s, and this mode (-1: unchanged). 0 or a negative errno. */
int attrs_set(int fd, const struct part_spec *s, int64_t mode);

/* ---- ranges (range.c) ---- */

/* Open the part of s, which has a range; part_join() is excluded while it is open. A descriptor;
 * -EBUSY; or another negative errno. */
int range_open(const struct part_spec *s, int dirfd, const char *part);

/* ---- the journal (journal.c) ---- */

struct journal;

/* Open the journal of s's part. datafd: the part's data; it must outlive the journal. If fresh is
 * false and the journal fits s, its records are kept, and *taken is true. NULL with text.
 * journal_close() frees it. */
struct journal *journal_open(int dirfd, const struct part_spec *s, int datafd, bool fresh,
			     bool *taken, struct err *e);
/* See part_runs, part_note_run, part_checkpoint. */
int64_t journal_runs(struct journal *j, part_run_fn *fn, void *arg);
int journal_note(struct journal *j, const struct part_run *run);
int journal_flush(struct journal *j);
/* The negative errno of a failed data sync, or 0. The kernel reports it only once. */
int journal_data_error(struct journal *j);
/* True: the journal has no records. */
bool journal_empty(struct journal *j);
void journal_close(struct journal *j);
/* For the journal of s's range: sync the data, and note that the range is complete, with its
 * CRC32C, and the mode of the finished file. 0 or a negative errno. */
int journal_complete(struct journal *j, const struct part_spec *s);
/* Is the range of s, in the part behind datafd, complete? 0 with its CRC32C and the mode in s;
 * -ENODATA: no; or another negative errno. */
int journal_completed(int dirfd, const char *part, int datafd, struct part_spec *s);

/* ---- the storage below a descriptor (device.c) ---- */

/* The block device below fd's file, or the block device that fd itself is; 0: not known. */
dev_t device_of(int fd);

/* The source of a mounted filesystem, as proc(5) describes mountinfo. */
struct mount_source {
	char type[64], source[256], options[1024];
};

/* Find the mount with number id in the lines of mountinfo. False: there is none. */
bool mount_find(const char *mountinfo, unsigned long long id, struct mount_source *m);

/* The value of the file name in the request queue of dev, or of its disk for a partition. -1: not
 * known. */
long queue_number(const char *sysfs, dev_t dev, const char *name);
/* 1: dev, or a component of it (device mapper, RAID), is a rotating disk; 0: no; -1: not known. */
int device_rotates(const char *sysfs, dev_t dev);

/* A smaller alignment is often legal (the device's sector) but always slow, because the filesystem
 * then reads the rest of its block. Blocks and runs are multiples of 4096 anyway. */
#define DIRECT_ALIGN 4096u

/* Open fd's file again, with other flags. A descriptor or a negative errno. */
int fd_reopen(int fd, int flags);

#endif
