// SPDX-License-Identifier: Apache-2.0
/* Where lines of the log go, and as what: text or JSON to stderr, the system's log, the journal
 * or a file. */
#include "util/log_out.h"

#include "util/cleanup.h"
#include "util/io.h"
#include "util/json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

enum { HEAD_BYTES = 128, LINE_BYTES = 4096, FILE_MODE = 0640 };

/* Set by log_open(), while no other thread logs. */
static enum log_target target = LOG_TO_STDERR;
static enum log_format format = LOG_AS_TEXT;
static int out_fd = STDERR_FILENO;
static bool syslog_open;

/* ---- where ---- */

/* systemd.exec(5): "device:inode" of the stream that it has connected to the journal. A program
 * that was started by a service inherits the variable, but has maybe another stderr. */
static bool stderr_is_journal(void)
{
	const char *said = getenv("JOURNAL_STREAM");
	unsigned long long dev, ino;
	struct stat st;

	return said && sscanf(said, "%llu:%llu", &dev, &ino) == 2 && !fstat(STDERR_FILENO, &st) &&
	       st.st_dev == dev && st.st_ino == ino;
}

static int open_file(const char *file, struct err *e)
{
	int fd = append_file_open(file, FILE_MODE, e);

	return fd < 0 ? err_prefix(e, "log file") : fd;
}

static void open_syslog(void)
{
	if (!syslog_open)
		openlog(NULL, LOG_PID | LOG_NDELAY, LOG_FTP);
	syslog_open = true;
}

int log_open(enum log_target t, const char *file, enum log_format f, struct err *e)
{
	int fd = STDERR_FILENO;

	if (t == LOG_TO_STDERR && stderr_is_journal())
		t = LOG_TO_JOURNAL;
	else if (t == LOG_TO_JOURNAL && !stderr_is_journal())
		return err_set(e, -ENOTCONN, "standard error is not connected to the journal: a "
			       "unit of systemd has that");
	if (t == LOG_TO_FILE)
		fd = open_file(file, e);
	if (fd < 0)
		return fd;
	if (t == LOG_TO_SYSLOG)
		open_syslog();
	if (out_fd != STDERR_FILENO)
		close(out_fd);
	out_fd = fd;
	target = t;
	format = f;
	return 0;
}

void log_leave(void)
{
	if (out_fd != STDERR_FILENO)
		close(out_fd);
	if (syslog_open)
		closelog();
	out_fd = STDERR_FILENO;
	target = LOG_TO_STDERR;
	syslog_open = false;
}

/* ---- as what ---- */

static const char *level_name(enum log_level level)
{
	static const char *const names[] = { "error", "warning", "info", "debug" };

	return names[level];
}

static int priority(enum log_level level)
{
	static const int of[] = { LOG_ERR, LOG_WARNING, LOG_INFO, LOG_DEBUG };

	return of[level];
}

/* A terminal's reader knows an error when he sees one; a log is searched for it. */
static const char *plain_mark(enum log_level level)
{
	return level == LOG_LV_WARN ? "warning: " : level == LOG_LV_DEBUG ? "debug: " : "";
}

/* What stands before the text. */
static void put_head(char out[HEAD_BYTES], const struct log_line *l)
{
	char date[40] = "";
	struct tm tm;
	time_t now;

	if (target == LOG_TO_SYSLOG) {
		*out = '\0'; /* which has it all */
	} else if (target == LOG_TO_JOURNAL) {
		snprintf(out, HEAD_BYTES, "<%d>%s", priority(l->level), plain_mark(l->level));
	} else if (!l->stamped && target == LOG_TO_STDERR) {
		snprintf(out, HEAD_BYTES, "%s: %s", l->ident, plain_mark(l->level));
	} else {
		now = time(NULL);
		if (localtime_r(&now, &tm))
			strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S%z", &tm);
		snprintf(out, HEAD_BYTES, "%s %s[%ld]: %s: ", date, l->ident, (long)l->pid,
			 level_name(l->level));
	}
}

static void wipe_free(char **p)
{
	if (*p)
		explicit_bzero(*p, strlen(*p));
	free(*p);
}
#define CLEANUP_WIPE __attribute__((cleanup(wipe_free)))

static char *as_text(const struct log_line *l)
{
	char head[HEAD_BYTES], *out = malloc(LINE_BYTES);

	if (!out)
		return NULL;
	put_head(head, l);
	snprintf(out, LINE_BYTES, "%s%.*s\n", head, (int)(LINE_BYTES - 2 - strlen(head)),
		 l->text);
	return out;
}

/* RFC 3339, of a time zone that needs no thought. */
static void put_time(json_t *line)
{
	char date[32], text[48] = "";
	struct timespec now;
	struct tm tm;

	clock_gettime(CLOCK_REALTIME, &now);
	if (gmtime_r(&now.tv_sec, &tm) && strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm))
		snprintf(text, sizeof(text), "%s.%03ldZ", date, now.tv_nsec / 1000000);
	json_object_set_new(line, "time", json_string(text));
}

static void put_field(json_t *line, const struct log_field *f)
{
	switch (f->type) {
	case LOG_IS_NAME:
		if (f->name)
			json_set_name(line, f->key, f->name);
		break;
	case LOG_IS_NUMBER:
		json_object_set_new(line, f->key, json_integer((json_int_t)f->number));
		break;
	case LOG_IS_REAL:
		json_object_set_new(line, f->key, json_real(f->real));
		break;
	}
}

static char *as_json(const struct log_line *l)
{
	CLEANUP_WIPE char *bare = NULL;
	json_t *line = json_object();
	size_t room;
	char *out;

	if (!line)
		return NULL;
	put_time(line);
	json_object_set_new(line, "level", json_string(level_name(l->level)));
	json_object_set_new(line, "pid", json_integer(l->pid));
	json_object_set_new(line, "ident", json_string(l->ident));
	json_object_set_new(line, "message", json_name(l->text));
	for (size_t i = 0; i < l->nfields; i++)
		put_field(line, &l->fields[i]);
	bare = json_line(line);
	if (!bare || target != LOG_TO_JOURNAL)
		return steal_ptr(&bare);
	room = strlen(bare) + 4;
	out = malloc(room);
	if (out)
		snprintf(out, room, "<%d>%s", priority(l->level), bare);
	return out;
}

/* What one does about a line that cannot be written: nothing. Lines are of people, and processes of
 * others are forked, which are not to find them in memory that is free. */
void log_put(const struct log_line *l)
{
	CLEANUP_WIPE char *line = format == LOG_AS_JSON ? as_json(l) : as_text(l);

	if (!line)
		return;
	if (target != LOG_TO_SYSLOG) {
		(void)write_full(out_fd, line, strlen(line));
		return;
	}
	line[strcspn(line, "\n")] = '\0';
	syslog(priority(l->level), "%s", line);
}
