// SPDX-License-Identifier: Apache-2.0
/* Lines from a terminal, with a prompt. */
#ifndef RFTP_CLIENT_SHELL_EDIT_H
#define RFTP_CLIENT_SHELL_EDIT_H

#include "client/shell.h"

struct editor;

/* NULL: memory is out. */
struct editor *editor_new(struct shell *sh);
/* Keeps the history. NULL is harmless. */
void editor_free(struct editor *ed);
/* The next line, without its end; malloc'd. NULL: no more comes, or a signal has. */
char *editor_line(struct editor *ed);

/* What stands before the line: where the shell is, in at most half of width columns. out: n bytes.
 * Its length. */
size_t shell_prompt_text(const struct shell *sh, unsigned width, char *out, size_t n);
/* $XDG_STATE_HOME/rftp/history or ~/.local/state/rftp/history, its directory made; malloc'd. NULL:
 * there is no home, or it cannot be made. */
char *shell_history_file(void);

#endif
