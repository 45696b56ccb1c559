// SPDX-License-Identifier: Apache-2.0
/* Log lines: their formats, their destinations, and their records for another process. */
#include "util/log.h"

#include "util/base.h"
#include "util/io.h"
#include "util/json.h"
#include "util/units.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <syslog.h>

enum {
	HEAD_BYTES = 128, LINE_BYTES = 4096, FILE_MODE = 0640,
	/* limits of a record */
	TEXT_MAX = 4096, NAME_MAX_BYTES = 5000, PEER_MAX = 80,
};

/* text is one line without its newline, and harmless on a terminal. */
struct log_line {
	enum log_level level;
	pid_t pid;
	const char *text;
	const struct log_field *fields;
	size_t nfields;
};

/* Set before threads start, or while no other thread logs. */
static const char *ident = "rftp";
static bool stamped;
static enum log_target target = LOG_TO_STDERR;
static enum log_format format = LOG_AS_TEXT;
static int out_fd = STDERR_FILENO;
static bool syslog_open;
static int also_fd = -1; /* of log_also() */
static char *also_file;
static log_sink_fn *sink;
static void *sink_arg;

/* Atomic: the shell's "set" changes it. Nothing is logged before log_init(): librftp shares this
 * code and must not write to its host's standard error. */
static int max_level = LOG_LV_ERROR - 1;

static pthread_mutex_t hook_lock = PTHREAD_MUTEX_INITIALIZER;
static void (*before_line)(void); /* guarded by hook_lock */
static void (*after_line)(void);  /* guarded by hook_lock */
/* Atomic. A process without hooks, such as every server, takes no lock: a child that is forked
 * while another thread logs would inherit a mutex that is never unlocked. */
static bool hooked;

static const char *const level_names[] = { "error", "warning", "info", "debug" };
static const int priorities[] = { LOG_ERR, LOG_WARNING, LOG_INFO, LOG_DEBUG };

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

/* ---- destinations ---- */

static void line_write_also(const struct log_line *l);

/* systemd.exec(5): JOURNAL_STREAM is "device:inode" of the stream that systemd connected to the
 * journal. A child of the service inherits the variable, but may have another stderr. */
static bool stderr_is_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long dev, ino;
	struct stat st;

	return stream && sscanf(stream, "%llu:%llu", &dev, &ino) == 2 &&
	       !fstat(STDERR_FILENO, &st) && st.st_dev == dev && st.st_ino == ino;
}

int log_open(enum log_target t, const char *file, enum log_format f, struct err *e)
{
	int fd = STDERR_FILENO;

	if (t == LOG_TO_STDERR && stderr_is_journal())
		t = LOG_TO_JOURNAL;
	else if (t == LOG_TO_JOURNAL && !stderr_is_journal())
		return err_set(e, -ENOTCONN, "standard error is not connected to the journal, as in "
			       "a systemd unit");
	if (t == LOG_TO_FILE) {
		fd = append_file_open(file, FILE_MODE, e);
		if (fd < 0)
			return err_prefix(e, "log file");
	}
	if (t == LOG_TO_SYSLOG && !syslog_open) {
		openlog(NULL, LOG_PID | LOG_NDELAY, LOG_FTP);
		syslog_open = true;
	}
	if (out_fd != STDERR_FILENO)
		close(out_fd);
	out_fd = fd;
	target = t;
	format = f;
	return 0;
}

int log_also(const char *file, struct err *e)
{
	char *copy = NULL;
	int fd = -1;

	if (file && also_file && !strcmp(file, also_file))
		return 0;
	if (file) {
		copy = strdup(file);
		fd = copy ? append_file_open(file, FILE_MODE, e) : err_nomem(e);
		if (fd < 0) {
			free(copy);
			return err_prefix(e, "log file");
		}
	}
	cleanup_close(&also_fd);
	free(also_file);
	also_fd = fd;
	also_file = copy;
	return 0;
}

void log_only_there(const char *text)
{
	if (also_fd >= 0)
		line_write_also(&(struct log_line){ .level = LOG_LV_INFO, .pid = getpid(),
						    .text = text });
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

/* ---- formats ---- */

static char *line_as_text(const struct log_line *l, bool stamp)
{
	/* On a terminal the text itself shows that it is an error or plain information. */
	const char *mark = l->level == LOG_LV_WARN ? "warning: " :
			   l->level == LOG_LV_DEBUG ? "debug: " : "";
	char head[HEAD_BYTES] = "", date[40] = "", *out = malloc(LINE_BYTES);
	struct tm tm;
	time_t now;

	if (!out)
		return NULL;
	if (target == LOG_TO_JOURNAL) {
		snprintf(head, sizeof(head), "<%d>%s", priorities[l->level], mark);
	} else if (!stamp && target == LOG_TO_STDERR) {
		snprintf(head, sizeof(head), "%s: %s", ident, mark);
	} else if (target != LOG_TO_SYSLOG) { /* syslog adds all this itself */
		now = time(NULL);
		if (localtime_r(&now, &tm))
			strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S%z", &tm);
		snprintf(head, sizeof(head), "%s %s[%ld]: %s: ", date, ident, (long)l->pid,
			 level_names[l->level]);
	}

	snprintf(out, LINE_BYTES, "%s%.*s\n", head, (int)(LINE_BYTES - 2 - strlen(head)), l->text);
	return out;
}

static void line_wipe(char **p)
{
	if (*p)
		explicit_bzero(*p, strlen(*p));
	free(*p);
}

static char *line_as_json(const struct log_line *l)
{
	char *bare CLEANUP(line_wipe) = NULL, *out, date[32], text[48] = "";
	json_t *line = json_object();
	struct timespec now;
	struct tm tm;

	if (!line)
		return NULL;
	clock_gettime(CLOCK_REALTIME, &now); /* RFC 3339, UTC */
	if (gmtime_r(&now.tv_sec, &tm) && strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm))
		snprintf(text, sizeof(text), "%s.%03ldZ", date, now.tv_nsec / 1000000);
	json_object_set_new(line, "time", json_string(text));
	json_object_set_new(line, "level", json_string(level_names[l->level]));
	json_object_set_new(line, "pid", json_integer(l->pid));
	json_object_set_new(line, "ident", json_string(ident));
	json_object_set_new(line, "message", json_name(l->text));
	for (size_t i = 0; i < l->nfields; i++) {
		const struct log_field *f = &l->fields[i];

		if (f->type == LOG_IS_NUMBER)
			json_object_set_new(line, f->key, json_integer((json_int_t)f->number));
		else if (f->type == LOG_IS_REAL)
			json_object_set_new(line, f->key, json_real(f->real));
		else if (f->name)
			json_set_name(line, f->key, f->name);
	}

	bare = json_line(line);
	if (!bare || target != LOG_TO_JOURNAL)
		return steal_ptr(&bare);
	return asprintf(&out, "<%d>%s", priorities[l->level], bare) < 0 ? NULL : out;
}

/* A line that cannot be written is lost. Lines contain personal data, so wipe them: later children
 * of this process inherit its freed memory. */
static void line_write(const struct log_line *l)
{
	char *line CLEANUP(line_wipe) = format == LOG_AS_JSON ? line_as_json(l) : line_as_text(l, stamped);

	if (!line)
		return;
	if (target != LOG_TO_SYSLOG) {
		(void)write_full(out_fd, line, strlen(line));
		return;
	}
	line[strcspn(line, "\n")] = '\0';
	syslog(priorities[l->level], "%s", line);
}

static void line_write_also(const struct log_line *l)
{
	char *line CLEANUP(line_wipe) = line_as_text(l, true);

	if (line)
		(void)write_full(also_fd, line, strlen(line));
}

static void line_to_sink(const struct log_line *l);

static void line_log(const struct log_line *l)
{
	if (also_fd >= 0)
		line_write_also(l);
	if (!log_enabled(l->level))
		return;
	if (sink) {
		line_to_sink(l);
	} else if (__atomic_load_n(&hooked, __ATOMIC_ACQUIRE)) {
		/* The lock prevents another thread from logging between a hook and its line. */
		LOCK_GUARD(guard, &hook_lock);

		if (before_line)
			before_line();
		line_write(l);
		if (after_line)
			after_line();
	} else {
		line_write(l);
	}
}

void log_event(enum log_level level, const struct log_field *fields, size_t n, const char *fmt, ...)
{
	int saved = errno; /* callers may log before they read errno */
	char text[LINE_BYTES];
	struct log_line l = { .level = level, .pid = getpid(), .text = text, .fields = fields,
			      .nfields = n };
	va_list ap;

	if (!log_enabled(level) && (also_fd < 0 || level > LOG_LV_INFO))
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	one_line(text);
	line_log(&l);
	errno = saved;
}

/* ---- records: a byte with the level, a byte with the number of fields, and strings: the text,
 * then key and value of each field; a value begins with the letter of its type ---- */

/* Fields that do not fit into the record are left out. */
static void line_to_sink(const struct log_line *l)
{
	char record[LOG_RECORD_MAX];
	size_t len = 2 + strlen(l->text) + 1;

	record[0] = (char)l->level;
	record[1] = 0;
	strcpy(record + 2, l->text);
	for (size_t i = 0; i < l->nfields && record[1] < LOG_FIELDS_MAX; i++) {
		const struct log_field *f = &l->fields[i];
		size_t room = sizeof(record) - len;
		int n;

		if (f->type == LOG_IS_NUMBER)
			n = snprintf(record + len, room, "%s%cu%" PRIu64, f->key, '\0', f->number);
		else if (f->type == LOG_IS_REAL)
			n = snprintf(record + len, room, "%s%cr%.17g", f->key, '\0', f->real);
		else if (f->name)
			n = snprintf(record + len, room, "%s%cn%.*s", f->key, '\0',
				     NAME_MAX_BYTES, f->name);
		else
			continue;
		if ((size_t)n >= room)
			break;
		len += (size_t)n + 1;
		record[1]++;
	}

	sink(sink_arg, record, len);
}

struct unpacked {
	struct log_field fields[LOG_FIELDS_MAX + 1]; /* + 1: the peer; strings are in the record */
	char text[PEER_MAX + TEXT_MAX + 1];
};

/* The string at *at; moves *at behind it. NULL: the record ends before the string does. */
static const char *record_string(const char **at, const char *end)
{
	const char *s = *at, *nul = memchr(s, '\0', (size_t)(end - s));

	*at = nul ? nul + 1 : end;
	return nul ? s : NULL;
}

/* A record must not repeat a member that this process writes itself. */
static bool key_is_allowed(const char *key)
{
	static const char *const ours[] = { "time", "level", "pid", "ident", "message" };

	for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
		if (!strcmp(key, ours[i]))
			return false;
	return *key && strspn(key, "abcdefghijklmnopqrstuvwxyz_") == strlen(key);
}

static int record_get_field(const char **at, const char *end, struct log_field *f)
{
	const char *key = record_string(at, end), *value = record_string(at, end);
	char *rest;

	if (!key || !value || !key_is_allowed(key))
		return -EPROTO;
	*f = (struct log_field){ .key = key, .name = *value ? value + 1 : "" };
	switch (*value) {
	case 'n':
		f->type = LOG_IS_NAME;
		return 0;
	case 'u':
		f->type = LOG_IS_NUMBER;
		return parse_uint(f->name, 0, UINT64_MAX, &f->number) < 0 ? -EPROTO : 0;
	case 'r':
		f->type = LOG_IS_REAL;
		f->real = strtod(f->name, &rest);
		return *rest || rest == f->name ? -EPROTO : 0;
	default:
		return -EPROTO;
	}
}

static int record_unpack(struct unpacked *u, struct log_line *l, const void *record, size_t len)
{
	const char *at = (const char *)record + 2, *end = (const char *)record + len, *text;
	const uint8_t *head = record;

	if (len < 2 || len > LOG_RECORD_MAX || head[0] > LOG_LV_DEBUG || head[1] > LOG_FIELDS_MAX)
		return -EPROTO;
	text = record_string(&at, end);
	if (!text || strlen(text) > TEXT_MAX)
		return -EPROTO;
	strcpy(u->text, text);
	one_line(u->text);
	for (size_t i = 0; i < head[1]; i++)
		if (record_get_field(&at, end, &u->fields[i]))
			return -EPROTO;
	l->level = (enum log_level)head[0];
	l->nfields = head[1];
	return at == end ? 0 : -EPROTO;
}

/* Replace the record's own "peer", and put peer before a text that does not contain it. */
static void line_set_peer(struct unpacked *u, struct log_line *l, const char *peer)
{
	struct log_field ours = LOG_NAME("peer", peer);
	size_t n = 0, len = strnlen(peer, PEER_MAX - 3);

	for (size_t i = 0; i < l->nfields; i++)
		if (strcmp(u->fields[i].key, ours.key))
			u->fields[n++] = u->fields[i];
	u->fields[n++] = ours;
	l->nfields = n;
	if (strstr(u->text, peer))
		return;
	memmove(u->text + len + 2, u->text, strlen(u->text) + 1);
	memcpy(u->text, peer, len);
	memcpy(u->text + len, ": ", 2);
}

int log_relay(pid_t pid, const char *peer, const void *record, size_t len)
{
	struct unpacked u;
	struct log_line l = { .pid = pid, .text = u.text, .fields = u.fields };
	int rc = record_unpack(&u, &l, record, len);

	if (rc)
		return rc;
	if (peer)
		line_set_peer(&u, &l, peer);
	if (log_enabled(l.level))
		line_log(&l);
	return 0;
}
