// SPDX-License-Identifier: Apache-2.0
/* Lines for a person, kept until they are wanted. */
#ifndef RFTP_ISER_NOTES_H
#define RFTP_ISER_NOTES_H

#include "util/util.h"

struct notes {
	char **line;
	size_t n;
};

/* One more line. Without memory there is none. */
void notes_add(struct notes *n, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void notes_clear(struct notes *n);
#define CLEANUP_NOTES CLEANUP(notes_clear)

#endif
