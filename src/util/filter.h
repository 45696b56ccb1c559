// SPDX-License-Identifier: Apache-2.0
/* Filters: which files of a tree are copied. Rules include or exclude names by patterns with the
 * meaning that they have for rsync (rsync(1), "PATTERN MATCHING RULES"); the first rule that
 * matches a name decides, and a name without a matching rule is included. Limits on size, age and filesystem
 * apply to what the rules include.
 *
 * The path that a pattern is matched with begins at the destination: "rftp put -r src ..." has
 * "src/a", "rftp put -r src/ ..." has "a". */
#ifndef RFTP_UTIL_FILTER_H
#define RFTP_UTIL_FILTER_H

#include "util/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FILTER_RULES_MAX 4096u
#define FILTER_PATTERN_MAX 4096u       /* bytes of a pattern */
#define FILTER_BYTES_MAX (256u << 10)  /* bytes of all patterns */

struct filter_rule;

struct filter {
	struct filter_rule *rules;  /* [n] in their order */
	size_t n, room;
	size_t bytes;               /* of all patterns */
	bool fixed;                 /* the options are loaded again: ignore further rules */
	uint64_t size_least;        /* bytes; smaller files are left out */
	uint64_t size_most;         /* bytes; bigger files are left out. 0: no limit */
	int64_t newer_s;            /* seconds since 1970; older files are left out. 0: no limit */
	bool one_filesystem;        /* do not enter directories of other filesystems */
};

/* Append a rule. 0; -EINVAL with text: the pattern is empty, too long or does not close; -E2BIG:
 * too many rules; -ENOMEM. */
int filter_add(struct filter *f, bool include, const char *pattern, struct err *e);
/* Append a rule in the form of rsync's --exclude: "- PATTERN" excludes, "+ PATTERN" includes, "!"
 * removes all rules before it, and any other text is a pattern for include. */
int filter_add_text(struct filter *f, bool include, const char *text, struct err *e);
/* Append the rules of file ("-" is standard input), one in a line: "- PATTERN" or "exclude PATTERN",
 * "+ PATTERN" or "include PATTERN", "!". Empty lines and those that begin with "#" or ";" are ignored.
 * Errors name file and line. */
int filter_read(struct filter *f, const char *file, struct err *e);

/* Rule i, for a message to another process. */
const char *filter_pattern(const struct filter *f, size_t i, bool *include);

/* Do the rules include path, which has no "/" at its start or end? The time is limited by the
 * product of the lengths of pattern and path. */
bool filter_admits(const struct filter *f, const char *path, bool is_dir);
/* Do the limits include a file of this size and time? */
bool filter_admits_file(const struct filter *f, uint64_t size, int64_t mtime_s);
/* Does the filter leave anything out? NULL: no. */
bool filter_is_set(const struct filter *f);

/* Make to a copy of from. 0 or -ENOMEM; then to is empty. */
int filter_copy(struct filter *to, const struct filter *from);
/* Free the rules, and make f empty. */
void filter_clear(struct filter *f);

#endif
