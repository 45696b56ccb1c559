// SPDX-License-Identifier: Apache-2.0
/* The destination rule: where a source that was named goes, the same on a rerun. */
#ifndef RFTP_TRANSFER_DEST_H
#define RFTP_TRANSFER_DEST_H

#include "util/util.h"

#include <stdbool.h>

/* What is known of a destination before the first entry. */
struct dest {
	bool slash;    /* it ends in "/" (or is "", ".", or must be a directory by option) */
	bool exists;
	bool is_dir;   /* after following links */
	bool several;  /* more than one source goes there */
};

enum dest_place {
	DEST_INTO,     /* under the source's name in the directory */
	DEST_AS,       /* under the destination's own name */
	DEST_CONTENTS, /* a directory's contents into the directory itself */
};

/* Where a source goes: dir: it is a directory; contents: it was named with a "/".
 * 0 with *place and *make (the destination directory must be made first); -ENOTDIR and
 * -EINVAL with a text that says what to write instead; path is for that text. */
int dest_resolve(const struct dest *d, const char *path, bool dir, bool contents,
		 enum dest_place *place, bool *make, struct err *e);

#endif
