// SPDX-License-Identifier: Apache-2.0
/* Configuration files: "key value" or "key = value" lines, "#" comments (but no ";"),
 * "[section name]" headers, "..." quotes with \" and \\ inside. The reader calls
 * back once per header and setting; errors name file and line. */
#ifndef RFTP_UTIL_CONF_H
#define RFTP_UTIL_CONF_H

#include "util/err.h"

/* section is "" before the first header; key and value are NULL for a header itself. A
 * negative errno, with the reason in e,
 * ends the reading; conf_read puts "FILE:LINE: " before it. */
typedef int conf_fn(void *arg, const char *section, const char *key, const char *value,
		    struct err *e);

/* What a reading is for whom. */
struct conf_reader {
	conf_fn *fn;
	void *arg;         /* fn's and bad's */
	/* Told of each line that is wrong, and then the reading goes on behind it; NULL: the
	 * first one ends it. */
	void (*bad)(void *arg, const struct err *e);
	unsigned int line; /* the one that fn is called for, from 1 */
};

/* Returns 0; -ENOENT when path does not exist (e untouched); another negative
 * errno with text in e. */
int conf_read(const char *path, conf_fn *fn, void *arg, struct err *e);
/* The same on text in memory; name stands for the file in errors. */
int conf_parse(const char *name, const char *text, conf_fn *fn, void *arg, struct err *e);
/* The same for all of r; with r->bad 0 also where lines were wrong. */
int conf_read_with(const char *path, struct conf_reader *r, struct err *e);

#endif
