// SPDX-License-Identifier: Apache-2.0
/* What LIST and NLST say, as text: their options, patterns, and lines as ls -l prints them. */
#ifndef RFTP_CONTROL_LS_H
#define RFTP_CONTROL_LS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

struct ls_options {
	bool all;        /* -a: "." and "..", too; what else begins with a dot is always there */
	bool itself;     /* -d: a directory, not what is in it */
	bool recursive;  /* -R */
	bool names;      /* -1, without -l behind it: names alone */
};

/* Take the options in front of arg into o, which has what is true without them; those that are
 * not known are passed over. The path behind them, "" for none. */
char *ls_options_take(char *arg, struct ls_options *o);

/* Has text a "*", a "?" or a "["? */
bool ls_is_pattern(const char *text);
/* Is name, without slashes, one of the pattern's? "*", "?", "[a-z]", "[!a-z]", and a backslash
 * before what is meant as it is; a dot at the beginning is matched by a dot only. In time
 * proportional to both lengths' product, whatever a stranger sends. */
bool ls_match(const char *pattern, const char *name);

/* "-rw-r--r--    1 1000     1000            6 Jan  1 12:34 ", behind which the name belongs. now:
 * seconds since 1970: what is older than half a year, or in the future, has its year in place of
 * the time. Times are UTC. */
#define LS_LINE 128
void ls_line(char out[LS_LINE], const struct stat *st, int64_t now);

#endif
