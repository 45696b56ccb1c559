// SPDX-License-Identifier: Apache-2.0
/* Lines for people: to stderr, one write(2) per line, so that lines of several
 * threads and processes do not mix. */
#ifndef RFTP_UTIL_LOG_H
#define RFTP_UTIL_LOG_H

#include <stdbool.h>

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

/* Called with every finished line before it is written, for a progress line
 * that must be cleared first and drawn again after; NULL: none. A lock is held from
 * before to after: the hooks must not log. */
void log_set_hook(void (*before)(void), void (*after)(void));

#endif
