// SPDX-License-Identifier: Apache-2.0
/* Manifests: lists of files with their digests. Main thread, unless a comment says otherwise. A line
 * is that of sha256sum(1), or, if the file's name ends in .json or .jsonl, a JSON object. */
#ifndef RFTP_CLIENT_MANIFEST_H
#define RFTP_CLIENT_MANIFEST_H

#include "proto/proto.h"
#include "util/util.h"

/* ---- reading ---- */

/* The digest_name() of --alg's value; NULL with text. */
const char *digest_option(const char *alg, struct err *e);
/* Is hex a digest of the algorithm alg, a digest_name()? */
bool digest_fits(const char *alg, const char *hex);

struct manifest_file {
	char *path;            /* relative, without "." and ".." */
	const char *alg;       /* a digest_name() */
	char hex[129];
};

struct manifest_list {
	struct manifest_file *v; /* [n] sorted by path */
	size_t n, room;
};

/* Read file ("-": standard input). alg: of lines that do not say it; NULL: from the length of the
 * digest. 0, and manifest_list_clear() frees l; or a negative errno with text, which has the number
 * of the line: it cannot be parsed, its path leads out of the directory, or another line has the
 * same path. */
int manifest_read(const char *file, const char *alg, struct manifest_list *l, struct err *e);
void manifest_list_clear(struct manifest_list *l);

/* ---- writing ---- */

struct manifest;

/* Print a line of sha256sum(1). On a terminal the name is made printable. */
void manifest_line(FILE *out, const char *name, const char *hex);
/* Begin the file, which appears when it is complete; "-": standard output. alg: a digest_name().
 * NULL with text. */
struct manifest *manifest_new(const char *file, const char *alg, struct err *e);
/* Add the file at path rel from its report r, which has a digest. One thread at a time. */
void manifest_add(struct manifest *m, const char *rel, const struct file_report *r);
/* Complete the file, or without keep leave the old one alone; and free m. An old file also stays if
 * no file was added: it may be the proof of an earlier run. 0, or a negative errno after an error
 * message. NULL: 0. */
int manifest_end(struct manifest *m, bool keep);

#endif
