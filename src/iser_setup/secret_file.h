// SPDX-License-Identifier: Apache-2.0
/* Files of CHAP secrets: one line, which only the owner may read. */
#ifndef RFTP_ISER_SECRET_FILE_H
#define RFTP_ISER_SECRET_FILE_H

#include "util/util.h"

/* A new secret in a new file, and in a new directory when there is none; one that is there stays
 * as it is, when secret_check has nothing against it. *made: this has made it. 0, or a negative
 * errno with text; nothing is made then. */
int secret_make(const char *path, bool *made, struct err *e);
/* Is it there, for its owner alone, and fit for CHAP? 0, or a negative errno with text. */
int secret_check(const char *path, struct err *e);

#endif
