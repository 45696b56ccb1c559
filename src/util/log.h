// SPDX-License-Identifier: Apache-2.0
/* Lines for people, and for programs as JSON: to stderr, the system's log, the journal or a
 * file, one write(2) per line, so that lines of several threads and processes do not mix. */
#ifndef RFTP_UTIL_LOG_H
#define RFTP_UTIL_LOG_H

#include "util/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum log_level { LOG_LV_ERROR, LOG_LV_WARN, LOG_LV_INFO, LOG_LV_DEBUG };

/* ident stands before every line ("rftp"); stamped puts date, time and pid
 * before it (a server's log). Call once, before threads start. */
void log_init(const char *ident, enum log_level max, bool stamped);
void log_set_level(enum log_level max);
bool log_enabled(enum log_level level);

void log_at(enum log_level level, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

#define log_error(...) log_at(LOG_LV_ERROR, __VA_ARGS__)
#define log_warn(...) log_at(LOG_LV_WARN, __VA_ARGS__)
#define log_info(...) log_at(LOG_LV_INFO, __VA_ARGS__)
#define log_debug(...) log_at(LOG_LV_DEBUG, __VA_ARGS__)

/* ---- what programs read ---- */

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

/* As log_at; in JSON the fields, at most LOG_FIELDS_MAX, stand beside the message. As text the
 * message has to say it all. */
void log_event(enum log_level level, const struct log_field *fields, size_t n,
	       const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* ---- where lines go ---- */

enum log_target { LOG_TO_STDERR, LOG_TO_SYSLOG, LOG_TO_JOURNAL, LOG_TO_FILE };
enum log_format { LOG_AS_TEXT, LOG_AS_JSON };

/* From now on lines go there; file, for LOG_TO_FILE, is opened anew even when it is the one of
 * before: whoever rotates it has renamed that. Not while other threads log. 0; or a negative
 * errno with text, and nothing is changed. Standard error that is the journal's (JOURNAL_STREAM)
 * gets lines as the journal wants them, whichever of the two was asked for; LOG_TO_JOURNAL is
 * an error where it is not. */
int log_open(enum log_target target, const char *file, enum log_format format, struct err *e);

/* Called with every finished line before it is written, for a progress line
 * that must be cleared first and drawn again after; NULL: none. A lock is held from
 * before to after: the hooks must not log. */
void log_set_hook(void (*before)(void), void (*after)(void));

/* ---- by way of another process ---- */

/* A line that is handed on instead of written, as log_relay() takes it. Any thread. */
typedef void log_sink_fn(void *arg, const void *record, size_t len);

#define LOG_RECORD_MAX 16384 /* bytes of a record, at most */

/* Lines go to fn instead of where log_open() said; NULL: no more. Before threads start, or while
 * none logs. fn must not log. */
void log_set_sink(log_sink_fn *fn, void *arg);
/* Where this process has written its lines is closed; they go to standard error, if not to a
 * sink. Not while other threads log. */
void log_leave(void);
/* Write what the sink of process pid was given, if it is as it should be and of a level that is
 * logged here: whoever sends it may be anyone. peer, whom it serves, is then the member of that
 * name, and is named in the text; NULL: as it says. 0, or -EPROTO. */
int log_relay(pid_t pid, const char *peer, const void *record, size_t len);

#endif
