// SPDX-License-Identifier: Apache-2.0
/* Log lines as text for people or JSON for programs, to stderr, syslog, the journal or a file. Each
 * line is one write(2), so that lines of several threads and processes do not mix. */
#ifndef RFTP_UTIL_LOG_H
#define RFTP_UTIL_LOG_H

#include "util/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum log_level { LOG_LV_ERROR, LOG_LV_WARN, LOG_LV_INFO, LOG_LV_DEBUG };

/* ident ("rftp") is printed before every line; stamped adds date, time and pid, for a server. Call
 * once, before threads start. Without it nothing is logged. */
void log_init(const char *ident, enum log_level max, bool stamped);
void log_set_level(enum log_level max);
bool log_enabled(enum log_level level);

#define log_at(level, ...) log_event((level), NULL, 0, __VA_ARGS__)
#define log_error(...) log_at(LOG_LV_ERROR, __VA_ARGS__)
#define log_warn(...) log_at(LOG_LV_WARN, __VA_ARGS__)
#define log_info(...) log_at(LOG_LV_INFO, __VA_ARGS__)
#define log_debug(...) log_at(LOG_LV_DEBUG, __VA_ARGS__)

/* ---- fields for programs ---- */

enum log_type { LOG_IS_NAME, LOG_IS_NUMBER, LOG_IS_REAL };

/* A member of a JSON line. The key has lower case letters and "_" only; a name is any bytes,
 * NULL: the field is left out. */
struct log_field {
	const char *key;
	enum log_type type;
	const char *name;
	uint64_t number;
	double real;
};

#define LOG_NAME(key_, v) { .key = (key_), .type = LOG_IS_NAME, .name = (v) }
#define LOG_NUMBER(key_, v) { .key = (key_), .type = LOG_IS_NUMBER, .number = (v) }
#define LOG_REAL(key_, v) { .key = (key_), .type = LOG_IS_REAL, .real = (v) }

#define LOG_FIELDS_MAX 16

/* Log a line; in JSON the n fields, at most LOG_FIELDS_MAX, stand beside the message. The text
 * format does not show them: the message must contain the same facts. */
void log_event(enum log_level level, const struct log_field *fields, size_t n,
	       const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* ---- destinations ---- */

enum log_target { LOG_TO_STDERR, LOG_TO_SYSLOG, LOG_TO_JOURNAL, LOG_TO_FILE };
enum log_format { LOG_AS_TEXT, LOG_AS_JSON };

/* Send later lines to target. The file of LOG_TO_FILE is always reopened, because log rotation
 * renames it. LOG_TO_STDERR becomes LOG_TO_JOURNAL when standard error is connected to the journal
 * (JOURNAL_STREAM); LOG_TO_JOURNAL is an error when it is not. Not while other threads log. 0; or a
 * negative errno with text, and nothing has changed. */
int log_open(enum log_target target, const char *file, enum log_format format, struct err *e);

/* Write lines also to file, with date, time and pid: all of info and above, and those of the log
 * level. NULL: no longer. Not while other threads log. 0; or a negative errno with text, and nothing
 * has changed. */
int log_also(const char *file, struct err *e);
/* Write a line of info to that file only. */
void log_only_there(const char *text);

/* Close the destination; further lines go to standard error unless there is a sink. Not while other
 * threads log. */
void log_leave(void);

/* Call before and after around each line, for a progress line that must be cleared first and drawn
 * again afterwards; NULL: none. A lock is held from before to after: the hooks must not log. */
void log_set_hook(void (*before)(void), void (*after)(void));

/* ---- lines that another process writes ---- */

#define LOG_RECORD_MAX 16384 /* bytes of a record, at most */

/* Gets a line as a record for log_relay(). Any thread; must not log. */
typedef void log_sink_fn(void *arg, const void *record, size_t len);

/* Pass later lines to fn instead of writing them; NULL: write them in this process again. Before
 * threads start, or while no thread logs. */
void log_set_sink(log_sink_fn *fn, void *arg);

/* Write a record from the sink of the untrusted process pid, if it is well-formed and its level is
 * logged here. peer: the address of the process's peer, which becomes the member "peer" and is
 * added to the text; NULL: keep the record as it is. 0, or -EPROTO: malformed. */
int log_relay(pid_t pid, const char *peer, const void *record, size_t len);

#endif
