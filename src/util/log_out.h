// SPDX-License-Identifier: Apache-2.0
/* Inside of util's log only: a line, and how it gets out. */
#ifndef RFTP_UTIL_LOG_OUT_H
#define RFTP_UTIL_LOG_OUT_H

#include "util/log.h"

/* What a line is made of. text is one line without its newline, and harmless on a terminal. */
struct log_line {
	enum log_level level;
	pid_t pid;
	const char *ident, *text;
	const struct log_field *fields;
	size_t nfields;
	bool stamped;     /* as text, for stderr */
};

/* Format it and write it where log_open() said. */
void log_put(const struct log_line *l);

/* A line of another process: ident and stamp are ours, as is the choice of levels. */
void log_again(struct log_line *l);

/* A record of log_set_sink(), at most LOG_RECORD_MAX bytes into out; its length. What does not fit
 * is cut or left out. */
size_t log_pack(uint8_t out[LOG_RECORD_MAX], const struct log_line *l);

#endif
