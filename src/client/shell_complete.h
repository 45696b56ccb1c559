// SPDX-License-Identifier: Apache-2.0
/* Completion of what is typed in the shell. */
#ifndef RFTP_CLIENT_SHELL_COMPLETE_H
#define RFTP_CLIENT_SHELL_COMPLETE_H

#include "client/shell.h"

struct completion {
	size_t start;         /* bytes from the start of the text: where the word begins */
	bool tilde;           /* it begins with a home's "~", which is not to be quoted */
	struct names names;   /* what it may become, unquoted, sorted; a directory's with "/" */
};

/* text: what stands before the cursor. Names there are asked of the open server, which may take a
 * moment. 0, maybe without any; or a negative errno: nothing can be said; with text where it is the
 * server's. */
int shell_complete(struct shell *sh, const char *text, struct completion *m, struct err *e);
void completion_clear(struct completion *m);
/* What to put in place of the text from start on: all that the names have in common, quoted, and a
 * blank behind the only one; malloc'd. NULL: there is none, or memory is out. */
char *completion_text(const struct completion *m);

#endif
