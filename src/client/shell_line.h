// SPDX-License-Identifier: Apache-2.0
/* Lines of the shell and of scripts, cut into commands and words. */
#ifndef RFTP_CLIENT_SHELL_LINE_H
#define RFTP_CLIENT_SHELL_LINE_H

#include "util/util.h"

#include <stdbool.h>
#include <stddef.h>

struct shell_word {
	char *text;     /* what it says; quotes and backslashes are gone */
	char *pattern;  /* for fnmatch(3), with a backslash before what was quoted; NULL: nothing
			 * in it is a wildcard */
	bool tilde;     /* it begins with "~" that was not quoted */
	size_t at;      /* where it begins: bytes from what shell_line_take() was given */
};

/* One command. All zero: an empty one. */
struct shell_line {
	struct shell_word *words;
	size_t n;
	char *pipe;     /* "... | COMMAND": for the system's shell; NULL: none */
	char *outside;  /* "!COMMAND": the same, and there are no words; "" for a shell of its own;
			 * NULL: none */
};

/* Take the first command off *at, which then is behind it: behind its ";", or at the end. Blanks
 * part words; '...' and "..." keep them together, the latter with \" and \\; a backslash takes a
 * character as it is; "#" at the start of a word begins a comment. What follows "|", and a "!" in
 * front, is the system's shell's to the end of the line. 0; -EINVAL with text; -ENOMEM. */
int shell_line_take(const char **at, struct shell_line *l, struct err *e);
void shell_line_clear(struct shell_line *l);

/* text as a word that is taken as it stands, quoted only when it must be; malloc'd. open: without
 * the closing quote, as for one that is still being typed. NULL: memory is out. */
char *shell_quote(const char *text, bool open);

#endif
