// SPDX-License-Identifier: Apache-2.0
/* Lines for the log: which are made, of what, and who gets them. */
#include "util/log.h"

#include "util/cleanup.h"
#include "util/log_out.h"
#include "util/text.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
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

static log_sink_fn *sink; /* set while nobody logs, as is its argument */
static void *sink_arg;

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

void log_set_sink(log_sink_fn *fn, void *arg)
{
	sink = fn;
	sink_arg = arg;
}

static void pass_on(const struct log_line *l)
{
	uint8_t record[LOG_RECORD_MAX];

	sink(sink_arg, record, log_pack(record, l));
}

/* The lock keeps another thread's line from landing between a hook and its line.
 * The hooks must not log. */
static void put_hooked(const struct log_line *l)
{
	LOCK_GUARD(guard, &hook_lock);

	if (before_line)
		before_line();
	log_put(l);
	if (after_line)
		after_line();
}

static void put(const struct log_line *l)
{
	if (sink)
		pass_on(l);
	else if (__atomic_load_n(&hooked, __ATOMIC_ACQUIRE))
		put_hooked(l);
	else
		log_put(l);
}

void log_again(struct log_line *l)
{
	if (!log_enabled(l->level))
		return;
	l->ident = ident;
	l->stamped = stamped;
	put(l);
}

__attribute__((format(printf, 4, 0)))
static void log_v(enum log_level level, const struct log_field *fields, size_t n, const char *fmt,
		  va_list ap)
{
	char text[LINE_BYTES];
	struct log_line l = { .level = level, .pid = getpid(), .ident = ident, .text = text,
			      .fields = fields, .nfields = n, .stamped = stamped };

	vsnprintf(text, sizeof(text), fmt, ap);
	one_line(text);
	put(&l);
}

void log_at(enum log_level level, const char *fmt, ...)
{
	int saved = errno; /* callers log before they look at it */
	va_list ap;

	if (!log_enabled(level))
		return;
	va_start(ap, fmt);
	log_v(level, NULL, 0, fmt, ap);
	va_end(ap);
	errno = saved;
}

void log_event(enum log_level level, const struct log_field *fields, size_t n,
	       const char *fmt, ...)
{
	int saved = errno;
	va_list ap;

	if (!log_enabled(level))
		return;
	va_start(ap, fmt);
	log_v(level, fields, n, fmt, ap);
	va_end(ap);
	errno = saved;
}
