// SPDX-License-Identifier: Apache-2.0
/* What is to be said to people, a line each, gathered before it is. */
#ifndef RFTP_ISER_LINES_H
#define RFTP_ISER_LINES_H

#include "util/util.h"

struct lines {
	char **v;
	size_t n;
	bool lost; /* memory was out for one: what is there is not all */
};

void lines_add(struct lines *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* New reference; NULL: memory is out. */
json_t *lines_json(const struct lines *l);
void lines_clear(struct lines *l);
#define CLEANUP_LINES CLEANUP(lines_clear)

#endif
