// SPDX-License-Identifier: Apache-2.0
/* Lists of names, as --files-from reads them. */
#ifndef RFTP_CLIENT_NAMES_H
#define RFTP_CLIENT_NAMES_H

#include "util/util.h"

#include <stdbool.h>
#include <stddef.h>

struct names {
	char **all;  /* NULL at the end */
	size_t n, room;
};

/* The names of file ("-": standard input), one per line, or ended by NUL. All are relative
 * to one directory: a leading "/" and what else names no component is taken out. 0, or a
 * negative errno with text; -EINVAL: a name climbs out. */
int names_read(const char *file, bool nul, struct names *names, struct err *e);
/* Takes name over, also on failure. 0 or -ENOMEM. */
int names_add(struct names *names, char *name);
void names_clear(struct names *names);

/* What is behind the last slash of path: a piece of it. */
const char *name_last(const char *path);
/* "DIR/NAME"; malloc'd. */
char *name_below(const char *dir, const char *name);
/* Does path, as a destination, stand for what goes into it: "", ".", "x/", "x/.."? */
bool names_directory(const char *path);

#endif
