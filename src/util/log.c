// SPDX-License-Identifier: Apache-2.0
/* Lines for people on stderr. */
#include "util/log.h"

#include "util/cleanup.h"
#include "util/io.h"
#include "util/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LINE_BYTES = 4096 };

/* Set before threads start, read by all of them. */
static const char *ident = "rftp";
static bool stamped;

static int max_level = LOG_LV_INFO; /* atomic: the shell's "set" changes it */

static pthread_mutex_t hook_lock = PTHREAD_MUTEX_INITIALIZER;
static void (*before_line)(void); /* guarded by hook_lock */
static void (*after_line)(void);  /* guarded by hook_lock */
/* Atomic. Whoever has no hook (every server) takes no lock, so that a child forked
 * while another thread logs does not inherit a lock that nobody opens. */
static bool hooked;

void log_init(const char *name, enum log_level max, bool stamp)
{
	ident = name;
	stamped = stamp;
	log_set_level(max);
}

void log_set_level(enum log_level max)
{
	__atomic_store_n(&max_level, (int)max, __ATOMIC_RELAXED);
}

bool log_enabled(enum log_level level)
{
	return (int)level <= __atomic_load_n(&max_level, __ATOMIC_RELAXED);
}

void log_set_hook(void (*before)(void), void (*after)(void))
{
	LOCK_GUARD(guard, &hook_lock);

	before_line = before;
	after_line = after;
	__atomic_store_n(&hooked, before || after, __ATOMIC_RELEASE);
}

/* What one does about a line that cannot be written: nothing. */
static void write_line(const char *line, size_t len)
{
	(void)write_full(STDERR_FILENO, line, len);
}

/* The lock keeps another thread's line from landing between a hook and its line.
 * The hooks must not log. */
static void write_hooked(const char *line, size_t len)
{
	LOCK_GUARD(guard, &hook_lock);

	if (before_line)
		before_line();
	write_line(line, len);
	if (after_line)
		after_line();
}

/* A terminal's reader knows an error when he sees one; a log is searched for it. */
static size_t put_head(char *out, size_t n, enum log_level level)
{
	static const char *const plain[] = { "", "warning: ", "", "debug: " };
	static const char *const full[] = { "error: ", "warning: ", "info: ", "debug: " };
	char date[40] = "";
	struct tm tm;
	time_t now;
	int len;

	if (!stamped) {
		len = snprintf(out, n, "%s: %s", ident, plain[level]);
	} else {
		now = time(NULL);
		if (localtime_r(&now, &tm))
			strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S%z", &tm);
		len = snprintf(out, n, "%s %s[%ld]: %s", date, ident, (long)getpid(), full[level]);
	}
	return (size_t)len < n ? (size_t)len : n - 1;
}

void log_at(enum log_level level, const char *fmt, ...)
{
	char line[LINE_BYTES];
	int saved = errno; /* callers log before they look at it */
	size_t len;
	va_list ap;

	if (!log_enabled(level))
		return;
	len = put_head(line, sizeof(line) - 1, level);
	va_start(ap, fmt);
	vsnprintf(line + len, sizeof(line) - 1 - len, fmt, ap);
	va_end(ap);
	one_line(line);
	len = strlen(line);
	line[len++] = '\n';

	if (__atomic_load_n(&hooked, __ATOMIC_ACQUIRE))
		write_hooked(line, len);
	else
		write_line(line, len);
	errno = saved;
}
