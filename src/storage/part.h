// SPDX-License-Identifier: Apache-2.0
/* What parts, whole files and journals share; not for other folders. */
#ifndef RFTP_STORAGE_PART_H
#define RFTP_STORAGE_PART_H

#include "storage/tree.h"

/* ---- names (partname.c) ---- */

#define NAME_HASH_BYTES RUN_DIGEST_BYTES

void name_hash(uint8_t hash[NAME_HASH_BYTES], const char *name);
/* The part of name, whatever its length, and that part's journal. */
void part_name(char part[PART_NAME_MAX], const char *name);
void journal_name(char journal[PART_NAME_MAX], const char *name);
/* The temporary of a link, from the name of its part. */
void link_temporary(char temporary[PART_NAME_MAX], const char *part);
/* The part that name, which is one of ours, belongs to. */
void part_of(char part[PART_NAME_MAX], const char *name);
/* 0, or -EINVAL with text: it is none, or a path, or kept for parts. -ENAMETOOLONG. */
int part_check_name(const struct part_spec *s, struct err *e);
/* err_sys with the path of what s is about. */
int part_err(struct err *e, int code, const struct part_spec *s, const char *what);
/* The same for a failure to get the name, r, of the functions below. 0 stays 0. */
int part_name_err(struct err *e, int r, const struct part_spec *s);

/* ---- opening and naming (link.c). Descriptors and negative errno. ---- */

/* An unnamed file in dirfd, -EOPNOTSUPP where the filesystem has none. */
int part_open_unnamed(const struct part_spec *s, int dirfd, mode_t mode);
/* The part file, made when it is not there (*fresh), read and write, locked; one that
 * cannot be ours is replaced. -EBUSY: another writer holds it. */
int part_open_named(int dirfd, const char *part, mode_t mode, bool *fresh);
/* Remove name, a part or the journal or temporary of one, unless a writer holds the part (-EBUSY)
 * or another user's may (-EACCES). A link of that name is not followed. */
int part_unlink_stale(int dirfd, const char *name);
/* For parts_scan(): 0, or another number that ends it. */
typedef int part_scan_fn(void *arg, int dirfd, const char *name);
/* Call fn for each part, journal and temporary in dirfd. 0; fn's number; or a negative errno:
 * -E2BIG, more than most names are there. */
int parts_scan(int dirfd, size_t most, part_scan_fn *fn, void *arg);
/* The time since the part of name was last written to; without a part, since name was. 0 or a
 * negative errno. */
int part_age(int dirfd, const char *name, uint64_t *seconds);
/* Lock fd against other writers. 0, also where the filesystem has no locks; -EBUSY. */
int part_lock(int fd);
/* Give the unnamed fd a name that nothing has. -EEXIST. */
int link_fd(int fd, int dirfd, const char *name);
/* Give the unnamed fd a name that something has: by way of part, then renamed over.
 * -EBUSY: another writer holds part. */
int link_fd_over(int fd, int dirfd, const char *part, const char *name);
/* 0 when nothing has s's name, or a file or a link that s may replace; -EISDIR; -EEXIST,
 * also for a device, a pipe or a socket: /dev/null is not made a file by root. */
int part_may_replace(const struct part_spec *s, int dirfd);
/* Give the file part s's name. -EEXIST: it is taken, and s may not replace. */
int part_rename(const struct part_spec *s, int dirfd, const char *part);

/* ---- attributes (attrs.c) ---- */

/* The mode s's file gets. old: the mode of the file it replaces; -1: none. */
mode_t attrs_mode(const struct part_spec *s, int64_t old);
/* Owner and times as s says, and this mode (-1: what it has). made: the mode fd was
 * created with just now, which saves looking; -1: anything may have happened to it. */
int attrs_set(int fd, const struct part_spec *s, int64_t mode, int64_t made);

/* ---- the journal (journal.c) ---- */

struct journal;

/* The journal of s's part, whose data is behind datafd (which outlives it). What is in
 * it is taken over when fresh is false and it fits s; *taken says so. */
struct journal *journal_open(int dirfd, const struct part_spec *s, int datafd, bool fresh,
			     bool *taken, struct err *e);
/* See part_runs, part_note_run, part_checkpoint. */
int64_t journal_runs(struct journal *j, part_run_fn *fn, void *arg);
int journal_note(struct journal *j, const struct part_run *run);
int journal_flush(struct journal *j);
/* The errno of a data sync that failed: the kernel tells only once. */
int journal_data_error(struct journal *j);
/* Whether it holds any record. */
bool journal_empty(struct journal *j);
void journal_close(struct journal *j);

#endif
