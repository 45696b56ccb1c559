// SPDX-License-Identifier: Apache-2.0
/* Files of CHAP secrets: the first line, which only the owner may read. No text of an error holds
 * one. */
#ifndef RFTP_ISER_SECRET_FILE_H
#define RFTP_ISER_SECRET_FILE_H

#include "util/util.h"

/* A new secret in a new file, and in a new directory when there is none; one that is there stays
 * as it is, when secret_check has nothing against it. *made: this has made it. 0, or a negative
 * errno with text; nothing is made then. */
int secret_make(const char *path, bool *made, struct err *e);
/* Is it there, for its owner alone, and fit for CHAP? 0, or a negative errno with text. */
int secret_check(const char *path, struct err *e);

enum secret_of {
	SECRET_OURS,   /* of targets of ours: fit for CHAP, for LIO, and for every initiator */
	SECRET_THEIRS, /* of whoever made the target: anything that is a line */
};

/* A file's secret, of root or of who we are. The caller frees it with secret_free. NULL with
 * text. */
char *secret_read(const char *path, enum secret_of of, struct err *e);
void secret_free(char *secret); /* wipes it; NULL is harmless */
void cleanup_secret(char **secret);
#define CLEANUP_SECRET CLEANUP(cleanup_secret)

#endif
