// SPDX-License-Identifier: Apache-2.0
/* Lists of names (--files-from), and the output of names and of files' facts for people and for
 * programs. One thread per list. */
#ifndef RFTP_CLIENT_NAMES_H
#define RFTP_CLIENT_NAMES_H

#include "proto/proto.h"
#include "util/util.h"

struct names {
	char **all;  /* NULL at the end */
	size_t n, room;
};

/* Read names from file ("-": standard input), one per line, or, if nul, each ended by a NUL byte.
 * All are relative to one directory, so a leading "/", empty components and "." are removed. 0, and
 * names_clear() frees names; -EINVAL with text: a name leads out of the directory by ".."; or
 * another negative errno with text. */
int names_read(const char *file, bool nul, struct names *names, struct err *e);
/* Append name, which is taken, also on failure; NULL: its allocation has failed. 0 or -ENOMEM. */
int names_add(struct names *names, char *name);
void names_clear(struct names *names);
/* Sort by bytes, not by locale. */
void names_sort(struct names *names);

/* Normalize name in place: "/a//./b/" becomes "a/b". 0; -EINVAL: a ".." leads out of the
 * directory. */
int name_normalize(char *name);
/* The part of path after the last slash: a pointer into path. */
const char *name_last(const char *path);
/* The last component of path, with the slashes after it: a pointer into path. */
const char *name_tail(const char *path);
/* A copy of path without the slashes at its end, but "/" stays; NULL: out of memory. */
char *name_trimmed(const char *path);
/* Does path end in "." or "..", perhaps with slashes after it? */
bool name_is_dots(const char *path);
/* Must path, as a destination, be a directory: "", ".", "x/", "x/.."? */
bool names_directory(const char *path);
/* Where, in a named path, the path for the filter begins: at its last component, or behind a path
 * that names_directory(). */
size_t name_rel_at(const char *path);

/* ---- output ---- */

/* Print names unchanged to out? True for files and pipes; a terminal gets printable names. */
bool show_raw(FILE *out);
/* Write "drwxr-xr-x" to out, with "?" for unknown bits. */
void show_mode(char out[11], const struct ftp_facts *f);
/* Print a line like that of ls -l, with name instead of the name in f. raw: as show_raw(); human:
 * the size with a unit. */
void show_long(FILE *out, const struct ftp_facts *f, const char *name, bool raw, bool human);
/* Print a name, then the character end. */
void show_name(FILE *out, const char *name, bool raw, char end);
/* Print several lines about one file, as rftp stat. */
void show_stat(FILE *out, const struct ftp_facts *f, const char *name);
/* The same facts as a JSON object of this event; a new reference. NULL: out of memory. */
json_t *show_json(const char *event, const struct ftp_facts *f, const char *name);

/* ---- patterns of names on servers, with the meaning that they have in sh(1); main thread ---- */

struct job;
struct server;

#define WILDCARDS "*?["

/* Has pattern a wildcard? A backslash before a character makes it stand for itself. */
bool glob_is_pattern(const char *pattern);
/* Find the paths on the connected server s that match pattern: in its form, sorted, with a "/" at
 * the end if it has one. path_of makes the path for the server from the beginning of such a path,
 * malloc'd. 0, also with no match; or a negative errno with text: for example -ENOENT for a missing
 * directory that pattern names without a wildcard. */
int glob_there(struct server *s, const char *pattern, char *(*path_of)(void *arg, const char *name),
	       void *arg, struct names *found, struct err *e);
/* Replace each URL of j's words that has a wildcard in its path by the URLs that match, and append
 * all words to all. A URL without a match stays as it is. j->servers keeps the connections. 0, or a
 * negative errno with text. */
int glob_words(struct job *j, struct names *all, struct err *e);

#endif
